/* Makes IAC files from files: one record for each. */
#ifndef TARN_PACK_RECORDS_H
#define TARN_PACK_RECORDS_H

#include <tarn/iac.h>
#include <tarn/pack.h>

#include "io/tree.h"

typedef struct tarn__records_options {
    const tarn_iac_write_options *write; /* NULL: the defaults */
    tarn__globs globs;                   /* for folders */
    const tarn_pack_type *types;         /* for manifests */
    size_t n_types;
    const char *root; /* of relative paths in the manifest; NULL: its folder */
    /* Called after each record; non-zero stops with TARN_ERR_CANCELLED. bytes is the size
     * of all payloads so far. May be NULL. */
    int (*step)(void *context, uint64_t done, uint64_t total, uint64_t bytes);
    void *context;
} tarn__records_options;

/* Makes a record for each regular file, or link to one, in a folder and its subfolders,
 * except the IAC file itself. Records are sorted by path and have the columns path and
 * size. The slide table has no rows. */
TARN_CHECKED tarn_status tarn__records_from_folder(const char *path, const char *folder,
                                                   const tarn__records_options *options,
                                                   uint64_t *out_records,
                                                   tarn_error *err);

/* Makes a record for each row of a manifest; the cell "file" names the file of the
 * payload. All other cells become columns (columns.h). */
TARN_CHECKED tarn_status tarn__records_from_manifest(const char *path,
                                                     const char *manifest,
                                                     const tarn__records_options *options,
                                                     uint64_t *out_records,
                                                     tarn_error *err);

#endif
