/* Calls to tarn_pack: the options that are shared by all commands that write samples, and
 * the summary. */
#ifndef TARN_CLI_OUT_H
#define TARN_CLI_OUT_H

#include "cli.h"

typedef struct cli_out {
    const cli_args *args;
    const char *target;
    tarn_pack_options options; /* the command fills in the rest */
    tarn_fold_writer_options writer;
    tarn_tar_writer_options members; /* referenced by writer */
    tarn_sink_options sink;
    const char *hint;  /* printed after an error about a duplicate key, or NULL */
    const char *where; /* path for notices that have none, or NULL */
    cli_progress progress;
    uint64_t n_notices; /* number of notices about files so far */
    tarn_pack_report report;
} cli_out;

/* The options shared by all commands that write samples. */
#define CLI_OUT_OPTIONS                                                                  \
    {"output", 'o', "TARGET",                                                            \
     "DIR or DIR:FOLD (shards, index), x_%06d.tar (shards), x.tar[.gz|...], -, x.gnz "   \
     "or x.iac"},                                                                        \
        CLI_ROLL_OPTIONS, CLI_FOLD_OPTIONS

#define CLI_ROLL_OPTIONS                                                                 \
    {"max-count", 0, "N", "samples per shard (default 100000; 0: no limit)"},            \
    {                                                                                    \
        "max-size", 0, "SIZE",                                                           \
            "bytes per shard file, such as 500M or 2GiB (default 3G; 0: no limit)"       \
    }

#define CLI_FOLD_OPTIONS                                                                 \
    {"resume", 0, NULL, "continue an interrupted run after its last finished shard"},    \
        {"append", 0, NULL, "add shards to an existing fold"},                           \
        {"overwrite", 'f', NULL,                                                         \
         "replace an existing target once the new one is complete"},                     \
    {                                                                                    \
        "no-sync", 0, NULL, "do not wait for the disk: faster, but not crash-safe"       \
    }

/* Whether a target is a folder, judged by its name. */
bool cli_out_is_folder(const char *target);

/* Reads the options from the command line. out must not move until cli_out_run
 * returns. */
int cli_out_init(cli_out *out, const cli_args *args, const char *target);

/* Packs, then prints what was written (unless it is a dry run) or what failed and what
 * was kept. */
int cli_out_run(cli_out *out, const char *const *sources, size_t count);

/* Prints why tarn_pack failed, and what was kept. Returns the exit status. */
int cli_out_fail(const cli_out *out, const tarn_error *err);

/* Fold names and fractions for options.splits. */
enum { CLI_MAX_PARTS = TARN_PACK_MAX_FOLDS };

/* args.c: "10", "500M", "2GiB". False after printing a usage message. */
bool cli_size(const cli_args *args, const char *name, uint64_t *out);
bool cli_fraction(const cli_args *args, const char *name, double *out);

#endif
