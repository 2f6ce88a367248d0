/* What the subcommands share. A command is described once, in its table; parsing, --help,
 * the man page and the shell completion are all made from that. */
#ifndef TARN_CLI_H
#define TARN_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include <tarn/tarn.h>

enum { CLI_OK = 0, CLI_DATA = 1, CLI_USAGE = 2, CLI_MAX_OPTIONS = 64 };

typedef struct cli_option {
    const char *name;  /* without the dashes; "" for a heading; NULL ends the table */
    char letter;       /* 0 for none */
    const char *value; /* what it takes, such as "N"; NULL for a switch */
    const char *help;  /* or the heading */
} cli_option;

/* The options after it are of one purpose. A table has none, or begins with one. */
#define CLI_HEADING(text)                                                                \
    {                                                                                    \
        "", 0, NULL, text                                                                \
    }

typedef struct cli_example {
    const char *command; /* NULL ends the table */
    const char *meaning;
} cli_example;

typedef struct cli_args {
    const struct cli_command *command;
    const char *values[CLI_MAX_OPTIONS]; /* by place in the table; "" for a switch */
    const char **words;                  /* what is no option */
    int n_words;
} cli_args;

typedef struct cli_command {
    const char *name;
    const char *words; /* "PATH KEY [FIELD]" */
    int min_words, max_words;
    const char *summary; /* one line */
    const char *text;    /* paragraphs, an empty line between two */
    const cli_option *options;
    const cli_example *examples;
    int (*run)(const cli_args *args);
} cli_command;

extern const cli_command *const cli_commands[]; /* NULL-terminated */
extern const cli_command cli_index, cli_info, cli_ls, cli_get, cli_extract, cli_verify,
    cli_pack, cli_convert, cli_split, cli_merge, cli_bench, cli_help;

/* help.c */
int cli_show_help(const cli_command *command);
int cli_show_overview(FILE *out);

/* args.c: the value of an option by name, NULL if it was not given. */
const char *cli_value(const cli_args *args, const char *name);
bool cli_has(const cli_args *args, const char *name);
/* As if it had been given; the command must have the option. */
void cli_set(cli_args *args, const char *name, const char *value);
int cli_parse(const cli_command *command, int argc, char **argv, cli_args *out);
bool cli_number(const cli_args *args, const char *name, unsigned *out);
bool cli_keys(const cli_args *args, tarn_keys *out);
bool cli_ends_with(const char *text, const char *ending); /* in any case */

/* Whether a field is of this kind: "jpg" and "left.JPG" are of kind "jpg". */
bool cli_field_is(const char *field, const char *kind);
const char *cli_base_name(const char *path);
/* Options that mean nothing to what is made are not passed over in silence: names ends
 * with NULL. */
int cli_refuse(const cli_args *args, const char *kind, const char *const *names);

/* A list: "a,b,c", or "@FILE" with one on each line ("@-" is standard input). */
typedef struct cli_list {
    char *text;
    const char **items;
    size_t count;
} cli_list;
void cli_lower(char *text); /* fields are stored in lower case */
char *cli_file_text(
    const char *path); /* all of a file, "-" for standard input; or NULL */
bool cli_list_get(const char *value, cli_list *out);
void cli_list_free(cli_list *list);

/* report.c: errors and warnings on standard error. */
/* Says so and ends the command; what it was writing is swept by the next one. */
_Noreturn void cli_no_memory(void);

