/* The loader's epochs, ranks and states. */
#include "loading.h"

/* --- Epochs, ranks, state ---------------------------------------------------------- */

/* The samples of all ranks, in the order of positions; *out_state, if out_state is not
 * NULL, is the state of every rank. */
static size_t take_ranks(tarn_dataset *d, tarn_loader_options o, const tarn_text *from,
                         unsigned world, size_t batches, uint64_t *out,
                         tarn_text *out_state)
{
    size_t n = 0;
    tarn_batch *taken[4][64];
    size_t counts[4] = {0};
    tarn_loader *l[4];
    o.state = from ? from->data : NULL;
    o.state_len = from ? from->size : 0;
    for (unsigned r = 0; r < world; r++) {
        tarn_dataset *part;
        OK(tarn_dataset_split(d, r, world, TARN_UNEVEN_KEEP, &part, &err));
        OK(tarn_loader_open(part, &o, &l[r], &err));
        tarn_dataset_close(part);
        while (counts[r] < batches &&
               tarn_loader_next(l[r], TARN_NO_TIMEOUT, &taken[r][counts[r]], &err) ==
                   TARN_OK)
            counts[r]++;
    }
    if (out_state) OK(tarn_loader_state(l[0], out_state, &err));
    for (size_t k = 0; k < counts[0]; k++)
        for (size_t i = 0; i < taken[0][k]->count; i++)
            for (unsigned r = 0; r < world; r++)
                if (k < counts[r] && i < taken[r][k]->count)
                    out[n++] = taken[r][k]->samples[i];
    for (unsigned r = 0; r < world; r++) {
        tarn_loader_close(l[r]);
        for (size_t k = 0; k < counts[r]; k++)
            tarn_batch_release(taken[r][k]);
    }
    return n;
}

static void a_state_resumes_anywhere(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader_options o = loader_options();
    uint64_t want[SAMPLES], got[SAMPLES + 8];
    tarn_text text = {0};
    o.batch = 3;
    assert_int_equal(take_ranks(d, o, NULL, 1, 64, want, NULL), SAMPLES);
    for (unsigned world = 1; world <= 4; world++)
        for (unsigned then = 1; then <= 3; then++)
            for (size_t batches = 0; batches * 3 * world <= SAMPLES; batches++) {
                o.threads = (unsigned)batches % 3;
                size_t n = take_ranks(d, o, NULL, world, batches, got, &text);
                if (batches > 0 && n < batches * 3 * world) break; /* it ended */
                o.threads = then - 1;
                n += take_ranks(d, o, &text, then, 64, got + n, NULL);
                assert_int_equal(n, SAMPLES);
                assert_memory_equal(got, want, sizeof want);
            }
    tarn_text_reset(&text);
    tarn_dataset_close(d);
}

static void a_state_after_skips_resumes(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(7));
    tarn_loader_options o = loader_options();
    uint64_t want[SAMPLES], got[SAMPLES];
    tarn_text text = {0};
    o.on_error = TARN_ON_ERROR_SKIP;
    size_t total = take_ranks(d, o, NULL, 1, 64, want, NULL);
    for (size_t batches = 0; batches * 8 <= total; batches++) {
        size_t n = take_ranks(d, o, NULL, 1, batches, got, &text);
        o.threads = 2;
        n += take_ranks(d, o, &text, 1, 64, got + n, NULL);
        assert_int_equal(n, total);
        assert_memory_equal(got, want, total * sizeof *want);
    }
    tarn_text_reset(&text);
    tarn_dataset_close(d);
}

