/* tarnpy.h: shared by the files of the extension. Each file has one subject and one hook,
 * tarnpy_add_<subject>, which adds its types and functions to the module.
 *
 * Rules: only the limited API of Python 3.11 and the public headers of the library; no
 * static Python objects (the module owns all state); everything that takes longer than
 * some microseconds runs without the GIL; threads of the library never call into
 * Python. */
#ifndef TARNPY_H
#define TARNPY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <sys/types.h>

#include <tarn/tarn.h>

/* State of the module. Types are strong references; NULL if a file adds none. */
typedef struct tarnpy_state {
    PyObject *errors;        /* the module tarn.errors, after the first error */
    PyObject *numpy_asarray; /* NULL before the first use, None without NumPy */
    PyObject *json_loads;    /* NULL before the first use */
    PyObject *json_dumps;    /* NULL before the first use */
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

    /* loader.c, loader_batch.c */
    PyTypeObject *loader_type;
    PyTypeObject *loaded_type;

    /* pieces.c */
    PyTypeObject *pieces_type;

    /* arena.c */
    PyTypeObject *arena_type;
    PyTypeObject *block_type;

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
int tarnpy_add_pieces(PyObject *module);
int tarnpy_add_mapping(PyObject *module);
int tarnpy_add_arena(PyObject *module);
int tarnpy_add_collate(PyObject *module);
int tarnpy_add_gnz(PyObject *module);
int tarnpy_add_iac(PyObject *module);
int tarnpy_add_write(PyObject *module);
int tarnpy_add_source(PyObject *module);
int tarnpy_add_stream(PyObject *module);
int tarnpy_add_index(PyObject *module);
int tarnpy_add_pack(PyObject *module);

/* --- Module and types (module.c) --------------------------------------------------- */

/* The state of the module, and of the module that defined a type or one of its base
 * types. */
static inline tarnpy_state *tarnpy_module_state(PyObject *module)
{
    return (tarnpy_state *)PyModule_GetState(module);
}
tarnpy_state *tarnpy_type_state(PyTypeObject *type);

/* Creates a type, stores it in *slot (a member of the state) and adds it to the
 * module. */
int tarnpy_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot);

/* A new object of a type, with zeros after the object header. */
#define TARNPY_NEW(ctype, type) ((ctype *)PyType_GenericAlloc((type), 0))

/* The end of a tp_dealloc: frees the object and releases its type. */
void tarnpy_free(PyObject *self);

/* --- Errors (error.c) -------------------------------------------------------------- */

/* Raises the exception for a tarn_error and returns NULL. The two differ only for
 * TARN_ERR_NOT_FOUND, which means a path for tarnpy_raise and a key for tarnpy_raise_key.
 * An exception that is already set (by a callback) stays. */
PyObject *tarnpy_raise(tarnpy_state *state, const tarn_error *err);
PyObject *tarnpy_raise_key(tarnpy_state *state, const tarn_error *err);

/* Raises tarn.UsageError with a message as for PyErr_Format; returns NULL. */
PyObject *tarnpy_usage(tarnpy_state *state, const char *format, ...);

/* Whether a writer belongs to this process, or RuntimeError: a forked child shares the
 * files of its parent and their positions. */
bool tarnpy_is_own(pid_t pid);

/* For tarnpy_is_own; called once, when the module is imported. */
void tarnpy_watch_forks(void);

/* Adds a note, as for PyErr_Format, to the exception that is set. */
void tarnpy_note(const char *format, ...);

/* Adds where a value is to the exception that is set: to the message of an error of tarn
 * without a path, which then also has this path and offset; as a note to others. path may
 * be NULL. */
void tarnpy_place(tarnpy_state *state, const char *where, const char *path,
                  uint64_t offset);

/* Evaluates an expression that returns a tarn_status, without the GIL. */
#define TARNPY_UNLOCKED(status, expr)                                                    \
    do {                                                                                 \
        Py_BEGIN_ALLOW_THREADS;                                                          \
        (status) = (expr);                                                               \
        Py_END_ALLOW_THREADS;                                                            \
    } while (0)

/* --- Arguments (error.c) ----------------------------------------------------------- */

/* A static const char *const list of names in the type that PyArg_ParseTupleAndKeywords
 * takes. */
#define TARNPY_KEYWORDS(names) ((char **)(uintptr_t)(names))

/* For PyArg_Parse's "O&": a path of str, bytes or os.PathLike as a bytes object, whose
 * PyBytes_AsString is the path. The caller releases it; if a later argument fails,
 * PyArg_Parse does. */
int tarnpy_path(PyObject *object, void *out_bytes);
/* The same, but None gives NULL. */
int tarnpy_path_or_none(PyObject *object, void *out_bytes);
/* For "O&" instead of "K", which does not check: any integer type (also NumPy's) from 0
 * to 2^64 - 1, into a uint64_t. Others raise ValueError. */
