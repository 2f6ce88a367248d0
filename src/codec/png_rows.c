/* Rows of a PNG: reverses filters, and converts samples of any depth and kind to pixels.
 * Uses SSE2, which every x86-64 has, for pixels of 3, 4, 6 or 8 bytes. */
#include "codec/png.h"

#include <string.h>

#include "base/bytes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

unsigned tarn__png_samples(const tarn__png_form *head)
{
    static const unsigned char samples[7] = {1, 0, 3, 1, 2, 0, 4};
    return samples[head->colour];
}

uint64_t tarn__png_row_bytes(const tarn__png_form *head, uint32_t width)
{
    return ((uint64_t)width * tarn__png_samples(head) * head->depth + 7) / 8;
}

/* --- Filters, plain ------------------------------------------------------------- */

static void plain(unsigned filter, unsigned step, const unsigned char *from,
                  const unsigned char *above, size_t bytes, unsigned char *to)
{
    size_t first = step < bytes ? step : bytes;
    for (size_t i = 0; i < bytes; i++) {
        unsigned left = i < first ? 0 : to[i - step];
        unsigned between = i < first ? 0 : above[i - step];
        unsigned guess = filter == TARN__PNG_SUB ? left
                         : filter == TARN__PNG_AVERAGE
                             ? (left + above[i]) / 2
                             : tarn__png_paeth((int)left, above[i], (int)between);
        to[i] = (unsigned char)(from[i] + guess);
    }
}

/* --- Filters in SSE2 ------------------------------------------------------------ */

#if defined(__SSE2__)

#define INLINE static inline __attribute__((always_inline))

/* A pixel, and up to two bytes after it. */
INLINE __m128i load_pixel(const unsigned char *p, unsigned step)
{
    int32_t four;
    if (step > 4) return _mm_loadl_epi64((const __m128i *)p);
    memcpy(&four, p, sizeof four);
    return _mm_cvtsi32_si128(four);
}

INLINE void store(unsigned char *p, unsigned step, __m128i pixel)
{
    int32_t four = _mm_cvtsi128_si32(pixel);
    if (step > 4)
        _mm_storel_epi64((__m128i *)p, pixel);
    else
        memcpy(p, &four, sizeof four);
}

/* The last pixel of a row; reads nothing after it. */
INLINE __m128i load_last_pixel(const unsigned char *p, unsigned step)
{
    unsigned char bytes[8] = {0};
    memcpy(bytes, p, step);
    return load_pixel(bytes, step);
}

INLINE void store_last(unsigned char *p, unsigned step, __m128i pixel)
{
    unsigned char bytes[8];
    store(bytes, step, pixel);
    memcpy(p, bytes, step);
}

