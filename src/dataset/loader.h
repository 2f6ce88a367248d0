/* Internals of the loader. A window is a batch in the making: consecutive positions of an
 * epoch, with all the memory a batch needs. An engine owns the threads that prepare
 * windows ahead of the caller. A setup holds what is fixed when the loader is opened.
 *
 *   loader.c         the caller's side: open, next batch, state, forks
 *   loader_setup.c   how each field is loaded
 *   loader_epoch.c   the batches of an epoch
 *   loader_engine.c  threads, and the choice of the next piece of work
 *   loader_fetch.c   first stage of a window: samples, keys, raw bytes
 *   loader_decode.c  decodes one field of one sample into the window
 *   loader_map.c     calls the caller's function with a decoded sample
 *   loader_window.c  memory of windows
 *   loader_seal.c    last stage of a window: closes holes, builds columns from pieces
 *   collate.c        how pieces become one array; knows nothing of loaders
 *   simulate.c       what a loader would request of remote files
 *
 * The rules for threads, locks and memory orders are at the top of loader_engine.c. */
#ifndef TARN_DATASET_LOADER_H
#define TARN_DATASET_LOADER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <tarn/loader.h>

#include "base/buf.h"
#include "base/slab.h"
#include "codec/codec.h"
#include "codec/pixels.h"
#include "dataset/collate.h"
#include "io/remote.h"

/* --- Setup ------------------------------------------------------------------------- */

typedef enum tarn__load_way {
    TARN__LOAD_READ,  /* bytes, read for the whole window in one call */
    TARN__LOAD_VIEW,  /* a view for each sample */
    TARN__LOAD_MAP,   /* made by the caller's function from the other columns */
    TARN__LOAD_STEPS, /* an image, decoded to the plan's shape */
    TARN__LOAD_MASK,  /* labels that follow the images with an equal plan */
    TARN__LOAD_VALUE  /* decoded; type and shape depend on the data */
} tarn__load_way;

enum {
    TARN__MAX_HINTS = 64,
    TARN__EARLY_BYTES = 4096 /* per sample, decoded */
};

typedef struct tarn__load_column {
    char *name;
    uint32_t field; /* number of the dataset's field; with views, of the template */
    tarn__load_way way;
    tarn_load_as as;
    char *codec;      /* the name that selects the codec: the field's, or a payload's */
    bool codec_given; /* by the caller; otherwise it may differ between samples */
    bool by_name;     /* the codec decides what the values are */
    tarn__codec_class decoder; /* class of that codec */
    tarn__squeeze squeeze;     /* STEPS */
    bool image;                /* decoded as an image, and there is a fallback */
    tarn__image_plan *plan;    /* STEPS, MASK */
    tarn__collate *collate;    /* or NULL: one array only if all have the same shape */
    size_t mask, lengths;      /* numbers of these columns in the batch, or 0 */

    /* The expected shape of a sample: from the plan, from a number, or from the last
     * window whose samples all had the same shape; with collate, the longest of a window.
     * It affects speed only. hints and
     * n_hints are guarded by the engine's lock once threads run. */
    _Atomic(const tarn__shape *) hint;
    tarn__shape *hints[TARN__MAX_HINTS];
    unsigned n_hints;
} tarn__load_column;

static inline bool tarn__load_decodes(const tarn__load_column *column)
{
    return column->way >= TARN__LOAD_STEPS;
}

typedef struct tarn__load_setup {
    atomic_uint users;
    tarn_loader_options o; /* without pointers to the caller's lists, steps, decode */
    tarn_decode_options decode;
    tarn_dataset *dataset;
    tarn__load_column *columns;
    size_t n_columns;
    size_t first; /* column that batches have: all, or those of map, which are last */
    /* Names of the masks and lengths, which follow the columns in a batch. */
    char **extra;
    size_t n_extra;
    size_t batch; /* samples in a batch */
    size_t chunk; /* samples decoded by one thread at a time */
    bool decodes; /* a column is decoded in chunks, from the first window on */
    /* Data that is not in memory: the bytes of fields to be decoded are first read into
     * the window, many at a time. */
    bool staged;
    bool
        remote; /* files are: what a window needs is fetched at once, before it is read */
    uint64_t seed;
} tarn__load_setup;

