/* A ring of reads that the kernel works on at once: io_uring by its three system calls.
 * Knows nothing of what is read or what to do where rings are forbidden.
 *
 * A ring is used by one thread at a time, and by no other process than the one that made
 * it: after a fork tarn__uring_is_ours says no in the child, which may only free it. */
#ifndef TARN_IO_URING_H
#define TARN_IO_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tarn__uring tarn__uring;

/* A ring for depth reads, a power of two. Returns 0, or the error number of what the
 * system refused: ENOSYS, EPERM and EACCES where rings are not there or not allowed. */
int tarn__uring_new(unsigned depth, tarn__uring **out);
void tarn__uring_free(tarn__uring *ring);
bool tarn__uring_is_ours(const tarn__uring *ring);

/* Puts a read into the ring. No more than depth may be under way. */
void tarn__uring_read(tarn__uring *ring, int fd, void *buf, uint32_t len, uint64_t offset,
                      uint64_t tag);

/* Starts what was put in and waits until at least wait reads are done. Returns 0 or an
 * error number. */
int tarn__uring_enter(tarn__uring *ring, unsigned wait);

/* Takes one read that is done: its tag, and its length or a negative error number. */
bool tarn__uring_take(tarn__uring *ring, uint64_t *out_tag, int32_t *out_result);

#endif
