/* collate.c: the arrays of many samples as one array (tarn/collate.h), for the results of
 * functions; and the same options for loaders. */
#include "dataset.h"

#include <stdio.h>
#include <string.h>

/* --- Options ----------------------------------------------------------------------- */

static int take_value(PyObject *object, tarnpy_form *out)
{
    out->value = (tarn_value)TARN_VALUE_INIT;
    out->options.value = &out->value;
    if (PyFloat_Check(object)) {
        out->value.kind = TARN_VALUE_REAL;
        out->value.real = PyFloat_AsDouble(object);
    } else {
        out->value.kind = TARN_VALUE_INTEGER;
        out->value.integer = PyLong_AsLongLong(object);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* The numbers of a tuple; returns how many, -1 on failure. */
static Py_ssize_t take_numbers(tarnpy_state *state, PyObject *tuple, int *axes,
                               uint64_t *fixed)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count >= (Py_ssize_t)TARN_MAX_DIMS) {
        tarnpy_usage(state, "an array has at most %d axes to pad",
                     (int)TARN_MAX_DIMS - 1);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        if (axes)
            axes[i] = (int)PyLong_AsLong(item);
        else
            fixed[i] = PyLong_AsUnsignedLongLong(item);
    }
    return PyErr_Occurred() ? -1 : count;
}

int tarnpy_form_get(tarnpy_state *state, PyObject *object, tarnpy_form *out)
{
    tarn_collate_options *o = &out->options;
    *o = (tarn_collate_options)TARN_COLLATE_OPTIONS_INIT;
    if (object == Py_None) return 0;
    o->kind = TARN_COLLATE_RAGGED;
    if (PyTuple_Check(object) && PyTuple_Size(object) == 0) return 0;
    PyObject *value, *axes, *fixed;
    int left, truncate, mask, lengths;
    o->kind = TARN_COLLATE_PAD;
    if (!PyArg_ParseTuple(object, "OO!O!Kpppp:form", &value, &PyTuple_Type, &axes,
                          &PyTuple_Type, &fixed, &o->multiple, &left, &truncate, &mask,
                          &lengths) ||
        take_value(value, out) != 0)
        return -1;
    Py_ssize_t n_axes = take_numbers(state, axes, out->axes, NULL);
    Py_ssize_t n_fixed = n_axes < 0 ? -1 : take_numbers(state, fixed, NULL, out->fixed);
    if (n_fixed < 0) return -1;
    o->n_axes = (size_t)n_axes;
    o->n_fixed = (size_t)n_fixed;
    o->axes = n_axes ? out->axes : NULL;
    o->fixed = n_fixed ? out->fixed : NULL;
    o->left = left;
    o->truncate = truncate;
    o->mask = mask;
    o->lengths = lengths;
    return 0;
}

/* --- Arrays ------------------------------------------------------------------------ */

typedef struct inputs {
    tarn_array *arrays;
    Py_buffer *buffers;
    Py_ssize_t count, held;
} inputs;

static void inputs_free(inputs *in)
{
    while (in->held > 0)
        PyBuffer_Release(&in->buffers[--in->held]);
    PyMem_Free(in->arrays);
    PyMem_Free(in->buffers);
}

static int inputs_get(PyObject *list, inputs *out)
{
    size_t count = (size_t)PyList_Size(list);
    *out =
        (inputs){PyMem_Malloc((count + 1) * sizeof *out->arrays),
                 PyMem_Malloc((count + 1) * sizeof *out->buffers), (Py_ssize_t)count, 0};
    if (!out->arrays || !out->buffers) {
        PyErr_NoMemory();
        return -1;
    }
    for (; out->held < out->count; out->held++)
        if (tarnpy_array_from(PyList_GetItem(list, out->held), &out->buffers[out->held],
                              &out->arrays[out->held]) != 0)
            return -1;
    return 0;
}

/* --- Results ----------------------------------------------------------------------- */

/* Memory for an array of the result, as a bytearray; None if it is not wanted. */
static PyObject *room_for(tarn_array *array)
{
    if (!array->dtype.kind) Py_RETURN_NONE;
    PyObject *memory =
        PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)tarn_array_bytes(array));
    if (memory) array->data = PyByteArray_AsString(memory);
    return memory;
}

