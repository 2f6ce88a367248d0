/* Checks the contents of the buffers of an array whose buffers are known to be long
 * enough: offsets must not decrease and must stay inside the data; views, list views,
 * union types, dictionary indices and run ends must refer to existing values. The arrays
 * come from files, so array->offset is 0. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "iac/ipc.h"

static tarn_status bad(const struct ArrowSchema *schema, int64_t row, const char *what,
                       tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "column %s, row %lld of a batch: %s",
                      TARN__SHOW(schema->name, strlen(schema->name)), (long long)row,
                      what);
}

/* The loop for four-byte offsets, by far the most common, has no branches. */
static bool grows32(const void *buffer, int64_t n)
{
    const int32_t *at = buffer;
    int fell = 0;
    for (int64_t i = 0; i < n; i++)
        fell |= at[i + 1] < at[i];
    return !fell;
}

static tarn_status check_offsets(const struct ArrowSchema *schema,
                                 const struct ArrowArray *a, uint32_t width,
                                 uint64_t limit, tarn_error *err)
{
    if (a->length == 0) return TARN_OK;
    const void *offsets = a->buffers[1];
    int64_t first = tarn__int_at(offsets, width, 0);
    if (first < 0) return bad(schema, 0, "its offset is negative", err);
    if (width != 4 || !grows32(offsets, a->length))
        for (int64_t i = 0; i < a->length; i++)
            if (tarn__int_at(offsets, width, i + 1) < tarn__int_at(offsets, width, i))
                return bad(schema, i, "it ends before it begins", err);
    if ((uint64_t)tarn__int_at(offsets, width, a->length) > limit)
        return bad(schema, a->length - 1, "it ends after the data of the column", err);
    return TARN_OK;
}

/* For types with a bitmap, which is NULL if there are no nulls. */
static bool is_null(const struct ArrowArray *a, int64_t i)
{
    const unsigned char *bits = a->buffers[0];
    return bits && !(bits[i / 8] >> (i % 8) & 1);
}

static tarn_status check_views(const struct ArrowSchema *schema,
                               const struct ArrowArray *a, tarn_error *err)
{
    const uint64_t *sizes = tarn__buffer_sizes(a);
    int64_t extra = a->n_buffers - 3;
    for (int64_t i = 0; i < a->length; i++) {
        const unsigned char *v = (const unsigned char *)a->buffers[1] + 16 * i;
        int32_t len = (int32_t)tarn__get32(v), buffer = (int32_t)tarn__get32(v + 8),
                offset = (int32_t)tarn__get32(v + 12);
        if (is_null(a, i)) continue;
        if (len < 0) return bad(schema, i, "its length is negative", err);
        if (len > 12 &&
            (buffer < 0 || buffer >= extra || offset < 0 ||
             !tarn__range_in((uint64_t)offset, (uint64_t)len, sizes[2 + buffer])))
            return bad(schema, i, "it is not inside the data of the column", err);
    }
    return TARN_OK;
}

static tarn_status check_list_views(const struct ArrowSchema *schema,
                                    const struct ArrowArray *a, uint32_t width,
                                    tarn_error *err)
{
    uint64_t limit = (uint64_t)a->children[0]->length;
    for (int64_t i = 0; i < a->length; i++) {
        int64_t offset = tarn__int_at(a->buffers[1], width, i),
                size = tarn__int_at(a->buffers[2], width, i);
        if (offset < 0 || size < 0 ||
            !tarn__range_in((uint64_t)offset, (uint64_t)size, limit))
            return bad(schema, i, "it is not inside the values of the column", err);
    }
    return TARN_OK;
}

/* The child of each type id, from the list in the format, which ipc_schema.c built from
 * numbers up to 127; -1 for other ids. */
static void child_of_type(const char *format, signed char out[128])
{
    const char *at = format + strlen("+us:");
    memset(out, -1, 128);
    for (signed char child = 0; *at; child++) {
        char *end;
        out[strtoul(at, &end, 10) % 128] = child;
        at = *end ? end + 1 : end;
    }
}

static tarn_status check_union(const struct ArrowSchema *schema,
                               const struct ArrowArray *a, bool dense, tarn_error *err)
{
    signed char children[128];
    const signed char *types = a->buffers[0];
    child_of_type(schema->format, children);
    for (int64_t i = 0; i < a->length; i++) {
        int child = types[i] < 0 ? -1 : children[(int)types[i]];
        if (child < 0 || child >= a->n_children)
            return bad(schema, i, "its type is not one of the union's types", err);
        int64_t offset = dense ? tarn__int_at(a->buffers[1], 4, i) : 0;
        if (dense && (offset < 0 || offset >= a->children[child]->length))
            return bad(schema, i, "it is not inside the values of the union", err);
    }
    return TARN_OK;
}

