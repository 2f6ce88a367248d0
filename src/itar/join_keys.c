/* Keys with the same hash in different parts: either one key, which is an error, or keys
 * that collide, which the joined index numbers. Both are rare, so this may open shards.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sort.h"
#include "base/text.h"
#include "itar/fold.h"
#include "itar/join_inside.h"

/* A key of the group, by the number of its first appearance. */
typedef struct identity {
    uint32_t part, old, row;
    uint32_t key; /* number of its text */
} identity;

typedef struct group {
    tarn__joiner *j;
    tarn__names marks; /* part and old, as bytes */
    tarn__names keys;
    identity *all;
    size_t count, capacity;
} group;

static uint32_t part_of(const tarn__joiner *j, uint32_t row)
{
    return (uint32_t)tarn__stretch_of(j->first_rows, j->join->count, row);
}

static tarn_status open_part(tarn__joiner *j, uint32_t part, tarn_error *err)
{
    const tarn__join_part *p = &j->join->parts[part];
    tarn__fold_options o = {.shards = p->shards};
    if (j->parts[part].fold) return TARN_OK;
    return tarn__fold_open(p->index_path, &o, &j->parts[part].fold, err);
}

static tarn_status old_collision(tarn__joiner *j, uint32_t part, uint32_t row,
                                 uint32_t *out, tarn_error *err)
{
    const tarn__joined *p = &j->parts[part];
    const unsigned char *bytes;
    *out = 0;
    if (!p->n_collisions) return TARN_OK;
    TARN_TRY(open_part(j, part, err));
    TARN_TRY(tarn__index_use(p->fold->index, row - p->first_row, &bytes, err));
    *out = tarn__row_collision(bytes);
    return TARN_OK;
}

static tarn_status read_key(tarn__joiner *j, const identity *one, tarn_text *out,
                            tarn_error *err)
{
    const tarn__joined *p = &j->parts[one->part];
    TARN_TRY(open_part(j, one->part, err));
    const char *known = tarn_index_collision(p->fold->index, one->old);
    if (known) return tarn__text_set(out, known, strlen(known), err);
    return tarn__fold_names(p->fold, one->row - p->first_row, out, NULL, err);
}

static const char *shard_of(const tarn__joiner *j, const identity *one, uint64_t *out_at)
{
    const tarn__joined *p = &j->parts[one->part];
    tarn_row row;
    tarn__row_get(tarn__index_at(p->fold->index, one->row - p->first_row), &row);
    *out_at = row.offset;
    return j->join->parts[one->part].shards[row.shard];
}

static tarn_status fail_twice(const group *g, const identity *first, const identity *next,
                              const tarn_text *key, tarn_error *err)
{
    uint64_t at, before;
    const char *one = shard_of(g->j, first, &before), *two = shard_of(g->j, next, &at);
    return tarn__fail_at(err, TARN_ERR_EXISTS, two, at, "the key %s is also in %s",
                         TARN__SHOW(key->data, key->size), one);
}

/* Gives a new identity its key, which no other identity has. */
static tarn_status take_key(group *g, identity *one, tarn_error *err)
{
    tarn_text key = {0};
    size_t known = g->keys.count;
    TARN_TRY(read_key(g->j, one, &key, err));
    tarn_status status = tarn__names_add(&g->keys, key.data, key.size, &one->key, err);
    for (size_t i = 0; status == TARN_OK && g->keys.count == known && i < g->count; i++)
        if (g->all[i].key == one->key) status = fail_twice(g, &g->all[i], one, &key, err);
    tarn_text_reset(&key);
    return status;
}

/* The number of the key of a run, by first appearance. */
static tarn_status identify(group *g, const tarn__run *run, uint32_t *out,
                            tarn_error *err)
{
    identity one = {.part = part_of(g->j, run->row), .row = run->row};
    size_t known = g->marks.count;
    TARN_TRY(old_collision(g->j, one.part, run->row, &one.old, err));
    uint32_t mark[2] = {one.part, one.old};
    TARN_TRY(tarn__names_add(&g->marks, (const char *)mark, sizeof mark, out, err));
    if (g->marks.count == known) return TARN_OK;
    TARN_TRY(tarn__grow(&g->all, sizeof *g->all, g->count, &g->capacity, err));
    g->all[g->count++] = one;
    return TARN_OK;
}

