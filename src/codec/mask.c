/* Labels that follow an image: the same part, resize and flip, with the nearest label
 * instead of a mean. The arithmetic is that of Pillow's NEAREST. */
#include <string.h>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/pixels.h"

/* The sample of each of count results from first on, if a part from start on of from
 * samples becomes full results. Pillow adds up the positions in the same way. */
static void nearest(uint32_t start, uint32_t from, uint32_t full, uint32_t first,
                    uint32_t count, uint32_t *out)
{
    double step = (double)from / full, at = step * 0.5;
    for (uint32_t i = 0; i < first + count; i++, at += step) {
        uint32_t sample = (uint32_t)at;
        if (i >= first) out[i - first] = start + (sample < from ? sample : from - 1);
    }
}

static void copy_row(const unsigned char *row, const uint32_t *columns, uint32_t width,
                     size_t size, unsigned char *out)
{
    if (size == 1)
        for (uint32_t x = 0; x < width; x++)
            out[x] = row[columns[x]];
    else
        for (uint32_t x = 0; x < width; x++)
            memcpy(out + x * size, row + columns[x] * size, size);
}

tarn_status tarn__mask_run(tarn_image_decoder *decoder, const tarn__image_plan *plan,
                           const tarn__labels *labels, tarn_image_draw draw, void *out,
                           tarn_error *err)
{
    tarn__image_choice choice;
    tarn__resize_job job = {.take = NULL};
    TARN_TRY(tarn__image_choose(plan, labels->width, labels->height, draw, &choice, err));
    TARN_TRY(tarn__image_target(plan, &choice, &job, err));
    uint64_t count = (uint64_t)job.width + job.height;
    TARN_TRY(
        tarn__scratch_need(&decoder->raw, count * sizeof(uint32_t), UINT64_MAX, err));
    uint32_t *columns = (uint32_t *)(void *)decoder->raw.data,
             *rows = columns + job.width;
    nearest(choice.left, choice.width, job.full_width, job.left, job.width, columns);
    nearest(choice.top, choice.height, job.full_height, job.top, job.height, rows);
    for (uint32_t x = 0; choice.flip && x < job.width / 2; x++) {
        uint32_t swapped = columns[x];
        columns[x] = columns[job.width - 1 - x];
        columns[job.width - 1 - x] = swapped;
    }
    size_t stride = (size_t)labels->width * labels->size;
    for (uint32_t y = 0; y < job.height; y++)
        copy_row(labels->data + rows[y] * stride, columns, job.width, labels->size,
                 (unsigned char *)out + (size_t)y * job.width * labels->size);
    return TARN_OK;
}
