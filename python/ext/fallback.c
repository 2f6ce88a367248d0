/* fallback.c: the Python function that decodes images of formats that the library does
 * not know. The loader calls it without the GIL, in the thread that asked for a batch. */
#include "tarnpy.h"

#include <string.h>

typedef struct kept {
    Py_buffer buffer;
    tarn_array array;
} kept;

static void let_go(void *owned)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    kept *k = owned;
    PyBuffer_Release(&k->buffer);
    PyMem_Free(k);
    PyGILState_Release(gil);
}

/* The pixels of the function's result, which stay in its memory. */
static int take(PyObject *result, tarn_value *out)
{
    kept *k = PyMem_Calloc(1, sizeof *k);
    if (!k) {
        PyErr_NoMemory();
        return -1;
    }
    if (tarnpy_array_from(result, &k->buffer, &k->array) != 0) {
        PyMem_Free(k);
        return -1;
    }
    *out = (tarn_value){.kind = TARN_VALUE_ARRAY,
                        .arrays = &k->array,
                        .count = 1,
                        .owned = k,
                        .release = let_go};
    return 0;
}

/* Ordinary exceptions become errors of the sample; KeyboardInterrupt and the like stay
 * set and end the call. */
static tarn_status failed(tarn_error *err)
{
    PyObject *type, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return TARN_ERR_CANCELLED;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value ? PyObject_Repr(value) : NULL, *copy = NULL;
    const char *words = text ? tarnpy_utf8(text, &copy) : NULL;
    PyErr_Clear();
    *err = (tarn_error){.code = TARN_ERR_FORMAT, .offset = TARN_NO_OFFSET};
    PyOS_snprintf(err->message, sizeof err->message, "fallback: %.600s",
                  words ? words : "the function failed");
    Py_XDECREF(copy);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return TARN_ERR_FORMAT;
}

tarn_status tarnpy_fallback(void *context, const char *field, const void *data,
                            size_t size, tarn_value *out, tarn_error *err)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunction((PyObject *)context, "sy#", field,
                                             (const char *)data, (Py_ssize_t)size);
    tarn_status status = result && take(result, out) == 0 ? TARN_OK : failed(err);
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return status;
}
