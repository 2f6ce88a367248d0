/* NumPy's .npy format: writes version 1.0 as NumPy does, reads versions 1 to 3. The
 * header is a Python literal; it is parsed for its three possible keys and never
 * evaluated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
#include "codec/codec.h"

#define MAGIC         "\x93NUMPY"
#define MAGIC_SIZE    6u
#define PREFIX_1      10u /* magic, version, 2 bytes of length */
#define PREFIX_2      12u /* versions 2 and 3 have 4 bytes of length */
#define ALIGNMENT     64u
#define GROWTH_DIGITS 21u /* digits that NumPy reserves for the growing axis */

/* --- Writing -------------------------------------------------------------------- */

/* The maximum: 64 axes of 20 digits and 2 separators, and the fixed words. */
#define HEADER_MAX (TARN_MAX_DIMS * 22u + 256u)

static size_t put_shape(const tarn_array *array, char *out, size_t room)
{
    size_t n = 0;
    for (unsigned i = 0; i < array->ndim; i++)
        n += (size_t)snprintf(out + n, room - n, i ? ", %llu" : "%llu",
                              (unsigned long long)array->shape[i]);
    if (array->ndim == 1) n += (size_t)snprintf(out + n, room - n, ",");
    return n;
}

static size_t growth_room(const tarn_array *array, bool fortran)
{
    char digits[24];
    if (array->ndim == 0) return 0;
    unsigned axis = fortran ? array->ndim - 1 : 0;
    int n =
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)array->shape[axis]);
    return GROWTH_DIGITS - (size_t)n;
}

static size_t put_header(const tarn_array *array, bool fortran, char *out, size_t room)
{
    char type[TARN_DTYPE_TEXT_MAX];
    size_t n = PREFIX_1;
    n += (size_t)snprintf(
        out + n, room - n, "{'descr': '%s', 'fortran_order': %s, 'shape': (",
        tarn_dtype_text(array->dtype, type), fortran ? "True" : "False");
    n += put_shape(array, out + n, room - n);
    n += (size_t)snprintf(out + n, room - n, "), }");
    size_t blanks = growth_room(array, fortran);
    blanks += ALIGNMENT - (n + blanks + 1) % ALIGNMENT;
    memset(out + n, ' ', blanks);
    n += blanks;
    out[n++] = '\n';
    memcpy(out, MAGIC "\x01\0", MAGIC_SIZE + 2);
    tarn__put16(out + MAGIC_SIZE + 2, (uint16_t)(n - PREFIX_1));
    return n;
}

tarn_status tarn__npy_add(const tarn_array *array, tarn_bytes *out, tarn_error *err)
{
    char header[HEADER_MAX];
    bool packed = tarn_array_is_packed(array);
    bool fortran = !packed && tarn__array_is_fortran(array);
    size_t bytes = tarn_array_bytes(array);
    TARN_TRY(tarn__bytes_add(out, header,
                             put_header(array, fortran, header, sizeof header), err));
    if (packed || fortran) return tarn__bytes_add(out, array->data, bytes, err);
    unsigned char *room = tarn__bytes_extend(out, bytes, err);
    if (!room) return TARN_ERR_MEMORY;
    tarn__array_pack(array, false, room);
    return TARN_OK;
}

TARN__ENCODER(tarn__encode_npy)
{
    const tarn_array *array = tarn__one_array(value);
    if (!array) return tarn__wrong_value(err, extension, "an array", value);
    return tarn__npy_add(array, out, err);
}

/* --- Header literal ------------------------------------------------------------- */

typedef struct literal {
    const char *text, *at, *end;
    tarn_dtype dtype;
    bool fortran;
    unsigned ndim;
    uint64_t shape[TARN_MAX_DIMS];
    unsigned seen; /* one bit for each key */
    tarn_error *err;
} literal;

enum { SEEN_DESCR = 1, SEEN_ORDER = 2, SEEN_SHAPE = 4, SEEN_ALL = 7 };

static tarn_status malformed(literal *l, const char *what)
{
    return tarn__fail(l->err, TARN_ERR_FORMAT, "npy header, byte %td: %s",
                      l->at - l->text, what);
}

