/* Padded and ragged values from C: arrays of callers, and fields of loaders, whose
 * results must not depend on threads, and which fail without memory and for values that
 * do not fit. tests/python/test_collate.py compares more of them with NumPy. */
#include "loading.h"

/* --- Arrays of callers ---------------------------------------------------------------
 */

static tarn_array numbers(int16_t *data, uint64_t count)
{
    tarn_array a;
    OK(tarn_array_init(&a, data, (tarn_dtype){'<', 'i', 2}, 1, &count, &err));
    return a;
}

static void arrays_are_padded_with_mask_and_lengths(void **state)
{
    (void)state;
    int16_t x[] = {1, 2, 3}, y[] = {4}, out[2][4];
    bool mask[2][4];
    int64_t lengths[2];
    tarn_array arrays[] = {numbers(x, 3), numbers(y, 1)};
    tarn_value value = value_integer(-5);
    tarn_collate_options how = TARN_COLLATE_OPTIONS_INIT;
    tarn_collated result;
    how.kind = TARN_COLLATE_PAD;
    how.value = &value;
    how.multiple = 4;
    how.left = how.mask = how.lengths = true;
    OK(tarn_collate_plan(arrays, 2, &how, &result, &err));
    assert_int_equal(tarn_array_bytes(&result.values), sizeof out);
    assert_int_equal(tarn_array_bytes(&result.mask), sizeof mask);
    assert_int_equal(tarn_array_bytes(&result.lengths), sizeof lengths);
    assert_int_equal(tarn_array_bytes(&result.offsets), 0);
    FAILS(TARN_ERR_USAGE, "no memory", tarn_collate_run(arrays, 2, &how, &result, &err));
    result.values.data = out;
    result.mask.data = mask;
    result.lengths.data = lengths;
    OK(tarn_collate_run(arrays, 2, &how, &result, &err));
    assert_memory_equal(out, ((int16_t[2][4]){{-5, 1, 2, 3}, {-5, -5, -5, 4}}),
                        sizeof out);
    assert_memory_equal(mask, ((bool[2][4]){{0, 1, 1, 1}, {0, 0, 0, 1}}), sizeof mask);
    assert_int_equal(lengths[0], 3);
    assert_int_equal(lengths[1], 1);
}

static void ragged_arrays_have_offsets(void **state)
{
    (void)state;
    int16_t x[] = {1, 2, 3}, y[] = {4}, out[4];
    int64_t offsets[4];
    /* every second element, from the last to the first */
    tarn_array arrays[] = {numbers(x, 2), numbers(x, 0), numbers(y, 1)};
    arrays[0].data = x + 2;
    arrays[0].strides[0] = -4;
    tarn_collate_options how = TARN_COLLATE_OPTIONS_INIT;
    tarn_collated result;
    how.kind = TARN_COLLATE_RAGGED;
    OK(tarn_collate_plan(arrays, 3, &how, &result, &err));
    assert_int_equal(result.values.shape[0], 3);
    result.values.data = out;
    result.offsets.data = offsets;
    OK(tarn_collate_run(arrays, 3, &how, &result, &err));
    assert_memory_equal(out, ((int16_t[]){3, 1, 4}), 6);
    assert_memory_equal(offsets, ((int64_t[]){0, 2, 2, 3}), sizeof offsets);
}

static void invalid_options_and_arrays_are_refused(void **state)
{
    (void)state;
    int16_t x[] = {1, 2, 3};
    tarn_array arrays[] = {numbers(x, 3), numbers(x, 2)};
    tarn_collated out;
    tarn_collate_options how = TARN_COLLATE_OPTIONS_INIT, pad = how;
    tarn_value text = value_text("0", 1), large = value_integer(1 << 15);
    pad.kind = TARN_COLLATE_PAD;
    FAILS(TARN_ERR_USAGE, "no arrays", tarn_collate_plan(arrays, 0, &how, &out, &err));
    FAILS(TARN_ERR_FORMAT, "array 1: the array has shape (2,), but the first",
          tarn_collate_plan(arrays, 2, &how, &out, &err));
    how.kind = (tarn_collate_kind)3;
    FAILS(TARN_ERR_USAGE, "unknown way", tarn_collate_plan(arrays, 2, &how, &out, &err));
    how.kind = TARN_COLLATE_RAGGED;
    how.mask = true;
    FAILS(TARN_ERR_USAGE, "options of padding",
          tarn_collate_plan(arrays, 2, &how, &out, &err));
    pad.value = &text;
    FAILS(TARN_ERR_USAGE, "not a number", tarn_collate_plan(arrays, 2, &pad, &out, &err));
    pad.value = &large;
    FAILS(TARN_ERR_USAGE, "32768 is not a value of type <i2",
          tarn_collate_plan(arrays, 2, &pad, &out, &err));
    pad.value = NULL;
    pad.truncate = true;
    FAILS(TARN_ERR_USAGE, "without a fixed length",
          tarn_collate_plan(arrays, 2, &pad, &out, &err));
    pad.fixed = (const uint64_t[]){UINT64_MAX};
    pad.n_fixed = 1;
    FAILS(TARN_ERR_LIMIT, "TARN_MAX_PADDED",
          tarn_collate_plan(arrays, 2, &pad, &out, &err));
    pad.fixed = NULL;
    pad.truncate = false;
    pad.multiple = UINT64_MAX;
    FAILS(TARN_ERR_LIMIT, "too large", tarn_collate_plan(arrays, 2, &pad, &out, &err));
    arrays[1].dtype.size = 3;
    FAILS(TARN_ERR_USAGE, "element type", tarn_collate_plan(arrays, 2, &pad, &out, &err));
}

