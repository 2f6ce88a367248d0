/* Builds tables row by row, with nanoarrow, for callers without an Arrow library. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nanoarrow/nanoarrow.h>

#include <tarn/iac.h>

#include "base/error.h"
#include "base/utf8.h"

struct tarn_iac_rows {
    struct ArrowSchema schema;
    struct ArrowArray array;
    size_t columns;
};

static const struct {
    const char *word;
    enum ArrowType type; /* of a column, or of the items of a list */
    bool list;
} kinds[] = {
    {"text:", NANOARROW_TYPE_STRING, false}, {"int:", NANOARROW_TYPE_INT64, false},
    {"uint:", NANOARROW_TYPE_UINT64, false}, {"u8:", NANOARROW_TYPE_UINT8, false},
    {"u32:", NANOARROW_TYPE_UINT32, false},  {"real:", NANOARROW_TYPE_DOUBLE, false},
    {"bool:", NANOARROW_TYPE_BOOL, false},   {"time:", NANOARROW_TYPE_TIMESTAMP, false},
    {"texts:", NANOARROW_TYPE_STRING, true}, {"ints:", NANOARROW_TYPE_INT64, true},
    {"reals:", NANOARROW_TYPE_DOUBLE, true}, {"bools:", NANOARROW_TYPE_BOOL, true}};

static int set_type(struct ArrowSchema *out, enum ArrowType type, bool list)
{
    if (type == NANOARROW_TYPE_TIMESTAMP)
        return ArrowSchemaSetTypeDateTime(out, type, NANOARROW_TIME_UNIT_MICRO, "UTC");
    int code = ArrowSchemaSetType(out, list ? NANOARROW_TYPE_LIST : type);
    return list && code == 0 ? ArrowSchemaSetType(out->children[0], type) : code;
}

static tarn_status set_column(struct ArrowSchema *out, const char *column,
                              tarn_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i].word);
        if (strncmp(column, kinds[i].word, n) != 0) continue;
        if (set_type(out, kinds[i].type, kinds[i].list) != 0 ||
            ArrowSchemaSetName(out, column + n) != 0)
            return tarn__fail_memory(err);
        return TARN_OK;
    }
    return tarn__fail(err, TARN_ERR_USAGE,
                      "column %s: the name must begin with text:, int:, uint:, u8:, "
                      "u32:, real:, bool:, time:, texts:, ints:, reals: or "
                      "bools:",
                      column);
}

static tarn_status start(tarn_iac_rows *rows, const char *const *columns, size_t count,
                         tarn_error *err)
{
    rows->columns = count;
    ArrowSchemaInit(&rows->schema);
    if (ArrowSchemaSetTypeStruct(&rows->schema, (int64_t)count) != 0)
        return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++)
        TARN_TRY(set_column(rows->schema.children[i], columns[i], err));
    if (ArrowArrayInitFromSchema(&rows->array, &rows->schema, NULL) != 0 ||
        ArrowArrayStartAppending(&rows->array) != 0)
        return tarn__fail_memory(err);
    return TARN_OK;
}

tarn_status tarn_iac_rows_new(const char *const *columns, size_t count,
                              tarn_iac_rows **out, tarn_error *err)
{
    TARN__NEED(err, "columns", columns || !count);
    TARN__NEED(err, "out", out);
    tarn_iac_rows *rows = calloc(1, sizeof *rows);
    if (!rows) return tarn__fail_memory(err);
    tarn_status status = start(rows, columns, count, err);
    if (status == TARN_OK)
        *out = rows;
    else
        tarn_iac_rows_free(rows);
    return status;
}

void tarn_iac_rows_free(tarn_iac_rows *rows)
{
    if (!rows) return;
    if (rows->array.release) ArrowArrayRelease(&rows->array);
    if (rows->schema.release) ArrowSchemaRelease(&rows->schema);
    free(rows);
}

static tarn_status added(int code, tarn_error *err)
{
    if (code == 0) return TARN_OK;
    if (code == ENOMEM) return tarn__fail_memory(err);
    return tarn__fail(err, TARN_ERR_USAGE, "the value does not fit its column: %s",
                      strerror(code));
}

