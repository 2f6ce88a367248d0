/* Samples by number and by key, and filters. Which rows make up a sample is in group.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/guard.h"
#include "itar/fold.h"
#include "itar/key_order.h"

static const unsigned char *row_at(const tarn_fold *f, uint64_t number)
{
    return tarn__index_at(f->index, number);
}

/* --- Order ------------------------------------------------------------------------ */

tarn_status tarn__fold_make_order(tarn_fold *f, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    if (atomic_load(&f->order)) return TARN_OK;
    if (sums && sums->order) {
        atomic_store(&f->order, sums->order);
        return TARN_OK;
    }
    TARN_TRY(tarn__order_make(f->index, &f->own_order, err));
    atomic_store(&f->order, f->own_order);
    return TARN_OK;
}

tarn_status tarn__fold_order(tarn_fold *f, const uint32_t **out, tarn_error *err)
{
    tarn_status status = TARN_OK;
    if (!atomic_load(&f->order)) {
        pthread_mutex_lock(&f->lock.mutex);
        status = tarn__fold_make_order(f, err);
        pthread_mutex_unlock(&f->lock.mutex);
    }
    *out = atomic_load(&f->order);
    return status;
}

static bool order_is_stored(const tarn_fold *f, const uint32_t *order)
{
    return f->index->sums && order == f->index->sums->order;
}

/* The order may come from a file: a number in it is a row only after this. */
tarn_status tarn__fold_order_at(const tarn_fold *f, const uint32_t *order, uint64_t i,
                                uint32_t *out, tarn_error *err)
{
    if (order_is_stored(f, order))
        TARN_TRY(tarn__sums_check(f->index->sums, TARN__PART_ORDER, i, err));
    *out = order[i];
    if (*out < f->index->n_rows) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_FORMAT, f->index->sums->path, TARN_NO_OFFSET,
        "damaged: row %u in the key order, of %llu; run tarn index again", *out,
        (unsigned long long)f->index->n_rows);
}

/* The exported copy, for callers whose compiler does not see the header's. */
extern TARN_INLINE uint64_t tarn_sample_row(const tarn_sample *sample, uint32_t k);

/* --- Samples ---------------------------------------------------------------------- */

tarn_status tarn_fold_sample(tarn_fold *f, uint64_t number, tarn_sample *out,
                             tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    TARN__NEED(err, "out", out);
    TARN_TRY(tarn__fold_group(f, err));
    if (number >= f->n_samples)
        return tarn__fail(err, TARN_ERR_NO_SAMPLE, "sample %llu of %llu",
                          (unsigned long long)number, (unsigned long long)f->n_samples);
    uint64_t from = tarn__fold_start(f, number);
    out->count = (uint32_t)(tarn__fold_start(f, number + 1) - from);
    out->rows = f->rows ? f->rows + from : NULL;
    out->first = (uint32_t)from;
    return TARN_OK;
}

/* --- Finding ---------------------------------------------------------------------- */

/* The first place in the order whose row is not before (hash, crash). */
static tarn_status bisect(const tarn_fold *f, const uint32_t *order, uint64_t hash,
                          uint32_t crash, uint64_t *out, tarn_error *err)
{
    uint64_t low = 0, high = f->index->n_rows;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        uint32_t row;
        TARN_TRY(tarn__fold_order_at(f, order, mid, &row, err));
        const unsigned char *p;
        TARN_TRY(tarn__index_use(f->index, row, &p, err));
        uint64_t h = tarn__row_hash(p);
        if (h < hash || (h == hash && tarn__row_crash(p) < crash))
            low = mid + 1;
        else
            high = mid;
    }
    *out = low;
    return TARN_OK;
}

static tarn_status fail_missing(tarn_fold *f, const char *key, tarn_error *err)
{
    char shown[200];
    if (tarn__map_is_torn(f->index->contents.data))
        return tarn__fail_at(err, TARN_ERR_STALE, f->index->path, TARN_NO_OFFSET,
                             "the index was truncated while it was in use");
    return tarn__fail(err, TARN_ERR_NO_SAMPLE, "no sample with key %s in fold %s",
                      tarn_printable(shown, sizeof shown, key, strlen(key)), f->name);
}

/* The stretch of rows with this hash and crash number, from at on. */
static tarn_status stretch(const tarn_fold *f, const uint32_t *order, uint64_t at,
                           uint64_t hash, uint32_t crash, tarn_sample *out,
                           tarn_error *err)
{
    uint64_t end = at;
    for (; end < f->index->n_rows; end++) {
        uint32_t row;
        TARN_TRY(tarn__fold_order_at(f, order, end, &row, err));
        const unsigned char *p;
        TARN_TRY(tarn__index_use(f->index, row, &p, err));
        if (tarn__row_hash(p) != hash || tarn__row_crash(p) != crash) break;
    }
    *out = (tarn_sample){(uint32_t)(end - at), 0, order + at};
    return TARN_OK;
}

