/* Memory of the decoders, counted: none per image once they are warm, except in libjpeg
 * and libwebp, and never more than the limits, whatever a field's bytes say. */
#include "support.h"

#include "../images.h"
#include "counting.h"

static tarn_error err;

enum { MANY = 40 };

/* --- Helpers -------------------------------------------------------------------- */

static tarn_bytes encoded(const char *field, const tarn_value *value)
{
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_encode_options o = TARN_ENCODE_OPTIONS_INIT;
    o.webp_lossless = true;
    OK(tarn_encode(field, value, &o, &out, &err));
    return out;
}

/* Pixels that no format compresses well. */
static tarn_bytes noisy_image(const char *field, uint32_t width, uint32_t height,
                              unsigned channels)
{
    size_t size = (size_t)width * height * channels;
    unsigned char *pixels = malloc(size);
    const uint64_t shape[3] = {height, width, channels};
    tarn_array array;
    uint32_t seed = width;
    assert_non_null(pixels);
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        pixels[i] = (unsigned char)(seed >> 24);
    }
    OK(tarn_array_init(&array, pixels, (tarn_dtype){'|', 'u', 1}, 3, shape, &err));
    tarn_value value = value_array(&array);
    tarn_bytes out = encoded(field, &value);
    free(pixels);
    return out;
}

static tarn_bytes zeros(const char *field, tarn_dtype dtype, uint64_t height,
                        uint64_t width)
{
    const uint64_t shape[2] = {height, width};
    tarn_array array;
    void *data = calloc(height * width, dtype.size);
    assert_non_null(data);
    OK(tarn_array_init(&array, data, dtype, 2, shape, &err));
    tarn_value value = value_array(&array);
    tarn_bytes out = encoded(field, &value);
    free(data);
    return out;
}

/* --- Images --------------------------------------------------------------------- */

static void decode_all(tarn_image_decoder *decoder, const tarn__image_plan *plan,
                       const tarn_bytes *files, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++) {
        tarn__image image = {0};
        OK(image_decode(decoder, files[i].data, files[i].size, 3, NULL, &image, &err));
        for (uint64_t epoch = 0; epoch < 6; epoch++)
            OK(tarn__image_run(decoder, plan, files[i].data, files[i].size,
                               (tarn_image_draw){1, epoch, i}, out, &err));
    }
}

/* The number of allocations in MANY rounds over images of several sizes, after a first
 * round. */
static size_t calls_once_warm(const char *field, tarn_image_fit fit)
{
    const uint32_t sizes[][2] = {{320, 240}, {97, 203}, {400, 300}, {33, 33}, {256, 256}};
    tarn_bytes files[5];
    tarn_image_decoder *decoder;
    tarn__image_plan *plan;
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    s.width = s.height = 64;
    s.fit = fit;
    s.shorter = fit == TARN_IMAGE_FIT_CENTRE ? 80 : 0;
    s.type = TARN_IMAGE_F32;
    s.layout = TARN_IMAGE_CHW;
    for (size_t i = 0; i < 5; i++)
        files[i] = noisy_image(field, sizes[i][0], sizes[i][1], 3);
    OK(tarn_image_decoder_new(NULL, &decoder, &err));
    OK(tarn__image_plan_new(&s, &plan, &err));
    unsigned char *out = malloc(tarn__image_plan_size(plan));
    decode_all(decoder, plan, files, 5, out);
    count_memory();
    for (unsigned i = 0; i < MANY; i++)
        decode_all(decoder, plan, files, 5, out);
    size_t calls = count_memory().calls;
    free(out);
    tarn__image_plan_free(plan);
    tarn_image_decoder_free(decoder);
    for (size_t i = 0; i < 5; i++)
        tarn_bytes_release(&files[i]);
    return calls;
}

static void the_counter_counts(void **state)
{
    (void)state;
    count_memory();
    void *volatile p = malloc(1000);
    counted c = count_memory();
    free(p);
    assert_int_equal(c.calls, 1);
    assert_true(c.bytes >= 1000);
}

