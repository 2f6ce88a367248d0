/* What the library does with arrays beyond the public header: gathering elements that lie
 * anywhere into a packed block. */
#ifndef TARN_BASE_ARRAY_H
#define TARN_BASE_ARRAY_H

#include <tarn/array.h>

/* Copies the elements to out, which has room for tarn_array_bytes, the last index fastest
 * (or the first, with fortran), each as it is. */
void tarn__array_pack(const tarn_array *array, bool fortran, void *out);

/* Whether the elements lie one after the other, the first index fastest. */
bool tarn__array_is_fortran(const tarn_array *array);

/* TARN_ERR_USAGE unless the type is a known one and the shape fits into 63 bits: for
 * structs that a caller filled in. */
TARN_CHECKED tarn_status tarn__array_check(const tarn_array *array, tarn_error *err);

/* Reverses the bytes of each number: of each half for complex, of each character for U.
 */
void tarn__swap_bytes(void *data, tarn_dtype dtype, uint64_t count);

#endif
