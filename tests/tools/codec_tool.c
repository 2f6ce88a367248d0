/* Driven by the interop tests: values to encode and fields to decode, in a stream of
 * records on standard input, and the library's results on standard output.
 * tests/interop/test_codec.py is the other side. Numbers are little-endian.
 *
 *   E  name  options (8 x i32)  value      ->  status  bytes (or the error's text)
 *   D  name  channels max_size max_pixels (u64)  bytes  ->  status  value (or the text)
 *
 *   name, bytes  u64 length, data
 *   value        u8 kind, then bytes | i64 | f64 | u64 count and arrays
 *   array        name, name of the type, u64 ndim, shape, strides, u64 offset, bytes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/codec.h>

#include "../values.h"
#include "base/array.h"
#include "codec/codec.h"
#include "records.h"

/* NUL-terminated; an allocation of exactly the right size, so that sanitizers see more.
 */
static char *get_bytes(size_t *out_len, bool terminate)
{
    size_t len = get_u64();
    char *data = malloc(len + (terminate || !len));
    if (!data) exit(3);
    get(data, len);
    if (terminate) data[len] = '\0';
    if (out_len) *out_len = len;
    return data;
}

static void put_failure(tarn_status status, const tarn_error *err)
{
    char text[2200];
    putchar((int)status);
    tarn_error_text(err, text, sizeof text);
    put_bytes(text, strlen(text));
}

/* --- Arrays --------------------------------------------------------------------- */

static void get_array(tarn_array *array, char **out_name, char **out_data)
{
    tarn_error err;
    size_t len;
    *out_name = get_bytes(NULL, true);
    char *type = get_bytes(&len, true);
    if (tarn_dtype_parse(type, len, &array->dtype, &err) != TARN_OK) exit(4);
    free(type);
    array->ndim = (unsigned)get_u64();
    get(array->shape, array->ndim * 8);
    get(array->strides, array->ndim * 8);
    uint64_t offset = get_u64();
    *out_data = get_bytes(NULL, false);
    array->data = *out_data + offset;
}

static void put_array(const tarn_array *array, const char *name)
{
    char type[TARN_DTYPE_TEXT_MAX];
    size_t bytes = tarn_array_bytes(array);
    char *packed = malloc(bytes ? bytes : 1);
    if (!packed) exit(3);
    tarn__array_pack(array, false, packed);
    put_bytes(name, strlen(name));
    tarn_dtype_text(array->dtype, type);
    put_bytes(type, strlen(type));
    put_u64(array->ndim);
    fwrite(array->shape, 8, array->ndim, stdout);
    put_bytes(packed, bytes);
    free(packed);
}

/* --- Records -------------------------------------------------------------------- */

static void encode(const char *field, const tarn_value *value,
                   const tarn_encode_options *options)
{
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_error err;
    /* Leading bytes, to check that they stay unchanged. */
    if (tarn__bytes_add(&out, "before", 6, &err) != TARN_OK) exit(3);
    tarn_status status = tarn_encode(field, value, options, &out, &err);
    if (out.size < 6 || memcmp(out.data, "before", 6) != 0) exit(5);
    if (status == TARN_OK) {
        putchar(0);
        put_bytes(out.data + 6, out.size - 6);
    } else {
        if (out.size != 6) exit(5);
        put_failure(status, &err);
    }
    tarn_bytes_release(&out);
}

static void encode_arrays(const char *field, bool one, const tarn_encode_options *options)
{
    size_t count = get_u64();
    tarn_array *arrays = calloc(count + 1, sizeof *arrays);
    char **names = calloc(count + 1, sizeof *names),
         **data = calloc(count + 1, sizeof *data);
    if (!arrays || !names || !data) exit(3);
    for (size_t i = 0; i < count; i++)
        get_array(&arrays[i], &names[i], &data[i]);
    bool named = count == 0 || names[0][0];
    tarn_value value =
        one ? value_array(arrays)
            : value_arrays(arrays, named ? (const char *const *)names : NULL, count);
    encode(field, &value, options);
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
        free(data[i]);
    }
    free(arrays);
    free(names);
    free(data);
}

static void run_encode(const char *field)
{
    int32_t o[8];
    tarn_encode_options options = TARN_ENCODE_OPTIONS_INIT;
    tarn_value value = TARN_VALUE_INIT;
    get(o, sizeof o);
    options.jpeg_quality = o[0];
    options.subsampling = (tarn_subsampling)o[1];
    options.webp_quality = o[2];
    options.webp_lossless = o[3];
    options.png_level = o[4];
    options.gzip_level = o[5];
    options.zstd_level = o[6];
    options.npz_stored = o[7];
    value.kind = (tarn_value_kind)getchar();
    if (value.kind >= TARN_VALUE_ARRAY) {
        encode_arrays(field, value.kind == TARN_VALUE_ARRAY, &options);
        return;
    }
    char *data = NULL;
    if (value.kind == TARN_VALUE_INTEGER)
        get(&value.integer, 8);
    else if (value.kind == TARN_VALUE_REAL)
        get(&value.real, 8);
    else
        value.data = data = get_bytes(&value.size, false);
    encode(field, &value, &options);
    free(data);
}

static void run_decode(const char *field)
{
    tarn_decode_options options = TARN_DECODE_OPTIONS_INIT;
    tarn_error err;
    tarn_value value;
    size_t size;
    options.channels = (unsigned)get_u64();
    options.max_size = get_u64();
    options.max_pixels = get_u64();
    char *data = get_bytes(&size, false);
    tarn_status status = tarn_decode(field, data, size, &options, &value, &err);
    if (status != TARN_OK) {
        put_failure(status, &err);
        free(data);
        return;
    }
    putchar(0);
    putchar(value.kind);
    if (value.kind == TARN_VALUE_INTEGER) put_u64((uint64_t)value.integer);
    if (value.kind == TARN_VALUE_REAL) fwrite(&value.real, 8, 1, stdout);
    if (value.kind <= TARN_VALUE_JSON) put_bytes(value.data, value.size);
    if (value.kind >= TARN_VALUE_ARRAY) put_u64(value.count);
    for (size_t i = 0; i < value.count; i++)
        put_array(&value.arrays[i], value.names ? value.names[i] : "");
    tarn_value_release(&value);
    free(data);
}

int main(void)
{
    int op;
    while ((op = getchar()) != EOF) {
        char *field = get_bytes(NULL, true);
        if (op == 'E')
            run_encode(field);
        else if (op == 'D')
            run_decode(field);
        else
            return 2;
        free(field);
    }
    return 0;
}
