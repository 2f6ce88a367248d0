/* What stands in <fold>.tarsum: a stamp for each shard, the rows in key order, and a
 * CRC-32C for each member. docs/formats/tarsum.md is the definition. */
#ifndef TARN_ITAR_SUMS_H
#define TARN_ITAR_SUMS_H

#include <stdatomic.h>

#include <tarn/index.h>

#include "base/names.h"
#include "io/file.h"

struct tarn__publish;

typedef struct tarn__stamp {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t rows;
    uint32_t digest; /* of all its headers */
} tarn__stamp;

/* The three large parts that are checked a page (4 KB) at a time, when they are used. */
typedef enum tarn__part {
    TARN__PART_ROWS, /* of the .taridx */
    TARN__PART_ORDER,
    TARN__PART_CHECKSUMS,
    TARN__PARTS
} tarn__part;

/* CRCs of a part, page by page, however it is cut up when it is added. */
typedef struct tarn__pager {
    uint32_t *pages;
    size_t count, capacity;
    uint32_t crc; /* of the page that is not full yet */
    size_t seen;
} tarn__pager;

typedef struct tarn__sums {
    tarn_keys keys;
    uint64_t n_rows;
    uint32_t stride; /* rows of each sample, if the rows are regular; else 0 */
    size_t n_shards;
    tarn__stamp *stamps;
    tarn__names names; /* file names of the shards, in order */
    uint32_t *order;   /* NULL if not there */
    uint32_t *checksums;
    uint64_t index_size;
    uint32_t index_head; /* CRC-32C of the .taridx before its rows */
    uint32_t *pages;     /* CRC-32C of each page of each part, one after the other */
    const void *data[TARN__PARTS]; /* where the parts are; rows are set by the index */
    tarn__pager row_pages;         /* of rows that were streamed, until they are bound */
    atomic_uchar *checked;         /* pages found good; NULL for sums that were built */
    char *path;                    /* NULL if built */
    tarn__contents contents;       /* of the file; nothing if built */
} tarn__sums;

tarn__sums *tarn__sums_new(void);
void tarn__sums_free(tarn__sums *sums);

/* "<fold>.tarsum" for "<fold>.taridx". The caller frees it. */
char *tarn__sums_path(const char *index_path);

/* Loads a .tarsum and checks all of it but the pages. TARN_ERR_NO_FILE if there is
 * none. */
TARN_CHECKED tarn_status tarn__sums_load(const char *path, tarn__sums **out,
                                         tarn_error *err);

/* Writes everything to a file that the caller publishes. pages must be there. */
TARN_CHECKED tarn_status tarn__sums_write(const tarn__sums *sums, struct tarn__publish *p,
                                          tarn_error *err);

TARN_CHECKED tarn_status tarn__pager_add(tarn__pager *pager, const void *data, size_t len,
                                         tarn_error *err);
/* The pages of another pager, which must have ended, as they are. */
TARN_CHECKED tarn_status tarn__pager_take(tarn__pager *pager, const tarn__pager *from,
                                          tarn_error *err);
/* Ends the part: what comes next begins a page. */
TARN_CHECKED tarn_status tarn__pager_end(tarn__pager *pager, tarn_error *err);

TARN_CHECKED tarn_status tarn__sums_check_page(tarn__sums *sums, tarn__part part,
                                               uint64_t page, tarn_error *err);

/* Before element number of a part is used (a row, or four bytes of the other two): its
 * page must be the one that was written. Looked at once. */
TARN_CHECKED static inline tarn_status tarn__sums_check(tarn__sums *sums, tarn__part part,
                                                        uint64_t number, tarn_error *err)
{
    if (!sums || !sums->checked) return TARN_OK;
    return tarn__sums_check_page(sums, part, number >> (part == TARN__PART_ROWS ? 7 : 10),
                                 err);
}

/* All pages of a part. */
TARN_CHECKED tarn_status tarn__sums_check_all(tarn__sums *sums, tarn__part part,
                                              tarn_error *err);

#endif