/* --- Fields of loaders ---------------------------------------------------------------
 */

static const tarn_load_field both[] = {{"rag.npy", TARN_LOAD_AUTO, NULL},
                                       {"png", TARN_LOAD_AUTO, NULL},
                                       {"cls", TARN_LOAD_AUTO, NULL}};

/* rag.npy is padded and png ragged, or the other way round. */
static tarn_loader_options shaped(bool swap)
{
    static const int axes[] = {0, 1};
    static tarn_collate_options pad = TARN_COLLATE_OPTIONS_INIT,
                                images = TARN_COLLATE_OPTIONS_INIT,
                                ragged = TARN_COLLATE_OPTIONS_INIT;
    static const tarn_collate_options *lists[2][3] = {{&pad, NULL, NULL},
                                                      {&ragged, &images, NULL}};
    tarn_loader_options o = loader_options();
    pad.kind = images.kind = TARN_COLLATE_PAD;
    pad.mask = pad.lengths = images.mask = true;
    images.axes = axes;
    images.n_axes = 2;
    ragged.kind = TARN_COLLATE_RAGGED;
    o.fields = both;
    o.n_fields = 3;
    o.collate = lists[swap];
    return o;
}

static void padded_fields_have_the_values_of_the_samples(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = shaped(false);
    tarn_loader *l;
    tarn_batch *b;
    OK(tarn_loader_open(d, &o, &l, &err));
    while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
        const tarn_column *c = column(b, "rag.npy"), *mask = column(b, "rag.npy_mask");
        const int64_t *lengths = (void *)column(b, "rag.npy_lengths")->data;
        assert_int_equal(b->n_columns, 5);
        assert_int_equal(c->kind, TARN_COLUMN_ARRAY);
        assert_int_equal(mask->shape[0], c->shape[0]);
        for (size_t i = 0; i < b->count; i++) {
            uint64_t s = b->samples[i], length = s % 5 ? 4 : s % 7;
            assert_int_equal(lengths[i], length);
            for (uint64_t k = 0; k < c->shape[0]; k++) {
                size_t at = i * c->shape[0] + k;
                assert_int_equal(mask->data[at], k < length);
                assert_int_equal(((int16_t *)(void *)c->data)[at],
                                 k < length ? s + k : 0);
            }
        }
        tarn_batch_release(b);
    }
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static void any_number_of_threads_pads_the_same(void **state)
{
    (void)state;
    static const unsigned threads[] = {1, 3, 64};
    tarn_dataset *d = open_shuffled(fold_path(5));
    for (int way = 0; way < 8; way++) {
        tarn_loader_options o = shaped(way & 1);
        o.on_error = way & 2 ? TARN_ON_ERROR_REPLACE : TARN_ON_ERROR_SKIP;
        set_staged(d, way & 4);
        tarn_bytes want = epochs_of(d, &o, 3);
        for (size_t i = 0; i < 3; i++) {
            o.threads = threads[i];
            tarn_bytes got = epochs_of(d, &o, 3);
            same(&want, &got);
        }
        tarn_bytes_release(&want);
    }
    tarn_dataset_close(d);
}

