/* The inner loops of resizing and of conversion to floats in AVX2. A weight of 22 bits is
 * split into two numbers of 11 bits, so that the sums use 16-bit products, two per
 * instruction, and still equal those of the plain loops exactly. */
#include "codec/pixels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

bool tarn__avx2_there(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

AVX2 static inline __m256i whole(__m256i high, __m256i low)
{
    const __m256i half = _mm256_set1_epi32(1 << (TARN__WEIGHT_BITS - 1));
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, TARN__LOW_BITS),
                                   _mm256_add_epi32(low, half));
    return _mm256_srai_epi32(sum, TARN__WEIGHT_BITS);
}

/* Four weights as factors of four samples: the first two in the lower half. */
AVX2 static inline __m256i spread(const int16_t *weights)
{
    const __m256i order = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    __m256i four = _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)weights));
    return _mm256_permutevar8x32_epi32(four, order);
}

/* Adds four pixels of a row: each channel of two pixels side by side. */
AVX2 static inline void add_four(__m256i *high, __m256i *low, const unsigned char *p,
                                 __m256i pairs, __m256i high_weights, __m256i low_weights)
{
    __m256i four = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
    __m256i pixels = _mm256_shuffle_epi8(four, pairs);
    *high = _mm256_add_epi32(*high, _mm256_madd_epi16(pixels, high_weights));
    *low = _mm256_add_epi32(*low, _mm256_madd_epi16(pixels, low_weights));
}

/* The samples of two rows, whose sums are in two halves each. */
AVX2 static inline __m256i two_rows(const __m256i high[2], const __m256i low[2])
{
    __m256i a = _mm256_add_epi32(_mm256_slli_epi32(high[0], TARN__LOW_BITS), low[0]);
    __m256i b = _mm256_add_epi32(_mm256_slli_epi32(high[1], TARN__LOW_BITS), low[1]);
    __m256i sum = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                   _mm256_permute2x128_si256(a, b, 0x31));
    sum = _mm256_add_epi32(sum, _mm256_set1_epi32(1 << (TARN__WEIGHT_BITS - 1)));
    return _mm256_srai_epi32(sum, TARN__WEIGHT_BITS);
}

/* Processes four rows of 3 or 4 channels at a time, because loading weights costs as much
 * as loading pixels. With three channels the fourth byte belongs to the next pixel, which
 * overwrites it. */
AVX2 static inline __attribute__((always_inline)) void colours(
    const tarn__axis *axis, const unsigned char *lines, size_t line_stride,
    unsigned channels, unsigned char *out, size_t stride)
{
    const __m256i pairs_of_3 = _mm256_setr_epi8(
        0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, /* pixels 0 and 1 */
        6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const __m256i pairs_of_4 = _mm256_setr_epi8(
        0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, /* pixels 0 and 1 */
        8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
    const __m256i pairs = channels == 3 ? pairs_of_3 : pairs_of_4;
    for (uint32_t i = 0; i < axis->size; i++, out += channels) {
        const int16_t *high = axis->high + (size_t)i * axis->taps;
        const int16_t *low = axis->low + (size_t)i * axis->taps;
        const unsigned char *p =
            lines + (size_t)(axis->start[i] - axis->first) * channels;
        __m256i zero = _mm256_setzero_si256();
        __m256i highs[4] = {zero, zero, zero, zero}, lows[4] = {zero, zero, zero, zero};
        for (uint32_t t = 0; t < axis->count[i]; t += 4, p += (size_t)4 * channels) {
            __m256i h = spread(high + t), l = spread(low + t);
            add_four(&highs[0], &lows[0], p, pairs, h, l);
            add_four(&highs[1], &lows[1], p + line_stride, pairs, h, l);
            add_four(&highs[2], &lows[2], p + 2 * line_stride, pairs, h, l);
            add_four(&highs[3], &lows[3], p + 3 * line_stride, pairs, h, l);
        }
        __m256i words =
            _mm256_packs_epi32(two_rows(highs, lows), two_rows(highs + 2, lows + 2));
        /* The lower half has rows 0 and 2, the upper half rows 1 and 3. */
        __m256i bytes = _mm256_packus_epi16(words, words);
        __m128i even = _mm256_castsi256_si128(bytes);
        __m128i odd = _mm256_extracti128_si256(bytes, 1);
        _mm_storeu_si32(out, even);
        _mm_storeu_si32(out + stride, odd);
        _mm_storeu_si32(out + 2 * stride, _mm_srli_si128(even, 4));
        _mm_storeu_si32(out + 3 * stride, _mm_srli_si128(odd, 4));
    }
}

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
    if (channels == 1) {
        for (unsigned r = 0; r < TARN__ROWS; r++)
            grey(axis, lines + r * line_stride, out + r * stride);
        return;
    }
    for (unsigned r = 0; r < TARN__ROWS; r += 4) {
        if (channels == 3)
            colours(axis, lines + r * line_stride, line_stride, 3, out + r * stride,
                    stride);
        else
            colours(axis, lines + r * line_stride, line_stride, 4, out + r * stride,
                    stride);
    }
}

/* 16 columns of two rows: adds products with the high and low weights to four sums
 * each. */
AVX2 static inline void add_pair(__m256i highs[2], __m256i lows[2],
                                 const unsigned char *a, const unsigned char *b,
                                 __m256i high, __m256i low)
{
    __m128i one = _mm_loadu_si128((const __m128i *)a);
    __m128i two = _mm_loadu_si128((const __m128i *)b);
    __m256i left = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(one, two));
    __m256i right = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(one, two));
    highs[0] = _mm256_add_epi32(highs[0], _mm256_madd_epi16(left, high));
    highs[1] = _mm256_add_epi32(highs[1], _mm256_madd_epi16(right, high));
    lows[0] = _mm256_add_epi32(lows[0], _mm256_madd_epi16(left, low));
    lows[1] = _mm256_add_epi32(lows[1], _mm256_madd_epi16(right, low));
}

AVX2 static inline __m256i pair_of(const int16_t *weights)
{
    int32_t two;
    __builtin_memcpy(&two, weights, sizeof two);
    return _mm256_set1_epi32(two);
}

/* The columns after the last group of 16, which may be at the end of the memory. */
static void last_columns(const unsigned char *rows, size_t stride, uint32_t count,
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
    size_t x = 0;
    for (; x + 16 <= bytes; x += 16) {
        __m256i highs[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        __m256i lows[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (uint32_t t = 0; t < count; t += 2) {
            const unsigned char *a = rows + t * stride + x;
            /* The weight after the last is 0, so any row can be used. */
            const unsigned char *b = t + 1 < count ? a + stride : a;
            add_pair(highs, lows, a, b, pair_of(high + t), pair_of(low + t));
        }
        __m256i v =
            _mm256_packs_epi32(whole(highs[0], lows[0]), whole(highs[1], lows[1]));
        v = _mm256_permute4x64_epi64(v, 0xd8);
        v = _mm256_packus_epi16(v, v);
        v = _mm256_permute4x64_epi64(v, 0xd8);
        _mm_storeu_si128((__m128i *)(out + x), _mm256_castsi256_si128(v));
    }
    last_columns(rows + x, stride, count, high, low, bytes - x, out + x);
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
