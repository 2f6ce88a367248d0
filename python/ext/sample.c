/* sample.c: makes a sample as a dict, and iterates over samples. Python loops spend their
 * time here, so nothing is looked up by name or made twice. */
#include "dataset.h"

#include <stdio.h>
#include <string.h>

#define FEW_FIELDS   32    /* the views of this many fields are on the stack */
#define LIGHT_DECODE 65536 /* larger fields are decoded without the GIL */

/* --- Values ------------------------------------------------------------------------ */

/* A field of a sample, and the origin of its value. */
typedef struct source {
    tarnpy_dataset *dataset;
    PyObject *handle;
    const tarnpy_plan *plan;
    uint64_t sample; /* sample number */
    uint32_t field;
} source;

/* The dataset that sample numbers refer to. */
static tarn_dataset *base_of(PyObject *handle)
{
    return tarn_dataset_unordered(((tarnpy_handle *)handle)->set);
}

static tarn_dataset *set_of(const source *from)
{
    return base_of(from->handle);
}

/* Adds the sample and the field to an error of a codec, which does not know them. */
static PyObject *raise_decode(const source *from, const tarn_error *why)
{
    tarn_error err = *why, ignored;
    tarn_text key = {NULL, 0, 0};
    tarn_place place;
    tarn_status status;
    char name[128], field[128];
    TARNPY_UNLOCKED(status, tarn_dataset_key(set_of(from), from->sample, &key, &ignored));
    if (status != TARN_OK) key.size = 0;
    tarn_printable(name, sizeof name, key.size ? key.data : "", key.size);
    tarn_printable(field, sizeof field, from->plan->name, strlen(from->plan->name));
    tarn_text_reset(&key);
    int used =
        snprintf(err.message, sizeof err.message, "sample %s: field %s: ", name, field);
    used += snprintf(err.message + used, sizeof err.message - (size_t)used, "%.600s",
                     why->message);
    if (!err.path[0] && tarn_dataset_locate(set_of(from), from->sample, from->field,
                                            &place, sizeof place, &ignored) == TARN_OK) {
        snprintf(err.path, sizeof err.path, "%s", place.path ? place.path : "");
        err.offset =
            place.offset; /* of the member, as in the loader's errors and tarn ls -l */
        if (why->offset != TARN_NO_OFFSET && (size_t)used < sizeof err.message)
            snprintf(err.message + used, sizeof err.message - (size_t)used,
                     " (byte %llu of the field)", (unsigned long long)why->offset);
    }
    return tarnpy_raise(from->dataset->state, &err);
}

/* codec is the name of the field in the file. */
static PyObject *decoded(const source *from, const char *codec, tarn_view *view)
{
    const tarnpy_plan *plan = from->plan;
    tarn_decode_options o = TARN_DECODE_OPTIONS_INIT;
    tarn_value value;
    tarn_error err;
    tarn_status status;
    if (plan->upright) o.flags = TARN_DECODE_UPRIGHT;
    if (plan->heavy || view->size > LIGHT_DECODE)
        TARNPY_UNLOCKED(status,
                        tarn_decode(codec, view->data, view->size, &o, &value, &err));
    else
        status = tarn_decode(codec, view->data, view->size, &o, &value, &err);
    if (status == TARN_OK)
        return tarnpy_value(from->dataset->state, &value, view, from->handle);
    tarn_view_release(view);
    return raise_decode(from, &err);
}

/* A row of an array file; a row without dimensions is a number. */
static PyObject *row_of(const source *from, const tarn_field_form *form, tarn_view *view)
{
    tarnpy_state *state = from->dataset->state;
    tarn_array array;
    tarn_error err;
    if (tarn_array_init(&array, (void *)(uintptr_t)view->data, form->dtype, form->ndim,
                        form->shape, &err) != TARN_OK) {
        tarn_view_release(view);
        return tarnpy_raise(state, &err);
    }
    PyObject *keeper = tarnpy_keeper(state, view, NULL, from->handle);
    if (!keeper) return NULL;
    PyObject *result = tarnpy_ndarray(state, &array, false, keeper);
    Py_DECREF(keeper);
    if (!result || array.ndim > 0) return result;
    PyObject *nothing = PyTuple_New(0);
    PyObject *number = nothing ? PyObject_GetItem(result, nothing) : NULL;
    Py_XDECREF(nothing);
    Py_DECREF(result);
    return number;
}

