/* Declarations shared by the subcommands. Each command is described once, in a table.
 * Argument parsing, --help, the man page and the shell completion all use that table. */
#ifndef TARN_CLI_H
#define TARN_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include <tarn/tarn.h>

enum { CLI_OK = 0, CLI_DATA = 1, CLI_USAGE = 2, CLI_MAX_OPTIONS = 64 };

typedef struct cli_option {
    const char *name; /* without the dashes; "" for a heading; NULL ends the table */
    char letter;      /* 0 for none */
    /* Placeholder for the value, such as "N"; "[=WORD]" if it may be omitted; NULL for a
     * switch. */
    const char *value;
    const char *help; /* or the text of the heading */
} cli_option;

/* Groups the options that follow it. A table has no headings, or starts with one. */
#define CLI_HEADING(text)                                                                \
    {                                                                                    \
        "", 0, NULL, text                                                                \
    }

typedef struct cli_example {
    const char *command; /* NULL ends the table */
    const char *meaning;
} cli_example;

/* An option as it was given. */
typedef struct cli_given {
    int option; /* index in the table */
    const char *value;
} cli_given;

typedef struct cli_args {
    const struct cli_command *command;
    const char *values[CLI_MAX_OPTIONS]; /* by index in the table; "" for a switch */
    const char **words;                  /* positional arguments */
    int n_words;
    cli_given *given; /* all options in order, for those that may be repeated */
    int n_given;
} cli_args;

typedef struct cli_command {
    const char *name;
    const char *words; /* "PATH KEY [FIELD]" */
    int min_words, max_words;
    const char *summary; /* one line */
    const char *text;    /* paragraphs, separated by an empty line */
    const cli_option *options;
    const cli_example *examples;
    int (*run)(const cli_args *args);
} cli_command;

extern const cli_command *const cli_commands[];        /* NULL-terminated */
const cli_command *cli_find_command(const char *name); /* or NULL */
extern const cli_command cli_commit, cli_index, cli_info, cli_ls, cli_get, cli_extract,
    cli_verify, cli_pack, cli_convert, cli_split, cli_merge, cli_browse, cli_when, cli_at,
    cli_bench, cli_simulate, cli_cache, cli_help;

/* help.c */
int cli_show_help(const cli_command *command);
int cli_show_overview(FILE *out);

/* args.c: the value of an option, or NULL if it was not given. */
const char *cli_value(const cli_args *args, const char *name);
bool cli_has(const cli_args *args, const char *name);
/* The values of an option that may be repeated: the first for n = 0, and so on; then
 * NULL. */
const char *cli_value_at(const cli_args *args, const char *name, size_t n);
/* Sets an option as if it had been given. The command must have the option. */
void cli_set(cli_args *args, const char *name, const char *value);
int cli_parse(const cli_command *command, int argc, char **argv, cli_args *out);
void cli_args_free(cli_args *args);

/* The known word that is nearest to an unknown one. Start with the word alone. */
typedef struct cli_guess {
    const char *word, *best;
    size_t distance;
} cli_guess;
void cli_guess_try(cli_guess *guess, const char *known);
/* "; did you mean --fields?", with a prefix such as "--", or "" if no word is near. */
const char *cli_guess_text(const cli_guess *guess, const char *prefix);
/* The same for the name of a subcommand. */
const char *cli_guess_command(const char *name);
/* Takes one of count words (at most 16) as the value of an option; *out is its number,
 * and is left alone without the option. False after printing a usage message. */
bool cli_choice(const cli_args *args, const char *name, const char *const *words,
                size_t count, int *out);

bool cli_number(const cli_args *args, const char *name, unsigned *out);
bool cli_number64(const cli_args *args, const char *name, uint64_t *out);
bool cli_keys(const cli_args *args, tarn_keys *out);
bool cli_ends_with(const char *text, const char *ending); /* ignores case */

/* Whether a field has this type: "jpg" and "left.JPG" have the type "jpg". */
bool cli_field_is(const char *field, const char *kind);
const char *cli_base_name(const char *path);
/* Rejects options that do not apply to kind instead of ignoring them. names ends with
 * NULL. */
