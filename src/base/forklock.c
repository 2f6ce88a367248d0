/* All fork locks are in lists, one list for each depth.
 *
 * Locks: list_lock guards lists and the next and back members of every lock. A fork locks
 * list_lock, then all locks from the outermost depth to the innermost, and unlocks them
 * in the reverse order of depths, both in the parent and in the child.
 *
 * Lock order: list_lock, then OUTERMOST, OUTER, INNER, INNERMOST. Two rules follow. A
 * thread must not hold two locks of the same depth, because a fork takes those in the
 * order of the list. A thread must not call init or destroy while it holds a fork lock,
 * because a fork in another thread may hold list_lock and wait for that lock.
 *
 * There are no atomics here. The child has only the forking thread, which owns all these
 * mutexes, so it may unlock them. */
#include "base/forklock.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static tarn__forklock *lists[TARN__LOCK_DEPTHS];

static void lock_all(void)
{
    pthread_mutex_lock(&list_lock);
    for (int depth = 0; depth < TARN__LOCK_DEPTHS; depth++)
        for (tarn__forklock *l = lists[depth]; l; l = l->next)
            pthread_mutex_lock(&l->mutex);
}

static void unlock_all(void)
{
    for (int depth = TARN__LOCK_DEPTHS; depth-- > 0;)
        for (tarn__forklock *l = lists[depth]; l; l = l->next)
            pthread_mutex_unlock(&l->mutex);
    pthread_mutex_unlock(&list_lock);
}

/* If the handlers cannot be registered, forking is as safe as it is without them. */
static void register_once(void)
{
    (void)pthread_atfork(lock_all, unlock_all, unlock_all);
}

void tarn__forklock_init(tarn__forklock *lock, tarn__lock_depth depth)
{
    pthread_once(&once, register_once);
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_mutex_lock(&list_lock);
    lock->next = lists[depth];
    lock->back = &lists[depth];
    if (lock->next) lock->next->back = &lock->next;
    lists[depth] = lock;
    pthread_mutex_unlock(&list_lock);
}

void tarn__forklock_destroy(tarn__forklock *lock)
{
    pthread_mutex_lock(&list_lock);
    *lock->back = lock->next;
    if (lock->next) lock->next->back = lock->back;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_destroy(&lock->mutex);
}
