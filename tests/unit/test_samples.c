/* Samples from streams: the options, the notices, and what is refused. tests/interop
 * compares keys, fields, order and bytes with WebDataset. */
#include "support.h"

#include <unistd.h>
#include <zlib.h>

#include "base/hashes.h"
#include "io/window.h"

static tarn_error err;
static tarball t;
static tarn_samples_options o;
static char seen[8192];
static char rest[64]; /* after an error: the sample that was being read, and its fields */
static tarn_samples_report report;

static void put(const char *text, size_t len)
{
    size_t used = strlen(seen);
    snprintf(seen + used, sizeof seen - used, "%.*s", (int)len, text);
}

static void add_notice(void *context, const tarn_error *what)
{
    (void)context;
    put("! ", 2);
    assert_true(what->code > TARN_END);
}

static void note_rest(tarn_samples *samples)
{
    tarn_samples_item item;
    tarn_status status = tarn_samples_unfinished(samples, &item, &err);
    rest[0] = '\0';
    if (status == TARN_OK) {
        snprintf(rest, sizeof rest, "%.*s:", (int)item.key_len, item.key);
        for (size_t i = 0; i < item.count; i++)
            snprintf(rest + strlen(rest), sizeof rest - strlen(rest), " %s",
                     item.fields[i].name);
        status = tarn_samples_unfinished(samples, &item, &err);
    }
    assert_int_equal(status, TARN_END);
}

/* Reads the archive in t and writes it as "key[field=bytes ...]", by path or through a
 * source. */
static tarn_status read_url(const char *url)
{
    tarn_samples *samples;
    tarn_samples_item item;
    seen[0] = '\0';
    o.notice = add_notice;
    OK(tarn_samples_open(&url, 1, &o, &samples, &err));
    tarn_status status;
    while ((status = tarn_samples_next(samples, &item, &err)) == TARN_OK) {
        put(item.key, item.key_len);
        put(item.damaged ? "*[" : "[", item.damaged ? 2 : 1);
        for (size_t i = 0; i < item.count; i++) {
            const tarn_samples_field *f = &item.fields[i];
            assert_int_equal(strlen(f->name), f->name_len);
            assert_int_equal(strlen(f->member), f->member_len);
            put(i ? " " : "", i > 0);
            put(f->name, f->name_len);
            put("=", 1);
            put(f->data ? (const char *)f->data : "?", f->data ? (size_t)f->size : 1);
        }
        put("] ", 2);
    }
    tarn_samples_report_get(samples, &report, sizeof report);
    tarn_error why = err;
    note_rest(samples);
    err = why;
    tarn_samples_close(samples);
    return status;
}

static tarn_status read_both(void)
{
    char url[512], first[sizeof seen], unfinished[sizeof rest];
    tarn_samples_report plain;
    const char *path = scratch_path("s.tar");
    save_tar(&t, path);
    tarn_status status = read_url(path);
    memcpy(first, seen, sizeof first);
    memcpy(unfinished, rest, sizeof rest);
    plain = report;
    snprintf(url, sizeof url, "file:%s", path);
    tarn__window_chunk = 700;
    assert_int_equal(read_url(url), status);
    tarn__window_chunk = 256 << 10;
    assert_string_equal(seen, first);
    assert_string_equal(rest, unfinished);
    assert_memory_equal(&plain, &report, sizeof plain);
    return status;
}

static void gives(const char *want)
{
    tarn_status status = read_both();
    if (status != TARN_END) OK(status);
    assert_string_equal(seen, want);
}

static int begin(void **state)
{
    (void)state;
    o = (tarn_samples_options)TARN_SAMPLES_OPTIONS_INIT;
    tarball_reset(&t);
    return 0;
}

static int end(void **state)
{
    (void)state;
    tarball_reset(&t);
    return 0;
}

static void build(void)
{
    tarball_file(&t, "d/a.TXT", "1");
    tarball_file(&t, "d/a.cls.gz", "22");
    tarball_file(&t, "README", "no");
    tarball_file(&t, "__meta__/x.y", "no");
    tarball_header(&t, "d", '5', 0);
    tarball_file(&t, "d/a.x", "");
    tarball_file(&t, "b.txt", "3");
    tarball_header(&t, "l", '2', 0);
    tarball_file(&t, "c.txt", "4");
    tarball_file(&t, "c.x", "5");
    tarball_end(&t);
}

