/* An epoll set of the sockets that libcurl reports, and its timer. */
#include "io/fetch_sockets.h"

#include <limits.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- Called by libcurl -------------------------------------------------------------- */

/* A socket that cannot be watched is never reported: its transfer stalls, and fails. */
static int on_socket(CURL *easy, curl_socket_t socket, int what, void *context,
                     void *unused)
{
    const tarn__sockets *s = context;
    struct epoll_event event = {.data.fd = socket};
    (void)easy;
    (void)unused;
    if (what & CURL_POLL_IN) event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT) event.events |= EPOLLOUT;
    if (what == CURL_POLL_REMOVE)
        epoll_ctl(s->set, EPOLL_CTL_DEL, socket, NULL);
    else if (epoll_ctl(s->set, EPOLL_CTL_MOD, socket, &event) != 0)
        epoll_ctl(s->set, EPOLL_CTL_ADD, socket, &event);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *context)
{
    tarn__sockets *s = context;
    (void)multi;
    s->due_ms = ms < 0 ? INT64_MAX : now_ms() + ms;
    return 0;
}

/* --- The set ------------------------------------------------------------------------ */

bool tarn__sockets_init(tarn__sockets *s, const tarn__curl *curl, CURLM *multi)
{
    *s = (tarn__sockets){.curl = curl, .multi = multi, .due_ms = INT64_MAX};
    s->set = epoll_create1(EPOLL_CLOEXEC);
    s->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = s->alarm};
    if (s->set < 0 || s->alarm < 0 ||
        epoll_ctl(s->set, EPOLL_CTL_ADD, s->alarm, &event) != 0) {
        tarn__sockets_reset(s);
        return false;
    }
    curl->multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl->multi_setopt(multi, CURLMOPT_SOCKETDATA, s);
    curl->multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl->multi_setopt(multi, CURLMOPT_TIMERDATA, s);
    return true;
}

void tarn__sockets_reset(tarn__sockets *s)
{
    if (s->set >= 0) close(s->set);
    if (s->alarm >= 0) close(s->alarm);
    s->set = s->alarm = -1;
}

void tarn__sockets_wait(tarn__sockets *s, int64_t ms)
{
    if (s->due_ms != INT64_MAX) {
        int64_t left = s->due_ms - now_ms();
        if (left < ms) ms = left > 0 ? left : 0;
    }
    s->count = epoll_wait(s->set, s->events, TARN__SOCKETS_EVENTS,
                          ms < INT_MAX ? (int)ms : INT_MAX);
    if (s->count < 0) s->count = 0; /* a signal */
}

void tarn__sockets_wake(const tarn__sockets *s)
{
    (void)!eventfd_write(s->alarm, 1);
}

/* The timer first: transfers that were waiting for a connection begin with it. */
void tarn__sockets_step(tarn__sockets *s)
{
    int running;
    eventfd_t value;
    if (s->due_ms <= now_ms()) {
        s->due_ms = INT64_MAX; /* libcurl sets it again if it has to */
        s->curl->multi_socket_action(s->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    for (int i = 0; i < s->count; i++) {
        const struct epoll_event *e = &s->events[i];
        int what = 0;
        if (e->data.fd == s->alarm) {
            (void)!eventfd_read(s->alarm, &value);
            continue;
        }
        if (e->events & EPOLLIN) what |= CURL_CSELECT_IN;
        if (e->events & EPOLLOUT) what |= CURL_CSELECT_OUT;
        if (e->events & (EPOLLERR | EPOLLHUP)) what |= CURL_CSELECT_ERR;
        s->curl->multi_socket_action(s->multi, e->data.fd, what, &running);
    }
    s->count = 0;
}
