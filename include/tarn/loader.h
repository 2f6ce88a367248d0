/* tarn/loader.h: batches of samples, prepared ahead of the caller.
 *
 *     tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
 *     tarn_loader *loader;
 *     tarn_batch *batch;
 *     tarn_status status;
 *     o.batch = 256;
 *     o.threads = 8;
 *     o.image = &steps;
 *     if (tarn_loader_open(shuffled, &o, &loader, &err) != TARN_OK) return fail(&err);
 *     while ((status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err)) ==
 * TARN_OK) { train(batch->columns[0].data, batch->count); tarn_batch_release(batch); }
 * (TARN_END when the epoch is over; call it again for tarn_loader_close(loader);      the
 * next epoch)
 *
 * The dataset says which samples come in which order, and which of them are this rank's
 * (tarn/dataset.h). Batch k of a rank always has the same positions: a sample that cannot
 * be used leaves a hole in its batch, and no other sample moves.
 *
 * How it works. Threads prepare batches in order, a few of them (prefetch) at a time:
 *
 *     dataset ->  fetch one batch     ->  decode its samples       ->  hand out
 *                 (a thread for each)     (all threads, in chunks)     (in order)
 *
 * A thread looks for a batch to fetch first, as long as fewer than prefetch are on their
 * way, and then for samples to decode, the oldest batch first. Fetching looks up where
 * the samples are and reads what stays bytes straight into the batch; decoding writes
 * straight into it. When prefetch batches are ready the threads sleep. What comes out
 * depends on the dataset and the options only, never on the number of threads; with none,
 * the caller does the work.
 *
 * Threads are started by the first tarn_loader_next. A loader belongs to one thread at a
 * time, but a batch may be released by any thread, also after its loader is closed. After
 * a fork the child's loader goes on by itself from where the parent's stood, with threads
 * of its own; a batch that was being held is the child's too.
 */
#ifndef TARN_LOADER_H
#define TARN_LOADER_H

#include <tarn/array.h>
#include <tarn/base.h>
#include <tarn/codec.h>
#include <tarn/dataset.h>
#include <tarn/image.h>
#include <tarn/order.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_loader tarn_loader;

#define TARN_MAX_LOADER_THREADS 1024u
#define TARN_MAX_LOADER_AHEAD   1024u      /* batches */
#define TARN_MAX_LOADER_BATCH   (1u << 24) /* samples in one batch */
#define TARN_MAX_LOADER_LISTED  1024u      /* skipped samples that are listed */
#define TARN_NO_TIMEOUT         UINT32_MAX /* milliseconds */

/* --- What becomes of a field ------------------------------------------------------- */

typedef enum tarn_load_as {
    /* Decoded as its name says (tarn/codec.h), rows of arrays and columns of packs as
     * what they are: numbers and arrays become one array if they are alike in a batch,
     * all else bytes. Lists of arrays (npz) stay bytes as they are stored. */
    TARN_LOAD_AUTO = 0,
    TARN_LOAD_BYTES = 1,  /* as stored, one behind the other */
    TARN_LOAD_VIEWS = 2,  /* as stored, where they lie */
    TARN_LOAD_INTEGER = 3 /* text of an integer, or an array of one: 64 bits */
} tarn_load_as;

typedef struct tarn_load_field {
    const char *field; /* of the dataset; with views, one of the templates */
    tarn_load_as as;
    const tarn_image_steps *image; /* AUTO: what is done with an image; or NULL */
} tarn_load_field;

/* What happens when a sample cannot be read or decoded. Running out of memory is never
 * the sample's fault. A batch without a usable sample is an error in any case. */
typedef enum tarn_on_error {
    TARN_ON_ERROR_RAISE = 0,  /* its batch is not delivered: tarn_loader_next fails */
    TARN_ON_ERROR_SKIP = 1,   /* the batch is smaller */
    TARN_ON_ERROR_REPLACE = 2 /* the next usable sample of the batch comes in its place */
} tarn_on_error;

#define TARN_NO_ERROR_LIMIT UINT64_MAX

