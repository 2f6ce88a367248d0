/* tarn/iac.h: record packs (.iac files, IatroCache): payloads in one data segment, an
 * Arrow table with a row for each of them (the index), and an Arrow table of the slides
 * they belong to.
 *
 *     tarn_iac *pack;
 *     tarn_view bytes;
 *     uint64_t row;
 *     if (tarn_iac_open("tiles.iac", NULL, &pack, &err) != TARN_OK ||
 *         tarn_iac_find(pack, "tile_id", "t_0042", 6, 0, &row, &err) != TARN_OK ||
 *         tarn_iac_view(pack, row, false, &bytes, &err) != TARN_OK)
 *         return fail(&err);
 *
 * Everything the header and the tables claim is checked before it is used. Any number of
 * threads may read from one pack without locks; the first lookup in a column, and the
 * first use of a table's other columns, do some work under a lock once.
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
#define TARN_MAX_ARROW_DEPTH  64u                  /* types inside types */
#define TARN_MAX_ARROW_FIELDS 65536u               /* columns and their children */

/* --- Codecs ------------------------------------------------------------------------ */

/* Codecs go by the name in a file's header: "none", "brotli", "zstd" and "gzip" are
 * encoded and decoded here. Payloads of others, such as "jpeg", are stored and given out
 * as they are. NULL and "" are "none". */

/* The most a payload may expand to, unless options say otherwise: this many times its
 * size, or this many bytes if that is more. */
#define TARN_IAC_MAX_EXPANSION 10000u
#define TARN_IAC_FREE_BYTES    (UINT64_C(16) << 20)

/* Encodes and decodes one payload. level: 0 is the codec's default (Brotli 11, Zstandard
 * 19, gzip 6). The view owns its bytes; limit is the most bytes it may have. */
TARN_API TARN_CHECKED tarn_status tarn_iac_encode(const char *codec, int level,
                                                  const void *data, size_t len,
                                                  tarn_view *out, tarn_error *err);
TARN_API TARN_CHECKED tarn_status tarn_iac_decode(const char *codec, const void *data,
                                                  size_t len, uint64_t limit,
                                                  tarn_view *out, tarn_error *err);

/* --- Opening ----------------------------------------------------------------------- */

typedef struct tarn_iac tarn_iac;

typedef struct tarn_iac_options {
    size_t size; /* of this struct; set by the initialiser */
    bool check;  /* compare each payload with its CRC before it is given out */
    bool no_map; /* read with pread even where the file could be mapped */
    uint64_t max_table_bytes; /* of a table's buffers once they are decompressed; 0: 32
                               * MiB and 32 times the table's length, 4 GiB at most */
    uint64_t max_expansion;   /* of one payload, as above */
} tarn_iac_options;

#define TARN_IAC_OPTIONS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_iac_options), .max_expansion = TARN_IAC_MAX_EXPANSION        \
    }
TARN_API void tarn_iac_options_init(tarn_iac_options *options, size_t size);

TARN_API TARN_CHECKED tarn_status tarn_iac_open(const char *path,
                                                const tarn_iac_options *options,
                                                tarn_iac **out, tarn_error *err);

/* Views end with it. Arrow arrays that were given out stay good until released. */
TARN_API void tarn_iac_close(tarn_iac *pack);

typedef enum tarn_iac_table { TARN_IAC_SLIDES = 0, TARN_IAC_INDEX = 1 } tarn_iac_table;

typedef struct tarn_iac_info {
    unsigned version; /* 1 or 2 */
    uint64_t records, slides;
    uint64_t slide_table_length, index_table_offset, index_table_length;
    uint64_t data_offset, data_length, file_size;
    bool has_spans;           /* the index has offset and length, of integers */
    bool has_checksums;       /* and crc32 */
    bool mapped;              /* views point into a map of the file */
    uint64_t record_bytes;    /* without spans: the size of each record, or 0 */
    size_t columns[2];        /* of each tarn_iac_table */
    const char *codec;        /* "" if the header does not say; borrowed */
    const char *payload_type; /* the same */
    const char *header;       /* the JSON text as it is in the file; borrowed */
    size_t header_length;
} tarn_iac_info;

TARN_API void tarn_iac_info_get(const tarn_iac *pack, tarn_iac_info *out, size_t size);

/* --- Payloads ---------------------------------------------------------------------- */

/* Where a record is, counted from the start of the data segment. has_crc is false where
 * the index has no crc32. */
typedef struct tarn_iac_span {
    uint64_t offset;
    uint64_t length;
    uint32_t crc32;
    bool has_crc;
} tarn_iac_span;

TARN_API TARN_CHECKED tarn_status tarn_iac_locate(const tarn_iac *pack, uint64_t row,
                                                  tarn_iac_span *out, tarn_error *err);

