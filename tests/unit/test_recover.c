/* Contradicting extended headers, unusual cases of lenient reading, and streams that fail
 * half way: unreadable data is never mistaken for damage. */
#include "support.h"

#include <unistd.h>

#include "io/filter.h"
#include "io/window.h"
#include "tar/reader.h"

static tarn_error err;
static tarball t;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- Reading ------------------------------------------------------------------------ */

/* Bytes from callbacks, up to a failure. */
typedef struct pipe_end {
    const unsigned char *data;
    size_t size, at, piece, fails_at;
    tarn_status failure;
} pipe_end;

static tarn_status give(void *context, void *buf, size_t len, size_t *out_got,
                        tarn_error *why)
{
    pipe_end *p = context;
    size_t n = p->size - p->at;
    if (n > len) n = len;
    if (n > p->piece) n = p->piece;
    if (n > p->fails_at - p->at) n = p->fails_at - p->at;
    if (p->at == p->fails_at) {
        snprintf(why->message, sizeof why->message, "gave up");
        return p->failure;
    }
    memcpy(buf, p->data + p->at, n);
    p->at += n;
    *out_got = n;
    return TARN_OK;
}

/* The names of the members, each followed by a comma, and "!" for each notice. */
static char seen[4096];

static void add_notice(void *context, const tarn_error *what)
{
    (void)context, (void)what;
    strcat(seen, "!");
}

static tarn_status walk(const char *url, const tarn_source_options *source, bool lenient,
                        tarn_tar_counts *counts)
{
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    tarn_tar *tar;
    tarn_member m;
    o.lenient = lenient;
    o.notice = add_notice;
    o.source = source;
    seen[0] = '\0';
    tarn_status status = tarn_tar_open(url, &o, &tar, &err);
    if (status != TARN_OK) return status;
    while ((status = tarn_tar_next(tar, &m, &err)) == TARN_OK) {
        size_t used = strlen(seen);
        snprintf(seen + used, sizeof seen - used, "%.*s,",
                 m.name_len < 60 ? (int)m.name_len : 60, m.name);
    }
    if (counts) tarn_tar_counts_get(tar, counts, sizeof *counts);
    tarn_tar_close(tar);
    return status;
}

static tarn_status walk_file(bool lenient, tarn_tar_counts *counts)
{
    const char *path = scratch_path("walk.tar");
    save_tar(&t, path);
    return walk(path, NULL, lenient, counts);
}

/* Lenient, as a file and as a stream. */
static void lenient_gives(const char *want)
{
    char url[300];
    assert_int_equal(walk_file(true, NULL), TARN_END);
    assert_string_equal(seen, want);
    snprintf(url, sizeof url, "file:%s", scratch_path("walk.tar"));
    assert_int_equal(walk(url, NULL, true, NULL), TARN_END);
    assert_string_equal(seen, want);
    tarball_reset(&t);
}

/* --- Extended headers --------------------------------------------------------------- */

static void extended_headers_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *types; /* of the consecutive extended headers */
        const char *part;  /* NULL: they are consistent */
    } cases[] = {
        {"L", NULL},
        {"LK", NULL},
        {"KL", NULL},
        {"gx", NULL},
        {"gLK", NULL},
        {"ggx", NULL},
        {"xx", "two extended headers"},
        {"Lx", "two extended headers"},
        {"Kx", "two extended headers"},
        {"xL", "two extended headers"},
        {"xK", "two extended headers"},
        {"LL", "two extended headers"},
        {"KK", "two extended headers"},
        {"LKL", "two extended headers"},
        {"xg", "a global header between"},
        {"Lg", "a global header between"},
        {"Kg", "a global header between"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (const char *type = cases[i].types; *type; type++) {
            if (*type == 'x' || *type == 'g')
                tarball_pax(&t, *type, "mtime", "1.5");
            else
                tarball_extended(&t, *type, "a long name", 12);
        }
        tarball_file(&t, "short", "text");
        tarball_end(&t);
        tarn_status got = walk_file(false, NULL);
        if (cases[i].part) {
            FAILS(TARN_ERR_UNSUPPORTED, cases[i].part, got);
        } else {
            if (got != TARN_END) OK(got);
            assert_string_equal(seen,
                                strchr(cases[i].types, 'L') ? "a long name," : "short,");
        }
        tarball_reset(&t);
    }
}

static void global_headers_do_not_name_members(void **state)
{
    (void)state;
    tarball_pax(&t, 'g', "path", "everywhere");
    tarball_file(&t, "short", "text");
    FAILS(TARN_ERR_UNSUPPORTED, "a path in a global pax header", walk_file(false, NULL));
    tarball_reset(&t);
}

