/* writing.h: shared by the files about writers and streams: samples from dicts, and
 * Python file objects as sources and sinks. */
#ifndef TARNPY_WRITING_H
#define TARNPY_WRITING_H

#include "tarnpy.h"

#include <pthread.h>

/* Argument names in the type that PyArg_ParseTupleAndKeywords takes before Python
 * 3.13. */
#define TARNPY_WORDS(words) ((char **)(uintptr_t)(words))

/* --- File objects (pyfile.c) -------------------------------------------------------- */

/* A file object or, with opener, a function that opens one by name. All zeros means
 * none. */
typedef struct tarnpy_file {
    PyObject *object;
    PyObject *opener;
} tarnpy_file;

/* Both are valid as long as the file exists. Exceptions of the file object stay set. */
tarn_source_calls tarnpy_file_source(tarnpy_file *file);
tarn_sink_calls tarnpy_file_sink(tarnpy_file *file);
void tarnpy_file_clear(tarnpy_file *file);

/* --- Samples from dicts (collect.c) ------------------------------------------------- */

/* How values are converted to bytes. */
typedef enum tarnpy_flavour {
    TARNPY_BYTES = 0, /* values must be bytes */
    TARNPY_TARN = 1,  /* the library's codecs; metadata (__name__) is left out */
    TARNPY_WDS = 2    /* WebDataset's rules: see tarn/wds/writer.py */
} tarnpy_flavour;

typedef struct tarnpy_rules {
    tarnpy_flavour flavour;
    bool keep_meta;     /* write fields whose names begin with "_" */
    PyObject *encoders; /* a dict from extension to a callable, or NULL; tried first */
    PyObject
        *fallback; /* called with a field's name and a value that no codec supports */
    tarn_encode_options options;
} tarnpy_rules;

typedef struct tarnpy_planned {
    const char *key;
    size_t first, count; /* range of the batch's fields */
    uint64_t payload;    /* bytes of fields that are in memory */
} tarnpy_planned;

/* Samples whose bytes are kept alive, so that they can be written without the GIL. */
typedef struct tarnpy_batch {
    PyObject **held;
    size_t n_held, held_capacity;
    tarn_bytes *made;
    size_t n_made, made_capacity;
    tarn_field *fields;
    size_t n_fields, fields_capacity;
    tarnpy_planned *samples;
    size_t n_samples, samples_capacity;
    uint64_t payload;
} tarnpy_batch;

/* Adds the sample in a dict. After a failure the batch is unchanged. */
int tarnpy_batch_add(tarnpy_state *state, tarnpy_batch *batch, const tarnpy_rules *rules,
                     PyObject *sample);
/* Removes all samples; keeps its memory. */
void tarnpy_batch_empty(tarnpy_batch *batch);
void tarnpy_batch_free(tarnpy_batch *batch);

/* The bytes of a str as UTF-8, with surrogates as the bytes they encode. The batch keeps
 * them alive. NULL with an exception. */
const char *tarnpy_batch_text(tarnpy_batch *batch, PyObject *text, Py_ssize_t *out_size);

/* --- Locks (write_open.c) ----------------------------------------------------------- */

/* Only one thread may use a handle of the library at a time. A thread that already has
 * it, and calls again from a callback, gets RuntimeError. */
typedef struct tarnpy_lock {
    pthread_mutex_t *lock; /* PyThread locks read the clock on each call */
    unsigned long owner;   /* 0: none */
} tarnpy_lock;

int tarnpy_lock_init(tarnpy_lock *lock);
int tarnpy_lock_take(tarnpy_lock *lock);
void tarnpy_lock_give(tarnpy_lock *lock);
void tarnpy_lock_free(tarnpy_lock *lock);

/* --- Writers (write.c, write_open.c) ------------------------------------------------ */

typedef enum tarnpy_writer_kind {
    TARNPY_TAR = 0,
    TARNPY_SHARDS = 1,
    TARNPY_FOLD = 2
} tarnpy_writer_kind;

typedef struct tarnpy_writer {
    PyObject_HEAD tarnpy_state *state; /* its type keeps the module alive */
    tarnpy_writer_kind kind;
    bool open;
    bool silent; /* write returns None */
    union {
        tarn_tar_writer *tar;
        tarn_fold_writer *fold;
    } is;
    tarnpy_lock lock;
    pid_t pid;
    tarnpy_rules rules;
    tarnpy_batch batch;
    tarnpy_file file;
    tarn_sink_calls calls;
    PyObject *encoder;  /* called first with each sample; NULL: none */
    PyObject *hook;     /* called with name, samples and bytes of each finished shard */
    PyObject *progress; /* called with samples and payload from time to time */
    double reported_at;
    unsigned unreported; /* samples since the clock was last read */
    tarn_written written;
    uint64_t in_shard,
        payload_in_shard; /* samples and bytes of fields in the current shard */
} tarnpy_writer;

PyObject *tarnpy_writer_open(PyObject *self, PyObject *args, PyObject *kwargs);

/* Seconds of a monotonic clock, with a resolution of a few milliseconds. */
double tarnpy_now(void);

#endif
