/* A parallel loop: tasks 0 to count-1, each run once by one of a few threads. The calling
 * thread is one of them, so with 0 or 1 threads no thread is started. */
#ifndef TARN_BASE_POOL_H
#define TARN_BASE_POOL_H

#include <tarn/base.h>

/* Runs one task. The task's owner keeps the details of a failure; if a task returns
 * anything but TARN_OK, tasks that have not begun are skipped. */
typedef tarn_status (*tarn__task)(void *context, size_t number);

/* Returns when every task that began has ended, with TARN_OK or with the status of the
 * failed task that has the lowest number among those that began. */
TARN_CHECKED tarn_status tarn__parallel(unsigned threads, size_t count, tarn__task task,
                                        void *context, size_t *out_failed);

/* The number of threads to use; asked == 0 means "as many as there are cores". */
unsigned tarn__thread_count(unsigned asked);

#endif
