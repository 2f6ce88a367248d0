/* Composing headers, and the names that keys, fields and shards may have. */
#include "support.h"

#include "io/out.h"
#include "tar/archive.h"
#include "tar/pattern.h"
#include "tar/pax.h"
#include "tar/rules.h"

static tarn_error err;

/* --- Headers ----------------------------------------------------------------------- */

/* Composes one member in memory; the headers begin at *block and end at the result. */
static size_t compose(const tarn_tar_writer_options *o, const char *name, uint64_t size,
                      unsigned char *to, uint64_t *offset)
{
    tarn__composer c;
    tarn_sink_options quickly = TARN_SINK_OPTIONS_INIT;
    tarn__out out = {.file = {.fd = -1}};
    uint64_t cost;
    quickly.overwrite = quickly.no_sync = true;
    OK(tarn__composer_init(&c, o, &err));
    OK(tarn__out_file(&out, scratch_path("composed"), &quickly, false, &err));
    OK(tarn__compose_size(&c, name, strlen(name), size, &cost, &err));
    OK(tarn__compose(&c, name, strlen(name), size, &out, offset, &err));
    assert_int_equal(cost, tarn__out_size(&out));
    memcpy(to, out.buffer, out.used);
    tarn__out_reset(&out);
    tarn__composer_reset(&c);
    return (size_t)cost;
}

static void sizes_from_8_gib_on_are_in_a_pax_header(void **state)
{
    (void)state;
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    unsigned char blocks[8192];
    uint64_t offset, largest = (UINT64_C(1) << 33) - 1;
    assert_int_equal(compose(&o, "a.bin", largest, blocks, &offset), 512);
    assert_memory_equal(blocks + 124, "77777777777", 12);
    assert_int_equal(compose(&o, "a.bin", largest + 1, blocks, &offset), 1536);
    assert_int_equal(offset, 1024);
    assert_int_equal(blocks[156], 'x');
    assert_string_equal((char *)blocks + 512, "19 size=8589934592\n");
    assert_memory_equal(blocks + 1024 + 124, "00000000000", 12);
    assert_true(tarn__header_sum_matches(blocks));
    assert_true(tarn__header_sum_matches(blocks + 1024));
    o.names = TARN_NAMES_PLAIN;
    assert_int_equal(compose(&o, "a.bin", largest, blocks, &offset), 512);
    tarn__composer c;
    uint64_t cost;
    OK(tarn__composer_init(&c, &o, &err));
    FAILS(TARN_ERR_LIMIT, "8589934592 bytes",
          tarn__compose_size(&c, "a.bin", 5, largest + 1, &cost, &err));
    FAILS(TARN_ERR_LIMIT, "a member is too large",
          tarn__compose_size(&c, "a.bin", 5, TARN_MAX_MEMBER_SIZE + 1, &cost, &err));
    tarn__composer_reset(&c);
}

static void pax_records_come_in_pythons_order(void **state)
{
    (void)state;
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    unsigned char blocks[8192];
    uint64_t offset;
    o.user = "Zoë";
    o.uid = 3000000;
    o.mtime = -5;
    compose(&o, "ä.txt", UINT64_C(1) << 40, blocks, &offset);
    assert_string_equal((char *)blocks + 512,
                        "15 path=ä.txt\n14 uname=Zoë\n15 uid=3000000\n"
                        "22 size=1099511627776\n12 mtime=-5\n");
    assert_memory_equal(blocks + 1024, "?.txt", 6);
    assert_memory_equal(blocks + 1024 + 265, "Zo?", 4);
    assert_memory_equal(blocks + 1024 + 108, "0000000", 8);
}

/* A record has its stated length, whatever its text looks like. */
static void a_user_that_looks_like_a_record_changes_nothing(void **state)
{
    (void)state;
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    unsigned char blocks[8192];
    uint64_t offset;
    tarn__pax pax = {0};
    o.user = "ä\n20 mtime=5";
    o.mtime = INT64_C(1) << 40;
    compose(&o, "a.bin", UINT64_C(1) << 40, blocks, &offset);
    const char *records = (char *)blocks + 512;
    OK(tarn__pax_parse(records, strlen(records), &pax, &err));
    assert_non_null(strstr(records, "uname=ä\n20 mtime=5\n22 size=1099511627776\n"));
    assert_non_null(strstr(records, "23 mtime=1099511627776\n"));
}

