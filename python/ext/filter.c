/* filter.c: the methods of _Handle: keys, filters, information, mixes. */
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

/* --- Information ------------------------------------------------------------------- */

/* How many samples of the file lack which fields, as a dict. */
static PyObject *lacking(const tarn_dataset *set)
{
    PyObject *dict = PyDict_New();
    const char *name;
    for (uint32_t i = 0; dict && (name = tarn_dataset_field(set, i)); i++) {
        uint64_t count = tarn_dataset_lacking(set, i);
        PyObject *number = count ? PyLong_FromUnsignedLongLong(count) : NULL;
        if (count && (!number || PyDict_SetItemString(dict, name, number) != 0))
            Py_CLEAR(dict);
        Py_XDECREF(number);
    }
    return dict;
}

static PyObject *info(PyObject *self, PyObject *unused)
{
    static const char *const kinds[] = {"fold", "gnz", "iac", "mix"};
    tarn_dataset_info i;
    tarn_dataset_info_get(set_of(self), &i, sizeof i);
    return Py_BuildValue(
        "{sssKsIsKsKsKsNsIsKsKsKsKsz}", "kind", kinds[i.kind], "samples",
        (unsigned long long)i.samples, "fields", i.fields, "in_file",
        (unsigned long long)i.in_file, "dropped", (unsigned long long)i.dropped,
        "left_out", (unsigned long long)i.left_out, "lacking", lacking(set_of(self)),
        "shards", i.shards, "epoch", (unsigned long long)i.epoch, "seed",
        (unsigned long long)i.seed, "rank", (unsigned long long)i.rank, "world_size",
        (unsigned long long)i.world_size, "cache_problem", i.cache_problem);
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

/* The codec that a record pack's header names for its payloads, or NULL. */
static const char *codec_of_payload(tarn_dataset *set, uint32_t field)
{
    tarn_field_form form;
    tarn_error ignored;
    if (tarn_dataset_count(set) == 0 ||
        tarn_dataset_form(set, 0, field, &form, sizeof form, &ignored) != TARN_OK)
        return NULL;
    return form.form == TARN_FORM_BYTES && strcmp(form.codec, "bin") != 0 ? form.codec
                                                                          : NULL;
}

/* For each field, its names in the file, or the codec that stands for them. */
static PyObject *stored(PyObject *self, PyObject *unused)
{
    PyObject *out = PyList_New(0);
    for (uint32_t i = 0; out && tarn_dataset_field(set_of(self), i); i++) {
        PyObject *list = PyList_New(0);
        const char *codec = codec_of_payload(set_of(self), i), *name = codec;
        for (uint32_t k = 0; list; k++, name = NULL) {
            if (!name && !codec) name = tarn_dataset_field_stored(set_of(self), i, k);
            if (!name) break;
            PyObject *text = tarnpy_text(name, strlen(name));
            if (!text || PyList_Append(list, text) != 0) Py_CLEAR(list);
            Py_XDECREF(text);
        }
        if (!list || PyList_Append(out, list) != 0) Py_CLEAR(out);
        Py_XDECREF(list);
    }
    return out;
}

static PyObject *file_fields(PyObject *self, PyObject *unused)
{
    return names_by(self, tarn_dataset_file_field);
}

static PyObject *set_names(const tarn_field_set *set)
{
    PyObject *names = PyTuple_New((Py_ssize_t)set->n_fields);
    for (size_t i = 0; names && i < set->n_fields; i++) {
        PyObject *text = tarnpy_text(set->fields[i], strlen(set->fields[i]));
        if (!text || PyTuple_SetItem(names, (Py_ssize_t)i, text) != 0) Py_CLEAR(names);
    }
    return names;
}

static PyObject *field_sets(PyObject *self, PyObject *unused)
{
    tarn_field_sets *sets;
    tarn_error err;
    tarn_status status;
    TARNPY_UNLOCKED(status, tarn_dataset_field_sets(set_of(self), &sets, &err));
    if (status != TARN_OK) return tarnpy_raise(state_of(self), &err);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < sets->count; i++) {
        PyObject *names = set_names(sets->sets[i]);
        PyObject *item = names ? Py_BuildValue("NKK", names,
                                               (unsigned long long)sets->sets[i]->samples,
                                               (unsigned long long)sets->sets[i]->twice)
                               : NULL;
        if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    tarn_field_sets_free(sets);
    return list;
}

/* --- Keys -------------------------------------------------------------------------- */

enum { AT_ONCE = 1024 };

/* Keys of remote files are fetched many at a time. */
static int fetch_keys(PyObject *self, const uint64_t *numbers, size_t count)
{
    tarn_error err;
    tarn_status status;
    tarn_dataset_info info;
    tarn_dataset_info_get(set_of(self), &info, sizeof info);
    if (!info.remote) return 0;
    TARNPY_UNLOCKED(status, tarn_dataset_prefetch(set_of(self), numbers,
                                                  count < AT_ONCE ? count : AT_ONCE,
                                                  (const uint32_t[]){0}, 0, &err));
    return status == TARN_OK ? 0 : (tarnpy_raise(state_of(self), &err), -1);
}

/* The key of a sample. It may have to be fetched. */
static tarn_status read_key(PyObject *self, uint64_t number, tarn_text *out,
                            tarn_error *err)
{
    tarn_status status;
    if (!((tarnpy_handle *)self)->slow)
        return tarn_dataset_key(set_of(self), number, out, err);
    TARNPY_UNLOCKED(status, tarn_dataset_key(set_of(self), number, out, err));
    return status;
}

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
        if (i % AT_ONCE == 0 && fetch_keys(self, wanted + i, count - i) != 0)
            Py_CLEAR(list);
        else if (read_key(self, wanted[i], &text, &err) != TARN_OK)
            tarnpy_raise(state_of(self), &err);
        else
            key = tarnpy_text(text.data, text.size);
        if (!list) break;
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
    TARNPY_UNLOCKED(status,
                    tarn_dataset_find(set_of(self), &text, 1, &number, NULL, &err));
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
    size_t missing;
    if (tarnpy_strings_get(wanted, &list) != 0) return NULL;
    PyObject *result = NULL;
    uint64_t *numbers = PyMem_Malloc((list.count + 1) * sizeof *numbers);
    if (numbers) {
        TARNPY_UNLOCKED(status, tarn_dataset_find(set_of(self), list.items, list.count,
                                                  numbers, &missing, &err));
        result = status == TARN_OK ? numbers_or_none(numbers, list.count)
                                   : tarnpy_raise_key(state_of(self), &err);
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(numbers);
    tarnpy_strings_free(&list);
    return result;
}

static int locate(PyObject *self, PyObject *number, tarn_place *out)
{
    tarn_error err;
    unsigned long long sample = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) return -1;
    if (tarn_dataset_locate(set_of(self), sample, TARN_NO_FIELD, out, sizeof *out,
                            &err) == TARN_OK)
        return 0;
    tarnpy_raise_key(state_of(self), &err);
    return -1;
}

