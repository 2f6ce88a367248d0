/* Writes an index and its sums. At every moment there is an index with its sums, which
 * may still have the name under which new sums wait: see tarn__publish_pair. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/options.h"
#include "base/pool.h"
#include "io/file.h"
#include "io/publish.h"
#include "itar/index.h"
#include "itar/regular.h"
#include "itar/taridx.h"
#include "tar/keys.h"

tarn_status tarn__index_head(const tarn_index *index, tarn__buf *out, tarn_error *err)
{
    unsigned char h[TARIDX_HEADER_SIZE] = {0};
    TARN_TRY(tarn__buf_add(out, h, sizeof h, err));
    TARN_TRY(tarn__names_join(&index->fields, out, err));
    uint64_t collision_at = out->size;
    TARN_TRY(tarn__names_join(&index->collisions, out, err));
    memcpy(h, TARIDX_MAGIC, 8);
    tarn__put16(h + TARIDX_MAJOR, 1);
    tarn__put16(h + TARIDX_REC_SIZE, TARN__ROW_SIZE);
    tarn__put16(h + TARIDX_HDR_SIZE, TARIDX_HEADER_SIZE);
    tarn__put64(h + TARIDX_N_STEMS, index->n_stems);
    tarn__put64(h + TARIDX_N_ROWS, index->n_rows);
    tarn__put32(h + TARIDX_N_EXT, (uint32_t)index->fields.count);
    tarn__put32(h + TARIDX_N_CRASH, (uint32_t)index->collisions.count);
    tarn__put64(h + TARIDX_OFF_CRASH, collision_at);
    tarn__put64(h + TARIDX_OFF_ARR, out->size);
    h[TARIDX_FLAGS] = index->contiguous ? TARIDX_CONTIGUOUS : 0;
    memcpy(out->data, h, sizeof h);
    return TARN_OK;
}

static size_t chunk_size(const tarn_index *index, size_t chunk)
{
    return tarn__chunk_rows(index, chunk) * TARN__ROW_SIZE;
}

static tarn_status write_rows(const tarn_index *index, tarn__publish *p, tarn_error *err)
{
    for (size_t i = 0; i < index->n_chunks; i++) {
        TARN_TRY(
            tarn__publish_write(p, index->chunks[i].rows, chunk_size(index, i), err));
        tarn__publish_hurry(p);
    }
    return TARN_OK;
}

/* --- CRCs of pages ----------------------------------------------------------------- */

typedef struct paging {
    const tarn_index *index;
    tarn__part part;
    uint32_t *pages;
    uint64_t count;
} paging;

static uint32_t crc_of_rows(const tarn_index *index, uint64_t from, uint64_t to)
{
    uint32_t crc = 0;
    while (from < to) {
        size_t chunk = tarn__chunk_of(index, from);
        uint64_t end = index->chunks[chunk].first + tarn__chunk_rows(index, chunk);
        if (end > to) end = to;
        crc = tarn__crc32c(crc, tarn__index_at(index, from),
                           (size_t)(end - from) * TARN__ROW_SIZE);
        from = end;
    }
    return crc;
}

static uint32_t crc_of_page(const paging *p, uint64_t page)
{
    const tarn__sums *s = p->index->sums;
    size_t size = tarn__sums_element(p->part), each = TARN__SUMS_PAGE / size;
    uint64_t from = page * each, to = from + each < s->n_rows ? from + each : s->n_rows;
    if (p->part == TARN__PART_ROWS) return crc_of_rows(p->index, from, to);
    const uint32_t *data = p->part == TARN__PART_ORDER ? s->order : s->checksums;
    return tarn__crc32c(0, data + from, (size_t)(to - from) * size);
}

enum { PAGES_AT_ONCE = 2048 };

static tarn_status page_some(void *context, size_t number)
{
    const paging *p = context;
    uint64_t from = (uint64_t)number * PAGES_AT_ONCE, to = from + PAGES_AT_ONCE;
    for (uint64_t i = from; i < to && i < p->count; i++)
        p->pages[i] = crc_of_page(p, i);
    return TARN_OK;
}

/* The CRCs of all pages of all parts. The caller frees *out. */
static tarn_status page_all(const tarn_index *index, uint32_t **out, tarn_error *err)
{
    uint64_t all = 0, at = 0;
    size_t failed;
    for (int part = 0; part < TARN__PARTS; part++)
        all += tarn__sums_page_count(index->sums, (tarn__part)part);
    uint32_t *pages = malloc((size_t)(all + 1) * sizeof *pages);
    if (!pages) return tarn__fail_memory(err);
    for (int part = 0; part < TARN__PARTS; part++) {
        uint64_t count = tarn__sums_page_count(index->sums, (tarn__part)part);
        paging p = {index, (tarn__part)part, pages + at, count};
        (void)!tarn__parallel(index->threads, (size_t)(count / PAGES_AT_ONCE + 1),
                              page_some, &p, &failed);
        at += count;
    }
    *out = pages;
    return TARN_OK;
}

