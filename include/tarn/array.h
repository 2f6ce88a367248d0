/* tarn/array.h: n-dimensional arrays and their element types, described as in NumPy.
 *
 * All functions may be called from any number of threads at once. */
#ifndef TARN_ARRAY_H
#define TARN_ARRAY_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_MAX_DIMS       64u /* NumPy's own limit */
#define TARN_DTYPE_TEXT_MAX 16u

/* An element type: the parts of NumPy's array-protocol string. */
typedef struct tarn_dtype {
    char order;    /* '<' or '>', or '|' where byte order does not apply */
    char kind;     /* b bool, i int, u unsigned, f float, c complex, S bytes, U text */
    uint32_t size; /* bytes per element; may be 0 for S and U */
} tarn_dtype;

/* Values in memory. The struct does not own them. strides are in bytes and may be
 * negative or 0. */
typedef struct tarn_array {
    void *data;
    tarn_dtype dtype;
    unsigned ndim;
    uint64_t shape[TARN_MAX_DIMS];
    int64_t strides[TARN_MAX_DIMS];
} tarn_array;

/* Parses a type such as "<f4", "|b1", ">i8", "|S5" or "<U3", of len bytes.
 * TARN_ERR_UNSUPPORTED if the type is unknown. */
TARN_API TARN_CHECKED tarn_status tarn_dtype_parse(const char *text, size_t len,
                                                   tarn_dtype *out, tarn_error *err);

/* Writes the array-protocol string of a type into out, which has room for
 * TARN_DTYPE_TEXT_MAX bytes. Returns out. */
TARN_API char *tarn_dtype_text(tarn_dtype dtype, char *out);

/* Describes contiguous elements in data as an array whose last index varies fastest. data
 * stays the caller's. Fails if the size does not fit into 63 bits. */
TARN_API TARN_CHECKED tarn_status tarn_array_init(tarn_array *out, void *data,
                                                  tarn_dtype dtype, unsigned ndim,
                                                  const uint64_t *shape, tarn_error *err);

/* Returns the number of bytes that the elements would take if stored contiguously. */
TARN_API uint64_t tarn_array_bytes(const tarn_array *array);

/* Returns whether the elements are stored contiguously, with the last index varying
 * fastest. */
TARN_API bool tarn_array_is_packed(const tarn_array *array);

#ifdef __cplusplus
}
#endif
#endif
