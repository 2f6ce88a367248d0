/* Decoders, plans and steps: memory, limits, threads, and the draws.
 * tests/interop/test_image.py compares the results with Pillow. */
#include "support.h"

#include <math.h>

#include "../images.h"
#include "base/pool.h"
#include "codec/philox.h"
#include "codec/pixels.h"

static tarn_error err;

/* --- Helpers -------------------------------------------------------------------- */

/* An image of waves, encoded with the codec of a field name. */
static tarn_bytes make_image(const char *field, uint32_t width, uint32_t height,
                             unsigned channels)
{
    tarn_bytes out = TARN_BYTES_INIT;
    unsigned char *pixels = malloc((size_t)width * height * channels);
    assert_non_null(pixels);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (unsigned c = 0; c < channels; c++)
                pixels[((size_t)y * width + x) * channels + c] =
                    (unsigned char)(128 + 100 * sin((x + 3 * y) / (7.0 + c)));
    tarn_array array = {.data = pixels,
                        .dtype = {'|', 'u', 1},
                        .ndim = 3,
                        .shape = {height, width, channels},
                        .strides = {(int64_t)width * channels, channels, 1}};
    tarn_value value = value_array(&array);
    OK(tarn_encode(field, &value, NULL, &out, &err));
    free(pixels);
    return out;
}

static tarn_image_decoder *make_decoder(void)
{
    tarn_image_decoder *decoder;
    OK(tarn_image_decoder_new(NULL, &decoder, &err));
    return decoder;
}

static tarn_image_steps random_steps(void)
{
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    steps.width = 48;
    steps.height = 40;
    steps.fit = TARN_IMAGE_FIT_RANDOM;
    steps.flip = 0.5;
    steps.type = TARN_IMAGE_F32;
    steps.layout = TARN_IMAGE_CHW;
    return steps;
}

static tarn__image_plan *make_plan(const tarn_image_steps *steps)
{
    tarn__image_plan *plan;
    OK(tarn__image_plan_new(steps, &plan, &err));
    return plan;
}

/* --- Draws ---------------------------------------------------------------------- */

/* The test vectors published with the generator. */
static void philox_gives_the_published_words(void **state)
{
    (void)state;
    const uint64_t ones = UINT64_MAX;
    const struct {
        uint64_t key[2], counter[4], want[4];
    } vectors[] = {
        {{0, 0},
         {0, 0, 0, 0},
         {0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b,
          0x7e68b68aec7ba23b}},
        {{ones, ones},
         {ones, ones, ones, ones},
         {0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6,
          0xa09caebf594f0ba0}},
        {{0x452821e638d01377, 0xbe5466cf34e90c6c},
         {0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89},
         {0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5,
          0x57bd43b5e52b7fe6}}};
    for (size_t i = 0; i < 3; i++) {
        uint64_t got[4];
        tarn__philox(vectors[i].key, vectors[i].counter, got);
        assert_memory_equal(got, vectors[i].want, sizeof got);
    }
}

static void a_choice_depends_on_all_of_the_draw(void **state)
{
    (void)state;
    tarn_image_steps steps = random_steps();
    tarn__image_plan *plan = make_plan(&steps);
    tarn__image_choice base, other;
    const tarn_image_draw draws[] = {{2, 2, 3}, {1, 3, 3}, {1, 2, 4}};
    OK(tarn__image_choose(plan, 4000, 3000, (tarn_image_draw){1, 2, 3}, &base, &err));
    for (size_t i = 0; i < 3; i++) {
        OK(tarn__image_choose(plan, 4000, 3000, draws[i], &other, &err));
        assert_true(other.left != base.left || other.top != base.top);
    }
    OK(tarn__image_choose(plan, 4000, 3000, (tarn_image_draw){1, 2, 3}, &other, &err));
    assert_memory_equal(&base, &other, sizeof base);
    FAILS(TARN_ERR_UNSUPPORTED, "empty",
          tarn__image_choose(plan, 0, 5, draws[0], &other, &err));
    tarn__image_plan_free(plan);
}

/* --- Plans ---------------------------------------------------------------------- */

static void refuse(const tarn_image_steps *steps, const char *part)
{
    tarn__image_plan *plan = (void *)1;
    FAILS(TARN_ERR_USAGE, part, tarn__image_plan_new(steps, &plan, &err));
    assert_null(plan);
}

