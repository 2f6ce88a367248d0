/* JPEG by libjpeg-turbo's own interface, which reports errors without long jumps. */
#include <string.h>

#include <turbojpeg.h>

#include "base/error.h"
#include "codec/codec.h"

#define LARGEST_SIDE 65500u

static tarn_status failed(tarn_error *err, tjhandle handle)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "JPEG: %s", tjGetErrorStr2(handle));
}

static int subsampling_of(const tarn__pixels *pixels, tarn_subsampling wanted)
{
    if (pixels->channels == 1) return TJSAMP_GRAY;
    return wanted == TARN_SUBSAMPLING_444   ? TJSAMP_444
           : wanted == TARN_SUBSAMPLING_422 ? TJSAMP_422
                                            : TJSAMP_420;
}

static tarn_status compress(tjhandle handle, const tarn__pixels *pixels,
                            const tarn_encode_options *options, tarn_bytes *out,
                            tarn_error *err)
{
    int sampling = subsampling_of(pixels, options->subsampling);
    int width = (int)pixels->width, height = (int)pixels->height;
    unsigned long size = tjBufSize(width, height, sampling);
    size_t begin = out->size;
    unsigned char *room = tarn__bytes_extend(out, size, err);
    if (!room) return TARN_ERR_MEMORY;
    if (tjCompress2(handle, pixels->data, width, 0, height,
                    pixels->channels == 1 ? TJPF_GRAY : TJPF_RGB, &room, &size, sampling,
                    options->jpeg_quality, TJFLAG_NOREALLOC | TJFLAG_ACCURATEDCT) != 0)
        return failed(err, handle);
    out->size = begin + size;
    return TARN_OK;
}

tarn_status tarn__jpeg_encode(const tarn__pixels *pixels,
                              const tarn_encode_options *options, tarn_bytes *out,
                              tarn_error *err)
{
    if (options->jpeg_quality < 1 || options->jpeg_quality > 100)
        return tarn__fail(err, TARN_ERR_USAGE, "JPEG quality %d is not from 1 to 100",
                          options->jpeg_quality);
    if (pixels->width > LARGEST_SIDE || pixels->height > LARGEST_SIDE)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "JPEG cannot hold %u x %u pixels; a side has at most %u",
                          pixels->width, pixels->height, LARGEST_SIDE);
    tjhandle handle = tjInitCompress();
    if (!handle) return tarn__fail_memory(err);
    tarn_status status = compress(handle, pixels, options, out, err);
    tjDestroy(handle);
    return status;
}

/* A warning that pixels are missing is an error; of the others (a few stray bytes, which
 * some cameras leave) nobody sees anything. An error that ends decoding after a warning
 * is a warning to tjGetErrorCode, so the text decides: it is that of the last thing said.
 */
static bool is_fatal(tjhandle handle)
{
    static const char *const harmless[] = {"Corrupt JPEG data", "Invalid SOS parameters",
                                           "Inconsistent progression", "Unknown Adobe",
                                           "Warning:"};
    const char *text = tjGetErrorStr2(handle);
    if (tjGetErrorCode(handle) == TJERR_FATAL || strstr(text, "remature end"))
        return true;
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (!strncmp(text, harmless[i], strlen(harmless[i]))) return false;
    return true;
}

tarn_status tarn__jpeg_head(void *handle, const void *data, size_t size,
                            tarn_image_info *out, tarn_error *err)
{
    int width = 0, height = 0, sampling = -1, space = -1;
    if (tjDecompressHeader3(handle, data, size, &width, &height, &sampling, &space) != 0)
        return failed(err, handle);
    /* Tables without an image are a JPEG too, to TurboJPEG: it sets nothing then. */
    if (width <= 0 || height <= 0)
        return tarn__fail(err, TARN_ERR_FORMAT, "JPEG: it ends before the image begins");
    if (space == TJCS_CMYK || space == TJCS_YCCK)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED, "JPEG: four inks are not decoded");
    *out = (tarn_image_info){.format = TARN_IMAGE_JPEG,
                             .width = (uint32_t)width,
                             .height = (uint32_t)height,
                             .channels = space == TJCS_GRAY ? 1 : 3};
    return TARN_OK;
}

tarn_status tarn__jpeg_into(void *handle, const void *data, size_t size,
                            const tarn_image *out, tarn_error *err)
{
    int format = out->channels == 1   ? TJPF_GRAY
                 : out->channels == 3 ? TJPF_RGB
                                      : TJPF_RGBA;
    if (out->stride > INT32_MAX)
        return tarn__fail(err, TARN_ERR_USAGE, "rows more than 2^31 bytes apart");
    if (tjDecompress2(handle, data, size, out->data, (int)out->width, (int)out->stride,
                      (int)out->height, format, TJFLAG_LIMITSCANS) != 0 &&
        is_fatal(handle))
        return failed(err, handle);
    return TARN_OK;
}

static tarn_status decompress(tjhandle handle, const void *data, size_t size,
                              const tarn_decode_options *options, tarn_value *out,
                              tarn_error *err)
{
    tarn_image_info info;
    TARN_TRY(tarn__jpeg_head(handle, data, size, &info, err));
    unsigned channels = options->channels ? options->channels : info.channels;
    TARN_TRY(tarn__pixels_make(out, info.width, info.height, channels, 8, options, err));
    tarn_image image = {out->arrays->data, info.width, info.height, channels,
                        (size_t)info.width * channels};
    tarn_status status = tarn__jpeg_into(handle, data, size, &image, err);
    if (status != TARN_OK) tarn_value_release(out);
    return status;
}

void *tarn__jpeg_new(void)
{
    return tjInitDecompress();
}

void tarn__jpeg_free(void *handle)
{
    if (handle) tjDestroy(handle);
}

tarn_status tarn__jpeg_decode(const void *data, size_t size,
                              const tarn_decode_options *options, tarn_value *out,
                              tarn_error *err)
{
    tjhandle handle = tjInitDecompress();
    if (!handle) return tarn__fail_memory(err);
    tarn_status status = decompress(handle, data, size, options, out, err);
    tjDestroy(handle);
    return status;
}
