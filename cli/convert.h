/* The paths through tarn convert. */
#ifndef TARN_CLI_CONVERT_H
#define TARN_CLI_CONVERT_H

#include "feed.h"

/* convert_dataset.c: any dataset, in any order, into a fold, archives, a .gnz or an
 * .iac. */
int cli_convert_dataset(const cli_args *args);

/* convert_samples.c: samples that are passed on unchanged, without reading single fields:
 * folds, archives and streams, plain files. */
int cli_convert_samples(const cli_args *args);

/* A folder of shards, "DIR:FOLD" or an index. */
bool cli_is_fold(const char *word);

/* --range A:B; the whole range without it. */
int cli_range(const cli_args *args, uint64_t *out_from, uint64_t *out_to);

#endif
