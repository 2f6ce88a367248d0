/* Reads PNGs: walks over the chunks and writes the rows to memory. ISA-L expands all rows
 * at once into a buffer whose size follows from the header; png_rows.c does the rest. For
 * what is accepted and refused see docs/internals/image.md. */
#include <stdlib.h>
#include <string.h>

#include <isa-l/igzip_lib.h>

#include "base/checked.h"
#include "base/crc.h"
#include "base/error.h"
#include "codec/codec.h"
#include "codec/pixels.h"
#include "codec/png.h"

enum { SIGNATURE_SIZE = 8, CHUNK_EXTRA = 12, HEAD_SIZE = 13 };
#define LARGEST   0x7fffffffu /* largest length or side */
#define EXPANSION 1032u       /* maximum expansion of deflate */
#define TAG(a, b, c, d)                                                                  \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define ANCILLARY 0x20000000u /* bit of a tag: the chunk does not affect pixels */

struct tarn__png {
    struct inflate_state inflater;
    tarn__scratch packed; /* all IDAT chunks, if there are several */
    tarn__scratch rows;   /* the expanded rows, and three more */
    const unsigned char *data;
    size_t size, at; /* at: the first IDAT, after the head was read */
    tarn__png_form head;
};

tarn__png *tarn__png_new(void)
{
    return calloc(1, sizeof(tarn__png));
}

void tarn__png_free(tarn__png *png)
{
    if (!png) return;
    tarn__scratch_release(&png->packed);
    tarn__scratch_release(&png->rows);
    free(png);
}

/* --- Chunks --------------------------------------------------------------------- */

typedef struct chunk {
    uint32_t tag, size;
    const unsigned char *data;
    size_t at;
} chunk;

static uint32_t big32(const unsigned char *p)
{
    return TAG(p[0], p[1], p[2], p[3]);
}

static tarn_status bad(const chunk *c, const char *what, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "PNG: chunk %.4s at byte %zu: %s",
                      c->data - 4, c->at, what);
}

static bool is_name(const unsigned char *p)
{
    for (unsigned i = 0; i < 4; i++)
        if ((p[i] | 0x20) < 'a' || (p[i] | 0x20) > 'z') return false;
    return true;
}

static tarn_status take_chunk(const tarn__png *png, size_t at, chunk *out,
                              tarn_error *err)
{
    const unsigned char *p = png->data + at;
    size_t left = png->size - at;
    if (left < CHUNK_EXTRA || big32(p) > left - CHUNK_EXTRA)
        return tarn__fail(err, TARN_ERR_TRUNCATED,
                          "PNG: truncated: the file has %zu bytes, and the chunk at byte "
                          "%zu is incomplete",
                          png->size, at);
    if (big32(p) > LARGEST || !is_name(p + 4))
        return tarn__fail(err, TARN_ERR_FORMAT, "PNG: no chunk at byte %zu", at);
    *out = (chunk){.size = big32(p), .tag = big32(p + 4), .data = p + 8, .at = at};
    return TARN_OK;
}

static tarn_status check_sum(const chunk *c, tarn_error *err)
{
    uint32_t stored = big32(c->data + c->size);
    uint32_t computed = tarn__crc32(0, c->data - 4, (size_t)c->size + 4);
    if (stored == computed) return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "PNG: chunk %.4s at byte %zu: checksum does not match (stored "
                      "%08x, computed %08x)",
                      c->data - 4, c->at, stored, computed);
}

static size_t behind(const chunk *c)
{
    return c->at + CHUNK_EXTRA + c->size;
}

/* --- Header chunks -------------------------------------------------------------- */

static bool goes_together(unsigned colour, unsigned depth)
{
    static const unsigned char depths[7] = {
        1 | 2 | 4 | 8 | 16, 0, 8 | 16, 1 | 2 | 4 | 8, 8 | 16, 0, 8 | 16};
    return colour < 7 && depth <= 16 && (depth & (depth - 1)) == 0 &&
           (depths[colour] & depth);
}

