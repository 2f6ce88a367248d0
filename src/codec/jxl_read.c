/* Reads JPEG XL with libjxl: one image, upright as its header says, in the calling
 * thread. Animations are refused. */
#include "codec/jxl.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "codec/codec.h"

/* Memory of one decoder. libjxl decodes to floats, and keeps several copies of them.
 * Before 0.10 it allocates only part of its memory through the manager. */
#define MEMORY_BASE      (UINT64_C(128) << 20)
#define MEMORY_PER_PIXEL UINT64_C(256)

enum {
    MOST_EXTRA = 8, /* channels apart from colours, with alpha; each has floats as well */
    BLOCK_HEAD = 16 /* bytes before each block; its size, and keeps the alignment */
};

struct tarn__jxl {
    const tarn__jxl_library *lib;
    JxlDecoder *decoder;
    JxlBasicInfo info;
    size_t size;          /* of the data */
    uint64_t used, limit; /* bytes of memory */
    bool over, lacked;    /* an allocation was refused; failed */
};

/* --- Memory --------------------------------------------------------------------- */

static void *take(void *context, size_t size)
{
    tarn__jxl *j = context;
    if (size > j->limit || j->used > j->limit - size) {
        j->over = true;
        return NULL;
    }
    unsigned char *block = malloc(size + BLOCK_HEAD);
    if (!block) {
        j->lacked = true;
        return NULL;
    }
    *(size_t *)(void *)block = size;
    j->used += size;
    return block + BLOCK_HEAD;
}

static void give(void *context, void *address)
{
    tarn__jxl *j = context;
    if (!address) return;
    unsigned char *block = (unsigned char *)address - BLOCK_HEAD;
    j->used -= *(size_t *)(void *)block;
    free(block);
}

void tarn__jxl_free(tarn__jxl *j)
{
    if (!j) return;
    if (j->decoder) j->lib->DecoderDestroy(j->decoder);
    free(j);
}

static tarn_status create(tarn__jxl **jxl, tarn_error *err)
{
    const tarn__jxl_library *lib;
    if (*jxl) return TARN_OK;
    TARN_TRY(tarn__jxl_get(&lib, err));
    tarn__jxl *j = calloc(1, sizeof *j);
    if (!j) return tarn__fail_memory(err);
    j->lib = lib;
    j->limit = MEMORY_BASE;
    JxlMemoryManager manager = {.opaque = j, .alloc = take, .free = give};
    j->decoder = lib->DecoderCreate(&manager);
    if (!j->decoder) {
        free(j);
        return tarn__fail_memory(err);
    }
    *jxl = j;
    return TARN_OK;
}

/* --- Header --------------------------------------------------------------------- */

/* The error for a status that is not what the next step needs. */
static tarn_status failed(tarn__jxl *j, JxlDecoderStatus got, const char *part,
                          tarn_error *err)
{
    size_t left = j->lib->DecoderReleaseInput(j->decoder);
    bool over = j->over, lacked = j->lacked;
    j->lib->DecoderReset(j->decoder);
    if (over)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "JPEG XL: decoding needs more than %llu bytes of memory",
                          (unsigned long long)j->limit);
    if (lacked) return tarn__fail_memory(err);
    if (got == JXL_DEC_NEED_MORE_INPUT)
        return tarn__fail(err, TARN_ERR_TRUNCATED,
                          "JPEG XL: truncated: all %zu bytes were read, and the %s is "
                          "not complete",
                          j->size, part);
    return tarn__fail(err, TARN_ERR_FORMAT, "JPEG XL: damaged %s, at byte %zu of %zu",
                      part, j->size - left, j->size);
}

/* The input is not closed: libjxl would report truncated data as damaged, and print a
 * message. */
static bool begin(tarn__jxl *j, const void *data)
{
    const tarn__jxl_library *lib = j->lib;
    lib->DecoderReset(j->decoder);
    j->over = j->lacked = false;
    j->limit = MEMORY_BASE;
    return lib->DecoderSubscribeEvents(
               j->decoder, JXL_DEC_BASIC_INFO | JXL_DEC_FULL_IMAGE) == JXL_DEC_SUCCESS &&
           lib->DecoderSetUnpremultiplyAlpha(j->decoder, JXL_TRUE) == JXL_DEC_SUCCESS &&
           lib->DecoderSetInput(j->decoder, data, j->size) == JXL_DEC_SUCCESS;
}

