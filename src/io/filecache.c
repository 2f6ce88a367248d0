/* A slot is one file. Its pin count is the number of threads that use its descriptor:
 * CLOSED (-1) while the file is closed, 0 while it is open and unused. Using an open file
 * takes one compare-and-swap; only opening one takes the lock. If the budget is enough
 * for two descriptors for every file (roomy), nothing is evicted and pins are not
 * counted, because many threads that read one large shard would contend for its count.
 * Maps are kept until the cache is freed, because views borrow them. Beyond
 * TARN_MAX_SHARD_MAPS maps, files are read instead.
 *
 * What the lock guards: open and close of descriptors, creation of maps, the members
 * open, maps and hand, and all writes to fd, direct, direct_align, map and unmappable.
 * max_open, roomy, path and size are constant.
 *
 * Lock order: the lock has depth INNER. The lock of guard.c (INNERMOST), which tarn__map
 * takes, is the only one that is taken while it is held.
 *
 * Memory orders:
 * - pins is sequentially consistent. The store that opens a slot publishes fd: a thread
 *   that reads a count other than CLOSED sees the descriptor. A decrement happens before
 *   the compare-and-swap from 0 to CLOSED that reads it, so all uses of fd come before
 *   its close. A pinned slot is never closed, so a thread that has pinned it may read fd
 *   without the lock.
 * - map and direct are stored with release and loaded with acquire. For map, a thread
 *   that sees the address also sees the map in the table of guard.c, where tarn__map has
 *   entered it before. For direct, it sees direct_align, which is written before.
 *   check_length loads map relaxed, because it only looks the address up in that table; a
 *   thread that has already used the map reads the same address again.
 * - used is relaxed: it is only a hint for the choice of the file to evict.
 * - whole is relaxed: it is only a time, and publishes no other data. A thread that reads
 *   an old value makes one unnecessary check. */
#include "io/filecache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/forklock.h"
#include "io/file.h"
#include "io/guard.h"
#include "io/remote.h"

enum {
    CLOSED = -1,
    REFUSED = -2, /* cannot be opened for direct reads */
    MIN_DESCRIPTORS = 4,
    HOLDERS = 8 /* threads that can hold files at once within the budget */
};

typedef struct slot {
    char *path;
    tarn__remote *remote;   /* or NULL */
    bool arrived;           /* a remote file that was opened as a local one */
    _Atomic(uint64_t) size; /* UINT64_MAX: unknown; set once, under the lock */
    atomic_int pins;
    int fd;
    atomic_int direct;     /* opened with O_DIRECT when first held; CLOSED or REFUSED */
    uint32_t direct_align; /* written before direct */
    atomic_bool used;      /* since the hand last passed */
    _Atomic(unsigned char *) map;
    atomic_bool unmappable;
    atomic_llong whole; /* coarse time of the last successful length check */
} slot;

struct tarn__filecache {
    slot *slots;
    size_t count;
    tarn__file_id *ids; /* of the files; NULL if unknown */
    tarn__filecache_io io;
    bool roomy;            /* all files can stay open: no eviction, no pinning */
    tarn__forklock lock;   /* see above */
    size_t open, max_open; /* descriptors: up to two for each file */
    size_t maps;
    size_t hand;
    atomic_size_t away; /* remote files that have not arrived */
};

/* Descriptors that the caches of the process may have open, together. Relaxed: it is only
 * a number. */
static atomic_size_t reserved;

static size_t descriptor_budget(size_t count, size_t taken)
{
    struct rlimit limit;
    size_t budget = TARN_MAX_SHARD_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        rlim_t left = limit.rlim_cur / 2 > taken ? limit.rlim_cur / 2 - taken : 0;
        if (left / 2 < budget) budget = (size_t)(left / 2);
    }
    if (count < budget / 2) budget = 2 * count;
    return budget < MIN_DESCRIPTORS ? MIN_DESCRIPTORS : budget;
}

/* All caches together take half of the descriptors that the process may open, and each
 * takes at most half of what the others have left. */
static size_t reserve_descriptors(size_t count)
{
    size_t budget, taken = atomic_load_explicit(&reserved, memory_order_relaxed);
    do
        budget = descriptor_budget(count, taken);
    while (!atomic_compare_exchange_weak_explicit(
        &reserved, &taken, taken + budget, memory_order_relaxed, memory_order_relaxed));
    return budget;
}

