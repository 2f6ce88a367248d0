/* Writing IAC files: slices, segments, upgrades, folders and manifests, and input that is
 * refused. */
#include "iac_help.h"
#include "pack/records.h"
#include "packing.h"

#include <sys/stat.h>

/* A stream of one array that was taken out of another stream and sliced. */
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
        one_slide(&slides);
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
            OK(tarn_iac_view(got, i, false, &a, &err));
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
    one_slide(&slides);
    index_table(&index, rows);
    tarn_status status = iac_build(path, &slides, &index, data, sizes, payloads, o, &err);
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
    refused("IAC version 3", &o, 1, 1);
    o.version = 2;
    o.header = "[]";
    refused("not a JSON object", &o, 1, 1);
    char *large = malloc(70000);
    memset(large, ' ', 70000);
    memcpy(large, "{\"k\":\"", 6);
    memset(large + 6, 'x', 69000);
    memcpy(large + 69006, "\"}", 3);
    o.header = large;
    refused("the limit is 65520", &o, 1, 1);
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
    one_slide(&slides);
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
        one_slide(&slides);
        index_table(&index, 3);
        if (way)
            OK(iac_build_segment(path, &slides, &index, "aabbcc", 6, NULL, &o, &err));
        else
            OK(iac_build_segment(path, &slides, &index, NULL, 0, data, &o, &err));
        OK(tarn_iac_open(path, NULL, &pack, &err));
        OK(tarn_iac_view(pack, 1, false, &view, &err));
        assert_memory_equal(view.data, "bb", 2);
        tarn_iac_close(pack);
    }
    /* In pieces, from both. */
    tarn_iac_writer *w;
    uint64_t size;
    one_slide(&slides);
    index_table(&index, 5);
    o.segment = true;
    OK(tarn_iac_writer_open(path, &slides, &index, &o, &w, &err));
    OK(tarn_iac_writer_add(w, "xx", 2, &err));
    OK(tarn_iac_writer_add_file(w, data, &size, &err));
    assert_int_equal(size, 6);
    OK(tarn_iac_writer_add(w, "yy", 2, &err));
    OK(tarn_iac_writer_finish(w, &err));
    OK(tarn_iac_open(path, NULL, &pack, &err));
    OK(tarn_iac_view_span(pack, 0, 10, &view, &err));
    assert_memory_equal(view.data, "xxaabbccyy", 10);
    tarn_iac_close(pack);
    one_slide(&slides);
    index_table(&index, 3);
    FAILS(TARN_ERR_NO_FILE, "none.bin",
          iac_build_segment(path, &slides, &index, NULL, 0, scratch_path("none.bin"), &o,
                            &err));
}

/* offset without length, and crc32 as text: columns of the caller, not record positions.
 */
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
    OK(rows_text(rows, 0, "1a2b", 4, &err));
    OK(rows_text(rows, 1, "here", 4, &err));
    OK(tarn_iac_rows_finish(rows, &index, &err));
    one_slide(&slides);
    OK(iac_build_segment(path, &slides, &index, "data", 4, NULL, NULL, &err));
    OK(tarn_iac_open(path, NULL, &pack, &err));
    tarn_iac_info_get(pack, &info, sizeof info);
    assert_false(info.has_spans || info.has_checksums);
    tarn_iac_close(pack);
}

static void assert_header(const char *path, const char *has, const char *lacks)
{
    tarn_iac_info info;
    tarn_iac *pack;
    OK(tarn_iac_open(path, NULL, &pack, &err));
    tarn_iac_info_get(pack, &info, sizeof info);
    assert_non_null(strstr(info.header, has));
    assert_null(strstr(info.header, lacks));
    tarn_iac_close(pack);
}

/* Only the names that belong to the old file's layout are removed. */
static void fields_named_like_the_other_versions_are_kept(void **state)
{
    (void)state;
    char *paths[4];
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    for (int i = 0; i < 4; i++)
        paths[i] = strdup(scratch_path((const char *[]){"a", "b", "c", "d"}[i]));
    o.header = "{\"record_table_offset\": 3, \"record_table_length\": 4}";
    make_pack(paths[0], &o);
    assert_header(paths[0], "\"record_table_length\": 4,\n  \"record_table_offset\": 3",
                  "nothing");
    OK(iac_upgrade(paths[0], paths[1], false, &err));
    assert_header(paths[1], "\"record_table_offset\": 3", "nothing");
    o.header = NULL;
    o.encoded = true;
    o.version = 1;
    OK(tarn_iac_rewrite(paths[0], paths[2], &o, &err));
    assert_header(paths[2], "\"record_table_offset\": 6", "index_table");
    o.version = 2;
    OK(tarn_iac_rewrite(paths[2], paths[3], &o, &err));
    assert_header(paths[3], "\"index_table_offset\": 6", "record_table");
    for (int i = 0; i < 4; i++)
        free(paths[i]);
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
    tarn_iac_info_get(pack, &info, sizeof info);
    assert_int_equal(info.version, 1);
    assert_non_null(strstr(info.header, "\"record_table_offset\""));
    check_rows(pack);
    tarn_iac_close(pack);
    OK(iac_upgrade(first, second, false, &err));
    FAILS(TARN_ERR_EXISTS, "exists", iac_upgrade(first, second, false, &err));
    OK(tarn_iac_open(second, NULL, &pack, &err));
    tarn_iac_info_get(pack, &info, sizeof info);
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
    OK(iac_upgrade(first, first, true, &err)); /* in its own place */
    OK(tarn_iac_open(first, NULL, &pack, &err));
    check_rows(pack);
    tarn_iac_close(pack);
}

