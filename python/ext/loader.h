/* loader.h: shared by the files about the native loader: loader.c has the type, its
 * position and statistics, loader_open.c its options, loader_batch.c its batches. */
#ifndef TARNPY_LOADER_H
#define TARNPY_LOADER_H

#include "dataset.h"

/* How the bytes of one sample are converted in a column that is not an array. */
typedef enum tarnpy_each {
    TARNPY_EACH_BYTES,
    TARNPY_EACH_TEXT,
    TARNPY_EACH_JSON,
    TARNPY_EACH_DECODE, /* as stored, decoded by name: lists of arrays */
    TARNPY_EACH_FORM,   /* as the dataset defines it */
    TARNPY_EACH_ARRAY   /* of TARNPY_EACH_FORM: an array of bytes, not bytes */
} tarnpy_each;

typedef struct tarnpy_column {
    PyObject *name;
    tarnpy_each each;
    uint32_t field;
} tarnpy_column;

typedef struct tarnpy_loader {
    PyObject_HEAD tarnpy_state *state;
    PyObject *handle;
    PyObject *views;
    tarn_loader *loader;
    PyObject *items; /* the list of fields as given; names point into it */
    tarnpy_column *columns;
    size_t n_columns;
    PyObject *fallback; /* or NULL */
    PyObject *memory;   /* where arrays are allocated, or NULL */
    PyObject *forms;    /* how the arrays of some fields become one, by field; or NULL */
    int numbers;        /* batches also have the numbers and the epoch of their samples */
    pid_t busy;         /* the process of which a thread is in the loader, or 0 */
} tarnpy_loader;

/* --- loader_open.c ------------------------------------------------------------------ */

/* Opens the native loader of an object with handle, views and items, with the options kw.
 * Returns 0, or -1 with an exception; dealloc frees what it has set by then. */
int tarnpy_loader_open(tarnpy_loader *self, PyObject *kw);

/* --- loader_batch.c ----------------------------------------------------------------- */

extern const char *const tarnpy_eaches[]; /* names of the first values of tarnpy_each */

/* A batch as a dict. Takes over batch, also on failure. */
PyObject *tarnpy_loader_batch(tarnpy_loader *self, tarn_batch *batch);
int tarnpy_add_loader_batch(PyObject *module);

/* --- pieces.c ----------------------------------------------------------------------- */

typedef enum tarnpy_pieces_kind {
    TARNPY_PIECES_BYTES,
    TARNPY_PIECES_TEXT,
    TARNPY_PIECES_KEYS /* text with a NUL after each */
} tarnpy_pieces_kind;

/* A sequence of count values in data and offsets, which owner keeps alive. */
PyObject *tarnpy_pieces_new(tarnpy_state *state, const void *data,
                            const uint64_t *offsets, size_t count,
                            tarnpy_pieces_kind kind, PyObject *owner);

#endif
