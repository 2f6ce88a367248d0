/* The objects of a store whose URLs begin with a prefix. */
#ifndef TARN_IO_LISTING_H
#define TARN_IO_LISTING_H

#include "io/object.h"

#define TARN__MAX_LISTED (4u << 20) /* objects in one listing */

typedef struct tarn__listed {
    const char *url;  /* complete: "s3://bucket/birds/train-000000.tar" */
    const char *etag; /* as the store sends it with the object; "" if unknown */
    uint64_t size;
} tarn__listed;

typedef struct tarn__listing {
    tarn__listed *objects; /* sorted by the bytes of their URLs */
    size_t count;
    char *texts; /* private */
} tarn__listing;

/* Whether the store of a URL has a listing. */
bool tarn__has_listing(const char *url);

/* What follows the bucket, the container, or the repository with its revision: the part
 * of the URL that names begin with. */
const char *tarn__listing_names(const char *url);

/* Lists the objects whose URLs begin with prefix ("s3://bucket/birds/",
 * "s3://bucket/birds/train-"); without deep, only those with no slash after the prefix.
 * No such objects: count is 0. TARN_ERR_NO_FILE if the bucket or container does not
 * exist. TARN_ERR_UNSUPPORTED for http and https, which have no listing.
 *
 * A name that no URL of the store can mean (with a NUL or invalid UTF-8) is an error.
 * Names that end with a slash, which some tools create as folders, are left out. */
TARN_CHECKED tarn_status tarn__listing_read(tarn__listing *out, const char *prefix,
                                            bool deep, tarn_error *err);

/* Reads one answer of the store of prefix, for tests. */
TARN_CHECKED tarn_status tarn__listing_parse(tarn__listing *out, const char *prefix,
                                             const char *page, size_t len,
                                             tarn_error *err);
void tarn__listing_reset(tarn__listing *listing);

#endif
