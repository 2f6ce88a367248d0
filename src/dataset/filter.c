/* Filters: each marks the samples it keeps, and makes a dataset of those. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/iac.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/runs.h"
#include "dataset/dataset.h"
#include "io/file.h"

/* A filter at work: the samples it judges, and a bit for each. */
typedef struct filter {
    tarn_dataset *dataset, *judged;
    unsigned char *marks;
} filter;

static void mark(unsigned char *marks, uint64_t sample)
{
    marks[sample / 8] |= (unsigned char)(1u << (sample % 8));
}

static bool is_marked(const unsigned char *marks, uint64_t sample)
{
    return marks[sample / 8] >> (sample % 8) & 1;
}

static tarn_status begin(filter *f, tarn_dataset *d, tarn_error *err)
{
    *f = (filter){.dataset = d};
    TARN_TRY(tarn__dataset_judged(d, &f->judged, err));
    f->marks = calloc((size_t)(f->judged->count / 8 + 1), 1);
    if (f->marks) return TARN_OK;
    tarn_dataset_close(f->judged);
    return tarn__fail_memory(err);
}

/* Makes the dataset, if all went well, and frees what the filter needed. */
static tarn_status end(filter *f, tarn_status status, tarn_dataset **out, tarn_error *err)
{
    if (status == TARN_OK) status = tarn__dataset_keep(f->dataset, f->marks, out, err);
    tarn_dataset_close(f->judged);
    free(f->marks);
    return status;
}

/* --- By key ------------------------------------------------------------------------ */

/* Keys that were not there: how many, and the first few. */
typedef struct missing {
    size_t count;
    char names[400];
} missing;

static void add_missing(missing *m, const char *key)
{
    enum { NAMED = 5 };
    char shown[80];
    size_t used = strlen(m->names), room = sizeof m->names - used;
    if (m->count++ < NAMED && sizeof shown < room)
        snprintf(m->names + used, room, "%s%s", m->count > 1 ? ", " : "",
                 tarn_printable(shown, sizeof shown, key, strlen(key)));
}

static tarn_status fail_missing(const tarn_dataset *d, const missing *m, size_t of,
                                tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, d->source->path, TARN_NO_OFFSET,
                         "%zu of %zu keys are not in the dataset: %s%s", m->count, of,
                         m->names, m->count > 5 ? ", ..." : "");
}

/* Rows that have a key. */
typedef struct row_list {
    uint64_t *rows;
    size_t count, capacity;
} row_list;

static tarn_status add_row(void *context, uint64_t row, tarn_error *err)
{
    row_list *l = context;
    TARN_TRY(tarn__grow(&l->rows, sizeof *l->rows, l->count, &l->capacity, err));
    l->rows[l->count++] = row;
    return TARN_OK;
}

/* Marks all samples of a row; whether there are any. */
static bool mark_row(filter *f, const tarn__run *places, uint64_t row)
{
    uint64_t count = f->judged->count, at;
    if (!places) {
        bool is = tarn__chain_find(&f->judged->chain, count, row, 0, &at);
        if (is) mark(f->marks, at);
        return is;
    }
    uint64_t first = at = tarn__place_of(places, count, row);
    for (; at < count && places[at].hash == row; at++)
        mark(f->marks, places[at].row);
    return at > first;
}

/* Where numbers do not ascend, all places are looked up in one table. */
typedef struct key_filter {
    filter filter;
    tarn__run *places; /* NULL where they ascend */
    row_list rows;     /* of a key */
    missing missing;
} key_filter;

static tarn_status begin_keys(key_filter *k, tarn_dataset *d, tarn_error *err)
{
    *k = (key_filter){0};
    TARN_TRY(begin(&k->filter, d, err));
    if (tarn__chain_ascends(&k->filter.judged->chain)) return TARN_OK;
    tarn_status status = tarn__dataset_places(k->filter.judged, &k->places, err);
    return status == TARN_OK ? TARN_OK : end(&k->filter, status, NULL, err);
}

static tarn_status mark_key(key_filter *k, const char *key, bool *out_found,
                            tarn_error *err)
{
    tarn_error why;
    k->rows.count = 0;
    *out_found = false;
    tarn_status status =
        tarn__dataset_rows_of(k->filter.judged, key, add_row, &k->rows, &why);
    for (size_t i = 0; status == TARN_OK && i < k->rows.count; i++)
        *out_found |= mark_row(&k->filter, k->places, k->rows.rows[i]);
    if (!*out_found && (status == TARN_OK || status == TARN_ERR_NO_SAMPLE))
        add_missing(&k->missing, key);
    if (status == TARN_OK || status == TARN_ERR_NO_SAMPLE) return TARN_OK;
    if (err) *err = why;
    return status;
}

/* As end; of keys that are missing, with tolerant, only their number is reported. */
static tarn_status end_keys(key_filter *k, tarn_status status, bool tolerant, size_t of,
                            tarn_dataset **out, tarn_error *err)
{
    if (status == TARN_OK && k->missing.count && !tolerant)
        status = fail_missing(k->filter.dataset, &k->missing, of, err);
    free(k->places);
    free(k->rows.rows);
    return end(&k->filter, status, out, err);
}

