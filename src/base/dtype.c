/* Element types by NumPy's names, and arrays of them. Knows nothing about files: formats
 * pass the shapes they read to this module, which checks them. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/number.h"

#define CHARACTER 4u /* bytes of one character of U */

static bool size_is_known(char kind, uint32_t size)
{
    switch (kind) {
    case 'b':
        return size == 1;
    case 'i':
    case 'u':
        return size == 1 || size == 2 || size == 4 || size == 8;
    case 'f':
        return size == 2 || size == 4 || size == 8;
    case 'c':
        return size == 8 || size == 16;
    case 'S':
    case 'U':
        return true;
    default:
        return false;
    }
}

/* No sign and no leading zeros, up to INT32_MAX as in NumPy. */
static bool parse_size(const char *text, size_t len, uint32_t *out)
{
    uint64_t value;
    if (len > 1 && text[0] == '0') return false;
    if (!tarn__digits(text, len, INT32_MAX, &value)) return false;
    *out = (uint32_t)value;
    return true;
}

static bool has_order(tarn_dtype dtype)
{
    return dtype.kind == 'U' || (dtype.kind != 'S' && dtype.size > 1);
}

static bool parse_dtype(const char *text, size_t len, tarn_dtype *out)
{
    tarn_dtype dtype;
    if (len < 3 || !parse_size(text + 2, len - 2, &dtype.size)) return false;
    dtype.order = text[0] == '=' ? '<' : text[0];
    dtype.kind = text[1];
    if (dtype.order != '<' && dtype.order != '>' && dtype.order != '|') return false;
    if (!size_is_known(dtype.kind, dtype.size)) return false;
    if (dtype.kind == 'U') {
        if (dtype.size > INT32_MAX / CHARACTER) return false;
        dtype.size *= CHARACTER;
    }
    if (has_order(dtype) && dtype.order == '|') return false;
    if (!has_order(dtype)) dtype.order = '|';
    *out = dtype;
    return true;
}

tarn_status tarn_dtype_parse(const char *text, size_t len, tarn_dtype *out,
                             tarn_error *err)
{
    TARN__NEED(err, "text", text);
    TARN__NEED(err, "out", out);
    if (parse_dtype(text, len, out)) return TARN_OK;
    return tarn__fail(
        err, TARN_ERR_UNSUPPORTED,
        "unsupported element type \"%s\"; supported are |b1, integers i and u of 1 to 8 "
        "bytes, <f2, <f4, <f8, <c8, <c16, |S and <U",
        TARN__SHOW(text, len));
}

char *tarn_dtype_text(tarn_dtype dtype, char *out)
{
    uint32_t size = dtype.kind == 'U' ? dtype.size / CHARACTER : dtype.size;
    snprintf(out, TARN_DTYPE_TEXT_MAX, "%c%c%u", dtype.order, dtype.kind, (unsigned)size);
    return out;
}

tarn_status tarn_array_init(tarn_array *out, void *data, tarn_dtype dtype, unsigned ndim,
                            const uint64_t *shape, tarn_error *err)
{
    TARN__NEED(err, "out", out);
    TARN__NEED(err, "shape", shape || !ndim);
    if (ndim > TARN_MAX_DIMS)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "too many dimensions: %u (the limit is %u, TARN_MAX_DIMS)",
                          ndim, TARN_MAX_DIMS);
    *out = (tarn_array){.data = data, .dtype = dtype, .ndim = ndim};
    uint64_t step = dtype.size;
    for (unsigned i = ndim; i-- > 0;) {
        out->shape[i] = shape[i];
        out->strides[i] = (int64_t)step;
        /* A length of 0 makes the array empty, but the other lengths must still fit. */
        if (shape[i] > INT64_MAX || !tarn__mul(step, shape[i] ? shape[i] : 1, &step) ||
            step > INT64_MAX)
            return tarn__fail(err, TARN_ERR_LIMIT,
                              "an array of this shape does not fit in 2^63 bytes");
    }
    return TARN_OK;
}

