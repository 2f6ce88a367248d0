/* Clinical text pairs. A record, before Brotli: the length of a manifest as 32 bits, the
 * manifest (JSON on one line, keys sorted, text as UTF-8), and the texts consecutively,
 * source and compressed alternately. The manifest has their offsets and lengths. */
#include <tarn/textpair.h>

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/json.h"
#include "base/options.h"
#include "base/utf8.h"
#include "iac/file.h"

TARN__DEFINE_INIT(tarn_textpair_options, TARN_TEXTPAIR_OPTIONS_INIT)

enum { SCHEMA_VERSION = 1, MAX_RECORD = 1 << 30 };

static const char category_00[] = "\xe7\x97\x85\xe6\xa1\x88\xe6\x96\x87\xe4\xb9\xa6";

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static size_t text_size(const char *text, size_t size)
{
    return size || !text ? size : strlen(text);
}

/* The text fields of a document, in the order of their keys. */
static const struct {
    const char *key;
    size_t at;
    bool old; /* only in files of version 0.0.2 */
} fields[] = {{"doc_category", offsetof(tarn_textpair_doc, doc_category), false},
              {"doc_id", offsetof(tarn_textpair_doc, doc_id), false},
              {"doc_timestamp", offsetof(tarn_textpair_doc, doc_timestamp), false},
              {"doc_type", offsetof(tarn_textpair_doc, doc_type), false},
              {"encounter", offsetof(tarn_textpair_doc, encounter), false},
              {"old_doc_id", offsetof(tarn_textpair_doc, old_doc_id), true},
              {"old_doc_type", offsetof(tarn_textpair_doc, old_doc_type), true},
              {"old_encounter", offsetof(tarn_textpair_doc, old_encounter), true},
              {"old_source", offsetof(tarn_textpair_doc, old_source), true},
              {"source", offsetof(tarn_textpair_doc, source), false}};
enum { FIELDS = sizeof fields / sizeof fields[0], BEFORE_EPISODE = 5 };

/* --- Writing ---------------------------------------------------------------------- */

static void put_string(tarn__json_writer *w, const char *key, const char *value)
{
    tarn__json_key_text(w, key);
    tarn__json_put_text(w, or_empty(value));
}

static void put_number(tarn__json_writer *w, const char *key, uint64_t value)
{
    tarn__json_key_text(w, key);
    tarn__json_put_uint(w, value);
}

/* Writes the keys in alphabetical order. */
static void put_doc(tarn__json_writer *w, const tarn_textpair_doc *d,
                    tarn_textpair_style style, uint64_t *at)
{
    bool old = style == TARN_TEXTPAIR_00;
    uint64_t source = text_size(d->source_text, d->source_size),
             compressed = text_size(d->compressed_text, d->compressed_size);
    tarn__json_open(w, '{');
    put_number(w, "compressed_length", compressed);
    put_number(w, "compressed_offset", *at + source);
    for (int i = 0; i < FIELDS; i++) {
        const char *text = *(const char *const *)((const char *)d + fields[i].at);
        if (i == 0 && !text && old) text = category_00;
        if (i == BEFORE_EPISODE) {
            tarn__json_key_text(w, "episode_index");
            tarn__json_put_int(w, d->episode_index);
        }
        if (old || !fields[i].old) put_string(w, fields[i].key, text);
    }
    put_number(w, "source_length", source);
    put_number(w, "source_offset", *at);
    tarn__json_close(w, '}');
    *at += source + compressed;
}

static tarn_status put_manifest(tarn__buf *out, const tarn_textpair_patient *p,
                                tarn_textpair_style style, tarn_error *err)
{
    tarn__json_writer w;
    uint64_t at = 0;
    tarn__json_begin(&w, out);
    w.ascii = false;
    tarn__json_open(&w, '{');
    tarn__json_key_text(&w, "docs");
    tarn__json_open(&w, '[');
    for (size_t i = 0; i < p->count; i++)
        put_doc(&w, &p->docs[i], style, &at);
    tarn__json_close(&w, ']');
    put_string(&w, "institution", p->institution);
    put_number(&w, "pair_schema_version", SCHEMA_VERSION);
    put_string(&w, "patient_id", p->patient_id);
    tarn__json_close(&w, '}');
    return tarn__json_end(&w, err);
}

