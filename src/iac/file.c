/* Opens IAC files and reads payloads. */
#include "iac/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "base/options.h"
#include "base/runs.h"
#include "iac/ipc.h"
#include "io/file.h"
#include "io/remote.h"

TARN__DEFINE_INIT(tarn_iac_options, TARN_IAC_OPTIONS_INIT)

/* --- Opening ---------------------------------------------------------------------- */

static tarn_status read_header(tarn_iac *p, tarn_error *err)
{
    tarn_view view;
    uint64_t size =
        p->file->size < TARN_IAC_HEADER_BYTES ? p->file->size : TARN_IAC_HEADER_BYTES;
    TARN_TRY(tarn__source_file_view(p->file, 0, size, &view, err));
    tarn_status status =
        tarn__iac_header_parse(&p->header, view.data, view.size, p->file->size, err);
    tarn_view_release(&view);
    if (status != TARN_OK && err && status != TARN_ERR_MEMORY)
        tarn__error_place(err, p->file->path, err->offset);
    return status;
}

/* The memory that a decompressed table may need. Real tables hold offsets and checksums,
 * which hardly compress; one that expands far more would let a small file use much
 * memory. */
static uint64_t table_limit(const tarn_iac *p, uint64_t length)
{
    enum { FACTOR = 32 };
    const uint64_t least = UINT64_C(32) << 20, most = UINT64_C(4) << 30;
    if (p->options.max_table_bytes) return p->options.max_table_bytes;
    return length > (most - least) / FACTOR ? most : least + FACTOR * length;
}

static tarn_status read_table(tarn_iac *p, tarn_iac_table which, uint64_t offset,
                              uint64_t length, uint64_t rows, tarn_error *err)
{
    tarn__table *t;
    TARN_TRY(tarn__table_read(p->file, offset, length, table_limit(p, length), &t, err));
    p->tables[which] = t;
    if (t->rows == rows) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_FORMAT, p->file->path, offset,
        "the header says %llu %s, but the table has %llu rows", (unsigned long long)rows,
        which == TARN_IAC_SLIDES ? "slides" : "records", (unsigned long long)t->rows);
}

/* The reader can use only plain integer columns without nulls. A file with other columns
 * of these names can still be read in every other way, so the error is reported only when
 * a payload is requested. */
static void find_number(const tarn__table *t, const char *name, tarn__number_column *out)
{
    tarn__layout layout = {0};
    int64_t column = tarn__table_column(t, name);
    *out = (tarn__number_column){.name = name, .column = -1};
    if (column == -1) return;
    if (column == -2) {
        out->flaw = TARN_ERR_AMBIGUOUS;
        return;
    }
    const struct ArrowSchema *s = t->schema.children[column];
    (void)tarn__layout_get(s->format, &layout);
    bool good =
        strlen(s->format) == 1 && strchr("cCsSiIlL", s->format[0]) && !s->dictionary;
    for (size_t i = 0; i < t->count && good; i++)
        good = t->batches[i].children[column]->null_count == 0;
    if (!good) {
        out->flaw = TARN_ERR_FORMAT;
        return;
    }
    out->column = column;
    out->width = layout.width;
    out->above_sign = layout.number == 'i' ? 64 - 8 * layout.width : 0;
}

static void find_spans(tarn_iac *p)
{
    const tarn__table *t = p->tables[TARN_IAC_INDEX];
    /* Callers may use one of these names for their own purposes in a segment of their
     * own. */
    if (tarn__table_column(t, "offset") == -1 || tarn__table_column(t, "length") == -1)
        return;
    find_number(t, "offset", &p->offset);
    find_number(t, "length", &p->length);
    find_number(t, "crc32", &p->crc32);
    if (p->offset.column < 0 || p->length.column < 0)
        p->offset.column = p->length.column = p->crc32.column = -1;
}

tarn_status tarn__iac_check_column(const tarn_iac *p, const tarn__number_column *c,
                                   tarn_error *err)
{
    if (c->flaw == TARN_OK) return TARN_OK;
    return tarn__fail_at(
        err, c->flaw, p->file->path, p->header.index_table_offset,
        c->flaw == TARN_ERR_AMBIGUOUS
            ? "the index has two columns named %s"
            : "column %s of the index does not hold integers, or has nulls",
        c->name);
}

