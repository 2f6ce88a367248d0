/* Headers, pax records, and walking archives, strict and lenient. */
#include "support.h"

#include <unistd.h>

#include "tar/header.h"
#include "tar/pax.h"
#include "tar/reader.h"

static tarn_error err;
static tarball t;

/* The result of a walk, as "name:size name:size ..." and then "!" for each notice. */
static char seen[4096];

static void add_notice(void *context, const tarn_error *what)
{
    (void)context, (void)what;
    strcat(seen, "! ");
}

static tarn_status walk(bool lenient)
{
    tarn_tar *tar;
    tarn_member m;
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    o.lenient = lenient;
    o.notice = add_notice;
    const char *path = scratch_path("walk.tar");
    save_tar(&t, path);
    seen[0] = '\0';
    tarn_status status = tarn_tar_open(path, &o, &tar, &err);
    if (status != TARN_OK) return status;
    while ((status = tarn_tar_next(tar, &m, &err)) == TARN_OK) {
        size_t used = strlen(seen);
        snprintf(seen + used, sizeof seen - used, "%.*s:%llu ", (int)m.name_len, m.name,
                 (unsigned long long)m.size);
    }
    tarn_tar_close(tar);
    return status;
}

static void strict_gives(const char *want)
{
    tarn_status status = walk(false);
    if (status != TARN_END) OK(status);
    assert_string_equal(seen, want);
    tarball_reset(&t);
}

static void lenient_gives(const char *want)
{
    tarn_status status = walk(true);
    if (status != TARN_END) OK(status);
    assert_string_equal(seen, want);
}

#define REFUSED(code, part)                                                              \
    do {                                                                                 \
        FAILS(code, part, walk(false));                                                  \
        tarball_reset(&t);                                                               \
    } while (0)

static void ordinary_members_are_read_in_order(void **state)
{
    (void)state;
    tarball_file(&t, "a.txt", "hello");
    tarball_file(&t, "empty.txt", "");
    tarball_header(&t, "d", '5', 0);
    tarball_header(&t, "l", '2', 0);
    tarball_header(&t, "f", '6', 0);
    tarball_header(&t, "v7dir/", '\0', 0);
    tarball_header(&t, "old", '\0', 3);
    tarball_payload(&t, "abc", 3);
    tarball_header(&t, "contiguous", '7', 1);
    tarball_payload(&t, "x", 1);
    tarball_end(&t);
    strict_gives("a.txt:5 empty.txt:0 old:3 contiguous:1 ");
}

static void counts_include_what_was_skipped(void **state)
{
    (void)state;
    tarn_tar *tar;
    tarn_member m;
    tarn_tar_counts c;
    tarball_header(&t, "d", '5', 0);
    tarball_header(&t, "l", '1', 0);
    tarball_header(&t, "c", '3', 0);
    tarball_file(&t, "a", "1");
    tarball_end(&t);
    save_tar(&t, scratch_path("counts.tar"));
    tarball_reset(&t);
    OK(tarn_tar_open(scratch_path("counts.tar"), NULL, &tar, &err));
    OK(tarn_tar_next(tar, &m, &err));
    assert_int_equal(m.offset, 3 * 512);
    assert_int_equal(m.mode, 0644);
    char byte;
    OK(tarn_tar_read(tar, &m, 0, &byte, 1, &err));
    assert_int_equal(byte, '1');
    FAILS(TARN_ERR_USAGE, "past the end", tarn_tar_read(tar, &m, 1, &byte, 1, &err));
    assert_int_equal(tarn_tar_next(tar, &m, &err), TARN_END);
    assert_int_equal(tarn_tar_next(tar, &m, &err), TARN_END);
    tarn_tar_counts_get(tar, &c, sizeof c);
    assert_int_equal(c.members, 1);
    assert_int_equal(c.directories, 1);
    assert_int_equal(c.links, 1);
    assert_int_equal(c.devices, 1);
    tarn_tar_close(tar);
}

