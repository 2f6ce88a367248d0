/* A sample of a fold in one go: its fields and its key, with one look at the length of
 * each shard. A loop over samples in a language where a call costs little else lives on
 * this. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "dataset/kind_fold.h"
#include "tar/keys.h"

/* The shard that was looked at last, and its map. */
typedef struct look {
    const unsigned char *map;
    uint32_t shard;
} look;

static tarn_status look_at(tarn__fold_state *s, uint32_t shard, look *l, tarn_error *err)
{
    if (l->shard == shard) return TARN_OK;
    TARN_TRY(tarn__filecache_map_lately(s->fold->files, shard, &l->map, err));
    l->shard = shard;
    return TARN_OK;
}

static bool lies_in(const tarn__fold_state *s, const tarn_row *row)
{
    uint64_t size = tarn__filecache_size(s->fold->files, row->shard);
    return row->offset <= size && size - row->offset >= TARN__BLOCK &&
           row->size <= size - row->offset - TARN__BLOCK;
}

/* The header behind a row that was not used yet, in the map. */
static tarn_status check_header(tarn__fold_state *s, uint64_t number, const look *l,
                                tarn_error *err)
{
    tarn__located located;
    tarn__located_init(&located);
    tarn_status status = tarn__locate_row(&s->fold->place, number, &located, err);
    if (status == TARN_OK) {
        memcpy(located.block, l->map + located.row.offset, TARN__BLOCK);
        status = tarn__locate_check(&s->fold->place, number, &located, err);
    }
    tarn__located_reset(&located);
    if (status == TARN_OK) tarn__fold_set_seen(s, number);
    return status;
}

static tarn_status view_row(tarn__fold_state *s, uint64_t number, look *l, tarn_view *out,
                            tarn_error *err)
{
    tarn_row row;
    bool seen = tarn__fold_was_seen(s, number);
    TARN_TRY(tarn_index_row(s->fold->index, number, &row, err));
    if (!s->check && row.shard < tarn__filecache_count(s->fold->files))
        TARN_TRY(look_at(s, row.shard, l, err));
    if (s->check || l->shard != row.shard || (!seen && (!l->map || !lies_in(s, &row)))) {
        TARN_TRY(tarn_fold_view(s->fold, number, out, err));
        tarn__fold_set_seen(s, number);
        return TARN_OK;
    }
    if (!seen) TARN_TRY(check_header(s, number, l, err));
    if (!l->map || !lies_in(s, &row))
        return tarn__filecache_view(s->fold->files, row.shard, row.offset + TARN__BLOCK,
                                    (size_t)row.size, out, err);
    *out = (tarn_view){l->map + row.offset + TARN__BLOCK, (size_t)row.size, NULL};
    return TARN_OK;
}

/* The key out of a header in the map that was looked at. False: somebody else has to. */
static bool quick_key(tarn__fold_state *s, uint64_t number, const look *l, tarn_text *out,
                      tarn_status *status, tarn_error *err)
{
    tarn_row row;
    tarn__key key;
    if (tarn_index_row(s->fold->index, number, &row, NULL) != TARN_OK ||
        l->shard != row.shard || !l->map || !lies_in(s, &row) ||
        !tarn__fold_quick_key(s, number, &row, l->map + row.offset, &key))
        return false;
    *status = tarn__text_set(out, key.stem, key.stem_len, err);
    return true;
}

/* A sample in the middle of nowhere is a row of waits for memory: what will be looked at
 * in its first header is asked for at once, and comes while the fields are found. */
static tarn_status touch_header(tarn__fold_state *s, uint64_t first, look *l,
                                tarn_error *err)
{
    tarn_row row;
    __builtin_prefetch((const void *)&s->seen[first / 8]);
    TARN_TRY(tarn_index_row(s->fold->index, first, &row, err));
    if (s->check || row.shard >= tarn__filecache_count(s->fold->files)) return TARN_OK;
    TARN_TRY(look_at(s, row.shard, l, err));
    if (l->map && lies_in(s, &row)) tarn__fold_touch_key(s, first, l->map + row.offset);
    return TARN_OK;
}

tarn_status tarn__fold_whole(void *state, uint64_t sample, const uint32_t *ids,
                             const uint32_t *firsts, uint32_t count, tarn_view *out,
                             tarn_text *key, tarn_error *err)
{
    tarn__fold_state *s = state;
    look l = {NULL, UINT32_MAX};
    tarn_status status;
    uint64_t start = tarn__fold_start(s->fold, sample);
    uint64_t first = tarn__fold_row(s->fold, start);
    TARN_TRY(touch_header(s, first, &l, err));
    for (uint32_t i = 0; i < count; i++) {
        if (tarn__is_pseudo(ids[i]) || firsts[i] != i) continue;
        uint32_t place = tarn__fold_place(s, sample, ids[i]);
        if (place == TARN__LACKED) continue;
        if (place == TARN__DOUBLE) return tarn__fold_fail_twice(s, sample, ids[i], err);
        TARN_TRY(view_row(s, tarn__fold_row(s->fold, start + place), &l, &out[i], err));
    }
    if (quick_key(s, first, &l, key, &status, err)) return status;
    return tarn_fold_names(s->fold, first, key, NULL, err);
}
