/* What commits in folders and in stores share: the parts, whether they were published
 * before, the names of their shards, and the joined index. */
#include "itar/commit_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "itar/folder.h"
#include "itar/join.h"

tarn_status tarn__texts_add(tarn__texts *l, char *item, tarn_error *err)
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

void tarn__texts_reset(tarn__texts *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i]);
    free(l->items);
    *l = (tarn__texts){0};
}

static char *path_in(const char *folder, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* --- The parts ---------------------------------------------------------------------- */

static tarn_status add_source(tarn__publishing *p, char *index_path, tarn_error *err)
{
    tarn_status status = index_path ? tarn__grow(&p->sources, sizeof *p->sources,
                                                 p->n_sources, &p->capacity, err)
                                    : tarn__fail_memory(err);
    if (status != TARN_OK) {
        free(index_path);
        return status;
    }
    p->sources[p->n_sources++] = (tarn__part_source){.index_path = index_path};
    return TARN_OK;
}

static void drop_source(tarn__publishing *p)
{
    tarn__part_source *last = &p->sources[--p->n_sources];
    free(last->index_path);
    free(last->stamps);
    tarn__texts_reset(&last->shards);
}

static tarn_status take_shards(tarn__publishing *p, const tarn_index *index,
                               tarn_error *err)
{
    tarn__part_source *s = &p->sources[p->n_sources - 1];
    size_t n = index->sums->n_shards;
    s->stamps = calloc(n + 1, sizeof *s->stamps);
    if (!s->stamps) return tarn__fail_memory(err);
    if (n) memcpy(s->stamps, index->sums->stamps, n * sizeof *s->stamps);
    for (size_t i = 0; i < index->sums->n_shards; i++) {
        const char *name = tarn__names_get(&index->sums->names, i).data;
        char *path;
        bool inside;
        if (strchr(name, '/'))
            return tarn__fail_at(err, TARN_ERR_FORMAT, s->index_path, TARN_NO_OFFSET,
                                 "the name of a shard contains a slash");
        TARN_TRY(p->find_shard(p, s->task, name, &path, &inside, err));
        TARN_TRY(tarn__texts_add(&s->shards, path, err));
        if (s->shards.count == 1 && !p->names.count && p->n_sources == 1)
            p->in_place = !inside;
        if (p->in_place == inside)
            return tarn__fail_at(err, TARN_ERR_STALE, s->index_path, TARN_NO_OFFSET,
                                 "its shard %s is missing", name);
    }
    return TARN_OK;
}

/* A part without samples has an empty shard, which the fold does not need. */
static tarn_status take_part(tarn__publishing *p, uint32_t task, bool keep_empty,
                             tarn_error *err)
{
    char name[256];
    tarn_index *index;
    const char *part = p->parts->folders[task];
    snprintf(name, sizeof name, "%s.taridx", p->fold);
    TARN_TRY(add_source(p, path_in(part, name), err));
    p->sources[p->n_sources - 1].task = task;
    const char *path = p->sources[p->n_sources - 1].index_path;
    TARN_TRY(tarn__index_load(path, TARN__LOAD_TRUSTING, &index, err));
    tarn_status status = index->sums
                             ? take_shards(p, index, err)
                             : tarn__fail_at(err, TARN_ERR_NO_FILE, path, TARN_NO_OFFSET,
                                             "the .tarsum of this index is missing");
    if (status == TARN_OK && !index->n_rows && !p->in_place && !keep_empty)
        drop_source(p);
    tarn_index_free(index);
    return status;
}

tarn_status tarn__publishing_begin(tarn__publishing *p, tarn_error *err)
{
    const tarn__parts *all = p->parts;
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < all->count; i++) {
        if (!all->folders[i]) continue;
        if (first == UINT32_MAX) first = i;
        TARN_TRY(take_part(p, i, false, err));
    }
    if (p->n_sources || first == UINT32_MAX) return TARN_OK;
    return take_part(p, first, true, err);
}

/* --- The existing fold -------------------------------------------------------------- */

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

/* Whether found holds for the index of every part. */
static tarn_status all_parts(const tarn__publishing *p, compared *c,
                             bool (*found)(compared *c, const tarn_index *part),
                             bool *out, tarn_error *err)
{
    *out = true;
    for (size_t i = 0; *out && i < p->n_sources; i++) {
        tarn_index *part;
        TARN_TRY(
            tarn__index_load(p->sources[i].index_path, TARN__LOAD_TRUSTING, &part, err));
        *out = found(c, part);
        tarn_index_free(part);
    }
    return TARN_OK;
}

/* Whether the last count shards of the fold are those of the parts. */
static tarn_status compare_end(const tarn__publishing *p, const tarn_index *fold,
                               size_t count, bool *out, tarn_error *err)
{
    compared c = {.fold = fold};
    *out = fold->sums && fold->sums->n_shards >= count;
    if (!*out) return TARN_OK;
    while (c.shard < fold->sums->n_shards - count)
        c.row += fold->sums->stamps[c.shard++].rows;
    return all_parts(p, &c, same_part, out, err);
}