static void what_a_plain_header_cannot_say_is_refused(void **state)
{
    (void)state;
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn__composer c;
    uint64_t cost;
    char name[102];
    memset(name, 'k', 101);
    name[101] = 0;
    o.names = TARN_NAMES_PLAIN;
    OK(tarn__composer_init(&c, &o, &err));
    OK(tarn__compose_size(&c, name, 100, 0, &cost, &err));
    FAILS(TARN_ERR_LIMIT, "101 bytes", tarn__compose_size(&c, name, 101, 0, &cost, &err));
    FAILS(TARN_ERR_USAGE, "has no name", tarn__compose_size(&c, "", 0, 0, &cost, &err));
    tarn__composer_reset(&c);
    o.user = name;
    FAILS(TARN_ERR_USAGE, "longer than 32", tarn__composer_init(&c, &o, &err));
    o.user = NULL;
    o.uid = 1u << 21;
    FAILS(TARN_ERR_USAGE, "plain header", tarn__composer_init(&c, &o, &err));
    o.uid = 0;
    o.mtime = -1;
    FAILS(TARN_ERR_USAGE, "the time -1", tarn__composer_init(&c, &o, &err));
}

static void the_time_comes_from_the_environment_if_it_is_one(void **state)
{
    (void)state;
    static const char *const good[] = {"0", "", "1700000000", "8589934591"};
    static const char *const times[] = {"00000000000", "00000000000", "14524770400",
                                        "77777777777"};
    static const char *const bad[] = {
        "-1", "+5",  " 5",   "5 ",         "x",
        "5x", "1e9", "0x10", "8589934592", "99999999999999999999999999"};
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn__composer c;
    unsigned char block[512];
    uint64_t offset;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        setenv("SOURCE_DATE_EPOCH", good[i], 1);
        compose(&o, "a.b", 0, block, &offset);
        assert_memory_equal(block + 136, times[i], 12);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("SOURCE_DATE_EPOCH", bad[i], 1);
        FAILS(TARN_ERR_USAGE, "SOURCE_DATE_EPOCH", tarn__composer_init(&c, &o, &err));
    }
    o.mtime = 1; /* a given time needs no other */
    compose(&o, "a.b", 0, block, &offset);
    assert_memory_equal(block + 136, "00000000001", 12);
    unsetenv("SOURCE_DATE_EPOCH");
}

/* --- Rules and patterns ------------------------------------------------------------ */

static tarn_status check_key(tarn_name_rules rules, const char *key)
{
    return tarn__check_key(rules, key, strlen(key), &err);
}

static void keys_that_would_not_come_back_are_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"a",     "a b",   "a/b",     "a.b/c",
                                       "..a/b", ".../b", "größe",   "\xff",
                                       "a\\b",  "_a",    "a/b/c-d", "a\xc2\x80"};
    static const char *const bad[] = {"a.b",   ".a",   "a.",   "a/.b",  "a/",     "/a",
                                      "a//b",  "./a",  "../a", "a/./b", "a/../b", "a\nb",
                                      "a\x7f", "\x01", "/",    "."};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        OK(check_key(TARN_RULES_STRICT, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FAILS(TARN_ERR_USAGE, "the key", check_key(TARN_RULES_STRICT, bad[i]));
        OK(check_key(TARN_RULES_NONE, bad[i]));
    }
    FAILS(TARN_ERR_USAGE, "has no key", check_key(TARN_RULES_STRICT, ""));
    FAILS(TARN_ERR_USAGE, "has no key", check_key(TARN_RULES_NONE, ""));
}

static tarn_status check_names(tarn_name_rules rules, const char *first,
                               const char *second)
{
    tarn_field fields[] = {{.name = first}, {.name = second}};
    return tarn__check_fields(rules, "k", fields, second ? 2 : 1, &err);
}

