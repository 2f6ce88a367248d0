/* The rows of a fold's samples: finds the row of a field, and the sample of a row. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "itar/fold.h"
#include "itar/fold_read.h"

/* --- Before reading ---------------------------------------------------------------- */

tarn_status tarn__fold_set_lead(tarn__fold *f, const char *const *fields, tarn_error *err)
{
    const tarn__names *names = &f->index->fields;
    if (!fields) return TARN_OK;
    bool *lead = f->lead = calloc(names->count + 1, sizeof *lead);
    if (!lead) return tarn__fail_memory(err);
    for (; *fields; fields++) {
        uint32_t id = tarn__names_find(names, *fields, strlen(*fields));
        if (id == TARN__NAME_NONE && **fields == '.')
            id = tarn__names_find(names, *fields + 1, strlen(*fields + 1));
        if (id != TARN__NAME_NONE) lead[id] = true;
    }
    return TARN_OK;
}

void tarn__fold_files(const tarn__fold *f, bool cold, tarn__files *out)
{
    tarn__files_init(out, f->files, cold, f->options.io);
}

/* --- Rows -------------------------------------------------------------------------- */

static const char *field_name(const tarn__fold *f, uint32_t field)
{
    return tarn__names_get(&f->index->fields, field).data;
}

/* "train-00006", for a message. */
static char *show_key(tarn__fold *f, uint64_t sample, char *out, size_t size)
{
    tarn_text key = {0};
    uint64_t row = tarn__fold_row(f, tarn__fold_start(f, sample));
    if (tarn__fold_names(f, row, &key, NULL, NULL) == TARN_OK)
        tarn_printable(out, size, key.data, key.size);
    else
        tarn_printable(out, size, "?", 1);
    tarn_text_reset(&key);
    return out;
}

static tarn_status fail_lacks(tarn__fold *f, uint64_t sample, uint32_t field,
                              tarn_error *err)
{
    char shown[200];
    if (!err) return TARN_ERR_NO_FIELD;
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, f->index->path, TARN_NO_OFFSET,
                         "sample %s has no field %s",
                         show_key(f, sample, shown, sizeof shown), field_name(f, field));
}

tarn_status tarn__fold_fail_twice(tarn__fold *f, uint64_t sample, uint32_t field,
                                  tarn_error *err)
{
    char shown[200];
    uint64_t row = tarn__fold_row(f, tarn__fold_start(f, sample));
    return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, f->index->path, TARN_NO_OFFSET,
                         "sample %s (row %llu) has field %s twice; exclude such samples "
                         "with drop_ambiguous, or rewrite the fold",
                         show_key(f, sample, shown, sizeof shown),
                         (unsigned long long)row, field_name(f, field));
}

/* The position of a field among the rows of a sample of odd shape. */
static uint32_t odd_place(const tarn__fold *f, uint64_t sample, uint32_t field)
{
    uint64_t from = tarn__fold_start(f, sample), end = tarn__fold_start(f, sample + 1);
    uint32_t found = TARN__LACKED;
    for (uint64_t at = from; at < end; at++) {
        const unsigned char *p = tarn__index_at(f->index, tarn__fold_row(f, at));
        if (tarn__row_field(p) != field) continue;
        if (found != TARN__LACKED) return TARN__DOUBLE;
        found = (uint32_t)(at - from);
    }
    return found;
}

uint32_t tarn__fold_place(const tarn__fold *f, uint64_t sample, uint32_t field)
{
    uint16_t shape = tarn__fold_shape(f, sample);
    if (shape == TARN__SHAPE_ODD) return odd_place(f, sample, field);
    return tarn__fold_shape_place(f, shape, field);
}

tarn_status tarn__fold_has(void *fold, uint64_t sample, uint32_t field, bool *out,
                           tarn_error *err)
{
    (void)err;
    *out = tarn__fold_place(fold, sample, field) != TARN__LACKED;
    return TARN_OK;
}

