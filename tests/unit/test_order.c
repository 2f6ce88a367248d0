/* Orders: each is exact, ranks divide it, threads share it, and invalid arguments are
 * refused. States are in test_order_state.c, the statistics in test_order_random.c,
 * glzn's orders in tests/interop/test_order.py. */
#include "ordering.h"

#include "dataset/order.h"

#include <pthread.h>

/* --- Exactness --------------------------------------------------------------------- */

static void each_sample_comes_once(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1,    2,    3,    5,    16,   17,    100,  1000,
                                      4095, 4096, 4097, 4098, 4160, 65537, 99991};
    static const tarn_order_kind kinds[] = {TARN_ORDER_IDENTITY, TARN_ORDER_SHUFFLE,
                                            TARN_ORDER_BLOCKS, TARN_ORDER_FEISTEL};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t k = 0; k < 4; k++) {
            tarn_order_options o = options_of(kinds[k]);
            tarn_order *order = open_order(counts[c], &o);
            assert_true(length_of(order) == counts[c]);
            uint64_t *all = take_all(order);
            check_permutation(all, counts[c]);
            free(all);
            tarn_order_close(order);
        }
}

static void blocks_of_any_size_are_exact(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 7, 64, 99, 100, 101, UINT64_MAX};
    for (size_t b = 0; b < 8; b++)
        for (size_t w = 0; w < 8; w++)
            for (uint64_t seed = 0; seed < 20; seed++) {
                tarn_order_options o = options_of(TARN_ORDER_BLOCKS);
                o.block = sizes[b];
                o.window = sizes[w];
                o.seed = seed;
                tarn_order *order = open_order(100, &o);
                uint64_t *all = take_all(order);
                check_permutation(all, 100);
                free(all);
                tarn_order_close(order);
            }
}

/* In a window of 3 blocks of 8 there are at most 4 blocks, because one may be the short
 * one. */
static void a_window_of_blocks_is_read_and_left(void **state)
{
    (void)state;
    tarn_order_options o = options_of(TARN_ORDER_BLOCKS);
    tarn_order *order = open_order(N, &o);
    uint64_t *all = take_all(order), first[N / 8 + 1], last[N / 8 + 1];
    for (uint64_t b = 0; b <= N / 8; b++)
        first[b] = UINT64_MAX;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t b = all[i] / 8;
        if (first[b] == UINT64_MAX) first[b] = i;
        last[b] = i;
    }
    uint64_t widest = 0;
    for (uint64_t b = 0; b <= N / 8; b++) {
        assert_true(last[b] - first[b] < 24);
        if (last[b] - first[b] > widest) widest = last[b] - first[b];
    }
    assert_true(widest > 8); /* it is mixed */
    free(all);
    tarn_order_close(order);
}

static void the_largest_order_works_at_both_ends(void **state)
{
    (void)state;
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_FEISTEL; k++) {
        tarn_order_options o = options_of((tarn_order_kind)k);
        uint64_t a, b, c;
        tarn_order *order = open_order(TARN_MAX_ORDER, &o);
        OK(order_at(order, 0, &a, &err));
        OK(order_at(order, TARN_MAX_ORDER - 1, &b, &err));
        OK(order_at(order, TARN_MAX_ORDER / 3, &c, &err));
        assert_true(a < TARN_MAX_ORDER && b < TARN_MAX_ORDER && c < TARN_MAX_ORDER);
        assert_true(a != b && b != c && a != c);
        tarn_order_close(order);
    }
}

/* A change of the shuffle would change every resumed run. */
static void what_a_seed_means_does_not_change(void **state)
{
    (void)state;
    static const uint64_t small[] = {6, 8, 5, 2, 7, 0, 1, 9};
    static const uint64_t large[] = {808474696, 776618998, 208673610, 348019246,
                                     588911065, 64313890,  316240820, 625869994};
    tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
    uint64_t got[8];
    tarn_order *order = open_order(10, &o);
    OK(tarn_order_fill(order, 0, 8, got, &err));
    assert_memory_equal(got, small, sizeof small);
    tarn_order_close(order);
    order = open_order(UINT64_C(1000000007), &o);
    OK(tarn_order_fill(order, 0, 8, got, &err));
    assert_memory_equal(got, large, sizeof large);
    tarn_order_close(order);
}

