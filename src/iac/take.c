/* Copies rows of a table in another order, value by value. nanoarrow handles the
 * types. */
#include "iac/take.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nanoarrow/nanoarrow.h>

#include "base/buf.h"
#include "base/error.h"

/* --- Values ------------------------------------------------------------------------ */

/* Each dictionary is copied whole, once for every array of indices that uses it; base is
 * the position of its first entry in the copy. */
typedef struct dictionary {
    const struct ArrowArray *of;
    const void *values;
    int64_t length, base;
} dictionary;

typedef struct taking {
    dictionary *dictionaries;
    size_t count, room;
} taking;

static int append(taking *t, struct ArrowArray *out, const struct ArrowArrayView *v,
                  int64_t i);

/* Searches the latest dictionaries first, because rows are mostly in some order. */
static const dictionary *find_dictionary(const taking *t, const dictionary *like)
{
    for (size_t i = t->count; i-- > 0;) {
        const dictionary *d = &t->dictionaries[i];
        if (d->of == like->of && d->values == like->values && d->length == like->length)
            return d;
    }
    return NULL;
}

static int add_dictionary(taking *t, struct ArrowArray *out,
                          const struct ArrowArrayView *entries, dictionary *d)
{
    d->base = out->length;
    for (int64_t k = 0; k < entries->length; k++)
        NANOARROW_RETURN_NOT_OK(append(t, out, entries, k));
    if (tarn__grow(&t->dictionaries, sizeof *t->dictionaries, t->count, &t->room, NULL) !=
        TARN_OK)
        return ENOMEM;
    t->dictionaries[t->count++] = *d;
    return 0;
}

static int append_index(taking *t, struct ArrowArray *out, const struct ArrowArrayView *v,
                        int64_t i)
{
    const struct ArrowArrayView *entries = v->dictionary;
    dictionary d = {.of = out, .length = entries->length};
    d.values =
        entries->n_children ? (const void *)entries : entries->buffer_views[1].data.data;
    const dictionary *known = find_dictionary(t, &d);
    if (known)
        d = *known;
    else
        NANOARROW_RETURN_NOT_OK(add_dictionary(t, out->dictionary, entries, &d));
    return ArrowArrayAppendInt(out, ArrowArrayViewGetIntUnsafe(v, i) + d.base);
}

static int append_children(taking *t, struct ArrowArray *out,
                           const struct ArrowArrayView *v, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        NANOARROW_RETURN_NOT_OK(append(t, out->children[0], v->children[0], i));
    return ArrowArrayFinishElement(out);
}

static int append_struct(taking *t, struct ArrowArray *out,
                         const struct ArrowArrayView *v, int64_t i)
{
    for (int64_t k = 0; k < v->n_children; k++)
        NANOARROW_RETURN_NOT_OK(
            append(t, out->children[k], v->children[k], i + v->offset));
    return ArrowArrayFinishElement(out);
}

/* Numbers, times, decimals, intervals and fixed-size binary: copies the bytes. */
static int append_fixed(struct ArrowArray *out, const struct ArrowArrayView *v,
                        int64_t at)
{
    int64_t width = v->layout.element_size_bits[1] / 8;
    struct ArrowBitmap *valid = ArrowArrayValidityBitmap(out);
    if (valid->buffer.data) NANOARROW_RETURN_NOT_OK(ArrowBitmapAppend(valid, 1, 1));
    NANOARROW_RETURN_NOT_OK(ArrowBufferAppend(
        ArrowArrayBuffer(out, 1), v->buffer_views[1].data.as_uint8 + at * width, width));
    out->length++;
    return 0;
}

static int append_union(taking *t, struct ArrowArray *out, const struct ArrowArrayView *v,
                        int64_t i)
{
    int8_t type = ArrowArrayViewUnionTypeId(v, i),
           child = ArrowArrayViewUnionChildIndex(v, i);
    NANOARROW_RETURN_NOT_OK(append(t, out->children[child], v->children[child],
                                   ArrowArrayViewUnionChildOffset(v, i)));
    return ArrowArrayFinishUnionElement(out, type);
}

static int append_list_view(taking *t, struct ArrowArray *out,
                            const struct ArrowArrayView *v, int64_t at)
{
    int64_t from = ArrowArrayViewListChildOffset(v, at);
    int64_t size = v->storage_type == NANOARROW_TYPE_LIST_VIEW
                       ? v->buffer_views[2].data.as_int32[at]
                       : v->buffer_views[2].data.as_int64[at];
    return append_children(t, out, v, from, from + size);
}

