/* The last stage of a window: the holes that faulty samples left are closed, and the
 * pieces of the samples become the columns of the batch. The thread that finished the
 * last chunk owns the window, or the caller if samples needed the fallback
 * (loader_engine.c), so nothing here is locked. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"
#include "dataset/order.h"

/* --- Columns ----------------------------------------------------------------------- */

/* The shape, if all pieces are arrays of one shape; otherwise NULL. *out_bytes is set if
 * none is an array. */
static const tarn__shape *common_shape(const tarn__piece *pieces, size_t count,
                                       bool *out_bytes)
{
    const tarn__shape *shape = count ? pieces[0].shape : NULL;
    bool same = shape != NULL;
    *out_bytes = shape == NULL;
    for (size_t i = 1; i < count; i++) {
        const tarn__shape *other = pieces[i].shape;
        if (other) *out_bytes = false;
        if (!other || !shape || !tarn__shape_same(shape, other)) same = false;
    }
    return same ? shape : NULL;
}

/* Pieces decoded to the hinted shape are already in place. */
static tarn_status make_array(const tarn__load_setup *s, tarn__strip *t, size_t count,
                              const tarn__shape *shape, tarn_column *c, tarn_error *err)
{
    uint64_t size;
    if (!tarn__mul(shape->bytes, count, &size))
        return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    TARN_TRY(tarn__window_room(s, &t->data, &t->capacity, size, err));
    for (size_t i = 0; shape->bytes && i < count; i++) {
        unsigned char *to = t->data + i * shape->bytes;
        if (t->pieces[i].data != to) memcpy(to, t->pieces[i].data, shape->bytes);
    }
    c->kind = TARN_COLUMN_ARRAY;
    c->dtype = shape->dtype;
    c->ndim = shape->ndim;
    c->shape = shape->lengths;
    c->data = t->data;
    c->size = size;
    return TARN_OK;
}

static tarn_status make_arrays(tarn__strip *t, size_t count, size_t batch, tarn_column *c,
                               tarn_error *err)
{
    static const tarn_dtype byte = {'|', 'u', 1};
    if (!t->arrays && !(t->arrays = calloc(batch, sizeof *t->arrays)))
        return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        const tarn__piece *p = &t->pieces[i];
        if (p->shape)
            TARN_TRY(tarn_array_init(&t->arrays[i], p->data, p->shape->dtype,
                                     p->shape->ndim, p->shape->lengths, err));
        else
            TARN_TRY(tarn_array_init(&t->arrays[i], p->data, byte, 1, &p->size, err));
    }
    c->kind = TARN_COLUMN_ARRAYS;
    c->arrays = t->arrays;
    return TARN_OK;
}

/* Bytes that were read in one call are already consecutive and are not copied. */
static tarn_status make_bytes(const tarn__load_setup *s, tarn__strip *t, size_t count,
                              tarn_column *c, tarn_error *err)
{
    uint64_t size = 0;
    bool in_row = count > 0;
    const tarn__piece *p = t->pieces;
    for (size_t i = 0; i < count; i++) {
        t->offsets[i] = size;
        in_row &= p[i].data == p[0].data + size;
        if (!tarn__add(size, p[i].size, &size))
            return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    }
    t->offsets[count] = size;
    c->kind = TARN_COLUMN_BYTES;
    c->offsets = t->offsets;
    c->size = size;
    if (in_row && t->first_read != SIZE_MAX) {
        c->data = p[0].data;
        return TARN_OK;
    }
    TARN_TRY(tarn__window_room(s, &t->data, &t->capacity, size, err));
    for (size_t i = 0; i < count; i++)
        if (p[i].size) memcpy(t->data + t->offsets[i], p[i].data, p[i].size);
    c->data = t->data;
    return TARN_OK;
}

/* The column of a mask or of lengths, of n dimensions. */
static void make_extra(tarn__window *w, size_t number, tarn_dtype dtype, unsigned ndim,
                       const uint64_t *shape, unsigned char *data)
{
    const tarn__load_setup *s = w->pool->setup;
    uint64_t size = dtype.size * w->count;
    for (unsigned i = 0; i < ndim; i++)
        size *= shape[i];
    w->columns[number] = (tarn_column){.field = s->extra[number - s->n_columns],
                                       .kind = TARN_COLUMN_ARRAY,
                                       .dtype = dtype,
                                       .ndim = ndim,
                                       .shape = shape,
                                       .data = data,
                                       .size = size};
}

/* The lengths of a plan in the memory of the window: those of a sample and of its mask,
 * and the number of padded axes. */