static void fields_that_would_not_come_back_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"a/b", "_x", "__key__", "a\n", "\x7f"};
    static const char *const twins[][2] = {
        {"a", "a"}, {"a", "A"}, {"JPG", "jpg"}, {"Ä", "ä"}, {"\xff", "\xff"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FAILS(TARN_ERR_USAGE, "sample k", check_names(TARN_RULES_STRICT, bad[i], NULL));
        OK(check_names(TARN_RULES_NONE, bad[i], NULL));
    }
    for (size_t i = 0; i < sizeof twins / sizeof twins[0]; i++) {
        FAILS(TARN_ERR_USAGE, "duplicate",
              check_names(TARN_RULES_STRICT, twins[i][0], twins[i][1]));
        OK(check_names(TARN_RULES_NONE, twins[i][0], twins[i][1]));
    }
    OK(check_names(TARN_RULES_STRICT, "a", "b"));
    OK(check_names(TARN_RULES_STRICT, "seg.png", "x-y_z"));
    OK(check_names(TARN_RULES_STRICT, "\xff", "\xfe"));
    FAILS(TARN_ERR_USAGE, "is empty", check_names(TARN_RULES_STRICT, "", NULL));
    FAILS(TARN_ERR_USAGE, "is empty", check_names(TARN_RULES_NONE, "", NULL));
    FAILS(TARN_ERR_USAGE, "no field",
          tarn__check_fields(TARN_RULES_STRICT, "k", NULL, 0, &err));
    OK(tarn__check_fields(TARN_RULES_NONE, "k", NULL, 0, &err));
}

static void two_of_many_fields_are_found(void **state)
{
    (void)state;
    enum { MANY = 70000 };
    tarn_field *fields = calloc(MANY, sizeof *fields);
    char(*names)[12] = calloc(MANY, sizeof *names);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        fields[i].name = names[i];
    }
    static const size_t counts[] = {2, 8, 9, 16, 17, 1000, TARN_MAX_FIELDS};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        size_t last = counts[i] - 1;
        OK(tarn__check_fields(TARN_RULES_STRICT, "k", fields, counts[i], &err));
        fields[last].name = "F0";
        FAILS(TARN_ERR_USAGE, "duplicate",
              tarn__check_fields(TARN_RULES_STRICT, "k", fields, counts[i], &err));
        fields[last].name = names[last];
    }
    FAILS(TARN_ERR_LIMIT, "65536 fields",
          tarn__check_fields(TARN_RULES_NONE, "k", fields, MANY, &err));
    free(fields);
    free(names);
}

static void a_pattern_has_one_number(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        uint64_t number;
        const char *want;
    } good[] = {{"%d", 7, "7"},
                {"x_%06d.tar", 12, "x_000012.tar"},
                {"x_%06d.tar", 12345678, "x_12345678.tar"},
                {"100%%/%d%%.tar", 3, "100%/3%.tar"},
                {"%%d%d", 1, "%d1"},
                {"%020d", 5, "00000000000000000005"},
                {"%00d", 5, "5"},
                {"%d", UINT64_MAX, "18446744073709551615"}};
    static const char *const bad[] = {
        "",   "x.tar", "%s",    "%5d",  "%d%d", "%%d",  "%",
        "x%", "%0",    "%021d", "%-5d", "%ld",  "%d%n", "%099999999999999999999d"};
    tarn__pattern p;
    tarn__buf out;
    tarn__buf_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        OK(tarn__pattern_take(&p, good[i].pattern, &err));
        OK(tarn__pattern_fill(&p, good[i].number, &out, &err));
        assert_string_equal(out.data, good[i].want);
        tarn__pattern_reset(&p);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FAILS(TARN_ERR_USAGE, "number exactly once",
              tarn__pattern_take(&p, bad[i], &err));
        tarn__pattern_reset(&p);
    }
    tarn__buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_from_8_gib_on_are_in_a_pax_header),
        cmocka_unit_test(pax_records_come_in_pythons_order),
        cmocka_unit_test(a_user_that_looks_like_a_record_changes_nothing),
        cmocka_unit_test(what_a_plain_header_cannot_say_is_refused),
        cmocka_unit_test(the_time_comes_from_the_environment_if_it_is_one),
        cmocka_unit_test(keys_that_would_not_come_back_are_refused),
        cmocka_unit_test(fields_that_would_not_come_back_are_refused),
        cmocka_unit_test(two_of_many_fields_are_found),
        cmocka_unit_test(a_pattern_has_one_number),
    };
    return cmocka_run_group_tests_name("headers", tests, NULL, scratch_remove);
}
