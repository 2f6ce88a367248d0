/* The caller's side of a loader: batches in order, skipped samples, state, and forks. */
#include "dataset/loader.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "dataset/order.h"

struct tarn_loader {
    tarn__load_setup *setup;
    tarn__engine *engine; /* NULL: not started, or abandoned after a fork */
    pid_t pid;            /* process that started it */

    /* The caller's position: number batches of those left in epoch were delivered. */
    tarn__epoch *epoch;
    uint64_t number;
    bool over;   /* after the last epoch */
    bool failed; /* the last call for a batch failed */

    /* The counts before the last delivered batch, for tarn_loader_back. */
    bool delivered;
    tarn_loader_stats stats_before;
    size_t skipped_before;

    tarn_skipped *skipped;
    size_t n_skipped, skipped_capacity;
    tarn_loader_stats stats; /* without the times of a running engine */
    uint64_t first_asked;    /* time of the first call for a batch */
};

/* --- Opening and closing ----------------------------------------------------------- */

/* The dataset at the position of the state, or at its beginning. */
static tarn_status open_at(tarn_dataset *d, const tarn_loader_options *o,
                           tarn_dataset **out, tarn_error *err)
{
    if (o->state) return tarn_dataset_resume(d, o->state, o->state_len, out, err);
    *out = tarn__dataset_use(d);
    return TARN_OK;
}

/* The position where the dataset begins in an epoch: it may itself be resumed. */
static uint64_t origin_of(const tarn_dataset *d, uint64_t epoch)
{
    tarn_order_info info = {0};
    if (d->order) tarn_order_info_get(d->order, &info, sizeof info);
    return info.epoch == epoch ? info.start : 0;
}

static tarn_status open_epoch(tarn_dataset *d, const tarn_loader_options *o,
                              tarn__epoch **out, tarn_error *err)
{
    tarn_dataset *at, *set;
    tarn_order *order, *batches;
    TARN_TRY(open_at(d, o, &at, err));
    tarn_status status = tarn__dataset_parts(at, &set, &order, err);
    tarn_dataset_close(at);
    if (status != TARN_OK) return status;
    status = tarn__order_in_batches(order, o->batch, o->equal_batches, o->drop_last,
                                    &batches, err);
    tarn_order_close(order);
    if (status == TARN_OK) {
        uint64_t origin = origin_of(d, tarn__order_options(batches)->epoch);
        return tarn__epoch_new(set, batches, origin, out, err);
    }
    tarn_dataset_close(set);
    return status;
}

static uint64_t seed_of(const tarn__epoch *epoch, const tarn_loader_options *o)
{
    return o->seed ? o->seed : tarn__order_options(epoch->order)->seed;
}

static bool is_past_end(const tarn_loader *l)
{
    return l->setup->o.epochs && l->epoch->number >= l->setup->o.epochs;
}

TARN__DEFINE_INIT(tarn_loader_options, TARN_LOADER_OPTIONS_INIT)

tarn_status tarn_loader_open(tarn_dataset *dataset, const tarn_loader_options *options,
                             tarn_loader **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", dataset);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_loader_options, o, TARN_LOADER_OPTIONS_INIT, options, err);
    tarn_loader *l = calloc(1, sizeof *l);
    if (!l) return tarn__fail_memory(err);
    tarn_status status = tarn__setup_check(&o, err);
    if (status == TARN_OK) status = open_epoch(dataset, &o, &l->epoch, err);
    if (status == TARN_OK)
        status =
            tarn__setup_new(l->epoch->set, &o, seed_of(l->epoch, &o), &l->setup, err);
    if (status == TARN_OK) {
        l->over = is_past_end(l);
        *out = l;
    } else {
        tarn_loader_close(l);
    }
    return status;
}

static void add_times(const tarn__engine *e, tarn_loader_stats *s)
{
    for (unsigned i = 0; i < e->n_workers; i++) {
        tarn__worker *k = &e->workers[i];
        s->read += (double)atomic_load(&k->read) / 1e9;
        s->decode += (double)atomic_load(&k->decode) / 1e9;
        s->idle += (double)atomic_load(&k->idle) / 1e9;
    }
}

/* Stops the threads. A forked child has none, and abandons the engine as it is. */
static void stop_engine(tarn_loader *l)
{
    if (l->engine && l->pid == getpid()) {
        add_times(l->engine, &l->stats);
        tarn__engine_free(l->engine);
    }
    l->engine = NULL;
}

static void forget_skipped(tarn_loader *l, size_t kept)
{
    while (l->n_skipped > kept)
        free((void *)(uintptr_t)l->skipped[--l->n_skipped].key);
}

void tarn_loader_close(tarn_loader *l)
{
    if (!l) return;
    stop_engine(l);
    tarn__epoch_release(l->epoch);
    tarn__setup_release(l->setup);
    forget_skipped(l, 0);
    free(l->skipped);
    free(l);
}

