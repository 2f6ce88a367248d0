/* Requests for things that do not exist, do not fit or make no sense, in array files and
 * IAC files: each gives a proper error, and everything continues to work. */
#include "iac_help.h"
#include "support.h"

#include <unistd.h>

#include "gnz/reader.h"
#include "iac/file.h"
#include "iac/header.h"

static tarn_error err;

static char *kept_path(const char *name)
{
    char *path = strdup(scratch_path(name));
    assert_non_null(path);
    return path;
}

/* "x" of 6 rows of 3, and "empty" without rows. */
static void make_arrays(const char *path)
{
    static const int32_t values[6][3] = {{0, 1, 2},    {10, 11, 12}, {20, 21, 22},
                                         {30, 31, 32}, {40, 41, 42}, {50, 51, 52}};
    tarn_array x, none;
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.overwrite = true;
    OK(tarn_array_init(&x, (void *)(uintptr_t)values, (tarn_dtype){'<', 'i', 4}, 2,
                       (const uint64_t[]){6, 3}, &err));
    OK(tarn_array_init(&none, (void *)(uintptr_t)values, (tarn_dtype){'<', 'i', 4}, 2,
                       (const uint64_t[]){0, 3}, &err));
    OK(tarn_gnz_writer_open(path, &o, &w, &err));
    OK(tarn_gnz_writer_add(w, "x", &x, NULL, &err));
    OK(tarn_gnz_writer_add(w, "empty", &none, NULL, &err));
    OK(tarn_gnz_writer_finish(w, &err));
}

static void missing_arrays_and_rows_are_reported(void **state)
{
    (void)state;
    char *path = kept_path("edge.gnz");
    tarn_gnz_options o = TARN_GNZ_OPTIONS_INIT;
    make_arrays(path);
    for (int way = 0; way < 2; way++) {
        tarn_gnz *g;
        tarn_gnz_array info;
        tarn_gnz_view view = {0};
        tarn_view row;
        int32_t out[18];
        size_t x, empty;
        o.io = way ? TARN_IO_READ : TARN_IO_AUTO;
        OK(tarn_gnz_open(path, &o, &g, &err));
        OK(tarn_gnz_find(g, "x", &x, &err));
        OK(tarn_gnz_find(g, "empty", &empty, &err));
        FAILS(TARN_ERR_NO_FIELD, "no array \"y\"", tarn_gnz_find(g, "y", &x, &err));
        FAILS(TARN_ERR_NO_FIELD, "2", tarn_gnz_array_get(g, 2, &info, sizeof info, &err));
        FAILS(TARN_ERR_NO_FIELD, "2", tarn_gnz_get(g, 2, TARN_GNZ_READ, &view, &err));
        FAILS(TARN_ERR_USAGE, "", tarn_gnz_get(g, x, (tarn_gnz_mode)3, &view, &err));
        FAILS(TARN_ERR_NO_SAMPLE, "no rows 5 to 7",
              tarn_gnz_read(g, x, 5, 2, out, sizeof out, &err));
        FAILS(TARN_ERR_NO_SAMPLE, "no rows",
              tarn_gnz_read(g, x, UINT64_MAX, 2, out, sizeof out, &err));
        FAILS(TARN_ERR_LIMIT, "need 24 bytes", tarn_gnz_read(g, x, 1, 2, out, 23, &err));
        OK(tarn_gnz_read(g, empty, 0, 0, out, 0, &err));
        FAILS(TARN_ERR_NO_SAMPLE, "no rows", tarn__gnz_view_row(g, x, 6, &row, &err));
        FAILS(TARN_ERR_NO_SAMPLE, "no rows", tarn__gnz_view_row(g, empty, 0, &row, &err));
        tarn_gnz_view_release(NULL);
        /* Advice is never an error, whatever its value. */
        tarn_gnz_advise(g, x, 0, 6, TARN_GNZ_WILL_NEED);
        tarn_gnz_advise(g, x, 0, 6, (tarn_gnz_advice)9);
        tarn_gnz_advise(g, x, 5, 9, TARN_GNZ_RANDOM);
        tarn_gnz_advise(g, 7, 0, 1, TARN_GNZ_RANDOM);
        tarn_gnz_advise(g, empty, 0, 0, TARN_GNZ_RANDOM);
        OK(tarn_gnz_flush(g, &err));
        OK(tarn__gnz_view_row(g, x, 5, &row, &err));
        assert_memory_equal(row.data, ((const int32_t[]){50, 51, 52}), 12);
        tarn_view_release(&row);
        tarn_gnz_close(g);
    }
    free(path);
}

