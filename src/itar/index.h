/* The index as the rest of the library sees it. */
#ifndef TARN_ITAR_INDEX_H
#define TARN_ITAR_INDEX_H

#include <tarn/index.h>

#include "base/names.h"
#include "io/publish.h"
#include "itar/row.h"
#include "itar/sums.h"

/* Rows lie in one piece when they were loaded, in one piece per shard when they were
 * built: joining them would double the memory for nothing. */
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
    tarn__names crashes;     /* crash id 1 first */
    char *path;              /* NULL for one that was built */
    uint64_t rows_at;        /* offset of the rows in that file */
    tarn__contents contents; /* of the file; nothing for one that was built in memory */
    bool owns_rows;
    tarn__sums *sums; /* NULL if there are none */
};

static inline const unsigned char *tarn__chunk_at(const struct tarn_index *index,
                                                  uint64_t number)
{
    size_t low = 0, high = index->n_chunks;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (index->chunks[mid].first <= number)
            low = mid;
        else
            high = mid;
    }
    const tarn__chunk *chunk = &index->chunks[low];
    return chunk->rows + (number - chunk->first) * TARN__ROW_SIZE;
}

/* How many rows a chunk has. */
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

/* The same, after making sure that it is the row that was written. */
TARN_CHECKED static inline tarn_status tarn__index_use(const struct tarn_index *index,
                                                       uint64_t number,
                                                       const unsigned char **out,
                                                       tarn_error *err)
{
    TARN_TRY(tarn__sums_check(index->sums, TARN__PART_ROWS, number, err));
    *out = tarn__index_at(index, number);
    return TARN_OK;
}

/* An empty index, to be filled. NULL when memory is out. */
struct tarn_index *tarn__index_new(void);

/* An index and its sums on the disk, but without their names yet. */
typedef struct tarn__saving {
    tarn__publish rows, sums;
    char *sums_path;
} tarn__saving;

/* tarn_index_save in two steps: all that takes space or time, and the names. publish ends
 * a saving whatever comes of it, reset one that is not to be published. */
TARN_CHECKED tarn_status tarn__index_prepare(const struct tarn_index *index,
                                             const char *path, bool no_sync,
                                             tarn__saving *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__index_publish(tarn__saving *saving, tarn_error *err);
void tarn__saving_reset(tarn__saving *saving);

typedef enum tarn__load {
    TARN__LOAD_CHECKED,  /* every row is looked at */
    TARN__LOAD_TRUSTING, /* not if there is a .tarsum that fits: then rows are checked
                            when they are used */
    TARN__LOAD_ALONE     /* the .tarsum is not looked at */
} tarn__load;

TARN_CHECKED tarn_status tarn__index_load(const char *path, tarn__load how,
                                          tarn_index **out, tarn_error *err);

typedef uint64_t (*tarn__hash)(const char *key, size_t len);

/* tarn_index_build without a path, with the hash to use, which tests replace to make keys
 * collide. With a file, the rows go there while shards are scanned, and the index maps
 * them. */
TARN_CHECKED tarn_status tarn__index_build(const char *const *shards, size_t count,
                                           const tarn_index_options *options,
                                           tarn__hash hash, struct tarn__publish *file,
                                           tarn_index **out, tarn_index_report *report,
                                           tarn_error *err);

/* The same with a path. */
TARN_CHECKED tarn_status tarn__index_create(const char *const *shards, size_t count,
                                            const tarn_index_options *options,
                                            tarn__hash hash, const char *path,
                                            tarn_index **out, tarn_index_report *report,
                                            tarn_error *err);

#endif