static tarn_status name_types(tarn_iac *p, tarn_iac_table which, tarn_error *err)
{
    enum { MAX_TYPE_TEXT = 1 << 20 };
    const struct ArrowSchema *schema = &p->tables[which]->schema;
    p->types[which] = calloc((size_t)schema->n_children + 1, sizeof **p->types);
    if (!p->types[which]) return tarn__fail_memory(err);
    for (int64_t i = 0; i < schema->n_children; i++) {
        tarn__buf text;
        tarn__buf_init(&text, MAX_TYPE_TEXT);
        tarn_status status = tarn__type_text(&text, schema->children[i], NULL);
        if (status == TARN_OK) status = tarn__buf_add(&text, "", 1, NULL);
        if (status != TARN_OK) tarn__buf_reset(&text);
        p->types[which][i] = status == TARN_OK ? text.data : strdup("(a long type)");
        if (!p->types[which][i]) return tarn__fail_memory(err);
    }
    return TARN_OK;
}

static tarn_status open_parts(tarn_iac *p, tarn_error *err)
{
    const tarn__iac_header *h = &p->header;
    TARN_TRY(read_header(p, err));
    p->codec = tarn__iac_codec_named(h->codec);
    TARN_TRY(read_table(p, TARN_IAC_SLIDES, h->slide_table_offset, h->slide_table_length,
                        h->num_slides, err));
    TARN_TRY(read_table(p, TARN_IAC_INDEX, h->index_table_offset, h->index_table_length,
                        h->num_records, err));
    find_spans(p);
    TARN_TRY(name_types(p, TARN_IAC_SLIDES, err));
    TARN_TRY(name_types(p, TARN_IAC_INDEX, err));
    size_t columns = (size_t)p->tables[TARN_IAC_INDEX]->schema.n_children;
    p->lookups = calloc(columns + 1, sizeof *p->lookups);
    return p->lookups ? TARN_OK : tarn__fail_memory(err);
}

tarn_status tarn_iac_open(const char *path, const tarn_iac_options *options,
                          tarn_iac **out, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_iac_options, o, TARN_IAC_OPTIONS_INIT, options, err);
    return tarn__iac_open(path, &o, NULL, out, err);
}

tarn_status tarn__iac_open(const char *path, const tarn_iac_options *o,
                           tarn__cachedir *cache, tarn_iac **out, tarn_error *err)
{
    tarn_iac *p = calloc(1, sizeof *p);
    if (!p) return tarn__fail_memory(err);
    tarn__forklock_init(&p->lock, TARN__LOCK_OUTER);
    p->options = *o;
    p->offset.column = p->length.column = p->crc32.column = -1;
    tarn_status status = tarn__source_file_open(path, o->no_map, cache, &p->file, err);
    if (status == TARN_OK) status = open_parts(p, err);
    if (status == TARN_OK)
        *out = p;
    else
        tarn_iac_close(p);
    return status;
}

static void free_types(tarn_iac *p, tarn_iac_table which)
{
    for (size_t i = 0; p->types[which] && p->types[which][i]; i++)
        free(p->types[which][i]);
    free(p->types[which]);
}

void tarn_iac_close(tarn_iac *p)
{
    if (!p) return;
    size_t columns =
        p->lookups ? (size_t)p->tables[TARN_IAC_INDEX]->schema.n_children : 0;
    for (size_t i = 0; i < columns; i++)
        tarn__lookup_free(atomic_load(&p->lookups[i]));
    free(p->lookups);
    free_types(p, TARN_IAC_SLIDES);
    free_types(p, TARN_IAC_INDEX);
    tarn__table_unref(p->tables[TARN_IAC_SLIDES]);
    tarn__table_unref(p->tables[TARN_IAC_INDEX]);
    tarn__iac_header_reset(&p->header);
    tarn__source_file_unref(p->file);
    tarn__forklock_destroy(&p->lock);
    free(p);
}

void tarn_iac_info_get(const tarn_iac *p, tarn_iac_info *out, size_t size)
{
    if (!p) {
        TARN__FILL_ZERO(out, size);
        return;
    }
    const tarn__iac_header *h = &p->header;
    tarn_iac_info info = {.version = h->version,
                          .records = h->num_records,
                          .slides = h->num_slides,
                          .slide_table_length = h->slide_table_length,
                          .index_table_offset = h->index_table_offset,
                          .index_table_length = h->index_table_length,
                          .data_offset = h->data_offset,
                          .data_length = h->data_length,
                          .file_size = p->file->size,
                          .has_spans = p->offset.column >= 0,
                          .has_checksums = p->crc32.column >= 0,
                          .mapped = p->file->map != NULL,
                          .record_bytes = p->offset.column >= 0 ? 0 : h->record_bytes,
                          .columns = {(size_t)p->tables[0]->schema.n_children,
                                      (size_t)p->tables[1]->schema.n_children},
                          .codec = h->codec,
                          .payload_type = h->payload_type,
                          .header = h->text,
                          .header_length = h->text_length};
    TARN__FILL_OUT(out, size, info);
}

