/* Packs: reading, lookups, writing, codecs, upgrades, and what damage does to them. */
#include "support.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"

static tarn_error err;

enum { ROWS = 50 };

static void payload_of(unsigned i, unsigned char *out, size_t *size)
{
    *size = i * 37u % 211u;
    for (size_t k = 0; k < *size; k++)
        out[k] = (unsigned char)(i * 31u + k * 7u);
}

static void no_slides(struct ArrowArrayStream *out)
{
    static const char *const columns[] = {"u8:slide_idx", "text:slide_id"};
    tarn_iac_rows *rows;
    OK(tarn_iac_rows_new(columns, 2, &rows, &err));
    OK(tarn_iac_rows_number(rows, 0, 0, &err));
    OK(tarn_iac_rows_text(rows, 1, "s0", 2, &err));
    OK(tarn_iac_rows_finish(rows, out, &err));
}

/* name: n0, n1, ...; group: i % 5 - 2, null for every seventh. */
static void index_table(struct ArrowArrayStream *out, unsigned n)
{
    static const char *const columns[] = {"text:name", "int:group"};
    tarn_iac_rows *rows;
    OK(tarn_iac_rows_new(columns, 2, &rows, &err));
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, "n%u", i);
        OK(tarn_iac_rows_text(rows, 0, name, (size_t)len, &err));
        if (i % 7 == 6)
            OK(tarn_iac_rows_null(rows, 1, &err));
        else
            OK(tarn_iac_rows_number(rows, 1, (int64_t)(i % 5) - 2, &err));
    }
    OK(tarn_iac_rows_finish(rows, out, &err));
}

static void make_pack(const char *path, const tarn_iac_write_options *o)
{
    struct ArrowArrayStream slides, index;
    tarn_iac_writer *w;
    unsigned char bytes[256];
    size_t size;
    no_slides(&slides);
    index_table(&index, ROWS);
    OK(tarn_iac_writer_open(path, &slides, &index, o, &w, &err));
    for (unsigned i = 0; i < ROWS; i++) {
        payload_of(i, bytes, &size);
        OK(tarn_iac_writer_add(w, bytes, size, &err));
    }
    OK(tarn_iac_writer_finish(w, &err));
}

