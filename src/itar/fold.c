/* Opens a fold and reads from it. group.c determines which rows form a sample. */
#include "itar/fold.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"
#include "itar/folder.h"
#include "tar/reader.h"

/* --- Opening ----------------------------------------------------------------------- */

static tarn_status identify_all(const char *const *paths, size_t count,
                                tarn__file_id *ids, uint64_t *sizes, tarn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        TARN_TRY(tarn__file_identify(paths[i], &ids[i], err));
        sizes[i] = ids[i].size;
    }
    return TARN_OK;
}

static tarn_status stale(const tarn__fold *f, tarn_error *err, const char *what,
                         const char *shard)
{
    return tarn__fail_at(err, TARN_ERR_STALE, f->index->path, TARN_NO_OFFSET,
                         "%s %s; run tarn index again", what,
                         TARN__SHOW(shard, strlen(shard)));
}

/* With a .tarsum, the shards must match it: first names, then sizes. */
static tarn_status check_stamps(const tarn__fold *f, const char *const *paths,
                                const uint64_t *sizes, size_t count, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    for (size_t i = 0; i < count || i < sums->n_shards; i++) {
        const char *have = i < count ? tarn__base_name(paths[i]) : NULL;
        const char *want =
            i < sums->n_shards ? tarn__names_get(&sums->names, i).data : NULL;
        if (have && (!want || strcmp(have, want) < 0))
            return stale(f, err, "the index does not contain shard", have);
        if (want && (!have || strcmp(have, want) > 0))
            return stale(f, err, "the index has a shard that does not exist:", want);
        if (sizes[i] != sums->stamps[i].size)
            return tarn__fail_at(err, TARN_ERR_STALE, paths[i], TARN_NO_OFFSET,
                                 "the shard has %llu bytes, but had %llu when it was "
                                 "indexed; run tarn index again",
                                 (unsigned long long)sizes[i],
                                 (unsigned long long)sums->stamps[i].size);
    }
    return TARN_OK;
}

/* A shard that has members but no rows was added after the index was built. */
static tarn_status check_rowless(const tarn__fold *f, const char *path, tarn_error *err)
{
    tarn_tar tar;
    tarn__member member;
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    TARN_TRY(tarn__tar_open(&tar, path, &o, TARN__WINDOW_HOP, err));
    tarn_status status;
    do
        status = tarn__tar_next(&tar, &member, err);
    while (status == TARN_OK && member.kind != TARN__REGULAR);
    tarn__tar_close(&tar);
    if (status == TARN_END) return TARN_OK;
    TARN_TRY(status);
    return stale(f, err, "the index does not contain shard", tarn__base_name(path));
}

/* Without a .tarsum, every row must refer to an existing shard and be inside it, and
 * every shard with members must have a row. */
static tarn_status check_ranges(const tarn__fold *f, const char *const *paths,
                                const uint64_t *sizes, size_t count, bool *has_row,
                                tarn_error *err)
{
    for (uint64_t i = 0; i < f->index->n_rows; i++) {
        tarn_row row;
        tarn__row_get(tarn__index_at(f->index, i), &row);
        if (row.shard >= count)
            return tarn__fail_at(err, TARN_ERR_STALE, f->index->path, TARN_NO_OFFSET,
                                 "row %llu is in shard %u, but there are %zu shards: one "
                                 "is missing, or the index is old; run tarn index again",
                                 (unsigned long long)i, row.shard, count);
        if (row.offset + TARN__BLOCK + row.size > sizes[row.shard])
            return tarn__fail_at(err, TARN_ERR_STALE, paths[row.shard], row.offset,
                                 "row %llu of the index: offset past the end of the "
                                 "shard, which has %llu bytes; run tarn index again",
                                 (unsigned long long)i,
                                 (unsigned long long)sizes[row.shard]);
        has_row[row.shard] = true;
    }
    for (size_t i = 0; i < count; i++)
        if (!has_row[i]) TARN_TRY(check_rowless(f, paths[i], err));
    return TARN_OK;
}

static tarn_status get_index(tarn__fold *f, const char *index_path,
                             const char *const *paths, size_t count, tarn_error *err)
{
    tarn_error why;
    if (index_path) {
        tarn_status status =
            tarn__index_load(index_path, TARN__LOAD_TRUSTING, &f->index, &why);
        if (status == TARN_OK) return TARN_OK;
        if (status != TARN_ERR_NO_FILE || !f->options.scan) {
            if (err) *err = why;
            if (err && status == TARN_ERR_NO_FILE)
                tarn__error_set(err, status, index_path, TARN_NO_OFFSET,
                                "no index; create it with tarn index");
            return status;
        }
    }
    return tarn_index_build(paths, count, f->options.index, NULL, &f->index, &f->report,
                            sizeof f->report, err);
}

