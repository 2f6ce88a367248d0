/* The converters, one for each kind of source. */
#ifndef TARN_CLI_CONVERT_H
#define TARN_CLI_CONVERT_H

#include "feed.h"

/* convert_pack.c: a fold into a pack, and a pack into samples. */
int cli_convert_to_pack(const cli_args *args, const char *from, const char *to);
int cli_convert_from_pack(const cli_args *args, const char *from, const char *to);

/* convert_samples.c: folds, archives, streams and plain files. */
int cli_convert_samples(const cli_args *args);

#endif