tarn_status tarn__fold_row_of(tarn__fold *f, uint64_t sample, uint32_t field,
                              uint64_t *out, tarn_error *err)
{
    uint32_t place = tarn__fold_place(f, sample, field);
    if (place == TARN__LACKED) return fail_lacks(f, sample, field, err);
    if (place == TARN__DOUBLE) return tarn__fold_fail_twice(f, sample, field, err);
    *out = tarn__fold_row(f, tarn__fold_start(f, sample) + place);
    return TARN_OK;
}

uint64_t tarn__fold_n_rows(const tarn__fold *f, uint64_t sample)
{
    return tarn__fold_start(f, sample + 1) - tarn__fold_start(f, sample);
}

tarn_status tarn__fold_row_at(const tarn__fold *f, uint64_t sample, uint64_t k,
                              uint64_t *out_number, tarn_row *out, tarn_error *err)
{
    *out_number = tarn__fold_row(f, tarn__fold_start(f, sample) + k);
    return tarn__locate_row(&f->place, *out_number, out, err);
}

/* --- Keys -------------------------------------------------------------------------- */

uint64_t tarn__fold_key_row(const tarn__fold *f, uint64_t sample)
{
    return f->remote ? tarn__fold_lead(f, sample)
                     : tarn__fold_row(f, tarn__fold_start(f, sample));
}

tarn_status tarn__fold_key_hash(const tarn__fold *f, uint64_t sample, uint64_t *out,
                                tarn_error *err)
{
    const unsigned char *p;
    uint64_t row = tarn__fold_row(f, tarn__fold_start(f, sample));
    TARN_TRY(tarn__index_use(f->index, row, &p, err));
    *out = tarn__row_hash(p);
    return TARN_OK;
}

/* The sort key of gathered samples. With hashes, samples are in key order, so their
 * starts are positions in it. */
static uint64_t rank_of(const tarn__fold *f, uint64_t sample)
{
    uint64_t from = f->starts[sample];
    if (!f->rows || f->options.by_hash) return from;
    return tarn__fold_lead_of(f, f->rows + from, f->starts[sample + 1] - (uint32_t)from);
}

/* The number of a sample that was found. */
static uint64_t sample_of(const tarn__fold *f, const tarn__sample_rows *found)
{
    uint64_t low = 0, high = f->n_samples, wanted = tarn__rows_at(found, 0);
    if (!f->starts) return wanted / f->stride;
    if (f->rows && f->options.by_hash)
        wanted = (uint64_t)(found->rows - atomic_load(&f->order));
    else if (f->rows)
        wanted = tarn__fold_lead_of(f, found->rows, found->count);
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (rank_of(f, mid) <= wanted)
            low = mid;
        else
            high = mid;
    }
    return low;
}

tarn_status tarn__fold_find(tarn__fold *f, const char *key, uint64_t *out,
                            tarn_error *err)
{
    tarn__sample_rows found;
    TARN_TRY(tarn__fold_find_rows(f, key, &found, err));
    *out = sample_of(f, &found);
    return TARN_OK;
}

tarn_status tarn__fold_key(void *fold, uint64_t sample, tarn_text *out, tarn_error *err)
{
    tarn__fold *f = fold;
    return tarn__fold_names(f, tarn__fold_key_row(f, sample), out, NULL, err);
}

tarn_status tarn__fold_key_of_name(const void *fold, const char *name, tarn_text *out,
                                   tarn_error *err)
{
    const tarn__fold *f = fold;
    const tarn__sums *sums = f->index->sums;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    bool whole = sums && sums->keys == TARN_KEYS_PATH;
    const char *end = strchrnul(base, '.');
    const char *from = whole ? name : base;
    return tarn__text_set(out, from, (size_t)(end - from), err);
}

/* --- Identity ---------------------------------------------------------------------- */

void tarn__fold_describe(const tarn__fold *f,
                         void (*add)(void *context, const void *data, size_t size),
                         void *context)
{
    for (uint64_t i = 0; i < f->index->n_rows; i++)
        add(context, tarn__index_at(f->index, i), TARN__ROW_SIZE);
    if (f->rows) add(context, f->rows, (size_t)f->index->n_rows * sizeof *f->rows);
}
