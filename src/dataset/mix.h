/* The arithmetic of a mix: where each source's samples stand. Knows counts only. */
#ifndef TARN_DATASET_MIX_H
#define TARN_DATASET_MIX_H

#include <tarn/dataset.h>

#define TARN__MAX_MIXED (UINT64_C(1) << 62) /* samples in all */

/* counts[k] samples of each of n sources, total in all. */
typedef struct tarn__mixing {
    const uint64_t *counts;
    size_t n;
    uint64_t total;
} tarn__mixing;

/* Which turn of which source is at position p, below total. turns has room for n. */
void tarn__mixing_at(const tarn__mixing *m, uint64_t p, uint64_t *turns,
                     uint32_t *out_source, uint64_t *out_turn);

/* The position of a turn. */
uint64_t tarn__mixing_position(const tarn__mixing *m, uint32_t source, uint64_t turn);

/* How many samples of each source come before position p, which may be total. */
void tarn__mixing_before(const tarn__mixing *m, uint64_t p, uint64_t *turns);

/* Counts for weights: each source's share of total, exact to less than one sample. */
TARN_CHECKED tarn_status tarn__mixing_share(const double *weights, size_t n,
                                            const uint64_t *lengths, uint64_t total,
                                            tarn_mix_end end, uint64_t *out_counts,
                                            tarn_error *err);

/* --- mix.c: what a state of a mix consists of --------------------------------------- */

struct tarn__buf;
struct tarn__source;

/* Which sample of which source a row of a mix is: source, pass and sample of out. */
void tarn__mix_place(const struct tarn__source *source, uint64_t row, tarn_place *out);

/* How many sources a mix has; 0 for what is not a mix. */
size_t tarn__mix_parts(const struct tarn__source *source);

/* A source of a mix, borrowed, and how many of its samples are in an epoch. */
tarn_dataset *tarn__mix_part(const struct tarn__source *source, size_t k,
                             uint64_t *out_count);

/* Appends where a mix was continued with other weights; nothing if it was not. */
TARN_CHECKED tarn_status tarn__mix_describe(const struct tarn__source *source,
                                            struct tarn__buf *out, tarn_error *err);

/* How many samples of each source were used, over all epochs, before a position; past the
 * last, all of the epoch. */
void tarn__mix_used(const struct tarn__source *source, uint64_t epoch, uint64_t position,
                    uint64_t *out);

/* The same mix, whose sources have been used so often when an epoch begins. */
TARN_CHECKED tarn_status tarn__mix_continued(const struct tarn__source *from,
                                             uint64_t epoch, const uint64_t *used,
                                             struct tarn__source **out, tarn_error *err);

#endif
