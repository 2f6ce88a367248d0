/* value.c: conversion between values of fields and Python objects. The library decides
 * what a field's name means; this file only maps kinds of values to Python types. */
#include "tarnpy.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* --- To Python --------------------------------------------------------------------- */

static PyObject *json_function(PyObject **slot, const char *name)
{
    if (!*slot) {
        PyObject *json = PyImport_ImportModule("json");
        if (!json) return NULL;
        *slot = PyObject_GetAttrString(json, name);
        Py_DECREF(json);
    }
    return *slot;
}

static PyObject *parse_json(tarnpy_state *state, const tarn_value *value)
{
    PyObject *loads = json_function(&state->json_loads, "loads");
    if (!loads) return NULL;
    PyObject *text = PyUnicode_DecodeUTF8(value->data, (Py_ssize_t)value->size, NULL);
    if (!text) return NULL;
    PyObject *result = PyObject_CallFunctionObjArgs(loads, text, NULL);
    Py_DECREF(text);
    return result;
}

static bool lies_in(const tarn_array *array, const tarn_view *view)
{
    const unsigned char *data = array->data;
    return view && view->data && data >= view->data && data <= view->data + view->size;
}

/* A dict if the arrays have names, otherwise a list. */
static PyObject *many_arrays(tarnpy_state *state, const tarn_value *value,
                             const bool *writable, PyObject *keeper)
{
    PyObject *result = value->names ? PyDict_New() : PyList_New(0);
    for (size_t i = 0; result && i < value->count; i++) {
        PyObject *array = tarnpy_ndarray(state, &value->arrays[i], writable[i], keeper);
        int failed = -1;
        if (array && value->names)
            failed = PyDict_SetItemString(result, value->names[i], array);
        else if (array)
            failed = PyList_Append(result, array);
        Py_XDECREF(array);
        if (failed) Py_CLEAR(result);
    }
    return result;
}

/* The arrays point into the view or into memory of the value: both are kept alive by each
 * array. Memory of a file is read-only. */
static PyObject *arrays(tarnpy_state *state, tarn_value *value, tarn_view *view,
                        PyObject *owner)
{
    tarn_value seen = *value;
    bool *writable = PyMem_Calloc(seen.count + 1, sizeof *writable);
    if (!writable) {
        tarn_value_release(value);
        if (view) tarn_view_release(view);
        return PyErr_NoMemory();
    }
    for (size_t i = 0; i < seen.count; i++)
        writable[i] = !lies_in(&seen.arrays[i], view);
    PyObject *keeper = tarnpy_keeper(state, view, value, owner), *result = NULL;
    if (keeper && seen.kind == TARN_VALUE_ARRAY)
        result = tarnpy_ndarray(state, &seen.arrays[0], writable[0], keeper);
    else if (keeper)
        result = many_arrays(state, &seen, writable, keeper);
    Py_XDECREF(keeper);
    PyMem_Free(writable);
    return result;
}

static PyObject *plain(tarnpy_state *state, const tarn_value *value)
{
    switch (value->kind) {
    case TARN_VALUE_TEXT:
        return PyUnicode_DecodeUTF8(value->data, (Py_ssize_t)value->size, NULL);
    case TARN_VALUE_JSON:
        return parse_json(state, value);
    case TARN_VALUE_INTEGER:
        return PyLong_FromLongLong(value->integer);
    case TARN_VALUE_REAL:
        return PyFloat_FromDouble(value->real);
    default:
        return PyBytes_FromStringAndSize(value->data, (Py_ssize_t)value->size);
    }
}

PyObject *tarnpy_value(tarnpy_state *state, tarn_value *value, tarn_view *view,
                       PyObject *owner)
{
    if (value->kind == TARN_VALUE_ARRAY || value->kind == TARN_VALUE_ARRAYS)
        return arrays(state, value, view, owner);
    PyObject *result = plain(state, value);
    tarn_value_release(value);
    if (view) tarn_view_release(view);
    return result;
}

/* --- From Python ------------------------------------------------------------------- */

/* Holds the memory of the object during encoding. */
typedef struct holding {
    tarn_value value;
    PyObject *text;     /* str, bytes or list of items that value points into */
    Py_buffer *buffers; /* of arrays */
    tarn_array *arrays;
    const char **names;
    size_t count; /* number of buffers held */
} holding;

static void let_go(holding *held)
{
    for (size_t i = 0; i < held->count; i++)
        PyBuffer_Release(&held->buffers[i]);
    PyMem_Free(held->buffers);
    PyMem_Free(held->arrays);
    PyMem_Free(held->names);
    Py_XDECREF(held->text);
}

