/* Shared by the tests of sources and filters: reading a whole source, and writing a whole
 * sink. */
#ifndef TARN_TESTS_SOURCING_H
#define TARN_TESTS_SOURCING_H

#include "support.h"

extern tarn_error err;

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

void drop(bytes *b);
/* Text that compresses, but not too well. */
bytes make_text(size_t size);

/* Reads all in pieces of the given size; returns the status of a failure. */
tarn_status slurp_with(const char *url, const tarn_source_options *options, size_t piece,
                       bytes *out);
tarn_status slurp(const char *url, bytes *out);
/* Whether it fails at some point. */
tarn_status try_read(const char *url, const tarn_source_options *options);

void spill_with(const char *url, const tarn_sink_options *options, const void *data,
                size_t size);
/* Overwrites, not synced. */
void spill(const char *url, const void *data, size_t size);
/* Reads it in pieces of several sizes, and compares. */
void assert_reads(const char *url, const void *data, size_t size);

#endif
