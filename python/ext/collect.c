/* collect.c: converts dicts to samples that can be written: each value becomes bytes,
 * which are kept alive so that the GIL can be released while they are written. The
 * library, or for WebDataset the Python code, decides what a field's name means. */
#include "writing.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int grow(void *items, size_t size, size_t count, size_t *capacity)
{
    void **place = items;
    if (count < *capacity) return 0;
    size_t more = *capacity ? 2 * *capacity : 16;
    void *grown = PyMem_Realloc(*place, more * size);
    if (!grown) {
        PyErr_NoMemory();
        return -1;
    }
    *place = grown;
    *capacity = more;
    return 0;
}

/* --- Kept objects ------------------------------------------------------------------- */

/* Takes over object, also on failure. */
static int hold(tarnpy_batch *batch, PyObject *object)
{
    if (grow(&batch->held, sizeof *batch->held, batch->n_held, &batch->held_capacity)) {
        Py_DECREF(object);
        return -1;
    }
    batch->held[batch->n_held++] = object;
    return 0;
}

static int hold_new(tarnpy_batch *batch, PyObject *object)
{
    Py_INCREF(object);
    return hold(batch, object);
}

static void forget(tarnpy_batch *batch, size_t n_held, size_t n_made)
{
    while (batch->n_held > n_held)
        Py_DECREF(batch->held[--batch->n_held]);
    while (batch->n_made > n_made)
        tarn_bytes_release(&batch->made[--batch->n_made]);
}

void tarnpy_batch_empty(tarnpy_batch *batch)
{
    forget(batch, 0, 0);
    batch->n_fields = batch->n_samples = 0;
    batch->payload = 0;
}

void tarnpy_batch_free(tarnpy_batch *batch)
{
    tarnpy_batch_empty(batch);
    PyMem_Free(batch->held);
    PyMem_Free(batch->made);
    PyMem_Free(batch->fields);
    PyMem_Free(batch->samples);
    memset(batch, 0, sizeof *batch);
}

/* Names that are not UTF-8 come from file systems and archives, and contain
 * surrogates. */
const char *tarnpy_batch_text(tarnpy_batch *batch, PyObject *text, Py_ssize_t *out_size)
{
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, out_size);
    if (utf8) {
        if (hold_new(batch, text)) return NULL;
    } else if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        char *bytes;
        PyObject *encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
        if (!encoded || hold(batch, encoded)) return NULL;
        if (PyBytes_AsStringAndSize(encoded, &bytes, out_size)) return NULL;
        utf8 = bytes;
    }
    if (utf8 && strlen(utf8) != (size_t)*out_size) {
        PyErr_SetString(PyExc_ValueError, "name contains a NUL character");
        return NULL;
    }
    return utf8;
}

/* --- Names -------------------------------------------------------------------------- */

/* The part of a name after its last dot. */
static const char *extension(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Whether the name asks for compression, whatever the bytes are. */
static bool is_packed(const tarnpy_rules *rules, const char *name)
{
    const char *ext = extension(name);
    if (ext == name) return false;
    if (rules->flavour == TARNPY_WDS) return name[0] != '_' && strcmp(ext, "gz") == 0;
    return rules->flavour == TARNPY_TARN &&
           (strcasecmp(ext, "gz") == 0 || strcasecmp(ext, "zst") == 0);
}

static bool is_number(const char *name)
{
    static const char *const names[] = {"cls",   "cls2", "class", "count",
                                        "index", "inx",  "id"};
    const char *ext = extension(name);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(ext, names[i]) == 0) return true;
    return false;
}

/* --- Values ------------------------------------------------------------------------- */

typedef struct target {
    tarnpy_state *state;
    tarnpy_batch *batch;
    const tarnpy_rules *rules;
    PyObject *name;
    tarn_field *field; /* its name is already set */
} target;

static int put_bytes(target *t, PyObject *bytes)
{
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &data, &size)) return -1;
    t->field->data = data;
    t->field->size = (size_t)size;
    return hold_new(t->batch, bytes);
}

