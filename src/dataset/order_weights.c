/* Draws samples by weight. With replacement: Walker's alias table, one lookup per draw.
 * Without replacement: each sample gets an exponential variate divided by its weight, and
 * samples are sorted by it. This has the same distribution as drawing one sample after
 * another from those left. The machine's logarithm is not used, because ranks must agree
 * on every bit. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "dataset/order.h"
#include "dataset/order_random.h"

/* Checks the weights. *out_most is the largest, *out_some the number above 0. */
static tarn_status check_weights(const tarn_order_options *o, uint64_t count,
                                 double *out_most, uint64_t *out_some, tarn_error *err)
{
    double most = 0;
    uint64_t some = 0;
    TARN_TRY(tarn__order_need(o->weights, "weights", count, err));
    for (uint64_t i = 0; i < count; i++) {
        double w = o->weights[i];
        if (!(w >= 0) || isinf(w))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "the weight of sample %llu is %g (expected a finite "
                              "number, 0 or above)",
                              (unsigned long long)i, w);
        if (w > most) most = w;
        some += w > 0;
    }
    if (count && !some)
        return tarn__fail(err, TARN_ERR_USAGE, "all %llu weights are 0",
                          (unsigned long long)count);
    *out_most = most;
    *out_some = some;
    return TARN_OK;
}

/* --- With replacement -------------------------------------------------------------- */

/* A column of the table: a draw below threshold is the sample itself. */
typedef struct column {
    uint64_t threshold, other;
} column;

typedef struct alias {
    column *columns;
    uint64_t n, key;
} alias;

static void drop_alias(void *made)
{
    alias *a = made;
    free(a->columns);
    free(a);
}

/* A column's share of the mean weight, as a threshold for 64 random bits. */
static uint64_t threshold_of(double share)
{
    return share >= 1 ? UINT64_MAX : (uint64_t)(share * 0x1p64);
}

/* Vose's method. share[i] is the weight divided by the mean weight; stack has room for n.
 * Small columns are stacked from its front, large ones from its back. */
static void pair_columns(column *columns, double *share, uint64_t *stack, uint64_t n,
                         uint64_t heaviest)
{
    uint64_t small = 0, large = n;
    for (uint64_t i = 0; i < n; i++) {
        if (share[i] < 1)
            stack[small++] = i;
        else
            stack[--large] = i;
    }
    while (small > 0 && large < n) {
        uint64_t little = stack[--small], much = stack[large];
        columns[little] = (column){threshold_of(share[little]), much};
        share[much] -= 1 - share[little];
        if (share[much] >= 1) continue;
        large++;
        stack[small++] = much;
    }
    while (large < n) {
        uint64_t i = stack[large++];
        columns[i] = (column){UINT64_MAX, i};
    }
    /* Rounding left these over, so each counts as full, except those of weight 0. */
    while (small > 0) {
        uint64_t i = stack[--small];
        columns[i] = share[i] > 0 ? (column){UINT64_MAX, i} : (column){0, heaviest};
    }
}

static tarn_status fill_alias(alias *a, const tarn_order_options *o, double most,
                              tarn_error *err)
{
    double *share = tarn__order_alloc(a->n, sizeof *share, err);
    uint64_t *stack = share ? tarn__order_alloc(a->n, sizeof *stack, err) : NULL;
    a->columns = stack ? tarn__order_alloc(a->n, sizeof *a->columns, err) : NULL;
    if (a->columns) {
        double sum = 0;
        uint64_t heaviest = 0;
        for (uint64_t i = 0; i < a->n; i++) {
            share[i] = o->weights[i] / most;
            sum += share[i];
            if (o->weights[i] > o->weights[heaviest]) heaviest = i;
        }
        for (uint64_t i = 0; i < a->n; i++)
            share[i] = share[i] * (double)a->n / sum;
        pair_columns(a->columns, share, stack, a->n, heaviest);
    }
    free(share);
    free(stack);
    return a->columns ? TARN_OK : TARN_ERR_MEMORY;
}

