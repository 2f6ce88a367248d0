/* An Arrow table in memory: a schema and batches of columns that point into the file's
 * map or into memory the table owns. Counted, because arrays that were handed out keep it
 * alive when its pack is closed. */
#ifndef TARN_IAC_TABLE_H
#define TARN_IAC_TABLE_H

#include <stdatomic.h>

#include <tarn/iac.h>

#include "base/buf.h"
#include "base/forklock.h"

/* A file that is shared by a pack and its tables. */
typedef struct tarn__source_file {
    atomic_uint refs;
    int fd;
    char *path;
    uint64_t size;
    unsigned char *map;   /* NULL where it is read */
    atomic_llong checked; /* when its size was last looked at */
} tarn__source_file;

TARN_CHECKED tarn_status tarn__source_file_open(const char *path, bool no_map,
                                                tarn__source_file **out, tarn_error *err);
void tarn__source_file_unref(tarn__source_file *file);

/* The bytes of a range that is inside the file: into the map, or a copy the view owns. */
TARN_CHECKED tarn_status tarn__source_file_view(const tarn__source_file *file,
                                                uint64_t offset, uint64_t len,
                                                tarn_view *out, tarn_error *err);

/* Whether the file still has the size it was opened with. Looked at anew when the last
 * look is older than the system's coarse clock can tell, a few milliseconds: a call for
 * each record would cost as much as the record. */
TARN_CHECKED tarn_status tarn__source_file_check(const tarn__source_file *file,
                                                 tarn_error *err);

/* After something was copied or made out of the map: whether the file has been whole all
 * the while. Behind a new end in the middle of a page there are zeros, and no signal. */
TARN_CHECKED tarn_status tarn__source_file_settle(const tarn__source_file *file,
                                                  tarn_error *err);

/* Memory that is given back all at once. */
typedef struct tarn__arena {
    struct tarn__arena_block *blocks;
} tarn__arena;

void *tarn__arena_take(tarn__arena *arena,
                       size_t size); /* zeroed; NULL if out of memory */
void tarn__arena_reset(tarn__arena *arena);

typedef struct tarn__table {
    atomic_uint refs;
    tarn__source_file *file; /* NULL for a table that is not of a file */
    tarn_view bytes;         /* the whole stream */
    uint64_t file_offset;    /* of the stream, for messages */
    tarn__arena arena;
    struct ArrowSchema schema; /* a struct with a child for each column */
    /* Arrays of the table's own have no release member, and private_data holds the sizes
     * of their buffers (uint64_t each), with one more slot behind them. */
    struct ArrowArray *batches;
    size_t count, capacity;
    uint64_t *starts; /* the first row of each batch, and the number of rows */
    uint64_t rows;
    tarn__forklock lock;   /* while it is validated */
    atomic_bool validated; /* in full */
} tarn__table;

static inline const uint64_t *tarn__buffer_sizes(const struct ArrowArray *array)
{
    return array->private_data;
}

void tarn__table_unref(tarn__table *table);

/* Reads an Arrow IPC stream of length bytes at offset of the file. Every buffer is inside
 * the stream and as long as its column needs; offsets inside buffers are not looked at.
 */
TARN_CHECKED tarn_status tarn__table_read(tarn__source_file *file, uint64_t offset,
                                          uint64_t length, uint64_t max_bytes,
                                          tarn__table **out, tarn_error *err);

/* The same from memory that outlives the table; path is for messages. */
TARN_CHECKED tarn_status tarn__table_parse(const unsigned char *data, uint64_t length,
                                           uint64_t max_bytes, tarn__table **out,
                                           tarn_error *err);

/* Looks at what tarn__table_read did not: offsets, views, union types, dictionary
 * indices, run ends. Once only; any thread may call it. */
TARN_CHECKED tarn_status tarn__table_validate(tarn__table *table, tarn_error *err);

/* The batch a row is in, and its place there. row must be less than rows. */
size_t tarn__table_batch(const tarn__table *table, uint64_t row, uint64_t *out_in_batch);

/* The number of a column, or -1; -2 if two have the name. */
int64_t tarn__table_column(const tarn__table *table, const char *name);

/* A stream of the table's batches, each keeping the table alive. Validates first. */
TARN_CHECKED tarn_status tarn__table_export(tarn__table *table,
                                            struct ArrowArrayStream *out,
                                            tarn_error *err);

/* One value. kind says which member is set. */
typedef enum tarn__cell_kind {
    TARN__CELL_NULL,
    TARN__CELL_BYTES, /* text or binary */
    TARN__CELL_INT,   /* signed, also dates, times, timestamps, durations */
    TARN__CELL_UINT,
    TARN__CELL_BOOL,
    TARN__CELL_REAL,
    TARN__CELL_OTHER /* nested, decimal, interval: only as text */
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

/* The value at a row of a batch's column, which was validated. Dictionaries and run ends
 * are followed. */
tarn__cell tarn__cell_get(const struct ArrowSchema *schema,
                          const struct ArrowArray *array, int64_t row);

/* As JSON, and a type in words. Both append to out. */
TARN_CHECKED tarn_status tarn__cell_json(tarn__buf *out, const struct ArrowSchema *schema,
                                         const struct ArrowArray *array, int64_t row,
                                         tarn_error *err);
TARN_CHECKED tarn_status tarn__type_text(tarn__buf *out, const struct ArrowSchema *schema,
                                         tarn_error *err);

#endif
