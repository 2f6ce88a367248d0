/* The public functions for the two tables of an IAC file: whole tables, columns and
 * values. */
#include "base/error.h"
#include "base/options.h"
#include "iac/file.h"

static const tarn__table *table_of(const tarn_iac *p, tarn_iac_table which)
{
    return p->tables[which == TARN_IAC_SLIDES ? TARN_IAC_SLIDES : TARN_IAC_INDEX];
}

static tarn_status check_column(const tarn_iac *p, const tarn__table *t, size_t column,
                                tarn_status code, tarn_error *err)
{
    if (column < (size_t)t->schema.n_children) return TARN_OK;
    return tarn__fail_at(err, code, p->file->path, TARN_NO_OFFSET, "no column %zu",
                         column);
}

tarn_status tarn_iac_export(tarn_iac *p, tarn_iac_table which,
                            struct ArrowArrayStream *out, tarn_error *err)
{
    TARN__NEED(err, "pack", p);
    TARN__NEED(err, "out", out);
    return tarn__table_export((tarn__table *)(uintptr_t)table_of(p, which), out, err);
}

tarn_status tarn_iac_column_get(const tarn_iac *p, tarn_iac_table which, size_t column,
                                tarn_iac_column *out, size_t size, tarn_error *err)
{
    TARN__NEED(err, "pack", p);
    TARN__NEED(err, "out", out);
    const tarn__table *t = table_of(p, which);
    TARN_TRY(check_column(p, t, column, TARN_ERR_NO_FIELD, err));
    char *const *types = p->types[t == p->tables[TARN_IAC_INDEX]];
    tarn_iac_column found = {t->schema.children[column]->name, types[column]};
    TARN__FILL_OUT(out, size, found);
    return TARN_OK;
}

tarn_status tarn_iac_value(tarn_iac *p, tarn_iac_table which, size_t column, uint64_t row,
                           tarn_view *out, tarn_error *err)
{
    TARN__NEED(err, "pack", p);
    TARN__NEED(err, "out", out);
    enum { MAX_VALUE_TEXT = 64 << 20 };
    tarn__table *t = (tarn__table *)(uintptr_t)table_of(p, which);
    uint64_t in_batch;
    tarn__buf text;
    *out = (tarn_view)TARN_VIEW_INIT;
    TARN_TRY(tarn__table_validate(t, err));
    if (row >= t->rows) return tarn__iac_no_row(p, row, err);
    TARN_TRY(check_column(p, t, column, TARN_ERR_USAGE, err));
    const struct ArrowArray *batch = &t->batches[tarn__table_batch(t, row, &in_batch)];
    tarn__buf_init(&text, MAX_VALUE_TEXT);
    tarn_status status = tarn__cell_json(&text, t->schema.children[column],
                                         batch->children[column], (int64_t)in_batch, err);
    if (status == TARN_OK) status = tarn__buf_add(&text, "", 1, err);
    if (status == TARN_OK) status = tarn__source_file_settle(p->file, err);
    if (status == TARN_OK)
        *out = (tarn_view){(unsigned char *)text.data, text.size - 1, text.data};
    else
        tarn__buf_reset(&text);
    return status;
}
