/* Sorts rows by a hash or any other 64-bit number. */
#ifndef TARN_BASE_RUNS_H
#define TARN_BASE_RUNS_H

#include <tarn/base.h>

typedef struct tarn__run {
    uint64_t hash;
    uint32_t row; /* the first row of the run */
    uint32_t tag; /* for the caller */
} tarn__run;

/* Sorts by (hash, row) in place, in linear time for any hashes. */
void tarn__runs_sort(tarn__run *runs, size_t count, unsigned threads);

/* Buckets by the highest bits of the hash. */
enum { TARN__RUN_BUCKETS = 256 };

static inline unsigned tarn__run_bucket(uint64_t hash)
{
    return (unsigned)(hash >> 56);
}

/* The same for runs that are already in their buckets; ends[b] is the end of bucket b. */
void tarn__runs_sort_buckets(tarn__run *runs, const size_t ends[TARN__RUN_BUCKETS],
                             unsigned threads);

#endif
