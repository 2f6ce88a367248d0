/* The files of a fold, by number: maps where they may be mapped, a bounded number of
 * descriptors otherwise. Ten thousand files work under a limit of a few hundred
 * descriptors. All functions may be called from any number of threads at once; an open
 * file is found without a lock. */
#ifndef TARN_IO_FILECACHE_H
#define TARN_IO_FILECACHE_H

#include <tarn/base.h>

#include "io/ranges.h"

typedef struct tarn__filecache tarn__filecache;

typedef enum tarn__filecache_io {
    TARN__IO_AUTO, /* map local files, read the others */
    TARN__IO_MAP,
    TARN__IO_READ
} tarn__filecache_io;

/* paths (copied) and the sizes the files must have. */
TARN_CHECKED tarn_status tarn__filecache_new(const char *const *paths,
                                             const uint64_t *sizes, size_t count,
                                             tarn__filecache_io io, tarn__filecache **out,
                                             tarn_error *err);
void tarn__filecache_free(tarn__filecache *cache);

/* The bytes [offset, offset + len) of a file: a pointer into its map, or a copy that the
 * view owns. The file's length is looked at before a pointer is given. */
TARN_CHECKED tarn_status tarn__filecache_view(tarn__filecache *cache, size_t number,
                                              uint64_t offset, size_t len, tarn_view *out,
                                              tarn_error *err);

/* The map of a whole file, whose length has just been looked at, or NULL if it is to be
 * read. */
TARN_CHECKED tarn_status tarn__filecache_map(tarn__filecache *cache, size_t number,
                                             const unsigned char **out, tarn_error *err);

/* The same, but where faults are guarded against, a file that was found whole since the
 * coarse clock last moved is not looked at again: a system call for each small sample
 * would be a third of its time. Who copies settles afterwards. */
TARN_CHECKED tarn_status tarn__filecache_map_lately(tarn__filecache *cache, size_t number,
                                                    const unsigned char **out,
                                                    tarn_error *err);

/* The same for one that has been mapped before, without looking at its length; or NULL.
 */
const unsigned char *tarn__filecache_peek(const tarn__filecache *cache, size_t number);

/* After something was copied out of a map: whether the file has been whole all the while.
 * Behind a new end in the middle of a page there are zeros, and no signal. */
TARN_CHECKED tarn_status tarn__filecache_settle(tarn__filecache *cache, size_t number,
                                                tarn_error *err);

/* A file that stays open until it is let go, for tarn__ranges_read, after a look at its
 * length. No thread holds more than tarn__filecache_holds of them at once. */
TARN_CHECKED tarn_status tarn__filecache_hold(tarn__filecache *cache, size_t number,
                                              tarn__ranges_file *out, tarn_error *err);
void tarn__filecache_let_go(tarn__filecache *cache, size_t number);
size_t tarn__filecache_holds(const tarn__filecache *cache);

/* Whether the page at offset is in the page cache. True where that is not known: for a
 * file that is not mapped, or that is neither the caller's own nor writable for him. */
bool tarn__filecache_is_resident(tarn__filecache *cache, size_t number, uint64_t offset);

/* Bytes of all files. */
uint64_t tarn__filecache_total(const tarn__filecache *cache);

/* Tells the system that bytes will be wanted soon. Advice only: nothing fails. */
void tarn__filecache_will_need(tarn__filecache *cache, size_t number, uint64_t offset,
                               uint64_t len);

TARN_CHECKED tarn_status tarn__filecache_read(tarn__filecache *cache, size_t number,
                                              uint64_t offset, void *buf, size_t len,
                                              tarn_error *err);

size_t tarn__filecache_count(const tarn__filecache *cache);
const char *tarn__filecache_path(const tarn__filecache *cache, size_t number);
uint64_t tarn__filecache_size(const tarn__filecache *cache, size_t number);

/* Whether there is such a file, with so many bytes or more. */
bool tarn__filecache_reaches(const tarn__filecache *cache, size_t number, uint64_t size);

#endif
