/* glzn's run-length form of integer arrays:
 *
 *   1 byte   high nibble 2 * log2(bytes of an element) + signed; low nibble log2(bytes of
 *            an index)
 *   8 bytes  big-endian: bytes of the shape;  8 bytes big-endian: bytes of the table
 *   shape    little-endian 64-bit lengths
 *   table    the distinct values in order, little-endian
 *   runs     an index into the table for each, then a length for each, in the smallest
 *            unsigned type that holds the number of values and the longest run
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/sort.h"
#include "codec/codec.h"

#define PREFIX 17u

static void put_number(unsigned char *p, uint64_t value, unsigned size)
{
    memcpy(p, &value, size); /* little-endian: the low bytes come first */
}

/* --- Writing -------------------------------------------------------------------- */

/* Elements as unsigned numbers that sort like the values. */
typedef struct runs {
    uint64_t *values; /* one for each run */
    uint64_t *lengths;
    size_t count, value_capacity, length_capacity;
    uint64_t *table;
    size_t table_size;
    uint64_t longest;
} runs;

static tarn_status add_run(runs *r, uint64_t value, uint64_t length, tarn_error *err)
{
    TARN_TRY(
        tarn__grow(&r->values, sizeof *r->values, r->count, &r->value_capacity, err));
    TARN_TRY(
        tarn__grow(&r->lengths, sizeof *r->lengths, r->count, &r->length_capacity, err));
    r->values[r->count] = value;
    r->lengths[r->count++] = length;
    if (length > r->longest) r->longest = length;
    return TARN_OK;
}

static tarn_status find_runs(runs *r, const unsigned char *data, uint64_t count,
                             tarn_dtype dtype, tarn_error *err)
{
    uint64_t sign = dtype.kind == 'i' ? UINT64_C(1) << (8 * dtype.size - 1) : UINT64_C(0);
    for (uint64_t i = 0, begin = 0; i < count; begin = i) {
        uint64_t value = tarn__get_uint(data + i * dtype.size, dtype.size);
        do
            i++;
        while (i < count && tarn__get_uint(data + i * dtype.size, dtype.size) == value);
        TARN_TRY(add_run(r, value ^ sign, i - begin, err));
    }
    return TARN_OK;
}

static tarn_status make_table(runs *r, tarn_error *err)
{
    r->table = malloc(r->count * sizeof *r->table);
    if (!r->table) return tarn__fail_memory(err);
    memcpy(r->table, r->values, r->count * sizeof *r->table);
    qsort(r->table, r->count, sizeof *r->table, tarn__by_u64);
    for (size_t i = 0; i < r->count; i++)
        if (i == 0 || r->table[i] != r->table[r->table_size - 1])
            r->table[r->table_size++] = r->table[i];
    return TARN_OK;
}

static unsigned index_bytes(const runs *r)
{
    uint64_t most = r->table_size > r->longest ? r->table_size : r->longest;
    return most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : most <= UINT32_MAX ? 4 : 8;
}

static unsigned char *put_head(unsigned char *p, const tarn_array *array, const runs *r,
                               unsigned index)
{
    tarn_dtype t = array->dtype;
    unsigned high = (unsigned)__builtin_ctz(t.size) * 2 + (t.kind == 'i');
    *p++ = (unsigned char)(high << 4 | (unsigned)__builtin_ctz(index));
    tarn__put64(p, __builtin_bswap64((uint64_t)array->ndim * 8));
    tarn__put64(p + 8, __builtin_bswap64((uint64_t)r->table_size * t.size));
    p += 16;
    for (unsigned i = 0; i < array->ndim; i++, p += 8)
        tarn__put64(p, array->shape[i]);
    return p;
}

static tarn_status write_runs(const tarn_array *array, const runs *r, tarn_bytes *out,
                              tarn_error *err)
{
    unsigned index = index_bytes(r), size = array->dtype.size;
    uint64_t sign =
        array->dtype.kind == 'i' ? UINT64_C(1) << (8 * size - 1) : UINT64_C(0);
    size_t total =
        PREFIX + array->ndim * 8u + r->table_size * size + r->count * 2 * index;
    unsigned char *p = tarn__bytes_extend(out, total, err);
    if (!p) return TARN_ERR_MEMORY;
    p = put_head(p, array, r, index);
    for (size_t i = 0; i < r->table_size; i++, p += size)
        put_number(p, r->table[i] ^ sign, size);
    for (size_t i = 0; i < r->count; i++, p += index) {
        const uint64_t *at = bsearch(&r->values[i], r->table, r->table_size,
                                     sizeof *r->table, tarn__by_u64);
        put_number(p, (uint64_t)(at - r->table), index);
    }
    for (size_t i = 0; i < r->count; i++, p += index)
        put_number(p, r->lengths[i], index);
    return TARN_OK;
}