static void plans_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const tarn_image_steps good = random_steps();
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    refuse(&s, "0 x 0");
#define REFUSE(change, part)                                                             \
    do {                                                                                 \
        s = good;                                                                        \
        change;                                                                          \
        refuse(&s, part);                                                                \
    } while (0)
    REFUSE(s.width = TARN_MAX_IMAGE_SIDE + 1, "TARN_MAX_IMAGE_SIDE");
    REFUSE(s.channels = 2, "channels");
    REFUSE(s.fit = (tarn_image_fit)9, "fit");
    REFUSE(s.type = (tarn_image_type)9, "type");
    REFUSE(s.layout = (tarn_image_layout)9, "layout");
    REFUSE(s.flip = NAN, "flip");
    REFUSE(s.flip = 1.5, "flip");
    REFUSE(s.reduce = 0.5, "reduce");
    REFUSE(s.reduce = NAN, "reduce");
    REFUSE(s.std[2] = 0, "std");
    REFUSE(s.mean[0] = INFINITY, "mean");
    REFUSE(s.scale[0] = 0, "scale");
    REFUSE(s.scale[1] = 1.1, "scale");
    REFUSE(s.ratio[0] = 2, "ratio");
    REFUSE((s.fit = TARN_IMAGE_FIT_CENTRE, s.shorter = 47), "shorter");
    REFUSE(s.size = 1, "initialiser");
#undef REFUSE
    s = good;
    s.std[3] = 0; /* of a missing channel */
    tarn__image_plan *plan = make_plan(&s);
    assert_int_equal(tarn__image_plan_size(plan), 48 * 40 * 3 * 4);
    tarn__image_plan_free(plan);
}

/* --- Decoding ------------------------------------------------------------------- */

static void decoding_fills_the_callers_memory_and_no_more(void **state)
{
    (void)state;
    tarn_image_decoder *decoder = make_decoder();
    const char *const fields[] = {"jpg", "png", "webp", "ppm", "jxl"};
    for (size_t f = 0; f < 5; f++) {
        tarn_bytes file = make_image(fields[f], 37, 21, 3);
        for (unsigned channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
            tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
            tarn__image own = {0};
            size_t size = (size_t)37 * 21 * channels;
            unsigned char *out = malloc(size + 5);
            s.width = 37;
            s.height = 21;
            s.channels = channels;
            memset(out, 0xa5, size + 5);
            FAILS(TARN_ERR_LIMIT, "the buffer has",
                  tarn_image_run(decoder, &s, file.data, file.size, (tarn_image_draw){0},
                                 out, size - 1, &err));
            assert_int_equal(out[0], 0xa5);
            OK(tarn_image_run(decoder, &s, file.data, file.size, (tarn_image_draw){0},
                              out, size, &err));
            OK(image_decode(decoder, file.data, file.size, channels, NULL, &own, &err));
            assert_memory_equal(own.data, out, size);
            for (size_t i = 0; i < 5; i++)
                assert_int_equal(out[size + i], 0xa5);
            free(out);
        }
        tarn_bytes_release(&file);
    }
    tarn_image_decoder_free(decoder);
}

/* A decoder keeps the tables of the last steps. */
static void other_steps_are_other_results(void **state)
{
    (void)state;
    tarn_image_decoder *decoder = make_decoder();
    tarn_image_steps s = random_steps(), t = s;
    tarn_bytes file = make_image("jpg", 90, 70, 3);
    size_t size = (size_t)48 * 40 * 3 * 4;
    float *one = malloc(size), *two = malloc(size), *again = malloc(size);
    tarn_image_draw draw = {1, 2, 3};
    t.mean[1] = 0.5f;
    OK(tarn_image_run(decoder, &s, file.data, file.size, draw, one, size, &err));
    OK(tarn_image_run(decoder, &t, file.data, file.size, draw, two, size, &err));
    OK(tarn_image_run(decoder, &s, file.data, file.size, draw, again, size, &err));
    assert_memory_equal(one, again, size);
    assert_memory_equal(one, two, size / 3);
    assert_memory_not_equal(one + 48 * 40, two + 48 * 40, size / 3);
    t.flip = 2;
    FAILS(TARN_ERR_USAGE, "flip",
          tarn_image_run(decoder, &t, file.data, file.size, draw, two, size, &err));
    free(one);
    free(two);
    free(again);
    tarn_bytes_release(&file);
    tarn_image_decoder_free(decoder);
}

