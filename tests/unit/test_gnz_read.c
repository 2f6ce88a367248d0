/* Array files of other programs: exact headers, notes that belong to another file,
 * columns in slices, journals of every kind, and files that change while they are open.
 */
#include "support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "gnz/reader.h"
#include "gnz/writer.h"
#include "io/file.h"

static tarn_error err;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- Headers ------------------------------------------------------------------------ */

static tarn_status parse(const char *json, tarn__gnz_header *out)
{
    return tarn__gnz_parse(out, json, strlen(json), UINT64_C(1) << 40, &err);
}

#define X(shape) "{\"dtype\": \"<i8\", \"offset\": 4096, \"shape\": " shape "}"

static void arrays_are_taken_or_refused_by_their_fields(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        tarn_status want;
        const char *part;
    } cases[] = {
        {"{\"arrays\": {\"x\": " X("[2, 3]") "}, \"version\": 1}", TARN_OK, NULL},
        {"{\"arrays\": {\"x\": " X("[]") "}, \"version\": 1}", TARN_OK, NULL},
        {"{\"arrays\": {\"x\": " X("5") "}, \"version\": 1}", TARN_ERR_FORMAT,
         "array \"x\": shape is not a list"},
        {"{\"arrays\": {\"x\": {\"dtype\": \"<i8\", \"offset\": 4096}}, \"version\": 1}",
         TARN_ERR_FORMAT, "array \"x\": shape is not a list"},
        {"{\"arrays\": {\"x\": " X("[-1]") "}, \"version\": 1}", TARN_ERR_FORMAT,
         "dimension 0 is not a whole number"},
        {"{\"arrays\": {\"x\": " X("[1, 9223372036854775808]") "}, \"version\": 1}",
         TARN_ERR_FORMAT, "dimension 1 is not a whole number"},
        {"{\"arrays\": {\"x\": " X("[1152921504606846976]") "}, \"version\": 1}",
         TARN_ERR_LIMIT, "array \"x\""},
        {"{\"arrays\": [], \"version\": 1}", TARN_ERR_FORMAT, "is not an object"},
        {"{\"arrays\": {\"x\": 5}, \"version\": 1}", TARN_ERR_FORMAT,
         "array \"x\" is not an object"},
        {"{\"metadata\": 5, \"version\": 1}", TARN_ERR_FORMAT, "is not an object"},
        {"{\"version\": \"1\"}", TARN_ERR_FORMAT, "no version"},
        {"{\"version\": 2}", TARN_ERR_UNSUPPORTED, "version 2"},
        {"[]", TARN_ERR_FORMAT, "not a JSON object"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tarn__gnz_header h;
        tarn_status got = parse(cases[i].json, &h);
        if (cases[i].want == TARN_OK) {
            OK(got);
            tarn__gnz_header_reset(&h);
        } else {
            FAILS(cases[i].want, cases[i].part, got);
        }
        got =
            tarn__gnz_parse(&h, cases[i].json, strlen(cases[i].json) - 1, 1 << 20, NULL);
        assert_int_equal(got, TARN_ERR_FORMAT); /* cut off, without a known reason */
    }
}

static void names_of_arrays_have_a_limit(void **state)
{
    (void)state;
    size_t room = TARN_MAX_NAME + 200;
    char *json = malloc(room), *name = malloc(TARN_MAX_NAME + 2);
    memset(name, 'n', TARN_MAX_NAME + 1);
    name[TARN_MAX_NAME + 1] = '\0';
    for (int over = 0; over < 2; over++) {
        tarn__gnz_header h;
        snprintf(json, room,
                 "{\"arrays\": {\"%s\": {\"dtype\": \"<i8\", \"offset\": 131072, "
                 "\"shape\": [1]}}, \"version\": 1}",
                 name + !over);
        if (over) {
            FAILS(TARN_ERR_LIMIT, "TARN_MAX_NAME", parse(json, &h));
        } else {
            OK(parse(json, &h));
            assert_int_equal(h.entries[0].name_size, TARN_MAX_NAME);
            tarn__gnz_header_reset(&h);
        }
    }
    free(name);
    free(json);
}

