/* Shared by the PNG files: the contents of the header chunks, and functions for rows,
 * which know nothing of chunks or files. */
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
    unsigned depth;  /* bits per sample */
    unsigned colour; /* colour type */
    bool interlaced;
    bool transparent;              /* the file has a tRNS chunk */
    bool has_palette;              /* the file has a PLTE chunk that is used */
    uint16_t key[3];               /* GREY, RGB: the transparent samples */
    unsigned char palette[256][4]; /* RGBA; black for missing entries */
} tarn__png_form;

/* Samples per pixel in the file; a palette index is one sample. */
unsigned tarn__png_samples(const tarn__png_form *head);

/* Bytes of a row of width pixels, without the filter byte. */
uint64_t tarn__png_row_bytes(const tarn__png_form *head, uint32_t width);

/* Reverses the filter of a row. step: bytes per pixel, at least 1; above: the unfiltered
 * row above, or zeros. to must not overlap either. */
void tarn__png_unfilter(unsigned filter, unsigned step, const unsigned char *from,
                        const unsigned char *above, size_t bytes, unsigned char *to);

/* The same for two consecutive rows if both have the PAETH filter and at least two pixels
 * of 3 or 4 bytes. Does nothing and returns false if that is not possible. */
bool tarn__png_unfilter_two(unsigned step, const unsigned char *const from[2],
                            const unsigned char *above, size_t bytes,
                            unsigned char *const to[2]);

/* Converts the samples of a row to 8-bit pixels of 1 (grey, or the indices of a palette),
 * 3 or 4 channels. If
 * channels is tarn__png_samples, keeps the depth of the file, with 16-bit samples in
 * native order. */
void tarn__png_expand(const tarn__png_form *head, const unsigned char *row,
                      uint32_t width, unsigned channels, unsigned bits, void *out);

/* The one of left, above and between that is nearest to left + above - between; the first
 * of them if two are equally near. */
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
