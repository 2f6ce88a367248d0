/* Bytes of fields that other programs could have made: PNGs chunk by chunk, label maps,
 * NumPy's files, tenbin, runs. What is accepted with which values, and what is refused
 * with which message. */
#include "support.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/codec.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "codec/codec.h"
#include "codec/pixels.h"
#include "codec/png.h"

static tarn_error err;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static tarn_status decode(const char *field, const tarn_bytes *bytes, tarn_value *out)
{
    return tarn_decode(field, bytes->data, bytes->size, NULL, out, &err);
}

static tarn_status encode(const char *field, const tarn_value *value, tarn_bytes *out)
{
    out->size = 0;
    return tarn_encode(field, value, NULL, out, &err);
}

/* Checks that a field is refused, and that nothing of it is left. */
static void refuse(const char *field, const tarn_bytes *bytes, tarn_status want,
                   const char *part)
{
    tarn_value value = TARN_VALUE_INIT;
    FAILS(want, part, decode(field, bytes, &value));
    assert_null(value.arrays);
}

static tarn_array array_of(const void *data, char order, char kind, uint32_t size,
                           unsigned ndim, const uint64_t *shape)
{
    tarn_array a;
    OK(tarn_array_init(&a, (void *)(uintptr_t)data, (tarn_dtype){order, kind, size}, ndim,
                       shape, &err));
    return a;
}

/* --- PNG ---------------------------------------------------------------------------- */

static void add(tarn_bytes *out, const void *data, size_t size)
{
    OK(tarn__bytes_add(out, data, size, &err));
}

static void add_big32(tarn_bytes *out, uint32_t n)
{
    unsigned char bytes[4] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16),
                              (unsigned char)(n >> 8), (unsigned char)n};
    add(out, bytes, 4);
}

static void add_chunk(tarn_bytes *out, const char *tag, const void *data, uint32_t size)
{
    add_big32(out, size);
    size_t from = out->size;
    add(out, tag, 4);
    add(out, data, size);
    add_big32(out, tarn__crc32(0, out->data + from, size + 4));
}

static void begin_png(tarn_bytes *out, uint32_t width, uint32_t height, unsigned depth,
                      unsigned colour, unsigned interlace)
{
    unsigned char head[13] = {0};
    for (int i = 0; i < 4; i++) {
        head[i] = (unsigned char)(width >> (24 - 8 * i));
        head[4 + i] = (unsigned char)(height >> (24 - 8 * i));
    }
    head[8] = (unsigned char)depth;
    head[9] = (unsigned char)colour;
    head[12] = (unsigned char)interlace;
    out->size = 0;
    add(out, TARN__PNG_SIGNATURE, 8);
    add_chunk(out, "IHDR", head, sizeof head);
}

/* Rows with their filters in zlib's format, without compression. */
static size_t stored(unsigned char *out, const void *rows, size_t size)
{
    const unsigned char *p = rows;
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < size; i++) {
        a = (a + p[i]) % 65521;
        b = (b + a) % 65521;
    }
    memcpy(out, "\x78\x01\x01", 3);
    tarn__put16(out + 3, (uint16_t)size);
    tarn__put16(out + 5, (uint16_t)~size);
    memcpy(out + 7, rows, size);
    const unsigned char sum[4] = {(unsigned char)(b >> 8), (unsigned char)b,
                                  (unsigned char)(a >> 8), (unsigned char)a};
    memcpy(out + 7 + size, sum, 4);
    return size + 11;
}

static void end_png(tarn_bytes *out, const void *rows, size_t size)
{
    unsigned char packed[512];
    add_chunk(out, "IDAT", packed, (uint32_t)stored(packed, rows, size));
    add_chunk(out, "IEND", "", 0);
}

static void assert_pixels(const tarn_bytes *png, unsigned channels, const char *want,
                          size_t size)
{
    tarn_value value = TARN_VALUE_INIT;
    OK(decode("png", png, &value));
    assert_int_equal(tarn_array_bytes(value.arrays), size);
    if (channels > 1) assert_int_equal(value.arrays->shape[2], channels);
    assert_memory_equal(value.arrays->data, want, size);
    tarn_value_release(&value);
}

