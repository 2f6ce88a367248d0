/* tarn/gnz.h: named arrays in one file, each on its own page, mapped and used in place.
 *
 *     tarn_gnz *file;
 *     tarn_gnz_view x;
 *     size_t number;
 *     if (tarn_gnz_open("features.gnz", NULL, &file, &err) != TARN_OK ||
 *         tarn_gnz_find(file, "x", &number, &err) != TARN_OK ||
 *         tarn_gnz_get(file, number, TARN_GNZ_READ, &x, &err) != TARN_OK)
 *         return fail(&err);
 *     const float *row = (const float *)((char *)x.array.data + 42 * x.array.strides[0]);
 *     ...
 *     tarn_gnz_view_release(&x);
 *     tarn_gnz_close(file);
 *
 * and to write one:
 *
 *     tarn_gnz_writer *out;
 *     if (tarn_gnz_writer_open("features.gnz", NULL, &out, &err) != TARN_OK) ...
 *     if (tarn_gnz_writer_add(out, "ids", &ids, NULL, &err) != TARN_OK ||
 *         tarn_gnz_writer_reserve(out, "x", dtype, 2, shape, 0, &err) != TARN_OK ||
 *         tarn_gnz_writer_begin(out, &err) != TARN_OK ||
 *         tarn_gnz_writer_fill(out, "x", NULL, &block, &err) != TARN_OK) {
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

typedef struct tarn_gnz_info {
    size_t arrays; /* their numbers are 0 to arrays - 1 */
    /* One JSON object as Python writes it, without the key that is ours. NUL-terminated,
     * borrowed until the file is closed. */
    const char *metadata;
    size_t metadata_size;
    /* Arrays with the same number of rows are the fields of samples: sample i is row i of
     * each. This is the largest group of such arrays; of two equally large groups, the
     * one with more rows. */
    size_t fields; /* arrays in the group */
    uint64_t samples;
    uint64_t header_size;
    uint64_t header_space; /* bytes before the first array: what an update may use */
    uint64_t file_size;
} tarn_gnz_info;

TARN_API void tarn_gnz_info_get(const tarn_gnz *gnz, tarn_gnz_info *out, size_t size);

typedef struct tarn_gnz_array {
    const char *name; /* UTF-8; borrowed, like shape, until the file is closed */
    tarn_dtype dtype;
    unsigned ndim;
    const uint64_t *shape;
    uint64_t offset;   /* in the file */
    uint64_t bytes;    /* of the values */
    uint64_t reserved; /* rows there is room for; shape[0] unless more were reserved */
    bool fortran;      /* the first index runs fastest */
    bool is_field;     /* one of the arrays whose rows are samples; see tarn_gnz_info */
    bool has_checksum;
    uint32_t checksum; /* CRC-32C of the values */
} tarn_gnz_array;

/* Arrays are in the order of the header, which is that of their names where Python or
 * this library wrote it. TARN_ERR_NO_FIELD past the end. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_array_get(const tarn_gnz *gnz, size_t number,
                                                     tarn_gnz_array *out, size_t size,
                                                     tarn_error *err);
TARN_API TARN_CHECKED tarn_status tarn_gnz_find(const tarn_gnz *gnz, const char *name,
                                                size_t *out, tarn_error *err);

typedef enum tarn_gnz_mode {
    TARN_GNZ_READ = 0,  /* NumPy's "r": must not be written to */
    TARN_GNZ_WRITE = 1, /* "r+": what is written goes to the file; checksums go stale */
    TARN_GNZ_COPY = 2   /* "c": what is written stays with this view */
} tarn_gnz_mode;

/* The values in place. Byte order and text are as in the file: see array.dtype. Row i is
 * at (char *)array.data + i * array.strides[0]; in Fortran order its elements are not
 * next to each other. */
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

/* --- Statistics and checks --------------------------------------------------------- */

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

/* open → metadata, add, reserve → begin → fill → finish or abandon. Any number of threads
 * may call fill at the same time; all other calls need the writer to themselves. */
typedef struct tarn_gnz_writer tarn_gnz_writer;

typedef struct tarn_gnz_writer_options {
    size_t size;           /* of this struct; set by the initialiser */
    bool overwrite;        /* replace an existing file */
    bool update;           /* change an existing file in place; see below */
    bool checksums;        /* keep a CRC-32C of each array in the metadata */
    unsigned header_pages; /* reserve at least so many for the header, for updates */
    bool no_sync; /* a new file: do not wait for the disk; a crash of the machine may then
                     leave a file with its name and without its values */
    tarn_progress progress;
    void *progress_context;
} tarn_gnz_writer_options;

/* Without checksums a file is byte for byte what glzn writes. */
#define TARN_GNZ_WRITER_OPTIONS_INIT                                                     \
    {                                                                                    \
        .size = sizeof(tarn_gnz_writer_options)                                          \
    }
TARN_API void tarn_gnz_writer_options_init(tarn_gnz_writer_options *options, size_t size);

/* A new file: TARN_ERR_EXISTS if it exists and overwrite is false.
 *
 * With update, an existing file: arrays can be added as far as the space for the header
 * goes (header_pages when it was made), and rows appended where more were reserved.
 * Existing values are not rewritten, and readers see the old header until finish, which
 * replaces it under a journal: the next update, or verify with repair, completes or
 * undoes an update that a crash interrupted. One update at a time: TARN_ERR_IO
 * (EWOULDBLOCK) for a second. overwrite, header_pages and no_sync are ignored. */
TARN_API TARN_CHECKED tarn_status
tarn_gnz_writer_open(const char *path, const tarn_gnz_writer_options *options,
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
 * than shape[0] there is room for that many rows: rows that are appended, now or in a
 * later update, follow shape[0], and the shape grows with them. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_reserve(
    tarn_gnz_writer *writer, const char *name, tarn_dtype dtype, unsigned ndim,
    const uint64_t *shape, uint64_t reserved, tarn_error *err);

/* Fixes the layout, takes the disk space for all of it (so a full disk is known here),
 * and writes the complete arrays. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_begin(tarn_gnz_writer *writer,
                                                        tarn_error *err);

/* Writes values, cast to the array's type, into a reserved array; in an update also into
 * one of the file's. They have as many dimensions as the array.
 *
 * With start, they are the region that begins at that index; regions that threads fill at
 * the same time must not overlap. With start NULL, they are the next rows: the first call
 * writes from row 0 on; where more rows were reserved than the shape has, and in an
 * update, after the last row. Each call's rows stay together; calls from several threads
 * come in any order. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_fill(tarn_gnz_writer *writer,
                                                       const char *name,
                                                       const uint64_t *start,
                                                       const tarn_array *values,
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
