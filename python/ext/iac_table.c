/* iac_table.c: imports and exports tables through the Arrow PyCapsule interface. Exports
 * copy nothing: the arrays point into the map of the file and keep it alive, even after
 * the file and all Python objects are closed. */
#include "filespy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct table {
    PyObject_HEAD tarnpy_pack_handle *handle;
    tarn_iac_table which;
} table;

#define STREAM "arrow_array_stream"
#define SCHEMA "arrow_schema"
#define ARRAY  "arrow_array"

/* --- Capsules ---------------------------------------------------------------------- */

/* A consumer moves the struct out and sets release to NULL; otherwise the capsule frees
 * it. */
static void free_stream(PyObject *capsule)
{
    struct ArrowArrayStream *s = PyCapsule_GetPointer(capsule, STREAM);
    if (s && s->release) s->release(s);
    free(s);
}

static void free_schema(PyObject *capsule)
{
    struct ArrowSchema *s = PyCapsule_GetPointer(capsule, SCHEMA);
    if (s && s->release) s->release(s);
    free(s);
}

static void free_array(PyObject *capsule)
{
    struct ArrowArray *a = PyCapsule_GetPointer(capsule, ARRAY);
    if (a && a->release) a->release(a);
    free(a);
}

static PyObject *capsule_of(size_t size, const char *name, PyCapsule_Destructor end,
                            void **out)
{
    *out = calloc(1, size);
    if (!*out) return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(*out, name, end);
    if (!capsule) free(*out);
    return capsule;
}

/* --- Export ------------------------------------------------------------------------ */

static int export_stream(table *t, struct ArrowArrayStream *out)
{
    tarn_error err;
    tarn_status status;
    TARNPY_UNLOCKED(status, tarn_iac_export(t->handle->pack, t->which, out, &err));
    if (status == TARN_OK) return 0;
    out->release = NULL;
    tarnpy_raise(t->handle->state, &err);
    return -1;
}

/* The interface allows to ignore the requested schema; the consumer can cast. */
static PyObject *table_stream(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {(char *)"requested_schema", NULL};
    PyObject *wish = Py_None;
    void *stream;
    if (!PyArg_ParseTupleAndKeywords(args, named, "|O", names, &wish)) return NULL;
    PyObject *capsule =
        capsule_of(sizeof(struct ArrowArrayStream), STREAM, free_stream, &stream);
    if (capsule && export_stream((table *)self, stream) != 0) Py_CLEAR(capsule);
    return capsule;
}

static PyObject *stream_failed(struct ArrowArrayStream *s, int code)
{
    const char *why = s->get_last_error(s);
    PyErr_Format(PyExc_ValueError, "the Arrow stream failed: %s",
                 why ? why : strerror(code));
    return NULL;
}

static PyObject *schema_of(struct ArrowArrayStream *s)
{
    void *schema;
    PyObject *capsule =
        capsule_of(sizeof(struct ArrowSchema), SCHEMA, free_schema, &schema);
    int code = capsule ? s->get_schema(s, schema) : 0;
    if (code != 0) {
        Py_CLEAR(capsule);
        stream_failed(s, code);
    }
    return capsule;
}

static PyObject *table_schema(PyObject *self, PyObject *unused)
{
    struct ArrowArrayStream stream;
    if (export_stream((table *)self, &stream) != 0) return NULL;
    PyObject *capsule = schema_of(&stream);
    stream.release(&stream);
    return capsule;
}

/* The batch with a number, or NULL with IndexError. */
static PyObject *array_of(struct ArrowArrayStream *s, Py_ssize_t number)
{
    void *memory;
    PyObject *capsule = capsule_of(sizeof(struct ArrowArray), ARRAY, free_array, &memory);
    struct ArrowArray *array = memory;
    for (Py_ssize_t i = 0; capsule && i <= number; i++) {
        if (array->release) array->release(array);
        memset(array, 0, sizeof *array);
        int code = s->get_next(s, array);
        if (code != 0) {
            stream_failed(s, code);
            Py_CLEAR(capsule);
        } else if (!array->release) {
            PyErr_Format(PyExc_IndexError, "no batch %zd", number);
            Py_CLEAR(capsule);
        }
    }
    return capsule;
}