typedef struct tarn_loader_options {
    size_t size; /* of this struct; set by the initialiser */

    uint64_t batch; /* samples in a batch: has to be set */
    /* All ranks get the same number of batches: of full ones with TARN_UNEVEN_DROP and
     * PAD; with KEEP each rank's samples are spread evenly over them. */
    bool equal_batches;
    bool drop_last; /* only full batches, as many on every rank */
    uint64_t seed;  /* of what is random in images; 0: that of the dataset's order */

    const char *state; /* of tarn_loader_state, to continue from there; NULL: from the
                          beginning. What tarn_dataset_resume says holds. */
    size_t state_len;

    unsigned threads; /* 0: the caller's */
    unsigned
        prefetch;    /* batches being prepared or ready; 0: enough to keep threads busy */
    uint64_t epochs; /* in all: after epoch epochs - 1 every tarn_loader_next is TARN_END;
                        0: no end */

    const tarn_load_field *fields; /* NULL: all of the dataset's, AUTO; a list of none
                                      gives batches of keys and numbers */
    size_t n_fields;
    const tarn_image_steps *image;     /* for images that have no steps of their own */
    const tarn_views *views;           /* choose fields for each sample; borrowed */
    const tarn_decode_options *decode; /* NULL: the defaults */
    bool no_keys;

    tarn_on_error on_error;
    uint64_t
        error_limit; /* SKIP, REPLACE: samples in all epochs, after which it is RAISE */
    tarn_notice notice; /* called for each such sample, from tarn_loader_next; or NULL */
    void *notice_context;

    /* Memory for arrays, such as pinned memory; both or none. It is called from the
     * loader's threads, with multiples of 64 bytes, and gives memory aligned to 64. */
    void *(*alloc)(void *context, size_t size);
    void (*free)(void *context, void *memory, size_t size);
    void *memory_context;
} tarn_loader_options;

#define TARN_LOADER_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_loader_options), .error_limit = TARN_NO_ERROR_LIMIT          \
    }
TARN_API void tarn_loader_options_init(tarn_loader_options *options, size_t size);

/* The dataset may be closed before the loader; it is then closed with it. TARN_ERR_USAGE
 * says what in the options cannot be. Nothing is read and no thread started yet. */
TARN_API TARN_CHECKED tarn_status tarn_loader_open(tarn_dataset *dataset,
                                                   const tarn_loader_options *options,
                                                   tarn_loader **out, tarn_error *err);

/* At any moment: what is being made is dropped, and threads are waited for, which takes
 * as long as one sample. */
TARN_API void tarn_loader_close(tarn_loader *loader);

/* --- Batches ----------------------------------------------------------------------- */

typedef enum tarn_column_kind {
    TARN_COLUMN_ARRAY = 0,  /* all alike: data is [count, shape...], aligned to 64 */
    TARN_COLUMN_ARRAYS = 1, /* not all alike: arrays, one for each sample */
    TARN_COLUMN_BYTES = 2,  /* sample i is data[offsets[i]] up to data[offsets[i + 1]] */
    TARN_COLUMN_VIEWS = 3   /* views, one for each sample */
} tarn_column_kind;

/* Little-endian; elements of one sample are consecutive, the last index fastest.
 * It keeps its members and size for as long as the soname stays. */
typedef struct tarn_column {
    const char *field;
    tarn_column_kind kind;
    tarn_dtype dtype;         /* ARRAY */
    unsigned ndim;            /* ARRAY: of one sample; 0 for a number */
    const uint64_t *shape;    /* ARRAY: of one sample */
    unsigned char *data;      /* ARRAY, BYTES */
    uint64_t size;            /* ARRAY, BYTES: bytes of data in all */
    const uint64_t *offsets;  /* BYTES: count + 1 of them, the first is 0 */
    const tarn_array *arrays; /* ARRAYS */
    const tarn_view *views;   /* VIEWS */
} tarn_column;

/* All of it belongs to the loader until the batch is released; the arrays may be written
 * to. Batches are made by the library only, and new members are added at the end. */
