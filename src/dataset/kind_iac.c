/* Record packs (IAC files) as a source: the payload, and the columns of the index table
 * as JSON. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <tarn/iac.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "dataset/digest.h"
#include "iac/file.h"
#include "iac/ipc.h"

typedef struct state {
    tarn__records pack;
    char *key_column;
    size_t key_number;
    size_t *columns; /* by field; the payload is field 0 */
} state;

static void close_iac(void *p)
{
    state *s = p;
    tarn_iac_close(s->pack.iac);
    free(s->columns);
    free(s->key_column);
    free(s);
}

tarn_iac *tarn__storage_pack(const tarn__storage *source)
{
    if (source->kind != &tarn__kind_iac) return NULL;
    return ((const state *)source->state)->pack.iac;
}

/* Columns that describe where a payload is stored. Models do not need them, so they are
 * fields only if the caller names them. */
static bool is_span(const char *name)
{
    return strcmp(name, "offset") == 0 || strcmp(name, "length") == 0 ||
           strcmp(name, "crc32") == 0;
}

static tarn_status add_columns(state *s, tarn__storage *source, bool spans,
                               tarn_error *err)
{
    const struct ArrowSchema *index = &s->pack.iac->tables[TARN_IAC_INDEX]->schema;
    for (size_t i = 0; i < s->pack.info.columns[TARN_IAC_INDEX]; i++) {
        const char *name = index->children[i]->name;
        uint32_t id;
        if (is_span(name) != spans ||
            tarn__names_find(&source->fields, name, strlen(name)) != TARN__NAME_NONE)
            continue;
        TARN_TRY(tarn__names_add(&source->fields, name, strlen(name), &id, err));
        s->columns[id] = i;
    }
    return TARN_OK;
}

static tarn_status list_fields(state *s, tarn__storage *source, tarn_error *err)
{
    uint32_t id;
    s->columns = calloc(s->pack.info.columns[TARN_IAC_INDEX] + 2, sizeof *s->columns);
    if (!s->columns) return tarn__fail_memory(err);
    TARN_TRY(tarn__names_add(&source->fields, "payload", 7, &id, err));
    TARN_TRY(add_columns(s, source, false, err));
    source->n_plain = source->fields.count;
    return add_columns(s, source, true, err);
}

static tarn_status set_key_column(state *s, const tarn__storage *source, const char *name,
                                  tarn_error *err)
{
    char names[600];
    uint64_t row;
    if (!name) return TARN_OK;
    uint32_t id = tarn__names_find(&source->fields, name, strlen(name));
    if (id == TARN__NAME_NONE || id == 0)
        return tarn__fail_at(err, TARN_ERR_NO_FIELD, s->pack.source->path, TARN_NO_OFFSET,
                             "no column %s for keys; the columns are %s", name,
                             tarn__list_names(&source->fields, names, sizeof names));
    s->key_number = s->columns[id];
    if (!(s->key_column = strdup(name))) return tarn__fail_memory(err);
    /* Fail now if the column cannot be searched. */
    tarn_status status = tarn_iac_find(s->pack.iac, name, "", 0, 0, &row, err);
    return status == TARN_ERR_NO_SAMPLE ? TARN_OK : status;
}

tarn_status tarn__open_iac(tarn__storage *source, const tarn_dataset_options *o,
                           tarn_error *err)
{
    tarn_iac_options po = TARN_IAC_OPTIONS_INIT;
    po.check = o->check;
    po.no_map = o->io == TARN_IO_READ;
    tarn_iac *iac;
    state *s = source->state = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    TARN_TRY(tarn__iac_open(source->path, &po, source->cache, &iac, err));
    s->pack.iac = iac;
    source->shards = 1;
    source->repeats = true;
    if (!o->key_column && !o->records) {
        bool members;
        TARN_TRY(tarn__open_members(source, o, iac, &members, err));
        if (members) {
            s->pack.iac = NULL;
            close_iac(s);
            return TARN_OK;
        }
    }
    s->pack = tarn__records_of(iac, source, o);
    source->samples = s->pack.info.records;
    source->numbered = !o->key_column;
    TARN_TRY(list_fields(s, source, err));
    return set_key_column(s, source, o->key_column, err);
}

