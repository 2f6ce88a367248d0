/* Repairs a fold: cuts off torn tails, and rebuilds index and sums. */
#ifndef TARN_ITAR_REPAIR_H
#define TARN_ITAR_REPAIR_H

#include <tarn/verify.h>

typedef struct tarn__repair {
    const char *index_path; /* NULL if there is no index to rebuild */
    const char *const *shards;
    size_t n_shards;
    tarn_keys keys;
    bool checksums;       /* of payloads, in the old sums, or perhaps in damaged ones */
    bool trusts_payloads; /* they could not be compared with the payloads */
    bool keep_index; /* payloads have changed or shards are missing: a new index would
                        hide that */
    const tarn_verify_options *options;
    uint64_t *repairs; /* incremented */
} tarn__repair;

TARN_CHECKED tarn_status tarn__repair_fold(const tarn__repair *repair, tarn_error *err);

#endif
