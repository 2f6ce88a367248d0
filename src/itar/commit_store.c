/* Publishes one fold of the parts of a job in an object store, where nothing can be
 * renamed. In this order:
 *
 *   1. the joined index is written to a local folder, which finds keys that occur twice;
 *   2. its sums are sent to .train.tarsum.next; while that exists, readers ignore shards
 *      that are not in the index (remote_fold.c);
 *   3. the store copies the shards to their names, each in one step;
 *   4. the index is sent, on the condition that it is still the one of the beginning, or
 *      that there is none: this is the moment of the commit;
 *   5. the sums are sent to train.tarsum, where readers look first, and the other ones
 *      are removed.
 *
 * Every step can be repeated: a copy is recognised by its mark, which is a hash of what
 * it is a copy of. With overwrite, the old index and its shards are removed before 3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/text.h"
#include "io/store.h"
#include "itar/commit_parts.h"
#include "itar/folder.h"
#include "itar/remote_index.h"
#include "itar/remote_place.h"

typedef struct far {
    tarn__publishing p;
    const tarn__store_parts *parts;
    tarn__store *store;
    char *index_url, *sums_url, *waiting_url;
    char *local_index; /* the joined one */
    /* The existing fold: */
    bool has_index;
    char etag[256]; /* of its index */
    tarn__index_copy copy;
    tarn_folds *folds; /* its shards, if the parts are in place */
    tarn_listed_fold old;
    tarn__texts old_shards; /* their URLs */
    tarn__listing all;      /* what is in the folder */
} far;

/* --- The parts ---------------------------------------------------------------------- */

static tarn_status find_shard(const tarn__publishing *p, uint32_t task, const char *name,
                              char **out, bool *out_in_part, tarn_error *err)
{
    const far *f = p->context;
    const tarn__listed *found = tarn__store_parts_object(f->parts, task, name);
    *out_in_part = found != NULL;
    if (found)
        *out = strdup(found->url);
    else if (asprintf(out, "%s/%s", p->folder, name) < 0)
        *out = NULL;
    return *out ? TARN_OK : tarn__fail_memory(err);
}

/* What a shard is a copy of, as the mark of the copy. */
static void mark_of(const char *url, char out[TARN__S3_MARK_SIZE])
{
    char hex[TARN__SHA256_HEX];
    tarn__sha256_hex(hex, url, strlen(url));
    snprintf(out, TARN__S3_MARK_SIZE, "%.32s", hex);
}

/* --- The existing fold -------------------------------------------------------------- */

static tarn_status name_old(far *f, tarn_error *err)
{
    const tarn__sums *sums = f->copy.index->sums;
    for (size_t i = 0; sums && i < sums->n_shards; i++) {
        const char *name = tarn__names_get(&sums->names, i).data;
        char *url;
        if (asprintf(&url, "%s/%s", f->p.folder, name) < 0) url = NULL;
        TARN_TRY(tarn__texts_add(&f->old_shards, url, err));
    }
    f->old = (tarn_listed_fold){.name = f->p.fold,
                                .index_path = f->copy.path,
                                .shards = (const char *const *)f->old_shards.items,
                                .n_shards = f->old_shards.count};
    f->p.old = &f->old;
    return TARN_OK;
}

/* The condition of the end is set by the ETag, so it is asked for before the index. */
static tarn_status find_old(far *f, tarn_error *err)
{
    tarn__http_head head;
    TARN_TRY(tarn__store_head(f->store, f->index_url, &f->has_index, &head, err));
    if (!f->has_index) return TARN_OK;
    memcpy(f->etag, head.etag, sizeof f->etag);
    TARN_TRY(tarn__index_fetch(f->index_url, NULL, &f->copy, err));
    return name_old(f, err);
}

/* Shards that are indexed in place are those that the folder has. */
static tarn_status list_in_place(far *f, tarn_error *err)
{
    char *url;
    if (asprintf(&url, "%s:%s", f->p.folder, f->p.fold) < 0)
        return tarn__fail_memory(err);
    tarn_status status = tarn__remote_folds_list(url, &f->folds, err);
    free(url);
    if (status == TARN_OK) f->p.old = f->folds->folds[0];
    return status;
}

/* --- Names that exist --------------------------------------------------------------- */

static int compare_url(const void *url, const void *object)
{
    return strcmp(url, ((const tarn__listed *)object)->url);
}

