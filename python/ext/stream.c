/* stream.c: iterators over the samples and members of one archive, in order
 * (tarn/samples.h, tarn/tar.h), for tarn/wds. */
#include "writing.h"

#include <stdlib.h>
#include <string.h>

/* Field names are cached as str objects: those of the last sample, by position. */
#define KNOWN_NAMES 32u

typedef struct known_name {
    PyObject *text;
    char bytes[64];
    size_t size;
} known_name;

typedef struct samples {
    PyObject_HEAD tarnpy_state *state;
    tarn_samples *in;
    tarn_source_options source_options;
    tarn_source_calls calls;
    tarnpy_file file;
    tarnpy_lock lock;
    PyObject *url;        /* stored in every sample */
    PyObject *local_path; /* or NULL */
    PyObject *url_name, *path_name;
    PyObject *notices; /* a list that receives notices, or NULL */
    known_name names[KNOWN_NAMES];
    bool ended;
} samples;

/* Called without the GIL. A notice is lost if there is no memory for it. */
static void keep_notice(void *context, const tarn_error *what)
{
    samples *s = context;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    if (!s->notices) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    tarn_error_text(what, text, sizeof text);
    PyObject *message = tarnpy_text(text, strlen(text));
    PyObject *pair =
        message ? Py_BuildValue("sO", tarn_status_name(what->code), message) : NULL;
    if (pair) PyList_Append(s->notices, pair);
    Py_XDECREF(message);
    Py_XDECREF(pair);
    PyErr_Clear();
    PyGILState_Release(gil);
}

static void samples_close(samples *s)
{
    tarn_samples_close(s->in);
    s->in = NULL;
}

static PyObject *given(PyObject *object)
{
    if (!object || object == Py_None) return NULL;
    Py_INCREF(object);
    return object;
}

static int samples_open(samples *s, PyObject *place, tarn_samples_options *o)
{
    const char *url = PyBytes_AsString(place);
    tarn_error err;
    tarn_status status;
    o->notice = keep_notice;
    o->notice_context = s;
    s->source_options = (tarn_source_options)TARN_SOURCE_OPTIONS_INIT;
    s->calls = tarnpy_file_source(&s->file);
    if (s->file.object) s->source_options.calls = &s->calls;
    s->source_options.allow_pipe = o->allow_pipe;
    o->source = &s->source_options;
    TARNPY_UNLOCKED(status, tarn_samples_open(&url, 1, o, &s->in, &err));
    if (status == TARN_OK) return 0;
    tarnpy_raise(s->state, &err);
    return -1;
}

static PyObject *samples_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const words[] = {"place",      "url",      "stream",  "local_path",
                                        "keep_first", "lenient",  "notices", "allow_pipe",
                                        "max_bytes",  "grouping", NULL};
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    PyObject *place = NULL, *url, *stream = NULL, *local = NULL, *notices = NULL;
    int keep_first = 0, lenient = 0, allow = 0, grouping = TARN_GROUP_WEBDATASET;
    unsigned long long max_bytes = o.max_sample_bytes;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTupleAndKeywords(
                      args, kwargs, "O&O|$OOppOpKi:Samples", TARNPY_WORDS(words),
                      tarnpy_path, &place, &url, &stream, &local, &keep_first, &lenient,
                      &notices, &allow, &max_bytes, &grouping))
        return NULL;
    o.keep_first = keep_first;
    o.lenient = lenient;
    o.allow_pipe = allow;
    o.max_sample_bytes = max_bytes;
    o.grouping = (tarn_grouping)grouping;
    samples *s = TARNPY_NEW(samples, type);
    if (s && tarnpy_lock_init(&s->lock) == 0) {
        s->state = state;
        s->url = given(url);
        s->local_path = given(local);
        s->notices = given(notices);
        s->file.object = given(stream);
        s->url_name = PyUnicode_InternFromString("__url__");
        s->path_name = PyUnicode_InternFromString("__local_path__");
        if (s->url_name && s->path_name) samples_open(s, place, &o);
    }
    Py_DECREF(place);
    if (PyErr_Occurred()) Py_CLEAR(s);
    return (PyObject *)s;
}

