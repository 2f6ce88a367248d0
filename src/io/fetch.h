/* Fetches ranges of remote objects, many at once. One thread of the process runs all
 * transfers; it starts with the first range and ends when nothing was fetched for a
 * while, and a child of fork starts its own. Knows nothing about caches or contents.
 *
 * Concurrency follows the throughput: it grows while more transfers bring more bytes per
 * second, and halves when a server answers 429, 503 or SlowDown. A range that fails for a
 * reason that may pass is requested again from its first missing byte. Every response
 * must be a part of the object that was identified: other sizes, ETags and ranges than
 * requested are errors. */
#ifndef TARN_IO_FETCH_H
#define TARN_IO_FETCH_H

#include "io/object.h"

/* An object that is read by ranges: its identity is fixed by the first response, or by
 * what the caller knows. May be used by any number of threads at once. */
typedef struct tarn__fetched tarn__fetched;

typedef struct tarn__fetch_limits {
    unsigned connect_seconds, stall_seconds, retries, min_speed; /* see tarn/source.h */
} tarn__fetch_limits;

/* Takes over object, also on failure. known may be NULL, and its members unknown. Sends
 * no request. */
TARN_CHECKED tarn_status tarn__fetched_open(tarn__object *object,
                                            const tarn__object_id *known,
                                            const tarn__fetch_limits *limits,
                                            tarn__fetched **out, tarn_error *err);
/* All fetches of the object must be over. */
void tarn__fetched_close(tarn__fetched *object);

/* The identity. Requests the first byte if the size is unknown; then TARN_ERR_NO_FILE if
 * there is no such object. */
TARN_CHECKED tarn_status tarn__fetched_identify(tarn__fetched *object,
                                                tarn__object_id *out, tarn_error *err);

/* One range. The caller fills in the first members, and keeps the struct and the memory
 * at to until the fetch is over. */
typedef struct tarn__fetch {
    tarn__fetched *object;
    uint64_t offset;
    size_t size; /* at least 1; the range must be inside the object */
    unsigned char *to;
    uint64_t rank; /* a smaller one starts earlier */
    /* Called once, by the thread of the transfers, when status and error are set. It must
     * be quick and not wait; it may submit further fetches. NULL: none. */
    void (*over)(struct tarn__fetch *fetch);
    void *context; /* for over */
    tarn_status status;
    tarn_error error; /* names the URL and the range */
    void *inner;      /* used by the fetcher */
} tarn__fetch;

/* Starts fetches and returns at once. Fails only if no thread or library is available;
 * then none was started. */
TARN_CHECKED tarn_status tarn__fetch_begin(tarn__fetch *const *fetches, size_t count,
                                           tarn_error *err);

/* Waits until all of them are over, and returns the first failure in the given order. Not
 * for fetches with their own over. */
TARN_CHECKED tarn_status tarn__fetch_wait(tarn__fetch *const *fetches, size_t count,
                                          tarn_error *err);

/* Gives up fetches that are not over. When this returns, they are over, with
 * TARN_ERR_CANCELLED if they were given up, and their over has returned. Only one thread
 * may wait for a fetch or cancel it, and not in over. A fetch without over must be waited
 * for or cancelled, or its memory is not released. */
void tarn__fetch_cancel(tarn__fetch *const *fetches, size_t count);

typedef struct tarn__fetch_stats {
    uint64_t requests, bytes, retries, slowdowns, connections;
    unsigned active, limit; /* transfers at once: now, and at most */
} tarn__fetch_stats;

void tarn__fetch_stats_get(tarn__fetch_stats *out);

#endif
