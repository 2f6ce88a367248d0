/* Finds samples by key, for sources that only list their keys. The table is made at the
 * first lookup. */
#ifndef TARN_DATASET_KEY_INDEX_H
#define TARN_DATASET_KEY_INDEX_H

#include <tarn/base.h>

#include "base/forklock.h"
#include "base/runs.h"

typedef tarn_status (*tarn__key_call)(void *state, uint64_t sample, tarn_text *out,
                                      tarn_error *err);

/* 16 bytes for each of at most 2^32 - 1 samples. Threads may share one. */
typedef struct tarn__key_index {
    tarn__forklock lock;
    tarn__run *runs; /* hash and sample, sorted; NULL before the first lookup */
    uint64_t count;
    tarn__key_call key;
    void *state;
} tarn__key_index;

void tarn__key_index_init(tarn__key_index *index, uint64_t count, tarn__key_call key,
                          void *state);
void tarn__key_index_reset(tarn__key_index *index);

/* The first sample with this key, from number from on; TARN_ERR_NO_SAMPLE if there is
 * none. */
TARN_CHECKED tarn_status tarn__key_index_find(tarn__key_index *index, const char *path,
                                              const char *key, uint64_t from,
                                              uint64_t *out, tarn_error *err);

/* The index of the first run at or after (hash, row); count if there is none. */
uint64_t tarn__runs_find(const tarn__run *runs, uint64_t count, uint64_t hash,
                         uint64_t row);

#endif
