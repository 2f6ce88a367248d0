/* Compressed data in both directions: written data is read back, and data that is
 * damaged, too large or mislabelled is refused. */
#include "sourcing.h"

#include "io/filter.h"

static const char *const suffixes[] = {".gz", ".bz2", ".xz", ".zst"};
enum { SUFFIXES = 4 };

static void whatever_is_written_is_read_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 5000, 3 << 20};
    for (int s = 0; s < 4; s++) {
        bytes text = make_text(sizes[s]);
        for (int i = 0; i <= SUFFIXES; i++) {
            char name[64];
            snprintf(name, sizeof name, "round%s", i < SUFFIXES ? suffixes[i] : ".tar");
            spill(scratch_path(name), text.data, text.size);
            assert_reads(scratch_path(name), text.data, text.size);
        }
        drop(&text);
    }
}

static void suffixes_choose_the_filter_on_writing(void **state)
{
    (void)state;
    static const struct {
        const char *name, *magic;
    } cases[] = {{"a.gz", "\x1f\x8b"},
                 {"a.tgz", "\x1f\x8b"},
                 {"a.bz2", "BZh9"},
                 {"a.tbz", "BZh9"},
                 {"a.tbz2", "BZh9"},
                 {"a.xz", "\xfd"
                          "7zXZ"},
                 {"a.txz", "\xfd"
                           "7zXZ"},
                 {"a.zst", "\x28\xb5\x2f\xfd"},
                 {"a.tzst", "\x28\xb5\x2f\xfd"},
                 {"a.TAR.ZSTD", "\x28\xb5\x2f\xfd"},
                 {"a.tar", "text"},
                 {"gz", "text"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t size;
        spill(scratch_path(cases[i].name), "text", 4);
        unsigned char *data = read_file(scratch_path(cases[i].name), &size);
        assert_memory_equal(data, cases[i].magic, strlen(cases[i].magic));
        free(data);
    }
}

static void equal_data_give_equal_files(void **state)
{
    (void)state;
    bytes text = make_text(100000);
    for (int i = 0; i < SUFFIXES; i++) {
        char one[32], two[32];
        size_t a_size, b_size;
        snprintf(one, sizeof one, "one%s", suffixes[i]);
        snprintf(two, sizeof two, "two%s", suffixes[i]);
        spill(scratch_path(one), text.data, text.size);
        spill(scratch_path(two), text.data, text.size);
        unsigned char *a = read_file(scratch_path(one), &a_size);
        unsigned char *b = read_file(scratch_path(two), &b_size);
        assert_int_equal(a_size, b_size);
        assert_memory_equal(a, b, a_size);
        if (i == 0) assert_memory_equal(a + 3, "\0\0\0\0\0", 5); /* no name, no time */
        free(a);
        free(b);
    }
    drop(&text);
}

static void option_overrules_the_suffix_and_levels_count(void **state)
{
    (void)state;
    bytes text = make_text(200000);
    size_t fast, best;
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    o.no_sync = true;
    o.filter = TARN_FILTER_ZSTD;
    o.level = 1;
    spill_with(scratch_path("fast.gz"), &o, text.data, text.size);
    o.level = 19;
    spill_with(scratch_path("best.gz"), &o, text.data, text.size);
    unsigned char *a = read_file(scratch_path("fast.gz"), &fast);
    unsigned char *b = read_file(scratch_path("best.gz"), &best);
    assert_memory_equal(a, "\x28\xb5\x2f\xfd", 4);
    assert_true(best < fast);
    o.filter = TARN_FILTER_NONE;
    spill_with(scratch_path("plain.gz"), &o, text.data, text.size);
    assert_reads(scratch_path("plain.gz"), text.data, text.size);
    tarn_sink *sink;
    o.filter = TARN_FILTER_GZIP;
    FAILS(TARN_ERR_USAGE, "expected 1 to 9",
          tarn_sink_open(scratch_path("never.gz"), &o, &sink, &err));
    free(a);
    free(b);
    drop(&text);
}

static void cut_anywhere_is_an_error(void **state)
{
    (void)state;
    bytes text = make_text(1000);
    for (int i = 0; i < SUFFIXES; i++) {
        char whole[32], cut[32];
        size_t size;
        snprintf(whole, sizeof whole, "whole%s", suffixes[i]);
        snprintf(cut, sizeof cut, "cut%s", suffixes[i]);
        spill(scratch_path(whole), text.data, text.size);
        unsigned char *data = read_file(scratch_path(whole), &size);
        for (size_t n = 0; n < size; n++) {
            write_file(scratch_path(cut), data, n);
            assert_int_equal(try_read(scratch_path(cut), NULL), TARN_ERR_TRUNCATED);
            assert_int_equal(err.offset, n);
            if (n < 2) continue;
            write_file(scratch_path("cut.bin"), data, n);
            assert_int_equal(try_read(scratch_path("cut.bin"), NULL), TARN_ERR_TRUNCATED);
        }
        free(data);
    }
    drop(&text);
}

static void flipped_bits_are_an_error(void **state)
{
    (void)state;
    bytes text = make_text(150);
    for (int i = 0; i < SUFFIXES; i++) {
        char whole[32];
        size_t size;
        snprintf(whole, sizeof whole, "flip%s", suffixes[i]);
        spill(scratch_path(whole), text.data, text.size);
        unsigned char *data = read_file(scratch_path(whole), &size);
        tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
        o.filter = (tarn_filter)(TARN_FILTER_GZIP + i);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes b;
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            write_file(scratch_path("flipped"), data, size);
            tarn_status status = slurp_with(scratch_path("flipped"), &o, 4096, &b);
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            /* Bits without a meaning (gzip's time, a reserved field) are harmless. */
            if (status == TARN_OK) {
                assert_int_equal(b.size, text.size);
                assert_memory_equal(b.data, text.data, text.size);
            }
            drop(&b);
        }
        free(data);
    }
    drop(&text);
}

