/* Distinguishes URLs from paths, encodes and decodes percent escapes, and removes secrets
 * from URLs that are shown. */
#ifndef TARN_IO_URL_H
#define TARN_IO_URL_H

#include "base/buf.h"

#define TARN__MAX_URL (64u << 10) /* bytes in one URL */

/* The length of the scheme, without the colon; 0 for a path. Anything before "://" is a
 * scheme; before a single colon only "file" and "pipe" are, because paths may contain
 * colons. */
size_t tarn__url_scheme(const char *url);
bool tarn__url_scheme_is(const char *url, const char *scheme);

/* The URL without possible secrets: user and password, the query, a command's arguments.
 * Control characters become \xNN. NULL if out of memory. */
char *tarn__url_shown(const char *url);

/* Replaces %XX. A % without two hex digits, and %00, are errors. */
TARN_CHECKED tarn_status tarn__url_decode(tarn__buf *out, const char *text, size_t len,
                                          tarn_error *err);

/* Appends text with everything but letters, digits and "-._~" as %XX; keep_slashes leaves
 * slashes unchanged. Signatures are computed over this encoding. */
TARN_CHECKED tarn_status tarn__url_encode(tarn__buf *out, const char *text, size_t len,
                                          bool keep_slashes, tarn_error *err);

/* The local path that a file: URL means, NUL-terminated in out. */
TARN_CHECKED tarn_status tarn__url_file_path(tarn__buf *out, const char *url,
                                             tarn_error *err);

/* The length of the part of a URL whose suffix counts: without query and fragment for
 * schemes that have them. */
size_t tarn__url_name_length(const char *url);

#endif
