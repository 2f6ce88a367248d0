/* tarn_commit in an object store: finds and fetches the parts of a job, publishes their
 * folds, and removes the parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "itar/commit_job.h"
#include "itar/commit_parts.h"
#include "itar/folder.h"
#include "itar/remote_index.h"

typedef struct committing {
    const tarn_commit_options *o;
    char *folder, *fold;
    tarn__store_parts parts;
    tarn_commit_report *report;
} committing;

static tarn_status put_classes(const void *context, const char *path,
                               const tarn__contents *text, tarn_error *err)
{
    const committing *c = context;
    char *url;
    if (asprintf(&url, "%s/classes.txt", c->folder) < 0) return tarn__fail_memory(err);
    tarn_status status = tarn__store_send(path, url, NULL, err);
    free(url);
    return status;
}

/* --- Folds -------------------------------------------------------------------------- */

typedef tarn_status for_fold(committing *c, const char *fold, tarn_error *err);

static tarn_status each_fold(committing *c, const tarn__names *folds, for_fold *visit,
                             tarn_error *err)
{
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < folds->count; i++)
        status = visit(c, tarn__names_get(folds, i).data, err);
    return status;
}

static tarn_status publish_fold(committing *c, const char *fold, tarn_error *err)
{
    return tarn__store_publish(&c->parts, c->folder, fold, c->o, c->report, err);
}

static tarn_status publish_folds(committing *c, tarn_error *err)
{
    tarn__names folds;
    tarn__names_init(&folds);
    tarn_status status = tarn__commit_folds(c->parts.parts.folders[0], &folds, err);
    if (status == TARN_OK) status = each_fold(c, &folds, publish_fold, err);
    tarn__names_reset(&folds);
    return status;
}

static tarn_status discard_fold(committing *c, const char *fold, tarn_error *err)
{
    return tarn__store_discard(&c->parts, c->folder, fold, c->o, err);
}

/* The folds are known from the names of shards: the parts may not be complete. */
static tarn_status discard_folds(committing *c, tarn_error *err)
{
    tarn__names folds;
    tarn_status status = TARN_OK;
    tarn__names_init(&folds);
    for (size_t i = 0; status == TARN_OK && i < c->parts.all.count; i++) {
        const char *name = tarn__base_name(c->parts.all.objects[i].url), *fold, *suffix;
        size_t len, suffix_len;
        uint32_t id;
        if (tarn__shard_name(name, &fold, &len, &suffix, &suffix_len))
            status = tarn__names_add(&folds, fold, len, &id, err);
    }
    if (status == TARN_OK) status = each_fold(c, &folds, discard_fold, err);
    tarn__names_reset(&folds);
    return status;
}

/* --- The call ----------------------------------------------------------------------- */

/* Without parts, the fold is complete, or there never were any. */
static tarn_status report_existing(committing *c, tarn_error *err)
{
    tarn__index_copy copy;
    tarn_index_info info;
    char *url;
    if (asprintf(&url, "%s/%s.taridx", c->folder, c->fold) < 0)
        return tarn__fail_memory(err);
    tarn_status status = tarn__index_fetch(url, NULL, &copy, err);
    free(url);
    if (status == TARN_ERR_NO_FILE)
        return tarn__fail_at(err, TARN_ERR_NOT_FOUND, c->folder, TARN_NO_OFFSET,
                             "no parts of fold %s: no task with this target has run",
                             c->fold);
    TARN_TRY(status);
    tarn_index_info_get(copy.index, &info, sizeof info);
    c->report->existed = true;
    c->report->folds = 1;
    c->report->shards = copy.index->sums ? copy.index->sums->n_shards : 0;
    c->report->samples = info.samples;
    c->report->members = info.rows;
    tarn__index_copy_reset(&copy);
    return TARN_OK;
}

static tarn_status finish_removal(committing *c, tarn_error *err)
{
    TARN_TRY(tarn__store_parts_remove(&c->parts, err));
    return report_existing(c, err);
}

static tarn_status has_fold(const void *context, const char *fold, bool *out,
                            uint64_t *samples, tarn_error *err)
{
    const committing *c = context;
    return tarn__store_has(&c->parts, c->folder, fold, c->o, out, samples, err);
}

