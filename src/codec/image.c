/* Conversion between arrays and pixels, shared by the image formats. Each format has its
 * own file and sees only tarn__pixels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/error.h"
#include "codec/codec.h"
#include "codec/pixels.h"

#define CHANNELS(n) (1u << (n))
#define DEEP        1u
#define REAL        2u
#define TOLERANCE   0.001 /* how far outside [0, 1] WebDataset accepts samples */

/* --- Samples -------------------------------------------------------------------- */

/* Clipped to [0, 1], multiplied by 255, truncated; each step in the precision of the
 * sample, as in NumPy. False for NaN and values out of range. */
static bool float_sample(float v, unsigned char *out)
{
    if (!(v > (float)-TOLERANCE && v < (float)(1 + TOLERANCE))) return false;
    v = v < 0 ? 0 : v > 1 ? 1 : v;
    *out = (unsigned char)(v * 255.0f);
    return true;
}

static bool double_sample(double v, unsigned char *out)
{
    if (!(v > -TOLERANCE && v < 1 + TOLERANCE)) return false;
    v = v < 0 ? 0 : v > 1 ? 1 : v;
    *out = (unsigned char)(v * 255.0);
    return true;
}

static tarn_status from_real(const void *data, uint64_t count, uint32_t size, void **out,
                             tarn_error *err)
{
    unsigned char *bytes = malloc(count);
    const float *floats = data;
    const double *doubles = data;
    bool good = true;
    if (!bytes) return tarn__fail_memory(err);
    for (uint64_t i = 0; good && i < count; i++)
        good = size == sizeof(float) ? float_sample(floats[i], bytes + i)
                                     : double_sample(doubles[i], bytes + i);
    if (!good) {
        free(bytes);
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "an image of real numbers has a value outside 0 to 1");
    }
    *out = bytes;
    return TARN_OK;
}

static tarn_status check_shape(const tarn_array *array, tarn__pixels *out,
                               unsigned channels, tarn_error *err)
{
    uint64_t deep = array->ndim == 3 ? array->shape[2] : 1;
    if ((array->ndim != 2 && array->ndim != 3) || deep > 4 ||
        !(channels & CHANNELS((unsigned)deep)) || deep == 0)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "an image must be an array [height, width] or [height, width, "
                          "channels] with %s channels",
                          channels & CHANNELS(2)   ? "1, 2, 3 or 4"
                          : channels & CHANNELS(4) ? "1, 3 or 4"
                                                   : "1 or 3");
    if (array->shape[0] - 1 >= INT32_MAX || array->shape[1] - 1 >= INT32_MAX)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the image is empty, or a side is longer than 2^31");
    out->height = (uint32_t)array->shape[0];
    out->width = (uint32_t)array->shape[1];
    out->channels = (unsigned)deep;
    return TARN_OK;
}

/* The pixels of a value. The caller frees *out_copy. channels is a set of CHANNELS,
 * types of DEEP and REAL: what the format stores besides u1. */
static tarn_status take_pixels(const tarn_value *value, const char *extension,
                               unsigned channels, unsigned types, tarn__pixels *out,
                               void **out_copy, tarn_error *err)
{
    const tarn_array *array = tarn__one_array(value);
    *out_copy = NULL;
    if (!array) return tarn__wrong_value(err, extension, "an array of pixels", value);
    TARN_TRY(check_shape(array, out, channels, err));
    tarn_dtype t = array->dtype;
    out->real = t.kind == 'f' && t.size <= 4 && (types & REAL);
    bool scale = t.kind == 'f' && t.size >= 4 && !(types & REAL);
    if (!out->real && !scale &&
        !(t.kind == 'u' && (t.size == 1 || (t.size == 2 && (types & DEEP)))))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "field .%s takes pixels of type u1%s%s", extension,
                          types & DEEP ? " or u2" : "",
                          types & REAL ? ", or f2 and f4" : ", or f4 and f8 from 0 to 1");
    out->bits = scale ? 8 : t.size * 8;
    TARN_TRY(tarn__array_native(array, &out->data, out_copy, err));
    if (!scale) return TARN_OK;
    void *samples = NULL;
    tarn_status status =
        from_real(out->data, tarn__array_count(array), t.size, &samples, err);
    free(*out_copy);
    *out_copy = samples;
    out->data = samples;
    return status;
}

/* --- Encoders ------------------------------------------------------------------- */

