/* loader_batch.c: a batch of the native loader as a dict. Arrays are not copied; other
 * values become objects, one for each sample. */
#include "loader.h"

#include <string.h>
#include <strings.h>

enum {
    CACHE_LINE = 64,
    PREFETCH_BYTES =
        4096,           /* of one value; the processor itself sees longer ones coming */
    PREFETCH_AHEAD = 3, /* values */
    TOGETHER = 64       /* values that are made and then filled */
};

/* Keeps a batch alive for its arrays. */
typedef struct loaded {
    PyObject_HEAD tarn_batch *batch;
    PyObject *handle; /* owner of the files that views point into */
} loaded;

static void loaded_dealloc(PyObject *object)
{
    loaded *self = (loaded *)object;
    tarn_batch_release(self->batch);
    Py_XDECREF(self->handle);
    tarnpy_free(object);
}

static PyType_Slot loaded_slots[] = {
    {Py_tp_dealloc, loaded_dealloc},
    {0, NULL},
};

static PyType_Spec loaded_spec = {
    .name = "tarn._tarn._Loaded",
    .basicsize = sizeof(loaded),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = loaded_slots,
};

/* The array of a column; count is its first length: samples, or rows of a ragged one. */
static PyObject *column_array(tarnpy_loader *self, size_t count, const tarn_column *c,
                              PyObject *owner)
{
    uint64_t shape[TARN_MAX_DIMS];
    tarn_array array;
    tarn_error err;
    shape[0] = count;
    if (c->ndim + 1 > TARN_MAX_DIMS) {
        tarnpy_usage(self->state, "field %s has too many dimensions for a batch",
                     c->field);
        return NULL;
    }
    if (c->ndim) memcpy(shape + 1, c->shape, c->ndim * sizeof *shape);
    if (tarn_array_init(&array, c->data, c->dtype, c->ndim + 1, shape, &err) != TARN_OK)
        return tarnpy_raise(self->state, &err);
    return tarnpy_ndarray(self->state, &array, true, owner);
}

/* (values, offsets) */
static PyObject *column_ragged(tarnpy_loader *self, const tarn_batch *batch,
                               const tarn_column *c, PyObject *owner)
{
    tarn_column offsets = {.field = c->field, .dtype = {'<', 'i', 8}};
    offsets.data = (unsigned char *)(uintptr_t)c->offsets;
    PyObject *values = column_array(self, c->offsets[batch->count], c, owner);
    PyObject *ends =
        values ? column_array(self, batch->count + 1, &offsets, owner) : NULL;
    PyObject *pair = ends ? PyTuple_Pack(2, values, ends) : NULL;
    Py_XDECREF(values);
    Py_XDECREF(ends);
    return pair;
}

/* --- Values that are not arrays --------------------------------------------------- */

const char *const tarnpy_eaches[] = {"bytes", "text", "json", "decode", "form", NULL};

/* By the name of a field in the file. */
static tarnpy_each tarnpy_each_by_name(const char *name)
{
    static const struct {
        const char *extension;
        tarnpy_each each;
    } known[] = {{"htm", TARNPY_EACH_TEXT},        {"html", TARNPY_EACH_TEXT},
                 {"text", TARNPY_EACH_TEXT},       {"txt", TARNPY_EACH_TEXT},
                 {"transcript", TARNPY_EACH_TEXT}, {"jsn", TARNPY_EACH_JSON},
                 {"json", TARNPY_EACH_JSON},       {"npz", TARNPY_EACH_DECODE},
                 {"tb", TARNPY_EACH_DECODE},       {"ten", TARNPY_EACH_DECODE},
                 {"tenbin", TARNPY_EACH_DECODE},   {"npy", TARNPY_EACH_ARRAY},
                 {"rle", TARNPY_EACH_ARRAY}};
    size_t len = strlen(name);
    for (;;) { /* compression is not part of the type */
        const char *dot = memrchr(name, '.', len);
        const char *last = dot ? dot + 1 : name;
        size_t n = len - (size_t)(last - name);
        bool packed = (n == 2 && strncasecmp(last, "gz", n) == 0) ||
                      (n == 3 && strncasecmp(last, "zst", n) == 0);
        for (size_t i = 0; !packed && i < sizeof known / sizeof *known; i++)
            if (strlen(known[i].extension) == n &&
                strncasecmp(last, known[i].extension, n) == 0)
                return known[i].each;
        if (!packed || !dot) return TARNPY_EACH_BYTES;
        len = (size_t)(dot - name);
    }
}

