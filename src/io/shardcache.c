/* Objects in the cache: which blocks are there, who fetches the others, and what is
 * stored.
 *
 * Claims. A claim of a block is a write lock on one byte of the map file, held by this
 * process's open file description. The kernel ends it when the process ends in whatever
 * way. Between threads, which share the description, the bits in mine say the same.
 *
 * No deadlock: claiming never waits for a claim, and neither do put, give_up and drop. A
 * thread waits for claims only in tarn__cached_wait, and its caller then holds none. So
 * no thread that holds a claim waits for one, and there is no circle. A claim whose
 * holder makes no progress (it was stopped) makes others wait only as long as their
 * patience.
 *
 * Order of writing: the bytes of a block, then its entry in the map. A process that reads
 * the entry reads the bytes, because both are in the page cache. A power failure may keep
 * the entry and lose the bytes: nothing is synced. Therefore an entry is believed only if
 * its tag is that of the running machine; else the block must have the entry's checksum.
 *
 * Lock of memory: dir->lock guards all members of an object but size, blocks, path and
 * fd, which are constant, and complete, lost and there, which are atomic and written with
 * the lock. It is innermost, and held during short system calls. It is not held while
 * blocks are written; their claim keeps others away. complete and there are stored with
 * release and loaded with acquire: a thread that sees a bit sees the bytes that another
 * thread of the process wrote.
 *
 * After fork the child has no claims: see cache_dir.c. */
#include "io/shardcache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/crc.h"
#include "base/error.h"
#include "io/cache_inside.h"
#include "io/file.h"

enum { WORD = TARN__CACHE_WORD, CHUNK = 512, CHECKED = 64 };

/* --- Bits -------------------------------------------------------------------------- */

static bool is_there(tarn__cached *c, uint64_t block)
{
    return atomic_load_explicit(&c->there[block / WORD], memory_order_acquire) >>
               (block % WORD) &
           1;
}

static void set_there(tarn__cached *c, uint64_t block, bool on)
{
    uint64_t bit = UINT64_C(1) << block % WORD;
    if (on)
        (void)atomic_fetch_or_explicit(&c->there[block / WORD], bit,
                                       memory_order_release);
    else
        (void)atomic_fetch_and_explicit(&c->there[block / WORD], ~bit,
                                        memory_order_release);
}

static bool is_mine(const tarn__cached *c, uint64_t block)
{
    return c->mine[block / WORD] >> (block % WORD) & 1;
}

static void set_mine(tarn__cached *c, uint64_t first, uint64_t count, bool on)
{
    for (uint64_t b = first; b < first + count; b++) {
        uint64_t bit = UINT64_C(1) << b % WORD;
        c->mine[b / WORD] = on ? c->mine[b / WORD] | bit : c->mine[b / WORD] & ~bit;
    }
    c->claimed += on ? count : (uint64_t)0 - count;
}

/* The first block from first whose bit is not on, or end. */
static uint64_t there_until(tarn__cached *c, uint64_t first, uint64_t end)
{
    uint64_t b = first;
    while (b < end) {
        uint64_t word =
            atomic_load_explicit(&c->there[b / WORD], memory_order_acquire) >> b % WORD;
        uint64_t left = WORD - b % WORD, ones = ~word ? __builtin_ctzll(~word) : WORD;
        if (ones < left) return b + ones < end ? b + ones : end;
        b += left;
    }
    return end;
}

static bool is_complete(tarn__cached *c)
{
    return atomic_load_explicit(&c->complete, memory_order_acquire);
}

static bool is_lost(tarn__cached *c)
{
    return atomic_load_explicit(&c->lost, memory_order_acquire);
}

/* --- What is there ------------------------------------------------------------------ */

int tarn__cached_fd(const tarn__cached *c)
{
    return c->fd;
}

const char *tarn__cached_path(const tarn__cached *c)
{
    return c->path;
}

/* If another program changes the length of the file, bytes that were there are not, and a
 * later write would turn them into zeros. */
static bool has_size(tarn__cached *c)
{
    struct stat st;
    if (is_lost(c) || c->fd < 0) return false;
    if (fstat(c->fd, &st) == 0 && (uint64_t)st.st_size == c->size) return true;
    atomic_store_explicit(&c->lost, true, memory_order_release);
    atomic_store_explicit(&c->complete, false, memory_order_release);
    return false;
}

