/* select.c: datasets derived from datasets (tarn/dataset.h): slices, lists, masks,
 * orders, ranks, epochs and states of a _Handle. */
#include "dataset.h"

#include <string.h>

static tarn_dataset *set_of(PyObject *self)
{
    return ((tarnpy_handle *)self)->set;
}

static tarnpy_state *state_of(PyObject *self)
{
    return ((tarnpy_handle *)self)->state;
}

PyObject *tarnpy_handle_slice(PyObject *self, PyObject *args)
{
    unsigned long long start, count;
    long long stride;
    tarn_dataset *set = NULL;
    tarn_error err;
    if (!PyArg_ParseTuple(args, "KLK:slice", &start, &stride, &count)) return NULL;
    tarn_status status =
        tarn_dataset_slice(set_of(self), start, stride, count, &set, &err);
    return tarnpy_handle_made(self, status, set, &err);
}

PyObject *tarnpy_handle_select(PyObject *self, PyObject *indices)
{
    uint64_t *wanted;
    size_t count;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (tarnpy_indices(indices, tarn_dataset_count(set_of(self)), &wanted, &count) != 0)
        return NULL;
    TARNPY_UNLOCKED(status, tarn_dataset_select(set_of(self), wanted, count, &set, &err));
    PyMem_Free(wanted);
    return tarnpy_handle_made(self, status, set, &err);
}

PyObject *tarnpy_handle_keep(PyObject *self, PyObject *mask)
{
    Py_buffer buffer;
    tarn_condition c = TARN_CONDITION_INIT; /* MASK */
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (PyObject_GetBuffer(mask, &buffer, PyBUF_SIMPLE) != 0) return NULL;
    c.mask = buffer.buf;
    TARNPY_UNLOCKED(status, tarn_dataset_filter(set_of(self), &c, &set, &err));
    PyBuffer_Release(&buffer);
    return tarnpy_handle_made(self, status, set, &err);
}

PyObject *tarnpy_handle_order(PyObject *self, PyObject *args, PyObject *kw)
{
    tarnpy_order_args given;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, ":order") ||
        tarnpy_order_options(state_of(self), tarn_dataset_count(set_of(self)), kw,
                             &given) != 0)
        return NULL;
    TARNPY_UNLOCKED(status, tarn_dataset_order(set_of(self), &given.options, &set, &err));
    tarnpy_order_args_free(&given);
    return tarnpy_handle_made(self, status, set, &err);
}

PyObject *tarnpy_handle_split(PyObject *self, PyObject *args)
{
    unsigned long long rank, world_size;
    const char *name;
    tarn_uneven uneven;
    tarn_dataset *set = NULL;
    tarn_error err;
    if (!PyArg_ParseTuple(args, "KKs:split", &rank, &world_size, &name) ||
        tarnpy_uneven(state_of(self), name, &uneven) != 0)
        return NULL;
    tarn_status status =
        tarn_dataset_split(set_of(self), rank, world_size, uneven, &set, &err);
    return tarnpy_handle_made(self, status, set, &err);
}

PyObject *tarnpy_handle_at_epoch(PyObject *self, PyObject *number)
{
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    unsigned long long epoch = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) return NULL;
    TARNPY_UNLOCKED(status, tarn_dataset_at_epoch(set_of(self), epoch, &set, &err));
    return tarnpy_handle_made(self, status, set, &err);
}

/* The samples that filters with a function test: see TARN_CONDITION_MASK. */
PyObject *tarnpy_handle_judged(PyObject *self, PyObject *unused)
{
    tarn_dataset_info info;
    tarn_dataset_info_get(set_of(self), &info, sizeof info);
    if (tarn_dataset_unordered(set_of(self)) != set_of(self) && info.whole)
        return tarnpy_handle_unordered(self, NULL);
    Py_INCREF(self);
    return self;
}

/* Without order and rank: its positions are the numbers of samples. */
PyObject *tarnpy_handle_unordered(PyObject *self, PyObject *unused)
{
    tarn_dataset *set = NULL, *base = tarn_dataset_unordered(set_of(self));
    tarn_error err;
    tarn_status status =
        tarn_dataset_slice(base, 0, 1, tarn_dataset_count(base), &set, &err);
    return tarnpy_handle_made(self, status, set, &err);
}

