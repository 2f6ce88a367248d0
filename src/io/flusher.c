/* Writing in the background.
 *
 * lock guards all members; changed is signalled when state changes. While state is BUSY,
 * the thread reads the members of the job (fd to offset) and writes error without the
 * lock. That is safe because the owner changes them only in IDLE: tarn__flusher_begin
 * requires that the previous write was waited for. No other lock is taken while lock is
 * held. */
#include "io/flusher.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/error.h"
#include "io/file.h"

typedef enum state { IDLE, BUSY, STOP } state;

struct tarn__flusher {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    state state;
    int fd;
    const char *path;
    const void *data;
    size_t len;
    uint64_t offset;
    tarn_status status; /* of the last write */
    tarn_error error;
};

static void *write_blocks(void *context)
{
    tarn__flusher *f = context;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (f->state == IDLE)
            pthread_cond_wait(&f->changed, &f->lock);
        if (f->state == STOP) break;
        pthread_mutex_unlock(&f->lock);
        tarn_status status =
            tarn__write_at(f->fd, f->path, f->data, f->len, f->offset, &f->error);
        pthread_mutex_lock(&f->lock);
        f->status = status;
        f->state = IDLE;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

tarn__flusher *tarn__flusher_new(void)
{
    tarn__flusher *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    /* The thread blocks all signals, so that the caller's threads receive them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&f->thread, NULL, write_blocks, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) return f;
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    free(f);
    return NULL;
}

void tarn__flusher_begin(tarn__flusher *f, int fd, const char *path, const void *data,
                         size_t len, uint64_t offset)
{
    pthread_mutex_lock(&f->lock);
    f->fd = fd;
    f->path = path;
    f->data = data;
    f->len = len;
    f->offset = offset;
    f->status = TARN_OK;
    f->state = BUSY;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void wait_idle(tarn__flusher *f)
{
    while (f->state == BUSY)
        pthread_cond_wait(&f->changed, &f->lock);
}

tarn_status tarn__flusher_wait(tarn__flusher *f, tarn_error *err)
{
    pthread_mutex_lock(&f->lock);
    wait_idle(f);
    tarn_status status = f->status;
    f->status = TARN_OK;
    if (status != TARN_OK && err) *err = f->error;
    pthread_mutex_unlock(&f->lock);
    return status;
}

void tarn__flusher_free(tarn__flusher *f)
{
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    wait_idle(f);
    f->state = STOP;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    free(f);
}
