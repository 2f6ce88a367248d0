/* The inner loops of resizing with AVX-512's sums of byte products (VNNI), for processors
 * that have them. A weight of 22 bits is three signed digits to the base 256, and four
 * samples are multiplied and added up at once, exactly. */
#include "codec/pixels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define VNNI                                                                             \
    __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#define INLINE VNNI static inline __attribute__((always_inline))

bool tarn__vnni_there(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
           tarn__avx2_there();
}

/* Sums of the three digits' products. */
typedef struct sums {
    __m512i digit[TARN__DIGITS];
} sums;

INLINE sums no_sums(void)
{
    __m512i zero = _mm512_setzero_si512();
    return (sums){{zero, zero, zero}};
}

INLINE __m512i four_weights(const int8_t *digits)
{
    int32_t four;
    __builtin_memcpy(&four, digits, sizeof four);
    return _mm512_set1_epi32(four);
}

INLINE void add(sums *s, __m512i samples, const __m512i weights[TARN__DIGITS])
{
    for (unsigned d = 0; d < TARN__DIGITS; d++)
        s->digit[d] = _mm512_dpbusd_epi32(s->digit[d], samples, weights[d]);
}

INLINE __m512i rounded(const sums *s)
{
    __m512i sum = _mm512_set1_epi32(1 << (TARN__WEIGHT_BITS - 1));
    for (unsigned d = 0; d < TARN__DIGITS; d++)
        sum = _mm512_add_epi32(sum, _mm512_slli_epi32(s->digit[d], 8 * d));
    return _mm512_srai_epi32(sum, TARN__WEIGHT_BITS);
}

/* --- Across --------------------------------------------------------------------- */

INLINE __m512i four_rows(const unsigned char *p, size_t stride)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + stride)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 2 * stride)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 3 * stride)), 3);
}

/* A quarter of the vector for each of four rows: the channels of four pixels, each
 * channel's side by side. With three channels the fourth byte written is the next
 * pixel's and written then. */
INLINE void colours(const tarn__axis *axis, const unsigned char *lines,
                    size_t line_stride, unsigned channels, unsigned char *out,
                    size_t stride)
{
    const __m512i of_3 = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    const __m512i of_4 = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i order = channels == 3 ? of_3 : of_4;
    size_t cells = (size_t)axis->size * axis->taps;
    for (uint32_t i = 0; i < axis->size; i++, out += channels) {
        const int8_t *digits = axis->digits + (size_t)i * axis->taps;
        const unsigned char *p =
            lines + (size_t)(axis->start[i] - axis->first) * channels;
        sums s = no_sums();
        for (uint32_t t = 0; t < axis->count[i]; t += 4, p += (size_t)4 * channels) {
            const __m512i weights[TARN__DIGITS] = {four_weights(digits + t),
                                                   four_weights(digits + t + cells),
                                                   four_weights(digits + t + 2 * cells)};
            add(&s, _mm512_shuffle_epi8(four_rows(p, line_stride), order), weights);
        }
        __m128i bytes = _mm512_cvtusepi32_epi8(rounded(&s));
        _mm_storeu_si32(out, bytes);
        _mm_storeu_si32(out + stride, _mm_shuffle_epi32(bytes, 1));
        _mm_storeu_si32(out + 2 * stride, _mm_shuffle_epi32(bytes, 2));
        _mm_storeu_si32(out + 3 * stride, _mm_shuffle_epi32(bytes, 3));
    }
}

/* Where few samples make a result, five results of three channels at once: lane 3i + c is
 * channel c of result i, made of up to eight samples, four by four. */
typedef struct five {
    __m512i at[2]; /* of four samples in 64 bytes of a line */
    __m512i weights[2][TARN__DIGITS];
} five;