/* *name is set to the name of the field in the file, if that decides. */
static tarnpy_each each_by_form(tarnpy_loader *self, const tarnpy_column *how_to,
                                uint64_t sample, const char **name)
{
    tarn_field_form form;
    tarn_error err;
    tarn_dataset *base = tarn_dataset_unordered(((tarnpy_handle *)self->handle)->set);
    if (tarn_dataset_form(base, sample, how_to->field, &form, sizeof form, &err) !=
        TARN_OK)
        return TARNPY_EACH_BYTES;
    if (form.form == TARN_FORM_NAMED) return tarnpy_each_by_name(*name = form.codec);
    if (form.form == TARN_FORM_TEXT) return TARNPY_EACH_TEXT;
    if (form.form == TARN_FORM_JSON) return TARNPY_EACH_JSON;
    return form.form == TARN_FORM_BYTES ? TARNPY_EACH_BYTES : TARNPY_EACH_ARRAY;
}

/* The bytes of one sample as an object. */
static PyObject *piece(tarnpy_loader *self, const tarnpy_column *how_to,
                       const tarn_batch *batch, size_t i, const unsigned char *data,
                       size_t size)
{
    const char *stored = PyUnicode_AsUTF8AndSize(how_to->name, NULL);
    tarnpy_each how = how_to->each == TARNPY_EACH_FORM
                          ? each_by_form(self, how_to, batch->samples[i], &stored)
                          : how_to->each;
    if (how == TARNPY_EACH_TEXT) return tarnpy_text((const char *)data, size);
    if (how == TARNPY_EACH_JSON) {
        tarn_value value = {.kind = TARN_VALUE_JSON, .data = data, .size = size};
        return tarnpy_value(self->state, &value, NULL, NULL);
    }
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    if (!bytes || how == TARNPY_EACH_BYTES || how == TARNPY_EACH_ARRAY) return bytes;
    PyObject *memory = PyMemoryView_FromObject(bytes);
    PyObject *result =
        stored && memory ? tarnpy_decode_memory(self->state, stored, memory, NULL) : NULL;
    Py_XDECREF(memory);
    Py_DECREF(bytes);
    return result;
}

/* One value of a column in which not all are arrays of one shape. Alternatives may have
 * given it a value that is not an array: the column then has its bytes. */
static PyObject *piece_array(tarnpy_loader *self, const tarnpy_column *how_to,
                             const tarn_batch *batch, size_t i, const tarn_array *a,
                             PyObject *owner)
{
    const char *stored;
    bool bytes = a->ndim == 1 && a->dtype.kind == 'u' && a->dtype.size == 1;
    if (!bytes || how_to->each != TARNPY_EACH_FORM ||
        each_by_form(self, how_to, batch->samples[i], &stored) == TARNPY_EACH_ARRAY)
        return tarnpy_ndarray(self->state, a, true, owner);
    return piece(self, how_to, batch, i, a->data, (size_t)a->shape[0]);
}

/* A view that the batch keeps alive, as a memoryview. */
static PyObject *piece_view(tarnpy_loader *self, const tarn_view *view, PyObject *owner)
{
    tarn_view borrowed = {view->data, view->size, NULL};
    return tarnpy_view(self->state, &borrowed, owner);
}

/* Requests a value that is copied soon: another core has written it, so it arrives late.
 */
