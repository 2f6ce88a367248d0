/* tarn/loader.h: prepares batches of samples ahead of the caller.
 *
 *     tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
 *     tarn_loader *loader;
 *     tarn_batch *batch;
 *     tarn_status status;
 *     o.batch = 256;
 *     o.threads = 8;
 *     o.image = &steps;
 *     if (tarn_loader_open(shuffled, &o, &loader, &err) != TARN_OK) return fail(&err);
 *     for (;;) {
 *         status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err);
 *         if (status != TARN_OK) break;
 *         train(batch->columns[0].data, batch->count);
 *         tarn_batch_release(batch);
 *     }
 *     tarn_loader_close(loader);
 *
 * tarn_loader_next returns TARN_END at the end of an epoch; call it again for the next
 * epoch.
 *
 * The dataset determines which samples are loaded, their order, and which of them belong
 * to this rank (tarn/dataset.h). Batch k of a rank always has the same positions: a
 * sample that cannot be used leaves a gap in its batch, and no other sample moves.
 *
 * How it works. Threads prepare a limited number of batches (prefetch) at a time, in
 * order:
 *
 *     dataset ->  fetch one batch     ->  decode its samples       ->  deliver
 *                 (a thread for each)     (all threads, in chunks)     (in order)
 *
 * A thread first looks for a batch to fetch, as long as fewer than prefetch batches are
 * in progress, and then for samples to decode, oldest batch first. Fetching looks up
 * where the samples are stored and reads fields that stay bytes directly into the batch.
 * Decoding writes directly into the batch. When prefetch batches are ready, the threads
 * sleep. The result depends only on the dataset and the options, never on the number of
 * threads. With no threads, the caller does the work.
 *
 * The first tarn_loader_next starts the threads. Only one thread at a time may use a
 * loader, but any thread may release a batch, even after its loader is closed. After a
 * fork, the child's loader continues independently from the position of the parent's
 * loader, with its own threads. The child also has its own copy of each batch that was
 * held.
 */
#ifndef TARN_LOADER_H
#define TARN_LOADER_H

#include <tarn/array.h>
#include <tarn/base.h>
#include <tarn/codec.h>
#include <tarn/collate.h>
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
#define TARN_MAX_LOADER_LISTED  1024u      /* skipped samples in the list */
#define TARN_NO_TIMEOUT         UINT32_MAX /* milliseconds */

/* --- Field conversion --------------------------------------------------------------- */

typedef enum tarn_load_as {
    /* Decoded as the name of the field requires (tarn/codec.h). Rows of arrays and
     * columns of record packs keep their types. Numbers and arrays become one array if
     * all in a batch have the same type and shape. All other values become bytes. Lists
     * of arrays (npz) stay bytes as stored. */
    TARN_LOAD_AUTO = 0,
    TARN_LOAD_BYTES = 1,   /* as stored, consecutively */
    TARN_LOAD_VIEWS = 2,   /* as stored, in place */
    TARN_LOAD_INTEGER = 3, /* the text of an integer, or an array of one: 64 bits */
    /* A mask, which follows the image of its sample: it gets the part, the resize and the
     * flip that the steps give to an image of its size. Each label becomes the nearest
     * label, so values and type stay as stored; the channels, mean, std, type and layout
     * of the steps do not apply. Any array [height, width] or [height, width, channels]
     * can be a mask: a label map, npy, rle or an image; a PNG with a palette gives its
     * indices. Another field must be an image whose steps choose parts in the same way.
     * A mask of a size that none of these images has is an error of its sample. With
     * image steps, AUTO loads label maps (seg8, seg16, ...) in this way. */
    TARN_LOAD_MASK = 4
} tarn_load_as;

typedef struct tarn_load_field {
    const char *field; /* a field of the dataset; with views, a template */
    tarn_load_as as;
    const tarn_image_steps *image; /* AUTO, MASK: the steps for images, or NULL */
} tarn_load_field;

/* Decodes an image of a format that the library does not know. *out must become one
 * array, packed and of native byte order: [height, width] or [height, width, channels] of
 * u1 or u2, with 1, 3 or 4 channels; for a mask, of any type. tarn_value_release frees
 * it. A failure is an error of the sample, except TARN_ERR_CANCELLED and TARN_ERR_MEMORY,
 * after which the batch can be requested again. */
typedef tarn_status (*tarn_fallback)(void *context, const char *field, const void *data,
                                     size_t size, tarn_value *out, tarn_error *err);

/* --- A function of yours for each sample ---------------------------------------------
 */

/* What a map gets: one sample, after it was decoded. Valid until the map returns. Only
 * the library creates these, and new members are added at the end. */
