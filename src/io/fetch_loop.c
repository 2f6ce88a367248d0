/* The thread of the transfers: takes jobs from the queues, runs their requests with
 * libcurl, and ends them or queues them again. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/error.h"
#include "io/fetch_inside.h"
#include "io/fetch_sockets.h"

enum { TICK_MS = 500 /* between checks for stalled transfers */ };

typedef struct tarn__loop {
    const tarn__curl *curl;
    CURLM *multi;
    tarn__sockets sockets;
    CURLSH *share;        /* TLS sessions */
    tarn__transfer *free; /* to be used again */
    tarn__transfer *active[TARN__FETCH_MOST];
    unsigned count, most;
    tarn__transfer *starting; /* have a job, but no request yet */
    tarn__transfer *ended;    /* libcurl is done with them */
    int64_t now_ms, ticked_ms;
    int64_t used_ms; /* the last time that there was something to do */
    tarn__fetch_stats news;
    struct tarn__loop *lost; /* of the parent's parent */
} tarn__loop;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void lock_fetcher(void)
{
    pthread_mutex_lock(&tarn__fetcher_state.lock.mutex);
}

static void unlock_fetcher(void)
{
    pthread_mutex_unlock(&tarn__fetcher_state.lock.mutex);
}

/* --- Beginning and end -------------------------------------------------------------- */

/* Other parts of the program need descriptors, too. */
static unsigned most_transfers(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return TARN__FETCH_MOST;
    uint64_t most = files.rlim_cur / TARN__FETCH_SHARE;
    if (most < 1) most = 1;
    return most < TARN__FETCH_MOST ? (unsigned)most : TARN__FETCH_MOST;
}

tarn__loop *tarn__loop_new(const tarn__curl *curl)
{
    tarn__loop *loop = calloc(1, sizeof *loop);
    if (!loop) return NULL;
    loop->curl = curl;
    loop->most = most_transfers();
    loop->multi = curl->multi_init();
    loop->share = curl->share_init();
    loop->sockets.set = loop->sockets.alarm = -1;
    if (!loop->multi || !loop->share ||
        !tarn__sockets_init(&loop->sockets, curl, loop->multi)) {
        tarn__loop_free(loop);
        return NULL;
    }
    curl->share_setopt(loop->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    curl->multi_setopt(loop->multi, CURLMOPT_MAXCONNECTS, (long)loop->most);
    curl->multi_setopt(loop->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)loop->most);
    loop->used_ms = loop->ticked_ms = now_ms();
    return loop;
}

/* The thread has to keep fork away while libcurl works; see fetch.c. */
static void enter_curl(void)
{
    pthread_mutex_lock(&tarn__fetcher_state.curl_lock.mutex);
}

static void leave_curl(void)
{
    pthread_mutex_unlock(&tarn__fetcher_state.curl_lock.mutex);
}

static void free_transfer(tarn__transfer *t)
{
    tarn__http_reset(&t->http);
    free(t);
}

void tarn__loop_free(tarn__loop *loop)
{
    while (loop->free) {
        tarn__transfer *t = loop->free;
        loop->free = t->next;
        free_transfer(t);
    }
    if (loop->multi) loop->curl->multi_cleanup(loop->multi);
    tarn__sockets_reset(&loop->sockets);
    if (loop->share) loop->curl->share_cleanup(loop->share);
    free(loop);
}

void tarn__loop_lose(tarn__loop *loop, tarn__loop *before)
{
    loop->lost = before;
}

void tarn__loop_wake(tarn__loop *loop)
{
    tarn__sockets_wake(&loop->sockets);
}

/* --- Taking jobs -------------------------------------------------------------------- */

static tarn__transfer *take_transfer(tarn__loop *loop)
{
    tarn__http_config none = {.shown = ""};
    tarn__transfer *t = loop->free;
    tarn_error err;
    if (t) {
        loop->free = t->next;
        return t;
    }
    t = calloc(1, sizeof *t);
    if (!t) return NULL;
    if (tarn__http_init_shared(&t->http, &none, &err) != TARN_OK) {
        free(t);
        return NULL;
    }
    loop->curl->easy_setopt(t->http.easy, CURLOPT_SHARE, loop->share);
    return t;
}