static void epochs_follow_each_other(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(array_path());
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    uint64_t first[2] = {0};
    o.epochs = 2;
    o.threads = 2;
    OK(tarn_loader_open(d, &o, &l, &err));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        size_t n = 0;
        while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
            assert_int_equal(b->epoch, epoch);
            assert_int_equal(b->number, n);
            if (n++ == 0) first[epoch] = b->samples[0];
            tarn_batch_release(b);
        }
        assert_int_equal(n, 7);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err), TARN_END);
    /* Back to the first epoch, and to one that was never reached. */
    OK(tarn_loader_set_epoch(l, 0, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    assert_int_equal(b->samples[0], first[0]);
    tarn_batch_release(b);
    OK(tarn_loader_set_epoch(l, 1, &err));
    OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
    assert_int_equal(b->samples[0], first[1]);
    assert_int_equal(b->number, 0);
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

/* The number of batches up to the end of all epochs, starting with first. */
static size_t drain_epochs(tarn_loader *l, uint64_t first, uint64_t epochs)
{
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_batch *b;
    tarn_loader_info info;
    size_t n = 0;
    for (uint64_t i = first; i < epochs; i++) {
        tarn_loader_info_get(l, &info, sizeof info);
        assert_int_equal(info.epoch, i);
        assert_int_equal(info.left, info.batches);
        assert_false(info.over);
        n += drain(l, &out);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err), TARN_END);
    tarn_loader_info_get(l, &info, sizeof info);
    assert_true(info.over);
    tarn_bytes_release(&out);
    return n;
}

static void check_total(tarn_dataset *d, const tarn_loader_options *o)
{
    size_t each = (SAMPLES + o->batch - 1) / o->batch;
    for (uint64_t before = 0; before <= o->epochs; before++) {
        tarn_loader *l;
        tarn_bytes out = TARN_BYTES_INIT;
        OK(tarn_loader_open(d, o, &l, &err));
        for (uint64_t i = 0; i < before; i++)
            assert_int_equal(drain(l, &out), each);
        OK(tarn_loader_set_epoch(l, before, &err)); /* its position */
        assert_int_equal(drain_epochs(l, before, o->epochs), each * (o->epochs - before));
        OK(tarn_loader_set_epoch(l, 1, &err));
        assert_int_equal(drain_epochs(l, 1, o->epochs), each * (o->epochs - 1));
        OK(tarn_loader_set_epoch(l, 10, &err));
        assert_int_equal(drain_epochs(l, 10, o->epochs), 0);
        tarn_bytes_release(&out);
        tarn_loader_close(l);
    }
}

static void the_number_of_epochs_is_the_total(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(array_path());
    tarn_loader_options o = loader_options();
    static const unsigned threads[] = {0, 1, 2, 4};
    o.epochs = 3;
    for (size_t i = 0; i < 4; i++)
        /* With few batches, threads reach the end of all epochs before the caller does.
         */
        for (o.batch = 1; o.batch <= 64; o.batch *= 8) {
            o.threads = threads[i];
            check_total(d, &o);
        }
    tarn_dataset_close(d);
}

static void a_resumed_loader_has_the_rest_of_the_total(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(array_path());
    tarn_loader_options o = loader_options();
    tarn_text text = {0};
    o.epochs = 3;
    for (size_t taken = 0; taken <= 21; taken++) {
        tarn_loader *l;
        tarn_batch *b;
        tarn_bytes out = TARN_BYTES_INIT;
        tarn_loader_info info;
        size_t n = 0;
        OK(tarn_loader_open(d, &o, &l, &err));
        while (n < taken)
            if (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
                tarn_batch_release(b);
                n++;
            }
        OK(tarn_loader_state(l, &text, &err));
        tarn_loader_close(l);
        tarn_loader_options rest = o;
        rest.state = text.data;
        rest.state_len = text.size;
        OK(tarn_loader_open(d, &rest, &l, &err));
        tarn_loader_info_get(l, &info, sizeof info);
        assert_int_equal(info.batches, 7);
        /* After the last batch of an epoch, the epoch is the next one. */
        assert_int_equal(info.epoch, taken / 7);
        assert_int_equal(info.left, taken == 21 ? 0 : 7 - taken % 7);
        for (int i = 0; i < 4; i++)
            n += drain(l, &out);
        assert_int_equal(n, 21);
        tarn_bytes_release(&out);
        tarn_loader_close(l);
    }
    tarn_text_reset(&text);
    tarn_dataset_close(d);
}

static void ranks_get_equal_batches(void **state)
{
    (void)state;
    static const tarn_uneven ways[] = {TARN_UNEVEN_KEEP, TARN_UNEVEN_DROP,
                                       TARN_UNEVEN_PAD};
    for (int way = 0; way < 3; way++) {
        size_t batches[5];
        for (unsigned rank = 0; rank < 5; rank++) {
            tarn_dataset *d = one_rank(open_shuffled(array_path()), rank, 5, ways[way]);
            tarn_loader_options o = loader_options();
            tarn_bytes out = TARN_BYTES_INIT;
            tarn_loader *l;
            o.batch = 4;
            o.equal_batches = true;
            o.threads = 2;
            OK(tarn_loader_open(d, &o, &l, &err));
            batches[rank] = drain(l, &out);
            assert_int_equal(batches[rank], batches[0]);
            tarn_bytes_release(&out);
            tarn_loader_close(l);
            tarn_dataset_close(d);
        }
        assert_int_equal(batches[0], ways[way] == TARN_UNEVEN_DROP ? 2 : 3);
    }
}

/* The batches of one rank, up to batch number stop: "3 5 | 7 | ". */
static void write_batches(tarn_dataset *d, const tarn_loader_options *o, size_t stop,
                          char *out, size_t room, tarn_text *out_state)
{
    tarn_loader *l;
    tarn_batch *b;
    OK(tarn_loader_open(d, o, &l, &err));
    for (size_t n = 0;
         n < stop && tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK; n++) {
        size_t len = strlen(out);
        for (size_t i = 0; i < b->count; i++, len = strlen(out))
            snprintf(out + len, room - len, "%llu ", (unsigned long long)b->samples[i]);
        snprintf(out + len, room - len, "| ");
        tarn_batch_release(b);
    }
    OK(tarn_loader_state(l, out_state, &err));
    tarn_loader_close(l);
}

static void equal_batches_are_the_same_after_a_resume(void **state)
{
    (void)state;
    tarn_text text = {0}, ignored = {0};
    for (unsigned world = 1; world < 6; world++)
        for (unsigned rank = 0; rank < world; rank++)
            for (size_t stop = 0; stop < 3; stop++) {
                tarn_dataset *d =
                    one_rank(open_shuffled(array_path()), rank, world, TARN_UNEVEN_KEEP);
                tarn_loader_options o = loader_options();
                char want[1024] = "", got[1024] = "";
                o.batch = 5;
                o.equal_batches = true;
                o.threads = rank % 2 * 2;
                write_batches(d, &o, 64, want, sizeof want, &ignored);
                write_batches(d, &o, stop, got, sizeof got, &text);
                o.state = text.data;
                o.state_len = text.size;
                write_batches(d, &o, 64, got, sizeof got, &ignored);
                assert_string_equal(got, want);
                tarn_dataset_close(d);
            }
    tarn_text_reset(&text);
    tarn_text_reset(&ignored);
}

/* The samples of one rank's epoch; all of its batches must be full. */
static size_t take_full(tarn_dataset *d, const tarn_loader_options *o, uint64_t *out,
                        tarn_text *out_state)
{
    tarn_loader *l;
    tarn_batch *b;
    tarn_loader_info info;
    size_t n = 0;
    OK(tarn_loader_open(d, o, &l, &err));
    tarn_loader_info_get(l, &info, sizeof info);
    while (n < info.batches) {
        OK(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err));
        assert_int_equal(b->count, o->batch);
        memcpy(out + n++ * o->batch, b->samples, b->count * sizeof *out);
        tarn_batch_release(b);
    }
    OK(tarn_loader_state(l, out_state, &err));
    assert_int_equal(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err), TARN_END);
    tarn_loader_close(l);
    return n;
}