/* --- Weights, classes, lengths ----------------------------------------------------- */

static void draws_without_replacement_leave_out_only_weight_zero(void **state)
{
    (void)state;
    tarn_order_options o = options_of(TARN_ORDER_WEIGHTED_ONCE);
    tarn_order *order = open_order(N, &o);
    uint64_t *all = take_all(order);
    bool seen[N] = {false};
    assert_int_equal(length_of(order), N - 16);
    for (uint64_t i = 0; i < N - 16; i++) {
        assert_true(all[i] % 10 != 0 && !seen[all[i]]);
        seen[all[i]] = true;
    }
    free(all);
    tarn_order_close(order);
    o.draws = 20;
    order = open_order(N, &o);
    assert_int_equal(length_of(order), 20);
    tarn_order_close(order);
}

static void weights_of_any_size_are_drawn_by(void **state)
{
    (void)state;
    static const double extreme[] = {0, 5e-324, 1e-300, 1, 1e300, 1.7976931348623157e308};
    tarn_order_options o = options_of(TARN_ORDER_WEIGHTED);
    o.weights = extreme;
    o.draws = 1000;
    tarn_order *order = open_order(6, &o);
    uint64_t *all = take_all(order);
    for (int i = 0; i < 1000; i++)
        assert_true(all[i] >= 4);
    free(all);
    tarn_order_close(order);
    o.kind = TARN_ORDER_WEIGHTED_ONCE;
    o.draws = 0;
    order = open_order(6, &o);
    all = take_all(order);
    for (uint64_t i = 0; i < 5; i++)
        assert_true(all[i] == 5 - i); /* each outweighs the next by far */
    free(all);
    tarn_order_close(order);
}

static void bad_weights_are_named(void **state)
{
    (void)state;
    double bad[3] = {1, -1, 1};
    tarn_order_options o = options_of(TARN_ORDER_WEIGHTED);
    tarn_order *order;
    o.weights = bad;
    FAILS(TARN_ERR_USAGE, "sample 1 is -1", tarn_order_open(3, &o, &order, &err));
    bad[1] = 1.0 / 0.0;
    FAILS(TARN_ERR_USAGE, "sample 1 is inf", tarn_order_open(3, &o, &order, &err));
    bad[1] = bad[1] - bad[1];
    FAILS(TARN_ERR_USAGE, "nan", tarn_order_open(3, &o, &order, &err));
    bad[0] = bad[1] = bad[2] = 0;
    FAILS(TARN_ERR_USAGE, "all 3 weights are 0", tarn_order_open(3, &o, &order, &err));
    o.kind = TARN_ORDER_WEIGHTED_ONCE;
    FAILS(TARN_ERR_USAGE, "all 3 weights are 0", tarn_order_open(3, &o, &order, &err));
    o.weights = NULL;
    FAILS(TARN_ERR_USAGE, "needs weights", tarn_order_open(3, &o, &order, &err));
    o.kind = TARN_ORDER_BALANCED;
    o.classes = NULL;
    FAILS(TARN_ERR_USAGE, "needs classes", tarn_order_open(3, &o, &order, &err));
    o.kind = TARN_ORDER_LENGTHS;
    o.lengths = NULL;
    FAILS(TARN_ERR_USAGE, "needs lengths", tarn_order_open(3, &o, &order, &err));
}

static int64_t class_order(int64_t class)
{
    return class == -1000 ? 5 : class == 0 ? 6 : -class;
}