tarn_status tarn__filecache_new(const char *const *paths, const uint64_t *sizes,
                                size_t count, tarn__filecache_io io,
                                tarn__filecache **out, tarn_error *err)
{
    tarn__filecache *c = calloc(1, sizeof *c);
    if (!c) return tarn__fail_memory(err);
    tarn__forklock_init(&c->lock, TARN__LOCK_INNER);
    c->slots = calloc(count ? count : 1, sizeof *c->slots);
    c->io = io;
    c->max_open = reserve_descriptors(count);
    c->roomy = count <= c->max_open / 2;
    bool complete = c->slots != NULL;
    for (size_t i = 0; complete && i < count; i++) {
        c->slots[i].path = strdup(paths[i]);
        c->slots[i].size = sizes[i];
        c->slots[i].fd = -1;
        atomic_init(&c->slots[i].pins, CLOSED);
        atomic_init(&c->slots[i].direct, CLOSED);
        c->count++;
        complete = c->slots[i].path != NULL;
    }
    if (!complete) {
        tarn__filecache_free(c);
        return tarn__fail_memory(err);
    }
    *out = c;
    return TARN_OK;
}

tarn_status tarn__filecache_expect(tarn__filecache *c, const tarn__file_id *ids,
                                   tarn_error *err)
{
    c->ids = malloc((c->count + 1) * sizeof *ids);
    if (!c->ids) return tarn__fail_memory(err);
    memcpy(c->ids, ids, c->count * sizeof *ids);
    return TARN_OK;
}

void tarn__filecache_set_remotes(tarn__filecache *c, tarn__remote *const *remotes)
{
    for (size_t i = 0; i < c->count; i++) {
        c->slots[i].remote = remotes[i];
        atomic_fetch_add(&c->away, remotes[i] != NULL);
    }
}

void tarn__filecache_free(tarn__filecache *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->count; i++) {
        slot *s = &c->slots[i];
        TARN__KNOWN(c->slots);
        if (s->fd >= 0) close(s->fd);
        if (atomic_load(&s->direct) >= 0) close(atomic_load(&s->direct));
        tarn__unmap(atomic_load(&s->map), s->size);
        tarn__remote_close(s->remote);
        free(s->path);
    }
    free(c->slots);
    free(c->ids);
    atomic_fetch_sub_explicit(&reserved, c->max_open, memory_order_relaxed);
    tarn__forklock_destroy(&c->lock);
    free(c);
}

/* Closes one unused file. Files used since the hand last passed are spared once. */
static bool evict_one(tarn__filecache *c)
{
    if (c->roomy) return false;
    for (size_t step = 0; step < 2 * c->count; step++) {
        slot *s = &c->slots[c->hand];
        c->hand = (c->hand + 1) % c->count;
        int free_of_pins = 0;
        if (atomic_load(&s->pins) != 0) continue;
        if (atomic_exchange(&s->used, false)) continue;
        if (!atomic_compare_exchange_strong(&s->pins, &free_of_pins, CLOSED)) continue;
        close(s->fd);
        s->fd = -1;
        c->open--;
        int direct = atomic_exchange(&s->direct, CLOSED);
        if (direct >= 0) {
            close(direct);
            c->open--;
        }
        return true;
    }
    return false;
}

static tarn_status check_size(const slot *s, uint64_t size, tarn_error *err)
{
    if (size == s->size) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, s->path, TARN_NO_OFFSET,
                         "the shard's size changed (found %llu bytes, expected %llu) "
                         "since it was opened or "
                         "indexed; run tarn index again",
                         (unsigned long long)size, (unsigned long long)s->size);
}

/* A file of the same size may have other contents, and readers would mix the two. */
static tarn_status check_same(const tarn__filecache *c, const slot *s, int fd,
                              tarn_error *err)
{
    bool same;
    if (!c->ids || s->remote) return TARN_OK;
    TARN_TRY(tarn__file_compare(fd, s->path, &c->ids[s - c->slots], &same, err));
    if (same) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, s->path, TARN_NO_OFFSET,
                         "the shard was replaced or changed after the dataset was "
                         "opened; open the dataset again");
}

/* Opens the file of a slot. Of a remote one copy is its complete copy, already open. */
static tarn_status open_file(tarn__file *file, const slot *s, int copy, tarn_error *err)
{
    if (!s->remote) return tarn__file_open(file, s->path, err);
    struct stat st;
    *file = (tarn__file){.fd = copy};
    if (fstat(copy, &st) != 0)
        return tarn__fail_errno(err, s->path, errno, "cannot stat the copy in the cache");
    file->size = (uint64_t)st.st_size;
    return TARN_OK;
}

