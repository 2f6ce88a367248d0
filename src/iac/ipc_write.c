/* Writes batches: each column becomes nodes and buffers. Slices are reduced to the rows
 * they show, and dictionaries are written before the first batch that uses them. */
#include "iac/ipc_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "iac/flatmake.h"

flat_ref tarn__ipc_schema_make(flatmake *m, const struct ArrowSchema *schema,
                               const tarn__dicts *dicts);

/* A buffer to write: bytes of the caller, or of scratch memory. */
typedef struct piece {
    const void *data;
    uint64_t size;
} piece;

typedef struct encoding {
    tarn__slab scratch;
    uint64_t *nodes; /* length and null count of each */
    size_t n_nodes, nodes_capacity;
    piece *pieces;
    size_t n_pieces, pieces_capacity;
    int64_t *variadic;
    size_t n_variadic, variadic_capacity;
    const char *column;
    tarn_error *err;
} encoding;

static tarn_status add_piece(encoding *e, const void *data, uint64_t size)
{
    TARN_TRY(tarn__grow(&e->pieces, sizeof *e->pieces, e->n_pieces, &e->pieces_capacity,
                        e->err));
    e->pieces[e->n_pieces++] = (piece){data, size};
    return TARN_OK;
}

static tarn_status refuse(const encoding *e, tarn_status code, const char *what)
{
    return tarn__fail(e->err, code, "column %s: %s",
                      TARN__SHOW(e->column, strlen(e->column)), what);
}

/* Bits from..from+count of a bitmap, shifted to begin at a byte; the bits after them are
 * 0. */
static tarn_status add_bits(encoding *e, const unsigned char *bits, int64_t from,
                            int64_t count)
{
    uint64_t size = (uint64_t)count / 8 + (count % 8 != 0);
    if (!size) return add_piece(e, NULL, 0);
    unsigned char *to = tarn__slab_zeros(&e->scratch, (size_t)size);
    if (!to) return tarn__fail_memory(e->err);
    int shift = (int)(from % 8);
    const unsigned char *at = bits + from / 8;
    uint64_t have = ((uint64_t)shift + (uint64_t)count + 7) / 8;
    for (uint64_t i = 0; i < size; i++) {
        unsigned low = at[i], high = i + 1 < have ? at[i + 1] : 0;
        to[i] = (unsigned char)((low | high << 8) >> shift);
    }
    if (count % 8) to[size - 1] &= (unsigned char)((1u << (count % 8)) - 1);
    return add_piece(e, to, size);
}

static int64_t count_nulls(const unsigned char *bits, int64_t from, int64_t count)
{
    int64_t nulls = 0;
    for (int64_t i = from; i < from + count; i++)
        nulls += !(bits[i / 8] >> (i % 8) & 1);
    return nulls;
}

static int64_t nulls_of(const struct ArrowArray *a, const tarn__layout *layout,
                        int64_t from, int64_t count)
{
    if (layout->shape == SHAPE_NULL) return count;
    const unsigned char *bits = layout->has_validity ? a->buffers[0] : NULL;
    if (!bits || a->null_count == 0) return 0;
    return count_nulls(bits, from, count);
}

/* Offsets of a slice, counted from its first value; *out_first is the position of that
 * value. */
static tarn_status add_offsets(encoding *e, const void *offsets, uint32_t width,
                               int64_t from, int64_t count, int64_t *out_first,
                               int64_t *out_last)
{
    *out_first = *out_last = 0;
    uint64_t size = ((uint64_t)count + 1) * width;
    if (!count || !offsets) {
        /* For no rows, Arrow C++ writes one zero offset. */
        void *zero = tarn__slab_zeros(&e->scratch, width);
        return zero ? add_piece(e, zero, count ? 0 : width) : tarn__fail_memory(e->err);
    }
    int64_t first = tarn__int_at(offsets, width, from);
    *out_first = first;
    *out_last = tarn__int_at(offsets, width, from + count);
    if (first == 0)
        return add_piece(e, (const unsigned char *)offsets + (size_t)from * width, size);
    unsigned char *to = tarn__slab_zeros(&e->scratch, (size_t)size);
    if (!to) return tarn__fail_memory(e->err);
    for (int64_t i = 0; i <= count; i++) {
        int64_t value = tarn__int_at(offsets, width, from + i) - first;
        memcpy(to + (size_t)i * width, &value, width);
    }
    return add_piece(e, to, size);
}

static tarn_status add_column(encoding *e, const struct ArrowSchema *schema,
                              const struct ArrowArray *a, int64_t from, int64_t count);

static tarn_status add_children(encoding *e, const struct ArrowSchema *schema,
                                const struct ArrowArray *a, int64_t from, int64_t count)
{
    for (int64_t i = 0; i < schema->n_children; i++)
        TARN_TRY(add_column(e, schema->children[i], a->children[i], from, count));
    return TARN_OK;
}

