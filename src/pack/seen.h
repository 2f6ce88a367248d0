/* Keys that were written, for targets that do not check that themselves. */
#ifndef TARN_PACK_SEEN_H
#define TARN_PACK_SEEN_H

#include <tarn/base.h>

/* Empty if all is 0. */
typedef struct tarn__seen {
    uint64_t *hashes; /* 0: free */
    uint32_t *origins;
    size_t count, n_slots;
} tarn__seen;

/* Whether a key came before, and then from where; otherwise it is remembered. It goes by
 * the key's 64-bit hash: among a million keys, one run in some ten million reports a key
 * that did not come. */
TARN_CHECKED tarn_status tarn__seen_before(tarn__seen *seen, const char *key,
                                           uint32_t origin, bool *out_seen,
                                           uint32_t *out_origin, tarn_error *err);

void tarn__seen_reset(tarn__seen *seen);

#endif
