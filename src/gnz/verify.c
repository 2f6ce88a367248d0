/* Verifies a whole array file: the header by opening it, values by their checksums, and
 * padding, which must be zero. Reads by position, never through a map. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/json.h"
#include "gnz/reader.h"
#include "gnz/writer.h"

enum { BLOCK = 1 << 20 };

typedef struct check {
    const tarn_verify_options *o;
    tarn_verify_report *report;
    const char *path;
    const tarn_gnz *gnz;
    unsigned char *block;
    uint64_t done;
} check;

static void report_problem(check *c, const tarn_error *what)
{
    c->report->problems++;
    c->report->remaining++;
    if (c->o->problem) c->o->problem(c->o->problem_context, what);
}

#define REPORT(c, code, offset, ...)                                                     \
    do {                                                                                 \
        tarn_error problem_;                                                             \
        tarn__error_set(&problem_, code, (c)->path, offset, __VA_ARGS__);                \
        report_problem(c, &problem_);                                                    \
    } while (0)

static tarn_status report_progress(check *c, uint64_t bytes, tarn_error *err)
{
    c->done += bytes;
    if (!c->o->progress ||
        c->o->progress(c->o->progress_context, c->done, c->gnz->file.size) == 0)
        return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_CANCELLED, c->path, TARN_NO_OFFSET, "stopped");
}

static tarn_status check_values(check *c, const tarn__gnz_entry *e, tarn_error *err)
{
    uint32_t crc = 0;
    uint64_t bytes = tarn__gnz_bytes(e);
    c->report->bytes += bytes;
    if (!e->has_checksum) return report_progress(c, bytes, err);
    for (uint64_t at = 0; at < bytes;) {
        size_t n = bytes - at < BLOCK ? (size_t)(bytes - at) : BLOCK;
        TARN_TRY(tarn__file_read(&c->gnz->file, c->block, n, e->offset + at, err));
        crc = tarn__crc32c(crc, c->block, n);
        at += n;
        TARN_TRY(report_progress(c, n, err));
    }
    c->report->checksummed++;
    if (crc != e->checksum)
        REPORT(c, TARN_ERR_CHECKSUM, e->offset,
               "array \"%s\": checksum does not match (stored %08x, computed %08x)",
               TARN__SHOW(e->name, e->name_size), e->checksum, crc);
    return TARN_OK;
}

/* Reserved rows after the last row may hold anything, because an interrupted append
 * leaves values there. */
static tarn_status check_gap(check *c, uint64_t from, uint64_t to, const char *array,
                             tarn_error *err)
{
    for (uint64_t at = from; at < to;) {
        size_t n = to - at < BLOCK ? (size_t)(to - at) : BLOCK;
        TARN_TRY(tarn__file_read(&c->gnz->file, c->block, n, at, err));
        size_t good = tarn__zero_span(c->block, n);
        if (good < n) {
            REPORT(c, TARN_ERR_FORMAT, at + good, "nonzero byte after %s%s%s",
                   array ? "array \"" : "the header",
                   array ? TARN__SHOW(array, strlen(array)) : "", array ? "\"" : "");
            return TARN_OK;
        }
        at += n;
        TARN_TRY(report_progress(c, n, err));
    }
    return TARN_OK;
}

static int by_offset(const void *a, const void *b)
{
    const tarn__gnz_entry *x = *(const tarn__gnz_entry *const *)a,
                          *y = *(const tarn__gnz_entry *const *)b;
    uint64_t p = tarn__gnz_extent(x), q = tarn__gnz_extent(y);
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (p > q) - (p < q);
}

static tarn_status check_gaps(check *c, tarn__gnz_entry **sorted, tarn_error *err)
{
    const tarn__gnz_header *h = &c->gnz->header;
    uint64_t end = TARN__GNZ_PREFIX + h->length, size = c->gnz->file.size;
    const char *array = NULL;
    for (size_t i = 0; i < h->count; i++) {
        if (sorted[i]->offset > end)
            TARN_TRY(check_gap(c, end, sorted[i]->offset, array, err));
        if (sorted[i]->offset + tarn__gnz_extent(sorted[i]) < end) continue;
        end = sorted[i]->offset + tarn__gnz_extent(sorted[i]);
        array = sorted[i]->name;
    }
    if (size % TARN_GNZ_PAGE)
        REPORT(c, TARN_ERR_TRUNCATED, size,
               "the length of the file is not a multiple of %u: padding is missing",
               TARN_GNZ_PAGE);
    return end < size ? check_gap(c, end, size, array, err) : TARN_OK;
}

static tarn_status check_header(check *c, tarn__gnz_entry **entries, tarn_error *err)
{
    uint32_t sum;
    const tarn__gnz_header *h = &c->gnz->header;
    tarn__gnz_plan plan = {.entries = entries,
                           .count = h->count,
                           .metadata = h->metadata.data,
                           .metadata_len = h->metadata.size};
    if (!h->has_sum) return TARN_OK;
    TARN_TRY(tarn__gnz_header_sum(&plan, &sum, err));
    if (sum != h->sum)
        REPORT(c, TARN_ERR_CHECKSUM, TARN__GNZ_PREFIX,
               "the checksum of the header does not match (stored %08x, computed %08x): "
               "the header is damaged, or was written by a program that does not update "
               "checksums",
               h->sum, sum);
    return TARN_OK;
}