static tarn_status add_view_buffers(encoding *e, const struct ArrowArray *a)
{
    int64_t extra = a->n_buffers - 3;
    if (extra < 0) return refuse(e, TARN_ERR_FORMAT, "a view column has no buffers");
    const int64_t *sizes = a->buffers[a->n_buffers - 1];
    TARN_TRY(tarn__grow(&e->variadic, sizeof *e->variadic, e->n_variadic,
                        &e->variadic_capacity, e->err));
    e->variadic[e->n_variadic++] = extra;
    for (int64_t i = 0; i < extra; i++)
        TARN_TRY(add_piece(e, a->buffers[2 + i], (uint64_t)sizes[i]));
    return TARN_OK;
}

/* A slice of runs would need other run ends; whole columns are written unchanged. */
static tarn_status add_runs(encoding *e, const struct ArrowSchema *schema,
                            const struct ArrowArray *a, int64_t from, int64_t count)
{
    const struct ArrowArray *ends = a->children[0];
    int64_t runs = ends->length,
            last = runs ? tarn__run_end(schema, a, ends->offset + runs - 1) : 0;
    if (from != 0 || last != count)
        return refuse(
            e, TARN_ERR_UNSUPPORTED,
            "a slice of a run-end encoded column cannot be written; copy it first");
    TARN_TRY(add_column(e, schema->children[0], ends, 0, runs));
    return add_column(e, schema->children[1], a->children[1], 0, runs);
}

/* from is counted from the start of the buffers. */
static tarn_status add_buffers(encoding *e, const struct ArrowSchema *schema,
                               const struct ArrowArray *a, const tarn__layout *l,
                               int64_t from, int64_t count)
{
    int64_t first, last;
    size_t start = (size_t)from * l->width;
    uint64_t size = (uint64_t)count * l->width;
    switch (l->shape) {
    case SHAPE_BITS:
        return add_bits(e, a->buffers[1], from, count);
    case SHAPE_FIXED:
        return add_piece(e, (const char *)a->buffers[1] + start, size);
    case SHAPE_VAR:
        TARN_TRY(add_offsets(e, a->buffers[1], l->width, from, count, &first, &last));
        return add_piece(e, (const char *)a->buffers[2] + first,
                         (uint64_t)(last - first));
    case SHAPE_VIEW:
        TARN_TRY(add_piece(e, (const char *)a->buffers[1] + start, size));
        return add_view_buffers(e, a);
    case SHAPE_LIST:
        TARN_TRY(add_offsets(e, a->buffers[1], l->width, from, count, &first, &last));
        return add_children(e, schema, a, first, last - first);
    case SHAPE_LISTVIEW:
        TARN_TRY(add_piece(e, (const char *)a->buffers[1] + start, size));
        TARN_TRY(add_piece(e, (const char *)a->buffers[2] + start, size));
        return add_children(e, schema, a, 0, a->children[0]->length);
    case SHAPE_FIXEDLIST:
        return add_children(e, schema, a, from * l->width, count * l->width);
    case SHAPE_STRUCT:
        return add_children(e, schema, a, from, count);
    case SHAPE_SPARSE:
        TARN_TRY(add_piece(e, (const char *)a->buffers[0] + from, (uint64_t)count));
        return add_children(e, schema, a, from, count);
    case SHAPE_DENSE:
        TARN_TRY(add_piece(e, (const char *)a->buffers[0] + from, (uint64_t)count));
        TARN_TRY(add_piece(e, (const char *)a->buffers[1] + 4 * (size_t)from,
                           4 * (uint64_t)count));
        for (int64_t i = 0; i < schema->n_children; i++)
            TARN_TRY(add_column(e, schema->children[i], a->children[i], 0,
                                a->children[i]->length));
        return TARN_OK;
    case SHAPE_RUNEND:
        return add_runs(e, schema, a, from, count);
    case SHAPE_NULL:
        break;
    }
    return TARN_OK;
}

/* Rows from..from+count of the rows that the array shows. */
static tarn_status add_column(encoding *e, const struct ArrowSchema *schema,
                              const struct ArrowArray *a, int64_t from, int64_t count)
{
    tarn__layout layout = {0};
    (void)tarn__layout_get(schema->format, &layout);
    if (from < 0 || count < 0 || from > a->length || count > a->length - from ||
        a->n_children != schema->n_children)
        return refuse(e, TARN_ERR_FORMAT, "the array does not fit its schema");
    from += a->offset;
    int64_t nulls = nulls_of(a, &layout, from, count);
    TARN_TRY(tarn__grow(&e->nodes, 2 * sizeof *e->nodes, e->n_nodes, &e->nodes_capacity,
                        e->err));
    e->nodes[2 * e->n_nodes] = (uint64_t)count;
    e->nodes[2 * e->n_nodes++ + 1] = (uint64_t)nulls;
    if (layout.has_validity) {
        if (nulls)
            TARN_TRY(add_bits(e, a->buffers[0], from, count));
        else
            TARN_TRY(add_piece(e, NULL, 0));
    }
    return add_buffers(e, schema, a, &layout, from, count);
}

