/* Where pack and convert put samples: folds, rolling shards, or one archive. */
#ifndef TARN_CLI_OUT_H
#define TARN_CLI_OUT_H

#include "cli.h"

enum { CLI_MAX_PARTS = 8 };

typedef struct cli_out {
    const cli_args *args;
    const char *target;               /* without the ":FOLD" of "DIR:FOLD" */
    char *folder;                     /* what that was cut from, if it was */
    const char *names[CLI_MAX_PARTS]; /* of the parts: folds, if there are any */
    size_t n_parts;
    bool folds; /* otherwise one of the other two */
    tarn_fold_writer *fold[CLI_MAX_PARTS];
    tarn_shard_writer *shards;
    tarn_tar_writer *tar;
    tarn_written written[CLI_MAX_PARTS];
    double began;
    unsigned digits; /* of shard numbers; set before opening, 0: the usual */
} cli_out;

/* The options that all who write samples take, for their tables. */
#define CLI_OUT_OPTIONS                                                                  \
    {"output", 'o', "TARGET",                                                            \
     "DIR or DIR:FOLD (shards, index), x_%06d.tar (shards), x.tar[.gz|...], -, x.gnz "   \
     "or x.iac"},                                                                        \
        CLI_ROLL_OPTIONS, CLI_FOLD_OPTIONS

#define CLI_ROLL_OPTIONS                                                                 \
    {"max-count", 0, "N", "samples in a shard (default 100000; 0: no limit)"},           \
    {                                                                                    \
        "max-size", 0, "SIZE",                                                           \
            "bytes in a shard's file, such as 500M or 2GiB (default 3G; 0: no limit)"    \
    }

#define CLI_FOLD_OPTIONS                                                                 \
    {"resume", 0, NULL, "go on behind what an interrupted run finished"},                \
        {"append", 0, NULL, "add shards to a fold (rows to arrays) that is there"},      \
        {"overwrite", 'f', NULL, "replace what is there, once the new is complete"},     \
    {                                                                                    \
        "no-sync", 0, NULL, "do not wait for the disk: faster, not crash-safe"           \
    }

/* Whether a target is a folder that folds are written into, by its name. */
bool cli_out_is_folder(const char *target);

/* The folder of a target: "DIR" of "DIR:FOLD", unless that is the name of something. The
 * caller frees it. */
char *cli_out_folder(const char *target);

/* Opens the target for parts of these names. A single part takes the name of the fold
 * from "DIR:FOLD". */
int cli_out_open(cli_out *out, const cli_args *args, const char *target,
                 const char *const *names, size_t count);

/* Hands a sample on; a tarn_put. */
tarn_status cli_out_put(void *out, unsigned part, const char *key,
                        const tarn_field *fields, size_t count, tarn_error *err);

/* Whether a sample is to be written: with --resume not if it is there. A tarn_keep. */
tarn_status cli_out_keep(void *out, const char *key, unsigned part, bool *out_keep,
                         tarn_error *err);

/* Publishes and tells what was written. */
int cli_out_finish(cli_out *out);

/* After a failure: says what is kept. */
void cli_out_stop(cli_out *out);
/* The same where doing it again costs little: keeps only what was resumed. */
void cli_out_drop(cli_out *out);

/* args.c: "10", "500M", "2GiB". False after a usage message. */
bool cli_size(const cli_args *args, const char *name, uint64_t *out);
bool cli_fraction(const cli_args *args, const char *name, double *out);
bool cli_seed(const cli_args *args, const char *name, uint64_t *out);

#endif
