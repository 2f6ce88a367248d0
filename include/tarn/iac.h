/* tarn/iac.h: record packs (IAC files, .iac, IatroCache): payloads in one data segment,
 * an Arrow table with one row for each payload (the index), and an Arrow table of the
 * slides that the payloads belong to.
 *
 *     tarn_iac *pack;
 *     tarn_view bytes;
 *     uint64_t row;
 *     if (tarn_iac_open("tiles.iac", NULL, &pack, &err) != TARN_OK ||
 *         tarn_iac_find(pack, "tile_id", "t_0042", 6, 0, &row, &err) != TARN_OK ||
 *         tarn_iac_view(pack, row, false, &bytes, &err) != TARN_OK)
 *         return fail(&err);
 *
 * Everything in the header and the tables is checked before it is used. Any number of
 * threads may read from one record pack without locks. The first lookup in a column, and
 * the first use of a table's other columns, do some work once under a lock.
 */
#ifndef TARN_IAC_H
#define TARN_IAC_H

#include <tarn/arrow.h>
#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_IAC_HEADER_BYTES 65536u
#define TARN_IAC_MAX_PAYLOAD  UINT64_C(0xffffffff) /* lengths are 32 bits wide */
#define TARN_MAX_ARROW_DEPTH  64u                  /* nested types */
#define TARN_MAX_ARROW_FIELDS 65536u               /* columns and their children */

/* --- Codecs ------------------------------------------------------------------------ */

/* A codec is selected by the name in the header of a file. The library encodes and
 * decodes "none", "brotli", "zstd" and "gzip". Payloads of other codecs, such as "jpeg",
 * are stored and returned unchanged. NULL and "" mean "none". */

/* The largest size that a payload may expand to, unless the options set another limit:
 * TARN_IAC_MAX_EXPANSION times its stored size, or TARN_IAC_FREE_BYTES bytes if that is
 * more. */
#define TARN_IAC_MAX_EXPANSION 10000u
#define TARN_IAC_FREE_BYTES    (UINT64_C(16) << 20)

/* Encode and decode one payload. Level 0 is the default of the codec (Brotli 11,
 * Zstandard 19, gzip 6). limit is the largest size of the decoded payload. The view owns
 * its bytes; free it with tarn_view_release. */
TARN_API TARN_CHECKED tarn_status tarn_iac_encode(const char *codec, int level,
                                                  const void *data, size_t len,
                                                  tarn_view *out, tarn_error *err);
/* Encodes with Brotli's quality (0 to 11) and window (10 to 24) as they are given. */
TARN_API TARN_CHECKED tarn_status tarn_iac_encode_brotli(int quality, int window,
                                                         const void *data, size_t len,
                                                         tarn_view *out, tarn_error *err);
TARN_API TARN_CHECKED tarn_status tarn_iac_decode(const char *codec, const void *data,
                                                  size_t len, uint64_t limit,
                                                  tarn_view *out, tarn_error *err);

/* --- Opening ----------------------------------------------------------------------- */

typedef struct tarn_iac tarn_iac;

typedef struct tarn_iac_options {
    size_t size; /* of this struct; set by the initialiser */
    bool check;  /* compare each payload with its CRC before returning it */
    bool no_map; /* read with pread, even if the file could be mapped */
    /* The most bytes of a table's buffers after decompression. 0: 32 MiB plus 32 times
     * the length of the table, but at most 4 GiB. */
    uint64_t max_table_bytes;
    uint64_t max_expansion; /* of one payload; see TARN_IAC_MAX_EXPANSION */
} tarn_iac_options;

#define TARN_IAC_OPTIONS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_iac_options), .max_expansion = TARN_IAC_MAX_EXPANSION        \
    }
TARN_API void tarn_iac_options_init(tarn_iac_options *options, size_t size);

/* Opens a record pack. options may be NULL. Close it with tarn_iac_close. */
TARN_API TARN_CHECKED tarn_status tarn_iac_open(const char *path,
                                                const tarn_iac_options *options,
                                                tarn_iac **out, tarn_error *err);