static void limits_hold_before_memory_is_taken(void **state)
{
    (void)state;
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    tarn_image_decoder *decoder;
    tarn_image_info info;
    tarn__image image = {0};
    tarn_bytes file = make_image("png", 100, 50, 3);
    o.max_pixels = 4999;
    OK(tarn_image_decoder_new(&o, &decoder, &err));
    FAILS(TARN_ERR_LIMIT, "max_pixels",
          image_decode(decoder, file.data, file.size, 0, NULL, &image, &err));
    OK(tarn_image_probe(decoder, file.data, file.size, &info, sizeof info, &err));
    assert_int_equal(info.width, 100);
    assert_int_equal(info.channels, 3);
    tarn_image_decoder_free(decoder);
    o.max_pixels = 5000;
    o.max_size = 14999;
    OK(tarn_image_decoder_new(&o, &decoder, &err));
    FAILS(TARN_ERR_LIMIT, "max_size",
          image_decode(decoder, file.data, file.size, 0, NULL, &image, &err));
    assert_null(decoder->pixels.data);
    FAILS(TARN_ERR_FORMAT, "not a JPEG",
          image_decode(decoder, "", 0, 0, NULL, &image, &err));
    tarn_image_decoder_free(decoder);
    tarn_image_decoder_free(NULL);
    tarn_bytes_release(&file);
}

static void a_bad_image_leaves_the_decoder_as_good_as_new(void **state)
{
    (void)state;
    tarn_image_decoder *decoder = make_decoder(), *fresh = make_decoder();
    tarn_image_steps steps = random_steps();
    tarn__image_plan *plan = make_plan(&steps);
    tarn_image_draw draw = {1, 2, 3};
    size_t size = tarn__image_plan_size(plan);
    void *one = malloc(size), *two = malloc(size);
    const char *const fields[] = {"jpg", "png", "webp", "ppm", "jxl"};
    for (size_t f = 0; f < 5; f++) {
        tarn_bytes file = make_image(fields[f], 90, 70, 3);
        for (size_t cut = 0; cut + 40 < file.size; cut += file.size / 23 + 1)
            assert_int_not_equal(
                tarn__image_run(decoder, plan, file.data, cut, draw, one, NULL), TARN_OK);
        OK(tarn__image_run(decoder, plan, file.data, file.size, draw, one, &err));
        OK(tarn__image_run(fresh, plan, file.data, file.size, draw, two, &err));
        assert_memory_equal(one, two, size);
        tarn_bytes_release(&file);
    }
    free(one);
    free(two);
    tarn__image_plan_free(plan);
    tarn_image_decoder_free(decoder);
    tarn_image_decoder_free(fresh);
}

static void buffers_are_used_again_and_large_ones_given_back(void **state)
{
    (void)state;
    tarn__scratch scratch = {0};
    OK(tarn__scratch_need(&scratch, 1000, 2000, &err));
    const void *was = scratch.data;
    assert_int_equal((uintptr_t)was % 64, 0);
    OK(tarn__scratch_need(&scratch, 1, 2000, &err));
    assert_ptr_equal(scratch.data, was);
    FAILS(TARN_ERR_LIMIT, "max_size", tarn__scratch_need(&scratch, 2001, 2000, &err));
    OK(tarn__scratch_need(&scratch, 100u << 20, UINT64_MAX, &err));
    OK(tarn__scratch_need(&scratch, 90u << 20, UINT64_MAX, &err));
    assert_true(scratch.capacity >= 100u << 20);
    OK(tarn__scratch_need(&scratch, 1000, UINT64_MAX, &err));
    assert_true(scratch.capacity < 1u << 20);
    tarn__scratch_release(&scratch);
}

/* The decoder's memory, unchanged. */
static void memory_of(const tarn_image_decoder *d, const void *out[7])
{
    const tarn__scratch *all[] = {&d->pixels,
                                  &d->raw,
                                  &d->resizer.weights[0],
                                  &d->resizer.weights[1],
                                  &d->resizer.line,
                                  &d->resizer.rows,
                                  &d->resizer.row};
    for (size_t i = 0; i < 7; i++)
        out[i] = all[i]->data;
}

