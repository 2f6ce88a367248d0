/* Reads JPEGs with the classic interface of libjpeg-turbo, which can skip everything
 * around an area. Its errors use longjmp: every call that may fail is made through
 * guard(). */
#include "codec/jpeg.h"

#include <stdlib.h>

#include <jerror.h>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/pixels.h"

enum {
    MOST_SCANS = 500, /* for progressive images; cameras and programs write about ten */
    ROWS = 16,        /* read at once, at most */
    MARGIN = 2,       /* columns next to an area that affect its edge */
    INKS = 4,         /* components of CMYK and YCCK */
};

struct tarn__jpeg {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_progress_mgr progress;
    tarn__jpeg_errors errors;
    tarn__scratch line; /* one row of inks, and the same row as RGB */
};

/* --- Errors --------------------------------------------------------------------- */

static void jump(j_common_ptr jpeg)
{
    tarn__jpeg_errors *errors = (tarn__jpeg_errors *)jpeg->err;
    if (errors->status == TARN_OK) errors->status = TARN_ERR_FORMAT;
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY) errors->status = TARN_ERR_MEMORY;
    jpeg->err->format_message(jpeg, errors->text);
    longjmp(errors->back, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    int code = jpeg->err->msg_code;
    if (level >= 0) return;
    if (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF) {
        ((tarn__jpeg_errors *)jpeg->err)->status = TARN_ERR_TRUNCATED;
        jump(jpeg);
    }
}

struct jpeg_error_mgr *tarn__jpeg_errors_init(tarn__jpeg_errors *errors)
{
    jpeg_std_error(&errors->manager);
    errors->manager.error_exit = jump;
    errors->manager.emit_message = on_message;
    errors->status = TARN_OK;
    return &errors->manager;
}

tarn_status tarn__jpeg_failed(const tarn__jpeg_errors *errors, tarn_error *err)
{
    if (errors->status == TARN_ERR_MEMORY) return tarn__fail_memory(err);
    return tarn__failure((tarn__error_set(err, errors->status, NULL, TARN_NO_OFFSET,
                                          "JPEG: %s", errors->text),
                          errors->status));
}

/* Makes a call that may jump. The call gets its data through context, because a jump
 * would leave changed local variables of this function undefined. */
static tarn_status guard(tarn__jpeg *j, void (*call)(tarn__jpeg *, void *), void *context,
                         tarn_error *err)
{
    j->errors.status = TARN_OK;
    if (setjmp(j->errors.back)) return tarn__jpeg_failed(&j->errors, err);
    call(j, context);
    return TARN_OK;
}

/* --- Creation ------------------------------------------------------------------- */

/* A few kilobytes of scans can keep a processor busy for minutes. */
static void count_scans(j_common_ptr jpeg)
{
    if (((j_decompress_ptr)jpeg)->input_scan_number <= MOST_SCANS) return;
    tarn__jpeg_errors *errors = (tarn__jpeg_errors *)jpeg->err;
    errors->status = TARN_ERR_LIMIT;
    snprintf(errors->text, sizeof errors->text, "more than %d scans", MOST_SCANS);
    longjmp(errors->back, 1);
}

/* Each image has a new libjpeg object. A reused object keeps the tables of the previous
 * image, for streams of images that omit them; but a single image without tables is
 * damaged. */
static void renew(tarn__jpeg *j)
{
    jpeg_destroy_decompress(&j->jpeg);
    jpeg_create_decompress(&j->jpeg);
    j->jpeg.progress = &j->progress;
}

tarn__jpeg *tarn__jpeg_new(void)
{
    tarn__jpeg *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    j->jpeg.err = tarn__jpeg_errors_init(&j->errors);
    j->progress.progress_monitor = count_scans;
    return j;
}

void tarn__jpeg_free(tarn__jpeg *j)
{
    if (!j) return;
    jpeg_destroy_decompress(&j->jpeg);
    tarn__scratch_release(&j->line);
    free(j);
}

/* --- Headers -------------------------------------------------------------------- */

typedef struct source {
    const void *data;
    size_t size;
} source;

static void read_head(tarn__jpeg *j, void *context)
{
    const source *s = context;
    renew(j);
    jpeg_mem_src(&j->jpeg, s->data, s->size);
    jpeg_read_header(&j->jpeg, TRUE);
}

static bool has_inks(const struct jpeg_decompress_struct *jpeg)
{
    return jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
}

tarn_status tarn__jpeg_head(tarn__jpeg *j, const void *data, size_t size,
                            tarn_image_info *out, tarn_error *err)
{
    const struct jpeg_decompress_struct *jpeg = &j->jpeg;
    source s = {data, size};
    TARN_TRY(guard(j, read_head, &s, err));
    bool inks = has_inks(jpeg);
    if (jpeg->num_components != 1 && jpeg->num_components != 3 && !inks)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "JPEG: %d components are not supported", jpeg->num_components);
    *out = (tarn_image_info){.format = TARN_IMAGE_JPEG,
                             .width = jpeg->image_width,
                             .height = jpeg->image_height,
                             .channels = jpeg->num_components == 1 ? 1 : 3};
    if (!inks) return TARN_OK;
    return tarn__scratch_need(&j->line, (uint64_t)jpeg->image_width * (INKS + 3),
                              UINT64_MAX, err);
}

/* --- Pixels --------------------------------------------------------------------- */

