/* Calls without a required argument: every function of these headers that returns a
 * status reports which argument is missing, before it uses any other. So all other
 * arguments may point anywhere here. tests/install.sh compares the functions with the
 * headers. */
#include <tarn/tarn.h>

#include "support.h"

static tarn_error err;

/* Used for every argument that must not be NULL. */
static _Alignas(64) unsigned char anything[64];
#define ANY ((void *)anything)

static void refuses(const char *name, const char *call, tarn_status status)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s is NULL", name);
    if (status == TARN_ERR_USAGE && strcmp(err.message, wanted) == 0) return;
    fail_msg("%s: %s (%s), and usage (%s) was expected", call, tarn_status_name(status),
             err.message, wanted);
}

#define REFUSES(name, call) refuses(name, #call, (call))

static void functions_of_array_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("text", tarn_dtype_parse(NULL, 1, ANY, &err));
    REFUSES("out", tarn_dtype_parse(ANY, 1, NULL, &err));
    REFUSES("out", tarn_array_init(NULL, NULL, (tarn_dtype){0}, 1, ANY, &err));
    REFUSES("shape", tarn_array_init(ANY, NULL, (tarn_dtype){0}, 1, NULL, &err));
}

static void functions_of_collate_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("arrays", tarn_collate_plan(NULL, 1, NULL, ANY, &err));
    REFUSES("out", tarn_collate_plan(ANY, 1, NULL, NULL, &err));
    REFUSES("arrays", tarn_collate_run(NULL, 1, NULL, ANY, &err));
    REFUSES("into", tarn_collate_run(ANY, 1, NULL, NULL, &err));
}

static void functions_of_codec_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("field", tarn_encode(NULL, ANY, NULL, ANY, &err));
    REFUSES("value", tarn_encode(ANY, NULL, NULL, ANY, &err));
    REFUSES("out", tarn_encode(ANY, ANY, NULL, NULL, &err));
    REFUSES("field", tarn_decode(NULL, ANY, 1, NULL, ANY, &err));
    REFUSES("data", tarn_decode(ANY, NULL, 1, NULL, ANY, &err));
    REFUSES("out", tarn_decode(ANY, ANY, 1, NULL, NULL, &err));
}

static void a_filter_names_the_argument_that_is_null(void **state)
{
    (void)state;
    tarn_condition c = TARN_CONDITION_INIT; /* MASK, without a mask */
    REFUSES("dataset", tarn_dataset_filter(NULL, &c, ANY, &err));
    REFUSES("condition", tarn_dataset_filter(ANY, NULL, ANY, &err));
    REFUSES("out", tarn_dataset_filter(ANY, &c, NULL, &err));
    REFUSES("condition->mask", tarn_dataset_filter(ANY, &c, ANY, &err));
    c.n_names = 1;
    for (int kind = TARN_CONDITION_KEYS; kind <= TARN_CONDITION_BETWEEN; kind++) {
        bool has_names = kind == TARN_CONDITION_KEYS || kind == TARN_CONDITION_HAVING;
        c.kind = (tarn_condition_kind)kind;
        REFUSES(has_names ? "condition->names" : "condition->name",
                tarn_dataset_filter(ANY, &c, ANY, &err));
    }
    c.kind = TARN_CONDITION_COLUMN;
    c.name = "x";
    REFUSES("condition->names", tarn_dataset_filter(ANY, &c, ANY, &err));
    c.kind = (tarn_condition_kind)8;
    assert_int_equal(tarn_dataset_filter(ANY, &c, ANY, &err), TARN_ERR_USAGE);
}

