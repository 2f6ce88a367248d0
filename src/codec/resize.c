/* Bilinear resizing with antialiasing: two passes of weighted sums, across and down, in
 * the arithmetic and order of Pillow 13 (22-bit weights, 8-bit samples between the
 * passes), so that the results are identical. Knows only pixels, not files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "codec/pixels.h"

#define PADDING 64u /* bytes after each row that vector loops may access */
#define MORE    24u /* additional rows in a window */

/* --- Weights -------------------------------------------------------------------- */

/* The reach of the triangle filter in samples, and the mapping from results to samples in
 * one direction. */
typedef struct span {
    double from, scale, reach;
    uint32_t samples; /* number of samples */
} span;

static span span_of(float from, float to, uint32_t full, uint32_t samples)
{
    double scale = (double)(to - from) / full;
    return (span){from, scale, scale < 1 ? 1 : scale, samples};
}

static void bounds(const span *s, uint32_t result, uint32_t *start, uint32_t *count)
{
    double centre = s->from + (result + 0.5) * s->scale;
    double low = centre - s->reach + 0.5, high = centre + s->reach + 0.5;
    *start = low < 0 ? 0 : (uint32_t)low;
    uint32_t end = high > s->samples ? s->samples : (uint32_t)high;
    /* A box at the edge, or rounding, can leave a triangle without samples. */
    if (*start >= s->samples) *start = s->samples - 1;
    *count = end > *start ? end - *start : 1;
}

