/* The inner loops of resizing in AVX-512, with its sums of 16-bit products (VNNI). */
#include "codec/pixels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX512 __attribute__((target("avx2,avx512f,avx512bw,avx512vnni")))
#define INLINE AVX512 static inline __attribute__((always_inline))
#define VECTOR __m512i
#define V(op)  _mm512_##op
#define PARTS  4

bool tarn__avx512_there(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni") &&
           tarn__avx2_there();
}

INLINE __m512i load(const unsigned char *p)
{
    return _mm512_loadu_si512(p);
}

INLINE void store(unsigned char *p, __m512i v)
{
    _mm512_storeu_si512(p, v);
}

INLINE __m512i repeat(__m128i v)
{
    return _mm512_broadcast_i32x4(v);
}

INLINE __m128i part(__m512i v, int k)
{
    return k == 0   ? _mm512_castsi512_si128(v)
           : k == 1 ? _mm512_extracti32x4_epi32(v, 1)
           : k == 2 ? _mm512_extracti32x4_epi32(v, 2)
                    : _mm512_extracti32x4_epi32(v, 3);
}

INLINE __m512i load_rows(const unsigned char *p, size_t stride)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + stride)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 2 * stride)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 3 * stride)), 3);
}

INLINE __m512i add_products(__m512i sum, __m512i pairs, __m512i weights)
{
    return _mm512_dpwssd_epi32(sum, pairs, weights);
}

#include "codec/pixels_loops.h"

AVX512 void tarn__across_avx512(const tarn__axis *axis, const unsigned char *lines,
                                size_t line_stride, unsigned channels, unsigned char *out,
                                size_t stride)
{
    if (channels == 1)
        tarn__across_avx2(axis, lines, line_stride, channels, out, stride);
    else
        across_colours(axis, lines, line_stride, channels, out, stride);
}

AVX512 void tarn__down_avx512(const unsigned char *rows, size_t stride, uint32_t count,
                              const int16_t *high, const int16_t *low, size_t bytes,
                              unsigned char *out)
{
    if (bytes < sizeof(VECTOR))
        tarn__down_avx2(rows, stride, count, high, low, bytes, out);
    else
        down_columns(rows, stride, count, high, low, bytes, out);
}

#else

bool tarn__avx512_there(void)
{
    return false;
}

void tarn__across_avx512(const tarn__axis *axis, const unsigned char *lines,
                         size_t line_stride, unsigned channels, unsigned char *out,
                         size_t stride)
{
    tarn__across_avx2(axis, lines, line_stride, channels, out, stride);
}

void tarn__down_avx512(const unsigned char *rows, size_t stride, uint32_t count,
                       const int16_t *high, const int16_t *low, size_t bytes,
                       unsigned char *out)
{
    tarn__down_avx2(rows, stride, count, high, low, bytes, out);
}

#endif
