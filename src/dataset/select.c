/* Datasets made from datasets: slices, lists, orders, ranks and epochs. Each call returns
 * a new dataset over the same source; nothing is read.
 *
 * A dataset is either plain, with all its steps in its chain, or a plain dataset (base)
 * with an order that changes with the epoch. Choosing positions freezes that order: it
 * becomes a step of the chain. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "dataset/order.h"

/* --- Parts ------------------------------------------------------------------------- */

tarn_status tarn__dataset_ordered(tarn_dataset *base, tarn_order *order,
                                  tarn_dataset **out, tarn_error *err)
{
    tarn_dataset *d;
    tarn_status status = tarn__dataset_like(base, &d, err);
    if (status != TARN_OK) {
        tarn_dataset_close(base);
        tarn_order_close(order);
        return status;
    }
    tarn__chain_reset(&d->chain);
    d->base = base;
    d->order = order;
    d->count = tarn__order_length(order);
    d->epoch = tarn__order_options(order)->epoch;
    *out = d;
    return TARN_OK;
}

tarn_status tarn__dataset_parts(tarn_dataset *d, tarn_dataset **base, tarn_order **order,
                                tarn_error *err)
{
    if (d->order) {
        *base = tarn__dataset_use(d->base);
        *order = tarn__order_use(d->order);
        return TARN_OK;
    }
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    o.epoch = d->epoch;
    TARN_TRY(tarn__order_open(d->count, &o, 0, order, err));
    *base = tarn__dataset_use(d);
    return TARN_OK;
}

/* Sets *out to the dataset on success; otherwise closes it and leaves *out unchanged. */
static tarn_status hand_out(tarn_dataset *d, tarn_status status, tarn_dataset **out)
{
    if (status == TARN_OK)
        *out = d;
    else
        tarn_dataset_close(d);
    return status;
}

/* A plain dataset of the samples in their current order. A mix stays live. */
static tarn_status freeze(tarn_dataset *d, tarn_dataset **out, tarn_error *err)
{
    tarn_dataset *frozen;
    if (!d->order) return tarn__dataset_like(d, out, err);
    TARN_TRY(tarn__dataset_like(d->base, &frozen, err));
    frozen->epoch = d->epoch;
    frozen->count = d->count;
    return hand_out(frozen, tarn__chain_push_order(&frozen->chain, d->order, err), out);
}

/* --- Choosing positions ------------------------------------------------------------ */

tarn_status tarn_dataset_slice(tarn_dataset *d, uint64_t start, int64_t stride,
                               uint64_t count, tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    uint64_t step = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride, reach = 0;
    bool inside =
        count == 0 || (start < d->count && tarn__mul(step, count - 1, &reach) &&
                       (stride < 0 ? reach <= start : reach < d->count - start));
    if (!inside || stride == 0)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "a slice of %llu samples from %llu in steps of %lld is out of "
                          "range for %llu samples",
                          (unsigned long long)count, (unsigned long long)start,
                          (long long)stride, (unsigned long long)d->count);
    tarn_dataset *part;
    TARN_TRY(freeze(d, &part, err));
    part->count = count;
    part->live = false;
    tarn_status status =
        tarn__chain_push_range(&part->chain, count ? start : 0, stride, count, err);
    return hand_out(part, status, out);
}

/* at is overwritten. */
static tarn_status select_positions(tarn_dataset *d, uint64_t *at, uint64_t count,
                                    tarn_dataset **out, tarn_error *err)
{
    tarn_dataset *part;
    TARN_TRY(freeze(d, &part, err));
    part->count = count;
    part->live = false;
    return hand_out(part, tarn__chain_push_list(&part->chain, at, count, err), out);
}

tarn_status tarn_dataset_select(tarn_dataset *d, const uint64_t *samples, size_t count,
                                tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "samples", samples || !count);
    TARN__NEED(err, "out", out);
    uint64_t *at = malloc((count + 1) * sizeof *at);
    if (!at) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        at[i] = samples[i];
        if (at[i] < d->count) continue;
        free(at);
        return tarn__fail(err, TARN_ERR_NO_SAMPLE, "no sample %llu; the dataset has %llu",
                          (unsigned long long)samples[i], (unsigned long long)d->count);
    }
    tarn_status status = select_positions(d, at, count, out, err);
    free(at);
    return status;
}

/* --- Choosing fields ---------------------------------------------------------------- */