/* --- Writing ----------------------------------------------------------------------- */

/* Writes the sums, including the checksums of the .taridx next to them and of their own
 * parts. The index is not changed, because other threads may be reading it. */
static tarn_status write_sums(const tarn_index *index, const tarn__buf *head,
                              tarn__publish *file, tarn_error *err)
{
    tarn__sums bound = *index->sums;
    tarn_status status = page_all(index, &bound.pages, err);
    bound.stride = tarn__index_stride(index);
    bound.index_size = head->size + index->n_rows * TARN__ROW_SIZE;
    bound.index_head = tarn__crc32c(0, head->data, head->size);
    if (status != TARN_OK) return status;
    status = tarn__sums_write(&bound, file, err);
    free(bound.pages);
    return status;
}

/* Writes the header before rows that were streamed. If there are more names than fit, the
 * rows are moved to a new file. */
static tarn_status write_front(const tarn_index *index, const tarn__buf *head,
                               const char *path, tarn__publish *rows, tarn_error *err)
{
    if (head->size == index->rows_at)
        return tarn__publish_write_at(rows, head->data, head->size, 0, err);
    tarn__publish moved;
    TARN_TRY(tarn__publish_begin(&moved, path, err));
    tarn_status status = tarn__publish_write(&moved, head->data, head->size, err);
    if (status == TARN_OK)
        status = tarn__publish_copy(&moved, rows->fd, rows->temporary, index->rows_at,
                                    index->n_rows * TARN__ROW_SIZE, err);
    if (status != TARN_OK) {
        tarn__publish_abandon(&moved);
        return status;
    }
    tarn__publish_abandon(rows);
    *rows = moved;
    return TARN_OK;
}

/* Both files are written before waiting for the first. */
static tarn_status write_both(const tarn_index *index, const char *path,
                              tarn__publish *rows, tarn__publish *sums, tarn_error *err)
{
    tarn__buf head;
    tarn__buf_init(&head, SIZE_MAX / 2);
    tarn_status status = tarn__index_head(index, &head, err);
    if (status == TARN_OK && index->contents.data) {
        status = write_front(index, &head, path, rows, err);
    } else if (status == TARN_OK) {
        status = tarn__publish_write(rows, head.data, head.size, err);
        if (status == TARN_OK) status = write_rows(index, rows, err);
    }
    if (status == TARN_OK) {
        status = write_sums(index, &head, sums, err);
        tarn__publish_hurry(sums);
    }
    tarn__buf_reset(&head);
    return status;
}

/* Writes an index whose rows are in memory, or already in saving->rows. */
static tarn_status write_index(const tarn_index *index, const char *path,
                               tarn__saving *saving, tarn_error *err)
{
    char *sums_path = tarn__sums_path(path);
    if (!sums_path) return tarn__fail_memory(err);
    tarn_status status = tarn__publish_begin(&saving->sums, sums_path, err);
    free(sums_path);
    TARN_TRY(status);
    saving->sums.no_sync = saving->rows.no_sync;
    return write_both(index, path, &saving->rows, &saving->sums, err);
}

void tarn__saving_reset(tarn__saving *saving)
{
    tarn__publish_abandon(&saving->rows);
    tarn__publish_abandon(&saving->sums);
}

tarn_status tarn__index_prepare(const tarn_index *index, const char *path, bool no_sync,
                                tarn__saving *out, tarn_error *err)
{
    *out = (tarn__saving){.rows = {.fd = -1}, .sums = {.fd = -1}};
    if (index->path || index->contents.data)
        return tarn__fail_at(err, TARN_ERR_USAGE, index->path, TARN_NO_OFFSET,
                             "only an index that was built in memory can be saved");
    TARN_TRY(tarn__publish_begin(&out->rows, path, err));
    out->rows.no_sync = no_sync;
    tarn_status status = write_index(index, path, out, err);
    if (status == TARN_OK) status = tarn__publish_sync(&out->rows, err);
    if (status == TARN_OK) status = tarn__publish_sync(&out->sums, err);
    if (status != TARN_OK) tarn__saving_reset(out);
    return status;
}

