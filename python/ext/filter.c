/* filter.c: what a _Handle can be asked: keys, filters, what there is, mixes. */
#include "dataset.h"

#include <stdlib.h>
#include <string.h>

static tarn_dataset *set_of(PyObject *self)
{
    return ((tarnpy_handle *)self)->set;
}

static tarnpy_state *state_of(PyObject *self)
{
    return ((tarnpy_handle *)self)->state;
}

/* --- What it is -------------------------------------------------------------------- */

static PyObject *info(PyObject *self, PyObject *unused)
{
    static const char *const kinds[] = {"fold", "gnz", "iac", "mix"};
    tarn_dataset_info i;
    tarn_dataset_info_get(set_of(self), &i, sizeof i);
    return Py_BuildValue("{sssKsIsKsKsIsKsKsK}", "kind", kinds[i.kind], "samples",
                         (unsigned long long)i.samples, "fields", i.fields, "in_file",
                         (unsigned long long)i.in_file, "dropped",
                         (unsigned long long)i.dropped, "shards", i.shards, "epoch",
                         (unsigned long long)i.epoch, "rank", (unsigned long long)i.rank,
                         "world_size", (unsigned long long)i.world);
}

static PyObject *names_by(PyObject *self,
                          const char *(*name_of)(const tarn_dataset *, uint32_t))
{
    PyObject *list = PyList_New(0);
    const char *name;
    for (uint32_t i = 0; list && (name = name_of(set_of(self), i)); i++) {
        PyObject *text = tarnpy_text(name, strlen(name));
        if (text) PyUnicode_InternInPlace(&text);
        if (!text || PyList_Append(list, text) != 0) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *fields(PyObject *self, PyObject *unused)
{
    return names_by(self, tarn_dataset_field);
}

static PyObject *file_fields(PyObject *self, PyObject *unused)
{
    return names_by(self, tarn_dataset_file_field);
}

static PyObject *set_names(PyObject *self, const tarn_field_set *set)
{
    PyObject *names = PyTuple_New((Py_ssize_t)set->n_fields);
    for (size_t i = 0; names && i < set->n_fields; i++) {
        const char *name = tarn_dataset_file_field(set_of(self), set->fields[i]);
        PyObject *text = tarnpy_text(name, strlen(name));
        if (!text || PyTuple_SetItem(names, (Py_ssize_t)i, text) != 0) Py_CLEAR(names);
    }
    return names;
}

static PyObject *field_sets(PyObject *self, PyObject *unused)
{
    tarn_field_sets sets;
    tarn_error err;
    tarn_status status;
    TARNPY_UNLOCKED(status, tarn_dataset_field_sets(set_of(self), &sets, &err));
    if (status != TARN_OK) return tarnpy_raise(state_of(self), &err);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < sets.count; i++) {
        PyObject *names = set_names(self, &sets.sets[i]);
        PyObject *item =
            names ? Py_BuildValue("NKK", names, (unsigned long long)sets.sets[i].samples,
                                  (unsigned long long)sets.sets[i].twice)
                  : NULL;
        if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    tarn_field_sets_reset(&sets);
    return list;
}

/* --- Keys -------------------------------------------------------------------------- */

static PyObject *keys(PyObject *self, PyObject *numbers)
{
    uint64_t *wanted;
    size_t count;
    tarn_text text = {NULL, 0, 0};
    tarn_error err;
    if (tarnpy_indices(numbers, tarn_dataset_count(set_of(self)), &wanted, &count) != 0)
        return NULL;
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *key = NULL;
        if (tarn_dataset_key(set_of(self), wanted[i], &text, &err) != TARN_OK)
            tarnpy_raise(state_of(self), &err);
        else
            key = tarnpy_text(text.data, text.size);
        if (!key || PyList_SetItem(list, (Py_ssize_t)i, key) != 0) Py_CLEAR(list);
    }
    tarn_text_reset(&text);
    PyMem_Free(wanted);
    return list;
}

static PyObject *find(PyObject *self, PyObject *key)
{
    PyObject *kept;
    uint64_t number;
    tarn_error err;
    tarn_status status;
    const char *text = tarnpy_utf8(key, &kept);
    if (!text) return NULL;
    TARNPY_UNLOCKED(status, tarn_dataset_find(set_of(self), text, &number, &err));
    Py_XDECREF(kept);
    if (status != TARN_OK) return tarnpy_raise_key(state_of(self), &err);
    return PyLong_FromUnsignedLongLong(number);
}

static PyObject *numbers_or_none(const uint64_t *numbers, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *number = Py_None;
        if (numbers[i] == TARN_NO_SAMPLE)
            Py_INCREF(number);
        else
            number = PyLong_FromUnsignedLongLong(numbers[i]);
        if (!number || PyList_SetItem(list, (Py_ssize_t)i, number) != 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *lookup(PyObject *self, PyObject *wanted)
{
    tarnpy_strings list;
    tarn_error err;
    tarn_status status;
    if (tarnpy_strings_get(wanted, &list) != 0) return NULL;
    PyObject *result = NULL;
    uint64_t *numbers = PyMem_Malloc((list.count + 1) * sizeof *numbers);
    if (numbers) {
        TARNPY_UNLOCKED(status, tarn_dataset_lookup(set_of(self), list.items, list.count,
                                                    numbers, NULL, &err));
        result = status == TARN_OK ? numbers_or_none(numbers, list.count)
                                   : tarnpy_raise_key(state_of(self), &err);
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(numbers);
    tarnpy_strings_free(&list);
    return result;
}

static PyObject *key_of_name(PyObject *self, PyObject *name)
{
    PyObject *kept, *result;
    tarn_text text = {NULL, 0, 0};
    tarn_error err;
    const char *from = tarnpy_utf8(name, &kept);
    if (!from) return NULL;
    result = tarn_dataset_key_of_name(set_of(self), from, &text, &err) == TARN_OK
                 ? tarnpy_text(text.data, text.size)
                 : tarnpy_raise(state_of(self), &err);
    tarn_text_reset(&text);
    Py_XDECREF(kept);
    return result;
}

static PyObject *shard(PyObject *self, PyObject *number)
{
    uint32_t which;
    const char *path;
    tarn_error err;
    unsigned long long sample = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) return NULL;
    if (tarn_dataset_shard(set_of(self), sample, &which, &path, &err) != TARN_OK)
        return tarnpy_raise_key(state_of(self), &err);
    return Py_BuildValue("IN", which,
                         tarnpy_text(path ? path : "", path ? strlen(path) : 0));
}

/* --- Filters ----------------------------------------------------------------------- */

/* Keys that are not there, by what found says. */
static PyObject *missing_of(const tarnpy_strings *list, const bool *found)
{
    PyObject *missing = PyList_New(0);
    for (size_t i = 0; missing && i < list->count; i++) {
        if (found[i]) continue;
        PyObject *key = tarnpy_text(list->items[i], strlen(list->items[i]));
        if (!key || PyList_Append(missing, key) != 0) Py_CLEAR(missing);
        Py_XDECREF(key);
    }
    return missing;
}

static PyObject *keep_keys(PyObject *self, PyObject *args)
{
    PyObject *wanted, *result = NULL;
    int tolerant;
    tarnpy_strings list;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "Op:keep_keys", &wanted, &tolerant) ||
        tarnpy_strings_get(wanted, &list) != 0)
        return NULL;
    bool *found = PyMem_Calloc(list.count + 1, sizeof *found);
    if (found) {
        TARNPY_UNLOCKED(status,
                        tarn_dataset_keep_keys(set_of(self), list.items, list.count,
                                               tolerant ? found : NULL, &set, &err));
        result = tarnpy_handle_made(self, status, set, &err);
        if (result && !tolerant) memset(found, 1, list.count);
        PyObject *missing = result ? missing_of(&list, found) : NULL;
        result = missing ? Py_BuildValue("NN", result, missing) : NULL;
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(found);
    tarnpy_strings_free(&list);
    return result;
}

static PyObject *keep_json(PyObject *self, PyObject *args)
{
    PyObject *path = NULL;
    int tolerant;
    size_t missing = 0;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "O&p:keep_json", tarnpy_path, &path, &tolerant))
        return NULL;
    const char *name = PyBytes_AsString(path);
    TARNPY_UNLOCKED(status,
                    tarn_dataset_keep_json(set_of(self), name, tolerant ? &missing : NULL,
                                           &set, &err));
    Py_DECREF(path);
    PyObject *handle = tarnpy_handle_made(self, status, set, &err);
    return handle ? Py_BuildValue("NK", handle, (unsigned long long)missing) : NULL;
}