static tarn_status view_iac(void *p, uint64_t sample, uint32_t field, tarn_view *out,
                            tarn_error *err)
{
    state *s = p;
    if (field > 0)
        return tarn_iac_value(s->pack.iac, TARN_IAC_INDEX, s->columns[field], sample, out,
                              err);
    return tarn__records_view(&s->pack, sample, out, err);
}

/* --- Common to records and members -------------------------------------------------- */

tarn__records tarn__records_of(tarn_iac *iac, tarn__storage *source,
                               const tarn_dataset_options *o)
{
    tarn__records p = {.iac = iac, .source = source};
    tarn__files_init_one(&source->files, &iac->file->file, iac->file->map, o->cold,
                         o->io);
    source->remote = tarn__files_are_away(&source->files);
    tarn_iac_info_get(iac, &p.info, sizeof p.info);
    p.decode = o->decompress && iac->codec != IAC_NONE && iac->codec != IAC_IMAGE;
    return p;
}

tarn_status tarn__records_view(const tarn__records *p, uint64_t record, tarn_view *out,
                               tarn_error *err)
{
    return tarn_iac_view(p->iac, record, p->decode, out, err);
}

tarn_status tarn__records_locate(const tarn__records *p, uint64_t record, tarn__spot *out,
                                 tarn_error *err)
{
    tarn_iac_span span;
    TARN_TRY(tarn_iac_locate(p->iac, record, &span, err));
    *out = (tarn__spot){.row = record,
                        .offset = p->iac->header.data_offset + span.offset,
                        .size = span.length,
                        .made = p->decode};
    return TARN_OK;
}

tarn_status tarn__records_settle(void *pack, uint64_t sample, tarn_error *err)
{
    (void)sample;
    return tarn__source_file_settle(((const tarn__records *)pack)->iac->file, err);
}

tarn_status tarn__records_copy(void *pack, tarn__cold_way way, const tarn__item *items,
                               size_t count, const tarn__target *to, tarn_error *err)
{
    const tarn__records *p = pack;
    if (way == TARN__COLD_GATHER) {
        TARN_TRY(tarn__source_file_check(p->iac->file, err));
        TARN_TRY(tarn__files_read(&p->source->files, items, count, to, err));
    }
    for (size_t i = 0; i < count; i++) {
        const tarn__spot *spot = &items[i].spot;
        unsigned char *data = to->data + to->offsets[items[i].number];
        if (way == TARN__COLD_GATHER)
            TARN_TRY(tarn__iac_check(p->iac, spot->row, data, err));
        else
            TARN_TRY(tarn__iac_copy(p->iac, spot->row, data, (size_t)spot->size, err));
    }
    return TARN_OK;
}

tarn_status tarn__records_describe(void *pack, tarn__buf *out, tarn_error *err)
{
    const tarn__records *p = pack;
    XXH64_state_t hash;
    XXH64_reset(&hash, 0);
    tarn__digest_text(&hash, p->info.header, p->info.header_length);
    for (uint64_t i = 0; p->info.has_spans && i < p->info.records; i++) {
        tarn_iac_span span;
        TARN_TRY(tarn_iac_locate(p->iac, i, &span, err));
        tarn__digest_number(&hash, span.offset);
        tarn__digest_number(&hash, span.length);
        tarn__digest_number(&hash, span.crc32);
    }
    return tarn__digest_end(&hash, "iac", p->source->samples, out, err);
}

/* --- Records ------------------------------------------------------------------------ */

