/* The records of a pax extended header. */
#ifndef TARN_TAR_PAX_H
#define TARN_TAR_PAX_H

#include <tarn/base.h>

typedef struct tarn__pax {
    const char *path; /* points into the records; NULL if there is none */
    size_t path_len;
    bool has_size;
    uint64_t size;
    bool has_mtime;
    int64_t mtime;
    uint32_t mtime_ns;
} tarn__pax;

/* Parses all records and keeps those that matter here, the last of each key. A record
 * that is malformed, or that says the member is sparse, is refused. */
TARN_CHECKED tarn_status tarn__pax_parse(const char *records, size_t len, tarn__pax *out,
                                         tarn_error *err);

#endif
