/* Writes rows to the index file while other shards are still being scanned. Their memory
 * is reused for the next shard, and the disk works at the same time.
 *
 * In the file, rows come after the names of the fields, and later shards may add names.
 * Rows are written to their final position assuming that no names are added, which is
 * almost always right; otherwise save.c moves them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "io/publish.h"
#include "itar/scan.h"
#include "itar/taridx.h"

/* Smaller row arrays are not worth keeping. */
enum { MIN_SPARE = 1 << 14 };

/* Reserves space for the header and the names known so far. */
static void begin_rows(tarn__build *b)
{
    uint64_t size = TARIDX_HEADER_SIZE;
    for (size_t i = 0; i < b->index->fields.count; i++)
        size += tarn__names_get(&b->index->fields, i).size + (i > 0);
    b->stream.rows_at = b->stream.end = size;
}

static void keep_spare(tarn__stream *s, tarn__scan *scan)
{
    size_t max = sizeof s->spares / sizeof s->spares[0];
    if (scan->row_capacity >= MIN_SPARE && s->n_spares < max)
        s->spares[s->n_spares++] = (tarn__spare){scan->rows, scan->row_capacity};
    else
        free(scan->rows);
    scan->rows = NULL;
    scan->row_capacity = 0;
}

/* The caller holds the lock. */
static tarn_status place_shard(tarn__build *b, tarn__scan *scan, tarn_error *err)
{
    TARN_TRY(tarn__merge_fields(b->index, scan, err));
    if (b->stream.shards == 0) begin_rows(b);
    scan->rows_at = b->stream.end;
    b->stream.end += scan->n_rows * TARN__ROW_SIZE;
    return TARN_OK;
}

static tarn_status write_shard(tarn__build *b, tarn__scan *scan, tarn_error *err)
{
    TARN_TRY(tarn__publish_write_at(b->stream.file, scan->rows,
                                    scan->n_rows * TARN__ROW_SIZE, scan->rows_at, err));
    tarn__publish_hurry(b->stream.file);
    pthread_mutex_lock(&b->lock);
    keep_spare(&b->stream, scan);
    pthread_mutex_unlock(&b->lock);
    return TARN_OK;
}

/* Fields get their numbers, and rows their place, in the order of the shards. Then the
 * rows are written without the lock, so that other threads continue to scan. */
tarn_status tarn__stream_shard(tarn__build *b, size_t number, tarn_error *err)
{
    if (!b->stream.file) return TARN_OK;
    tarn_status status = TARN_OK;
    pthread_mutex_lock(&b->lock);
    size_t first = b->stream.shards, end = first;
    b->scans[number].done = true;
    while (status == TARN_OK && end < b->count && b->scans[end].done) {
        status = place_shard(b, &b->scans[end++], err);
        b->stream.shards = end;
    }
    pthread_mutex_unlock(&b->lock);
    for (size_t i = first; status == TARN_OK && i < end; i++)
        status = write_shard(b, &b->scans[i], err);
    return status;
}

bool tarn__stream_spare(tarn__build *b, size_t capacity, tarn__spare *out)
{
    tarn__stream *s = &b->stream;
    bool found = false;
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; !found && i < s->n_spares; i++)
        if (s->spares[i].capacity >= capacity) {
            *out = s->spares[i];
            s->spares[i] = s->spares[--s->n_spares];
            found = true;
        }
    pthread_mutex_unlock(&b->lock);
    return found;
}

tarn_status tarn__stream_attach(tarn__build *b, tarn_error *err)
{
    tarn__stream *s = &b->stream;
    if (!s->file) return TARN_OK;
    if (s->shards == 0) begin_rows(b);
    if (ftruncate(s->file->fd, (off_t)s->end) != 0)
        return tarn__fail_errno(err, s->file->temporary, errno, "cannot set the size");
    s->file->written = s->map_size = s->end;
    /* Shared and writable: collision numbers are set in place. */
    void *map = mmap(NULL, (size_t)s->map_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                     s->file->fd, 0);
    if (map == MAP_FAILED)
        return tarn__fail_errno(err, s->file->temporary, errno, "cannot map");
    s->map = map;
    return TARN_OK;
}

void tarn__stream_reset(tarn__stream *s)
{
    while (s->n_spares > 0)
        free(s->spares[--s->n_spares].rows);
    if (s->map) munmap(s->map, (size_t)s->map_size);
    s->map = NULL;
}