static void functions_of_dataset_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("path", tarn_dataset_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_dataset_open(ANY, NULL, NULL, &err));
    REFUSES("dataset", tarn_dataset_with_fields(NULL, ANY, 1, ANY, &err));
    REFUSES("fields", tarn_dataset_with_fields(ANY, NULL, 1, ANY, &err));
    REFUSES("out", tarn_dataset_with_fields(ANY, ANY, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_field_find(NULL, ANY, ANY, &err));
    REFUSES("name", tarn_dataset_field_find(ANY, NULL, ANY, &err));
    REFUSES("out", tarn_dataset_field_find(ANY, ANY, NULL, &err));
    REFUSES("dataset", tarn_dataset_get(NULL, 1, 1, ANY, &err));
    REFUSES("out", tarn_dataset_get(ANY, 1, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_get_all(NULL, 1, ANY, NULL, &err));
    REFUSES("dataset", tarn_dataset_release(NULL, 1, NULL, 0, &err));
    REFUSES("views", tarn_dataset_release(ANY, 1, NULL, 1, &err));
    REFUSES("dataset", tarn_dataset_locate(NULL, 1, 1, ANY, 1, &err));
    REFUSES("out", tarn_dataset_locate(ANY, 1, 1, NULL, 1, &err));
    REFUSES("dataset", tarn_dataset_find(NULL, ANY, 1, ANY, NULL, &err));
    REFUSES("keys", tarn_dataset_find(ANY, NULL, 1, ANY, NULL, &err));
    REFUSES("out", tarn_dataset_find(ANY, ANY, 1, NULL, NULL, &err));
    REFUSES("dataset", tarn_dataset_numbers(NULL, 1, TARN_NUMBERS_SIZE, ANY, &err));
    REFUSES("out", tarn_dataset_numbers(ANY, 1, TARN_NUMBERS_SIZE, NULL, &err));
    REFUSES("out", tarn_dataset_get_all(ANY, 1, NULL, NULL, &err));
    REFUSES("dataset", tarn_dataset_form(NULL, 1, 1, ANY, 1, &err));
    REFUSES("out", tarn_dataset_form(ANY, 1, 1, NULL, 1, &err));
    REFUSES("dataset", tarn_dataset_read(NULL, ANY, 1, NULL, 1, ANY, &err));
    REFUSES("samples", tarn_dataset_read(ANY, NULL, 1, NULL, 1, ANY, &err));
    REFUSES("out", tarn_dataset_read(ANY, ANY, 1, NULL, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_prefetch(NULL, ANY, 1, NULL, 1, &err));
    REFUSES("samples", tarn_dataset_prefetch(ANY, NULL, 1, NULL, 1, &err));
    REFUSES("dataset", tarn_dataset_key(NULL, 1, ANY, &err));
    REFUSES("out", tarn_dataset_key(ANY, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_slice(NULL, 1, 1, 1, ANY, &err));
    REFUSES("out", tarn_dataset_slice(ANY, 1, 1, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_select(NULL, ANY, 1, ANY, &err));
    REFUSES("samples", tarn_dataset_select(ANY, NULL, 1, ANY, &err));
    REFUSES("out", tarn_dataset_select(ANY, ANY, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_order(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_dataset_order(ANY, NULL, NULL, &err));
    REFUSES("dataset", tarn_dataset_split(NULL, 1, 1, TARN_UNEVEN_KEEP, ANY, &err));
    REFUSES("out", tarn_dataset_split(ANY, 1, 1, TARN_UNEVEN_KEEP, NULL, &err));
    REFUSES("dataset", tarn_dataset_at_epoch(NULL, 1, ANY, &err));
    REFUSES("out", tarn_dataset_at_epoch(ANY, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_sequence(NULL, 1, 1, ANY, &err));
    REFUSES("out", tarn_dataset_sequence(ANY, 1, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_when(NULL, ANY, NULL, ANY, 1, ANY, &err));
    REFUSES("key", tarn_dataset_when(ANY, NULL, NULL, ANY, 1, ANY, &err));
    REFUSES("out", tarn_dataset_when(ANY, ANY, NULL, NULL, 1, ANY, &err));
    REFUSES("out_count", tarn_dataset_when(ANY, ANY, NULL, ANY, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_step(NULL, 1, NULL, ANY, NULL, 0, &err));
    REFUSES("out", tarn_dataset_step(ANY, 1, NULL, NULL, NULL, 0, &err));
    REFUSES("dataset", tarn_dataset_state(NULL, 1, ANY, &err));
    REFUSES("out", tarn_dataset_state(ANY, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_resume(NULL, ANY, 1, ANY, &err));
    REFUSES("state", tarn_dataset_resume(ANY, NULL, 1, ANY, &err));
    REFUSES("out", tarn_dataset_resume(ANY, ANY, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_field_sets(NULL, ANY, &err));
    REFUSES("out", tarn_dataset_field_sets(ANY, NULL, &err));
    REFUSES("dataset", tarn_dataset_shard_counts(NULL, ANY, &err));
    REFUSES("out", tarn_dataset_shard_counts(ANY, NULL, &err));
    REFUSES("dataset", tarn_views_new(NULL, ANY, 1, NULL, ANY, &err));
    REFUSES("templates", tarn_views_new(ANY, NULL, 1, NULL, ANY, &err));
    REFUSES("out", tarn_views_new(ANY, ANY, 1, NULL, NULL, &err));
    REFUSES("views", tarn_views_choose(NULL, 1, 1, ANY, &err));
    REFUSES("out_fields", tarn_views_choose(ANY, 1, 1, NULL, &err));
    REFUSES("sources", tarn_dataset_mix(NULL, 1, NULL, ANY, &err));
    REFUSES("out", tarn_dataset_mix(ANY, 1, NULL, NULL, &err));
}

static void functions_of_folds_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("path", tarn_folds_list(NULL, ANY, &err));
    REFUSES("out", tarn_folds_list(ANY, NULL, &err));
    tarn_folds_free(NULL);
}

static void functions_of_members_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("dataset", tarn_dataset_fold(NULL, ANY, 1, &err));
    REFUSES("out", tarn_dataset_fold(ANY, NULL, 1, &err));
    REFUSES("dataset", tarn_dataset_members(NULL, 1, ANY, 1, ANY, &err));
    REFUSES("out", tarn_dataset_members(ANY, 1, NULL, 1, ANY, &err));
    REFUSES("out_count", tarn_dataset_members(ANY, 1, ANY, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_walk(NULL, NULL, tarn_pack_put, NULL, &err));
    REFUSES("put", tarn_dataset_walk(ANY, NULL, NULL, NULL, &err));
    REFUSES("dataset", tarn_dataset_parts(NULL, ANY, 1, 1, ANY, &err));
    REFUSES("fractions", tarn_dataset_parts(ANY, NULL, 1, 1, ANY, &err));
    REFUSES("out_parts", tarn_dataset_parts(ANY, ANY, 1, 1, NULL, &err));
    REFUSES("dataset", tarn_dataset_extract(NULL, ANY, NULL, ANY, &err));
    REFUSES("folder", tarn_dataset_extract(ANY, NULL, NULL, ANY, &err));
    REFUSES("out_files", tarn_dataset_extract(ANY, ANY, NULL, NULL, &err));
}

static void functions_of_gnz_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("path", tarn_gnz_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_gnz_open(ANY, NULL, NULL, &err));
    REFUSES("gnz", tarn_gnz_array_get(NULL, 1, ANY, 1, &err));
    REFUSES("out", tarn_gnz_array_get(ANY, 1, NULL, 1, &err));
    REFUSES("gnz", tarn_gnz_find(NULL, ANY, ANY, &err));
    REFUSES("name", tarn_gnz_find(ANY, NULL, ANY, &err));
    REFUSES("out", tarn_gnz_find(ANY, ANY, NULL, &err));
    REFUSES("gnz", tarn_gnz_get(NULL, 1, TARN_GNZ_READ, ANY, &err));
    REFUSES("out", tarn_gnz_get(ANY, 1, TARN_GNZ_READ, NULL, &err));
    REFUSES("gnz", tarn_gnz_flush(NULL, &err));
    REFUSES("gnz", tarn_gnz_read(NULL, 1, 1, 1, ANY, 1, &err));
    REFUSES("buf", tarn_gnz_read(ANY, 1, 1, 1, NULL, 1, &err));
    REFUSES("gnz", tarn_gnz_stats_get(NULL, 1, ANY, 1, &err));
    REFUSES("out", tarn_gnz_stats_get(ANY, 1, NULL, 1, &err));
    REFUSES("path", tarn_gnz_writer_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_gnz_writer_open(ANY, NULL, NULL, &err));
    REFUSES("writer", tarn_gnz_writer_metadata(NULL, ANY, 1, &err));
    REFUSES("json", tarn_gnz_writer_metadata(ANY, NULL, 1, &err));
    REFUSES("writer", tarn_gnz_writer_add(NULL, ANY, ANY, NULL, &err));
    REFUSES("name", tarn_gnz_writer_add(ANY, NULL, ANY, NULL, &err));
    REFUSES("values", tarn_gnz_writer_add(ANY, ANY, NULL, NULL, &err));
    REFUSES("writer",
            tarn_gnz_writer_reserve(NULL, ANY, (tarn_dtype){0}, 1, ANY, 1, &err));
    REFUSES("name", tarn_gnz_writer_reserve(ANY, NULL, (tarn_dtype){0}, 1, ANY, 1, &err));
    REFUSES("shape",
            tarn_gnz_writer_reserve(ANY, ANY, (tarn_dtype){0}, 1, NULL, 1, &err));
    REFUSES("writer", tarn_gnz_writer_begin(NULL, &err));
    REFUSES("writer", tarn_gnz_writer_fill(NULL, ANY, NULL, ANY, &err));
    REFUSES("name", tarn_gnz_writer_fill(ANY, NULL, NULL, ANY, &err));
    REFUSES("values", tarn_gnz_writer_fill(ANY, ANY, NULL, NULL, &err));
    REFUSES("writer", tarn_gnz_writer_finish(NULL, &err));
}

static void functions_of_iac_name_the_argument_that_is_null(void **state)
{
    (void)state;
    struct ArrowArrayStream streams[2] = {{0}};
    tarn_iac_write_options no_rows = TARN_IAC_WRITE_OPTIONS_INIT;
    no_rows.n_rows = 1;
    REFUSES("data", tarn_iac_encode("zstd", 0, NULL, 1, ANY, &err));
    REFUSES("out", tarn_iac_encode("zstd", 0, ANY, 1, NULL, &err));
    REFUSES("data", tarn_iac_encode_brotli(5, 22, NULL, 1, ANY, &err));
    REFUSES("out", tarn_iac_encode_brotli(5, 22, ANY, 1, NULL, &err));
    REFUSES("data", tarn_iac_decode("zstd", NULL, 1, 1, ANY, &err));
    REFUSES("out", tarn_iac_decode("zstd", ANY, 1, 1, NULL, &err));
    REFUSES("path", tarn_iac_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_iac_open(ANY, NULL, NULL, &err));
    REFUSES("pack", tarn_iac_locate(NULL, 1, ANY, &err));
    REFUSES("out", tarn_iac_locate(ANY, 1, NULL, &err));
    REFUSES("pack", tarn_iac_view(NULL, 1, false, ANY, &err));
    REFUSES("out", tarn_iac_view(ANY, 1, false, NULL, &err));
    REFUSES("pack", tarn_iac_read(NULL, ANY, 1, ANY, &err));
    REFUSES("rows", tarn_iac_read(ANY, NULL, 1, ANY, &err));
    REFUSES("out", tarn_iac_read(ANY, ANY, 1, NULL, &err));
    REFUSES("pack", tarn_iac_view_span(NULL, 1, 1, ANY, &err));
    REFUSES("out", tarn_iac_view_span(ANY, 1, 1, NULL, &err));
    REFUSES("pack", tarn_iac_view(NULL, 1, true, ANY, &err));
    REFUSES("out", tarn_iac_view(ANY, 1, true, NULL, &err));
    REFUSES("pack", tarn_iac_export(NULL, TARN_IAC_INDEX, ANY, &err));
    REFUSES("out", tarn_iac_export(ANY, TARN_IAC_INDEX, NULL, &err));
    REFUSES("pack", tarn_iac_column_get(NULL, TARN_IAC_INDEX, 0, ANY, 1, &err));
    REFUSES("out", tarn_iac_column_get(ANY, TARN_IAC_INDEX, 0, NULL, 1, &err));
    REFUSES("pack", tarn_iac_value(NULL, TARN_IAC_INDEX, 1, 1, ANY, &err));
    REFUSES("out", tarn_iac_value(ANY, TARN_IAC_INDEX, 1, 1, NULL, &err));
    REFUSES("pack", tarn_iac_find(NULL, ANY, ANY, 1, 1, ANY, &err));
    REFUSES("column", tarn_iac_find(ANY, NULL, ANY, 1, 1, ANY, &err));
    REFUSES("value", tarn_iac_find(ANY, ANY, NULL, 1, 1, ANY, &err));
    REFUSES("out_row", tarn_iac_find(ANY, ANY, ANY, 1, 1, NULL, &err));
    REFUSES("writer", tarn_iac_writer_add(NULL, ANY, 1, &err));
    REFUSES("data", tarn_iac_writer_add(ANY, NULL, 1, &err));
    REFUSES("writer", tarn_iac_writer_add_file(NULL, ANY, ANY, &err));
    REFUSES("path", tarn_iac_writer_add_file(ANY, NULL, ANY, &err));
    REFUSES("out_size", tarn_iac_writer_add_file(ANY, ANY, NULL, &err));
    REFUSES("writer", tarn_iac_writer_finish(NULL, &err));
    REFUSES("from", tarn_iac_rewrite(NULL, ANY, NULL, &err));
    REFUSES("to", tarn_iac_rewrite(ANY, NULL, NULL, &err));
    REFUSES("rows", tarn_iac_rewrite(ANY, ANY, &no_rows, &err));
    REFUSES("columns", tarn_iac_rows_new(NULL, 1, ANY, &err));
    REFUSES("out", tarn_iac_rows_new(ANY, 1, NULL, &err));
    REFUSES("rows", tarn_iac_rows_add(NULL, 1, ANY, &err));
    REFUSES("path",
            tarn_iac_writer_open(NULL, &streams[0], &streams[1], NULL, ANY, &err));
    REFUSES("slides", tarn_iac_writer_open(ANY, NULL, &streams[1], NULL, ANY, &err));
    REFUSES("index", tarn_iac_writer_open(ANY, &streams[0], NULL, NULL, ANY, &err));
    REFUSES("out", tarn_iac_writer_open(ANY, &streams[0], &streams[1], NULL, NULL, &err));
    REFUSES("rows", tarn_iac_rows_finish(NULL, NULL, &err));
}

static void functions_of_image_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("out", tarn_image_decoder_new(NULL, NULL, &err));
    REFUSES("decoder", tarn_image_probe(NULL, ANY, 1, ANY, 1, &err));
    REFUSES("data", tarn_image_probe(ANY, NULL, 1, ANY, 1, &err));
    REFUSES("out", tarn_image_probe(ANY, ANY, 1, NULL, 1, &err));
    REFUSES("decoder",
            tarn_image_run(NULL, ANY, ANY, 1, (tarn_image_draw){0}, ANY, 1, &err));
    REFUSES("steps",
            tarn_image_run(ANY, NULL, ANY, 1, (tarn_image_draw){0}, ANY, 1, &err));
    REFUSES("data",
            tarn_image_run(ANY, ANY, NULL, 1, (tarn_image_draw){0}, ANY, 1, &err));
    REFUSES("out", tarn_image_run(ANY, ANY, ANY, 1, (tarn_image_draw){0}, NULL, 1, &err));
}

static void functions_of_index_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("out", tarn_index_build(ANY, 1, NULL, NULL, NULL, NULL, 1, &err));
    REFUSES("index", tarn_index_save(NULL, ANY, &err));
    REFUSES("path", tarn_index_save(ANY, NULL, &err));
    REFUSES("shards", tarn_index_build(NULL, 1, NULL, ANY, NULL, NULL, 1, &err));
    REFUSES("path", tarn_index_load(NULL, ANY, &err));
    REFUSES("out", tarn_index_load(ANY, NULL, &err));
    REFUSES("path", tarn_index_sums_info(NULL, ANY, 8, &err));
    REFUSES("out", tarn_index_sums_info(ANY, NULL, 8, &err));
    REFUSES("index", tarn_index_row(NULL, 1, ANY, &err));
    REFUSES("out", tarn_index_row(ANY, 1, NULL, &err));
}

static void functions_of_loader_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("dataset", tarn_loader_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_map_put(NULL, 0, ANY, &err));
    REFUSES("value", tarn_map_put(ANY, 0, NULL, &err));
    REFUSES("out", tarn_map_room(NULL, 0, (tarn_dtype){0}, 0, NULL, ANY, &err));
    REFUSES("data", tarn_map_room(ANY, 0, (tarn_dtype){0}, 0, NULL, NULL, &err));
    REFUSES("out", tarn_loader_open(ANY, NULL, NULL, &err));
    REFUSES("loader", tarn_loader_next(NULL, TARN_NO_TIMEOUT, ANY, &err));
    REFUSES("out", tarn_loader_next(ANY, TARN_NO_TIMEOUT, NULL, &err));
    REFUSES("loader", tarn_loader_next(NULL, 1, ANY, &err));
    REFUSES("out", tarn_loader_next(ANY, 1, NULL, &err));
    REFUSES("loader", tarn_loader_set_epoch(NULL, 1, &err));
    REFUSES("loader", tarn_loader_state(NULL, ANY, &err));
    REFUSES("out", tarn_loader_state(ANY, NULL, &err));
    REFUSES("loader", tarn_loader_state_before(NULL, 0, ANY, &err));
    REFUSES("out", tarn_loader_state_before(ANY, 0, NULL, &err));
}

static void functions_of_order_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("name", tarn_order_kind_find(NULL, ANY, &err));
    REFUSES("out", tarn_order_kind_find(ANY, NULL, &err));
    REFUSES("out", tarn_order_open(1, NULL, NULL, &err));
    REFUSES("order", tarn_order_fill(NULL, 1, 1, ANY, &err));
    REFUSES("out_samples", tarn_order_fill(ANY, 1, 1, NULL, &err));
}

static void functions_of_pack_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("sources", tarn_pack(NULL, 1, ANY, NULL, NULL, 0, &err));
    REFUSES("path", tarn_commit(NULL, NULL, NULL, 0, &err));
    REFUSES("output", tarn_pack_put(NULL, 0, ANY, ANY, 1, &err));
    REFUSES("key", tarn_pack_put(ANY, 0, NULL, ANY, 1, &err));
    REFUSES("fields", tarn_pack_put(ANY, 0, ANY, NULL, 1, &err));
    REFUSES("output", tarn_pack_adopt(NULL, 0, ANY, NULL, 0, TARN_ADOPT_LINK, &err));
    REFUSES("from", tarn_pack_adopt(ANY, 0, NULL, NULL, 0, TARN_ADOPT_LINK, &err));
}

static void functions_of_samples_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("urls", tarn_samples_open(NULL, 1, NULL, ANY, &err));
    REFUSES("out", tarn_samples_open(ANY, 1, NULL, NULL, &err));
    REFUSES("samples", tarn_samples_next(NULL, ANY, &err));
    REFUSES("out", tarn_samples_next(ANY, NULL, &err));
    REFUSES("samples", tarn_samples_unfinished(NULL, ANY, &err));
    REFUSES("out", tarn_samples_unfinished(ANY, NULL, &err));
    REFUSES("item", tarn_samples_extract(NULL, ANY, false, ANY, &err));
    REFUSES("folder", tarn_samples_extract(ANY, NULL, false, ANY, &err));
    REFUSES("out_files", tarn_samples_extract(ANY, ANY, false, NULL, &err));
}

static void functions_of_source_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("url", tarn_source_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_source_open(ANY, NULL, NULL, &err));
    REFUSES("source", tarn_source_read(NULL, ANY, 1, ANY, &err));
    REFUSES("buf", tarn_source_read(ANY, NULL, 1, ANY, &err));
    REFUSES("out_got", tarn_source_read(ANY, ANY, 1, NULL, &err));
    REFUSES("url", tarn_sink_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_sink_open(ANY, NULL, NULL, &err));
    REFUSES("sink", tarn_sink_write(NULL, ANY, 1, &err));
    REFUSES("data", tarn_sink_write(ANY, NULL, 1, &err));
    REFUSES("sink", tarn_sink_finish(NULL, &err));
    REFUSES("list", tarn_urls_expand(NULL, ANY, &err));
    REFUSES("out", tarn_urls_expand(ANY, NULL, &err));
}

static void functions_of_tar_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("path", tarn_tar_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_tar_open(ANY, NULL, NULL, &err));
    REFUSES("tar", tarn_tar_next(NULL, ANY, &err));
    REFUSES("out", tarn_tar_next(ANY, NULL, &err));
    REFUSES("tar", tarn_tar_read(NULL, ANY, 1, ANY, 1, &err));
    REFUSES("member", tarn_tar_read(ANY, NULL, 1, ANY, 1, &err));
    REFUSES("buf", tarn_tar_read(ANY, ANY, 1, NULL, 1, &err));
}

static void functions_of_textpair_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("path", tarn_textpair_build(NULL, ANY, 1, NULL, &err));
    REFUSES("patients", tarn_textpair_build(ANY, NULL, 1, NULL, &err));
    REFUSES("pack", tarn_textpair_read(NULL, 1, ANY, &err));
    REFUSES("out", tarn_textpair_read(ANY, 1, NULL, &err));
}

