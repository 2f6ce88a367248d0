/* Fields as browsers can show them: types by the first bytes, thumbnails by tarn's own
 * decoders, and raw bytes in ranges. Nothing that could contain code is ever given a type
 * that a browser runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "browse.h"

/* --- Kinds ---------------------------------------------------------------------------
 */

const char *browse_kind_name(browse_kind kind)
{
    static const char *const names[] = {"bytes", "text",  "json",  "number",
                                        "array", "image", "audio", "video"};
    return names[kind];
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcasecmp(name, *list) == 0) return true;
    return false;
}

static browse_kind kind_of_name(const char *codec)
{
    static const char *const images[] = {"jpg",  "jpeg",  "png",   "webp",  "ppm",
                                         "pgm",  "pbm",   "pnm",   "jxl",   "img",
                                         "seg8", "seg16", "seg24", "seg32", NULL};
    static const char *const arrays[] = {"npy", "npz", "ten", "tb", "rle", "pth", NULL};
    static const char *const texts[] = {"txt",  "text", "transcript", "caption", "log",
                                        "md",   "csv",  "tsv",        "srt",     "vtt",
                                        "py",   "xml",  "html",       "htm",     "svg",
                                        "yaml", "yml",  "toml",       NULL};
    static const char *const numbers[] = {"cls", "cls2",  "index", "inx",
                                          "id",  "count", NULL};
    static const char *const jsons[] = {"json", "jsn", "jsonl", NULL};
    static const char *const audio[] = {"wav",  "mp3", "flac", "ogg", "oga",
                                        "opus", "m4a", "aac",  NULL};
    static const char *const video[] = {"mp4", "webm", "ogv", "mov",
                                        "m4v", "mkv",  "avi", NULL};
    const char *dot = strrchr(codec, '.'), *name = dot ? dot + 1 : codec;
    if (is_one_of(name, images)) return BROWSE_IMAGE;
    if (is_one_of(name, arrays)) return BROWSE_ARRAY;
    if (is_one_of(name, numbers)) return BROWSE_NUMBER;
    if (is_one_of(name, jsons)) return BROWSE_JSON;
    if (is_one_of(name, texts)) return BROWSE_TEXT;
    if (is_one_of(name, audio)) return BROWSE_AUDIO;
    if (is_one_of(name, video)) return BROWSE_VIDEO;
    return BROWSE_BYTES;
}

browse_kind browse_kind_of(const tarn_field_form *form)
{
    switch (form->form) {
    case TARN_FORM_TEXT:
        return BROWSE_TEXT;
    case TARN_FORM_JSON:
        return BROWSE_JSON;
    case TARN_FORM_INTEGER:
    case TARN_FORM_REAL:
        return BROWSE_NUMBER;
    case TARN_FORM_ARRAY:
        return form->ndim ? BROWSE_ARRAY : BROWSE_NUMBER;
    default:
        return form->codec ? kind_of_name(form->codec) : BROWSE_BYTES;
    }
}

browse_kind browse_kind_at(tarn_dataset *set, uint64_t i, uint32_t field)
{
    tarn_field_form form;
    if (tarn_dataset_form(set, i, field, &form, sizeof form, NULL) != TARN_OK)
        form = (tarn_field_form){.codec = tarn_dataset_field(set, field)};
    return browse_kind_of(&form);
}

/* --- Types ---------------------------------------------------------------------------
 */

static bool starts(const unsigned char *data, size_t size, size_t at, const char *magic,
                   size_t len)
{
    return size >= at + len && memcmp(data + at, magic, len) == 0;
}

static bool is_mpeg_audio(const unsigned char *d, size_t size)
{
    return starts(d, size, 0, "ID3", 3) ||
           (size >= 4 && d[0] == 0xff && (d[1] & 0xe0) == 0xe0 && (d[1] & 0x06) != 0 &&
            (d[1] & 0x18) != 0x08 && (d[2] & 0xf0) != 0xf0);
}

