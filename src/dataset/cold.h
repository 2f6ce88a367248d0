/* Data that is not in memory: whether it is, and what to do then. Each kind of source
 * that reads files has one of these; docs/internals/cold.md says why it decides as it
 * does. */
#ifndef TARN_DATASET_COLD_H
#define TARN_DATASET_COLD_H

#include "dataset/dataset.h"
#include "io/gather.h"

/* What a batch keeps besides its bytes: the ring, and what was done. */
typedef struct tarn__batch_io {
    tarn__gather gather;
    uint64_t copied, announced; /* pieces */
    bool was_warm;              /* what was asked about last */
    uint64_t unasked;           /* bytes since then */
} tarn__batch_io;

typedef struct tarn__cold {
    unsigned unit;
    bool always; /* the caller says that the data is not in memory */
    bool never;  /* or that it is to be mapped */
    bool keep;   /* all of it fits into memory, so it is worth filling the page cache */
    atomic_bool announced; /* reads are announced: they come by the page cache */
} tarn__cold;

/* What to do with a batch. */
typedef enum tarn__cold_way {
    TARN__COLD_COPY,     /* it is in memory */
    TARN__COLD_ANNOUNCE, /* tell the system about all of it, then copy */
    TARN__COLD_GATHER    /* read it by ring */
} tarn__cold_way;

/* bytes: of all files; unit: bytes that places of items are counted in. */
void tarn__cold_init(tarn__cold *cold, const tarn_dataset_options *options,
                     uint64_t bytes, unsigned unit);

/* Whether the first byte of an item is in memory; true where that is not known. */
typedef bool (*tarn__is_resident)(void *state, const tarn__item *item);

/* What to do with items, in whatever order they are. */
tarn__cold_way tarn__cold_choose(const tarn__cold *cold, tarn__is_resident is_resident,
                                 void *state, const tarn__item *items, size_t count,
                                 const tarn__target *to);

/* A source that is one file: what its pieces are read from. */
typedef struct tarn__cold_file {
    tarn__gather_file file;
    const unsigned char *map; /* NULL where it is read */
    tarn__cold cold;
} tarn__cold_file;

/* Fills file and map in, and opens the file for direct reads. path is borrowed. */
void tarn__cold_file_open(tarn__cold_file *file, const char *path, int fd,
                          const unsigned char *map);
void tarn__cold_file_close(tarn__cold_file *file);
bool tarn__cold_file_is_resident(const tarn__cold_file *file, uint64_t offset);

/* Tells the system that bytes will be wanted. */
void tarn__cold_file_announce(tarn__cold_file *file, uint64_t offset, uint64_t size);

/* Reads items, by ascending places, which are offsets after base. */
TARN_CHECKED tarn_status tarn__cold_file_read(tarn__cold_file *file, uint64_t base,
                                              const tarn__item *items, size_t count,
                                              const tarn__target *to, tarn_error *err);

#endif
