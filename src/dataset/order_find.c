/* The inverse of an order: at which positions a sample is, on which ranks, and in which
 * batches. Kinds that compute their positions also compute the inverse; for the others
 * all positions are mapped and compared. */
#include "base/error.h"
#include "dataset/order_parts.h"

typedef unsigned __int128 wide;

bool tarn__order_has_inverse(const tarn_order *order)
{
    return order->made->kind->find != NULL;
}

/* --- Divisions among ranks -----------------------------------------------------------
 */

typedef struct search {
    const tarn_order *order;
    tarn__order_put put;
    void *context;
} search;

/* Calls put for all positions of the last division that have position p of the division
 * below. With padding these are p, p + from, p + 2 from, ... */
static tarn_status put_turns(const search *s, uint64_t p, tarn_error *err)
{
    const tarn_order *order = s->order;
    const tarn_order_options *o = &order->o;
    bool pad = o->uneven == TARN_UNEVEN_PAD;
    wide end = order->start + (wide)tarn__order_length_of(order, 0) * o->world_size;
    for (wide at = p; at < end; at += order->total) {
        if (at < order->start) continue;
        if (at >= order->total && !pad) break;
        tarn__order_turn turn = {.position = (uint64_t)at};
        turn.rank = (turn.position - order->start) % o->world_size;
        turn.i = (turn.position - order->start) / o->world_size;
        if (turn.i >= tarn__order_length_of(order, turn.rank)) continue;
        TARN_TRY(s->put(s->context, &turn, err));
    }
    return TARN_OK;
}

/* The same through the earlier divisions, of which level is the next one. */
static tarn_status put_through(const search *s, size_t level, uint64_t p, tarn_error *err)
{
    if (level == s->order->n_inner) return put_turns(s, p, err);
    const tarn__share *d = &s->order->inner[level];
    uint64_t length =
        tarn__share_length(d->from - d->start, d->rank, d->world, d->uneven);
    wide end = d->start + (wide)length * d->world;
    for (wide at = p; at < end; at += d->from) {
        if (at < d->start) continue;
        if (at >= d->from && d->uneven != TARN_UNEVEN_PAD) break;
        uint64_t past = (uint64_t)at - d->start, i = past / d->world;
        if (past % d->world == d->rank && i < length)
            TARN_TRY(put_through(s, level + 1, i, err));
    }
    return TARN_OK;
}

/* --- Finding -------------------------------------------------------------------------
 */

/* The number of positions of the kind: those before the first division. */
static uint64_t kind_total(const tarn_order *order)
{
    return order->n_inner ? order->inner[0].from : order->total;
}

static tarn_status map_and_compare(const search *s, uint64_t sample, tarn_error *err)
{
    enum { PIECE = 1024 };
    uint64_t at[PIECE], total = kind_total(s->order);
    const tarn__order_made *made = s->order->made;
    for (uint64_t from = 0, n; from < total; from += n) {
        n = total - from < PIECE ? total - from : PIECE;
        for (uint64_t i = 0; i < n; i++)
            at[i] = from + i;
        made->kind->map(made->data, at, (size_t)n);
        for (uint64_t i = 0; i < n; i++)
            if (at[i] == sample) TARN_TRY(put_through(s, 0, from + i, err));
    }
    return TARN_OK;
}

tarn_status tarn__order_find(const tarn_order *order, uint64_t sample,
                             tarn__order_put put, void *context, tarn_error *err)
{
    search s = {order, put, context};
    const tarn__order_made *made = order->made;
    uint64_t total = kind_total(order);
    if (sample >= order->count || total == 0) return TARN_OK;
    if (!made->kind->find) return map_and_compare(&s, sample, err);
    for (uint64_t p = 0; p < total; p++) {
        p = made->kind->find(made->data, total, sample, p);
        if (p == TARN__NO_POSITION) break;
        TARN_TRY(put_through(&s, 0, p, err));
    }
    return TARN_OK;
}

typedef struct own {
    uint64_t rank, from, best;
} own;

static tarn_status keep_own(void *context, const tarn__order_turn *turn, tarn_error *err)
{
    (void)err;
    own *o = context;
    if (turn->rank == o->rank && turn->i >= o->from && turn->i < o->best)
        o->best = turn->i;
    return TARN_OK;
}

uint64_t tarn__order_find_own(const tarn_order *order, uint64_t sample, uint64_t from)
{
    own o = {order->o.rank, from, TARN__NO_POSITION};
    tarn_status status = tarn__order_find(order, sample, keep_own, &o, NULL);
    return status == TARN_OK ? o.best : TARN__NO_POSITION;
}

/* --- Batches -------------------------------------------------------------------------
 */

void tarn__order_batch_of(const tarn_order *order, uint64_t rank, uint64_t i,
                          uint64_t *out_batch, uint64_t *out_place)
{
    uint64_t batch = order->o.batch;
    *out_batch = i / batch;
    *out_place = i % batch;
    if (!tarn__order_has_equal_batches(order)) return;
    /* The last batch k that begins at floor(length k / batches) <= i. */
    uint64_t length = tarn__order_length_of(order, rank);
    *out_batch = (uint64_t)((((wide)i + 1) * order->batches - 1) / length);
    *out_place = i - (uint64_t)((wide)length * *out_batch / order->batches);
}
