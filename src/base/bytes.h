/* Little-endian integers at any alignment. */
#ifndef TARN_BASE_BYTES_H
#define TARN_BASE_BYTES_H

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

#endif
