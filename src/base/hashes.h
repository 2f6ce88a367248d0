/* A set of 64-bit hashes, or a table with a number for each hash. "Present" means very
 * likely present, because different values may have equal hashes; "absent" is always
 * true. It needs 8 to 16 bytes for each hash, or 12 to 24 with numbers. */
#ifndef TARN_BASE_HASHES_H
#define TARN_BASE_HASHES_H

#include <tarn/base.h>

/* Initialise with zeros, except max and numbered. */
typedef struct tarn__hashes {
    uint64_t *slots; /* 0: empty slot */
    uint32_t *numbers;
    size_t count, slot_count;
    size_t max;    /* 0: no maximum */
    bool numbered; /* each hash has a number */
} tarn__hashes;

void tarn__hashes_reset(tarn__hashes *set);

/* Empties the set and keeps its memory. */
void tarn__hashes_clear(tarn__hashes *set);

/* Adds a hash; *out_there says whether it was already in the set. If it is new, *number
 * is stored with it, otherwise *number becomes the stored number; number is NULL for a
 * set without numbers. TARN_END if the set is full. */
TARN_CHECKED tarn_status tarn__hashes_add(tarn__hashes *set, uint64_t hash,
                                          uint32_t *number, bool *out_there,
                                          tarn_error *err);

#endif
