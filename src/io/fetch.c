/* The callers' side of the fetcher, and its only thread.
 *
 * Threads: any number of callers, and one thread that runs all transfers (fetch_loop.c).
 * It is started by the first fetch, ends after half a minute without any, and is joined
 * by the next start or at the end of the process. It blocks all signals, so SIGPIPE never
 * ends the process.
 *
 * Locks:
 *   lock       guards all members of the fetcher, of hosts and of jobs, except those that
 *              only the thread uses, and the identities of objects. The thread is the
 *              only one that changes an identity, so it may read it without the lock.
 *   curl_lock  is held by the thread while libcurl works, and not while it waits for
 *              sockets. It guards nothing: a fork takes it, too, so that the child never
 *              has a half-done state of libcurl, or of the TLS library below it.
 * Order: curl_lock, then lock, which is innermost. The functions of callers (over), the
 * signers of requests and the sources of credentials run without any of them.
 *
 * There are no atomics. A caller's memory is written by the thread before the job is over
 * and read by the caller after it has seen that, and lock is between the two.
 *
 * Fork: the child has no such thread, and must not touch its parent's connections, not
 * even to close them. It leaves them as they are and starts with an empty fetcher when it
 * first needs one. A range that the parent was fetching is fetched again if the child
 * waits for it. */
#include "io/fetch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "io/fetch_inside.h"

enum { END_SECONDS = 5 /* how long the end of the process waits for the thread */ };

tarn__fetcher tarn__fetcher_state;
static tarn__fetcher *const fetcher = &tarn__fetcher_state;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* --- The process -------------------------------------------------------------------- */

/* The parent's jobs belong to it. Conditions may still have its threads as waiters. */
static void begin_in_child(void)
{
    if (fetcher->loop) {
        tarn__loop_lose(fetcher->loop, fetcher->lost);
        fetcher->lost = fetcher->loop;
    }
    for (tarn__host *h = fetcher->hosts; h; h = h->next) {
        h->queue.count = h->jobs = 0;
        h->active = h->ended = 0;
        h->bytes = 0;
        h->closed_until_ms = h->refusals = 0;
        tarn__pace_init(&h->pace, TARN__FETCH_MOST);
    }
    fetcher->later = fetcher->dropped = fetcher->calling = NULL;
    fetcher->active = 0;
    fetcher->started = fetcher->running = fetcher->asleep = fetcher->cancels = false;
    fetcher->loop = NULL;
    fetcher->stats = (tarn__fetch_stats){0};
    fetcher->identified = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    fetcher->owner = getpid();
    fetcher->generation++;
}

static void enter(void)
{
    pthread_mutex_lock(&fetcher->lock.mutex);
    if (fetcher->owner != getpid()) begin_in_child();
}

static void leave(void)
{
    pthread_mutex_unlock(&fetcher->lock.mutex);
}

static void init_fetcher(void)
{
    tarn__forklock_init(&fetcher->curl_lock, TARN__LOCK_INNER);
    tarn__forklock_init(&fetcher->lock, TARN__LOCK_INNERMOST);
    fetcher->identified = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    fetcher->owner = getpid();
    fetcher->generation = 1;
    fetcher->idle_ms = 1000 * TARN__FETCH_IDLE_SECONDS;
}

/* Runs before the TLS library ends, which was loaded earlier, and also when this library
 * is unloaded. */
static void end_thread(void)
{
    struct timespec until;
    enter();
    fetcher->stopping = true;
    if (fetcher->running) tarn__loop_wake(fetcher->loop);
    bool started = fetcher->started;
    fetcher->started = false;
    leave();
    if (!started) return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_SECONDS;
    pthread_timedjoin_np(fetcher->thread, NULL, &until);
}

static void end_at_exit(void)
{
    (void)atexit(end_thread);
}

/* --- The thread --------------------------------------------------------------------- */

/* Without the lock: the thread may have to wait for a fork, and that for the lock. */
static void join_ended(void)
{
    if (fetcher->running || !fetcher->started) return;
    pthread_t thread = fetcher->thread;
    fetcher->started = false;
    leave();
    pthread_join(thread, NULL);
    enter();
}

