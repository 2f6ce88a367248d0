/* Fetches what samples need of remote files in one go, before they are read in many small
 * steps: keys, headers and fields. A failure of some ranges is not reported here; reading
 * them fails in the same way. */
#include <stdlib.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/order.h"
#include "io/remote.h"
#include "io/tally.h"

/* Bytes that tarn_dataset_prefetch fetches at most. */
#define MOST_PREFETCHED (UINT64_C(64) << 20)

struct tarn__prefetched {
    atomic_uint users;
    tarn__stock stock;
};

bool tarn__may_be_away(const tarn__storage *source)
{
    return source->remote &&
           (source->kind->resolve || tarn__files_are_away(&source->files));
}

/* --- Pieces ------------------------------------------------------------------------ */

/* The bytes of an item in a remote file; false if it is local, or cannot be located. Of
 * an item without a field only the key is needed: of a member its header. */
static bool find_piece(tarn__storage *source, tarn__item *item, tarn__remote_piece *out)
{
    if (tarn__leaf(&source, &item->sample, &item->field, NULL) != TARN_OK) return false;
    bool is_key = item->field == TARN__FIELD_NONE;
    tarn__tally *tally = tarn__remote_current()->tally;
    if ((!tally && !tarn__files_are_away(&source->files)) ||
        (is_key && !source->kind->locates_keys) ||
        source->kind->locate(source->state, item, 1, NULL) != TARN_OK)
        return false;
    const tarn__spot *spot = &item->spot;
    if (spot->offset == TARN_NO_OFFSET || spot->size > SIZE_MAX / 2) return false;
    size_t size = spot->head + (is_key && spot->head ? 0 : (size_t)spot->size);
    *out = (tarn__remote_piece){
        .remote = tally ? tarn__tally_remote(tally, &source->files, spot->file)
                        : tarn__files_remote(&source->files, spot->file),
        .offset = spot->offset - spot->head,
        .size = size};
    return out->remote && size;
}

static size_t find_pieces(tarn__storage *source, tarn__item *items, size_t count,
                          uint64_t most, tarn__remote_piece *out)
{
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (!find_piece(source, &items[i], &out[n])) continue;
        bytes += out[n].size;
        if (n && bytes > most) break;
        n++;
    }
    return n;
}

static tarn_status fill_stock(tarn__storage *source, tarn__item *items, size_t count,
                              uint64_t most, tarn__stock *out, tarn_error *err)
{
    tarn__remote_piece *pieces = malloc((count + 1) * sizeof *pieces);
    if (!pieces) return tarn__fail_memory(err);
    size_t n = find_pieces(source, items, count, most, pieces);
    tarn_status status = tarn__stock_fill(out, pieces, n, err);
    free(pieces);
    return status;
}

tarn_status tarn__stock_items(tarn__storage *source, tarn__item *items, size_t count,
                              tarn__stock *out, tarn_error *err)
{
    return fill_stock(source, items, count, UINT64_MAX, out, err);
}

/* --- Samples ----------------------------------------------------------------------- */

size_t tarn__list_items(tarn_dataset *d, const uint64_t *numbers, size_t count,
                        const uint32_t *fields, size_t n_fields, bool keys,
                        tarn__item *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] >= d->count) continue;
        uint64_t number = numbers[i];
        if (d->order) tarn__order_map(d->order, &number, 1);
        uint64_t row = tarn__dataset_at(tarn_dataset_unordered(d), number);
        if (keys) out[n++] = (tarn__item){.sample = row, .field = TARN__FIELD_NONE};
        for (size_t f = 0; f < n_fields; f++) {
            uint32_t field = fields ? fields[f] : (uint32_t)f;
            if (field >= d->n_fields || tarn__is_pseudo(d->ids[field]) ||
                (!fields && d->first[field] != field))
                continue;
            out[n] = (tarn__item){.sample = row, .field = d->ids[field]};
            n += tarn__field_of_row(d, row, &out[n].field, NULL) == TARN_OK;
        }
    }
    return n;
}

static tarn_status stock_samples(tarn_dataset *d, const uint64_t *numbers, size_t count,
                                 const uint32_t *fields, size_t n_fields, bool keys,
                                 uint64_t most, tarn__stock *out, tarn_error *err)
{
    tarn__item *items = malloc(count * (n_fields + 1) * sizeof *items);
    if (!items) return tarn__fail_memory(err);
    size_t n = tarn__list_items(d, numbers, count, fields, n_fields, keys, items);
    tarn_status status = fill_stock(d->source, items, n, most, out, err);
    free(items);
    return status;
}

/* --- What was prefetched ----------------------------------------------------------- */

void tarn__prefetched_release(tarn__prefetched *p)
{
    if (!p || atomic_fetch_sub(&p->users, 1) != 1) return;
    tarn__stock_reset(&p->stock);
    free(p);
}

static tarn__prefetched *use_prefetched(tarn__storage *source)
{
    pthread_mutex_lock(&source->lock.mutex);
    tarn__prefetched *p = source->prefetched;
    if (p) atomic_fetch_add(&p->users, 1);
    pthread_mutex_unlock(&source->lock.mutex);
    return p;
}

