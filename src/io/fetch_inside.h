/* Shared by the files of the fetcher: fetch.c (callers, locks, fork), fetch_loop.c (the
 * thread of the transfers) and fetch_transfer.c (one request). The first comment of
 * fetch.c describes the threads and locks. */
#ifndef TARN_IO_FETCH_INSIDE_H
#define TARN_IO_FETCH_INSIDE_H

#include <pthread.h>

#include "base/forklock.h"
#include "io/fetch.h"
#include "io/fetch_judge.h"
#include "io/fetch_pace.h"
#include "io/fetch_queue.h"

enum {
    TARN__FETCH_MOST = 256, /* transfers at once, of all hosts */
    TARN__FETCH_SHARE = 4,  /* use at most one of that many descriptors */
    TARN__FETCH_IDLE_SECONDS = 30,
    TARN__FETCH_REFUSALS = 5,    /* after that many in a row, pauses grow no longer */
    TARN__FETCH_RETRY_AFTER = 60 /* seconds; a server may not ask for more */
};

/* A server: the scheme, name and port of a URL. */
typedef struct tarn__host {
    struct tarn__host *next;
    char *name;
    size_t users; /* objects */
    tarn__queue queue;
    size_t jobs; /* that are not over */
    unsigned active;
    tarn__pace pace;
    uint64_t bytes; /* received since the pace was noted */
    unsigned ended;
    unsigned refusals;       /* cuts of the pace since the last success */
    int64_t closed_until_ms; /* no request starts before */
} tarn__host;

struct tarn__fetched {
    tarn__object object;
    tarn__fetch_limits limits;
    tarn__host *host;
    tarn__object_id id;   /* changed only by the thread of the transfers, with the lock */
    uint64_t identifying; /* the generation of a request for it; 0: none */
    uint64_t answers;     /* to such requests */
    tarn_status answer;   /* the last one */
    tarn_error why;
    int64_t renewed_ms; /* when its signer got new credentials; only for the thread */
};

typedef enum tarn__job_state {
    TARN__JOB_QUEUED,
    TARN__JOB_LATER, /* waits for another attempt */
    TARN__JOB_ACTIVE,
    TARN__JOB_OVER
} tarn__job_state;

typedef struct tarn__waiter {
    pthread_cond_t cond;
    size_t left;
} tarn__waiter;

/* A fetch that is not over, or was not waited for. */
typedef struct tarn__job {
    tarn__queued queued; /* first, so that an item of a queue is a job */
    tarn__fetch *fetch;
    tarn__fetched *object;
    struct tarn__job *next; /* in a list */
    uint64_t generation;    /* of the process that submitted it */
    tarn__job_state state;
    bool cancelled;
    bool identify;
    tarn__waiter *waiter;
    /* Used by the thread of the transfers only: */
    size_t got;
    unsigned attempts; /* that failed, since much was received */
    size_t renewed_at; /* got when attempts was 0 */
    bool signed_again;
    int64_t ready_ms; /* the time of the next attempt */
} tarn__job;

/* All members are guarded by lock. */
typedef struct tarn__fetcher {
    tarn__forklock lock;
    tarn__forklock curl_lock; /* libcurl is at work; see fetch.c */
    pid_t owner;
    uint64_t generation; /* counts the processes from the first one to this */
    uint64_t order;      /* of the next job */
    tarn__host *hosts;
    tarn__job *later;   /* jobs that wait for another attempt */
    tarn__job *dropped; /* cancelled ones whose callers must be called */
    tarn__job *calling; /* its function is being called */
    unsigned active;
    pthread_t thread;
    bool started;            /* thread must be joined */
    bool running;            /* the thread takes jobs */
    bool asleep;             /* it may be polling and not notice changes */
    bool cancels;            /* an active job was cancelled */
    bool stopping;           /* the process ends, or the library is unloaded */
    int64_t idle_ms;         /* the thread ends after that time without jobs */
    struct tarn__loop *loop; /* while running */
    struct tarn__loop *lost; /* of the parent process: never used, never freed */
    pthread_cond_t identified;
    tarn__fetch_stats stats;
} tarn__fetcher;

extern tarn__fetcher tarn__fetcher_state;

/* Ends a job and informs its caller. why may be NULL: the job knows. For the thread of
 * the transfers. */
void tarn__job_end(tarn__job *job, tarn_status status, const tarn_error *why);

/* --- The thread (fetch_loop.c) ------------------------------------------------------ */

typedef struct tarn__transfer {
    tarn__http http; /* first */
    struct tarn__transfer *next;
    tarn__job *job;
    tarn__judgement judgement;
    tarn_error why;   /* it was refused */
    size_t got;       /* bytes of this response */
    bool enough;      /* the rest of the response is not needed */
    char reply[2048]; /* the beginning of the body of a bad status */
    size_t reply_size;
    uint64_t counted;   /* http.received that the host knows of */
    uint64_t moved;     /* http.moved at the last check ... */
    int64_t moved_ms;   /* ... and when it changed */
    int64_t slow_ms;    /* the speed is measured since then ... */
    uint64_t slow_from; /* ... and from that value of http.received */
    int64_t began_ms;
} tarn__transfer;

/* What to do after a transfer. */
typedef enum tarn__next {
    TARN__NEXT_DONE,
    TARN__NEXT_FAILED,
    TARN__NEXT_AGAIN,     /* at once */
    TARN__NEXT_LATER,     /* after a pause */
    TARN__NEXT_SLOW_DOWN, /* the same, and the server has too much to do */
} tarn__next;

TARN_CHECKED tarn_status tarn__transfer_begin(tarn__transfer *t, tarn__job *job,
                                              int64_t now_ms, tarn_error *err);
tarn__next tarn__transfer_end(tarn__transfer *t, int64_t now_ms, tarn_error *err);
/* Whether it has taken too long; then its http.result is set. */
bool tarn__transfer_check(tarn__transfer *t, int64_t now_ms);
/* The failure of a job names its range. */
void tarn__job_place(const tarn__job *job, tarn_error *err);

/* Makes what the thread needs; NULL if out of memory. */
struct tarn__loop *tarn__loop_new(const tarn__curl *curl);
void tarn__loop_free(struct tarn__loop *loop);
void *tarn__loop_run(void *loop);
void tarn__loop_wake(struct tarn__loop *loop);
/* Keeps the loop of the parent process, and the one that was kept before. */
void tarn__loop_lose(struct tarn__loop *loop, struct tarn__loop *before);

#endif
