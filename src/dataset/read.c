/* Many pieces in one call: each is placed, then they are copied into one buffer, where
 * they stand in the order asked. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/runs.h"
#include "dataset/cold.h"

/* The items, what they are sorted by, and room for the items in that order. */
typedef struct work {
    tarn__item *items, *spare;
    tarn__run *runs;
} work;

static tarn_status get_work(tarn_dataset_batch *b, size_t count, work *out,
                            tarn_error *err)
{
    size_t each = 2 * sizeof(tarn__item) + sizeof(tarn__run);
    if (count >= UINT32_MAX || count > SIZE_MAX / 2 / each)
        return tarn__fail(err, TARN_ERR_USAGE, "%zu pieces in one batch", count);
    if (b->work_capacity < count) {
        free(b->work);
        free(b->offsets);
        b->work_capacity = b->count_capacity = 0;
        b->work = malloc(count * each);
        b->offsets = malloc((count + 1) * sizeof *b->offsets);
        if (!b->work || !b->offsets) return tarn__fail_memory(err);
        b->work_capacity = b->count_capacity = count;
    }
    if (!b->io && !(b->io = calloc(1, sizeof(tarn__batch_io))))
        return tarn__fail_memory(err);
    if (!b->offsets && !(b->offsets = malloc(sizeof *b->offsets)))
        return tarn__fail_memory(err);
    *out = (work){.items = b->work};
    if (!b->work) return TARN_OK;
    out->spare = out->items + b->work_capacity;
    out->runs = (tarn__run *)(out->spare + b->work_capacity);
    return TARN_OK;
}

/* Real fields go to the front, pseudo fields to the back with their text. */
static tarn_status take_wants(tarn_dataset *d, const tarn_dataset_want *wants,
                              size_t count, tarn__item *items, size_t *out_real,
                              tarn_error *err)
{
    size_t real = 0, pseudo = count;
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        if (wants[i].sample >= d->count || wants[i].field >= d->n_fields) {
            status = tarn__check_sample(d, wants[i].sample, err);
            if (status == TARN_OK) status = tarn__check_field(d, wants[i].field, err);
            break;
        }
        uint32_t id = d->ids[wants[i].field];
        tarn__item *item = tarn__is_pseudo(id) ? &items[--pseudo] : &items[real++];
        item->sample = tarn__dataset_at(d, wants[i].sample);
        item->field = id;
        item->number = (uint32_t)i;
        item->view = (tarn_view)TARN_VIEW_INIT;
        item->made = tarn__is_pseudo(id);
        if (!tarn__is_pseudo(id)) continue;
        status = tarn__pseudo(d, wants[i].sample, id, &item->view, err);
        item->size = item->view.size;
    }
    for (size_t i = pseudo; status != TARN_OK && i < count; i++)
        tarn_view_release(&items[i].view);
    *out_real = real;
    return status;
}

static tarn_status lay_out(tarn_dataset_batch *b, const tarn__item *items, size_t count,
                           tarn_error *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        b->offsets[items[i].number] = items[i].size;
    for (size_t i = 0; i < count; i++) {
        uint64_t size = b->offsets[i];
        b->offsets[i] = total;
        if (!tarn__add(total, size, &total) || total > SIZE_MAX / 2)
            return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    }
    b->offsets[count] = total;
    b->count = count;
    if (b->data && total <= b->data_capacity) return TARN_OK;
    free(b->data);
    uint64_t room = total + total / 8 + 64;
    b->data_capacity = 0;
    b->data = malloc((size_t)room);
    if (!b->data) return tarn__fail_memory(err);
    b->data_capacity = (size_t)room;
    return TARN_OK;
}

const tarn__item *tarn__items_sorted(const tarn__target *to, const tarn__item *items,
                                     size_t count)
{
    for (size_t i = 0; i < count; i++)
        to->runs[i] = (tarn__run){items[i].place, (uint32_t)i, 0};
    tarn__runs_sort(to->runs, count, 1);
    for (size_t i = 0; i < count; i++)
        to->spare[i] = items[to->runs[i].row];
    return to->spare;
}

