/* dataset.c: opening (_Handle) and indexing (Dataset). sample.c makes samples, filter.c
 * has the methods of handles. */
#include "dataset.h"

#include <stdio.h>
#include <string.h>

/* --- _Handle ------------------------------------------------------------------------ */

PyObject *tarnpy_handle_new(tarnpy_state *state, tarn_dataset *set, bool slow)
{
    tarnpy_handle *handle = TARNPY_NEW(tarnpy_handle, state->handle_type);
    if (!handle) {
        tarn_dataset_close(set);
        return NULL;
    }
    handle->state = state;
    handle->set = set;
    handle->slow = slow;
    return (PyObject *)handle;
}

PyObject *tarnpy_handle_made(PyObject *from, tarn_status status, tarn_dataset *set,
                             const tarn_error *err)
{
    tarnpy_handle *handle = (tarnpy_handle *)from;
    if (status == TARN_OK) return tarnpy_handle_new(handle->state, set, handle->slow);
    return tarnpy_raise_key(handle->state, err);
}

int tarnpy_handle_find(PyObject *handle, PyObject *key, uint64_t *out_number,
                       tarn_status *out_status, tarn_error *err)
{
    PyObject *kept;
    tarn_dataset *base = tarn_dataset_unordered(((tarnpy_handle *)handle)->set);
    const char *text = tarnpy_utf8(key, &kept);
    if (!text) return -1;
    TARNPY_UNLOCKED(*out_status,
                    tarn_dataset_find(base, &text, 1, out_number, NULL, err));
    Py_XDECREF(kept);
    return 0;
}

static void handle_dealloc(PyObject *self)
{
    tarnpy_handle *handle = (tarnpy_handle *)self;
    tarn_dataset *set = handle->set;
    if (set) {
        Py_BEGIN_ALLOW_THREADS;
        tarn_dataset_close(set);
        Py_END_ALLOW_THREADS;
    }
    tarnpy_free(self);
}

static Py_ssize_t handle_length(PyObject *self)
{
    return (Py_ssize_t)tarn_dataset_count(((tarnpy_handle *)self)->set);
}

static PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_methods, tarnpy_filter_methods},
    {Py_mp_length, handle_length},
    {0, NULL},
};

static PyType_Spec handle_spec = {
    .name = "tarn._tarn._Handle",
    .basicsize = sizeof(tarnpy_handle),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = handle_slots,
};

/* --- Opening ------------------------------------------------------------------------ */

static int io_of(const char *name, tarn_io *out)
{
    static const char *const names[] = {"auto", "map", "read"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (tarn_io)i;
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "io must be \"auto\", \"map\" or \"read\", not \"%s\"",
                 name);
    return -1;
}

static int keys_of(const char *name, tarn_keys *out)
{
    *out = strcmp(name, "path") == 0 ? TARN_KEYS_PATH : TARN_KEYS_BASE;
    if (strcmp(name, "path") == 0 || strcmp(name, "base") == 0) return 0;
    PyErr_Format(PyExc_ValueError, "keys must be \"base\" or \"path\", not \"%s\"", name);
    return -1;
}

static bool is_slow(const tarn_dataset *set, const tarn_dataset_options *o)
{
    tarn_dataset_info info;
    tarn_dataset_info_get(set, &info, sizeof info);
    return o->io == TARN_IO_READ || o->cold || info.kind == TARN_DATASET_IAC ||
           info.remote;
}

PyDoc_STRVAR(open_doc,
             "open_dataset(path, *, fields=None, drop_ambiguous=False, io='auto', "
             "check=False, cold=False, scan=True, by_hash=False, keys='base', threads=0, "
             "lenient=False, key_column=None, decompress=True, shards=None, "
             "cache=None, cache_limit=0, index=None)\n--\n\nOpens "
             "a folder, fold, tar, array file or record pack.");