static void images_that_were_there_before_need_no_new_memory(void **state)
{
    (void)state;
    tarn_image_decoder *decoder = make_decoder();
    tarn_image_steps steps = random_steps();
    steps.channels = 1; /* so that a WebP needs both buffers of pixels */
    tarn__image_plan *plan = make_plan(&steps);
    tarn_bytes files[] = {make_image("jpg", 300, 200, 3), make_image("webp", 90, 300, 3)};
    void *out = malloc(tarn__image_plan_size(plan));
    const void *first[7], *later[7];
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 40; i++)
            OK(tarn__image_run(decoder, plan, files[i % 2].data, files[i % 2].size,
                               (tarn_image_draw){1, 0, i}, out, &err));
        memory_of(decoder, round ? later : first);
        for (size_t i = 0; i < 7; i++)
            assert_non_null(first[i]);
        if (round) assert_memory_equal(first, later, sizeof first);
    }
    free(out);
    tarn_bytes_release(&files[0]);
    tarn_bytes_release(&files[1]);
    tarn__image_plan_free(plan);
    tarn_image_decoder_free(decoder);
}

/* --- Resizing ------------------------------------------------------------------- */

static void fill_noise(unsigned char *p, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (unsigned char)(seed >> 24);
    }
}

/* In memory that ends where the image ends. */
static tarn__image noise(uint32_t width, uint32_t height, unsigned channels,
                         uint32_t seed)
{
    tarn__image image = {NULL, width, height, channels, (size_t)width * channels};
    image.data = malloc(image.stride * height);
    assert_non_null(image.data);
    fill_noise(image.data, image.stride * height, seed);
    return image;
}

static void vector_loops_give_what_the_plain_ones_give(void **state)
{
    (void)state;
    tarn_image_decoder *plain = make_decoder(), *fast = make_decoder();
    uint32_t seed = 1;
    const tarn__loops best = fast->resizer.loops;
    plain->resizer.loops = TARN__LOOPS_PLAIN;
    for (unsigned i = 0; i < 600; i++) {
        uint32_t side[4];
        for (unsigned k = 0; k < 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            side[k] = 1 + (seed >> 16) % (i % 10 == 0 ? 700 : 60);
        }
        unsigned channels = (unsigned[]){1, 3, 4}[i % 3];
        tarn__image from = noise(side[0], side[1], channels, i);
        tarn__image one = noise(side[2], side[3], channels, 1);
        tarn__image two = noise(side[2], side[3], channels, 2);
        OK(image_resize(plain, &from, NULL, &one, &err));
        for (unsigned loops = TARN__LOOPS_AVX2; loops <= best; loops++) {
            fast->resizer.loops = (tarn__loops)loops;
            fill_noise(two.data, two.stride * two.height, i);
            OK(image_resize(fast, &from, NULL, &two, &err));
            assert_memory_equal(one.data, two.data, one.stride * one.height);
        }
        free(from.data);
        free(one.data);
        free(two.data);
    }
    tarn_image_decoder_free(plain);
    tarn_image_decoder_free(fast);
}

static void resizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    tarn_image_decoder *decoder = make_decoder();
    tarn__image from = noise(8, 8, 3, 1), to = noise(4, 4, 3, 2), bad = from;
    const float boxes[][4] = {{-1, 0, 8, 8}, {0, 0, 9, 8},   {4, 0, 4, 8},
                              {0, 5, 8, 4},  {NAN, 0, 8, 8}, {0, 0, 8, INFINITY}};
    for (size_t i = 0; i < 6; i++)
        FAILS(TARN_ERR_USAGE, "box", image_resize(decoder, &from, boxes[i], &to, &err));
    bad.width = TARN_MAX_IMAGE_SIDE + 1;
    bad.stride = 3 * (size_t)bad.width;
    FAILS(TARN_ERR_LIMIT, "TARN_MAX_IMAGE_SIDE",
          image_resize(decoder, &bad, NULL, &to, &err));
    free(from.data);
    free(to.data);
    tarn_image_decoder_free(decoder);
}

/* --- Threads -------------------------------------------------------------------- */

enum { IMAGES = 24, MOST_THREADS = 8 };

typedef struct crowd {
    const tarn__image_plan *plan;
    const tarn_bytes *files;
    unsigned char *out;
} crowd;

