/* UTF-8 as the index format needs it: malformed bytes replaced and text lower-cased in
 * exactly the way Python does both, since stems and field names were defined by it. */
#ifndef TARN_BASE_UTF8_H
#define TARN_BASE_UTF8_H

#include "base/buf.h"

/* Length (1 to 4) of the well-formed sequence at s, or 0. */
size_t tarn__utf8_valid_length(const char *s, size_t len);

bool tarn__utf8_is_valid(const char *s, size_t len);

/* The code point of the well-formed sequence at s, and its length. */
uint32_t tarn__utf8_decode(const char *s, size_t *out_len);

/* Writes a code point; for a surrogate, the bytes UTF-8 would have for it if it allowed
 * surrogates. Returns the length. */
size_t tarn__utf8_encode(uint32_t code, char out[4]);

/* Appends s to out with one U+FFFD for each maximal malformed part. */
TARN_CHECKED tarn_status tarn__utf8_clean(tarn__buf *out, const char *s, size_t len,
                                          tarn_error *err);

/* Appends the lower case of s, which must be well formed, to out. */
TARN_CHECKED tarn_status tarn__utf8_lower(tarn__buf *out, const char *s, size_t len,
                                          tarn_error *err);

#endif