static PyObject *open_dataset(PyObject *module, PyObject *args, PyObject *kw)
{
    static const char *const names[] = {
        "path",       "fields",  "drop_ambiguous", "io",          "check",   "cold",
        "scan",       "by_hash", "keys",           "threads",     "lenient", "key_column",
        "decompress", "shards",  "cache",          "cache_limit", "index",   NULL};
    tarnpy_state *state = tarnpy_module_state(module);
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_index_options index = TARN_INDEX_OPTIONS_INIT;
    PyObject *path = NULL, *fields = NULL, *files = NULL, *result = NULL, *cache = NULL,
             *index_path = NULL;
    unsigned long long limit = 0;
    const char *io = "auto", *keys = "base";
    int drop = 0, check = 0, cold = 0, scan = 1, hash = 0, lenient = 0, decompress = 1;
    tarnpy_strings list = {NULL, 0, NULL}, shards = {NULL, 0, NULL};
    if (!PyArg_ParseTupleAndKeywords(
            args, kw, "O&|$OpsppppsIpzpOO&KO&:open_dataset", TARNPY_KEYWORDS(names),
            tarnpy_path, &path, &fields, &drop, &io, &check, &cold, &scan, &hash, &keys,
            &index.threads, &lenient, &o.key_column, &decompress, &files,
            tarnpy_path_or_none, &cache, &limit, tarnpy_path_or_none, &index_path))
        return NULL;
    if (io_of(io, &o.io) == 0 && keys_of(keys, &index.keys) == 0 &&
        tarnpy_strings_get(fields, &list) == 0 &&
        tarnpy_strings_get(files, &shards) == 0) {
        tarn_dataset *set = NULL;
        tarn_error err;
        tarn_status status;
        o.index = &index;
        o.fields = list.items;
        o.drop_ambiguous = drop;
        o.check = check;
        o.cold = cold;
        o.scan = scan;
        o.by_hash = hash;
        index.lenient = lenient;
        o.decompress = decompress;
        o.shards = shards.items;
        o.cache = cache ? PyBytes_AsString(cache) : NULL;
        o.cache_limit = limit;
        o.index_path = index_path ? PyBytes_AsString(index_path) : NULL;
        const char *name = PyBytes_AsString(path);
        TARNPY_UNLOCKED(status, tarn_dataset_open(name, &o, &set, &err));
        result = status == TARN_OK ? tarnpy_handle_new(state, set, is_slow(set, &o))
                                   : tarnpy_raise(state, &err);
    }
    tarnpy_strings_free(&list);
    tarnpy_strings_free(&shards);
    Py_DECREF(path);
    Py_XDECREF(cache);
    Py_XDECREF(index_path);
    return result;
}

/* --- Dataset: creation ------------------------------------------------------------- */

static int named_plan(const char *name, tarnpy_plan *plan)
{
    static const struct {
        const char *name;
        tarnpy_plan_kind kind;
        bool heavy;
    } known[] = {
        {"view", TARNPY_PLAN_VIEW, false},     {"bytes", TARNPY_PLAN_BYTES, false},
        {"decode", TARNPY_PLAN_DECODE, false}, {"image", TARNPY_PLAN_DECODE, true},
        {"upright", TARNPY_PLAN_DECODE, true},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        plan->kind = known[i].kind;
        plan->heavy = known[i].heavy;
        plan->upright = strcmp(name, "upright") == 0;
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "\"%s\" is not a plan", name);
    return -1;
}

static int make_plan(tarnpy_dataset *self, Py_ssize_t i, bool formed)
{
    tarnpy_plan *plan = &self->plans[i];
    PyObject *item = PyTuple_GetItem(self->plan_items, i);
    PyObject *finish = PyTuple_GetItem(self->finish_items, i);
    plan->name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(self->names, i), NULL);
    if (!plan->name || !item || !finish) return -1;
    plan->finish = finish == Py_None ? NULL : finish;
    plan->formed = formed || plan->name[0] == '_';
    if (PyUnicode_Check(item)) {
        const char *name = PyUnicode_AsUTF8AndSize(item, NULL);
        return name ? named_plan(name, plan) : -1;
    }
    plan->kind = TARNPY_PLAN_CALL;
    plan->call = item;
    return 0;
}

