/* Keys of samples, and samples by their keys. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/runs.h"
#include "base/sort.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "dataset/key_index.h"
#include "dataset/order.h"

static tarn_status key_of_row(tarn__storage *s, uint64_t row, tarn_text *out,
                              tarn_error *err)
{
    uint32_t none = TARN__FIELD_NONE;
    TARN_TRY(tarn__leaf(&s, &row, &none, err));
    return s->kind->key(s->state, row, out, err);
}

tarn_status tarn_dataset_key(tarn_dataset *d, uint64_t sample, tarn_text *out,
                             tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    TARN_TRY(tarn__resolve(&d, &sample, err));
    uint64_t row = tarn__dataset_at(d, sample);
    if (!d->source->remote || tarn__has_supply())
        return key_of_row(d->source, row, out, err);
    tarn__supply supply;
    TARN_TRY(tarn__supply_begin(&supply, d, sample, false, true, err));
    tarn_status status = key_of_row(d->source, row, out, err);
    tarn__supply_end(&supply);
    return status;
}

static tarn_status keys_one_by_one(tarn_dataset *d, const uint64_t *rows, size_t count,
                                   tarn__buf *out, uint64_t *offsets, size_t *out_done,
                                   tarn_error *err)
{
    tarn_text key = {0};
    tarn_status status = TARN_OK;
    for (*out_done = 0; *out_done < count; ++*out_done) {
        offsets[*out_done] = out->size;
        status = key_of_row(d->source, rows[*out_done], &key, err);
        if (status == TARN_OK) status = tarn__buf_add(out, key.data, key.size + 1, err);
        if (status != TARN_OK) break;
    }
    tarn_text_reset(&key);
    return status;
}

static tarn_status keys_of_rows(tarn_dataset *d, const uint64_t *rows, size_t count,
                                tarn__buf *out, uint64_t *offsets, size_t *out_done,
                                tarn_error *err)
{
    if (!d->source->kind->keys)
        return keys_one_by_one(d, rows, count, out, offsets, out_done, err);
    return d->source->kind->keys(d->source->state, rows, count, out, offsets, out_done,
                                 err);
}

/* Keys of remote files, of many samples at once. */
static tarn_status fetch_keys(tarn_dataset *d, const uint64_t *rows, size_t count,
                              tarn__buf *out, uint64_t *offsets, size_t *out_done,
                              tarn_error *err)
{
    enum { AT_ONCE = 1024 };
    tarn_status status = TARN_OK;
    size_t done = 0;
    for (*out_done = 0; *out_done < count && status == TARN_OK; *out_done += done) {
        tarn__supply supply;
        size_t i = *out_done, n = count - i < AT_ONCE ? count - i : AT_ONCE;
        done = 0;
        status = tarn__supply_keys(&supply, d, rows + i, n, err);
        if (status != TARN_OK) break;
        status = keys_of_rows(d, rows + i, n, out, offsets + i, &done, err);
        tarn__supply_end(&supply);
    }
    return status;
}

tarn_status tarn__dataset_keys(tarn_dataset *d, const uint64_t *numbers, size_t count,
                               uint64_t *rows, tarn__buf *out, uint64_t *offsets,
                               size_t *out_done, tarn_error *err)
{
    memcpy(rows, numbers, count * sizeof *rows);
    tarn__chain_map(&d->chain, rows, count);
    if (d->source->remote && !tarn__has_supply())
        return fetch_keys(d, rows, count, out, offsets, out_done, err);
    return keys_of_rows(d, rows, count, out, offsets, out_done, err);
}

/* --- Samples by key ---------------------------------------------------------------- */

/* The first row with a key, from row from on. *out_found is false if there is none. */
static tarn_status find_row(const tarn__storage *s, const char *key, uint64_t from,
                            uint64_t *out, bool *out_found, tarn_error *err)
{
    tarn_error why;
    tarn_status status = s->kind->find(s->state, key, from, out, &why);
    *out_found = status == TARN_OK;
    if (status == TARN_OK || status == TARN_ERR_NO_SAMPLE) return TARN_OK;
    if (err) *err = why;
    return status;
}

