/* loader.c: the native loader (tarn/loader.h). Its threads never use Python. The thread
 * that asks for a batch waits without the GIL, in slices, and then converts the batch to
 * Python objects with the GIL. */
#include "arena.h"
#include "dataset.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { SLICE = 50 }; /* milliseconds between two checks for signals */

/* How the bytes of one sample are converted in a column that is not an array. */
typedef enum each {
    EACH_BYTES,
    EACH_TEXT,
    EACH_JSON,
    EACH_DECODE, /* as stored, decoded by name: lists of arrays */
    EACH_FORM,   /* as the dataset defines it */
    EACH_ARRAY   /* of EACH_FORM: an array of bytes, not bytes */
} each;

typedef struct column {
    PyObject *name;
    each each;
    uint32_t field;
} column;

typedef struct loader {
    PyObject_HEAD tarnpy_state *state;
    PyObject *handle;
    PyObject *views;
    tarn_loader *loader;
    PyObject *items; /* the list of fields as given; names point into it */
    column *columns;
    size_t n_columns;
    PyObject *fallback; /* or NULL */
    PyObject *memory;   /* where arrays are allocated, or NULL */
    PyObject *forms;    /* how the arrays of some fields become one, by field; or NULL */
    int numbers;        /* batches also have the numbers and the epoch of their samples */
    pid_t busy;         /* the process of which a thread is in the loader, or 0 */
} loader;

/* Keeps a batch alive for its arrays. */
typedef struct loaded {
    PyObject_HEAD tarn_batch *batch;
    PyObject *handle; /* owner of the files that views point into */
} loaded;

/* --- Opening ----------------------------------------------------------------------- */

static int word_of(tarnpy_state *state, const char *what, const char *word,
                   const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0) return i;
    tarnpy_usage(state, "%s must not be \"%s\"", what, word);
    return -1;
}

static int take_steps(tarnpy_state *state, PyObject *kw, tarn_image_steps *steps)
{
    static const char *const names[] = {"width", "height", "channels", "fit",   "shorter",
                                        "scale", "ratio",  "flip",     "dtype", "layout",
                                        "mean",  "std",    "reduce",   NULL};
    static const char *const fits[] = {"exact", "stretch", "centre", "random", NULL};
    static const char *const types[] = {"uint8", "float32", "float16", NULL};
    static const char *const layouts[] = {"HWC", "CHW", NULL};
    const char *fit = "stretch", *type = "uint8", *layout = "HWC";
    tarn_image_steps s = TARN_IMAGE_STEPS_INIT;
    PyObject *nothing = PyTuple_New(0);
    if (!nothing) return -1;
    int parsed = PyArg_ParseTupleAndKeywords(
        nothing, kw, "II|$IsI(dd)(dd)dss(ffff)(ffff)d:image", TARNPY_KEYWORDS(names),
        &s.width, &s.height, &s.channels, &fit, &s.shorter, &s.scale[0], &s.scale[1],
        &s.ratio[0], &s.ratio[1], &s.flip, &type, &layout, &s.mean[0], &s.mean[1],
        &s.mean[2], &s.mean[3], &s.std[0], &s.std[1], &s.std[2], &s.std[3], &s.reduce);
    Py_DECREF(nothing);
    if (!parsed) return -1;
    int f = word_of(state, "fit", fit, fits);
    int t = f < 0 ? -1 : word_of(state, "dtype", type, types);
    int l = t < 0 ? -1 : word_of(state, "layout", layout, layouts);
    if (l < 0) return -1;
    s.fit = (tarn_image_fit)f;
    s.type = (tarn_image_type)t;
    s.layout = (tarn_image_layout)l;
    *steps = s;
    return 0;
}

static const char *const eaches[] = {"bytes", "text", "json", "decode", "form", NULL};

/* By the name of a field in the file. */
static each each_by_name(const char *name)
{
    static const struct {
        const char *extension;
        each each;
    } known[] = {{"htm", EACH_TEXT},   {"html", EACH_TEXT},       {"text", EACH_TEXT},
                 {"txt", EACH_TEXT},   {"transcript", EACH_TEXT}, {"jsn", EACH_JSON},
                 {"json", EACH_JSON},  {"npz", EACH_DECODE},      {"tb", EACH_DECODE},
                 {"ten", EACH_DECODE}, {"tenbin", EACH_DECODE},   {"npy", EACH_ARRAY},
                 {"rle", EACH_ARRAY}};
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
        if (!packed || !dot) return EACH_BYTES;
        len = (size_t)(dot - name);
    }
}

