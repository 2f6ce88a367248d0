/* error.c: raises Python exceptions from a tarn_error, and converts arguments. The
 * exception classes are in tarn/errors.py. */
#include "tarnpy.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* --- Exceptions --------------------------------------------------------------------- */

static PyObject *errors_module(tarnpy_state *state)
{
    if (!state->errors) state->errors = PyImport_ImportModule("tarn.errors");
    return state->errors;
}

static PyObject *error_class(tarnpy_state *state, const char *code, int sys_errno,
                             bool key)
{
    if (!errors_module(state)) return NULL;
    return PyObject_CallMethod(state->errors, "_class_of", "siO", code, sys_errno,
                               key ? Py_True : Py_False);
}

static int set_attribute(PyObject *object, const char *name, PyObject *value)
{
    int failed = value ? PyObject_SetAttrString(object, name, value) : -1;
    Py_XDECREF(value);
    return failed;
}

static PyObject *none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *raise_error(tarnpy_state *state, const tarn_error *err, bool key)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    if (PyErr_Occurred()) return NULL;
    const char *code = tarn_status_name(err->code);
    PyObject *class = error_class(state, code, err->sys_errno, key);
    if (!class) return NULL;
    tarn_error_text(err, text, sizeof text);
    PyObject *message = tarnpy_text(text, strlen(text));
    PyObject *error = message ? PyObject_CallFunctionObjArgs(class, message, NULL) : NULL;
    Py_XDECREF(message);
    if (error &&
        set_attribute(error, "path",
                      err->path[0] ? tarnpy_text(err->path, strlen(err->path))
                                   : none()) == 0 &&
        set_attribute(error, "offset",
                      err->offset == TARN_NO_OFFSET
                          ? none()
                          : PyLong_FromUnsignedLongLong(err->offset)) == 0 &&
        set_attribute(error, "code", PyUnicode_FromString(code)) == 0 &&
        (err->sys_errno == 0 ||
         set_attribute(error, "errno", PyLong_FromLong(err->sys_errno)) == 0))
        PyErr_SetObject(class, error);
    Py_XDECREF(error);
    Py_DECREF(class);
    return NULL;
}

PyObject *tarnpy_raise(tarnpy_state *state, const tarn_error *err)
{
    return raise_error(state, err, false);
}

PyObject *tarnpy_raise_key(tarnpy_state *state, const tarn_error *err)
{
    return raise_error(state, err, true);
}

/* The number of this process, because asking the system takes a tenth of the time of a
 * small write. Set when the module is imported, and in a child while it has only one
 * thread. */
static pid_t own_pid;

static void note_pid(void)
{
    own_pid = getpid();
}

void tarnpy_watch_forks(void)
{
    if (own_pid) return;
    note_pid();
    (void)pthread_atfork(NULL, NULL, note_pid);
}

bool tarnpy_is_own(pid_t pid)
{
    if (pid == own_pid) return true;
    PyErr_SetString(PyExc_RuntimeError, "the writer belongs to the parent process");
    return false;
}

PyObject *tarnpy_usage(tarnpy_state *state, const char *format, ...)
{
    tarn_error err = {.code = TARN_ERR_USAGE, .offset = TARN_NO_OFFSET};
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (!text) return NULL;
    Py_ssize_t size;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    if (utf8) {
        size_t kept =
            (size_t)size < sizeof err.message ? (size_t)size : sizeof err.message - 1;
        memcpy(err.message, utf8, kept);
        raise_error(state, &err, false);
    }
    Py_DECREF(text);
    return NULL;
}

void tarnpy_note(const char *format, ...)
{
    PyObject *type, *value, *trace;
    va_list args;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    PyObject *done =
        text && value ? PyObject_CallMethod(value, "add_note", "(O)", text) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(text);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

void tarnpy_place(tarnpy_state *state, const char *where, const char *path,
                  uint64_t offset)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *file = path ? tarnpy_text(path, strlen(path)) : none();
    PyObject *at =
        path && offset != TARN_NO_OFFSET ? PyLong_FromUnsignedLongLong(offset) : none();
    PyObject *done =
        value && file && at && errors_module(state)
            ? PyObject_CallMethod(state->errors, "_place", "OsOO", value, where, file, at)
            : NULL;
    Py_XDECREF(done);
    Py_XDECREF(at);
    Py_XDECREF(file);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

/* --- Arguments ---------------------------------------------------------------------- */

int tarnpy_path(PyObject *object, void *out_bytes)
{
    return PyUnicode_FSConverter(object, out_bytes);
}

int tarnpy_path_or_none(PyObject *object, void *out_bytes)
{
    PyObject **out = out_bytes;
    if (object == Py_None) *out = NULL;
    /* A NULL object asks to release the result, which is NULL if the argument was
     * None. */
    if (object == Py_None || (!object && !*out)) return Py_CLEANUP_SUPPORTED;
    return PyUnicode_FSConverter(object, out_bytes);
}

int tarnpy_number(PyObject *object, void *out_number)
{
    PyObject *whole = PyNumber_Index(object);
    if (!whole) return 0;
    uint64_t number = PyLong_AsUnsignedLongLong(whole);
    bool fits = !PyErr_Occurred();
    PyErr_Clear();
    if (fits)
        *(uint64_t *)out_number = number;
    else
        PyErr_Format(PyExc_ValueError, "expected a number from 0 to 2^64 - 1, not %R",
                     whole);
    Py_DECREF(whole);
    return fits;
}

/* A str that cannot be encoded as UTF-8 was made by tarnpy_text from bytes that are not
 * UTF-8. */
const char *tarnpy_utf8(PyObject *object, PyObject **out_kept)
{
    Py_ssize_t size;
    *out_kept = NULL;
    const char *text = PyUnicode_AsUTF8AndSize(object, &size);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        *out_kept = PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape");
        if (!*out_kept) return NULL;
        size = PyBytes_Size(*out_kept);
        text = PyBytes_AsString(*out_kept);
    }
    if (!text || strlen(text) == (size_t)size) return text;
    PyErr_SetString(PyExc_ValueError, "string contains a NUL character");
    Py_CLEAR(*out_kept);
    return NULL;
}