static void long_names_have_a_limit(void **state)
{
    (void)state;
    char *name = malloc(TARN_MAX_NAME + 2);
    memset(name, 'n', TARN_MAX_NAME + 1);
    name[TARN_MAX_NAME + 1] = '\0';
    for (size_t over = 0; over < 2; over++) {
        tarball_extended(&t, 'L', name, TARN_MAX_NAME + over);
        tarball_file(&t, "short", "text");
        tarball_end(&t);
        tarn_status got = walk_file(false, NULL);
        if (over)
            FAILS(TARN_ERR_FORMAT, "invalid length: 65537 bytes", got);
        else
            assert_int_equal(got, TARN_END);
        tarball_reset(&t);
    }
    free(name);
}

/* What makes an old member a directory for one program and a file for another. */
static void slashes_that_programs_disagree_about_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *own, *path; /* in the header, and in a pax header before it */
        bool good;
    } cases[] = {{"d/", NULL, true},  {"d/", "e/", true},  {"d", "e", true},
                 {"d/", "e", false},  {"d", "e/", false},  {"/", NULL, false},
                 {"//", NULL, false}, {"d/", "//", false}, {"///d/", NULL, true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].path) tarball_pax(&t, 'x', "path", cases[i].path);
        tarball_header(&t, cases[i].own, '\0', 0);
        tarball_end(&t);
        tarn_status got = walk_file(false, NULL);
        if (!cases[i].good)
            FAILS(TARN_ERR_UNSUPPORTED, "name ends with a slash", got);
        else if (got != TARN_END)
            OK(got);
        tarball_reset(&t);
    }
    /* The header and the pax header disagree about where the next member begins. */
    tarball_pax(&t, 'x', "size", "0");
    tarball_header(&t, "d", '5', 512);
    FAILS(TARN_ERR_UNSUPPORTED, "with a size", walk_file(false, NULL));
    tarball_reset(&t);
}

/* --- Continuing after damage -------------------------------------------------------- */

static void damage_header(const char *name, size_t size)
{
    tarball_header(&t, name, '0', size);
    tarball_last(&t)[0] ^= 1;
}

/* Chains of headers are followed like a reader does: sizes in pax headers count for
 * files, and for nothing else. */
static void chains_after_damage_have_their_pax_sizes(void **state)
{
    (void)state;
    char inside[1024] = "no header", *large = calloc(1, TARN_MAX_EXTENDED + 1);
    for (int way = 0; way < 6; way++) {
        tarball_file(&t, "a", "1");
        damage_header("lost", 600);
        tarball_payload(&t, inside, 600);
        tarball_file(&t, "b", "2");
        if (way == 0) tarball_pax(&t, 'x', "size", "1000"); /* the header says less */
        if (way == 1) tarball_pax(&t, 'x', "mtime", "5");
        if (way == 2) tarball_extended(&t, 'x', "rubbish", 7);
        if (way == 4) tarball_extended(&t, 'x', large, TARN_MAX_EXTENDED + 1);
        if (way == 5) tarball_extended(&t, 'L', "c", 2);
        tarball_header(&t, "c", '0', way ? 1000 : 0);
        tarball_payload(&t, inside, 1000);
        if (way == 3) {
            tarball_pax(&t, 'x', "size", "0");
            tarball_header(&t, "d", '5', 0);
        }
        tarball_file(&t, "e", "3");
        tarball_end(&t);
        /* Not even the name of a member is known if its pax header is lost. */
        lenient_gives(way == 2 || way == 4 ? "a,!b,!!e," : "a,!b,c,e,");
    }
    free(large);
}

/* The damaged header's size is useless; what looks like a header must be one. */
static void sizes_that_lead_nowhere_are_not_followed(void **state)
{
    (void)state;
    static const char zeros[1024];
    for (int way = 0; way < 6; way++) {
        tarball_file(&t, "a", "1");
        damage_header("lost", 5);
        unsigned char *size = tarball_last(&t) + 124;
        if (way == 0) { /* 2^60 in base 256 */
            memset(size, 0, 12);
            size[0] = 0x80;
            size[4] = 0x10;
        }
        if (way == 1) memcpy(size, "77777777777", 11); /* 8 GiB, in a file of 5 KiB */
        if (way == 2) memcpy(size, "00000001000", 11); /* into the payload of b */
        if (way == 3) memcpy(size, "00000002000", 11); /* to its zeros */
        tarball_payload(&t, "12345", 5);
        if (way == 4) tarball_header(&t, "past the end", '0', 1 << 20);
        tarball_header(&t, "b", '0', 1 + sizeof zeros);
        tarball_payload(&t, "2", 1);
        tarball_payload(&t, zeros, sizeof zeros);
        if (way == 5) {
            tarball_pax(&t, 'x', "size", "99999999");
            tarball_header(&t, "c", '0', 0);
        }
        tarball_end(&t);
        lenient_gives(way == 5 ? "a,!b,!" : "a,!b,");
    }
}

