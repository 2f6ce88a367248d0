/* write.c: one type for the three writers of tarn/write.h: an archive, shards, a fold.
 * The classes for users derive from it in Python; write and write_many are here for
 * speed. */
#include "writing.h"

#include <string.h>
#include <unistd.h>

/* Samples that are collected before the GIL is released for all of them. */
#define MANY       512u
#define MANY_BYTES (8u << 20)
/* Seconds between two calls of the progress callback, and samples between two reads of
 * the clock. */
#define PROGRESS_SECONDS 0.1
#define PROGRESS_SAMPLES 64u

typedef tarnpy_writer writer;

static int closed(void)
{
    PyErr_SetString(PyExc_ValueError, "the writer is closed");
    return -1;
}

/* Acquires the lock of an open writer. */
static int enter(writer *w)
{
    if (!tarnpy_is_own(w->pid) || tarnpy_lock_take(&w->lock)) return -1;
    if (w->open) return 0;
    tarnpy_lock_give(&w->lock);
    return closed();
}

/* --- Writing ------------------------------------------------------------------------ */

static tarn_status write_sample(writer *w, const tarnpy_batch *batch,
                                const tarnpy_planned *p, uint64_t *out_payload,
                                tarn_error *err)
{
    const tarn_field *fields = p->count ? batch->fields + p->first : NULL;
    tarn_written after;
    uint64_t before = w->written.payload;
    if (w->kind == TARNPY_FOLD) {
        TARN_TRY(tarn_fold_writer_add(w->is.fold, p->key, fields, p->count, err));
        tarn_fold_writer_written(w->is.fold, &after, sizeof after);
    } else {
        TARN_TRY(tarn_tar_writer_add(w->is.tar, p->key, fields, p->count, err));
        tarn_tar_writer_written(w->is.tar, &after, sizeof after);
    }
    w->written = after;
    *out_payload = after.payload - before;
    w->in_shard++;
    w->payload_in_shard += *out_payload;
    return TARN_OK;
}

/* A batch in which to collect samples: the one used last, with its memory, unless another
 * thread has it. No lock is held while samples are collected, because encoders and
 * iterators may run any code, and may wait for another thread that writes. */
static tarnpy_batch lend(writer *w)
{
    tarnpy_batch batch = w->batch;
    memset(&w->batch, 0, sizeof w->batch);
    return batch;
}

static void take_back(writer *w, tarnpy_batch *batch)
{
    tarnpy_batch_empty(batch);
    if (w->batch.held)
        tarnpy_batch_free(batch);
    else
        w->batch = *batch;
}

/* Writes all samples of a batch without the GIL; *out_payload is the number of their
 * bytes. */
static int flush(writer *w, tarnpy_batch *batch, uint64_t *out_payload)
{
    tarn_error err;
    tarn_status status = TARN_OK;
    size_t count = batch->n_samples;
    *out_payload = 0;
    if (enter(w)) return -1;
    Py_BEGIN_ALLOW_THREADS;
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        uint64_t payload = 0;
        status = write_sample(w, batch, &batch->samples[i], &payload, &err);
        *out_payload += payload;
    }
    Py_END_ALLOW_THREADS;
    w->unreported += (unsigned)count;
    tarnpy_lock_give(&w->lock);
    tarnpy_batch_empty(batch);
    if (status == TARN_OK) return 0;
    tarnpy_raise(w->state, &err);
    return -1;
}