static void every_round_has_every_class_once(void **state)
{
    (void)state;
    int count_of[8] = {0}, distinct = 0, times[N] = {0}, of_class[8] = {0};
    tarn_order_options o = options_of(TARN_ORDER_BALANCED);
    for (int i = 0; i < N; i++) {
        int64_t *c = &classes[i];
        of_class[*c == 0 ? 6 : class_order(*c)]++;
    }
    for (int c = 0; c < 8; c++)
        distinct += of_class[c] > 0;
    o.draws = (uint64_t)distinct * 200;
    tarn_order *order = open_order(N, &o);
    uint64_t *all = take_all(order);
    for (int i = 0; i < distinct * 200; i++) {
        times[all[i]]++;
        count_of[class_order(classes[all[i]])]++;
        for (int j = i - i % distinct; j < i; j++)
            assert_true(classes[all[j]] != classes[all[i]]);
    }
    for (int i = 0; i < N; i++) {
        int n = of_class[class_order(classes[i])];
        assert_in_range(times[i], 200 / n, (200 + n - 1) / n);
        assert_int_equal(count_of[class_order(classes[i])], 200);
    }
    free(all);
    tarn_order_close(order);
}

static void a_chunk_has_samples_of_similar_length(void **state)
{
    (void)state;
    tarn_order_options o = options_of(TARN_ORDER_LENGTHS);
    tarn_order *order = open_order(N, &o);
    uint64_t *all = take_all(order), within = 0;
    check_permutation(all, N);
    for (uint64_t i = 1; i < N; i++)
        if (i % 12) {
            uint64_t a = lengths[all[i - 1]], b = lengths[all[i]];
            within += a > b ? a - b : b - a;
        }
    /* 4 chunks of 12 cover the lengths 0 to 100: about 100 in steps for 4 chunks, where a
     * random order has a step of 33 on average. */
    assert_in_range(within, 100, 157 * 4);
    free(all);
    o.pool = 0; /* sorted as a whole: only the last chunk overlaps another */
    tarn_order *sorted = open_order(N, &o);
    all = take_all(sorted);
    check_permutation(all, N);
    for (uint64_t c = 0; c < N / 12; c++)
        assert_true(lengths[all[c * 12 + 11]] - lengths[all[c * 12]] < 12);
    free(all);
    tarn_order_close(sorted);
    tarn_order_close(order);
}

/* --- Ranks ------------------------------------------------------------------------- */

static void ranks_take_every_worldth_position(void **state)
{
    (void)state;
    tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
    tarn_order *order = open_order(N, &o);
    uint64_t *all = take_all(order);
    for (o.world_size = 1; o.world_size < 9; o.world_size++)
        for (int policy = TARN_UNEVEN_KEEP; policy <= TARN_UNEVEN_PAD; policy++)
            for (o.rank = 0; o.rank < o.world_size; o.rank++) {
                o.uneven = (tarn_uneven)policy;
                tarn_order *mine = open_order(N, &o);
                uint64_t n = length_of(mine), *got = take_all(mine);
                uint64_t low = N / o.world_size,
                         high = (N + o.world_size - 1) / o.world_size;
                if (policy == TARN_UNEVEN_KEEP)
                    assert_true(n == (N - o.rank + o.world_size - 1) / o.world_size);
                else
                    assert_true(n == (policy == TARN_UNEVEN_DROP ? low : high));
                for (uint64_t i = 0; i < n; i++)
                    assert_true(got[i] == all[(o.rank + i * o.world_size) % N]);
                free(got);
                tarn_order_close(mine);
            }
    free(all);
    tarn_order_close(order);
}

static void more_ranks_than_samples(void **state)
{
    (void)state;
    tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
    o.world_size = 1000;
    o.rank = 999;
    tarn_order *order = open_order(3, &o);
    assert_int_equal(length_of(order), 0);
    tarn_order_close(order);
    o.uneven = TARN_UNEVEN_DROP;
    order = open_order(3, &o);
    assert_int_equal(length_of(order), 0);
    tarn_order_close(order);
    o.uneven = TARN_UNEVEN_PAD;
    order = open_order(3, &o);
    uint64_t sample;
    assert_int_equal(length_of(order), 1);
    OK(order_at(order, 0, &sample, &err));
    tarn_order_close(order);
    order = open_order(0, &o);
    assert_int_equal(length_of(order), 0);
    FAILS(TARN_ERR_USAGE, "rank 999 has 0", order_at(order, 0, &sample, &err));
    tarn_order_close(order);
}

