/* Distributes samples among parts. The result depends only on the seed and the keys
 * (itar/chance.h). The index of a fold has the hashes of its keys, so shards are read
 * only if two hashes are equal. */
#include <stdlib.h>
#include <string.h>

#include <tarn/members.h>

#include "base/error.h"
#include "base/runs.h"
#include "dataset/dataset.h"
#include "itar/chance.h"
#include "itar/fold_read.h"
#include "tar/keys.h"

static tarn_status hash_key(tarn_dataset *d, uint64_t sample, tarn_text *key,
                            uint64_t *out, tarn_error *err)
{
    const tarn__fold *fold = tarn__storage_fold(d->source);
    if (fold) {
        TARN_TRY(tarn__resolve(&d, &sample, err));
        return tarn__fold_key_hash(fold, tarn__dataset_at(d, sample), out, err);
    }
    TARN_TRY(tarn_dataset_key(d, sample, key, err));
    *out = tarn__key_hash(key->data, key->size);
    return TARN_OK;
}

/* Sets hash of each run to the chance of a sample, and row to its position. */
static tarn_status draw_all(tarn_dataset *d, uint64_t seed, tarn__run *runs,
                            tarn_error *err)
{
    tarn_text key = {0};
    tarn_status status = TARN_OK;
    for (uint64_t i = 0; status == TARN_OK && i < d->count; i++) {
        uint64_t hash = 0;
        status = hash_key(d, i, &key, &hash, err);
        runs[i] =
            (tarn__run){tarn__chance(hash, TARN__CHANCE_SPLIT, seed), (uint32_t)i, 0};
    }
    tarn_text_reset(&key);
    return status;
}

/* Context of compare_chances, and its first failure. */
typedef struct sorting {
    tarn_dataset *set;
    tarn_text left, right;
    tarn_status status;
    tarn_error *err;
} sorting;

/* Keys with equal hashes have equal chances; then the keys themselves are compared. */
static int compare_chances(const void *left, const void *right, void *context)
{
    const tarn__run *a = left, *b = right;
    sorting *s = context;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    if (s->status == TARN_OK)
        s->status = tarn_dataset_key(s->set, a->row, &s->left, s->err);
    if (s->status == TARN_OK)
        s->status = tarn_dataset_key(s->set, b->row, &s->right, s->err);
    int order = s->status == TARN_OK ? strcmp(s->left.data, s->right.data) : 0;
    return order ? order : (a->row > b->row) - (a->row < b->row);
}

static tarn_status sort_by_chance(tarn_dataset *d, uint64_t seed, tarn__run *runs,
                                  tarn_error *err)
{
    sorting s = {.set = d, .status = TARN_OK, .err = err};
    TARN_TRY(draw_all(d, seed, runs, err));
    qsort_r(runs, (size_t)d->count, sizeof *runs, compare_chances, &s);
    tarn_text_reset(&s.left);
    tarn_text_reset(&s.right);
    return s.status;
}

tarn_status tarn_dataset_parts(tarn_dataset *d, const double *fractions, size_t count,
                               uint64_t seed, uint8_t *out_parts, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "fractions", fractions || !count);
    TARN__NEED(err, "out_parts", out_parts);
    TARN_TRY(tarn__check_fractions(fractions, count, err));
    if (count > UINT8_MAX)
        return tarn__fail(err, TARN_ERR_LIMIT, "too many parts: %zu (limit %d)", count,
                          UINT8_MAX);
    if (d->count > TARN_MAX_KEYED)
        return tarn__fail(
            err, TARN_ERR_LIMIT, "cannot divide %llu samples by key (limit %llu)",
            (unsigned long long)d->count, (unsigned long long)TARN_MAX_KEYED);
    tarn__run *runs = malloc(((size_t)d->count + 1) * sizeof *runs);
    if (!runs) return tarn__fail_memory(err);
    tarn_status status = sort_by_chance(d, seed, runs, err);
    memset(out_parts, 0, (size_t)d->count);
    uint64_t at = 0;
    for (size_t k = 0; status == TARN_OK && k < count; k++) {
        uint64_t want = (uint64_t)(fractions[k] * (double)d->count + 0.5);
        for (; want && at < d->count; want--)
            out_parts[runs[at++].row] = (uint8_t)(k + 1);
    }
    free(runs);
    return status;
}
