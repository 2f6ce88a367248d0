/* What the families of codecs share, and their calls for the table. A family knows
 * nothing of the others or of field names: the table chooses. */
#ifndef TARN_CODEC_CODEC_H
#define TARN_CODEC_CODEC_H

#include <tarn/codec.h>
#include <tarn/image.h>

#include "base/buf.h"

/* --- Help for families ---------------------------------------------------------- */

/* Appends a copy. */
TARN_CHECKED tarn_status tarn__bytes_add(tarn_bytes *bytes, const void *data, size_t len,
                                         tarn_error *err);

/* Appends room for n bytes and returns it, or NULL when memory is short. */
unsigned char *tarn__bytes_extend(tarn_bytes *bytes, size_t n, tarn_error *err);

/* The bytes as a buffer, to be given back with tarn__bytes_take whatever happened. */
tarn__buf tarn__bytes_lend(tarn_bytes *bytes);
void tarn__bytes_take(tarn_bytes *bytes, const tarn__buf *buf);

/* The failure of a value of the wrong kind: "a field .npy takes an array, not text". */
tarn_status tarn__wrong_value(tarn_error *err, const char *extension, const char *wanted,
                              const tarn_value *value);

/* The only array of a value, or NULL. */
const tarn_array *tarn__one_array(const tarn_value *value);

/* The elements packed, little-endian; *out_copy is to be freed, and NULL where the array
 * itself will do. */
TARN_CHECKED tarn_status tarn__array_native(const tarn_array *array, const void **out,
                                            void **out_copy, tarn_error *err);

/* Makes value one array with fresh memory behind it, at most max_size bytes. */
TARN_CHECKED tarn_status tarn__value_make_array(tarn_value *value, tarn_dtype dtype,
                                                unsigned ndim, const uint64_t *shape,
                                                uint64_t max_size, tarn_error *err);

/* Makes value one array that is described by array and whose memory is someone else's. */
TARN_CHECKED tarn_status tarn__value_borrow_array(tarn_value *value,
                                                  const tarn_array *array,
                                                  tarn_error *err);

/* Gives a value the memory that it points into, which is freed with it; also on failure,
 * when the value is released. */
TARN_CHECKED tarn_status tarn__value_own(tarn_value *value, void *data, tarn_error *err);

/* Makes value a list of arrays that takes over what each of them owned, and the memory
 * of items and names. On failure all is released. */
TARN_CHECKED tarn_status tarn__value_gather(tarn_value *value, tarn_value *items,
                                            char **names, size_t count, tarn_error *err);

/* Like tarn_value_release for the pieces of a gather that failed. */
void tarn__values_free(tarn_value *items, char **names, size_t count);

/* Zeroed memory for count items of size bytes that came from outside. */
TARN_CHECKED tarn_status tarn__alloc_items(size_t count, size_t size, void *out,
                                           tarn_error *err);

#define TARN__DTYPE(order, kind, size) ((tarn_dtype){(order), (kind), (size)})
#define TARN__U1                       TARN__DTYPE('|', 'u', 1)

/* What a field's name stands for, for those who decode many. */
typedef enum tarn__codec_class {
    TARN__CODEC_NONE,   /* bytes; also lists of arrays, which no batch has room for */
    TARN__CODEC_NUMBER, /* the built-in ones, not compressed: numbers */
    TARN__CODEC_NPY,
    TARN__CODEC_IMAGE, /* JPEG, PNG, WebP, PPM */
    TARN__CODEC_OTHER  /* ask tarn_decode */
} tarn__codec_class;

tarn__codec_class tarn__codec_class_of(const char *field);

/* --- Images --------------------------------------------------------------------- */

/* Pixels, rows one after the other, channels interleaved; 16-bit samples are native. */
typedef struct tarn__pixels {
    const void *data;
    uint32_t width, height;
    unsigned channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    unsigned bits;     /* 8 or 16 */
} tarn__pixels;

