/* The samples of a fold in another order, fewer of them, or parted: by the key hashes of
 * the index alone, without a look at the shards. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "itar/chance.h"
#include "itar/fold.h"
#include "itar/key_order.h"

/* The chance of a sample, by the hash of its key. */
static tarn_status draw(const tarn_fold *f, uint64_t sample, tarn__chance_use use,
                        uint64_t seed, uint64_t *out, tarn_error *err)
{
    const unsigned char *p;
    uint64_t row = tarn__fold_row(f, tarn__fold_start(f, sample));
    TARN_TRY(tarn__index_use(f->index, row, &p, err));
    *out = tarn__chance(tarn__row_hash(p), use, seed);
    return TARN_OK;
}

/* --- Samples by chance ------------------------------------------------------------- */

typedef struct named {
    tarn_text key;
    tarn__run run;
} named;

static int compare_named(const void *left, const void *right)
{
    return strcmp(((const named *)left)->key.data, ((const named *)right)->key.data);
}

static tarn_status name_all(tarn_fold *f, const tarn__run *runs, named *out, size_t count,
                            tarn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t row = tarn__fold_row(f, tarn__fold_start(f, runs[i].row));
        out[i].run = runs[i];
        TARN_TRY(tarn_fold_names(f, row, &out[i].key, NULL, err));
    }
    return TARN_OK;
}

/* Keys with one hash have one chance: then the keys themselves decide. */
static tarn_status part_equals(tarn_fold *f, tarn__run *runs, size_t count,
                               tarn_error *err)
{
    named *list = calloc(count, sizeof *list);
    if (!list) return tarn__fail_memory(err);
    tarn_status status = name_all(f, runs, list, count, err);
    if (status == TARN_OK) qsort(list, count, sizeof *list, compare_named);
    for (size_t i = 0; i < count; i++) {
        if (status == TARN_OK) runs[i] = list[i].run;
        tarn_text_reset(&list[i].key);
    }
    free(list);
    return status;
}

/* All samples sorted by chance: hash is that, row the sample's number. */
static tarn_status sort_samples(tarn_fold *f, tarn__chance_use use, uint64_t seed,
                                tarn__run **out, tarn_error *err)
{
    TARN_TRY(tarn__fold_group(f, err));
    size_t count = (size_t)f->n_samples;
    tarn__run *runs = malloc((count + 1) * sizeof *runs);
    if (!runs) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        runs[i] = (tarn__run){0, (uint32_t)i, 0};
        status = draw(f, i, use, seed, &runs[i].hash, err);
    }
    if (status == TARN_OK) tarn__runs_sort(runs, count, tarn__thread_count(0));
    for (size_t i = 0, j; status == TARN_OK && i < count; i = j) {
        for (j = i + 1; j < count && runs[j].hash == runs[i].hash; j++)
            continue;
        if (j - i > 1) status = part_equals(f, runs + i, j - i, err);
    }
    if (status == TARN_OK)
        *out = runs;
    else
        free(runs);
    return status;
}

/* --- What is made of that ---------------------------------------------------------- */

/* Makes these the samples, in this order; NULL: count of them from number first on. */
static tarn_status arrange(tarn_fold *f, const tarn__run *runs, uint64_t first,
                           uint64_t count, tarn_error *err)
{
    uint32_t *starts = malloc((count + 1) * sizeof *starts);
    uint32_t *rows = malloc((tarn__fold_start(f, f->n_samples) + 1) * sizeof *rows);
    if (!starts || !rows) {
        free(starts);
        free(rows);
        return tarn__fail_memory(err);
    }
    uint32_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = runs ? runs[i].row : first + i;
        starts[i] = at;
        uint64_t end = tarn__fold_start(f, number + 1);
        for (uint64_t k = tarn__fold_start(f, number); k < end; k++)
            rows[at++] = (uint32_t)tarn__fold_row(f, k);
    }
    starts[count] = at;
    tarn__fold_take(f, rows, starts, count);
    return TARN_OK;
}

tarn_status tarn_fold_shuffle(tarn_fold *f, uint64_t seed, tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    tarn__run *runs;
    TARN_TRY(sort_samples(f, TARN__CHANCE_SHUFFLE, seed, &runs, err));
    tarn_status status = arrange(f, runs, 0, f->n_samples, err);
    free(runs);
    return status;
}

tarn_status tarn_fold_slice(tarn_fold *f, uint64_t from, uint64_t to, tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    TARN_TRY(tarn__fold_group(f, err));
    if (to > f->n_samples) to = f->n_samples;
    if (from > to) from = to;
    return arrange(f, NULL, from, to - from, err);
}

tarn_status tarn_fold_split(tarn_fold *f, const double *fractions, size_t count,
                            uint64_t seed, uint8_t *out_parts, tarn_error *err)
{
    TARN__NEED(err, "fold", f);
    TARN__NEED(err, "fractions", fractions || !count);
    TARN__NEED(err, "out_parts", out_parts);
    tarn__run *runs;
    TARN_TRY(tarn__check_fractions(fractions, count, err));
    if (count > UINT8_MAX)
        return tarn__fail(err, TARN_ERR_LIMIT, "more than %d parts", UINT8_MAX);
    TARN_TRY(sort_samples(f, TARN__CHANCE_SPLIT, seed, &runs, err));
    memset(out_parts, 0, (size_t)f->n_samples);
    uint64_t at = 0;
    for (size_t k = 0; k < count; k++) {
        uint64_t want = (uint64_t)(fractions[k] * (double)f->n_samples + 0.5);
        for (; want && at < f->n_samples; want--)
            out_parts[runs[at++].row] = (uint8_t)(k + 1);
    }
    free(runs);
    return TARN_OK;
}
