/* Takes shards of another fold unchanged: links them into the stage as finished parts,
 * and scans them, so that the index is built as if this writer had written them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "io/publish.h"
#include "itar/fold.h"
#include "itar/writer.h"

typedef struct adoption {
    tarn_fold_writer *w;
    tarn__fold *from;
    tarn_adopt how;
    size_t first;    /* the first of the writer's shards that was adopted */
    uint64_t number; /* number of the next shard, before */
    size_t origins;  /* before */
    uint32_t *taken; /* numbers of the adopted shards in from */
} adoption;

void tarn__writer_reset_origins(tarn_fold_writer *w)
{
    for (size_t i = 0; i < w->n_origins; i++)
        free(w->origins[i].path);
    free(w->origins);
    w->origins = NULL;
    w->n_origins = w->origin_capacity = 0;
}

/* The path of a shard, for messages. */
static const char *origin_of(const tarn_fold_writer *w, size_t shard)
{
    for (size_t i = 0; i < w->n_origins; i++)
        if (w->origins[i].shard == shard) return w->origins[i].path;
    return w->build.paths[shard];
}

/* --- Shards ------------------------------------------------------------------------ */

static bool is_same_file(const char *left, const char *right)
{
    struct stat a, b;
    return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

static tarn_status first_row(const tarn__fold *from, uint32_t shard, uint64_t *out,
                             tarn_error *err)
{
    const tarn__sums *sums = from->index->sums;
    *out = 0;
    for (uint32_t i = 0; i < shard; i++)
        *out += sums->stamps[i].rows;
    if (*out + sums->stamps[shard].rows <= sums->n_rows) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_FORMAT, sums->path, TARN_NO_OFFSET,
        "damaged: more rows in shards than in all; run tarn index again");
}

/* Whether shard number have of the writer holds the bytes of a shard of the other fold:
 * it is the same file, or all headers and payloads have the same checksums. */
static tarn_status is_there(const adoption *a, uint32_t shard, size_t have, bool *out,
                            tarn_error *err)
{
    tarn__sums *sums = a->from->index->sums;
    const tarn__scan *scan = &a->w->build.scans[have];
    uint64_t row;
    *out = false;
    if (sums->stamps[shard].size != scan->stamp.size ||
        sums->stamps[shard].rows != scan->n_rows ||
        sums->stamps[shard].digest != scan->stamp.digest)
        return TARN_OK;
    *out = is_same_file(a->from->paths[shard], a->w->build.paths[have]);
    if (*out || !scan->checksums || !sums->checksums) return TARN_OK;
    TARN_TRY(first_row(a->from, shard, &row, err));
    for (size_t k = 0; k < scan->n_rows; k++) {
        TARN_TRY(tarn__sums_check(sums, TARN__PART_CHECKSUMS, row + k, err));
        if (sums->checksums[row + k] != scan->checksums[k]) return TARN_OK;
    }
    *out = true;
    return TARN_OK;
}

/* A writer that resumes already has the shards that it or an earlier run adopted. */
static tarn_status is_resumed(const adoption *a, uint32_t shard, bool *out,
                              tarn_error *err)
{
    *out = false;
    if (!a->w->options.resume || !a->from->index->sums) return TARN_OK;
    for (size_t i = 0; !*out && i < a->first; i++)
        TARN_TRY(is_there(a, shard, i, out, err));
    return TARN_OK;
}

static tarn_status note_origin(adoption *a, const char *path, tarn_error *err)
{
    tarn_fold_writer *w = a->w;
    TARN_TRY(tarn__grow(&w->origins, sizeof *w->origins, w->n_origins,
                        &w->origin_capacity, err));
    w->origins[w->n_origins] = (tarn__origin){w->n_shards, strdup(path)};
    if (!w->origins[w->n_origins].path) return tarn__fail_memory(err);
    w->n_origins++;
    return TARN_OK;
}

static tarn_status take_shard(adoption *a, uint32_t shard, tarn_error *err)
{
    tarn_fold_writer *w = a->w;
    char *name;
    bool there;
    if (shard >= tarn__filecache_count(a->from->files))
        return tarn__fail(err, TARN_ERR_NOT_FOUND, "no shard %u in fold %s", shard,
                          a->from->name);
    const char *path = a->from->paths[shard];
    TARN_TRY(is_resumed(a, shard, &there, err));
    if (there) return TARN_OK;
    TARN_TRY(note_origin(a, path, err));
    TARN_TRY(tarn__writer_name_shard(w, &name, err));
    char *part = tarn__stage_part(&w->stage, name);
    TARN_TRY(tarn__writer_add_shard(w, name, part, err));
    tarn_status status = tarn__publish_link(path, part, a->how == TARN_ADOPT_COPY,
                                            a->w->options.no_sync, err);
    if (status != TARN_OK) {
        unlink(part); /* a copy may have its name when syncing fails */
        tarn__writer_drop_shard(w);
        return status;
    }
    a->taken[w->n_shards - 1 - a->first] = shard;
    w->number++;
    return TARN_OK;
}