/* The file is a local one from now on. */
static void arrive(tarn__filecache *c, slot *s, uint64_t size)
{
    if (s->arrived) return;
    s->arrived = true;
    if (atomic_load(&s->size) == UINT64_MAX) atomic_store(&s->size, size);
    atomic_fetch_sub(&c->away, 1);
}

/* Takes over copy. */
static tarn_status open_slot(tarn__filecache *c, slot *s, int copy, tarn_error *err)
{
    tarn__file file;
    while (c->open >= c->max_open && evict_one(c))
        continue;
    tarn_error why;
    tarn_status status = open_file(&file, s, copy, &why);
    if (status != TARN_OK && (why.sys_errno == EMFILE || why.sys_errno == ENFILE) &&
        evict_one(c))
        status = open_file(&file, s, copy, &why);
    if (status == TARN_ERR_NO_FILE)
        return tarn__fail_at(err, TARN_ERR_STALE, s->path, TARN_NO_OFFSET,
                             "the shard was removed after the fold was opened");
    if (status != TARN_OK) {
        if (err) *err = why;
        return status;
    }
    if (s->remote) arrive(c, s, file.size);
    status = check_size(s, file.size, err);
    if (status == TARN_OK) status = check_same(c, s, file.fd, err);
    if (status == TARN_OK) {
        s->fd = file.fd;
        file.fd = -1;
        c->open++;
        atomic_store(&s->pins, 1);
    }
    tarn__file_close(&file);
    return status;
}

static bool pin_open(const tarn__filecache *c, slot *s)
{
    int pins = atomic_load(&s->pins);
    if (c->roomy) return pins != CLOSED;
    while (pins != CLOSED)
        if (atomic_compare_exchange_weak(&s->pins, &pins, pins + 1)) {
            if (!atomic_load_explicit(&s->used, memory_order_relaxed))
                atomic_store_explicit(&s->used, true, memory_order_relaxed);
            return true;
        }
    return false;
}

/* TARN_END: the file is away. */
static tarn_status pin(tarn__filecache *c, slot *s, tarn_error *err)
{
    if (pin_open(c, s)) return TARN_OK;
    int copy = -1;
    if (s->remote && tarn__remote_is_here(s->remote)) copy = tarn__remote_copy(s->remote);
    if (s->remote && copy < 0) return TARN_END;
    pthread_mutex_lock(&c->lock.mutex);
    bool open = pin_open(c, s);
    tarn_status status = open ? TARN_OK : open_slot(c, s, copy, err);
    pthread_mutex_unlock(&c->lock.mutex);
    if (open && copy >= 0) close(copy);
    return status;
}

static void unpin(const tarn__filecache *c, slot *s)
{
    if (!c->roomy) atomic_fetch_sub(&s->pins, 1);
}

/* The map of a pinned slot, or NULL if the file has to be read. */
static const unsigned char *map_of(tarn__filecache *c, slot *s)
{
    unsigned char *map = atomic_load_explicit(&s->map, memory_order_acquire);
    if (map || c->io == TARN__IO_READ || atomic_load(&s->unmappable)) return map;
    pthread_mutex_lock(&c->lock.mutex);
    map = atomic_load(&s->map);
    if (!map && c->maps < TARN_MAX_SHARD_MAPS &&
        (c->io == TARN__IO_MAP || tarn__is_local(s->fd)))
        map = tarn__map(s->fd, s->size);
    if (map && !atomic_load(&s->map)) {
        c->maps++;
        atomic_store_explicit(&s->map, map, memory_order_release);
    }
    if (!map) atomic_store(&s->unmappable, true);
    pthread_mutex_unlock(&c->lock.mutex);
    return map;
}

static tarn_status check_range(const slot *s, uint64_t offset, size_t len,
                               tarn_error *err)
{
    if (tarn__range_in(offset, len, s->size)) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_TRUNCATED, s->path, offset,
                         "cannot read %zu bytes here: the file has only %llu bytes", len,
                         (unsigned long long)s->size);
}

/* Called for each view that is returned, so it uses the cheapest system call. Nothing
 * here uses the file position of the descriptor. */