/* Whether the sums of the index are those that wait; unknown if it cannot be loaded. */
static tarn_status waits(const char *path, const char *waiting, bool *out_known,
                         bool *out_waits, tarn_error *err)
{
    tarn_index *index = NULL;
    tarn_error why;
    tarn_status status = tarn__index_load(path, TARN__LOAD_TRUSTING, &index, &why);
    *out_known = status == TARN_OK || status == TARN_ERR_NO_FILE;
    *out_waits =
        status == TARN_OK && index->sums && strcmp(index->sums->path, waiting) == 0;
    tarn_index_free(index);
    if (status != TARN_ERR_MEMORY && status != TARN_ERR_IO) return TARN_OK;
    if (err) *err = why;
    return status;
}

/* The caller holds the lock of the folder. */
static tarn_status settle(const char *path, const char *sums, const char *waiting,
                          tarn_error *err)
{
    bool known, needed;
    if (access(waiting, F_OK) != 0) return TARN_OK;
    TARN_TRY(waits(path, waiting, &known, &needed, err));
    if (needed && rename(waiting, sums) != 0)
        return tarn__fail_errno(err, sums, errno, "cannot rename %s", waiting);
    if (known && !needed && unlink(waiting) != 0)
        return tarn__fail_errno(err, waiting, errno, "cannot remove");
    return needed ? tarn__sync_folder(sums, err) : TARN_OK;
}

tarn_status tarn__index_settle(const char *path, tarn_error *err)
{
    char *sums = tarn__sums_path(path), *waiting = tarn__sums_waiting_path(path);
    tarn_status status = sums && waiting ? TARN_OK : tarn__fail_memory(err);
    int lock = tarn__lock_folder(path);
    if (status == TARN_OK) status = settle(path, sums, waiting, err);
    if (lock >= 0) close(lock);
    free(sums);
    free(waiting);
    return status;
}

tarn_status tarn__index_publish(tarn__saving *saving, tarn_error *err)
{
    const char *path = saving->rows.final;
    char *waiting = tarn__sums_waiting_path(path);
    tarn_status status = waiting ? TARN_OK : tarn__fail_memory(err);
    int lock = tarn__lock_folder(path);
    if (status == TARN_OK) status = settle(path, saving->sums.final, waiting, err);
    if (status == TARN_OK)
        status = tarn__publish_pair(&saving->rows, &saving->sums, waiting, err);
    if (lock >= 0) close(lock);
    free(waiting);
    tarn__saving_reset(saving);
    return status;
}

tarn_status tarn_index_save(const tarn_index *index, const char *path, tarn_error *err)
{
    TARN__NEED(err, "index", index);
    TARN__NEED(err, "path", path);
    tarn__saving saving;
    TARN_TRY(tarn__index_prepare(index, path, false, &saving, err));
    return tarn__index_publish(&saving, err);
}

tarn_status tarn__index_create(const char *const *shards, size_t count,
                               const tarn_index_options *options, tarn__hash hash,
                               const char *path, tarn_index **out,
                               tarn_index_report *report, tarn_error *err)
{
    tarn__saving saving = {.rows = {.fd = -1}, .sums = {.fd = -1}};
    tarn_index *index = NULL;
    TARN_TRY(tarn__publish_begin(&saving.rows, path, err));
    /* For a file that cannot be mapped, the rows are written at the end. */
    tarn__publish *stream = tarn__is_local(saving.rows.fd) ? &saving.rows : NULL;
    tarn_status status =
        tarn__index_build(shards, count, options, hash, stream, &index, report, err);
    if (status == TARN_OK) status = write_index(index, path, &saving, err);
    if (status == TARN_OK)
        status = tarn__index_publish(&saving, err);
    else
        tarn__saving_reset(&saving);
    if (status == TARN_OK && out)
        *out = index;
    else
        tarn_index_free(index);
    return status;
}

tarn_status tarn_index_build(const char *const *shards, size_t count,
                             const tarn_index_options *options, const char *path,
                             tarn_index **out, tarn_index_report *report, size_t size,
                             tarn_error *err)
{
    TARN__NEED(err, "shards", shards || !count);
    TARN__NEED(err, "out", out || path);
    tarn_index_report met = {0};
    if (path && options && tarn__index_tasks(options))
        return tarn__index_part(shards, count, options, path, out, report, size, err);
    tarn_status status = path ? tarn__index_create(shards, count, options, tarn__key_hash,
                                                   path, out, &met, err)
                              : tarn__index_build(shards, count, options, tarn__key_hash,
                                                  NULL, out, &met, err);
    TARN__FILL_OUT(report, size, met);
    return status;
}
