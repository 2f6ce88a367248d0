/* Writes IAC files in one pass. The size of the index table does not depend on the
 * offsets, lengths and CRCs of the payloads. So it is written twice: at the start with
 * zeros, to reserve its space, and at the end with the values. Payloads are written
 * directly to their final position. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "base/options.h"
#include "iac/header.h"
#include "iac/ipc_write.h"
#include "io/file.h"
#include "io/publish.h"

TARN__DEFINE_INIT(tarn_iac_write_options, TARN_IAC_WRITE_OPTIONS_INIT)

enum { OURS = 3, BUFFER = 1 << 20 };

/* A caller's table, read completely: the caller has it in memory anyway. */
typedef struct taken {
    struct ArrowSchema schema;
    struct ArrowArray *batches;
    size_t count, capacity;
    uint64_t rows;
} taken;

struct tarn_iac_writer {
    tarn__publish file;
    bool is_open;
    tarn_iac_write_options options;
    char *caller; /* the caller's header fields */
    tarn__iac_codec codec;
    tarn__iac_header header;
    taken slides, index;
    uint64_t *offsets;
    uint32_t *lengths, *crcs;
    uint64_t next; /* the next row */
    char *buffer;  /* collects small payloads before they are written */
    size_t buffered;
};

/* --- Reading the caller's tables -------------------------------------------------- */

static void taken_reset(taken *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->batches[i].release) t->batches[i].release(&t->batches[i]);
    free(t->batches);
    if (t->schema.release) t->schema.release(&t->schema);
    *t = (taken){0};
}

static tarn_status stream_failed(struct ArrowArrayStream *s, int code, const char *which,
                                 tarn_error *err)
{
    const char *why = s->get_last_error ? s->get_last_error(s) : NULL;
    if (code == ENOMEM) return tarn__fail_memory(err);
    return tarn__fail(err, TARN_ERR_USAGE, "the %s table cannot be read: %s", which,
                      why && why[0] ? why : strerror(code));
}

static tarn_status import_batches(taken *t, struct ArrowArrayStream *s, const char *which,
                                  tarn_error *err)
{
    int code = s->get_schema(s, &t->schema);
    if (code != 0) return stream_failed(s, code, which, err);
    for (;;) {
        struct ArrowArray batch = {0};
        code = s->get_next(s, &batch);
        if (code != 0) return stream_failed(s, code, which, err);
        if (!batch.release) return TARN_OK;
        tarn_status status =
            tarn__grow(&t->batches, sizeof *t->batches, t->count, &t->capacity, err);
        if (status != TARN_OK) {
            batch.release(&batch);
            return status;
        }
        t->batches[t->count++] = batch;
        t->rows += (uint64_t)batch.length;
    }
}

static tarn_status import_table(taken *t, struct ArrowArrayStream *s, const char *which,
                                tarn_error *err)
{
    if (!s || !s->release)
        return tarn__fail(err, TARN_ERR_USAGE, "the %s table is missing", which);
    return import_batches(t, s, which, err);
}

/* --- The index with the added columns --------------------------------------------- */

static const char *const our_names[OURS] = {"offset", "length", "crc32"};
static const char *const our_formats[OURS] = {"L", "I", "I"};

static void release_nothing_schema(struct ArrowSchema *s)
{
    s->release = NULL;
}

/* A schema of borrowed parts: the caller's columns, with the added columns in place or at
 * the end. places has the position of each added column. */
typedef struct joined {
    struct ArrowSchema schema, ours[OURS];
    struct ArrowSchema **children;
    size_t places[OURS];
} joined;

static tarn_status join_schema(const taken *t, joined *out, tarn_error *err)
{
    size_t n = (size_t)t->schema.n_children, count = n;
    *out = (joined){.schema = t->schema};
    out->schema.release = release_nothing_schema;
    out->children = calloc(n + OURS, sizeof *out->children);
    if (!out->children) return tarn__fail_memory(err);
    if (n) memcpy(out->children, t->schema.children, n * sizeof *out->children);
    for (int k = 0; k < OURS; k++) {
        out->ours[k] = (struct ArrowSchema){.format = our_formats[k],
                                            .name = our_names[k],
                                            .flags = ARROW_FLAG_NULLABLE,
                                            .release = release_nothing_schema};
        size_t at = count, same = 0;
        for (size_t i = 0; i < n; i++)
            if (out->children[i]->name &&
                strcmp(out->children[i]->name, our_names[k]) == 0)
                at = i, same++;
        if (same > 1) {
            free(out->children);
            return tarn__fail(err, TARN_ERR_AMBIGUOUS,
                              "the index table has two columns named %s, which the "
                              "writer sets; rename one of them",
                              our_names[k]);
        }
        if (at == count) count++;
        out->children[at] = &out->ours[k];
        out->places[k] = at;
    }
    out->schema.children = out->children;
    out->schema.n_children = (int64_t)count;
    return TARN_OK;
}

