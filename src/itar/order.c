/* Sorting rows by key. */
#include "itar/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "itar/index.h"
#include "itar/row.h"

enum { SMALL = 24, BUCKETS = 256, WORTH_THREADS = 1 << 15 };

static bool run_before(const tarn__run *a, const tarn__run *b)
{
    return a->hash != b->hash ? a->hash < b->hash : a->row < b->row;
}

static void insertion_sort(tarn__run *runs, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        tarn__run r = runs[i];
        size_t j = i;
        for (; j > 0 && run_before(&r, &runs[j - 1]); j--)
            runs[j] = runs[j - 1];
        runs[j] = r;
    }
}

/* Runs are sorted by eight bits of the hash, then each bucket by the next eight; the
 * rows take over once the hash is used up, so that equal hashes stay linear too. */
static unsigned digit(const tarn__run *r, int level)
{
    return level < 8 ? (unsigned)(r->hash >> (56 - 8 * level)) & 255u
                     : (r->row >> (24 - 8 * (level - 8))) & 255u;
}

/* Brings the runs into the buckets of one level; tail[b] is where bucket b ends. */
static void deal(tarn__run *runs, size_t count, int level, size_t tail[BUCKETS])
{
    size_t head[BUCKETS], at = 0;
    memset(tail, 0, BUCKETS * sizeof *tail);
    for (size_t i = 0; i < count; i++)
        tail[digit(&runs[i], level)]++;
    for (unsigned b = 0; b < BUCKETS; b++) {
        head[b] = at;
        at += tail[b];
        tail[b] = at;
    }
    for (unsigned b = 0; b < BUCKETS; b++)
        while (head[b] < tail[b]) {
            tarn__run r = runs[head[b]];
            unsigned d;
            while ((d = digit(&r, level)) != b) {
                tarn__run swap = runs[head[d]];
                runs[head[d]++] = r;
                r = swap;
            }
            runs[head[b]++] = r;
        }
}

static void sort_level(tarn__run *runs, size_t count, int level)
{
    if (count <= SMALL || level == 12) {
        insertion_sort(runs, count);
        return;
    }
    size_t tail[BUCKETS], from = 0;
    deal(runs, count, level, tail);
    for (unsigned b = 0; b < BUCKETS; b++) {
        sort_level(runs + from, tail[b] - from, level + 1);
        from = tail[b];
    }
}

typedef struct dealt {
    tarn__run *runs;
    size_t tail[BUCKETS];
} dealt;

static tarn_status sort_bucket(void *context, size_t number)
{
    dealt *d = context;
    size_t from = number ? d->tail[number - 1] : 0;
    sort_level(d->runs + from, d->tail[number] - from, 1);
    return TARN_OK;
}

void tarn__runs_sort(tarn__run *runs, size_t count, unsigned threads)
{
    size_t failed;
    if (threads < 2 || count < WORTH_THREADS) {
        sort_level(runs, count, 0);
        return;
    }
    dealt d = {.runs = runs};
    deal(runs, count, 0, d.tail);
    (void)!tarn__parallel(threads, BUCKETS, sort_bucket, &d, &failed);
}

tarn_status tarn__order_by_crash(const struct tarn_index *index, uint32_t *order,
                                 size_t count, tarn_error *err)
{
    tarn__run *runs = malloc(count * sizeof *runs);
    if (!runs) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        uint32_t crash = tarn__row_crash(tarn__index_at(index, order[i]));
        runs[i] = (tarn__run){crash, order[i], 0};
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

/* Brings the rows of every hash that several keys share into crash order. */
static tarn_status order_crashes(const struct tarn_index *index, uint32_t *order,
                                 tarn_error *err)
{
    if (index->crashes.count == 0) return TARN_OK;
    for (size_t i = 0, j; i < index->n_rows; i = j) {
        uint64_t hash = tarn__row_hash(tarn__index_at(index, order[i]));
        bool mixed = false;
        for (j = i; j < index->n_rows; j++) {
            const unsigned char *row = tarn__index_at(index, order[j]);
            if (tarn__row_hash(row) != hash) break;
            mixed |= tarn__row_crash(row) != 0;
        }
        if (mixed) TARN_TRY(tarn__order_by_crash(index, order + i, j - i, err));
    }
    return TARN_OK;
}

/* The keys must be as many as the index counts: a row with a damaged hash would be missed
 * by its sample otherwise. */
static tarn_status check_samples(const struct tarn_index *index, const uint32_t *order,
                                 tarn_error *err)
{
    uint64_t samples = 0;
    for (uint64_t i = 0; i < index->n_rows; i++)
        samples += i == 0 || !tarn__row_same_key(tarn__index_at(index, order[i - 1]),
                                                 tarn__index_at(index, order[i]));
    if (samples == index->n_stems) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_FORMAT, index->path, 16,
                         "%llu samples are counted, but the rows make %llu; run tarn "
                         "index again",
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
    tarn_status status = order_crashes(index, order, err);
    if (status == TARN_OK) status = check_samples(index, order, err);
    if (status == TARN_OK)
        *out = order;
    else
        free(order);
    return status;
}
