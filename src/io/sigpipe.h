/* Writing to something that nobody reads any more must be an error, not a signal, and the
 * library may not change what signals do. So SIGPIPE is blocked in the calling thread
 * around the write, and one that the write raised is taken away again. */
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
