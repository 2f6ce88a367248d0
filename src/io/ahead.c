/* Reading in the background.
 *
 * lock guards all members except stop, fd, file and buffer; changed is signalled when
 * state changes. While state is BUSY, the thread reads parts and count without the lock.
 * That is safe because they are only replaced in IDLE. fd, file and buffer belong to the
 * thread. lock is a fork lock (depth INNER), and no other lock is taken while it is held:
 * the thread opens files without it.
 *
 * stop is relaxed: it only ends the work early, and publishes no other data.
 *
 * A forked child has no thread. It starts another one when it reads for the first time
 * (pid shows whether it has one), and forgets the parts of its parent. The condition is
 * initialised again, because it may count the parent's thread as waiting. */
#include "io/ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/forklock.h"

enum { PIECE = 256 << 10 };

typedef enum state { IDLE, BUSY, STOP } state;

struct tarn__ahead {
    tarn__ahead_open open;
    const void *owner;
    tarn__forklock lock;
    pthread_cond_t changed;
    pthread_t thread;
    pid_t pid; /* of the process that has the thread; 0: none */
    state state;
    tarn__ahead_part *parts;
    size_t count;
    atomic_bool stop;
    int fd; /* of the file that was read last, or -1; also after a fork */
    uint32_t file;
    unsigned char *buffer; /* read and not used */
};

static void close_file(tarn__ahead *a)
{
    if (a->fd >= 0) close(a->fd);
    a->fd = -1;
}

/* Reads in pieces, because one large read would get small pages. The descriptor is one of
 * its own, and stays open for the next part: the system keeps the state of its readahead
 * there, which other threads and maps would disturb. */
static void read_part(tarn__ahead *a, const tarn__ahead_part *p)
{
    if (a->fd < 0 || a->file != p->file) {
        close_file(a);
        a->fd = a->open(a->owner, p->file);
        a->file = p->file;
        /* Twice the readahead, for disks that answer late. */
        if (a->fd >= 0) posix_fadvise(a->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    for (uint64_t done = 0; done < p->size;) {
        size_t len = p->size - done < PIECE ? (size_t)(p->size - done) : PIECE;
        if (atomic_load_explicit(&a->stop, memory_order_relaxed)) break;
        ssize_t got = pread(a->fd, a->buffer, len, (off_t)(p->offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (uint64_t)got;
    }
}

static void *read_parts(void *context)
{
    tarn__ahead *a = context;
    pthread_mutex_lock(&a->lock.mutex);
    for (;;) {
        while (a->state == IDLE)
            pthread_cond_wait(&a->changed, &a->lock.mutex);
        if (a->state == STOP) break;
        pthread_mutex_unlock(&a->lock.mutex);
        for (size_t i = 0; i < a->count; i++)
            read_part(a, &a->parts[i]);
        pthread_mutex_lock(&a->lock.mutex);
        a->state = IDLE;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock.mutex);
    return NULL;
}

tarn__ahead *tarn__ahead_new(tarn__ahead_open open, const void *owner)
{
    tarn__ahead *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->open = open;
    a->owner = owner;
    a->fd = -1;
    a->buffer = malloc(PIECE);
    if (!a->buffer) {
        free(a);
        return NULL;
    }
    tarn__forklock_init(&a->lock, TARN__LOCK_INNER);
    return a;
}

/* Starts the thread, unless this process has one. It blocks all signals, so that the
 * caller's threads receive them. */
static bool has_thread(tarn__ahead *a)
{
    pid_t pid = getpid();
    if (a->pid == pid) return true;
    sigset_t all, before;
    a->state = IDLE;
    close_file(a);
    pthread_cond_init(&a->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&a->thread, NULL, read_parts, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) a->pid = pid;
    return started;
}

static void wait_idle(tarn__ahead *a)
{
    while (a->state == BUSY)
        pthread_cond_wait(&a->changed, &a->lock.mutex);
}

bool tarn__ahead_read(tarn__ahead *a, tarn__ahead_part *parts, size_t count)
{
    pthread_mutex_lock(&a->lock.mutex);
    bool started = has_thread(a);
    if (started) {
        wait_idle(a);
        free(a->parts);
        a->parts = parts;
        a->count = count;
        a->state = BUSY;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock.mutex);
    return started;
}

void tarn__ahead_free(tarn__ahead *a)
{
    if (!a) return;
    if (a->pid == getpid()) {
        atomic_store_explicit(&a->stop, true, memory_order_relaxed);
        pthread_mutex_lock(&a->lock.mutex);
        wait_idle(a);
        a->state = STOP;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock.mutex);
        pthread_join(a->thread, NULL);
        pthread_cond_destroy(&a->changed);
    }
    close_file(a);
    tarn__forklock_destroy(&a->lock);
    free(a->parts);
    free(a->buffer);
    free(a);
}
