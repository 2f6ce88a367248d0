/* tarnpy.h: what the files of the extension share. Each has one subject and one hook,
 * tarnpy_add_<subject>, which puts its types and functions into the module.
 *
 * Rules: only the limited API of Python 3.11 and the public headers of the library; no
 * static Python objects (all state is the module's); whatever takes longer than some
 * microseconds runs without the GIL; threads of the library never call into Python.
 */
#ifndef TARNPY_H
#define TARNPY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <sys/types.h>

#include <tarn/tarn.h>

/* What the module owns. Types are strong references; NULL where a file adds none. */
typedef struct tarnpy_state {
    PyObject *errors;        /* the module tarn.errors, once something has failed */
    PyObject *numpy_asarray; /* NULL before it is looked for, None without NumPy */
    PyObject *json_loads;    /* NULL before it is looked for */
    PyObject *json_dumps;    /* the same */
    PyObject *key_name;      /* "__key__" */

    /* view.c, array.c */
    PyTypeObject *view_type;
    PyTypeObject *keeper_type;
    PyTypeObject *array_type;

    /* dataset.c */
    PyTypeObject *handle_type;
    PyTypeObject *dataset_type;
    PyTypeObject *batch_type;
    PyTypeObject *iterator_type;

    /* order.c */
    PyTypeObject *order_type;
    PyTypeObject *indices_type;
    PyTypeObject *views_type;

    /* loader.c */
    PyTypeObject *loader_type;
    PyTypeObject *loaded_type;

    /* gnz.c */
    PyTypeObject *gnz_file_type;
    PyTypeObject *gnz_view_type;
    PyTypeObject *gnz_writer_type;

    /* iac.c */
    PyTypeObject *pack_type;
    PyTypeObject *pack_handle_type;
    PyTypeObject *pack_batch_type;
    PyTypeObject *pack_table_type;
    PyTypeObject *pack_writer_type;

    /* write.c */
    PyTypeObject *writer_type;

    /* source.c */
    PyTypeObject *source_type;
    PyTypeObject *sink_type;

    /* stream.c */
    PyTypeObject *samples_type;
    PyTypeObject *members_type;

    /* index.c */
    PyTypeObject *index_type;
} tarnpy_state;

/* Hooks; each returns 0, or -1 with an exception. */
int tarnpy_add_view(PyObject *module);
int tarnpy_add_array(PyObject *module);
int tarnpy_add_value(PyObject *module);
int tarnpy_add_dataset(PyObject *module);
int tarnpy_add_order(PyObject *module);
int tarnpy_add_image(PyObject *module);
int tarnpy_add_loader(PyObject *module);
int tarnpy_add_gnz(PyObject *module);
int tarnpy_add_iac(PyObject *module);
int tarnpy_add_write(PyObject *module);
int tarnpy_add_source(PyObject *module);
int tarnpy_add_stream(PyObject *module);
int tarnpy_add_index(PyObject *module);
int tarnpy_add_pack(PyObject *module);

/* --- Module and types (module.c) --------------------------------------------------- */

/* The state of the module, and of the module that made a type or the type it is derived
 * from. */
static inline tarnpy_state *tarnpy_module_state(PyObject *module)
{
    return (tarnpy_state *)PyModule_GetState(module);
}
tarnpy_state *tarnpy_type_state(PyTypeObject *type);

/* Makes a type of the module, keeps it in *slot (a place in the state) and adds it to the
 * module. */
int tarnpy_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot);

/* An object of a type whose bytes behind the head are zero. */
#define TARNPY_NEW(ctype, type) ((ctype *)PyType_GenericAlloc((type), 0))

/* The end of a tp_dealloc: frees the object and gives its type back. */
void tarnpy_free(PyObject *self);

/* --- Errors (error.c) -------------------------------------------------------------- */

/* Raises what a tarn_error says, and returns NULL. The two differ in TARN_ERR_NOT_FOUND
 * alone, which is a path for tarnpy_raise and a key for tarnpy_raise_key. An exception
 * that is set already (by a callback) stays. */
PyObject *tarnpy_raise(tarnpy_state *state, const tarn_error *err);
PyObject *tarnpy_raise_key(tarnpy_state *state, const tarn_error *err);

/* Raises tarn.UsageError with a message as of PyErr_Format; returns NULL. */
PyObject *tarnpy_usage(tarnpy_state *state, const char *format, ...);

/* Whether a writer is of this process, or RuntimeError: a child shares its parent's
 * files, and where they are written next. */
bool tarnpy_is_own(pid_t pid);

/* Adds a note, as of PyErr_Format, to the exception that is set. */
void tarnpy_note(const char *format, ...);

/* Runs an expression that gives a tarn_status without the GIL. */
#define TARNPY_UNLOCKED(status, expr)                                                    \
    do {                                                                                 \
        Py_BEGIN_ALLOW_THREADS;                                                          \
        (status) = (expr);                                                               \
        Py_END_ALLOW_THREADS;                                                            \
    } while (0)