INLINE five next_five(const tarn__axis *axis, uint32_t i)
{
    const __m512i result =
        _mm512_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4);
    /* The bytes of a channel in four pixels. */
    const int red = 0x09060300, green = 0x0a070401, blue = 0x0b080502;
    const __m512i channel =
        _mm512_setr_epi32(red, green, blue, red, green, blue, red, green, blue, red,
                          green, blue, red, green, blue, blue);
    size_t cells = (size_t)axis->size * axis->taps;
    const int8_t *digits = axis->digits + (size_t)i * TARN__FEW;
    __m512i starts = _mm512_castsi256_si512(
        _mm256_loadu_si256((const __m256i *)(const void *)(axis->start + i)));
    __m512i from = _mm512_sub_epi32(starts, _mm512_set1_epi32((int)axis->start[i]));
    from = _mm512_permutexvar_epi32(result, from);
    five f;
    f.at[0] =
        _mm512_add_epi8(_mm512_mullo_epi32(from, _mm512_set1_epi32(0x03030303)), channel);
    f.at[1] = _mm512_add_epi8(f.at[0], _mm512_set1_epi8(12));
    for (unsigned d = 0; d < TARN__DIGITS; d++) {
        __m512i all = _mm512_loadu_si512(digits + d * cells);
        __m512i even = _mm512_add_epi32(result, result);
        f.weights[0][d] = _mm512_permutexvar_epi32(even, all);
        f.weights[1][d] =
            _mm512_permutexvar_epi32(_mm512_add_epi32(even, _mm512_set1_epi32(1)), all);
    }
    return f;
}

INLINE void fives(const tarn__axis *axis, const unsigned char *lines, size_t line_stride,
                  unsigned groups, unsigned char *out, size_t stride)
{
    const uint32_t size = axis->size;
    for (uint32_t i = 0; i < size; i += 5) {
        /* The last ones again where fewer are left. */
        if (i + 5 > size) i = size - 5;
        const five f = next_five(axis, i);
        const unsigned char *p = lines + (size_t)(axis->start[i] - axis->first) * 3;
        unsigned char *to = out + (size_t)i * 3;
        for (unsigned r = 0; r < TARN__ROWS; r++, p += line_stride, to += stride) {
            __m512i v = _mm512_loadu_si512(p);
            sums s = no_sums();
            for (unsigned g = 0; g < groups; g++)
                add(&s, _mm512_permutexvar_epi8(f.at[g], v), f.weights[g]);
            _mm_storeu_si128((__m128i *)to, _mm512_cvtusepi32_epi8(rounded(&s)));
        }
    }
}

VNNI void tarn__across_vnni(const tarn__axis *axis, const unsigned char *lines,
                            size_t line_stride, unsigned channels, unsigned char *out,
                            size_t stride)
{
    if (channels == 3 && axis->taps == TARN__FEW && axis->size >= 5) {
        if (axis->most <= 4)
            fives(axis, lines, line_stride, 1, out, stride);
        else
            fives(axis, lines, line_stride, 2, out, stride);
        return;
    }
    if (channels == 1) {
        tarn__across_avx2(axis, lines, line_stride, channels, out, stride);
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

/* --- Down ----------------------------------------------------------------------- */

/* 64 columns, or those of the mask, of four rows: samples of a column side by side, in
 * four vectors that packing brings back in order. */
INLINE void add_rows(sums s[4], const unsigned char *const row[4], __mmask64 mask,
                     const __m512i weights[TARN__DIGITS])
{
    __m512i a = _mm512_maskz_loadu_epi8(mask, row[0]);
    __m512i b = _mm512_maskz_loadu_epi8(mask, row[1]);
    __m512i c = _mm512_maskz_loadu_epi8(mask, row[2]);
    __m512i d = _mm512_maskz_loadu_epi8(mask, row[3]);
    __m512i ab[2] = {_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)};
    __m512i cd[2] = {_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d)};
    add(&s[0], _mm512_unpacklo_epi16(ab[0], cd[0]), weights);
    add(&s[1], _mm512_unpackhi_epi16(ab[0], cd[0]), weights);
    add(&s[2], _mm512_unpacklo_epi16(ab[1], cd[1]), weights);
    add(&s[3], _mm512_unpackhi_epi16(ab[1], cd[1]), weights);
}