typedef struct tarn_map_input {
    uint64_t sample;   /* its number, as in tarn_batch */
    uint64_t epoch;    /* and the position of the sample in it, over all ranks: */
    uint64_t position; /* a sample that occurs twice has two positions */
    /* For random choices: it depends on the seed of the loader, the epoch and the
     * position, and on nothing else, such as threads, ranks or where a run resumed. */
    uint64_t seed;
    const char *key; /* NUL-terminated; NULL with no_keys */
    size_t key_size;
    /* One for each of fields, ARRAY (numbers have no dimensions) or BYTES. */
    const tarn_value *values;
    size_t n_values;
} tarn_map_input;

/* Where a map puts what it makes. */
typedef struct tarn_map_output tarn_map_output;

/* A function that is called once for each sample, and sets each of map_fields once.
 *
 * Threads: it is called from the threads of the loader, for many samples at once and in
 * any order; without threads, and for samples that went through the fallback, from the
 * thread that calls tarn_loader_next. It must not use the loader, and must not change
 * what context points to without a lock of its own. Batches have the samples in their
 * order, whatever the order of the calls. It may be called for samples that are never
 * delivered, and again for the same sample, after tarn_loader_back or in a forked child.
 *
 * It returns TARN_OK; TARN_END to drop the sample; or a failure, with a message in
 * err->message (and, if it is about a file, a path). Both leave a hole in the batch, as a
 * sample does that cannot be decoded, and on_error says what happens to it. The library
 * adds the sample's number, key and shard to the message. TARN_ERR_MEMORY,
 * TARN_ERR_USAGE and TARN_ERR_CANCELLED are failures of the whole batch. A function that
 * takes long should return TARN_ERR_CANCELLED when tarn_map_cancelled is true:
 * tarn_loader_close waits for it. */
typedef tarn_status (*tarn_map)(void *context, const tarn_map_input *in,
                                tarn_map_output *out, tarn_error *err);

/* Sets column number column of map_fields for this sample: a copy of an INTEGER, REAL,
 * ARRAY, TEXT, JSON or BYTES. Values of all samples become a column of the batch by the
 * rules of fields. */
TARN_API TARN_CHECKED tarn_status tarn_map_put(tarn_map_output *out, size_t column,
                                               const tarn_value *value, tarn_error *err);

/* The same for an array that you write yourself: *data is set to memory for it, aligned
 * to its elements, which is that of the batch if the shape is the one of earlier batches.
 * It has no defined contents. */
TARN_API TARN_CHECKED tarn_status tarn_map_room(tarn_map_output *out, size_t column,
                                                tarn_dtype dtype, unsigned ndim,
                                                const uint64_t *shape, void **data,
                                                tarn_error *err);

/* Returns whether the loader is being closed or moved, so that the result is not used. */
TARN_API bool tarn_map_cancelled(const tarn_map_output *out);

/* --- Options ------------------------------------------------------------------------ */

/* What happens if a sample cannot be read or decoded. Running out of memory never counts
 * as an error of a sample. A batch without any usable sample is always an error. */
typedef enum tarn_on_error {
    TARN_ON_ERROR_RAISE = 0,  /* the batch is not delivered: tarn_loader_next fails */
    TARN_ON_ERROR_SKIP = 1,   /* the batch is smaller */
    TARN_ON_ERROR_REPLACE = 2 /* the next usable sample of the batch replaces it */
} tarn_on_error;

#define TARN_NO_ERROR_LIMIT UINT64_MAX

