/* Selecting samples by the fields they have. */
#ifndef TARN_BASE_NEED_H
#define TARN_BASE_NEED_H

#include <tarn/base.h>

typedef struct tarn__need {
    const uint32_t *fields;
    /* Of each need, where its alternatives end in fields. A sample that has several of
     * them has the first. */
    const size_t *ends;
    size_t count;
    bool lack; /* keep samples that lack the first need; otherwise those that have all */
    bool may_lack;   /* also keep samples that lack some: only once matters */
    bool once;       /* a sample that has a field twice is an error, or */
    bool drop_twice; /* is dropped */
    bool whole;      /* if every sample is kept, the marks need not be written */
    uint64_t dropped;
} tarn__need;

/* The first of the alternatives of a need. */
static inline size_t tarn__need_begin(const tarn__need *need, size_t i)
{
    return i ? need->ends[i - 1] : 0;
}

/* A list of numbers; fill writes count of them, starting at position from. NULL: 0, 1, 2,
 * ... */
typedef struct tarn__numbers {
    void (*fill)(const void *context, uint64_t from, uint64_t *out, size_t count);
    const void *context;
    uint64_t count;
} tarn__numbers;

/* Receives the distinct fields, ascending, of a number of samples that have the same
 * fields; twice of these samples have one of the fields twice. */
typedef tarn_status (*tarn__add_fields)(void *context, const uint32_t *fields,
                                        size_t n_fields, uint64_t samples, uint64_t twice,
                                        tarn_error *err);

#endif