/* The lock is held, but may be released for a while. */
static tarn_status start_thread(tarn_error *err)
{
    static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
    const tarn__curl *curl;
    sigset_t all, before;
    TARN_TRY(tarn__curl_get(&curl, err));
    join_ended();
    if (fetcher->running) return TARN_OK;
    if (fetcher->stopping)
        return tarn__fail(err, TARN_ERR_CANCELLED, "the process is ending");
    pthread_once(&exit_once, end_at_exit);
    fetcher->loop = tarn__loop_new(curl);
    if (!fetcher->loop) return tarn__fail_memory(err);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(&fetcher->thread, NULL, tarn__loop_run, fetcher->loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e == 0) {
        fetcher->started = fetcher->running = true;
        return TARN_OK;
    }
    tarn__loop_free(fetcher->loop);
    fetcher->loop = NULL;
    return tarn__fail_errno(err, NULL, e, "cannot start a thread");
}

static void wake_thread(void)
{
    if (!fetcher->asleep) return;
    fetcher->asleep = false;
    tarn__loop_wake(fetcher->loop);
}

/* --- Objects ------------------------------------------------------------------------ */

/* Scheme, name and port. */
static size_t host_length(const char *url)
{
    const char *from = strstr(url, "://");
    from = from ? from + 3 : url;
    return (size_t)(from - url) + strcspn(from, "/?#");
}

static tarn__host *find_host(const char *url, size_t len)
{
    for (tarn__host *h = fetcher->hosts; h; h = h->next)
        if (strlen(h->name) == len && strncmp(h->name, url, len) == 0) return h;
    return NULL;
}

static tarn__host *use_host(const char *url)
{
    size_t len = host_length(url);
    tarn__host *host = find_host(url, len);
    if (!host) {
        host = calloc(1, sizeof *host);
        if (host) host->name = strndup(url, len);
        if (!host || !host->name) {
            free(host);
            return NULL;
        }
        tarn__pace_init(&host->pace, TARN__FETCH_MOST);
        host->next = fetcher->hosts;
        fetcher->hosts = host;
    }
    host->users++;
    return host;
}

static void leave_host(tarn__host *host)
{
    if (--host->users) return;
    tarn__host **at = &fetcher->hosts;
    while (*at != host)
        at = &(*at)->next;
    *at = host->next;
    tarn__queue_reset(&host->queue);
    free(host->name);
    free(host);
}

tarn_status tarn__fetched_open(tarn__object *object, const tarn__object_id *known,
                               const tarn__fetch_limits *limits, tarn__fetched **out,
                               tarn_error *err)
{
    tarn__fetched *o = calloc(1, sizeof *o);
    if (!o) {
        tarn__object_reset(object);
        return tarn__fail_memory(err);
    }
    pthread_once(&once, init_fetcher);
    o->object = *object;
    *object = (tarn__object){0};
    o->limits = *limits;
    o->id.size = UINT64_MAX;
    if (known) o->id = *known;
    enter();
    o->host = use_host(o->object.url);
    leave();
    if (!o->host) {
        tarn__fetched_close(o);
        return tarn__fail_memory(err);
    }
    *out = o;
    return TARN_OK;
}

void tarn__fetched_close(tarn__fetched *object)
{
    if (!object) return;
    if (object->host) {
        enter();
        leave_host(object->host);
        leave();
    }
    tarn__object_reset(&object->object);
    free(object);
}

/* --- Jobs --------------------------------------------------------------------------- */

static void make_over(tarn__job *job, tarn_status status, const tarn_error *why)
{
    tarn__fetch *f = job->fetch;
    job->object->host->jobs--;
    job->state = TARN__JOB_OVER;
    f->status = status;
    if (status == TARN_OK) return;
    if (why) {
        f->error = *why;
        return;
    }
    tarn__error_set(&f->error, status, job->object->object.shown, TARN_NO_OFFSET, "%s",
                    status == TARN_ERR_CANCELLED ? "the request was cancelled"
                                                 : "out of memory");
    tarn__job_place(job, &f->error);
}

static void inform_waiter(tarn__job *job)
{
    tarn__waiter *w = job->waiter;
    job->waiter = NULL;
    if (w && --w->left == 0) pthread_cond_signal(&w->cond);
}

void tarn__job_end(tarn__job *job, tarn_status status, const tarn_error *why)
{
    tarn__fetch *f = job->fetch;
    void (*over)(tarn__fetch *) = f->over;
    pthread_mutex_lock(&fetcher->lock.mutex);
    make_over(job, status, why);
    if (!over || fetcher->stopping) {
        inform_waiter(job);
        pthread_mutex_unlock(&fetcher->lock.mutex);
        return;
    }
    f->inner = NULL;
    fetcher->calling = job;
    pthread_mutex_unlock(&fetcher->lock.mutex);
    over(f); /* f may no longer exist after this */
    pthread_mutex_lock(&fetcher->lock.mutex);
    fetcher->calling = NULL;
    inform_waiter(job);
    pthread_mutex_unlock(&fetcher->lock.mutex);
    free(job);
}