static tarn_status check_length(const slot *s, tarn_error *err)
{
    off_t end = lseek(s->fd, 0, SEEK_END);
    if (end < 0) return tarn__fail_errno(err, s->path, errno, "cannot get the file size");
    if (tarn__map_is_torn(atomic_load_explicit(&s->map, memory_order_relaxed)))
        return tarn__fail_at(err, TARN_ERR_STALE, s->path, TARN_NO_OFFSET,
                             "the file was truncated while it was in use");
    return check_size(s, (uint64_t)end, err);
}

static tarn_status read_away(const slot *s, uint64_t offset, size_t len, void *buf,
                             tarn_error *err)
{
    tarn__remote_piece piece = {s->remote, offset, len, buf};
    return tarn__remote_read(&piece, 1, err);
}

static tarn_status copy_view(slot *s, uint64_t offset, size_t len, tarn_view *out,
                             tarn_error *err)
{
    unsigned char *copy = malloc(len ? len : 1);
    if (!copy) return tarn__fail_memory(err);
    tarn_status status = tarn__read_exact(s->fd, s->path, copy, len, offset, err);
    if (status == TARN_OK) status = check_length(s, err);
    if (status == TARN_OK)
        *out = (tarn_view){copy, len, copy};
    else
        free(copy);
    return status;
}

static tarn_status view_away(const slot *s, uint64_t offset, size_t len, tarn_view *out,
                             tarn_error *err)
{
    unsigned char *copy = malloc(len ? len : 1);
    if (!copy) return tarn__fail_memory(err);
    tarn_status status = read_away(s, offset, len, copy, err);
    if (status == TARN_OK)
        *out = (tarn_view){copy, len, copy};
    else
        free(copy);
    return status;
}

tarn_status tarn__filecache_view(tarn__filecache *c, size_t number, uint64_t offset,
                                 size_t len, tarn_view *out, tarn_error *err)
{
    slot *s = &c->slots[number];
    TARN_TRY(check_range(s, offset, len, err));
    tarn_status status = pin(c, s, err);
    if (status == TARN_END) return view_away(s, offset, len, out, err);
    TARN_TRY(status);
    const unsigned char *map = map_of(c, s);
    if (map) {
        status = check_length(s, err);
        if (status == TARN_OK) *out = (tarn_view){map + offset, len, NULL};
    } else {
        status = copy_view(s, offset, len, out, err);
    }
    unpin(c, s);
    return status;
}

tarn_status tarn__filecache_map(tarn__filecache *c, size_t number,
                                const unsigned char **out, tarn_error *err)
{
    slot *s = &c->slots[number];
    *out = NULL;
    tarn_status status = pin(c, s, err);
    if (status != TARN_OK) return status == TARN_END ? TARN_OK : status;
    *out = map_of(c, s);
    status = *out ? check_length(s, err) : TARN_OK;
    unpin(c, s);
    return status;
}

tarn_status tarn__filecache_settle(tarn__filecache *c, size_t number, tarn_error *err)
{
    slot *s = &c->slots[number];
    if (!tarn__filecache_peek(c, number)) return TARN_OK;
    TARN_TRY(pin(c, s, err));
    long long now = tarn__coarse_time();
    tarn_status status = check_length(s, err);
    if (status == TARN_OK) atomic_store_explicit(&s->whole, now, memory_order_relaxed);
    unpin(c, s);
    return status;
}

tarn_status tarn__filecache_map_lately(tarn__filecache *c, size_t number,
                                       const unsigned char **out, tarn_error *err)
{
    slot *s = &c->slots[number];
    long long now = tarn__coarse_time();
    *out = tarn__filecache_peek(c, number);
    if (*out && tarn__guard_is_on() && !tarn__map_is_torn(*out) &&
        atomic_load_explicit(&s->whole, memory_order_relaxed) == now)
        return TARN_OK;
    TARN_TRY(tarn__filecache_map(c, number, out, err));
    if (*out) atomic_store_explicit(&s->whole, now, memory_order_relaxed);
    return TARN_OK;
}

const unsigned char *tarn__filecache_peek(const tarn__filecache *c, size_t number)
{
    return atomic_load_explicit(&c->slots[number].map, memory_order_acquire);
}

/* The descriptor of a pinned slot for direct reads, or a negative number. If opening
 * fails, for example at the process's limit, it is not tried again until the slot is
 * closed and opened again. */
