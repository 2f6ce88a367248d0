/* The selection chain: which samples of a storage kind, in which order.
 *
 *     storage  <-  step 0  <-  step 1  <-  ...  <-  caller
 *
 * Each step maps a position to a position of the step below it. Below the first step are
 * the row numbers of the storage. A chain does not change once it is part of a dataset,
 * and datasets share its steps. It knows nothing about files and fields. */
#ifndef TARN_DATASET_CHAIN_H
#define TARN_DATASET_CHAIN_H

#include <stdatomic.h>

#include <tarn/order.h>

struct tarn__buf;

typedef enum tarn__step_kind {
    TARN__STEP_RANGE, /* start, start + stride, ...; needs no list */
    TARN__STEP_LIST,  /* any numbers, 4 bytes each if they fit, otherwise 8 */
    TARN__STEP_ORDER  /* an order of one epoch, with its ranks */
} tarn__step_kind;

typedef struct tarn__step {
    atomic_uint users;
    tarn__step_kind kind;
    uint64_t count; /* number of positions */
    bool ascending; /* later positions map to higher numbers */

    uint64_t start; /* RANGE; sums may wrap around, because stride may be negative */
    uint64_t stride;
    uint32_t *narrow; /* LIST: one of the two is set */
    uint64_t *wide;
    tarn_order *order; /* ORDER */
} tarn__step;

typedef struct tarn__chain {
    tarn__step **steps; /* the lowest first */
    size_t n;
    uint64_t offset; /* added to the row numbers: the first row of an epoch of a mix */
} tarn__chain;

/* Replaces positions by row numbers of the storage. */
void tarn__chain_map(const tarn__chain *chain, uint64_t *at, size_t n);

uint64_t tarn__chain_at_steps(const tarn__chain *chain, uint64_t position);

static inline uint64_t tarn__chain_at(const tarn__chain *chain, uint64_t position)
{
    if (chain->n == 0) return position + chain->offset;
    return tarn__chain_at_steps(chain, position);
}

/* A new chain that shares the steps of another. */
TARN_CHECKED tarn_status tarn__chain_copy(tarn__chain *out, const tarn__chain *from,
                                          tarn_error *err);
void tarn__chain_reset(tarn__chain *chain);

/* Selects positions start, start + stride, ... of the chain as it is now. All of them
 * must exist. Two consecutive ranges become one step. */
TARN_CHECKED tarn_status tarn__chain_push_range(tarn__chain *chain, uint64_t start,
                                                int64_t stride, uint64_t count,
                                                tarn_error *err);

/* Selects these positions, in this order. The list replaces all steps below it. at is
 * overwritten. */
TARN_CHECKED tarn_status tarn__chain_push_list(tarn__chain *chain, uint64_t *at,
                                               uint64_t count, tarn_error *err);

/* Selects the marked ones of the first count positions: one bit each, kept bits are set.
 * rows is the number of rows of the storage. */
TARN_CHECKED tarn_status tarn__chain_push_marked(tarn__chain *chain,
                                                 const unsigned char *marks,
                                                 uint64_t count, uint64_t kept,
                                                 uint64_t rows, tarn_error *err);

/* Adds an order of one epoch. The order is shared with the caller. */
TARN_CHECKED tarn_status tarn__chain_push_order(tarn__chain *chain, tarn_order *order,
                                                tarn_error *err);

/* Whether row numbers ascend, so that one can be found by bisection. */
bool tarn__chain_ascends(const tarn__chain *chain);

/* The first position of a row number among from to count - 1; false if there is none. */
bool tarn__chain_find(const tarn__chain *chain, uint64_t count, uint64_t number,
                      uint64_t from, uint64_t *out);

/* Appends a text that is equal for the same samples in the same order. */
TARN_CHECKED tarn_status tarn__chain_describe(const tarn__chain *chain,
                                              struct tarn__buf *out, tarn_error *err);

#endif
