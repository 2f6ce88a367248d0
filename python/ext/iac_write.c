/* iac_write.c: writes, verifies and rewrites IAC files. Tables are any objects with the
 * Arrow PyCapsule interface; the library consumes them. */
#include "filespy.h"

#include <string.h>
#include <unistd.h>

/* --- Arguments of all builders ----------------------------------------------------- */

/* path, the header as JSON or None, slides, index, and
 * (version, codec, level, encoded, overwrite, sync). */
typedef struct target {
    PyObject *path;
    const char *name;
    struct ArrowArrayStream slides, index;
    tarn_iac_write_options options;
} target;

static void target_reset(target *t)
{
    if (t->slides.release) t->slides.release(&t->slides);
    if (t->index.release) t->index.release(&t->index);
    Py_CLEAR(t->path);
}

static bool parse_options(PyObject *tuple, tarn_iac_write_options *o)
{
    int encoded, overwrite, sync;
    if (!PyArg_ParseTuple(tuple, "Isippp", &o->version, &o->codec, &o->level, &encoded,
                          &overwrite, &sync))
        return false;
    o->encoded = encoded;
    o->overwrite = overwrite;
    o->no_sync = !sync;
    o->in_order = true; /* json.dumps has already sorted the keys; the library would sort
                           number keys as text */
    return true;
}

static bool target_parse(target *t, PyObject *args)
{
    PyObject *slides, *index, *options;
    *t = (target){.options = TARN_IAC_WRITE_OPTIONS_INIT};
    if (!PyArg_ParseTuple(args, "O&zOOO", tarnpy_path, &t->path, &t->options.header,
                          &slides, &index, &options))
        return false;
    t->name = PyBytes_AsString(t->path);
    if (parse_options(options, &t->options) &&
        tarnpy_stream_from(slides, &t->slides) == 0 &&
        tarnpy_stream_from(index, &t->index) == 0)
        return true;
    target_reset(t);
    return false;
}

static PyObject *answer(PyObject *module, tarn_status status, const tarn_error *err)
{
    if (status != TARN_OK) return tarnpy_raise(tarnpy_module_state(module), err);
    Py_RETURN_NONE;
}

/* --- Payload by payload ------------------------------------------------------------ */

typedef struct pack_writer {
    PyObject_HEAD tarn_iac_writer *writer; /* NULL after finish or abandon */
    bool busy;
    pid_t pid; /* the process that created it; a forked child must not use it */
} pack_writer;

static tarnpy_state *state_of(void *self)
{
    return tarnpy_type_state(Py_TYPE((PyObject *)self));
}

static bool usable(pack_writer *w)
{
    if (!w->writer)
        tarnpy_usage(state_of(w), "the writer is finished; nothing can be added");
    else if (tarnpy_is_own(w->pid) && w->busy)
        tarnpy_usage(state_of(w), "another thread is using the writer");
    return !PyErr_Occurred();
}

static PyObject *writer_add(PyObject *self, PyObject *payload)
{
    pack_writer *w = (pack_writer *)self;
    Py_buffer bytes;
    tarn_error err;
    tarn_status status;
    if (!usable(w) || PyObject_GetBuffer(payload, &bytes, PyBUF_SIMPLE) != 0) return NULL;
    w->busy = true;
    TARNPY_UNLOCKED(status,
                    tarn_iac_writer_add(w->writer, bytes.buf, (size_t)bytes.len, &err));
    w->busy = false;
    PyBuffer_Release(&bytes);
    if (status != TARN_OK) return tarnpy_raise(state_of(self), &err);
    Py_RETURN_NONE;
}

static PyObject *writer_finish(PyObject *self, PyObject *unused)
{
    pack_writer *w = (pack_writer *)self;
    tarn_error err;
    tarn_status status;
    if (!usable(w)) return NULL;
    tarn_iac_writer *writer = w->writer;
    w->writer = NULL;
    TARNPY_UNLOCKED(status, tarn_iac_writer_finish(writer, &err));
    if (status != TARN_OK) return tarnpy_raise(state_of(self), &err);
    Py_RETURN_NONE;
}

