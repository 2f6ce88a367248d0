/* A function of the caller as a stage of the loader: it gets the values of a sample that
 * was decoded, and sets the columns of the batch. It runs where samples are decoded, so
 * the rules of decoding hold (loader_engine.c): a slot has one owner at a time, pieces go
 * to the memory of its chunk, and no lock is held. */
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "codec/philox.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"
#include "dataset/order.h"

/* Lives on the stack during one call. */
struct tarn_map_output {
    tarn__worker *worker;
    tarn__window *window;
    size_t slot;
    tarn__slab *slab;
};

/* --- Output ------------------------------------------------------------------------ */

static tarn_status find_strip(const tarn_map_output *out, size_t column,
                              tarn__strip **strip, tarn_error *err)
{
    const tarn__load_setup *s = out->worker->engine->setup;
    if (column >= s->n_columns - s->first)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "map_fields has no column %zu (there are %zu)", column,
                          s->n_columns - s->first);
    *strip = &out->window->strips[s->first + column];
    return TARN_OK;
}

tarn_status tarn_map_put(tarn_map_output *out, size_t column, const tarn_value *value,
                         tarn_error *err)
{
    TARN__NEED(err, "out", out);
    TARN__NEED(err, "value", value);
    tarn__strip *strip;
    TARN_TRY(find_strip(out, column, &strip, err));
    return tarn__piece_put(strip, out->slot, out->slab, value, err);
}

tarn_status tarn_map_room(tarn_map_output *out, size_t column, tarn_dtype dtype,
                          unsigned ndim, const uint64_t *shape, void **data,
                          tarn_error *err)
{
    TARN__NEED(err, "out", out);
    TARN__NEED(err, "data", data);
    tarn__strip *strip;
    tarn_array a;
    TARN_TRY(find_strip(out, column, &strip, err));
    TARN_TRY(tarn_array_init(&a, NULL, dtype, ndim, shape, err));
    TARN_TRY(tarn__array_check(&a, err));
    if (dtype.order == '>')
        return tarn__fail(err, TARN_ERR_USAGE,
                          "arrays of a batch are little-endian (found >)");
    const tarn__shape made = {dtype, ndim, tarn_array_bytes(&a), a.shape};
    TARN_TRY(tarn__piece_room(strip, out->slot, out->slab, &made, err));
    *data = strip->pieces[out->slot].data;
    return TARN_OK;
}

bool tarn_map_cancelled(const tarn_map_output *out)
{
    return out && atomic_load_explicit(&out->worker->engine->stop, memory_order_relaxed);
}

/* --- Input ------------------------------------------------------------------------- */

static tarn_status take_value(const tarn__load_column *c, const tarn__strip *t,
                              size_t slot, tarn_array *array, tarn_value *out,
                              tarn_error *err)
{
    const tarn__piece *p = &t->pieces[slot];
    *out = (tarn_value)TARN_VALUE_INIT;
    if (c->way == TARN__LOAD_VIEW) {
        out->data = t->views[slot].data;
        out->size = t->views[slot].size;
    } else if (p->shape) {
        TARN_TRY(tarn_array_init(array, p->data, p->shape->dtype, p->shape->ndim,
                                 p->shape->lengths, err));
        out->kind = TARN_VALUE_ARRAY;
        out->arrays = array;
        out->count = 1;
    } else {
        out->data = p->data;
        out->size = (size_t)p->size;
    }
    return TARN_OK;
}

/* The last word keeps the numbers apart from those of image steps. */
static uint64_t seed_of(uint64_t seed, uint64_t epoch, uint64_t position)
{
    const uint64_t key[2] = {seed, epoch}, counter[4] = {position, 0, 0, UINT64_MAX};
    uint64_t out[4];
    tarn__philox(key, counter, out);
    return out[0];
}

static tarn_status take_input(tarn__worker *k, const tarn__window *w, size_t slot,
                              tarn_map_input *in, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    in->sample = w->samples[slot];
    in->epoch = w->epoch->number;
    in->position = tarn__order_position(w->order, w->from + slot);
    in->seed = seed_of(s->seed, in->epoch, in->position);
    in->values = k->values;
    in->n_values = s->first;
    if (!s->o.no_keys) {
        in->key = w->keys.data + w->key_offsets[slot];
        in->key_size = (size_t)(w->key_offsets[slot + 1] - w->key_offsets[slot] - 1);
    }
    for (size_t c = 0; c < s->first; c++)
        TARN_TRY(take_value(&s->columns[c], &w->strips[c], slot, &k->arrays[c],
                            &k->values[c], err));
    return TARN_OK;
}

/* --- One sample -------------------------------------------------------------------- */

/* What the caller's function did: a column that is not set is an error of the function, a
 * value that cannot be padded one of the sample. */
static tarn_status check_columns(const tarn__load_setup *s, const tarn__window *w,
                                 size_t slot, tarn_error *err)
{
    for (size_t c = s->first; c < s->n_columns; c++) {
        const tarn__load_column *column = &s->columns[c];
        const tarn__piece *p = &w->strips[c].pieces[slot];
        if (!p->data)
            return tarn__fail(err, TARN_ERR_USAGE, "the map did not set column %s",
                              column->name);
        if (!column->collate) continue;
        tarn_error why;
        tarn_status status = tarn__collate_check(column->collate, p->shape, &why);
        if (status != TARN_OK)
            return tarn__fail(err, status, "column %s: %s", column->name, why.message);
    }
    return TARN_OK;
}

/* The message of a failure, if the function gave none. */
static tarn_status failed(tarn_status status, tarn_error *err)
{
    if (status == TARN_END)
        return tarn__fail(err, TARN_ERR_FORMAT, "the map dropped the sample");
    if ((unsigned)status > TARN_ERR_NO_FIELD)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the map returned %d, which is not a status", (int)status);
    err->path[sizeof err->path - 1] = err->message[sizeof err->message - 1] = '\0';
    if (!err->message[0])
        return tarn__fail(err, status, "the map failed: %s", tarn_status_name(status));
    err->code = status;
    return status;
}

tarn_status tarn__map_sample(tarn__worker *k, tarn__window *w, size_t slot,
                             tarn__slab *slab, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    tarn_map_input in = {0};
    tarn_map_output out = {k, w, slot, slab};
    TARN_TRY(take_input(k, w, slot, &in, err));
    for (size_t c = s->first; c < s->n_columns; c++)
        w->strips[c].pieces[slot] = (tarn__piece){NULL, 0, NULL};
    memset(err, 0, sizeof *err);
    err->offset = TARN_NO_OFFSET;
    tarn_status status = s->o.map(s->o.map_context, &in, &out, err);
    if (status != TARN_OK) return failed(status, err);
    return check_columns(s, w, slot, err);
}