static int append(taking *t, struct ArrowArray *out, const struct ArrowArrayView *v,
                  int64_t i)
{
    int64_t at = i + v->offset;
    if (v->storage_type == NANOARROW_TYPE_NA || ArrowArrayViewIsNull(v, i))
        return ArrowArrayAppendNull(out, 1);
    if (v->dictionary) return append_index(t, out, v, i);
    switch (v->storage_type) {
    case NANOARROW_TYPE_BOOL:
        return ArrowArrayAppendInt(out, ArrowArrayViewGetIntUnsafe(v, i));
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_BINARY:
    case NANOARROW_TYPE_STRING_VIEW:
    case NANOARROW_TYPE_BINARY_VIEW:
        return ArrowArrayAppendBytes(out, ArrowArrayViewGetBytesUnsafe(v, i));
    case NANOARROW_TYPE_STRUCT:
        return append_struct(t, out, v, i);
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_MAP:
        return append_children(t, out, v, ArrowArrayViewListChildOffset(v, at),
                               ArrowArrayViewListChildOffset(v, at + 1));
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        return append_children(t, out, v, at * v->layout.child_size_elements,
                               (at + 1) * v->layout.child_size_elements);
    case NANOARROW_TYPE_LIST_VIEW:
    case NANOARROW_TYPE_LARGE_LIST_VIEW:
        return append_list_view(t, out, v, at);
    case NANOARROW_TYPE_SPARSE_UNION:
    case NANOARROW_TYPE_DENSE_UNION:
        return append_union(t, out, v, i);
    case NANOARROW_TYPE_RUN_END_ENCODED:
        return ENOTSUP;
    default:
        return append_fixed(out, v, at);
    }
}

/* --- Columns ----------------------------------------------------------------------- */

static int take_column(const tarn__table *t, const struct ArrowArrayView *views,
                       int64_t column, const uint64_t *rows, size_t count,
                       struct ArrowArray *out)
{
    taking state = {0};
    int code = 0;
    for (size_t k = 0; k < count && code == 0; k++) {
        uint64_t row;
        const struct ArrowArrayView *batch = &views[tarn__table_batch(t, rows[k], &row)];
        code = append(&state, out, batch->children[column], (int64_t)row);
    }
    free(state.dictionaries);
    return code;
}

static tarn_status take_columns(const tarn__table *t, const struct ArrowArrayView *views,
                                const uint64_t *rows, size_t count,
                                struct ArrowArray *out, tarn_error *err)
{
    if (ArrowArrayInitFromSchema(out, &t->schema, NULL) != 0 ||
        ArrowArrayStartAppending(out) != 0)
        return tarn__fail_memory(err);
    for (int64_t c = 0; c < t->schema.n_children; c++) {
        int code = take_column(t, views, c, rows, count, out->children[c]);
        if (code == ENOMEM) return tarn__fail_memory(err);
        if (code != 0)
            return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                              "column %s has a type whose rows cannot be reordered",
                              t->schema.children[c]->name);
    }
    out->length = (int64_t)count;
    return ArrowArrayFinishBuildingDefault(out, NULL) == 0 ? TARN_OK
                                                           : tarn__fail_memory(err);
}

static tarn_status make_stream(const tarn__table *t, struct ArrowArray *array,
                               struct ArrowArrayStream *out, tarn_error *err)
{
    struct ArrowSchema schema;
    if (ArrowSchemaDeepCopy(&t->schema, &schema) != 0) return tarn__fail_memory(err);
    if (ArrowBasicArrayStreamInit(out, &schema, 1) != 0) {
        ArrowSchemaRelease(&schema);
        return tarn__fail_memory(err);
    }
    ArrowBasicArrayStreamSetArray(out, 0, array);
    return TARN_OK;
}

static tarn_status view_batch(const tarn__table *t, size_t i, struct ArrowArrayView *out,
                              tarn_error *err)
{
    struct ArrowError why;
    if (ArrowArrayViewInitFromSchema(out, &t->schema, &why) == 0 &&
        ArrowArrayViewSetArray(out, &t->batches[i], &why) == 0)
        return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT, "invalid batch in the table: %s",
                      ArrowErrorMessage(&why));
}

tarn_status tarn__iac_take(tarn__table *t, const uint64_t *rows, size_t count,
                           struct ArrowArrayStream *out, tarn_error *err)
{
    struct ArrowArray array = {0};
    out->release = NULL;
    TARN_TRY(tarn__table_validate(t, err));
    for (size_t k = 0; k < count; k++)
        if (rows[k] >= t->rows)
            return tarn__fail(err, TARN_ERR_NO_SAMPLE,
                              "no row %llu; the table has %llu rows",
                              (unsigned long long)rows[k], (unsigned long long)t->rows);
    struct ArrowArrayView *views = calloc(t->count + 1, sizeof *views);
    if (!views) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < t->count && status == TARN_OK; i++)
        status = view_batch(t, i, &views[i], err);
    if (status == TARN_OK) status = take_columns(t, views, rows, count, &array, err);
    if (status == TARN_OK) status = make_stream(t, &array, out, err);
    if (status != TARN_OK && array.release) ArrowArrayRelease(&array);
    for (size_t i = 0; i < t->count; i++)
        ArrowArrayViewReset(&views[i]);
    free(views);
    return status;
}