const char *browse_sniff(const unsigned char *d, size_t size)
{
    if (starts(d, size, 0, "\xff\xd8\xff", 3)) return "image/jpeg";
    if (starts(d, size, 0, "\x89PNG\r\n\x1a\n", 8)) return "image/png";
    if (starts(d, size, 0, "GIF87a", 6) || starts(d, size, 0, "GIF89a", 6))
        return "image/gif";
    if (starts(d, size, 0, "RIFF", 4) && starts(d, size, 8, "WEBP", 4))
        return "image/webp";
    if (starts(d, size, 0, "RIFF", 4) && starts(d, size, 8, "WAVE", 4))
        return "audio/wav";
    if (starts(d, size, 0, "fLaC", 4)) return "audio/flac";
    if (starts(d, size, 0, "OggS", 4))
        return size > 36 && memmem(d, 64 < size ? 64 : size, "theora", 6) ? "video/ogg"
                                                                          : "audio/ogg";
    if (starts(d, size, 4, "ftypM4A", 7)) return "audio/mp4";
    if (starts(d, size, 4, "ftyp", 4)) return "video/mp4";
    if (starts(d, size, 0, "\x1a\x45\xdf\xa3", 4)) return "video/webm";
    if (is_mpeg_audio(d, size)) return "audio/mpeg";
    return NULL;
}

bool browse_measure(const void *data, size_t size, uint32_t *width, uint32_t *height)
{
    tarn_image_decoder *decoder;
    tarn_image_info info;
    if (tarn_image_decoder_new(NULL, &decoder, NULL) != TARN_OK) return false;
    tarn_status status = tarn_image_probe(decoder, data, size, &info, sizeof info, NULL);
    tarn_image_decoder_free(decoder);
    *width = info.width;
    *height = info.height;
    return status == TARN_OK;
}

/* --- Pictures ------------------------------------------------------------------------
 */

/* The largest size of the same shape in a square; never larger than the picture. */
static void fit(uint64_t width, uint64_t height, unsigned side, uint32_t *out_width,
                uint32_t *out_height)
{
    uint64_t longer = width > height ? width : height;
    if (longer < side) side = (unsigned)longer;
    *out_width = (uint32_t)(width * side / longer);
    *out_height = (uint32_t)(height * side / longer);
    if (*out_width == 0) *out_width = 1;
    if (*out_height == 0) *out_height = 1;
}

static tarn_status encode(unsigned char *pixels, uint32_t width, uint32_t height,
                          unsigned channels, tarn_bytes *out, tarn_error *err)
{
    tarn_array array;
    uint64_t shape[] = {height, width, channels};
    tarn_encode_options o = TARN_ENCODE_OPTIONS_INIT;
    TARN_TRY(tarn_array_init(&array, pixels, (tarn_dtype){'|', 'u', 1},
                             channels == 1 ? 2 : 3, shape, err));
    tarn_value value = {.kind = TARN_VALUE_ARRAY, .arrays = &array, .count = 1};
    o.jpeg_quality = 82;
    return tarn_encode("jpg", &value, &o, out, err);
}

static tarn_status shrink(tarn_image_decoder *decoder, const void *data, size_t size,
                          unsigned side, tarn_bytes *out, tarn_error *err)
{
    tarn_image_info info;
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_image_draw draw = {0, 0, 0};
    TARN_TRY(tarn_image_probe(decoder, data, size, &info, sizeof info, err));
    fit(info.width, info.height, side, &steps.width, &steps.height);
    size_t bytes = (size_t)steps.width * steps.height * 3;
    unsigned char *pixels = malloc(bytes);
    if (!pixels) cli_no_memory();
    tarn_status status =
        tarn_image_run(decoder, &steps, data, size, draw, pixels, bytes, err);
    if (status == TARN_OK)
        status = encode(pixels, steps.width, steps.height, 3, out, err);
    free(pixels);
    return status;
}

static tarn_status render_image(const void *data, size_t size, unsigned side,
                                tarn_bytes *out, tarn_error *err)
{
    tarn_image_decoder *decoder;
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    o.max_pixels = BROWSE_MAX_PIXELS;
    o.max_size = 4ull * BROWSE_MAX_PIXELS;
    TARN_TRY(tarn_image_decoder_new(&o, &decoder, err));
    tarn_status status = shrink(decoder, data, size, side, out, err);
    tarn_image_decoder_free(decoder);
    return status;
}

