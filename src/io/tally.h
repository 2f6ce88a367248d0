/* Counts what reads of remote files would request, and sends nothing. While a tally is
 * the task of a thread, its reads go through the same code as others (remote_read.c), on
 * placeholders of the files: their requests are added up, and their cache is a map of
 * blocks in memory. The files may be local.
 *
 * A tally is used by one thread. It simulates several readers, one at a time, which share
 * the cache as processes do. */
#ifndef TARN_IO_TALLY_H
#define TARN_IO_TALLY_H

#include "io/cold.h"
#include "io/shardcache.h"

typedef struct tarn__tally tarn__tally;

typedef struct tarn__tally_counts {
    uint64_t requests;
    uint64_t bytes;  /* in responses */
    uint64_t wanted; /* bytes that were read */
    uint64_t cached; /* of those, the ones that the cache had */
} tarn__tally_counts;

/* limit: bytes of the cache on disk; 0: no limit. */
TARN_CHECKED tarn_status tarn__tally_new(size_t readers, bool cache, uint64_t limit,
                                         tarn__tally **out, tarn_error *err);
void tarn__tally_free(tarn__tally *tally);

/* The reader of what follows, and everything counted so far. */
void tarn__tally_set_reader(tarn__tally *tally, size_t reader);
const tarn__tally_counts *tarn__tally_get(const tarn__tally *tally);

/* Bytes of the cache on disk. */
uint64_t tarn__tally_kept(const tarn__tally *tally);

/* The placeholder of a file; NULL if memory is exhausted, or the size of the file cannot
 * be found out. tarn__tally_status then says which. */
struct tarn__remote *tarn__tally_remote(tarn__tally *tally, const tarn__files *files,
                                        uint32_t file);
TARN_CHECKED tarn_status tarn__tally_status(const tarn__tally *tally, tarn_error *err);

/* --- For remote_read.c ---------------------------------------------------------------
 */

/* What is known of a file. */
typedef struct tarn__counted {
    tarn__tally *tally;
    uint64_t size;
    uint64_t *there; /* a bit for each block that the cache has; NULL: it has none */
} tarn__counted;

bool tarn__counted_caches(const tarn__counted *counted);
uint64_t tarn__counted_size(const tarn__counted *counted);

/* As tarn__cached_claim. Claimed blocks take room until they are given up. */
TARN_CHECKED tarn_status tarn__counted_claim(tarn__counted *counted, uint64_t offset,
                                             uint64_t size, tarn__cached_span *spans,
                                             size_t max, size_t *out_count,
                                             uint64_t *out_end, tarn_error *err);
void tarn__counted_give_up(tarn__counted *counted, uint64_t count);

/* A request; afterwards the cache has the claimed blocks. */
void tarn__counted_fetch(tarn__counted *counted, uint64_t bytes, uint64_t first,
                         uint64_t count);
void tarn__counted_hit(tarn__counted *counted, uint64_t bytes);
void tarn__counted_want(tarn__counted *counted, uint64_t bytes);

#endif
