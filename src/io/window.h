/* A window that slides forward over a file or a source: code that reads one from front to
 * back asks for a few bytes at an offset and gets a pointer.
 *
 * The fastest way to fetch the bytes depends on the access pattern: large reads if the
 * requested offsets are close together, direct streaming past the page cache if the file
 * is not in it, a map if every byte of a cached local file is wanted. If the offsets are
 * far apart, either a small read for each or a map is fastest, depending on how the file
 * came into the page cache; so both are tried and timed.
 *
 * A source is read forward through one buffer; bytes that the window has passed are gone.
 * Its size is TARN__SIZE_UNKNOWN until its end is reached: see window_source.c. */
#ifndef TARN_IO_WINDOW_H
#define TARN_IO_WINDOW_H

#include <tarn/source.h>

#include "io/file.h"

#define TARN__SIZE_UNKNOWN UINT64_MAX
/* How far ahead a source is read while the bytes read are kept. */
#define TARN__LOOK_AHEAD (16u << 20)
#define TARN__MAX_GET    (2u << 20) /* bytes requested at once */

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
    bool shared; /* the buffer is shared memory */
    void *map;
    int direct_fd;   /* -1 unless streaming past the page cache */
    size_t fetch;    /* bytes to read at a miss */
    uint64_t last;   /* the previous miss, to learn how far apart requests are */
    uint64_t gets;   /* requests since then */
    uint64_t spread; /* distance between requests, as a moving mean */
    bool hop;
    unsigned way;   /* for requests far apart: see window.c */
    unsigned tried; /* misses in the current trial */
    double began, read_time;
    tarn_source *source; /* NULL: a file */
    uint64_t *size;      /* of the source; set when its end is reached */
    uint64_t keep;       /* bytes of the source from here on are kept */
    bool failing;        /* the source has failed, with failure */
    bool failed;         /* and all bytes before the failure were used */
    tarn_error failure;
} tarn__window;

TARN_CHECKED tarn_status tarn__window_open(tarn__window *window, const tarn__file *file,
                                           tarn__window_use use, tarn_error *err);
void tarn__window_close(tarn__window *window);

/* Opens a window over a source, which the caller keeps. file has its name, and gets its
 * size when the end is reached. */
TARN_CHECKED tarn_status tarn__window_open_source(tarn__window *window, tarn__file *file,
                                                  tarn_source *source, tarn_error *err);

/* Bytes read from a source at once. A larger value would delay the first members of a
 * slow source without a benefit; tests make it small, to hit every boundary. */
extern size_t tarn__window_chunk;

/* From now on all bytes of the source at or after offset stay available, up to
 * TARN__LOOK_AHEAD bytes: a request beyond that is TARN_ERR_LIMIT, while failed stays
 * false. TARN_NO_OFFSET ends this. */
void tarn__window_keep(tarn__window *window, uint64_t offset);

TARN_CHECKED tarn_status tarn__window_fetch(tarn__window *window, uint64_t offset,
                                            size_t len, tarn_error *err);

/* *out points to len bytes of the file at offset, until the next call. The range must be
 * inside file->size, and len at most TARN__MAX_GET. TARN_END if a source ends before the
 * last byte; then file->size is known. */
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

/* As many of the want bytes at offset as are available in one step, at least one.
 * TARN_END if there is none. */
TARN_CHECKED tarn_status tarn__window_some(tarn__window *window, uint64_t offset,
                                           uint64_t want, const unsigned char **out,
                                           size_t *out_len, tarn_error *err);

/* Copies len bytes. TARN_END if there are fewer. */
TARN_CHECKED tarn_status tarn__window_read(tarn__window *window, uint64_t offset,
                                           void *buf, size_t len, tarn_error *err);

/* The same for a source; used only inside this folder. */
TARN_CHECKED tarn_status tarn__window_fetch_source(tarn__window *window, uint64_t offset,
                                                   size_t len, tarn_error *err);
TARN_CHECKED tarn_status tarn__window_read_source(tarn__window *window, uint64_t offset,
                                                  void *buf, size_t len, tarn_error *err);

#endif