/* An element as a number; false for types that have none. */
static bool element(const tarn_array *a, const unsigned char *at, double *out)
{
    union {
        uint8_t u1;
        int8_t i1;
        uint16_t u2;
        int16_t i2;
        uint32_t u4;
        int32_t i4;
        uint64_t u8;
        int64_t i8;
        float f4;
        double f8;
    } v = {0};
    if (a->dtype.size > 8 || a->dtype.order == '>') return false;
    memcpy(&v, at, a->dtype.size);
    switch (a->dtype.kind << 8 | (int)a->dtype.size) {
    case 'b' << 8 | 1:
    case 'u' << 8 | 1:
        *out = v.u1;
        return true;
    case 'i' << 8 | 1:
        *out = v.i1;
        return true;
    case 'u' << 8 | 2:
        *out = v.u2;
        return true;
    case 'i' << 8 | 2:
        *out = v.i2;
        return true;
    case 'f' << 8 | 2:
        *out = ldexp((v.u2 & 0x3ff) | (v.u2 & 0x7c00 ? 0x400 : 0),
                     (v.u2 & 0x7c00 ? v.u2 >> 10 & 31 : 1) - 25) *
               (v.u2 & 0x8000 ? -1 : 1);
        if ((v.u2 & 0x7c00) == 0x7c00) *out = v.u2 & 0x3ff ? (double)NAN : *out / 0.0;
        return true;
    case 'u' << 8 | 4:
        *out = v.u4;
        return true;
    case 'i' << 8 | 4:
        *out = v.i4;
        return true;
    case 'f' << 8 | 4:
        *out = (double)v.f4;
        return true;
    case 'u' << 8 | 8:
        *out = (double)v.u8;
        return true;
    case 'i' << 8 | 8:
        *out = (double)v.i8;
        return true;
    case 'f' << 8 | 8:
        *out = v.f8;
        return true;
    default:
        return false;
    }
}

static const unsigned char *place_of(const tarn_array *a, const uint64_t *at)
{
    const unsigned char *p = a->data;
    for (unsigned d = 0; d < a->ndim; d++)
        p += (int64_t)at[d] * a->strides[d];
    return p;
}

/* The dimensions of an array that is shown as a picture: [height, width], the same with
 * 1, 3 or 4 channels last, or with 1 or 3 first. Height and width are at least 4. */
typedef struct picture {
    unsigned rows, columns, channel; /* dimensions; channel is ndim if there is none */
    unsigned channels;
} picture;

static bool has_sides(const tarn_array *a, picture p)
{
    return a->shape[p.rows] >= 4 && a->shape[p.columns] >= 4 &&
           a->shape[p.rows] < 1u << 20 && a->shape[p.columns] < 1u << 20;
}

static bool find_picture(const tarn_array *a, picture *out)
{
    unsigned n = a->ndim;
    for (unsigned d = 0; d < n; d++)
        if (a->shape[d] == 0) return false;
    *out = (picture){0, 1, n, 1};
    if (n == 2) return has_sides(a, *out);
    if (n != 3) return false;
    *out = (picture){0, 1, 2, a->shape[2] >= 3 ? 3 : 1};
    if (a->shape[2] == 1 || a->shape[2] == 3 || a->shape[2] == 4)
        return has_sides(a, *out);
    *out = (picture){1, 2, 0, a->shape[0] == 3 ? 3 : 1};
    return (a->shape[0] == 1 || a->shape[0] == 3) && has_sides(a, *out);
}

static double sample(const tarn_array *a, picture p, uint64_t row, uint64_t column,
                     unsigned channel)
{
    uint64_t at[TARN_MAX_DIMS] = {0};
    double value;
    at[p.rows] = row;
    at[p.columns] = column;
    if (p.channel < a->ndim) at[p.channel] = channel;
    return element(a, place_of(a, at), &value) ? value : (double)NAN;
}

