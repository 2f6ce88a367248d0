/* The index, as used by the rest of the library. */
#ifndef TARN_ITAR_INDEX_H
#define TARN_ITAR_INDEX_H

#include <tarn/index.h>

#include "base/names.h"
#include "io/publish.h"
#include "itar/row.h"
#include "itar/sums.h"

/* Loaded rows are in one chunk, built rows in one chunk per shard: joining them would
 * double the memory without need. */
typedef struct tarn__chunk {
    uint64_t first;
    unsigned char *rows;
} tarn__chunk;

struct tarn_index {
    tarn__chunk *chunks;
    size_t n_chunks;
    uint64_t n_rows, n_stems;
    bool contiguous;
    tarn__names fields;      /* in id order */
    tarn__names collisions;  /* collision id 1 first */
    char *path;              /* NULL if it was built */
    uint64_t rows_at;        /* offset of the rows in that file */
    tarn__contents contents; /* of the file; empty if it was built in memory */
    bool owns_rows;
    unsigned threads; /* for its checksums when it is written; 0: one */
    tarn__sums *sums; /* NULL if there are none */
};

/* The chunk with a row. */
static inline size_t tarn__chunk_of(const struct tarn_index *index, uint64_t number)
{
    size_t low = 0, high = index->n_chunks;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (index->chunks[mid].first <= number)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static inline const unsigned char *tarn__chunk_at(const struct tarn_index *index,
                                                  uint64_t number)
{
    const tarn__chunk *chunk = &index->chunks[tarn__chunk_of(index, number)];
    return chunk->rows + (number - chunk->first) * TARN__ROW_SIZE;
}

/* The number of rows of a chunk. */
static inline size_t tarn__chunk_rows(const struct tarn_index *index, size_t chunk)
{
    uint64_t end =
        chunk + 1 < index->n_chunks ? index->chunks[chunk + 1].first : index->n_rows;
    return (size_t)(end - index->chunks[chunk].first);
}

/* The bytes of a row, which must exist. */
static inline const unsigned char *tarn__index_at(const struct tarn_index *index,
                                                  uint64_t number)
{
    if (index->n_chunks == 1) return index->chunks[0].rows + number * TARN__ROW_SIZE;
    return tarn__chunk_at(index, number);
}

/* Like tarn__index_at, but first checks that the row is as it was written. */
TARN_CHECKED static inline tarn_status tarn__index_use(const struct tarn_index *index,
                                                       uint64_t number,
                                                       const unsigned char **out,
                                                       tarn_error *err)
{
    TARN_TRY(tarn__sums_check(index->sums, TARN__PART_ROWS, number, err));
    *out = tarn__index_at(index, number);
    return TARN_OK;
}

/* An empty index. NULL if out of memory. */
struct tarn_index *tarn__index_new(void);

/* Everything before the rows: the header and both blocks of names. */
TARN_CHECKED tarn_status tarn__index_head(const struct tarn_index *index, tarn__buf *out,
                                          tarn_error *err);

/* An index and its sums on disk, before they get their names. */
typedef struct tarn__saving {
    tarn__publish rows, sums;
} tarn__saving;

/* tarn_index_save in two steps: prepare does everything that takes space or time, publish
 * sets the names. publish ends a saving in any case; reset ends one that is not
 * published. */
TARN_CHECKED tarn_status tarn__index_prepare(const struct tarn_index *index,
                                             const char *path, bool no_sync,
                                             tarn__saving *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__index_publish(tarn__saving *saving, tarn_error *err);
void tarn__saving_reset(tarn__saving *saving);

/* Completes an interrupted replacement of the index at path: waiting sums are renamed if
 * they belong to the index, and removed otherwise. */
TARN_CHECKED tarn_status tarn__index_settle(const char *path, tarn_error *err);

typedef enum tarn__load {
    TARN__LOAD_CHECKED,  /* every row is checked */
    TARN__LOAD_TRUSTING, /* with a matching .tarsum, rows are checked on first use */
    TARN__LOAD_ALONE     /* the .tarsum is not read */
} tarn__load;

TARN_CHECKED tarn_status tarn__index_load(const char *path, tarn__load how,
                                          tarn_index **out, tarn_error *err);

/* From now on messages name the index and its sums like this. */
TARN_CHECKED tarn_status tarn__index_show(tarn_index *index, const char *path,
                                          const char *sums_path, tarn_error *err);

/* Checks every row of an index that was loaded TARN__LOAD_TRUSTING. */
TARN_CHECKED tarn_status tarn__index_check(const tarn_index *index, tarn_error *err);

typedef uint64_t (*tarn__hash)(const char *key, size_t len);

/* tarn_index_build without a path, with the hash to use; tests replace it to make keys
 * collide. With a file, rows are written to it while shards are scanned, and the index
 * maps them. */
TARN_CHECKED tarn_status tarn__index_build(const char *const *shards, size_t count,
                                           const tarn_index_options *options,
                                           tarn__hash hash, struct tarn__publish *file,
                                           tarn_index **out, tarn_index_report *report,
                                           tarn_error *err);

/* Like tarn__index_build, with a path. */
TARN_CHECKED tarn_status tarn__index_create(const char *const *shards, size_t count,
                                            const tarn_index_options *options,
                                            tarn__hash hash, const char *path,
                                            tarn_index **out, tarn_index_report *report,
                                            tarn_error *err);

/* index_part.c: tarn_index_build for one task of a job. */
bool tarn__index_tasks(const tarn_index_options *options);
TARN_CHECKED tarn_status tarn__index_part(const char *const *shards, size_t count,
                                          const tarn_index_options *options,
                                          const char *path, tarn_index **out,
                                          tarn_index_report *report, size_t size,
                                          tarn_error *err);

#endif
