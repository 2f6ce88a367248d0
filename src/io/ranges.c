/* The ring reads into bounce memory, from which the data is copied: direct reads need
 * aligned memory, and the destinations of pieces are packed. The bounce memory is in huge
 * pages if the system has them: a read is then one memory segment for the disk instead of
 * one for each 4 KB, which slows down virtual disks. A child process gets no copy of this
 * memory, so that a read in progress during a fork arrives in the parent's memory.
 *
 * Reads that the ring does not complete (the end of a file, a file system that refuses
 * direct reads after all) are repeated with pread, which reports every error. */
#include "io/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "io/file.h"
#include "io/remote.h"
#include "io/uring.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* A read in progress: bytes [from, from + want) of the file of some pieces. */
typedef struct tarn__ranges_slot {
    unsigned char *memory;
    uint64_t from;
    uint32_t skip; /* bytes in memory before the wanted ones */
    uint32_t want;
    size_t first, end; /* the pieces that may overlap it */
} slot;

/* Pieces so close together that reading the gaps is cheaper than more reads. */
typedef struct run {
    size_t first, end;
    uint64_t from, to; /* bytes of the file */
} run;

typedef struct work {
    tarn__ranges *gather;
    const tarn__ranges_piece *pieces;
    size_t count;
    bool direct;
    run run;     /* the run being started */
    uint64_t at; /* how far it is */
    uint32_t free[TARN__RANGES_DEPTH];
    unsigned n_free, depth;
    size_t failed; /* the first piece that failed, or count */
    tarn_error *err;
    tarn_status status;
} work;

static uint64_t end_of(const tarn__ranges_piece *p)
{
    return p->offset + p->head + p->size;
}

/* The run that begins with piece first. Its pieces are in ascending order of offsets. */
static run next_run(const tarn__ranges_piece *pieces, size_t count, size_t first)
{
    run r = {first, first + 1, pieces[first].offset, end_of(&pieces[first])};
    for (; r.end < count; r.end++) {
        const tarn__ranges_piece *p = &pieces[r.end];
        if (p->file != pieces[first].file || p->offset < p[-1].offset ||
            p->offset > r.to + TARN__RANGES_GAP)
            break;
        if (end_of(p) > r.to) r.to = end_of(p);
    }
    return r;
}

/* One call announces at most as much as the system reads ahead (128 KB by default); the
 * system ignores the rest, so there is one call for each such part. */
void tarn__ranges_announce(int fd, uint64_t offset, uint64_t size)
{
    enum { PIECE = 128 << 10 };
    for (uint64_t done = 0; done < size; done += PIECE) {
        uint64_t len = size - done < PIECE ? size - done : PIECE;
        (void)posix_fadvise(fd, (off_t)(offset + done), (off_t)len, POSIX_FADV_WILLNEED);
    }
}

/* The alignment of direct reads that the system reports for a file: 0 if direct reads are
 * impossible, and a value that every disk accepts if the system does not say. */
static uint32_t direct_align(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) != 0 ||
        !(st.stx_mask & STATX_DIOALIGN))
        return TARN__RANGES_ALIGN;
    if (st.stx_dio_mem_align > TARN__RANGES_ALIGN) return 0;
    return st.stx_dio_offset_align > TARN__RANGES_ALIGN ? 0 : st.stx_dio_offset_align;
#else
    (void)fd;
    return TARN__RANGES_ALIGN;
#endif
}

int tarn__open_again(int fd, int flags)
{
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return open(name, O_RDONLY | O_CLOEXEC | flags);
}

int tarn__open_direct(int fd, uint32_t *out_align)
{
    *out_align = direct_align(fd);
    return *out_align == 0 ? -1 : tarn__open_again(fd, O_DIRECT);
}

static void close_ring(tarn__ranges *g)
{
    bool ours = g->ring && tarn__uring_is_ours(g->ring);
    tarn__uring_free(g->ring);
    /* In a child process something else may be mapped at this address. */
    if (g->bounce && ours) munmap(g->bounce, TARN__RANGES_BOUNCE);
    free(g->slots);
    g->ring = NULL;
    g->bounce = NULL;
    g->slots = NULL;
}

