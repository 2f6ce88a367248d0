/* What decoding, resizing and the steps on images share: a decoder's insides, memory that
 * is used again, and the resize that hands out its rows. */
#ifndef TARN_CODEC_PIXELS_H
#define TARN_CODEC_PIXELS_H

#include <tarn/image.h>

#include "codec/codec.h"

/* --- Memory that is used again ------------------------------------------------------ */

typedef struct tarn__scratch {
    unsigned char *data; /* aligned to 64 bytes */
    size_t capacity;
} tarn__scratch;

/* Room for size bytes; what was there is lost. TARN_ERR_LIMIT past max. */
TARN_CHECKED tarn_status tarn__scratch_need(tarn__scratch *scratch, uint64_t size,
                                            uint64_t max, tarn_error *err);
void tarn__scratch_release(tarn__scratch *scratch);

/* --- Resizing ----------------------------------------------------------------------- */

/* The weights of one direction. Result i is the sum of count[i] samples from start[i] on,
 * each times its weight in 22-bit fixed point; there are taps weights for each result,
 * zeros behind the last. A weight is high * 2^11 + low. */
typedef struct tarn__axis {
    uint32_t size; /* results */
    uint32_t taps; /* a multiple of 8 */
    uint32_t most; /* the largest count */
    uint32_t *start, *count;
    int32_t *weights;
    int16_t *high, *low;
    uint32_t first, last; /* the samples that are used: [first, last) */
    bool same;            /* result i is just sample first + i */
} tarn__axis;

enum { TARN__WEIGHT_BITS = 22, TARN__LOW_BITS = 11 };

/* Which of the processor's vector instructions are used: all give the same. */
typedef enum tarn__loops { TARN__LOOPS_PLAIN, TARN__LOOPS_AVX2 } tarn__loops;

typedef struct tarn__resizer {
    tarn__scratch weights[2], line, rows, row;
    tarn__loops loops;
} tarn__resizer;

typedef struct tarn__resize_job {
    tarn__image from;
    uint32_t skip_x, skip_y;           /* columns and rows of from that data is without */
    float box[4];                      /* left, top, right, bottom */
    uint32_t full_width, full_height;  /* what the box becomes */
    uint32_t left, top, width, height; /* the part of that which is wanted */
    void (*take)(void *context, uint32_t y, const unsigned char *row);
    void *context;
} tarn__resize_job;

/* Which of from's samples are used; from needs no data yet. */
TARN_CHECKED tarn_status tarn__resize_needs(const tarn__resize_job *job, tarn__area *out,
                                            tarn_error *err);

/* Calls take for each row of the result, from the top. The row is lost after the call. */
TARN_CHECKED tarn_status tarn__resize_run(tarn__resizer *resizer,
                                          const tarn__resize_job *job, uint64_t max_size,
                                          tarn_error *err);
void tarn__resizer_release(tarn__resizer *resizer);

/* The loops in AVX2, and whether this machine has it. Across makes TARN__ROWS rows of as
 * many lines; it reads up to TARN__BEHIND bytes after the end of a line, and writes a
 * byte after the last pixel. Down keeps to its bytes. */
enum { TARN__ROWS = 8, TARN__BEHIND = 64 };
bool tarn__avx2_there(void);
void tarn__across_avx2(const tarn__axis *axis, const unsigned char *lines,
                       size_t line_stride, unsigned channels, unsigned char *out,
                       size_t stride);
void tarn__down_avx2(const unsigned char *rows, size_t stride, uint32_t count,
                     const int16_t *high, const int16_t *low, size_t bytes,
                     unsigned char *out);

/* Pixels of three channels as floats in three planes, from the left or the right, and how
 * many were done: a multiple of 8. The quotients are corrected to what dividing
 * gives, which is certain only where all 256 samples have been tried. */
size_t tarn__planes_avx2(const unsigned char *row, size_t width, bool flip,
                         const float *mean, const float *std, float *out, size_t plane);

/* --- The decoder -------------------------------------------------------------------- */

/* Steps that were checked, and their tables. A plan never changes and may be used by any
 * number of threads. */
typedef struct tarn__image_plan tarn__image_plan;

struct tarn_image_decoder {
    tarn__image_plan *plan; /* of the last tarn_image_run, or NULL */
    struct tarn__jpeg *jpeg;
    struct tarn__png *png;
    uint64_t max_pixels, max_size;
    tarn__scratch pixels; /* what is decoded where the caller has no place for it */
    tarn__scratch raw;    /* what a library gives and is not yet what was asked for */
    tarn__resizer resizer;
};

/* Reads the header; with limits. Then that image may be decoded, once, into out, whose
 * members are all set; its rows lie one after the other. */
TARN_CHECKED tarn_status tarn__image_head(tarn_image_decoder *decoder, const void *data,
                                          size_t size, tarn_image_info *out,
                                          tarn_error *err);
TARN_CHECKED tarn_status tarn__image_open(tarn_image_decoder *decoder, const void *data,
                                          size_t size, tarn_image_info *out,
                                          tarn_error *err);
TARN_CHECKED tarn_status tarn__image_into(tarn_image_decoder *decoder, const void *data,
                                          size_t size, const tarn_image_info *info,
                                          const tarn__image *out, tarn_error *err);
/* An area of the image at 1/by (1 unless it is a JPEG) as an image of its own: out has
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

/* What will be taken of an image of this size. */
typedef struct tarn__image_choice {
    uint32_t left, top, width, height; /* the part of the image that is resized */
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
