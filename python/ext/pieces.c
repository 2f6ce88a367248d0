/* pieces.c: a column of bytes or text whose values become objects one by one (_Pieces),
 * so that a batch can be handed to another process as it is in memory. */
#include "loader.h"

#include <string.h>

/* Value i is data[offsets[i] - offsets[0]] up to offsets[i + 1]; a key has a NUL at its
 * end, which is not part of it. */
typedef struct pieces {
    PyObject_HEAD tarnpy_state *state;
    const unsigned char *data;
    const unsigned char *offsets; /* uint64_t each, not aligned */
    size_t count;
    tarnpy_pieces_kind kind;
    PyObject *owner;  /* of both, or NULL and: */
    PyObject *packed; /* the bytes object with the offsets */
    Py_buffer view;   /* of data */
} pieces;

static uint64_t offset_at(const pieces *self, size_t i)
{
    uint64_t offset;
    memcpy(&offset, self->offsets + i * sizeof offset, sizeof offset);
    return offset;
}

static size_t size_of(const pieces *self)
{
    return (size_t)(offset_at(self, self->count) - offset_at(self, 0));
}

static pieces *make(tarnpy_state *state, PyTypeObject *type)
{
    pieces *self = TARNPY_NEW(pieces, type);
    if (self) self->state = state;
    return self;
}

PyObject *tarnpy_pieces_new(tarnpy_state *state, const void *data,
                            const uint64_t *offsets, size_t count,
                            tarnpy_pieces_kind kind, PyObject *owner)
{
    pieces *self = make(state, state->pieces_type);
    if (!self) return NULL;
    self->data = data;
    self->offsets = (const unsigned char *)offsets;
    self->count = count;
    self->kind = kind;
    Py_INCREF(owner);
    self->owner = owner;
    return (PyObject *)self;
}

/* The offsets come from another process: they must ascend, and end where the data does.
 */
static int check_offsets(const pieces *self)
{
    uint64_t before = offset_at(self, 0);
    size_t trim = self->kind == TARNPY_PIECES_KEYS;
    for (size_t i = 1; i <= self->count; i++) {
        uint64_t at = offset_at(self, i);
        if (at < before || at - before < trim) break;
        if (i == self->count && at - offset_at(self, 0) == (uint64_t)self->view.len)
            return 0;
        before = at;
    }
    if (self->count == 0 && self->view.len == 0) return 0;
    PyErr_SetString(PyExc_ValueError, "offsets that do not fit the data");
    return -1;
}

static PyObject *pieces_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *data, *offsets;
    int kind;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTuple(args, "OSi:_Pieces", &data, &offsets, &kind))
        return NULL;
    Py_ssize_t size = PyBytes_Size(offsets);
    if (size < 8 || size % 8 || kind < 0 || kind > TARNPY_PIECES_KEYS) {
        PyErr_SetString(PyExc_ValueError, "not the parts of a column");
        return NULL;
    }
    pieces *self = make(state, type);
    if (!self) return NULL;
    self->kind = (tarnpy_pieces_kind)kind;
    self->count = (size_t)size / 8 - 1;
    Py_INCREF(offsets);
    self->packed = offsets;
    self->offsets = (const unsigned char *)PyBytes_AsString(offsets);
    if (PyObject_GetBuffer(data, &self->view, PyBUF_SIMPLE) == 0) {
        self->data = self->view.buf;
        if (check_offsets(self) == 0) return (PyObject *)self;
    }
    Py_DECREF(self);
    return NULL;
}

static void pieces_dealloc(PyObject *object)
{
    pieces *self = (pieces *)object;
    if (self->view.obj) PyBuffer_Release(&self->view);
    Py_XDECREF(self->packed);
    Py_XDECREF(self->owner);
    tarnpy_free(object);
}

/* --- As a sequence ------------------------------------------------------------------ */

static Py_ssize_t pieces_length(PyObject *object)
{
    return (Py_ssize_t)((pieces *)object)->count;
}

static PyObject *pieces_item(PyObject *object, Py_ssize_t i)
{
    pieces *self = (pieces *)object;
    if (i < 0 || (size_t)i >= self->count) {
        PyErr_SetString(PyExc_IndexError, "no such sample");
        return NULL;
    }
    uint64_t at = offset_at(self, (size_t)i);
    size_t size = (size_t)(offset_at(self, (size_t)i + 1) - at);
    const char *data = (const char *)self->data + (at - offset_at(self, 0));
    if (self->kind == TARNPY_PIECES_BYTES)
        return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    return tarnpy_text(data, size - (self->kind == TARNPY_PIECES_KEYS));
}

static PyObject *part_of(pieces *self, size_t first, size_t count)
{
    pieces *out = make(self->state, Py_TYPE((PyObject *)self));
    if (!out) return NULL;
    Py_INCREF((PyObject *)self);
    out->owner = (PyObject *)self;
    out->kind = self->kind;
    out->count = count;
    out->data = self->data + (offset_at(self, first) - offset_at(self, 0));
    out->offsets = self->offsets + first * sizeof(uint64_t);
    return (PyObject *)out;
}

static PyObject *pieces_subscript(PyObject *object, PyObject *index)
{
    pieces *self = (pieces *)object;
    Py_ssize_t start, stop, step, count = (Py_ssize_t)self->count;
    if (!PySlice_Check(index)) {
        Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
        if (i == -1 && PyErr_Occurred()) return NULL;
        return pieces_item(object, i < 0 ? i + count : i);
    }
    if (PySlice_Unpack(index, &start, &stop, &step) != 0) return NULL;
    Py_ssize_t size = PySlice_AdjustIndices(count, &start, &stop, step);
    if (step == 1) return part_of(self, (size_t)start, (size_t)size);
    PyErr_SetString(PyExc_ValueError, "the step of a slice must be 1");
    return NULL;
}

static int pieces_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
    pieces *self = (pieces *)object;
    static const unsigned char nothing[1];
    size_t size = size_of(self);
    const void *data = size ? self->data : nothing;
    return PyBuffer_FillInfo(buffer, object, (void *)(uintptr_t)data, (Py_ssize_t)size, 1,
                             flags);
}

/* (data, offsets, kind), for pickles of protocol 5 that keep the data elsewhere. */
static PyObject *pieces_parts(PyObject *object, PyObject *unused)
{
    pieces *self = (pieces *)object;
    Py_ssize_t size = (Py_ssize_t)((self->count + 1) * sizeof(uint64_t));
    return Py_BuildValue("Oy#i", object, (const char *)self->offsets, size,
                         (int)self->kind);
}

static PyMethodDef pieces_methods[] = {
    {"parts", pieces_parts, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pieces_slots[] = {
    {Py_tp_new, pieces_new},
    {Py_tp_dealloc, pieces_dealloc},
    {Py_tp_methods, pieces_methods},
    {Py_sq_length, pieces_length},
    {Py_sq_item, pieces_item},
    {Py_mp_length, pieces_length},
    {Py_mp_subscript, pieces_subscript},
    {Py_bf_getbuffer, pieces_buffer},
    {0, NULL},
};

static PyType_Spec pieces_spec = {
    .name = "tarn._tarn._Pieces",
    .basicsize = sizeof(pieces),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pieces_slots,
};

int tarnpy_add_pieces(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    return tarnpy_add_type(module, &pieces_spec, &state->pieces_type);
}
