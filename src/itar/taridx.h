/* Offsets in the 64-byte header of a .taridx, version 1.0. */
#ifndef TARN_ITAR_TARIDX_H
#define TARN_ITAR_TARIDX_H

#define TARIDX_MAGIC "TARIDX\0"

enum {
    TARIDX_MAJOR = 8,
    TARIDX_MINOR = 10,
    TARIDX_REC_SIZE = 12,
    TARIDX_HDR_SIZE = 14,
    TARIDX_N_STEMS = 16,
    TARIDX_N_ROWS = 24,
    TARIDX_N_EXT = 32,
    TARIDX_N_CRASH = 36,
    TARIDX_OFF_CRASH = 40,
    TARIDX_OFF_ARR = 48,
    TARIDX_FLAGS = 56, /* one byte; the seven after it are reserved, zero */
    TARIDX_HEADER_SIZE = 64,
    TARIDX_CONTIGUOUS = 1
};

#endif
