/* Positions of members with an incomplete index: gaps with extended headers, keys by the
 * header alone, and sums whose parts do not fit. */
#include "support.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "itar/locate.h"
#include "itar/sums.h"

static tarn_error err;
static tarball t;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- Gaps --------------------------------------------------------------------------- */

/* Publishes t as a fold of one shard, read leniently, and returns how many rows it has.
 */
static uint64_t publish(const char *folder, bool sums)
{
    char sums_path[300];
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.sums = sums;
    o.lenient = true;
    o.threads = 1;
    uint64_t rows = publish_fold(&t, folder, &o);
    snprintf(sums_path, sizeof sums_path, "%s/f.tarsum", folder);
    if (!sums) remove(sums_path);
    return rows;
}

static void assert_holds(const char *folder, const char *key, const char *want)
{
    tarn_dataset *fold;
    tarn_view view;
    uint64_t sample;
    uint32_t field;
    OK(tarn_dataset_open(folder, NULL, &fold, &err));
    OK(tarn_dataset_find(fold, (const char *const[]){key}, 1, &sample, NULL, &err));
    OK(tarn_dataset_field_find(fold, "txt", &field, &err));
    OK(tarn_dataset_get(fold, sample, field, &view, &err));
    assert_int_equal(view.size, strlen(want));
    assert_memory_equal(view.data, want, view.size);
    tarn_view_release(&view);
    tarn_dataset_close(fold);
}

static const char long_name[] =
    "a/folder/whose/name/is/so/long/that/the/name/of/a/file/in/it/does/not/fit/the/field/"
    "of/a/header/kiwi.txt";

/* Everything between two members that is not a member. */
typedef enum gap {
    GAP_NAME,      /* the name of the second */
    GAP_LINK,      /* a long link name before it */
    GAP_DIRECTORY, /* a folder with its own long name */
    GAP_DAMAGE,    /* an invalid header, and its payload */
    GAP_FAR,       /* more of that than is searched */
    GAP_MANY,      /* damage, and a folder with a GNU long name */
    GAPS
} gap;

static void add_gap(gap which)
{
    size_t far = 3 << 20;
    unsigned char *rubbish = malloc(far);
    memset(rubbish, '?', far);
    if (which == GAP_LINK) tarball_extended(&t, 'K', long_name, sizeof long_name);
    if (which == GAP_DIRECTORY) {
        tarball_pax(&t, 'x', "path", "another/folder");
        tarball_header(&t, "d", '5', 0);
    }
    if (which == GAP_DAMAGE || which == GAP_FAR || which == GAP_MANY) {
        size_t size = which == GAP_FAR ? far : 700;
        tarball_header(&t, "lost.txt", '0', size);
        tarball_last(&t)[0] ^= 1;
        tarball_payload(&t, rubbish, size);
        tarball_header(&t, "d", '5', 0); /* so that no name is uncertain */
    }
    if (which == GAP_MANY) {
        tarball_extended(&t, 'L', long_name, sizeof long_name);
        tarball_header(&t, "e", '5', 0);
    }
    free(rubbish);
}

static void names_are_found_after_any_gap(void **state)
{
    (void)state;
    char *folder = strdup(scratch_path("gap"));
    for (int which = 0; which < GAPS; which++)
        for (int way = 0; way < 4; way++) {
            tarball_file(&t, "emu.txt", "an emu");
            add_gap((gap)which);
            if (way & 1) {
                tarball_pax(&t, 'x', "path", long_name);
            } else {
                if (which == GAP_LINK) t.size -= 1024; /* after the name, too */
                tarball_extended(&t, 'L', long_name, sizeof long_name);
                if (which == GAP_LINK) tarball_extended(&t, 'K', "to where", 9);
            }
            if (way & 1 && which == GAP_LINK) { /* the two contradict each other */
                tarball_reset(&t);
                continue;
            }
            tarball_file(&t, "cut", "a kiwi");
            tarball_file(&t, "moa.txt", "a moa");
            tarball_end(&t);
            if (publish(folder, way & 2) != 3) fail_msg("gap %d, way %d", which, way);
            assert_holds(folder, "emu", "an emu");
            assert_holds(folder, "kiwi", "a kiwi");
            assert_holds(folder, "moa", "a moa");
            tarball_reset(&t);
        }
    free(folder);
}

/* --- Keys by the header alone ------------------------------------------------------- */

static uint64_t length_hash(const char *stem, size_t len)
{
    (void)stem;
    return len;
}