static PyObject *keep_having(PyObject *self, PyObject *wanted)
{
    tarnpy_strings list;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (tarnpy_strings_get(wanted, &list) != 0) return NULL;
    TARNPY_UNLOCKED(status, tarn_dataset_keep_having(set_of(self), list.items, list.count,
                                                     &set, &err));
    tarnpy_strings_free(&list);
    return tarnpy_handle_made(self, status, set, &err);
}

static PyObject *keep_lacking(PyObject *self, PyObject *args)
{
    const char *field;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "s:keep_lacking", &field)) return NULL;
    TARNPY_UNLOCKED(status, tarn_dataset_keep_lacking(set_of(self), field, &set, &err));
    return tarnpy_handle_made(self, status, set, &err);
}

static PyObject *keep_size(PyObject *self, PyObject *args)
{
    const char *field;
    unsigned long long min, max;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "sKK:keep_size", &field, &min, &max)) return NULL;
    TARNPY_UNLOCKED(status,
                    tarn_dataset_keep_size(set_of(self), field, min, max, &set, &err));
    return tarnpy_handle_made(self, status, set, &err);
}

static PyObject *keep_column(PyObject *self, PyObject *args)
{
    const char *column;
    PyObject *wanted;
    tarnpy_strings list;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "sO:keep_column", &column, &wanted) ||
        tarnpy_strings_get(wanted, &list) != 0)
        return NULL;
    TARNPY_UNLOCKED(status, tarn_dataset_keep_column(set_of(self), column, list.items,
                                                     list.count, &set, &err));
    tarnpy_strings_free(&list);
    return tarnpy_handle_made(self, status, set, &err);
}

