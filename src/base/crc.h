/* CRC-32C (Castagnoli), with the usual inversion before and after. */
#ifndef TARN_BASE_CRC_H
#define TARN_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continues crc over data; start with 0. */
uint32_t tarn__crc32c(uint32_t crc, const void *data, size_t len);

/* CRC-32 as in zlib; start with 0. */
uint32_t tarn__crc32(uint32_t crc, const void *data, size_t len);

#endif