static void functions_of_simulate_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("loaders", tarn_simulation_open(NULL, 1, NULL, ANY, &err));
    REFUSES("out", tarn_simulation_open(ANY, 1, NULL, NULL, &err));
    REFUSES("simulation", tarn_simulation_next(NULL, ANY, 1, &err));
    REFUSES("out", tarn_simulation_next(ANY, NULL, 1, &err));
    tarn_simulation_close(NULL);
}

static void functions_of_cache_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("folder", tarn_cache_list(NULL, ANY, NULL, &err));
    REFUSES("see", tarn_cache_list(ANY, NULL, NULL, &err));
    REFUSES("folder", tarn_cache_verify(NULL, NULL, ANY, 1, &err));
    REFUSES("report", tarn_cache_verify(ANY, NULL, NULL, 1, &err));
    REFUSES("folder", tarn_cache_clear(NULL, NULL, ANY, 1, &err));
    REFUSES("out", tarn_cache_clear(ANY, NULL, NULL, 1, &err));
}

static void functions_of_verify_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("path", tarn_verify(NULL, NULL, ANY, 1, &err));
    REFUSES("report", tarn_verify(ANY, NULL, NULL, 1, &err));
    REFUSES("dataset", tarn_verify_decode(NULL, NULL, ANY, 1, &err));
    REFUSES("report", tarn_verify_decode(ANY, NULL, NULL, 1, &err));
}

