/* Finds the member of a row. A row gives the position of a header and what the header
 * should contain. This checks the header, so that an index that does not match its shards
 * gives an error and never wrong bytes. */
#ifndef TARN_ITAR_LOCATE_H
#define TARN_ITAR_LOCATE_H

#include "io/filecache.h"
#include "itar/index.h"
#include "tar/keys.h"

typedef struct tarn__located {
    tarn_row row;
    const char *name; /* of the member, as in the archive; points into data below */
    size_t name_len;
    tarn__key key; /* the sample's key and the field */
    unsigned char block[512];
    const unsigned char *before; /* the bytes before the block, if the caller has */
    size_t before_size;          /* them: borrowed, saves the check a read */
    tarn__buf text;
    tarn__splitter splitter;
} tarn__located;

/* The data that rows are looked up in. */
typedef struct tarn__place {
    tarn__filecache *files;
    const tarn_index *index;
    tarn__hash hash;
    bool remote; /* sizes in the index are believed: asking costs a request */
} tarn__place;

void tarn__located_init(tarn__located *located);
void tarn__located_reset(tarn__located *located);

/* Reads row number and checks that it is inside its shard. */
TARN_CHECKED tarn_status tarn__locate_row(const tarn__place *place, uint64_t number,
                                          tarn_row *out, tarn_error *err);

/* Checks the header block of the row in out, which the caller has copied to out->block:
 * checksum, type, size, key and field. TARN_ERR_STALE if it belongs to another member. */
TARN_CHECKED tarn_status tarn__locate_check(const tarn__place *place, uint64_t number,
                                            tarn__located *out, tarn_error *err);

/* How many bytes before a row's header the check will read: 0 if none, if that is unknown
 * without reading, or if there are more than TARN__LOCATE_BEFORE. */
size_t tarn__locate_before(const tarn__place *place, const tarn_row *row,
                           uint64_t number);
#define TARN__LOCATE_BEFORE 4096u

/* Both steps, reading the block from the shard. out can be reused. */
TARN_CHECKED tarn_status tarn__locate(const tarn__place *place, uint64_t number,
                                      tarn__located *out, tarn_error *err);

/* The key of a row whose member is fully described by its own header, using only the
 * index. header is the member's header, of which only the bytes up to the name are read.
 * False if that is not enough. */
bool tarn__locate_plain_key(const tarn__place *place, uint64_t number,
                            const tarn_row *row, const unsigned char *header,
                            tarn__key *out);

/* Like tarn__locate_plain_key, for a row for which that returned true before. Like the
 * header of a payload, this header is not compared again: only one cache line of it is
 * read, instead of several far apart. */
bool tarn__locate_name_key(const tarn__place *place, const unsigned char *header,
                           tarn__key *out);

#endif