/* Whether the values of a column are so small that finding each of them would take longer
 * than decoding it. They are read in one call for the whole window, and decoded by the
 * thread that has just read them. */
static inline bool tarn__is_early(const tarn__load_column *c, const tarn__shape *hint)
{
    return c->way == TARN__LOAD_VALUE && hint && hint->bytes <= TARN__EARLY_BYTES &&
           !c->image;
}

/* Checks that the options are within their limits. */
TARN_CHECKED tarn_status tarn__setup_check(const tarn_loader_options *o, tarn_error *err);

TARN_CHECKED tarn_status tarn__setup_new(tarn_dataset *dataset,
                                         const tarn_loader_options *o, uint64_t seed,
                                         tarn__load_setup **out, tarn_error *err);
void tarn__setup_release(tarn__load_setup *setup);

/* Remembers the shape of a column's samples. The caller holds the engine's lock. */
void tarn__setup_hint(tarn__load_column *column, const tarn__shape *shape);

/* The same for a padded or ragged column, whose shapes differ: only whether the values
 * are small is remembered, so the hint changes when that does. */
void tarn__setup_hint_longest(tarn__load_column *column, const tarn__piece *pieces,
                              size_t count);

/* How far a loader of remote files is ahead of its caller. */
typedef struct tarn__ahead {
    unsigned fetchers; /* threads that only fetch; 0: the caller does everything */
    size_t near;       /* this many windows are allowed in any case ... */
    size_t depth;      /* ... and as many if they have less than bytes */
    uint64_t bytes;
} tarn__ahead;

tarn__ahead tarn__ahead_of(const tarn__load_setup *setup);

/* --- Epochs ------------------------------------------------------------------------ */

/* Batches are counted from where the loader was resumed. With equal batches and ranks of
 * unequal length, batch i is batch first + i of a loader that was not resumed. A run that
 * resumes with the same number of ranks therefore gets the batches of an uninterrupted
 * run. A state may be in the middle of such a batch, if it was saved with another number
 * of ranks or another batch size. Then there is one extra batch at the start, rest: it
 * divides the positions up to the end of that batch among the ranks. */
typedef struct tarn__epoch {
    atomic_uint users;
    tarn_dataset *set; /* the samples, without an order */
    tarn_order *order; /* in batches, for this rank */
    tarn_order *rest;  /* or NULL */
    uint64_t number;
    uint64_t batches; /* in the whole epoch, for this rank */
    uint64_t first;   /* number, in order, of the first batch that is left */
    uint64_t left;    /* number of batches left */
    uint64_t n_rest;  /* samples of this rank in the extra batch */
} tarn__epoch;

/* Takes ownership of set and order, also on failure. origin is the position of the first
 * batch of a loader that is not resumed. */
TARN_CHECKED tarn_status tarn__epoch_new(tarn_dataset *set, tarn_order *order,
                                         uint64_t origin, tarn__epoch **out,
                                         tarn_error *err);
tarn__epoch *tarn__epoch_use(tarn__epoch *epoch);

/* Batch i of those left: samples *out_from to *out_from + *out_count - 1 of the returned
 * order. NULL if there is no such batch. */
const tarn_order *tarn__epoch_batch(const tarn__epoch *epoch, uint64_t i,
                                    uint64_t *out_from, uint64_t *out_count);

/* Number of positions used on all ranks after i of the batches left. */
uint64_t tarn__epoch_used(const tarn__epoch *epoch, uint64_t i);
void tarn__epoch_release(tarn__epoch *epoch);

