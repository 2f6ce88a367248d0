/* Decoding of Zstandard frames; the limits and checks are described in zstd.h. */
#include "base/zstd.h"

#include <string.h>

#include <zstd_errors.h>

enum { SMALL = 1 << 20, SMALL_WINDOW = 25, WINDOW = 27 };

bool tarn__zstd_begins(const void *data, size_t size)
{
    const unsigned char *at = data;
    size_t n = size < 4 ? size : 4;
    if (n == 0 || memcmp(at, "\x28\xb5\x2f\xfd", n) == 0) return true;
    return (at[0] & 0xf0) == 0x50 && memcmp(at + 1, "\x2a\x4d\x18", n - 1) == 0;
}

int tarn__zstd_window(size_t size)
{
    return size < SMALL ? SMALL_WINDOW : WINDOW;
}

bool tarn__zstd_open(tarn__zstd *z, int window)
{
    *z = (tarn__zstd){.context = ZSTD_createDCtx(), .window = UINT64_C(1) << window};
    if (z->context) ZSTD_DCtx_setParameter(z->context, ZSTD_d_windowLogMax, window);
    return z->context != NULL;
}

void tarn__zstd_close(tarn__zstd *z)
{
    ZSTD_freeDCtx(z->context);
}

static uint64_t content_size(const void *data, size_t size)
{
    unsigned long long size_in_header = ZSTD_getFrameContentSize(data, size);
    return size_in_header == ZSTD_CONTENTSIZE_UNKNOWN ||
                   size_in_header == ZSTD_CONTENTSIZE_ERROR
               ? UINT64_MAX
               : size_in_header;
}

/* 0 if there is no window: a skippable frame, or too little of a frame. */
static uint64_t window_of(const unsigned char *frame, size_t size, uint64_t whole)
{
    enum { DESCRIPTOR = 4, SINGLE_SEGMENT = 0x20 };
    if (size < DESCRIPTOR + 2 || frame[0] != 0x28) return 0;
    if (frame[DESCRIPTOR] & SINGLE_SEGMENT) return whole == UINT64_MAX ? 0 : whole;
    unsigned exponent = frame[DESCRIPTOR + 1] >> 3, eighths = frame[DESCRIPTOR + 1] & 7;
    uint64_t base = UINT64_C(1) << (10 + exponent);
    return base + base / 8 * eighths;
}

static size_t error_code(ZSTD_ErrorCode code)
{
    return (size_t)0 - (size_t)code;
}

static size_t begin_frame(tarn__zstd *z, const unsigned char *at, size_t size)
{
    if (!tarn__zstd_begins(at, size)) return error_code(ZSTD_error_prefix_unknown);
    z->inside = true;
    z->promise = content_size(at, size);
    z->made = 0;
    return window_of(at, size, z->promise) > z->window
               ? error_code(ZSTD_error_frameParameter_windowTooLarge)
               : 0;
}

size_t tarn__zstd_step(tarn__zstd *z, ZSTD_outBuffer *out, ZSTD_inBuffer *in)
{
    size_t before = out->pos, code = 0;
    if (!z->inside && in->pos < in->size)
        code =
            begin_frame(z, (const unsigned char *)in->src + in->pos, in->size - in->pos);
    if (code != 0) return code;
    code = ZSTD_decompressStream(z->context, out, in);
    z->made += out->pos - before;
    if (code != 0) return code;
    z->inside = false;
    return z->promise == UINT64_MAX || z->promise == z->made
               ? 0
               : error_code(ZSTD_error_corruption_detected);
}