/* Encodes the pixels of a value. The format decides which pixels it accepts. */
#define IMAGE_ENCODER(name, channels, types, call)                                       \
    TARN__ENCODER(name)                                                                  \
    {                                                                                    \
        tarn__pixels pixels;                                                             \
        void *copy;                                                                      \
        TARN_TRY(take_pixels(value, extension, channels, types, &pixels, &copy, err));   \
        tarn_status status = call(&pixels, options, out, err);                           \
        free(copy);                                                                      \
        return status;                                                                   \
    }

IMAGE_ENCODER(tarn__encode_jpeg, CHANNELS(1) | CHANNELS(3), 0, tarn__jpeg_encode)
IMAGE_ENCODER(tarn__encode_png, CHANNELS(1) | CHANNELS(2) | CHANNELS(3) | CHANNELS(4),
              DEEP, tarn__png_encode)
IMAGE_ENCODER(tarn__encode_webp, CHANNELS(1) | CHANNELS(3) | CHANNELS(4), 0,
              tarn__webp_encode)
IMAGE_ENCODER(tarn__encode_jxl, CHANNELS(1) | CHANNELS(2) | CHANNELS(3) | CHANNELS(4),
              DEEP | REAL, tarn__jxl_encode)

/* --- Converting pixels ---------------------------------------------------------- */

tarn_status tarn__pixels_make(tarn_value *value, uint32_t width, uint32_t height,
                              unsigned channels, tarn_dtype dtype,
                              const tarn_decode_options *options, tarn_error *err)
{
    uint64_t shape[3] = {height, width, channels};
    if ((uint64_t)width * height > options->max_pixels)
        return tarn__fail(
            err, TARN_ERR_LIMIT,
            "image of %u x %u pixels; the limit is %llu pixels (max_pixels)", width,
            height, (unsigned long long)options->max_pixels);
    return tarn__value_make_array(value, dtype, channels == 1 ? 2 : 3, shape,
                                  options->max_size, err);
}

/* The weights of ITU-R 601, rounded as in Pillow. */
static unsigned char luma(const unsigned char *rgb)
{
    return (
        unsigned char)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >>
                       16);
}

void tarn__pixels_convert(const unsigned char *from, unsigned have, unsigned char *to,
                          unsigned want, uint64_t count)
{
    if (have == want) {
        memcpy(to, from, count * want);
        return;
    }
    for (uint64_t i = 0; i < count; i++, from += have, to += want) {
        if (want == 1) {
            to[0] = luma(from);
            continue;
        }
        for (unsigned c = 0; c < 3; c++)
            to[c] = from[have == 1 ? 0 : c];
        if (want == 4) to[3] = 255;
    }
}

/* Uses the first bytes and not the name, because JPEGs are often named .png. */
tarn_image_format tarn__image_format(const void *data, size_t size)
{
    const unsigned char *p = data;
    if (size >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8)) return TARN_IMAGE_PNG;
    if (size >= 3 && !memcmp(p, "\xff\xd8\xff", 3)) return TARN_IMAGE_JPEG;
    if (size >= 12 && !memcmp(p, "RIFF", 4) && !memcmp(p + 8, "WEBP", 4))
        return TARN_IMAGE_WEBP;
    if (size >= 2 && !memcmp(p, "\xff\x0a", 2)) return TARN_IMAGE_JXL;
    if (size >= 12 && !memcmp(p, "\0\0\0\x0cJXL \r\n\x87\n", 12)) return TARN_IMAGE_JXL;
    if (size >= 3 && p[0] == 'P' && (p[1] == '5' || p[1] == '6')) return TARN_IMAGE_PPM;
    return 0;
}

static tarn_status decode_with(tarn_image_decoder *decoder, const void *data, size_t size,
                               const tarn_decode_options *options, tarn_value *out,
                               tarn_error *err)
{
    tarn_image_info info;
    TARN_TRY(tarn__image_head(decoder, data, size, &info, err));
    unsigned channels = options->channels ? options->channels : info.channels;
    TARN_TRY(tarn__pixels_make(out, info.width, info.height, channels, TARN__U1, options,
                               err));
    tarn__image image = {out->arrays->data, info.width, info.height, channels,
                         (size_t)info.width * channels};
    tarn_status status = tarn__image_into(decoder, data, size, &info, &image, err);
    if (status != TARN_OK) tarn_value_release(out);
    return status;
}

