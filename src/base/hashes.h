/* A set of 64-bit hashes with a maximum. It tells that something was very likely there
 * before, in eight to sixteen bytes for each, and never that it was not when it was. */
#ifndef TARN_BASE_HASHES_H
#define TARN_BASE_HASHES_H

#include <tarn/base.h>

typedef struct tarn__hashes {
    uint64_t *slots; /* 0 for an empty one */
    size_t count, slot_count, max;
} tarn__hashes;

void tarn__hashes_init(tarn__hashes *set, size_t max);
void tarn__hashes_reset(tarn__hashes *set);

/* Empties the set; its memory stays. */
void tarn__hashes_clear(tarn__hashes *set);

/* Adds a hash; *out_there is whether it was there. TARN_END if the set is full. */
TARN_CHECKED tarn_status tarn__hashes_add(tarn__hashes *set, uint64_t hash,
                                          bool *out_there, tarn_error *err);

#endif