/* Compares blocks with their checksums, and gives those that have them this tag, so that
 * nobody has to do it again. */
static void check_blocks(tarn__cached *c, tarn__cache_entry *entries, uint64_t first,
                         size_t count)
{
    uint64_t at = first * TARN__CACHE_BLOCK, end = (first + count) * TARN__CACHE_BLOCK;
    size_t got, len = (size_t)((end < c->size ? end : c->size) - at);
    unsigned char *data = malloc(len);
    if (data && tarn__read_at(c->fd, c->path, data, len, at, &got, NULL) == TARN_OK &&
        got == len) {
        for (size_t i = 0; i < count;) {
            size_t good = tarn__cache_right(entries + i, first + i, count - i, c->size,
                                            data + i * TARN__CACHE_BLOCK);
            for (size_t k = i; k < i + good; k++) {
                set_there(c, first + k, true);
                entries[k].tag = c->tag;
                c->news = true;
            }
            if (good && c->writable)
                (void)!tarn__cache_entries_write(c->map_fd, c->map_path, entries + i,
                                                 first + i, good, NULL);
            i += good + 1;
        }
    }
    free(data);
}

/* Reads entries of the map. With check, also blocks of entries with other tags. */
static void refresh(tarn__cached *c, uint64_t first, uint64_t end, bool check)
{
    tarn__cache_entry entries[CHUNK];
    if (!tarn__cached_map(c) || !has_size(c)) return;
    for (uint64_t at = first; at < end; at += CHUNK) {
        size_t n = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
        if (tarn__cache_entries_read(c->map_fd, c->map_path, entries, at, n, NULL) !=
            TARN_OK)
            return;
        for (size_t i = 0; i < n;) {
            size_t run = 0;
            while (check && i + run < n && run < CHECKED && entries[i + run].tag &&
                   entries[i + run].tag != c->tag && !is_there(c, at + i + run))
                run++;
            if (run) check_blocks(c, entries + i, at + i, run);
            if (!run && entries[i].tag == c->tag && !is_there(c, at + i)) {
                set_there(c, at + i, true);
                c->news = true;
            }
            i += run ? run : 1;
        }
    }
}

/* Another process may have dropped blocks that this one knows as there. */
static bool all_have_entries(tarn__cached *c)
{
    tarn__cache_entry entries[CHUNK];
    bool all = tarn__cached_map(c);
    for (uint64_t at = 0; all && at < c->blocks; at += CHUNK) {
        size_t n = c->blocks - at < CHUNK ? (size_t)(c->blocks - at) : CHUNK;
        all = tarn__cache_entries_read(c->map_fd, c->map_path, entries, at, n, NULL) ==
              TARN_OK;
        for (size_t i = 0; all && i < n; i++)
            if (!entries[i].tag) {
                set_there(c, at + i, false);
                c->scan = at + i;
                all = false;
            }
    }
    return all;
}

/* Moves scan over blocks that the file has. Each call reads one piece of the map unless
 * more of them came, so that all calls together read it about once. */
static void look_for_completion(tarn__cached *c)
{
    if (is_complete(c)) return;
    c->news = false;
    for (;;) {
        c->scan = there_until(c, c->scan, c->blocks);
        if (c->scan == c->blocks) break;
        uint64_t end = c->blocks - c->scan < CHUNK ? c->blocks : c->scan + CHUNK;
        refresh(c, c->scan, end, false);
        if (!is_there(c, c->scan)) return;
    }
    if (!has_size(c) || !all_have_entries(c)) return;
    if (c->writable && tarn__cached_map(c))
        (void)!tarn__cache_set_whole(c->map_fd, c->map_path, c->tag, NULL);
    atomic_store_explicit(&c->complete, true, memory_order_release);
}

bool tarn__cached_complete(tarn__cached *c)
{
    return is_complete(c);
}

static bool blocks_of(const tarn__cached *c, uint64_t offset, uint64_t size,
                      uint64_t *out_first, uint64_t *out_end)
{
    if (offset > c->size || size > c->size - offset) return false;
    *out_first = offset / TARN__CACHE_BLOCK;
    *out_end = tarn__cache_blocks(offset + size);
    return true;
}

