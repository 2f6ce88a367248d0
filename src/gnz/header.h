/* The header of an array file: what it says, read with every check, and written as the
 * reference writes it. Knows nothing about how values are read or written. */
#ifndef TARN_GNZ_HEADER_H
#define TARN_GNZ_HEADER_H

#include <tarn/gnz.h>

#include "base/buf.h"
#include "base/names.h"

enum { TARN__GNZ_PREFIX = 8 }; /* magic and length, before the JSON */

typedef struct tarn__gnz_entry {
    const char *name; /* NUL-terminated, no NUL inside */
    size_t name_size;
    tarn_dtype dtype;
    unsigned ndim;
    const uint64_t *shape;
    uint64_t row_bytes; /* bytes of one row; of the array if it has no dimensions */
    uint64_t rows;      /* shape[0] or 1 */
    uint64_t reserved;  /* rows there is room for */
    uint64_t offset;
    bool fortran;
    bool has_checksum;
    uint32_t checksum;
} tarn__gnz_entry;

static inline uint64_t tarn__gnz_bytes(const tarn__gnz_entry *e)
{
    return e->rows * e->row_bytes;
}

/* With the rows that are reserved. */
static inline uint64_t tarn__gnz_extent(const tarn__gnz_entry *e)
{
    return e->reserved * e->row_bytes;
}

typedef struct tarn__gnz_header {
    tarn__names names; /* an array's number is its name's */
    tarn__gnz_entry *entries;
    size_t count;
    uint64_t *dims;     /* all shapes, one behind the other */
    tarn__buf metadata; /* JSON text, NUL-terminated, without the reserved key */
    uint64_t length;    /* of the JSON */
    uint64_t space;     /* bytes before the first array */
    bool extra;         /* it says things that this library would not write back */
    bool has_sum;       /* the reserved key has a checksum of the header, */
    uint32_t sum;       /* this one: see tarn__gnz_compose */
} tarn__gnz_header;

/* Checks all that can be known from the header and the file's size. text is the JSON. An
 * error has its place in the file, not the path. After a failure the header is empty. */
TARN_CHECKED tarn_status tarn__gnz_parse(tarn__gnz_header *header, const char *text,
                                         size_t len, uint64_t file_size, tarn_error *err);

/* Reads the prefix and the JSON from fd, and parses it. */
TARN_CHECKED tarn_status tarn__gnz_load(tarn__gnz_header *header, int fd,
                                        const char *path, uint64_t file_size,
                                        tarn_error *err);
void tarn__gnz_header_reset(tarn__gnz_header *header);

/* Fills in row_bytes and rows from type and shape; reserved too if it is 0. Fails if the
 * whole does not fit 2^63 bytes. */
TARN_CHECKED tarn_status tarn__gnz_entry_measure(tarn__gnz_entry *entry, tarn_error *err);

/* An array over the entry's values at data, in the file's order. */
void tarn__gnz_entry_array(const tarn__gnz_entry *entry, void *data, tarn_array *out);

/* --- Writing ----------------------------------------------------------------------- */

typedef struct tarn__gnz_plan {
    tarn__gnz_entry **entries; /* in the order of their place in the file */
    size_t count;
    const char *metadata; /* one JSON object as text */
    size_t metadata_len;
    bool has_sum; /* note a checksum of the header */
    uint32_t sum; /* which it is */
} tarn__gnz_plan;

/* Appends magic, length and JSON. With widest, growing arrays are written with all rows
 * that are reserved: no header of a later time is longer. */
TARN_CHECKED tarn_status tarn__gnz_compose(const tarn__gnz_plan *plan, bool widest,
                                           tarn__buf *out, tarn_error *err);

/* The checksum of a header: that of the JSON with 0 in its place. */
TARN_CHECKED tarn_status tarn__gnz_header_sum(const tarn__gnz_plan *plan, uint32_t *out,
                                              tarn_error *err);

/* Gives each array its offset, as low as the header lets it be and not below min_pages,
 * and finds the size of the file. */
TARN_CHECKED tarn_status tarn__gnz_layout(const tarn__gnz_plan *plan, uint64_t min_pages,
                                          uint64_t *out_size, tarn_error *err);

/* One JSON object, as Python would write it with sorted keys, without its outermost
 * braces' reserved key: TARN_ERR_USAGE if it has that. */
TARN_CHECKED tarn_status tarn__gnz_metadata_take(const char *json, size_t len,
                                                 tarn__buf *out, tarn_error *err);

#endif