static tarn_status note_stranger(group *g, const identity *one, uint64_t hash,
                                 tarn_error *err)
{
    tarn__joiner *j = g->j;
    tarn__name key = tarn__names_get(&g->keys, one->key);
    TARN_TRY(tarn__grow(&j->strangers, sizeof *j->strangers, j->n_strangers,
                        &j->stranger_capacity, err));
    char *copy = malloc(key.size + 1);
    if (!copy) return tarn__fail_memory(err);
    memcpy(copy, key.data, key.size + 1);
    j->strangers[j->n_strangers++] = (tarn__stranger){.hash = hash,
                                                      .part = one->part,
                                                      .old = one->old,
                                                      .first_row = one->row,
                                                      .key = copy,
                                                      .len = key.size};
    return TARN_OK;
}

static tarn_status separate(group *g, tarn_error *err)
{
    tarn__joiner *j = g->j;
    uint64_t hash = j->group[0].hash;
    for (size_t i = 0; i < j->n_group; i++) {
        uint32_t number;
        TARN_TRY(identify(g, &j->group[i], &number, err));
        j->group[i].hash = number;
    }
    for (size_t i = 0; g->count > 1 && i < g->count; i++) {
        identity *one = &g->all[i];
        one->key = UINT32_MAX;
        TARN_TRY(take_key(g, one, err));
        if (i) TARN_TRY(note_stranger(g, one, hash, err));
    }
    tarn__runs_sort(j->group, j->n_group, 1);
    return TARN_OK;
}

/* One part without collisions has one key for each hash. */
static bool is_one_key(const tarn__joiner *j)
{
    uint32_t part = part_of(j, j->group[0].row);
    return !j->parts[part].n_collisions &&
           part == part_of(j, j->group[j->n_group - 1].row);
}

tarn_status tarn__join_group(tarn__joiner *j, tarn_error *err)
{
    if (j->n_group < 2 || is_one_key(j)) return TARN_OK;
    group g = {.j = j};
    tarn__names_init(&g.marks);
    tarn__names_init(&g.keys);
    tarn_status status = separate(&g, err);
    tarn__names_reset(&g.marks);
    tarn__names_reset(&g.keys);
    free(g.all);
    return status;
}

/* --- Numbers ------------------------------------------------------------------------ */

static int by_row(const void *a, const void *b)
{
    const tarn__stranger *x = a, *y = b;
    return tarn__by_u32(&x->first_row, &y->first_row);
}

static int by_place(const void *a, const void *b)
{
    const tarn__stranger *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return tarn__by_u32(&x->old, &y->old);
}

tarn_status tarn__join_number(tarn__joiner *j, tarn_error *err)
{
    uint32_t id;
    if (!j->n_strangers) return TARN_OK;
    qsort(j->strangers, j->n_strangers, sizeof *j->strangers, by_row);
    for (size_t i = 0; i < j->n_strangers; i++) {
        tarn__stranger *s = &j->strangers[i];
        TARN_TRY(tarn__names_add(&j->index->collisions, s->key, s->len, &id, err));
        s->fresh = id + 1;
    }
    qsort(j->strangers, j->n_strangers, sizeof *j->strangers, by_place);
    return TARN_OK;
}

uint32_t tarn__join_collision(const tarn__joiner *j, uint64_t hash, uint32_t part,
                              uint32_t old)
{
    tarn__stranger wanted = {.hash = hash, .part = part, .old = old};
    const tarn__stranger *found = j->n_strangers
                                      ? bsearch(&wanted, j->strangers, j->n_strangers,
                                                sizeof *j->strangers, by_place)
                                      : NULL;
    return found ? found->fresh : 0;
}

void tarn__join_close(tarn__joiner *j)
{
    for (size_t i = 0; j->parts && i < j->join->count; i++) {
        tarn__fold_close(j->parts[i].fold);
        free(j->parts[i].fields);
    }
    for (size_t i = 0; i < j->n_strangers; i++)
        free(j->strangers[i].key);
    free(j->parts);
    free(j->first_rows);
    free(j->strangers);
    free(j->group);
    tarn_index_free(j->index);
}
