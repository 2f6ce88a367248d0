/* Little-endian integers at any alignment. */
#ifndef TARN_BASE_BYTES_H
#define TARN_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tarn runs on little-endian machines only"
#endif

#define TARN__BYTES(bits)                                                                \
    static inline uint##bits##_t tarn__get##bits(const void *p)                          \
    {                                                                                    \
        uint##bits##_t v;                                                                \
        memcpy(&v, p, sizeof v);                                                         \
        return v;                                                                        \
    }                                                                                    \
    static inline void tarn__put##bits(void *p, uint##bits##_t v)                        \
    {                                                                                    \
        memcpy(p, &v, sizeof v);                                                         \
    }

TARN__BYTES(16)
TARN__BYTES(32)
TARN__BYTES(64)
#undef TARN__BYTES

/* An unsigned integer of width bytes: 1, 2, 4 or 8. */
static inline uint64_t tarn__get_uint(const void *p, unsigned width)
{
    return width == 4   ? tarn__get32(p)
           : width == 8 ? tarn__get64(p)
           : width == 2 ? tarn__get16(p)
                        : *(const unsigned char *)p;
}

/* The index of the first byte that is not zero, or len. */
static inline size_t tarn__zero_span(const unsigned char *data, size_t len)
{
    size_t i = 0;
    while (i + 32 <= len &&
           (tarn__get64(data + i) | tarn__get64(data + i + 8) |
            tarn__get64(data + i + 16) | tarn__get64(data + i + 24)) == 0)
        i += 32;
    while (i < len && data[i] == 0)
        i++;
    return i;
}

#endif