static void functions_of_write_name_the_argument_that_is_null(void **state)
{
    (void)state;
    REFUSES("url", tarn_tar_writer_open(NULL, NULL, ANY, &err));
    REFUSES("out", tarn_tar_writer_open(ANY, NULL, NULL, &err));
    REFUSES("writer", tarn_tar_writer_add(NULL, ANY, ANY, 1, &err));
    REFUSES("fields", tarn_tar_writer_add(ANY, ANY, NULL, 1, &err));
    REFUSES("writer", tarn_tar_writer_finish(NULL, NULL, 0, &err));
    REFUSES("writer", tarn_tar_writer_next(NULL, &err));
    REFUSES("writer", tarn_tar_writer_finish(NULL, NULL, 1, &err));
    REFUSES("folder", tarn_fold_writer_open(NULL, ANY, NULL, ANY, &err));
    REFUSES("fold", tarn_fold_writer_open(ANY, NULL, NULL, ANY, &err));
    REFUSES("out", tarn_fold_writer_open(ANY, ANY, NULL, NULL, &err));
    REFUSES("writer", tarn_fold_writer_add(NULL, ANY, ANY, 1, &err));
    REFUSES("key", tarn_fold_writer_add(ANY, NULL, ANY, 1, &err));
    REFUSES("fields", tarn_fold_writer_add(ANY, ANY, NULL, 1, &err));
    REFUSES("writer", tarn_fold_writer_has(NULL, ANY, ANY, &err));
    REFUSES("key", tarn_fold_writer_has(ANY, NULL, ANY, &err));
    REFUSES("out", tarn_fold_writer_has(ANY, ANY, NULL, &err));
    REFUSES("writer", tarn_fold_writer_adopt(NULL, ANY, NULL, 1, TARN_ADOPT_LINK, &err));
    REFUSES("from", tarn_fold_writer_adopt(ANY, NULL, NULL, 1, TARN_ADOPT_LINK, &err));
    REFUSES("writer", tarn_fold_writer_finish(NULL, NULL, 1, &err));
}

