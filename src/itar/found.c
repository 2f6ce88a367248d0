/* Handles what a writer finds: the existing fold, and finished shards of an interrupted
 * writer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/text.h"
#include "itar/fold.h"
#include "itar/folder.h"
#include "itar/writer.h"

/* --- Scanning shards --------------------------------------------------------------- */

typedef struct range {
    tarn_fold_writer *writer;
    size_t from;
} range;

static tarn_status scan_task(void *context, size_t number)
{
    range *r = context;
    return tarn__scan_shard(&r->writer->build, r->from + number);
}

/* Scans the shards from a number on; with sums, every byte of them. */
static tarn_status scan_from(tarn_fold_writer *w, size_t from, bool sums, tarn_error *err)
{
    size_t failed;
    range r = {w, from};
    w->scanning.sums = sums;
    unsigned threads = tarn__thread_count(w->options.threads);
    tarn_status status =
        tarn__parallel(threads, w->n_shards - from, scan_task, &r, &failed);
    if (status != TARN_OK && err) *err = w->build.scans[from + failed].error;
    return status;
}

/* Reuses the checksums of the fold for the scans of its shards. */
static tarn_status take_checksums(tarn_fold_writer *w, tarn_error *err)
{
    const tarn_index *index = w->base->index;
    uint64_t at = 0;
    if (!index->sums || !index->sums->checksums) {
        w->scanning.sums = false;
        return TARN_OK;
    }
    for (size_t i = 0; i < w->n_base; i++) {
        TARN_TRY(tarn__writer_take_checksums(w, i, index, (uint32_t)i, at, err));
        at += w->build.scans[i].n_rows;
    }
    return TARN_OK;
}

/* --- The numbers of the next shards ------------------------------------------------ */

static tarn_status number_from(tarn_fold_writer *w, const char *last, tarn_error *err)
{
    char *prefix;
    TARN_TRY(
        tarn__shard_number(last, w->stage.folder, &prefix, &w->digits, &w->number, err));
    free(w->prefix);
    w->prefix = prefix;
    w->number++;
    return TARN_OK;
}

/* --- The existing fold ------------------------------------------------------------- */

/* The shards of the fold, or none. */
static tarn_status list_fold(const tarn_fold_writer *w, tarn_folds **out, tarn_error *err)
{
    char *path;
    tarn_error ignored;
    struct stat st;
    if (asprintf(&path, "%s:%s", w->stage.folder, w->stage.fold) < 0)
        return tarn__fail_memory(err);
    *out = NULL;
    if (stat(path, &st) == 0) {
        tarn_status taken = tarn__fail_at(
            err, TARN_ERR_AMBIGUOUS, path, TARN_NO_OFFSET,
            "this path hides the fold, which readers open as DIR:FOLD; rename it");
        free(path);
        return taken;
    }
    tarn_status status = tarn_folds_list(path, out, &ignored);
    free(path);
    if (status == TARN_OK || tarn_is_not_found(status)) return TARN_OK;
    if (err) *err = ignored;
    return status;
}

static tarn_status open_base(tarn_fold_writer *w, tarn_error *err)
{
    char *path;
    if (asprintf(&path, "%s:%s", w->stage.folder, w->stage.fold) < 0)
        return tarn__fail_memory(err);
    tarn_status status = tarn__fold_open(path, NULL, &w->base, err);
    free(path);
    return status;
}

static tarn_status take_base(tarn_fold_writer *w, const tarn_listed_fold *old,
                             tarn_error *err)
{
    size_t count = old->n_shards;
    const char *const *paths = old->shards;
    TARN_TRY(open_base(w, err));
    tarn_index_info info;
    tarn_index_info_get(w->base->index, &info, sizeof info);
    if (info.keys_known && info.keys != TARN_KEYS_BASE)
        return tarn__fail_at(
            err, TARN_ERR_UNSUPPORTED, w->stage.index_path, TARN_NO_OFFSET,
            "the fold has keys with folders; only flat keys can be added");
    for (size_t i = 0; i < count; i++)
        TARN_TRY(tarn__writer_add_shard(w, strdup(tarn__base_name(paths[i])),
                                        strdup(paths[i]), err));
    w->n_base = count;
    TARN_TRY(scan_from(w, 0, false, err));
    w->scanning.sums = true;
    TARN_TRY(take_checksums(w, err));
    return number_from(w, w->names[count - 1], err);
}

