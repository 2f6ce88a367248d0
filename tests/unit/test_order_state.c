/* States of orders: what is left comes exactly, whatever the ranks that go on; a state
 * that does not fit is refused. */
#include "ordering.h"

/* Marks what all ranks of a run that goes on from a state see. */
static void mark_rest(tarn_order_options o, const char *text, uint64_t world,
                      const uint64_t *whole, uint64_t from, uint64_t total)
{
    uint64_t got = 0;
    o.world = world;
    for (o.rank = 0; o.rank < world; o.rank++) {
        tarn_order *order;
        OK(tarn_order_resume(N, text, strlen(text), &o, &order, &err));
        uint64_t n = tarn_order_length(order), *mine = calloc(n + 1, sizeof *mine);
        OK(tarn_order_fill(order, 0, n, mine, &err));
        for (uint64_t i = 0; i < n; i++)
            assert_true(mine[i] == whole[from + o.rank + i * world]);
        got += n;
        free(mine);
        tarn_order_close(order);
    }
    assert_true(got == total - from);
}

/* Stopped after every number of steps on one world size, gone on with another, stopped
 * there too, and ended on a third. */
static void resumed_anywhere_exactly_the_rest_comes(void **state)
{
    (void)state;
    static const uint64_t worlds[] = {1, 2, 3, 8};
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++) {
        tarn_order_options o = options_of((tarn_order_kind)k);
        tarn_order *order = open_order(N, &o);
        uint64_t *whole = take_all(order), total = tarn_order_length(order);
        char text[TARN_ORDER_STATE_MAX], later[TARN_ORDER_STATE_MAX];
        tarn_order_close(order);
        for (size_t w = 0; w < 4; w++) {
            tarn_order_options first = o;
            first.world = worlds[w];
            tarn_order *run = open_order(N, &first);
            for (uint64_t steps = 0; steps * first.world <= total; steps++) {
                uint64_t used = tarn_order_used(run, steps);
                OK(tarn_order_state(run, used, text, sizeof text, &err));
                mark_rest(o, text, worlds[(w + steps) % 4], whole, used, total);
                tarn_order_options second = o;
                tarn_order *again;
                second.world = 5;
                second.rank = 4;
                OK(tarn_order_resume(N, text, strlen(text), &second, &again, &err));
                uint64_t further = tarn_order_used(again, 7);
                assert_true(further == (used + 35 < total ? used + 35 : total));
                OK(tarn_order_state(again, further, later, sizeof later, &err));
                mark_rest(o, later, 4, whole, further, total);
                tarn_order_close(again);
            }
            tarn_order_close(run);
        }
        free(whole);
    }
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
                o.world = world;
                o.batch = batch;
                o.equal_batches = equal;
                for (o.rank = 0; o.rank < world; o.rank++) {
                    ranks[o.rank] = open_order(N, &o);
                    tarn_order_info_get(ranks[o.rank], &info);
                    if (info.batches > most) most = info.batches;
                }
                for (uint64_t k = 0; k <= most; k++) {
                    bool used[N] = {false};
                    uint64_t count = 0;
                    for (uint64_t r = 0; r < world; r++)
                        for (uint64_t j = 0; j < k; j++) {
                            tarn_order_info_get(ranks[r], &info);
                            if (j >= info.batches) break;
                            OK(tarn_order_batch(ranks[r], j, &from, &n, &err));
                            for (uint64_t i = from; i < from + n; i++, count++)
                                used[r + i * world] = true;
                        }
                    for (uint64_t r = 0; r < world; r++)
                        assert_true(tarn_order_used_batches(ranks[r], k) == count);
                    for (uint64_t p = 0; p < N; p++)
                        assert_true(used[p] == (p < count));
                }
                for (uint64_t r = 0; r < world; r++)
                    tarn_order_close(ranks[r]);
            }
}

/* At every step up to the last and past it, all ranks tell the same state, and it has
 * exactly what came: nothing that a rank which ended early did not get, or dropped. */