static void a_file_that_was_replaced_is_not_written_through_a_view(void **state)
{
    (void)state;
    char *path = kept_path("replaced.gnz"), *other = kept_path("other.gnz");
    tarn_gnz *g;
    tarn_gnz_view view = {0};
    size_t x;
    make_arrays(path);
    make_arrays(other);
    OK(tarn_gnz_open(path, NULL, &g, &err));
    OK(tarn_gnz_find(g, "x", &x, &err));
    assert_int_equal(rename(other, path), 0);
    FAILS(TARN_ERR_STALE, "replaced by another",
          tarn_gnz_get(g, x, TARN_GNZ_WRITE, &view, &err));
    assert_int_equal(unlink(path), 0);
    assert_int_not_equal(tarn_gnz_get(g, x, TARN_GNZ_WRITE, &view, &err), TARN_OK);
    assert_non_null(strstr(err.message, "cannot open for writing"));
    OK(tarn_gnz_get(g, x, TARN_GNZ_READ, &view, &err));
    tarn_gnz_view_release(&view);
    tarn_gnz_close(g);
    free(other);
    free(path);
}

static void make_pack(const char *path, const char *header)
{
    static const char *const columns[] = {"text:name", "int:n"};
    static const void *const payloads[] = {"first", "second"};
    static const size_t sizes[] = {5, 6};
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_iac_rows *rows;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    o.overwrite = true;
    o.header = header;
    OK(tarn_iac_rows_new(columns, 2, &rows, &err));
    OK(tarn_iac_rows_finish(rows, &slides, &err));
    OK(tarn_iac_rows_new(columns, 2, &rows, &err));
    for (int i = 0; i < 2; i++) {
        OK(rows_text(rows, 0, i ? "b" : "a", 1, &err));
        OK(rows_number(rows, 1, i, &err));
    }
    OK(tarn_iac_rows_finish(rows, &index, &err));
    OK(iac_build(path, &slides, &index, (const void **)(uintptr_t)payloads,
                 (size_t *)(uintptr_t)sizes, 2, &o, &err));
}

static void missing_records_and_columns_are_reported(void **state)
{
    (void)state;
    char *path = kept_path("edge.iac");
    tarn_iac *pack;
    tarn_view view;
    tarn_iac_span span;
    tarn_iac_batch batch = {0};
    char bytes[8];
    uint64_t row, wrong[] = {0, 2};
    make_pack(path, NULL);
    OK(tarn_iac_open(path, NULL, &pack, &err));
    FAILS(TARN_ERR_NO_SAMPLE, "no record 2; the file has 2 records",
          tarn_iac_view(pack, 2, false, &view, &err));
    FAILS(TARN_ERR_NO_SAMPLE, "no record",
          tarn_iac_locate(pack, UINT64_MAX, &span, &err));
    FAILS(TARN_ERR_LIMIT, "record 1 has 6 bytes, but the buffer has 5",
          tarn__iac_copy(pack, 1, bytes, 5, &err));
    OK(tarn__iac_copy(pack, 1, bytes, 6, &err));
    assert_memory_equal(bytes, "second", 6);
    FAILS(TARN_ERR_NO_SAMPLE, "no record 2", tarn_iac_read(pack, wrong, 2, &batch, &err));
    assert_int_equal(batch.count, 0);
    FAILS(TARN_ERR_USAGE, "outside the data segment",
          tarn_iac_view_span(pack, 11, 1, &view, &err));
    assert_null(iac_column(pack, TARN_IAC_INDEX, 99).name);
    assert_null(iac_column(pack, TARN_IAC_INDEX, 99).type);
    FAILS(TARN_ERR_USAGE, "no column 99",
          tarn_iac_value(pack, TARN_IAC_INDEX, 99, 0, &view, &err));
    FAILS(TARN_ERR_NO_SAMPLE, "no record",
          tarn_iac_value(pack, TARN_IAC_INDEX, 0, 2, &view, &err));
    FAILS(TARN_ERR_NO_SAMPLE, "", tarn_iac_find(pack, "name", "c", 1, 0, &row, &err));
    FAILS(TARN_ERR_NO_SAMPLE, "", tarn_iac_find(pack, "name", "a", 1, 1, &row, &err));
    tarn_iac_batch_reset(&batch);
    tarn_iac_close(pack);
    free(path);
}

/* --- Headers of IAC files ----------------------------------------------------------- */

