/* The copies of remote files that are open. An open copy holds two descriptors, and a
 * dataset may have tens of thousands of files, so only some copies are open at once:
 * those in use, and those used last.
 *
 * The lock guards the list (newest, oldest, n_open), and in each file cached, users,
 * newer and older. Copies are opened and closed without it: closing one takes the lock of
 * the cache, and opening reads files. Two threads may open the same copy at the same
 * time; the second to finish closes its own. The lock is innermost. here is stored by
 * the threads that used the copy, and read without the lock: an old value costs one
 * unnecessary look at the copy. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/forklock.h"
#include "io/remote_file.h"

enum { FEWEST_OPEN = 8, MOST_OPEN = 512 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tarn__forklock lock;
static tarn__remote *newest, *oldest;
static size_t n_open, most_open;

static void init_once(void)
{
    struct rlimit limit;
    most_open = MOST_OPEN;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 8 < most_open)
        most_open = (size_t)(limit.rlim_cur / 8);
    if (most_open < FEWEST_OPEN) most_open = FEWEST_OPEN;
    tarn__forklock_init(&lock, TARN__LOCK_INNERMOST);
}

/* The next two are called with the lock held. */

static void unlink_copy(tarn__remote *r)
{
    *(r->newer ? &r->newer->older : &newest) = r->older;
    *(r->older ? &r->older->newer : &oldest) = r->newer;
    r->newer = r->older = NULL;
    n_open--;
}

static void link_copy(tarn__remote *r)
{
    r->older = newest;
    r->newer = NULL;
    *(newest ? &newest->newer : &oldest) = r;
    newest = r;
    n_open++;
}

/* Closes the copy that was not used for the longest time; false if all are in use. */
static bool close_oldest(size_t least)
{
    tarn__cached *victim = NULL;
    pthread_mutex_lock(&lock.mutex);
    for (tarn__remote *r = n_open > least ? oldest : NULL; r && !victim; r = r->newer) {
        if (r->users) continue;
        victim = r->cached;
        r->cached = NULL;
        unlink_copy(r);
        break;
    }
    pthread_mutex_unlock(&lock.mutex);
    if (victim) tarn__cached_close(victim);
    return victim != NULL;
}

/* The copy if it is open; counts the use. */
static tarn__cached *use_open(tarn__remote *r)
{
    pthread_mutex_lock(&lock.mutex);
    tarn__cached *cached = r->cached;
    if (cached) {
        r->users++;
        unlink_copy(r);
        link_copy(r);
    }
    pthread_mutex_unlock(&lock.mutex);
    return cached;
}

/* Makes mine the copy, unless there is one; counts the use. */
static tarn__cached *install(tarn__remote *r, tarn__cached *mine)
{
    pthread_mutex_lock(&lock.mutex);
    tarn__cached *cached = r->cached ? r->cached : mine;
    if (cached == mine) {
        r->cached = mine;
        link_copy(r);
    }
    r->users++;
    pthread_mutex_unlock(&lock.mutex);
    if (cached != mine) tarn__cached_close(mine);
    return cached;
}

static tarn_status open_copy(tarn__remote *r, tarn__cached **out, tarn_error *err)
{
    tarn__object_id id;
    tarn_error why;
    TARN_TRY(tarn__remote_identify(r, &id, err));
    while (close_oldest(most_open - 1))
        continue;
    tarn_status status;
    do
        status = tarn__cached_open(r->cache, r->dataset, atomic_load(&r->requested),
                                   r->shown, &id, out, &why);
    while (status != TARN_OK && (why.sys_errno == EMFILE || why.sys_errno == ENFILE) &&
           close_oldest(0));
    if (status != TARN_OK && err) *err = why;
    return status;
}

tarn_status tarn__remote_use(tarn__remote *r, tarn__cached **out, tarn_error *err)
{
    tarn__cached *mine;
    *out = NULL;
    if (!r->cache || atomic_load(&r->unversioned)) return TARN_OK;
    pthread_once(&once, init_once);
    if ((*out = use_open(r))) return TARN_OK;
    tarn_status status = open_copy(r, &mine, err);
    if (status == TARN_ERR_UNSUPPORTED) {
        atomic_store(&r->unversioned, true);
        return TARN_OK;
    }
    TARN_TRY(status);
    *out = install(r, mine);
    return TARN_OK;
}

void tarn__remote_use_again(tarn__remote *r)
{
    pthread_mutex_lock(&lock.mutex);
    r->users++;
    pthread_mutex_unlock(&lock.mutex);
}

void tarn__remote_release(tarn__remote *r)
{
    atomic_store(&r->here, tarn__cached_complete(r->cached));
    pthread_mutex_lock(&lock.mutex);
    r->users--;
    pthread_mutex_unlock(&lock.mutex);
}

void tarn__remote_forget(tarn__remote *r)
{
    if (!r->cache) return;
    pthread_once(&once, init_once);
    pthread_mutex_lock(&lock.mutex);
    tarn__cached *cached = r->cached;
    if (cached) unlink_copy(r);
    r->cached = NULL;
    pthread_mutex_unlock(&lock.mutex);
    if (cached) tarn__cached_close(cached);
}

bool tarn__remote_is_here(const tarn__remote *r)
{
    return atomic_load_explicit(&r->here, memory_order_relaxed);
}

int tarn__remote_copy(tarn__remote *r)
{
    tarn__cached *cached;
    int fd = -1;
    if (tarn__remote_use(r, &cached, NULL) != TARN_OK || !cached) return -1;
    if (tarn__cached_complete(cached))
        fd = fcntl(tarn__cached_fd(cached), F_DUPFD_CLOEXEC, 0);
    tarn__remote_release(r);
    return fd;
}

void tarn__remote_doubt(tarn__remote *r, uint64_t offset, uint64_t size)
{
    tarn__cached *cached;
    tarn__stocked *stocked =
        tarn__stock_find(tarn__remote_current()->stock, r, offset, size);
    if (stocked) atomic_store(&stocked->doubted, true);
    if (!size || tarn__remote_use(r, &cached, NULL) != TARN_OK || !cached) return;
    uint64_t first = offset / TARN__CACHE_BLOCK;
    tarn__cached_drop(cached, first, (offset + size - 1) / TARN__CACHE_BLOCK - first + 1);
    tarn__remote_release(r);
}
