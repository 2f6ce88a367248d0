/* Whether tarn's orders are as random as they claim. Every test is a chi-square test with
 * fixed seeds: a good order is within 5 standard deviations in all of them (the chance of
 * a larger deviation is about one in a million for each), a weak one is far outside, as
 * glzn's own order is shown to be. */
#include "support.h"

#include <math.h>

static tarn_error err;

static tarn_order *open_order(tarn_order_kind kind, uint64_t count, uint64_t seed,
                              uint64_t epoch)
{
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    tarn_order *order = NULL;
    o.kind = kind;
    o.seed = seed;
    o.epoch = epoch;
    OK(tarn_order_open(count, &o, &order, &err));
    return order;
}

/* The first n samples of an order; freed by the caller. */
static uint64_t *first(tarn_order_kind kind, uint64_t count, uint64_t seed,
                       uint64_t epoch, uint64_t n)
{
    uint64_t *out = malloc(n * sizeof *out);
    tarn_order *order = open_order(kind, count, seed, epoch);
    OK(tarn_order_fill(order, 0, n, out, &err));
    tarn_order_close(order);
    return out;
}

/* How many standard deviations chi-square is from its expected value, when cell k has
 * probability p[k], or all the same. */
static double deviation(const uint64_t *cells, size_t n_cells, const double *p,
                        double freedom)
{
    double total = 0, chi = 0;
    for (size_t k = 0; k < n_cells; k++)
        total += (double)cells[k];
    for (size_t k = 0; k < n_cells; k++) {
        double want = total * (p ? p[k] : 1.0 / (double)n_cells);
        chi += ((double)cells[k] - want) * ((double)cells[k] - want) / want;
    }
    /* Wilson and Hilferty: chi-square's cube root is nearly normal. */
    double width = 2 / (9 * freedom);
    return (cbrt(chi / freedom) - (1 - width)) / sqrt(width);
}

static void check_sound(const char *what, double z)
{
    if (fabs(z) < 5) return;
    fail_msg("%s: %.1f standard deviations from random", what, z);
}

static size_t bin(uint64_t x, uint64_t n, uint64_t bins)
{
    return (size_t)((unsigned __int128)x * bins / n);
}

static const uint64_t sizes[] = {100,   4096,  4097,    5000,       65536,
                                 65537, 99991, 1000000, 1000000007, TARN_MAX_ORDER};

enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* --- Positions --------------------------------------------------------------------- */

/* Over seeds, every sample is equally likely at a position. */
static void every_position_has_every_sample_equally_often(void **state)
{
    (void)state;
    enum { BINS = 50, SEEDS = 5000 };
    for (size_t s = 0; s < N_SIZES; s++) {
        uint64_t n = sizes[s], places[] = {0, 1, n / 3, n / 2, n - 1}, sample;
        uint64_t cells[5][BINS] = {{0}};
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            tarn_order *order = open_order(TARN_ORDER_SHUFFLE, n, seed, 0);
            for (size_t p = 0; p < 5; p++) {
                OK(order_at(order, places[p], &sample, &err));
                cells[p][bin(sample, n, BINS)]++;
            }
            tarn_order_close(order);
        }
        double share[BINS] = {0};
        for (uint64_t x = 0; n <= 100000 && x < n; x++)
            share[bin(x, n, BINS)] += 1.0 / (double)n;
        for (size_t p = 0; p < 5; p++)
            check_sound("sample at a position",
                        deviation(cells[p], BINS, n <= 100000 ? share : NULL, BINS - 1));
    }
}

/* The same over epochs of one seed. */
static void every_epoch_moves_a_sample_anywhere(void **state)
{
    (void)state;
    enum { BINS = 50, EPOCHS = 5000 };
    uint64_t cells[BINS] = {0}, sample;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        tarn_order *order = open_order(TARN_ORDER_SHUFFLE, 1000000, 12345, epoch);
        OK(order_at(order, 777, &sample, &err));
        cells[bin(sample, 1000000, BINS)]++;
        tarn_order_close(order);
    }
    check_sound("sample at a position over epochs",
                deviation(cells, BINS, NULL, BINS - 1));
}

/* --- Neighbours -------------------------------------------------------------------- */

