/* Reads an Arrow IPC stream from memory. ipc_check.c checks the metadata of each message.
 * The columns are read here, because nanoarrow's decoder (0.9) does not support views,
 * list views, run ends or compressed dictionaries, and does not limit its allocations.
 * Only compressed and unaligned buffers are copied. */
#include <stdlib.h>
#include <string.h>

#include <lz4frame.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "base/zstd.h"
#include "iac/ipc.h"

/* A buffer may always expand to FREE_BYTES, and to MAX_RATIO times its size. */
enum { FREE_BYTES = 16 << 20, MAX_RATIO = 10000, MAX_BATCHES = 1 << 20 };

typedef struct reading {
    tarn__table *table;
    const unsigned char *data;
    uint64_t size, at; /* at: offset of the current message */
    uint64_t budget;   /* bytes that may still be allocated */
    bool over_budget;  /* an allocation exceeded the budget */
    tarn__dicts dicts;
    tarn__buf message; /* metadata of the current message */
    bool has_schema;
    tarn_error *err;
} reading;

/* A RecordBatch while it is converted to columns. */
typedef struct batch {
    reading *r;
    const unsigned char *body;
    uint64_t body_size;
    const unsigned char *nodes, *buffers, *variadic;
    uint32_t n_nodes, n_buffers, n_variadic;
    uint32_t node, buffer, view; /* the next ones to use */
    size_t dict;
    int codec; /* -1 none, 0 LZ4 frame, 1 Zstandard */
    const char *column;
} batch;

static const _Alignas(64) unsigned char nothing[64];

static tarn_status damaged(const batch *b, const char *what)
{
    return tarn__fail_at(b->r->err, TARN_ERR_FORMAT, NULL, b->r->at, "column %s: %s",
                         TARN__SHOW(b->column, strlen(b->column)), what);
}

/* Takes memory from the table's slab, within the budget. */
static void *allocate_raw(reading *r, uint64_t size)
{
    uint64_t cost;
    if (!tarn__align_up(size, TARN__SLAB_ALIGN, &cost) || cost > r->budget) {
        r->over_budget = true;
        return NULL;
    }
    r->budget -= cost;
    return tarn__slab_take(&r->table->slab, (size_t)size);
}

/* The same, filled with zeros. */
static void *allocate(reading *r, uint64_t size)
{
    void *memory = allocate_raw(r, size);
    return memory ? memset(memory, 0, (size_t)size) : NULL;
}

static tarn_status no_room(const reading *r)
{
    if (!r->over_budget) return tarn__fail_memory(r->err);
    return tarn__fail_at(r->err, TARN_ERR_LIMIT, NULL, r->at,
                         "the table needs more memory than max_table_bytes allows");
}

/* --- Buffers ---------------------------------------------------------------------- */

/* The result for a buffer. The libraries allocate memory, and a failed allocation does
 * not mean that the buffer is damaged. */
typedef enum inflated { INFLATED, INFLATE_DAMAGED, INFLATE_NO_MEMORY } inflated;

static inflated inflate_lz4(const unsigned char *from, size_t len, unsigned char *to,
                            size_t size)
{
    LZ4F_dctx *context;
    size_t got = 0, used = 0, hint = 1;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        return INFLATE_NO_MEMORY;
    while (hint != 0 && used < len) {
        size_t out = size - got, in = len - used;
        hint = LZ4F_decompress(context, to + got, &out, from + used, &in, NULL);
        if (LZ4F_isError(hint) || (out == 0 && in == 0)) break;
        got += out;
        used += in;
    }
    LZ4F_freeDecompressionContext(context);
    if (hint == 0 && got == size) return INFLATED;
    /* Compared by name, because users of the shared library cannot see the number. */
    return strcmp(LZ4F_getErrorName(hint), "ERROR_allocation_failed") == 0
               ? INFLATE_NO_MEMORY
               : INFLATE_DAMAGED;
}

static bool zstd_frames(const unsigned char *from, size_t len)
{
    while (len > 0) {
        size_t n =
            tarn__zstd_begins(from, len) ? ZSTD_findFrameCompressedSize(from, len) : 0;
        if (n == 0 || ZSTD_isError(n)) return false;
        from += n;
        len -= n;
    }
    return true;
}