static void append_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* One member, then something, then possibly another member. */
static tarn_status read_joined(int filter, const char *between, size_t len, bool second,
                               bytes *out)
{
    char name[32];
    size_t size;
    snprintf(name, sizeof name, "joined%s", suffixes[filter]);
    spill(scratch_path(name), "first ", 6);
    unsigned char *member = read_file(scratch_path(name), &size);
    append_file(scratch_path(name), between, len);
    if (second) append_file(scratch_path(name), member, size);
    free(member);
    return slurp(scratch_path(name), out);
}

static void check_joined(void)
{
    for (int i = 0; i < SUFFIXES; i++) {
        bytes b;
        OK(read_joined(i, "", 0, true, &b));
        assert_int_equal(b.size, 12);
        assert_memory_equal(b.data, "first first ", 12);
        drop(&b);
    }
}

static void all_members_are_read(void **state)
{
    (void)state;
    check_joined();
}

/* With every field that a header can have: extra, name, comment and a checksum. */
static void spill_gzip_fields(const char *path)
{
    static const char member[] =
        "\x1f\x8b\x08\x1e\x00\x00\x00\x00\x00\x03\x02\x00\x61\x62\x6e\x61\x6d"
        "\x65\x00\x63\x6f\x6d\x6d\x65\x6e\x74\x00\xa0\xf0\x01\x04\x00\xfb\xff"
        "\x74\x65\x78\x74\xc7\xa7\x8b\x3b\x04\x00\x00\x00";
    write_file(path, member, sizeof member - 1);
    append_file(path, member, sizeof member - 1);
}

/* Wherever the data that is read at once ends, between two members and inside each. */
static void boundaries_of_reading_are_anywhere(void **state)
{
    (void)state;
    size_t usual = tarn__source_chunk;
    spill_gzip_fields(scratch_path("fields"));
    for (size_t chunk = TARN__MAGIC_MAX; chunk < 120; chunk++) {
        tarn__source_chunk = chunk;
        check_joined();
        assert_reads(scratch_path("fields"), "texttext", 8);
    }
    tarn__source_chunk = usual;
}

static void padding_is_skipped_where_the_format_has_it(void **state)
{
    (void)state;
    static const char zeros[300000] = {0};
    bytes b;
    OK(read_joined(0, zeros, 1, false, &b));
    drop(&b);
    OK(read_joined(0, zeros, sizeof zeros, false, &b));
    drop(&b);
    OK(read_joined(0, zeros, 513, true, &b));
    assert_int_equal(b.size, 12);
    drop(&b);
    OK(read_joined(2, zeros, 8, true, &b));
    assert_int_equal(b.size, 12);
    drop(&b);
    FAILS(TARN_ERR_FORMAT, "multiples of four", read_joined(2, zeros, 6, true, &b));
    drop(&b);
    FAILS(TARN_ERR_FORMAT, "unknown data after the end",
          read_joined(1, zeros, 64, false, &b));
    drop(&b);
    FAILS(TARN_ERR_FORMAT, "unknown data after the end",
          read_joined(3, zeros, 64, false, &b));
    drop(&b);
}

static void garbage_after_the_end_is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < SUFFIXES; i++) {
        bytes b;
        FAILS(TARN_ERR_FORMAT, "unknown data after the end",
              read_joined(i, "garbage garbage garbage", 23, false, &b));
        drop(&b);
        FAILS(TARN_ERR_FORMAT, "unknown data after the end",
              read_joined(i, "x", 1, false, &b));
        drop(&b);
    }
}

