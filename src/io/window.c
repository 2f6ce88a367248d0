/* The sliding window and its ways of fetching. The sizes are measured: see
 * docs/internals/window.md. */
#include "io/window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#define NEAR_FETCH   (1024u << 10) /* if requests are close together */
#define FAR_FETCH    1536u         /* if not: a header and a small neighbour */
#define ALL_FETCH    (1u << 20)
#define DIRECT_FETCH (4u << 20)
#define DIRECT_ALIGN 4096u
#define FAR_DISTANCE (12u << 10) /* mean distance from which small reads are faster */
#define MAP_STRIDE   (64u << 20) /* between two checks of a mapped file's length */
#define TRIAL        64u         /* misses in the trial of reading and of mapping */
/* Beyond this distance, skipping through a file is cheaper than streaming it, even if it
 * is not cached. */
#define DIRECT_DISTANCE (512u << 10)

/* How requests far apart are served. */
enum { UNDECIDED, TRY_READ, TRY_MAP, BY_READ, BY_MAP };

static void release_buffer(tarn__window *w)
{
    if (w->shared)
        munmap(w->buffer, w->capacity);
    else
        free(w->buffer);
    w->buffer = NULL;
    w->capacity = 0;
    w->data = NULL;
    w->start = w->end = 0;
}

/* A direct read into private memory that a fork made copy-on-write could end up in the
 * other process, so direct reads use shared memory. Everything else uses the heap, which
 * reuses the same pages for the next shard; aligned, because the kernel copies to aligned
 * memory nearly twice as fast. */
