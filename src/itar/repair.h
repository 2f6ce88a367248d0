/* Repairing a fold: torn tails cut off, index and sums rebuilt. */
#ifndef TARN_ITAR_REPAIR_H
#define TARN_ITAR_REPAIR_H

#include <tarn/verify.h>

typedef struct tarn__repair {
    const char *index_path; /* NULL if there is no index to rebuild */
    const char *const *shards;
    size_t n_shards;
    tarn_keys keys;
    bool checksums;      /* the old sums had them */
    bool checksums_lost; /* they had, but they are damaged */
    bool keep_index; /* payloads have changed or shards are missing: an index made anew
                        would make that look right */
    const tarn_verify_options *options;
    uint64_t *repairs; /* counted up */
} tarn__repair;

TARN_CHECKED tarn_status tarn__repair_fold(const tarn__repair *repair, tarn_error *err);

#endif
