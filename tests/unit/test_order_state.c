/* States of datasets in every kind of order: exactly the remaining samples come, whatever
 * the ranks that continue; a state that does not fit is refused. */
#include "ordering.h"

#include "dataset/order.h"

static tarn_dataset *open_ordered(tarn_order_kind kind)
{
    tarn_order_options o = options_of(kind);
    tarn_dataset *all = open_rows(N), *d;
    OK(tarn_dataset_order(all, &o, &d, &err));
    tarn_dataset_close(all);
    return d;
}

static tarn_dataset *part_of(tarn_dataset *d, uint64_t rank, uint64_t world)
{
    tarn_dataset *part;
    OK(tarn_dataset_split(d, rank, world, TARN_UNEVEN_KEEP, &part, &err));
    return part;
}

/* The samples of all ranks of a run that continues from a state. */
static void check_rest(tarn_dataset *d, const tarn_text *state, uint64_t world,
                       const uint64_t *whole, uint64_t from, uint64_t total)
{
    uint64_t got = 0;
    for (uint64_t rank = 0; rank < world; rank++) {
        tarn_dataset *part = part_of(d, rank, world), *rest;
        OK(tarn_dataset_resume(part, state->data, state->size, &rest, &err));
        uint64_t n = tarn_dataset_count(rest), *mine = sequence_of(rest);
        for (uint64_t i = 0; i < n; i++)
            assert_true(mine[i] == whole[from + rank + i * world]);
        got += n;
        free(mine);
        tarn_dataset_close(rest);
        tarn_dataset_close(part);
    }
    assert_true(got == total - from);
}

/* Continues with rank 4 of 5 for seven samples each, and then with four ranks. */
static void check_second_stop(tarn_dataset *d, const tarn_text *state,
                              const uint64_t *whole, uint64_t used, uint64_t total)
{
    tarn_text later = {0};
    tarn_dataset *part = part_of(d, 4, 5), *rest;
    OK(tarn_dataset_resume(part, state->data, state->size, &rest, &err));
    OK(tarn_dataset_state(rest, 7, &later, &err));
    if (used + 35 < total) check_rest(d, &later, 4, whole, used + 35, total);
    tarn_text_reset(&later);
    tarn_dataset_close(rest);
    tarn_dataset_close(part);
}

/* Stopped after every number of steps with one world size, resumed with another, stopped
 * again, and finished with a third. */
static void resumed_anywhere_exactly_the_rest_comes(void **state)
{
    (void)state;
    static const uint64_t worlds[] = {1, 2, 3, 8};
    tarn_text text = {0};
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++) {
        tarn_dataset *d = open_ordered((tarn_order_kind)k);
        uint64_t *whole = sequence_of(d), total = tarn_dataset_count(d);
        for (size_t w = 0; w < 4; w++) {
            tarn_dataset *run = part_of(d, 0, worlds[w]);
            for (uint64_t steps = 0; steps * worlds[w] < total; steps++) {
                OK(tarn_dataset_state(run, steps, &text, &err));
                uint64_t used = steps * worlds[w];
                check_rest(d, &text, worlds[(w + steps) % 4], whole, used, total);
                check_second_stop(d, &text, whole, used, total);
            }
            tarn_dataset_close(run);
        }
        free(whole);
        tarn_dataset_close(d);
    }
    tarn_text_reset(&text);
}

static void after_the_last_sample_the_next_epoch_comes(void **state)
{
    (void)state;
    static const uint64_t worlds[] = {1, 2, 3, 8};
    tarn_text text = {0};
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++)
        for (int ranks = TARN_UNEVEN_KEEP; ranks <= TARN_UNEVEN_PAD; ranks++)
            for (size_t w = 0; w < 4; w++) {
                tarn_dataset *d = open_ordered((tarn_order_kind)k), *part, *next, *want;
                OK(tarn_dataset_split(d, 0, worlds[w], (tarn_uneven)ranks, &part, &err));
                OK(tarn_dataset_state(part, tarn_dataset_count(part), &text, &err));
                OK(tarn_dataset_resume(d, text.data, text.size, &next, &err));
                OK(tarn_dataset_at_epoch(d, 4, &want, &err));
                uint64_t *a = sequence_of(want), *b = sequence_of(next);
                assert_int_equal(tarn_dataset_count(next), tarn_dataset_count(want));
                assert_memory_equal(a, b, tarn_dataset_count(want) * sizeof *a);
                free(a), free(b);
                tarn_dataset_close(want);
                tarn_dataset_close(next);
                tarn_dataset_close(part);
                tarn_dataset_close(d);
            }
    tarn_text_reset(&text);
}

