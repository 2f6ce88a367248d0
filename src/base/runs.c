/* Sorting by hash: a radix sort that starts with the highest byte. */
#include "base/runs.h"

#include <string.h>

#include "base/pool.h"

enum { SMALL = 24, BUCKETS = TARN__RUN_BUCKETS, WORTH_THREADS = 1 << 15 };

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

/* Runs are sorted by eight bits of the hash, then each bucket by the next eight. After
 * the bits of the hash come those of the row, so that equal hashes take linear time
 * too. */
static unsigned digit(const tarn__run *r, int level)
{
    return level < 8 ? (unsigned)(r->hash >> (56 - 8 * level)) & 255u
                     : (r->row >> (24 - 8 * (level - 8))) & 255u;
}

/* Distributes the runs to the buckets of one level; tail[b] is the end of bucket b. */
static void distribute(tarn__run *runs, size_t count, int level, size_t tail[BUCKETS])
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
    distribute(runs, count, level, tail);
    for (unsigned b = 0; b < BUCKETS; b++) {
        sort_level(runs + from, tail[b] - from, level + 1);
        from = tail[b];
    }
}

typedef struct dealt {
    tarn__run *runs;
    const size_t *ends;
} dealt;

static tarn_status sort_bucket(void *context, size_t number)
{
    const dealt *d = context;
    size_t from = number ? d->ends[number - 1] : 0;
    sort_level(d->runs + from, d->ends[number] - from, 1);
    return TARN_OK;
}

void tarn__runs_sort_buckets(tarn__run *runs, const size_t ends[BUCKETS],
                             unsigned threads)
{
    size_t failed;
    dealt d = {runs, ends};
    (void)!tarn__parallel(threads, BUCKETS, sort_bucket, &d, &failed);
}

void tarn__runs_sort(tarn__run *runs, size_t count, unsigned threads)
{
    size_t ends[BUCKETS];
    if (threads < 2 || count < WORTH_THREADS) {
        sort_level(runs, count, 0);
        return;
    }
    distribute(runs, count, 0, ends);
    tarn__runs_sort_buckets(runs, ends, threads);
}
