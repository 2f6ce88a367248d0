/* A mix from inside: what mix_make.c makes and mix.c reads. */
#ifndef TARN_DATASET_KIND_MIX_H
#define TARN_DATASET_KIND_MIX_H

#include "base/forklock.h"
#include "dataset/dataset.h"
#include "dataset/mix.h"

enum { TARN__MIX_PASSES = 16 }; /* of a source, whose orders are kept */

typedef struct tarn__mix_source {
    tarn_dataset *dataset;
    uint64_t used; /* before the first epoch of the mix */

    /* Orders of passes, where they differ; guarded by the lock. */
    tarn_order *orders[TARN__MIX_PASSES];
} tarn__mix_source;

typedef struct tarn__mix {
    tarn__mix_source *parts;
    size_t n;
    uint64_t *counts; /* samples of each part in an epoch */
    uint64_t total;
    uint64_t first_epoch; /* that used is counted before */
    bool continued;       /* with other weights, from that epoch on */
    tarn__forklock lock;
    uint32_t n_fields;
    uint32_t *fields; /* [part * n_fields + field]: its number there, or NONE */
    tarn__source *source;
} tarn__mix;

static inline tarn__mixing tarn__mix_mixing(const tarn__mix *s)
{
    return (tarn__mixing){s->counts, s->n, s->total};
}

/* How many samples of part k come before an epoch of the mix. */
static inline uint64_t tarn__mix_used_before(const tarn__mix *s, size_t k, uint64_t epoch)
{
    if (epoch < s->first_epoch) return epoch * s->counts[k];
    return s->parts[k].used + (epoch - s->first_epoch) * s->counts[k];
}

#endif
