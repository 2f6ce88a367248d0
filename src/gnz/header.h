/* The header of an array file: parsing with every check, and writing in the form that
 * glzn writes. Does not read or write values. */
#ifndef TARN_GNZ_HEADER_H
#define TARN_GNZ_HEADER_H

#include <tarn/gnz.h>

#include "base/buf.h"
#include "base/names.h"
#include "io/file.h"

enum { TARN__GNZ_PREFIX = 8 }; /* magic and length, before the JSON */

typedef struct tarn__gnz_entry {
    const char *name; /* NUL-terminated, no NUL inside */
    size_t name_size;
    tarn_dtype dtype;
    unsigned ndim;
    const uint64_t *shape;
    uint64_t row_bytes; /* bytes of one row; of the array if it has no dimensions */
    uint64_t rows;      /* shape[0] or 1 */
    uint64_t reserved;  /* rows for which the file has space */
    uint64_t offset;
    bool fortran;
    bool has_checksum;
    uint32_t checksum;
} tarn__gnz_entry;

static inline uint64_t tarn__gnz_bytes(const tarn__gnz_entry *e)
{
    return e->rows * e->row_bytes;
}

/* Bytes of the array including reserved rows. */
static inline uint64_t tarn__gnz_extent(const tarn__gnz_entry *e)
{
    return e->reserved * e->row_bytes;
}

typedef struct tarn__gnz_header {
    tarn__names names; /* the number of a name is the number of its array */
    tarn__gnz_entry *entries;
    size_t count;
    uint64_t *dims;     /* all shapes, consecutively */
    tarn__buf metadata; /* JSON text, NUL-terminated, without the reserved key */
    uint64_t length;    /* bytes of JSON */
    uint64_t space;     /* bytes before the first array */
    bool extra;         /* has keys that this library would not write back */
    bool has_sum;       /* the reserved key holds a checksum of the header */
    uint32_t sum;       /* that checksum; see tarn__gnz_compose */
} tarn__gnz_header;

/* Checks everything that the header and the size of the file determine. text is the JSON.
 * Errors have an offset in the file but no path. The header is empty after a failure. */
TARN_CHECKED tarn_status tarn__gnz_parse(tarn__gnz_header *header, const char *text,
                                         size_t len, uint64_t file_size, tarn_error *err);

/* Reads the prefix and the JSON from a file and parses them. */
TARN_CHECKED tarn_status tarn__gnz_load(tarn__gnz_header *header, const tarn__file *file,
                                        tarn_error *err);
void tarn__gnz_header_reset(tarn__gnz_header *header);

/* Sets row_bytes and rows from type and shape, and reserved if it is 0. Fails if the
 * array needs more than 2^63 bytes. */
TARN_CHECKED tarn_status tarn__gnz_entry_measure(tarn__gnz_entry *entry, tarn_error *err);

/* Describes the values at data, which are in the order of the file, as an array. */
void tarn__gnz_entry_array(const tarn__gnz_entry *entry, void *data, tarn_array *out);

/* --- Writing ----------------------------------------------------------------------- */

typedef struct tarn__gnz_plan {
    tarn__gnz_entry **entries; /* in the order of their offsets */
    size_t count;
    const char *metadata; /* the text of a JSON object */
    size_t metadata_len;
    bool has_sum; /* store a checksum of the header */
    uint32_t sum; /* that checksum */
} tarn__gnz_plan;

/* Appends magic, length and JSON. With widest, growing arrays are written with all their
 * reserved rows, so that no later header is longer. */
TARN_CHECKED tarn_status tarn__gnz_compose(const tarn__gnz_plan *plan, bool widest,
                                           tarn__buf *out, tarn_error *err);

/* The checksum of a header: that of its JSON with 0 as the checksum. */
TARN_CHECKED tarn_status tarn__gnz_header_sum(const tarn__gnz_plan *plan, uint32_t *out,
                                              tarn_error *err);

/* Sets the offset of each array, as low as the header allows but not below min_pages, and
 * computes the size of the file. */
TARN_CHECKED tarn_status tarn__gnz_layout(const tarn__gnz_plan *plan, uint64_t min_pages,
                                          uint64_t *out_size, tarn_error *err);

/* Appends one JSON object as Python would write it with sorted keys. TARN_ERR_USAGE if
 * the outermost object has the reserved key. */
TARN_CHECKED tarn_status tarn__gnz_metadata_take(const char *json, size_t len,
                                                 tarn__buf *out, tarn_error *err);

#endif
