/* Filters. Each marks the samples it keeps; the marked samples become a new dataset. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/iac.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/options.h"
#include "base/runs.h"
#include "dataset/dataset.h"
#include "dataset/key_index.h"
#include "io/file.h"

/* A running filter: the condition, the samples to check, and one bit for each. */
typedef struct work {
    const tarn_condition *ask;
    tarn_dataset *set;
    unsigned char *marks;
} work;

static void set_mark(unsigned char *marks, uint64_t sample)
{
    marks[sample / 8] |= (unsigned char)(1u << (sample % 8));
}

static tarn_status mark_mask(work *w, tarn_error *err)
{
    (void)err;
    for (uint64_t i = 0; i < w->set->count; i++)
        if (w->ask->mask[i]) set_mark(w->marks, i);
    return TARN_OK;
}

/* --- By key ------------------------------------------------------------------------ */

/* The number of keys that were not found, and the first few of them. */
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

/* A running filter by key. If row numbers do not ascend, positions are looked up in a
 * table of all rows. */
typedef struct key_work {
    work *work;
    tarn__run *places; /* that table; NULL if row numbers ascend */
    tarn__rows rows;   /* of the current key */
    missing missing;
} key_work;

/* Marks all samples of a row; false if there are none. */
static bool mark_row(const key_work *k, uint64_t row)
{
    const tarn_dataset *d = k->work->set;
    uint64_t at;
    if (!k->places) {
        bool is = tarn__chain_find(&d->chain, d->count, row, 0, &at);
        if (is) set_mark(k->work->marks, at);
        return is;
    }
    uint64_t first = at = tarn__runs_find(k->places, d->count, row, 0);
    for (; at < d->count && k->places[at].hash == row; at++)
        set_mark(k->work->marks, k->places[at].row);
    return at > first;
}

static tarn_status mark_key(key_work *k, const char *key, bool *out_found,
                            tarn_error *err)
{
    tarn_error why;
    bool found = false;
    tarn_status status = tarn__dataset_rows_of(k->work->set, key, &k->rows, &why);
    for (size_t i = 0; status == TARN_OK && i < k->rows.count; i++)
        found |= mark_row(k, k->rows.items[i]);
    if (out_found) *out_found = found;
    if (status != TARN_OK && status != TARN_ERR_NO_SAMPLE) {
        if (err) *err = why;
        return status;
    }
    if (!found) add_missing(&k->missing, key);
    return TARN_OK;
}

static tarn_status mark_listed(key_work *k, tarn_error *err)
{
    const tarn_condition *ask = k->work->ask;
    for (size_t i = 0; i < ask->n_names; i++)
        TARN_TRY(mark_key(k, ask->names[i], ask->found ? &ask->found[i] : NULL, err));
    return TARN_OK;
}

static tarn_status mark_list(key_work *k, const tarn__json *list, tarn_error *err)
{
    tarn_text key = {0};
    tarn_status status = TARN_OK;
    const char *path = k->work->ask->name;
    if (list->kind != TARN__JSON_LIST)
        return tarn__fail_at(err, TARN_ERR_FORMAT, path, TARN_NO_OFFSET,
                             "expected a JSON list of keys");
    const tarn__json *v = list + 1;
    for (uint32_t i = 0; status == TARN_OK && i < list->size;
         i++, v = tarn__json_next(v)) {
        if (v->kind != TARN__JSON_STRING || memchr(v->u.text, 0, v->size))
            status = tarn__fail_at(err, TARN_ERR_FORMAT, path, TARN_NO_OFFSET,
                                   "element %u of the list is not a string", i);
        if (status == TARN_OK)
            status = tarn__key_of_name(k->work->set, v->u.text, &key, err);
        if (status == TARN_OK) status = mark_key(k, key.data, NULL, err);
    }
    tarn_text_reset(&key);
    return status;
}

static tarn_status mark_json(key_work *k, size_t *out_count, tarn_error *err)
{
    const char *path = k->work->ask->name;
    tarn__contents text;
    tarn__json_doc doc = {0};
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    TARN_TRY(tarn__contents_open(&text, path, err));
    tarn_status status =
        tarn__json_parse(&doc, (const char *)text.data, (size_t)text.size, &o, err);
    if (status != TARN_OK && err) tarn__error_place(err, path, err->offset);
    tarn__contents_close(&text);
    TARN_TRY(status);
    *out_count = tarn__json_root(&doc)->size;
    status = mark_list(k, tarn__json_root(&doc), err);
    tarn__json_reset(&doc);
    return status;
}

