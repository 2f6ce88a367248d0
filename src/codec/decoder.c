/* A reusable image decoder: it keeps the decoders of the formats and the memory for
 * pixels, and decodes into the caller's memory. Each format has its own file; this file
 * chooses the format, checks limits and converts channels. */
#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "codec/codec.h"
#include "codec/pixels.h"

#define SCRATCH_KEPT                                                                     \
    (64u << 20) /* bytes that are kept even if the next image is small                   \
                 */

/* --- Reusable memory ------------------------------------------------------------ */

tarn_status tarn__scratch_need(tarn__scratch *scratch, uint64_t size, uint64_t max,
                               tarn_error *err)
{
    bool wasteful = scratch->capacity > SCRATCH_KEPT && size < scratch->capacity / 4;
    if (size > max || size > SIZE_MAX / 2)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "the image needs %llu bytes; the limit is %llu (max_size)",
                          (unsigned long long)size, (unsigned long long)max);
    if (scratch->data && scratch->capacity >= size && !wasteful) return TARN_OK;
    tarn__scratch_release(scratch);
    /* More than needed, so that slowly growing sizes do not allocate each time. */
    size_t capacity = ((size_t)size + (size_t)size / 4 + 4096) & ~(size_t)4095;
    scratch->data = aligned_alloc(64, capacity);
    if (!scratch->data) return tarn__fail_memory(err);
    scratch->capacity = capacity;
    return TARN_OK;
}

void tarn__scratch_release(tarn__scratch *scratch)
{
    free(scratch->data);
    *scratch = (tarn__scratch){NULL, 0};
}

/* --- Creation ------------------------------------------------------------------- */

tarn_status tarn_image_decoder_new(const tarn_decode_options *options,
                                   tarn_image_decoder **out, tarn_error *err)
{
    TARN__NEED(err, "out", out);
    *out = NULL;
    TARN__OPTIONS(tarn_decode_options, o, TARN_DECODE_OPTIONS_INIT, options, err);
    tarn_image_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) return tarn__fail_memory(err);
    decoder->jpeg = tarn__jpeg_new();
    decoder->png = tarn__png_new();
    if (!decoder->jpeg || !decoder->png) {
        tarn_image_decoder_free(decoder);
        return tarn__fail_memory(err);
    }
    decoder->max_pixels = o.max_pixels;
    decoder->max_size = o.max_size;
    decoder->upright = o.flags & TARN_DECODE_UPRIGHT;
    decoder->resizer.loops = tarn__avx512_there() ? TARN__LOOPS_AVX512
                             : tarn__avx2_there() ? TARN__LOOPS_AVX2
                                                  : TARN__LOOPS_PLAIN;
    *out = decoder;
    return TARN_OK;
}

void tarn_image_decoder_free(tarn_image_decoder *decoder)
{
    if (!decoder) return;
    tarn__image_plan_free(decoder->plan);
    tarn__jpeg_free(decoder->jpeg);
    tarn__png_free(decoder->png);
    tarn__jxl_free(decoder->jxl);
    tarn__scratch_release(&decoder->pixels);
    tarn__scratch_release(&decoder->turned);
    tarn__scratch_release(&decoder->raw);
    tarn__resizer_release(&decoder->resizer);
    free(decoder);
}

/* --- Headers -------------------------------------------------------------------- */

static tarn_status stored_head(tarn_image_decoder *decoder, const void *data, size_t size,
                               tarn_image_info *out, tarn_error *err)
{
    size_t at;
    bool deep;
    switch (tarn__image_format(data, size)) {
    case TARN_IMAGE_JPEG:
        return tarn__jpeg_head(decoder->jpeg, data, size, out, err);
    case TARN_IMAGE_PNG:
        return tarn__png_head(decoder->png, data, size, out, err);
    case TARN_IMAGE_WEBP:
        return tarn__webp_head(data, size, out, err);
    case TARN_IMAGE_JXL:
        return tarn__jxl_head(&decoder->jxl, data, size, out, err);
    case TARN_IMAGE_PPM:
        return tarn__ppm_head(data, size, out, &at, &deep, err);
    }
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "%zu bytes are not a JPEG, PNG, WebP, JPEG XL or binary PPM; other "
                      "formats need a fallback (in Python: "
                      "fallback=\"pillow\")",
                      size);
}

