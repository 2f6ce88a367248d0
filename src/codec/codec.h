/* Shared by the codec families: helpers, and the functions that the codec table calls. A
 * family does not know the other families or field names; the table chooses. */
#ifndef TARN_CODEC_CODEC_H
#define TARN_CODEC_CODEC_H

#include <tarn/codec.h>
#include <tarn/image.h>

#include "base/compress.h"

/* --- Helpers for families ------------------------------------------------------- */

/* The error for a value of the wrong kind: "field .npy takes an array (or bytes and text,
 * which are written unchanged), not an integer". */
tarn_status tarn__wrong_value(tarn_error *err, const char *extension, const char *wanted,
                              const tarn_value *value);

/* The only array of a value, or NULL. */
const tarn_array *tarn__one_array(const tarn_value *value);

/* The elements, contiguous and little-endian. The caller frees *out_copy, which is NULL
 * if the array itself can be used. */
TARN_CHECKED tarn_status tarn__array_native(const tarn_array *array, const void **out,
                                            void **out_copy, tarn_error *err);

/* Makes value one array with newly allocated memory of at most max_size bytes. */
TARN_CHECKED tarn_status tarn__value_make_array(tarn_value *value, tarn_dtype dtype,
                                                unsigned ndim, const uint64_t *shape,
                                                uint64_t max_size, tarn_error *err);

/* Makes value one array that is described by array and whose memory belongs to the
 * caller. */
TARN_CHECKED tarn_status tarn__value_borrow_array(tarn_value *value,
                                                  const tarn_array *array,
                                                  tarn_error *err);

/* Makes value the owner of the memory that it points into. Also after a failure, which
 * releases the value. */
TARN_CHECKED tarn_status tarn__value_own(tarn_value *value, void *data, tarn_error *err);

/* Makes value a list of arrays. Takes over everything they own and the memory of items
 * and names. A failure releases everything. */
TARN_CHECKED tarn_status tarn__value_gather(tarn_value *value, tarn_value *items,
                                            char **names, size_t count, tarn_error *err);

/* Frees the parts of a failed gather. */
void tarn__values_free(tarn_value *items, char **names, size_t count);

/* Zeroed memory for count items of size bytes. Both numbers may come from files. */
TARN_CHECKED tarn_status tarn__alloc_items(size_t count, size_t size, void *out,
                                           tarn_error *err);

#define TARN__DTYPE(order, kind, size) ((tarn_dtype){(order), (kind), (size)})
#define TARN__U1                       TARN__DTYPE('|', 'u', 1)
#define TARN__U2                       TARN__DTYPE('<', 'u', 2)

/* The class of a field's codec, for callers that decode many fields. */
typedef enum tarn__codec_class {
    TARN__CODEC_NONE,   /* bytes; also lists of arrays, which do not fit into a batch */
    TARN__CODEC_NUMBER, /* built-in and not compressed: numbers */
    TARN__CODEC_NPY,
    TARN__CODEC_IMAGE, /* JPEG, PNG, WebP, JPEG XL, PPM */
    TARN__CODEC_OTHER  /* only tarn_decode knows */
} tarn__codec_class;

tarn__codec_class tarn__codec_class_of(const char *field);

/* Whether tarn_decode does more than return the bytes of fields with this name. */
bool tarn__codec_decodes(const char *field);

/* Whether fields with this name are images, also compressed ones; label maps (seg8, ...);
 * or any arrays that can be a mask. */
bool tarn__codec_is_image(const char *field, tarn__squeeze *out);
bool tarn__codec_is_labels(const char *field);
bool tarn__codec_is_array(const char *field);

/* --- Images --------------------------------------------------------------------- */

