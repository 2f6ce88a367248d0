/* What the kinds of order have in common. A kind turns positions of an epoch into
 * samples; ranks, batches and state are order.c's, and it knows nothing of them. */
#ifndef TARN_DATASET_ORDER_H
#define TARN_DATASET_ORDER_H

#include <tarn/order.h>

struct tarn__buf;

typedef struct tarn__order_kind {
    const char *name;

    /* Checks the options that are the kind's own and says how many positions an epoch
     * has. NULL: as many as there are samples. */
    tarn_status (*measure)(const tarn_order_options *o, uint64_t count,
                           uint64_t *out_total, tarn_error *err);

    /* Makes what map needs for one epoch; after a failure, *out is dropped unless it is
     * NULL. Never called for an epoch without positions. */
    tarn_status (*make)(const tarn_order_options *o, uint64_t count, uint64_t total,
                        void **out, tarn_error *err);
    void (*drop)(void *made);

    /* Replaces each position by its sample. */
    void (*map)(const void *made, uint64_t *at, size_t n);
} tarn__order_kind;

extern const tarn__order_kind tarn__order_identity, tarn__order_shuffle,
    tarn__order_blocks, tarn__order_feistel, tarn__order_buckets, tarn__order_weighted,
    tarn__order_once, tarn__order_balanced, tarn__order_lengths;

/* TARN_ERR_USAGE unless the array that a kind needs is there. */
TARN_CHECKED tarn_status tarn__order_need(const void *array, const char *name,
                                          uint64_t count, tarn_error *err);

/* Memory for count items; NULL, and err filled, if there is none. */
void *tarn__order_alloc(uint64_t count, size_t item, tarn_error *err);

/* The positions of kinds that draw: as many as there are samples, or draws. */
TARN_CHECKED tarn_status tarn__order_draws(const tarn_order_options *o, uint64_t count,
                                           uint64_t *out_total, tarn_error *err);

/* The map of kinds that make an array of samples. */
void tarn__order_map_samples(const void *made, uint64_t *at, size_t n);

/* A sample and what it is sorted by. */
typedef struct tarn__numbered {
    uint64_t value, sample;
} tarn__numbered;

/* By value; those of one value stay in the order they stand in. spare has room for n too.
 */
void tarn__numbered_sort(tarn__numbered *list, tarn__numbered *spare, uint64_t n);

/* --- order.c: orders as parts of a dataset ------------------------------------------ */

/* Opens with the first start positions used up. Arrays are copied. */
TARN_CHECKED tarn_status tarn__order_open(uint64_t count, const tarn_order_options *o,
                                          uint64_t start, tarn_order **out,
                                          tarn_error *err);
const tarn_order_options *tarn__order_options(const tarn_order *order);

/* Orders are shared; each user calls tarn_order_close. */
tarn_order *tarn__order_use(tarn_order *order);

/* The same order in another epoch, or from another position of it. */
TARN_CHECKED tarn_status tarn__order_at_epoch(const tarn_order *from, uint64_t epoch,
                                              uint64_t start, tarn_order **out,
                                              tarn_error *err);

/* The part of one rank of what the order gives now. What is split already is split
 * again. */
TARN_CHECKED tarn_status tarn__order_split(const tarn_order *from, uint64_t rank,
                                           uint64_t world_size, tarn_uneven uneven,
                                           tarn_order **out, tarn_error *err);

/* The same order in batches. */
TARN_CHECKED tarn_status tarn__order_in_batches(const tarn_order *from, uint64_t batch,
                                                bool equal, bool drop_last,
                                                tarn_order **out, tarn_error *err);

/* Whether it goes by an array with a number for each sample, or bucket. */
bool tarn__order_has_array(const tarn_order *order);

/* Whether it gives all positions of its kind: no ranks, no beginning left out. */
bool tarn__order_is_whole(const tarn_order *order);

/* The same order of fewer samples, whose numbers ascend. Arrays are filtered with them.
 */
TARN_CHECKED tarn_status tarn__order_filtered(const tarn_order *from,
                                              const uint64_t *kept, uint64_t n,
                                              tarn_order **out, tarn_error *err);

/* Samples that come to this rank. */
uint64_t tarn__order_length(const tarn_order *order);

/* The position in the epoch, over all ranks, of this rank's i-th sample. */
uint64_t tarn__order_position(const tarn_order *order, uint64_t i);

/* Replaces positions of this rank, all of them below its length, by samples. */
void tarn__order_map(const tarn_order *order, uint64_t *at, size_t n);

/* Where the k-th batch of this rank begins, and how many it has: 0 only with
 * equal_batches, UNEVEN, and fewer samples than batches. */
TARN_CHECKED tarn_status tarn__order_batch(const tarn_order *order, uint64_t k,
                                           uint64_t *out_from, uint64_t *out_count,
                                           tarn_error *err);

/* How many positions of the epoch are used up when every rank has taken n samples, or n
 * batches; a rank that has fewer has taken all of its own. Every rank gives the same
 * answer. After the last batch of the rank that has most, all are used up. */
uint64_t tarn__order_used(const tarn_order *order, uint64_t n);
uint64_t tarn__order_used_batches(const tarn_order *order, uint64_t n);

/* "keep", "drop" or "pad". */
const char *tarn__uneven_name(tarn_uneven uneven);

/* Appends a text that is the same for the same order: " shuffle(seed=7)". With frozen it
 * also names the epoch, the ranks and the beginning. */
TARN_CHECKED tarn_status tarn__order_describe(const tarn_order *order, bool frozen,
                                              struct tarn__buf *out, tarn_error *err);

#endif