static tarn_status add_row(tarn__rows *r, uint64_t row, tarn_error *err)
{
    TARN_TRY(tarn__grow(&r->items, sizeof *r->items, r->count, &r->capacity, err));
    r->items[r->count++] = row;
    return TARN_OK;
}

tarn_status tarn__dataset_rows_of(tarn_dataset *d, const char *key, tarn__rows *out,
                                  tarn_error *err)
{
    const tarn__storage *s = d->source;
    uint64_t first = d->chain.offset, end = first + s->samples, row = 0;
    bool found;
    out->count = 0;
    TARN_TRY(s->kind->find(s->state, key, first, &row, err));
    for (;;) {
        TARN_TRY(add_row(out, row, err));
        if (!s->repeats || row + 1 >= end) return TARN_OK;
        TARN_TRY(find_row(s, key, row + 1, &row, &found, err));
        if (!found || row >= end) return TARN_OK;
    }
}

static tarn_status fail_unselected(const tarn_dataset *d, const char *key,
                                   tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, d->source->path, TARN_NO_OFFSET,
                         "sample %s is in the file, but was not selected",
                         TARN__SHOW(key, strlen(key)));
}

/* If row numbers ascend, rows before that of position from need not be searched. */
static tarn_status find_ascending(tarn_dataset *d, const char *key, uint64_t from,
                                  uint64_t *out, tarn_error *err)
{
    const tarn__storage *s = d->source;
    uint64_t first = d->chain.offset, end = first + s->samples, row = end;
    if (from < d->count) row = tarn__dataset_at(d, from);
    for (bool found = true; found && row < end; row++) {
        TARN_TRY(find_row(s, key, row, &row, &found, err));
        if (!found || row >= end) break;
        if (tarn__chain_find(&d->chain, d->count, row, from, out)) return TARN_OK;
        if (!s->repeats) break;
    }
    /* Search the whole source for the message: missing, or not selected. */
    TARN_TRY(s->kind->find(s->state, key, first, &row, err));
    return fail_unselected(d, key, err);
}

static bool has_row(const tarn__rows *r, uint64_t row)
{
    return bsearch(&row, r->items, r->count, sizeof row, tarn__by_u64) != NULL;
}

uint64_t tarn__dataset_numbers(const tarn_dataset *d, uint64_t from,
                               uint64_t at[TARN__PIECE])
{
    uint64_t n = d->count - from < TARN__PIECE ? d->count - from : TARN__PIECE;
    for (uint64_t i = 0; i < n; i++)
        at[i] = from + i;
    if (d->order) tarn__order_map(d->order, at, (size_t)n);
    return n;
}

/* Maps positions from from on to rows, at most TARN__PIECE. Returns their number. */
static uint64_t map_piece(const tarn_dataset *d, uint64_t from, uint64_t at[TARN__PIECE])
{
    uint64_t n = tarn__dataset_numbers(d, from, at);
    tarn__chain_map(d->order ? &d->base->chain : &d->chain, at, (size_t)n);
    return n;
}

/* The same if the order has an inverse and rows ascend below it: nothing is searched. */
static uint64_t computed_position(const tarn_dataset *d, const tarn__rows *r,
                                  uint64_t from)
{
    uint64_t number, best = d->count;
    for (size_t i = 0; i < r->count; i++) {
        if (!tarn__chain_find(&d->base->chain, d->base->count, r->items[i], 0, &number))
            continue;
        uint64_t at = tarn__order_find_own(d->order, number, from);
        if (at < best) best = at;
    }
    return best;
}

/* The first position of one of the rows, from position from on; d->count if none. */
static uint64_t position_of(const tarn_dataset *d, const tarn__rows *r, uint64_t from)
{
    uint64_t at[TARN__PIECE];
    if (d->order && tarn__order_has_inverse(d->order) &&
        tarn__chain_ascends(&d->base->chain))
        return computed_position(d, r, from);
    for (uint64_t n; from < d->count; from += n) {
        n = map_piece(d, from, at);
        for (uint64_t i = 0; i < n; i++)
            if (has_row(r, at[i])) return from + i;
    }
    return d->count;
}

