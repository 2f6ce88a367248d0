/* fold.c: indexes (_Index) and folds (_Fold) as they are: rows, and bytes by row. This is
 * what the row arrays of tarn.itar are made of; samples are read through dataset.c. */
#include "dataset.h"

#include <stdlib.h>
#include <string.h>

/* --- _Index ------------------------------------------------------------------------- */

typedef struct index_object {
    PyObject_HEAD tarnpy_state *state;
    const tarn_index *index;
    tarn_index *owned; /* the same, or NULL if owner has it */
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

static unsigned char *put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *at++ = (unsigned char)(value >> (8 * i));
    return at;
}

/* As docs/formats/taridx.md has them. */
static tarn_status pack_rows(const tarn_index *index, uint64_t count, unsigned char *out,
                             tarn_error *err)
{
    tarn_row row;
    for (uint64_t i = 0; i < count; i++) {
        TARN_TRY(tarn_index_row(index, i, &row, err));
        out = put(out, row.shard, 2);
        out = put(out, row.offset, 8);
        out = put(out, row.size, 8);
        out = put(out, row.field, 2);
        out = put(out, row.collision, 4);
        out = put(out, row.keyhash, 8);
    }
    return TARN_OK;
}

PyDoc_STRVAR(rows_doc, "rows()\n--\n\nAll rows, 32 bytes each, as the file has them.");

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

PyDoc_STRVAR(save_doc, "save(path)\n--\n\nWrites index and sums of what was built.");

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
    {"info", index_info, METH_NOARGS, "info()\n--\n\nCounts, as a dict."},
    {"fields", index_fields, METH_NOARGS, "fields()\n--\n\nFields, by their numbers."},
    {"crashes", index_crashes, METH_NOARGS,
     "crashes()\n--\n\nKeys whose hash another key had before, from number 1 on."},
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

PyDoc_STRVAR(build_doc,
             "build_index(shards, path=None)\n--\n\nScans shards; with a path the index "
             "and its sums are written there.");

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

/* --- _Fold -------------------------------------------------------------------------- */

typedef struct fold_object {
    PyObject_HEAD tarnpy_state *state;
    tarn_fold *fold;
} fold_object;

static void fold_dealloc(PyObject *object)
{
    tarn_fold *fold = ((fold_object *)object)->fold;
    if (fold) {
        Py_BEGIN_ALLOW_THREADS;
        tarn_fold_close(fold);
        Py_END_ALLOW_THREADS;
    }
    tarnpy_free(object);
}

static PyObject *fold_index(PyObject *object, PyObject *unused)
{
    fold_object *self = (fold_object *)object;
    return index_of(self->state, tarn_fold_index(self->fold), NULL, object);
}

/* Row numbers that grow as keys are found. */
typedef struct found {
    uint64_t *rows;
    size_t count, capacity;
    bool *there; /* one for each key */
} found;

static int add_rows(found *out, const tarn_sample *sample)
{
    if (out->count + sample->count > out->capacity) {
        size_t more = 2 * (out->count + sample->count);
        uint64_t *rows = realloc(out->rows, more * sizeof *rows);
        if (!rows) return -1;
        out->rows = rows;
        out->capacity = more;
    }
    for (uint32_t k = 0; k < sample->count; k++)
        out->rows[out->count++] = tarn_sample_row(sample, k);
    return 0;
}

static tarn_status find_all(tarn_fold *fold, const tarnpy_strings *keys, found *out,
                            tarn_error *err)
{
    for (size_t i = 0; i < keys->count; i++) {
        tarn_sample sample;
        tarn_status status = tarn_fold_find(fold, keys->items[i], &sample, err);
        out->there[i] = status == TARN_OK;
        if (status == TARN_ERR_NO_SAMPLE) continue;
        TARN_TRY(status);
        if (add_rows(out, &sample) == 0) continue;
        *err = (tarn_error){.code = TARN_ERR_MEMORY};
        return TARN_ERR_MEMORY;
    }
    return TARN_OK;
}

