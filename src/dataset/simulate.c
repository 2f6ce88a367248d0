/* Simulates loaders of remote files. Each batch goes through the first step of a window
 * (tarn__window_stock) while the requests of this thread are only counted (io/tally.h).
 * Batches of several loaders take turns.
 *
 * The time is a model: a window needs its bytes through a line that all loaders share,
 * and a slot of its loader for each request; both serve windows in order. How many
 * windows are fetched at once is what the engine would choose, and how many requests are
 * sent at once is left to the arithmetic of the fetcher (io/fetch_pace.h). */
#include <tarn/simulate.h>

#include <stdlib.h>

#include "base/error.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "dataset/loader.h"
#include "io/fetch_inside.h"
#include "io/tally.h"

/* A loader. Times are in seconds from the start. */
typedef struct member {
    tarn__engine engine; /* only its setup is used */
    tarn__worker worker;
    tarn__pool *pool;
    tarn__window *window;
    tarn__epoch *epoch; /* NULL: after the last one */
    uint64_t number;    /* batches that were delivered */
    uint64_t batch;     /* batches of this epoch that were simulated */
    tarn__ahead ahead;
    double *fetchers;  /* when each thread that fetches is free again */
    double *delivered; /* a ring: when the last windows were delivered */
    size_t n_delivered;
    double slots; /* when its requests so far have left their slots */
    tarn__pace pace;
} member;

struct tarn_simulation {
    tarn_simulation_options o;
    tarn__tally *tally;
    member *members;
    size_t count;
    uint64_t epochs; /* simulated */
    double line;     /* when the line is free again */
    double now;      /* when the last window was delivered */
};

TARN__DEFINE_INIT(tarn_simulation_options, TARN_SIMULATION_OPTIONS_INIT)

/* --- Opening ----------------------------------------------------------------------- */

static tarn_status member_init(member *m, const tarn_loader *l,
                               const tarn_simulation_options *o, tarn_error *err)
{
    const tarn__load_setup *s = tarn__loader_setup(l);
    size_t templates = 0;
    while (s->o.views && tarn__views_template(s->o.views, templates))
        templates++;
    m->engine.setup = (tarn__load_setup *)(uintptr_t)s;
    m->worker.engine = &m->engine;
    m->ahead = tarn__ahead_of(s);
    m->worker.fields = calloc(templates + 1, sizeof *m->worker.fields);
    m->fetchers = calloc(m->ahead.fetchers + 1, sizeof *m->fetchers);
    m->delivered = calloc(m->ahead.depth + 1, sizeof *m->delivered);
    if (!m->worker.fields || !m->fetchers || !m->delivered) return tarn__fail_memory(err);
    tarn__pace_init(&m->pace, TARN__FETCH_MOST);
    tarn__pace_note(&m->pace, 0, 0, 0, true);
    tarn__pace_note(&m->pace, (int64_t)(o->latency * 1e3), 0, 0, true);
    if (o->connections) m->pace.limit = m->pace.most = o->connections;
    m->epoch = tarn__loader_epoch(l, &m->number);
    if (m->epoch) tarn__epoch_use(m->epoch);
    TARN_TRY(tarn__pool_new(m->engine.setup, 1, &m->pool, err));
    return tarn__window_take(m->pool, false, &m->window, err);
}

static void member_reset(member *m)
{
    if (m->window) tarn__window_release(m->window);
    tarn__pool_release(m->pool);
    tarn__epoch_release(m->epoch);
    free(m->worker.fields);
    free(m->fetchers);
    free(m->delivered);
}

static tarn_status check_options(const tarn_simulation_options *o, size_t count,
                                 tarn_error *err)
{
    if (count == 0 || count > TARN_MAX_SIMULATED_LOADERS)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "cannot simulate %zu loaders (expected 1 to %u)", count,
                          TARN_MAX_SIMULATED_LOADERS);
    if (!(o->latency >= 0 && o->latency < 1e6) || !(o->bandwidth >= 0))
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "a latency of %g seconds and a bandwidth of %g bytes per second "
            "(expected positive numbers)",
            o->latency, o->bandwidth);
    return TARN_OK;
}

tarn_status tarn_simulation_open(tarn_loader *const *loaders, size_t count,
                                 const tarn_simulation_options *options,
                                 tarn_simulation **out, tarn_error *err)
{
    TARN__NEED(err, "loaders", loaders);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_simulation_options, o, TARN_SIMULATION_OPTIONS_INIT, options, err);
    TARN_TRY(check_options(&o, count, err));
    tarn_simulation *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->o = o;
    s->members = calloc(count, sizeof *s->members);
    tarn_status status = s->members ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK)
        status = tarn__tally_new(count, o.cache, o.cache_limit, &s->tally, err);
    while (status == TARN_OK && s->count < count) {
        member *m = &s->members[s->count];
        status = member_init(m, loaders[s->count++], &s->o, err);
    }
    if (status == TARN_OK)
        *out = s;
    else
        tarn_simulation_close(s);
    return status;
}

void tarn_simulation_close(tarn_simulation *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++)
        member_reset(&s->members[i]);
    free(s->members);
    tarn__tally_free(s->tally);
    free(s);
}

/* --- Time -------------------------------------------------------------------------- */

/* The thread that is free first. */
static double *next_fetcher(const member *m)
{
    double *first = m->fetchers;
    for (unsigned i = 1; i < m->ahead.fetchers; i++)
        if (m->fetchers[i] < *first) first = &m->fetchers[i];
    return first;
}

