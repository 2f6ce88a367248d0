/* array.c: conversion between arrays of the library and Python objects through the buffer
 * protocol. NumPy is imported when the first array is returned. */
#include "tarnpy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct array_object {
    PyObject_HEAD PyObject *owner;
    void *data;
    Py_ssize_t *places; /* shape, then strides */
    Py_ssize_t bytes;
    tarn_dtype dtype;
    int ndim;
    bool writable, packed;
    char format[24];
} array_object;

/* --- Element types ------------------------------------------------------------------ */

/* 'l' for eight bytes in native order, so that NumPy uses its usual type, and 'q' where
 * the letter has its standard size. */
static char type_letter(tarn_dtype dtype)
{
    unsigned size = dtype.size;
    char eight = dtype.order == '>' ? 'q' : 'l';
    switch (dtype.kind) {
    case 'b':
        return '?';
    case 'i':
        return size == 1 ? 'b' : size == 2 ? 'h' : size == 4 ? 'i' : eight;
    case 'u':
        eight = dtype.order == '>' ? 'Q' : 'L';
        return size == 1 ? 'B' : size == 2 ? 'H' : size == 4 ? 'I' : eight;
    default:
        return size == 2 ? 'e' : size == 4 ? 'f' : 'd';
    }
}

/* The element type in the notation of Python's struct module. */
static char *put_format(tarn_dtype dtype, char *out, size_t size)
{
    /* No prefix for native order: memoryview can index only such elements. */
    const char *order = dtype.order == '>' ? ">" : "";
    tarn_dtype half = {dtype.order, 'f', dtype.size / 2};
    if (dtype.kind == 'S')
        snprintf(out, size, "%us", dtype.size);
    else if (dtype.kind == 'U')
        snprintf(out, size, "%s%uw", order, dtype.size / 4);
    else if (dtype.kind == 'c')
        snprintf(out, size, "%sZ%c", order, type_letter(half));
    else
        snprintf(out, size, "%s%c", order, type_letter(dtype));
    return out;
}

static char kind_of_letter(char letter)
{
    if (letter == '?') return 'b';
    if (strchr("bhilqn", letter)) return 'i';
    if (strchr("BHILQNc", letter)) return 'u';
    if (strchr("efd", letter)) return 'f';
    if (letter == 's') return 'S';
    if (letter == 'w') return 'U';
    return '\0';
}

/* The inverse: a dtype from the notation of the struct module. */
static int get_dtype(const char *format, Py_ssize_t itemsize, tarn_dtype *out)
{
    const char *at = format ? format : "B";
    out->order = *at == '>' || *at == '!' ? '>' : '<';
    if (*at && strchr("<>=@!|", *at)) at++;
    while (*at >= '0' && *at <= '9')
        at++;
    if (*at == 'Z' && (at[1] == 'f' || at[1] == 'd')) {
        out->kind = 'c';
        at++;
    } else {
        out->kind = *at ? kind_of_letter(*at) : '\0';
    }
    out->size = (uint32_t)itemsize;
    if (out->kind == 'S' || out->kind == 'b' || (itemsize == 1 && out->kind != 'U'))
        out->order = '|';
    if (out->kind && at[1] == '\0' && itemsize >= 0 && itemsize <= INT32_MAX) return 0;
    PyErr_Format(PyExc_TypeError,
                 "an array of elements '%s' cannot be stored; numbers, bools, bytes and "
                 "fixed-width text can",
                 format);
    return -1;
}

int tarnpy_array_from(PyObject *object, Py_buffer *buffer, tarn_array *out)
{
    if (PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) != 0) return -1;
    memset(out, 0, sizeof *out);
    out->data = buffer->buf;
    out->ndim = (unsigned)buffer->ndim;
    if (out->ndim > TARN_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "an array of %d dimensions is not supported",
                     buffer->ndim);
    } else if (get_dtype(buffer->format, buffer->itemsize, &out->dtype) == 0) {
        for (unsigned i = 0; i < out->ndim; i++) {
            out->shape[i] = (uint64_t)buffer->shape[i];
            out->strides[i] = buffer->strides[i];
        }
        return 0;
    }
    PyBuffer_Release(buffer);
    return -1;
}

/* --- _Array ------------------------------------------------------------------------- */

