/* Reads many pieces in one call: locates each, then copies them into one buffer in the
 * order of the request. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/runs.h"
#include "dataset/dataset.h"

/* The items, their sort keys, and room for the sorted items. */
typedef struct work {
    tarn__item *items, *spare;
    tarn__run *runs;
} work;

static tarn_status get_work(tarn_dataset_batch *b, size_t count, work *out,
                            tarn_error *err)
{
    size_t each = 2 * sizeof(tarn__item) + sizeof(tarn__run);
    if (count >= UINT32_MAX || count > SIZE_MAX / 2 / each)
        return tarn__fail(err, TARN_ERR_USAGE, "too many pieces in one batch: %zu",
                          count);
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

/* --- Items of several sources ------------------------------------------------------ */

static tarn_status resolve_item(tarn__item *item, tarn_error *err)
{
    tarn__storage *source = item->source;
    TARN_TRY(tarn__leaf(&source, &item->sample, &item->field, err));
    item->source = source;
    return TARN_OK;
}

size_t tarn__items_alike(const tarn__item *items, size_t count)
{
    size_t n = 1;
    while (n < count && items[n].source == items[0].source)
        n++;
    return n;
}

void tarn__items_group(tarn__item *items, size_t count)
{
    for (size_t first = 0; first < count;) {
        const void *source = items[first].source;
        for (size_t i = first; i < count; i++) {
            if (items[i].source != source) continue;
            tarn__item item = items[i];
            items[i] = items[first];
            items[first++] = item;
        }
    }
}

static tarn_status view_items(tarn__item *items, size_t count, tarn_error *err)
{
    const tarn__storage *s = items[0].source;
    if (s->kind->views) return s->kind->views(s->state, items, count, err);
    for (size_t i = 0; i < count; i++)
        TARN_TRY(s->kind->view(s->state, items[i].sample, items[i].field, &items[i].view,
                               err));
    return TARN_OK;
}

tarn_status tarn__items_view(tarn__item *items, size_t count, tarn_error *err)
{
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < count; i++)
        items[i].view = (tarn_view)TARN_VIEW_INIT;
    for (size_t i = 0; i < count && status == TARN_OK; i++)
        status = resolve_item(&items[i], err);
    for (size_t i = 0, n; i < count && status == TARN_OK; i += n) {
        n = tarn__items_alike(items + i, count - i);
        status = view_items(items + i, n, err);
    }
    for (size_t i = 0; i < count && status != TARN_OK; i++)
        tarn_view_release(&items[i].view);
    return status;
}

/* --- One batch --------------------------------------------------------------------- */

/* Lists real fields at the front, and pseudo fields, with their text, at the back. */
static tarn_status take_wants(tarn_dataset *d, const tarn__want *wants, size_t count,
                              tarn__item *items, size_t *out_real, tarn_error *err)
{
    size_t real = 0, pseudo = count;
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        tarn_dataset *base = d;
        uint64_t number = wants[i].sample;
        if (d->order || number >= d->count) status = tarn__resolve(&base, &number, err);
        if (status == TARN_OK && wants[i].field >= d->n_fields)
            status = tarn__check_field(d, wants[i].field, err);
        if (status != TARN_OK) break;
        uint32_t id = d->ids[wants[i].field];
        bool is_pseudo = tarn__is_pseudo(id);
        tarn__item *item = is_pseudo ? &items[--pseudo] : &items[real++];
        item->source = d->source;
        item->sample = tarn__dataset_at(base, number);
        item->field = id;
        item->number = (uint32_t)i;
        item->spot.made = is_pseudo;
        item->view = (tarn_view)TARN_VIEW_INIT;
        if (is_pseudo)
            status = tarn__pseudo(base, number, id, &item->view, err);
        else
            status = tarn__field_of_row(d, item->sample, &item->field, err);
        if (!is_pseudo && status == TARN_OK && d->source->kind->resolve)
            status = resolve_item(item, err);
        if (is_pseudo) item->spot.size = item->view.size;
    }
    for (size_t i = pseudo; status != TARN_OK && i < count; i++)
        tarn_view_release(&items[i].view);
    *out_real = real;
    return status;
}

static tarn_status set_offsets(tarn_dataset_batch *b, const tarn__item *items,
                               size_t count, tarn_error *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        b->offsets[items[i].number] = items[i].spot.size;
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

/* Copies the bytes of made items, and moves these after the others. Returns the number of
 * the others. */
static size_t copy_made(tarn__item *items, size_t count, const tarn_dataset_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const tarn__item *item = &items[i];
        if (item->spot.made) {
            if (item->view.size)
                memcpy(b->data + b->offsets[item->number], item->view.data,
                       item->view.size);
            continue;
        }
        if (n != i) {
            tarn__item made = items[n];
            items[n] = items[i];
            items[i] = made;
        }
        n++;
    }
    return n;
}

/* Makes the bytes of an item that are not stored in the requested form. */
static tarn_status make_item(tarn__item *item, tarn_error *err)
{
    const tarn__storage *s = item->source;
    TARN_TRY(s->kind->view(s->state, item->sample, item->field, &item->view, err));
    item->spot.size = item->view.size;
    return TARN_OK;
}