static PyObject *table_batch(PyObject *self, PyObject *argument)
{
    struct ArrowArrayStream stream;
    Py_ssize_t number = PyLong_AsSsize_t(argument);
    if (PyErr_Occurred() || export_stream((table *)self, &stream) != 0) return NULL;
    PyObject *schema = schema_of(&stream);
    PyObject *array = schema ? array_of(&stream, number) : NULL;
    stream.release(&stream);
    if (schema && array) return Py_BuildValue("NN", schema, array);
    Py_XDECREF(schema);
    Py_XDECREF(array);
    return NULL;
}

/* The number of rows of each batch. */
static PyObject *table_batches(PyObject *self, PyObject *unused)
{
    struct ArrowArrayStream s;
    struct ArrowArray array;
    if (export_stream((table *)self, &s) != 0) return NULL;
    PyObject *list = PyList_New(0);
    while (list) {
        int code = s.get_next(&s, &array);
        if (code != 0) {
            stream_failed(&s, code);
            Py_CLEAR(list);
        }
        if (code != 0 || !array.release) break;
        PyObject *rows = PyLong_FromLongLong(array.length);
        array.release(&array);
        if (!rows || PyList_Append(list, rows) != 0) Py_CLEAR(list);
        Py_XDECREF(rows);
    }
    s.release(&s);
    return list;
}

/* --- Names, types, values ---------------------------------------------------------- */

