/* Processes an image from its bytes to its place in a batch: chooses the part and the
 * size at which a JPEG is decoded, and flips, scales and lays out the rows that the
 * resize produces. The result depends only on the bytes, the plan and the draw. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cast.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "codec/codec.h"
#include "codec/philox.h"
#include "codec/pixels.h"

TARN__DEFINE_INIT(tarn_image_steps, TARN_IMAGE_STEPS_INIT)

enum { TRIES = 10, DRAW_PART = 0, DRAW_FLIP = 1 };

struct tarn__image_plan {
    tarn_image_steps steps;
    size_t size;           /* bytes of a result */
    float single[4][256];  /* the value of each sample */
    uint16_t half[4][256]; /* the same in half precision */
    bool planes;           /* the vector loop produces exactly the same values */
};

/* --- Plans ---------------------------------------------------------------------- */

static bool is_range(const double range[2], double most)
{
    return range[0] > 0 && range[1] >= range[0] && range[1] <= most;
}

static tarn_status check_fit(const tarn_image_steps *s, tarn_error *err)
{
    if ((unsigned)s->fit > TARN_IMAGE_FIT_RANDOM)
        return tarn__fail(err, TARN_ERR_USAGE, "fit is not a TARN_IMAGE_FIT value");
    if (s->fit == TARN_IMAGE_FIT_CENTRE && s->shorter &&
        (s->shorter < s->width || s->shorter < s->height ||
         s->shorter > TARN_MAX_IMAGE_SIDE))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "shorter is %u; it must be 0, or at least width and height and "
                          "at most %u (TARN_MAX_IMAGE_SIDE)",
                          s->shorter, TARN_MAX_IMAGE_SIDE);
    if (s->fit == TARN_IMAGE_FIT_RANDOM &&
        (!is_range(s->scale, 1) || !is_range(s->ratio, 1e6)))
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "scale and ratio must be ranges above 0, and scale must end at 1 or below");
    return TARN_OK;
}

static tarn_status check_steps(const tarn_image_steps *s, tarn_error *err)
{
    if (s->channels != 1 && s->channels != 3 && s->channels != 4)
        return tarn__fail(err, TARN_ERR_USAGE, "channels must be 1, 3 or 4");
    if (!s->width || !s->height || s->width > TARN_MAX_IMAGE_SIDE ||
        s->height > TARN_MAX_IMAGE_SIDE)
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "result of %u x %u pixels; sides must be 1 to %u (TARN_MAX_IMAGE_SIDE)",
            s->width, s->height, TARN_MAX_IMAGE_SIDE);
    if ((unsigned)s->type > TARN_IMAGE_F16 || (unsigned)s->layout > TARN_IMAGE_CHW)
        return tarn__fail(err, TARN_ERR_USAGE, "type or layout is not a known value");
    if (!(s->flip >= 0 && s->flip <= 1))
        return tarn__fail(err, TARN_ERR_USAGE, "flip must be from 0 to 1");
    if (!(s->reduce == 0 || s->reduce >= 1))
        return tarn__fail(err, TARN_ERR_USAGE, "reduce must be 0, or at least 1");
    for (unsigned c = 0; c < s->channels; c++)
        if (!isfinite(s->mean[c]) || !isfinite(s->std[c]) || s->std[c] == 0)
            return tarn__fail(err, TARN_ERR_USAGE,
                              "mean and std must be finite, and std not 0");
    return check_fit(s, err);
}

static void make_tables(tarn__image_plan *plan)
{
    const tarn_image_steps *s = &plan->steps;
    for (unsigned c = 0; c < s->channels; c++)
        for (unsigned v = 0; v < 256; v++) {
            /* Each step is rounded to single precision, as for arrays of floats. */
            float part = (float)v / 255.0f;
            float centred = part - s->mean[c];
            plan->single[c][v] = centred / s->std[c];
            plan->half[c][v] = tarn__half_from_float(plan->single[c][v]);
        }
}

/* Whether the vector loop may be used: compares its results for every possible sample. */
static bool can_use_planes(const tarn__image_plan *plan)
{
    const tarn_image_steps *s = &plan->steps;
    unsigned char row[256 * 3];
    float planes[3][256];
    if (!tarn__avx2_there() || s->channels != 3 || s->type != TARN_IMAGE_F32 ||
        s->layout != TARN_IMAGE_CHW)
        return false;
    for (size_t i = 0; i < sizeof row; i++)
        row[i] = (unsigned char)(i / 3);
    tarn__planes_avx2(row, 256, false, s->mean, s->std, planes[0], 256);
    /* A bitwise comparison is intended. */
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
    return memcmp(planes, plan->single, sizeof planes) == 0;
}

