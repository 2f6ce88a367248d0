/* Orders: which positions of an epoch belong to a rank, in which batches, and how many
 * are used. The kind of order maps positions to samples. */
#include "dataset/order_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/options.h"

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

tarn_status tarn_order_kind_find(const char *name, tarn_order_kind *out, tarn_error *err)
{
    TARN__NEED(err, "name", name);
    TARN__NEED(err, "out", out);
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
    return tarn__fail(err, TARN_ERR_NOT_FOUND, "unknown order %s; the orders are %s",
                      tarn_printable(shown, sizeof shown, name, strlen(name)), known);
}

const char *tarn_order_kind_name(tarn_order_kind kind)
{
    return (unsigned)kind < N_KINDS ? kinds[kind]->name : NULL;
}

/* --- Opening ----------------------------------------------------------------------- */

static tarn_status check_options(uint64_t count, const tarn_order_options *o,
                                 tarn_error *err)
{
    if ((unsigned)o->kind >= N_KINDS)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown kind of order: %d", (int)o->kind);
    if ((unsigned)o->uneven > TARN_UNEVEN_PAD)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown value of uneven: %d",
                          (int)o->uneven);
    if (count > TARN_MAX_ORDER || o->draws > TARN_MAX_ORDER)
        return tarn__fail(err, TARN_ERR_LIMIT, "an order has at most 2^62 positions");
    if (o->world_size < 1 || o->rank >= o->world_size)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "rank %llu is out of range for %llu ranks (ranks start at 0)",
                          (unsigned long long)o->rank, (unsigned long long)o->world_size);
    if (o->world_size > TARN_MAX_ORDER_RANKS || o->batch > TARN_MAX_ORDER_BATCH)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "an order has at most 2^30 ranks and 2^30 samples in a batch");
    if ((o->equal_batches || o->drop_last) && o->batch == 0)
        return tarn__fail(err, TARN_ERR_USAGE, "equal or full batches need a batch size");
    return TARN_OK;
}

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

uint64_t tarn__share_length(uint64_t positions, uint64_t rank, uint64_t world,
                            tarn_uneven uneven)
{
    if (uneven == TARN_UNEVEN_PAD) return divide_up(positions, world);
    if (uneven == TARN_UNEVEN_DROP) return positions / world;
    return positions / world + (rank < positions % world);
}

/* With TARN_UNEVEN_KEEP and equal batches, the k-th batch of a rank of len samples begins
 * here. For two lengths that differ by one, the results differ by at most one, and the
 * longer rank is a lower one. So the positions used by all ranks after k batches have no
 * gap. */
static uint64_t equal_batch_start(uint64_t len, uint64_t k, uint64_t batches)
{
    return (uint64_t)((unsigned __int128)len * k / batches);
}

bool tarn__order_has_equal_batches(const tarn_order *order)
{
    return order->o.equal_batches && !order->o.drop_last &&
           order->o.uneven == TARN_UNEVEN_KEEP;
}

uint64_t tarn__order_length_of(const tarn_order *order, uint64_t rank)
{
    const tarn_order_options *o = &order->o;
    uint64_t left = order->total - order->start, most = divide_up(left, o->world_size);
    uint64_t length = tarn__share_length(left, rank, o->world_size, o->uneven);
    if (o->drop_last) {
        length = o->uneven == TARN_UNEVEN_PAD ? most : left / o->world_size;
        return length - length % o->batch;
    }
    if (o->equal_batches && o->uneven == TARN_UNEVEN_DROP)
        return length - length % o->batch;
    if (o->equal_batches && o->uneven == TARN_UNEVEN_PAD)
        return divide_up(most, o->batch) * o->batch;
    return length;
}

static void set_length(tarn_order *order)
{
    const tarn_order_options *o = &order->o;
    uint64_t most = divide_up(order->total - order->start, o->world_size);
    order->length = tarn__order_length_of(order, o->rank);
    if (!tarn__order_has_equal_batches(order)) most = order->length;
    order->batches = o->batch ? divide_up(most, o->batch) : 0;
}

static void release_made(tarn__order_made *m)
{
    if (!m || atomic_fetch_sub(&m->users, 1) != 1) return;
    if (m->data) m->kind->drop(m->data);
    free(m);
}

/* Computes the number of positions of an epoch, and the data the kind needs to map them.
 */