tarn_status tarn_dataset_with_fields(tarn_dataset *d, const char *const *fields,
                                     size_t count, tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "fields", fields || !count);
    TARN__NEED(err, "out", out);
    tarn_dataset *made;
    const char **list = calloc(count + 1, sizeof *list);
    if (!list) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++)
        list[i] = fields[i];
    tarn_status status = tarn__dataset_like(d->order ? d->base : d, &made, err);
    if (status == TARN_OK)
        status = hand_out(made, tarn__dataset_set_fields(made, list, err), &made);
    free(list);
    if (status != TARN_OK) return status;
    if (d->order) return tarn__dataset_ordered(made, tarn__order_use(d->order), out, err);
    *out = made;
    return TARN_OK;
}

/* --- Filters ----------------------------------------------------------------------- */

/* Whether filters apply below the order, which then orders the kept samples. */
static bool filters_below_order(const tarn_dataset *d)
{
    return d->order && tarn__order_is_whole(d->order);
}

tarn_status tarn__dataset_judged(tarn_dataset *d, tarn_dataset **out, tarn_error *err)
{
    if (d->order && !filters_below_order(d)) return freeze(d, out, err);
    *out = tarn__dataset_use(d->order ? d->base : d);
    return TARN_OK;
}

static uint64_t count_marked(const unsigned char *marks, uint64_t count)
{
    uint64_t total = 0, word, i = 0;
    for (; i + 64 <= count; i += 64) {
        memcpy(&word, marks + i / 8, sizeof word);
        total += (unsigned)__builtin_popcountll(word);
    }
    for (; i < count; i++)
        total += marks[i / 8] >> (i % 8) & 1;
    return total;
}

/* The order of the n marked samples. */
static tarn_status keep_order(const tarn_order *from, const unsigned char *marks,
                              uint64_t count, uint64_t n, tarn_order **out,
                              tarn_error *err)
{
    if (!tarn__order_has_array(from))
        return tarn__order_filtered(from, NULL, n, out, err);
    uint64_t *at = malloc((size_t)(n + 1) * sizeof *at), k = 0;
    if (!at) return tarn__fail_memory(err);
    for (uint64_t i = 0; i < count && k < n; i++)
        if (marks[i / 8] >> (i % 8) & 1) at[k++] = i;
    tarn_status status = tarn__order_filtered(from, at, n, out, err);
    free(at);
    return status;
}

/* A plain dataset of the marked samples of another. */
static tarn_status keep_marked(tarn_dataset *d, const unsigned char *marks, uint64_t n,
                               tarn_dataset **out, tarn_error *err)
{
    tarn_dataset *kept;
    TARN_TRY(tarn__dataset_like(d, &kept, err));
    tarn_status status = tarn__chain_push_marked(&kept->chain, marks, d->count, n,
                                                 d->source->samples, err);
    if (status != TARN_OK) {
        tarn_dataset_close(kept);
        return status;
    }
    kept->count = n;
    kept->live = false;
    *out = kept;
    return TARN_OK;
}

tarn_status tarn__dataset_keep(tarn_dataset *d, const unsigned char *marks,
                               tarn_dataset **out, tarn_error *err)
{
    tarn_dataset *judged, *kept;
    tarn_order *order = NULL;
    bool below = filters_below_order(d);
    TARN_TRY(tarn__dataset_judged(d, &judged, err));
    uint64_t n = count_marked(marks, judged->count);
    if (n == judged->count && !judged->live && (below || !d->order)) {
        tarn_dataset_close(judged);
        *out = tarn__dataset_use(d);
        return TARN_OK;
    }
    tarn_status status =
        below ? keep_order(d->order, marks, judged->count, n, &order, err) : TARN_OK;
    if (status == TARN_OK) status = keep_marked(judged, marks, n, &kept, err);
    tarn_dataset_close(judged);
    if (status == TARN_OK && order) return tarn__dataset_ordered(kept, order, out, err);
    if (status == TARN_OK)
        *out = kept;
    else
        tarn_order_close(order);
    return status;
}

/* --- Orders, ranks, epochs --------------------------------------------------------- */

