/* Reads ranges of remote files. Pieces are sorted by file and offset, and close ones form
 * a run, which is one request unless the cache has some of it. With a cache, the blocks
 * of a run are claimed: what is there is read from the copy, what is claimed is fetched
 * and stored, what has no room is fetched for the pieces alone, and what others fetch is
 * waited for at the end, when this reader holds no claims. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/error.h"
#include "io/file.h"
#include "io/remote_file.h"

enum {
    UNDER_WAY = 1024, /* requests of one reader at once */
    SPANS = 64,       /* that are claimed at once */
    TOGETHER = 32,    /* requests that are given to the fetcher at once */
    TICK_MS = 50,     /* between two looks at the flag that cancels */
    PATIENCE_MS = 20000,
    REST = 64 << 10 /* bytes at the end of a file that are fetched with what is before */
};

/* A piece, or a part of a long one. */
typedef struct part {
    tarn__remote *remote;
    uint64_t from, to;
    unsigned char *data;
    size_t piece;
    bool placed; /* see tarn__remote_piece */
} part;

/* Parts [first, end) are in bytes [from, to) of a file. */
typedef struct stretch {
    size_t first, end;
    uint64_t from, to;
} stretch;

/* A request. */
typedef struct job {
    tarn__fetch fetch;
    struct work *work;
    struct job *next;
    stretch range;
    unsigned char *memory; /* NULL: it goes directly to its part */
    bool uses;             /* the copy of its file */
    tarn__cached *cached;  /* with claimed blocks; or NULL */
    uint64_t first, count; /* the blocks */
    bool over;
} job;

typedef struct work {
    part *parts;
    size_t count, room;
    tarn_error **errors; /* by piece */
    bool plain;          /* the cache is not used */
    job *oldest, *newest, *unsent;
    size_t jobs, n_unsent;
    uint64_t bytes; /* under way */
    stretch *later; /* others fetch them */
    size_t n_later, later_room;
    const tarn__remote_task *task;
    pthread_mutex_t lock; /* guards awaited, and over of jobs under way */
    pthread_cond_t ended; /* awaited is over */
    const struct job *awaited;
} work;

/* --- Pieces ------------------------------------------------------------------------ */

static int by_place(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return tarn__remote_compare(x->remote, x->from, y->remote, y->from);
}

static tarn_status add_parts(work *w, const tarn__remote_piece *p, size_t number,
                             tarn_error *err)
{
    uint64_t end;
    if (!tarn__add(p->offset, p->size, &end) || end > INT64_MAX)
        return tarn__fail_at(err, TARN_ERR_FORMAT, p->remote->shown, p->offset,
                             "the offset is larger than any file");
    for (uint64_t at = p->offset, to; at < end; at = to) {
        /* Parts of one piece share no block. */
        to = at - at % TARN__CACHE_BLOCK + TARN__REMOTE_MOST;
        if (to > end) to = end;
        TARN_TRY(tarn__grow(&w->parts, sizeof *w->parts, w->count, &w->room, err));
        w->parts[w->count++] =
            (part){p->remote, at,       to, p->to ? p->to + (at - p->offset) : NULL,
                   number,    p->placed};
    }
    return TARN_OK;
}

static bool is_cancelled(const work *w)
{
    return w->task->cancel && atomic_load_explicit(w->task->cancel, memory_order_relaxed);
}

static tarn_status fail_cancelled(tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
}

/* Bytes of a part that are inside [from, to): false if there are none. */
static bool overlap(const part *p, uint64_t from, uint64_t to, uint64_t *out_from,
                    uint64_t *out_to)
{
    *out_from = p->from > from ? p->from : from;
    *out_to = p->to < to ? p->to : to;
    return *out_from < *out_to;
}

/* Gives all parts of a range that failed the error. Without memory for the error, the
 * parts are reported as out of memory by the caller's check. */
static tarn_status note_failure(work *w, const stretch *s, const tarn_error *error,
                                tarn_error *err)
{
    uint64_t from, to;
    for (size_t i = s->first; i < s->end; i++) {
        tarn_error **slot = &w->errors[w->parts[i].piece];
        if (*slot || !overlap(&w->parts[i], s->from, s->to, &from, &to)) continue;
        if (!(*slot = malloc(sizeof **slot))) return tarn__fail_memory(err);
        **slot = *error;
    }
    return TARN_OK;
}