static void files_of_less_than_a_block_are_lost_as_a_whole(void **state)
{
    (void)state;
    tarn_tar_counts counts;
    uint64_t keep, cut;
    const char *path = scratch_path("tiny.tar");
    write_file(path, "not a tar", 9);
    assert_int_equal(walk(path, NULL, true, &counts), TARN_END);
    assert_string_equal(seen, "!");
    assert_int_equal(counts.lost_bytes, 9);
    OK(tarn__tar_find_tear(path, &keep, &cut, &err));
    assert_int_equal(keep, 0);
    assert_int_equal(cut, 0);
    unlink(path);
    FAILS(TARN_ERR_NO_FILE, "", tarn__tar_find_tear(path, &keep, &cut, &err));
}

/* --- Streams that fail -------------------------------------------------------------- */

/* Valid members, damage of several kinds, and another archive after the end. */
static void build_damaged(void)
{
    static const char zeros[3000];
    tarball_file(&t, "a", "1");
    tarball_pax(&t, 'x', "path", "long/b");
    tarball_file(&t, "b", "22");
    damage_header("lost", 700);
    tarball_payload(&t, zeros, 700);
    tarball_file(&t, "c", "333");
    tarball_header(&t, "big", '0', sizeof zeros);
    tarball_payload(&t, zeros, sizeof zeros);
    tarball_extended(&t, 'L', "named", 6);
    tarball_last(&t)[130] ^= 7;
    tarball_file(&t, "d", "4");
    tarball_file(&t, "e", "5");
    tarball_end(&t);
    tarball_payload(&t, "rubbish", 7);
    tarball_file(&t, "f", "6");
    tarball_file(&t, "g", "7");
    tarball_end(&t);
}

static tarn_source_options through(const tarn_source_calls *calls)
{
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    o.calls = calls;
    return o;
}

/* Wherever it fails, the failure is reported, and everything that was read before is
 * returned. */
static void a_stream_that_fails_is_not_a_damaged_one(void **state)
{
    (void)state;
    static const tarn_status failures[] = {TARN_ERR_IO, TARN_ERR_MEMORY, TARN_ERR_LIMIT};
    char whole[sizeof seen];
    build_damaged();
    tarn__window_chunk = 512; /* so that no more is read than needed */
    for (int lenient = 0; lenient < 2; lenient++) {
        pipe_end p = {t.data, t.size, 0, 512, SIZE_MAX, TARN_ERR_IO};
        tarn_source_calls calls = {sizeof(tarn_source_calls), &p, give, NULL};
        tarn_source_options o = through(&calls);
        tarn_status want = lenient ? TARN_END : TARN_ERR_FORMAT;
        assert_int_equal(walk("mine", &o, lenient, NULL), want);
        strcpy(whole, seen);
        /* The members after damage, c and f, may have lost a longer name. */
        if (lenient) assert_string_equal(whole, "a,long/b,!!big,!!g,");
        for (size_t at = 0; at <= t.size; at += 100)
            for (size_t i = 0; i < COUNT(failures); i++) {
                p = (pipe_end){t.data, t.size, 0, at % 3 ? 512 : 77, at, failures[i]};
                tarn_status got = walk("mine", &o, lenient, NULL);
                if (got == want && at > 2500 && !lenient) continue; /* damage first */
                if (got != failures[i] || !strstr(err.message, "gave up"))
                    fail_msg("at %zu: %s, %s", at, tarn_status_name(got), err.message);
                /* A notice that would have come with the failure may be missing. */
                size_t same = strlen(seen);
                while (same && seen[same - 1] == '!')
                    same--;
                assert_memory_equal(seen, whole, same);
            }
    }
    tarn__window_chunk = 256 << 10;
    tarball_reset(&t);
}