static PyObject *bytes_of(tarn_view *view);

/* A field whose name does not determine its type. */
static PyObject *formed(const source *from, tarn_view *view)
{
    tarn_field_form form;
    tarn_error err;
    if (tarn_dataset_form(set_of(from), from->sample, from->field, &form, sizeof form,
                          &err) != TARN_OK) {
        tarn_view_release(view);
        return tarnpy_raise_key(from->dataset->state, &err);
    }
    if (form.form == TARN_FORM_BYTES && strcmp(form.codec, "bin") == 0)
        return bytes_of(view);
    if (form.form == TARN_FORM_NAMED || form.form == TARN_FORM_BYTES)
        return decoded(from, form.codec, view);
    if (form.form == TARN_FORM_ARRAY) return row_of(from, &form, view);
    if (form.form != TARN_FORM_TEXT) {
        tarn_value value = {
            .kind = TARN_VALUE_JSON, .data = view->data, .size = view->size};
        return tarnpy_value(from->dataset->state, &value, view, from->handle);
    }
    PyObject *text = tarnpy_text((const char *)view->data, view->size);
    tarn_view_release(view);
    return text;
}

static PyObject *bytes_of(tarn_view *view)
{
    PyObject *bytes =
        PyBytes_FromStringAndSize((const char *)view->data, (Py_ssize_t)view->size);
    tarn_view_release(view);
    return bytes;
}

/* Adds the sample, the field and its place to an exception of a decoder in Python, which
 * keeps its type. */
static void place_exception(const source *from)
{
    tarn_text key = {NULL, 0, 0};
    tarn_place place = {.path = NULL};
    tarn_error ignored;
    tarn_status status;
    char name[128], field[128], where[300];
    TARNPY_UNLOCKED(status, tarn_dataset_key(set_of(from), from->sample, &key, &ignored));
    if (status == TARN_OK) {
        tarn_printable(name, sizeof name, key.data, key.size);
        tarn_printable(field, sizeof field, from->plan->name, strlen(from->plan->name));
        snprintf(where, sizeof where, "sample %s: field %s", name, field);
        if (tarn_dataset_locate(set_of(from), from->sample, from->field, &place,
                                sizeof place, &ignored) != TARN_OK)
            place.path = NULL;
        tarnpy_place(from->dataset->state, where, place.path, place.offset);
    }
    tarn_text_reset(&key);
}

static PyObject *called(const source *from, tarn_view *view)
{
    PyObject *bytes = bytes_of(view);
    if (!bytes) return NULL;
    PyObject *result = PyObject_CallFunctionObjArgs(from->plan->call, bytes, NULL);
    Py_DECREF(bytes);
    if (!result) place_exception(from);
    return result;
}

/* Takes over the view. */
static PyObject *value_of(const source *from, tarn_view *view)
{
    const tarnpy_plan *plan = from->plan;
    PyObject *value = NULL;
    switch (plan->kind) {
    case TARNPY_PLAN_VIEW:
        value = tarnpy_view(from->dataset->state, view, from->handle);
        break;
    case TARNPY_PLAN_BYTES:
        value = bytes_of(view);
        break;
    case TARNPY_PLAN_DECODE:
        value = plan->formed ? formed(from, view) : decoded(from, plan->name, view);
        break;
    case TARNPY_PLAN_CALL:
        value = called(from, view);
        break;
    }
    if (!value || !plan->finish) return value;
    PyObject *finished = PyObject_CallFunctionObjArgs(plan->finish, value, NULL);
    Py_DECREF(value);
    return finished;
}

/* --- A sample ---------------------------------------------------------------------- */

