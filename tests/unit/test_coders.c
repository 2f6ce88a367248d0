/* Coders of compressed data, one call at a time: pieces of any size, damage with its
 * reason, and buffers larger than 32 bits can count. test_filters.c tests the use in
 * source.c. */
#include "support.h"

#include <sys/mman.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "io/filter.h"

static tarn_error err;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const tarn__filter *const writers[] = {&tarn__filter_gzip, &tarn__filter_bzip2,
                                              &tarn__filter_xz, &tarn__filter_zstd};

enum { ROOM = 1 << 16, PLAIN = 20000 };

/* Numbers that hardly compress, and then a run that does. */
static void fill_plain(unsigned char *out)
{
    uint32_t seed = 3;
    for (size_t i = 0; i < PLAIN; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = i < PLAIN / 2 ? (unsigned char)(seed >> 24) : 'r';
    }
}

/* This many bytes at a time on either side. */
static size_t encode_all(const tarn__filter *f, const unsigned char *data, size_t size,
                         size_t piece, unsigned char *out)
{
    void *state;
    bool end = false;
    size_t used = 0, made = 0;
    OK(f->encoder_new(&state, f->level_default, &err));
    while (!end) {
        size_t in = size - used < piece ? size - used : piece;
        tarn__flow flow = {data + used, in, out + made, piece};
        OK(f->encode(state, &flow, used + in == size, &end, &err));
        used += in - flow.in_size;
        made += piece - flow.out_size;
        assert_true(made + piece <= ROOM);
    }
    assert_int_equal(used, size);
    f->encoder_free(state);
    return made;
}

/* Decodes as far as possible; *out_end if the member ended there. */
static tarn_status decode_all(const tarn__filter *f, const void *data, size_t size,
                              size_t piece, unsigned char *out, size_t *out_size,
                              bool *out_end)
{
    void *state;
    size_t used = 0;
    tarn_status status = f->decoder_new(&state, UINT64_C(1) << 30, &err);
    *out_size = 0;
    *out_end = false;
    while (status == TARN_OK && !*out_end) {
        size_t in = size - used < piece ? size - used : piece;
        tarn__flow flow = {(const unsigned char *)data + used, in, out + *out_size,
                           piece};
        status = f->decode(state, &flow, out_end, &err);
        used += in - flow.in_size;
        *out_size += piece - flow.out_size;
        assert_true(*out_size + piece <= ROOM);
        if (in == flow.in_size && flow.out_size == piece) break;
    }
    f->decoder_free(state);
    return status;
}

static void any_pieces_make_the_same_whole(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 2, 7, 300, PLAIN};
    static unsigned char plain[PLAIN], packed[ROOM], again[ROOM];
    fill_plain(plain);
    for (size_t i = 0; i < COUNT(writers); i++)
        for (size_t k = 0; k < COUNT(pieces); k++) {
            size_t size = encode_all(writers[i], plain, PLAIN, pieces[k], packed), got;
            bool end;
            for (size_t n = 0; n < COUNT(pieces); n++) {
                OK(decode_all(writers[i], packed, size, pieces[n], again, &got, &end));
                assert_true(end);
                assert_int_equal(got, PLAIN);
                assert_memory_equal(again, plain, PLAIN);
            }
            /* Without the last byte it is incomplete. */
            OK(decode_all(writers[i], packed, size - 1, 300, again, &got, &end));
            assert_false(end);
        }
}

