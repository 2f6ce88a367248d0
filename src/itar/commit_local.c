/* Publishes one fold of the parts of a job in a folder.
 *
 * In this order: the shards of all parts get second names, as finished
 * shards of the stage (commit.h); the joined index is written (join.h); the stage is
 * published like that of any writer. Each step can be repeated: the names depend
 * only on the parts, which stay until the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "itar/commit.h"
#include "itar/commit_parts.h"
#include "itar/fold.h"

typedef struct local {
    tarn__publishing p;
    tarn_folds *folds; /* the existing fold, or NULL */
    tarn__stage stage;
} local;

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static tarn_status find_shard(const tarn__publishing *p, uint32_t task, const char *name,
                              char **out, bool *out_in_part, tarn_error *err)
{
    if (asprintf(out, "%s/%s", p->parts->folders[task], name) < 0)
        return tarn__fail_memory(err);
    *out_in_part = exists(*out);
    if (*out_in_part) return TARN_OK;
    free(*out);
    return asprintf(out, "%s/%s", p->folder, name) < 0 ? tarn__fail_memory(err) : TARN_OK;
}

/* --- The existing fold -------------------------------------------------------------- */

static tarn_status list_old(local *l, tarn_error *err)
{
    char *path;
    tarn_error why;
    if (asprintf(&path, "%s:%s", l->p.folder, l->p.fold) < 0)
        return tarn__fail_memory(err);
    tarn_status status = tarn_folds_list(path, &l->folds, &why);
    free(path);
    if (status == TARN_OK) {
        l->p.old = l->folds->folds[0];
        return TARN_OK;
    }
    l->folds = NULL;
    if (tarn_is_not_found(status)) return TARN_OK;
    if (err) *err = why;
    return status;
}

/* Opening the existing fold checks that the index belongs to its shards. */
static tarn_status check_base(const local *l, tarn_error *err)
{
    char *path;
    tarn__fold *fold;
    if (asprintf(&path, "%s:%s", l->p.folder, l->p.fold) < 0)
        return tarn__fail_memory(err);
    tarn_status status = tarn__fold_open(path, NULL, &fold, err);
    free(path);
    if (status == TARN_OK) tarn__fold_close(fold);
    return status;
}

/* --- The stage ---------------------------------------------------------------------- */

static bool same_bytes(const char *left, const char *right)
{
    tarn__contents a, b;
    if (tarn__contents_open(&a, left, NULL) != TARN_OK) return false;
    bool same = tarn__contents_open(&b, right, NULL) == TARN_OK;
    if (same) {
        same = a.size == b.size && memcmp(a.data, b.data, (size_t)a.size) == 0;
        tarn__contents_close(&b);
    }
    tarn__contents_close(&a);
    return same;
}

/* Whether a finished shard that was found is this one, linked or copied by an interrupted
 * commit. */
static bool is_ours(const char *from, const char *found)
{
    struct stat a, b;
    if (stat(from, &a) != 0 || lstat(found, &b) != 0 || !S_ISREG(b.st_mode)) return false;
    return (a.st_ino == b.st_ino && a.st_dev == b.st_dev) ||
           (a.st_size == b.st_size && same_bytes(from, found));
}

/* The current path of the shard with this name, or NULL if it is not one of the new. */
static const char *source_of(const local *l, const char *name)
{
    size_t at = l->p.n_base;
    for (size_t i = l->p.n_base ? 1 : 0; i < l->p.n_sources; i++)
        for (size_t k = 0; k < l->p.sources[i].shards.count; k++)
            if (strcmp(l->p.names.items[at++], name) == 0)
                return l->p.sources[i].shards.items[k];
    return NULL;
}

static tarn_status check_leftovers(local *l, tarn_error *err)
{
    tarn__names left;
    tarn__names_init(&left);
    tarn_status status = tarn__stage_leftovers(&l->stage, &left, err);
    for (size_t i = 0; status == TARN_OK && i < left.count; i++) {
        const char *name = tarn__names_get(&left, i).data, *from = source_of(l, name);
        char *found;
        status = tarn__stage_find(&l->stage, name, &found, err);
        if (status != TARN_OK) break;
        if (!from || !is_ours(from, found))
            status = tarn__fail_at(
                err, TARN_ERR_EXISTS, found, TARN_NO_OFFSET,
                "an interrupted writer of fold %s left this shard; publish what it wrote "
                "(tarn merge --resume -o %s:%s) or remove the shard, then commit again",
                l->p.fold, l->p.folder, l->p.fold);
        free(found);
    }
    tarn__names_reset(&left);
    return status;
}

static bool is_coming(const local *l, const char *name)
{
    return tarn__names_find(&l->stage.coming, name, strlen(name)) != TARN__NAME_NONE;
}

/* A copy that was interrupted has a temporary name, so what is found is complete. */
static tarn_status place_shard(local *l, const char *from, const char *name,
                               tarn_error *err)
{
    char *part = tarn__stage_part(&l->stage, name);
    char *final = tarn__stage_path(&l->stage, name);
    tarn_status status = part && final ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK && !exists(part) && !(is_coming(l, name) && exists(final)))
        status = tarn__publish_link(from, part, false, l->p.o->no_sync, err);
    free(part);
    free(final);
    return status;
}