bool tarn__cached_has(tarn__cached *c, uint64_t offset, uint64_t size)
{
    uint64_t first, end;
    if (!blocks_of(c, offset, size, &first, &end) || is_lost(c)) return false;
    if (size == 0 || is_complete(c) || there_until(c, first, end) == end) return true;
    pthread_mutex_lock(&c->dir->lock.mutex);
    refresh(c, first, end, true);
    bool all = !is_lost(c) && there_until(c, first, end) == end;
    if (c->news) look_for_completion(c);
    pthread_mutex_unlock(&c->dir->lock.mutex);
    return all;
}

/* --- Claiming ---------------------------------------------------------------------- */

typedef struct spans {
    tarn__cached_span *items;
    size_t max, count;
    uint64_t end;
} spans;

static void add_span(spans *s, uint64_t end, tarn__cached_state state)
{
    tarn__cached_span *last = s->count ? &s->items[s->count - 1] : NULL;
    uint64_t count = end - s->end;
    if (last && last->state == state)
        last->count += count;
    else
        s->items[s->count++] = (tarn__cached_span){s->end, count, state};
    s->end = end;
}

/* Locks blocks from first on for this process: as many as are free. 0: the first one is
 * claimed by another process, which may have claimed the blocks until *out_until; or
 * *out_until is first, and locks do not work. */
static uint64_t lock_blocks(tarn__cached *c, uint64_t first, uint64_t count,
                            uint64_t *out_until)
{
    while (count) {
        uint64_t from = TARN__CLAIMS + first, held = count;
        if (tarn__cache_lock(c->map_fd, F_WRLCK, from, count)) return count;
        if (errno != EAGAIN && errno != EACCES) return 0;
        if (!tarn__cache_locked(c->map_fd, &from, &held)) {
            /* It became free in between: one more attempt. */
            if (tarn__cache_lock(c->map_fd, F_WRLCK, TARN__CLAIMS + first, count))
                return count;
            from = TARN__CLAIMS + first;
            held = 1;
        }
        if (from <= TARN__CLAIMS + first) {
            *out_until = from + held - TARN__CLAIMS;
            return 0;
        }
        count = from - TARN__CLAIMS - first;
    }
    return 0;
}

static void unlock_blocks(tarn__cached *c, uint64_t first, uint64_t count)
{
    if (c->map_fd >= 0)
        (void)tarn__cache_lock(c->map_fd, F_UNLCK, TARN__CLAIMS + first, count);
}

/* Claims missing blocks from s->end on. Adds one span, or none if blocks came in
 * between. */
static void claim_missing(tarn__cached *c, spans *s, uint64_t end)
{
    uint64_t first = s->end, until = first;
    uint64_t room = c->writable && c->map_fd >= 0 && !is_lost(c)
                        ? tarn__cache_reserve(c->dir, end - first)
                        : 0;
    if (room == 0) {
        add_span(s, end, TARN__CACHED_PASSED);
        return;
    }
    uint64_t got = lock_blocks(c, first, room, &until);
    if (got < room) tarn__cache_settle(c->dir, room - got, false);
    if (got == 0) {
        add_span(s, until > first && until < end ? until : end,
                 until > first ? TARN__CACHED_BUSY : TARN__CACHED_PASSED);
        return;
    }
    refresh(c, first, first + got, true);
    uint64_t b = first;
    while (b < first + got && !is_there(c, b))
        b++;
    if (b < first + got) { /* they came before the lock */
        unlock_blocks(c, b, first + got - b);
        tarn__cache_settle(c->dir, first + got - b, false);
    }
    if (b == first) return;
    set_mine(c, first, b - first, true);
    add_span(s, b, TARN__CACHED_CLAIMED);
}

static void claim_next(tarn__cached *c, spans *s, uint64_t end)
{
    uint64_t b = there_until(c, s->end, end);
    if (b > s->end && !is_lost(c)) {
        add_span(s, b, TARN__CACHED_THERE);
        return;
    }
    b = s->end;
    while (b < end && is_mine(c, b))
        b++;
    if (b > s->end) {
        add_span(s, b, TARN__CACHED_BUSY);
        return;
    }
    while (b < end && b - s->end < CHUNK && (is_lost(c) || !is_there(c, b)) &&
           !is_mine(c, b))
        b++;
    refresh(c, s->end, b, true);
    end = b;
    b = s->end;
    while (b < end && (is_lost(c) || !is_there(c, b)))
        b++;
    if (b > s->end) claim_missing(c, s, b);
}