/* Copies what was made, and moves it behind what was not. */
static size_t copy_made(tarn__item *items, size_t count, const tarn_dataset_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        tarn__item item = items[i];
        if (item.made) {
            if (item.size)
                memcpy(b->data + b->offsets[item.number], item.view.data,
                       (size_t)item.size);
            continue;
        }
        if (n != i) {
            items[i] = items[n];
            items[n] = item;
        }
        n++;
    }
    return n;
}

static tarn_status copy_all(tarn_dataset *d, const work *w, size_t count,
                            tarn_dataset_batch *b, tarn_error *err)
{
    tarn__target to = {b->data, b->offsets, b->offsets[count], b->io, w->spare, w->runs};
    size_t n = copy_made(w->items, count, b);
    if (n == 0) return TARN_OK;
    return d->source->kind->copy(d->source->state, w->items, n, &to, err);
}

tarn_status tarn_dataset_read(tarn_dataset *d, const tarn_dataset_want *wants,
                              size_t count, tarn_dataset_batch *out, tarn_error *err)
{
    work w;
    size_t real;
    out->count = 0;
    TARN_TRY(get_work(out, count, &w, err));
    TARN_TRY(take_wants(d, wants, count, w.items, &real, err));
    tarn_status status =
        real ? d->source->kind->place(d->source->state, w.items, real, err) : TARN_OK;
    if (status == TARN_OK) status = lay_out(out, w.items, count, err);
    if (status == TARN_OK) status = copy_all(d, &w, count, out, err);
    for (size_t i = 0; i < count; i++)
        if (w.items[i].made) tarn_view_release(&w.items[i].view);
    if (status != TARN_OK) out->count = 0;
    return status;
}

tarn_status tarn_dataset_read_batch(tarn_dataset *d, const uint64_t *samples,
                                    size_t n_samples, const uint32_t *fields,
                                    size_t n_fields, tarn_dataset_batch *out,
                                    tarn_error *err)
{
    uint64_t count;
    if (!fields) n_fields = d->n_fields;
    out->count = 0;
    if (!tarn__mul(n_samples, n_fields, &count) ||
        count > SIZE_MAX / 2 / sizeof(tarn_dataset_want))
        return tarn__fail(err, TARN_ERR_USAGE, "%zu samples in one batch", n_samples);
    tarn_dataset_want *wants = calloc((size_t)count + 1, sizeof *wants);
    if (!wants) return tarn__fail_memory(err);
    tarn_dataset_want *next = wants;
    for (size_t s = 0; s < n_samples; s++)
        for (size_t f = 0; f < n_fields; f++)
            *next++ = (tarn_dataset_want){samples[s], fields ? fields[f] : (uint32_t)f};
    tarn_status status = tarn_dataset_read(d, wants, (size_t)count, out, err);
    free(wants);
    return status;
}

void tarn_dataset_batch_stats(const tarn_dataset_batch *b, tarn_read_stats *out)
{
    const tarn__batch_io *io = b->io;
    *out = (tarn_read_stats){0};
    if (!io) return;
    const tarn__gather_stats *s = &io->gather.stats;
    out->copied = io->copied;
    out->announced = io->announced + s->pieces[TARN__GATHER_ADVISED];
    out->direct = s->pieces[TARN__GATHER_DIRECT];
    out->ring = s->pieces[TARN__GATHER_RING];
    out->ring_errno = s->ring_errno;
}

void tarn_dataset_batch_reset(tarn_dataset_batch *b)
{
    if (b->io) tarn__gather_reset(&((tarn__batch_io *)b->io)->gather);
    free(b->io);
    free(b->data);
    free(b->offsets);
    free(b->work);
    *b = (tarn_dataset_batch)TARN_DATASET_BATCH_INIT;
}
