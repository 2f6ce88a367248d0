/* The records of a pax extended header. */
#ifndef TARN_TAR_PAX_H
#define TARN_TAR_PAX_H

#include <tarn/base.h>

typedef struct tarn__pax {
    const char *path; /* points into the records; NULL if missing */
    size_t path_len;
    bool has_size;
    uint64_t size;
    bool has_mtime;
    int64_t mtime;
    uint32_t mtime_ns;
} tarn__pax;

/* Parses all records and keeps those that the reader uses, the last one of each key.
 * Malformed records, and records of sparse members, are rejected. */
TARN_CHECKED tarn_status tarn__pax_parse(const char *records, size_t len, tarn__pax *out,
                                         tarn_error *err);

#endif
