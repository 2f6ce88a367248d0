/* An open array file, shared by the files of this folder. */
#ifndef TARN_GNZ_READER_H
#define TARN_GNZ_READER_H

#include <tarn/verify.h>

#include "base/forklock.h"
#include "gnz/header.h"
#include "io/file.h"

struct tarn_gnz {
    tarn__file file;
    tarn__gnz_header header;
    tarn_io io;         /* MAP or READ */
    unsigned char *map; /* the whole file; NULL if it is read instead */
    size_t
        fields; /* number of arrays in the largest group with the same number of rows */
    uint64_t samples; /* number of rows in that group */
    tarn__forklock lock;
    void *write_map; /* created at the first view for writing, under the lock */
    int write_fd;
};

/* tarn_gnz_open; path may be a URL of a remote file, whose copy is in the cache, which is
 * borrowed and may be NULL. */
TARN_CHECKED tarn_status tarn__gnz_open(const char *path, tarn_io io,
                                        struct tarn__cachedir *cache,
                                        struct tarn_gnz **out, tarn_error *err);

/* Checks that the file still has its length, and its map every page. Call it before a
 * view is returned, and again after values were copied from one. */
TARN_CHECKED tarn_status tarn__gnz_check_length(const struct tarn_gnz *gnz,
                                                tarn_error *err);

/* The bytes of one row, the last index fastest: a view into the map if they are
 * contiguous, otherwise a copy. */
TARN_CHECKED tarn_status tarn__gnz_view_row(struct tarn_gnz *gnz, size_t number,
                                            uint64_t row, tarn_view *out,
                                            tarn_error *err);

/* See tarn_verify; adds to the report. */
TARN_CHECKED tarn_status tarn__gnz_verify(const char *path,
                                          const tarn_verify_options *options,
                                          tarn_verify_report *report, tarn_error *err);

#endif