static void deliver(const work *w, const stretch *s, const unsigned char *data)
{
    uint64_t from, to;
    for (size_t i = s->first; i < s->end; i++) {
        const part *p = &w->parts[i];
        if (overlap(p, s->from, s->to, &from, &to))
            memcpy(p->data + (from - p->from), data + (from - s->from),
                   (size_t)(to - from));
    }
}

/* --- Requests ---------------------------------------------------------------------- */

static void job_over(tarn__fetch *fetch)
{
    job *j = fetch->context;
    work *w = j->work;
    pthread_mutex_lock(&w->lock);
    j->over = true;
    if (j == w->awaited) pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
}

static void free_job(job *j)
{
    if (j->cached) tarn__cached_give_up(j->cached, j->first, j->count);
    if (j->uses) tarn__remote_release(j->work->parts[j->range.first].remote);
    free(j->memory);
    free(j);
}

static tarn_status send_jobs(work *w, tarn_error *err)
{
    tarn__fetch *fetches[TOGETHER];
    size_t n = 0;
    for (job *j = w->unsent; j; j = j->next)
        fetches[n++] = &j->fetch;
    w->unsent = NULL;
    w->n_unsent = 0;
    if (n == 0) return TARN_OK;
    tarn_status status = tarn__fetch_begin(fetches, n, err);
    for (size_t i = 0; status != TARN_OK && i < n; i++) {
        job *j = fetches[i]->context;
        j->over = true;
        j->fetch.status = status;
        j->fetch.error = (tarn_error){.code = status};
        if (err) j->fetch.error = *err;
    }
    return status;
}

/* Waits until a request is over. Its end is signalled; only the flag that cancels is
 * not. */