/* (name, how, how to convert bytes[, codec]) */
static int take_field(loader *self, PyObject *item, tarn_load_field *field,
                      const char **codec, column *out)
{
    static const char *const ways[] = {"auto", "bytes", "views", "integer", "mask", NULL};
    const char *way, *becomes;
    PyObject *name;
    tarn_error err;
    if (!PyArg_ParseTuple(item, "Uss|z:field", &name, &way, &becomes, codec)) return -1;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): allocated for all columns. */
    field->field = PyUnicode_AsUTF8AndSize(name, NULL);
    int how = field->field ? word_of(self->state, "as", way, ways) : -1;
    if (how < 0) return -1;
    field->as = (tarn_load_as)how;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the same. */
    out->name = name;
    int which = word_of(self->state, "each", becomes, eaches);
    if (which < 0) return -1;
    out->each = (each)which;
    if (self->views == Py_None &&
        tarn_dataset_field_find(((tarnpy_handle *)self->handle)->set, field->field,
                                &out->field, &err) != TARN_OK) {
        tarnpy_raise_key(self->state, &err);
        return -1;
    }
    return 0;
}

static tarn_load_field *take_fields(loader *self, const char ***out_codecs)
{
    self->n_columns = (size_t)PyTuple_Size(self->items);
    tarn_load_field *fields = PyMem_Calloc(self->n_columns + 1, sizeof *fields);
    self->columns = PyMem_Calloc(self->n_columns + 1, sizeof *self->columns);
    const char **codecs = PyMem_Calloc(self->n_columns + 1, sizeof *codecs);
    if (!fields || !self->columns || !codecs) PyErr_NoMemory();
    for (size_t i = 0; i < self->n_columns && !PyErr_Occurred(); i++)
        if (take_field(self, PyTuple_GetItem(self->items, (Py_ssize_t)i), &fields[i],
                       &codecs[i], &self->columns[i]) != 0)
            break;
    *out_codecs = codecs;
    if (!PyErr_Occurred()) return fields;
    PyMem_Free(fields);
    PyMem_Free(codecs);
    return NULL;
}

static int take_memory(loader *self, PyObject *memory, tarn_loader_options *o)
{
    if (memory == Py_None) return 0;
    if (Py_TYPE(memory) != self->state->arena_type) {
        PyErr_SetString(PyExc_TypeError, "memory must be a _Memory");
        return -1;
    }
    Py_INCREF(memory);
    self->memory = memory;
    o->alloc = tarnpy_arena_alloc;
    o->free = tarnpy_arena_free;
    o->memory_context = ((arena_object *)memory)->arena;
    return 0;
}

static int take_options(loader *self, PyObject *kw, tarn_loader_options *o,
                        tarn_image_steps *steps, tarn_decode_options *decode)
{
    static const char *const names[] = {
        "batch",    "equal_batches", "drop_last", "seed",    "state",    "threads",
        "prefetch", "epochs",        "image",     "no_keys", "on_error", "error_limit",
        "numbers",  "exif",          "fallback",  "forms",   "memory",   NULL};
    static const char *const errors[] = {"raise", "skip", "replace", NULL};
    PyObject *image = Py_None, *fallback = Py_None, *memory = Py_None,
             *nothing = PyTuple_New(0);
    PyObject *forms = NULL;
    const char *on_error = "raise";
    Py_ssize_t state_len = 0;
    int no_keys = 0, equal = 0, drop = 0, exif = 0;
    if (!nothing) return -1;
    int parsed = PyArg_ParseTupleAndKeywords(
        nothing, kw, "|$KppKz#IIKOpsKppOO!O:loader", TARNPY_KEYWORDS(names), &o->batch,
        &equal, &drop, &o->seed, &o->state, &state_len, &o->threads, &o->prefetch,
        &o->epochs, &image, &no_keys, &on_error, &o->error_limit, &self->numbers, &exif,
        &fallback, &PyDict_Type, &forms, &memory);
    Py_DECREF(nothing);
    if (!parsed) return -1;
    int policy = word_of(self->state, "on_error", on_error, errors);
    if (policy < 0) return -1;
    o->no_keys = no_keys;
    o->equal_batches = equal;
    o->drop_last = drop;
    o->state_len = (size_t)state_len;
    o->on_error = (tarn_on_error)policy;
    Py_XINCREF(forms);
    self->forms = forms;
    if (exif) decode->flags |= TARN_DECODE_UPRIGHT;
    o->decode = decode;
    if (fallback != Py_None) {
        Py_INCREF(fallback);
        self->fallback = fallback;
        o->fallback = tarnpy_fallback;
        o->fallback_context = fallback;
    }
    if (take_memory(self, memory, o) != 0) return -1;
    if (image == Py_None) return 0;
    if (take_steps(self->state, image, steps) != 0) return -1;
    o->image = steps;
    return 0;
}