static int put_text(target *t, PyObject *text)
{
    Py_ssize_t size;
    t->field->data = PyUnicode_AsUTF8AndSize(text, &size);
    if (!t->field->data) return -1;
    t->field->size = (size_t)size;
    return hold_new(t->batch, text);
}

/* A copy, because other owners of the object may change its bytes while they are
 * written. */
static int put_copy(target *t, PyObject *object)
{
    PyObject *bytes = PyBytes_FromObject(object);
    if (!bytes) return -1;
    int failed = put_bytes(t, bytes);
    Py_DECREF(bytes);
    return failed;
}

static int put_encoded(target *t, PyObject *value)
{
    tarnpy_batch *b = t->batch;
    if (grow(&b->made, sizeof *b->made, b->n_made, &b->made_capacity)) return -1;
    tarn_bytes *made = &b->made[b->n_made];
    *made = (tarn_bytes)TARN_BYTES_INIT;
    if (tarnpy_encode(t->state, t->field->name, value, &t->rules->options, made)) {
        tarn_bytes_release(made);
        return -1;
    }
    b->n_made++;
    t->field->data = made->data ? made->data : (const void *)"";
    t->field->size = made->size;
    return 0;
}

static int not_bytes(target *t, PyObject *value)
{
    PyObject *type = PyObject_Type(value);
    PyErr_Format(PyExc_ValueError, "%U doesn't map to a bytes after encoding (%R)",
                 t->name, type);
    Py_XDECREF(type);
    return -1;
}

static int wrong_result(PyObject *name, PyObject *result)
{
    PyObject *type = PyObject_Type(result);
    PyErr_Format(PyExc_TypeError, "the encoder of %U returned %R, not bytes", name, type);
    Py_XDECREF(type);
    return -1;
}

/* Stores the result of a function of the caller or of tarn/wds/writer.py. */
static int put_result(target *t, PyObject *result)
{
    int failed = -1;
    if (!result) return -1;
    if (is_packed(t->rules, t->field->name))
        failed = put_encoded(t, result);
    else if (PyBytes_Check(result))
        failed = put_bytes(t, result);
    else if (PyByteArray_Check(result) || PyMemoryView_Check(result))
        failed = put_copy(t, result);
    else if (t->rules->flavour == TARNPY_WDS)
        not_bytes(t, result);
    else
        wrong_result(t->name, result);
    Py_DECREF(result);
    return failed;
}

