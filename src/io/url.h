/* Telling URLs from paths, taking percent signs out and putting them in, and what of a
 * URL may be shown. */
#ifndef TARN_IO_URL_H
#define TARN_IO_URL_H

#include "base/buf.h"

#define TARN__MAX_URL (64u << 10) /* bytes in one URL */

/* The length of the scheme, without the colon; 0 for a path. Anything before "://" is a
 * scheme; before a lone colon only "file" and "pipe" are, because paths have colons. */
size_t tarn__url_scheme(const char *url);
bool tarn__url_scheme_is(const char *url, const char *scheme);

/* The URL without what may be secret: user and password, the query, a command's
 * arguments. Control characters become \xNN. NULL when memory is out. */
char *tarn__url_shown(const char *url);

/* Replaces %XX. Text that has a % without two hex digits, or %00, is refused. */
TARN_CHECKED tarn_status tarn__url_decode(tarn__buf *out, const char *text, size_t len,
                                          tarn_error *err);

/* Adds text with everything but letters, digits and "-._~" as %XX; slashes as they are
 * if so asked. This is the encoding that signatures are made over. */
TARN_CHECKED tarn_status tarn__url_encode(tarn__buf *out, const char *text, size_t len,
                                          bool keep_slashes, tarn_error *err);

/* The local path that a file: URL means, NUL-terminated in out. */
TARN_CHECKED tarn_status tarn__url_file_path(tarn__buf *out, const char *url,
                                             tarn_error *err);

/* The URL's last name for its suffix: without query and fragment where it has a scheme
 * that knows them. */
size_t tarn__url_name_length(const char *url);

#endif
