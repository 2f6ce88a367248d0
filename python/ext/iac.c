/* iac.c: reads record packs. Pack objects open their file at the first use and again
 * after close, like the readers of iatro-base-iac. The open file is a handle that views
 * and tables share, so that they stay valid after close. */
#include "filespy.h"

#include <stdlib.h>
#include <string.h>

typedef struct pack {
    PyObject_HEAD PyObject *path; /* bytes */
    tarnpy_pack_handle *handle;
    bool check, no_map;
} pack;

/* Payloads smaller than this are copied with the GIL held: releasing it would cost
 * more. */
enum { SMALL = 32 << 10 };

static tarnpy_state *state_of(void *self)
{
    return tarnpy_type_state(Py_TYPE((PyObject *)self));
}

/* --- Handles ----------------------------------------------------------------------- */

static void handle_dealloc(PyObject *self)
{
    tarn_iac_close(((tarnpy_pack_handle *)self)->pack);
    tarnpy_free(self);
}

static PyType_Slot handle_slots[] = {{Py_tp_dealloc, handle_dealloc}, {0, NULL}};
static PyType_Spec handle_spec = {"tarn._tarn._PackHandle", sizeof(tarnpy_pack_handle), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  handle_slots};

static tarnpy_pack_handle *handle_new(pack *self)
{
    tarnpy_state *state = state_of(self);
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_iac_info info;
    tarn_error err;
    tarn_status status;
    o.check = self->check;
    o.no_map = self->no_map;
    tarnpy_pack_handle *h = TARNPY_NEW(tarnpy_pack_handle, state->pack_handle_type);
    if (!h) return NULL;
    PyObject *path = Py_NewRef(self->path);
    const char *name = PyBytes_AsString(path);
    TARNPY_UNLOCKED(status, tarn_iac_open(name, &o, &h->pack, &err));
    if (status != TARN_OK) {
        h->pack = NULL;
        Py_CLEAR(h);
        tarnpy_raise_open(state, path, &err);
    }
    Py_DECREF(path);
    if (!h) return NULL;
    tarn_iac_info_get(h->pack, &info, sizeof info);
    h->state = state;
    h->rows = info.records;
    h->quick = info.mapped && !self->check;
    return h;
}

/* Two threads may open the file at the same time; the second one discards its handle. */
static bool ensure(pack *self)
{
    if (self->handle) return true;
    if (!self->path) {
        PyErr_SetString(PyExc_RuntimeError, "Pack.__init__ was not called");
        return false;
    }
    tarnpy_pack_handle *made = handle_new(self);
    if (!made) return false;
    if (!self->handle)
        self->handle = made;
    else
        Py_DECREF(made);
    return true;
}

tarnpy_pack_handle *tarnpy_pack_handle_of(PyObject *self)
{
    pack *p = (pack *)self;
    return ensure(p) ? (tarnpy_pack_handle *)Py_NewRef((PyObject *)p->handle) : NULL;
}

/* --- Arguments --------------------------------------------------------------------- */

/* The single argument of a call, given by position or by name; borrowed. */
static PyObject *single(PyObject *const *args, Py_ssize_t count, PyObject *names,
                        const char *name)
{
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    if (count + named != 1) {
        PyErr_Format(PyExc_TypeError, "expected one argument (%s), not %zd", name,
                     count + named);
        return NULL;
    }
    if (named && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), name) != 0) {
        PyErr_Format(PyExc_TypeError, "unexpected argument %R; the only argument is %s",
                     PyTuple_GetItem(names, 0), name);
        return NULL;
    }
    return args[0];
}