static tarn_status check_runs(const struct ArrowSchema *schema,
                              const struct ArrowArray *a, tarn_error *err)
{
    int64_t n = a->children[0]->length, last = 0;
    if (a->children[0]->null_count || a->children[1]->length < n)
        return bad(schema, 0, "the runs have nulls, or too few values", err);
    for (int64_t i = 0; i < n; i++) {
        int64_t end = tarn__run_end(schema, a, i);
        if (end <= last) return bad(schema, last, "the run ends do not increase", err);
        last = end;
    }
    if (last < a->length) return bad(schema, last, "no run reaches it", err);
    return TARN_OK;
}

/* Batches share dictionaries; the slot after the sizes marks what was checked. */
enum { UNSEEN, POSITIONS_SEEN, VALUES_SEEN };

static uint64_t *seen_of(const struct ArrowArray *dictionary)
{
    return (uint64_t *)dictionary->private_data + dictionary->n_buffers;
}

static tarn_status check_indices(const struct ArrowSchema *schema,
                                 const struct ArrowArray *a, tarn_error *err)
{
    uint64_t limit = (uint64_t)a->dictionary->length;
    tarn__layout layout = {0};
    (void)tarn__layout_get(schema->format, &layout);
    for (int64_t i = 0; i < a->length; i++) {
        uint64_t index = tarn__uint_at(a->buffers[1], layout.width, i);
        uint64_t sign = UINT64_C(1) << (layout.width * 8 - 1);
        bool negative = layout.number == 'i' && (index & sign);
        if ((negative || index >= limit) && !is_null(a, i))
            return bad(schema, i, "its index is outside the dictionary", err);
    }
    uint64_t *seen = seen_of(a->dictionary);
    if (*seen != UNSEEN) return TARN_OK;
    TARN_TRY(tarn__array_validate(schema->dictionary, a->dictionary, err));
    *seen = POSITIONS_SEEN;
    return TARN_OK;
}

static tarn_status check_own(const struct ArrowSchema *schema, const struct ArrowArray *a,
                             const tarn__layout *layout, tarn_error *err)
{
    switch (layout->shape) {
    case SHAPE_VAR:
        return check_offsets(schema, a, layout->width, tarn__buffer_sizes(a)[2], err);
    case SHAPE_LIST:
        return check_offsets(schema, a, layout->width, (uint64_t)a->children[0]->length,
                             err);
    case SHAPE_VIEW:
        return check_views(schema, a, err);
    case SHAPE_LISTVIEW:
        return check_list_views(schema, a, layout->width, err);
    case SHAPE_SPARSE:
    case SHAPE_DENSE:
        return check_union(schema, a, layout->shape == SHAPE_DENSE, err);
    case SHAPE_RUNEND:
        return check_runs(schema, a, err);
    default:
        return TARN_OK;
    }
}

tarn_status tarn__array_validate(const struct ArrowSchema *schema,
                                 const struct ArrowArray *a, tarn_error *err)
{
    tarn__layout layout = {0};
    (void)tarn__layout_get(schema->format, &layout);
    TARN_TRY(check_own(schema, a, &layout, err));
    for (int64_t i = 0; i < a->n_children; i++)
        TARN_TRY(tarn__array_validate(schema->children[i], a->children[i], err));
    return schema->dictionary ? check_indices(schema, a, err) : TARN_OK;
}

/* --- Values ------------------------------------------------------------------------- */

static tarn_status check_null_count(const struct ArrowSchema *schema,
                                    const struct ArrowArray *a, tarn_error *err)
{
    int64_t nulls = 0;
    for (int64_t i = 0; i < a->length; i++)
        nulls += is_null(a, i);
    if (nulls == a->null_count) return TARN_OK;
    char shown[128];
    tarn_printable(shown, sizeof shown, schema->name, strlen(schema->name));
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "column %s: a batch reports %lld nulls, but has %lld", shown,
                      (long long)a->null_count, (long long)nulls);
}