/* Whether v looks like the value of the reserved key: checksums of arrays and of the
 * header. */
static bool is_ours(const tarn__json *v)
{
    if (v->kind != TARN__JSON_OBJECT) return false;
    const tarn__json *sum = tarn__json_find(v, "header"),
                     *arrays = tarn__json_find(v, "arrays");
    return sum && sum->kind == TARN__JSON_STRING && sum->size == 8 &&
           strspn(sum->u.text, "0123456789abcdef") == 8 && arrays &&
           arrays->kind == TARN__JSON_OBJECT;
}

static const tarn__json *find_ours(const tarn__json *object, unsigned depth)
{
    const tarn__json *key = object + 1;
    for (uint32_t i = 0; i < object->size; i++, key = tarn__json_next(key + 1)) {
        if (is_ours(key + 1)) return key;
        if (!depth || key[1].kind != TARN__JSON_OBJECT) continue;
        const tarn__json *inside = find_ours(key + 1, depth - 1);
        if (inside) return inside;
    }
    return NULL;
}

/* Without a checksum of the header, a changed name cannot be detected, not even that of
 * the reserved key. Checksums under another key mean that the name of the key was
 * damaged. */
static tarn_status check_strays(check *c, tarn_error *err)
{
    const tarn__gnz_header *h = &c->gnz->header;
    tarn__json_doc doc;
    if (h->has_sum) return TARN_OK;
    char *text = malloc(h->length + 1);
    if (!text) return tarn__fail_memory(err);
    tarn_status status =
        tarn__file_read(&c->gnz->file, text, h->length, TARN__GNZ_PREFIX, err);
    if (status == TARN_OK) status = tarn__json_parse(&doc, text, h->length, NULL, err);
    free(text);
    TARN_TRY(status);
    const tarn__json *root = tarn__json_root(&doc);
    const tarn__json *key = root->kind == TARN__JSON_OBJECT ? find_ours(root, 1) : NULL;
    if (key)
        REPORT(
            c, TARN_ERR_CHECKSUM, TARN__GNZ_PREFIX,
            "the key \"%s\" holds checksums, which only the reserved key may hold: the "
            "header is damaged",
            TARN__SHOW(key->u.text, key->size));
    tarn__json_reset(&doc);
    return TARN_OK;
}

static tarn_status check_all(check *c, tarn_error *err)
{
    const tarn__gnz_header *h = &c->gnz->header;
    c->report->members = h->count;
    tarn__gnz_entry **sorted = malloc((h->count + 1) * sizeof *sorted);
    if (!sorted) return tarn__fail_memory(err);
    for (size_t i = 0; i < h->count; i++)
        sorted[i] = &h->entries[i];
    qsort(sorted, h->count, sizeof *sorted, by_offset);
    tarn_status status = check_header(c, sorted, err);
    if (status == TARN_OK) status = check_strays(c, err);
    for (size_t i = 0; i < h->count && status == TARN_OK; i++)
        status = check_values(c, sorted[i], err);
    if (status == TARN_OK) status = check_gaps(c, sorted, err);
    free(sorted);
    return status;
}

static tarn_status repair(check *c, tarn_error *err)
{
    bool applied = false;
    int fd = open(c->path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        tarn_status status = tarn__fail_errno(err, c->path, errno, "cannot lock");
        if (fd >= 0) close(fd);
        return status;
    }
    tarn_status status = tarn__gnz_journal_apply(c->path, fd, &applied, err);
    close(fd);
    if (!applied) return status;
    c->report->repairs++;
    if (c->o->repaired) {
        tarn_error done;
        tarn__error_set(&done, TARN_OK, c->path, TARN_NO_OFFSET,
                        "completed or undid an interrupted update");
        c->o->repaired(c->o->repaired_context, &done);
    }
    return status;
}

static bool is_about_data(tarn_status status)
{
    return status == TARN_ERR_FORMAT || status == TARN_ERR_TRUNCATED ||
           status == TARN_ERR_UNSUPPORTED || status == TARN_ERR_LIMIT;
}

tarn_status tarn__gnz_verify(const char *path, const tarn_verify_options *o,
                             tarn_verify_report *report, tarn_error *err)
{
    tarn_gnz *gnz;
    tarn_error why;
    tarn_gnz_options read = TARN_GNZ_OPTIONS_INIT;
    check c = {.o = o, .report = report, .path = path};
    read.io = TARN_IO_READ;
    bool journal;
    TARN_TRY(tarn__gnz_journal_find(path, &journal, err));
    if (journal) {
        if (o->repair)
            TARN_TRY(repair(&c, err));
        else
            REPORT(
                &c, TARN_ERR_STALE, TARN_NO_OFFSET,
                "an update is running or was interrupted; a repair, or the next update, "
                "finishes or undoes it");
    }
    tarn_status status = tarn_gnz_open(path, &read, &gnz, &why);
    if (is_about_data(status)) {
        report_problem(&c, &why);
        return TARN_OK;
    }
    if (status != TARN_OK) {
        if (err) *err = why;
        return status;
    }
    c.gnz = gnz;
    c.block = malloc(BLOCK);
    status = c.block ? check_all(&c, err) : tarn__fail_memory(err);
    free(c.block);
    tarn_gnz_close(gnz);
    return status;
}
