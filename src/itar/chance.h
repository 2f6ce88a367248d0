/* Reproducible randomness: shuffling and splitting depend only on a hash of the sample's
 * key hash and the seed. So files, manifests and folds give the same result, however they
 * are sharded. */
#ifndef TARN_ITAR_CHANCE_H
#define TARN_ITAR_CHANCE_H

#include <tarn/base.h>

/* Shuffling and splitting with the same seed must use independent numbers. */
typedef enum tarn__chance_use {
    TARN__CHANCE_SHUFFLE,
    TARN__CHANCE_SPLIT
} tarn__chance_use;

/* Different key hashes give different numbers. */
uint64_t tarn__chance(uint64_t key_hash, tarn__chance_use use, uint64_t seed);

TARN_CHECKED tarn_status tarn__check_fractions(const double *fractions, size_t count,
                                               tarn_error *err);

/* The part of one sample if the others are not known: part k + 1 gets about fractions[k]
 * of the samples, and part 0 the rest. */
unsigned tarn__part_of(const char *key, const double *fractions, size_t count,
                       uint64_t seed);

#endif
