/* A remote file, as used by the files that read it: remote.c, remote_copy.c,
 * remote_read.c, stock.c. */
#ifndef TARN_IO_REMOTE_FILE_H
#define TARN_IO_REMOTE_FILE_H

#include "io/remote.h"
#include "io/tally.h"

/* fetched and requested are made when they are first needed, by any thread. Two threads
 * may make them at the same time; the second to finish throws its own away. No lock is
 * held, because finding credentials may take long. */
struct tarn__remote {
    uint64_t number;        /* in the order of opening: files are read in this order */
    tarn__counted *counted; /* requests are only counted; or NULL */
    char *url, *shown, *dataset;
    tarn__cachedir *cache;
    tarn__object_id *known; /* or NULL */
    tarn__fetch_limits limits;
    _Atomic(tarn__fetched *) fetched;
    _Atomic(char *) requested; /* the URL of requests; set before fetched */
    atomic_bool identified;    /* a response gave the identity, or it was known */

    /* The copy in the cache: see remote_copy.c. */
    tarn__cached *cached;
    unsigned users;
    tarn__remote *newer, *older;
    atomic_bool here;        /* the copy had all bytes when it was last used */
    atomic_bool unversioned; /* the server does not say which version it sends */
};

TARN_CHECKED tarn_status tarn__remote_fetched(tarn__remote *remote, tarn__fetched **out,
                                              tarn_error *err);

/* --- The copy in the cache (remote_copy.c) ----------------------------------------- */

/* Opens the copy unless it is open, and keeps it open until release is called as often.
 * NULL without a cache, and if the version of the file is unknown. The file must have
 * been identified. */
TARN_CHECKED tarn_status tarn__remote_use(tarn__remote *remote, tarn__cached **out,
                                          tarn_error *err);
void tarn__remote_use_again(tarn__remote *remote); /* while it is used */
void tarn__remote_release(tarn__remote *remote);
void tarn__remote_forget(tarn__remote *remote); /* closes it; nobody uses it */

/* --- Reading ----------------------------------------------------------------------- */

/* tarn__remote_read with the failure of each piece: errors[i] is NULL, or an error that
 * the caller frees. Returns a failure only if nothing can be said about the pieces: out
 * of memory, or cancelled. Does not use the stock. */
TARN_CHECKED tarn_status tarn__remote_read_each(const tarn__remote_piece *pieces,
                                                size_t count, tarn_error **errors,
                                                tarn_error *err);

/* Pieces of a file, in their order, that one request fetches. */
typedef struct tarn__remote_run {
    uint64_t from, to, wanted, gaps;
} tarn__remote_run;

static inline tarn__remote_run tarn__remote_run_of(uint64_t from, uint64_t to)
{
    return (tarn__remote_run){from, to, to - from, 0};
}

/* Adds the next piece, if it is so close that fetching the gap as well is better than
 * another request. */
bool tarn__remote_run_add(tarn__remote_run *run, uint64_t from, uint64_t to);

/* The bytes that the memory of placed pieces has room for. */
static inline uint64_t tarn__remote_room_from(const tarn__remote *r, uint64_t from)
{
    return r->cache ? from / TARN__CACHE_BLOCK * TARN__CACHE_BLOCK : from;
}

static inline uint64_t tarn__remote_room_to(const tarn__remote *r, uint64_t to)
{
    return tarn__remote_room_from(r, r->cache ? to + TARN__CACHE_BLOCK - 1 : to);
}

/* The order in which ranges are read. */
static inline int tarn__remote_compare(const tarn__remote *a, uint64_t a_from,
                                       const tarn__remote *b, uint64_t b_from)
{
    if (a != b) return a->number < b->number ? -1 : 1;
    return (a_from > b_from) - (a_from < b_from);
}

/* The range of the stock that has these bytes, or NULL. */
tarn__stocked *tarn__stock_find(const tarn__stock *stock, const tarn__remote *remote,
                                uint64_t offset, uint64_t size);

#endif
