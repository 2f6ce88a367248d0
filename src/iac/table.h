/* An Arrow table in memory: a schema and batches of columns that point into the map of
 * the file or into memory that the table owns. It is reference-counted, because exported
 * arrays keep it alive after its file is closed. */
#ifndef TARN_IAC_TABLE_H
#define TARN_IAC_TABLE_H

#include <stdatomic.h>

#include <tarn/iac.h>

#include "base/buf.h"
#include "base/forklock.h"
#include "base/slab.h"
#include "io/file.h"

/* A file that is shared by an open IAC file and its tables. */
typedef struct tarn__source_file {
    atomic_uint refs;
    tarn__file file;
    const char *path; /* of file */
    int fd;           /* of file; -1: it is remote */
    uint64_t size;
    unsigned char *map;   /* NULL if the file is read instead */
    atomic_llong checked; /* when its size was last checked */
} tarn__source_file;

/* See tarn__file_open_any. */
TARN_CHECKED tarn_status tarn__source_file_open(const char *path, bool no_map,
                                                struct tarn__cachedir *cache,
                                                tarn__source_file **out, tarn_error *err);
void tarn__source_file_unref(tarn__source_file *file);

/* The bytes of a range that is inside the file: a view into the map, or a copy that the
 * view owns. */
TARN_CHECKED tarn_status tarn__source_file_view(const tarn__source_file *file,
                                                uint64_t offset, uint64_t len,
                                                tarn_view *out, tarn_error *err);

/* Checks that the file still has the size it had when it was opened. Checks again only
 * when the coarse clock of the system has advanced (a few milliseconds), because a system
 * call for each record would cost as much as the record. */
TARN_CHECKED tarn_status tarn__source_file_check(const tarn__source_file *file,
                                                 tarn_error *err);

/* Checks, after data was copied or derived from the map, that the file was complete all
 * the time. After a new end in the middle of a page the map shows zeros and raises no
 * signal. */
TARN_CHECKED tarn_status tarn__source_file_settle(const tarn__source_file *file,
                                                  tarn_error *err);

typedef struct tarn__table {
    atomic_uint refs;
    tarn__source_file *file; /* NULL for a table that is not from a file */
    tarn_view bytes;         /* the whole stream */
    uint64_t file_offset;    /* of the stream, for messages */
    tarn__slab slab;
    struct ArrowSchema schema; /* a struct with a child for each column */
    /* Arrays of the table have no release function, and their private_data holds the
     * sizes of their buffers (uint64_t each), followed by one more slot. */
    struct ArrowArray *batches;
    size_t count, capacity;
    uint64_t *starts; /* first row of each batch, then the number of rows */
    uint64_t rows;
    tarn__forklock lock;   /* held during validation */
    atomic_bool validated; /* completely */
} tarn__table;

static inline const uint64_t *tarn__buffer_sizes(const struct ArrowArray *array)
{
    return array->private_data;
}

void tarn__table_unref(tarn__table *table);

/* Reads an Arrow IPC stream of length bytes at offset of the file. Checks that every
 * buffer is inside the stream and as long as its column needs, but not the offsets inside
 * buffers. */
TARN_CHECKED tarn_status tarn__table_read(tarn__source_file *file, uint64_t offset,
                                          uint64_t length, uint64_t max_bytes,
                                          tarn__table **out, tarn_error *err);

/* The same for memory that outlives the table; path is used in messages. */
TARN_CHECKED tarn_status tarn__table_parse(const unsigned char *data, uint64_t length,
                                           uint64_t max_bytes, tarn__table **out,
                                           tarn_error *err);

/* Checks what tarn__table_read did not: offsets, views, union types, dictionary indices,
 * run ends. Does so only once; any thread may call it. */
TARN_CHECKED tarn_status tarn__table_validate(tarn__table *table, tarn_error *err);

/* Checks the values of a validated table: see tarn__array_check_values. */
TARN_CHECKED tarn_status tarn__table_check_values(const tarn__table *table,
                                                  tarn_error *err);

/* The batch that contains a row, and the row's position in it. row must be less than
 * rows. */
size_t tarn__table_batch(const tarn__table *table, uint64_t row, uint64_t *out_in_batch);

/* The number of a column; -1 if there is none, -2 if two columns have the name. */
int64_t tarn__table_column(const tarn__table *table, const char *name);

/* A stream of the table's batches, each of which keeps the table alive. Validates
 * first. */
TARN_CHECKED tarn_status tarn__table_export(tarn__table *table,
                                            struct ArrowArrayStream *out,
                                            tarn_error *err);

/* One value. kind says which member is set. */
typedef enum tarn__cell_kind {
    TARN__CELL_NULL,
    TARN__CELL_BYTES, /* text or binary */
    TARN__CELL_INT,   /* signed; also dates, times, timestamps, durations */
    TARN__CELL_UINT,
    TARN__CELL_BOOL,
    TARN__CELL_REAL,
    TARN__CELL_OTHER /* nested, decimal, interval: only available as text */
} tarn__cell_kind;

typedef struct tarn__cell {
    tarn__cell_kind kind;
    union {
        struct {
            const char *data;
            uint64_t size;
        } bytes;
        int64_t i;
        uint64_t u;
        double real;
        bool truth;
    } u;
    bool is_text;
} tarn__cell;

/* The value at a row of a batch's validated column. Resolves dictionaries and run
 * ends. */
tarn__cell tarn__cell_get(const struct ArrowSchema *schema,
                          const struct ArrowArray *array, int64_t row);

/* A value as JSON, and the name of a type. Both append to out. */
TARN_CHECKED tarn_status tarn__cell_json(tarn__buf *out, const struct ArrowSchema *schema,
                                         const struct ArrowArray *array, int64_t row,
                                         tarn_error *err);
TARN_CHECKED tarn_status tarn__type_text(tarn__buf *out, const struct ArrowSchema *schema,
                                         tarn_error *err);

#endif
