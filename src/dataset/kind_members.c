/* IAC files whose records are members of samples, as tarn convert makes them from a fold.
 * The text columns key and field name the sample and the field of each record.
 * Consecutive records with the same key are one sample. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/sort.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "dataset/key_index.h"
#include "iac/file.h"

typedef struct state {
    tarn__records pack;
    tarn__buf keys;     /* consecutive, each with a NUL after it */
    uint64_t *key_at;   /* offset in keys, for each sample */
    uint64_t *starts;   /* first record of each sample, and the number of records */
    uint32_t *fields;   /* of each record */
    uint64_t *by_field; /* records of long samples, see sort_long; NULL if none is long */
    uint64_t samples, records;
    size_t key_room, start_room, field_room;
    tarn__key_index index;
} state;

static void close_members(void *p)
{
    state *s = p;
    tarn__key_index_reset(&s->index);
    tarn_iac_close(s->pack.iac);
    tarn__buf_reset(&s->keys);
    free(s->key_at);
    free(s->starts);
    free(s->fields);
    free(s->by_field);
    free(s);
}

/* --- The two columns --------------------------------------------------------------- */

/* The number of a text column with this name; -1 if there is none. */
static int64_t find_text(const tarn__table *index, const char *name)
{
    int64_t column = tarn__table_column(index, name);
    if (column < 0) return -1;
    const struct ArrowSchema *s = index->schema.children[column];
    bool text = strcmp(s->format, "u") == 0 || strcmp(s->format, "U") == 0;
    return text && !s->dictionary ? column : -1;
}

static bool is_last_key(const state *s, const char *key, size_t len)
{
    if (s->samples == 0) return false;
    const char *last = s->keys.data + s->key_at[s->samples - 1];
    return strlen(last) == len && memcmp(last, key, len) == 0;
}

static tarn_status add_record(state *s, tarn__names *names, const tarn__cell *key,
                              const tarn__cell *field, tarn_error *err)
{
    size_t len = (size_t)key->u.bytes.size;
    const char *text = key->u.bytes.data;
    if (memchr(text, 0, len))
        return tarn__fail_at(err, TARN_ERR_FORMAT, s->pack.source->path, TARN_NO_OFFSET,
                             "record %llu: the key contains a NUL byte",
                             (unsigned long long)s->records);
    if (!is_last_key(s, text, len)) {
        TARN_TRY(
            tarn__grow(&s->key_at, sizeof *s->key_at, s->samples, &s->key_room, err));
        TARN_TRY(tarn__grow(&s->starts, sizeof *s->starts, s->samples + 1, &s->start_room,
                            err));
        s->key_at[s->samples] = s->keys.size;
        s->starts[s->samples++] = s->records;
        TARN_TRY(tarn__buf_add(&s->keys, text, len, err));
        TARN_TRY(tarn__buf_add(&s->keys, "", 1, err));
    }
    TARN_TRY(tarn__grow(&s->fields, sizeof *s->fields, s->records, &s->field_room, err));
    return tarn__names_add(names, field->u.bytes.data, (size_t)field->u.bytes.size,
                           &s->fields[s->records++], err);
}

static tarn_status read_batch(state *s, tarn__names *names,
                              const struct ArrowSchema *schema,
                              const struct ArrowArray *batch, const int64_t columns[2],
                              bool *out_is, tarn_error *err)
{
    const struct ArrowArray *keys = batch->children[columns[0]],
                            *fields = batch->children[columns[1]];
    *out_is = keys->null_count == 0 && fields->null_count == 0;
    for (int64_t i = 0; *out_is && i < batch->length; i++) {
        tarn__cell key = tarn__cell_get(schema->children[columns[0]], keys, i),
                   field = tarn__cell_get(schema->children[columns[1]], fields, i);
        TARN_TRY(add_record(s, names, &key, &field, err));
    }
    return TARN_OK;
}

static tarn_status read_columns(state *s, tarn__names *names, bool *out_is,
                                tarn_error *err)
{
    tarn__table *index = s->pack.iac->tables[TARN_IAC_INDEX];
    int64_t columns[2] = {find_text(index, "key"), find_text(index, "field")};
    TARN_TRY(tarn__table_validate(index, err));
    *out_is = columns[0] >= 0 && columns[1] >= 0;
    for (size_t i = 0; *out_is && i < index->count; i++)
        TARN_TRY(read_batch(s, names, &index->schema, &index->batches[i], columns, out_is,
                            err));
    return TARN_OK;
}