static void resumed_after_any_batch_exactly_the_rest_comes(void **state)
{
    (void)state;
    for (int equal = 0; equal < 2; equal++)
        for (uint64_t world = 1; world < 7; world++)
            for (uint64_t batch = 1; batch < 9; batch++) {
                tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
                tarn_order *ranks[8];
                tarn_order_info info;
                uint64_t from, n, most = 0;
                o.world_size = world;
                o.batch = batch;
                o.equal_batches = equal;
                for (o.rank = 0; o.rank < world; o.rank++) {
                    ranks[o.rank] = open_order(N, &o);
                    tarn_order_info_get(ranks[o.rank], &info, sizeof info);
                    if (info.batches > most) most = info.batches;
                }
                for (uint64_t k = 0; k <= most; k++) {
                    bool used[N] = {false};
                    uint64_t count = 0;
                    for (uint64_t r = 0; r < world; r++)
                        for (uint64_t j = 0; j < k; j++) {
                            tarn_order_info_get(ranks[r], &info, sizeof info);
                            if (j >= info.batches) break;
                            OK(tarn__order_batch(ranks[r], j, &from, &n, &err));
                            for (uint64_t i = from; i < from + n; i++, count++)
                                used[r + i * world] = true;
                        }
                    for (uint64_t r = 0; r < world; r++)
                        assert_true(tarn__order_used_batches(ranks[r], k) == count);
                    for (uint64_t p = 0; p < N; p++)
                        assert_true(used[p] == (p < count));
                }
                for (uint64_t r = 0; r < world; r++)
                    tarn_order_close(ranks[r]);
            }
}

/* At every step up to the last and past it, all ranks report the same state; after the
 * last sample or batch of the longest rank, all positions are used up. */
static void check_used(const tarn_order_options *options, uint64_t count)
{
    tarn_order_options o = *options;
    uint64_t longest = 0, most = 0;
    tarn_order *all[8];
    tarn_order_info info;
    for (o.rank = 0; o.rank < o.world_size; o.rank++) {
        all[o.rank] = open_order(count, &o);
        tarn_order_info_get(all[o.rank], &info, sizeof info);
        if (info.batches > most) most = info.batches;
    }
    longest = o.uneven == TARN_UNEVEN_DROP ? count / o.world_size
                                           : (count + o.world_size - 1) / o.world_size;
    for (uint64_t r = 0; r < o.world_size; r++) {
        for (uint64_t n = 0; n <= longest; n++)
            assert_true(tarn__order_used(all[r], n) == (n == 0        ? 0
                                                        : n < longest ? n * o.world_size
                                                                      : count));
        for (uint64_t n = 1; n <= most; n++) {
            uint64_t used = tarn__order_used_batches(all[r], n);
            assert_true(used == tarn__order_used_batches(all[0], n));
            assert_true(used >= tarn__order_used_batches(all[r], n - 1));
            assert_true((used == count) == (n == most) || used == count);
        }
        assert_true(tarn__order_used(all[r], 1000) == count);
        assert_true(tarn__order_used(all[r], UINT64_MAX) == count);
        assert_true(tarn__order_used_batches(all[r], most + 1) == count);
        assert_true(tarn__order_used_batches(all[r], UINT64_MAX) == count);
        assert_true(tarn__order_used_batches(all[r], 0) == 0);
    }
    for (uint64_t r = 0; r < o.world_size; r++)
        tarn_order_close(all[r]);
}

static void at_the_end_every_rank_has_used_up_all(void **state)
{
    (void)state;
    for (int ranks = TARN_UNEVEN_KEEP; ranks <= TARN_UNEVEN_PAD; ranks++)
        for (int way = 0; way < 4; way++)
            for (uint64_t count = 1; count < 30; count += 3)
                for (uint64_t world = 1; world < 6; world++)
                    for (uint64_t batch = 1; batch < 5; batch++) {
                        tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
                        o.uneven = (tarn_uneven)ranks;
                        o.equal_batches = way & 1;
                        o.drop_last = way & 2;
                        o.world_size = world;
                        o.batch = batch;
                        check_used(&o, count);
                    }
}