static void check_rows(tarn_iac *pack)
{
    unsigned char want[256], got[256];
    size_t size, got_size;
    for (unsigned i = 0; i < ROWS; i++) {
        tarn_view view;
        payload_of(i, want, &size);
        OK(tarn_iac_view(pack, i, &view, &err));
        assert_int_equal(view.size, size);
        assert_memory_equal(view.data, want, size);
        tarn_view_release(&view);
        OK(tarn_iac_read(pack, i, got, sizeof got, &got_size, &err));
        assert_int_equal(got_size, size);
        assert_memory_equal(got, want, size);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    const char *path = scratch_path("plain.iac");
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_iac_info info;
    tarn_iac *pack;
    make_pack(path, NULL);
    for (int way = 0; way < 4; way++) {
        o.no_map = way & 1;
        o.check = way & 2;
        OK(tarn_iac_open(path, &o, &pack, &err));
        tarn_iac_info_get(pack, &info);
        assert_int_equal(info.records, ROWS);
        assert_int_equal(info.slides, 1);
        assert_int_equal(info.version, 2);
        assert_true(info.has_spans && info.has_checksums);
        check_rows(pack);
        tarn_iac_close(pack);
    }
}

static void the_packages_packs_are_read(void **state)
{
    (void)state;
    static const char *const paths[] = {"iac/made_by_0.0.2.iac", "iac/made_by_0.1.4.iac"};
    for (int i = 0; i < 2; i++) {
        tarn_iac *pack;
        tarn_view view;
        uint64_t row;
        OK(tarn_iac_open(data_path(paths[i]), NULL, &pack, &err));
        OK(tarn_iac_find(pack, "item_id", "item_b", 6, 0, &row, &err));
        assert_int_equal(row, 1);
        OK(tarn_iac_view(pack, row, &view, &err));
        assert_int_equal(view.size, 19);
        assert_memory_equal(view.data, "second_payload_data", 19);
        tarn_view_release(&view);
        FAILS(TARN_ERR_NOT_FOUND, "no record 2", tarn_iac_view(pack, 2, &view, &err));
        tarn_iac_close(pack);
    }
}

static void fixed_records_need_no_spans(void **state)
{
    (void)state;
    tarn_iac *pack;
    tarn_iac_info info;
    tarn_view view;
    float values[4];
    OK(tarn_iac_open(data_path("iac/fixed_by_0.1.4.iac"), NULL, &pack, &err));
    tarn_iac_info_get(pack, &info);
    assert_false(info.has_spans);
    assert_int_equal(info.record_bytes, 16);
    OK(tarn_iac_view(pack, 2, &view, &err));
    memcpy(values, view.data, sizeof values);
    assert_true(values[0] == 8 && values[3] == 11);
    OK(tarn_iac_view_span(pack, 4, 8, &view, &err));
    FAILS(TARN_ERR_USAGE, "outside the data segment",
          tarn_iac_view_span(pack, 40, 9, &view, &err));
    tarn_iac_close(pack);
}

static void batches_keep_the_order_asked_for(void **state)
{
    (void)state;
    static const uint64_t rows[] = {49, 0, 7, 7, 31, 1, 48};
    const char *path = scratch_path("batch.iac");
    tarn_iac_batch batch = {0};
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    make_pack(path, NULL);
    for (int way = 0; way < 2; way++) {
        tarn_iac *pack;
        o.no_map = way;
        OK(tarn_iac_open(path, &o, &pack, &err));
        OK(tarn_iac_read_many(pack, rows, 7, &batch, &err));
        assert_int_equal(batch.count, 7);
        for (int i = 0; i < 7; i++) {
            unsigned char want[256];
            size_t size;
            payload_of((unsigned)rows[i], want, &size);
            assert_int_equal(batch.offsets[i + 1] - batch.offsets[i], size);
            assert_memory_equal(batch.data + batch.offsets[i], want, size);
        }
        OK(tarn_iac_read_many(pack, rows, 0, &batch, &err));
        assert_int_equal(batch.count, 0);
        tarn_iac_close(pack);
    }
    tarn_iac_batch_reset(&batch);
}

static void lookups_find_every_row_of_a_value(void **state)
{
    (void)state;
    const char *path = scratch_path("find.iac");
    tarn_iac *pack;
    uint64_t row = 0, from = 0, found = 0;
    make_pack(path, NULL);
    OK(tarn_iac_open(path, NULL, &pack, &err));
    while (tarn_iac_find(pack, "group", "-2", 2, from, &row, &err) == TARN_OK) {
        assert_true(row % 5 == 0 && row % 7 != 6 && row >= from);
        from = row + 1;
        found++;
    }
    for (uint64_t i = 0; i < ROWS; i++)
        found -= i % 5 == 0 && i % 7 != 6;
    assert_int_equal(found, 0);
    OK(tarn_iac_find(pack, "group", "2", 1, 10, &row,
                     &err)); /* into the middle of a chain */
    assert_int_equal(row, 14);
    FAILS(TARN_ERR_NOT_FOUND, "group = 3",
          tarn_iac_find(pack, "group", "3", 1, 0, &row, &err));
    FAILS(TARN_ERR_NOT_FOUND, "no column",
          tarn_iac_find(pack, "x", "3", 1, 0, &row, &err));
    tarn_iac_close(pack);
}

typedef struct reader {
    tarn_iac *pack;
    unsigned seed;
    bool good;
} reader;

static void *read_at_random(void *arg)
{
    reader *r = arg;
    unsigned x = r->seed;
    r->good = true;
    for (int i = 0; i < 2000 && r->good; i++) {
        unsigned char want[256];
        size_t size;
        tarn_view view;
        uint64_t row;
        char name[16];
        x = x * 1103515245u + 12345u;
        unsigned which = (x >> 8) % ROWS;
        int len = snprintf(name, sizeof name, "n%u", which);
        payload_of(which, want, &size);
        r->good =
            tarn_iac_find(r->pack, "name", name, (size_t)len, 0, &row, NULL) == TARN_OK &&
            row == which && tarn_iac_view(r->pack, row, &view, NULL) == TARN_OK;
        if (!r->good) break;
        r->good = view.size == size && memcmp(view.data, want, size) == 0;
        tarn_view_release(&view);
    }
    return NULL;
}

static void threads_share_a_pack(void **state)
{
    (void)state;
    const char *path = scratch_path("threads.iac");
    make_pack(path, NULL);
    for (int n = 0; n <= 6; n += 6) {
        tarn_iac *pack;
        pthread_t threads[6];
        reader readers[7];
        OK(tarn_iac_open(path, NULL, &pack, &err));
        for (int i = 0; i < n; i++) {
            readers[i] = (reader){pack, (unsigned)i, false};
            assert_int_equal(
                pthread_create(&threads[i], NULL, read_at_random, &readers[i]), 0);
        }
        readers[n] = (reader){pack, 99, false};
        read_at_random(&readers[n]);
        for (int i = 0; i < n; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i <= n; i++)
            assert_true(readers[i].good);
        tarn_iac_close(pack);
    }
}

static void arrays_outlive_their_pack(void **state)
{
    (void)state;
    const char *path = scratch_path("outlive.iac");
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray array, moved;
    tarn_iac *pack;
    make_pack(path, NULL);
    OK(tarn_iac_open(path, NULL, &pack, &err));
    OK(tarn_iac_export(pack, TARN_IAC_INDEX, &stream, &err));
    tarn_iac_close(pack);
    unlink(path);
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    assert_int_equal(schema.n_children, 5);
    assert_string_equal(schema.children[2]->name, "offset");
    schema.release(&schema);
    assert_int_equal(stream.get_next(&stream, &array), 0);
    stream.release(&stream);
    assert_int_equal(array.length, ROWS);
    moved = *array.children[0]; /* a consumer may move a child out */
    array.children[0]->release = NULL;
    array.release(&array);
    assert_int_equal(((const int32_t *)moved.buffers[1])[1], 2);
    assert_memory_equal(moved.buffers[2], "n0n1n2", 6);
    moved.release(&moved);
}

/* Offsets were looked at once; a file that is changed afterwards must not steer by them.
 */
static void a_pack_changed_in_place_keeps_its_bounds(void **state)
{
    (void)state;
    const char *path = scratch_path("changed.iac");
    struct ArrowArrayStream stream;
    struct ArrowArray array;
    tarn_iac *pack;
    unsigned char ones[4096];
    size_t size;
    make_pack(path, NULL);
    OK(tarn_iac_open(path, NULL, &pack, &err));
    OK(tarn_iac_export(pack, TARN_IAC_INDEX, &stream, &err));
    free(read_file(path, &size));
    memset(ones, 0xff, sizeof ones);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (size_t at = 0; at < size; at += sizeof ones) {
        size_t n = size - at < sizeof ones ? size - at : sizeof ones;
        assert_int_equal(pwrite(fd, ones, n, (off_t)at), n);
    }
    close(fd);
    assert_int_equal(stream.get_next(&stream, &array), 0);
    const int32_t *offsets = array.children[0]->buffers[1];
    for (int i = 0; i < 5; i++)
        assert_int_equal(offsets[i], 2 * i);
    const unsigned char *text = array.children[0]->buffers[2];
    assert_int_equal(text[0], 0xff); /* it was mapped, or nothing is tested here */
    array.release(&array);
    stream.release(&stream);
    tarn_iac_close(pack);
}

/* A stream of one array that was taken out of another stream and cut. */
typedef struct cut {
    struct ArrowArrayStream from;
    int way;
} cut;

static int cut_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    cut *c = self->private_data;
    return c->from.get_schema(&c->from, out);
}