/* The same dataset and order in another epoch, from its beginning. */
TARN_CHECKED tarn_status tarn__epoch_other(const tarn__epoch *epoch, uint64_t number,
                                           tarn__epoch **out, tarn_error *err);

/* --- Windows ----------------------------------------------------------------------- */

/* A column of a window. */
typedef struct tarn__strip {
    unsigned char *data; /* the array, or concatenated bytes */
    size_t capacity;
    /* Memory of the mask and the lengths of a padded column. */
    unsigned char *mask, *lengths;
    size_t mask_capacity, lengths_capacity;
    const tarn__shape *hint; /* or NULL; piece i may be at data + i * hint->bytes */
    bool read;               /* its bytes are read for the whole window in one call */
    bool early; /* decoded by the thread that fetches the window, not in chunks */
    tarn__piece *pieces;
    uint64_t *offsets;
    tarn_array *arrays;
    tarn_view *views;
    size_t first_read; /* index of its first piece in window.read, or SIZE_MAX */
} tarn__strip;

/* A sample that could not be loaded. */
typedef struct tarn__fault {
    struct tarn__fault *next;
    size_t slot;
    uint64_t sample;
    tarn_error error;
} tarn__fault;

typedef enum tarn__window_stage {
    TARN__WINDOW_FETCHING,
    TARN__WINDOW_DECODING,
    TARN__WINDOW_READY
} tarn__window_stage;

typedef struct tarn__window {
    tarn_batch batch;     /* the caller's handle; must be the first member */
    tarn_column *columns; /* of the setup, then the extra ones */
    struct tarn__pool *pool;
    struct tarn__window *next;

    tarn__epoch *epoch;
    bool end;                /* marks the end of its epoch; has no samples or memory */
    tarn__epoch *following;  /* with end: the next epoch, or NULL */
    const tarn_order *order; /* order or rest of its epoch */
    uint64_t from;           /* first of this rank's samples in that order */
    size_t count;
    size_t planned; /* samples before holes were closed */
    bool closed;    /* holes were closed; numbers has the slot of each sample */

    /* Guarded by the engine's lock until the stage is READY. */
    tarn__window_stage stage;
    size_t next_chunk, n_chunks, chunks_left;
    tarn_status status; /* a failure that is not the fault of one sample */
    tarn_error *error;
    tarn__fault *faults; /* ascending by slot; reported ones are removed */

    uint64_t *samples;
    uint64_t *numbers;    /* scratch memory of the same length */
    atomic_uchar *faulty; /* by slot */
    /* Samples that the fallback must decode, by slot, and their number. The window is
     * sealed after the caller has decoded them. */
    unsigned char *deferred;
    size_t n_deferred;
    uint64_t fallbacks; /* images that the fallback decoded */
    tarn__buf keys;
    uint64_t *key_offsets;
    tarn_dataset_batch read;
    struct tarn__want *wants;
    /* Scratch memory for as many items as wants, and one more for each sample. */
    struct tarn__item *announced;
    tarn__stock stock; /* what it needs of remote files */
    uint64_t rank;     /* in the order of delivery */
    tarn__strip *strips;
    tarn__slab *slabs; /* one for each chunk, and one for the fetch */
    size_t n_slabs;
    uint64_t bytes; /* stored bytes that were read */
} tarn__window;

/* Unused windows. Lives until the last of its windows is released. */
typedef struct tarn__pool {
    atomic_uint users; /* the engine, and each window that is not in the free list */
    tarn__load_setup *setup;
    pid_t pid;            /* process that made it */
    pthread_mutex_t lock; /* guards free, n_free, and next of free windows */
    tarn__window *free;
    size_t n_free, keep;
} tarn__pool;

TARN_CHECKED tarn_status tarn__pool_new(tarn__load_setup *setup, size_t keep,
                                        tarn__pool **out, tarn_error *err);
void tarn__pool_release(tarn__pool *pool);

