/* Images through the steps: the first eight bytes choose the steps and the draw, the rest
 * is the image. A decoder that was used before gives the same result, and the image
 * header states what decoding gives. Mutated PNGs get correct checksums; otherwise the
 * code after the check would never be reached. */
#include "common.h"

#include <zlib.h>

#include <tarn/image.h>

#include "../tests/images.h"

#define MAX_SIZE   (4u << 20) /* so that no input needs much memory */
#define MAX_PIXELS 65536u

static tarn_image_decoder *make_decoder(const uint8_t *choice)
{
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    o.flags = choice[3] & 8 ? TARN_DECODE_UPRIGHT : 0;
    tarn_image_decoder *decoder;
    o.max_pixels = MAX_PIXELS;
    o.max_size = MAX_SIZE;
    CHECK(tarn_image_decoder_new(&o, &decoder, NULL) == TARN_OK);
    return decoder;
}

static void check_decode(tarn_image_decoder *decoder, const void *data, size_t size,
                         const uint8_t *choice)
{
    tarn_image_info info;
    tarn__image image = {0};
    tarn_error err;
    unsigned channels = (unsigned[]){0, 1, 3, 4}[choice[0] % 4];
    const uint32_t least[2] = {choice[1], choice[1]};
    tarn_status probed = tarn_image_probe(decoder, data, size, &info, sizeof info, &err);
    if (probed != TARN_OK) CHECK(err.code > TARN_END && err.message[0]);
    if (image_decode(decoder, data, size, channels, least, &image, &err) == TARN_OK) {
        CHECK(probed == TARN_OK &&
              image.channels == (channels ? channels : info.channels));
        CHECK(image.width <= info.width && image.height <= info.height);
        CHECK((uint64_t)info.width * info.height <= MAX_PIXELS);
        CHECK(image.width == info.width || image.width >= least[0]);
        /* The same in the caller's memory, which is exactly large enough. */
        size_t bytes = image.stride * image.height;
        void *first = exact_copy(image.data, bytes);
        tarn__image mine = image;
        mine.data = exact_copy(image.data, bytes);
        memset(mine.data, 0xa5, bytes);
        CHECK(tarn__image_open(decoder, data, size, &info, &err) == TARN_OK);
        CHECK(tarn__image_into(decoder, data, size, &info, &mine, &err) == TARN_OK);
        CHECK(!memcmp(first, mine.data, bytes));
        free(first);
        free(mine.data);
    } else {
        CHECK(err.code > TARN_END && err.message[0]);
    }
}

/* Upright, and the indices of palettes: an array that is exactly large enough. */
static void check_value(const void *data, size_t size)
{
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    tarn_value value;
    tarn_error err;
    o.max_pixels = MAX_PIXELS;
    o.max_size = MAX_SIZE;
    o.flags = TARN_DECODE_UPRIGHT | TARN_DECODE_INDICES;
    if (tarn_decode("png", data, size, &o, &value, &err) != TARN_OK) {
        CHECK(err.code > TARN_END && err.message[0]);
        return;
    }
    free(exact_copy(value.arrays->data, (size_t)tarn_array_bytes(value.arrays)));
    tarn_value_release(&value);
}

static tarn__image_plan *make_plan(const uint8_t *choice)
{
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    tarn__image_plan *plan;
    s.width = 1 + choice[0] % 32;
    s.height = 1 + choice[1] % 32;
    s.channels = (unsigned[]){1, 3, 4, 3}[choice[2] % 4];
    s.fit = (tarn_image_fit)(choice[2] / 4 % 4);
    s.shorter = choice[2] & 16 ? 32 : 0;
    s.type = (tarn_image_type)(choice[2] / 32 % 3);
    s.layout = (tarn_image_layout)(choice[3] % 2);
    s.reduce = choice[3] & 2 ? 1 : 0;
    s.flip = choice[3] & 4 ? 0.5 : 0;
    CHECK(tarn__image_plan_new(&s, &plan, NULL) == TARN_OK);
    return plan;
}

static void check_steps(tarn_image_decoder *used, const void *data, size_t size,
                        const uint8_t *choice)
{
    tarn__image_plan *plan = make_plan(choice);
    tarn_image_decoder *fresh = make_decoder(choice);
    tarn_image_draw draw = {choice[4], choice[5], 7};
    size_t bytes = tarn__image_plan_size(plan);
    unsigned char *one = malloc(bytes), *two = malloc(bytes);
    tarn_error err;
    CHECK(one && two);
    tarn_status status = tarn__image_run(used, plan, data, size, draw, one, &err);
    if (status != TARN_OK) CHECK(err.code == status && err.message[0]);
    CHECK(tarn__image_run(fresh, plan, data, size, draw, two, NULL) == status);
    if (status == TARN_OK) CHECK(!memcmp(one, two, bytes));
    free(one);
    free(two);
    tarn_image_decoder_free(fresh);
    tarn__image_plan_free(plan);
}

/* --- PNGs with valid checksums ------------------------------------------------------ */

enum { SIGNATURE = 8, EXTRA = 12, STORED = 7 };

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_big32(uint8_t *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* A zlib stream of one stored block gets its length and its checksum. */
static void mend_stream(uint8_t *p, size_t size)
{
    if (size < STORED + 4 || size > 65535 || memcmp(p, "\x78\1\1", 3) != 0) return;
    size_t raw = size - STORED - 4;
    p[3] = (uint8_t)raw;
    p[4] = (uint8_t)(raw >> 8);
    p[5] = (uint8_t)~p[3];
    p[6] = (uint8_t)~p[4];
    put_big32(p + STORED + raw, (uint32_t)adler32(1, p + STORED, (uInt)raw));
}

static void mend_png(uint8_t *p, size_t size)
{
    for (size_t at = SIGNATURE; size >= EXTRA && at <= size - EXTRA;) {
        uint32_t length = big32(p + at);
        if (length > size - at - EXTRA) return;
        if (!memcmp(p + at + 4, "IDAT", 4)) mend_stream(p + at + 8, length);
        put_big32(p + at + 8 + length, (uint32_t)crc32(0, p + at + 4, length + 4));
        at += EXTRA + length;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max);
    if (seed % 8 && size > 8 + SIGNATURE && !memcmp(data + 8, "\x89PNG", 4))
        mend_png(data + 8, size - 8);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 8) return 0;
    void *image = exact_copy(data + 8, size - 8);
    tarn_image_decoder *decoder = make_decoder(data);
    check_decode(decoder, image, size - 8, data + 6);
    if (data[3] & 8) check_value(image, size - 8);
    check_steps(decoder, image, size - 8, data);
    tarn_image_decoder_free(decoder);
    free(image);
    return 0;
}
