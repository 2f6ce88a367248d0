/* order.c: the order of samples (tarn/order.h), lists of sample numbers (_Indices), and
 * the choice of fields for a group (_Views). */
#include "dataset.h"

#include <string.h>

/* --- _Indices ---------------------------------------------------------------------- */

typedef struct indices {
    PyObject_HEAD uint64_t *numbers;
    Py_ssize_t count;
} indices;

PyObject *tarnpy_indices_new(tarnpy_state *state, uint64_t *numbers, size_t count)
{
    indices *self = TARNPY_NEW(indices, state->indices_type);
    if (!self) {
        PyMem_Free(numbers);
        return NULL;
    }
    self->numbers = numbers;
    self->count = (Py_ssize_t)count;
    return (PyObject *)self;
}

static void indices_dealloc(PyObject *self)
{
    PyMem_Free(((indices *)self)->numbers);
    tarnpy_free(self);
}

static Py_ssize_t indices_length(PyObject *self)
{
    return ((indices *)self)->count;
}

static int indices_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
    static Py_ssize_t stride = sizeof(uint64_t);
    static char format[] = "L";
    indices *self = (indices *)object;
    if (PyBuffer_FillInfo(buffer, object, self->numbers,
                          self->count * (Py_ssize_t)sizeof(uint64_t), 1, flags) != 0)
        return -1;
    buffer->itemsize = (Py_ssize_t)sizeof(uint64_t);
    if (buffer->format) buffer->format = format;
    if (buffer->shape) buffer->shape = &self->count;
    if (buffer->strides) buffer->strides = &stride;
    return 0;
}

static PyObject *indices_reduce(PyObject *object, PyObject *unused)
{
    indices *self = (indices *)object;
    PyObject *module = PyImport_ImportModule("tarn._tarn");
    PyObject *made = module ? PyObject_GetAttrString(module, "indices") : NULL;
    Py_XDECREF(module);
    if (!made) return NULL;
    return Py_BuildValue("N(y#)", made, (const char *)self->numbers,
                         self->count * (Py_ssize_t)sizeof(uint64_t));
}

static PyMethodDef indices_methods[] = {
    {"__reduce__", indices_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot indices_slots[] = {
    {Py_tp_dealloc, indices_dealloc},
    {Py_tp_methods, indices_methods},
    {Py_bf_getbuffer, indices_buffer},
    {Py_mp_length, indices_length},
    {0, NULL},
};

static PyType_Spec indices_spec = {
    .name = "tarn._tarn._Indices",
    .basicsize = sizeof(indices),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = indices_slots,
};

PyDoc_STRVAR(indices_doc, "indices(data)\n--\n\nMakes a list of sample numbers from "
                          "8-byte integers in native byte order.");

static PyObject *make_indices(PyObject *module, PyObject *object)
{
    Py_buffer buffer;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_SIMPLE) != 0) return NULL;
    size_t count = (size_t)buffer.len / sizeof(uint64_t);
    uint64_t *numbers = PyMem_Malloc((size_t)buffer.len + sizeof *numbers);
    if (numbers) memcpy(numbers, buffer.buf, count * sizeof *numbers);
    PyBuffer_Release(&buffer);
    if (!numbers) return PyErr_NoMemory();
    return tarnpy_indices_new(tarnpy_module_state(module), numbers, count);
}

PyDoc_STRVAR(positions_doc, "positions(indices, count)\n--\n\nMakes a list of positions "
                            "among count samples; negative ones count from the end.");

static PyObject *make_positions(PyObject *module, PyObject *args)
{
    PyObject *object;
    unsigned long long count;
    uint64_t *numbers;
    size_t n;
    if (!PyArg_ParseTuple(args, "OK:positions", &object, &count) ||
        tarnpy_indices(object, count, &numbers, &n) != 0)
        return NULL;
    return tarnpy_indices_new(tarnpy_module_state(module), numbers, n);
}

/* --- Order ------------------------------------------------------------------------- */

typedef struct order {
    PyObject_HEAD tarnpy_state *state;
    tarn_order *order;
    uint64_t length;
} order;

static void order_dealloc(PyObject *object)
{
    order *self = (order *)object;
    tarn_order_close(self->order);
    tarnpy_free(object);
}

