/* Many ranges of many files into memory, as many at once as the disk likes. Knows nothing
 * of what is in them.
 *
 * Four ways, measured in docs/internals/cold.md. Where rings are refused (an old kernel,
 * a seccomp filter, kernel.io_uring_disabled) the ranges are announced to the system and
 * then read one by one; what was done how, and why there was no ring, is counted. */
#ifndef TARN_IO_RANGES_H
#define TARN_IO_RANGES_H

#include <tarn/base.h>

typedef enum tarn__ranges_way {
    TARN__RANGES_PREAD,   /* one after the other */
    TARN__RANGES_ADVISED, /* the same, after all were announced */
    TARN__RANGES_RING,    /* through the page cache, many at once */
    TARN__RANGES_DIRECT,  /* around the page cache, many at once */
    TARN__RANGES_WAYS
} tarn__ranges_way;

#define TARN__RANGES_DEPTH  128u         /* reads under way at once */
#define TARN__RANGES_BOUNCE (8u << 20)   /* bytes of memory that they land in */
#define TARN__RANGES_CHUNK  (256u << 10) /* a longer range is several reads */
#define TARN__RANGES_GAP    (8u << 10)   /* between ranges that are read as one */
#define TARN__RANGES_ALIGN  4096u        /* that every disk takes for direct reads */

/* An open file. What is not there is -1: without direct, its ranges go through the page
 * cache. */
typedef struct tarn__ranges_file {
    const char *path;
    int fd;
    int direct;     /* the same file, opened with O_DIRECT */
    uint32_t align; /* of offsets and lengths of its direct reads, a power of two */
} tarn__ranges_file;

/* The bytes at offset: the first head of them to one place, size more to another. */
typedef struct tarn__ranges_piece {
    const tarn__ranges_file *file;
    uint64_t offset;
    size_t head, size;
    unsigned char *head_to, *to;
} tarn__ranges_piece;

/* What was read how. */
typedef struct tarn__ranges_stats {
    uint64_t pieces[TARN__RANGES_WAYS];
    uint64_t bytes; /* asked for */
    uint64_t waits; /* calls that waited for a ring */
    int ring_errno; /* why there is no ring; 0: there is, or none was wanted */
} tarn__ranges_stats;

/* Begins all zero, serves one thread at a time, and is reset. After a fork the child's
 * makes a ring of its own. */
typedef struct tarn__ranges {
    struct tarn__uring *ring;
    unsigned char *bounce;
    struct tarn__ranges_slot *slots;
    void *scratch[2];
    size_t scratch_size[2];
    tarn__ranges_stats stats;
} tarn__ranges;

void tarn__ranges_reset(tarn__ranges *gather);

/* Memory for the caller's lists, kept until the reset: 0 or 1 says which. Its contents
 * are lost when it grows. NULL if there is none left. */
void *tarn__ranges_scratch(tarn__ranges *gather, unsigned which, size_t size);

/* Reads all pieces. The first of them (in their order) that cannot be read whole is the
 * error, with path and offset; what the others' memory holds then means nothing. Pieces
 * that follow each other in one file, by ascending offsets, are read together. */
TARN_CHECKED tarn_status tarn__ranges_read(tarn__ranges *gather, tarn__ranges_way way,
                                           const tarn__ranges_piece *pieces, size_t count,
                                           tarn_error *err);

/* Tells the system that a range will be wanted, and does not wait. Nothing fails. */
void tarn__ranges_announce(int fd, uint64_t offset, uint64_t size);

/* The same file for direct reads, or -1 where it cannot be, and what they are aligned to,
 * at most TARN__RANGES_ALIGN. */
int tarn__open_direct(int fd, uint32_t *out_align);

#endif
