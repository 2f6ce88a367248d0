/* S3 and compatible stores: s3:// URLs as sources and sinks (s3.c, s3_output.c). */
#ifndef TARN_IO_S3_H
#define TARN_IO_S3_H

#include "io/aws.h"

enum { TARN__SHA256_HEX = 65 };

void tarn__sha256_hex(char out[TARN__SHA256_HEX], const void *data, size_t len);

#endif
