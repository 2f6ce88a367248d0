/* A ring of reads that the kernel executes in parallel: io_uring through its three system
 * calls. Knows nothing about the data, or about what to do where rings are forbidden.
 *
 * A ring is used by one thread at a time, and only by the process that created it: after
 * a fork tarn__uring_is_ours returns false in the child, which may only free it. */
#ifndef TARN_IO_URING_H
#define TARN_IO_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tarn__uring tarn__uring;

/* Creates a ring for depth reads, a power of two. Returns 0 or the error number of the
 * system call: ENOSYS, EPERM or EACCES if rings do not exist or are forbidden. */
int tarn__uring_new(unsigned depth, tarn__uring **out);
void tarn__uring_free(tarn__uring *ring);
bool tarn__uring_is_ours(const tarn__uring *ring);

/* Adds a read to the ring. At most depth reads may be in progress. */
void tarn__uring_read(tarn__uring *ring, int fd, void *buf, uint32_t len, uint64_t offset,
                      uint64_t tag);

/* Starts the added reads and waits until at least wait reads are done. Returns 0 or an
 * error number. */
int tarn__uring_enter(tarn__uring *ring, unsigned wait);

/* Takes one finished read: its tag, and its length or a negative error number. */
bool tarn__uring_take(tarn__uring *ring, uint64_t *out_tag, int32_t *out_result);

#endif
