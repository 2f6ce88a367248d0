/* The loader from inside. A window is a run of positions of an epoch on its way to be a
 * batch, with all the memory for one; an engine is the threads that make windows ahead; a
 * setup is what never changes. The files:
 *
 *   loader.c         opening, asking for batches, state, forks: the caller's side
 *   loader_setup.c   what becomes of each field
 *   loader_engine.c  threads: which piece of work is next
 *   loader_fetch.c   one window: its samples, keys, and bytes that stay bytes
 *   loader_decode.c  one field of one sample into the window
 *   loader_window.c  a window's memory, and how pieces become columns
 */
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

/* --- What never changes ------------------------------------------------------------ */

/* The type and shape of one sample's array. Never changes and is never freed before the
 * setup or the window that owns it. */
typedef struct tarn__shape {
    tarn_dtype dtype;
    unsigned ndim;
    uint64_t bytes;
    const uint64_t *lengths;
} tarn__shape;

static inline bool tarn__shape_same(const tarn__shape *a, const tarn__shape *b)
{
    if (a == b) return true;
    if (a->dtype.order != b->dtype.order || a->dtype.kind != b->dtype.kind ||
        a->dtype.size != b->dtype.size || a->ndim != b->ndim)
        return false;
    for (unsigned i = 0; i < a->ndim; i++)
        if (a->lengths[i] != b->lengths[i]) return false;
    return true;
}

typedef enum tarn__load_way {
    TARN__LOAD_READ,  /* bytes, read for the whole window in one call */
    TARN__LOAD_VIEW,  /* a view for each sample */
    TARN__LOAD_STEPS, /* an image, decoded to the plan's shape */
    TARN__LOAD_VALUE  /* decoded to whatever it is */
} tarn__load_way;

enum { TARN__MAX_HINTS = 64 };

typedef struct tarn__load_column {
    char *name;
    uint32_t field; /* of the dataset; with views, number of the template */
    tarn__load_way way;
    tarn_load_as as;
    char *codec; /* the name that says what it is: its own, or a payload's */
    tarn__codec_class decoder; /* what that stands for */
    tarn__image_plan *plan;    /* STEPS */

    /* What samples are expected to be: that of the plan, of numbers, or of the last
     * window whose samples were all alike. Only speed depends on it. */
    _Atomic(const tarn__shape *) hint;
    tarn__shape *hints[TARN__MAX_HINTS];
    unsigned n_hints;
} tarn__load_column;

typedef struct tarn__load_setup {
    atomic_uint users;
    tarn_loader_options o; /* without what is the caller's: lists, steps, decode */
    tarn_decode_options decode;
    tarn_dataset *dataset;
    tarn__load_column *columns;
    size_t n_columns;
    size_t batch; /* samples */
    size_t chunk; /* samples decoded by one thread at a time */
    bool decodes; /* some column is decoded */
    /* Bytes of fields that are decoded are read into the window first, many at a time: of
     * data that is not in memory. */
    bool staged;
    uint64_t seed;
} tarn__load_setup;

/* Whether options are within their limits. */
TARN_CHECKED tarn_status tarn__setup_check(const tarn_loader_options *o, tarn_error *err);

TARN_CHECKED tarn_status tarn__setup_new(tarn_dataset *dataset,
                                         const tarn_loader_options *o, uint64_t seed,
                                         tarn__load_setup **out, tarn_error *err);
void tarn__setup_release(tarn__load_setup *setup);

/* Remembers what samples of a column look like. Needs the engine's lock. */
void tarn__setup_hint(tarn__load_column *column, const tarn__shape *shape);

/* --- One epoch --------------------------------------------------------------------- */

/* Batches count from where the loader was resumed. With equal batches of unequal ranks,
 * batch i is then batch first + i of a loader that was not resumed, so that a run that
 * continues on as many ranks has the batches of one that was never interrupted. A state
 * in the middle of such a batch (of other ranks, or another batch size) has one more
 * batch first: rest, which shares out the positions up to the end of that batch. */
