/* Driven by tests/interop/test_image.py: requests in a stream of records on standard
 * input, answers on standard output. Numbers are little-endian; u64 unless stated
 * otherwise.
 *
 *   P  bytes                                     ->  format width height channels
 *   D  channels least_width least_height bytes   ->  width height channels bytes
 *   R  loops width height channels bytes out_width out_height box (4 x f32)  ->  bytes
 *   S  steps count (seed epoch sample bytes)*    ->  count answers of bytes
 *   C  steps count (seed epoch sample width height)*  ->  count of left top width height
 * flip
 *
 *   M  steps count (seed epoch sample width height size bytes)*  ->  count answers of
 * bytes U  upright, of the images that follow; no answer
 *
 *   bytes  length, data
 *   steps  width height channels fit shorter type layout, then f64: scale[2] ratio[2]
 * flip reduce mean[4] std[4]
 *
 * Each answer begins with a status byte; a failure is followed by its text as bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/image.h>

#include "../images.h"
#include "records.h"

static tarn_image_decoder *decoder;
static tarn_error err;

static double get_f64(void)
{
    double v;
    get(&v, sizeof v);
    return v;
}

/* Of exactly the right size, so that sanitizers see more. */
static void *get_bytes(size_t *out_len)
{
    *out_len = get_u64();
    void *data = malloc(*out_len ? *out_len : 1);
    if (!data) exit(3);
    get(data, *out_len);
    return data;
}

/* Whether more follows than the failure. */
static bool put_status(tarn_status status)
{
    putchar((int)status);
    if (status != TARN_OK) put_bytes(err.message, strlen(err.message));
    return status == TARN_OK;
}

static void probe(void)
{
    size_t size;
    void *data = get_bytes(&size);
    tarn_image_info info;
    if (put_status(tarn_image_probe(decoder, data, size, &info, sizeof info, &err))) {
        put_u64(info.format);
        put_u64(info.width);
        put_u64(info.height);
        put_u64(info.channels);
    }
    free(data);
}

static void decode(void)
{
    size_t size;
    tarn__image image = {0};
    unsigned channels = (unsigned)get_u64();
    uint32_t width = (uint32_t)get_u64(), height = (uint32_t)get_u64();
    const uint32_t least[2] = {width, height};
    void *data = get_bytes(&size);
    if (put_status(image_decode(decoder, data, size, channels, least, &image, &err))) {
        put_u64(image.width);
        put_u64(image.height);
        put_u64(image.channels);
        put_bytes(image.data, image.stride * image.height);
    }
    free(data);
}

static void resize(void)
{
    tarn__image from = {0}, to = {0};
    size_t size;
    float box[4];
    tarn__loops had = decoder->resizer.loops;
    uint64_t most = get_u64();
    if (most < had) decoder->resizer.loops = (tarn__loops)most;
    from.width = (uint32_t)get_u64();
    from.height = (uint32_t)get_u64();
    from.channels = to.channels = (unsigned)get_u64();
    from.stride = (size_t)from.width * from.channels;
    from.data = get_bytes(&size);
    to.width = (uint32_t)get_u64();
    to.height = (uint32_t)get_u64();
    to.stride = (size_t)to.width * to.channels;
    get(box, sizeof box);
    to.data = malloc(to.stride * to.height);
    if (!to.data) exit(3);
    if (put_status(image_resize(decoder, &from, box, &to, &err)))
        put_bytes(to.data, to.stride * to.height);
    free(from.data);
    free(to.data);
    decoder->resizer.loops = had;
}

static tarn__image_plan *get_plan(void)
{
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    tarn__image_plan *plan;
    s.width = (uint32_t)get_u64();
    s.height = (uint32_t)get_u64();
    s.channels = (unsigned)get_u64();
    s.fit = (tarn_image_fit)get_u64();
    s.shorter = (uint32_t)get_u64();
    s.type = (tarn_image_type)get_u64();
    s.layout = (tarn_image_layout)get_u64();
    for (int i = 0; i < 2; i++)
        s.scale[i] = get_f64();
    for (int i = 0; i < 2; i++)
        s.ratio[i] = get_f64();
    s.flip = get_f64();
    s.reduce = get_f64();
    for (int i = 0; i < 4; i++)
        s.mean[i] = (float)get_f64();
    for (int i = 0; i < 4; i++)
        s.std[i] = (float)get_f64();
    if (tarn__image_plan_new(&s, &plan, &err) != TARN_OK) {
        fprintf(stderr, "image_tool: %s\n", err.message);
        exit(4);
    }
    return plan;
}

static tarn_image_draw get_draw(void)
{
    tarn_image_draw draw;
    draw.seed = get_u64();
    draw.epoch = get_u64();
    draw.sample = get_u64();
    return draw;
}

static void run_steps(void)
{
    tarn__image_plan *plan = get_plan();
    size_t room = tarn__image_plan_size(plan), size;
    void *out = malloc(room);
    if (!out) exit(3);
    for (uint64_t i = get_u64(); i; i--) {
        tarn_image_draw draw = get_draw();
        void *data = get_bytes(&size);
        if (put_status(tarn__image_run(decoder, plan, data, size, draw, out, &err)))
            put_bytes(out, room);
        free(data);
    }
    free(out);
    tarn__image_plan_free(plan);
}

static void choose(void)
{
    tarn__image_plan *plan = get_plan();
    for (uint64_t i = get_u64(); i; i--) {
        tarn__image_choice c;
        tarn_image_draw draw = get_draw();
        uint32_t width = (uint32_t)get_u64(), height = (uint32_t)get_u64();
        if (!put_status(tarn__image_choose(plan, width, height, draw, &c, &err)))
            continue;
        put_u64(c.left);
        put_u64(c.top);
        put_u64(c.width);
        put_u64(c.height);
        put_u64(c.flip);
    }
    tarn__image_plan_free(plan);
}

static void run_masks(void)
{
    tarn__image_plan *plan = get_plan();
    const tarn_image_steps *steps = tarn__image_plan_steps(plan);
    size_t bytes;
    for (uint64_t i = get_u64(); i; i--) {
        tarn_image_draw draw = get_draw();
        tarn__labels labels = {.width = (uint32_t)get_u64()};
        labels.height = (uint32_t)get_u64();
        labels.size = get_u64();
        void *data = get_bytes(&bytes);
        labels.data = data;
        size_t room = (size_t)steps->width * steps->height * labels.size;
        void *out = malloc(room);
        if (!out) exit(3);
        if (put_status(tarn__mask_run(decoder, plan, &labels, draw, out, &err)))
            put_bytes(out, room);
        free(out);
        free(data);
    }
    tarn__image_plan_free(plan);
}

int main(void)
{
    int what;
    if (tarn_image_decoder_new(NULL, &decoder, &err) != TARN_OK) return 3;
    while ((what = getchar()) != EOF) {
        switch (what) {
        case 'P':
            probe();
            break;
        case 'D':
            decode();
            break;
        case 'R':
            resize();
            break;
        case 'M':
            run_masks();
            break;
        case 'U':
            decoder->upright = get_u64();
            break;
        case 'S':
            run_steps();
            break;
        case 'C':
            choose();
            break;
        default:
            return 3;
        }
    }
    tarn_image_decoder_free(decoder);
    return 0;
}