typedef struct tarn_loader_options {
    size_t size; /* of this struct; set by the initialiser */

    uint64_t batch; /* samples per batch; must be set */
    /* All ranks get the same number of batches. With TARN_UNEVEN_DROP and PAD these are
     * full batches; with KEEP the samples of each rank are spread evenly over them. */
    bool equal_batches;
    bool drop_last; /* only full batches, the same number on every rank */
    uint64_t seed;  /* for random image steps; 0: the seed of the dataset's order */

    /* A state from tarn_loader_state to resume from; NULL: start at the beginning. The
     * rules of tarn_dataset_resume apply. */
    const char *state;
    size_t state_len;

    unsigned threads; /* 0: the calling thread does the work */
    /* Batches in preparation or ready; 0: enough to keep the threads busy. */
    unsigned prefetch;
    /* Number of epochs: after epoch epochs - 1 every tarn_loader_next is TARN_END. 0: no
     * end. */
    uint64_t epochs;

    /* NULL: all fields of the dataset, AUTO. An empty list gives batches with keys and
     * numbers only. */
    const tarn_load_field *fields;
    size_t n_fields;
    /* For images without their own steps. TARN_ERR_USAGE if there are no such images. */
    const tarn_image_steps *image;
    const tarn_views *views;           /* selects fields for each sample; borrowed */
    const tarn_decode_options *decode; /* NULL: the defaults */
    bool no_keys;

    tarn_on_error on_error;
    /* SKIP, REPLACE: unusable samples allowed over all epochs; after that, RAISE. */
    uint64_t error_limit;
    tarn_notice notice; /* called for each such sample, from tarn_loader_next; or NULL */
    void *notice_context;

    /* An allocator for arrays, for example for pinned or shared memory. Set both
     * functions or neither. They are called from the loader's threads. Sizes are
     * multiples of 64 bytes, and the memory must be aligned to 64 bytes. */
    void *(*alloc)(void *context, size_t size);
    void (*free)(void *context, void *memory, size_t size);
    void *memory_context;

    /* For each of fields the name that selects its codec, for example "png" for the
     * payload of a record pack; NULL: the field's own. NULL if all are. A name that no
     * codec has is TARN_ERR_USAGE. */
    const char *const *codecs;
    /* Called by tarn_loader_next for each image of an unknown format; the steps are then
     * applied to its pixels. NULL: such an image is an error of its sample. */
    tarn_fallback fallback;
    void *fallback_context;

    /* For each of fields (with map, of map_fields) how its arrays become one array if
     * they have different shapes; NULL: they stay separate (ARRAYS). NULL if all do. A
     * value that is not an array, or is longer than it may be, is an error of its sample;
     * values that do not fit together are an error of the batch, whatever on_error is.
     * TARN_ERR_USAGE for a field that is loaded as bytes, views, integers, or with image
     * steps. */
    const tarn_collate_options *const *collate;

    /* A function of yours, called with the values of fields. Batches then have the
     * columns map_fields, which it sets, and not those of fields. collate is for these
     * columns. */
    tarn_map map;
    void *map_context;
    const char *const *map_fields;
    size_t n_map_fields;
} tarn_loader_options;

#define TARN_LOADER_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_loader_options), .error_limit = TARN_NO_ERROR_LIMIT          \
    }
TARN_API void tarn_loader_options_init(tarn_loader_options *options, size_t size);

/* Opens a loader. The dataset may be closed before the loader; it then stays open until
 * the loader is closed. TARN_ERR_USAGE if the options are invalid; the message says
 * which. This function does not read data and does not start threads. Close the loader
 * with tarn_loader_close. */
TARN_API TARN_CHECKED tarn_status tarn_loader_open(tarn_dataset *dataset,
                                                   const tarn_loader_options *options,
                                                   tarn_loader **out, tarn_error *err);

/* Closes a loader. May be called at any time: discards batches in preparation and waits
 * for the threads, which takes no longer than one sample. */
TARN_API void tarn_loader_close(tarn_loader *loader);

/* --- Batches ----------------------------------------------------------------------- */

typedef enum tarn_column_kind {
    /* Same type and shape: data is [count, shape...], aligned to 64. */
    TARN_COLUMN_ARRAY = 0,
    TARN_COLUMN_ARRAYS = 1, /* differing types or shapes: arrays, one per sample */
    TARN_COLUMN_BYTES = 2,  /* sample i is data[offsets[i]] up to data[offsets[i + 1]] */
    TARN_COLUMN_VIEWS = 3,  /* views, one per sample */
    /* Joined along their first axis: data is [rows, shape...], aligned to 64. Sample i is
     * rows offsets[i] up to offsets[i + 1] - 1. */
    TARN_COLUMN_RAGGED = 4
} tarn_column_kind;

/* One field of a batch. Values are little-endian. The elements of one sample are
 * contiguous, and the last index varies fastest. The struct keeps its members and its
 * size as long as the soname stays the same. */
typedef struct tarn_column {
    const char *field;
    tarn_column_kind kind;
    tarn_dtype dtype;         /* ARRAY, RAGGED */
    unsigned ndim;            /* ARRAY: of one sample, 0 for a number; RAGGED: of a row */
    const uint64_t *shape;    /* ARRAY: of one sample; RAGGED: of a row */
    unsigned char *data;      /* ARRAY, BYTES, RAGGED */
    uint64_t size;            /* ARRAY, BYTES, RAGGED: total bytes of data */
    const uint64_t *offsets;  /* BYTES, RAGGED: count + 1 offsets, the first is 0 */
    const tarn_array *arrays; /* ARRAYS */
    const tarn_view *views;   /* VIEWS */
} tarn_column;

/* A batch. The loader owns all of its memory until the batch is released. You may
 * write to the arrays. Only the library creates batches, and new members are added at
 * the end. */
typedef struct tarn_batch {
    size_t count; /* samples */
    uint64_t epoch;
    uint64_t number;         /* of the batch in the epoch, or since resuming */
    const uint64_t *samples; /* sample numbers, see tarn_dataset_sequence */
    /* The key of sample i is keys[key_offsets[i]] up to keys[key_offsets[i + 1]] - 1,
     * which is a NUL. NULL with no_keys. */
    const char *keys;
    const uint64_t *key_offsets;
    /* First the fields, in order, or those that map makes; then the masks and the lengths
     * that collate asks for, as arrays with the names FIELD_mask and FIELD_lengths. */
    tarn_column *columns;
    size_t n_columns;
} tarn_batch;