static const tarn__listed *find_object(const far *f, const char *url)
{
    return f->all.count ? bsearch(url, f->all.objects, f->all.count,
                                  sizeof *f->all.objects, compare_url)
                        : NULL;
}

static bool is_shard(const far *f, size_t number)
{
    return tarn__is_shard_of(f->p.fold, tarn__base_name(f->all.objects[number].url));
}

/* --- Copies ------------------------------------------------------------------------- */

typedef struct copying {
    far *f;
    const char **from; /* URLs; those of the names after n_base */
    size_t count;
} copying;

static tarn_status list_copies(copying *c, tarn_error *err)
{
    const tarn__publishing *p = &c->f->p;
    c->from = calloc(p->names.count + 1, sizeof *c->from);
    if (!c->from) return tarn__fail_memory(err);
    for (size_t i = p->n_base ? 1 : 0; i < p->n_sources; i++)
        for (size_t k = 0; k < p->sources[i].shards.count; k++)
            c->from[c->count++] = p->sources[i].shards.items[k];
    return TARN_OK;
}

static tarn_status fail_taken(const char *url, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_EXISTS, url, TARN_NO_OFFSET,
                         "this shard is in no index, and its name is needed; remove it "
                         "or index it, or commit with overwrite");
}

/* Whether an object is the copy of a shard. */
static tarn_status is_copy(tarn__store *store, const char *url, const tarn__listed *from,
                           bool *out_exists, bool *out, tarn_error *err)
{
    char mark[TARN__S3_MARK_SIZE];
    tarn__http_head head;
    mark_of(from->url, mark);
    TARN_TRY(tarn__store_head(store, url, out_exists, &head, err));
    *out = *out_exists && strcmp(head.mark, mark) == 0 && head.length == from->size;
    return TARN_OK;
}

static tarn_status copy_to(tarn__store *store, const far *f, const tarn__listed *from,
                           const char *url, tarn_error *err)
{
    char mark[TARN__S3_MARK_SIZE];
    bool exists = false, same = false;
    if (find_object(f, url)) TARN_TRY(is_copy(store, url, from, &exists, &same, err));
    if (same) return TARN_OK;
    if (exists && !f->p.o->overwrite) return fail_taken(url, err);
    if (exists) TARN_TRY(tarn__store_delete(store, url, err));
    mark_of(from->url, mark);
    tarn_status status = tarn__store_copy(from, url, mark, err);
    return status == TARN_ERR_EXISTS ? fail_taken(url, err) : status;
}

static tarn_status copy_one(void *context, size_t number, tarn__store *store,
                            tarn_error *err)
{
    const copying *c = context;
    const far *f = c->f;
    const tarn__listing *all = &f->parts->all;
    const tarn__listed *from =
        bsearch(c->from[number], all->objects, all->count, sizeof *from, compare_url);
    char *url;
    if (asprintf(&url, "%s/%s", f->p.folder, f->p.names.items[f->p.n_base + number]) < 0)
        return tarn__fail_memory(err);
    tarn_status status = copy_to(store, f, from, url, err);
    free(url);
    return status;
}

/* Shards of the replaced fold whose names the new one does not have. */
static tarn_status remove_old(far *f, tarn_error *err)
{
    tarn__names kept;
    tarn_status status = TARN_OK;
    uint32_t id;
    tarn__names_init(&kept);
    for (size_t i = 0; status == TARN_OK && i < f->p.names.count; i++)
        status = tarn__names_add(&kept, f->p.names.items[i], strlen(f->p.names.items[i]),
                                 &id, err);
    for (size_t i = 0; status == TARN_OK && i < f->all.count; i++) {
        const char *url = f->all.objects[i].url, *name = tarn__base_name(url);
        if (is_shard(f, i) &&
            tarn__names_find(&kept, name, strlen(name)) == TARN__NAME_NONE)
            status = tarn__store_delete(f->store, url, err);
    }
    tarn__names_reset(&kept);
    return status;
}

static tarn_status fail_changed(const far *f, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_STALE, f->index_url, TARN_NO_OFFSET,
                         "another writer has changed the fold during this commit; run "
                         "the commit again");
}

