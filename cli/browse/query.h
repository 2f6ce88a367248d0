/* The request parser of tarn browse: a path and its arguments, decoded. It knows nothing
 * about HTTP and datasets. Everything in a request is hostile. */
#ifndef TARN_CLI_BROWSE_QUERY_H
#define TARN_CLI_BROWSE_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BROWSE_MAX_URI = 16384, /* bytes, encoded */
    BROWSE_MAX_ARGS = 64,
    BROWSE_MAX_FILTERS = 16
};

typedef struct browse_arg {
    const char *name, *value;
} browse_arg;

/* A request. All texts are in one allocation, valid UTF-8 and without control characters.
 */
typedef struct browse_query {
    char *text;
    const char *token; /* the first part of the path; "" if there is none */
    const char *path;  /* the rest, without the slash before it */
    browse_arg args[BROWSE_MAX_ARGS];
    size_t n_args;
} browse_query;

/* Parses "/TOKEN/PATH?NAME=VALUE&...". False if it is malformed or over a limit. */
bool browse_query_parse(const char *uri, browse_query *out);
void browse_query_free(browse_query *query);

/* The n-th value of an argument that may be repeated; NULL if there are fewer. */
const char *browse_query_at(const browse_query *q, const char *name, size_t n);
const char *browse_query_get(const browse_query *q, const char *name);
/* A whole number from 0 to most. *out is left alone without the argument. */
bool browse_query_number(const browse_query *q, const char *name, uint64_t most,
                         uint64_t *out);

typedef enum browse_filter_kind {
    BROWSE_SIZE,    /* size:MIN:MAX:FIELD, in bytes */
    BROWSE_BETWEEN, /* num:MIN:MAX:FIELD */
    BROWSE_WIDTH,   /* width:MIN:MAX:FIELD, of the first samples that are shown */
    BROWSE_HEIGHT,  /* height:MIN:MAX:FIELD */
    BROWSE_HAS,     /* has:FIELD */
    BROWSE_LACKS,   /* lacks:FIELD */
    BROWSE_IS,      /* is:N:FIELDVALUE, where FIELD has N bytes */
    BROWSE_PROBLEMS /* problems */
} browse_filter_kind;

typedef struct browse_filter {
    browse_filter_kind kind;
    char *field; /* owned; NULL for PROBLEMS */
    char *value; /* owned; IS */
    double min, max;
} browse_filter;

bool browse_filter_parse(const char *text, browse_filter *out);
void browse_filter_free(browse_filter *filter);

/* A single range of bytes: "bytes=A-B", "bytes=A-" or "bytes=-N", of size bytes. 1 if it
 * is one, 0 if the text is another kind of range, -1 if it is outside of the bytes. */
int browse_range_parse(const char *text, uint64_t size, uint64_t *out_from,
                       uint64_t *out_count);

#endif