static void long_names_come_from_wherever_they_are(void **state)
{
    (void)state;
    char name[160], hundred[101];
    memset(name, 'n', 150);
    name[150] = '\0';
    memset(hundred, 'h', 100);
    hundred[100] = '\0';
    tarball_extended(&t, 'L', name, 151);
    tarball_file(&t, "cut", "1");
    tarball_extended(&t, 'K', name, 151);
    tarball_extended(&t, 'L', name, 150);
    tarball_file(&t, "cut", "22");
    tarball_pax(&t, 'x', "path", "from/pax");
    tarball_file(&t, "other", "333");
    tarball_file(&t, hundred, "4444");
    tarball_file(&t, "name", "55555");
    memcpy(tarball_last(&t) + 345, "the/prefix", 10);
    tarball_sum(tarball_last(&t));
    tarball_end(&t);
    char want[800];
    snprintf(want, sizeof want, "%s:1 %s:2 from/pax:3 %s:4 the/prefix/name:5 ", name,
             name, hundred);
    strict_gives(want);
}

static void pax_size_governs_length_and_advance(void **state)
{
    (void)state;
    tarball_pax(&t, 'x', "size", "600");
    tarball_header(&t, "big", '0', 0);
    char payload[600];
    memset(payload, 'p', sizeof payload);
    tarball_payload(&t, payload, sizeof payload);
    tarball_file(&t, "next", "n");
    tarball_end(&t);
    strict_gives("big:600 next:1 ");
}

static void pax_times_and_global_times_are_kept(void **state)
{
    (void)state;
    tarn_tar *tar;
    tarn_member m;
    tarball_pax(&t, 'g', "mtime", "1600000000");
    tarball_file(&t, "a", "1");
    tarball_pax(&t, 'x', "mtime", "1700000000.25");
    tarball_file(&t, "b", "1");
    tarball_end(&t);
    save_tar(&t, scratch_path("times.tar"));
    tarball_reset(&t);
    OK(tarn_tar_open(scratch_path("times.tar"), NULL, &tar, &err));
    OK(tarn_tar_next(tar, &m, &err));
    assert_int_equal(m.mtime, 1600000000);
    assert_int_equal(m.start, m.offset);
    OK(tarn_tar_next(tar, &m, &err));
    assert_int_equal(m.mtime, 1700000000);
    assert_int_equal(m.mtime_ns, 250000000);
    assert_int_equal(m.offset - m.start, 1024);
    tarn_tar_close(tar);
}

static void base_256_sizes_are_read_up_to_the_limit(void **state)
{
    (void)state;
    uint64_t value;
    unsigned char field[12] = {0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1};
    assert_true(tarn__header_number(field, 12, &value));
    assert_int_equal(value, UINT64_C(0x200000001));
    memset(field, 0xff, 12);
    assert_false(tarn__header_number(field, 12, &value));
    field[0] = 0x80;
    assert_false(tarn__header_number(field, 12, &value));
}

static void set_size_field(const char *text, size_t len)
{
    memcpy(tarball_last(&t) + 124, text, len);
    tarball_sum(tarball_last(&t));
}

static void odd_numbers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {{"0000000_001\0", 12},
               {"-0000000001\0", 12},
               {"0o000000001\0", 12},
               {"00000000008\0", 12},
               {"\xff\0\0\0\0\0\0\0\0\0\0\x01", 12},
               {"\x80\x10\0\0\0\0\0\0\0\0\0\x01", 12}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tarball_file(&t, "a", "x");
        set_size_field(bad[i].text, bad[i].len);
        tarball_end(&t);
        REFUSED(TARN_ERR_FORMAT, "size field");
    }
    tarball_file(&t, "a", "x");
    set_size_field("          1\0", 12);
    tarball_end(&t);
    strict_gives("a:1 ");
}

static void signed_checksums_are_accepted_wrong_ones_are_not(void **state)
{
    (void)state;
    tarball_file(&t, "caf\xe9", "x");
    unsigned char *h = tarball_last(&t);
    int sum = 8 * ' ';
    for (int i = 0; i < 512; i++)
        if (i < 148 || i >= 156) sum += (signed char)h[i];
    snprintf((char *)h + 148, 8, "%06o", (unsigned)sum);
    h[155] = ' ';
    tarball_end(&t);
    strict_gives("caf\xe9:1 ");
    tarball_file(&t, "a", "x");
    tarball_last(&t)[0] = 'b';
    tarball_end(&t);
    FAILS(TARN_ERR_FORMAT, "checksum does not match", walk(false));
    assert_int_equal(err.offset, 0);
    tarball_reset(&t);
}