static void neighbours_are_independent(void **state)
{
    (void)state;
    enum { BINS = 16, TAKE = 400000 };
    static const uint64_t lags[] = {1, 2, 3, 4, 8, 63, 64, 65, 256, 999, 1000, 1001};
    for (size_t s = 4; s < N_SIZES; s++) {
        uint64_t n = sizes[s], take = n < TAKE ? n : TAKE;
        uint64_t *all = first(TARN_ORDER_SHUFFLE, n, 5, 1, take);
        for (size_t l = 0; l < sizeof lags / sizeof *lags; l++) {
            uint64_t joint[BINS * BINS] = {0}, low[BINS * BINS] = {0}, step[BINS] = {0};
            for (uint64_t i = lags[l]; i < take; i++) {
                uint64_t a = all[i - lags[l]], b = all[i];
                joint[bin(a, n, BINS) * BINS + bin(b, n, BINS)]++;
                low[a % BINS * BINS + b % BINS]++;
                step[bin(b > a ? b - a : b + n - a, n, BINS)]++;
            }
            check_sound("neighbours",
                        deviation(joint, BINS * BINS, NULL, BINS * BINS - 1));
            check_sound("neighbours' low bits",
                        deviation(low, BINS * BINS, NULL, BINS * BINS - 1));
            check_sound("steps", deviation(step, BINS, NULL, BINS - 1));
        }
        free(all);
    }
}

/* Detects a network of too few rounds: two positions that share a row or a column of its
 * rectangle should share one in the result, or keep their distance, as often as any two.
 * Counted over the pairs of many orders just past the size where the table ends. */
static void rows_and_columns_are_forgotten(void **state)
{
    (void)state;
    enum { ROWS = 65, COLUMNS = 64, N = ROWS * COLUMNS, SEEDS = 100 };
    double met[6] = {0}, pairs = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t *all = first(TARN_ORDER_SHUFFLE, N, seed, 0, N);
        for (uint64_t i = 0; i < N; i++)
            for (uint64_t k = 1; k < COLUMNS; k++) {
                uint64_t x = all[i],
                         in_row = all[i / COLUMNS * COLUMNS + (i + k) % COLUMNS];
                uint64_t in_column = all[(i + k * COLUMNS) % N];
                met[0] += x / COLUMNS == in_row / COLUMNS;
                met[1] += x % COLUMNS == in_row % COLUMNS;
                met[2] += x / COLUMNS == in_column / COLUMNS;
                met[3] += x % COLUMNS == in_column % COLUMNS;
                met[4] += (x / COLUMNS + k) % ROWS == in_column / COLUMNS;
                met[5] += (x + k) % COLUMNS == in_row % COLUMNS;
                pairs++;
            }
        free(all);
    }
    static const double others[] = {COLUMNS - 1, ROWS - 1, COLUMNS - 1,
                                    ROWS - 1,    COLUMNS,  ROWS};
    for (int t = 0; t < 6; t++) {
        double p = others[t] / (N - 1);
        /* Most pairs are counted twice. */
        check_sound("rows and columns",
                    (met[t] - pairs * p) / sqrt(2 * pairs * p * (1 - p)));
    }
}

/* --- Ranks ------------------------------------------------------------------------- */

/* Ranks compared with the samples' remainders modulo the world size. */
static double rank_parity(tarn_order_kind kind, uint64_t n, uint64_t world, uint64_t seed)
{
    uint64_t cells[64] = {0}, *all = first(kind, n, seed, 0, n);
    for (uint64_t i = 0; i < n; i++)
        cells[i % world * world + all[i] % world]++;
    free(all);
    return deviation(cells, world * world, NULL, (double)((world - 1) * (world - 1)));
}

static void ranks_see_all_remainders_equally_often(void **state)
{
    (void)state;
    static const uint64_t counts[] = {4096, 4100, 50000, 65536, 1 << 20};
    for (uint64_t world = 2; world <= 8; world *= 2)
        for (size_t c = 0; c < 5; c++)
            for (uint64_t seed = 0; seed < 8; seed++)
                check_sound("remainders on ranks",
                            rank_parity(TARN_ORDER_SHUFFLE, counts[c], world, seed));
    /* The same test shows that glzn's order is not uniform. */
    assert_true(rank_parity(TARN_ORDER_FEISTEL, 65536, 2, 5) > 50);
}

/* --- Avalanche --------------------------------------------------------------------- */

static void check_unrelated(uint64_t seed_a, uint64_t epoch_a, uint64_t seed_b,
                            uint64_t epoch_b)
{
    enum { N = 1 << 16 };
    uint64_t *a = first(TARN_ORDER_SHUFFLE, N, seed_a, epoch_a, N);
    uint64_t *b = first(TARN_ORDER_SHUFFLE, N, seed_b, epoch_b, N);
    uint64_t flips[16] = {0}, same = 0, joint[256] = {0};
    for (uint64_t i = 0; i < N; i++) {
        for (int k = 0; k < 16; k++)
            flips[k] += (a[i] ^ b[i]) >> k & 1;
        same += a[i] == b[i];
        joint[bin(a[i], N, 16) * 16 + bin(b[i], N, 16)]++;
    }
    free(a), free(b);
    for (int k = 0; k < 16; k++)
        check_sound("bits that change", ((double)flips[k] - N / 2.0) / sqrt(N / 4.0));
    check_sound("joint order", deviation(joint, 256, NULL, 225));
    assert_in_range(same, 0, 9); /* on average 1 */
}

