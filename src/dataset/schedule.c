/* Which batch delivers which samples. The orders are opened as a loader opens them, so
 * that both agree. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/options.h"
#include "base/sort.h"
#include "dataset/dataset.h"
#include "dataset/mix.h"
#include "dataset/order.h"

#include <tarn/schedule.h>

TARN__DEFINE_INIT(tarn_schedule_options, TARN_SCHEDULE_OPTIONS_INIT)

/* An epoch of the dataset: its samples without order, and the order in batches. */
typedef struct epoch {
    tarn_dataset *base;
    tarn_order *order;
} epoch;

static void close_epoch(epoch *e)
{
    tarn_dataset_close(e->base);
    tarn_order_close(e->order);
}

/* An epoch other than the dataset's own starts at its beginning. */
static tarn_status open_epoch(tarn_dataset *d, uint64_t number,
                              const tarn_schedule_options *o, epoch *out, tarn_error *err)
{
    tarn_dataset *moved = NULL;
    tarn_order *order;
    *out = (epoch){NULL, NULL};
    if (number != d->epoch) TARN_TRY(tarn_dataset_at_epoch(d, number, &moved, err));
    tarn_status status = tarn__dataset_parts(moved ? moved : d, &out->base, &order, err);
    tarn_dataset_close(moved);
    if (status != TARN_OK) return status;
    status = tarn__order_in_batches(order, o->batch, o->equal_batches, o->drop_last,
                                    &out->order, err);
    tarn_order_close(order);
    if (status != TARN_OK) close_epoch(out);
    return status;
}

static tarn_status check_options(const tarn_schedule_options *o, tarn_error *err)
{
    if (o->batch > 0) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "batch must be at least 1 (found 0)");
}

/* --- When a sample is delivered ------------------------------------------------------
 */

typedef struct turns {
    tarn_turn *items;
    size_t count, capacity;
    const epoch *epoch;
    uint64_t sample;
} turns;

static tarn_status add_turn(void *context, const tarn__order_turn *found, tarn_error *err)
{
    turns *t = context;
    if (t->count >= TARN_MAX_SCHEDULE_TURNS)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "the sample is delivered more than %llu times; search fewer "
                          "epochs",
                          (unsigned long long)TARN_MAX_SCHEDULE_TURNS);
    TARN_TRY(tarn__grow(&t->items, sizeof *t->items, t->count, &t->capacity, err));
    tarn_turn *turn = &t->items[t->count++];
    *turn = (tarn_turn){.epoch = tarn__order_options(t->epoch->order)->epoch,
                        .rank = found->rank,
                        .position = found->position,
                        .sample = t->sample};
    tarn__order_batch_of(t->epoch->order, found->rank, found->i, &turn->step,
                         &turn->place);
    return TARN_OK;
}

/* Adds the turns of all samples with the key in one epoch. *out_any is set if there is
 * such a sample. */
static tarn_status add_epoch(turns *t, const epoch *e, const char *key, bool *out_any,
                             tarn_error *err)
{
    tarn_error why;
    t->epoch = e;
    for (uint64_t from = 0; from < e->base->count; from++) {
        tarn_status status = tarn__dataset_find_from(e->base, key, from, &from, &why);
        if (status == TARN_ERR_NO_SAMPLE && (*out_any || e->base->live)) return TARN_OK;
        if (status != TARN_OK && err) *err = why;
        TARN_TRY(status);
        *out_any = true;
        t->sample = from;
        TARN_TRY(tarn__order_find(e->order, from, add_turn, t, err));
    }
    return TARN_OK;
}

