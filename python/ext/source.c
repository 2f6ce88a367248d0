/* source.c: bytes by URL (tarn/source.h). Two plain types, from which tarn/_source.py
 * makes file objects. */
#include "writing.h"

#include <string.h>
#include <unistd.h>

typedef struct source {
    PyObject_HEAD tarnpy_state *state;
    tarn_source *in; /* NULL: closed */
    tarnpy_lock lock;
} source;

static int enter(tarnpy_lock *lock, void *const *handle)
{
    if (tarnpy_lock_take(lock)) return -1;
    if (*handle) return 0;
    tarnpy_lock_give(lock);
    PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
    return -1;
}

/* --- Sources ------------------------------------------------------------------------ */

static PyObject *source_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const words[] = {
        "url",     "filter",        "allow_pipe",      "max_expansion",
        "retries", "stall_seconds", "connect_seconds", "min_speed",
        NULL};
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    PyObject *url = NULL;
    unsigned long long expansion = o.max_expansion;
    int filter = TARN_FILTER_AUTO, allow = 0;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTupleAndKeywords(
                      args, kwargs, "O&|$ipKIIII:Source", TARNPY_WORDS(words),
                      tarnpy_path, &url, &filter, &allow, &expansion, &o.retries,
                      &o.stall_seconds, &o.connect_seconds, &o.min_speed))
        return NULL;
    o.filter = (tarn_filter)filter;
    o.allow_pipe = allow;
    o.max_expansion = expansion;
    source *s = TARNPY_NEW(source, type);
    tarn_error err;
    tarn_status status = TARN_OK;
    if (s && tarnpy_lock_init(&s->lock) == 0) {
        s->state = state;
        TARNPY_UNLOCKED(status,
                        tarn_source_open(PyBytes_AsString(url), &o, &s->in, &err));
        if (status != TARN_OK) tarnpy_raise(state, &err);
    }
    Py_DECREF(url);
    if (PyErr_Occurred()) Py_CLEAR(s);
    return (PyObject *)s;
}

PyDoc_STRVAR(readinto_doc,
             "readinto(buffer)\n--\n\nFills the buffer, or less at the end; "
             "returns the number of bytes.");

static PyObject *source_readinto(PyObject *self, PyObject *buffer)
{
    source *s = (source *)self;
    Py_buffer view;
    size_t got = 0;
    tarn_error err;
    tarn_status status;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)) return NULL;
    if (enter(&s->lock, (void *const *)&s->in)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    TARNPY_UNLOCKED(status,
                    tarn_source_read(s->in, view.buf, (size_t)view.len, &got, &err));
    tarnpy_lock_give(&s->lock);
    PyBuffer_Release(&view);
    if (status != TARN_OK) return tarnpy_raise(s->state, &err);
    return PyLong_FromSize_t(got);
}

PyDoc_STRVAR(close_doc, "close()\n--\n\nCloses the source and discards unread bytes.");

static PyObject *source_close(PyObject *self, PyObject *unused)
{
    source *s = (source *)self;
    if (tarnpy_lock_take(&s->lock)) return NULL;
    tarn_source *in = s->in;
    s->in = NULL;
    Py_BEGIN_ALLOW_THREADS;
    tarn_source_close(in);
    Py_END_ALLOW_THREADS;
    tarnpy_lock_give(&s->lock);
    Py_INCREF(Py_None);
    return Py_None;
}

static void source_dealloc(PyObject *self)
{
    source *s = (source *)self;
    tarn_source_close(s->in);
    tarnpy_lock_free(&s->lock);
    tarnpy_free(self);
}

static PyMethodDef source_methods[] = {
    {"readinto", source_readinto, METH_O, readinto_doc},
    {"close", source_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot source_slots[] = {
    {Py_tp_new, source_new},
    {Py_tp_dealloc, source_dealloc},
    {Py_tp_methods, source_methods},
    {0, NULL},
};

static PyType_Spec source_spec = {
    .name = "tarn._tarn.Source",
    .basicsize = sizeof(source),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = source_slots,
};

/* --- Sinks -------------------------------------------------------------------------- */

typedef struct sink {
    PyObject_HEAD tarnpy_state *state;
    tarn_sink *out; /* NULL: closed */
    tarnpy_lock lock;
    pid_t pid;
} sink;

static PyObject *sink_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const words[] = {
        "url",     "filter",  "level",         "allow_pipe",      "overwrite",
        "no_sync", "retries", "stall_seconds", "connect_seconds", NULL};
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    PyObject *url = NULL;
    int filter = TARN_FILTER_AUTO, allow = 0, overwrite = 0, no_sync = 0;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTupleAndKeywords(
                      args, kwargs, "O&|$iipppIII:Sink", TARNPY_WORDS(words), tarnpy_path,
                      &url, &filter, &o.level, &allow, &overwrite, &no_sync, &o.retries,
                      &o.stall_seconds, &o.connect_seconds))
        return NULL;
    o.filter = (tarn_filter)filter;
    o.allow_pipe = allow;
    o.overwrite = overwrite;
    o.no_sync = no_sync;
    sink *s = TARNPY_NEW(sink, type);
    tarn_error err;
    tarn_status status = TARN_OK;
    if (s && tarnpy_lock_init(&s->lock) == 0) {
        s->state = state;
        s->pid = getpid();
        TARNPY_UNLOCKED(status, tarn_sink_open(PyBytes_AsString(url), &o, &s->out, &err));
        if (status != TARN_OK) tarnpy_raise(state, &err);
    }
    Py_DECREF(url);
    if (PyErr_Occurred()) Py_CLEAR(s);
    return (PyObject *)s;
}

