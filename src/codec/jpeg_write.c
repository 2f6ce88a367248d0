/* Writes JPEGs with libjpeg-turbo, directly into the bytes of a field. */
#include "codec/jpeg.h"

#include "base/error.h"
#include "codec/codec.h"

enum { LARGEST_SIDE = 65500, STEP = 64 << 10 };

typedef struct writing {
    struct jpeg_compress_struct jpeg;
    struct jpeg_destination_mgr target;
    tarn__jpeg_errors errors;
    tarn_bytes *out;
} writing;

/* --- Growing bytes -------------------------------------------------------------- */

static writing *of(j_compress_ptr jpeg)
{
    return jpeg->client_data;
}

static void make_room(j_compress_ptr jpeg)
{
    writing *w = of(jpeg);
    w->target.next_output_byte = tarn__bytes_extend(w->out, STEP, NULL);
    w->target.free_in_buffer = STEP;
    if (w->target.next_output_byte) return;
    w->errors.status = TARN_ERR_MEMORY;
    jpeg->err->error_exit((j_common_ptr)jpeg);
}

/* Called when the buffer is full, whatever the counters say. */
static boolean make_more_room(j_compress_ptr jpeg)
{
    make_room(jpeg);
    return TRUE;
}

static void give_rest_back(j_compress_ptr jpeg)
{
    of(jpeg)->out->size -= of(jpeg)->target.free_in_buffer;
}

/* --- Encoding ------------------------------------------------------------------- */

static void set_sampling(j_compress_ptr jpeg, tarn_subsampling wanted)
{
    if (jpeg->num_components == 1) return;
    jpeg->comp_info[0].h_samp_factor = wanted == TARN_SUBSAMPLING_444 ? 1 : 2;
    jpeg->comp_info[0].v_samp_factor =
        wanted == TARN_SUBSAMPLING_444 || wanted == TARN_SUBSAMPLING_422 ? 1 : 2;
}

static void compress(writing *w, const tarn__pixels *pixels,
                     const tarn_encode_options *options)
{
    struct jpeg_compress_struct *jpeg = &w->jpeg;
    size_t row = (size_t)pixels->width * pixels->channels;
    jpeg_create_compress(jpeg);
    jpeg->client_data = w;
    jpeg->dest = &w->target;
    jpeg->image_width = pixels->width;
    jpeg->image_height = pixels->height;
    jpeg->input_components = (int)pixels->channels;
    jpeg->in_color_space = pixels->channels == 1 ? JCS_GRAYSCALE : JCS_EXT_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, options->jpeg_quality, TRUE);
    set_sampling(jpeg, options->subsampling);
    jpeg_start_compress(jpeg, TRUE);
    for (size_t y = 0; y < pixels->height; y++) {
        JSAMPROW line =
            (JSAMPROW)(uintptr_t)((const unsigned char *)pixels->data + y * row);
        jpeg_write_scanlines(jpeg, &line, 1);
    }
    jpeg_finish_compress(jpeg);
}

tarn_status tarn__jpeg_encode(const tarn__pixels *pixels,
                              const tarn_encode_options *options, tarn_bytes *out,
                              tarn_error *err)
{
    if (options->jpeg_quality < 1 || options->jpeg_quality > 100)
        return tarn__fail(err, TARN_ERR_USAGE, "JPEG quality %d is not from 1 to 100",
                          options->jpeg_quality);
    if (pixels->width > LARGEST_SIDE || pixels->height > LARGEST_SIDE)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "JPEG: %u x %u pixels are too many; a side has at most %u",
                          pixels->width, pixels->height, LARGEST_SIDE);
    writing w = {.out = out};
    w.target.init_destination = make_room;
    w.target.empty_output_buffer = make_more_room;
    w.target.term_destination = give_rest_back;
    w.jpeg.err = tarn__jpeg_errors_init(&w.errors);
    if (setjmp(w.errors.back)) {
        jpeg_destroy_compress(&w.jpeg);
        return tarn__jpeg_failed(&w.errors, err);
    }
    compress(&w, pixels, options);
    jpeg_destroy_compress(&w.jpeg);
    return TARN_OK;
}