static void skip_blanks(literal *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\n' || *l->at == '\t'))
        l->at++;
}

/* Consumes c if it is the next character. */
static bool accept_char(literal *l, char c)
{
    skip_blanks(l);
    if (l->at == l->end || *l->at != c) return false;
    l->at++;
    return true;
}

static bool accept_word(literal *l, const char *word)
{
    size_t len = strlen(word);
    skip_blanks(l);
    if ((size_t)(l->end - l->at) < len || memcmp(l->at, word, len) != 0) return false;
    l->at += len;
    return true;
}

static tarn_status read_quoted(literal *l, const char **out, size_t *out_len)
{
    skip_blanks(l);
    if (l->at == l->end || (*l->at != '\'' && *l->at != '"'))
        return malformed(l,
                         "expected a quoted string (structured types are not supported)");
    const char *begin = l->at + 1;
    const char *end = memchr(begin, *l->at, (size_t)(l->end - begin));
    if (!end || memchr(begin, '\\', (size_t)(end - begin)))
        return malformed(l, "unterminated string, or a string with an escape");
    *out = begin;
    *out_len = (size_t)(end - begin);
    l->at = end + 1;
    return TARN_OK;
}

static tarn_status read_length(literal *l, uint64_t *out)
{
    uint64_t value = 0;
    skip_blanks(l);
    const char *begin = l->at;
    for (; l->at < l->end && *l->at >= '0' && *l->at <= '9'; l->at++) {
        if (value > INT64_MAX / 10 - 1) return malformed(l, "length is too large");
        value = value * 10 + (uint64_t)(*l->at - '0');
    }
    if (l->at == begin) return malformed(l, "expected a length");
    if (l->at < l->end && *l->at == 'L') l->at++; /* written by Python 2 */
    *out = value;
    return TARN_OK;
}

static tarn_status read_shape(literal *l)
{
    if (!accept_char(l, '(')) return malformed(l, "expected '('");
    while (!accept_char(l, ')')) {
        if (l->ndim == TARN_MAX_DIMS)
            return malformed(l, "more dimensions than TARN_MAX_DIMS");
        TARN_TRY(read_length(l, &l->shape[l->ndim++]));
        if (accept_char(l, ',')) continue;
        if (l->ndim == 1) return malformed(l, "shape of one length without a comma");
        if (!accept_char(l, ')')) return malformed(l, "expected ',' or ')'");
        break;
    }
    return TARN_OK;
}

static tarn_status read_descr(literal *l)
{
    const char *text;
    size_t len;
    TARN_TRY(read_quoted(l, &text, &len));
    if (len >= 2 && text[1] == 'O')
        return tarn__fail(l->err, TARN_ERR_UNSUPPORTED,
                          "an npy of Python objects is a pickle, which is not loaded");
    return tarn_dtype_parse(text, len, &l->dtype, l->err);
}

static tarn_status read_order(literal *l)
{
    l->fortran = accept_word(l, "True");
    return l->fortran || accept_word(l, "False") ? TARN_OK
                                                 : malformed(l, "expected True or False");
}

static tarn_status read_pair(literal *l)
{
    const char *key;
    size_t len;
    TARN_TRY(read_quoted(l, &key, &len));
    unsigned bit = len == 5 && !memcmp(key, "descr", 5)             ? SEEN_DESCR
                   : len == 13 && !memcmp(key, "fortran_order", 13) ? SEEN_ORDER
                   : len == 5 && !memcmp(key, "shape", 5)           ? SEEN_SHAPE
                                                                    : 0u;
    if (!bit || (l->seen & bit)) return malformed(l, "unknown or duplicate key");
    l->seen |= bit;
    if (!accept_char(l, ':')) return malformed(l, "expected ':'");
    if (bit == SEEN_DESCR) return read_descr(l);
    return bit == SEEN_ORDER ? read_order(l) : read_shape(l);
}