/* The caller's encoder for a field: by its full name, otherwise by its extension. */
static PyObject *find_encoder(target *t)
{
    PyObject *encoders = t->rules->encoders;
    if (!encoders) return NULL;
    PyObject *found = PyDict_GetItemWithError(encoders, t->name);
    if (found || PyErr_Occurred()) return found;
    char name[TARN_MAX_EXTENSION + 1];
    const char *ext = extension(t->field->name);
    if (is_packed(t->rules, t->field->name)) {
        const char *end = ext - 1, *at = end;
        while (at > t->field->name && at[-1] != '.')
            at--;
        if ((size_t)(end - at) > TARN_MAX_EXTENSION) return NULL;
        memcpy(name, at, (size_t)(end - at));
        name[end - at] = 0;
    } else {
        if (strlen(ext) > TARN_MAX_EXTENSION) return NULL;
        memcpy(name, ext, strlen(ext) + 1);
    }
    for (char *c = name; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c += 'a' - 'A';
    PyObject *key = PyUnicode_FromString(name);
    if (!key) return NULL;
    found = PyDict_GetItemWithError(encoders, key);
    Py_DECREF(key);
    return found;
}

/* A local file, whose bytes are read while they are written. */
static int put_path(target *t, PyObject *value)
{
    PyObject *path = PyOS_FSPath(value), *bytes = NULL;
    if (!path) return -1;
    int ok = PyUnicode_FSConverter(path, &bytes);
    Py_DECREF(path);
    if (!ok || hold(t->batch, bytes)) return -1;
    t->field->path = PyBytes_AsString(bytes);
    return t->field->path ? 0 : -1;
}

/* NumPy's bools are not integers to Python. */
static PyObject *bool_of(PyObject *value)
{
    Py_buffer buffer;
    tarn_array array;
    if (!PyObject_CheckBuffer(value)) return NULL;
    if (tarnpy_array_from(value, &buffer, &array) != 0) {
        PyErr_Clear();
        return NULL;
    }
    bool is = array.ndim == 0 && array.dtype.kind == 'b';
    bool set = is && *(const unsigned char *)array.data;
    PyBuffer_Release(&buffer);
    return is ? PyLong_FromLong(set) : NULL;
}

/* Where a number is expected, NumPy scalars and arrays of one element count as
 * numbers. */
static int put_number(target *t, PyObject *value)
{
    PyObject *number = NULL;
    if (PyLong_Check(value) || PyFloat_Check(value)) return put_encoded(t, value);
    if (PyIndex_Check(value)) number = PyNumber_Index(value);
    if (!number) {
        PyErr_Clear();
        number = bool_of(value);
    }
    if (!number) {
        PyErr_Clear();
        if (PyNumber_Check(value)) number = PyNumber_Float(value);
        if (!number) PyErr_Clear();
    }
    int failed = put_encoded(t, number ? number : value);
    Py_XDECREF(number);
    return failed;
}

static int put_tarn(target *t, PyObject *value)
{
    if (PyObject_HasAttrString(value, "__fspath__")) return put_path(t, value);
    if (is_number(t->field->name)) return put_number(t, value);
    return put_encoded(t, value);
}

static int put_raw(target *t, PyObject *value)
{
    if (PyByteArray_Check(value) || PyMemoryView_Check(value)) return put_copy(t, value);
    if (t->field->name[0] == '_' && PyUnicode_Check(value)) return put_text(t, value);
    return not_bytes(t, value);
}

static int put_wds(target *t, PyObject *value)
{
    int over = 0;
    if (PyLong_CheckExact(value) && is_number(t->field->name)) {
        PyLong_AsLongLongAndOverflow(value, &over);
        if (!over) return put_encoded(t, value);
    }
    return put_result(
        t, PyObject_CallFunctionObjArgs(t->rules->fallback, t->name, value, NULL));
}

static int put_value(target *t, PyObject *value)
{
    bool packed = is_packed(t->rules, t->field->name);
    if (PyBytes_Check(value)) return packed ? put_encoded(t, value) : put_bytes(t, value);
    if (t->rules->flavour == TARNPY_BYTES) return put_raw(t, value);
    if (PyUnicode_Check(value))
        return packed ? put_encoded(t, value) : put_text(t, value);
    PyObject *encoder = find_encoder(t);
    if (PyErr_Occurred()) return -1;
    if (encoder) {
        Py_INCREF(encoder);
        PyObject *result = PyObject_CallFunctionObjArgs(encoder, value, NULL);
        Py_DECREF(encoder);
        return put_result(t, result);
    }
    if (t->rules->flavour == TARNPY_WDS) return put_wds(t, value);
    if (put_tarn(t, value) == 0) return 0;
    if (value != Py_None) return -1;
    PyErr_Clear(); /* NumPy would make it an array of objects */
    PyErr_Format(PyExc_TypeError,
                 "None cannot be written as %U; omit the field, or pass an encoder",
                 t->name);
    return -1;
}

/* --- Samples ------------------------------------------------------------------------ */

/* Returns 1 if the field is metadata, which is not written; -1 with an exception. */
static int is_metadata(const tarnpy_rules *rules, const char *name, PyObject *value)
{
    if (name[0] != '_') return 0;
    if (rules->flavour == TARNPY_TARN) return name[1] == '_';
    if (rules->flavour == TARNPY_WDS && !PyUnicode_Check(value)) {
        PyErr_SetString(PyExc_ValueError,
                        "the values of metadata must be of string type");
        return -1;
    }
    return !rules->keep_meta;
}

static int add_field(tarnpy_state *state, tarnpy_batch *batch, const tarnpy_rules *rules,
                     PyObject *name, PyObject *value)
{
    Py_ssize_t size;
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "field names must be strings, not %R", name);
        return -1;
    }
    const char *text = tarnpy_batch_text(batch, name, &size);
    if (!text) return -1;
    int skip = is_metadata(rules, text, value);
    if (skip) return skip < 0 ? -1 : 0;
    if (grow(&batch->fields, sizeof *batch->fields, batch->n_fields,
             &batch->fields_capacity))
        return -1;
    tarn_field field = {.name = text};
    target t = {state, batch, rules, name, &field};
    if (put_value(&t, value)) return -1;
    batch->fields[batch->n_fields++] = field;
    return 0;
}

