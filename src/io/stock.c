/* Ranges of remote files in memory. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/error.h"
#include "io/remote_file.h"

/* Pieces with a smaller gap share a range: members of a sample are separated by headers
 * and padding. */
enum { JOINED = 1024 };

static int by_place(const void *a, const void *b)
{
    const tarn__stocked *x = a, *y = b;
    if (x->remote != y->remote)
        return (uintptr_t)x->remote < (uintptr_t)y->remote ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

void tarn__stock_empty(tarn__stock *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->ranges[i].error);
    s->count = 0;
}

void tarn__stock_reset(tarn__stock *s)
{
    tarn__stock_empty(s);
    free(s->ranges);
    free(s->memory);
    *s = (tarn__stock){0};
}

/* Lists the pieces as ranges: sorted, and joined where they nearly touch. */
static tarn_status list_ranges(tarn__stock *s, const tarn__remote_piece *pieces,
                               size_t count, tarn_error *err)
{
    if (s->room < count) {
        free(s->ranges);
        s->room = 0;
        s->ranges = malloc(count * sizeof *s->ranges);
        if (!s->ranges) return tarn__fail_memory(err);
        s->room = count;
    }
    for (size_t i = 0; i < count; i++)
        s->ranges[i] = (tarn__stocked){.remote = pieces[i].remote,
                                       .from = pieces[i].offset,
                                       .to = pieces[i].offset + pieces[i].size};
    qsort(s->ranges, count, sizeof *s->ranges, by_place);
    for (size_t i = 0; i < count; i++) {
        tarn__stocked *last = s->count ? &s->ranges[s->count - 1] : NULL,
                      *r = &s->ranges[i];
        if (last && last->remote == r->remote && r->from <= last->to + JOINED) {
            if (r->to > last->to) last->to = r->to;
        } else {
            s->ranges[s->count++] = *r;
        }
    }
    return TARN_OK;
}

static tarn_status make_room(tarn__stock *s, tarn_error *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < s->count; i++)
        if (!tarn__add(total, s->ranges[i].to - s->ranges[i].from, &total) ||
            total > SIZE_MAX / 2)
            return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    if (s->size < total) {
        free(s->memory);
        s->size = 0;
        s->memory = malloc((size_t)total);
        if (!s->memory) return tarn__fail_memory(err);
        s->size = (size_t)total;
    }
    unsigned char *at = s->memory;
    for (size_t i = 0; i < s->count; i++) {
        s->ranges[i].data = at;
        at += s->ranges[i].to - s->ranges[i].from;
    }
    return TARN_OK;
}

static tarn_status fetch_ranges(tarn__stock *s, tarn_error *err)
{
    tarn__remote_piece *pieces = malloc((s->count + 1) * sizeof *pieces);
    tarn_error **errors = calloc(s->count + 1, sizeof *errors);
    tarn_status status = pieces && errors ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; pieces && i < s->count; i++) {
        const tarn__stocked *r = &s->ranges[i];
        pieces[i] =
            (tarn__remote_piece){r->remote, r->from, (size_t)(r->to - r->from), r->data};
    }
    if (status == TARN_OK) status = tarn__remote_read_each(pieces, s->count, errors, err);
    for (size_t i = 0; errors && i < s->count; i++)
        s->ranges[i].error = errors[i];
    free(pieces);
    free(errors);
    return status;
}

tarn_status tarn__stock_fill(tarn__stock *s, const tarn__remote_piece *pieces,
                             size_t count, tarn_error *err)
{
    tarn__stock_empty(s);
    if (count == 0) return TARN_OK;
    tarn_status status = list_ranges(s, pieces, count, err);
    if (status == TARN_OK) status = make_room(s, err);
    if (status == TARN_OK) status = fetch_ranges(s, err);
    if (status != TARN_OK) tarn__stock_empty(s);
    return status;
}

tarn__stocked *tarn__stock_find(const tarn__stock *s, const tarn__remote *remote,
                                uint64_t offset, uint64_t size)
{
    if (!s || !s->count) return NULL;
    size_t low = 0, high = s->count;
    tarn__stocked wanted = {.remote = (tarn__remote *)(uintptr_t)remote, .from = offset};
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (by_place(&s->ranges[middle], &wanted) <= 0)
            low = middle;
        else
            high = middle;
    }
    tarn__stocked *r = &s->ranges[low];
    return r->remote == remote && r->from <= offset && offset <= r->to &&
                   size <= r->to - offset
               ? r
               : NULL;
}

bool tarn__stock_has(const tarn__stock *s, const tarn__remote_piece *piece)
{
    const tarn__stocked *r =
        tarn__stock_find(s, piece->remote, piece->offset, piece->size);
    return r && !r->error && !atomic_load(&r->doubted);
}
