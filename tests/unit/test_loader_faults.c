/* A loader with samples that fail and without memory: nothing that was not delivered is
 * lost, whatever failed in between. */
#include "loading.h"

/* --- Memory ------------------------------------------------------------------------ */

static void *fail_at(void *context, size_t size)
{
    size_t *left = context;
    return (*left)-- == 0 ? NULL : aligned_alloc(64, size);
}

static void free_it(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

static tarn_status take_bytes(tarn_loader *l, tarn_bytes *out)
{
    tarn_batch *b;
    tarn_status status;
    while ((status = tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err)) == TARN_OK) {
        add_batch(out, b);
        tarn_batch_release(b);
    }
    return status;
}

/* A batch that failed for lack of memory fails again, and leaves nothing in another
 * epoch. */
static void fail_and_set_again(tarn_dataset *d, tarn_loader_options o)
{
    size_t left, failures = 0;
    tarn_status status;
    tarn_bytes want = epochs_of(d, &o, 1);
    o.alloc = fail_at;
    o.free = free_it;
    o.memory_context = &left;
    do {
        tarn_loader *l;
        tarn_bytes got = TARN_BYTES_INIT;
        left = failures;
        OK(tarn_loader_open(d, &o, &l, &err));
        status = take_bytes(l, &got);
        if (status != TARN_END) {
            assert_int_equal(status, TARN_ERR_MEMORY);
            failures++;
            left = SIZE_MAX;
            assert_int_equal(take_bytes(l, &got), TARN_ERR_MEMORY);
            assert_memory_equal(got.data, want.data, got.size);
            got.size = 0;
            OK(tarn_loader_set_epoch(l, 0, &err));
            assert_int_equal(take_bytes(l, &got), TARN_END);
        }
        same(&want, &got);
        tarn_loader_close(l);
    } while (status != TARN_END);
    assert_true(failures > 0);
    tarn_bytes_release(&want);
}

/* Also if it was the first batch, so that the loader is already in that epoch. */
static void an_epoch_set_again_clears_a_failure(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    fail_and_set_again(d, loader_options());
    tarn_dataset_close(d);
}

static void views_and_holes_are_right_after_memory_was_short(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(7));
    tarn_loader_options o = loader_options();
    tarn_load_field fields[] = {{"txt", TARN_LOAD_VIEWS, NULL},
                                {"png", TARN_LOAD_AUTO, NULL},
                                {"bin", TARN_LOAD_BYTES, NULL}};
    o.fields = fields;
    o.n_fields = 3;
    o.on_error = TARN_ON_ERROR_SKIP;
    fail_and_set_again(d, o);
    o.on_error = TARN_ON_ERROR_REPLACE;
    fail_and_set_again(d, o);
    tarn_dataset_close(d);
}

static void padded_fields_are_right_after_memory_was_short(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(7));
    tarn_loader_options o = loader_options();
    tarn_load_field fields[] = {{"rag.npy", TARN_LOAD_AUTO, NULL},
                                {"png", TARN_LOAD_AUTO, NULL}};
    tarn_collate_options pad = TARN_COLLATE_OPTIONS_INIT,
                         ragged = TARN_COLLATE_OPTIONS_INIT;
    pad.kind = TARN_COLLATE_PAD;
    pad.mask = pad.lengths = true;
    ragged.kind = TARN_COLLATE_RAGGED;
    o.fields = fields;
    o.n_fields = 2;
    o.collate = (const tarn_collate_options *const[]){&ragged, &pad};
    o.on_error = TARN_ON_ERROR_REPLACE;
    fail_and_set_again(d, o);
    tarn_dataset_close(d);
}

/* --- Position ----------------------------------------------------------------------- */

enum { BAD = 7, THREADS = 4 };

static const unsigned threads[THREADS] = {0, 1, 2, 4};

typedef struct list {
    uint64_t samples[SAMPLES];
    size_t n;
} list;

static tarn_status take(tarn_loader *l, list *out)
{
    tarn_batch *b;
    tarn_status status;
    while ((status = tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err)) == TARN_OK) {
        assert_true(out->n + b->count <= SAMPLES);
        for (size_t i = 0; i < b->count; i++)
            out->samples[out->n++] = b->samples[i];
        tarn_batch_release(b);
    }
    return status;
}

static list all_good(tarn_dataset *d, tarn_loader_options o)
{
    tarn_loader *l;
    list out = {{0}, 0};
    o.on_error = TARN_ON_ERROR_SKIP;
    OK(tarn_loader_open(d, &o, &l, &err));
    assert_int_equal(take(l, &out), TARN_END);
    tarn_loader_close(l);
    return out;
}