/* A window begins only if less than this many before it are waiting to be delivered. */
static size_t depth_of(const member *m, uint64_t bytes)
{
    size_t most = bytes ? (size_t)(m->ahead.bytes / bytes) : m->ahead.depth;
    if (most > m->ahead.depth) return m->ahead.depth;
    return most > m->ahead.near ? most : m->ahead.near;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* An epoch begins when the one before it was delivered. */
static void begin_epoch(tarn_simulation *s)
{
    s->line = s->now;
    for (size_t i = 0; i < s->count; i++) {
        member *m = &s->members[i];
        m->slots = s->now;
        m->n_delivered = 0;
        for (unsigned k = 0; k <= m->ahead.fetchers; k++)
            m->fetchers[k] = s->now;
    }
}

/* The time at which a window with these requests is delivered. */
static void spend(tarn_simulation *s, member *m, uint64_t requests, uint64_t bytes,
                  uint64_t window_bytes)
{
    double *fetcher = next_fetcher(m), start = *fetcher, done;
    size_t ring = m->ahead.depth + 1, depth = depth_of(m, window_bytes);
    if (m->n_delivered >= depth)
        start = later(start, m->delivered[(m->n_delivered - depth) % ring]);
    done = start;
    if (requests) {
        m->slots = later(m->slots, start) +
                   (double)requests * s->o.latency / (double)m->pace.limit;
        s->line = later(s->line, start + s->o.latency);
        if (s->o.bandwidth > 0) s->line += (double)bytes / s->o.bandwidth;
        done = later(s->line, later(m->slots, start + s->o.latency));
        bool full = requests * (m->ahead.fetchers + 1) > m->pace.limit;
        if (!s->o.connections)
            tarn__pace_note(&m->pace, (int64_t)(done * 1e3), bytes, (unsigned)requests,
                            full);
    }
    *fetcher = done;
    if (m->n_delivered) done = later(done, m->delivered[(m->n_delivered - 1) % ring]);
    m->delivered[m->n_delivered++ % ring] = done;
    s->now = later(s->now, done);
}

/* --- Epochs ------------------------------------------------------------------------ */

/* Counts the requests of the window's samples. */
static tarn_status count_window(tarn_simulation *s, member *m, tarn_error *err)
{
    tarn__window *w = m->window;
    TARN_TRY(tarn_order_fill(w->order, w->from, w->count, w->samples, err));
    tarn__remote_task before = tarn__remote_begin((tarn__remote_task){.tally = s->tally});
    tarn_status status = tarn__window_stock(&m->worker, w, err);
    tarn__remote_begin(before);
    tarn__stock_empty(&w->stock);
    TARN_TRY(status);
    return tarn__tally_status(s->tally, err);
}

/* The next batch of a loader; *out_more if it had one. */
static tarn_status simulate_batch(tarn_simulation *s, size_t reader,
                                  tarn_simulated_epoch *e, bool *out_more,
                                  tarn_error *err)
{
    uint64_t count;
    member *m = &s->members[reader];
    tarn__window *w = m->window;
    *out_more = m->epoch && m->number + m->batch < m->epoch->left;
    if (!*out_more) return TARN_OK;
    w->order = tarn__epoch_batch(m->epoch, m->number + m->batch, &w->from, &count);
    m->batch++;
    w->epoch = m->epoch; /* borrowed */
    w->count = (size_t)count;
    tarn__tally_counts before = *tarn__tally_get(s->tally), now;
    tarn__tally_set_reader(s->tally, reader);
    tarn_status status = w->order ? count_window(s, m, err) : TARN_OK;
    w->epoch = NULL;
    TARN_TRY(status);
    now = *tarn__tally_get(s->tally);
    spend(s, m, now.requests - before.requests, now.bytes - before.bytes,
          now.wanted - before.wanted);
    e->batches++;
    e->samples += count;
    e->wanted += now.wanted - before.wanted;
    e->cached += now.cached - before.cached;
    e->requests += now.requests - before.requests;
    e->bytes += now.bytes - before.bytes;
    return TARN_OK;
}

static tarn_status next_epoch(member *m, tarn_error *err)
{
    tarn__epoch *next = NULL;
    uint64_t epochs = m->engine.setup->o.epochs;
    if (!m->epoch) return TARN_OK;
    if (!epochs || m->epoch->number + 1 < epochs)
        TARN_TRY(tarn__epoch_other(m->epoch, m->epoch->number + 1, &next, err));
    tarn__epoch_release(m->epoch);
    m->epoch = next;
    m->number = m->batch = 0;
    return TARN_OK;
}

tarn_status tarn_simulation_next(tarn_simulation *s, tarn_simulated_epoch *out,
                                 size_t size, tarn_error *err)
{
    TARN__NEED(err, "simulation", s);
    TARN__NEED(err, "out", out);
    tarn_simulated_epoch e = {0};
    const tarn__epoch *first = NULL;
    bool any = true;
    double start = s->now;
    for (size_t i = 0; i < s->count && !first; i++)
        first = s->members[i].epoch;
    if (!first || (s->o.epochs && s->epochs >= s->o.epochs)) return TARN_END;
    e.epoch = first->number;
    begin_epoch(s);
    while (any) {
        any = false;
        for (size_t i = 0; i < s->count; i++) {
            bool more;
            TARN_TRY(simulate_batch(s, i, &e, &more, err));
            any |= more;
        }
    }
    for (size_t i = 0; i < s->count; i++)
        TARN_TRY(next_epoch(&s->members[i], err));
    s->epochs++;
    e.kept = tarn__tally_kept(s->tally);
    e.seconds = s->now - start;
    TARN__FILL_OUT(out, size, e);
    return TARN_OK;
}