static void a_warm_decoder_takes_no_memory(void **state)
{
    (void)state;
    const char *const fields[] = {"png", "ppm"};
    for (size_t i = 0; i < 2; i++)
        for (int fit = TARN_IMAGE_FIT_STRETCH; fit <= TARN_IMAGE_FIT_RANDOM; fit++)
            assert_int_equal(calls_once_warm(fields[i], (tarn_image_fit)fit), 0);
}

static void decode_again(tarn_image_decoder *decoder, const tarn_bytes *file,
                         size_t times)
{
    for (size_t i = 0; i < times; i++) {
        tarn__image image = {0};
        OK(image_decode(decoder, file->data, file->size, 0, NULL, &image, &err));
    }
}

/* libjpeg and libwebp allocate and free their own for each image. */
static void check_library(const char *field)
{
    tarn_bytes file = noisy_image(field, 120, 90, 3);
    tarn_image_decoder *decoder;
    OK(tarn_image_decoder_new(NULL, &decoder, &err));
    decode_again(decoder, &file, 2);
    count_memory();
    decode_again(decoder, &file, 1);
    size_t once = count_memory().calls;
    decode_again(decoder, &file, MANY);
    assert_int_equal(count_memory().calls, MANY * once);
    assert_true(once <= 16);
    tarn_image_decoder_free(decoder);
    tarn_bytes_release(&file);
}

static void libraries_take_the_same_memory_for_each_image(void **state)
{
    (void)state;
    check_library("jpg");
    check_library("webp");
}

/* --- Fields --------------------------------------------------------------------- */

static size_t calls_of_fields(const char *field, const tarn_bytes *bytes)
{
    count_memory();
    for (unsigned i = 0; i < MANY; i++) {
        tarn_value value;
        OK(tarn_decode(field, bytes->data, bytes->size, NULL, &value, &err));
        tarn_value_release(&value);
    }
    return count_memory().calls;
}

/* An array that points into its bytes needs one small block: the array itself. */
static void numbers_and_texts_take_no_memory(void **state)
{
    (void)state;
    tarn_value seven = value_integer(7), text = value_text("text", 4);
    tarn_bytes cls = encoded("cls", &seven), txt = encoded("txt", &text);
    tarn_bytes npy = zeros("npy", (tarn_dtype){'<', 'f', 4}, 30, 40);
    assert_int_equal(calls_of_fields("cls", &cls), 0);
    assert_int_equal(calls_of_fields("txt", &txt), 0);
    assert_int_equal(calls_of_fields("npy", &npy), MANY);
    tarn_bytes_release(&cls);
    tarn_bytes_release(&txt);
    tarn_bytes_release(&npy);
}

/* --- Bombs ---------------------------------------------------------------------- */

#define LIMIT (1u << 20)

/* A field of a few kilobytes that claims to be large: refused, with little memory. */
static void refuse(const char *field, const tarn_bytes *bomb)
{
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    tarn_value value;
    o.max_size = LIMIT;
    o.max_pixels = LIMIT;
    count_memory();
    tarn_status status = tarn_decode(field, bomb->data, bomb->size, &o, &value, &err);
    counted c = count_memory();
    if (status != TARN_ERR_LIMIT || c.bytes > 8 * LIMIT)
        fail_msg("%s of %zu bytes: %s after %zu bytes of memory", field, bomb->size,
                 status == TARN_OK ? "taken" : err.message, c.bytes);
}

static void refuse_image(const tarn_bytes *bomb)
{
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    tarn_image_decoder *decoder;
    tarn__image image = {0};
    const uint64_t limits[][2] = {{LIMIT, TARN_MAX_DECODED}, {TARN_MAX_PIXELS, LIMIT}};
    for (size_t i = 0; i < 2; i++) {
        o.max_pixels = limits[i][0];
        o.max_size = limits[i][1];
        OK(tarn_image_decoder_new(&o, &decoder, &err));
        count_memory();
        FAILS(TARN_ERR_LIMIT, i ? "max_size" : "max_pixels",
              image_decode(decoder, bomb->data, bomb->size, 0, NULL, &image, &err));
        assert_true(count_memory().bytes <= 8 * LIMIT);
        tarn_image_decoder_free(decoder);
    }
}

