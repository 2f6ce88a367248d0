/* S3 and compatible stores: credentials and endpoint (s3_config.c), signatures
 * (s3_sign.c), and s3:// URLs as sources and sinks (s3.c, s3_output.c). */
#ifndef TARN_IO_S3_H
#define TARN_IO_S3_H

#include "base/buf.h"
#include "io/http.h"

/* One block, so free() releases all of it. */
typedef struct tarn__s3_signer {
    char access[256], secret[256], token[8192]; /* access "": anonymous */
    char region[64];
    char host[512];
} tarn__s3_signer;

typedef struct tarn__s3_config {
    tarn__s3_signer signer;
    char endpoint[1024]; /* scheme://host[:port], "" for Amazon's own */
} tarn__s3_config;

/* From the environment and the configuration files that other tools use. */
TARN_CHECKED tarn_status tarn__s3_config_load(tarn__s3_config *config, tarn_error *err);

/* The location of an object. */
typedef struct tarn__s3_object {
    tarn__s3_signer *signer;
    char *url; /* as used in requests, without a query */
} tarn__s3_object;

TARN_CHECKED tarn_status tarn__s3_object_init(tarn__s3_object *object, const char *s3_url,
                                              tarn_error *err);
void tarn__s3_object_reset(tarn__s3_object *object);

enum { TARN__SHA256_HEX = 65 };

void tarn__sha256_hex(char out[TARN__SHA256_HEX], const void *data, size_t len);

/* Adds an AWS signature version 4 to the request as headers; a tarn__http_sign. */
tarn__http_sign tarn__s3_sign;

/* The same for a given time, for tests. */
TARN_CHECKED tarn_status tarn__s3_sign_at(const tarn__s3_signer *signer,
                                          const tarn__http_request *request, int64_t time,
                                          tarn__http *http, tarn_error *err);

#endif