static void skippable_frames_are_skipped(void **state)
{
    (void)state;
    static const char skippable[] = "\x53\x2a\x4d\x18\x03\0\0\0abc";
    const char *path = scratch_path("skip.zst");
    bytes b;
    OK(read_joined(3, skippable, 11, true, &b));
    assert_int_equal(b.size, 12);
    drop(&b);
    write_file(path, skippable, 11);
    OK(slurp(path, &b));
    assert_int_equal(b.size, 0);
    drop(&b);
    write_file(path, skippable, 10);
    FAILS(TARN_ERR_TRUNCATED, "ends inside a zstd stream", slurp(path, &b));
    drop(&b);
}

static void bombs_are_refused(void **state)
{
    (void)state;
    static char zeros[1 << 20];
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    tarn_sink_options so = TARN_SINK_OPTIONS_INIT;
    tarn_sink *sink;
    so.no_sync = true;
    so.level = 1;
    for (int i = 2; i < SUFFIXES; i++) {
        char name[32];
        snprintf(name, sizeof name, "bomb%s", suffixes[i]);
        OK(tarn_sink_open(scratch_path(name), &so, &sink, &err));
        for (int n = 0; n < 96; n++)
            OK(tarn_sink_write(sink, zeros, sizeof zeros, &err));
        OK(tarn_sink_finish(sink, &err));
        o.max_expansion = 1000;
        o.max_size = UINT64_MAX;
        FAILS(TARN_ERR_LIMIT, "max_expansion (1000)", try_read(scratch_path(name), &o));
        o.max_expansion = 0;
        OK(try_read(scratch_path(name), &o));
        o.max_size = 96 << 20;
        OK(try_read(scratch_path(name), &o));
        o.max_size--;
        FAILS(TARN_ERR_LIMIT, "max_size (100663295)", try_read(scratch_path(name), &o));
    }
}

static void window_past_the_memory_allowed_is_refused(void **state)
{
    (void)state;
    /* A frame header that requests a window of 2^31 bytes, and an empty last block. */
    static const char huge[] = "\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00";
    const char *path = scratch_path("window.zst");
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    write_file(path, huge, 9);
    FAILS(TARN_ERR_LIMIT, "max_memory", try_read(path, &o));
    /* The same with a length of zero: libzstd then needs no window, if there is room. */
    static const char told[] = "\x28\xb5\x2f\xfd\x40\xa8\x00\xff\x01\x00\x00";
    for (size_t piece = 1; piece <= 65536; piece *= 16) {
        bytes b;
        write_file(path, told, 11);
        FAILS(TARN_ERR_LIMIT, "max_memory", slurp_with(path, &o, piece, &b));
        drop(&b);
    }
    bytes text = make_text(100000);
    spill(scratch_path("window.xz"), text.data, text.size);
    o.max_memory = 1 << 20;
    FAILS(TARN_ERR_LIMIT, "max_memory", try_read(scratch_path("window.xz"), &o));
    drop(&text);
}

static void named_filter_is_demanded(void **state)
{
    (void)state;
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    o.filter = TARN_FILTER_GZIP;
    write_file(scratch_path("text"), "just text, longer than magic", 28);
    FAILS(TARN_ERR_FORMAT, "not gzip data", try_read(scratch_path("text"), &o));
    write_file(scratch_path("text"), "", 0);
    FAILS(TARN_ERR_TRUNCATED, "inside a gzip", try_read(scratch_path("text"), &o));
    spill(scratch_path("text.zst"), "x", 1);
    FAILS(TARN_ERR_FORMAT, "not gzip data", try_read(scratch_path("text.zst"), &o));
    o.filter = TARN_FILTER_NONE;
    bytes b;
    OK(slurp_with(scratch_path("text.zst"), &o, 100, &b));
    assert_memory_equal(b.data, "\x28\xb5\x2f\xfd", 4);
    drop(&b);
}

static void short_and_misleading_data_are_plain(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "B", "(", "]", "BZh9 is", "BZhello, this is text", "]\0\0\0\0"};
    for (int i = 0; i < 7; i++) {
        size_t size = i == 6 ? 512 : strlen(texts[i]);
        char data[512] = {0};
        memcpy(data, texts[i], strlen(texts[i]));
        write_file(scratch_path("plain"), data, size);
        assert_reads(scratch_path("plain"), data, size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_written_is_read_back),
        cmocka_unit_test(suffixes_choose_the_filter_on_writing),
        cmocka_unit_test(equal_data_give_equal_files),
        cmocka_unit_test(option_overrules_the_suffix_and_levels_count),
        cmocka_unit_test(cut_anywhere_is_an_error),
        cmocka_unit_test(flipped_bits_are_an_error),
        cmocka_unit_test(all_members_are_read),
        cmocka_unit_test(boundaries_of_reading_are_anywhere),
        cmocka_unit_test(padding_is_skipped_where_the_format_has_it),
        cmocka_unit_test(garbage_after_the_end_is_an_error),
        cmocka_unit_test(skippable_frames_are_skipped),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(window_past_the_memory_allowed_is_refused),
        cmocka_unit_test(named_filter_is_demanded),
        cmocka_unit_test(short_and_misleading_data_are_plain),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