static void functions_that_cannot_fail_accept_null(void **state)
{
    (void)state;
    tarn_view_release(NULL);
    tarn_text_reset(NULL);
    tarn_bytes_release(NULL);
    tarn_value_release(NULL);
    tarn_dataset_close(NULL);
    tarn_dataset_batch_reset(NULL);
    tarn_field_sets_free(NULL);
    tarn_views_free(NULL);
    tarn_order_close(NULL);
    tarn_loader_close(NULL);
    tarn_batch_release(NULL);
    tarn_dataset_close(NULL);
    tarn_gnz_close(NULL);
    tarn_gnz_view_release(NULL);
    tarn_gnz_writer_abandon(NULL);
    tarn_iac_close(NULL);
    tarn_iac_batch_reset(NULL);
    tarn_iac_writer_abandon(NULL);
    tarn_iac_rows_free(NULL);
    tarn_image_decoder_free(NULL);
    tarn_index_free(NULL);
    tarn_samples_close(NULL);
    tarn_source_close(NULL);
    tarn_sink_abandon(NULL);
    tarn_urls_free(NULL);
    tarn_tar_close(NULL);
    tarn_textpair_reset(NULL);
    tarn_tar_writer_abandon(NULL);
    tarn_fold_writer_abandon(NULL, false, NULL);
    tarn_gnz_advise(NULL, 0, 0, 1, TARN_GNZ_NORMAL);
}

