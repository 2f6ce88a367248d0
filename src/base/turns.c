/* Delivering results in order. */
#include "base/turns.h"

void tarn__turns_init(tarn__turns *t)
{
    *t = (tarn__turns){0};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->turned, NULL);
}

void tarn__turns_reset(tarn__turns *t)
{
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->turned);
}

tarn__desk *tarn__turns_desk(tarn__turns *t)
{
    pthread_mutex_lock(&t->lock);
    tarn__desk *desk = t->free;
    if (desk) t->free = desk->next;
    pthread_mutex_unlock(&t->lock);
    return desk;
}

bool tarn__turns_wait(tarn__turns *t, size_t number)
{
    pthread_mutex_lock(&t->lock);
    while (t->turn != number && !t->stopped)
        pthread_cond_wait(&t->turned, &t->lock);
    bool mine = !t->stopped;
    pthread_mutex_unlock(&t->lock);
    return mine;
}

void tarn__turns_pass(tarn__turns *t, tarn__desk *desk, tarn_status status,
                      const tarn_error *error)
{
    pthread_mutex_lock(&t->lock);
    t->turn++;
    if (status != TARN_OK) {
        t->stopped = true;
        t->status = status;
        t->error = *error;
    }
    if (desk) {
        desk->next = t->free;
        t->free = desk;
    }
    pthread_cond_broadcast(&t->turned);
    pthread_mutex_unlock(&t->lock);
}
