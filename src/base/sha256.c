/* The hash is nettle's. */
#include "base/sha256.h"

#include <nettle/sha2.h>

void tarn__to_hex(char *out, const unsigned char *data, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        *out++ = hex[data[i] >> 4];
        *out++ = hex[data[i] & 15];
    }
    *out = '\0';
}

void tarn__sha256_hex(char out[TARN__SHA256_HEX], const void *data, size_t len)
{
    unsigned char hash[TARN__SHA256];
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, len, data);
    sha256_digest(&sha, sizeof hash, hash);
    tarn__to_hex(out, hash, sizeof hash);
}