static inflated inflate_zstd(const unsigned char *from, size_t len, unsigned char *to,
                             size_t size)
{
    if (!zstd_frames(from, len)) return INFLATE_DAMAGED;
    size_t got = ZSTD_decompress(to, size, from, len);
    if (got == size) return INFLATED;
    return ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation ? INFLATE_NO_MEMORY
                                                                  : INFLATE_DAMAGED;
}

static tarn_status inflate(batch *b, const unsigned char *from, uint64_t len,
                           uint64_t size, const unsigned char **out)
{
    if (size > FREE_BYTES && size / MAX_RATIO > len)
        return damaged(b, "a buffer claims to expand more than 10000 times");
    unsigned char *to = allocate_raw(b->r, size ? size : 1);
    if (!to) return no_room(b->r);
    inflated how = b->codec == 1 ? inflate_zstd(from, (size_t)len, to, (size_t)size)
                                 : inflate_lz4(from, (size_t)len, to, (size_t)size);
    if (how == INFLATE_NO_MEMORY) return tarn__fail_memory(b->r->err);
    if (how == INFLATE_DAMAGED) return damaged(b, "a compressed buffer is damaged");
    *out = to;
    return TARN_OK;
}

static tarn_status aligned(batch *b, const unsigned char **data, uint64_t size)
{
    if ((uintptr_t)*data % IPC_ALIGN == 0) return TARN_OK;
    unsigned char *copy = allocate_raw(b->r, size);
    if (!copy) return no_room(b->r);
    memcpy(copy, *data, (size_t)size);
    *data = copy;
    return TARN_OK;
}

static tarn_status next_buffer(batch *b, const void **out, uint64_t *out_size)
{
    if (b->buffer >= b->n_buffers)
        return damaged(b, "the batch has fewer buffers than its columns need");
    const unsigned char *entry = b->buffers + 16 * (size_t)b->buffer++;
    uint64_t offset = tarn__get64(entry), size = tarn__get64(entry + 8);
    if (!tarn__range_in(offset, size, b->body_size))
        return damaged(b, "a buffer is not inside its message");
    const unsigned char *data = b->body + offset;
    if (b->codec >= 0 && size) {
        if (size < 8) return damaged(b, "a compressed buffer is damaged");
        int64_t plain = (int64_t)tarn__get64(data);
        data += 8;
        size -= 8;
        if (plain < -1) return damaged(b, "a compressed buffer is damaged");
        if (plain >= 0) {
            TARN_TRY(inflate(b, data, size, (uint64_t)plain, &data));
            size = (uint64_t)plain;
        }
    }
    if (size) TARN_TRY(aligned(b, &data, size));
    *out = size ? data : nothing;
    *out_size = size;
    return TARN_OK;
}

/* --- Columns ---------------------------------------------------------------------- */

/* Whether size bytes are enough for count values of width bytes. */
static bool enough(uint64_t size, uint64_t count, uint64_t width)
{
    uint64_t need;
    return tarn__mul(count, width, &need) && need <= size;
}

static bool sizes_fit(const tarn__layout *l, const struct ArrowArray *a)
{
    const uint64_t *sizes = tarn__buffer_sizes(a);
    uint64_t n = (uint64_t)a->length, bits = n / 8 + (n % 8 != 0);
    if (l->has_validity && (a->null_count || sizes[0]) && sizes[0] < bits) return false;
    switch (l->shape) {
    case SHAPE_BITS:
        return sizes[1] >= bits;
    case SHAPE_FIXED:
    case SHAPE_VIEW:
        return enough(sizes[1], n, l->width);
    case SHAPE_VAR:
    case SHAPE_LIST:
        return n == 0 || enough(sizes[1], n + 1, l->width);
    case SHAPE_LISTVIEW:
        return enough(sizes[1], n, l->width) && enough(sizes[2], n, l->width);
    case SHAPE_SPARSE:
        return sizes[0] >= n;
    case SHAPE_DENSE:
        return sizes[0] >= n && enough(sizes[1], n, 4);
    default:
        return true;
    }
}

