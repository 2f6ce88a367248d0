/* IAC files with hostile tables: read, validate, use, write again. Whatever the bytes
 * are, payloads that pass their CRC are the same in the second file as in the first, and
 * so are all values of both tables.
 *
 * The input is a byte of options, the length of the slide table and of the index table
 * (24 bits each, little endian), both tables, and the data segment. With RAW_HEADER the
 * slide table is replaced by the header's JSON, and the tables are empty. With MESSAGE
 * everything after the lengths is the metadata of one Arrow message, which is only
 * checked. */
#include "common.h"

#include <tarn/dataset.h>
#include <tarn/iac.h>
#include <tarn/textpair.h>
#include <tarn/verify.h>

#include "base/bytes.h"
#include "folder.h"
#include "iac/header.h"
#include "iac/ipc.h"

#include "../tests/unit/iac_help.h"

enum {
    RAW_HEADER = 1,
    FIRST_VERSION = 2,
    NO_MAP = 4,
    CHECKED = 8,
    CODEC = 16,
    MESSAGE = 64
};
enum { PREFIX = 7, MAX_ROWS = 200, MAX_TABLE = 16 << 20 };

static char pack_path[PATH_SIZE], copy_path[PATH_SIZE];

static void write_all(const unsigned char *header, const uint8_t *rest, size_t size)
{
    int fd = open(pack_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, header, TARN_IAC_HEADER_BYTES) == TARN_IAC_HEADER_BYTES);
    CHECK(write(fd, rest, size) == (ssize_t)size);
    close(fd);
}

static uint64_t rows_of(const uint8_t *data, size_t size)
{
    tarn__table *t;
    uint8_t *copy = exact_copy(data, size);
    uint64_t rows = 0;
    if (tarn__table_parse(copy, size, MAX_TABLE, &t, NULL) == TARN_OK) {
        rows = t->rows;
        tarn__table_unref(t);
    }
    free(copy);
    return rows;
}

/* A header that matches the tables, so that their content is reached. */
static bool make_header(unsigned char *out, unsigned options, const uint8_t *tables,
                        size_t slides, size_t index, size_t data)
{
    tarn__iac_header h = {.version = options & FIRST_VERSION ? 1 : 2,
                          .slide_table_offset = TARN_IAC_HEADER_BYTES,
                          .slide_table_length = slides,
                          .index_table_offset = TARN_IAC_HEADER_BYTES + slides,
                          .index_table_length = index,
                          .data_offset = TARN_IAC_HEADER_BYTES + slides + index,
                          .data_length = data,
                          .num_slides = rows_of(tables, slides),
                          .num_records = rows_of(tables + slides, index)};
    static const char *const callers[] = {
        "{\"feature_record_bytes\": 3}", "{\"codec\": \"brotli\"}",
        "{\"codec\": \"zstd\"}", "{\"codec\": \"gzip\"}"};
    const char *caller = callers[options / CODEC % 4];
    tarn__iac_caller c = {.text = caller, .length = strlen(caller)};
    return tarn__iac_header_make(out, &h, &c, NULL) == TARN_OK;
}

static void raw_header(unsigned char *out, unsigned options, const uint8_t *json,
                       size_t size)
{
    if (size > TARN_IAC_HEADER_BYTES - 16) size = TARN_IAC_HEADER_BYTES - 16;
    memset(out, 0, TARN_IAC_HEADER_BYTES);
    memcpy(out, "IATROC", 7);
    out[7] = out[12] = options & FIRST_VERSION ? 1 : 2;
    tarn__put32(out + 8, (uint32_t)size);
    memcpy(out + 16, json, size);
}

/* --- Use -------------------------------------------------------------------------- */

static uint64_t rows_to_use(const tarn_iac *pack)
{
    tarn_iac_info info;
    tarn_iac_info_get(pack, &info, sizeof info);
    return info.records < MAX_ROWS ? info.records : MAX_ROWS;
}

