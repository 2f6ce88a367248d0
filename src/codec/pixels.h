/* Shared by decoding, resizing and the image steps: the members of a decoder, reusable
 * memory, and the resize, which produces rows. */
#ifndef TARN_CODEC_PIXELS_H
#define TARN_CODEC_PIXELS_H

#include <tarn/image.h>

#include "codec/codec.h"

/* --- Reusable memory ---------------------------------------------------------------- */

typedef struct tarn__scratch {
    unsigned char *data; /* aligned to 64 bytes */
    size_t capacity;
} tarn__scratch;

/* Ensures size bytes; the old contents are lost. TARN_ERR_LIMIT above max. */
TARN_CHECKED tarn_status tarn__scratch_need(tarn__scratch *scratch, uint64_t size,
                                            uint64_t max, tarn_error *err);
void tarn__scratch_release(tarn__scratch *scratch);

/* --- Resizing ----------------------------------------------------------------------- */

/* The weights of one direction. Result i is the sum of count[i] samples from start[i] on,
 * each multiplied by its weight in 22-bit fixed point. Each result has taps weights,
 * which are zero after the first count[i]. A weight is high * 2^11 + low. */
typedef struct tarn__axis {
    uint32_t size; /* number of results */
    uint32_t taps; /* a multiple of 8 */
    uint32_t most; /* the largest count */
    uint32_t *start, *count;
    int32_t *weights;
    int16_t *high, *low;
    uint32_t first, last; /* the range of samples used: [first, last) */
    bool same;            /* result i equals sample first + i */
} tarn__axis;

enum { TARN__WEIGHT_BITS = 22, TARN__LOW_BITS = 11 };

/* Which vector instructions are used; all give the same results. */
typedef enum tarn__loops {
    TARN__LOOPS_PLAIN,
    TARN__LOOPS_AVX2,
    TARN__LOOPS_AVX512
} tarn__loops;

typedef struct tarn__resizer {
    tarn__scratch weights[2], line, rows, row;
    tarn__loops loops;
} tarn__resizer;

typedef struct tarn__resize_job {
    tarn__image from;
    uint32_t skip_x, skip_y; /* columns and rows of from that are missing in data */
    float box[4];            /* left, top, right, bottom */
    uint32_t full_width, full_height;  /* the size to which the box is resized */
    uint32_t left, top, width, height; /* the part of that size to produce */
    void (*take)(void *context, uint32_t y, const unsigned char *row);
    void *context;
} tarn__resize_job;

/* The area of from that is used; from needs no data yet. */
TARN_CHECKED tarn_status tarn__resize_needs(const tarn__resize_job *job, tarn__area *out,
                                            tarn_error *err);

/* Calls take for each row of the result, from the top. The row is valid only during the
 * call. */
TARN_CHECKED tarn_status tarn__resize_run(tarn__resizer *resizer,
                                          const tarn__resize_job *job, uint64_t max_size,
                                          tarn_error *err);
void tarn__resizer_release(tarn__resizer *resizer);

/* The vector loops, and whether this machine supports them. across makes TARN__ROWS rows
 * from as many lines; it reads up to TARN__BEHIND bytes after the end of a line, and
 * writes up to 16 bytes after the last pixel. down stays inside its bytes. */
enum { TARN__ROWS = 8, TARN__BEHIND = 64 };
typedef void tarn__across_loop(const tarn__axis *axis, const unsigned char *lines,
                               size_t line_stride, unsigned channels, unsigned char *out,
                               size_t stride);
typedef void tarn__down_loop(const unsigned char *rows, size_t stride, uint32_t count,
                             const int16_t *high, const int16_t *low, size_t bytes,
                             unsigned char *out);
bool tarn__avx2_there(void);
bool tarn__avx512_there(void);
tarn__across_loop tarn__across_avx2, tarn__across_avx512;
tarn__down_loop tarn__down_avx2, tarn__down_avx512;

/* Converts pixels of three channels to floats in three planes, from the left or the
 * right, and returns how many it converted: a multiple of 8. The quotients are corrected
 * to equal those of a division, which is guaranteed only if all 256 samples were
 * tried. */
size_t tarn__planes_avx2(const unsigned char *row, size_t width, bool flip,
                         const float *mean, const float *std, float *out, size_t plane);

/* --- Decoder ------------------------------------------------------------------------ */

/* Validated steps and their tables. A plan never changes and may be used by any number of
 * threads. */
typedef struct tarn__image_plan tarn__image_plan;

struct tarn_image_decoder {
    tarn__image_plan *plan; /* of the last tarn_image_run, or NULL */
    struct tarn__jpeg *jpeg;
    struct tarn__png *png;
    uint64_t max_pixels, max_size;
    tarn__scratch pixels; /* decoded pixels, if not written to the caller's memory */
    tarn__scratch raw;    /* output of a library before the conversion of channels */
    tarn__resizer resizer;
};

/* Reads the header and checks the limits. After that the image may be decoded once, into
 * out, whose members are all set; its rows are contiguous. */
TARN_CHECKED tarn_status tarn__image_head(tarn_image_decoder *decoder, const void *data,
                                          size_t size, tarn_image_info *out,
                                          tarn_error *err);
TARN_CHECKED tarn_status tarn__image_open(tarn_image_decoder *decoder, const void *data,
                                          size_t size, tarn_image_info *out,
                                          tarn_error *err);
TARN_CHECKED tarn_status tarn__image_into(tarn_image_decoder *decoder, const void *data,
                                          size_t size, const tarn_image_info *info,
                                          const tarn__image *out, tarn_error *err);
/* Decodes an area of the image at scale 1/by (1 unless it is a JPEG); out has
 * channels. */
TARN_CHECKED tarn_status tarn__image_keep_part(tarn_image_decoder *decoder,
                                               const void *data, size_t size,
                                               const tarn_image_info *info, uint32_t by,
                                               const tarn__area *area, tarn__image *out,
                                               tarn_error *err);

/* --- Steps -------------------------------------------------------------------------- */

TARN_CHECKED tarn_status tarn__image_plan_new(const tarn_image_steps *steps,
                                              tarn__image_plan **out, tarn_error *err);
void tarn__image_plan_free(tarn__image_plan *plan);

/* Bytes of one result. */
size_t tarn__image_plan_size(const tarn__image_plan *plan);

/* The part of an image of this size that is used. */
typedef struct tarn__image_choice {
    uint32_t left, top, width, height; /* the part of the image to resize */
    bool flip;
} tarn__image_choice;

TARN_CHECKED tarn_status tarn__image_choose(const tarn__image_plan *plan, uint32_t width,
                                            uint32_t height, tarn_image_draw draw,
                                            tarn__image_choice *out, tarn_error *err);

/* tarn_image_run with a plan; out has tarn__image_plan_size bytes. */
TARN_CHECKED tarn_status tarn__image_run(tarn_image_decoder *decoder,
                                         const tarn__image_plan *plan, const void *data,
                                         size_t size, tarn_image_draw draw, void *out,
                                         tarn_error *err);

#endif
