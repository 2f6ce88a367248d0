/* gnz_write.c: writes array files. The library borrows the values given to add until the
 * layout is fixed, so their buffers are held until then. fill and append may run in
 * several threads; all other calls need exclusive use of the writer, which is checked
 * here. */
#include "filespy.h"

#include <string.h>
#include <unistd.h>

typedef struct gnz_writer {
    PyObject_HEAD tarn_gnz_writer *writer; /* NULL after finish or abandon */
    Py_buffer *held;
    size_t n_held;
    size_t filling; /* running calls of fill and append */
    bool alone;     /* a call that needs exclusive use is running */
    pid_t pid;      /* the process that created it; a forked child must not use it */
} gnz_writer;

static tarnpy_state *state_of(void *self)
{
    return tarnpy_type_state(Py_TYPE((PyObject *)self));
}

static bool usable(gnz_writer *w, bool alone)
{
    if (!w->writer)
        tarnpy_usage(state_of(w), "the writer is finished; nothing can be added");
    else if (tarnpy_is_own(w->pid) && (w->alone || (alone && w->filling)))
        tarnpy_usage(state_of(w), "another thread is using the writer");
    return !PyErr_Occurred();
}

static void let_go(gnz_writer *w)
{
    for (size_t i = 0; i < w->n_held; i++)
        PyBuffer_Release(&w->held[i]);
    PyMem_Free(w->held);
    w->held = NULL;
    w->n_held = 0;
}

static PyObject *answer(gnz_writer *w, tarn_status status, const tarn_error *err)
{
    if (status != TARN_OK) return tarnpy_raise_key(state_of(w), err);
    Py_RETURN_NONE;
}

/* --- Before the layout is fixed ---------------------------------------------------- */

static PyObject *writer_metadata(PyObject *self, PyObject *args)
{
    gnz_writer *w = (gnz_writer *)self;
    const char *json;
    Py_ssize_t size;
    tarn_error err;
    if (!PyArg_ParseTuple(args, "s#", &json, &size) || !usable(w, true)) return NULL;
    return answer(w, tarn_gnz_writer_metadata(w->writer, json, (size_t)size, &err), &err);
}

static bool type_named(gnz_writer *w, const char *text, tarn_dtype *out)
{
    tarn_error err;
    if (tarn_dtype_parse(text, strlen(text), out, &err) == TARN_OK) return true;
    tarnpy_raise(state_of(w), &err);
    return false;
}

static bool hold(gnz_writer *w, const Py_buffer *buffer)
{
    Py_buffer *held = PyMem_Realloc(w->held, (w->n_held + 1) * sizeof *held);
    if (!held) {
        PyErr_NoMemory();
        return false;
    }
    w->held = held;
    w->held[w->n_held++] = *buffer;
    return true;
}

/* Gets the values of an argument if the writer is still usable afterwards: the argument
 * may run any Python code, which may have finished the writer. */
static bool values_get(gnz_writer *w, bool alone, PyObject *values, Py_buffer *buffer,
                       tarn_array *array)
{
    if (tarnpy_array_from(values, buffer, array) != 0) return false;
    if (usable(w, alone)) return true;
    PyBuffer_Release(buffer);
    return false;
}

static PyObject *writer_add(PyObject *self, PyObject *args)
{
    gnz_writer *w = (gnz_writer *)self;
    const char *name, *type = NULL;
    PyObject *values;
    Py_buffer buffer;
    tarn_array array;
    tarn_dtype as;
    tarn_error err;
    if (!PyArg_ParseTuple(args, "sOz", &name, &values, &type) ||
        (type && !type_named(w, type, &as)) ||
        !values_get(w, true, values, &buffer, &array))
        return NULL;
    tarn_status status =
        tarn_gnz_writer_add(w->writer, name, &array, type ? &as : NULL, &err);
    if (status == TARN_OK && hold(w, &buffer)) Py_RETURN_NONE;
    PyBuffer_Release(&buffer);
    return status == TARN_OK ? NULL : tarnpy_raise(state_of(self), &err);
}

/* The numbers of a tuple; -1 with an exception if there are more than room. */
static int numbers(PyObject *tuple, uint64_t *out, unsigned room)
{
    PyObject *list = PySequence_Tuple(tuple);
    Py_ssize_t count = list ? PyTuple_Size(list) : -1;
    if (count > (Py_ssize_t)room) {
        PyErr_Format(PyExc_ValueError, "%zd dimensions; the limit is %u", count, room);
        count = -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *number = PyNumber_Index(PyTuple_GetItem(list, i));
        out[i] = number ? PyLong_AsUnsignedLongLong(number) : 0;
        Py_XDECREF(number);
        if (!PyErr_Occurred()) continue;
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_SetString(PyExc_ValueError, "expected a number from 0 to 2^64 - 1");
        count = -1;
    }
    Py_XDECREF(list);
    return (int)count;
}