bool browse_element(const tarn_array *a, uint64_t i, double *out)
{
    uint64_t at[TARN_MAX_DIMS];
    for (unsigned d = a->ndim; d-- > 0; i /= a->shape[d])
        at[d] = i % a->shape[d];
    return element(a, place_of(a, at), out);
}

bool browse_is_picture(const tarn_array *a)
{
    picture p;
    double first;
    return find_picture(a, &p) && element(a, a->data, &first);
}

/* Maps the smallest shown value to black and the largest to white; bytes stay as they
 * are. */
static tarn_status render_array(const tarn_array *a, unsigned side, tarn_bytes *out,
                                tarn_error *err)
{
    picture p;
    uint32_t width, height;
    double low = INFINITY, high = -INFINITY, first;
    if (!find_picture(a, &p) || !element(a, a->data, &first)) {
        *err = (tarn_error){.code = TARN_ERR_UNSUPPORTED, .offset = TARN_NO_OFFSET};
        snprintf(err->message, sizeof err->message, "this array is not a picture");
        return TARN_ERR_UNSUPPORTED;
    }
    fit(a->shape[p.columns], a->shape[p.rows], side, &width, &height);
    size_t n = (size_t)width * height * p.channels, k = 0;
    double *values = malloc(n * sizeof *values);
    unsigned char *pixels = malloc(n);
    if (!values || !pixels) cli_no_memory();
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (unsigned c = 0; c < p.channels; c++) {
                double v = sample(a, p, y * a->shape[p.rows] / height,
                                  x * a->shape[p.columns] / width, c);
                values[k++] = v;
                if (v < low) low = v;
                if (isfinite(v) && v > high) high = v;
            }
    if (a->dtype.kind == 'u' && a->dtype.size == 1 && p.channels == 3)
        low = 0, high = 255;
    for (k = 0; k < n; k++) {
        double scaled = high > low ? (values[k] - low) / (high - low) * 255 : 128;
        pixels[k] = (unsigned char)(scaled >= 0 ? (scaled < 255 ? scaled : 255) : 0);
    }
    tarn_status status = encode(pixels, width, height, p.channels, out, err);
    free(values);
    free(pixels);
    return status;
}

static tarn_status render_bytes(const char *codec, const void *data, size_t size,
                                unsigned side, tarn_bytes *out, tarn_error *err)
{
    tarn_value value;
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    if (size > BROWSE_MAX_IMAGE) {
        *err = (tarn_error){.code = TARN_ERR_LIMIT, .offset = TARN_NO_OFFSET};
        snprintf(err->message, sizeof err->message, "larger than %d MiB",
                 BROWSE_MAX_IMAGE >> 20);
        return TARN_ERR_LIMIT;
    }
    tarn_status status = render_image(data, size, side, out, err);
    if (status == TARN_OK || kind_of_name(codec) == BROWSE_BYTES) return status;
    o.max_size = BROWSE_MAX_IMAGE;
    o.max_pixels = BROWSE_MAX_PIXELS;
    if (tarn_decode(codec, data, size, &o, &value, NULL) != TARN_OK) return status;
    if (value.count &&
        (value.kind == TARN_VALUE_ARRAY || value.kind == TARN_VALUE_ARRAYS))
        status = render_array(&value.arrays[0], side, out, err);
    tarn_value_release(&value);
    return status;
}

/* --- Answers -------------------------------------------------------------------------
 */

/* The view, the sample and the field of a request, and the bytes. */
static bool open_field(browser *b, const browse_query *q, browse_view **view,
                       uint64_t *out_sample, uint32_t *out_field, tarn_view *out,
                       browse_answer *a)
{
    tarn_error err;
    const char *field = browse_query_get(q, "field");
    *out_sample = 0;
    if (!field || !browse_query_number(q, "i", UINT64_MAX, out_sample)) {
        browse_fail(a, 400, "i and field are needed");
        return false;
    }
    if (!browse_view_open(b, q, view, a)) return false;
    tarn_dataset *set = (*view)->set;
    if (*out_sample >= (*view)->count)
        browse_fail(a, 404, "there is no such sample");
    else if (tarn_dataset_field_find(set, field, out_field, &err) != TARN_OK ||
             tarn_dataset_get(set, *out_sample, *out_field, out, &err) != TARN_OK)
        browse_fail_as(a, &err);
    else
        return true;
    browse_view_close(b, *view);
    return false;
}