/* A record's bytes, borrowed until released or the pack is closed: as they are stored, or
 * decoded as the header's codec says. Decoding images and unknown codecs is
 * TARN_ERR_UNSUPPORTED. */
TARN_API TARN_CHECKED tarn_status tarn_iac_view(const tarn_iac *pack, uint64_t row,
                                                bool decode, tarn_view *out,
                                                tarn_error *err);

/* Bytes of the data segment, whatever the index says about them. */
TARN_API TARN_CHECKED tarn_status tarn_iac_view_span(const tarn_iac *pack,
                                                     uint64_t offset, uint64_t length,
                                                     tarn_view *out, tarn_error *err);

/* Copies of records as they are stored, consecutively in the order asked for; they are
 * read in the order they have in the file. Record i is data[offsets[i]] up to
 * data[offsets[i + 1]]. A batch begins as all zero, may be used many times, and is freed
 * by reset. */
typedef struct tarn_iac_batch {
    unsigned char *data;
    uint64_t *offsets; /* count + 1 of them */
    size_t count;
    size_t data_capacity, count_capacity; /* private */
    void *order;                          /* private */
} tarn_iac_batch;

TARN_API TARN_CHECKED tarn_status tarn_iac_read(const tarn_iac *pack,
                                                const uint64_t *rows, size_t count,
                                                tarn_iac_batch *out, tarn_error *err);
TARN_API void tarn_iac_batch_reset(tarn_iac_batch *batch);

/* --- Tables ------------------------------------------------------------------------ */

/* A table as an Arrow stream. Nothing is copied: the arrays point into the file's map and
 * keep it alive. All offsets and indices in them have been checked. */
TARN_API TARN_CHECKED tarn_status tarn_iac_export(tarn_iac *pack, tarn_iac_table table,
                                                  struct ArrowArrayStream *out,
                                                  tarn_error *err);

/* A column. The type is in words: "string", "timestamp[us, UTC]", "list<int64>".
 * TARN_ERR_NO_FIELD past the end. */
typedef struct tarn_iac_column {
    const char *name, *type; /* borrowed until the pack is closed */
} tarn_iac_column;

TARN_API TARN_CHECKED tarn_status tarn_iac_column_get(const tarn_iac *pack,
                                                      tarn_iac_table table, size_t column,
                                                      tarn_iac_column *out, size_t size,
                                                      tarn_error *err);

/* One value as JSON: text in quotes, binary as hexadecimal digits in quotes, times as the
 * number that is stored. *out is freed by tarn_view_release. */
TARN_API TARN_CHECKED tarn_status tarn_iac_value(tarn_iac *pack, tarn_iac_table table,
                                                 size_t column, uint64_t row,
                                                 tarn_view *out, tarn_error *err);

/* The first row from row from on whose column has the value; TARN_ERR_NO_SAMPLE if there
 * is none. Columns are of the index table, of text or integers (a value is then decimal
 * digits), also dictionary-encoded. The first lookup in a column makes an index of it in
 * memory, about 16 bytes for each row. */
TARN_API TARN_CHECKED tarn_status tarn_iac_find(tarn_iac *pack, const char *column,
                                                const char *value, size_t len,
                                                uint64_t from, uint64_t *out_row,
                                                tarn_error *err);

/* --- Verifying --------------------------------------------------------------------- */

typedef struct tarn_iac_verify_options {
    size_t size;      /* of this struct; set by the initialiser */
    unsigned threads; /* 0: as many as there are cores */
    tarn_notice problem;
    void *problem_context;
    tarn_progress progress;
    void *progress_context;
} tarn_iac_verify_options;

#define TARN_IAC_VERIFY_OPTIONS_INIT                                                     \
    {                                                                                    \
        .size = sizeof(tarn_iac_verify_options)                                          \
    }
TARN_API void tarn_iac_verify_options_init(tarn_iac_verify_options *options, size_t size);

typedef struct tarn_iac_report {
    uint64_t records, checksummed, bytes;
    uint64_t problems;
} tarn_iac_report;

/* Checks the header, both tables in full, every span and every CRC. Problems are told to
 * the callback and counted; a status other than TARN_OK says that the check itself could
 * not be made. */
TARN_API TARN_CHECKED tarn_status tarn_iac_verify(const char *path,
                                                  const tarn_iac_verify_options *options,
                                                  tarn_iac_report *report, size_t size,
                                                  tarn_error *err);

/* --- Writing -------------------------------------------------------------------------
 *
 * The tables come as Arrow streams, which are consumed (released) whatever the outcome.
 * The index gets the columns offset, length and crc32, in the place of columns of these
 * names or at its end; its number of rows is the number of payloads. */

typedef struct tarn_iac_writer tarn_iac_writer;

