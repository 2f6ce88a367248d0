/* index.c: indexes (_Index), and the index rows of the samples of a handle. tarn.itar
 * builds its row arrays from them; samples are read through dataset.c. */
#include "dataset.h"

#include <stdlib.h>
#include <string.h>

/* --- _Index ------------------------------------------------------------------------- */

typedef struct index_object {
    PyObject_HEAD tarnpy_state *state;
    const tarn_index *index;
    tarn_index *owned; /* the same, or NULL if owner owns it */
    PyObject *owner;
} index_object;

static void index_dealloc(PyObject *object)
{
    index_object *self = (index_object *)object;
    tarn_index_free(self->owned);
    Py_XDECREF(self->owner);
    tarnpy_free(object);
}

static PyObject *index_of(tarnpy_state *state, const tarn_index *index, tarn_index *owned,
                          PyObject *owner)
{
    index_object *self = TARNPY_NEW(index_object, state->index_type);
    if (!self) {
        tarn_index_free(owned);
        return NULL;
    }
    self->state = state;
    self->index = index;
    self->owned = owned;
    Py_XINCREF(owner);
    self->owner = owner;
    return (PyObject *)self;
}

static PyObject *index_info(PyObject *object, PyObject *unused)
{
    tarn_index_info i;
    tarn_index_info_get(((index_object *)object)->index, &i, sizeof i);
    return Py_BuildValue("{sKsKsIsIsOsO}", "rows", (unsigned long long)i.rows, "samples",
                         (unsigned long long)i.samples, "fields", i.fields, "crashes",
                         i.collisions, "contiguous", i.contiguous ? Py_True : Py_False,
                         "has_sums", i.has_sums ? Py_True : Py_False);
}

static PyObject *index_names(PyObject *object, uint32_t first,
                             const char *(*name_of)(const tarn_index *, uint32_t))
{
    const char *name;
    PyObject *list = PyList_New(0);
    for (uint32_t i = first; list && (name = name_of(((index_object *)object)->index, i));
         i++) {
        PyObject *text = tarnpy_text(name, strlen(name));
        if (!text || PyList_Append(list, text) != 0) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *index_fields(PyObject *self, PyObject *unused)
{
    return index_names(self, 0, tarn_index_field);
}

static PyObject *index_crashes(PyObject *self, PyObject *unused)
{
    return index_names(self, 1, tarn_index_collision);
}

static unsigned char *put_number(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *at++ = (unsigned char)(value >> (8 * i));
    return at;
}

/* The row format is in docs/formats/taridx.md. */
static tarn_status pack_rows(const tarn_index *index, uint64_t count, unsigned char *out,
                             tarn_error *err)
{
    tarn_row row;
    for (uint64_t i = 0; i < count; i++) {
        TARN_TRY(tarn_index_row(index, i, &row, err));
        out = put_number(out, row.shard, 2);
        out = put_number(out, row.offset, 8);
        out = put_number(out, row.size, 8);
        out = put_number(out, row.field, 2);
        out = put_number(out, row.collision, 4);
        out = put_number(out, row.keyhash, 8);
    }
    return TARN_OK;
}

PyDoc_STRVAR(rows_doc,
             "rows()\n--\n\nReturns all rows, 32 bytes each, as stored in the file.");

static PyObject *index_rows(PyObject *object, PyObject *unused)
{
    index_object *self = (index_object *)object;
    tarn_index_info info;
    tarn_error err;
    tarn_status status;
    tarn_index_info_get(self->index, &info, sizeof info);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(info.rows * 32));
    if (!bytes) return NULL;
    unsigned char *out = (unsigned char *)PyBytes_AsString(bytes);
    TARNPY_UNLOCKED(status, pack_rows(self->index, info.rows, out, &err));
    if (status == TARN_OK) return bytes;
    Py_DECREF(bytes);
    return tarnpy_raise(self->state, &err);
}

PyDoc_STRVAR(save_doc, "save(path)\n--\n\nWrites the index that was built and its sums.");

static PyObject *index_save(PyObject *object, PyObject *args)
{
    index_object *self = (index_object *)object;
    PyObject *path;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "O&:save", tarnpy_path, &path)) return NULL;
    const char *name = PyBytes_AsString(path);
    TARNPY_UNLOCKED(status, tarn_index_save(self->index, name, &err));
    Py_DECREF(path);
    if (status != TARN_OK) return tarnpy_raise(self->state, &err);
    Py_RETURN_NONE;
}

