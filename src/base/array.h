/* Array helpers beyond the public header, such as copying strided elements into a packed
 * block. */
#ifndef TARN_BASE_ARRAY_H
#define TARN_BASE_ARRAY_H

#include <tarn/array.h>

/* The number of elements. */
uint64_t tarn__array_count(const tarn_array *array);

/* Copies the elements unchanged to out, which has room for tarn_array_bytes. The last
 * index runs fastest, or the first one with fortran. */
void tarn__array_pack(const tarn_array *array, bool fortran, void *out);

/* Whether the elements are stored consecutively with the first index fastest. */
bool tarn__array_is_fortran(const tarn_array *array);

/* Checks a struct that a caller filled in: TARN_ERR_USAGE unless the type is known and
 * the shape fits in 63 bits. */
TARN_CHECKED tarn_status tarn__array_check(const tarn_array *array, tarn_error *err);

/* Reverses the bytes of each number (of each half for complex numbers, of each character
 * for U). */
void tarn__swap_bytes(void *data, tarn_dtype dtype, uint64_t count);

#endif