/* Batches of one rank are consecutive and cover its samples. */
static uint64_t check_batches(const tarn_order *order, uint64_t most)
{
    tarn_order_info info;
    uint64_t next = 0, from, n;
    tarn_order_info_get(order, &info, sizeof info);
    for (uint64_t k = 0; k < info.batches; k++) {
        OK(tarn__order_batch(order, k, &from, &n, &err));
        assert_true(from == next && n <= most);
        next += n;
    }
    assert_true(next == info.length);
    FAILS(TARN_ERR_USAGE, "out of range",
          tarn__order_batch(order, info.batches, &from, &n, &err));
    return info.batches;
}

static void equal_batches_on_every_rank(void **state)
{
    (void)state;
    tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
    o.equal_batches = true;
    for (uint64_t count = 0; count < 60; count++)
        for (o.world_size = 1; o.world_size < 6; o.world_size++)
            for (o.batch = 1; o.batch < 7; o.batch++)
                for (int policy = 0; policy <= TARN_UNEVEN_PAD; policy++) {
                    uint64_t want = 0, samples = 0;
                    o.uneven = (tarn_uneven)policy;
                    for (o.rank = 0; o.rank < o.world_size; o.rank++) {
                        tarn_order *order = open_order(count, &o);
                        uint64_t got = check_batches(order, o.batch);
                        if (o.rank == 0) want = got;
                        assert_true(got == want);
                        uint64_t n = length_of(order);
                        if (policy) assert_true(n == got * o.batch);
                        samples += n;
                        tarn_order_close(order);
                    }
                    if (policy == TARN_UNEVEN_KEEP) assert_true(samples == count);
                    if (policy == TARN_UNEVEN_DROP) assert_true(samples <= count);
                    if (policy == TARN_UNEVEN_PAD) assert_true(samples >= count);
                }
}

/* --- Epochs ------------------------------------------------------------------------ */

static void seed_and_epoch_are_not_added(void **state)
{
    (void)state;
    static const uint64_t pairs[][3] = {{0, 0, 0}, {0, 1, 0}, {1, 0, 0}, {1, 1, 0},
                                        {2, 0, 0}, {0, 2, 0}, {1, 0, 1}, {2, 0, 1}};
    uint64_t *all[8];
    for (size_t i = 0; i < 8; i++) {
        tarn_order_options o = options_of(TARN_ORDER_SHUFFLE);
        o.seed = pairs[i][0];
        o.epoch = pairs[i][1];
        o.negative = pairs[i][2];
        tarn_order *order = open_order(50, &o);
        all[i] = take_all(order);
        tarn_order_close(order);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(all[i], all[j], 50 * sizeof(uint64_t));
    }
    for (size_t i = 0; i < 8; i++)
        free(all[i]);
}

/* Also for an order from the middle of its epoch. */
static void another_epoch_is_opening_in_it(void **state)
{
    (void)state;
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++) {
        tarn_order_options o = options_of((tarn_order_kind)k);
        tarn_order *one = open_order(N, &o), *rest, *two;
        OK(tarn__order_open(N, &o, 11, &rest, &err));
        o.epoch = 4;
        tarn_order *other = open_order(N, &o);
        OK(tarn__order_at_epoch(rest, 4, 0, &two, &err));
        uint64_t *a = take_all(other), *b = take_all(two), *c = take_all(one);
        assert_true(length_of(two) == length_of(other));
        size_t size = length_of(other) * sizeof *a;
        assert_memory_equal(a, b, size);
        if (k != TARN_ORDER_IDENTITY) assert_memory_not_equal(a, c, size);
        free(a), free(b), free(c);
        tarn_order_close(one);
        tarn_order_close(rest);
        tarn_order_close(two);
        tarn_order_close(other);
    }
}