/* Without a fold, nothing must be fetched to know that tasks are missing. */
static tarn_status has_index(const committing *c, bool *out, tarn_error *err)
{
    tarn__store *store;
    tarn__http_head head;
    char *url;
    if (asprintf(&url, "%s/%s.taridx", c->folder, c->fold) < 0)
        return tarn__fail_memory(err);
    tarn_status status = tarn__store_open(url, &store, err);
    if (status == TARN_OK) {
        status = tarn__store_head(store, url, out, &head, err);
        tarn__store_close(store);
    }
    free(url);
    return status;
}

static tarn_status is_repeated(committing *c, bool *out, tarn_error *err)
{
    *out = false;
    if (!tarn__commit_may_repeat(&c->parts.parts, c->o)) return TARN_OK;
    TARN_TRY(has_index(c, out, err));
    if (!*out) return TARN_OK;
    TARN_TRY(tarn__store_parts_fetch(&c->parts, err));
    return tarn__commit_is_repeated(&c->parts.parts, has_fold, c, out, err);
}

static bool none(const void *context, const char *url)
{
    return false;
}

/* The list of uploads shows what killed tasks have left. Users who may not read it get
 * the error before anything is published. */
static tarn_status check_uploads(const committing *c, tarn_error *err)
{
    tarn__store *store;
    TARN_TRY(tarn__store_open(c->folder, &store, err));
    tarn_status status = tarn__store_abort(store, c->parts.parts.root, none, NULL, err);
    tarn__store_close(store);
    return status;
}

static tarn_status commit_found(committing *c, tarn_error *err)
{
    tarn__parts *parts = &c->parts.parts;
    if (c->o->discard) {
        c->report->tasks = c->parts.complete;
        if (!c->parts.done) TARN_TRY(discard_folds(c, err));
        return tarn__store_parts_remove(&c->parts, err);
    }
    if (c->parts.done || !c->parts.all.count) return finish_removal(c, err);
    if (c->parts.several && c->parts.other_count)
        return tarn__fail_counts(parts->root, parts->named, c->parts.other_count, err);
    if (c->parts.several)
        return tarn__fail_several_jobs(parts->root, &parts->id, &c->parts.other, err);
    if (!parts->present)
        return tarn__fail_at(err, TARN_ERR_NOT_FOUND, parts->root, TARN_NO_OFFSET,
                             "no task is complete yet");
    bool repeated;
    TARN_TRY(is_repeated(c, &repeated, err));
    if (repeated) return finish_removal(c, err);
    TARN_TRY(tarn__commit_check(parts, c->o->tasks, err));
    TARN_TRY(check_uploads(c, err));
    TARN_TRY(tarn__store_parts_fetch(&c->parts, err));
    c->report->tasks = parts->count;
    TARN_TRY(tarn__commit_classes(parts, put_classes, c, err));
    TARN_TRY(publish_folds(c, err));
    return tarn__store_parts_remove(&c->parts, err);
}

static tarn_status find_fold(committing *c, const char *only, tarn_error *err)
{
    if (!only) TARN_TRY(tarn__store_parts_fold(c->folder, &c->fold, err));
    if (!c->fold) c->fold = strdup(only ? only : "train");
    return c->fold ? TARN_OK : tarn__fail_memory(err);
}

tarn_status tarn__commit_in_store(const char *path, const tarn_commit_options *options,
                                  tarn_commit_report *report, tarn_error *err)
{
    committing c = {.o = options, .report = report};
    const char *only;
    TARN_TRY(tarn__path_split(path, &c.folder, &only, err));
    c.folder[tarn__store_folder(c.folder)] = '\0';
    tarn_status status = find_fold(&c, only, err);
    if (status == TARN_OK)
        status = tarn__store_parts_find(&c.parts, c.folder, c.fold, err);
    if (status == TARN_OK) {
        status = commit_found(&c, err);
        tarn__store_parts_reset(&c.parts);
    }
    free(c.folder);
    free(c.fold);
    return status;
}