/* Whether some field has another name than in the file, or several. */
static bool has_renamed(const tarn_dataset *set)
{
    const char *name;
    for (uint32_t i = 0; (name = tarn_dataset_field(set, i)); i++)
        if (strcmp(tarn_dataset_field_stored(set, i, 0), name) != 0 ||
            tarn_dataset_field_stored(set, i, 1))
            return true;
    return false;
}

static int make_plans(tarnpy_dataset *self)
{
    Py_ssize_t count = PyTuple_Size(self->names);
    if (count < 0) return -1;
    self->plans = PyMem_Calloc((size_t)count + 1, sizeof *self->plans);
    if (!self->plans) {
        PyErr_NoMemory();
        return -1;
    }
    self->n_names = (size_t)count;
    tarn_dataset_info info;
    const tarn_dataset *set = ((tarnpy_handle *)self->handle)->set;
    tarn_dataset_info_get(set, &info, sizeof info);
    bool formed = info.kind != TARN_DATASET_FOLD || has_renamed(set);
    for (Py_ssize_t i = 0; i < count; i++)
        if (make_plan(self, i, formed) != 0) return -1;
    return 0;
}

static void set_reference(PyObject **slot, PyObject *object)
{
    Py_INCREF(object);
    *slot = object;
}

static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *handle, *names, *plans, *finish, *maps, *parts, *views;
    unsigned long long epoch;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state ||
        !PyArg_ParseTuple(args, "O!O!O!O!O!OOK:Dataset", state->handle_type, &handle,
                          &PyTuple_Type, &names, &PyTuple_Type, &plans, &PyTuple_Type,
                          &finish, &PyTuple_Type, &maps, &parts, &views, &epoch))
        return NULL;
    tarnpy_dataset *self = TARNPY_NEW(tarnpy_dataset, type);
    if (!self) return NULL;
    self->state = state;
    self->epoch = epoch;
    set_reference(&self->handle, handle);
    set_reference(&self->names, names);
    set_reference(&self->plan_items, plans);
    set_reference(&self->finish_items, finish);
    set_reference(&self->maps, maps);
    set_reference(&self->parts, parts);
    set_reference(&self->views, views);
    bool known = views == Py_None || Py_TYPE(views) == state->views_type;
    if (!known) PyErr_SetString(PyExc_TypeError, "not a _Views object");
    if (!known || make_plans(self) != 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int dataset_traverse(PyObject *object, visitproc visit, void *arg)
{
    tarnpy_dataset *self = (tarnpy_dataset *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->plan_items);
    Py_VISIT(self->finish_items);
    Py_VISIT(self->maps);
    Py_VISIT(self->parts);
    return 0;
}

static int dataset_clear(PyObject *object)
{
    tarnpy_dataset *self = (tarnpy_dataset *)object;
    self->n_names = 0;
    Py_CLEAR(self->plan_items);
    Py_CLEAR(self->finish_items);
    Py_CLEAR(self->maps);
    Py_CLEAR(self->parts);
    return 0;
}

static void dataset_dealloc(PyObject *object)
{
    tarnpy_dataset *self = (tarnpy_dataset *)object;
    PyObject_GC_UnTrack(object);
    PyMem_Free(self->plans);
    tarn_text_reset(&self->key);
    dataset_clear(object);
    Py_XDECREF(self->views);
    Py_XDECREF(self->names);
    Py_XDECREF(self->handle);
    tarnpy_free(object);
}

/* --- Dataset: reading -------------------------------------------------------------- */

static tarn_dataset *set_of(const tarnpy_dataset *self)
{
    return ((tarnpy_handle *)self->handle)->set;
}

static uint64_t count_of(const tarnpy_dataset *self)
{
    return tarn_dataset_count(set_of(self));
}

static Py_ssize_t dataset_length(PyObject *self)
{
    return (Py_ssize_t)count_of((tarnpy_dataset *)self);
}

static PyObject *at_position(tarnpy_dataset *self, uint64_t position)
{
    uint64_t number;
    tarn_error err;
    if (tarn_dataset_sequence(set_of(self), position, 1, &number, &err) != TARN_OK)
        return tarnpy_raise(self->state, &err);
    return tarnpy_sample(self, self->handle, number);
}

static PyObject *by_index(tarnpy_dataset *self, PyObject *number)
{
    Py_ssize_t index = PyNumber_AsSsize_t(number, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) return NULL;
    uint64_t count = count_of(self);
    uint64_t position = index < 0 ? (uint64_t)index + count : (uint64_t)index;
    if (position >= count)
        return PyErr_Format(PyExc_IndexError,
                            "index %zd is out of range for %llu samples", index,
                            (unsigned long long)count);
    return at_position(self, position);
}

/* Ignores order and rank. */
static PyObject *by_key(tarnpy_dataset *self, PyObject *key)
{
    uint64_t number;
    tarn_error err;
    tarn_status status;
    if (tarnpy_handle_find(self->handle, key, &number, &status, &err) != 0) return NULL;
    if (status != TARN_OK) return tarnpy_raise_key(self->state, &err);
    return tarnpy_sample(self, self->handle, number);
}

static PyObject *dataset_subscript(PyObject *object, PyObject *item)
{
    tarnpy_dataset *self = (tarnpy_dataset *)object;
    if (PyLong_Check(item)) return by_index(self, item);
    if (PyUnicode_Check(item)) return by_key(self, item);
    if (PyIndex_Check(item) && !PyObject_CheckBuffer(item) &&
        !PyObject_HasAttrString(item, "ndim")) /* arrays and tensors have it */
        return by_index(self, item);
    return PyObject_CallMethod(object, "_subscript", "(O)", item);
}

bool tarnpy_dataset_overrides_item(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_mp_subscript) != (void *)dataset_subscript;
}

