/* Mixes. The first part is arithmetic on counts only (mix_math.c): the positions of each
 * source's samples in an epoch of the mix. */
#ifndef TARN_DATASET_MIX_H
#define TARN_DATASET_MIX_H

#include <tarn/dataset.h>

#define TARN__MAX_MIXED (UINT64_C(1) << 62) /* limit of all samples together */

/* counts[k] samples of source k, for each of n sources; total is their sum. */
typedef struct tarn__mixing {
    const uint64_t *counts;
    size_t n;
    uint64_t total;
} tarn__mixing;

/* Which turn of which source is at position p, which is below total. turns is scratch
 * memory for n numbers. */
void tarn__mixing_at(const tarn__mixing *m, uint64_t p, uint64_t *turns,
                     uint32_t *out_source, uint64_t *out_turn);

/* The position of a turn. */
uint64_t tarn__mixing_position(const tarn__mixing *m, uint32_t source, uint64_t turn);

/* Number of samples of each source before position p, which may be total. */
void tarn__mixing_before(const tarn__mixing *m, uint64_t p, uint64_t *turns);

/* Computes counts from weights: each source's share of total, exact to less than one
 * sample. */
TARN_CHECKED tarn_status tarn__mixing_share(const double *weights, size_t n,
                                            const uint64_t *lengths, uint64_t total,
                                            tarn_mix_end end, uint64_t *out_counts,
                                            tarn_error *err);

/* --- Places and states of a mix (kind_mix.c, mix.c) --------------------------------- */

struct tarn__buf;
struct tarn__storage;

/* Sets source, pass and sample of out for a row of a mix. */
void tarn__mix_place(const struct tarn__storage *source, uint64_t row, tarn_place *out);

/* Number of sources of a mix; 0 if source is not a mix. */
size_t tarn__mix_parts(const struct tarn__storage *source);

/* A source of a mix, borrowed, and the number of its samples in an epoch. */
tarn_dataset *tarn__mix_part(const struct tarn__storage *source, size_t k,
                             uint64_t *out_count);

/* If the mix continues another one with different weights, appends from which epoch and
 * after how many samples. */
TARN_CHECKED tarn_status tarn__mix_describe(const struct tarn__storage *source,
                                            struct tarn__buf *out, tarn_error *err);

/* Number of samples of each source used, over all epochs, before a position of an epoch.
 * A position past the last counts the whole epoch. */
void tarn__mix_used(const struct tarn__storage *source, uint64_t epoch, uint64_t position,
                    uint64_t *out);

/* The same mix, with used[k] samples of source k already used when the epoch begins. */
TARN_CHECKED tarn_status tarn__mix_continued(const struct tarn__storage *from,
                                             uint64_t epoch, const uint64_t *used,
                                             struct tarn__storage **out, tarn_error *err);

#endif
