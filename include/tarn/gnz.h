/* tarn/gnz.h: named arrays in one file. Each array starts on a page boundary, so that it
 * can be mapped and used in place.
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
 * To write a file:
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
 * docs/formats/gnz.md describes the format. Opening a file checks everything in its
 * header before anything is mapped.
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
#define TARN_GNZ_RESERVED   "__tarn__" /* reserved key in the metadata */

/* --- Reading --------------------------------------------------------------------- */

/* An open file. Any number of threads may use it at once. No thread may use it while it
 * is being closed. */
typedef struct tarn_gnz tarn_gnz;

typedef struct tarn_gnz_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_io io;  /* how arrays are read into memory */
} tarn_gnz_options;

#define TARN_GNZ_OPTIONS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_gnz_options)                                                 \
    }
TARN_API void tarn_gnz_options_init(tarn_gnz_options *options, size_t size);

/* Opens and checks a file. The checks: the header fits into the file and is JSON of the
 * expected structure; names are unique; each array has a known type, order and shape;
 * each array is inside the file, after the header, on a page boundary, and does not
 * overlap another array. options may be NULL. Close the handle with tarn_gnz_close. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_open(const char *path,
                                                const tarn_gnz_options *options,
                                                tarn_gnz **out, tarn_error *err);
TARN_API void tarn_gnz_close(tarn_gnz *gnz);

typedef struct tarn_gnz_info {
    size_t arrays; /* numbered 0 to arrays - 1 */
    /* One JSON object as Python writes it, without the reserved key. NUL-terminated,
     * borrowed until the file is closed. */
    const char *metadata;
    size_t metadata_size;
    /* Arrays with the same number of rows are the fields of samples: sample i is row i of
     * each. The samples are the largest group of such arrays. If two groups are equally
     * large, the one with more rows is used. */
    size_t fields; /* arrays in that group */
    uint64_t samples;
    uint64_t header_size;
    uint64_t header_space; /* bytes before the first array, available to updates */
    uint64_t file_size;
} tarn_gnz_info;

/* Fills *out, of size bytes. The strings are borrowed until the file is closed. */
TARN_API void tarn_gnz_info_get(const tarn_gnz *gnz, tarn_gnz_info *out, size_t size);

typedef struct tarn_gnz_array {
    const char *name; /* UTF-8; borrowed, like shape, until the file is closed */
    tarn_dtype dtype;
    unsigned ndim;
    const uint64_t *shape;
    uint64_t offset;   /* in the file */
    uint64_t bytes;    /* of the values */
    uint64_t reserved; /* rows that fit: shape[0] unless more were reserved */
    bool fortran;      /* the first index varies fastest */
    bool is_field;     /* the rows are samples; see tarn_gnz_info */
    bool has_checksum;
    uint32_t checksum; /* CRC-32C of the values */
} tarn_gnz_array;

/* Describes an array by number. Arrays are in the order of the header. If Python or this
 * library wrote the file, that is the order of their names. TARN_ERR_NO_FIELD past the
 * end. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_array_get(const tarn_gnz *gnz, size_t number,
                                                     tarn_gnz_array *out, size_t size,
                                                     tarn_error *err);
/* Finds the number of an array by name. TARN_ERR_NO_FIELD if there is no such array. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_find(const tarn_gnz *gnz, const char *name,
                                                size_t *out, tarn_error *err);

typedef enum tarn_gnz_mode {
    TARN_GNZ_READ = 0,  /* NumPy's "r": you must not write to it */
    TARN_GNZ_WRITE = 1, /* "r+": writes change the file; checksums become stale */
    TARN_GNZ_COPY = 2   /* "c": writes change this view only */
} tarn_gnz_mode;

/* The values in place. Byte order and text encoding are those of the file: see
 * array.dtype. Row i begins at (char *)array.data + i * array.strides[0]. In Fortran
 * order the elements of a row are not contiguous. */
typedef struct tarn_gnz_view {
    tarn_array array;
    void *owned; /* private */
    size_t owned_size;
    bool mapped;
} tarn_gnz_view;

/* Gets a view of an array. The view is borrowed until it is released, and never valid
 * longer than the file is open. TARN_IO_AUTO maps files on local file systems and copies
 * elsewhere. TARN_GNZ_WRITE needs a map.
 *
 * The length of the file is checked first: TARN_ERR_TRUNCATED if the file was shortened.
 * If the file is shortened while a view is in use, access to the missing part ends the
 * process with SIGBUS, or reads zeros after tarn_guard_maps. If you cannot rule that out,
 * use TARN_IO_READ, which copies, or tarn_gnz_read. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_get(tarn_gnz *gnz, size_t number,
                                               tarn_gnz_mode mode, tarn_gnz_view *out,
                                               tarn_error *err);
TARN_API void tarn_gnz_view_release(tarn_gnz_view *view);

/* Waits until the data written through TARN_GNZ_WRITE views is on disk. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_flush(tarn_gnz *gnz, tarn_error *err);

/* Copies rows into buf. An array without dimensions is one row. In buf the last index
 * varies fastest, whatever the order in the file. TARN_ERR_LIMIT if size is too small.
 * This function never uses a map, so it is safe even if another program changes the
 * file. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_read(tarn_gnz *gnz, size_t number,
                                                uint64_t first, uint64_t rows, void *buf,
                                                size_t size, tarn_error *err);

typedef enum tarn_gnz_advice {
    TARN_GNZ_NORMAL = 0,
    TARN_GNZ_SEQUENTIAL = 1,
    TARN_GNZ_RANDOM = 2,
    TARN_GNZ_WILL_NEED = 3, /* start reading these rows now */
    TARN_GNZ_DONT_NEED = 4  /* they may be dropped from memory */
} tarn_gnz_advice;