/* The next job that may start; NULL if none. */
static tarn__job *next_job(tarn__fetcher *f, const tarn__loop *loop)
{
    tarn__queued *best = NULL;
    if (f->active >= loop->most) return NULL;
    for (tarn__host *h = f->hosts; h; h = h->next) {
        if (h->active >= h->pace.limit || loop->now_ms < h->closed_until_ms) continue;
        tarn__queued *first = tarn__queue_first(&h->queue);
        if (first && (!best || tarn__queue_before(first, best))) best = first;
    }
    return (tarn__job *)best;
}

static void take_jobs(tarn__fetcher *f, tarn__loop *loop)
{
    tarn__job *job;
    while ((job = next_job(f, loop))) {
        tarn__transfer *t = take_transfer(loop);
        tarn__host *host = job->object->host;
        tarn__queue_remove(&host->queue, &job->queued);
        if (!t) {
            job->next = f->dropped;
            f->dropped = job;
            continue;
        }
        job->state = TARN__JOB_ACTIVE;
        host->active++;
        f->active++;
        t->job = job;
        t->next = loop->starting;
        loop->starting = t;
    }
}

/* Queues jobs again whose pause is over. */
static void requeue(tarn__fetcher *f, const tarn__loop *loop)
{
    for (tarn__job **at = &f->later; *at;) {
        tarn__job *job = *at;
        if (job->ready_ms > loop->now_ms) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->state = TARN__JOB_QUEUED;
        tarn__queue_push(&job->object->host->queue, &job->queued);
    }
}

static void note_paces(tarn__fetcher *f, const tarn__loop *loop)
{
    for (tarn__host *h = f->hosts; h; h = h->next) {
        bool full = h->active >= h->pace.limit && h->queue.count > 0;
        tarn__pace_note(&h->pace, loop->now_ms, h->bytes, h->ended, full);
        h->bytes = 0;
        h->ended = 0;
    }
}

static void add_stats(tarn__fetcher *f, tarn__loop *loop)
{
    f->stats.requests += loop->news.requests;
    f->stats.bytes += loop->news.bytes;
    f->stats.retries += loop->news.retries;
    f->stats.slowdowns += loop->news.slowdowns;
    f->stats.connections += loop->news.connections;
    loop->news = (tarn__fetch_stats){0};
}

/* --- Transfers ---------------------------------------------------------------------- */

static void keep_transfer(tarn__loop *loop, tarn__transfer *t)
{
    t->job = NULL;
    t->next = loop->free;
    loop->free = t;
}

/* Frees the job's place; the caller has the lock. */
static void leave_host(tarn__fetcher *f, tarn__loop *loop, tarn__transfer *t)
{
    tarn__host *host = t->job->object->host;
    uint64_t news = t->http.received - t->counted;
    host->bytes += news;
    host->ended++;
    host->active--;
    f->active--;
    loop->news.bytes += news;
}

static void end_transfer(tarn__loop *loop, tarn__transfer *t, tarn_status status,
                         const tarn_error *why)
{
    tarn__job *job = t->job;
    lock_fetcher();
    leave_host(&tarn__fetcher_state, loop, t);
    if (status == TARN_OK) job->object->host->refusals = 0;
    unlock_fetcher();
    keep_transfer(loop, t);
    tarn__job_end(job, status, why);
}

static void start_jobs(tarn__loop *loop)
{
    tarn_error err;
    while (loop->starting) {
        tarn__transfer *t = loop->starting;
        loop->starting = t->next;
        tarn_status status = tarn__transfer_begin(t, t->job, loop->now_ms, &err);
        if (status != TARN_OK) {
            tarn__job_place(t->job, &err);
            end_transfer(loop, t, status, &err);
            continue;
        }
        enter_curl();
        CURLMcode code = loop->curl->multi_add_handle(loop->multi, t->http.easy);
        leave_curl();
        if (code == CURLM_OK) {
            loop->active[loop->count++] = t;
            loop->news.requests++;
        } else {
            end_transfer(loop, t, tarn__fail_memory(&err), &err);
        }
    }
}

/* Takes a transfer from libcurl. */
static void remove_active(tarn__loop *loop, tarn__transfer *t)
{
    loop->curl->multi_remove_handle(loop->multi, t->http.easy);
    for (unsigned i = 0; i < loop->count; i++)
        if (loop->active[i] == t) {
            loop->active[i] = loop->active[--loop->count];
            return;
        }
}

