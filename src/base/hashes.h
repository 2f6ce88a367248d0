/* A set of 64-bit hashes, or a table with a number for each. It tells that something was
 * very likely there before, in eight to sixteen bytes for each (twelve to 24 with
 * numbers), and never that it was not when it was. */
#ifndef TARN_BASE_HASHES_H
#define TARN_BASE_HASHES_H

#include <tarn/base.h>

/* Begins with all zero but max and numbered. */
typedef struct tarn__hashes {
    uint64_t *slots; /* 0 for an empty one */
    uint32_t *numbers;
    size_t count, slot_count;
    size_t max;    /* 0: none */
    bool numbered; /* each has a number */
} tarn__hashes;

void tarn__hashes_reset(tarn__hashes *set);

/* Empties the set; its memory stays. */
void tarn__hashes_clear(tarn__hashes *set);

/* Adds a hash; *out_there is whether it was there. *number is kept with it, or, where it
 * was there, becomes what was kept; NULL in a set without numbers. TARN_END if the set is
 * full. */
TARN_CHECKED tarn_status tarn__hashes_add(tarn__hashes *set, uint64_t hash,
                                          uint32_t *number, bool *out_there,
                                          tarn_error *err);

#endif
