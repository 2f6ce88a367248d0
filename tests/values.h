/* Values for encoders, made in one expression. */
#ifndef TARN_TESTS_VALUES_H
#define TARN_TESTS_VALUES_H

#include <tarn/codec.h>

static inline tarn_value value_bytes(const void *data, size_t size)
{
    return (tarn_value){.kind = TARN_VALUE_BYTES, .data = data, .size = size};
}

static inline tarn_value value_text(const char *text, size_t size)
{
    return (tarn_value){.kind = TARN_VALUE_TEXT, .data = text, .size = size};
}

static inline tarn_value value_integer(int64_t integer)
{
    return (tarn_value){.kind = TARN_VALUE_INTEGER, .integer = integer};
}

static inline tarn_value value_real(double real)
{
    return (tarn_value){.kind = TARN_VALUE_REAL, .real = real};
}

static inline tarn_value value_arrays(const tarn_array *arrays, const char *const *names,
                                      size_t count)
{
    return (tarn_value){
        .kind = TARN_VALUE_ARRAYS, .arrays = arrays, .names = names, .count = count};
}

static inline tarn_value value_array(const tarn_array *array)
{
    return (tarn_value){.kind = TARN_VALUE_ARRAY, .arrays = array, .count = 1};
}

#endif
