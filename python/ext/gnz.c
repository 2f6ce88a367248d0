/* gnz.c: reads array files. The file object is the handle itself: arrays that point into
 * it keep a reference to it. Closing only drops a reference, so no array ever points to
 * freed memory. */
#include "filespy.h"

#include <string.h>

typedef struct gnz_file {
    PyObject_HEAD tarn_gnz *gnz;
} gnz_file;

/* The values of one array. The buffer protocol exports them as bytes in the order of the
 * file. NumPy calls flush on the object that a memmap was made from. */
typedef struct gnz_view {
    PyObject_HEAD tarn_gnz_view view;
    gnz_file *file;
    tarn_gnz_mode mode;
} gnz_view;

static tarnpy_state *state_of(void *self)
{
    return tarnpy_type_state(Py_TYPE((PyObject *)self));
}

/* --- Views ------------------------------------------------------------------------- */

static void view_dealloc(PyObject *self)
{
    gnz_view *v = (gnz_view *)self;
    tarn_gnz_view_release(&v->view);
    Py_XDECREF((PyObject *)v->file);
    tarnpy_free(self);
}

static int view_getbuffer(PyObject *self, Py_buffer *out, int flags)
{
    static char nothing; /* so that an empty array has an address, too */
    gnz_view *v = (gnz_view *)self;
    uint64_t bytes = tarn_array_bytes(&v->view.array);
    void *data = bytes ? v->view.array.data : &nothing;
    return PyBuffer_FillInfo(out, self, data, (Py_ssize_t)bytes, v->mode == TARN_GNZ_READ,
                             flags);
}

static PyObject *view_flush(PyObject *self, PyObject *unused)
{
    gnz_view *v = (gnz_view *)self;
    tarn_status status = TARN_OK;
    tarn_error err;
    if (v->mode == TARN_GNZ_WRITE)
        TARNPY_UNLOCKED(status, tarn_gnz_flush(v->file->gnz, &err));
    if (status != TARN_OK) return tarnpy_raise(state_of(self), &err);
    Py_RETURN_NONE;
}

