/* Samples by key, for sources whose keys are only listed: made at the first question. */
#ifndef TARN_DATASET_KEY_INDEX_H
#define TARN_DATASET_KEY_INDEX_H

#include <tarn/base.h>

#include "base/forklock.h"
#include "base/runs.h"

typedef tarn_status (*tarn__key_call)(void *state, uint64_t sample, tarn_text *out,
                                      tarn_error *err);

/* 16 bytes for each sample, of which there may be 2^32 - 1. Threads may share one. */
typedef struct tarn__key_index {
    tarn__forklock lock;
    tarn__run *runs; /* hash and sample, sorted; NULL before the first question */
    uint64_t count;
    tarn__key_call key;
    void *state;
} tarn__key_index;

void tarn__key_index_init(tarn__key_index *index, uint64_t count, tarn__key_call key,
                          void *state);
void tarn__key_index_reset(tarn__key_index *index);

/* The first sample at or behind from with this key; TARN_ERR_NO_SAMPLE. */
TARN_CHECKED tarn_status tarn__key_index_find(tarn__key_index *index, const char *path,
                                              const char *key, uint64_t from,
                                              uint64_t *out, tarn_error *err);

/* The first run at or after (hash, row); count past the last. */
uint64_t tarn__runs_find(const tarn__run *runs, uint64_t count, uint64_t hash,
                         uint64_t row);

#endif