void tarn__ranges_reset(tarn__ranges *g)
{
    close_ring(g);
    free(g->scratch[0]);
    free(g->scratch[1]);
    *g = (tarn__ranges){0};
}

void *tarn__ranges_scratch(tarn__ranges *g, unsigned which, size_t size)
{
    if (g->scratch[which] && g->scratch_size[which] >= size) return g->scratch[which];
    free(g->scratch[which]);
    g->scratch[which] = malloc(size ? size : 1);
    g->scratch_size[which] = g->scratch[which] ? size : 0;
    return g->scratch[which];
}

/* Copies bytes [at, at + len) of a piece to their destination. */
static void deliver(const tarn__ranges_piece *p, size_t at, const unsigned char *from,
                    size_t len)
{
    if (at < p->head) {
        size_t n = len < p->head - at ? len : p->head - at;
        memcpy(p->head_to + at, from, n);
        at += n;
        from += n;
        len -= n;
    }
    if (len) memcpy(p->to + at - p->head, from, len);
}

/* Reads these bytes with pread. */
static tarn_status read_plain(const tarn__ranges_piece *p, size_t at, size_t len,
                              tarn_error *err)
{
    const tarn__ranges_file *f = p->file;
    size_t n = 0;
    if (at < p->head) {
        n = len < p->head - at ? len : p->head - at;
        TARN_TRY(
            tarn__read_exact(f->fd, f->path, p->head_to + at, n, p->offset + at, err));
    }
    if (n == len) return TARN_OK;
    at += n;
    return tarn__read_exact(f->fd, f->path, p->to + at - p->head, len - n, p->offset + at,
                            err);
}

static tarn_status read_in_turn(tarn__ranges *g, tarn__ranges_way way,
                                const tarn__ranges_piece *pieces, size_t count,
                                tarn_error *err)
{
    g->stats.pieces[way] += count;
    for (size_t i = 0; way == TARN__RANGES_ADVISED && i < count;) {
        run r = next_run(pieces, count, i);
        tarn__ranges_announce(pieces[i].file->fd, r.from, r.to - r.from);
        i = r.end;
    }
    for (size_t i = 0; i < count; i++)
        TARN_TRY(read_plain(&pieces[i], 0, pieces[i].head + pieces[i].size, err));
    return TARN_OK;
}

/* --- With a ring ------------------------------------------------------------------- */

/* Aligned to huge pages. */
static unsigned char *new_bounce(void)
{
    size_t size = TARN__RANGES_BOUNCE + HUGE_PAGE;
    unsigned char *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = -(uintptr_t)p & (HUGE_PAGE - 1);
    if (before) munmap(p, before);
    if (before < HUGE_PAGE) munmap(p + before + TARN__RANGES_BOUNCE, HUGE_PAGE - before);
    p += before;
    (void)madvise(p, TARN__RANGES_BOUNCE, MADV_HUGEPAGE);
    if (madvise(p, TARN__RANGES_BOUNCE, MADV_DONTFORK) == 0) return p;
    munmap(p, TARN__RANGES_BOUNCE);
    return NULL;
}

static void drop_ring(tarn__ranges *g, int why)
{
    close_ring(g);
    g->stats.ring_errno = why;
}

/* Creates the ring and its memory unless they exist. The reason of a failure is kept, so
 * that the system is asked only once. */
static bool get_ring(tarn__ranges *g)
{
    if (g->ring && !tarn__uring_is_ours(g->ring)) drop_ring(g, 0);
    if (g->ring || g->stats.ring_errno) return g->ring != NULL;
    int e = tarn__uring_new(TARN__RANGES_DEPTH, &g->ring);
    if (e == 0) {
        g->bounce = new_bounce();
        g->slots = calloc(TARN__RANGES_DEPTH, sizeof *g->slots);
        if (!g->bounce || !g->slots) e = ENOMEM;
    }
    if (e) drop_ring(g, e);
    return e == 0;
}

