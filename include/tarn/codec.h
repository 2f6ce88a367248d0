/* tarn/codec.h: a field's value to bytes and back, chosen by the field's name.
 *
 *     tarn_bytes out = TARN_BYTES_INIT;
 *     tarn_value label = {.kind = TARN_VALUE_INTEGER, .integer = 7};
 *     if (tarn_encode("cls", &label, NULL, &out, &err) != TARN_OK) ...
 *     tarn_bytes_release(&out);
 *
 * What counts in a name is its last dotted part, in lower case: "seg.PNG" is a PNG. A
 * last part "gz" or "zst" with something before it compresses what the part before it
 * gives: "json.gz" is compressed JSON. docs/guides/fields.md has the table of names.
 *
 * Whatever the name, bytes stand for themselves and text for its UTF-8 bytes; so a field
 * that is encoded already, or that no codec knows, is passed as bytes. Nothing here ever
 * runs what a field holds: pickles and their like are bytes to this library.
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

/* Frees what is held. Set size to 0 instead to use the memory again. */
TARN_API void tarn_bytes_release(tarn_bytes *bytes);

/* --- Values --------------------------------------------------------------------- */

/* A value to be encoded is a struct that you fill: its kind, and the members named here.
 * What it points at stays yours. */
typedef enum tarn_value_kind {
    TARN_VALUE_BYTES = 0,   /* data, size */
    TARN_VALUE_TEXT = 1,    /* data, size: UTF-8 */
    TARN_VALUE_JSON = 2,    /* data, size: a JSON text */
    TARN_VALUE_INTEGER = 3, /* integer */
    TARN_VALUE_REAL = 4,    /* real */
    TARN_VALUE_ARRAY = 5,   /* arrays[0] */
    TARN_VALUE_ARRAYS = 6   /* arrays, count, and names unless NULL */
} tarn_value_kind;

typedef struct tarn_value {
    tarn_value_kind kind;
    const void *data;
    size_t size;
    int64_t integer;
    double real;
    const tarn_array *arrays;
    const char *const *names; /* NUL-terminated */
    size_t count;
    void *owned; /* given to release by tarn_value_release; NULL where all is borrowed */
    void (*release)(void *owned);
} tarn_value;

#define TARN_VALUE_INIT                                                                  \
    {                                                                                    \
        TARN_VALUE_BYTES, NULL, 0, 0, 0, NULL, NULL, 0, NULL, NULL                       \
    }

/* Frees what a decoder made. Harmless on a value that is released or borrows all. */
TARN_API void tarn_value_release(tarn_value *value);

#define TARN_MAX_EXTENSION 63u /* bytes in the part of a name that chooses a codec */

/* --- Encoding ------------------------------------------------------------------- */

typedef enum tarn_subsampling {
    TARN_SUBSAMPLING_420 = 0, /* what Pillow and with it WebDataset do at any quality */
    TARN_SUBSAMPLING_422 = 1,
    TARN_SUBSAMPLING_444 = 2
} tarn_subsampling;

typedef struct tarn_encode_options {
    size_t size;                  /* of this struct; set by the initialiser */
    int jpeg_quality;             /* 1 to 100 */
    tarn_subsampling subsampling; /* of JPEG colours */
    int webp_quality;             /* 0 to 100 */
    bool webp_lossless;
    int png_level;   /* of zlib: 0 to 9 */
    int gzip_level;  /* 0 to 9 */
    int zstd_level;  /* 1 to 22 */
    bool npz_stored; /* members of npz not compressed */
} tarn_encode_options;

#define TARN_ENCODE_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_encode_options), .jpeg_quality = 100, .webp_quality = 80,    \
        .png_level = 6, .gzip_level = 9, .zstd_level = 3                                 \
    }
TARN_API void tarn_encode_options_init(tarn_encode_options *options, size_t size);

/* Appends the bytes of value under the name field to out; after a failure out is as it
 * was. The same value, name and options always give the same bytes. options may be NULL.
 * TARN_ERR_UNSUPPORTED: the name takes no such value (the message says what it takes). */
TARN_API TARN_CHECKED tarn_status tarn_encode(const char *field, const tarn_value *value,
                                              const tarn_encode_options *options,
                                              tarn_bytes *out, tarn_error *err);

/* --- Decoding ------------------------------------------------------------------- */

typedef struct tarn_decode_options {
    size_t size;         /* of this struct; set by the initialiser */
    uint64_t max_size;   /* bytes that one field may become */
    uint64_t max_pixels; /* of one image */
    unsigned channels;   /* of images: 1, 3 or 4; 0: as many as the image has */
} tarn_decode_options;

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

/* Makes the value of a field's bytes. The value may point into data, which must then stay
 * as it is until the value is released: text and JSON do (JSON is checked), and arrays
 * whose elements lie well. A name that no codec knows gives bytes. *out is set whatever
 * the outcome; after a failure it is empty. */
TARN_API TARN_CHECKED tarn_status tarn_decode(const char *field, const void *data,
                                              size_t size,
                                              const tarn_decode_options *options,
                                              tarn_value *out, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
