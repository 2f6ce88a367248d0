/* Handing on in order. The lock guards all of turns; desks are used outside of it, each
 * by one task. */
#include "base/turns.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/pool.h"

typedef struct turns {
    const tarn__turns_work *work;
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    size_t turn; /* the task that hands on next */
    bool stopped;
    void **desks; /* that no task uses, room for one for each thread */
    size_t n_desks;
    tarn_status status; /* of the task that failed first in order */
    tarn_error error;
} turns;

static void *take_desk(turns *t)
{
    pthread_mutex_lock(&t->lock);
    void *desk = t->n_desks ? t->desks[--t->n_desks] : NULL;
    pthread_mutex_unlock(&t->lock);
    return desk ? desk : t->work->new_desk();
}

/* False if a task before this one failed. */
static bool wait_for(turns *t, size_t number)
{
    pthread_mutex_lock(&t->lock);
    while (t->turn != number && !t->stopped)
        pthread_cond_wait(&t->turned, &t->lock);
    bool mine = !t->stopped;
    pthread_mutex_unlock(&t->lock);
    return mine;
}

static void pass_on(turns *t, void *desk, tarn_status status, const tarn_error *error)
{
    pthread_mutex_lock(&t->lock);
    t->turn++;
    if (status != TARN_OK) {
        t->stopped = true;
        t->status = status;
        t->error = *error;
    }
    if (desk) t->desks[t->n_desks++] = desk;
    pthread_cond_broadcast(&t->turned);
    pthread_mutex_unlock(&t->lock);
}

static tarn_status run_task(void *context, size_t number)
{
    turns *t = context;
    tarn_error why;
    void *desk = take_desk(t);
    tarn_status status =
        desk ? t->work->load(t->context, desk, number, &why) : tarn__fail_memory(&why);
    if (!wait_for(t, number)) {
        if (desk) t->work->free_desk(desk);
        return TARN_ERR_CANCELLED;
    }
    if (status == TARN_OK) status = t->work->hand_on(t->context, desk, number, &why);
    pass_on(t, desk, status, &why);
    return status;
}

tarn_status tarn__turns_run(const tarn__turns_work *work, void *context, unsigned threads,
                            size_t count, tarn_error *err)
{
    turns t = {.work = work, .context = context};
    size_t failed;
    threads = tarn__thread_count(threads);
    t.desks = calloc(threads + 1u, sizeof *t.desks);
    if (!t.desks) return tarn__fail_memory(err);
    pthread_mutex_init(&t.lock, NULL);
    pthread_cond_init(&t.turned, NULL);
    tarn_status status = tarn__parallel(threads, count, run_task, &t, &failed);
    if (status != TARN_OK) {
        status = t.status;
        if (err) *err = t.error;
    }
    while (t.n_desks)
        work->free_desk(t.desks[--t.n_desks]);
    pthread_mutex_destroy(&t.lock);
    pthread_cond_destroy(&t.turned);
    free(t.desks);
    return status;
}
