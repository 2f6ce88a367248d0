/* Opens a fold and reads from it. group.c determines which rows form a sample. */
#include "itar/fold.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"
#include "io/remote.h"
#include "io/url.h"
#include "itar/folder.h"
#include "itar/remote_fold.h"
#include "tar/reader.h"

/* --- Opening ----------------------------------------------------------------------- */

/* The shards of a fold that is being opened. */
typedef struct shard_set {
    size_t count;
    const char *const *paths;
    uint64_t *sizes; /* UINT64_MAX: unknown */
    tarn__file_id *ids;
    bool *has_row;
    /* Of remote shards; otherwise NULL. */
    tarn__remote **remotes;
    char **shown, **names;
} shard_set;

static void shards_reset(shard_set *s)
{
    for (size_t i = 0; s->remotes && i < s->count; i++)
        tarn__remote_close(s->remotes[i]);
    for (size_t i = 0; s->shown && i < s->count; i++)
        free(s->shown[i]);
    for (size_t i = 0; s->names && i < s->count; i++)
        free(s->names[i]);
    free(s->sizes);
    free(s->ids);
    free(s->has_row);
    free(s->remotes);
    free(s->shown);
    free(s->names);
}

/* For messages. */
static const char *shard_path(const shard_set *s, size_t i)
{
    return s->shown[i] ? s->shown[i] : s->paths[i];
}

static const char *shard_name(const shard_set *s, size_t i)
{
    return s->names[i] ? s->names[i] : tarn__base_name(s->paths[i]);
}

