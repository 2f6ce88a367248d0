/* The parallel loop. loop.lock guards status and failed; no other lock is taken while it
 * is held. The relaxed read of stop is enough because it only ends the loop early:
 * failures are published by the lock, and the results of tasks by pthread_join. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MAX_THREADS = 256 };

typedef struct loop {
    tarn__task task;
    void *context;
    size_t count;
    atomic_size_t next;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards the members below */
    tarn_status status;
    size_t failed;
} loop;

static void note_failure(loop *l, tarn_status status, size_t number)
{
    pthread_mutex_lock(&l->lock);
    if (l->status == TARN_OK || number < l->failed) {
        l->status = status;
        l->failed = number;
    }
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->stop, true);
}

static void *run_tasks(void *arg)
{
    loop *l = arg;
    while (!atomic_load_explicit(&l->stop, memory_order_relaxed)) {
        size_t number = atomic_fetch_add(&l->next, 1);
        if (number >= l->count) break;
        tarn_status status = l->task(l->context, number);
        if (status != TARN_OK) note_failure(l, status, number);
    }
    return NULL;
}

unsigned tarn__thread_count(unsigned asked)
{
    if (asked) return asked < MAX_THREADS ? asked : MAX_THREADS;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (unsigned)n;
}

tarn_status tarn__parallel(unsigned threads, size_t count, tarn__task task, void *context,
                           size_t *out_failed)
{
    loop l = {.task = task, .context = context, .count = count};
    pthread_t started[MAX_THREADS];
    unsigned n = 0;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads > count) threads = (unsigned)count;
    pthread_mutex_init(&l.lock, NULL);
    /* If a thread cannot be started, the others do its work. */
    while (n + 1 < threads && pthread_create(&started[n], NULL, run_tasks, &l) == 0)
        n++;
    run_tasks(&l);
    while (n > 0)
        pthread_join(started[--n], NULL);
    pthread_mutex_destroy(&l.lock);
    if (out_failed) *out_failed = l.failed;
    return l.status;
}