static int by_position(const void *a, const void *b)
{
    const tarn_turn *x = a, *y = b;
    if (x->epoch != y->epoch) return x->epoch < y->epoch ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* TARN_ERR_NO_SAMPLE if no source of a mix has the key in any epoch. */
static tarn_status check_sources(const tarn_dataset *mix, const char *key,
                                 tarn_error *err)
{
    uint64_t ignored;
    size_t n = tarn__mix_parts(mix->source);
    tarn_status status = TARN_ERR_NO_SAMPLE;
    for (size_t k = 0; k < n && status == TARN_ERR_NO_SAMPLE; k++) {
        tarn_dataset *part = tarn__mix_part(mix->source, k, &ignored);
        tarn_dataset *base = tarn_dataset_unordered(part);
        status = base->live ? check_sources(base, key, err)
                            : tarn_dataset_find(base, &key, 1, &ignored, NULL, err);
    }
    return status;
}

static tarn_status find_turns(tarn_dataset *d, const char *key,
                              const tarn_schedule_options *o, turns *t, tarn_error *err)
{
    bool any = false;
    tarn_status status = TARN_OK;
    for (uint64_t i = 0; i < o->epochs && status == TARN_OK; i++) {
        epoch e;
        TARN_TRY(open_epoch(d, d->epoch + i, o, &e, err));
        status = add_epoch(t, &e, key, &any, err);
        close_epoch(&e);
    }
    const tarn_dataset *base = tarn_dataset_unordered(d);
    if (status == TARN_OK && !any && base->live) return check_sources(base, key, err);
    return status;
}

tarn_status tarn_dataset_when(tarn_dataset *d, const char *key,
                              const tarn_schedule_options *options, tarn_turn *out,
                              size_t room, size_t *out_count, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "key", key);
    TARN__NEED(err, "out", out || !room);
    TARN__NEED(err, "out_count", out_count);
    TARN__OPTIONS(tarn_schedule_options, o, TARN_SCHEDULE_OPTIONS_INIT, options, err);
    TARN_TRY(check_options(&o, err));
    turns t = {0};
    tarn_status status = find_turns(d, key, &o, &t, err);
    if (status == TARN_OK) {
        if (t.count) qsort(t.items, t.count, sizeof *t.items, by_position);
        for (size_t i = 0; i < t.count && i < room; i++)
            out[i] = t.items[i];
        *out_count = t.count;
    }
    free(t.items);
    return status;
}

/* --- What a step delivers ------------------------------------------------------------
 */

/* Moves *step back to the epoch that has it. */
static tarn_status epoch_of_step(tarn_dataset *d, const tarn_schedule_options *o,
                                 uint64_t *step, epoch *out, tarn_error *err)
{
    uint64_t number = d->epoch;
    for (int i = 0;; i++) {
        tarn_order_info info;
        TARN_TRY(open_epoch(d, number, o, out, err));
        tarn_order_info_get(out->order, &info, sizeof info);
        if (*step < info.batches) return TARN_OK;
        close_epoch(out);
        /* Only the dataset's own epoch can be shorter, if it was resumed. */
        if (i > 0 && info.batches == 0)
            return tarn__fail(err, TARN_ERR_USAGE,
                              "there is no step: this rank has no batches");
        *step -= info.batches;
        number++;
        if (i == 0) continue;
        number += *step / info.batches;
        *step %= info.batches;
    }
}

tarn_status tarn_dataset_step(tarn_dataset *d, uint64_t step,
                              const tarn_schedule_options *options, tarn_dataset **out,
                              tarn_turn *out_turn, size_t turn_size, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_schedule_options, o, TARN_SCHEDULE_OPTIONS_INIT, options, err);
    TARN_TRY(check_options(&o, err));
    epoch e;
    uint64_t from, count;
    tarn_dataset *ordered = NULL;
    TARN_TRY(epoch_of_step(d, &o, &step, &e, err));
    const tarn_order_options *order = tarn__order_options(e.order);
    tarn_turn turn = {.epoch = order->epoch, .step = step, .rank = order->rank};
    tarn_status status = tarn__order_batch(e.order, step, &from, &count, err);
    if (status == TARN_OK) {
        turn.position = tarn__order_position(e.order, from);
        status = tarn__dataset_ordered(tarn__dataset_use(e.base),
                                       tarn__order_use(e.order), &ordered, err);
    }
    if (status == TARN_OK)
        status = tarn_dataset_slice(ordered, count ? from : 0, 1, count, out, err);
    tarn_dataset_close(ordered);
    close_epoch(&e);
    if (status == TARN_OK) TARN__FILL_OUT(out_turn, turn_size, turn);
    return status;
}