int cli_usage(const cli_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int cli_fail(const tarn_error *err);                  /* prints; the exit status for it */
void cli_warn(void *context, const tarn_error *what); /* a tarn_notice */
/* "1 shard", "2 shards": a few can be used in one printf. */
const char *cli_count(uint64_t n, const char *what);
int cli_finish(void); /* flushes standard output; the exit status */

/* progress.c: a bar on standard error when that is a terminal. */
typedef struct cli_progress {
    const char *what;
    double began, shown;
    bool active;
    bool samples; /* what is counted; otherwise bytes */
} cli_progress;
void cli_progress_begin(cli_progress *p, const char *what, bool wanted);
int cli_progress_step(void *progress, uint64_t done, uint64_t total); /* tarn_progress */
void cli_progress_end(cli_progress *p);
void cli_catch_interrupt(void);

/* json.c: one value after the other, commas where they belong. */
typedef struct cli_json {
    FILE *out;
    bool comma;
} cli_json;
void cli_json_open(cli_json *j, const char *key, char bracket);
void cli_json_close(cli_json *j, char bracket);
void cli_json_text(cli_json *j, const char *key, const char *value);
void cli_json_number(cli_json *j, const char *key, uint64_t value);
void cli_json_bool(cli_json *j, const char *key, bool value);
/* What is JSON already. */
void cli_json_raw(cli_json *j, const char *key, const char *text, size_t len);
void cli_json_problem(cli_json *j, const tarn_error *what);
void cli_json_line(cli_json *j);

/* get.c: writes bytes to a file, by another name first, or to standard output (NULL,
 * "-").
 */
int cli_write_out(const char *path, const tarn_view *view);

/* info.c: how many samples have which fields, of an array file or a pack; in JSON as a
 * member "sets". Nothing where there are no samples. */
int cli_show_sets(const char *path, cli_json *json);

/* gnz.c: the commands on an array file. */
bool cli_is_gnz(const char *path);
int cli_gnz_info(const char *path, cli_json *json);
int cli_gnz_ls(const cli_args *args);
int cli_gnz_get(const cli_args *args);
int cli_gnz_verify(const cli_args *args);

/* iac.c: what the commands do when PATH is a pack, by its name or its first bytes. */
/* Whether a regular file begins with these bytes, 8 at most. */
bool cli_begins_with(const char *path, const char *magic, size_t len);
bool cli_is_pack(const char *path);
int cli_iac_info(const cli_args *args);
int cli_iac_ls(const cli_args *args);
int cli_iac_get(const cli_args *args);
int cli_iac_verify(const cli_args *args);
/* Makes a pack of a folder, or of a manifest (a file); turns a pack into a pack, with
 * upgrade by its header alone. Both print what they did and return the exit status. */
int cli_iac_options(const cli_args *args, tarn_iac_write_options *out);
int cli_iac_pack(const cli_args *args, const char *output);
int cli_iac_convert(const cli_args *args, const char *from, const char *to);
/* The summary of a pack that was written, as the options want it. */
void cli_iac_tell(const cli_args *args, uint64_t records, const char *path);
/* By the end of its name: what is to become one. */
bool cli_is_pack_name(const char *path);

/* The options of both. */
#define CLI_IAC_OPTIONS                                                                  \
    {"codec", 0, "NAME", "into .iac: none, brotli, zstd or gzip, for each payload"},     \
        {"level", 0, "N",                                                                \
         "of compression, with --codec or for an archive such as x.tar.zst"},            \
        {"version", 0, "N", "into .iac: 2 (default) or 1"},                              \
    {                                                                                    \
        "header", 0, "JSON", "into .iac: an object with more fields of the header"       \
    }

/* report.c: what the verifiers of all kinds of files share: problems are told as they are
 * found, in JSON as members of a list that the verifier closes. */
typedef struct cli_watcher {
    cli_progress progress;
    cli_json json;
} cli_watcher;
void cli_watch_begin(cli_watcher *w, const cli_args *args);
void cli_watch_problem(void *watcher, const tarn_error *what); /* a tarn_notice */

/* open.c: a fold for reading. Begins as all zero. */
typedef struct cli_fold {
    tarn_dataset *set; /* after filters */
    tarn_fold_info fold;
    tarn_stored *members; /* of the last sample that was asked for */
    size_t count, room;
} cli_fold;

/* Opens a fold with the options that say how. */
int cli_open(const cli_args *args, const char *path, cli_fold *out);
/* The same; keys is the rule where there is neither an index nor --keys. */
int cli_open_keys(const cli_args *args, const char *path, tarn_keys keys, cli_fold *out);
void cli_fold_close(cli_fold *fold);
/* The same for any dataset, with --key as well; fields as in tarn_dataset_options. */
int cli_dataset_open(const cli_args *args, const char *path, tarn_keys keys,
                     const char *const *fields, tarn_dataset **out);
/* Neither an array file nor a pack. */
bool cli_is_fold_path(const char *path);
/* Whether path is a .taridx whose shards are not beside it. */
bool cli_is_lone_index(const char *path);

/* Filters, which print what is wrong: --samples and --fields, samples that have all of
 * these fields (and of them only these), samples number from to to - 1. */
int cli_filter(const cli_args *args, cli_fold *fold);
int cli_fold_fields(cli_fold *fold, const char *const *fields, size_t count);
int cli_slice(cli_fold *fold, uint64_t from, uint64_t to);

/* The members of a sample of a dataset, into fold->members. */
tarn_status cli_members_of(cli_fold *fold, tarn_dataset *set, uint64_t sample,
                           tarn_error *err);

/* order.c: whether an order was asked for; see sources.h. */
bool cli_has_order(const cli_args *args);

#define CLI_ORDER                                                                        \
    {"order", 0, "KIND", "identity, shuffle, blocks, lengths, balanced, weighted, ..."}, \
        {"seed", 0, "N", "of the order (default 0)"},                                    \
        {"epoch", 0, "N", "of the order (default 0)"},                                   \
        {"rank", 0, "R/W", "only what rank R of W sees"},                                \
        {"uneven", 0, "HOW", "what W does not divide: keep (default), drop, pad"},       \
        {"by", 0, "FIELD", "lengths: its size; balanced, weighted: its number"},         \
        {"block", 0, "N", "blocks: samples in one (default 1024)"},                      \
        {"chunk", 0, "N", "lengths: samples that stay together (default 256)"},          \
        {"window", 0, "N", "blocks: how many are mixed (default 16)"},                   \
        {"rounds", 0, "N", "feistel, buckets: of glzn's order (default 3)"},             \
    {                                                                                    \
        "mix", 0, "N", "buckets: shard mixing with N buckets per shard"                  \
    }

/* stream.c: archives that are read from front to back. */
typedef struct cli_stream {
    tarn_samples *samples;
    const char *url;
    cli_progress progress;
    cli_list keys, fields; /* of --samples, sorted, and --fields */
    bool *found;           /* the keys that came by */
} cli_stream;
bool cli_is_stream(const char *path);
/* Opens args->words[0] with the options that say how; o has what the command wants. */
int cli_stream_open(const cli_args *args, tarn_samples_options *o, cli_stream *out);
/* The same with all words; o says how keys are made without --keys. */
int cli_stream_open_all(const cli_args *args, tarn_samples_options *o, cli_stream *out);
/* How streams are read, and which of their samples and fields: s->keys and s->fields,
 * which cli_stream_close frees. */
bool cli_stream_options(const cli_args *args, tarn_samples_options *o);
int cli_stream_filters(const cli_args *args, cli_stream *s, tarn_samples_options *o);
/* How reading ended, told if need be: the exit status for it. */
int cli_stream_end(cli_stream *stream, tarn_status status, const tarn_error *err);
void cli_stream_close(cli_stream *stream);

/* extract.c: writes the samples of all words as files into a folder. */
int cli_extract_to(const cli_args *args, const char *folder);

/* The options of commands that read streams. */
#define CLI_ALLOW_PIPE                                                                   \
    {                                                                                    \
        "allow-pipe", 0, NULL, "run pipe:COMMAND in a shell and read what it prints"     \
    }
#define CLI_KEYS                                                                         \
    {                                                                                    \
        "keys", 0, "RULE",                                                               \
            "how keys are made without an index: base, path; webdataset (streams)"       \
    }
#define CLI_MAX_SAMPLE                                                                   \
    {                                                                                    \
        "max-sample", 0, "MB", "of a stream: largest sample in memory (default 1024)"    \
    }

#endif