static void members_become_samples_and_the_rest_is_reported(void **state)
{
    (void)state;
    build();
    gives("! d/a[txt=1 cls.gz=22 x=] b[txt=3] ! c[txt=4 x=5] ");
    assert_int_equal(report.samples, 3);
    assert_int_equal(report.members, 6);
    assert_int_equal(report.bytes, 6);
    assert_int_equal(report.unkeyed, 1);
    assert_int_equal(report.metadata, 1);
    assert_int_equal(report.directories, 1);
    assert_int_equal(report.links, 1);
    assert_int_equal(report.shards, 1);
}

static void rules_differ_in_the_folder(void **state)
{
    (void)state;
    tarball_file(&t, "d/a.txt", "1");
    tarball_file(&t, "d/.h.txt", "2");
    tarball_end(&t);
    gives("d/a[txt=1] d/[h.txt=2] ");
    o.grouping = TARN_GROUP_PATH;
    gives("! d/a[txt=1] ");
    o.grouping = TARN_GROUP_BASE;
    gives("a[txt=1] [h.txt=2] ");
}

static bool wants(void *context, const char *key, size_t len)
{
    assert_int_equal(strlen(key), len);
    return strcmp(key, context) == 0;
}

static void only_requested_fields_are_returned(void **state)
{
    (void)state;
    static const char *const fields[] = {"x", "txt"};
    static char key[] = "b";
    build();
    o.fields = fields;
    o.n_fields = 2;
    gives("! d/a[txt=1 x=] ! c[txt=4 x=5] ");
    assert_int_equal(report.passed_over, 1);
    o.n_fields = 0;
    o.want = wants;
    o.want_context = key;
    gives("! b[txt=3] ! ");
    assert_int_equal(report.passed_over, 2);
    o.want = NULL;
    o.sizes_only = true;
    gives("! d/a[txt=? cls.gz=? x=?] b[txt=?] ! c[txt=? x=?] ");
}

static void a_field_twice_is_refused_unless_the_first_is_to_count(void **state)
{
    (void)state;
    tarball_file(&t, "a.txt", "1");
    tarball_file(&t, "a.TXT", "2");
    tarball_file(&t, "b.txt", "3");
    tarball_end(&t);
    FAILS(TARN_ERR_FORMAT, "a.TXT: the sample already has this field", read_both());
    assert_int_equal(err.offset, 1024);
    o.keep_first = true;
    gives("! a[txt=1] b[txt=3] ");
    assert_int_equal(report.duplicates, 1);
}

static void a_duplicate_key_is_reported(void **state)
{
    (void)state;
    tarball_file(&t, "a.txt", "1");
    tarball_file(&t, "b.txt", "2");
    tarball_file(&t, "a.x", "3");
    tarball_end(&t);
    gives("a[txt=1] b[txt=2] ! a[x=3] ");
    assert_int_equal(report.scattered, 1);
}

static void damage_marks_the_samples_beside_it(void **state)
{
    (void)state;
    tarball_file(&t, "a.txt", "1");
    tarball_file(&t, "b.txt", "2");
    size_t damaged = t.size;
    tarball_file(&t, "b.x", "\1\2\3");
    tarball_file(&t, "c.txt", "4");
    tarball_file(&t, "d.txt", "5");
    tarball_end(&t);
    t.data[damaged] ^= 1;
    FAILS(TARN_ERR_FORMAT, "checksum", read_both());
    assert_int_equal(err.offset, damaged);
    assert_string_equal(seen, "a[txt=1] ");
    o.lenient = true;
    gives("a[txt=1] ! b*[txt=2] c*[txt=4] d[txt=5] ");
    assert_int_equal(report.damages, 1);
}