static void a_state_is_one_line_of_json(void **state)
{
    (void)state;
    tarn_text text = {0};
    tarn_dataset *d = open_ordered(TARN_ORDER_BLOCKS);
    OK(tarn_dataset_state(d, 20, &text, &err));
    assert_null(strchr(text.data, '\n'));
    assert_memory_equal(text.data, "{\"tarn\": 2, \"data\": \"", 21);
    assert_non_null(strstr(text.data,
                           "\", \"chain\": \"blocks(seed=7,block=8,window=3)\", "
                           "\"epoch\": 3, \"position\": 20}"));
    tarn_dataset_close(d);
    tarn_text_reset(&text);
}

static void a_seed_may_be_any_number_with_a_sign(void **state)
{
    (void)state;
    tarn_text text = {0};
    tarn_order_options o = options_of(TARN_ORDER_FEISTEL);
    tarn_dataset *all = open_rows(N), *d, *again, *other;
    o.seed = UINT64_MAX;
    o.epoch = UINT64_MAX - 1;
    o.negative = true;
    OK(tarn_dataset_order(all, &o, &d, &err));
    OK(tarn_dataset_state(d, 0, &text, &err));
    assert_non_null(strstr(text.data, "seed=-18446744073709551615"));
    OK(tarn_dataset_resume(d, text.data, text.size, &again, &err));
    uint64_t *a = sequence_of(d), *b = sequence_of(again);
    assert_memory_equal(a, b, N * sizeof *a);
    free(a), free(b);
    tarn_dataset_close(again);
    o.negative = false;
    OK(tarn_dataset_order(all, &o, &other, &err));
    FAILS(TARN_ERR_STALE, "another chain",
          tarn_dataset_resume(other, text.data, text.size, &again, &err));
    tarn_dataset_close(other);
    tarn_dataset_close(d);
    tarn_dataset_close(all);
    tarn_text_reset(&text);
}

static void a_state_of_other_data_or_arrays_is_stale(void **state)
{
    (void)state;
    static const uint64_t other_buckets[] = {50, 11, 0, 90, 6};
    static uint64_t other[N];
    tarn_text text = {0};
    for (int i = 0; i < N; i++)
        other[i] = 1;
    for (int k = TARN_ORDER_SHUFFLE; k <= TARN_ORDER_LENGTHS; k++) {
        tarn_order_options o = options_of((tarn_order_kind)k);
        tarn_dataset *rows = open_rows(N), *d, *rest, *more = open_rows(N + 1), *first;
        OK(tarn_dataset_order(rows, &o, &d, &err));
        OK(tarn_dataset_state(d, 3, &text, &err));
        tarn_dataset_close(d);
        OK(tarn_dataset_slice(more, 0, 1, N, &first, &err));
        OK(tarn_dataset_order(first, &o, &d, &err));
        FAILS(TARN_ERR_STALE, "the state is for other data",
              tarn_dataset_resume(d, text.data, text.size, &rest, &err));
        tarn_dataset_close(d);
        o.buckets = other_buckets;
        o.lengths = other;
        o.weights = (const double *)other;
        o.classes = (const int64_t *)other;
        if (k <= TARN_ORDER_FEISTEL) o.seed++;
        OK(tarn_dataset_order(rows, &o, &d, &err));
        FAILS(TARN_ERR_STALE, "the state is for another chain",
              tarn_dataset_resume(d, text.data, text.size, &rest, &err));
        tarn_dataset_close(d);
        tarn_dataset_close(first);
        tarn_dataset_close(more);
        tarn_dataset_close(rows);
    }
    tarn_text_reset(&text);
}

/* A state whose text differs from some part on. */
static char *changed_at(const tarn_text *state, const char *part, const char *to)
{
    char *text = calloc(1, state->size + strlen(to) + 1);
    const char *at = strstr(state->data, part);
    assert_non_null(at);
    memcpy(text, state->data, (size_t)(at - state->data));
    strcat(text, to);
    return text;
}