TARN__ENCODER(tarn__encode_rle)
{
    const tarn_array *array = tarn__one_array(value);
    const void *data;
    void *copy;
    runs r = {0};
    if (!array || (array->dtype.kind != 'i' && array->dtype.kind != 'u'))
        return tarn__wrong_value(err, extension, "an array of integers", value);
    uint64_t count = tarn__array_count(array);
    if (count == 0)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "an empty array cannot be run-length encoded");
    TARN_TRY(tarn__array_native(array, &data, &copy, err));
    tarn_status status = find_runs(&r, data, count, array->dtype, err);
    if (status == TARN_OK) status = make_table(&r, err);
    if (status == TARN_OK) status = write_runs(array, &r, out, err);
    free(copy);
    free(r.values);
    free(r.lengths);
    free(r.table);
    return status;
}

/* --- Reading -------------------------------------------------------------------- */

typedef struct parts {
    tarn_dtype dtype;
    unsigned ndim, index;
    uint64_t shape[TARN_MAX_DIMS];
    const unsigned char *table, *indices, *lengths;
    uint64_t table_size, count;
} parts;

static tarn_status malformed(tarn_error *err, const char *what)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "run-length data: %s", what);
}

static tarn_status parse_parts(const unsigned char *p, size_t size, parts *out,
                               tarn_error *err)
{
    if (size < PREFIX)
        return tarn__fail(err, TARN_ERR_TRUNCATED,
                          "run-length data of %zu bytes is truncated", size);
    unsigned high = p[0] >> 4, low = p[0] & 15u;
    if (high > 7 || low > 3) return malformed(err, "unknown element or index type");
    uint64_t shape = __builtin_bswap64(tarn__get64(p + 1));
    uint64_t table = __builtin_bswap64(tarn__get64(p + 9));
    unsigned element = 1u << (high >> 1);
    out->index = 1u << low;
    out->dtype = TARN__DTYPE(element == 1 ? '|' : '<', high & 1 ? 'i' : 'u', element);
    if (shape % 8 || shape / 8 > TARN_MAX_DIMS || !tarn__range_in(PREFIX, shape, size))
        return malformed(err, "the shape does not fit");
    if (table % element || !tarn__range_in(PREFIX + shape, table, size))
        return malformed(err, "the table does not fit");
    uint64_t rest = size - PREFIX - shape - table;
    if (rest % (2 * out->index)) return malformed(err, "a run is truncated");
    out->ndim = (unsigned)(shape / 8);
    for (unsigned i = 0; i < out->ndim; i++)
        out->shape[i] = tarn__get64(p + PREFIX + 8 * i);
    out->table = p + PREFIX + shape;
    out->table_size = table / element;
    out->indices = out->table + table;
    out->count = rest / 2 / out->index;
    out->lengths = out->indices + rest / 2;
    return TARN_OK;
}

static void repeat_value(unsigned char *out, const unsigned char *value, unsigned size,
                         uint64_t count)
{
    if (size == 1)
        memset(out, *value, count);
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy(out + i * size, value, size);
}

static tarn_status expand(const parts *r, unsigned char *out, uint64_t count,
                          tarn_error *err)
{
    unsigned size = r->dtype.size;
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t index = tarn__get_uint(r->indices + i * r->index, r->index);
        uint64_t length = tarn__get_uint(r->lengths + i * r->index, r->index);
        if (index >= r->table_size) return malformed(err, "index is outside the table");
        if (length > count) return malformed(err, "the runs are longer than the shape");
        repeat_value(out, r->table + index * size, size, length);
        out += length * size;
        count -= length;
    }
    return count ? malformed(err, "the runs are shorter than the shape") : TARN_OK;
}

TARN__DECODER(tarn__decode_rle)
{
    parts r = {.ndim = 0};
    TARN_TRY(parse_parts(data, size, &r, err));
    TARN_TRY(
        tarn__value_make_array(out, r.dtype, r.ndim, r.shape, options->max_size, err));
    tarn_status status =
        expand(&r, out->arrays->data, tarn__array_count(out->arrays), err);
    if (status != TARN_OK) tarn_value_release(out);
    return status;
}
