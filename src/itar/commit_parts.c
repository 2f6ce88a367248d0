/* Publishes a fold that the tasks of a job have written.
 *
 * In this order: the shards of all parts get second names, as finished
 * shards of the stage (commit.h); the joined index is written (join.h); the stage is
 * published like that of any writer. Each step can be repeated: the names depend
 * only on the parts, which stay until the end. */
#include "itar/commit_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tarn/folds.h>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "itar/commit.h"
#include "itar/fold.h"
#include "itar/folder.h"
#include "itar/join.h"

typedef struct list {
    char **items;
    size_t count, capacity;
} list;

/* A part of the fold: its index, and the paths of its shards. */
typedef struct source {
    char *index_path;
    list shards;
} source;

typedef struct publishing {
    const tarn_commit_options *o;
    const tarn__parts *parts;
    const char *folder, *fold;
    source *sources; /* that of the existing fold first, if it is extended */
    size_t n_sources, capacity;
    list names;      /* of all shards */
    size_t n_base;   /* shards of the existing fold */
    bool in_place;   /* the parts are indexes of shards that are in the folder */
    tarn_folds *old; /* the existing fold, or NULL */
    tarn__stage stage;
    tarn_index_info info; /* of the fold, once it is published */
    uint64_t shards;
} publishing;

/* Takes ownership of item, which is NULL if out of memory. */
static tarn_status add(list *l, char *item, tarn_error *err)
{
    tarn_status status = item ? TARN_OK : tarn__fail_memory(err);
    /* One more, for the NULL at the end. */
    if (status == TARN_OK)
        status = tarn__grow(&l->items, sizeof *l->items, l->count + 1, &l->capacity, err);
    if (status != TARN_OK) {
        free(item);
        return status;
    }
    l->items[l->count++] = item;
    l->items[l->count] = NULL;
    return TARN_OK;
}

static void reset(list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i]);
    free(l->items);
    *l = (list){0};
}

