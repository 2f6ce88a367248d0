/* What the kinds of order have in common. A kind turns positions of an epoch into
 * samples; ranks, batches and state are order.c's, and it knows nothing of them. */
#ifndef TARN_DATASET_ORDER_H
#define TARN_DATASET_ORDER_H

#include <tarn/order.h>

typedef struct tarn__order_kind {
    const char *name;

    /* Checks the options that are the kind's own and says how many positions an epoch
     * has. NULL: as many as there are samples. */
    tarn_status (*measure)(const tarn_order_options *o, uint64_t count,
                           uint64_t *out_total, tarn_error *err);

    /* Makes what map needs for one epoch. Never called for an epoch without positions. */
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

/* The map of kinds that make an array of samples. */
void tarn__order_map_samples(const void *made, uint64_t *at, size_t n);

/* A sample and what it is sorted by. */
typedef struct tarn__numbered {
    uint64_t value, sample;
} tarn__numbered;

/* By value; those of one value stay in the order they stand in. spare has room for n too.
 */
void tarn__numbered_sort(tarn__numbered *list, tarn__numbered *spare, uint64_t n);

/* order.c: opens with the first start positions used up. */
TARN_CHECKED tarn_status tarn__order_open(uint64_t count, const tarn_order_options *o,
                                          uint64_t start, tarn_order **out,
                                          tarn_error *err);
const tarn_order_options *tarn__order_options(const tarn_order *order);

#endif
