/* filespy.h: what the files about arrays (gnz) and packs (iac) share besides tarnpy.h. */
#ifndef FILESPY_H
#define FILESPY_H

#include <stdatomic.h>

#include "tarnpy.h"

/* The second halves of tarnpy_add_gnz and tarnpy_add_iac. */
int tarnpy_add_gnz_writer(PyObject *module);
int tarnpy_add_iac_codec(PyObject *module);
int tarnpy_add_iac_many(PyObject *module);
int tarnpy_add_iac_table(PyObject *module);
int tarnpy_add_iac_writer(PyObject *module);
int tarnpy_add_textpair(PyObject *module);

/* --- Reports (report.c) ------------------------------------------------------------ */

#define TARNPY_MAX_PROBLEMS 1000u /* texts that are kept; all are counted */

/* The texts of what a verification finds. Begins as zero; add is a tarn_notice and does
 * not touch Python. */
typedef struct tarnpy_problems {
    char **texts;
    size_t count;
} tarnpy_problems;

void tarnpy_problems_add(void *problems, const tarn_error *what);

/* The texts as a list; frees them. */
PyObject *tarnpy_problems_list(tarnpy_problems *problems);

/* What a verification of path found, as a list of texts; or NULL with the exception that
 * its status or an interrupt stands for. Takes path over. */
PyObject *tarnpy_problems_end(PyObject *module, PyObject *path, tarnpy_problems *problems,
                              tarn_status status, const tarn_error *err);

/* Does work in a thread of its own, without the GIL, while this one looks for signals.
 * Where a handler raises, *stop is set, and the exception is there when the work has
 * ended. */
void tarnpy_run(void (*work)(void *), void *context, atomic_bool *stop);

/* The same, and watch(context) is called now and then, with the GIL. If it raises, it
 * returns non-zero, and *stop is set. */
void tarnpy_run_watched(void (*work)(void *), void *context, atomic_bool *stop,
                        int (*watch)(void *));

/* A tarn_progress for such work; its context is stop. */
int tarnpy_stopped(void *stop, uint64_t done, uint64_t total);

/* tarnpy_raise for what opening a path (bytes) said; a folder is IsADirectoryError. */
PyObject *tarnpy_raise_open(tarnpy_state *state, PyObject *path, const tarn_error *err);

/* A tuple of ints. */
PyObject *tarnpy_shape(const uint64_t *shape, unsigned ndim);

/* --- Packs (iac.c, iac_many.c, iac_table.c) ---------------------------------------- */

/* An open pack. Views, tables and Pack objects reference it; the last one closes it. */
typedef struct tarnpy_pack_handle {
    PyObject_HEAD tarn_iac *pack;
    tarnpy_state *state;
    uint64_t rows;
    bool quick; /* a payload is there at once: mapped, and no checksum is wanted */
} tarnpy_pack_handle;

/* The row that an int means, negative ones from the end; IndexError. */
int tarnpy_pack_row(const tarnpy_pack_handle *handle, PyObject *number, uint64_t *out);

/* The handle of a Pack object, opened if need be; a new reference. */
tarnpy_pack_handle *tarnpy_pack_handle_of(PyObject *pack);

/* One record as a memoryview. */
PyObject *tarnpy_pack_view(tarnpy_pack_handle *handle, uint64_t row);

/* Several, of an iterable or array of row numbers: a list of memoryviews, a list of
 * bytes, (data, offsets) as memoryviews. */
PyObject *tarnpy_pack_views(tarnpy_pack_handle *handle, PyObject *rows);
PyObject *tarnpy_pack_payloads(tarnpy_pack_handle *handle, PyObject *rows);
PyObject *tarnpy_pack_batch(tarnpy_pack_handle *handle, PyObject *rows);

/* A new object over one of the pack's tables. */
PyObject *tarnpy_pack_table(tarnpy_pack_handle *handle, tarn_iac_table which);

/* Takes the Arrow stream out of an object with __arrow_c_stream__ or __arrow_c_array__,
 * or a capsule of one. */
int tarnpy_stream_from(PyObject *object, struct ArrowArrayStream *out);

#endif
