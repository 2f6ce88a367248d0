/* How many positions per second an order gives on one core: an argument names the kind,
 * then count, positions, and 1 for one call per position at random places. Prints seconds
 * for the opening and for the positions, and a checksum that keeps the work alive. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tarn/tarn.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const tarn_error *err)
{
    char text[2048];
    fprintf(stderr, "order_rate: %s\n", tarn_error_text(err, text, sizeof text));
    return 1;
}

/* What the kinds that go by arrays need. */
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

static tarn_status one_by_one(const tarn_order *order, uint64_t n, uint64_t *sum,
                              tarn_error *err)
{
    uint64_t length = tarn_order_length(order), x = 88172645463325252u, sample;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        TARN_TRY(tarn_order_at(order, x % length, &sample, err));
        *sum += sample * i;
    }
    return TARN_OK;
}

static tarn_status in_batches(const tarn_order *order, uint64_t n, uint64_t *sum,
                              tarn_error *err)
{
    uint64_t batch[256], length = tarn_order_length(order), from = 0;
    for (uint64_t i = 0; i + 256 <= n; i += 256, from += 256) {
        if (from + 256 > length) from = 0;
        TARN_TRY(tarn_order_fill(order, from, 256, batch, err));
        *sum += batch[i % 256];
    }
    return TARN_OK;
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_order *order;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    if (argc != 5) {
        fputs("usage: order_rate KIND COUNT POSITIONS 0|1\n", stderr);
        return 2;
    }
    uint64_t count = strtoull(argv[2], NULL, 10), n = strtoull(argv[3], NULL, 10),
             sum = 0;
    if (tarn_order_kind_find(argv[1], &o.kind, &err) != TARN_OK) return fail(&err);
    o.seed = 7;
    o.buckets = &count;
    o.n_buckets = 1;
    if (o.kind >= TARN_ORDER_WEIGHTED) give_arrays(&o, count);
    double began = now();
    if (tarn_order_open(count, &o, &order, &err) != TARN_OK) return fail(&err);
    double opened = now();
    tarn_status status = argv[4][0] == '1' ? one_by_one(order, n, &sum, &err)
                                           : in_batches(order, n, &sum, &err);
    if (status != TARN_OK) return fail(&err);
    printf("%.6f %.6f %llu\n", opened - began, now() - opened, (unsigned long long)sum);
    tarn_order_close(order);
    return 0;
}