static size_t type_size(tarn_image_type type)
{
    return type == TARN_IMAGE_U8 ? 1 : type == TARN_IMAGE_F16 ? 2 : 4;
}

tarn_status tarn__image_plan_new(const tarn_image_steps *steps, tarn__image_plan **out,
                                 tarn_error *err)
{
    *out = NULL;
    TARN__OPTIONS(tarn_image_steps, s, TARN_IMAGE_STEPS_INIT, steps, err);
    TARN_TRY(check_steps(&s, err));
    tarn__image_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return tarn__fail_memory(err);
    memcpy(&plan->steps, &s, sizeof s); /* with its padding, which take_plan compares */
    plan->size = (size_t)s.width * s.height * s.channels * type_size(s.type);
    if (s.type != TARN_IMAGE_U8) make_tables(plan);
    plan->planes = can_use_planes(plan);
    *out = plan;
    return TARN_OK;
}

void tarn__image_plan_free(tarn__image_plan *plan)
{
    free(plan);
}

size_t tarn__image_plan_size(const tarn__image_plan *plan)
{
    return plan->size;
}

const tarn_image_steps *tarn__image_plan_steps(const tarn__image_plan *plan)
{
    return &plan->steps;
}

bool tarn__image_plans_agree(const tarn__image_plan *a, const tarn__image_plan *b)
{
    const tarn_image_steps *s = &a->steps, *t = &b->steps;
    bool centre = s->fit == TARN_IMAGE_FIT_CENTRE,
         random = s->fit == TARN_IMAGE_FIT_RANDOM;
    return s->width == t->width && s->height == t->height && s->fit == t->fit &&
           s->flip == t->flip && (!centre || s->shorter == t->shorter) &&
           (!random || (s->scale[0] == t->scale[0] && s->scale[1] == t->scale[1] &&
                        s->ratio[0] == t->ratio[0] && s->ratio[1] == t->ratio[1]));
}

/* --- Choices -------------------------------------------------------------------- */

static void draw_words(const tarn_image_draw *draw, uint64_t i, uint64_t what,
                       uint64_t out[4])
{
    const uint64_t key[2] = {draw->seed, draw->epoch};
    const uint64_t counter[4] = {draw->sample, i, what, 0};
    tarn__philox(key, counter, out);
}

/* A number from 0 up to but not including 1. */
static double fraction(uint64_t word)
{
    return (double)(word >> 11) * 0x1p-53;
}

static uint32_t below(uint64_t word, uint32_t limit)
{
    return (uint32_t)((unsigned __int128)word * limit >> 64);
}

static double between(uint64_t word, double low, double high)
{
    return low + (high - low) * fraction(word);
}

/* The largest part in the middle whose aspect ratio is allowed. */
static void middle_part(const tarn_image_steps *s, uint32_t width, uint32_t height,
                        tarn__image_choice *out)
{
    double shape = (double)width / height;
    double w = width, h = height;
    if (shape < s->ratio[0])
        h = rint(width / s->ratio[0]);
    else if (shape > s->ratio[1])
        w = rint(height * s->ratio[1]);
    out->width = w < 1 ? 1 : (uint32_t)w;
    out->height = h < 1 ? 1 : (uint32_t)h;
    out->left = (width - out->width) / 2;
    out->top = (height - out->height) / 2;
}

static void random_part(const tarn_image_steps *s, uint32_t width, uint32_t height,
                        const tarn_image_draw *draw, tarn__image_choice *out)
{
    double area = (double)width * height;
    double low = log(s->ratio[0]), high = log(s->ratio[1]);
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t word[4];
        draw_words(draw, i, DRAW_PART, word);
        double target = area * between(word[0], s->scale[0], s->scale[1]);
        double shape = exp(between(word[1], low, high));
        double w = rint(sqrt(target * shape)), h = rint(sqrt(target / shape));
        if (!(w > 0 && w <= width && h > 0 && h <= height)) continue;
        out->width = (uint32_t)w;
        out->height = (uint32_t)h;
        out->top = below(word[2], height - out->height + 1);
        out->left = below(word[3], width - out->width + 1);
        return;
    }
    middle_part(s, width, height, out);
}