/* Closes a record pack. Its views become invalid. Arrow arrays that it exported stay
 * valid until they are released. */
TARN_API void tarn_iac_close(tarn_iac *pack);

typedef enum tarn_iac_table { TARN_IAC_SLIDES = 0, TARN_IAC_INDEX = 1 } tarn_iac_table;

typedef struct tarn_iac_info {
    unsigned version; /* 1 or 2 */
    uint64_t records, slides;
    uint64_t slide_table_length, index_table_offset, index_table_length;
    uint64_t data_offset, data_length, file_size;
    bool has_spans;           /* the index has integer columns offset and length */
    bool has_checksums;       /* and a column crc32 */
    bool mapped;              /* views point into a map of the file */
    uint64_t record_bytes;    /* without spans: the size of each record, or 0 */
    size_t columns[2];        /* in each tarn_iac_table */
    const char *codec;        /* "" if the header has none; borrowed */
    const char *payload_type; /* "" if the header has none; borrowed */
    const char *header;       /* the JSON text as stored in the file; borrowed */
    size_t header_length;
} tarn_iac_info;

/* Fills *out, of size bytes. The strings are borrowed until the record pack is closed. */
TARN_API void tarn_iac_info_get(const tarn_iac *pack, tarn_iac_info *out, size_t size);

/* --- Payloads ---------------------------------------------------------------------- */

/* The position of a record, relative to the start of the data segment. has_crc is false
 * if the index has no crc32 column. */
typedef struct tarn_iac_span {
    uint64_t offset;
    uint64_t length;
    uint32_t crc32;
    bool has_crc;
} tarn_iac_span;

/* Gets the position of a record. TARN_ERR_NO_SAMPLE past the last row. */
TARN_API TARN_CHECKED tarn_status tarn_iac_locate(const tarn_iac *pack, uint64_t row,
                                                  tarn_iac_span *out, tarn_error *err);

/* Gets the bytes of a record, as stored or, with decode, decoded with the codec in the
 * header. Decoding images and unknown codecs is TARN_ERR_UNSUPPORTED. The view is
 * borrowed until it is released or the record pack is closed. */
TARN_API TARN_CHECKED tarn_status tarn_iac_view(const tarn_iac *pack, uint64_t row,
                                                bool decode, tarn_view *out,
                                                tarn_error *err);

/* Gets a range of bytes of the data segment, without using the index. */
TARN_API TARN_CHECKED tarn_status tarn_iac_view_span(const tarn_iac *pack,
                                                     uint64_t offset, uint64_t length,
                                                     tarn_view *out, tarn_error *err);

/* Copies of records as stored, consecutive and in the requested order. They are read in
 * the order that they have in the file. Record i is data[offsets[i]] up to
 * data[offsets[i + 1]]. Initialise a batch to all zero. It can be reused any number of
 * times; free it with tarn_iac_batch_reset. Only one thread at a time may use a batch. */
typedef struct tarn_iac_batch {
    unsigned char *data;
    uint64_t *offsets; /* count + 1 offsets */
    size_t count;
    size_t data_capacity, count_capacity; /* private */
    void *order;                          /* private */
} tarn_iac_batch;

/* Copies count records into *out, replacing its contents. */
TARN_API TARN_CHECKED tarn_status tarn_iac_read(const tarn_iac *pack,
                                                const uint64_t *rows, size_t count,
                                                tarn_iac_batch *out, tarn_error *err);
TARN_API void tarn_iac_batch_reset(tarn_iac_batch *batch);

/* --- Tables ------------------------------------------------------------------------ */

/* Exports a table as an Arrow stream. Nothing is copied: the arrays point into the map of
 * the file and keep it alive. All offsets and indices in them have been checked. The
 * caller releases the stream. */
TARN_API TARN_CHECKED tarn_status tarn_iac_export(tarn_iac *pack, tarn_iac_table table,
                                                  struct ArrowArrayStream *out,
                                                  tarn_error *err);