static PyObject *writer_reserve(PyObject *self, PyObject *args)
{
    gnz_writer *w = (gnz_writer *)self;
    const char *name, *type;
    PyObject *sizes;
    unsigned long long reserved;
    uint64_t shape[TARN_MAX_DIMS];
    tarn_dtype dtype;
    tarn_error err;
    if (!PyArg_ParseTuple(args, "ssOK", &name, &type, &sizes, &reserved) ||
        !type_named(w, type, &dtype))
        return NULL;
    int ndim = numbers(sizes, shape, TARN_MAX_DIMS); /* may run any Python code */
    if (ndim < 0 || !usable(w, true)) return NULL;
    if (tarn_gnz_writer_reserve(w->writer, name, dtype, (unsigned)ndim, shape, reserved,
                                &err) != TARN_OK)
        return tarnpy_raise(state_of(self), &err);
    Py_RETURN_NONE;
}

static PyObject *writer_begin(PyObject *self, PyObject *unused)
{
    gnz_writer *w = (gnz_writer *)self;
    tarn_error err;
    tarn_status status;
    if (!usable(w, true)) return NULL;
    w->alone = true;
    TARNPY_UNLOCKED(status, tarn_gnz_writer_begin(w->writer, &err));
    w->alone = false;
    let_go(w);
    return answer(w, status, &err);
}

/* --- Values and closing ------------------------------------------------------------ */

static PyObject *writer_fill(PyObject *self, PyObject *args)
{
    gnz_writer *w = (gnz_writer *)self;
    const char *name;
    PyObject *at, *values;
    uint64_t start[TARN_MAX_DIMS] = {0};
    Py_buffer buffer;
    tarn_array array;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "sOO", &name, &at, &values) ||
        (at != Py_None && numbers(at, start, TARN_MAX_DIMS) < 0) ||
        !values_get(w, false, values, &buffer, &array))
        return NULL;
    w->filling++;
    TARNPY_UNLOCKED(status,
                    tarn_gnz_writer_fill(w->writer, name, at == Py_None ? NULL : start,
                                         &array, &err));
    w->filling--;
    PyBuffer_Release(&buffer);
    return answer(w, status, &err);
}

static PyObject *writer_finish(PyObject *self, PyObject *unused)
{
    gnz_writer *w = (gnz_writer *)self;
    tarn_gnz_writer *writer = w->writer;
    tarn_error err;
    tarn_status status;
    if (!usable(w, true)) return NULL;
    w->writer = NULL;
    TARNPY_UNLOCKED(status, tarn_gnz_writer_finish(writer, &err));
    let_go(w);
    return answer(w, status, &err);
}

static PyObject *writer_abandon(PyObject *self, PyObject *unused)
{
    gnz_writer *w = (gnz_writer *)self;
    if (!w->writer) Py_RETURN_NONE;
    if (w->pid == getpid() && !usable(w, true)) return NULL;
    tarn_gnz_writer *writer = w->writer;
    w->writer = NULL; /* before other threads can run */
    Py_BEGIN_ALLOW_THREADS;
    if (w->pid == getpid()) tarn_gnz_writer_abandon(writer);
    Py_END_ALLOW_THREADS;
    let_go(w);
    Py_RETURN_NONE;
}

static void writer_dealloc(PyObject *self)
{
    gnz_writer *w = (gnz_writer *)self;
    if (w->pid == getpid()) tarn_gnz_writer_abandon(w->writer);
    let_go(w);
    tarnpy_free(self);
}

static PyMethodDef writer_methods[] = {
    {"metadata", writer_metadata, METH_VARARGS, "metadata(json)"},
    {"add", writer_add, METH_VARARGS, "add(name, values, dtype or None)"},
    {"reserve", writer_reserve, METH_VARARGS, "reserve(name, dtype, shape, rows)"},
    {"begin", writer_begin, METH_NOARGS,
     "begin(): fixes the layout, writes the arrays that were added"},
    {"fill", writer_fill, METH_VARARGS, "fill(name, start or None, values)"},
    {"finish", writer_finish, METH_NOARGS, "publish"},
    {"abandon", writer_abandon, METH_NOARGS, "abandon(): discards the file"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot writer_slots[] = {
    {Py_tp_dealloc, writer_dealloc}, {Py_tp_methods, writer_methods}, {0, NULL}};
static PyType_Spec writer_spec = {"tarn._tarn.GnzWriter", sizeof(gnz_writer), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  writer_slots};

static PyObject *gnz_write(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    PyObject *path;
    int update, overwrite, checksums, sync;
    tarn_error err;
    if (!PyArg_ParseTuple(args, "O&pppIp", tarnpy_path, &path, &update, &overwrite,
                          &checksums, &o.header_pages, &sync))
        return NULL;
    o.update = update;
    o.overwrite = overwrite;
    o.checksums = checksums;
    o.no_sync = !sync;
    gnz_writer *w = TARNPY_NEW(gnz_writer, state->gnz_writer_type);
    tarn_status status = TARN_OK;
    const char *name = PyBytes_AsString(path);
    if (w) w->pid = getpid();
    if (w) TARNPY_UNLOCKED(status, tarn_gnz_writer_open(name, &o, &w->writer, &err));
    Py_DECREF(path);
    if (!w || status == TARN_OK) return (PyObject *)w;
    w->writer = NULL;
    Py_DECREF(w);
    return tarnpy_raise(state, &err);
}

static PyMethodDef functions[] = {
    {"gnz_write", gnz_write, METH_VARARGS,
     "gnz_write(path, update, overwrite, checksums, header_pages, sync)"},
    {NULL, NULL, 0, NULL}};

int tarnpy_add_gnz_writer(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &writer_spec, &state->gnz_writer_type) != 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