static PyObject *told(tarnpy_state *state, const found *out, size_t n_keys)
{
    uint64_t *rows = PyMem_Malloc((out->count + 1) * sizeof *rows);
    PyObject *there = rows ? PyList_New((Py_ssize_t)n_keys) : PyErr_NoMemory();
    for (size_t i = 0; there && i < n_keys; i++)
        if (PyList_SetItem(there, (Py_ssize_t)i, PyBool_FromLong(out->there[i])) != 0)
            Py_CLEAR(there);
    if (!there) {
        PyMem_Free(rows);
        return NULL;
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a list, so rows. */
    if (out->count) memcpy(rows, out->rows, out->count * sizeof *rows);
    PyObject *numbers = tarnpy_indices_new(state, rows, out->count);
    if (numbers) return Py_BuildValue("NN", numbers, there);
    Py_DECREF(there);
    return NULL;
}

PyDoc_STRVAR(find_doc, "find(keys)\n--\n\nThe rows of the samples with these keys, by "
                       "name and not by hash alone, and whether each key is there.");

static PyObject *fold_find(PyObject *object, PyObject *wanted)
{
    fold_object *self = (fold_object *)object;
    tarnpy_strings keys;
    found out = {NULL, 0, 0, NULL};
    tarn_error err;
    tarn_status status;
    PyObject *result = NULL;
    if (tarnpy_strings_get(wanted, &keys) != 0) return NULL;
    out.there = PyMem_Calloc(keys.count + 1, sizeof *out.there);
    if (out.there) {
        TARNPY_UNLOCKED(status, find_all(self->fold, &keys, &out, &err));
        result = status == TARN_OK ? told(self->state, &out, keys.count)
                                   : tarnpy_raise(self->state, &err);
    } else {
        PyErr_NoMemory();
    }
    free(out.rows);
    PyMem_Free(out.there);
    tarnpy_strings_free(&keys);
    return result;
}

PyDoc_STRVAR(names_doc,
             "names(row)\n--\n\nThe key of a row's sample, and its member's name.");

static PyObject *fold_names(PyObject *object, PyObject *number)
{
    fold_object *self = (fold_object *)object;
    tarn_text key = {NULL, 0, 0}, member = {NULL, 0, 0};
    tarn_error err;
    tarn_status status;
    unsigned long long row = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) return NULL;
    TARNPY_UNLOCKED(status, tarn_fold_names(self->fold, row, &key, &member, &err));
    PyObject *result = status == TARN_OK
                           ? Py_BuildValue("NN", tarnpy_text(key.data, key.size),
                                           tarnpy_text(member.data, member.size))
                           : tarnpy_raise(self->state, &err);
    tarn_text_reset(&key);
    tarn_text_reset(&member);
    return result;
}

static PyMethodDef fold_methods[] = {
    {"index", fold_index, METH_NOARGS, "index()\n--\n\nIts index."},
    {"find", fold_find, METH_O, find_doc},
    {"names", fold_names, METH_O, names_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot fold_slots[] = {
    {Py_tp_dealloc, fold_dealloc},
    {Py_tp_methods, fold_methods},
    {0, NULL},
};

static PyType_Spec fold_spec = {
    .name = "tarn._tarn._Fold",
    .basicsize = sizeof(fold_object),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = fold_slots,
};

PyDoc_STRVAR(open_doc,
             "open_fold(path, shards, scan)\n--\n\nOpens the index at path and its "
             "shards; without one, and with scan, the shards are scanned.");

static PyObject *open_fold(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
    PyObject *path, *files, *result = NULL;
    tarnpy_strings shards;
    tarn_error err;
    tarn_status status;
    int scan;
    if (!PyArg_ParseTuple(args, "O&Op:open_fold", tarnpy_path, &path, &files, &scan))
        return NULL;
    fold_object *self = TARNPY_NEW(fold_object, state->fold_type);
    if (self && tarnpy_strings_get(files, &shards) == 0) {
        const char *name = PyBytes_AsString(path);
        self->state = state;
        o.shards = shards.items;
        o.scan = scan;
        TARNPY_UNLOCKED(status, tarn_fold_open(name, &o, &self->fold, &err));
        if (status == TARN_OK) {
            result = (PyObject *)self;
            Py_INCREF(result);
        } else {
            tarnpy_raise(state, &err);
        }
        tarnpy_strings_free(&shards);
    }
    Py_XDECREF((PyObject *)self);
    Py_DECREF(path);
    return result;
}

static PyMethodDef functions[] = {
    {"build_index", build_index, METH_VARARGS, build_doc},
    {"open_fold", open_fold, METH_VARARGS, open_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_fold(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &index_spec, &state->index_type) != 0 ||
        tarnpy_add_type(module, &fold_spec, &state->fold_type) != 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