static void every_rank_tells_what_was_used_at_the_end(void **state)
{
    (void)state;
    for (int ranks = TARN_RANKS_UNEVEN; ranks <= TARN_RANKS_PAD; ranks++)
        for (int equal = 0; equal <= 1; equal++)
            for (uint64_t count = 1; count < 30; count += 3)
                for (uint64_t world = 1; world < 6; world++)
                    for (uint64_t batch = 1; batch < 5; batch++) {
                        tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
                        tarn_order *all[8];
                        uint64_t longest = 0, used_samples = 0;
                        o.ranks = (tarn_ranks)ranks;
                        o.equal_batches = equal;
                        o.world = world;
                        o.batch = batch;
                        for (o.rank = 0; o.rank < world; o.rank++) {
                            all[o.rank] = open_order(count, &o);
                            uint64_t n = tarn_order_length(all[o.rank]);
                            if (n > longest) longest = n;
                            used_samples += n;
                        }
                        if (used_samples > count) used_samples = count; /* padding */
                        for (uint64_t r = 0; r < world; r++) {
                            for (uint64_t n = 0; n <= longest; n++) {
                                uint64_t used = n * world;
                                if (used > used_samples) used = used_samples;
                                assert_true(tarn_order_used(all[r], n) == used);
                            }
                            assert_true(tarn_order_used(all[r], 1000) == used_samples);
                            assert_true(tarn_order_used(all[r], UINT64_MAX) ==
                                        used_samples);
                            assert_true(tarn_order_used_batches(all[r], 1000) ==
                                        used_samples);
                            assert_true(tarn_order_used_batches(all[r], UINT64_MAX) ==
                                        used_samples);
                        }
                        for (uint64_t r = 0; r < world; r++)
                            tarn_order_close(all[r]);
                    }
}

static void a_state_is_one_line_of_json(void **state)
{
    (void)state;
    char text[TARN_ORDER_STATE_MAX];
    tarn_order_options o = options_of(TARN_ORDER_BLOCKS);
    tarn_order *order = open_order(N, &o);
    OK(tarn_order_state(order, 20, text, sizeof text, &err));
    assert_string_equal(text, "{\"tarn_order\": 1, \"kind\": \"blocks\", \"seed\": 7, "
                              "\"epoch\": 3, \"position\": 20, \"count\": 157, "
                              "\"block\": 8, \"window\": 3}");
    FAILS(TARN_ERR_USAGE, "of an epoch of 157",
          tarn_order_state(order, 158, text, sizeof text, &err));
    FAILS(TARN_ERR_USAGE, "is no room", tarn_order_state(order, 1, text, 20, &err));
    tarn_order_close(order);
    o.kind = TARN_ORDER_FEISTEL;
    o.seed = UINT64_MAX;
    o.epoch = UINT64_MAX;
    o.negative = true;
    order = open_order(N, &o);
    tarn_order *again;
    OK(tarn_order_state(order, 0, text, sizeof text, &err));
    assert_non_null(strstr(text, "\"seed\": -18446744073709551615"));
    OK(tarn_order_resume(N, text, strlen(text), NULL, &again, &err));
    uint64_t *a = take_all(order), *b = take_all(again);
    assert_memory_equal(a, b, N * sizeof *a);
    free(a), free(b);
    tarn_order_close(order);
    tarn_order_close(again);
}

static void a_state_of_other_data_is_stale(void **state)
{
    (void)state;
    for (int k = TARN_ORDER_SHUFFLE; k <= TARN_ORDER_LENGTHS; k++) {
        char text[TARN_ORDER_STATE_MAX];
        static uint64_t other[N];
        tarn_order_options o = options_of((tarn_order_kind)k), without = o;
        tarn_order *order = open_order(N, &o);
        OK(tarn_order_state(order, 3, text, sizeof text, &err));
        tarn_order_close(order);
        FAILS(TARN_ERR_STALE, "of 157 samples, and there are 158",
              tarn_order_resume(N + 1, text, strlen(text), &o, &order, &err));
        if (k <= TARN_ORDER_FEISTEL) continue;
        o.buckets = o.lengths = other;
        o.weights = (const double *)other;
        o.classes = (const int64_t *)other;
        FAILS(TARN_ERR_STALE, "not those given now",
              tarn_order_resume(N, text, strlen(text), &o, &order, &err));
        without.buckets = without.lengths = NULL;
        without.weights = NULL;
        without.classes = NULL;
        FAILS(TARN_ERR_USAGE, "needs",
              tarn_order_resume(N, text, strlen(text), &without, &order, &err));
    }
}