static tarn_status make_extras(tarn__window *w, size_t number,
                               const tarn__collate_plan *plan, const uint64_t **out_shape,
                               tarn_error *err)
{
    static const tarn_dtype yes_no = {'|', 'b', 1}, whole = {'<', 'i', 8};
    const tarn__load_column *column = &w->pool->setup->columns[number];
    tarn__strip *t = &w->strips[number];
    size_t n = plan->ndim, m = plan->n_masked;
    uint64_t *kept =
        tarn__slab_take(&w->slabs[w->n_slabs - 1], (n + m + 1) * sizeof *kept);
    if (!kept) return tarn__fail_memory(err);
    memcpy(kept, plan->lengths, n * sizeof *kept);
    memcpy(kept + n, plan->masked, m * sizeof *kept);
    kept[n + m] = m;
    if (column->mask)
        make_extra(w, column->mask, yes_no, plan->n_masked, kept + n, t->mask);
    if (column->lengths)
        make_extra(w, column->lengths, whole, m > 1, kept + n + m, t->lengths);
    *out_shape = kept;
    return TARN_OK;
}

static tarn_status collate_room(tarn__window *w, const tarn__load_column *column,
                                tarn__strip *t, const tarn__collate_plan *plan,
                                tarn_error *err)
{
    const tarn__load_setup *s = w->pool->setup;
    TARN_TRY(tarn__window_room(s, &t->data, &t->capacity, plan->size, err));
    if (column->mask) /* its size is within the limits of the plan */
        TARN_TRY(tarn__window_room(s, &t->mask, &t->mask_capacity,
                                   plan->mask_each * w->count, err));
    if (column->lengths)
        TARN_TRY(tarn__window_room(s, &t->lengths, &t->lengths_capacity,
                                   plan->n_masked * sizeof(int64_t) * w->count, err));
    return TARN_OK;
}

static tarn_status plan_collated(tarn__window *w, const tarn__load_column *column,
                                 const tarn__piece *pieces, tarn__collate_plan *plan,
                                 tarn_error *err)
{
    size_t bad;
    tarn_error why;
    tarn_status status =
        tarn__collate_plan_make(column->collate, pieces, w->count, plan, &bad, &why);
    if (status == TARN_OK) return TARN_OK;
    if (w->count && bad != SIZE_MAX)
        tarn__window_name(w, bad, column->name, column->field, &why);
    if (err) *err = why;
    return status;
}

static tarn_status make_collated(tarn__window *w, size_t number, tarn_error *err)
{
    const tarn__load_column *column = &w->pool->setup->columns[number];
    tarn__strip *t = &w->strips[number];
    tarn_column *c = &w->columns[number];
    tarn__collate_plan plan = {.ndim = 0};
    bool ragged = column->collate->kind == TARN_COLLATE_RAGGED;
    /* A batch without samples has the type and the dimensions of earlier ones, or is
     * bytes. */
    tarn__piece example = {NULL, 0,
                           atomic_load_explicit(&column->hint, memory_order_acquire)};
    if (!w->count && !example.shape) {
        TARN_TRY(make_extras(w, number, &plan, &c->shape, err));
        return make_bytes(w->pool->setup, t, 0, c, err);
    }
    TARN_TRY(plan_collated(w, column, w->count ? t->pieces : &example, &plan, err));
    TARN_TRY(collate_room(w, column, t, &plan, err));
    const tarn__collate_into into = {t->data, column->mask ? t->mask : NULL,
                                     column->lengths ? (void *)t->lengths : NULL,
                                     (int64_t *)t->offsets};
    t->offsets[0] = 0;
    for (size_t i = 0; i < w->count; i++)
        tarn__collate_put(&plan, &t->pieces[i], i, &into);
    TARN_TRY(make_extras(w, number, &plan, &c->shape, err));
    c->kind = ragged ? TARN_COLUMN_RAGGED : TARN_COLUMN_ARRAY;
    c->shape += ragged;
    c->ndim = plan.ndim - ragged;
    c->dtype = plan.dtype;
    c->data = t->data;
    c->size = plan.size;
    c->offsets = ragged ? t->offsets : NULL;
    return TARN_OK;
}

static tarn_status make_column(tarn__window *w, size_t number, tarn_error *err)
{
    const tarn__load_setup *s = w->pool->setup;
    const tarn__load_column *column = &s->columns[number];
    tarn__strip *t = &w->strips[number];
    tarn_column *c = &w->columns[number];
    bool bytes;
    *c = (tarn_column){.field = column->name};
    if (column->way == TARN__LOAD_VIEW) {
        c->kind = TARN_COLUMN_VIEWS;
        c->views = t->views;
        return TARN_OK;
    }
    if (column->collate) return make_collated(w, number, err);
    const tarn__shape *shape = common_shape(t->pieces, w->count, &bytes);
    if (w->count == 0) shape = t->hint;
    if (shape) return make_array(s, t, w->count, shape, c, err);
    if (bytes) return make_bytes(s, t, w->count, c, err);
    return make_arrays(t, w->count, s->batch, c, err);
}

static void fill_batch(tarn__window *w)
{
    const tarn__load_setup *s = w->pool->setup;
    w->batch.count = w->count;
    w->batch.epoch = w->epoch->number;
    w->batch.samples = w->samples;
    w->batch.keys = s->o.no_keys ? NULL : w->keys.data ? w->keys.data : "";
    w->batch.key_offsets = s->o.no_keys ? NULL : w->key_offsets;
    w->batch.columns = w->columns + s->first;
    w->batch.n_columns = s->n_columns - s->first + s->n_extra;
}