/* A method with one argument that may be given by name. */
#define ONE_ARGUMENT(function, argument)                                                 \
    static PyObject *function##_call(PyObject *self, PyObject *const *args,              \
                                     Py_ssize_t count, PyObject *names)                  \
    {                                                                                    \
        PyObject *given =                                                                \
            count == 1 && !names ? args[0] : single(args, count, names, #argument);      \
        return given ? function(self, given) : NULL;                                     \
    }
#define CALL(function) (PyCFunction)(void (*)(void)) function##_call
#define ONE            (METH_FASTCALL | METH_KEYWORDS)

/* --- One payload ------------------------------------------------------------------- */

static int no_such_row(const tarnpy_pack_handle *handle, PyObject *number)
{
    PyErr_Format(PyExc_IndexError, "no record %S; the file has %llu records", number,
                 (unsigned long long)handle->rows);
    return -1;
}

int tarnpy_pack_row(const tarnpy_pack_handle *handle, PyObject *number, uint64_t *out)
{
    int over = 0;
    PyObject *index = PyLong_Check(number) ? Py_NewRef(number) : PyNumber_Index(number);
    if (!index) return -1;
    long long row = PyLong_AsLongLongAndOverflow(index, &over);
    Py_DECREF(index);
    if (row < 0 && !over) row += (long long)handle->rows;
    if (over || row < 0 || (uint64_t)row >= handle->rows)
        return no_such_row(handle, number);
    *out = (uint64_t)row;
    return 0;
}

/* The bytes of a view, which is released. */
static PyObject *bytes_of(tarn_view *view)
{
    PyObject *bytes;
    if (view->size < SMALL) {
        bytes =
            PyBytes_FromStringAndSize((const char *)view->data, (Py_ssize_t)view->size);
    } else if ((bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)view->size))) {
        char *to = PyBytes_AsString(bytes);
        Py_BEGIN_ALLOW_THREADS;
        memcpy(to, view->data, view->size);
        Py_END_ALLOW_THREADS;
    }
    tarn_view_release(view);
    return bytes;
}

static tarn_status get_view(const tarnpy_pack_handle *h, uint64_t row, tarn_view *out,
                            tarn_error *err)
{
    tarn_status status;
    if (h->quick) return tarn_iac_view(h->pack, row, false, out, err);
    TARNPY_UNLOCKED(status, tarn_iac_view(h->pack, row, false, out, err));
    return status;
}

static PyObject *pack_read_payload(PyObject *self, PyObject *number)
{
    pack *p = (pack *)self;
    tarn_view view;
    tarn_error err;
    uint64_t row;
    if (!ensure(p)) return NULL;
    tarnpy_pack_handle *h = (tarnpy_pack_handle *)Py_NewRef((PyObject *)p->handle);
    PyObject *bytes = NULL;
    if (tarnpy_pack_row(h, number, &row) != 0)
        ;
    else if (get_view(h, row, &view, &err) == TARN_OK)
        bytes = bytes_of(&view);
    else
        tarnpy_raise(h->state, &err);
    Py_DECREF(h);
    return bytes;
}

ONE_ARGUMENT(pack_read_payload, row)

PyObject *tarnpy_pack_view(tarnpy_pack_handle *h, uint64_t row)
{
    tarn_view view;
    tarn_error err;
    if (get_view(h, row, &view, &err) != TARN_OK) return tarnpy_raise(h->state, &err);
    return tarnpy_view(h->state, &view, (PyObject *)h);
}

static PyObject *pack_view(PyObject *self, PyObject *number)
{
    uint64_t row;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    PyObject *view =
        tarnpy_pack_row(h, number, &row) == 0 ? tarnpy_pack_view(h, row) : NULL;
    Py_DECREF(h);
    return view;
}

ONE_ARGUMENT(pack_view, row)

static PyObject *pack_decode(PyObject *self, PyObject *number)
{
    tarn_view view;
    tarn_error err;
    uint64_t row;
    tarn_status status;
    PyObject *bytes = NULL;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    if (tarnpy_pack_row(h, number, &row) == 0) {
        TARNPY_UNLOCKED(status, tarn_iac_view(h->pack, row, true, &view, &err));
        bytes = status == TARN_OK ? bytes_of(&view) : tarnpy_raise(h->state, &err);
    }
    Py_DECREF(h);
    return bytes;
}

ONE_ARGUMENT(pack_decode, row)

static PyObject *pack_locate(PyObject *self, PyObject *number)
{
    tarn_iac_span s;
    tarn_error err;
    uint64_t row;
    PyObject *found = NULL;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    if (tarnpy_pack_row(h, number, &row) != 0)
        ;
    else if (tarn_iac_locate(h->pack, row, &s, &err) != TARN_OK)
        tarnpy_raise(h->state, &err);
    else
        found = Py_BuildValue(
            "KKN", (unsigned long long)s.offset, (unsigned long long)s.length,
            s.has_crc ? PyLong_FromUnsignedLong(s.crc32) : Py_NewRef(Py_None));
    Py_DECREF(h);
    return found;
}

ONE_ARGUMENT(pack_locate, row)

/* --- Several payloads -------------------------------------------------------------- */