static tarn_status measure_and_make(tarn_order *order, tarn_error *err)
{
    const tarn__order_kind *kind = kinds[order->o.kind];
    uint64_t total = order->count;
    if (kind->measure) TARN_TRY(kind->measure(&order->o, order->count, &total, err));
    tarn__order_made *m = order->made = calloc(1, sizeof *m);
    if (!m) return tarn__fail_memory(err);
    atomic_init(&m->users, 1);
    m->kind = kind;
    order->total = total;
    if (!kind->make || total == 0) return TARN_OK;
    return kind->make(&order->o, order->count, total, &m->data, err);
}

static tarn_status set_start(tarn_order *order, uint64_t start, tarn_error *err)
{
    if (start > order->total)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the state is at position %llu, but the epoch has %llu",
                          (unsigned long long)start, (unsigned long long)order->total);
    order->start = start;
    set_length(order);
    return TARN_OK;
}

/* The option that holds the kind's array; items of all arrays have eight bytes. */
static const void **array_slot(tarn_order_options *o, uint64_t count, uint64_t *out_n)
{
    *out_n = o->kind == TARN_ORDER_BUCKETS ? o->n_buckets : count;
    switch (o->kind) {
    case TARN_ORDER_BUCKETS:
        return (const void **)&o->buckets;
    case TARN_ORDER_WEIGHTED:
    case TARN_ORDER_WEIGHTED_ONCE:
        return (const void **)&o->weights;
    case TARN_ORDER_BALANCED:
        return (const void **)&o->classes;
    case TARN_ORDER_LENGTHS:
        return (const void **)&o->lengths;
    default:
        return NULL;
    }
}

static tarn_status copy_array(tarn_order *order, tarn_error *err)
{
    uint64_t n, size;
    const void **slot = array_slot(&order->o, order->count, &n);
    const void *given = slot ? *slot : NULL;
    order->o.buckets = order->o.lengths = NULL;
    order->o.weights = NULL;
    order->o.classes = NULL;
    if (!given) return TARN_OK;
    if (!tarn__mul(n, sizeof(uint64_t), &size) || size > PTRDIFF_MAX / 2 ||
        !(order->array = tarn__big_alloc(sizeof(tarn__order_array) + size)))
        return tarn__fail_memory(err);
    atomic_init(&order->array->users, 1);
    order->array->count = n;
    if (size) memcpy(order->array->items, given, size);
    *slot = order->array->items;
    return TARN_OK;
}

static tarn_status order_new(uint64_t count, const tarn_order_options *o,
                             tarn_order **out, tarn_error *err)
{
    TARN_TRY(check_options(count, o, err));
    tarn_order *order = *out = calloc(1, sizeof *order);
    if (!order) return tarn__fail_memory(err);
    atomic_init(&order->users, 1);
    order->o = *o;
    order->o.negative = o->negative && o->seed; /* -0 is 0 */
    order->split = o->world_size > 1;
    order->count = count;
    return TARN_OK;
}

tarn_status tarn__order_open(uint64_t count, const tarn_order_options *o, uint64_t start,
                             tarn_order **out, tarn_error *err)
{
    tarn_order *order = NULL;
    tarn_status status = order_new(count, o, &order, err);
    if (status == TARN_OK) status = copy_array(order, err);
    if (status == TARN_OK) status = measure_and_make(order, err);
    if (status == TARN_OK) status = set_start(order, start, err);
    if (status == TARN_OK)
        *out = order;
    else
        tarn_order_close(order);
    return status;
}

TARN__DEFINE_INIT(tarn_order_options, TARN_ORDER_OPTIONS_INIT)

tarn_status tarn_order_open(uint64_t count, const tarn_order_options *options,
                            tarn_order **out, tarn_error *err)
{
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_order_options, o, TARN_ORDER_OPTIONS_INIT, options, err);
    return tarn__order_open(count, &o, 0, out, err);
}

tarn_order *tarn__order_use(tarn_order *order)
{
    atomic_fetch_add(&order->users, 1);
    return order;
}

void tarn_order_close(tarn_order *order)
{
    if (!order || atomic_fetch_sub(&order->users, 1) != 1) return;
    release_made(order->made);
    if (order->array && atomic_fetch_sub(&order->array->users, 1) == 1)
        free(order->array);
    free(order->inner);
    free(order);
}

const tarn_order_options *tarn__order_options(const tarn_order *order)
{
    return &order->o;
}

/* --- Orders from orders ------------------------------------------------------------ */

