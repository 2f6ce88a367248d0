/* A fold as a source, as its files see it. */
#ifndef TARN_DATASET_KIND_FOLD_H
#define TARN_DATASET_KIND_FOLD_H

#include "dataset/cold.h"
#include "itar/fold.h"
#include "tar/header.h"

typedef struct tarn__fold_state {
    tarn_fold *fold;
    atomic_uchar *seen;  /* a bit for each row whose header was compared */
    atomic_uchar *plain; /* and for each whose key is the name in its header */
    tarn__cold cold;
    bool check;
    bool borrowed; /* the fold is somebody else's */
} tarn__fold_state;

static inline bool tarn__row_bit(const atomic_uchar *bits, uint64_t row)
{
    return atomic_load_explicit(&bits[row / 8], memory_order_relaxed) >> (row % 8) & 1;
}

static inline void tarn__set_row_bit(atomic_uchar *bits, uint64_t row)
{
    atomic_fetch_or_explicit(&bits[row / 8], (unsigned char)(1u << (row % 8)),
                             memory_order_relaxed);
}

static inline bool tarn__fold_was_seen(const tarn__fold_state *s, uint64_t row)
{
    return tarn__row_bit(s->seen, row);
}

static inline void tarn__fold_set_seen(tarn__fold_state *s, uint64_t row)
{
    tarn__set_row_bit(s->seen, row);
}

/* The key of a row by its header in a map; false where that is not enough. */
static inline bool tarn__fold_quick_key(tarn__fold_state *s, uint64_t number,
                                        const tarn_row *row, const unsigned char *header,
                                        tarn__key *out)
{
    if (tarn__row_bit(s->plain, number))
        return tarn__locate_name_key(&s->fold->place, header, out);
    if (!tarn__locate_plain_key(&s->fold->place, number, row, header, out)) return false;
    tarn__set_row_bit(s->plain, number);
    return true;
}

/* Asks the memory for what that will look at. */
static inline void tarn__fold_touch_key(const tarn__fold_state *s, uint64_t number,
                                        const unsigned char *header)
{
    __builtin_prefetch(header);
    if (!tarn__row_bit(s->plain, number)) __builtin_prefetch(header + TARN__PREFIX_AT);
}

/* The maps of shards whose length was looked at in this call. */
enum { TARN__RECENT_MAPS = 128 };
typedef struct tarn__fold_maps {
    uint32_t shards[TARN__RECENT_MAPS]; /* number + 1 */
    const unsigned char *maps[TARN__RECENT_MAPS];
} tarn__fold_maps;

/* Whether what was copied out of a map was still there: see tarn__filecache_settle. */
TARN_CHECKED static inline tarn_status tarn__fold_settle_map(const tarn__fold_state *s,
                                                             const tarn__fold_maps *m,
                                                             size_t at, tarn_error *err)
{
    if (!m->maps[at]) return TARN_OK;
    return tarn__filecache_settle(s->fold->files, m->shards[at] - 1u, err);
}

TARN_CHECKED static inline tarn_status tarn__fold_settle_maps(const tarn__fold_state *s,
                                                              const tarn__fold_maps *m,
                                                              tarn_error *err)
{
    for (size_t at = 0; at < TARN__RECENT_MAPS; at++)
        if (m->shards[at]) TARN_TRY(tarn__fold_settle_map(s, m, at, err));
    return TARN_OK;
}

/* NULL: the shard, which must be one of the fold's, is read. */
TARN_CHECKED static inline tarn_status tarn__fold_map_of(const tarn__fold_state *s,
                                                         tarn__fold_maps *m,
                                                         uint16_t shard,
                                                         const unsigned char **out,
                                                         tarn_error *err)
{
    size_t at = shard % TARN__RECENT_MAPS;
    if (m->shards[at] != shard + 1u) {
        if (m->shards[at]) TARN_TRY(tarn__fold_settle_map(s, m, at, err));
        TARN_TRY(tarn__filecache_map_lately(s->fold->files, shard, &m->maps[at], err));
        m->shards[at] = shard + 1u;
    }
    *out = m->maps[at];
    return TARN_OK;
}

/* What the place of an item says; its cookie is the row. */
static inline uint16_t tarn__item_shard(const tarn__item *item)
{
    return (uint16_t)(item->place >> 48);
}

static inline uint64_t tarn__item_offset(const tarn__item *item)
{
    return (item->place & ((UINT64_C(1) << 48) - 1)) * TARN__BLOCK;
}

/* Reads items by ring, each with its header unless that was seen before. */
TARN_CHECKED tarn_status tarn__fold_gather(tarn__fold_state *s, const tarn__item *items,
                                           size_t count, const tarn__target *to,
                                           tarn_error *err);

/* Places of a field among the rows of a sample; there can be more rows than a shape has
 * numbers for. */
#define TARN__LACKED UINT32_MAX
#define TARN__DOUBLE (UINT32_MAX - 1)

static inline uint32_t tarn__fold_shape_place(const tarn__fold_state *s, uint16_t shape,
                                              uint32_t field)
{
    uint16_t place = tarn__shapes_place(&s->fold->shapes, shape, field);
    return place == TARN__PLACE_NONE    ? TARN__LACKED
           : place == TARN__PLACE_TWICE ? TARN__DOUBLE
                                        : place;
}

uint32_t tarn__fold_place(const tarn__fold_state *s, uint64_t sample, uint32_t field);

TARN_CHECKED tarn_status tarn__fold_fail_twice(const tarn__fold_state *s, uint64_t sample,
                                               uint32_t field, tarn_error *err);

/* The keys of many (fold_keys.c). */
TARN_CHECKED tarn_status tarn__fold_keys(void *state, const uint64_t *samples,
                                         size_t count, tarn__buf *out, uint64_t *offsets,
                                         size_t *out_done, tarn_error *err);

/* A sample in one go (fold_sample.c). */
TARN_CHECKED tarn_status tarn__fold_whole(void *state, uint64_t sample,
                                          const uint32_t *ids, const uint32_t *firsts,
                                          uint32_t count, tarn_view *out, tarn_text *key,
                                          tarn_error *err);

/* The functions of the kind that go by shapes. */
TARN_CHECKED tarn_status tarn__fold_keep_by_need(void *state, tarn__need *need,
                                                 const uint32_t *list, uint64_t count,
                                                 uint32_t *out, uint64_t *out_count,
                                                 tarn_error *err);
TARN_CHECKED tarn_status
tarn__fold_sets(void *state, const uint32_t *list, uint64_t count,
                tarn_status (*add)(void *context, const uint32_t *fields, size_t n_fields,
                                   uint64_t samples, uint64_t twice, tarn_error *err),
                void *context, tarn_error *err);

#endif