static void folders_and_manifests_are_packed(void **state)
{
    (void)state;
    /* scratch_path() keeps only a few paths at a time. */
    char *folder = strdup(scratch_path("files")),
         *path = strdup(scratch_path("files.iac"));
    uint64_t records, row;
    tarn_iac *pack;
    tarn_view view;
    tarn_iac_write_options write = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_pack_type text = {"t", "text"};
    tarn__records_options o = {.write = &write};
    write.overwrite = true;
    mkdir(folder, 0755);
    mkdir(scratch_path("files/sub"), 0755);
    write_file(scratch_path("files/b.txt"), "bb", 2);
    write_file(scratch_path("files/sub/a.txt"), "a", 1);
    OK(tarn__records_from_folder(path, folder, &o, &records, &err));
    assert_int_equal(records, 2);
    OK(tarn_iac_open(path, NULL, &pack, &err));
    OK(tarn_iac_find(pack, "path", "sub/a.txt", 9, 0, &row, &err));
    OK(tarn_iac_view(pack, row, false, &view, &err));
    assert_memory_equal(view.data, "a", 1);
    tarn_iac_close(pack);
    static const char lines[] =
        "{\"file\": \"files/b.txt\", \"n\": 5, \"t\": \"x\"}\n\n"
        "{\"file\": \"files/sub/a.txt\", \"n\": null, \"t\": 1.50}";
    write_file(scratch_path("list.jsonl"), lines, sizeof lines - 1);
    FAILS(TARN_ERR_FORMAT,
          "line 3: column t: the value is float, but in line 1 it is text",
          tarn__records_from_manifest(path, scratch_path("list.jsonl"), &o, &records,
                                      &err));
    o.types = &text;
    o.n_types = 1;
    OK(tarn__records_from_manifest(path, scratch_path("list.jsonl"), &o, &records, &err));
    o.n_types = 0;
    OK(tarn_iac_open(path, NULL, &pack, &err));
    assert_string_equal(iac_column(pack, TARN_IAC_INDEX, 0).type, "int64");
    OK(tarn_iac_find(pack, "t", "1.5", 3, 0, &row, &err));
    assert_int_equal(row, 1);
    OK(tarn_iac_find(pack, "n", "5", 1, 0, &row, &err));
    OK(tarn_iac_view(pack, row, false, &view, &err));
    assert_memory_equal(view.data, "bb", 2);
    tarn_iac_close(pack);
    write_file(scratch_path("list.jsonl"), "{\"n\": 5}\n", 9);
    FAILS(TARN_ERR_FORMAT, "no \"file\"",
          tarn__records_from_manifest(path, scratch_path("list.jsonl"), &o, &records,
                                      &err));
    free(folder);
    free(path);
}

static void rows_hold_booleans_times_and_lists(void **state)
{
    (void)state;
    static const char *const columns[] = {"bool:b", "time:t", "reals:l"};
    tarn_iac_cell one = {.kind = TARN_IAC_INTEGER, .integer = 1},
                  half = {.kind = TARN_IAC_REAL, .real = 0.5};
    tarn_iac_cell items[2] = {half, half};
    tarn_iac_cell list = {.kind = TARN_IAC_LIST, .items = items, .size = 2};
    struct ArrowArrayStream index;
    struct ArrowSchema schema;
    tarn_iac_rows *rows;
    OK(tarn_iac_rows_new(columns, 3, &rows, &err));
    OK(tarn_iac_rows_add(rows, 0, &one, &err));
    OK(tarn_iac_rows_add(rows, 1, &one, &err));
    FAILS(TARN_ERR_USAGE, "column t does not hold lists",
          tarn_iac_rows_add(rows, 1, &list, &err));
    OK(tarn_iac_rows_add(rows, 2, &list, &err));
    items[1] = list;
    FAILS(TARN_ERR_USAGE, "column l: a list in a list",
          tarn_iac_rows_add(rows, 2, &list, &err));
    tarn_iac_rows_free(rows);
    FAILS(TARN_ERR_USAGE,
          "texts:", tarn_iac_rows_new((const char *[]){"lists:x"}, 1, &rows, &err));
    OK(tarn_iac_rows_new(columns, 3, &rows, &err));
    OK(tarn_iac_rows_finish(rows, &index, &err));
    assert_int_equal(index.get_schema(&index, &schema), 0);
    assert_string_equal(schema.children[0]->format, "b");
    assert_string_equal(schema.children[1]->format, "tsu:UTC");
    assert_string_equal(schema.children[2]->format, "+l");
    assert_string_equal(schema.children[2]->children[0]->format, "g");
    schema.release(&schema);
    index.release(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_written_as_what_they_show),
        cmocka_unit_test(wrong_input_leaves_nothing),
        cmocka_unit_test(an_existing_pack_is_kept),
        cmocka_unit_test(segments_are_written_as_they_are),
        cmocka_unit_test(a_segment_may_use_the_names_of_our_columns),
        cmocka_unit_test(fields_named_like_the_other_versions_are_kept),
        cmocka_unit_test(an_upgrade_changes_the_header_only),
        cmocka_unit_test(folders_and_manifests_are_packed),
        cmocka_unit_test(rows_hold_booleans_times_and_lists),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
