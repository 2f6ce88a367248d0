/* IAC files with an index from other programs: spans of every number type, invalid
 * columns, records with every kind of error, and files that change while they are open.
 */
#include "support.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/crc.h"
#include "iac/file.h"
#include "iac/header.h"
#include "iac/ipc_write.h"
#include "io/file.h"

static tarn_error err;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- Files made by hand ------------------------------------------------------------- */

enum { MOST_COLUMNS = 4 };

typedef struct column {
    const char *name, *format;
    const void *values;
    const unsigned char *validity; /* or NULL */
    bool dictionary;               /* of the texts "a" and "bb" */
} column;

static struct ArrowSchema texts_schema = {.format = "u", .name = ""};
static const int32_t text_offsets[] = {0, 1, 3};
static const void *text_buffers[] = {NULL, text_offsets, "abb"};
static struct ArrowArray texts = {.length = 2, .n_buffers = 3, .buffers = text_buffers};

/* A table with these columns, in batches of this many rows. */
static void put_table(tarn__buf *out, const column *columns, size_t count, int64_t rows,
                      int64_t at_once)
{
    struct ArrowSchema fields[MOST_COLUMNS], *field[MOST_COLUMNS];
    struct ArrowArray arrays[MOST_COLUMNS], *array[MOST_COLUMNS];
    const void *buffers[MOST_COLUMNS][2], *none[1] = {NULL};
    struct ArrowSchema root = {
        .format = "+s", .n_children = (int64_t)count, .children = field};
    struct ArrowArray all = {
        .n_buffers = 1, .buffers = none, .n_children = (int64_t)count, .children = array};
    tarn__ipc_writer w;
    for (size_t i = 0; i < count; i++) {
        const column *c = &columns[i];
        fields[i] = (struct ArrowSchema){.format = c->format, .name = c->name};
        arrays[i] = (struct ArrowArray){.length = rows,
                                        .null_count = c->validity ? -1 : 0,
                                        .n_buffers = 2,
                                        .buffers = buffers[i]};
        buffers[i][0] = c->validity;
        buffers[i][1] = c->values;
        if (c->dictionary) {
            fields[i].dictionary = &texts_schema;
            arrays[i].dictionary = &texts;
        }
        field[i] = &fields[i];
        array[i] = &arrays[i];
    }
    OK(tarn__ipc_begin(&w, &root, out, &err));
    for (int64_t from = 0; from < rows; from += at_once) {
        all.offset = from;
        all.length = rows - from < at_once ? rows - from : at_once;
        OK(tarn__ipc_batch(&w, &all, &err));
    }
    OK(tarn__ipc_end(&w, &err));
    tarn__ipc_reset(&w);
}

typedef struct making {
    const column *columns;
    size_t count;
    int64_t rows, at_once;
    const void *data;
    size_t size;
    const char *header; /* more fields of it, or NULL */
} making;

static void make_pack(const char *path, const making *p)
{
    static unsigned char head[TARN_IAC_HEADER_BYTES];
    tarn__buf out;
    tarn__iac_header h = {.version = 2, .slide_table_offset = TARN_IAC_HEADER_BYTES};
    tarn__buf_init(&out, 16 << 20);
    OK(tarn__buf_add(&out, head, sizeof head, &err));
    put_table(&out, NULL, 0, 0, 1);
    h.slide_table_length = out.size - h.slide_table_offset;
    h.index_table_offset = out.size;
    put_table(&out, p->columns, p->count, p->rows, p->at_once);
    h.index_table_length = out.size - h.index_table_offset;
    h.data_offset = out.size;
    h.data_length = p->size;
    h.num_records = (uint64_t)p->rows;
    OK(tarn__buf_add(&out, p->data, p->size, &err));
    tarn__iac_caller c = {p->header, p->header ? strlen(p->header) : 0, .in_order = true};
    OK(tarn__iac_header_make((unsigned char *)out.data, &h, &c, &err));
    write_file(path, out.data, out.size);
    tarn__buf_reset(&out);
}

static tarn_iac *open_pack(const char *path, bool no_map, bool check)
{
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_iac *pack;
    o.no_map = no_map;
    o.check = check;
    OK(tarn_iac_open(path, &o, &pack, &err));
    return pack;
}

static void assert_record(tarn_iac *pack, uint64_t row, const void *want, size_t size)
{
    tarn_view view;
    OK(tarn_iac_view(pack, row, false, &view, &err));
    assert_int_equal(view.size, size);
    assert_memory_equal(view.data, want, size);
    tarn_view_release(&view);
}