/* The views of the fields in samples, and the key. */
static tarn_status fetch(const tarnpy_dataset *self, tarn_dataset *set, uint64_t number,
                         const uint32_t *chosen, tarn_view *views, tarn_text *key,
                         tarn_error *err)
{
    if (!chosen) return tarn_dataset_get_all(set, number, views, key, err);
    for (size_t i = 0; i < self->n_names; i++)
        TARN_TRY(tarn_dataset_get(set, number, chosen[i], &views[i], err));
    return tarn_dataset_key(set, number, key, err);
}

static PyObject *make_dict(tarnpy_dataset *self, PyObject *handle, uint64_t number,
                           const uint32_t *chosen, tarn_view *views, const tarn_text *key)
{
    PyObject *dict = PyDict_New();
    if (!dict) return NULL;
    int failed =
        tarnpy_put(dict, self->state->key_name, tarnpy_text(key->data, key->size));
    for (size_t i = 0; !failed && i < self->n_names; i++) {
        if (!views[i].data) continue;
        PyObject *name = PyTuple_GetItem(self->names, (Py_ssize_t)i);
        source from = {self, handle, &self->plans[i], number,
                       chosen ? chosen[i] : (uint32_t)i};
        failed = tarnpy_put(dict, name, value_of(&from, &views[i]));
        views[i] = (tarn_view)TARN_VIEW_INIT;
    }
    if (!failed) return dict;
    Py_DECREF(dict);
    return NULL;
}

PyObject *tarnpy_through_maps(tarnpy_dataset *self, PyObject *sample)
{
    Py_ssize_t count = PyTuple_Size(self->maps);
    for (Py_ssize_t i = 0; sample && i < count; i++) {
        PyObject *result =
            PyObject_CallFunctionObjArgs(PyTuple_GetItem(self->maps, i), sample, NULL);
        Py_DECREF(sample);
        sample = result;
    }
    return sample;
}

/* Whether some field is copied or decoded, so that the file must be checked for changes
 * afterwards. Views are not checked. */
static bool copies(const tarnpy_dataset *self)
{
    for (size_t i = 0; i < self->n_names; i++)
        if (self->plans[i].kind != TARNPY_PLAN_VIEW) return true;
    return false;
}

static PyObject *make(tarnpy_dataset *self, PyObject *handle, uint64_t number,
                      tarn_view *views, uint32_t *fields)
{
    bool slow = ((tarnpy_handle *)handle)->slow;
    tarn_dataset *set = base_of(handle);
    tarn_text own = {NULL, 0, 0}, *key = slow ? &own : &self->key;
    tarn_error err;
    tarn_status status;
    const uint32_t *chosen = NULL;
    if (self->views != Py_None) {
        if (tarnpy_views_choose(self->views, self->epoch, number, fields) != 0)
            return NULL;
        chosen = fields;
    }
    if (slow)
        TARNPY_UNLOCKED(status, fetch(self, set, number, chosen, views, key, &err));
    else
        status = fetch(self, set, number, chosen, views, key, &err);
    PyObject *sample = status == TARN_OK
                           ? make_dict(self, handle, number, chosen, views, key)
                           : tarnpy_raise_key(self->state, &err);
    tarn_text_reset(&own);
    if (!sample || !copies(self)) {
        for (size_t i = 0; i < self->n_names; i++)
            tarn_view_release(&views[i]);
        return sample;
    }
    if (tarn_dataset_release(set, number, views, self->n_names, &err) == TARN_OK)
        return sample;
    Py_DECREF(sample);
    return tarnpy_raise(self->state, &err);
}

/* The index of a field with this name; -1 if there is none. */
static Py_ssize_t find_name(const tarnpy_dataset *self, PyObject *name)
{
    for (size_t i = 0; i < self->n_names; i++) {
        PyObject *mine = PyTuple_GetItem(self->names, (Py_ssize_t)i);
        int same = mine == name ? 1 : PyObject_RichCompareBool(mine, name, Py_EQ);
        if (same) return same < 0 ? -1 : (Py_ssize_t)i;
    }
    return -1;
}

