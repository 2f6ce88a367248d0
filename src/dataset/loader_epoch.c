/* loader_epoch.c: the batches of one epoch for one rank, also of an epoch that was
 * resumed in the middle. Windows and callers share an epoch, and the last one frees it.
 */
#include <stdlib.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"
#include "dataset/order.h"

/* Whether batches are made equal although ranks have different lengths. */
static bool has_equal_batches(const tarn_order *order)
{
    const tarn_order_options *o = tarn__order_options(order);
    return o->equal_batches && !o->drop_last && o->uneven == TARN_UNEVEN_KEEP;
}

/* The first batch that begins at or after position start. */
static uint64_t batch_after(const tarn_order *all, uint64_t batches, uint64_t start)
{
    uint64_t low = 0, high = batches;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (tarn__order_used_batches(all, middle) < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Continues with the batches of all, from position start. Takes ownership of all. */
static void continue_with(tarn__epoch *e, tarn_order *all, uint64_t start)
{
    const tarn_order_options *o = tarn__order_options(all);
    tarn_order_info info;
    tarn_order_info_get(all, &info, sizeof info);
    e->first = batch_after(all, info.batches, start);
    uint64_t n = tarn__order_used_batches(all, e->first) - start;
    e->left = info.batches - e->first + (n > 0);
    e->n_rest = n / o->world_size + (o->rank < n % o->world_size);
    if (n > 0)
        e->rest = e->order;
    else
        tarn_order_close(e->order);
    e->order = all;
}

/* Counts the batches of the whole epoch, also if the order starts in the middle of it. */
static tarn_status count_batches(tarn__epoch *e, const tarn_order_info *info,
                                 tarn_error *err)
{
    tarn_order *whole;
    tarn_order_info all;
    e->batches = e->left = info->batches;
    if (info->start == 0) return TARN_OK;
    TARN_TRY(tarn__order_at_epoch(e->order, info->epoch, 0, &whole, err));
    tarn_order_info_get(whole, &all, sizeof all);
    tarn_order_close(whole);
    e->batches = all.batches;
    return TARN_OK;
}

static tarn_status begin_epoch(tarn__epoch *e, uint64_t origin, tarn_error *err)
{
    tarn_order *all;
    tarn_order_info info;
    tarn_order_info_get(e->order, &info, sizeof info);
    e->number = info.epoch;
    TARN_TRY(count_batches(e, &info, err));
    if (info.start <= origin || !has_equal_batches(e->order)) return TARN_OK;
    TARN_TRY(tarn__order_at_epoch(e->order, info.epoch, origin, &all, err));
    continue_with(e, all, info.start);
    return TARN_OK;
}

tarn_status tarn__epoch_new(tarn_dataset *set, tarn_order *order, uint64_t origin,
                            tarn__epoch **out, tarn_error *err)
{
    tarn__epoch *e = calloc(1, sizeof *e);
    if (!e) {
        tarn_dataset_close(set);
        tarn_order_close(order);
        return tarn__fail_memory(err);
    }
    atomic_init(&e->users, 1);
    e->set = set;
    e->order = order;
    tarn_status status = begin_epoch(e, origin, err);
    if (status == TARN_OK)
        *out = e;
    else
        tarn__epoch_release(e);
    return status;
}

const tarn_order *tarn__epoch_batch(const tarn__epoch *e, uint64_t i, uint64_t *out_from,
                                    uint64_t *out_count)
{
    *out_from = *out_count = 0;
    if (e->rest && i == 0) {
        *out_count = e->n_rest;
        return e->rest;
    }
    uint64_t k = e->first + i - (e->rest != NULL);
    return tarn__order_batch(e->order, k, out_from, out_count, NULL) == TARN_OK ? e->order
                                                                                : NULL;
}

uint64_t tarn__epoch_used(const tarn__epoch *e, uint64_t i)
{
    if (e->rest && i == 0) return tarn__order_used_batches(e->rest, 0);
    return tarn__order_used_batches(e->order, e->first + i - (e->rest != NULL));
}

tarn__epoch *tarn__epoch_use(tarn__epoch *e)
{
    atomic_fetch_add(&e->users, 1);
    return e;
}

void tarn__epoch_release(tarn__epoch *e)
{
    if (!e || atomic_fetch_sub(&e->users, 1) != 1) return;
    tarn_dataset_close(e->set);
    tarn_order_close(e->order);
    tarn_order_close(e->rest);
    free(e);
}

tarn_status tarn__epoch_other(const tarn__epoch *e, uint64_t number, tarn__epoch **out,
                              tarn_error *err)
{
    tarn_dataset *set;
    tarn_order *order;
    TARN_TRY(tarn__dataset_base_at(e->set, number, &set, err));
    tarn_status status = tarn__order_at_epoch(e->order, number, 0, &order, err);
    if (status == TARN_OK) return tarn__epoch_new(set, order, 0, out, err);
    tarn_dataset_close(set);
    return status;
}