static tarn_status take_head(tarn__png_form *head, const chunk *c, tarn_error *err)
{
    const unsigned char *p = c->data;
    if (c->tag != TAG('I', 'H', 'D', 'R') || c->size != HEAD_SIZE)
        return bad(c, "expected an IHDR of 13 bytes", err);
    TARN_TRY(check_sum(c, err));
    memset(head, 0, sizeof *head);
    head->width = big32(p);
    head->height = big32(p + 4);
    head->depth = p[8];
    head->colour = p[9];
    head->interlaced = p[12] == 1;
    if (head->width - 1 >= LARGEST || head->height - 1 >= LARGEST)
        return bad(c, "width or height is 0 or more than 2^31 - 1", err);
    if (!goes_together(head->colour, head->depth))
        return bad(c, "invalid combination of colour type and depth", err);
    if (p[10] || p[11] || p[12] > 1)
        return bad(c, "unknown compression, filter or interlace method", err);
    return TARN_OK;
}

/* In images without palette indices a palette is only a suggestion. */
static tarn_status take_palette(tarn__png_form *head, const chunk *c, tarn_error *err)
{
    if (head->colour != TARN__PNG_PALETTE) return TARN_OK;
    if (head->has_palette) return bad(c, "a second palette", err);
    if (c->size == 0 || c->size % 3 || c->size > 3 * 256)
        return bad(c, "a palette must have 1 to 256 entries of 3 bytes", err);
    for (unsigned i = 0; i < 256; i++)
        head->palette[i][3] = 255;
    for (unsigned i = 0; i < c->size / 3; i++)
        memcpy(head->palette[i], c->data + 3 * i, 3);
    head->has_palette = true;
    return TARN_OK;
}

static tarn_status take_transparency(tarn__png_form *head, const chunk *c,
                                     tarn_error *err)
{
    unsigned keys = head->colour == TARN__PNG_GREY ? 1 : 3;
    if (head->colour == TARN__PNG_GREY_ALPHA || head->colour == TARN__PNG_RGBA)
        return TARN_OK; /* they have an alpha channel */
    if (head->transparent) return bad(c, "a second tRNS", err);
    head->transparent = true;
    if (head->colour == TARN__PNG_PALETTE) {
        if (!head->has_palette || c->size == 0 || c->size > 256)
            return bad(c, "a tRNS must have 1 to 256 bytes and come after the palette",
                       err);
        for (unsigned i = 0; i < c->size; i++)
            head->palette[i][3] = c->data[i];
        return TARN_OK;
    }
    if (c->size != 2 * keys) return bad(c, "wrong size", err);
    for (unsigned i = 0; i < keys; i++)
        head->key[i] = (uint16_t)((c->data[2 * i] << 8 | c->data[2 * i + 1]) &
                                  ((1u << head->depth) - 1));
    return TARN_OK;
}

/* Reads everything before the first IDAT. Also checks the checksums of chunks that are
 * not used, because one with a damaged name could have been a tRNS. */
static tarn_status read_head(tarn__png *png, tarn_error *err)
{
    chunk c;
    TARN_TRY(take_chunk(png, SIGNATURE_SIZE, &c, err));
    TARN_TRY(take_head(&png->head, &c, err));
    for (;;) {
        TARN_TRY(take_chunk(png, behind(&c), &c, err));
        if (c.tag == TAG('I', 'D', 'A', 'T')) break;
        TARN_TRY(check_sum(&c, err));
        if (c.tag == TAG('P', 'L', 'T', 'E'))
            TARN_TRY(take_palette(&png->head, &c, err));
        else if (c.tag == TAG('t', 'R', 'N', 'S'))
            TARN_TRY(take_transparency(&png->head, &c, err));
        else if (!(c.tag & ANCILLARY))
            return bad(&c, "chunk is unknown, or not allowed before the pixels", err);
    }
    if (png->head.colour == TARN__PNG_PALETTE && !png->head.has_palette)
        return bad(&c, "the pixels need a palette, but there is none", err);
    png->at = c.at;
    return TARN_OK;
}

tarn_status tarn__png_head(tarn__png *png, const void *data, size_t size,
                           tarn_image_info *out, tarn_error *err)
{
    const tarn__png_form *head = &png->head;
    png->data = data;
    png->size = size;
    if (size < SIGNATURE_SIZE || memcmp(data, TARN__PNG_SIGNATURE, SIGNATURE_SIZE) != 0)
        return tarn__fail(err, TARN_ERR_FORMAT, "PNG: the signature is missing");
    TARN_TRY(read_head(png, err));
    bool alpha = head->colour == TARN__PNG_GREY_ALPHA || head->colour == TARN__PNG_RGBA ||
                 head->transparent;
    *out = (tarn_image_info){.format = TARN_IMAGE_PNG,
                             .width = head->width,
                             .height = head->height,
                             .channels = alpha                            ? 4
                                         : head->colour == TARN__PNG_GREY ? 1
                                                                          : 3};
    return TARN_OK;
}