/* The number of a field of the dataset; false with an exception set if there is none. */
static bool choose_field(tarnpy_dataset *self, uint64_t number, PyObject *name,
                         source *out)
{
    Py_ssize_t i = find_name(self, name);
    if (i < 0) {
        if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, name);
        return false;
    }
    *out = (source){self, self->handle, &self->plans[i], number, (uint32_t)i};
    if (self->views == Py_None) return true;
    uint32_t *fields = PyMem_Malloc(self->n_names * sizeof *fields);
    bool chosen =
        fields && tarnpy_views_choose(self->views, self->epoch, number, fields) == 0;
    if (chosen) out->field = fields[i];
    if (!fields) PyErr_NoMemory();
    PyMem_Free(fields);
    return chosen;
}

/* Raises KeyError(name) if the sample just lacks the field. */
static PyObject *raise_lacks(tarnpy_dataset *self, PyObject *name, const tarn_error *err)
{
    if (err->code != TARN_ERR_NO_FIELD) return tarnpy_raise_key(self->state, err);
    PyErr_SetObject(PyExc_KeyError, name);
    return NULL;
}

static PyObject *key_of(tarnpy_dataset *self, uint64_t number)
{
    tarn_text key = {NULL, 0, 0};
    tarn_error err;
    tarn_status status;
    TARNPY_UNLOCKED(status, tarn_dataset_key(base_of(self->handle), number, &key, &err));
    PyObject *result = status == TARN_OK ? tarnpy_text(key.data, key.size)
                                         : tarnpy_raise_key(self->state, &err);
    tarn_text_reset(&key);
    return result;
}

PyObject *tarnpy_field(tarnpy_dataset *self, uint64_t number, PyObject *name)
{
    int is_key = PyObject_RichCompareBool(name, self->state->key_name, Py_EQ);
    if (is_key) return is_key < 0 ? NULL : key_of(self, number);
    source from;
    tarn_view view = TARN_VIEW_INIT;
    tarn_error err;
    tarn_status status;
    if (!choose_field(self, number, name, &from)) return NULL;
    TARNPY_UNLOCKED(status,
                    tarn_dataset_get(set_of(&from), number, from.field, &view, &err));
    if (status != TARN_OK) return raise_lacks(self, name, &err);
    PyObject *value = value_of(&from, &view);
    if (!value || from.plan->kind == TARNPY_PLAN_VIEW ||
        tarn_dataset_release(set_of(&from), number, NULL, 0, &err) == TARN_OK)
        return value;
    Py_DECREF(value);
    return tarnpy_raise(self->state, &err);
}

