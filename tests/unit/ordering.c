/* Arrays, options and checks that the tests of orders share. */
#include "ordering.h"

#include <unistd.h>

tarn_error err;

double weights[N];
int64_t classes[N];
uint64_t lengths[N];
static const uint64_t buckets[] = {60, 1, 0, 90, 6};

int fill_arrays(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        weights[i] = i % 10 ? 1.0 + i % 7 : 0;
        classes[i] = i % 3 ? i % 3 * 1000 - 2000 : -i % 5;
        lengths[i] = (uint64_t)(i * 37 % 101);
    }
    return 0;
}

tarn_dataset *open_rows(uint64_t count)
{
    char name[40];
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    tarn_array a;
    tarn_dataset *d;
    snprintf(name, sizeof name, "rows%llu.gnz", (unsigned long long)count);
    const char *path = scratch_path(name);
    if (access(path, R_OK) == 0) {
        OK(tarn_dataset_open(path, NULL, &d, &err));
        return d;
    }
    int64_t *x = calloc(count + 1, sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < count; i++)
        x[i] = (int64_t)i;
    o.no_sync = true;
    OK(tarn_array_init(&a, x, (tarn_dtype){'<', 'i', 8}, 1, &count, &err));
    OK(tarn_gnz_writer_open(path, &o, &w, &err));
    OK(tarn_gnz_writer_add(w, "x", &a, NULL, &err));
    OK(tarn_gnz_writer_begin(w, &err));
    OK(tarn_gnz_writer_finish(w, &err));
    free(x);
    OK(tarn_dataset_open(path, NULL, &d, &err));
    return d;
}

uint64_t *sequence_of(tarn_dataset *d)
{
    uint64_t n = tarn_dataset_count(d), *all = calloc(n + 1, sizeof *all);
    assert_non_null(all);
    OK(tarn_dataset_sequence(d, 0, n, all, &err));
    return all;
}

tarn_order_options options_of(tarn_order_kind kind)
{
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    o.kind = kind;
    o.seed = 7;
    o.epoch = 3;
    o.block = 8;
    o.window = 3;
    o.chunk = 12;
    o.pool = 4;
    o.buckets = buckets;
    o.n_buckets = 5;
    o.weights = weights;
    o.classes = classes;
    o.lengths = lengths;
    return o;
}

tarn_order *open_order(uint64_t count, const tarn_order_options *o)
{
    tarn_order *order = NULL;
    OK(tarn_order_open(count, o, &order, &err));
    return order;
}

uint64_t *take_all(const tarn_order *order)
{
    uint64_t n = length_of(order), *all = calloc(n + 1, sizeof *all), one;
    OK(tarn_order_fill(order, 0, n, all, &err));
    for (uint64_t i = 0; i < n; i++) {
        OK(order_at(order, i, &one, &err));
        assert_true(one == all[i]);
    }
    FAILS(TARN_ERR_USAGE, "out of range", order_at(order, n, &one, &err));
    FAILS(TARN_ERR_USAGE, "out of range", order_at(order, UINT64_MAX, &one, &err));
    FAILS(TARN_ERR_USAGE, "out of range", tarn_order_fill(order, n, 1, all, &err));
    FAILS(TARN_ERR_USAGE, "out of range",
          tarn_order_fill(order, 1, UINT64_MAX, all, &err));
    return all;
}

void check_permutation(const uint64_t *all, uint64_t n)
{
    bool *seen = calloc(n + 1, 1);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(all[i] < n);
        assert_false(seen[all[i]]);
        seen[all[i]] = true;
    }
    free(seen);
}