enum { CUT = 11, LEFT = ROWS - CUT - 2 };

static int cut_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    cut *c = self->private_data;
    int code = c->from.get_next(&c->from, out);
    if (code != 0 || !out->release) return code;
    out->length = LEFT;
    if (c->way == 0) out->offset = CUT;
    for (int64_t i = 0; c->way == 1 && i < out->n_children; i++) {
        out->children[i]->offset = CUT;
        out->children[i]->length = LEFT;
        out->children[i]->null_count = -1;
    }
    return 0;
}

static void cut_release(struct ArrowArrayStream *self)
{
    cut *c = self->private_data;
    c->from.release(&c->from);
    self->release = NULL;
}

static void slices_are_written_as_what_they_show(void **state)
{
    (void)state;
    const char *path = scratch_path("whole.iac"), *part = scratch_path("part.iac");
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    o.overwrite = true;
    make_pack(path, NULL);
    for (int way = 0; way < 2; way++) {
        tarn_iac *pack, *got;
        cut c = {.way = way};
        struct ArrowArrayStream slides,
            index = {cut_schema, cut_next, NULL, cut_release, &c};
        tarn_iac_writer *w;
        OK(tarn_iac_open(path, NULL, &pack, &err));
        OK(tarn_iac_export(pack, TARN_IAC_INDEX, &c.from, &err));
        no_slides(&slides);
        OK(tarn_iac_writer_open(part, &slides, &index, &o, &w, &err));
        for (unsigned i = 0; i < LEFT; i++)
            OK(tarn_iac_writer_add(w, &i, sizeof i, &err));
        OK(tarn_iac_writer_finish(w, &err));
        OK(tarn_iac_open(part, NULL, &got, &err));
        for (uint64_t i = 0; i < LEFT; i++) {
            tarn_view a, b;
            for (size_t k = 0; k < 2; k++) {
                OK(tarn_iac_value(pack, TARN_IAC_INDEX, k, i + CUT, &a, &err));
                OK(tarn_iac_value(got, TARN_IAC_INDEX, k, i, &b, &err));
                assert_string_equal((const char *)a.data, (const char *)b.data);
                tarn_view_release(&a);
                tarn_view_release(&b);
            }
            OK(tarn_iac_view(got, i, &a, &err));
            assert_int_equal(a.data[0], i);
            tarn_view_release(&a);
        }
        tarn_iac_close(got);
        tarn_iac_close(pack);
    }
}

