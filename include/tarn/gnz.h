/* tarn/gnz.h: named arrays in one file, each on a page of its own, mapped and used in
 * place.
 *
 *     tarn_gnz *file;
 *     tarn_gnz_view x;
 *     size_t number;
 *     if (tarn_gnz_open("features.gnz", NULL, &file, &err) != TARN_OK ||
 *         tarn_gnz_find(file, "x", &number, &err) != TARN_OK ||
 *         tarn_gnz_get(file, number, TARN_GNZ_READ, &x, &err) != TARN_OK)
 *         return fail(&err);
 *     const float *row = tarn_gnz_row(&x.array, 42);
 *     ...
 *     tarn_gnz_view_release(&x);
 *     tarn_gnz_close(file);
 *
 * and the other way:
 *
 *     tarn_gnz_writer *out;
 *     if (tarn_gnz_writer_new("features.gnz", NULL, &out, &err) != TARN_OK) ...
 *     if (tarn_gnz_writer_add(out, "ids", &ids, NULL, &err) != TARN_OK ||
 *         tarn_gnz_writer_reserve(out, "x", dtype, 2, shape, 0, &x, &err) != TARN_OK ||
 *         tarn_gnz_writer_begin(out, &err) != TARN_OK ||
 *         tarn_gnz_writer_append(out, x, &block, &err) != TARN_OK) {
 *         tarn_gnz_writer_abandon(out);
 *         return fail(&err);
 *     }
 *     return tarn_gnz_writer_finish(out, &err);
 *
 * The format is docs/formats/gnz.md. Everything a header says is checked when the file is
 * opened, before anything is mapped.
 */
#ifndef TARN_GNZ_H
#define TARN_GNZ_H

#include <tarn/array.h>
#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_GNZ_PAGE       4096u
#define TARN_MAX_GNZ_HEADER (64u << 20) /* bytes of JSON */
#define TARN_MAX_GNZ_PAGES  (TARN_MAX_GNZ_HEADER / TARN_GNZ_PAGE)
#define TARN_GNZ_RESERVED   "__tarn__" /* the key in the metadata that is ours */

/* --- Reading --------------------------------------------------------------------- */

/* Any number of threads may use one open file, except to close it. */
typedef struct tarn_gnz tarn_gnz;

typedef struct tarn_gnz_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_io io;  /* how arrays are brought into memory */
} tarn_gnz_options;

#define TARN_GNZ_OPTIONS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_gnz_options)                                                 \
    }
TARN_API void tarn_gnz_options_init(tarn_gnz_options *options, size_t size);

/* Opens and checks: the header fits the file and is the JSON it should be, names are
 * unique, each array has a type, order and shape that are known and lies inside the file,
 * behind the header, on a page boundary, apart from all others. options may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_open(const char *path,
                                                const tarn_gnz_options *options,
                                                tarn_gnz **out, tarn_error *err);
TARN_API void tarn_gnz_close(tarn_gnz *gnz);

/* Arrays have numbers from 0, in the order of the header, which is that of their names
 * where Python or this library wrote it. */
TARN_API size_t tarn_gnz_count(const tarn_gnz *gnz);

typedef struct tarn_gnz_info {
    const char *name; /* UTF-8; borrowed, like shape, until the file is closed */
    tarn_dtype dtype;
    unsigned ndim;
    const uint64_t *shape;
    uint64_t offset;   /* in the file */
    uint64_t bytes;    /* of the values */
    uint64_t reserved; /* rows there is room for; shape[0] unless more were reserved */
    bool fortran;      /* the first index runs fastest */
    bool has_checksum;
    uint32_t checksum; /* CRC-32C of the values */
} tarn_gnz_info;

/* TARN_ERR_NO_FIELD past the end. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_info_get(const tarn_gnz *gnz, size_t number,
                                                    tarn_gnz_info *out, size_t size,
                                                    tarn_error *err);
TARN_API TARN_CHECKED tarn_status tarn_gnz_find(const tarn_gnz *gnz, const char *name,
                                                size_t *out, tarn_error *err);

/* The metadata: one JSON object as Python writes it, without the key that is ours.
 * Borrowed, NUL-terminated; *out_len may be NULL. */
TARN_API const char *tarn_gnz_metadata(const tarn_gnz *gnz, size_t *out_len);

/* Bytes before the first array, the header's own included: what an update may use. */
TARN_API uint64_t tarn_gnz_header_space(const tarn_gnz *gnz);
TARN_API uint64_t tarn_gnz_header_size(const tarn_gnz *gnz);
TARN_API uint64_t tarn_gnz_file_size(const tarn_gnz *gnz);

typedef enum tarn_gnz_mode {
    TARN_GNZ_READ = 0,  /* NumPy's "r": must not be written to */
    TARN_GNZ_WRITE = 1, /* "r+": what is written goes to the file; checksums go stale */
    TARN_GNZ_COPY = 2   /* "c": what is written stays with this view */
} tarn_gnz_mode;

