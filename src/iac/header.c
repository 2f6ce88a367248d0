/* Parses and writes the fixed header. */
#include "iac/header.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/sort.h"

static const char magic[7] = {'I', 'A', 'T', 'R', 'O', 'C', '\0'};

static tarn_status wrong(tarn_error *err, const char *key, const char *what)
{
    return tarn__fail_at(err, TARN_ERR_FORMAT, NULL, IAC_PREFIX, "header: %s %s", key,
                         what);
}

static tarn_status get_number(const tarn__json *root, const char *key, uint64_t *out,
                              tarn_error *err)
{
    const tarn__json *v = tarn__json_find(root, key);
    if (!v) return wrong(err, key, "is missing");
    if (!tarn__json_uint64(v, out) || *out > INT64_MAX)
        return wrong(err, key,
                     "is not a number from 0 to 2^63 - 1 (sums of larger "
                     "ones overflow)");
    return TARN_OK;
}

static char *get_text(const tarn__json *root, const char *key)
{
    const tarn__json *v = tarn__json_find(root, key);
    return strdup(v && v->kind == TARN__JSON_STRING ? v->u.text : "");
}

/* Values that appear twice must agree; values that only newer writers write may be
 * missing. */
static tarn_status check_constants(const tarn__iac_header *h, const tarn__json *root,
                                   tarn_error *err)
{
    uint64_t value;
    const tarn__json *format = tarn__json_find(root, "format");
    if (format && !tarn__json_is(format, "IatroCache", 10))
        return wrong(err, "format", "is not IatroCache");
    if (tarn__json_find(root, "version")) {
        TARN_TRY(get_number(root, "version", &value, err));
        if (value != h->version)
            return wrong(err, "version", "does not match the magic bytes");
    }
    if (tarn__json_find(root, "header_bytes")) {
        TARN_TRY(get_number(root, "header_bytes", &value, err));
        if (value != TARN_IAC_HEADER_BYTES)
            return wrong(err, "header_bytes", "is not 65536");
    }
    return TARN_OK;
}

static tarn_status get_layout(tarn__iac_header *h, const tarn__json *root,
                              tarn_error *err)
{
    bool first = h->version == 1;
    const char *offset = first ? "record_table_offset" : "index_table_offset",
               *length = first ? "record_table_length" : "index_table_length";
    TARN_TRY(get_number(root, "slide_table_offset", &h->slide_table_offset, err));
    TARN_TRY(get_number(root, "slide_table_length", &h->slide_table_length, err));
    TARN_TRY(get_number(root, offset, &h->index_table_offset, err));
    TARN_TRY(get_number(root, length, &h->index_table_length, err));
    TARN_TRY(get_number(root, "data_offset", &h->data_offset, err));
    TARN_TRY(get_number(root, "data_length", &h->data_length, err));
    TARN_TRY(get_number(root, "num_slides", &h->num_slides, err));
    TARN_TRY(get_number(root, "num_records", &h->num_records, err));
    const tarn__json *fixed = tarn__json_find(root, "feature_record_bytes");
    if (fixed && !tarn__json_uint64(fixed, &h->record_bytes))
        return wrong(err, "feature_record_bytes", "is not a number");
    return TARN_OK;
}

static tarn_status check_layout(const tarn__iac_header *h, uint64_t file_size,
                                tarn_error *err)
{
    if (h->slide_table_offset != TARN_IAC_HEADER_BYTES)
        return wrong(err, "slide_table_offset", "is not 65536");
    /* Each sum is of two numbers below 2^63. */
    if (h->slide_table_offset + h->slide_table_length != h->index_table_offset)
        return wrong(err, h->version == 1 ? "record_table_offset" : "index_table_offset",
                     "is not where the slide table ends");
    if (h->index_table_offset + h->index_table_length != h->data_offset)
        return wrong(err, "data_offset", "is not where the index table ends");
    if (!tarn__range_in(h->data_offset, h->data_length, file_size))
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, NULL, file_size,
                             "the file ends here, but its header says that the data "
                             "segment has %llu bytes at offset %llu",
                             (unsigned long long)h->data_length,
                             (unsigned long long)h->data_offset);
    /* Every row takes some bytes, so a count above the file size is wrong, and would cost
     * memory. */
    if (h->num_records > file_size || h->num_slides > file_size)
        return wrong(err, "num_records",
                     "or num_slides is larger than the number of bytes in the file");
    return TARN_OK;
}

static tarn_status parse_json(tarn__iac_header *h, tarn__json_doc *doc,
                              uint64_t file_size, tarn_error *err)
{
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    o.last_wins = true;
    tarn_status status = tarn__json_parse(doc, h->text, h->text_length, &o, err);
    if (status != TARN_OK) {
        if (err && err->offset != TARN_NO_OFFSET) err->offset += IAC_PREFIX;
        return status;
    }
    const tarn__json *root = tarn__json_root(doc);
    if (root->kind != TARN__JSON_OBJECT) return wrong(err, "JSON", "is not an object");
    TARN_TRY(check_constants(h, root, err));
    TARN_TRY(get_layout(h, root, err));
    h->codec = get_text(root, "codec");
    h->payload_type = get_text(root, "payload_type");
    if (!h->codec || !h->payload_type) return tarn__fail_memory(err);
    return check_layout(h, file_size, err);
}