static void refused(const char *part, const tarn_iac_write_options *o, unsigned rows,
                    unsigned payloads)
{
    struct ArrowArrayStream slides, index;
    const void *data[ROWS];
    size_t sizes[ROWS];
    struct stat st;
    const char *path = scratch_path("refused.iac");
    for (unsigned i = 0; i < payloads; i++) {
        data[i] = "x";
        sizes[i] = 1;
    }
    no_slides(&slides);
    index_table(&index, rows);
    tarn_status status =
        tarn_iac_build(path, &slides, &index, data, sizes, payloads, o, &err);
    assert_int_not_equal(status, TARN_OK);
    assert_non_null(strstr(err.message, part));
    assert_null(slides.release);
    assert_null(index.release);
    assert_int_not_equal(stat(path, &st), 0);
}

static void wrong_input_leaves_nothing(void **state)
{
    (void)state;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    refused("2 payloads for the 3 rows", NULL, 3, 2);
    refused("more payloads than the 3 rows", NULL, 3, 4);
    o.version = 3;
    refused("pack version 3", &o, 1, 1);
    o.version = 2;
    o.header = "[]";
    refused("not a JSON object", &o, 1, 1);
    char *large = malloc(70000);
    memset(large, ' ', 70000);
    memcpy(large, "{\"k\":\"", 6);
    memset(large + 6, 'x', 69000);
    memcpy(large + 69006, "\"}", 3);
    o.header = large;
    refused("there is room for 65520", &o, 1, 1);
    free(large);
    char command[512];
    snprintf(command, sizeof command, "ls -A '%s' | grep refused", scratch());
    assert_int_not_equal(system(command), 0);
}

static void an_existing_pack_is_kept(void **state)
{
    (void)state;
    const char *path = scratch_path("kept.iac");
    struct ArrowArrayStream slides, index;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac_writer *w;
    make_pack(path, NULL);
    no_slides(&slides);
    index_table(&index, 1);
    FAILS(TARN_ERR_EXISTS, "exists",
          tarn_iac_writer_open(path, &slides, &index, NULL, &w, &err));
    o.overwrite = true;
    make_pack(path, &o);
}

static void segments_are_written_as_they_are(void **state)
{
    (void)state;
    const char *path = scratch_path("segment.iac"), *data = scratch_path("segment.bin");
    struct ArrowArrayStream slides, index;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac *pack;
    tarn_view view;
    o.header = "{\"feature_record_bytes\": 2}";
    o.overwrite = true;
    write_file(data, "aabbcc", 6);
    for (int way = 0; way < 2; way++) {
        no_slides(&slides);
        index_table(&index, 3);
        if (way)
            OK(tarn_iac_build_segment(path, &slides, &index, "aabbcc", 6, &o, &err));
        else
            OK(tarn_iac_build_segment_file(path, &slides, &index, data, 6, &o, &err));
        OK(tarn_iac_open(path, NULL, &pack, &err));
        OK(tarn_iac_view(pack, 1, &view, &err));
        assert_memory_equal(view.data, "bb", 2);
        tarn_iac_close(pack);
    }
    no_slides(&slides);
    index_table(&index, 3);
    FAILS(TARN_ERR_USAGE, "has 6 bytes, not 7",
          tarn_iac_build_segment_file(path, &slides, &index, data, 7, &o, &err));
}

/* offset without length, and crc32 that is text: columns of the caller, not places. */
static void a_segment_may_use_the_names_of_our_columns(void **state)
{
    (void)state;
    const char *columns[] = {"text:crc32", "text:offset"};
    const char *path = scratch_path("names.iac");
    struct ArrowArrayStream slides, index;
    tarn_iac_rows *rows;
    tarn_iac_info info;
    tarn_iac *pack;
    OK(tarn_iac_rows_new(columns, 2, &rows, &err));
    OK(tarn_iac_rows_text(rows, 0, "1a2b", 4, &err));
    OK(tarn_iac_rows_text(rows, 1, "here", 4, &err));
    OK(tarn_iac_rows_finish(rows, &index, &err));
    no_slides(&slides);
    OK(tarn_iac_build_segment(path, &slides, &index, "data", 4, NULL, &err));
    OK(tarn_iac_open(path, NULL, &pack, &err));
    tarn_iac_info_get(pack, &info);
    assert_false(info.has_spans || info.has_checksums);
    tarn_iac_close(pack);
}

