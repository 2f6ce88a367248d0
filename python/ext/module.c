/* module.c: the module tarn._tarn: its state, its types, and the command line program. */
#include "tarnpy.h"

#include <stdlib.h>
#include <string.h>

static PyModuleDef module_def;

int tarn_command_main(int argc, char **argv);

tarnpy_state *tarnpy_type_state(PyTypeObject *type)
{
    for (; type; type = (PyTypeObject *)PyType_GetSlot(type, Py_tp_base)) {
        PyObject *module = NULL;
        if (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) module = PyType_GetModule(type);
        if (module && PyModule_GetDef(module) == &module_def)
            return tarnpy_module_state(module);
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_TypeError, "not a type of tarn");
    return NULL;
}

int tarnpy_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot)
{
    *slot = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (!*slot) return -1;
    return PyModule_AddType(module, *slot);
}

void tarnpy_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* --- Command ------------------------------------------------------------------------ */

PyDoc_STRVAR(main_doc,
             "main(argv)\n--\n\nRuns the command in this process and returns its "
             "exit status; argv[0] is its name.");

/* Only for a process that ends afterwards: the command has static state and catches
 * SIGINT. */
static PyObject *run_main(PyObject *module, PyObject *argument)
{
    PyObject *list = PySequence_List(argument);
    if (!list) return NULL;
    Py_ssize_t count = PyList_Size(list);
    char **argv = PyMem_Calloc((size_t)count + 1, sizeof *argv);
    int status = argv ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        PyObject *bytes = NULL;
        if (!tarnpy_path(PyList_GetItem(list, i), &bytes)) {
            status = -1;
            break;
        }
        argv[i] = strdup(PyBytes_AsString(bytes));
        Py_DECREF(bytes);
        if (!argv[i]) status = -1;
    }
    if (status != 0 && !PyErr_Occurred()) PyErr_NoMemory();
    if (status == 0) {
        Py_BEGIN_ALLOW_THREADS;
        status = tarn_command_main((int)count, argv);
        Py_END_ALLOW_THREADS;
    }
    for (Py_ssize_t i = 0; argv && i < count; i++)
        free(argv[i]);
    PyMem_Free(argv);
    Py_DECREF(list);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(status);
}

static PyMethodDef methods[] = {
    {"main", run_main, METH_O, main_doc},
    {NULL, NULL, 0, NULL},
};

/* --- Module lifetime ---------------------------------------------------------------- */

static int execute(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    state->key_name = PyUnicode_InternFromString("__key__");
    if (!state->key_name) return -1;
    tarnpy_watch_forks();
    if (!getenv("TARN_NO_GUARD")) (void)tarn_guard_maps();
    int (*const hooks[])(PyObject *) = {
        tarnpy_add_view,   tarnpy_add_array,   tarnpy_add_value,   tarnpy_add_dataset,
        tarnpy_add_order,  tarnpy_add_loader,  tarnpy_add_gnz,     tarnpy_add_iac,
        tarnpy_add_write,  tarnpy_add_source,  tarnpy_add_stream,  tarnpy_add_image,
        tarnpy_add_index,  tarnpy_add_pack,    tarnpy_add_collate, tarnpy_add_arena,
        tarnpy_add_pieces, tarnpy_add_mapping,
    };
    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++)
        if (hooks[i](module) != 0) return -1;
    return PyModule_AddStringConstant(module, "__version__", tarn_version());
}

/* The state consists only of references. */
#define STATE_REFERENCES (sizeof(tarnpy_state) / sizeof(PyObject *))

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    PyObject **held = (PyObject **)PyModule_GetState(module);
    for (size_t i = 0; held && i < STATE_REFERENCES; i++)
        Py_VISIT(held[i]);
    return 0;
}

static int clear(PyObject *module)
{
    PyObject **held = (PyObject **)PyModule_GetState(module);
    for (size_t i = 0; held && i < STATE_REFERENCES; i++)
        Py_CLEAR(held[i]);
    return 0;
}

static void release(void *module)
{
    clear((PyObject *)module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

PyDoc_STRVAR(module_doc, "The native types of tarn's classes; use the module tarn.");

static PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "tarn._tarn",
    .m_doc = module_doc,
    .m_size = sizeof(tarnpy_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__tarn(void);
PyMODINIT_FUNC PyInit__tarn(void)
{
    return PyModuleDef_Init(&module_def);
}