/* The fields of a header for a file of 70,000 bytes, with one of them replaced. */
static tarn_status parse_header(unsigned version, const char *key, const char *value)
{
    static unsigned char bytes[TARN_IAC_HEADER_BYTES];
    static const char *const second[][2] = {
        {"slide_table_offset", "65536"},
        {"slide_table_length", "1000"},
        {"index_table_offset", "66536"},
        {"index_table_length", "1000"},
        {"data_offset", "67536"},
        {"data_length", "2464"},
        {"num_slides", "1"},
        {"num_records", "2"},
    };
    char *at = (char *)bytes + 16;
    size_t room = 4000;
    tarn__iac_header h = {0};
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "IATROC", 7);
    bytes[7] = bytes[12] = (unsigned char)version;
    int n = snprintf(at, room, "{\"%s\": %s", key, value);
    for (size_t i = 0; i < 8; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s", second[i][0]);
        if (version == 1 && strncmp(name, "index_", 6) == 0)
            snprintf(name, sizeof name, "record_%s", second[i][0] + 6);
        if (strcmp(name, key) != 0)
            n += snprintf(at + n, room - (size_t)n, ", \"%s\": %s", name, second[i][1]);
    }
    n += snprintf(at + n, room - (size_t)n, "}");
    bytes[8] = (unsigned char)n;
    bytes[9] = (unsigned char)(n >> 8);
    tarn_status status = tarn__iac_header_parse(&h, bytes, sizeof bytes, 70000, &err);
    tarn__iac_header_reset(&h);
    return status;
}

