/* view.c: bytes of the library as Python objects. A _View exports the bytes of a
 * tarn_view through the buffer protocol; users get a memoryview, which keeps it alive. A
 * _Keeper only keeps memory alive for arrays that point into it. */
#include "tarnpy.h"

typedef struct view_object {
    PyObject_HEAD tarn_view view;
    PyObject *owner;
} view_object;

/* --- _View -------------------------------------------------------------------------- */

static int view_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    view_object *object = (view_object *)self;
    static const unsigned char nothing[1];
    const void *data = object->view.size ? object->view.data : nothing;
    return PyBuffer_FillInfo(buffer, self, (void *)(uintptr_t)data,
                             (Py_ssize_t)object->view.size, 1, flags);
}

static void view_dealloc(PyObject *self)
{
    view_object *object = (view_object *)self;
    tarn_view_release(&object->view);
    Py_XDECREF(object->owner);
    tarnpy_free(self);
}

static PyType_Slot view_slots[] = {
    {Py_tp_dealloc, view_dealloc},
    {Py_bf_getbuffer, view_buffer},
    {0, NULL},
};

static PyType_Spec view_spec = {
    .name = "tarn._tarn._View",
    .basicsize = sizeof(view_object),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = view_slots,
};

PyObject *tarnpy_view(tarnpy_state *state, tarn_view *view, PyObject *owner)
{
    view_object *object = TARNPY_NEW(view_object, state->view_type);
    if (!object) {
        tarn_view_release(view);
        return NULL;
    }
    object->view = *view;
    *view = (tarn_view)TARN_VIEW_INIT;
    Py_XINCREF(owner);
    object->owner = owner;
    PyObject *memory = PyMemoryView_FromObject((PyObject *)object);
    Py_DECREF(object);
    return memory;
}

/* --- _Keeper ------------------------------------------------------------------------ */

typedef struct keeper_object {
    PyObject_HEAD tarn_view view;
    tarn_value value;
    PyObject *owner;
} keeper_object;

static void keeper_dealloc(PyObject *self)
{
    keeper_object *object = (keeper_object *)self;
    tarn_value_release(&object->value);
    tarn_view_release(&object->view);
    Py_XDECREF(object->owner);
    tarnpy_free(self);
}

static PyType_Slot keeper_slots[] = {
    {Py_tp_dealloc, keeper_dealloc},
    {0, NULL},
};

static PyType_Spec keeper_spec = {
    .name = "tarn._tarn._Keeper",
    .basicsize = sizeof(keeper_object),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = keeper_slots,
};

PyObject *tarnpy_keeper(tarnpy_state *state, tarn_view *view, tarn_value *value,
                        PyObject *owner)
{
    keeper_object *object = TARNPY_NEW(keeper_object, state->keeper_type);
    if (!object) {
        if (value) tarn_value_release(value);
        if (view) tarn_view_release(view);
        return NULL;
    }
    if (view) {
        object->view = *view;
        *view = (tarn_view)TARN_VIEW_INIT;
    }
    if (value) {
        object->value = *value;
        *value = (tarn_value)TARN_VALUE_INIT;
    }
    Py_XINCREF(owner);
    object->owner = owner;
    return (PyObject *)object;
}

int tarnpy_add_view(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &view_spec, &state->view_type) != 0) return -1;
    return tarnpy_add_type(module, &keeper_spec, &state->keeper_type);
}
