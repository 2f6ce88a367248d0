/* An order as a rank sees it: which positions of the epoch are its own, in which batches,
 * and how much is used up. Which sample stands at a position is the kind's. */
#include "dataset/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/options.h"
#include "dataset/order_random.h"

struct tarn_order {
    tarn_order_options o;
    const tarn__order_kind *kind;
    void *made; /* the kind's, for the epoch; NULL if it needs nothing */
    uint64_t count, total, start;
    uint64_t length, batches;
};

static const tarn__order_kind *const kinds[] = {
    [TARN_ORDER_IDENTITY] = &tarn__order_identity,
    [TARN_ORDER_SHUFFLE] = &tarn__order_shuffle,
    [TARN_ORDER_BLOCKS] = &tarn__order_blocks,
    [TARN_ORDER_FEISTEL] = &tarn__order_feistel,
    [TARN_ORDER_BUCKETS] = &tarn__order_buckets,
    [TARN_ORDER_WEIGHTED] = &tarn__order_weighted,
    [TARN_ORDER_WEIGHTED_ONCE] = &tarn__order_once,
    [TARN_ORDER_BALANCED] = &tarn__order_balanced,
    [TARN_ORDER_LENGTHS] = &tarn__order_lengths,
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

const char *tarn_order_kind_name(tarn_order_kind kind)
{
    return (unsigned)kind < N_KINDS ? kinds[kind]->name : NULL;
}

tarn_status tarn_order_kind_find(const char *name, tarn_order_kind *out, tarn_error *err)
{
    char known[256] = "", shown[64];
    for (unsigned k = 0; k < N_KINDS; k++) {
        if (strcmp(name, kinds[k]->name) == 0) {
            *out = (tarn_order_kind)k;
            return TARN_OK;
        }
        size_t len = strlen(known);
        snprintf(known + len, sizeof known - len, "%s%s", len ? ", " : "",
                 kinds[k]->name);
    }
    return tarn__fail(err, TARN_ERR_NOT_FOUND, "no order %s: there are %s",
                      tarn_printable(shown, sizeof shown, name, strlen(name)), known);
}

tarn_status tarn__order_need(const void *array, const char *name, uint64_t count,
                             tarn_error *err)
{
    if (array || count == 0) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "this order needs %s", name);
}

void *tarn__order_alloc(uint64_t count, size_t item, tarn_error *err)
{
    uint64_t size;
    void *memory = tarn__mul(count, item, &size) && size < PTRDIFF_MAX
                       ? malloc(size ? size : 1)
                       : NULL;
    if (!memory) (void)tarn__fail_memory(err);
    return memory;
}

void tarn__order_map_samples(const void *made, uint64_t *at, size_t n)
{
    const uint64_t *samples = made;
    for (size_t i = 0; i < n; i++)
        at[i] = samples[at[i]];
}

/* --- Identity and the shuffle ------------------------------------------------------ */

static void keep(const void *made, uint64_t *at, size_t n)
{
    (void)made, (void)at, (void)n;
}

const tarn__order_kind tarn__order_identity = {"identity", NULL, NULL, NULL, keep};

static tarn_status make_shuffle(const tarn_order_options *o, uint64_t count,
                                uint64_t total, void **out, tarn_error *err)
{
    (void)total;
    tarn__shuffle *s = tarn__order_alloc(1, sizeof *s, err);
    if (!s) return TARN_ERR_MEMORY;
    tarn__shuffle_init(s, count, tarn__order_key(o, TARN__KEY_SHUFFLE));
    *out = s;
    return TARN_OK;
}

static void map_shuffle(const void *made, uint64_t *at, size_t n)
{
    tarn__shuffle_map(made, at, n);
}

const tarn__order_kind tarn__order_shuffle = {"shuffle", NULL, make_shuffle, free,
                                              map_shuffle};

/* --- Opening ----------------------------------------------------------------------- */

