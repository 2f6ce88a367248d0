/* SHA-256 as text. */
#ifndef TARN_BASE_SHA256_H
#define TARN_BASE_SHA256_H

#include <stddef.h>

enum { TARN__SHA256 = 32, TARN__SHA256_HEX = 2 * TARN__SHA256 + 1 };

/* len bytes as 2 * len hexadecimal digits and a NUL. */
void tarn__to_hex(char *out, const unsigned char *data, size_t len);

void tarn__sha256_hex(char out[TARN__SHA256_HEX], const void *data, size_t len);

#endif
