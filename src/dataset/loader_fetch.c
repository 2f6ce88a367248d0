/* The first stage of a window, done by one thread: its samples, their keys, the bytes of
 * the columns that are not decoded (of all columns, if staged), and small values. One
 * call reads the whole window. If it fails, each sample is read separately to find the
 * damaged ones. The second stage decodes the other columns in chunks. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"

/* Whether a failure may be the fault of one sample. */
static bool is_fault(tarn_status status)
{
    return status != TARN_ERR_MEMORY && status != TARN_ERR_USAGE &&
           status != TARN_ERR_CANCELLED;
}

/* Marks the sample as faulty if the status is its fault; returns all other failures. */
static tarn_status note_fault(tarn__worker *k, tarn__window *w, size_t slot,
                              uint32_t field, tarn_status status, tarn_error *why,
                              tarn_error *err)
{
    if (status == TARN_OK) return TARN_OK;
    if (!is_fault(status)) {
        *err = *why;
        return status;
    }
    tarn__window_name(w, slot, tarn_dataset_field(w->epoch->set, field), field, why);
    tarn__window_fault(w, &k->engine->lock, slot, why);
    return TARN_OK;
}

/* --- Keys -------------------------------------------------------------------------- */

/* A sample whose key cannot be read is faulty, and its key is left empty. */
static tarn_status add_keys(tarn__worker *k, tarn__window *w, tarn_error *err)
{
    tarn_dataset *d = w->epoch->set;
    if (k->engine->setup->o.no_keys) return TARN_OK;
    for (size_t i = 0, done; i < w->count; i += done) {
        tarn_error why;
        tarn_status status =
            tarn__dataset_keys(d, w->samples + i, w->count - i, w->numbers, &w->keys,
                               w->key_offsets + i, &done, &why);
        if (status == TARN_OK) continue;
        if (!is_fault(status)) {
            *err = why;
            return status;
        }
        tarn__window_fault(w, &k->engine->lock, i + done, &why);
        w->key_offsets[i + done++] = w->keys.size;
        TARN_TRY(tarn__buf_add(&w->keys, "", 1, err));
    }
    w->key_offsets[w->count] = w->keys.size;
    return TARN_OK;
}

/* --- Bytes ------------------------------------------------------------------------- */

static tarn_status field_of(tarn__worker *k, const tarn__window *w, size_t slot,
                            const tarn__load_column *c, uint32_t *out, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    *out = c->field;
    if (!s->o.views) return TARN_OK;
    TARN_TRY(tarn_views_choose(s->o.views, w->epoch->number, w->samples[slot], k->fields,
                               err));
    *out = k->fields[c->field];
    return TARN_OK;
}

static tarn_status list_wants(tarn__worker *k, tarn__window *w, size_t *out_count,
                              tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    size_t n = 0;
    for (size_t c = 0; c < s->n_columns; c++) {
        if (!w->strips[c].read) continue;
        w->strips[c].first_read = n;
        for (size_t i = 0; i < w->count; i++, n++) {
            w->wants[n].sample = w->samples[i];
            TARN_TRY(field_of(k, w, i, &s->columns[c], &w->wants[n].field, err));
        }
    }
    *out_count = n;
    return TARN_OK;
}

static void take_read(const tarn__load_setup *s, tarn__window *w)
{
    for (size_t c = 0; c < s->n_columns; c++) {
        tarn__strip *t = &w->strips[c];
        if (t->first_read == SIZE_MAX) continue;
        const uint64_t *offsets = w->read.offsets + t->first_read;
        for (size_t i = 0; i < w->count; i++)
            t->pieces[i] = (tarn__piece){w->read.data + offsets[i],
                                         offsets[i + 1] - offsets[i], NULL};
        w->bytes += offsets[w->count] - offsets[0];
    }
}