/* Divides the memory into as many slots as it holds for the longest read. */
static void cut_slots(work *w)
{
    uint64_t longest = 0;
    for (size_t i = 0; i < w->count && longest < TARN__RANGES_CHUNK;) {
        run r = next_run(w->pieces, w->count, i);
        if (r.to - r.from > longest) longest = r.to - r.from;
        i = r.end;
    }
    if (longest > TARN__RANGES_CHUNK) longest = TARN__RANGES_CHUNK;
    /* A read is as long as the wanted bytes plus less than an alignment on either
     * side. */
    size_t each = (size_t)(longest + 3 * TARN__RANGES_ALIGN - 1) &
                  ~(size_t)(TARN__RANGES_ALIGN - 1);
    size_t fit = TARN__RANGES_BOUNCE / each;
    w->depth = fit < TARN__RANGES_DEPTH ? (unsigned)fit : TARN__RANGES_DEPTH;
    for (unsigned i = 0; i < w->depth; i++) {
        w->gather->slots[i].memory = w->gather->bounce + i * each;
        w->free[w->n_free++] = i;
    }
}

/* Whether there is more to start; if so, run is what it belongs to. */
static bool has_more(work *w)
{
    while (w->at == w->run.to) {
        if (w->run.end == w->count) return false;
        w->run = next_run(w->pieces, w->count, w->run.end);
        w->at = w->run.from;
        bool direct = w->direct && w->pieces[w->run.first].file->direct >= 0;
        w->gather->stats.pieces[direct ? TARN__RANGES_DIRECT : TARN__RANGES_RING] +=
            w->run.end - w->run.first;
    }
    return true;
}

static void start_one(work *w)
{
    uint32_t number = w->free[--w->n_free];
    slot *s = &w->gather->slots[number];
    while (w->run.first + 1 < w->run.end && end_of(&w->pieces[w->run.first]) <= w->at)
        w->run.first++;
    const tarn__ranges_file *f = w->pieces[w->run.first].file;
    bool direct = w->direct && f->direct >= 0;
    uint64_t left = w->run.to - w->at, align = direct ? f->align : 1;
    s->from = w->at;
    s->want = left < TARN__RANGES_CHUNK ? (uint32_t)left : TARN__RANGES_CHUNK;
    s->skip = (uint32_t)(w->at & (align - 1));
    s->first = w->run.first;
    s->end = w->run.end;
    uint32_t len = (uint32_t)((s->skip + s->want + align - 1) & ~(align - 1));
    tarn__uring_read(w->gather->ring, direct ? f->direct : f->fd, s->memory, len,
                     s->from - s->skip, number);
    w->at += s->want;
}

/* Copies to a piece its part of a read that returned the first got bytes. */
static tarn_status take_part(const tarn__ranges_piece *p, const slot *s, uint32_t got,
                             tarn_error *err)
{
    uint64_t from = p->offset > s->from ? p->offset : s->from;
    uint64_t to = end_of(p) < s->from + s->want ? end_of(p) : s->from + s->want;
    uint64_t there = s->from + got;
    if (from >= to) return TARN_OK;
    if (there > to) there = to;
    if (there > from)
        deliver(p, (size_t)(from - p->offset), s->memory + s->skip + (from - s->from),
                (size_t)(there - from));
    if (there < from) there = from;
    if (there == to) return TARN_OK;
    return read_plain(p, (size_t)(there - p->offset), (size_t)(to - there), err);
}

static void finish_one(work *w, uint32_t number, int32_t result)
{
    const slot *s = &w->gather->slots[number];
    uint32_t got = result > (int32_t)s->skip ? (uint32_t)result - s->skip : 0;
    tarn_error why;
    if (got > s->want) got = s->want;
    w->free[w->n_free++] = number;
    for (size_t i = s->first; i < s->end && i < w->failed; i++) {
        if (w->pieces[i].offset >= s->from + s->want) break;
        const tarn__ranges_piece *p = &w->pieces[i];
        if (take_part(p, s, got, NULL) == TARN_OK) continue;
        /* Reads the whole piece again, so that the error is the same in every way of
         * reading. */
        tarn_status status = read_plain(p, 0, p->head + p->size, &why);
        if (status == TARN_OK) continue;
        w->failed = i;
        w->status = status;
        if (w->err) *w->err = why;
    }
}