static void weigh(const span *s, uint32_t result, uint32_t start, uint32_t count,
                  double *work, int32_t *out)
{
    double centre = s->from + (result + 0.5) * s->scale, sum = 0, narrow = 1 / s->reach;
    for (uint32_t i = 0; i < count; i++) {
        double x = fabs(((double)i + start - centre + 0.5) * narrow);
        work[i] = x < 1 ? 1 - x : 0;
        sum += work[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        double w = sum != 0 ? work[i] / sum : work[i];
        out[i] = (int32_t)(0.5 + w * (1 << TARN__WEIGHT_BITS));
    }
}

/* Divides one piece of memory into the tables of an axis. */
static tarn_status allocate_axis(tarn__axis *axis, tarn__scratch *scratch,
                                 double **out_work, uint64_t max, tarn_error *err)
{
    uint64_t cells = (uint64_t)axis->size * axis->taps;
    uint64_t need = cells * 8 + (uint64_t)axis->taps * 8 + (uint64_t)axis->size * 8;
    TARN_TRY(tarn__scratch_need(scratch, need, max, err));
    unsigned char *p = scratch->data;
    *out_work = (double *)p;
    p += (size_t)axis->taps * 8;
    axis->weights = (int32_t *)p;
    p += cells * 4;
    axis->high = (int16_t *)p;
    p += cells * 2;
    axis->low = (int16_t *)p;
    p += cells * 2;
    axis->start = (uint32_t *)p;
    axis->count = axis->start + axis->size;
    return TARN_OK;
}

static void set_weights(tarn__axis *axis, const span *s, uint32_t begin, double *work)
{
    size_t cells = (size_t)axis->size * axis->taps;
    memset(axis->weights, 0, cells * sizeof *axis->weights);
    axis->first = s->samples;
    axis->last = axis->most = 0;
    axis->same = s->scale == 1 && s->from == floor(s->from);
    for (uint32_t i = 0; i < axis->size; i++) {
        bounds(s, begin + i, &axis->start[i], &axis->count[i]);
        weigh(s, begin + i, axis->start[i], axis->count[i], work,
              axis->weights + (size_t)i * axis->taps);
        uint32_t end = axis->start[i] + axis->count[i];
        if (axis->start[i] < axis->first) axis->first = axis->start[i];
        if (end > axis->last) axis->last = end;
        if (axis->count[i] > axis->most) axis->most = axis->count[i];
    }
}

/* Splits the weights into the parts that vector loops use. restrict lets the compiler
 * vectorize the loop. */
static void split_weights(tarn__axis *axis, tarn__loops loops)
{
    size_t cells = (size_t)axis->size * axis->taps;
    const int32_t *restrict weights = axis->weights;
    int16_t *restrict high = axis->high, *restrict low = axis->low;
    if (loops == TARN__LOOPS_PLAIN) return;
    for (size_t i = 0; i < cells; i++) {
        high[i] = (int16_t)(weights[i] >> TARN__LOW_BITS);
        low[i] = (int16_t)(weights[i] & ((1 << TARN__LOW_BITS) - 1));
    }
}

static tarn_status make_axis(tarn__axis *axis, tarn__scratch *scratch, const span *s,
                             uint32_t begin, uint32_t size, uint64_t max, tarn_error *err)
{
    double *work;
    uint32_t most = (uint32_t)ceil(s->reach) * 2 + 1;
    axis->size = size;
    axis->taps = (most + 7) & ~7u;
    TARN_TRY(allocate_axis(axis, scratch, &work, max, err));
    set_weights(axis, s, begin, work);
    return TARN_OK;
}

/* --- Loops ---------------------------------------------------------------------- */

static unsigned char rounded(int32_t sum)
{
    int32_t v = (sum + (1 << (TARN__WEIGHT_BITS - 1))) >> TARN__WEIGHT_BITS;
    return (unsigned char)(v > 255 ? 255 : v);
}

/* line begins with sample axis->first. */
static void across(const tarn__axis *axis, const unsigned char *line, unsigned channels,
                   unsigned char *out)
{
    for (uint32_t i = 0; i < axis->size; i++) {
        const int32_t *w = axis->weights + (size_t)i * axis->taps;
        const unsigned char *p = line + (size_t)(axis->start[i] - axis->first) * channels;
        int32_t sum[4] = {0};
        for (uint32_t t = 0; t < axis->count[i]; t++)
            for (unsigned c = 0; c < channels; c++)
                sum[c] += w[t] * p[(size_t)t * channels + c];
        for (unsigned c = 0; c < channels; c++)
            *out++ = rounded(sum[c]);
    }
}

static void down(const unsigned char *rows, size_t stride, uint32_t count,
                 const int32_t *weights, size_t bytes, unsigned char *out)
{
    for (size_t x = 0; x < bytes; x++) {
        int32_t sum = 0;
        for (uint32_t t = 0; t < count; t++)
            sum += weights[t] * rows[t * stride + x];
        out[x] = rounded(sum);
    }
}

/* --- Alpha ---------------------------------------------------------------------- */

static void multiply_alpha(const unsigned char *from, unsigned char *to, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, from += 4, to += 4) {
        for (unsigned c = 0; c < 3; c++) {
            unsigned v = from[c] * from[3] + 128u;
            to[c] = (unsigned char)(((v >> 8) + v) >> 8);
        }
        to[3] = from[3];
    }
}

static void divide_alpha(unsigned char *p, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, p += 4) {
        if (p[3] == 0 || p[3] == 255) continue;
        for (unsigned c = 0; c < 3; c++) {
            unsigned v = 255u * p[c] / p[3];
            p[c] = (unsigned char)(v > 255 ? 255 : v);
        }
    }
}

/* --- Passes --------------------------------------------------------------------- */

/* Shared by the two passes of a job. */
typedef struct work {
    tarn__resizer *r;
    const tarn__resize_job *job;
    tarn__axis x, y;
    size_t line_stride, row_stride; /* of the resizer's lines and rows, TARN__ROWS each */
    uint64_t max_size;
} work;

