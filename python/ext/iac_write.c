/* iac_write.c: packs, written, and what is done to whole packs. Tables come as anything
 * that the Arrow PyCapsule interface knows; the library consumes them. */
#include "filespy.h"

#include <string.h>
#include <unistd.h>

/* --- What all builders take -------------------------------------------------------- */

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
    const char *codec;
    int encoded, overwrite, sync;
    if (!PyArg_ParseTuple(tuple, "Isippp", &o->version, &codec, &o->level, &encoded,
                          &overwrite, &sync))
        return false;
    o->codec = tarn_iac_codec_named(codec);
    o->encoded = encoded;
    o->overwrite = overwrite;
    o->no_sync = !sync;
    o->in_order = true; /* json.dumps has sorted keys that are numbers as numbers */
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
    PyObject_HEAD tarn_iac_writer *writer; /* NULL once it is finished or abandoned */
    bool busy;
    pid_t pid; /* whose file it is: a child leaves it alone */
} pack_writer;

static tarnpy_state *state_of(void *self)
{
    return tarnpy_type_state(Py_TYPE((PyObject *)self));
}

static bool usable(pack_writer *w)
{
    if (!w->writer)
        tarnpy_usage(state_of(w), "the writer is finished; nothing can be added to it");
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
    {"abandon", writer_abandon, METH_NOARGS, "leave nothing"},
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
    const void **data;
    size_t *sizes;
    size_t count; /* of buffers that are held */
} payloads;

static void payloads_free(payloads *p)
{
    for (size_t i = 0; i < p->count; i++)
        PyBuffer_Release(&p->buffers[i]);
    PyMem_Free(p->buffers);
    PyMem_Free(p->data);
    PyMem_Free(p->sizes);
}

static bool payloads_get(payloads *p, PyObject *tuple)
{
    size_t count = (size_t)PyTuple_Size(tuple);
    *p = (payloads){PyMem_Calloc(count + 1, sizeof *p->buffers),
                    PyMem_Calloc(count + 1, sizeof *p->data),
                    PyMem_Calloc(count + 1, sizeof *p->sizes), 0};
    if (!p->buffers || !p->data || !p->sizes) {
        PyErr_NoMemory();
        return false;
    }
    for (; p->count < count; p->count++) {
        Py_buffer *b = &p->buffers[p->count];
        PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)p->count);
        if (PyObject_GetBuffer(item, b, PyBUF_SIMPLE) != 0) return false;
        p->data[p->count] = b->buf;
        p->sizes[p->count] = (size_t)b->len;
    }
    return true;
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
    if (good)
        TARNPY_UNLOCKED(status, tarn_iac_build(t.name, &t.slides, &t.index, p.data,
                                               p.sizes, p.count, &t.options, &err));
    payloads_free(&p);
    target_reset(&t);
    return good ? answer(module, status, &err) : NULL;
}

static PyObject *iac_build_segment(PyObject *module, PyObject *args)
{
    PyObject *about;
    Py_buffer data;
    target t;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "O!y*", &PyTuple_Type, &about, &data)) return NULL;
    bool good = target_parse(&t, about);
    if (good) {
        TARNPY_UNLOCKED(status,
                        tarn_iac_build_segment(t.name, &t.slides, &t.index, data.buf,
                                               (size_t)data.len, &t.options, &err));
        target_reset(&t);
    }
    PyBuffer_Release(&data);
    return good ? answer(module, status, &err) : NULL;
}

static PyObject *iac_build_segment_file(PyObject *module, PyObject *args)
{
    PyObject *about, *file;
    unsigned long long length;
    target t;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "O!O&K", &PyTuple_Type, &about, tarnpy_path, &file,
                          &length))
        return NULL;
    const char *data = PyBytes_AsString(file);
    bool good = target_parse(&t, about);
    if (good) {
        TARNPY_UNLOCKED(status,
                        tarn_iac_build_segment_file(t.name, &t.slides, &t.index, data,
                                                    length, &t.options, &err));
        target_reset(&t);
    }
    Py_DECREF(file);
    return good ? answer(module, status, &err) : NULL;
}

/* --- Whole packs ------------------------------------------------------------------- */

typedef struct verification {
    const char *name;
    tarn_iac_verify_options options;
    tarn_iac_report report;
    tarn_status status;
    tarn_error err;
} verification;