/* Calls that can do nothing yet are not errors, however many there are. */
static void nothing_to_do_is_not_an_error(void **state)
{
    (void)state;
    static unsigned char plain[PLAIN], packed[ROOM], again[ROOM];
    fill_plain(plain);
    for (size_t i = 0; i < COUNT(writers); i++) {
        const tarn__filter *f = writers[i];
        bool end = false;
        void *coder;
        OK(f->encoder_new(&coder, f->level_default, &err));
        tarn__flow flow = {plain, PLAIN, packed, ROOM}, none = {plain, 0, packed, 0};
        OK(f->encode(coder, &flow, false, &end, &err));
        assert_int_equal(flow.in_size, 0);
        for (int n = 0; n < 3; n++) {
            OK(f->encode(coder, &none, false, &end, &err));
            assert_false(end);
        }
        while (!end)
            OK(f->encode(coder, &flow, true, &end, &err));
        f->encoder_free(coder);
        flow = (tarn__flow){packed, ROOM - flow.out_size, again, ROOM};
        OK(f->decoder_new(&coder, UINT64_MAX, &err));
        for (int n = 0; n < 3; n++) {
            OK(f->decode(coder, &none, &end, &err));
            assert_false(end);
        }
        while (!end)
            OK(f->decode(coder, &flow, &end, &err));
        f->decoder_free(coder);
        assert_int_equal(ROOM - flow.out_size, PLAIN);
        assert_memory_equal(again, plain, PLAIN);
    }
}

/* --- gzip --------------------------------------------------------------------------- */

#define GZIP_HEAD "\x1f\x8b\x08\0\0\0\0\0\0\x03"

static void damaged_gzip_says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *part;
    } cases[] = {
        /* The last block, of kind 3. */
        {GZIP_HEAD "\x07\0\0\0\0\0\0\0\0\0\0\0", 22, "unknown block type"},
        /* A stored block whose length and complement do not match. */
        {GZIP_HEAD "\x01\x05\0\x05\0abcde\0\0\0\0\0\0\0\0", 28, "unknown block type"},
        /* Fixed codes, symbol 286. */
        {GZIP_HEAD "\x1b\x03\0\0\0\0\0\0\0\0\0\0", 22, "invalid code"},
        /* Fixed codes, three bytes from a distance of one, with nothing before. */
        {GZIP_HEAD "\x03\x02\0\0\0\0\0\0\0\0\0\0", 22,
         "distance before the start of the data"},
        /* A stored "hi" with a wrong checksum, and then with a wrong length. */
        {GZIP_HEAD "\x01\x02\0\xfd\xffhi\0\0\0\0\x02\0\0\0", 25, "checksum or length"},
        {GZIP_HEAD "\x01\x02\0\xfd\xffhi\xac\x2a\x93\xd8\x03\0\0\0", 25,
         "checksum or length"},
        {"\x1f\x8c\x08\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0", 22, "invalid header"},
        {"\x1f\x8b\x07\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0", 22, "invalid header"},
    };
    static unsigned char out[ROOM];
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t piece = 1; piece <= 32; piece += 31) {
            size_t got;
            bool end;
            FAILS(TARN_ERR_FORMAT, cases[i].part,
                  decode_all(&tarn__filter_gzip, cases[i].bytes, cases[i].size, piece,
                             out, &got, &end));
        }
    static const char right[] = GZIP_HEAD "\x01\x02\0\xfd\xffhi\xac\x2a\x93\xd8\x02\0\0";
    size_t got;
    bool end;
    OK(decode_all(&tarn__filter_gzip, right, sizeof right, 5, out, &got, &end));
    assert_true(end);
    assert_int_equal(got, 2);
    assert_memory_equal(out, "hi", 2);
}

/* --- xz, zstd and bzip2 ------------------------------------------------------------- */

static tarn_status decode_whole(const tarn__filter *f, const void *data, size_t size)
{
    static unsigned char out[ROOM];
    size_t got;
    bool end;
    return decode_all(f, data, size, 64, out, &got, &end);
}

/* The header of a stream with these flags, and a matching checksum. */
static void xz_header(unsigned char out[12], unsigned char first, unsigned char check)
{
    memcpy(out,
           "\xfd"
           "7zXZ\0",
           6);
    out[6] = first;
    out[7] = check;
    tarn__put32(out + 8, tarn__crc32(0, out + 6, 2));
}

