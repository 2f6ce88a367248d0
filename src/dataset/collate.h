/* How the values of many samples become one array: stacked, padded, or ragged. This is
 * the only implementation: loaders call it when they build a batch, and tarn/collate.h
 * gives it to callers, so that results of functions follow the same rules as fields. It
 * knows nothing of windows, fields or threads. */
#ifndef TARN_DATASET_COLLATE_H
#define TARN_DATASET_COLLATE_H

#include <tarn/collate.h>

/* Type and shape of one sample's array. Immutable, and lives as long as the setup or the
 * window that owns it. */
typedef struct tarn__shape {
    tarn_dtype dtype;
    unsigned ndim;
    uint64_t bytes;
    const uint64_t *lengths;
} tarn__shape;

static inline bool tarn__shape_same(const tarn__shape *a, const tarn__shape *b)
{
    if (a == b) return true;
    if (a->dtype.order != b->dtype.order || a->dtype.kind != b->dtype.kind ||
        a->dtype.size != b->dtype.size || a->ndim != b->ndim)
        return false;
    for (unsigned i = 0; i < a->ndim; i++)
        if (a->lengths[i] != b->lengths[i]) return false;
    return true;
}

/* One field of one sample: bytes if shape is NULL, otherwise packed elements, which are
 * little-endian. */
typedef struct tarn__piece {
    unsigned char *data;
    uint64_t size;
    const tarn__shape *shape;
} tarn__piece;

/* The options of a caller, copied and checked. */
typedef struct tarn__collate {
    tarn_collate_kind kind;
    bool real, left, truncate, mask, lengths;
    int64_t integer;
    double number; /* the value, if real */
    uint64_t multiple;
    unsigned n_axes, n_fixed; /* 0: all axes, no fixed lengths */
    int axes[TARN_MAX_DIMS];
    uint64_t fixed[TARN_MAX_DIMS];
} tarn__collate;

TARN_CHECKED tarn_status tarn__collate_take(const tarn_collate_options *options,
                                            tarn__collate *out, tarn_error *err);

/* Whether a value can be in a batch at all, whatever the other values are: it is an array
 * (shape is not NULL) with the axes, and not too long. */
TARN_CHECKED tarn_status tarn__collate_check(const tarn__collate *how,
                                             const tarn__shape *shape, tarn_error *err);

/* Where the samples go in the result. */
typedef struct tarn__collate_plan {
    const tarn__collate *how;
    tarn_dtype dtype;
    unsigned ndim;                   /* of one sample */
    uint64_t padded;                 /* PAD: a bit for each axis */
    uint64_t lengths[TARN_MAX_DIMS]; /* of one sample; RAGGED: [0] is the sum */
    uint64_t masked[TARN_MAX_DIMS];  /* PAD: those of the padded axes */
    unsigned n_masked;
    uint64_t each;             /* bytes of one sample, or of one row if RAGGED */
    uint64_t mask_each;        /* bytes of the mask of one sample */
    uint64_t size;             /* bytes of the values of all samples */
    unsigned char element[16]; /* the padding value */
} tarn__collate_plan;

/* *out_bad is set to the number of the piece that an error is about, or SIZE_MAX. With
 * count 0, pieces[0] is an example of what the samples would be. */
TARN_CHECKED tarn_status tarn__collate_plan_make(const tarn__collate *how,
                                                 const tarn__piece *pieces, size_t count,
                                                 tarn__collate_plan *out, size_t *out_bad,
                                                 tarn_error *err);

/* Memory of the result; NULL for what is not wanted. */
typedef struct tarn__collate_into {
    unsigned char *values, *mask;
    int64_t *lengths, *offsets;
} tarn__collate_into;

/* Where the values of sample i go, if a sample of this shape takes all of its place:
 * without padding and truncation. Otherwise NULL. RAGGED: after the offsets of the
 * samples before it are written. */
unsigned char *tarn__collate_place(const tarn__collate_plan *plan,
                                   const tarn__shape *shape, size_t i,
                                   const tarn__collate_into *into);

/* Writes sample i. Those before it must be written first. */
void tarn__collate_put(const tarn__collate_plan *plan, const tarn__piece *piece, size_t i,
                       const tarn__collate_into *into);

#endif