INLINE __m128i select16(__m128i mask, __m128i yes, __m128i no)
{
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

/* The same choice as tarn__png_paeth in 16-bit lanes, with a short dependency chain from
 * left to the result, because each pixel waits for that. */
INLINE __m128i paeth_lanes(__m128i left, __m128i above, __m128i between)
{
    __m128i three = _mm_add_epi16(_mm_add_epi16(between, between), between);
    __m128i edge = _mm_sub_epi16(_mm_sub_epi16(three, above), left);
    __m128i low = _mm_min_epi16(left, above), high = _mm_max_epi16(left, above);
    __m128i not_low = _mm_cmpgt_epi16(high, edge);
    __m128i not_high = _mm_cmpgt_epi16(edge, low);
    return select16(not_high, select16(not_low, between, low), high);
}

typedef struct pixels {
    __m128i left, between; /* in 16-bit lanes for PAETH */
} pixels;

INLINE __m128i undone(unsigned filter, __m128i pixel, __m128i above, pixels *p)
{
    const __m128i zero = _mm_setzero_si128();
    if (filter == TARN__PNG_SUB) {
        p->left = _mm_add_epi8(pixel, p->left);
        return p->left;
    }
    if (filter == TARN__PNG_AVERAGE) {
        __m128i odd = _mm_and_si128(_mm_xor_si128(p->left, above), _mm_set1_epi8(1));
        __m128i mean = _mm_sub_epi8(_mm_avg_epu8(p->left, above), odd);
        p->left = _mm_add_epi8(pixel, mean);
        return p->left;
    }
    above = _mm_unpacklo_epi8(above, zero);
    __m128i guess = paeth_lanes(p->left, above, p->between);
    p->between = above;
    p->left = _mm_add_epi8(_mm_unpacklo_epi8(pixel, zero), guess);
    return _mm_packus_epi16(p->left, p->left);
}

INLINE void vector(unsigned filter, unsigned step, const unsigned char *from,
                   const unsigned char *above, size_t bytes, unsigned char *to)
{
    pixels p = {_mm_setzero_si128(), _mm_setzero_si128()};
    size_t i = 0;
    for (; i + step < bytes; i += step)
        store(
            to + i, step,
            undone(filter, load_pixel(from + i, step), load_pixel(above + i, step), &p));
    store_last(to + i, step,
               undone(filter, load_last_pixel(from + i, step),
                      load_last_pixel(above + i, step), &p));
}

INLINE void vector_of(unsigned step, unsigned filter, const unsigned char *from,
                      const unsigned char *above, size_t bytes, unsigned char *to)
{
    if (filter == TARN__PNG_SUB)
        vector(TARN__PNG_SUB, step, from, above, bytes, to);
    else if (filter == TARN__PNG_AVERAGE)
        vector(TARN__PNG_AVERAGE, step, from, above, bytes, to);
    else
        vector(TARN__PNG_PAETH, step, from, above, bytes, to);
}

/* Two rows at once, the second one pixel later than the first, whose pixels are its row
 * above. A pixel waits long for the one before it, and a vector has room for two. */
typedef struct two {
    __m128i left, above; /* the first row is in the lower half */
} two;

INLINE __m128i next_two(two *t, __m128i first, __m128i second, __m128i over)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i pixel = _mm_unpacklo_epi8(_mm_unpacklo_epi32(first, second), zero);
    __m128i above = _mm_unpacklo_epi64(_mm_unpacklo_epi8(over, zero), t->left);
    t->left = _mm_add_epi8(pixel, paeth_lanes(t->left, above, t->above));
    t->above = above;
    return _mm_packus_epi16(t->left, t->left);
}

INLINE void paeth_two(unsigned step, const unsigned char *const from[2],
                      const unsigned char *above, size_t bytes,
                      unsigned char *const to[2])
{
    const __m128i zero = _mm_setzero_si128();
    __m128i over = load_pixel(above, step);
    __m128i pixel = _mm_add_epi8(load_pixel(from[0], step), over);
    two t = {_mm_unpacklo_epi8(pixel, zero), _mm_unpacklo_epi8(over, zero)};
    /* Only the part of the first row: the second has not begun. */
    t.left = _mm_move_epi64(t.left);
    t.above = _mm_move_epi64(t.above);
    store(to[0], step, pixel);
    size_t i = step;
    for (; i + step < bytes; i += step) {
        pixel =
            next_two(&t, load_pixel(from[0] + i, step),
                     load_pixel(from[1] + i - step, step), load_pixel(above + i, step));
        store(to[0] + i, step, pixel);
        store(to[1] + i - step, step, _mm_srli_epi64(pixel, 32));
    }
    pixel =
        next_two(&t, load_last_pixel(from[0] + i, step),
                 load_pixel(from[1] + i - step, step), load_last_pixel(above + i, step));
    store_last(to[0] + i, step, pixel);
    store(to[1] + i - step, step, _mm_srli_epi64(pixel, 32));
    pixel = next_two(&t, zero, load_last_pixel(from[1] + i, step), zero);
    store_last(to[1] + i, step, _mm_srli_epi64(pixel, 32));
}

bool tarn__png_unfilter_two(unsigned step, const unsigned char *const from[2],
                            const unsigned char *above, size_t bytes,
                            unsigned char *const to[2])
{
    if ((step != 3 && step != 4) || bytes < 2 * step) return false;
    if (step == 3)
        paeth_two(3, from, above, bytes, to);
    else
        paeth_two(4, from, above, bytes, to);
    return true;
}

static void undo(unsigned filter, unsigned step, const unsigned char *from,
                 const unsigned char *above, size_t bytes, unsigned char *to)
{
    switch (step) {
    case 3:
        vector_of(3, filter, from, above, bytes, to);
        break;
    case 4:
        vector_of(4, filter, from, above, bytes, to);
        break;
    case 6:
        vector_of(6, filter, from, above, bytes, to);
        break;
    case 8:
        vector_of(8, filter, from, above, bytes, to);
        break;
    default:
        plain(filter, step, from, above, bytes, to);
    }
}