/* The values where they lie. Byte order and text are as in the file: see array.dtype.
 * strides tell the order. */
typedef struct tarn_gnz_view {
    tarn_array array;
    void *owned; /* private */
    size_t owned_size;
    bool mapped;
} tarn_gnz_view;

/* Borrowed until it is released, and never longer than the file is open. The file's
 * length is looked at first, so one that was truncated is TARN_ERR_TRUNCATED; one that is
 * truncated while a view is in use kills the process with SIGBUS when the lost part is
 * touched, or reads as zeros after tarn_guard_maps. Where that cannot be excluded use
 * TARN_IO_READ, which copies, or tarn_gnz_read. TARN_IO_AUTO maps on local file systems
 * and copies elsewhere; TARN_GNZ_WRITE needs a map. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_get(tarn_gnz *gnz, size_t number,
                                               tarn_gnz_mode mode, tarn_gnz_view *out,
                                               tarn_error *err);
TARN_API void tarn_gnz_view_release(tarn_gnz_view *view);

/* Waits until what was written through TARN_GNZ_WRITE views is on the disk. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_flush(tarn_gnz *gnz, tarn_error *err);

/* Row i of an array with one dimension or more: a pointer addition. In an array of
 * Fortran order the elements of a row do not lie together; strides tell. */
TARN_API TARN_INLINE void *tarn_gnz_row(const tarn_array *array, uint64_t i);
#ifndef TARN_BINDINGS
TARN_INLINE void *tarn_gnz_row(const tarn_array *array, uint64_t i)
{
    return (char *)array->data + (int64_t)i * array->strides[0];
}
#endif

/* Copies rows (an array without dimensions is one row) into buf, the last index fastest
 * whatever the order in the file. TARN_ERR_LIMIT if size is too small. Never uses a map,
 * so it is safe whatever happens to the file. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_read(tarn_gnz *gnz, size_t number,
                                                uint64_t first, uint64_t rows, void *buf,
                                                size_t size, tarn_error *err);

typedef enum tarn_gnz_advice {
    TARN_GNZ_NORMAL = 0,
    TARN_GNZ_SEQUENTIAL = 1,
    TARN_GNZ_RANDOM = 2,
    TARN_GNZ_WILL_NEED = 3, /* begin to read these rows now */
    TARN_GNZ_DONT_NEED = 4  /* they need not stay in memory */
} tarn_gnz_advice;

/* Tells the system how rows will be used. Advice only: nothing fails. */
TARN_API void tarn_gnz_advise(tarn_gnz *gnz, size_t number, uint64_t first, uint64_t rows,
                              tarn_gnz_advice advice);

/* --- Rows as samples --------------------------------------------------------------- */

/* Arrays whose first dimensions are equal are the fields of samples: sample i is row i of
 * each. With names, those arrays, which must agree; without (NULL), the largest group of
 * arrays that agree, of two equally large groups the one with more rows. fields has room
 * for tarn_gnz_count numbers (n_names, with names). TARN_ERR_NO_FIELD if no array has
 * rows. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_samples(
    const tarn_gnz *gnz, const char *const *names, size_t n_names, size_t *fields,
    size_t *out_n_fields, uint64_t *out_samples, tarn_error *err);

/* The bytes of one row, the last index fastest: a view into the map where the row lies
 * together, a copy elsewhere. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_sample(tarn_gnz *gnz, size_t number,
                                                  uint64_t row, tarn_view *out,
                                                  tarn_error *err);

/* --- Looking closer ---------------------------------------------------------------- */

#define TARN_GNZ_BINS 16u

/* As doubles, so integers above 2^53 are rounded. NaN is counted and left out; infinities
 * are in min and max, and left out of mean and bins. */
typedef struct tarn_gnz_stats {
    uint64_t count, nans, infinities;
    double min, max, mean;
    double low, high; /* of the finite values: the ends of the bins */
    uint64_t bins[TARN_GNZ_BINS];
} tarn_gnz_stats;

/* TARN_ERR_UNSUPPORTED for complex numbers and text. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_stats_get(tarn_gnz *gnz, size_t number,
                                                     tarn_gnz_stats *out, size_t size,
                                                     tarn_error *err);

typedef struct tarn_gnz_verify_options {
    size_t size; /* of this struct; set by the initialiser */
    bool repair; /* finish an update that was interrupted, or take it back */
    tarn_notice problem;
    void *problem_context;
    tarn_progress progress;
    void *progress_context;
} tarn_gnz_verify_options;

#define TARN_GNZ_VERIFY_OPTIONS_INIT                                                     \
    {                                                                                    \
        .size = sizeof(tarn_gnz_verify_options)                                          \
    }
TARN_API void tarn_gnz_verify_options_init(tarn_gnz_verify_options *options, size_t size);

typedef struct tarn_gnz_report {
    uint64_t arrays, bytes;
    uint64_t checksummed; /* arrays that were compared with their checksum */
    uint64_t problems;
    uint64_t repairs;
} tarn_gnz_report;