static tarn_status check(uint64_t count, const tarn_order_options *o, tarn_error *err)
{
    if ((unsigned)o->kind >= N_KINDS)
        return tarn__fail(err, TARN_ERR_USAGE, "no kind of order %d", (int)o->kind);
    if ((unsigned)o->ranks > TARN_RANKS_PAD)
        return tarn__fail(err, TARN_ERR_USAGE, "no way of sharing out %d", (int)o->ranks);
    if (count > TARN_MAX_ORDER || o->draws > TARN_MAX_ORDER)
        return tarn__fail(err, TARN_ERR_LIMIT, "an order has at most 2^62 positions");
    if (o->world < 1 || o->rank >= o->world)
        return tarn__fail(err, TARN_ERR_USAGE, "no rank %llu of %llu: ranks count from 0",
                          (unsigned long long)o->rank, (unsigned long long)o->world);
    if (o->world > TARN_MAX_ORDER_RANKS || o->batch > TARN_MAX_ORDER_BATCH)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "an order has at most 2^30 ranks, and samples in a batch");
    if (o->equal_batches && o->batch == 0)
        return tarn__fail(err, TARN_ERR_USAGE, "equal batches of what size?");
    return TARN_OK;
}

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

/* With UNEVEN and equal batches a rank of len samples begins its k-th batch here. For two
 * lengths that differ by one this differs by at most one, and the longer rank comes
 * first: what all ranks have used up after k batches has no gap. */
static uint64_t spread(uint64_t len, uint64_t k, uint64_t batches)
{
    return (uint64_t)((unsigned __int128)len * k / batches);
}

static bool spreads(const tarn_order *order)
{
    return order->o.equal_batches && order->o.ranks == TARN_RANKS_UNEVEN;
}

static void share_out(tarn_order *order)
{
    const tarn_order_options *o = &order->o;
    uint64_t left = order->total - order->start, most = divide_up(left, o->world);
    if (o->ranks == TARN_RANKS_PAD)
        order->length = most;
    else
        order->length = left / o->world;
    if (o->ranks == TARN_RANKS_UNEVEN && o->rank < left % o->world) order->length++;
    if (o->equal_batches && o->ranks == TARN_RANKS_DROP)
        order->length -= order->length % o->batch;
    if (o->equal_batches && o->ranks == TARN_RANKS_PAD)
        order->length = divide_up(most, o->batch) * o->batch;
    order->batches =
        o->batch ? divide_up(spreads(order) ? most : order->length, o->batch) : 0;
}

static tarn_status make(tarn_order *order, tarn_error *err)
{
    if (!order->kind->make || order->total == 0) return TARN_OK;
    return order->kind->make(&order->o, order->count, order->total, &order->made, err);
}

static tarn_status measure_and_make(tarn_order *order, uint64_t start, tarn_error *err)
{
    order->total = order->count;
    if (order->kind->measure)
        TARN_TRY(order->kind->measure(&order->o, order->count, &order->total, err));
    if (start > order->total)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the state is at position %llu of an epoch of %llu",
                          (unsigned long long)start, (unsigned long long)order->total);
    order->start = start;
    share_out(order);
    return make(order, err);
}

tarn_status tarn__order_open(uint64_t count, const tarn_order_options *o, uint64_t start,
                             tarn_order **out, tarn_error *err)
{
    TARN_TRY(check(count, o, err));
    tarn_order *order = calloc(1, sizeof *order);
    if (!order) return tarn__fail_memory(err);
    order->o = *o;
    order->o.negative = o->negative && o->seed; /* -0 is 0 */
    order->kind = kinds[o->kind];
    order->count = count;
    tarn_status status = measure_and_make(order, start, err);
    if (status == TARN_OK)
        *out = order;
    else
        tarn_order_close(order);
    return status;
}

tarn_status tarn_order_open(uint64_t count, const tarn_order_options *options,
                            tarn_order **out, tarn_error *err)
{
    TARN__OPTIONS(tarn_order_options, o, TARN_ORDER_OPTIONS_INIT, options, err);
    return tarn__order_open(count, &o, 0, out, err);
}

void tarn_order_close(tarn_order *order)
{
    if (!order) return;
    if (order->made) order->kind->drop(order->made);
    free(order);
}

const tarn_order_options *tarn__order_options(const tarn_order *order)
{
    return &order->o;
}

tarn_status tarn_order_set_epoch(tarn_order *order, uint64_t epoch, tarn_error *err)
{
    tarn_order next = *order;
    next.o.epoch = epoch;
    next.made = NULL;
    /* Measured anew: the arrays are the caller's, who may have changed them. */
    TARN_TRY(measure_and_make(&next, 0, err));
    if (order->made) order->kind->drop(order->made);
    *order = next;
    return TARN_OK;
}

