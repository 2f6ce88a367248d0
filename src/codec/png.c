/* PNG by libspng. */
#include <stdlib.h>

#include <spng.h>

#include "base/error.h"
#include "codec/codec.h"

#define CHUNK_LIMIT (16u << 20) /* bytes of what is not pixels, one chunk or all */

static tarn_status failed(tarn_error *err, int code)
{
    if (code == SPNG_EMEM) return tarn__fail_memory(err);
    return tarn__fail(err, TARN_ERR_FORMAT, "PNG: %s", spng_strerror(code));
}

/* --- Writing -------------------------------------------------------------------- */

static int write_png(spng_ctx *png, const tarn__pixels *pixels, int level)
{
    static const uint8_t colour[5] = {
        0, SPNG_COLOR_TYPE_GRAYSCALE, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA,
        SPNG_COLOR_TYPE_TRUECOLOR, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
    struct spng_ihdr head = {.width = pixels->width,
                             .height = pixels->height,
                             .bit_depth = (uint8_t)pixels->bits,
                             .color_type = colour[pixels->channels]};
    size_t size =
        (size_t)pixels->width * pixels->height * pixels->channels * (pixels->bits / 8);
    int code = spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1);
    if (!code) code = spng_set_option(png, SPNG_IMG_COMPRESSION_LEVEL, level);
    if (!code) code = spng_set_ihdr(png, &head);
    if (!code)
        code = spng_encode_image(png, pixels->data, size, SPNG_FMT_PNG,
                                 SPNG_ENCODE_FINALIZE);
    return code;
}

tarn_status tarn__png_encode(const tarn__pixels *pixels, int level, tarn_bytes *out,
                             tarn_error *err)
{
    size_t size = 0;
    if (level < 0 || level > 9)
        return tarn__fail(err, TARN_ERR_USAGE, "PNG level %d is not from 0 to 9", level);
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    if (!png) return tarn__fail_memory(err);
    int code = write_png(png, pixels, level);
    void *data = code ? NULL : spng_get_png_buffer(png, &size, &code);
    spng_ctx_free(png);
    if (!data) return failed(err, code);
    tarn_status status = tarn_bytes_add(out, data, size, err);
    free(data);
    return status;
}

/* --- Reading -------------------------------------------------------------------- */

typedef struct plan {
    int format, flags;
    unsigned channels, bits;
    bool to_grey; /* decode three channels and make one of them */
} plan;

static plan plan_of(const struct spng_ihdr *head, bool transparent, unsigned wanted)
{
    bool is_grey = head->color_type == SPNG_COLOR_TYPE_GRAYSCALE;
    bool is_palette = head->color_type == SPNG_COLOR_TYPE_INDEXED;
    if (wanted == 3) return (plan){SPNG_FMT_RGB8, 0, 3, 8, false};
    if (wanted == 4) return (plan){SPNG_FMT_RGBA8, SPNG_DECODE_TRNS, 4, 8, false};
    if (is_grey && head->bit_depth <= 8) return (plan){SPNG_FMT_G8, 0, 1, 8, false};
    if (wanted == 1) return (plan){SPNG_FMT_RGB8, 0, 3, 8, true};
    if (is_palette && transparent)
        return (plan){SPNG_FMT_RGBA8, SPNG_DECODE_TRNS, 4, 8, false};
    if (is_palette) return (plan){SPNG_FMT_RGB8, 0, 3, 8, false};
    return (plan){SPNG_FMT_PNG, 0,
                  is_grey                                               ? 1u
                  : head->color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ? 2u
                  : head->color_type == SPNG_COLOR_TYPE_TRUECOLOR       ? 3u
                                                                        : 4u,
                  head->bit_depth, false};
}

static tarn_status begin(spng_ctx *png, const void *data, size_t size,
                         struct spng_ihdr *head, tarn_error *err)
{
    int code = spng_set_chunk_limits(png, CHUNK_LIMIT, CHUNK_LIMIT);
    if (!code) code = spng_set_png_buffer(png, data, size);
    if (!code) code = spng_get_ihdr(png, head);
    return code ? failed(err, code) : TARN_OK;
}

static bool is_transparent(spng_ctx *png)
{
    struct spng_trns trns;
    return spng_get_trns(png, &trns) == 0;
}

static tarn_status finish(spng_ctx *png, const plan *p, void *out, size_t size,
                          tarn_error *err)
{
    size_t need;
    int code = spng_decoded_image_size(png, p->format, &need);
    if (!code && need != size) code = SPNG_EFMT;
    if (!code) code = spng_decode_image(png, out, need, p->format, p->flags);
    /* What is behind the pixels too: the checksum of the last of them stands there. */
    if (!code) code = spng_decode_chunks(png);
    return code ? failed(err, code) : TARN_OK;
}

static tarn_status read_png(spng_ctx *png, const void *data, size_t size,
                            const tarn_decode_options *options, tarn_value *out,
                            tarn_error *err)
{
    struct spng_ihdr head;
    TARN_TRY(begin(png, data, size, &head, err));
    plan p = plan_of(&head, is_transparent(png), options->channels);
    TARN_TRY(tarn__pixels_make(out, head.width, head.height, p.channels, p.bits, options,
                               err));
    tarn_status status =
        finish(png, &p, out->arrays->data, tarn_array_bytes(out->arrays), err);
    if (status != TARN_OK) {
        tarn_value_release(out);
        return status;
    }
    return p.to_grey ? tarn__pixels_change(out, 1, options, err) : TARN_OK;
}

tarn_status tarn__png_decode(const void *data, size_t size,
                             const tarn_decode_options *options, tarn_value *out,
                             tarn_error *err)
{
    spng_ctx *png = spng_ctx_new(0);
    if (!png) return tarn__fail_memory(err);
    tarn_status status = read_png(png, data, size, options, out, err);
    spng_ctx_free(png);
    return status;
}

/* --- Into memory ---------------------------------------------------------------- */

/* libspng has no way of using a context twice, so there is one for each image. */
tarn_status tarn__png_open(const void *data, size_t size, void **out_png,
                           tarn_image_info *out, tarn_error *err)
{
    struct spng_ihdr head;
    spng_ctx *png = spng_ctx_new(0);
    *out_png = NULL;
    if (!png) return tarn__fail_memory(err);
    tarn_status status = begin(png, data, size, &head, err);
    if (status != TARN_OK) {
        spng_ctx_free(png);
        return status;
    }
    bool grey = head.color_type == SPNG_COLOR_TYPE_GRAYSCALE;
    bool alpha = head.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
                 head.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA ||
                 is_transparent(png);
    *out = (tarn_image_info){.format = TARN_IMAGE_PNG,
                             .width = head.width,
                             .height = head.height,
                             .channels = alpha  ? 4
                                         : grey ? 1
                                                : 3};
    *out_png = png;
    return TARN_OK;
}

void tarn__png_close(void *png)
{
    if (png) spng_ctx_free(png);
}

unsigned tarn__png_channels(void *png, unsigned wanted)
{
    struct spng_ihdr head;
    if (spng_get_ihdr(png, &head)) return wanted;
    return plan_of(&head, false, wanted).channels;
}

tarn_status tarn__png_into(void *png, const tarn_image *out, tarn_error *err)
{
    struct spng_ihdr head;
    int code = spng_get_ihdr(png, &head);
    if (code) return failed(err, code);
    plan p = plan_of(&head, false, out->channels);
    return finish(png, &p, out->data, out->stride * out->height, err);
}
