/* Delivering results in order. lock guards turn, stopped, the list of unused desks,
 * status and error; turned is signalled when turn or stopped changes. A desk in use
 * belongs to one task and needs no lock, and no other lock is taken while lock is held.
 * At the end, tarn__parallel has joined all threads, so status, error and the desks are
 * read without the lock. */
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
    size_t turn; /* the task that delivers next */
    bool stopped;
    void **desks; /* unused desks; room for one for each thread */
    size_t n_desks;
    tarn_status status; /* of the first task, in order, that failed */
    tarn_error error;
} turns;

static void *take_desk(turns *t)
{
    pthread_mutex_lock(&t->lock);
    void *desk = t->n_desks ? t->desks[--t->n_desks] : NULL;
    pthread_mutex_unlock(&t->lock);
    return desk ? desk : t->work->new_desk();
}

/* Waits for the turn of a task; false if an earlier task failed. */
static bool wait_for_turn(turns *t, size_t number)
{
    pthread_mutex_lock(&t->lock);
    while (t->turn != number && !t->stopped)
        pthread_cond_wait(&t->turned, &t->lock);
    bool mine = !t->stopped;
    pthread_mutex_unlock(&t->lock);
    return mine;
}

static void pass_turn(turns *t, void *desk, tarn_status status, const tarn_error *error)
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
    if (!wait_for_turn(t, number)) {
        if (desk) t->work->free_desk(desk);
        return TARN_ERR_CANCELLED;
    }
    if (status == TARN_OK) status = t->work->hand_on(t->context, desk, number, &why);
    pass_turn(t, desk, status, &why);
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