static void epochs_and_seeds_are_unrelated(void **state)
{
    (void)state;
    for (uint64_t e = 0; e < 20; e++)
        check_unrelated(7, e, 7, e + 1);
    for (unsigned bit = 0; bit < 64; bit++) {
        check_unrelated(7, 0, 7 ^ UINT64_C(1) << bit, 0);
        check_unrelated(7, 0, 7, UINT64_C(1) << bit);
    }
    for (uint64_t s = 0; s < 10; s++)
        check_unrelated(s, s + 1, s + 1, s);
}

/* --- Few samples ------------------------------------------------------------------- */

static size_t number_of(const uint64_t *order, uint64_t n)
{
    size_t number = 0;
    for (uint64_t i = 0; i < n; i++) {
        size_t below = 0;
        for (uint64_t j = i + 1; j < n; j++)
            below += order[j] < order[i];
        number = number * (n - i) + below;
    }
    return number;
}

/* Varies the epoch or, by default, the seed. */
static void check_few(uint64_t n, bool by_epoch)
{
    uint64_t cells[120] = {0}, all[5];
    size_t orders = 1;
    for (uint64_t k = 2; k <= n; k++)
        orders *= k;
    for (uint64_t t = 0; t < orders * 500; t++) {
        tarn_order *order =
            open_order(TARN_ORDER_SHUFFLE, n, by_epoch ? 9 : t, by_epoch ? t : 0);
        OK(tarn_order_fill(order, 0, n, all, &err));
        tarn_order_close(order);
        cells[number_of(all, n)]++;
    }
    check_sound("orders of a few", deviation(cells, orders, NULL, (double)orders - 1));
}

static void all_orders_of_a_few_are_equally_frequent(void **state)
{
    (void)state;
    for (uint64_t n = 2; n <= 5; n++) {
        check_few(n, false);
        check_few(n, true);
    }
}

/* --- The other kinds --------------------------------------------------------------- */

/* The positions of the samples of a block, over seeds; and which samples meet in a
 * window. */
static void blocks_go_anywhere_and_are_mixed(void **state)
{
    (void)state;
    enum { COUNT = 10050, BLOCK = 100, WINDOW = 8, SEEDS = 3000, BINS = 32 };
    uint64_t where[BINS] = {0}, within[BINS] = {0};
    double share[BINS] = {0};
    for (uint64_t x = 0; x < COUNT; x++)
        share[bin(x, COUNT, BINS)] += 1.0 / COUNT;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
        tarn_order *order;
        uint64_t sample;
        o.kind = TARN_ORDER_BLOCKS;
        o.block = BLOCK;
        o.window = WINDOW;
        o.seed = seed;
        OK(tarn_order_open(COUNT, &o, &order, &err));
        OK(order_at(order, 4321, &sample, &err));
        where[bin(sample, COUNT, BINS)]++;
        OK(order_at(order, 7, &sample, &err));
        within[sample % BLOCK * BINS / BLOCK]++;
        tarn_order_close(order);
    }
    check_sound("a block's place", deviation(where, BINS, share, BINS - 1));
    for (int k = 0; k < BINS; k++)
        share[k] = 0;
    for (int x = 0; x < BLOCK; x++)
        share[x * BINS / BLOCK] += 1.0 / BLOCK;
    check_sound("a place in a block", deviation(within, BINS, share, BINS - 1));
}

static const double weights[] = {1, 2, 0, 0.5, 4.5};

static void draws_with_replacement_follow_the_weights(void **state)
{
    (void)state;
    enum { DRAWS = 400000 };
    static const double p[] = {0.125, 0.25, 0.0625, 0.5625};
    uint64_t *all = malloc(DRAWS * sizeof *all), cells[5] = {0}, pairs[25] = {0};
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    tarn_order *order;
    o.kind = TARN_ORDER_WEIGHTED;
    o.weights = weights;
    o.draws = DRAWS;
    OK(tarn_order_open(5, &o, &order, &err));
    OK(tarn_order_fill(order, 0, DRAWS, all, &err));
    for (int i = 0; i < DRAWS; i++) {
        cells[all[i]]++;
        if (i % 2) pairs[all[i - 1] * 5 + all[i]]++;
    }
    assert_int_equal(cells[2], 0);
    const uint64_t some[] = {cells[0], cells[1], cells[3], cells[4]};
    check_sound("weights", deviation(some, 4, p, 3));
    double joint[16];
    uint64_t some_pairs[16];
    static const int kept[] = {0, 1, 3, 4};
    for (int i = 0; i < 16; i++) {
        joint[i] = p[i / 4] * p[i % 4];
        some_pairs[i] = pairs[kept[i / 4] * 5 + kept[i % 4]];
    }
    check_sound("weights of neighbours", deviation(some_pairs, 16, joint, 15));
    free(all);
    tarn_order_close(order);
}

