/* Manifests: text files with one row of named cells in each line, as CSV or TSV with a
 * header line, or as JSON lines. Knows nothing about the meaning of the columns. */
#ifndef TARN_IO_MANIFEST_H
#define TARN_IO_MANIFEST_H

#include "base/json.h"
#include "io/file.h"

typedef struct tarn__manifest {
    const char *path; /* borrowed */
    const char *root; /* the folder of relative paths; NULL: the manifest's; borrowed */
    tarn__contents contents;
    uint64_t line; /* of the row, counted from 1 */
    bool is_header;
} tarn__manifest;

/* A cell of a CSV or TSV file is a string, or null if it is empty. */
typedef struct tarn__cell {
    const char *name; /* NUL-terminated; in JSON lines it may contain a NUL */
    size_t name_len;
    const tarn__json *value; /* NULL in a header line */
} tarn__cell;

/* Receives a row. An error without a path gets the manifest's path and the line. */
typedef tarn_status (*tarn__manifest_visit)(void *context, const tarn__manifest *m,
                                            const tarn__cell *cells, size_t count,
                                            tarn_error *err);

/* Whether a path has the suffix of a manifest: .csv, .tsv, .jsonl, .ndjson. */
bool tarn__is_manifest(const char *path);

/* Files without the suffix .csv or .tsv are read as JSON lines. */
TARN_CHECKED tarn_status tarn__manifest_open(tarn__manifest *m, const char *path,
                                             tarn_error *err);
void tarn__manifest_close(tarn__manifest *m);

/* Visits all rows, starting with the header line for CSV and TSV. May be called again. */
TARN_CHECKED tarn_status tarn__manifest_each(tarn__manifest *m,
                                             tarn__manifest_visit visit, void *context,
                                             tarn_error *err);

/* The path of a file named in a cell: relative paths start at root or the manifest's
 * folder. out gets the path and a NUL. */
TARN_CHECKED tarn_status tarn__manifest_path(const tarn__manifest *m, const char *path,
                                             size_t len, tarn__buf *out, tarn_error *err);

#endif
