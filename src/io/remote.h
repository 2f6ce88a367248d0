/* A remote file that is read by position, like a local one: ranges are merged, taken from
 * the cache where they are there, and fetched where not. Joins fetch.h and shardcache.h;
 * nothing above it knows either. */
#ifndef TARN_IO_REMOTE_H
#define TARN_IO_REMOTE_H

#include "io/fetch.h"
#include "io/shardcache.h"

#define TARN__REMOTE_GAP  (256u << 10) /* ranges with a smaller gap are one request */
#define TARN__REMOTE_MOST (8u << 20)   /* bytes of a merged request */

typedef struct tarn__remote tarn__remote;

/* cache may be NULL; it is borrowed, and so is dataset during the call. known may be
 * NULL. Sends no request. */
TARN_CHECKED tarn_status tarn__remote_open(const char *url, tarn__cachedir *cache,
                                           const char *dataset,
                                           const tarn__object_id *known,
                                           const tarn__fetch_limits *limits,
                                           tarn__remote **out, tarn_error *err);
void tarn__remote_close(tarn__remote *remote);

/* The identity; requests it if it is unknown. */
TARN_CHECKED tarn_status tarn__remote_identify(tarn__remote *remote, tarn__object_id *out,
                                               tarn_error *err);

typedef struct tarn__remote_piece {
    tarn__remote *remote;
    uint64_t offset;
    size_t size;
    unsigned char *to;
} tarn__remote_piece;

/* Reads all pieces, which may be in any order and of any files. rank orders the requests
 * of different callers: a smaller one is served first. The error is that of the first
 * piece that cannot be read. */
TARN_CHECKED tarn_status tarn__remote_read(const tarn__remote_piece *pieces, size_t count,
                                           uint64_t rank, tarn_error *err);

/* The bytes turned out to be damaged: what the cache has of them is dropped, so that the
 * next read fetches them again. */
void tarn__remote_doubt(tarn__remote *remote, uint64_t offset, uint64_t size);

/* A local file with all bytes, or -1 as long as the cache does not have all of them. */
int tarn__remote_local(tarn__remote *remote);

#endif