static tarn_status reserve_buffer(tarn__window *w, size_t capacity, tarn_error *err)
{
    if (w->capacity >= capacity) return TARN_OK;
    release_buffer(w);
    w->shared = w->direct_fd >= 0;
    void *buffer = w->shared
                       ? mmap(NULL, capacity, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                       : aligned_alloc(DIRECT_ALIGN, (capacity + DIRECT_ALIGN - 1) &
                                                         ~(size_t)(DIRECT_ALIGN - 1));
    if (!buffer || buffer == MAP_FAILED) return tarn__fail_memory(err);
    w->buffer = buffer;
    w->capacity = capacity;
    w->data = buffer;
    w->start = w->end = 0;
    return TARN_OK;
}

static void try_direct(tarn__window *w)
{
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", w->file->fd);
    w->direct_fd = open(name, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (w->direct_fd >= 0) w->fetch = DIRECT_FETCH;
}

tarn_status tarn__window_open(tarn__window *w, const tarn__file *file,
                              tarn__window_use use, tarn_error *err)
{
    *w = (tarn__window){.file = file, .direct_fd = -1};
    w->hop = use == TARN__WINDOW_HOP;
    w->fetch = w->hop ? NEAR_FETCH : ALL_FETCH;
    bool cached = file->size < DIRECT_FETCH || tarn__is_cached(file);
    if (!cached) {
        try_direct(w);
    } else if (!w->hop && tarn__is_local(file->fd)) {
        w->map = tarn__map(file->fd, file->size);
    }
    if (w->map || w->direct_fd < 0) return TARN_OK;
    tarn_status status = reserve_buffer(w, w->fetch, err);
    if (status != TARN_OK) tarn__window_close(w);
    return status;
}

void tarn__window_close(tarn__window *w)
{
    if (w->direct_fd >= 0) close(w->direct_fd);
    if (w->map) tarn__unmap(w->map, w->file->size);
    release_buffer(w);
    *w = (tarn__window){.direct_fd = -1};
}

/* A mapped window grows one stride at a time, each time after a check of the file's
 * length. */
static tarn_status extend_map(tarn__window *w, uint64_t offset, size_t len,
                              tarn_error *err)
{
    struct stat st;
    if (fstat(w->file->fd, &st) != 0)
        return tarn__fail_errno(err, w->file->path, errno, "cannot stat");
    if ((uint64_t)st.st_size < w->file->size)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, w->file->path, offset,
                             "the file was truncated while it was read");
    uint64_t end = offset + len;
    w->data = w->map;
    w->start = 0;
    w->end = w->file->size - end < MAP_STRIDE ? w->file->size : end + MAP_STRIDE;
    return TARN_OK;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void drop_map(tarn__window *w)
{
    tarn__unmap(w->map, w->file->size);
    w->map = NULL;
    w->data = w->buffer;
    w->start = w->end = 0;
}

static void begin_trial(tarn__window *w, unsigned way)
{
    w->way = way;
    w->tried = 0;
    w->began = now();
}

/* Counts another miss far from the last one: first TRIAL misses by reading, then as many
 * by mapping, then the way that took less time. */
static void choose_way(tarn__window *w)
{
    if (w->way == UNDECIDED) {
        if (tarn__is_local(w->file->fd))
            begin_trial(w, TRY_READ);
        else
            w->way = BY_READ;
    } else if (w->way <= TRY_MAP && ++w->tried == TRIAL) {
        double took = now() - w->began;
        if (w->way == TRY_READ) {
            w->read_time = took;
            w->map = tarn__map(w->file->fd, w->file->size);
            begin_trial(w, w->map ? TRY_MAP : BY_READ);
        } else {
            w->way = took < w->read_time ? BY_MAP : BY_READ;
            if (w->way == BY_READ) drop_map(w);
        }
    }
}

static void stop_direct(tarn__window *w)
{
    close(w->direct_fd);
    w->direct_fd = -1;
    w->way = BY_READ;
}

/* Learns from the distance since the last miss whether to read much or little. */
static void adapt(tarn__window *w, uint64_t offset)
{
    uint64_t apart = offset > w->last ? (offset - w->last) / (w->gets ? w->gets : 1) : 0;
    w->spread = w->spread ? (7 * w->spread + apart) / 8 : apart;
    if (w->direct_fd >= 0) {
        if (w->spread > DIRECT_DISTANCE) stop_direct(w);
    } else if (w->spread > FAR_DISTANCE) {
        w->fetch = FAR_FETCH;
        choose_way(w);
    } else {
        w->fetch = NEAR_FETCH;
        if (w->map) drop_map(w);
        if (w->way != BY_READ) w->way = UNDECIDED;
    }
    w->last = offset;
    w->gets = 0;
}

/* Makes only a small part of the map available, so that a trial counts every
 * miss. */
static tarn_status peek_map(tarn__window *w, uint64_t offset, size_t len)
{
    uint64_t left = w->file->size - offset;
    size_t want = w->fetch > len ? w->fetch : len;
    w->data = (const unsigned char *)w->map + offset;
    w->start = offset;
    w->end = offset + (want < left ? want : left);
    return TARN_OK;
}

static tarn_status fetch_direct(tarn__window *w, uint64_t offset, size_t len,
                                tarn_error *err)
{
    uint64_t from = offset & ~(uint64_t)(DIRECT_ALIGN - 1);
    size_t want = DIRECT_FETCH;
    ssize_t n;
    do
        n = pread(w->direct_fd, w->buffer, want, (off_t)from);
    while (n < 0 && errno == EINTR);
    if (n < 0 || from + (uint64_t)n < offset + len) {
        /* The read was refused or short: the ordinary way decides. */
        stop_direct(w);
        w->fetch = w->hop ? NEAR_FETCH : ALL_FETCH;
        return tarn__window_fetch(w, offset, len, err);
    }
    w->start = from;
    w->end = from + (uint64_t)n;
    return TARN_OK;
}

tarn_status tarn__window_fetch(tarn__window *w, uint64_t offset, size_t len,
                               tarn_error *err)
{
    if (w->source) return tarn__window_fetch_source(w, offset, len, err);
    if (len > TARN__MAX_GET || offset > w->file->size || len > w->file->size - offset)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, w->file->path, offset,
                             "cannot read %zu bytes here: the file has only %llu bytes",
                             len, (unsigned long long)w->file->size);
    if (w->hop) adapt(w, offset);
    if (w->map && w->way == TRY_MAP) return peek_map(w, offset, len);
    if (w->map) return extend_map(w, offset, len, err);
    if (w->direct_fd >= 0) return fetch_direct(w, offset, len, err);
    size_t want = w->fetch > len ? w->fetch : len;
    if (want > w->file->size - offset) want = (size_t)(w->file->size - offset);
    TARN_TRY(reserve_buffer(w, want, err));
    w->start = w->end = 0;
    TARN_TRY(tarn__read_exact(w->file->fd, w->file->path, w->buffer, want, offset, err));
    w->start = offset;
    w->end = offset + want;
    return TARN_OK;
}

/* How many bytes to request at once at offset if all of them are wanted. */
static size_t stride(const tarn__window *w, uint64_t offset, uint64_t want)
{
    uint64_t inside = offset >= w->start && offset < w->end ? w->end - offset : 0;
    uint64_t stride = inside ? inside : w->map ? TARN__MAX_GET : w->fetch;
    if (stride > TARN__MAX_GET && !w->map) stride = TARN__MAX_GET;
    return (size_t)(want < stride ? want : stride);
}

tarn_status tarn__window_some(tarn__window *w, uint64_t offset, uint64_t want,
                              const unsigned char **out, size_t *out_len, tarn_error *err)
{
    if (w->source) {
        TARN_TRY(tarn__window_get(w, offset, 1, out, err));
        *out_len = (size_t)(want < w->end - offset ? want : w->end - offset);
        return TARN_OK;
    }
    if (offset >= w->file->size) return TARN_END;
    if (want > w->file->size - offset) want = w->file->size - offset;
    *out_len = stride(w, offset, want);
    return tarn__window_get(w, offset, *out_len, out, err);
}

tarn_status tarn__window_read(tarn__window *w, uint64_t offset, void *buf, size_t len,
                              tarn_error *err)
{
    if (w->source) return tarn__window_read_source(w, offset, buf, len, err);
    for (size_t done = 0, n; done < len; done += n) {
        const unsigned char *data;
        TARN_TRY(tarn__window_some(w, offset + done, len - done, &data, &n, err));
        memcpy((char *)buf + done, data, n);
    }
    return TARN_OK;
}
