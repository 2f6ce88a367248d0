/* Structs of callers that were compiled with shorter or longer versions: nothing is
 * written past their size, and members that the library does not know are zero. */
#include <tarn/tarn.h>

#include "support.h"

/* A struct of the caller between bytes that must stay. same compares what was filled in:
 * the first filled bytes of room, which is out. */
#define FILLS_LIKE(type, same, get)                                                      \
    do {                                                                                 \
        static const size_t sizes[] = {0, 8, sizeof(type) - 8, sizeof(type) + 64};       \
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {                    \
            _Alignas(64) unsigned char room[sizeof(type) + 128];                         \
            type *out = (type *)(void *)room;                                            \
            size_t size = sizes[i];                                                      \
            size_t filled = size < sizeof(type) ? size : sizeof(type);                   \
            memset(room, 0x5a, sizeof room);                                             \
            get;                                                                         \
            same;                                                                        \
            for (size_t k = filled; k < size; k++)                                       \
                assert_int_equal(room[k], 0);                                            \
            for (size_t k = size; k < sizeof room; k++)                                  \
                assert_int_equal(room[k], 0x5a);                                         \
        }                                                                                \
    } while (0)
#define FILLS(type, known, get)                                                          \
    FILLS_LIKE(type, assert_memory_equal(room, &(known), filled), get)

static void nothing_is_written_past_the_size_of_a_struct(void **state)
{
    (void)state;
    static const tarn_tar_counts counts;
    static const tarn_written written;
    static const tarn_samples_report report;
    static const tarn_index_info index;
    static const tarn_iac_info iac;
    static const tarn_dataset_info dataset;
    static const tarn_order_info order;
    static const tarn_loader_info loader;
    static const tarn_loader_stats stats;
    FILLS(tarn_tar_counts, counts, tarn_tar_counts_get(NULL, out, size));
    FILLS(tarn_written, written, tarn_tar_writer_written(NULL, out, size));
    FILLS(tarn_written, written, tarn_fold_writer_written(NULL, out, size));
    FILLS(tarn_samples_report, report, tarn_samples_report_get(NULL, out, size));
    FILLS(tarn_index_info, index, tarn_index_info_get(NULL, out, size));
    FILLS(tarn_iac_info, iac, tarn_iac_info_get(NULL, out, size));
    FILLS(tarn_dataset_info, dataset, tarn_dataset_info_get(NULL, out, size));
    FILLS(tarn_order_info, order, tarn_order_info_get(NULL, out, size));
    FILLS(tarn_loader_info, loader, tarn_loader_info_get(NULL, out, size));
    FILLS(tarn_loader_stats, stats, tarn_loader_stats_get(NULL, out, size));
}

/* These have gaps between their members, so only their first member is compared. */
static void structs_of_a_dataset_are_filled_up_to_their_size(void **state)
{
    (void)state;
    tarn_error err;
    tarn_dataset *d;
    OK(tarn_dataset_open(data_path("01_basic:train"), NULL, &d, &err));
    FILLS_LIKE(tarn_field_form, assert_true(!filled || out->form == TARN_FORM_NAMED),
               OK(tarn_dataset_form(d, 0, 0, out, size, &err)));
    FILLS_LIKE(tarn_place, assert_true(!filled || out->row == 0),
               OK(tarn_dataset_locate(d, 0, 0, out, size, &err)));
    FILLS_LIKE(tarn_fold_info, assert_true(!filled || !strcmp(out->name, "train")),
               OK(tarn_dataset_fold(d, out, size, &err)));
    tarn_dataset_close(d);
}

/* The function and the macro give the same bytes, whatever the caller's size; the size
 * stays the caller's. */
#define INITS(type, init)                                                                \
    do {                                                                                 \
        type known = init;                                                               \
        assert_int_equal(known.size, sizeof(type));                                      \
        FILLS(type, *(known.size = size, &known), type##_init(out, size));               \
        type##_init(NULL, sizeof(type));                                                 \
    } while (0)

static void init_functions_and_macros_agree(void **state)
{
    (void)state;
    INITS(tarn_encode_options, TARN_ENCODE_OPTIONS_INIT);
    INITS(tarn_decode_options, TARN_DECODE_OPTIONS_INIT);
    INITS(tarn_dataset_options, TARN_DATASET_OPTIONS_INIT);
    INITS(tarn_views_options, TARN_VIEWS_OPTIONS_INIT);
    INITS(tarn_mix_options, TARN_MIX_OPTIONS_INIT);
    INITS(tarn_condition, TARN_CONDITION_INIT);
    INITS(tarn_order_options, TARN_ORDER_OPTIONS_INIT);
    INITS(tarn_loader_options, TARN_LOADER_OPTIONS_INIT);
    INITS(tarn_dataset_options, TARN_DATASET_OPTIONS_INIT);
    INITS(tarn_extract_options, TARN_EXTRACT_OPTIONS_INIT);
    INITS(tarn_gnz_options, TARN_GNZ_OPTIONS_INIT);
    INITS(tarn_gnz_writer_options, TARN_GNZ_WRITER_OPTIONS_INIT);
    INITS(tarn_iac_options, TARN_IAC_OPTIONS_INIT);
    INITS(tarn_iac_write_options, TARN_IAC_WRITE_OPTIONS_INIT);
    INITS(tarn_image_steps, TARN_IMAGE_STEPS_INIT);
    INITS(tarn_index_options, TARN_INDEX_OPTIONS_INIT);
    INITS(tarn_pack_options, TARN_PACK_OPTIONS_INIT);
    INITS(tarn_walk_options, TARN_WALK_OPTIONS_INIT);
    INITS(tarn_samples_options, TARN_SAMPLES_OPTIONS_INIT);
    INITS(tarn_source_calls, TARN_SOURCE_CALLS_INIT);
    INITS(tarn_source_options, TARN_SOURCE_OPTIONS_INIT);
    INITS(tarn_sink_calls, TARN_SINK_CALLS_INIT);
    INITS(tarn_sink_options, TARN_SINK_OPTIONS_INIT);
    INITS(tarn_tar_options, TARN_TAR_OPTIONS_INIT);
    INITS(tarn_textpair_options, TARN_TEXTPAIR_OPTIONS_INIT);
    INITS(tarn_cache_verify_options, TARN_CACHE_VERIFY_OPTIONS_INIT);
    INITS(tarn_cache_clear_options, TARN_CACHE_CLEAR_OPTIONS_INIT);
    INITS(tarn_simulation_options, TARN_SIMULATION_OPTIONS_INIT);
    INITS(tarn_verify_options, TARN_VERIFY_OPTIONS_INIT);
    INITS(tarn_verify_decode_options, TARN_VERIFY_DECODE_OPTIONS_INIT);
    INITS(tarn_tar_writer_options, TARN_TAR_WRITER_OPTIONS_INIT);
    INITS(tarn_shard_options, TARN_SHARD_OPTIONS_INIT);
    INITS(tarn_fold_writer_options, TARN_FOLD_WRITER_OPTIONS_INIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_past_the_size_of_a_struct),
        cmocka_unit_test(structs_of_a_dataset_are_filled_up_to_their_size),
        cmocka_unit_test(init_functions_and_macros_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