tarn_status tarn_dataset_keep_keys(tarn_dataset *d, const char *const *keys, size_t count,
                                   bool *found, tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "keys", keys || !count);
    TARN__NEED(err, "out", out);
    key_filter k;
    TARN_TRY(begin_keys(&k, d, err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        bool is;
        status = mark_key(&k, keys[i], &is, err);
        if (found) found[i] = is;
    }
    return end_keys(&k, status, found != NULL, count, out, err);
}

static tarn_status mark_json(key_filter *k, const tarn__json *list, const char *path,
                             tarn_error *err)
{
    tarn_text key = {0};
    tarn_status status = TARN_OK;
    bool found;
    if (list->kind != TARN__JSON_LIST)
        return tarn__fail_at(err, TARN_ERR_FORMAT, path, TARN_NO_OFFSET,
                             "this should be a JSON list of keys");
    const tarn__json *v = list + 1;
    for (uint32_t i = 0; status == TARN_OK && i < list->size;
         i++, v = tarn__json_next(v)) {
        if (v->kind != TARN__JSON_STRING || memchr(v->u.text, 0, v->size))
            status = tarn__fail_at(err, TARN_ERR_FORMAT, path, TARN_NO_OFFSET,
                                   "element %u of the list should be a string", i);
        if (status == TARN_OK)
            status = tarn_dataset_key_of_name(k->filter.judged, v->u.text, &key, err);
        if (status == TARN_OK) status = mark_key(k, key.data, &found, err);
    }
    tarn_text_reset(&key);
    return status;
}

static tarn_status read_json(const char *path, tarn__json_doc *doc, tarn_error *err)
{
    tarn__contents text;
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    *doc = (tarn__json_doc){0};
    TARN_TRY(tarn__contents_open(&text, path, err));
    tarn_status status =
        tarn__json_parse(doc, (const char *)text.data, (size_t)text.size, &o, err);
    if (status != TARN_OK && err) tarn__error_place(err, path, err->offset);
    tarn__contents_close(&text);
    return status;
}

tarn_status tarn_dataset_keep_json(tarn_dataset *d, const char *path, size_t *out_missing,
                                   tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    tarn__json_doc doc;
    key_filter k;
    TARN_TRY(read_json(path, &doc, err));
    const tarn__json *list = tarn__json_root(&doc);
    tarn_status status = begin_keys(&k, d, err);
    if (status == TARN_OK) {
        status = mark_json(&k, list, path, err);
        if (out_missing) *out_missing = k.missing.count;
        status = end_keys(&k, status, out_missing != NULL, list->size, out, err);
    }
    tarn__json_reset(&doc);
    return status;
}

/* --- By field ---------------------------------------------------------------------- */

static tarn_status file_field(const tarn_dataset *d, const char *name, uint32_t *out,
                              tarn_error *err)
{
    char names[600], shown[200];
    *out = tarn__names_find(&d->source->fields, name, strlen(name));
    if (*out != TARN__NAME_NONE) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, d->source->path, TARN_NO_OFFSET,
                         "no field %s in the file; there are %s",
                         tarn_printable(shown, sizeof shown, name, strlen(name)),
                         tarn__list_names(&d->source->fields, names, sizeof names));
}

static void mark_all(filter *f)
{
    uint64_t count = f->judged->count;
    memset(f->marks, 0xff, (size_t)(count / 8));
    f->marks[count / 8] = (unsigned char)((1u << (count % 8)) - 1);
}

static tarn_status keep_by_need(tarn_dataset *d, tarn__need *need, tarn_dataset **out,
                                tarn_error *err)
{
    filter f;
    const tarn__source *s = d->source;
    TARN_TRY(begin(&f, d, err));
    uint64_t kept = need->lack ? 0 : f.judged->count;
    tarn_status status = TARN_OK;
    need->whole = true;
    if (s->kind->keep)
        status = s->kind->keep(s->state, need, &f.judged->chain, f.judged->count, f.marks,
                               &kept, err);
    if (kept == f.judged->count) mark_all(&f);
    return end(&f, status, out, err);
}

tarn_status tarn_dataset_keep_having(tarn_dataset *d, const char *const *fields,
                                     size_t count, tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "fields", fields || !count);
    TARN__NEED(err, "out", out);
    uint32_t *ids = malloc((count + 1) * sizeof *ids);
    if (!ids) return tarn__fail_memory(err);
    tarn__need need = {.fields = ids, .count = count};
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = file_field(d, fields[i], &ids[i], err);
    if (status == TARN_OK) status = keep_by_need(d, &need, out, err);
    free(ids);
    return status;
}