/* --- Expanding pixels ----------------------------------------------------------- */

/* Checks the chunks from the first IDAT to the end, and adds up the bytes of all
 * IDATs. */
static tarn_status check_rest(const tarn__png *png, uint64_t *out_bytes,
                              size_t *out_count, tarn_error *err)
{
    chunk c = {0};
    bool done = false;
    *out_bytes = *out_count = 0;
    for (size_t at = png->at; c.tag != TAG('I', 'E', 'N', 'D'); at = behind(&c)) {
        TARN_TRY(take_chunk(png, at, &c, err));
        TARN_TRY(check_sum(&c, err));
        if (c.tag == TAG('I', 'D', 'A', 'T')) {
            if (done) return bad(&c, "the IDAT chunks are not consecutive", err);
            *out_bytes += c.size;
            ++*out_count;
            continue;
        }
        done = true;
        if (!(c.tag & ANCILLARY) && c.tag != TAG('I', 'E', 'N', 'D'))
            return bad(&c, "chunk is unknown, or not allowed after the pixels", err);
    }
    return TARN_OK;
}

/* Copies the compressed pixels into one piece. The data may be a map of a changing file:
 * never copies more than the bytes that were added up before. */
static tarn_status gather(tarn__png *png, uint64_t bytes, size_t count, uint64_t max_size,
                          const unsigned char **out, tarn_error *err)
{
    chunk c = {.at = png->at};
    if (count == 1) {
        *out = png->data + png->at + 8;
        return TARN_OK;
    }
    TARN_TRY(tarn__scratch_need(&png->packed, bytes, max_size, err));
    unsigned char *to = png->packed.data;
    for (size_t i = 0, at = png->at; i < count; i++, at = behind(&c)) {
        TARN_TRY(take_chunk(png, at, &c, err));
        if (c.size > bytes) return bad(&c, "the chunk changed while it was read", err);
        memcpy(to, c.data, c.size);
        to += c.size;
        bytes -= c.size;
    }
    *out = png->packed.data;
    return TARN_OK;
}

static tarn_status expand(tarn__png *png, const unsigned char *packed, size_t size,
                          size_t need, tarn_error *err)
{
    struct inflate_state *z = &png->inflater;
    /* ISA-L counts in 32 bits. */
    if (size > UINT32_MAX || need > UINT32_MAX)
        return tarn__unzlib_begin(packed, size, png->rows.data, need, err);
    isal_inflate_init(z);
    z->crc_flag = ISAL_ZLIB;
    z->next_in = (uint8_t *)(uintptr_t)packed;
    z->avail_in = (uint32_t)size;
    z->next_out = png->rows.data;
    z->avail_out = (uint32_t)need;
    int code = isal_inflate_stateless(z);
    /* Additional data is ignored, as in libpng. */
    if (code == ISAL_OUT_OVERFLOW)
        return tarn__unzlib_begin(packed, size, png->rows.data, need, err);
    if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "PNG: the compressed pixels are damaged (ISA-L code %d)", code);
    if (code == ISAL_END_INPUT || z->avail_out)
        return tarn__fail(err, TARN_ERR_TRUNCATED,
                          "PNG: fewer pixels than the header says");
    return TARN_OK;
}

/* --- Rows ----------------------------------------------------------------------- */

/* An interlaced image is stored as seven smaller images, any other image as one; each has
 * every dx-th column from x on and every dy-th row from y on. */
typedef struct pass {
    unsigned char x, y, dx, dy;
} pass;

static const pass whole = {0, 0, 1, 1};
static const pass passes[7] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                               {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

static uint32_t steps_in(uint32_t size, unsigned from, unsigned by)
{
    return size > from ? (size - from + by - 1) / by : 0;
}

static bool pass_size(const tarn__png_form *head, const pass *p, uint32_t *width,
                      uint32_t *height)
{
    *width = steps_in(head->width, p->x, p->dx);
    *height = steps_in(head->height, p->y, p->dy);
    return *width && *height;
}

/* Bytes of all rows with their filters, at most 2^31 * (2^34 + 1) for each pass. */
static bool expanded_size(const tarn__png_form *head, uint64_t *out)
{
    size_t count = head->interlaced ? 7 : 1;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t width, height;
        uint64_t bytes;
        if (!pass_size(head, head->interlaced ? &passes[i] : &whole, &width, &height))
            continue;
        if (!tarn__mul(tarn__png_row_bytes(head, width) + 1, height, &bytes) ||
            !tarn__add(sum, bytes, &sum))
            return false;
    }
    *out = sum;
    return true;
}