/* Copies the elements if they are already contiguous 8-byte elements of this type. */
static bool copied(PyObject *object, char letter, void **out, size_t *out_count)
{
    Py_buffer buffer;
    tarn_array array;
    if (tarnpy_array_from(object, &buffer, &array) != 0) {
        PyErr_Clear();
        return false;
    }
    bool same = array.ndim == 1 && array.dtype.size == 8 && array.dtype.order == '<' &&
                (array.dtype.kind == letter) && tarn_array_is_packed(&array);
    if (same) {
        *out_count = array.shape[0];
        *out = PyMem_Malloc((size_t)buffer.len + 8);
        if (*out)
            memcpy(*out, buffer.buf, (size_t)buffer.len);
        else
            PyErr_NoMemory();
    }
    PyBuffer_Release(&buffer);
    return same;
}

/* Converts any sequence or array of numbers to 8-byte elements: 'u' unsigned, 'i' signed,
 * 'f' double. */
static void *numbers_of(PyObject *object, char letter, size_t *out_count)
{
    void *copy = NULL;
    if (PyObject_CheckBuffer(object) && copied(object, letter, &copy, out_count))
        return copy;
    PyObject *list = PySequence_List(object);
    if (!list) return NULL;
    size_t count = (size_t)PyList_Size(list);
    union {
        uint64_t u;
        int64_t i;
        double f;
    } *out = PyMem_Calloc(count + 1, sizeof *out);
    if (!out) PyErr_NoMemory();
    for (size_t i = 0; out && i < count && !PyErr_Occurred(); i++) {
        PyObject *item = PyList_GetItem(list, (Py_ssize_t)i);
        PyObject *number = letter == 'f' ? PyNumber_Float(item) : PyNumber_Index(item);
        if (!number) break;
        if (letter == 'f')
            out[i].f = PyFloat_AsDouble(number);
        else if (letter == 'i')
            out[i].i = PyLong_AsLongLong(number);
        else
            out[i].u = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
    }
    Py_DECREF(list);
    *out_count = count;
    if (!PyErr_Occurred()) return out;
    PyMem_Free(out);
    return NULL;
}

static int take_array(tarnpy_state *state, const char *name, void **slot,
                      PyObject *object, char letter, uint64_t wanted, size_t *out_count)
{
    if (!object || object == Py_None) return 0;
    *slot = numbers_of(object, letter, out_count);
    if (!*slot && (PyErr_ExceptionMatches(PyExc_TypeError) ||
                   PyErr_ExceptionMatches(PyExc_ValueError) ||
                   PyErr_ExceptionMatches(PyExc_OverflowError))) {
        PyErr_Clear();
        tarnpy_usage(state, "%s must be a list or a one-dimensional array of %s", name,
                     letter == 'f'   ? "numbers"
                     : letter == 'i' ? "integers"
                                     : "integers from 0 on");
    }
    if (!*slot) return -1;
    if (wanted == UINT64_MAX || *out_count == wanted) return 0;
    tarnpy_usage(state, "%s: %zu numbers for %llu samples", name, *out_count,
                 (unsigned long long)wanted);
    return -1;
}

int tarnpy_uneven(tarnpy_state *state, const char *name, tarn_uneven *out)
{
    static const char *const names[] = {"keep", "drop", "pad"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (tarn_uneven)i;
        return 0;
    }
    tarnpy_usage(state, "uneven must be \"keep\", \"drop\" or \"pad\", not \"%s\"", name);
    return -1;
}

static int take_kind(tarnpy_state *state, const char *kind, tarn_order_options *o)
{
    tarn_error err;
    if (tarn_order_kind_find(kind, &o->kind, &err) == TARN_OK) return 0;
    err.code = TARN_ERR_USAGE;
    tarnpy_raise(state, &err);
    return -1;
}

/* A seed can be any integer; the library takes its magnitude and its sign. */
static int take_seed(PyObject *seed, tarn_order_options *o)
{
    PyObject *zero = PyLong_FromLong(0), *whole = PyNumber_Index(seed), *size = NULL;
    int negative = zero && whole ? PyObject_RichCompareBool(whole, zero, Py_LT) : -1;
    if (negative >= 0) size = PyNumber_Absolute(whole);
    if (size) o->seed = PyLong_AsUnsignedLongLongMask(size);
    o->negative = negative > 0;
    Py_XDECREF(zero);
    Py_XDECREF(whole);
    Py_XDECREF(size);
    return PyErr_Occurred() ? -1 : 0;
}