/* Whether the part of the name that chooses the codec is one of two. */
static bool named(const char *field, const char *one, const char *other)
{
    size_t end = strlen(field);
    for (;;) {
        size_t start = end;
        while (start > 0 && field[start - 1] != '.')
            start--;
        size_t len = end - start;
        bool packed =
            start > 0 && ((len == 2 && strncasecmp(field + start, "gz", 2) == 0) ||
                          (len == 3 && strncasecmp(field + start, "zst", 3) == 0));
        if (!packed)
            return (len == strlen(one) && strncasecmp(field + start, one, len) == 0) ||
                   (len == strlen(other) && strncasecmp(field + start, other, len) == 0);
        end = start - 1;
    }
}

static int hold_text(holding *held, tarn_value_kind kind)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(held->text, &size);
    if (!text) return -1;
    held->value =
        (tarn_value){.kind = TARN_VALUE_TEXT, .data = text, .size = (size_t)size};
    held->value.kind = kind;
    return 0;
}

static int hold_json(tarnpy_state *state, PyObject *object, holding *held)
{
    PyObject *dumps = json_function(&state->json_dumps, "dumps");
    if (!dumps) return -1;
    held->text = PyObject_CallFunctionObjArgs(dumps, object, NULL);
    return held->text ? hold_text(held, TARN_VALUE_JSON) : -1;
}

/* The object itself if it has the buffer protocol, otherwise NumPy's array of it. */
static int hold_array(tarnpy_state *state, PyObject *object, holding *held)
{
    PyObject *array = PyObject_CheckBuffer(object) ? (Py_INCREF(object), object)
                                                   : tarnpy_as_numpy(state, object);
    if (!array) return -1;
    int failed =
        tarnpy_array_from(array, &held->buffers[held->count], &held->arrays[held->count]);
    Py_DECREF(array);
    if (failed) return -1;
    held->count++;
    return 0;
}

static int make_room(holding *held, size_t count)
{
    held->buffers = PyMem_Calloc(count + 1, sizeof *held->buffers);
    held->arrays = PyMem_Calloc(count + 1, sizeof *held->arrays);
    held->names = PyMem_Calloc(count + 1, sizeof *held->names);
    if (held->buffers && held->arrays && held->names) return 0;
    PyErr_NoMemory();
    return -1;
}

static const char *array_name(PyObject *name)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    if (!text || strlen(text) == (size_t)size) return text;
    PyErr_Format(PyExc_ValueError, "the name of an array has a NUL character: %R", name);
    return NULL;
}

/* Uses the current items: the dict may change while arrays are made from them, and while
 * they are written without the GIL. */
static int hold_dict(tarnpy_state *state, PyObject *object, holding *held)
{
    held->text = PyDict_Items(object);
    Py_ssize_t count = held->text ? PyList_Size(held->text) : -1;
    if (count < 0 || make_room(held, (size_t)count) != 0) return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyList_GetItem(held->text, i);
        const char *name = array_name(PyTuple_GetItem(pair, 0));
        if (!name || hold_array(state, PyTuple_GetItem(pair, 1), held) != 0) return -1;
        held->names[i] = name;
    }
    held->value = (tarn_value){.kind = TARN_VALUE_ARRAYS,
                               .arrays = held->arrays,
                               .names = held->names,
                               .count = held->count};
    return 0;
}

static int hold_list(tarnpy_state *state, PyObject *object, holding *held)
{
    Py_ssize_t count = PySequence_Size(object);
    if (count < 0 || make_room(held, (size_t)count) != 0) return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        int failed = item ? hold_array(state, item, held) : -1;
        Py_XDECREF(item);
        if (failed) return -1;
    }
    held->value = (tarn_value){
        .kind = TARN_VALUE_ARRAYS, .arrays = held->arrays, .count = held->count};
    return 0;
}

static int hold_number(PyObject *object, holding *held)
{
    if (PyFloat_Check(object)) {
        held->value =
            (tarn_value){.kind = TARN_VALUE_REAL, .real = PyFloat_AsDouble(object)};
        return 0;
    }
    long long integer = PyLong_AsLongLong(object);
    if (integer == -1 && PyErr_Occurred()) return -1;
    held->value = (tarn_value){.kind = TARN_VALUE_INTEGER, .integer = integer};
    return 0;
}

static bool is_bytes(PyObject *object)
{
    return PyBytes_Check(object) || PyByteArray_Check(object);
}