/* Whether all rows of a sample have the key. Where keys share a hash, a forged index can
 * put rows of two into one stretch; elsewhere the first row speaks for the others. */
static tarn_status check_key(tarn_fold *f, const tarn_sample *s, const char *key,
                             size_t len, bool *out_same, tarn_error *err)
{
    uint32_t count = f->index->crashes.count ? s->count : 1;
    tarn__located l;
    tarn_status status = TARN_OK;
    *out_same = true;
    for (uint32_t k = 0; k < count && *out_same && status == TARN_OK; k++) {
        tarn__located_init(&l);
        status = tarn__locate(&f->place, tarn_sample_row(s, k), &l, err);
        *out_same = status == TARN_OK && l.key.stem_len == len &&
                    memcmp(l.key.stem, key, len) == 0;
        tarn__located_reset(&l);
    }
    return status;
}

tarn_status tarn_fold_find(tarn_fold *f, const char *key, tarn_sample *out,
                           tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    TARN__NEED(err, "key", key);
    TARN__NEED(err, "out", out);
    const uint32_t *order;
    uint64_t at;
    size_t len = strlen(key);
    TARN_TRY(tarn__fold_order(f, &order, err));
    uint64_t hash = f->place.hash(key, len);
    uint32_t id = tarn__names_find(&f->index->crashes, key, len);
    uint32_t crash = id == TARN__NAME_NONE ? 0 : id + 1;
    TARN_TRY(bisect(f, order, hash, crash, &at, err));
    TARN_TRY(stretch(f, order, at, hash, crash, out, err));
    if (out->count == 0) return fail_missing(f, key, err);
    bool same;
    TARN_TRY(check_key(f, out, key, len, &same, err));
    return same ? TARN_OK : fail_missing(f, key, err);
}

static tarn_status fail_field(tarn_fold *f, const tarn_sample *s, const char *field,
                              tarn_error *err)
{
    char names[512];
    size_t used = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        uint16_t id = tarn__row_field(row_at(f, tarn_sample_row(s, k)));
        tarn__name name = {"?", 1};
        if (id < f->index->fields.count) name = tarn__names_get(&f->index->fields, id);
        if (used + name.size + 3 > sizeof names) break;
        if (used) names[used++] = ',', names[used++] = ' ';
        memcpy(names + used, name.data, name.size);
        used += name.size;
    }
    names[used] = '\0';
    char shown[200] = "?";
    tarn_text key = {0};
    const char *path = f->index->path ? f->index->path : tarn_fold_shard_path(f, 0);
    if (s->count &&
        tarn_fold_names(f, tarn_sample_row(s, 0), &key, NULL, NULL) == TARN_OK)
        tarn_printable(shown, sizeof shown, key.data, key.size);
    tarn_text_reset(&key);
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, path, TARN_NO_OFFSET,
                         "sample %s has no field %s; it has %s", shown, field, names);
}

tarn_status tarn_fold_pick(tarn_fold *f, const tarn_sample *s, const char *field,
                           uint64_t *out_row, tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    TARN__NEED(err, "sample", s);
    TARN__NEED(err, "field", field);
    TARN__NEED(err, "out_row", out_row);
    uint32_t id = tarn__names_find(&f->index->fields, field, strlen(field));
    uint64_t found = UINT64_MAX;
    for (uint32_t k = 0; k < s->count; k++) {
        uint64_t row = tarn_sample_row(s, k);
        const unsigned char *p;
        TARN_TRY(tarn__index_use(f->index, row, &p, err));
        if (tarn__row_field(p) != id) continue;
        if (found != UINT64_MAX)
            return tarn__fail(err, TARN_ERR_AMBIGUOUS,
                              "two members of the sample are field %s (rows %llu and "
                              "%llu)",
                              field, (unsigned long long)found, (unsigned long long)row);
        found = row;
    }
    if (found == UINT64_MAX) return fail_field(f, s, field, err);
    *out_row = found;
    return TARN_OK;
}

/* --- Filters ---------------------------------------------------------------------- */

/* Rebuilds the samples from those rows of each sample that choose accepts; a sample is
 * kept if accept says so after its rows were offered. */
typedef struct filter {
    uint32_t *rows, *starts;
    uint64_t n_rows, n_samples;
} filter;

static tarn_status filter_begin(const tarn_fold *f, filter *out, tarn_error *err)
{
    uint64_t rows = tarn__fold_start(f, f->n_samples);
    *out = (filter){malloc((rows + 1) * sizeof *out->rows),
                    malloc((f->n_samples + 1) * sizeof *out->starts), 0, 0};
    if (out->rows && out->starts) return TARN_OK;
    free(out->rows);
    free(out->starts);
    *out = (filter){0};
    return tarn__fail_memory(err);
}

void tarn__fold_take(tarn_fold *f, uint32_t *rows, uint32_t *starts, uint64_t n_samples)
{
    free(f->rows);
    free(f->starts);
    free(f->shape_of);
    tarn__shapes_reset(&f->shapes);
    f->shape_of = NULL;
    f->rows = rows;
    f->starts = starts;
    f->n_samples = n_samples;
}

