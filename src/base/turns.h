/* Tasks that work at the same time and hand on in order: each waits until all before it
 * have handed on, does so, and passes the turn. The first that fails, in order, stops the
 * rest. What a task works in can be left for the next. */
#ifndef TARN_BASE_TURNS_H
#define TARN_BASE_TURNS_H

#include <pthread.h>

#include <tarn/base.h>

/* The first member of what tasks work in. */
typedef struct tarn__desk {
    struct tarn__desk *next;
} tarn__desk;

typedef struct tarn__turns {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    size_t turn; /* the task that hands on next */
    bool stopped;
    tarn__desk *free;
    tarn_status status; /* of the task that failed first in order */
    tarn_error error;
} tarn__turns;

void tarn__turns_init(tarn__turns *turns);
void tarn__turns_reset(tarn__turns *turns);

/* A desk that nobody uses, or NULL. */
tarn__desk *tarn__turns_desk(tarn__turns *turns);

/* Waits for the turn of a task; false if one before it failed. */
bool tarn__turns_wait(tarn__turns *turns, size_t number);

/* Passes the turn on, and the desk, which may be NULL. error counts if status is not
 * TARN_OK. */
void tarn__turns_pass(tarn__turns *turns, tarn__desk *desk, tarn_status status,
                      const tarn_error *error);

#endif
