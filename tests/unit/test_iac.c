/* IAC files: reading, lookups, threads, codecs and tables of patients. Writing is in
 * test_iac_write.c, damage in test_iac_damage.c. */
#include "iac_help.h"
#include "packing.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

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
        tarn_iac_info_get(pack, &info, sizeof info);
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
        OK(tarn_iac_view(pack, row, false, &view, &err));
        assert_int_equal(view.size, 19);
        assert_memory_equal(view.data, "second_payload_data", 19);
        tarn_view_release(&view);
        FAILS(TARN_ERR_NO_SAMPLE, "no record 2",
              tarn_iac_view(pack, 2, false, &view, &err));
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
    tarn_iac_info_get(pack, &info, sizeof info);
    assert_false(info.has_spans);
    assert_int_equal(info.record_bytes, 16);
    OK(tarn_iac_view(pack, 2, false, &view, &err));
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
        OK(tarn_iac_read(pack, rows, 7, &batch, &err));
        assert_int_equal(batch.count, 7);
        for (int i = 0; i < 7; i++) {
            unsigned char want[256];
            size_t size;
            payload_of((unsigned)rows[i], want, &size);
            assert_int_equal(batch.offsets[i + 1] - batch.offsets[i], size);
            assert_memory_equal(batch.data + batch.offsets[i], want, size);
        }
        OK(tarn_iac_read(pack, rows, 0, &batch, &err));
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
    FAILS(TARN_ERR_NO_SAMPLE, "group = 3",
          tarn_iac_find(pack, "group", "3", 1, 0, &row, &err));
    FAILS(TARN_ERR_NO_FIELD, "no column",
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
            row == which && tarn_iac_view(r->pack, row, false, &view, NULL) == TARN_OK;
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

/* Offsets were checked once; a file that is changed afterwards must not redirect reads.
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
    assert_int_equal(text[0], 0xff); /* it must be mapped, or nothing is tested here */
    array.release(&array);
    stream.release(&stream);
    tarn_iac_close(pack);
}

static const char *const codecs[] = {"none", "zstd", "gzip", "brotli"};

