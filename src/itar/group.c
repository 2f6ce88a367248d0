/* Which rows make up a sample. Most folds are regular: every sample has the same fields
 * in the same order, one after the other. That is tried first, or known from the sums,
 * and then nothing is stored for a sample. All passes check a page of the index and use
 * it while it is in the cache. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "itar/fold.h"
#include "itar/key_order.h"
#include "itar/regular.h"

enum { PAGE_ROWS = 128 };

static tarn_status fail_count(const tarn__fold *f, uint64_t samples, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_FORMAT, f->index->path, 16,
                         "%llu samples are counted, but the rows make %llu; run tarn "
                         "index again",
                         (unsigned long long)f->index->n_stems,
                         (unsigned long long)samples);
}

static tarn_status fail_field(const tarn__fold *f, uint64_t row, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_FORMAT, f->index->path, TARN_NO_OFFSET,
                         "row %llu has a field number past the last field; run tarn "
                         "index again",
                         (unsigned long long)row);
}

/* The next rows that lie together, at most a page, checked. */
static tarn_status next_page(const tarn__fold *f, size_t *chunk, uint64_t at,
                             const unsigned char **out, size_t *out_count,
                             tarn_error *err)
{
    const tarn_index *index = f->index;
    while (*chunk + 1 < index->n_chunks && index->chunks[*chunk + 1].first <= at)
        ++*chunk;
    uint64_t end =
        *chunk + 1 < index->n_chunks ? index->chunks[*chunk + 1].first : index->n_rows;
    if (end - at > PAGE_ROWS - at % PAGE_ROWS) end = at + PAGE_ROWS - at % PAGE_ROWS;
    *out_count = (size_t)(end - at);
    return tarn__index_use(index, at, out, err);
}

/* --- Regular folds ------------------------------------------------------------------ */

/* Takes the fields from the first rows, where the numbers let the fold be regular. */
static tarn_status begin_regular(tarn__fold *f, tarn__regular *r, tarn_error *err)
{
    const unsigned char *p = NULL;
    uint32_t stride = tarn__regular_stride(f->index->n_rows, f->index->n_stems);
    r->stride = 0;
    for (uint32_t k = stride; k-- > 0;) {
        TARN_TRY(tarn__index_use(f->index, k, &p, err));
        r->fields[k] = tarn__row_field(p);
        if (r->fields[k] >= f->index->fields.count) return fail_field(f, k, err);
    }
    if (p) tarn__regular_begin(r, stride, p);
    return TARN_OK;
}

/* Sums that were loaded say what the fold is, and every page is held against that when it
 * is first used. Not so where the shape is odd: then rows are looked at again and again,
 * and all are checked now. */
static tarn_status group_regular(tarn__fold *f, bool *out_is, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    tarn__regular r;
    size_t chunk = 0, count;
    const unsigned char *p;
    uint16_t shape = 0;
    TARN_TRY(begin_regular(f, &r, err));
    for (uint32_t k = 0; k < r.stride; k++)
        shape = tarn__shapes_step(&f->shapes, shape, r.fields[k]);
    bool is_known = sums && sums->checked && sums->stride && shape != TARN__SHAPE_ODD;
    *out_is = r.stride != 0;
    for (uint64_t at = 0; !is_known && *out_is && at < f->index->n_rows; at += count) {
        TARN_TRY(next_page(f, &chunk, at, &p, &count, err));
        *out_is = tarn__regular_next(&r, p, count);
    }
    if (!*out_is) return TARN_OK;
    f->n_samples = f->index->n_stems;
    f->stride = r.stride;
    f->shape = shape;
    return TARN_OK;
}

/* --- Contiguous folds --------------------------------------------------------------- */

static tarn_status alloc_samples(tarn__fold *f, tarn_error *err)
{
    uint64_t n = f->index->n_stems;
    f->starts = tarn__big_alloc((n + 1) * sizeof *f->starts);
    f->shape_of = tarn__big_alloc((n + 1) * sizeof *f->shape_of);
    return f->starts && f->shape_of ? TARN_OK : tarn__fail_memory(err);
}

/* What goes from page to page. */
typedef struct progress {
    uint64_t samples;
    uint64_t hash; /* of the row before */
    uint32_t crash;
    uint16_t shape; /* of the sample so far */
} progress;

/* Everything in locals: stores to the lists could be to anything, for the compiler. */
static tarn_status group_page(tarn__fold *f, const unsigned char *p, uint64_t at,
                              size_t count, progress *g, tarn_error *err)
{
    uint32_t *starts = f->starts;
    uint16_t *shape_of = f->shape_of, shape = g->shape;
    uint64_t n = g->samples, hash = g->hash, most = f->index->n_stems;
    uint32_t crash = g->crash, n_fields = f->shapes.n_fields;
    for (size_t i = 0; i < count; i++, p += TARN__ROW_SIZE) {
        uint64_t h = tarn__row_hash(p);
        uint32_t c = tarn__row_crash(p);
        uint16_t field = tarn__row_field(p);
        if (field >= n_fields) return fail_field(f, at + i, err);
        if (h != hash || c != crash || n == 0) {
            if (n) shape_of[n - 1] = shape;
            if (n == most) return fail_count(f, n + 1, err);
            starts[n++] = (uint32_t)(at + i);
            shape = 0;
            hash = h;
            crash = c;
        }
        shape = tarn__shapes_step(&f->shapes, shape, field);
    }
    *g = (progress){n, hash, crash, shape};
    return TARN_OK;
}