/* Reads in progress may still write to the memory, so it is not released. */
static tarn_status fail_ring(work *w, int e)
{
    w->gather->bounce = NULL;
    drop_ring(w->gather, e);
    return tarn__fail_errno(w->err, NULL, e, "io_uring failed");
}

static tarn_status read_by_ring(work *w)
{
    uint64_t tag;
    int32_t result;
    cut_slots(w);
    for (;;) {
        while (w->n_free && w->failed == w->count && has_more(w))
            start_one(w);
        unsigned under_way = w->depth - w->n_free;
        if (under_way == 0) break;
        /* Waiting for several reads at once saves system calls and leaves enough in
         * progress for the disk. */
        unsigned wait = (under_way + 3) / 4;
        int e = tarn__uring_enter(w->gather->ring, wait);
        if (e && e != EAGAIN && e != EBUSY) return fail_ring(w, e);
        w->gather->stats.waits++;
        while (tarn__uring_take(w->gather->ring, &tag, &result))
            finish_one(w, (uint32_t)tag, result);
    }
    return w->status;
}

/* --- Remote files ------------------------------------------------------------------ */

/* Reads the pieces of remote files, and copies the others to the front of local. */
static tarn_status read_remote(const tarn__ranges_piece *pieces, size_t count,
                               tarn__remote_piece *far, tarn__ranges_piece *local,
                               size_t *out_local, tarn_error *err)
{
    size_t n = 0;
    *out_local = 0;
    for (size_t i = 0; i < count; i++) {
        const tarn__ranges_piece *p = &pieces[i];
        if (!p->file->remote)
            local[(*out_local)++] = *p;
        else if (p->head)
            far[n++] = (tarn__remote_piece){p->file->remote, p->offset, p->head,
                                            p->head_to, false};
        if (p->file->remote && p->size)
            far[n++] = (tarn__remote_piece){p->file->remote, p->offset + p->head, p->size,
                                            p->to, false};
    }
    return tarn__remote_read(far, n, err);
}

static tarn_status read_local(tarn__ranges *g, tarn__ranges_way way,
                              const tarn__ranges_piece *pieces, size_t count,
                              tarn_error *err)
{
    bool by_ring = way == TARN__RANGES_RING || way == TARN__RANGES_DIRECT;
    if (by_ring && !get_ring(g)) {
        by_ring = false;
        way = TARN__RANGES_ADVISED;
    }
    if (!by_ring) return read_in_turn(g, way, pieces, count, err);
    work w = {.gather = g,
              .pieces = pieces,
              .count = count,
              .direct = way == TARN__RANGES_DIRECT,
              .failed = count,
              .err = err,
              .status = TARN_OK};
    return read_by_ring(&w);
}

tarn_status tarn__ranges_read(tarn__ranges *g, tarn__ranges_way way,
                              const tarn__ranges_piece *pieces, size_t count,
                              tarn_error *err)
{
    bool far = false;
    if (count >= UINT32_MAX)
        return tarn__fail(err, TARN_ERR_USAGE, "too many ranges in one call: %zu", count);
    for (size_t i = 0; i < count; i++) {
        const tarn__ranges_piece *p = &pieces[i];
        uint64_t size, end;
        if (!tarn__add(p->head, p->size, &size) || !tarn__add(p->offset, size, &end) ||
            end > INT64_MAX)
            return tarn__fail_at(err, TARN_ERR_FORMAT, p->file->path, p->offset,
                                 "the offset is larger than any file");
        g->stats.bytes += size;
        far |= p->file->remote != NULL;
    }
    if (!far) return read_local(g, way, pieces, count, err);
    size_t n = 0;
    tarn__remote_piece *list = malloc(2 * count * sizeof *list);
    tarn__ranges_piece *local = malloc(count * sizeof *local);
    tarn_status status = list && local ? read_remote(pieces, count, list, local, &n, err)
                                       : tarn__fail_memory(err);
    if (status == TARN_OK && n) status = read_local(g, way, local, n, err);
    free(list);
    free(local);
    return status;
}