static int array_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    static Py_ssize_t no_place[1];
    static char nothing[8];
    array_object *object = (array_object *)self;
    buffer->obj = NULL;
    if ((flags & PyBUF_WRITABLE) && !object->writable) {
        PyErr_SetString(PyExc_BufferError, "the array is read-only");
        return -1;
    }
    if (!object->packed && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        PyErr_SetString(PyExc_BufferError,
                        "the elements of the array are not contiguous");
        return -1;
    }
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !object->packed) {
        PyErr_SetString(PyExc_BufferError, "the array is not C-contiguous");
        return -1;
    }
    buffer->buf = object->bytes ? object->data : nothing;
    buffer->len = object->bytes;
    buffer->itemsize = (Py_ssize_t)object->dtype.size;
    buffer->readonly = !object->writable;
    buffer->ndim = object->ndim;
    buffer->format = (flags & PyBUF_FORMAT) ? object->format : NULL;
    Py_ssize_t *places = object->ndim ? object->places : no_place;
    buffer->shape = (flags & PyBUF_ND) ? places : NULL;
    buffer->strides =
        (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? places + object->ndim : NULL;
    buffer->suboffsets = NULL;
    buffer->internal = NULL;
    Py_INCREF(self);
    buffer->obj = self;
    return 0;
}

static void array_dealloc(PyObject *self)
{
    array_object *object = (array_object *)self;
    PyMem_Free(object->places);
    Py_XDECREF(object->owner);
    tarnpy_free(self);
}

static PyType_Slot array_slots[] = {
    {Py_tp_dealloc, array_dealloc},
    {Py_bf_getbuffer, array_buffer},
    {0, NULL},
};

static PyType_Spec array_spec = {
    .name = "tarn._tarn._Array",
    .basicsize = sizeof(array_object),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = array_slots,
};

PyObject *tarnpy_array(tarnpy_state *state, const tarn_array *array, bool writable,
                       PyObject *owner)
{
    array_object *object = TARNPY_NEW(array_object, state->array_type);
    if (!object) return NULL;
    object->places = PyMem_Calloc(2u * array->ndim + 1, sizeof *object->places);
    if (!object->places) {
        Py_DECREF(object);
        return PyErr_NoMemory();
    }
    for (unsigned i = 0; i < array->ndim; i++) {
        object->places[i] = (Py_ssize_t)array->shape[i];
        object->places[array->ndim + i] = (Py_ssize_t)array->strides[i];
    }
    object->data = array->data;
    object->dtype = array->dtype;
    object->ndim = (int)array->ndim;
    object->bytes = (Py_ssize_t)tarn_array_bytes(array);
    object->writable = writable;
    object->packed = tarn_array_is_packed(array);
    put_format(array->dtype, object->format, sizeof object->format);
    Py_XINCREF(owner);
    object->owner = owner;
    return (PyObject *)object;
}

/* --- NumPy -------------------------------------------------------------------------- */

static int find_numpy(tarnpy_state *state)
{
    if (state->numpy_asarray) return 0;
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (!numpy) {
        if (!PyErr_ExceptionMatches(PyExc_ImportError)) return -1;
        PyErr_Clear();
        Py_INCREF(Py_None);
        state->numpy_asarray = Py_None;
        return 0;
    }
    state->numpy_asarray = PyObject_GetAttrString(numpy, "asarray");
    Py_DECREF(numpy);
    return state->numpy_asarray ? 0 : -1;
}

PyObject *tarnpy_ndarray(tarnpy_state *state, const tarn_array *array, bool writable,
                         PyObject *owner)
{
    if (find_numpy(state) != 0) return NULL;
    PyObject *object = tarnpy_array(state, array, writable, owner), *result;
    if (!object) return NULL;
    if (state->numpy_asarray == Py_None) {
        result = PyMemoryView_FromObject(object);
    } else {
        result = PyObject_CallFunctionObjArgs(state->numpy_asarray, object, NULL);
    }
    Py_DECREF(object);
    return result;
}

PyObject *tarnpy_as_numpy(tarnpy_state *state, PyObject *object)
{
    if (find_numpy(state) != 0) return NULL;
    if (state->numpy_asarray == Py_None)
        return PyErr_Format(PyExc_TypeError,
                            "%R is not an array, and NumPy is not installed",
                            (PyObject *)Py_TYPE(object));
    return PyObject_CallFunctionObjArgs(state->numpy_asarray, object, NULL);
}

int tarnpy_add_array(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    return tarnpy_add_type(module, &array_spec, &state->array_type);
}