PyObject *tarnpy_dataset_item(PyObject *object, uint64_t position)
{
    PyObject *index = PyLong_FromUnsignedLongLong(position);
    PyObject *sample = index ? PyObject_GetItem(object, index) : NULL;
    Py_XDECREF(index);
    return sample;
}

PyDoc_STRVAR(getitems_doc,
             "__getitems__(indices)\n--\n\nReturns the samples at these positions as a "
             "list. torch's DataLoader calls it for each batch.");

static PyObject *dataset_getitems(PyObject *object, PyObject *indices)
{
    tarnpy_dataset *self = (tarnpy_dataset *)object;
    uint64_t *positions;
    size_t count;
    if (tarnpy_indices(indices, count_of(self), &positions, &count) != 0) return NULL;
    bool overrides = tarnpy_dataset_overrides_item(object);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *sample = overrides ? tarnpy_dataset_item(object, positions[i])
                                     : at_position(self, positions[i]);
        if (!sample || PyList_SetItem(list, (Py_ssize_t)i, sample) != 0) Py_CLEAR(list);
    }
    PyMem_Free(positions);
    return list;
}

PyDoc_STRVAR(sample_doc, "_sample(number)\n--\n\nReturns a sample by its number (see "
                         "tarn_dataset_sequence), after the maps.");

static PyObject *dataset_sample(PyObject *object, PyObject *number)
{
    tarnpy_dataset *self = (tarnpy_dataset *)object;
    unsigned long long sample = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) return NULL;
    return tarnpy_sample(self, self->handle, sample);
}

PyDoc_STRVAR(field_doc, "_field(number, name)\n--\n\nReturns one field of a sample by "
                        "its number, or its key, without maps; KeyError if it lacks "
                        "the field.");
PyDoc_STRVAR(has_field_doc, "_has_field(number, name)\n--\n\nReturns whether a sample "
                            "has a field.");

static PyObject *for_field(PyObject *object, PyObject *args,
                           PyObject *(*call)(tarnpy_dataset *, uint64_t, PyObject *))
{
    unsigned long long number;
    PyObject *name;
    if (!PyArg_ParseTuple(args, "KO", &number, &name)) return NULL;
    return call((tarnpy_dataset *)object, number, name);
}

