/* Tasks that run in parallel and deliver their results in order: each loads, waits until
 * all tasks before it have delivered, and delivers. The first failure, in order, stops
 * the rest; tasks before it still deliver. */
#ifndef TARN_BASE_TURNS_H
#define TARN_BASE_TURNS_H

#include <tarn/base.h>

typedef struct tarn__turns_work {
    /* The working memory (desk) of a task, which later tasks reuse; NULL: out of memory.
     */
    void *(*new_desk)(void);
    void (*free_desk)(void *desk);
    /* Called by any thread, several at the same time. */
    tarn_status (*load)(void *context, void *desk, size_t number, tarn_error *err);
    /* Called by one thread at a time, in order. */
    tarn_status (*hand_on)(void *context, void *desk, size_t number, tarn_error *err);
} tarn__turns_work;

/* Runs tasks 0 to count - 1. threads == 0 means as many as there are cores. */
TARN_CHECKED tarn_status tarn__turns_run(const tarn__turns_work *work, void *context,
                                         unsigned threads, size_t count, tarn_error *err);

#endif
