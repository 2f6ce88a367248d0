/* The interface of the kinds of order. A kind maps positions of an epoch to samples. It
 * knows nothing about ranks, batches and state, which are in order.c. */
#ifndef TARN_DATASET_ORDER_H
#define TARN_DATASET_ORDER_H

#include <tarn/order.h>

struct tarn__buf;

typedef struct tarn__order_kind {
    const char *name;

    /* Checks the kind's own options and computes the number of positions of an epoch.
     * NULL: one position for each sample. */
    tarn_status (*measure)(const tarn_order_options *o, uint64_t count,
                           uint64_t *out_total, tarn_error *err);

    /* Makes the data that map needs for one epoch. After a failure, *out is dropped
     * unless it is NULL. Not called for an epoch without positions. */
    tarn_status (*make)(const tarn_order_options *o, uint64_t count, uint64_t total,
                        void **out, tarn_error *err);
    void (*drop)(void *made);

    /* Replaces each position by its sample. */
    void (*map)(const void *made, uint64_t *at, size_t n);

    /* The inverse: the first of the total positions, from position from on, that has the
     * sample; TARN__NO_POSITION if there is none. NULL: all positions are mapped. */
    uint64_t (*find)(const void *made, uint64_t total, uint64_t sample, uint64_t from);
} tarn__order_kind;

#define TARN__NO_POSITION UINT64_MAX

/* The result of find for a kind where the sample is at one position only. */
static inline uint64_t tarn__order_found(uint64_t position, uint64_t from)
{
    return position >= from ? position : TARN__NO_POSITION;
}

extern const tarn__order_kind tarn__order_identity, tarn__order_shuffle,
    tarn__order_blocks, tarn__order_feistel, tarn__order_buckets, tarn__order_weighted,
    tarn__order_once, tarn__order_balanced, tarn__order_lengths;

/* TARN_ERR_USAGE if the array that a kind needs is missing. */
TARN_CHECKED tarn_status tarn__order_need(const void *array, const char *name,
                                          uint64_t count, tarn_error *err);

/* Memory for count items; NULL, with err set, if out of memory. */
void *tarn__order_alloc(uint64_t count, size_t item, tarn_error *err);

/* The number of positions of kinds that draw: draws if set, otherwise count. */
TARN_CHECKED tarn_status tarn__order_draws(const tarn_order_options *o, uint64_t count,
                                           uint64_t *out_total, tarn_error *err);

/* The map function of kinds whose data is an array of samples. */
void tarn__order_map_samples(const void *made, uint64_t *at, size_t n);

/* A sample and its sort key. */
typedef struct tarn__numbered {
    uint64_t value, sample;
} tarn__numbered;

/* Sorts by value; the sort is stable. spare has room for n items. */
void tarn__numbered_sort(tarn__numbered *list, tarn__numbered *spare, uint64_t n);

/* --- order.c: orders as parts of a dataset ------------------------------------------ */

/* Opens an order whose first start positions are used. Arrays are copied. */
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

/* One rank's part of an order. An order that is already split is split again. */
TARN_CHECKED tarn_status tarn__order_split(const tarn_order *from, uint64_t rank,
                                           uint64_t world_size, tarn_uneven uneven,
                                           tarn_order **out, tarn_error *err);

/* The same order in batches. */
TARN_CHECKED tarn_status tarn__order_in_batches(const tarn_order *from, uint64_t batch,
                                                bool equal, bool drop_last,
                                                tarn_order **out, tarn_error *err);

/* Whether the order depends on an array with a number for each sample or bucket. */
bool tarn__order_has_array(const tarn_order *order);

/* Whether the order has all positions of its kind: no ranks, and start is 0. */
bool tarn__order_is_whole(const tarn_order *order);

/* The same order for the n kept samples, whose numbers ascend. Arrays are filtered, too.
 */
TARN_CHECKED tarn_status tarn__order_filtered(const tarn_order *from,
                                              const uint64_t *kept, uint64_t n,
                                              tarn_order **out, tarn_error *err);

/* The number of samples of this rank. */
uint64_t tarn__order_length(const tarn_order *order);

/* The position in the epoch, over all ranks, of this rank's i-th sample. */
uint64_t tarn__order_position(const tarn_order *order, uint64_t i);

/* Replaces positions of this rank by samples. All are below the rank's length. */
void tarn__order_map(const tarn_order *order, uint64_t *at, size_t n);

/* The first sample of this rank's k-th batch, and the number of its samples. It is 0 only
 * with equal_batches, TARN_UNEVEN_KEEP, and fewer samples than batches. */
TARN_CHECKED tarn_status tarn__order_batch(const tarn_order *order, uint64_t k,
                                           uint64_t *out_from, uint64_t *out_count,
                                           tarn_error *err);

/* --- order_find.c: the inverse of an order ------------------------------------------ */

/* A position that has a sample: the rank, its i-th sample, and the position in the epoch
 * over all ranks. */
typedef struct tarn__order_turn {
    uint64_t rank, i, position;
} tarn__order_turn;

/* Whether positions of a sample are computed, and not found by mapping all positions. */
bool tarn__order_has_inverse(const tarn_order *order);

/* Passes all positions of a sample, of all ranks of the last split, to put, in any order.
 */
typedef tarn_status (*tarn__order_put)(void *context, const tarn__order_turn *turn,
                                       tarn_error *err);
TARN_CHECKED tarn_status tarn__order_find(const tarn_order *order, uint64_t sample,
                                          tarn__order_put put, void *context,
                                          tarn_error *err);

/* The first of this rank's samples, from from on, that is a given sample; or
 * TARN__NO_POSITION. The order has an inverse. */
uint64_t tarn__order_find_own(const tarn_order *order, uint64_t sample, uint64_t from);

/* The batch of the i-th sample of a rank, and the place in it. */
void tarn__order_batch_of(const tarn_order *order, uint64_t rank, uint64_t i,
                          uint64_t *out_batch, uint64_t *out_place);

/* The number of positions of the epoch that are used when every rank has taken n samples,
 * or n batches; a rank that has fewer has taken all of them. The result is the same on
 * every rank. After the last batch of the longest rank, all positions are used. */
uint64_t tarn__order_used(const tarn_order *order, uint64_t n);
uint64_t tarn__order_used_batches(const tarn_order *order, uint64_t n);

/* "keep", "drop" or "pad". */
const char *tarn__uneven_name(tarn_uneven uneven);

/* Appends a text that is equal for equal orders, such as " shuffle(seed=7)". With frozen
 * it also has the epoch, the ranks and the start. */
TARN_CHECKED tarn_status tarn__order_describe(const tarn_order *order, bool frozen,
                                              struct tarn__buf *out, tarn_error *err);

#endif
