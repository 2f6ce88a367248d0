/* How much is in the cache, and what is removed to make room.
 *
 * The usage file has one slot for each process that uses the cache: bytes that it has
 * stored (negative if it removed more), and bytes in flight. A slot is written only by
 * the process that holds its lock, so nobody waits for anybody. A slot keeps its value
 * when its process ends, because the bytes are still there; bytes in flight are void when
 * the next process takes the slot. The first process that uses a cache counts the blocks
 * on the disk and starts with that sum. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "io/cache_inside.h"
#include "io/file.h"

enum { SLOTS = 256 };

typedef struct slot {
    int64_t written, flight;
} slot;

static long long now_ns(void)
{
    return tarn__coarse_time();
}

/* Failures are of no consequence: the sum is only as right as the file system. */
static void write_slot(const tarn__cachedir *dir)
{
    slot mine = {dir->written, dir->flight};
    (void)!tarn__write_at(dir->usage_fd, "", &mine, sizeof mine,
                          (uint64_t)dir->slot * sizeof mine, NULL);
}

/* The first process: nobody else has a slot. */
static bool count_all(tarn__cachedir *dir)
{
    static const slot none[SLOTS];
    if (!tarn__cache_lock(dir->usage_fd, F_WRLCK, 0, SLOTS)) return false;
    dir->written = (int64_t)tarn__cache_on_disk(dir->fd);
    (void)!tarn__write_at(dir->usage_fd, "", none, sizeof none, 0, NULL);
    dir->slot = 0;
    write_slot(dir);
    (void)tarn__cache_lock(dir->usage_fd, F_UNLCK, 1, SLOTS - 1);
    return true;
}

static void take_slot(tarn__cachedir *dir)
{
    slot old;
    size_t got = 0;
    for (int i = 0; i < SLOTS && dir->slot < 0; i++)
        if (tarn__cache_lock(dir->usage_fd, F_WRLCK, (uint64_t)i, 1)) dir->slot = i;
    if (dir->slot < 0) return;
    if (tarn__read_at(dir->usage_fd, "", &old, sizeof old,
                      (uint64_t)dir->slot * sizeof old, &got, NULL) == TARN_OK &&
        got == sizeof old)
        dir->written = old.written;
    dir->flight = 0;
    write_slot(dir);
}

/* Whether another process counts what is there. */
static bool is_counting(const tarn__cachedir *dir)
{
    uint64_t from = 0, count = SLOTS;
    return tarn__cache_locked(dir->usage_fd, &from, &count) && count == SLOTS;
}