static PyObject *keep_between(PyObject *self, PyObject *args)
{
    const char *column;
    double min, max;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "sdd:keep_between", &column, &min, &max)) return NULL;
    TARNPY_UNLOCKED(
        status, tarn_dataset_keep_between(set_of(self), column, min, max, &set, &err));
    return tarnpy_handle_made(self, status, set, &err);
}

/* --- One number for each sample ---------------------------------------------------- */

/* 8-byte numbers, by malloc, as a NumPy array that owns them. */
static PyObject *numbers_array(tarnpy_state *state, void *numbers, char kind,
                               uint64_t count)
{
    tarn_value value = TARN_VALUE_INIT;
    tarn_array array;
    tarn_dtype dtype = {'<', kind, 8};
    tarn_error err;
    value.owned = numbers;
    value.release = free;
    PyObject *keeper = tarnpy_keeper(state, NULL, &value, NULL);
    if (!keeper) return NULL;
    PyObject *result = NULL;
    if (tarn_array_init(&array, numbers, dtype, 1, &count, &err) == TARN_OK)
        result = tarnpy_ndarray(state, &array, true, keeper);
    else
        tarnpy_raise(state, &err);
    Py_DECREF(keeper);
    return result;
}

static PyObject *per_sample(PyObject *self, PyObject *args, char kind)
{
    const char *name;
    uint32_t field;
    tarn_error err;
    tarn_status status;
    uint64_t count = tarn_dataset_count(set_of(self));
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    if (tarn_dataset_field_find(set_of(self), name, &field, &err) != TARN_OK)
        return tarnpy_raise_key(state_of(self), &err);
    void *out = calloc(count + 1, 8);
    if (!out) return PyErr_NoMemory();
    if (kind == 'u')
        TARNPY_UNLOCKED(status, tarn_dataset_sizes(set_of(self), field, out, &err));
    else if (kind == 'i')
        TARNPY_UNLOCKED(status, tarn_dataset_integers(set_of(self), field, out, &err));
    else
        TARNPY_UNLOCKED(status, tarn_dataset_numbers(set_of(self), field, out, &err));
    if (status == TARN_OK) return numbers_array(state_of(self), out, kind, count);
    free(out);
    return tarnpy_raise_key(state_of(self), &err);
}

