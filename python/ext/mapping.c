/* mapping.c: the loop over the samples of a batch for functions that take a whole sample
 * (tarn._work), and what turns their results into columns. */
#include "arena.h"

enum { SIGNALS = 1024 }; /* samples between two checks for signals */

/* Where the samples come from and what is called. */
typedef struct mapping {
    PyObject *names;     /* tuple of the fields */
    PyObject *columns;   /* list of iterators, one for each */
    PyObject *functions; /* tuple */
    PyObject *values;    /* list, with room for all results */
    Py_ssize_t n_names, n_functions;
    PyObject *memory; /* with the task that this is part of, or None */
    unsigned long long task;
} mapping;

/* The next sample as a new dict. */
static PyObject *next_sample(const mapping *m)
{
    PyObject *sample = PyDict_New();
    for (Py_ssize_t i = 0; sample && i < m->n_names; i++) {
        PyObject *value = PyIter_Next(PyList_GetItem(m->columns, i));
        if (!value && !PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "a column is too short");
        if (tarnpy_put(sample, PyTuple_GetItem(m->names, i), value) != 0)
            Py_CLEAR(sample);
    }
    return sample;
}

/* Calls all functions. *out_value is NULL with an exception, or if one returned None.
 * Takes over sample. */
static void call_functions(const mapping *m, PyObject *sample, PyObject **out_value)
{
    PyObject *value = sample;
    for (Py_ssize_t i = 0; value && i < m->n_functions; i++) {
        PyObject *made =
            PyObject_CallFunctionObjArgs(PyTuple_GetItem(m->functions, i), value, NULL);
        Py_DECREF(value);
        value = made;
        if (value == Py_None) Py_CLEAR(value);
    }
    *out_value = value;
}

/* The exception that is set, with its traceback, if it is an Exception. */
static PyObject *take_exception(void)
{
    PyObject *type, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace && value) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* Samples first, first + 1, ... until one fails, or all are done. Returns the number of
 * that one, and sets *out_error (NULL for None); -1 on any other failure. */
static Py_ssize_t map_all(const mapping *m, Py_ssize_t first, PyObject **out_error)
{
    Py_ssize_t count = PyList_Size(m->values);
    for (Py_ssize_t i = first; i < count; i++) {
        PyObject *value, *sample = next_sample(m);
        if (!sample || (i % SIGNALS == 0 && PyErr_CheckSignals() != 0)) {
            Py_XDECREF(sample);
            return -1;
        }
        if (m->memory != Py_None) tarnpy_task_at(m->memory, m->task, (unsigned)i);
        call_functions(m, sample, &value);
        if (!value) {
            if (!PyErr_Occurred()) return i;
            *out_error = take_exception();
            return *out_error ? i : -1;
        }
        if (PyList_SetItem(m->values, i, value) != 0) return -1;
    }
    return count;
}

PyDoc_STRVAR(
    map_doc,
    "map_samples(names, columns, functions, values, first, memory, task)\n--\n\n"
    "Makes samples of the next values of columns (iterators), and puts the "
    "results of the functions into values[first:]. Returns where it stopped, and "
    "the exception, or None if a function returned None. With memory, says for "
    "the task which sample comes next.");

static PyObject *map_samples(PyObject *module, PyObject *args)
{
    mapping m;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(args, "O!O!O!O!nOK:map_samples", &PyTuple_Type, &m.names,
                          &PyList_Type, &m.columns, &PyTuple_Type, &m.functions,
                          &PyList_Type, &m.values, &first, &m.memory, &m.task))
        return NULL;
    m.n_names = PyTuple_Size(m.names);
    m.n_functions = PyTuple_Size(m.functions);
    bool fits = PyList_Size(m.columns) == m.n_names && first >= 0;
    for (Py_ssize_t i = 0; fits && i < m.n_names; i++)
        fits = PyIter_Check(PyList_GetItem(m.columns, i));
    if (!fits || (m.memory != Py_None &&
                  Py_TYPE(m.memory) != tarnpy_module_state(module)->arena_type)) {
        PyErr_SetString(PyExc_TypeError, "map_samples: columns or memory");
        return NULL;
    }
    PyObject *error = NULL;
    Py_ssize_t end = map_all(&m, first, &error);
    if (end < 0) return NULL;
    if (error) return Py_BuildValue("nN", end, error);
    return Py_BuildValue("nO", end, Py_None);
}

/* --- Results ------------------------------------------------------------------------ */

/* The values of a name in a list of dicts of n fields; NULL without an exception if one
 * is not such a dict. */
static PyObject *values_of(PyObject *samples, PyObject *name, Py_ssize_t n)
{
    Py_ssize_t count = PyList_Size(samples);
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *sample = PyList_GetItem(samples, i), *value = NULL;
        if (PyDict_CheckExact(sample) && PyDict_Size(sample) == n)
            value = PyDict_GetItemWithError(sample, name);
        Py_XINCREF(value);
        if (!value || PyList_SetItem(list, i, value) != 0) Py_CLEAR(list);
    }
    return list;
}

PyDoc_STRVAR(columns_doc,
             "columns_of(samples, names)\n--\n\nReturns a list of the values "
             "of each name, or None if not all samples are dicts of these.");

static PyObject *columns_of(PyObject *module, PyObject *args)
{
    PyObject *samples, *names;
    if (!PyArg_ParseTuple(args, "O!O!:columns_of", &PyList_Type, &samples, &PyTuple_Type,
                          &names))
        return NULL;
    Py_ssize_t n = PyTuple_Size(names);
    PyObject *columns = PyList_New(n);
    for (Py_ssize_t i = 0; columns && i < n; i++) {
        PyObject *column = values_of(samples, PyTuple_GetItem(names, i), n);
        if (!column || PyList_SetItem(columns, i, column) != 0) Py_CLEAR(columns);
    }
    if (columns || PyErr_Occurred()) return columns;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"map_samples", map_samples, METH_VARARGS, map_doc},
                                  {"columns_of", columns_of, METH_VARARGS, columns_doc},
                                  {NULL, NULL, 0, NULL}};

int tarnpy_add_mapping(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