/* --- Messages --------------------------------------------------------------------- */

static tarn_status put_zeros(tarn__buf *out, size_t n, tarn_error *err)
{
    static const char zeros[IPC_ALIGN] = {0};
    return n ? tarn__buf_add(out, zeros, n, err) : TARN_OK;
}

/* Frames the message in fm: continuation, length, metadata, padding. */
static tarn_status put_message(tarn__buf *out, const flatmake *m, tarn_error *err)
{
    unsigned char prefix[8];
    size_t padding = (IPC_ALIGN - m->size % IPC_ALIGN) % IPC_ALIGN;
    tarn__put32(prefix, (uint32_t)IPC_CONTINUATION);
    tarn__put32(prefix + 4, (uint32_t)(m->size + padding));
    TARN_TRY(tarn__buf_add(out, prefix, sizeof prefix, err));
    TARN_TRY(tarn__buf_add(out, fm_data(m), m->size, err));
    return put_zeros(out, padding, err);
}

static flat_ref make_message(flatmake *m, int type, flat_ref header, int64_t body)
{
    fm_table(m);
    fm_field(m, MESSAGE_BODY, body, 8, 0);
    fm_field_ref(m, MESSAGE_HEADER, header);
    fm_field(m, MESSAGE_VERSION, IPC_V5, 2, 0);
    fm_field(m, MESSAGE_HEADER_TYPE, type, 1, 0);
    return fm_table_end(m);
}

static uint64_t padded(uint64_t size)
{
    return (size + IPC_ALIGN - 1) / IPC_ALIGN * IPC_ALIGN;
}

static flat_ref make_batch(flatmake *m, const encoding *e, int64_t length,
                           const int64_t *places, flat_ref variadic_first)
{
    flat_ref nodes = fm_items(m, e->nodes, e->n_nodes, 16, 8);
    flat_ref buffers = fm_items(m, places, e->n_pieces, 16, 8);
    flat_ref variadic = variadic_first;
    if (e->n_variadic) variadic = fm_items(m, e->variadic, e->n_variadic, 8, 8);
    fm_table(m);
    fm_field(m, BATCH_LENGTH, length, 8, 0);
    fm_field_ref(m, BATCH_VARIADIC, variadic);
    fm_field_ref(m, BATCH_BUFFERS, buffers);
    fm_field_ref(m, BATCH_NODES, nodes);
    return fm_table_end(m);
}

static flat_ref make_dictionary(flatmake *m, int64_t id, flat_ref data)
{
    fm_table(m);
    fm_field(m, DICTBATCH_ID, id, 8, 0);
    fm_field_ref(m, DICTBATCH_DATA, data);
    return fm_table_end(m);
}

static tarn_status put_body(tarn__buf *out, const encoding *e)
{
    for (size_t i = 0; i < e->n_pieces; i++) {
        const piece *p = &e->pieces[i];
        if (p->size) TARN_TRY(tarn__buf_add(out, p->data, (size_t)p->size, e->err));
        TARN_TRY(put_zeros(out, (size_t)(padded(p->size) - p->size), e->err));
    }
    return TARN_OK;
}

/* The offset of each buffer in the body; *out_body is the size of the body. */
static int64_t *place_buffers(encoding *e, int64_t *out_body)
{
    int64_t at = 0;
    int64_t *places = tarn__slab_zeros(&e->scratch, 16 * (e->n_pieces + 1));
    for (size_t i = 0; places && i < e->n_pieces; i++) {
        places[2 * i] = at;
        places[2 * i + 1] = (int64_t)e->pieces[i].size;
        at += (int64_t)padded(e->pieces[i].size);
    }
    *out_body = at;
    return places;
}

/* A batch, or with id >= 0 the dictionary with that id. */
static tarn_status put_batch(tarn__ipc_writer *w, encoding *e, int64_t length, int64_t id)
{
    flatmake m;
    int64_t body;
    int64_t *places = place_buffers(e, &body);
    if (!places) return tarn__fail_memory(e->err);
    fm_init(&m);
    flat_ref header = make_batch(&m, e, length, places, 0);
    if (id >= 0) header = make_dictionary(&m, id, header);
    flat_ref root = make_message(&m, id >= 0 ? IPC_DICTIONARY : IPC_BATCH, header, body);
    tarn_status status = fm_finish(&m, root) ? TARN_OK : tarn__fail_memory(e->err);
    if (status == TARN_OK)
        status = tarn__buf_reserve(w->out, (size_t)body + m.size, e->err);
    if (status == TARN_OK) status = put_message(w->out, &m, e->err);
    if (status == TARN_OK) status = put_body(w->out, e);
    fm_reset(&m);
    return status;
}

