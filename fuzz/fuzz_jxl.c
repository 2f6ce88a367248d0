/* JPEG XL: the first byte chooses the channels, the rest is the image. Decoding gives
 * what the header says, in memory that is exactly large enough, and a decoder that was
 * used before gives the same pixels. */
#include "common.h"

#include <tarn/image.h>

#include "codec/pixels.h"

#define MAX_PIXELS 4096u
#define MAX_SIZE   (1u << 20)

static void check_failure(tarn_status status, const tarn_error *err)
{
    CHECK(status > TARN_END && err->code == status && err->message[0]);
}

/* The samples as they are stored. */
static void check_value(const void *data, size_t size, const tarn_decode_options *o)
{
    tarn_value value;
    tarn_error err;
    tarn_status status = tarn_decode("jxl", data, size, o, &value, &err);
    if (status != TARN_OK) {
        check_failure(status, &err);
        return;
    }
    const tarn_array *a = value.arrays;
    CHECK(a->shape[0] * a->shape[1] <= MAX_PIXELS && tarn_array_bytes(a) <= MAX_SIZE);
    free(exact_copy(a->data, (size_t)tarn_array_bytes(a)));
    tarn_value_release(&value);
}

/* The pixels as bytes; NULL if the image cannot be decoded. */
static unsigned char *pixels(tarn_image_decoder *decoder, const void *data, size_t size,
                             unsigned channels, size_t *out_size)
{
    tarn_image_info info;
    tarn_error err;
    tarn_status status = tarn__image_open(decoder, data, size, &info, &err);
    if (status != TARN_OK) {
        check_failure(status, &err);
        return NULL;
    }
    CHECK((uint64_t)info.width * info.height <= MAX_PIXELS);
    if (!channels) channels = info.channels;
    tarn__image out = {NULL, info.width, info.height, channels,
                       (size_t)info.width * channels};
    *out_size = out.stride * out.height;
    out.data = malloc(*out_size);
    CHECK(out.data);
    memset(out.data, 0xa5, *out_size);
    status = tarn__image_into(decoder, data, size, &info, &out, &err);
    if (status == TARN_OK) return out.data;
    check_failure(status, &err);
    free(out.data);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tarn_image_decoder *used;
    tarn_image_decoder *fresh;
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    size_t many = 0, again = 0;
    o.max_pixels = MAX_PIXELS;
    o.max_size = MAX_SIZE;
    if (size == 0) return 0;
    unsigned channels = (unsigned[]){0, 1, 3, 4}[data[0] % 4];
    unsigned char *image = exact_copy(data + 1, --size);
    if (!used) CHECK(tarn_image_decoder_new(&o, &used, NULL) == TARN_OK);
    CHECK(tarn_image_decoder_new(&o, &fresh, NULL) == TARN_OK);
    check_value(image, size, &o);
    unsigned char *one = pixels(used, image, size, channels, &many);
    unsigned char *two = pixels(fresh, image, size, channels, &again);
    CHECK(!one == !two);
    if (one) CHECK(many == again && !memcmp(one, two, many));
    free(one);
    free(two);
    free(image);
    tarn_image_decoder_free(fresh);
    return 0;
}