/* --- Payloads --------------------------------------------------------------------- */

static inline uint64_t number_at(const struct ArrowArray *batch,
                                 const tarn__number_column *c, uint64_t row)
{
    const unsigned char *p =
        (const unsigned char *)batch->children[c->column]->buffers[1] + row * c->width;
    uint64_t number = tarn__get_uint(p, c->width);
    /* A negative offset must be far outside the file, not where its low bytes would
     * point. */
    return (uint64_t)((int64_t)(number << c->above_sign) >> c->above_sign);
}

tarn_status tarn__iac_no_row(const tarn_iac *p, uint64_t row, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, p->file->path, TARN_NO_OFFSET,
                         "no record %llu; the file has %llu records",
                         (unsigned long long)row,
                         (unsigned long long)p->header.num_records);
}

static tarn_status bad_span(const tarn_iac *p, uint64_t row, const tarn_iac_span *s,
                            tarn_error *err)
{
    return tarn__fail_at(
        err, TARN_ERR_FORMAT, p->file->path, p->header.index_table_offset,
        "record %llu is outside the data segment: %llu bytes at offset %llu",
        (unsigned long long)row, (unsigned long long)s->length,
        (unsigned long long)s->offset);
}

static tarn_status locate_by_size(const tarn_iac *p, uint64_t row, tarn_iac_span *out,
                                  tarn_error *err)
{
    TARN_TRY(tarn__iac_check_column(p, &p->offset, err));
    TARN_TRY(tarn__iac_check_column(p, &p->length, err));
    if (p->header.record_bytes == 0)
        return tarn__fail_at(
            err, TARN_ERR_UNSUPPORTED, p->file->path, TARN_NO_OFFSET,
            "the file has no offset and length columns for its records, and no "
            "feature_record_bytes; read spans of its data segment instead");
    out->length = p->header.record_bytes;
    if (!tarn__mul(row, out->length, &out->offset)) out->offset = UINT64_MAX;
    return TARN_OK;
}

/* The CRC is on another cache line, so it is read only when it is needed. */
static tarn_status locate(const tarn_iac *p, uint64_t row, bool want_crc,
                          tarn_iac_span *out, tarn_error *err)
{
    const tarn__table *t = p->tables[TARN_IAC_INDEX];
    uint64_t in_batch;
    if (row >= t->rows) return tarn__iac_no_row(p, row, err);
    *out = (tarn_iac_span){0};
    if (p->offset.column >= 0) {
        const struct ArrowArray *batch =
            &t->batches[tarn__table_batch(t, row, &in_batch)];
        out->offset = number_at(batch, &p->offset, in_batch);
        out->length = number_at(batch, &p->length, in_batch);
        out->has_crc = want_crc && p->crc32.column >= 0;
        if (out->has_crc) out->crc32 = (uint32_t)number_at(batch, &p->crc32, in_batch);
    } else {
        TARN_TRY(locate_by_size(p, row, out, err));
    }
    if (!tarn__range_in(out->offset, out->length, p->header.data_length))
        return bad_span(p, row, out, err);
    return TARN_OK;
}

tarn_status tarn_iac_locate(const tarn_iac *p, uint64_t row, tarn_iac_span *out,
                            tarn_error *err)
{
    TARN__NEED(err, "pack", p);
    TARN__NEED(err, "out", out);
    return locate(p, row, true, out, err);
}

static tarn_status check_crc(const tarn_iac *p, uint64_t row, const tarn_iac_span *s,
                             const void *data, tarn_error *err)
{
    uint32_t crc;
    if (!p->options.check) return TARN_OK;
    TARN_TRY(tarn__iac_check_column(p, &p->crc32, err));
    if (!s->has_crc) return TARN_OK;
    crc = tarn__crc32(0, data, (size_t)s->length);
    if (crc == s->crc32) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_CHECKSUM, p->file->path,
                         p->header.data_offset + s->offset,
                         "record %llu: its CRC is %08x, but the index says %08x",
                         (unsigned long long)row, crc, s->crc32);
}

tarn_status tarn__iac_check(const tarn_iac *p, uint64_t row, const void *data,
                            tarn_error *err)
{
    tarn_iac_span s;
    if (!p->options.check) return TARN_OK;
    TARN_TRY(locate(p, row, true, &s, err));
    return check_crc(p, row, &s, data, err);
}