/* Children of structs and sparse unions have one value for each value of the parent. */
static bool children_fit(const tarn__layout *l, const struct ArrowArray *a)
{
    uint64_t need = (uint64_t)a->length;
    if (l->shape == SHAPE_FIXEDLIST && !tarn__mul(need, l->width, &need)) return false;
    if (l->shape != SHAPE_STRUCT && l->shape != SHAPE_SPARSE &&
        l->shape != SHAPE_FIXEDLIST)
        return true;
    for (int64_t i = 0; i < a->n_children; i++)
        if ((uint64_t)a->children[i]->length < need) return false;
    return true;
}

static tarn_status decode_column(batch *b, const struct ArrowSchema *schema,
                                 struct ArrowArray *out);

static tarn_status decode_children(batch *b, const struct ArrowSchema *schema,
                                   struct ArrowArray *out)
{
    size_t n = (size_t)schema->n_children;
    out->n_children = (int64_t)n;
    if (!n) return TARN_OK;
    struct ArrowArray *arrays = allocate(b->r, n * sizeof *arrays);
    out->children = allocate(b->r, n * sizeof *out->children);
    if (!arrays || !out->children) return no_room(b->r);
    for (size_t i = 0; i < n; i++) {
        out->children[i] = &arrays[i];
        TARN_TRY(decode_column(b, schema->children[i], &arrays[i]));
    }
    return TARN_OK;
}

/* A view column has additional data buffers, and in the C data interface one more buffer
 * with their sizes. */
static tarn_status count_views(batch *b, uint64_t *out_extra)
{
    if (b->view >= b->n_variadic)
        return damaged(b, "the batch does not say how many buffers its views have");
    int64_t count = (int64_t)tarn__get64(b->variadic + 8 * (size_t)b->view++);
    if (count < 0 || (uint64_t)count > b->n_buffers - b->buffer)
        return damaged(b, "the batch has fewer buffers than its views need");
    *out_extra = (uint64_t)count;
    return TARN_OK;
}

static tarn_status decode_buffers(batch *b, const tarn__layout *layout,
                                  struct ArrowArray *out)
{
    uint64_t extra = 0, fixed = (uint64_t)layout->buffers;
    if (layout->shape == SHAPE_VIEW) TARN_TRY(count_views(b, &extra));
    uint64_t all = fixed + extra + (layout->shape == SHAPE_VIEW);
    out->n_buffers = (int64_t)all;
    out->buffers = allocate(b->r, (all + 1) * sizeof *out->buffers);
    uint64_t *sizes = out->private_data = allocate(b->r, (all + 1) * sizeof *sizes);
    if (!out->buffers || !sizes) return no_room(b->r);
    for (uint64_t i = 0; i < fixed + extra; i++)
        TARN_TRY(next_buffer(b, &out->buffers[i], &sizes[i]));
    if (layout->shape == SHAPE_VIEW) {
        out->buffers[all - 1] = extra ? (const void *)&sizes[fixed] : nothing;
        sizes[all - 1] = extra * 8;
    }
    /* Without nulls a bitmap has no meaning, and must not get one when rows are
     * copied. */
    if (layout->has_validity && (sizes[0] == 0 || out->null_count == 0))
        out->buffers[0] = NULL;
    return TARN_OK;
}

static tarn_status decode_column(batch *b, const struct ArrowSchema *schema,
                                 struct ArrowArray *out)
{
    tarn__layout layout = {0};
    if (b->node >= b->n_nodes)
        return damaged(b, "the batch has fewer columns than the schema");
    const unsigned char *node = b->nodes + 16 * (size_t)b->node++;
    (void)tarn__layout_get(schema->format, &layout); /* the schema was already checked */
    *out = (struct ArrowArray){.length = (int64_t)tarn__get64(node),
                               .null_count = (int64_t)tarn__get64(node + 8)};
    if (out->length < 0 || out->null_count < 0 || out->null_count > out->length)
        return damaged(b, "a column's length or number of nulls is impossible");
    /* Types without a validity bitmap have no null count in the C interface. */
    if (!layout.has_validity && layout.shape != SHAPE_NULL) out->null_count = 0;
    TARN_TRY(decode_buffers(b, &layout, out));
    TARN_TRY(decode_children(b, schema, out));
    if (!sizes_fit(&layout, out)) return damaged(b, "a buffer is too short for its rows");
    if (!children_fit(&layout, out)) return damaged(b, "a child has too few rows");
    if (!schema->dictionary) return TARN_OK;
    const tarn__dict *dicts = b->r->dicts.items, *dict = &dicts[b->dict];
    out->dictionary = dicts[dict->first].value;
    /* Fields inside the dictionary's values are in the dictionary's batch. */
    b->dict = dict->next;
    return TARN_OK;
}

