/* Which codec a field's name stands for, and the way through it: strip a compression,
 * look the extension up, encode or decode. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/options.h"
#include "base/utf8.h"
#include "codec/codec.h"

TARN__DEFINE_INIT(tarn_encode_options, TARN_ENCODE_OPTIONS_INIT)
TARN__DEFINE_INIT(tarn_decode_options, TARN_DECODE_OPTIONS_INIT)
TARN__DEFINE_INIT(tarn_codec, TARN_CODEC_INIT)

/* --- The built-in ones, in the order of their names ----------------------------- */

typedef struct known {
    const char *name;
    tarn_encode_call encode;
    tarn_decode_call decode;
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
    PYTHON("cbor"),        CODEC("class", number),  CODEC("cls", number),
    CODEC("cls2", number), CODEC("count", number),  CODEC("htm", text),
    CODEC("html", text),   CODEC("id", number),     IMAGE("image", jpeg),
    IMAGE("img", jpeg),    CODEC("index", number),  CODEC("inx", number),
    IMAGE("jpeg", jpeg),   IMAGE("jpg", jpeg),      CODEC("jsn", json),
    CODEC("json", json),   PYTHON("mat"),           PYTHON("mp"),
    PYTHON("msg"),         PYTHON("msgpack"),       CODEC("npy", npy),
    CODEC("npz", npz),     IMAGE("pgm", ppm),       PYTHON("pickle"),
    PYTHON("pkl"),         IMAGE("png", png),       IMAGE("ppm", ppm),
    PYTHON("pt"),          PYTHON("pth"),           PYTHON("pyd"),
    CODEC("rle", rle),     CODEC("seg16", seg),     CODEC("seg24", seg),
    CODEC("seg32", seg),   CODEC("seg8", seg),      CODEC("tb", tenbin),
    CODEC("ten", tenbin),  CODEC("tenbin", tenbin), CODEC("text", text),
    PYTHON("tif"),         PYTHON("tiff"),          CODEC("transcript", text),
    CODEC("txt", text),    IMAGE("webp", webp),
};
#define BUILT_IN_COUNT (sizeof built_in / sizeof built_in[0])

TARN__ENCODER(tarn__encode_only_python)
{
    return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                      "only Python can encode a value as .%s; give its bytes", extension);
}

static int compare_name(const void *key, const void *item)
{
    return strcmp(key, ((const known *)item)->name);
}

/* --- Tables of callers ---------------------------------------------------------- */

typedef struct added {
    tarn_codec codec;
    char *names; /* the codec's own copy */
} added;

struct tarn_codecs {
    added *items;
    size_t count, capacity;
};

tarn_status tarn_codecs_new(tarn_codecs **out, tarn_error *err)
{
    TARN__NEED(err, "out", out);
    *out = calloc(1, sizeof **out);
    return *out ? TARN_OK : tarn__fail_memory(err);
}

void tarn_codecs_free(tarn_codecs *codecs)
{
    if (!codecs) return;
    for (size_t i = 0; i < codecs->count; i++)
        free(codecs->items[i].names);
    free(codecs->items);
    free(codecs);
}

/* The next word of names, or NULL. */
static const char *next_word(const char *names, size_t *out_len)
{
    names += strspn(names, " ");
    *out_len = strcspn(names, " ");
    return *out_len ? names : NULL;
}

static tarn_status check_names(const char *names, tarn_error *err)
{
    size_t len, count = 0;
    for (const char *w = names; w && (w = next_word(w, &len)); w += len, count++) {
        bool good = len <= TARN_MAX_EXTENSION && !memchr(w, '.', len);
        for (size_t i = 0; i < len; i++)
            if (w[i] >= 'A' && w[i] <= 'Z') good = false;
        if (!good)
            return tarn__fail(
                err, TARN_ERR_USAGE,
                "\"%.*s\" cannot be a codec's name: it has a dot or a capital "
                "letter, or is longer than %u bytes",
                (int)(len < 80 ? len : 80), w, TARN_MAX_EXTENSION);
    }
    return count ? TARN_OK : tarn__fail(err, TARN_ERR_USAGE, "a codec without a name");
}

tarn_status tarn_codecs_add(tarn_codecs *codecs, const tarn_codec *codec, tarn_error *err)
{
    TARN__NEED(err, "codecs", codecs);
    TARN__NEED(err, "codec", codec);
    TARN__OPTIONS(tarn_codec, taken, TARN_CODEC_INIT, codec, err);
    TARN_TRY(check_names(taken.names, err));
    TARN_TRY(tarn__grow(&codecs->items, sizeof *codecs->items, codecs->count,
                        &codecs->capacity, err));
    char *names = strdup(taken.names);
    if (!names) return tarn__fail_memory(err);
    added *item = &codecs->items[codecs->count++];
    *item = (added){.codec = taken, .names = names};
    item->codec.names = names;
    return TARN_OK;
}

/* --- Looking up ----------------------------------------------------------------- */

/* What a field's name asks for. */
typedef struct request {
    char extension[TARN_MAX_EXTENSION + 1]; /* "" if it is too long to be known */
    tarn__squeeze squeeze;
    tarn_encode_call encode;
    tarn_decode_call decode;
    void *context;
    bool found, own; /* own: a codec of the caller's */
} request;

