/* batch.c: many samples read in one call (Batch), and several datasets as one (mix). */
#include "dataset.h"

#include <string.h>

/* --- Batch ------------------------------------------------------------------------- */

typedef struct batch_object {
    PyObject_HEAD tarnpy_state *state;
    tarn_dataset_batch batch;
    PyObject *fields; /* tuple of names */
    Py_ssize_t samples;
    Py_ssize_t exports; /* number of exported buffers; the memory must not change while
                           there are any */
    bool reading;       /* a thread is reading into it without the GIL */
} batch_object;

static void batch_dealloc(PyObject *object)
{
    batch_object *self = (batch_object *)object;
    tarn_dataset_batch_reset(&self->batch);
    Py_XDECREF(self->fields);
    tarnpy_free(object);
}

static int check_idle(const batch_object *self)
{
    if (!self->reading) return 0;
    PyErr_SetString(PyExc_BufferError, "another thread is reading into the batch");
    return -1;
}

static int batch_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
    static unsigned char nothing[1];
    batch_object *self = (batch_object *)object;
    buffer->obj = NULL;
    if (check_idle(self) != 0) return -1;
    size_t size = self->batch.count ? self->batch.offsets[self->batch.count] : 0;
    if (PyBuffer_FillInfo(buffer, object, size ? self->batch.data : nothing,
                          (Py_ssize_t)size, 0, flags) != 0)
        return -1;
    self->exports++;
    return 0;
}

static void batch_release(PyObject *object, Py_buffer *buffer)
{
    ((batch_object *)object)->exports--;
}

static Py_ssize_t batch_length(PyObject *object)
{
    return ((batch_object *)object)->samples;
}

static PyObject *batch_piece(batch_object *self, PyObject *memory, size_t piece)
{
    return PySequence_GetSlice(memory, (Py_ssize_t)self->batch.offsets[piece],
                               (Py_ssize_t)self->batch.offsets[piece + 1]);
}