/* Notes that do not fit their array are dropped. */
static void notes_that_do_not_fit_are_dropped(void **state)
{
    (void)state;
    static const struct {
        const char *array, *note;
        uint64_t reserved;
        bool has_checksum;
    } cases[] = {
        {X("[2, 3]"), "{\"rows\": 7, \"crc32c\": \"0123abcd\"}", 7, true},
        {X("[2, 3]"), "5", 2, false},
        {X("[2, 3]"), "{\"rows\": 2}", 2, false},
        {X("[2, 3]"), "{\"rows\": 1, \"crc32c\": \"0123ABCD\"}", 2, false},
        {X("[2, 3]"), "{\"rows\": \"7\", \"crc32c\": \"0123abc\"}", 2, false},
        {X("[2, 3]"), "{\"rows\": 1152921504606846976}", 2, false},
        {X("[2]"), "{\"rows\": 1152921504606846976}", 2, false},
        {X("[]"), "{\"rows\": 7, \"crc32c\": 5}", 1, false},
        {"{\"dtype\": \"<i8\", \"offset\": 4096, \"shape\": [2, 3], \"order\": \"F\"}",
         "{\"rows\": 7}", 2, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[600];
        tarn__gnz_header h;
        snprintf(json, sizeof json,
                 "{\"arrays\": {\"x\": %s}, \"metadata\": {\"" TARN_GNZ_RESERVED
                 "\": {\"arrays\": {\"x\": %s, \"gone\": {}}}, \"mine\": 1}, "
                 "\"version\": 1}",
                 cases[i].array, cases[i].note);
        OK(parse(json, &h));
        assert_int_equal(h.entries[0].reserved, cases[i].reserved);
        assert_int_equal(h.entries[0].has_checksum, cases[i].has_checksum);
        if (cases[i].has_checksum) assert_int_equal(h.entries[0].checksum, 0x0123abcd);
        assert_string_equal(h.metadata.data, "{\"mine\": 1}");
        tarn__gnz_header_reset(&h);
    }
}

static void room_of_more_than_63_bits_is_not_reserved(void **state)
{
    (void)state;
    tarn_gnz_writer *w;
    const uint64_t shape[] = {0};
    OK(tarn_gnz_writer_open(scratch_path("room.gnz"), NULL, &w, &err));
    FAILS(TARN_ERR_LIMIT, "2^63 bytes",
          tarn_gnz_writer_reserve(w, "x", (tarn_dtype){'<', 'i', 8}, 1, shape,
                                  UINT64_C(1) << 60, &err));
    FAILS(TARN_ERR_LIMIT, "2^63 bytes",
          tarn_gnz_writer_reserve(w, "x", (tarn_dtype){'<', 'i', 8}, 1, shape, UINT64_MAX,
                                  &err));
    tarn_gnz_writer_abandon(w);
}

/* --- Columns ------------------------------------------------------------------------ */

enum { PAGE = TARN_GNZ_PAGE };

static void make_file(const char *path, const char *json, const void *data, size_t size)
{
    unsigned char *bytes = calloc(1, PAGE + size);
    size_t len = strlen(json);
    assert_true(len <= PAGE - 8);
    memcpy(bytes, "GNZ1", 4);
    tarn__put32(bytes + 4, (uint32_t)len);
    memcpy(bytes + 8, json, len);
    if (size) memcpy(bytes + PAGE, data, size);
    write_file(path, bytes, PAGE + size);
    free(bytes);
}

static tarn_gnz *open_file(const char *path, bool mapped)
{
    tarn_gnz_options o = TARN_GNZ_OPTIONS_INIT;
    tarn_gnz *g;
    o.io = mapped ? TARN_IO_AUTO : TARN_IO_READ;
    OK(tarn_gnz_open(path, &o, &g, &err));
    return g;
}

/* Element [i][k] of the array in the file is at k * rows + i. */
static void columns_are_read_as_rows(void **state)
{
    (void)state;
    /* Rows larger than one piece (a MiB), and elements larger than one piece. */
    static const struct {
        uint64_t rows, columns;
        uint32_t item;
    } cases[] = {{5, 3, 4}, {300000, 2, 4}, {3, 2, (1 << 20) + 4}, {7, 1, 4}};
    for (size_t n = 0; n < COUNT(cases); n++) {
        uint64_t rows = cases[n].rows, columns = cases[n].columns, item = cases[n].item;
        char json[200];
        unsigned char *data = calloc(rows * columns, item), *out;
        for (uint64_t i = 0; i < rows * columns; i++)
            tarn__put32(data + i * item, (uint32_t)i);
        snprintf(
            json, sizeof json,
            "{\"arrays\": {\"f\": {\"dtype\": \"|S%u\", \"offset\": 4096, \"order\": "
            "\"F\", \"shape\": [%llu, %llu]}}, \"version\": 1}",
            cases[n].item, (unsigned long long)rows, (unsigned long long)columns);
        char *path = strdup(scratch_path("columns.gnz"));
        make_file(path, json, data, rows * columns * item);
        for (int mapped = 0; mapped < 2; mapped++) {
            tarn_gnz *g = open_file(path, mapped);
            tarn_view view;
            out = malloc(rows * columns * item);
            OK(tarn_gnz_read(g, 0, 1, rows - 1, out, rows * columns * item, &err));
            for (uint64_t i = 0; i < rows - 1; i++)
                for (uint64_t k = 0; k < columns; k++)
                    if (tarn__get32(out + (i * columns + k) * item) != k * rows + i + 1)
                        fail_msg("row %llu, column %llu", (unsigned long long)i,
                                 (unsigned long long)k);
            OK(tarn__gnz_view_row(g, 0, rows - 1, &view, &err));
            assert_int_equal(view.size, columns * item);
            assert_int_equal(tarn__get32(view.data), rows - 1);
            tarn_view_release(&view);
            tarn_gnz_advise(g, 0, 0, rows, TARN_GNZ_WILL_NEED);
            free(out);
            tarn_gnz_close(g);
        }
        free(path);
        free(data);
    }
}

/* Element [i][j][k] is at i + 3 * (j + 2 * k), and in a row the last index runs fastest.
 */
static void columns_of_three_dimensions_are_read_as_rows(void **state)
{
    (void)state;
    static const char json[] =
        "{\"arrays\": {\"f\": {\"dtype\": \"|u1\", \"offset\": 4096, \"order\": \"F\", "
        "\"shape\": [3, 2, 4]}}, \"version\": 1}";
    const char *path = scratch_path("cube.gnz");
    unsigned char data[24], out[24];
    for (unsigned char i = 0; i < 24; i++)
        data[i] = i;
    make_file(path, json, data, sizeof data);
    tarn_gnz *g = open_file(path, false);
    OK(tarn_gnz_read(g, 0, 0, 3, out, sizeof out, &err));
    for (unsigned i = 0; i < 3; i++)
        for (unsigned j = 0; j < 2; j++)
            for (unsigned k = 0; k < 4; k++)
                assert_int_equal(out[i * 8 + j * 4 + k], i + 3 * (j + 2 * k));
    tarn_gnz_close(g);
}

/* With one dimension both orders are the same. */
static void order_of_one_dimension_means_nothing(void **state)
{
    (void)state;
    static const char json[] =
        "{\"arrays\": {\"f\": {\"dtype\": \"|S1\", \"offset\": 4096, \"order\": \"F\", "
        "\"shape\": [5]}}, \"version\": 1}";
    const char *path = scratch_path("line.gnz");
    make_file(path, json, "01234", 5);
    for (int mapped = 0; mapped < 2; mapped++) {
        tarn_gnz *g = open_file(path, mapped);
        tarn_view view;
        char out[5];
        OK(tarn_gnz_read(g, 0, 1, 3, out, sizeof out, &err));
        assert_memory_equal(out, "123", 3);
        OK(tarn__gnz_view_row(g, 0, 4, &view, &err));
        assert_memory_equal(view.data, "4", 1);
        tarn_view_release(&view);
        FAILS(TARN_ERR_NO_FIELD, "no array number 1",
              tarn_gnz_read(g, 1, 0, 0, out, sizeof out, &err));
        FAILS(TARN_ERR_NO_FIELD, "no array number 1",
              tarn__gnz_view_row(g, 1, 0, &view, &err));
        size_t number;
        FAILS(TARN_ERR_NO_FIELD, "no array \"g\"", tarn_gnz_find(g, "g", &number, &err));
        tarn_gnz_close(g);
    }
}

/* --- Files that change -------------------------------------------------------------- */

static void a_file_that_became_shorter_is_reported(void **state)
{
    (void)state;
    static const char json[] =
        "{\"arrays\": {\"c\": {\"dtype\": \"|S1\", \"offset\": 4096, \"shape\": [9000]}, "
        "\"f\": {\"dtype\": \"|S1\", \"offset\": 16384, \"order\": \"F\", \"shape\": "
        "[3000, 3]}}, \"version\": 1}";
    static const char data[12288 + 9000];
    const char *path = scratch_path("short.gnz");
    for (int mapped = 0; mapped < 2; mapped++) {
        tarn_gnz_view whole;
        tarn_view view;
        char out[9000];
        make_file(path, json, data, sizeof data);
        tarn_gnz *g = open_file(path, mapped);
        assert_int_equal(truncate(path, 16384 + 4000), 0);
        FAILS(TARN_ERR_TRUNCATED, "truncated while it was open",
              tarn_gnz_get(g, 0, TARN_GNZ_READ, &whole, &err));
        FAILS(TARN_ERR_TRUNCATED, "truncated while it was open",
              tarn_gnz_get(g, 0, TARN_GNZ_COPY, &whole, &err));
        FAILS(TARN_ERR_TRUNCATED, "", tarn_gnz_read(g, 1, 0, 3000, out, 9000, &err));
        FAILS(TARN_ERR_TRUNCATED, "", tarn__gnz_view_row(g, 1, 2999, &view, &err));
        assert_null(view.data);
        /* The remaining part is not returned either: it may be truncated next. */
        FAILS(TARN_ERR_TRUNCATED, "truncated while it was open",
              tarn_gnz_read(g, 0, 0, 9000, out, 9000, &err));
        tarn_gnz_close(g);
    }
}

static void a_torn_map_is_not_read_again(void **state)
{
    (void)state;
    static const char json[] = "{\"arrays\": {\"c\": {\"dtype\": \"|S1\", \"offset\": "
                               "4096, \"shape\": [9000]}}, "
                               "\"version\": 1}";
    static const char data[9000] = {'x'};
    const char *path = scratch_path("torn.gnz");
    tarn_view view;
    make_file(path, json, data, sizeof data);
    if (!tarn_guard_maps()) skip();
    tarn_gnz *g = open_file(path, true);
    OK(tarn__gnz_view_row(g, 0, 0, &view, &err));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(((volatile const unsigned char *)view.data)[0], 0);
    assert_int_equal(truncate(path, PAGE + sizeof data), 0);
    FAILS(TARN_ERR_STALE, "truncated while it was in use",
          tarn__gnz_view_row(g, 0, 0, &view, &err));
    tarn_gnz_close(g);
}

/* --- Journals ----------------------------------------------------------------------- */

static tarn_status apply(const char *path, bool *applied)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    tarn_status status = tarn__gnz_journal_apply(path, fd, applied, &err);
    close(fd);
    return status;
}

