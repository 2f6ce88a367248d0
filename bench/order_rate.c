/* The cost of an order on one core, in seconds: to open it, to fill batches of 256, or to
 * look up single random positions. Also what blocks save: see trade. */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/tarn.h>

#include "clock.h"

static int fail(const tarn_error *err)
{
    char text[2048];
    fprintf(stderr, "order_rate: %s\n", tarn_error_text(err, text, sizeof text));
    return 1;
}

/* Arrays for the kinds that need them. */
static void give_arrays(tarn_order_options *o, uint64_t count)
{
    double *weights = malloc(count * sizeof *weights);
    int64_t *classes = malloc(count * sizeof *classes);
    uint64_t *lengths = malloc(count * sizeof *lengths);
    if (!weights || !classes || !lengths) exit(3);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t h = i * UINT64_C(0x9e3779b97f4a7c15) >> 40;
        weights[i] = 1 + (double)(h % 100);
        classes[i] = (int64_t)(h % 1000);
        lengths[i] = 10 + h % 5000;
    }
    o->weights = weights;
    o->classes = classes;
    o->lengths = lengths;
}

static uint64_t length_of(const tarn_order *order)
{
    tarn_order_info info;
    tarn_order_info_get(order, &info, sizeof info);
    return info.length;
}

static tarn_status one_by_one(const tarn_order *order, uint64_t n, uint64_t *sum,
                              tarn_error *err)
{
    uint64_t length = length_of(order), x = 88172645463325252u, sample;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        TARN_TRY(tarn_order_fill(order, x % length, 1, &sample, err));
        *sum += sample * i;
    }
    return TARN_OK;
}

static tarn_status in_batches(const tarn_order *order, uint64_t n, uint64_t *sum,
                              tarn_error *err)
{
    uint64_t batch[256], length = length_of(order), from = 0;
    for (uint64_t i = 0; i + 256 <= n; i += 256, from += 256) {
        if (from + 256 > length) from = 0;
        TARN_TRY(tarn_order_fill(order, from, 256, batch, err));
        *sum += batch[i % 256];
    }
    return TARN_OK;
}

/* How often a least-recently-used cache of 16 blocks of 1,024 samples has to load a
 * block, and from how many blocks a batch of 256 comes. */
static tarn_status trade(const tarn_order *order, uint64_t n, tarn_error *err)
{
    enum { CACHE = 16, BLOCK = 1024, BATCH = 256 };
    uint64_t held[CACHE], used[CACHE] = {0}, batch[BATCH], now_at = 0, loads = 0,
                          blocks = 0;
    for (int c = 0; c < CACHE; c++)
        held[c] = UINT64_MAX;
    for (uint64_t from = 0; from + BATCH <= n; from += BATCH) {
        TARN_TRY(tarn_order_fill(order, from, BATCH, batch, err));
        for (int i = 0; i < BATCH; i++) {
            uint64_t block = batch[i] / BLOCK;
            int at = 0, seen = 0;
            for (int c = 0; c < CACHE && held[at] != block; c++)
                if (held[c] == block || used[c] < used[at]) at = c;
            loads += held[at] != block;
            held[at] = block;
            used[at] = ++now_at;
            for (int j = 0; j < i && !seen; j++)
                seen = batch[j] / BLOCK == block;
            blocks += !seen;
        }
    }
    printf("%.4f %.1f\n", (double)loads * BLOCK / (double)n,
           (double)blocks * BATCH / (double)n);
    return TARN_OK;
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_order *order;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    if (argc != 5) {
        fputs("usage: order_rate open|fill|at|trade KIND COUNT POSITIONS\n", stderr);
        return 2;
    }
    char what = argv[1][0];
    uint64_t count = strtoull(argv[3], NULL, 10), n = strtoull(argv[4], NULL, 10),
             sum = 0;
    if (tarn_order_kind_find(argv[2], &o.kind, &err) != TARN_OK) return fail(&err);
    o.seed = 7;
    o.buckets = &count;
    o.n_buckets = 1;
    if (o.kind >= TARN_ORDER_WEIGHTED) give_arrays(&o, count);
    double began = now();
    if (tarn_order_open(count, &o, &order, &err) != TARN_OK) return fail(&err);
    double opened = now();
    tarn_status status = what == 't'   ? trade(order, n, &err)
                         : what == 'a' ? one_by_one(order, n, &sum, &err)
                         : what == 'f' ? in_batches(order, n, &sum, &err)
                                       : TARN_OK;
    double ended = now();
    if (status != TARN_OK) return fail(&err);
    fprintf(stderr, "%llu\n", (unsigned long long)sum); /* keeps the work */
    if (what != 't') printf("%.9f\n", what == 'o' ? opened - began : ended - opened);
    tarn_order_close(order);
    return 0;
}
