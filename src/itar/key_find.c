/* Finds the rows of a sample by its key. group.c determines which rows form a sample. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/guard.h"
#include "itar/fold.h"
#include "itar/key_order.h"

/* --- Order ------------------------------------------------------------------------- */

tarn_status tarn__fold_make_order(tarn__fold *f, tarn_error *err)
{
    const tarn__sums *sums = f->index->sums;
    if (atomic_load(&f->order)) return TARN_OK;
    if (sums && sums->order) {
        atomic_store(&f->order, sums->order);
        return TARN_OK;
    }
    TARN_TRY(tarn__order_make(f->index, &f->own_order, err));
    atomic_store(&f->order, f->own_order);
    return TARN_OK;
}

tarn_status tarn__fold_order(tarn__fold *f, const uint32_t **out, tarn_error *err)
{
    tarn_status status = TARN_OK;
    if (!atomic_load(&f->order)) {
        pthread_mutex_lock(&f->lock.mutex);
        status = tarn__fold_make_order(f, err);
        pthread_mutex_unlock(&f->lock.mutex);
    }
    *out = atomic_load(&f->order);
    return status;
}

static bool order_is_stored(const tarn__fold *f, const uint32_t *order)
{
    return f->index->sums && order == f->index->sums->order;
}

/* The order may come from a file, so each number in it is checked here. */
tarn_status tarn__fold_order_at(const tarn__fold *f, const uint32_t *order, uint64_t i,
                                uint32_t *out, tarn_error *err)
{
    if (order_is_stored(f, order))
        TARN_TRY(tarn__sums_check(f->index->sums, TARN__PART_ORDER, i, err));
    *out = order[i];
    if (*out < f->index->n_rows) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_FORMAT, f->index->sums->path, TARN_NO_OFFSET,
        "damaged: row %u in the key order, but there are %llu rows; run tarn index again",
        *out, (unsigned long long)f->index->n_rows);
}

/* --- Finding ----------------------------------------------------------------------- */

/* The first position in the order whose row is not before (hash, collision). */
static tarn_status bisect(const tarn__fold *f, const uint32_t *order, uint64_t hash,
                          uint32_t collision, uint64_t *out, tarn_error *err)
{
    uint64_t low = 0, high = f->index->n_rows;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        uint32_t row;
        TARN_TRY(tarn__fold_order_at(f, order, mid, &row, err));
        const unsigned char *p;
        TARN_TRY(tarn__index_use(f->index, row, &p, err));
        uint64_t h = tarn__row_hash(p);
        if (h < hash || (h == hash && tarn__row_collision(p) < collision))
            low = mid + 1;
        else
            high = mid;
    }
    *out = low;
    return TARN_OK;
}

static tarn_status fail_missing(tarn__fold *f, const char *key, tarn_error *err)
{
    if (tarn__map_is_torn(f->index->contents.data))
        return tarn__fail_at(err, TARN_ERR_STALE, f->index->path, TARN_NO_OFFSET,
                             "the index was truncated while it was in use");
    return tarn__fail(err, TARN_ERR_NO_SAMPLE, "no sample with key %s in fold %s",
                      TARN__SHOW(key, strlen(key)), f->name);
}

/* The rows with this hash and collision number, starting at position at. */
static tarn_status find_stretch(const tarn__fold *f, const uint32_t *order, uint64_t at,
                                uint64_t hash, uint32_t collision, tarn__sample_rows *out,
                                tarn_error *err)
{
    uint64_t end = at;
    for (; end < f->index->n_rows; end++) {
        uint32_t row;
        TARN_TRY(tarn__fold_order_at(f, order, end, &row, err));
        const unsigned char *p;
        TARN_TRY(tarn__index_use(f->index, row, &p, err));
        if (tarn__row_hash(p) != hash || tarn__row_collision(p) != collision) break;
    }
    *out = (tarn__sample_rows){(uint32_t)(end - at), 0, order + at};
    return TARN_OK;
}

/* Whether all rows of a sample have the key. If keys share a hash, a forged index can put
 * rows of two keys together; otherwise checking the first row is enough. */
static tarn_status check_key(tarn__fold *f, const tarn__sample_rows *s, const char *key,
                             size_t len, bool *out_same, tarn_error *err)
{
    uint32_t count = f->index->collisions.count ? s->count : 1;
    tarn__located l;
    tarn_status status = TARN_OK;
    *out_same = true;
    for (uint32_t k = 0; k < count && *out_same && status == TARN_OK; k++) {
        tarn__located_init(&l);
        status = tarn__locate(&f->place, tarn__rows_at(s, k), &l, err);
        *out_same = status == TARN_OK && l.key.stem_len == len &&
                    memcmp(l.key.stem, key, len) == 0;
        tarn__located_reset(&l);
    }
    return status;
}

tarn_status tarn__fold_find_rows(tarn__fold *f, const char *key, tarn__sample_rows *out,
                                 tarn_error *err)
{
    const uint32_t *order;
    uint64_t at;
    size_t len = strlen(key);
    TARN_TRY(tarn__fold_order(f, &order, err));
    uint64_t hash = f->place.hash(key, len);
    uint32_t id = tarn__names_find(&f->index->collisions, key, len);
    uint32_t collision = id == TARN__NAME_NONE ? 0 : id + 1;
    TARN_TRY(bisect(f, order, hash, collision, &at, err));
    TARN_TRY(find_stretch(f, order, at, hash, collision, out, err));
    if (out->count == 0) return fail_missing(f, key, err);
    bool same;
    TARN_TRY(check_key(f, out, key, len, &same, err));
    return same ? TARN_OK : fail_missing(f, key, err);
}
