/* A thread that writes one piece of memory to a file at a time, while its owner fills the
 * next. */
#ifndef TARN_IO_FLUSHER_H
#define TARN_IO_FLUSHER_H

#include <tarn/base.h>

typedef struct tarn__flusher tarn__flusher;

/* NULL if no thread can be had. */
tarn__flusher *tarn__flusher_new(void);

/* Begins to write. The one before must have been waited for, and data stays as it is
 * until this one is. */
void tarn__flusher_begin(tarn__flusher *flusher, int fd, const char *path,
                         const void *data, size_t len, uint64_t offset);

/* Waits for the write that was begun, if any. */
TARN_CHECKED tarn_status tarn__flusher_wait(tarn__flusher *flusher, tarn_error *err);

/* Waits, whatever comes of it, and ends the thread. */
void tarn__flusher_free(tarn__flusher *flusher);

#endif
