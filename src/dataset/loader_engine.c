/* The threads of a loader, and the choice of the next piece of work: fetch a window while
 * fewer than depth are in the list, otherwise decode a chunk of the oldest window.
 *
 * Locks, in the order in which they are taken:
 *   engine->lock  guards the list of windows (first, last, n_windows, next), the plan
 *                 (epoch, number, planning, status, error), window_bytes, the hints of
 *                 the columns (hints, n_hints), and in each window that is not ready:
 *                 stage, next_chunk, chunks_left, status, error, faults, and bytes while
 *                 it decodes. A thread takes it a few times for each window and chunk,
 *                 and for each faulty sample, but never for a good sample.
 *   pool->lock    guards the free list of windows. plan_window takes it while it holds
 *                 engine->lock. Releasing a batch takes it alone, on any thread.
 * No code that holds pool->lock takes another lock. Fetching, decoding, building columns
 * and opening an epoch run without either lock. Releasing an epoch after planning failed
 * may close files under engine->lock; nothing below a dataset calls back into an engine.
 *
 * One thread at a time plans. plan_end releases the lock while it opens the next epoch;
 * planning keeps the others out meanwhile, and only the planner changes engine->epoch, so
 * it may read it without the lock.
 *
 * Each stage gives a window to one owner, and each change of stage happens under the
 * lock, which makes the earlier writes visible to the next owner:
 *   FETCHING  the thread that planned it.
 *   DECODING  each chunk belongs to the thread that took its number; chunks share no slot
 *             and no slab. The thread that lowers chunks_left to 0 sees all other chunks
 *             and owns the window in finish_window, so it reads status and faults there
 *             without the lock.
 *   READY     the caller. While the window is in the list, threads use only its stage
 *             and next, under the lock. If samples of it need the fallback, the caller
 *             decodes them and seals the window (tarn__engine_resolve).
 *
 * Atomic variables, and why their memory orders are enough:
 *   stop      is set once, under the lock, before threads are woken. run_thread reads it
 *             under the lock, so it cannot miss it before it waits. finish_window and
 *             tarn__decode_chunk read it without the lock and relaxed, because it
 *             publishes no data. A window with a chunk that was cut short is never
 *             sealed: the chunk's thread saw stop set and took the lock later, so by
 *             coherence the thread that finishes the window sees it set as well.
 *   hint      is stored with release and loaded with acquire, because it points to a
 *             shape written just before. tarn__setup_hint may load it relaxed: all stores
 *             are made before threads start or under the lock, which it holds.
 *   faulty    is stored relaxed: a slot has one owner at a time, see above.
 *   read, decode, idle  are added to relaxed: they are statistics and order nothing.
 *   users (setup, epoch, pool)  use the default, sequentially consistent. The last
 *             release needs acquire and release, so that it frees what others have
 *             finished with; they are rare, so nothing weaker is worth the trouble.
 *
 * After a fork the child has no threads and the locks may be held, so the child uses
 * neither the engine (loader.c) nor the lock of its pool (tarn__window_release). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"

#define SECOND UINT64_C(1000000000)

/* Remote data takes long to arrive, so more windows are fetched at once: those of this
 * many samples, with at most this many threads and bytes. */
enum { FAR_SAMPLES = 512, MOST_FETCHERS = 64 };
#define FAR_BYTES (UINT64_C(256) << 20)

enum {
    SMALL_BYTES = 16 << 20, /* limit for all windows if there are more than depth */
    SAMPLE_BYTES = 128,     /* memory of a window per sample, besides its bytes */
    UNIT = 2 /* windows that a thread plans at once, where it takes longer to wake up */
};

uint64_t tarn__now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void add_time(atomic_ullong *sum, uint64_t since)
{
    atomic_fetch_add_explicit(sum, tarn__now() - since, memory_order_relaxed);
}

/* --- The list of windows ------------------------------------------------------------ */

/* How many windows may be in the list. Making a small window takes less time than waking
 * a thread, so more than depth are allowed, as long as they are small together. Decoded
 * windows are larger than that. The caller holds the lock. */
static size_t room(const tarn__engine *e)
{
    if (!e->may_widen || !e->window_bytes) return e->depth;
    uint64_t small = SMALL_BYTES / e->window_bytes;
    if (small > 4 * e->depth) small = 4 * e->depth;
    return small > e->depth ? (size_t)small : e->depth;
}