/* --- Holes -------------------------------------------------------------------------- */

/* Chooses which slot fills each place of the batch and writes them to w->numbers. A good
 * sample fills its own place. A hole is left out, or with replace filled from the next
 * usable slot, starting again from the first after the last. Returns the number of
 * places. */
static size_t choose_slots(tarn__window *w, bool replace)
{
    uint64_t *from = w->numbers;
    size_t n = 0, usable = SIZE_MAX;
    for (size_t i = 0; i < w->count && usable == SIZE_MAX; i++)
        if (!w->faulty[i]) usable = i; /* the first one, used after the last */
    for (size_t i = w->count; replace && i-- > 0;) {
        if (!w->faulty[i]) usable = i;
        from[i] = usable;
    }
    if (replace) return usable == SIZE_MAX ? 0 : w->count;
    for (size_t i = 0; i < w->count; i++)
        if (!w->faulty[i]) from[n++] = i;
    return n;
}

static tarn_status move_view(tarn_view *to, tarn_view *from, bool copy, tarn_error *err)
{
    if (to == from) return TARN_OK;
    tarn_view_release(to);
    *to = *from;
    if (!copy) {
        *from = (tarn_view)TARN_VIEW_INIT;
        return TARN_OK;
    }
    if (!from->owned) return TARN_OK;
    unsigned char *own = malloc(from->size + 1);
    *to = (tarn_view)TARN_VIEW_INIT;
    if (!own) return tarn__fail_memory(err);
    if (from->size) memcpy(own, from->data, from->size);
    *to = (tarn_view){own, from->size, own};
    return TARN_OK;
}

/* A replacement needs its own memory, because callers may write to arrays. */
static tarn_status copy_piece(tarn__window *w, tarn__piece *p, tarn_error *err)
{
    unsigned char *own = tarn__slab_take(&w->slabs[w->n_slabs - 1], p->size);
    if (!own) return tarn__fail_memory(err);
    if (p->size) memcpy(own, p->data, p->size);
    p->data = own;
    return TARN_OK;
}

static tarn_status move_keys(tarn__window *w, size_t n, tarn_error *err)
{
    tarn__buf keys;
    uint64_t *offsets = malloc((n + 1) * sizeof *offsets);
    if (!offsets) return tarn__fail_memory(err);
    tarn__buf_init(&keys, SIZE_MAX / 2);
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < n; i++) {
        uint64_t at = w->key_offsets[w->numbers[i]];
        offsets[i] = keys.size;
        status = tarn__buf_add(&keys, w->keys.data + at,
                               w->key_offsets[w->numbers[i] + 1] - at, err);
    }
    offsets[n] = keys.size;
    tarn__buf_reset(&w->keys);
    w->keys = keys;
    memcpy(w->key_offsets, offsets, (n + 1) * sizeof *offsets);
    free(offsets);
    return status;
}

static tarn_status close_holes(tarn__window *w, tarn_error *err)
{
    const tarn__load_setup *s = w->pool->setup;
    bool replace = s->o.on_error == TARN_ON_ERROR_REPLACE;
    size_t n = choose_slots(w, replace);
    if (!s->o.no_keys) TARN_TRY(move_keys(w, n, err));
    for (size_t c = s->first; c < s->n_columns; c++) {
        tarn__strip *t = &w->strips[c];
        for (size_t i = 0; i < n; i++) {
            size_t from = w->numbers[i];
            if (from == i) continue;
            t->pieces[i] = t->pieces[from];
            if (t->views)
                TARN_TRY(move_view(&t->views[i], &t->views[from], replace, err));
            else if (replace)
                TARN_TRY(copy_piece(w, &t->pieces[i], err));
        }
    }
    for (size_t i = 0; i < n; i++)
        w->samples[i] = w->samples[w->numbers[i]];
    w->count = n;
    w->closed = true;
    return TARN_OK;
}

size_t tarn_batch_places(const tarn_batch *batch, uint64_t *places, uint64_t *positions)
{
    const tarn__window *w = (const tarn__window *)batch;
    if (!w) return 0;
    for (size_t i = 0; i < w->count; i++) {
        uint64_t place = w->closed ? w->numbers[i] : i;
        if (places) places[i] = place;
        if (positions) positions[i] = tarn__order_position(w->order, w->from + place);
    }
    return w->planned;
}

tarn_status tarn__window_seal(tarn__window *w, tarn_error *err)
{
    if (w->faults && w->pool->setup->o.on_error == TARN_ON_ERROR_RAISE) return TARN_OK;
    if (!w->closed) w->planned = w->count;
    if (w->faults) TARN_TRY(close_holes(w, err));
    const tarn__load_setup *s = w->pool->setup;
    for (size_t i = s->first; i < s->n_columns; i++)
        TARN_TRY(make_column(w, i, err));
    fill_batch(w);
    return TARN_OK;
}
