/* tarn/order.h: the order of samples.
 *
 * An epoch is a sequence of positions 0 to total - 1. An order gives the sample at each
 * position. Each rank of a run takes every world_size-th position. The sample is computed
 * from (seed, epoch, position), so ranks do not need to communicate.
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
 * A dataset can have an order (tarn_dataset_order). It then also keeps the position of a
 * run in that order.
 *
 * An order never changes, so any number of threads may use it at once. No thread may use
 * it while it is being closed.
 */
#ifndef TARN_ORDER_H
#define TARN_ORDER_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_order tarn_order;

typedef enum tarn_order_kind {
    TARN_ORDER_IDENTITY = 0, /* in stored order */
    TARN_ORDER_SHUFFLE = 1,  /* all samples in random order; no memory per sample */

    /* Runs of block samples in random order, with window runs mixed together. Samples
     * that are stored together are read together: a cache of window blocks loads each
     * block once. */
    TARN_ORDER_BLOCKS = 2,

    /* The orders of glzn's iTar, number for number. They are weak: see
     * docs/internals/order.md. glzn uses seed + epoch as its seed, so seed 0 in epoch 1
     * is seed 1 in epoch 0. */
    TARN_ORDER_FEISTEL = 3, /* the order of glzn's single sampler */
    /* The order of glzn's dataset: each bucket (shard) within itself. */
    TARN_ORDER_BUCKETS = 4,

    /* With weights: draws with replacement, and draws without replacement, in which
     * samples of weight 0 never occur. They take 16 and 8 bytes per sample. */
    TARN_ORDER_WEIGHTED = 5,
    TARN_ORDER_WEIGHTED_ONCE = 6,

    /* With classes: each class once among as many positions as there are classes, in
     * random order. Each class goes through all of its samples before one is repeated. */
    TARN_ORDER_BALANCED = 7,

    /* With lengths: runs of chunk samples of similar length, in random order. 8 bytes per
     * sample. */
    TARN_ORDER_LENGTHS = 8
} tarn_order_kind;

/* Finds an order by name: "identity", "shuffle", "blocks", "feistel", "buckets",
 * "weighted", "weighted-once", "balanced", "lengths". TARN_ERR_NOT_FOUND for other names;
 * the message lists the valid ones. */
TARN_API TARN_CHECKED tarn_status tarn_order_kind_find(const char *name,
                                                       tarn_order_kind *out,
                                                       tarn_error *err);

/* The name of an order, or NULL past the last. */
TARN_API const char *tarn_order_kind_name(tarn_order_kind kind);

/* What happens if the remaining positions cannot be divided evenly among the ranks. */
typedef enum tarn_uneven {
    TARN_UNEVEN_KEEP = 0, /* the first ranks get one more */
    TARN_UNEVEN_DROP = 1, /* the last few positions are left out */
    TARN_UNEVEN_PAD = 2   /* the first few positions of the epoch are repeated */
} tarn_uneven;

/* The order of whole buckets in glzn. */
typedef enum tarn_order_outer {
    TARN_OUTER_NONE = 0, /* in stored order, as glzn's dataset always does */
    /* The order of glzn's random access. TARN_ERR_UNSUPPORTED for buckets of unequal
     * size: there glzn repeats and omits samples, or does not terminate. */
    TARN_OUTER_RANDOM_ACCESS = 1,
    TARN_OUTER_LISTED = 2 /* glzn's listed permutation, correct for all sizes */
} tarn_order_outer;

/* --- Opening ----------------------------------------------------------------------- */

typedef struct tarn_order_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_order_kind kind;
    tarn_uneven uneven;
    bool negative; /* the seed is -seed; for glzn's orders, which take any integer */
    /* All ranks get the same number of batches. With DROP and PAD these are full batches;
     * with KEEP the samples of each rank are spread evenly over them. */
    bool equal_batches;
    bool drop_last; /* only full batches, the same number on every rank */
    uint64_t seed;
    uint64_t epoch;
    uint64_t rank;
    uint64_t world_size; /* number of ranks */
    uint64_t batch;      /* samples per batch of a rank; 0: no batches */
    /* WEIGHTED, BALANCED: positions in an epoch (0: the number of samples).
     * WEIGHTED_ONCE: the maximum number of positions (0: all). */
    uint64_t draws;
    uint64_t block;  /* BLOCKS: samples per block */
    uint64_t window; /* BLOCKS: blocks mixed together */
    /* LENGTHS: samples that stay together; preferably a multiple of batch x
     * world_size. */
    uint64_t chunk;
    /* LENGTHS: chunks sorted together; 0: all. A larger pool gives chunks of more similar
     * lengths, but makes the samples in a chunk less random. */
    uint64_t pool;
    uint64_t rounds; /* FEISTEL, BUCKETS */
    uint64_t outer;  /* BUCKETS: a tarn_order_outer */

    /* BUCKETS: the number of samples in each bucket, in order. The sum must be the count
     * of the order. With mix (glzn's shard mixing) these are the shards, and the buckets
     * are equal parts of the whole, on average mix per shard. mix 0: no mixing. */
    const uint64_t *buckets;
    size_t n_buckets;
    uint64_t mix;

    /* One for each sample. They are copied, as the buckets are. */
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

#define TARN_MAX_ORDER        (UINT64_C(1) << 62) /* samples and positions */
#define TARN_MAX_ORDER_RANKS  (UINT64_C(1) << 30)
#define TARN_MAX_ORDER_BATCH  (UINT64_C(1) << 30)
#define TARN_MAX_ORDER_ROUNDS 64u

/* Creates an order of samples 0 to count - 1. options may be NULL. Close it with
 * tarn_order_close. */
TARN_API TARN_CHECKED tarn_status tarn_order_open(uint64_t count,
                                                  const tarn_order_options *options,
                                                  tarn_order **out, tarn_error *err);
TARN_API void tarn_order_close(tarn_order *order);

/* --- Samples of a rank ------------------------------------------------------------- */

typedef struct tarn_order_info {
    tarn_order_kind kind;
    const char *name; /* name of the kind */
    uint64_t count;   /* samples */
    uint64_t seed, epoch;
    uint64_t total;   /* positions in an epoch, for all ranks together */
    uint64_t start;   /* positions that are left out at the beginning */
    uint64_t length;  /* samples of this rank */
    uint64_t batches; /* batches of this rank; 0 if options.batch is 0 */
} tarn_order_info;

/* Fills *out, of size bytes. */
TARN_API void tarn_order_info_get(const tarn_order *order, tarn_order_info *out,
                                  size_t size);

/* Writes the numbers of count samples of this rank to out_samples, starting with its
 * sample number from. TARN_ERR_USAGE past the end. */
TARN_API TARN_CHECKED tarn_status tarn_order_fill(const tarn_order *order, uint64_t from,
                                                  uint64_t count, uint64_t *out_samples,
                                                  tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
