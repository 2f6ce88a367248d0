/* Buffered output, past the page cache where that is faster. */
#include "io/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"

enum {
    ALIGN = 4096, /* of direct writes: position, length and memory */
    FLUSH = 8 << 20,
    CAPACITY = FLUSH + TARN__OUT_ROOM,
};
/* Space is taken in steps as large as the file is already, within these bounds. */
static const uint64_t LEAST_AHEAD = 64u << 20, MOST_AHEAD = 1u << 30;

static tarn_status take_buffer(tarn__out *out, tarn_error *err)
{
    if (!out->buffer) out->buffer = aligned_alloc(ALIGN, CAPACITY);
    return out->buffer ? TARN_OK : tarn__fail_memory(err);
}

static void begin(tarn__out *out)
{
    unsigned char *buffer = out->buffer;
    *out = (tarn__out){.buffer = buffer, .file = {.fd = -1}};
}

static bool set_direct(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 &&
           fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

tarn_status tarn__out_file(tarn__out *out, const char *path,
                           const tarn_sink_options *options, tarn_error *err)
{
    begin(out);
    TARN_TRY(take_buffer(out, err));
    TARN_TRY(tarn__publish_begin(&out->file, path, err));
    out->file.no_sync = options->no_sync;
    out->file.keep_existing = !options->overwrite;
    out->direct = !options->no_sync && set_direct(out->file.fd, true);
    return TARN_OK;
}

tarn_status tarn__out_sink(tarn__out *out, tarn_sink *sink, tarn_error *err)
{
    begin(out);
    out->sink = sink;
    tarn_status status = take_buffer(out, err);
    if (status != TARN_OK) tarn__out_abandon(out);
    return status;
}

/* Takes space for what is about to be written and some more. Only the lack of space for
 * the former is an error, and the write will tell it. */
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

static tarn_status write_file(tarn__out *out, size_t len, tarn_error *err)
{
    tarn_status status =
        tarn__publish_write_at(&out->file, out->buffer, len, out->flushed, err);
    if (status == TARN_OK || !out->direct || errno != EINVAL) return status;
    /* Some file systems take the flag and refuse the write. */
    out->direct = false;
    set_direct(out->file.fd, false);
    return tarn__publish_write_at(&out->file, out->buffer, len, out->flushed, err);
}

static tarn_status flush(tarn__out *out, size_t len, tarn_error *err)
{
    if (out->sink) {
        TARN_TRY(tarn_sink_write(out->sink, out->buffer, len, err));
    } else {
        allocate_ahead(out, out->flushed + len);
        TARN_TRY(write_file(out, len, err));
    }
    out->flushed += len;
    out->used -= len;
    memmove(out->buffer, out->buffer + len, out->used);
    return TARN_OK;
}

tarn_status tarn__out_flush(tarn__out *out, tarn_error *err)
{
    while (out->used >= FLUSH)
        TARN_TRY(flush(out, FLUSH, err));
    return TARN_OK;
}

tarn_status tarn__out_room(tarn__out *out, size_t len, unsigned char **room,
                           tarn_error *err)
{
    if (len > CAPACITY - out->used) TARN_TRY(tarn__out_flush(out, err));
    *room = out->buffer + out->used;
    return TARN_OK;
}

tarn_status tarn__out_space(tarn__out *out, unsigned char **space, size_t *out_len,
                            tarn_error *err)
{
    if (out->used == CAPACITY) TARN_TRY(tarn__out_flush(out, err));
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
        if (out->used == CAPACITY) TARN_TRY(tarn__out_flush(out, err));
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

tarn_status tarn__out_rewind(tarn__out *out, uint64_t size, tarn_error *err)
{
    if (size >= out->flushed) {
        out->used = (size_t)(size - out->flushed);
        return TARN_OK;
    }
    if (out->sink)
        return tarn__fail(err, TARN_ERR_IO,
                          "what was sent already cannot be taken back; the output is "
                          "given up");
    /* The last block that stays, if not whole, is written again with what follows it. */
    uint64_t from = size & ~(uint64_t)(ALIGN - 1);
    if (size > from)
        TARN_TRY(tarn__read_exact(out->file.fd, out->file.temporary, out->buffer, ALIGN,
                                  from, err));
    out->flushed = from;
    out->used = (size_t)(size - from);
    return TARN_OK;
}

/* The rest is written as whole blocks, and the file cut to its length. */
static tarn_status complete_file(tarn__out *out, tarn_error *err)
{
    uint64_t size = tarn__out_size(out);
    size_t len = (out->used + ALIGN - 1) / ALIGN * ALIGN;
    memset(out->buffer + out->used, 0, len - out->used);
    if (len) TARN_TRY(write_file(out, len, err));
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
    if (out->used) TARN_TRY(flush(out, out->used, err));
    tarn_sink *sink = out->sink;
    out->sink = NULL;
    return tarn_sink_finish(sink, err);
}

tarn_status tarn__out_finish(tarn__out *out, int64_t *out_mtime_ns, tarn_error *err)
{
    tarn_status status = tarn__out_flush(out, err);
    if (status == TARN_OK)
        status = out->sink ? finish_sink(out, err) : finish_file(out, out_mtime_ns, err);
    tarn__out_abandon(out);
    return status;
}

void tarn__out_abandon(tarn__out *out)
{
    if (out->sink) tarn_sink_abandon(out->sink);
    if (out->file.final) tarn__publish_abandon(&out->file);
    begin(out);
}

void tarn__out_reset(tarn__out *out)
{
    tarn__out_abandon(out);
    free(out->buffer);
    out->buffer = NULL;
}
