/* All locks are in lists, by depth: a fork takes the outer ones first, as threads do. */
#include "base/forklock.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static tarn__forklock *lists[TARN__LOCK_DEPTHS];

static void before(void)
{
    pthread_mutex_lock(&list_lock);
    for (int depth = 0; depth < TARN__LOCK_DEPTHS; depth++)
        for (tarn__forklock *l = lists[depth]; l; l = l->next)
            pthread_mutex_lock(&l->mutex);
}

static void after(void)
{
    for (int depth = TARN__LOCK_DEPTHS; depth-- > 0;)
        for (tarn__forklock *l = lists[depth]; l; l = l->next)
            pthread_mutex_unlock(&l->mutex);
    pthread_mutex_unlock(&list_lock);
}

/* Where it cannot be registered, forking is as safe as it is without. */
static void register_once(void)
{
    (void)pthread_atfork(before, after, after);
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
