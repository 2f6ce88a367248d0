/* The inner loops of the resize, for vectors of any width. Not a usual header: the file
 * that includes it defines the instructions,
 *
 *     VECTOR, V(op)   the type of a vector; an operation on it, _mm256_##op or
 * _mm512_##op PARTS           the number of parts of 16 bytes INLINE          attributes
 * of functions
 *
 * and the functions load, store, repeat (the same 16 bytes in each part), part (number
 * k), load_rows (16 bytes of each of PARTS rows) and add_products (of pairs of 16-bit
 * numbers).
 *
 * A weight of 22 bits is split into two numbers of 11 bits, so that the sums use 16-bit
 * products, two per instruction, and still equal those of the plain loops exactly. */

/* Sums with the high and the low halves of the weights. */
typedef struct sums {
    VECTOR high, low;
} sums;

INLINE sums no_sums(void)
{
    /* One half, for rounding. */
    return (sums){V(set1_epi32)(0), V(set1_epi32)(1 << (TARN__WEIGHT_BITS - 1))};
}

INLINE void add_pairs(sums *s, VECTOR pairs, VECTOR high, VECTOR low)
{
    s->high = add_products(s->high, pairs, high);
    s->low = add_products(s->low, pairs, low);
}

INLINE VECTOR whole(const sums *s)
{
    VECTOR sum = V(add_epi32)(V(slli_epi32)(s->high, TARN__LOW_BITS), s->low);
    return V(srai_epi32)(sum, TARN__WEIGHT_BITS);
}

/* The samples of four vectors of sums. */
INLINE VECTOR samples(VECTOR a, VECTOR b, VECTOR c, VECTOR d)
{
    return V(packus_epi16)(V(packs_epi32)(a, b), V(packs_epi32)(c, d));
}

INLINE VECTOR pair_of(const int16_t *weights)
{
    int32_t two;
    __builtin_memcpy(&two, weights, sizeof two);
    return V(set1_epi32)(two);
}

/* --- Across ------------------------------------------------------------------------- */

/* Puts the channels of pixels k and k + 1 side by side, as 16-bit numbers. With three
 * channels a fourth sum is computed and not used. */
INLINE VECTOR pair_order(unsigned channels, unsigned k)
{
    const char a = (char)(k * channels), b = (char)(a + (char)channels);
    return repeat(_mm_setr_epi8(a, -1, b, -1, (char)(a + 1), -1, (char)(b + 1), -1,
                                (char)(a + 2), -1, (char)(b + 2), -1, (char)(a + 3), -1,
                                (char)(b + 3), -1));
}

/* How a result is computed: each step loads 16 bytes of a row and uses pairs * 2 pixels
 * of them. The third pair of three channels has only one whole pixel, so that way can be
 * used only for results of at most five pixels, in one step. */
typedef struct way {
    unsigned channels, pairs;
    bool one_step;
} way;

/* Result i of 2 * PARTS rows, half of them in each of two vectors. */
INLINE void some_rows(const tarn__axis *axis, uint32_t i, const unsigned char *lines,
                      size_t stride, way w, VECTOR out[2])
{
    const int16_t *high = axis->high + (size_t)i * axis->taps;
    const int16_t *low = axis->low + (size_t)i * axis->taps;
    const unsigned char *p = lines + (size_t)(axis->start[i] - axis->first) * w.channels;
    const uint32_t count = axis->count[i], steps_end = w.one_step ? 1 : count;
    sums s[2] = {no_sums(), no_sums()};
    for (uint32_t t = 0; t < steps_end; t += 2 * w.pairs) {
        VECTOR first = load_rows(p, stride),
               second = load_rows(p + PARTS * stride, stride);
        for (unsigned k = 0; k < 2 * w.pairs; k += 2) {
            VECTOR order = pair_order(w.channels, k);
            VECTOR h = pair_of(high + t + k), l = pair_of(low + t + k);
            add_pairs(&s[0], V(shuffle_epi8)(first, order), h, l);
            add_pairs(&s[1], V(shuffle_epi8)(second, order), h, l);
        }
        p += (size_t)2 * w.pairs * w.channels;
    }
    out[0] = whole(&s[0]);
    out[1] = whole(&s[1]);
}