/* Shards are identified before the index is read or built. So a shard that is replaced
 * from then on is noticed when it is opened. */
static tarn_status attach(tarn__fold *f, const char *index_path, const char *const *paths,
                          size_t count, tarn_error *err)
{
    uint64_t *sizes = calloc(count + 1, sizeof *sizes);
    tarn__file_id *ids = calloc(count + 1, sizeof *ids);
    bool *has_row = calloc(count + 1, sizeof *has_row);
    tarn_status status = sizes && ids && has_row
                             ? identify_all(paths, count, ids, sizes, err)
                             : tarn__fail_memory(err);
    if (status == TARN_OK) status = get_index(f, index_path, paths, count, err);
    if (status == TARN_OK)
        status = f->index->sums ? check_stamps(f, paths, sizes, count, err)
                                : check_ranges(f, paths, sizes, count, has_row, err);
    if (status == TARN_OK && f->options.check &&
        !(f->index->path && f->index->sums && f->index->sums->checksums))
        status = tarn__fail_at(
            err, TARN_ERR_NOT_FOUND, index_path ? index_path : paths[0], TARN_NO_OFFSET,
            "no member checksums to check against; create them with tarn index --sums");
    if (status == TARN_OK)
        status = tarn__filecache_new(paths, sizes, count,
                                     (tarn__filecache_io)f->options.io, &f->files, err);
    if (status == TARN_OK) status = tarn__filecache_expect(f->files, ids, err);
    free(sizes);
    free(ids);
    free(has_row);
    f->place = (tarn__place){f->files, f->index, tarn__key_hash};
    return status;
}

static tarn_status fail_folds(const tarn_folds *found, const char *path, tarn_error *err)
{
    char names[512];
    size_t used = 0;
    for (size_t i = 0; i < found->count; i++) {
        const char *name = found->folds[i]->name;
        if (used + strlen(name) + 3 > sizeof names) break;
        if (used) names[used++] = ',', names[used++] = ' ';
        memcpy(names + used, name, strlen(name));
        used += strlen(name);
    }
    names[used] = '\0';
    return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, path, TARN_NO_OFFSET,
                         "several folds found (%s); select one, for example %s:%s", names,
                         path, found->folds[0]->name);
}

/* All zeros if there is no such file. */
static tarn__file_id identify_file(const char *path)
{
    tarn__file_id id;
    return tarn__file_identify(path, &id, NULL) == TARN_OK ? id : (tarn__file_id){0};
}

static bool is_same(tarn__file_id a, tarn__file_id b)
{
    return a.inode == b.inode && a.mtime_ns == b.mtime_ns;
}

static tarn_status attach_fold(tarn__fold *f, const tarn_folds *found, const char *path,
                               tarn_error *err)
{
    const tarn_listed_fold *one = found->folds[0];
    if (found->count > 1) return fail_folds(found, path, err);
    f->name = strdup(one->name);
    if (!f->name) return tarn__fail_memory(err);
    tarn__file_id before = identify_file(one->index_path);
    TARN_TRY(attach(f, one->index_path, one->shards, one->n_shards, err));
    if (is_same(before, identify_file(one->index_path))) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, one->index_path, TARN_NO_OFFSET,
                         "the index was replaced while the fold was opened; try again");
}

static void detach(tarn__fold *f)
{
    tarn__filecache_free(f->files);
    tarn_index_free(f->index);
    free(f->name);
    f->files = NULL;
    f->index = NULL;
    f->name = NULL;
}

static tarn_status open_once(tarn__fold *f, const char *path, tarn_error *err)
{
    tarn_folds *found;
    TARN_TRY(tarn_folds_list(path, &found, err));
    tarn_status status = attach_fold(f, found, path, err);
    tarn_folds_free(found);
    if (status != TARN_OK) detach(f);
    return status;
}

/* The shards are listed first, then index and sums are read. If a writer publishes in
 * between, they do not match, and all are read again. */