static PyObject *sizes(PyObject *self, PyObject *args)
{
    return per_sample(self, args, 'u');
}

static PyObject *integers(PyObject *self, PyObject *args)
{
    return per_sample(self, args, 'i');
}

static PyObject *numbers(PyObject *self, PyObject *args)
{
    return per_sample(self, args, 'f');
}

static PyObject *shard_counts(PyObject *self, PyObject *unused)
{
    tarn_dataset_info i;
    tarn_error err;
    tarn_status status;
    tarn_dataset_info_get(set_of(self), &i, sizeof i);
    uint64_t *counts = calloc(i.shards + 1, sizeof *counts);
    if (!counts) return PyErr_NoMemory();
    TARNPY_UNLOCKED(status, tarn_dataset_shard_counts(set_of(self), counts, &err));
    if (status == TARN_OK) return numbers_array(state_of(self), counts, 'u', i.shards);
    free(counts);
    return tarnpy_raise(state_of(self), &err);
}

static PyObject *mix_at(PyObject *self, PyObject *number)
{
    tarn_mix_place place;
    tarn_error err;
    unsigned long long sample = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) return NULL;
    if (tarn_mix_at(set_of(self), sample, &place, sizeof place, &err) != TARN_OK)
        return tarnpy_raise(state_of(self), &err);
    return Py_BuildValue("IKK", place.source, (unsigned long long)place.pass,
                         (unsigned long long)place.sample);
}

PyMethodDef tarnpy_filter_methods[] = {
    {"info", info, METH_NOARGS, NULL},
    {"fields", fields, METH_NOARGS, NULL},
    {"file_fields", file_fields, METH_NOARGS, NULL},
    {"field_sets", field_sets, METH_NOARGS, NULL},
    {"keys", keys, METH_O, NULL},
    {"find", find, METH_O, NULL},
    {"lookup", lookup, METH_O, NULL},
    {"key_of_name", key_of_name, METH_O, NULL},
    {"shard", shard, METH_O, NULL},
    {"index", tarnpy_handle_index, METH_NOARGS, NULL},
    {"rows", tarnpy_handle_rows, METH_O, NULL},
    {"keep_keys", keep_keys, METH_VARARGS, NULL},
    {"keep_json", keep_json, METH_VARARGS, NULL},
    {"slice", tarnpy_handle_slice, METH_VARARGS, NULL},
    {"select", tarnpy_handle_select, METH_O, NULL},
    {"keep", tarnpy_handle_keep, METH_O, NULL},
    {"order", (PyCFunction)(void (*)(void))tarnpy_handle_order,
     METH_VARARGS | METH_KEYWORDS, NULL},
    {"split", tarnpy_handle_split, METH_VARARGS, NULL},
    {"at_epoch", tarnpy_handle_at_epoch, METH_O, NULL},
    {"judged", tarnpy_handle_judged, METH_NOARGS, NULL},
    {"has", tarnpy_handle_has, METH_O, NULL},
    {"sequence", tarnpy_handle_sequence, METH_VARARGS, NULL},
    {"state", tarnpy_handle_state, METH_O, NULL},
    {"resume", tarnpy_handle_resume, METH_O, NULL},
    {"keep_having", keep_having, METH_O, NULL},
    {"keep_lacking", keep_lacking, METH_VARARGS, NULL},
    {"keep_size", keep_size, METH_VARARGS, NULL},
    {"keep_column", keep_column, METH_VARARGS, NULL},
    {"keep_between", keep_between, METH_VARARGS, NULL},
    {"sizes", sizes, METH_VARARGS, NULL},
    {"integers", integers, METH_VARARGS, NULL},
    {"numbers", numbers, METH_VARARGS, NULL},
    {"shard_counts", shard_counts, METH_NOARGS, NULL},
    {"mix_at", mix_at, METH_O, NULL},
    {"read_batch", tarnpy_read_batch, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