tarn_status tarn__jxl_head(tarn__jxl **jxl, const void *data, size_t size,
                           tarn_image_info *out, tarn_error *err)
{
    TARN_TRY(create(jxl, err));
    tarn__jxl *j = *jxl;
    const JxlBasicInfo *info = &j->info;
    j->size = size;
    JxlDecoderStatus got = JXL_DEC_ERROR;
    if (begin(j, data)) got = j->lib->DecoderProcessInput(j->decoder);
    if (got != JXL_DEC_BASIC_INFO ||
        j->lib->DecoderGetBasicInfo(j->decoder, &j->info) != JXL_DEC_SUCCESS)
        return failed(j, got, "header", err);
    if (info->have_animation)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "JPEG XL: animations are not supported");
    if (info->num_extra_channels > MOST_EXTRA)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "JPEG XL: %u channels besides colours; the limit is %d",
                          info->num_extra_channels, MOST_EXTRA);
    *out = (tarn_image_info){.format = TARN_IMAGE_JXL,
                             .width = info->xsize,
                             .height = info->ysize,
                             .channels = info->alpha_bits                ? 4
                                         : info->num_color_channels == 1 ? 1
                                                                         : 3};
    return TARN_OK;
}

/* --- Pixels --------------------------------------------------------------------- */

static tarn_status read_pixels(tarn__jxl *j, unsigned channels, JxlDataType type,
                               void *out, uint64_t size, tarn_error *err)
{
    const tarn__jxl_library *lib = j->lib;
    JxlPixelFormat format = {
        .num_channels = channels, .data_type = type, .endianness = JXL_NATIVE_ENDIAN};
    j->limit = MEMORY_BASE + (uint64_t)j->info.xsize * j->info.ysize * MEMORY_PER_PIXEL;
    JxlDecoderStatus got = lib->DecoderProcessInput(j->decoder);
    if (got == JXL_DEC_NEED_IMAGE_OUT_BUFFER)
        got = lib->DecoderSetImageOutBuffer(j->decoder, &format, out, size) ==
                      JXL_DEC_SUCCESS
                  ? lib->DecoderProcessInput(j->decoder)
                  : JXL_DEC_ERROR;
    if (got != JXL_DEC_FULL_IMAGE) return failed(j, got, "image", err);
    lib->DecoderReset(j->decoder); /* frees the memory of the image */
    return TARN_OK;
}

tarn_status tarn__jxl_into(tarn__jxl *j, const tarn__image *out, tarn_error *err)
{
    return read_pixels(j, out->channels, JXL_TYPE_UINT8, out->data,
                       (uint64_t)out->stride * out->height, err);
}

/* The type of the samples as they are stored. */
static tarn_status sample_type(const JxlBasicInfo *info, tarn_dtype *out,
                               JxlDataType *out_type, tarn_error *err)
{
    unsigned bits = info->bits_per_sample;
    if (info->exponent_bits_per_sample) {
        *out = TARN__DTYPE('<', 'f', bits > 16 ? 4 : 2);
        *out_type = bits > 16 ? JXL_TYPE_FLOAT : JXL_TYPE_FLOAT16;
    } else if (bits <= 16) {
        *out = bits > 8 ? TARN__DTYPE('<', 'u', 2) : TARN__U1;
        *out_type = bits > 8 ? JXL_TYPE_UINT16 : JXL_TYPE_UINT8;
    } else {
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "JPEG XL: integers of %u bits; at most 16 are supported", bits);
    }
    return TARN_OK;
}

static tarn_status decode(tarn__jxl **jxl, const void *data, size_t size,
                          const tarn_decode_options *options, tarn_value *out,
                          tarn_error *err)
{
    tarn_image_info info;
    tarn_dtype dtype;
    JxlDataType type;
    TARN_TRY(tarn__jxl_head(jxl, data, size, &info, err));
    tarn__jxl *j = *jxl;
    TARN_TRY(sample_type(&j->info, &dtype, &type, err));
    unsigned channels = j->info.num_color_channels + (j->info.alpha_bits != 0);
    TARN_TRY(
        tarn__pixels_make(out, info.width, info.height, channels, dtype, options, err));
    tarn_status status = read_pixels(j, channels, type, out->arrays->data,
                                     tarn__array_count(out->arrays) * dtype.size, err);
    if (status != TARN_OK) tarn_value_release(out);
    return status;
}

tarn_status tarn__jxl_decode(const void *data, size_t size,
                             const tarn_decode_options *options, tarn_value *out,
                             tarn_error *err)
{
    tarn__jxl *jxl = NULL;
    tarn_status status = decode(&jxl, data, size, options, out, err);
    tarn__jxl_free(jxl);
    return status;
}