/* From here on there is no fold until the new index is in place. */
static tarn_status replace_old(far *f, tarn_error *err)
{
    tarn__http_head head;
    bool exists;
    TARN_TRY(tarn__store_head(f->store, f->index_url, &exists, &head, err));
    if (exists != f->has_index || (exists && strcmp(head.etag, f->etag) != 0))
        return fail_changed(f, err);
    TARN_TRY(tarn__store_delete(f->store, f->index_url, err));
    TARN_TRY(tarn__store_delete(f->store, f->sums_url, err));
    f->has_index = false;
    return remove_old(f, err);
}

static tarn_status place_shards(far *f, tarn_error *err)
{
    copying c = {.f = f};
    char *prefix;
    if (asprintf(&prefix, "%s/", f->p.folder) < 0) return tarn__fail_memory(err);
    tarn_status status = tarn__listing_read(&f->all, prefix, false, err);
    free(prefix);
    TARN_TRY(status);
    if (f->p.o->overwrite) TARN_TRY(replace_old(f, err));
    status = list_copies(&c, err);
    if (status == TARN_OK)
        status = tarn__store_each(f->p.folder, c.count, copy_one, &c, err);
    free(c.from);
    return status;
}

/* --- The index ---------------------------------------------------------------------- */

static tarn_status join(far *f, tarn_error *err)
{
    tarn__saving saving;
    if (asprintf(&f->local_index, "%s/%s.taridx", f->parts->temporary, f->p.fold) < 0) {
        f->local_index = NULL;
        return tarn__fail_memory(err);
    }
    f->p.index_path = f->local_index;
    TARN_TRY(tarn__publishing_join(&f->p, &saving, err));
    return tarn__index_publish(&saving, err);
}

static tarn_status send_sums(const char *index, const char *url, tarn_error *err)
{
    char *path = tarn__sums_path(index);
    if (!path) return tarn__fail_memory(err);
    tarn_status status = tarn__store_send(path, url, NULL, err);
    free(path);
    return status;
}

/* If the sums of the old index were replaced first, a reader would find a pair that does
 * not match, and would have to wait for the new index. */
static tarn_status send_index(far *f, tarn_error *err)
{
    char condition[320] = TARN__S3_ONLY_NEW;
    if (f->has_index)
        snprintf(condition, sizeof condition, "If-Match: %s", f->etag);
    else
        TARN_TRY(send_sums(f->local_index, f->sums_url, err));
    tarn_status status = tarn__store_send(f->local_index, f->index_url, condition, err);
    if (status == TARN_ERR_EXISTS || status == TARN_ERR_NO_FILE)
        return fail_changed(f, err);
    return status;
}

static bool is_in(const tarn__texts *texts, const char *name)
{
    for (size_t i = 0; i < texts->count; i++)
        if (strcmp(tarn__base_name(texts->items[i]), name) == 0) return true;
    return false;
}

/* An upload of a commit that was killed; others of the folder stay. */
static bool is_left(const void *context, const char *url)
{
    const far *f = context;
    const char *name = tarn__base_name(url);
    if (strncmp(url, f->index_url, (size_t)(name - url)) != 0) return false;
    return is_in(&f->p.names, name) || is_in(&f->old_shards, name) ||
           strcmp(url, f->index_url) == 0 || strcmp(url, f->sums_url) == 0 ||
           strcmp(url, f->waiting_url) == 0;
}

/* The new index is in place; index is a local copy of it. */
static tarn_status settle(far *f, const char *index, tarn_error *err)
{
    char *prefix;
    TARN_TRY(send_sums(index, f->sums_url, err));
    TARN_TRY(tarn__store_delete(f->store, f->waiting_url, err));
    if (asprintf(&prefix, "%s/", f->p.folder) < 0) return tarn__fail_memory(err);
    tarn_status status = tarn__store_abort(f->store, prefix, is_left, f, err);
    free(prefix);
    return status;
}

/* --- The call ----------------------------------------------------------------------- */

static tarn_status extend(far *f, tarn_error *err)
{
    if (f->copy.index->sums) return tarn__publishing_extend(&f->p, err);
    return tarn__fail_at(err, TARN_ERR_NO_FILE, f->index_url, TARN_NO_OFFSET,
                         "the .tarsum of this index is missing; run tarn index again");
}

static tarn_status publish_shards(far *f, tarn_error *err)
{
    TARN_TRY(tarn__publishing_check(&f->p, err));
    if (f->p.old && f->p.o->append) TARN_TRY(extend(f, err));
    TARN_TRY(tarn__publishing_name(&f->p, err));
    TARN_TRY(join(f, err));
    TARN_TRY(send_sums(f->local_index, f->waiting_url, err));
    TARN_TRY(place_shards(f, err));
    TARN_TRY(send_index(f, err));
    return settle(f, f->local_index, err);
}