/* --- Batches ---------------------------------------------------------------------- */

static tarn_status set_codec(batch *b, flat compression)
{
    b->codec = -1;
    if (!compression.at) return TARN_OK;
    b->codec = flat_u8(compression, 0, 0);
    if (b->codec > 1 || flat_u8(compression, 1, 0) != 0)
        return tarn__fail_at(b->r->err, TARN_ERR_UNSUPPORTED, NULL, b->r->at,
                             "Arrow body compression %d is not supported", b->codec);
    return TARN_OK;
}

static tarn_status open_batch(batch *b, flat message, const unsigned char *body,
                              uint64_t body_size)
{
    flat nodes = flat_child(message, BATCH_NODES),
         buffers = flat_child(message, BATCH_BUFFERS),
         variadic = flat_child(message, BATCH_VARIADIC);
    b->body = body;
    b->body_size = body_size;
    b->n_nodes = flat_count(nodes, 16);
    b->nodes = flat_items(nodes);
    b->n_buffers = flat_count(buffers, 16);
    b->buffers = flat_items(buffers);
    b->n_variadic = flat_count(variadic, 8);
    b->variadic = flat_items(variadic);
    return set_codec(b, flat_child(message, BATCH_COMPRESSION));
}

static tarn_status close_batch(const batch *b)
{
    if (b->node == b->n_nodes && b->buffer == b->n_buffers && b->view == b->n_variadic)
        return TARN_OK;
    return tarn__fail_at(b->r->err, TARN_ERR_FORMAT, NULL, b->r->at,
                         "the batch has more columns or buffers than the schema");
}

static tarn_status read_batch(reading *r, flat message, const unsigned char *body,
                              uint64_t body_size)
{
    tarn__table *t = r->table;
    batch b = {.r = r, .column = "(none)"};
    int64_t length = flat_i64(message, BATCH_LENGTH, 0);
    size_t n = (size_t)t->schema.n_children;
    if (length < 0 || t->count >= MAX_BATCHES)
        return damaged(&b, length < 0 ? "negative length" : "too many batches");
    TARN_TRY(open_batch(&b, message, body, body_size));
    TARN_TRY(tarn__grow(&t->batches, sizeof *t->batches, t->count, &t->capacity, r->err));
    struct ArrowArray *out = &t->batches[t->count];
    *out = (struct ArrowArray){.length = length, .n_buffers = 1};
    out->n_children = (int64_t)n;
    out->buffers = allocate(r, sizeof *out->buffers);
    out->private_data = allocate(r, sizeof(uint64_t));
    struct ArrowArray *columns = allocate(r, (n + 1) * sizeof *columns);
    out->children = allocate(r, (n + 1) * sizeof *out->children);
    if (!out->buffers || !out->private_data || !columns || !out->children)
        return no_room(r);
    for (size_t i = 0; i < n; i++) {
        out->children[i] = &columns[i];
        b.column = t->schema.children[i]->name;
        TARN_TRY(decode_column(&b, t->schema.children[i], &columns[i]));
        if (columns[i].length != length)
            return damaged(&b, "the number of rows differs from that of the batch");
    }
    TARN_TRY(close_batch(&b));
    t->rows += (uint64_t)length; /* both are below 2^63 */
    if (t->rows > INT64_MAX) return damaged(&b, "too many rows");
    t->count++;
    return TARN_OK;
}

static tarn_status read_dictionary(reading *r, flat message, const unsigned char *body,
                                   uint64_t body_size)
{
    int64_t id = flat_i64(message, DICTBATCH_ID, 0);
    size_t i = 0;
    while (i < r->dicts.count && r->dicts.items[i].id != id)
        i++;
    if (i == r->dicts.count)
        return tarn__fail_at(r->err, TARN_ERR_FORMAT, NULL, r->at,
                             "a dictionary that no column uses");
    tarn__dict *d = &r->dicts.items[i];
    batch b = {.r = r, .column = d->field->name, .dict = i + 1};
    if (flat_u8(message, DICTBATCH_DELTA, 0) && d->value->length)
        return tarn__fail_at(r->err, TARN_ERR_UNSUPPORTED, NULL, r->at,
                             "column %s: delta dictionaries are not supported; write the "
                             "table again without them",
                             d->field->name);
    TARN_TRY(open_batch(&b, flat_child(message, DICTBATCH_DATA), body, body_size));
    struct ArrowArray *value = allocate(r, sizeof *value);
    if (!value) return no_room(r);
    TARN_TRY(decode_column(&b, d->field->dictionary, value));
    TARN_TRY(close_batch(&b));
    d->value = value;
    return TARN_OK;
}

