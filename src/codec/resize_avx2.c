/* The two loops of resizing in AVX2, for processors that have it. A weight of 22 bits is
 * two numbers of 11, so that sums are made of 16-bit products, two to an instruction, and
 * still are exactly those of the plain loops. */
#include "codec/pixels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

bool tarn__avx2_there(void)
{
    return __builtin_cpu_supports("avx2");
}

AVX2 static inline __m256i whole(__m256i high, __m256i low)
{
    const __m256i half = _mm256_set1_epi32(1 << (TARN__WEIGHT_BITS - 1));
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, TARN__LOW_BITS),
                                   _mm256_add_epi32(low, half));
    return _mm256_srai_epi32(sum, TARN__WEIGHT_BITS);
}

/* Four weights as the factors of four samples: the first two in the lower half. */
AVX2 static inline __m256i spread(const int16_t *weights)
{
    const __m256i order = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    __m256i four = _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)weights));
    return _mm256_permutevar8x32_epi32(four, order);
}

/* Pixels of 3 or 4 channels, four at a time: each channel of two pixels side by side. */
AVX2 static inline void colours(const tarn__axis *axis, const unsigned char *line,
                                unsigned channels, unsigned char *out)
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
        const unsigned char *p = line + (size_t)(axis->start[i] - axis->first) * channels;
        __m256i highs = _mm256_setzero_si256(), lows = highs;
        for (uint32_t t = 0; t < axis->count[i]; t += 4, p += (size_t)4 * channels) {
            __m256i four =
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
            __m256i pixels = _mm256_shuffle_epi8(four, pairs);
            highs = _mm256_add_epi32(highs, _mm256_madd_epi16(pixels, spread(high + t)));
            lows = _mm256_add_epi32(lows, _mm256_madd_epi16(pixels, spread(low + t)));
        }
        /* Even and odd pairs of pixels are in the two halves. */
        __m128i h = _mm_add_epi32(_mm256_castsi256_si128(highs),
                                  _mm256_extracti128_si256(highs, 1));
        __m128i l = _mm_add_epi32(_mm256_castsi256_si128(lows),
                                  _mm256_extracti128_si256(lows, 1));
        __m128i v = _mm256_castsi256_si128(
            whole(_mm256_castsi128_si256(h), _mm256_castsi128_si256(l)));
        v = _mm_packus_epi16(_mm_packs_epi32(v, v), v);
        /* With three channels the fourth byte is the next pixel's and written then. */
        _mm_storeu_si32(out, v);
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

AVX2 void tarn__across_avx2(const tarn__axis *axis, const unsigned char *line,
                            unsigned channels, unsigned char *out)
{
    if (channels == 1)
        grey(axis, line, out);
    else if (channels == 3)
        colours(axis, line, 3, out);
    else
        colours(axis, line, 4, out);
}

/* 16 columns of two rows: products of high and low weights added to four sums each. */
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

/* The columns behind the last 16, which may be the last bytes there are. */
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
            /* The weight behind the last is 0: any row will do. */
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

#else

bool tarn__avx2_there(void)
{
    return false;
}

void tarn__across_avx2(const tarn__axis *axis, const unsigned char *line,
                       unsigned channels, unsigned char *out)
{
    (void)axis, (void)line, (void)channels, (void)out;
}

void tarn__down_avx2(const unsigned char *rows, size_t stride, uint32_t count,
                     const int16_t *high, const int16_t *low, size_t bytes,
                     unsigned char *out)
{
    (void)rows, (void)stride, (void)count, (void)high, (void)low, (void)bytes, (void)out;
}

#endif
