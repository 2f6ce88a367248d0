/* filespy.h: shared by the files about array files (gnz) and record packs (iac), in
 * addition to tarnpy.h. */
#ifndef FILESPY_H
#define FILESPY_H

#include <stdatomic.h>

#include "tarnpy.h"

/* The second parts of tarnpy_add_gnz and tarnpy_add_iac. */
int tarnpy_add_gnz_writer(PyObject *module);
int tarnpy_add_iac_codec(PyObject *module);
int tarnpy_add_iac_many(PyObject *module);
int tarnpy_add_iac_table(PyObject *module);
int tarnpy_add_iac_writer(PyObject *module);
int tarnpy_add_textpair(PyObject *module);

/* --- Reports (report.c) ------------------------------------------------------------ */

#define TARNPY_MAX_PROBLEMS 1000u /* messages that are kept; all problems are counted */

/* Messages about the problems that a verification finds. Initialize with zeros; add is a
 * tarn_notice and does not use Python. */
typedef struct tarnpy_problems {
    char **texts;
    size_t count;
} tarnpy_problems;

void tarnpy_problems_add(void *problems, const tarn_error *what);

/* Returns the messages as a list and frees them. */
PyObject *tarnpy_problems_list(tarnpy_problems *problems);

/* Returns the problems found in path as a list of messages, or NULL with an exception for
 * the status or an interrupt. Takes over path. */
PyObject *tarnpy_problems_end(PyObject *module, PyObject *path, tarnpy_problems *problems,
                              tarn_status status, const tarn_error *err);

/* Runs work in a new thread without the GIL while this thread checks for signals. If a
 * signal handler raises, *stop is set, and the exception is set when the work has
 * ended. */
void tarnpy_run(void (*work)(void *), void *context, atomic_bool *stop);

/* The same, but also calls watch(context) from time to time with the GIL. If it raises,
 * it must return non-zero, and *stop is set. */
void tarnpy_run_watched(void (*work)(void *), void *context, atomic_bool *stop,
                        int (*watch)(void *));

/* A tarn_progress for such work; its context is stop. */
int tarnpy_stopped(void *stop, uint64_t done, uint64_t total);

/* tarnpy_raise for an error from opening path (bytes); IsADirectoryError for a folder. */
PyObject *tarnpy_raise_open(tarnpy_state *state, PyObject *path, const tarn_error *err);

/* A shape as a tuple of ints. */
PyObject *tarnpy_shape(const uint64_t *shape, unsigned ndim);

/* --- Record packs (iac.c, iac_many.c, iac_table.c) --------------------------------- */

/* An open IAC file. Views, tables and Pack objects reference it; the last one closes
 * it. */
typedef struct tarnpy_pack_handle {
    PyObject_HEAD tarn_iac *pack;
    tarnpy_state *state;
    uint64_t rows;
    bool quick; /* payloads are mapped and not checked, so reading one is fast */
} tarnpy_pack_handle;

/* The row for an int, counted from the end if it is negative; IndexError. */
int tarnpy_pack_row(const tarnpy_pack_handle *handle, PyObject *number, uint64_t *out);

/* The handle of an object of the class Pack, opened if necessary; a new reference. */
tarnpy_pack_handle *tarnpy_pack_handle_of(PyObject *pack);

/* One record as a memoryview. */
PyObject *tarnpy_pack_view(tarnpy_pack_handle *handle, uint64_t row);

/* Several records, for an iterable or array of row numbers: as a list of memoryviews, a
 * list of bytes, or (data, offsets) as memoryviews. */
PyObject *tarnpy_pack_views(tarnpy_pack_handle *handle, PyObject *rows);
PyObject *tarnpy_pack_payloads(tarnpy_pack_handle *handle, PyObject *rows);
PyObject *tarnpy_pack_batch(tarnpy_pack_handle *handle, PyObject *rows);

/* A new object for one of the tables of an IAC file. */
PyObject *tarnpy_pack_table(tarnpy_pack_handle *handle, tarn_iac_table which);

/* Takes the Arrow stream from an object with __arrow_c_stream__ or __arrow_c_array__, or
 * from a capsule. */
int tarnpy_stream_from(PyObject *object, struct ArrowArrayStream *out);

#endif
