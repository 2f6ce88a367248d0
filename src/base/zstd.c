#include "base/zstd.h"

#include <string.h>

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