static void arrays_are_copied_when_an_order_is_opened(void **state)
{
    (void)state;
    double changing[] = {1, 2, 3, 4};
    tarn_order_options o = options_of(TARN_ORDER_WEIGHTED_ONCE);
    o.weights = changing;
    tarn_order *order = open_order(4, &o), *next, *want;
    o.epoch = 1;
    want = open_order(4, &o);
    changing[0] = -1;
    changing[1] = changing[3] = 0;
    OK(tarn__order_at_epoch(order, 1, 0, &next, &err));
    assert_int_equal(length_of(next), 4);
    uint64_t *a = take_all(want), *b = take_all(next);
    assert_memory_equal(a, b, 4 * sizeof *a);
    free(a), free(b);
    tarn_order_close(order);
    tarn_order_close(next);
    tarn_order_close(want);
}

/* --- Threads ----------------------------------------------------------------------- */

typedef struct reader {
    const tarn_order *order;
    const uint64_t *want;
    uint64_t wrong;
} reader;

static void *read_all(void *context)
{
    reader *r = context;
    uint64_t n = length_of(r->order), got[N], one;
    for (int turn = 0; turn < 20; turn++) {
        if (tarn_order_fill(r->order, 0, n, got, NULL) != TARN_OK) r->wrong++;
        for (uint64_t i = 0; i < n; i++) {
            r->wrong += got[i] != r->want[i];
            if (order_at(r->order, i, &one, NULL) != TARN_OK || one != got[i]) r->wrong++;
        }
    }
    return NULL;
}

static void threads_share_an_order(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++) {
        tarn_order_options o = options_of((tarn_order_kind)k);
        tarn_order *order = open_order(N, &o);
        uint64_t *want = take_all(order);
        pthread_t threads[THREADS];
        reader readers[THREADS];
        for (int t = 0; t < THREADS; t++) {
            readers[t] = (reader){order, want, 0};
            assert_int_equal(pthread_create(&threads[t], NULL, read_all, &readers[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
            assert_true(readers[t].wrong == 0);
        }
        free(want);
        tarn_order_close(order);
    }
}

/* --- Arguments --------------------------------------------------------------------- */

static void arguments_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    tarn_order *order;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    FAILS(TARN_ERR_LIMIT, "2^62", tarn_order_open(TARN_MAX_ORDER + 1, &o, &order, &err));
    o.kind = (tarn_order_kind)99;
    FAILS(TARN_ERR_USAGE, "kind", tarn_order_open(3, &o, &order, &err));
    o = options_of(TARN_ORDER_SHUFFLE);
    o.rank = 4;
    o.world_size = 4;
    FAILS(TARN_ERR_USAGE, "rank 4 is out of range for 4",
          tarn_order_open(3, &o, &order, &err));
    o.world_size = 0;
    FAILS(TARN_ERR_USAGE, "range for 0 ranks", tarn_order_open(3, &o, &order, &err));
    o.world_size = UINT64_MAX;
    FAILS(TARN_ERR_LIMIT, "2^30 ranks", tarn_order_open(3, &o, &order, &err));
    o = options_of(TARN_ORDER_SHUFFLE);
    o.uneven = (tarn_uneven)7;
    FAILS(TARN_ERR_USAGE, "uneven: 7", tarn_order_open(3, &o, &order, &err));
    o = options_of(TARN_ORDER_SHUFFLE);
    o.equal_batches = true;
    FAILS(TARN_ERR_USAGE, "batches", tarn_order_open(3, &o, &order, &err));
    o.batch = UINT64_MAX;
    FAILS(TARN_ERR_LIMIT, "batch", tarn_order_open(3, &o, &order, &err));
    o = options_of(TARN_ORDER_BUCKETS);
    FAILS(TARN_ERR_USAGE, "157 samples, expected 3",
          tarn_order_open(3, &o, &order, &err));
    o.buckets = (const uint64_t[]){UINT64_MAX, UINT64_MAX, 5};
    o.n_buckets = 3;
    FAILS(TARN_ERR_USAGE, "expected 3", tarn_order_open(3, &o, &order, &err));
    o.rounds = 0;
    FAILS(TARN_ERR_USAGE, "rounds is 0", tarn_order_open(3, &o, &order, &err));
    o = options_of(TARN_ORDER_BUCKETS);
    o.outer = 3;
    FAILS(TARN_ERR_USAGE, "whole buckets", tarn_order_open(N, &o, &order, &err));
    o.outer = TARN_OUTER_RANDOM_ACCESS;
    FAILS(TARN_ERR_UNSUPPORTED, "unequal", tarn_order_open(N, &o, &order, &err));
    o.mix = UINT64_MAX; /* buckets of one sample each */
    OK(tarn_order_open(N, &o, &order, &err));
    tarn_order_close(order);
    o = options_of(TARN_ORDER_WEIGHTED);
    o.draws = TARN_MAX_ORDER + 1;
    FAILS(TARN_ERR_LIMIT, "2^62", tarn_order_open(3, &o, &order, &err));
    o.draws = 5;
    FAILS(TARN_ERR_USAGE, "cannot draw from 0 samples",
          tarn_order_open(0, &o, &order, &err));
    o = options_of(TARN_ORDER_LENGTHS);
    o.chunk = 0;
    FAILS(TARN_ERR_USAGE, "chunk must be at least 1",
          tarn_order_open(3, &o, &order, &err));
    o.size = 3;
    FAILS(TARN_ERR_USAGE, "initialiser", tarn_order_open(3, &o, &order, &err));
}

static void nothing_is_an_order_too(void **state)
{
    (void)state;
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++) {
        tarn_order_options o = options_of((tarn_order_kind)k);
        o.n_buckets = 0;
        tarn_order *order = open_order(0, &o), *other;
        free(take_all(order));
        OK(tarn__order_at_epoch(order, 9, 0, &other, &err));
        assert_int_equal(length_of(other), 0);
        tarn_order_close(order);
        tarn_order_close(other);
    }
    tarn_order_close(NULL);
}