static void drop_last_gives_every_rank_the_same_full_batches(void **state)
{
    (void)state;
    tarn_text first = {0}, text = {0};
    for (int way = TARN_UNEVEN_KEEP; way <= TARN_UNEVEN_PAD; way++)
        for (unsigned world = 1; world < 6; world++)
            for (uint64_t batch = 1; batch < 9; batch++) {
                size_t most = SAMPLES / world;
                if (way == TARN_UNEVEN_PAD) most = (SAMPLES + world - 1) / world;
                for (unsigned rank = 0; rank < world; rank++) {
                    tarn_dataset *d = one_rank(open_shuffled(array_path()), rank, world,
                                               (tarn_uneven)way);
                    tarn_loader_options o = loader_options();
                    uint64_t samples[SAMPLES], want[SAMPLES];
                    o.batch = batch;
                    o.drop_last = true;
                    o.threads = rank % 2;
                    size_t n = take_full(d, &o, samples, rank ? &text : &first);
                    assert_int_equal(n, most / batch);
                    OK(tarn_dataset_sequence(d, 0, n * batch, want, &err));
                    assert_memory_equal(samples, want, n * batch * sizeof *want);
                    if (rank) assert_string_equal(text.data, first.data);
                    tarn_dataset_close(d);
                }
                /* The epoch is over, and the dropped samples count as used. */
                assert_non_null(strstr(first.data, "\"position\": 53"));
            }
    tarn_text_reset(&first);
    tarn_text_reset(&text);
}

