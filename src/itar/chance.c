/* Random numbers derived from keys and seeds. */
#include "itar/chance.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/bytes.h"
#include "base/error.h"
#include "tar/keys.h"

uint64_t tarn__chance(uint64_t key_hash, tarn__chance_use use, uint64_t seed)
{
    static const uint64_t salts[] = {UINT64_C(0x736875666c65), UINT64_C(0x73706c6974)};
    unsigned char bytes[8];
    tarn__put64(bytes, key_hash);
    return XXH64(bytes, sizeof bytes, seed ^ salts[use]);
}

tarn_status tarn__check_fractions(const double *fractions, size_t count, tarn_error *err)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(fractions[i] >= 0 && fractions[i] <= 1))
            return tarn__fail(err, TARN_ERR_USAGE, "%g is not a fraction of the samples",
                              fractions[i]);
        sum += fractions[i];
    }
    if (sum <= 1 + 1e-9) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "the fractions add up to %g", sum);
}

unsigned tarn__part_of(const char *key, const double *fractions, size_t count,
                       uint64_t seed)
{
    const double steps = 9007199254740992.0; /* 2^53 */
    uint64_t hash = tarn__key_hash(key, strlen(key));
    double at = (double)(tarn__chance(hash, TARN__CHANCE_SPLIT, seed) >> 11) / steps;
    for (size_t k = 0; k < count; k++) {
        if (at < fractions[k]) return (unsigned)k + 1;
        at -= fractions[k];
    }
    return 0;
}