static PyMethodDef view_methods[] = {
    {"flush", view_flush, METH_NOARGS,
     "Waits until the data written in mode r+ is on the disk."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot view_slots[] = {{Py_tp_dealloc, view_dealloc},
                                   {Py_bf_getbuffer, view_getbuffer},
                                   {Py_tp_methods, view_methods},
                                   {0, NULL}};
static PyType_Spec view_spec = {"tarn._tarn._GnzView", sizeof(gnz_view), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                view_slots};

static bool mode_named(const char *name, tarn_gnz_mode *out)
{
    static const char *const names[] = {"r", "r+", "c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (tarn_gnz_mode)i;
        return true;
    }
    PyErr_Format(PyExc_ValueError, "mode must be 'r', 'r+' or 'c', not '%s'", name);
    return false;
}

static gnz_view *view_new(gnz_file *f, PyObject *args)
{
    const char *name;
    Py_ssize_t number;
    tarn_error err;
    tarn_status status;
    tarn_gnz_mode mode;
    if (!PyArg_ParseTuple(args, "ns", &number, &name) || !mode_named(name, &mode))
        return NULL;
    gnz_view *v = TARNPY_NEW(gnz_view, state_of(f)->gnz_view_type);
    if (!v) return NULL;
    TARNPY_UNLOCKED(status, tarn_gnz_get(f->gnz, (size_t)number, mode, &v->view, &err));
    if (status != TARN_OK) {
        memset(&v->view, 0, sizeof v->view);
        Py_DECREF(v);
        return (gnz_view *)tarnpy_raise_key(state_of(f), &err);
    }
    v->file = (gnz_file *)Py_NewRef((PyObject *)f);
    v->mode = mode;
    return v;
}

static PyObject *file_view(PyObject *self, PyObject *args)
{
    return (PyObject *)view_new((gnz_file *)self, args);
}

static PyObject *file_array(PyObject *self, PyObject *args)
{
    gnz_view *v = view_new((gnz_file *)self, args);
    if (!v) return NULL;
    PyObject *array = tarnpy_ndarray(state_of(self), &v->view.array,
                                     v->mode != TARN_GNZ_READ, (PyObject *)v);
    Py_DECREF(v);
    return array;
}

/* --- Contents ---------------------------------------------------------------------- */

static PyObject *entry_tuple(const tarn_gnz_array *info)
{
    char dtype[TARN_DTYPE_TEXT_MAX];
    PyObject *shape = tarnpy_shape(info->shape, info->ndim);
    PyObject *checksum =
        info->has_checksum ? PyLong_FromUnsignedLong(info->checksum) : Py_NewRef(Py_None);
    if (!shape || !checksum) {
        Py_XDECREF(shape);
        Py_XDECREF(checksum);
        return NULL;
    }
    return Py_BuildValue("ssNKKsKNO", info->name, tarn_dtype_text(info->dtype, dtype),
                         shape, (unsigned long long)info->offset,
                         (unsigned long long)info->bytes, info->fortran ? "F" : "C",
                         (unsigned long long)info->reserved, checksum,
                         info->is_field ? Py_True : Py_False);
}

static PyObject *file_entries(PyObject *self, PyObject *unused)
{
    gnz_file *f = (gnz_file *)self;
    PyObject *list = PyList_New(0);
    tarn_gnz_info whole;
    tarn_gnz_info_get(f->gnz, &whole, sizeof whole);
    for (size_t i = 0; list && i < whole.arrays; i++) {
        tarn_gnz_array info;
        tarn_error err;
        PyObject *entry =
            tarn_gnz_array_get(f->gnz, i, &info, sizeof info, &err) == TARN_OK
                ? entry_tuple(&info)
                : tarnpy_raise(state_of(self), &err);
        if (!entry || PyList_Append(list, entry) != 0) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *file_metadata(PyObject *self, PyObject *unused)
{
    tarn_gnz_info info;
    tarn_gnz_info_get(((gnz_file *)self)->gnz, &info, sizeof info);
    return PyUnicode_DecodeUTF8(info.metadata, (Py_ssize_t)info.metadata_size, NULL);
}

static PyObject *file_sizes(PyObject *self, PyObject *unused)
{
    tarn_gnz_info info;
    tarn_gnz_info_get(((gnz_file *)self)->gnz, &info, sizeof info);
    return Py_BuildValue("KKK", (unsigned long long)info.header_size,
                         (unsigned long long)info.header_space,
                         (unsigned long long)info.file_size);
}

static PyObject *file_find(PyObject *self, PyObject *name)
{
    size_t number;
    tarn_error err;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    if (tarn_gnz_find(((gnz_file *)self)->gnz, text, &number, &err) != TARN_OK)
        return tarnpy_raise_key(state_of(self), &err);
    return PyLong_FromSize_t(number);
}

/* --- Values ------------------------------------------------------------------------ */

static PyObject *file_read_into(PyObject *self, PyObject *args)
{
    gnz_file *f = (gnz_file *)self;
    Py_ssize_t number;
    unsigned long long first, rows;
    Py_buffer to;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "nKKw*", &number, &first, &rows, &to)) return NULL;
    TARNPY_UNLOCKED(status, tarn_gnz_read(f->gnz, (size_t)number, first, rows, to.buf,
                                          (size_t)to.len, &err));
    PyBuffer_Release(&to);
    if (status != TARN_OK) return tarnpy_raise_key(state_of(self), &err);
    Py_RETURN_NONE;
}

static PyObject *file_advise(PyObject *self, PyObject *args)
{
    Py_ssize_t number;
    unsigned long long first, rows;
    int advice;
    if (!PyArg_ParseTuple(args, "nKKi", &number, &first, &rows, &advice)) return NULL;
    tarn_gnz_advise(((gnz_file *)self)->gnz, (size_t)number, first, rows,
                    (tarn_gnz_advice)advice);
    Py_RETURN_NONE;
}

static PyObject *bins_list(const tarn_gnz_stats *stats)
{
    PyObject *list = PyList_New(TARN_GNZ_BINS);
    for (unsigned i = 0; list && i < TARN_GNZ_BINS; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(stats->bins[i]);
        if (!count || PyList_SetItem(list, i, count) != 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *file_stats(PyObject *self, PyObject *arg)
{
    gnz_file *f = (gnz_file *)self;
    tarn_gnz_stats s;
    tarn_error err;
    tarn_status status;
    size_t number = PyLong_AsSize_t(arg);
    if (PyErr_Occurred()) return NULL;
    TARNPY_UNLOCKED(status, tarn_gnz_stats_get(f->gnz, number, &s, sizeof s, &err));
    if (status != TARN_OK) return tarnpy_raise_key(state_of(self), &err);
    PyObject *bins = bins_list(&s);
    if (!bins) return NULL;
    return Py_BuildValue("KKKdddddN", (unsigned long long)s.count,
                         (unsigned long long)s.nans, (unsigned long long)s.infinities,
                         s.min, s.max, s.mean, s.low, s.high, bins);
}

/* --- The file ---------------------------------------------------------------------- */

static void file_dealloc(PyObject *self)
{
    tarn_gnz_close(((gnz_file *)self)->gnz);
    tarnpy_free(self);
}

static PyMethodDef file_methods[] = {
    {"view", file_view, METH_VARARGS, "view(number, mode): the values as bytes"},
    {"array", file_array, METH_VARARGS, "array(number, mode): a NumPy array"},
    {"entries", file_entries, METH_NOARGS,
     "(name, dtype, shape, offset, bytes, order, reserved, checksum, is_field) of each "
     "array"},
    {"metadata", file_metadata, METH_NOARGS, "the metadata as JSON"},
    {"sizes", file_sizes, METH_NOARGS,
     "(size of the header, space for the header, size of the file)"},
    {"find", file_find, METH_O, "the number of an array"},
    {"read_into", file_read_into, METH_VARARGS,
     "read_into(number, first, rows, buffer): copies rows without a map"},
    {"advise", file_advise, METH_VARARGS, "advise(number, first, rows, advice)"},
    {"stats", file_stats, METH_O,
     "(count, nans, infinities, min, max, mean, low, high, bins) of an array"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot file_slots[] = {
    {Py_tp_dealloc, file_dealloc}, {Py_tp_methods, file_methods}, {0, NULL}};
static PyType_Spec file_spec = {"tarn._tarn.GnzFile", sizeof(gnz_file), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                file_slots};

static PyObject *gnz_open(PyObject *module, PyObject *args)
{
    tarnpy_state *state = tarnpy_module_state(module);
    tarn_gnz_options options = TARN_GNZ_OPTIONS_INIT;
    PyObject *path;
    int mapped;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "O&p", tarnpy_path, &path, &mapped)) return NULL;
    options.io = mapped ? TARN_IO_AUTO : TARN_IO_READ;
    gnz_file *f = TARNPY_NEW(gnz_file, state->gnz_file_type);
    if (!f) {
        Py_DECREF(path);
        return NULL;
    }
    const char *name = PyBytes_AsString(path);
    TARNPY_UNLOCKED(status, tarn_gnz_open(name, &options, &f->gnz, &err));
    if (status != TARN_OK) {
        f->gnz = NULL;
        Py_CLEAR(f);
        tarnpy_raise_open(state, path, &err);
    }
    Py_DECREF(path);
    return (PyObject *)f;
}

typedef struct verification {
    const char *name;
    tarn_verify_options options;
    tarn_verify_report report;
    tarn_status status;
    tarn_error err;
} verification;

static void do_verify(void *context)
{
    verification *v = context;
    v->status = tarn_verify(v->name, &v->options, &v->report, sizeof v->report, &v->err);
}

/* The report of an array file or, without repair, of a record pack. */
static PyObject *verify(PyObject *module, PyObject *args)
{
    verification v = {.options = TARN_VERIFY_OPTIONS_INIT};
    PyObject *path;
    tarnpy_problems problems = {0};
    atomic_bool stop = false;
    int arrays, repair;
    if (!PyArg_ParseTuple(args, "O&ppI", tarnpy_path, &path, &arrays, &repair,
                          &v.options.threads))
        return NULL;
    v.name = PyBytes_AsString(path);
    v.options.as = arrays ? TARN_VERIFY_ARRAYS : TARN_VERIFY_RECORDS;
    v.options.repair = repair;
    v.options.problem = tarnpy_problems_add;
    v.options.problem_context = &problems;
    v.options.progress = tarnpy_stopped;
    v.options.progress_context = &stop;
    tarnpy_run(do_verify, &v, &stop);
    PyObject *list = tarnpy_problems_end(module, path, &problems, v.status, &v.err);
    if (!list) return NULL;
    const tarn_verify_report *r = &v.report;
    return Py_BuildValue("KKKKKN", (unsigned long long)(arrays ? r->members : r->samples),
                         (unsigned long long)r->bytes, (unsigned long long)r->checksummed,
                         (unsigned long long)r->problems, (unsigned long long)r->repairs,
                         list);
}

static PyMethodDef functions[] = {
    {"gnz_open", gnz_open, METH_VARARGS, "gnz_open(path, mapped)"},
    {"verify", verify, METH_VARARGS,
     "verify(path, arrays, repair, threads): (count, bytes, checksummed, problems, "
     "repairs, [text])"},
    {NULL, NULL, 0, NULL}};

int tarnpy_add_gnz(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &view_spec, &state->gnz_view_type) != 0 ||
        tarnpy_add_type(module, &file_spec, &state->gnz_file_type) != 0 ||
        PyModule_AddFunctions(module, functions) != 0)
        return -1;
    return tarnpy_add_gnz_writer(module);
}
