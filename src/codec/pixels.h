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
    struct tarn__jxl *jxl; /* NULL before the first JPEG XL */
    uint64_t max_pixels, max_size;
    bool upright;           /* images are turned as their EXIF data says */
    unsigned orientation;   /* of the last head; 1: nothing to turn */
    uint32_t width, height; /* of the last image that was run through steps */
    tarn__scratch pixels;   /* decoded pixels, if not written to the caller's memory */
    tarn__scratch turned;   /* the same, upright */
    tarn__scratch raw;      /* output of a library before the conversion of channels */
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
/* Decodes an area of the upright image at scale 1/by (1 unless it is a JPEG); out has
 * channels. */
TARN_CHECKED tarn_status tarn__image_keep_part(tarn_image_decoder *decoder,
                                               const void *data, size_t size,
                                               const tarn_image_info *info, uint32_t by,
                                               const tarn__area *area, tarn__image *out,
                                               tarn_error *err);

/* --- Orientation (exif.c) ----------------------------------------------------------- */

/* 1 to 8, as in EXIF. 1 if the image has none. */
unsigned tarn__exif_orientation(const void *data, size_t size);

/* From the size of the stored image to that of the upright one, and back. */
void tarn__exif_turn_size(unsigned orientation, uint32_t *width, uint32_t *height);

/* A JPEG at scale 1/by may be up to over_x columns and over_y rows larger than the image.
 * In the upright image these come first if it is read from the right or from below. Moves
 * a position of the image to that position of the decoded pixels. */
void tarn__exif_shift(unsigned orientation, uint32_t over_x, uint32_t over_y,
                      uint32_t *left, uint32_t *top);

/* The area of the stored image that an area of the upright one, of this size, shows. */
tarn__area tarn__exif_stored_area(unsigned orientation, uint32_t width, uint32_t height,
                                  const tarn__area *upright);

/* Fills to, whose members are all set. channels is the number of bytes of a pixel. */
void tarn__exif_turn(unsigned orientation, const tarn__image *from,
                     const tarn__image *to);

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

/* Sets the size to which the part is resized, and the window of it that is the result. */
TARN_CHECKED tarn_status tarn__image_target(const tarn__image_plan *plan,
                                            const tarn__image_choice *choice,
                                            tarn__resize_job *job, tarn_error *err);

/* Whether both plans take the same part of an image to the same place, whatever they do
 * with its samples. */
bool tarn__image_plans_agree(const tarn__image_plan *a, const tarn__image_plan *b);
const tarn_image_steps *tarn__image_plan_steps(const tarn__image_plan *plan);

/* tarn_image_run with a plan; out has tarn__image_plan_size bytes. */
TARN_CHECKED tarn_status tarn__image_run(tarn_image_decoder *decoder,
                                         const tarn__image_plan *plan, const void *data,
                                         size_t size, tarn_image_draw draw, void *out,
                                         tarn_error *err);

/* The same for decoded pixels: a packed array [height, width] or [height, width,
 * channels] of u1 or u2, of 1, 3 or 4 channels. */
TARN_CHECKED tarn_status tarn__image_run_pixels(tarn_image_decoder *decoder,
                                                const tarn__image_plan *plan,
                                                const tarn_array *pixels,
                                                tarn_image_draw draw, void *out,
                                                tarn_error *err);

/* --- Masks (mask.c) ----------------------------------------------------------------- */

/* Labels of size bytes each, row after row. */
typedef struct tarn__labels {
    const unsigned char *data;
    uint32_t width, height;
    size_t size;
} tarn__labels;

/* Applies to labels what the plan and the draw do to an image of their size. out has room
 * for the width x height labels of the plan. */
TARN_CHECKED tarn_status tarn__mask_run(tarn_image_decoder *decoder,
                                        const tarn__image_plan *plan,
                                        const tarn__labels *labels, tarn_image_draw draw,
                                        void *out, tarn_error *err);

#endif
