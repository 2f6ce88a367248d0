/* Reading array files: invalid headers, damage of every kind, views in their modes, rows
 * as samples. */
#include "support.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "gnz/reader.h"

static tarn_error err;

enum { PAGE = TARN_GNZ_PAGE };

/* --- Handmade files ------------------------------------------------------------- */

static void put_file(const char *path, const char *json, size_t size)
{
    size_t len = strlen(json);
    unsigned char *data = calloc(1, size > len + 8 ? size : len + 8);
    assert_non_null(data);
    memcpy(data, "GNZ1", 4);
    tarn__put32(data + 4, (uint32_t)len);
    memcpy(data + 8, json, len);
    for (size_t i = PAGE; i < size; i++)
        data[i] = (unsigned char)(i * 7);
    write_file(path, data, size);
    free(data);
}

static tarn_status open_json(const char *json, size_t size)
{
    tarn_gnz *gnz = NULL;
    const char *path = scratch_path("by_hand.gnz");
    put_file(path, json, size);
    tarn_status status = tarn_gnz_open(path, NULL, &gnz, &err);
    tarn_gnz_close(gnz);
    return status;
}

#define X(entry) "{\"version\": 1, \"arrays\": {\"x\": {" entry "}}}"

static void sound_headers_are_read(void **state)
{
    static const char *const good[] = {
        "{\"version\": 1}",
        "{\"version\":1,\"arrays\":{},\"metadata\":{}}",
        " {\"version\": 1, \"arrays\": {}, \"more\": [NaN]} ",
        X("\"offset\": 4096, \"shape\": [1024], \"dtype\": \"<f4\""),
        X("\"offset\": 4096, \"shape\": [], \"dtype\": \"<f4\", \"order\": \"F\""),
        X("\"offset\": 4096, \"shape\": [0], \"dtype\": \"<f4\""),
        X("\"offset\": 8192, \"shape\": [0, 9], \"dtype\": \">c16\""),
        X("\"offset\": 8192, \"shape\": [5, 0, 5], \"dtype\": \"|S0\""),
        X("\"offset\": 4096, \"shape\": [7], \"dtype\": \"|S0\""),
        X("\"offset\": 4096, \"shape\": [1], \"dtype\": \"<u8\", \"unit\": \"mm\""),
        "{\"version\": 1, \"arrays\": {"
        "\"a\": {\"offset\": 4096, \"shape\": [0], \"dtype\": \"|u1\"}, "
        "\"b\": {\"offset\": 4096, \"shape\": [4096], \"dtype\": \"|u1\"}, "
        "\"c\": {\"offset\": 4096, \"shape\": [0, 3], \"dtype\": \"|u1\"}}}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        OK(open_json(good[i], 2 * PAGE));
}

static void hostile_headers_are_refused_by_name(void **state)
{
    static const struct {
        tarn_status code;
        const char *part, *json;
    } bad[] = {
        {TARN_ERR_FORMAT, "not a JSON object", "[]"},
        {TARN_ERR_FORMAT, "JSON", "{\"version\": 1"},
        {TARN_ERR_FORMAT, "JSON", "{\"version\": 1} x"},
        {TARN_ERR_FORMAT, "no version", "{}"},
        {TARN_ERR_FORMAT, "no version", "{\"version\": 1.0}"},
        {TARN_ERR_FORMAT, "no version", "{\"version\": true}"},
        {TARN_ERR_UNSUPPORTED, "version 2", "{\"version\": 2}"},
        {TARN_ERR_FORMAT, "\"version\"", "{\"version\": 1, \"version\": 1}"},
        {TARN_ERR_FORMAT, "\"arrays\"", "{\"version\": 1, \"arrays\": []}"},
        {TARN_ERR_FORMAT, "\"metadata\"", "{\"version\": 1, \"metadata\": 3}"},
        {TARN_ERR_FORMAT, "not an object", "{\"version\": 1, \"arrays\": {\"x\": 1}}"},
        {TARN_ERR_FORMAT, "\"x\"",
         "{\"version\": 1, \"arrays\": {\"x\": {}, \"x\": {}}}"},
        {TARN_ERR_FORMAT, "dtype is not a string", X("")},
        {TARN_ERR_FORMAT, "shape is not a list", X("\"dtype\": \"<f4\"")},
        {TARN_ERR_FORMAT, "offset is not", X("\"dtype\": \"<f4\", \"shape\": []")},
#define AT(offset, shape, dtype)                                                         \
    X("\"offset\": " offset ", \"shape\": " shape ", \"dtype\": " dtype)
        {TARN_ERR_FORMAT, "is inside the header", AT("0", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "is inside the header", AT("8", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "is inside the header", AT("0", "[0]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "not a multiple", AT("4097", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "not a multiple", AT("4160", "[1]", "\"<f4\"")},
        {TARN_ERR_TRUNCATED, "end after the file", AT("4096", "[8192]", "\"|u1\"")},
        {TARN_ERR_TRUNCATED, "end after the file", AT("8192", "[4096]", "\"|u1\"")},
        {TARN_ERR_TRUNCATED, "end after the file", AT("12288", "[0]", "\"|u1\"")},
        {TARN_ERR_TRUNCATED, "end after the file",
         AT("18446744073709547520", "[1]", "\"|u1\"")},
        {TARN_ERR_TRUNCATED, "end after the file",
         AT("9223372036854771712", "[9]", "\"<f8\"")},
        {TARN_ERR_FORMAT, "offset is not", AT("-4096", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "offset is not", AT("4096.0", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "offset is not", AT("4.096e3", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "offset is not", AT("\"4096\"", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "offset is not", AT("18446744073709551616", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "JSON", AT("04096", "[1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "dimension 0", AT("4096", "[1e3]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "dimension 1", AT("4096", "[1, -1]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "dimension 0", AT("4096", "[true]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "dimension 0", AT("4096", "[[1]]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "dimension 0", AT("4096", "[NaN]", "\"|u1\"")},
        {TARN_ERR_FORMAT, "dimension 0", AT("4096", "[9223372036854775808]", "\"|u1\"")},
        {TARN_ERR_LIMIT, "2^63", AT("4096", "[4294967296, 4294967296]", "\"<f4\"")},
        {TARN_ERR_LIMIT, "2^63", AT("4096", "[4611686018427387904, 4]", "\"|u1\"")},
        {TARN_ERR_LIMIT, "2^63", AT("4096", "[0, 9223372036854775807, 2]", "\"|u1\"")},
        {TARN_ERR_LIMIT, "2^63", AT("4096", "[9223372036854775807, 2, 0]", "\"|u1\"")},
        {TARN_ERR_UNSUPPORTED, "element type", AT("4096", "[1]", "\"|O\"")},
        {TARN_ERR_UNSUPPORTED, "element type", AT("4096", "[1]", "\"<f16\"")},
        {TARN_ERR_UNSUPPORTED, "element type", AT("4096", "[1]", "\"f4\"")},
        {TARN_ERR_UNSUPPORTED, "element type", AT("4096", "[1]", "\"<M8[ns]\"")},
        {TARN_ERR_UNSUPPORTED, "element type", AT("4096", "[1]", "\"<U4294967296\"")},
        {TARN_ERR_FORMAT, "dtype is not a string",
         AT("4096", "[1]", "[[\"a\", \"<f4\"]]")},
        {TARN_ERR_UNSUPPORTED, "order",
         X("\"offset\": 4096, \"shape\": [1], \"dtype\": \"|u1\", \"order\": \"A\"")},
        {TARN_ERR_FORMAT, "overlap",
         "{\"version\": 1, \"arrays\": {"
         "\"a\": {\"offset\": 4096, \"shape\": [4097], \"dtype\": \"|u1\"}, "
         "\"b\": {\"offset\": 8192, \"shape\": [1], \"dtype\": \"|u1\"}}}"},
        {TARN_ERR_FORMAT, "overlap",
         "{\"version\": 1, \"arrays\": {"
         "\"a\": {\"offset\": 4096, \"shape\": [1], \"dtype\": \"|u1\"}, "
         "\"b\": {\"offset\": 4096, \"shape\": [1], \"dtype\": \"|u1\"}}}"},
        {TARN_ERR_UNSUPPORTED, "NUL",
         "{\"version\": 1, \"arrays\": {\"a\\u0000b\": {\"offset\": 4096}}}"},
        {TARN_ERR_UNSUPPORTED, "surrogate",
         "{\"version\": 1, \"arrays\": {\"a\\ud800b\": {\"offset\": 4096}}}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FAILS(bad[i].code, bad[i].part, open_json(bad[i].json, 3 * PAGE - 1));
        assert_string_equal(err.path, scratch_path("by_hand.gnz"));
        assert_true(err.offset != TARN_NO_OFFSET);
    }
}

static void deep_and_many_sided_headers_are_refused(void **state)
{
    char *json = malloc(1 << 20);
    int n;
    (void)state;
    assert_non_null(json);
    n = sprintf(json, "{\"version\": 1, \"metadata\": ");
    memset(json + n, '[', 100000);
    json[n + 100000] = '\0';
    FAILS(TARN_ERR_LIMIT, "levels", open_json(json, 200000));
    n = sprintf(json, "{\"version\": 1, \"arrays\": {\"x\": {\"offset\": 4096, "
                      "\"dtype\": \"|u1\", \"shape\": [1");
    for (int i = 0; i < 64; i++)
        n += sprintf(json + n, ", 1");
    sprintf(json + n, "]}}}");
    FAILS(TARN_ERR_LIMIT, "dimensions", open_json(json, 2 * PAGE));
    free(json);
}

static void false_header_lengths_are_refused_at_once(void **state)
{
    unsigned char data[1024] = "GNZ1";
    tarn_gnz *gnz;
    const char *path = scratch_path("length.gnz");
    (void)state;
    tarn__put32(data + 4, UINT32_MAX);
    write_file(path, data, sizeof data);
    FAILS(TARN_ERR_TRUNCATED, "4294967295 bytes", tarn_gnz_open(path, NULL, &gnz, &err));
    tarn__put32(data + 4, sizeof data - 7);
    write_file(path, data, sizeof data);
    FAILS(TARN_ERR_TRUNCATED, "does not fit", tarn_gnz_open(path, NULL, &gnz, &err));
    write_file(path, data, 7);
    FAILS(TARN_ERR_FORMAT, "GNZ1", tarn_gnz_open(path, NULL, &gnz, &err));
    write_file(path, "GNZ2xxxx", 8);
    FAILS(TARN_ERR_FORMAT, "GNZ1", tarn_gnz_open(path, NULL, &gnz, &err));
    write_file(path, "", 0);
    FAILS(TARN_ERR_FORMAT, "GNZ1", tarn_gnz_open(path, NULL, &gnz, &err));
    /* A sparse file large enough for the length it claims. */
    tarn__put32(data + 4, UINT32_MAX);
    write_file(path, data, sizeof data);
    assert_int_equal(truncate(path, (off_t)UINT32_MAX + 4096), 0);
    FAILS(TARN_ERR_LIMIT, "TARN_MAX_GNZ_HEADER", tarn_gnz_open(path, NULL, &gnz, &err));
    unlink(path);
}

/* --- Damage ------------------------------------------------------------------------ */

typedef struct small {
    const char *path;
    unsigned char *bytes;
    size_t size;
} small;

static const float x_values[3][2] = {{1, 2}, {3, 4}, {5, 6}};
static const int64_t y_values[3] = {7, -8, 9};

static void add(tarn_gnz_writer *w, const char *name, const void *data, const char *dtype,
                unsigned ndim, const uint64_t *shape)
{
    tarn_dtype type;
    tarn_array array;
    OK(tarn_dtype_parse(dtype, strlen(dtype), &type, &err));
    OK(tarn_array_init(&array, (void *)(uintptr_t)data, type, ndim, shape, &err));
    OK(tarn_gnz_writer_add(w, name, &array, NULL, &err));
}

static small make_small(const char *name, bool checksums)
{
    small s = {.path = scratch_path(name)};
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    o.overwrite = true;
    o.checksums = checksums;
    OK(tarn_gnz_writer_open(s.path, &o, &w, &err));
    OK(tarn_gnz_writer_metadata(w, "{\"a\": [1, 2.5]}", 15, &err));
    add(w, "x", x_values, "<f4", 2, (const uint64_t[]){3, 2});
    add(w, "y", y_values, "<i8", 1, (const uint64_t[]){3});
    OK(tarn_gnz_writer_finish(w, &err));
    s.bytes = read_file(s.path, &s.size);
    return s;
}

/* Changes a file in place: writing it again each time would wait for the disk. */
static void patch(const small *s, size_t at, const void *data, size_t len)
{
    int fd = open(s->path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, len, (off_t)at), len);
    close(fd);
}

/* Reads everything in every way; false where something was refused. Every result must be
 * inside the file. */
static bool walk(const char *path, tarn_io io)
{
    tarn_gnz *gnz;
    tarn_gnz_array info;
    tarn_gnz_view view;
    tarn_gnz_options o = TARN_GNZ_OPTIONS_INIT;
    static volatile unsigned char seen;
    bool good = true;
    o.io = io;
    if (tarn_gnz_open(path, &o, &gnz, &err) != TARN_OK) return false;
    for (size_t i = 0; i < gnz->header.count; i++) {
        OK(tarn_gnz_array_get(gnz, i, &info, sizeof info, &err));
        good &= tarn_gnz_get(gnz, i, TARN_GNZ_COPY, &view, &err) == TARN_OK;
        tarn_gnz_view_release(&view);
        if (tarn_gnz_get(gnz, i, TARN_GNZ_READ, &view, &err) != TARN_OK) {
            good = false;
            continue;
        }
        for (uint64_t k = 0; k < info.bytes; k++)
            seen = ((const unsigned char *)view.array.data)[k];
        tarn_gnz_view_release(&view);
    }
    tarn_gnz_close(gnz);
    (void)seen;
    return good;
}

static bool has_right_values(const char *path)
{
    tarn_gnz *gnz;
    size_t x, y;
    float xs[3][2];
    int64_t ys[3];
    bool right = tarn_gnz_open(path, NULL, &gnz, &err) == TARN_OK;
    if (!right) return false;
    right = tarn_gnz_find(gnz, "x", &x, &err) == TARN_OK &&
            tarn_gnz_find(gnz, "y", &y, &err) == TARN_OK &&
            tarn_gnz_read(gnz, x, 0, 3, xs, sizeof xs, &err) == TARN_OK &&
            tarn_gnz_read(gnz, y, 0, 3, ys, sizeof ys, &err) == TARN_OK &&
            memcmp(xs, x_values, sizeof xs) == 0 && memcmp(ys, y_values, sizeof ys) == 0;
    tarn_gnz_close(gnz);
    return right;
}

static uint64_t problems(const char *path)
{
    tarn_verify_report report;
    OK(tarn_verify(path, NULL, &report, sizeof report, &err));
    return report.problems;
}

static void truncated_files_are_errors_or_right(void **state)
{
    small s = make_small("cut.gnz", false);
    size_t last = 2 * PAGE + sizeof y_values, steps = 0;
    (void)state;
    for (size_t size = s.size - 1; size > 0;
         size -= size <= 600 || size >= last - 600 ? 1 : 97) {
        assert_int_equal(truncate(s.path, (off_t)size), 0);
        bool right = has_right_values(s.path);
        assert_int_equal(right, size >= last);
        assert_int_equal(walk(s.path, TARN_IO_READ), right);
        assert_int_equal(walk(s.path, TARN_IO_MAP), right);
        assert_true(problems(s.path) > 0);
        steps++;
    }
    assert_true(steps > 1000);
    free(s.bytes);
}

static void every_flipped_bit_is_found_or_changes_no_value(void **state)
{
    small s = make_small("flip.gnz", true);
    size_t header = 8 + tarn__get32(s.bytes + 4);
    (void)state;
    assert_int_equal(problems(s.path), 0);
    for (size_t at = 0; at < s.size; at += at < header + 64 || at % PAGE < 64 ? 1 : 61)
        for (int bit = 0; bit < 8; bit++) {
            unsigned char flipped = s.bytes[at] ^ (unsigned char)(1 << bit);
            patch(&s, at, &flipped, 1);
            /* "=f4" is "<f4", and without "order" it is C: valid, though not the same
             * text. */
            if (problems(s.path) == 0 && !has_right_values(s.path))
                fail_msg("bit %d of byte %zu", bit, at);
            walk(s.path, TARN_IO_MAP);
            patch(&s, at, s.bytes + at, 1);
        }
    free(s.bytes);
}

static void bytes_removed_and_set_to_extremes_do_no_harm(void **state)
{
    static const unsigned char extremes[] = {0, '0', '9', '-', '"', '{', '}', 0x7f, 0xff};
    small s = make_small("edit.gnz", true);
    size_t header = 8 + tarn__get32(s.bytes + 4);
    unsigned char *copy = malloc(s.size);
    (void)state;
    assert_non_null(copy);
    for (size_t at = 0; at < header; at++) {
        memcpy(copy, s.bytes, s.size);
        memmove(copy + at, copy + at + 1, header - at - 1);
        patch(&s, 0, copy, header);
        assert_true(problems(s.path) > 0 || has_right_values(s.path));
        walk(s.path, TARN_IO_MAP);
        for (size_t k = 0; k < sizeof extremes; k++) {
            if (s.bytes[at] == extremes[k]) continue;
            memcpy(copy, s.bytes, s.size);
            copy[at] = extremes[k];
            patch(&s, 0, copy, header);
            if (problems(s.path) == 0 && !has_right_values(s.path))
                fail_msg("%02x at byte %zu", extremes[k], at);
            walk(s.path, TARN_IO_READ);
        }
    }
    free(copy);
    free(s.bytes);
}

static void bytes_between_arrays_must_be_zero(void **state)
{
    small s = make_small("gap.gnz", false);
    const size_t places[] = {3000, PAGE - 1, PAGE + sizeof x_values, 2 * PAGE - 1,
                             s.size - 1};
    (void)state;
    assert_int_equal(problems(s.path), 0);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        s.bytes[places[i]] = 1;
        write_file(s.path, s.bytes, s.size);
        assert_int_equal(problems(s.path), 1);
        assert_true(has_right_values(s.path));
        s.bytes[places[i]] = 0;
    }
    free(s.bytes);
}

static void file_truncated_while_open_is_an_error(void **state)
{
    small s = make_small("shrink.gnz", false);
    tarn_gnz *gnz;
    tarn_gnz_view view;
    tarn_view row;
    int64_t ys[3];
    (void)state;
    OK(tarn_gnz_open(s.path, NULL, &gnz, &err));
    assert_int_equal(truncate(s.path, 2 * PAGE + 8), 0);
    for (int mode = TARN_GNZ_READ; mode <= TARN_GNZ_COPY; mode++)
        FAILS(TARN_ERR_TRUNCATED, "truncated while",
              tarn_gnz_get(gnz, 1, (tarn_gnz_mode)mode, &view, &err));
    FAILS(TARN_ERR_TRUNCATED, "truncated while",
          tarn__gnz_view_row(gnz, 1, 0, &row, &err));
    FAILS(TARN_ERR_TRUNCATED, "ends", tarn_gnz_read(gnz, 1, 0, 3, ys, sizeof ys, &err));
    /* Nor what is still in the file: it may have been truncated and written again. */
    FAILS(TARN_ERR_TRUNCATED, "truncated while",
          tarn_gnz_get(gnz, 0, TARN_GNZ_READ, &view, &err));
    tarn_gnz_close(gnz);
    free(s.bytes);
}

/* --- Views ------------------------------------------------------------------------- */

static void modes_keep_their_promises(void **state)
{
    small s = make_small("modes.gnz", false);
    tarn_gnz *gnz;
    tarn_gnz_view r, w, c, c2;
    (void)state;
    OK(tarn_gnz_open(s.path, NULL, &gnz, &err));
    OK(tarn_gnz_get(gnz, 1, TARN_GNZ_READ, &r, &err));
    OK(tarn_gnz_get(gnz, 1, TARN_GNZ_WRITE, &w, &err));
    OK(tarn_gnz_get(gnz, 1, TARN_GNZ_COPY, &c, &err));
    OK(tarn_gnz_get(gnz, 1, TARN_GNZ_COPY, &c2, &err));
    ((int64_t *)c.array.data)[0] = 100;
    assert_int_equal(((int64_t *)c2.array.data)[0], 7);
    ((int64_t *)w.array.data)[1] = 200;
    assert_int_equal(((const int64_t *)r.array.data)[0], 7);
    assert_int_equal(((const int64_t *)r.array.data)[1], 200);
    assert_int_equal(((int64_t *)c.array.data)[0], 100);
    OK(tarn_gnz_flush(gnz, &err));
    tarn_gnz_view_release(&c);
    tarn_gnz_view_release(&c);
    tarn_gnz_view_release(&c2);
    tarn_gnz_view_release(&w);
    tarn_gnz_view_release(&r);
    tarn_gnz_close(gnz);
    free(s.bytes);
    s.bytes = read_file(s.path, &s.size);
    assert_int_equal((int64_t)tarn__get64(s.bytes + 2 * PAGE + 8), 200);
    assert_int_equal((int64_t)tarn__get64(s.bytes + 2 * PAGE), 7);
    free(s.bytes);
}

static void views_without_maps_are_copies(void **state)
{
    small s = make_small("copies.gnz", false);
    tarn_gnz *gnz;
    tarn_gnz_view view;
    tarn_gnz_options o = TARN_GNZ_OPTIONS_INIT;
    (void)state;
    o.io = TARN_IO_READ;
    OK(tarn_gnz_open(s.path, &o, &gnz, &err));
    OK(tarn_gnz_get(gnz, 0, TARN_GNZ_READ, &view, &err));
    assert_int_equal(truncate(s.path, 10), 0);
    assert_memory_equal(view.array.data, x_values, sizeof x_values);
    tarn_gnz_view_release(&view);
    FAILS(TARN_ERR_TRUNCATED, "", tarn_gnz_get(gnz, 0, TARN_GNZ_WRITE, &view, &err));
    write_file(s.path, s.bytes, s.size);
    tarn_gnz_close(gnz);
    OK(tarn_gnz_open(s.path, &o, &gnz, &err));
    FAILS(TARN_ERR_UNSUPPORTED, "needs a memory map",
          tarn_gnz_get(gnz, 0, TARN_GNZ_WRITE, &view, &err));
    tarn_gnz_close(gnz);
    free(s.bytes);
}

static void rows_are_pointer_additions_and_samples(void **state)
{
    small s = make_small("rows.gnz", false);
    tarn_gnz *gnz;
    tarn_gnz_view x;
    tarn_view row;
    tarn_gnz_info info;
    tarn_gnz_array first;
    float two[2][2];
    (void)state;
    OK(tarn_gnz_open(s.path, NULL, &gnz, &err));
    OK(tarn_gnz_get(gnz, 0, TARN_GNZ_READ, &x, &err));
    assert_memory_equal((char *)x.array.data + 2 * x.array.strides[0], x_values[2],
                        sizeof x_values[2]);
    tarn_gnz_view_release(&x);
    tarn_gnz_info_get(gnz, &info, sizeof info);
    assert_int_equal(info.fields, 2);
    assert_int_equal(info.samples, 3);
    OK(tarn_gnz_array_get(gnz, 0, &first, sizeof first, &err));
    assert_true(first.is_field);
    OK(tarn__gnz_view_row(gnz, 0, 1, &row, &err));
    assert_int_equal(row.size, sizeof x_values[1]);
    assert_memory_equal(row.data, x_values[1], row.size);
    tarn_view_release(&row);
    FAILS(TARN_ERR_NO_SAMPLE, "rows 3", tarn__gnz_view_row(gnz, 0, 3, &row, &err));
    OK(tarn_gnz_read(gnz, 0, 1, 2, two, sizeof two, &err));
    assert_memory_equal(two, x_values[1], sizeof two);
    FAILS(TARN_ERR_LIMIT, "buffer", tarn_gnz_read(gnz, 0, 0, 3, two, sizeof two, &err));
    FAILS(TARN_ERR_NO_SAMPLE, "rows",
          tarn_gnz_read(gnz, 0, UINT64_MAX, 2, two, sizeof two, &err));
    for (int advice = TARN_GNZ_NORMAL; advice <= TARN_GNZ_DONT_NEED; advice++)
        tarn_gnz_advise(gnz, 0, 1, 2, (tarn_gnz_advice)advice);
    OK(tarn_gnz_read(gnz, 0, 1, 2, two, sizeof two, &err));
    tarn_gnz_close(gnz);
    free(s.bytes);
}

static void fields_are_the_largest_group_with_equal_rows(void **state)
{
    tarn_gnz_writer *w;
    tarn_gnz *gnz;
    tarn_dataset *dataset;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_dataset_info about;
    tarn_gnz_info info;
    tarn_gnz_array array;
    const unsigned char bytes[16] = {0};
    const char *path = scratch_path("fields.gnz");
    const char *const some[] = {"b", "a", NULL}, *const odd[] = {"a", "m", NULL},
                      *const none[] = {"s", NULL};
    (void)state;
    OK(tarn_gnz_writer_open(path, NULL, &w, &err));
    add(w, "a", bytes, "|u1", 2, (const uint64_t[]){2, 3});
    add(w, "b", bytes, "|u1", 1, (const uint64_t[]){2});
    add(w, "m", bytes, "|u1", 1, (const uint64_t[]){3});
    add(w, "n", bytes, "|u1", 1, (const uint64_t[]){3});
    add(w, "s", bytes, "|u1", 0, NULL);
    OK(tarn_gnz_writer_finish(w, &err));
    OK(tarn_gnz_open(path, NULL, &gnz, &err));
    tarn_gnz_info_get(gnz, &info, sizeof info);
    assert_int_equal(info.arrays, 5);
    assert_int_equal(info.samples, 3);
    assert_int_equal(info.fields, 2);
    for (size_t i = 0; i < 5; i++) {
        OK(tarn_gnz_array_get(gnz, i, &array, sizeof array, &err));
        assert_int_equal(array.is_field, i == 2 || i == 3);
    }
    tarn_gnz_close(gnz);
    o.fields = some;
    OK(tarn_dataset_open(path, &o, &dataset, &err));
    tarn_dataset_info_get(dataset, &about, sizeof about);
    assert_int_equal(about.samples, 2);
    tarn_dataset_close(dataset);
    o.fields = odd;
    FAILS(TARN_ERR_USAGE, "have different numbers of rows (2 and 3)",
          tarn_dataset_open(path, &o, &dataset, &err));
    o.fields = none;
    FAILS(TARN_ERR_USAGE, "it has 0 dimensions",
          tarn_dataset_open(path, &o, &dataset, &err));
}

static void fortran_rows_are_gathered(void **state)
{
    /* 2 × 3 × 2 in Fortran order: element (i, j, k) is at i + 2 j + 6 k. */
    const char *path = scratch_path("fortran.gnz");
    unsigned char want[2][3][2], got[2][3][2];
    tarn_gnz *gnz;
    tarn_view row;
    tarn_gnz_view view;
    (void)state;
    put_file(path,
             X("\"offset\": 4096, \"shape\": [2, 3, 2], \"dtype\": \"|u1\", "
               "\"order\": \"F\""),
             2 * PAGE);
    for (int i = 0; i < 12; i++)
        want[i % 2][i / 2 % 3][i / 6] = (unsigned char)((PAGE + i) * 7);
    OK(tarn_gnz_open(path, NULL, &gnz, &err));
    OK(tarn_gnz_read(gnz, 0, 0, 2, got, sizeof got, &err));
    assert_memory_equal(got, want, sizeof want);
    OK(tarn__gnz_view_row(gnz, 0, 1, &row, &err));
    assert_int_equal(row.size, sizeof want[1]);
    assert_memory_equal(row.data, want[1], sizeof want[1]);
    tarn_view_release(&row);
    OK(tarn_gnz_get(gnz, 0, TARN_GNZ_READ, &view, &err));
    assert_int_equal(view.array.strides[0], 1);
    assert_int_equal(view.array.strides[1], 2);
    assert_int_equal(view.array.strides[2], 6);
    tarn_gnz_view_release(&view);
    tarn_gnz_close(gnz);
}

static void statistics_leave_out_values_that_are_not_numbers(void **state)
{
    const double values[] = {1, 2, 4, NAN, INFINITY, 5};
    const char *path = scratch_path("stats.gnz");
    tarn_gnz_writer *w;
    tarn_gnz *gnz;
    tarn_gnz_stats s;
    uint64_t binned = 0;
    (void)state;
    OK(tarn_gnz_writer_open(path, NULL, &w, &err));
    add(w, "a", values, "<f8", 1, (const uint64_t[]){6});
    add(w, "e", values, "<f8", 1, (const uint64_t[]){0});
    add(w, "s", values, "|S8", 1, (const uint64_t[]){6});
    OK(tarn_gnz_writer_finish(w, &err));
    OK(tarn_gnz_open(path, NULL, &gnz, &err));
    OK(tarn_gnz_stats_get(gnz, 0, &s, sizeof s, &err));
    assert_int_equal(s.count, 6);
    assert_int_equal(s.nans, 1);
    assert_int_equal(s.infinities, 1);
    assert_true(s.min == 1 && s.max == INFINITY && s.mean == 3);
    assert_true(s.low == 1 && s.high == 5);
    for (unsigned i = 0; i < TARN_GNZ_BINS; i++)
        binned += s.bins[i];
    assert_int_equal(binned, 4);
    assert_int_equal(s.bins[0], 1);
    assert_int_equal(s.bins[TARN_GNZ_BINS - 1], 1);
    OK(tarn_gnz_stats_get(gnz, 1, &s, sizeof s, &err));
    assert_true(s.count == 0 && isnan(s.min) && isnan(s.mean));
    FAILS(TARN_ERR_UNSUPPORTED, "has no statistics",
          tarn_gnz_stats_get(gnz, 2, &s, sizeof s, &err));
    tarn_gnz_close(gnz);
}

/* Notes that a program copied from another file are ignored. */
static void notes_of_another_file_change_nothing(void **state)
{
    static const char *const notes[] = {"{\"arrays\": {\"x\": {\"rows\": 99999}}}",
                                        "{\"arrays\": {\"x\": {\"rows\": -1}}}",
                                        "{\"arrays\": {\"x\": {\"crc32c\": \"zz\"}}}",
                                        "{\"arrays\": {\"q\": {\"rows\": 1}}}",
                                        "{\"arrays\": 1, \"header\": []}",
                                        "3"};
    char json[512];
    tarn_gnz *gnz;
    tarn_gnz_array info;
    const char *path = scratch_path("by_hand.gnz");
    (void)state;
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        snprintf(json, sizeof json,
                 "{\"version\": 1, \"metadata\": {\"b\": 1, \"__tarn__\": %s}, "
                 "\"arrays\": {\"x\": {\"offset\": 4096, \"shape\": [9], "
                 "\"dtype\": \"|u1\"}}}",
                 notes[i]);
        put_file(path, json, 2 * PAGE);
        OK(tarn_gnz_open(path, NULL, &gnz, &err));
        OK(tarn_gnz_array_get(gnz, 0, &info, sizeof info, &err));
        assert_int_equal(info.reserved, 9);
        assert_false(info.has_checksum);
        assert_string_equal(gnz->header.metadata.data, "{\"b\": 1}");
        tarn_gnz_close(gnz);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_headers_are_read),
        cmocka_unit_test(hostile_headers_are_refused_by_name),
        cmocka_unit_test(deep_and_many_sided_headers_are_refused),
        cmocka_unit_test(false_header_lengths_are_refused_at_once),
        cmocka_unit_test(truncated_files_are_errors_or_right),
        cmocka_unit_test(every_flipped_bit_is_found_or_changes_no_value),
        cmocka_unit_test(bytes_removed_and_set_to_extremes_do_no_harm),
        cmocka_unit_test(bytes_between_arrays_must_be_zero),
        cmocka_unit_test(file_truncated_while_open_is_an_error),
        cmocka_unit_test(modes_keep_their_promises),
        cmocka_unit_test(views_without_maps_are_copies),
        cmocka_unit_test(rows_are_pointer_additions_and_samples),
        cmocka_unit_test(fields_are_the_largest_group_with_equal_rows),
        cmocka_unit_test(fortran_rows_are_gathered),
        cmocka_unit_test(statistics_leave_out_values_that_are_not_numbers),
        cmocka_unit_test(notes_of_another_file_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