tarn_status tarn_dataset_order(tarn_dataset *d, const tarn_order_options *options,
                               tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    tarn_dataset *frozen, *base = NULL;
    tarn_order *order = NULL;
    TARN__OPTIONS(tarn_order_options, o, TARN_ORDER_OPTIONS_INIT, options, err);
    o.batch = 0;
    o.equal_batches = o.drop_last = false;
    if (o.epoch == 0) o.epoch = d->epoch;
    TARN_TRY(freeze(d, &frozen, err));
    tarn_status status = tarn__dataset_base_at(frozen, o.epoch, &base, err);
    if (status == TARN_OK) status = tarn__order_open(d->count, &o, 0, &order, err);
    tarn_dataset_close(frozen);
    if (status != TARN_OK) {
        tarn_dataset_close(base);
        return status;
    }
    /* The array describes these samples, but a mix has others in its next epoch. */
    if (tarn__order_has_array(order)) base->live = false;
    return tarn__dataset_ordered(base, order, out, err);
}

tarn_status tarn_dataset_split(tarn_dataset *d, uint64_t rank, uint64_t world_size,
                               tarn_uneven uneven, tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    tarn_dataset *base;
    tarn_order *order, *part;
    TARN_TRY(tarn__dataset_parts(d, &base, &order, err));
    tarn_status status = tarn__order_split(order, rank, world_size, uneven, &part, err);
    tarn_order_close(order);
    if (status == TARN_OK) return tarn__dataset_ordered(base, part, out, err);
    tarn_dataset_close(base);
    return status;
}

tarn_status tarn__dataset_base_at(tarn_dataset *base, uint64_t epoch, tarn_dataset **out,
                                  tarn_error *err)
{
    uint64_t offset = 0;
    if (base->live &&
        (!tarn__mul(epoch, base->source->samples, &offset) || offset > INT64_MAX))
        return tarn__fail(err, TARN_ERR_LIMIT, "epoch %llu is too high for this mix",
                          (unsigned long long)epoch);
    TARN_TRY(tarn__dataset_like(base, out, err));
    (*out)->epoch = epoch;
    if (base->live) (*out)->chain.offset = offset;
    return TARN_OK;
}

/* The dataset from a position of an epoch on. */
static tarn_status at_position(tarn_dataset *d, uint64_t epoch, uint64_t start,
                               tarn_dataset **out, tarn_error *err)
{
    tarn_dataset *base, *moved;
    tarn_order *order, *part;
    TARN_TRY(tarn__dataset_parts(d, &base, &order, err));
    tarn_status status = tarn__dataset_base_at(base, epoch, &moved, err);
    tarn_dataset_close(base);
    if (status == TARN_OK && !d->order && start == 0) {
        tarn_order_close(order);
        *out = moved;
        return TARN_OK;
    }
    if (status == TARN_OK) {
        status = tarn__order_at_epoch(order, epoch, start, &part, err);
        if (status != TARN_OK) tarn_dataset_close(moved);
    }
    tarn_order_close(order);
    return status == TARN_OK ? tarn__dataset_ordered(moved, part, out, err) : status;
}

tarn_status tarn_dataset_at_epoch(tarn_dataset *d, uint64_t epoch, tarn_dataset **out,
                                  tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    return at_position(d, epoch, 0, out, err);
}

tarn_dataset *tarn_dataset_unordered(tarn_dataset *d)
{
    return d && d->order ? d->base : d;
}

tarn_status tarn_dataset_sequence(tarn_dataset *d, uint64_t from, uint64_t count,
                                  uint64_t *out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out || !count);
    if (d->order) return tarn_order_fill(d->order, from, count, out, err);
    if (!tarn__range_in(from, count, d->count))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "samples %llu to %llu are out of range: the dataset has %llu",
                          (unsigned long long)from, (unsigned long long)(from + count),
                          (unsigned long long)d->count);
    for (uint64_t i = 0; i < count; i++)
        out[i] = from + i;
    return TARN_OK;
}

/* --- Resuming ---------------------------------------------------------------------- */

tarn_status tarn_dataset_state(tarn_dataset *d, uint64_t taken, tarn_text *out,
                               tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    tarn_dataset *base;
    tarn_order *order;
    TARN_TRY(tarn__dataset_parts(d, &base, &order, err));
    uint64_t used = tarn__order_used(order, taken);
    tarn_status status = tarn__state_text(base, order, used, out, err);
    tarn_dataset_close(base);
    tarn_order_close(order);
    return status;
}

tarn_status tarn_dataset_resume(tarn_dataset *d, const char *state, size_t size,
                                tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "state", state);
    TARN__NEED(err, "out", out);
    tarn_dataset *same;
    uint64_t epoch, used;
    TARN_TRY(tarn__state_take(d, state, size, &same, &epoch, &used, err));
    tarn_status status = at_position(same, epoch, used, out, err);
    tarn_dataset_close(same);
    return status;
}