/* Replaces the stored bytes of a view by the decoded bytes. */
static tarn_status decode_view(const tarn_iac *p, tarn_view *view, tarn_error *err)
{
    tarn_view stored = *view;
    uint64_t limit;
    if (!tarn__mul(stored.size, p->options.max_expansion, &limit)) limit = UINT64_MAX;
    if (limit < TARN_IAC_FREE_BYTES) limit = TARN_IAC_FREE_BYTES;
    tarn_status status =
        tarn_iac_decode(p->header.codec, stored.data, stored.size, limit, view, err);
    tarn_view_release(&stored);
    if (status == TARN_OK) return tarn__source_file_settle(p->file, err);
    if (status == TARN_ERR_UNSUPPORTED)
        return tarn__fail_at(
            err, status, p->file->path, TARN_NO_OFFSET,
            "codec %s cannot be decoded; read the stored payload instead",
            p->header.codec);
    if (status != TARN_ERR_MEMORY)
        tarn__error_place(err, p->file->path, p->header.data_offset);
    return status;
}

tarn_status tarn_iac_view(const tarn_iac *p, uint64_t row, bool decode, tarn_view *out,
                          tarn_error *err)
{
    TARN__NEED(err, "pack", p);
    TARN__NEED(err, "out", out);
    tarn_iac_span s;
    *out = (tarn_view)TARN_VIEW_INIT;
    TARN_TRY(locate(p, row, p->options.check, &s, err));
    TARN_TRY(tarn_iac_view_span(p, s.offset, s.length, out, err));
    tarn_status status = check_crc(p, row, &s, out->data, err);
    if (status == TARN_OK && decode && p->codec != IAC_NONE)
        status = decode_view(p, out, err);
    if (status != TARN_OK) tarn_view_release(out);
    return status;
}

/* Copies a span that is known to be inside the data segment. */
static tarn_status copy_span(const tarn_iac *p, const tarn_iac_span *s, void *to,
                             tarn_error *err)
{
    uint64_t at = p->header.data_offset + s->offset;
    if (!p->file->map)
        return tarn__file_read(&p->file->file, to, (size_t)s->length, at, err);
    if (s->length) memcpy(to, p->file->map + at, (size_t)s->length);
    return TARN_OK;
}

tarn_status tarn__iac_copy(const tarn_iac *p, uint64_t row, void *buf, size_t capacity,
                           tarn_error *err)
{
    tarn_iac_span s;
    TARN_TRY(locate(p, row, p->options.check, &s, err));
    if (s.length > capacity)
        return tarn__fail_at(err, TARN_ERR_LIMIT, p->file->path, TARN_NO_OFFSET,
                             "record %llu has %llu bytes, but the buffer has %zu",
                             (unsigned long long)row, (unsigned long long)s.length,
                             capacity);
    if (p->file->map) TARN_TRY(tarn__source_file_check(p->file, err));
    TARN_TRY(copy_span(p, &s, buf, err));
    TARN_TRY(tarn__source_file_settle(p->file, err));
    return check_crc(p, row, &s, buf, err);
}

tarn_status tarn_iac_view_span(const tarn_iac *p, uint64_t offset, uint64_t length,
                               tarn_view *out, tarn_error *err)
{
    TARN__NEED(err, "pack", p);
    TARN__NEED(err, "out", out);
    *out = (tarn_view)TARN_VIEW_INIT;
    if (!tarn__range_in(offset, length, p->header.data_length))
        return tarn__fail_at(
            err, TARN_ERR_USAGE, p->file->path, TARN_NO_OFFSET,
            "%llu bytes at offset %llu are outside the data segment of %llu bytes",
            (unsigned long long)length, (unsigned long long)offset,
            (unsigned long long)p->header.data_length);
    return tarn__source_file_view(p->file, p->header.data_offset + offset, length, out,
                                  err);
}

/* --- Batches ---------------------------------------------------------------------- */

void tarn_iac_batch_reset(tarn_iac_batch *batch)
{
    if (!batch) return;
    free(batch->data);
    free(batch->offsets);
    free(batch->order);
    *batch = (tarn_iac_batch){0};
}

