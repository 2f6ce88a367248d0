/* Whether a read or write that failed should be tried again: it was interrupted, or the
 * descriptor is one that somebody else made non-blocking, which has to be waited for. */
#ifndef TARN_IO_AGAIN_H
#define TARN_IO_AGAIN_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

static inline bool tarn__io_again(int fd, short events)
{
    if (errno == EINTR) return true;
    if (errno != EAGAIN) return false;
    struct pollfd p = {.fd = fd, .events = events};
    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

#endif
