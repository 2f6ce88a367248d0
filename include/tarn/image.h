/* tarn/image.h: decodes images and transforms them into the pixels of a batch.
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
 * The formats are JPEG, PNG, WebP, JPEG XL and binary PPM, recognised by their first
 * bytes. JPEG XL needs libjxl, which is loaded for the first such image. Pixels are 8-bit
 * samples with interleaved channels: 1 grey, 3 RGB, 4 RGBA (alpha is not premultiplied).
 * CMYK and YCCK JPEGs become RGB. An orientation in EXIF data is applied only with
 * TARN_DECODE_UPRIGHT, before everything else; the orientation of a JPEG XL is part of
 * the image and always applied.
 *
 * A decoder keeps the handles of the image libraries and all buffers between calls. Only
 * one thread at a time may use it. The result depends only on the bytes, the steps and
 * the draw.
 */
#ifndef TARN_IMAGE_H
#define TARN_IMAGE_H

#include <tarn/base.h>
#include <tarn/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_MAX_IMAGE_SIDE                                                              \
    131072u /* pixels of a side, of images that are resized and of results */

/* --- A decoder ------------------------------------------------------------------ */

typedef enum tarn_image_format {
    TARN_IMAGE_JPEG = 1,
    TARN_IMAGE_PNG = 2,
    TARN_IMAGE_WEBP = 3,
    TARN_IMAGE_PPM = 4,
    TARN_IMAGE_JXL = 5
} tarn_image_format;

/* The contents of an image's header; with TARN_DECODE_UPRIGHT, of the image after it is
 * turned. channels is the number of channels that the image
 * decodes to by default: 4 with transparency of any kind. Samples of any depth become 8
 * bits. */
typedef struct tarn_image_info {
    tarn_image_format format;
    uint32_t width, height;
    unsigned channels;
} tarn_image_info;

typedef struct tarn_image_decoder tarn_image_decoder;

/* Creates a decoder. options may be NULL; only its limits and TARN_DECODE_UPRIGHT are
 * used. max_pixels limits the size in an image's header, and max_size the bytes of any
 * single buffer of the decoder.
 * Free it with tarn_image_decoder_free. */
TARN_API TARN_CHECKED tarn_status tarn_image_decoder_new(
    const tarn_decode_options *options, tarn_image_decoder **out, tarn_error *err);
TARN_API void tarn_image_decoder_free(tarn_image_decoder *decoder);

/* Reads the header of an image only. An image over max_pixels is described, not
 * refused. After a failure everything in *out is 0, except format if it is known. */
TARN_API TARN_CHECKED tarn_status tarn_image_probe(tarn_image_decoder *decoder,
                                                   const void *data, size_t size,
                                                   tarn_image_info *out, size_t out_size,
                                                   tarn_error *err);

/* --- Steps ---------------------------------------------------------------------- */

/* How an image of any size is fitted to the requested size. */
typedef enum tarn_image_fit {
    TARN_IMAGE_FIT_EXACT = 0,   /* the image must have that size, or is refused */
    TARN_IMAGE_FIT_STRETCH = 1, /* the whole image is resized */
    /* Resize the shorter side to shorter, then take the centre. */
    TARN_IMAGE_FIT_CENTRE = 2,
    TARN_IMAGE_FIT_RANDOM = 3 /* resize a random part of random shape */
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
    uint32_t width, height; /* size of the result */
    unsigned channels;      /* 1, 3 or 4 */
    tarn_image_fit fit;
    /* CENTRE: length of the shorter side after resizing, at least width and height; 0: do
     * not resize. The length of the other side is rounded down, and half pixels before
     * the centre are rounded to even, as in torchvision's Resize and CenterCrop. */
    uint32_t shorter;
    /* RANDOM: the ranges (from, to) of the part's area, as a fraction of the image's
     * area, and of its width divided by its height. Ten draws are made, as in
     * torchvision's RandomResizedCrop. If none fits, the largest centred part of an
     * allowed shape is used. */
    double scale[2], ratio[2];
    double flip; /* probability of a horizontal flip: 0 to 1 */
    tarn_image_type type;
    tarn_image_layout layout;
    /* F32 and F16: (sample / 255 - mean) / std for each channel, in single precision. */
    float mean[4], std[4];
    /* A JPEG is decoded at 1/2, 1/4 or 1/8 of its size if the part is then still at least
     * this many times as large as the result. 0: always decode at full size, which makes
     * resizing exact. */
    double reduce;
} tarn_image_steps;

/* The usual ranges of RANDOM, no flip, 8 bits, RGB. You must set width and height. */
#define TARN_IMAGE_STEPS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_image_steps), .channels = 3, .fit = TARN_IMAGE_FIT_STRETCH,  \
        .scale = {0.08, 1.0}, .ratio = {3.0 / 4.0, 4.0 / 3.0},                           \
        .std = {1.0f, 1.0f, 1.0f, 1.0f}, .reduce = 1.0                                   \
    }
TARN_API void tarn_image_steps_init(tarn_image_steps *steps, size_t size);

/* The input of random choices. They are drawn with Philox 4x64 of ten rounds with key
 * (seed, epoch) and counter (sample, i, what, 0). what is 0 for part i of RANDOM, whose
 * four words are area, shape, top and left. what is 1 for the flip. */
typedef struct tarn_image_draw {
    uint64_t seed, epoch, sample;
} tarn_image_draw;

/* Decodes an image and applies the steps, directly into out, which has room for capacity
 * bytes and must be aligned for its type. The result takes width x height x channels
 * samples of 1, 2 or 4 bytes: TARN_ERR_LIMIT if they do not fit. If the steps are the
 * same as in the previous call, they are not checked again. After a failure the contents
 * of out are undefined. */
TARN_API TARN_CHECKED tarn_status tarn_image_run(tarn_image_decoder *decoder,
                                                 const tarn_image_steps *steps,
                                                 const void *data, size_t size,
                                                 tarn_image_draw draw, void *out,
                                                 size_t capacity, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