/* The start of a centered part, halves rounded to even. */
static uint32_t middle(uint32_t whole, uint32_t part)
{
    return (uint32_t)rint((whole - part) / 2.0);
}

static tarn_status wrong_size(const tarn_image_steps *s, uint32_t width, uint32_t height,
                              const char *advice, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                      "image of %u x %u pixels, but %u x %u are wanted; %s", width,
                      height, s->width, s->height, advice);
}

tarn_status tarn__image_choose(const tarn__image_plan *plan, uint32_t width,
                               uint32_t height, tarn_image_draw draw,
                               tarn__image_choice *out, tarn_error *err)
{
    const tarn_image_steps *s = &plan->steps;
    uint64_t word[4];
    *out = (tarn__image_choice){0};
    if (!width || !height) return wrong_size(s, width, height, "it is empty", err);
    *out = (tarn__image_choice){.width = width, .height = height};
    if (s->fit == TARN_IMAGE_FIT_EXACT && (width != s->width || height != s->height))
        return wrong_size(s, width, height, "use another fit to resize it", err);
    if (s->fit == TARN_IMAGE_FIT_CENTRE && !s->shorter) {
        if (width < s->width || height < s->height)
            return wrong_size(s, width, height, "set shorter to resize it", err);
        *out = (tarn__image_choice){.left = middle(width, s->width),
                                    .top = middle(height, s->height),
                                    .width = s->width,
                                    .height = s->height};
    }
    if (s->fit == TARN_IMAGE_FIT_RANDOM) random_part(s, width, height, &draw, out);
    draw_words(&draw, 0, DRAW_FLIP, word);
    out->flip = fraction(word[0]) < s->flip;
    return TARN_OK;
}

tarn_status tarn__image_target(const tarn__image_plan *plan,
                               const tarn__image_choice *choice, tarn__resize_job *job,
                               tarn_error *err)
{
    const tarn_image_steps *s = &plan->steps;
    job->full_width = job->width = s->width;
    job->full_height = job->height = s->height;
    job->left = job->top = 0;
    if (s->fit != TARN_IMAGE_FIT_CENTRE || !s->shorter) return TARN_OK;
    bool high = choice->width <= choice->height;
    uint32_t least = high ? choice->width : choice->height;
    uint32_t most = high ? choice->height : choice->width;
    uint64_t longer = (uint64_t)((double)((uint64_t)s->shorter * most) / least);
    if (longer > INT32_MAX)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "image of %u x %u pixels: with a shorter side of %u the other "
                          "side is longer than 2^31",
                          choice->width, choice->height, s->shorter);
    job->full_width = high ? s->shorter : (uint32_t)longer;
    job->full_height = high ? (uint32_t)longer : s->shorter;
    job->left = middle(job->full_width, s->width);
    job->top = middle(job->full_height, s->height);
    return TARN_OK;
}

/* --- Rows into the result ------------------------------------------------------- */

typedef struct target {
    const tarn__image_plan *plan;
    void *out;
    bool flip;
} target;

/* Writes the samples of row y from column begin on in either layout. */
#define PUT_ROW(type, value)                                                             \
    static void put_##type(const target *t, uint32_t y, const unsigned char *row,        \
                           size_t begin)                                                 \
    {                                                                                    \
        const tarn_image_steps *s = &t->plan->steps;                                     \
        size_t width = s->width, channels = s->channels;                                 \
        bool planes = s->layout == TARN_IMAGE_CHW;                                       \
        size_t step = planes ? 1 : channels;                                             \
        for (size_t c = 0; c < channels; c++) {                                          \
            size_t at = planes ? (c * s->height + y) * width : y * width * channels + c; \
            type *out = (type *)t->out + at;                                             \
            for (size_t x = begin; x < width; x++) {                                     \
                unsigned v = row[(t->flip ? width - 1 - x : x) * channels + c];          \
                out[x * step] = (type)(value);                                           \
            }                                                                            \
        }                                                                                \
    }

PUT_ROW(uint8_t, v)
PUT_ROW(uint16_t, t->plan->half[c][v])
PUT_ROW(float, t->plan->single[c][v])
#undef PUT_ROW

