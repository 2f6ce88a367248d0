/* The watched maps are in a hash table (open addressing by the address of the map), which
 * a signal handler reads. So it is read without a lock.
 *
 * What the lock guards: all changes of the table by tarn__guard_add and
 * tarn__guard_remove. The handler writes only torn and the counter. page_size and before
 * are written once, by install_handler, before any map is in the table. A fault of
 * another thread while install_handler runs may find before still zero; it then gets the
 * default action.
 *
 * Lock order: the lock has depth INNERMOST. Callers may hold any other lock; none is
 * taken while it is held.
 *
 * Memory orders:
 * - The table is sequentially consistent. An entry is published by the store to begin,
 *   after size and torn. patch_map reads begin, size, and begin again: if both values of
 *   begin are equal, the size belongs to that begin. The entry that contains the fault
 *   cannot change meanwhile, because a map is removed from the table before it is
 *   unmapped, and the faulting thread is still using it.
 * - The handler sets torn, then increments the counter, and then replaces the pages.
 *   tarn__map_is_torn loads the counter with acquire, so a thread that sees the
 *   increment also sees torn. A thread that reads the zeros of another thread's handler
 *   sees both, because the kernel makes the new pages visible after the handler's
 *   stores; the C memory model does not cover this step.
 * - In tarn__guard_is_on, is_on is relaxed and published by the release store to asked,
 *   which is loaded with acquire. watching is relaxed there: it changes once, from false
 *   to true, and a thread that reads false too long only makes more length checks. */
#include "io/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/forklock.h"
#include "io/file.h"

/* More maps than the system allows in one process. Pages of the table that are never used
 * need no memory. */
enum { SLOTS = 1 << 17 };

typedef struct slot {
    atomic_uintptr_t begin; /* NONE, GONE, or the address of a map */
    atomic_size_t size;
    atomic_bool torn;
} slot;

enum { NONE = 0, GONE = 1 };

atomic_uint tarn__guard_torn_maps;

static slot slots[SLOTS];
static tarn__forklock lock; /* for adding and removing maps */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;
static size_t page_size;
static atomic_bool watching;

/* --- The fault ---------------------------------------------------------------------- */

/* Replaces the pages from the lost one to the end of its map by zeros, if the map is
 * watched. */
static bool patch_map(uintptr_t at)
{
    for (size_t i = 0; i < SLOTS; i++) {
        uintptr_t begin = atomic_load(&slots[i].begin);
        if (begin <= GONE || at < begin) continue;
        uintptr_t end = begin + atomic_load(&slots[i].size);
        /* If begin has changed, the slot was reused, and begin and size are from two
         * maps. */
        if (atomic_load(&slots[i].begin) != begin) continue;
        end = (end + page_size - 1) & ~(uintptr_t)(page_size - 1);
        if (at >= end) continue;
        uintptr_t page = at & ~(uintptr_t)(page_size - 1);
        atomic_store(&slots[i].torn, true);
        atomic_fetch_add(&tarn__guard_torn_maps, 1);
        /* Calls the system call directly: its wrapper may not be async-signal-safe. */
        return syscall(SYS_mmap, page, end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                       0) != -1;
    }
    return false;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    else
        sigaction(SIGBUS, &before,
                  NULL); /* the fault is raised again and ends the process */
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    bool ours = info->si_code == BUS_ADRERR && patch_map((uintptr_t)info->si_addr);
    if (!ours) pass_on(number, info, context);
    errno = kept;
}

static void install_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_bus,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK};
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    tarn__forklock_init(&lock, TARN__LOCK_INNERMOST);
    atomic_store(&watching, sigaction(SIGBUS, &action, &before) == 0);
}

bool tarn_guard_maps(void)
{
    pthread_once(&once, install_handler);
    return atomic_load(&watching);
}

bool tarn__guard_is_on(void)
{
    static atomic_llong asked;
    static atomic_bool is_on;
    struct sigaction now;
    long long tick = tarn__coarse_time();
    if (!atomic_load_explicit(&watching, memory_order_relaxed)) return false;
    if (atomic_load_explicit(&asked, memory_order_acquire) == tick)
        return atomic_load_explicit(&is_on, memory_order_relaxed);
    bool on = sigaction(SIGBUS, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
              now.sa_sigaction == on_bus;
    atomic_store_explicit(&is_on, on, memory_order_relaxed);
    atomic_store_explicit(&asked, tick, memory_order_release);
    return on;
}

/* --- The table ---------------------------------------------------------------------- */

static size_t place_of(uintptr_t begin)
{
    return (size_t)((begin >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS;
}

/* The slot of a map, or NULL. */
static slot *find_slot(uintptr_t begin)
{
    size_t at = place_of(begin);
    for (size_t i = 0; i < SLOTS; i++, at = (at + 1) % SLOTS) {
        uintptr_t here = atomic_load(&slots[at].begin);
        if (here == begin) return &slots[at];
        if (here == NONE) return NULL;
    }
    return NULL;
}

void tarn__guard_add(const void *map, size_t size)
{
    if (!atomic_load(&watching)) return;
    pthread_mutex_lock(&lock.mutex);
    size_t at = place_of((uintptr_t)map);
    for (size_t i = 0; i < SLOTS; i++, at = (at + 1) % SLOTS) {
        if (atomic_load(&slots[at].begin) > GONE) continue;
        atomic_store(&slots[at].size, size);
        atomic_store(&slots[at].torn, false);
        atomic_store(&slots[at].begin, (uintptr_t)map);
        break;
    }
    pthread_mutex_unlock(&lock.mutex);
}

void tarn__guard_remove(const void *map)
{
    if (!atomic_load(&watching)) return;
    pthread_mutex_lock(&lock.mutex);
    slot *s = find_slot((uintptr_t)map);
    if (s) {
        /* A search stops at NONE, so NONE is allowed only if no search has to continue
         * past this slot. */
        size_t next = ((size_t)(s - slots) + 1) % SLOTS;
        bool last = atomic_load(&slots[next].begin) == NONE;
        atomic_store(&s->begin, last ? NONE : GONE);
    }
    pthread_mutex_unlock(&lock.mutex);
}

bool tarn__guard_find_torn(const void *map)
{
    slot *s = map ? find_slot((uintptr_t)map) : NULL;
    return s && atomic_load(&s->torn);
}