tarn_status tarn__dataset_find_from(tarn_dataset *d, const char *key, uint64_t from,
                                    uint64_t *out, tarn_error *err)
{
    tarn_dataset *base = tarn_dataset_unordered(d);
    tarn__rows r = {0};
    if (base == d && tarn__chain_ascends(&d->chain))
        return find_ascending(d, key, from, out, err);
    tarn_status status = tarn__dataset_rows_of(base, key, &r, err);
    if (status == TARN_OK) *out = position_of(d, &r, from);
    free(r.items);
    if (status != TARN_OK || *out < d->count) return status;
    return fail_unselected(d, key, err);
}

tarn_status tarn__dataset_places(tarn_dataset *d, tarn__run **out, tarn_error *err)
{
    uint64_t at[TARN__PIECE];
    if (d->count > TARN_MAX_KEYED)
        return tarn__fail(
            err, TARN_ERR_LIMIT, "cannot look up keys in %llu samples (limit %llu)",
            (unsigned long long)d->count, (unsigned long long)TARN_MAX_KEYED);
    tarn__run *places = *out = tarn__big_alloc((size_t)(d->count + 1) * sizeof *places);
    if (!places) return tarn__fail_memory(err);
    for (uint64_t from = 0, n; from < d->count; from += n) {
        n = map_piece(d, from, at);
        for (uint64_t i = 0; i < n; i++)
            places[from + i] = (tarn__run){at[i], (uint32_t)(from + i), 0};
    }
    tarn__runs_sort(places, (size_t)d->count, 1);
    return TARN_OK;
}

/* The first position of a key, looked up in the table of all places. */
static tarn_status find_place(tarn_dataset *d, const tarn__run *places, const char *key,
                              uint64_t *out, tarn_error *err)
{
    tarn__rows r = {0};
    tarn_status status = tarn__dataset_rows_of(tarn_dataset_unordered(d), key, &r, err);
    *out = TARN_NO_SAMPLE;
    for (size_t i = 0; status == TARN_OK && i < r.count; i++) {
        uint64_t at = tarn__runs_find(places, d->count, r.items[i], 0);
        if (at < d->count && places[at].hash == r.items[i] && places[at].row < *out)
            *out = places[at].row;
    }
    free(r.items);
    if (status != TARN_OK || *out != TARN_NO_SAMPLE) return status;
    return fail_unselected(d, key, err);
}

tarn_status tarn_dataset_find(tarn_dataset *d, const char *const *keys, size_t count,
                              uint64_t *out, size_t *out_missing, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "keys", keys || !count);
    TARN__NEED(err, "out", out || !count);
    enum { FEW = 4 }; /* up to this many keys, one scan for each is cheaper */
    tarn__run *places = NULL;
    tarn_status status = TARN_OK;
    if (count > FEW && (d->order || !tarn__chain_ascends(&d->chain)))
        TARN_TRY(tarn__dataset_places(d, &places, err));
    if (out_missing) *out_missing = 0;
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        tarn_error why;
        status = places ? find_place(d, places, keys[i], &out[i], &why)
                        : tarn__dataset_find_from(d, keys[i], 0, &out[i], &why);
        if (status == TARN_ERR_NO_SAMPLE && out_missing) {
            out[i] = TARN_NO_SAMPLE;
            ++*out_missing;
            status = TARN_OK;
        } else if (status != TARN_OK && err) {
            *err = why;
        }
    }
    free(places);
    return status;
}

tarn_status tarn__key_of_name(const tarn_dataset *d, const char *name, tarn_text *out,
                              tarn_error *err)
{
    if (d->source->kind->key_of_name)
        return d->source->kind->key_of_name(d->source->state, name, out, err);
    return tarn__text_set(out, name, strlen(name), err);
}