/* The options of each field, in *out and *out_forms, which the caller frees. */
static int take_forms(loader *self, const tarn_collate_options ***out,
                      tarnpy_form **out_forms)
{
    size_t n = self->n_columns;
    bool any = self->forms && PyDict_Size(self->forms) > 0;
    *out = any ? PyMem_Calloc(n + 1, sizeof **out) : NULL;
    *out_forms = any ? PyMem_Calloc(n + 1, sizeof **out_forms) : NULL;
    if (any && (!*out || !*out_forms)) PyErr_NoMemory();
    for (size_t i = 0; any && !PyErr_Occurred() && i < n; i++) {
        PyObject *form = PyDict_GetItemWithError(self->forms, self->columns[i].name);
        if (!form || tarnpy_form_get(self->state, form, &(*out_forms)[i]) != 0) continue;
        (*out)[i] = &(*out_forms)[i].options;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int open_with(loader *self, tarn_loader_options *o)
{
    const tarn_collate_options **collate;
    tarnpy_form *forms;
    tarn_error err;
    tarn_status status = TARN_OK;
    tarn_dataset *set = ((tarnpy_handle *)self->handle)->set;
    int failed = take_forms(self, &collate, &forms);
    o->collate = collate;
    if (failed == 0)
        TARNPY_UNLOCKED(status, tarn_loader_open(set, o, &self->loader, &err));
    PyMem_Free(collate);
    PyMem_Free(forms);
    if (failed == 0 && status != TARN_OK) tarnpy_raise_key(self->state, &err);
    return failed == 0 && status == TARN_OK ? 0 : -1;
}

static int open_loader(loader *self, PyObject *kw)
{
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    tarn_image_steps steps;
    tarn_decode_options decode = TARN_DECODE_OPTIONS_INIT;
    const char **codecs;
    if (take_options(self, kw, &o, &steps, &decode) != 0) return -1;
    tarn_load_field *fields = take_fields(self, &codecs);
    if (!fields) return -1;
    o.fields = fields;
    o.codecs = codecs;
    o.n_fields = self->n_columns;
    if (self->views != Py_None) o.views = ((tarnpy_views *)self->views)->views;
    int failed = open_with(self, &o);
    PyMem_Free(fields);
    PyMem_Free(codecs);
    return failed;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject *handle, *views, *items;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTuple(args, "O!OO!:Loader", state->handle_type, &handle,
                                    &views, &PyTuple_Type, &items))
        return NULL;
    if (views != Py_None && Py_TYPE(views) != state->views_type) {
        PyErr_SetString(PyExc_TypeError, "not a _Views object");
        return NULL;
    }
    loader *self = TARNPY_NEW(loader, type);
    if (!self) return NULL;
    self->state = state;
    Py_INCREF(handle);
    self->handle = handle;
    Py_INCREF(views);
    self->views = views;
    Py_INCREF(items);
    self->items = items;
    if (open_loader(self, kw) == 0) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void close_loader(loader *self)
{
    tarn_loader *native = self->loader;
    self->loader = NULL;
    if (!native) return;
    Py_BEGIN_ALLOW_THREADS;
    tarn_loader_close(native);
    Py_END_ALLOW_THREADS;
}

static int loader_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((loader *)object)->items);
    Py_VISIT(((loader *)object)->fallback);
    return 0;
}

static void loader_dealloc(PyObject *object)
{
    loader *self = (loader *)object;
    PyObject_GC_UnTrack(object);
    close_loader(self);
    PyMem_Free(self->columns);
    Py_XDECREF(self->items);
    Py_XDECREF(self->fallback);
    Py_XDECREF(self->memory);
    Py_XDECREF(self->forms);
    Py_XDECREF(self->views);
    Py_XDECREF(self->handle);
    tarnpy_free(object);
}

