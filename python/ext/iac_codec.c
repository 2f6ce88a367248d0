/* iac_codec.c: encodes and decodes single payloads without the GIL. */
#include "filespy.h"

static PyObject *taken(PyObject *module, tarn_status status, tarn_view *view,
                       const tarn_error *err)
{
    if (status != TARN_OK) return tarnpy_raise(tarnpy_module_state(module), err);
    PyObject *bytes =
        PyBytes_FromStringAndSize((const char *)view->data, (Py_ssize_t)view->size);
    tarn_view_release(view);
    return bytes;
}

static PyObject *iac_encode(PyObject *module, PyObject *args)
{
    const char *name;
    int level;
    Py_buffer data;
    tarn_view out = TARN_VIEW_INIT;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "siy*", &name, &level, &data)) return NULL;
    TARNPY_UNLOCKED(status,
                    tarn_iac_encode(name, level, data.buf, (size_t)data.len, &out, &err));
    PyBuffer_Release(&data);
    return taken(module, status, &out, &err);
}

static PyObject *iac_encode_brotli(PyObject *module, PyObject *args)
{
    int quality, window;
    Py_buffer data;
    tarn_view out = TARN_VIEW_INIT;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "iiy*", &quality, &window, &data)) return NULL;
    TARNPY_UNLOCKED(status, tarn_iac_encode_brotli(quality, window, data.buf,
                                                   (size_t)data.len, &out, &err));
    PyBuffer_Release(&data);
    return taken(module, status, &out, &err);
}

static PyObject *iac_decode(PyObject *module, PyObject *args)
{
    const char *name;
    unsigned long long limit;
    Py_buffer data;
    tarn_view out = TARN_VIEW_INIT;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "sy*K", &name, &data, &limit)) return NULL;
    TARNPY_UNLOCKED(status,
                    tarn_iac_decode(name, data.buf, (size_t)data.len, limit, &out, &err));
    PyBuffer_Release(&data);
    return taken(module, status, &out, &err);
}

static PyMethodDef functions[] = {
    {"iac_encode", iac_encode, METH_VARARGS, "iac_encode(codec, level, data): bytes"},
    {"iac_encode_brotli", iac_encode_brotli, METH_VARARGS,
     "iac_encode_brotli(quality, window, data): bytes"},
    {"iac_decode", iac_decode, METH_VARARGS, "iac_decode(codec, data, limit): bytes"},
    {NULL, NULL, 0, NULL}};

int tarnpy_add_iac_codec(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