TARN_CHECKED tarn_status tarn__png_encode(const tarn__pixels *pixels,
                                          const tarn_encode_options *options,
                                          tarn_bytes *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__jpeg_encode(const tarn__pixels *pixels,
                                           const tarn_encode_options *options,
                                           tarn_bytes *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__webp_encode(const tarn__pixels *pixels,
                                           const tarn_encode_options *options,
                                           tarn_bytes *out, tarn_error *err);

/* Makes value an array [height, width] or [height, width, channels]. */
TARN_CHECKED tarn_status tarn__pixels_make(tarn_value *value, uint32_t width,
                                           uint32_t height, unsigned channels,
                                           unsigned bits,
                                           const tarn_decode_options *options,
                                           tarn_error *err);

/* As many channels as there are, and samples of 16 bits where the file has them. */
TARN_CHECKED tarn_status tarn__png_decode(const void *data, size_t size,
                                          const tarn_decode_options *options,
                                          tarn_value *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__ppm_decode(const void *data, size_t size,
                                          const tarn_decode_options *options,
                                          tarn_value *out, tarn_error *err);

/* --- Images into memory --------------------------------------------------------- */

/* Pixels of 8-bit samples, channels interleaved: 1 grey, 3 RGB, 4 RGBA. */
typedef struct tarn__image {
    unsigned char *data;
    uint32_t width, height;
    unsigned channels;
    size_t stride; /* bytes from one row to the next */
} tarn__image;

/* What the first bytes are, or 0. */
tarn_image_format tarn__image_format(const void *data, size_t size);

/* Each head fills in all of the info. An into writes 8-bit samples to out, whose members
 * are all set: width and height are the image's, for JPEG or a scaled size of it;
 * channels are 1, 3 or 4 for JPEG, 3 or 4 for WebP, the info's for PPM, and for PNG what
 * tarn__png_channels says. The rows of PPM lie one after the other. */
typedef struct tarn__jpeg tarn__jpeg;
tarn__jpeg *tarn__jpeg_new(void); /* NULL when memory is short */
void tarn__jpeg_free(tarn__jpeg *jpeg);
/* Good for one into or one part, with the same data still there. */
TARN_CHECKED tarn_status tarn__jpeg_head(tarn__jpeg *jpeg, const void *data, size_t size,
                                         tarn_image_info *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__jpeg_into(tarn__jpeg *jpeg, const tarn__image *out,
                                         tarn_error *err);

/* Columns [left, right) of rows [top, bottom). */
typedef struct tarn__area {
    uint32_t left, top, right, bottom;
} tarn__area;

/* A side at 1/by, as JPEGs are decoded. */
static inline uint32_t tarn__reduced(uint32_t side, uint32_t by)
{
    return side / by + (side % by != 0);
}

/* A part of the image at 1/by, the same pixels as in the whole. It may get some more
 * columns on either side; then rows are written to out, as wide, which has room for one
 * more. */
TARN_CHECKED tarn_status tarn__jpeg_begin_part(tarn__jpeg *jpeg, unsigned channels,
                                               uint32_t by, tarn__area *area,
                                               tarn_error *err);
TARN_CHECKED tarn_status tarn__jpeg_read_part(tarn__jpeg *jpeg, const tarn__area *area,
                                              const tarn__image *out, tarn_error *err);

/* Keeps what it needs between images. A head is good for one into, with the same data
 * still there; buffer sizes are at most max_size. */
typedef struct tarn__png tarn__png;
tarn__png *tarn__png_new(void); /* NULL when memory is short */
void tarn__png_free(tarn__png *png);
TARN_CHECKED tarn_status tarn__png_head(tarn__png *png, const void *data, size_t size,
                                        tarn_image_info *out, tarn_error *err);
/* What it can give on the way to 1, 3 or 4 channels. */
unsigned tarn__png_channels(const tarn__png *png, unsigned wanted);
TARN_CHECKED tarn_status tarn__png_into(tarn__png *png, const tarn__image *out,
                                        uint64_t max_size, tarn_error *err);

TARN_CHECKED tarn_status tarn__webp_head(const void *data, size_t size,
                                         tarn_image_info *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__webp_into(const void *data, size_t size,
                                         const tarn__image *out, tarn_error *err);

TARN_CHECKED tarn_status tarn__ppm_head(const void *data, size_t size,
                                        tarn_image_info *out, size_t *out_at,
                                        bool *out_deep, tarn_error *err);
TARN_CHECKED tarn_status tarn__ppm_into(const void *data, size_t size,
                                        const tarn__image *out, tarn_error *err);

/* 1, 3 or 4 channels of 1 or 3, or the same. */
void tarn__pixels_convert(const unsigned char *from, unsigned have, unsigned char *to,
                          unsigned want, uint64_t count);

/* --- Compression ---------------------------------------------------------------- */

typedef enum tarn__squeeze { TARN__PLAIN, TARN__GZIP, TARN__ZSTD } tarn__squeeze;

TARN_CHECKED tarn_status tarn__squeeze_add(tarn__squeeze how, const void *data,
                                           size_t size,
                                           const tarn_encode_options *options,
                                           tarn_bytes *out, tarn_error *err);

/* All members or frames. TARN_ERR_LIMIT past max_size. */
TARN_CHECKED tarn_status tarn__expand(tarn__squeeze how, const void *data, size_t size,
                                      uint64_t max_size, tarn_bytes *out,
                                      tarn_error *err);

/* Raw deflate as in zip members, at zlib's default level. */
TARN_CHECKED tarn_status tarn__deflate_add(const void *data, size_t size, tarn_bytes *out,
                                           tarn_error *err);
/* Fills out exactly. */
TARN_CHECKED tarn_status tarn__inflate_into(const void *data, size_t size, void *out,
                                            size_t out_size, tarn_error *err);
/* With zlib's header and checksum. */
TARN_CHECKED tarn_status tarn__zlib_add(const void *data, size_t size, int level,
                                        tarn_bytes *out, tarn_error *err);
/* Fills out and looks no further. */
TARN_CHECKED tarn_status tarn__unzlib_begin(const void *data, size_t size, void *out,
                                            size_t out_size, tarn_error *err);

/* --- NumPy ---------------------------------------------------------------------- */

TARN_CHECKED tarn_status tarn__npy_add(const tarn_array *array, tarn_bytes *out,
                                       tarn_error *err);
/* The array inside, where it lies: perhaps not aligned, any byte order. */
TARN_CHECKED tarn_status tarn__npy_find(const void *data, size_t size, tarn_array *out,
                                        tarn_error *err);
/* May point into data. */
TARN_CHECKED tarn_status tarn__npy_decode(const void *data, size_t size,
                                          uint64_t max_size, tarn_value *out,
                                          tarn_error *err);

/* --- The calls of the table ----------------------------------------------------- */

/* extension is the part of the name that chose the codec, in lower case. An encoder gets
 * any value but bytes and text. err is never NULL. */
#define TARN__ENCODER(name)                                                              \
    tarn_status name(const char *extension, const tarn_value *value,                     \
                     const tarn_encode_options *options, tarn_bytes *out,                \
                     tarn_error *err)
#define TARN__DECODER(name)                                                              \
    tarn_status name(const char *extension, const void *data, size_t size,               \
                     const tarn_decode_options *options, tarn_value *out,                \
                     tarn_error *err)

typedef TARN__ENCODER(tarn__encode_call);
typedef TARN__DECODER(tarn__decode_call);

TARN__ENCODER(tarn__encode_text);
TARN__ENCODER(tarn__encode_number);
TARN__ENCODER(tarn__encode_json);
TARN__ENCODER(tarn__encode_npy);
TARN__ENCODER(tarn__encode_npz);
TARN__ENCODER(tarn__encode_jpeg);
TARN__ENCODER(tarn__encode_png);
TARN__ENCODER(tarn__encode_ppm);
TARN__ENCODER(tarn__encode_webp);
TARN__ENCODER(tarn__encode_seg);
TARN__ENCODER(tarn__encode_rle);
TARN__ENCODER(tarn__encode_tenbin);
TARN__ENCODER(tarn__encode_only_python);
TARN__DECODER(tarn__decode_text);
TARN__DECODER(tarn__decode_number);
TARN__DECODER(tarn__decode_json);
TARN__DECODER(tarn__decode_npy);
TARN__DECODER(tarn__decode_npz);
TARN__DECODER(tarn__decode_image);
TARN__DECODER(tarn__decode_seg);
TARN__DECODER(tarn__decode_rle);
TARN__DECODER(tarn__decode_tenbin);

#endif
