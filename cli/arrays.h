/* Arrays from .npy, .npz and .gnz files, and into them. */
#ifndef TARN_CLI_ARRAYS_H
#define TARN_CLI_ARRAYS_H

#include "cli.h"

typedef enum cli_kind { CLI_OTHER, CLI_NPY, CLI_NPZ, CLI_GNZ } cli_kind;

/* By the end of the name. */
cli_kind cli_kind_of(const char *path);

typedef struct cli_arrays {
    tarn_array *arrays;
    char **names;
    size_t count, capacity;
    char *metadata;                /* of the last .gnz, NULL if there was none */
    struct cli_arrays_file *files; /* what the arrays lie in */
    size_t n_files;
} cli_arrays;

/* Adds the arrays of a file. A .npy is named after its file, or with NAME=FILE. */
int cli_arrays_load(cli_arrays *list, const char *word);
void cli_arrays_free(cli_arrays *list);

/* Writes them all. args may have overwrite, checksums, header-pages, metadata, as,
 * reserve, compress and quiet. */
int cli_arrays_save(const cli_args *args, const cli_arrays *list, const char *path);

/* What --as says of an array, if it does; that --as names only arrays there are; the
 * metadata of --metadata, or own (may be NULL). All print what is wrong. */
int cli_arrays_type(const cli_args *args, const char *name, tarn_dtype *out, bool *found);
int cli_arrays_check_as(const cli_args *args, const char *const *names, size_t count);
int cli_arrays_metadata(const cli_args *args, const char *own, tarn_gnz_writer *w);

/* tarn pack with a .gnz as output. */
int cli_arrays_pack(const cli_args *args, const char *output);

#endif