static tarn_status render_field(tarn_dataset *set, uint64_t i, uint32_t field,
                                const tarn_view *v, unsigned side, tarn_bytes *out,
                                tarn_error *err)
{
    tarn_field_form form;
    tarn_array array;
    TARN_TRY(tarn_dataset_form(set, i, field, &form, sizeof form, err));
    if (form.form != TARN_FORM_ARRAY)
        return render_bytes(form.codec ? form.codec : "", v->data, v->size, side, out,
                            err);
    TARN_TRY(tarn_array_init(&array, (void *)(uintptr_t)v->data, form.dtype, form.ndim,
                             form.shape, err));
    return render_array(&array, side, out, err);
}

bool browse_picture(tarn_dataset *set, uint64_t i, uint32_t field, unsigned side,
                    tarn_bytes *out, tarn_error *err)
{
    tarn_view v;
    if (tarn_dataset_get(set, i, field, &v, err) != TARN_OK) return false;
    tarn_status status = render_field(set, i, field, &v, side, out, err);
    tarn_view_release(&v);
    return status == TARN_OK;
}

void browse_thumb(browser *b, const browse_query *q, browse_answer *a)
{
    browse_view *view;
    uint64_t i, side = 160;
    uint32_t field;
    tarn_view v;
    tarn_error err;
    tarn_bytes out = TARN_BYTES_INIT;
    if (!browse_query_number(q, "side", BROWSE_MAX_SIDE, &side) || side < 8) {
        browse_fail(a, 400, "side must be from 8 to 4096");
        return;
    }
    if (!open_field(b, q, &view, &i, &field, &v, a)) return;
    tarn_status status =
        render_field(view->set, i, field, &v, (unsigned)side, &out, &err);
    tarn_status kept = tarn_dataset_release(view->set, i, &v, 1, &err);
    browse_view_close(b, view);
    if (status == TARN_OK && kept == TARN_OK) {
        *a = (browse_answer){.status = 200, .type = "image/jpeg", .cache = true};
        a->body = (char *)out.data;
        a->size = out.size;
        return;
    }
    tarn_bytes_release(&out);
    browse_fail_as(a, &err);
    a->status = 422;
}

/* A name for the saved file, without characters that mean something to anybody. */
static void name_file(browse_answer *a, const char *key, const char *field)
{
    size_t n = 0;
    const char *parts[] = {key, ".", field};
    for (int p = 0; p < 3; p++)
        for (const char *c = parts[p]; *c && n + 1 < sizeof a->name; c++) {
            bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                         (*c >= '0' && *c <= '9') || *c == '-' || *c == '_' ||
                         (*c == '.' && n > 0 && a->name[n - 1] != '.');
            a->name[n++] = plain ? *c : '_';
        }
    a->name[n] = '\0';
}

void browse_raw_range(browser *b, const browse_query *q, const char *range,
                      browse_answer *a)
{
    browse_view *view;
    uint64_t i, count;
    uint32_t field;
    tarn_view v;
    tarn_text key = {0};
    if (!open_field(b, q, &view, &i, &field, &v, a)) return;
    const char *type = browse_sniff(v.data, v.size);
    *a = (browse_answer){.status = 200, .view = view, .data = v, .cache = true};
    a->attached = !type || browse_query_get(q, "save");
    a->type = a->attached ? "application/octet-stream" : type;
    a->size = (size_t)(a->total = v.size);
    if (tarn_dataset_key(view->set, i, &key, NULL) == TARN_OK)
        name_file(a, key.data, browse_query_get(q, "field"));
    tarn_text_reset(&key);
    int asked = range ? browse_range_parse(range, v.size, &a->from, &count) : 0;
    if (asked > 0) {
        a->status = 206;
        a->partial = true;
        a->size = (size_t)count;
    } else if (asked < 0) {
        a->status = 416;
        a->partial = true;
        a->size = 0;
    }
}