static tarn_status mark_keys(work *w, tarn_error *err)
{
    const tarn_condition *ask = w->ask;
    key_work k = {.work = w};
    size_t count = ask->n_names;
    tarn_status status = TARN_OK;
    if (!tarn__chain_ascends(&w->set->chain))
        status = tarn__dataset_places(w->set, &k.places, err);
    if (status == TARN_OK)
        status = ask->kind == TARN_CONDITION_JSON ? mark_json(&k, &count, err)
                                                  : mark_listed(&k, err);
    if (ask->missing) *ask->missing = k.missing.count;
    if (status == TARN_OK && k.missing.count && !ask->missing && !ask->found)
        status =
            tarn__fail_at(err, TARN_ERR_NO_SAMPLE, w->set->source->path, TARN_NO_OFFSET,
                          "%zu of %zu keys are not in the dataset: %s%s", k.missing.count,
                          count, k.missing.names, k.missing.count > 5 ? ", ..." : "");
    free(k.places);
    free(k.rows.items);
    return status;
}

static tarn_status mark_without(work *w, tarn_error *err)
{
    TARN_TRY(mark_keys(w, err));
    for (uint64_t i = 0; i < w->set->count; i++)
        w->marks[i / 8] ^= (unsigned char)(1u << (i % 8));
    return TARN_OK;
}

/* --- By field ---------------------------------------------------------------------- */

/* The fields of the file that a name stands for: those of a field of the dataset, or of
 * the file. */
static tarn_status read_field(const tarn_dataset *d, const char *name,
                              tarn__alternatives *out, tarn_error *err)
{
    for (uint32_t i = 0; i < d->n_fields; i++) {
        size_t count;
        const uint32_t *ids = tarn__field_ids(d, i, &count);
        if (strcmp(d->names[i], name) != 0 || tarn__is_pseudo(ids[0])) continue;
        for (out->count = 0; out->count < count; out->count++) {
            TARN_TRY(tarn__grow(&out->ids, sizeof *ids, out->count, &out->capacity, err));
            out->ids[out->count] = ids[out->count];
        }
        return TARN_OK;
    }
    TARN_TRY(tarn__alternatives_read(d->source, name, out, err));
    return tarn__is_pseudo(out->ids[0]) ? tarn__fail_field(d->source, name, err)
                                        : TARN_OK;
}

/* The fields that samples need, as lists for tarn__need. */
typedef struct needs {
    uint32_t *fields;
    size_t *ends;
    size_t count, n_fields, capacity, end_capacity;
} needs;

static tarn_status add_need(const tarn_dataset *d, const char *name, needs *n,
                            tarn__alternatives *a, tarn_error *err)
{
    TARN_TRY(read_field(d, name, a, err));
    for (size_t i = 0; i < a->count; i++) {
        TARN_TRY(
            tarn__grow(&n->fields, sizeof *n->fields, n->n_fields, &n->capacity, err));
        n->fields[n->n_fields++] = a->ids[i];
    }
    TARN_TRY(tarn__grow(&n->ends, sizeof *n->ends, n->count, &n->end_capacity, err));
    n->ends[n->count++] = n->n_fields;
    return TARN_OK;
}

static tarn_status mark_by_need(work *w, const needs *list, tarn_error *err)
{
    const tarn__storage *s = w->set->source;
    uint64_t n = w->set->count, kept = n;
    tarn__need need = {.fields = list->fields,
                       .ends = list->ends,
                       .count = list->count,
                       .lack = w->ask->kind == TARN_CONDITION_LACKING,
                       .whole = true};
    if (need.lack) kept = 0;
    if (s->kind->keep)
        TARN_TRY(s->kind->keep(s->state, &need, &w->set->chain, n, w->marks, &kept, err));
    if (kept != n) return TARN_OK;
    memset(w->marks, 0xff, (size_t)(n / 8));
    w->marks[n / 8] = (unsigned char)((1u << (n % 8)) - 1);
    return TARN_OK;
}