static void unknown_checks_of_xz_are_not_called_damage(void **state)
{
    (void)state;
    unsigned char head[12];
    xz_header(head, 0, 2); /* a check whose size is known, but nothing else */
    FAILS(TARN_ERR_UNSUPPORTED, "filter or checksum",
          decode_whole(&tarn__filter_xz, head, sizeof head));
    xz_header(head, 1, 1); /* flags without meaning */
    FAILS(TARN_ERR_UNSUPPORTED, "filter or checksum",
          decode_whole(&tarn__filter_xz, head, sizeof head));
    xz_header(head, 0, 1);
    OK(decode_whole(&tarn__filter_xz, head, sizeof head));
    head[8] ^= 1;
    FAILS(TARN_ERR_FORMAT, "damaged xz data",
          decode_whole(&tarn__filter_xz, head, sizeof head));
}

static void damage_of_the_others_is_reported(void **state)
{
    (void)state;
    static unsigned char plain[PLAIN], packed[ROOM];
    fill_plain(plain);
    static const char *const parts[] = {"damaged gzip data", "damaged bzip2 data",
                                        "damaged xz data", "damaged zstd data"};
    for (size_t i = 0; i < COUNT(writers); i++) {
        size_t size = encode_all(writers[i], plain, PLAIN, PLAIN, packed);
        packed[size / 2] ^= 0x10;
        FAILS(TARN_ERR_FORMAT, parts[i], decode_whole(writers[i], packed, size));
    }
    /* lzma has no magic number: impossible properties. */
    FAILS(TARN_ERR_FORMAT, "damaged xz data",
          decode_whole(&tarn__filter_lzma, "\xff\xff\xff\xff\xff\xff\xff\xff", 8));
}

static void magic_numbers_are_distinguished(void **state)
{
    (void)state;
    static const struct {
        const tarn__filter *filter;
        const char *bytes;
        size_t size;
        tarn__match want;
    } cases[] = {
        {&tarn__filter_gzip, "", 0, TARN__MATCH_CUT},
        {&tarn__filter_gzip, "\x1f\x8b\x08", 3, TARN__MATCH_CUT},
        {&tarn__filter_gzip, "\x1f\x8b\x08\x1f", 4, TARN__MATCH_YES},
        {&tarn__filter_gzip, "\x1f\x8b\x08\x20", 4, TARN__MATCH_NO},
        {&tarn__filter_bzip2, "BZh", 3, TARN__MATCH_CUT},
        {&tarn__filter_bzip2, "BZh0", 4, TARN__MATCH_NO},
        {&tarn__filter_bzip2, "BZh:", 4, TARN__MATCH_NO},
        {&tarn__filter_bzip2, "BZh1", 4, TARN__MATCH_CUT},
        {&tarn__filter_bzip2, "BZh91AY&S", 9, TARN__MATCH_CUT},
        {&tarn__filter_bzip2, "BZh91AY&SY", 10, TARN__MATCH_YES},
        {&tarn__filter_bzip2, "BZh9\x17rE8P\x90", 10, TARN__MATCH_YES},
        {&tarn__filter_bzip2, "BZh9\x17rE8P", 9, TARN__MATCH_CUT},
        {&tarn__filter_bzip2, "BZh9 is text", 12, TARN__MATCH_NO},
        {&tarn__filter_zstd, "", 0, TARN__MATCH_CUT},
        {&tarn__filter_zstd, "\x5f", 1, TARN__MATCH_CUT},
        {&tarn__filter_zstd, "\x5f\x2a\x4d\x18", 4, TARN__MATCH_YES},
        {&tarn__filter_zstd, "\x60\x2a\x4d\x18", 4, TARN__MATCH_NO},
        {&tarn__filter_lzma, "", 0, TARN__MATCH_NO},
        {&tarn__filter_lzma, "\x5d\0\0\x80\0", 5, TARN__MATCH_NO},
        /* 3 * 2^20 has two bits set, 5 * 2^20 two that are not adjacent. */
        {&tarn__filter_lzma, "\x5d\0\0\x30\0\xff\xff\xff\xff\xff\xff\xff\xff", 14,
         TARN__MATCH_YES},
        {&tarn__filter_lzma, "\x5d\0\0\x50\0\xff\xff\xff\xff\xff\xff\xff\xff", 14,
         TARN__MATCH_NO},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tarn__match got =
            cases[i].filter->match((const unsigned char *)cases[i].bytes, cases[i].size);
        if (got != cases[i].want)
            fail_msg("case %zu (%s): %d", i, cases[i].filter->name, (int)got);
    }
}