static void texts_that_are_not_a_state_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *part, *text, *why;
        tarn_status status;
    } cases[] = {
        {"{", "", "", TARN_ERR_FORMAT},
        {"{", "[]", "not a JSON object", TARN_ERR_FORMAT},
        {"{", "{}", "has no tarn", TARN_ERR_FORMAT},
        {"{", "{\"tarn_order\": 1}", "has no tarn", TARN_ERR_FORMAT},
        {"{", "{\"tarn\": 1}", "version 1", TARN_ERR_UNSUPPORTED},
        {"{", "{\"tarn\": \"2\"}", "tarn in the state is not a number", TARN_ERR_FORMAT},
        {"{", "{\"tarn\": 2}", "no text for its data", TARN_ERR_FORMAT},
        {"{", "{\"tarn\": 2, \"data\": [\"x\"]}", "the state is for a mix",
         TARN_ERR_STALE},
        {"{", "{\"tarn\": 2, \"data\": \"x\"}", "other data: \"x\"", TARN_ERR_STALE},
        {"{", "{\"tarn\": 2, \"data\": [[[\"x\"]]]}", "levels", TARN_ERR_LIMIT},
        {"\"chain", "\"epoch\": 0}", "no text for its chain", TARN_ERR_FORMAT},
        {"\"chain", "\"chain\": 7}", "no text for its chain", TARN_ERR_FORMAT},
        {"shuffle", "shuffle\\u0000\"}", "another chain", TARN_ERR_STALE},
        {"\"epoch", "\"position\": 1}", "has no epoch", TARN_ERR_FORMAT},
        {"\"epoch", "\"epoch\": -1}", "epoch in the state is not a number",
         TARN_ERR_FORMAT},
        {"\"epoch", "\"epoch\": 1.0}", "epoch in the state is not a number",
         TARN_ERR_FORMAT},
        {"\"epoch", "\"epoch\": 18446744073709551616}", "epoch", TARN_ERR_FORMAT},
        {"\"epoch", "\"epoch\": 18446744073709551615, \"position\": 1}", "too high",
         TARN_ERR_FORMAT},
        {"\"epoch", "\"epoch\": 1, \"epoch\": 1}", "", TARN_ERR_FORMAT},
        {"\"position", "\"x\": 1}", "has no position", TARN_ERR_FORMAT},
        {"\"position", "\"position\": 158}", "position 158, but the epoch has 157",
         TARN_ERR_FORMAT},
        {"\"position", "\"position\": 1, \"more\": 1}", "has 6 entries; a state of this",
         TARN_ERR_FORMAT},
        {"}", "", "", TARN_ERR_FORMAT},
        {"}", "}}", "", TARN_ERR_FORMAT},
    };
    tarn_text text = {0};
    tarn_dataset *d = open_ordered(TARN_ORDER_SHUFFLE), *rest;
    OK(tarn_dataset_state(d, 3, &text, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *changed = changed_at(&text, cases[i].part, cases[i].text);
        FAILS(cases[i].status, cases[i].why,
              tarn_dataset_resume(d, changed, strlen(changed), &rest, &err));
        free(changed);
    }
    size_t much = (size_t)5 << 20;
    char *large = malloc(much);
    memset(large, ' ', much);
    FAILS(TARN_ERR_LIMIT, "", tarn_dataset_resume(d, large, much, &rest, &err));
    free(large);
    tarn_dataset_close(d);
    tarn_text_reset(&text);
}

/* A state with any changed byte is refused or gives existing samples. */
static void changed_states_do_no_harm(void **state)
{
    (void)state;
    tarn_text text = {0};
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++) {
        tarn_dataset *d = open_ordered((tarn_order_kind)k), *rest;
        OK(tarn_dataset_state(d, 5, &text, &err));
        for (size_t i = 0; i < text.size; i++)
            for (const char *to = "0 9-\"{}"; *to; to++) {
                char before = text.data[i];
                text.data[i] = *to;
                if (tarn_dataset_resume(d, text.data, text.size, &rest, &err) ==
                    TARN_OK) {
                    uint64_t sample, n = tarn_dataset_count(rest);
                    if (n) OK(tarn_dataset_sequence(rest, n - 1, 1, &sample, &err));
                    if (n) assert_true(sample < N);
                    tarn_dataset_close(rest);
                }
                text.data[i] = before;
            }
        tarn_dataset_close(d);
    }
    tarn_text_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_anywhere_exactly_the_rest_comes),
        cmocka_unit_test(after_the_last_sample_the_next_epoch_comes),
        cmocka_unit_test(resumed_after_any_batch_exactly_the_rest_comes),
        cmocka_unit_test(at_the_end_every_rank_has_used_up_all),
        cmocka_unit_test(a_state_is_one_line_of_json),
        cmocka_unit_test(a_seed_may_be_any_number_with_a_sign),
        cmocka_unit_test(a_state_of_other_data_or_arrays_is_stale),
        cmocka_unit_test(texts_that_are_not_a_state_are_refused),
        cmocka_unit_test(changed_states_do_no_harm),
    };
    return cmocka_run_group_tests(tests, fill_arrays, scratch_remove);
}
