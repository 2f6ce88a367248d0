/* Shared by the tests of orders: an array for each kind that needs one, options that any
 * kind accepts, and the checks that all of them must pass. */
#ifndef TARN_TESTS_ORDERING_H
#define TARN_TESTS_ORDERING_H

#include "support.h"

extern tarn_error err;

enum { N = 157 };

extern double weights[N];
extern int64_t classes[N];
extern uint64_t lengths[N];
int fill_arrays(void **state); /* a group setup */

/* An array file with this many rows: "x" is the row's number, and so is its key. */
tarn_dataset *open_rows(uint64_t count);

/* The numbers of all samples of a dataset; freed by the caller. */
uint64_t *sequence_of(tarn_dataset *d);

tarn_order_options options_of(tarn_order_kind kind);
tarn_order *open_order(uint64_t count, const tarn_order_options *o);

/* All samples of a rank, read at once and one by one; freed by the caller. */
uint64_t *take_all(const tarn_order *order);
void check_permutation(const uint64_t *all, uint64_t n);

#endif