tarn_status tarn__image_head(tarn_image_decoder *decoder, const void *data, size_t size,
                             tarn_image_info *out, tarn_error *err)
{
    decoder->orientation = decoder->upright ? tarn__exif_orientation(data, size) : 1;
    TARN_TRY(stored_head(decoder, data, size, out, err));
    tarn__exif_turn_size(decoder->orientation, &out->width, &out->height);
    return TARN_OK;
}

tarn_status tarn__image_open(tarn_image_decoder *decoder, const void *data, size_t size,
                             tarn_image_info *out, tarn_error *err)
{
    TARN_TRY(tarn__image_head(decoder, data, size, out, err));
    if ((uint64_t)out->width * out->height > decoder->max_pixels)
        return tarn__fail(
            err, TARN_ERR_LIMIT,
            "image of %u x %u pixels; the limit is %llu pixels (max_pixels)", out->width,
            out->height, (unsigned long long)decoder->max_pixels);
    return TARN_OK;
}

tarn_status tarn_image_probe(tarn_image_decoder *decoder, const void *data, size_t size,
                             tarn_image_info *out, size_t out_size, tarn_error *err)
{
    TARN__NEED(err, "decoder", decoder);
    TARN__NEED(err, "data", data || !size);
    TARN__NEED(err, "out", out);
    tarn_image_info info = {0};
    tarn_status status = tarn__image_head(decoder, data, size, &info, err);
    if (status != TARN_OK)
        info = (tarn_image_info){.format = tarn__image_format(data, size)};
    TARN__FILL_OUT(out, out_size, info);
    return status;
}

/* --- Pixels --------------------------------------------------------------------- */

/* The channels that the decoder of the format produces before the final conversion. */
static unsigned channels_on_the_way(const tarn_image_decoder *decoder,
                                    const tarn_image_info *info, unsigned wanted)
{
    switch (info->format) {
    case TARN_IMAGE_JPEG:
        return wanted;
    case TARN_IMAGE_PNG:
        return tarn__png_channels(decoder->png, wanted);
    case TARN_IMAGE_WEBP:
        return wanted == 1 ? 3 : wanted;
    case TARN_IMAGE_JXL:
        return wanted == 1 && info->channels != 1 ? 3 : wanted;
    case TARN_IMAGE_PPM:
        return info->channels;
    }
    return wanted;
}

static tarn_status decode_format(tarn_image_decoder *decoder, const void *data,
                                 size_t size, const tarn_image_info *info,
                                 const tarn__image *out, tarn_error *err)
{
    switch (info->format) {
    case TARN_IMAGE_JPEG:
        return tarn__jpeg_into(decoder->jpeg, out, err);
    case TARN_IMAGE_PNG:
        return tarn__png_into(decoder->png, out, decoder->max_size, err);
    case TARN_IMAGE_WEBP:
        return tarn__webp_into(data, size, out, err);
    case TARN_IMAGE_JXL:
        return tarn__jxl_into(decoder->jxl, out, err);
    case TARN_IMAGE_PPM:
        return tarn__ppm_into(data, size, out, err);
    }
    return TARN_ERR_USAGE;
}

/* Decodes the image as it is stored. */
static tarn_status decode_stored(tarn_image_decoder *decoder, const void *data,
                                 size_t size, const tarn_image_info *info,
                                 const tarn__image *out, tarn_error *err)
{
    tarn__image raw = *out;
    raw.channels = channels_on_the_way(decoder, info, out->channels);
    raw.stride = (size_t)raw.width * raw.channels;
    if (raw.channels == out->channels)
        return decode_format(decoder, data, size, info, out, err);
    TARN_TRY(tarn__scratch_need(&decoder->raw, (uint64_t)raw.stride * raw.height,
                                decoder->max_size, err));
    raw.data = decoder->raw.data;
    TARN_TRY(decode_format(decoder, data, size, info, &raw, err));
    for (uint32_t y = 0; y < raw.height; y++)
        tarn__pixels_convert(raw.data + y * raw.stride, raw.channels,
                             out->data + y * out->stride, out->channels, out->width);
    return TARN_OK;
}

