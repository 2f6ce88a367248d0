/* A hash of a source's index, which identifies its data. Copies of a file in different
 * places have the same hash. */
#ifndef TARN_DATASET_DIGEST_H
#define TARN_DATASET_DIGEST_H

/* With -O3, GCC warns of a pointer that XXH64_update computes, but does not use, for
 * short inputs. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

#include "base/buf.h"
#include "base/names.h"

static inline void tarn__digest_text(XXH64_state_t *hash, const char *text, size_t size)
{
    uint64_t length = size; /* so that "ab", "c" differs from "a", "bc" */
    XXH64_update(hash, &length, sizeof length);
    XXH64_update(hash, text, size);
}

static inline void tarn__digest_number(XXH64_state_t *hash, uint64_t number)
{
    XXH64_update(hash, &number, sizeof number);
}

/* "fold 120:9f3c5d..." */
TARN_CHECKED static inline tarn_status tarn__digest_end(XXH64_state_t *hash,
                                                        const char *kind,
                                                        uint64_t samples, tarn__buf *out,
                                                        tarn_error *err)
{
    return tarn__buf_printf(out, err, "%s %llu:%016llx", kind,
                            (unsigned long long)samples,
                            (unsigned long long)XXH64_digest(hash));
}

#endif