static tarn_status end_samples(state *s, tarn_error *err)
{
    TARN_TRY(tarn__grow(&s->starts, sizeof *s->starts, s->samples, &s->start_room, err));
    s->starts[s->samples] = s->records;
    if (s->records == s->pack.info.records) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_FORMAT, s->pack.source->path, TARN_NO_OFFSET,
                         "the index has %llu rows, the header says %llu",
                         (unsigned long long)s->records,
                         (unsigned long long)s->pack.info.records);
}

/* --- Long samples ------------------------------------------------------------------ */

enum { LONG = 32 }; /* samples with more records are searched by bisection */

static bool is_long(const state *s, uint64_t sample)
{
    uint64_t count = s->starts[sample + 1] - s->starts[sample];
    return count > LONG && count <= UINT32_MAX;
}

/* Sorts the records of long samples by field. The upper half of an item is the field, the
 * lower half the index of the record in its sample. */
static tarn_status sort_long(state *s, tarn_error *err)
{
    for (uint64_t i = 0; i < s->samples; i++) {
        if (!is_long(s, i)) continue;
        uint64_t first = s->starts[i], count = s->starts[i + 1] - first;
        if (!s->by_field)
            s->by_field = tarn__big_alloc((size_t)s->records * sizeof *s->by_field);
        if (!s->by_field) return tarn__fail_memory(err);
        for (uint64_t k = 0; k < count; k++)
            s->by_field[first + k] = (uint64_t)s->fields[first + k] << 32 | k;
        qsort(s->by_field + first, (size_t)count, sizeof *s->by_field, tarn__by_u64);
    }
    return TARN_OK;
}

static tarn_status key_members(void *p, uint64_t sample, tarn_text *out, tarn_error *err)
{
    const state *s = p;
    const char *key = s->keys.data + s->key_at[sample];
    return tarn__text_set(out, key, strlen(key), err);
}

tarn_status tarn__open_members(tarn__storage *source, const tarn_dataset_options *o,
                               tarn_iac *pack, bool *out_is, tarn_error *err)
{
    state *s = calloc(1, sizeof *s);
    *out_is = false;
    if (!s) return tarn__fail_memory(err);
    tarn__buf_init(&s->keys, SIZE_MAX / 2);
    s->pack = tarn__records_of(pack, source, o);
    tarn_status status = read_columns(s, &source->fields, out_is, err);
    if (status == TARN_OK && *out_is) status = end_samples(s, err);
    if (status == TARN_OK && *out_is) status = sort_long(s, err);
    if (status != TARN_OK || !*out_is) {
        s->pack.iac = NULL; /* still owned by the caller */
        tarn__names_reset(&source->fields);
        tarn__names_init(&source->fields);
        close_members(s);
        return status;
    }
    tarn__key_index_init(&s->index, s->samples, key_members, s);
    source->kind = &tarn__kind_members;
    source->state = s;
    source->samples = s->samples;
    source->n_plain = source->fields.count;
    return TARN_OK;
}

/* --- One sample -------------------------------------------------------------------- */

enum { NONE = -1, TWICE = -2 };

/* record_of for a long sample. */
static int64_t long_record_of(const state *s, uint64_t sample, uint32_t field)
{
    uint64_t low = s->starts[sample], end = s->starts[sample + 1], high = end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (s->by_field[middle] >> 32 < field)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == end || s->by_field[low] >> 32 != field) return NONE;
    if (low + 1 < end && s->by_field[low + 1] >> 32 == field) return TWICE;
    return (int64_t)(s->starts[sample] + (uint32_t)s->by_field[low]);
}

/* The record of a field, or NONE or TWICE. */
static int64_t record_of(const state *s, uint64_t sample, uint32_t field)
{
    int64_t found = NONE;
    if (is_long(s, sample)) return long_record_of(s, sample, field);
    for (uint64_t i = s->starts[sample]; i < s->starts[sample + 1]; i++) {
        if (s->fields[i] != field) continue;
        if (found != NONE) return TWICE;
        found = (int64_t)i;
    }
    return found;
}

static tarn_status fail_field(const state *s, uint64_t sample, uint32_t field, bool twice,
                              tarn_error *err)
{
    const char *key = s->keys.data + s->key_at[sample];
    if (!err) return twice ? TARN_ERR_AMBIGUOUS : TARN_ERR_NO_FIELD;
    return tarn__fail_at(err, twice ? TARN_ERR_AMBIGUOUS : TARN_ERR_NO_FIELD,
                         s->pack.source->path, TARN_NO_OFFSET,
                         twice ? "sample %s has field %s twice"
                               : "sample %s has no field %s",
                         TARN__SHOW(key, strlen(key)),
                         tarn__names_get(&s->pack.source->fields, field).data);
}

