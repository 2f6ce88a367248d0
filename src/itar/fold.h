/* A fold as the other files of this folder see it. */
#ifndef TARN_ITAR_FOLD_H
#define TARN_ITAR_FOLD_H

#include <pthread.h>
#include <stdatomic.h>

#include <tarn/fold.h>

#include "itar/locate.h"

struct tarn_fold {
    char *name;
    tarn_fold_options options;
    tarn_index *index;
    tarn__filecache *files;
    tarn__place place;
    tarn_index_report report;
    pthread_mutex_t lock;            /* making the order and the samples, once */
    _Atomic(const uint32_t *) order; /* rows by key; the index's own or own_order */
    uint32_t *own_order;
    atomic_bool grouped; /* then these say which rows make up a sample: */
    uint32_t *rows;      /* grouped by sample; NULL if they are in file order */
    uint32_t *starts;    /* sample i is rows[starts[i]] to rows[starts[i + 1]] */
    uint64_t n_samples;
};

/* Makes sure that order and samples are there. */
TARN_CHECKED tarn_status tarn__fold_order(tarn_fold *fold, const uint32_t **out,
                                          tarn_error *err);
TARN_CHECKED tarn_status tarn__fold_group(tarn_fold *fold, tarn_error *err);

/* Whether the header and payload at bytes are those of a row, which tarn__locate_row has
 * put into located; what the header says is there afterwards. */
TARN_CHECKED tarn_status tarn__fold_check(tarn_fold *fold, uint64_t row,
                                          tarn__located *located,
                                          const unsigned char *bytes, tarn_error *err);

#endif