/* --- Batches ----------------------------------------------------------------------- */

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
static PyObject *column_array(loader *self, size_t count, const tarn_column *c,
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
static PyObject *column_ragged(loader *self, const tarn_batch *batch,
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

/* *name is set to the name of the field in the file, if that decides. */
static each each_by_form(loader *self, const column *how_to, uint64_t sample,
                         const char **name)
{
    tarn_field_form form;
    tarn_error err;
    tarn_dataset *base = tarn_dataset_unordered(((tarnpy_handle *)self->handle)->set);
    if (tarn_dataset_form(base, sample, how_to->field, &form, sizeof form, &err) !=
        TARN_OK)
        return EACH_BYTES;
    if (form.form == TARN_FORM_NAMED) return each_by_name(*name = form.codec);
    if (form.form == TARN_FORM_TEXT) return EACH_TEXT;
    if (form.form == TARN_FORM_JSON) return EACH_JSON;
    return form.form == TARN_FORM_BYTES ? EACH_BYTES : EACH_ARRAY;
}

/* The bytes of one sample as an object. */
static PyObject *piece(loader *self, const column *how_to, const tarn_batch *batch,
                       size_t i, const unsigned char *data, size_t size)
{
    const char *stored = PyUnicode_AsUTF8AndSize(how_to->name, NULL);
    each how = how_to->each == EACH_FORM
                   ? each_by_form(self, how_to, batch->samples[i], &stored)
                   : how_to->each;
    if (how == EACH_TEXT) return tarnpy_text((const char *)data, size);
    if (how == EACH_JSON) {
        tarn_value value = {.kind = TARN_VALUE_JSON, .data = data, .size = size};
        return tarnpy_value(self->state, &value, NULL, NULL);
    }
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    if (!bytes || how == EACH_BYTES || how == EACH_ARRAY) return bytes;
    PyObject *memory = PyMemoryView_FromObject(bytes);
    PyObject *result =
        stored && memory ? tarnpy_decode_memory(self->state, stored, memory, NULL) : NULL;
    Py_XDECREF(memory);
    Py_DECREF(bytes);
    return result;
}

/* One value of a column in which not all are arrays of one shape. Alternatives may have
 * given it a value that is not an array: the column then has its bytes. */
static PyObject *piece_array(loader *self, const column *how_to, const tarn_batch *batch,
                             size_t i, const tarn_array *a, PyObject *owner)
{
    const char *stored;
    bool bytes = a->ndim == 1 && a->dtype.kind == 'u' && a->dtype.size == 1;
    if (!bytes || how_to->each != EACH_FORM ||
        each_by_form(self, how_to, batch->samples[i], &stored) == EACH_ARRAY)
        return tarnpy_ndarray(self->state, a, true, owner);
    return piece(self, how_to, batch, i, a->data, (size_t)a->shape[0]);
}

/* A view that the batch keeps alive, as a memoryview. */
static PyObject *piece_view(loader *self, const tarn_view *view, PyObject *owner)
{
    tarn_view borrowed = {view->data, view->size, NULL};
    return tarnpy_view(self->state, &borrowed, owner);
}

static PyObject *column_list(loader *self, const tarn_batch *batch, const tarn_column *c,
                             const column *how_to, PyObject *owner)
{
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

static PyObject *key_list(const tarn_batch *batch)
{
    PyObject *list = PyList_New((Py_ssize_t)batch->count);
    for (size_t i = 0; list && i < batch->count; i++) {
        uint64_t from = batch->key_offsets[i], end = batch->key_offsets[i + 1] - 1;
        PyObject *key = tarnpy_text(batch->keys + from, (size_t)(end - from));
        if (!key || PyList_SetItem(list, (Py_ssize_t)i, key) != 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *number_list(const uint64_t *numbers, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);
        if (!number || PyList_SetItem(list, (Py_ssize_t)i, number) != 0) Py_CLEAR(list);
    }
    return list;
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
        Py_BuildValue("NNNnK", number_list(batch->samples, batch->count),
                      number_list(places, batch->count),
                      number_list(places + batch->count, batch->count),
                      (Py_ssize_t)planned, (unsigned long long)batch->epoch);
    PyMem_Free(places);
    PyObject *name = PyUnicode_FromString("__about__");
    int failed = name ? tarnpy_put(dict, name, about) : -1;
    if (!name) Py_XDECREF(about);
    Py_XDECREF(name);
    return failed;
}

/* Masks and lengths follow the fields. */
static int put_column(loader *self, PyObject *dict, const tarn_batch *batch, size_t i,
                      PyObject *owner)
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

static PyObject *batch_dict(loader *self, tarn_batch *batch)
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
        failed = tarnpy_put(dict, self->state->key_name, key_list(batch));
    if (!failed && self->numbers) failed = put_numbers(dict, batch);
    for (size_t i = 0; !failed && i < batch->n_columns; i++)
        failed = put_column(self, dict, batch, i, (PyObject *)owner);
    Py_DECREF(owner);
    if (!failed) return dict;
    Py_XDECREF(dict);
    return NULL;
}

/* Fails if another thread is using the loader. */
static int enter(loader *self)
{
    if (!self->loader) {
        tarnpy_usage(self->state, "the loader is closed");
        return -1;
    }
    if (self->busy ==
        getpid()) { /* after a fork, another thread of the parent does not count */
        PyErr_SetString(PyExc_RuntimeError, "the loader is used by another thread");
        return -1;
    }
    self->busy = getpid();
    return 0;
}

/* Moves back before the last batch, because the caller could not use it. */
static PyObject *loader_back(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;
    if (enter(self) != 0) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    tarn_loader_back(self->loader);
    Py_END_ALLOW_THREADS;
    self->busy = 0;
    Py_RETURN_NONE;
}

/* The same after an exception of a decoder, which stays set. */
static void go_back(loader *self)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_XDECREF(loader_back((PyObject *)self, NULL));
    PyErr_Clear(); /* if the decoder closed the loader, or another thread uses it */
    PyErr_Restore(type, value, trace);
}

static PyObject *loader_next(PyObject *object)
{
    loader *self = (loader *)object;
    tarn_batch *batch = NULL;
    tarn_error err;
    tarn_status status = TARN_OK;
    if (enter(self) != 0) return NULL;
    while (status == TARN_OK && !batch) {
        TARNPY_UNLOCKED(status, tarn_loader_next(self->loader, SLICE, &batch, &err));
        if (!batch && status == TARN_OK && PyErr_CheckSignals() != 0) break;
    }
    self->busy = 0;
    if (status != TARN_OK && status != TARN_END) tarnpy_raise_key(self->state, &err);
    if (!batch) return NULL;
    PyObject *dict = batch_dict(self, batch);
    if (!dict) go_back(self);
    return dict;
}

/* --- Position ---------------------------------------------------------------------- */

static PyObject *loader_set_epoch(PyObject *object, PyObject *number)
{
    loader *self = (loader *)object;
    tarn_error err;
    tarn_status status;
    unsigned long long epoch = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() || enter(self) != 0) return NULL;
    TARNPY_UNLOCKED(status, tarn_loader_set_epoch(self->loader, epoch, &err));
    self->busy = 0;
    if (status != TARN_OK) return tarnpy_raise(self->state, &err);
    Py_RETURN_NONE;
}

static PyObject *loader_state(PyObject *object, PyObject *args)
{
    loader *self = (loader *)object;
    tarn_text text = {NULL, 0, 0};
    tarn_error err;
    tarn_status status;
    unsigned long long before = 0;
    if (!PyArg_ParseTuple(args, "|K:state", &before) || enter(self) != 0) return NULL;
    TARNPY_UNLOCKED(status, tarn_loader_state_before(self->loader, before, &text, &err));
    self->busy = 0;
    PyObject *result = status == TARN_OK ? tarnpy_text(text.data, text.size)
                                         : tarnpy_raise(self->state, &err);
    tarn_text_reset(&text);
    return result;
}

static PyObject *loader_info(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;
    tarn_loader_info info;
    if (enter(self) != 0) return NULL;
    tarn_loader_info_get(self->loader, &info, sizeof info);
    self->busy = 0;
    return Py_BuildValue("{sKsKsKsKsKsi}", "epoch", (unsigned long long)info.epoch,
                         "batches", (unsigned long long)info.batches, "left",
                         (unsigned long long)info.left, "rank",
                         (unsigned long long)info.rank, "world_size",
                         (unsigned long long)info.world_size, "over", (int)info.over);
}

static PyObject *loader_stats(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;
    tarn_loader_stats s;
    if (enter(self) != 0) return NULL;
    tarn_loader_stats_get(self->loader, &s, sizeof s);
    self->busy = 0;
    return Py_BuildValue(
        "{sKsKsKsKsKsdsdsdsdsdss}", "batches", (unsigned long long)s.batches, "samples",
        (unsigned long long)s.samples, "skipped", (unsigned long long)s.skipped,
        "fallbacks", (unsigned long long)s.fallbacks, "bytes",
        (unsigned long long)s.bytes, "seconds", s.seconds, "waited", s.waited, "read",
        s.read, "decode", s.decode, "idle", s.idle, "bottleneck", s.bottleneck);
}

static PyObject *loader_skipped(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;
    const tarn_skipped *s;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    if (enter(self) != 0) return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && (s = tarn_loader_skipped(self->loader, i)); i++) {
        tarn_error_text(&s->error, text, sizeof text);
        PyObject *item = Py_BuildValue(
            "KKNN", (unsigned long long)s->epoch, (unsigned long long)s->sample,
            s->key ? tarnpy_text(s->key, strlen(s->key)) : tarnpy_text("", 0),
            tarnpy_text(text, strlen(text)));
        if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    self->busy = 0;
    return list;
}

static PyObject *epoch_dict(const tarn_simulated_epoch *e)
{
    return Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsdsd}", "epoch", (unsigned long long)e->epoch, "batches",
        (unsigned long long)e->batches, "samples", (unsigned long long)e->samples,
        "wanted", (unsigned long long)e->wanted, "cached", (unsigned long long)e->cached,
        "requests", (unsigned long long)e->requests, "bytes",
        (unsigned long long)e->bytes, "kept", (unsigned long long)e->kept, "seconds",
        e->seconds, "samples_per_second",
        e->seconds > 0 ? (double)e->samples / e->seconds : 0);
}