/* A column without rows may have no dictionary in the stream. */
static tarn_status empty_dictionaries(reading *r)
{
    for (size_t i = r->dicts.count; i > 0; i--) {
        tarn__dict *d = &r->dicts.items[i - 1];
        struct ArrowArray *value = allocate(r, sizeof *value);
        if (!value) return no_room(r);
        TARN_TRY(tarn__array_empty(&r->table->slab, d->field->dictionary, value, r->err));
        d->value = value;
    }
    return TARN_OK;
}

static tarn_status read_schema(reading *r, flat message)
{
    if (r->has_schema)
        return tarn__fail_at(r->err, TARN_ERR_FORMAT, NULL, r->at,
                             "a second schema in one stream");
    r->has_schema = true;
    TARN_TRY(tarn__schema_decode(message, &r->table->schema, &r->dicts, r->err));
    return empty_dictionaries(r);
}

/* --- Messages --------------------------------------------------------------------- */

static tarn_status read_message(reading *r, const unsigned char *meta, uint32_t meta_size,
                                const unsigned char *body, uint64_t body_size)
{
    flat message = flat_root(meta, meta_size),
         header = flat_child(message, MESSAGE_HEADER);
    int version = flat_i16(message, MESSAGE_VERSION, 0),
        type = flat_u8(message, MESSAGE_HEADER_TYPE, 0);
    if (version != IPC_V4 && version != IPC_V5)
        return tarn__fail_at(r->err, TARN_ERR_UNSUPPORTED, NULL, r->at,
                             "Arrow metadata version %d is not supported", version);
    if (!header.at || type < IPC_SCHEMA || type > IPC_BATCH)
        return tarn__fail_at(r->err, TARN_ERR_UNSUPPORTED, NULL, r->at,
                             "Arrow message type %d is not supported", type);
    if (type == IPC_SCHEMA) return read_schema(r, header);
    if (!r->has_schema)
        return tarn__fail_at(r->err, TARN_ERR_FORMAT, NULL, r->at,
                             "the Arrow stream does not begin with a schema");
    return type == IPC_BATCH ? read_batch(r, header, body, body_size)
                             : read_dictionary(r, header, body, body_size);
}

/* Copies the metadata of a message: a mapped file can change between check and use. */
static tarn_status check_message(reading *r, uint32_t size)
{
    uint64_t at = r->at + 8;
    r->message.size = 0;
    TARN_TRY(tarn__buf_add(&r->message, r->data + at, size, r->err));
    return tarn__message_check((const unsigned char *)r->message.data, size, at, r->err);
}

static tarn_status cut_off(const reading *r, const char *what)
{
    return tarn__fail_at(r->err, TARN_ERR_TRUNCATED, NULL, r->at,
                         "the Arrow stream ends inside %s", what);
}

/* Reads the message at r->at. Sets *out_end at the end of the stream, whose marker may be
 * missing. */
