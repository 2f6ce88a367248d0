/* Zstandard data, decoded by libzstd and held to more than it asks for. */
#ifndef TARN_BASE_ZSTD_H
#define TARN_BASE_ZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zstd.h>

/* Whether a frame begins here, or one to be skipped; of fewer than four bytes, whether
 * they could be the first of one. Formats from before 0.8, which libzstd may still read,
 * know no limit of their windows, and nobody writes them. */
bool tarn__zstd_begins(const void *data, size_t size);

/* The largest window that so many bytes of data may want, as a power of two. Windows are
 * asked for by a few bytes, and are memory at once: small data, which any file may have,
 * get half of what such a file may cost, other data what the zstd program takes without
 * being asked. */
int tarn__zstd_window(size_t size);

typedef struct tarn__zstd {
    ZSTD_DCtx *context;
    uint64_t window;        /* the largest, in bytes */
    bool inside;            /* of a frame */
    uint64_t promise, made; /* its bytes; UINT64_MAX if it does not tell how many */
} tarn__zstd;

/* With windows of up to 2^window bytes. False if there is no memory. */
bool tarn__zstd_open(tarn__zstd *zstd, int window);
void tarn__zstd_close(tarn__zstd *zstd);

/* As ZSTD_decompressStream, whose errors it returns, also for data that are no frame, for
 * a frame that has not as many bytes as it says (libzstd does not look if the last block
 * is empty), and for a window that is too large (nor if there is room for all the data).
 * A frame's first 18 bytes have to come at once for that. */
size_t tarn__zstd_step(tarn__zstd *zstd, ZSTD_outBuffer *out, ZSTD_inBuffer *in);

#endif