static const void *our_values(const tarn_iac_writer *w, int k, uint64_t row)
{
    return k == 0   ? (const void *)(w->offsets + row)
           : k == 1 ? (const void *)(w->lengths + row)
                    : (const void *)(w->crcs + row);
}

static tarn_status put_joined_batch(const tarn_iac_writer *w, tarn__ipc_writer *ipc,
                                    const joined *j, const struct ArrowArray *from,
                                    uint64_t row, tarn_error *err)
{
    struct ArrowArray batch = *from, ours[OURS];
    const void *buffers[OURS][2];
    size_t n = (size_t)j->schema.n_children;
    struct ArrowArray **children = calloc(n + 1, sizeof *children);
    if (!children) return tarn__fail_memory(err);
    if (from->n_children)
        memcpy(children, from->children, (size_t)from->n_children * sizeof *children);
    /* The added columns are not sliced, so they begin where the slice of the batch
     * begins. */
    for (int k = 0; k < OURS; k++) {
        buffers[k][0] = NULL;
        buffers[k][1] = our_values(w, k, row);
        ours[k] = (struct ArrowArray){.length = from->length + from->offset,
                                      .offset = -from->offset,
                                      .n_buffers = 2,
                                      .buffers = buffers[k]};
        children[j->places[k]] = &ours[k];
    }
    batch.children = children;
    batch.n_children = (int64_t)n;
    tarn_status status = tarn__ipc_batch(ipc, &batch, err);
    free(children);
    return status;
}

static tarn_status put_joined(const tarn_iac_writer *w, tarn__buf *out, tarn_error *err)
{
    joined j;
    tarn__ipc_writer ipc = {0};
    uint64_t row = 0;
    TARN_TRY(join_schema(&w->index, &j, err));
    tarn_status status = tarn__ipc_begin(&ipc, &j.schema, out, err);
    for (size_t i = 0; i < w->index.count && status == TARN_OK; i++) {
        status = put_joined_batch(w, &ipc, &j, &w->index.batches[i], row, err);
        row += (uint64_t)w->index.batches[i].length;
    }
    if (status == TARN_OK) status = tarn__ipc_end(&ipc, err);
    tarn__ipc_reset(&ipc);
    free(j.children);
    return status;
}

static tarn_status put_table(const taken *t, tarn__buf *out, tarn_error *err)
{
    tarn__ipc_writer ipc = {0};
    tarn_status status = tarn__ipc_begin(&ipc, &t->schema, out, err);
    for (size_t i = 0; i < t->count && status == TARN_OK; i++)
        status = tarn__ipc_batch(&ipc, &t->batches[i], err);
    if (status == TARN_OK) status = tarn__ipc_end(&ipc, err);
    tarn__ipc_reset(&ipc);
    return status;
}

/* --- Opening ---------------------------------------------------------------------- */

/* Writes both tables consecutively, and sets their offsets and that of the data. */
static tarn_status make_tables(tarn_iac_writer *w, tarn__buf *out, tarn_error *err)
{
    tarn__iac_header *h = &w->header;
    TARN_TRY(put_table(&w->slides, out, err));
    h->slide_table_offset = TARN_IAC_HEADER_BYTES;
    h->slide_table_length = out->size;
    h->index_table_offset = h->slide_table_offset + out->size;
    TARN_TRY(w->options.segment ? put_table(&w->index, out, err)
                                : put_joined(w, out, err));
    h->index_table_length = out->size - h->slide_table_length;
    h->data_offset = TARN_IAC_HEADER_BYTES + out->size;
    return TARN_OK;
}

static tarn_status make_header(const tarn_iac_writer *w, unsigned char *out,
                               tarn_error *err)
{
    tarn__iac_caller c = {.text = w->caller,
                          .length = w->caller ? strlen(w->caller) : 0,
                          .in_order = w->options.in_order,
                          .utf8 = w->options.utf8,
                          .codec = w->options.codec,
                          .level = w->options.level};
    return tarn__iac_header_make(out, &w->header, &c, err);
}

/* The header lacks only the length of the data, so one that cannot fit is refused before
 * any payload is written. */