static tarn_status put_text(tarn__buf *out, const char *text, size_t size,
                            tarn_error *err)
{
    size = text_size(text, size);
    if (!size) return TARN_OK;
    if (!tarn__utf8_is_valid(text, size))
        return tarn__fail(err, TARN_ERR_USAGE, "the text of a document is not UTF-8");
    return tarn__buf_add(out, text, size, err);
}

static tarn_status make_record(tarn__buf *out, const tarn_textpair_patient *p,
                               tarn_textpair_style style, tarn_error *err)
{
    out->size = 0;
    TARN_TRY(tarn__buf_add(out, "\0\0\0", 4, err));
    TARN_TRY(put_manifest(out, p, style, err));
    tarn__put32(out->data, (uint32_t)(out->size - 4));
    for (size_t i = 0; i < p->count; i++) {
        const tarn_textpair_doc *d = &p->docs[i];
        TARN_TRY(put_text(out, d->source_text, d->source_size, err));
        TARN_TRY(put_text(out, d->compressed_text, d->compressed_size, err));
    }
    return TARN_OK;
}

static tarn_status add_text(tarn_iac_rows *rows, size_t column, const char *text,
                            tarn_error *err)
{
    tarn_iac_cell cell = {.kind = TARN_IAC_TEXT, .text = text, .size = strlen(text)};
    return tarn_iac_rows_add(rows, column, &cell, err);
}

static tarn_status add_number(tarn_iac_rows *rows, size_t column, uint64_t number,
                              tarn_error *err)
{
    tarn_iac_cell cell = {.kind = TARN_IAC_INTEGER, .integer = (int64_t)number};
    return tarn_iac_rows_add(rows, column, &cell, err);
}

static tarn_status add_slide(tarn_iac_rows *rows, tarn_error *err)
{
    TARN_TRY(add_number(rows, 0, 0, err));
    TARN_TRY(add_text(rows, 1, "clinical_text_pair", err));
    return add_text(rows, 2, "", err);
}

static tarn_status add_row(tarn_iac_rows *rows, const tarn_textpair_patient *p,
                           tarn_error *err)
{
    uint64_t source = 0, compressed = 0;
    for (size_t i = 0; i < p->count; i++) {
        source += text_size(p->docs[i].source_text, p->docs[i].source_size);
        compressed += text_size(p->docs[i].compressed_text, p->docs[i].compressed_size);
    }
    TARN_TRY(add_text(rows, 0, or_empty(p->patient_id), err));
    TARN_TRY(add_text(rows, 1, or_empty(p->institution), err));
    TARN_TRY(add_number(rows, 2, p->count, err));
    TARN_TRY(add_number(rows, 3, source, err));
    return add_number(rows, 4, compressed, err);
}

/* The index table, or the slide table if patients is NULL. */
static tarn_status make_table(const char *const *columns, size_t n,
                              const tarn_textpair_patient *patients, size_t count,
                              struct ArrowArrayStream *out, tarn_error *err)
{
    tarn_iac_rows *rows;
    TARN_TRY(tarn_iac_rows_new(columns, n, &rows, err));
    tarn_status status = patients ? TARN_OK : add_slide(rows, err);
    for (size_t i = 0; i < count && status == TARN_OK; i++)
        status = add_row(rows, &patients[i], err);
    if (status == TARN_OK) return tarn_iac_rows_finish(rows, out, err);
    tarn_iac_rows_free(rows);
    return status;
}

/* Whether the file has this header field from the adapter; a caller's value would make
   the file unreadable. */
static bool is_own_field(const tarn__json *key)
{
    return tarn__json_is(key, "payload_type", 12) ||
           tarn__json_is(key, "pair_schema_version", 19) ||
           tarn__json_is(key, "codec", 5) || tarn__json_is(key, "codec_params", 12);
}

/* The caller's header fields and those of the adapter, which take precedence. */
static tarn_status make_header(const char *caller, tarn__buf *out, tarn_error *err)
{
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    tarn__json_doc doc = {0};
    tarn__json_writer w;
    if (caller) TARN_TRY(tarn__json_parse(&doc, caller, strlen(caller), &o, err));
    const tarn__json *root = caller ? tarn__json_root(&doc) : NULL,
                     *key = root ? root + 1 : NULL;
    bool is_object = !root || root->kind == TARN__JSON_OBJECT;
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    for (uint32_t i = 0; is_object && root && i < root->size; i++) {
        if (!is_own_field(key)) {
            tarn__json_key(&w, key->u.text, key->size);
            tarn__json_put_value(&w, key + 1, false);
        }
        key = tarn__json_next(key + 1);
    }
    put_string(&w, "payload_type", "clinical_text_pair");
    put_number(&w, "pair_schema_version", SCHEMA_VERSION);
    tarn__json_close(&w, '}');
    tarn_status status = tarn__json_end(&w, err);
    tarn__json_reset(&doc);
    if (!is_object)
        return tarn__fail(err, TARN_ERR_USAGE, "the header is not a JSON object");
    return status == TARN_OK ? tarn__buf_add(out, "", 1, err) : status;
}