int tarnpy_order_options(tarnpy_state *state, uint64_t count, PyObject *kw,
                         tarnpy_order_args *out)
{
    static const char *const names[] = {
        "kind",    "seed",    "epoch",   "rank",    "world_size", "uneven", "draws",
        "block",   "window",  "chunk",   "pool",    "rounds",     "outer",  "mix",
        "buckets", "weights", "classes", "lengths", NULL};
    tarn_order_options *o = &out->options;
    const char *kind = "identity", *uneven = "keep";
    PyObject *seed = NULL, *buckets = NULL, *weights = NULL, *classes = NULL,
             *lengths = NULL;
    *out = (tarnpy_order_args){.options = TARN_ORDER_OPTIONS_INIT};
    PyObject *nothing = PyTuple_New(0);
    if (!nothing) return -1;
    int parsed = PyArg_ParseTupleAndKeywords(
        nothing, kw, "|$sOO&O&O&sO&O&O&O&O&O&O&O&OOOO:order", TARNPY_KEYWORDS(names),
        &kind, &seed, tarnpy_number, &o->epoch, tarnpy_number, &o->rank, tarnpy_number,
        &o->world_size, &uneven, tarnpy_number, &o->draws, tarnpy_number, &o->block,
        tarnpy_number, &o->window, tarnpy_number, &o->chunk, tarnpy_number, &o->pool,
        tarnpy_number, &o->rounds, tarnpy_number, &o->outer, tarnpy_number, &o->mix,
        &buckets, &weights, &classes, &lengths);
    Py_DECREF(nothing);
    size_t n = 0;
    if (parsed && take_kind(state, kind, o) == 0 &&
        tarnpy_uneven(state, uneven, &o->uneven) == 0 &&
        (!seed || take_seed(seed, o) == 0) &&
        take_array(state, "buckets", &out->arrays[0], buckets, 'u', UINT64_MAX,
                   &o->n_buckets) == 0 &&
        take_array(state, "weights", &out->arrays[1], weights, 'f', count, &n) == 0 &&
        take_array(state, "classes", &out->arrays[2], classes, 'i', count, &n) == 0 &&
        take_array(state, "lengths", &out->arrays[3], lengths, 'u', count, &n) == 0) {
        o->buckets = out->arrays[0];
        o->weights = out->arrays[1];
        o->classes = out->arrays[2];
        o->lengths = out->arrays[3];
        return 0;
    }
    tarnpy_order_args_free(out);
    return -1;
}

void tarnpy_order_args_free(tarnpy_order_args *args)
{
    for (int i = 0; i < 4; i++)
        PyMem_Free(args->arrays[i]);
    memset(args->arrays, 0, sizeof args->arrays);
}

static PyObject *order_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    uint64_t count;
    tarn_error err;
    tarn_status status;
    tarnpy_order_args given;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTuple(args, "O&:Order", tarnpy_number, &count) ||
        tarnpy_order_options(state, count, kw, &given) != 0)
        return NULL;
    order *self = TARNPY_NEW(order, type);
    if (!self) {
        tarnpy_order_args_free(&given);
        return NULL;
    }
    self->state = state;
    TARNPY_UNLOCKED(status, tarn_order_open(count, &given.options, &self->order, &err));
    tarnpy_order_args_free(&given);
    tarn_order_info info;
    tarn_order_info_get(self->order, &info, sizeof info);
    self->length = info.length;
    if (status == TARN_OK) return (PyObject *)self;
    Py_DECREF(self);
    return tarnpy_raise(state, &err);
}

static Py_ssize_t order_length(PyObject *self)
{
    return (Py_ssize_t)((order *)self)->length;
}

static PyObject *order_item(PyObject *object, Py_ssize_t i)
{
    order *self = (order *)object;
    uint64_t sample;
    tarn_error err;
    if (i < 0 || (uint64_t)i >= self->length)
        return PyErr_Format(PyExc_IndexError, "position %zd is out of range for %zd", i,
                            order_length(object));
    if (tarn_order_fill(self->order, (uint64_t)i, 1, &sample, &err) != TARN_OK)
        return tarnpy_raise(self->state, &err);
    return PyLong_FromUnsignedLongLong(sample);
}

PyDoc_STRVAR(fill_doc, "fill(start, count)\n--\n\nReturns the numbers of count samples "
                       "from position start on, as an object with the buffer protocol.");