tarn_status tarn__array_check(const tarn_array *array, tarn_error *err)
{
    tarn_array checked;
    tarn_dtype t = array->dtype;
    bool known = size_is_known(t.kind, t.size) && t.size <= INT32_MAX &&
                 (t.kind != 'U' || t.size % CHARACTER == 0);
    if (!known || !(has_order(t) ? t.order == '<' || t.order == '>' : t.order == '|'))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "invalid element type in an array; get one from "
                          "tarn_dtype_parse");
    return tarn_array_init(&checked, NULL, t, array->ndim, array->shape, err);
}

uint64_t tarn__array_count(const tarn_array *array)
{
    uint64_t count = 1;
    for (unsigned i = 0; i < array->ndim; i++)
        count *= array->shape[i];
    return count;
}

uint64_t tarn_array_bytes(const tarn_array *array)
{
    if (!array) return 0;
    return tarn__array_count(array) * array->dtype.size;
}

bool tarn_array_is_packed(const tarn_array *array)
{
    if (!array) return false;
    if (tarn__array_count(array) == 0) return true;
    uint64_t step = array->dtype.size;
    for (unsigned i = array->ndim; i-- > 0;) {
        if (array->shape[i] != 1 && array->strides[i] != (int64_t)step) return false;
        step *= array->shape[i];
    }
    return true;
}

bool tarn__array_is_fortran(const tarn_array *array)
{
    if (tarn__array_count(array) == 0) return true;
    uint64_t step = array->dtype.size;
    for (unsigned i = 0; i < array->ndim; i++) {
        if (array->shape[i] != 1 && array->strides[i] != (int64_t)step) return false;
        step *= array->shape[i];
    }
    return true;
}

static void copy_row(char *out, const char *from, uint64_t count, int64_t stride,
                     size_t size)
{
    if (stride == (int64_t)size) {
        memcpy(out, from, count * size);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        memcpy(out + i * size, from + (int64_t)i * stride, size);
}

/* The index of the axis that runs n-th fastest. */
static unsigned axis_at(const tarn_array *array, bool fortran, unsigned n)
{
    return fortran ? n : array->ndim - 1 - n;
}

void tarn__array_pack(const tarn_array *array, bool fortran, void *out)
{
    uint64_t at[TARN_MAX_DIMS] = {0};
    const char *base = array->data;
    char *to = out;
    int64_t from = 0;
    size_t size = array->dtype.size;
    if (tarn_array_bytes(array) == 0) return;
    if (array->ndim == 0) {
        memcpy(out, base, size);
        return;
    }
    unsigned fastest = axis_at(array, fortran, 0);
    for (;;) {
        copy_row(to, base + from, array->shape[fastest], array->strides[fastest], size);
        to += array->shape[fastest] * size;
        unsigned n = 1;
        for (; n < array->ndim; n++) {
            unsigned axis = axis_at(array, fortran, n);
            from += array->strides[axis];
            if (++at[axis] < array->shape[axis]) break;
            from -= (int64_t)array->shape[axis] * array->strides[axis];
            at[axis] = 0;
        }
        if (n == array->ndim) return;
    }
}

void tarn__swap_bytes(void *data, tarn_dtype dtype, uint64_t count)
{
    size_t unit = dtype.kind == 'U'   ? CHARACTER
                  : dtype.kind == 'c' ? dtype.size / 2
                  : dtype.kind == 'S' ? 1
                                      : dtype.size;
    char *p = data;
    uint64_t units = unit > 1 ? count * (dtype.size / unit) : 0;
    for (uint64_t i = 0; i < units; i++, p += unit)
        for (size_t j = 0; j < unit / 2; j++) {
            char c = p[j];
            p[j] = p[unit - 1 - j];
            p[unit - 1 - j] = c;
        }
}