/* Makes TARN__ROWS rows from as many lines. */
static void some_across(const work *w, const unsigned char *lines, size_t line_stride,
                        unsigned char *out, size_t stride)
{
    unsigned channels = w->job->from.channels;
    if (!w->x.same && w->r->loops != TARN__LOOPS_PLAIN) {
        tarn__across_loop *loop =
            w->r->loops == TARN__LOOPS_AVX2 ? tarn__across_avx2 : tarn__across_avx512;
        loop(&w->x, lines, line_stride, channels, out, stride);
        return;
    }
    for (unsigned i = 0; i < TARN__ROWS; i++, lines += line_stride, out += stride)
        if (w->x.same)
            memcpy(out, lines, (size_t)w->x.size * channels);
        else
            across(&w->x, lines, channels, out);
}

/* rows begins with the first row that is used. */
static void one_down(const work *w, const unsigned char *rows, size_t stride, uint32_t y,
                     size_t bytes, unsigned char *out)
{
    size_t at = (size_t)y * w->y.taps;
    if (w->y.same)
        memcpy(out, rows, bytes);
    else if (w->r->loops == TARN__LOOPS_PLAIN)
        down(rows, stride, w->y.count[y], w->y.weights + at, bytes, out);
    else if (w->r->loops == TARN__LOOPS_AVX2)
        tarn__down_avx2(rows, stride, w->y.count[y], w->y.high + at, w->y.low + at, bytes,
                        out);
    else
        tarn__down_avx512(rows, stride, w->y.count[y], w->y.high + at, w->y.low + at,
                          bytes, out);
}

static void give(const work *w, uint32_t y, unsigned char *row)
{
    if (w->job->from.channels == 4) divide_alpha(row, w->job->width);
    w->job->take(w->job->context, y, row);
}

static const unsigned char *pixel_of(const tarn__resize_job *job, uint32_t x, uint32_t y)
{
    return job->from.data + (size_t)(y - job->skip_y) * job->from.stride +
           (size_t)(x - job->skip_x) * job->from.channels;
}

/* Copies the used part of a row of the image, with padding after it. */
static void load_line(const work *w, uint32_t y, unsigned char *line)
{
    const tarn__image *from = &w->job->from;
    const unsigned char *p = pixel_of(w->job, w->x.first, y);
    if (from->channels == 4)
        multiply_alpha(p, line, w->x.last - w->x.first);
    else
        memcpy(line, p, (size_t)(w->x.last - w->x.first) * from->channels);
}

static size_t padded(size_t bytes)
{
    return (bytes + PADDING + 63) & ~(size_t)63;
}

/* Memory for rows of count bytes; *out_stride is the distance between two rows. */
static tarn_status need_rows(tarn__scratch *scratch, uint32_t count, size_t bytes,
                             uint64_t max, size_t *out_stride, tarn_error *err)
{
    uint64_t all;
    *out_stride = padded(bytes);
    if (!tarn__mul(*out_stride, count, &all)) all = UINT64_MAX;
    return tarn__scratch_need(scratch, all, max, err);
}

/* Whether lines y to y + TARN__ROWS can be read in place. The loops read past the end of
 * the last line, so another row must follow it. */
static bool can_read_there(const work *w, uint32_t y)
{
    return w->job->from.channels != 4 && w->job->from.stride >= TARN__BEHIND &&
           w->y.last - w->y.first > y + TARN__ROWS;
}

/* Makes TARN__ROWS rows from line y on; rows after the last line have undefined
 * values. */
static void next_across(const work *w, uint32_t y, unsigned char *out, size_t stride)
{
    unsigned char *lines = w->r->line.data;
    if (can_read_there(w, y)) {
        some_across(w, pixel_of(w->job, w->x.first, w->y.first + y), w->job->from.stride,
                    out, stride);
        return;
    }
    for (uint32_t i = 0; i < TARN__ROWS && y + i < w->y.last - w->y.first; i++)
        load_line(w, w->y.first + y + i, lines + i * w->line_stride);
    some_across(w, lines, w->line_stride, out, stride);
}

/* Rows after the pass across that wait for the pass down: count rows from row first
 * on. */