static void keys_are_taken_from_plain_headers_only(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        tarn_keys rule;
        const char *key; /* NULL: the header is not sufficient */
    } cases[] = {
        {"kiwi.txt", TARN_KEYS_BASE, "kiwi"},
        {"kiwi.seg.txt", TARN_KEYS_BASE, "kiwi"},
        {"a.b/kiwi.txt", TARN_KEYS_BASE, "kiwi"},
        {"a.b/kiwi.txt", TARN_KEYS_PATH, "a.b/kiwi"},
        {"kiwi", TARN_KEYS_BASE, NULL},
        {"a.b/kiwi", TARN_KEYS_BASE, NULL},
        {"ki wi.txt", TARN_KEYS_BASE, NULL},
        {"k\xc3\xadwi.txt", TARN_KEYS_BASE, NULL},
        {"ki\x7fwi.txt", TARN_KEYS_BASE, NULL},
        {".txt", TARN_KEYS_BASE, ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tarn__sums sums = {.keys = cases[i].rule};
        tarn_index index = {.sums = &sums};
        tarn__place place = {NULL, &index, length_hash, false};
        unsigned char header[512] = {0};
        tarn_row row = {0};
        tarn__key key;
        memcpy(header, cases[i].name, strlen(cases[i].name));
        row.keyhash = cases[i].key ? strlen(cases[i].key) : 4;
        if (tarn__locate_plain_key(&place, 0, &row, header, &key) != !!cases[i].key)
            fail_msg("%s", cases[i].name);
        if (!cases[i].key) continue;
        assert_int_equal(key.stem_len, strlen(cases[i].key));
        assert_memory_equal(key.stem, cases[i].key, key.stem_len);
        /* Each of these makes it uncertain. */
        row.keyhash++;
        assert_false(tarn__locate_plain_key(&place, 0, &row, header, &key));
        row.keyhash--;
        row.offset = 512;
        assert_false(tarn__locate_plain_key(&place, 0, &row, header, &key));
        row.offset = 0;
        header[345] = 'p';
        assert_false(tarn__locate_plain_key(&place, 0, &row, header, &key));
        header[345] = 0;
        index.collisions.count = 1;
        assert_false(tarn__locate_plain_key(&place, 0, &row, header, &key));
        index.collisions.count = 0;
        index.sums = NULL;
        assert_false(tarn__locate_plain_key(&place, 0, &row, header, &key));
    }
    /* A name that fills its field may continue elsewhere. */
    tarn__sums sums = {.keys = TARN_KEYS_BASE};
    tarn_index index = {.sums = &sums};
    tarn__place place = {NULL, &index, length_hash, false};
    unsigned char header[512];
    tarn__key key;
    memset(header, 'n', sizeof header);
    header[50] = '.';
    assert_false(tarn__locate_name_key(&place, header, &key));
    header[99] = 0;
    assert_true(tarn__locate_name_key(&place, header, &key));
    assert_int_equal(key.stem_len, 50);
}

/* --- Sums --------------------------------------------------------------------------- */

/* Corrects the checksum over the head of a .tarsum. */
static void seal(unsigned char *bytes, uint64_t rows_at)
{
    uint32_t self = tarn__crc32c(0, bytes, 124);
    self = tarn__crc32c(self, bytes + 128, rows_at - 128);
    tarn__put32(bytes + 124, self);
}

static void sums_whose_parts_do_not_fit_are_refused(void **state)
{
    (void)state;
    enum { NAMES_SIZE = 40, PAGES_AT = 48, ORDER_AT = 56, SUMS_AT = 64, SIZE = 72 };
    static const struct {
        int at;
        uint64_t value;
        const char *part; /* NULL: the one to count from */
    } cases[] = {
        {NAMES_SIZE, UINT64_MAX, "do not add up"},
        {NAMES_SIZE, UINT64_MAX - 163, "do not add up"}, /* no space to round up */
        {NAMES_SIZE, 100, "do not add up"},
        {PAGES_AT, 0, "do not add up"},
        {ORDER_AT, 0, "do not add up"},
        {SUMS_AT, 0, "do not add up"},
        {SIZE, 0, "do not add up"},
        {16, UINT64_MAX, "impossible count"},
        {16, 1, "do not add up"},
    };
    const char *path = scratch_path("sums/f.tarsum");
    size_t size;
    tarn__sums *s;
    for (int i = 0; i < 3; i++)
        tarball_file(&t, i == 0 ? "a.txt" : i == 1 ? "b.txt" : "c.txt", "text");
    tarball_end(&t);
    publish(scratch_path("sums"), true);
    tarball_reset(&t);
    unsigned char *bytes = read_file(path, &size), *copy = malloc(size);
    for (size_t i = 0; i < COUNT(cases); i++) {
        memcpy(copy, bytes, size);
        tarn__put64(copy + cases[i].at, cases[i].value);
        write_file(path, copy, size);
        FAILS(TARN_ERR_FORMAT, cases[i].part, tarn__sums_load(path, &s, &err));
    }
    /* Pages where rounding up still works, but nothing after them does. */
    memcpy(copy, bytes, size);
    uint64_t names_at = tarn__get64(copy + 32), last = UINT64_MAX - 7;
    tarn__put64(copy + NAMES_SIZE, last - names_at);
    tarn__put64(copy + PAGES_AT, last);
    write_file(path, copy, size);
    FAILS(TARN_ERR_FORMAT, "do not add up", tarn__sums_load(path, &s, &err));
    /* Names, with a matching checksum. */
    static const struct {
        const char *name;
        const char *part;
    } names[] = {{"f_0.tar", NULL},
                 {"\n_0.tar", "more names"},
                 {"f_0.ta\n", "more names"},
                 {"f_0\ntar", "more names"}};
    for (size_t i = 0; i < COUNT(names); i++) {
        memcpy(copy, bytes, size);
        memcpy(copy + names_at, names[i].name, 7);
        seal(copy, tarn__get64(copy + ORDER_AT));
        write_file(path, copy, size);
        tarn_status got = tarn__sums_load(path, &s, &err);
        if (names[i].part) {
            FAILS(TARN_ERR_FORMAT, names[i].part, got);
        } else {
            OK(got);
            tarn__sums_free(s);
        }
    }
    free(copy);
    free(bytes);
}

static void sums_are_beside_their_index(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"x/f.taridx", "x/f.tarsum"},
                                           {".taridx", ".tarsum"},
                                           {"f", "f.tarsum"},
                                           {"f.TARIDX", "f.TARIDX.tarsum"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *path = tarn__sums_path(cases[i][0]);
        assert_string_equal(path, cases[i][1]);
        free(path);
    }
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
        cmocka_unit_test_setup(names_are_found_after_any_gap, fresh),
        cmocka_unit_test(keys_are_taken_from_plain_headers_only),
        cmocka_unit_test_setup(sums_whose_parts_do_not_fit_are_refused, fresh),
        cmocka_unit_test(sums_are_beside_their_index),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
