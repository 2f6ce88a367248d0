/* Tasks that run in parallel and deliver their results in order: each waits until all
 * tasks before it have delivered, delivers, and passes the turn. The first failure, in
 * order, stops the rest. A task can leave its working memory (its desk) for a later task.
 *
 * lock guards all members after turned; turned is signalled whenever turn or stopped
 * changes. No other lock is taken while lock is held. */
#ifndef TARN_BASE_TURNS_H
#define TARN_BASE_TURNS_H

#include <pthread.h>

#include <tarn/base.h>

/* The first member of a task's working memory. */
typedef struct tarn__desk {
    struct tarn__desk *next;
} tarn__desk;

typedef struct tarn__turns {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    size_t turn; /* the task that delivers next */
    bool stopped;
    tarn__desk *free;
    tarn_status status; /* of the first task, in order, that failed */
    tarn_error error;
} tarn__turns;

void tarn__turns_init(tarn__turns *turns);
void tarn__turns_reset(tarn__turns *turns);

/* An unused desk, or NULL. */
tarn__desk *tarn__turns_desk(tarn__turns *turns);

/* Waits for the turn of a task; false if an earlier task failed. */
bool tarn__turns_wait(tarn__turns *turns, size_t number);

/* Passes the turn, and returns the desk, which may be NULL. error is used only if status
 * is not TARN_OK. */
void tarn__turns_pass(tarn__turns *turns, tarn__desk *desk, tarn_status status,
                      const tarn_error *error);

#endif