static bool ends_with(const char *field, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len > n && strncasecmp(field + len - n, end, n) == 0;
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

static bool has_name(const char *names, const char *name)
{
    size_t len, want = strlen(name);
    for (const char *w = names; (w = next_word(w, &len)); w += len)
        if (len == want && memcmp(w, name, len) == 0) return true;
    return false;
}

static void look_up(const tarn_codecs *codecs, const char *field, request *r)
{
    *r = (request){.squeeze = TARN__PLAIN};
    split_field(field, r);
    for (size_t i = codecs ? codecs->count : 0; i-- > 0;) {
        const tarn_codec *c = &codecs->items[i].codec;
        if (!has_name(c->names, r->extension)) continue;
        r->encode = c->encode;
        r->decode = c->decode;
        r->context = c->context;
        r->found = r->own = true;
        return;
    }
    const known *k =
        bsearch(r->extension, built_in, BUILT_IN_COUNT, sizeof *k, compare_name);
    if (!k) return;
    r->encode = k->encode;
    r->decode = k->decode;
    r->found = true;
}

tarn__codec_class tarn__codec_class_of(const tarn_codecs *codecs, const char *field)
{
    request r;
    look_up(codecs, field, &r);
    if (r.own) return r.decode ? TARN__CODEC_OTHER : TARN__CODEC_NONE;
    if (r.decode == tarn__decode_npz || r.decode == tarn__decode_tenbin)
        return TARN__CODEC_NONE;
    if (r.squeeze != TARN__PLAIN) return TARN__CODEC_OTHER;
    if (!r.decode) return TARN__CODEC_NONE;
    if (r.decode == tarn__decode_number) return TARN__CODEC_NUMBER;
    if (r.decode == tarn__decode_npy) return TARN__CODEC_NPY;
    return r.decode == tarn__decode_image ? TARN__CODEC_IMAGE : TARN__CODEC_OTHER;
}

/* --- Encoding ------------------------------------------------------------------- */

static tarn_status encode_value(const request *r, const tarn_value *value,
                                const tarn_encode_options *options, tarn_bytes *out,
                                tarn_error *err)
{
    char shown[128];
    tarn_printable(shown, sizeof shown, r->extension, strlen(r->extension));
    if (!r->encode)
        return tarn__fail(
            err, TARN_ERR_UNSUPPORTED,
            "no codec makes bytes of a value for the extension \"%s\"; give "
            "bytes or text, or add a codec",
            shown);
    if (r->own)
        tarn__error_set(err, TARN_ERR_UNSUPPORTED, NULL, TARN_NO_OFFSET,
                        "the codec of \"%s\" could not encode the value", shown);
    return r->encode(r->context, r->extension, value, options, out, err);
}

/* Bytes that need no codec. */
static bool stands_for_itself(const request *r, const tarn_value *value)
{
    return value->kind == TARN_VALUE_BYTES || (value->kind == TARN_VALUE_TEXT && !r->own);
}

static tarn_status encode_field(const request *r, const tarn_value *value,
                                const tarn_encode_options *options, tarn_bytes *out,
                                tarn_error *err)
{
    if (value->kind == TARN_VALUE_TEXT && !tarn__utf8_is_valid(value->data, value->size))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "text that is not UTF-8; give it as bytes");
    if (stands_for_itself(r, value))
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
        return tarn__fail(err, TARN_ERR_USAGE, "a value of one array has %zu",
                          value->count);
    for (size_t i = 0; i < value->count; i++)
        TARN_TRY(tarn__array_check(&value->arrays[i], err));
    return TARN_OK;
}

static tarn_status check_levels(const tarn_encode_options *o, tarn_error *err)
{
    if (o->gzip_level < 0 || o->gzip_level > 9 || o->zstd_level < 1 || o->zstd_level > 22)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "gzip_level is from 0 to 9 and zstd_level from 1 to 22");
    return TARN_OK;
}

tarn_status tarn_codecs_encode(const tarn_codecs *codecs, const char *field,
                               const tarn_value *value,
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
    look_up(codecs, field, &r);
    size_t before = out->size;
    tarn_status status = encode_field(&r, value, &o, out, err);
    if (status != TARN_OK) out->size = before;
    return status;
}

/* --- Decoding ------------------------------------------------------------------- */

/* An expanded field and the value that may point into it. */
typedef struct expanded {
    tarn_value inner;
    tarn_bytes plain;
} expanded;

static void release_expanded(void *owned)
{
    expanded *x = owned;
    tarn_value_release(&x->inner);
    tarn_bytes_release(&x->plain);
    free(x);
}

static tarn_status decode_plain(const request *r, const void *data, size_t size,
                                const tarn_decode_options *options, tarn_value *out,
                                tarn_error *err)
{
    char shown[128];
    if (!r->decode) {
        *out = tarn_value_bytes(data, size);
        return TARN_OK;
    }
    if (r->own)
        tarn__error_set(
            err, TARN_ERR_FORMAT, NULL, TARN_NO_OFFSET,
            "the codec of \"%s\" could not decode the field",
            tarn_printable(shown, sizeof shown, r->extension, strlen(r->extension)));
    return r->decode(r->context, r->extension, data, size, options, out, err);
}

static tarn_status decode_expanded(const request *r, const void *data, size_t size,
                                   const tarn_decode_options *options, tarn_value *out,
                                   tarn_error *err)
{
    expanded *x = calloc(1, sizeof *x);
    if (!x) return tarn__fail_memory(err);
    tarn_status status =
        tarn__expand(r->squeeze, data, size, options->max_size, &x->plain, err);
    if (status == TARN_OK)
        status = decode_plain(r, x->plain.data, x->plain.size, options, &x->inner, err);
    if (status != TARN_OK) {
        release_expanded(x);
        return status;
    }
    *out = x->inner;
    out->owned = x;
    out->release = release_expanded;
    return TARN_OK;
}

tarn_status tarn_codecs_decode(const tarn_codecs *codecs, const char *field,
                               const void *data, size_t size,
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
    look_up(codecs, field, &r);
    if (r.squeeze == TARN__PLAIN) return decode_plain(&r, data, size, &o, out, err);
    return decode_expanded(&r, data, size, &o, out, err);
}
