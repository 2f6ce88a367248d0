/* One element of an array, in any byte order, as an integer or a text. */
#include "dataset/row_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cast.h"
#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

/* dtype.size is 1, 2, 4 or 8. */
static uint64_t bits_of(tarn_dtype dtype, const unsigned char *data)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < dtype.size; i++) {
        uint32_t at = dtype.order == '>' ? i : dtype.size - 1 - i;
        bits = bits << 8 | data[at];
    }
    return bits;
}

bool tarn__element_integer(tarn_dtype dtype, const unsigned char *data, int64_t *out)
{
    bool is_integer = dtype.kind == 'i' || dtype.kind == 'u' || dtype.kind == 'b';
    if (!is_integer || dtype.size == 0 || dtype.size > 8) return false;
    uint64_t bits = bits_of(dtype, data);
    if (dtype.kind == 'u' && bits > INT64_MAX) return false;
    if (dtype.kind == 'i' && dtype.size < 8 && bits >> (8 * dtype.size - 1))
        bits |= UINT64_MAX << (8 * dtype.size);
    *out = (int64_t)bits;
    return true;
}

bool tarn__element_number(tarn_dtype dtype, const unsigned char *data, double *out)
{
    tarn_dtype real = {'<', 'f', 8};
    tarn__cast cast;
    if (!strchr("biuf", dtype.kind) || dtype.size == 0) return false;
    if (tarn__cast_init(&cast, dtype, real, NULL) != TARN_OK) return false;
    tarn__cast_run(&cast, out, data, 1);
    return true;
}

static tarn_status add_unicode(tarn_dtype dtype, const unsigned char *data,
                               tarn__buf *out, tarn_error *err)
{
    tarn_dtype one = {dtype.order, 'u', 4};
    size_t count = dtype.size / 4;
    while (count && bits_of(one, data + 4 * (count - 1)) == 0)
        count--;
    for (size_t i = 0; i < count; i++) {
        char bytes[4];
        uint64_t code = bits_of(one, data + 4 * i);
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return tarn__fail(err, TARN_ERR_FORMAT, "0x%llx is not a Unicode character",
                              (unsigned long long)code);
        TARN_TRY(
            tarn__buf_add(out, bytes, tarn__utf8_encode((uint32_t)code, bytes), err));
    }
    return TARN_OK;
}

tarn_status tarn__element_text(tarn_dtype dtype, const unsigned char *data,
                               tarn_text *out, tarn_error *err)
{
    char digits[32];
    int64_t number;
    size_t size = dtype.size;
    if (dtype.kind == 'S') {
        while (size && data[size - 1] == 0)
            size--;
        return tarn__text_set(out, (const char *)data, size, err);
    }
    if (dtype.kind == 'U') {
        tarn__buf text;
        tarn__buf_init(&text, dtype.size + 4);
        tarn_status status = add_unicode(dtype, data, &text, err);
        if (status == TARN_OK)
            status = tarn__text_set(out, text.size ? text.data : "", text.size, err);
        tarn__buf_reset(&text);
        return status;
    }
    if (!tarn__element_integer(dtype, data, &number))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the value is neither text nor an integer");
    int len = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return tarn__text_set(out, digits, (size_t)len, err);
}
