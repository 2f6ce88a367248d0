/* A fold, as used by the files of this folder only. Other folders use
 * itar/fold_read.h. */
#ifndef TARN_ITAR_FOLD_H
#define TARN_ITAR_FOLD_H

#include <stdatomic.h>

#include "base/forklock.h"
#include "itar/fold_read.h"
#include "itar/locate.h"
#include "itar/shapes.h"
#include "tar/header.h"

/* The rows of one sample, in file order. */
typedef struct tarn__sample_rows {
    uint32_t count;
    uint32_t first;
    const uint32_t *rows; /* NULL: consecutive from first; borrowed from the fold */
} tarn__sample_rows;

static inline uint64_t tarn__rows_at(const tarn__sample_rows *rows, uint32_t k)
{
    return rows->rows ? rows->rows[k] : (uint64_t)rows->first + k;
}

struct tarn__fold {
    char *name;
    tarn__fold_options options;
    tarn_index *index;
    tarn__filecache *files;
    const char **paths; /* of the shards, borrowed from files */
    uint64_t *sizes;
    tarn__place place;
    bool remote; /* some shards are */
    bool checks; /* members are compared with their checksums at every use: if the caller
                    wants it, and if shards are remote, because bytes may change on the
                    way and in the cache */
    tarn_index_report report;
    tarn__forklock lock;             /* held while order and samples are computed, once */
    _Atomic(const uint32_t *) order; /* rows by key; from the index or own_order */
    uint32_t *own_order;
    atomic_bool grouped; /* then these say which rows form a sample: */
    uint32_t *rows;      /* grouped by sample; NULL if they are in file order */
    uint32_t *starts; /* sample i is rows[starts[i]] to rows[starts[i + 1]]; NULL if all
                         have the same number of rows: */
    uint32_t stride;
    uint64_t n_samples;
    bool *lead; /* by field: non-contiguous samples are in the order of their first row
                   with such a field; NULL: any field */
    tarn__shapes shapes;
    uint16_t *shape_of; /* by sample; NULL if all have the same shape: */
    uint16_t shape;
    atomic_uchar *seen;  /* one bit per row: header was compared */
    atomic_uchar *plain; /* one bit per row: its key is the name in its header; not used
                            if the fold checks */
};

/* Where the rows of a sample start; sample may be n_samples. */
static inline uint64_t tarn__fold_start(const struct tarn__fold *f, uint64_t sample)
{
    return f->starts ? f->starts[sample] : sample * f->stride;
}

static inline uint16_t tarn__fold_shape(const struct tarn__fold *f, uint64_t sample)
{
    return f->shape_of ? f->shape_of[sample] : f->shape;
}

static inline uint64_t tarn__fold_row(const struct tarn__fold *f, uint64_t at)
{
    return f->rows ? f->rows[at] : at;
}

/* The row whose header gives a sample its key. For remote shards it is the one that is
 * most likely read together with the fields. */
uint64_t tarn__fold_key_row(const struct tarn__fold *fold, uint64_t sample);

/* Failures of bytes that may be right when they are fetched again. */
static inline bool tarn__is_damage(tarn_status status)
{
    return status == TARN_ERR_CHECKSUM || status == TARN_ERR_STALE;
}

/* What was read of a remote row turned out to be damaged, or another member. If true, the
 * next read fetches it again. */
bool tarn__fold_doubt(const struct tarn__fold *fold, uint64_t number);

/* tarn__fold_view, but without another try. */
TARN_CHECKED tarn_status tarn__fold_view_once(tarn__fold *fold, uint64_t row,
                                              tarn_view *out, tarn_error *err);

/* Computes the order and the samples if needed. */
TARN_CHECKED tarn_status tarn__fold_order(tarn__fold *fold, const uint32_t **out,
                                          tarn_error *err);
TARN_CHECKED tarn_status tarn__fold_group(tarn__fold *fold, tarn_error *err);

/* The sample with a key. With a .tarsum this is a binary search; without one, the first
 * call sorts the keys. */
TARN_CHECKED tarn_status tarn__fold_find_rows(tarn__fold *fold, const char *key,
                                              tarn__sample_rows *out, tarn_error *err);

/* Checks that this header and payload belong to a row that was not compared yet, and
 * marks the row as compared. before: how many bytes before the header the caller has as
 * well. The payload is checked only if the fold checks. */
TARN_CHECKED tarn_status tarn__fold_compare(tarn__fold *fold, uint64_t number,
                                            const tarn_row *row,
                                            const unsigned char *header, size_t before,
                                            const unsigned char *payload,
                                            tarn_error *err);

/* Compares a payload with its checksum, if the fold checks. */
TARN_CHECKED tarn_status tarn__fold_check(const tarn__fold *fold, uint64_t number,
                                          const tarn_row *row,
                                          const unsigned char *payload, tarn_error *err);

/* The first row of a sample that has a leading field, or else its first row. */
uint64_t tarn__fold_lead(const tarn__fold *fold, uint64_t sample);

/* The sort key of a sample with these rows: its lead. Samples without a lead come
 * last. */
