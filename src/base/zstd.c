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

static uint64_t promise(const void *data, size_t size)
{
    unsigned long long told = ZSTD_getFrameContentSize(data, size);
    return told == ZSTD_CONTENTSIZE_UNKNOWN || told == ZSTD_CONTENTSIZE_ERROR ? UINT64_MAX
                                                                              : told;
}

static size_t error_code(ZSTD_ErrorCode code)
{
    return (size_t)0 - (size_t)code;
}

size_t tarn__zstd_step(tarn__zstd *z, ZSTD_outBuffer *out, ZSTD_inBuffer *in)
{
    if (!z->inside && in->pos < in->size) {
        const unsigned char *at = (const unsigned char *)in->src + in->pos;
        if (!tarn__zstd_begins(at, in->size - in->pos))
            return error_code(ZSTD_error_prefix_unknown);
        z->inside = true;
        z->promise = promise(at, in->size - in->pos);
        z->made = 0;
    }
    size_t before = out->pos, code = ZSTD_decompressStream(z->context, out, in);
    z->made += out->pos - before;
    if (code != 0) return code;
    z->inside = false;
    return z->promise == UINT64_MAX || z->promise == z->made
               ? 0
               : error_code(ZSTD_error_corruption_detected);
}
