/* Sorts runs with bounded memory. Rows of an index have at most 32 bits, so there are few
 * pieces, and one merge of all of them is enough. */
#include "itar/extsort.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/file.h"

/* A sorted part of the file, with a window of it in memory. */
typedef struct tarn__extsort_piece {
    uint64_t next, end;      /* in the file, in runs */
    size_t first, at, count; /* of its window in the buffer */
} piece;

tarn_status tarn__extsort_init(tarn__extsort *s, const char *path, size_t memory,
                               unsigned threads, tarn_error *err)
{
    *s = (tarn__extsort){.path = path, .threads = threads, .file = {.fd = -1}};
    s->capacity = memory < sizeof *s->buffer ? 1 : memory / sizeof *s->buffer;
    s->buffer = malloc(s->capacity * sizeof *s->buffer);
    return s->buffer ? TARN_OK : tarn__fail_memory(err);
}

void tarn__extsort_reset(tarn__extsort *s)
{
    tarn__publish_abandon(&s->file);
    free(s->buffer);
    free(s->pieces);
    free(s->heap);
    *s = (tarn__extsort){.file = {.fd = -1}};
}

static tarn_status write_piece(tarn__extsort *s, tarn_error *err)
{
    if (s->file.fd < 0) TARN_TRY(tarn__publish_begin(&s->file, s->path, err));
    TARN_TRY(
        tarn__grow(&s->pieces, sizeof *s->pieces, s->n_pieces, &s->piece_capacity, err));
    uint64_t from = s->file.written / sizeof *s->buffer;
    tarn__runs_sort(s->buffer, s->count, s->threads);
    TARN_TRY(tarn__publish_write(&s->file, s->buffer, s->count * sizeof *s->buffer, err));
    s->pieces[s->n_pieces++] = (piece){.next = from, .end = from + s->count};
    s->count = 0;
    return TARN_OK;
}

tarn_status tarn__extsort_add(tarn__extsort *s, const tarn__run *run, tarn_error *err)
{
    if (s->count == s->capacity) TARN_TRY(write_piece(s, err));
    s->buffer[s->count++] = *run;
    return TARN_OK;
}

/* --- Merging ------------------------------------------------------------------------ */

static tarn_status fill(tarn__extsort *s, piece *p, size_t window, tarn_error *err)
{
    uint64_t left = p->end - p->next;
    p->count = left < window ? (size_t)left : window;
    p->at = 0;
    TARN_TRY(tarn__read_exact(s->file.fd, s->file.temporary, s->buffer + p->first,
                              p->count * sizeof *s->buffer, p->next * sizeof *s->buffer,
                              err));
    p->next += p->count;
    return TARN_OK;
}

static const tarn__run *head_of(const tarn__extsort *s, uint32_t number)
{
    const piece *p = &s->pieces[number];
    return &s->buffer[p->first + p->at];
}

static bool is_less(const tarn__extsort *s, uint32_t a, uint32_t b)
{
    const tarn__run *x = head_of(s, a), *y = head_of(s, b);
    return x->hash != y->hash ? x->hash < y->hash : x->row < y->row;
}

static void sink(tarn__extsort *s, size_t at)
{
    uint32_t moved = s->heap[at];
    for (size_t child; (child = 2 * at + 1) < s->n_heap; at = child) {
        if (child + 1 < s->n_heap && is_less(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (!is_less(s, s->heap[child], moved)) break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = moved;
}

static size_t window_of(const tarn__extsort *s)
{
    return s->capacity / s->n_pieces;
}

tarn_status tarn__extsort_begin(tarn__extsort *s, tarn_error *err)
{
    s->at = 0;
    if (!s->n_pieces) {
        tarn__runs_sort(s->buffer, s->count, s->threads);
        return TARN_OK;
    }
    if (s->count) TARN_TRY(write_piece(s, err));
    if (!window_of(s))
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "%zu bytes of memory are too little for sorting these keys; "
                          "allow more",
                          s->capacity * sizeof *s->buffer);
    s->heap = malloc(s->n_pieces * sizeof *s->heap);
    if (!s->heap) return tarn__fail_memory(err);
    for (size_t i = 0; i < s->n_pieces; i++) {
        s->pieces[i].first = i * window_of(s);
        TARN_TRY(fill(s, &s->pieces[i], window_of(s), err));
        s->heap[s->n_heap++] = (uint32_t)i;
    }
    for (size_t i = s->n_heap / 2; i-- > 0;)
        sink(s, i);
    return TARN_OK;
}

tarn_status tarn__extsort_next(tarn__extsort *s, tarn__run *out, tarn_error *err)
{
    if (!s->n_pieces) {
        if (s->at == s->count) return TARN_END;
        *out = s->buffer[s->at++];
        return TARN_OK;
    }
    if (!s->n_heap) return TARN_END;
    piece *p = &s->pieces[s->heap[0]];
    *out = s->buffer[p->first + p->at++];
    if (p->at == p->count && p->next < p->end) TARN_TRY(fill(s, p, window_of(s), err));
    if (p->at == p->count) s->heap[0] = s->heap[--s->n_heap];
    if (s->n_heap) sink(s, 0);
    return TARN_OK;
}