/* Needs room in the queue. */
static void submit(tarn__job *job)
{
    tarn__host *host = job->object->host;
    job->state = TARN__JOB_QUEUED;
    job->generation = fetcher->generation;
    job->queued.order = fetcher->order++;
    job->cancelled = false;
    job->waiter = NULL;
    host->jobs++;
    tarn__queue_push(&host->queue, &job->queued);
}

/* Room for all jobs of the host that could be in its queue. */
static tarn_status reserve(tarn__host *host, size_t more, tarn_error *err)
{
    return tarn__queue_reserve(&host->queue, host->jobs + more, err);
}

static tarn__job *make_job(tarn__fetch *fetch)
{
    tarn__job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    job->fetch = fetch;
    job->object = fetch->object;
    job->queued.rank = fetch->rank;
    return job;
}

static void free_jobs(tarn__fetch *const *fetches, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(fetches[i]->inner);
        fetches[i]->inner = NULL;
    }
}

static tarn_status submit_all(tarn__fetch *const *fetches, size_t count, tarn_error *err)
{
    TARN_TRY(start_thread(err));
    for (size_t i = 0; i < count; i++)
        TARN_TRY(reserve(fetches[i]->object->host, count, err));
    for (size_t i = 0; i < count; i++)
        submit(fetches[i]->inner);
    wake_thread();
    return TARN_OK;
}

static tarn_status begin(tarn__fetch *const *fetches, size_t count, bool identify,
                         tarn_error *err)
{
    const tarn__curl *curl;
    TARN_TRY(tarn__curl_get(&curl, err)); /* takes long the first time: without a lock */
    for (size_t i = 0; i < count; i++) {
        tarn__job *job = make_job(fetches[i]);
        fetches[i]->inner = job;
        if (!job) {
            free_jobs(fetches, i);
            return tarn__fail_memory(err);
        }
        job->identify = identify;
    }
    if (count == 0) return TARN_OK;
    enter();
    tarn_status status = submit_all(fetches, count, err);
    leave();
    if (status != TARN_OK) {
        free_jobs(fetches, count);
        if (err && !err->path[0])
            tarn__error_place(err, fetches[0]->object->object.shown, TARN_NO_OFFSET);
    }
    return status;
}

tarn_status tarn__fetch_begin(tarn__fetch *const *fetches, size_t count, tarn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const tarn__fetch *f = fetches[i];
        uint64_t end;
        if (f->size == 0 || __builtin_add_overflow(f->offset, f->size, &end))
            return tarn__fail_at(err, TARN_ERR_USAGE, f->object->object.shown, f->offset,
                                 "not a valid range: %zu bytes", f->size);
    }
    return begin(fetches, count, false, err);
}

/* A job that the parent of this process had not finished is begun again. */
static tarn_status adopt(tarn__job *job, tarn_error *err)
{
    if (job->generation == fetcher->generation || job->state == TARN__JOB_OVER)
        return TARN_OK;
    TARN_TRY(start_thread(err));
    TARN_TRY(reserve(job->object->host, 1, err));
    job->got = job->renewed_at = 0;
    job->attempts = 0;
    job->signed_again = false;
    submit(job);
    wake_thread();
    return TARN_OK;
}

/* Waits for jobs; the lock is held. A job that cannot be adopted is over. */
static void wait_all(tarn__fetch *const *fetches, size_t count)
{
    tarn__waiter waiter = {PTHREAD_COND_INITIALIZER, 0};
    for (size_t i = 0; i < count; i++) {
        tarn__job *job = fetches[i]->inner;
        if (!job) continue;
        tarn_status status = adopt(job, &fetches[i]->error);
        if (status != TARN_OK) {
            fetches[i]->status = status;
            job->state = TARN__JOB_OVER;
        }
        if (job->state == TARN__JOB_OVER) continue;
        job->waiter = &waiter;
        waiter.left++;
    }
    while (waiter.left)
        pthread_cond_wait(&waiter.cond, &fetcher->lock.mutex);
    pthread_cond_destroy(&waiter.cond);
}