static void add_above(const unsigned char *from, const unsigned char *above, size_t bytes,
                      unsigned char *to)
{
    size_t i = 0;
    for (; i + 16 <= bytes; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(above + i));
        _mm_storeu_si128((__m128i *)(to + i), _mm_add_epi8(a, b));
    }
    for (; i < bytes; i++)
        to[i] = (unsigned char)(from[i] + above[i]);
}

#else

#define undo plain

bool tarn__png_unfilter_two(unsigned step, const unsigned char *const from[2],
                            const unsigned char *above, size_t bytes,
                            unsigned char *const to[2])
{
    (void)step, (void)from, (void)above, (void)bytes, (void)to;
    return false;
}

static void add_above(const unsigned char *from, const unsigned char *above, size_t bytes,
                      unsigned char *to)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(from[i] + above[i]);
}

#endif

void tarn__png_unfilter(unsigned filter, unsigned step, const unsigned char *from,
                        const unsigned char *above, size_t bytes, unsigned char *to)
{
    if (filter == TARN__PNG_NONE)
        memcpy(to, from, bytes);
    else if (filter == TARN__PNG_UP)
        add_above(from, above, bytes, to);
    else
        undo(filter, step, from, above, bytes, to);
}

/* --- Converting samples to pixels ----------------------------------------------- */

static inline unsigned sample(const unsigned char *row, size_t i, unsigned depth)
{
    if (depth == 8) return row[i];
    if (depth == 16) return (unsigned)row[2 * i] << 8 | row[2 * i + 1];
    size_t bit = i * depth;
    return row[bit / 8] >> (8 - depth - bit % 8) & ((1u << depth) - 1);
}

/* The maximum stays the maximum; 16-bit samples keep their upper eight bits. */
static inline unsigned char to_8(unsigned value, unsigned depth)
{
    return (unsigned char)(depth == 16 ? value >> 8
                                       : value * (255u / ((1u << depth) - 1)));
}

static void from_palette(const tarn__png_form *head, const unsigned char *row,
                         uint32_t width, unsigned channels, unsigned char *out)
{
    for (size_t x = 0; channels == 1 && x < width; x++)
        out[x] = (unsigned char)sample(row, x, head->depth);
    for (size_t x = 0; channels > 1 && x < width; x++, out += channels) {
        const unsigned char *entry = head->palette[sample(row, x, head->depth)];
        memcpy(out, entry, 3);
        if (channels == 4) out[3] = entry[3];
    }
}

/* Grey and RGB, with or without alpha. */
static inline void from_samples(const tarn__png_form *head, const unsigned char *row,
                                uint32_t width, unsigned channels, unsigned char *out,
                                unsigned depth, unsigned samples)
{
    unsigned colours = samples < 3 ? 1 : 3;
    bool has_alpha = samples == 2 || samples == 4;
    for (size_t x = 0; x < width; x++, out += channels) {
        bool is_key = head->transparent;
        for (unsigned c = 0; c < colours; c++) {
            unsigned value = sample(row, x * samples + c, depth);
            is_key = is_key && value == head->key[c];
            out[c] = to_8(value, depth);
        }
        if (colours == 1 && channels > 1) out[1] = out[2] = out[0];
        if (channels == 4)
            out[3] = has_alpha ? to_8(sample(row, x * samples + colours, depth), depth)
                     : is_key  ? 0
                               : 255;
    }
}

/* out may be unaligned. */
static void in_native_order(const unsigned char *row, size_t samples, unsigned char *out)
{
    for (size_t i = 0; i < samples; i++)
        tarn__put16(out + 2 * i, (uint16_t)(row[2 * i] << 8 | row[2 * i + 1]));
}

void tarn__png_expand(const tarn__png_form *head, const unsigned char *row,
                      uint32_t width, unsigned channels, unsigned bits, void *out)
{
    unsigned samples = tarn__png_samples(head);
    if (head->colour == TARN__PNG_PALETTE)
        from_palette(head, row, width, channels, out);
    else if (bits == 16)
        in_native_order(row, (size_t)width * samples, out);
    else if (head->depth == 8 && samples == channels)
        memcpy(out, row, (size_t)width * samples);
    else if (head->depth == 8 && samples == 3)
        from_samples(head, row, width, channels, out, 8, 3);
    else if (head->depth == 8 && samples == 4)
        from_samples(head, row, width, channels, out, 8, 4);
    else if (head->depth == 8)
        from_samples(head, row, width, channels, out, 8, samples);
    else
        from_samples(head, row, width, channels, out, head->depth, samples);
}