/* A column of a table. The type is text such as "string", "timestamp[us, UTC]" or
 * "list<int64>". */
typedef struct tarn_iac_column {
    const char *name, *type; /* borrowed until the record pack is closed */
} tarn_iac_column;

/* Describes a column by number. TARN_ERR_NO_FIELD past the end. */
TARN_API TARN_CHECKED tarn_status tarn_iac_column_get(const tarn_iac *pack,
                                                      tarn_iac_table table, size_t column,
                                                      tarn_iac_column *out, size_t size,
                                                      tarn_error *err);

/* Gets one value as JSON: text in quotes, binary data as hexadecimal digits in quotes,
 * times as the stored number. Free *out with tarn_view_release. */
TARN_API TARN_CHECKED tarn_status tarn_iac_value(tarn_iac *pack, tarn_iac_table table,
                                                 size_t column, uint64_t row,
                                                 tarn_view *out, tarn_error *err);

/* Finds the first row, starting at row from, in which a column has the value.
 * TARN_ERR_NO_SAMPLE if there is none. The column belongs to the index table and contains
 * text or integers, and may be dictionary-encoded. For integers, the value is in decimal
 * digits. The first lookup in a column builds an index of it in memory, of about 16 bytes
 * per row. */
TARN_API TARN_CHECKED tarn_status tarn_iac_find(tarn_iac *pack, const char *column,
                                                const char *value, size_t len,
                                                uint64_t from, uint64_t *out_row,
                                                tarn_error *err);

/* --- Writing -------------------------------------------------------------------------
 *
 * The tables are passed as Arrow streams, which are consumed (released) in every case.
 * The writer sets the columns offset, length and crc32 of the index: it replaces columns
 * of these names or adds them at the end. The number of rows of the index is the number
 * of payloads. Only one thread at a time may use a writer. */

typedef struct tarn_iac_writer tarn_iac_writer;

typedef struct tarn_iac_write_options {
    size_t size;        /* of this struct; set by the initialiser */
    const char *header; /* a JSON object with your own fields, or NULL */
    unsigned version;   /* 2 or 1 */
    /* "none", "brotli", "zstd" or "gzip": encodes the payloads; the header names it, too.
     * With encoded also "jpeg", "png", "jxl", "jpeg2000" or "jpegls". */
    const char *codec;
    int level;
    /* Payloads are already encoded; codec is only written to the header. */
    bool encoded;
    bool segment;   /* the caller lays out the data segment: see tarn_iac_writer_open */
    bool overwrite; /* replace an existing file; false: TARN_ERR_EXISTS */
    bool no_sync;   /* do not wait for the disk */
    /* Keep the key order of objects inside the header's fields. false: their keys are
     * sorted. The fields themselves are always sorted. */
    bool in_order;
    bool utf8; /* do not escape the header's text */
    /* The following members are for tarn_iac_rewrite. */
    /* Only these records, in this order; records may be repeated. NULL: all. */
    const uint64_t *rows;
    size_t n_rows;
    bool upgrade; /* see tarn_iac_rewrite */
} tarn_iac_write_options;

#define TARN_IAC_WRITE_OPTIONS_INIT                                                      \
    {                                                                                    \
        .size = sizeof(tarn_iac_write_options), .version = 2                             \
    }
TARN_API void tarn_iac_write_options_init(tarn_iac_write_options *options, size_t size);

/* Opens a writer. Payloads are added one by one, and each is written once, directly to
 * its final position in the file. The tables must be complete at the start. options may
 * be NULL. Close the writer with tarn_iac_writer_finish or tarn_iac_writer_abandon.
 *
 * With segment, the index is written unchanged, without the three columns. The added data
 * is appended to the data segment unchanged, in any number of calls. */
TARN_API TARN_CHECKED tarn_status tarn_iac_writer_open(
    const char *path, struct ArrowArrayStream *slides, struct ArrowArrayStream *index,
    const tarn_iac_write_options *options, tarn_iac_writer **out, tarn_error *err);