typedef struct tarn_batch {
    size_t count; /* samples */
    uint64_t epoch;
    uint64_t number;         /* of the batch in the epoch, or since it was resumed */
    const uint64_t *samples; /* their numbers, see tarn_dataset_sequence */
    const char *keys;        /* sample i's is keys[key_offsets[i]] up to
                                keys[key_offsets[i + 1]] - 1, which is a NUL; NULL with
                                no_keys */
    const uint64_t *key_offsets;
    tarn_column *columns;
    size_t n_columns;
} tarn_batch;

/* A column by its number, for languages in which pointers are not arrays; NULL past the
 * last. */
TARN_API const tarn_column *tarn_batch_column(const tarn_batch *batch, size_t number);

/* The next batch, or TARN_END, once, at the end of each epoch; then the next epoch
 * begins. It waits or works for about so many milliseconds at most; *out is NULL with
 * TARN_OK if that was not enough, and nothing is lost. After a failure the loader is
 * before the batch that failed, and fails again; tarn_loader_set_epoch leaves that epoch.
 */
TARN_API TARN_CHECKED tarn_status tarn_loader_next(tarn_loader *loader,
                                                   unsigned milliseconds,
                                                   tarn_batch **out, tarn_error *err);

/* Puts the loader before the batch that it delivered last, for callers that could not use
 * that batch: it comes again. The batch itself still has to be released. Does nothing if
 * the last call of tarn_loader_next delivered no batch, or the epoch was set since. */
TARN_API void tarn_loader_back(tarn_loader *loader);

/* Gives the memory back for other batches. Any number of batches may be held: the loader
 * takes memory for as many more. NULL is harmless. */
TARN_API void tarn_batch_release(tarn_batch *batch);

/* --- Where it stands --------------------------------------------------------------- */

/* From the beginning of an epoch. Costs nothing if that is where the loader is. */
TARN_API TARN_CHECKED tarn_status tarn_loader_set_epoch(tarn_loader *loader,
                                                        uint64_t epoch, tarn_error *err);

typedef struct tarn_loader_info {
    uint64_t
        epoch; /* that the next batch is of; after the last one, the number of them */
    uint64_t batches; /* of a whole epoch, for this rank */
    uint64_t left;    /* batches of this epoch that were not delivered yet */
    uint64_t rank, world_size;
    bool over; /* all epochs have been delivered */
} tarn_loader_info;

TARN_API void tarn_loader_info_get(const tarn_loader *loader, tarn_loader_info *out,
                                   size_t size);

/* The state after the last batch that was delivered, as tarn_dataset_state gives it;
 * batches prepared ahead do not count. It continues on any number of ranks, threads and
 * batch sizes. */
TARN_API TARN_CHECKED tarn_status tarn_loader_state(tarn_loader *loader, tarn_text *out,
                                                    tarn_error *err);

typedef struct tarn_skipped {
    uint64_t epoch, sample;
    tarn_error error;
} tarn_skipped;

/* The samples that were skipped or replaced since the loader was opened, in the order
 * they would have come; the first TARN_MAX_LOADER_LISTED of them, NULL past the last.
 * Borrowed until the next tarn_loader_next. */
TARN_API const tarn_skipped *tarn_loader_skipped(const tarn_loader *loader, size_t i);

typedef struct tarn_loader_stats {
    uint64_t batches, samples, skipped;
    uint64_t bytes;         /* of fields, as stored */
    double seconds;         /* since the first batch was asked for */
    double waited;          /* by the caller, for batches */
    double read, decode;    /* seconds of all threads together */
    double idle;            /* seconds threads slept, because prefetch was reached */
    const char *bottleneck; /* "read", "decode", "caller" if waited is under a twentieth
                               of seconds, or "none" before the first batch */
} tarn_loader_stats;

TARN_API void tarn_loader_stats_get(const tarn_loader *loader, tarn_loader_stats *out,
                                    size_t size);

#ifdef __cplusplus
}
#endif
#endif
