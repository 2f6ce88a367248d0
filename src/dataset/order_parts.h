/* The parts of an order: its kind's data, its array, and its divisions among ranks. Only
 * the files of this folder that map positions to samples or back include it. */
#ifndef TARN_DATASET_ORDER_PARTS_H
#define TARN_DATASET_ORDER_PARTS_H

#include <stdatomic.h>

#include "dataset/order.h"

/* The data a kind made for one epoch. Orders that differ only in ranks or batches share
 * it. */
typedef struct tarn__order_made {
    atomic_uint users;
    const tarn__order_kind *kind;
    void *data; /* owned by the kind; NULL if it needs none */
} tarn__order_made;

/* A copy of the caller's array, shared by the orders of all epochs. */
typedef struct tarn__order_array {
    atomic_uint users;
    uint64_t count;
    uint64_t items[];
} tarn__order_array;

/* A division of all positions among ranks. */
typedef struct tarn__share {
    uint64_t rank, world;
    tarn_uneven uneven;
    uint64_t start, from; /* positions start to from - 1 are divided */
} tarn__share;

struct tarn_order {
    atomic_uint users;
    tarn_order_options o;
    tarn__order_made *made;
    tarn__order_array *array;
    bool split;         /* was divided among the ranks of the options, perhaps only 1 */
    tarn__share *inner; /* earlier splits, the first one first */
    size_t n_inner;
    uint64_t count, total, start;
    uint64_t length, batches;
};

/* The number of samples of one rank, which may be another than the order's own. */
uint64_t tarn__order_length_of(const tarn_order *order, uint64_t rank);

/* The number of positions that a rank gets. */
uint64_t tarn__share_length(uint64_t positions, uint64_t rank, uint64_t world,
                            tarn_uneven uneven);

/* Whether batches are made equal although ranks have different lengths. */
bool tarn__order_has_equal_batches(const tarn_order *order);

#endif