static PyObject *order_fill(PyObject *object, PyObject *args)
{
    order *self = (order *)object;
    unsigned long long from, count;
    tarn_error err = {.code = TARN_ERR_MEMORY};
    tarn_status status;
    if (!PyArg_ParseTuple(args, "KK:fill", &from, &count)) return NULL;
    uint64_t length = self->length;
    if (from > length || count > length - from)
        return PyErr_Format(PyExc_IndexError,
                            "positions %llu to %llu are out of range for %llu", from,
                            from + count, (unsigned long long)length);
    uint64_t *numbers = PyMem_Malloc((count + 1) * sizeof *numbers);
    if (!numbers) return PyErr_NoMemory();
    TARNPY_UNLOCKED(status, tarn_order_fill(self->order, from, count, numbers, &err));
    if (status == TARN_OK) return tarnpy_indices_new(self->state, numbers, count);
    PyMem_Free(numbers);
    return tarnpy_raise(self->state, &err);
}

static PyObject *order_info(PyObject *object, PyObject *unused)
{
    tarn_order_info info;
    tarn_order_info_get(((order *)object)->order, &info, sizeof info);
    return Py_BuildValue(
        "{sssKsKsKsKsKsKsK}", "kind", info.name, "count", (unsigned long long)info.count,
        "seed", (unsigned long long)info.seed, "epoch", (unsigned long long)info.epoch,
        "total", (unsigned long long)info.total, "start", (unsigned long long)info.start,
        "length", (unsigned long long)info.length, "batches",
        (unsigned long long)info.batches);
}

static PyMethodDef order_methods[] = {
    {"fill", order_fill, METH_VARARGS, fill_doc},
    {"info", order_info, METH_NOARGS,
     "info()\n--\n\nReturns the properties of the order as a dict."},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(order_doc, "The order in which samples come; see tarn.Dataset.order.");

static PyType_Slot order_slots[] = {
    {Py_tp_new, order_new},
    {Py_tp_dealloc, order_dealloc},
    {Py_tp_methods, order_methods},
    {Py_tp_doc, (void *)(uintptr_t)order_doc},
    {Py_sq_length, order_length},
    {Py_sq_item, order_item},
    {0, NULL},
};

static PyType_Spec order_spec = {
    .name = "tarn._tarn.Order",
    .basicsize = sizeof(order),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = order_slots,
};

/* --- _Views ------------------------------------------------------------------------ */

typedef struct views {
    PyObject_HEAD tarnpy_state *state;
    tarn_views *views;
} views;

static void views_dealloc(PyObject *self)
{
    tarn_views_free(((views *)self)->views);
    tarnpy_free(self);
}

static PyType_Slot views_slots[] = {
    {Py_tp_dealloc, views_dealloc},
    {0, NULL},
};

static PyType_Spec views_spec = {
    .name = "tarn._tarn._Views",
    .basicsize = sizeof(views),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = views_slots,
};

int tarnpy_views_choose(PyObject *object, uint64_t epoch, uint64_t sample, uint32_t *out)
{
    views *self = (views *)object;
    tarn_error err;
    if (tarn_views_choose(self->views, epoch, sample, out, &err) == TARN_OK) return 0;
    tarnpy_raise_key(self->state, &err);
    return -1;
}

PyDoc_STRVAR(views_doc, "views(handle, templates, replace, seed)\n--\n\nChooses the "
                        "fields for templates, by sample and epoch.");

static PyObject *make_views(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    tarn_views_options o = TARN_VIEWS_OPTIONS_INIT;
    PyObject *handle, *templates;
    int replace;
    tarnpy_strings list;
    tarn_error err;
    if (!PyArg_ParseTuple(args, "O!OpK:views", state->handle_type, &handle, &templates,
                          &replace, &o.seed) ||
        tarnpy_strings_get(templates, &list) != 0)
        return NULL;
    o.replace = replace;
    views *self = TARNPY_NEW(views, state->views_type);
    if (self) {
        self->state = state;
        if (tarn_views_new(((tarnpy_handle *)handle)->set, list.items, list.count, &o,
                           &self->views, &err) != TARN_OK) {
            tarnpy_raise(state, &err);
            Py_CLEAR(self);
        }
    }
    tarnpy_strings_free(&list);
    return (PyObject *)self;
}

static PyMethodDef functions[] = {
    {"indices", make_indices, METH_O, indices_doc},
    {"positions", make_positions, METH_VARARGS, positions_doc},
    {"views", make_views, METH_VARARGS, views_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_order(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &indices_spec, &state->indices_type) != 0 ||
        tarnpy_add_type(module, &order_spec, &state->order_type) != 0 ||
        tarnpy_add_type(module, &views_spec, &state->views_type) != 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
