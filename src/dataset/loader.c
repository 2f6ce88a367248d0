/* The caller's side of a loader: batches in order, what is done with samples that cannot
 * be had, where it stands, and a fork. */
#include "dataset/loader.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "dataset/order.h"

struct tarn_loader {
    tarn__load_setup *setup;
    tarn__engine *engine; /* NULL: not started, or in a child of who started it */
    pid_t pid;            /* of who started it */

    /* Where the caller stands: behind so many samples and batches of an epoch. */
    tarn__epoch *epoch;
    uint64_t own, number;
    uint64_t judged; /* faults of samples before this one are counted, also those of a
                        batch that is gathered again */
    uint64_t epochs_left; /* behind this one; UINT64_MAX: no end */
    bool over;            /* all epochs are */
    bool failed;          /* the last batch that was asked for */

    /* The batch that is being put together of several windows, if samples were skipped.
     */
    tarn__slot *slots;
    size_t n_slots;
    tarn__window *used; /* windows that slots are of and that have no more */

    tarn_skipped *skipped;
    size_t n_skipped, skipped_capacity;
    tarn_loader_stats stats; /* as far as the caller counts */
    uint64_t first_asked;
};

/* --- Opening and closing ----------------------------------------------------------- */

static tarn_status open_order(const tarn_dataset *d, const tarn_loader_options *o,
                              tarn__epoch **out, tarn_error *err)
{
    tarn_order *order;
    uint64_t count = tarn_dataset_count(d);
    if (o->state)
        TARN_TRY(
            tarn_order_resume(count, o->state, o->state_len, &o->order, &order, err));
    else
        TARN_TRY(tarn_order_open(count, &o->order, &order, err));
    return tarn__epoch_new(order, out, err);
}

static uint64_t seed_of(const tarn__epoch *epoch)
{
    return tarn__order_options(epoch->order)->seed;
}

static uint64_t epochs_behind_one(const tarn_loader_options *o)
{
    return o->epochs ? o->epochs - 1 : UINT64_MAX;
}

tarn_status tarn_loader_open(tarn_dataset *dataset, const tarn_loader_options *options,
                             tarn_loader **out, tarn_error *err)
{
    TARN__OPTIONS(tarn_loader_options, o, TARN_LOADER_OPTIONS_INIT, options, err);
    tarn_loader *l = calloc(1, sizeof *l);
    if (!l) return tarn__fail_memory(err);
    l->epochs_left = epochs_behind_one(&o);
    tarn_status status = open_order(dataset, &o, &l->epoch, err);
    if (status == TARN_OK)
        status = tarn__setup_new(dataset, &o, seed_of(l->epoch), &l->setup, err);
    if (status == TARN_OK && !(l->slots = calloc(l->setup->batch, sizeof *l->slots)))
        status = tarn__fail_memory(err);
    if (status == TARN_OK)
        *out = l;
    else
        tarn_loader_close(l);
    return status;
}