uint64_t tarn__fold_lead_of(const tarn__fold *fold, const uint32_t *rows, uint32_t count);

/* Like tarn__fold_order. The caller holds the lock. */
TARN_CHECKED tarn_status tarn__fold_make_order(tarn__fold *fold, tarn_error *err);

/* An entry of the order of rows by key. The order may come from a file, so this checks
 * that the row exists. */
TARN_CHECKED tarn_status tarn__fold_order_at(const tarn__fold *fold,
                                             const uint32_t *order, uint64_t i,
                                             uint32_t *out, tarn_error *err);

/* --- For reading ------------------------------------------------------------------- */

static inline bool tarn__row_bit(const atomic_uchar *bits, uint64_t row)
{
    return atomic_load_explicit(&bits[row / 8], memory_order_relaxed) >> (row % 8) & 1;
}

static inline void tarn__set_row_bit(atomic_uchar *bits, uint64_t row)
{
    atomic_fetch_or_explicit(&bits[row / 8], (unsigned char)(1u << (row % 8)),
                             memory_order_relaxed);
}

/* Whether the header of a row was compared. */
static inline bool tarn__fold_knows(const tarn__fold *f, uint64_t row)
{
    return tarn__row_bit(f->seen, row);
}

/* The key of a row from its header in a map; false if that is not enough. */
static inline bool tarn__fold_quick_key(tarn__fold *f, uint64_t number,
                                        const tarn_row *row, const unsigned char *header,
                                        tarn__key *out)
{
    if (!f->checks && tarn__row_bit(f->plain, number))
        return tarn__locate_name_key(&f->place, header, out);
    if (!tarn__locate_plain_key(&f->place, number, row, header, out)) return false;
    tarn__set_row_bit(f->plain, number);
    return true;
}

/* Prefetches the memory that tarn__fold_quick_key reads. */
static inline void tarn__fold_touch_key(const tarn__fold *f, uint64_t number,
                                        const unsigned char *header)
{
    __builtin_prefetch(header);
    if (f->checks || !tarn__row_bit(f->plain, number))
        __builtin_prefetch(header + TARN__PREFIX_AT);
}

/* The maps of shards whose length was checked in this call. */
enum { TARN__RECENT_MAPS = 128 };
typedef struct tarn__fold_maps {
    uint32_t shards[TARN__RECENT_MAPS]; /* number + 1 */
    const unsigned char *maps[TARN__RECENT_MAPS];
} tarn__fold_maps;

/* Checks that the shard was not truncated while data was copied out of its map: see
 * tarn__filecache_settle. */
TARN_CHECKED static inline tarn_status tarn__fold_settle_map(const tarn__fold *f,
                                                             const tarn__fold_maps *m,
                                                             size_t at, tarn_error *err)
{
    if (!m->maps[at]) return TARN_OK;
    return tarn__filecache_settle(f->files, m->shards[at] - 1u, err);
}

TARN_CHECKED static inline tarn_status tarn__fold_settle_maps(const tarn__fold *f,
                                                              const tarn__fold_maps *m,
                                                              tarn_error *err)
{
    for (size_t at = 0; at < TARN__RECENT_MAPS; at++)
        if (m->shards[at]) TARN_TRY(tarn__fold_settle_map(f, m, at, err));
    return TARN_OK;
}

/* NULL: the shard, which must belong to the fold, is read instead of mapped. */
TARN_CHECKED static inline tarn_status tarn__fold_map_of(const tarn__fold *f,
                                                         tarn__fold_maps *m,
                                                         uint16_t shard,
                                                         const unsigned char **out,
                                                         tarn_error *err)
{
    size_t at = shard % TARN__RECENT_MAPS;
    if (m->shards[at] != shard + 1u) {
        if (m->shards[at]) TARN_TRY(tarn__fold_settle_map(f, m, at, err));
        TARN_TRY(tarn__filecache_map_lately(f->files, shard, &m->maps[at], err));
        m->shards[at] = shard + 1u;
    }
    *out = m->maps[at];
    return TARN_OK;
}

/* Positions of a field among the rows of a sample. A sample can have more rows than a
 * shape has numbers. */
#define TARN__LACKED UINT32_MAX
#define TARN__DOUBLE (UINT32_MAX - 1)

static inline uint32_t tarn__fold_shape_place(const tarn__fold *f, uint16_t shape,
                                              uint32_t field)
{
    uint16_t place = tarn__shapes_place(&f->shapes, shape, field);
    return place == TARN__PLACE_NONE    ? TARN__LACKED
           : place == TARN__PLACE_TWICE ? TARN__DOUBLE
                                        : place;
}

uint32_t tarn__fold_place(const tarn__fold *fold, uint64_t sample, uint32_t field);

/* The row of a field of a sample. */
TARN_CHECKED tarn_status tarn__fold_row_of(tarn__fold *fold, uint64_t sample,
                                           uint32_t field, uint64_t *out,
                                           tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_fail_twice(tarn__fold *fold, uint64_t sample,
                                               uint32_t field, tarn_error *err);

#endif