static tarn_status write_start(tarn_iac_writer *w, tarn_error *err)
{
    tarn__buf out;
    unsigned char *header = malloc(TARN_IAC_HEADER_BYTES);
    if (!header) return tarn__fail_memory(err);
    tarn__buf_init(&out, SIZE_MAX / 4);
    tarn_status status = make_tables(w, &out, err);
    if (status == TARN_OK) status = make_header(w, header, err);
    if (status == TARN_OK)
        status = tarn__publish_write(&w->file, header, TARN_IAC_HEADER_BYTES, err);
    if (status == TARN_OK)
        status = tarn__publish_write(&w->file, out.data, out.size, err);
    tarn__buf_reset(&out);
    free(header);
    return status;
}

static tarn_status rewrite_header(tarn_iac_writer *w, tarn_error *err)
{
    unsigned char *header = malloc(TARN_IAC_HEADER_BYTES);
    if (!header) return tarn__fail_memory(err);
    tarn_status status = make_header(w, header, err);
    if (status == TARN_OK)
        status = tarn__publish_write_at(&w->file, header, TARN_IAC_HEADER_BYTES, 0, err);
    free(header);
    return status;
}

static tarn_status reserve_rows(tarn_iac_writer *w, tarn_error *err)
{
    uint64_t rows = w->index.rows, bytes;
    if (!tarn__mul(rows + 1, 8, &bytes)) return tarn__fail_memory(err);
    w->offsets = calloc((size_t)rows + 1, sizeof *w->offsets);
    w->lengths = calloc((size_t)rows + 1, sizeof *w->lengths);
    w->crcs = calloc((size_t)rows + 1, sizeof *w->crcs);
    w->buffer = malloc(BUFFER);
    if (w->offsets && w->lengths && w->crcs && w->buffer) return TARN_OK;
    return tarn__fail_memory(err);
}

static tarn_status begin_file(tarn_iac_writer *w, const char *path, tarn_error *err)
{
    struct stat st;
    if (!w->options.overwrite && lstat(path, &st) == 0)
        return tarn__fail_at(err, TARN_ERR_EXISTS, path, TARN_NO_OFFSET,
                             "the file exists; use overwrite to replace it");
    TARN_TRY(tarn__publish_begin(&w->file, path, err));
    w->is_open = true;
    w->file.keep_existing = !w->options.overwrite;
    w->file.no_sync = w->options.no_sync;
    return TARN_OK;
}

static tarn_status check_options(const tarn_iac_write_options *o, tarn_error *err)
{
    if (o->version != 1 && o->version != 2)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "IAC version %u is not supported (expected 1 or 2)",
                          o->version);
    if (tarn__iac_codec_named(o->codec) > IAC_GZIP && !o->encoded)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "payloads of this codec must be encoded by the caller");
    return TARN_OK;
}

static tarn_status open_writer(tarn_iac_writer *w, const char *path,
                               struct ArrowArrayStream *slides,
                               struct ArrowArrayStream *index, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "slides", slides);
    TARN__NEED(err, "index", index);
    TARN_TRY(check_options(&w->options, err));
    w->codec = tarn__iac_codec_named(w->options.codec);
    w->options.codec = tarn__iac_codec_name(w->options.codec);
    if (w->options.header && !(w->caller = strdup(w->options.header)))
        return tarn__fail_memory(err);
    TARN_TRY(import_table(&w->slides, slides, "slide", err));
    TARN_TRY(import_table(&w->index, index, "index", err));
    w->header.version = w->options.version;
    w->header.num_slides = w->slides.rows;
    w->header.num_records = w->index.rows;
    TARN_TRY(reserve_rows(w, err));
    TARN_TRY(begin_file(w, path, err));
    return write_start(w, err);
}

tarn_status tarn_iac_writer_open(const char *path, struct ArrowArrayStream *slides,
                                 struct ArrowArrayStream *index,
                                 const tarn_iac_write_options *options,
                                 tarn_iac_writer **out, tarn_error *err)
{
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_status status = out ? tarn__options_take(&o, sizeof o, options, err)
                             : tarn__fail(err, TARN_ERR_USAGE, "out is NULL");
    tarn_iac_writer *w = status == TARN_OK ? calloc(1, sizeof *w) : NULL;
    if (status == TARN_OK && !w) status = tarn__fail_memory(err);
    if (status == TARN_OK) {
        w->options = o;
        status = open_writer(w, path, slides, index, err);
    }
    if (slides && slides->release) slides->release(slides);
    if (index && index != slides && index->release) index->release(index);
    if (status == TARN_OK)
        *out = w;
    else
        tarn_iac_writer_abandon(w);
    return status;
}

void tarn_iac_writer_abandon(tarn_iac_writer *w)
{
    if (!w) return;
    if (w->is_open) tarn__publish_abandon(&w->file);
    taken_reset(&w->slides);
    taken_reset(&w->index);
    free(w->caller);
    free(w->offsets);
    free(w->lengths);
    free(w->crcs);
    free(w->buffer);
    free(w);
}