static tarn_status write_records(tarn_iac_writer *w,
                                 const tarn_textpair_patient *patients, size_t count,
                                 tarn_textpair_style style, tarn_error *err)
{
    tarn__buf record;
    tarn_status status = TARN_OK;
    tarn__buf_init(&record, MAX_RECORD);
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        status = make_record(&record, &patients[i], style, err);
        if (status == TARN_OK)
            status = tarn_iac_writer_add(w, record.data, record.size, err);
    }
    tarn__buf_reset(&record);
    return status;
}

static tarn_status build(const char *path, const tarn_textpair_patient *patients,
                         size_t count, const tarn_textpair_options *o, const char *header,
                         tarn_error *err)
{
    static const char *const slide_columns[] = {"u8:slide_idx", "text:slide_id",
                                                "text:patient_id"},
                             *const columns[] = {"text:patient_id", "text:institution",
                                                 "u32:num_docs", "uint:source_raw_bytes",
                                                 "uint:compressed_raw_bytes"};
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_iac_write_options write = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac_writer *w;
    write.header = header;
    write.codec = "brotli";
    write.level = o->quality;
    write.overwrite = o->overwrite;
    write.in_order = o->in_order;
    write.utf8 = o->style == TARN_TEXTPAIR_01;
    TARN_TRY(make_table(slide_columns, 3, NULL, 0, &slides, err));
    tarn_status status = make_table(columns, 5, patients, count, &index, err);
    if (status != TARN_OK) {
        slides.release(&slides);
        return status;
    }
    TARN_TRY(tarn_iac_writer_open(path, &slides, &index, &write, &w, err));
    status = write_records(w, patients, count, o->style, err);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, err);
    tarn_iac_writer_abandon(w);
    return status;
}

tarn_status tarn_textpair_build(const char *path, const tarn_textpair_patient *patients,
                                size_t count, const tarn_textpair_options *options,
                                tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "patients", patients || !count);
    TARN__OPTIONS(tarn_textpair_options, o, TARN_TEXTPAIR_OPTIONS_INIT, options, err);
    tarn__buf header;
    if (count == 0) return tarn__fail(err, TARN_ERR_USAGE, "no patients to pack");
    tarn__buf_init(&header, TARN_IAC_HEADER_BYTES);
    tarn_status status = make_header(o.header, &header, err);
    if (status == TARN_OK) status = build(path, patients, count, &o, header.data, err);
    tarn__buf_reset(&header);
    return status;
}

/* --- Reading ---------------------------------------------------------------------- */

/* The memory that a patient points into. */
typedef struct record {
    tarn_view bytes;
    tarn__json_doc manifest;
    tarn_textpair_doc docs[];
} record;

static tarn_status bad(const char *what, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "not a clinical text pair: %s", what);
}

static tarn_status get_string(const tarn__json *object, const char *key, const char **out,
                              tarn_error *err)
{
    const tarn__json *v = tarn__json_find(object, key);
    *out = "";
    if (!v) return TARN_OK;
    if (v->kind != TARN__JSON_STRING || strlen(v->u.text) != v->size)
        return bad("a field is not a string", err);
    *out = v->u.text;
    return TARN_OK;
}

static tarn_status get_text(const tarn__json *doc, const char *offset_key,
                            const char *length_key, const tarn_view *texts,
                            const char **out, size_t *out_size, tarn_error *err)
{
    uint64_t offset, length;
    const tarn__json *o = tarn__json_find(doc, offset_key),
                     *l = tarn__json_find(doc, length_key);
    if (!o || !l || !tarn__json_uint64(o, &offset) || !tarn__json_uint64(l, &length))
        return bad("the offset or length of a text is missing or invalid", err);
    if (!tarn__range_in(offset, length, texts->size))
        return bad("a text is outside the record", err);
    /* An empty text is "" and not NULL with length 0, because a length of 0 means "up to
     * the NUL" when a record is written from this patient. */
    *out = length ? (const char *)texts->data + offset : "";
    *out_size = (size_t)length;
    return TARN_OK;
}