static void palettes_give_their_colours(void **state)
{
    (void)state;
    tarn_bytes png = TARN_BYTES_INIT;
    /* Three pixels of eight bits, and four of two bits. */
    begin_png(&png, 3, 1, 8, TARN__PNG_PALETTE, 0);
    add_chunk(&png, "PLTE", "abcdef", 6);
    end_png(&png, "\0\1\0\1", 4);
    assert_pixels(&png, 3, "defabcdef", 9);
    begin_png(&png, 4, 1, 2, TARN__PNG_PALETTE, 0);
    add_chunk(&png, "PLTE", "abcdefghi", 9);
    add_chunk(&png, "tRNS", "\x10\x20", 2);
    end_png(&png, "\0\x18", 2); /* 0 1 2 0 */
    assert_pixels(&png, 4,
                  "abc\x10"
                  "def\x20"
                  "ghi\xff"
                  "abc\x10",
                  16);
    tarn_bytes_release(&png);
}

static void palettes_and_transparency_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const char many[3 * 257] = {0};
    static const struct {
        unsigned colour;
        uint32_t palette; /* bytes; 0: none */
        const char *chunk;
        uint32_t size;
        const char *part;
    } cases[] = {
        {TARN__PNG_PALETTE, 0, "PLTE", 0, "1 to 256 entries"},
        {TARN__PNG_PALETTE, 0, "PLTE", 4, "1 to 256 entries"},
        {TARN__PNG_PALETTE, 0, "PLTE", 771, "1 to 256 entries"},
        {TARN__PNG_PALETTE, 6, "PLTE", 6, "a second palette"},
        {TARN__PNG_PALETTE, 0, "tRNS", 1, "after the palette"},
        {TARN__PNG_PALETTE, 6, "tRNS", 0, "1 to 256 bytes"},
        {TARN__PNG_PALETTE, 768, "tRNS", 257, "1 to 256 bytes"},
        {TARN__PNG_GREY, 0, "tRNS", 3, "wrong size"},
        {TARN__PNG_RGB, 0, "tRNS", 2, "wrong size"},
        {TARN__PNG_RGB, 0, "fRST", 0, NULL}, /* an unknown chunk that may be skipped */
        {TARN__PNG_RGB, 0, "FRST", 0, "not allowed before the pixels"},
    };
    tarn_bytes png = TARN_BYTES_INIT;
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin_png(&png, 1, 1, 8, cases[i].colour, 0);
        if (cases[i].palette) add_chunk(&png, "PLTE", many, cases[i].palette);
        add_chunk(&png, cases[i].chunk, many, cases[i].size);
        end_png(&png, "\0xyz", cases[i].colour == TARN__PNG_RGB ? 4 : 2);
        if (cases[i].part)
            refuse("png", &png, TARN_ERR_FORMAT, cases[i].part);
        else
            assert_pixels(&png, 3, "xyz", 3);
    }
    begin_png(&png, 1, 1, 8, TARN__PNG_GREY, 0);
    add_chunk(&png, "tRNS", "\0x", 2);
    add_chunk(&png, "tRNS", "\0x", 2);
    end_png(&png, "\0x", 2);
    refuse("png", &png, TARN_ERR_FORMAT, "a second tRNS");
    tarn_bytes_release(&png);
}

/* Images with alpha do not use a tRNS chunk, whatever it contains. */
static void transparency_of_images_with_alpha_means_nothing(void **state)
{
    (void)state;
    tarn_bytes png = TARN_BYTES_INIT;
    begin_png(&png, 1, 1, 8, TARN__PNG_RGBA, 0);
    add_chunk(&png, "tRNS", "12345", 5);
    end_png(&png, "\0abcd", 5);
    assert_pixels(&png, 4, "abcd", 4);
    begin_png(&png, 1, 1, 8, TARN__PNG_GREY_ALPHA, 0);
    add_chunk(&png, "tRNS", "", 0);
    end_png(&png, "\0ab", 3);
    assert_pixels(&png, 2, "ab", 2);
    tarn_bytes_release(&png);
}

