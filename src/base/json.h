/* JSON as Python reads and writes it: RFC 8259 and the words NaN, Infinity, -Infinity;
 * numbers of any length; text with lone surrogates. Formats whose headers Python wrote
 * are read by this and written byte for byte the same.
 *
 * Reading: the whole text becomes a list of values in the order they stand in the text,
 * each behind its parent, so that a tree is two allocations and is walked without
 * recursion:
 *
 *     const tarn__json *v = tarn__json_root(&doc), *child = v + 1;
 *     for (uint32_t i = 0; i < v->size; i++, child = tarn__json_next(child)) ...
 *
 * In an object, children are key, value, key, value: size counts the pairs, and the value
 * of a key is the one behind it.
 *
 * Writing: calls in the order of the text append to a buffer. A failure is kept and told
 * by tarn__json_end, so that calls in between need no check. */
#ifndef TARN_BASE_JSON_H
#define TARN_BASE_JSON_H

#include "base/buf.h"

/* --- Reading -------------------------------------------------------------------- */

typedef enum tarn__json_kind {
    TARN__JSON_NULL,
    TARN__JSON_FALSE,
    TARN__JSON_TRUE,
    TARN__JSON_INTEGER, /* no point, no exponent; any number of digits */
    TARN__JSON_REAL,    /* any other number, and NaN, Infinity, -Infinity */
    TARN__JSON_STRING,
    TARN__JSON_LIST,
    TARN__JSON_OBJECT
} tarn__json_kind;

typedef struct tarn__json {
    tarn__json_kind kind;
    uint32_t size; /* bytes of text, elements of a list, pairs of an object */
    union {
        /* A string's bytes, with a NUL behind them and maybe inside; a number's as they
         * stood. A lone surrogate is kept in the form UTF-8 would give it (ED A0 80 to
         * ED BF BF), so tarn__utf8_is_valid tells whether a string has one. */
        const char *text;
        uint32_t span; /* of lists and objects: values inside at any depth, and itself */
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
    bool last_wins; /* a key twice: the later value in the earlier place, as in Python;
                       otherwise an error */
} tarn__json_options;

#define TARN__JSON_OPTIONS_INIT                                                          \
    {                                                                                    \
        TARN_MAX_JSON_BYTES, TARN_MAX_JSON_DEPTH, TARN_MAX_JSON_VALUES, false            \
    }

/* Reads one value with nothing but blanks around it. An error's offset is counted from
 * the start of the text; the caller adds the path, and where the text stands in the file.
 * doc is set whatever the outcome; after a failure it is empty. */
TARN_CHECKED tarn_status tarn__json_parse(tarn__json_doc *doc, const char *text,
                                          size_t len, const tarn__json_options *options,
                                          tarn_error *err);
void tarn__json_reset(tarn__json_doc *doc);

static inline const tarn__json *tarn__json_root(const tarn__json_doc *doc)
{
    return doc->values;
}

/* The value behind v and all that is in it. */
static inline const tarn__json *tarn__json_next(const tarn__json *v)
{
    return v->kind >= TARN__JSON_LIST ? v + v->u.span : v + 1;
}

static inline bool tarn__json_is(const tarn__json *v, const char *text, size_t len)
{
    return v->kind == TARN__JSON_STRING && v->size == len &&
           __builtin_memcmp(v->u.text, text, len) == 0;
}

/* The value of a key in an object, or NULL; looks at one key after the other. */
const tarn__json *tarn__json_find(const tarn__json *object, const char *key);

/* False unless v is an integer (1.0 and 1e3 are not) that fits. */
bool tarn__json_int64(const tarn__json *v, int64_t *out);
bool tarn__json_uint64(const tarn__json *v, uint64_t *out);

/* The double nearest to a number of either kind, infinite past their range. False for
 * what is no number. */
bool tarn__json_double(const tarn__json *v, double *out);

/* --- Writing -------------------------------------------------------------------- */

#define TARN__JSON_ONE_LINE (-1) /* as indent: ", " and ": ", no line breaks */

typedef struct tarn__json_writer {
    tarn__buf *out;
    int indent; /* spaces per level, or TARN__JSON_ONE_LINE */
    bool ascii; /* Python's ensure_ascii; otherwise only lone surrogates are escaped */
    unsigned depth;
    bool first;     /* nothing stands in the innermost list or object yet */
    bool after_key; /* a value belongs to the key just written */
    tarn_status status;
    tarn_error failure;
} tarn__json_writer;

/* Python's defaults: ascii, one line. Appends to out, which the caller owns. */
void tarn__json_begin(tarn__json_writer *w, tarn__buf *out);

/* The failure of any call, or TARN_OK. TARN_ERR_USAGE if a list or object is open. */
TARN_CHECKED tarn_status tarn__json_end(tarn__json_writer *w, tarn_error *err);

void tarn__json_open(tarn__json_writer *w, char bracket); /* '[' or '{' */
void tarn__json_close(tarn__json_writer *w, char bracket);
void tarn__json_key(tarn__json_writer *w, const char *text, size_t len);
void tarn__json_key_text(tarn__json_writer *w, const char *text);

/* Text is UTF-8, where surrogates may stand as in a tree; TARN_ERR_FORMAT otherwise. */
void tarn__json_put_string(tarn__json_writer *w, const char *text, size_t len);
void tarn__json_put_text(tarn__json_writer *w, const char *text);
void tarn__json_put_int(tarn__json_writer *w, int64_t value);
void tarn__json_put_uint(tarn__json_writer *w, uint64_t value);
void tarn__json_put_double(tarn__json_writer *w, double value);
void tarn__json_put_bool(tarn__json_writer *w, bool value);
void tarn__json_put_null(tarn__json_writer *w);

/* Text that is one JSON value already, as it is. */
void tarn__json_put_raw(tarn__json_writer *w, const char *text, size_t len);

/* What Python's dumps makes of what its loads makes of the text: numbers with point or
 * exponent in their shortest form, -0 as 0. With sort, keys in the order of their code
 * points. */
void tarn__json_put_value(tarn__json_writer *w, const tarn__json *v, bool sort);

#endif
