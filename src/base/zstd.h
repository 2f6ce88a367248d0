/* Zstandard decoding with libzstd, with stricter checks than libzstd's own. */
#ifndef TARN_BASE_ZSTD_H
#define TARN_BASE_ZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zstd.h>

/* Whether a frame, or a skippable frame, begins here; for fewer than four bytes, whether
 * they could begin one. Formats from before 0.8, which libzstd may still read, are
 * rejected: their windows have no limit, and no current program writes them. */
bool tarn__zstd_begins(const void *data, size_t size);

/* The largest window that size bytes of data may ask for, as a power of two. A window is
 * requested by a few bytes and allocated at once. Small data, which any file may contain,
 * gets half of what such a file may cost; other data gets the default limit of the zstd
 * program. */
int tarn__zstd_window(size_t size);

typedef struct tarn__zstd {
    ZSTD_DCtx *context;
    uint64_t window;        /* the largest, in bytes */
    bool inside;            /* a frame */
    uint64_t promise, made; /* bytes of the frame; UINT64_MAX if the header does not
                               say */
} tarn__zstd;

/* Allows windows of up to 2^window bytes. False if out of memory. */
bool tarn__zstd_open(tarn__zstd *zstd, int window);
void tarn__zstd_close(tarn__zstd *zstd);

/* Like ZSTD_decompressStream, and returns its errors. It also returns an error for data
 * that is not a frame, for a frame whose length differs from the one in its header
 * (libzstd does not check this if the last block is empty), and for a window that is too
 * large (libzstd does not check this if there is room for all the data). The first 18
 * bytes of a frame must come in one call for that. */
size_t tarn__zstd_step(tarn__zstd *zstd, ZSTD_outBuffer *out, ZSTD_inBuffer *in);

#endif