static void encoding_reset(encoding *e)
{
    tarn__slab_free(&e->scratch);
    free(e->nodes);
    free(e->pieces);
    free(e->variadic);
}

/* --- Dictionaries ----------------------------------------------------------------- */

/* Two dictionaries are the same if they are the same memory. */
static const void *identity(const struct ArrowArray *a)
{
    return a->n_buffers > 1 ? a->buffers[1] : a->buffers;
}

static tarn_status put_dictionaries(tarn__ipc_writer *w, const struct ArrowSchema *schema,
                                    const struct ArrowArray *a, size_t *next,
                                    tarn_error *err);

static tarn_status put_dictionary(tarn__ipc_writer *w, const struct ArrowSchema *schema,
                                  const struct ArrowArray *a, size_t ordinal,
                                  tarn_error *err)
{
    tarn__dict *d = &w->dicts.items[ordinal];
    size_t inside = ordinal + 1;
    encoding e = {.column = schema->name ? schema->name : "", .err = err};
    if (!a->dictionary) return refuse(&e, TARN_ERR_FORMAT, "it has no dictionary");
    TARN_TRY(put_dictionaries(w, schema->dictionary, a->dictionary, &inside, err));
    if (d->written == identity(a->dictionary) && d->written) return TARN_OK;
    tarn_status status =
        add_column(&e, schema->dictionary, a->dictionary, 0, a->dictionary->length);
    if (status == TARN_OK) status = put_batch(w, &e, a->dictionary->length, d->id);
    encoding_reset(&e);
    w->dicts.items[ordinal].written = identity(a->dictionary);
    return status;
}

static tarn_status put_dictionaries(tarn__ipc_writer *w, const struct ArrowSchema *schema,
                                    const struct ArrowArray *a, size_t *next,
                                    tarn_error *err)
{
    if (schema->dictionary) {
        size_t ordinal = *next;
        *next = w->dicts.items[ordinal].next;
        TARN_TRY(put_dictionary(w, schema, a, ordinal, err));
    }
    if (a->n_children != schema->n_children)
        return tarn__fail(err, TARN_ERR_FORMAT, "the array does not fit its schema");
    for (int64_t i = 0; i < schema->n_children; i++)
        TARN_TRY(put_dictionaries(w, schema->children[i], a->children[i], next, err));
    return TARN_OK;
}

/* --- Streams ---------------------------------------------------------------------- */

tarn_status tarn__ipc_begin(tarn__ipc_writer *w, const struct ArrowSchema *schema,
                            tarn__buf *out, tarn_error *err)
{
    flatmake m;
    *w = (tarn__ipc_writer){.schema = schema, .out = out};
    TARN_TRY(tarn__schema_check(schema, &w->dicts, err));
    fm_init(&m);
    flat_ref root =
        make_message(&m, IPC_SCHEMA, tarn__ipc_schema_make(&m, schema, &w->dicts), 0);
    tarn_status status = fm_finish(&m, root) ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK) status = put_message(out, &m, err);
    fm_reset(&m);
    return status;
}

tarn_status tarn__ipc_batch(tarn__ipc_writer *w, const struct ArrowArray *a,
                            tarn_error *err)
{
    size_t next = 0;
    encoding e = {.column = "(none)", .err = err};
    if (a->n_children != w->schema->n_children || a->length < 0 || a->null_count > 0)
        return refuse(&e, TARN_ERR_FORMAT, "the batch does not fit its schema");
    for (int64_t i = 0; i < a->n_children; i++)
        TARN_TRY(put_dictionaries(w, w->schema->children[i], a->children[i], &next, err));
    tarn_status status = TARN_OK;
    for (int64_t i = 0; i < a->n_children && status == TARN_OK; i++) {
        e.column = w->schema->children[i]->name ? w->schema->children[i]->name : "";
        status =
            add_column(&e, w->schema->children[i], a->children[i], a->offset, a->length);
    }
    if (status == TARN_OK) status = put_batch(w, &e, a->length, -1);
    encoding_reset(&e);
    return status;
}

tarn_status tarn__ipc_end(tarn__ipc_writer *w, tarn_error *err)
{
    static const unsigned char end[8] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};
    return tarn__buf_add(w->out, end, sizeof end, err);
}

void tarn__ipc_reset(tarn__ipc_writer *w)
{
    free(w->dicts.items);
    *w = (tarn__ipc_writer){0};
}
