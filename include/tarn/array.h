/* tarn/array.h: n-dimensional arrays and their element types, as NumPy describes them. */
#ifndef TARN_ARRAY_H
#define TARN_ARRAY_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_MAX_DIMS       64u /* NumPy's own limit */
#define TARN_DTYPE_TEXT_MAX 16u

/* An element type: NumPy's array-protocol string, taken apart. */
typedef struct tarn_dtype {
    char order;    /* '<' or '>', or '|' where byte order means nothing */
    char kind;     /* b bool, i int, u unsigned, f float, c complex, S bytes, U text */
    uint32_t size; /* bytes of one element; may be 0 for S and U */
} tarn_dtype;

/* Values somewhere in memory. strides are in bytes and may be negative or 0. */
typedef struct tarn_array {
    void *data;
    tarn_dtype dtype;
    unsigned ndim;
    uint64_t shape[TARN_MAX_DIMS];
    int64_t strides[TARN_MAX_DIMS];
} tarn_array;

/* Reads "<f4", "|b1", ">i8", "|S5", "<U3". Unknown ones are TARN_ERR_UNSUPPORTED. */
TARN_API TARN_CHECKED tarn_status tarn_dtype_parse(const char *text, size_t len,
                                                   tarn_dtype *out, tarn_error *err);

/* Writes the string into out (TARN_DTYPE_TEXT_MAX bytes) and returns out. */
TARN_API char *tarn_dtype_text(tarn_dtype dtype, char *out);

/* An array over data whose elements lie one after the other, the last index fastest.
 * Fails when the size does not fit into 63 bits. */
TARN_API TARN_CHECKED tarn_status tarn_array_init(tarn_array *out, void *data,
                                                  tarn_dtype dtype, unsigned ndim,
                                                  const uint64_t *shape, tarn_error *err);

/* Elements, and bytes they would take one after the other. */
TARN_API uint64_t tarn_array_count(const tarn_array *array);
TARN_API uint64_t tarn_array_bytes(const tarn_array *array);

/* Whether the elements lie one after the other, the last index fastest. */
TARN_API bool tarn_array_is_packed(const tarn_array *array);

#ifdef __cplusplus
}
#endif
#endif
