/* The shared memory of the ring: the submission and completion queues are one map (as in
 * every kernel that has IORING_OP_READ), the submission entries are another.
 *
 * Memory orders: each index of a queue has one writer, this thread or the kernel. We load
 * the kernel's index with acquire, to see the results written before it, and store ours
 * with release, so that the kernel sees the entries written before it and does not
 * overwrite results that we have not read yet. Our own index can be read without an
 * atomic load. */
#include "io/uring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct queue {
    uint32_t *head, *tail;
    uint32_t mask;
} queue;

struct tarn__uring {
    int fd;
    pid_t owner;
    unsigned char *rings;
    size_t rings_size;
    struct io_uring_sqe *entries;
    size_t entries_size;
    queue in, out;
    struct io_uring_cqe *results;
    uint32_t put; /* entries not yet submitted to the kernel */
};

static int setup_ring(unsigned depth, struct io_uring_params *p)
{
    return (int)syscall(__NR_io_uring_setup, depth, p);
}

static void *map_memory(int fd, size_t size, off_t what)
{
    void *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    return p == MAP_FAILED ? NULL : p;
}

/* With this flag the kernel does not interrupt the thread for each finished read; the
 * thread waits for them anyway. Kernels before 5.19 do not know the flag and return
 * EINVAL. */
static int open_ring(unsigned depth, struct io_uring_params *p)
{
    *p = (struct io_uring_params){.flags = IORING_SETUP_COOP_TASKRUN};
    int fd = setup_ring(depth, p);
    if (fd >= 0 || errno != EINVAL) return fd;
    *p = (struct io_uring_params){0};
    return setup_ring(depth, p);
}

static uint32_t *at(const tarn__uring *r, uint32_t offset)
{
    return (uint32_t *)(void *)(r->rings + offset);
}

static bool map_ring(tarn__uring *r, const struct io_uring_params *p)
{
    size_t in = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
    size_t out = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    r->rings_size = in > out ? in : out;
    r->entries_size = p->sq_entries * sizeof(struct io_uring_sqe);
    r->rings = map_memory(r->fd, r->rings_size, IORING_OFF_SQ_RING);
    r->entries = map_memory(r->fd, r->entries_size, (off_t)IORING_OFF_SQES);
    if (!r->rings || !r->entries) return false;
    r->in = (queue){at(r, p->sq_off.head), at(r, p->sq_off.tail),
                    *at(r, p->sq_off.ring_mask)};
    r->out = (queue){at(r, p->cq_off.head), at(r, p->cq_off.tail),
                     *at(r, p->cq_off.ring_mask)};
    r->results = (struct io_uring_cqe *)(void *)(r->rings + p->cq_off.cqes);
    /* Entry i is always at position i of the queue. */
    for (uint32_t i = 0; i < p->sq_entries; i++)
        at(r, p->sq_off.array)[i] = i;
    return true;
}

int tarn__uring_new(unsigned depth, tarn__uring **out)
{
    struct io_uring_params p;
    tarn__uring *r = calloc(1, sizeof *r);
    if (!r) return ENOMEM;
    r->owner = getpid();
    r->fd = open_ring(depth, &p);
    int e = r->fd < 0 ? errno : 0;
    if (!e && !(p.features & IORING_FEAT_SINGLE_MMAP)) e = ENOSYS;
    if (!e && !map_ring(r, &p)) e = errno;
    if (e)
        tarn__uring_free(r);
    else
        *out = r;
    return e;
}

void tarn__uring_free(tarn__uring *r)
{
    if (!r) return;
    if (r->rings) munmap(r->rings, r->rings_size);
    if (r->entries) munmap(r->entries, r->entries_size);
    if (r->fd >= 0) close(r->fd);
    free(r);
}

bool tarn__uring_is_ours(const tarn__uring *r)
{
    return r->owner == getpid();
}

void tarn__uring_read(tarn__uring *r, int fd, void *buf, uint32_t len, uint64_t offset,
                      uint64_t tag)
{
    uint32_t tail = *r->in.tail; /* only this thread writes it */
    r->entries[tail & r->in.mask] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ,
        .fd = fd,
        .off = offset,
        .addr = (uint64_t)(uintptr_t)buf,
        .len = len,
        .user_data = tag,
    };
    __atomic_store_n(r->in.tail, tail + 1, __ATOMIC_RELEASE);
    r->put++;
}

int tarn__uring_enter(tarn__uring *r, unsigned wait)
{
    for (;;) {
        long n = syscall(__NR_io_uring_enter, r->fd, r->put, wait,
                         wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        r->put -= (uint32_t)n;
        if (r->put == 0) return 0;
    }
}

bool tarn__uring_take(tarn__uring *r, uint64_t *out_tag, int32_t *out_result)
{
    uint32_t head = *r->out.head; /* only this thread writes it */
    if (head == __atomic_load_n(r->out.tail, __ATOMIC_ACQUIRE)) return false;
    const struct io_uring_cqe *done = &r->results[head & r->out.mask];
    *out_tag = done->user_data;
    *out_result = done->res;
    __atomic_store_n(r->out.head, head + 1, __ATOMIC_RELEASE);
    return true;
}
