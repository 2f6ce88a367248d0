/* An array file. Whatever its header says, every array that can be opened is inside the
 * file, after the header, and does not overlap another. All ways of reading give the same
 * bytes, and the arrays written again give a file with the same content.
 *
 * The input is two bytes and the beginning of a file: the low four bits of the first byte
 * are the file's length in pages, 16 sets the header's length to what is available, 32
 * verifies. The rest of the file is a pattern. */
#include "common.h"

#include <tarn/gnz.h>
#include <tarn/verify.h>

#include "base/array.h"
#include "base/bytes.h"
#include "folder.h"
#include "gnz/reader.h"

enum { LENGTH = 16, VERIFY = 32, STATS = 64, MAX_PAGES = 16 };

static char in_path[PATH_SIZE], out_path[PATH_SIZE];

static size_t put_input(const uint8_t *data, size_t size, unsigned options)
{
    static uint8_t pattern[MAX_PAGES * TARN_GNZ_PAGE], file[sizeof pattern];
    size_t pages = options & (MAX_PAGES - 1), len = pages * TARN_GNZ_PAGE;
    if (len < size) len = size;
    /* Filled once: a loop for every input is slow where each comparison is traced. */
    for (size_t i = TARN_GNZ_PAGE; !pattern[sizeof pattern - 1] && i < sizeof pattern;
         i++)
        pattern[i] = (uint8_t)(i * 31 >> 3);
    memcpy(file, data, size);
    memcpy(file + size, pattern + size, len - size);
    if (options & LENGTH && size >= 8) {
        memcpy(file, "GNZ1", 4);
        tarn__put32(file + 4, (uint32_t)size - 8);
    }
    put_file(in_path, file, len);
    return len;
}

static void check_place(const tarn_gnz *gnz, size_t number, size_t len)
{
    tarn_gnz_array a, b;
    CHECK(tarn_gnz_array_get(gnz, number, &a, sizeof a, NULL) == TARN_OK);
    CHECK(a.offset % TARN_GNZ_PAGE == 0 && a.offset <= len && a.bytes <= len - a.offset);
    tarn_gnz_info info;
    tarn_gnz_info_get(gnz, &info, sizeof info);
    CHECK(a.offset >= info.header_size && a.offset >= info.header_space);
    for (size_t i = 0; i < number && number < 64; i++) {
        CHECK(tarn_gnz_array_get(gnz, i, &b, sizeof b, NULL) == TARN_OK);
        CHECK(strcmp(a.name, b.name) != 0);
        CHECK(!a.bytes || !b.bytes || a.offset >= b.offset + b.bytes ||
              b.offset >= a.offset + a.bytes);
    }
}

/* All ways of reading, and the values packed into the caller's memory. */
static char *check_values(tarn_gnz *gnz, size_t number, const tarn_gnz_array *info)
{
    tarn_gnz_view view;
    size_t bytes = (size_t)info->bytes;
    uint64_t rows = info->ndim ? info->shape[0] : 1;
    char *read = malloc(bytes + 1), *packed = malloc(bytes + 1);
    CHECK(read && packed);
    CHECK(tarn_gnz_read(gnz, number, 0, rows, read, bytes, NULL) == TARN_OK);
    for (int mode = TARN_GNZ_READ; mode <= TARN_GNZ_COPY; mode++) {
        CHECK(tarn_gnz_get(gnz, number, (tarn_gnz_mode)mode, &view, NULL) == TARN_OK);
        CHECK(tarn_array_bytes(&view.array) == bytes);
        tarn__array_pack(&view.array, false, packed);
        CHECK(memcmp(read, packed, bytes) == 0);
        tarn_gnz_view_release(&view);
    }
    if (rows && bytes) {
        tarn_view row;
        CHECK(tarn__gnz_view_row(gnz, number, rows - 1, &row, NULL) == TARN_OK);
        CHECK(row.size == bytes / rows);
        CHECK(memcmp(row.data, read + bytes - row.size, row.size) == 0);
        tarn_view_release(&row);
    }
    free(packed);
    return read;
}