static PyObject *shard(PyObject *self, PyObject *number)
{
    tarn_place place;
    if (locate(self, number, &place) != 0) return NULL;
    const char *path = place.path ? place.path : "";
    return Py_BuildValue("IN", place.shard, tarnpy_text(path, strlen(path)));
}

/* --- Filters ----------------------------------------------------------------------- */

static int condition_kind(tarnpy_state *state, const char *kind, tarn_condition *c)
{
    static const char *const kinds[] = {
        [TARN_CONDITION_KEYS] = "keys",       [TARN_CONDITION_JSON] = "json",
        [TARN_CONDITION_HAVING] = "having",   [TARN_CONDITION_LACKING] = "lacking",
        [TARN_CONDITION_SIZE] = "size",       [TARN_CONDITION_COLUMN] = "column",
        [TARN_CONDITION_BETWEEN] = "between", [TARN_CONDITION_WITHOUT] = "without",
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i] || strcmp(kind, kinds[i]) != 0) continue;
        c->kind = (tarn_condition_kind)i;
        return 0;
    }
    tarnpy_usage(state, "\"%s\" is not a filter", kind);
    return -1;
}

/* The name of a condition is a string, or for a JSON list a path. */
static PyObject *filter(PyObject *self, PyObject *args)
{
    const char *kind;
    PyObject *name, *names, *kept = NULL, *path = NULL;
    int tolerant, numeric = 0;
    size_t missing;
    tarn_condition c = TARN_CONDITION_INIT;
    tarnpy_strings list = {NULL, 0, NULL};
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "sOOddp|p:filter", &kind, &name, &names, &c.min, &c.max,
                          &tolerant, &numeric) ||
        condition_kind(state_of(self), kind, &c) != 0)
        return NULL;
    bool json = c.kind == TARN_CONDITION_JSON;
    if ((json && !tarnpy_path(name, &path)) || tarnpy_strings_get(names, &list) != 0 ||
        (name != Py_None && !json && !(c.name = tarnpy_utf8(name, &kept)))) {
        tarnpy_strings_free(&list);
        Py_XDECREF(path);
        return NULL;
    }
    if (json) c.name = PyBytes_AsString(path);
    c.names = list.items;
    c.n_names = list.count;
    if (tolerant) c.missing = &missing;
    c.numeric = numeric;
    TARNPY_UNLOCKED(status, tarn_dataset_filter(set_of(self), &c, &set, &err));
    tarnpy_strings_free(&list);
    Py_XDECREF(kept);
    Py_XDECREF(path);
    return tarnpy_handle_made(self, status, set, &err);
}

