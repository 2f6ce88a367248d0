/* Whole images decoded and resized, as the steps do it with parts of them. */
#ifndef TARN_TESTS_IMAGES_H
#define TARN_TESTS_IMAGES_H

#include <string.h>

#include "codec/pixels.h"

/* Into the decoder's memory, until its next use. Channels may be 0: as many as the image
 * has. A JPEG comes at 1/2, 1/4 or 1/8 as long as it is at least that wide and high, if
 * one of least is not 0. */
static inline tarn_status image_decode(tarn_image_decoder *decoder, const void *data,
                                       size_t size, unsigned channels,
                                       const uint32_t least[2], tarn__image *out,
                                       tarn_error *err)
{
    tarn_image_info info;
    uint32_t by = 1;
    TARN_TRY(tarn__image_open(decoder, data, size, &info, err));
    if (info.format == TARN_IMAGE_JPEG && least && (least[0] || least[1]))
        while (by < 8 && tarn__reduced(info.width, 2 * by) >= least[0] &&
               tarn__reduced(info.height, 2 * by) >= least[1])
            by *= 2;
    tarn__area all = {0, 0, tarn__reduced(info.width, by),
                      tarn__reduced(info.height, by)};
    out->channels = channels ? channels : info.channels;
    return tarn__image_keep_part(decoder, data, size, &info, by, &all, out, err);
}

static inline void image_copy_row(void *context, uint32_t y, const unsigned char *row)
{
    const tarn__image *to = context;
    memcpy(to->data + y * to->stride, row, (size_t)to->width * to->channels);
}

/* Fills to; box is left, top, right, bottom, or NULL for all of from. */
static inline tarn_status image_resize(tarn_image_decoder *decoder,
                                       const tarn__image *from, const float *box,
                                       const tarn__image *to, tarn_error *err)
{
    tarn__image target = *to;
    tarn__resize_job job = {.from = *from,
                            .box = {0, 0, (float)from->width, (float)from->height},
                            .full_width = to->width,
                            .full_height = to->height,
                            .width = to->width,
                            .height = to->height,
                            .take = image_copy_row,
                            .context = &target};
    if (box) memcpy(job.box, box, sizeof job.box);
    return tarn__resize_run(&decoder->resizer, &job, decoder->max_size, err);
}

#endif
