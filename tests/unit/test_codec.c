/* The table of codecs, values and their memory. tests/interop/test_codec.py compares the
 * formats with NumPy, Pillow and WebDataset. */
#include "support.h"

#include <tarn/codec.h>
#include <tarn/iac.h>

#include "base/bytes.h"
#include "base/pool.h"
#include "codec/codec.h"

static tarn_error err;

static bool holds(const tarn_bytes *bytes, const char *text)
{
    return bytes->size == strlen(text) && !memcmp(bytes->data, text, bytes->size);
}

static void encoding_appends_and_leaves_nothing_after_a_failure(void **state)
{
    (void)state;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_value seven = value_integer(7);
    OK(tarn_encode("cls", &seven, NULL, &out, &err));
    OK(tarn_encode("a.b.CLS", &seven, NULL, &out, &err));
    assert_true(holds(&out, "77"));
    FAILS(TARN_ERR_UNSUPPORTED, "field .npy takes an array (or bytes and text",
          tarn_encode("npy", &seven, NULL, &out, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "only Python can encode a value as .pickle",
          tarn_encode("pickle", &seven, NULL, &out, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "the extension \"mp4\"",
          tarn_encode("mp4", &seven, NULL, &out, &err));
    tarn_value bad = value_text("\xff", 1);
    FAILS(TARN_ERR_UNSUPPORTED, "not UTF-8", tarn_encode("txt", &bad, NULL, &out, &err));
    assert_int_equal(tarn_encode("npy", &seven, NULL, &out, NULL), TARN_ERR_UNSUPPORTED);
    assert_true(holds(&out, "77"));
    tarn_bytes_release(&out);
    assert_null(out.data);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_value bytes = value_bytes("x", 1);
    tarn_encode_options o = TARN_ENCODE_OPTIONS_INIT;
    o.gzip_level = 10;
    FAILS(TARN_ERR_USAGE, "gzip_level", tarn_encode("bin.gz", &bytes, &o, &out, &err));
    o.size = 3;
    FAILS(TARN_ERR_USAGE, "initialiser", tarn_encode("bin.gz", &bytes, &o, &out, &err));
    /* An older, shorter struct: missing members keep their defaults. */
    o.size = offsetof(tarn_encode_options, gzip_level);
    OK(tarn_encode("bin.gz", &bytes, &o, &out, &err));
    tarn_bytes_release(&out);
}

static void images_over_the_limit_are_refused(void **state)
{
    static const char *const fields[] = {"jpg", "png", "webp", "ppm", "jxl"};
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    unsigned char pixels[8 * 8 * 3] = {0};
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_array array;
    tarn_value back;
    (void)state;
    OK(tarn_array_init(&array, pixels, (tarn_dtype){'|', 'u', 1}, 3,
                       (uint64_t[]){8, 8, 3}, &err));
    tarn_value value = value_array(&array);
    for (size_t i = 0; i < 5; i++) {
        OK(tarn_encode(fields[i], &value, NULL, &out, &err));
        for (unsigned channels = 0; channels <= 3; channels += 3) {
            o = (tarn_decode_options)TARN_DECODE_OPTIONS_INIT;
            o.channels = channels;
            o.max_pixels = 63;
            FAILS(TARN_ERR_LIMIT, "8 x 8 pixels; the limit is 63",
                  tarn_decode(fields[i], out.data, out.size, &o, &back, &err));
            o.max_pixels = 64;
            o.max_size = 191;
            assert_int_equal(tarn_decode(fields[i], out.data, out.size, &o, &back, &err),
                             TARN_ERR_LIMIT);
            o.max_size = 192;
            OK(tarn_decode(fields[i], out.data, out.size, &o, &back, &err));
            tarn_value_release(&back);
        }
        tarn_bytes_release(&out);
    }
}

static void arrays_that_cannot_be_are_refused(void **state)
{
    (void)state;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_array array = {.dtype = {'<', 'u', 3}, .ndim = 1};
    tarn_value value = value_array(&array);
    FAILS(TARN_ERR_USAGE, "element type", tarn_encode("npy", &value, NULL, &out, &err));
    array.dtype = (tarn_dtype){'|', 'u', 4};
    FAILS(TARN_ERR_USAGE, "element type", tarn_encode("ten", &value, NULL, &out, &err));
    array.dtype = (tarn_dtype){'<', 'u', 4};
    array.ndim = 65;
    FAILS(TARN_ERR_LIMIT, "TARN_MAX_DIMS", tarn_encode("rle", &value, NULL, &out, &err));
    array.ndim = 2;
    array.shape[0] = array.shape[1] = UINT64_C(1) << 33;
    FAILS(TARN_ERR_LIMIT, "2^63", tarn_encode("png", &value, NULL, &out, &err));
    tarn_bytes_release(&out);
}

/* --- Memory --------------------------------------------------------------------- */

static void decoded_arrays_point_into_the_field_where_they_can(void **state)
{
    (void)state;
    uint32_t numbers[6] = {1, 2, 3, 4, 5, 6};
    tarn_array array;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_value value, back;
    tarn_dtype u4 = {'<', 'u', 4};
    OK(tarn_array_init(&array, numbers, u4, 2, (uint64_t[]){2, 3}, &err));
    value = value_array(&array);
    OK(tarn_encode("npy", &value, NULL, &out, &err));
    OK(tarn_decode("npy", out.data, out.size, NULL, &back, &err));
    assert_ptr_equal(back.arrays->data, out.data + 128);
    tarn_value_release(&back);
    tarn_value_release(&back);

    /* One byte further the elements are not aligned, and a copy is made. */
    OK(tarn__bytes_add(&out, "", 1, &err));
    memmove(out.data + 1, out.data, out.size - 1);
    OK(tarn_decode("npy", out.data + 1, out.size - 1, NULL, &back, &err));
    assert_true((uintptr_t)back.arrays->data % 64 == 0);
    assert_memory_equal(back.arrays->data, numbers, sizeof numbers);
    assert_int_equal(back.arrays->strides[0], 12);
    tarn_value_release(&back);
    tarn_bytes_release(&out);
}

static void a_bomb_takes_no_more_memory_than_its_limit(void **state)
{
    (void)state;
    size_t size = 32u << 20;
    char *zeros = calloc(1, size);
    assert_non_null(zeros);
    tarn_value value = value_bytes(zeros, size);
    for (int how = TARN__GZIP; how <= TARN__ZSTD; how++) {
        tarn_bytes bomb = TARN_BYTES_INIT, out = TARN_BYTES_INIT;
        OK(tarn_encode(how == TARN__GZIP ? "a.gz" : "a.zst", &value, NULL, &bomb, &err));
        FAILS(TARN_ERR_LIMIT, "more than 100000 bytes (max_size)",
              tarn__expand((tarn__squeeze)how, bomb.data, bomb.size,
                           (tarn__most){100000, "max_size"}, &out, &err));
        assert_true(out.capacity <= 262144);
        tarn_bytes_release(&bomb);
        tarn_bytes_release(&out);
    }
    free(zeros);
}

/* As a field, and as the payload of an IAC file. */
static tarn_status expand_both(const void *data, size_t size, tarn_bytes *out)
{
    tarn_view view;
    tarn_status status = tarn_iac_decode("zstd", data, size, 100, &view, &err);
    if (status == TARN_OK) tarn_view_release(&view);
    assert_int_equal(
        tarn__expand(TARN__ZSTD, data, size, (tarn__most){100, "max_size"}, out, &err),
        status);
    return status;
}

/* A raw block of five bytes in a frame that requests a window, and skippable bytes that
 * make the data long enough. */
static tarn_status expand_window(unsigned log, size_t length)
{
    static const unsigned char frame[] = "\x28\xb5\x2f\xfd\0?\x29\0\0hello";
    static const unsigned char skipped[] = "\x50\x2a\x4d\x18";
    enum { FRAME = sizeof frame - 1, SKIP = 8 };
    tarn_bytes out = TARN_BYTES_INIT;
    unsigned char *data = calloc(1, length);
    assert_non_null(data);
    memcpy(data, frame, FRAME);
    data[5] = (unsigned char)((log - 10) << 3);
    memcpy(data + FRAME, skipped, 4);
    tarn__put32(data + FRAME + 4, (uint32_t)(length - FRAME - SKIP));
    tarn_status status = expand_both(data, length, &out);
    if (status == TARN_OK) assert_memory_equal(out.data, "hello", 5);
    tarn_bytes_release(&out);
    free(data);
    return status;
}

static void a_window_is_not_larger_than_the_data_justify(void **state)
{
    (void)state;
    enum { SMALL = (1 << 20) - 1, LARGE = 1 << 20 };
    OK(expand_window(25, 100));
    OK(expand_window(25, SMALL));
    FAILS(TARN_ERR_LIMIT, "a window of more than 32 MiB", expand_window(26, 100));
    FAILS(TARN_ERR_LIMIT, "a window of more than 32 MiB", expand_window(27, SMALL));
    OK(expand_window(27, LARGE));
    FAILS(TARN_ERR_LIMIT, "a window of more than 128 MiB", expand_window(28, LARGE));
}

/* Also where its last block is empty, and the data is too long to be decoded at once. */
static void a_frame_has_as_many_bytes_as_it_says(void **state)
{
    (void)state;
    static const char frames[] = "\x28\xb5\x2f\xfd\x40\x20\0\x65\1\0\0"
                                 "\x28\xb5\x2f\xfd\x20\5\x29\0\0hello";
    tarn_bytes out = TARN_BYTES_INIT;
    OK(expand_both(frames + 11, sizeof frames - 12, &out));
    FAILS(TARN_ERR_FORMAT, "corruption", expand_both(frames, 11, &out));
    FAILS(TARN_ERR_FORMAT, "corruption", expand_both(frames, sizeof frames - 1, &out));
    tarn_bytes_release(&out);
}

/* Their decoders, where libzstd has them, accept any window. */
static void formats_from_before_zstd_08_are_refused(void **state)
{
    (void)state;
    static const char old[] = "\x28\xb5\x2f\xfd\0\0\x29\0\0hello"
                              "\x27\xb5\x2f\xfd\x20\5\x40\0\5hello\xc0\0\0";
    tarn_bytes out = TARN_BYTES_INIT;
    OK(expand_both(old, 14, &out));
    FAILS(TARN_ERR_FORMAT, "Unknown frame descriptor",
          expand_both(old, sizeof old - 1, &out));
    FAILS(TARN_ERR_FORMAT, "Unknown frame descriptor",
          expand_both(old + 14, sizeof old - 15, &out));
    tarn_bytes_release(&out);
}

static tarn_status encode_many(void *context, size_t number)
{
    (void)context;
    tarn_bytes out = TARN_BYTES_INIT;
    unsigned char pixels[8 * 8 * 3];
    tarn_array array;
    tarn_dtype u1 = {'|', 'u', 1};
    memset(pixels, (int)number, sizeof pixels);
    TARN_TRY(tarn_array_init(&array, pixels, u1, 3, (uint64_t[]){8, 8, 3}, NULL));
    tarn_value image = value_array(&array), real = value_real(0.5 + (double)number);
    tarn_status status = TARN_OK;
    static const char *const fields[] = {"jpg",     "png.gz", "webp",
                                         "npy.zst", "ppm",    "jxl"};
    for (size_t i = 0; status == TARN_OK && i < 6; i++)
        status = tarn_encode(fields[i], &image, NULL, &out, NULL);
    if (status == TARN_OK) status = tarn_encode("json", &real, NULL, &out, NULL);
    tarn_bytes_release(&out);
    return status;
}

static void threads_may_encode_at_once(void **state)
{
    (void)state;
    for (unsigned threads = 0; threads <= 4; threads += 4) {
        size_t failed;
        assert_int_equal(tarn__parallel(threads, 40, encode_many, NULL, &failed),
                         TARN_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoding_appends_and_leaves_nothing_after_a_failure),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(images_over_the_limit_are_refused),
        cmocka_unit_test(arrays_that_cannot_be_are_refused),
        cmocka_unit_test(decoded_arrays_point_into_the_field_where_they_can),
        cmocka_unit_test(a_bomb_takes_no_more_memory_than_its_limit),
        cmocka_unit_test(a_window_is_not_larger_than_the_data_justify),
        cmocka_unit_test(a_frame_has_as_many_bytes_as_it_says),
        cmocka_unit_test(formats_from_before_zstd_08_are_refused),
        cmocka_unit_test(threads_may_encode_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