static char *path_in(const char *folder, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* --- The parts ---------------------------------------------------------------------- */

static tarn_status add_source(publishing *p, char *index_path, tarn_error *err)
{
    tarn_status status = index_path ? tarn__grow(&p->sources, sizeof *p->sources,
                                                 p->n_sources, &p->capacity, err)
                                    : tarn__fail_memory(err);
    if (status != TARN_OK) {
        free(index_path);
        return status;
    }
    p->sources[p->n_sources++] = (source){.index_path = index_path};
    return TARN_OK;
}

static void drop_source(publishing *p)
{
    source *last = &p->sources[--p->n_sources];
    free(last->index_path);
    reset(&last->shards);
}

/* The shards of an index are beside it or, if it was made by tarn index, in the
 * folder. */
static tarn_status take_shards(publishing *p, const char *part, const tarn_index *index,
                               tarn_error *err)
{
    source *s = &p->sources[p->n_sources - 1];
    for (size_t i = 0; i < index->sums->n_shards; i++) {
        const char *name = tarn__names_get(&index->sums->names, i).data;
        if (strchr(name, '/'))
            return tarn__fail_at(err, TARN_ERR_FORMAT, s->index_path, TARN_NO_OFFSET,
                                 "the name of a shard contains a slash");
        char *path = path_in(part, name);
        bool beside = path && exists(path);
        if (path && !beside) {
            free(path);
            path = path_in(p->folder, name);
        }
        TARN_TRY(add(&s->shards, path, err));
        if (s->shards.count == 1 && !p->names.count && p->n_sources == 1)
            p->in_place = !beside;
        if (p->in_place == beside)
            return tarn__fail_at(err, TARN_ERR_STALE, s->index_path, TARN_NO_OFFSET,
                                 "its shard %s is missing", name);
    }
    return TARN_OK;
}

/* A part without samples has an empty shard, which the fold does not need. */
static tarn_status take_part(publishing *p, const char *part, bool keep_empty,
                             tarn_error *err)
{
    char name[256];
    tarn_index *index;
    snprintf(name, sizeof name, "%s.taridx", p->fold);
    TARN_TRY(add_source(p, path_in(part, name), err));
    const char *path = p->sources[p->n_sources - 1].index_path;
    TARN_TRY(tarn__index_load(path, TARN__LOAD_TRUSTING, &index, err));
    tarn_status status = index->sums
                             ? take_shards(p, part, index, err)
                             : tarn__fail_at(err, TARN_ERR_NO_FILE, path, TARN_NO_OFFSET,
                                             "the .tarsum of this index is missing");
    if (status == TARN_OK && !index->n_rows && !p->in_place && !keep_empty)
        drop_source(p);
    tarn_index_free(index);
    return status;
}

static tarn_status take_parts(publishing *p, tarn_error *err)
{
    const tarn__parts *all = p->parts;
    for (uint32_t i = 0; i < all->count; i++)
        TARN_TRY(take_part(p, all->folders[i], false, err));
    return p->n_sources ? TARN_OK : take_part(p, all->folders[0], true, err);
}

/* --- The existing fold -------------------------------------------------------------- */

static tarn_status list_old(publishing *p, tarn_error *err)
{
    char *path;
    tarn_error why;
    if (asprintf(&path, "%s:%s", p->folder, p->fold) < 0) return tarn__fail_memory(err);
    tarn_status status = tarn_folds_list(path, &p->old, &why);
    free(path);
    if (status == TARN_OK) return TARN_OK;
    p->old = NULL;
    if (tarn_is_not_found(status)) return TARN_OK;
    if (err) *err = why;
    return status;
}

/* Whether a part has the rows of the fold from first on. Stamps are not enough: their
 * digests are the same for headers with the same sums. */
static bool same_rows(const tarn_index *fold, uint64_t first, const tarn_index *part)
{
    if (part->n_rows > fold->n_rows - first) return false;
    for (uint64_t i = 0; i < part->n_rows; i++) {
        tarn_row a, b;
        tarn__row_get(tarn__index_at(fold, first + i), &a);
        tarn__row_get(tarn__index_at(part, i), &b);
        if (a.keyhash != b.keyhash || a.offset != b.offset || a.size != b.size)
            return false;
    }
    return true;
}

/* The shards and rows of the fold that were compared with those of the parts. */
typedef struct compared {
    const tarn_index *fold;
    size_t shard;
    uint64_t row;
} compared;

static bool same_part(compared *c, const tarn_index *part)
{
    const tarn__sums *all = c->fold->sums, *sums = part->sums;
    if (!sums || sums->n_shards > all->n_shards - c->shard) return false;
    for (size_t i = 0; i < sums->n_shards; i++) {
        const tarn__stamp *a = &all->stamps[c->shard++], *b = &sums->stamps[i];
        if (a->size != b->size || a->rows != b->rows || a->digest != b->digest)
            return false;
    }
    bool same = same_rows(c->fold, c->row, part) && all->checksums && sums->checksums &&
                memcmp(all->checksums + c->row, sums->checksums,
                       (size_t)part->n_rows * sizeof *sums->checksums) == 0;
    c->row += part->n_rows;
    return same;
}

static tarn_status compare_end(const publishing *p, const tarn_index *fold, size_t count,
                               bool *out, tarn_error *err)
{
    compared c = {.fold = fold};
    *out = fold->sums && fold->sums->n_shards >= count;
    while (*out && c.shard < fold->sums->n_shards - count)
        c.row += fold->sums->stamps[c.shard++].rows;
    for (size_t i = 0; *out && i < p->n_sources; i++) {
        tarn_index *part;
        TARN_TRY(
            tarn__index_load(p->sources[i].index_path, TARN__LOAD_TRUSTING, &part, err));
        *out = same_part(&c, part);
        tarn_index_free(part);
    }
    return TARN_OK;
}

/* Whether the last shards of the existing fold are those of the parts, because an earlier
 * commit was interrupted after it had published them. */
static tarn_status is_published(const publishing *p, bool *out, tarn_error *err)
{
    tarn_index *fold;
    size_t count = 0, n_old = p->old ? p->old->folds[0]->n_shards : 0;
    *out = false;
    for (size_t i = 0; i < p->n_sources; i++)
        count += p->sources[i].shards.count;
    if (!p->old || p->in_place || n_old < count) return TARN_OK;
    if (p->o->overwrite && n_old != count) return TARN_OK;
    if (tarn__index_load(p->stage.index_path, TARN__LOAD_TRUSTING, &fold, NULL) !=
        TARN_OK)
        return TARN_OK;
    tarn_status status = compare_end(p, fold, count, out, err);
    tarn_index_free(fold);
    return status;
}

/* Opening the existing fold checks that the index belongs to its shards. */
static tarn_status check_base(const publishing *p, tarn_error *err)
{
    char *path;
    tarn__fold *fold;
    if (asprintf(&path, "%s:%s", p->folder, p->fold) < 0) return tarn__fail_memory(err);
    tarn_status status = tarn__fold_open(path, NULL, &fold, err);
    free(path);
    if (status == TARN_OK) tarn__fold_close(fold);
    return status;
}

/* The existing fold becomes the first source. */
static tarn_status take_base(publishing *p, tarn_error *err)
{
    const tarn_listed_fold *old = p->old->folds[0];
    TARN_TRY(check_base(p, err));
    TARN_TRY(add_source(p, strdup(old->index_path), err));
    source *last = &p->sources[p->n_sources - 1];
    for (size_t i = 0; i < old->n_shards; i++) {
        TARN_TRY(add(&last->shards, strdup(old->shards[i]), err));
        TARN_TRY(add(&p->names, strdup(tarn__base_name(old->shards[i])), err));
    }
    source base = *last;
    memmove(p->sources + 1, p->sources, (p->n_sources - 1) * sizeof *p->sources);
    p->sources[0] = base;
    p->n_base = old->n_shards;
    return TARN_OK;
}

/* --- Names -------------------------------------------------------------------------- */

static tarn_status name_shards(publishing *p, tarn_error *err)
{
    char *prefix = NULL, *name;
    unsigned digits = 4;
    uint64_t number = 0, count = 0, limit = 10000;
    size_t first = p->n_base ? 1 : 0;
    for (size_t i = first; i < p->n_sources; i++)
        count += p->sources[i].shards.count;
    if (p->n_base + count > TARN_MAX_SHARDS)
        return tarn__fail_at(err, TARN_ERR_LIMIT, p->parts->root, TARN_NO_OFFSET,
                             "%" PRIu64 " shards, but a fold can have at most %u; use "
                             "larger shards, or several folds",
                             p->n_base + count, TARN_MAX_SHARDS);
    for (; count > limit; limit *= 10)
        digits++;
    if (p->n_base) {
        TARN_TRY(tarn__shard_number(p->names.items[p->n_base - 1], p->folder, &prefix,
                                    &digits, &number, err));
        number++;
    } else if (asprintf(&prefix, "%s_", p->fold) < 0) {
        return tarn__fail_memory(err);
    }
    tarn_status status = TARN_OK;
    for (uint64_t i = 0; status == TARN_OK && i < count; i++) {
        status = tarn__shard_compose(prefix, digits, number + i, p->folder, &name, err);
        if (status == TARN_OK) status = add(&p->names, name, err);
    }
    free(prefix);
    return status;
}

/* Shards that are in the folder keep their names, and all of them must be indexed. */
static tarn_status keep_names(publishing *p, tarn_error *err)
{
    const tarn_listed_fold *old = p->old ? p->old->folds[0] : NULL;
    for (size_t i = 0; i < p->n_sources; i++)
        for (size_t k = 0; k < p->sources[i].shards.count; k++)
            TARN_TRY(add(&p->names,
                         strdup(tarn__base_name(p->sources[i].shards.items[k])), err));
    for (size_t i = 0; i < p->names.count || (old && i < old->n_shards); i++) {
        const char *mine = i < p->names.count ? p->names.items[i] : NULL;
        const char *found =
            old && i < old->n_shards ? tarn__base_name(old->shards[i]) : NULL;
        if (!mine || !found || strcmp(mine, found) != 0)
            return tarn__fail_at(err, TARN_ERR_STALE, p->parts->root, TARN_NO_OFFSET,
                                 "shard %s was %s after the tasks ran; discard the parts "
                                 "and run the tasks again",
                                 found ? found : mine, found ? "added" : "removed");
    }
    return TARN_OK;
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
static const char *source_of(const publishing *p, const char *name)
{
    size_t at = p->n_base;
    for (size_t i = p->n_base ? 1 : 0; i < p->n_sources; i++)
        for (size_t k = 0; k < p->sources[i].shards.count; k++)
            if (strcmp(p->names.items[at++], name) == 0)
                return p->sources[i].shards.items[k];
    return NULL;
}

static tarn_status check_leftovers(publishing *p, tarn_error *err)
{
    tarn__names left;
    tarn__names_init(&left);
    tarn_status status = tarn__stage_leftovers(&p->stage, &left, err);
    for (size_t i = 0; status == TARN_OK && i < left.count; i++) {
        const char *name = tarn__names_get(&left, i).data, *from = source_of(p, name);
        char *found;
        status = tarn__stage_find(&p->stage, name, &found, err);
        if (status != TARN_OK) break;
        if (!from || !is_ours(from, found))
            status = tarn__fail_at(
                err, TARN_ERR_EXISTS, found, TARN_NO_OFFSET,
                "an interrupted writer of fold %s left this shard; publish what it wrote "
                "(tarn merge --resume -o %s:%s) or remove the shard, then commit again",
                p->fold, p->folder, p->fold);
        free(found);
    }
    tarn__names_reset(&left);
    return status;
}

static bool is_coming(const publishing *p, const char *name)
{
    return tarn__names_find(&p->stage.coming, name, strlen(name)) != TARN__NAME_NONE;
}

/* A copy that was interrupted has a temporary name, so what is found is complete. */
static tarn_status place_shard(publishing *p, const char *from, const char *name,
                               tarn_error *err)
{
    char *part = tarn__stage_part(&p->stage, name);
    char *final = tarn__stage_path(&p->stage, name);
    tarn_status status = part && final ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK && !exists(part) && !(is_coming(p, name) && exists(final)))
        status = tarn__publish_link(from, part, false, p->o->no_sync, err);
    free(part);
    free(final);
    return status;
}

static tarn_status place_shards(publishing *p, tarn_error *err)
{
    size_t at = p->n_base;
    for (size_t i = p->n_base ? 1 : 0; i < p->n_sources; i++)
        for (size_t k = 0; k < p->sources[i].shards.count; k++)
            TARN_TRY(
                place_shard(p, p->sources[i].shards.items[k], p->names.items[at++], err));
    return TARN_OK;
}

/* Decides by the options what happens to the existing fold. */
static tarn_status decide(publishing *p, tarn_error *err)
{
    const tarn_commit_options *o = p->o;
    if (p->stage.journal == TARN__JOURNAL_DAMAGED)
        return tarn__fail_at(
            err, TARN_ERR_FORMAT, p->stage.journal_path, TARN_NO_OFFSET,
            "this file lists shards that an interrupted writer was about "
            "to publish, but it is damaged; check the fold, then remove "
            "this file");
    if (p->stage.journal == TARN__JOURNAL_PAST)
        TARN_TRY(tarn__stage_done(&p->stage, err));
    if (p->in_place) return keep_names(p, err);
    if (p->old && !o->append && !o->overwrite)
        return tarn__fail_at(
            err, TARN_ERR_EXISTS, p->folder, TARN_NO_OFFSET,
            "fold %s already exists, with %zu shard%s; commit with append "
            "or overwrite",
            p->fold, p->old->folds[0]->n_shards,
            p->old->folds[0]->n_shards == 1 ? "" : "s");
    if (p->old && o->append) TARN_TRY(take_base(p, err));
    for (size_t i = 0; p->old && o->overwrite && i < p->old->folds[0]->n_shards; i++) {
        const char *name = tarn__base_name(p->old->folds[0]->shards[i]);
        uint32_t id;
        TARN_TRY(tarn__names_add(&p->stage.going, name, strlen(name), &id, err));
    }
    TARN_TRY(name_shards(p, err));
    return check_leftovers(p, err);
}

/* --- Publishing --------------------------------------------------------------------- */

static tarn_status join_all(publishing *p, tarn__saving *out, tarn_error *err)
{
    tarn__join_part *parts = calloc(p->n_sources + 1, sizeof *parts);
    if (!parts) return tarn__fail_memory(err);
    for (size_t i = 0; i < p->n_sources; i++)
        parts[i] = (tarn__join_part){p->sources[i].index_path,
                                     (const char *const *)p->sources[i].shards.items};
    tarn__join join = {.parts = parts,
                       .count = p->n_sources,
                       .names = (const char *const *)p->names.items,
                       .n_names = p->names.count,
                       .memory = p->o->memory,
                       .threads = p->o->threads,
                       .no_sync = p->o->no_sync};
    tarn_status status = tarn__index_join(&join, p->stage.index_path, out, &p->info, err);
    free(parts);
    return status;
}

/* Like the end of a writer: see commit.h. */
static tarn_status publish(publishing *p, tarn_error *err)
{
    tarn__saving saving;
    const char *const *names = (const char *const *)p->names.items + p->n_base;
    TARN_TRY(join_all(p, &saving, err));
    tarn_status status = p->in_place ? TARN_OK : place_shards(p, err);
    if (status == TARN_OK && !p->in_place)
        status = tarn__stage_name(&p->stage, names, p->names.count - p->n_base,
                                  !p->n_base, err);
    if (status != TARN_OK) {
        tarn__saving_reset(&saving);
        return status;
    }
    TARN_TRY(tarn__index_publish(&saving, err));
    return tarn__stage_done(&p->stage, err);
}

static tarn_status report_published(publishing *p, tarn_error *err)
{
    tarn_index *index;
    TARN_TRY(tarn__index_load(p->stage.index_path, TARN__LOAD_TRUSTING, &index, err));
    tarn_index_info_get(index, &p->info, sizeof p->info);
    p->shards = index->sums->n_shards;
    tarn_index_free(index);
    return tarn__stage_done(&p->stage, err);
}

static tarn_status publish_new(publishing *p, tarn_error *err)
{
    bool published;
    TARN_TRY(take_parts(p, err));
    TARN_TRY(list_old(p, err));
    TARN_TRY(is_published(p, &published, err));
    if (published) return report_published(p, err);
    TARN_TRY(decide(p, err));
    p->shards = p->names.count;
    return publish(p, err);
}

tarn_status tarn__parts_publish(const tarn__parts *parts, const char *folder,
                                const char *fold, const tarn_commit_options *options,
                                tarn_commit_report *report, tarn_error *err)
{
    publishing p = {.o = options, .parts = parts, .folder = folder, .fold = fold};
    TARN_TRY(tarn__stage_open(&p.stage, folder, fold, options->no_sync, err));
    tarn_status status = publish_new(&p, err);
    if (status == TARN_OK) {
        report->folds++;
        report->shards += p.shards;
        report->samples += p.info.samples;
        report->members += p.info.rows;
    }
    while (p.n_sources)
        drop_source(&p);
    free(p.sources);
    reset(&p.names);
    tarn_folds_free(p.old);
    tarn__stage_close(&p.stage);
    return status;
}