static void put_row(void *context, uint32_t y, const unsigned char *row)
{
    const target *t = context;
    const tarn_image_steps *s = &t->plan->steps;
    size_t bytes = (size_t)s->width * s->channels, done = 0;
    if (t->plan->planes)
        done = tarn__planes_avx2(row, s->width, t->flip, s->mean, s->std,
                                 (float *)t->out + (size_t)y * s->width,
                                 (size_t)s->width * s->height);
    if (s->type == TARN_IMAGE_F32)
        put_float(t, y, row, done);
    else if (s->type == TARN_IMAGE_F16)
        put_uint16_t(t, y, row, 0);
    else if (!t->flip && s->layout == TARN_IMAGE_HWC)
        memcpy((unsigned char *)t->out + y * bytes, row, bytes);
    else
        put_uint8_t(t, y, row, 0);
}

/* --- Running -------------------------------------------------------------------- */

/* The factor by which a JPEG is reduced while it is decoded. */
static uint32_t reduction(const tarn_image_steps *s, const tarn_image_info *info,
                          const tarn__image_choice *choice, const tarn__resize_job *job)
{
    uint32_t by = 1;
    if (info->format != TARN_IMAGE_JPEG || s->reduce == 0) return 1;
    double width = s->reduce * job->full_width, height = s->reduce * job->full_height;
    while (by < 8 && choice->width >= 2 * by * width && choice->height >= 2 * by * height)
        by *= 2;
    return by;
}

/* The area to decode at scale 1/by, and the box in it that is exactly the part: a decoded
 * pixel covers by x by pixels of the image. */
static void set_area(const tarn__image_choice *choice, uint32_t by, tarn__area *out,
                     tarn__resize_job *job)
{
    *out = (tarn__area){choice->left / by, choice->top / by,
                        tarn__reduced(choice->left + choice->width, by),
                        tarn__reduced(choice->top + choice->height, by)};
    job->from.width = out->right - out->left;
    job->from.height = out->bottom - out->top;
    job->box[0] = (float)choice->left / (float)by - (float)out->left;
    job->box[1] = (float)choice->top / (float)by - (float)out->top;
    job->box[2] = (float)(choice->left + choice->width) / (float)by - (float)out->left;
    job->box[3] = (float)(choice->top + choice->height) / (float)by - (float)out->top;
}

/* Decodes the area of the part that the job needs. */
static tarn_status decode_part(tarn_image_decoder *decoder, const void *data, size_t size,
                               const tarn_image_info *info, uint32_t by,
                               const tarn__area *part, tarn__resize_job *job,
                               tarn_error *err)
{
    tarn__area area;
    tarn__image image = {.channels = job->from.channels};
    TARN_TRY(tarn__resize_needs(job, &area, err));
    job->skip_x = area.left;
    job->skip_y = area.top;
    area = (tarn__area){part->left + area.left, part->top + area.top,
                        part->left + area.right, part->top + area.bottom};
    TARN_TRY(tarn__image_keep_part(decoder, data, size, info, by, &area, &image, err));
    job->from.data = image.data;
    job->from.stride = image.stride;
    return TARN_OK;
}

/* Whether the decoded image is the result, so that it can be decoded directly into it. */
static bool is_plain(const tarn_image_steps *s, const tarn_image_info *info,
                     const tarn__image_choice *choice)
{
    return s->type == TARN_IMAGE_U8 && s->layout == TARN_IMAGE_HWC && !choice->flip &&
           info->width == s->width && info->height == s->height &&
           choice->width == s->width && choice->height == s->height;
}

tarn_status tarn__image_run(tarn_image_decoder *decoder, const tarn__image_plan *plan,
                            const void *data, size_t size, tarn_image_draw draw,
                            void *out, tarn_error *err)
{
    const tarn_image_steps *s = &plan->steps;
    tarn_image_info info;
    tarn__image_choice choice;
    TARN_TRY(tarn__image_open(decoder, data, size, &info, err));
    TARN_TRY(tarn__image_choose(plan, info.width, info.height, draw, &choice, err));
    decoder->width = info.width;
    decoder->height = info.height;
    target t = {plan, out, choice.flip};
    tarn__resize_job job = {.take = put_row, .context = &t};
    TARN_TRY(tarn__image_target(plan, &choice, &job, err));
    if (is_plain(s, &info, &choice) && job.full_width == s->width &&
        job.full_height == s->height) {
        tarn__image place = {out, s->width, s->height, s->channels,
                             (size_t)s->width * s->channels};
        return tarn__image_into(decoder, data, size, &info, &place, err);
    }
    tarn__area part;
    uint32_t by = reduction(s, &info, &choice, &job);
    job.from.channels = s->channels;
    tarn__image_choice shifted = choice;
    tarn__exif_shift(
        decoder->orientation, tarn__reduced(info.width, by) * by - info.width,
        tarn__reduced(info.height, by) * by - info.height, &shifted.left, &shifted.top);
    set_area(&shifted, by, &part, &job);
    TARN_TRY(decode_part(decoder, data, size, &info, by, &part, &job, err));
    return tarn__resize_run(&decoder->resizer, &job, decoder->max_size, err);
}