/* A window from the free list, or a new one. Its memory for pixels and bytes grows on
 * use. A window with end has no memory. */
TARN_CHECKED tarn_status tarn__window_take(tarn__pool *pool, bool end, tarn__window **out,
                                           tarn_error *err);
void tarn__window_release(tarn__window *window);

/* Prepares a strip for the pieces of count samples. */
TARN_CHECKED tarn_status tarn__strip_begin(const tarn__load_setup *setup, size_t column,
                                           tarn__strip *strip, size_t count,
                                           tarn_error *err);

/* Makes room for size bytes in *data, which has *capacity. Earlier contents are lost. */
TARN_CHECKED tarn_status tarn__window_room(const tarn__load_setup *setup,
                                           unsigned char **data, size_t *capacity,
                                           uint64_t size, tarn_error *err);

/* NULL if out of memory. */
tarn__shape *tarn__shape_copy(tarn__slab *slab, const tarn__shape *shape);

/* Builds the batch's columns from the pieces. Faulty samples are left out or replaced, as
 * the options say. */
TARN_CHECKED tarn_status tarn__window_seal(tarn__window *window, tarn_error *err);

/* Makes the message "sample 17 (n017), field jpg: ...", and adds the field's path and
 * offset if the error has none. field is the number of the dataset's field called name.
 */
void tarn__window_name(const tarn__window *window, size_t slot, const char *name,
                       uint32_t field, tarn_error *err);

/* Marks a sample as faulty. Any thread may call it; lock is the engine's, and the caller
 * does not hold it. */
void tarn__window_fault(tarn__window *window, pthread_mutex_t *lock, size_t slot,
                        const tarn_error *error);

/* --- The caller's side (loader.c) --------------------------------------------------- */

const tarn__load_setup *tarn__loader_setup(const tarn_loader *loader);

/* The epoch that the caller is in, borrowed, and how many of its batches were delivered.
 * NULL after the last one. */
tarn__epoch *tarn__loader_epoch(const tarn_loader *loader, uint64_t *out_delivered);

/* --- Work -------------------------------------------------------------------------- */

/* Memory that belongs to one thread. */
typedef struct tarn__worker {
    struct tarn__engine *engine;
    tarn_image_decoder *image;
    tarn_bytes plain;     /* a decompressed field */
    uint32_t (*sizes)[2]; /* width and height of the sample's images, by column */
    bool is_caller;       /* may call the fallback */
    bool deferred;        /* the last piece needs the fallback */
    bool no_fetch;        /* windows are fetched by others */
    bool no_decode;       /* fetches windows only */
    uint32_t *fields;     /* with views: fields chosen for a sample */
    tarn_value *values;   /* with map: of a sample, for each column */
    tarn_array *arrays;   /* that they point to */
    atomic_ullong read, decode, idle; /* nanoseconds */
} tarn__worker;

/* From now on this thread reads remote files from the stock of the window, and gives up
 * when the engine stops. Returns what it did before, for tarn__remote_begin. */
tarn__remote_task tarn__window_begin(const tarn__worker *worker, tarn__window *window);

/* Fetches what the window needs of remote files, all at once. Its samples are known. */
TARN_CHECKED tarn_status tarn__window_stock(tarn__worker *worker, tarn__window *window,
                                            tarn_error *err);

/* Fills in samples, keys, and the pieces of columns that are not decoded in chunks.
 * *out_late is set if others remain. Samples that cannot be read are marked as faulty; an
 * error is a failure of the whole window. */
TARN_CHECKED tarn_status tarn__fetch_window(tarn__worker *worker, tarn__window *window,
                                            bool *out_late, tarn_error *err);

/* Decodes the samples of a chunk. */
TARN_CHECKED tarn_status tarn__decode_chunk(tarn__worker *worker, tarn__window *window,
                                            size_t chunk, tarn_error *err);

/* Decodes the samples of a window that need the fallback. Afterwards the window can be
 * sealed. */
