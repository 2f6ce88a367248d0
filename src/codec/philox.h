/* Philox 4x64 with ten rounds (Salmon and others, 2011): random words as a pure function
 * of a key and a counter, independent of the order of calls and of threads. NumPy has it
 * as numpy.random.Philox. */
#ifndef TARN_CODEC_PHILOX_H
#define TARN_CODEC_PHILOX_H

#include <stdint.h>

static inline void tarn__philox(const uint64_t key[2], const uint64_t counter[4],
                                uint64_t out[4])
{
    uint64_t k0 = key[0], k1 = key[1];
    uint64_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    for (int round = 0; round < 10; round++) {
        unsigned __int128 left = (unsigned __int128)a * UINT64_C(0xD2E7470EE14C6C93);
        unsigned __int128 right = (unsigned __int128)c * UINT64_C(0xCA5A826395121157);
        a = (uint64_t)(right >> 64) ^ b ^ k0;
        b = (uint64_t)right;
        c = (uint64_t)(left >> 64) ^ d ^ k1;
        d = (uint64_t)left;
        k0 += UINT64_C(0x9E3779B97F4A7C15);
        k1 += UINT64_C(0xBB67AE8584CAA73B);
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

#endif
