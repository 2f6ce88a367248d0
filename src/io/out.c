/* Buffered output that bypasses the page cache if that is faster. */
#include "io/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "io/flusher.h"

enum {
    ALIGN = 4096, /* alignment of direct writes: offset, length and memory */
    FLUSH = TARN__OUT_FLUSH,
    CAPACITY = FLUSH + TARN__OUT_ROOM,
};
/* Space is allocated in steps as large as the file already is, within these bounds. */
static const uint64_t LEAST_AHEAD = 64u << 20, MOST_AHEAD = 1u << 30;

static tarn_status take_buffer(tarn__out *out, tarn_error *err)
{
    if (!out->buffer) out->buffer = aligned_alloc(ALIGN, CAPACITY);
    return out->buffer ? TARN_OK : tarn__fail_memory(err);
}

static void begin_output(tarn__out *out)
{
    *out = (tarn__out){.buffer = out->buffer,
                       .other = out->other,
                       .flusher = out->flusher,
                       .file = {.fd = -1}};
}

static bool set_direct(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 &&
           fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

tarn_status tarn__out_file(tarn__out *out, const char *path,
                           const tarn_sink_options *options, bool swept, tarn_error *err)
{
    begin_output(out);
    TARN_TRY(take_buffer(out, err));
    TARN_TRY(
        (swept ? tarn__publish_begin_swept : tarn__publish_begin)(&out->file, path, err));
    out->file.no_sync = options->no_sync;
    out->file.keep_existing = !options->overwrite;
    out->direct = !options->no_sync && set_direct(out->file.fd, true);
    return TARN_OK;
}

tarn_status tarn__out_sink(tarn__out *out, tarn_sink *sink, tarn_error *err)
{
    begin_output(out);
    out->sink = sink;
    tarn_status status = take_buffer(out, err);
    if (status != TARN_OK) tarn__out_abandon(out);
    return status;
}

/* Allocates space for the next write and some more. Only a lack of space for that write
 * is an error, and the write itself will report it. */
static void allocate_ahead(tarn__out *out, uint64_t end)
{
    if (out->no_space_ahead || end <= out->allocated) return;
    uint64_t ahead = out->allocated < LEAST_AHEAD  ? LEAST_AHEAD
                     : out->allocated > MOST_AHEAD ? MOST_AHEAD
                                                   : out->allocated;
    uint64_t to = end + ahead;
    if (fallocate(out->file.fd, 0, (off_t)out->allocated, (off_t)(to - out->allocated)) !=
        0) {
        out->no_space_ahead = true;
        return;
    }
    out->allocated = to;
}

/* Some file systems accept O_DIRECT and then refuse the write. */
static bool give_up_direct(tarn__out *out, const tarn_error *why)
{
    if (!out->direct || why->sys_errno != EINVAL) return false;
    out->direct = false;
    return set_direct(out->file.fd, false);
}

static tarn_status write_file(tarn__out *out, const void *data, size_t len, uint64_t at,
                              tarn_error *err)
{
    tarn_error why;
    tarn_status status = tarn__publish_write_at(&out->file, data, len, at, &why);
    if (status != TARN_OK && give_up_direct(out, &why))
        status = tarn__publish_write_at(&out->file, data, len, at, &why);
    if (status != TARN_OK && err) *err = why;
    return status;
}

/* Waits for the thread. */
static tarn_status wait_for_thread(tarn__out *out, tarn_error *err)
{
    tarn_error why;
    if (!out->writing) return TARN_OK;
    size_t len = out->writing;
    out->writing = 0;
    tarn_status status = tarn__flusher_wait(out->flusher, &why);
    if (status != TARN_OK && give_up_direct(out, &why))
        return write_file(out, out->other, len, out->flushed - len, err);
    if (status != TARN_OK && err) *err = why;
    return status;
}

/* Whether there is a thread and a buffer for it. */
static bool take_thread(tarn__out *out)
{
    if (!out->flusher) out->flusher = tarn__flusher_new();
    if (!out->other) out->other = aligned_alloc(ALIGN, CAPACITY);
    return out->flusher && out->other;
}

static void swap_buffers(tarn__out *out)
{
    unsigned char *full = out->buffer;
    out->buffer = out->other;
    out->other = full;
}

static tarn_status flush_file(tarn__out *out, tarn_error *err)
{
    allocate_ahead(out, out->flushed + FLUSH);
    TARN_TRY(wait_for_thread(out, err));
    size_t rest = out->used - FLUSH;
    if (take_thread(out)) {
        swap_buffers(out);
        tarn__flusher_begin(out->flusher, out->file.fd, out->file.temporary, out->other,
                            FLUSH, out->flushed);
        out->writing = FLUSH;
        memcpy(out->buffer, out->other + FLUSH, rest);
    } else {
        TARN_TRY(write_file(out, out->buffer, FLUSH, out->flushed, err));
        memmove(out->buffer, out->buffer + FLUSH, rest);
    }
    out->flushed += FLUSH;
    out->used = rest;
    return TARN_OK;
}

static tarn_status flush_sink(tarn__out *out, size_t len, tarn_error *err)
{
    TARN_TRY(tarn_sink_write(out->sink, out->buffer, len, err));
    out->flushed += len;
    out->used -= len;
    memmove(out->buffer, out->buffer + len, out->used);
    return TARN_OK;
}

/* Writes what is full. */
static tarn_status flush_buffer(tarn__out *out, tarn_error *err)
{
    while (out->used >= FLUSH)
        TARN_TRY(out->sink ? flush_sink(out, FLUSH, err) : flush_file(out, err));
    return TARN_OK;
}

tarn_status tarn__out_room(tarn__out *out, size_t len, unsigned char **room,
                           tarn_error *err)
{
    if (len > CAPACITY - out->used) TARN_TRY(flush_buffer(out, err));
    *room = out->buffer + out->used;
    return TARN_OK;
}

tarn_status tarn__out_space(tarn__out *out, unsigned char **space, size_t *out_len,
                            tarn_error *err)
{
    if (out->used == CAPACITY) TARN_TRY(flush_buffer(out, err));
    *space = out->buffer + out->used;
    *out_len = CAPACITY - out->used;
    return TARN_OK;
}

tarn_status tarn__out_write(tarn__out *out, const void *data, size_t len, tarn_error *err)
{
    const unsigned char *at = data;
    while (len) {
        size_t n = CAPACITY - out->used;
        if (n > len) n = len;
        memcpy(out->buffer + out->used, at, n);
        out->used += n;
        at += n;
        len -= n;
        if (out->used == CAPACITY) TARN_TRY(flush_buffer(out, err));
    }
    return TARN_OK;
}

tarn_status tarn__out_zeros(tarn__out *out, size_t len, tarn_error *err)
{
    unsigned char *room;
    while (len) {
        size_t n = len < TARN__OUT_ROOM ? len : TARN__OUT_ROOM;
        TARN_TRY(tarn__out_room(out, n, &room, err));
        memset(room, 0, n);
        out->used += n;
        len -= n;
    }
    return TARN_OK;
}

/* Reads a block back, bypassing the page cache if it was written that way. */
static tarn_status read_block(tarn__out *out, uint64_t at, tarn_error *err)
{
    tarn_error why;
    tarn__publish *p = &out->file;
    tarn_status status =
        tarn__read_exact(p->fd, p->temporary, out->buffer, ALIGN, at, &why);
    if (status != TARN_OK && give_up_direct(out, &why))
        status = tarn__read_exact(p->fd, p->temporary, out->buffer, ALIGN, at, &why);
    if (status != TARN_OK && err) *err = why;
    return status;
}

tarn_status tarn__out_rewind(tarn__out *out, uint64_t size, tarn_error *err)
{
    if (size >= out->flushed) {
        out->used = (size_t)(size - out->flushed);
        return TARN_OK;
    }
    if (out->sink)
        return tarn__fail(
            err, TARN_ERR_IO,
            "data that was already sent cannot be taken back; the output is "
            "abandoned");
    TARN_TRY(wait_for_thread(out, err));
    /* If the last block that is kept is not full, it is written again with the bytes
     * after it. */
    uint64_t from = size & ~(uint64_t)(ALIGN - 1);
    if (size > from) TARN_TRY(read_block(out, from, err));
    out->flushed = from;
    out->used = (size_t)(size - from);
    return TARN_OK;
}

/* Writes the rest as whole blocks, then truncates the file to its length. */
static tarn_status complete_file(tarn__out *out, tarn_error *err)
{
    TARN_TRY(wait_for_thread(out, err));
    uint64_t size = tarn__out_size(out);
    size_t len = (out->used + ALIGN - 1) / ALIGN * ALIGN;
    memset(out->buffer + out->used, 0, len - out->used);
    if (len) TARN_TRY(write_file(out, out->buffer, len, out->flushed, err));
    if (ftruncate(out->file.fd, (off_t)size) != 0)
        return tarn__fail_errno(err, out->file.temporary, errno, "cannot set the length");
    out->file.written = size;
    return TARN_OK;
}

static tarn_status finish_file(tarn__out *out, int64_t *out_mtime_ns, tarn_error *err)
{
    struct stat st;
    TARN_TRY(complete_file(out, err));
    if (out_mtime_ns) {
        if (fstat(out->file.fd, &st) != 0)
            return tarn__fail_errno(err, out->file.temporary, errno, "cannot stat");
        *out_mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    }
    return tarn__publish_finish(&out->file, err);
}

static tarn_status finish_sink(tarn__out *out, tarn_error *err)
{
    if (out->used) TARN_TRY(flush_sink(out, out->used, err));
    tarn_sink *sink = out->sink;
    out->sink = NULL;
    return tarn_sink_finish(sink, err);
}

tarn_status tarn__out_finish(tarn__out *out, int64_t *out_mtime_ns, tarn_error *err)
{
    tarn_status status = flush_buffer(out, err);
    if (status == TARN_OK)
        status = out->sink ? finish_sink(out, err) : finish_file(out, out_mtime_ns, err);
    tarn__out_abandon(out);
    return status;
}

void tarn__out_abandon(tarn__out *out)
{
    (void)!wait_for_thread(out, NULL);
    if (out->sink) tarn_sink_abandon(out->sink);
    if (out->file.final) tarn__publish_abandon(&out->file);
    begin_output(out);
}

void tarn__out_reset(tarn__out *out)
{
    tarn__out_abandon(out);
    tarn__flusher_free(out->flusher);
    free(out->buffer);
    free(out->other);
    *out = (tarn__out){.file = {.fd = -1}};
}