#define EMPTY "{\"arrays\": {}, \"version\": 1}"

/* The new header of a journal is checked before it replaces the old one. */
static void new_headers_in_journals_are_checked(void **state)
{
    (void)state;
    const char *path = scratch_path("new.gnz");
    char before[64] = {0}, after[64];
    bool applied;
    make_file(path, EMPTY, NULL, 0);
    size_t size;
    unsigned char *bytes = read_file(path, &size);
    memcpy(before, bytes, sizeof before);
    static const struct {
        const char *json;
        uint32_t length; /* as stated */
        size_t heads;    /* bytes of a header in the journal */
        uint64_t cut;
        tarn_status want;
        const char *part;
    } cases[] = {
        {EMPTY, sizeof EMPTY - 1, 64, 0, TARN_OK, NULL},
        {EMPTY, sizeof EMPTY - 1, 64, 4096, TARN_OK, NULL},
        {EMPTY, sizeof EMPTY - 1, 7, 0, TARN_ERR_FORMAT, "longer than the journal"},
        {EMPTY, 57, 64, 0, TARN_ERR_FORMAT, "longer than the journal"},
        {"[]", 2, 64, 0, TARN_ERR_FORMAT, "not a JSON object"},
        {EMPTY, sizeof EMPTY - 1, 64, UINT64_C(1) << 63, TARN_ERR_IO, "cannot truncate"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        write_file(path, bytes, size);
        memset(after, 0, sizeof after);
        memcpy(after, "GNZ1", 4);
        tarn__put32(after + 4, cases[i].length);
        memcpy(after + 8, cases[i].json, strlen(cases[i].json));
        OK(tarn__gnz_journal_write(path, before, after, cases[i].heads, cases[i].cut,
                                   &err));
        tarn_status got = apply(path, &applied);
        if (cases[i].want == TARN_OK)
            OK(got);
        else
            FAILS(cases[i].want, cases[i].part, got);
        assert_int_equal(applied, cases[i].want == TARN_OK);
        size_t now_size;
        unsigned char *now = read_file(path, &now_size);
        assert_int_equal(now_size, size);
        assert_memory_equal(now, bytes, size);
        free(now);
    }
    assert_true(tarn__gnz_journal_remove(path));
    free(bytes);
}

static void journals_longer_than_their_file_are_refused(void **state)
{
    (void)state;
    const char *path = scratch_path("long.gnz");
    char *head = calloc(1, 2 * PAGE);
    bool applied;
    make_file(path, EMPTY, NULL, 0);
    OK(tarn__gnz_journal_write(path, head, head, 2 * PAGE, 0, &err));
    FAILS(TARN_ERR_TRUNCATED, "", apply(path, &applied));
    assert_false(applied);
    free(head);
    /* A folder is not a journal. */
    assert_true(tarn__gnz_journal_remove(path));
    assert_true(tarn__gnz_journal_remove(path));
    assert_int_equal(mkdir(scratch_path(".long.gnz.journal"), 0777), 0);
    assert_int_not_equal(apply(path, &applied), TARN_OK);
    assert_false(applied);
    assert_false(tarn__gnz_journal_remove(path));
    assert_int_equal(rmdir(scratch_path(".long.gnz.journal")), 0);
}

static void a_damaged_header_with_a_journal_says_what_to_do(void **state)
{
    (void)state;
    const char *path = scratch_path("half.gnz");
    char head[64] = {0};
    tarn_gnz_options o = TARN_GNZ_OPTIONS_INIT;
    tarn_gnz *g;
    make_file(path, "{\"arrays\": {}", NULL, 0);
    FAILS(TARN_ERR_FORMAT, "JSON", tarn_gnz_open(path, NULL, &g, &err));
    assert_null(strstr(err.message, "repair"));
    OK(tarn__gnz_journal_write(path, head, head, sizeof head, 0, &err));
    FAILS(TARN_ERR_FORMAT, "verify with repair fixes the file",
          tarn_gnz_open(path, NULL, &g, &err));
    assert_int_equal(tarn_gnz_open(path, NULL, &g, NULL), TARN_ERR_FORMAT);
    assert_null(g);
    assert_true(tarn__gnz_journal_remove(path));
    o.size = 1;
    FAILS(TARN_ERR_USAGE, "initialiser", tarn_gnz_open(path, &o, &g, &err));
}

static void where_no_journal_can_exist_there_is_none(void **state)
{
    (void)state;
    char path[400];
    bool there = true;
    write_file(scratch_path("plain"), "x", 1);
    snprintf(path, sizeof path, "%s/under", scratch_path("plain"));
    OK(tarn__gnz_journal_find(path, &there, &err));
    assert_false(there);
    /* Nor if its name would be too long for the file system. */
    char name[252];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memcpy(name + sizeof name - 5, ".gnz", 4);
    make_file(scratch_path(name), EMPTY, NULL, 0);
    OK(tarn__gnz_journal_find(scratch_path(name), &there, &err));
    assert_false(there);
    tarn_verify_report report;
    OK(tarn_verify(scratch_path(name), NULL, &report, sizeof report, &err));
    assert_int_equal(report.problems, 0);
    /* A path that is too long as a whole proves nothing: the file may exist under another
     * path. */
    char *deep = malloc(5000);
    for (size_t i = 0; i < 4980; i++)
        deep[i] = i % 2 ? '/' : '.';
    snprintf(deep + 4980, 20, "x.gnz");
    FAILS(TARN_ERR_IO, "cannot check for a journal",
          tarn__gnz_journal_find(deep, &there, &err));
    free(deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_taken_or_refused_by_their_fields),
        cmocka_unit_test(names_of_arrays_have_a_limit),
        cmocka_unit_test(notes_that_do_not_fit_are_dropped),
        cmocka_unit_test(room_of_more_than_63_bits_is_not_reserved),
        cmocka_unit_test(columns_are_read_as_rows),
        cmocka_unit_test(columns_of_three_dimensions_are_read_as_rows),
        cmocka_unit_test(order_of_one_dimension_means_nothing),
        cmocka_unit_test(a_file_that_became_shorter_is_reported),
        cmocka_unit_test(a_torn_map_is_not_read_again),
        cmocka_unit_test(new_headers_in_journals_are_checked),
        cmocka_unit_test(journals_longer_than_their_file_are_refused),
        cmocka_unit_test(a_damaged_header_with_a_journal_says_what_to_do),
        cmocka_unit_test(where_no_journal_can_exist_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