/* Replaces the pixels of a value by upright ones. */
static tarn_status turn_value(tarn_value *value, unsigned orientation,
                              const tarn_decode_options *options, tarn_error *err)
{
    const tarn_array *a = value->arrays;
    tarn_value turned = TARN_VALUE_INIT;
    unsigned channels = a->ndim == 3 ? (unsigned)a->shape[2] : 1;
    unsigned bytes = channels * a->dtype.size;
    tarn__image from = {a->data, (uint32_t)a->shape[1], (uint32_t)a->shape[0], bytes,
                        (size_t)a->shape[1] * bytes};
    tarn__image to = from;
    tarn__exif_turn_size(orientation, &to.width, &to.height);
    to.stride = (size_t)to.width * bytes;
    uint64_t shape[] = {to.height, to.width, channels};
    tarn_status status =
        tarn__value_make_array(&turned, a->dtype, a->ndim, shape, options->max_size, err);
    if (status == TARN_OK) {
        to.data = turned.arrays->data;
        tarn__exif_turn(orientation, &from, &to);
    }
    tarn_value_release(value);
    *value = turned;
    return status;
}

static tarn_status decode_stored(const char *extension, const void *data, size_t size,
                                 const tarn_decode_options *options, tarn_value *out,
                                 tarn_error *err)
{
    tarn_image_format format = tarn__image_format(data, size);
    if (options->channels == 2 || options->channels > 4)
        return tarn__fail(err, TARN_ERR_USAGE, "channels must be 0, 1, 3 or 4");
    if (!format)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "field .%s is not a PNG, JPEG, WebP, JPEG XL or binary PPM; "
                          "other formats need a fallback (in Python: "
                          "fallback=\"pillow\")",
                          extension);
    /* These formats may have 16-bit and real samples, which are kept. */
    if (!options->channels && format == TARN_IMAGE_PNG)
        return tarn__png_decode(data, size, options, out, err);
    if (!options->channels && format == TARN_IMAGE_PPM)
        return tarn__ppm_decode(data, size, options, out, err);
    if (!options->channels && format == TARN_IMAGE_JXL)
        return tarn__jxl_decode(data, size, options, out, err);
    /* max_size limits the value; everything else is limited by the number of pixels. */
    tarn_image_decoder decoder = {.max_size = UINT64_MAX, .orientation = 1};
    if (format == TARN_IMAGE_JPEG) decoder.jpeg = tarn__jpeg_new();
    if (format == TARN_IMAGE_PNG) decoder.png = tarn__png_new();
    bool short_of_memory = (format == TARN_IMAGE_JPEG && !decoder.jpeg) ||
                           (format == TARN_IMAGE_PNG && !decoder.png);
    tarn_status status = short_of_memory
                             ? tarn__fail_memory(err)
                             : decode_with(&decoder, data, size, options, out, err);
    tarn__jpeg_free(decoder.jpeg);
    tarn__png_free(decoder.png);
    tarn__jxl_free(decoder.jxl);
    tarn__scratch_release(&decoder.raw);
    return status;
}

TARN__DECODER(tarn__decode_image)
{
    TARN_TRY(decode_stored(extension, data, size, options, out, err));
    if (!(options->flags & TARN_DECODE_UPRIGHT)) return TARN_OK;
    unsigned orientation = tarn__exif_orientation(data, size);
    return orientation == 1 ? TARN_OK : turn_value(out, orientation, options, err);
}

/* --- PPM ------------------------------------------------------------------------ */

TARN__ENCODER(tarn__encode_ppm)
{
    tarn__pixels pixels = {0};
    char head[64];
    void *copy;
    TARN_TRY(take_pixels(value, extension, CHANNELS(1) | CHANNELS(3), DEEP, &pixels,
                         &copy, err));
    uint64_t samples = (uint64_t)pixels.width * pixels.height * pixels.channels;
    int n =
        snprintf(head, sizeof head, "P%c\n%u %u\n%u\n", pixels.channels == 1 ? '5' : '6',
                 pixels.width, pixels.height, pixels.bits == 16 ? 65535u : 255u);
    tarn_status status = tarn__bytes_add(out, head, (size_t)n, err);
    unsigned char *p = NULL;
    if (status == TARN_OK) p = tarn__bytes_extend(out, samples * pixels.bits / 8, err);
    if (p && pixels.bits == 8) memcpy(p, pixels.data, samples);
    if (p && pixels.bits == 16)
        for (uint64_t i = 0; i < samples; i++) {
            uint16_t v = ((const uint16_t *)pixels.data)[i];
            p[2 * i] = (unsigned char)(v >> 8);
            p[2 * i + 1] = (unsigned char)v;
        }
    free(copy);
    return p ? TARN_OK : status != TARN_OK ? status : TARN_ERR_MEMORY;
}

