/* Reads arrays from .npy, .npz and .gnz files and writes them. */
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
    struct cli_arrays_file *files; /* the files that hold the data */
    size_t n_files;
} cli_arrays;

/* Adds the arrays of a file. The array of a .npy is named after its file, or with
 * NAME=FILE. */
int cli_arrays_load(cli_arrays *list, const char *word);
void cli_arrays_free(cli_arrays *list);

/* Writes all arrays. args may have overwrite, checksums, header-pages, metadata, as,
 * reserve, compress and quiet. */
int cli_arrays_save(const cli_args *args, const cli_arrays *list, const char *path);

/* The type that --as gives for an array, if any; a check that --as names only existing
 * arrays; the metadata from --metadata, or own (may be NULL). All print their errors. */
int cli_arrays_type(const cli_args *args, const char *name, tarn_dtype *out, bool *found);
int cli_arrays_check_as(const cli_args *args, const char *const *names, size_t count);
int cli_arrays_metadata(const cli_args *args, const char *own, tarn_gnz_writer *w);

/* tarn pack with a .gnz output. */
int cli_arrays_pack(const cli_args *args, const char *output);

#endif