/* Locates items of one source, and makes the bytes of those that are not stored. */
static tarn_status locate_items(tarn__item *items, size_t count, bool *out_made,
                                tarn_error *err)
{
    const tarn__storage *s = items[0].source;
    bool made = false;
    TARN_TRY(s->kind->locate(s->state, items, count, err));
    for (size_t i = 0; i < count; i++) {
        if (!items[i].spot.made) continue;
        TARN_TRY(make_item(&items[i], err));
        made = *out_made = true;
    }
    return made ? s->kind->settle(s->state, items[0].sample, err) : TARN_OK;
}

/* The number of items at the front that have the same source. */
static size_t same_source(const tarn_dataset *d, const tarn__item *items, size_t count)
{
    return d->source->kind->resolve ? tarn__items_alike(items, count) : count;
}

static tarn_status locate_all(const tarn_dataset *d, tarn__item *items, size_t count,
                              bool *out_made, tarn_error *err)
{
    if (d->source->kind->resolve) tarn__items_group(items, count);
    for (size_t i = 0, n; i < count; i += n) {
        n = same_source(d, items + i, count - i);
        TARN_TRY(locate_items(items + i, n, out_made, err));
    }
    return TARN_OK;
}

/* Copies stored items of one source. */
static tarn_status copy_items(const tarn__item *items, size_t count,
                              const tarn__target *to, tarn_error *err)
{
    tarn__storage *s = items[0].source;
    tarn__cold_way way = tarn__files_are_away(&s->files)
                             ? TARN__COLD_GATHER
                             : tarn__cold_choose(&s->files.cold, tarn__files_is_resident,
                                                 &s->files, items, count, to);
    if (way != TARN__COLD_COPY) items = tarn__items_sorted(to, items, count);
    if (way == TARN__COLD_ANNOUNCE) tarn__files_announce(&s->files, items, count);
    if (way == TARN__COLD_ANNOUNCE) to->io->announced += count;
    if (way == TARN__COLD_COPY) to->io->copied += count;
    return s->kind->copy(s->state, way, items, count, to, err);
}

static tarn_status copy_all(const tarn_dataset *d, const work *w, size_t count, bool made,
                            tarn_dataset_batch *b, tarn_error *err)
{
    tarn__target to = {b->data, b->offsets, b->offsets[count], b->io, w->spare, w->runs};
    size_t left = made ? copy_made(w->items, count, b) : count;
    for (size_t i = 0, n; i < left; i += n) {
        n = same_source(d, w->items + i, left - i);
        TARN_TRY(copy_items(w->items + i, n, &to, err));
    }
    return TARN_OK;
}

tarn_status tarn__dataset_read(tarn_dataset *d, const tarn__want *wants, size_t count,
                               tarn_dataset_batch *out, tarn_error *err)
{
    work w;
    size_t real;
    out->count = 0;
    TARN_TRY(get_work(out, count, &w, err));
    TARN_TRY(take_wants(d, wants, count, w.items, &real, err));
    bool made = real < count;
    tarn_status status = locate_all(d, w.items, real, &made, err);
    if (status == TARN_OK) status = set_offsets(out, w.items, count, err);
    if (status == TARN_OK) status = copy_all(d, &w, count, made, out, err);
    for (size_t i = 0; made && i < count; i++)
        if (w.items[i].spot.made) tarn_view_release(&w.items[i].view);
    if (status != TARN_OK) out->count = 0;
    return status;
}

tarn_status tarn_dataset_read(tarn_dataset *d, const uint64_t *samples, size_t n_samples,
                              const uint32_t *fields, size_t n_fields,
                              tarn_dataset_batch *out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "samples", samples || !n_samples);
    TARN__NEED(err, "out", out);
    uint64_t count;
    if (!fields) n_fields = d->n_fields;
    out->count = 0;
    if (!tarn__mul(n_samples, n_fields, &count) ||
        count > SIZE_MAX / 2 / sizeof(tarn__want))
        return tarn__fail(err, TARN_ERR_USAGE, "too many samples in one batch: %zu",
                          n_samples);
    tarn__want *wants = calloc((size_t)count + 1, sizeof *wants);
    if (!wants) return tarn__fail_memory(err);
    tarn__want *next = wants;
    for (size_t s = 0; s < n_samples; s++)
        for (size_t f = 0; f < n_fields; f++)
            *next++ = (tarn__want){samples[s], fields ? fields[f] : (uint32_t)f};
    tarn_status status = tarn__dataset_read(d, wants, (size_t)count, out, err);
    free(wants);
    return status;
}

tarn__read_stats tarn__batch_stats(const tarn_dataset_batch *b)
{
    const tarn__batch_io *io = b->io;
    if (!io) return (tarn__read_stats){0};
    const tarn__ranges_stats *s = &io->ranges.stats;
    return (tarn__read_stats){io->copied, io->announced + s->pieces[TARN__RANGES_ADVISED],
                              s->pieces[TARN__RANGES_DIRECT],
                              s->pieces[TARN__RANGES_RING], s->ring_errno};
}

void tarn_dataset_batch_reset(tarn_dataset_batch *b)
{
    if (!b) return;
    if (b->io) tarn__ranges_reset(&((tarn__batch_io *)b->io)->ranges);
    free(b->io);
    free(b->data);
    free(b->offsets);
    free(b->work);
    *b = (tarn_dataset_batch)TARN_DATASET_BATCH_INIT;
}
