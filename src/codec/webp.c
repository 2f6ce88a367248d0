/* Reads and writes WebP with libwebp. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/encode.h>

#include "base/error.h"
#include "codec/codec.h"

/* --- Writing -------------------------------------------------------------------- */

typedef struct target {
    tarn_bytes *out;
    tarn_error *err;
    tarn_status status;
} target;

static int take_piece(const uint8_t *data, size_t size, const WebPPicture *picture)
{
    target *t = picture->custom_ptr;
    t->status = tarn__bytes_add(t->out, data, size, t->err);
    return t->status == TARN_OK;
}

/* WebP has no grey images: each sample becomes three. */
static int import_grey(WebPPicture *picture, const tarn__pixels *pixels)
{
    uint64_t count = (uint64_t)pixels->width * pixels->height;
    const unsigned char *grey = pixels->data;
    unsigned char *rgb = malloc(count * 3);
    if (!rgb) return 0;
    for (uint64_t i = 0; i < count; i++)
        memset(rgb + 3 * i, grey[i], 3);
    int good = WebPPictureImportRGB(picture, rgb, picture->width * 3);
    free(rgb);
    return good;
}

static int import_pixels(WebPPicture *picture, const tarn__pixels *pixels)
{
    if (pixels->channels == 1) return import_grey(picture, pixels);
    if (pixels->channels == 3)
        return WebPPictureImportRGB(picture, pixels->data, picture->width * 3);
    return WebPPictureImportRGBA(picture, pixels->data, picture->width * 4);
}

static bool configure(WebPConfig *config, const tarn_encode_options *options)
{
    if (!WebPConfigInit(config)) return false;
    config->quality = (float)options->webp_quality;
    config->lossless = options->webp_lossless;
    config->exact = options->webp_lossless; /* keep colours where alpha is 0 */
    return WebPValidateConfig(config);
}

tarn_status tarn__webp_encode(const tarn__pixels *pixels,
                              const tarn_encode_options *options, tarn_bytes *out,
                              tarn_error *err)
{
    WebPConfig config;
    WebPPicture picture;
    target t = {.out = out, .err = err};
    if (!configure(&config, options) || !WebPPictureInit(&picture))
        return tarn__fail(err, TARN_ERR_USAGE, "WebP quality %d is not from 0 to 100",
                          options->webp_quality);
    if (pixels->width > WEBP_MAX_DIMENSION || pixels->height > WEBP_MAX_DIMENSION)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "WebP: %u x %u pixels are too many; a side has at most %d",
                          pixels->width, pixels->height, WEBP_MAX_DIMENSION);
    picture.use_argb = options->webp_lossless;
    picture.width = (int)pixels->width;
    picture.height = (int)pixels->height;
    picture.writer = take_piece;
    picture.custom_ptr = &t;
    bool good = import_pixels(&picture, pixels) && WebPEncode(&config, &picture);
    int code = picture.error_code;
    WebPPictureFree(&picture);
    if (good) return TARN_OK;
    if (t.status != TARN_OK) return t.status;
    return tarn__fail(err, TARN_ERR_MEMORY, "WebP: the encoder failed (code %d)", code);
}

/* --- Reading -------------------------------------------------------------------- */

tarn_status tarn__webp_head(const void *data, size_t size, tarn_image_info *out,
                            tarn_error *err)
{
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(data, size, &f) != VP8_STATUS_OK)
        return tarn__fail(err, TARN_ERR_FORMAT, "WebP: malformed header");
    if (f.has_animation)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "WebP: animations need a fallback (in Python: "
                          "fallback=\"pillow\")");
    *out = (tarn_image_info){.format = TARN_IMAGE_WEBP,
                             .width = (uint32_t)f.width,
                             .height = (uint32_t)f.height,
                             .channels = f.has_alpha ? 4 : 3};
    return TARN_OK;
}

tarn_status tarn__webp_into(const void *data, size_t size, const tarn__image *out,
                            tarn_error *err)
{
    size_t row = (size_t)out->width * out->channels;
    size_t bytes = (out->height - 1) * out->stride + row;
    if (out->stride > INT32_MAX)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the distance between rows is more than 2^31 bytes");
    int stride = (int)out->stride;
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the version of libwebp does not match");
    config.output.colorspace = out->channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){out->data, stride, bytes};
    /* libwebp reports some of its failed allocations as damage. */
    errno = 0;
    VP8StatusCode code = WebPDecode(data, size, &config);
    if (code == VP8_STATUS_OUT_OF_MEMORY || (code != VP8_STATUS_OK && errno == ENOMEM))
        return tarn__fail_memory(err);
    return code == VP8_STATUS_OK
               ? TARN_OK
               : tarn__fail(err, TARN_ERR_FORMAT, "WebP: damaged or truncated");
}