typedef struct tarn__epoch {
    atomic_uint users;
    tarn_dataset *set; /* without an order: what samples are read from */
    tarn_order *order; /* in batches, for this rank */
    tarn_order *rest;  /* or NULL */
    uint64_t number;
    uint64_t batches; /* of the whole epoch, for this rank */
    uint64_t first;   /* of the batches of order that is left */
    uint64_t left;    /* batches */
    uint64_t n_rest;  /* samples of this rank in the batch of rest */
} tarn__epoch;

/* Takes both over, whatever happens. origin is the position where the first batch begins
 * if the loader is not resumed. */
TARN_CHECKED tarn_status tarn__epoch_new(tarn_dataset *set, tarn_order *order,
                                         uint64_t origin, tarn__epoch **out,
                                         tarn_error *err);
tarn__epoch *tarn__epoch_use(tarn__epoch *epoch);

/* Batch i of what is left: samples *out_from to *out_from + *out_count - 1 of the order
 * that is returned. */
const tarn_order *tarn__epoch_batch(const tarn__epoch *epoch, uint64_t i,
                                    uint64_t *out_from, uint64_t *out_count);

/* How many positions are used up on all ranks after i batches of what is left. */
uint64_t tarn__epoch_used(const tarn__epoch *epoch, uint64_t i);
void tarn__epoch_release(tarn__epoch *epoch);

/* The same in another epoch, from its beginning. */
TARN_CHECKED tarn_status tarn__epoch_other(const tarn__epoch *epoch, uint64_t number,
                                           tarn__epoch **out, tarn_error *err);

/* --- Windows ----------------------------------------------------------------------- */

/* One field of one sample: bytes if shape is NULL, otherwise packed elements. */
typedef struct tarn__piece {
    unsigned char *data;
    uint64_t size;
    const tarn__shape *shape;
} tarn__piece;

/* A column of a window. */
typedef struct tarn__strip {
    unsigned char *data; /* of an array, or bytes that were put together */
    size_t capacity;
    const tarn__shape *hint; /* piece i may lie at data + i * hint->bytes; or NULL */
    tarn__piece *pieces;
    uint64_t *offsets;
    tarn_array *arrays;
    tarn_view *views;
    size_t first_read; /* READ, or staged: where its pieces are in the window's read */
} tarn__strip;

/* A sample that could not be had. */
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
    tarn_batch batch; /* the first member: what the caller holds */
    struct tarn__pool *pool;
    struct tarn__window *next;

    tarn__epoch *epoch;
    bool end;                /* no window, but the end of its epoch; has no memory */
    tarn__epoch *following;  /* an end's: the next epoch, or NULL */
    const tarn_order *order; /* one of its epoch's */
    uint64_t from;           /* of this rank's samples in that order */
    size_t count;

    /* Guarded by the engine's lock. */
    tarn__window_stage stage;
    size_t next_chunk, n_chunks, chunks_left;
    tarn_status status; /* of a failure that is not a sample's fault */
    tarn_error *error;
    tarn__fault *faults; /* by slot, ascending; those that were reported are gone */

    uint64_t *samples;
    uint64_t *numbers;    /* room for as many, for a while */
    atomic_uchar *faulty; /* by slot */
    tarn__buf keys;
    uint64_t *key_offsets;
    tarn_dataset_batch read;
    struct tarn__want *wants;
    struct tarn__item *announced; /* room for as many */
    tarn__strip *strips;
    tarn__slab *slabs; /* one for each chunk, and one for the fetch */
    size_t n_slabs;
    uint64_t bytes; /* stored bytes that were looked at */
} tarn__window;

/* Windows that nobody uses. Lives until the last of its windows is released. */
typedef struct tarn__pool {
    atomic_uint users; /* the engine, and each window that is not in the free list */
    tarn__load_setup *setup;
    pid_t pid;
    pthread_mutex_t lock;
    tarn__window *free;
    size_t n_free, keep;
} tarn__pool;

TARN_CHECKED tarn_status tarn__pool_new(tarn__load_setup *setup, size_t keep,
                                        tarn__pool **out, tarn_error *err);