/* --- Spans -------------------------------------------------------------------------- */

/* Two numbers of this width. */
static const void *pair(int64_t a, int64_t b, size_t width)
{
    static unsigned char kept[4][16];
    static unsigned next;
    unsigned char *out = kept[next++ % 4];
    memcpy(out, &a, width);
    memcpy(out + width, &b, width);
    return out;
}

static void spans_may_be_integers_of_any_width(void **state)
{
    (void)state;
    static const char *const formats[] = {"c", "C", "s", "S", "i", "I", "l", "L"};
    static unsigned char data[70000];
    const char *path = scratch_path("width.iac");
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t i = 0; i < COUNT(formats); i++) {
        size_t width = (size_t)1 << i / 2;
        int64_t at = width == 1 ? 100 : 30000;
        column columns[] = {
            {.name = "offset", .format = formats[i], .values = pair(at, 3, width)},
            {.name = "length", .format = formats[i], .values = pair(20, 0, width)}};
        making p = {columns, 2, 2, 2, data, sizeof data, NULL};
        make_pack(path, &p);
        tarn_iac *pack = open_pack(path, i % 2, false);
        assert_record(pack, 0, data + at, 20);
        assert_record(pack, 1, data + 3, 0);
        tarn_iac_close(pack);
    }
}

/* A signed value must not be mistaken for a large number that happens to fit. */
static void negative_spans_are_outside_the_data(void **state)
{
    (void)state;
    static const char *const formats[] = {"c", "s", "i", "l"};
    static const unsigned char data[70000] = {0};
    const char *path = scratch_path("negative.iac");
    tarn_view view;
    for (size_t i = 0; i < COUNT(formats); i++) {
        size_t width = (size_t)1 << i;
        for (int which = 0; which < 2; which++) {
            column columns[] = {{.name = "offset",
                                 .format = formats[i],
                                 .values = pair(which ? 1 : -100, 0, width)},
                                {.name = "length",
                                 .format = formats[i],
                                 .values = pair(which ? -100 : 1, 0, width)}};
            making p = {columns, 2, 2, 2, data, sizeof data, NULL};
            make_pack(path, &p);
            tarn_iac *pack = open_pack(path, false, false);
            FAILS(TARN_ERR_FORMAT, "record 0 is outside the data segment",
                  tarn_iac_view(pack, 0, false, &view, &err));
            assert_record(pack, 1, data, 0);
            tarn_iac_close(pack);
        }
    }
}

static void columns_of_spans_must_be_integers_without_nulls(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, 1};
    static const double reals[] = {0, 1};
    static const signed char indices[] = {0, 1};
    static const unsigned char one_null[] = {1}, no_null[] = {3};
    static const column good = {.name = "length", .format = "l", .values = numbers};
    static const struct {
        column first, second;
        tarn_status want;
        const char *part;
    } cases[] = {
        {{.name = "offset", .format = "l", .values = numbers}, {0}, TARN_OK, NULL},
        {{.name = "offset", .format = "l", .values = numbers, .validity = no_null},
         {0},
         TARN_OK,
         NULL},
        {{.name = "offset", .format = "l", .values = numbers, .validity = one_null},
         {0},
         TARN_ERR_FORMAT,
         "column offset of the index does not hold integers, or has nulls"},
        {{.name = "offset", .format = "g", .values = reals},
         {0},
         TARN_ERR_FORMAT,
         "column offset of the index does not hold integers"},
        {{.name = "offset", .format = "tDs", .values = numbers},
         {0},
         TARN_ERR_FORMAT,
         "column offset of the index does not hold integers"},
        {{.name = "offset", .format = "c", .values = indices, .dictionary = true},
         {0},
         TARN_ERR_FORMAT,
         "column offset of the index does not hold integers"},
        {{.name = "offset", .format = "l", .values = numbers},
         {.name = "crc32", .format = "g", .values = reals},
         TARN_ERR_FORMAT,
         "column crc32 of the index does not hold integers"},
        {{.name = "offset", .format = "l", .values = numbers},
         {.name = "offset", .format = "l", .values = numbers},
         TARN_ERR_AMBIGUOUS,
         "two columns named offset"},
        {{.name = "offset", .format = "l", .values = numbers},
         {.name = "length", .format = "l", .values = numbers},
         TARN_ERR_AMBIGUOUS,
         "two columns named length"},
    };
    const char *path = scratch_path("columns.iac");
    tarn_iac_options check = TARN_IAC_OPTIONS_INIT;
    check.check = true;
    for (size_t i = 0; i < COUNT(cases); i++) {
        column columns[] = {cases[i].first, good, cases[i].second};
        making p = {columns, cases[i].second.name ? 3 : 2, 2, 2, "abc", 3, NULL};
        tarn_verify_report report;
        tarn_iac *pack;
        tarn_view view;
        make_pack(path, &p);
        OK(tarn_iac_open(path, &check, &pack, &err));
        if (cases[i].want == TARN_OK) {
            assert_record(pack, 1, "b", 1);
        } else {
            FAILS(cases[i].want, cases[i].part,
                  tarn_iac_view(pack, 1, false, &view, &err));
            assert_string_equal(err.path, path);
            OK(tarn_iac_view_span(pack, 1, 2, &view, &err));
            assert_memory_equal(view.data, "bc", 2);
            tarn_view_release(&view);
            OK(tarn_iac_value(pack, TARN_IAC_INDEX, 0, 1, &view, &err));
            tarn_view_release(&view);
        }
        OK(tarn_verify(path, NULL, &report, sizeof report, &err));
        assert_int_equal(report.problems, cases[i].want != TARN_OK);
        tarn_iac_close(pack);
    }
}

