/* A parallel loop: tasks 0 to count-1, each run once by one of a few threads. The caller
 * is one of them, so with 0 or 1 threads everything runs in the caller's thread and
 * nothing is started. */
#ifndef TARN_BASE_POOL_H
#define TARN_BASE_POOL_H

#include <tarn/base.h>

/* Runs one task. A failure is kept by the task's owner; returning anything but TARN_OK
 * means that tasks not yet begun are skipped. */
typedef tarn_status (*tarn__task)(void *context, size_t number);

/* Returns when every task that was begun has ended, with TARN_OK or with the status of
 * the failed task of the lowest number among those begun. */
TARN_CHECKED tarn_status tarn__parallel(unsigned threads, size_t count, tarn__task task,
                                        void *context, size_t *out_failed);

/* Threads to use when the caller asks for 0, meaning "as many as there are cores". */
unsigned tarn__thread_count(unsigned asked);

#endif