static tarn_status copy_inner(tarn_order *order, const tarn_order *from, size_t more,
                              tarn_error *err)
{
    size_t n = from->n_inner;
    if (n + more == 0) return TARN_OK;
    order->inner = calloc(n + more, sizeof *order->inner);
    if (!order->inner) return tarn__fail_memory(err);
    if (n) memcpy(order->inner, from->inner, n * sizeof *order->inner);
    order->n_inner = n;
    return TARN_OK;
}

/* Turns the split of the options into an inner one. */
static void push_inner(tarn_order *order, const tarn_order_options *o, uint64_t start)
{
    order->inner[order->n_inner++] =
        (tarn__share){o->rank, o->world_size, o->uneven, start, order->total};
    order->total =
        tarn__share_length(order->total - start, o->rank, o->world_size, o->uneven);
}

static tarn_status derive(const tarn_order *from, const tarn_order_options *o,
                          uint64_t start, bool push, tarn_order **out, tarn_error *err)
{
    tarn_order *order = NULL;
    TARN_TRY(order_new(from->count, o, &order, err));
    order->split |= from->split;
    if ((order->array = from->array)) atomic_fetch_add(&order->array->users, 1);
    tarn_status status = copy_inner(order, from, push, err);
    if (status == TARN_OK && o->epoch == from->o.epoch) {
        order->made = from->made;
        atomic_fetch_add(&order->made->users, 1);
        order->total = from->total;
    } else if (status == TARN_OK) {
        status = measure_and_make(order, err);
        for (size_t i = 0; status == TARN_OK && i < order->n_inner; i++) {
            tarn__share *s = &order->inner[i];
            s->start = 0; /* positions were left out of another epoch only */
            s->from = order->total;
            order->total = tarn__share_length(order->total, s->rank, s->world, s->uneven);
        }
    }
    if (status == TARN_OK && push) push_inner(order, &from->o, from->start);
    if (status == TARN_OK) status = set_start(order, start, err);
    if (status == TARN_OK)
        *out = order;
    else
        tarn_order_close(order);
    return status;
}

tarn_status tarn__order_at_epoch(const tarn_order *from, uint64_t epoch, uint64_t start,
                                 tarn_order **out, tarn_error *err)
{
    tarn_order_options o = from->o;
    o.epoch = epoch;
    return derive(from, &o, start, false, out, err);
}

tarn_status tarn__order_split(const tarn_order *from, uint64_t rank, uint64_t world,
                              tarn_uneven uneven, tarn_order **out, tarn_error *err)
{
    bool push = from->split;
    tarn_order_options o = from->o;
    o.rank = rank;
    o.world_size = world;
    o.uneven = uneven;
    TARN_TRY(derive(from, &o, push ? 0 : from->start, push, out, err));
    (*out)->split = true;
    return TARN_OK;
}

tarn_status tarn__order_in_batches(const tarn_order *from, uint64_t batch, bool equal,
                                   bool drop_last, tarn_order **out, tarn_error *err)
{
    tarn_order_options o = from->o;
    o.batch = batch;
    o.equal_batches = equal;
    o.drop_last = drop_last;
    return derive(from, &o, from->start, false, out, err);
}

bool tarn__order_has_array(const tarn_order *order)
{
    return order->array != NULL;
}

bool tarn__order_is_whole(const tarn_order *order)
{
    return !order->split && order->start == 0;
}

/* Counts the kept samples in each bucket. */
static void filter_buckets(const tarn_order *from, const uint64_t *kept, uint64_t n,
                           uint64_t *out)
{
    uint64_t end = 0, i = 0;
    for (uint64_t b = 0; b < from->array->count; b++) {
        uint64_t before = i;
        end += from->array->items[b];
        while (i < n && kept[i] < end)
            i++;
        out[b] = i - before;
    }
}

tarn_status tarn__order_filtered(const tarn_order *from, const uint64_t *kept, uint64_t n,
                                 tarn_order **out, tarn_error *err)
{
    tarn_order_options o = from->o;
    if (n == 0) o.kind = TARN_ORDER_IDENTITY; /* other kinds cannot draw from 0 samples */
    if (!from->array || n == 0) return tarn__order_open(n, &o, 0, out, err);
    bool buckets = o.kind == TARN_ORDER_BUCKETS;
    uint64_t room = buckets ? from->array->count : n, ignored;
    uint64_t *items = tarn__order_alloc(room, sizeof *items, err);
    if (!items) return TARN_ERR_MEMORY;
    if (buckets)
        filter_buckets(from, kept, n, items);
    else
        for (uint64_t i = 0; i < n; i++)
            items[i] = from->array->items[kept[i]];
    *array_slot(&o, n, &ignored) = items;
    tarn_status status = tarn__order_open(n, &o, 0, out, err);
    free(items);
    return status;
}

