/* Writes PNGs: each row with the filter that leaves the smallest sum, one IDAT, and no
 * optional chunks. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/crc.h"
#include "base/error.h"
#include "codec/codec.h"
#include "codec/png.h"

enum { FILTERS = 5 };
#define LARGEST_CHUNK 0x7fffffffu

/* --- Chunks --------------------------------------------------------------------- */

static void put_big32(unsigned char *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (24 - 8 * i));
}

static tarn_status add_chunk(tarn_bytes *out, const char *name, const void *data,
                             uint32_t size, tarn_error *err)
{
    unsigned char *p = tarn__bytes_extend(out, (size_t)size + 12, err);
    if (!p) return TARN_ERR_MEMORY;
    put_big32(p, size);
    memcpy(p + 4, name, 4);
    if (size) memcpy(p + 8, data, size);
    put_big32(p + 8 + size, tarn__crc32(0, p + 4, (size_t)size + 4));
    return TARN_OK;
}

static tarn_status add_head(tarn_bytes *out, const tarn__pixels *pixels, tarn_error *err)
{
    static const unsigned char colour[5] = {0, TARN__PNG_GREY, TARN__PNG_GREY_ALPHA,
                                            TARN__PNG_RGB, TARN__PNG_RGBA};
    unsigned char head[13] = {0};
    put_big32(head, pixels->width);
    put_big32(head + 4, pixels->height);
    head[8] = (unsigned char)pixels->bits;
    head[9] = colour[pixels->channels];
    TARN_TRY(tarn__bytes_add(out, TARN__PNG_SIGNATURE, 8, err));
    return add_chunk(out, "IHDR", head, sizeof head, err);
}

/* --- Filters -------------------------------------------------------------------- */

/* Both rows have step zeros before them. */
static void apply(unsigned filter, const unsigned char *row, const unsigned char *above,
                  size_t step, size_t bytes, unsigned char *out)
{
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char *left = row + i - step, *between = above + i - step;
        unsigned guess = filter == TARN__PNG_NONE  ? 0
                         : filter == TARN__PNG_SUB ? *left
                         : filter == TARN__PNG_UP  ? above[i]
                         : filter == TARN__PNG_AVERAGE
                             ? (unsigned)(*left + above[i]) / 2
                             : tarn__png_paeth(*left, above[i], *between);
        out[i] = (unsigned char)(row[i] - guess);
    }
}

static uint64_t weight(const unsigned char *p, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += p[i] < 128 ? p[i] : 256u - p[i];
    return sum;
}

typedef struct filtering {
    size_t step, bytes;
    unsigned char *row, *above; /* with zeros before them */
    unsigned char *trial;
} filtering;

/* Writes a filter byte and the filtered row. */
static void filter_row(filtering *f, unsigned char *out)
{
    uint64_t least = UINT64_MAX;
    for (unsigned filter = 0; filter < FILTERS; filter++) {
        apply(filter, f->row, f->above, f->step, f->bytes, f->trial);
        uint64_t w = weight(f->trial, f->bytes);
        if (w >= least) continue;
        least = w;
        out[0] = (unsigned char)filter;
        memcpy(out + 1, f->trial, f->bytes);
    }
}

static void load_row(const tarn__pixels *pixels, uint32_t y, size_t bytes,
                     unsigned char *out)
{
    const unsigned char *from = (const unsigned char *)pixels->data + y * bytes;
    if (pixels->bits == 8)
        memcpy(out, from, bytes);
    else
        for (size_t i = 0; i < bytes; i += 2) {
            out[i] = from[i + 1];
            out[i + 1] = from[i];
        }
}

/* All rows with their filters. The caller frees *out. */
static tarn_status filter_all(const tarn__pixels *pixels, unsigned char **out,
                              uint64_t *out_size, tarn_error *err)
{
    filtering f = {.step = pixels->channels * (pixels->bits / 8)};
    f.bytes = pixels->width * f.step;
    uint64_t size;
    *out = NULL;
    if (!tarn__mul(f.bytes + 1, pixels->height, &size)) return tarn__fail_memory(err);
    unsigned char *work = calloc(3, f.bytes + f.step), *all = malloc(size);
    if (!work || !all) {
        free(work);
        free(all);
        return tarn__fail_memory(err);
    }
    f.row = work + f.step;
    f.above = f.row + f.bytes + f.step;
    f.trial = f.above + f.bytes;
    for (uint32_t y = 0; y < pixels->height; y++) {
        load_row(pixels, y, f.bytes, f.row);
        filter_row(&f, all + y * (f.bytes + 1));
        unsigned char *done = f.row;
        f.row = f.above;
        f.above = done;
    }
    free(work);
    *out = all;
    *out_size = size;
    return TARN_OK;
}

/* --- Encoding ------------------------------------------------------------------- */

static tarn_status add_pixels(tarn_bytes *out, const tarn_bytes *packed, tarn_error *err)
{
    for (size_t at = 0; at < packed->size; at += LARGEST_CHUNK) {
        size_t left = packed->size - at;
        TARN_TRY(add_chunk(out, "IDAT", packed->data + at,
                           left < LARGEST_CHUNK ? (uint32_t)left : LARGEST_CHUNK, err));
    }
    return TARN_OK;
}

tarn_status tarn__png_encode(const tarn__pixels *pixels,
                             const tarn_encode_options *options, tarn_bytes *out,
                             tarn_error *err)
{
    unsigned char *rows;
    uint64_t size;
    tarn_bytes packed = TARN_BYTES_INIT;
    if (options->png_level < 0 || options->png_level > 9)
        return tarn__fail(err, TARN_ERR_USAGE, "PNG level %d is not from 0 to 9",
                          options->png_level);
    TARN_TRY(filter_all(pixels, &rows, &size, err));
    tarn_status status = tarn__zlib_add(rows, size, options->png_level, &packed, err);
    free(rows);
    if (status == TARN_OK) status = add_head(out, pixels, err);
    if (status == TARN_OK) status = add_pixels(out, &packed, err);
    if (status == TARN_OK) status = add_chunk(out, "IEND", NULL, 0, err);
    tarn_bytes_release(&packed);
    return status;
}