static PyObject *field_name(samples *s, size_t place, const tarn_samples_field *field)
{
    known_name *known = &s->names[place % KNOWN_NAMES];
    if (known->text && known->size == field->name_len &&
        memcmp(known->bytes, field->name, field->name_len) == 0) {
        Py_INCREF(known->text);
        return known->text;
    }
    PyObject *text = tarnpy_text(field->name, field->name_len);
    if (!text || field->name_len > sizeof known->bytes) return text;
    PyUnicode_InternInPlace(&text);
    Py_XDECREF(known->text);
    known->text = text;
    known->size = field->name_len;
    memcpy(known->bytes, field->name, field->name_len);
    Py_INCREF(text);
    return text;
}

static int put_item(PyObject *dict, PyObject *name, PyObject *value)
{
    int failed = name && value ? PyDict_SetItem(dict, name, value) : -1;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return failed;
}

static int put_fields(samples *s, PyObject *dict, const tarn_samples_item *item)
{
    for (size_t i = 0; i < item->count; i++) {
        const tarn_samples_field *f = &item->fields[i];
        if (put_item(
                dict, field_name(s, i, f),
                PyBytes_FromStringAndSize((const char *)f->data, (Py_ssize_t)f->size)))
            return -1;
        /* After the first field, as in WebDataset. */
        if (i == 0 && s->local_path && PyDict_SetItem(dict, s->path_name, s->local_path))
            return -1;
    }
    return 0;
}

static PyObject *as_dict(samples *s, const tarn_samples_item *item)
{
    PyObject *dict = PyDict_New();
    if (!dict) return NULL;
    PyObject *key = tarnpy_text(item->key, item->key_len);
    int failed = key ? PyDict_SetItem(dict, s->state->key_name, key) : -1;
    Py_XDECREF(key);
    if (!failed && s->url) failed = PyDict_SetItem(dict, s->url_name, s->url);
    if (!failed) failed = put_fields(s, dict, item);
    if (failed) Py_CLEAR(dict);
    return dict;
}

static PyObject *samples_next(PyObject *self)
{
    samples *s = (samples *)self;
    tarn_samples_item item;
    tarn_error err;
    tarn_status status = TARN_END;
    PyObject *dict = NULL;
    if (tarnpy_lock_take(&s->lock)) return NULL;
    if (s->in && !s->ended) {
        TARNPY_UNLOCKED(status, tarn_samples_next(s->in, &item, &err));
        if (status == TARN_OK) dict = as_dict(s, &item);
        if (status != TARN_OK) s->ended = true;
        if (status == TARN_END) samples_close(s);
        /* A callback may have raised although the library continued. */
        if (PyErr_Occurred()) Py_CLEAR(dict);
    }
    tarnpy_lock_give(&s->lock);
    if (status != TARN_OK && status != TARN_END) return tarnpy_raise(s->state, &err);
    return dict;
}

PyDoc_STRVAR(
    unfinished_doc,
    "unfinished()\n--\n\nAfter an error: the sample that was being read, with the "
    "fields that were read completely, or None.");

static PyObject *samples_unfinished(PyObject *self, PyObject *unused)
{
    samples *s = (samples *)self;
    tarn_samples_item item;
    tarn_error err;
    PyObject *dict = NULL;
    if (tarnpy_lock_take(&s->lock)) return NULL;
    tarn_status status = s->in ? tarn_samples_unfinished(s->in, &item, &err) : TARN_END;
    if (status == TARN_OK) dict = as_dict(s, &item);
    tarnpy_lock_give(&s->lock);
    if (status != TARN_OK && status != TARN_END) return tarnpy_raise(s->state, &err);
    if (status == TARN_OK) return dict;
    Py_INCREF(Py_None);
    return Py_None;
}

PyDoc_STRVAR(close_doc, "close()\n--\n\nCloses the archive; there are no more samples.");

