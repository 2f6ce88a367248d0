/* Reads single values for lookups and listings. */
#include <stdio.h>
#include <string.h>

#include "base/cast.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "iac/ipc.h"

static bool is_null(const struct ArrowArray *a, const tarn__layout *layout, int64_t i)
{
    if (layout->shape == SHAPE_NULL) return true;
    const unsigned char *bits = layout->has_validity ? a->buffers[0] : NULL;
    return bits && a->null_count != 0 && !(bits[i / 8] >> (i % 8) & 1);
}

static double real_of(uint64_t bits, uint32_t width)
{
    float f;
    double d;
    if (width == 2) return tarn__half_to_double((uint16_t)bits);
    if (width == 4) {
        uint32_t low = (uint32_t)bits;
        memcpy(&f, &low, sizeof f);
        return (double)f;
    }
    memcpy(&d, &bits, sizeof d);
    return d;
}

static tarn__cell number_cell(const struct ArrowArray *a, const tarn__layout *layout,
                              int64_t i)
{
    const void *numbers = a->buffers[1];
    uint64_t raw = tarn__uint_at(numbers, layout->width, i);
    if (layout->number == 'u') return (tarn__cell){TARN__CELL_UINT, {.u = raw}, false};
    if (layout->number == 'i')
        return (tarn__cell){
            TARN__CELL_INT, {.i = tarn__int_at(numbers, layout->width, i)}, false};
    return (tarn__cell){TARN__CELL_REAL, {.real = real_of(raw, layout->width)}, false};
}

static tarn__cell bytes_cell(const void *data, uint64_t size, bool text)
{
    tarn__cell cell = {.kind = TARN__CELL_BYTES, .is_text = text};
    cell.u.bytes.data = data;
    cell.u.bytes.size = size;
    return cell;
}

static tarn__cell view_cell(const struct ArrowArray *a, const tarn__layout *layout,
                            int64_t i)
{
    const unsigned char *v = (const unsigned char *)a->buffers[1] + 16 * i;
    uint32_t len = tarn__get32(v);
    const void *data = v + 4;
    if (len > 12)
        data = (const char *)a->buffers[2 + tarn__get32(v + 8)] + tarn__get32(v + 12);
    return bytes_cell(data, len, layout->is_text);
}

