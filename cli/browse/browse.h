/* Shared by the parts of tarn browse. server.c speaks HTTP and calls one function per
 * request; view.c makes the dataset that a request is about; api.c, stats.c and media.c
 * answer. Up to four threads answer at once. */
#ifndef TARN_CLI_BROWSE_H
#define TARN_CLI_BROWSE_H

#include <pthread.h>

#include "../sources.h"
#include "query.h"

/* Limits of one request. */
enum {
    BROWSE_MAX_PAGE = 400,       /* samples */
    BROWSE_MAX_SIDE = 4096,      /* pixels of a side of a rendered image */
    BROWSE_MAX_PIXELS = 1 << 25, /* of an image that is rendered */
    BROWSE_MAX_IMAGE = 64 << 20, /* its bytes */
    BROWSE_MAX_TEXT = 256 << 10, /* bytes of a text that is shown */
    BROWSE_MAX_VALUES = 4096,    /* of an array */
    BROWSE_FIRST = 10000,        /* samples that are opened for a histogram or a search */
    BROWSE_FIRST_REMOTE = 256,   /* the same for remote files */
    BROWSE_MAX_NUMBERS =
        2000000,     /* samples whose values are read for a filter or a sort */
    BROWSE_VIEWS = 8 /* views that are kept open */
};

/* A sample with a problem, from --problems. */
typedef struct browse_problem {
    const char *key, *message; /* message may be "" */
} browse_problem;

typedef struct browse_problems {
    char *text;
    browse_problem *items; /* sorted by key */
    const char **keys;
    size_t count;
} browse_problems;

/* problems.c. Prints its errors. */
int browse_problems_read(const char *path, browse_problems *out);
void browse_problems_free(browse_problems *problems);
const browse_problem *browse_problem_of(const browse_problems *problems, const char *key);

/* A dataset in the order of a request. Views are shared and counted. */
typedef struct browse_view {
    char *name; /* the arguments that made it */
    tarn_dataset *set;
    uint64_t count;
    uint64_t
        first; /* samples that a filter on pixels was applied to; 0: no such filter */
    unsigned users; /* guarded by the lock of the browser */
    uint64_t used;  /* when, for eviction */
    uint64_t epoch, step, steps;
    bool has_step;
} browse_view;

typedef struct browser {
    const cli_args *args;
    cli_sources sources;
    tarn_dataset *all;    /* borrowed from sources, or listed */
    tarn_dataset *listed; /* --list; NULL without */
    tarn_dataset_info info;
    browse_problems problems;
    const char *title;
    bool has_checksums;
    const char *frame; /* origins that may show the page in a frame; or NULL */

    pthread_mutex_t lock; /* guards views, clock and checked */
    browse_view *views[BROWSE_VIEWS];
    uint64_t clock;
    tarn_dataset *checked; /* the same file with checks; opened on first use */
    /* Held while a view is made, and while samples are counted: one of each at a time. A
     * request that finds counting held is answered with 503. */
    pthread_mutex_t heavy, counting;
} browser;

/* An answer: bytes, or a part of a view of the data. */
typedef struct browse_answer {
    unsigned status; /* HTTP */
    const char *type;
    char *body; /* owned; or NULL */
    size_t size;
    browse_view *view; /* of data, which is borrowed from it */
    tarn_view data;
    uint64_t from, total; /* of data; size bytes are sent */
    bool partial;         /* answer to a request for a range */
    bool attached;        /* to be saved, never shown */
    char name[128];       /* for the saved file: only A-Z a-z 0-9 . _ - */
    bool cache;           /* the page may keep it */
    char why[600];        /* of an error: its message */
    FILE *out;            /* the body, while it is written */
} browse_answer;

/* Sets an error: JSON with a message. */
void browse_fail(browse_answer *a, unsigned status, const char *message);
void browse_fail_as(browse_answer *a, const tarn_error *err);

/* JSON into the body of an answer. */
cli_json browse_json_begin(browse_answer *a);
void browse_json_end(cli_json *j, browse_answer *a);
/* A text of any bytes: NULs and bytes that are not UTF-8 are replaced. */
void browse_json_bytes(cli_json *j, const char *key, const void *data, size_t size);
void browse_json_real(cli_json *j, const char *key, double value);

/* view.c */
/* Opens the view of a request; false after setting the answer. Close it with
 * browse_view_close. */
bool browse_view_open(browser *b, const browse_query *q, browse_view **out,
                      browse_answer *a);
void browse_view_close(browser *b, browse_view *view);
void browse_views_free(browser *b);

/* media.c */
typedef enum browse_kind {
    BROWSE_BYTES = 0,
    BROWSE_TEXT,
    BROWSE_JSON,
    BROWSE_NUMBER,
    BROWSE_ARRAY,
    BROWSE_IMAGE,
    BROWSE_AUDIO,
    BROWSE_VIDEO
} browse_kind;

const char *browse_kind_name(browse_kind kind);
/* What a field contains, by its form and its name. */
browse_kind browse_kind_of(const tarn_field_form *form);
browse_kind browse_kind_at(tarn_dataset *set, uint64_t sample, uint32_t field);
/* The type of bytes that a browser may show, by their first bytes; NULL for all others.
 * SVG, HTML and other types that can contain code are never among them. */
const char *browse_sniff(const unsigned char *data, size_t size);
/* A field of a sample as a JPEG; false if it is not a picture. */
bool browse_picture(tarn_dataset *set, uint64_t sample, uint32_t field, unsigned side,
                    tarn_bytes *out, tarn_error *err);
/* Element number i of an array, counted with the last index fastest. False if its type is
 * not a number. */
bool browse_element(const tarn_array *array, uint64_t i, double *out);
bool browse_is_picture(const tarn_array *array);
/* The width and height in the header of an image. */
bool browse_measure(const void *data, size_t size, uint32_t *width, uint32_t *height);

/* Answers of each path. */
typedef void browse_answerer(browser *b, const browse_query *q, browse_answer *a);
browse_answerer browse_info, browse_page, browse_sample, browse_find, browse_when,
    browse_stats, browse_problem_list, browse_thumb;
/* The same, with the Range header, which may be NULL. */
void browse_raw_range(browser *b, const browse_query *q, const char *range,
                      browse_answer *a);

/* sheet.c: a page of count samples in one file, for -o. */
int browse_sheet(browser *b, const char *view, const char *path, uint64_t count);

/* server.c: serves until the user stops it. view is what the page shows first: arguments
 * of a request. Returns the exit status. */
int browse_serve(browser *b, const char *view, unsigned port, bool open_page,
                 bool until_eof);

#endif