static tarn_status read_next_message(reading *r, bool *out_end)
{
    uint64_t left = r->size - r->at;
    *out_end = left == 0;
    if (*out_end) return TARN_OK;
    if (left < 8) return cut_off(r, "a message's prefix");
    if (r->at % IPC_ALIGN != 0)
        return tarn__fail_at(r->err, TARN_ERR_FORMAT, NULL, r->at,
                             "the Arrow message does not begin at a multiple of 8");
    if ((int32_t)tarn__get32(r->data + r->at) != IPC_CONTINUATION)
        return tarn__fail_at(r->err, TARN_ERR_FORMAT, NULL, r->at,
                             "no Arrow message begins here");
    uint32_t meta_size = tarn__get32(r->data + r->at + 4);
    *out_end = meta_size == 0;
    if (*out_end) {
        r->at += 8;
        return TARN_OK;
    }
    if (meta_size > INT32_MAX - 8 || meta_size > left - 8)
        return cut_off(r, "a message's metadata");
    TARN_TRY(check_message(r, meta_size));
    const unsigned char *meta = (const unsigned char *)r->message.data,
                        *end = r->data + r->at + 8 + meta_size;
    int64_t body = flat_i64(flat_root(meta, meta_size), MESSAGE_BODY, 0);
    if (body < 0 || (uint64_t)body > left - 8 - meta_size)
        return cut_off(r, "a message's body");
    TARN_TRY(read_message(r, meta, meta_size, end, (uint64_t)body));
    r->at += 8 + (uint64_t)meta_size + (uint64_t)body;
    return TARN_OK;
}

static tarn_status count_rows(tarn__table *t, tarn_error *err)
{
    t->starts = tarn__slab_zeros(&t->slab, (t->count + 1) * sizeof *t->starts);
    if (!t->starts) return tarn__fail_memory(err);
    for (size_t i = 0; i < t->count; i++)
        t->starts[i + 1] = t->starts[i] + (uint64_t)t->batches[i].length;
    return TARN_OK;
}

static tarn_status read_all(reading *r)
{
    bool end = false;
    while (!end)
        TARN_TRY(read_next_message(r, &end));
    if (!r->has_schema) return cut_off(r, "its schema");
    if (r->at != r->size)
        return tarn__fail_at(r->err, TARN_ERR_FORMAT, NULL, r->at,
                             "%llu bytes after the end of the Arrow stream",
                             (unsigned long long)(r->size - r->at));
    return count_rows(r->table, r->err);
}

/* Streams begin at a multiple of 8 in files written by Arrow; others are copied. */
static tarn_status align_stream(tarn__table *t, const unsigned char **data, uint64_t size,
                                tarn_error *err)
{
    if ((uintptr_t)*data % IPC_ALIGN == 0) return TARN_OK;
    unsigned char *copy = tarn__slab_take(&t->slab, (size_t)size);
    if (!copy) return tarn__fail_memory(err);
    memcpy(copy, *data, (size_t)size);
    *data = copy;
    return TARN_OK;
}

static tarn_status parse(tarn__table *t, const unsigned char *data, uint64_t size,
                         uint64_t max_bytes, tarn_error *err)
{
    reading r = {.table = t, .size = size, .budget = max_bytes, .err = err};
    TARN_TRY(align_stream(t, &data, size, err));
    r.data = data;
    tarn__buf_init(&r.message, INT32_MAX);
    tarn_status status = read_all(&r);
    tarn__buf_reset(&r.message);
    free(r.dicts.items);
    return status;
}

static tarn__table *new_table(void)
{
    tarn__table *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    atomic_init(&t->refs, 1);
    tarn__forklock_init(&t->lock, TARN__LOCK_INNER);
    return t;
}

tarn_status tarn__table_parse(const unsigned char *data, uint64_t length,
                              uint64_t max_bytes, tarn__table **out, tarn_error *err)
{
    tarn__table *t = new_table();
    if (!t) return tarn__fail_memory(err);
    tarn_status status = parse(t, data, length, max_bytes, err);
    if (status == TARN_OK)
        *out = t;
    else
        tarn__table_unref(t);
    return status;
}

tarn_status tarn__table_read(tarn__source_file *file, uint64_t offset, uint64_t length,
                             uint64_t max_bytes, tarn__table **out, tarn_error *err)
{
    tarn__table *t = new_table();
    if (!t) return tarn__fail_memory(err);
    atomic_fetch_add(&file->refs, 1);
    t->file = file;
    t->file_offset = offset;
    tarn_status status = tarn__source_file_view(file, offset, length, &t->bytes, err);
    if (status == TARN_OK) {
        status = parse(t, t->bytes.data, length, max_bytes, err);
        if (status != TARN_OK && status != TARN_ERR_MEMORY && err)
            tarn__error_place(err, file->path,
                              offset + (err->offset == TARN_NO_OFFSET ? 0 : err->offset));
    }
    if (status == TARN_OK)
        *out = t;
    else
        tarn__table_unref(t);
    return status;
}