/* --- One number for each sample ---------------------------------------------------- */

/* 8-byte numbers, allocated by malloc, as a NumPy array that owns them. */
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
    tarn_numbers what = kind == 'u'   ? TARN_NUMBERS_SIZE
                        : kind == 'i' ? TARN_NUMBERS_INTEGER
                                      : TARN_NUMBERS_REAL;
    TARNPY_UNLOCKED(status, tarn_dataset_numbers(set_of(self), field, what, out, &err));
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

PyMethodDef tarnpy_filter_methods[] = {
    {"info", info, METH_NOARGS, NULL},
    {"fields", fields, METH_NOARGS, NULL},
    {"stored", stored, METH_NOARGS, NULL},
    {"file_fields", file_fields, METH_NOARGS, NULL},
    {"field_sets", field_sets, METH_NOARGS, NULL},
    {"keys", keys, METH_O, NULL},
    {"find", find, METH_O, NULL},
    {"lookup", lookup, METH_O, NULL},
    {"shard", shard, METH_O, NULL},
    {"index", tarnpy_handle_index, METH_NOARGS, NULL},
    {"rows", tarnpy_handle_rows, METH_O, NULL},
    {"filter", filter, METH_VARARGS, NULL},
    {"slice", tarnpy_handle_slice, METH_VARARGS, NULL},
    {"select", tarnpy_handle_select, METH_O, NULL},
    {"keep", tarnpy_handle_keep, METH_O, NULL},
    {"order", (PyCFunction)(void (*)(void))tarnpy_handle_order,
     METH_VARARGS | METH_KEYWORDS, NULL},
    {"split", tarnpy_handle_split, METH_VARARGS, NULL},
    {"at_epoch", tarnpy_handle_at_epoch, METH_O, NULL},
    {"judged", tarnpy_handle_judged, METH_NOARGS, NULL},
    {"unordered", tarnpy_handle_unordered, METH_NOARGS, NULL},
    {"has", tarnpy_handle_has, METH_O, NULL},
    {"sequence", tarnpy_handle_sequence, METH_VARARGS, NULL},
    {"when", tarnpy_handle_when, METH_VARARGS, NULL},
    {"step", tarnpy_handle_step, METH_VARARGS, NULL},
    {"state", tarnpy_handle_state, METH_O, NULL},
    {"resume", tarnpy_handle_resume, METH_O, NULL},
    {"sizes", sizes, METH_VARARGS, NULL},
    {"integers", integers, METH_VARARGS, NULL},
    {"numbers", numbers, METH_VARARGS, NULL},
    {"shard_counts", shard_counts, METH_NOARGS, NULL},
    {"read_batch", tarnpy_read_batch, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