static void use_columns(tarn_iac *pack)
{
    uint64_t row, rows = rows_to_use(pack);
    for (size_t c = 0; c < iac_columns(pack, TARN_IAC_INDEX); c++) {
        const char *name = iac_column(pack, TARN_IAC_INDEX, c).name;
        CHECK(iac_column(pack, TARN_IAC_INDEX, c).type);
        (void)!tarn_iac_find(pack, name, "7", 1, 0, &row, NULL);
        if (tarn_iac_find(pack, name, "a", 1, 0, &row, NULL) == TARN_OK)
            CHECK(row < rows || rows == MAX_ROWS);
    }
}

static void use_payloads(tarn_iac *pack)
{
    uint64_t rows = rows_to_use(pack), list[MAX_ROWS];
    tarn_iac_batch batch = {0};
    size_t good = 0;
    for (uint64_t i = 0; i < rows; i++) {
        tarn_view view, decoded;
        tarn_textpair_patient who;
        if (tarn_iac_view(pack, i, false, &view, NULL) != TARN_OK) continue;
        list[rows - ++good] = i;
        free(exact_copy(view.data, view.size)); /* touches every byte */
        tarn_view_release(&view);
        if (tarn_iac_view(pack, i, true, &decoded, NULL) == TARN_OK)
            tarn_view_release(&decoded);
        if (i < 4 && tarn_textpair_read(pack, i, &who, NULL) == TARN_OK)
            tarn_textpair_reset(&who);
    }
    CHECK(tarn_iac_read(pack, list + rows - good, good, &batch, NULL) == TARN_OK);
    tarn_iac_batch_reset(&batch);
}

/* Row i of b is row i of a, or the i-th from the end. */
static void compare_values(tarn_iac *a, tarn_iac *b, bool reversed)
{
    uint64_t rows = rows_to_use(a);
    CHECK(iac_columns(b, TARN_IAC_INDEX) >= iac_columns(a, TARN_IAC_INDEX));
    for (size_t c = 0; c < iac_columns(a, TARN_IAC_INDEX); c++) {
        const char *name = iac_column(a, TARN_IAC_INDEX, c).name;
        CHECK(strcmp(name, iac_column(b, TARN_IAC_INDEX, c).name) == 0);
        if (strcmp(name, "offset") == 0 || strcmp(name, "length") == 0 ||
            strcmp(name, "crc32") == 0)
            continue;
        CHECK(strcmp(iac_column(a, TARN_IAC_INDEX, c).type,
                     iac_column(b, TARN_IAC_INDEX, c).type) == 0);
        for (uint64_t i = 0; i < rows; i++) {
            tarn_view x, y;
            uint64_t k = reversed ? rows - 1 - i : i;
            tarn_status first = tarn_iac_value(a, TARN_IAC_INDEX, c, k, &x, NULL),
                        second = tarn_iac_value(b, TARN_IAC_INDEX, c, i, &y, NULL);
            CHECK(first == second);
            if (first != TARN_OK) continue;
            CHECK(x.size == y.size && memcmp(x.data, y.data, x.size) == 0);
            tarn_view_release(&x);
            tarn_view_release(&y);
        }
    }
}

/* What was read and validated can be written, and is the same when read again. */
static void write_again(tarn_iac *pack)
{
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac *copy;
    tarn_error err;
    o.encoded = true;
    o.overwrite = true;
    o.no_sync = true;
    if (tarn_iac_rewrite(pack_path, copy_path, &o, &err) != TARN_OK) {
        CHECK(err.message[0]);
        return;
    }
    CHECK(tarn_iac_open(copy_path, NULL, &copy, &err) == TARN_OK);
    compare_values(pack, copy, false);
    tarn_iac_close(copy);
}