/* Nothing is requested of remote shards. */
static tarn_status identify_shards(tarn__fold *f, shard_set *s, tarn_error *err)
{
    s->sizes = calloc(s->count + 1, sizeof *s->sizes);
    s->ids = calloc(s->count + 1, sizeof *s->ids);
    s->has_row = calloc(s->count + 1, sizeof *s->has_row);
    s->remotes = calloc(s->count + 1, sizeof *s->remotes);
    s->shown = calloc(s->count + 1, sizeof *s->shown);
    s->names = calloc(s->count + 1, sizeof *s->names);
    if (!s->sizes || !s->ids || !s->has_row || !s->remotes || !s->shown || !s->names)
        return tarn__fail_memory(err);
    for (size_t i = 0; i < s->count; i++) {
        if (!tarn__is_remote(s->paths[i])) {
            TARN_TRY(tarn__file_identify(s->paths[i], &s->ids[i], err));
            s->sizes[i] = s->ids[i].size;
            continue;
        }
        f->remote = true;
        s->sizes[i] = UINT64_MAX;
        s->shown[i] = tarn__url_shown(s->paths[i]);
        s->names[i] = tarn__remote_name(s->paths[i]);
        if (!s->shown[i] || !s->names[i]) return tarn__fail_memory(err);
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
static tarn_status check_stamps(const tarn__fold *f, const shard_set *s, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    for (size_t i = 0; i < s->count || i < sums->n_shards; i++) {
        const char *have = i < s->count ? shard_name(s, i) : NULL;
        const char *want =
            i < sums->n_shards ? tarn__names_get(&sums->names, i).data : NULL;
        if (have && (!want || strcmp(have, want) < 0))
            return stale(f, err, "the index does not contain shard", have);
        if (want && (!have || strcmp(have, want) > 0))
            return stale(f, err, "the index has a shard that does not exist:", want);
        if (s->sizes[i] == UINT64_MAX) s->sizes[i] = sums->stamps[i].size;
        if (s->sizes[i] != sums->stamps[i].size)
            return tarn__fail_at(err, TARN_ERR_STALE, shard_path(s, i), TARN_NO_OFFSET,
                                 "the shard has %llu bytes, but had %llu when it was "
                                 "indexed; run tarn index again",
                                 (unsigned long long)s->sizes[i],
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
 * every shard with members must have a row. Whether rows are inside a remote shard of
 * unknown size shows when they are read, and reading its first member would take a
 * request for each shard. */
static tarn_status check_ranges(const tarn__fold *f, const shard_set *s, tarn_error *err)
{
    for (uint64_t i = 0; i < f->index->n_rows; i++) {
        tarn_row row;
        tarn__row_get(tarn__index_at(f->index, i), &row);
        if (row.shard >= s->count)
            return tarn__fail_at(err, TARN_ERR_STALE, f->index->path, TARN_NO_OFFSET,
                                 "row %llu is in shard %u, but there are %zu shards: one "
                                 "is missing, or the index is old; run tarn index again",
                                 (unsigned long long)i, row.shard, s->count);
        if (row.offset + TARN__BLOCK + row.size > s->sizes[row.shard])
            return tarn__fail_at(
                err, TARN_ERR_STALE, shard_path(s, row.shard), row.offset,
                "row %llu of the index: offset past the end of the "
                "shard, which has %llu bytes; run tarn index again",
                (unsigned long long)i, (unsigned long long)s->sizes[row.shard]);
        s->has_row[row.shard] = true;
    }
    for (size_t i = 0; i < s->count; i++)
        if (!s->has_row[i] && !s->shown[i]) TARN_TRY(check_rowless(f, s->paths[i], err));
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

/* The text that is the same for all shards of a fold: the URL of their folder. */
static char *dataset_of(const shard_set *s, size_t shard)
{
    const char *slash = strrchr(s->shown[shard], '/');
    return strndup(s->shown[shard],
                   slash ? (size_t)(slash - s->shown[shard]) : SIZE_MAX / 2);
}

static tarn_status open_remote(const tarn__fold *f, shard_set *s,
                               const tarn__remote_fold *found, size_t i, tarn_error *err)
{
    tarn__object_id id = {.size = s->sizes[i]};
    tarn__fetch_limits limits = TARN__FETCH_LIMITS;
    if (found) tarn__remote_fold_id(found, i, &id);
    char *dataset = found ? strdup(found->dataset) : dataset_of(s, i);
    if (!dataset) return tarn__fail_memory(err);
    tarn_status status = tarn__remote_open(s->paths[i], f->options.cachedir, dataset, &id,
                                           &limits, &s->remotes[i], err);
    s->sizes[i] = id.size;
    free(dataset);
    return status;
}

static tarn_status make_files(tarn__fold *f, shard_set *s, const tarn__remote_fold *found,
                              tarn_error *err)
{
    const char **shown = malloc((s->count + 1) * sizeof *shown);
    tarn_status status = shown ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; i < s->count && status == TARN_OK; i++) {
        shown[i] = shard_path(s, i);
        if (s->shown[i]) status = open_remote(f, s, found, i, err);
    }
    if (status == TARN_OK)
        status = tarn__filecache_new(shown, s->sizes, s->count,
                                     (tarn__filecache_io)f->options.io, &f->files, err);
    free(shown);
    TARN_TRY(status);
    if (f->remote) tarn__filecache_set_remotes(f->files, s->remotes);
    memset(s->remotes, 0, s->count * sizeof *s->remotes);
    return tarn__filecache_expect(f->files, s->ids, err);
}

static bool has_checksums(const tarn__fold *f)
{
    return f->index->path && f->index->sums && f->index->sums->checksums;
}

static tarn_status attach_shards(tarn__fold *f, const char *index_path, shard_set *s,
                                 tarn__remote_fold *found, tarn_error *err)
{
    TARN_TRY(identify_shards(f, s, err));
    if (found)
        f->index = tarn__remote_fold_take(found);
    else
        TARN_TRY(get_index(f, index_path, s->paths, s->count, err));
    TARN_TRY(f->index->sums ? check_stamps(f, s, err) : check_ranges(f, s, err));
    if (f->options.check && !has_checksums(f))
        return tarn__fail_at(
            err, TARN_ERR_NOT_FOUND, index_path ? index_path : shard_path(s, 0),
            TARN_NO_OFFSET,
            "no member checksums to check against; create them with tarn index --sums");
    f->checks = f->options.check || (f->remote && has_checksums(f));
    TARN_TRY(make_files(f, s, found, err));
    f->place = (tarn__place){f->files, f->index, tarn__key_hash, f->remote};
    return TARN_OK;
}

/* Shards are identified before the index is read or built. So a shard that is replaced
 * from then on is noticed when it is opened. */
static tarn_status attach(tarn__fold *f, const char *index_path, const char *const *paths,
                          size_t count, tarn__remote_fold *found, tarn_error *err)
{
    shard_set s = {.count = count, .paths = paths};
    tarn_status status = attach_shards(f, index_path, &s, found, err);
    shards_reset(&s);
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
    TARN_TRY(attach(f, one->index_path, one->shards, one->n_shards, NULL, err));
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
    return attach(f, path, shards, count, NULL, err);
}

static tarn_status open_far(tarn__fold *f, const char *path, tarn_error *err)
{
    tarn__remote_fold_options o = {.index = f->options.index_path,
                                   .cache = f->options.cache};
    tarn__remote_fold *found;
    TARN_TRY(tarn__remote_fold_find(path, &o, &found, err));
    f->name = strdup(found->name);
    tarn_status status =
        f->name ? attach(f, found->index_path, found->shards, found->n_shards, found, err)
                : tarn__fail_memory(err);
    tarn__remote_fold_free(found);
    return status;
}

static tarn_status open_any(tarn__fold *f, const char *path, tarn_error *err)
{
    if (f->options.shards) return open_listed(f, path, err);
    if (tarn__is_remote(path)) return open_far(f, path, err);
    struct stat st;
    bool is_file = stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
    if (is_file && tarn__is_index_path(path)) return open_taridx(f, path, err);
    if (!is_file) return open_folder(f, path, err);
    f->name = strdup(tarn__base_name(path));
    if (!f->name) return tarn__fail_memory(err);
    return attach(f, NULL, &path, 1, NULL, err);
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
    f->options.shards = NULL; /* these belong to the caller */
    f->options.index = NULL;
    f->options.cache = f->options.index_path = NULL;
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
