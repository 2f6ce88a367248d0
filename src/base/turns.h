/* Tasks that load at the same time and hand on in order: each waits until all before it
 * have handed on. The first that fails, in order, stops the rest; those before it are
 * handed on all the same. */
#ifndef TARN_BASE_TURNS_H
#define TARN_BASE_TURNS_H

#include <tarn/base.h>

typedef struct tarn__turns_work {
    /* What a task works in, which is left for the next; NULL: out of memory. */
    void *(*new_desk)(void);
    void (*free_desk)(void *desk);
    /* By any thread, several at a time. */
    tarn_status (*load)(void *context, void *desk, size_t number, tarn_error *err);
    /* By one thread at a time, in order. */
    tarn_status (*hand_on)(void *context, void *desk, size_t number, tarn_error *err);
} tarn__turns_work;

/* Runs tasks 0 to count - 1. threads 0: as many as there are cores. */
TARN_CHECKED tarn_status tarn__turns_run(const tarn__turns_work *work, void *context,
                                         unsigned threads, size_t count, tarn_error *err);

#endif