static void a_checksum_that_is_not_an_integer_only_prevents_checks(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, 1};
    static const double reals[] = {0, 1};
    static const column columns[] = {{.name = "offset", .format = "l", .values = numbers},
                                     {.name = "length", .format = "l", .values = numbers},
                                     {.name = "crc32", .format = "g", .values = reals}};
    static const uint64_t row = 1;
    const char *path = scratch_path("sums.iac");
    making p = {columns, 3, 2, 2, "abc", 3, NULL};
    tarn_iac_batch batch = {0};
    tarn_iac_info info;
    make_pack(path, &p);
    tarn_iac *pack = open_pack(path, false, false);
    tarn_iac_info_get(pack, &info, sizeof info);
    assert_true(info.has_spans && !info.has_checksums);
    assert_record(pack, 1, "b", 1);
    OK(tarn_iac_read(pack, &row, 1, &batch, &err));
    tarn_iac_close(pack);
    pack = open_pack(path, false, true);
    FAILS(TARN_ERR_FORMAT, "column crc32 of the index does not hold integers",
          tarn_iac_read(pack, &row, 1, &batch, &err));
    tarn_iac_batch_reset(&batch);
    tarn_iac_close(pack);
}

/* Rows of a matrix are found by their size: the columns belong to the caller. */
static void useless_spans_are_not_damage_in_a_matrix(void **state)
{
    (void)state;
    static const double reals[] = {0.5, 1.5};
    static const column columns[] = {{.name = "offset", .format = "g", .values = reals},
                                     {.name = "length", .format = "g", .values = reals}};
    const char *path = scratch_path("matrix.iac"), *to = scratch_path("again.iac");
    making p = {columns, 2, 2, 2, "abcd", 4, "{\"feature_record_bytes\": 2}"};
    tarn_verify_report report;
    tarn_iac_info info;
    make_pack(path, &p);
    OK(tarn_verify(path, NULL, &report, sizeof report, &err));
    assert_int_equal(report.problems, 0);
    OK(tarn_iac_rewrite(path, to, NULL, &err));
    tarn_iac *pack = open_pack(to, false, false);
    tarn_iac_info_get(pack, &info, sizeof info);
    assert_false(info.has_spans);
    assert_int_equal(info.record_bytes, 2);
    assert_int_equal(info.data_length, 4);
    tarn_iac_close(pack);
}

