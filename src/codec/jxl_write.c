/* Writes JPEG XL with libjxl, in the calling thread. */
#include <string.h>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/jxl.h"

enum {
    STEP = 64 << 10,
    MOST_EFFORT = 10,
    OLD_MOST_EFFORT = 9,
    TINY_MOST_EFFORT = 7,
    TINY = 64 /* pixels */
};

typedef struct writing {
    const tarn__jxl_library *lib;
    const tarn__pixels *pixels;
    const tarn_encode_options *options;
    JxlEncoder *encoder;
} writing;

static bool good(JxlEncoderStatus status)
{
    return status == JXL_ENC_SUCCESS;
}

static bool is_old(const writing *w)
{
    return w->lib->DecoderVersion() < 10000;
}

/* --- What is written ------------------------------------------------------------ */

static bool describe(const writing *w)
{
    const tarn__pixels *p = w->pixels;
    JxlBasicInfo info;
    JxlColorEncoding colours;
    bool grey = p->channels < 3, alpha = p->channels == 2 || p->channels == 4;
    w->lib->EncoderInitBasicInfo(&info);
    info.xsize = p->width;
    info.ysize = p->height;
    info.bits_per_sample = p->bits;
    info.exponent_bits_per_sample = !p->real ? 0 : p->bits == 16 ? 5 : 8;
    info.num_color_channels = grey ? 1 : 3;
    info.num_extra_channels = alpha;
    info.alpha_bits = alpha ? info.bits_per_sample : 0;
    info.alpha_exponent_bits = alpha ? info.exponent_bits_per_sample : 0;
    /* Alpha is encoded by the lossless encoder, see check_samples. */
    if (alpha && p->bits == 32 && is_old(w)) {
        info.alpha_bits = 16;
        info.alpha_exponent_bits = 0;
    }
    info.uses_original_profile = w->options->jxl_lossless;
    memset(&colours, 0, sizeof colours);
    if (p->bits == 8)
        w->lib->ColorEncodingSetToSRGB(&colours, grey);
    else
        w->lib->ColorEncodingSetToLinearSRGB(&colours, grey);
    return good(w->lib->EncoderUseContainer(w->encoder, w->options->jxl_container)) &&
           good(w->lib->EncoderSetBasicInfo(w->encoder, &info)) &&
           good(w->lib->EncoderSetColorEncoding(w->encoder, &colours));
}

/* The lossless encoder of libjxl 0.7 changes 32-bit samples, or ends the process. */
static tarn_status check_samples(const writing *w, tarn_error *err)
{
    if (w->pixels->bits != 32 || !is_old(w) || !w->options->jxl_lossless) return TARN_OK;
    unsigned version = w->lib->DecoderVersion();
    return tarn__fail(
        err, TARN_ERR_UNSUPPORTED,
        "JPEG XL: libjxl %u.%u cannot write f4 without loss; use libjxl 0.10 "
        "or newer (Debian 13: libjxl0.11), or f2",
        version / 1000000, version / 1000 % 1000);
}

/* Before 0.10, asking for more than 9 makes libjxl print a message, and more than 7 ends
 * the process for grey images of one or two pixels. */
static int effort_of(const writing *w)
{
    const tarn__pixels *p = w->pixels;
    bool tiny = (uint64_t)p->width * p->height < TINY;
    int most = !is_old(w) ? MOST_EFFORT : tiny ? TINY_MOST_EFFORT : OLD_MOST_EFFORT;
    return w->options->jxl_effort < most ? w->options->jxl_effort : most;
}

static bool add_image(const writing *w)
{
    const tarn__pixels *p = w->pixels;
    const tarn_encode_options *o = w->options;
    JxlPixelFormat format = {.num_channels = p->channels,
                             .data_type = p->bits == 32  ? JXL_TYPE_FLOAT
                                          : p->real      ? JXL_TYPE_FLOAT16
                                          : p->bits == 8 ? JXL_TYPE_UINT8
                                                         : JXL_TYPE_UINT16,
                             .endianness = JXL_NATIVE_ENDIAN};
    size_t size = (size_t)p->width * p->height * p->channels * (p->bits / 8);
    JxlEncoderFrameSettings *frame = w->lib->EncoderFrameSettingsCreate(w->encoder, NULL);
    bool set = frame && good(w->lib->EncoderFrameSettingsSetOption(
                            frame, JXL_ENC_FRAME_SETTING_EFFORT, effort_of(w)));
    if (set && o->jxl_lossless)
        set = good(w->lib->EncoderSetFrameLossless(frame, JXL_TRUE));
    else if (set)
        set = good(w->lib->EncoderSetFrameDistance(frame, (float)o->jxl_distance));
    set = set && good(w->lib->EncoderAddImageFrame(frame, &format, p->data, size));
    w->lib->EncoderCloseInput(w->encoder);
    return set;
}

/* --- Encoding ------------------------------------------------------------------- */

static tarn_status failed(const writing *w, tarn_error *err)
{
    JxlEncoderError code = w->lib->EncoderGetError(w->encoder);
    if (code == JXL_ENC_ERR_OOM) return tarn__fail_memory(err);
    unsigned version = w->lib->DecoderVersion();
    return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                      "JPEG XL: libjxl %u.%u cannot write %u x %u pixels of %u channels "
                      "with distance %g and effort %d (error %d)",
                      version / 1000000, version / 1000 % 1000, w->pixels->width,
                      w->pixels->height, w->pixels->channels, w->options->jxl_distance,
                      w->options->jxl_effort, (int)code);
}

static tarn_status take_output(const writing *w, tarn_bytes *out, tarn_error *err)
{
    JxlEncoderStatus got = JXL_ENC_NEED_MORE_OUTPUT;
    while (got == JXL_ENC_NEED_MORE_OUTPUT) {
        uint8_t *to = tarn__bytes_extend(out, STEP, err);
        size_t room = STEP;
        if (!to) return TARN_ERR_MEMORY;
        got = w->lib->EncoderProcessOutput(w->encoder, &to, &room);
        out->size -= room;
    }
    return good(got) ? TARN_OK : failed(w, err);
}

static tarn_status check_options(const tarn_encode_options *o, tarn_error *err)
{
    if (!(o->jxl_distance >= 0 && o->jxl_distance <= 25))
        return tarn__fail(err, TARN_ERR_USAGE, "JPEG XL distance %g is not from 0 to 25",
                          o->jxl_distance);
    if (o->jxl_effort < 1 || o->jxl_effort > MOST_EFFORT)
        return tarn__fail(err, TARN_ERR_USAGE, "JPEG XL effort %d is not from 1 to 10",
                          o->jxl_effort);
    return TARN_OK;
}

tarn_status tarn__jxl_encode(const tarn__pixels *pixels,
                             const tarn_encode_options *options, tarn_bytes *out,
                             tarn_error *err)
{
    writing w = {.pixels = pixels, .options = options};
    TARN_TRY(check_options(options, err));
    TARN_TRY(tarn__jxl_get(&w.lib, err));
    TARN_TRY(check_samples(&w, err));
    w.encoder = w.lib->EncoderCreate(NULL);
    if (!w.encoder) return tarn__fail_memory(err);
    tarn_status status =
        describe(&w) && add_image(&w) ? take_output(&w, out, err) : failed(&w, err);
    w.lib->EncoderDestroy(w.encoder);
    return status;
}