/* --- Arguments (error.c) ----------------------------------------------------------- */

/* A static const char *const list of names, as PyArg_ParseTupleAndKeywords takes it. */
#define TARNPY_KEYWORDS(names) ((char **)(uintptr_t)(names))

/* For PyArg_Parse's "O&": a path of str, bytes or os.PathLike as a bytes object, of which
 * PyBytes_AsString is the path. The caller gives it back (also after a later argument
 * failed, as PyArg_Parse does by itself). */
int tarnpy_path(PyObject *object, void *out_bytes);
/* The same, but None leaves NULL. */
int tarnpy_path_or_none(PyObject *object, void *out_bytes);
/* For "O&" where "K" would do but for what it lets pass: any integer type (NumPy's too)
 * from 0 to 2^64 - 1, into a uint64_t. Others are a ValueError. */
int tarnpy_number(PyObject *object, void *out_number);

/* A list of strings that ends with NULL, from any sequence of str; None gives an empty
 * one with items NULL. Freed by tarnpy_strings_free, which zeroes it. */
typedef struct tarnpy_strings {
    const char **items;
    size_t count;
    PyObject *sequence; /* whose strings items point into */
} tarnpy_strings;

int tarnpy_strings_get(PyObject *object, tarnpy_strings *out);
void tarnpy_strings_free(tarnpy_strings *strings);

/* A str as UTF-8, borrowed from it or, if *out_kept comes back set, from that bytes
 * object, which the caller gives back. */
const char *tarnpy_utf8(PyObject *object, PyObject **out_kept);

/* Numbers 0 to limit - 1 from an int sequence or anything with the buffer protocol that
 * holds integers (a NumPy array); negative ones count from the end. Memory by PyMem_Free.
 * IndexError where one is out of range. */
int tarnpy_indices(PyObject *object, uint64_t limit, uint64_t **out, size_t *out_count);

/* An _Indices object of such numbers, whose memory it takes over whatever comes. */
PyObject *tarnpy_indices_new(tarnpy_state *state, uint64_t *numbers, size_t count);

/* "text" as a str, of UTF-8 with what is none as surrogates (as os.fsdecode does). */
PyObject *tarnpy_text(const char *text, size_t size);

/* dict[name] = value. The value is taken over, and may be NULL with an exception set. */
static inline int tarnpy_put(PyObject *dict, PyObject *name, PyObject *value)
{
    int failed = value ? PyDict_SetItem(dict, name, value) : -1;
    Py_XDECREF(value);
    return failed;
}

/* --- Bytes and arrays (view.c, array.c) ----------------------------------------------*/

/* A read-only memoryview of a view's bytes. The view is taken over, whatever comes, and
 * owner (any object whose life keeps the view valid) is referenced until nobody looks at
 * the bytes any more. */
PyObject *tarnpy_view(tarnpy_state *state, tarn_view *view, PyObject *owner);

/* An object that keeps a view, a value and an owner until nobody needs them; view and
 * value may be NULL, and are taken over whatever comes. */
PyObject *tarnpy_keeper(tarnpy_state *state, tarn_view *view, tarn_value *value,
                        PyObject *owner);

/* An object with the buffer protocol (and __array_interface__) over array's elements,
 * which owner keeps alive. */
PyObject *tarnpy_array(tarnpy_state *state, const tarn_array *array, bool writable,
                       PyObject *owner);

/* The same as a NumPy array without a copy; without NumPy a memoryview. */
PyObject *tarnpy_ndarray(tarnpy_state *state, const tarn_array *array, bool writable,
                         PyObject *owner);

/* numpy.asarray of any object; TypeError without NumPy. */
PyObject *tarnpy_as_numpy(tarnpy_state *state, PyObject *object);

/* Describes an object with the buffer protocol (a NumPy array) as a tarn_array that
 * borrows it: release *buffer when done. TypeError for elements that have no dtype. */
int tarnpy_array_from(PyObject *object, Py_buffer *buffer, tarn_array *out);

/* --- Values (value.c) -------------------------------------------------------------- */

/* The Python object of a decoded value: int, float, str, bytes, what JSON says, a NumPy
 * array, a list or dict of them. value and view (the bytes it was made of; may be NULL)
 * are taken over. */
PyObject *tarnpy_value(tarnpy_state *state, tarn_value *value, tarn_view *view,
                       PyObject *owner);

/* The value of bytes under a field's name. memory is a memoryview, which arrays that lie
 * in it keep. */
PyObject *tarnpy_decode_memory(tarnpy_state *state, const char *field, PyObject *memory);

/* The bytes of a Python object under a field's name, appended to out; the tarn codecs do
 * it without the GIL. Takes bytes-like objects (as they are, unless the field is an
 * array's), str, int, float, arrays, dicts and lists (JSON, or arrays). */
int tarnpy_encode(tarnpy_state *state, const char *field, PyObject *object,
                  const tarn_encode_options *options, tarn_bytes *out);

#endif