/* --- Checksums and keys ------------------------------------------------------------ */

tarn_status tarn__writer_take_checksums(tarn_fold_writer *w, size_t shard,
                                        const tarn_index *index, uint32_t number,
                                        uint64_t first, tarn_error *err)
{
    tarn__sums *sums = index->sums;
    tarn__scan *scan = &w->build.scans[shard];
    if (sums->stamps[number].rows != scan->n_rows ||
        sums->stamps[number].digest != scan->stamp.digest)
        return tarn__fail_at(
            err, TARN_ERR_STALE, w->build.paths[shard], TARN_NO_OFFSET,
            "the shard is not the one that was indexed; run tarn index again");
    if (!sums->checksums) return TARN_OK;
    scan->checksums = malloc((scan->n_rows + 1) * sizeof *scan->checksums);
    if (!scan->checksums) return tarn__fail_memory(err);
    for (size_t k = 0; k < scan->n_rows; k++) {
        TARN_TRY(tarn__sums_check(sums, TARN__PART_CHECKSUMS, first + k, err));
        scan->checksums[k] = sums->checksums[first + k];
    }
    return TARN_OK;
}

/* Payloads are read only if their checksums are unknown. */
static tarn_status scan_shards(adoption *a, tarn_error *err)
{
    tarn_fold_writer *w = a->w;
    const tarn__sums *sums = a->from->index->sums;
    bool known = sums && sums->checksums;
    TARN_TRY(tarn__writer_scan(w, a->first, w->scanning.sums && !known, err));
    for (size_t i = a->first; sums && i < w->n_shards; i++) {
        uint64_t row;
        uint32_t shard = a->taken[i - a->first];
        if (!known) {
            if (sums->stamps[shard].digest == w->build.scans[i].stamp.digest) continue;
            return tarn__fail_at(
                err, TARN_ERR_STALE, origin_of(w, i), TARN_NO_OFFSET,
                "the shard is not the one that was indexed; run tarn index again");
        }
        TARN_TRY(first_row(a->from, shard, &row, err));
        TARN_TRY(tarn__writer_take_checksums(w, i, a->from->index, shard, row, err));
    }
    return TARN_OK;
}

static tarn_status fail_twice(const adoption *a, size_t shard, const char *key,
                              size_t len, const char *other, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_EXISTS, origin_of(a->w, shard), TARN_NO_OFFSET,
                         "sample %s is also in %s", TARN__SHOW(key, len), other);
}

static tarn_status check_base(const adoption *a, size_t shard, const char *key,
                              size_t len, tarn_error *err)
{
    tarn__fold *base = a->w->base;
    tarn__sample_rows sample;
    tarn_row row;
    tarn_error why;
    tarn_status status = tarn__fold_find_rows(base, key, &sample, &why);
    if (status == TARN_ERR_NO_SAMPLE) return TARN_OK;
    if (status == TARN_OK)
        status = tarn_index_row(base->index, tarn__rows_at(&sample, 0), &row, &why);
    if (status == TARN_OK)
        return fail_twice(a, shard, key, len, base->paths[row.shard], err);
    if (err) *err = why;
    return status;
}

/* The shards of one fold may share samples, as they did before. */
static tarn_status check_keys(const adoption *a, size_t shard, tarn_error *err)
{
    tarn_fold_writer *w = a->w;
    const tarn__scan *own = w->build.scans + w->n_base, *scan = &w->build.scans[shard];
    for (size_t i = 0; i < scan->n_runs; i++) {
        tarn__name key = tarn__scan_key(scan, i);
        uint64_t hash = tarn__keyset_hash(&w->keys, key.data, key.size);
        size_t other = tarn__keyset_find(&w->keys, own, key.data, key.size, hash);
        if (other != SIZE_MAX)
            return fail_twice(a, shard, key.data, key.size,
                              origin_of(w, w->n_base + other), err);
        if (!w->base) continue;
        w->lower.size = 0;
        TARN_TRY(tarn__buf_add(&w->lower, key.data, key.size, err));
        TARN_TRY(tarn__buf_add(&w->lower, "", 1, err));
        TARN_TRY(check_base(a, shard, w->lower.data, key.size, err));
    }
    return TARN_OK;
}

