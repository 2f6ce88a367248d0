/* The inner loops of resizing and of conversion to floats in AVX2. */
#include "codec/pixels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))
#define VECTOR __m256i
#define V(op)  _mm256_##op
#define PARTS  2

bool tarn__avx2_there(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

INLINE __m256i load(const unsigned char *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE void store(unsigned char *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

INLINE __m256i repeat(__m128i v)
{
    return _mm256_broadcastsi128_si256(v);
}

INLINE __m128i part(__m256i v, int k)
{
    return k == 0 ? _mm256_castsi256_si128(v) : _mm256_extracti128_si256(v, 1);
}

INLINE __m256i load_rows(const unsigned char *p, size_t stride)
{
    __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p));
    return _mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *)(p + stride)), 1);
}

INLINE __m256i add_products(__m256i sum, __m256i pairs, __m256i weights)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, weights));
}

#include "codec/pixels_loops.h"

AVX2 static inline int32_t sum_of(__m128i v)
{
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return _mm_cvtsi128_si32(v);
}

AVX2 static void grey(const tarn__axis *axis, const unsigned char *line,
                      unsigned char *out)
{
    for (uint32_t i = 0; i < axis->size; i++) {
        const int16_t *high = axis->high + (size_t)i * axis->taps;
        const int16_t *low = axis->low + (size_t)i * axis->taps;
        const unsigned char *p = line + (axis->start[i] - axis->first);
        __m128i highs = _mm_setzero_si128(), lows = highs;
        for (uint32_t t = 0; t < axis->count[i]; t += 8) {
            __m128i v = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(p + t)));
            highs = _mm_add_epi32(
                highs, _mm_madd_epi16(v, _mm_loadu_si128((const __m128i *)(high + t))));
            lows = _mm_add_epi32(
                lows, _mm_madd_epi16(v, _mm_loadu_si128((const __m128i *)(low + t))));
        }
        int32_t sum = sum_of(_mm_add_epi32(_mm_slli_epi32(highs, TARN__LOW_BITS), lows));
        sum = (sum + (1 << (TARN__WEIGHT_BITS - 1))) >> TARN__WEIGHT_BITS;
        out[i] = (unsigned char)(sum > 255 ? 255 : sum);
    }
}

AVX2 void tarn__across_avx2(const tarn__axis *axis, const unsigned char *lines,
                            size_t line_stride, unsigned channels, unsigned char *out,
                            size_t stride)
{
    if (channels > 1)
        across_colours(axis, lines, line_stride, channels, out, stride);
    else
        for (unsigned r = 0; r < TARN__ROWS; r++)
            grey(axis, lines + r * line_stride, out + r * stride);
}

/* Fewer columns than a vector has bytes. */
static void few_columns(const unsigned char *rows, size_t stride, uint32_t count,
                        const int16_t *high, const int16_t *low, size_t bytes,
                        unsigned char *out)
{
    for (size_t x = 0; x < bytes; x++) {
        int32_t highs = 0, lows = 1 << (TARN__WEIGHT_BITS - 1);
        for (uint32_t t = 0; t < count; t++) {
            highs += high[t] * rows[t * stride + x];
            lows += low[t] * rows[t * stride + x];
        }
        int32_t v = (highs * (1 << TARN__LOW_BITS) + lows) >> TARN__WEIGHT_BITS;
        out[x] = (unsigned char)(v > 255 ? 255 : v);
    }
}

AVX2 void tarn__down_avx2(const unsigned char *rows, size_t stride, uint32_t count,
                          const int16_t *high, const int16_t *low, size_t bytes,
                          unsigned char *out)
{
    if (bytes < sizeof(VECTOR))
        few_columns(rows, stride, count, high, low, bytes, out);
    else
        down_columns(rows, stride, count, high, low, bytes, out);
}

/* --- Floats --------------------------------------------------------------------- */

#define AVX2_FMA __attribute__((target("avx2,fma")))

/* A quotient computed with the reciprocal, corrected to equal that of a division. */
AVX2_FMA static inline __m256 divided(__m256 v, __m256 by, __m256 reciprocal)
{
    __m256 q = _mm256_mul_ps(v, reciprocal);
    return _mm256_fmadd_ps(_mm256_fnmadd_ps(q, by, v), reciprocal, q);
}

/* The parameters of a channel; loaded once, because the compiler must assume that stores
 * change floats. */
typedef struct channel {
    __m128i begin, end; /* its position in the first and the last 16 bytes of 24 */
    __m256 mean, std, by_std;
} channel;

AVX2_FMA static inline channel channel_of(__m128i begin, __m128i end, float mean,
                                          float std)
{
    return (channel){begin, end, _mm256_set1_ps(mean), _mm256_set1_ps(std),
                     _mm256_set1_ps(1.0f / std)};
}

AVX2_FMA static inline void put_eight(const channel *c, __m128i low, __m128i high,
                                      __m128i order, float *out)
{
    __m128i bytes =
        _mm_or_si128(_mm_shuffle_epi8(low, c->begin), _mm_shuffle_epi8(high, c->end));
    bytes = _mm_shuffle_epi8(bytes, order);
    __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    __m256 part = divided(v, _mm256_set1_ps(255), _mm256_set1_ps(1.0f / 255));
    __m256 centred = _mm256_sub_ps(part, c->mean);
    _mm256_storeu_ps(out, divided(centred, c->std, c->by_std));
}

AVX2_FMA size_t tarn__planes_avx2(const unsigned char *row, size_t width, bool flip,
                                  const float *mean, const float *std, float *out,
                                  size_t plane)
{
    const channel red = channel_of(
        _mm_setr_epi8(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
        _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1),
        mean[0], std[0]);
    const channel green = channel_of(
        _mm_setr_epi8(1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
        _mm_setr_epi8(-1, -1, -1, -1, -1, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1),
        mean[1], std[1]);
    const channel blue = channel_of(
        _mm_setr_epi8(2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
        _mm_setr_epi8(-1, -1, -1, -1, -1, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1),
        mean[2], std[2]);
    const __m128i order =
        flip ? _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, -1, -1, -1, -1, -1, -1, -1, -1)
             : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1);
    size_t x = 0;
    for (; x + 8 <= width; x += 8) {
        const unsigned char *p = row + 3 * (flip ? width - 8 - x : x);
        /* Two overlapping loads, so that nothing after the row is read. */
        __m128i low = _mm_loadu_si128((const __m128i *)p);
        __m128i high = _mm_loadu_si128((const __m128i *)(p + 8));
        put_eight(&red, low, high, order, out + x);
        put_eight(&green, low, high, order, out + plane + x);
        put_eight(&blue, low, high, order, out + 2 * plane + x);
    }
    return x;
}

#else

bool tarn__avx2_there(void)
{
    return false;
}

void tarn__across_avx2(const tarn__axis *axis, const unsigned char *lines,
                       size_t line_stride, unsigned channels, unsigned char *out,
                       size_t stride)
{
    (void)axis, (void)lines, (void)line_stride, (void)channels, (void)out, (void)stride;
}

void tarn__down_avx2(const unsigned char *rows, size_t stride, uint32_t count,
                     const int16_t *high, const int16_t *low, size_t bytes,
                     unsigned char *out)
{
    (void)rows, (void)stride, (void)count, (void)high, (void)low, (void)bytes, (void)out;
}

size_t tarn__planes_avx2(const unsigned char *row, size_t width, bool flip,
                         const float *mean, const float *std, float *out, size_t plane)
{
    (void)row, (void)width, (void)flip, (void)mean, (void)std, (void)out, (void)plane;
    return 0;
}

#endif
