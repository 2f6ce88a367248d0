/* UTF-8 as the index format needs it: malformed bytes are replaced and text is
 * lower-cased exactly as Python does it, because Python's behaviour defines stems and
 * field names. */
#ifndef TARN_BASE_UTF8_H
#define TARN_BASE_UTF8_H

#include "base/buf.h"

/* Length (1 to 4) of the well-formed sequence at s, or 0. */
size_t tarn__utf8_valid_length(const char *s, size_t len);

bool tarn__utf8_is_valid(const char *s, size_t len);

/* The code point of the well-formed sequence at s, and its length. */
uint32_t tarn__utf8_decode(const char *s, size_t *out_len);

/* Writes a code point; a surrogate gets the bytes that UTF-8 would have for it if it
 * allowed surrogates. Returns the length. */
size_t tarn__utf8_encode(uint32_t code, char out[4]);

/* Appends s to out, replacing each maximal malformed part by one U+FFFD. */
TARN_CHECKED tarn_status tarn__utf8_clean(tarn__buf *out, const char *s, size_t len,
                                          tarn_error *err);

/* Appends s, which must be well formed, to out in lower case. */
TARN_CHECKED tarn_status tarn__utf8_lower(tarn__buf *out, const char *s, size_t len,
                                          tarn_error *err);

#endif