/* Broken compressed data is damage, wherever it is. */
static void a_broken_compressed_stream_is_a_damaged_one(void **state)
{
    (void)state;
    static unsigned char packed[1 << 16];
    char whole[sizeof seen];
    build_damaged();
    void *coder;
    bool end = false;
    tarn__flow flow = {t.data, t.size, packed, sizeof packed};
    OK(tarn__filter_gzip.encoder_new(&coder, 6, &err));
    while (!end)
        OK(tarn__filter_gzip.encode(coder, &flow, true, &end, &err));
    tarn__filter_gzip.encoder_free(coder);
    size_t size = sizeof packed - flow.out_size;
    pipe_end p = {packed, size, 0, 64, SIZE_MAX, TARN_ERR_IO};
    tarn_source_calls calls = {sizeof(tarn_source_calls), &p, give, NULL};
    tarn_source_options o = through(&calls);
    assert_int_equal(walk("mine", &o, true, NULL), TARN_END);
    strcpy(whole, seen);
    for (size_t at = 20; at < size; at++) {
        for (int flip = 0; flip < 2; flip++) {
            if (flip) packed[at] ^= 0x20;
            p = (pipe_end){packed, flip ? size : at, 0, 64, SIZE_MAX, TARN_ERR_IO};
            tarn_status got = walk("mine", &o, true, NULL);
            if (flip) packed[at] ^= 0x20;
            if (got != TARN_END) OK(got);
            if (!strchr(seen, '!')) fail_msg("at %zu: no word of it", at);
            /* The bytes before a flipped one may have changed; a truncation changes
             * nothing before it. */
            if (flip) continue;
            size_t same = 0;
            while (seen[same] && seen[same] == whole[same])
                same++;
            assert_true(seen[same] == '\0' || seen[same] == '!');
            got = walk("mine", &o, false, NULL);
            assert_true(got != TARN_OK && got != TARN_END);
        }
    }
    tarball_reset(&t);
}

/* A stream searches the data after the end of an archive only up to a limit. */
static void garbage_after_the_end_may_be_long(void **state)
{
    (void)state;
    enum { LONG = 20 << 20 };
    char url[300];
    tarn_tar_counts file, stream;
    unsigned char *rubbish = malloc(LONG);
    memset(rubbish, '?', LONG);
    tarball_file(&t, "a", "1");
    tarball_end(&t);
    tarball_payload(&t, rubbish, LONG);
    tarball_file(&t, "b", "2");
    tarball_end(&t);
    assert_int_equal(walk_file(true, &file), TARN_END);
    assert_string_equal(seen, "a,!b,");
    assert_int_equal(file.lost_bytes, LONG);
    snprintf(url, sizeof url, "file:%s", scratch_path("walk.tar"));
    assert_int_equal(walk(url, NULL, true, &stream), TARN_END);
    assert_string_equal(seen, "a,!!");
    assert_int_equal(stream.lost_bytes, t.size - 2048);
    tarball_reset(&t);
    free(rubbish);
}

/* Callers without an error struct get the status anyway. */
static void errors_may_go_nowhere(void **state)
{
    (void)state;
    build_damaged();
    tarn__window_chunk = 512;
    for (int lenient = 0; lenient < 2; lenient++)
        for (size_t at = 600; at < 6000; at += 512) {
            pipe_end p = {t.data, t.size, 0, 512, at, TARN_ERR_IO};
            tarn_source_calls calls = {sizeof(tarn_source_calls), &p, give, NULL};
            tarn_source_options source = through(&calls);
            tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
            tarn_tar *tar;
            tarn_member m;
            tarn_status status;
            o.lenient = lenient;
            o.source = &source;
            OK(tarn_tar_open("mine", &o, &tar, &err));
            do
                status = tarn_tar_next(tar, &m, NULL);
            while (status == TARN_OK);
            assert_true(status == TARN_ERR_IO || (!lenient && status == TARN_ERR_FORMAT));
            tarn_tar_close(tar);
            o.size = 1;
            FAILS(TARN_ERR_USAGE, "initialiser", tarn_tar_open("mine", &o, &tar, &err));
        }
    tarn__window_chunk = 256 << 10;
    tarball_reset(&t);
}

static int fresh(void **state)
{
    (void)state;
    tarball_reset(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(extended_headers_that_contradict_each_other_are_refused,
                               fresh),
        cmocka_unit_test_setup(global_headers_do_not_name_members, fresh),
        cmocka_unit_test_setup(long_names_have_a_limit, fresh),
        cmocka_unit_test_setup(slashes_that_programs_disagree_about_are_refused, fresh),
        cmocka_unit_test_setup(chains_after_damage_have_their_pax_sizes, fresh),
        cmocka_unit_test_setup(sizes_that_lead_nowhere_are_not_followed, fresh),
        cmocka_unit_test_setup(files_of_less_than_a_block_are_lost_as_a_whole, fresh),
        cmocka_unit_test_setup(a_stream_that_fails_is_not_a_damaged_one, fresh),
        cmocka_unit_test_setup(a_broken_compressed_stream_is_a_damaged_one, fresh),
        cmocka_unit_test_setup(garbage_after_the_end_may_be_long, fresh),
        cmocka_unit_test_setup(errors_may_go_nowhere, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