static void kinds_have_names(void **state)
{
    (void)state;
    tarn_order_kind found;
    static const double two_weights[] = {1, 2};
    static const int64_t two_classes[] = {0, 1};
    static const uint64_t two_numbers[] = {1, 1};
    tarn_order_info info;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    o.weights = two_weights;
    o.classes = two_classes;
    o.lengths = o.buckets = two_numbers;
    o.n_buckets = 2;
    for (int k = TARN_ORDER_IDENTITY; k <= TARN_ORDER_LENGTHS; k++) {
        o.kind = (tarn_order_kind)k;
        tarn_order *order = open_order(2, &o);
        tarn_order_info_get(order, &info, sizeof info);
        OK(tarn_order_kind_find(info.name, &found, &err));
        assert_int_equal(found, k);
        tarn_order_close(order);
    }
    FAILS(TARN_ERR_NOT_FOUND, "unknown order sorted; the orders are identity, shuffle",
          tarn_order_kind_find("sorted", &found, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_comes_once),
        cmocka_unit_test(blocks_of_any_size_are_exact),
        cmocka_unit_test(a_window_of_blocks_is_read_and_left),
        cmocka_unit_test(the_largest_order_works_at_both_ends),
        cmocka_unit_test(what_a_seed_means_does_not_change),
        cmocka_unit_test(draws_without_replacement_leave_out_only_weight_zero),
        cmocka_unit_test(weights_of_any_size_are_drawn_by),
        cmocka_unit_test(bad_weights_are_named),
        cmocka_unit_test(every_round_has_every_class_once),
        cmocka_unit_test(a_chunk_has_samples_of_similar_length),
        cmocka_unit_test(ranks_take_every_worldth_position),
        cmocka_unit_test(more_ranks_than_samples),
        cmocka_unit_test(equal_batches_on_every_rank),
        cmocka_unit_test(seed_and_epoch_are_not_added),
        cmocka_unit_test(another_epoch_is_opening_in_it),
        cmocka_unit_test(arrays_are_copied_when_an_order_is_opened),
        cmocka_unit_test(threads_share_an_order),
        cmocka_unit_test(arguments_that_make_no_sense_are_refused),
        cmocka_unit_test(nothing_is_an_order_too),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, fill_arrays, NULL);
}