static tarn_status open_folder(tarn__fold *f, const char *path, tarn_error *err)
{
    enum { TRIES = 20 };
    char *folder;
    const char *only;
    TARN_TRY(tarn__path_split(path, &folder, &only, err));
    tarn_status status = TARN_OK;
    for (int i = 0; i < TRIES; i++) {
        tarn__file_id before = identify_file(folder);
        status = open_once(f, path, err);
        if (status == TARN_OK || is_same(before, identify_file(folder))) break;
    }
    free(folder);
    return status;
}

static tarn_status open_taridx(tarn__fold *f, const char *path, tarn_error *err)
{
    char *spelled;
    TARN_TRY(tarn__path_of_index(path, &spelled, err));
    tarn_status status = open_folder(f, spelled, err);
    free(spelled);
    return status;
}

/* The fold has the name of its index, without the extension. */
static tarn_status open_listed(tarn__fold *f, const char *path, tarn_error *err)
{
    const char *name = tarn__base_name(path), *dot = strrchr(name, '.');
    const char *const *shards = f->options.shards;
    size_t count = 0;
    while (shards[count])
        count++;
    if (count == 0) return tarn__fail(err, TARN_ERR_USAGE, "a fold without shards");
    f->name = strndup(name, dot ? (size_t)(dot - name) : strlen(name));
    if (!f->name) return tarn__fail_memory(err);
    return attach(f, path, shards, count, err);
}

static tarn_status open_any(tarn__fold *f, const char *path, tarn_error *err)
{
    if (f->options.shards) return open_listed(f, path, err);
    struct stat st;
    bool is_file = stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
    if (is_file && tarn__is_index_path(path)) return open_taridx(f, path, err);
    if (!is_file) return open_folder(f, path, err);
    f->name = strdup(tarn__base_name(path));
    if (!f->name) return tarn__fail_memory(err);
    return attach(f, NULL, &path, 1, err);
}

static tarn_status list_shards(tarn__fold *f, tarn_error *err)
{
    size_t count = tarn__filecache_count(f->files);
    f->paths = calloc(count + 1, sizeof *f->paths);
    f->sizes = calloc(count + 1, sizeof *f->sizes);
    if (!f->paths || !f->sizes) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        f->paths[i] = tarn__filecache_path(f->files, i);
        f->sizes[i] = tarn__filecache_size(f->files, i);
    }
    return TARN_OK;
}

static tarn_status alloc_bits(tarn__fold *f, tarn_error *err)
{
    size_t size = (size_t)(f->index->n_rows / 8 + 1);
    f->seen = calloc(size, 1);
    f->plain = calloc(size, 1);
    return f->seen && f->plain ? TARN_OK : tarn__fail_memory(err);
}

tarn_status tarn__fold_open(const char *path, const tarn__fold_options *options,
                            tarn__fold **out, tarn_error *err)
{
    tarn__fold *f = calloc(1, sizeof *f);
    if (!f) return tarn__fail_memory(err);
    if (options) f->options = *options;
    tarn__forklock_init(&f->lock, TARN__LOCK_OUTER);
    tarn_status status = open_any(f, path, err);
    f->options.shards = NULL; /* both belong to the caller */
    f->options.index = NULL;
    if (status == TARN_OK) status = alloc_bits(f, err);
    if (status == TARN_OK) status = list_shards(f, err);
    if (status == TARN_OK)
        *out = f;
    else
        tarn__fold_close(f);
    return status;
}

void tarn__fold_close(tarn__fold *f)
{
    if (!f) return;
    tarn__filecache_free(f->files);
    tarn_index_free(f->index);
    free(f->paths);
    free(f->sizes);
    free(f->own_order);
    free(f->rows);
    free(f->starts);
    free(f->shape_of);
    free(f->lead);
    free((void *)f->seen);
    free((void *)f->plain);
    tarn__shapes_reset(&f->shapes);
    free(f->name);
    tarn__forklock_destroy(&f->lock);
    free(f);
}

/* --- Information ------------------------------------------------------------------- */

void tarn__fold_info(const tarn__fold *f, tarn_fold_info *out)
{
    *out = (tarn_fold_info){.name = f->name,
                            .index_path = f->index->path,
                            .index = f->index,
                            .shards = f->paths,
                            .sizes = f->sizes,
                            .n_shards = (uint32_t)tarn__filecache_count(f->files),
                            .report = &f->report};
}

tarn_status tarn__fold_count(tarn__fold *f, uint64_t *out, tarn_error *err)
{
    TARN_TRY(tarn__fold_group(f, err));
    *out = f->n_samples;
    return TARN_OK;
}