/* One field of one sample, copied into the window. */
static tarn_status read_one(tarn__worker *k, tarn__window *w, size_t slot, size_t column,
                            uint32_t field, tarn_error *err)
{
    tarn_view view;
    tarn_dataset *d = w->epoch->set;
    TARN_TRY(tarn_dataset_get(d, w->samples[slot], field, &view, err));
    unsigned char *copy = tarn__slab_take(&w->slabs[w->n_slabs - 1], view.size);
    if (copy && view.size) memcpy(copy, view.data, view.size);
    w->strips[column].pieces[slot] = (tarn__piece){copy, view.size, NULL};
    w->bytes += view.size;
    tarn_view_release(&view);
    return copy ? tarn__settle(d, w->samples[slot], err) : tarn__fail_memory(err);
}

static tarn_status read_each(tarn__worker *k, tarn__window *w, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    tarn_error why;
    uint32_t field = 0;
    for (size_t i = 0; i < w->count; i++)
        for (size_t c = 0; c < s->n_columns && !w->faulty[i]; c++) {
            if (!w->strips[c].read) continue;
            tarn_status status = field_of(k, w, i, &s->columns[c], &field, &why);
            if (status == TARN_OK) status = read_one(k, w, i, c, field, &why);
            TARN_TRY(note_fault(k, w, i, field, status, &why, err));
        }
    return TARN_OK;
}

static tarn_status read_all(tarn__worker *k, tarn__window *w, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    size_t count;
    TARN_TRY(list_wants(k, w, &count, err));
    if (count == 0) return TARN_OK;
    tarn_status status =
        tarn__dataset_read(w->epoch->set, w->wants, count, &w->read, err);
    if (status == TARN_OK) {
        take_read(s, w);
        return TARN_OK;
    }
    if (!is_fault(status)) return status;
    return read_each(k, w, err);
}

/* Adds the stored fields of a column to the list of items, which has *count. */
static tarn_status list_column(tarn__worker *k, tarn__window *w, size_t column,
                               size_t *count, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    tarn_dataset *d = w->epoch->set;
    for (size_t i = 0; i < w->count; i++) {
        uint32_t field;
        TARN_TRY(field_of(k, w, i, &s->columns[column], &field, err));
        if (tarn__is_pseudo(s->dataset->ids[field])) continue;
        tarn__item *item = &w->announced[(*count)++];
        *item = (tarn__item){.source = d->source,
                             .sample = tarn__dataset_at(d, w->samples[i]),
                             .field = s->dataset->ids[field]};
        TARN_TRY(tarn__field_of_row(s->dataset, item->sample, &item->field, err));
    }
    return TARN_OK;
}

/* Lists the fields of all samples, or only those that are not read for the whole window
 * in one call. */
static tarn_status list_items(tarn__worker *k, tarn__window *w, bool all,
                              size_t *out_count, tarn_error *err)
{
    size_t n = 0;
    for (size_t c = 0; c < k->engine->setup->n_columns; c++)
        if (k->engine->setup->columns[c].way != TARN__LOAD_MAP &&
            (all || !w->strips[c].read))
            TARN_TRY(list_column(k, w, c, &n, err));
    *out_count = n;
    return TARN_OK;
}

/* Announces the data that will be decoded or viewed in place, if a check of a few pieces
 * shows that it is not in memory. The disk then reads all of it at once. */
static tarn_status announce_window(tarn__worker *k, tarn__window *w, tarn_error *err)
{
    size_t n = 0;
    TARN_TRY(list_items(k, w, false, &n, err));
    if (n) tarn__announce(w->epoch->set->source, w->announced, n);
    return TARN_OK;
}

tarn_status tarn__window_stock(tarn__worker *k, tarn__window *w, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    size_t n = 0;
    TARN_TRY(list_items(k, w, true, &n, err));
    for (size_t i = 0; !s->o.no_keys && i < w->count; i++)
        w->announced[n++] =
            (tarn__item){.sample = tarn__dataset_at(w->epoch->set, w->samples[i]),
                         .field = TARN__FIELD_NONE};
    return tarn__stock_items(w->epoch->set->source, w->announced, n, &w->stock, err);
}

/* --- Views ------------------------------------------------------------------------- */

/* All views of a column at once; false if they have to be made one by one, because some
 * are not stored or cannot be read. Checking the length of a file for each view would
 * make the threads wait for each other in the system. */