static tarn_status mark_having(work *w, tarn_error *err)
{
    bool lack = w->ask->kind == TARN_CONDITION_LACKING;
    const char *const *names = lack ? &w->ask->name : w->ask->names;
    size_t count = lack ? 1 : w->ask->n_names;
    tarn__alternatives a = {0};
    needs list = {0};
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = add_need(w->set, names[i], &list, &a, err);
    if (status == TARN_OK) status = mark_by_need(w, &list, err);
    tarn__alternatives_reset(&a);
    free(list.fields);
    free(list.ends);
    return status;
}

static bool is_within(const tarn_condition *ask, double x)
{
    return x >= ask->min && x <= ask->max;
}

/* The size of the first of these fields that a sample has; *out_has is false if it has
 * none. */
static tarn_status size_of(const tarn_dataset *d, uint64_t sample,
                           const tarn__alternatives *a, uint64_t *out, bool *out_has,
                           tarn_error *err)
{
    uint64_t row = tarn__dataset_at(d, sample);
    *out_has = false;
    for (size_t i = 0; i < a->count && !*out_has; i++) {
        tarn_error why;
        tarn_status status = tarn__field_size(d->source, row, a->ids[i], out, &why);
        *out_has = status == TARN_OK;
        if (status == TARN_OK || status == TARN_ERR_NO_FIELD) continue;
        if (err) *err = why;
        return status;
    }
    return TARN_OK;
}

static tarn_status mark_size(work *w, tarn_error *err)
{
    tarn__alternatives a = {0};
    tarn_status status = read_field(w->set, w->ask->name, &a, err);
    for (uint64_t i = 0; status == TARN_OK && i < w->set->count; i++) {
        uint64_t size = 0;
        bool has;
        status = size_of(w->set, i, &a, &size, &has, err);
        if (status == TARN_OK && has && is_within(w->ask, (double)size))
            set_mark(w->marks, i);
    }
    tarn__alternatives_reset(&a);
    return status;
}

/* --- By a column of a record pack -------------------------------------------------- */

static tarn_status find_column(const tarn_dataset *d, const char *name, tarn_iac **out,
                               size_t *out_number, const char **out_type, tarn_error *err)
{
    *out = tarn__storage_pack(d->source);
    if (!*out)
        return tarn__fail_at(
            err, TARN_ERR_USAGE, d->source->path, TARN_NO_OFFSET,
            d->source->kind == &tarn__kind_members
                ? "the records of this IAC file are members of samples; open it "
                  "with records to use their columns"
                : "only IAC files have columns");
    tarn_iac_column c;
    for (*out_number = 0; tarn_iac_column_get(*out, TARN_IAC_INDEX, *out_number, &c,
                                              sizeof c, NULL) == TARN_OK;
         ++*out_number)
        if (strcmp(c.name, name) == 0) {
            *out_type = c.type;
            return TARN_OK;
        }
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, d->source->path, TARN_NO_OFFSET,
                         "no column %s", name);
}

/* An error if a value cannot be in a column of this type. */
static tarn_status check_value(const work *w, const char *value, const char *type,
                               tarn_error *err)
{
    char shown[80];
    bool integers = strstr(type, "int") != NULL;
    const char *digits = value + (value[0] == '-');
    if (!integers && !(w->ask->numeric && strstr(type, "string"))) return TARN_OK;
    if (integers && digits[0] && !digits[strspn(digits, "0123456789")]) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_USAGE, w->set->source->path, TARN_NO_OFFSET,
                         "column %s is %s (%s), so it cannot have the value %s; %s",
                         w->ask->name, integers ? "a column of integers" : "text", type,
                         tarn_printable(shown, sizeof shown, value, strlen(value)),
                         integers ? "give an integer" : "give the value as text");
}

/* Marks the records whose column has the value. */
static tarn_status mark_value(tarn_iac *pack, const char *column, const char *value,
                              unsigned char *marks, tarn_error *err)
{
    uint64_t row = 0;
    tarn_error why;
    tarn_status status;
    while ((status = tarn_iac_find(pack, column, value, strlen(value), row, &row,
                                   &why)) == TARN_OK)
        set_mark(marks, row++);
    if (status == TARN_ERR_NO_SAMPLE) return TARN_OK;
    if (err) *err = why;
    return status;
}