static void texts_that_are_no_state_are_refused(void **state)
{
    (void)state;
#define START "{\"tarn_order\": 1, \"kind\": \"shuffle\", "
#define REST  "\"epoch\": 0, \"position\": 0, \"count\": 157}"
    static const struct {
        const char *text, *part;
        tarn_status status;
    } cases[] = {
        {"", "", TARN_ERR_FORMAT},
        {"[]", "no JSON object", TARN_ERR_FORMAT},
        {"{}", "no tarn_order", TARN_ERR_FORMAT},
        {"{\"tarn_order\": 2}", "version 2", TARN_ERR_UNSUPPORTED},
        {"{\"tarn_order\": 1}", "no kind", TARN_ERR_FORMAT},
        {"{\"tarn_order\": 1, \"kind\": \"no\"}", "kind", TARN_ERR_FORMAT},
        {"{\"tarn_order\": 1, \"kind\": \"shuffle\\u0000\"}", "kind", TARN_ERR_FORMAT},
        {START REST, "no seed", TARN_ERR_FORMAT},
        {START "\"seed\": 1.0, " REST, "seed is no number", TARN_ERR_FORMAT},
        {START "\"seed\": \"1\", " REST, "seed is no number", TARN_ERR_FORMAT},
        {START "\"seed\": 18446744073709551616, " REST, "seed", TARN_ERR_FORMAT},
        {START "\"seed\": -18446744073709551616, " REST, "seed", TARN_ERR_FORMAT},
        {START "\"seed\": 1, \"seed\": 2, " REST, "", TARN_ERR_FORMAT},
        {START "\"seed\": 1, \"more\": 2, " REST, "7 entries", TARN_ERR_FORMAT},
        {START "\"seed\": 1, \"x\": [[[]]], " REST, "levels", TARN_ERR_LIMIT},
        {START "\"seed\": 1, \"epoch\": -1, \"position\": 0, \"count\": 157}",
         "epoch is no number", TARN_ERR_FORMAT},
        {START "\"seed\": 1, \"epoch\": 1, \"position\": 158, \"count\": 157}",
         "position 158 of an epoch of 157", TARN_ERR_FORMAT},
        {START "\"seed\": 1, \"epoch\": 1, \"position\": 0, \"count\": 1}",
         "of 1 samples", TARN_ERR_STALE},
        {"{\"tarn_order\": 1, \"kind\": \"blocks\", \"seed\": 1, \"block\": 0, "
         "\"window\": 1, " REST,
         "blocks of 0", TARN_ERR_USAGE},
        {"{\"tarn_order\": 1, \"kind\": \"feistel\", \"seed\": 1, "
         "\"rounds\": 18446744073709551615, " REST,
         "rounds", TARN_ERR_USAGE},
        {"{\"tarn_order\": 1, \"kind\": \"feistel\", \"seed\": 1, " REST, "no rounds",
         TARN_ERR_FORMAT},
    };
    tarn_order *order;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        FAILS(cases[i].status, cases[i].part,
              tarn_order_resume(N, cases[i].text, strlen(cases[i].text), NULL, &order,
                                &err));
    char *large = calloc(1, 1 << 20);
    memset(large, ' ', (1 << 20) - 1);
    FAILS(TARN_ERR_LIMIT, "", tarn_order_resume(N, large, 1 << 19, NULL, &order, &err));
    free(large);
    OK(tarn_order_resume(N, START "\"seed\": 1, " REST,
                         strlen(START "\"seed\": 1, " REST), NULL, &order, &err));
    tarn_order_close(order);
}

/* Whatever byte of a state is changed, it is refused or gives an order that works. */
static void changed_states_do_no_harm(void **state)
{
    (void)state;
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++) {
        char text[TARN_ORDER_STATE_MAX], changed[TARN_ORDER_STATE_MAX];
        tarn_order_options o = options_of((tarn_order_kind)k);
        tarn_order *order = open_order(N, &o);
        OK(tarn_order_state(order, 5, text, sizeof text, &err));
        tarn_order_close(order);
        size_t len = strlen(text);
        for (size_t i = 0; i < len; i++)
            for (const char *to = "0 9-\"{}"; *to; to++) {
                memcpy(changed, text, len);
                changed[i] = *to;
                if (tarn_order_resume(N, changed, len, &o, &order, &err) != TARN_OK)
                    continue;
                uint64_t sample, n = tarn_order_length(order);
                if (n) OK(tarn_order_at(order, n - 1, &sample, &err));
                if (n) assert_true(sample < N);
                tarn_order_close(order);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_anywhere_exactly_the_rest_comes),
        cmocka_unit_test(resumed_after_any_batch_exactly_the_rest_comes),
        cmocka_unit_test(every_rank_tells_what_was_used_at_the_end),
        cmocka_unit_test(a_state_is_one_line_of_json),
        cmocka_unit_test(a_state_of_other_data_is_stale),
        cmocka_unit_test(texts_that_are_no_state_are_refused),
        cmocka_unit_test(changed_states_do_no_harm),
    };
    return cmocka_run_group_tests(tests, fill_arrays, NULL);
}
