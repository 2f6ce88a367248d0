/* Which samples to keep by their fields, and which ones are asked about. */
#ifndef TARN_BASE_NEED_H
#define TARN_BASE_NEED_H

#include <tarn/base.h>

typedef struct tarn__need {
    const uint32_t *fields; /* distinct */
    size_t count;
    bool lack;       /* keep those that lack the first; otherwise that have all */
    bool may_lack;   /* keep those that lack some, too: only once counts */
    bool once;       /* one that has a field twice is an error, or */
    bool drop_twice; /* is left out */
    bool whole;      /* where every sample is kept the marks need not be written */
    uint64_t dropped;
} tarn__need;

/* A list of numbers, of which fill gives those from a place on; NULL: 0, 1, 2, ... */
typedef struct tarn__numbers {
    void (*fill)(const void *context, uint64_t from, uint64_t *out, size_t count);
    const void *context;
    uint64_t count;
} tarn__numbers;

/* Takes the distinct fields, ascending, of so many samples that have the same ones; some
 * of the samples have one of them twice. */
typedef tarn_status (*tarn__add_fields)(void *context, const uint32_t *fields,
                                        size_t n_fields, uint64_t samples, uint64_t twice,
                                        tarn_error *err);

#endif