static void a_bomb_of_each_codec_stops_at_its_limit(void **state)
{
    (void)state;
    const tarn_dtype u1 = {'|', 'u', 1}, u2 = {'<', 'u', 2}, u4 = {'<', 'u', 4};
    const struct {
        const char *field;
        tarn_dtype dtype;
    } kinds[] = {
        {"png", u1},     {"webp", u1},   {"npz", u1},
        {"rle", u1},     {"seg8", u1},   {"seg16", u2},
        {"seg24", u4},   {"seg32", u4},  {"npy.gz", u1},
        {"npy.zst", u1}, {"ppm.gz", u1}, {"tenbin.gz", (tarn_dtype){'<', 'f', 4}},
        {"json.gz", u1}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bool json = !strcmp(kinds[i].field, "json.gz");
        tarn_bytes bomb =
            zeros(json ? "npy.gz" : kinds[i].field, kinds[i].dtype, 2500, 2500);
        assert_true(bomb.size < 100000);
        refuse(kinds[i].field, &bomb);
        if (i < 2) refuse_image(&bomb);
        tarn_bytes_release(&bomb);
    }
}

/* A JPEG's blocks take some bits each, so only a header can make false claims. */
static void a_jpeg_that_says_it_is_large_stops_at_its_limit(void **state)
{
    (void)state;
    tarn_bytes file = noisy_image("jpg", 64, 64, 3);
    unsigned char *p = file.data;
    size_t at = 2;
    while (p[at + 1] < 0xc0 || p[at + 1] > 0xc2)
        at += 2 + (size_t)(p[at + 2] << 8 | p[at + 3]);
    memcpy(p + at + 5, "\x0f\xff\x0f\xff", 4);
    refuse("jpg", &file);
    refuse_image(&file);
    tarn_bytes_release(&file);
}

/* No memory is allocated for pixels that cannot be in the bytes, even within the
 * limits. */
static void a_png_without_its_pixels_takes_no_memory_for_them(void **state)
{
    (void)state;
    tarn_bytes file = zeros("png", (tarn_dtype){'|', 'u', 1}, 4000, 4000);
    static const unsigned char end[12] = {0,   0,   0,    0,    'I',  'E',
                                          'N', 'D', 0xae, 0x42, 0x60, 0x82};
    tarn_image_decoder *decoder;
    unsigned char *pixels = malloc(16000000);
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    s.width = s.height = 4000;
    s.channels = 1;
    OK(tarn_image_decoder_new(NULL, &decoder, &err));
    OK(tarn_image_run(decoder, &s, file.data, file.size, (tarn_image_draw){0}, pixels,
                      16000000, &err));
    /* The same header, and an empty IDAT. */
    unsigned char none[12] = {0, 0, 0, 0, 'I', 'D', 'A', 'T', 0x35, 0xaf, 0x06, 0x1e};
    memcpy(file.data + 33, none, 12);
    memcpy(file.data + 45, end, 12);
    count_memory();
    FAILS(TARN_ERR_TRUNCATED, "cannot expand to the 4000 x 4000",
          tarn_image_run(decoder, &s, file.data, 57, (tarn_image_draw){0}, pixels,
                         16000000, &err));
    assert_true(count_memory().bytes < 1 << 16);
    free(pixels);
    tarn_image_decoder_free(decoder);
    tarn_bytes_release(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(a_warm_decoder_takes_no_memory),
        cmocka_unit_test(libraries_take_the_same_memory_for_each_image),
        cmocka_unit_test(numbers_and_texts_take_no_memory),
        cmocka_unit_test(a_bomb_of_each_codec_stops_at_its_limit),
        cmocka_unit_test(a_jpeg_that_says_it_is_large_stops_at_its_limit),
        cmocka_unit_test(a_png_without_its_pixels_takes_no_memory_for_them),
    };
    count_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