static tarn_status same_index(const far *f, bool *out, tarn_error *err)
{
    tarn__contents a, b;
    *out = false;
    if (!f->has_index) return TARN_OK;
    TARN_TRY(tarn__contents_open(&a, f->local_index, err));
    tarn_status status = tarn__contents_open(&b, f->copy.path, err);
    if (status == TARN_OK) {
        *out = a.size == b.size && memcmp(a.data, b.data, (size_t)a.size) == 0;
        tarn__contents_close(&b);
    }
    tarn__contents_close(&a);
    return status;
}

/* A shard in the folder, by its number among those of all parts. */
static tarn_status check_shard(void *context, size_t number, tarn__store *store,
                               tarn_error *err)
{
    const far *f = context;
    const tarn__part_source *s = f->p.sources;
    tarn__http_head head;
    bool exists;
    for (; number >= s->shards.count; s++)
        number -= s->shards.count;
    const char *url = s->shards.items[number];
    TARN_TRY(tarn__store_head(store, url, &exists, &head, err));
    if (!exists)
        return tarn__fail_at(err, TARN_ERR_STALE, url, TARN_NO_OFFSET,
                             "the shard was removed during this commit; run the commit "
                             "again");
    return tarn__stamp_compare(url, &s->stamps[number], head.length,
                               tarn__store_modified_ns(store, &head), err);
}

/* An interrupted commit may have sent this index before. */
static tarn_status publish_in_place(far *f, tarn_error *err)
{
    bool same;
    TARN_TRY(list_in_place(f, err));
    TARN_TRY(tarn__publishing_name(&f->p, err));
    TARN_TRY(tarn__store_each(f->p.folder, f->p.names.count, check_shard, f, err));
    TARN_TRY(join(f, err));
    TARN_TRY(same_index(f, &same, err));
    if (!same) {
        if (f->has_index) TARN_TRY(tarn__publishing_check(&f->p, err));
        TARN_TRY(send_sums(f->local_index, f->waiting_url, err));
        TARN_TRY(send_index(f, err));
    }
    return settle(f, f->local_index, err);
}

static tarn_status settle_published(far *f, tarn_error *err)
{
    tarn_index_info_get(f->copy.index, &f->p.info, sizeof f->p.info);
    f->p.shards = f->copy.index->sums->n_shards;
    return settle(f, f->copy.path, err);
}

static tarn_status run(far *f, tarn_error *err)
{
    bool over;
    TARN_TRY(tarn__publishing_begin(&f->p, err));
    TARN_TRY(find_old(f, err));
    TARN_TRY(tarn__publishing_is_over(&f->p, &over, err));
    if (over) return settle_published(f, err);
    return f->p.in_place ? publish_in_place(f, err) : publish_shards(f, err);
}

static tarn_status name_urls(far *f, tarn_error *err)
{
    const char *folder = f->p.folder, *fold = f->p.fold;
    if (asprintf(&f->index_url, "%s/%s.taridx", folder, fold) < 0) f->index_url = NULL;
    f->sums_url = f->index_url ? tarn__sums_path(f->index_url) : NULL;
    f->waiting_url = f->index_url ? tarn__sums_waiting_path(f->index_url) : NULL;
    return f->waiting_url && f->sums_url ? TARN_OK : tarn__fail_memory(err);
}

static void reset(far *f)
{
    tarn__publishing_reset(&f->p);
    tarn__index_copy_reset(&f->copy);
    tarn_folds_free(f->folds);
    tarn__listing_reset(&f->all);
    tarn__store_close(f->store);
    tarn__texts_reset(&f->old_shards);
    free(f->index_url);
    free(f->sums_url);
    free(f->waiting_url);
    free(f->local_index);
}

static tarn_status open_far(far *f, const tarn__store_parts *parts, const char *folder,
                            const char *fold, const tarn_commit_options *options,
                            tarn_error *err)
{
    *f = (far){.p = {.o = options,
                     .parts = &parts->parts,
                     .folder = folder,
                     .fold = fold,
                     .find_shard = find_shard,
                     .context = f},
               .parts = parts};
    TARN_TRY(name_urls(f, err));
    return tarn__store_open(folder, &f->store, err);
}