static void do_verify(void *context)
{
    verification *v = context;
    v->status =
        tarn_iac_verify(v->name, &v->options, &v->report, sizeof v->report, &v->err);
}

static PyObject *iac_verify(PyObject *module, PyObject *args)
{
    verification v = {.options = TARN_IAC_VERIFY_OPTIONS_INIT};
    PyObject *path;
    tarnpy_problems problems = {0};
    atomic_bool stop = false;
    if (!PyArg_ParseTuple(args, "O&I", tarnpy_path, &path, &v.options.threads))
        return NULL;
    v.name = PyBytes_AsString(path);
    v.options.problem = tarnpy_problems_add;
    v.options.problem_context = &problems;
    v.options.progress = tarnpy_stopped;
    v.options.progress_context = &stop;
    tarnpy_run(do_verify, &v, &stop);
    PyObject *list = tarnpy_problems_end(module, path, &problems, v.status, &v.err);
    if (!list) return NULL;
    const tarn_iac_report *r = &v.report;
    return Py_BuildValue("KKKKN", (unsigned long long)r->records,
                         (unsigned long long)r->checksummed, (unsigned long long)r->bytes,
                         (unsigned long long)r->problems, list);
}

static PyObject *iac_upgrade(PyObject *module, PyObject *args)
{
    PyObject *from, *to;
    int overwrite;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "O&O&p", tarnpy_path, &from, tarnpy_path, &to,
                          &overwrite))
        return NULL;
    const char *old = PyBytes_AsString(from), *new = PyBytes_AsString(to);
    TARNPY_UNLOCKED(status, tarn_iac_upgrade(old, new, overwrite, &err));
    Py_DECREF(from);
    Py_DECREF(to);
    return answer(module, status, &err);
}

static PyObject *iac_rewrite(PyObject *module, PyObject *args)
{
    PyObject *from, *to, *options;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "O&O&zO", tarnpy_path, &from, tarnpy_path, &to, &o.header,
                          &options))
        return NULL;
    const char *old = PyBytes_AsString(from), *new = PyBytes_AsString(to);
    bool good = parse_options(options, &o);
    if (good) TARNPY_UNLOCKED(status, tarn_iac_rewrite(old, new, &o, &err));
    Py_DECREF(from);
    Py_DECREF(to);
    return good ? answer(module, status, &err) : NULL;
}

static PyObject *iac_is_pack(PyObject *module, PyObject *args)
{
    PyObject *path;
    bool is;
    if (!PyArg_ParseTuple(args, "O&", tarnpy_path, &path)) return NULL;
    const char *name = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS;
    is = tarn_iac_is_pack(name);
    Py_END_ALLOW_THREADS;
    Py_DECREF(path);
    return PyBool_FromLong(is);
}

/* --- Tables of lists --------------------------------------------------------------- */

static tarn_status put_cell(tarn_iac_rows *rows, size_t column, PyObject *value,
                            tarn_error *err)
{
    Py_ssize_t size;
    if (value == Py_None) return tarn_iac_rows_null(rows, column, err);
    if (PyUnicode_Check(value)) {
        const char *text = PyUnicode_AsUTF8AndSize(value, &size);
        if (!text) return TARN_ERR_USAGE;
        return tarn_iac_rows_text(rows, column, text, (size_t)size, err);
    }
    long long number = PyLong_AsLongLong(value);
    if (PyErr_Occurred()) return TARN_ERR_USAGE;
    return tarn_iac_rows_number(rows, column, number, err);
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
    {"iac_verify", iac_verify, METH_VARARGS,
     "iac_verify(path, threads): (records, checksummed, bytes, problems, [text])"},
    {"iac_upgrade", iac_upgrade, METH_VARARGS, "iac_upgrade(from, to, overwrite)"},
    {"iac_rewrite", iac_rewrite, METH_VARARGS, "iac_rewrite(from, to, header, options)"},
    {"iac_is_pack", iac_is_pack, METH_VARARGS, "iac_is_pack(path)"},
    {"iac_rows", iac_rows, METH_VARARGS, "iac_rows(columns, rows): an Arrow stream"},
    {NULL, NULL, 0, NULL}};

int tarnpy_add_iac_writer(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &writer_spec, &state->pack_writer_type) != 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