/* The same arrays, from the rewritten file. */
static void compare(tarn_gnz *gnz, char **values)
{
    tarn_gnz *again;
    tarn_gnz_array a, b;
    tarn_gnz_view view;
    size_t number;
    CHECK(tarn_gnz_open(out_path, NULL, &again, NULL) == TARN_OK);
    CHECK(again->header.count == gnz->header.count);
    for (size_t i = 0; i < gnz->header.count; i++) {
        CHECK(tarn_gnz_array_get(gnz, i, &a, sizeof a, NULL) == TARN_OK);
        CHECK(tarn_gnz_find(again, a.name, &number, NULL) == TARN_OK);
        CHECK(tarn_gnz_array_get(again, number, &b, sizeof b, NULL) == TARN_OK);
        CHECK(a.bytes == b.bytes && a.ndim == b.ndim && !b.fortran);
        CHECK(memcmp(a.shape, b.shape, a.ndim * sizeof *a.shape) == 0);
        CHECK(tarn_gnz_get(again, number, TARN_GNZ_READ, &view, NULL) == TARN_OK);
        CHECK(memcmp(view.array.data, values[i], (size_t)a.bytes) == 0);
        tarn_gnz_view_release(&view);
    }
    tarn_gnz_close(again);
}

static void rewrite(tarn_gnz *gnz, char **values)
{
    tarn_gnz_writer *w;
    tarn_gnz_array info;
    tarn_array array;
    tarn_verify_report report;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    tarn_gnz_info whole;
    tarn_gnz_info_get(gnz, &whole, sizeof whole);
    o.overwrite = o.checksums = true;
    CHECK(tarn_gnz_writer_open(out_path, &o, &w, NULL) == TARN_OK);
    CHECK(tarn_gnz_writer_metadata(w, whole.metadata, whole.metadata_size, NULL) ==
          TARN_OK);
    for (size_t i = 0; i < gnz->header.count; i++) {
        CHECK(tarn_gnz_array_get(gnz, i, &info, sizeof info, NULL) == TARN_OK);
        CHECK(tarn_array_init(&array, values[i], info.dtype, info.ndim, info.shape,
                              NULL) == TARN_OK);
        CHECK(tarn_gnz_writer_add(w, info.name, &array, NULL, NULL) == TARN_OK);
    }
    CHECK(tarn_gnz_writer_finish(w, NULL) == TARN_OK);
    CHECK(tarn_verify(out_path, NULL, &report, sizeof report, NULL) == TARN_OK);
    CHECK(report.problems == 0 && report.checksummed == gnz->header.count);
    compare(gnz, values);
}

static void check_file(tarn_gnz *gnz, size_t len, bool stats)
{
    size_t count = gnz->header.count, n_fields = 0;
    uint64_t total = 0;
    tarn_gnz_array info;
    tarn_gnz_stats s;
    char **values = calloc(count + 1, sizeof *values);
    CHECK(values);
    for (size_t i = 0; i < count; i++) {
        check_place(gnz, i, len);
        CHECK(tarn_gnz_array_get(gnz, i, &info, sizeof info, NULL) == TARN_OK);
        values[i] = check_values(gnz, i, &info);
        if (stats && tarn_gnz_stats_get(gnz, i, &s, sizeof s, NULL) == TARN_OK)
            CHECK(s.nans + s.infinities <= s.count);
        total += info.bytes;
        n_fields += info.is_field;
        CHECK(!info.is_field || info.shape[0] == gnz->samples);
    }
    CHECK(total <= len);
    CHECK(n_fields == gnz->fields);
    rewrite(gnz, values);
    for (size_t i = 0; i < count; i++)
        free(values[i]);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tarn_gnz *gnz;
    tarn_error err;
    tarn_verify_report report;
    if (size < 2 || size - 2 > MAX_PAGES * TARN_GNZ_PAGE) return 0;
    if (make_folder()) {
        path_to(in_path, "in.gnz");
        path_to(out_path, "out.gnz");
    }
    unsigned options = data[0];
    size_t len = put_input(data + 2, size - 2, options);
    tarn_status status = tarn_gnz_open(in_path, NULL, &gnz, &err);
    if (status == TARN_OK) {
        check_file(gnz, len, options & STATS);
        tarn_gnz_close(gnz);
    } else {
        CHECK(err.code == status && err.message[0] && strcmp(err.path, in_path) == 0);
    }
    if (options & VERIFY) {
        CHECK(tarn_verify(in_path, NULL, &report, sizeof report, NULL) == TARN_OK);
        CHECK(status == TARN_OK || report.problems);
    }
    return 0;
}
