/* What samples come from: one dataset, or several, one behind the other or mixed. */
#ifndef TARN_CLI_SOURCES_H
#define TARN_CLI_SOURCES_H

#include "cli.h"

typedef struct cli_source {
    const char *path;
    tarn_dataset *dataset; /* after --fields and --samples */
    tarn_dataset_info info;
    uint64_t first;   /* its first sample's number among all */
    uint32_t visible; /* fields; those behind are for the order alone */
} cli_source;

typedef struct cli_sources {
    cli_source *parts;
    size_t n;
    cli_source mix; /* with --weights: its dataset is all that samples are taken from */
    uint64_t count; /* samples */
} cli_sources;

/* Opens all words of args with --fields, --samples, --key, --keys, --check, --lenient and
 * --weights; keys is the rule for keys where there is neither an index nor --keys. The
 * field of --by is there too. */
int cli_sources_open(const cli_args *args, tarn_keys keys, cli_sources *out);
void cli_sources_close(cli_sources *sources);

/* Where sample number i of all is: its dataset, and its number there. */
const cli_source *cli_sources_at(const cli_sources *sources, uint64_t i,
                                 uint64_t *out_number);

/* A sample's key; row numbers have nine digits, and of several sources the number of
 * theirs in front. */
tarn_status cli_sources_key(const cli_sources *sources, uint64_t i, tarn_text *out,
                            tarn_error *err);

/* order.c: the numbers of the samples that come to a rank, in order; free() them. A mix
 * is moved to the epoch. */
int cli_order(const cli_args *args, cli_sources *sources, uint64_t **out,
              uint64_t *out_count);

#endif