/* Threads that have caught up sleep until no more windows than this are left. The caller
 * holds the lock. */
static size_t reserve(const tarn__engine *e)
{
    size_t quarter = room(e) / 4, half = e->depth / 2;
    return quarter > half ? quarter : half;
}

static bool has_room(const tarn__engine *e)
{
    if (e->fetching && e->n_windows >= e->near &&
        e->n_windows * e->window_bytes >= FAR_BYTES)
        return false;
    return e->n_windows < room(e);
}

/* --- Planning ---------------------------------------------------------------------- */

/* Planning functions are called with the lock held, and return with it held. */

static void append_window(tarn__engine *e, tarn__window *w)
{
    if (e->last)
        e->last->next = w;
    else
        e->first = w;
    e->last = w;
    e->n_windows++;
}

static void plan_failed(tarn__engine *e, tarn_status status, const tarn_error *error)
{
    e->status = status;
    e->error = *error;
    tarn__epoch_release(e->epoch);
    e->epoch = NULL;
    pthread_cond_broadcast(&e->ready);
}

/* After the last window of an epoch: appends its end and opens the next epoch. Making the
 * next order may take long, so the lock is released meanwhile. */
static void plan_end(tarn__engine *e)
{
    tarn__window *w = NULL;
    tarn__epoch *next = NULL;
    tarn_error why;
    tarn_status status = TARN_OK;
    uint64_t epochs = e->setup->o.epochs;
    bool last = epochs && e->epoch->number >= epochs - 1;
    pthread_mutex_unlock(&e->lock);
    if (!last) status = tarn__epoch_other(e->epoch, e->epoch->number + 1, &next, &why);
    if (status == TARN_OK) status = tarn__window_take(e->pool, true, &w, &why);
    pthread_mutex_lock(&e->lock);
    if (status != TARN_OK) {
        tarn__epoch_release(next);
        plan_failed(e, status, &why);
        return;
    }
    w->epoch = e->epoch;
    w->following = next ? tarn__epoch_use(next) : NULL;
    w->stage = TARN__WINDOW_READY;
    append_window(e, w);
    pthread_cond_broadcast(&e->ready);
    e->epoch = next;
    e->number = 0;
}

/* A new window to be fetched, or NULL. */
static tarn__window *plan_window(tarn__engine *e)
{
    tarn__window *w = NULL;
    tarn_error why;
    uint64_t count;
    e->planning = true;
    while (e->epoch && has_room(e) && e->number >= e->epoch->left)
        plan_end(e);
    if (e->epoch && has_room(e)) {
        tarn_status status = tarn__window_take(e->pool, false, &w, &why);
        if (status != TARN_OK) plan_failed(e, status, &why);
    }
    e->planning = false;
    if (!w || !(w->order = tarn__epoch_batch(e->epoch, e->number, &w->from, &count)))
        return NULL; /* no room, or the end. The batch exists: number is below left. */
    e->number++;
    w->rank = e->planned++;
    w->epoch = tarn__epoch_use(e->epoch);
    w->count = (size_t)count;
    w->stage = TARN__WINDOW_FETCHING;
    w->n_chunks = (w->count + e->setup->chunk - 1) / e->setup->chunk;
    w->chunks_left = w->n_chunks;
    w->next_chunk = 0;
    append_window(e, w);
    return w;
}

/* Plans windows for one thread; their number. Of large windows, which take longer than
 * waking a thread, only one: the next is for another thread. The end of an epoch is left
 * to the next thread if it would delay a window. */
static size_t plan_some(tarn__engine *e, tarn__window *out[UNIT])
{
    size_t n = 0, most = room(e) > e->depth ? UNIT : 1;
    while (n < most && e->epoch && !e->planning && has_room(e) &&
           (n == 0 || e->number < e->epoch->left) && (out[n] = plan_window(e)))
        n++;
    return n;
}

/* --- Working ----------------------------------------------------------------------- */

static void window_failed(tarn__engine *e, tarn__window *w, tarn_status status,
                          const tarn_error *error)
{
    pthread_mutex_lock(&e->lock);
    if (w->status == TARN_OK) {
        w->status = status;
        if (!w->error) w->error = malloc(sizeof *w->error);
        if (w->error) *w->error = *error;
    }
    pthread_mutex_unlock(&e->lock);
}