static PyObject *dataset_field(PyObject *object, PyObject *args)
{
    return for_field(object, args, tarnpy_field);
}

static PyObject *dataset_has_field(PyObject *object, PyObject *args)
{
    return for_field(object, args, tarnpy_has_field);
}

PyDoc_STRVAR(
    through_doc,
    "_through_maps(sample)\n--\n\nApplies the functions given to map() to a sample.");

static PyObject *dataset_through(PyObject *object, PyObject *sample)
{
    Py_INCREF(sample);
    return tarnpy_through_maps((tarnpy_dataset *)object, sample);
}

/* --- Dataset: type ----------------------------------------------------------------- */

static PyObject *get_handle(PyObject *self, void *which)
{
    PyObject *object = *(PyObject **)((char *)self + (size_t)which);
    Py_INCREF(object);
    return object;
}

static PyObject *get_position(PyObject *self, void *unused)
{
    return PyLong_FromUnsignedLongLong(((tarnpy_dataset *)self)->position);
}

static PyObject *get_epoch(PyObject *self, void *unused)
{
    return PyLong_FromUnsignedLongLong(((tarnpy_dataset *)self)->epoch);
}

static int set_epoch(PyObject *self, PyObject *value, void *unused)
{
    unsigned long long epoch = value ? PyLong_AsUnsignedLongLong(value) : 0;
    if (PyErr_Occurred()) return -1;
    ((tarnpy_dataset *)self)->epoch = epoch;
    return 0;
}

static int set_handle(PyObject *object, PyObject *value, void *unused)
{
    tarnpy_dataset *self = (tarnpy_dataset *)object;
    if (!value || Py_TYPE(value) != self->state->handle_type) {
        PyErr_SetString(PyExc_TypeError, "not a _Handle of this module");
        return -1;
    }
    PyObject *old = self->handle;
    Py_INCREF(value);
    self->handle = value;
    self->position = 0;
    Py_DECREF(old);
    return 0;
}

#define PART(name, member)                                                               \
    {                                                                                    \
        name, get_handle, NULL, NULL, (void *)offsetof(tarnpy_dataset, member)           \
    }

static PyGetSetDef dataset_parts[] = {
    {"_handle", get_handle, set_handle, NULL, (void *)offsetof(tarnpy_dataset, handle)},
    PART("_names", names),
    PART("_plans", plan_items),
    PART("_finish", finish_items),
    PART("_maps", maps),
    PART("_parts", parts),
    PART("_views", views),
    {"_position", get_position, NULL, NULL, NULL},
    {"_epoch", get_epoch, set_epoch, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef dataset_methods[] = {
    {"__getitems__", dataset_getitems, METH_O, getitems_doc},
    {"_through_maps", dataset_through, METH_O, through_doc},
    {"_sample", dataset_sample, METH_O, sample_doc},
    {"_field", dataset_field, METH_VARARGS, field_doc},
    {"_has_field", dataset_has_field, METH_VARARGS, has_field_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot dataset_slots[] = {
    {Py_tp_new, dataset_new},
    {Py_tp_dealloc, dataset_dealloc},
    {Py_tp_traverse, dataset_traverse},
    {Py_tp_clear, dataset_clear},
    {Py_tp_methods, dataset_methods},
    {Py_tp_getset, dataset_parts},
    {Py_tp_iter, tarnpy_dataset_iter},
    {Py_mp_length, dataset_length},
    {Py_mp_subscript, dataset_subscript},
    {0, NULL},
};

static PyType_Spec dataset_spec = {
    .name = "tarn._tarn.Dataset",
    .basicsize = sizeof(tarnpy_dataset),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = dataset_slots,
};

static PyMethodDef functions[] = {
    {"open_dataset", (PyCFunction)(void (*)(void))open_dataset,
     METH_VARARGS | METH_KEYWORDS, open_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_dataset(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &handle_spec, &state->handle_type) != 0 ||
        tarnpy_add_type(module, &dataset_spec, &state->dataset_type) != 0 ||
        tarnpy_add_sample(module) != 0 || tarnpy_add_batch(module) != 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
