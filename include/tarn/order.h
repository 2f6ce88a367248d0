/* tarn/order.h: which sample comes when.
 *
 * An epoch is a row of positions 0 to total - 1, and an order says which sample stands at
 * each. Every rank of a run takes every world_size-th position, so that nothing is
 * exchanged between ranks: the sample is computed from (seed, epoch, position).
 *
 *     tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
 *     tarn_order *order;
 *     uint64_t next[256];
 *     o.kind = TARN_ORDER_SHUFFLE;
 *     o.seed = 7;
 *     o.rank = 3;
 *     o.world_size = 8;
 *     if (tarn_order_open(10000000, &o, &order, &err) != TARN_OK ||
 *         tarn_order_fill(order, 0, 256, next, &err) != TARN_OK)
 *         return fail(&err);
 *
 * Datasets take orders (tarn_dataset_order), and keep where a run stands in them.
 *
 * An order never changes, so any number of threads may use it; only closing needs it for
 * itself.
 */
#ifndef TARN_ORDER_H
#define TARN_ORDER_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_order tarn_order;

typedef enum tarn_order_kind {
    TARN_ORDER_IDENTITY = 0, /* as they lie */
    TARN_ORDER_SHUFFLE = 1,  /* all of them in random order; no memory per sample */

    /* Runs of block samples in random order, and a window of so many of them mixed: what
     * is read lies together, and a cache of window blocks meets each block once. */
    TARN_ORDER_BLOCKS = 2,

    /* Those of the iTar reference, number for number; weak, see docs/internals/order.md.
     * The seed is seed + epoch there, so seed 0 in epoch 1 is seed 1 in epoch 0. */
    TARN_ORDER_FEISTEL = 3, /* its single sampler */
    TARN_ORDER_BUCKETS = 4, /* its data set's: each bucket (shard) within itself */

    /* With weights: draws with replacement, and draws without, where those of weight 0
     * never come. 16 bytes per sample, and 8. */
    TARN_ORDER_WEIGHTED = 5,
    TARN_ORDER_WEIGHTED_ONCE = 6,

    /* With classes: each class once among as many positions as there are classes, in
     * random order; each class goes through all its samples before one comes again. */
    TARN_ORDER_BALANCED = 7,

    /* With lengths: runs of chunk samples of similar length, in random order. 8 bytes per
     * sample. */
    TARN_ORDER_LENGTHS = 8
} tarn_order_kind;

/* By name: "identity", "shuffle", "blocks", "feistel", "buckets", "weighted",
 * "weighted-once", "balanced", "lengths". TARN_ERR_NOT_FOUND, with the names there are,
 * for another one. */
TARN_API TARN_CHECKED tarn_status tarn_order_kind_find(const char *name,
                                                       tarn_order_kind *out,
                                                       tarn_error *err);

/* What happens when the positions left cannot be shared out evenly. */
typedef enum tarn_uneven {
    TARN_UNEVEN_KEEP = 0, /* the first ranks get one more */
    TARN_UNEVEN_DROP = 1, /* the last few positions are left out */
    TARN_UNEVEN_PAD = 2   /* the first few positions of the epoch come again */
} tarn_uneven;

/* The reference's order of whole buckets. */
typedef enum tarn_order_outer {
    TARN_OUTER_NONE = 0, /* as they lie: all that its data set ever does */
    /* What its random access gives: TARN_ERR_UNSUPPORTED for buckets of unequal size,
     * where that repeats and omits samples or does not come back. */
    TARN_OUTER_RANDOM_ACCESS = 1,
    TARN_OUTER_LISTED = 2 /* what its whole permutation lists, right for all sizes */
} tarn_order_outer;

/* --- Opening ----------------------------------------------------------------------- */

typedef struct tarn_order_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_order_kind kind;
    tarn_uneven uneven;
    bool negative; /* the seed is -seed: for the reference's, which takes any integer */
    /* All ranks get the same number of batches: full ones with DROP and PAD; with KEEP
     * each rank's samples are spread evenly over them. */
    bool equal_batches;
    bool drop_last; /* only full batches, as many on every rank */
    uint64_t seed;
    uint64_t epoch;
    uint64_t rank;
    uint64_t world_size; /* how many ranks there are */
    uint64_t batch;      /* samples per batch of a rank; 0: nobody asks for batches */
    uint64_t draws;  /* WEIGHTED, BALANCED: positions in an epoch (0: as many as there are
                        samples); WEIGHTED_ONCE: the most of them (0: all) */
    uint64_t block;  /* BLOCKS: samples in one */
    uint64_t window; /* BLOCKS: blocks mixed together */
    uint64_t chunk;  /* LENGTHS: samples that stay together, best a multiple of batch x
                        world_size */
    uint64_t pool;   /* LENGTHS: chunks sorted together; 0: all. The more, the more alike
                        the lengths in a chunk, and the less random what meets in one */
    uint64_t rounds; /* FEISTEL, BUCKETS */
    uint64_t outer;  /* BUCKETS: a tarn_order_outer */

    /* BUCKETS: how many samples each has, in order; they sum up to the count. With mix
     * (the reference's shard mixing) they are the shards, and the buckets are equal
     * pieces of the whole, mix to a shard on average; 0: without. */
    const uint64_t *buckets;
    size_t n_buckets;
    uint64_t mix;

    /* One for each sample. Copied, as the buckets are. */
    const double *weights;
    const int64_t *classes;
    const uint64_t *lengths;
} tarn_order_options;

#define TARN_ORDER_OPTIONS_INIT                                                          \
    {                                                                                    \
        .size = sizeof(tarn_order_options), .world_size = 1, .block = 1024,              \
        .window = 16, .chunk = 256, .pool = 64, .rounds = 3                              \
    }
TARN_API void tarn_order_options_init(tarn_order_options *options, size_t size);

#define TARN_MAX_ORDER        (UINT64_C(1) << 62) /* samples, and positions */
#define TARN_MAX_ORDER_RANKS  (UINT64_C(1) << 30)
#define TARN_MAX_ORDER_BATCH  (UINT64_C(1) << 30)
#define TARN_MAX_ORDER_ROUNDS 64u

/* An order of samples 0 to count - 1. options may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_order_open(uint64_t count,
                                                  const tarn_order_options *options,
                                                  tarn_order **out, tarn_error *err);
TARN_API void tarn_order_close(tarn_order *order);

/* --- What comes -------------------------------------------------------------------- */

typedef struct tarn_order_info {
    tarn_order_kind kind;
    const char *name; /* of the kind */
    uint64_t count;   /* samples */
    uint64_t seed, epoch;
    uint64_t total;   /* positions in an epoch, of all ranks together */
    uint64_t start;   /* how many of them are left out at the beginning */
    uint64_t length;  /* samples that come to this rank */
    uint64_t batches; /* and its batches; 0 if options.batch is 0 */
} tarn_order_info;

TARN_API void tarn_order_info_get(const tarn_order *order, tarn_order_info *out,
                                  size_t size);

/* The samples of this rank from the one at from on, count of them. TARN_ERR_USAGE past
 * the end. */
TARN_API TARN_CHECKED tarn_status tarn_order_fill(const tarn_order *order, uint64_t from,
                                                  uint64_t count, uint64_t *out_samples,
                                                  tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