static void an_upgrade_changes_the_header_only(void **state)
{
    (void)state;
    const char *first = scratch_path("v1.iac"), *second = scratch_path("v2.iac");
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac_info info;
    tarn_iac *pack;
    size_t a, b;
    o.version = 1;
    o.header = "{\"mine\": [1, 2.50]}";
    make_pack(first, &o);
    OK(tarn_iac_open(first, NULL, &pack, &err));
    tarn_iac_info_get(pack, &info);
    assert_int_equal(info.version, 1);
    assert_non_null(strstr(info.header, "\"record_table_offset\""));
    check_rows(pack);
    tarn_iac_close(pack);
    OK(tarn_iac_upgrade(first, second, false, &err));
    FAILS(TARN_ERR_EXISTS, "exists", tarn_iac_upgrade(first, second, false, &err));
    OK(tarn_iac_open(second, NULL, &pack, &err));
    tarn_iac_info_get(pack, &info);
    assert_int_equal(info.version, 2);
    assert_non_null(strstr(info.header, "\"index_table_offset\""));
    assert_null(strstr(info.header, "record_table"));
    assert_non_null(strstr(info.header, "2.5\n"));
    check_rows(pack);
    tarn_iac_close(pack);
    unsigned char *x = read_file(first, &a), *y = read_file(second, &b);
    assert_int_equal(a, b);
    assert_memory_equal(x + 65536, y + 65536, a - 65536);
    free(x);
    free(y);
    OK(tarn_iac_upgrade(first, first, true, &err)); /* in its own place */
    OK(tarn_iac_open(first, NULL, &pack, &err));
    check_rows(pack);
    tarn_iac_close(pack);
}

