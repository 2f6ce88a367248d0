/* A thread that reads parts of files into the page cache while its owner uses the parts
 * before them. Consecutive reads cost less than announcements or faults of a map: the
 * system allocates large pages for them, and is some MB ahead of the reader. */
#ifndef TARN_IO_AHEAD_H
#define TARN_IO_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tarn__ahead_part {
    uint32_t file; /* a number of the owner */
    uint64_t offset, size;
} tarn__ahead_part;

/* Returns a new descriptor of a file, or -1. Called by the thread. */
typedef int (*tarn__ahead_open)(const void *owner, uint32_t file);

typedef struct tarn__ahead tarn__ahead;

/* NULL if out of memory. The thread starts with the first parts. */
tarn__ahead *tarn__ahead_new(tarn__ahead_open open, const void *owner);

/* Waits until the parts of the previous call have been read, then lets the thread read
 * these. Takes over the array, which was allocated with malloc. False if no thread can be
 * started; then the array stays the caller's. Failures to read are ignored: they are
 * reported when the bytes are used. */
bool tarn__ahead_read(tarn__ahead *ahead, tarn__ahead_part *parts, size_t count);

/* Stops reading, and ends the thread. */
void tarn__ahead_free(tarn__ahead *ahead);

#endif
