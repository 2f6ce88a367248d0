/* The memory of windows, and how the pieces of samples become the columns of a batch.
 *
 * pool->lock guards the free list only (free, n_free, and next of the windows in it). It
 * is taken alone, or under the engine's lock, and no lock is taken while it is held. The
 * rules for windows outside the list, and the reasons for the memory orders used here,
 * are at the top of loader_engine.c. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"
#include "dataset/order.h"

/* --- The pool ---------------------------------------------------------------------- */

tarn_status tarn__pool_new(tarn__load_setup *setup, size_t keep, tarn__pool **out,
                           tarn_error *err)
{
    tarn__pool *p = calloc(1, sizeof *p);
    if (!p) return tarn__fail_memory(err);
    atomic_init(&p->users, 1);
    p->setup = setup;
    atomic_fetch_add(&setup->users, 1);
    p->pid = getpid();
    p->keep = keep;
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return TARN_OK;
}

static tarn__memory memory_of(const tarn__load_setup *s)
{
    return (tarn__memory){s->o.alloc, s->o.free, s->o.memory_context};
}

static void free_strip(const tarn__load_setup *s, tarn__strip *t)
{
    tarn__memory memory = memory_of(s);
    tarn__memory_put(&memory, t->data, t->capacity);
    free(t->pieces);
    free(t->offsets);
    free(t->arrays);
    free(t->views);
}

static void free_window(tarn__window *w)
{
    const tarn__load_setup *s = w->pool->setup;
    for (size_t i = 0; w->strips && i < s->n_columns; i++)
        free_strip(s, &w->strips[i]);
    for (size_t i = 0; w->slabs && i < w->n_slabs; i++)
        tarn__slab_free(&w->slabs[i]);
    free(w->strips);
    free(w->slabs);
    free(w->batch.columns);
    free(w->samples);
    free(w->numbers);
    free((void *)w->faulty);
    free(w->deferred);
    free(w->key_offsets);
    free(w->wants);
    free(w->announced);
    tarn__stock_reset(&w->stock);
    free(w->error);
    tarn__buf_reset(&w->keys);
    tarn_dataset_batch_reset(&w->read);
    free(w);
}

void tarn__pool_release(tarn__pool *p)
{
    if (!p || atomic_fetch_sub(&p->users, 1) != 1) return;
    for (tarn__window *w = p->free, *next; w; w = next) {
        next = w->next;
        free_window(w);
    }
    pthread_mutex_destroy(&p->lock);
    tarn__setup_release(p->setup);
    free(p);
}

/* --- Windows ----------------------------------------------------------------------- */

static bool alloc_strip(const tarn__load_setup *s, const tarn__load_column *c,
                        tarn__strip *t)
{
    size_t n = s->batch;
    if (c->way == TARN__LOAD_VIEW) t->views = calloc(n, sizeof *t->views);
    t->pieces = calloc(n, sizeof *t->pieces);
    t->offsets = calloc(n + 1, sizeof *t->offsets);
    return t->pieces && t->offsets && (t->views || c->way != TARN__LOAD_VIEW);
}

static bool alloc_window(const tarn__load_setup *s, tarn__window *w)
{
    size_t n = s->batch;
    w->n_slabs = (n + s->chunk - 1) / s->chunk + 1;
    w->samples = calloc(n, sizeof *w->samples);
    w->numbers = calloc(n, sizeof *w->numbers);
    w->faulty = calloc(n, 1);
    w->deferred = calloc(n, 1);
    w->key_offsets = calloc(n + 1, sizeof *w->key_offsets);
    w->wants = calloc(n * s->n_columns, sizeof *w->wants);
    w->announced = calloc(n * (s->n_columns + 1), sizeof *w->announced);
    w->strips = calloc(s->n_columns, sizeof *w->strips);
    w->slabs = calloc(w->n_slabs, sizeof *w->slabs);
    w->batch.columns = calloc(s->n_columns, sizeof *w->batch.columns);
    if (!w->samples || !w->numbers || !w->faulty || !w->deferred || !w->key_offsets ||
        !w->wants || !w->announced || !w->strips || !w->slabs || !w->batch.columns)
        return false;
    for (size_t i = 0; i < w->n_slabs; i++)
        w->slabs[i].memory = memory_of(s);
    for (size_t i = 0; i < s->n_columns; i++)
        if (!alloc_strip(s, &s->columns[i], &w->strips[i])) return false;
    tarn__buf_init(&w->keys, SIZE_MAX / 2);
    return true;
}