/* The delivered samples and those of a loader that resumes from the state are all
 * samples. */
static void check_state(tarn_dataset *d, tarn_loader_options o, tarn_loader *at, list had,
                        const list *want)
{
    tarn_text state = {0};
    tarn_loader *l;
    OK(tarn_loader_state(at, &state, &err));
    o.state = state.data;
    o.state_len = state.size;
    o.on_error = TARN_ON_ERROR_SKIP;
    o.error_limit = TARN_NO_ERROR_LIMIT;
    OK(tarn_loader_open(d, &o, &l, &err));
    if (had.n < want->n) assert_int_equal(take(l, &had), TARN_END);
    tarn_loader_close(l);
    tarn_text_reset(&state);
    assert_int_equal(had.n, want->n);
    assert_memory_equal(had.samples, want->samples, want->n * sizeof *want->samples);
}

static void a_state_after_a_failure_misses_nothing(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(BAD));
    tarn_loader_options o = loader_options();
    list want = all_good(d, o);
    o.on_error = TARN_ON_ERROR_SKIP;
    for (o.error_limit = 0; o.error_limit < SAMPLES / BAD; o.error_limit++)
        for (size_t i = 0; i < THREADS; i++) {
            tarn_loader *l;
            list had = {{0}, 0};
            o.threads = threads[i];
            OK(tarn_loader_open(d, &o, &l, &err));
            assert_int_equal(take(l, &had), TARN_ERR_FORMAT);
            check_state(d, o, l, had, &want);
            tarn_loader_close(l);
        }
    tarn_dataset_close(d);
}