static void one_column_of_the_two_says_nothing(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, 1, 2};
    static const column only = {.name = "offset", .format = "l", .values = numbers};
    const char *path = scratch_path("one.iac");
    making p = {&only, 1, 2, 2, "abcdef", 6, NULL};
    tarn_view view;
    make_pack(path, &p);
    tarn_iac *pack = open_pack(path, false, false);
    FAILS(TARN_ERR_UNSUPPORTED, "no offset and length",
          tarn_iac_view(pack, 0, false, &view, &err));
    tarn_iac_close(pack);
    p.header = "{\"feature_record_bytes\": 3}";
    make_pack(path, &p);
    pack = open_pack(path, false, false);
    uint64_t rows[] = {1, 0, 1, 0, 1, 0, 1, 0};
    tarn_iac_batch batch = {0};
    assert_record(pack, 1, "def", 3);
    OK(tarn_iac_read(pack, rows, 8, &batch, &err));
    assert_memory_equal(batch.data, "defabcdefabcdefabcdefabc", 24);
    tarn_iac_batch_reset(&batch);
    tarn_iac_close(pack);
    /* The start of the third record cannot be determined. */
    p.header = "{\"feature_record_bytes\": 18446744073709551615}";
    p.rows = 3;
    make_pack(path, &p);
    pack = open_pack(path, false, false);
    FAILS(TARN_ERR_FORMAT, "record 1 is outside",
          tarn_iac_view(pack, 1, false, &view, &err));
    FAILS(TARN_ERR_FORMAT, "record 2 is outside",
          tarn_iac_view(pack, 2, false, &view, &err));
    tarn_iac_close(pack);
}

/* --- Batches ------------------------------------------------------------------------ */

enum { RECORDS = 20, RECORD = 1000 };

/* Records of one letter each, in batches of this many rows. */
static void make_letters(const char *path, int64_t at_once, bool wrong_sum)
{
    static unsigned char data[RECORDS * RECORD];
    static int32_t offsets[RECORDS], lengths[RECORDS];
    static uint32_t sums[RECORDS];
    for (int i = 0; i < RECORDS; i++) {
        memset(data + i * RECORD, 'a' + i, RECORD);
        offsets[i] = i * RECORD;
        lengths[i] = RECORD - i;
        sums[i] = tarn__crc32(0, data + i * RECORD, (size_t)lengths[i]);
    }
    if (wrong_sum) sums[7]++;
    column columns[] = {{.name = "offset", .format = "i", .values = offsets},
                        {.name = "length", .format = "i", .values = lengths},
                        {.name = "crc32", .format = "I", .values = sums}};
    making p = {columns, 3, RECORDS, at_once, data, sizeof data, NULL};
    make_pack(path, &p);
}

static void batches_hold_their_records_in_order(void **state)
{
    (void)state;
    const char *path = scratch_path("letters.iac");
    for (int way = 0; way < 4; way++) {
        uint64_t rows[RECORDS];
        tarn_iac_batch batch = {0};
        make_letters(path, way & 2 ? 3 : RECORDS, false);
        tarn_iac *pack = open_pack(path, way & 1, true);
        for (uint64_t i = 0; i < RECORDS; i++)
            rows[i] = i * 7 % RECORDS;
        OK(tarn_iac_read(pack, rows, RECORDS, &batch, &err));
        assert_int_equal(batch.count, RECORDS);
        for (uint64_t i = 0; i < RECORDS; i++) {
            assert_int_equal(batch.offsets[i + 1] - batch.offsets[i], RECORD - rows[i]);
            assert_int_equal(batch.data[batch.offsets[i]], 'a' + rows[i]);
            assert_int_equal(batch.data[batch.offsets[i + 1] - 1], 'a' + rows[i]);
        }
        rows[12] = RECORDS; /* does not exist: noticed early and refused late */
        FAILS(TARN_ERR_NO_SAMPLE, "no record 20",
              tarn_iac_read(pack, rows, RECORDS, &batch, &err));
        assert_int_equal(batch.count, 0);
        /* Refused before a row is read. */
        FAILS(TARN_ERR_USAGE, "too many records",
              tarn_iac_read(pack, rows, SIZE_MAX / 16, &batch, &err));
        tarn_iac_batch_reset(&batch);
        tarn_iac_close(pack);
    }
}