bool tarn__cache_usage_open(tarn__cachedir *dir)
{
    if (dir->usage_fd < 0)
        dir->usage_fd =
            openat(dir->fd, TARN__CACHE_USAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (dir->usage_fd < 0 || dir->slot >= 0) return true;
    dir->written = dir->flight = 0;
    if (!count_all(dir)) take_slot(dir);
    return dir->slot >= 0 || !is_counting(dir);
}

/* Damaged slots cannot make the sum overflow. */
static int64_t bounded(int64_t value)
{
    const int64_t most = INT64_MAX / 4 / SLOTS;
    return value > most ? most : value < -most ? -most : value;
}

static uint64_t used_bytes(const tarn__cachedir *dir)
{
    slot all[SLOTS];
    size_t got = 0;
    int64_t sum = 0;
    if (tarn__read_at(dir->usage_fd, "", all, sizeof all, 0, &got, NULL) != TARN_OK)
        return 0;
    for (size_t i = 0; i < got / sizeof *all; i++)
        sum += bounded(all[i].written) + bounded(all[i].flight);
    return sum > 0 ? (uint64_t)sum : 0;
}

static uint64_t beyond_limit(const tarn__cachedir *dir)
{
    uint64_t used = dir->limits.max_bytes ? used_bytes(dir) : 0;
    return used > dir->limits.max_bytes ? used - dir->limits.max_bytes : 0;
}

static uint64_t beyond_free_space(const tarn__cachedir *dir)
{
    struct statvfs fs;
    if (!dir->limits.min_free || fstatvfs(dir->fd, &fs) != 0) return 0;
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t taken = UINT64_MAX;
    (void)tarn__add(dir->limits.min_free, (uint64_t)dir->flight, &taken);
    return taken > free_bytes ? taken - free_bytes : 0;
}

void tarn__cachedir_keep_free(tarn__cachedir *dir, uint64_t most)
{
    struct statvfs fs;
    dir->limits.min_free = most;
    if (fstatvfs(dir->fd, &fs) != 0) return;
    uint64_t part = (uint64_t)fs.f_blocks * fs.f_frsize / 16;
    if (part < most) dir->limits.min_free = part;
}

/* What fills less than a sixteenth of the space that stays free hardly counts: objects
 * without any bytes take a little, too. */
char *tarn__cachedir_problem(tarn__cachedir *dir)
{
    const unsigned mb = 1000000;
    char *text = NULL;
    struct statvfs fs;
    if ((!dir->read_only && !beyond_free_space(dir)) || fstatvfs(dir->fd, &fs) != 0 ||
        tarn__cache_on_disk(dir->fd) > dir->limits.min_free / 16)
        return NULL;
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    int n = dir->read_only
                ? asprintf(&text,
                           "%s: nothing is cached, because the folder cannot be written "
                           "to; use another cache folder",
                           dir->path)
                : asprintf(&text,
                           "%s: nothing is cached, because its file system has %llu MB "
                           "free, and %llu MB stay free (a sixteenth of it, at most 1 "
                           "GiB); make room, or use a cache folder on another disk",
                           dir->path, (unsigned long long)(free_bytes / mb),
                           (unsigned long long)(dir->limits.min_free / mb));
    return n < 0 ? NULL : text;
}

/* The wish is written first, and the sum read then: of two processes that do this at the
 * same time, at least one sees both wishes, so the limit holds. */
uint64_t tarn__cache_reserve(tarn__cachedir *dir, uint64_t blocks)
{
    if (dir->full_until && now_ns() < dir->full_until) return 0;
    dir->full_until = 0;
    if (dir->slot < 0) (void)tarn__cache_usage_open(dir);
    if (dir->slot < 0) {
        dir->full_until = now_ns() + 50000000; /* the next attempt */
        return 0;
    }
    dir->flight += (int64_t)(blocks * TARN__CACHE_BLOCK);
    write_slot(dir);
    uint64_t over = beyond_limit(dir), over_free = beyond_free_space(dir);
    over = tarn__cache_blocks(over > over_free ? over : over_free);
    if (!over) return blocks;
    dir->refused = true;
    over = over < blocks ? over : blocks;
    tarn__cache_settle(dir, over, false);
    return blocks - over;
}

void tarn__cache_settle(tarn__cachedir *dir, uint64_t blocks, bool stored)
{
    int64_t bytes = (int64_t)(blocks * TARN__CACHE_BLOCK);
    if (dir->slot < 0) return;
    dir->flight = dir->flight > bytes ? dir->flight - bytes : 0;
    if (stored) dir->written += bytes;
    write_slot(dir);
}

void tarn__cache_account(tarn__cachedir *dir, int64_t bytes)
{
    dir->written += bytes;
    if (dir->slot >= 0) write_slot(dir);
}

/* Enough that eviction is rare, and little enough that it is quick. */
static uint64_t wanted(const tarn__cachedir *dir)
{
    const uint64_t some = UINT64_C(256) << 20;
    uint64_t part = dir->limits.max_bytes / 16;
    return dir->limits.max_bytes && part < some ? part : some;
}

void tarn__cache_make_room(tarn__cachedir *dir)
{
    const long long pause = 5000000000, most = 300000000000;
    pthread_mutex_lock(&dir->lock.mutex);
    long long now = now_ns();
    bool go = dir->refused && now >= dir->evict_from && !dir->read_only;
    dir->refused = false;
    if (go) { /* also stops other threads */
        dir->evict_pause = dir->evict_pause ? 2 * dir->evict_pause : pause;
        if (dir->evict_pause > most) dir->evict_pause = most;
        dir->evict_from = now + dir->evict_pause;
    }
    pthread_mutex_unlock(&dir->lock.mutex);
    if (!go) return;
    uint64_t freed = tarn__cache_evict(dir->fd, wanted(dir));
    pthread_mutex_lock(&dir->lock.mutex);
    if (freed) {
        dir->evict_from = dir->evict_pause = 0;
        dir->full_until = 0;
        tarn__cache_account(dir, -(int64_t)freed);
    }
    pthread_mutex_unlock(&dir->lock.mutex);
}