/* Advises the operating system how rows will be used. This is only a hint and cannot
 * fail. */
TARN_API void tarn_gnz_advise(tarn_gnz *gnz, size_t number, uint64_t first, uint64_t rows,
                              tarn_gnz_advice advice);

/* --- Statistics ------------------------------------------------------------------- */

#define TARN_GNZ_BINS 16u

/* Statistics of an array, computed as doubles, so integers above 2^53 are rounded. NaNs
 * are counted and otherwise ignored. Infinities count for min and max, but not for the
 * mean and the bins. */
typedef struct tarn_gnz_stats {
    uint64_t count, nans, infinities;
    double min, max, mean;
    double low, high; /* of finite values: the range of the bins */
    uint64_t bins[TARN_GNZ_BINS];
} tarn_gnz_stats;

/* Computes the statistics of an array. TARN_ERR_UNSUPPORTED for complex numbers and
 * text. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_stats_get(tarn_gnz *gnz, size_t number,
                                                     tarn_gnz_stats *out, size_t size,
                                                     tarn_error *err);

/* --- Writing ----------------------------------------------------------------------- */

/* A writer. The calls are: open → metadata, add, reserve → begin → fill → finish or
 * abandon. Any number of threads may call fill at the same time. All other calls must not
 * run at the same time as any other call on the same writer. */
typedef struct tarn_gnz_writer tarn_gnz_writer;

typedef struct tarn_gnz_writer_options {
    size_t size;           /* of this struct; set by the initialiser */
    bool overwrite;        /* replace an existing file */
    bool update;           /* change an existing file in place; see below */
    bool checksums;        /* store a CRC-32C of each array in the metadata */
    unsigned header_pages; /* reserve at least this many for the header, for updates */
    /* New files: do not wait for the disk. If the machine crashes, the file may then
     * exist under its name without its values. */
    bool no_sync;
    tarn_progress progress;
    void *progress_context;
} tarn_gnz_writer_options;

/* Without checksums the file is byte for byte what glzn writes. */
#define TARN_GNZ_WRITER_OPTIONS_INIT                                                     \
    {                                                                                    \
        .size = sizeof(tarn_gnz_writer_options)                                          \
    }
TARN_API void tarn_gnz_writer_options_init(tarn_gnz_writer_options *options, size_t size);

/* Opens a writer for a new file. TARN_ERR_EXISTS if the file exists and overwrite is
 * false. options may be NULL.
 *
 * With update, opens an existing file. Arrays can be added as long as the header fits
 * into the space reserved for it (header_pages when the file was created). Rows can be
 * appended where more rows were reserved. Existing values are not rewritten. Readers see
 * the old header until finish, which replaces it under a journal. If a crash interrupts
 * an update, the next update, or verify with repair, completes or undoes it. Only one
 * update may run at a time: TARN_ERR_IO (EWOULDBLOCK) for a second one. overwrite,
 * header_pages and no_sync are ignored. */
TARN_API TARN_CHECKED tarn_status
tarn_gnz_writer_open(const char *path, const tarn_gnz_writer_options *options,
                     tarn_gnz_writer **out, tarn_error *err);

/* Sets the metadata: one JSON object, which replaces the metadata that was set before or
 * was in the file. It is stored as Python would write it with sorted keys. The key
 * TARN_GNZ_RESERVED is refused. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_metadata(tarn_gnz_writer *writer,
                                                           const char *json, size_t len,
                                                           tarn_error *err);

/* Adds a complete array, in any order and with any strides. It is written as the type
 * *as, or unchanged if as is NULL. Numbers are converted with the results that NumPy's
 * astype gives on x86-64 (see docs/formats/gnz.md); text is not converted. The values are
 * borrowed until begin returns. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_add(tarn_gnz_writer *writer,
                                                      const char *name,
                                                      const tarn_array *values,
                                                      const tarn_dtype *as,
                                                      tarn_error *err);

/* Adds an array that is filled after begin. Elements that are never filled are zero. If
 * reserved is greater than shape[0], the file has room for that many rows. Rows that are
 * appended, now or in a later update, follow the first shape[0] rows, and the shape grows
 * with them. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_reserve(
    tarn_gnz_writer *writer, const char *name, tarn_dtype dtype, unsigned ndim,
    const uint64_t *shape, uint64_t reserved, tarn_error *err);

/* Fixes the layout, allocates disk space for all of it (so a full disk is detected here),
 * and writes the complete arrays. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_begin(tarn_gnz_writer *writer,
                                                        tarn_error *err);

/* Writes values into a reserved array, or, in an update, also into an array of the file.
 * The values are converted to the type of the array and must have the same number of
 * dimensions.
 *
 * If start is not NULL, the values are the region that begins at that index. Regions that
 * threads fill at the same time must not overlap. If start is NULL, the values are the
 * next rows. The first such call writes from row 0, or after the last row if more rows
 * were reserved than the shape has, or in an update. The rows of one call stay together.
 * The order of calls from several threads is not defined. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_fill(tarn_gnz_writer *writer,
                                                       const char *name,
                                                       const uint64_t *start,
                                                       const tarn_array *values,
                                                       tarn_error *err);

/* Writes the header, waits for the disk, and gives a new file its name. The file does not
 * have this name before the function returns TARN_OK. Closes the writer in every case. */
TARN_API TARN_CHECKED tarn_status tarn_gnz_writer_finish(tarn_gnz_writer *writer,
                                                         tarn_error *err);

/* Closes the writer without publishing: no new file is left, and an existing file stays
 * as it was. NULL is allowed. */
TARN_API void tarn_gnz_writer_abandon(tarn_gnz_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