/* Gets the next batch, or TARN_END, once, at the end of each epoch; then the next
 * epoch begins. The call waits or works for at most about the given number of
 * milliseconds. If that is not enough, it returns TARN_OK and sets *out to NULL; no
 * batch is lost. After a failure the loader stays before the failed batch, and further
 * calls fail again; use tarn_loader_set_epoch to leave that epoch. Release the batch
 * with tarn_batch_release. */
TARN_API TARN_CHECKED tarn_status tarn_loader_next(tarn_loader *loader,
                                                   unsigned milliseconds,
                                                   tarn_batch **out, tarn_error *err);

/* For each sample of a batch, its place in the batch before samples that could not be
 * used were left out or replaced (with TARN_ON_ERROR_REPLACE, the place of the sample
 * that was copied), and its position in the epoch, over all ranks. Both have room for
 * batch->count numbers, or are NULL. Returns the number of samples before any were left
 * out. Not for batches that were released. */
TARN_API size_t tarn_batch_places(const tarn_batch *batch, uint64_t *places,
                                  uint64_t *positions);

/* Moves the loader back to before the batch that it delivered last, for callers that
 * could not use that batch. The batch is then delivered again. The old batch must still
 * be released. Does nothing if the last call of tarn_loader_next did not deliver a batch,
 * or if the epoch was set since. */
TARN_API void tarn_loader_back(tarn_loader *loader);

/* Returns the memory of a batch to the loader for other batches. Any thread may call it.
 * Any number of batches may be held; the loader then allocates memory for that many more.
 * NULL is allowed. */
TARN_API void tarn_batch_release(tarn_batch *batch);

/* --- Position, state and statistics ------------------------------------------------ */

/* Moves to the beginning of an epoch. Costs nothing if the loader is already there. */
TARN_API TARN_CHECKED tarn_status tarn_loader_set_epoch(tarn_loader *loader,
                                                        uint64_t epoch, tarn_error *err);

typedef struct tarn_loader_info {
    uint64_t epoch;   /* of the next batch; at the end, the number of epochs */
    uint64_t batches; /* in a whole epoch, for this rank */
    uint64_t left;    /* batches of this epoch that are not delivered yet */
    uint64_t rank, world_size;
    bool over; /* all epochs have been delivered */
} tarn_loader_info;

/* Fills *out, of size bytes. */
TARN_API void tarn_loader_info_get(const tarn_loader *loader, tarn_loader_info *out,
                                   size_t size);

/* Gets the state after the last delivered batch, in the form of tarn_dataset_state.
 * Batches prepared ahead do not count. You can resume from it with any number of ranks
 * and threads and any batch size. Free out with tarn_text_reset. */
TARN_API TARN_CHECKED tarn_status tarn_loader_state(tarn_loader *loader, tarn_text *out,
                                                    tarn_error *err);

/* The same before the last batches that were delivered in this epoch, for callers that
 * request batches before they use them. TARN_ERR_USAGE if there were fewer. */
TARN_API TARN_CHECKED tarn_status tarn_loader_state_before(tarn_loader *loader,
                                                           uint64_t batches,
                                                           tarn_text *out,
                                                           tarn_error *err);

/* Only the library creates these, and new members are added at the end. */
typedef struct tarn_skipped {
    uint64_t epoch, sample;
    tarn_error error;
    const char *key; /* of the sample; NULL if it cannot be read */
} tarn_skipped;

/* Gets sample number i of those that were skipped or replaced since the loader was
 * opened, in the order in which they would have been delivered. Only the first
 * TARN_MAX_LOADER_LISTED of them are kept. Returns NULL past the last. Borrowed until the
 * next tarn_loader_next. */
TARN_API const tarn_skipped *tarn_loader_skipped(const tarn_loader *loader, size_t i);

typedef struct tarn_loader_stats {
    uint64_t batches, samples, skipped;
    uint64_t bytes;      /* of fields as stored */
    double seconds;      /* since the first batch was requested */
    double waited;       /* time that the caller waited for batches */
    double read, decode; /* seconds, summed over all threads */
    double idle;         /* seconds that threads slept because prefetch was reached */
    /* "read", "decode", "caller" if waited is under a twentieth of seconds, or "none"
     * before the first batch. */
    const char *bottleneck;
    uint64_t fallbacks; /* images that the fallback decoded */
} tarn_loader_stats;

/* Fills *out, of size bytes. */
TARN_API void tarn_loader_stats_get(const tarn_loader *loader, tarn_loader_stats *out,
                                    size_t size);

#ifdef __cplusplus
}
#endif
#endif