tarn_status tarn__cached_claim(tarn__cached *c, uint64_t offset, uint64_t size,
                               tarn__cached_span *items, size_t max, size_t *out_count,
                               uint64_t *out_end, tarn_error *err)
{
    spans s = {items, max, 0, 0};
    uint64_t end;
    *out_count = 0;
    *out_end = offset;
    if (!blocks_of(c, offset, size, &s.end, &end))
        return tarn__fail_at(err, TARN_ERR_USAGE, c->path, offset,
                             "a range of %llu bytes is not inside the object of %llu",
                             (unsigned long long)size, (unsigned long long)c->size);
    if (size == 0) return TARN_OK;
    pthread_mutex_lock(&c->dir->lock.mutex);
    /* If another program shortened a complete file, it is not complete any more. */
    if (is_complete(c) && has_size(c) && max)
        add_span(&s, end, TARN__CACHED_THERE);
    else
        (void)tarn__cached_map(c);
    while (s.end < end && s.count < max)
        claim_next(c, &s, end);
    if (c->news) look_for_completion(c);
    bool refused = c->dir->refused;
    pthread_mutex_unlock(&c->dir->lock.mutex);
    if (refused) tarn__cache_make_room(c->dir);
    uint64_t to = s.end * TARN__CACHE_BLOCK;
    *out_count = s.count;
    *out_end = to < c->size ? to : c->size;
    return TARN_OK;
}

/* --- Ending claims ------------------------------------------------------------------ */

static bool holds(const tarn__cached *c, uint64_t first, uint64_t count)
{
    if (count > c->blocks || first > c->blocks - count) return false;
    for (uint64_t b = first; b < first + count; b++)
        if (!is_mine(c, b)) return false;
    return true;
}

/* With the lock. */
static void end_claim(tarn__cached *c, uint64_t first, uint64_t count, bool stored)
{
    for (uint64_t b = first; stored && b < first + count; b++)
        set_there(c, b, true);
    set_mine(c, first, count, false);
    unlock_blocks(c, first, count);
    tarn__cache_settle(c->dir, count, stored);
    pthread_cond_broadcast(&c->moved);
}

static tarn_status store(tarn__cached *c, uint64_t first, uint64_t count,
                         const unsigned char *data, tarn_error *err)
{
    tarn__cache_entry entries[CHUNK];
    uint64_t at = first * TARN__CACHE_BLOCK, end = (first + count) * TARN__CACHE_BLOCK;
    if (!has_size(c))
        return tarn__fail_at(err, TARN_ERR_IO, c->path, TARN_NO_OFFSET,
                             "another program changed the size of this cache file");
    TARN_TRY(tarn__write_at(c->fd, c->path, data,
                            (size_t)((end < c->size ? end : c->size) - at), at, err));
    for (uint64_t done = 0; done < count;) {
        size_t n = count - done < CHUNK ? (size_t)(count - done) : CHUNK;
        for (size_t i = 0; i < n; i++) {
            const unsigned char *block = data + (done + i) * TARN__CACHE_BLOCK;
            size_t len = tarn__cache_block_size(c->size, first + done + i);
            entries[i] = (tarn__cache_entry){tarn__crc32c(0, block, len), c->tag};
        }
        TARN_TRY(tarn__cache_entries_write(c->map_fd, c->map_path, entries, first + done,
                                           n, err));
        done += n;
    }
    return TARN_OK;
}

/* The disk is full or fails: nothing is claimed for a while, and one notice is enough.
 * With the lock. */
static bool note_failure(tarn__cachedir *dir, int e)
{
    const long long rest = 10000000000, silence = 60000000000;
    long long now = tarn__coarse_time();
    bool told = now < dir->notice_from;
    dir->full_until = now + rest;
    if (e == ENOSPC || e == EDQUOT) dir->refused = true;
    if (!told) dir->notice_from = now + silence;
    return !told;
}