/* Adds the next payload. */
TARN_API TARN_CHECKED tarn_status tarn_iac_writer_add(tarn_iac_writer *writer,
                                                      const void *data, size_t len,
                                                      tarn_error *err);

/* Adds the contents of a file as the next payload. *out_size is set to the size of the
 * file. */
TARN_API TARN_CHECKED tarn_status tarn_iac_writer_add_file(tarn_iac_writer *writer,
                                                           const char *path,
                                                           uint64_t *out_size,
                                                           tarn_error *err);

/* Writes the index and the header and publishes the file. The writer is closed in every
 * case. After a failure no new file is left. */
TARN_API TARN_CHECKED tarn_status tarn_iac_writer_finish(tarn_iac_writer *writer,
                                                         tarn_error *err);
/* Closes the writer without publishing. No new file is left, and an existing file stays
 * as it was. NULL is allowed. */
TARN_API void tarn_iac_writer_abandon(tarn_iac_writer *writer);

/* Rewrites a record pack with another codec, level or version, or with some of its
 * records. header, if given, replaces the fields of the old header. With encoded set,
 * payloads are copied unchanged, and so is the codec in the header. The index has the
 * rows of the selected records, with all columns unchanged. A record pack whose records
 * are not located by its index keeps its data segment, unless rows are selected. If the
 * new codec is one of an image, payloads are decompressed and otherwise unchanged.
 *
 * With upgrade, converts a version 1 file to version 2: a new header before the same
 * bytes, which the two files share on disk where the file system supports that. to may be
 * the same path as from. Of the other options, only overwrite is used. */
TARN_API TARN_CHECKED tarn_status tarn_iac_rewrite(const char *from, const char *to,
                                                   const tarn_iac_write_options *options,
                                                   tarn_error *err);

/* --- A table from C ------------------------------------------------------------------
 *
 * For programs without an Arrow library: builds a table with columns of text, integers,
 * doubles, booleans, times, and lists of these. */

typedef struct tarn_iac_rows tarn_iac_rows;

/* Creates a table builder. Each column is a type and a name: "text:name", "int:count",
 * "uint:id", "u8:slide_idx" (and u16, u32), "real:x", "bool:good" (the integers 0 and 1),
 * "time:taken" (integers: microseconds since 1970 in UTC), and the lists "texts:",
 * "ints:", "reals:" and "bools:". Free it with tarn_iac_rows_finish or
 * tarn_iac_rows_free. */
TARN_API TARN_CHECKED tarn_status tarn_iac_rows_new(const char *const *columns,
                                                    size_t count, tarn_iac_rows **out,
                                                    tarn_error *err);

typedef enum tarn_iac_kind {
    TARN_IAC_TEXT = 0,
    TARN_IAC_INTEGER = 1,
    TARN_IAC_REAL = 2,
    TARN_IAC_LIST = 3
} tarn_iac_kind;

typedef struct tarn_iac_cell {
    tarn_iac_kind kind;
    union {
        const char *text;                  /* UTF-8 */
        const struct tarn_iac_cell *items; /* of a list: no lists and no nulls */
    };
    size_t size; /* bytes of the text, or number of items */
    int64_t integer;
    double real;
} tarn_iac_cell;

/* Adds a value to the end of a column, or a null if cell is NULL. All columns must have
 * the same number of values when the table is finished. */
TARN_API TARN_CHECKED tarn_status tarn_iac_rows_add(tarn_iac_rows *rows, size_t column,
                                                    const tarn_iac_cell *cell,
                                                    tarn_error *err);
/* Converts the table to an Arrow stream and frees the builder. The caller releases the
 * stream. */
TARN_API TARN_CHECKED tarn_status tarn_iac_rows_finish(tarn_iac_rows *rows,
                                                       struct ArrowArrayStream *out,
                                                       tarn_error *err);
TARN_API void tarn_iac_rows_free(tarn_iac_rows *rows);

#ifdef __cplusplus
}
#endif
#endif