static PyObject *simulate(loader *self, const tarn_simulation_options *o)
{
    tarn_error err;
    tarn_simulation *sim;
    tarn_simulated_epoch e;
    PyObject *list = PyList_New(0);
    tarn_status status = tarn_simulation_open(&self->loader, 1, o, &sim, &err);
    if (status != TARN_OK) sim = NULL;
    while (list && status == TARN_OK) {
        Py_BEGIN_ALLOW_THREADS;
        status = tarn_simulation_next(sim, &e, sizeof e, &err);
        Py_END_ALLOW_THREADS;
        if (status != TARN_OK) break;
        PyObject *item = epoch_dict(&e);
        if (!item || PyList_Append(list, item) != 0 || PyErr_CheckSignals() != 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    tarn_simulation_close(sim);
    if (!list || status == TARN_OK || status == TARN_END) return list;
    Py_DECREF(list);
    return tarnpy_raise(self->state, &err);
}

static PyObject *loader_simulate(PyObject *object, PyObject *args)
{
    loader *self = (loader *)object;
    tarn_simulation_options o = TARN_SIMULATION_OPTIONS_INIT;
    unsigned long long limit, epochs;
    int cache;
    if (!PyArg_ParseTuple(args, "KpKddI", &epochs, &cache, &limit, &o.latency,
                          &o.bandwidth, &o.connections) ||
        enter(self) != 0)
        return NULL;
    o.epochs = epochs;
    o.cache = cache;
    o.cache_limit = limit;
    PyObject *result = simulate(self, &o);
    self->busy = 0;
    return result;
}

static PyObject *loader_close(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;
    if (!self->loader) Py_RETURN_NONE;
    if (enter(self) != 0) return NULL;
    close_loader(self);
    self->busy = 0;
    Py_RETURN_NONE;
}

static PyMethodDef loader_methods[] = {
    {"set_epoch", loader_set_epoch, METH_O, NULL},
    {"back", loader_back, METH_NOARGS, NULL},
    {"state", loader_state, METH_VARARGS, NULL},
    {"info", loader_info, METH_NOARGS, NULL},
    {"stats", loader_stats, METH_NOARGS, NULL},
    {"skipped", loader_skipped, METH_NOARGS, NULL},
    {"simulate", loader_simulate, METH_VARARGS, NULL},
    {"close", loader_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_new, loader_new},
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_traverse, loader_traverse},
    {Py_tp_methods, loader_methods},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, loader_next},
    {0, NULL},
};

static PyType_Spec loader_spec = {
    .name = "tarn._tarn.Loader",
    .basicsize = sizeof(loader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = loader_slots,
};

PyDoc_STRVAR(loaded_doc, "loaded_as(name)\n--\n\nReturns how a loader converts the bytes "
                         "of a field with this name, if it is not an array.");

static PyObject *loaded_as(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    each how = each_by_name(text);
    return PyUnicode_FromString(eaches[how == EACH_ARRAY ? EACH_BYTES : how]);
}

static PyMethodDef functions[] = {{"loaded_as", loaded_as, METH_O, loaded_doc},
                                  {NULL, NULL, 0, NULL}};

int tarnpy_add_loader(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &loaded_spec, &state->loaded_type) != 0) return -1;
    if (tarnpy_add_type(module, &loader_spec, &state->loader_type) != 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