static tarn_status place_shards(local *l, tarn_error *err)
{
    size_t at = l->p.n_base;
    for (size_t i = l->p.n_base ? 1 : 0; i < l->p.n_sources; i++)
        for (size_t k = 0; k < l->p.sources[i].shards.count; k++)
            TARN_TRY(place_shard(l, l->p.sources[i].shards.items[k],
                                 l->p.names.items[at++], err));
    return TARN_OK;
}

static tarn_status check_in_place(const local *l, tarn_error *err)
{
    for (size_t i = 0; i < l->p.n_sources; i++) {
        const tarn__part_source *s = &l->p.sources[i];
        for (size_t k = 0; k < s->shards.count; k++) {
            tarn__file_id id;
            TARN_TRY(tarn__file_identify(s->shards.items[k], &id, err));
            TARN_TRY(tarn__stamp_compare(s->shards.items[k], &s->stamps[k], id.size,
                                         id.mtime_ns, err));
        }
    }
    return TARN_OK;
}

/* Decides by the options what happens to the existing fold. */
static tarn_status decide(local *l, tarn_error *err)
{
    const tarn_commit_options *o = l->p.o;
    if (l->stage.journal == TARN__JOURNAL_DAMAGED)
        return tarn__fail_at(
            err, TARN_ERR_FORMAT, l->stage.journal_path, TARN_NO_OFFSET,
            "this file lists shards that an interrupted writer was about "
            "to publish, but it is damaged; check the fold, then remove "
            "this file");
    if (l->stage.journal == TARN__JOURNAL_PAST)
        TARN_TRY(tarn__stage_done(&l->stage, err));
    if (l->p.in_place) {
        TARN_TRY(tarn__publishing_name(&l->p, err));
        return check_in_place(l, err);
    }
    TARN_TRY(tarn__publishing_check(&l->p, err));
    if (l->p.old && o->append) {
        TARN_TRY(check_base(l, err));
        TARN_TRY(tarn__publishing_extend(&l->p, err));
    }
    for (size_t i = 0; l->p.old && o->overwrite && i < l->p.old->n_shards; i++) {
        const char *name = tarn__base_name(l->p.old->shards[i]);
        uint32_t id;
        TARN_TRY(tarn__names_add(&l->stage.going, name, strlen(name), &id, err));
    }
    TARN_TRY(tarn__publishing_name(&l->p, err));
    return check_leftovers(l, err);
}

/* --- Publishing --------------------------------------------------------------------- */

/* Like the end of a writer: see commit.h. */
static tarn_status publish(local *l, tarn_error *err)
{
    tarn__saving saving;
    const char *const *names = (const char *const *)l->p.names.items + l->p.n_base;
    TARN_TRY(tarn__publishing_join(&l->p, &saving, err));
    tarn_status status = l->p.in_place ? TARN_OK : place_shards(l, err);
    if (status == TARN_OK && !l->p.in_place)
        status = tarn__stage_name(&l->stage, names, l->p.names.count - l->p.n_base,
                                  !l->p.n_base, err);
    if (status != TARN_OK) {
        tarn__saving_reset(&saving);
        return status;
    }
    TARN_TRY(tarn__index_publish(&saving, err));
    return tarn__stage_done(&l->stage, err);
}

static tarn_status report_published(local *l, tarn_error *err)
{
    tarn_index *index;
    TARN_TRY(tarn__index_load(l->stage.index_path, TARN__LOAD_TRUSTING, &index, err));
    tarn_index_info_get(index, &l->p.info, sizeof l->p.info);
    l->p.shards = index->sums->n_shards;
    tarn_index_free(index);
    return tarn__stage_done(&l->stage, err);
}

static tarn_status publish_new(local *l, tarn_error *err)
{
    bool published;
    TARN_TRY(tarn__publishing_begin(&l->p, err));
    TARN_TRY(list_old(l, err));
    TARN_TRY(tarn__publishing_is_over(&l->p, &published, err));
    if (published) return report_published(l, err);
    TARN_TRY(decide(l, err));
    return publish(l, err);
}

tarn_status tarn__parts_has(const tarn__parts *parts, const char *folder,
                            const char *fold, const tarn_commit_options *options,
                            bool *out, uint64_t *samples, tarn_error *err)
{
    local l = {.p = {.o = options,
                     .parts = parts,
                     .folder = folder,
                     .fold = fold,
                     .find_shard = find_shard}};
    tarn_status status = tarn__publishing_begin(&l.p, err);
    if (status == TARN_OK) status = list_old(&l, err);
    if (status == TARN_OK) status = tarn__publishing_has(&l.p, out, samples, err);
    tarn__publishing_reset(&l.p);
    tarn_folds_free(l.folds);
    return status;
}

tarn_status tarn__parts_publish(const tarn__parts *parts, const char *folder,
                                const char *fold, const tarn_commit_options *options,
                                tarn_commit_report *report, tarn_error *err)
{
    local l = {.p = {.o = options,
                     .parts = parts,
                     .folder = folder,
                     .fold = fold,
                     .find_shard = find_shard}};
    TARN_TRY(tarn__stage_open(&l.stage, folder, fold, options->no_sync, err));
    l.p.index_path = l.stage.index_path;
    tarn_status status = publish_new(&l, err);
    if (status == TARN_OK) tarn__publishing_report(&l.p, report);
    tarn__publishing_reset(&l.p);
    tarn_folds_free(l.folds);
    tarn__stage_close(&l.stage);
    return status;
}