static void replace_prefetched(tarn__storage *source, tarn__prefetched *p)
{
    pthread_mutex_lock(&source->lock.mutex);
    tarn__prefetched *before = source->prefetched;
    source->prefetched = p;
    pthread_mutex_unlock(&source->lock.mutex);
    tarn__prefetched_release(before);
}

tarn_status tarn__prefetch_remote(tarn_dataset *d, const uint64_t *numbers, size_t count,
                                  const uint32_t *fields, size_t n_fields,
                                  tarn_error *err)
{
    tarn__prefetched *p = calloc(1, sizeof *p);
    if (!p) return tarn__fail_memory(err);
    atomic_init(&p->users, 1);
    tarn_status status = stock_samples(d, numbers, count, fields, n_fields, true,
                                       MOST_PREFETCHED, &p->stock, err);
    if (status == TARN_OK)
        replace_prefetched(d->source, p);
    else
        tarn__prefetched_release(p);
    return status;
}

/* --- One sample -------------------------------------------------------------------- */

static bool has_all(const tarn__prefetched *p, const tarn__remote_piece *pieces,
                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!p || !tarn__stock_has(&p->stock, &pieces[i])) return false;
    return true;
}

/* Takes the pieces from what was prefetched, or fetches them. */
static tarn_status get_pieces(tarn__supply *s, tarn_dataset *d,
                              const tarn__remote_piece *pieces, size_t count,
                              tarn_error *err)
{
    s->shared = use_prefetched(d->source);
    if (has_all(s->shared, pieces, count)) return TARN_OK;
    tarn__prefetched_release(s->shared);
    s->shared = NULL;
    return tarn__stock_fill(&s->own, pieces, count, err);
}

static tarn_status list_and_get(tarn__supply *s, tarn_dataset *d, uint64_t number,
                                bool fields, bool key, tarn_error *err)
{
    size_t n_fields = fields ? d->n_fields : 0, room = n_fields + 1;
    tarn__item *items = malloc(room * sizeof *items);
    tarn__remote_piece *pieces = malloc(room * sizeof *pieces);
    tarn_status status = items && pieces ? TARN_OK : tarn__fail_memory(err);
    size_t n = 0;
    if (status == TARN_OK) {
        n = tarn__list_items(d, &number, 1, NULL, n_fields, key, items);
        n = find_pieces(d->source, items, n, UINT64_MAX, pieces);
        if (n) status = get_pieces(s, d, pieces, n, err);
    }
    free(items);
    free(pieces);
    return status;
}

/* Lets this thread use what was fetched with this status. */
static tarn_status begin(tarn__supply *s, tarn_status status)
{
    tarn__stock *stock = s->shared ? &s->shared->stock : &s->own;
    s->before = tarn__remote_begin((tarn__remote_task){.stock = stock});
    if (status != TARN_OK) tarn__supply_end(s);
    return status;
}

tarn_status tarn__supply_begin(tarn__supply *s, tarn_dataset *d, uint64_t number,
                               bool fields, bool key, tarn_error *err)
{
    tarn_status status = TARN_OK;
    *s = (tarn__supply){0};
    if (tarn__may_be_away(d->source))
        status = list_and_get(s, d, number, fields, key, err);
    return begin(s, status);
}

tarn_status tarn__supply_keys(tarn__supply *s, tarn_dataset *d, const uint64_t *rows,
                              size_t count, tarn_error *err)
{
    *s = (tarn__supply){0};
    if (!tarn__may_be_away(d->source)) return begin(s, TARN_OK);
    tarn__item *items = malloc(count * sizeof *items);
    if (!items) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++)
        items[i] = (tarn__item){.sample = rows[i], .field = TARN__FIELD_NONE};
    tarn_status status = tarn__stock_items(d->source, items, count, &s->own, err);
    free(items);
    return begin(s, status);
}

tarn_status tarn__supply_samples(tarn__supply *s, tarn_dataset *d, uint64_t from,
                                 size_t count, tarn_error *err)
{
    *s = (tarn__supply){0};
    if (!tarn__may_be_away(d->source)) return begin(s, TARN_OK);
    uint64_t *numbers = malloc((count + 1) * sizeof *numbers);
    if (!numbers) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++)
        numbers[i] = from + i;
    tarn_status status = stock_samples(d, numbers, count, NULL, d->n_fields, true,
                                       MOST_PREFETCHED, &s->own, err);
    free(numbers);
    return begin(s, status);
}

void tarn__supply_prefetched(tarn__supply *s, tarn_dataset *d)
{
    *s = (tarn__supply){.shared = use_prefetched(d->source)};
    (void)begin(s, TARN_OK);
}

bool tarn__has_supply(void)
{
    return tarn__remote_current()->stock != NULL;
}

void tarn__supply_end(tarn__supply *s)
{
    tarn__remote_begin(s->before);
    tarn__prefetched_release(s->shared);
    tarn__stock_reset(&s->own);
}