tarn_status tarn__store_publish(const tarn__store_parts *parts, const char *folder,
                                const char *fold, const tarn_commit_options *options,
                                tarn_commit_report *report, tarn_error *err)
{
    far f;
    tarn_status status = open_far(&f, parts, folder, fold, options, err);
    if (status == TARN_OK) status = run(&f, err);
    if (status == TARN_OK) tarn__publishing_report(&f.p, report);
    reset(&f);
    return status;
}

tarn_status tarn__store_has(const tarn__store_parts *parts, const char *folder,
                            const char *fold, const tarn_commit_options *options,
                            bool *out, uint64_t *samples, tarn_error *err)
{
    far f;
    tarn_status status = open_far(&f, parts, folder, fold, options, err);
    if (status == TARN_OK) status = tarn__publishing_begin(&f.p, err);
    if (status == TARN_OK) status = find_old(&f, err);
    if (status == TARN_OK) status = tarn__publishing_has(&f.p, out, samples, err);
    reset(&f);
    return status;
}

/* --- Giving up ---------------------------------------------------------------------- */

/* The marks of all copies that a commit may have made, sorted. */
typedef struct copies {
    far *f;
    char (*marks)[TARN__S3_MARK_SIZE];
    size_t count;
} copies;

static int compare_marks(const void *a, const void *b)
{
    return strcmp(a, b);
}

static tarn_status mark_all(copies *c, tarn_error *err)
{
    const tarn__listing *all = &c->f->parts->all;
    c->marks = calloc(all->count + 1, sizeof *c->marks);
    if (!c->marks) return tarn__fail_memory(err);
    for (size_t i = 0; i < all->count; i++)
        if (tarn__ends_with(all->objects[i].url, ".tar"))
            mark_of(all->objects[i].url, c->marks[c->count++]);
    qsort(c->marks, c->count, sizeof *c->marks, compare_marks);
    return TARN_OK;
}

static tarn_status remove_copy(void *context, size_t number, tarn__store *store,
                               tarn_error *err)
{
    const copies *c = context;
    const far *f = c->f;
    const char *url = f->all.objects[number].url;
    tarn__http_head head;
    bool exists;
    if (!is_shard(f, number) || is_in(&f->old_shards, tarn__base_name(url)))
        return TARN_OK;
    TARN_TRY(tarn__store_head(store, url, &exists, &head, err));
    if (!exists ||
        !bsearch(head.mark, c->marks, c->count, sizeof *c->marks, compare_marks))
        return TARN_OK;
    return tarn__store_delete(store, url, err);
}

static bool is_shard_left(const void *context, const char *url)
{
    const far *f = context;
    const char *name = tarn__base_name(url);
    return strncmp(url, f->index_url, (size_t)(name - url)) == 0 &&
           tarn__is_shard_of(f->p.fold, name);
}

static tarn_status remove_copies(far *f, tarn_error *err)
{
    copies c = {.f = f};
    char *prefix;
    if (asprintf(&prefix, "%s/", f->p.folder) < 0) return tarn__fail_memory(err);
    tarn_status status = tarn__listing_read(&f->all, prefix, false, err);
    if (status == TARN_OK) status = mark_all(&c, err);
    if (status == TARN_OK)
        status = tarn__store_each(prefix, f->all.count, remove_copy, &c, err);
    if (status == TARN_OK)
        status = tarn__store_abort(f->store, prefix, is_shard_left, f, err);
    free(c.marks);
    free(prefix);
    return status;
}

static tarn_status discard(far *f, tarn_error *err)
{
    tarn__http_head head;
    bool began;
    TARN_TRY(tarn__store_head(f->store, f->waiting_url, &began, &head, err));
    if (!began) return TARN_OK;
    TARN_TRY(find_old(f, err));
    TARN_TRY(remove_copies(f, err));
    if (f->has_index) return settle(f, f->copy.path, err);
    TARN_TRY(tarn__store_delete(f->store, f->sums_url, err));
    return tarn__store_delete(f->store, f->waiting_url, err);
}

tarn_status tarn__store_discard(const tarn__store_parts *parts, const char *folder,
                                const char *fold, const tarn_commit_options *options,
                                tarn_error *err)
{
    far f;
    tarn_status status = open_far(&f, parts, folder, fold, options, err);
    if (status == TARN_OK) status = discard(&f, err);
    reset(&f);
    return status;
}
