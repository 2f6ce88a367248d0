/* The datasets that samples come from: one, or several, in order or mixed. */
#ifndef TARN_CLI_SOURCES_H
#define TARN_CLI_SOURCES_H

#include "cli.h"

typedef struct cli_source {
    const char *path;
    tarn_dataset *dataset; /* after --fields and --samples */
    tarn_dataset_info info;
    uint64_t first;   /* number of its first sample among all */
    uint32_t visible; /* number of visible fields; later fields are only for the order */
} cli_source;

typedef struct cli_sources {
    cli_source *parts;
    size_t n;
    cli_source mix; /* with --weights: its dataset contains all samples */
    uint64_t count; /* samples */
} cli_sources;

/* Opens all words of args with --fields, --samples, --key, --keys, --check, --lenient and
 * --weights. keys is the rule used without an index and without --keys. The field of --by
 * is opened as well. */
int cli_sources_open(const cli_args *args, tarn_keys keys, cli_sources *out);
void cli_sources_close(cli_sources *sources);

/* Finds sample i of all samples: its dataset, and its number in there. */
const cli_source *cli_sources_at(const cli_sources *sources, uint64_t i,
                                 uint64_t *out_number);

/* A sample's key. Row numbers have nine digits; with several sources, the number of the
 * source comes first. */
tarn_status cli_sources_key(const cli_sources *sources, uint64_t i, tarn_text *out,
                            tarn_error *err);

/* order.c: the order that the options ask for. Fills in out, which is initialised to the
 * defaults, and the data about the samples that it points to. */
typedef struct cli_order_arrays {
    uint64_t *shards; /* samples in each */
    double *weights;
    int64_t *classes;
    uint64_t *lengths;
} cli_order_arrays;
int cli_order_options(const cli_args *args, cli_sources *sources, cli_order_arrays *data,
                      tarn_order_options *out);
void cli_order_arrays_free(cli_order_arrays *data);

/* What of an order is wanted: part of positions from to to - 1. */
typedef struct cli_order_part {
    uint64_t from, to;   /* --range */
    cli_part part;       /* --task */
    uint64_t first, end; /* set by cli_order: the part, counted from from */
} cli_order_part;

/* order.c: sample numbers in the order of the options, of a rank, or all of them; free()
 * them. Only those of the part are in memory. A mix is moved to the epoch. */
int cli_order(const cli_args *args, cli_sources *sources, cli_order_part *part,
              uint64_t **out);

/* order.c: the dataset of one source, or of a mix, in the order that the options say,
 * which is shuffle without --order. Close it with tarn_dataset_close. */
int cli_ordered(const cli_args *args, cli_sources *sources, tarn_dataset **out);

/* order.c: a dataset in an order. The numbers that it needs are read from the field by,
 * which is NULL for orders that need none. */
tarn_status cli_order_dataset(tarn_dataset *set, const char *by, tarn_order_options *o,
                              tarn_dataset **out, tarn_error *err);

#endif
