/* tarn/collate.h: makes one array of the arrays of many samples: stacked, padded to one
 * shape, or one after the other with offsets. Loaders (tarn/loader.h) do this with the
 * fields of a batch; the functions here do the same with arrays of yours.
 *
 *     tarn_collate_options how = TARN_COLLATE_OPTIONS_INIT;
 *     tarn_collated out;
 *     how.kind = TARN_COLLATE_PAD;
 *     how.mask = true;
 *     if (tarn_collate_plan(arrays, count, &how, &out, &err) != TARN_OK) ...
 *     out.values.data = malloc(tarn_array_bytes(&out.values) + 1);
 *     out.mask.data = malloc(tarn_array_bytes(&out.mask) + 1);
 *     if (tarn_collate_run(arrays, count, &how, &out, &err) != TARN_OK) ...
 *
 * The arrays must have the same element type and number of dimensions. Byte order does
 * not count: the result is little-endian.
 *
 * All functions may be called from any number of threads at once.
 */
#ifndef TARN_COLLATE_H
#define TARN_COLLATE_H

#include <tarn/array.h>
#include <tarn/base.h>
#include <tarn/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of one padded array. One long sample makes all samples of its batch as long. */
#define TARN_MAX_PADDED (UINT64_C(1) << 32)

typedef enum tarn_collate_kind {
    TARN_COLLATE_STACK = 0, /* [count, shape...], of arrays of one shape */
    /* [count, lengths...]: each array is extended with a value along its padded axes. The
     * other axes must have the same lengths in all arrays. */
    TARN_COLLATE_PAD = 1,
    /* [rows, shape...]: the arrays joined along their first axis, and offsets. The other
     * axes must have the same lengths in all arrays. */
    TARN_COLLATE_RAGGED = 2
} tarn_collate_kind;

/* How arrays become one. The members after kind are for PAD. */
typedef struct tarn_collate_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_collate_kind kind;
    /* INTEGER or REAL; NULL: 0. It must fit the element type: an integer is never
     * rounded. Complex numbers get it as their real part; of text, only 0 fits. */
    const tarn_value *value;
    /* The padded axes; negative ones count from the last. NULL: all. */
    const int *axes;
    size_t n_axes;
    /* The lengths of the padded axes: one for each, or a single one for all. NULL: those
     * of the longest array. */
    const uint64_t *fixed;
    size_t n_fixed;
    /* Without fixed: lengths are rounded up to a multiple of this; 0 and 1 do nothing. */
    uint64_t multiple;
    bool left;     /* add the value before the elements, not after them */
    bool truncate; /* with fixed: keep the first elements of longer arrays; otherwise
                      they are errors */
    bool mask;     /* also make the mask */
    bool lengths;  /* also make the lengths */
} tarn_collate_options;

#define TARN_COLLATE_OPTIONS_INIT                                                        \
    {                                                                                    \
        .size = sizeof(tarn_collate_options), .kind = TARN_COLLATE_STACK                 \
    }
TARN_API void tarn_collate_options_init(tarn_collate_options *options, size_t size);

/* The result. Arrays that the options do not ask for have the type {0}, and no bytes. The
 * struct keeps its members and its size as long as the soname stays the same. */
typedef struct tarn_collated {
    tarn_array values;
    /* bool [count, padded axes...]: true where the values are those of the sample */
    tarn_array mask;
    /* int64 [count, padded axes], without the last dimension if one axis is padded: how
     * many elements are those of the sample */
    tarn_array lengths;
    /* RAGGED: int64 [count + 1]; sample i is rows offsets[i] to offsets[i + 1] - 1 */
    tarn_array offsets;
} tarn_collated;

/* Describes the result for count arrays, packed, without memory: all data are NULL.
 * TARN_ERR_FORMAT if the arrays do not fit together, or one is longer than fixed allows;
 * TARN_ERR_LIMIT if the result is larger than TARN_MAX_PADDED. The message names the
 * array that is the reason by its number. At least one array is needed. */
TARN_API TARN_CHECKED tarn_status tarn_collate_plan(const tarn_array *arrays,
                                                    size_t count,
                                                    const tarn_collate_options *options,
                                                    tarn_collated *out, tarn_error *err);

/* Writes the result to the memory that you set in into, which otherwise is as
 * tarn_collate_plan returned it for the same arrays and options. An array of the result
 * without bytes needs no memory. */
TARN_API TARN_CHECKED tarn_status tarn_collate_run(const tarn_array *arrays, size_t count,
                                                   const tarn_collate_options *options,
                                                   const tarn_collated *into,
                                                   tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