static void prefetch_piece(const tarn_column *c, size_t i)
{
    const unsigned char *data = c->data + c->offsets[i];
    uint64_t size = c->offsets[i + 1] - c->offsets[i];
    for (uint64_t at = 0; at < size && at < PREFETCH_BYTES; at += CACHE_LINE)
        __builtin_prefetch(data + at);
}

/* Replaces items from to end of a list by bytes objects. Objects are made first and
 * filled afterwards: the allocator waits for its own memory, and copies in between would
 * make it wait for theirs as well. */
static int fill_bytes(PyObject *list, const tarn_column *c, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++) {
        Py_ssize_t size = (Py_ssize_t)(c->offsets[i + 1] - c->offsets[i]);
        PyObject *item = PyBytes_FromStringAndSize(NULL, size);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) return -1;
    }
    for (size_t i = from; i < end; i++) {
        if (i + PREFETCH_AHEAD < end) prefetch_piece(c, i + PREFETCH_AHEAD);
        char *to = PyBytes_AsString(PyList_GetItem(list, (Py_ssize_t)i));
        memcpy(to, c->data + c->offsets[i], c->offsets[i + 1] - c->offsets[i]);
    }
    return 0;
}

static PyObject *bytes_list(const tarn_column *c, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t from = 0; list && from < count; from += TOGETHER) {
        size_t end = count - from < TOGETHER ? count : from + TOGETHER;
        if (fill_bytes(list, c, from, end) != 0) Py_CLEAR(list);
    }
    return list;
}

/* Whether the values of a column of bytes are made where they are used. */
static bool stays_packed(const tarnpy_loader *self, const tarn_column *c,
                         const tarnpy_column *how_to)
{
    return self->memory && c->kind == TARN_COLUMN_BYTES &&
           (how_to->each == TARNPY_EACH_BYTES || how_to->each == TARNPY_EACH_TEXT);
}

static PyObject *column_list(tarnpy_loader *self, const tarn_batch *batch,
                             const tarn_column *c, const tarnpy_column *how_to,
                             PyObject *owner)
{
    if (stays_packed(self, c, how_to))
        return tarnpy_pieces_new(self->state, c->data, c->offsets, batch->count,
                                 how_to->each == TARNPY_EACH_TEXT ? TARNPY_PIECES_TEXT
                                                                  : TARNPY_PIECES_BYTES,
                                 owner);
    if (c->kind == TARN_COLUMN_BYTES && how_to->each == TARNPY_EACH_BYTES)
        return bytes_list(c, batch->count);
    PyObject *list = PyList_New((Py_ssize_t)batch->count);
    for (size_t i = 0; list && i < batch->count; i++) {
        PyObject *item;
        if (c->kind == TARN_COLUMN_ARRAYS)
            item = piece_array(self, how_to, batch, i, &c->arrays[i], owner);
        else if (c->kind == TARN_COLUMN_VIEWS)
            item = piece_view(self, &c->views[i], owner);
        else
            item = piece(self, how_to, batch, i, c->data + c->offsets[i],
                         (size_t)(c->offsets[i + 1] - c->offsets[i]));
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) Py_CLEAR(list);
    }
    return list;
}

/* --- Batches ----------------------------------------------------------------------- */

static PyObject *key_list(tarnpy_loader *self, const tarn_batch *batch, PyObject *owner)
{
    if (self->memory)
        return tarnpy_pieces_new(self->state, batch->keys, batch->key_offsets,
                                 batch->count, TARNPY_PIECES_KEYS, owner);
    PyObject *list = PyList_New((Py_ssize_t)batch->count);
    for (size_t i = 0; list && i < batch->count; i++) {
        uint64_t from = batch->key_offsets[i], end = batch->key_offsets[i + 1] - 1;
        PyObject *key = tarnpy_text(batch->keys + from, (size_t)(end - from));
        if (!key || PyList_SetItem(list, (Py_ssize_t)i, key) != 0) Py_CLEAR(list);
    }
    return list;
}

