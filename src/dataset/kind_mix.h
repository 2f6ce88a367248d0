/* Internals of a mix, which mix.c makes and kind_mix.c reads. */
#ifndef TARN_DATASET_KIND_MIX_H
#define TARN_DATASET_KIND_MIX_H

#include "base/forklock.h"
#include "dataset/dataset.h"
#include "dataset/mix.h"

enum { TARN__MIX_PASSES = 16 }; /* passes of a source whose orders are cached */

typedef struct tarn__mix_source {
    tarn_dataset *dataset;
    uint64_t used; /* samples used before first_epoch */

    /* The order of each cached pass; NULL if not cached. Guarded by the mix's lock. */
    tarn_order *orders[TARN__MIX_PASSES];
} tarn__mix_source;

typedef struct tarn__mix {
    tarn__mix_source *parts;
    size_t n;
    uint64_t *counts; /* samples of each part in an epoch */
    uint64_t total;
    uint64_t first_epoch;
    bool continued;      /* from first_epoch on, it continues a mix of other weights */
    tarn__forklock lock; /* guards orders of all parts; nothing else changes */
    uint32_t n_fields;
    uint32_t *fields; /* [part * n_fields + field]: number in the part, or NONE */
    tarn__storage *source;
} tarn__mix;

static inline tarn__mixing tarn__mix_mixing(const tarn__mix *s)
{
    return (tarn__mixing){s->counts, s->n, s->total};
}

/* Number of samples of part k used before an epoch of the mix. */
static inline uint64_t tarn__mix_used_before(const tarn__mix *s, size_t k, uint64_t epoch)
{
    if (epoch < s->first_epoch) return epoch * s->counts[k];
    return s->parts[k].used + (epoch - s->first_epoch) * s->counts[k];
}

#endif