static bool batch_rows(tarn_iac_batch *batch, size_t count)
{
    if (count < batch->count_capacity) return true;
    size_t capacity = count + 1;
    uint64_t bytes;
    if (!tarn__mul(capacity, sizeof(tarn__run), &bytes)) return false;
    uint64_t *offsets = realloc(batch->offsets, capacity * sizeof *offsets);
    if (offsets) batch->offsets = offsets;
    void *sorted = realloc(batch->order, (size_t)bytes);
    if (sorted) batch->order = sorted;
    if (!offsets || !sorted) return false;
    batch->count_capacity = capacity;
    return true;
}

static bool batch_bytes(tarn_iac_batch *batch, uint64_t size)
{
    if (size <= batch->data_capacity && batch->data) return true;
    if (size > SIZE_MAX / 2) return false;
    free(batch->data);
    batch->data_capacity = 0;
    batch->data = tarn__big_alloc(size ? (size_t)size : 1);
    if (!batch->data) return false;
    batch->data_capacity = (size_t)size;
    return true;
}

/* The records of a batch are far apart, so their cache lines are prefetched a few records
 * ahead. */
enum { AHEAD = 6, LINE = 64, LINES = 8 };

static void prefetch_row(const tarn_iac *p, uint64_t row)
{
    const tarn__table *t = p->tables[TARN_IAC_INDEX];
    if (p->offset.column < 0 || t->count != 1 || row >= t->rows) return;
    struct ArrowArray **columns = t->batches[0].children;
    __builtin_prefetch((const char *)columns[p->offset.column]->buffers[1] +
                       row * p->offset.width);
    __builtin_prefetch((const char *)columns[p->length.column]->buffers[1] +
                       row * p->length.width);
}

static void prefetch_record(const tarn_iac *p, uint64_t offset, uint64_t length)
{
    if (!p->file->map) return;
    const unsigned char *at = p->file->map + p->header.data_offset + offset;
    for (uint64_t k = 0; k < LINES && k * LINE < length; k++)
        __builtin_prefetch(at + k * LINE);
}

/* Where each record is in the file and in the batch. */
static tarn_status plan(const tarn_iac *p, const uint64_t *rows, size_t count,
                        tarn_iac_batch *out, tarn_error *err)
{
    tarn__run *places = out->order;
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        tarn_iac_span span;
        if (i + AHEAD < count) prefetch_row(p, rows[i + AHEAD]);
        TARN_TRY(locate(p, rows[i], false, &span, err));
        places[i] = (tarn__run){span.offset, (uint32_t)i, 0};
        out->offsets[i] = total;
        if (!tarn__add(total, span.length, &total)) return tarn__fail_memory(err);
    }
    out->offsets[count] = total;
    return batch_bytes(out, total) ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status check_batch(const tarn_iac *p, const uint64_t *rows, size_t count,
                               const tarn_iac_batch *out, tarn_error *err)
{
    for (size_t i = 0; i < count && p->options.check; i++) {
        tarn_iac_span span;
        TARN_TRY(locate(p, rows[i], true, &span, err));
        TARN_TRY(check_crc(p, rows[i], &span, out->data + out->offsets[i], err));
    }
    return TARN_OK;
}

tarn_status tarn_iac_read(const tarn_iac *p, const uint64_t *rows, size_t count,
                          tarn_iac_batch *out, tarn_error *err)
{
    TARN__NEED(err, "pack", p);
    TARN__NEED(err, "rows", rows || !count);
    TARN__NEED(err, "out", out);
    out->count = 0;
    if (count >= UINT32_MAX)
        return tarn__fail(err, TARN_ERR_USAGE, "too many records in one batch: %zu",
                          count);
    if (!batch_rows(out, count)) return tarn__fail_memory(err);
    TARN_TRY(plan(p, rows, count, out, err));
    if (p->file->map) TARN_TRY(tarn__source_file_check(p->file, err));
    tarn__run *sorted = out->order; /* hash: the offset, row: the place in the batch */
    tarn__runs_sort(sorted, count, 1);
    for (size_t i = 0; i < count; i++) {
        const uint64_t *place = &out->offsets[sorted[i].row];
        tarn_iac_span span = {.offset = sorted[i].hash, .length = place[1] - place[0]};
        if (i + AHEAD < count) {
            const uint64_t *ahead = &out->offsets[sorted[i + AHEAD].row];
            prefetch_record(p, sorted[i + AHEAD].hash, ahead[1] - ahead[0]);
        }
        TARN_TRY(copy_span(p, &span, out->data + place[0], err));
    }
    TARN_TRY(tarn__source_file_settle(p->file, err));
    TARN_TRY(check_batch(p, rows, count, out, err));
    out->count = count;
    return TARN_OK;
}