static void codecs_give_back_what_they_got(void **state)
{
    (void)state;
    static char text[100000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the quick brown fox "[i % 20];
    for (tarn_iac_codec c = TARN_IAC_NONE; c <= TARN_IAC_GZIP; c++)
        for (size_t len = 0; len <= sizeof text; len = len * 9 + 1) {
            tarn_view packed, plain;
            OK(tarn_iac_encode(c, c == TARN_IAC_BROTLI ? 5 : 0, text, len, &packed,
                               &err));
            OK(tarn_iac_decode(c, packed.data, packed.size, len, &plain, &err));
            assert_int_equal(plain.size, len);
            assert_memory_equal(plain.data ? plain.data : (void *)"", text, len);
            tarn_view_release(&plain);
            if (len > 1)
                FAILS(
                    TARN_ERR_LIMIT, "expands to more",
                    tarn_iac_decode(c, packed.data, packed.size, len - 1, &plain, &err));
            if (c != TARN_IAC_NONE)
                FAILS(TARN_ERR_FORMAT, "not whole",
                      tarn_iac_decode(c, packed.data, packed.size - 1, 1 << 20, &plain,
                                      &err));
            tarn_view_release(&packed);
        }
    tarn_view view;
    FAILS(TARN_ERR_UNSUPPORTED, "as they are",
          tarn_iac_decode(TARN_IAC_IMAGE, "x", 1, 10, &view, &err));
    FAILS(TARN_ERR_USAGE, "level",
          tarn_iac_encode(TARN_IAC_GZIP, 77, "x", 1, &view, &err));
}

static void encoded_packs_are_decoded_by_their_header(void **state)
{
    (void)state;
    for (tarn_iac_codec c = TARN_IAC_BROTLI; c <= TARN_IAC_GZIP; c++) {
        const char *path = scratch_path("encoded.iac"), *back = scratch_path("back.iac");
        tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
        tarn_iac *pack;
        tarn_iac_info info;
        o.codec = c;
        o.level = 4;
        o.overwrite = true;
        make_pack(path, &o);
        OK(tarn_iac_open(path, NULL, &pack, &err));
        tarn_iac_info_get(pack, &info);
        assert_int_equal(info.codec, c);
        assert_non_null(strstr(info.header,
                               c == TARN_IAC_BROTLI ? "\"quality\": 4" : "\"level\": 4"));
        for (unsigned i = 0; i < ROWS; i++) {
            unsigned char want[256];
            size_t size;
            tarn_view view;
            payload_of(i, want, &size);
            OK(tarn_iac_view_decoded(pack, i, &view, &err));
            assert_int_equal(view.size, size);
            assert_memory_equal(view.data ? view.data : (void *)"", want, size);
            tarn_view_release(&view);
        }
        tarn_iac_close(pack);
        o.codec = TARN_IAC_NONE;
        OK(tarn_iac_rewrite(path, back, &o, &err));
        OK(tarn_iac_open(back, NULL, &pack, &err));
        tarn_iac_info_get(pack, &info);
        assert_string_equal(info.codec_name, "none");
        assert_null(strstr(info.header, "codec_params"));
        check_rows(pack);
        tarn_iac_close(pack);
    }
}

static void patients_come_back(void **state)
{
    (void)state;
    const char *path = scratch_path("pairs.iac");
    static const tarn_textpair_doc docs[] = {
        {.doc_id = "d1",
         .source_text = "原始",
         .compressed_text = "a\0b",
         .compressed_size = 3,
         .episode_index = 4},
        {.doc_id = "d2", .doc_type = "入院记录", .episode_index = -1}};
    const tarn_textpair_patient patients[] = {
        {.patient_id = "p1", .docs = docs, .count = 2},
        {.patient_id = "p2", .institution = "XJ"}};
    tarn_textpair_patient who;
    tarn_iac *pack;
    OK(tarn_textpair_build(path, patients, 2, NULL, &err));
    OK(tarn_iac_open(path, NULL, &pack, &err));
    OK(tarn_textpair_read(pack, "p1", &who, &err));
    assert_int_equal(who.count, 2);
    assert_memory_equal(who.docs[0].source_text, "原始", who.docs[0].source_size);
    assert_int_equal(who.docs[0].compressed_size, 3);
    assert_memory_equal(who.docs[0].compressed_text, "a\0b", 3);
    assert_int_equal(who.docs[0].episode_index, 4);
    assert_string_equal(who.docs[1].doc_type, "入院记录");
    tarn_textpair_reset(&who);
    OK(tarn_textpair_read(pack, "p2", &who, &err));
    assert_int_equal(who.count, 0);
    assert_string_equal(who.institution, "XJ");
    tarn_textpair_reset(&who);
    FAILS(TARN_ERR_NOT_FOUND, "patient_id = p3",
          tarn_textpair_read(pack, "p3", &who, &err));
    tarn_iac_close(pack);
    FAILS(TARN_ERR_USAGE, "no patients",
          tarn_textpair_build(path, patients, 0, NULL, &err));
    OK(tarn_iac_open(data_path("iac/made_by_0.0.2.iac"), NULL, &pack, &err));
    FAILS(TARN_ERR_FORMAT, "not a clinical text pair",
          tarn_textpair_read_at(pack, 0, &who, &err));
    tarn_iac_close(pack);
}

static void a_flipped_payload_bit_is_noticed(void **state)
{
    (void)state;
    const char *path = scratch_path("flip.iac");
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_iac_report report;
    tarn_iac *pack;
    tarn_view view;
    tarn_iac_batch batch = {0};
    uint64_t row = ROWS - 1;
    size_t size;
    make_pack(path, NULL);
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        tarn_iac_verify_options v = TARN_IAC_VERIFY_OPTIONS_INIT;
        v.threads = threads;
        OK(tarn_iac_verify(path, &v, &report, &err));
        assert_int_equal(report.problems, 0);
        assert_int_equal(report.checksummed, ROWS);
    }
    unsigned char *bytes = read_file(path, &size);
    bytes[size - 1] ^= 0x10;
    write_file(path, bytes, size);
    free(bytes);
    OK(tarn_iac_verify(path, NULL, &report, &err));
    assert_int_equal(report.problems, 1);
    o.check = true;
    OK(tarn_iac_open(path, &o, &pack, &err));
    FAILS(TARN_ERR_CHECKSUM, "record 49", tarn_iac_view(pack, row, &view, &err));
    FAILS(TARN_ERR_CHECKSUM, "record 49",
          tarn_iac_read_many(pack, &row, 1, &batch, &err));
    tarn_iac_batch_reset(&batch);
    tarn_iac_close(pack);
}

/* Opens, reads every row with its CRC, and uses both tables. Payloads that are given out
 * must be right; whatever else is wrong must be an error. */
static void use_or_fail(const char *path)
{
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_iac *pack;
    o.check = true;
    if (tarn_iac_open(path, &o, &pack, &err) != TARN_OK) {
        assert_true(err.message[0] && err.path[0]);
        return;
    }
    for (unsigned i = 0; i < ROWS; i++) {
        unsigned char want[256];
        size_t size;
        tarn_view view;
        payload_of(i, want, &size);
        if (tarn_iac_view(pack, i, &view, &err) != TARN_OK) continue;
        assert_int_equal(view.size, size);
        assert_memory_equal(view.data, want, size);
        tarn_view_release(&view);
    }
    for (int t = 0; t < 2; t++)
        for (size_t c = 0; c < tarn_iac_columns(pack, t); c++) {
            tarn_view view;
            if (tarn_iac_value(pack, t, c, 0, &view, &err) == TARN_OK)
                tarn_view_release(&view);
        }
    tarn_iac_close(pack);
}