static void no_sample_of_a_cut_archive_is_short(void **state)
{
    (void)state;
    build();
    size_t whole = t.size - 1024;
    for (size_t size = 0; size <= whole; size += 256) {
        t.size = size;
        FAILS(TARN_ERR_TRUNCATED, "the ", read_both());
        const char *first = strstr(seen, "d/a["), *last = strstr(seen, "c[");
        if (first) assert_memory_equal(first, "d/a[txt=1 cls.gz=22 x=]", 23);
        assert_null(last);
        assert_true(!*rest || size < whole || strcmp(rest, "c: txt x") == 0);
    }
    t.size = whole - 1024;
    FAILS(TARN_ERR_TRUNCATED, "the ", read_both());
    assert_string_equal(rest, "c: txt");
    t.size = 512 + 512 + 512 + 1; /* in the payload of d/a.cls.gz */
    FAILS(TARN_ERR_TRUNCATED, "the ", read_both());
    assert_string_equal(rest, "d/a: txt");
    t.size = whole - 1024; /* without c.x */
    o.lenient = true;
    gives("! d/a[txt=1 cls.gz=22 x=] b[txt=3] ! ! c*[txt=4] ");
}

/* What was decompressed before the cut is used: the last samples are not lost. */
static void samples_before_a_cut_in_a_compressed_archive_are_returned(void **state)
{
    (void)state;
    char name[512];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "s%02d.txt", i);
        tarball_file(&t, name, "x");
    }
    tarball_end(&t);
    snprintf(name, sizeof name, "%s", scratch_path("cut.tar.gz"));
    gzFile out = gzopen(name, "wb0"); /* stored, so the cut is at a known place */
    assert_int_equal(gzwrite(out, t.data, (unsigned)t.size), t.size);
    assert_int_equal(gzclose(out), Z_OK);
    assert_int_equal(truncate(name, 20 * 1024 + 100), 0);
    FAILS(TARN_ERR_TRUNCATED, "inside a gzip stream", read_url(name));
    assert_non_null(strstr(seen, "s18[txt=x]"));
    assert_null(strstr(seen, "s19["));
    assert_string_equal(rest, "s19: txt");
}

/* A claimed size must not cost memory before the data has arrived. */
static void sizes_have_limits(void **state)
{
    (void)state;
    tarball_file(&t, "a.txt", "12345");
    tarball_file(&t, "a.x", "67890");
    tarball_end(&t);
    o.max_sample_bytes = 9;
    FAILS(TARN_ERR_LIMIT, "exceeds the 9 bytes that max_sample_bytes allows",
          read_both());
    assert_int_equal(err.offset, 1024);
    o.max_sample_bytes = 10;
    gives("a[txt=12345 x=67890] ");
    tarball_reset(&t);
    tarball_header(&t, "a.txt", '0', UINT64_C(1) << 32);
    o.max_sample_bytes = UINT64_MAX;
    FAILS(TARN_ERR_TRUNCATED, "ends inside member", read_both());
}

static int stop(void *context, uint64_t done, uint64_t total)
{
    ++*(int *)context;
    assert_int_equal(total, 0);
    return done >= UINT64_C(32) << 20;
}

static void reading_can_be_stopped(void **state)
{
    (void)state;
    int calls = 0;
    const char *path = scratch_path("big.tar");
    tarball_header(&t, "a.bin", '0', 100u << 20);
    save_tar(&t, path);
    assert_int_equal(truncate(path, 101 << 20), 0);
    o.progress = stop;
    o.progress_context = &calls;
    char url[512];
    snprintf(url, sizeof url, "file:%s", path);
    FAILS(TARN_ERR_CANCELLED, "stopped", read_url(url));
    assert_true(calls >= 1);
    unlink(path);
}

