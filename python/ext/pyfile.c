/* pyfile.c: Python file objects as sources and sinks of the library. The library calls
 * these functions without the GIL; they acquire it to call into Python. */
#include "writing.h"

#include <string.h>

/* The exception that is set has the details; the text is for code that prints the
 * error. */
static tarn_status failed(tarn_error *err, const char *what)
{
    err->offset = TARN_NO_OFFSET;
    strncpy(err->message, what, sizeof err->message - 1);
    return TARN_ERR_IO;
}

static tarn_status take_bytes(PyObject *bytes, void *buf, size_t len, size_t *out_got,
                              tarn_error *err)
{
    Py_buffer view;
    if (PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE) != 0)
        return failed(err, "read() of the file object did not return bytes");
    tarn_status status = TARN_OK;
    if ((size_t)view.len > len) {
        PyErr_SetString(PyExc_ValueError, "read() returned more bytes than requested");
        status = failed(err, "read() returned more bytes than requested");
    } else {
        memcpy(buf, view.buf, (size_t)view.len);
        *out_got = (size_t)view.len;
    }
    PyBuffer_Release(&view);
    return status;
}

static tarn_status read_file(void *context, void *buf, size_t len, size_t *out_got,
                             tarn_error *err)
{
    tarnpy_file *file = context;
    tarn_status status;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *bytes = PyErr_Occurred() ? NULL
                                       : PyObject_CallMethod(file->object, "read", "n",
                                                             (Py_ssize_t)len);
    status = bytes ? take_bytes(bytes, buf, len, out_got, err)
                   : failed(err, "read() of the file object failed");
    Py_XDECREF(bytes);
    PyGILState_Release(gil);
    return status;
}

static tarn_status begin_file(void *context, const char *url, tarn_error *err)
{
    tarnpy_file *file = context;
    tarn_status status = TARN_OK;
    if (!file->opener) return TARN_OK;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *name = tarnpy_text(url, strlen(url)), *object = NULL;
    if (name) object = PyObject_CallFunctionObjArgs(file->opener, name, NULL);
    Py_XDECREF(name);
    Py_XDECREF(file->object);
    file->object = object;
    if (!object) status = failed(err, "the opener failed");
    PyGILState_Release(gil);
    return status;
}

/* Calls write() with a memoryview that is released afterwards, so that code that keeps it
 * cannot read memory that is about to change. */
static PyObject *write_view(PyObject *object, const char *data, size_t len)
{
    PyObject *type, *value, *trace;
    PyObject *view =
        PyMemoryView_FromMemory((char *)(uintptr_t)data, (Py_ssize_t)len, PyBUF_READ);
    if (!view) return NULL;
    PyObject *done = PyObject_CallMethod(object, "write", "O", view);
    PyErr_Fetch(&type, &value, &trace);
    PyObject *gone = PyObject_CallMethod(view, "release", NULL);
    Py_DECREF(view);
    if (type) {
        PyErr_Restore(type, value, trace);
    } else if (!gone) {
        Py_CLEAR(done);
    }
    Py_XDECREF(gone);
    return done;
}

/* A raw file may accept fewer bytes than it is given. */
static int write_all(PyObject *object, const char *data, size_t len)
{
    while (len) {
        size_t taken = len;
        PyObject *done = write_view(object, data, len);
        if (!done) return -1;
        if (PyLong_Check(done)) taken = PyLong_AsSize_t(done);
        Py_DECREF(done);
        if (PyErr_Occurred()) return -1;
        if (taken > len || taken == 0) {
            PyErr_SetString(PyExc_OSError,
                            "write() of the file object accepts no more bytes");
            return -1;
        }
        data += taken;
        len -= taken;
    }
    return 0;
}

static tarn_status write_file(void *context, const void *data, size_t len,
                              tarn_error *err)
{
    tarnpy_file *file = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    tarn_status status = TARN_OK;
    if (PyErr_Occurred() || write_all(file->object, data, len) != 0)
        status = failed(err, "write() of the file object failed");
    PyGILState_Release(gil);
    return status;
}

/* Flushes but does not close the file, which belongs to the caller. */
static tarn_status finish_file(void *context, tarn_error *err)
{
    tarnpy_file *file = context;
    tarn_status status = TARN_OK;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *flush = PyObject_GetAttrString(file->object, "flush");
    if (!flush)
        PyErr_Clear();
    else {
        PyObject *done = PyObject_CallNoArgs(flush);
        if (!done) status = failed(err, "flush() of the file object failed");
        Py_XDECREF(done);
        Py_DECREF(flush);
    }
    if (file->opener) Py_CLEAR(file->object);
    PyGILState_Release(gil);
    return status;
}

tarn_source_calls tarnpy_file_source(tarnpy_file *file)
{
    return (tarn_source_calls){
        .size = sizeof(tarn_source_calls), .context = file, .read = read_file};
}

tarn_sink_calls tarnpy_file_sink(tarnpy_file *file)
{
    return (tarn_sink_calls){.size = sizeof(tarn_sink_calls),
                             .context = file,
                             .begin = begin_file,
                             .write = write_file,
                             .finish = finish_file};
}

void tarnpy_file_clear(tarnpy_file *file)
{
    Py_CLEAR(file->object);
    Py_CLEAR(file->opener);
}
