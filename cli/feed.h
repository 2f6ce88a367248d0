/* Writes the samples of a fold or of streams into a target. Shared by pack, convert and
 * split. */
#ifndef TARN_CLI_FEED_H
#define TARN_CLI_FEED_H

#include "out.h"

/* Writes the samples of a dataset, each into the fold given by parts; NULL: all into one
 * fold. */
int cli_feed(cli_out *out, tarn_dataset *set, const uint8_t *parts);

/* What a word on the command line refers to, by its name and by the file it names. */
bool cli_is_folder(const char *path);
bool cli_is_archive(const char *path); /* a tar archive or stream */

/* pack.c: packs all words: files, folders of files and manifests, or archives. */
int cli_pack_files(const cli_args *args, const char *target);

/* Kinds of targets. */
enum {
    CLI_TO_FOLD = 1,
    CLI_TO_SHARDS = 2,
    CLI_TO_ARCHIVE = 4,
    CLI_TO_SAMPLES = 7, /* these three */
    CLI_TO_FILES = 8,
    CLI_TO_GNZ = 16,
    CLI_TO_NPZ = 32,
    CLI_TO_NPY = 64,
    CLI_TO_IAC = 128
};

/* An option that applies only to some targets. A NULL name ends a table. */
typedef struct cli_applies {
    const char *name;
    unsigned targets;
    const char *those; /* the same in words */
} cli_applies;

/* The kind of the target to. */
unsigned cli_target_of(const cli_args *args, const char *to);
/* Rejects options that do not apply to the target. */
int cli_refuse_foreign(const cli_args *args, const cli_applies *table, const char *to);

/* What to do about a duplicate key in archives. */
const char *cli_stream_hint(const char *target);

#endif
