/* IAC files made of files: a record for each. */
#ifndef TARN_PACK_RECORDS_H
#define TARN_PACK_RECORDS_H

#include <tarn/iac.h>

/* Called after each record; non-zero stops with TARN_ERR_CANCELLED. bytes are those of
 * the payloads so far. */
typedef struct tarn__records_watch {
    int (*step)(void *context, uint64_t done, uint64_t total, uint64_t bytes);
    void *context;
} tarn__records_watch;

/* A record for each regular file, and link to one, in a folder and its folders, sorted by
 * path, with the columns path and size. Not of the pack itself. The slide table has no
 * rows. watch may be NULL. */
TARN_CHECKED tarn_status tarn__records_from_folder(const char *path, const char *folder,
                                                   const tarn_iac_write_options *options,
                                                   const tarn__records_watch *watch,
                                                   uint64_t *out_records,
                                                   tarn_error *err);

/* A record for each row of a manifest, whose cell "file" names the payload's file. All
 * other cells become columns, of integers if all values are integers or null, of text
 * otherwise. */
TARN_CHECKED tarn_status tarn__records_from_manifest(
    const char *path, const char *manifest, const tarn_iac_write_options *options,
    const tarn__records_watch *watch, uint64_t *out_records, tarn_error *err);

#endif