/* Puts the new samples in place, or drops them after a failure. */
static tarn_status filter_end(tarn_fold *f, filter *made, tarn_status status)
{
    if (status != TARN_OK) {
        free(made->rows);
        free(made->starts);
        return status;
    }
    made->starts[made->n_samples] = (uint32_t)made->n_rows;
    tarn__fold_take(f, made->rows, made->starts, made->n_samples);
    return TARN_OK;
}

static tarn_status number_fields(const tarn_fold *f, const char *const *fields,
                                 size_t count, uint32_t *wanted, size_t *out_distinct,
                                 tarn_error *err)
{
    *out_distinct = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t id = tarn__names_find(&f->index->fields, fields[i], strlen(fields[i]));
        if (id == TARN__NAME_NONE)
            return tarn__fail(err, TARN_ERR_NO_FIELD, "no field %s in fold %s", fields[i],
                              f->name);
        if (wanted[id] == 0) {
            wanted[id] = 1;
            ++*out_distinct;
        }
    }
    return TARN_OK;
}

/* Keeps sample i if it has all wanted fields. seen[id] is the last sample that had it. */
static tarn_status require_in_sample(tarn_fold *f, uint64_t i, const uint32_t *wanted,
                                     size_t distinct, uint64_t *seen, filter *made,
                                     tarn_error *err)
{
    tarn_sample s;
    tarn_row row;
    TARN_TRY(tarn_fold_sample(f, i, &s, err));
    size_t have = 0;
    uint64_t at = made->n_rows;
    for (uint32_t k = 0; k < s.count; k++) {
        uint64_t number = tarn_sample_row(&s, k);
        TARN_TRY(tarn_index_row(f->index, number, &row, err));
        if (!wanted[row.field]) continue;
        have += seen[row.field] != i + 1;
        seen[row.field] = i + 1;
        made->rows[at++] = (uint32_t)number;
    }
    if (have < distinct) return TARN_OK;
    made->starts[made->n_samples++] = (uint32_t)made->n_rows;
    made->n_rows = at;
    return TARN_OK;
}

tarn_status tarn_fold_require(tarn_fold *f, const char *const *fields, size_t count,
                              tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    TARN__NEED(err, "fields", fields || !count);
    filter made = {0};
    size_t distinct;
    if (count == 0) return TARN_OK;
    TARN_TRY(tarn__fold_group(f, err));
    uint32_t *wanted = calloc(f->index->fields.count + 1, sizeof *wanted);
    uint64_t *seen = calloc(f->index->fields.count + 1, sizeof *seen);
    tarn_status status = !wanted || !seen
                             ? tarn__fail_memory(err)
                             : number_fields(f, fields, count, wanted, &distinct, err);
    if (status == TARN_OK) status = filter_begin(f, &made, err);
    for (uint64_t i = 0; status == TARN_OK && i < f->n_samples; i++)
        status = require_in_sample(f, i, wanted, distinct, seen, &made, err);
    free(wanted);
    free(seen);
    return filter_end(f, &made, status);
}

/* Marks the rows of every key. */
static tarn_status mark_keys(tarn_fold *f, const char *const *keys, size_t count,
                             bool *found, unsigned char *marks, tarn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        tarn_sample s;
        tarn_status status = tarn_fold_find(f, keys[i], &s, err);
        if (found) found[i] = status == TARN_OK;
        if (found && status == TARN_ERR_NO_SAMPLE) continue;
        TARN_TRY(status);
        for (uint32_t k = 0; k < s.count; k++) {
            uint64_t row = tarn_sample_row(&s, k);
            marks[row / 8] |= (unsigned char)(1u << (row % 8));
        }
    }
    return TARN_OK;
}

tarn_status tarn_fold_keep(tarn_fold *f, const char *const *keys, size_t count,
                           bool *found, tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    TARN__NEED(err, "keys", keys || !count);
    filter made = {0};
    TARN_TRY(tarn__fold_group(f, err));
    unsigned char *marks = calloc(f->index->n_rows / 8 + 1, 1);
    tarn_status status =
        marks ? mark_keys(f, keys, count, found, marks, err) : tarn__fail_memory(err);
    if (status == TARN_OK) status = filter_begin(f, &made, err);
    for (uint64_t i = 0; status == TARN_OK && i < f->n_samples; i++) {
        tarn_sample s;
        status = tarn_fold_sample(f, i, &s, err);
        if (status != TARN_OK) break;
        uint64_t first = tarn_sample_row(&s, 0);
        if (!(marks[first / 8] >> (first % 8) & 1)) continue;
        made.starts[made.n_samples++] = (uint32_t)made.n_rows;
        for (uint32_t k = 0; k < s.count; k++)
            made.rows[made.n_rows++] = (uint32_t)tarn_sample_row(&s, k);
    }
    free(marks);
    return filter_end(f, &made, status);
}