int tarnpy_number(PyObject *object, void *out_number);

/* A list of strings that ends with NULL, from any sequence of str; for None items is
 * NULL. tarnpy_strings_free frees and zeroes it. */
typedef struct tarnpy_strings {
    const char **items;
    size_t count;
    PyObject *sequence; /* items point into its strings */
} tarnpy_strings;

int tarnpy_strings_get(PyObject *object, tarnpy_strings *out);
void tarnpy_strings_free(tarnpy_strings *strings);

/* A str as UTF-8, borrowed from it or, if *out_kept is set, from that bytes object, which
 * the caller releases. */
const char *tarnpy_utf8(PyObject *object, PyObject **out_kept);

/* Numbers 0 to limit - 1 from a sequence of ints or an object with the buffer protocol
 * that holds integers (a NumPy array); negative ones count from the end. Freed by
 * PyMem_Free. IndexError if a number is out of range. */
int tarnpy_indices(PyObject *object, uint64_t limit, uint64_t **out, size_t *out_count);

/* An _Indices object of such numbers. Takes over their memory, also on failure. */
PyObject *tarnpy_indices_new(tarnpy_state *state, uint64_t *numbers, size_t count);

/* A str from UTF-8; other bytes become surrogates (as in os.fsdecode). */
PyObject *tarnpy_text(const char *text, size_t size);

/* dict[name] = value. Takes over value, which may be NULL with an exception
 * set. */
static inline int tarnpy_put(PyObject *dict, PyObject *name, PyObject *value)
{
    int failed = value ? PyDict_SetItem(dict, name, value) : -1;
    Py_XDECREF(value);
    return failed;
}

/* --- Bytes and arrays (view.c, array.c) ----------------------------------------------*/

/* A read-only memoryview of the bytes of a view. Takes over the view, also on failure,
 * and references owner (any object that keeps the view valid) until the bytes are no
 * longer used. */
PyObject *tarnpy_view(tarnpy_state *state, tarn_view *view, PyObject *owner);

/* An object that keeps a view, a value and an owner alive; view and value may be NULL,
 * and are taken over, also on failure. */
PyObject *tarnpy_keeper(tarnpy_state *state, tarn_view *view, tarn_value *value,
                        PyObject *owner);

/* An object with the buffer protocol (and __array_interface__) for the elements of array,
 * which owner keeps alive. */
PyObject *tarnpy_array(tarnpy_state *state, const tarn_array *array, bool writable,
                       PyObject *owner);

/* The same as a NumPy array without a copy, or a memoryview without NumPy. */
PyObject *tarnpy_ndarray(tarnpy_state *state, const tarn_array *array, bool writable,
                         PyObject *owner);

/* numpy.asarray of any object; TypeError without NumPy. */
PyObject *tarnpy_as_numpy(tarnpy_state *state, PyObject *object);

/* Describes an object with the buffer protocol (a NumPy array) as a tarn_array that
 * borrows its memory: release *buffer when done. TypeError for unsupported elements. */
int tarnpy_array_from(PyObject *object, Py_buffer *buffer, tarn_array *out);

/* --- Collation (collate.c) --------------------------------------------------------- */

/* How arrays become one, as tarn._collate gives it: None for stacking, () for ragged
 * arrays, or the options of padding. options points into the rest. */
typedef struct tarnpy_form {
    tarn_collate_options options;
    tarn_value value;
    int axes[TARN_MAX_DIMS];
    uint64_t fixed[TARN_MAX_DIMS];
} tarnpy_form;

int tarnpy_form_get(tarnpy_state *state, PyObject *object, tarnpy_form *out);

/* --- Values (value.c) -------------------------------------------------------------- */

/* The Python object for a decoded value: int, float, str, bytes, parsed JSON, a NumPy
 * array, or a list or dict of arrays. Takes over value and view (the bytes it was decoded
 * from, or NULL). */
PyObject *tarnpy_value(tarnpy_state *state, tarn_value *value, tarn_view *view,
                       PyObject *owner);

/* The value of bytes under a field's name. memory is a memoryview, which arrays that
 * point into it keep alive. */
PyObject *tarnpy_decode_memory(tarnpy_state *state, const char *field, PyObject *memory,
                               const tarn_decode_options *options);

/* The tarn_fallback for a Python function of a field's name and its bytes, which is the
 * context and must stay referenced. It returns an object with the buffer protocol. */
tarn_status tarnpy_fallback(void *context, const char *field, const void *data,
                            size_t size, tarn_value *out, tarn_error *err);

/* Appends the bytes of a Python object under a field's name to out; the codecs run
 * without the GIL. Accepts bytes-like objects (written unchanged, unless the field is an
 * array), str, int, float, arrays, dicts and lists (JSON, or arrays). */
int tarnpy_encode(tarnpy_state *state, const char *field, PyObject *object,
                  const tarn_encode_options *options, tarn_bytes *out);

#endif