static tarn_status await(work *w, const job *j, tarn_error *err)
{
    bool over = false, cancelled = false;
    pthread_mutex_lock(&w->lock);
    w->awaited = j;
    while (!(over = j->over) && !(cancelled = is_cancelled(w))) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        if (w->task->cancel)
            (void)pthread_cond_timedwait(&w->ended, &w->lock, &until);
        else
            pthread_cond_wait(&w->ended, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return over ? TARN_OK : fail_cancelled(err);
}

/* Requests that go directly to their parts need no work when they are over. They end
 * nearly in order, so it is enough to wake up for the last one. */
static tarn_status await_direct(work *w, tarn_error *err)
{
    const job *last = NULL;
    for (const job *j = w->oldest; j && !j->memory && !j->cached; j = j->next)
        last = j;
    if (w->n_unsent) TARN_TRY(send_jobs(w, err));
    return last ? await(w, last, err) : TARN_OK;
}

/* Uses the bytes of the oldest request. If they cannot be stored, they are used all the
 * same. */
static tarn_status finish_oldest(work *w, tarn_error *err)
{
    job *j = w->oldest;
    tarn_status status = TARN_OK;
    if (w->n_unsent) TARN_TRY(send_jobs(w, err));
    TARN_TRY(await(w, j, err));
    if (j->fetch.status != TARN_OK)
        status = note_failure(w, &j->range, &j->fetch.error, err);
    else if (j->memory)
        deliver(w, &j->range, j->memory);
    if (j->cached && j->fetch.status == TARN_OK) {
        (void)!tarn__cached_put(j->cached, j->first, j->count, j->fetch.to, NULL);
        j->cached = NULL; /* the claim has ended */
    }
    w->oldest = j->next;
    if (!w->oldest) w->newest = NULL;
    w->jobs--;
    w->bytes -= j->fetch.size;
    free_job(j);
    return status;
}

/* Gives up what is under way. */
static void abandon(work *w)
{
    for (job *j = w->unsent; j; j = j->next)
        j->over = true;
    for (job *j = w->oldest, *next; j; j = next) {
        next = j->next;
        tarn__fetch *fetch = &j->fetch;
        pthread_mutex_lock(&w->lock);
        bool over = j->over;
        pthread_mutex_unlock(&w->lock);
        if (!over) tarn__fetch_cancel(&fetch, 1);
        free_job(j);
    }
    w->oldest = NULL;
}

/* The memory of a range that is inside one part, or inside the room of placed parts;
 * otherwise NULL. */
static unsigned char *own_memory(const work *w, const stretch *s)
{
    const part *p = &w->parts[s->first];
    uint64_t from = p->from, to = p->to;
    for (size_t i = s->first + 1; i < s->end; i++) {
        const part *next = &w->parts[i];
        if (!p->placed || !next->placed || next->data != p->data + (next->from - p->from))
            return NULL;
        if (next->to > to) to = next->to;
    }
    if (p->placed) {
        from = tarn__remote_room_from(p->remote, from);
        to = tarn__remote_room_to(p->remote, to);
    }
    return s->from >= from && s->to <= to ? p->data - (p->from - from) + (s->from - from)
                                          : NULL;
}

/* Starts the request for a range; ends the claim of its blocks, if there are any, also on
 * failure. */
static tarn_status begin_job(work *w, const stretch *s, tarn__cached *cached,
                             uint64_t first, uint64_t count, tarn_error *err)
{
    tarn__counted *counted = w->parts[s->first].remote->counted;
    if (counted) {
        tarn__counted_fetch(counted, s->to - s->from, first, count);
        return TARN_OK;
    }
    job *j = calloc(1, sizeof *j);
    if (!j) {
        if (cached) tarn__cached_give_up(cached, first, count);
        return tarn__fail_memory(err);
    }
    *j = (job){.work = w, .range = *s, .cached = cached, .first = first, .count = count};
    j->fetch = (tarn__fetch){.offset = s->from,
                             .size = (size_t)(s->to - s->from),
                             .rank = w->task->rank,
                             .over = job_over,
                             .context = j};
    if (cached) tarn__remote_use_again(w->parts[s->first].remote);
    j->uses = cached != NULL;
    j->fetch.to = own_memory(w, s);
    if (!j->fetch.to) j->fetch.to = j->memory = malloc(j->fetch.size);
    tarn_status status = j->fetch.to ? tarn__remote_fetched(w->parts[s->first].remote,
                                                            &j->fetch.object, err)
                                     : tarn__fail_memory(err);
    while (status == TARN_OK && w->oldest &&
           (w->jobs >= UNDER_WAY || w->bytes + j->fetch.size > TARN__REMOTE_FLIGHT))
        status = finish_oldest(w, err);
    if (status != TARN_OK) {
        free_job(j);
        return status;
    }
    if (w->newest)
        w->newest->next = j;
    else
        w->oldest = j;
    w->newest = j;
    if (!w->unsent) w->unsent = j;
    w->jobs++;
    w->bytes += j->fetch.size;
    return ++w->n_unsent == TOGETHER ? send_jobs(w, err) : TARN_OK;
}

/* --- With a cache ------------------------------------------------------------------ */

/* Narrows a range to what its parts need of [from, to); false if they need nothing. */
static bool narrow(const work *w, const stretch *s, uint64_t from, uint64_t to,
                   stretch *out)
{
    uint64_t a, b;
    *out = (stretch){0};
    for (size_t i = s->first; i < s->end; i++) {
        if (!overlap(&w->parts[i], from > s->from ? from : s->from,
                     to < s->to ? to : s->to, &a, &b))
            continue;
        if (out->end == 0) *out = (stretch){i, i + 1, a, b};
        out->end = i + 1;
        if (a < out->from) out->from = a;
        if (b > out->to) out->to = b;
    }
    return out->end > 0;
}

/* If another program shortened the copy, or its disk fails, the bytes are fetched. */
static tarn_status read_copy(work *w, const stretch *s, const tarn__cached *cached,
                             tarn_error *err)
{
    uint64_t from, to;
    tarn__counted *counted = w->parts[s->first].remote->counted;
    for (size_t i = s->first; i < s->end; i++) {
        const part *p = &w->parts[i];
        if (!overlap(p, s->from, s->to, &from, &to)) continue;
        stretch one = {i, i + 1, from, to};
        if (counted) {
            tarn__counted_hit(counted, to - from);
            continue;
        }
        if (tarn__read_exact(tarn__cached_fd(cached), tarn__cached_path(cached),
                             p->data + (from - p->from), (size_t)(to - from), from,
                             NULL) != TARN_OK)
            TARN_TRY(begin_job(w, &one, NULL, 0, 0, err));
    }
    return TARN_OK;
}

static tarn_status postpone(work *w, const stretch *s, tarn_error *err)
{
    TARN_TRY(tarn__grow(&w->later, sizeof *w->later, w->n_later, &w->later_room, err));
    w->later[w->n_later++] = *s;
    return TARN_OK;
}

static void give_up(const tarn__remote *r, tarn__cached *cached,
                    const tarn__cached_span *span)
{
    if (span->state != TARN__CACHED_CLAIMED) return;
    if (r->counted)
        tarn__counted_give_up(r->counted, span->count);
    else
        tarn__cached_give_up(cached, span->first, span->count);
}

/* Reads, fetches or postpones a span of blocks. */
static tarn_status use_span(work *w, const stretch *s, tarn__cached *cached,
                            const tarn__cached_span *span, uint64_t end, tarn_error *err)
{
    stretch wanted;
    uint64_t from = span->first * TARN__CACHE_BLOCK,
             to = from + span->count * TARN__CACHE_BLOCK;
    if (to > end) to = end;
    bool claimed = span->state == TARN__CACHED_CLAIMED;
    if (!narrow(w, s, from, to, &wanted)) {
        bool is_rest = claimed && from >= s->to;
        if (!is_rest) give_up(w->parts[s->first].remote, cached, span);
        if (!is_rest) return TARN_OK;
        wanted = (stretch){s->first, s->first + 1, from, to};
    }
    switch (span->state) {
    case TARN__CACHED_THERE:
        return read_copy(w, &wanted, cached, err);
    case TARN__CACHED_BUSY:
        return postpone(w, &wanted, err);
    case TARN__CACHED_PASSED:
        return begin_job(w, &wanted, NULL, 0, 0, err);
    case TARN__CACHED_CLAIMED:
        break;
    }
    wanted.from = from;
    wanted.to = to;
    return begin_job(w, &wanted, cached, span->first, span->count, err);
}

/* Moves the end of a range to that of the file if little is left: nobody would ask for
 * the end of an archive, and its copy would never be complete. */
static tarn_status with_rest(tarn__remote *r, uint64_t *to, tarn_error *err)
{
    tarn__object_id id;
    TARN_TRY(tarn__remote_identify(r, &id, err));
    if (id.size > *to && id.size - *to <= REST) *to = id.size;
    return TARN_OK;
}

static tarn_status claim(const tarn__remote *r, tarn__cached *cached, uint64_t from,
                         uint64_t to, tarn__cached_span *spans, size_t *out_count,
                         uint64_t *out_end, tarn_error *err)
{
    if (!r->counted)
        return tarn__cached_claim(cached, from, to - from, spans, SPANS, out_count,
                                  out_end, err);
    return tarn__counted_claim(r->counted, from, to - from, spans, SPANS, out_count,
                               out_end, err);
}

static tarn_status begin_cached(work *w, const stretch *s, tarn__cached *cached,
                                tarn_error *err)
{
    tarn__cached_span spans[SPANS];
    uint64_t until = s->to;
    tarn__remote *r = w->parts[s->first].remote;
    TARN_TRY(with_rest(r, &until, err));
    for (uint64_t at = s->from; at < until;) {
        size_t count;
        uint64_t end;
        TARN_TRY(claim(r, cached, at, until, spans, &count, &end, err));
        tarn_status status = TARN_OK;
        for (size_t i = 0; i < count; i++) {
            if (status == TARN_OK)
                status = use_span(w, s, cached, &spans[i], end, err);
            else
                give_up(r, cached, &spans[i]);
        }
        TARN_TRY(status);
        if (end <= at) break; /* never: a claim covers at least one block */
        at = end;
    }
    return TARN_OK;
}

static tarn_status begin_range(work *w, const stretch *s, tarn_error *err)
{
    tarn__remote *r = w->parts[s->first].remote;
    tarn__cached *cached = NULL;
    if (r->counted && !w->plain && tarn__counted_caches(r->counted))
        return begin_cached(w, s, NULL, err);
    if (!r->counted && !w->plain) TARN_TRY(tarn__remote_use(r, &cached, err));
    if (!cached) return begin_job(w, s, NULL, 0, 0, err);
    tarn_status status = begin_cached(w, s, cached, err);
    tarn__remote_release(r);
    return status;
}

/* Starts what a run needs. A file that cannot be used fails for its parts only. */
static tarn_status begin_run(work *w, const stretch *s, tarn_error *err)
{
    tarn_error why;
    if (w->errors[w->parts[s->first].piece]) return TARN_OK; /* it was not identified */
    tarn_status status = begin_range(w, s, &why);
    if (status == TARN_OK) return TARN_OK;
    if (status != TARN_ERR_MEMORY && status != TARN_ERR_CANCELLED)
        return note_failure(w, s, &why, err);
    if (err) *err = why;
    return status;
}

/* --- All of them ------------------------------------------------------------------- */

/* Gaps cost bandwidth and memory, so larger ones are fetched only if all gaps of the run
 * are together not larger than what is wanted of it. */
bool tarn__remote_run_add(tarn__remote_run *run, uint64_t from, uint64_t to)
{
    uint64_t gap = from > run->to ? from - run->to : 0, gaps = run->gaps + gap;
    uint64_t news = to > run->to ? to - run->to - gap : 0, wanted = run->wanted + news;
    if (gap > TARN__REMOTE_GAP || run->to + gap + news - run->from > TARN__REMOTE_MOST ||
        (gap > TARN__REMOTE_SMALL_GAP && gaps > wanted))
        return false;
    *run = (tarn__remote_run){run->from, run->to + gap + news, wanted, gaps};
    return true;
}

static stretch next_run(const work *w, size_t first)
{
    const part *p = &w->parts[first];
    tarn__remote_run run = tarn__remote_run_of(p->from, p->to);
    size_t end = first + 1;
    for (; end < w->count; end++) {
        const part *next = &w->parts[end];
        if (next->remote != p->remote ||
            !tarn__remote_run_add(&run, next->from, next->to))
            break;
    }
    return (stretch){first, end, run.from, run.to};
}

/* Waits until others have fetched a range; false if that takes too long. */
static bool wait_for(const work *w, const stretch *s)
{
    tarn__cached *cached;
    tarn__remote *r = w->parts[s->first].remote;
    uint64_t first = s->from / TARN__CACHE_BLOCK;
    if (tarn__remote_use(r, &cached, NULL) != TARN_OK || !cached) return false;
    bool over =
        tarn__cached_wait(cached, first, (s->to - 1) / TARN__CACHE_BLOCK - first + 1,
                          PATIENCE_MS, w->task->cancel);
    tarn__remote_release(r);
    return over;
}

/* Waits for what others fetch, and tries again: they may have given up. What takes them
 * too long is fetched again, for the parts alone. */
static tarn_status begin_later(work *w, tarn_error *err)
{
    stretch *again = w->later;
    size_t count = w->n_later;
    tarn_status status = TARN_OK;
    w->later = NULL;
    w->n_later = w->later_room = 0;
    bool over = wait_for(w, &again[0]);
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        if (is_cancelled(w))
            status = fail_cancelled(err);
        else if (i == 0 && !over)
            status = begin_job(w, &again[i], NULL, 0, 0, err);
        else
            status = begin_run(w, &again[i], err);
    }
    free(again);
    return status;
}