static tarn_status start_engine(tarn_loader *l, tarn_error *err)
{
    if (l->engine && l->pid == getpid()) return TARN_OK;
    stop_engine(l);
    l->pid = getpid();
    if (!l->first_asked) l->first_asked = tarn__now();
    return tarn__engine_new(l->setup, tarn__epoch_use(l->epoch), l->number, &l->engine,
                            err);
}

/* --- Skipped samples ---------------------------------------------------------------- */

static void list_skipped(tarn_loader *l, const tarn__window *w, const tarn__fault *f)
{
    tarn_text key = {0};
    if (l->n_skipped == TARN_MAX_LOADER_LISTED) return;
    if (tarn__grow(&l->skipped, sizeof *l->skipped, l->n_skipped, &l->skipped_capacity,
                   NULL) != TARN_OK)
        return;
    if (tarn_dataset_key(w->epoch->set, f->sample, &key, NULL) != TARN_OK)
        tarn_text_reset(&key);
    l->skipped[l->n_skipped++] =
        (tarn_skipped){w->epoch->number, f->sample, f->error, key.data};
}

static tarn_status fail_over_limit(const tarn_loader *l, const tarn__fault *f,
                                   tarn_error *err)
{
    if (!err) return f->error.code;
    *err = f->error;
    tarn__error_set(err, f->error.code, f->error.path[0] ? f->error.path : NULL,
                    f->error.offset, "too many faulty samples (limit %llu): %s",
                    (unsigned long long)l->setup->o.error_limit, f->error.message);
    err->sys_errno = f->error.sys_errno;
    return f->error.code;
}

static tarn_status report_fault(tarn_loader *l, const tarn__window *w,
                                const tarn__fault *f, tarn_error *err)
{
    const tarn_loader_options *o = &l->setup->o;
    if (o->on_error == TARN_ON_ERROR_RAISE) {
        if (err) *err = f->error;
        return f->error.code;
    }
    if (l->stats.skipped >= o->error_limit) return fail_over_limit(l, f, err);
    list_skipped(l, w, f);
    if (o->notice) o->notice(o->notice_context, &f->error);
    l->stats.skipped++;
    return TARN_OK;
}

/* Every later call for this window fails, with the error of its first sample. */
static void fail_empty(const tarn_loader *l, tarn__window *w, const tarn_error *first)
{
    if (!w->error) w->error = malloc(sizeof *w->error);
    w->status = w->error ? TARN_ERR_FORMAT : TARN_ERR_MEMORY;
    if (!w->error) return;
    tarn__error_set(w->error, TARN_ERR_FORMAT, first->path[0] ? first->path : NULL,
                    first->offset,
                    "no usable sample in batch %llu of epoch %llu; first error: %s",
                    (unsigned long long)l->number, (unsigned long long)l->epoch->number,
                    first->message);
}

static tarn_status window_status(const tarn__window *w, tarn_error *err)
{
    if (w->status != TARN_OK && !w->error) return tarn__fail_memory(err);
    if (w->status != TARN_OK && err) *err = *w->error;
    return w->status;
}

/* Reports the samples that could not be loaded. */
static tarn_status check_window(tarn_loader *l, tarn__window *w, tarn_error *err)
{
    TARN_TRY(window_status(w, err));
    if (!w->faults) return TARN_OK;
    tarn_error first = w->faults->error;
    for (tarn__fault *f; (f = w->faults);) {
        TARN_TRY(report_fault(l, w, f, err));
        w->faults = f->next;
        free(f);
    }
    if (w->count == 0) fail_empty(l, w, &first);
    return window_status(w, err);
}

/* --- Batches ----------------------------------------------------------------------- */

static tarn_status end_epoch(tarn_loader *l, tarn__window *end)
{
    if (!end || !end->following) {
        l->number = l->epoch->left;
        l->over = true;
        return TARN_END;
    }
    tarn__epoch_release(l->epoch);
    l->epoch = tarn__epoch_use(end->following);
    l->number = 0;
    tarn__engine_pop(l->engine);
    tarn__window_release(end);
    return TARN_END;
}

static tarn_status next_batch(tarn_loader *l, uint64_t deadline, tarn_batch **out,
                              tarn_error *err)
{
    tarn__window *w;
    bool late;
    TARN_TRY(tarn__engine_first(l->engine, deadline, &w, &late, err));
    if (late) return TARN_OK;
    if (!w || w->end) return end_epoch(l, w);
    tarn_loader_stats stats = l->stats;
    size_t n_skipped = l->n_skipped;
    TARN_TRY(tarn__engine_resolve(l->engine, w, err));
    TARN_TRY(check_window(l, w, err));
    tarn__engine_pop(l->engine);
    l->delivered = true;
    l->stats_before = stats;
    l->skipped_before = n_skipped;
    w->batch.number = l->number++;
    l->stats.bytes += w->bytes;
    l->stats.fallbacks += w->fallbacks;
    l->stats.batches++;
    l->stats.samples += w->count;
    *out = &w->batch;
    return TARN_OK;
}