static tarn_status check_texts(const struct ArrowSchema *schema,
                               const struct ArrowArray *a, uint32_t width,
                               tarn_error *err)
{
    const char *data = a->buffers[2];
    for (int64_t i = 0; i < a->length; i++) {
        int64_t from = tarn__int_at(a->buffers[1], width, i);
        int64_t end = tarn__int_at(a->buffers[1], width, i + 1);
        if (end > from && !is_null(a, i) &&
            !tarn__utf8_is_valid(data + from, (size_t)(end - from)))
            return bad(schema, i, "it is not valid UTF-8", err);
    }
    return TARN_OK;
}

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

static bool take(uint64_t *left, uint64_t len)
{
    bool enough = len <= *left;
    if (enough) *left -= len;
    return enough;
}

enum { UNKNOWN, VALID, MIXED }; /* all bytes of a data buffer together, as UTF-8 */

/* Any number of views may point to the same bytes. So if the buffer as a whole is valid,
 * only the ends of a text are checked, and in total no more than *left bytes. */
static const char *wrong_text(const char *buffer, uint64_t size, unsigned char *whole,
                              uint64_t offset, uint64_t len, uint64_t *left)
{
    if (*whole == UNKNOWN)
        *whole =
            take(left, size) && tarn__utf8_is_valid(buffer, (size_t)size) ? VALID : MIXED;
    if (*whole == MIXED && !take(left, len))
        return "its texts overlap so much that they are not checked";
    bool good = *whole == MIXED
                    ? tarn__utf8_is_valid(buffer + offset, (size_t)len)
                    : !continues(buffer[offset]) &&
                          (offset + len == size || !continues(buffer[offset + len]));
    return good ? NULL : "it is not valid UTF-8";
}

static const char *wrong_short_view(const char *v, uint32_t len, bool text)
{
    for (uint32_t k = len; k < 12; k++)
        if (v[4 + k]) return "the unused bytes of its view are not zero";
    return text && !tarn__utf8_is_valid(v + 4, len) ? "it is not valid UTF-8" : NULL;
}

static tarn_status check_view_values(const struct ArrowSchema *schema,
                                     const struct ArrowArray *a, bool text,
                                     unsigned char *whole, uint64_t *left,
                                     tarn_error *err)
{
    for (int64_t i = 0; i < a->length; i++) {
        const unsigned char *v = (const unsigned char *)a->buffers[1] + 16 * i;
        uint32_t len = tarn__get32(v), k = tarn__get32(v + 8), at = tarn__get32(v + 12);
        const char *wrong = NULL;
        if (is_null(a, i)) continue;
        if (len <= 12)
            wrong = wrong_short_view((const char *)v, len, text);
        else if (memcmp(v + 4, (const char *)a->buffers[2 + k] + at, 4) != 0)
            wrong = "the prefix in its view is not that of its data";
        else if (text)
            wrong = wrong_text(a->buffers[2 + k], tarn__buffer_sizes(a)[2 + k], &whole[k],
                               at, len, left);
        if (wrong) return bad(schema, i, wrong, err);
    }
    return TARN_OK;
}

static tarn_status check_own_values(const struct ArrowSchema *schema,
                                    const struct ArrowArray *a,
                                    const tarn__layout *layout, uint64_t *left,
                                    tarn_error *err)
{
    if (a->length == 0) return TARN_OK;
    if (layout->has_validity && a->buffers[0]) TARN_TRY(check_null_count(schema, a, err));
    if (layout->shape == SHAPE_VAR && layout->is_text)
        return check_texts(schema, a, layout->width, err);
    if (layout->shape != SHAPE_VIEW) return TARN_OK;
    unsigned char *whole = calloc((size_t)a->n_buffers, 1);
    if (!whole) return tarn__fail_memory(err);
    tarn_status status = check_view_values(schema, a, layout->is_text, whole, left, err);
    free(whole);
    return status;
}

tarn_status tarn__array_check_values(const struct ArrowSchema *schema,
                                     const struct ArrowArray *a, uint64_t *left,
                                     tarn_error *err)
{
    tarn__layout layout = {0};
    (void)tarn__layout_get(schema->format, &layout);
    TARN_TRY(check_own_values(schema, a, &layout, left, err));
    for (int64_t i = 0; i < a->n_children; i++)
        TARN_TRY(
            tarn__array_check_values(schema->children[i], a->children[i], left, err));
    if (!schema->dictionary) return TARN_OK;
    uint64_t *seen = seen_of(a->dictionary);
    if (*seen == VALUES_SEEN) return TARN_OK;
    *seen = VALUES_SEEN;
    return tarn__array_check_values(schema->dictionary, a->dictionary, left, err);
}
