/* The memory of windows.
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
    tarn__memory_put(&memory, t->mask, t->mask_capacity);
    tarn__memory_put(&memory, t->lengths, t->lengths_capacity);
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
    free(w->columns);
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
    w->columns = calloc(s->n_columns + s->n_extra, sizeof *w->columns);
    if (!w->samples || !w->numbers || !w->faulty || !w->deferred || !w->key_offsets ||
        !w->wants || !w->announced || !w->strips || !w->slabs || !w->columns)
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

tarn_status tarn__window_room(const tarn__load_setup *s, unsigned char **data,
                              size_t *capacity, uint64_t size, tarn_error *err)
{
    if (*data && size <= *capacity) return TARN_OK;
    uint64_t room;
    if (!tarn__align_up(size ? size : 1, TARN__SLAB_ALIGN, &room) || room > SIZE_MAX / 2)
        return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    tarn__memory memory = memory_of(s);
    tarn__memory_put(&memory, *data, *capacity);
    *capacity = 0;
    *data = tarn__memory_get(&memory, (size_t)room);
    if (!*data) return tarn__fail_memory(err);
    *capacity = (size_t)room;
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
    if (c->collate) t->hint = NULL; /* the places of its pieces are not known yet */
    if (!t->hint) return TARN_OK;
    if (!tarn__mul(t->hint->bytes, count, &size))
        return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    return tarn__window_room(s, &t->data, &t->capacity, size, err);
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

/* --- Samples that cannot be used -----------------------------------------------------
 */

void tarn__window_name(const tarn__window *w, size_t slot, const char *name,
                       uint32_t field, tarn_error *err)
{
    tarn_dataset *d = w->epoch->set;
    char text[TARN_ERROR_MESSAGE_MAX], shown[200] = "?";
    tarn_place place;
    tarn_text key = {0};
    uint64_t sample = w->samples[slot];
    if (tarn_dataset_key(d, sample, &key, NULL) == TARN_OK)
        tarn_printable(shown, sizeof shown, key.data, key.size);
    tarn_text_reset(&key);
    memcpy(text, err->message, sizeof text);
    if (!err->path[0] &&
        tarn_dataset_locate(d, sample, field, &place, sizeof place, NULL) == TARN_OK)
        tarn__error_place(err, place.path, place.offset);
    tarn_error named = *err;
    tarn__error_set(err, named.code, named.path[0] ? named.path : NULL, named.offset,
                    "sample %llu (%s)%s%s: %s", (unsigned long long)sample, shown,
                    name ? ", field " : "", name ? name : "", text);
    err->sys_errno = named.sys_errno;
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