typedef struct tarn_iac_write_options {
    size_t size;        /* of this struct; set by the initialiser */
    const char *header; /* a JSON object with the caller's fields, or NULL */
    unsigned version;   /* 2, or 1 */
    const char *codec;  /* to encode payloads with; the header names it, too */
    int level;
    bool encoded;   /* payloads are encoded already; codec only goes into the header */
    bool segment;   /* the data segment is the caller's: see tarn_iac_writer_open */
    bool overwrite; /* replace an existing file; false: TARN_ERR_EXISTS */
    bool no_sync;   /* do not wait for the disk */
    bool in_order;  /* objects inside the header's fields stay as they are; false: their
                     * keys are sorted, as the fields are anyway */
    bool utf8;      /* the header's text is not escaped */
    /* For tarn_iac_rewrite. */
    const uint64_t *rows; /* these records only, in this order, any of them more than
                           * once; NULL: all */
    size_t n_rows;
    bool upgrade; /* see there */
} tarn_iac_write_options;

#define TARN_IAC_WRITE_OPTIONS_INIT                                                      \
    {                                                                                    \
        .size = sizeof(tarn_iac_write_options), .version = 2                             \
    }
TARN_API void tarn_iac_write_options_init(tarn_iac_write_options *options, size_t size);

/* Payloads are added one by one and written once, straight to their place in the file.
 * The tables must be known at the start.
 *
 * With segment, the index is written as it is, without the three columns; what is added
 * is appended to the data segment as it is, any number of times. */
TARN_API TARN_CHECKED tarn_status tarn_iac_writer_open(
    const char *path, struct ArrowArrayStream *slides, struct ArrowArrayStream *index,
    const tarn_iac_write_options *options, tarn_iac_writer **out, tarn_error *err);
TARN_API TARN_CHECKED tarn_status tarn_iac_writer_add(tarn_iac_writer *writer,
                                                      const void *data, size_t len,
                                                      tarn_error *err);

/* The same with the contents of a file, whose size is *out_size. */
TARN_API TARN_CHECKED tarn_status tarn_iac_writer_add_file(tarn_iac_writer *writer,
                                                           const char *path,
                                                           uint64_t *out_size,
                                                           tarn_error *err);

/* Fills in the index and the header and publishes. The handle is closed, whatever the
 * outcome; after a failure nothing is left. */
TARN_API TARN_CHECKED tarn_status tarn_iac_writer_finish(tarn_iac_writer *writer,
                                                         tarn_error *err);
TARN_API void tarn_iac_writer_abandon(tarn_iac_writer *writer);

/* Writes a pack again with another codec, level or version, or with some of its records;
 * header, if given, replaces the fields of the old one. With encoded set, payloads are
 * taken over as they are, and the codec in the header with them. The index has the rows
 * of the records, with all columns as they were. A pack whose records are not located by
 * its index keeps its data segment, unless rows are chosen.
 *
 * With upgrade, a version 1 pack becomes one of version 2: a new header before the same
 * bytes, which the file system shares between the two files where it can. to may be the
 * same path. Of the other options only overwrite counts. */
TARN_API TARN_CHECKED tarn_status tarn_iac_rewrite(const char *from, const char *to,
                                                   const tarn_iac_write_options *options,
                                                   tarn_error *err);

/* --- A table from C ------------------------------------------------------------------
 *
 * For programs without an Arrow library: columns of text, integers and doubles. */

typedef struct tarn_iac_rows tarn_iac_rows;

/* columns: "text:name", "int:count", "uint:id", "u8:slide_idx" (and u32), "real:x". */
TARN_API TARN_CHECKED tarn_status tarn_iac_rows_new(const char *const *columns,
                                                    size_t count, tarn_iac_rows **out,
                                                    tarn_error *err);

typedef enum tarn_iac_kind {
    TARN_IAC_TEXT = 0,
    TARN_IAC_INTEGER = 1,
    TARN_IAC_REAL = 2
} tarn_iac_kind;

typedef struct tarn_iac_cell {
    tarn_iac_kind kind;
    const char *text; /* UTF-8 */
    size_t size;      /* of the text */
    int64_t integer;
    double real;
} tarn_iac_cell;

/* Adds a value to the end of a column, or a null if cell is NULL. At the end all columns
 * must have the same number of values. */
TARN_API TARN_CHECKED tarn_status tarn_iac_rows_add(tarn_iac_rows *rows, size_t column,
                                                    const tarn_iac_cell *cell,
                                                    tarn_error *err);
/* Makes a stream of them, and frees the builder. */
TARN_API TARN_CHECKED tarn_status tarn_iac_rows_finish(tarn_iac_rows *rows,
                                                       struct ArrowArrayStream *out,
                                                       tarn_error *err);
TARN_API void tarn_iac_rows_free(tarn_iac_rows *rows);

#ifdef __cplusplus
}
#endif
#endif