static void pixels_must_be_in_one_piece(void **state)
{
    (void)state;
    tarn_bytes png = TARN_BYTES_INIT;
    unsigned char packed[64];
    size_t size = stored(packed, "\0abc", 4);
    for (int between = 0; between < 2; between++) {
        begin_png(&png, 1, 1, 8, TARN__PNG_RGB, 0);
        add_chunk(&png, "IDAT", packed, 5);
        add_chunk(&png, "IDAT", "", 0);
        if (between) add_chunk(&png, "tEXt", "k\0v", 3);
        add_chunk(&png, "IDAT", packed + 5, (uint32_t)size - 5);
        add_chunk(&png, "IEND", "", 0);
        if (between)
            refuse("png", &png, TARN_ERR_FORMAT, "the IDAT chunks are not consecutive");
        else
            assert_pixels(&png, 3, "abc", 3);
    }
    tarn_bytes_release(&png);
}

/* Too many pixels to count: nothing is allocated, and nothing is touched. */
static void sizes_that_do_not_fit_64_bits_are_refused(void **state)
{
    (void)state;
    tarn_bytes bytes = TARN_BYTES_INIT;
    for (unsigned interlace = 0; interlace < 2; interlace++) {
        tarn__png *png = tarn__png_new();
        tarn_image_info info;
        tarn__image to = {.data = NULL, .channels = 4};
        begin_png(&bytes, 0x7fffffff, 0x7fffffff, 16, TARN__PNG_RGBA, interlace);
        end_png(&bytes, "\0abcd", 5);
        OK(tarn__png_head(png, bytes.data, bytes.size, &info, &err));
        assert_int_equal(info.width, 0x7fffffff);
        FAILS(TARN_ERR_TRUNCATED, "cannot expand to the 2147483647 x 2147483647",
              tarn__png_into(png, &to, UINT64_MAX, &err));
        tarn__png_free(png);
    }
    tarn_bytes_release(&bytes);
}

/* Runs until its parent process ends. */
static _Noreturn void keep_changing(volatile uint32_t *length, uint32_t a, uint32_t b)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t now = a;; now = a + b - now) {
        *length = __builtin_bswap32(now);
        for (volatile int wait = 0; wait < 300; wait++)
            continue;
    }
}

/* A map shows what others write into its file, at any moment. The length of the first of
 * two chunks alternates between the true value and more than the memory for both:
 * whichever is seen, nothing is written past that memory. Another process does this,
 * because ThreadSanitizer would report it as the race it is. */