static bool view_all(tarn__worker *k, tarn__window *w, size_t column)
{
    size_t n = 0;
    if (w->faults || list_column(k, w, column, &n, NULL) != TARN_OK || n != w->count ||
        tarn__items_view(w->announced, n, NULL) != TARN_OK)
        return false;
    for (size_t i = 0; i < n; i++) {
        w->strips[column].views[i] = w->announced[i].view;
        w->bytes += w->announced[i].view.size;
    }
    return true;
}

static tarn_status view_column(tarn__worker *k, tarn__window *w, size_t column,
                               tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    tarn_error why;
    if (view_all(k, w, column)) return TARN_OK;
    for (size_t i = 0; i < w->count; i++) {
        uint32_t field = 0;
        tarn_view *view = &w->strips[column].views[i];
        if (w->faulty[i]) continue;
        tarn_status status = field_of(k, w, i, &s->columns[column], &field, &why);
        if (status == TARN_OK)
            status = tarn_dataset_get(w->epoch->set, w->samples[i], field, view, &why);
        w->bytes += view->size;
        TARN_TRY(note_fault(k, w, i, field, status, &why, err));
    }
    return TARN_OK;
}

/* --- Decoding ---------------------------------------------------------------------- */

/* Whether a column is decoded in chunks. */
static bool is_late(const tarn__load_setup *s, const tarn__window *w, size_t column)
{
    return tarn__load_decodes(&s->columns[column]) && !w->strips[column].early;
}

static tarn_status decode_field(tarn__worker *k, tarn__window *w, size_t slot,
                                size_t column, tarn__slab *slab, uint32_t *out_field,
                                uint64_t *bytes, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    const tarn__strip *t = &w->strips[column];
    tarn_view view = TARN_VIEW_INIT;
    TARN_TRY(field_of(k, w, slot, &s->columns[column], out_field, err));
    /* The bytes of a deferred sample may have been overwritten by decoded ones. */
    bool read = t->read && !k->is_caller;
    if (read)
        view = (tarn_view){t->pieces[slot].data, (size_t)t->pieces[slot].size, NULL};
    else
        TARN_TRY(
            tarn_dataset_get(w->epoch->set, w->samples[slot], *out_field, &view, err));
    if (!read) *bytes += view.size;
    tarn_status status = tarn__decode_piece(k, w, slot, column, *out_field, view.data,
                                            view.size, slab, err);
    tarn_view_release(&view);
    if (status != TARN_OK || read) return status;
    return tarn__settle(w->epoch->set, w->samples[slot], err);
}

static tarn_status decode_early(tarn__worker *k, tarn__window *w, size_t column,
                                tarn_error *err)
{
    tarn_error why;
    for (size_t i = 0; i < w->count; i++) {
        uint32_t field = 0;
        if (w->faulty[i]) continue;
        tarn_status status = decode_field(k, w, i, column, &w->slabs[w->n_slabs - 1],
                                          &field, &w->bytes, &why);
        TARN_TRY(note_fault(k, w, i, field, status, &why, err));
    }
    return TARN_OK;
}

tarn__remote_task tarn__window_begin(const tarn__worker *k, tarn__window *w)
{
    return tarn__remote_begin((tarn__remote_task){
        .stock = &w->stock, .lends = true, .rank = w->rank, .cancel = &k->engine->stop});
}

tarn_status tarn__fetch_window(tarn__worker *k, tarn__window *w, bool *out_late,
                               tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    TARN_TRY(tarn_order_fill(w->order, w->from, w->count, w->samples, err));
    for (size_t c = 0; c < s->n_columns; c++)
        TARN_TRY(tarn__strip_begin(s, c, &w->strips[c], w->count, err));
    if (s->remote && tarn__may_be_away(w->epoch->set->source))
        TARN_TRY(tarn__window_stock(k, w, err));
    TARN_TRY(announce_window(k, w, err));
    TARN_TRY(add_keys(k, w, err));
    TARN_TRY(read_all(k, w, err));
    *out_late = s->o.map != NULL;
    for (size_t c = 0; c < s->n_columns; c++) {
        tarn__load_way way = s->columns[c].way;
        if (way == TARN__LOAD_VIEW) TARN_TRY(view_column(k, w, c, err));
        if (w->strips[c].early) TARN_TRY(decode_early(k, w, c, err));
        *out_late |= is_late(s, w, c);
    }
    return TARN_OK;
}