static PyMethodDef index_methods[] = {
    {"info", index_info, METH_NOARGS, "info()\n--\n\nReturns counts as a dict."},
    {"fields", index_fields, METH_NOARGS,
     "fields()\n--\n\nReturns the fields in the order of their numbers."},
    {"crashes", index_crashes, METH_NOARGS,
     "crashes()\n--\n\nReturns the keys whose hash an earlier key has, from number 1 "
     "on."},
    {"rows", index_rows, METH_NOARGS, rows_doc},
    {"save", index_save, METH_VARARGS, save_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot index_slots[] = {
    {Py_tp_dealloc, index_dealloc},
    {Py_tp_methods, index_methods},
    {0, NULL},
};

static PyType_Spec index_spec = {
    .name = "tarn._tarn._Index",
    .basicsize = sizeof(index_object),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = index_slots,
};

PyDoc_STRVAR(build_doc, "build_index(shards, path=None)\n--\n\nScans shards; with a "
                        "path, writes the index and its sums there.");

static tarn_status build(const tarnpy_strings *shards, const char *path, tarn_index **out,
                         tarn_error *err)
{
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    return tarn_index_build(shards->items, shards->count, &o, path, out, NULL, 0, err);
}

static PyObject *build_index(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    PyObject *files, *path = NULL;
    tarnpy_strings shards = {NULL, 0, NULL};
    tarn_index *index = NULL;
    tarn_error err;
    tarn_status status;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O|O&:build_index", &files, tarnpy_path_or_none, &path))
        return NULL;
    if (tarnpy_strings_get(files, &shards) == 0) {
        const char *name = path ? PyBytes_AsString(path) : NULL;
        TARNPY_UNLOCKED(status, build(&shards, name, &index, &err));
        result = status == TARN_OK ? index_of(state, index, index, NULL)
                                   : tarnpy_raise(state, &err);
    }
    tarnpy_strings_free(&shards);
    Py_XDECREF(path);
    return result;
}

/* --- Rows of a handle --------------------------------------------------------------- */

PyObject *tarnpy_handle_index(PyObject *self, PyObject *unused)
{
    tarnpy_handle *handle = (tarnpy_handle *)self;
    tarn_fold_info info;
    tarn_error err;
    (void)unused;
    if (tarn_dataset_fold(handle->set, &info, sizeof info, &err) != TARN_OK)
        return tarnpy_raise(handle->state, &err);
    return index_of(handle->state, info.index, NULL, self);
}

/* Growing list of row numbers. */
typedef struct found {
    uint64_t *rows;
    size_t count, room;
    tarn_stored *members;
    size_t members_room;
} found;

static void *grown(void *items, size_t size, size_t count, tarn_error *err)
{
    void *more = realloc(items, 2 * count * size);
    if (!more) *err = (tarn_error){.code = TARN_ERR_MEMORY};
    return more;
}

static tarn_status add_sample(tarn_dataset *set, uint64_t sample, found *out,
                              tarn_error *err)
{
    size_t n;
    TARN_TRY(tarn_dataset_members(set, sample, out->members, out->members_room, &n, err));
    if (n > out->members_room) {
        tarn_stored *more = grown(out->members, sizeof *more, n, err);
        if (!more) return TARN_ERR_MEMORY;
        out->members = more;
        out->members_room = 2 * n;
        TARN_TRY(tarn_dataset_members(set, sample, out->members, 2 * n, &n, err));
    }
    if (out->count + n > out->room) {
        uint64_t *more = grown(out->rows, sizeof *more, out->count + n, err);
        if (!more) return TARN_ERR_MEMORY;
        out->rows = more;
        out->room = 2 * (out->count + n);
    }
    for (size_t k = 0; k < n; k++)
        out->rows[out->count++] = out->members[k].row;
    return TARN_OK;
}

static tarn_status find_rows(tarn_dataset *set, const tarnpy_strings *keys, found *out,
                             tarn_error *err)
{
    for (size_t i = 0; i < keys->count; i++) {
        uint64_t sample;
        tarn_status status =
            tarn_dataset_find(set, &keys->items[i], 1, &sample, NULL, err);
        if (status == TARN_ERR_NO_SAMPLE) continue;
        TARN_TRY(status);
        TARN_TRY(add_sample(set, sample, out, err));
    }
    return TARN_OK;
}

static PyObject *rows_list(tarnpy_state *state, const found *out)
{
    uint64_t *rows = PyMem_Malloc((out->count + 1) * sizeof *rows);
    if (!rows) return PyErr_NoMemory();
    if (out->count) memcpy(rows, out->rows, out->count * sizeof *rows);
    return tarnpy_indices_new(state, rows, out->count);
}

PyObject *tarnpy_handle_rows(PyObject *self, PyObject *wanted)
{
    tarnpy_handle *handle = (tarnpy_handle *)self;
    tarnpy_strings keys;
    found out = {NULL, 0, 0, NULL, 0};
    tarn_error err;
    tarn_status status;
    if (tarnpy_strings_get(wanted, &keys) != 0) return NULL;
    TARNPY_UNLOCKED(status, find_rows(handle->set, &keys, &out, &err));
    PyObject *result = status == TARN_OK ? rows_list(handle->state, &out)
                                         : tarnpy_raise(handle->state, &err);
    free(out.rows);
    free(out.members);
    tarnpy_strings_free(&keys);
    return result;
}

static PyMethodDef functions[] = {
    {"build_index", build_index, METH_VARARGS, build_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_index(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &index_spec, &state->index_type) != 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
