/* The keys of all samples written so far, to reject duplicates. The keys themselves are
 * stored in the scans; this table takes 16 to 32 bytes per key, so that folds of many
 * millions of samples can be written. Slots are chosen by a keyed hash, so nobody can
 * prepare keys that collide. */
#ifndef TARN_ITAR_KEYSET_H
#define TARN_ITAR_KEYSET_H

#include "itar/scan.h"

typedef struct tarn__keyset {
    uint64_t *slots; /* upper half: of the hash; lower half: number + 1, 0 if empty */
    size_t slot_count;
    uint32_t count;      /* keys in the closed scans, and in the last one */
    uint64_t *first_run; /* number of the first key of each scan */
    size_t n_scans, capacity;
} tarn__keyset;

void tarn__keyset_reset(tarn__keyset *set);

/* Starts the runs of the next scan, which is scans[n_scans]. */
TARN_CHECKED tarn_status tarn__keyset_next_scan(tarn__keyset *set, tarn_error *err);

/* The hash of a key, for the functions below. Prefetches the key's slot. */
uint64_t tarn__keyset_hash(const tarn__keyset *set, const char *key, size_t len);

/* Whether the set has a key. */
bool tarn__keyset_has(const tarn__keyset *set, const tarn__scan *scans, const char *key,
                      size_t len, uint64_t hash);
/* The scan that has the key, or SIZE_MAX. */
size_t tarn__keyset_find(const tarn__keyset *set, const tarn__scan *scans,
                         const char *key, size_t len, uint64_t hash);

/* Adds the key of the next run of the last scan, which must not be in the set yet. */
TARN_CHECKED tarn_status tarn__keyset_add(tarn__keyset *set, const tarn__scan *scans,
                                          uint64_t hash, tarn_error *err);

/* The next run of the last scan has a key that is already in the set. */
TARN_CHECKED tarn_status tarn__keyset_pass(tarn__keyset *set, tarn_error *err);

#endif