static void several_archives_are_read_in_turn(void **state)
{
    (void)state;
    tarn_samples *samples;
    tarn_samples_item item;
    char *urls[3];
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d.tar", i);
        tarball_reset(&t);
        if (i != 1) tarball_file(&t, "same.txt", "x"); /* the second is empty */
        tarball_end(&t);
        urls[i] = strdup(scratch_path(name));
        save_tar(&t, urls[i]);
    }
    OK(tarn_samples_open((const char *const *)urls, 3, &o, &samples, &err));
    OK(tarn_samples_next(samples, &item, &err));
    assert_int_equal(item.shard, 0);
    OK(tarn_samples_next(samples, &item, &err));
    assert_int_equal(item.shard, 2);
    assert_string_equal(item.url, urls[2]);
    assert_int_equal(tarn_samples_next(samples, &item, &err), TARN_END);
    assert_int_equal(tarn_samples_next(samples, &item, &err), TARN_END);
    tarn_samples_close(samples);
    unlink(urls[1]);
    OK(tarn_samples_open((const char *const *)urls, 3, &o, &samples, &err));
    OK(tarn_samples_next(samples, &item, &err));
    FAILS(TARN_ERR_NO_FILE, "m1.tar", tarn_samples_next(samples, &item, &err));
    tarn_samples_close(samples);
    for (int i = 0; i < 3; i++)
        free(urls[i]);
}

static void files_stay_in_their_folder(void **state)
{
    (void)state;
    tarn_samples *samples;
    tarn_samples_item item;
    uint64_t files = 0;
    const char *url = scratch_path("x.tar");
    tarball_file(&t, "in/a.txt", "1");
    tarball_file(&t, "../out.txt", "2");
    tarball_end(&t);
    save_tar(&t, url);
    OK(tarn_samples_open(&url, 1, &o, &samples, &err));
    OK(tarn_samples_next(samples, &item, &err));
    OK(tarn_samples_extract(&item, scratch_path("files"), false, &files, &err));
    FAILS(TARN_ERR_EXISTS, "already exists",
          tarn_samples_extract(&item, scratch_path("files"), false, &files, &err));
    OK(tarn_samples_extract(&item, scratch_path("files"), true, &files, &err));
    OK(tarn_samples_next(samples, &item, &err));
    assert_int_not_equal(
        tarn_samples_extract(&item, scratch_path("files"), false, &files, &err), TARN_OK);
    assert_int_equal(files, 2);
    assert_int_not_equal(access(scratch_path("out.txt"), F_OK), 0);
    tarn_samples_close(samples);
}

static void a_set_of_hashes_knows_what_it_has(void **state)
{
    (void)state;
    tarn__hashes set = {.max = 3000};
    bool there;
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < 3000; i++) {
            OK(tarn__hashes_add(&set, i * i * 7919, NULL, &there, &err));
            assert_false(there && i > 1); /* 0 stands for 1 */
        }
        OK(tarn__hashes_add(&set, 7919, NULL, &there, &err));
        assert_true(there);
        for (uint64_t i = 0; i < 3; i++)
            if (tarn__hashes_add(&set, 5 + i, NULL, &there, &err) != TARN_END) break;
        tarn__hashes_clear(&set);
    }
    tarn__hashes_reset(&set);
    set.max = 1;
    OK(tarn__hashes_add(&set, 5, NULL, &there, &err));
    assert_int_equal(tarn__hashes_add(&set, 6, NULL, &there, &err), TARN_END);
    tarn__hashes_reset(&set);
    tarn__hashes table = {.numbered = true};
    for (uint32_t i = 0; i < 6000; i++) {
        uint32_t number = i;
        OK(tarn__hashes_add(&table, i % 3000 * UINT64_C(7919) + 1, &number, &there,
                            &err));
        assert_true(there == (i >= 3000) && number == i % 3000);
    }
    tarn__hashes_reset(&table);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(members_become_samples_and_the_rest_is_reported),
        TEST(rules_differ_in_the_folder),
        TEST(only_requested_fields_are_returned),
        TEST(a_field_twice_is_refused_unless_the_first_is_to_count),
        TEST(a_duplicate_key_is_reported),
        TEST(damage_marks_the_samples_beside_it),
        TEST(no_sample_of_a_cut_archive_is_short),
        TEST(samples_before_a_cut_in_a_compressed_archive_are_returned),
        TEST(sizes_have_limits),
        TEST(reading_can_be_stopped),
        TEST(several_archives_are_read_in_turn),
        TEST(files_stay_in_their_folder),
        TEST(a_set_of_hashes_knows_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
