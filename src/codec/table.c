/* Chooses the codec for a field's name and applies it: removes a compression, looks up
 * the extension, encodes or decodes. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/options.h"
#include "base/utf8.h"
#include "codec/codec.h"

TARN__DEFINE_INIT(tarn_encode_options, TARN_ENCODE_OPTIONS_INIT)
TARN__DEFINE_INIT(tarn_decode_options, TARN_DECODE_OPTIONS_INIT)

/* --- Built-in codecs, sorted by name -------------------------------------------- */

typedef struct known {
    const char *name;
    tarn__encode_call *encode;
    tarn__decode_call *decode;
} known;

#define IMAGE(name, format)                                                              \
    {                                                                                    \
        name, tarn__encode_##format, tarn__decode_image                                  \
    }
#define CODEC(name, family)                                                              \
    {                                                                                    \
        name, tarn__encode_##family, tarn__decode_##family                               \
    }
#define PYTHON(name)                                                                     \
    {                                                                                    \
        name, tarn__encode_only_python, NULL                                             \
    }

static const known built_in[] = {
    PYTHON("cbor"),
    CODEC("class", number),
    CODEC("cls", number),
    CODEC("cls2", number),
    CODEC("count", number),
    CODEC("htm", text),
    CODEC("html", text),
    CODEC("id", number),
    IMAGE("image", jpeg),
    IMAGE("img", jpeg),
    CODEC("index", number),
    CODEC("inx", number),
    IMAGE("jpeg", jpeg),
    IMAGE("jpg", jpeg),
    CODEC("jsn", json),
    CODEC("json", json),
    IMAGE("jxl", jxl),
    PYTHON("mat"),
    PYTHON("mp"),
    PYTHON("msg"),
    PYTHON("msgpack"),
    CODEC("npy", npy),
    CODEC("npz", npz),
    IMAGE("pgm", ppm),
    PYTHON("pickle"),
    PYTHON("pkl"),
    IMAGE("png", png),
    IMAGE("ppm", ppm),
    PYTHON("pt"),
    PYTHON("pth"),
    PYTHON("pyd"),
    CODEC("rle", rle),
    CODEC("seg16", seg),
    CODEC("seg24", seg),
    CODEC("seg32", seg),
    CODEC("seg8", seg),
    CODEC("tb", tenbin),
    CODEC("ten", tenbin),
    CODEC("tenbin", tenbin),
    CODEC("text", text),
    PYTHON("tif"),
    PYTHON("tiff"),
    CODEC("transcript", text),
    CODEC("txt", text),
    IMAGE("webp", webp),
};
#define BUILT_IN_COUNT (sizeof built_in / sizeof built_in[0])

TARN__ENCODER(tarn__encode_only_python)
{
    return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                      "only Python can encode a value as .%s; pass its bytes", extension);
}

static int compare_name(const void *key, const void *item)
{
    return strcmp(key, ((const known *)item)->name);
}

/* --- Lookup --------------------------------------------------------------------- */

/* The codec and compression that a field's name selects. */
typedef struct request {
    char extension[TARN_MAX_EXTENSION +
                   1]; /* "" if it is longer than any known extension */
    tarn__squeeze squeeze;
    tarn__encode_call *encode;
    tarn__decode_call *decode;
} request;

static bool ends_with(const char *field, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && strncasecmp(field + len - n, end, n) == 0;
}

static void split_field(const char *field, request *r)
{
    size_t len = strlen(field);
    if (ends_with(field, len, ".gz")) {
        r->squeeze = TARN__GZIP;
        len -= 3;
    } else if (ends_with(field, len, ".zst")) {
        r->squeeze = TARN__ZSTD;
        len -= 4;
    }
    const char *dot = memrchr(field, '.', len);
    const char *begin = dot ? dot + 1 : field;
    size_t n = len - (size_t)(begin - field);
    if (n > TARN_MAX_EXTENSION) n = 0;
    for (size_t i = 0; i < n; i++)
        r->extension[i] =
            (char)(begin[i] >= 'A' && begin[i] <= 'Z' ? begin[i] + 32 : begin[i]);
    r->extension[n] = '\0';
}

static void look_up(const char *field, request *r)
{
    *r = (request){.squeeze = TARN__PLAIN};
    split_field(field, r);
    const known *k =
        bsearch(r->extension, built_in, BUILT_IN_COUNT, sizeof *k, compare_name);
    if (!k) return;
    r->encode = k->encode;
    r->decode = k->decode;
}

tarn__codec_class tarn__codec_class_of(const char *field)
{
    request r;
    look_up(field, &r);
    if (r.decode == tarn__decode_npz || r.decode == tarn__decode_tenbin)
        return TARN__CODEC_NONE;
    if (r.squeeze != TARN__PLAIN) return TARN__CODEC_OTHER;
    if (!r.decode) return TARN__CODEC_NONE;
    if (r.decode == tarn__decode_number) return TARN__CODEC_NUMBER;
    if (r.decode == tarn__decode_npy) return TARN__CODEC_NPY;
    return r.decode == tarn__decode_image ? TARN__CODEC_IMAGE : TARN__CODEC_OTHER;
}

bool tarn__codec_decodes(const char *field)
{
    request r;
    look_up(field, &r);
    return r.decode || r.squeeze != TARN__PLAIN;
}