static tarn_status make_alias(const tarn_order_options *o, uint64_t count, uint64_t total,
                              void **out, tarn_error *err)
{
    (void)total;
    double most;
    uint64_t some;
    TARN_TRY(check_weights(o, count, &most, &some, err));
    alias *a = *out = calloc(1, sizeof *a);
    if (!a) return tarn__fail_memory(err);
    a->n = count;
    a->key = tarn__order_key(o, TARN__KEY_WEIGHTED);
    return fill_alias(a, o, most, err);
}

static void map_alias(const void *made, uint64_t *at, size_t n)
{
    const alias *a = made;
    for (size_t i = 0; i < n; i++) {
        uint64_t column_at = tarn__mul_high(tarn__draw(a->key, 2 * at[i]), a->n);
        const column *c = &a->columns[column_at];
        at[i] = tarn__draw(a->key, 2 * at[i] + 1) < c->threshold ? column_at : c->other;
    }
}

static tarn_status measure_alias(const tarn_order_options *o, uint64_t count,
                                 uint64_t *out_total, tarn_error *err)
{
    double most;
    uint64_t some;
    TARN_TRY(check_weights(o, count, &most, &some, err));
    return tarn__order_draws(o, count, out_total, err);
}

const tarn__order_kind tarn__order_weighted = {"weighted", measure_alias, make_alias,
                                               drop_alias, map_alias,     NULL};

/* --- Without replacement ----------------------------------------------------------- */

/* -log2(bits / 2^64), computed by squaring to 52 binary places; only the last few may be
 * wrong. Never 0. */
static double exponential(uint64_t bits)
{
    uint64_t x = bits | 1;
    int zeros = __builtin_clzll(x);
    uint64_t fraction = 0;
    x <<= zeros;
    for (int i = 0; i < 52; i++) {
        unsigned __int128 square = (unsigned __int128)x * x;
        unsigned carry = (unsigned)(square >> 127);
        fraction = fraction << 1 | carry;
        x = (uint64_t)(square >> (63 + carry));
    }
    return zeros + (double)((UINT64_C(1) << 52) - fraction) * 0x1p-52;
}

/* variate / weight as an integer that sorts in the same order, for all exponents. */
static uint64_t ticket_key(double variate, double weight)
{
    int e_variate, e_weight, e;
    double v = frexp(variate, &e_variate), w = frexp(weight, &e_weight);
    double mantissa = frexp(v / w, &e);
    uint64_t exponent = (uint64_t)(8192 + e + e_variate - e_weight);
    return exponent << 50 | (uint64_t)((mantissa - 0.5) * 0x1p51);
}

static void draw_tickets(const tarn_order_options *o, uint64_t count,
                         tarn__numbered *tickets)
{
    uint64_t key = tarn__order_key(o, TARN__KEY_ONCE);
    for (uint64_t i = 0; i < count; i++) {
        if (!(o->weights[i] > 0)) continue;
        double variate = exponential(tarn__draw(key, i));
        *tickets++ = (tarn__numbered){ticket_key(variate, o->weights[i]), i};
    }
}

static tarn_status make_once(const tarn_order_options *o, uint64_t count, uint64_t total,
                             void **out, tarn_error *err)
{
    double most;
    uint64_t some;
    TARN_TRY(check_weights(o, count, &most, &some, err));
    tarn__numbered *tickets = tarn__order_alloc(some, 2 * sizeof *tickets, err);
    uint64_t *samples = tickets ? tarn__order_alloc(total, sizeof *samples, err) : NULL;
    if (samples) {
        draw_tickets(o, count, tickets);
        tarn__numbered_sort(tickets, tickets + some, some);
        for (uint64_t i = 0; i < total; i++)
            samples[i] = tickets[i].sample;
    }
    free(tickets);
    *out = samples;
    return samples ? TARN_OK : TARN_ERR_MEMORY;
}

static tarn_status measure_once(const tarn_order_options *o, uint64_t count,
                                uint64_t *out_total, tarn_error *err)
{
    double most;
    uint64_t some;
    TARN_TRY(check_weights(o, count, &most, &some, err));
    *out_total = o->draws && o->draws < some ? o->draws : some;
    return TARN_OK;
}

const tarn__order_kind tarn__order_once = {
    "weighted-once", measure_once, make_once, free, tarn__order_map_samples, NULL};