static void wrong_checksums_are_reported_in_every_way_to_read(void **state)
{
    (void)state;
    const char *path = scratch_path("sum.iac");
    static const char *const part = "record 7: its CRC is";
    make_letters(path, RECORDS, true);
    for (int no_map = 0; no_map < 2; no_map++) {
        tarn_iac *pack = open_pack(path, no_map, true);
        tarn_view view;
        tarn_iac_batch batch = {0};
        char bytes[RECORD];
        uint64_t rows[] = {6, 7};
        FAILS(TARN_ERR_CHECKSUM, part, tarn_iac_view(pack, 7, false, &view, &err));
        FAILS(TARN_ERR_CHECKSUM, part,
              tarn__iac_copy(pack, 7, bytes, sizeof bytes, &err));
        FAILS(TARN_ERR_NO_SAMPLE, "no record 20",
              tarn__iac_copy(pack, RECORDS, bytes, sizeof bytes, &err));
        FAILS(TARN_ERR_CHECKSUM, part, tarn_iac_read(pack, rows, 2, &batch, &err));
        memset(bytes, 'a' + 6, sizeof bytes);
        OK(tarn__iac_check(pack, 6, bytes, &err));
        memset(bytes, 'a' + 7, sizeof bytes);
        FAILS(TARN_ERR_CHECKSUM, part, tarn__iac_check(pack, 7, bytes, &err));
        FAILS(TARN_ERR_NO_SAMPLE, "no record 20",
              tarn__iac_check(pack, RECORDS, bytes, &err));
        tarn_iac_batch_reset(&batch);
        tarn_iac_close(pack);
        pack = open_pack(path, no_map, false);
        assert_record(pack, 7, bytes, RECORD - 7);
        OK(tarn__iac_check(pack, 7, "", &err)); /* no question was asked */
        tarn_iac_close(pack);
    }
}

/* --- Payloads ----------------------------------------------------------------------- */