/* Decodes the masks, or all other columns. Returns at the first failure. */
static tarn_status decode_columns(tarn__worker *k, tarn__window *w, size_t slot,
                                  tarn__slab *slab, bool masks, uint64_t *bytes,
                                  tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    for (size_t c = 0; c < s->n_columns; c++) {
        uint32_t field = 0;
        tarn_error why;
        if (!is_late(s, w, c) || (s->columns[c].way == TARN__LOAD_MASK) != masks)
            continue;
        k->deferred = false;
        tarn_status status = decode_field(k, w, slot, c, slab, &field, bytes, &why);
        w->deferred[slot] = k->deferred;
        if (k->deferred) return TARN_OK;
        if (status != TARN_OK) return note_fault(k, w, slot, field, status, &why, err);
    }
    return TARN_OK;
}

static tarn_status map_sample(tarn__worker *k, tarn__window *w, size_t slot,
                              tarn__slab *slab, tarn_error *err)
{
    const tarn__load_setup *s = k->engine->setup;
    tarn_error why;
    tarn_status status = tarn__map_sample(k, w, slot, slab, &why);
    if (status == TARN_OK) return TARN_OK;
    /* The shard is that of the first field, if all samples have the same field. */
    uint32_t field = s->first && !s->o.views ? s->columns[0].field : 0;
    tarn__window_name(w, slot, NULL, field, &why);
    if (!is_fault(status)) {
        *err = why;
        return status;
    }
    tarn__window_fault(w, &k->engine->lock, slot, &why);
    return TARN_OK;
}

/* A mask needs the sizes of the images, and the caller's function needs all values. */
static tarn_status decode_sample(tarn__worker *k, tarn__window *w, size_t slot,
                                 tarn__slab *slab, uint64_t *bytes, tarn_error *err)
{
    TARN_TRY(decode_columns(k, w, slot, slab, false, bytes, err));
    if (w->deferred[slot] || w->faulty[slot]) return TARN_OK;
    TARN_TRY(decode_columns(k, w, slot, slab, true, bytes, err));
    if (w->deferred[slot] || w->faulty[slot] || !k->engine->setup->o.map) return TARN_OK;
    return map_sample(k, w, slot, slab, err);
}

tarn_status tarn__decode_deferred(tarn__worker *k, tarn__window *w, tarn_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (!w->deferred[i]) continue;
        tarn_status status =
            decode_sample(k, w, i, &w->slabs[w->n_slabs - 1], &bytes, err);
        if (status != TARN_OK) {
            w->deferred[i] = 1;
            return status;
        }
    }
    w->n_deferred = 0;
    w->bytes += bytes;
    return TARN_OK;
}

tarn_status tarn__decode_chunk(tarn__worker *k, tarn__window *w, size_t chunk,
                               tarn_error *err)
{
    size_t each = k->engine->setup->chunk, from = chunk * each, end = from + each;
    uint64_t bytes = 0;
    size_t deferred = 0;
    tarn_status status = TARN_OK;
    if (end > w->count) end = w->count;
    for (size_t i = from; i < end && status == TARN_OK; i++) {
        if (atomic_load_explicit(&k->engine->stop, memory_order_relaxed)) break;
        uint64_t before = bytes;
        if (!w->faulty[i]) status = decode_sample(k, w, i, &w->slabs[chunk], &bytes, err);
        deferred += w->deferred[i];
        if (w->deferred[i]) bytes = before; /* they are read again */
    }
    pthread_mutex_lock(&k->engine->lock);
    w->bytes += bytes;
    w->n_deferred += deferred;
    pthread_mutex_unlock(&k->engine->lock);
    return status;
}
