/* The ways through convert. */
#ifndef TARN_CLI_CONVERT_H
#define TARN_CLI_CONVERT_H

#include "feed.h"

/* convert_dataset.c: any dataset, in any order, into a fold, archives, a .gnz or an .iac.
 */
int cli_convert_dataset(const cli_args *args);

/* convert_samples.c: what goes on as it comes, without a look at single fields: a fold
 * into samples, archives and streams, plain files. */
int cli_convert_samples(const cli_args *args);

/* A folder of shards, "DIR:FOLD" or an index. */
bool cli_is_fold(const char *word);

/* --range A:B; all of them without it. */
int cli_range(const cli_args *args, uint64_t *out_from, uint64_t *out_to);

#endif
