/* A fold as the other files of this folder see it. */
#ifndef TARN_ITAR_FOLD_H
#define TARN_ITAR_FOLD_H

#include <stdatomic.h>

#include <tarn/fold.h>

#include "base/forklock.h"
#include "itar/locate.h"
#include "itar/shapes.h"

struct tarn_fold {
    char *name;
    tarn_fold_options options;
    tarn_index *index;
    tarn__filecache *files;
    tarn__place place;
    tarn_index_report report;
    tarn__forklock lock;             /* making the order and the samples, once */
    _Atomic(const uint32_t *) order; /* rows by key; the index's own or own_order */
    uint32_t *own_order;
    atomic_bool grouped; /* then these say which rows make up a sample: */
    uint32_t *rows;      /* grouped by sample; NULL if they are in file order */
    uint32_t *starts;    /* sample i is rows[starts[i]] to rows[starts[i + 1]]; NULL if
                            each has as many rows as the next: */
    uint32_t stride;
    uint64_t n_samples;
    bool *lead;          /* by field: samples that do not stand together are in the order
                            of their first row with such a field; NULL: any field */
    tarn__shapes shapes; /* until a filter is set */
    uint16_t *shape_of;  /* by sample; NULL if all are of one: */
    uint16_t shape;
};

/* Where the rows of a sample begin, up to and with n_samples. */
static inline uint64_t tarn__fold_start(const struct tarn_fold *f, uint64_t sample)
{
    return f->starts ? f->starts[sample] : sample * f->stride;
}

static inline uint16_t tarn__fold_shape(const struct tarn_fold *f, uint64_t sample)
{
    return f->shape_of ? f->shape_of[sample] : f->shape;
}

static inline uint64_t tarn__fold_row(const struct tarn_fold *f, uint64_t at)
{
    return f->rows ? f->rows[at] : at;
}

/* Makes sure that order and samples are there. */
TARN_CHECKED tarn_status tarn__fold_order(tarn_fold *fold, const uint32_t **out,
                                          tarn_error *err);
TARN_CHECKED tarn_status tarn__fold_group(tarn_fold *fold, tarn_error *err);

/* Makes these the samples: rows, and where each sample's begin. Takes both over. */
void tarn__fold_take(tarn_fold *fold, uint32_t *rows, uint32_t *starts,
                     uint64_t n_samples);

/* Whether the header and payload at bytes are those of a row, which tarn__locate_row has
 * put into located; what the header says is there afterwards. */
TARN_CHECKED tarn_status tarn__fold_check(tarn_fold *fold, uint64_t row,
                                          tarn__located *located,
                                          const unsigned char *bytes, tarn_error *err);

/* Whether a payload has the checksum of its row, if the fold was opened to check. */
TARN_CHECKED tarn_status tarn__fold_check_sum(const tarn_fold *fold, uint64_t number,
                                              const tarn_row *row, const void *data,
                                              size_t size, tarn_error *err);

/* The first row of a sample that has a leading field, or just its first. */
uint64_t tarn__fold_lead(const tarn_fold *fold, uint64_t sample);

/* What a sample with these rows is sorted by: its lead; without one, behind all that have
 * one. */
uint64_t tarn__fold_lead_of(const tarn_fold *fold, const uint32_t *rows, uint32_t count);

/* The same under the lock that the caller holds. */
TARN_CHECKED tarn_status tarn__fold_make_order(tarn_fold *fold, tarn_error *err);

/* A place in the order of rows by key, which may come from a file: a row that is there.
 */
TARN_CHECKED tarn_status tarn__fold_order_at(const tarn_fold *fold, const uint32_t *order,
                                             uint64_t i, uint32_t *out, tarn_error *err);

#endif
