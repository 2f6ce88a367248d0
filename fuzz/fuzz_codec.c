/* Fields of every type that has a parser in the library: the first byte chooses the name,
 * the rest is the field. A decoded value is encoded and decoded again, and must be the
 * same. */
#include "common.h"

#include <tarn/codec.h>

#include "base/array.h"

#define MAX_SIZE (1u << 20) /* so that no input needs much memory */

static const char *const fields[] = {
    "npy",   "npz", "rle",    "ten",   "cls",    "json", "seg8", "seg16", "seg24",
    "seg32", "ppm", "txt.gz", "a.zst", "npy.gz", "png",  "jpg",  "webp",  "txt"};
#define FIELDS (sizeof fields / sizeof fields[0])

static void check_array(const tarn_array *array)
{
    CHECK(array->ndim <= TARN_MAX_DIMS);
    uint64_t bytes = tarn_array_bytes(array);
    CHECK(bytes <= MAX_SIZE);
    void *packed = malloc(bytes ? bytes : 1);
    CHECK(packed);
    tarn__array_pack(array, false, packed);
    free(packed);
}

static void check_same_array(const tarn_array *a, const tarn_array *b)
{
    uint64_t bytes = tarn_array_bytes(a);
    char *one = malloc(bytes + 1), *two = malloc(bytes + 1);
    CHECK(one && two && a->ndim == b->ndim && tarn_array_bytes(b) == bytes);
    CHECK(a->dtype.kind == b->dtype.kind && a->dtype.size == b->dtype.size);
    CHECK(!memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]));
    tarn__array_pack(a, false, one);
    tarn__array_pack(b, false, two);
    CHECK(!memcmp(one, two, bytes));
    free(one);
    free(two);
}

/* Lossless types come back unchanged. */
static int is_exact(const char *field)
{
    return strcmp(field, "jpg") && strcmp(field, "webp") && strcmp(field, "json") &&
           strcmp(field, "cls");
}

static void check_round(const char *field, const tarn_value *value,
                        const tarn_decode_options *options)
{
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_value again;
    tarn_error err;
    if (tarn_encode(field, value, NULL, &out, &err) == TARN_OK) {
        tarn_decode_options wide = *options;
        wide.max_size = 4 * MAX_SIZE;
        CHECK(tarn_decode(field, out.data, out.size, &wide, &again, &err) == TARN_OK);
        CHECK(again.kind == value->kind && again.count == value->count);
        if (value->kind == TARN_VALUE_INTEGER) CHECK(again.integer == value->integer);
        if (is_exact(field) && value->kind <= TARN_VALUE_TEXT)
            CHECK(again.size == value->size &&
                  (!value->size || !memcmp(again.data, value->data, value->size)));
        if (is_exact(field))
            for (size_t i = 0; i < value->count; i++)
                check_same_array(&value->arrays[i], &again.arrays[i]);
        tarn_value_release(&again);
    } else {
        CHECK(err.code > TARN_END && err.message[0]);
    }
    tarn_bytes_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tarn_decode_options options = TARN_DECODE_OPTIONS_INIT;
    tarn_value value;
    tarn_error err;
    if (size == 0) return 0;
    const char *field = fields[data[0] % FIELDS];
    options.channels = (unsigned[]){0, 1, 3, 4}[data[0] / FIELDS % 4];
    options.max_size = MAX_SIZE;
    options.max_pixels = 65536;
    unsigned char *bytes = exact_copy(data + 1, size - 1);
    if (tarn_decode(field, bytes, size - 1, &options, &value, &err) == TARN_OK) {
        for (size_t i = 0; i < value.count; i++)
            check_array(&value.arrays[i]);
        check_round(field, &value, &options);
    } else {
        CHECK(err.code > TARN_END && err.message[0] && !value.owned);
    }
    tarn_value_release(&value);
    free(bytes);
    return 0;
}
