/* tarn/image.h: from the bytes of an image to pixels in a batch.
 *
 *     tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
 *     steps.width = steps.height = 224;
 *     steps.fit = TARN_IMAGE_FIT_RANDOM;
 *     steps.flip = 0.5;
 *     steps.type = TARN_IMAGE_F32;
 *     steps.layout = TARN_IMAGE_CHW;
 *     if (tarn_image_plan_new(&steps, &plan, &err) != TARN_OK) ...
 *     if (tarn_image_decoder_new(NULL, &decoder, &err) != TARN_OK) ...
 *     tarn_image_draw draw = {seed, epoch, sample};
 *     if (tarn_image_run(decoder, plan, jpeg, jpeg_size, draw, out, &err) != TARN_OK) ...
 *
 * What is read is JPEG, PNG, WebP and binary PPM, told apart by their first bytes. Pixels
 * are 8-bit samples, channels interleaved: 1 grey, 3 RGB, 4 RGBA (alpha not multiplied
 * in). An orientation in the metadata is not applied.
 *
 * A decoder keeps the libraries' handles and all buffers between calls; it belongs to one
 * thread at a time. A plan never changes and may be used by any number of threads. What
 * comes out depends on the bytes, the plan and the draw alone.
 */
#ifndef TARN_IMAGE_H
#define TARN_IMAGE_H

#include <tarn/base.h>
#include <tarn/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_MAX_IMAGE_SIDE                                                              \
    131072u /* pixels; of an image that is resized, and of results */

/* --- Pixels --------------------------------------------------------------------- */

/* Pixels in someone's memory. */
typedef struct tarn_image {
    unsigned char *data;
    uint32_t width, height;
    unsigned channels; /* 1, 3 or 4 */
    size_t stride;     /* bytes from one row to the next */
} tarn_image;

typedef enum tarn_image_format {
    TARN_IMAGE_JPEG = 1,
    TARN_IMAGE_PNG = 2,
    TARN_IMAGE_WEBP = 3,
    TARN_IMAGE_PPM = 4
} tarn_image_format;

/* What an image's header says. channels is what it decodes to if nothing is asked for:
 * transparency of any kind makes 4, samples of any depth become 8 bits. */
typedef struct tarn_image_info {
    tarn_image_format format;
    uint32_t width, height;
    unsigned channels;
} tarn_image_info;

/* --- A decoder ------------------------------------------------------------------ */

typedef struct tarn_image_decoder tarn_image_decoder;

typedef struct tarn_image_decoder_options {
    size_t size;         /* of this struct; set by the initialiser */
    uint64_t max_pixels; /* that an image's header may name */
    uint64_t max_size;   /* bytes of any one buffer of the decoder */
} tarn_image_decoder_options;

#define TARN_IMAGE_DECODER_OPTIONS_INIT                                                  \
    {                                                                                    \
        .size = sizeof(tarn_image_decoder_options), .max_pixels = TARN_MAX_PIXELS,       \
        .max_size = TARN_MAX_DECODED                                                     \
    }
TARN_API void tarn_image_decoder_options_init(tarn_image_decoder_options *options,
                                              size_t size);

TARN_API TARN_CHECKED tarn_status tarn_image_decoder_new(
    const tarn_image_decoder_options *options, tarn_image_decoder **out, tarn_error *err);
TARN_API void tarn_image_decoder_free(tarn_image_decoder *decoder);

/* Reads the header only. An image over max_pixels is told, not refused. */
TARN_API TARN_CHECKED tarn_status tarn_image_probe(tarn_image_decoder *decoder,
                                                   const void *data, size_t size,
                                                   tarn_image_info *out, size_t out_size,
                                                   tarn_error *err);

typedef struct tarn_image_decode_options {
    size_t size;       /* of this struct; set by the initialiser */
    unsigned channels; /* 1, 3 or 4; 0: as many as the image has */
    /* A JPEG may come out at 1/2, 1/4 or 1/8 of its size, rounded up, as long as it is at
     * least this wide and high; 0 and 0 ask for the full size. */
    uint32_t least_width, least_height;
} tarn_image_decode_options;

#define TARN_IMAGE_DECODE_OPTIONS_INIT                                                   \
    {                                                                                    \
        .size = sizeof(tarn_image_decode_options)                                        \
    }
TARN_API void tarn_image_decode_options_init(tarn_image_decode_options *options,
                                             size_t size);

/* Decodes into out->data if that is not NULL, which has room for capacity bytes, and with
 * out->stride bytes from row to row unless that is 0; the other members are set.
 * TARN_ERR_LIMIT if there is too little room: nothing is written then. If out->data is
 * NULL the pixels lie in the decoder's memory, until its next use. After any other
 * failure what is in the caller's memory is not defined. */
TARN_API TARN_CHECKED tarn_status
tarn_image_decode(tarn_image_decoder *decoder, const void *data, size_t size,
                  const tarn_image_decode_options *options, tarn_image *out,
                  size_t capacity, tarn_error *err);

