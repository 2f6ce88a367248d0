/* iac_many.c: reads several payloads in one call: as views, bytes objects, or one
 * buffer. */
#include "filespy.h"

#include <string.h>

/* --- Several payloads -------------------------------------------------------------- */

typedef struct rows {
    uint64_t *items;
    size_t count;
} rows;

/* Row numbers from any iterable or array of ints. */
static bool rows_get(const tarnpy_pack_handle *h, PyObject *object, rows *out)
{
    PyObject *given =
        PyObject_CheckBuffer(object) ? Py_NewRef(object) : PySequence_Tuple(object);
    if (!given) return false;
    int failed = tarnpy_indices(given, h->rows, &out->items, &out->count);
    Py_DECREF(given);
    return failed == 0;
}

static tarn_status take_views(const tarnpy_pack_handle *h, const rows *wanted,
                              tarn_view *views, tarn_error *err)
{
    for (size_t i = 0; i < wanted->count; i++)
        TARN_TRY(tarn_iac_view(h->pack, wanted->items[i], false, &views[i], err));
    return TARN_OK;
}

/* Uninitialized bytes objects of the right sizes; places has their memory. */
static PyObject *empty_payloads(const tarn_view *views, size_t count, char **places)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)views[i].size);
        if (bytes) places[i] = PyBytes_AsString(bytes);
        if (!bytes || PyList_SetItem(list, (Py_ssize_t)i, bytes) != 0) Py_CLEAR(list);
    }
    return list;
}

/* Records are far apart, so the beginnings of some are prefetched. */
static void copy_views(const tarn_view *views, size_t count, char **places)
{
    enum { AHEAD = 6, LINE = 64, LINES = 4 };
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; i + AHEAD < count && k < LINES; k++)
            __builtin_prefetch(views[i + AHEAD].data + k * LINE);
        if (views[i].size) memcpy(places[i], views[i].data, views[i].size);
    }
}

static PyObject *read_rows(const tarnpy_pack_handle *h, const rows *wanted)
{
    tarn_error err;
    tarn_status status;
    PyObject *list = NULL;
    char **places = PyMem_Calloc(wanted->count + 1, sizeof *places);
    tarn_view *views = PyMem_Calloc(wanted->count + 1, sizeof *views);
    if (places && views) {
        TARNPY_UNLOCKED(status, take_views(h, wanted, views, &err));
        list = status == TARN_OK ? empty_payloads(views, wanted->count, places)
                                 : tarnpy_raise(h->state, &err);
    } else {
        PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS;
    if (list) copy_views(views, wanted->count, places);
    for (size_t i = 0; views && i < wanted->count; i++)
        tarn_view_release(&views[i]);
    Py_END_ALLOW_THREADS;
    PyMem_Free(places);
    PyMem_Free(views);
    return list;
}

/* --- One buffer for several payloads ----------------------------------------------- */

typedef struct pack_batch {
    PyObject_HEAD tarn_iac_batch batch;
} pack_batch;

static void batch_dealloc(PyObject *self)
{
    tarn_iac_batch_reset(&((pack_batch *)self)->batch);
    tarnpy_free(self);
}

static PyType_Slot batch_slots[] = {{Py_tp_dealloc, batch_dealloc}, {0, NULL}};
static PyType_Spec batch_spec = {"tarn._tarn._PackBatch", sizeof(pack_batch), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 batch_slots};

static PyObject *memory_of(tarnpy_state *state, const void *data, size_t size,
                           pack_batch *owner)
{
    tarn_view view = {data, size, NULL};
    return tarnpy_view(state, &view, (PyObject *)owner);
}

static PyObject *read_batch(const tarnpy_pack_handle *h, const rows *wanted)
{
    tarn_error err;
    tarn_status status;
    pack_batch *b = TARNPY_NEW(pack_batch, h->state->pack_batch_type);
    if (!b) return NULL;
    TARNPY_UNLOCKED(
        status, tarn_iac_read(h->pack, wanted->items, wanted->count, &b->batch, &err));
    PyObject *data = NULL, *offsets = NULL;
    if (status != TARN_OK) {
        tarnpy_raise(h->state, &err);
    } else {
        const uint64_t *at = b->batch.offsets;
        data = memory_of(h->state, b->batch.data, (size_t)at[wanted->count], b);
        offsets = memory_of(h->state, at, (wanted->count + 1) * sizeof *at, b);
    }
    Py_DECREF(b);
    if (data && offsets) return Py_BuildValue("NN", data, offsets);
    Py_XDECREF(data);
    Py_XDECREF(offsets);
    return NULL;
}

/* --- Functions for iac.c ----------------------------------------------------------- */

PyObject *tarnpy_pack_views(tarnpy_pack_handle *h, PyObject *object)
{
    rows wanted;
    if (!rows_get(h, object, &wanted)) return NULL;
    PyObject *list = PyList_New((Py_ssize_t)wanted.count);
    for (size_t i = 0; list && i < wanted.count; i++) {
        PyObject *view = tarnpy_pack_view(h, wanted.items[i]);
        if (!view || PyList_SetItem(list, (Py_ssize_t)i, view) != 0) Py_CLEAR(list);
    }
    PyMem_Free(wanted.items);
    return list;
}

PyObject *tarnpy_pack_payloads(tarnpy_pack_handle *h, PyObject *object)
{
    rows wanted;
    if (!rows_get(h, object, &wanted)) return NULL;
    PyObject *list = read_rows(h, &wanted);
    PyMem_Free(wanted.items);
    return list;
}

PyObject *tarnpy_pack_batch(tarnpy_pack_handle *h, PyObject *object)
{
    rows wanted;
    if (!rows_get(h, object, &wanted)) return NULL;
    PyObject *pair = read_batch(h, &wanted);
    PyMem_Free(wanted.items);
    return pair;
}

int tarnpy_add_iac_many(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    return tarnpy_add_type(module, &batch_spec, &state->pack_batch_type);
}