/* --- Samples and batches ----------------------------------------------------------- */

void tarn_order_info_get(const tarn_order *order, tarn_order_info *out, size_t size)
{
    if (!order) {
        TARN__FILL_ZERO(out, size);
        return;
    }
    tarn_order_info info = {.kind = order->o.kind,
                            .name = kinds[order->o.kind]->name,
                            .count = order->count,
                            .seed = order->o.seed,
                            .epoch = order->o.epoch,
                            .total = order->total,
                            .start = order->start,
                            .length = order->length,
                            .batches = order->batches};
    TARN__FILL_OUT(out, size, info);
}

uint64_t tarn__order_length(const tarn_order *order)
{
    return order->length;
}

uint64_t tarn__order_position(const tarn_order *order, uint64_t i)
{
    return order->start + order->o.rank + i * order->o.world_size;
}

static void map_share(const tarn__share *s, uint64_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = s->start + s->rank + at[i] * s->world;
    for (size_t i = 0; s->uneven == TARN_UNEVEN_PAD && i < n; i++)
        if (at[i] >= s->from) at[i] %= s->from; /* padding */
}

/* Maps positions of this rank to positions of the kind, through all splits. */
static void map_shares(const tarn_order *order, uint64_t *at, size_t n)
{
    const tarn_order_options *o = &order->o;
    tarn__share own = {o->rank, o->world_size, o->uneven, order->start, order->total};
    map_share(&own, at, n);
    for (size_t k = order->n_inner; k-- > 0;)
        map_share(&order->inner[k], at, n);
}

void tarn__order_map(const tarn_order *order, uint64_t *at, size_t n)
{
    const tarn_order_options *o = &order->o;
    if (o->world_size > 1 || order->start || o->uneven == TARN_UNEVEN_PAD ||
        order->n_inner)
        map_shares(order, at, n);
    order->made->kind->map(order->made->data, at, n);
}

tarn_status tarn_order_fill(const tarn_order *order, uint64_t from, uint64_t count,
                            uint64_t *out_samples, tarn_error *err)
{
    TARN__NEED(err, "order", order);
    TARN__NEED(err, "out_samples", out_samples || !count);
    enum { PIECE = 1024 }; /* stays in the cache between the two passes */
    if (count == 1 && from < order->length) {
        *out_samples = from;
        tarn__order_map(order, out_samples, 1);
        return TARN_OK;
    }
    if (!tarn__range_in(from, count, order->length))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "samples %llu to %llu are out of range: rank %llu has %llu",
                          (unsigned long long)from, (unsigned long long)(from + count),
                          (unsigned long long)order->o.rank,
                          (unsigned long long)order->length);
    for (uint64_t n; count > 0; count -= n, from += n, out_samples += n) {
        n = count < PIECE ? count : PIECE;
        for (uint64_t i = 0; i < n; i++)
            out_samples[i] = from + i;
        tarn__order_map(order, out_samples, n);
    }
    return TARN_OK;
}

tarn_status tarn__order_batch(const tarn_order *order, uint64_t k, uint64_t *out_from,
                              uint64_t *out_count, tarn_error *err)
{
    if (k >= order->batches)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "batch %llu is out of range: rank %llu has %llu",
                          (unsigned long long)k, (unsigned long long)order->o.rank,
                          (unsigned long long)order->batches);
    uint64_t from = k * order->o.batch, end = from + order->o.batch;
    if (tarn__order_has_equal_batches(order)) {
        from = equal_batch_start(order->length, k, order->batches);
        end = equal_batch_start(order->length, k + 1, order->batches);
    }
    *out_from = from;
    *out_count = (end < order->length ? end : order->length) - from;
    return TARN_OK;
}

/* --- Used positions ----------------------------------------------------------------
 *
 * The numbers are the same on every rank, also on one that ends before the others. */

uint64_t tarn__order_used(const tarn_order *order, uint64_t n)
{
    uint64_t left = order->total - order->start,
             most = divide_up(left, order->o.world_size);
    if (order->o.uneven == TARN_UNEVEN_DROP) most = left / order->o.world_size;
    if (n == 0) return order->start;
    return n >= most ? order->total : order->start + n * order->o.world_size;
}

