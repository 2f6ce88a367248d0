/* Reads many ranges of many files into memory, as many at once as is good for the disk.
 * Knows nothing about their contents.
 *
 * There are four ways, measured in docs/internals/cold.md. If rings are not available (an
 * old kernel, a seccomp filter, kernel.io_uring_disabled), the ranges are announced to
 * the system and then read one by one. The statistics count what was read in which way,
 * and say why there was no ring. */
#ifndef TARN_IO_RANGES_H
#define TARN_IO_RANGES_H

#include <tarn/base.h>

typedef enum tarn__ranges_way {
    TARN__RANGES_PREAD,   /* one after the other */
    TARN__RANGES_ADVISED, /* the same, after announcing all of them */
    TARN__RANGES_RING,    /* through the page cache, many at once */
    TARN__RANGES_DIRECT,  /* bypassing the page cache, many at once */
    TARN__RANGES_WAYS
} tarn__ranges_way;

#define TARN__RANGES_DEPTH  128u         /* reads in progress at once */
#define TARN__RANGES_BOUNCE (8u << 20)   /* bytes of memory they are read into */
#define TARN__RANGES_CHUNK  (256u << 10) /* a longer range becomes several reads */
#define TARN__RANGES_GAP    (8u << 10)   /* ranges with a smaller gap are read as one */
#define TARN__RANGES_ALIGN                                                               \
    4096u /* alignment that every disk accepts for direct reads                          \
           */

struct tarn__remote;

/* An open file. A missing descriptor is -1: without direct, its ranges are read through
 * the page cache. */
typedef struct tarn__ranges_file {
    const char *path;
    struct tarn__remote *remote; /* then there are no descriptors; or NULL */
    int fd;
    int direct;     /* the same file, opened with O_DIRECT */
    uint32_t align; /* of offsets and lengths of direct reads, a power of two */
} tarn__ranges_file;

/* The bytes at offset: the first head bytes go to one place, the following size bytes to
 * another. */
typedef struct tarn__ranges_piece {
    const tarn__ranges_file *file;
    uint64_t offset;
    size_t head, size;
    unsigned char *head_to, *to;
} tarn__ranges_piece;

/* What was read in which way. */
typedef struct tarn__ranges_stats {
    uint64_t pieces[TARN__RANGES_WAYS];
    uint64_t bytes; /* requested */
    uint64_t waits; /* calls that waited for a ring */
    int ring_errno; /* why there is no ring; 0: there is one, or none was wanted */
} tarn__ranges_stats;

/* Initialise with zeros. Used by one thread at a time. After a fork, the child creates
 * its own ring. */
typedef struct tarn__ranges {
    struct tarn__uring *ring;
    unsigned char *bounce;
    struct tarn__ranges_slot *slots;
    void *scratch[2];
    size_t scratch_size[2];
    tarn__ranges_stats stats;
} tarn__ranges;

void tarn__ranges_reset(tarn__ranges *gather);

/* Memory for the caller's lists, kept until the reset; which is 0 or 1. The contents are
 * lost when it grows. NULL if out of memory. */
void *tarn__ranges_scratch(tarn__ranges *gather, unsigned which, size_t size);

/* Reads all pieces. The error is that of the first piece (in the given order) that cannot
 * be read completely, with path and offset; the memory of the other pieces is then
 * undefined. Pieces that follow each other in one file, by ascending offsets, are read
 * together. */
TARN_CHECKED tarn_status tarn__ranges_read(tarn__ranges *gather, tarn__ranges_way way,
                                           const tarn__ranges_piece *pieces, size_t count,
                                           tarn_error *err);

/* Announces to the system that a range will be read soon, without waiting. Cannot
 * fail. */
void tarn__ranges_announce(int fd, uint64_t offset, uint64_t size);

/* Opens the same file again; returns -1 if that is impossible. */
int tarn__open_again(int fd, int flags);

/* Opens the same file for direct reads, or returns -1 if that is impossible. *out_align
 * is their alignment, at most TARN__RANGES_ALIGN. */
int tarn__open_direct(int fd, uint32_t *out_align);

#endif
