/* Whether to retry a failed read or write: it was interrupted, or the descriptor is
 * non-blocking because other code made it so, and this function has waited until it is
 * ready. */
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