/* --- Payloads --------------------------------------------------------------------- */

static tarn_status flush(tarn_iac_writer *w, tarn_error *err)
{
    size_t size = w->buffered;
    w->buffered = 0;
    return size ? tarn__publish_write(&w->file, w->buffer, size, err) : TARN_OK;
}

static tarn_status put_bytes(tarn_iac_writer *w, const void *data, size_t len,
                             tarn_error *err)
{
    if (len > BUFFER - w->buffered) TARN_TRY(flush(w, err));
    if (len >= BUFFER) return tarn__publish_write(&w->file, data, len, err);
    if (len) memcpy(w->buffer + w->buffered, data, len);
    w->buffered += len;
    return TARN_OK;
}

static tarn_status put_payload(tarn_iac_writer *w, const void *data, size_t len,
                               tarn_error *err)
{
    if (len > TARN_IAC_MAX_PAYLOAD)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "payload %llu has %zu bytes; the limit is 4294967295",
                          (unsigned long long)w->next, len);
    w->offsets[w->next] = w->header.data_length;
    w->lengths[w->next] = (uint32_t)len;
    w->crcs[w->next] = tarn__crc32(0, data, len);
    TARN_TRY(put_bytes(w, data, len, err));
    w->header.data_length += len;
    w->next++;
    return TARN_OK;
}

tarn_status tarn_iac_writer_add(tarn_iac_writer *w, const void *data, size_t len,
                                tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "data", data || !len);
    tarn_view encoded;
    if (w->options.segment) {
        w->header.data_length += len;
        return put_bytes(w, data, len, err);
    }
    if (w->next == w->index.rows)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "more payloads than the %llu rows of the index table",
                          (unsigned long long)w->index.rows);
    if (w->codec == IAC_NONE || w->options.encoded) return put_payload(w, data, len, err);
    TARN_TRY(
        tarn_iac_encode(w->options.codec, w->options.level, data, len, &encoded, err));
    tarn_status status = put_payload(w, encoded.data, encoded.size, err);
    tarn_view_release(&encoded);
    return status;
}

static tarn_status copy_file(tarn_iac_writer *w, const char *path, uint64_t *out_size,
                             tarn_error *err)
{
    tarn__file from;
    TARN_TRY(flush(w, err));
    TARN_TRY(tarn__file_open(&from, path, err));
    tarn_status status = tarn__publish_copy(&w->file, from.fd, path, 0, from.size, err);
    *out_size = from.size;
    w->header.data_length += from.size;
    tarn__file_close(&from);
    return status;
}

tarn_status tarn_iac_writer_add_file(tarn_iac_writer *w, const char *path,
                                     uint64_t *out_size, tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out_size", out_size);
    tarn__contents contents;
    if (w->options.segment) return copy_file(w, path, out_size, err);
    TARN_TRY(tarn__contents_open(&contents, path, err));
    *out_size = contents.size;
    tarn_status status =
        tarn_iac_writer_add(w, contents.data, (size_t)contents.size, err);
    tarn__contents_close(&contents);
    return status;
}

/* Writes the index again, into the space reserved for it. */
static tarn_status rewrite_index(tarn_iac_writer *w, tarn_error *err)
{
    tarn__buf out;
    tarn__buf_init(&out, SIZE_MAX / 4);
    tarn_status status = put_joined(w, &out, err);
    if (status == TARN_OK && out.size != w->header.index_table_length)
        status = tarn__fail(err, TARN_ERR_USAGE,
                            "the caller's index table changed while it was written");
    if (status == TARN_OK)
        status = tarn__publish_write_at(&w->file, out.data, out.size,
                                        w->header.index_table_offset, err);
    tarn__buf_reset(&out);
    return status;
}

static tarn_status finish(tarn_iac_writer *w, tarn_error *err)
{
    if (!w->options.segment && w->next != w->index.rows)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "%llu payloads for the %llu rows of the index table",
                          (unsigned long long)w->next, (unsigned long long)w->index.rows);
    TARN_TRY(flush(w, err));
    if (!w->options.segment) TARN_TRY(rewrite_index(w, err));
    return rewrite_header(w, err);
}

tarn_status tarn_iac_writer_finish(tarn_iac_writer *w, tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    tarn_status status = finish(w, err);
    if (status == TARN_OK) {
        w->is_open = false; /* finish leaves no temporary file, whatever the result */
        status = tarn__publish_finish(&w->file, err);
    }
    tarn_iac_writer_abandon(w);
    return status;
}
