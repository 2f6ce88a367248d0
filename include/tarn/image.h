/* tarn/image.h: from the bytes of an image to pixels in a batch.
 *
 *     tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
 *     steps.width = steps.height = 224;
 *     steps.fit = TARN_IMAGE_FIT_RANDOM;
 *     steps.flip = 0.5;
 *     steps.type = TARN_IMAGE_F32;
 *     steps.layout = TARN_IMAGE_CHW;
 *     if (tarn_image_decoder_new(NULL, &decoder, &err) != TARN_OK) ...
 *     tarn_image_draw draw = {seed, epoch, sample};
 *     if (tarn_image_run(decoder, &steps, jpeg, jpeg_size, draw, out, out_size, &err) !=
 *         TARN_OK) ...
 *
 * What is read is JPEG, PNG, WebP and binary PPM, told apart by their first bytes. Pixels
 * are 8-bit samples, channels interleaved: 1 grey, 3 RGB, 4 RGBA (alpha not multiplied
 * in). An orientation in the metadata is not applied.
 *
 * A decoder keeps the libraries' handles and all buffers between calls; it belongs to one
 * thread at a time. What comes out depends on the bytes, the steps and the draw alone.
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

/* --- A decoder ------------------------------------------------------------------ */

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

typedef struct tarn_image_decoder tarn_image_decoder;

/* Of the options, which may be NULL, only the limits count: max_pixels is what an image's
 * header may name, max_size the bytes of any one buffer of the decoder. */
TARN_API TARN_CHECKED tarn_status tarn_image_decoder_new(
    const tarn_decode_options *options, tarn_image_decoder **out, tarn_error *err);
TARN_API void tarn_image_decoder_free(tarn_image_decoder *decoder);

/* Reads the header only. An image over max_pixels is reported, not refused. */
TARN_API TARN_CHECKED tarn_status tarn_image_probe(tarn_image_decoder *decoder,
                                                   const void *data, size_t size,
                                                   tarn_image_info *out, size_t out_size,
                                                   tarn_error *err);

/* --- Steps ---------------------------------------------------------------------- */

/* How an image of any size becomes one of the size wanted. */
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

/* What random choices are made of. Philox 4x64 of ten rounds with key (seed, epoch) and
 * counter (sample, i, what, 0): what is 0 for part i of RANDOM, whose four words are
 * area, shape, top and left, and 1 for the flip. */
typedef struct tarn_image_draw {
    uint64_t seed, epoch, sample;
} tarn_image_draw;

/* Decodes and does the steps, straight into out, which has room for capacity bytes and is
 * aligned to its type. A result takes width x height x channels samples of 1, 2 or 4
 * bytes: TARN_ERR_LIMIT if that does not fit. Calls with the same steps as the one before
 * do not check them again. After a failure what is in out is not defined. */
TARN_API TARN_CHECKED tarn_status tarn_image_run(tarn_image_decoder *decoder,
                                                 const tarn_image_steps *steps,
                                                 const void *data, size_t size,
                                                 tarn_image_draw draw, void *out,
                                                 size_t capacity, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
