/* Decides whether a response has the bytes that were asked for. */
#ifndef TARN_IO_FETCH_JUDGE_H
#define TARN_IO_FETCH_JUDGE_H

#include "io/object.h"

/* Bytes of a response with status 200 that may be discarded to get at a range, from a
 * server that does not support ranges. */
#define TARN__FETCH_WASTE (1u << 20)

typedef struct tarn__asked {
    const char *shown;
    uint64_t first, size;
    const tarn__object_id *id; /* what is known */
    bool identify;             /* what counts is the identity, not the range */
} tarn__asked;

typedef enum tarn__verdict {
    TARN__PENDING,    /* no response yet */
    TARN__ACCEPTED,   /* after skip bytes come those that were asked for */
    TARN__REFUSED,    /* with an error */
    TARN__BAD_STATUS, /* tarn__http_fail_status knows the error */
} tarn__verdict;

typedef struct tarn__judgement {
    tarn__verdict verdict; /* never TARN__PENDING */
    uint64_t skip;
    tarn__object_id id; /* of the response, if accepted */
} tarn__judgement;

/* Fills in err if the verdict is TARN__REFUSED. */
tarn__judgement tarn__fetch_judge(const tarn__http_head *head, const tarn__asked *asked,
                                  tarn_error *err);

#endif