/* Decodes into the decoder's memory: out has width, height and channels. */
static tarn_status decode_to_scratch(tarn_image_decoder *decoder, const void *data,
                                     size_t size, const tarn_image_info *info,
                                     tarn__image *out, tarn_error *err)
{
    out->stride = (size_t)out->width * out->channels;
    TARN_TRY(tarn__scratch_need(&decoder->pixels, (uint64_t)out->stride * out->height,
                                decoder->max_size, err));
    out->data = decoder->pixels.data;
    return decode_stored(decoder, data, size, info, out, err);
}

tarn_status tarn__image_into(tarn_image_decoder *decoder, const void *data, size_t size,
                             const tarn_image_info *info, const tarn__image *out,
                             tarn_error *err)
{
    tarn__image stored = {
        .width = out->width, .height = out->height, .channels = out->channels};
    if (decoder->orientation == 1)
        return decode_stored(decoder, data, size, info, out, err);
    tarn__exif_turn_size(decoder->orientation, &stored.width, &stored.height);
    TARN_TRY(decode_to_scratch(decoder, data, size, info, &stored, err));
    tarn__exif_turn(decoder->orientation, &stored, out);
    return TARN_OK;
}

static tarn_status keep_jpeg_part(tarn_image_decoder *decoder, uint32_t by,
                                  const tarn__area *area, tarn__image *out,
                                  tarn_error *err)
{
    tarn__area given = *area;
    TARN_TRY(tarn__jpeg_begin_part(decoder->jpeg, out->channels, by, &given, err));
    out->stride = (size_t)(given.right - given.left) * out->channels;
    TARN_TRY(tarn__scratch_need(&decoder->pixels,
                                (uint64_t)out->stride * (out->height + UINT64_C(1)),
                                decoder->max_size, err));
    out->data = decoder->pixels.data;
    TARN_TRY(tarn__jpeg_read_part(decoder->jpeg, &given, out, err));
    out->data += (size_t)(area->left - given.left) * out->channels;
    return TARN_OK;
}

/* An area of the stored image; all has the size of that image. */
static tarn_status keep_stored_part(tarn_image_decoder *decoder, const void *data,
                                    size_t size, const tarn_image_info *info, uint32_t by,
                                    tarn__image all, const tarn__area *area,
                                    tarn__image *out, tarn_error *err)
{
    out->width = area->right - area->left;
    out->height = area->bottom - area->top;
    bool is_part = out->width < all.width || out->height < all.height;
    if (info->format == TARN_IMAGE_JPEG && is_part)
        return keep_jpeg_part(decoder, by, area, out, err);
    TARN_TRY(decode_to_scratch(decoder, data, size, info, &all, err));
    out->stride = all.stride;
    out->data = all.data + area->top * all.stride + (size_t)area->left * all.channels;
    return TARN_OK;
}

tarn_status tarn__image_keep_part(tarn_image_decoder *decoder, const void *data,
                                  size_t size, const tarn_image_info *info, uint32_t by,
                                  const tarn__area *area, tarn__image *out,
                                  tarn_error *err)
{
    unsigned orientation = decoder->orientation;
    tarn__image all = {.width = tarn__reduced(info->width, by),
                       .height = tarn__reduced(info->height, by),
                       .channels = out->channels};
    tarn__image stored = {.channels = out->channels};
    if (orientation == 1)
        return keep_stored_part(decoder, data, size, info, by, all, area, out, err);
    tarn__area part = tarn__exif_stored_area(orientation, all.width, all.height, area);
    tarn__exif_turn_size(orientation, &all.width, &all.height);
    TARN_TRY(keep_stored_part(decoder, data, size, info, by, all, &part, &stored, err));
    out->width = area->right - area->left;
    out->height = area->bottom - area->top;
    out->stride = (size_t)out->width * out->channels;
    TARN_TRY(tarn__scratch_need(&decoder->turned, (uint64_t)out->stride * out->height,
                                decoder->max_size, err));
    out->data = decoder->turned.data;
    tarn__exif_turn(orientation, &stored, out);
    return TARN_OK;
}
