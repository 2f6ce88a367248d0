/* A scanned shard: its rows, and the data needed to merge it with the others. */
#ifndef TARN_ITAR_SCAN_H
#define TARN_ITAR_SCAN_H

#include <pthread.h>
#include <stdatomic.h>

#include "itar/index.h"
#include "tar/keys.h"
#include "tar/reader.h"

/* A run is a sequence of consecutive rows with the same key. The key is stored once per
 * run. */
typedef struct tarn__scan {
    unsigned char *rows;
    size_t n_rows, row_capacity;
    uint32_t *run_rows; /* first row of each run */
    uint64_t *run_ends; /* end of each run's key in keys */
    uint64_t *run_hashes;
    size_t n_runs, run_capacity, end_capacity, hash_capacity;
    tarn__buf keys;
    tarn__names fields; /* numbered within this shard */
    uint32_t *checksums;
    size_t checksum_capacity;
    uint64_t duplicates; /* inside runs */
    uint32_t (*duplicate_rows)[2];
    size_t n_duplicate_rows, duplicate_capacity;
    tarn__stamp stamp;
    tarn_tar_counts counts;
    uint64_t unkeyed;
    bool done;        /* scanned, and waiting to be streamed */
    uint64_t rows_at; /* where its rows are written in the index file */
    tarn_error error;
} tarn__scan;

/* A row array of a finished shard that the next one can reuse. */
typedef struct tarn__spare {
    unsigned char *rows;
    size_t capacity;
} tarn__spare;

/* Where streamed rows are written: see stream.c. */
typedef struct tarn__stream {
    struct tarn__publish *file; /* NULL: rows stay in memory */
    uint64_t rows_at;           /* in the file, if no more names are added */
    uint64_t end;               /* of the rows that have a place */
    size_t shards;              /* whose rows have a place */
    tarn__spare spares[8];
    size_t n_spares;
    unsigned char *map;
    uint64_t map_size;
} tarn__stream;

/* Data that all shards of a build share. */
typedef struct tarn__build {
    const char *const *paths;
    const tarn_index_options *options;
    tarn__hash hash;
    tarn__scan *scans;
    size_t count;
    tarn_index *index; /* the index that is being built */
    tarn__stream stream;
    uint64_t total_bytes;
    atomic_uint_fast64_t done_bytes;
    pthread_mutex_t lock; /* callbacks come from one thread at a time */
} tarn__build;

/* How many colliding members are reported by name. */
#define TARN__MAX_REPORTED 100

/* The task for one shard. */
tarn_status tarn__scan_shard(void *build, size_t number);
void tarn__scan_reset(tarn__scan *scan);

/* A scan that is filled by the writer of the shard: a run, then its rows. */
TARN_CHECKED tarn_status tarn__scan_init(tarn__scan *scan, tarn_error *err);
TARN_CHECKED tarn_status tarn__scan_begin_run(tarn__scan *scan, const char *key,
                                              size_t len, uint64_t hash, tarn_error *err);

static inline tarn__name tarn__scan_key(const tarn__scan *scan, size_t run)
{
    uint64_t from = run ? scan->run_ends[run - 1] : 0;
    return (tarn__name){scan->keys.data + from, (size_t)(scan->run_ends[run] - from)};
}

/* Numbers a shard's fields for the index, and updates its rows. Must be called for the
 * shards in order. */
TARN_CHECKED tarn_status tarn__merge_fields(tarn_index *index, tarn__scan *scan,
                                            tarn_error *err);

/* Writes the rows of a scanned shard, and of later shards that waited for it; or lets
 * them wait for an earlier shard. */
TARN_CHECKED tarn_status tarn__stream_shard(tarn__build *build, size_t number,
                                            tarn_error *err);
/* Returns an unused row array with space for at least capacity rows, if there is one. */
bool tarn__stream_spare(tarn__build *build, size_t capacity, tarn__spare *out);
/* Maps the written data, so that rows can be used as if they were in memory. */
TARN_CHECKED tarn_status tarn__stream_attach(tarn__build *build, tarn_error *err);
void tarn__stream_reset(tarn__stream *stream);

/* Merges the scans into an index: common field numbers, collision numbers, key order.
 * Takes ownership of the scans' rows and checksums. */
TARN_CHECKED tarn_status tarn__merge(tarn__build *build, tarn_index *index,
                                     tarn_index_report *report, tarn_error *err);

#endif