TARN_CHECKED tarn_status tarn__decode_deferred(tarn__worker *worker, tarn__window *window,
                                               tarn_error *err);

/* Decodes the given bytes as one field of one sample, into the strip or the slab. */
TARN_CHECKED tarn_status tarn__decode_piece(tarn__worker *worker, tarn__window *window,
                                            size_t slot, size_t column, uint32_t field,
                                            const unsigned char *data, size_t size,
                                            tarn__slab *slab, tarn_error *err);

/* Stores a copy of a value as the piece of a sample. LISTS of arrays are refused. */
TARN_CHECKED tarn_status tarn__piece_put(tarn__strip *strip, size_t slot,
                                         tarn__slab *slab, const tarn_value *value,
                                         tarn_error *err);

/* Makes room for an array of this shape as the piece of a sample: in the column if it has
 * the expected shape, otherwise in the slab. */
TARN_CHECKED tarn_status tarn__piece_room(tarn__strip *strip, size_t slot,
                                          tarn__slab *slab, const tarn__shape *shape,
                                          tarn_error *err);

/* Calls the caller's function with a decoded sample, and checks what it made. */
TARN_CHECKED tarn_status tarn__map_sample(tarn__worker *worker, tarn__window *window,
                                          size_t slot, tarn__slab *slab, tarn_error *err);

/* lock guards the members from first to error. The other members are set before threads
 * start, except threads and n_threads, which only the caller uses. */
typedef struct tarn__engine {
    tarn__load_setup *setup;
    tarn__pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t work;  /* wakes threads: there may be work */
    pthread_cond_t ready; /* wakes the caller: a window is ready, or planning failed */
    atomic_bool stop;

    /* Windows in the order of delivery. */
    tarn__window *first, *last;
    size_t n_windows, depth;
    size_t near;    /* more windows than this are allowed if they are not too large */
    bool may_widen; /* more than depth windows are allowed if they are small */
    uint64_t window_bytes; /* size of the last finished window */

    /* The batch to be planned next. */
    tarn__epoch *epoch; /* NULL: no more batches */
    uint64_t number;    /* of the batch in epoch */
    uint64_t planned;   /* windows */
    bool planning;      /* a thread plans, perhaps without the lock */
    tarn_status status; /* failure of planning */
    tarn_error error;

    tarn__worker *workers;
    tarn__worker caller; /* if there is a fallback: for deferred samples */
    pthread_t *threads;
    unsigned n_fetchers; /* threads that only fetch, as long as files are remote */
    unsigned fetching;   /* those that still do; guarded by the lock */
    unsigned n_workers;  /* at least 1: without threads, the caller's */
    unsigned n_threads;  /* running threads */
} tarn__engine;

/* Takes ownership of epoch, also on failure. Starts the threads, which continue with
 * batch number of the epoch. */
TARN_CHECKED tarn_status tarn__engine_new(tarn__load_setup *setup, tarn__epoch *epoch,
                                          uint64_t number, tarn__engine **out,
                                          tarn_error *err);
void tarn__engine_free(tarn__engine *engine);

/* Waits until the first window is ready; *out is NULL if there are no more windows.
 * *out_late is set if the deadline passed first (nanoseconds of tarn__now; 0: none). */
TARN_CHECKED tarn_status tarn__engine_first(tarn__engine *engine, uint64_t deadline,
                                            tarn__window **out, bool *out_late,
                                            tarn_error *err);

/* Decodes the deferred samples of a ready window, in the caller's thread. After a failure
 * the window stays as it is, and the call can be repeated. */
TARN_CHECKED tarn_status tarn__engine_resolve(tarn__engine *engine, tarn__window *window,
                                              tarn_error *err);

/* Removes the first window from the list. The caller owns it from then on. */
void tarn__engine_pop(tarn__engine *engine);

/* Nanoseconds of the monotonic clock. */
uint64_t tarn__now(void);

#endif