/* Remembers the memory of a window. The caller holds the lock. */
static void remember_size(tarn__engine *e, const tarn__window *w)
{
    if (w->count == 0) return;
    e->window_bytes = w->bytes + w->keys.size + w->count * SAMPLE_BYTES;
}

/* The caller holds the lock. */
static void remember_shapes(tarn__engine *e, const tarn__window *w)
{
    for (size_t i = e->setup->first; w->count && i < e->setup->n_columns; i++) {
        tarn__load_column *c = &e->setup->columns[i];
        if (c->collate)
            tarn__setup_hint_longest(c, w->strips[i].pieces, w->count);
        else if (w->columns[i].kind == TARN_COLUMN_ARRAY)
            tarn__setup_hint(c, w->strips[i].pieces[0].shape);
    }
}

static void finish_window(tarn__worker *k, tarn__window *w)
{
    tarn__engine *e = k->engine;
    tarn_error why;
    /* Threads that stop leave samples undecoded; such a window is never delivered. */
    bool whole = !atomic_load_explicit(&e->stop, memory_order_relaxed);
    whole = whole && !w->n_deferred;
    if (whole && w->status == TARN_OK) {
        tarn_status status = tarn__window_seal(w, &why);
        if (status != TARN_OK) window_failed(e, w, status, &why);
    }
    pthread_mutex_lock(&e->lock);
    if (whole && w->status == TARN_OK && !w->faults) remember_shapes(e, w);
    remember_size(e, w);
    w->stage = TARN__WINDOW_READY;
    if (w == e->first) pthread_cond_broadcast(&e->ready);
    pthread_mutex_unlock(&e->lock);
}

static void run_fetch(tarn__worker *k, tarn__window *w)
{
    tarn__engine *e = k->engine;
    tarn_error why;
    uint64_t since = tarn__now();
    bool late = false;
    tarn__remote_task before = tarn__window_begin(k, w);
    tarn_status status = tarn__fetch_window(k, w, &late, &why);
    tarn__remote_begin(before);
    if (status != TARN_OK) window_failed(e, w, status, &why);
    add_time(&k->read, since);
    if (status != TARN_OK || !late || w->n_chunks == 0) {
        finish_window(k, w);
        return;
    }
    pthread_mutex_lock(&e->lock);
    w->stage = TARN__WINDOW_DECODING;
    pthread_cond_broadcast(&e->work);
    pthread_mutex_unlock(&e->lock);
}

static void run_chunk(tarn__worker *k, tarn__window *w, size_t chunk)
{
    tarn__engine *e = k->engine;
    tarn_error why;
    uint64_t since = tarn__now();
    tarn__remote_task before = tarn__window_begin(k, w);
    tarn_status status = tarn__decode_chunk(k, w, chunk, &why);
    tarn__remote_begin(before);
    if (status != TARN_OK) window_failed(e, w, status, &why);
    add_time(&k->decode, since);
    pthread_mutex_lock(&e->lock);
    bool last = --w->chunks_left == 0;
    pthread_mutex_unlock(&e->lock);
    if (last) finish_window(k, w);
}

/* Takes the next chunk of the oldest window that has one. The caller holds the lock. */
static tarn__window *take_chunk(tarn__engine *e, size_t *out)
{
    for (tarn__window *w = e->first; w; w = w->next)
        if (w->stage == TARN__WINDOW_DECODING && w->next_chunk < w->n_chunks) {
            *out = w->next_chunk++;
            return w;
        }
    return NULL;
}

/* Does one piece of work; false if there is none. The lock is held before and after, but
 * not during the work. */
static bool work_once(tarn__worker *k)
{
    tarn__engine *e = k->engine;
    size_t n = 0, chunk;
    tarn__window *planned[UNIT], *w = NULL;
    if (!k->no_fetch || !e->fetching) n = plan_some(e, planned);
    if (n == 0 && !k->no_decode) w = take_chunk(e, &chunk);
    if (n == 0 && !w) return false;
    pthread_mutex_unlock(&e->lock);
    for (size_t i = 0; i < n; i++)
        run_fetch(k, planned[i]);
    if (w) run_chunk(k, w, chunk);
    pthread_mutex_lock(&e->lock);
    return true;
}

/* Whether a thread that only fetches is not needed any more. The caller holds the lock.
 */
