/* The targets of convert, which all get their samples from one loop, and their view of a
 * sample. */
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

/* A value of a column of a record pack. */
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

/* If look is not NULL, all samples are passed to look first; then each is passed to
 * put. */
typedef struct cli_target {
    void *state;
    cli_put_record look;
    tarn_status (*begin)(void *state, tarn_error *err); /* may be NULL */
    cli_put_record put;
    int (*end)(void *state);   /* publishes, prints a summary; returns the exit status */
    void (*stop)(void *state); /* after a failure: removes what is not kept */
} cli_target;

/* Each fills a target; end and stop free it. count is the number of samples, order their
 * numbers in the sources. metadata may be NULL. */
int cli_target_gnz(const cli_args *args, const char *path, const char *metadata,
                   uint64_t count, cli_target *out);
int cli_target_iac(const cli_args *args, const char *path, const cli_sources *sources,
                   cli_target *out);

/* Writes samples into a fold, shards or one archive: walk passes each record to put. Of a
 * task, source and samples say what all tasks divide (tarn_pack_options). */
int cli_samples_write(const cli_args *args, const char *path, const char *source,
                      uint64_t samples,
                      tarn_status (*walk)(void *context, cli_put_record put, void *state,
                                          tarn_error *err),
                      void *context);

/* Copies records between IAC files with all columns unchanged: whether this applies, and
 * the copy itself. */
bool cli_can_copy_records(const cli_args *args, const cli_sources *sources);
int cli_copy_records(const cli_args *args, const cli_sources *sources,
                     const uint64_t *order, uint64_t count, const char *path);

/* members.c: a sample as members of an archive. Rows become .npy, columns of a record
 * pack one JSON object, and payloads get the extension of their codec. Reused for all
 * samples. */
typedef struct cli_members {
    tarn_field *fields;
    size_t count, capacity;
    char **names; /* generated names, by field */
    tarn_bytes *bytes;
    char *json;
} cli_members;

tarn_status cli_members_make(cli_members *members, const cli_record *record,
                             tarn_error *err);
void cli_members_free(cli_members *members);
tarn_status cli_piece_npy(const cli_piece *piece, tarn_bytes *out, tarn_error *err);

/* value.c: the value of a piece, if it has a single one. */
typedef enum cli_value_kind { CLI_ARRAY, CLI_TEXT, CLI_JSON, CLI_NULL } cli_value_kind;

typedef struct cli_piece_value {
    cli_value_kind kind;
    tarn_array array; /* numbers are arrays without dimensions */
    const char *text; /* also for JSON objects and lists */
    size_t size;
    tarn_value held; /* private from here on */
    char *owned;
    int64_t integer;
    double real;
    unsigned char flag;
} cli_piece_value;

/* TARN_ERR_UNSUPPORTED, with the sample's key, if there is no single value. */
tarn_status cli_value_read(const cli_record *record, const cli_piece *piece,
                           cli_piece_value *out, tarn_error *err);
void cli_value_free(cli_piece_value *value);

/* Length of the UTF-8 sequence at s, and its code point; 0 if it is invalid. */
size_t cli_utf8(const char *s, size_t len, uint32_t *out_code);

/* report.c: an error about a sample. */
tarn_status cli_error(tarn_error *err, tarn_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