void tarn__pool_release(tarn__pool *pool);

/* A window with no memory for samples but room for their numbers; end ones have none. */
TARN_CHECKED tarn_status tarn__window_take(tarn__pool *pool, bool end, tarn__window **out,
                                           tarn_error *err);
void tarn__window_release(tarn__window *window);

/* Gets a strip ready for the pieces of count samples. */
TARN_CHECKED tarn_status tarn__strip_begin(const tarn__load_setup *setup, size_t column,
                                           tarn__strip *strip, size_t count,
                                           tarn_error *err);

/* NULL if there is no memory. */
tarn__shape *tarn__shape_copy(tarn__slab *slab, const tarn__shape *shape);

/* Makes the batch's columns out of the pieces. Samples that are faulty are left out, or
 * replaced, as the options say. */
TARN_CHECKED tarn_status tarn__window_seal(tarn__window *window, tarn_error *err);

/* Marks a sample as faulty. Any thread may. */
void tarn__window_fault(tarn__window *window, pthread_mutex_t *lock, size_t slot,
                        const tarn_error *error);

/* --- Work -------------------------------------------------------------------------- */

/* What one thread needs for itself. */
typedef struct tarn__worker {
    struct tarn__engine *engine;
    tarn_image_decoder *image;
    tarn_bytes plain; /* of a compressed field */
    tarn_text key;
    uint32_t *fields;                 /* that were chosen for a sample, with views */
    atomic_ullong read, decode, idle; /* nanoseconds */
} tarn__worker;

/* Samples, keys, and the pieces of columns that are not decoded. Faults of samples are
 * marked; what fails here is nobody's fault. */
TARN_CHECKED tarn_status tarn__fetch(tarn__worker *worker, tarn__window *window,
                                     tarn_error *err);

/* Decodes the samples of a chunk. */
TARN_CHECKED tarn_status tarn__decode_chunk(tarn__worker *worker, tarn__window *window,
                                            size_t chunk, tarn_error *err);

/* One field of one sample, of the bytes given: into strip and slab. */
TARN_CHECKED tarn_status tarn__decode_piece(tarn__worker *worker, tarn__window *window,
                                            size_t slot, size_t column, uint32_t field,
                                            const unsigned char *data, size_t size,
                                            tarn__slab *slab, tarn_error *err);

typedef struct tarn__engine {
    tarn__load_setup *setup;
    tarn__pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t work;  /* for threads: there may be something to do */
    pthread_cond_t ready; /* for the caller: a window got ready */
    atomic_bool stop;

    /* Windows in order, the next one to be delivered first. */
    tarn__window *first, *last;
    size_t n_windows, depth;
    bool may_widen;        /* to more than depth, if windows are small */
    uint64_t window_bytes; /* of the last window */

    /* What is planned next. */
    tarn__epoch *epoch; /* NULL: nothing more */
    uint64_t number;    /* of its batches */
    bool planning;
    tarn_status status; /* of planning */
    tarn_error error;

    tarn__worker *workers;
    pthread_t *threads;
    unsigned n_workers; /* at least 1: the caller's, where there are no threads */
    unsigned n_threads; /* that run */
} tarn__engine;

/* Takes epoch over, and continues in it with batch number. Starts threads. */
TARN_CHECKED tarn_status tarn__engine_new(tarn__load_setup *setup, tarn__epoch *epoch,
                                          uint64_t number, tarn__engine **out,
                                          tarn_error *err);
void tarn__engine_free(tarn__engine *engine);

/* The first window, once it is ready; or NULL where there will be none. *out_late: that
 * was not so within the deadline (in nanoseconds of tarn__now; 0: no deadline). */
TARN_CHECKED tarn_status tarn__engine_first(tarn__engine *engine, uint64_t deadline,
                                            tarn__window **out, bool *out_late,
                                            tarn_error *err);

/* Takes the first window out, which is the caller's then. */
void tarn__engine_pop(tarn__engine *engine);

uint64_t tarn__now(void);

#endif
