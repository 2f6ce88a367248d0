/* tarn/codec.h: encodes the value of a field as bytes and decodes it again. The name of
 * the field selects the codec.
 *
 *     tarn_bytes out = TARN_BYTES_INIT;
 *     tarn_value label = {.kind = TARN_VALUE_INTEGER, .integer = 7};
 *     if (tarn_encode("cls", &label, NULL, &out, &err) != TARN_OK) ...
 *     tarn_bytes_release(&out);
 *
 * The last dotted part of the name, in lower case, selects the codec: "seg.PNG" is a PNG.
 * If the last part is "gz" or "zst" and another part precedes it, the result of the
 * preceding part is compressed: "json.gz" is compressed JSON. docs/guides/fields.md has
 * the table of names.
 *
 * Under any name, bytes are stored unchanged and text is stored as its UTF-8 bytes. Pass
 * a field as bytes if it is already encoded or if no codec exists for it. The library
 * never executes the contents of a field: it treats pickles and similar formats as bytes.
 *
 * All functions may be called from any number of threads at once.
 */
#ifndef TARN_CODEC_H
#define TARN_CODEC_H

#include <tarn/array.h>
#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Bytes that grow ------------------------------------------------------------ */

typedef struct tarn_bytes {
    unsigned char *data;
    size_t size;
    size_t capacity;
} tarn_bytes;

#define TARN_BYTES_INIT                                                                  \
    {                                                                                    \
        NULL, 0, 0                                                                       \
    }

/* Frees the memory. To reuse the memory, set size to 0 instead. */
TARN_API void tarn_bytes_release(tarn_bytes *bytes);

/* --- Values --------------------------------------------------------------------- */

/* To encode a value, fill this struct: its kind, and the members that are listed here for
 * that kind. The memory that it points to stays yours. */
typedef enum tarn_value_kind {
    TARN_VALUE_BYTES = 0,   /* data, size */
    TARN_VALUE_TEXT = 1,    /* data, size: UTF-8 */
    TARN_VALUE_JSON = 2,    /* data, size: a JSON text */
    TARN_VALUE_INTEGER = 3, /* integer */
    TARN_VALUE_REAL = 4,    /* real */
    TARN_VALUE_ARRAY = 5,   /* arrays[0] */
    TARN_VALUE_ARRAYS = 6   /* arrays, count, and names unless it is NULL */
} tarn_value_kind;

typedef struct tarn_value {
    tarn_value_kind kind;
    const void *data;
    size_t size;
    int64_t integer;
    double real;
    const tarn_array *arrays;
    const char *const *names; /* each NUL-terminated */
    size_t count;
    /* Passed to release by tarn_value_release; NULL if everything is borrowed. */
    void *owned;
    void (*release)(void *owned);
} tarn_value;

#define TARN_VALUE_INIT                                                                  \
    {                                                                                    \
        TARN_VALUE_BYTES, NULL, 0, 0, 0, NULL, NULL, 0, NULL, NULL                       \
    }

/* Frees the memory that the decoder allocated. It is safe to release a value that is
 * already released or that only borrows. */
TARN_API void tarn_value_release(tarn_value *value);

#define TARN_MAX_EXTENSION 63u /* bytes of the part of a name that selects the codec */

/* --- Encoding ------------------------------------------------------------------- */

typedef enum tarn_subsampling {
    TARN_SUBSAMPLING_420 = 0, /* the default of Pillow and WebDataset at any quality */
    TARN_SUBSAMPLING_422 = 1,
    TARN_SUBSAMPLING_444 = 2
} tarn_subsampling;

typedef struct tarn_encode_options {
    size_t size;                  /* of this struct; set by the initialiser */
    int jpeg_quality;             /* 1 to 100 */
    tarn_subsampling subsampling; /* chroma subsampling of JPEG */
    int webp_quality;             /* 0 to 100 */
    bool webp_lossless;
    int png_level;   /* zlib level, 0 to 9 */
    int gzip_level;  /* 0 to 9 */
    int zstd_level;  /* 1 to 22 */
    bool npz_stored; /* do not compress the members of an npz */
    /* JPEG XL: distance 0 to 25, where 1 is visually lossless; effort 1 to 10, which is
     * like 9 before libjxl 0.10. f4 without loss needs libjxl 0.10. */
    bool jxl_lossless;
    bool jxl_container; /* write the container format */
    int jxl_effort;
    double jxl_distance;
} tarn_encode_options;

#define TARN_ENCODE_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_encode_options), .jpeg_quality = 100, .webp_quality = 80,    \
        .png_level = 6, .gzip_level = 9, .zstd_level = 3, .jxl_effort = 7,               \
        .jxl_distance = 1                                                                \
    }
TARN_API void tarn_encode_options_init(tarn_encode_options *options, size_t size);

/* Encodes value as the field name requires and appends the bytes to out. After a failure
 * out is unchanged. The same value, name and options always give the same bytes. options
 * may be NULL. TARN_ERR_UNSUPPORTED if the name does not accept this kind of value; the
 * message lists what it accepts. Free out with tarn_bytes_release. */
TARN_API TARN_CHECKED tarn_status tarn_encode(const char *field, const tarn_value *value,
                                              const tarn_encode_options *options,
                                              tarn_bytes *out, tarn_error *err);

/* --- Decoding ------------------------------------------------------------------- */

typedef struct tarn_decode_options {
    size_t size;         /* of this struct; set by the initialiser */
    uint64_t max_size;   /* the most bytes that one decoded field may take */
    uint64_t max_pixels; /* the most pixels of one image */
    unsigned channels;   /* of images: 1, 3 or 4; 0: the image's own number */
    uint64_t flags;      /* TARN_DECODE_... */
} tarn_decode_options;

/* Turns images upright, as their EXIF data says (JPEG, and the EXIF chunks of PNG and
 * WebP). An image without EXIF data, or with damaged EXIF data, is not turned. */
#define TARN_DECODE_UPRIGHT UINT64_C(1)
/* A PNG with a palette becomes the indices of its pixels [height, width], not their
 * colours. Other images are not affected. Needs channels 0. */
#define TARN_DECODE_INDICES UINT64_C(2)

#define TARN_MAX_DECODED      (UINT64_C(1) << 30)
#define TARN_MAX_PIXELS       (UINT64_C(1) << 28)
#define TARN_MAX_NPY_HEADER   65536u /* bytes */
#define TARN_MAX_FIELD_ARRAYS 65536u /* in one npz or tenbin */

#define TARN_DECODE_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_decode_options), .max_size = TARN_MAX_DECODED,               \
        .max_pixels = TARN_MAX_PIXELS                                                    \
    }
TARN_API void tarn_decode_options_init(tarn_decode_options *options, size_t size);

/* Decodes the bytes of a field. The value may point into data. data must then stay
 * unchanged until the value is released. Text and JSON (which is validated) always point
 * into data; so do arrays whose elements are suitably aligned. A name without a codec
 * gives bytes. options may be NULL. *out is set in every case; after a failure it is
 * empty. Free it with tarn_value_release. */
TARN_API TARN_CHECKED tarn_status tarn_decode(const char *field, const void *data,
                                              size_t size,
                                              const tarn_decode_options *options,
                                              tarn_value *out, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
