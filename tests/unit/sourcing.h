/* What the tests of sources and filters share: all of a source at once, and all into a
 * sink.
 */
#ifndef TARN_TESTS_SOURCING_H
#define TARN_TESTS_SOURCING_H

#include "support.h"

extern tarn_error err;

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

void drop(bytes *b);
/* Text that compresses, but not to nothing. */
bytes make_text(size_t size);

/* Reads all in pieces of the given size; the failure's status if there is one. */
tarn_status slurp_with(const char *url, const tarn_source_options *options, size_t piece,
                       bytes *out);
tarn_status slurp(const char *url, bytes *out);
/* Whether it fails, whatever came before. */
tarn_status try_read(const char *url, const tarn_source_options *options);

void spill_with(const char *url, const tarn_sink_options *options, const void *data,
                size_t size);
/* Over what is there, not synced. */
void spill(const char *url, const void *data, size_t size);
/* Reads it in pieces of several sizes, and compares. */
void assert_reads(const char *url, const void *data, size_t size);

#endif