bool tarn__codec_is_image(const char *field, tarn__squeeze *out)
{
    request r;
    look_up(field, &r);
    *out = r.squeeze;
    return r.decode == tarn__decode_image;
}

bool tarn__codec_is_labels(const char *field)
{
    request r;
    look_up(field, &r);
    return r.decode == tarn__decode_seg;
}

bool tarn__codec_is_array(const char *field)
{
    request r;
    look_up(field, &r);
    return r.decode == tarn__decode_seg || r.decode == tarn__decode_image ||
           r.decode == tarn__decode_npy || r.decode == tarn__decode_rle;
}

/* --- Encoding ------------------------------------------------------------------- */

static tarn_status encode_value(const request *r, const tarn_value *value,
                                const tarn_encode_options *options, tarn_bytes *out,
                                tarn_error *err)
{
    if (!r->encode)
        return tarn__fail(
            err, TARN_ERR_UNSUPPORTED,
            "no codec encodes a value for the extension \"%s\"; pass bytes or text",
            TARN__SHOW(r->extension, strlen(r->extension)));
    return r->encode(r->extension, value, options, out, err);
}

static tarn_status encode_field(const request *r, const tarn_value *value,
                                const tarn_encode_options *options, tarn_bytes *out,
                                tarn_error *err)
{
    if (value->kind == TARN_VALUE_TEXT && !tarn__utf8_is_valid(value->data, value->size))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the text is not UTF-8; pass it as bytes");
    if (value->kind == TARN_VALUE_BYTES || value->kind == TARN_VALUE_TEXT)
        return tarn__squeeze_add(r->squeeze, value->data, value->size, options, out, err);
    if (r->squeeze == TARN__PLAIN) return encode_value(r, value, options, out, err);
    tarn_bytes plain = TARN_BYTES_INIT;
    tarn_status status = encode_value(r, value, options, &plain, err);
    if (status == TARN_OK)
        status = tarn__squeeze_add(r->squeeze, plain.data, plain.size, options, out, err);
    tarn_bytes_release(&plain);
    return status;
}

static tarn_status check_arrays(const tarn_value *value, tarn_error *err)
{
    if (value->kind != TARN_VALUE_ARRAY && value->kind != TARN_VALUE_ARRAYS)
        return TARN_OK;
    if (value->kind == TARN_VALUE_ARRAY && value->count != 1)
        return tarn__fail(err, TARN_ERR_USAGE, "a value of one array has %zu arrays",
                          value->count);
    for (size_t i = 0; i < value->count; i++)
        TARN_TRY(tarn__array_check(&value->arrays[i], err));
    return TARN_OK;
}

static tarn_status check_levels(const tarn_encode_options *o, tarn_error *err)
{
    if (o->gzip_level < 0 || o->gzip_level > 9 || o->zstd_level < 1 || o->zstd_level > 22)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "gzip_level must be 0 to 9 and zstd_level 1 to 22");
    return TARN_OK;
}

tarn_status tarn_encode(const char *field, const tarn_value *value,
                        const tarn_encode_options *options, tarn_bytes *out,
                        tarn_error *err)
{
    TARN__NEED(err, "field", field);
    TARN__NEED(err, "value", value);
    TARN__NEED(err, "out", out);
    tarn_error unseen;
    request r;
    if (!err) err = &unseen;
    TARN__OPTIONS(tarn_encode_options, o, TARN_ENCODE_OPTIONS_INIT, options, err);
    TARN_TRY(check_levels(&o, err));
    TARN_TRY(check_arrays(value, err));
    look_up(field, &r);
    size_t before = out->size;
    tarn_status status = encode_field(&r, value, &o, out, err);
    if (status != TARN_OK) out->size = before;
    return status;
}

/* --- Decoding ------------------------------------------------------------------- */

static tarn_status decode_plain(const request *r, const void *data, size_t size,
                                const tarn_decode_options *options, tarn_value *out,
                                tarn_error *err)
{
    if (r->decode) return r->decode(r->extension, data, size, options, out, err);
    *out = (tarn_value){.kind = TARN_VALUE_BYTES, .data = data, .size = size};
    return TARN_OK;
}

static tarn_status decode_expanded(const request *r, const void *data, size_t size,
                                   const tarn_decode_options *options, tarn_value *out,
                                   tarn_error *err)
{
    tarn_bytes plain = TARN_BYTES_INIT;
    tarn__most most = {options->max_size, "max_size"};
    tarn_status status = tarn__expand(r->squeeze, data, size, most, &plain, err);
    if (status == TARN_OK)
        status = decode_plain(r, plain.data, plain.size, options, out, err);
    if (status == TARN_OK) return tarn__value_own(out, plain.data, err);
    tarn_bytes_release(&plain);
    return status;
}

tarn_status tarn_decode(const char *field, const void *data, size_t size,
                        const tarn_decode_options *options, tarn_value *out,
                        tarn_error *err)
{
    TARN__NEED(err, "field", field);
    TARN__NEED(err, "data", data || !size);
    TARN__NEED(err, "out", out);
    tarn_error unseen;
    request r;
    if (!err) err = &unseen;
    *out = (tarn_value)TARN_VALUE_INIT;
    TARN__OPTIONS(tarn_decode_options, o, TARN_DECODE_OPTIONS_INIT, options, err);
    look_up(field, &r);
    if (r.squeeze == TARN__PLAIN) return decode_plain(&r, data, size, &o, out, err);
    return decode_expanded(&r, data, size, &o, out, err);
}
