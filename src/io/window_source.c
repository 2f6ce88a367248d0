/* The window over a source: one buffer that moves forward. Bytes before the requested
 * offset are dropped, unless the caller keeps them to look ahead. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/window.h"

size_t tarn__window_chunk = 256 << 10;

tarn_status tarn__window_open_source(tarn__window *w, tarn__file *file,
                                     tarn_source *source, tarn_error *err)
{
    *w = (tarn__window){.file = file,
                        .direct_fd = -1,
                        .source = source,
                        .size = &file->size,
                        .keep = TARN_NO_OFFSET};
    file->size = TARN__SIZE_UNKNOWN;
    w->buffer = malloc(tarn__window_chunk);
    if (!w->buffer) return tarn__fail_memory(err);
    w->capacity = tarn__window_chunk;
    w->data = w->buffer;
    return TARN_OK;
}

void tarn__window_keep(tarn__window *w, uint64_t offset)
{
    w->keep = offset;
}

/* Whether the bytes that came before this failure can be used: if the source ended too
 * early. Bytes of a damaged compressed stream may be wrong. */
static bool ended_early(tarn_status status)
{
    return status == TARN_ERR_TRUNCATED || status == TARN_ERR_IO;
}

/* Reads len bytes at w->end, or fewer: at the end of the source, or if it fails, and then
 * the next call returns the failure. */
static tarn_status read_on(tarn__window *w, void *buf, size_t len, size_t *out_got,
                           tarn_error *err)
{
    *out_got = 0;
    if (!w->failing && !w->failed) {
        if (*w->size != TARN__SIZE_UNKNOWN) return TARN_OK;
        tarn_status status = tarn_source_read(w->source, buf, len, out_got, &w->failure);
        if (status == TARN_OK) {
            if (*out_got < len) *w->size = w->end + *out_got;
            return TARN_OK;
        }
        w->failing = true;
        if (ended_early(status) && *out_got) return TARN_OK;
    }
    w->failed = true;
    *out_got = 0;
    if (err) *err = w->failure;
    return w->failure.code;
}

/* Moves an empty window forward to offset. */
static tarn_status skip_to(tarn__window *w, uint64_t offset, tarn_error *err)
{
    while (w->end < offset) {
        uint64_t left = offset - w->end;
        size_t got, want = left < w->capacity ? (size_t)left : w->capacity;
        TARN_TRY(read_on(w, w->buffer, want, &got, err));
        if (got == 0) return TARN_END;
        w->start = w->end = w->end + got;
    }
    return TARN_OK;
}

/* Makes room for size bytes at from. Earlier bytes are dropped only if there is no other
 * room, so that looking ahead step by step does not move the data each time. */
static tarn_status make_room(tarn__window *w, uint64_t from, size_t size, tarn_error *err)
{
    if (from <= w->end && from - w->start + size <= w->capacity) return TARN_OK;
    size_t kept = from < w->end ? (size_t)(w->end - from) : 0;
    if (kept) memmove(w->buffer, w->buffer + (from - w->start), kept);
    w->start = kept ? from : w->end;
    if (size <= w->capacity) return TARN_OK;
    size_t capacity = w->capacity;
    while (capacity < size)
        capacity *= 2;
    unsigned char *grown = realloc(w->buffer, capacity);
    if (!grown) return tarn__fail_memory(err);
    w->data = w->buffer = grown;
    w->capacity = capacity;
    return TARN_OK;
}

static tarn_status fill_window(tarn__window *w, uint64_t end, tarn_error *err)
{
    while (w->end < end) {
        size_t used = (size_t)(w->end - w->start), got;
        size_t room = w->capacity - used, want = (size_t)(end - w->end);
        if (want < tarn__window_chunk)
            want = tarn__window_chunk < room ? tarn__window_chunk : room;
        if (*w->size != TARN__SIZE_UNKNOWN) return TARN_END;
        TARN_TRY(read_on(w, w->buffer + used, want, &got, err));
        w->end += got;
    }
    return TARN_OK;
}

tarn_status tarn__window_fetch_source(tarn__window *w, uint64_t offset, size_t len,
                                      tarn_error *err)
{
    uint64_t from = offset;
    if (w->keep < from) from = w->keep > w->start ? w->keep : w->start;
    if (offset < w->start || len > TARN__MAX_GET)
        return tarn__fail_at(err, TARN_ERR_USAGE, w->file->path, offset,
                             "a stream can only be read forward");
    if (offset - from > TARN__LOOK_AHEAD) {
        /* The source may end earlier, which is worth knowing. */
        TARN_TRY(make_room(w, from, TARN__LOOK_AHEAD, err));
        TARN_TRY(fill_window(w, from + TARN__LOOK_AHEAD, err));
        return tarn__fail_at(err, TARN_ERR_LIMIT, w->file->path, offset,
                             "the offset is too far ahead in a stream");
    }
    TARN_TRY(make_room(w, from, (size_t)(offset + len - from), err));
    if (from > w->end) TARN_TRY(skip_to(w, from, err));
    return fill_window(w, offset + len, err);
}

tarn_status tarn__window_read_source(tarn__window *w, uint64_t offset, void *buf,
                                     size_t len, tarn_error *err)
{
    size_t done = 0, got;
    while (done < len) {
        /* Large payloads are read directly to the caller's memory, once the buffer is
         * used up. */
        if (offset + done == w->end && len - done >= tarn__window_chunk &&
            w->keep == TARN_NO_OFFSET) {
            TARN_TRY(read_on(w, (char *)buf + done, len - done, &got, err));
            if (got == 0) return TARN_END;
            w->start = w->end = w->end + got;
            done += got;
            continue;
        }
        const unsigned char *data;
        TARN_TRY(tarn__window_some(w, offset + done, len - done, &data, &got, err));
        memcpy((char *)buf + done, data, got);
        done += got;
    }
    return TARN_OK;
}