static tarn_status mark_column(work *w, tarn_error *err)
{
    tarn_iac *pack;
    size_t number;
    const char *type;
    TARN_TRY(find_column(w->set, w->ask->name, &pack, &number, &type, err));
    unsigned char *rows = calloc((size_t)(w->set->source->samples / 8 + 1), 1);
    tarn_status status = rows ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; status == TARN_OK && i < w->ask->n_names; i++) {
        status = check_value(w, w->ask->names[i], type, err);
        if (status == TARN_OK)
            status = mark_value(pack, w->ask->name, w->ask->names[i], rows, err);
    }
    for (uint64_t i = 0; status == TARN_OK && i < w->set->count; i++) {
        uint64_t row = tarn__dataset_at(w->set, i);
        if (rows[row / 8] >> (row % 8) & 1) set_mark(w->marks, i);
    }
    free(rows);
    return status;
}

/* *out_within: the JSON value of a column is a number from min to max. */
static tarn_status compare_value(const work *w, const tarn_view *value, uint64_t row,
                                 const char *type, bool *out_within, tarn_error *err)
{
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    tarn__json_doc doc = {0};
    double x;
    char shown[80];
    TARN_TRY(tarn__json_parse(&doc, (const char *)value->data, value->size, &o, err));
    const tarn__json *root = tarn__json_root(&doc);
    bool number = tarn__json_double(root, &x), null = root->kind == TARN__JSON_NULL;
    tarn__json_reset(&doc);
    *out_within = number && is_within(w->ask, x);
    if (number || null) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_USAGE, w->set->source->path, TARN_NO_OFFSET,
        "column %s cannot be compared with numbers: its type is %s (record %llu is %s); "
        "choose some of its values instead",
        w->ask->name, type, (unsigned long long)row,
        tarn_printable(shown, sizeof shown, (const char *)value->data, value->size));
}

static tarn_status mark_between(work *w, tarn_error *err)
{
    tarn_iac *pack;
    size_t number;
    const char *type;
    TARN_TRY(find_column(w->set, w->ask->name, &pack, &number, &type, err));
    for (uint64_t i = 0; i < w->set->count; i++) {
        tarn_view value = TARN_VIEW_INIT;
        bool within = false;
        uint64_t row = tarn__dataset_at(w->set, i);
        TARN_TRY(tarn_iac_value(pack, TARN_IAC_INDEX, number, row, &value, err));
        tarn_status status = compare_value(w, &value, row, type, &within, err);
        if (within) set_mark(w->marks, i);
        tarn_view_release(&value);
        TARN_TRY(status);
    }
    return TARN_OK;
}

/* --- One call ---------------------------------------------------------------------- */

static const struct {
    tarn_status (*mark)(work *w, tarn_error *err);
    bool name; /* a name is required */
} kinds[] = {
    [TARN_CONDITION_MASK] = {mark_mask, false},
    [TARN_CONDITION_KEYS] = {mark_keys, false},
    [TARN_CONDITION_JSON] = {mark_keys, true},
    [TARN_CONDITION_HAVING] = {mark_having, false},
    [TARN_CONDITION_LACKING] = {mark_having, true},
    [TARN_CONDITION_SIZE] = {mark_size, true},
    [TARN_CONDITION_COLUMN] = {mark_column, true},
    [TARN_CONDITION_BETWEEN] = {mark_between, true},
    [TARN_CONDITION_WITHOUT] = {mark_without, false},
};

TARN__DEFINE_INIT(tarn_condition, TARN_CONDITION_INIT)

tarn_status tarn_dataset_filter(tarn_dataset *d, const tarn_condition *condition,
                                tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "condition", condition);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_condition, f, TARN_CONDITION_INIT, condition, err);
    if ((unsigned)f.kind >= sizeof kinds / sizeof *kinds)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown kind of condition: %d",
                          (int)f.kind);
    TARN__NEED(err, "condition->name", f.name || !kinds[f.kind].name);
    TARN__NEED(err, "condition->names", f.names || !f.n_names);
    TARN__NEED(err, "condition->mask", f.mask || f.kind != TARN_CONDITION_MASK);
    work w = {.ask = &f};
    TARN_TRY(tarn__dataset_judged(d, &w.set, err));
    w.marks = calloc((size_t)(w.set->count / 8 + 1), 1);
    tarn_status status = w.marks ? kinds[f.kind].mark(&w, err) : tarn__fail_memory(err);
    if (status == TARN_OK) status = tarn__dataset_keep(d, w.marks, out, err);
    tarn_dataset_close(w.set);
    free(w.marks);
    return status;
}