tarn_status tarn__window_take(tarn__pool *p, bool end, tarn__window **out,
                              tarn_error *err)
{
    tarn__window *w = NULL;
    pthread_mutex_lock(&p->lock);
    if (!end && (w = p->free)) {
        p->free = w->next;
        p->n_free--;
    }
    pthread_mutex_unlock(&p->lock);
    if (!w) {
        w = calloc(1, sizeof *w);
        if (!w) return tarn__fail_memory(err);
        w->pool = p;
        if (!end && !alloc_window(p->setup, w)) {
            free_window(w);
            return tarn__fail_memory(err);
        }
    }
    w->end = end;
    w->next = NULL;
    atomic_fetch_add(&p->users, 1);
    *out = w;
    return TARN_OK;
}

/* Empties a window but keeps its memory. */
static void clean_window(tarn__window *w)
{
    const tarn__load_setup *s = w->pool->setup;
    for (size_t i = 0; w->strips && i < s->n_columns; i++)
        for (size_t k = 0; w->strips[i].views && k < s->batch; k++)
            tarn_view_release(&w->strips[i].views[k]);
    for (tarn__fault *f = w->faults, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    for (size_t i = 0; i < w->n_slabs; i++)
        tarn__slab_rewind(&w->slabs[i]);
    if (w->faulty) memset((void *)w->faulty, 0, s->batch);
    if (w->deferred) memset(w->deferred, 0, s->batch);
    tarn__stock_empty(&w->stock);
    w->n_deferred = 0;
    w->fallbacks = 0;
    w->faults = NULL;
    tarn__epoch_release(w->epoch);
    tarn__epoch_release(w->following);
    w->epoch = w->following = NULL;
    w->status = TARN_OK;
    w->count = w->planned = 0;
    w->closed = false;
    w->bytes = 0;
    w->keys.size = 0;
}

void tarn__window_release(tarn__window *w)
{
    if (!w) return;
    tarn__pool *p = w->pool;
    clean_window(w);
    /* In a forked child the lock may be held by a thread that does not exist there. */
    bool keep = false;
    if (p->pid == getpid()) {
        pthread_mutex_lock(&p->lock);
        keep = !w->end && p->n_free < p->keep;
        if (keep) {
            w->next = p->free;
            p->free = w;
            p->n_free++;
        }
        pthread_mutex_unlock(&p->lock);
    }
    if (!keep) free_window(w);
    tarn__pool_release(p);
}

void tarn_batch_release(tarn_batch *batch)
{
    tarn__window_release((tarn__window *)batch);
}

/* --- Memory ------------------------------------------------------------------------ */

/* Makes room for size bytes in a strip. Earlier contents are lost. */
static tarn_status strip_room(const tarn__load_setup *s, tarn__strip *t, uint64_t size,
                              tarn_error *err)
{
    if (t->data && size <= t->capacity) return TARN_OK;
    uint64_t room;
    if (!tarn__align_up(size ? size : 1, TARN__SLAB_ALIGN, &room) || room > SIZE_MAX / 2)
        return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    tarn__memory memory = memory_of(s);
    tarn__memory_put(&memory, t->data, t->capacity);
    t->capacity = 0;
    t->data = tarn__memory_get(&memory, (size_t)room);
    if (!t->data) return tarn__fail_memory(err);
    t->capacity = (size_t)room;
    return TARN_OK;
}

tarn_status tarn__strip_begin(const tarn__load_setup *s, size_t column, tarn__strip *t,
                              size_t count, tarn_error *err)
{
    uint64_t size;
    const tarn__load_column *c = &s->columns[column];
    bool decoded = tarn__load_decodes(c);
    t->first_read = SIZE_MAX;
    t->hint = atomic_load_explicit(&c->hint, memory_order_acquire);
    t->early = tarn__is_early(c, t->hint);
    t->read = c->way == TARN__LOAD_READ || t->early || (decoded && s->staged);
    if (!t->hint) return TARN_OK;
    if (!tarn__mul(t->hint->bytes, count, &size))
        return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    return strip_room(s, t, size, err);
}

tarn__shape *tarn__shape_copy(tarn__slab *slab, const tarn__shape *shape)
{
    size_t lengths = shape->ndim * sizeof *shape->lengths;
    tarn__shape *copy = tarn__slab_take(slab, sizeof *copy + lengths);
    if (!copy) return NULL;
    *copy = *shape;
    copy->lengths = (const uint64_t *)(copy + 1);
    if (lengths) memcpy(copy + 1, shape->lengths, lengths);
    return copy;
}

void tarn__window_fault(tarn__window *w, pthread_mutex_t *lock, size_t slot,
                        const tarn_error *error)
{
    tarn__fault *f = malloc(sizeof *f);
    atomic_store_explicit(&w->faulty[slot], 1, memory_order_relaxed);
    pthread_mutex_lock(lock);
    if (!f) {
        w->status = TARN_ERR_MEMORY;
    } else {
        tarn__fault **at = &w->faults;
        f->slot = slot;
        f->sample = w->samples[slot];
        f->error = *error;
        while (*at && (*at)->slot < slot)
            at = &(*at)->next;
        f->next = *at;
        *at = f;
    }
    pthread_mutex_unlock(lock);
}

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
    TARN_TRY(strip_room(s, t, size, err));
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
    TARN_TRY(strip_room(s, t, size, err));
    for (size_t i = 0; i < count; i++)
        if (p[i].size) memcpy(t->data + t->offsets[i], p[i].data, p[i].size);
    c->data = t->data;
    return TARN_OK;
}