/* Calls a function of iac_many.c with the handle. */
static PyObject *with_rows(PyObject *self, PyObject *rows,
                           PyObject *(*read)(tarnpy_pack_handle *, PyObject *))
{
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    PyObject *result = read(h, rows);
    Py_DECREF(h);
    return result;
}

static PyObject *pack_views(PyObject *self, PyObject *rows)
{
    return with_rows(self, rows, tarnpy_pack_views);
}

ONE_ARGUMENT(pack_views, rows)

static PyObject *pack_read_payloads(PyObject *self, PyObject *rows)
{
    return with_rows(self, rows, tarnpy_pack_payloads);
}

ONE_ARGUMENT(pack_read_payloads, rows)

static PyObject *pack_read_batch(PyObject *self, PyObject *rows)
{
    return with_rows(self, rows, tarnpy_pack_batch);
}

/* --- Spans ------------------------------------------------------------------------- */

static PyObject *pack_span(PyObject *self, PyObject *args)
{
    long long offset, length;
    tarn_view view;
    tarn_error err;
    tarn_status status;
    PyObject *bytes = NULL;
    if (!PyArg_ParseTuple(args, "LL", &offset, &length)) return NULL;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    if (offset < 0 || length < 0) {
        tarnpy_usage(h->state, "%lld bytes at offset %lld are outside the data segment",
                     length, offset);
    } else {
        TARNPY_UNLOCKED(status, tarn_iac_view_span(h->pack, (uint64_t)offset,
                                                   (uint64_t)length, &view, &err));
        bytes = status == TARN_OK ? bytes_of(&view) : tarnpy_raise(h->state, &err);
    }
    Py_DECREF(h);
    return bytes;
}

/* --- Information ------------------------------------------------------------------- */

static PyObject *pack_info(PyObject *self, PyObject *unused)
{
    tarn_iac_info i;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    tarn_iac_info_get(h->pack, &i, sizeof i);
    PyObject *info = Py_BuildValue(
        "{sIsKsKsKsKsKsOsOsKsssssO}", "version", i.version, "records",
        (unsigned long long)i.records, "slides", (unsigned long long)i.slides,
        "data_offset", (unsigned long long)i.data_offset, "data_length",
        (unsigned long long)i.data_length, "file_size", (unsigned long long)i.file_size,
        "has_spans", i.has_spans ? Py_True : Py_False, "has_checksums",
        i.has_checksums ? Py_True : Py_False, "record_bytes",
        (unsigned long long)i.record_bytes, "codec", i.codec, "payload_type",
        i.payload_type, "mapped", i.mapped ? Py_True : Py_False);
    Py_DECREF(h);
    return info;
}

static PyObject *pack_header_text(PyObject *self, PyObject *unused)
{
    tarn_iac_info info;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    tarn_iac_info_get(h->pack, &info, sizeof info);
    PyObject *text =
        PyUnicode_DecodeUTF8(info.header, (Py_ssize_t)info.header_length, NULL);
    Py_DECREF(h);
    return text;
}

static tarn_status find_row(tarn_iac *from_pack, const char *column, const char *value,
                            size_t size, uint64_t from, bool last, uint64_t *out,
                            tarn_error *err)
{
    TARN_TRY(tarn_iac_find(from_pack, column, value, size, from, out, err));
    while (last) {
        uint64_t next;
        tarn_status status =
            tarn_iac_find(from_pack, column, value, size, *out + 1, &next, err);
        if (status == TARN_ERR_NO_SAMPLE) break;
        TARN_TRY(status);
        *out = next;
    }
    return TARN_OK;
}

static PyObject *pack_find(PyObject *self, PyObject *args)
{
    const char *column, *value;
    Py_ssize_t size;
    unsigned long long from;
    int last;
    uint64_t row;
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "ss#Kp", &column, &value, &size, &from, &last))
        return NULL;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    TARNPY_UNLOCKED(
        status, find_row(h->pack, column, value, (size_t)size, from, last, &row, &err));
    Py_DECREF(h);
    if (status != TARN_OK) return tarnpy_raise_key(state_of(self), &err);
    return PyLong_FromUnsignedLongLong(row);
}