/* --- What comes -------------------------------------------------------------------- */

void tarn_order_info_get(const tarn_order *order, tarn_order_info *out)
{
    *out = (tarn_order_info){order->o.kind, order->count, order->o.seed, order->o.epoch,
                             order->total,  order->start, order->length, order->batches};
}

uint64_t tarn_order_length(const tarn_order *order)
{
    return order->length;
}

static tarn_status past_end(const tarn_order *order, uint64_t from, uint64_t count,
                            tarn_error *err)
{
    return tarn__fail(
        err, TARN_ERR_USAGE, "samples %llu to %llu of rank %llu, which has %llu",
        (unsigned long long)from, (unsigned long long)(from + count),
        (unsigned long long)order->o.rank, (unsigned long long)order->length);
}

/* The rank's positions, wrapped where they are padding. */
static void positions(const tarn_order *order, uint64_t from, size_t n, uint64_t *out)
{
    uint64_t world = order->o.world;
    uint64_t g = order->start + order->o.rank + from * world;
    for (size_t i = 0; i < n; i++, g += world)
        out[i] = g;
    if (order->o.ranks != TARN_RANKS_PAD) return;
    for (size_t i = 0; i < n; i++)
        if (out[i] >= order->total) out[i] %= order->total;
}

tarn_status tarn_order_fill(const tarn_order *order, uint64_t from, uint64_t count,
                            uint64_t *out_samples, tarn_error *err)
{
    enum { PIECE = 1024 }; /* stays in the cache between the two passes */
    if (!tarn__range_in(from, count, order->length))
        return past_end(order, from, count, err);
    for (uint64_t n; count > 0; count -= n, from += n, out_samples += n) {
        n = count < PIECE ? count : PIECE;
        positions(order, from, n, out_samples);
        order->kind->map(order->made, out_samples, n);
    }
    return TARN_OK;
}

tarn_status tarn_order_at(const tarn_order *order, uint64_t i, uint64_t *out_sample,
                          tarn_error *err)
{
    if (i >= order->length) return past_end(order, i, 1, err);
    positions(order, i, 1, out_sample);
    order->kind->map(order->made, out_sample, 1);
    return TARN_OK;
}

tarn_status tarn_order_batch(const tarn_order *order, uint64_t k, uint64_t *out_from,
                             uint64_t *out_count, tarn_error *err)
{
    if (k >= order->batches)
        return tarn__fail(err, TARN_ERR_USAGE, "batch %llu of rank %llu, which has %llu",
                          (unsigned long long)k, (unsigned long long)order->o.rank,
                          (unsigned long long)order->batches);
    uint64_t from = k * order->o.batch, end = from + order->o.batch;
    if (spreads(order)) {
        from = spread(order->length, k, order->batches);
        end = spread(order->length, k + 1, order->batches);
    }
    *out_from = from;
    *out_count = (end < order->length ? end : order->length) - from;
    return TARN_OK;
}

/* --- How much is used up -----------------------------------------------------------
 *
 * The same numbers on every rank, also on one that came to its end before the others. */

/* Samples of the rank that has most. */
static uint64_t longest(const tarn_order *order)
{
    uint64_t left = order->total - order->start;
    return order->o.ranks == TARN_RANKS_UNEVEN ? divide_up(left, order->o.world)
                                               : order->length;
}

/* What DROP leaves out at the end is not used up: on fewer ranks it may still come. */
uint64_t tarn_order_used(const tarn_order *order, uint64_t n)
{
    uint64_t left = order->total - order->start, most = longest(order);
    if (n > most) n = most;
    if (n >= divide_up(left, order->o.world)) return order->total;
    return order->start + n * order->o.world;
}

uint64_t tarn_order_used_batches(const tarn_order *order, uint64_t n)
{
    uint64_t batch = order->o.batch;
    uint64_t most = spreads(order) ? order->batches
                    : batch        ? divide_up(longest(order), batch)
                                   : 0;
    if (n > most) n = most;
    if (!spreads(order)) return tarn_order_used(order, n * batch);
    if (n == most) return order->total;
    uint64_t left = order->total - order->start, world = order->o.world;
    uint64_t longer = left % world, short_len = left / world;
    return order->start + longer * spread(short_len + 1, n, most) +
           (world - longer) * spread(short_len, n, most);
}