static PyObject *as_array(tarnpy_state *state, const tarn_array *array, PyObject *memory)
{
    if (!memory) return NULL;
    if (memory == Py_None) return memory;
    PyObject *result = tarnpy_ndarray(state, array, true, memory);
    Py_DECREF(memory);
    return result;
}

static PyObject *collated(tarnpy_state *state, const inputs *in, const tarnpy_form *form,
                          tarn_collated *out)
{
    tarn_array *parts[] = {&out->values, &out->mask, &out->lengths, &out->offsets};
    PyObject *rooms[4], *tuple;
    tarn_error err;
    tarn_status status = TARN_OK;
    for (int i = 0; i < 4; i++)
        rooms[i] = room_for(parts[i]);
    bool whole = rooms[0] && rooms[1] && rooms[2] && rooms[3];
    if (whole)
        TARNPY_UNLOCKED(status, tarn_collate_run(in->arrays, (size_t)in->count,
                                                 &form->options, out, &err));
    if (status != TARN_OK) tarnpy_raise(state, &err);
    tuple = whole && status == TARN_OK ? PyTuple_New(4) : NULL;
    for (int i = 0; i < 4; i++) {
        PyObject *item = tuple ? as_array(state, parts[i], rooms[i]) : NULL;
        if (!tuple)
            Py_XDECREF(rooms[i]);
        else if (!item || PyTuple_SetItem(tuple, i, item) != 0)
            whole = false;
    }
    if (whole) return tuple;
    Py_XDECREF(tuple);
    return NULL;
}

PyDoc_STRVAR(
    collate_doc,
    "collate(arrays, form, field)\n--\n\nReturns values, mask, lengths and offsets "
    "of a list of arrays; None for those that the form does not ask for. The form "
    "is None to stack, () for ragged arrays, or the options of padding. Arrays that "
    "cannot be stacked give None.");

static PyObject *collate(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    PyObject *list, *form_object, *field, *result = NULL;
    tarnpy_form form;
    tarn_collated out;
    tarn_error err;
    inputs in;
    if (!PyArg_ParseTuple(args, "O!OU:collate", &PyList_Type, &list, &form_object,
                          &field) ||
        tarnpy_form_get(state, form_object, &form) != 0)
        return NULL;
    if (inputs_get(list, &in) == 0) {
        tarn_status status =
            tarn_collate_plan(in.arrays, (size_t)in.count, &form.options, &out, &err);
        if (status == TARN_OK)
            result = collated(state, &in, &form, &out);
        else if (status == TARN_ERR_FORMAT && form.options.kind == TARN_COLLATE_STACK)
            result = Py_NewRef(Py_None);
        else
            tarnpy_raise(state, &err);
    }
    inputs_free(&in);
    const char *name = result ? NULL : PyUnicode_AsUTF8AndSize(field, NULL);
    if (name && name[0]) {
        char where[256];
        snprintf(where, sizeof where, "field %s", name);
        tarnpy_place(state, where, NULL, TARN_NO_OFFSET);
    }
    return result;
}

PyDoc_STRVAR(
    collate_check_doc,
    "collate_check(array, form)\n--\n\nRaises an error if an array cannot be in a "
    "batch of this form, whatever the others are.");

static PyObject *collate_check(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    PyObject *object, *form_object;
    tarnpy_form form;
    tarn_collated out;
    tarn_error err;
    tarn_array array;
    Py_buffer buffer;
    if (!PyArg_ParseTuple(args, "OO:collate_check", &object, &form_object) ||
        tarnpy_form_get(state, form_object, &form) != 0 ||
        tarnpy_array_from(object, &buffer, &array) != 0)
        return NULL;
    tarn_status status = tarn_collate_plan(&array, 1, &form.options, &out, &err);
    PyBuffer_Release(&buffer);
    if (status != TARN_OK) return tarnpy_raise(state, &err);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"collate", collate, METH_VARARGS, collate_doc},
    {"collate_check", collate_check, METH_VARARGS, collate_check_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_collate(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