tarn_status tarn__iac_header_parse(tarn__iac_header *h, const unsigned char *data,
                                   size_t size, uint64_t file_size, tarn_error *err)
{
    tarn__json_doc doc = {0};
    *h = (tarn__iac_header){0};
    if (size < IAC_PREFIX || memcmp(data, magic, sizeof magic) != 0)
        return tarn__fail_at(
            err, TARN_ERR_FORMAT, NULL, 0,
            "not an IAC file (bad magic): it does not begin with IATROC");
    if (data[7] != 1 && data[7] != 2)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, NULL, 7,
                             "unsupported IatroCache version: %u (expected 1 or 2)",
                             data[7]);
    h->version = data[7];
    if (tarn__get32(data + 12) != h->version)
        return tarn__fail_at(
            err, TARN_ERR_FORMAT, NULL, 12,
            "unsupported IatroCache version: %u here, but %u in the magic "
            "bytes",
            tarn__get32(data + 12), h->version);
    h->text_length = tarn__get32(data + 8);
    if (h->text_length > IAC_MAX_JSON)
        return tarn__fail_at(err, TARN_ERR_FORMAT, NULL, 8,
                             "the JSON of the header has %zu bytes; the limit is %d",
                             h->text_length, IAC_MAX_JSON);
    if (size < TARN_IAC_HEADER_BYTES)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, NULL, size,
                             "the file ends inside its header");
    h->text = malloc(h->text_length + 1);
    if (!h->text) return tarn__fail_memory(err);
    memcpy(h->text, data + IAC_PREFIX, h->text_length);
    h->text[h->text_length] = '\0';
    tarn_status status = parse_json(h, &doc, file_size, err);
    tarn__json_reset(&doc);
    return status;
}

void tarn__iac_header_reset(tarn__iac_header *h)
{
    free(h->codec);
    free(h->payload_type);
    free(h->text);
    *h = (tarn__iac_header){0};
}

/* --- Writing ---------------------------------------------------------------------- */

/* One line of the header: a JSON value, or a text or number set by the writer. */
typedef struct entry {
    const char *key;
    size_t key_length;
    const tarn__json *value;
    const char *text;
    uint64_t number;
} entry;

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return tarn__compare_bytes(x->key, x->key_length, y->key, y->key_length);
}

static entry *find_entry(entry *entries, size_t count, const char *key)
{
    entry like = {.key = key, .key_length = strlen(key)};
    for (size_t i = 0; i < count; i++)
        if (by_key(&entries[i], &like) == 0) return &entries[i];
    return NULL;
}

static void set(entry *entries, size_t *count, entry e)
{
    entry *old = find_entry(entries, *count, e.key);
    e.key_length = strlen(e.key);
    *(old ? old : &entries[(*count)++]) = e;
}

static void set_layout(entry *entries, size_t *count, const tarn__iac_header *h)
{
    bool first = h->version == 1;
    const entry ours[] = {{.key = "format", .text = "IatroCache"},
                          {.key = "version", .number = h->version},
                          {.key = "header_bytes", .number = TARN_IAC_HEADER_BYTES},
                          {.key = "slide_table_offset", .number = h->slide_table_offset},
                          {.key = "slide_table_length", .number = h->slide_table_length},
                          {.key = first ? "record_table_offset" : "index_table_offset",
                           .number = h->index_table_offset},
                          {.key = first ? "record_table_length" : "index_table_length",
                           .number = h->index_table_length},
                          {.key = "data_offset", .number = h->data_offset},
                          {.key = "data_length", .number = h->data_length},
                          {.key = "num_slides", .number = h->num_slides},
                          {.key = "num_records", .number = h->num_records}};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        set(entries, count, ours[i]);
}

/* Whether a key is one that this version uses for the position of the index table. */
static bool is_place(const tarn__json *key, unsigned version)
{
    if (version == 1)
        return tarn__json_is(key, "record_table_offset", 19) ||
               tarn__json_is(key, "record_table_length", 19);
    return tarn__json_is(key, "index_table_offset", 18) ||
           tarn__json_is(key, "index_table_length", 18);
}

/* When the header of a version 2 file is given for a version 1 file, its position keys
 * are dropped. In the other direction the names may be the caller's. */
static void set_callers(entry *entries, size_t *count, const tarn__json *root,
                        unsigned version)
{
    const tarn__json *key = root ? root + 1 : NULL;
    for (uint32_t i = 0; root && i < root->size; i++) {
        const tarn__json *value = key + 1;
        if (version != 1 || !is_place(key, 2))
            entries[(*count)++] =
                (entry){.key = key->u.text, .key_length = key->size, .value = value};
        key = tarn__json_next(value);
    }
}