/* The number of batches of the longest rank. */
static uint64_t most_batches(const tarn_order *order)
{
    if (order->o.uneven != TARN_UNEVEN_KEEP || order->o.drop_last ||
        tarn__order_has_equal_batches(order))
        return order->batches;
    return divide_up(divide_up(order->total - order->start, order->o.world_size),
                     order->o.batch);
}

uint64_t tarn__order_used_batches(const tarn_order *order, uint64_t n)
{
    uint64_t batch = order->o.batch, most = batch ? most_batches(order) : 0;
    if (n == 0) return order->start;
    if (n >= most) return order->total;
    if (!tarn__order_has_equal_batches(order)) return tarn__order_used(order, n * batch);
    uint64_t left = order->total - order->start, world = order->o.world_size;
    uint64_t longer = left % world, short_len = left / world;
    return order->start + longer * equal_batch_start(short_len + 1, n, most) +
           (world - longer) * equal_batch_start(short_len, n, most);
}

/* --- Description ------------------------------------------------------------------- */

/* The numeric options, and the kinds that use them. */
#define OF(kind) (1u << (kind))
static const struct {
    const char *name;
    size_t offset;
    unsigned kinds;
} numbers[] = {
    {"rounds", offsetof(tarn_order_options, rounds),
     OF(TARN_ORDER_FEISTEL) | OF(TARN_ORDER_BUCKETS)},
    {"outer", offsetof(tarn_order_options, outer), OF(TARN_ORDER_BUCKETS)},
    {"mix", offsetof(tarn_order_options, mix), OF(TARN_ORDER_BUCKETS)},
    {"block", offsetof(tarn_order_options, block), OF(TARN_ORDER_BLOCKS)},
    {"window", offsetof(tarn_order_options, window), OF(TARN_ORDER_BLOCKS)},
    {"draws", offsetof(tarn_order_options, draws),
     OF(TARN_ORDER_WEIGHTED) | OF(TARN_ORDER_WEIGHTED_ONCE) | OF(TARN_ORDER_BALANCED)},
    {"chunk", offsetof(tarn_order_options, chunk), OF(TARN_ORDER_LENGTHS)},
    {"pool", offsetof(tarn_order_options, pool), OF(TARN_ORDER_LENGTHS)},
};

const char *tarn__uneven_name(tarn_uneven uneven)
{
    static const char *const names[] = {"keep", "drop", "pad"};
    return names[uneven];
}

static tarn_status describe_split(const tarn__share *s, tarn__buf *out, tarn_error *err)
{
    if (s->start)
        TARN_TRY(tarn__buf_printf(out, err, " rest(%llu)", (unsigned long long)s->start));
    if (s->world == 1) return TARN_OK;
    return tarn__buf_printf(out, err, " shard(%llu/%llu,%s)", (unsigned long long)s->rank,
                            (unsigned long long)s->world, tarn__uneven_name(s->uneven));
}

tarn_status tarn__order_describe(const tarn_order *order, bool frozen, tarn__buf *out,
                                 tarn_error *err)
{
    const tarn_order_options *o = &order->o;
    tarn__share last = {o->rank, o->world_size, o->uneven, order->start, order->total};
    if (o->kind != TARN_ORDER_IDENTITY) {
        TARN_TRY(tarn__buf_printf(out, err, " %s(seed=%s%llu", kinds[o->kind]->name,
                                  o->negative ? "-" : "", (unsigned long long)o->seed));
        if (frozen)
            TARN_TRY(
                tarn__buf_printf(out, err, ",epoch=%llu", (unsigned long long)o->epoch));
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (numbers[k].kinds & OF(o->kind))
                TARN_TRY(tarn__buf_printf(
                    out, err, ",%s=%llu", numbers[k].name,
                    (unsigned long long)*(const uint64_t *)((const char *)o +
                                                            numbers[k].offset)));
        if (order->array)
            TARN_TRY(tarn__buf_printf(
                out, err, ",array=%016llx",
                (unsigned long long)XXH64(order->array->items,
                                          (size_t)order->array->count * 8, 0)));
        TARN_TRY(tarn__buf_printf(out, err, ")"));
    }
    for (size_t i = 0; i < order->n_inner; i++)
        TARN_TRY(describe_split(&order->inner[i], out, err));
    if (!frozen) return TARN_OK;
    return o->world_size > 1 || order->start ? describe_split(&last, out, err) : TARN_OK;
}