typedef struct decoding {
    const tarn__image *out;
    unsigned channels;
    uint32_t by;
    tarn__area area;
} decoding;

static void start(tarn__jpeg *j, const decoding *d)
{
    j->jpeg.out_color_space = has_inks(&j->jpeg) ? JCS_CMYK
                              : d->channels == 1 ? JCS_GRAYSCALE
                              : d->channels == 3 ? JCS_EXT_RGB
                                                 : JCS_EXT_RGBA;
    j->jpeg.scale_num = 1;
    j->jpeg.scale_denom = d->by;
    jpeg_start_decompress(&j->jpeg);
}

static unsigned char product(unsigned a, unsigned b)
{
    unsigned sum = a * b + 128;
    return (unsigned char)((sum + (sum >> 8)) >> 8);
}

/* Reads the next row of a CMYK image. The values are inverted, as Adobe's programs write
 * them: 255 means no ink. The arithmetic is Pillow's. */
static void read_inks(tarn__jpeg *j, const tarn__image *out, unsigned char *to)
{
    struct jpeg_decompress_struct *jpeg = &j->jpeg;
    const unsigned char *ink = j->line.data;
    unsigned char *rgb = j->line.data + (size_t)jpeg->output_width * INKS;
    JSAMPROW row = j->line.data;
    jpeg_read_scanlines(jpeg, &row, 1);
    for (size_t x = 0; x < jpeg->output_width; x++, ink += INKS)
        for (size_t c = 0; c < 3; c++)
            rgb[3 * x + c] = (unsigned char)(ink[3] - product(255u - ink[c], ink[3]));
    tarn__pixels_convert(rgb, 3, to, out->channels, jpeg->output_width);
}

/* Reads up to row end of the image; the first row is written to the first row of out. */
static void read_rows(tarn__jpeg *j, const tarn__image *out, uint32_t end)
{
    struct jpeg_decompress_struct *jpeg = &j->jpeg;
    unsigned char *to = out->data;
    for (; has_inks(jpeg) && jpeg->output_scanline < end; to += out->stride)
        read_inks(j, out, to);
    while (jpeg->output_scanline < end) {
        JSAMPROW rows[ROWS];
        uint32_t some = end - jpeg->output_scanline;
        if (some > ROWS) some = ROWS;
        for (uint32_t i = 0; i < some; i++)
            rows[i] = to + i * out->stride;
        to += jpeg_read_scanlines(jpeg, rows, some) * out->stride;
    }
}

static void read_whole(tarn__jpeg *j, void *context)
{
    const decoding *d = context;
    start(j, d);
    read_rows(j, d->out, j->jpeg.output_height);
    jpeg_finish_decompress(&j->jpeg);
}

tarn_status tarn__jpeg_into(tarn__jpeg *j, const tarn__image *out, tarn_error *err)
{
    decoding d = {.out = out, .channels = out->channels, .by = 1};
    while (d.by < 8 && (tarn__reduced(j->jpeg.image_width, d.by) != out->width ||
                        tarn__reduced(j->jpeg.image_height, d.by) != out->height))
        d.by *= 2;
    return guard(j, read_whole, &d, err);
}

/* --- Areas ---------------------------------------------------------------------- */

/* libjpeg begins at block boundaries. The colours of columns at the edge depend on the
 * columns next to them, and would be different without those. */
static void begin_part(tarn__jpeg *j, void *context)
{
    decoding *d = context;
    start(j, d);
    JDIMENSION all = j->jpeg.output_width;
    JDIMENSION left = d->area.left > MARGIN ? d->area.left - MARGIN : 0;
    JDIMENSION right = all - d->area.right > MARGIN ? d->area.right + MARGIN : all;
    JDIMENSION width = right - left;
    if (width < all) jpeg_crop_scanline(&j->jpeg, &left, &width);
    d->area.left = left;
    d->area.right = left + width;
}

tarn_status tarn__jpeg_begin_part(tarn__jpeg *j, unsigned channels, uint32_t by,
                                  tarn__area *area, tarn_error *err)
{
    decoding d = {.channels = channels, .by = by, .area = *area};
    TARN_TRY(guard(j, begin_part, &d, err));
    *area = d.area;
    return TARN_OK;
}

/* Skips the rows after the area without decoding them, except for the last row: libjpeg
 * stops checking when that is skipped too, and damage would then be an error for some
 * areas of an image and not for others. */
static void read_part(tarn__jpeg *j, void *context)
{
    const decoding *d = context;
    struct jpeg_decompress_struct *jpeg = &j->jpeg;
    if (d->area.top) jpeg_skip_scanlines(jpeg, d->area.top);
    read_rows(j, d->out, d->area.bottom);
    uint32_t left = jpeg->output_height - jpeg->output_scanline;
    tarn__image over = {.data = d->out->data +
                                (size_t)(d->area.bottom - d->area.top) * d->out->stride,
                        .stride = 0};
    if (left > 1) jpeg_skip_scanlines(jpeg, left - 1);
    read_rows(j, &over, jpeg->output_height);
    jpeg_finish_decompress(jpeg);
}

tarn_status tarn__jpeg_read_part(tarn__jpeg *j, const tarn__area *area,
                                 const tarn__image *out, tarn_error *err)
{
    decoding d = {.out = out, .area = *area};
    return guard(j, read_part, &d, err);
}
