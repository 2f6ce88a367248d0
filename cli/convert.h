/* The converters, one for each kind of source. */
#ifndef TARN_CLI_CONVERT_H
#define TARN_CLI_CONVERT_H

#include "feed.h"

/* convert_samples.c: folds, archives, streams and plain files. */
int cli_convert_samples(const cli_args *args);

#endif