PyDoc_STRVAR(sink_write_doc,
             "write(data)\n--\n\nWrites all bytes and returns their number.");

static PyObject *sink_write(PyObject *self, PyObject *data)
{
    sink *s = (sink *)self;
    Py_buffer view;
    tarn_error err;
    tarn_status status;
    if (!tarnpy_is_own(s->pid) || PyObject_GetBuffer(data, &view, PyBUF_SIMPLE))
        return NULL;
    if (enter(&s->lock, (void *const *)&s->out)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    TARNPY_UNLOCKED(status, tarn_sink_write(s->out, view.buf, (size_t)view.len, &err));
    tarnpy_lock_give(&s->lock);
    Py_ssize_t size = view.len;
    PyBuffer_Release(&view);
    if (status != TARN_OK) return tarnpy_raise(s->state, &err);
    return PyLong_FromSsize_t(size);
}

PyDoc_STRVAR(finish_doc, "finish()\n--\n\nCompletes and publishes the target.");
PyDoc_STRVAR(abandon_doc, "abandon()\n--\n\nDiscards everything written.");

static PyObject *end_sink(PyObject *self, bool publish)
{
    sink *s = (sink *)self;
    tarn_error err;
    tarn_status status = TARN_OK;
    if (tarnpy_lock_take(&s->lock)) return NULL;
    tarn_sink *out = s->out;
    s->out = NULL;
    Py_BEGIN_ALLOW_THREADS;
    if (out && s->pid == getpid()) {
        if (publish)
            status = tarn_sink_finish(out, &err);
        else
            tarn_sink_abandon(out);
    }
    Py_END_ALLOW_THREADS;
    tarnpy_lock_give(&s->lock);
    if (status != TARN_OK) return tarnpy_raise(s->state, &err);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *sink_finish(PyObject *self, PyObject *unused)
{
    return end_sink(self, true);
}

static PyObject *sink_abandon(PyObject *self, PyObject *unused)
{
    return end_sink(self, false);
}

static void sink_dealloc(PyObject *self)
{
    sink *s = (sink *)self;
    if (s->out && s->pid == getpid()) tarn_sink_abandon(s->out);
    tarnpy_lock_free(&s->lock);
    tarnpy_free(self);
}

static PyMethodDef sink_methods[] = {
    {"write", sink_write, METH_O, sink_write_doc},
    {"finish", sink_finish, METH_NOARGS, finish_doc},
    {"abandon", sink_abandon, METH_NOARGS, abandon_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sink_slots[] = {
    {Py_tp_new, sink_new},
    {Py_tp_dealloc, sink_dealloc},
    {Py_tp_methods, sink_methods},
    {0, NULL},
};

static PyType_Spec sink_spec = {
    .name = "tarn._tarn.Sink",
    .basicsize = sizeof(sink),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = sink_slots,
};

/* --- Lists of URLs ------------------------------------------------------------------ */

PyDoc_STRVAR(expand_doc, "expand_urls(text)\n--\n\nReturns the URLs of a list with "
                         "braces, \"::\" and patterns.");

static PyObject *expand_urls(PyObject *module, PyObject *text)
{
    PyObject *bytes = NULL, *list = NULL;
    tarn_urls *urls;
    tarn_error err;
    tarn_status status;
    if (!tarnpy_path(text, &bytes)) return NULL;
    TARNPY_UNLOCKED(status, tarn_urls_expand(PyBytes_AsString(bytes), &urls, &err));
    Py_DECREF(bytes);
    if (status != TARN_OK) return tarnpy_raise(tarnpy_module_state(module), &err);
    list = PyList_New(0);
    for (size_t i = 0; list && i < urls->count; i++) {
        PyObject *item = PyUnicode_DecodeFSDefault(urls->urls[i]);
        int failed = item ? PyList_Append(list, item) : -1;
        Py_XDECREF(item);
        if (failed) Py_CLEAR(list);
    }
    tarn_urls_free(urls);
    return list;
}

PyDoc_STRVAR(shown_doc, "shown(text, is_url)\n--\n\nReturns bytes without what the URLs "
                        "in them keep secret; see tarn.errors.shown.");

static PyObject *shown(PyObject *module, PyObject *args)
{
    const char *text;
    int is_url;
    if (!PyArg_ParseTuple(args, "yp:shown", &text, &is_url)) return NULL;
    size_t size = 2 * strlen(text) + 16;
    char *out = PyMem_Malloc(size);
    if (!out) return PyErr_NoMemory();
    tarn_hide_secrets(out, size, text, is_url);
    PyObject *made = PyBytes_FromString(out);
    PyMem_Free(out);
    return made;
}

static PyMethodDef functions[] = {
    {"expand_urls", expand_urls, METH_O, expand_doc},
    {"shown", shown, METH_VARARGS, shown_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_source(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &source_spec, &state->source_type) ||
        tarnpy_add_type(module, &sink_spec, &state->sink_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