static PyObject *writer_abandon(PyObject *self, PyObject *unused)
{
    pack_writer *w = (pack_writer *)self;
    if (!w->writer) Py_RETURN_NONE;
    if (w->pid == getpid() && !usable(w)) return NULL;
    tarn_iac_writer *writer = w->writer;
    w->writer = NULL;
    Py_BEGIN_ALLOW_THREADS;
    if (w->pid == getpid()) tarn_iac_writer_abandon(writer);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static void writer_dealloc(PyObject *self)
{
    const pack_writer *w = (const pack_writer *)self;
    if (w->pid == getpid()) tarn_iac_writer_abandon(w->writer);
    tarnpy_free(self);
}

static PyMethodDef writer_methods[] = {
    {"add", writer_add, METH_O, "add(payload)"},
    {"finish", writer_finish, METH_NOARGS, "publish"},
    {"abandon", writer_abandon, METH_NOARGS, "abandon(): discards the file"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot writer_slots[] = {
    {Py_tp_dealloc, writer_dealloc}, {Py_tp_methods, writer_methods}, {0, NULL}};
static PyType_Spec writer_spec = {"tarn._tarn.PackWriter", sizeof(pack_writer), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  writer_slots};

static PyObject *iac_write(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    target t;
    tarn_error err;
    tarn_status status;
    if (!target_parse(&t, args)) return NULL;
    pack_writer *w = TARNPY_NEW(pack_writer, state->pack_writer_type);
    if (w) {
        w->pid = getpid();
        TARNPY_UNLOCKED(status, tarn_iac_writer_open(t.name, &t.slides, &t.index,
                                                     &t.options, &w->writer, &err));
        if (status != TARN_OK) {
            w->writer = NULL;
            Py_CLEAR(w);
            tarnpy_raise(state, &err);
        }
    }
    target_reset(&t);
    return (PyObject *)w;
}

/* --- All payloads at once ---------------------------------------------------------- */

typedef struct payloads {
    Py_buffer *buffers;
    size_t count; /* number of buffers held */
} payloads;

static void payloads_free(payloads *p)
{
    for (size_t i = 0; i < p->count; i++)
        PyBuffer_Release(&p->buffers[i]);
    PyMem_Free(p->buffers);
}

static bool payloads_get(payloads *p, PyObject *tuple)
{
    size_t count = (size_t)PyTuple_Size(tuple);
    *p = (payloads){PyMem_Calloc(count + 1, sizeof *p->buffers), 0};
    if (!p->buffers) {
        PyErr_NoMemory();
        return false;
    }
    for (; p->count < count; p->count++) {
        Py_buffer *b = &p->buffers[p->count];
        PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)p->count);
        if (PyObject_GetBuffer(item, b, PyBUF_SIMPLE) != 0) return false;
    }
    return true;
}

static tarn_status write_payloads(target *t, const payloads *p, tarn_error *err)
{
    tarn_iac_writer *w;
    TARN_TRY(tarn_iac_writer_open(t->name, &t->slides, &t->index, &t->options, &w, err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < p->count && status == TARN_OK; i++)
        status =
            tarn_iac_writer_add(w, p->buffers[i].buf, (size_t)p->buffers[i].len, err);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, err);
    tarn_iac_writer_abandon(w);
    return status;
}

static PyObject *iac_build(PyObject *module, PyObject *args)
{
    PyObject *about, *items;
    target t;
    payloads p;
    tarn_error err;
    tarn_status status = TARN_OK;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &about, &PyTuple_Type, &items) ||
        !target_parse(&t, about))
        return NULL;
    bool good = payloads_get(&p, items);
    if (good) TARNPY_UNLOCKED(status, write_payloads(&t, &p, &err));
    payloads_free(&p);
    target_reset(&t);
    return good ? answer(module, status, &err) : NULL;
}

/* --- Data segments with a caller's layout ------------------------------------------ */

/* Writes bytes, or a whole file, which must have exactly length bytes. */
static tarn_status add_segment(tarn_iac_writer *w, const Py_buffer *data,
                               const char *path, uint64_t *size, tarn_error *err)
{
    if (path) return tarn_iac_writer_add_file(w, path, size, err);
    return tarn_iac_writer_add(w, data->buf, (size_t)data->len, err);
}

static tarn_status write_segment(target *t, const Py_buffer *data, const char *path,
                                 uint64_t length, uint64_t *size, tarn_error *err)
{
    tarn_iac_writer *w;
    t->options.segment = true;
    TARN_TRY(tarn_iac_writer_open(t->name, &t->slides, &t->index, &t->options, &w, err));
    tarn_status status = add_segment(w, data, path, size, err);
    if (status == TARN_OK && *size == length) return tarn_iac_writer_finish(w, err);
    tarn_iac_writer_abandon(w);
    return status;
}

static PyObject *build_segment(PyObject *module, PyObject *about, const Py_buffer *data,
                               const char *path, uint64_t length)
{
    target t;
    tarn_error err;
    tarn_status status;
    uint64_t size = length;
    if (!target_parse(&t, about)) return NULL;
    TARNPY_UNLOCKED(status, write_segment(&t, data, path, length, &size, &err));
    target_reset(&t);
    if (status != TARN_OK || size == length) return answer(module, status, &err);
    return tarnpy_usage(tarnpy_module_state(module),
                        "%s: the file of the data segment has %llu bytes, not %llu", path,
                        (unsigned long long)size, (unsigned long long)length);
}

static PyObject *iac_build_segment(PyObject *module, PyObject *args)
{
    PyObject *about;
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "O!y*", &PyTuple_Type, &about, &data)) return NULL;
    PyObject *done = build_segment(module, about, &data, NULL, 0);
    PyBuffer_Release(&data);
    return done;
}