/* The first two draws have the probabilities of consecutive draws. */
static void draws_without_replacement_follow_the_weights(void **state)
{
    (void)state;
    enum { SEEDS = 60000 };
    static const double w[] = {1, 2, 0.5, 4.5};
    uint64_t cells[16] = {0}, some[12], got[4];
    double p[12];
    size_t n = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
        tarn_order *order;
        o.kind = TARN_ORDER_WEIGHTED_ONCE;
        o.weights = w;
        o.seed = seed;
        OK(tarn_order_open(4, &o, &order, &err));
        OK(tarn_order_fill(order, 0, 4, got, &err));
        cells[got[0] * 4 + got[1]]++;
        tarn_order_close(order);
    }
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            if (i == j) continue;
            p[n] = w[i] / 8 * (w[j] / (8 - w[i]));
            some[n++] = cells[i * 4 + j];
        }
    check_sound("weights without replacement", deviation(some, 12, p, 11));
}

/* The first two of many classes, through the network over a few. */
static void many_classes_come_in_any_order(void **state)
{
    (void)state;
    enum { CLASSES = 67, ROUNDS = 200000 };
    int64_t classes[CLASSES];
    uint64_t pair[2], *cells = calloc(CLASSES * CLASSES, sizeof *cells);
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    tarn_order *order;
    for (int i = 0; i < CLASSES; i++)
        classes[i] = i;
    o.kind = TARN_ORDER_BALANCED;
    o.classes = classes;
    o.draws = CLASSES * ROUNDS;
    OK(tarn_order_open(CLASSES, &o, &order, &err));
    for (uint64_t r = 0; r < ROUNDS; r++) {
        OK(tarn_order_fill(order, r * CLASSES, 2, pair, &err));
        cells[pair[0] * CLASSES + pair[1] - (pair[1] > pair[0])]++;
    }
    for (size_t i = 0; i < CLASSES; i++) /* no diagonal: rows are packed */
        memmove(&cells[i * (CLASSES - 1)], &cells[i * CLASSES],
                (CLASSES - 1) * sizeof *cells);
    check_sound("pairs of classes", deviation(cells, CLASSES * (CLASSES - 1), NULL,
                                              CLASSES * (CLASSES - 1) - 1));
    free(cells);
    tarn_order_close(order);
}

static void classes_come_in_any_order(void **state)
{
    (void)state;
    enum { ROUNDS = 60000, CLASSES = 5 };
    static const int64_t classes[] = {5, 5, 5, -1, 7, 7, 0, 3};
    uint64_t *all = malloc(ROUNDS * CLASSES * sizeof *all), cells[120] = {0},
             members[3] = {0};
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    tarn_order *order;
    o.kind = TARN_ORDER_BALANCED;
    o.classes = classes;
    o.draws = ROUNDS * CLASSES;
    OK(tarn_order_open(8, &o, &order, &err));
    OK(tarn_order_fill(order, 0, ROUNDS * CLASSES, all, &err));
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t round[CLASSES];
        for (int k = 0; k < CLASSES; k++)
            round[k] = (uint64_t)(classes[all[r * CLASSES + k]] + 1);
        cells[number_of(round, CLASSES)]++;
    }
    check_sound("classes", deviation(cells, 120, NULL, 119));
    /* Which of the three comes first in a pass of its class. */
    uint64_t seen = 0;
    for (int i = 0; i < ROUNDS * CLASSES; i++)
        if (all[i] < 3 && seen++ % 3 == 0) members[all[i]]++;
    check_sound("members of a class", deviation(members, 3, NULL, 2));
    free(all);
    tarn_order_close(order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_has_every_sample_equally_often),
        cmocka_unit_test(every_epoch_moves_a_sample_anywhere),
        cmocka_unit_test(neighbours_are_independent),
        cmocka_unit_test(rows_and_columns_are_forgotten),
        cmocka_unit_test(ranks_see_all_remainders_equally_often),
        cmocka_unit_test(epochs_and_seeds_are_unrelated),
        cmocka_unit_test(all_orders_of_a_few_are_equally_frequent),
        cmocka_unit_test(blocks_go_anywhere_and_are_mixed),
        cmocka_unit_test(draws_with_replacement_follow_the_weights),
        cmocka_unit_test(draws_without_replacement_follow_the_weights),
        cmocka_unit_test(classes_come_in_any_order),
        cmocka_unit_test(many_classes_come_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
