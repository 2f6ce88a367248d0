/* Filters: each makes a list of the samples it keeps, and a dataset with that list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/iac.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "dataset/dataset.h"
#include "io/file.h"

/* Room for the list of a filter's samples. */
static tarn_status new_list(const tarn_dataset *d, uint64_t count, uint32_t **out,
                            tarn_error *err)
{
    if (d->source->samples > TARN_MAX_FILTERED)
        return tarn__fail_at(err, TARN_ERR_LIMIT, d->source->path, TARN_NO_OFFSET,
                             "%llu samples are too many to filter (TARN_MAX_FILTERED)",
                             (unsigned long long)d->source->samples);
    *out = tarn__big_alloc((size_t)(count + 1) * sizeof **out);
    return *out ? TARN_OK : tarn__fail_memory(err);
}

/* --- By number --------------------------------------------------------------------- */

static tarn_status check_ranges(const tarn_dataset *d, const tarn_dataset_range *ranges,
                                size_t count, uint64_t *out_total, tarn_error *err)
{
    uint64_t end = 0;
    *out_total = 0;
    for (size_t i = 0; i < count; i++) {
        const tarn_dataset_range *r = &ranges[i];
        if (r->first < end || r->end < r->first || r->end > d->count)
            return tarn__fail(err, TARN_ERR_USAGE,
                              "samples %llu to %llu of %llu: ranges ascend, do not "
                              "overlap and end with the last sample",
                              (unsigned long long)r->first, (unsigned long long)r->end,
                              (unsigned long long)d->count);
        end = r->end;
        *out_total += r->end - r->first;
    }
    return TARN_OK;
}

tarn_status tarn_dataset_keep_ranges(tarn_dataset *d, const tarn_dataset_range *ranges,
                                     size_t count, tarn_dataset **out, tarn_error *err)
{
    uint32_t *list;
    uint64_t total, n = 0;
    TARN_TRY(check_ranges(d, ranges, count, &total, err));
    TARN_TRY(new_list(d, total, &list, err));
    for (size_t i = 0; i < count; i++)
        for (uint64_t k = ranges[i].first; k < ranges[i].end; k++)
            list[n++] = (uint32_t)tarn__dataset_at(d, k);
    return tarn__dataset_like(d, list, n, out, err);
}

tarn_status tarn_dataset_keep_samples(tarn_dataset *d, const uint64_t *samples,
                                      size_t count, tarn_dataset **out, tarn_error *err)
{
    uint32_t *list;
    for (size_t i = 0; i < count; i++)
        if (samples[i] >= d->count || (i && samples[i] <= samples[i - 1]))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "sample %llu of %llu: numbers ascend up to the last sample",
                              (unsigned long long)samples[i],
                              (unsigned long long)d->count);
    TARN_TRY(new_list(d, count, &list, err));
    for (size_t i = 0; i < count; i++)
        list[i] = (uint32_t)tarn__dataset_at(d, samples[i]);
    return tarn__dataset_like(d, list, count, out, err);
}

/* A dataset of the samples that are marked, one bit each. */
static tarn_status keep_marked(tarn_dataset *d, const unsigned char *marks,
                               tarn_dataset **out, tarn_error *err)
{
    uint32_t *list;
    uint64_t total = 0, n = 0;
    for (uint64_t i = 0; i < d->count / 8 + 1; i++)
        total += (unsigned)__builtin_popcount(marks[i]);
    TARN_TRY(new_list(d, total, &list, err));
    for (uint64_t i = 0; i < d->count; i++)
        if (marks[i / 8] >> (i % 8) & 1) list[n++] = (uint32_t)tarn__dataset_at(d, i);
    return tarn__dataset_like(d, list, n, out, err);
}

static tarn_status new_marks(const tarn_dataset *d, unsigned char **out, tarn_error *err)
{
    *out = calloc((size_t)(d->count / 8 + 1), 1);
    return *out ? TARN_OK : tarn__fail_memory(err);
}