static void collect(tarn__loop *loop, tarn__transfer *t)
{
    long connections = 0;
    loop->curl->easy_getinfo(t->http.easy, CURLINFO_NUM_CONNECTS, &connections);
    loop->news.connections += (uint64_t)connections;
    remove_active(loop, t);
    t->next = loop->ended;
    loop->ended = t;
}

/* Lets libcurl work, and collects the transfers that are over. */
static void step(tarn__loop *loop)
{
    int queued;
    CURLMsg *message;
    enter_curl();
    tarn__sockets_step(&loop->sockets);
    while ((message = loop->curl->multi_info_read(loop->multi, &queued))) {
        tarn__transfer *t = NULL;
        CURLcode result = message->data.result;
        if (message->msg != CURLMSG_DONE) continue;
        loop->curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        t->http.result = result;
        collect(loop, t);
    }
    loop->now_ms = now_ms();
    if (loop->now_ms - loop->ticked_ms >= TICK_MS) {
        loop->ticked_ms = loop->now_ms;
        for (unsigned i = loop->count; i-- > 0;)
            if (tarn__transfer_check(loop->active[i], loop->now_ms))
                collect(loop, loop->active[i]);
    }
    leave_curl();
}

/* The server has too much to do: nothing is asked of it for a while. */
static void close_host(tarn__loop *loop, const tarn__transfer *t)
{
    tarn__host *host = t->job->object->host;
    uint64_t asked = t->http.head.retry_after;
    if (asked > TARN__FETCH_RETRY_AFTER) asked = TARN__FETCH_RETRY_AFTER;
    int64_t until = loop->now_ms + (int64_t)asked * 1000;
    loop->news.slowdowns++;
    if (tarn__pace_slow(&host->pace, loop->now_ms, t->began_ms)) {
        if (host->refusals < TARN__FETCH_REFUSALS) host->refusals++;
        until += tarn__http_pause_ms(host->refusals);
    }
    if (host->closed_until_ms < until) host->closed_until_ms = until;
}

static void try_later(tarn__loop *loop, tarn__transfer *t, tarn__next next)
{
    tarn__fetcher *f = &tarn__fetcher_state;
    tarn__job *job = t->job;
    job->ready_ms = loop->now_ms;
    if (next == TARN__NEXT_LATER) job->ready_ms += tarn__http_pause_ms(job->attempts);
    loop->news.retries++;
    lock_fetcher();
    leave_host(f, loop, t);
    if (next == TARN__NEXT_SLOW_DOWN) close_host(loop, t);
    bool cancelled = job->cancelled;
    if (!cancelled) {
        job->state = TARN__JOB_LATER;
        job->next = f->later;
        f->later = job;
    }
    unlock_fetcher();
    keep_transfer(loop, t);
    if (cancelled) tarn__job_end(job, TARN_ERR_CANCELLED, NULL);
}

static void end_transfers(tarn__loop *loop)
{
    tarn_error err;
    while (loop->ended) {
        tarn__transfer *t = loop->ended;
        loop->ended = t->next;
        loop->used_ms = loop->now_ms;
        tarn__next next = tarn__transfer_end(t, loop->now_ms, &err);
        if (next == TARN__NEXT_DONE)
            end_transfer(loop, t, TARN_OK, NULL);
        else if (next == TARN__NEXT_FAILED)
            end_transfer(loop, t, err.code, &err);
        else
            try_later(loop, t, next);
    }
}

/* --- The thread --------------------------------------------------------------------- */

static void count_bytes(tarn__loop *loop)
{
    for (unsigned i = 0; i < loop->count; i++) {
        tarn__transfer *t = loop->active[i];
        uint64_t news = t->http.received - t->counted;
        t->counted = t->http.received;
        t->job->object->host->bytes += news;
        loop->news.bytes += news;
    }
}

/* Ends all transfers whose jobs were cancelled, or all. */
static void stop_transfers(tarn__loop *loop, bool all)
{
    for (unsigned i = loop->count; i-- > 0;) {
        tarn__transfer *t = loop->active[i];
        lock_fetcher();
        bool cancelled = t->job->cancelled;
        unlock_fetcher();
        if (!cancelled && !all) continue;
        enter_curl();
        remove_active(loop, t);
        leave_curl();
        end_transfer(loop, t, TARN_ERR_CANCELLED, NULL);
    }
}

