/* Writing an index and its sums. The old .tarsum goes first and the new one comes last,
 * so that at no moment a .tarsum stands beside an index that is not its own. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/error.h"
#include "io/publish.h"
#include "itar/index.h"
#include "itar/taridx.h"

static tarn_status add_names(tarn__buf *out, const tarn__names *names, tarn_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        tarn__name name = tarn__names_get(names, i);
        if (i) TARN_TRY(tarn__buf_add(out, "\n", 1, err));
        TARN_TRY(tarn__buf_add(out, name.data, name.size, err));
    }
    return TARN_OK;
}

/* The header and both name blocks. */
static tarn_status compose_head(const tarn_index *index, tarn__buf *out, tarn_error *err)
{
    unsigned char h[TARIDX_HEADER_SIZE] = {0};
    TARN_TRY(tarn__buf_add(out, h, sizeof h, err));
    TARN_TRY(add_names(out, &index->fields, err));
    uint64_t crash_at = out->size;
    TARN_TRY(add_names(out, &index->crashes, err));
    memcpy(h, TARIDX_MAGIC, 8);
    tarn__put16(h + TARIDX_MAJOR, 1);
    tarn__put16(h + TARIDX_REC_SIZE, TARN__ROW_SIZE);
    tarn__put16(h + TARIDX_HDR_SIZE, TARIDX_HEADER_SIZE);
    tarn__put64(h + TARIDX_N_STEMS, index->n_stems);
    tarn__put64(h + TARIDX_N_ROWS, index->n_rows);
    tarn__put32(h + TARIDX_N_EXT, (uint32_t)index->fields.count);
    tarn__put32(h + TARIDX_N_CRASH, (uint32_t)index->crashes.count);
    tarn__put64(h + TARIDX_OFF_CRASH, crash_at);
    tarn__put64(h + TARIDX_OFF_ARR, out->size);
    h[TARIDX_FLAGS] = index->contiguous ? TARIDX_CONTIGUOUS : 0;
    memcpy(out->data, h, sizeof h);
    return TARN_OK;
}

static size_t chunk_size(const tarn_index *index, size_t chunk)
{
    uint64_t end =
        chunk + 1 < index->n_chunks ? index->chunks[chunk + 1].first : index->n_rows;
    return (size_t)(end - index->chunks[chunk].first) * TARN__ROW_SIZE;
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

/* CRCs of a part, page by page, into out; pages may begin in one piece and end in the
 * next. Carry a page over by keeping its CRC and how much of it was seen. */
typedef struct pager {
    uint32_t *out;
    uint32_t crc;
    size_t seen;
} pager;

static void add_to_pages(pager *p, const unsigned char *data, size_t len)
{
    enum { PAGE = 4096 };
    while (len) {
        size_t n = len < PAGE - p->seen ? len : PAGE - p->seen;
        p->crc = tarn__crc32c(p->crc, data, n);
        p->seen += n;
        data += n;
        len -= n;
        if (p->seen == PAGE) {
            *p->out++ = p->crc;
            p->crc = 0;
            p->seen = 0;
        }
    }
}

static void end_pages(pager *p)
{
    if (p->seen) *p->out++ = p->crc;
    p->crc = 0;
    p->seen = 0;
}

/* What the .tarsum says about the .taridx beside it and about its own parts. */
static tarn_status bind_sums(const tarn_index *index, const tarn__buf *head,
                             tarn_error *err)
{
    tarn__sums *s = index->sums;
    uint32_t *pages = malloc((tarn__sums_pages(s) + 1) * sizeof *pages);
    if (!pages) return tarn__fail_memory(err);
    pager p = {.out = pages};
    for (size_t i = 0; i < index->n_chunks; i++)
        add_to_pages(&p, index->chunks[i].rows, chunk_size(index, i));
    end_pages(&p);
    if (s->order) add_to_pages(&p, (const void *)s->order, 4 * s->n_rows);
    end_pages(&p);
    if (s->checksums) add_to_pages(&p, (const void *)s->checksums, 4 * s->n_rows);
    end_pages(&p);
    free(s->pages);
    s->pages = pages;
    s->index_size = head->size + index->n_rows * TARN__ROW_SIZE;
    s->index_head = tarn__crc32c(0, head->data, head->size);
    return TARN_OK;
}

/* Both files are written before the first is waited for. */
static tarn_status write_both(const tarn_index *index, tarn__publish *rows,
                              tarn__publish *sums, tarn_error *err)
{
    tarn__buf head;
    tarn__buf_init(&head, SIZE_MAX / 2);
    tarn_status status = compose_head(index, &head, err);
    if (status == TARN_OK) status = tarn__publish_write(rows, head.data, head.size, err);
    if (status == TARN_OK) status = write_rows(index, rows, err);
    if (status == TARN_OK && index->sums) {
        status = bind_sums(index, &head, err);
        if (status == TARN_OK) status = tarn__sums_write(index->sums, sums, err);
        tarn__publish_hurry(sums);
    }
    tarn__buf_reset(&head);
    return status;
}

tarn_status tarn_index_save(const tarn_index *index, const char *path, tarn_error *err)
{
    if (index->path)
        return tarn__fail_at(err, TARN_ERR_USAGE, index->path, TARN_NO_OFFSET,
                             "only an index that was built can be saved");
    tarn__publish rows = {.fd = -1}, sums = {.fd = -1};
    char *sums_path = tarn__sums_path(path);
    tarn_status status = sums_path ? TARN_OK : tarn__fail_memory(err);
    if (status == TARN_OK) status = tarn__publish_begin(&rows, path, err);
    if (status == TARN_OK && index->sums)
        status = tarn__publish_begin(&sums, sums_path, err);
    if (status == TARN_OK) status = write_both(index, &rows, &sums, err);
    if (status == TARN_OK) status = tarn__unpublish(sums_path, err);
    if (status == TARN_OK) status = tarn__publish_finish(&rows, err);
    if (status == TARN_OK && index->sums) status = tarn__publish_finish(&sums, err);
    tarn__publish_abandon(&rows);
    tarn__publish_abandon(&sums);
    free(sums_path);
    return status;
}
