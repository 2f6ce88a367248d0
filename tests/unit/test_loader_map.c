/* A function of the caller as a stage of the loader: what it gets, that its results do
 * not depend on threads, ranks or a resume, its failures, and closing while it runs. */
#include "loading.h"

#include <sched.h>
#include <stdatomic.h>

static const char *const made[] = {"twice", "seed", "text", "where"};
enum { TWICE, SEED, TEXT, WHERE, MADE };

static const tarn_load_field fields[] = {{"rag.npy", TARN_LOAD_AUTO, NULL},
                                         {"txt", TARN_LOAD_VIEWS, NULL},
                                         {"cls", TARN_LOAD_AUTO, NULL},
                                         {"bin", TARN_LOAD_BYTES, NULL}};

/* Checks every input, and makes twice the values of rag.npy. */
static tarn_status twice(void *context, const tarn_map_input *in, tarn_map_output *out,
                         tarn_error *why)
{
    char key[32], text[64];
    const tarn_array *rag = in->values[0].arrays;
    void *data;
    (void)context;
    snprintf(key, sizeof key, "s%04u", (unsigned)in->sample);
    snprintf(text, sizeof text, "text of %u", (unsigned)in->sample);
    uint64_t length = in->sample % 5 ? 4 : in->sample % 7;
    if (in->n_values != 4 || in->key_size != strlen(key) || strcmp(in->key, key) != 0 ||
        in->values[0].kind != TARN_VALUE_ARRAY || rag->shape[0] != length ||
        in->values[1].size != strlen(text) ||
        memcmp(in->values[1].data, text, strlen(text)) != 0 ||
        *(int64_t *)in->values[2].arrays->data != (int64_t)in->sample * 3 - 7 ||
        in->values[3].size != in->sample * 3) {
        snprintf(why->message, sizeof why->message, "unexpected input");
        return TARN_ERR_USAGE;
    }
    TARN_TRY(tarn_map_room(out, TWICE, rag->dtype, 1, rag->shape, &data, why));
    for (uint64_t i = 0; i < length; i++)
        ((int16_t *)data)[i] = (int16_t)(2 * ((int16_t *)rag->data)[i]);
    tarn_value v = value_integer((int64_t)(in->seed >> 1));
    TARN_TRY(tarn_map_put(out, SEED, &v, why));
    v = value_text(in->values[1].data, in->values[1].size);
    TARN_TRY(tarn_map_put(out, TEXT, &v, why));
    uint64_t place[] = {in->epoch, in->position};
    tarn_array where;
    TARN_TRY(tarn_array_init(&where, place, (tarn_dtype){'<', 'u', 8}, 1,
                             (const uint64_t[]){2}, why));
    v = value_array(&where);
    return tarn_map_put(out, WHERE, &v, why);
}

static tarn_loader_options mapped(tarn_map map)
{
    tarn_loader_options o = loader_options();
    o.fields = fields;
    o.n_fields = sizeof fields / sizeof *fields;
    o.map = map;
    o.map_fields = made;
    o.n_map_fields = MADE;
    return o;
}

static void results_are_columns_like_fields(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = mapped(twice);
    tarn_collate_options pad = TARN_COLLATE_OPTIONS_INIT;
    tarn_loader *l;
    tarn_batch *b;
    uint64_t position = 0;
    pad.kind = TARN_COLLATE_PAD;
    pad.mask = true;
    o.collate = (const tarn_collate_options *const[]){&pad, NULL, NULL, NULL};
    o.seed = 3;
    OK(tarn_loader_open(d, &o, &l, &err));
    while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
        const tarn_column *c = column(b, "twice"), *text = column(b, "text");
        const uint64_t *where = (void *)column(b, "where")->data;
        assert_int_equal(b->n_columns, MADE + 1);
        assert_int_equal(column(b, "twice_mask")->shape[0], c->shape[0]);
        assert_int_equal(column(b, "seed")->dtype.kind, 'i');
        assert_int_equal(text->kind, TARN_COLUMN_BYTES);
        for (size_t i = 0; i < b->count; i++, position++) {
            uint64_t s = b->samples[i], length = s % 5 ? 4 : s % 7;
            const int16_t *row = (int16_t *)(void *)c->data + i * c->shape[0];
            for (uint64_t k = 0; k < c->shape[0]; k++)
                assert_int_equal(row[k], k < length ? 2 * (s + k) : 0);
            assert_int_equal(where[2 * i], 0);
            assert_int_equal(where[2 * i + 1], position);
        }
        tarn_batch_release(b);
    }
    assert_int_equal(position, SAMPLES);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