/* The run that contains a row. */
static int64_t run_of(const struct ArrowSchema *schema, const struct ArrowArray *a,
                      int64_t row)
{
    int64_t low = 0, high = a->children[0]->length;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (tarn__run_end(schema, a, middle) <= row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

tarn__cell tarn__cell_get(const struct ArrowSchema *schema, const struct ArrowArray *a,
                          int64_t i)
{
    tarn__layout layout = {0};
    (void)tarn__layout_get(schema->format, &layout);
    if (is_null(a, &layout, i)) return (tarn__cell){.kind = TARN__CELL_NULL};
    if (schema->dictionary)
        return tarn__cell_get(schema->dictionary, a->dictionary,
                              (int64_t)tarn__uint_at(a->buffers[1], layout.width, i));
    switch (layout.shape) {
    case SHAPE_BITS:
        return (tarn__cell){
            TARN__CELL_BOOL,
            {.truth = ((const unsigned char *)a->buffers[1])[i / 8] >> (i % 8) & 1},
            false};
    case SHAPE_FIXED:
        if (layout.number) return number_cell(a, &layout, i);
        if (schema->format[0] != 'w') return (tarn__cell){.kind = TARN__CELL_OTHER};
        return bytes_cell((const char *)a->buffers[1] + (size_t)i * layout.width,
                          layout.width, false);
    case SHAPE_VAR: {
        uint64_t from = tarn__uint_at(a->buffers[1], layout.width, i),
                 to = tarn__uint_at(a->buffers[1], layout.width, i + 1);
        return bytes_cell((const char *)a->buffers[2] + from, to - from, layout.is_text);
    }
    case SHAPE_VIEW:
        return view_cell(a, &layout, i);
    case SHAPE_RUNEND:
        return tarn__cell_get(schema->children[1], a->children[1], run_of(schema, a, i));
    default:
        return (tarn__cell){.kind = TARN__CELL_OTHER};
    }
}

/* --- Text ------------------------------------------------------------------------- */

static void put_hex(tarn__json_writer *w, const unsigned char *data, uint64_t size)
{
    static const char hex[] = "0123456789abcdef";
    enum { SHOWN = 256 };
    char text[2 * SHOWN + 4];
    size_t used = 0;
    for (uint64_t i = 0; i < size && i < SHOWN; i++) {
        text[used++] = hex[data[i] >> 4];
        text[used++] = hex[data[i] & 15];
    }
    if (size > SHOWN) {
        memcpy(text + used, "...", 3);
        used += 3;
    }
    tarn__json_put_string(w, text, used);
}

static void put_bytes(tarn__json_writer *w, const tarn__cell *cell)
{
    tarn__buf clean;
    if (!cell->is_text) {
        put_hex(w, (const unsigned char *)cell->u.bytes.data, cell->u.bytes.size);
        return;
    }
    tarn__buf_init(&clean, SIZE_MAX / 4);
    if (tarn__utf8_clean(&clean, cell->u.bytes.data, cell->u.bytes.size, NULL) == TARN_OK)
        tarn__json_put_string(w, clean.data ? clean.data : "", clean.size);
    else
        tarn__json_put_null(w);
    tarn__buf_reset(&clean);
}

static void put_value(tarn__json_writer *w, const struct ArrowSchema *schema,
                      const struct ArrowArray *a, int64_t row);

static void put_list(tarn__json_writer *w, const struct ArrowSchema *schema,
                     const struct ArrowArray *a, int64_t from, int64_t count)
{
    tarn__json_open(w, '[');
    for (int64_t i = 0; i < count && w->status == TARN_OK; i++)
        put_value(w, schema->children[0], a->children[0], from + i);
    tarn__json_close(w, ']');
}

static void put_struct(tarn__json_writer *w, const struct ArrowSchema *schema,
                       const struct ArrowArray *a, int64_t row)
{
    tarn__json_open(w, '{');
    for (int64_t i = 0; i < schema->n_children; i++) {
        tarn__json_key_text(w, schema->children[i]->name);
        put_value(w, schema->children[i], a->children[i], row);
    }
    tarn__json_close(w, '}');
}

static void put_nested(tarn__json_writer *w, const struct ArrowSchema *schema,
                       const struct ArrowArray *a, const tarn__layout *layout,
                       int64_t row)
{
    int64_t from, to;
    switch (layout->shape) {
    case SHAPE_LIST:
        from = tarn__int_at(a->buffers[1], layout->width, row);
        to = tarn__int_at(a->buffers[1], layout->width, row + 1);
        put_list(w, schema, a, from, to - from);
        break;
    case SHAPE_LISTVIEW:
        from = tarn__int_at(a->buffers[1], layout->width, row);
        put_list(w, schema, a, from, tarn__int_at(a->buffers[2], layout->width, row));
        break;
    case SHAPE_FIXEDLIST:
        put_list(w, schema, a, row * layout->width, layout->width);
        break;
    case SHAPE_STRUCT:
        put_struct(w, schema, a, row);
        break;
    case SHAPE_FIXED: /* decimals and intervals: their bytes */
        put_hex(w, (const unsigned char *)a->buffers[1] + (size_t)row * layout->width,
                layout->width);
        break;
    default:
        tarn__json_put_text(w, "(union)");
    }
}

static void put_value(tarn__json_writer *w, const struct ArrowSchema *schema,
                      const struct ArrowArray *a, int64_t row)
{
    tarn__layout layout = {0};
    tarn__cell cell = tarn__cell_get(schema, a, row);
    switch (cell.kind) {
    case TARN__CELL_NULL:
        tarn__json_put_null(w);
        return;
    case TARN__CELL_BYTES:
        put_bytes(w, &cell);
        return;
    case TARN__CELL_INT:
        tarn__json_put_int(w, cell.u.i);
        return;
    case TARN__CELL_UINT:
        tarn__json_put_uint(w, cell.u.u);
        return;
    case TARN__CELL_BOOL:
        tarn__json_put_bool(w, cell.u.truth);
        return;
    case TARN__CELL_REAL:
        tarn__json_put_double(w, cell.u.real);
        return;
    case TARN__CELL_OTHER:
        break;
    }
    (void)tarn__layout_get(schema->format, &layout);
    if (schema->dictionary) {
        int64_t index = (int64_t)tarn__uint_at(a->buffers[1], layout.width, row);
        put_value(w, schema->dictionary, a->dictionary, index);
    } else if (layout.shape == SHAPE_RUNEND) {
        put_value(w, schema->children[1], a->children[1], run_of(schema, a, row));
    } else {
        put_nested(w, schema, a, &layout, row);
    }
}

tarn_status tarn__cell_json(tarn__buf *out, const struct ArrowSchema *schema,
                            const struct ArrowArray *array, int64_t row, tarn_error *err)
{
    tarn__json_writer w;
    tarn__json_begin(&w, out);
    w.ascii = false;
    put_value(&w, schema, array, row);
    return tarn__json_end(&w, err);
}