static tarn_status group_in_file_order(tarn__fold *f, tarn_error *err)
{
    const unsigned char *p;
    size_t chunk = 0, count;
    progress g = {0};
    TARN_TRY(alloc_samples(f, err));
    for (uint64_t at = 0; at < f->index->n_rows; at += count) {
        TARN_TRY(next_page(f, &chunk, at, &p, &count, err));
        TARN_TRY(group_page(f, p, at, count, &g, err));
    }
    if (g.samples != f->index->n_stems) return fail_count(f, g.samples, err);
    if (g.samples) f->shape_of[g.samples - 1] = g.shape;
    f->n_samples = g.samples;
    f->starts[f->n_samples] = (uint32_t)f->index->n_rows;
    return TARN_OK;
}

/* --- Other folds -------------------------------------------------------------------- */

uint64_t tarn__fold_lead_of(const tarn__fold *f, const uint32_t *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint16_t field = tarn__row_field(tarn__index_at(f->index, rows[i]));
        if (!f->lead || (field < f->index->fields.count && f->lead[field]))
            return rows[i];
    }
    return (UINT64_C(1) << 32) + rows[0];
}

/* Of a regular fold the first sample tells, whose rows have been checked. */
uint64_t tarn__fold_lead(const tarn__fold *f, uint64_t sample)
{
    uint64_t from = tarn__fold_start(f, sample), end = tarn__fold_start(f, sample + 1);
    for (uint64_t at = from; f->lead && at < end; at++) {
        uint64_t row = tarn__fold_row(f, at), like = f->starts ? row : at - from;
        if (f->lead[tarn__row_field(tarn__index_at(f->index, like))]) return row;
    }
    return tarn__fold_row(f, from);
}

/* Each group as a run: hash is its first row, row its place in the order, tag its size.
 */
static tarn_status list_groups(tarn__fold *f, const uint32_t *order, tarn__run *groups,
                               tarn_error *err)
{
    uint64_t n = 0;
    uint32_t row, before = 0;
    TARN_TRY(tarn__sums_check_all(f->index->sums, TARN__PART_ROWS, err));
    for (uint64_t i = 0; i < f->index->n_rows; i++) {
        TARN_TRY(tarn__fold_order_at(f, order, i, &row, err));
        if (i && tarn__row_same_key(tarn__index_at(f->index, before),
                                    tarn__index_at(f->index, row))) {
            groups[n - 1].tag++;
        } else {
            if (n == f->index->n_stems) return fail_count(f, n + 1, err);
            groups[n++] = (tarn__run){row, (uint32_t)i, 1};
        }
        before = row;
    }
    return n == f->index->n_stems ? TARN_OK : fail_count(f, n, err);
}

/* Takes in the rows of one group, the k-th of the samples. */
static tarn_status take_group(tarn__fold *f, uint64_t k, const uint32_t *rows,
                              uint32_t count, uint64_t at, tarn_error *err)
{
    uint16_t shape = 0;
    f->starts[k] = (uint32_t)at;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t field = tarn__row_field(tarn__index_at(f->index, rows[i]));
        if (field >= f->shapes.n_fields) return fail_field(f, rows[i], err);
        shape = tarn__shapes_step(&f->shapes, shape, field);
        f->rows[at + i] = rows[i];
    }
    f->shape_of[k] = shape;
    return TARN_OK;
}

static tarn_status group_by_key(tarn__fold *f, tarn_error *err)
{
    uint64_t n = f->index->n_stems, at = 0;
    TARN_TRY(tarn__fold_make_order(f, err));
    TARN_TRY(alloc_samples(f, err));
    const uint32_t *order = atomic_load(&f->order);
    tarn__run *groups = tarn__big_alloc((n + 1) * sizeof *groups);
    f->rows = tarn__big_alloc((f->index->n_rows + 1) * sizeof *f->rows);
    tarn_status status =
        !groups || !f->rows ? tarn__fail_memory(err) : list_groups(f, order, groups, err);
    for (uint64_t i = 0; status == TARN_OK && f->lead && i < n; i++)
        groups[i].hash = tarn__fold_lead_of(f, order + groups[i].row, groups[i].tag);
    if (status == TARN_OK && !f->options.by_hash) tarn__runs_sort(groups, n, 1);
    for (uint64_t i = 0; status == TARN_OK && i < n; i++) {
        status = take_group(f, i, order + groups[i].row, groups[i].tag, at, err);
        at += groups[i].tag;
    }
    free(groups);
    TARN_TRY(status);
    f->starts[n] = (uint32_t)at;
    f->n_samples = n;
    return TARN_OK;
}

static void drop_groups(tarn__fold *f)
{
    free(f->starts);
    free(f->rows);
    free(f->shape_of);
    f->starts = f->rows = NULL;
    f->shape_of = NULL;
    tarn__shapes_reset(&f->shapes);
}

static tarn_status make_groups(tarn__fold *f, tarn_error *err)
{
    bool is_regular = false;
    if (atomic_load(&f->grouped)) return TARN_OK;
    TARN_TRY(tarn__shapes_init(&f->shapes, (uint32_t)f->index->fields.count, err));
    tarn_status status = TARN_OK;
    if (f->index->contiguous) status = group_regular(f, &is_regular, err);
    if (status == TARN_OK && !is_regular)
        status =
            f->index->contiguous ? group_in_file_order(f, err) : group_by_key(f, err);
    if (status == TARN_OK)
        atomic_store(&f->grouped, true);
    else
        drop_groups(f);
    return status;
}

tarn_status tarn__fold_group(tarn__fold *f, tarn_error *err)
{
    if (atomic_load(&f->grouped)) return TARN_OK;
    pthread_mutex_lock(&f->lock.mutex);
    tarn_status status = make_groups(f, err);
    pthread_mutex_unlock(&f->lock.mutex);
    return status;
}