static void unknown_codecs_are_reported(void **state)
{
    (void)state;
    static const int64_t offset[] = {0}, length[] = {5};
    static const column columns[] = {{.name = "offset", .format = "l", .values = offset},
                                     {.name = "length", .format = "l", .values = length}};
    making p = {columns, 2, 1, 1, "hello", 5, "{\"codec\": \"squeeze\"}"};
    const char *path = scratch_path("codec.iac");
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_iac *pack;
    tarn_view view;
    make_pack(path, &p);
    OK(tarn_iac_open(path, NULL, &pack, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "codec squeeze cannot be decoded",
          tarn_iac_view(pack, 0, true, &view, &err));
    assert_record(pack, 0, "hello", 5);
    tarn_iac_close(pack);
    p.header = "{\"codec\": \"zstd\"}";
    make_pack(path, &p);
    o.max_expansion = UINT64_MAX; /* times five overflows */
    OK(tarn_iac_open(path, &o, &pack, &err));
    tarn_status got = tarn_iac_view(pack, 0, true, &view, &err);
    assert_int_equal(got, TARN_ERR_FORMAT);
    assert_string_equal(err.path, path);
    tarn_iac_close(pack);
    o.size = 3;
    FAILS(TARN_ERR_USAGE, "initialiser", tarn_iac_open(path, &o, &pack, &err));
}

/* Callers without an error struct get the status anyway. */
static void errors_may_go_nowhere(void **state)
{
    (void)state;
    const char *path = scratch_path("nowhere.iac");
    size_t size;
    tarn_iac *pack;
    make_letters(path, RECORDS, false);
    unsigned char *bytes = read_file(path, &size);
    bytes[TARN_IAC_HEADER_BYTES] ^= 1;
    write_file(path, bytes, size);
    assert_int_equal(tarn_iac_open(path, NULL, &pack, NULL), TARN_ERR_FORMAT);
    bytes[20] = '{';
    write_file(path, bytes, size);
    assert_int_equal(tarn_iac_open(path, NULL, &pack, NULL), TARN_ERR_FORMAT);
    free(bytes);
}

/* --- Files that change -------------------------------------------------------------- */

/* A checked length is valid until this clock advances. */
static void wait_for_clock(void)
{
    long long now = tarn__coarse_time();
    while (tarn__coarse_time() == now)
        continue;
}

static void an_iac_file_that_became_shorter_is_reported(void **state)
{
    (void)state;
    const char *path = scratch_path("shorter.iac");
    for (int no_map = 0; no_map < 2; no_map++) {
        tarn_view view;
        tarn_iac_batch batch = {0};
        char bytes[RECORD];
        uint64_t last[] = {RECORDS - 1};
        tarn_status want = no_map ? TARN_ERR_TRUNCATED : TARN_ERR_STALE;
        make_letters(path, RECORDS, false);
        tarn_iac *pack = open_pack(path, no_map, false);
        tarn_iac_info info;
        tarn_iac_info_get(pack, &info, sizeof info);
        assert_int_equal(truncate(path, (off_t)info.file_size - RECORD), 0);
        wait_for_clock();
        FAILS(want, "", tarn_iac_view(pack, last[0], false, &view, &err));
        FAILS(want, "", tarn__iac_copy(pack, last[0], bytes, RECORD, &err));
        FAILS(want, "", tarn_iac_read(pack, last, 1, &batch, &err));
        assert_int_equal(batch.count, 0);
        FAILS(want, "", tarn_iac_view(pack, last[0], true, &view, &err));
        tarn_iac_batch_reset(&batch);
        tarn_iac_close(pack);
    }
}

/* Truncated inside a page, right after the length was checked: the page has zeros instead
 * of the record, and they are not returned. */
static void zeros_of_a_cut_page_are_not_given_away(void **state)
{
    (void)state;
    const char *path = scratch_path("page.iac");
    make_letters(path, RECORDS, false);
    for (int way = 0; way < 2; way++) {
        tarn_iac *pack = open_pack(path, false, false);
        tarn_iac_info info;
        tarn_view view;
        tarn_iac_batch batch = {0};
        char bytes[RECORD];
        uint64_t last[] = {RECORDS - 1};
        tarn_iac_info_get(pack, &info, sizeof info);
        wait_for_clock();
        OK(tarn_iac_view(pack, 0, false, &view, &err));
        assert_int_equal(truncate(path, (off_t)info.file_size - 1), 0);
        FAILS(TARN_ERR_STALE, "when it was opened",
              way ? tarn_iac_read(pack, last, 1, &batch, &err)
                  : tarn__iac_copy(pack, last[0], bytes, RECORD, &err));
        tarn_iac_batch_reset(&batch);
        tarn_iac_close(pack);
        make_letters(path, RECORDS, false);
    }
}

/* A lost page stays lost, even if the file has its length again. */
static void a_torn_map_is_not_read_again(void **state)
{
    (void)state;
    const char *path = scratch_path("torn.iac");
    make_letters(path, RECORDS, false);
    if (!tarn_guard_maps()) skip();
    tarn_iac *pack = open_pack(path, false, false);
    tarn_iac_info info;
    tarn_view view;
    tarn_iac_info_get(pack, &info, sizeof info);
    wait_for_clock();
    OK(tarn_iac_view(pack, RECORDS - 1, false, &view, &err));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(((volatile const unsigned char *)view.data)[0], 0);
    assert_int_equal(truncate(path, (off_t)info.file_size), 0);
    FAILS(TARN_ERR_STALE, "truncated while it was in use",
          tarn_iac_view(pack, 0, false, &view, &err));
    wait_for_clock();
    FAILS(TARN_ERR_STALE, "truncated while it was in use",
          tarn_iac_view(pack, 0, false, &view, &err));
    tarn_iac_close(pack);
}

static void views_stay_in_their_file(void **state)
{
    (void)state;
    const char *path = scratch_path("source");
    write_file(path, "0123456789", 10);
    for (int no_map = 0; no_map < 2; no_map++) {
        tarn__source_file *file;
        tarn_view view;
        OK(tarn__source_file_open(path, no_map, NULL, &file, &err));
        OK(tarn__source_file_view(file, 4, 6, &view, &err));
        assert_memory_equal(view.data, "456789", 6);
        tarn_view_release(&view);
        OK(tarn__source_file_view(file, 10, 0, &view, &err));
        tarn_view_release(&view);
        FAILS(TARN_ERR_TRUNCATED, "expected 7 bytes here, but the file has 10",
              tarn__source_file_view(file, 4, 7, &view, &err));
        assert_int_equal(err.offset, 4);
        FAILS(TARN_ERR_TRUNCATED, "expected 2 bytes here",
              tarn__source_file_view(file, UINT64_MAX, 2, &view, &err));
        tarn__source_file_unref(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_may_be_integers_of_any_width),
        cmocka_unit_test(negative_spans_are_outside_the_data),
        cmocka_unit_test(columns_of_spans_must_be_integers_without_nulls),
        cmocka_unit_test(a_checksum_that_is_not_an_integer_only_prevents_checks),
        cmocka_unit_test(useless_spans_are_not_damage_in_a_matrix),
        cmocka_unit_test(one_column_of_the_two_says_nothing),
        cmocka_unit_test(batches_hold_their_records_in_order),
        cmocka_unit_test(wrong_checksums_are_reported_in_every_way_to_read),
        cmocka_unit_test(unknown_codecs_are_reported),
        cmocka_unit_test(errors_may_go_nowhere),
        cmocka_unit_test(an_iac_file_that_became_shorter_is_reported),
        cmocka_unit_test(zeros_of_a_cut_page_are_not_given_away),
        cmocka_unit_test(a_torn_map_is_not_read_again),
        cmocka_unit_test(views_stay_in_their_file),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