tarn_status tarn__cached_put(tarn__cached *c, uint64_t first, uint64_t count,
                             const void *data, tarn_error *err)
{
    pthread_mutex_lock(&c->dir->lock.mutex);
    bool held = holds(c, first, count), was_lost = is_lost(c);
    pthread_mutex_unlock(&c->dir->lock.mutex);
    if (!held)
        return tarn__fail_at(err, TARN_ERR_USAGE, c->path, first * TARN__CACHE_BLOCK,
                             "%llu blocks are not claimed", (unsigned long long)count);
    tarn_error why = {.offset = TARN_NO_OFFSET};
    tarn_status status = store(c, first, count, data, &why);
    pthread_mutex_lock(&c->dir->lock.mutex);
    end_claim(c, first, count, status == TARN_OK);
    if (status == TARN_OK)
        look_for_completion(c);
    else if (is_lost(c) ? was_lost : !note_failure(c->dir, why.sys_errno))
        status = TARN_OK;
    pthread_mutex_unlock(&c->dir->lock.mutex);
    if (status != TARN_OK && err) *err = why;
    return status;
}

void tarn__cached_give_up(tarn__cached *c, uint64_t first, uint64_t count)
{
    pthread_mutex_lock(&c->dir->lock.mutex);
    if (holds(c, first, count)) end_claim(c, first, count, false);
    pthread_mutex_unlock(&c->dir->lock.mutex);
}

void tarn__cached_drop(tarn__cached *c, uint64_t first, uint64_t count)
{
    static const tarn__cache_entry none[CHUNK];
    if (first > c->blocks || count > c->blocks - first) return;
    pthread_mutex_lock(&c->dir->lock.mutex);
    (void)has_size(c);
    if (is_complete(c)) /* the table was not needed until now */
        for (uint64_t b = 0; b < c->blocks; b++)
            set_there(c, b, true);
    atomic_store_explicit(&c->complete, false, memory_order_release);
    if (c->writable && tarn__cached_map(c)) {
        (void)!tarn__cache_set_whole(c->map_fd, c->map_path, 0, NULL);
        for (uint64_t at = first; at < first + count; at += CHUNK) {
            uint64_t n = first + count - at < CHUNK ? first + count - at : CHUNK;
            (void)!tarn__cache_entries_write(c->map_fd, c->map_path, none, at, (size_t)n,
                                             NULL);
        }
    }
    for (uint64_t b = first; b < first + count; b++)
        set_there(c, b, false);
    if (first < c->scan) c->scan = first;
    pthread_mutex_unlock(&c->dir->lock.mutex);
}

/* --- Waiting ------------------------------------------------------------------------ */

static bool is_busy(tarn__cached *c, uint64_t first, uint64_t end)
{
    uint64_t from = TARN__CLAIMS + first, count = end - first;
    if (is_lost(c) || is_complete(c) || !tarn__cached_map(c)) return false;
    refresh(c, first, end, false);
    if (there_until(c, first, end) == end) return false;
    for (uint64_t b = first; b < end; b++)
        if (is_mine(c, b)) return true;
    return tarn__cache_locked(c->map_fd, &from, &count);
}

static long long exact_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Claims of other processes end without a signal, so they are checked again and again,
 * less often the longer it takes. Claims of this process wake it up. */
bool tarn__cached_wait(tarn__cached *c, uint64_t first, uint64_t count,
                       unsigned patience_ms, const atomic_bool *cancel)
{
    const long long shortest = 100000, longest = 10000000;
    long long began = exact_time(), now = began;
    bool free = false;
    if (first > c->blocks || count > c->blocks - first) return true;
    pthread_mutex_lock(&c->dir->lock.mutex);
    while (!(free = !is_busy(c, first, first + count)) &&
           !(cancel && atomic_load(cancel)) && now - began < patience_ms * 1000000LL) {
        long long pause = (now - began) / 8;
        pause = pause < shortest ? shortest : pause > longest ? longest : pause;
        struct timespec until = {(now + pause) / 1000000000, (now + pause) % 1000000000};
        (void)pthread_cond_timedwait(&c->moved, &c->dir->lock.mutex, &until);
        now = exact_time();
    }
    pthread_mutex_unlock(&c->dir->lock.mutex);
    return free;
}