/* --- Resizing ------------------------------------------------------------------- */

/* Fills to, which says the size wanted and has as many channels as from, and lies apart
 * from it: bilinear with antialias, the numbers of Pillow's
 * Image.resize(size, BILINEAR, box), exactly. box is left, top, right, bottom in pixels
 * of from, fractions allowed, or NULL for all of it. Colours are weighted by alpha. */
TARN_API TARN_CHECKED tarn_status tarn_image_resize(tarn_image_decoder *decoder,
                                                    const tarn_image *from,
                                                    const float *box,
                                                    const tarn_image *to,
                                                    tarn_error *err);

/* --- Steps ---------------------------------------------------------------------- */

/* How an image of any size becomes one of the plan's. */
typedef enum tarn_image_fit {
    TARN_IMAGE_FIT_EXACT = 0,   /* it has that size, or is refused */
    TARN_IMAGE_FIT_STRETCH = 1, /* all of it, resized */
    TARN_IMAGE_FIT_CENTRE = 2,  /* the shorter side resized to shorter, then the middle */
    TARN_IMAGE_FIT_RANDOM = 3   /* a random part of random shape, resized */
} tarn_image_fit;

typedef enum tarn_image_type {
    TARN_IMAGE_U8 = 0,
    TARN_IMAGE_F32 = 1,
    TARN_IMAGE_F16 = 2
} tarn_image_type;

typedef enum tarn_image_layout {
    TARN_IMAGE_HWC = 0, /* [height, width, channels] */
    TARN_IMAGE_CHW = 1  /* [channels, height, width] */
} tarn_image_layout;

typedef struct tarn_image_steps {
    size_t size;            /* of this struct; set by the initialiser */
    uint32_t width, height; /* of the result */
    unsigned channels;      /* 1, 3 or 4 */
    tarn_image_fit fit;
    /* CENTRE: at least width and height; 0 for no resizing. The other side is cut to a
     * whole number, and halves of pixels before the middle are rounded to even, as
     * torchvision's Resize and CenterCrop do. */
    uint32_t shorter;
    /* RANDOM: the part's area as a fraction of the image's, and its width by its height;
     * both from, to. Ten draws are made as in torchvision's RandomResizedCrop, then comes
     * the largest middle part whose shape is allowed. */
    double scale[2], ratio[2];
    double flip; /* how often left and right are exchanged: 0 to 1 */
    tarn_image_type type;
    tarn_image_layout layout;
    /* F32 and F16: (sample / 255 - mean) / std for each channel, in single precision. */
    float mean[4], std[4];
    /* A JPEG is decoded at 1/2, 1/4 or 1/8 if that leaves the part at least this many
     * times the size it is resized to; 0: always at full size, then resizing is exact. */
    double reduce;
} tarn_image_steps;

/* The usual ranges of RANDOM, no flip, 8 bits, RGB; width and height are to be set. */
#define TARN_IMAGE_STEPS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_image_steps), .channels = 3, .fit = TARN_IMAGE_FIT_STRETCH,  \
        .scale = {0.08, 1.0}, .ratio = {3.0 / 4.0, 4.0 / 3.0},                           \
        .std = {1.0f, 1.0f, 1.0f, 1.0f}, .reduce = 1.0                                   \
    }
TARN_API void tarn_image_steps_init(tarn_image_steps *steps, size_t size);

typedef struct tarn_image_plan tarn_image_plan;

/* Checks the steps and makes their tables. */
TARN_API TARN_CHECKED tarn_status tarn_image_plan_new(const tarn_image_steps *steps,
                                                      tarn_image_plan **out,
                                                      tarn_error *err);
TARN_API void tarn_image_plan_free(tarn_image_plan *plan);

/* Bytes of one result. */
TARN_API size_t tarn_image_plan_size(const tarn_image_plan *plan);

/* What random choices are made of. Philox 4x64 of ten rounds with key (seed, epoch) and
 * counter (sample, i, what, 0): what is 0 for part i of RANDOM, whose four words are
 * area, shape, top and left, and 1 for the flip. */
typedef struct tarn_image_draw {
    uint64_t seed, epoch, sample;
} tarn_image_draw;

/* What will be taken of an image of this size. */
typedef struct tarn_image_choice {
    uint32_t left, top, width, height; /* the part of the image that is resized */
    bool flip;
} tarn_image_choice;

TARN_API TARN_CHECKED tarn_status tarn_image_choose(const tarn_image_plan *plan,
                                                    uint32_t width, uint32_t height,
                                                    tarn_image_draw draw,
                                                    tarn_image_choice *out,
                                                    tarn_error *err);

/* Decodes and does the steps, straight into out, which has tarn_image_plan_size bytes and
 * is aligned to its type. After a failure what is in out is not defined. */
TARN_API TARN_CHECKED tarn_status tarn_image_run(tarn_image_decoder *decoder,
                                                 const tarn_image_plan *plan,
                                                 const void *data, size_t size,
                                                 tarn_image_draw draw, void *out,
                                                 tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