/* Converts decoded pixels to 8-bit samples in the decoder's memory. */
static tarn_status take_pixels(tarn_image_decoder *decoder, const tarn_array *a,
                               tarn__image *out, tarn_error *err)
{
    unsigned channels = a->ndim == 3 ? (unsigned)a->shape[2] : 1;
    size_t row = (size_t)out->width * channels;
    out->stride = (size_t)out->width * out->channels;
    TARN_TRY(tarn__scratch_need(&decoder->pixels, (uint64_t)out->stride * out->height,
                                decoder->max_size, err));
    TARN_TRY(tarn__scratch_need(&decoder->raw, row, decoder->max_size, err));
    out->data = decoder->pixels.data;
    for (uint32_t y = 0; y < out->height; y++) {
        const unsigned char *from = (const unsigned char *)a->data + y * row;
        if (a->dtype.size == 2) {
            const uint16_t *deep = (const uint16_t *)a->data + y * row;
            for (size_t i = 0; i < row; i++)
                decoder->raw.data[i] = (unsigned char)(deep[i] >> 8);
            from = decoder->raw.data;
        }
        tarn__pixels_convert(from, channels, out->data + y * out->stride, out->channels,
                             out->width);
    }
    return TARN_OK;
}

tarn_status tarn__image_run_pixels(tarn_image_decoder *decoder,
                                   const tarn__image_plan *plan, const tarn_array *pixels,
                                   tarn_image_draw draw, void *out, tarn_error *err)
{
    tarn__image all = {.width = (uint32_t)pixels->shape[1],
                       .height = (uint32_t)pixels->shape[0],
                       .channels = plan->steps.channels};
    tarn__image_choice choice;
    tarn__area part;
    TARN_TRY(tarn__image_choose(plan, all.width, all.height, draw, &choice, err));
    target t = {plan, out, choice.flip};
    tarn__resize_job job = {.take = put_row, .context = &t};
    TARN_TRY(tarn__image_target(plan, &choice, &job, err));
    TARN_TRY(take_pixels(decoder, pixels, &all, err));
    set_area(&choice, 1, &part, &job);
    job.from.channels = all.channels;
    job.from.stride = all.stride;
    job.from.data = all.data + part.top * all.stride + (size_t)part.left * all.channels;
    decoder->width = all.width;
    decoder->height = all.height;
    return tarn__resize_run(&decoder->resizer, &job, decoder->max_size, err);
}

/* The plan of the steps; reuses that of the last call if the steps are equal byte by
 * byte. */
static tarn_status take_plan(tarn_image_decoder *decoder, const tarn_image_steps *steps,
                             tarn_error *err)
{
    tarn__image_plan *plan;
    if (decoder->plan && steps->size == sizeof *steps &&
        memcmp(&decoder->plan->steps, steps, sizeof *steps) == 0)
        return TARN_OK;
    TARN_TRY(tarn__image_plan_new(steps, &plan, err));
    tarn__image_plan_free(decoder->plan);
    decoder->plan = plan;
    return TARN_OK;
}

tarn_status tarn_image_run(tarn_image_decoder *decoder, const tarn_image_steps *steps,
                           const void *data, size_t size, tarn_image_draw draw, void *out,
                           size_t capacity, tarn_error *err)
{
    TARN__NEED(err, "decoder", decoder);
    TARN__NEED(err, "steps", steps);
    TARN__NEED(err, "data", data || !size);
    TARN__NEED(err, "out", out);
    TARN_TRY(take_plan(decoder, steps, err));
    if (capacity < decoder->plan->size)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "the result has %zu bytes, but the buffer has %zu",
                          decoder->plan->size, capacity);
    return tarn__image_run(decoder, decoder->plan, data, size, draw, out, err);
}