PyObject *tarnpy_has_field(tarnpy_dataset *self, uint64_t number, PyObject *name)
{
    source from;
    tarn_place place;
    tarn_error err;
    if (!choose_field(self, number, name, &from)) {
        if (!PyErr_ExceptionMatches(PyExc_KeyError)) return NULL;
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    tarn_status status = tarn_dataset_locate(set_of(&from), number, from.field, &place,
                                             sizeof place, &err);
    if (status == TARN_OK || status == TARN_ERR_NO_FIELD)
        return PyBool_FromLong(status == TARN_OK);
    return tarnpy_raise_key(self->state, &err);
}

/* Not inlined, so that its stack is free when the maps are called. */
__attribute__((noinline)) static PyObject *before_maps(tarnpy_dataset *self,
                                                       PyObject *handle, uint64_t number)
{
    tarn_view few[FEW_FIELDS], *views = few;
    uint32_t few_fields[FEW_FIELDS], *fields = few_fields;
    PyObject *sample = NULL;
    if (self->n_names > FEW_FIELDS) {
        views = PyMem_Malloc(self->n_names * sizeof *views);
        fields = PyMem_Malloc(self->n_names * sizeof *fields);
    }
    if (views && fields) {
        memset(views, 0, self->n_names * sizeof *views);
        sample = make(self, handle, number, views, fields);
    } else {
        PyErr_NoMemory();
    }
    if (views != few) PyMem_Free(views);
    if (fields != few_fields) PyMem_Free(fields);
    return sample;
}

/* A sample of a mix whose sources have their own functions. */
static PyObject *part_sample(tarnpy_dataset *self, PyObject *handle, uint64_t number)
{
    tarn_place place;
    tarn_error err;
    if (tarn_dataset_locate(base_of(handle), number, TARN_NO_FIELD, &place, sizeof place,
                            &err) != TARN_OK)
        return tarnpy_raise(self->state, &err);
    return PyObject_CallFunction(self->parts, "IKK", place.source,
                                 (unsigned long long)place.pass,
                                 (unsigned long long)place.sample);
}

/* A decoder or a map may use the dataset recursively. The interpreter limits recursion
 * only for its own functions, whose frames are smaller than these. */
PyObject *tarnpy_sample(tarnpy_dataset *self, PyObject *handle, uint64_t number)
{
    if (Py_EnterRecursiveCall(" while a sample is made") != 0) return NULL;
    PyObject *sample = self->parts == Py_None ? before_maps(self, handle, number)
                                              : part_sample(self, handle, number);
    if (sample && PyTuple_Size(self->maps) > 0)
        sample = tarnpy_through_maps(self, sample);
    Py_LeaveRecursiveCall();
    return sample;
}

/* --- Iteration --------------------------------------------------------------------- */

/* Number of samples that are taken from an order and announced to the system at once:
 * SHUFFLED of a shuffled dataset, and fewer if they are large. Of a shuffled dataset
 * nothing is announced before FIRST samples were taken, because many callers need no
 * more. In file order the FIRST samples are announced as well: they are one read, and
 * smaller than what the system would read.
 */
enum { AHEAD = 4096, SHUFFLED = 1024, FIRST = 32, PROBES = 8 };
#define ANNOUNCED_BYTES (UINT64_C(16) << 20)

/* Consecutive positions and their samples. */
typedef struct stretch {
    uint64_t first, count;
    uint64_t numbers[AHEAD];
} stretch;

typedef struct iterator {
    PyObject_HEAD tarnpy_dataset *dataset;
    PyObject *handle; /* the handle of the dataset at the start; the dataset may get
                         another one */
    bool announces;   /* samples are read from files */
    bool in_order;    /* in the order of the file */
    bool remote;      /* samples are fetched */
    bool overrides;   /* a subclass has its own __getitem__ */
    uint64_t next, end;
    uint64_t step;       /* positions per stretch; 0: not known yet */
    stretch *now, *then; /* then begins where now ends */
    stretch stretches[2];
} iterator;

static tarn_dataset *iterated(const iterator *self)
{
    return base_of(self->handle);
}

/* The number of samples that have ANNOUNCED_BYTES, estimated from the sizes of a few. */
static uint64_t find_step(const iterator *self, const stretch *s)
{
    tarn_place place;
    uint64_t bytes = 1, probes = s->count < PROBES ? s->count : PROBES;
    for (uint64_t i = 0; i < probes; i++)
        for (uint32_t f = 0; tarn_dataset_field(iterated(self), f); f++)
            if (tarn_dataset_locate(iterated(self), s->numbers[i], f, &place,
                                    sizeof place, NULL) == TARN_OK)
                bytes += place.size;
    uint64_t step = probes * ANNOUNCED_BYTES / bytes;
    uint64_t most = self->in_order ? AHEAD : SHUFFLED;
    return step < 1 ? 1 : step > most ? most : step;
}

static int fill_stretch(const iterator *self, stretch *s, uint64_t first, uint64_t most)
{
    s->first = first;
    tarn_error err;
    s->count = self->end - first < most ? self->end - first : most;
    if (tarn_dataset_sequence(((tarnpy_handle *)self->handle)->set, first, s->count,
                              s->numbers, &err) == TARN_OK)
        return 0;
    tarnpy_raise(self->dataset->state, &err);
    return -1;
}

static int prefetch(const iterator *self, const stretch *s)
{
    tarn_error err;
    tarn_status status;
    TARNPY_UNLOCKED(status, tarn_dataset_prefetch(iterated(self), s->numbers,
                                                  (size_t)s->count, NULL, 0, &err));
    return status == TARN_OK ? 0 : (tarnpy_raise(self->dataset->state, &err), -1);
}

static int begin(iterator *self)
{
    if (fill_stretch(self, self->now, self->next, FIRST) != 0) return -1;
    bool announces = self->announces && self->in_order && !self->remote;
    return announces ? prefetch(self, self->now) : 0;
}

/* The number of samples of the next stretch. In file order it grows, so that the first
 * samples do not wait until the reads of many others have been submitted. */
static uint64_t next_count(const iterator *self)
{
    uint64_t more = 2 * self->now->count;
    return self->in_order && more < self->step ? more : self->step;
}

/* Announces the next stretch to the system, which reads it while the samples before it
 * are used; this also reads from the next shard before it is reached. Of remote files the
 * stretch that begins is fetched. */
static int next_stretch(iterator *self)
{
    stretch *s = self->now;
    if (self->then->count) {
        self->now = self->then;
        self->then = s;
    } else if (begin(self) != 0) {
        return -1;
    }
    s = self->then;
    uint64_t after = self->now->first + self->now->count;
    if (self->step == 0) self->step = find_step(self, self->now);
    if (fill_stretch(self, s, after, next_count(self)) != 0) return -1;
    if (self->remote) return prefetch(self, self->now);
    return self->announces && s->count ? prefetch(self, s) : 0;
}

static PyObject *iterator_next(PyObject *object)
{
    iterator *self = (iterator *)object;
    while (self->next < self->end && self->next - self->now->first >= self->now->count) {
        if (next_stretch(self) == 0) continue; /* other threads may have run meanwhile */
        self->now->count = self->then->count = 0; /* the initial state */
        return NULL;
    }
    if (self->next >= self->end) return NULL;
    /* Counted before the sample is made, so that a concurrent or nested call gets the
     * next one. */
    uint64_t place = self->next++;
    PyObject *sample = self->overrides
                           ? tarnpy_dataset_item((PyObject *)self->dataset, place)
                           : tarnpy_sample(self->dataset, self->handle,
                                           self->now->numbers[place - self->now->first]);
    if (!sample && self->next == place + 1 && place >= self->now->first)
        self->next = place; /* the next call tries it again */
    if (sample && self->dataset->handle == self->handle)
        self->dataset->position = self->next;
    return sample;
}

static PyObject *iterator_hint(PyObject *object, PyObject *unused)
{
    iterator *self = (iterator *)object;
    return PyLong_FromUnsignedLongLong(self->end - self->next);
}

static int iterator_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((iterator *)object)->dataset);
    return 0;
}

