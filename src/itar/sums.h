/* What stands in <fold>.tarsum: a stamp for each shard, the rows in key order, and a
 * CRC-32C for each member. docs/formats/tarsum.md is the definition. */
#ifndef TARN_ITAR_SUMS_H
#define TARN_ITAR_SUMS_H

#include <stdatomic.h>

#include <tarn/index.h>

#include "base/names.h"

struct tarn__publish;

typedef struct tarn__stamp {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t rows;
    uint32_t digest; /* of all its headers */
} tarn__stamp;

typedef struct tarn__sums {
    tarn_keys keys;
    uint64_t n_rows;
    size_t n_shards;
    tarn__stamp *stamps;
    tarn__names names; /* file names of the shards, in order */
    uint32_t *order;   /* NULL if not there */
    uint32_t *checksums;
    uint64_t index_size;
    uint32_t index_head, index_rows; /* CRC-32C of the .taridx before and from its rows */
    uint32_t order_crc, checksums_crc;
    atomic_int order_state; /* 0 unchecked, 1 good, 2 damaged */
    char *path;             /* NULL if built */
    void *map;
    uint64_t map_size;
} tarn__sums;

tarn__sums *tarn__sums_new(void);
void tarn__sums_free(tarn__sums *sums);

/* "<fold>.tarsum" for "<fold>.taridx". The caller frees it. */
char *tarn__sums_path(const char *index_path);

/* Loads a .tarsum and checks all of it but the two large blocks, which are checked when
 * they matter. TARN_ERR_NOT_FOUND if there is none. */
TARN_CHECKED tarn_status tarn__sums_load(const char *path, tarn__sums **out,
                                         tarn_error *err);

/* Writes everything to a file that the caller publishes. */
TARN_CHECKED tarn_status tarn__sums_write(const tarn__sums *sums, struct tarn__publish *p,
                                          tarn_error *err);

/* Whether the key order is the one that was written. A key that was not found counts as
 * missing only after this. */
TARN_CHECKED tarn_status tarn__sums_check_order(tarn__sums *sums, tarn_error *err);
TARN_CHECKED tarn_status tarn__sums_check_checksums(const tarn__sums *sums,
                                                    tarn_error *err);

#endif
