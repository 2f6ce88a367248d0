/* loader.c: the native loader (tarn/loader.h). Its threads never use Python. The thread
 * that asks for a batch waits without the GIL, in slices, and then converts the batch to
 * Python objects with the GIL. */
#include "loader.h"

#include <string.h>
#include <unistd.h>

enum { SLICE = 50 }; /* milliseconds between two checks for signals */

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *handle, *views, *items;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTuple(args, "O!OO!:Loader", state->handle_type, &handle,
                                    &views, &PyTuple_Type, &items))
        return NULL;
    if (views != Py_None && Py_TYPE(views) != state->views_type) {
        PyErr_SetString(PyExc_TypeError, "not a _Views object");
        return NULL;
    }
    tarnpy_loader *self = TARNPY_NEW(tarnpy_loader, type);
    if (!self) return NULL;
    self->state = state;
    Py_INCREF(handle);
    self->handle = handle;
    Py_INCREF(views);
    self->views = views;
    Py_INCREF(items);
    self->items = items;
    if (tarnpy_loader_open(self, kw) == 0) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void close_loader(tarnpy_loader *self)
{
    tarn_loader *native = self->loader;
    self->loader = NULL;
    if (!native) return;
    Py_BEGIN_ALLOW_THREADS;
    tarn_loader_close(native);
    Py_END_ALLOW_THREADS;
}

static int loader_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((tarnpy_loader *)object)->items);
    Py_VISIT(((tarnpy_loader *)object)->fallback);
    return 0;
}

static void loader_dealloc(PyObject *object)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    PyObject_GC_UnTrack(object);
    close_loader(self);
    PyMem_Free(self->columns);
    Py_XDECREF(self->items);
    Py_XDECREF(self->fallback);
    Py_XDECREF(self->memory);
    Py_XDECREF(self->forms);
    Py_XDECREF(self->views);
    Py_XDECREF(self->handle);
    tarnpy_free(object);
}

/* Fails if another thread is using the loader. */
static int enter(tarnpy_loader *self)
{
    if (!self->loader) {
        tarnpy_usage(self->state, "the loader is closed");
        return -1;
    }
    if (self->busy ==
        getpid()) { /* after a fork, another thread of the parent does not count */
        PyErr_SetString(PyExc_RuntimeError, "the loader is used by another thread");
        return -1;
    }
    self->busy = getpid();
    return 0;
}

/* Moves back before the last batch, because the caller could not use it. */
static PyObject *loader_back(PyObject *object, PyObject *unused)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    if (enter(self) != 0) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    tarn_loader_back(self->loader);
    Py_END_ALLOW_THREADS;
    self->busy = 0;
    Py_RETURN_NONE;
}

/* The same after an exception of a decoder, which stays set. */
static void go_back(tarnpy_loader *self)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_XDECREF(loader_back((PyObject *)self, NULL));
    PyErr_Clear(); /* if the decoder closed the loader, or another thread uses it */
    PyErr_Restore(type, value, trace);
}

static PyObject *loader_next(PyObject *object)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    tarn_batch *batch = NULL;
    tarn_error err;
    tarn_status status = TARN_OK;
    if (enter(self) != 0) return NULL;
    while (status == TARN_OK && !batch) {
        TARNPY_UNLOCKED(status, tarn_loader_next(self->loader, SLICE, &batch, &err));
        if (!batch && status == TARN_OK && PyErr_CheckSignals() != 0) break;
    }
    self->busy = 0;
    if (status != TARN_OK && status != TARN_END) tarnpy_raise_key(self->state, &err);
    if (!batch) return NULL;
    PyObject *dict = tarnpy_loader_batch(self, batch);
    if (!dict) go_back(self);
    return dict;
}

/* --- Position ---------------------------------------------------------------------- */

static PyObject *loader_set_epoch(PyObject *object, PyObject *number)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    tarn_error err;
    tarn_status status;
    unsigned long long epoch = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() || enter(self) != 0) return NULL;
    TARNPY_UNLOCKED(status, tarn_loader_set_epoch(self->loader, epoch, &err));
    self->busy = 0;
    if (status != TARN_OK) return tarnpy_raise(self->state, &err);
    Py_RETURN_NONE;
}

static PyObject *loader_state(PyObject *object, PyObject *args)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    tarn_text text = {NULL, 0, 0};
    tarn_error err;
    tarn_status status;
    unsigned long long before = 0;
    if (!PyArg_ParseTuple(args, "|K:state", &before) || enter(self) != 0) return NULL;
    TARNPY_UNLOCKED(status, tarn_loader_state_before(self->loader, before, &text, &err));
    self->busy = 0;
    PyObject *result = status == TARN_OK ? tarnpy_text(text.data, text.size)
                                         : tarnpy_raise(self->state, &err);
    tarn_text_reset(&text);
    return result;
}

static PyObject *loader_info(PyObject *object, PyObject *unused)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    tarn_loader_info info;
    if (enter(self) != 0) return NULL;
    tarn_loader_info_get(self->loader, &info, sizeof info);
    self->busy = 0;
    return Py_BuildValue("{sKsKsKsKsKsi}", "epoch", (unsigned long long)info.epoch,
                         "batches", (unsigned long long)info.batches, "left",
                         (unsigned long long)info.left, "rank",
                         (unsigned long long)info.rank, "world_size",
                         (unsigned long long)info.world_size, "over", (int)info.over);
}

