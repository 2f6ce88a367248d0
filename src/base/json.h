/* JSON as Python reads and writes it: RFC 8259 plus the words NaN, Infinity and
 * -Infinity, numbers of any length, and text with lone surrogates. Headers written by
 * Python are read by this module and written back byte for byte the same.
 *
 * Reading: the whole text becomes a list of values in the order of the text, each after
 * its parent. A tree is therefore two allocations, and walking it needs no recursion:
 *
 *     const tarn__json *v = tarn__json_root(&doc), *child = v + 1;
 *     for (uint32_t i = 0; i < v->size; i++, child = tarn__json_next(child)) ...
 *
 * The children of an object are key, value, key, value: size counts the pairs, and the
 * value of a key follows it.
 *
 * Writing: calls in the order of the text append to a buffer. A failure is kept and
 * returned by tarn__json_end, so the calls in between need no check. */
#ifndef TARN_BASE_JSON_H
#define TARN_BASE_JSON_H

#include "base/buf.h"

/* --- Reading -------------------------------------------------------------------- */

typedef enum tarn__json_kind {
    TARN__JSON_NULL,
    TARN__JSON_FALSE,
    TARN__JSON_TRUE,
    TARN__JSON_INTEGER, /* no point or exponent; any number of digits */
    TARN__JSON_REAL,    /* any other number, and NaN, Infinity, -Infinity */
    TARN__JSON_STRING,
    TARN__JSON_LIST,
    TARN__JSON_OBJECT
} tarn__json_kind;

typedef struct tarn__json {
    tarn__json_kind kind;
    uint32_t size; /* bytes of text, elements of a list, or pairs of an object */
    union {
        /* The bytes of a string, followed by a NUL (there may be others inside), or of a
         * number as written. A lone surrogate is kept in the form UTF-8 would give it (ED
         * A0 80 to ED BF BF), so tarn__utf8_is_valid says whether a string has one. */
        const char *text;
        uint32_t span; /* lists and objects: number of values at any depth, including
                          itself */
    } u;
} tarn__json;

typedef struct tarn__json_doc {
    tarn__json *values;
    char *text;
    uint32_t count;
} tarn__json_doc;

typedef struct tarn__json_options {
    size_t max_bytes;
    uint32_t max_depth;
    uint32_t max_values;
    bool last_wins; /* a duplicate key: keep the earlier position and the later value,
                       as in Python; otherwise an error */
} tarn__json_options;

#define TARN__JSON_OPTIONS_INIT                                                          \
    {                                                                                    \
        TARN_MAX_JSON_BYTES, TARN_MAX_JSON_DEPTH, TARN_MAX_JSON_VALUES, false            \
    }

/* Reads one value with only whitespace around it. An error's offset counts from the start
 * of the text; the caller adds the path and the position of the text in the file. doc is
 * always set; after a failure it is empty. */
TARN_CHECKED tarn_status tarn__json_parse(tarn__json_doc *doc, const char *text,
                                          size_t len, const tarn__json_options *options,
                                          tarn_error *err);
void tarn__json_reset(tarn__json_doc *doc);

static inline const tarn__json *tarn__json_root(const tarn__json_doc *doc)
{
    return doc->values;
}

/* The value after v and everything inside v. */
static inline const tarn__json *tarn__json_next(const tarn__json *v)
{
    return v->kind >= TARN__JSON_LIST ? v + v->u.span : v + 1;
}

static inline bool tarn__json_is(const tarn__json *v, const char *text, size_t len)
{
    return v->kind == TARN__JSON_STRING && v->size == len &&
           __builtin_memcmp(v->u.text, text, len) == 0;
}

/* The value of a key in an object, or NULL. Compares the keys one by one. */
const tarn__json *tarn__json_find(const tarn__json *object, const char *key);

/* False unless v is an integer (1.0 and 1e3 are not) that fits. */
bool tarn__json_int64(const tarn__json *v, int64_t *out);
bool tarn__json_uint64(const tarn__json *v, uint64_t *out);

/* The double nearest to a number of either kind; infinite past the range of doubles.
 * False if v is not a number. */
bool tarn__json_double(const tarn__json *v, double *out);

/* --- Writing -------------------------------------------------------------------- */

#define TARN__JSON_ONE_LINE (-1) /* value of indent: ", " and ": ", no line breaks */

typedef struct tarn__json_writer {
    tarn__buf *out;
    int indent; /* spaces per level, or TARN__JSON_ONE_LINE */
    bool ascii; /* Python's ensure_ascii; otherwise only lone surrogates are escaped */
    unsigned depth;
    bool first;     /* the innermost list or object is still empty */
    bool after_key; /* the next value belongs to the key just written */
    tarn_status status;
    tarn_error failure;
} tarn__json_writer;

/* Python's defaults: ascii, one line. Appends to out, which the caller owns. */
void tarn__json_begin(tarn__json_writer *w, tarn__buf *out);

/* The failure of any call, or TARN_OK. TARN_ERR_USAGE if a list or object is still
 * open. */
TARN_CHECKED tarn_status tarn__json_end(tarn__json_writer *w, tarn_error *err);

void tarn__json_open(tarn__json_writer *w, char bracket); /* '[' or '{' */
void tarn__json_close(tarn__json_writer *w, char bracket);
void tarn__json_key(tarn__json_writer *w, const char *text, size_t len);
void tarn__json_key_text(tarn__json_writer *w, const char *text);

/* Text is UTF-8, which may contain surrogates as in a parsed tree; otherwise
 * TARN_ERR_FORMAT. */
void tarn__json_put_string(tarn__json_writer *w, const char *text, size_t len);
void tarn__json_put_text(tarn__json_writer *w, const char *text);
void tarn__json_put_int(tarn__json_writer *w, int64_t value);
void tarn__json_put_uint(tarn__json_writer *w, uint64_t value);
void tarn__json_put_double(tarn__json_writer *w, double value);
void tarn__json_put_bool(tarn__json_writer *w, bool value);
void tarn__json_put_null(tarn__json_writer *w);

/* Writes text that is already one JSON value, unchanged. */
void tarn__json_put_raw(tarn__json_writer *w, const char *text, size_t len);

/* Writes what Python's dumps(loads(text)) gives: numbers with point or exponent in their
 * shortest form, and -0 as 0. With sort, keys are in code point order. */
void tarn__json_put_value(tarn__json_writer *w, const tarn__json *v, bool sort);

#endif