static void what_programs_disagree_about_is_refused(void **state)
{
    (void)state;
    tarball_pax(&t, 'g', "size", "5");
    REFUSED(TARN_ERR_UNSUPPORTED, "global pax header");
    tarball_extended(&t, 'x', "12 path=a\0b\n", 12);
    REFUSED(TARN_ERR_FORMAT, "contains a NUL");
    tarball_pax(&t, 'x', "GNU.sparse.major", "1");
    REFUSED(TARN_ERR_UNSUPPORTED, "sparse");
    tarball_header(&t, "s", 'S', 0);
    REFUSED(TARN_ERR_UNSUPPORTED, "sparse");
    tarball_header(&t, "z", 'Z', 0);
    REFUSED(TARN_ERR_UNSUPPORTED, "unknown type 0x5a");
    tarball_header(&t, "link", '2', 512);
    REFUSED(TARN_ERR_UNSUPPORTED, "with a size");
    tarball_header(&t, "regular/", '0', 0);
    REFUSED(TARN_ERR_UNSUPPORTED, "ends with a slash");
    tarball_extended(&t, 'L', "long", 5);
    tarball_pax(&t, 'x', "path", "p");
    REFUSED(TARN_ERR_UNSUPPORTED, "two extended headers");
    tarball_pax(&t, 'x', "path", "p");
    tarball_end(&t);
    REFUSED(TARN_ERR_FORMAT, "no member follows");
    tarball_header(&t, "", '0', 0);
    REFUSED(TARN_ERR_FORMAT, "has no name");
    tarball_file(&t, "old", "x");
    memset(tarball_last(&t) + 257, 0, 8);
    tarball_last(&t)[345] = 'p';
    tarball_sum(tarball_last(&t));
    REFUSED(TARN_ERR_UNSUPPORTED, "prefix");
    tarball_pax(&t, 'x', "hdrcharset", "KOI8-R");
    REFUSED(TARN_ERR_UNSUPPORTED, "hdrcharset");
    tarball_header(&t, "pax", 'x', (1 << 20) + 1);
    REFUSED(TARN_ERR_LIMIT, "the limit is 1048576");
}

static void malformed_pax_records_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "path=a\n",  "0 path=a\n",   "99 path=a\n",   "10 path=a",   "8 patha\n",
        "5 =a\n",    "-9 path=a\n",  "8 path=\n",     "9 size=1a\n", "9 size=-1\n",
        "8 size=\n", "10 mtime=x\n", "11 path=ab\n\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tarn__pax pax;
        if (tarn__pax_parse(bad[i], strlen(bad[i]), &pax, &err) != TARN_ERR_FORMAT)
            fail_msg("accepted: %s", bad[i]);
    }
    tarn__pax pax;
    const char *good;
    good = "9 path=a\n12 path=b c\n11 x=a=b\nc\n21 hdrcharset=BINARY\n";
    OK(tarn__pax_parse(good, strlen(good), &pax, &err));
    assert_int_equal(pax.path_len, 3);
    assert_memory_equal(pax.path, "b c", 3);
}

static void false_ends_are_errors_with_the_offset(void **state)
{
    (void)state;
    REFUSED(TARN_ERR_TRUNCATED, "empty");
    tarball_file(&t, "a", "x");
    FAILS(TARN_ERR_TRUNCATED, "end of the archive is missing", walk(false));
    assert_int_equal(err.offset, 1024);
    t.size -= 512;
    FAILS(TARN_ERR_TRUNCATED, "1 bytes are missing", walk(false));
    t.size += 1;
    FAILS(TARN_ERR_TRUNCATED, "padding", walk(false));
    tarball_reset(&t);
    tarball_file(&t, "a", "x");
    tarball_header(&t, "b", '0', 0);
    t.size -= 200;
    FAILS(TARN_ERR_TRUNCATED, "312 bytes into a header", walk(false));
    tarball_reset(&t);
    tarball_file(&t, "a", "x");
    tarball_end(&t);
    tarball_file(&t, "b", "y");
    FAILS(TARN_ERR_FORMAT, "follow the end", walk(false));
    assert_int_equal(err.offset, 2048);
    tarball_reset(&t);
}

static void a_single_zero_block_at_the_very_end_is_an_end(void **state)
{
    (void)state;
    tarball_file(&t, "a", "x");
    tarball_end(&t);
    t.size -= 512;
    strict_gives("a:1 ");
}