/* --- Finished shards --------------------------------------------------------------- */

static tarn_status take_keys(tarn_fold_writer *w, size_t shard, tarn_error *err)
{
    const tarn__scan *scans = w->build.scans + w->n_base, *scan = &w->build.scans[shard];
    TARN_TRY(tarn__keyset_next_scan(&w->keys, err));
    for (size_t i = 0; i < scan->n_runs; i++) {
        tarn__name key = tarn__scan_key(scan, i);
        bool there;
        w->lower.size = 0;
        TARN_TRY(tarn__buf_add(&w->lower, key.data, key.size, err));
        TARN_TRY(tarn__buf_add(&w->lower, "", 1, err));
        uint64_t hash = tarn__keyset_hash(&w->keys, key.data, key.size);
        TARN_TRY(tarn__writer_has(w, w->lower.data, key.size, hash, &there, err));
        if (there)
            return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, w->build.paths[shard],
                                 TARN_NO_OFFSET,
                                 "a key appears twice: this shard was not written for "
                                 "appending to the fold; remove it, or use overwrite");
        TARN_TRY(tarn__keyset_add(&w->keys, scans, hash, err));
    }
    return TARN_OK;
}

/* Finished shards must follow those of the fold and use the same naming scheme, because
 * readers sort the names and number the shards in that order. */
static tarn_status check_order(tarn_fold_writer *w, const char *name, tarn_error *err)
{
    const char *last = w->n_shards ? w->names[w->n_shards - 1] : NULL;
    char *prefix = strdup(w->prefix);
    unsigned digits = w->digits;
    tarn_status status = prefix ? number_from(w, name, err) : tarn__fail_memory(err);
    bool good = !last || (status == TARN_OK && strcmp(prefix, w->prefix) == 0 &&
                          digits == w->digits && strcmp(last, name) < 0);
    free(prefix);
    if (status != TARN_OK || good) return status;
    return tarn__fail_at(
        err, TARN_ERR_EXISTS, w->stage.folder, TARN_NO_OFFSET,
        "an interrupted writer left shard %s, which does not sort after %s: it was going "
        "to replace the fold; use overwrite to start over",
        name, last);
}

static tarn_status take_finished(tarn_fold_writer *w, const tarn__names *left,
                                 tarn_error *err)
{
    size_t from = w->n_shards;
    bool sums = w->scanning.sums;
    for (size_t i = 0; i < left->count; i++) {
        const char *name = tarn__names_get(left, i).data;
        char *path;
        TARN_TRY(check_order(w, name, err));
        TARN_TRY(tarn__stage_find(&w->stage, name, &path, err));
        TARN_TRY(tarn__writer_add_shard(w, strdup(name), path, err));
    }
    if (w->n_shards == from) return TARN_OK;
    TARN_TRY(scan_from(w, from, true, err));
    w->scanning.sums = sums;
    for (size_t i = from; i < w->n_shards; i++)
        TARN_TRY(take_keys(w, i, err));
    return TARN_OK;
}

/* --- Decision ---------------------------------------------------------------------- */

static tarn_status refuse_leftovers(const tarn_fold_writer *w, size_t count,
                                    tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_EXISTS, w->stage.folder, TARN_NO_OFFSET,
                         "an interrupted writer left %zu finished shard%s of fold %s; "
                         "use resume to continue, or overwrite to start over",
                         count, count == 1 ? "" : "s", w->stage.fold);
}

