/* The samples of a fold and of streams into a target: what pack, convert and split share.
 */
#ifndef TARN_CLI_FEED_H
#define TARN_CLI_FEED_H

#include "out.h"

/* Writes the samples of a dataset, each into the fold that parts says; NULL: all into
 * one. */
int cli_feed(cli_out *out, tarn_dataset *set, const uint8_t *parts);

/* What a word on the command line is, by its name and what is there. */
bool cli_is_folder(const char *path);
bool cli_is_archive(const char *path); /* a tar archive or stream */

/* pack.c: the words, all of them files, folders of files and manifests, or archives. */
int cli_pack_files(const cli_args *args, const char *target);

/* What to do about a key that comes twice in archives. */
const char *cli_stream_hint(const char *target);

#endif