static PyObject *iac_build_segment_file(PyObject *module, PyObject *args)
{
    PyObject *about, *file;
    unsigned long long length;
    if (!PyArg_ParseTuple(args, "O!O&K", &PyTuple_Type, &about, tarnpy_path, &file,
                          &length))
        return NULL;
    PyObject *done = build_segment(module, about, NULL, PyBytes_AsString(file), length);
    Py_DECREF(file);
    return done;
}

/* --- Whole IAC files --------------------------------------------------------------- */

static PyObject *iac_rewrite(PyObject *module, PyObject *args)
{
    PyObject *from, *to, *options;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    int upgrade;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "O&O&zOp", tarnpy_path, &from, tarnpy_path, &to,
                          &o.header, &options, &upgrade))
        return NULL;
    o.upgrade = upgrade;
    const char *old = PyBytes_AsString(from), *new = PyBytes_AsString(to);
    bool good = parse_options(options, &o);
    if (good) TARNPY_UNLOCKED(status, tarn_iac_rewrite(old, new, &o, &err));
    Py_DECREF(from);
    Py_DECREF(to);
    return good ? answer(module, status, &err) : NULL;
}

/* --- Tables from lists ------------------------------------------------------------- */

static tarn_status put_cell(tarn_iac_rows *rows, size_t column, PyObject *value,
                            tarn_error *err)
{
    Py_ssize_t size;
    tarn_iac_cell cell;
    if (value == Py_None) return tarn_iac_rows_add(rows, column, NULL, err);
    if (PyUnicode_Check(value)) {
        cell.kind = TARN_IAC_TEXT;
        cell.text = PyUnicode_AsUTF8AndSize(value, &size);
        if (!cell.text) return TARN_ERR_USAGE;
        cell.size = (size_t)size;
    } else {
        cell.kind = TARN_IAC_INTEGER;
        cell.integer = PyLong_AsLongLong(value);
        if (cell.integer == -1 && PyErr_Occurred()) return TARN_ERR_USAGE;
    }
    return tarn_iac_rows_add(rows, column, &cell, err);
}

static bool put_rows(tarnpy_state *state, tarn_iac_rows *rows, PyObject *values,
                     size_t columns)
{
    tarn_error err;
    for (Py_ssize_t i = 0; i < PyTuple_Size(values); i++) {
        PyObject *row = PyTuple_GetItem(values, i);
        for (size_t k = 0; k < columns; k++) {
            PyObject *cell = PyTuple_GetItem(row, (Py_ssize_t)k);
            if (!cell) return false;
            if (put_cell(rows, k, cell, &err) == TARN_OK) continue;
            if (!PyErr_Occurred()) tarnpy_raise(state, &err);
            return false;
        }
    }
    return true;
}

static void free_stream(PyObject *capsule)
{
    struct ArrowArrayStream *s = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (s && s->release) s->release(s);
    PyMem_Free(s);
}

/* iac_rows(("text:a", "int:b"), ((a, b), ...)): a capsule of an Arrow stream. */
static PyObject *iac_rows(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    PyObject *names, *values, *capsule = NULL;
    tarnpy_strings columns;
    tarn_iac_rows *rows;
    tarn_error err;
    if (!PyArg_ParseTuple(args, "OO!", &names, &PyTuple_Type, &values) ||
        tarnpy_strings_get(names, &columns) != 0)
        return NULL;
    size_t count = columns.count;
    tarn_status status = tarn_iac_rows_new(columns.items, count, &rows, &err);
    tarnpy_strings_free(&columns);
    if (status != TARN_OK) return tarnpy_raise(state, &err);
    struct ArrowArrayStream *stream =
        put_rows(state, rows, values, count) ? PyMem_Calloc(1, sizeof *stream) : NULL;
    if (!stream) {
        tarn_iac_rows_free(rows);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    if (tarn_iac_rows_finish(rows, stream, &err) == TARN_OK)
        capsule = PyCapsule_New(stream, "arrow_array_stream", free_stream);
    else
        tarnpy_raise(state, &err);
    if (!capsule) PyMem_Free(stream);
    return capsule;
}

static PyMethodDef functions[] = {
    {"iac_write", iac_write, METH_VARARGS, "a PackWriter"},
    {"iac_build", iac_build, METH_VARARGS, "iac_build(target, payloads)"},
    {"iac_build_segment", iac_build_segment, METH_VARARGS,
     "iac_build_segment(target, data)"},
    {"iac_build_segment_file", iac_build_segment_file, METH_VARARGS,
     "iac_build_segment_file(target, path, length)"},
    {"iac_rewrite", iac_rewrite, METH_VARARGS,
     "iac_rewrite(from, to, header, options, upgrade)"},
    {"iac_rows", iac_rows, METH_VARARGS, "iac_rows(columns, rows): an Arrow stream"},
    {NULL, NULL, 0, NULL}};

int tarnpy_add_iac_writer(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &writer_spec, &state->pack_writer_type) != 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