static int direct_of(tarn__filecache *c, slot *s)
{
    int direct = atomic_load_explicit(&s->direct, memory_order_acquire);
    if (direct != CLOSED) return direct;
    pthread_mutex_lock(&c->lock.mutex);
    direct = atomic_load(&s->direct);
    if (direct == CLOSED) {
        while (c->open >= c->max_open && evict_one(c))
            continue;
        direct = tarn__open_direct(s->fd, &s->direct_align);
        if (direct < 0)
            direct = REFUSED;
        else
            c->open++;
        atomic_store_explicit(&s->direct, direct, memory_order_release);
    }
    pthread_mutex_unlock(&c->lock.mutex);
    return direct;
}

tarn_status tarn__filecache_hold(tarn__filecache *c, size_t number,
                                 tarn__ranges_file *out, tarn_error *err)
{
    slot *s = &c->slots[number];
    tarn_status status = pin(c, s, err);
    *out = (tarn__ranges_file){s->path, s->remote, -1, -1, 0};
    if (status == TARN_END) return TARN_OK;
    TARN_TRY(status);
    status = check_length(s, err);
    if (status != TARN_OK) {
        unpin(c, s);
        return status;
    }
    *out = (tarn__ranges_file){.path = s->path, .fd = s->fd, .direct = direct_of(c, s)};
    out->align = s->direct_align;
    return TARN_OK;
}

void tarn__filecache_let_go(tarn__filecache *c, size_t number,
                            const tarn__ranges_file *held)
{
    if (!held->remote) unpin(c, &c->slots[number]);
}

tarn__remote *tarn__filecache_away(tarn__filecache *c, size_t number)
{
    slot *s = &c->slots[number];
    return s->remote && !tarn__remote_is_here(s->remote) ? s->remote : NULL;
}

bool tarn__filecache_doubt(tarn__filecache *c, size_t number, uint64_t offset,
                           uint64_t len)
{
    slot *s = &c->slots[number];
    if (!s->remote) return false;
    tarn__remote_doubt(s->remote, offset, len);
    if (!pin_open(c, s)) return true;
    unpin(c, s);
    void *scratch = malloc(len ? (size_t)len : 1);
    bool read = scratch && read_away(s, offset, (size_t)len, scratch, NULL) == TARN_OK;
    free(scratch);
    return read;
}

bool tarn__filecache_any_away(const tarn__filecache *c)
{
    return atomic_load_explicit(&c->away, memory_order_relaxed) > 0;
}

size_t tarn__filecache_holds(const tarn__filecache *c)
{
    size_t share = c->max_open / 2 / HOLDERS;
    return c->roomy ? c->count : share ? share : 1;
}

bool tarn__filecache_is_resident(tarn__filecache *c, size_t number, uint64_t offset)
{
    slot *s = &c->slots[number];
    if (offset >= s->size || pin(c, s, NULL) != TARN_OK) return true;
    const unsigned char *map = map_of(c, s);
    bool resident = !map || tarn__page_is_resident(map, offset);
    unpin(c, s);
    return resident;
}

uint64_t tarn__filecache_total(const tarn__filecache *c)
{
    uint64_t total = 0;
    for (size_t i = 0; i < c->count; i++)
        if (!tarn__add(total, c->slots[i].size, &total)) return UINT64_MAX;
    return total;
}

void tarn__filecache_will_need(tarn__filecache *c, size_t number, uint64_t offset,
                               uint64_t len)
{
    slot *s = &c->slots[number];
    if (pin(c, s, NULL) != TARN_OK) return;
    tarn__ranges_announce(s->fd, offset, len);
    unpin(c, s);
}

tarn_status tarn__filecache_read(tarn__filecache *c, size_t number, uint64_t offset,
                                 void *buf, size_t len, tarn_error *err)
{
    slot *s = &c->slots[number];
    TARN_TRY(check_range(s, offset, len, err));
    tarn_status status = pin(c, s, err);
    if (status == TARN_END) return read_away(s, offset, len, buf, err);
    TARN_TRY(status);
    status = tarn__read_exact(s->fd, s->path, buf, len, offset, err);
    if (status == TARN_OK) status = check_length(s, err);
    unpin(c, s);
    return status;
}

size_t tarn__filecache_count(const tarn__filecache *c)
{
    return c->count;
}

const char *tarn__filecache_path(const tarn__filecache *c, size_t number)
{
    return c->slots[number].path;
}

bool tarn__filecache_reaches(const tarn__filecache *c, size_t number, uint64_t size)
{
    return number < c->count && size <= c->slots[number].size;
}

uint64_t tarn__filecache_size(const tarn__filecache *c, size_t number)
{
    return c->slots[number].size;
}
