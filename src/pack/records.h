/* Makes IAC files from files: one record for each. */
#ifndef TARN_PACK_RECORDS_H
#define TARN_PACK_RECORDS_H

#include <tarn/iac.h>

/* step is called after each record; non-zero stops with TARN_ERR_CANCELLED. bytes is the
 * size of all payloads so far. */
typedef struct tarn__records_watch {
    int (*step)(void *context, uint64_t done, uint64_t total, uint64_t bytes);
    void *context;
} tarn__records_watch;

/* Makes a record for each regular file, or link to one, in a folder and its subfolders,
 * except the IAC file itself. Records are sorted by path and have the columns path and
 * size. The slide table has no rows. watch may be NULL. */
TARN_CHECKED tarn_status tarn__records_from_folder(const char *path, const char *folder,
                                                   const tarn_iac_write_options *options,
                                                   const tarn__records_watch *watch,
                                                   uint64_t *out_records,
                                                   tarn_error *err);

/* Makes a record for each row of a manifest; the cell "file" names the file of the
 * payload. All other cells become columns: integers if all values are integers or null,
 * otherwise text. */
TARN_CHECKED tarn_status tarn__records_from_manifest(
    const char *path, const char *manifest, const tarn_iac_write_options *options,
    const tarn__records_watch *watch, uint64_t *out_records, tarn_error *err);

#endif
