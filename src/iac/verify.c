/* Checks everything in an IAC file, payloads in parallel. A task is a piece of the data
 * segment that is short enough to balance the threads and long enough to be read at full
 * speed. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "iac/file.h"

enum { PIECE = 512 }; /* records per task */

typedef struct work {
    tarn_iac *pack;
    const tarn_verify_options *options;
    tarn_verify_report *report;
    pthread_mutex_t lock; /* guards the members below and the report */
    uint64_t done;
    bool cancelled;
} work;

static void report_problem(work *w, const tarn_error *what)
{
    w->report->problems++;
    w->report->remaining++;
    if (w->options->problem) w->options->problem(w->options->problem_context, what);
}

/* Checks the bytes of a record against its CRC; *out_size is the number of bytes read. */
static tarn_status check_record(const tarn_iac *p, uint64_t row, uint64_t *out_size,
                                bool *out_checked, tarn_error *err)
{
    tarn_iac_span s;
    tarn_view view;
    TARN_TRY(tarn_iac_locate(p, row, &s, err));
    *out_size = s.length;
    if (!s.has_crc) return TARN_OK;
    tarn_status status = tarn_iac_view(p, row, false, &view, err);
    *out_checked = status == TARN_OK || status == TARN_ERR_CHECKSUM;
    if (status == TARN_OK) tarn_view_release(&view);
    return status;
}

static void report_progress(work *w, uint64_t bytes, uint64_t checked)
{
    pthread_mutex_lock(&w->lock);
    w->done += bytes;
    w->report->bytes += bytes;
    w->report->checksummed += checked;
    if (w->options->progress && !w->cancelled &&
        w->options->progress(w->options->progress_context, w->done,
                             w->pack->header.data_length))
        w->cancelled = true;
    pthread_mutex_unlock(&w->lock);
}

static tarn_status check_piece(void *context, size_t number)
{
    work *w = context;
    uint64_t row = (uint64_t)number * PIECE, end = row + PIECE, bytes = 0, checked = 0;
    if (end > w->pack->header.num_records) end = w->pack->header.num_records;
    for (; row < end; row++) {
        tarn_error err;
        uint64_t size = 0;
        bool has = false;
        if (check_record(w->pack, row, &size, &has, &err) != TARN_OK) {
            pthread_mutex_lock(&w->lock);
            report_problem(w, &err);
            pthread_mutex_unlock(&w->lock);
        }
        bytes += size;
        checked += has;
    }
    report_progress(w, bytes, checked);
    return w->cancelled ? TARN_ERR_CANCELLED : TARN_OK;
}

static void check_tables(work *w)
{
    for (int i = 0; i < 2; i++) {
        tarn_error err;
        tarn__table *t = w->pack->tables[i];
        if (tarn__table_validate(t, &err) != TARN_OK ||
            tarn__table_check_values(t, &err) != TARN_OK)
            report_problem(w, &err);
    }
}

static void check_tail(work *w)
{
    tarn_error err;
    const tarn__iac_header *h = &w->pack->header;
    uint64_t end = h->data_offset + h->data_length, size = w->pack->file->size;
    if (end == size) return;
    (void)tarn__fail_at(&err, TARN_ERR_FORMAT, w->pack->file->path, end,
                        "%llu unused bytes after the data segment",
                        (unsigned long long)(size - end));
    report_problem(w, &err);
}

/* Rows of a matrix need no offset and length columns; columns of these names are then the
 * caller's. */
static void check_columns(work *w)
{
    const tarn__number_column *columns[] = {&w->pack->offset, &w->pack->length,
                                            &w->pack->crc32};
    for (int i = 0; i < 3 && w->pack->header.record_bytes == 0; i++) {
        tarn_error err;
        if (tarn__iac_check_column(w->pack, columns[i], &err) != TARN_OK)
            report_problem(w, &err);
    }
}

static bool can_locate(const tarn_iac *p)
{
    if (p->offset.flaw != TARN_OK || p->length.flaw != TARN_OK) return false;
    return p->offset.column >= 0 || p->header.record_bytes > 0;
}

static tarn_status check_payloads(work *w, tarn_error *err)
{
    uint64_t rows = w->pack->header.num_records;
    size_t pieces = (size_t)((rows + PIECE - 1) / PIECE);
    if (!can_locate(w->pack)) return TARN_OK;
    tarn_status status = tarn__parallel(tarn__thread_count(w->options->threads), pieces,
                                        check_piece, w, NULL);
    if (status == TARN_ERR_CANCELLED)
        return tarn__fail_at(err, status, w->pack->file->path, TARN_NO_OFFSET, "stopped");
    return status;
}

tarn_status tarn__iac_verify(const char *path, const tarn_verify_options *o,
                             tarn_verify_report *out, tarn_error *err)
{
    tarn_error why;
    work w = {.options = o, .report = out};
    tarn_iac_options open = TARN_IAC_OPTIONS_INIT;
    if (o->repair)
        return tarn__fail_at(err, TARN_ERR_USAGE, path, TARN_NO_OFFSET,
                             "a record pack cannot be repaired");
    open.check = true;
    tarn_status status = tarn_iac_open(path, &open, &w.pack, &why);
    if (status == TARN_ERR_FORMAT || status == TARN_ERR_TRUNCATED ||
        status == TARN_ERR_AMBIGUOUS) {
        report_problem(&w, &why);
        return TARN_OK;
    }
    if (status != TARN_OK) {
        if (err) *err = why;
        return status;
    }
    out->samples = w.pack->header.num_records;
    pthread_mutex_init(&w.lock, NULL);
    check_tables(&w);
    check_columns(&w);
    check_tail(&w);
    status = check_payloads(&w, err);
    pthread_mutex_destroy(&w.lock);
    tarn_iac_close(w.pack);
    return status;
}