/* Destination of pixels. */
typedef struct place {
    unsigned char *data;
    size_t stride;
    unsigned channels, bits;
} place;

typedef struct rows {
    const tarn__png_form *head;
    const place *to;
    const unsigned char *from; /* the filter byte of the next row */
    unsigned char *spare[2];   /* for rows that are not converted yet */
    unsigned char *zeros;      /* the row above the first */
    unsigned char *pixels;     /* one row of a pass */
} rows;

static void scatter(const rows *r, const pass *p, uint32_t width, unsigned char *to)
{
    size_t size = (size_t)r->to->channels * (r->to->bits / 8);
    to += p->x * size;
    for (size_t i = 0; i < width; i++)
        memcpy(to + i * p->dx * size, r->pixels + i * size, size);
}

static tarn_status check_filter(const rows *r, uint32_t y, tarn_error *err)
{
    if (r->from[0] <= TARN__PNG_PAETH) return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT, "PNG: row %u has filter %u (expected 0 to 4)",
                      y, r->from[0]);
}

/* Writes the next two rows at once, if possible. */
static bool put_two(const rows *r, const unsigned char *above, size_t bytes,
                    unsigned char *to)
{
    const unsigned char *from[2] = {r->from + 1, r->from + bytes + 2};
    unsigned char *const both[2] = {to, to + r->to->stride};
    return from[0][-1] == TARN__PNG_PAETH && from[1][-1] == TARN__PNG_PAETH &&
           tarn__png_unfilter_two(tarn__png_samples(r->head), from, above, bytes, both);
}

/* Writes rows that only need their filters reversed directly to their destination. */
static tarn_status put_whole(rows *r, tarn_error *err)
{
    const tarn__png_form *head = r->head;
    size_t bytes = (size_t)tarn__png_row_bytes(head, head->width);
    const unsigned char *above = r->zeros;
    for (uint32_t y = 0, done; y < head->height; y += done) {
        unsigned char *to = r->to->data + y * r->to->stride;
        TARN_TRY(check_filter(r, y, err));
        done = y + 1 < head->height && put_two(r, above, bytes, to) ? 2 : 1;
        if (done == 1)
            tarn__png_unfilter(r->from[0], tarn__png_samples(head), r->from + 1, above,
                               bytes, to);
        above = to + (done - 1) * r->to->stride;
        r->from += done * (bytes + 1);
    }
    return TARN_OK;
}

static tarn_status put_pass(rows *r, const pass *p, tarn_error *err)
{
    const tarn__png_form *head = r->head;
    const place *to = r->to;
    uint32_t width, height;
    if (!pass_size(head, p, &width, &height)) return TARN_OK;
    size_t bytes = (size_t)tarn__png_row_bytes(head, width);
    unsigned step = (tarn__png_samples(head) * head->depth + 7) / 8;
    const unsigned char *above = r->zeros;
    for (uint32_t y = 0; y < height; y++, r->from += bytes + 1) {
        unsigned char *out = to->data + (p->y + (size_t)y * p->dy) * to->stride;
        unsigned char *row = r->spare[y % 2];
        TARN_TRY(check_filter(r, y, err));
        tarn__png_unfilter(r->from[0], step, r->from + 1, above, bytes, row);
        above = row;
        bool aside = p->dx > 1;
        tarn__png_expand(head, row, width, to->channels, to->bits,
                         aside ? r->pixels : out);
        if (aside) scatter(r, p, width, out);
    }
    return TARN_OK;
}

static tarn_status put_rows(rows *r, tarn_error *err)
{
    const tarn__png_form *head = r->head;
    if (head->interlaced) {
        for (size_t i = 0; i < 7; i++)
            TARN_TRY(put_pass(r, &passes[i], err));
        return TARN_OK;
    }
    bool as_it_is = head->depth == 8 && head->colour != TARN__PNG_PALETTE &&
                    tarn__png_samples(head) == r->to->channels;
    return as_it_is ? put_whole(r, err) : put_pass(r, &whole, err);
}