static void put_entry(tarn__json_writer *w, const entry *e, bool in_order)
{
    tarn__json_key(w, e->key, e->key_length);
    if (e->value)
        tarn__json_put_value(w, e->value, !in_order);
    else if (e->text)
        tarn__json_put_text(w, e->text);
    else
        tarn__json_put_uint(w, e->number);
}

static tarn_status write_entries(entry *entries, size_t count, const tarn__iac_caller *c,
                                 tarn__buf *out, tarn_error *err)
{
    tarn__json_writer w;
    qsort(entries, count, sizeof *entries, by_key);
    tarn__json_begin(&w, out);
    w.indent = 2;
    w.ascii = !c->utf8;
    tarn__json_open(&w, '{');
    for (size_t i = 0; i < count; i++)
        put_entry(&w, &entries[i], c->in_order);
    tarn__json_close(&w, '}');
    return tarn__json_end(&w, err);
}

/* Adds the codec and its parameters, if it has any, unless the caller's fields name a
 * codec. params must outlive the entries. */
static tarn_status set_codec(entry *entries, size_t *count, const tarn__iac_caller *c,
                             tarn__json_doc *params, tarn_error *err)
{
    char text[64];
    tarn__iac_codec codec = tarn__iac_codec_named(c->codec);
    size_t len = tarn__iac_codec_params(codec, c->level, text, sizeof text);
    if (codec == IAC_NONE || find_entry(entries, *count, "codec")) return TARN_OK;
    set(entries, count, (entry){.key = "codec", .text = c->codec});
    if (!len || find_entry(entries, *count, "codec_params")) return TARN_OK;
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    TARN_TRY(tarn__json_parse(params, text, len, &o, err));
    set(entries, count, (entry){.key = "codec_params", .value = tarn__json_root(params)});
    return TARN_OK;
}

static tarn_status make_json(const tarn__iac_header *h, const tarn__json *root,
                             const tarn__iac_caller *c, tarn__buf *out, tarn_error *err)
{
    enum { OURS = 16 };
    size_t count = 0;
    tarn__json_doc params = {0};
    entry *entries = calloc((root ? root->size : 0) + OURS, sizeof *entries);
    if (!entries) return tarn__fail_memory(err);
    set_callers(entries, &count, root, h->version);
    tarn_status status = set_codec(entries, &count, c, &params, err);
    set_layout(entries, &count, h);
    if (status == TARN_OK) status = write_entries(entries, count, c, out, err);
    tarn__json_reset(&params);
    free(entries);
    return status;
}

tarn_status tarn__iac_header_make(unsigned char *out, const tarn__iac_header *h,
                                  const tarn__iac_caller *c, tarn_error *err)
{
    tarn__json_doc doc = {0};
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    tarn__buf text;
    o.last_wins = true;
    tarn__buf_init(&text, 16u << 20);
    tarn_status status = TARN_OK;
    if (c->text) status = tarn__json_parse(&doc, c->text, c->length, &o, err);
    const tarn__json *root = c->text && status == TARN_OK ? tarn__json_root(&doc) : NULL;
    if (root && root->kind != TARN__JSON_OBJECT)
        status = tarn__fail(err, TARN_ERR_USAGE, "the header is not a JSON object");
    if (status == TARN_OK) status = make_json(h, root, c, &text, err);
    if (status == TARN_OK && text.size > IAC_MAX_JSON)
        status = tarn__fail(err, TARN_ERR_LIMIT,
                            "the JSON of the header has %zu bytes; the limit is %d",
                            text.size, IAC_MAX_JSON);
    if (status == TARN_OK) {
        memset(out, 0, TARN_IAC_HEADER_BYTES);
        memcpy(out, magic, sizeof magic);
        out[7] = (unsigned char)h->version;
        tarn__put32(out + 8, (uint32_t)text.size);
        tarn__put32(out + 12, h->version);
        memcpy(out + IAC_PREFIX, text.data, text.size);
    }
    tarn__json_reset(&doc);
    tarn__buf_reset(&text);
    return status;
}

/* --- Copying fields --------------------------------------------------------------- */

static bool is_codec(const tarn__json *key)
{
    return tarn__json_is(key, "codec", 5) || tarn__json_is(key, "codec_params", 12);
}

tarn_status tarn__iac_header_carry(tarn__json_writer *w, const tarn__iac_header *h,
                                   bool codec, tarn_error *err)
{
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    tarn__json_doc doc;
    o.last_wins = true;
    TARN_TRY(tarn__json_parse(&doc, h->text, h->text_length, &o, err));
    const tarn__json *root = tarn__json_root(&doc), *key = root + 1;
    for (uint32_t i = 0; i < root->size; i++) {
        if (!is_place(key, h->version) && (codec || !is_codec(key))) {
            tarn__json_key(w, key->u.text, key->size);
            tarn__json_put_value(w, key + 1, false);
        }
        key = tarn__json_next(key + 1);
    }
    tarn__json_reset(&doc);
    return TARN_OK;
}
