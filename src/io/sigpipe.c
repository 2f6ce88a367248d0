/* Hides SIGPIPE from the caller. */
#include "io/sigpipe.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

void tarn__sigpipe_block(tarn__sigpipe *guard)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    guard->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &guard->before);
}

void tarn__sigpipe_restore(const tarn__sigpipe *guard)
{
    int kept = errno;
    if (!guard->was_pending) {
        static const struct timespec at_once;
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = kept;
}
