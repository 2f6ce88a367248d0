/* Damaged fields: arrays, images and compressed data. Fields with their own checksums
 * give an error or the same value. In the others a changed bit cannot be detected (only
 * by the sums of their shard): here they give an error or a value within the limits, in
 * bounds. */
#include "damage.h"

#include "base/array.h"

static tarn_error err;

enum { MAX_SIZE = 1 << 20, MAX_PIXELS = 1 << 16, SIDE = 12 };

typedef struct field {
    const char *name;
    bool exact; /* a change is detected, or changes nothing */
    tarn_bytes sound;
    tarn_value value;
} field;

static tarn_status decode(const field *f, const void *data, size_t size, tarn_value *out)
{
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    o.max_size = MAX_SIZE;
    o.max_pixels = MAX_PIXELS;
    return tarn_decode(f->name, data, size, &o, out, &err);
}

/* Reads every element. */
static unsigned char *pack(const tarn_array *a, size_t *out_size)
{
    *out_size = (size_t)tarn_array_bytes(a);
    unsigned char *packed = malloc(*out_size + 1);
    assert_non_null(packed);
    tarn__array_pack(a, false, packed);
    return packed;
}

static bool same_array(const tarn_array *a, const tarn_array *b)
{
    size_t m, n;
    bool same = a->ndim == b->ndim && a->dtype.kind == b->dtype.kind &&
                a->dtype.size == b->dtype.size &&
                memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
    unsigned char *x = pack(a, &m), *y = pack(b, &n);
    same = same && m == n && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

static bool same_value(const tarn_value *a, const tarn_value *b)
{
    if (a->kind != b->kind || a->count != b->count || a->integer != b->integer)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!same_array(&a->arrays[i], &b->arrays[i]) ||
            (a->names && strcmp(a->names[i], b->names[i]) != 0))
            return false;
    return a->count || (a->size == b->size && memcmp(a->data, b->data, a->size) == 0);
}

static const char *check_value(const tarn_value *v)
{
    uint64_t total = v->count ? 0 : v->size;
    for (size_t i = 0; i < v->count; i++) {
        size_t size;
        free(pack(&v->arrays[i], &size));
        total += size;
    }
    return total <= MAX_SIZE ? NULL : "a value beyond the limit";
}

static const char *check_field(void *context, const unsigned char *bytes, size_t size)
{
    const field *f = context;
    tarn_value value;
    err = (tarn_error){0};
    if (decode(f, bytes, size, &value) != TARN_OK)
        return err.code > TARN_END && err.message[0] ? NULL
                                                     : "a failure without a message";
    const char *why = check_value(&value);
    if (!why && f->exact && !same_value(&f->value, &value)) why = "another value";
    tarn_value_release(&value);
    return why;
}

static void sweep_field(const char *name, bool exact, const tarn_value *value)
{
    sweep s = {0};
    field f = {.name = name, .exact = exact, .sound = TARN_BYTES_INIT};
    char title[64];
    OK(tarn_encode(name, value, NULL, &f.sound, &err));
    OK(decode(&f, f.sound.data, f.sound.size, &f.value));
    sweep_bytes(&s, f.sound.data, f.sound.size, 5, check_field, &f);
    tarn_value_release(&f.value);
    tarn_bytes_release(&f.sound);
    snprintf(title, sizeof title, "field %s", name);
    sweep_end(&s, title);
}

static tarn_array numbers(const char *type, unsigned ndim, const uint64_t *shape)
{
    static unsigned char data[SIDE * SIDE * 4];
    tarn_dtype dtype;
    tarn_array array;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i / 7 + i);
    OK(tarn_dtype_parse(type, strlen(type), &dtype, &err));
    OK(tarn_array_init(&array, data, dtype, ndim, shape, &err));
    return array;
}

static void damaged_arrays_are_errors_or_in_bounds(void **state)
{
    static const char *const names[] = {"ten", "npy"};
    const uint64_t shape[] = {3, 5, 2};
    tarn_array one = numbers("<f4", 3, shape);
    tarn_value value = value_array(&one), many = value_arrays(&one, NULL, 1);
    (void)state;
    for (size_t i = 0; i < 2; i++)
        sweep_field(names[i], false, i ? &value : &many);
}

/* A member's CRC-32 covers its content; its name appears twice, and must be the same. */
static void damaged_npz_is_noticed_or_harmless(void **state)
{
    static const char *const names[] = {"left", "right"};
    const uint64_t shape[] = {7, 3};
    tarn_array two[] = {numbers("<i4", 2, shape), numbers("|u1", 2, shape)};
    tarn_value value = value_arrays(two, names, 2);
    (void)state;
    sweep_field("npz", true, &value);
}

static void damaged_images_are_errors_or_in_bounds(void **state)
{
    static const char *const lossy[] = {"jpg", "webp", "ppm", "seg8"};
    const uint64_t colour[] = {SIDE, SIDE, 3}, grey[] = {SIDE, SIDE};
    tarn_array image = numbers("|u1", 3, colour), mask = numbers("|u1", 2, grey);
    tarn_value value = value_array(&image), flat = value_array(&mask);
    (void)state;
    for (size_t i = 0; i < 4; i++)
        sweep_field(lossy[i], false, i < 3 ? &value : &flat);
}

static void damaged_png_is_noticed_or_harmless(void **state)
{
    const uint64_t colour[] = {SIDE, SIDE, 3};
    tarn_array image = numbers("|u1", 3, colour);
    tarn_value value = value_array(&image);
    (void)state;
    sweep_field("png", true, &value);
}

static void damaged_compressed_text_is_an_error_or_in_bounds(void **state)
{
    static const char text[] = "a tarn is a small lake in the mountains, a tarn is deep";
    tarn_value value = value_text(text, sizeof text - 1);
    (void)state;
    sweep_field("txt.gz", true, &value);
    sweep_field("txt.zst", false, &value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_arrays_are_errors_or_in_bounds),
        cmocka_unit_test(damaged_npz_is_noticed_or_harmless),
        cmocka_unit_test(damaged_images_are_errors_or_in_bounds),
        cmocka_unit_test(damaged_png_is_noticed_or_harmless),
        cmocka_unit_test(damaged_compressed_text_is_an_error_or_in_bounds),
    };
    return cmocka_run_group_tests(tests, scratch_in_memory, scratch_remove);
}