int cli_refuse(const cli_args *args, const char *kind, const char *const *names);
/* The same, and says what to use instead. The list ends with NULL. */
typedef struct cli_instead {
    const char *option, *instead;
} cli_instead;
int cli_refuse_for(const cli_args *args, const char *kind, const cli_instead *list);

/* A list: "a,b,c", or "@FILE" with one item per line ("@-" is standard input). */
typedef struct cli_list {
    char *text;
    const char **items;
    size_t count;
} cli_list;
void cli_lower(char *text); /* fields are stored in lower case */
char *cli_file_text(
    const char *path); /* the whole file, "-" for standard input; or NULL */
bool cli_list_get(const char *value, cli_list *out);
void cli_list_free(cli_list *list);

/* report.c: errors and warnings on standard error. */
/* A path or URL as it may be printed; NULL for NULL. Up to 8 results can be used at
 * once. */
const char *cli_shown(const char *path);
/* Prints a message and exits. The next run removes what this one was writing. */
_Noreturn void cli_no_memory(void);

/* printf to standard error and to standard output. Names in the text come from files, so
 * control characters other than newlines and tabs are escaped: always on standard error,
 * and on standard output if it is a terminal. cli_note also hides what URLs in the text
 * keep secret; for standard output, pass a path through cli_shown. */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int cli_usage(const cli_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int cli_fail(const tarn_error *err);                  /* returns the exit status */
void cli_warn(void *context, const tarn_error *what); /* a tarn_notice */
/* "1 shard", "2 shards". Up to 8 results can be used in one printf. */
const char *cli_count(uint64_t n, const char *what);
int cli_finish(void); /* flushes standard output; returns the exit status */

/* progress.c: a progress bar on standard error, if that is a terminal. */
typedef struct cli_progress {
    const char *what;
    double began, shown;
    bool active;
    bool samples; /* counts samples instead of bytes */
} cli_progress;
void cli_progress_begin(cli_progress *p, const char *what, bool wanted);
int cli_progress_step(void *progress, uint64_t done, uint64_t total); /* tarn_progress */
void cli_progress_end(cli_progress *p);
void cli_catch_interrupt(void);
bool cli_interrupted(void);

/* json.c: writes JSON values and the commas between them. */
typedef struct cli_json {
    FILE *out;
    bool comma;
} cli_json;
void cli_json_open(cli_json *j, const char *key, char bracket);
void cli_json_close(cli_json *j, char bracket);
void cli_json_text(cli_json *j, const char *key, const char *value);
void cli_json_number(cli_json *j, const char *key, uint64_t value);
void cli_json_bool(cli_json *j, const char *key, bool value);
/* Writes text that is already JSON. */
void cli_json_raw(cli_json *j, const char *key, const char *text, size_t len);
void cli_json_problem(cli_json *j, const tarn_error *what);
void cli_json_line(cli_json *j);

/* get.c: writes bytes to a file (through a temporary file) or to standard output (path is
 * NULL or "-"). */
int cli_write_out(const char *path, const tarn_view *view);

/* info.c: prints how many samples have which fields, for an array file or a record pack;
 * as member "sets" in JSON. Prints nothing if there are no samples. */
int cli_show_sets(const char *path, cli_json *json);

/* gnz.c: the subcommands for array files. */
bool cli_is_gnz(const char *path);
int cli_gnz_info(const char *path, cli_json *json);
int cli_gnz_ls(const cli_args *args);
int cli_gnz_get(const cli_args *args);

/* iac.c: the subcommands for record packs, which are recognised by file name or by their
 * first bytes. */
/* Whether path is a regular file that starts with these bytes (len is at most 8). */
bool cli_begins_with(const char *path, const char *magic, size_t len);
bool cli_is_pack(const char *path);
int cli_iac_info(const cli_args *args);
int cli_iac_ls(const cli_args *args);
int cli_iac_get(const cli_args *args);
/* Reads the options for IAC files. */
int cli_iac_options(const cli_args *args, tarn_iac_write_options *out);
/* Creates an IAC file from another; with upgrade, only the header is rewritten. Prints a
 * summary and returns the exit status. */
int cli_iac_convert(const cli_args *args, const char *from, const char *to);
/* Prints the summary of a written IAC file, in the format the options ask for. */
void cli_iac_print_summary(const cli_args *args, uint64_t records, const char *path);
/* Checks only the end of the name, because the file may not exist yet. */
bool cli_is_pack_name(const char *path);

/* Options that both share. */
#define CLI_IAC_OPTIONS                                                                  \
    {"codec", 0, "NAME",                                                                 \
     ".iac: compress payloads (brotli, zstd, gzip), or name their format (png, jpeg)"},  \
        {"level", 0, "N",                                                                \
         "compression level, with --codec or for an archive such as x.tar.zst"},         \
        {"version", 0, "N", ".iac: format version, 2 (default) or 1"},                   \
    {                                                                                    \
        "header", 0, "JSON", ".iac: JSON object with additional header fields"           \
    }

/* verify_decode.c: --decode. Decodes all samples of the first word, all folds of a
 * folder, and prints those that cannot be decoded; as members of an open object in JSON.
 */
int cli_verify_decode(const cli_args *args, cli_json *json);

/* open.c: a fold opened for reading. Initialise with zeros. */
typedef struct cli_fold {
    tarn_dataset *set; /* after filters */
    tarn_fold_info fold;
    tarn_stored *members; /* of the last requested sample */
    size_t count, room;
} cli_fold;

/* Opens a fold, using the options in args. */
int cli_open(const cli_args *args, const char *path, cli_fold *out);
/* Like cli_open. keys is the rule used without an index and without --keys. */
int cli_open_keys(const cli_args *args, const char *path, tarn_keys keys, cli_fold *out);
void cli_fold_close(cli_fold *fold);
/* Opens any dataset, and also uses --key. fields is as in tarn_dataset_options. */
int cli_dataset_open(const cli_args *args, const char *path, tarn_keys keys,
                     const char *const *fields, tarn_dataset **out);
/* Neither an array file nor a record pack. */
bool cli_is_fold_path(const char *path);
/* Whether path is a .taridx whose shards are not next to it. */
/* Prints how many samples lack one of the fields. */
/* Warns if the cache of a dataset can store nothing. */
void cli_note_cache(const tarn_dataset *set);
void cli_note_left_out(const char *const *fields, size_t count, uint64_t left_out,
                       uint64_t samples);
bool cli_is_lone_index(const char *path);

/* Filters; they print their errors. cli_filter applies --samples and --fields,
 * cli_fold_fields keeps the samples that have all of these fields (and only these
 * fields), cli_slice keeps samples from to to - 1. */
int cli_filter(const cli_args *args, cli_fold *fold);
int cli_fold_fields(cli_fold *fold, const char *const *fields, size_t count);
int cli_slice(cli_fold *fold, uint64_t from, uint64_t to);

/* Reads the members of a sample into fold->members. */
tarn_status cli_members_of(cli_fold *fold, tarn_dataset *set, uint64_t sample,
                           tarn_error *err);

/* Part number of count, for --task; 0 of 1 is everything. */
typedef struct cli_part {
    uint64_t number, count;
} cli_part;

/* order.c: reads "NUMBER/COUNT"; form says so in the error. */
bool cli_share(const cli_args *args, const char *name, const char *form,
               uint64_t *out_number, uint64_t *out_count);
bool cli_task(const cli_args *args, cli_part *out);
/* The first of a part's items, of n, and the first after them. */
void cli_part_range(const cli_part *part, uint64_t n, uint64_t *out_first,
                    uint64_t *out_end);

#define CLI_TASK                                                                         \
    {                                                                                    \
        "task", 0, "I/N", "only part I (from 0) of N; tarn commit publishes all parts"   \
    }

/* order.c: whether an order option was given; see sources.h. */
bool cli_has_order(const cli_args *args);

#define CLI_ORDER                                                                        \
    {"order", 0, "KIND", "identity, shuffle, blocks, lengths, balanced, weighted, ..."}, \
        {"seed", 0, "N", "seed of the order (default 0)"},                               \
        {"epoch", 0, "N", "epoch of the order (default 0)"},                             \
        {"rank", 0, "R/W", "only the samples of rank R of W"},                           \
        {"uneven", 0, "HOW",                                                             \
         "if W does not divide the count: keep (default), drop or pad"},                 \
        {"by", 0, "FIELD",                                                               \
         "lengths: field to sort by size; balanced, weighted: numeric field"},           \
        {"block", 0, "N", "blocks: samples per block (default 1024)"},                   \
        {"chunk", 0, "N", "lengths: samples per chunk (default 256)"},                   \
        {"window", 0, "N", "blocks: number of blocks mixed together (default 16)"},      \
        {"rounds", 0, "N", "feistel, buckets: rounds of glzn's order (default 3)"},      \
    {                                                                                    \
        "mix", 0, "N", "buckets: mix shards, with N buckets per shard"                   \
    }

/* remote.c: remote folds. */
/* Takes the options that CLI_REMOTE adds to a command. */
void cli_remote_begin(const cli_args *args);
/* For a command whose --cache is not a folder. */
void cli_remote_keep_nothing(void);
void cli_remote_options(const char *path, tarn_dataset_options *o);
/* Whether a path is the URL of a fold. For .tar files this depends on whether there is an
 * index; without one they are streams. */
bool cli_is_remote_fold(const char *path);
/* Fetches count samples of a remote dataset, or only their keys, for reading them one by
 * one. Problems show up there. */
void cli_remote_ahead(tarn_dataset *set, const uint64_t *samples, size_t count,
                      uint32_t fields);
/* The dataset of a path, with default options, if it is already open; or NULL. */
tarn_dataset *cli_remote_take(const char *path);
void cli_remote_end(void);

#define CLI_REMOTE_INDEX                                                                 \
    {                                                                                    \
        "index", 0, "FILE",                                                              \
            "remote folds: a local .taridx instead of that of the shards"                \
    }
#define CLI_REMOTE                                                                       \
    CLI_REMOTE_INDEX,                                                                    \
    {                                                                                    \
        "cache", 0, "DIR", "remote files: keep what is read here (default: $TARN_CACHE)" \
    }

/* stream.c: archives that are read sequentially. */
typedef struct cli_stream {
    tarn_samples *samples;
    const char *url;
    cli_progress progress;
    cli_list keys, fields; /* --samples (sorted) and --fields */
    bool *found;           /* for each key, whether it was seen */
} cli_stream;
bool cli_is_stream(const char *path);
/* Opens args->words[0], using the options in args; o holds what the command needs. */
int cli_stream_open(const cli_args *args, tarn_samples_options *o, cli_stream *out);
/* Opens all words. o has the key rule to use without --keys. */
int cli_stream_open_all(const cli_args *args, tarn_samples_options *o, cli_stream *out);
/* Sets how streams are read, and selects samples and fields. cli_stream_close frees
 * s->keys and s->fields. */
bool cli_stream_options(const cli_args *args, tarn_samples_options *o);
int cli_stream_filters(const cli_args *args, cli_stream *s, tarn_samples_options *o);
/* Reports how reading ended, if there is something to report. Returns the exit status. */
int cli_stream_end(cli_stream *stream, tarn_status status, const tarn_error *err);
void cli_stream_close(cli_stream *stream);

/* extract.c: writes the samples of all words as files into a folder. */
int cli_extract_to(const cli_args *args, const char *folder);

/* Options of commands that read streams. */
#define CLI_ALLOW_PIPE                                                                   \
    {                                                                                    \
        "allow-pipe", 0, NULL, "run pipe:COMMAND in a shell and read its output"         \
    }
#define CLI_WITHOUT                                                                      \
    {                                                                                    \
        "without", 0, "LIST", "leave out these keys: a,b or @FILE"                       \
    }
#define CLI_FIELDS(letter)                                                               \
    {                                                                                    \
        "fields", letter, "LIST",                                                        \
            "only samples that have all of these fields, and only these fields"          \
    }
#define CLI_FIELDS_TEXT                                                                  \
    "--fields 'jpg;png,cls' takes the first of jpg and png that a sample has, and "      \
    "names it jpg; 'img=jpg;png' names it img. Samples that lack a field are left "      \
    "out; their number is printed on standard error."
#define CLI_KEYS                                                                         \
    {                                                                                    \
        "keys", 0, "RULE",                                                               \
            "key rule without an index: base, path or, for streams, webdataset"          \
    }
#define CLI_MAX_SAMPLE                                                                   \
    {                                                                                    \
        "max-sample", 0, "MB", "streams: largest sample held in memory (default 1024)"   \
    }

#endif