int tarnpy_strings_get(PyObject *object, tarnpy_strings *out)
{
    memset(out, 0, sizeof *out);
    if (!object || object == Py_None) return 0;
    if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "expected a list of strings, not a string");
        return -1;
    }
    out->sequence = PySequence_List(object);
    if (!out->sequence) return -1;
    out->count = (size_t)PyList_Size(out->sequence);
    out->items = PyMem_Calloc(out->count + 1, sizeof *out->items);
    if (!out->items) PyErr_NoMemory();
    for (size_t i = 0; out->items && i < out->count; i++) {
        PyObject *item = PyList_GetItem(out->sequence, (Py_ssize_t)i), *kept;
        out->items[i] = tarnpy_utf8(item, &kept);
        if (!out->items[i]) break;
        if (kept) PyList_SetItem(out->sequence, (Py_ssize_t)i, kept);
    }
    if (!PyErr_Occurred()) return 0;
    tarnpy_strings_free(out);
    return -1;
}

void tarnpy_strings_free(tarnpy_strings *strings)
{
    PyMem_Free(strings->items);
    Py_XDECREF(strings->sequence);
    memset(strings, 0, sizeof *strings);
}

static int out_of_range(long long index, uint64_t limit)
{
    PyErr_Format(PyExc_IndexError, "index %lld is out of range for %llu samples", index,
                 (unsigned long long)limit);
    return -1;
}

static int place(long long index, uint64_t limit, uint64_t *out)
{
    if (index >= 0 && (uint64_t)index < limit) {
        *out = (uint64_t)index;
        return 0;
    }
    if (index < 0 && (uint64_t) - (index + 1) < limit) {
        *out = limit - 1 - (uint64_t) - (index + 1);
        return 0;
    }
    return out_of_range(index, limit);
}

static long long element(const char *data, tarn_dtype type)
{
    int8_t i1;
    int16_t i2;
    int32_t i4;
    int64_t i8;
    uint64_t u = 0;
    memcpy(&u, data, type.size);
    if (type.kind == 'u' || type.kind == 'b')
        return u > (uint64_t)LLONG_MAX ? LLONG_MAX : (long long)u;
    switch (type.size) {
    case 1:
        memcpy(&i1, data, 1);
        return i1;
    case 2:
        memcpy(&i2, data, 2);
        return i2;
    case 4:
        memcpy(&i4, data, 4);
        return i4;
    default:
        memcpy(&i8, data, 8);
        return i8;
    }
}

static int indices_of_array(const Py_buffer *buffer, const tarn_array *array,
                            uint64_t limit, uint64_t **out, size_t *out_count)
{
    if (array->ndim != 1 || (array->dtype.kind != 'i' && array->dtype.kind != 'u') ||
        array->dtype.order == '>') {
        PyErr_SetString(
            PyExc_TypeError,
            "indices must be a list of ints or a one-dimensional array of integers");
        return -1;
    }
    *out_count = array->shape[0];
    *out = PyMem_Malloc((*out_count + 1) * sizeof **out);
    if (!*out) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < *out_count; i++) {
        const char *at = (const char *)array->data + (int64_t)i * array->strides[0];
        if (place(element(at, array->dtype), limit, &(*out)[i]) == 0) continue;
        PyMem_Free(*out);
        return -1;
    }
    return 0;
}

static int indices_of_sequence(PyObject *object, uint64_t limit, uint64_t **out,
                               size_t *out_count)
{
    PyObject *list = PySequence_List(object);
    if (!list) return -1;
    *out_count = (size_t)PyList_Size(list);
    *out = PyMem_Malloc((*out_count + 1) * sizeof **out);
    if (!*out) PyErr_NoMemory();
    for (size_t i = 0; *out && i < *out_count; i++) {
        PyObject *item = PyList_GetItem(list, (Py_ssize_t)i);
        Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);
        if (PyErr_Occurred() || place(index, limit, &(*out)[i]) != 0) break;
    }
    Py_DECREF(list);
    if (!PyErr_Occurred()) return 0;
    PyMem_Free(*out);
    *out = NULL;
    return -1;
}

int tarnpy_indices(PyObject *object, uint64_t limit, uint64_t **out, size_t *out_count)
{
    Py_buffer buffer;
    tarn_array array;
    if (!PyObject_CheckBuffer(object))
        return indices_of_sequence(object, limit, out, out_count);
    if (tarnpy_array_from(object, &buffer, &array) != 0) return -1;
    int failed = indices_of_array(&buffer, &array, limit, out, out_count);
    PyBuffer_Release(&buffer);
    return failed;
}

PyObject *tarnpy_text(const char *text, size_t size)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "surrogateescape");
}