static void pixels_that_change_meanwhile_stay_in_bounds(void **state)
{
    (void)state;
    enum { BEHIND = 1 << 20, FIRST = 5, LENGTH_AT = 33, TRIES = 3000 };
    tarn_bytes png = TARN_BYTES_INIT;
    unsigned char packed[64], *zeros = calloc(1, BEHIND);
    size_t size = stored(packed, "\0abc", 4);
    begin_png(&png, 1, 1, 8, TARN__PNG_RGB, 0);
    add_chunk(&png, "IDAT", packed, FIRST);
    add_chunk(&png, "IDAT", packed + FIRST, (uint32_t)size - FIRST);
    add_chunk(&png, "zERO", zeros, BEHIND);
    add_chunk(&png, "IEND", "", 0);
    unsigned char *shared = mmap(NULL, png.size + 4096, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    unsigned char *at = shared + 3; /* the length is aligned, and changes atomically */
    memcpy(at, png.data, png.size);
    volatile uint32_t *length = (volatile uint32_t *)(void *)(at + LENGTH_AT);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) keep_changing(length, FIRST, BEHIND);
    size_t good = 0;
    for (int i = 0; i < TRIES; i++) {
        tarn_value value = TARN_VALUE_INIT;
        tarn_status got = tarn_decode("png", at, png.size, NULL, &value, &err);
        if (got == TARN_OK) {
            assert_memory_equal(value.arrays->data, "abc", 3);
            good++;
        } else {
            assert_true(got == TARN_ERR_FORMAT || got == TARN_ERR_TRUNCATED);
        }
        tarn_value_release(&value);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    print_message("# figure: %zu of %d were seen whole\n", good, (int)TRIES);
    munmap(shared, png.size + 4096);
    free(zeros);
    tarn_bytes_release(&png);
}

/* --- Labels ------------------------------------------------------------------------- */

static void labels_come_back_and_must_fit(void **state)
{
    (void)state;
    static const uint32_t labels[6] = {0, 1, 0xabcdef, 0xffffff, 77, 65536};
    static const uint32_t wide[6] = {0, 1, 0x1000000, 2, 3, 4};
    static const uint64_t shape[] = {2, 3}, high[] = {UINT64_C(1) << 31, 1},
                          broad[] = {1, UINT64_C(1) << 31};
    tarn_array a = array_of(labels, '<', 'u', 4, 2, shape);
    tarn_array b = array_of(wide, '<', 'u', 4, 2, shape);
    tarn_array tall = array_of(labels, '<', 'u', 4, 2, high);
    tarn_array thin = array_of(labels, '<', 'u', 4, 2, broad);
    tarn_value value = value_array(&a), large = value_array(&b);
    tarn_value tower = value_array(&tall), strip = value_array(&thin);
    tarn_bytes out = TARN_BYTES_INIT;
    static const char *const fields[] = {"seg24", "seg32"};
    for (size_t i = 0; i < 2; i++) {
        tarn_value again = TARN_VALUE_INIT;
        OK(encode(fields[i], &value, &out));
        OK(decode(fields[i], &out, &again));
        assert_memory_equal(again.arrays->data, labels, sizeof labels);
        tarn_value_release(&again);
    }
    FAILS(TARN_ERR_UNSUPPORTED, "label 16777216 does not fit into the 24 bits",
          encode("seg24", &large, &out));
    OK(encode("seg32", &large, &out));
    FAILS(TARN_ERR_UNSUPPORTED, "a side is longer than 2^31",
          encode("seg32", &tower, &out));
    FAILS(TARN_ERR_UNSUPPORTED, "a side is longer than 2^31",
          encode("seg32", &strip, &out));
    tarn_bytes_release(&out);
}

static void a_png_of_another_kind_holds_no_labels(void **state)
{
    (void)state;
    tarn_bytes png = TARN_BYTES_INIT;
    begin_png(&png, 1, 1, 8, TARN__PNG_RGB, 0);
    end_png(&png, "\0abc", 4);
    refuse("seg8", &png, TARN_ERR_FORMAT, "of 1 channels of 8 bits");
    refuse("seg32", &png, TARN_ERR_FORMAT, "of 4 channels of 8 bits");
    begin_png(&png, 1, 1, 16, TARN__PNG_GREY, 0);
    end_png(&png, "\0ab", 3);
    refuse("seg8", &png, TARN_ERR_FORMAT, "of 1 channels of 8 bits");
    tarn_value value = TARN_VALUE_INIT;
    OK(decode("seg16", &png, &value));
    assert_int_equal(tarn__get16(value.arrays->data), 'a' << 8 | 'b');
    tarn_value_release(&value);
    tarn_bytes_release(&png);
}

/* --- tenbin ------------------------------------------------------------------------- */

static void add_ten_chunk(tarn_bytes *out, const void *data, uint64_t size)
{
    static const unsigned char zeros[64] = {0};
    unsigned char head[16] = "~TenBin~";
    tarn__put64(head + 8, size);
    add(out, head, 16);
    add(out, data, (size_t)size);
    add(out, zeros, (64 - size % 64) % 64);
}

/* An array of one dimension of count elements. */
static void add_ten(tarn_bytes *out, const char *type, uint64_t count, const void *data,
                    size_t size)
{
    unsigned char head[32] = {(unsigned char)type[0], (unsigned char)type[1]};
    tarn__put64(head + 16, 1);
    tarn__put64(head + 24, count);
    add_ten_chunk(out, head, sizeof head);
    add_ten_chunk(out, data, size);
}

static void tenbins_are_taken_or_refused_by_their_headers(void **state)
{
    (void)state;
    static const unsigned char data[32] = "0123456789abcdef";
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_value value = TARN_VALUE_INIT;
    add_ten(&out, "i2", 4, data, 8);
    add_ten(&out, "f4", 0, data, 0);
    /* At any alignment, including odd addresses. */
    for (size_t shift = 0; shift < 3; shift++) {
        unsigned char *copy = malloc(out.size + shift);
        memcpy(copy + shift, out.data, out.size);
        OK(tarn_decode("ten", copy + shift, out.size, NULL, &value, &err));
        assert_int_equal(value.count, 2);
        assert_int_equal(value.arrays[0].shape[0], 4);
        assert_memory_equal(value.arrays[0].data, data, 8);
        assert_int_equal(value.arrays[1].shape[0], 0);
        tarn_value_release(&value);
        free(copy);
    }
    out.size = 0;
    add_ten(&out, "c8", 1, data, 8);
    refuse("ten", &out, TARN_ERR_FORMAT, "the element type is not supported by tenbin");
    out.size = 0;
    add_ten(&out, "i2", 5, data, 8);
    refuse("ten", &out, TARN_ERR_FORMAT, "the shape does not match the data");
    out.size = 0;
    add_ten(&out, "q9", 1, data, 8);
    assert_int_not_equal(decode("ten", &out, &value), TARN_OK);
    out.size = 0;
    add_ten_chunk(&out, data, 16);
    refuse("ten", &out, TARN_ERR_FORMAT, "the array header is too short");
    tarn__put64(out.data + 8, UINT64_MAX - 3);
    refuse("ten", &out, TARN_ERR_FORMAT, "the chunk ends after the data");
    tarn_bytes_release(&out);
}

static void more_arrays_than_the_limit_are_refused(void **state)
{
    (void)state;
    tarn_bytes one = TARN_BYTES_INIT, out = TARN_BYTES_INIT;
    tarn_value value = TARN_VALUE_INIT;
    add_ten(&one, "u1", 0, NULL, 0);
    for (unsigned i = 0; i < TARN_MAX_FIELD_ARRAYS; i++)
        add(&out, one.data, one.size);
    OK(decode("ten", &out, &value));
    assert_int_equal(value.count, TARN_MAX_FIELD_ARRAYS);
    tarn_value_release(&value);
    add(&out, one.data, one.size);
    refuse("ten", &out, TARN_ERR_LIMIT, "TARN_MAX_FIELD_ARRAYS");
    tarn_bytes_release(&one);
    tarn_bytes_release(&out);
}

static void arrays_that_tenbin_cannot_say_are_refused(void **state)
{
    (void)state;
    static const unsigned char data[64] = {0};
    static const uint64_t ones[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_array none = array_of(data, '<', 'i', 4, 1, (const uint64_t[]){0});
    tarn_value empty = value_array(&none), nothing = TARN_VALUE_INIT;
    OK(encode("ten", &empty, &out));
    OK(decode("ten", &out, &nothing));
    assert_int_equal(nothing.arrays->shape[0], 0);
    tarn_value_release(&nothing);
    static const struct {
        char order, kind;
        uint32_t size;
        unsigned ndim;
        const char *part;
    } cases[] = {
        {'<', 'c', 8, 1, "does not support elements of type"},
        {'|', 'b', 1, 1, "does not support elements of type"},
        {'<', 'u', 4, 1, "does not support elements of type"},
        {'<', 'i', 4, 10, "at most 9"},
        {'<', 'u', 8, 9, NULL},
        {'<', 'u', 2, 1, NULL},
        {'>', 'f', 2, 0, NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tarn_array a = array_of(data, cases[i].order, cases[i].kind, cases[i].size,
                                cases[i].ndim, ones);
        tarn_value value = value_array(&a), again = TARN_VALUE_INIT;
        if (cases[i].part) {
            FAILS(TARN_ERR_UNSUPPORTED, cases[i].part, encode("ten", &value, &out));
            continue;
        }
        OK(encode("ten", &value, &out));
        OK(decode("ten", &out, &again));
        assert_int_equal(again.arrays->ndim, cases[i].ndim);
        tarn_value_release(&again);
    }
    tarn_bytes_release(&out);
}

/* --- NumPy -------------------------------------------------------------------------- */

static void npy_of_columns_and_of_slices_keeps_the_values(void **state)
{
    (void)state;
    static const unsigned char data[6] = {1, 2, 3, 4, 5, 6};
    static const unsigned char slice[] = {1, 3, 4, 6};
    tarn_array a = array_of(data, '|', 'u', 1, 2, (const uint64_t[]){2, 3});
    tarn_value value = value_array(&a), again = TARN_VALUE_INIT;
    tarn_bytes out = TARN_BYTES_INIT;
    a.strides[0] = 1; /* the first index varies fastest */
    a.strides[1] = 2;
    OK(encode("npy", &value, &out));
    OK(decode("npy", &out, &again));
    assert_int_equal(again.arrays->strides[0], 1);
    assert_int_equal(again.arrays->strides[1], 2);
    assert_memory_equal(again.arrays->data, data, 6);
    tarn_value_release(&again);
    a.strides[0] = 3; /* every second column */
    a.strides[1] = 2;
    a.shape[1] = 2;
    OK(encode("npy", &value, &out));
    OK(decode("npy", &out, &again));
    assert_int_equal(again.arrays->strides[0], 2);
    assert_memory_equal(again.arrays->data, slice, 4);
    tarn_value_release(&again);
    tarn_bytes_release(&out);
}

static void add_npy(tarn_bytes *out, const char *header, size_t data)
{
    static const char zeros[64] = {0};
    unsigned char head[10] = "\x93NUMPY\x01";
    tarn__put16(head + 8, (uint16_t)strlen(header));
    out->size = 0;
    add(out, head, 10);
    add(out, header, strlen(header));
    add(out, zeros, data);
}

static void npy_headers_are_read_to_the_letter(void **state)
{
    (void)state;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_value value = TARN_VALUE_INIT;
    char many[400];
    int n = snprintf(many, sizeof many,
                     "{'descr': '<i4', 'fortran_order': True, "
                     "'shape': (");
    for (unsigned i = 0; i <= TARN_MAX_DIMS; i++)
        n += snprintf(many + n, sizeof many - (size_t)n, "1,");
    snprintf(many + n, sizeof many - (size_t)n, ")}");
    add_npy(&out, many, 4);
    refuse("npy", &out, TARN_ERR_FORMAT, "more dimensions than TARN_MAX_DIMS");
    add_npy(&out, "{'descr': '<i4', 'fortran_order': True, 'shape': (3, 0, 2)}", 0);
    OK(decode("npy", &out, &value));
    assert_int_equal(value.arrays->strides[1], 12);
    assert_int_equal(value.arrays->strides[2], 12);
    tarn_value_release(&value);
    add_npy(&out, "{'descr': '<i4', 'fortran_order': False, 'shape': (3", 0);
    refuse("npy", &out, TARN_ERR_FORMAT, "shape of one length without a comma");
    add_npy(&out, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,", 0);
    refuse("npy", &out, TARN_ERR_FORMAT, "expected a length");
    add_npy(&out, "{'descr': '<i4', 'fortran_order': False, 'shape': (2L, 1L)}", 8);
    OK(decode("npy", &out, &value));
    assert_int_equal(value.arrays->shape[0], 2);
    tarn_value_release(&value);
    tarn_bytes_release(&out);
}

/* The npz of one array of one byte, stored, with a name of this length. */
static void make_npz(tarn_bytes *out, const char *name)
{
    tarn_array a = array_of("x", '|', 'u', 1, 1, (const uint64_t[]){1});
    const char *names[] = {name};
    tarn_value value = value_arrays(&a, names, 1);
    tarn_encode_options o = TARN_ENCODE_OPTIONS_INIT;
    o.npz_stored = true;
    out->size = 0;
    OK(tarn_encode("npz", &value, &o, out, &err));
}

/* Writes another name of the same length into both headers. */
static void rename_npz(tarn_bytes *npz, const char *from, const char *to)
{
    size_t len = strlen(from);
    unsigned found = 0;
    for (size_t i = 0; i + len <= npz->size; i++)
        if (memcmp(npz->data + i, from, len) == 0) {
            memcpy(npz->data + i, to, len);
            found++;
        }
    assert_int_equal(found, 2);
}

static void names_in_an_npz_are_those_of_npy_files(void **state)
{
    (void)state;
    tarn_bytes npz = TARN_BYTES_INIT;
    tarn_value value = TARN_VALUE_INIT;
    static const char *const part = "not an .npy, or whose name is not UTF-8";
    make_npz(&npz, "weight");
    OK(decode("npz", &npz, &value));
    assert_string_equal(value.names[0], "weight");
    tarn_value_release(&value);
    rename_npz(&npz, "weight.npy", "weight.txt");
    refuse("npz", &npz, TARN_ERR_UNSUPPORTED, part);
    make_npz(&npz, "weight");
    rename_npz(&npz, "weight.npy", "wei\0ht.npy");
    refuse("npz", &npz, TARN_ERR_UNSUPPORTED, part);
    make_npz(&npz, "weight");
    rename_npz(&npz, "weight.npy", "wei\xffht.npy");
    refuse("npz", &npz, TARN_ERR_UNSUPPORTED, part);
    /* Shorter than the extension alone: "npy" of ".npy", the rest in an extra field. */
    make_npz(&npz, "");
    size_t central = npz.size - 22 - 46 - 4;
    tarn__put16(npz.data + 26, 3);
    tarn__put16(npz.data + 28, 21);
    tarn__put16(npz.data + central + 28, 3);
    tarn__put16(npz.data + central + 30, 1);
    refuse("npz", &npz, TARN_ERR_UNSUPPORTED, part);
    tarn_bytes_release(&npz);
}

static void an_npz_has_no_name_twice(void **state)
{
    (void)state;
    tarn_bytes npz = TARN_BYTES_INIT;
    tarn_array a[2];
    a[0] = a[1] = array_of("x", '|', 'u', 1, 1, (const uint64_t[]){1});
    const char *names[] = {"one", "two"};
    tarn_value value = value_arrays(a, names, 2);
    OK(encode("npz", &value, &npz));
    rename_npz(&npz, "two.npy", "one.npy");
    refuse("npz", &npz, TARN_ERR_FORMAT, "two members have the same name");
    tarn_bytes_release(&npz);
}

static void an_npz_may_be_empty_or_have_a_long_comment(void **state)
{
    (void)state;
    tarn_bytes npz = TARN_BYTES_INIT;
    tarn_value none = {.kind = TARN_VALUE_ARRAYS}, value = TARN_VALUE_INIT;
    OK(encode("npz", &none, &npz));
    assert_int_equal(npz.size, 22);
    OK(decode("npz", &npz, &value));
    assert_int_equal(value.count, 0);
    tarn_value_release(&value);
    make_npz(&npz, "x");
    tarn__put16(npz.data + npz.size - 2, 65535);
    char *comment = calloc(1, 65536);
    add(&npz, comment, 65535);
    OK(decode("npz", &npz, &value));
    assert_int_equal(value.count, 1);
    tarn_value_release(&value);
    /* With one byte more than a comment can have, the end is not searched there. */
    add(&npz, comment, 1);
    refuse("npz", &npz, TARN_ERR_FORMAT, "no end record");
    free(comment);
    tarn_bytes_release(&npz);
}

static void an_npz_cannot_have_too_many_arrays_or_too_long_names(void **state)
{
    (void)state;
    tarn_bytes npz = TARN_BYTES_INIT;
    static const unsigned most = TARN_MAX_FIELD_ARRAYS - 2;
    tarn_array *arrays = calloc(most + 1, sizeof *arrays);
    const char **names = calloc(most + 1, sizeof *names);
    char *text = calloc(most + 1, 8), *name = malloc(65536);
    for (unsigned i = 0; i <= most; i++) {
        snprintf(text + 8 * (size_t)i, 8, "%u", i);
        names[i] = text + 8 * (size_t)i;
        arrays[i] = array_of("", '|', 'u', 1, 1, (const uint64_t[]){0});
    }
    tarn_value value = value_arrays(arrays, names, most + 1);
    FAILS(TARN_ERR_LIMIT, "65535 arrays in an npz; the limit is 65534",
          encode("npz", &value, &npz));
    memset(name, 'n', 65535);
    name[65532] = '\0';
    names[0] = name;
    value.count = 1;
    FAILS(TARN_ERR_UNSUPPORTED, "too long", encode("npz", &value, &npz));
    names[0] = name + 1;
    OK(encode("npz", &value, &npz));
    free(name);
    free(text);
    free(names);
    free(arrays);
    tarn_bytes_release(&npz);
}

/* --- Runs --------------------------------------------------------------------------- */

static void runs_have_numbers_as_wide_as_they_need(void **state)
{
    (void)state;
    static uint16_t labels[70000];
    static const struct {
        size_t count, values; /* this many different ones, in runs of equal length */
        unsigned width;
    } cases[] = {{200, 2, 1}, {700, 2, 2}, {300, 300, 2}, {70000, 1, 4}};
    tarn_bytes out = TARN_BYTES_INIT;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t run = cases[i].count / cases[i].values;
        for (size_t k = 0; k < cases[i].count; k++)
            labels[k] = (uint16_t)(k / run);
        tarn_array a =
            array_of(labels, '<', 'u', 2, 1, (const uint64_t[]){cases[i].count});
        tarn_value value = value_array(&a), again = TARN_VALUE_INIT;
        OK(encode("rle", &value, &out));
        assert_int_equal(1u << (out.data[0] & 15), cases[i].width);
        OK(decode("rle", &out, &again));
        assert_memory_equal(again.arrays->data, labels, 2 * cases[i].count);
        tarn_value_release(&again);
    }
    tarn_bytes_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(palettes_give_their_colours),
        cmocka_unit_test(palettes_and_transparency_that_do_not_fit_are_refused),
        cmocka_unit_test(transparency_of_images_with_alpha_means_nothing),
        cmocka_unit_test(pixels_must_be_in_one_piece),
        cmocka_unit_test(sizes_that_do_not_fit_64_bits_are_refused),
        cmocka_unit_test(pixels_that_change_meanwhile_stay_in_bounds),
        cmocka_unit_test(labels_come_back_and_must_fit),
        cmocka_unit_test(a_png_of_another_kind_holds_no_labels),
        cmocka_unit_test(tenbins_are_taken_or_refused_by_their_headers),
        cmocka_unit_test(more_arrays_than_the_limit_are_refused),
        cmocka_unit_test(arrays_that_tenbin_cannot_say_are_refused),
        cmocka_unit_test(npy_of_columns_and_of_slices_keeps_the_values),
        cmocka_unit_test(npy_headers_are_read_to_the_letter),
        cmocka_unit_test(names_in_an_npz_are_those_of_npy_files),
        cmocka_unit_test(an_npz_has_no_name_twice),
        cmocka_unit_test(an_npz_may_be_empty_or_have_a_long_comment),
        cmocka_unit_test(an_npz_cannot_have_too_many_arrays_or_too_long_names),
        cmocka_unit_test(runs_have_numbers_as_wide_as_they_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
