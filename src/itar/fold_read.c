/* Reads one member or one sample of a fold. All views of a member come from view_row,
 * which decides whether the header must be compared first. */
#include <string.h>

#include "base/crc.h"
#include "base/error.h"
#include "base/text.h"
#include "itar/fold.h"
#include "itar/fold_read.h"

/* --- Checking ---------------------------------------------------------------------- */

tarn_status tarn__fold_check(const tarn__fold *f, uint64_t number, const tarn_row *row,
                             const unsigned char *payload, tarn_error *err)
{
    if (!f->checks) return TARN_OK;
    TARN_TRY(tarn__sums_check(f->index->sums, TARN__PART_CHECKSUMS, number, err));
    uint32_t want = f->index->sums->checksums[number];
    uint32_t have = tarn__crc32c(0, payload, (size_t)row->size);
    if (have == want) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_CHECKSUM,
                         tarn__filecache_path(f->files, row->shard), row->offset,
                         "the payload of row %llu has CRC-32C %08x, but %08x was "
                         "recorded: its bytes have changed",
                         (unsigned long long)number, have, want);
}

tarn_status tarn__fold_compare(tarn__fold *f, uint64_t number, const tarn_row *row,
                               const unsigned char *header, size_t before,
                               const unsigned char *payload, tarn_error *err)
{
    tarn__located l;
    tarn__located_init(&l);
    l.row = *row;
    l.before = header - before;
    l.before_size = before;
    memcpy(l.block, header, TARN__BLOCK);
    tarn_status status = tarn__locate_check(&f->place, number, &l, err);
    if (status == TARN_OK) status = tarn__fold_check(f, number, &l.row, payload, err);
    tarn__located_reset(&l);
    if (status == TARN_OK && !tarn__filecache_away(f->files, row->shard))
        tarn__set_row_bit(f->seen, number);
    return status;
}

bool tarn__fold_doubt(const tarn__fold *f, uint64_t number)
{
    tarn_row row;
    return f->remote && tarn__locate_row(&f->place, number, &row, NULL) == TARN_OK &&
           tarn__filecache_doubt(f->files, row.shard, row.offset, TARN__BLOCK + row.size);
}

/* --- One member -------------------------------------------------------------------- */

/* The last shard used, and its map. */
typedef struct look {
    const unsigned char *map;
    uint32_t shard;
} look;

static inline tarn_status look_at(tarn__fold *f, uint32_t shard, look *l, tarn_error *err)
{
    if (l->shard == shard) return TARN_OK;
    TARN_TRY(tarn__filecache_map_lately(f->files, shard, &l->map, err));
    l->shard = shard;
    return TARN_OK;
}

/* Gets a row, and whether its header was compared. A row that was used before is inside
 * its shard. */
static inline tarn_status get_row(const tarn__fold *f, uint64_t number, tarn_row *out,
                                  bool *out_known, tarn_error *err)
{
    *out_known = number < f->index->n_rows && tarn__fold_knows(f, number);
    return *out_known ? tarn_index_row(f->index, number, out, err)
                      : tarn__locate_row(&f->place, number, out, err);
}

/* The payload of a row, in the map of an already checked shard if the caller has one. If
 * the shard is not mapped, header and payload come in one read. */
static inline tarn_status view_row_once(tarn__fold *f, uint64_t number, look *l,
                                        tarn_view *out, tarn_error *err)
{
    tarn_row row;
    bool known;
    TARN_TRY(get_row(f, number, &row, &known, err));
    if (l) TARN_TRY(look_at(f, row.shard, l, err));
    size_t head = known ? 0 : TARN__BLOCK, size = (size_t)row.size;
    uint64_t from = row.offset + TARN__BLOCK - head;
    if (l && l->map)
        *out = (tarn_view){l->map + from, head + size, NULL};
    else
        TARN_TRY(tarn__filecache_view(f->files, row.shard, from, head + size, out, err));
    if (known && !f->checks) return TARN_OK;
    tarn_status status =
        known ? tarn__fold_check(f, number, &row, out->data, err)
              : tarn__fold_compare(f, number, &row, out->data, 0, out->data + head, err);
    if (status == TARN_OK)
        *out = (tarn_view){out->data + head, size, out->owned};
    else
        tarn_view_release(out);
    return status;
}

tarn_status tarn__fold_view_once(tarn__fold *f, uint64_t row, tarn_view *out,
                                 tarn_error *err)
{
    return view_row_once(f, row, NULL, out, err);
}

/* Bytes that were damaged on the way, or in the cache, are read again. */
static inline tarn_status view_row(tarn__fold *f, uint64_t number, look *l,
                                   tarn_view *out, tarn_error *err)
{
    tarn_status status = view_row_once(f, number, l, out, err);
    if (status == TARN_OK || !tarn__is_damage(status) || !tarn__fold_doubt(f, number))
        return status;
    return view_row_once(f, number, l, out, err);
}