/* Memory for the expanded rows, and after them for two spare rows, one row of zeros and
 * one of pixels. */
static tarn_status need_rows(tarn__png *png, const place *to, uint64_t expanded,
                             uint64_t max_size, rows *out, tarn_error *err)
{
    size_t row = (size_t)tarn__png_row_bytes(&png->head, png->head.width);
    size_t pixels = (size_t)png->head.width * to->channels * (to->bits / 8);
    uint64_t all;
    if (!tarn__add(expanded, 3 * (uint64_t)row + pixels, &all)) all = UINT64_MAX;
    TARN_TRY(tarn__scratch_need(&png->rows, all, max_size, err));
    unsigned char *p = png->rows.data + expanded;
    *out = (rows){.head = &png->head,
                  .to = to,
                  .from = png->rows.data,
                  .spare = {p, p + row},
                  .zeros = p + 2 * row,
                  .pixels = p + 3 * row};
    memset(out->zeros, 0, row);
    return TARN_OK;
}

static tarn_status read_pixels(tarn__png *png, const place *to, uint64_t max_size,
                               tarn_error *err)
{
    uint64_t packed_size, expanded;
    size_t count;
    const unsigned char *packed;
    rows r;
    if (!expanded_size(&png->head, &expanded)) expanded = UINT64_MAX;
    TARN_TRY(check_rest(png, &packed_size, &count, err));
    /* Checked before memory is allocated: no data could expand that much. */
    if (expanded / EXPANSION > packed_size)
        return tarn__fail(err, TARN_ERR_TRUNCATED,
                          "PNG: %llu bytes of compressed pixels cannot expand to the %u "
                          "x %u pixels of the header",
                          (unsigned long long)packed_size, png->head.width,
                          png->head.height);
    TARN_TRY(gather(png, packed_size, count, max_size, &packed, err));
    TARN_TRY(need_rows(png, to, expanded, max_size, &r, err));
    TARN_TRY(expand(png, packed, packed_size, expanded, err));
    return put_rows(&r, err);
}

unsigned tarn__png_channels(const tarn__png *png, unsigned wanted)
{
    bool grey =
        png->head.colour == TARN__PNG_GREY || png->head.colour == TARN__PNG_GREY_ALPHA;
    return wanted == 1 && !grey ? 3 : wanted;
}

tarn_status tarn__png_into(tarn__png *png, const tarn__image *out, uint64_t max_size,
                           tarn_error *err)
{
    place to = {out->data, out->stride, out->channels, 8};
    return read_pixels(png, &to, max_size, err);
}

/* --- Decoding to a value -------------------------------------------------------- */

/* The format of the file: up to 16 bits, with transparency only if it is a sample or in
 * the palette. */
static place place_of(const tarn__png_form *head, bool indices)
{
    if (head->colour == TARN__PNG_PALETTE && indices)
        return (place){.channels = 1, .bits = 8};
    if (head->colour == TARN__PNG_PALETTE)
        return (place){.channels = head->transparent ? 4 : 3, .bits = 8};
    return (place){.channels = tarn__png_samples(head),
                   .bits = head->depth == 16 ? 16 : 8};
}

static tarn_status read_value(tarn__png *png, const tarn_decode_options *options,
                              tarn_value *out, tarn_error *err)
{
    const tarn__png_form *head = &png->head;
    place to = place_of(head, options->flags & TARN_DECODE_INDICES);
    TARN_TRY(tarn__pixels_make(out, head->width, head->height, to.channels,
                               to.bits == 16 ? TARN__U2 : TARN__U1, options, err));
    to.data = out->arrays->data;
    to.stride = (size_t)head->width * to.channels * (to.bits / 8);
    /* max_size limits the value; the rows are limited by the number of pixels. */
    tarn_status status = read_pixels(png, &to, UINT64_MAX, err);
    if (status != TARN_OK) tarn_value_release(out);
    return status;
}

tarn_status tarn__png_decode(const void *data, size_t size,
                             const tarn_decode_options *options, tarn_value *out,
                             tarn_error *err)
{
    tarn_image_info info;
    tarn__png *png = tarn__png_new();
    if (!png) return tarn__fail_memory(err);
    tarn_status status = tarn__png_head(png, data, size, &info, err);
    if (status == TARN_OK) status = read_value(png, options, out, err);
    tarn__png_free(png);
    return status;
}
