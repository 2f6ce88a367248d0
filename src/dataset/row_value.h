/* One element of an array as an integer or a text. */
#ifndef TARN_DATASET_ROW_VALUE_H
#define TARN_DATASET_ROW_VALUE_H

#include <tarn/array.h>
#include <tarn/base.h>

/* False for a type that is none of integers, and for what 64 bits with a sign do not
 * hold. */
bool tarn__element_integer(tarn_dtype dtype, const unsigned char *data, int64_t *out);

/* Of any type of real numbers, rounded to the nearest double; false for others. */
bool tarn__element_number(tarn_dtype dtype, const unsigned char *data, double *out);

/* Text without the NULs it is filled up with, integers in decimal digits.
 * TARN_ERR_UNSUPPORTED for other types, TARN_ERR_FORMAT for what is no Unicode. */
TARN_CHECKED tarn_status tarn__element_text(tarn_dtype dtype, const unsigned char *data,
                                            tarn_text *out, tarn_error *err);

#endif
