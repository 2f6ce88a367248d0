/* Mutexes that are safe across fork: the forking thread holds all of them during the
 * fork. So the child never gets a mutex that another thread of the parent had locked, nor
 * data that such a thread was in the middle of changing. */
#ifndef TARN_BASE_FORKLOCK_H
#define TARN_BASE_FORKLOCK_H

#include <pthread.h>

/* Lock order: a thread that holds a lock may take only locks that are further in, so it
 * holds at most one lock of each depth. See forklock.c. */
typedef enum tarn__lock_depth {
    TARN__LOCK_OUTERMOST,
    TARN__LOCK_OUTER,
    TARN__LOCK_INNER,
    TARN__LOCK_INNERMOST,
    TARN__LOCK_DEPTHS
} tarn__lock_depth;

typedef struct tarn__forklock {
    pthread_mutex_t mutex;
    struct tarn__forklock *next, **back; /* private */
} tarn__forklock;

void tarn__forklock_init(tarn__forklock *lock, tarn__lock_depth depth);
void tarn__forklock_destroy(tarn__forklock *lock);

#endif
