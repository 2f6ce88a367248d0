/* One element of an array as an integer or a text. */
#ifndef TARN_DATASET_ROW_VALUE_H
#define TARN_DATASET_ROW_VALUE_H

#include <tarn/array.h>
#include <tarn/base.h>

/* False if the type is not an integer or boolean, or the value does not fit in a signed
 * integer of 64 bits. */
bool tarn__element_integer(tarn_dtype dtype, const unsigned char *data, int64_t *out);

/* The value of any real type, rounded to the nearest double; false for other types. */
bool tarn__element_number(tarn_dtype dtype, const unsigned char *data, double *out);

/* Text without its padding of NULs; integers in decimal digits. TARN_ERR_UNSUPPORTED for
 * other types, TARN_ERR_FORMAT for text that is not Unicode. */
TARN_CHECKED tarn_status tarn__element_text(tarn_dtype dtype, const unsigned char *data,
                                            tarn_text *out, tarn_error *err);

#endif