static tarn_status take_keys(adoption *a, size_t shard, tarn_error *err)
{
    tarn_fold_writer *w = a->w;
    const tarn__scan *own = w->build.scans + w->n_base, *scan = &w->build.scans[shard];
    TARN_TRY(tarn__keyset_next_scan(&w->keys, err));
    for (size_t i = 0; i < scan->n_runs; i++) {
        tarn__name key = tarn__scan_key(scan, i);
        uint64_t hash = tarn__keyset_hash(&w->keys, key.data, key.size);
        if (tarn__keyset_has(&w->keys, own, key.data, key.size, hash)) {
            TARN_TRY(tarn__keyset_pass(&w->keys, err));
            continue;
        }
        TARN_TRY(tarn__keyset_add(&w->keys, own, hash, err));
        w->written.samples++;
    }
    return TARN_OK;
}

static tarn_status count_shard(adoption *a, size_t shard, tarn_error *err)
{
    tarn_fold_writer *w = a->w;
    const tarn__scan *scan = &w->build.scans[shard];
    TARN_TRY(take_keys(a, shard, err));
    TARN_TRY(tarn__writer_count(w, shard, err));
    w->written.shards++;
    w->written.bytes += scan->stamp.size;
    w->written.members += scan->n_rows;
    for (size_t i = 0; i < scan->n_rows; i++)
        w->written.payload += tarn__row_size(scan->rows + i * TARN__ROW_SIZE);
    return TARN_OK;
}

/* --- All of it --------------------------------------------------------------------- */

/* Errors name the original shard, because the part is about to be removed. */
static void name_origin(const adoption *a, tarn_error *err)
{
    for (size_t i = a->first; err && i < a->w->n_shards; i++)
        if (strcmp(err->path, a->w->build.paths[i]) == 0)
            tarn__error_place(err, origin_of(a->w, i), err->offset);
}

static void give_back(adoption *a)
{
    tarn_fold_writer *w = a->w;
    while (w->n_shards > a->first) {
        unlink(w->build.paths[w->n_shards - 1]);
        tarn__writer_drop_shard(w);
    }
    while (w->n_origins > a->origins)
        free(w->origins[--w->n_origins].path);
    w->number = a->number;
}

static tarn_status check_source(const tarn__fold *from, tarn_error *err)
{
    tarn_index_info info;
    tarn_index_info_get(from->index, &info, sizeof info);
    if (!info.keys_known || info.keys == TARN_KEYS_BASE) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, from->paths[0], TARN_NO_OFFSET,
                         "fold %s has keys with folders, but only flat keys can be "
                         "merged; rewrite it with tarn convert",
                         from->name);
}

static tarn_status adopt(adoption *a, const uint32_t *shards, size_t count,
                         tarn_error *err)
{
    for (size_t i = 0; i < count; i++)
        TARN_TRY(take_shard(a, shards ? shards[i] : (uint32_t)i, err));
    TARN_TRY(scan_shards(a, err));
    uint64_t rows = a->w->n_rows;
    for (size_t i = a->first; i < a->w->n_shards; i++) {
        rows += a->w->build.scans[i].n_rows;
        if (rows > TARN_MAX_ROWS)
            return tarn__fail(err, TARN_ERR_LIMIT, "more than %llu members in one fold",
                              (unsigned long long)TARN_MAX_ROWS);
        TARN_TRY(check_keys(a, i, err));
    }
    return TARN_OK;
}

tarn_status tarn__writer_adopt(tarn_fold_writer *w, tarn__fold *from,
                               const uint32_t *shards, size_t count, tarn_adopt how,
                               tarn_error *err)
{
    if (!shards) count = tarn__filecache_count(from->files);
    TARN_TRY(tarn__check_unbroken(&w->archive, err));
    if (w->url)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, w->url, TARN_NO_OFFSET,
                             "whole shards cannot be added to a part in a store; write "
                             "their samples");
    TARN_TRY(check_source(from, err));
    TARN_TRY(tarn__writer_end_shard(w, err));
    adoption a = {w,
                  from,
                  how,
                  w->n_shards,
                  w->number,
                  w->n_origins,
                  calloc(count + 1, sizeof *a.taken)};
    tarn_status status = a.taken ? adopt(&a, shards, count, err) : tarn__fail_memory(err);
    if (status != TARN_OK) {
        name_origin(&a, err);
        give_back(&a);
        free(a.taken);
        return status;
    }
    for (size_t i = a.first; status == TARN_OK && i < w->n_shards; i++)
        status = count_shard(&a, i, err);
    if (status != TARN_OK) w->archive.broken = true;
    free(a.taken);
    return status;
}