/* The same with the first rows in reverse order. */
static void write_reversed(tarn_iac *pack)
{
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    uint64_t rows[MAX_ROWS], count = rows_to_use(pack);
    tarn_iac *copy;
    tarn_error err;
    o.encoded = true;
    o.overwrite = true;
    o.no_sync = true;
    for (uint64_t i = 0; i < count; i++)
        rows[i] = count - 1 - i;
    o.rows = rows;
    o.n_rows = count;
    if (tarn_iac_rewrite(pack_path, copy_path, &o, &err) != TARN_OK) {
        CHECK(err.message[0]);
        return;
    }
    CHECK(tarn_iac_open(copy_path, NULL, &copy, &err) == TARN_OK);
    compare_values(pack, copy, true);
    tarn_iac_close(copy);
}

/* Records, or members of samples, read through a dataset. */
static void use_dataset(void)
{
    tarn_dataset *d;
    tarn_text key = {0};
    tarn_error err;
    uint64_t found;
    if (tarn_dataset_open(pack_path, NULL, &d, &err) != TARN_OK) {
        CHECK(err.message[0]);
        return;
    }
    for (uint64_t i = 0; i < tarn_dataset_count(d) && i < MAX_ROWS; i++) {
        tarn_view view;
        for (uint32_t f = 0; tarn_dataset_field(d, f) && f < 20; f++)
            if (tarn_dataset_get(d, i, f, &view, NULL) == TARN_OK)
                tarn_view_release(&view);
        if (tarn_dataset_key(d, i, &key, NULL) == TARN_OK)
            CHECK(tarn_dataset_find(d, (const char *const *)&key.data, 1, &found, NULL,
                                    NULL) == TARN_OK &&
                  found <= i);
    }
    tarn_text_reset(&key);
    tarn_dataset_close(d);
}

static void use(unsigned options)
{
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_verify_report report;
    struct ArrowArrayStream stream;
    struct ArrowArray array;
    tarn_iac *pack;
    tarn_error err = {0};
    o.no_map = options & NO_MAP;
    o.check = options & CHECKED;
    o.max_table_bytes = MAX_TABLE;
    o.max_expansion = 100;
    if (tarn_iac_open(pack_path, &o, &pack, &err) != TARN_OK) {
        CHECK(err.message[0] && err.code != TARN_OK);
        return;
    }
    use_payloads(pack);
    use_columns(pack);
    if (tarn_iac_export(pack, TARN_IAC_INDEX, &stream, NULL) == TARN_OK) {
        while (stream.get_next(&stream, &array) == 0 && array.release)
            array.release(&array);
        stream.release(&stream);
    }
    write_again(pack);
    write_reversed(pack);
    tarn_iac_close(pack);
    use_dataset();
    CHECK(tarn_verify(pack_path, NULL, &report, sizeof report, &err) == TARN_OK ||
          err.code == TARN_ERR_LIMIT || err.code == TARN_ERR_UNSUPPORTED);
}

static void check_message(const uint8_t *data, size_t size)
{
    uint8_t *copy = exact_copy(data, size);
    tarn_error err = {0};
    if (tarn__message_check(copy, (uint32_t)size, 0, &err) != TARN_OK)
        CHECK(err.message[0] && err.offset <= size);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char header[TARN_IAC_HEADER_BYTES];
    if (size < PREFIX) return 0;
    if (make_folder()) {
        path_to(pack_path, "a.iac");
        path_to(copy_path, "b.iac");
    }
    unsigned options = data[0];
    size_t slides = tarn__get32(data) >> 8, index = tarn__get32(data + 3) >> 8;
    data += PREFIX;
    size -= PREFIX;
    if (options & MESSAGE) {
        check_message(data, size);
        return 0;
    }
    if (slides > size) slides = size;
    if (index > size - slides) index = size - slides;
    if (options & RAW_HEADER) {
        raw_header(header, options, data, slides);
        write_all(header, data + slides, size - slides);
    } else {
        if (!make_header(header, options, data, slides, index, size - slides - index))
            return 0;
        write_all(header, data, size);
    }
    use(options);
    return 0;
}
