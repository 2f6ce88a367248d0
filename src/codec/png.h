/* What the files of PNG share: what an image's header chunks say, and its rows, which
 * know nothing of chunks or files. */
#ifndef TARN_CODEC_PNG_H
#define TARN_CODEC_PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { /* colour types */
       TARN__PNG_GREY = 0,
       TARN__PNG_RGB = 2,
       TARN__PNG_PALETTE = 3,
       TARN__PNG_GREY_ALPHA = 4,
       TARN__PNG_RGBA = 6
};

enum { TARN__PNG_NONE, TARN__PNG_SUB, TARN__PNG_UP, TARN__PNG_AVERAGE, TARN__PNG_PAETH };

#define TARN__PNG_SIGNATURE "\x89PNG\r\n\x1a\n"

typedef struct tarn__png_form {
    uint32_t width, height;
    unsigned depth;  /* bits of a sample */
    unsigned colour; /* its type */
    bool interlaced;
    bool transparent;              /* there was a tRNS */
    bool has_palette;              /* and a PLTE that is used */
    uint16_t key[3];               /* GREY, RGB: the samples that are transparent */
    unsigned char palette[256][4]; /* RGBA; black where the file has none */
} tarn__png_form;

/* Samples of a pixel in the file; an index into the palette is one. */
unsigned tarn__png_samples(const tarn__png_form *head);

/* Bytes of a row of width pixels, without its filter's. */
uint64_t tarn__png_row_bytes(const tarn__png_form *head, uint32_t width);

/* Undoes a row's filter. step: bytes of a pixel, at least 1; above: the row over it,
 * undone, or zeros. to lies apart from both. */
void tarn__png_unfilter(unsigned filter, unsigned step, const unsigned char *from,
                        const unsigned char *above, size_t bytes, unsigned char *to);

/* The same for two rows that both have PAETH and pixels of 3 or 4 bytes, at least two;
 * the second is the row under the first. Does nothing and returns false if it cannot. */
bool tarn__png_unfilter_two(unsigned step, const unsigned char *const from[2],
                            const unsigned char *above, size_t bytes,
                            unsigned char *const to[2]);

/* A row's samples as pixels of 8 bits: 1 (of grey only), 3 or 4 channels; or, where
 * channels is tarn__png_samples, of the depth the file has, 16 bits in native order. */
void tarn__png_expand(const tarn__png_form *head, const unsigned char *row,
                      uint32_t width, unsigned channels, unsigned bits, void *out);

/* Of left, above and the one between them, that which is nearest to left + above -
 * between; the first of them if two are. */
static inline unsigned char tarn__png_paeth(int left, int above, int between)
{
    int to_left = above - between, to_above = left - between;
    int to_between = to_left + to_above;
    to_left = to_left < 0 ? -to_left : to_left;
    to_above = to_above < 0 ? -to_above : to_above;
    to_between = to_between < 0 ? -to_between : to_between;
    if (to_left <= to_above && to_left <= to_between) return (unsigned char)left;
    return (unsigned char)(to_above <= to_between ? above : between);
}

#endif