INLINE void columns(const unsigned char *rows, size_t stride, uint32_t count,
                    const int8_t *digits, size_t cells, __mmask64 mask,
                    unsigned char *out)
{
    sums s[4] = {no_sums(), no_sums(), no_sums(), no_sums()};
    for (uint32_t t = 0; t < count; t += 4) {
        const unsigned char *row[4];
        /* The weights behind the last are 0: any row will do. */
        for (uint32_t i = 0; i < 4; i++)
            row[i] = rows + (t + i < count ? t + i : t) * stride;
        const __m512i weights[TARN__DIGITS] = {four_weights(digits + t),
                                               four_weights(digits + t + cells),
                                               four_weights(digits + t + 2 * cells)};
        add_rows(s, row, mask, weights);
    }
    __m512i low = _mm512_packs_epi32(rounded(&s[0]), rounded(&s[1]));
    __m512i high = _mm512_packs_epi32(rounded(&s[2]), rounded(&s[3]));
    _mm512_mask_storeu_epi8(out, mask, _mm512_packus_epi16(low, high));
}

VNNI void tarn__down_vnni(const unsigned char *rows, size_t stride, uint32_t count,
                          const int8_t *digits, size_t cells, size_t bytes,
                          unsigned char *out)
{
    size_t x = 0;
    for (; x + 64 <= bytes; x += 64)
        columns(rows + x, stride, count, digits, cells, ~(__mmask64)0, out + x);
    if (x < bytes)
        columns(rows + x, stride, count, digits, cells,
                ~(__mmask64)0 >> (64 - (bytes - x)), out + x);
}

/* --- Floats --------------------------------------------------------------------- */

/* A quotient by a number whose reciprocal is known, corrected to what dividing gives. */
INLINE __m512 divided(__m512 v, __m512 by, __m512 reciprocal)
{
    __m512 q = _mm512_mul_ps(v, reciprocal);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(q, by, v), reciprocal, q);
}

VNNI size_t tarn__planes_vnni(const unsigned char *row, size_t width, bool flip,
                              const float *mean, const float *std, float *out,
                              size_t plane)
{
    const __m128i up =
        _mm_setr_epi8(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    const __m128i order = flip ? _mm_sub_epi8(_mm_set1_epi8(45), up) : up;
    const __m512 most = _mm512_set1_ps(255), by_most = _mm512_set1_ps(1.0f / 255);
    __m512 means[3], stds[3], by_stds[3];
    for (unsigned c = 0; c < 3; c++) {
        means[c] = _mm512_set1_ps(mean[c]);
        stds[c] = _mm512_set1_ps(std[c]);
        by_stds[c] = _mm512_set1_ps(1.0f / std[c]);
    }
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const unsigned char *p = row + 3 * (flip ? width - 16 - x : x);
        __m512i pixels = _mm512_maskz_loadu_epi8(((__mmask64)1 << 48) - 1, p);
        for (unsigned c = 0; c < 3; c++) {
            __m512i at =
                _mm512_castsi128_si512(_mm_add_epi8(order, _mm_set1_epi8((char)c)));
            __m512i bytes = _mm512_permutexvar_epi8(at, pixels);
            __m512 v =
                _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(bytes)));
            __m512 centred = _mm512_sub_ps(divided(v, most, by_most), means[c]);
            _mm512_storeu_ps(out + c * plane + x, divided(centred, stds[c], by_stds[c]));
        }
    }
    return x;
}

#else

size_t tarn__planes_vnni(const unsigned char *row, size_t width, bool flip,
                         const float *mean, const float *std, float *out, size_t plane)
{
    (void)row, (void)width, (void)flip, (void)mean, (void)std, (void)out, (void)plane;
    return 0;
}

bool tarn__vnni_there(void)
{
    return false;
}

void tarn__across_vnni(const tarn__axis *axis, const unsigned char *lines,
                       size_t line_stride, unsigned channels, unsigned char *out,
                       size_t stride)
{
    (void)axis, (void)lines, (void)line_stride, (void)channels, (void)out, (void)stride;
}

void tarn__down_vnni(const unsigned char *rows, size_t stride, uint32_t count,
                     const int8_t *digits, size_t cells, size_t bytes, unsigned char *out)
{
    (void)rows, (void)stride, (void)count, (void)digits, (void)cells, (void)bytes,
        (void)out;
}

#endif