/* Stores four pixels of PARTS rows. With three channels the next pixels overwrite the
 * last four bytes. */
INLINE void put_four(VECTOR pixels, unsigned channels, unsigned char *out, size_t stride)
{
    const __m128i three =
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    if (channels == 3) pixels = V(shuffle_epi8)(pixels, repeat(three));
    for (int k = 0; k < PARTS; k++)
        _mm_storeu_si128((__m128i *)(out + (size_t)k * stride), part(pixels, k));
}

/* Four pixels of several rows at a time: loading weights costs as much as loading
 * pixels. */
INLINE void colours(const tarn__axis *axis, const unsigned char *lines,
                    size_t line_stride, way w, unsigned char *out, size_t stride)
{
    const uint32_t last = axis->size - 1;
    for (uint32_t i = 0; i <= last; i += 4, out += (size_t)4 * w.channels) {
        VECTOR v[4][2];
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; k++)
            some_rows(axis, i + k < last ? i + k : last, lines, line_stride, w, v[k]);
        for (unsigned r = 0; r < 2; r++)
            put_four(samples(v[0][r], v[1][r], v[2][r], v[3][r]), w.channels,
                     out + r * PARTS * stride, stride);
    }
}

INLINE void across_colours(const tarn__axis *axis, const unsigned char *lines,
                           size_t line_stride, unsigned channels, unsigned char *out,
                           size_t stride)
{
    for (unsigned r = 0; r < TARN__ROWS; r += 2 * PARTS) {
        const unsigned char *from = lines + r * line_stride;
        unsigned char *to = out + r * stride;
        if (channels == 4)
            colours(axis, from, line_stride, (way){4, 2, false}, to, stride);
        else if (axis->most > 5)
            colours(axis, from, line_stride, (way){3, 2, false}, to, stride);
        else if (axis->most > 4)
            colours(axis, from, line_stride, (way){3, 3, true}, to, stride);
        else
            colours(axis, from, line_stride, (way){3, 2, true}, to, stride);
    }
}

/* --- Down --------------------------------------------------------------------------- */

/* Adds as many columns of two rows as a vector has bytes. */
INLINE void add_columns(sums s[4], const unsigned char *a, const unsigned char *b,
                        VECTOR high, VECTOR low)
{
    const VECTOR zero = V(set1_epi32)(0);
    VECTOR one = load(a), two = load(b);
    VECTOR left = V(unpacklo_epi8)(one, two), right = V(unpackhi_epi8)(one, two);
    add_pairs(&s[0], V(unpacklo_epi8)(left, zero), high, low);
    add_pairs(&s[1], V(unpackhi_epi8)(left, zero), high, low);
    add_pairs(&s[2], V(unpacklo_epi8)(right, zero), high, low);
    add_pairs(&s[3], V(unpackhi_epi8)(right, zero), high, low);
}

/* bytes is at least that of a vector. */
INLINE void down_columns(const unsigned char *rows, size_t stride, uint32_t count,
                         const int16_t *high, const int16_t *low, size_t bytes,
                         unsigned char *out)
{
    for (size_t x = 0; x < bytes; x += sizeof(VECTOR)) {
        /* The last vector may compute some columns again. */
        if (x > bytes - sizeof(VECTOR)) x = bytes - sizeof(VECTOR);
        sums s[4] = {no_sums(), no_sums(), no_sums(), no_sums()};
        const unsigned char *a = rows + x;
        for (uint32_t t = 0; t < count; t += 2, a += 2 * stride)
            /* The weight after the last is 0, so any row can be used. */
            add_columns(s, a, t + 1 < count ? a + stride : a, pair_of(high + t),
                        pair_of(low + t));
        store(out + x, samples(whole(&s[0]), whole(&s[1]), whole(&s[2]), whole(&s[3])));
    }
}
