/* The member behind a row. A row says where a header stands and what it should say; this
 * looks whether it does, so that an index that does not fit its shards gives an error and
 * never other bytes. */
#ifndef TARN_ITAR_LOCATE_H
#define TARN_ITAR_LOCATE_H

#include "io/filecache.h"
#include "itar/index.h"
#include "tar/keys.h"

typedef struct tarn__located {
    tarn_row row;
    const char *name; /* of the member, as in the archive; points into what follows */
    size_t name_len;
    tarn__key key; /* its sample's key and its field */
    unsigned char block[512];
    const unsigned char
        *before;        /* what stands in front of the block, if the caller has */
    size_t before_size; /* it: borrowed, and spares the check a read */
    tarn__buf text;
    tarn__splitter splitter;
} tarn__located;

/* What rows are looked up in. */
typedef struct tarn__place {
    tarn__filecache *files;
    const tarn_index *index;
    tarn__hash hash;
} tarn__place;

void tarn__located_init(tarn__located *located);
void tarn__located_reset(tarn__located *located);

/* Fetches row number and checks that it lies inside its shard. */
TARN_CHECKED tarn_status tarn__locate_row(const tarn__place *place, uint64_t number,
                                          tarn_row *out, tarn_error *err);

/* Checks the header block of the row in out, which the caller has put into out->block:
 * checksum, type, size, key and field. TARN_ERR_STALE if it is another member's. */
TARN_CHECKED tarn_status tarn__locate_check(const tarn__place *place, uint64_t number,
                                            tarn__located *out, tarn_error *err);

/* How many bytes in front of a row's header the check will look at: 0 if none, or if that
 * cannot be said without reading, or if there are more than TARN__LOCATE_BEFORE. */
size_t tarn__locate_before(const tarn__place *place, const tarn_row *row,
                           uint64_t number);
#define TARN__LOCATE_BEFORE 4096u

/* Both, reading the block from the shard. out can be used again and again. */
TARN_CHECKED tarn_status tarn__locate(const tarn__place *place, uint64_t number,
                                      tarn__located *out, tarn_error *err);

/* The key of a row whose member says all in its own header, by the index alone; header is
 * the member's, which is read as far as its name. False where that is not enough. */
bool tarn__locate_plain_key(const tarn__place *place, uint64_t number,
                            const tarn_row *row, const unsigned char *header,
                            tarn__key *out);

/* The same for a row that the above has said yes to before, and whose header is compared
 * no more than that of a payload is: one line of it is read instead of several far apart.
 */
bool tarn__locate_name_key(const tarn__place *place, const unsigned char *header,
                           tarn__key *out);

#endif