static void cut_anywhere_it_is_an_error(void **state)
{
    (void)state;
    const char *path = scratch_path("cut.iac");
    size_t size;
    tarn_iac *pack;
    make_pack(path, NULL);
    free(read_file(path, &size));
    for (size_t len = size; len > 0; len -= len < 65500 && len > 4200 ? 4093 : 1) {
        assert_int_equal(truncate(path, (off_t)len - 1), 0);
        assert_int_not_equal(tarn_iac_open(path, NULL, &pack, &err), TARN_OK);
        assert_true(err.message[0] && err.path[0]);
    }
}

/* Changes one byte of the file in place: writing it anew each time takes the disk. */
static void poke(int fd, size_t at, unsigned char value)
{
    assert_int_equal(pwrite(fd, &value, 1, (off_t)at), 1);
}

static void flips_give_right_bytes_or_an_error(void **state)
{
    (void)state;
    const char *path = scratch_path("flips.iac");
    size_t size;
    make_pack(path, NULL);
    unsigned char *bytes = read_file(path, &size);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (size_t at = 0; at < size; at++) {
        if (at > 700 && at < 65536) continue; /* padding */
        poke(fd, at, (unsigned char)(bytes[at] ^ (1u << at % 8)));
        use_or_fail(path);
        poke(fd, at, at % 3 == 0 ? 0xff : at % 3 == 1 ? 0x00 : 0x7f);
        use_or_fail(path);
        poke(fd, at, bytes[at]);
    }
    close(fd);
    free(bytes);
}

static void edit_header(const char *path, const unsigned char *bytes, size_t size,
                        const char *old, const char *new)
{
    unsigned char *copy = malloc(size);
    uint32_t length;
    memcpy(copy, bytes, size);
    memcpy(&length, copy + 8, 4);
    char *json = strndup((char *)copy + 16, length), *at = strstr(json, old);
    assert_non_null(at);
    int n = snprintf((char *)copy + 16, 65520, "%.*s%s%s", (int)(at - json), json, new,
                     at + strlen(old));
    length = (uint32_t)n;
    memcpy(copy + 8, &length, 4);
    write_file(path, copy, size);
    free(json);
    free(copy);
}

static void headers_that_lie_are_refused(void **state)
{
    (void)state;
    static const char *const edits[][3] = {
        {"\"version\": 2", "\"version\": 1", "version is not the magic's"},
        {"\"format\": \"IatroCache\"", "\"format\": \"x\"", "format is not"},
        {"\"header_bytes\": 65536", "\"header_bytes\": 4096", "header_bytes"},
        {"\"num_records\": 50", "\"num_records\": 51", "says 51 records"},
        {"\"num_slides\": 1", "\"num_slides\": 2", "says 2 slides"},
        {"\"num_records\": 50", "\"num_records\": 18446744073709551615", "not a number"},
        {"\"num_records\": 50", "\"num_records\": 99999999999", "more than the file"},
        {"\"num_records\": 50", "\"num_records\": \"50\"", "not a number"},
        {"\"num_records\": 50", "\"x\": 50", "num_records is missing"},
        {"\"slide_table_offset\": 65536", "\"slide_table_offset\": 65544", "not 65536"},
        {"\"data_length\": ", "\"data_length\": 9", "the file ends here"},
        {"\"data_offset\": ", "\"data_offset\": 1", "not right behind"},
        {"\"index_table_offset\": ", "\"index_table_offset\": 1", "not right behind"},
        {"{", "[", ""}};
    const char *path = scratch_path("lie.iac");
    size_t size;
    tarn_iac *pack;
    make_pack(path, NULL);
    unsigned char *bytes = read_file(path, &size);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        edit_header(path, bytes, size, edits[i][0], edits[i][1]);
        tarn_status status = tarn_iac_open(path, NULL, &pack, &err);
        assert_int_not_equal(status, TARN_OK);
        if (!strstr(err.message, edits[i][2]))
            fail_msg("%s: %s", edits[i][1], err.message);
    }
    free(bytes);
}

