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

/* What to do about a duplicate key in archives. */
const char *cli_stream_hint(const char *target);

#endif