static tarn_status make_column(tarn__window *w, size_t number, tarn_error *err)
{
    const tarn__load_setup *s = w->pool->setup;
    const tarn__load_column *column = &s->columns[number];
    tarn__strip *t = &w->strips[number];
    tarn_column *c = &w->batch.columns[number];
    bool bytes;
    *c = (tarn_column){.field = column->name};
    if (column->way == TARN__LOAD_VIEW) {
        c->kind = TARN_COLUMN_VIEWS;
        c->views = t->views;
        return TARN_OK;
    }
    const tarn__shape *shape = common_shape(t->pieces, w->count, &bytes);
    if (w->count == 0) shape = t->hint;
    if (shape) return make_array(s, t, w->count, shape, c, err);
    if (bytes) return make_bytes(s, t, w->count, c, err);
    return make_arrays(t, w->count, s->batch, c, err);
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

static void fill_batch(tarn__window *w)
{
    const tarn__load_setup *s = w->pool->setup;
    w->batch.count = w->count;
    w->batch.epoch = w->epoch->number;
    w->batch.samples = w->samples;
    w->batch.keys = s->o.no_keys ? NULL : w->keys.data ? w->keys.data : "";
    w->batch.key_offsets = s->o.no_keys ? NULL : w->key_offsets;
    w->batch.n_columns = s->n_columns;
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
    for (size_t c = 0; c < s->n_columns; c++) {
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

tarn_status tarn__window_seal(tarn__window *w, tarn_error *err)
{
    if (w->faults && w->pool->setup->o.on_error == TARN_ON_ERROR_RAISE) return TARN_OK;
    w->planned = w->count;
    if (w->faults) TARN_TRY(close_holes(w, err));
    for (size_t i = 0; i < w->pool->setup->n_columns; i++)
        TARN_TRY(make_column(w, i, err));
    fill_batch(w);
    return TARN_OK;
}