static PyObject *batch_item(PyObject *object, Py_ssize_t i)
{
    batch_object *self = (batch_object *)object;
    if (i < 0 || i >= self->samples)
        return PyErr_Format(PyExc_IndexError,
                            "sample %zd is out of range for a batch of %zd", i,
                            self->samples);
    Py_ssize_t n_fields = PyTuple_Size(self->fields);
    PyObject *memory = PyMemoryView_FromObject(object);
    PyObject *dict = memory ? PyDict_New() : NULL;
    for (Py_ssize_t f = 0; dict && f < n_fields; f++) {
        PyObject *piece = batch_piece(self, memory, (size_t)(i * n_fields + f));
        if (!piece || PyDict_SetItem(dict, PyTuple_GetItem(self->fields, f), piece) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(piece);
    }
    Py_XDECREF(memory);
    return dict;
}

PyDoc_STRVAR(column_doc, "column(field)\n--\n\nReturns the bytes of one field of all "
                         "samples as a list of memoryviews.");

static PyObject *batch_column(PyObject *object, PyObject *field)
{
    batch_object *self = (batch_object *)object;
    Py_ssize_t n_fields = PyTuple_Size(self->fields);
    Py_ssize_t f = 0;
    int same = 0;
    for (; f < n_fields && same == 0; f += same == 0)
        same = PyObject_RichCompareBool(PyTuple_GetItem(self->fields, f), field, Py_EQ);
    if (same < 0) return NULL;
    if (f == n_fields)
        return PyErr_Format(PyExc_KeyError, "the batch has no field %R; it has %R", field,
                            self->fields);
    PyObject *memory = PyMemoryView_FromObject(object);
    PyObject *list = memory ? PyList_New(self->samples) : NULL;
    for (Py_ssize_t i = 0; list && i < self->samples; i++) {
        PyObject *piece = batch_piece(self, memory, (size_t)(i * n_fields + f));
        if (!piece || PyList_SetItem(list, i, piece) != 0) Py_CLEAR(list);
    }
    Py_XDECREF(memory);
    return list;
}

static PyObject *get_data(PyObject *object, void *unused)
{
    return PyMemoryView_FromObject(object);
}

/* A copy, because the offsets change when the batch is reused. */
static PyObject *get_offsets(PyObject *object, void *unused)
{
    batch_object *self = (batch_object *)object;
    if (check_idle(self) != 0) return NULL;
    size_t count = self->batch.count + 1;
    uint64_t *offsets = PyMem_Malloc(count * sizeof *offsets);
    if (!offsets) return PyErr_NoMemory();
    offsets[0] = 0;
    if (self->batch.count) memcpy(offsets, self->batch.offsets, count * sizeof *offsets);
    PyObject *numbers = tarnpy_indices_new(self->state, offsets, count);
    if (!numbers) return NULL;
    PyObject *memory = PyMemoryView_FromObject(numbers);
    Py_DECREF(numbers);
    return memory;
}

static PyObject *get_fields(PyObject *object, void *unused)
{
    PyObject *names = ((batch_object *)object)->fields;
    Py_INCREF(names);
    return names;
}

static PyGetSetDef batch_parts[] = {
    {"data", get_data, NULL, "All bytes, consecutively.", NULL},
    {"offsets", get_offsets, NULL,
     "The start of each piece, and the end of the last: piece s * len(fields) + f is "
     "field f of sample s.",
     NULL},
    {"fields", get_fields, NULL, "The names of the fields.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef batch_methods[] = {
    {"column", batch_column, METH_O, column_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(batch_doc,
             "The bytes of many samples in one buffer; returned by Dataset.batch.");

static PyType_Slot batch_slots[] = {
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_doc, (void *)(uintptr_t)batch_doc},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_parts},
    {Py_sq_length, batch_length},
    {Py_sq_item, batch_item},
    {Py_bf_getbuffer, batch_buffer},
    {Py_bf_releasebuffer, batch_release},
    {0, NULL},
};

static PyType_Spec batch_spec = {
    .name = "tarn._tarn.Batch",
    .basicsize = sizeof(batch_object),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = batch_slots,
};

/* The batch to read into: the given one unless its memory is in use, or a new one. */
static batch_object *batch_for(tarnpy_state *state, PyObject *out)
{
    batch_object *batch;
    if (out == Py_None) {
        batch = TARNPY_NEW(batch_object, state->batch_type);
        if (batch) batch->state = state;
        return batch;
    }
    batch = (batch_object *)out;
    if (Py_TYPE(out) != state->batch_type) {
        PyErr_SetString(PyExc_TypeError,
                        "out must be a Batch returned by an earlier call");
        return NULL;
    }
    if (check_idle(batch) != 0) return NULL;
    if (batch->exports > 0) {
        PyErr_SetString(PyExc_BufferError,
                        "the batch is still in use: release its memoryviews first");
        return NULL;
    }
    Py_INCREF(out);
    return batch;
}

PyObject *tarnpy_read_batch(PyObject *object, PyObject *args)
{
    tarnpy_handle *handle = (tarnpy_handle *)object;
    PyObject *wanted, *names, *out;
    uint64_t *numbers;
    size_t count;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "OO!O:read_batch", &wanted, &PyTuple_Type, &names,
                          &out) ||
        tarnpy_indices(wanted, tarn_dataset_count(handle->set), &numbers, &count) != 0)
        return NULL;
    size_t n_fields = (size_t)PyTuple_Size(names);
    uint32_t *fields = PyMem_Malloc((n_fields + 1) * sizeof *fields);
    batch_object *batch = fields ? batch_for(handle->state, out) : NULL;
    if (!fields) PyErr_NoMemory();
    for (size_t i = 0; batch && i < n_fields; i++) {
        const char *name =
            PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, (Py_ssize_t)i), NULL);
        if (name &&
            tarn_dataset_field_find(handle->set, name, &fields[i], &err) == TARN_OK)
            continue;
        if (name) tarnpy_raise_key(handle->state, &err);
        Py_CLEAR(batch);
    }
    if (batch) {
        batch->reading = true;
        TARNPY_UNLOCKED(status, tarn_dataset_read(handle->set, numbers, count, fields,
                                                  n_fields, &batch->batch, &err));
        batch->reading = false;
        Py_INCREF(names);
        Py_XDECREF(batch->fields);
        batch->fields = names;
        batch->samples = status == TARN_OK ? (Py_ssize_t)count : 0;
        if (status != TARN_OK) {
            batch->batch.count = 0;
            tarnpy_raise_key(handle->state, &err);
            Py_CLEAR(batch);
        }
    }
    PyMem_Free(fields);
    PyMem_Free(numbers);
    return (PyObject *)batch;
}

