/* Chance that can be repeated: what shuffling and splitting go by is a hash of the
 * sample's key hash and the seed, and nothing else. So the same samples come out of
 * files, manifests and folds, however they are sharded. */
#ifndef TARN_ITAR_CHANCE_H
#define TARN_ITAR_CHANCE_H

#include <tarn/base.h>

/* Both with one seed must not go by the same number. */
typedef enum tarn__chance_use {
    TARN__CHANCE_SHUFFLE,
    TARN__CHANCE_SPLIT
} tarn__chance_use;

/* Different key hashes have different chances. */
uint64_t tarn__chance(uint64_t key_hash, tarn__chance_use use, uint64_t seed);

TARN_CHECKED tarn_status tarn__check_fractions(const double *fractions, size_t count,
                                               tarn_error *err);

/* The part of one sample where the others are not known: part k + 1 gets about
 * fractions[k] of the samples, and part 0 the rest. */
unsigned tarn__part_of(const char *key, const double *fractions, size_t count,
                       uint64_t seed);

#endif
