/* The parallel loop. */
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
    pthread_mutex_t lock; /* guards what follows */
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

static void *work(void *arg)
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
    /* A thread that cannot be started is no failure: the others do its share. */
    while (n + 1 < threads && pthread_create(&started[n], NULL, work, &l) == 0)
        n++;
    work(&l);
    while (n > 0)
        pthread_join(started[--n], NULL);
    pthread_mutex_destroy(&l.lock);
    if (out_failed) *out_failed = l.failed;
    return l.status;
}