tarn_status tarn_dataset_keep_lacking(tarn_dataset *d, const char *field,
                                      tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "field", field);
    TARN__NEED(err, "out", out);
    uint32_t id;
    TARN_TRY(file_field(d, field, &id, err));
    tarn__need need = {.fields = &id, .count = 1, .lack = true};
    return keep_by_need(d, &need, out, err);
}

tarn_status tarn_dataset_keep_size(tarn_dataset *d, const char *field, uint64_t min,
                                   uint64_t max, tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "field", field);
    TARN__NEED(err, "out", out);
    uint32_t id;
    filter f;
    TARN_TRY(file_field(d, field, &id, err));
    TARN_TRY(begin(&f, d, err));
    tarn_status status = TARN_OK;
    for (uint64_t i = 0; status == TARN_OK && i < f.judged->count; i++) {
        uint64_t size = 0, row = tarn__dataset_at(f.judged, i);
        status = tarn__field_size(d->source, row, id, &size, NULL);
        if (status == TARN_OK && size >= min && size <= max) mark(f.marks, i);
        if (status == TARN_ERR_NO_FIELD)
            status = TARN_OK;
        else if (status != TARN_OK)
            status = tarn__field_size(d->source, row, id, &size, err);
    }
    return end(&f, status, out, err);
}

/* --- By a column of a pack --------------------------------------------------------- */

static tarn_status get_pack(const tarn_dataset *d, tarn_iac **out, tarn_error *err)
{
    *out = tarn__source_pack(d->source);
    if (*out) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_USAGE, d->source->path, TARN_NO_OFFSET,
                         d->source->kind == &tarn__kind_members
                             ? "the records of this pack are members of samples; open it "
                               "with records for their columns"
                             : "only packs have columns");
}

/* Marks, among all records, those whose column has the value. */
static tarn_status mark_value(tarn_iac *pack, const char *column, const char *value,
                              unsigned char *marks, tarn_error *err)
{
    uint64_t row = 0;
    tarn_error why;
    tarn_status status;
    while ((status = tarn_iac_find(pack, column, value, strlen(value), row, &row,
                                   &why)) == TARN_OK)
        mark(marks, row++);
    if (status == TARN_ERR_NO_SAMPLE) return TARN_OK;
    if (err) *err = why;
    return status;
}

static tarn_status find_column(const tarn_dataset *d, tarn_iac *pack, const char *column,
                               size_t *out, tarn_error *err)
{
    tarn_iac_column c;
    for (*out = 0;
         tarn_iac_column_get(pack, TARN_IAC_INDEX, *out, &c, sizeof c, NULL) == TARN_OK;
         ++*out)
        if (strcmp(c.name, column) == 0) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, d->source->path, TARN_NO_OFFSET,
                         "no column %s", column);
}

tarn_status tarn_dataset_keep_column(tarn_dataset *d, const char *column,
                                     const char *const *values, size_t count,
                                     tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "column", column);
    TARN__NEED(err, "values", values || !count);
    TARN__NEED(err, "out", out);
    tarn_iac *pack;
    size_t number;
    filter f;
    TARN_TRY(get_pack(d, &pack, err));
    TARN_TRY(find_column(d, pack, column, &number, err));
    TARN_TRY(begin(&f, d, err));
    unsigned char *rows = calloc((size_t)(d->source->samples / 8 + 1), 1);
    tarn_status status = rows ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = mark_value(pack, column, values[i], rows, err);
    for (uint64_t i = 0; status == TARN_OK && i < f.judged->count; i++)
        if (is_marked(rows, tarn__dataset_at(f.judged, i))) mark(f.marks, i);
    free(rows);
    return end(&f, status, out, err);
}

/* Whether a value, as JSON, is a number in the range. */
static tarn_status is_between(const tarn_view *value, double min, double max, bool *out,
                              tarn_error *err)
{
    tarn__json_doc doc;
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    double x;
    TARN_TRY(tarn__json_parse(&doc, (const char *)value->data, value->size, &o, err));
    const tarn__json *v = tarn__json_root(&doc);
    *out = tarn__json_double(v, &x) && x >= min && x <= max;
    tarn__json_reset(&doc);
    return TARN_OK;
}

tarn_status tarn_dataset_keep_between(tarn_dataset *d, const char *column, double min,
                                      double max, tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "column", column);
    TARN__NEED(err, "out", out);
    tarn_iac *pack;
    size_t number;
    filter f;
    TARN_TRY(get_pack(d, &pack, err));
    TARN_TRY(find_column(d, pack, column, &number, err));
    TARN_TRY(begin(&f, d, err));
    tarn_status status = TARN_OK;
    for (uint64_t i = 0; status == TARN_OK && i < f.judged->count; i++) {
        tarn_view value = TARN_VIEW_INIT;
        bool is = false;
        status = tarn_iac_value(pack, TARN_IAC_INDEX, number,
                                tarn__dataset_at(f.judged, i), &value, err);
        if (status == TARN_OK) status = is_between(&value, min, max, &is, err);
        tarn_view_release(&value);
        if (is) mark(f.marks, i);
    }
    return end(&f, status, out, err);
}
