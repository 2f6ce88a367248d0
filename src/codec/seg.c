/* glzn's segmentation maps: labels as the pixels of a PNG, 8 or 16 bits of grey, or 24 or
 * 32 bits divided into red, green, blue and alpha, the high byte first. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
#include "codec/codec.h"

typedef struct layout {
    const char *extension;
    unsigned channels, bits;
    tarn_dtype dtype;
} layout;

static const layout *layout_of(const char *extension)
{
    static const layout layouts[] = {{"seg8", 1, 8, {'|', 'u', 1}},
                                     {"seg16", 1, 16, {'<', 'u', 2}},
                                     {"seg24", 3, 8, {'<', 'u', 4}},
                                     {"seg32", 4, 8, {'<', 'u', 4}}};
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(extension, layouts[i].extension)) return &layouts[i];
    return &layouts[3];
}

/* --- Writing -------------------------------------------------------------------- */

static tarn_status spread(const void *labels, uint64_t count, unsigned channels,
                          void **out, tarn_error *err)
{
    unsigned char *bytes = malloc(count * channels), *p = bytes;
    const unsigned char *from = labels;
    if (!bytes) return tarn__fail_memory(err);
    for (uint64_t i = 0; i < count; i++, from += 4) {
        uint32_t label = tarn__get32(from);
        if (channels == 3 && label >> 24) {
            free(bytes);
            return tarn__fail(
                err, TARN_ERR_UNSUPPORTED,
                "label %u does not fit into the 24 bits of .seg24; use .seg32", label);
        }
        for (unsigned shift = channels * 8; shift; shift -= 8)
            *p++ = (unsigned char)(label >> (shift - 8));
    }
    *out = bytes;
    return TARN_OK;
}

static tarn_status check_labels(const tarn_array *array, const layout *l, tarn_error *err)
{
    if (array->ndim != 2 || array->dtype.kind != 'u' ||
        array->dtype.size != l->dtype.size)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "field .%s takes an array [height, width] of type u%u",
                          l->extension, l->dtype.size);
    if (array->shape[0] - 1 >= INT32_MAX || array->shape[1] - 1 >= INT32_MAX)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "field .%s is empty, or a side is longer than 2^31",
                          l->extension);
    return TARN_OK;
}

TARN__ENCODER(tarn__encode_seg)
{
    const layout *l = layout_of(extension);
    const tarn_array *array = tarn__one_array(value);
    void *copy, *bytes = NULL;
    if (!array) return tarn__wrong_value(err, extension, "an array of labels", value);
    TARN_TRY(check_labels(array, l, err));
    tarn__pixels pixels = {.width = (uint32_t)array->shape[1],
                           .height = (uint32_t)array->shape[0],
                           .channels = l->channels,
                           .bits = l->bits};
    TARN_TRY(tarn__array_native(array, &pixels.data, &copy, err));
    tarn_status status = TARN_OK;
    if (l->channels > 1) {
        status = spread(pixels.data, tarn__array_count(array), l->channels, &bytes, err);
        pixels.data = bytes;
    }
    if (status == TARN_OK) status = tarn__png_encode(&pixels, options, out, err);
    free(copy);
    free(bytes);
    return status;
}

/* --- Reading -------------------------------------------------------------------- */

static void collect(const tarn_array *pixels, unsigned channels, void *out)
{
    const unsigned char *p = pixels->data;
    unsigned char *to = out;
    uint64_t count = pixels->shape[0] * pixels->shape[1];
    for (uint64_t i = 0; i < count; i++, to += 4) {
        uint32_t label = 0;
        for (unsigned c = 0; c < channels; c++)
            label = label << 8 | *p++;
        tarn__put32(to, label);
    }
}

static tarn_status collect_labels(const layout *l, tarn_value *value,
                                  const tarn_decode_options *options, tarn_error *err)
{
    tarn_value labels = TARN_VALUE_INIT;
    tarn_status status = tarn__value_make_array(
        &labels, l->dtype, 2, value->arrays->shape, options->max_size, err);
    if (status == TARN_OK) collect(value->arrays, l->channels, labels.arrays->data);
    tarn_value_release(value);
    *value = labels;
    return status;
}

TARN__DECODER(tarn__decode_seg)
{
    const layout *l = layout_of(extension);
    tarn_decode_options as_it_is = *options;
    as_it_is.channels = 0;
    as_it_is.flags = 0;
    TARN_TRY(tarn__png_decode(data, size, &as_it_is, out, err));
    const tarn_array *pixels = out->arrays;
    unsigned channels = pixels->ndim == 3 ? (unsigned)pixels->shape[2] : 1;
    if (channels != l->channels || pixels->dtype.size * 8 != l->bits) {
        tarn_value_release(out);
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "field .%s must be a PNG of %u channels of %u bits", extension,
                          l->channels, l->bits);
    }
    return l->channels == 1 ? TARN_OK : collect_labels(l, out, options, err);
}
