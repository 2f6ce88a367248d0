/* Ranges of remote files in memory, and reads that are served from them. */
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
    return tarn__remote_compare(x->remote, x->from, y->remote, y->from);
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

/* Room that is left over is for later contents, which are rarely of the same size. */
static tarn_status reserve_memory(tarn__stock *s, uint64_t size, tarn_error *err)
{
    if (size <= s->size) return TARN_OK;
    uint64_t room = size + size / 8;
    free(s->memory);
    s->size = 0;
    s->memory = malloc((size_t)room);
    if (!s->memory) return tarn__fail_memory(err);
    s->size = (size_t)room;
    return TARN_OK;
}

/* Ranges from first on that are one run; *out_size is the memory of all of it. */
static size_t run_at(const tarn__stock *s, size_t first, uint64_t *out_size)
{
    const tarn__stocked *r = &s->ranges[first];
    tarn__remote_run run = tarn__remote_run_of(r->from, r->to);
    size_t end = first + 1;
    while (end < s->count && s->ranges[end].remote == r->remote &&
           tarn__remote_run_add(&run, s->ranges[end].from, s->ranges[end].to))
        end++;
    *out_size = tarn__remote_room_to(r->remote, run.to) -
                tarn__remote_room_from(r->remote, run.from);
    return end;
}

/* Ranges of a run are placed at their distances, so that one request fills all. */
static tarn_status make_room(tarn__stock *s, tarn_error *err)
{
    uint64_t total = 0, size, from = 0;
    for (size_t i = 0; i < s->count;) {
        i = run_at(s, i, &size);
        if (!tarn__add(total, size, &total) || total > SIZE_MAX / 4)
            return tarn__fail(err, TARN_ERR_LIMIT, "the batch is too large for memory");
    }
    TARN_TRY(reserve_memory(s, total, err));
    unsigned char *at = s->memory;
    for (size_t i = 0, end; i < s->count; at += size) {
        end = run_at(s, i, &size);
        from = tarn__remote_room_from(s->ranges[i].remote, s->ranges[i].from);
        for (; i < end; i++)
            s->ranges[i].data = at + (s->ranges[i].from - from);
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
        pieces[i] = (tarn__remote_piece){r->remote, r->from, (size_t)(r->to - r->from),
                                         r->data, true};
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
    bool counts = tarn__remote_current()->tally != NULL;
    if (status == TARN_OK && !counts) status = make_room(s, err);
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

bool tarn__stock_lend(const tarn__remote *remote, uint64_t offset, size_t size,
                      tarn_view *out)
{
    const tarn__remote_task *task = tarn__remote_current();
    if (!task->lends) return false;
    const tarn__stocked *r = tarn__stock_find(task->stock, remote, offset, size);
    if (!r || r->error || atomic_load(&r->doubted)) return false;
    *out = (tarn_view){r->data + (offset - r->from), size, NULL};
    return true;
}

/* --- Reading ----------------------------------------------------------------------- */

/* Copies a piece from the stock. *out_left is set if it is not there. */
static tarn_status take_staged(const tarn__remote_piece *p, bool *out_left,
                               tarn_error *err)
{
    tarn__stock *stock = tarn__remote_current()->stock;
    tarn__stocked *stocked = tarn__stock_find(stock, p->remote, p->offset, p->size);
    *out_left = !stocked || atomic_load(&stocked->doubted);
    if (*out_left) return TARN_OK;
    if (stocked->error) {
        if (err) *err = *stocked->error;
        return stocked->error->code;
    }
    if (p->size) memcpy(p->to, stocked->data + (p->offset - stocked->from), p->size);
    return TARN_OK;
}

static tarn_status read_left(const tarn__remote_piece *pieces, size_t count,
                             tarn_error *err)
{
    tarn_error **errors = calloc(count + 1, sizeof *errors);
    if (!errors) return tarn__fail_memory(err);
    tarn_status status = tarn__remote_read_each(pieces, count, errors, err);
    for (size_t i = 0; i < count; i++) {
        if (errors[i] && status == TARN_OK) {
            if (err) *err = *errors[i];
            status = errors[i]->code;
        }
        free(errors[i]);
    }
    free(errors);
    return status;
}

tarn_status tarn__remote_read(const tarn__remote_piece *pieces, size_t count,
                              tarn_error *err)
{
    size_t n = 0;
    tarn_status status = TARN_OK;
    tarn__remote_piece few[2], *left = few;
    if (count > 2 && !(left = malloc(count * sizeof *left)))
        return tarn__fail_memory(err);
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        bool more;
        status = take_staged(&pieces[i], &more, err);
        if (more) left[n++] = pieces[i];
    }
    if (status == TARN_OK && n) status = read_left(left, n, err);
    if (left != few) free(left);
    return status;
}