static tarn_status find_record(const state *s, uint64_t sample, uint32_t field,
                               uint64_t *out, tarn_error *err)
{
    int64_t record = record_of(s, sample, field);
    if (record < 0) return fail_field(s, sample, field, record == TWICE, err);
    *out = (uint64_t)record;
    return TARN_OK;
}

static tarn_status view_members(void *p, uint64_t sample, uint32_t field, tarn_view *out,
                                tarn_error *err)
{
    const state *s = p;
    uint64_t record = 0;
    TARN_TRY(find_record(s, sample, field, &record, err));
    return tarn__records_view(&s->pack, record, out, err);
}

static tarn_status locate_members(void *p, tarn__item *items, size_t count,
                                  tarn_error *err)
{
    const state *s = p;
    for (size_t i = 0; i < count; i++) {
        uint64_t record = 0;
        TARN_TRY(find_record(s, items[i].sample, items[i].field, &record, err));
        TARN_TRY(tarn__records_locate(&s->pack, record, &items[i].spot, err));
    }
    return TARN_OK;
}

static tarn_status find_members(void *p, const char *key, uint64_t from, uint64_t *out,
                                tarn_error *err)
{
    state *s = p;
    return tarn__key_index_find(&s->index, s->pack.source->path, key, from, out, err);
}

/* --- By fields --------------------------------------------------------------------- */

static tarn_status has_members(void *p, uint64_t sample, uint32_t field, bool *out,
                               tarn_error *err)
{
    (void)err;
    *out = record_of(p, sample, field) != NONE;
    return TARN_OK;
}

static tarn_status check_sample(const state *s, tarn__need *need, uint64_t sample,
                                bool *out_keep, tarn_error *err)
{
    bool all = true;
    for (size_t f = 0; f < need->count; f++) {
        int64_t record = NONE;
        size_t k = tarn__need_begin(need, f);
        for (; k < need->ends[f] && record == NONE; k++)
            record = record_of(s, sample, need->fields[k]);
        all &= record != NONE || need->may_lack;
        if (record != TWICE || !need->once) continue;
        if (!need->drop_twice)
            return fail_field(s, sample, need->fields[k - 1], true, err);
        need->dropped++;
        *out_keep = false;
        return TARN_OK;
    }
    *out_keep = all != need->lack;
    return TARN_OK;
}

static tarn_status keep_members(void *p, tarn__need *need, const tarn__chain *chain,
                                uint64_t count, unsigned char *marks, uint64_t *out_kept,
                                tarn_error *err)
{
    *out_kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        bool keep = false;
        TARN_TRY(check_sample(p, need, tarn__chain_at(chain, i), &keep, err));
        marks[i / 8] |= (unsigned char)(keep << (i % 8));
        *out_kept += keep;
    }
    return TARN_OK;
}

/* The distinct fields of a sample, ascending. */
static size_t fields_of(const state *s, uint64_t sample, uint32_t *out, bool *out_twice)
{
    size_t count = (size_t)(s->starts[sample + 1] - s->starts[sample]), n = 0;
    memcpy(out, s->fields + s->starts[sample], count * sizeof *out);
    qsort(out, count, sizeof *out, tarn__by_u32);
    for (size_t i = 0; i < count; i++)
        if (n == 0 || out[i] != out[n - 1]) out[n++] = out[i];
    *out_twice = n < count;
    return n;
}

static tarn_status sets_members(void *p, const tarn__chain *chain, uint64_t count,
                                tarn__add_fields add, void *context, tarn_error *err)
{
    const state *s = p;
    uint64_t most = 0;
    for (uint64_t i = 0; i < s->samples; i++)
        if (s->starts[i + 1] - s->starts[i] > most)
            most = s->starts[i + 1] - s->starts[i];
    uint32_t *fields = malloc((size_t)(most + 1) * sizeof *fields);
    tarn_status status = fields ? TARN_OK : tarn__fail_memory(err);
    for (uint64_t i = 0; status == TARN_OK && i < count; i++) {
        bool twice;
        size_t n = fields_of(s, tarn__chain_at(chain, i), fields, &twice);
        status = add(context, fields, n, 1, twice, err);
    }
    free(fields);
    return status;
}

const tarn__storage_kind tarn__kind_members = {
    .kind = TARN_DATASET_IAC,
    .close = close_members,
    .locate = locate_members,
    .view = view_members,
    .key = key_members,
    .find = find_members,
    .copy = tarn__records_copy,
    .settle = tarn__records_settle,
    .has = has_members,
    .keep = keep_members,
    .sets = sets_members,
    .describe = tarn__records_describe,
};