typedef struct ppm {
    const unsigned char *data;
    size_t size, at;
} ppm;

/* A number after blanks and comments; also skips one blank after it. */
static bool ppm_number(ppm *p, uint32_t *out)
{
    uint64_t value = 0;
    unsigned digits = 0;
    while (p->at < p->size && (p->data[p->at] <= ' ' || p->data[p->at] == '#')) {
        if (p->data[p->at] == '#')
            while (p->at < p->size && p->data[p->at] != '\n')
                p->at++;
        else
            p->at++;
    }
    for (; p->at < p->size && p->data[p->at] >= '0' && p->data[p->at] <= '9'; p->at++) {
        value = value * 10 + (uint64_t)(p->data[p->at] - '0');
        if (++digits > 10 || value > INT32_MAX) return false;
    }
    if (digits == 0 || p->at == p->size || p->data[p->at] > ' ') return false;
    p->at++;
    *out = (uint32_t)value;
    return true;
}

/* 16-bit samples, high byte first, or converted to 8 bits. */
static void ppm_samples(const unsigned char *from, bool deep, void *to, bool to_deep,
                        uint64_t count)
{
    unsigned char *bytes = to;
    uint16_t *words = to;
    if (!deep)
        memcpy(bytes, from, count);
    else if (!to_deep)
        for (uint64_t i = 0; i < count; i++)
            bytes[i] = from[2 * i];
    else
        for (uint64_t i = 0; i < count; i++)
            words[i] = (uint16_t)(from[2 * i] << 8 | from[2 * i + 1]);
}

/* Also checks that all pixels are present. */
tarn_status tarn__ppm_head(const void *data, size_t size, tarn_image_info *out,
                           size_t *out_at, bool *out_deep, tarn_error *err)
{
    ppm p = {.data = data, .size = size, .at = 2};
    uint32_t width, height, most;
    unsigned channels = p.data[1] == '5' ? 1 : 3;
    if (!ppm_number(&p, &width) || !ppm_number(&p, &height) || !ppm_number(&p, &most))
        return tarn__fail(err, TARN_ERR_FORMAT, "PPM: malformed header");
    bool deep = most == 65535;
    if (most != 255 && !deep)
        return tarn__fail(
            err, TARN_ERR_UNSUPPORTED,
            "PPM: the largest value is %u; only 255 and 65535 are supported", most);
    uint64_t bytes;
    if (width == 0 || height == 0 ||
        !tarn__mul((uint64_t)width * height, channels * (deep ? 2u : 1u), &bytes) ||
        size - p.at < bytes)
        return tarn__fail(err, TARN_ERR_TRUNCATED,
                          "PPM: fewer pixels than the header says");
    *out = (tarn_image_info){
        .format = TARN_IMAGE_PPM, .width = width, .height = height, .channels = channels};
    *out_at = p.at;
    *out_deep = deep;
    return TARN_OK;
}

tarn_status tarn__ppm_into(const void *data, size_t size, const tarn__image *out,
                           tarn_error *err)
{
    tarn_image_info info;
    size_t at;
    bool deep;
    TARN_TRY(tarn__ppm_head(data, size, &info, &at, &deep, err));
    ppm_samples((const unsigned char *)data + at, deep, out->data, false,
                (uint64_t)info.width * info.height * info.channels);
    return TARN_OK;
}

tarn_status tarn__ppm_decode(const void *data, size_t size,
                             const tarn_decode_options *options, tarn_value *out,
                             tarn_error *err)
{
    tarn_image_info info;
    size_t at;
    bool deep;
    TARN_TRY(tarn__ppm_head(data, size, &info, &at, &deep, err));
    TARN_TRY(tarn__pixels_make(out, info.width, info.height, info.channels,
                               deep ? TARN__U2 : TARN__U1, options, err));
    ppm_samples((const unsigned char *)data + at, deep, out->arrays->data, deep,
                tarn__array_count(out->arrays));
    return TARN_OK;
}
