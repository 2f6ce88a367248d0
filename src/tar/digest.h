/* The digest of a shard's headers. Archives with the same members differ only in when and
 * by whom they were written: the time and checksum fields of a header show that, because
 * the checksum covers all other fields. docs/formats/tarsum.md defines the digest. */
#ifndef TARN_TAR_DIGEST_H
#define TARN_TAR_DIGEST_H

#include "base/bytes.h"
#include "base/crc.h"
#include "tar/header.h"

static inline uint64_t tarn__digest_mix(uint64_t digest, uint64_t word)
{
    return ((digest << 5 | digest >> 59) ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t tarn__digest_header(uint64_t digest, const unsigned char *block)
{
    return tarn__digest_mix(tarn__digest_mix(digest, tarn__get64(block + 136)),
                            tarn__get64(block + 148));
}

/* An extended header; size bytes of records follow the block. */
static inline uint64_t tarn__digest_extended(uint64_t digest, const unsigned char *block,
                                             size_t size)
{
    return tarn__digest_mix(tarn__digest_header(digest, block),
                            tarn__crc32c(0, block + TARN__BLOCK, size));
}

#endif
