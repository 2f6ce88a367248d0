/* report.c: what verifications find, brought to Python, and other small things that array
 * files and packs have in common. */
#include "filespy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void tarnpy_problems_add(void *context, const tarn_error *what)
{
    tarnpy_problems *p = context;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    if (p->count == TARNPY_MAX_PROBLEMS) return;
    if (!p->texts) p->texts = calloc(TARNPY_MAX_PROBLEMS, sizeof *p->texts);
    if (!p->texts) return;
    p->texts[p->count] = strdup(tarn_error_text(what, text, sizeof text));
    if (p->texts[p->count]) p->count++;
}

PyObject *tarnpy_problems_list(tarnpy_problems *p)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < p->count; i++) {
        PyObject *text = list ? tarnpy_text(p->texts[i], strlen(p->texts[i])) : NULL;
        if (list && (!text || PyList_Append(list, text) != 0)) Py_CLEAR(list);
        Py_XDECREF(text);
        free(p->texts[i]);
    }
    free(p->texts);
    memset(p, 0, sizeof *p);
    return list;
}

PyObject *tarnpy_raise_open(tarnpy_state *state, PyObject *path, const tarn_error *err)
{
    struct stat about;
    if (err->code != TARN_ERR_UNSUPPORTED || stat(PyBytes_AsString(path), &about) != 0 ||
        !S_ISDIR(about.st_mode))
        return tarnpy_raise(state, err);
    errno = EISDIR;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AsString(path));
}

/* Only the main thread's signals are looked at; from another thread this does nothing. */
int tarnpy_interrupted(void *unused, uint64_t done, uint64_t total)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    int stop = PyErr_CheckSignals();
    PyGILState_Release(lock);
    return stop;
}

PyObject *tarnpy_shape(const uint64_t *shape, unsigned ndim)
{
    PyObject *tuple = PyTuple_New(ndim);
    for (unsigned i = 0; tuple && i < ndim; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(shape[i]);
        if (!number || PyTuple_SetItem(tuple, i, number) != 0) Py_CLEAR(tuple);
    }
    return tuple;
}
