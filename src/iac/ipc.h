/* Shared by reading and writing Arrow IPC: the numbers of the format, and the layout of
 * each type. Message layouts follow Arrow's Message.fbs and Schema.fbs. */
#ifndef TARN_IAC_IPC_H
#define TARN_IAC_IPC_H

#include "iac/flat.h"
#include "iac/table.h"

enum { IPC_CONTINUATION = -1, IPC_ALIGN = 8, IPC_V4 = 3, IPC_V5 = 4 };
enum { IPC_SCHEMA = 1, IPC_DICTIONARY = 2, IPC_BATCH = 3 };

/* Field numbers of Message. */
enum { MESSAGE_VERSION, MESSAGE_HEADER_TYPE, MESSAGE_HEADER, MESSAGE_BODY, MESSAGE_META };
enum { SCHEMA_ENDIAN, SCHEMA_FIELDS, SCHEMA_META, SCHEMA_FEATURES };
enum {
    FIELD_NAME,
    FIELD_NULLABLE,
    FIELD_TYPE_TYPE,
    FIELD_TYPE,
    FIELD_DICTIONARY,
    FIELD_CHILDREN,
    FIELD_META
};
enum { DICT_ID, DICT_INDEX, DICT_ORDERED, DICT_KIND };
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION, BATCH_VARIADIC };
enum { DICTBATCH_ID, DICTBATCH_DATA, DICTBATCH_DELTA };

/* Numbers of the Type union. */
enum {
    TYPE_NULL = 1,
    TYPE_INT,
    TYPE_FLOAT,
    TYPE_BINARY,
    TYPE_UTF8,
    TYPE_BOOL,
    TYPE_DECIMAL,
    TYPE_DATE,
    TYPE_TIME,
    TYPE_TIMESTAMP,
    TYPE_INTERVAL,
    TYPE_LIST,
    TYPE_STRUCT,
    TYPE_UNION,
    TYPE_FIXED_BINARY,
    TYPE_FIXED_LIST,
    TYPE_MAP,
    TYPE_DURATION,
    TYPE_LARGE_BINARY,
    TYPE_LARGE_UTF8,
    TYPE_LARGE_LIST,
    TYPE_RUN_END,
    TYPE_BINARY_VIEW,
    TYPE_UTF8_VIEW,
    TYPE_LIST_VIEW,
    TYPE_LARGE_LIST_VIEW
};

/* How the values of a type are stored in its buffers, derived from its format string in
 * the C data interface. */
typedef enum tarn__shape {
    SHAPE_NULL,
    SHAPE_BITS,      /* validity, one bit each */
    SHAPE_FIXED,     /* validity, width bytes each */
    SHAPE_VAR,       /* validity, offsets of width bytes, bytes */
    SHAPE_VIEW,      /* validity, 16 bytes each, any number of buffers, their sizes */
    SHAPE_LIST,      /* validity, offsets of width bytes; one child */
    SHAPE_LISTVIEW,  /* validity, offsets and sizes of width bytes; one child */
    SHAPE_FIXEDLIST, /* validity; one child with width values each */
    SHAPE_STRUCT,
    SHAPE_SPARSE, /* types of one byte */
    SHAPE_DENSE,  /* types of one byte, offsets of four */
    SHAPE_RUNEND  /* two children */
} tarn__shape;

typedef struct tarn__layout {
    tarn__shape shape;
    uint32_t width; /* see tarn__shape */
    int buffers;    /* in IPC, without the data buffers of views */
    bool has_validity;
    bool is_text;
    char number; /* 'i' signed, 'u' unsigned, 'f' float, 0 not a number */
} tarn__layout;

/* A type whose format has no parameters. */
typedef struct tarn__type {
    const char *format;
    const char *word;
    int number; /* TYPE_INT, ... */
    int a, b;   /* fields 0 and 1 of the type's IPC table, see below */
    tarn__layout layout;
} tarn__type;

/* Finds a type by its format, or by the fields of an IPC schema; NULL if it is
 * unknown. */
const tarn__type *tarn__type_of(const char *format);
const tarn__type *tarn__type_numbered(int number, int a, int b);

/* How fields 0 and 1 of a type's table are written: the number of bytes (0 for no such
 * field), and the default value, which is left out. */
typedef struct tarn__type_fields {
    unsigned char width[2], otherwise[2];
} tarn__type_fields;

tarn__type_fields tarn__type_fields_of(int number);

/* False for an unknown format. */
bool tarn__layout_get(const char *format, tarn__layout *out);

/* Number i of a buffer of numbers of width bytes: 1, 2, 4 or 8. */
static inline uint64_t tarn__uint_at(const void *buffer, uint32_t width, int64_t i)
{
    return tarn__get_uint((const unsigned char *)buffer + (size_t)i * width, width);
}

static inline int64_t tarn__int_at(const void *buffer, uint32_t width, int64_t i)
{
    uint64_t value = tarn__uint_at(buffer, width, i);
    return width == 4   ? (int32_t)value
           : width == 8 ? (int64_t)value
           : width == 2 ? (int16_t)value
                        : (int8_t)value;
}

/* The end of run i of a run-end encoded column. */
static inline int64_t tarn__run_end(const struct ArrowSchema *schema,
                                    const struct ArrowArray *array, int64_t i)
{
    char format = schema->children[0]->format[0];
    return tarn__int_at(array->children[0]->buffers[1],
                        format == 's'   ? 2
                        : format == 'i' ? 4
                                        : 8,
                        i);
}

/* The dictionary-encoded fields of a schema in walk order: a field, then the fields
 * inside its value type. */
typedef struct tarn__dict {
    int64_t id;
    uint32_t first; /* the first field with this id */
    uint32_t next;  /* the next field that is not inside its value type */
    const struct ArrowSchema *field;
    struct ArrowArray *value; /* current values, stored on the first field of the id */
    const void *written;      /* the dictionary written last */
} tarn__dict;

typedef struct tarn__dicts {
    tarn__dict *items;
    size_t count, capacity;
} tarn__dicts;

/* Checks that all tables, vectors and strings of a message's metadata are inside its size
 * bytes. base is added to the offset in errors. */
TARN_CHECKED tarn_status tarn__message_check(const unsigned char *data, uint32_t size,
                                             uint64_t base, tarn_error *err);

/* Converts an IPC schema to a C schema. *out must be released even after a failure. */
TARN_CHECKED tarn_status tarn__schema_decode(flat schema, struct ArrowSchema *out,
                                             tarn__dicts *dicts, tarn_error *err);

/* Checks that every part of a schema, from a caller or a file, is supported, and lists
 * its dictionaries with ids from 0. */
TARN_CHECKED tarn_status tarn__schema_check(const struct ArrowSchema *schema,
                                            tarn__dicts *dicts, tarn_error *err);

/* A column without rows. */
TARN_CHECKED tarn_status tarn__array_empty(tarn__slab *slab,
                                           const struct ArrowSchema *schema,
                                           struct ArrowArray *out, tarn_error *err);

/* Checks what reading does not depend on, after tarn__array_validate: numbers of nulls,
 * UTF-8, and the parts of views that are not positions. Of texts in views, at most *left
 * bytes are read, because views may overlap. */
TARN_CHECKED tarn_status tarn__array_check_values(const struct ArrowSchema *schema,
                                                  const struct ArrowArray *array,
                                                  uint64_t *left, tarn_error *err);

/* Validates the contents of an array's buffers; see tarn__table_validate. */
TARN_CHECKED tarn_status tarn__array_validate(const struct ArrowSchema *schema,
                                              const struct ArrowArray *array,
                                              tarn_error *err);

#endif