static tarn_status get_doc(const tarn__json *v, const tarn_view *texts,
                           tarn_textpair_doc *out, tarn_error *err)
{
    const tarn__json *episode;
    if (v->kind != TARN__JSON_OBJECT) return bad("a document is not an object", err);
    for (int i = 0; i < FIELDS; i++)
        TARN_TRY(get_string(v, fields[i].key, (const char **)((char *)out + fields[i].at),
                            err));
    out->episode_index = -1;
    episode = tarn__json_find(v, "episode_index");
    if (episode && !tarn__json_int64(episode, &out->episode_index))
        return bad("episode_index is not an integer", err);
    TARN_TRY(get_text(v, "source_offset", "source_length", texts, &out->source_text,
                      &out->source_size, err));
    return get_text(v, "compressed_offset", "compressed_length", texts,
                    &out->compressed_text, &out->compressed_size, err);
}

static tarn_status get_patient(record *r, const tarn_view *texts,
                               tarn_textpair_patient *out, tarn_error *err)
{
    const tarn__json *root = tarn__json_root(&r->manifest),
                     *docs = tarn__json_find(root, "docs"), *doc = docs ? docs + 1 : NULL;
    TARN_TRY(get_string(root, "patient_id", &out->patient_id, err));
    TARN_TRY(get_string(root, "institution", &out->institution, err));
    out->count = docs ? docs->size : 0;
    for (size_t i = 0; i < out->count; i++) {
        TARN_TRY(get_doc(doc, texts, &r->docs[i], err));
        doc = tarn__json_next(doc);
    }
    out->docs = r->docs;
    return TARN_OK;
}

static tarn_status parse_manifest(const tarn_view *bytes, tarn__json_doc *out,
                                  tarn_view *texts, tarn_error *err)
{
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    o.last_wins = true;
    if (bytes->size < 4) return bad("the record is too short", err);
    uint32_t length = tarn__get32(bytes->data);
    if (length > bytes->size - 4) return bad("the manifest is truncated", err);
    TARN_TRY(tarn__json_parse(out, (const char *)bytes->data + 4, length, &o, err));
    const tarn__json *root = tarn__json_root(out);
    const tarn__json *docs = tarn__json_find(root, "docs");
    if (root->kind != TARN__JSON_OBJECT || (docs && docs->kind != TARN__JSON_LIST))
        return bad("the manifest is not an object with a list of documents", err);
    *texts = (tarn_view){bytes->data + 4 + length, bytes->size - 4 - length, NULL};
    return TARN_OK;
}

static tarn_status parse(tarn_view *bytes, tarn_textpair_patient *out, tarn_error *err)
{
    tarn__json_doc manifest = {0};
    tarn_view texts;
    tarn_status status = parse_manifest(bytes, &manifest, &texts, err);
    const tarn__json *docs =
        status == TARN_OK ? tarn__json_find(tarn__json_root(&manifest), "docs") : NULL;
    size_t count = docs ? docs->size : 0;
    record *r =
        status == TARN_OK ? calloc(1, sizeof *r + count * sizeof r->docs[0]) : NULL;
    if (!r) {
        tarn__json_reset(&manifest);
        return status == TARN_OK ? tarn__fail_memory(err) : status;
    }
    r->bytes = *bytes;
    r->manifest = manifest;
    *bytes = (tarn_view)TARN_VIEW_INIT;
    out->owned = r;
    return get_patient(r, &texts, out, err);
}

tarn_status tarn_textpair_read(tarn_iac *pack, uint64_t row, tarn_textpair_patient *out,
                               tarn_error *err)
{
    TARN__NEED(err, "pack", pack);
    TARN__NEED(err, "out", out);
    tarn_view bytes;
    *out = (tarn_textpair_patient){0};
    TARN_TRY(tarn_iac_view(pack, row, true, &bytes, err));
    tarn_status status = parse(&bytes, out, err);
    tarn_view_release(&bytes);
    if (status == TARN_OK) return TARN_OK;
    tarn_textpair_reset(out);
    if (status != TARN_ERR_MEMORY)
        tarn__error_place(err, pack->file->path, pack->header.data_offset);
    return status;
}

void tarn_textpair_reset(tarn_textpair_patient *patient)
{
    if (!patient) return;
    record *r = patient->owned;
    if (r) {
        tarn_view_release(&r->bytes);
        tarn__json_reset(&r->manifest);
        free(r);
    }
    *patient = (tarn_textpair_patient){0};
}