typedef struct window {
    unsigned char *rows;
    size_t stride;
    uint32_t first, count, room;
} window;

/* Few rows, which stay in the L1 cache: MORE rows than a result needs, so that they are
 * seldom moved to the front. */
static tarn_status open_window(const work *w, size_t bytes, window *out, tarn_error *err)
{
    *out = (window){.room = w->y.most + TARN__ROWS + MORE};
    TARN_TRY(need_rows(&w->r->rows, out->room, bytes, w->max_size, &out->stride, err));
    out->rows = w->r->rows.data;
    return TARN_OK;
}

/* Adds rows up to row end; rows before row first are no longer needed. */
static void fill_window(const work *w, window *v, uint32_t first, uint32_t end)
{
    uint32_t rows = w->y.last - w->y.first;
    while (v->first + v->count < end) {
        if (v->count + TARN__ROWS > v->room) {
            uint32_t gone = first - v->first;
            v->first += gone;
            v->count -= gone;
            memmove(v->rows, v->rows + gone * v->stride, v->count * v->stride);
        }
        uint32_t y = v->first + v->count;
        unsigned char *out = v->rows + v->count * v->stride;
        next_across(w, y, out, v->stride);
        v->count += rows - y < TARN__ROWS ? rows - y : TARN__ROWS;
    }
}

static tarn_status across_first(const work *w, tarn_error *err)
{
    size_t bytes = (size_t)w->job->width * w->job->from.channels;
    window v;
    TARN_TRY(open_window(w, bytes, &v, err));
    for (uint32_t y = 0; y < w->job->height; y++) {
        uint32_t first = w->y.start[y] - w->y.first;
        fill_window(w, &v, first, first + w->y.count[y]);
        one_down(w, v.rows + (first - v.first) * v.stride, v.stride, y, bytes,
                 w->r->row.data);
        give(w, y, w->r->row.data);
    }
    return TARN_OK;
}

static tarn_status down_first(const work *w, tarn_error *err)
{
    tarn__resizer *r = w->r;
    const tarn__image *from = &w->job->from;
    size_t bytes = (size_t)(w->x.last - w->x.first) * from->channels;
    size_t stride = from->stride;
    const unsigned char *rows = pixel_of(w->job, w->x.first, w->y.first);
    if (from->channels == 4) {
        uint32_t count = w->y.last - w->y.first;
        TARN_TRY(need_rows(&r->rows, count, bytes, w->max_size, &stride, err));
        for (uint32_t y = 0; y < count; y++)
            load_line(w, w->y.first + y, r->rows.data + y * stride);
        rows = r->rows.data;
    }
    for (uint32_t y = 0; y < w->job->height; y += TARN__ROWS) {
        uint32_t some = w->job->height - y < TARN__ROWS ? w->job->height - y : TARN__ROWS;
        for (uint32_t i = 0; i < some; i++)
            one_down(w, rows + (size_t)(w->y.start[y + i] - w->y.first) * stride, stride,
                     y + i, bytes, r->line.data + i * w->line_stride);
        some_across(w, r->line.data, w->line_stride, r->row.data, w->row_stride);
        for (uint32_t i = 0; i < some; i++)
            give(w, y + i, r->row.data + i * w->row_stride);
    }
    return TARN_OK;
}

/* Pillow's rule since version 13: true if more than twice as many rows as columns are
 * removed. Uses the whole image, not the box. */
static bool goes_down_first(const tarn__resize_job *job)
{
    int64_t columns = (int64_t)job->from.width - job->full_width;
    int64_t rows = (int64_t)job->from.height - job->full_height;
    return rows > 0 && rows > 2 * columns;
}

static bool is_copy(const tarn__resize_job *job)
{
    return job->full_width == job->from.width && job->full_height == job->from.height &&
           job->box[0] == 0 && job->box[1] == 0 &&
           job->box[2] == (float)job->from.width &&
           job->box[3] == (float)job->from.height;
}