static tarn_status add_text(struct ArrowArray *to, const char *column,
                            const tarn_iac_cell *cell, tarn_error *err)
{
    TARN__NEED(err, "text", cell->text || !cell->size);
    struct ArrowStringView view = {cell->text, (int64_t)cell->size};
    if (!tarn__utf8_is_valid(cell->text, cell->size))
        return tarn__fail(err, TARN_ERR_USAGE, "column %s: the text is not UTF-8",
                          column);
    return added(ArrowArrayAppendString(to, view), err);
}

static tarn_status add_item(struct ArrowArray *to, const char *column,
                            const tarn_iac_cell *item, tarn_error *err)
{
    switch (item->kind) {
    case TARN_IAC_INTEGER:
        return added(ArrowArrayAppendInt(to, item->integer), err);
    case TARN_IAC_REAL:
        return added(ArrowArrayAppendDouble(to, item->real), err);
    case TARN_IAC_TEXT:
        return add_text(to, column, item, err);
    default:
        return tarn__fail(err, TARN_ERR_USAGE, "column %s: a list in a list", column);
    }
}

static tarn_status add_list(struct ArrowArray *to, const char *column,
                            const tarn_iac_cell *cell, tarn_error *err)
{
    TARN__NEED(err, "items", cell->items || !cell->size);
    if (to->n_children != 1)
        return tarn__fail(err, TARN_ERR_USAGE, "column %s does not hold lists", column);
    for (size_t i = 0; i < cell->size; i++)
        TARN_TRY(add_item(to->children[0], column, &cell->items[i], err));
    return added(ArrowArrayFinishElement(to), err);
}

/* Adds anything but an integer. Not inlined, because its registers would slow down
 * integers. */
__attribute__((noinline)) static tarn_status add_other(const tarn_iac_rows *rows,
                                                       size_t column,
                                                       const tarn_iac_cell *cell,
                                                       tarn_error *err)
{
    struct ArrowArray *to = rows->array.children[column];
    const char *name = rows->schema.children[column]->name;
    if (!cell) return added(ArrowArrayAppendNull(to, 1), err);
    return cell->kind == TARN_IAC_LIST ? add_list(to, name, cell, err)
                                       : add_item(to, name, cell, err);
}

tarn_status tarn_iac_rows_add(tarn_iac_rows *rows, size_t column,
                              const tarn_iac_cell *cell, tarn_error *err)
{
    TARN__NEED(err, "rows", rows);
    if (column >= rows->columns)
        return tarn__fail(err, TARN_ERR_USAGE, "no column %zu", column);
    if (!cell || cell->kind != TARN_IAC_INTEGER)
        return add_other(rows, column, cell, err);
    return added(ArrowArrayAppendInt(rows->array.children[column], cell->integer), err);
}

static tarn_status finish(tarn_iac_rows *rows, struct ArrowArrayStream *out,
                          tarn_error *err)
{
    out->release = NULL;
    int64_t length = rows->columns ? rows->array.children[0]->length : 0;
    for (size_t i = 0; i < rows->columns; i++)
        if (rows->array.children[i]->length != length)
            return tarn__fail(err, TARN_ERR_USAGE,
                              "column %s has %lld rows, but the first column has %lld",
                              rows->schema.children[i]->name,
                              (long long)rows->array.children[i]->length,
                              (long long)length);
    rows->array.length = length;
    if (ArrowArrayFinishBuildingDefault(&rows->array, NULL) != 0 ||
        ArrowBasicArrayStreamInit(out, &rows->schema, 1) != 0)
        return tarn__fail_memory(err);
    ArrowBasicArrayStreamSetArray(out, 0, &rows->array);
    return TARN_OK;
}

tarn_status tarn_iac_rows_finish(tarn_iac_rows *rows, struct ArrowArrayStream *out,
                                 tarn_error *err)
{
    TARN__NEED(err, "rows", rows);
    tarn_status status =
        out ? finish(rows, out, err) : tarn__fail(err, TARN_ERR_USAGE, "out is NULL");
    tarn_iac_rows_free(rows);
    return status;
}