/* Pixels: rows consecutively, channels interleaved, samples in native order. */
typedef struct tarn__pixels {
    const void *data;
    uint32_t width, height;
    unsigned channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    unsigned bits;     /* 8, 16 or 32 */
    bool real;         /* samples are floats */
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
TARN_CHECKED tarn_status tarn__jxl_encode(const tarn__pixels *pixels,
                                          const tarn_encode_options *options,
                                          tarn_bytes *out, tarn_error *err);

/* Makes value an array [height, width] or [height, width, channels]. */
TARN_CHECKED tarn_status tarn__pixels_make(tarn_value *value, uint32_t width,
                                           uint32_t height, unsigned channels,
                                           tarn_dtype dtype,
                                           const tarn_decode_options *options,
                                           tarn_error *err);

/* The channels and the type of the samples that the file has. */
TARN_CHECKED tarn_status tarn__png_decode(const void *data, size_t size,
                                          const tarn_decode_options *options,
                                          tarn_value *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__ppm_decode(const void *data, size_t size,
                                          const tarn_decode_options *options,
                                          tarn_value *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__jxl_decode(const void *data, size_t size,
                                          const tarn_decode_options *options,
                                          tarn_value *out, tarn_error *err);

/* --- Images into the caller's memory -------------------------------------------- */

/* Pixels of 8-bit samples, channels interleaved: 1 grey, 3 RGB, 4 RGBA. */
typedef struct tarn__image {
    unsigned char *data;
    uint32_t width, height;
    unsigned channels;
    size_t stride; /* bytes between the starts of two rows */
} tarn__image;

/* The format that the first bytes show, or 0. */
tarn_image_format tarn__image_format(const void *data, size_t size);

/* Each head function sets all of the info. Each into function writes 8-bit samples to
 * out, whose members are all set: width and height are those of the image, or for JPEG of
 * a scaled size; channels are 1, 3 or 4 for JPEG, 3 or 4 for WebP, the info's for PPM,
 * for PNG the result of tarn__png_channels, and for JPEG XL 1 only if the info's are 1.
 * The rows of PPM and JPEG XL are contiguous. */
typedef struct tarn__jpeg tarn__jpeg;
tarn__jpeg *tarn__jpeg_new(void); /* NULL if memory is short */
void tarn__jpeg_free(tarn__jpeg *jpeg);
/* Prepares one call of into or begin_part, until which the data must stay valid. */
TARN_CHECKED tarn_status tarn__jpeg_head(tarn__jpeg *jpeg, const void *data, size_t size,
                                         tarn_image_info *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__jpeg_into(tarn__jpeg *jpeg, const tarn__image *out,
                                         tarn_error *err);

/* Columns [left, right) of rows [top, bottom). */
typedef struct tarn__area {
    uint32_t left, top, right, bottom;
} tarn__area;

/* The length of a side at scale 1/by, as JPEGs are decoded. */
static inline uint32_t tarn__reduced(uint32_t side, uint32_t by)
{
    return side / by + (side % by != 0);
}

/* Decodes an area of the image at scale 1/by; the pixels equal those of the whole image.
 * begin_part may widen the area on either side. read_part then writes rows of that width
 * to out, which must have room for one more row. */
TARN_CHECKED tarn_status tarn__jpeg_begin_part(tarn__jpeg *jpeg, unsigned channels,
                                               uint32_t by, tarn__area *area,
                                               tarn_error *err);
TARN_CHECKED tarn_status tarn__jpeg_read_part(tarn__jpeg *jpeg, const tarn__area *area,
                                              const tarn__image *out, tarn_error *err);

/* A reusable decoder. A head prepares one into, until which the data must stay valid;
 * buffers are at most max_size bytes. */
typedef struct tarn__png tarn__png;
tarn__png *tarn__png_new(void); /* NULL if memory is short */
void tarn__png_free(tarn__png *png);
TARN_CHECKED tarn_status tarn__png_head(tarn__png *png, const void *data, size_t size,
                                        tarn_image_info *out, tarn_error *err);
/* The channels to decode to if 1, 3 or 4 channels are wanted in the end. */
unsigned tarn__png_channels(const tarn__png *png, unsigned wanted);
TARN_CHECKED tarn_status tarn__png_into(tarn__png *png, const tarn__image *out,
                                        uint64_t max_size, tarn_error *err);

TARN_CHECKED tarn_status tarn__webp_head(const void *data, size_t size,
                                         tarn_image_info *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__webp_into(const void *data, size_t size,
                                         const tarn__image *out, tarn_error *err);

/* A reusable decoder of JPEG XL, which the first head creates; into must follow a head.
 */
typedef struct tarn__jxl tarn__jxl;
void tarn__jxl_free(tarn__jxl *jxl);
TARN_CHECKED tarn_status tarn__jxl_head(tarn__jxl **jxl, const void *data, size_t size,
                                        tarn_image_info *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__jxl_into(tarn__jxl *jxl, const tarn__image *out,
                                        tarn_error *err);

TARN_CHECKED tarn_status tarn__ppm_head(const void *data, size_t size,
                                        tarn_image_info *out, size_t *out_at,
                                        bool *out_deep, tarn_error *err);
TARN_CHECKED tarn_status tarn__ppm_into(const void *data, size_t size,
                                        const tarn__image *out, tarn_error *err);

/* Converts 1 or 3 channels to 1, 3 or 4, or copies. */
void tarn__pixels_convert(const unsigned char *from, unsigned have, unsigned char *to,
                          unsigned want, uint64_t count);

/* --- NumPy ---------------------------------------------------------------------- */

TARN_CHECKED tarn_status tarn__npy_add(const tarn_array *array, tarn_bytes *out,
                                       tarn_error *err);
/* Describes the array in place: it may be unaligned and of any byte order. */
TARN_CHECKED tarn_status tarn__npy_find(const void *data, size_t size, tarn_array *out,
                                        tarn_error *err);
/* The value may point into data. */
TARN_CHECKED tarn_status tarn__npy_decode(const void *data, size_t size,
                                          uint64_t max_size, tarn_value *out,
                                          tarn_error *err);

/* --- Functions of the table ----------------------------------------------------- */

/* extension is the part of the name that chose the codec, in lower case. Encoders are
 * never called with bytes or text. err is never NULL. */
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
TARN__ENCODER(tarn__encode_jxl);
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
