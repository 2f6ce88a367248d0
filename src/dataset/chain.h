/* The selection chain: which samples of a storage kind, in which order.
 *
 *     storage  <-  step 0  <-  step 1  <-  ...  <-  caller
 *
 * Each step maps a position to a position of the step below it; below the first step are
 * the numbers of the storage. A chain never changes once it is part of a dataset, and
 * datasets share its steps. Knows nothing of files and fields. */
#ifndef TARN_DATASET_CHAIN_H
#define TARN_DATASET_CHAIN_H

#include <stdatomic.h>

#include <tarn/order.h>

struct tarn__buf;

typedef enum tarn__step_kind {
    TARN__STEP_RANGE, /* start, start + stride, ...: no memory */
    TARN__STEP_LIST,  /* any numbers, 4 bytes each where they fit, otherwise 8 */
    TARN__STEP_ORDER  /* an order of one epoch, with its ranks */
} tarn__step_kind;

typedef struct tarn__step {
    atomic_uint users;
    tarn__step_kind kind;
    uint64_t count; /* positions that it offers */
    bool ascending; /* later positions map to higher numbers */

    uint64_t start; /* RANGE; may wrap around, as stride may be negative */
    uint64_t stride;
    uint32_t *narrow; /* LIST: one of the two */
    uint64_t *wide;
    tarn_order *order; /* ORDER */
} tarn__step;

typedef struct tarn__chain {
    tarn__step **steps; /* the lowest first */
    size_t n;
    uint64_t offset; /* added to the numbers: where an epoch of a mix begins */
} tarn__chain;

/* Replaces positions by numbers of the storage. */
void tarn__chain_map(const tarn__chain *chain, uint64_t *at, size_t n);

uint64_t tarn__chain_at_steps(const tarn__chain *chain, uint64_t position);

static inline uint64_t tarn__chain_at(const tarn__chain *chain, uint64_t position)
{
    if (chain->n == 0) return position + chain->offset;
    return tarn__chain_at_steps(chain, position);
}

/* A chain with the steps of another, of which nothing is left to be pushed. */
TARN_CHECKED tarn_status tarn__chain_copy(tarn__chain *out, const tarn__chain *from,
                                          tarn_error *err);
void tarn__chain_reset(tarn__chain *chain);

/* Positions start, start + stride, ... of what the chain gives now; two ranges in a row
 * become one. All of them must be there. */
TARN_CHECKED tarn_status tarn__chain_push_range(tarn__chain *chain, uint64_t start,
                                                int64_t stride, uint64_t count,
                                                tarn_error *err);

/* These positions, in this order. The list takes the place of all steps below it. at is
 * overwritten. */
TARN_CHECKED tarn_status tarn__chain_push_list(tarn__chain *chain, uint64_t *at,
                                               uint64_t count, tarn_error *err);

/* Those of the first count positions that are marked, one bit each, kept of them. rows is
 * how many rows the storage has. */
TARN_CHECKED tarn_status tarn__chain_push_marked(tarn__chain *chain,
                                                 const unsigned char *marks,
                                                 uint64_t count, uint64_t kept,
                                                 uint64_t rows, tarn_error *err);

/* An order of one epoch, which is shared. */
TARN_CHECKED tarn_status tarn__chain_push_order(tarn__chain *chain, tarn_order *order,
                                                tarn_error *err);

/* Whether numbers ascend, so that one can be found by bisection. */
bool tarn__chain_ascends(const tarn__chain *chain);

/* The first position, of from to count - 1, of a number; false if there is none. */
bool tarn__chain_find(const tarn__chain *chain, uint64_t count, uint64_t number,
                      uint64_t from, uint64_t *out);

/* Appends a text that is the same for the same samples in the same order. */
TARN_CHECKED tarn_status tarn__chain_describe(const tarn__chain *chain,
                                              struct tarn__buf *out, tarn_error *err);

#endif