/* An array.array, which takes less time than a list. */
static PyObject *number_array(const uint64_t *numbers, size_t count)
{
    PyObject *module = PyImport_ImportModule("array");
    PyObject *array =
        module ? PyObject_CallMethod(module, "array", "sy#", "Q", (const char *)numbers,
                                     (Py_ssize_t)(count * sizeof *numbers))
               : NULL;
    Py_XDECREF(module);
    return array;
}

/* What functions need to know of the samples: (their numbers, their places in the batch
 * and their positions in the epoch, how many there were before some were left out, the
 * epoch). */
static int put_numbers(PyObject *dict, const tarn_batch *batch)
{
    uint64_t *places = PyMem_Calloc(2 * batch->count + 1, sizeof *places);
    if (!places) {
        PyErr_NoMemory();
        return -1;
    }
    size_t planned = tarn_batch_places(batch, places, places + batch->count);
    PyObject *about =
        Py_BuildValue("NNNnK", number_array(batch->samples, batch->count),
                      number_array(places, batch->count),
                      number_array(places + batch->count, batch->count),
                      (Py_ssize_t)planned, (unsigned long long)batch->epoch);
    PyMem_Free(places);
    PyObject *name = PyUnicode_FromString("__about__");
    int failed = name ? tarnpy_put(dict, name, about) : -1;
    if (!name) Py_XDECREF(about);
    Py_XDECREF(name);
    return failed;
}

/* Masks and lengths follow the fields. */
static int put_column(tarnpy_loader *self, PyObject *dict, const tarn_batch *batch,
                      size_t i, PyObject *owner)
{
    const tarn_column *c = &batch->columns[i];
    PyObject *value;
    if (c->kind == TARN_COLUMN_ARRAY)
        value = column_array(self, batch->count, c, owner);
    else if (c->kind == TARN_COLUMN_RAGGED)
        value = column_ragged(self, batch, c, owner);
    else
        value = column_list(self, batch, c, &self->columns[i], owner);
    if (i < self->n_columns) return tarnpy_put(dict, self->columns[i].name, value);
    PyObject *name = value ? PyUnicode_FromString(c->field) : NULL;
    if (!name) {
        Py_XDECREF(value);
        return -1;
    }
    int failed = tarnpy_put(dict, name, value);
    Py_DECREF(name);
    return failed;
}

PyObject *tarnpy_loader_batch(tarnpy_loader *self, tarn_batch *batch)
{
    loaded *owner = TARNPY_NEW(loaded, self->state->loaded_type);
    if (!owner) {
        tarn_batch_release(batch);
        return NULL;
    }
    owner->batch = batch;
    Py_INCREF(self->handle);
    owner->handle = self->handle;
    PyObject *dict = PyDict_New();
    int failed = dict ? 0 : -1;
    if (!failed && batch->keys)
        failed = tarnpy_put(dict, self->state->key_name,
                            key_list(self, batch, (PyObject *)owner));
    if (!failed && self->numbers) failed = put_numbers(dict, batch);
    for (size_t i = 0; !failed && i < batch->n_columns; i++)
        failed = put_column(self, dict, batch, i, (PyObject *)owner);
    Py_DECREF(owner);
    if (!failed) return dict;
    Py_XDECREF(dict);
    return NULL;
}

PyDoc_STRVAR(loaded_doc, "loaded_as(name)\n--\n\nReturns how a loader converts the bytes "
                         "of a field with this name, if it is not an array.");

static PyObject *loaded_as(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    tarnpy_each how = tarnpy_each_by_name(text);
    return PyUnicode_FromString(
        tarnpy_eaches[how == TARNPY_EACH_ARRAY ? TARNPY_EACH_BYTES : how]);
}

static PyMethodDef functions[] = {{"loaded_as", loaded_as, METH_O, loaded_doc},
                                  {NULL, NULL, 0, NULL}};

int tarnpy_add_loader_batch(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &loaded_spec, &state->loaded_type) != 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