/* Checks what opening checks, every checksum, and that all bytes between arrays are zero.
 * TARN_OK means that the check was made: report->problems tells. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_verify(const char *path,
                                                  const tarn_gnz_verify_options *options,
                                                  tarn_gnz_report *report, size_t size,
                                                  tarn_error *err);

/* --- Writing ----------------------------------------------------------------------- */

/* new or update → metadata, add, reserve → begin → fill, append, map → finish or abandon.
 * fill, append and map may be called by any number of threads at once; everything else
 * needs the writer for itself. */
typedef struct tarn_gnz_writer tarn_gnz_writer;

typedef struct tarn_gnz_writer_options {
    size_t size;           /* of this struct; set by the initialiser */
    bool overwrite;        /* replace a file that is there */
    bool checksums;        /* keep a CRC-32C of each array in the metadata */
    unsigned header_pages; /* reserve at least so many for the header, for updates */
    bool no_sync; /* a new file: do not wait for the disk; a crash of the machine may then
                     leave a file with its name and without its values */
    tarn_progress progress;
    void *progress_context;
} tarn_gnz_writer_options;

/* Without checksums, because then a file is byte for byte what the reference writes. */
#define TARN_GNZ_WRITER_OPTIONS_INIT                                                     \
    {                                                                                    \
        .size = sizeof(tarn_gnz_writer_options)                                          \
    }
TARN_API void tarn_gnz_writer_options_init(tarn_gnz_writer_options *options, size_t size);

/* A file to be. TARN_ERR_EXISTS if it is there and overwrite is false. */
TARN_API TARN_CHECKED tarn_status
tarn_gnz_writer_new(const char *path, const tarn_gnz_writer_options *options,
                    tarn_gnz_writer **out, tarn_error *err);

/* An existing file, in place: arrays can be added as far as the space for the header
 * goes (header_pages when it was made), and rows appended where more were reserved. What
 * is there already is not rewritten, and readers see the old header until finish, which
 * replaces it under a journal: whoever updates or verifies the file after a crash finds
 * it. One update at a time: TARN_ERR_IO (EWOULDBLOCK) for a second. overwrite,
 * header_pages and no_sync mean nothing here. */
TARN_API TARN_CHECKED tarn_status
tarn_gnz_writer_update(const char *path, const tarn_gnz_writer_options *options,
                       tarn_gnz_writer **out, tarn_error *err);

/* One JSON object; what was set before, or was in the file, is replaced. Kept as Python
 * would write it with sorted keys. The key TARN_GNZ_RESERVED is refused. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_metadata(tarn_gnz_writer *writer,
                                                           const char *json, size_t len,
                                                           tarn_error *err);

/* A complete array, in any order and with any strides, written as the type *as (NULL: as
 * it is): numbers are cast with the results NumPy's astype gives on x86-64 (see
 * docs/formats/gnz.md), text is kept. The values are borrowed until begin returns. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_add(tarn_gnz_writer *writer,
                                                      const char *name,
                                                      const tarn_array *values,
                                                      const tarn_dtype *as,
                                                      tarn_error *err);

/* An array that is filled after begin; what is never filled is zero. With reserved more
 * than shape[0] there is room for so many rows: tarn_gnz_writer_append goes on behind
 * shape[0], now or in a later update, and the shape grows with it. *out is the number for
 * the calls below. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_reserve(
    tarn_gnz_writer *writer, const char *name, tarn_dtype dtype, unsigned ndim,
    const uint64_t *shape, uint64_t reserved, size_t *out, tarn_error *err);

/* The number of an array by name, such as one of the file that is updated. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_find(const tarn_gnz_writer *writer,
                                                       const char *name, size_t *out,
                                                       tarn_error *err);

/* Fixes the layout, takes the disk space for all of it (so a full disk is known here),
 * and writes the complete arrays. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_begin(tarn_gnz_writer *writer,
                                                        tarn_error *err);

/* Writes a region of a reserved array: values, cast to its type, from index start on
 * (NULL: from the beginning). values has as many dimensions as the array. Regions that
 * threads fill at the same time must not overlap. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_fill(tarn_gnz_writer *writer,
                                                       size_t number,
                                                       const uint64_t *start,
                                                       const tarn_array *values,
                                                       tarn_error *err);

/* Writes the next rows of a reserved array. It begins with row 0; where more rows were
 * reserved than the shape has, and in an update, behind the rows that count. Each call's
 * rows stay together; calls from several threads come in any order. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_append(tarn_gnz_writer *writer,
                                                         size_t number,
                                                         const tarn_array *rows,
                                                         tarn_error *err);

/* Writes the header, waits for the disk, and gives a new file its name. Before this
 * returns TARN_OK nothing has that name. The writer is closed, whatever the outcome. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_finish(tarn_gnz_writer *writer,
                                                         tarn_error *err);

/* Leaves nothing behind, or the old file as it was. Harmless on NULL. */
TARN_API void tarn_gnz_writer_abandon(tarn_gnz_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
