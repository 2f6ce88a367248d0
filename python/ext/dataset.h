/* dataset.h: what the files about datasets share.
 *
 * A _Handle is a tarn_dataset and nothing else; whatever points into it keeps it. A
 * Dataset is what users index and iterate: a handle, what to make of each field, and
 * functions that each sample goes through. Which samples come in which order is the
 * handle's. */
#ifndef TARNPY_DATASET_H
#define TARNPY_DATASET_H

#include "tarnpy.h"

typedef struct tarnpy_handle {
    PyObject_HEAD tarnpy_state *state;
    tarn_dataset *set;
    bool slow; /* getting a sample may wait for the disk or decompress */
} tarnpy_handle;

/* set is taken over, whatever comes. */
PyObject *tarnpy_handle_new(tarnpy_state *state, tarn_dataset *set, bool slow);

/* A handle of what a call made from the dataset of another handle, or its error. */
PyObject *tarnpy_handle_made(PyObject *from, tarn_status status, tarn_dataset *set,
                             const tarn_error *err);

/* The number of the sample with a key, whatever the order and the rank. -1 with an
 * exception where the key is not text. */
int tarnpy_handle_find(PyObject *handle, PyObject *key, uint64_t *out_number,
                       tarn_status *out_status, tarn_error *err);

/* What becomes of a field's bytes. */
typedef enum tarnpy_plan_kind {
    TARNPY_PLAN_VIEW,
    TARNPY_PLAN_BYTES,
    TARNPY_PLAN_DECODE,
    TARNPY_PLAN_CALL
} tarnpy_plan_kind;

typedef struct tarnpy_plan {
    tarnpy_plan_kind kind;
    const char *name; /* of the field, for the codecs; borrowed from names */
    PyObject *call;   /* CALL: what makes the value of the bytes */
    PyObject *finish; /* what the value goes through, or NULL */
    bool heavy;       /* decoding takes long enough to let others run */
    bool formed;      /* the dataset says what it is, not the name alone */
} tarnpy_plan;

typedef struct tarnpy_dataset {
    PyObject_HEAD tarnpy_state *state;
    PyObject *handle; /* a tarnpy_handle */
    PyObject *names;  /* of the fields as samples have them: a tuple of str */
    PyObject *plan_items, *finish_items; /* as they were given: tuples */
    tarnpy_plan *plans;                  /* one for each name */
    size_t n_names;
    PyObject *maps;    /* a tuple of callables */
    PyObject *parts;   /* None, or a function that makes a sample of a source of a mix */
    PyObject *views;   /* None, or a _Views that says which fields stand for the names */
    uint64_t epoch;    /* for views */
    tarn_text key;     /* of the last sample; only used with the GIL held throughout */
    uint64_t position; /* samples that the last iteration gave out */
} tarnpy_dataset;

/* --- sample.c ----------------------------------------------------------------------- */

/* A sample as users get it, by its number (see tarn_dataset_sequence) in a handle of the
 * dataset: the present one, or that of an earlier epoch. */
PyObject *tarnpy_sample(tarnpy_dataset *self, PyObject *handle, uint64_t number);

/* What the maps make of a sample, which is taken over. */
PyObject *tarnpy_through_maps(tarnpy_dataset *self, PyObject *sample);

/* The samples from one position on; the type's tp_iter, and with a beginning. */
PyObject *tarnpy_dataset_iter(PyObject *self);
int tarnpy_add_sample(PyObject *module);

/* --- order.c ------------------------------------------------------------------------ */

/* "keep", "drop" or "pad". */
int tarnpy_uneven(tarnpy_state *state, const char *name, tarn_uneven *out);

/* What an order is opened with, from keyword arguments. arrays are what the options point
 * at, by PyMem_Free. */
typedef struct tarnpy_order_args {
    tarn_order_options options;
    void *arrays[4];
} tarnpy_order_args;

int tarnpy_order_options(tarnpy_state *state, uint64_t count, PyObject *keywords,
                         tarnpy_order_args *out);
void tarnpy_order_args_free(tarnpy_order_args *args);

typedef struct tarnpy_views {
    PyObject_HEAD tarnpy_state *state;
    tarn_views *views;
} tarnpy_views;

/* The fields that stand for the names of a sample. */
int tarnpy_views_choose(PyObject *views, uint64_t epoch, uint64_t sample, uint32_t *out);

/* --- select.c ------------------------------------------------------------------------
 */

PyObject *tarnpy_handle_slice(PyObject *self, PyObject *args);
PyObject *tarnpy_handle_select(PyObject *self, PyObject *indices);
PyObject *tarnpy_handle_keep(PyObject *self, PyObject *mask);
PyObject *tarnpy_handle_order(PyObject *self, PyObject *args, PyObject *kw);
PyObject *tarnpy_handle_split(PyObject *self, PyObject *args);
PyObject *tarnpy_handle_at_epoch(PyObject *self, PyObject *number);
PyObject *tarnpy_handle_judged(PyObject *self, PyObject *unused);
PyObject *tarnpy_handle_unordered(PyObject *self, PyObject *unused);
PyObject *tarnpy_handle_has(PyObject *self, PyObject *key);
PyObject *tarnpy_handle_sequence(PyObject *self, PyObject *args);
PyObject *tarnpy_handle_state(PyObject *self, PyObject *number);
PyObject *tarnpy_handle_resume(PyObject *self, PyObject *text);

/* --- index.c ------------------------------------------------------------------------ */

PyObject *tarnpy_handle_index(PyObject *self, PyObject *unused);
/* The rows of the samples with these keys; those that are not there are left out. */
PyObject *tarnpy_handle_rows(PyObject *self, PyObject *keys);

/* --- filter.c, batch.c ---------------------------------------------------------------*/

extern PyMethodDef tarnpy_filter_methods[]; /* of _Handle */
PyObject *tarnpy_read_batch(PyObject *handle, PyObject *args);
int tarnpy_add_batch(PyObject *module);

#endif