static tarn_status read_header(literal *l)
{
    if (!accept_char(l, '{')) return malformed(l, "expected '{'");
    while (!accept_char(l, '}')) {
        TARN_TRY(read_pair(l));
        if (accept_char(l, ',')) continue;
        if (!accept_char(l, '}')) return malformed(l, "expected ',' or '}'");
        break;
    }
    skip_blanks(l);
    if (l->at != l->end) return malformed(l, "unexpected text after the header");
    return l->seen == SEEN_ALL ? TARN_OK : malformed(l, "a key is missing");
}

/* --- Reading -------------------------------------------------------------------- */

/* Finds the literal, which follows the prefix; the prefix has its length. */
static tarn_status find_header(const unsigned char *data, size_t size, size_t *out_begin,
                               size_t *out_len, tarn_error *err)
{
    if (size < PREFIX_2 || memcmp(data, MAGIC, MAGIC_SIZE) != 0)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "not an npy: it does not begin with \\x93NUMPY");
    unsigned version = data[MAGIC_SIZE];
    if (version < 1 || version > 3 || data[MAGIC_SIZE + 1] != 0)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "npy version %u.%u is not supported (expected 1 to 3)", version,
                          data[MAGIC_SIZE + 1]);
    *out_begin = version == 1 ? PREFIX_1 : PREFIX_2;
    *out_len = version == 1 ? tarn__get16(data + 8) : tarn__get32(data + 8);
    if (*out_len > TARN_MAX_NPY_HEADER)
        return tarn__fail(
            err, TARN_ERR_LIMIT,
            "npy header of %zu bytes; the limit is %u (TARN_MAX_NPY_HEADER)", *out_len,
            TARN_MAX_NPY_HEADER);
    if (*out_len > size - *out_begin)
        return tarn__fail(err, TARN_ERR_TRUNCATED, "the npy ends inside its header");
    return TARN_OK;
}

static void fortran_strides(tarn_array *array)
{
    int64_t step = array->dtype.size;
    for (unsigned i = 0; i < array->ndim; i++) {
        array->strides[i] = step;
        step *= array->shape[i] ? (int64_t)array->shape[i] : 1;
    }
}

static bool lies_well(const void *data, tarn_dtype dtype)
{
    size_t unit = dtype.kind == 'S'   ? 1
                  : dtype.kind == 'U' ? 4
                  : dtype.kind == 'c' ? dtype.size / 2
                                      : dtype.size;
    return (uintptr_t)data % unit == 0;
}

tarn_status tarn__npy_find(const void *data, size_t size, tarn_array *out,
                           tarn_error *err)
{
    const unsigned char *bytes = data;
    size_t begin, len;
    TARN_TRY(find_header(bytes, size, &begin, &len, err));
    const char *text = (const char *)bytes + begin;
    literal l = {.text = text, .at = text, .end = text + len, .err = err};
    TARN_TRY(read_header(&l));
    TARN_TRY(tarn_array_init(out, NULL, l.dtype, l.ndim, l.shape, err));
    size_t have = size - begin - len;
    uint64_t need = tarn_array_bytes(out);
    if (have != need)
        return tarn__fail(
            err, have < need ? TARN_ERR_TRUNCATED : TARN_ERR_FORMAT,
            "the npy has %zu bytes after its header, but its shape and type need %llu",
            have, (unsigned long long)need);
    if (l.fortran) fortran_strides(out);
    out->data = (void *)(uintptr_t)(bytes + begin + len);
    return TARN_OK;
}

tarn_status tarn__npy_decode(const void *data, size_t size, uint64_t max_size,
                             tarn_value *out, tarn_error *err)
{
    tarn_array array;
    TARN_TRY(tarn__npy_find(data, size, &array, err));
    if (lies_well(array.data, array.dtype))
        return tarn__value_borrow_array(out, &array, err);
    TARN_TRY(
        tarn__value_make_array(out, array.dtype, array.ndim, array.shape, max_size, err));
    memcpy(out->arrays->data, array.data, tarn_array_bytes(&array));
    array.data = out->arrays->data;
    memcpy(out->owned, &array, sizeof array);
    return TARN_OK;
}

TARN__DECODER(tarn__decode_npy)
{
    return tarn__npy_decode(data, size, options->max_size, out, err);
}
