/* Sorts rows by key. */
#include "itar/key_order.h"

#include <stdlib.h>

#include "base/error.h"
#include "itar/index.h"
#include "itar/row.h"

tarn_status tarn__order_by_collision(const struct tarn_index *index, uint32_t *order,
                                     size_t count, tarn_error *err)
{
    tarn__run *runs = malloc(count * sizeof *runs);
    if (!runs) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        uint32_t collision = tarn__row_collision(tarn__index_at(index, order[i]));
        runs[i] = (tarn__run){collision, order[i], 0};
    }
    tarn__runs_sort(runs, count, 1);
    for (size_t i = 0; i < count; i++)
        order[i] = runs[i].row;
    free(runs);
    return TARN_OK;
}

static size_t count_runs(const struct tarn_index *index)
{
    size_t runs = 0;
    for (uint64_t i = 0; i < index->n_rows; i++)
        runs += i == 0 || !tarn__row_same_key(tarn__index_at(index, i - 1),
                                              tarn__index_at(index, i));
    return runs;
}

/* Sorts the rows of every hash that several keys share by collision number. */
static tarn_status order_collisions(const struct tarn_index *index, uint32_t *order,
                                    tarn_error *err)
{
    if (index->collisions.count == 0) return TARN_OK;
    for (size_t i = 0, j; i < index->n_rows; i = j) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): every row is in it. */
        uint64_t hash = tarn__row_hash(tarn__index_at(index, order[i]));
        bool mixed = false;
        for (j = i; j < index->n_rows; j++) {
            const unsigned char *row = tarn__index_at(index, order[j]);
            if (tarn__row_hash(row) != hash) break;
            mixed |= tarn__row_collision(row) != 0;
        }
        if (mixed) TARN_TRY(tarn__order_by_collision(index, order + i, j - i, err));
    }
    return TARN_OK;
}

/* The number of keys must match the index: otherwise a row with a damaged hash would be
 * missing from its sample. */
static tarn_status check_samples(const struct tarn_index *index, const uint32_t *order,
                                 tarn_error *err)
{
    uint64_t samples = 0;
    for (uint64_t i = 0; i < index->n_rows; i++)
        samples += i == 0 || !tarn__row_same_key(tarn__index_at(index, order[i - 1]),
                                                 tarn__index_at(index, order[i]));
    if (samples == index->n_stems) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_FORMAT, index->path, 16,
        "the index counts %llu samples, but its rows contain %llu; run tarn index again",
        (unsigned long long)index->n_stems, (unsigned long long)samples);
}

tarn_status tarn__order_make(const struct tarn_index *index, uint32_t **out,
                             tarn_error *err)
{
    TARN_TRY(tarn__sums_check_all(index->sums, TARN__PART_ROWS, err));
    size_t n_runs = count_runs(index), n = 0, at = 0;
    tarn__run *runs = malloc((n_runs + 1) * sizeof *runs);
    uint32_t *order = malloc((index->n_rows + 1) * sizeof *order);
    if (!runs || !order) {
        free(runs);
        free(order);
        return tarn__fail_memory(err);
    }
    for (uint64_t i = 0; i < index->n_rows; i++) {
        const unsigned char *row = tarn__index_at(index, i);
        if (i > 0 && tarn__row_same_key(tarn__index_at(index, i - 1), row))
            runs[n - 1].tag++;
        else
            runs[n++] = (tarn__run){tarn__row_hash(row), (uint32_t)i, 1};
    }
    tarn__runs_sort(runs, n, 1);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < runs[i].tag; k++)
            order[at++] = runs[i].row + k;
    free(runs);
    tarn_status status = order_collisions(index, order, err);
    if (status == TARN_OK) status = check_samples(index, order, err);
    if (status == TARN_OK)
        *out = order;
    else
        free(order);
    return status;
}
