/* What is asked of Zstandard data before libzstd sees them. */
#ifndef TARN_BASE_ZSTD_H
#define TARN_BASE_ZSTD_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a frame begins here, or one to be skipped; of fewer than four bytes, whether
 * they could be the first of one. Formats from before 0.8, which libzstd may still read,
 * know no limit of their windows, and nobody writes them. */
bool tarn__zstd_begins(const void *data, size_t size);

/* The largest window that so many bytes of data may want, as a power of two. Windows are
 * asked for by a few bytes, and are memory at once: small data, which any file may have,
 * get half of what such a file may cost, other data what the zstd program takes without
 * being asked. */
int tarn__zstd_window(size_t size);

#endif