static void nothing_is_an_epoch_too(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(array_path()), *none;
    tarn_loader_options o = loader_options();
    tarn_loader *l;
    tarn_batch *b;
    OK(tarn_dataset_select(d, NULL, 0, &none, &err));
    for (o.threads = 0; o.threads < 3; o.threads++) {
        OK(tarn_loader_open(none, &o, &l, &err));
        for (int i = 0; i < 5; i++)
            assert_int_equal(tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err), TARN_END);
        tarn_loader_close(l);
    }
    tarn_dataset_close(none);
    tarn_dataset_close(d);
}

static void a_rank_without_samples_ends_where_the_others_do(void **state)
{
    (void)state;
    static const uint64_t samples[] = {2, 3, 5};
    tarn_dataset *d = open_path(array_path()), *few;
    tarn_loader_options o = loader_options();
    tarn_text states[4] = {{0}};
    OK(tarn_dataset_select(d, samples, 3, &few, &err));
    o.batch = 1;
    o.epochs = 2;
    for (int equal = 0; equal < 2; equal++) {
        o.equal_batches = equal;
        for (unsigned r = 0; r < 4; r++) {
            tarn_dataset *part;
            tarn_loader *l;
            tarn_bytes all = TARN_BYTES_INIT;
            OK(tarn_dataset_split(few, r, 4, TARN_UNEVEN_KEEP, &part, &err));
            o.threads = r % 2 * 2;
            OK(tarn_loader_open(part, &o, &l, &err));
            drain(l, &all);
            drain(l, &all);
            OK(tarn_loader_state(l, &states[r], &err));
            assert_string_equal(states[r].data, states[0].data);
            assert_non_null(strstr(states[r].data, "\"epoch\": 1, \"position\": 3"));
            tarn_bytes_release(&all);
            tarn_loader_close(l);
            tarn_dataset_close(part);
        }
    }
    for (unsigned r = 0; r < 4; r++)
        tarn_text_reset(&states[r]);
    tarn_dataset_close(few);
    tarn_dataset_close(d);
}

static void options_are_checked(void **state)
{
    (void)state;
    tarn_dataset *d = open_shuffled(fold_path(0));
    tarn_loader *l;
    tarn_loader_options o = loader_options();
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_load_field field = {"cls", TARN_LOAD_AUTO, &steps};
    o.batch = 0;
    FAILS(TARN_ERR_USAGE, "batch size 0", tarn_loader_open(d, &o, &l, &err));
    o = loader_options();
    o.threads = TARN_MAX_LOADER_THREADS + 1;
    FAILS(TARN_ERR_USAGE, "threads", tarn_loader_open(d, &o, &l, &err));
    o = loader_options();
    o.fields = &field;
    o.n_fields = 1;
    steps.width = steps.height = 8;
    FAILS(TARN_ERR_USAGE, "not decoded as an image", tarn_loader_open(d, &o, &l, &err));
    field.field = NULL;
    FAILS(TARN_ERR_USAGE, "a field has no name", tarn_loader_open(d, &o, &l, &err));
    field.field = "cls";
    o.state = "nonsense";
    o.state_len = 8;
    FAILS(TARN_ERR_FORMAT, "", tarn_loader_open(d, &o, &l, &err));
    tarn_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_resumes_anywhere),
        cmocka_unit_test(a_state_after_skips_resumes),
        cmocka_unit_test(epochs_follow_each_other),
        cmocka_unit_test(the_number_of_epochs_is_the_total),
        cmocka_unit_test(a_resumed_loader_has_the_rest_of_the_total),
        cmocka_unit_test(drop_last_gives_every_rank_the_same_full_batches),
        cmocka_unit_test(ranks_get_equal_batches),
        cmocka_unit_test(equal_batches_are_the_same_after_a_resume),
        cmocka_unit_test(nothing_is_an_epoch_too),
        cmocka_unit_test(a_rank_without_samples_ends_where_the_others_do),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