static PyObject *table_columns(PyObject *self, PyObject *unused)
{
    table *t = (table *)self;
    const tarn_iac *pack = t->handle->pack;
    PyObject *list = PyList_New(0);
    tarn_iac_column c;
    for (size_t i = 0;
         list && tarn_iac_column_get(pack, t->which, i, &c, sizeof c, NULL) == TARN_OK;
         i++) {
        PyObject *pair = Py_BuildValue("NN", tarnpy_text(c.name, strlen(c.name)),
                                       tarnpy_text(c.type, strlen(c.type)));
        if (!pair || PyList_Append(list, pair) != 0) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

typedef struct text {
    char *data;
    size_t size, room;
} text;

static bool text_add(text *t, const void *data, size_t size)
{
    if (size > t->room - t->size) {
        size_t room = 2 * t->room + size + 256;
        char *bigger = realloc(t->data, room);
        if (!bigger) return false;
        t->data = bigger;
        t->room = room;
    }
    memcpy(t->data + t->size, data, size);
    t->size += size;
    return true;
}

static tarn_status no_memory(tarn_error *err)
{
    *err = (tarn_error){.code = TARN_ERR_MEMORY, .offset = TARN_NO_OFFSET};
    memcpy(err->message, "out of memory", sizeof "out of memory");
    return TARN_ERR_MEMORY;
}

static tarn_status column_text(table *t, size_t column, uint64_t first, uint64_t end,
                               text *out, tarn_error *err)
{
    if (!text_add(out, "[", 1)) return no_memory(err);
    for (uint64_t row = first; row < end; row++) {
        tarn_view value;
        TARN_TRY(tarn_iac_value(t->handle->pack, t->which, column, row, &value, err));
        bool kept = (row == first || text_add(out, ",", 1)) &&
                    text_add(out, value.data, value.size);
        tarn_view_release(&value);
        if (!kept) return no_memory(err);
    }
    return text_add(out, "]", 1) ? TARN_OK : no_memory(err);
}

/* The values of a column as one JSON list, so that Python parses only once. */
static PyObject *table_values(PyObject *self, PyObject *args)
{
    table *t = (table *)self;
    Py_ssize_t column;
    unsigned long long first, end;
    text out = {0};
    tarn_error err;
    tarn_status status;
    if (!PyArg_ParseTuple(args, "nKK", &column, &first, &end)) return NULL;
    TARNPY_UNLOCKED(status, column_text(t, (size_t)column, first, end, &out, &err));
    PyObject *json = status == TARN_OK
                         ? PyUnicode_DecodeUTF8(out.data, (Py_ssize_t)out.size, NULL)
                         : tarnpy_raise_key(t->handle->state, &err);
    free(out.data);
    return json;
}

static void table_dealloc(PyObject *self)
{
    Py_XDECREF((PyObject *)((table *)self)->handle);
    tarnpy_free(self);
}

static PyMethodDef table_methods[] = {
    {"__arrow_c_stream__", (PyCFunction)(void (*)(void))table_stream,
     METH_VARARGS | METH_KEYWORDS, "The table as an Arrow C stream."},
    {"__arrow_c_schema__", table_schema, METH_NOARGS, "The Arrow C schema of the table."},
    {"_batch", table_batch, METH_O, "_batch(number): (schema, array)"},
    {"_batches", table_batches, METH_NOARGS, "rows of each batch"},
    {"_columns", table_columns, METH_NOARGS, "[(name, type)]"},
    {"_values", table_values, METH_VARARGS, "_values(column, first, end): JSON"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot table_slots[] = {
    {Py_tp_dealloc, table_dealloc}, {Py_tp_methods, table_methods}, {0, NULL}};
static PyType_Spec table_spec = {"tarn._tarn.PackTable", sizeof(table), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 table_slots};

PyObject *tarnpy_pack_table(tarnpy_pack_handle *handle, tarn_iac_table which)
{
    table *t = TARNPY_NEW(table, handle->state->pack_table_type);
    if (!t) return NULL;
    t->handle = (tarnpy_pack_handle *)Py_NewRef((PyObject *)handle);
    t->which = which;
    return (PyObject *)t;
}

/* --- Import ------------------------------------------------------------------------ */

/* One array as a stream of one batch. */
typedef struct single {
    struct ArrowSchema schema;
    struct ArrowArray array;
} single;

static int single_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    single *one = s->private_data;
    if (!one->schema.release) return EINVAL;
    *out = one->schema;
    one->schema.release = NULL;
    return 0;
}

static int single_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    single *one = s->private_data;
    *out = one->array;
    one->array.release = NULL;
    return 0;
}

static const char *single_error(struct ArrowArrayStream *s)
{
    return "the schema was requested twice";
}

static void single_release(struct ArrowArrayStream *s)
{
    single *one = s->private_data;
    if (one->schema.release) one->schema.release(&one->schema);
    if (one->array.release) one->array.release(&one->array);
    free(one);
    s->release = NULL;
}

static int take_single(PyObject *pair, struct ArrowArrayStream *out)
{
    PyObject *schema_capsule, *array_capsule;
    if (!PyArg_ParseTuple(pair, "OO", &schema_capsule, &array_capsule)) return -1;
    struct ArrowSchema *schema = PyCapsule_GetPointer(schema_capsule, SCHEMA);
    struct ArrowArray *array = schema ? PyCapsule_GetPointer(array_capsule, ARRAY) : NULL;
    single *one = array ? calloc(1, sizeof *one) : NULL;
    if (!one) {
        if (array) PyErr_NoMemory();
        return -1;
    }
    one->schema = *schema;
    one->array = *array;
    schema->release = NULL;
    array->release = NULL;
    *out = (struct ArrowArrayStream){single_schema, single_next, single_error,
                                     single_release, one};
    return 0;
}

static int take_stream(PyObject *capsule, struct ArrowArrayStream *out)
{
    struct ArrowArrayStream *s = PyCapsule_GetPointer(capsule, STREAM);
    if (!s) return -1;
    if (!s->release) {
        PyErr_SetString(PyExc_ValueError, "the Arrow stream was already consumed");
        return -1;
    }
    *out = *s;
    s->release = NULL;
    return 0;
}

int tarnpy_stream_from(PyObject *object, struct ArrowArrayStream *out)
{
    PyObject *given;
    int failed;
    if (PyCapsule_IsValid(object, STREAM)) return take_stream(object, out);
    if ((given = PyObject_CallMethod(object, "__arrow_c_stream__", NULL))) {
        failed = take_stream(given, out);
    } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        given = PyObject_CallMethod(object, "__arrow_c_array__", NULL);
        if (!given) {
            if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
            PyErr_Format(PyExc_TypeError,
                         "expected an Arrow table (pyarrow, polars, pandas, ...), not %R",
                         (PyObject *)Py_TYPE(object));
            return -1;
        }
        failed = take_single(given, out);
    } else {
        return -1;
    }
    Py_DECREF(given);
    return failed;
}

int tarnpy_add_iac_table(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    return tarnpy_add_type(module, &table_spec, &state->pack_table_type);
}