static PyObject *pack_table(PyObject *self, PyObject *args)
{
    int which;
    if (!PyArg_ParseTuple(args, "i", &which)) return NULL;
    tarnpy_pack_handle *h = tarnpy_pack_handle_of(self);
    if (!h) return NULL;
    PyObject *table = tarnpy_pack_table(h, which ? TARN_IAC_INDEX : TARN_IAC_SLIDES);
    Py_DECREF(h);
    return table;
}

static Py_ssize_t pack_length(PyObject *self)
{
    pack *p = (pack *)self;
    return ensure(p) ? (Py_ssize_t)p->handle->rows : -1;
}

/* --- Lifetime ---------------------------------------------------------------------- */

static int pack_init(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {(char *)"package_path", (char *)"check", (char *)"mapped",
                            NULL};
    pack *p = (pack *)self;
    PyObject *path;
    int check = 0, mapped = 1;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O&|$pp", names, tarnpy_path, &path,
                                     &check, &mapped))
        return -1;
    Py_XDECREF(p->path);
    p->path = path;
    Py_CLEAR(p->handle);
    p->check = check;
    p->no_map = !mapped;
    return 0;
}

static PyObject *pack_close(PyObject *self, PyObject *unused)
{
    Py_CLEAR(((pack *)self)->handle);
    Py_RETURN_NONE;
}

static PyObject *pack_open(PyObject *self, PyObject *unused)
{
    if (!ensure((pack *)self)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *pack_opened(PyObject *self, void *unused)
{
    return PyBool_FromLong(((pack *)self)->handle != NULL);
}

static void pack_dealloc(PyObject *self)
{
    Py_XDECREF(((pack *)self)->path);
    Py_XDECREF((PyObject *)((pack *)self)->handle);
    tarnpy_free(self);
}

static PyMethodDef pack_methods[] = {
    {"read_payload", CALL(pack_read_payload), ONE,
     "read_payload(row)\n--\n\nReturns the bytes of one record. Negative rows count from "
     "the end."},
    {"read_payloads", CALL(pack_read_payloads), ONE,
     "read_payloads(rows)\n--\n\nReturns the bytes of several records, in the order of "
     "rows."},
    {"read_payload_views", CALL(pack_views), ONE,
     "read_payload_views(rows)\n--\n\nReturns several records as memoryviews into the "
     "file, which stay valid after close."},
    {"view", CALL(pack_view), ONE,
     "view(row)\n--\n\nReturns one record as a memoryview into the file, without a "
     "copy."},
    {"decode", CALL(pack_decode), ONE,
     "decode(row)\n--\n\nReturns one record, decoded with the codec of the header."},
    {"locate", CALL(pack_locate), ONE,
     "locate(row)\n--\n\nReturns (offset, length, crc32 or None) of a record in the data "
     "segment."},
    {"_batch", pack_read_batch, METH_O, "(data, offsets) of several records"},
    {"_span", pack_span, METH_VARARGS, "_span(offset, length): bytes"},
    {"_info", pack_info, METH_NOARGS, "a dict"},
    {"_header_text", pack_header_text, METH_NOARGS, "the JSON of the header"},
    {"_find", pack_find, METH_VARARGS, "_find(column, value, from, last): row"},
    {"_table", pack_table, METH_VARARGS, "_table(0 slides, 1 index)"},
    {"_open", pack_open, METH_NOARGS, "open now"},
    {"close", pack_close, METH_NOARGS,
     "close()\n--\n\nCloses the file. Views and tables stay valid; the next use opens "
     "the "
     "file again."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef pack_attributes[] = {
    {"opened", pack_opened, NULL, "Whether the file is currently open.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot pack_slots[] = {
    {Py_tp_dealloc, pack_dealloc},
    {Py_tp_init, pack_init},
    {Py_tp_methods, pack_methods},
    {Py_tp_getset, pack_attributes},
    {Py_sq_length, pack_length},
    {Py_tp_doc, (void *)"A record pack: records and two tables."},
    {0, NULL}};
static PyType_Spec pack_spec = {"tarn._tarn.Pack", sizeof(pack), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, pack_slots};

int tarnpy_add_iac(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &handle_spec, &state->pack_handle_type) != 0 ||
        tarnpy_add_type(module, &pack_spec, &state->pack_type) != 0 ||
        tarnpy_add_iac_codec(module) != 0 || tarnpy_add_iac_many(module) != 0 ||
        tarnpy_add_iac_table(module) != 0 || tarnpy_add_iac_writer(module) != 0)
        return -1;
    return tarnpy_add_textpair(module);
}
