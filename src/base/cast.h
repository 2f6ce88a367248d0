/* Conversion between element types, with the results that NumPy's
 * astype(casting="unsafe") gives on x86-64: integers wrap, floats are truncated towards
 * zero, values that do not fit an integer become what the x86-64 conversion instruction
 * gives, rounding to float16 is to nearest even, and complex to real drops the imaginary
 * part. The results are the same on every machine. Text is never cast. */
#ifndef TARN_BASE_CAST_H
#define TARN_BASE_CAST_H

#include <tarn/array.h>

typedef void (*tarn__cast_kernel)(void *to, const void *from, size_t count);

typedef struct tarn__cast {
    tarn_dtype from, to;
    tarn__cast_kernel kernel; /* NULL if the bytes are only copied or swapped */
    bool swap_from, swap_to;
} tarn__cast;

/* TARN_ERR_UNSUPPORTED if one of the two is text, unless they differ only in byte
 * order. */
TARN_CHECKED tarn_status tarn__cast_init(tarn__cast *cast, tarn_dtype from, tarn_dtype to,
                                         tarn_error *err);

/* Whether the cast is a plain copy. */
static inline bool tarn__cast_is_copy(const tarn__cast *cast)
{
    return !cast->kernel && cast->swap_from == cast->swap_to;
}

/* Casts elements that are stored consecutively, at any alignment. to and from must not
 * overlap. */
void tarn__cast_run(const tarn__cast *cast, void *to, const void *from, size_t count);

/* IEEE binary16, as bits. */
uint16_t tarn__half_from_float(float value);
double tarn__half_to_double(uint16_t half);

#endif
