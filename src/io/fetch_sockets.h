/* Waits for the sockets of a multi handle of libcurl. Only the sockets that have news are
 * handled: curl_multi_perform would check all transfers each time, with a system call for
 * each of them. */
#ifndef TARN_IO_FETCH_SOCKETS_H
#define TARN_IO_FETCH_SOCKETS_H

#include <sys/epoll.h>

#include "io/curl.h"

enum { TARN__SOCKETS_EVENTS = 64 /* that one wait reports */ };

/* All members are for the thread that uses the multi handle, except for wake. */
typedef struct tarn__sockets {
    const tarn__curl *curl;
    CURLM *multi;
    int set;        /* of epoll: the sockets, and alarm */
    int alarm;      /* an eventfd that ends a wait */
    int64_t due_ms; /* libcurl's timer */
    struct epoll_event events[TARN__SOCKETS_EVENTS];
    int count; /* of the last wait */
} tarn__sockets;

/* The struct must stay where it is. A failure leaves nothing to reset. */
TARN_CHECKED bool tarn__sockets_init(tarn__sockets *sockets, const tarn__curl *curl,
                                     CURLM *multi);
/* After curl_multi_cleanup, which reports the sockets that it closes. */
void tarn__sockets_reset(tarn__sockets *sockets);

/* Waits for news, libcurl's timer, wake, or the end of that time. */
void tarn__sockets_wait(tarn__sockets *sockets, int64_t ms);
/* Ends a wait, or the next one if none is under way. Any thread may call it. */
void tarn__sockets_wake(const tarn__sockets *sockets);
/* Lets libcurl work on what the last wait reported. */
void tarn__sockets_step(tarn__sockets *sockets);

#endif