static tarn_status check(const tarn__resize_job *job, tarn_error *err)
{
    const tarn__image *from = &job->from;
    const float *b = job->box;
    if (from->width > TARN_MAX_IMAGE_SIDE || from->height > TARN_MAX_IMAGE_SIDE ||
        job->width > TARN_MAX_IMAGE_SIDE || job->height > TARN_MAX_IMAGE_SIDE)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "resizing %u x %u pixels to %u x %u; the limit of a side is %u "
                          "(TARN_MAX_IMAGE_SIDE)",
                          from->width, from->height, job->width, job->height,
                          TARN_MAX_IMAGE_SIDE);
    if (!(b[0] >= 0 && b[1] >= 0 && b[2] > b[0] && b[3] > b[1] &&
          b[2] <= (float)from->width && b[3] <= (float)from->height))
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "the box %g, %g, %g, %g is not inside an image of %u x %u pixels",
            (double)b[0], (double)b[1], (double)b[2], (double)b[3], from->width,
            from->height);
    return TARN_OK;
}

/* The samples that the results need, from those of the first and the last result. */
static void needed_samples(const span *s, uint32_t begin, uint32_t size, uint32_t *first,
                           uint32_t *last)
{
    uint32_t count;
    bounds(s, begin + size - 1, last, &count);
    *last += count;
    bounds(s, begin, first, &count);
}

static span span_across(const tarn__resize_job *job)
{
    return span_of(job->box[0], job->box[2], job->full_width, job->from.width);
}

static span span_down(const tarn__resize_job *job)
{
    return span_of(job->box[1], job->box[3], job->full_height, job->from.height);
}

tarn_status tarn__resize_needs(const tarn__resize_job *job, tarn__area *out,
                               tarn_error *err)
{
    TARN_TRY(check(job, err));
    *out =
        (tarn__area){job->left, job->top, job->left + job->width, job->top + job->height};
    if (is_copy(job)) return TARN_OK;
    span x = span_across(job), y = span_down(job);
    needed_samples(&x, job->left, job->width, &out->left, &out->right);
    needed_samples(&y, job->top, job->height, &out->top, &out->bottom);
    return TARN_OK;
}

tarn_status tarn__resize_run(tarn__resizer *r, const tarn__resize_job *job,
                             uint64_t max_size, tarn_error *err)
{
    unsigned channels = job->from.channels;
    work w = {.r = r, .job = job, .max_size = max_size};
    TARN_TRY(check(job, err));
    if (is_copy(job)) {
        for (uint32_t y = 0; y < job->height; y++)
            job->take(job->context, y, pixel_of(job, job->left, job->top + y));
        return TARN_OK;
    }
    span x = span_across(job), y = span_down(job);
    TARN_TRY(make_axis(&w.x, &r->weights[0], &x, job->left, job->width, max_size, err));
    TARN_TRY(make_axis(&w.y, &r->weights[1], &y, job->top, job->height, max_size, err));
    split_weights(&w.x, r->loops);
    split_weights(&w.y, r->loops);
    size_t used = (size_t)(w.x.last - w.x.first) * channels;
    TARN_TRY(need_rows(&r->line, TARN__ROWS, used + 8u * channels, max_size,
                       &w.line_stride, err));
    TARN_TRY(need_rows(&r->row, TARN__ROWS, (size_t)job->width * channels, max_size,
                       &w.row_stride, err));
    memset(r->line.data, 0, TARN__ROWS * w.line_stride);
    return goes_down_first(job) ? down_first(&w, err) : across_first(&w, err);
}

void tarn__resizer_release(tarn__resizer *r)
{
    tarn__scratch_release(&r->weights[0]);
    tarn__scratch_release(&r->weights[1]);
    tarn__scratch_release(&r->line);
    tarn__scratch_release(&r->rows);
    tarn__scratch_release(&r->row);
}
