/* writing.h: what the files about writers and streams share: samples on their way from
 * dicts into an archive, and Python's file objects as sources and sinks. */
#ifndef TARNPY_WRITING_H
#define TARNPY_WRITING_H

#include "tarnpy.h"

/* Names of arguments, as PyArg_ParseTupleAndKeywords has them before Python 3.13. */
#define TARNPY_WORDS(words) ((char **)(uintptr_t)(words))

/* --- File objects (pyfile.c) -------------------------------------------------------- */

/* A file object, or with opener a call that makes one of a name. Zeroed is none. */
typedef struct tarnpy_file {
    PyObject *object;
    PyObject *opener;
} tarnpy_file;

/* Both may be used as long as the file lives. Exceptions of the file object stay set. */
tarn_source_calls tarnpy_file_source(tarnpy_file *file);
tarn_sink_calls tarnpy_file_sink(tarnpy_file *file);
void tarnpy_file_clear(tarnpy_file *file);

/* --- Samples from dicts (collect.c) ------------------------------------------------- */

/* How values become bytes. */
typedef enum tarnpy_flavour {
    TARNPY_BYTES = 0, /* they are bytes already */
    TARNPY_TARN = 1,  /* the library's codecs; metadata (__name__) is left out */
    TARNPY_WDS = 2    /* WebDataset's rules: see tarn/wds/writer.py */
} tarnpy_flavour;

typedef struct tarnpy_rules {
    tarnpy_flavour flavour;
    bool keep_meta;     /* fields that begin with "_" are written */
    PyObject *encoders; /* a dict from extension to a callable, or NULL: asked first */
    PyObject *fallback; /* called with a field's name and a value that no codec takes */
    tarn_encode_options options;
} tarnpy_rules;

typedef struct tarnpy_planned {
    const char *key;
    size_t first, count; /* of the batch's fields */
    uint64_t payload;    /* of those in memory */
} tarnpy_planned;

/* Samples whose bytes are held, so that they can be written without the GIL. */
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

/* Adds the sample that a dict holds. After a failure the batch is as it was. */
int tarnpy_batch_add(tarnpy_state *state, tarnpy_batch *batch, const tarnpy_rules *rules,
                     PyObject *sample);
/* Lets go of all samples; keeps its memory. */
void tarnpy_batch_empty(tarnpy_batch *batch);
void tarnpy_batch_free(tarnpy_batch *batch);

/* The bytes of a str as UTF-8, surrogates as the bytes they stand for. What keeps them
 * alive is put into the batch. NULL with an exception. */
const char *tarnpy_batch_text(tarnpy_batch *batch, PyObject *text, Py_ssize_t *out_size);

/* --- Locks (write_open.c) ----------------------------------------------------------- */

/* Handles of the library belong to one thread at a time. A thread that has one already,
 * and comes back by a callback, gets RuntimeError. */
typedef struct tarnpy_lock {
    PyThread_type_lock lock;
    unsigned long owner; /* 0: nobody */
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
    bool silent; /* write says nothing */
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
    PyObject *encoder;  /* called with each sample first; NULL: none */
    PyObject *hook;     /* called with name, samples and bytes of each finished shard */
    PyObject *progress; /* called with samples and payload now and then */
    double told_at;
    unsigned untold; /* samples since the clock was looked at */
    tarn_written written;
    uint64_t in_shard, payload_in_shard; /* samples and bytes of fields since the last */
} tarnpy_writer;

PyObject *tarnpy_writer_open(PyObject *self, PyObject *args, PyObject *kwargs);

/* Seconds on a clock that never goes back, to a few milliseconds. */
double tarnpy_now(void);

#endif
