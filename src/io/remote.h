/* A remote file that is read by position, like a local one: ranges are merged, taken from
 * the cache where they are there, and fetched where not. Joins fetch.h and shardcache.h;
 * nothing above it knows either.
 *
 * Bytes that a thread will soon need in many small steps (headers, keys, fields) are
 * fetched at once into a stock. While the thread uses the stock, reads that it covers are
 * copied from it. */
#ifndef TARN_IO_REMOTE_H
#define TARN_IO_REMOTE_H

#include <stdatomic.h>

#include "io/fetch.h"
#include "io/shardcache.h"

struct tarn__tally;

#define TARN__REMOTE_GAP                                                                 \
    (256u << 10) /* ranges with a smaller gap are one request ...                        \
                  */
#define TARN__REMOTE_SMALL_GAP                                                           \
    (32u << 10) /* ... if most of it is wanted, or the gap is even smaller */
#define TARN__REMOTE_MOST   (8u << 20)  /* bytes of a request */
#define TARN__REMOTE_FLIGHT (64u << 20) /* bytes of one reader under way at once */

/* The defaults of tarn_source_options. */
#define TARN__FETCH_LIMITS                                                               \
    {                                                                                    \
        30, 60, 5, 1000                                                                  \
    }

typedef struct tarn__remote tarn__remote;

/* cache may be NULL; it is borrowed, and so is dataset during the call. known may be
 * NULL. Sends no request, and does not look for credentials. */
TARN_CHECKED tarn_status tarn__remote_open(const char *url, tarn__cachedir *cache,
                                           const char *dataset,
                                           const tarn__object_id *known,
                                           const tarn__fetch_limits *limits,
                                           tarn__remote **out, tarn_error *err);
void tarn__remote_close(tarn__remote *remote);

/* The URL for messages, without secrets. */
const char *tarn__remote_shown(const tarn__remote *remote);

/* The identity; requests it if it is unknown. */
TARN_CHECKED tarn_status tarn__remote_identify(tarn__remote *remote, tarn__object_id *out,
                                               tarn_error *err);

/* Identifies the file and opens its copy in the cache, so that tarn__remote_is_here
 * knows it. */
TARN_CHECKED tarn_status tarn__remote_prepare(tarn__remote *remote, tarn_error *err);

typedef struct tarn__remote_piece {
    tarn__remote *remote;
    uint64_t offset;
    size_t size;
    unsigned char *to;
    /* Such pieces of one run are at their distances in one memory, which also has room
     * for the gaps between them and for the blocks of the cache that they touch. */
    bool placed;
} tarn__remote_piece;

/* Reads all pieces, which may be in any order and of any files. The error is that of the
 * first piece that cannot be read. */
TARN_CHECKED tarn_status tarn__remote_read(const tarn__remote_piece *pieces, size_t count,
                                           tarn_error *err);

/* The bytes turned out to be damaged: what the cache and the stock have of them is not
 * used again, so the next read fetches them. */
void tarn__remote_doubt(tarn__remote *remote, uint64_t offset, uint64_t size);

/* Whether the cache had all bytes when the file was last used: an atomic load. */
bool tarn__remote_is_here(const tarn__remote *remote);

/* A new descriptor of the local file with all bytes; -1 if the cache does not have all of
 * them. It stays valid if the cache removes the file. */
int tarn__remote_copy(tarn__remote *remote);

/* --- What a thread works on -------------------------------------------------------- */

typedef struct tarn__stock tarn__stock;

typedef struct tarn__remote_task {
    tarn__stock *stock; /* or NULL */
    bool lends;         /* the stock outlives all views: they may point into it */
    uint64_t rank;      /* requests of smaller ranks are served first */
    const atomic_bool
        *cancel; /* when true, reads fail with TARN_ERR_CANCELLED; or NULL */
    struct tarn__tally *tally; /* requests are counted, not sent (tally.h); or NULL */
} tarn__remote_task;

/* Sets the task of this thread, and returns the one before, to be set again. */
tarn__remote_task tarn__remote_begin(tarn__remote_task task);
const tarn__remote_task *tarn__remote_current(void);

/* --- The stock --------------------------------------------------------------------- */

typedef struct tarn__stocked {
    tarn__remote *remote;
    uint64_t from, to;
    unsigned char *data;
    tarn_error *error; /* it could not be read */
    atomic_bool doubted;
} tarn__stocked;

/* Ranges of remote files in memory. Initialise with zeros. Filled by one thread, then
 * used by any number. */
struct tarn__stock {
    tarn__stocked *ranges; /* sorted by file and offset; they do not overlap */
    size_t count, room;
    unsigned char *memory;
    size_t size;
};

/* Replaces the contents by the bytes of some pieces (to is not used). A piece that cannot
 * be read does not fail the call: reading it from the stock fails in the same way. */
TARN_CHECKED tarn_status tarn__stock_fill(tarn__stock *stock,
                                          const tarn__remote_piece *pieces, size_t count,
                                          tarn_error *err);
/* A view of bytes in the stock of this thread; false if it has not all of them, or does
 * not lend them. */
bool tarn__stock_lend(const tarn__remote *remote, uint64_t offset, size_t size,
                      tarn_view *out);
/* Whether it has the bytes of a piece. */
bool tarn__stock_has(const tarn__stock *stock, const tarn__remote_piece *piece);
void tarn__stock_empty(tarn__stock *stock); /* keeps the memory */
void tarn__stock_reset(tarn__stock *stock);

#endif