static void end_dropped(tarn__loop *loop)
{
    tarn__fetcher *f = &tarn__fetcher_state;
    for (;;) {
        lock_fetcher();
        tarn__job *job = f->dropped;
        if (job) f->dropped = job->next;
        unlock_fetcher();
        if (!job) return;
        tarn__job_end(job, job->cancelled ? TARN_ERR_CANCELLED : TARN_ERR_MEMORY, NULL);
    }
}

/* How long nothing will happen by itself. */
static int sleep_ms(const tarn__fetcher *f, const tarn__loop *loop)
{
    int64_t until = loop->now_ms + (loop->count ? TICK_MS : f->idle_ms);
    for (const tarn__job *job = f->later; job; job = job->next)
        if (job->ready_ms < until) until = job->ready_ms;
    for (const tarn__host *h = f->hosts; h; h = h->next)
        if (h->queue.count && h->closed_until_ms > loop->now_ms &&
            h->closed_until_ms < until)
            until = h->closed_until_ms;
    for (const tarn__host *h = f->hosts; h; h = h->next)
        if (tarn__pace_due(&h->pace) < until) until = tarn__pace_due(&h->pace);
    int64_t left = until - loop->now_ms;
    return left > 0 ? (int)left : 0;
}

static bool has_jobs(const tarn__fetcher *f)
{
    for (const tarn__host *h = f->hosts; h; h = h->next)
        if (h->jobs) return true;
    return false;
}

typedef enum plan { WORK, SLEEP, CANCEL, STOP } plan;

/* Takes what can be started, and says what to do next. */
static plan make_plan(tarn__fetcher *f, tarn__loop *loop, int *out_sleep_ms)
{
    loop->now_ms = now_ms();
    f->asleep = false;
    count_bytes(loop);
    note_paces(f, loop);
    add_stats(f, loop);
    if (f->stopping) return STOP;
    requeue(f, loop);
    take_jobs(f, loop);
    if (f->cancels || f->dropped) {
        f->cancels = false;
        return CANCEL;
    }
    if (loop->starting || loop->ended) return WORK;
    if (has_jobs(f)) loop->used_ms = loop->now_ms;
    if (loop->now_ms - loop->used_ms >= f->idle_ms) return STOP;
    *out_sleep_ms = sleep_ms(f, loop);
    f->asleep = true;
    return SLEEP;
}

/* Jobs that will never run: the process ends. Their callers' functions are not called,
 * because what they use may be gone. */
static void drop_jobs(tarn__fetcher *f)
{
    for (tarn__host *h = f->hosts; h; h = h->next) {
        while (h->queue.count) {
            tarn__job *job = (tarn__job *)tarn__queue_first(&h->queue);
            tarn__queue_remove(&h->queue, &job->queued);
            job->next = f->later;
            f->later = job;
        }
    }
    tarn__job **end = &f->dropped;
    while (*end)
        end = &(*end)->next;
    *end = f->later;
    for (tarn__job *job = f->dropped, *next; job; job = next) {
        next = job->next;
        job->state = TARN__JOB_OVER;
        job->fetch->status = TARN_ERR_CANCELLED;
        if (job->waiter && --job->waiter->left == 0)
            pthread_cond_signal(&job->waiter->cond);
    }
    f->later = f->dropped = NULL;
}

void *tarn__loop_run(void *context)
{
    tarn__fetcher *f = &tarn__fetcher_state;
    tarn__loop *loop = context;
    for (;;) {
        int wait_ms = 0;
        lock_fetcher();
        plan next = make_plan(f, loop, &wait_ms);
        if (next == STOP) break;
        unlock_fetcher();
        if (next == CANCEL) {
            stop_transfers(loop, false);
            end_dropped(loop);
        }
        if (next == SLEEP) tarn__sockets_wait(&loop->sockets, wait_ms);
        start_jobs(loop);
        step(loop);
        end_transfers(loop);
    }
    f->running = false;
    f->loop = NULL;
    if (f->stopping) drop_jobs(f);
    unlock_fetcher();
    stop_transfers(loop, true);
    enter_curl();
    tarn__loop_free(loop);
    leave_curl();
    return NULL;
}