static void any_number_of_threads_maps_the_same(void **state)
{
    (void)state;
    static const unsigned threads[] = {1, 3, 64};
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = mapped(twice);
    for (int staged = 0; staged < 2; staged++) {
        set_staged(d, staged);
        o.threads = 0;
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

/* The seed of each position, over the batches of a loader. */
static void take_seeds(tarn_dataset *d, const tarn_loader_options *o,
                       int64_t seeds[SAMPLES], size_t *n)
{
    tarn_loader *l;
    tarn_batch *b;
    OK(tarn_loader_open(d, o, &l, &err));
    while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
        const int64_t *seed = (void *)column(b, "seed")->data;
        const uint64_t *where = (void *)column(b, "where")->data;
        for (size_t i = 0; i < b->count; i++, ++*n)
            seeds[where[2 * i + 1]] = seed[i];
        tarn_batch_release(b);
    }
    tarn_loader_close(l);
}

static void seeds_depend_on_the_position_only(void **state)
{
    (void)state;
    int64_t whole[SAMPLES] = {0}, parts[SAMPLES] = {0}, rest[SAMPLES] = {0};
    size_t n = 0, in_parts = 0, in_rest = 0;
    tarn_loader_options o = mapped(twice);
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader *l;
    tarn_batch *b;
    tarn_text text = {0};
    take_seeds(d, &o, whole, &n);
    for (size_t i = 1; i < SAMPLES; i++)
        assert_int_not_equal(whole[i], whole[i - 1]);
    for (uint64_t rank = 0; rank < 3; rank++) {
        tarn_dataset *part =
            one_rank(open_shuffled(fold_path(0)), rank, 3, TARN_UNEVEN_KEEP);
        o.threads = (unsigned)rank;
        take_seeds(part, &o, parts, &in_parts);
        tarn_dataset_close(part);
    }
    assert_int_equal(in_parts, SAMPLES);
    assert_memory_equal(whole, parts, sizeof whole);
    OK(tarn_loader_open(d, &o, &l, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    tarn_batch_release(b);
    OK(tarn_loader_state(l, &text, &err));
    tarn_loader_close(l);
    o.state = text.data;
    o.state_len = text.size;
    o.batch = 5;
    take_seeds(d, &o, rest, &in_rest);
    assert_int_equal(in_rest, SAMPLES - 8);
    assert_memory_equal(whole + 8, rest + 8, sizeof whole - 8 * sizeof *whole);
    tarn_text_reset(&text);
    tarn_dataset_close(d);
}

/* --- Failures ------------------------------------------------------------------------
 */

/* Every seventh sample fails, and the one after it is dropped. */
static tarn_status fail_some(void *context, const tarn_map_input *in,
                             tarn_map_output *out, tarn_error *why)
{
    tarn_value v = value_integer((int64_t)in->sample);
    (void)context;
    if (in->sample % 7 == 0) {
        snprintf(why->message, sizeof why->message, "no sevens");
        return TARN_ERR_UNSUPPORTED;
    }
    if (in->sample % 7 == 1) return TARN_END;
    return tarn_map_put(out, 0, &v, why);
}

static tarn_loader_options failing(void)
{
    static const char *const one[] = {"n"};
    tarn_loader_options o = mapped(fail_some);
    o.map_fields = one;
    o.n_map_fields = 1;
    return o;
}

static void a_sample_that_fails_or_is_dropped_is_a_hole(void **state)
{
    (void)state;
    static const unsigned threads[] = {0, 1, 3, 64};
    tarn_dataset *d = open_path(fold_path(0));
    for (size_t i = 0; i < 8; i++) {
        bool replace = i & 1;
        tarn_loader_options o = failing();
        tarn_loader *l;
        tarn_batch *b;
        uint64_t at = 0;
        o.threads = threads[i / 2];
        o.on_error = replace ? TARN_ON_ERROR_REPLACE : TARN_ON_ERROR_SKIP;
        OK(tarn_loader_open(d, &o, &l, &err));
        while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
            const int64_t *n = (void *)column(b, "n")->data;
            uint64_t end = at + 8 < SAMPLES ? at + 8 : SAMPLES;
            size_t k = 0;
            for (; at < end; at++) {
                if (at % 7 > 1) assert_int_equal(n[k], at);
                if (at % 7 > 1 || replace) k++;
            }
            assert_int_equal(b->count, k);
            tarn_batch_release(b);
        }
        assert_int_equal(at, SAMPLES);
        assert_string_equal(tarn_loader_skipped(l, 1)->key, "s0001");
        const char *message = tarn_loader_skipped(l, 1)->error.message;
        assert_non_null(strstr(message, "sample 1 (s0001): the map dropped the sample"));
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

static void an_error_has_the_key_and_the_shard(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    for (unsigned threads = 0; threads < 4; threads += 3) {
        tarn_loader_options o = failing();
        tarn_loader *l;
        tarn_batch *b;
        o.threads = threads;
        OK(tarn_loader_open(d, &o, &l, &err));
        for (int i = 0; i < 2; i++) {
            FAILS(TARN_ERR_UNSUPPORTED, "sample 0 (s0000): no sevens",
                  tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
            assert_string_equal(err.path, fold_path(0));
        }
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

static int what;

static tarn_status wrong(void *context, const tarn_map_input *in, tarn_map_output *out,
                         tarn_error *why)
{
    void *data;
    tarn_value v = value_integer(1);
    const tarn_value lists = {.kind = TARN_VALUE_ARRAYS};
    tarn_array odd = {.dtype = {'<', 'i', 3}};
    const tarn_value bad = value_array(&odd);
    (void)context;
    (void)in;
    switch (what) {
    case 0:
        return TARN_OK;
    case 1:
        return tarn_map_put(out, 1, &v, why);
    case 2:
        return tarn_map_put(out, 0, &lists, why);
    case 3:
        return tarn_map_put(out, 0, &bad, why);
    case 4:
        return tarn_map_room(out, 0, (tarn_dtype){'>', 'i', 4}, 0, NULL, &data, why);
    case 5:
        return (tarn_status)77;
    default:
        return TARN_ERR_CANCELLED;
    }
}

static void misuse_fails_the_batch_and_says_why(void **state)
{
    (void)state;
    static const char *const messages[] = {
        "did not set column n", "no column 1 (there are 1)",
        "value of kind 6",      "element type",
        "little-endian",        "77, which is not a status",
        "map failed: cancelled"};
    tarn_dataset *d = open_path(fold_path(0));
    for (what = 0; what < 7; what++) {
        tarn_loader_options o = failing();
        tarn_loader *l;
        tarn_batch *b;
        o.map = wrong;
        o.on_error = TARN_ON_ERROR_SKIP;
        o.threads = what & 1;
        OK(tarn_loader_open(d, &o, &l, &err));
        FAILS(what == 6 ? TARN_ERR_CANCELLED : TARN_ERR_USAGE, messages[what],
              tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

static void options_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader *l;
    tarn_loader_options o = mapped(twice);
    o.map_fields = NULL;
    FAILS(TARN_ERR_USAGE, "must be set together", tarn_loader_open(d, &o, &l, &err));
    o = mapped(NULL);
    FAILS(TARN_ERR_USAGE, "must be set together", tarn_loader_open(d, &o, &l, &err));
    o = mapped(twice);
    o.map_fields = (const char *const[]){"a", "b", "a", "c"};
    FAILS(TARN_ERR_USAGE, "name 2 of map_fields", tarn_loader_open(d, &o, &l, &err));
    tarn_dataset_close(d);
}

/* --- Closing -------------------------------------------------------------------------
 */

static atomic_uint running;

static tarn_status wait_for_the_end(void *context, const tarn_map_input *in,
                                    tarn_map_output *out, tarn_error *why)
{
    (void)context;
    (void)in;
    (void)why;
    atomic_fetch_add(&running, 1);
    while (!tarn_map_cancelled(out))
        sched_yield();
    return TARN_ERR_CANCELLED;
}

static void closing_ends_a_function_that_asks(void **state)
{
    (void)state;
    tarn_dataset *d = open_path(fold_path(0));
    tarn_loader_options o = failing();
    tarn_loader *l;
    tarn_batch *b;
    o.map = wait_for_the_end;
    o.threads = 3;
    for (int moved = 0; moved < 2; moved++) {
        atomic_store(&running, 0);
        OK(tarn_loader_open(d, &o, &l, &err));
        while (atomic_load(&running) < 3) {
            OK(tarn_loader_next(l, 1, &b, &err));
            assert_null(b);
        }
        if (moved) OK(tarn_loader_set_epoch(l, 5, &err));
        tarn_loader_close(l);
    }
    assert_false(tarn_map_cancelled(NULL));
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_columns_like_fields),
        cmocka_unit_test(any_number_of_threads_maps_the_same),
        cmocka_unit_test(seeds_depend_on_the_position_only),
        cmocka_unit_test(a_sample_that_fails_or_is_dropped_is_a_hole),
        cmocka_unit_test(an_error_has_the_key_and_the_shard),
        cmocka_unit_test(misuse_fails_the_batch_and_says_why),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
        cmocka_unit_test(closing_ends_a_function_that_asks),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
