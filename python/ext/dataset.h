/* dataset.h: shared by the files about datasets.
 *
 * A _Handle wraps a tarn_dataset; every object that points into it keeps a reference to
 * it. A Dataset is what users index and iterate: a handle, a plan for each field, and
 * functions that are applied to each sample. The handle decides which samples come in
 * which order. */
#ifndef TARNPY_DATASET_H
#define TARNPY_DATASET_H

#include "tarnpy.h"

typedef struct tarnpy_handle {
    PyObject_HEAD tarnpy_state *state;
    tarn_dataset *set;
    bool slow; /* reading a sample may wait for the disk or decompress */
} tarnpy_handle;

/* Takes over set, also on failure. */
PyObject *tarnpy_handle_new(tarnpy_state *state, tarn_dataset *set, bool slow);

/* A handle for the result of a call on the dataset of another handle, or its error. */
PyObject *tarnpy_handle_made(PyObject *from, tarn_status status, tarn_dataset *set,
                             const tarn_error *err);

/* The number of the sample with a key, ignoring order and rank. -1 with an exception if
 * the key is not a string. */
int tarnpy_handle_find(PyObject *handle, PyObject *key, uint64_t *out_number,
                       tarn_status *out_status, tarn_error *err);

/* How the bytes of a field become a value. */
typedef enum tarnpy_plan_kind {
    TARNPY_PLAN_VIEW,
    TARNPY_PLAN_BYTES,
    TARNPY_PLAN_DECODE,
    TARNPY_PLAN_CALL
} tarnpy_plan_kind;

typedef struct tarnpy_plan {
    tarnpy_plan_kind kind;
    const char *name; /* field name for the codecs; borrowed from names */
    PyObject *call;   /* CALL: converts the bytes to the value */
    PyObject *finish; /* applied to the value, or NULL */
    bool upright;     /* images are turned as their EXIF data says */
    bool heavy;       /* decoding takes long enough to release the GIL */
    bool formed;      /* the dataset, not only the name, determines the type */
} tarnpy_plan;

typedef struct tarnpy_dataset {
    PyObject_HEAD tarnpy_state *state;
    PyObject *handle;                    /* a tarnpy_handle */
    PyObject *names;                     /* tuple of str: the field names in samples */
    PyObject *plan_items, *finish_items; /* as given: tuples */
    tarnpy_plan *plans;                  /* one for each name */
    size_t n_names;
    PyObject *maps;  /* tuple of callables */
    PyObject *parts; /* None, or a function that makes a sample from a source of a mix */
    PyObject *views; /* None, or a _Views that chooses the fields for the names */
    uint64_t epoch;  /* for views */
    tarn_text key;   /* of the last sample; only used while the GIL is held throughout */
    uint64_t position; /* number of samples that the last iteration returned */
} tarnpy_dataset;

/* --- sample.c ----------------------------------------------------------------------- */

/* A sample as users get it, by its number (see tarn_dataset_sequence) in a handle of the
 * dataset: the current one, or that of an earlier epoch. */
PyObject *tarnpy_sample(tarnpy_dataset *self, PyObject *handle, uint64_t number);

/* One field of a sample, without maps, and whether the sample has it. */
PyObject *tarnpy_field(tarnpy_dataset *self, uint64_t number, PyObject *name);
PyObject *tarnpy_has_field(tarnpy_dataset *self, uint64_t number, PyObject *name);

/* Applies the maps to a sample. Takes over sample. */
PyObject *tarnpy_through_maps(tarnpy_dataset *self, PyObject *sample);

/* Whether a subclass overrides __getitem__, which its iterators and __getitems__ then
 * call; and what it returns for a position. */
bool tarnpy_dataset_overrides_item(PyObject *object);
PyObject *tarnpy_dataset_item(PyObject *object, uint64_t position);

/* Iterators over samples: tp_iter of the type, and one with a start position. */
PyObject *tarnpy_dataset_iter(PyObject *self);
int tarnpy_add_sample(PyObject *module);

/* --- order.c ------------------------------------------------------------------------ */

/* "keep", "drop" or "pad". */
int tarnpy_uneven(tarnpy_state *state, const char *name, tarn_uneven *out);

/* The options of an order from keyword arguments. The options point at arrays, which
 * PyMem_Free frees. */
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

/* Chooses the fields for the names of a sample. */
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
PyObject *tarnpy_handle_when(PyObject *self, PyObject *args);
PyObject *tarnpy_handle_step(PyObject *self, PyObject *args);
PyObject *tarnpy_handle_state(PyObject *self, PyObject *number);
PyObject *tarnpy_handle_resume(PyObject *self, PyObject *text);

/* --- index.c ------------------------------------------------------------------------ */

PyObject *tarnpy_handle_index(PyObject *self, PyObject *unused);
/* The rows of the samples with these keys; skips missing keys. */
PyObject *tarnpy_handle_rows(PyObject *self, PyObject *keys);

/* --- filter.c, batch.c ---------------------------------------------------------------*/

extern PyMethodDef tarnpy_filter_methods[]; /* of _Handle */
PyObject *tarnpy_read_batch(PyObject *handle, PyObject *args);
int tarnpy_add_batch(PyObject *module);

#endif
