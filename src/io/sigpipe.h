/* Writing to a pipe without a reader must be an error, not a signal, and the library must
 * not change signal handlers. So SIGPIPE is blocked in the calling thread during the
 * write, and a SIGPIPE that the write raised is removed afterwards. */
#ifndef TARN_IO_SIGPIPE_H
#define TARN_IO_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

typedef struct tarn__sigpipe {
    sigset_t before;
    bool was_pending;
} tarn__sigpipe;

void tarn__sigpipe_block(tarn__sigpipe *guard);
void tarn__sigpipe_restore(const tarn__sigpipe *guard);

#endif