PyObject *tarnpy_handle_sequence(PyObject *self, PyObject *args)
{
    unsigned long long from, count;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "KK:sequence", &from, &count)) return NULL;
    if (count > tarn_dataset_count(set_of(self)))
        return PyErr_Format(PyExc_IndexError, "cannot use %llu samples of %llu", count,
                            (unsigned long long)tarn_dataset_count(set_of(self)));
    uint64_t *numbers = PyMem_Malloc((size_t)(count + 1) * sizeof *numbers);
    if (!numbers) return PyErr_NoMemory();
    TARNPY_UNLOCKED(status,
                    tarn_dataset_sequence(set_of(self), from, count, numbers, &err));
    if (status == TARN_OK) return tarnpy_indices_new(state_of(self), numbers, count);
    PyMem_Free(numbers);
    return tarnpy_raise(state_of(self), &err);
}

/* --- Batches of a run (tarn/schedule.h) ------------------------------------------------
 */

static PyObject *turn_list(const tarn_turn *turns, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        const tarn_turn *t = &turns[i];
        PyObject *item =
            Py_BuildValue("(KKKKK)", (unsigned long long)t->epoch,
                          (unsigned long long)t->step, (unsigned long long)t->rank,
                          (unsigned long long)t->place, (unsigned long long)t->position);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) Py_CLEAR(list);
    }
    return list;
}

/* when(key, batch, equal_batches, drop_last, epochs): all turns of a sample. */
PyObject *tarnpy_handle_when(PyObject *self, PyObject *args)
{
    const char *key;
    unsigned long long batch, epochs;
    int equal, drop_last;
    size_t room = 64, count = 0;
    tarn_error err;
    tarn_status status = TARN_OK;
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "sKppK:when", &key, &batch, &equal, &drop_last, &epochs))
        return NULL;
    o.batch = batch;
    o.equal_batches = equal;
    o.drop_last = drop_last;
    o.epochs = epochs;
    tarn_turn *turns = PyMem_Malloc(room * sizeof *turns);
    while (turns && status == TARN_OK) {
        TARNPY_UNLOCKED(
            status, tarn_dataset_when(set_of(self), key, &o, turns, room, &count, &err));
        if (status != TARN_OK || count <= room) break;
        room = count;
        PyMem_Free(turns);
        turns = PyMem_Malloc(room * sizeof *turns);
    }
    if (!turns)
        PyErr_NoMemory();
    else if (status != TARN_OK)
        tarnpy_raise(state_of(self), &err);
    else
        result = turn_list(turns, count);
    PyMem_Free(turns);
    return result;
}

/* step(number, batch, equal_batches, drop_last): the samples of a batch. */
PyObject *tarnpy_handle_step(PyObject *self, PyObject *args)
{
    unsigned long long step, batch;
    int equal, drop_last;
    tarn_error err;
    tarn_status status;
    tarn_dataset *set = NULL;
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    if (!PyArg_ParseTuple(args, "KKpp:step", &step, &batch, &equal, &drop_last))
        return NULL;
    o.batch = batch;
    o.equal_batches = equal;
    o.drop_last = drop_last;
    TARNPY_UNLOCKED(status,
                    tarn_dataset_step(set_of(self), step, &o, &set, NULL, 0, &err));
    return tarnpy_handle_made(self, status, set, &err);
}

PyObject *tarnpy_handle_state(PyObject *self, PyObject *number)
{
    tarn_text text = {NULL, 0, 0};
    tarn_error err;
    tarn_status status;
    unsigned long long taken = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) return NULL;
    TARNPY_UNLOCKED(status, tarn_dataset_state(set_of(self), taken, &text, &err));
    PyObject *result = status == TARN_OK ? tarnpy_text(text.data, text.size)
                                         : tarnpy_raise(state_of(self), &err);
    tarn_text_reset(&text);
    return result;
}

PyObject *tarnpy_handle_resume(PyObject *self, PyObject *text)
{
    Py_ssize_t size;
    tarn_dataset *set = NULL;
    tarn_error err;
    tarn_status status;
    const char *data = PyUnicode_AsUTF8AndSize(text, &size);
    if (!data) return NULL;
    TARNPY_UNLOCKED(status,
                    tarn_dataset_resume(set_of(self), data, (size_t)size, &set, &err));
    return tarnpy_handle_made(self, status, set, &err);
}

/* Whether a key can be looked up, ignoring order and rank. */
PyObject *tarnpy_handle_has(PyObject *self, PyObject *key)
{
    uint64_t number;
    tarn_error err;
    tarn_status status;
    if (tarnpy_handle_find(self, key, &number, &status, &err) != 0) return NULL;
    if (status != TARN_OK && status != TARN_ERR_NO_SAMPLE)
        return tarnpy_raise(state_of(self), &err);
    return PyBool_FromLong(status == TARN_OK);
}
