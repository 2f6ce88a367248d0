/* Samples from where they are to a cli_out: what pack, convert and split share. */
#ifndef TARN_CLI_FEED_H
#define TARN_CLI_FEED_H

#include "out.h"

typedef struct cli_feed {
    const cli_args *args; /* whose words are the sources */
    cli_out *out;         /* opened */
    const uint8_t *parts; /* of a fold: the part of each sample; NULL: all go to one */
    /* Of streams: fractions of chance for the parts, and which samples by number. */
    const double *fractions;
    size_t n_fractions;
    uint64_t seed;
    uint64_t from, to;
} cli_feed;

/* Both hand all samples on, and finish or stop the output. */
int cli_feed_fold(const cli_feed *feed, tarn_fold *fold);
int cli_feed_streams(const cli_feed *feed);

/* What a word on the command line is, by its name and what is there. */
bool cli_is_folder(const char *path);
bool cli_is_archive(const char *path); /* a tar archive or stream */

/* pack.c: the words, all of them files, folders of files and manifests. */
int cli_pack_files(const cli_args *args, const char *target);

#endif