/* --- Mixes ------------------------------------------------------------------------- */

/* A list of 8-byte numbers: doubles for 'f', otherwise unsigned. NULL with count 0 for
 * None. */
static int number_list(PyObject *object, char kind, size_t count, void **out)
{
    *out = NULL;
    if (object == Py_None) return 0;
    if (PySequence_Size(object) != (Py_ssize_t)count) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "expected one number for each dataset");
        return -1;
    }
    double *reals = PyMem_Calloc(count + 1, sizeof *reals);
    if (!reals) {
        PyErr_NoMemory();
        return -1;
    }
    uint64_t *wholes = (uint64_t *)(void *)reals;
    for (size_t i = 0; i < count && !PyErr_Occurred(); i++) {
        PyObject *item = PySequence_GetItem(object, (Py_ssize_t)i);
        if (!item) break;
        if (kind == 'f')
            reals[i] = PyFloat_AsDouble(item);
        else
            wholes[i] = PyLong_AsUnsignedLongLong(item);
        Py_DECREF(item);
    }
    *out = reals;
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *mix_handles(tarnpy_state *state, PyObject *sources, size_t count,
                             const tarn_mix_options *o)
{
    tarn_dataset **sets = PyMem_Calloc(count + 1, sizeof *sets), *set = NULL;
    bool slow = false;
    tarn_error err;
    tarn_status status;
    if (!sets) return PyErr_NoMemory();
    for (size_t i = 0; i < count; i++) {
        PyObject *handle = PyTuple_GetItem(sources, (Py_ssize_t)i);
        if (Py_TYPE(handle) != state->handle_type) {
            PyMem_Free(sets);
            PyErr_SetString(PyExc_TypeError, "only datasets can be mixed");
            return NULL;
        }
        sets[i] = ((tarnpy_handle *)handle)->set;
        slow |= ((tarnpy_handle *)handle)->slow;
    }
    TARNPY_UNLOCKED(status, tarn_dataset_mix(sets, count, o, &set, &err));
    PyMem_Free(sets);
    return status == TARN_OK ? tarnpy_handle_new(state, set, slow)
                             : tarnpy_raise_key(state, &err);
}

PyDoc_STRVAR(mix_doc, "mix(handles, weights, counts, total, all, fields)\n--\n\nCombines "
                      "several datasets into one, evenly interleaved.");

static PyObject *mix(PyObject *module, PyObject *args)
{
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    PyObject *sources, *weights, *counts, *fields, *result = NULL;
    int all;
    tarnpy_strings list = {NULL, 0, NULL};
    void *reals = NULL, *wholes = NULL;
    if (!PyArg_ParseTuple(args, "O!OOKpO:mix", &PyTuple_Type, &sources, &weights, &counts,
                          &o.total, &all, &fields))
        return NULL;
    size_t count = (size_t)PyTuple_Size(sources);
    if (number_list(weights, 'f', count, &reals) == 0 &&
        number_list(counts, 'u', count, &wholes) == 0 &&
        tarnpy_strings_get(fields, &list) == 0) {
        o.weights = reals;
        o.counts = wholes;
        o.end = all ? TARN_MIX_ALL : TARN_MIX_FIRST;
        o.fields = list.items;
        result = mix_handles(tarnpy_module_state(module), sources, count, &o);
    }
    tarnpy_strings_free(&list);
    PyMem_Free(reals);
    PyMem_Free(wholes);
    return result;
}

static PyMethodDef functions[] = {
    {"mix", mix, METH_VARARGS, mix_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_batch(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &batch_spec, &state->batch_type) != 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