/* Columns have no place in the file: their text is made on demand. */
static tarn_status locate_iac(void *p, tarn__item *items, size_t count, tarn_error *err)
{
    const state *s = p;
    for (size_t i = 0; i < count; i++) {
        tarn__item *item = &items[i];
        if (item->field == 0)
            TARN_TRY(tarn__records_locate(&s->pack, item->sample, &item->spot, err));
        else
            item->spot = (tarn__spot){.row = item->sample,
                                      .offset = TARN_NO_OFFSET,
                                      .size = TARN__NO_SIZE,
                                      .made = true};
    }
    return TARN_OK;
}

/* A column's value as a key: text unchanged, other types as JSON. */
static tarn_status key_text(const tarn_view *json, tarn_text *out, tarn_error *err)
{
    tarn__json_doc doc;
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    if (json->size == 0 || json->data[0] != '"')
        return tarn__text_set(out, (const char *)json->data, json->size, err);
    TARN_TRY(tarn__json_parse(&doc, (const char *)json->data, json->size, &o, err));
    const tarn__json *v = tarn__json_root(&doc);
    tarn_status status = tarn__text_set(out, v->u.text, v->size, err);
    tarn__json_reset(&doc);
    return status;
}

static tarn_status key_iac(void *p, uint64_t sample, tarn_text *out, tarn_error *err)
{
    state *s = p;
    tarn_view value;
    if (!s->key_column) return tarn__row_key(sample, out, err);
    TARN_TRY(
        tarn_iac_value(s->pack.iac, TARN_IAC_INDEX, s->key_number, sample, &value, err));
    tarn_status status = key_text(&value, out, err);
    tarn_view_release(&value);
    return status;
}

static tarn_status find_iac(void *p, const char *key, uint64_t from, uint64_t *out,
                            tarn_error *err)
{
    state *s = p;
    if (s->key_column)
        return tarn_iac_find(s->pack.iac, s->key_column, key, strlen(key), from, out,
                             err);
    if (tarn__find_row(key, from, s->pack.info.records, out)) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, s->pack.source->path, TARN_NO_OFFSET,
                         "no record %s (the file has %llu records); to find records by "
                         "a column, set key_column",
                         TARN__SHOW(key, strlen(key)),
                         (unsigned long long)s->pack.info.records);
}

/* The name of the codec that decodes the payloads. */
static const char *payload_codec(const tarn_iac_info *info)
{
    static const char *const images[][2] = {{"jpeg", "jpg"},
                                            {"jpg", "jpg"},
                                            {"png", "png"},
                                            {"jxl", "jxl"},
                                            {"webp", "webp"}};
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        if (strcasecmp(images[i][0], info->codec) == 0) return images[i][1];
    return "bin";
}

/* Integers and reals have their own forms; all other columns are JSON. */
static tarn_form column_form(const struct ArrowSchema *column)
{
    tarn__layout layout = {0};
    (void)tarn__layout_get(column->format, &layout);
    if (column->dictionary || strlen(column->format) != 1) return TARN_FORM_JSON;
    return layout.number == 'f' ? TARN_FORM_REAL
           : layout.number      ? TARN_FORM_INTEGER
                                : TARN_FORM_JSON;
}

static tarn_status form_iac(void *p, uint32_t field, tarn_field_form *out,
                            tarn_error *err)
{
    const state *s = p;
    if (field == 0)
        *out = (tarn_field_form){.form = TARN_FORM_BYTES,
                                 .codec = payload_codec(&s->pack.info)};
    else
        *out = (tarn_field_form){
            .form = column_form(
                s->pack.iac->tables[TARN_IAC_INDEX]->schema.children[s->columns[field]]),
            .codec = "json"};
    return TARN_OK;
}

const tarn__storage_kind tarn__kind_iac = {
    .kind = TARN_DATASET_IAC,
    .close = close_iac,
    .locate = locate_iac,
    .view = view_iac,
    .key = key_iac,
    .find = find_iac,
    .copy = tarn__records_copy,
    .settle = tarn__records_settle,
    .form = form_iac,
    .describe = tarn__records_describe,
};