static bool is_done(const tarn__worker *k)
{
    if (!k->no_decode || tarn__may_be_away(k->engine->setup->dataset->source))
        return false;
    /* From the last one on, the other threads fetch. */
    if (--k->engine->fetching == 0) pthread_cond_broadcast(&k->engine->work);
    return true;
}

static void *run_thread(void *context)
{
    tarn__worker *k = context;
    tarn__engine *e = k->engine;
    pthread_mutex_lock(&e->lock);
    while (!atomic_load_explicit(&e->stop, memory_order_relaxed) && !is_done(k)) {
        /* plan_end may have released the lock: check again before waiting. */
        if (work_once(k) || atomic_load_explicit(&e->stop, memory_order_relaxed))
            continue;
        uint64_t since = tarn__now();
        pthread_cond_wait(&e->work, &e->lock);
        add_time(&k->idle, since);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* --- The caller's side ------------------------------------------------------------- */

static struct timespec time_of(uint64_t at)
{
    return (struct timespec){.tv_sec = (time_t)(at / SECOND),
                             .tv_nsec = (long)(at % SECOND)};
}

static bool is_late(uint64_t deadline)
{
    return deadline && tarn__now() >= deadline;
}

static void wait_or_work(tarn__engine *e, uint64_t deadline)
{
    if (e->n_threads == 0) {
        work_once(&e->workers[0]);
        return;
    }
    if (!deadline) {
        pthread_cond_wait(&e->ready, &e->lock);
        return;
    }
    struct timespec until = time_of(deadline);
    (void)pthread_cond_timedwait(&e->ready, &e->lock, &until);
}

tarn_status tarn__engine_first(tarn__engine *e, uint64_t deadline, tarn__window **out,
                               bool *out_late, tarn_error *err)
{
    tarn_status status = TARN_OK;
    *out_late = false;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        *out = e->first;
        bool ready = e->first && e->first->stage == TARN__WINDOW_READY;
        bool over = !e->first && !e->epoch;
        if (ready || over) {
            *out_late = false;
            status = over ? e->status : TARN_OK;
            if (status != TARN_OK && err) *err = e->error;
            break;
        }
        if (*out_late) break;
        wait_or_work(e, deadline);
        *out_late = is_late(deadline);
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

tarn_status tarn__engine_resolve(tarn__engine *e, tarn__window *w, tarn_error *err)
{
    if (!w->n_deferred || w->status != TARN_OK) return TARN_OK;
    tarn__remote_task before = tarn__window_begin(&e->caller, w);
    tarn_status status = tarn__decode_deferred(&e->caller, w, err);
    tarn__remote_begin(before);
    TARN_TRY(status);
    tarn_error why;
    status = tarn__window_seal(w, &why);
    if (status != TARN_OK) window_failed(e, w, status, &why);
    return TARN_OK;
}

void tarn__engine_pop(tarn__engine *e)
{
    pthread_mutex_lock(&e->lock);
    tarn__window *w = e->first;
    e->first = w->next;
    if (!e->first) e->last = NULL;
    e->n_windows--;
    w->next = NULL;
    /* Where nothing is decoded, a window takes less time than waking a thread. So threads
     * that have caught up sleep for a while, and only as many are awake as the caller
     * needs. Any one thread may not be one that fetches. */
    if (e->fetching)
        pthread_cond_broadcast(&e->work);
    else if (e->setup->decodes || e->n_windows <= reserve(e))
        pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
}

/* --- Start and stop ---------------------------------------------------------------- */

static tarn_status worker_init(tarn__worker *k, tarn__engine *e, tarn_error *err)
{
    const tarn__load_setup *s = e->setup;
    size_t templates = 0;
    k->engine = e;
    while (s->o.views && tarn__views_template(s->o.views, templates))
        templates++;
    k->fields = calloc(templates + 1, sizeof *k->fields);
    k->sizes = calloc(s->n_columns + 1, sizeof *k->sizes);
    if (s->o.map) {
        k->values = calloc(s->first + 1, sizeof *k->values);
        k->arrays = calloc(s->first + 1, sizeof *k->arrays);
        if (!k->values || !k->arrays) return tarn__fail_memory(err);
    }
    if (!k->fields || !k->sizes) return tarn__fail_memory(err);
    return tarn_image_decoder_new(&s->decode, &k->image, err);
}

static void worker_reset(tarn__worker *k)
{
    tarn_image_decoder_free(k->image);
    tarn_bytes_release(&k->plain);
    free(k->fields);
    free(k->values);
    free(k->arrays);
    free(k->sizes);
}

static size_t depth_for(const tarn__load_setup *s)
{
    if (s->o.prefetch) return s->o.prefetch;
    if (s->o.threads == 0) return 1;
    return s->decodes ? 3 + s->o.threads / 8 : s->o.threads + 1;
}

tarn__ahead tarn__ahead_of(const tarn__load_setup *s)
{
    tarn__ahead a = {.near = depth_for(s), .depth = depth_for(s), .bytes = FAR_BYTES};
    if (s->o.threads == 0) return a;
    size_t wanted = (FAR_SAMPLES + s->batch - 1) / s->batch;
    if (s->o.prefetch && wanted > s->o.prefetch) wanted = s->o.prefetch;
    a.fetchers = wanted < MOST_FETCHERS ? (unsigned)wanted : MOST_FETCHERS;
    if (!s->o.prefetch) a.depth += a.fetchers;
    return a;
}

static void init_locks(tarn__engine *e)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->ready, &attr);
    pthread_condattr_destroy(&attr);
}

static tarn_status start_threads(tarn__engine *e, tarn_error *err)
{
    unsigned threads = e->setup->o.threads + e->n_fetchers, count = threads ? threads : 1;
    TARN_TRY(
        tarn__pool_new(e->setup, (e->may_widen ? 4 : 1) * e->depth + 2, &e->pool, err));
    e->workers = calloc(count, sizeof *e->workers);
    e->threads = calloc(count, sizeof *e->threads);
    if (!e->workers || !e->threads) return tarn__fail_memory(err);
    for (e->n_workers = 0; e->n_workers < count;) {
        tarn__worker *k = &e->workers[e->n_workers++];
        k->no_decode = e->n_workers <= e->n_fetchers;
        k->no_fetch = e->n_fetchers && !k->no_decode;
        TARN_TRY(worker_init(k, e, err));
    }
    if (e->setup->o.fallback) TARN_TRY(worker_init(&e->caller, e, err));
    e->caller.is_caller = true;
    for (; e->n_threads < threads; e->n_threads++) {
        int failed = pthread_create(&e->threads[e->n_threads], NULL, run_thread,
                                    &e->workers[e->n_threads]);
        if (failed)
            return tarn__fail_errno(err, NULL, failed, "cannot start thread %u of %u",
                                    e->n_threads + 1, threads);
    }
    return TARN_OK;
}

tarn_status tarn__engine_new(tarn__load_setup *setup, tarn__epoch *epoch, uint64_t number,
                             tarn__engine **out, tarn_error *err)
{
    tarn__engine *e = calloc(1, sizeof *e);
    if (!e) {
        tarn__epoch_release(epoch);
        return tarn__fail_memory(err);
    }
    init_locks(e);
    e->setup = setup;
    atomic_fetch_add(&setup->users, 1);
    e->epoch = epoch;
    e->number = number;
    tarn__ahead ahead = tarn__ahead_of(setup);
    e->near = e->depth = ahead.near;
    if (setup->remote) {
        e->n_fetchers = e->fetching = ahead.fetchers;
        e->depth = ahead.depth;
    }
    e->may_widen = !e->n_fetchers && setup->o.prefetch == 0 && setup->o.threads > 0 &&
                   !setup->decodes;
    tarn_status status = start_threads(e, err);
    if (status == TARN_OK)
        *out = e;
    else
        tarn__engine_free(e);
    return status;
}

void tarn__engine_free(tarn__engine *e)
{
    if (!e) return;
    pthread_mutex_lock(&e->lock);
    atomic_store(&e->stop, true);
    pthread_cond_broadcast(&e->work);
    pthread_mutex_unlock(&e->lock);
    for (unsigned i = 0; i < e->n_threads; i++)
        pthread_join(e->threads[i], NULL);
    for (unsigned i = 0; i < e->n_workers; i++)
        worker_reset(&e->workers[i]);
    worker_reset(&e->caller);
    for (tarn__window *w = e->first, *next; w; w = next) {
        next = w->next;
        tarn__window_release(w);
    }
    tarn__epoch_release(e->epoch);
    tarn__pool_release(e->pool);
    tarn__setup_release(e->setup);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->ready);
    pthread_mutex_destroy(&e->lock);
    free(e->workers);
    free(e->threads);
    free(e);
}