/* Adds the key and the field to the exception, because a caller may write a million
 * samples. */
static int note_field(const char *key, PyObject *name)
{
    char shown[128];
    tarn_printable(shown, sizeof shown, key, strlen(key));
    tarnpy_note("sample %s: field %S", shown, name);
    return -1;
}

static int add_fields(tarnpy_state *state, tarnpy_batch *batch, const tarnpy_rules *rules,
                      const char *key, PyObject *sample)
{
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (PyDict_Next(sample, &at, &name, &value)) {
        if (name == state->key_name) continue;
        Py_INCREF(name); /* an encoder may remove them from the dict */
        Py_INCREF(value);
        int failed =
            PyUnicode_Check(name) && PyUnicode_Compare(name, state->key_name) == 0
                ? 0
                : add_field(state, batch, rules, name, value);
        if (failed || PyErr_Occurred()) failed = note_field(key, name);
        Py_DECREF(name);
        Py_DECREF(value);
        if (failed) return -1;
    }
    return 0;
}

static const char *find_key(tarnpy_state *state, tarnpy_batch *batch,
                            const tarnpy_rules *rules, PyObject *sample)
{
    Py_ssize_t size;
    PyObject *key = PyDict_GetItemWithError(sample, state->key_name);
    if (!key) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "object must contain a __key__");
        return NULL;
    }
    if (PyUnicode_Check(key)) return tarnpy_batch_text(batch, key, &size);
    if (rules->flavour == TARNPY_WDS)
        PyErr_SetString(PyExc_ValueError,
                        "the values of metadata must be of string type");
    else
        PyErr_Format(PyExc_TypeError, "__key__ must be a string, not %R", key);
    return NULL;
}

static int add_dict(tarnpy_state *state, tarnpy_batch *batch, const tarnpy_rules *rules,
                    PyObject *sample)
{
    size_t n_held = batch->n_held, n_made = batch->n_made, first = batch->n_fields;
    tarnpy_planned planned = {.first = first};
    if (grow(&batch->samples, sizeof *batch->samples, batch->n_samples,
             &batch->samples_capacity))
        return -1;
    planned.key = find_key(state, batch, rules, sample);
    if (!planned.key || add_fields(state, batch, rules, planned.key, sample)) {
        forget(batch, n_held, n_made);
        batch->n_fields = first;
        return -1;
    }
    planned.count = batch->n_fields - first;
    for (size_t i = first; i < batch->n_fields; i++)
        planned.payload += batch->fields[i].size;
    batch->samples[batch->n_samples++] = planned;
    batch->payload += planned.payload;
    return 0;
}

int tarnpy_batch_add(tarnpy_state *state, tarnpy_batch *batch, const tarnpy_rules *rules,
                     PyObject *sample)
{
    if (PyDict_Check(sample)) return add_dict(state, batch, rules, sample);
    if (!PyObject_HasAttrString(sample, "keys")) {
        PyErr_Format(PyExc_TypeError, "a sample must be a dict, not %R", sample);
        return -1;
    }
    PyObject *copy = PyDict_New();
    int failed = copy ? PyDict_Update(copy, sample) : -1;
    if (!failed) failed = add_dict(state, batch, rules, copy);
    Py_XDECREF(copy);
    return failed;
}
