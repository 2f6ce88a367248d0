/* A thread that writes one block of memory to a file while its owner fills the next. */
#ifndef TARN_IO_FLUSHER_H
#define TARN_IO_FLUSHER_H

#include <tarn/base.h>

typedef struct tarn__flusher tarn__flusher;

/* NULL if no thread can be started. */
tarn__flusher *tarn__flusher_new(void);

/* Starts a write. The previous one must have been waited for, and data must not change
 * until this one has been waited for. */
void tarn__flusher_begin(tarn__flusher *flusher, int fd, const char *path,
                         const void *data, size_t len, uint64_t offset);

/* Waits for the write in progress, if any. */
TARN_CHECKED tarn_status tarn__flusher_wait(tarn__flusher *flusher, tarn_error *err);

/* Waits, ignores errors, and ends the thread. */
void tarn__flusher_free(tarn__flusher *flusher);

#endif