static int call_progress(writer *w)
{
    PyObject *done =
        PyObject_CallFunction(w->progress, "KK", (unsigned long long)w->written.samples,
                              (unsigned long long)w->written.payload);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int report_progress(writer *w)
{
    if (!w->progress || w->unreported < PROGRESS_SAMPLES) return 0;
    w->unreported = 0;
    double t = tarnpy_now();
    if (t - w->reported_at < PROGRESS_SECONDS) return 0;
    w->reported_at = t;
    return call_progress(w);
}

/* Adds a sample to a batch, after applying the caller's encoder if there is one. */
static int collect(writer *w, tarnpy_batch *batch, PyObject *sample)
{
    if (!w->open) return closed();
    if (!w->encoder) return tarnpy_batch_add(w->state, batch, &w->rules, sample);
    PyObject *encoded = PyObject_CallFunctionObjArgs(w->encoder, sample, NULL);
    if (!encoded) return -1;
    int failed = tarnpy_batch_add(w->state, batch, &w->rules, encoded);
    Py_DECREF(encoded);
    return failed;
}

PyDoc_STRVAR(
    write_doc,
    "write(sample)\n--\n\nWrites a sample, a dict with its key under \"__key__\" "
    "and a value under each\nfield's name, and returns the number of bytes of "
    "its fields. After an exception\nthe archive is unchanged.");

static PyObject *writer_write(PyObject *self, PyObject *sample)
{
    writer *w = (writer *)self;
    uint64_t payload = 0;
    tarnpy_batch batch = lend(w);
    int failed = collect(w, &batch, sample) || flush(w, &batch, &payload);
    take_back(w, &batch);
    if (failed || report_progress(w)) return NULL;
    if (!w->silent) return PyLong_FromUnsignedLongLong(payload);
    Py_INCREF(Py_None);
    return Py_None;
}

static bool is_full(const tarnpy_batch *batch)
{
    return batch->n_samples >= MANY || batch->payload >= MANY_BYTES;
}

/* Writes as many samples as fit into a batch; returns 1 after the last. If a sample
 * fails, those before it are still written. */
static int write_some(writer *w, tarnpy_batch *batch, PyObject *iterator, uint64_t *total)
{
    PyObject *type, *value, *trace, *sample = NULL;
    uint64_t payload;
    int failed = 0;
    while (!failed && !is_full(batch) && (sample = PyIter_Next(iterator))) {
        failed = collect(w, batch, sample);
        Py_DECREF(sample);
    }
    bool ended = !is_full(batch);
    PyErr_Fetch(&type, &value, &trace);
    if (flush(w, batch, &payload) == 0) {
        *total += payload;
        PyErr_Restore(type, value, trace);
    } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
    return PyErr_Occurred() ? -1 : ended;
}

PyDoc_STRVAR(write_many_doc,
             "write_many(samples)\n--\n\nWrites all samples of an iterable, which is "
             "faster than one at a time, and returns\nthe number of bytes of their "
             "fields. If a sample fails, those before it are\nwritten.");

static PyObject *writer_write_many(PyObject *self, PyObject *samples)
{
    writer *w = (writer *)self;
    PyObject *iterator = PyObject_GetIter(samples);
    uint64_t total = 0;
    int ended = 0;
    tarnpy_batch batch = lend(w);
    while (iterator && ended == 0) {
        ended = write_some(w, &batch, iterator, &total);
        if (ended >= 0 && report_progress(w)) ended = -1;
    }
    take_back(w, &batch);
    Py_XDECREF(iterator);
    return iterator && ended > 0 ? PyLong_FromUnsignedLongLong(total) : NULL;
}

PyDoc_STRVAR(member_doc, "member(name, data)\n--\n\nAdds one member with any name.");

static PyObject *writer_member(PyObject *self, PyObject *args)
{
    writer *w = (writer *)self;
    tarn_error err;
    tarn_status status = TARN_OK;
    PyObject *name;
    Py_buffer data;
    Py_ssize_t size;
    tarnpy_batch kept = {0};
    if (!PyArg_ParseTuple(args, "Uy*:member", &name, &data)) return NULL;
    if (enter(w)) {
        PyBuffer_Release(&data);
        return NULL;
    }
    const char *text = NULL;
    if (w->kind != TARNPY_TAR)
        PyErr_SetString(PyExc_TypeError,
                        "only a writer of a single archive can add members");
    else
        text = tarnpy_batch_text(&kept, name, &size);
    if (text) {
        tarn_field field = {text, data.buf, (size_t)data.len, NULL};
        TARNPY_UNLOCKED(status, tarn_tar_writer_add(w->is.tar, NULL, &field, 1, &err));
        tarn_tar_writer_written(w->is.tar, &w->written, sizeof w->written);
        if (status != TARN_OK) tarnpy_raise(w->state, &err);
    }
    tarnpy_lock_give(&w->lock);
    tarnpy_batch_free(&kept);
    PyBuffer_Release(&data);
    if (PyErr_Occurred()) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

PyDoc_STRVAR(
    next_doc,
    "next_shard()\n--\n\nEnds the current shard; the next sample begins another.");

static PyObject *writer_next(PyObject *self, PyObject *unused)
{
    writer *w = (writer *)self;
    tarn_error err;
    tarn_status status = TARN_OK;
    if (enter(w)) return NULL;
    if (w->kind != TARNPY_SHARDS)
        PyErr_SetString(PyExc_TypeError, "only a writer of shards has next_shard()");
    else
        TARNPY_UNLOCKED(status, tarn_tar_writer_next(w->is.tar, &err));
    if (w->kind == TARNPY_SHARDS)
        tarn_tar_writer_written(w->is.tar, &w->written, sizeof w->written);
    tarnpy_lock_give(&w->lock);
    if (status != TARN_OK) return tarnpy_raise(w->state, &err);
    if (PyErr_Occurred()) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

PyDoc_STRVAR(has_doc, "has(key)\n--\n\nReturns whether the fold will have this key.");

static PyObject *writer_has(PyObject *self, PyObject *key)
{
    writer *w = (writer *)self;
    tarn_error err;
    tarn_status status = TARN_OK;
    bool there = false;
    Py_ssize_t size;
    tarnpy_batch kept = {0};
    if (enter(w)) return NULL;
    const char *text = NULL;
    if (w->kind != TARNPY_FOLD || !PyUnicode_Check(key))
        PyErr_SetString(PyExc_TypeError, "has() needs a dataset writer and a string key");
    else
        text = tarnpy_batch_text(&kept, key, &size);
    if (text)
        TARNPY_UNLOCKED(status, tarn_fold_writer_has(w->is.fold, text, &there, &err));
    tarnpy_lock_give(&w->lock);
    tarnpy_batch_free(&kept);
    if (status != TARN_OK) tarnpy_raise(w->state, &err);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(there);
}

PyDoc_STRVAR(adopt_doc, "Adds whole shards of another fold; see DatasetWriter.adopt.");

static tarn_status adopt(writer *w, const char *path, const uint32_t *shards,
                         size_t count, tarn_adopt how, tarn_error *err)
{
    tarn_dataset *from;
    TARN_TRY(tarn_dataset_open(path, NULL, &from, err));
    tarn_status status =
        tarn_fold_writer_adopt(w->is.fold, from, shards, count, how, err);
    tarn_dataset_close(from);
    return status;
}

static PyObject *writer_adopt(PyObject *self, PyObject *args)
{
    writer *w = (writer *)self;
    PyObject *path, *numbers;
    int copy;
    tarn_error err;
    tarn_status status = TARN_OK;
    if (!PyArg_ParseTuple(args, "O&O!p:adopt", tarnpy_path, &path, &PyList_Type, &numbers,
                          &copy))
        return NULL;
    size_t count = (size_t)PyList_Size(numbers);
    uint32_t *shards = PyMem_Calloc(count + 1, sizeof *shards);
    if (!shards) PyErr_NoMemory();
    for (size_t i = 0; shards && i < count && !PyErr_Occurred(); i++) {
        unsigned long n = PyLong_AsUnsignedLong(PyList_GetItem(numbers, (Py_ssize_t)i));
        if (!PyErr_Occurred() && n >= TARN_MAX_SHARDS)
            PyErr_Format(PyExc_ValueError, "shard number %lu is too large", n);
        shards[i] = (uint32_t)n;
    }
    if (!PyErr_Occurred() && enter(w) == 0) {
        if (w->kind != TARNPY_FOLD)
            PyErr_SetString(PyExc_TypeError, "only a dataset writer can adopt shards");
        else
            TARNPY_UNLOCKED(status,
                            adopt(w, PyBytes_AsString(path), count ? shards : NULL, count,
                                  copy ? TARN_ADOPT_COPY : TARN_ADOPT_LINK, &err));
        tarnpy_lock_give(&w->lock);
        if (status != TARN_OK) tarnpy_raise(w->state, &err);
    }
    PyMem_Free(shards);
    Py_DECREF(path);
    if (PyErr_Occurred()) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

/* --- Closing ------------------------------------------------------------------------ */

static tarn_status finish(writer *w, tarn_error *err)
{
    if (w->kind == TARNPY_FOLD)
        return tarn_fold_writer_finish(w->is.fold, &w->written, sizeof w->written, err);
    return tarn_tar_writer_finish(w->is.tar, &w->written, sizeof w->written, err);
}

/* keep: keep the finished shards of a fold for resume. */
static void give_up(writer *w, bool keep)
{
    w->open = false;
    if (w->pid != getpid())
        return; /* a forked child must not remove the files of its parent */
    if (w->kind == TARNPY_FOLD)
        tarn_fold_writer_abandon(w->is.fold, keep, NULL);
    else
        tarn_tar_writer_abandon(w->is.tar);
}

PyDoc_STRVAR(finish_doc,
             "finish()\n--\n\nCompletes and publishes; closes the writer in every case.");

static PyObject *writer_finish(PyObject *self, PyObject *unused)
{
    writer *w = (writer *)self;
    tarn_error err;
    tarn_status status;
    if (enter(w)) return NULL;
    w->open = false;
    TARNPY_UNLOCKED(status, finish(w, &err));
    tarnpy_lock_give(&w->lock);
    tarnpy_file_clear(&w->file);
    if (status != TARN_OK) return tarnpy_raise(w->state, &err);
    if (w->progress && call_progress(w)) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

PyDoc_STRVAR(abandon_doc, "abandon()\n--\n\nDiscards everything that was not published. "
                          "Does nothing if the writer\nis closed.");
PyDoc_STRVAR(
    suspend_doc,
    "suspend()\n--\n\nStops, and keeps the finished shards of a dataset for resume.");

static PyObject *end(PyObject *self, bool keep)
{
    writer *w = (writer *)self;
    if (w->lock.lock && tarnpy_lock_take(&w->lock)) return NULL;
    if (w->open) {
        Py_BEGIN_ALLOW_THREADS;
        give_up(w, keep);
        Py_END_ALLOW_THREADS;
    }
    if (w->lock.lock) tarnpy_lock_give(&w->lock);
    tarnpy_file_clear(&w->file);
    if (PyErr_Occurred()) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *writer_abandon(PyObject *self, PyObject *unused)
{
    return end(self, false);
}

static PyObject *writer_suspend(PyObject *self, PyObject *unused)
{
    return end(self, true);
}

static void warn_unclosed(writer *w)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_WarnFormat(PyExc_ResourceWarning, 1,
                         "the writer was not closed: everything it wrote is discarded"))
        PyErr_WriteUnraisable(NULL);
    PyErr_Restore(type, value, trace);
}

static void writer_finalize(PyObject *self)
{
    writer *w = (writer *)self;
    if (!w->open) return;
    if (w->pid == getpid()) warn_unclosed(w);
    give_up(w, false);
}

/* --- Type --------------------------------------------------------------------------- */

static int writer_traverse(PyObject *self, visitproc visit, void *arg)
{
    writer *w = (writer *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(w->file.object);
    Py_VISIT(w->file.opener);
    Py_VISIT(w->rules.encoders);
    Py_VISIT(w->rules.fallback);
    Py_VISIT(w->encoder);
    Py_VISIT(w->hook);
    Py_VISIT(w->progress);
    return 0;
}

static int writer_clear(PyObject *self)
{
    writer *w = (writer *)self;
    if (w->open)
        give_up(w, false); /* before the objects that its callbacks need are released */
    tarnpy_file_clear(&w->file);
    Py_CLEAR(w->rules.encoders);
    Py_CLEAR(w->rules.fallback);
    Py_CLEAR(w->encoder);
    Py_CLEAR(w->hook);
    Py_CLEAR(w->progress);
    return 0;
}

static void writer_dealloc(PyObject *self)
{
    writer *w = (writer *)self;
    PyObject_GC_UnTrack(self);
    writer_finalize(self);
    writer_clear(self);
    tarnpy_batch_free(&w->batch);
    tarnpy_lock_free(&w->lock);
    tarnpy_free(self);
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    return PyBool_FromLong(!((writer *)self)->open);
}

/* samples, members, payload, bytes, shards; samples and payload of the current shard */
static PyObject *get_written(PyObject *self, void *unused)
{
    const writer *w = (const writer *)self;
    const tarn_written *n = &w->written;
    return Py_BuildValue("KKKKKKK", (unsigned long long)n->samples,
                         (unsigned long long)n->members, (unsigned long long)n->payload,
                         (unsigned long long)n->bytes, (unsigned long long)n->shards,
                         (unsigned long long)w->in_shard,
                         (unsigned long long)w->payload_in_shard);
}

static PyMethodDef methods[] = {
    {"_open", (PyCFunction)(void (*)(void))tarnpy_writer_open,
     METH_VARARGS | METH_KEYWORDS,
     "Opens the writer; for the classes of tarn/_write.py."},
    {"write", writer_write, METH_O, write_doc},
    {"write_many", writer_write_many, METH_O, write_many_doc},
    {"_member", writer_member, METH_VARARGS, member_doc},
    {"_next_shard", writer_next, METH_NOARGS, next_doc},
    {"_has", writer_has, METH_O, has_doc},
    {"_adopt", writer_adopt, METH_VARARGS, adopt_doc},
    {"_finish", writer_finish, METH_NOARGS, finish_doc},
    {"abandon", writer_abandon, METH_NOARGS, abandon_doc},
    {"_suspend", writer_suspend, METH_NOARGS, suspend_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", get_closed, NULL, "Whether the writer was closed or abandoned.", NULL},
    {"_written", get_written, NULL, "Counts, as a tuple.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(type_doc, "Base class of the writers of tarn.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)type_doc},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_finalize, writer_finalize},
    {Py_tp_traverse, writer_traverse},
    {Py_tp_clear, writer_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "tarn._tarn.Writer",
    .basicsize = sizeof(writer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int tarnpy_add_write(PyObject *module)
{
    return tarnpy_add_type(module, &spec, &tarnpy_module_state(module)->writer_type);
}