static void batches_without_samples_have_the_type(void **state)
{
    (void)state;
    tarn_loader_options o = shaped(true);
    tarn_loader *l;
    tarn_batch *b;
    tarn_dataset *d = open_path(fold_path(0)), *few;
    OK(tarn_dataset_slice(d, 0, 1, 1, &few, &err));
    few = one_rank(few, 1, 2, TARN_UNEVEN_KEEP);
    o.equal_batches = true;
    OK(tarn_loader_open(few, &o, &l, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    assert_int_equal(b->count, 0);
    assert_int_equal(b->n_columns, 4);
    assert_int_equal(column(b, "png_mask")->size, 0);
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(few);
    tarn_dataset_close(d);
}

static void a_sample_that_is_too_long_is_a_hole(void **state)
{
    (void)state;
    tarn_loader_options o = shaped(false);
    tarn_collate_options fixed = TARN_COLLATE_OPTIONS_INIT;
    const tarn_collate_options *list[] = {&fixed, NULL, NULL};
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader *l;
    tarn_batch *b;
    fixed.kind = TARN_COLLATE_PAD;
    fixed.fixed = (const uint64_t[]){4};
    fixed.n_fixed = 1;
    o.collate = list;
    o.batch = SAMPLES;
    OK(tarn_loader_open(d, &o, &l, &err));
    FAILS(TARN_ERR_FORMAT,
          "sample 5 (s0005), field rag.npy: the array has length 5 along axis 0, but is "
          "to be padded to 4",
          tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    tarn_loader_close(l);
    o.on_error = TARN_ON_ERROR_SKIP;
    o.threads = 3;
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    size_t longer = 0;
    for (unsigned s = 0; s < SAMPLES; s += 5)
        longer += s % 7 > 4;
    assert_int_equal(b->count, SAMPLES - longer);
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

/* Whatever on_error is: the samples are intact, and which of them is wrong is not clear.
 */
static void values_that_do_not_fit_together_fail_the_batch(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_collate_options ragged = TARN_COLLATE_OPTIONS_INIT;
    const tarn_collate_options *list[] = {NULL, &ragged, NULL};
    ragged.kind = TARN_COLLATE_RAGGED;
    for (unsigned threads = 0; threads < 3; threads += 2) {
        tarn_loader_options o = shaped(false);
        tarn_loader *l;
        tarn_batch *b;
        o.collate = list;
        o.threads = threads;
        o.on_error = TARN_ON_ERROR_SKIP;
        OK(tarn_loader_open(d, &o, &l, &err));
        for (int i = 0; i < 2; i++)
            FAILS(TARN_ERR_FORMAT,
                  "sample 1 (s0001), field png: the array has shape (30, 41, 3), but the "
                  "first of the batch has length 40 along axis 1",
                  tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

static void fields_that_are_not_arrays_are_refused_at_open(void **state)
{
    (void)state;
    static const tarn_load_field fields[] = {
        {"txt", TARN_LOAD_AUTO, NULL},        {"cls", TARN_LOAD_AUTO, NULL},
        {"rag.npy", TARN_LOAD_BYTES, NULL},   {"rag.npy", TARN_LOAD_VIEWS, NULL},
        {"rag.npy", TARN_LOAD_INTEGER, NULL},
    };
    tarn_dataset *d = open_path(fold_path(0));
    tarn_collate_options ragged = TARN_COLLATE_OPTIONS_INIT;
    const tarn_collate_options *list[] = {&ragged};
    tarn_loader *l;
    tarn_loader_options o = loader_options();
    o.collate = list;
    FAILS(TARN_ERR_USAGE, "needs a list of fields", tarn_loader_open(d, &o, &l, &err));
    ragged.kind = TARN_COLLATE_RAGGED;
    o.n_fields = 1;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        o.fields = &fields[i];
        FAILS(TARN_ERR_USAGE, "cannot be padded or joined",
              tarn_loader_open(d, &o, &l, &err));
    }
    o.fields = both;
    ragged.kind = TARN_COLLATE_STACK;
    FAILS(TARN_ERR_USAGE, "without collate", tarn_loader_open(d, &o, &l, &err));
    ragged.kind = TARN_COLLATE_PAD;
    ragged.mask = true;
    o.fields = (const tarn_load_field[]){both[0], both[0]};
    o.n_fields = 2;
    o.collate = (const tarn_collate_options *const[]){&ragged, &ragged};
    FAILS(TARN_ERR_USAGE, "the mask of field rag.npy would have the name of another",
          tarn_loader_open(d, &o, &l, &err));
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_padded_with_mask_and_lengths),
        cmocka_unit_test(ragged_arrays_have_offsets),
        cmocka_unit_test(invalid_options_and_arrays_are_refused),
        cmocka_unit_test(padded_fields_have_the_values_of_the_samples),
        cmocka_unit_test(any_number_of_threads_pads_the_same),
        cmocka_unit_test(batches_without_samples_have_the_type),
        cmocka_unit_test(a_sample_that_is_too_long_is_a_hole),
        cmocka_unit_test(values_that_do_not_fit_together_fail_the_batch),
        cmocka_unit_test(fields_that_are_not_arrays_are_refused_at_open),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