tarn_status tarn__publishing_is_over(const tarn__publishing *p, bool *out,
                                     tarn_error *err)
{
    tarn_index *fold;
    size_t count = 0, n_old = p->old ? p->old->n_shards : 0;
    *out = false;
    for (size_t i = 0; i < p->n_sources; i++)
        count += p->sources[i].shards.count;
    if (!p->old || p->in_place || n_old < count) return TARN_OK;
    if (p->o->overwrite && n_old != count) return TARN_OK;
    if (tarn__index_load(p->old->index_path, TARN__LOAD_TRUSTING, &fold, NULL) != TARN_OK)
        return TARN_OK;
    tarn_status status = compare_end(p, fold, count, out, err);
    tarn_index_free(fold);
    return status;
}

/* Whether the part is somewhere in the fold. */
static bool find_part(compared *c, const tarn_index *part)
{
    uint64_t row = 0;
    for (size_t i = 0; c->fold->sums && i < c->fold->sums->n_shards; i++) {
        compared at = {c->fold, i, row};
        if (same_part(&at, part)) return true;
        row += c->fold->sums->stamps[i].rows;
    }
    return false;
}

tarn_status tarn__publishing_has(const tarn__publishing *p, bool *out, uint64_t *samples,
                                 tarn_error *err)
{
    tarn_index *fold;
    tarn_index_info info;
    *out = false;
    if (!p->old ||
        tarn__index_load(p->old->index_path, TARN__LOAD_TRUSTING, &fold, NULL) != TARN_OK)
        return TARN_OK;
    tarn_index_info_get(fold, &info, sizeof info);
    *samples += info.samples;
    compared c = {.fold = fold};
    tarn_status status = all_parts(p, &c, find_part, out, err);
    tarn_index_free(fold);
    return status;
}

tarn_status tarn__publishing_extend(tarn__publishing *p, tarn_error *err)
{
    const tarn_listed_fold *old = p->old;
    TARN_TRY(add_source(p, strdup(old->index_path), err));
    tarn__part_source *last = &p->sources[p->n_sources - 1];
    for (size_t i = 0; i < old->n_shards; i++) {
        TARN_TRY(tarn__texts_add(&last->shards, strdup(old->shards[i]), err));
        TARN_TRY(
            tarn__texts_add(&p->names, strdup(tarn__base_name(old->shards[i])), err));
    }
    tarn__part_source base = *last;
    memmove(p->sources + 1, p->sources, (p->n_sources - 1) * sizeof *p->sources);
    p->sources[0] = base;
    p->n_base = old->n_shards;
    return TARN_OK;
}

/* --- Names -------------------------------------------------------------------------- */

static tarn_status number_shards(tarn__publishing *p, tarn_error *err)
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
        if (status == TARN_OK) status = tarn__texts_add(&p->names, name, err);
    }
    free(prefix);
    return status;
}

/* Shards that are in the folder keep their names, and all of them must be indexed. */
static tarn_status keep_names(tarn__publishing *p, tarn_error *err)
{
    const tarn_listed_fold *old = p->old;
    for (size_t i = 0; i < p->n_sources; i++)
        for (size_t k = 0; k < p->sources[i].shards.count; k++)
            TARN_TRY(tarn__texts_add(
                &p->names, strdup(tarn__base_name(p->sources[i].shards.items[k])), err));
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

tarn_status tarn__publishing_name(tarn__publishing *p, tarn_error *err)
{
    TARN_TRY(p->in_place ? keep_names(p, err) : number_shards(p, err));
    p->shards = p->names.count;
    return TARN_OK;
}

tarn_status tarn__stamp_compare(const char *path, const tarn__stamp *indexed,
                                uint64_t size, int64_t mtime_ns, tarn_error *err)
{
    bool same_time = !mtime_ns || !indexed->mtime_ns || mtime_ns == indexed->mtime_ns;
    if (size == indexed->size && same_time) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, path, TARN_NO_OFFSET,
                         "the shard was replaced after its task had indexed it (%" PRIu64
                         " bytes then, %" PRIu64 " now%s); discard the parts (tarn "
                         "commit --discard) and run the tasks again",
                         indexed->size, size,
                         size == indexed->size ? ", and another time" : "");
}

tarn_status tarn__publishing_check(const tarn__publishing *p, tarn_error *err)
{
    if (!p->old || p->o->append || p->o->overwrite) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_EXISTS, p->folder, TARN_NO_OFFSET,
                         "fold %s already exists, with %zu shard%s; use append or "
                         "overwrite (--append, --overwrite)",
                         p->fold, p->old->n_shards, p->old->n_shards == 1 ? "" : "s");
}

/* --- The index ---------------------------------------------------------------------- */

tarn_status tarn__publishing_join(tarn__publishing *p, tarn__saving *out, tarn_error *err)
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
    tarn_status status = tarn__index_join(&join, p->index_path, out, &p->info, err);
    free(parts);
    return status;
}

/* --- The end ------------------------------------------------------------------------ */

void tarn__publishing_report(const tarn__publishing *p, tarn_commit_report *report)
{
    report->folds++;
    report->shards += p->shards;
    report->samples += p->info.samples;
    report->members += p->info.rows;
}

void tarn__publishing_reset(tarn__publishing *p)
{
    while (p->n_sources)
        drop_source(p);
    free(p->sources);
    tarn__texts_reset(&p->names);
}