static PyObject *loader_stats(PyObject *object, PyObject *unused)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    tarn_loader_stats s;
    if (enter(self) != 0) return NULL;
    tarn_loader_stats_get(self->loader, &s, sizeof s);
    self->busy = 0;
    return Py_BuildValue(
        "{sKsKsKsKsKsdsdsdsdsdss}", "batches", (unsigned long long)s.batches, "samples",
        (unsigned long long)s.samples, "skipped", (unsigned long long)s.skipped,
        "fallbacks", (unsigned long long)s.fallbacks, "bytes",
        (unsigned long long)s.bytes, "seconds", s.seconds, "waited", s.waited, "read",
        s.read, "decode", s.decode, "idle", s.idle, "bottleneck", s.bottleneck);
}

static PyObject *loader_skipped(PyObject *object, PyObject *unused)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    const tarn_skipped *s;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    if (enter(self) != 0) return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && (s = tarn_loader_skipped(self->loader, i)); i++) {
        tarn_error_text(&s->error, text, sizeof text);
        PyObject *item = Py_BuildValue(
            "KKNN", (unsigned long long)s->epoch, (unsigned long long)s->sample,
            s->key ? tarnpy_text(s->key, strlen(s->key)) : tarnpy_text("", 0),
            tarnpy_text(text, strlen(text)));
        if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    self->busy = 0;
    return list;
}

static PyObject *epoch_dict(const tarn_simulated_epoch *e)
{
    return Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsdsd}", "epoch", (unsigned long long)e->epoch, "batches",
        (unsigned long long)e->batches, "samples", (unsigned long long)e->samples,
        "wanted", (unsigned long long)e->wanted, "cached", (unsigned long long)e->cached,
        "requests", (unsigned long long)e->requests, "bytes",
        (unsigned long long)e->bytes, "kept", (unsigned long long)e->kept, "seconds",
        e->seconds, "samples_per_second",
        e->seconds > 0 ? (double)e->samples / e->seconds : 0);
}

static PyObject *simulate(tarnpy_loader *self, const tarn_simulation_options *o)
{
    tarn_error err;
    tarn_simulation *sim;
    tarn_simulated_epoch e;
    PyObject *list = PyList_New(0);
    tarn_status status = tarn_simulation_open(&self->loader, 1, o, &sim, &err);
    if (status != TARN_OK) sim = NULL;
    while (list && status == TARN_OK) {
        Py_BEGIN_ALLOW_THREADS;
        status = tarn_simulation_next(sim, &e, sizeof e, &err);
        Py_END_ALLOW_THREADS;
        if (status != TARN_OK) break;
        PyObject *item = epoch_dict(&e);
        if (!item || PyList_Append(list, item) != 0 || PyErr_CheckSignals() != 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    tarn_simulation_close(sim);
    if (!list || status == TARN_OK || status == TARN_END) return list;
    Py_DECREF(list);
    return tarnpy_raise(self->state, &err);
}

static PyObject *loader_simulate(PyObject *object, PyObject *args)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    tarn_simulation_options o = TARN_SIMULATION_OPTIONS_INIT;
    unsigned long long limit, epochs;
    int cache;
    if (!PyArg_ParseTuple(args, "KpKddI", &epochs, &cache, &limit, &o.latency,
                          &o.bandwidth, &o.connections) ||
        enter(self) != 0)
        return NULL;
    o.epochs = epochs;
    o.cache = cache;
    o.cache_limit = limit;
    PyObject *result = simulate(self, &o);
    self->busy = 0;
    return result;
}

static PyObject *loader_close(PyObject *object, PyObject *unused)
{
    tarnpy_loader *self = (tarnpy_loader *)object;
    if (!self->loader) Py_RETURN_NONE;
    if (enter(self) != 0) return NULL;
    close_loader(self);
    self->busy = 0;
    Py_RETURN_NONE;
}

static PyMethodDef loader_methods[] = {
    {"set_epoch", loader_set_epoch, METH_O, NULL},
    {"back", loader_back, METH_NOARGS, NULL},
    {"state", loader_state, METH_VARARGS, NULL},
    {"info", loader_info, METH_NOARGS, NULL},
    {"stats", loader_stats, METH_NOARGS, NULL},
    {"skipped", loader_skipped, METH_NOARGS, NULL},
    {"simulate", loader_simulate, METH_VARARGS, NULL},
    {"close", loader_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_new, loader_new},
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_traverse, loader_traverse},
    {Py_tp_methods, loader_methods},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, loader_next},
    {0, NULL},
};

static PyType_Spec loader_spec = {
    .name = "tarn._tarn.Loader",
    .basicsize = sizeof(tarnpy_loader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = loader_slots,
};

int tarnpy_add_loader(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &loader_spec, &state->loader_type) != 0) return -1;
    return tarnpy_add_loader_batch(module);
}
