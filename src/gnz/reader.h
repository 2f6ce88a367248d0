/* An open array file, as the files of this folder see it. */
#ifndef TARN_GNZ_READER_H
#define TARN_GNZ_READER_H

#include "base/forklock.h"
#include "gnz/header.h"
#include "io/file.h"

struct tarn_gnz {
    tarn__file file;
    tarn__gnz_header header;
    tarn_io io;         /* MAP or READ */
    unsigned char *map; /* the whole file, NULL if it is read instead */
    size_t fields;      /* arrays in the largest group with equally many rows, */
    uint64_t samples;   /* and their rows */
    tarn__forklock lock;
    void *write_map; /* made at the first view for writing, under the lock */
    int write_fd;
};

/* Whether the file has its length, and its map every page: before a view is given out,
 * and again after something was copied out of one. */
TARN_CHECKED tarn_status tarn__gnz_check_length(const struct tarn_gnz *gnz,
                                                tarn_error *err);

/* The bytes of one row, the last index fastest: a view into the map where the row's bytes
 * are together, a copy elsewhere. */
TARN_CHECKED tarn_status tarn__gnz_view_row(struct tarn_gnz *gnz, size_t number,
                                            uint64_t row, tarn_view *out,
                                            tarn_error *err);

#endif
