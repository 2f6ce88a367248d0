/* Where samples of any dataset go: the targets of convert, all fed by one loop, and how
 * they see a sample. */
#ifndef TARN_CLI_TARGET_H
#define TARN_CLI_TARGET_H

#include <string.h>

#include "feed.h"
#include "sources.h"

typedef struct cli_piece {
    const char *name; /* of the field */
    tarn_field_form form;
    const unsigned char *data;
    size_t size;
} cli_piece;

/* A value of a pack's column. */
static inline bool cli_is_column(const tarn_field_form *form)
{
    return form->form != TARN_FORM_NAMED && form->codec &&
           strcmp(form->codec, "json") == 0;
}

typedef struct cli_record {
    const char *key;
    uint64_t number; /* in the target, from 0 */
    const cli_piece *pieces;
    size_t count;
} cli_record;

typedef tarn_status (*cli_put_record)(void *state, const cli_record *record,
                                      tarn_error *err);

/* All samples are looked at first where look is not NULL, then put one by one. */
typedef struct cli_target {
    void *state;
    cli_put_record look;
    tarn_status (*begin)(void *state, tarn_error *err); /* may be NULL */
    cli_put_record put;
    int (*end)(void *state);   /* publishes and tells; the exit status */
    void (*stop)(void *state); /* after a failure: nothing is left but what is told */
} cli_target;

/* Each fills a target, which end and stop free. count is how many samples will come,
 * order their numbers in the sources; metadata may be NULL. */
int cli_target_gnz(const cli_args *args, const char *path, const char *metadata,
                   uint64_t count, cli_target *out);
int cli_target_iac(const cli_args *args, const char *path, const cli_sources *sources,
                   cli_target *out);

/* Samples into a fold, shards or one archive: walk passes each record to put. */
int cli_samples_write(const cli_args *args, const char *path,
                      tarn_status (*walk)(void *context, cli_put_record put, void *state,
                                          tarn_error *err),
                      void *context);

/* Records of one pack into another with all columns as they are: whether that is what was
 * asked for, and doing it. */
bool cli_can_copy_records(const cli_args *args, const cli_sources *sources);
int cli_copy_records(const cli_args *args, const cli_sources *sources,
                     const uint64_t *order, uint64_t count, const char *path);

/* members.c: a sample as members of an archive. Rows are .npy, columns of a pack one JSON
 * object, payloads have the name their codec gives them. Used again and again. */
typedef struct cli_members {
    tarn_field *fields;
    size_t count, capacity;
    char **names; /* made ones, by field */
    tarn_bytes *bytes;
    char *json;
} cli_members;

tarn_status cli_members_make(cli_members *members, const cli_record *record,
                             tarn_error *err);
void cli_members_free(cli_members *members);
tarn_status cli_piece_npy(const cli_piece *piece, tarn_bytes *out, tarn_error *err);

/* value.c: what a piece holds, where it is one thing. */
typedef enum cli_value_kind { CLI_ARRAY, CLI_TEXT, CLI_JSON, CLI_NULL } cli_value_kind;

typedef struct cli_piece_value {
    cli_value_kind kind;
    tarn_array array; /* numbers are arrays without dimensions */
    const char *text; /* also of JSON: an object or a list */
    size_t size;
    tarn_value held; /* the rest is private */
    char *owned;
    int64_t integer;
    double real;
    unsigned char flag;
} cli_piece_value;

/* TARN_ERR_UNSUPPORTED, with the sample's key, for what is not one thing. */
tarn_status cli_value_read(const cli_record *record, const cli_piece *piece,
                           cli_piece_value *out, tarn_error *err);
void cli_value_free(cli_piece_value *value);

/* Length of the UTF-8 sequence at s, and its code point; 0 if it is none. */
size_t cli_utf8(const char *s, size_t len, uint32_t *out_code);

/* report.c: an error about a sample. */
tarn_status cli_error(tarn_error *err, tarn_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
