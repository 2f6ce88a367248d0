/* Pieces of files for a batch: where each piece is, whether it is in memory, and how to
 * read it if not. docs/internals/cold.md explains the decisions. Knows nothing about the
 * contents of the pieces. */
#ifndef TARN_IO_COLD_H
#define TARN_IO_COLD_H

#include <stdatomic.h>

#include <tarn/source.h>

#include "io/ahead.h"
#include "io/filecache.h"
#include "io/ranges.h"

/* The location of some bytes. */
typedef struct tarn__spot {
    uint64_t row;    /* a number for the owner of the files */
    uint64_t offset; /* in the file; TARN_NO_OFFSET: not stored in one piece */
    uint64_t size;   /* TARN__NO_SIZE: known only after decoding */
    uint32_t file;   /* among the owner's files */
    uint16_t head;   /* bytes of the header before the offset */
    bool made;       /* must be decoded or collected */
} tarn__spot;

#define TARN__NO_SIZE UINT64_MAX

/* One piece of a batch in progress. */
typedef struct tarn__item {
    void *source; /* identifies the piece for the caller, with sample and field */
    uint64_t sample;
    uint32_t field;
    uint32_t number; /* number of the piece in the batch */
    tarn__spot spot;
    tarn_view view; /* its bytes, if they were decoded or collected */
} tarn__item;

/* The sort key of pieces: file, then offset. */
static inline uint64_t tarn__spot_rank(const tarn__spot *spot)
{
    return ((uint64_t)spot->file << 48) + spot->offset;
}

/* State that a batch keeps besides its bytes: the ring, and counters. */
typedef struct tarn__batch_io {
    tarn__ranges ranges;
    uint64_t copied, announced; /* pieces */
    bool was_warm;              /* result of the last residency check */
    uint64_t unasked;           /* bytes since then */
} tarn__batch_io;

/* The destination of a batch. */
typedef struct tarn__target {
    unsigned char *data;
    const uint64_t *offsets;
    uint64_t total; /* bytes of the batch */
    tarn__batch_io *io;
    tarn__item *spare; /* room for all items of the batch, for sorting */
    struct tarn__run *runs;
} tarn__target;

/* The items sorted by file and offset, valid until the next call for the same target.
 * Data in memory is copied in the given order; sorting is for disks. */
const tarn__item *tarn__items_sorted(const tarn__target *target, const tarn__item *items,
                                     size_t count);

/* Whether items are stored consecutively, as when a caller reads a file from front to
 * back. In this case the system reads ahead for a map by itself, and further than a
 * batch. */
bool tarn__items_follow(const tarn__item *items, size_t count);

/* --- How to read a batch ----------------------------------------------------------- */

typedef struct tarn__cold {
    bool always; /* the caller says that the data is not in memory */
    bool never;  /* or that it is to be mapped */
    bool keep;   /* all data fits in memory, so filling the page cache pays off */
    atomic_bool announced; /* reads were announced, so the data comes through the page
                              cache */
} tarn__cold;

typedef enum tarn__cold_way {
    TARN__COLD_COPY,     /* the data is in memory */
    TARN__COLD_ANNOUNCE, /* announce all of it to the system, then copy */
    TARN__COLD_GATHER    /* read it with a ring */
} tarn__cold_way;

/* Whether the first byte of an item is in memory; true if unknown. */
typedef bool (*tarn__is_resident)(void *context, const tarn__item *item);

/* Chooses how to read the items, which may be in any order. */
tarn__cold_way tarn__cold_choose(const tarn__cold *cold, tarn__is_resident is_resident,
                                 void *context, const tarn__item *items, size_t count,
                                 const tarn__target *to);

/* --- The files that pieces are in -------------------------------------------------- */

/* The files of a cache, which is borrowed, or a single file. */
typedef struct tarn__files {
    tarn__filecache *cache;
    tarn__ranges_file one;
    uint64_t one_size;
    const unsigned char *map; /* of the single file; NULL if it is read */
    tarn__cold cold;
    _Atomic(tarn__ahead *) ahead; /* NULL until it is needed */
} tarn__files;

void tarn__files_init(tarn__files *files, tarn__filecache *cache, bool cold, tarn_io io);

/* A single file, which is also opened for direct reads. file and its path are borrowed.
 */
void tarn__files_init_one(tarn__files *files, const tarn__file *file,
                          const unsigned char *map, bool cold, tarn_io io);
void tarn__files_reset(tarn__files *files);

/* The remote file with this number, unless all its bytes are here; otherwise NULL. */
struct tarn__remote *tarn__files_remote(const tarn__files *files, uint32_t file);

/* Whether there is such a file. Batches are then gathered: nothing that is fetched is
 * looked for in the page cache. */
bool tarn__files_are_away(const tarn__files *files);

/* How many there are, and the size of one; UINT64_MAX if it is unknown. */
size_t tarn__files_count(const tarn__files *files);
uint64_t tarn__files_size(const tarn__files *files, uint32_t file);

/* Borrowed; file must be the number of an existing file. */
const char *tarn__files_path(const tarn__files *files, uint32_t file);
bool tarn__files_is_resident(void *files, const tarn__item *item);

/* Announces to the system that sorted items will be read soon; ranges that nearly touch
 * are announced as one. */
void tarn__files_announce(const tarn__files *files, const tarn__item *items,
                          size_t count);

/* The same for items that follow each other: a thread reads them. If it still reads those
 * of an earlier call, waits for it first. */
void tarn__files_read_ahead(tarn__files *files, const tarn__item *items, size_t count);

/* Reads sorted items of a single file with a ring. */
TARN_CHECKED tarn_status tarn__files_read(const tarn__files *files,
                                          const tarn__item *items, size_t count,
                                          const tarn__target *to, tarn_error *err);

#endif