static PyObject *samples_close_method(PyObject *self, PyObject *unused)
{
    samples *s = (samples *)self;
    if (tarnpy_lock_take(&s->lock)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    samples_close(s);
    Py_END_ALLOW_THREADS;
    tarnpy_lock_give(&s->lock);
    tarnpy_file_clear(&s->file);
    Py_INCREF(Py_None);
    return Py_None;
}

static int samples_traverse(PyObject *self, visitproc visit, void *arg)
{
    samples *s = (samples *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(s->file.object);
    Py_VISIT(s->notices);
    return 0;
}

static int samples_clear(PyObject *self)
{
    samples *s = (samples *)self;
    samples_close(s);
    tarnpy_file_clear(&s->file);
    Py_CLEAR(s->notices);
    return 0;
}

static void samples_dealloc(PyObject *self)
{
    samples *s = (samples *)self;
    PyObject_GC_UnTrack(self);
    samples_clear(self);
    Py_CLEAR(s->url);
    Py_CLEAR(s->local_path);
    Py_CLEAR(s->url_name);
    Py_CLEAR(s->path_name);
    for (size_t i = 0; i < KNOWN_NAMES; i++)
        Py_CLEAR(s->names[i].text);
    tarnpy_lock_free(&s->lock);
    tarnpy_free(self);
}

static PyObject *same(PyObject *self)
{
    Py_INCREF(self);
    return self;
}

static PyMethodDef samples_methods[] = {
    {"close", samples_close_method, METH_NOARGS, close_doc},
    {"unfinished", samples_unfinished, METH_NOARGS, unfinished_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot samples_slots[] = {
    {Py_tp_new, samples_new},
    {Py_tp_dealloc, samples_dealloc},
    {Py_tp_traverse, samples_traverse},
    {Py_tp_clear, samples_clear},
    {Py_tp_iter, same},
    {Py_tp_iternext, samples_next},
    {Py_tp_methods, samples_methods},
    {0, NULL},
};

static PyType_Spec samples_spec = {
    .name = "tarn._tarn.Samples",
    .basicsize = sizeof(samples),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = samples_slots,
};

/* --- Members ------------------------------------------------------------------------ */

typedef struct members {
    PyObject_HEAD tarnpy_state *state;
    tarn_tar *in;
    tarn_source_options source_options;
    tarn_source_calls calls;
    tarnpy_file file;
    tarnpy_lock lock;
    PyObject *select; /* called with a name: whether its bytes are needed */
} members;

static int members_open(members *m, PyObject *place, bool lenient, bool allow_pipe)
{
    tarn_tar_options o = TARN_TAR_OPTIONS_INIT;
    tarn_error err;
    tarn_status status;
    m->source_options = (tarn_source_options)TARN_SOURCE_OPTIONS_INIT;
    m->calls = tarnpy_file_source(&m->file);
    if (m->file.object) m->source_options.calls = &m->calls;
    o.lenient = lenient;
    o.allow_pipe = allow_pipe;
    o.source = &m->source_options;
    TARNPY_UNLOCKED(status, tarn_tar_open(PyBytes_AsString(place), &o, &m->in, &err));
    if (status == TARN_OK) return 0;
    tarnpy_raise(m->state, &err);
    return -1;
}

static PyObject *members_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const words[] = {"place",   "stream",     "select",
                                        "lenient", "allow_pipe", NULL};
    PyObject *place = NULL, *stream = NULL, *select = NULL;
    int lenient = 0, allow = 0;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$OOpp:Members",
                                               TARNPY_WORDS(words), tarnpy_path, &place,
                                               &stream, &select, &lenient, &allow))
        return NULL;
    members *m = TARNPY_NEW(members, type);
    if (m && tarnpy_lock_init(&m->lock) == 0) {
        m->state = state;
        m->file.object = given(stream);
        m->select = given(select);
        members_open(m, place, lenient, allow);
    }
    Py_DECREF(place);
    if (PyErr_Occurred()) Py_CLEAR(m);
    return (PyObject *)m;
}

/* 1: wanted; 0: not wanted; -1 with an exception. */
static int wanted(members *m, PyObject *name)
{
    if (!m->select) return 1;
    PyObject *answer = PyObject_CallFunctionObjArgs(m->select, name, NULL);
    int yes = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return yes;
}

/* Allocates memory as data arrives, not by the size in a header. After a failure either
 * err is set, or *out_short is true: out of memory. */
static tarn_status read_payload(members *m, const tarn_member *member, char **out,
                                bool *out_short, tarn_error *err)
{
    enum { PIECE = 4 << 20 };
    uint64_t room = 0;
    for (uint64_t done = 0; done < member->size;) {
        uint64_t left = member->size - done;
        size_t n = left < PIECE ? (size_t)left : PIECE;
        if (done + n > room) {
            room = left < room || left < PIECE ? member->size : room * 2 + PIECE;
            char *grown = realloc(*out, room);
            *out_short = !grown;
            if (!grown) return TARN_ERR_MEMORY;
            *out = grown;
        }
        TARN_TRY(tarn_tar_read(m->in, member, done, *out + done, n, err));
        done += n;
    }
    return TARN_OK;
}

static PyObject *read_member(members *m, PyObject *name, const tarn_member *member)
{
    char *data = NULL;
    bool no_memory = false;
    tarn_error err;
    tarn_status status;
    PyObject *pair = NULL;
    TARNPY_UNLOCKED(status, read_payload(m, member, &data, &no_memory, &err));
    if (no_memory)
        PyErr_NoMemory();
    else if (status != TARN_OK)
        tarnpy_raise(m->state, &err);
    else
        pair = Py_BuildValue("Oy#", name, data ? data : "", (Py_ssize_t)member->size);
    free(data);
    return pair;
}

static PyObject *next_member(members *m)
{
    for (;;) {
        tarn_member member;
        tarn_error err;
        tarn_status status;
        TARNPY_UNLOCKED(status, tarn_tar_next(m->in, &member, &err));
        if (status == TARN_END) return NULL;
        if (status != TARN_OK) return tarnpy_raise(m->state, &err);
        PyObject *name = tarnpy_text(member.name, member.name_len), *pair = NULL;
        int yes = name ? wanted(m, name) : -1;
        if (yes > 0) pair = read_member(m, name, &member);
        Py_XDECREF(name);
        if (yes) return pair;
    }
}

static PyObject *members_next(PyObject *self)
{
    members *m = (members *)self;
    if (tarnpy_lock_take(&m->lock)) return NULL;
    PyObject *pair = m->in ? next_member(m) : NULL;
    if (!pair) {
        tarn_tar_close(m->in);
        m->in = NULL;
    }
    tarnpy_lock_give(&m->lock);
    return pair;
}

static int members_traverse(PyObject *self, visitproc visit, void *arg)
{
    members *m = (members *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(m->file.object);
    Py_VISIT(m->select);
    return 0;
}

static int members_clear(PyObject *self)
{
    members *m = (members *)self;
    tarn_tar_close(m->in);
    m->in = NULL;
    tarnpy_file_clear(&m->file);
    Py_CLEAR(m->select);
    return 0;
}

static void members_dealloc(PyObject *self)
{
    members *m = (members *)self;
    PyObject_GC_UnTrack(self);
    members_clear(self);
    tarnpy_lock_free(&m->lock);
    tarnpy_free(self);
}

static PyType_Slot members_slots[] = {
    {Py_tp_new, members_new},
    {Py_tp_dealloc, members_dealloc},
    {Py_tp_traverse, members_traverse},
    {Py_tp_clear, members_clear},
    {Py_tp_iter, same},
    {Py_tp_iternext, members_next},
    {0, NULL},
};

static PyType_Spec members_spec = {
    .name = "tarn._tarn.Members",
    .basicsize = sizeof(members),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = members_slots,
};

int tarnpy_add_stream(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    return tarnpy_add_type(module, &samples_spec, &state->samples_type) ||
                   tarnpy_add_type(module, &members_spec, &state->members_type)
               ? -1
               : 0;
}
