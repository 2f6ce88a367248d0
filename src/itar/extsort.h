/* Sorts more runs than fit into memory by (hash, row): sorted pieces go to a temporary
 * file, and are merged from there. Knows nothing about what the runs mean. */
#ifndef TARN_ITAR_EXTSORT_H
#define TARN_ITAR_EXTSORT_H

#include "base/runs.h"
#include "io/publish.h"

typedef struct tarn__extsort {
    tarn__run *buffer; /* runs that are not in the file; then the buffers of the pieces */
    size_t count, capacity;
    unsigned threads;
    const char *path;   /* of a file in whose folder the temporary file is made */
    tarn__publish file; /* never gets a name */
    struct tarn__extsort_piece *pieces;
    size_t n_pieces, piece_capacity;
    uint32_t *heap; /* numbers of pieces, that with the smallest run first */
    size_t n_heap, at;
} tarn__extsort;

/* memory is in bytes, for the buffer. path must outlive the sorting. */
TARN_CHECKED tarn_status tarn__extsort_init(tarn__extsort *sort, const char *path,
                                            size_t memory, unsigned threads,
                                            tarn_error *err);
void tarn__extsort_reset(tarn__extsort *sort);

TARN_CHECKED tarn_status tarn__extsort_add(tarn__extsort *sort, const tarn__run *run,
                                           tarn_error *err);

/* Call once, after the last run was added. */
TARN_CHECKED tarn_status tarn__extsort_begin(tarn__extsort *sort, tarn_error *err);

/* The next run in order, or TARN_END. */
TARN_CHECKED tarn_status tarn__extsort_next(tarn__extsort *sort, tarn__run *out,
                                            tarn_error *err);

#endif
