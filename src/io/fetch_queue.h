/* Jobs that wait, ordered by rank and then by when they were submitted. Any of them can
 * be removed. Knows nothing about what the jobs are. */
#ifndef TARN_IO_FETCH_QUEUE_H
#define TARN_IO_FETCH_QUEUE_H

#include <tarn/base.h>

typedef struct tarn__queued {
    uint64_t rank, order;
    size_t place; /* private */
} tarn__queued;

typedef struct tarn__queue {
    tarn__queued **items; /* a heap: no item is before its parent (n - 1) / 2 */
    size_t count, capacity;
} tarn__queue;

/* Makes room for count items in all, so that push cannot fail. */
TARN_CHECKED tarn_status tarn__queue_reserve(tarn__queue *queue, size_t count,
                                             tarn_error *err);
void tarn__queue_push(tarn__queue *queue, tarn__queued *item);
void tarn__queue_remove(tarn__queue *queue, tarn__queued *item);
/* The first item, which stays there; NULL if there is none. */
tarn__queued *tarn__queue_first(const tarn__queue *queue);
/* Whether a is before b. */
bool tarn__queue_before(const tarn__queued *a, const tarn__queued *b);
void tarn__queue_reset(tarn__queue *queue);

#endif