static void a_state_between_two_waits_misses_nothing(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(BAD));
    tarn_loader_options o = loader_options();
    list want = all_good(d, o);
    o.on_error = TARN_ON_ERROR_SKIP;
    for (size_t i = 0; i < THREADS; i++) {
        tarn_loader *l;
        tarn_batch *b;
        tarn_status status;
        list had = {{0}, 0};
        o.threads = threads[i];
        OK(tarn_loader_open(d, &o, &l, &err));
        while ((status = tarn_loader_next(l, 0, &b, &err)) == TARN_OK) {
            for (size_t k = 0; b && k < b->count; k++)
                had.samples[had.n++] = b->samples[k];
            tarn_batch_release(b);
            if (threads[i] == 0) check_state(d, o, l, had, &want);
        }
        assert_int_equal(status, TARN_END);
        assert_int_equal(had.n, want.n);
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

static void the_state_of_an_end_is_that_of_all_samples(void **state)
{
    (void)state;
    static const unsigned bads[] = {0, 50, BAD};
    tarn_loader_options o = loader_options();
    tarn_text text = {0};
    o.on_error = TARN_ON_ERROR_SKIP;
    o.batch = 6;
    o.epochs = 1;
    for (size_t i = 0; i < 3; i++) {
        tarn_loader *l;
        list had = {{0}, 0};
        /* This rank has one sample fewer than the others. */
        tarn_dataset *d =
            one_rank(open_shuffled(fold_path(bads[i])), 2, 3, TARN_UNEVEN_KEEP);
        OK(tarn_loader_open(d, &o, &l, &err));
        assert_int_equal(take(l, &had), TARN_END);
        OK(tarn_loader_state(l, &text, &err));
        assert_non_null(strstr(text.data, "\"epoch\": 0, \"position\": 53"));
        tarn_loader_close(l);
        tarn_dataset_close(d);
    }
    tarn_text_reset(&text);
}

/* --- The limit of bad samples ------------------------------------------------------- */

static void told(void *context, const tarn_error *what)
{
    (void)what;
    ++*(size_t *)context;
}

/* The bad samples among the positions up to the end of a batch. */
static size_t bad_before(tarn_dataset *d, const tarn_loader_options *o,
                         const tarn_batch *b)
{
    uint64_t all[SAMPLES], end = (b->number + 1) * o->batch;
    size_t n = 0;
    OK(tarn_dataset_sequence(d, 0, SAMPLES, all, &err));
    for (size_t i = 0; i < SAMPLES && i < end; i++)
        n += all[i] % BAD == 0;
    return n;
}

static void check_skipped(const tarn_loader *l, size_t want)
{
    tarn_loader_stats stats;
    tarn_loader_stats_get(l, &stats, sizeof stats);
    assert_int_equal(stats.skipped, want);
    for (size_t i = 0; i < want; i++)
        assert_int_equal(tarn_loader_skipped(l, i)->sample % BAD, 0);
    assert_null(tarn_loader_skipped(l, want));
}

/* The number of batches before the limit is reached. */
static size_t batches_within(tarn_dataset *d, const tarn_loader_options *o,
                             tarn_error *out_why)
{
    tarn_loader *l;
    tarn_batch *b;
    tarn_status status;
    size_t n = 0;
    size_t *counted = o->notice_context;
    *counted = 0;
    OK(tarn_loader_open(d, o, &l, &err));
    for (; (status = tarn_loader_next(l, TARN_NO_TIMEOUT, &b, out_why)) == TARN_OK; n++) {
        check_skipped(l, bad_before(d, o, b));
        assert_int_equal(*counted, bad_before(d, o, b));
        tarn_batch_release(b);
    }
    if (status != TARN_END) {
        assert_int_equal(status, TARN_ERR_FORMAT);
        check_skipped(l, (size_t)o->error_limit);
        FAILS(status, out_why->message, tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        check_skipped(l, (size_t)o->error_limit);
        assert_int_equal(*counted, o->error_limit);
    }
    tarn_loader_close(l);
    return n;
}

static void a_fault_is_judged_when_its_turn_comes(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(BAD));
    tarn_loader_options o = loader_options();
    size_t counted, last = 0;
    o.on_error = TARN_ON_ERROR_SKIP;
    o.notice = told;
    o.notice_context = &counted;
    for (o.error_limit = 0; o.error_limit <= SAMPLES / BAD + 1; o.error_limit++) {
        tarn_error want = {0};
        size_t batches = 0;
        for (size_t i = 0; i < THREADS; i++) {
            tarn_error why = {0};
            o.threads = threads[i];
            size_t n = batches_within(d, &o, &why);
            if (i == 0) {
                batches = n;
                want = why;
            }
            assert_int_equal(n, batches);
            assert_string_equal(why.message, want.message);
        }
        assert_true(batches >= last);
        last = batches;
    }
    assert_int_equal(last, (SAMPLES + 7) / 8);
    tarn_dataset_close(d);
}

/* Compares the skipped samples of some epochs with those in the order of the dataset. */
static void check_listed(tarn_dataset *d, const tarn_loader *l, uint64_t epochs)
{
    size_t n = 0;
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        tarn_dataset *at;
        uint64_t all[SAMPLES];
        OK(tarn_dataset_at_epoch(d, epoch, &at, &err));
        OK(tarn_dataset_sequence(at, 0, SAMPLES, all, &err));
        for (size_t i = 0; i < SAMPLES; i++) {
            if (all[i] % BAD != 0) continue;
            const tarn_skipped *s = tarn_loader_skipped(l, n++);
            tarn_text key = {0};
            assert_non_null(s);
            assert_int_equal(s->epoch, epoch);
            assert_int_equal(s->sample, all[i]);
            OK(tarn_dataset_key(tarn_dataset_unordered(d), s->sample, &key, &err));
            assert_string_equal(s->key, key.data);
            assert_non_null(strstr(s->error.message, key.data));
            tarn_text_reset(&key);
        }
        tarn_dataset_close(at);
    }
    assert_null(tarn_loader_skipped(l, n));
}

static void skipped_samples_have_their_epoch_and_key(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(BAD));
    tarn_loader_options o = loader_options();
    o.on_error = TARN_ON_ERROR_SKIP;
    for (size_t i = 0; i < 2 * THREADS; i++) {
        tarn_loader *l;
        tarn_batch *b;
        o.threads = threads[i / 2];
        o.no_keys = i % 2;
        OK(tarn_loader_open(d, &o, &l, &err));
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            list had = {{0}, 0};
            assert_int_equal(take(l, &had), TARN_END);
            check_listed(d, l, epoch + 1);
        }
        OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        tarn_batch_release(b);
        tarn_loader_back(l);
        check_listed(d, l, 3);
        tarn_loader_close(l);
    }
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_after_a_failure_misses_nothing),
        cmocka_unit_test(a_state_between_two_waits_misses_nothing),
        cmocka_unit_test(the_state_of_an_end_is_that_of_all_samples),
        cmocka_unit_test(a_fault_is_judged_when_its_turn_comes),
        cmocka_unit_test(skipped_samples_have_their_epoch_and_key),
        cmocka_unit_test(views_and_holes_are_right_after_memory_was_short),
        cmocka_unit_test(padded_fields_are_right_after_memory_was_short),
        cmocka_unit_test(an_epoch_set_again_clears_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