static void headers_of_packs_are_taken_or_refused_by_their_numbers(void **state)
{
    (void)state;
    static const struct {
        unsigned version;
        const char *key, *value;
        bool good;
    } cases[] = {
        {2, "more", "5", true},
        {1, "more", "5", true},
        {2, "format", "\"IatroCache\"", true},
        {2, "format", "\"Iatro\"", false},
        {2, "version", "2", true},
        {2, "version", "1", false},
        {2, "version", "\"2\"", false},
        {2, "header_bytes", "65536", true},
        {2, "header_bytes", "65535", false},
        {2, "header_bytes", "\"65536\"", false},
        {2, "feature_record_bytes", "3", true},
        {2, "feature_record_bytes", "\"3\"", false},
        {2, "feature_record_bytes", "-3", false},
        {2, "slide_table_offset", "65537", false},
        {2, "slide_table_offset", "null", false},
        {2, "slide_table_length", "18446744073709551615", false},
        {2, "index_table_offset", "66535", false},
        {1, "record_table_offset", "66535", false},
        {2, "index_table_length", "18446744073709551615", false},
        {2, "index_table_length", "1e3", false},
        {2, "data_offset", "67535", false},
        {2, "data_length", "2465", false},
        {2, "data_length", "18446744073709551615", false},
        {2, "num_records", "70001", false},
        {2, "num_slides", "70001", false},
        {2, "codec", "7", true},
        {2, "codec", "\"zstd\"", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        err.message[0] = '\0';
        tarn_status got = parse_header(cases[i].version, cases[i].key, cases[i].value);
        if ((got == TARN_OK) != cases[i].good || (got != TARN_OK && !err.message[0]))
            fail_msg("%s: %s gives %s", cases[i].key, cases[i].value,
                     got == TARN_OK ? "no error" : err.message);
    }
}

/* The caller's codec parameters count; names of the layout do not, and names of the other
 * version's layout belong to the caller. */
static void headers_of_iac_files_keep_the_callers_fields(void **state)
{
    (void)state;
    static const struct {
        const char *caller;
        const char *codec;
        const char *has, *lacks;
    } cases[] = {
        {"{}", "zstd", "\"codec\": \"zstd\"", "other"},
        {"{\"codec\": \"other\"}", "zstd", "\"codec\": \"other\"", "codec_params"},
        {"{\"codec_params\": 5}", "zstd", "\"codec_params\": 5", "level"},
        {"{\"record_table_offset\": 1}", "none", "\"record_table_offset\": 1", "codec"},
        {"{\"index_table_offset\": 1}", "none", "\"index_table_offset\": 0", "codec"},
        {"{\"version\": 7, \"num_records\": 8}", "none", "\"num_records\": 0",
         "\"version\": 7"},
    };
    static unsigned char out[TARN_IAC_HEADER_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tarn__iac_header h = {.version = 2, .slide_table_offset = TARN_IAC_HEADER_BYTES};
        tarn__iac_caller c = {.text = cases[i].caller,
                              .length = strlen(cases[i].caller),
                              .codec = cases[i].codec,
                              .level = 3};
        OK(tarn__iac_header_make(out, &h, &c, &err));
        const char *text = (const char *)out + 16;
        if (!strstr(text, cases[i].has) || strstr(text, cases[i].lacks))
            fail_msg("%s gives %s", cases[i].caller, text);
    }
}

static void objects_in_headers_of_packs_are_sorted_unless_in_order(void **state)
{
    (void)state;
    static const char text[] = "{\"x\": {\"2\": 1, \"10\": {\"b\": 3, \"a\": 4}}}";
    static const char *const wanted[] = {
        "\"x\": {\n    \"10\": {\n      \"a\": 4,\n      \"b\": 3\n    },\n    \"2\": 1",
        "\"x\": {\n    \"2\": 1,\n    \"10\": {\n      \"b\": 3,\n      \"a\": 4"};
    static unsigned char out[TARN_IAC_HEADER_BYTES];
    for (int in_order = 0; in_order < 2; in_order++) {
        tarn__iac_header h = {.version = 2, .slide_table_offset = TARN_IAC_HEADER_BYTES};
        tarn__iac_caller c = {text, sizeof text - 1, .in_order = in_order};
        OK(tarn__iac_header_make(out, &h, &c, &err));
        assert_non_null(strstr((const char *)out + 16, wanted[in_order]));
    }
}

/* --- Values that do not fit a field ------------------------------------------------- */

static tarn_status encode(const char *field, const tarn_value *value)
{
    tarn_bytes out = TARN_BYTES_INIT;
    err.message[0] = '\0';
    tarn_status status = tarn_encode(field, value, NULL, &out, &err);
    tarn_bytes_release(&out);
    return status;
}

static void arrays_that_a_field_cannot_hold_are_refused(void **state)
{
    (void)state;
    static uint64_t zeros[64];
    static const char *const twice[] = {"a", "a"}, *const wrong[] = {"\xff", "b"};
    static const char *const plain[] = {"a", "\xc3\xa9"};
    tarn_array bytes, cube, real, wide, pair[2];
    const uint64_t shape[] = {2, 2, 2};
    OK(tarn_array_init(&bytes, zeros, (tarn_dtype){'|', 'u', 1}, 2, shape, &err));
    OK(tarn_array_init(&cube, zeros, (tarn_dtype){'|', 'u', 1}, 3, shape, &err));
    OK(tarn_array_init(&real, zeros, (tarn_dtype){'<', 'f', 4}, 2, shape, &err));
    OK(tarn_array_init(&wide, zeros, (tarn_dtype){'<', 'u', 8}, 2, shape, &err));
    pair[0] = pair[1] = bytes;
    tarn_value number = value_integer(5), flat = value_array(&bytes);
    tarn_value deep = value_array(&cube), floats = value_array(&real);
    tarn_value large = value_array(&wide);
    tarn_value unnamed = value_arrays(pair, NULL, 2);
    tarn_value same = value_arrays(pair, twice, 2);
    tarn_value invalid = value_arrays(pair, wrong, 2);
    tarn_value named = value_arrays(pair, plain, 2);
    static const char *const fields[] = {"npz", "rle", "seg8", "ten",  "png",
                                         "jpg", "npy", "ppm",  "webp", "seg32"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        assert_int_not_equal(encode(fields[i], &number), TARN_OK);
        assert_true(err.message[0]);
    }
    assert_int_not_equal(encode("npz", &unnamed), TARN_OK);
    assert_int_not_equal(encode("npz", &same), TARN_OK);
    assert_int_not_equal(encode("npz", &invalid), TARN_OK);
    OK(encode("npz", &named));
    OK(encode("seg8", &flat));
    assert_int_not_equal(encode("seg8", &deep), TARN_OK);
    assert_int_not_equal(encode("seg8", &floats), TARN_OK);
    assert_int_not_equal(encode("seg16", &flat), TARN_OK);
    assert_int_not_equal(encode("rle", &floats), TARN_OK);
    assert_int_not_equal(encode("png", &large), TARN_OK);
    OK(encode("rle", &large));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_arrays_and_rows_are_reported),
        cmocka_unit_test(a_file_that_was_replaced_is_not_written_through_a_view),
        cmocka_unit_test(missing_records_and_columns_are_reported),
        cmocka_unit_test(headers_of_packs_are_taken_or_refused_by_their_numbers),
        cmocka_unit_test(headers_of_iac_files_keep_the_callers_fields),
        cmocka_unit_test(objects_in_headers_of_packs_are_sorted_unless_in_order),
        cmocka_unit_test(arrays_that_a_field_cannot_hold_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