static int hold_buffer(tarnpy_state *state, PyObject *object, holding *held)
{
    if (make_room(held, 1) != 0 || hold_array(state, object, held) != 0) return -1;
    const tarn_array *array = &held->arrays[0];
    bool bytes = array->ndim == 1 && array->dtype.kind == 'u' && array->dtype.size == 1 &&
                 (is_bytes(object) || PyMemoryView_Check(object)) &&
                 tarn_array_is_packed(array);
    held->value = (tarn_value){.kind = TARN_VALUE_ARRAY, .arrays = array, .count = 1};
    if (bytes)
        held->value = (tarn_value){
            .kind = TARN_VALUE_BYTES, .data = array->data, .size = array->shape[0]};
    return 0;
}

static int hold(tarnpy_state *state, const char *field, PyObject *object, holding *held)
{
    if (PyUnicode_Check(object)) {
        Py_INCREF(object);
        held->text = object;
        return hold_text(held, TARN_VALUE_TEXT);
    }
    if (is_bytes(object) || PyMemoryView_Check(object))
        return hold_buffer(state, object, held);
    if (named(field, "json", "jsn")) return hold_json(state, object, held);
    if (PyLong_Check(object) || PyFloat_Check(object)) return hold_number(object, held);
    if (PyDict_Check(object)) return hold_dict(state, object, held);
    if (PyList_Check(object) || PyTuple_Check(object)) {
        if (!named(field, "npy", "rle")) return hold_list(state, object, held);
    }
    return hold_buffer(state, object, held);
}

int tarnpy_encode(tarnpy_state *state, const char *field, PyObject *object,
                  const tarn_encode_options *options, tarn_bytes *out)
{
    holding held = {.value = TARN_VALUE_INIT};
    tarn_error err;
    tarn_status status = TARN_OK;
    int failed = hold(state, field, object, &held);
    if (!failed) {
        TARNPY_UNLOCKED(status, tarn_encode(field, &held.value, options, out, &err));
        if (status != TARN_OK) tarnpy_raise(state, &err);
    }
    let_go(&held);
    return failed || status != TARN_OK ? -1 : 0;
}

/* --- Functions --------------------------------------------------------------------- */

PyDoc_STRVAR(encode_doc,
             "encode(field, value)\n--\n\nReturns the bytes of a value under a field's "
             "name.\n\n>>> from tarn import _tarn\n>>> _tarn.encode('cls', 7)\nb'7'");

static PyObject *encode(PyObject *module, PyObject *args)
{
    const char *field;
    PyObject *object, *result = NULL;
    tarn_bytes out = TARN_BYTES_INIT;
    if (!PyArg_ParseTuple(args, "sO:encode", &field, &object)) return NULL;
    if (tarnpy_encode(tarnpy_module_state(module), field, object, NULL, &out) == 0)
        result = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
    tarn_bytes_release(&out);
    return result;
}

PyDoc_STRVAR(
    decode_doc,
    "decode(field, data, upright=False)\n--\n\nReturns the value of a field's bytes, "
    "which may share their memory.\n\n>>> from tarn import _tarn\n>>> "
    "_tarn.decode('cls', b'7')\n7");

static PyObject *decode(PyObject *module, PyObject *args)
{
    const char *field;
    PyObject *object, *memory;
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    int upright = 0;
    if (!PyArg_ParseTuple(args, "sO|p:decode", &field, &object, &upright)) return NULL;
    if (upright) o.flags = TARN_DECODE_UPRIGHT;
    memory = PyMemoryView_GetContiguous(object, PyBUF_READ, 'C');
    if (!memory) return NULL;
    PyObject *result =
        tarnpy_decode_memory(tarnpy_module_state(module), field, memory, &o);
    Py_DECREF(memory);
    return result;
}

PyObject *tarnpy_decode_memory(tarnpy_state *state, const char *field, PyObject *memory,
                               const tarn_decode_options *options)
{
    Py_buffer buffer;
    tarn_value value;
    tarn_error err;
    tarn_status status;
    if (PyObject_GetBuffer(memory, &buffer, PyBUF_SIMPLE) != 0) return NULL;
    TARNPY_UNLOCKED(status, tarn_decode(field, buffer.buf, (size_t)buffer.len, options,
                                        &value, &err));
    if (status != TARN_OK) {
        PyBuffer_Release(&buffer);
        return tarnpy_raise(state, &err);
    }
    tarn_view seen = {.data = buffer.buf, .size = (size_t)buffer.len};
    PyObject *result = tarnpy_value(state, &value, &seen, memory);
    PyBuffer_Release(&buffer);
    return result;
}

static PyMethodDef functions[] = {
    {"encode", encode, METH_VARARGS, encode_doc},
    {"decode", decode, METH_VARARGS, decode_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_value(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