static void codecs_give_back_what_they_got(void **state)
{
    (void)state;
    static char text[100000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the quick brown fox "[i % 20];
    for (size_t k = 0; k < 4; k++)
        for (size_t len = 0; len <= sizeof text; len = len * 9 + 1) {
            tarn_view packed, plain;
            const char *c = codecs[k];
            OK(tarn_iac_encode(c, k == 3 ? 5 : 0, text, len, &packed, &err));
            OK(tarn_iac_decode(c, packed.data, packed.size, len, &plain, &err));
            assert_int_equal(plain.size, len);
            assert_memory_equal(plain.data ? plain.data : (void *)"", text, len);
            tarn_view_release(&plain);
            if (len > 1)
                FAILS(
                    TARN_ERR_LIMIT, "expands to more",
                    tarn_iac_decode(c, packed.data, packed.size, len - 1, &plain, &err));
            if (k > 0)
                FAILS(TARN_ERR_FORMAT, "the payload is damaged",
                      tarn_iac_decode(c, packed.data, packed.size - 1, 1 << 20, &plain,
                                      &err));
            tarn_view_release(&packed);
        }
    tarn_view view;
    FAILS(TARN_ERR_UNSUPPORTED, "read the stored bytes",
          tarn_iac_decode("jpeg", "x", 1, 10, &view, &err));
    FAILS(TARN_ERR_USAGE, "level", tarn_iac_encode("gzip", 77, "x", 1, &view, &err));
    FAILS(TARN_ERR_USAGE, "level 12",
          tarn_iac_encode_brotli(12, 24, "x", 1, &view, &err));
    FAILS(TARN_ERR_USAGE, "window 9 is not from 10 to 24",
          tarn_iac_encode_brotli(5, 9, "x", 1, &view, &err));
}

static void encoded_packs_are_decoded_by_their_header(void **state)
{
    (void)state;
    for (size_t k = 1; k < 4; k++) {
        const char *path = scratch_path("encoded.iac"), *back = scratch_path("back.iac");
        tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
        tarn_iac *pack;
        tarn_iac_info info;
        o.codec = codecs[k];
        o.level = 4;
        o.overwrite = true;
        make_pack(path, &o);
        OK(tarn_iac_open(path, NULL, &pack, &err));
        tarn_iac_info_get(pack, &info, sizeof info);
        assert_string_equal(info.codec, codecs[k]);
        assert_non_null(strstr(info.header, k == 3 ? "\"quality\": 4" : "\"level\": 4"));
        for (unsigned i = 0; i < ROWS; i++) {
            unsigned char want[256];
            size_t size;
            tarn_view view;
            payload_of(i, want, &size);
            OK(tarn_iac_view(pack, i, true, &view, &err));
            assert_int_equal(view.size, size);
            assert_memory_equal(view.data ? view.data : (void *)"", want, size);
            tarn_view_release(&view);
        }
        tarn_iac_close(pack);
        o.codec = "none";
        OK(tarn_iac_rewrite(path, back, &o, &err));
        OK(tarn_iac_open(back, NULL, &pack, &err));
        tarn_iac_info_get(pack, &info, sizeof info);
        assert_string_equal(info.codec, "none");
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
    OK(textpair_find(pack, "p1", &who, &err));
    assert_int_equal(who.count, 2);
    assert_memory_equal(who.docs[0].source_text, "原始", who.docs[0].source_size);
    assert_int_equal(who.docs[0].compressed_size, 3);
    assert_memory_equal(who.docs[0].compressed_text, "a\0b", 3);
    assert_int_equal(who.docs[0].episode_index, 4);
    assert_string_equal(who.docs[1].doc_type, "入院记录");
    tarn_textpair_reset(&who);
    OK(textpair_find(pack, "p2", &who, &err));
    assert_int_equal(who.count, 0);
    assert_string_equal(who.institution, "XJ");
    tarn_textpair_reset(&who);
    FAILS(TARN_ERR_NO_SAMPLE, "patient_id = p3", textpair_find(pack, "p3", &who, &err));
    tarn_iac_close(pack);
    FAILS(TARN_ERR_USAGE, "no patients",
          tarn_textpair_build(path, patients, 0, NULL, &err));
    OK(tarn_iac_open(data_path("iac/made_by_0.0.2.iac"), NULL, &pack, &err));
    FAILS(TARN_ERR_FORMAT, "not a clinical text pair",
          tarn_textpair_read(pack, 0, &who, &err));
    tarn_iac_close(pack);
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
    one_slide(&slides);
    OK(tarn_iac_rows_new(columns, 1, &rows, &err));
    for (int i = 0; i < MANY; i++)
        OK(rows_number(rows, 0, i, &err));
    OK(tarn_iac_rows_finish(rows, &index, &err));
    OK(tarn_iac_writer_open(path, &slides, &index, &o, &w, &err));
    for (uint32_t i = 0; i < MANY; i++)
        OK(tarn_iac_writer_add(w, &i, 4, &err));
    OK(tarn_iac_writer_finish(w, &err));
    size_t before = mallinfo2().uordblks;
    OK(tarn_iac_open(path, NULL, &pack, &err));
    OK(tarn_iac_view(pack, MANY - 1, false, &view, &err));
    assert_int_equal(*(const uint32_t *)(const void *)view.data, MANY - 1);
    assert_true(mallinfo2().uordblks - before < 1 << 20);
    tarn_iac_close(pack);
    unlink(path);
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
        cmocka_unit_test(codecs_give_back_what_they_got),
        cmocka_unit_test(encoded_packs_are_decoded_by_their_header),
        cmocka_unit_test(patients_come_back),
        cmocka_unit_test(many_records_open_in_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
