/* WebDataset's tenbin format: chunks of "~TenBin~", a length of 8 bytes and data padded
 * with zeros to 64 bytes. An array is a chunk of header words and a chunk of elements. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "codec/codec.h"

#define MAGIC      "~TenBin~"
#define CHUNK_HEAD 16u
#define PADDING    64u
#define MAX_DIMS   9u
#define HEAD_WORDS 3u /* type, info, number of axes */

/* --- Writing -------------------------------------------------------------------- */

static tarn_status add_chunk(const void *data, size_t size, tarn_bytes *out,
                             tarn_error *err)
{
    size_t padded = (size + PADDING - 1) / PADDING * PADDING;
    unsigned char *p = tarn__bytes_extend(out, CHUNK_HEAD + padded, err);
    if (!p) return TARN_ERR_MEMORY;
    memcpy(p, MAGIC, 8);
    tarn__put64(p + 8, size);
    if (size) memcpy(p + CHUNK_HEAD, data, size);
    memset(p + CHUNK_HEAD + size, 0, padded - size);
    return TARN_OK;
}

static bool type_is_known(tarn_dtype t)
{
    return t.kind == 'f' || t.kind == 'i' || t.kind == 'u';
}

static tarn_status check_array(const tarn_array *array, tarn_error *err)
{
    char text[TARN_DTYPE_TEXT_MAX];
    tarn_dtype t = array->dtype;
    /* WebDataset's reader has a misspelt name for this type and refuses it. */
    if (!type_is_known(t) || (t.kind == 'u' && t.size == 4))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "WebDataset's tenbin reader does not support elements of type "
                          "%s; it supports f2 f4 f8 i1 i2 i4 i8 u1 u2 u8",
                          tarn_dtype_text(t, text));
    if (array->ndim > MAX_DIMS)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "tenbin supports at most %u dimensions, not %u", MAX_DIMS,
                          array->ndim);
    return TARN_OK;
}

static tarn_status add_array(const tarn_array *array, tarn_bytes *out, tarn_error *err)
{
    unsigned char head[8 * (HEAD_WORDS + MAX_DIMS)] = {0};
    const void *data;
    void *copy;
    TARN_TRY(check_array(array, err));
    head[0] = (unsigned char)array->dtype.kind;
    head[1] = (unsigned char)('0' + array->dtype.size);
    tarn__put64(head + 16, array->ndim);
    for (unsigned i = 0; i < array->ndim; i++)
        tarn__put64(head + 8 * (HEAD_WORDS + i), array->shape[i]);
    TARN_TRY(add_chunk(head, 8 * (HEAD_WORDS + array->ndim), out, err));
    TARN_TRY(tarn__array_native(array, &data, &copy, err));
    tarn_status status = add_chunk(data, tarn_array_bytes(array), out, err);
    free(copy);
    return status;
}

TARN__ENCODER(tarn__encode_tenbin)
{
    if (value->kind != TARN_VALUE_ARRAY && value->kind != TARN_VALUE_ARRAYS)
        return tarn__wrong_value(err, extension, "arrays", value);
    for (size_t i = 0; i < value->count; i++)
        TARN_TRY(add_array(&value->arrays[i], out, err));
    return TARN_OK;
}

/* --- Reading -------------------------------------------------------------------- */

typedef struct chunks {
    const unsigned char *data;
    size_t size, at;
    tarn_error *err;
} chunks;

static tarn_status malformed(chunks *c, size_t at, const char *what)
{
    return tarn__fail(c->err, TARN_ERR_FORMAT, "tenbin, byte %zu: %s", at, what);
}

static tarn_status next_chunk(chunks *c, const unsigned char **out, size_t *out_size)
{
    uint64_t padded;
    if (!tarn__range_in(c->at, CHUNK_HEAD, c->size) ||
        memcmp(c->data + c->at, MAGIC, 8) != 0)
        return malformed(c, c->at, "no chunk begins here");
    uint64_t size = tarn__get64(c->data + c->at + 8);
    if (!tarn__align_up(size, PADDING, &padded) ||
        !tarn__range_in(c->at + CHUNK_HEAD, padded, c->size))
        return malformed(c, c->at, "the chunk ends after the data");
    *out = c->data + c->at + CHUNK_HEAD;
    *out_size = (size_t)size;
    c->at += CHUNK_HEAD + (size_t)padded;
    return TARN_OK;
}

static tarn_status read_head(chunks *c, const unsigned char *head, size_t size,
                             tarn_array *out)
{
    uint64_t shape[MAX_DIMS];
    char type[4] = {'<', (char)head[0], (char)head[1], '\0'};
    tarn_dtype dtype;
    uint64_t ndim = tarn__get64(head + 16);
    if (ndim > MAX_DIMS || size != 8 * (HEAD_WORDS + ndim) ||
        memcmp(head + 2, "\0\0\0\0\0\0", 6) != 0)
        return malformed(c, c->at, "the array header does not fit");
    TARN_TRY(tarn_dtype_parse(type, 3, &dtype, c->err));
    if (!type_is_known(dtype))
        return malformed(c, c->at, "the element type is not supported by tenbin");
    for (unsigned i = 0; i < ndim; i++)
        shape[i] = tarn__get64(head + 8 * (HEAD_WORDS + i));
    return tarn_array_init(out, NULL, dtype, (unsigned)ndim, shape, c->err);
}

static tarn_status read_array(chunks *c, tarn_value *out)
{
    const unsigned char *head, *data;
    size_t head_size, size;
    tarn_array array;
    TARN_TRY(next_chunk(c, &head, &head_size));
    if (head_size < 8 * HEAD_WORDS)
        return malformed(c, c->at, "the array header is too short");
    TARN_TRY(next_chunk(c, &data, &size));
    TARN_TRY(read_head(c, head, head_size, &array));
    if (size != tarn_array_bytes(&array))
        return malformed(c, c->at, "the shape does not match the data");
    array.data = (void *)(uintptr_t)data;
    if ((uintptr_t)data % array.dtype.size == 0)
        return tarn__value_borrow_array(out, &array, c->err);
    TARN_TRY(
        tarn__value_make_array(out, array.dtype, array.ndim, array.shape, size, c->err));
    memcpy(out->arrays->data, data, size);
    return TARN_OK;
}

TARN__DECODER(tarn__decode_tenbin)
{
    chunks c = {.data = data, .size = size, .err = err};
    tarn_value *items = NULL;
    size_t count = 0, capacity = 0;
    tarn_status status = TARN_OK;
    while (status == TARN_OK && c.at < c.size) {
        if (count >= TARN_MAX_FIELD_ARRAYS)
            status = tarn__fail(err, TARN_ERR_LIMIT,
                                "more than %u arrays (TARN_MAX_FIELD_ARRAYS)",
                                TARN_MAX_FIELD_ARRAYS);
        if (status == TARN_OK)
            status = tarn__grow(&items, sizeof *items, count, &capacity, err);
        if (status == TARN_OK) status = read_array(&c, &items[count]);
        if (status == TARN_OK) count++;
    }
    if (status == TARN_OK) return tarn__value_gather(out, items, NULL, count, err);
    tarn__values_free(items, NULL, count);
    return status;
}
