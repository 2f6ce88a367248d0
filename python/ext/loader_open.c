/* loader_open.c: the options of the native loader, from the arguments of Loader(). */
#include "arena.h"
#include "loader.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE_BLOCK = 31 << 20 }; /* glibc's limit follows blocks of less than 32 MiB */

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

/* (name, how, how to convert bytes[, codec]) */
static int take_field(tarnpy_loader *self, PyObject *item, tarn_load_field *field,
                      const char **codec, tarnpy_column *out)
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
    int which = word_of(self->state, "each", becomes, tarnpy_eaches);
    if (which < 0) return -1;
    out->each = (tarnpy_each)which;
    if (self->views == Py_None &&
        tarn_dataset_field_find(((tarnpy_handle *)self->handle)->set, field->field,
                                &out->field, &err) != TARN_OK) {
        tarnpy_raise_key(self->state, &err);
        return -1;
    }
    return 0;
}

static tarn_load_field *take_fields(tarnpy_loader *self, const char ***out_codecs)
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

static int take_memory(tarnpy_loader *self, PyObject *memory, tarn_loader_options *o)
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

static int take_options(tarnpy_loader *self, PyObject *kw, tarn_loader_options *o,
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
static int take_forms(tarnpy_loader *self, const tarn_collate_options ***out,
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

static int open_with(tarnpy_loader *self, tarn_loader_options *o)
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

/* Values of a batch are many small objects, which are freed at about the same time. From
 * 128 KiB on, glibc gives free memory at the end of the heap back to the system, and the
 * next batch gets it page by page, which takes the longer the more threads there are.
 * glibc raises this limit to twice the size of a large block when it is freed, as after
 * any program has used such an array. So a block is freed here, and its pages are never
 * touched. */
static void keep_freed_memory(void)
{
    void *volatile block = malloc(LARGE_BLOCK);
    free(block);
}

int tarnpy_loader_open(tarnpy_loader *self, PyObject *kw)
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
    if (!failed) keep_freed_memory();
    PyMem_Free(fields);
    PyMem_Free(codecs);
    return failed;
}