static void iterator_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    Py_XDECREF((PyObject *)((iterator *)object)->dataset);
    Py_XDECREF(((iterator *)object)->handle);
    tarnpy_free(object);
}

static PyMethodDef iterator_methods[] = {
    {"__length_hint__", iterator_hint, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot iterator_slots[] = {
    {Py_tp_dealloc, iterator_dealloc}, {Py_tp_traverse, iterator_traverse},
    {Py_tp_iter, PyObject_SelfIter},   {Py_tp_iternext, iterator_next},
    {Py_tp_methods, iterator_methods}, {0, NULL},
};

static PyType_Spec iterator_spec = {
    .name = "tarn._tarn._Iterator",
    .basicsize = sizeof(iterator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = iterator_slots,
};

PyObject *tarnpy_dataset_iter(PyObject *object)
{
    tarnpy_dataset *dataset = (tarnpy_dataset *)object;
    Py_ssize_t count = PyObject_Size(object);
    if (count < 0) return NULL;
    iterator *self = TARNPY_NEW(iterator, dataset->state->iterator_type);
    if (!self) return NULL;
    Py_INCREF(object);
    self->dataset = dataset;
    Py_INCREF(dataset->handle);
    self->handle = dataset->handle;
    tarn_dataset_info info;
    tarn_dataset_info_get(((tarnpy_handle *)self->handle)->set, &info, sizeof info);
    self->remote = info.remote && dataset->views == Py_None && dataset->parts == Py_None;
    self->announces = dataset->views == Py_None && dataset->parts == Py_None;
    self->in_order = info.in_order;
    self->overrides = tarnpy_dataset_overrides_item(object);
    self->end = (uint64_t)count;
    self->now = &self->stretches[0];
    self->then = &self->stretches[1];
    dataset->position = 0;
    return (PyObject *)self;
}

int tarnpy_add_sample(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    return tarnpy_add_type(module, &iterator_spec, &state->iterator_type);
}
