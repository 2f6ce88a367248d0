/* textpair.c: clinical text pairs. Patients and documents are tuples here; the classes
 * for users are in tarn/iac/adapters/text_pair.py. */
#include "filespy.h"

#include <string.h>

/* --- Writing ----------------------------------------------------------------------- */

/* A str as UTF-8, borrowed from its object. Only texts may contain a NUL. */
static bool text_of(PyObject *value, const char **out, size_t *out_size)
{
    Py_ssize_t size;
    *out = PyUnicode_AsUTF8AndSize(value, &size);
    if (!*out) return false;
    if (out_size)
        *out_size = (size_t)size;
    else if (strlen(*out) != (size_t)size)
        PyErr_Format(PyExc_ValueError, "%R contains a NUL character", value);
    return !PyErr_Occurred();
}

/* (doc_id, source_text, compressed_text, doc_type, encounter, doc_category, source,
 *  doc_timestamp, episode_index, old_doc_id, old_doc_type, old_encounter, old_source) */
static bool doc_get(PyObject *tuple, tarn_textpair_doc *d)
{
    const char **texts[] = {&d->doc_id,     &d->source_text,   &d->compressed_text,
                            &d->doc_type,   &d->encounter,     &d->doc_category,
                            &d->source,     &d->doc_timestamp, NULL,
                            &d->old_doc_id, &d->old_doc_type,  &d->old_encounter,
                            &d->old_source};
    size_t *sizes[] = {NULL, &d->source_size, &d->compressed_size};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        PyObject *value = PyTuple_GetItem(tuple, (Py_ssize_t)i);
        if (!value) return false;
        if (!texts[i])
            d->episode_index = PyLong_AsLongLong(value);
        else if (!text_of(value, texts[i], i < 3 ? sizes[i] : NULL))
            return false;
        if (PyErr_Occurred()) return false;
    }
    return true;
}

static size_t count_docs(PyObject *patients)
{
    size_t count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(patients); i++)
        count += (size_t)PyTuple_Size(PyTuple_GetItem(PyTuple_GetItem(patients, i), 2));
    return count;
}

static bool patients_get(PyObject *tuple, tarn_textpair_patient *patients,
                         tarn_textpair_doc *docs)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        PyObject *one = PyTuple_GetItem(tuple, i), *list = PyTuple_GetItem(one, 2);
        tarn_textpair_patient *p = &patients[i];
        if (!text_of(PyTuple_GetItem(one, 0), &p->patient_id, NULL) ||
            !text_of(PyTuple_GetItem(one, 1), &p->institution, NULL))
            return false;
        p->docs = docs;
        p->count = (size_t)PyTuple_Size(list);
        for (size_t k = 0; k < p->count; k++)
            if (!doc_get(PyTuple_GetItem(list, (Py_ssize_t)k), docs++)) return false;
    }
    return true;
}

/* textpair_build(path, ((patient_id, institution, (doc, ...)), ...), style, quality,
 *                header, overwrite) */
static PyObject *textpair_build(PyObject *module, PyObject *args)
{
    tarn_textpair_options o = TARN_TEXTPAIR_OPTIONS_INIT;
    PyObject *path, *tuple;
    int style, overwrite;
    tarn_error err;
    tarn_status status = TARN_OK;
    if (!PyArg_ParseTuple(args, "O&O!iizp", tarnpy_path, &path, &PyTuple_Type, &tuple,
                          &style, &o.quality, &o.header, &overwrite))
        return NULL;
    o.style = style ? TARN_TEXTPAIR_00 : TARN_TEXTPAIR_01;
    o.overwrite = overwrite;
    /* json.dumps has already sorted the keys; format 0.1 sorts number keys as text. */
    o.in_order = o.style == TARN_TEXTPAIR_00;
    const char *name = PyBytes_AsString(path);
    size_t count = (size_t)PyTuple_Size(tuple);
    tarn_textpair_patient *patients = PyMem_Calloc(count + 1, sizeof *patients);
    tarn_textpair_doc *docs = PyMem_Calloc(count_docs(tuple) + 1, sizeof *docs);
    bool good = patients && docs && patients_get(tuple, patients, docs);
    if (good)
        TARNPY_UNLOCKED(status, tarn_textpair_build(name, patients, count, &o, &err));
    PyMem_Free(patients);
    PyMem_Free(docs);
    Py_DECREF(path);
    if (!good) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    if (status != TARN_OK) return tarnpy_raise(tarnpy_module_state(module), &err);
    Py_RETURN_NONE;
}

/* --- Reading ----------------------------------------------------------------------- */

static PyObject *doc_tuple(const tarn_textpair_doc *d)
{
    return Py_BuildValue(
        "ss#s#sssssLssss", d->doc_id, d->source_text, (Py_ssize_t)d->source_size,
        d->compressed_text, (Py_ssize_t)d->compressed_size, d->doc_type, d->encounter,
        d->doc_category, d->source, d->doc_timestamp, (long long)d->episode_index,
        d->old_doc_id, d->old_doc_type, d->old_encounter, d->old_source);
}

static PyObject *patient_tuple(const tarn_textpair_patient *p)
{
    PyObject *docs = PyList_New(0);
    for (size_t i = 0; docs && i < p->count; i++) {
        PyObject *doc = doc_tuple(&p->docs[i]);
        if (!doc || PyList_Append(docs, doc) != 0) Py_CLEAR(docs);
        Py_XDECREF(doc);
    }
    return docs ? Py_BuildValue("ssN", p->patient_id, p->institution, docs) : NULL;
}

/* textpair_read(pack, row): (patient_id, institution, [doc]) */
static PyObject *textpair_read(PyObject *module, PyObject *args)
{
    tarn_textpair_patient patient;
    PyObject *pack, *number, *result = NULL;
    uint64_t row;
    tarn_error err;
    tarn_status status;
    tarnpy_state *state = tarnpy_module_state(module);
    if (!PyArg_ParseTuple(args, "O!O", state->pack_type, &pack, &number)) return NULL;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(pack);
    if (!h) return NULL;
    if (tarnpy_pack_row(h, number, &row) == 0) {
        TARNPY_UNLOCKED(status, tarn_textpair_read(h->pack, row, &patient, &err));
        if (status == TARN_OK) {
            result = patient_tuple(&patient);
            tarn_textpair_reset(&patient);
        } else {
            tarnpy_raise(h->state, &err);
        }
    }
    Py_DECREF(h);
    return result;
}

static PyMethodDef functions[] = {
    {"textpair_build", textpair_build, METH_VARARGS,
     "textpair_build(path, patients, style, quality, header, overwrite)"},
    {"textpair_read", textpair_read, METH_VARARGS,
     "textpair_read(pack, row): (patient_id, institution, [doc])"},
    {NULL, NULL, 0, NULL}};

int tarnpy_add_textpair(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
