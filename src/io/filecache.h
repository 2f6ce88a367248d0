/* The files of a fold, by number: maps for files that may be mapped, otherwise a bounded
 * number of descriptors. Ten thousand files work with a limit of a few hundred
 * descriptors. All functions may be called from any number of threads at once; finding an
 * open file needs no lock. */
#ifndef TARN_IO_FILECACHE_H
#define TARN_IO_FILECACHE_H

#include <tarn/base.h>

#include "io/file.h"
#include "io/ranges.h"

typedef struct tarn__filecache tarn__filecache;

typedef enum tarn__filecache_io {
    TARN__IO_AUTO, /* map local files, read the others */
    TARN__IO_MAP,
    TARN__IO_READ
} tarn__filecache_io;

/* Copies paths; sizes are the sizes that the files must have. */
TARN_CHECKED tarn_status tarn__filecache_new(const char *const *paths,
                                             const uint64_t *sizes, size_t count,
                                             tarn__filecache_io io, tarn__filecache **out,
                                             tarn_error *err);
/* Each file must be the one with this identity when it is opened, also again after it was
 * closed. Call before the first use. */
TARN_CHECKED tarn_status tarn__filecache_expect(tarn__filecache *cache,
                                                const tarn__file_id *ids,
                                                tarn_error *err);

/* Makes the files remote whose entry in remotes is not NULL; the cache takes them over.
 * The size of such a file may be UINT64_MAX: unknown. As long as a remote file is away
 * (its bytes are not all in the cache on disk), views and reads fetch what they need, it
 * has no map, and nothing of it is resident. Then it becomes a local file. Call before
 * the first use. */
void tarn__filecache_set_remotes(tarn__filecache *cache,
                                 struct tarn__remote *const *remotes);
void tarn__filecache_free(tarn__filecache *cache);

/* The remote file if it is away, otherwise NULL. */
struct tarn__remote *tarn__filecache_away(tarn__filecache *cache, size_t number);
/* Whether a file was away when it was last used: one atomic load. */
bool tarn__filecache_any_away(const tarn__filecache *cache);

/* Bytes of a file turned out to be damaged. True if it is remote: then the next read
 * fetches them, or they were fetched now, if the file was local already. */
bool tarn__filecache_doubt(tarn__filecache *cache, size_t number, uint64_t offset,
                           uint64_t len);

/* The bytes [offset, offset + len) of a file: a pointer into its map, or a copy that the
 * view owns. The file's length is checked before a pointer is returned. */
TARN_CHECKED tarn_status tarn__filecache_view(tarn__filecache *cache, size_t number,
                                              uint64_t offset, size_t len, tarn_view *out,
                                              tarn_error *err);

/* The map of a whole file, after a check of its length; NULL if the file has to be
 * read. */
TARN_CHECKED tarn_status tarn__filecache_map(tarn__filecache *cache, size_t number,
                                             const unsigned char **out, tarn_error *err);

/* The same, but if faults are guarded against (see guard.h), a file that was checked
 * since the coarse clock last moved is not checked again: a system call for each small
 * sample would take a third of its time. Callers must call tarn__filecache_settle after
 * copying. */
TARN_CHECKED tarn_status tarn__filecache_map_lately(tarn__filecache *cache, size_t number,
                                                    const unsigned char **out,
                                                    tarn_error *err);

/* The map of a file that was mapped before, without a check of its length; otherwise
 * NULL. */
const unsigned char *tarn__filecache_peek(const tarn__filecache *cache, size_t number);

/* Call after copying from a map: checks that the file has kept its full length. If a file
 * is truncated in the middle of a page, the rest of the page reads as zeros without a
 * signal. */
TARN_CHECKED tarn_status tarn__filecache_settle(tarn__filecache *cache, size_t number,
                                                tarn_error *err);

/* Checks the length of a file and keeps it open for tarn__ranges_read until
 * tarn__filecache_let_go. A thread must not hold more than tarn__filecache_holds files at
 * once. */
TARN_CHECKED tarn_status tarn__filecache_hold(tarn__filecache *cache, size_t number,
                                              tarn__ranges_file *out, tarn_error *err);
void tarn__filecache_let_go(tarn__filecache *cache, size_t number,
                            const tarn__ranges_file *held);
size_t tarn__filecache_holds(const tarn__filecache *cache);

/* Whether the page at offset is in the page cache. True if unknown: for files that are
 * not mapped, or that the user neither owns nor may write to. */
bool tarn__filecache_is_resident(tarn__filecache *cache, size_t number, uint64_t offset);

/* Total size of all files. */
uint64_t tarn__filecache_total(const tarn__filecache *cache);

/* Announces to the system that bytes will be read soon. This is only advice and cannot
 * fail. */
void tarn__filecache_will_need(tarn__filecache *cache, size_t number, uint64_t offset,
                               uint64_t len);

/* Opens a local file again, for a reader that closes the descriptor itself; -1 if that is
 * impossible. */
int tarn__filecache_open_again(tarn__filecache *cache, size_t number);

TARN_CHECKED tarn_status tarn__filecache_read(tarn__filecache *cache, size_t number,
                                              uint64_t offset, void *buf, size_t len,
                                              tarn_error *err);

size_t tarn__filecache_count(const tarn__filecache *cache);
const char *tarn__filecache_path(const tarn__filecache *cache, size_t number);
uint64_t tarn__filecache_size(const tarn__filecache *cache, size_t number);

/* Whether the file exists in the cache and has at least size bytes. */
bool tarn__filecache_reaches(const tarn__filecache *cache, size_t number, uint64_t size);

#endif