tarn_status tarn__fetch_wait(tarn__fetch *const *fetches, size_t count, tarn_error *err)
{
    tarn_status status = TARN_OK;
    enter();
    wait_all(fetches, count);
    leave();
    for (size_t i = 0; i < count; i++)
        if (fetches[i]->status != TARN_OK && status == TARN_OK) {
            status = fetches[i]->status;
            if (err) *err = fetches[i]->error;
        }
    free_jobs(fetches, count);
    return status;
}

/* --- Cancelling --------------------------------------------------------------------- */

static void remove_later(tarn__job *job)
{
    tarn__job **at = &fetcher->later;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
}

/* Ends a job, or has the thread end it. */
static void cancel(tarn__fetch *fetch)
{
    tarn__job *job = fetch->inner;
    if (!job || job->state == TARN__JOB_OVER || job->cancelled) return;
    job->cancelled = true;
    if (job->generation != fetcher->generation) { /* there is no thread that runs it */
        job->object->host->jobs++;
        make_over(job, TARN_ERR_CANCELLED, NULL);
        return;
    }
    if (job->state == TARN__JOB_ACTIVE) {
        fetcher->cancels = true;
        return;
    }
    if (job->state == TARN__JOB_QUEUED)
        tarn__queue_remove(&job->object->host->queue, &job->queued);
    else
        remove_later(job);
    if (!fetch->over) {
        make_over(job, TARN_ERR_CANCELLED, NULL);
        inform_waiter(job);
        return;
    }
    job->state = TARN__JOB_ACTIVE;
    job->next = fetcher->dropped;
    fetcher->dropped = job;
}

/* Whether the fetch is over, and its function has returned; or waits until that may have
 * changed. */
static bool is_over(tarn__fetch *fetch)
{
    tarn__waiter waiter = {PTHREAD_COND_INITIALIZER, 1};
    tarn__job *job = fetch->inner;
    if (!job && fetcher->calling && fetcher->calling->fetch == fetch)
        job = fetcher->calling;
    else if (!job || job->state == TARN__JOB_OVER)
        return true;
    job->waiter = &waiter;
    while (waiter.left)
        pthread_cond_wait(&waiter.cond, &fetcher->lock.mutex);
    pthread_cond_destroy(&waiter.cond);
    return false;
}

void tarn__fetch_cancel(tarn__fetch *const *fetches, size_t count)
{
    enter();
    for (size_t i = 0; i < count; i++)
        cancel(fetches[i]);
    if (fetcher->cancels || fetcher->dropped) wake_thread();
    for (size_t i = 0; i < count; i++)
        while (!is_over(fetches[i]))
            cancel(fetches[i]);
    leave();
    free_jobs(fetches, count);
}

/* --- Identities --------------------------------------------------------------------- */

static tarn_status ask_identity(tarn__fetched *object, tarn_error *err)
{
    tarn__fetch fetch = {.object = object, .size = 1};
    tarn__fetch *one = &fetch;
    TARN_TRY(begin(&one, 1, true, err));
    return tarn__fetch_wait(&one, 1, err);
}

/* Another thread asks; the lock is held. */
static tarn_status share_answer(tarn__fetched *object, tarn_error *err)
{
    uint64_t before = object->answers;
    while (object->answers == before)
        pthread_cond_wait(&fetcher->identified, &fetcher->lock.mutex);
    if (object->answer != TARN_OK && err) *err = object->why;
    return object->answer;
}

static tarn_status identify(tarn__fetched *object, tarn_error *err)
{
    tarn_error why = {0};
    if (object->identifying == fetcher->generation) return share_answer(object, err);
    object->identifying = fetcher->generation;
    leave();
    tarn_status status = ask_identity(object, &why);
    enter();
    object->identifying = 0;
    object->answers++;
    object->answer = status;
    object->why = why;
    pthread_cond_broadcast(&fetcher->identified);
    if (status != TARN_OK && err) *err = why;
    return status;
}

tarn_status tarn__fetched_identify(tarn__fetched *object, tarn__object_id *out,
                                   tarn_error *err)
{
    tarn_status status = TARN_OK;
    enter();
    if (object->id.size == UINT64_MAX) status = identify(object, err);
    *out = object->id;
    leave();
    return status;
}

void tarn__fetch_stats_get(tarn__fetch_stats *out)
{
    pthread_once(&once, init_fetcher);
    enter();
    *out = fetcher->stats;
    out->active = fetcher->active;
    for (const tarn__host *h = fetcher->hosts; h; h = h->next)
        if (h->pace.limit > out->limit) out->limit = h->pace.limit;
    leave();
}