static void lenient_reading_continues_after_damage(void **state)
{
    (void)state;
    tarball_file(&t, "a", "x");
    tarball_file(&t, "b", "y");
    size_t b = t.size - 1024;
    tarball_file(&t, "c", "z");
    tarball_end(&t);
    t.data[b] ^= 1;
    lenient_gives("a:1 ! c:1 ");
    memset(t.data + b, 0xaa, 512); /* not even a size is left */
    lenient_gives("a:1 ! c:1 ");
    t.size = b + 512; /* and nothing after it */
    lenient_gives("a:1 ! ");
    tarball_reset(&t);
}

static void lenient_reads_consecutive_archives(void **state)
{
    (void)state;
    tarball_file(&t, "a", "x");
    tarball_end(&t);
    tarball_file(&t, "b", "y");
    tarball_end(&t);
    lenient_gives("a:1 ! b:1 ");
    tarball_reset(&t);
}

static void lenient_never_takes_members_out_of_a_payload(void **state)
{
    (void)state;
    tarball inner = {0};
    tarball_file(&inner, "inner1", "i");
    tarball_file(&inner, "inner2", "i");
    tarball_end(&inner);
    tarball_file(&t, "a", "x");
    size_t outer = t.size;
    tarball_header(&t, "nested.tar", '0', inner.size);
    tarball_payload(&t, inner.data, inner.size);
    tarball_file(&t, "z", "zz");
    tarball_end(&t);
    t.data[outer] ^= 1;
    lenient_gives("a:1 ! z:2 ");
    memset(t.data + outer, 0xaa, 512);
    lenient_gives("a:1 ! z:2 ");
    tarball_reset(&t);
    tarball_reset(&inner);
}

static void lenient_drops_a_member_whose_name_may_be_lost(void **state)
{
    (void)state;
    char name[160];
    memset(name, 'n', 150);
    name[150] = '\0';
    tarball_file(&t, "a", "x");
    size_t at = t.size;
    tarball_pax(&t, 'x', "path", name);
    tarball_file(&t, "nnnnn", "y"); /* the name without its extended header */
    tarball_file(&t, "c", "z");
    tarball_end(&t);
    t.data[at] ^= 1;
    lenient_gives("a:1 ! ! c:1 ");
    tarball_reset(&t);
    /* A header that is complete, and so is the extended one before it, whose size is
     * useless. */
    tarball_file(&t, "a", "x");
    at = t.size;
    tarball_file(&t, "b", "");
    tarball_pax(&t, 'x', "size", "5120");
    tarball_file(&t, "nnnnn", "");
    tarball_end(&t);
    t.data[at] ^= 1;
    lenient_gives("a:1 ! ! ");
    tarball_reset(&t);
    /* A long name whose header has an invalid time, and a size that skips the pax header
     * after it. */
    tarball_file(&t, "a", "x");
    at = t.size;
    tarball_header(&t, "././@LongLink", 'L', 1072);
    memcpy(t.data + at + 136, "x0000000000", 11);
    tarball_sum(t.data + at);
    tarball_payload(&t, name, 151);
    tarball_header(&t, "pax", 'x', 14);
    tarball_payload(&t, "28 path=x.txt\n", 14);
    tarball_file(&t, "nnnnn", "y");
    tarball_file(&t, "c", "z");
    tarball_end(&t);
    lenient_gives("a:1 ! ! c:1 ");
    tarball_reset(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_members_are_read_in_order),
        cmocka_unit_test(counts_include_what_was_skipped),
        cmocka_unit_test(long_names_come_from_wherever_they_are),
        cmocka_unit_test(pax_size_governs_length_and_advance),
        cmocka_unit_test(pax_times_and_global_times_are_kept),
        cmocka_unit_test(base_256_sizes_are_read_up_to_the_limit),
        cmocka_unit_test(odd_numbers_are_refused),
        cmocka_unit_test(signed_checksums_are_accepted_wrong_ones_are_not),
        cmocka_unit_test(what_programs_disagree_about_is_refused),
        cmocka_unit_test(malformed_pax_records_are_refused),
        cmocka_unit_test(false_ends_are_errors_with_the_offset),
        cmocka_unit_test(a_single_zero_block_at_the_very_end_is_an_end),
        cmocka_unit_test(lenient_reading_continues_after_damage),
        cmocka_unit_test(lenient_reads_consecutive_archives),
        cmocka_unit_test(lenient_never_takes_members_out_of_a_payload),
        cmocka_unit_test(lenient_drops_a_member_whose_name_may_be_lost),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