static tarn_status run_one(void *context, size_t number)
{
    crowd *c = context;
    tarn_image_decoder *decoder;
    size_t size = tarn__image_plan_size(c->plan);
    tarn_image_draw draw = {5, number / 8, number};
    TARN_TRY(tarn_image_decoder_new(NULL, &decoder, NULL));
    /* Images of other threads first, so that the decoder's history differs between runs.
     */
    for (size_t i = 0; i <= number % 3; i++)
        TARN_TRY(tarn__image_run(decoder, c->plan, c->files[i].data, c->files[i].size,
                                 draw, c->out + number * size, NULL));
    const tarn_bytes *file = &c->files[number % 5];
    tarn_status status = tarn__image_run(decoder, c->plan, file->data, file->size, draw,
                                         c->out + number * size, NULL);
    tarn_image_decoder_free(decoder);
    return status;
}

static void results_are_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    tarn_image_steps steps = random_steps();
    tarn__image_plan *plan = make_plan(&steps);
    tarn_bytes files[] = {make_image("jpg", 300, 200, 3), make_image("png", 90, 120, 3),
                          make_image("webp", 64, 64, 3), make_image("ppm", 50, 41, 3),
                          make_image("jxl", 40, 60, 3)};
    size_t size = IMAGES * tarn__image_plan_size(plan), failed;
    unsigned char *first = malloc(size), *again = malloc(size);
    crowd c = {plan, files, first};
    OK(tarn__parallel(0, IMAGES, run_one, &c, &failed));
    for (unsigned threads = 2; threads <= MOST_THREADS; threads *= 2) {
        c.out = again;
        memset(again, 0xa5, size);
        OK(tarn__parallel(threads, IMAGES, run_one, &c, &failed));
        assert_memory_equal(first, again, size);
    }
    for (size_t i = 0; i < 5; i++)
        tarn_bytes_release(&files[i]);
    free(first);
    free(again);
    tarn__image_plan_free(plan);
}

/* --- Fits ----------------------------------------------------------------------- */

static void an_image_of_the_right_size_needs_no_memory_of_the_decoder(void **state)
{
    (void)state;
    tarn_image_decoder *decoder = make_decoder();
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    tarn_bytes file = make_image("jpg", 64, 48, 3), other = make_image("jpg", 64, 47, 3);
    s.width = 64;
    s.height = 48;
    s.fit = TARN_IMAGE_FIT_EXACT;
    tarn__image_plan *plan = make_plan(&s);
    unsigned char *out = malloc(tarn__image_plan_size(plan));
    tarn_image_draw draw = {0, 0, 0};
    tarn__image own = {0};
    OK(tarn__image_run(decoder, plan, file.data, file.size, draw, out, &err));
    assert_null(decoder->pixels.data);
    OK(image_decode(decoder, file.data, file.size, 0, NULL, &own, &err));
    assert_memory_equal(own.data, out, tarn__image_plan_size(plan));
    FAILS(TARN_ERR_UNSUPPORTED, "64 x 47 pixels, but 64 x 48",
          tarn__image_run(decoder, plan, other.data, other.size, draw, out, &err));
    free(out);
    tarn__image_plan_free(plan);
    tarn_bytes_release(&file);
    tarn_bytes_release(&other);
    tarn_image_decoder_free(decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_words),
        cmocka_unit_test(a_choice_depends_on_all_of_the_draw),
        cmocka_unit_test(plans_that_cannot_be_are_refused),
        cmocka_unit_test(decoding_fills_the_callers_memory_and_no_more),
        cmocka_unit_test(other_steps_are_other_results),
        cmocka_unit_test(limits_hold_before_memory_is_taken),
        cmocka_unit_test(a_bad_image_leaves_the_decoder_as_good_as_new),
        cmocka_unit_test(buffers_are_used_again_and_large_ones_given_back),
        cmocka_unit_test(images_that_were_there_before_need_no_new_memory),
        cmocka_unit_test(vector_loops_give_what_the_plain_ones_give),
        cmocka_unit_test(resizes_that_cannot_be_are_refused),
        cmocka_unit_test(results_are_the_same_for_any_number_of_threads),
        cmocka_unit_test(an_image_of_the_right_size_needs_no_memory_of_the_decoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
