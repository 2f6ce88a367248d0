/* Copies of remote objects on disk, shared by processes: for each object a sparse file
 * with the same offsets, and a map of the blocks that it has. A file with all blocks
 * is the object. Knows nothing about how bytes arrive.
 *
 * A block is marked as there after its bytes were written. Claims of blocks belong to a
 * process and end with it, so a killed process holds up nobody. What is cached stays: a
 * sample is used once in an epoch, so evicting one for another only loses. Only other
 * datasets and old versions of objects are evicted for new data. */
#ifndef TARN_IO_SHARDCACHE_H
#define TARN_IO_SHARDCACHE_H

#include <stdatomic.h>

#include "io/object.h"

#define TARN__CACHE_BLOCK 4096u

typedef struct tarn__cachedir tarn__cachedir;

typedef struct tarn__cache_limits {
    uint64_t max_bytes; /* of the folder on disk; 0: no limit */
    uint64_t min_free;  /* bytes that stay free on the file system */
} tarn__cache_limits;

/* Creates the folder if necessary. */
TARN_CHECKED tarn_status tarn__cachedir_open(const char *folder,
                                             const tarn__cache_limits *limits,
                                             tarn__cachedir **out, tarn_error *err);
void tarn__cachedir_close(tarn__cachedir *dir); /* after its objects */

/* Sets limits.min_free: at most this, and at most a sixteenth of the file system. Before
 * objects are opened. */
void tarn__cachedir_keep_free(tarn__cachedir *dir, uint64_t most);

/* If nothing can be stored, and nothing is there: why, and what to do. The caller frees
 * it. NULL: there is room (or no memory for the text). */
char *tarn__cachedir_problem(tarn__cachedir *dir);

/* The copy of one version of an object. dataset is a text without secrets that is the
 * same for all objects of one dataset. url is what is requested (tarn__object.url): two
 * objects whose URLs differ only in what is hidden must not be taken for each other.
 * shown is the URL without secrets; only shown is stored. May be used by any number of
 * threads at once.
 *
 * TARN_ERR_UNSUPPORTED if id does not identify a version: the size is unknown, or there
 * is neither a strong ETag nor a date. Such an object must not be cached.
 *
 * An open object holds one or two descriptors, and is not evicted while it is open. */
typedef struct tarn__cached tarn__cached;

TARN_CHECKED tarn_status tarn__cached_open(tarn__cachedir *dir, const char *dataset,
                                           const char *url, const char *shown,
                                           const tarn__object_id *id, tarn__cached **out,
                                           tarn_error *err);
void tarn__cached_close(tarn__cached *cached);

/* The sparse file. Bytes of blocks that are not there read as zeros: never read it
 * without asking. */
int tarn__cached_fd(const tarn__cached *cached);
const char *tarn__cached_path(const tarn__cached *cached);

/* Whether all blocks are there: an atomic load. */
bool tarn__cached_complete(tarn__cached *cached);
/* Whether all blocks of a range are there. */
bool tarn__cached_has(tarn__cached *cached, uint64_t offset, uint64_t size);

typedef enum tarn__cached_state {
    TARN__CACHED_THERE,   /* read it from the file */
    TARN__CACHED_CLAIMED, /* fetch it, write it with tarn__cached_put; or give it up */
    TARN__CACHED_BUSY,    /* another thread or process fetches it: wait for it */
    TARN__CACHED_PASSED   /* no room: fetch it for yourself */
} tarn__cached_state;

/* A part of a requested range, in blocks: first block and number of blocks. */
typedef struct tarn__cached_span {
    uint64_t first, count;
    tarn__cached_state state;
} tarn__cached_span;

/* Divides the blocks of a range into spans and claims the missing ones. Never waits.
 * Returns at most max spans, from the front; *out_end is the end of the last one, in
 * bytes (not beyond the object). */
TARN_CHECKED tarn_status tarn__cached_claim(tarn__cached *cached, uint64_t offset,
                                            uint64_t size, tarn__cached_span *spans,
                                            size_t max, size_t *out_count,
                                            uint64_t *out_end, tarn_error *err);

/* Writes claimed blocks, marks them and ends the claim; a part of a claim is allowed. The
 * last block of an object ends with the object. If the disk is full or fails, the claim
 * ends too, nothing is marked, and the caller still has its bytes: TARN_ERR_IO is for a
 * notice only, and is returned once in a while, not for every block. */
TARN_CHECKED tarn_status tarn__cached_put(tarn__cached *cached, uint64_t first,
                                          uint64_t count, const void *data,
                                          tarn_error *err);
void tarn__cached_give_up(tarn__cached *cached, uint64_t first, uint64_t count);

/* Marks blocks as missing whose bytes turned out to be damaged. */
void tarn__cached_drop(tarn__cached *cached, uint64_t first, uint64_t count);

/* Waits until the blocks are there or nobody claims them; then claim again. The calling
 * thread must not hold claims. False if they are still claimed after patience_ms, or if
 * cancel is not NULL and became true: a process that was stopped keeps its claims, so a
 * caller whose patience ends should fetch the bytes for itself. */
bool tarn__cached_wait(tarn__cached *cached, uint64_t first, uint64_t count,
                       unsigned patience_ms, const atomic_bool *cancel);

#endif