tarn_status tarn_loader_next(tarn_loader *l, unsigned milliseconds, tarn_batch **out,
                             tarn_error *err)
{
    TARN__NEED(err, "loader", l);
    TARN__NEED(err, "out", out);
    *out = NULL;
    if (l->over) return TARN_END;
    l->failed = true;
    l->delivered = false;
    TARN_TRY(start_engine(l, err));
    uint64_t now = tarn__now(), deadline = 0;
    if (milliseconds != TARN_NO_TIMEOUT)
        deadline = now + (uint64_t)milliseconds * 1000000 + 1;
    tarn_status status = next_batch(l, deadline, out, err);
    l->failed = status > TARN_END;
    l->stats.waited += (double)(tarn__now() - now) / 1e9;
    return status;
}

/* --- Position ---------------------------------------------------------------------- */

const tarn__load_setup *tarn__loader_setup(const tarn_loader *l)
{
    return l->setup;
}

tarn__epoch *tarn__loader_epoch(const tarn_loader *l, uint64_t *out_delivered)
{
    *out_delivered = l->number;
    return l->over ? NULL : l->epoch;
}

tarn_status tarn_loader_set_epoch(tarn_loader *l, uint64_t epoch, tarn_error *err)
{
    TARN__NEED(err, "loader", l);
    tarn__epoch *other;
    bool whole = tarn__epoch_used(l->epoch, 0) == 0;
    if (l->epoch->number == epoch && l->number == 0 && whole && !l->over && !l->failed)
        return TARN_OK;
    TARN_TRY(tarn__epoch_other(l->epoch, epoch, &other, err));
    stop_engine(l);
    tarn__epoch_release(l->epoch);
    l->epoch = other;
    l->number = 0;
    l->failed = l->delivered = false;
    l->over = is_past_end(l);
    return TARN_OK;
}

void tarn_loader_back(tarn_loader *l)
{
    if (!l || !l->delivered) return;
    stop_engine(l);
    l->number--;
    l->delivered = false;
    l->failed = true;
    forget_skipped(l, l->skipped_before);
    l->stats.batches = l->stats_before.batches;
    l->stats.samples = l->stats_before.samples;
    l->stats.skipped = l->stats_before.skipped;
    l->stats.bytes = l->stats_before.bytes;
    l->stats.fallbacks = l->stats_before.fallbacks;
}

void tarn_loader_info_get(const tarn_loader *l, tarn_loader_info *out, size_t size)
{
    if (!l) {
        TARN__FILL_ZERO(out, size);
        return;
    }
    const tarn_order_options *o = tarn__order_options(l->epoch->order);
    bool passed = l->over && l->epoch->number < l->setup->o.epochs;
    tarn_loader_info info = {.epoch = l->epoch->number + passed,
                             .batches = l->epoch->batches,
                             .left = l->over ? 0 : l->epoch->left - l->number,
                             .rank = o->rank,
                             .world_size = o->world_size,
                             .over = l->over};
    TARN__FILL_OUT(out, size, info);
}

tarn_status tarn_loader_state(tarn_loader *l, tarn_text *out, tarn_error *err)
{
    return tarn_loader_state_before(l, 0, out, err);
}

tarn_status tarn_loader_state_before(tarn_loader *l, uint64_t batches, tarn_text *out,
                                     tarn_error *err)
{
    TARN__NEED(err, "loader", l);
    TARN__NEED(err, "out", out);
    if (batches > l->number)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "batches must be at most the %llu delivered in this epoch "
                          "(found %llu)",
                          (unsigned long long)l->number, (unsigned long long)batches);
    tarn_order_info info;
    tarn_order_info_get(l->epoch->order, &info, sizeof info);
    uint64_t used = tarn__epoch_used(l->epoch, l->number - batches);
    /* The same position on all ranks, also on one that had no samples. */
    if (l->over && batches == 0) used = info.total;
    return tarn__state_text(l->epoch->set, l->epoch->order, used, out, err);
}

const tarn_skipped *tarn_loader_skipped(const tarn_loader *l, size_t i)
{
    return l && i < l->n_skipped ? &l->skipped[i] : NULL;
}

static const char *bottleneck(const tarn_loader_stats *s)
{
    if (s->batches == 0) return "none";
    if (s->waited < s->seconds / 20) return "caller";
    return s->decode > s->read ? "decode" : "read";
}

void tarn_loader_stats_get(const tarn_loader *l, tarn_loader_stats *out, size_t size)
{
    if (!l) {
        TARN__FILL_ZERO(out, size);
        return;
    }
    tarn_loader_stats stats = l->stats;
    if (l->first_asked) stats.seconds = (double)(tarn__now() - l->first_asked) / 1e9;
    if (l->engine && l->pid == getpid()) add_times(l->engine, &stats);
    stats.bottleneck = bottleneck(&stats);
    TARN__FILL_OUT(out, size, stats);
}
