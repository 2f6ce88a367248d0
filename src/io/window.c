/* The sliding window and its ways to fetch. The sizes are measured ones: see
 * docs/internals/window.md. */
#include "io/window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define NEAR_FETCH   (256u << 10) /* where the places asked for lie close together */
#define FAR_FETCH    2048u        /* where they do not: a header and a small neighbour */
#define ALL_FETCH    (1u << 20)
#define DIRECT_FETCH (4u << 20)
#define DIRECT_ALIGN 4096u
#define FAR_DISTANCE (12u << 10) /* mean distance at which small reads win */
#define MAX_GET      (2u << 20)
#define MAP_STRIDE   (64u << 20) /* between two checks of a mapped file's length */
/* Past this distance even a cold file is cheaper to hop through than to stream. */
#define DIRECT_DISTANCE (512u << 10)

static tarn_status reserve(tarn__window *w, size_t capacity, tarn_error *err)
{
    if (w->capacity >= capacity) return TARN_OK;
    /* Shared, not private: a direct read into memory that a fork made copy-on-write
     * could land in the other process. */
    void *buffer =
        mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED) return tarn__fail_memory(err);
    if (w->buffer) munmap(w->buffer, w->capacity);
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
        w->data = w->map;
    }
    return w->map ? TARN_OK : reserve(w, w->fetch + MAX_GET, err);
}

void tarn__window_close(tarn__window *w)
{
    if (w->direct_fd >= 0) close(w->direct_fd);
    if (w->map) tarn__unmap(w->map, w->file->size);
    if (w->buffer) munmap(w->buffer, w->capacity);
    *w = (tarn__window){.direct_fd = -1};
}

/* A mapped window grows a stride at a time, each after a look at the file's length. */
static tarn_status extend_map(tarn__window *w, uint64_t offset, size_t len,
                              tarn_error *err)
{
    struct stat st;
    if (fstat(w->file->fd, &st) != 0)
        return tarn__fail_errno(err, w->file->path, errno, "cannot stat");
    if ((uint64_t)st.st_size < w->file->size)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, w->file->path, offset,
                             "the file became shorter while it was read");
    uint64_t end = offset + len;
    w->end = w->file->size - end < MAP_STRIDE ? w->file->size : end + MAP_STRIDE;
    return TARN_OK;
}

/* Learns from the distance since the last miss whether to read much or little. */
static void adapt(tarn__window *w, uint64_t offset)
{
    uint64_t apart = offset > w->last ? (offset - w->last) / (w->gets ? w->gets : 1) : 0;
    if (w->direct_fd >= 0) {
        if (w->gets < 64 && apart > DIRECT_DISTANCE && w->last) {
            close(w->direct_fd);
            w->direct_fd = -1;
            w->fetch = FAR_FETCH;
        }
    } else if (w->last || w->gets) {
        w->fetch = apart > FAR_DISTANCE ? FAR_FETCH : NEAR_FETCH;
    }
    w->last = offset;
    w->gets = 0;
}

static tarn_status fetch_direct(tarn__window *w, uint64_t offset, size_t len,
                                tarn_error *err)
{
    uint64_t from = offset & ~(uint64_t)(DIRECT_ALIGN - 1);
    size_t want = len + (size_t)(offset - from) > DIRECT_FETCH ? DIRECT_FETCH + MAX_GET
                                                               : DIRECT_FETCH;
    ssize_t n;
    do
        n = pread(w->direct_fd, w->buffer, want, (off_t)from);
    while (n < 0 && errno == EINTR);
    if (n < 0 || from + (uint64_t)n < offset + len) {
        /* Refused, or short for whatever reason: the ordinary way decides. */
        close(w->direct_fd);
        w->direct_fd = -1;
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
    if (len > MAX_GET || offset > w->file->size || len > w->file->size - offset)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, w->file->path, offset,
                             "%zu bytes should be here, but the file has %llu bytes", len,
                             (unsigned long long)w->file->size);
    if (w->map) return extend_map(w, offset, len, err);
    if (w->hop) adapt(w, offset);
    if (w->direct_fd >= 0) return fetch_direct(w, offset, len, err);
    size_t want = w->fetch > len ? w->fetch : len;
    if (want > w->file->size - offset) want = (size_t)(w->file->size - offset);
    w->start = w->end = 0;
    TARN_TRY(tarn__read_exact(w->file->fd, w->file->path, w->buffer, want, offset, err));
    w->start = offset;
    w->end = offset + want;
    return TARN_OK;
}

size_t tarn__window_stride(const tarn__window *w, uint64_t offset, uint64_t want)
{
    uint64_t inside = offset >= w->start && offset < w->end ? w->end - offset : 0;
    uint64_t stride = inside ? inside : w->map ? MAX_GET : w->fetch;
    if (stride > MAX_GET && !w->map) stride = MAX_GET;
    return (size_t)(want < stride ? want : stride);
}