static void mark(unsigned char *marks, uint64_t sample)
{
    marks[sample / 8] |= (unsigned char)(1u << (sample % 8));
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

static tarn_status mark_key(tarn_dataset *d, const char *key, unsigned char *marks,
                            bool *out_found, missing *m, tarn_error *err)
{
    uint64_t sample, next;
    tarn_error why;
    tarn_status status = tarn__dataset_find_from(d, key, 0, &sample, &next, &why);
    *out_found = status == TARN_OK;
    if (status == TARN_OK) mark(marks, sample);
    while (d->source->repeats && *out_found &&
           tarn__dataset_find_from(d, key, next, &sample, &next, NULL) == TARN_OK)
        mark(marks, sample);
    if (status == TARN_ERR_NO_SAMPLE) add_missing(m, key);
    if (status == TARN_OK || status == TARN_ERR_NO_SAMPLE) return TARN_OK;
    if (err) *err = why;
    return status;
}

tarn_status tarn_dataset_keep_keys(tarn_dataset *d, const char *const *keys, size_t count,
                                   bool *found, tarn_dataset **out, tarn_error *err)
{
    unsigned char *marks;
    missing m = {0};
    TARN_TRY(new_marks(d, &marks, err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        bool is;
        status = mark_key(d, keys[i], marks, &is, &m, err);
        if (found) found[i] = is;
    }
    if (status == TARN_OK && m.count && !found) status = fail_missing(d, &m, count, err);
    if (status == TARN_OK) status = keep_marked(d, marks, out, err);
    free(marks);
    return status;
}

static tarn_status mark_json(tarn_dataset *d, const tarn__json *list, const char *path,
                             unsigned char *marks, missing *m, tarn_error *err)
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
        if (status == TARN_OK) status = tarn_dataset_key_of_name(d, v->u.text, &key, err);
        if (status == TARN_OK) status = mark_key(d, key.data, marks, &found, m, err);
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
    tarn__json_doc doc;
    missing m = {0};
    unsigned char *marks = NULL;
    TARN_TRY(read_json(path, &doc, err));
    const tarn__json *list = tarn__json_root(&doc);
    tarn_status status = new_marks(d, &marks, err);
    if (status == TARN_OK) status = mark_json(d, list, path, marks, &m, err);
    if (status == TARN_OK && m.count && !out_missing)
        status = fail_missing(d, &m, list->size, err);
    if (status == TARN_OK) status = keep_marked(d, marks, out, err);
    if (status == TARN_OK && out_missing) *out_missing = m.count;
    free(marks);
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

/* Every sample or none. */
static tarn_status keep_all(tarn_dataset *d, bool all, tarn_dataset **out,
                            tarn_error *err)
{
    tarn_dataset_range range = {0, d->count};
    return tarn_dataset_keep_ranges(d, &range, all ? 1 : 0, out, err);
}

static tarn_status keep_by_need(tarn_dataset *d, tarn__need *need, tarn_dataset **out,
                                tarn_error *err)
{
    uint32_t *list;
    uint64_t n;
    const tarn__source *s = d->source;
    if (!s->kind->keep) return keep_all(d, !need->lack, out, err);
    TARN_TRY(new_list(d, d->count, &list, err));
    tarn_status status =
        s->kind->keep(s->state, need, d->picked, d->count, list, &n, err);
    if (status == TARN_OK) return tarn__dataset_like(d, list, n, out, err);
    free(list);
    return status;
}

tarn_status tarn_dataset_keep_having(tarn_dataset *d, const char *const *fields,
                                     size_t count, tarn_dataset **out, tarn_error *err)
{
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
    uint32_t id;
    TARN_TRY(file_field(d, field, &id, err));
    tarn__need need = {.fields = &id, .count = 1, .lack = true};
    return keep_by_need(d, &need, out, err);
}

tarn_status tarn_dataset_keep_size(tarn_dataset *d, const char *field, uint64_t min,
                                   uint64_t max, tarn_dataset **out, tarn_error *err)
{
    uint32_t id, *list;
    uint64_t n = 0, size;
    const tarn__source *s = d->source;
    TARN_TRY(file_field(d, field, &id, err));
    TARN_TRY(new_list(d, d->count, &list, err));
    tarn_status status = TARN_OK;
    tarn_error why;
    for (uint64_t i = 0; i < d->count; i++) {
        uint64_t sample = tarn__dataset_at(d, i);
        status = s->kind->size(s->state, sample, id, &size, NULL);
        if (status == TARN_OK && size >= min && size <= max) list[n++] = (uint32_t)sample;
        if (status == TARN_OK || status == TARN_ERR_NO_FIELD) continue;
        status = s->kind->size(s->state, sample, id, &size, &why);
        if (err) *err = why;
        free(list);
        return status;
    }
    return tarn__dataset_like(d, list, n, out, err);
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

static tarn_status keep_rows(tarn_dataset *d, const unsigned char *marks,
                             tarn_dataset **out, tarn_error *err)
{
    uint32_t *list;
    uint64_t n = 0;
    TARN_TRY(new_list(d, d->count, &list, err));
    for (uint64_t i = 0; i < d->count; i++) {
        uint64_t row = tarn__dataset_at(d, i);
        if (marks[row / 8] >> (row % 8) & 1) list[n++] = (uint32_t)row;
    }
    return tarn__dataset_like(d, list, n, out, err);
}

static tarn_status find_column(const tarn_dataset *d, tarn_iac *pack, const char *column,
                               size_t *out, tarn_error *err)
{
    size_t count = tarn_iac_columns(pack, TARN_IAC_INDEX);
    for (*out = 0; *out < count; ++*out)
        if (strcmp(tarn_iac_column_name(pack, TARN_IAC_INDEX, *out), column) == 0)
            return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, d->source->path, TARN_NO_OFFSET,
                         "no column %s", column);
}

tarn_status tarn_dataset_keep_column(tarn_dataset *d, const char *column,
                                     const char *const *values, size_t count,
                                     tarn_dataset **out, tarn_error *err)
{
    tarn_iac *pack;
    size_t number;
    TARN_TRY(get_pack(d, &pack, err));
    TARN_TRY(find_column(d, pack, column, &number, err));
    unsigned char *marks = calloc((size_t)(d->source->samples / 8 + 1), 1);
    tarn_status status = marks ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = mark_value(pack, column, values[i], marks, err);
    if (status == TARN_OK) status = keep_rows(d, marks, out, err);
    free(marks);
    return status;
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
    tarn_iac *pack;
    size_t number;
    uint32_t *list;
    uint64_t n = 0;
    TARN_TRY(get_pack(d, &pack, err));
    TARN_TRY(find_column(d, pack, column, &number, err));
    TARN_TRY(new_list(d, d->count, &list, err));
    tarn_status status = TARN_OK;
    for (uint64_t i = 0; status == TARN_OK && i < d->count; i++) {
        tarn_view value;
        bool is = false;
        uint64_t row = tarn__dataset_at(d, i);
        status = tarn_iac_value(pack, TARN_IAC_INDEX, number, row, &value, err);
        if (status == TARN_OK) status = is_between(&value, min, max, &is, err);
        tarn_view_release(&value);
        if (is) list[n++] = (uint32_t)row;
    }
    if (status == TARN_OK) return tarn__dataset_like(d, list, n, out, err);
    free(list);
    return status;
}