static void getters_of_null_are_empty(void **state)
{
    (void)state;
    assert_int_equal(tarn_array_bytes(NULL), 0);
    assert_false(tarn_array_is_packed(NULL));
    assert_int_equal(tarn_dataset_count(NULL), 0);
    assert_null(tarn_dataset_field(NULL, 0));
    assert_null(tarn_dataset_file_field(NULL, 0));
    assert_null(tarn_dataset_field_stored(NULL, 0, 0));
    assert_int_equal(tarn_dataset_lacking(NULL, 0), 0);
    assert_null(tarn_dataset_unordered(NULL));
    assert_null(tarn_loader_skipped(NULL, 0));
    tarn_gnz_info info;
    tarn_gnz_info_get(NULL, &info, sizeof info);
    assert_int_equal(info.arrays, 0);
    assert_null(info.metadata);
    assert_null(tarn_index_field(NULL, 0));
    assert_null(tarn_index_collision(NULL, 1));
    assert_false(tarn_tar_is_stream(NULL));
    char text[8] = "before";
    assert_string_equal(tarn_error_text(NULL, text, sizeof text), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_array_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_collate_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_codec_name_the_argument_that_is_null),
        cmocka_unit_test(a_filter_names_the_argument_that_is_null),
        cmocka_unit_test(functions_of_dataset_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_folds_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_members_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_gnz_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_iac_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_image_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_index_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_loader_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_order_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_pack_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_samples_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_source_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_tar_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_textpair_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_simulate_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_cache_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_verify_name_the_argument_that_is_null),
        cmocka_unit_test(functions_of_write_name_the_argument_that_is_null),
        cmocka_unit_test(functions_that_cannot_fail_accept_null),
        cmocka_unit_test(getters_of_null_are_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