static void release_used(tarn_loader *l)
{
    for (tarn__window *w = l->used, *next; w; w = next) {
        next = w->next;
        tarn__window_release(w);
    }
    l->used = NULL;
    l->n_slots = 0;
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

/* Ends the threads. In a child of who started them there are none, and what they were in
 * the middle of is left as it is. */
static void stop(tarn_loader *l)
{
    if (l->engine && l->pid == getpid()) {
        release_used(l);
        add_times(l->engine, &l->stats);
        tarn__engine_free(l->engine);
    }
    l->used = NULL;
    l->n_slots = 0;
    l->engine = NULL;
}

void tarn_loader_close(tarn_loader *l)
{
    if (!l) return;
    stop(l);
    tarn__epoch_release(l->epoch);
    tarn__setup_release(l->setup);
    free(l->slots);
    free(l->skipped);
    free(l);
}

static tarn_status start(tarn_loader *l, tarn_error *err)
{
    if (l->engine && l->pid == getpid()) return TARN_OK;
    stop(l);
    l->pid = getpid();
    if (!l->first_asked) l->first_asked = tarn__now();
    return tarn__engine_new(l->setup, tarn__epoch_use(l->epoch), l->own, l->number,
                            l->epochs_left, &l->engine, err);
}

/* --- Samples that cannot be had ---------------------------------------------------- */

static void list_skipped(tarn_loader *l, const tarn__window *w, const tarn__fault *f)
{
    if (l->n_skipped == TARN_MAX_LOADER_LISTED) return;
    if (tarn__grow(&l->skipped, sizeof *l->skipped, l->n_skipped, &l->skipped_capacity,
                   NULL) != TARN_OK)
        return;
    l->skipped[l->n_skipped++] =
        (tarn_skipped){w->epoch->number, w->samples[f->slot], f->error};
}

static tarn_status over_limit(const tarn_loader *l, const tarn__fault *f, tarn_error *err)
{
    if (!err) return f->error.code;
    *err = f->error;
    tarn__error_set(err, f->error.code, f->error.path[0] ? f->error.path : NULL,
                    f->error.offset, "after %llu skipped samples, which is the limit, %s",
                    (unsigned long long)l->setup->o.error_limit, f->error.message);
    err->sys_errno = f->error.sys_errno;
    return f->error.code;
}

/* What is to be done about a fault. */
static tarn_status judge(tarn_loader *l, const tarn__window *w, const tarn__fault *f,
                         tarn_error *err)
{
    const tarn_loader_options *o = &l->setup->o;
    uint64_t at = w->from + f->slot;
    if (at < l->judged) return TARN_OK;
    if (o->on_error == TARN_ON_ERROR_RAISE) {
        if (err) *err = f->error;
        return f->error.code;
    }
    if (o->on_error == TARN_ON_ERROR_LIMIT && l->stats.skipped >= o->error_limit)
        return over_limit(l, f, err);
    list_skipped(l, w, f);
    if (o->notice) o->notice(o->notice_context, &f->error);
    l->stats.skipped++;
    l->judged = at + 1;
    return TARN_OK;
}

static tarn_status skip_first(tarn_loader *l, tarn__window *w, tarn_error *err)
{
    tarn__fault *f = w->faults;
    TARN__KNOWN(f); /* of the first sample that is faulty */
    TARN_TRY(judge(l, w, f, err));
    w->faults = f->next;
    free(f);
    return TARN_OK;
}

static tarn_status check_window(const tarn__window *w, tarn_error *err)
{
    if (w->status == TARN_OK) return TARN_OK;
    if (!w->error) return tarn__fail_memory(err);
    if (err) *err = *w->error;
    return w->status;
}

/* --- Putting a batch together ------------------------------------------------------ */

/* The caller stands behind the last sample of what it gets: what was looked at further on
 * for a batch that never came is looked at again. */
static void deliver(tarn_loader *l, tarn__window *w, uint64_t own, tarn_batch **out)
{
    l->own = own;
    w->batch.number = l->number++;
    l->stats.batches++;
    l->stats.samples += w->count;
    *out = &w->batch;
}

/* How many samples the next batch should have. */
static size_t target(const tarn_loader *l)
{
    uint64_t from, count;
    if (tarn_order_batch(l->epoch->order, l->number, &from, &count, NULL) != TARN_OK)
        return l->setup->batch;
    return (size_t)count;
}

/* Takes samples of the first window up to a fault that is not skipped. */
static tarn_status pick_samples(tarn_loader *l, tarn__window *w, size_t wanted,
                                tarn_error *err)
{
    tarn_status status = TARN_OK;
    size_t skipped = 0;
    for (; w->taken < w->count && l->n_slots < wanted; w->taken++) {
        if (!w->faulty[w->taken]) {
            l->slots[l->n_slots++] = (tarn__slot){w, w->taken};
            continue;
        }
        status = skip_first(l, w, err);
        if (status != TARN_OK) break;
        skipped++;
    }
    if (skipped) tarn__engine_skipped(l->engine, w->epoch, skipped);
    return status;
}

/* The same, and the window too, if that was all of them. */
static tarn_status pick(tarn_loader *l, tarn__window *w, size_t wanted, tarn_error *err)
{
    TARN_TRY(pick_samples(l, w, wanted, err));
    if (w->taken < w->count) return TARN_OK;
    l->stats.bytes += w->bytes;
    tarn__engine_pop(l->engine);
    w->next = l->used;
    l->used = w;
    return TARN_OK;
}

static uint64_t behind_slots(const tarn_loader *l)
{
    if (l->n_slots == 0) return l->own;
    const tarn__slot *last = &l->slots[l->n_slots - 1];
    return last->window->from + last->number + 1;
}

static tarn_status put_together(tarn_loader *l, tarn_batch **out, tarn_error *err)
{
    tarn__window *w;
    uint64_t own = behind_slots(l);
    TARN_TRY(tarn__window_take(l->engine->pool, false, &w, err));
    w->epoch = tarn__epoch_use(l->epoch);
    tarn_status status = tarn__window_gather(w, l->slots, l->n_slots, err);
    if (status != TARN_OK) {
        tarn__window_release(w);
        return status;
    }
    release_used(l);
    deliver(l, w, own, out);
    return TARN_OK;
}

/* Batches that all ranks have alike are full or not there. */
static bool only_full(const tarn_loader *l)
{
    const tarn_order_options *o = tarn__order_options(l->epoch->order);
    return o->equal_batches && o->ranks == TARN_RANKS_DROP;
}

/* Behind all of an epoch, however many samples of it were skipped. */
static void end_all(tarn_loader *l)
{
    tarn_order_info info;
    tarn_order_info_get(l->epoch->order, &info);
    l->own = info.length;
    l->number = info.batches;
    l->over = true;
}

static tarn_status end_epoch(tarn_loader *l, tarn__window *end, tarn_batch **out,
                             tarn_error *err)
{
    if (l->n_slots > 0 && !only_full(l)) return put_together(l, out, err);
    release_used(l);
    if (!end || !end->following) {
        end_all(l);
        return TARN_END;
    }
    tarn__epoch_release(l->epoch);
    l->epoch = tarn__epoch_use(end->following);
    l->own = l->number = l->judged = 0;
    if (l->epochs_left != UINT64_MAX) l->epochs_left--;
    tarn__engine_pop(l->engine);
    tarn__window_release(end);
    return TARN_END;
}

static tarn_status next_batch(tarn_loader *l, uint64_t deadline, tarn_batch **out,
                              tarn_error *err)
{
    for (;;) {
        tarn__window *w;
        bool late;
        TARN_TRY(tarn__engine_first(l->engine, deadline, &w, &late, err));
        if (late) return TARN_OK;
        if (!w || w->end) return end_epoch(l, w, out, err);
        TARN_TRY(check_window(w, err));
        size_t wanted = target(l);
        if (l->n_slots == 0 && w->taken == 0 && !w->faults && w->count == wanted) {
            tarn__engine_pop(l->engine);
            l->stats.bytes += w->bytes;
            deliver(l, w, w->from + w->count, out);
            return TARN_OK;
        }
        TARN_TRY(pick(l, w, wanted, err));
        if (l->n_slots == wanted) return put_together(l, out, err);
    }
}

tarn_status tarn_loader_next_within(tarn_loader *l, unsigned milliseconds,
                                    tarn_batch **out, tarn_error *err)
{
    *out = NULL;
    if (l->over) return TARN_END;
    l->failed = true;
    TARN_TRY(start(l, err));
    uint64_t now = tarn__now(), deadline = 0;
    if (milliseconds != UINT32_MAX) deadline = now + (uint64_t)milliseconds * 1000000 + 1;
    tarn_status status = next_batch(l, deadline, out, err);
    l->failed = status > TARN_END;
    l->stats.waited += (double)(tarn__now() - now) / 1e9;
    return status;
}

tarn_status tarn_loader_next(tarn_loader *l, tarn_batch **out, tarn_error *err)
{
    return tarn_loader_next_within(l, UINT32_MAX, out, err);
}

/* --- Where it stands --------------------------------------------------------------- */

/* Epochs are counted from this one, also by threads that are on their way to the end. */
static void count_anew(tarn_loader *l)
{
    uint64_t left = epochs_behind_one(&l->setup->o);
    if (l->epochs_left == left) return;
    l->epochs_left = left;
    if (l->engine && l->pid == getpid() &&
        !tarn__engine_extend(l->engine, l->epoch, left))
        stop(l);
}

tarn_status tarn_loader_set_epoch(tarn_loader *l, uint64_t epoch, tarn_error *err)
{
    tarn__epoch *other;
    tarn_order_info info;
    tarn_order_info_get(l->epoch->order, &info);
    if (l->epoch->number == epoch && l->own == 0 && l->number == 0 && info.start == 0 &&
        !l->over && !l->failed) {
        count_anew(l);
        return TARN_OK;
    }
    TARN_TRY(tarn__epoch_other(l->epoch, epoch, &other, err));
    stop(l);
    tarn__epoch_release(l->epoch);
    l->epoch = other;
    l->own = l->number = l->judged = 0;
    l->over = l->failed = false;
    count_anew(l);
    return TARN_OK;
}

void tarn_loader_order(const tarn_loader *l, tarn_order_info *out)
{
    tarn_order_info_get(l->epoch->order, out);
}

/* Whether no sample of this epoch was skipped: then batches say how far all ranks are. */
static bool in_step(const tarn_loader *l)
{
    uint64_t from, count;
    if (l->number == 0) return l->own == 0;
    return tarn_order_batch(l->epoch->order, l->number - 1, &from, &count, NULL) ==
               TARN_OK &&
           from + count == l->own;
}

tarn_status tarn_loader_state(tarn_loader *l, char *out, size_t size, tarn_error *err)
{
    tarn_order_info info;
    tarn_order_info_get(l->epoch->order, &info);
    uint64_t used = in_step(l) ? tarn_order_used_batches(l->epoch->order, l->number)
                               : tarn_order_used(l->epoch->order, l->own);
    if (l->own == 0 && l->number == 0) used = info.start;
    /* All ranks alike, also one that had no samples. */
    if (l->over) used = tarn_order_used(l->epoch->order, UINT64_MAX);
    return tarn_order_state(l->epoch->order, used, out, size, err);
}

const tarn_skipped *tarn_loader_skipped(const tarn_loader *l, size_t i)
{
    return i < l->n_skipped ? &l->skipped[i] : NULL;
}

static const char *const stage_names[] = {"none", "read", "decode", "caller"};

const char *tarn_loader_stage_name(tarn_loader_stage stage)
{
    return (unsigned)stage <= TARN_STAGE_CALLER ? stage_names[stage] : "none";
}

static tarn_loader_stage bottleneck(const tarn_loader_stats *s)
{
    if (s->batches == 0) return TARN_STAGE_NONE;
    if (s->waited < s->seconds / 20) return TARN_STAGE_CALLER;
    return s->decode > s->read ? TARN_STAGE_DECODE : TARN_STAGE_READ;
}

void tarn_loader_stats_get(const tarn_loader *l, tarn_loader_stats *out)
{
    *out = l->stats;
    if (l->first_asked) out->seconds = (double)(tarn__now() - l->first_asked) / 1e9;
    if (l->engine && l->pid == getpid()) add_times(l->engine, out);
    out->bottleneck = bottleneck(out);
}