/* --- Large buffers ------------------------------------------------------------------ */

/* zlib, bzip2 and ISA-L count in 32 bits; the low half of this size is 5. */
static const size_t LARGE = (UINT64_C(1) << 32) + 5;

/* Memory that is not allocated until it is touched. */
static unsigned char *large_zeros(void)
{
    void *p = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) skip();
    return p;
}

static void buffers_of_more_than_32_bits_are_decoded(void **state)
{
    (void)state;
    static unsigned char plain[PLAIN];
    unsigned char *in = large_zeros(), *out = large_zeros();
    fill_plain(plain);
    for (size_t i = 0; i < COUNT(writers); i++) {
        const tarn__filter *f = writers[i];
        size_t size = encode_all(f, plain, PLAIN, PLAIN, in);
        tarn__flow flow = {in, LARGE, out, LARGE};
        bool end = false;
        void *coder;
        OK(f->decoder_new(&coder, UINT64_C(1) << 30, &err));
        while (!end)
            OK(f->decode(coder, &flow, &end, &err));
        f->decoder_free(coder);
        assert_int_equal(LARGE - flow.in_size, size);
        assert_int_equal(LARGE - flow.out_size, PLAIN);
        assert_memory_equal(out, plain, PLAIN);
        memset(in, 0, size);
    }
    munmap(in, LARGE);
    munmap(out, LARGE);
}

/* If only the low half of the size were used, the stream would end after five bytes. */
static void buffers_of_more_than_32_bits_are_encoded(void **state)
{
    (void)state;
    unsigned char *in = large_zeros(), *out = large_zeros();
    for (size_t i = 0; i < 2; i++) {
        const tarn__filter *f = writers[i];
        tarn__flow flow = {in, LARGE, out, 64};
        bool end = true;
        void *coder;
        OK(f->encoder_new(&coder, 1, &err));
        OK(f->encode(coder, &flow, true, &end, &err));
        assert_false(end);
        assert_true(LARGE - flow.in_size > 5);
        f->encoder_free(coder);
        OK(f->encoder_new(&coder, 1, &err));
        flow = (tarn__flow){in, 5, out, LARGE};
        while (!end)
            OK(f->encode(coder, &flow, true, &end, &err));
        f->encoder_free(coder);
        size_t got, size = LARGE - flow.out_size;
        static unsigned char again[ROOM];
        OK(decode_all(f, out, size, 10, again, &got, &end));
        assert_true(end);
        assert_int_equal(got, 5);
        assert_memory_equal(again, "\0\0\0\0\0", 5);
    }
    munmap(in, LARGE);
    munmap(out, LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_pieces_make_the_same_whole),
        cmocka_unit_test(nothing_to_do_is_not_an_error),
        cmocka_unit_test(damaged_gzip_says_what_is_wrong),
        cmocka_unit_test(unknown_checks_of_xz_are_not_called_damage),
        cmocka_unit_test(damage_of_the_others_is_reported),
        cmocka_unit_test(magic_numbers_are_distinguished),
        cmocka_unit_test(buffers_of_more_than_32_bits_are_decoded),
        cmocka_unit_test(buffers_of_more_than_32_bits_are_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
