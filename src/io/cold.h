/* Pieces of files for a batch: where each one is, whether that is in memory, and what to
 * do where it is not. docs/internals/cold.md says why it decides as it does. Knows
 * nothing of what the pieces are. */
#ifndef TARN_IO_COLD_H
#define TARN_IO_COLD_H

#include <stdatomic.h>

#include <tarn/source.h>

#include "io/filecache.h"
#include "io/ranges.h"

/* Where some bytes are. */
typedef struct tarn__spot {
    uint64_t row;    /* the number of what is there, for its owner */
    uint64_t offset; /* in the file; TARN_NO_OFFSET: they are nowhere in one piece */
    uint64_t size;   /* TARN__NO_SIZE: known only when they were made */
    uint32_t file;   /* among the owner's files */
    uint16_t head;   /* bytes of a header in front of the offset */
    bool made;       /* what is there has to be decoded or collected */
} tarn__spot;

#define TARN__NO_SIZE UINT64_MAX

/* One piece of a batch on its way. */
typedef struct tarn__item {
    void *source; /* what the piece is, for the caller: this, sample and field */
    uint64_t sample;
    uint32_t field;
    uint32_t number; /* among the pieces */
    tarn__spot spot;
    tarn_view view; /* its bytes, if they were made */
} tarn__item;

/* What pieces of some files are sorted by. */
static inline uint64_t tarn__spot_rank(const tarn__spot *spot)
{
    return ((uint64_t)spot->file << 48) + spot->offset;
}

/* What a batch keeps besides its bytes: the ring, and what was done. */
typedef struct tarn__batch_io {
    tarn__ranges ranges;
    uint64_t copied, announced; /* pieces */
    bool was_warm;              /* what was asked about last */
    uint64_t unasked;           /* bytes since then */
} tarn__batch_io;

/* Where the bytes of a batch go. */
typedef struct tarn__target {
    unsigned char *data;
    const uint64_t *offsets;
    uint64_t total; /* bytes of the batch */
    tarn__batch_io *io;
    tarn__item *spare; /* room for all items of the batch, to sort them */
    struct tarn__run *runs;
} tarn__target;

/* The items by ascending offsets, file by file, until the next call for the same target.
 * What is in memory is copied as it comes; sorting is for disks. */
const tarn__item *tarn__items_sorted(const tarn__target *target, const tarn__item *items,
                                     size_t count);

/* --- What to do with a batch ------------------------------------------------------- */

typedef struct tarn__cold {
    bool always; /* the caller says that the data is not in memory */
    bool never;  /* or that it is to be mapped */
    bool keep;   /* all of it fits into memory, so it is worth filling the page cache */
    atomic_bool announced; /* reads are announced: they come by the page cache */
} tarn__cold;

typedef enum tarn__cold_way {
    TARN__COLD_COPY,     /* it is in memory */
    TARN__COLD_ANNOUNCE, /* tell the system about all of it, then copy */
    TARN__COLD_GATHER    /* read it by ring */
} tarn__cold_way;

/* Whether the first byte of an item is in memory; true where that is not known. */
typedef bool (*tarn__is_resident)(void *context, const tarn__item *item);

/* What to do with items, in whatever order they are. */
tarn__cold_way tarn__cold_choose(const tarn__cold *cold, tarn__is_resident is_resident,
                                 void *context, const tarn__item *items, size_t count,
                                 const tarn__target *to);

/* --- The files that pieces are in -------------------------------------------------- */

/* Those of a cache, which is somebody else's, or a single one. */
typedef struct tarn__files {
    tarn__filecache *cache;
    tarn__ranges_file one;
    const unsigned char *map; /* of the one; NULL where it is read */
    tarn__cold cold;
} tarn__files;

void tarn__files_init(tarn__files *files, tarn__filecache *cache, bool cold, tarn_io io);

/* A single file of so many bytes, which is opened for direct reads, too. path is
 * borrowed. */
void tarn__files_init_one(tarn__files *files, const char *path, int fd,
                          const unsigned char *map, uint64_t size, bool cold, tarn_io io);
void tarn__files_reset(tarn__files *files);

/* Borrowed; file is the number of an existing one. */
const char *tarn__files_path(const tarn__files *files, uint32_t file);
bool tarn__files_is_resident(void *files, const tarn__item *item);

/* Tells the system that sorted items will be wanted; ranges that nearly touch are
 * announced as one. */
void tarn__files_announce(const tarn__files *files, const tarn__item *items,
                          size_t count);

/* Reads sorted items of a single file by ring. */
TARN_CHECKED tarn_status tarn__files_read(const tarn__files *files,
                                          const tarn__item *items, size_t count,
                                          const tarn__target *to, tarn_error *err);

#endif