/* Before the new fold is complete, only files that were never published are removed. */
static tarn_status plan_replacement(tarn_fold_writer *w, const tarn_listed_fold *old,
                                    tarn_error *err)
{
    tarn__stage *s = &w->stage;
    TARN_TRY(tarn__stage_discard(s, err));
    tarn__names_reset(&s->coming);
    tarn__names_reset(&s->going);
    tarn__names_init(&s->coming);
    tarn__names_init(&s->going);
    for (size_t i = 0; old && i < old->n_shards; i++) {
        const char *name = tarn__base_name(old->shards[i]);
        uint32_t id;
        TARN_TRY(tarn__names_add(&s->going, name, strlen(name), &id, err));
    }
    return TARN_OK;
}

/* A journal is obsolete if it was completed or all its shards are gone. */
static bool is_void(const tarn_fold_writer *w, const tarn__names *left)
{
    const tarn__stage *s = &w->stage;
    if (s->journal == TARN__JOURNAL_PAST) return true;
    return s->journal == TARN__JOURNAL_LIVE && !left->count && !s->going.count;
}

static tarn_status decide(tarn_fold_writer *w, const tarn_listed_fold *old,
                          const tarn__names *left, tarn_error *err)
{
    const tarn_fold_writer_options *o = &w->options;
    w->half_replaced = o->overwrite && w->stage.journal == TARN__JOURNAL_LIVE &&
                       left->count && w->stage.going.count;
    if (w->half_replaced) return TARN_END;
    if (o->overwrite) return plan_replacement(w, old, err);
    if (w->stage.journal == TARN__JOURNAL_DAMAGED)
        return tarn__fail_at(err, TARN_ERR_FORMAT, w->stage.journal_path, TARN_NO_OFFSET,
                             "this file lists the shards that an interrupted writer was "
                             "about to publish, but it is damaged; check the fold, then "
                             "remove this file, or overwrite the fold");
    if (left->count && !o->resume) return refuse_leftovers(w, left->count, err);
    if (old && !o->append && !o->resume)
        return tarn__fail_at(err, TARN_ERR_EXISTS, w->stage.folder, TARN_NO_OFFSET,
                             "fold %s already exists, with %zu shard%s; use append or "
                             "overwrite (--append, --overwrite)",
                             w->stage.fold, old->n_shards, old->n_shards == 1 ? "" : "s");
    if (old) TARN_TRY(take_base(w, old, err));
    TARN_TRY(take_finished(w, left, err));
    return is_void(w, left) ? tarn__stage_done(&w->stage, err) : TARN_OK;
}

tarn_status tarn__writer_count(tarn_fold_writer *w, size_t shard, tarn_error *err)
{
    const tarn__scan *scan = &w->build.scans[shard];
    w->n_rows += scan->n_rows;
    for (size_t k = 0; k < scan->fields.count; k++) {
        tarn__name name = tarn__names_get(&scan->fields, k);
        uint32_t id;
        TARN_TRY(tarn__names_add(&w->known, name.data, name.size, &id, err));
    }
    return TARN_OK;
}

static tarn_status count_found(tarn_fold_writer *w, tarn_error *err)
{
    for (size_t i = 0; i < w->n_shards; i++)
        TARN_TRY(tarn__writer_count(w, i, err));
    return TARN_OK;
}

tarn_status tarn__writer_found(tarn_fold_writer *w, tarn_error *err)
{
    tarn__names left;
    tarn_folds *found = NULL;
    tarn__names_init(&left);
    tarn_status status = tarn__stage_leftovers(&w->stage, &left, err);
    if (status == TARN_OK) status = list_fold(w, &found, err);
    if (status == TARN_OK) status = decide(w, found ? found->folds[0] : NULL, &left, err);
    if (status == TARN_OK) status = count_found(w, err);
    tarn_folds_free(found);
    tarn__names_reset(&left);
    return status;
}

bool tarn__writer_found_all(const tarn_fold_writer *w)
{
    return w->n_base && w->n_shards == w->n_base;
}

tarn_status tarn__writer_scan(tarn_fold_writer *w, size_t from, bool sums,
                              tarn_error *err)
{
    bool before = w->scanning.sums;
    tarn_status status = scan_from(w, from, sums, err);
    w->scanning.sums = before;
    return status;
}
