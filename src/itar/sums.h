/* The contents of <fold>.tarsum: a stamp for each shard, the rows in key order, and a
 * CRC-32C for each member. docs/formats/tarsum.md defines the format. */
#ifndef TARN_ITAR_SUMS_H
#define TARN_ITAR_SUMS_H

#include <stdatomic.h>

#include <tarn/index.h>

#include "base/names.h"
#include "io/file.h"

struct tarn__buf;
struct tarn__publish;

typedef struct tarn__stamp {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t rows;
    uint32_t digest; /* of all its headers */
} tarn__stamp;

/* The three large parts. They are checked one page (4 KB) at a time, on first use. */
typedef enum tarn__part {
    TARN__PART_ROWS, /* of the .taridx */
    TARN__PART_ORDER,
    TARN__PART_CHECKSUMS,
    TARN__PARTS
} tarn__part;

enum { TARN__SUMS_PAGE = 4096 };

/* Where damaged pages are fetched again. */
typedef struct tarn__mender tarn__mender;
struct tarn__mender {
    /* Writes the bytes at an offset of the index or its sums again. TARN_END if those
     * that it fetches do not have the checksum. */
    tarn_status (*mend)(tarn__mender *mender, bool sums, uint64_t offset, size_t size,
                        uint32_t crc, tarn_error *err);
    void (*free)(tarn__mender *mender);
};

typedef struct tarn__sums {
    tarn_keys keys;
    uint64_t n_rows;
    uint32_t stride; /* rows per sample if the rows are regular; else 0 */
    size_t n_shards;
    tarn__stamp *stamps;
    tarn__names names; /* file names of the shards, in order */
    uint32_t *order;   /* NULL if it does not exist */
    uint32_t *checksums;
    uint64_t index_size;
    uint32_t index_head;           /* CRC-32C of the .taridx before its rows */
    uint32_t *pages;               /* CRC-32C of each page of each part, consecutively */
    const void *data[TARN__PARTS]; /* the data of the parts; rows are set by the index */
    atomic_uchar *checked;         /* pages already checked; NULL if built */
    char *path;                    /* NULL if built */
    tarn__contents contents;       /* of the file; empty if built */
    tarn__mender *mender;          /* belongs to the sums; NULL: none */
} tarn__sums;

tarn__sums *tarn__sums_new(void);
void tarn__sums_free(tarn__sums *sums);

/* "<fold>.tarsum" for "<fold>.taridx". The caller frees it. */
char *tarn__sums_path(const char *index_path);

/* ".<fold>.tarsum.next": the name of new sums until their index is in place. The caller
 * frees it. */
char *tarn__sums_waiting_path(const char *index_path);

/* Loads a .tarsum and checks everything except the pages. TARN_ERR_NO_FILE if there is
 * none. */
TARN_CHECKED tarn_status tarn__sums_load(const char *path, tarn__sums **out,
                                         tarn_error *err);

/* Everything before the key order: header, stamps, names and page CRCs. Whether the key
 * order and the checksums exist is taken from their pointers; their values are not
 * used. */
TARN_CHECKED tarn_status tarn__sums_head(const tarn__sums *sums, struct tarn__buf *out,
                                         tarn_error *err);

/* Writes everything to a file that the caller publishes. pages must be set. */
TARN_CHECKED tarn_status tarn__sums_write(const tarn__sums *sums, struct tarn__publish *p,
                                          tarn_error *err);

/* Bytes of an element of a part, and the number of its pages. */
size_t tarn__sums_element(tarn__part part);
uint64_t tarn__sums_page_count(const tarn__sums *sums, tarn__part part);

TARN_CHECKED tarn_status tarn__sums_check_page(tarn__sums *sums, tarn__part part,
                                               uint64_t page, tarn_error *err);

/* Call before using element number of a part (a row, or four bytes of the other two):
 * checks that its page is as it was written. Each page is checked once. */
TARN_CHECKED static inline tarn_status tarn__sums_check(tarn__sums *sums, tarn__part part,
                                                        uint64_t number, tarn_error *err)
{
    if (!sums || !sums->checked) return TARN_OK;
    return tarn__sums_check_page(sums, part, number >> (part == TARN__PART_ROWS ? 7 : 10),
                                 err);
}

/* Checks all pages of a part. */
TARN_CHECKED tarn_status tarn__sums_check_all(tarn__sums *sums, tarn__part part,
                                              tarn_error *err);

#endif
