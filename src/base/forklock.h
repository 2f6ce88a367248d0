/* Mutexes that a fork finds free: whoever forks holds them meanwhile, so that the child's
 * copy is never one that a thread of the parent had locked, guarding what that thread was
 * in the middle of. */
#ifndef TARN_BASE_FORKLOCK_H
#define TARN_BASE_FORKLOCK_H

#include <pthread.h>

/* A thread that holds one may take one that is further in, never the other way. */
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