static void many_records_open_in_little_memory(void **state)
{
    (void)state;
    enum { MANY = 3000000 };
    static const char *const columns[] = {"uint:id"};
    const char *path = scratch_path("many.iac");
    struct ArrowArrayStream slides, index;
    tarn_iac_rows *rows;
    tarn_iac_writer *w;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac *pack;
    tarn_view view;
    o.no_sync = true;
    no_slides(&slides);
    OK(tarn_iac_rows_new(columns, 1, &rows, &err));
    for (int i = 0; i < MANY; i++)
        OK(tarn_iac_rows_number(rows, 0, i, &err));
    OK(tarn_iac_rows_finish(rows, &index, &err));
    OK(tarn_iac_writer_open(path, &slides, &index, &o, &w, &err));
    for (uint32_t i = 0; i < MANY; i++)
        OK(tarn_iac_writer_add(w, &i, 4, &err));
    OK(tarn_iac_writer_finish(w, &err));
    size_t before = mallinfo2().uordblks;
    OK(tarn_iac_open(path, NULL, &pack, &err));
    OK(tarn_iac_view(pack, MANY - 1, &view, &err));
    assert_int_equal(*(const uint32_t *)(const void *)view.data, MANY - 1);
    assert_true(mallinfo2().uordblks - before < 1 << 20);
    tarn_iac_close(pack);
    unlink(path);
}

static void folders_and_manifests_are_packed(void **state)
{
    (void)state;
    /* scratch_path() gives out few at a time. */
    char *folder = strdup(scratch_path("files")),
         *path = strdup(scratch_path("files.iac"));
    uint64_t records, row;
    tarn_iac *pack;
    tarn_view view;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    o.overwrite = true;
    mkdir(folder, 0755);
    mkdir(scratch_path("files/sub"), 0755);
    write_file(scratch_path("files/b.txt"), "bb", 2);
    write_file(scratch_path("files/sub/a.txt"), "a", 1);
    OK(tarn_iac_pack_folder(path, folder, &o, &records, &err));
    assert_int_equal(records, 2);
    OK(tarn_iac_open(path, NULL, &pack, &err));
    OK(tarn_iac_find(pack, "path", "sub/a.txt", 9, 0, &row, &err));
    OK(tarn_iac_view(pack, row, &view, &err));
    assert_memory_equal(view.data, "a", 1);
    tarn_iac_close(pack);
    static const char lines[] =
        "{\"file\": \"files/b.txt\", \"n\": 5, \"t\": \"x\"}\n\n"
        "{\"file\": \"files/sub/a.txt\", \"n\": null, \"t\": 1.50}";
    write_file(scratch_path("list.jsonl"), lines, sizeof lines - 1);
    OK(tarn_iac_pack_manifest(path, scratch_path("list.jsonl"), &o, &records, &err));
    OK(tarn_iac_open(path, NULL, &pack, &err));
    assert_string_equal(tarn_iac_column_type(pack, TARN_IAC_INDEX, 0), "int64");
    OK(tarn_iac_find(pack, "t", "1.5", 3, 0, &row, &err));
    assert_int_equal(row, 1);
    OK(tarn_iac_find(pack, "n", "5", 1, 0, &row, &err));
    OK(tarn_iac_view(pack, row, &view, &err));
    assert_memory_equal(view.data, "bb", 2);
    tarn_iac_close(pack);
    write_file(scratch_path("list.jsonl"), "{\"n\": 5}\n", 9);
    FAILS(TARN_ERR_FORMAT, "no \"file\"",
          tarn_iac_pack_manifest(path, scratch_path("list.jsonl"), &o, &records, &err));
    free(folder);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_packages_packs_are_read),
        cmocka_unit_test(fixed_records_need_no_spans),
        cmocka_unit_test(batches_keep_the_order_asked_for),
        cmocka_unit_test(lookups_find_every_row_of_a_value),
        cmocka_unit_test(threads_share_a_pack),
        cmocka_unit_test(arrays_outlive_their_pack),
        cmocka_unit_test(a_pack_changed_in_place_keeps_its_bounds),
        cmocka_unit_test(slices_are_written_as_what_they_show),
        cmocka_unit_test(wrong_input_leaves_nothing),
        cmocka_unit_test(an_existing_pack_is_kept),
        cmocka_unit_test(segments_are_written_as_they_are),
        cmocka_unit_test(a_segment_may_use_the_names_of_our_columns),
        cmocka_unit_test(an_upgrade_changes_the_header_only),
        cmocka_unit_test(codecs_give_back_what_they_got),
        cmocka_unit_test(encoded_packs_are_decoded_by_their_header),
        cmocka_unit_test(patients_come_back),
        cmocka_unit_test(a_flipped_payload_bit_is_noticed),
        cmocka_unit_test(cut_anywhere_it_is_an_error),
        cmocka_unit_test(flips_give_right_bytes_or_an_error),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(many_records_open_in_little_memory),
        cmocka_unit_test(folders_and_manifests_are_packed),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}