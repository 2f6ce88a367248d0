/* CRC-32C and CRC-32 by ISA-L, which uses carry-less multiplication where the processor
 * has it. */
#include "base/crc.h"

#include <isa-l/crc.h>

uint32_t tarn__crc32c(uint32_t crc, const void *data, size_t len)
{
    /* ISA-L takes the length as an int and leaves the inversion to the caller. */
    const size_t piece = 1u << 30;
    unsigned char *at = (unsigned char *)(uintptr_t)data;
    crc = ~crc;
    while (len > piece) {
        crc = crc32_iscsi(at, (int)piece, crc);
        at += piece;
        len -= piece;
    }
    return ~crc32_iscsi(at, (int)len, crc);
}

uint32_t tarn__crc32(uint32_t crc, const void *data, size_t len)
{
    return crc32_gzip_refl(crc, data, len);
}