static tarn_status run_parts(work *w, tarn_error *err)
{
    qsort(w->parts, w->count, sizeof *w->parts, by_place);
    for (size_t i = 0; i < w->count;) {
        stretch s = next_run(w, i);
        i = s.end;
        TARN_TRY(begin_run(w, &s, err));
    }
    for (;;) {
        while (w->oldest) {
            TARN_TRY(await_direct(w, err));
            TARN_TRY(finish_oldest(w, err));
        }
        if (!w->n_later) return TARN_OK;
        TARN_TRY(begin_later(w, err));
    }
}

/* Runs and ends the work, whose parts were listed with this status. */
static tarn_status run(work *w, tarn_status status, tarn_error *err)
{
    pthread_condattr_t attr;
    w->task = tarn__remote_current();
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->ended, &attr);
    pthread_condattr_destroy(&attr);
    if (status == TARN_OK && is_cancelled(w)) status = fail_cancelled(err);
    if (status == TARN_OK && w->count) status = run_parts(w, err);
    if (status != TARN_OK) abandon(w);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
    free(w->later);
    free(w->parts);
    return status;
}

/* A copy in the cache belongs to one version of a file, so the version must be known
 * before it is used: the first byte of each file is requested, of all files at once. */
static tarn_status identify_all(const tarn__remote_piece *pieces, size_t count,
                                tarn_error **errors, tarn_error *err)
{
    work w = {.errors = errors, .plain = true};
    unsigned char *bytes = malloc(count + 1);
    tarn_status status = bytes ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        tarn__remote_piece first = {pieces[i].remote, 0, 1, bytes + i, false};
        bool cached = first.remote->counted ? tarn__counted_caches(first.remote->counted)
                                            : first.remote->cache != NULL;
        if (cached && !atomic_load(&first.remote->identified))
            status = add_parts(&w, &first, i, err);
    }
    status = run(&w, status, err);
    for (size_t i = 0; i < count && status == TARN_OK; i++)
        if (!errors[i]) atomic_store(&pieces[i].remote->identified, true);
    free(bytes);
    return status;
}

tarn_status tarn__remote_read_each(const tarn__remote_piece *pieces, size_t count,
                                   tarn_error **errors, tarn_error *err)
{
    work w = {.errors = errors};
    tarn_status status = identify_all(pieces, count, errors, err);
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        status = add_parts(&w, &pieces[i], i, err);
        if (pieces[i].remote->counted)
            tarn__counted_want(pieces[i].remote->counted, pieces[i].size);
    }
    return run(&w, status, err);
}