tarn_status tarn__fold_view(tarn__fold *f, uint64_t row, bool settles, tarn_view *out,
                            tarn_error *err)
{
    look l = {NULL, UINT32_MAX};
    return view_row(f, row, settles ? &l : NULL, out, err);
}

static tarn_status names_once(tarn__fold *f, uint64_t row, tarn_text *key,
                              tarn_text *member, tarn_error *err)
{
    tarn__located l;
    tarn__located_init(&l);
    tarn_status status = tarn__locate(&f->place, row, &l, err);
    if (status == TARN_OK) status = tarn__text_set(key, l.key.stem, l.key.stem_len, err);
    if (status == TARN_OK) status = tarn__text_set(member, l.name, l.name_len, err);
    tarn__located_reset(&l);
    return status;
}

tarn_status tarn__fold_names(tarn__fold *f, uint64_t row, tarn_text *key,
                             tarn_text *member, tarn_error *err)
{
    tarn_status status = names_once(f, row, key, member, err);
    if (status == TARN_OK || !tarn__is_damage(status) || !tarn__fold_doubt(f, row))
        return status;
    return names_once(f, row, key, member, err);
}

/* --- One sample -------------------------------------------------------------------- */

tarn_status tarn__fold_get(void *fold, uint64_t sample, uint32_t field, tarn_view *out,
                           tarn_error *err)
{
    tarn__fold *f = fold;
    uint64_t row = 0;
    TARN_TRY(tarn__fold_row_of(f, sample, field, &row, err));
    return view_row(f, row, NULL, out, err);
}

tarn_status tarn__fold_views(void *fold, tarn__item *items, size_t count, tarn_error *err)
{
    tarn__fold *f = fold;
    look l = {NULL, UINT32_MAX};
    for (size_t i = 0; i < count; i++) {
        uint64_t row = 0;
        TARN_TRY(tarn__fold_row_of(f, items[i].sample, items[i].field, &row, err));
        TARN_TRY(view_row(f, row, &l, &items[i].view, err));
    }
    return TARN_OK;
}

/* Reading a random sample waits for memory several times. The parts of its first header
 * that are needed are prefetched at once, while the fields are looked up. NULL if the
 * shard is not mapped. */
static tarn_status touch_header(tarn__fold *f, uint64_t first, look *l, tarn_row *row,
                                const unsigned char **out, tarn_error *err)
{
    __builtin_prefetch((const void *)&f->seen[first / 8]);
    TARN_TRY(tarn__locate_row(&f->place, first, row, err));
    TARN_TRY(look_at(f, row->shard, l, err));
    *out = l->map ? l->map + row->offset : NULL;
    if (*out) tarn__fold_touch_key(f, first, *out);
    return TARN_OK;
}

tarn_status tarn__fold_whole(void *fold, uint64_t sample, const uint32_t *ids,
                             const uint32_t *firsts, uint32_t count, tarn_view *out,
                             tarn_text *key, tarn_error *err)
{
    tarn__fold *f = fold;
    look l = {NULL, UINT32_MAX};
    tarn_row row;
    tarn__key stem;
    const unsigned char *header;
    uint64_t start = tarn__fold_start(f, sample), first = tarn__fold_key_row(f, sample);
    TARN_TRY(touch_header(f, first, &l, &row, &header, err));
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] >= f->shapes.n_fields || firsts[i] != i) continue;
        uint32_t place = tarn__fold_place(f, sample, ids[i]);
        if (place == TARN__LACKED) continue;
        if (place == TARN__DOUBLE) return tarn__fold_fail_twice(f, sample, ids[i], err);
        TARN_TRY(view_row(f, tarn__fold_row(f, start + place), &l, &out[i], err));
    }
    if (header && tarn__fold_quick_key(f, first, &row, header, &stem))
        return tarn__text_set(key, stem.stem, stem.stem_len, err);
    return tarn__fold_names(f, first, key, NULL, err);
}

tarn_status tarn__fold_settle(void *fold, uint64_t sample, tarn_error *err)
{
    const tarn__fold *f = fold;
    uint32_t last = UINT32_MAX;
    uint64_t end = tarn__fold_start(f, sample + 1);
    for (uint64_t at = tarn__fold_start(f, sample); at < end; at++) {
        uint16_t shard = tarn__row_shard(tarn__index_at(f->index, tarn__fold_row(f, at)));
        if (shard == last || shard >= tarn__filecache_count(f->files)) continue;
        TARN_TRY(tarn__filecache_settle(f->files, shard, err));
        last = shard;
    }
    return TARN_OK;
}
