/* A window that slides forward over a file: whoever walks a file from front to back asks
 * it for a few bytes at an offset and gets a pointer.
 *
 * How the bytes are fetched depends on what is fastest: large reads where the places
 * asked for lie close together, direct streaming past the page cache where the file is
 * not in it, a map where every byte of a cached local file is wanted. Where the places
 * lie far apart, a small read each or a map: which of the two wins depends on how the
 * file came into the page cache, so both are tried and timed. */
#ifndef TARN_IO_WINDOW_H
#define TARN_IO_WINDOW_H

#include "io/file.h"

typedef enum tarn__window_use {
    TARN__WINDOW_HOP, /* headers only, payloads are skipped */
    TARN__WINDOW_ALL  /* every byte */
} tarn__window_use;

typedef struct tarn__window {
    const unsigned char *data; /* the bytes [start, end) of the file */
    uint64_t start, end;
    const tarn__file *file;
    unsigned char *buffer;
    size_t capacity;
    bool shared; /* the buffer is */
    void *map;
    int direct_fd;   /* -1 unless streaming past the page cache */
    size_t fetch;    /* bytes to read at a miss */
    uint64_t last;   /* the previous miss, to learn how far apart places are */
    uint64_t gets;   /* calls answered since then */
    uint64_t spread; /* how far apart they are, as a moving mean */
    bool hop;
    unsigned way;   /* for places far apart: see window.c */
    unsigned tried; /* misses in the trial under way */
    double began, read_time;
} tarn__window;

TARN_CHECKED tarn_status tarn__window_open(tarn__window *window, const tarn__file *file,
                                           tarn__window_use use, tarn_error *err);
void tarn__window_close(tarn__window *window);

TARN_CHECKED tarn_status tarn__window_fetch(tarn__window *window, uint64_t offset,
                                            size_t len, tarn_error *err);

/* *out points at len bytes of the file at offset, until the next call. The range must lie
 * inside file->size, and len be at most 2 MiB. */
TARN_CHECKED static inline tarn_status tarn__window_get(tarn__window *window,
                                                        uint64_t offset, size_t len,
                                                        const unsigned char **out,
                                                        tarn_error *err)
{
    if (offset < window->start || offset + len > window->end)
        TARN_TRY(tarn__window_fetch(window, offset, len, err));
    window->gets++;
    *out = window->data + (offset - window->start);
    return TARN_OK;
}

/* How many bytes a caller who wants them all should ask for at once at offset. */
size_t tarn__window_stride(const tarn__window *window, uint64_t offset, uint64_t want);

#endif
