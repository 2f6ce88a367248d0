/* The random number generators of other programs, bit for bit, to reproduce their orders:
 * Python's random.Random(int).getrandbits, and NumPy's default_rng(int) as used for
 * choice. Not for cryptography. */
#ifndef TARN_BASE_RANDOM_H
#define TARN_BASE_RANDOM_H

#include <tarn/base.h>

/* --- Python's: MT19937 ------------------------------------------------------------- */

typedef struct tarn__mt {
    uint32_t state[624];
    unsigned next;
} tarn__mt;

/* Random(seed), given the seed's magnitude in 32-bit words, least significant first; the
 * highest must not be 0 unless it is the only one. Python drops the sign. */
void tarn__mt_seed(tarn__mt *mt, const uint32_t *words, size_t count);

/* The same for an integer. */
void tarn__mt_seed_int(tarn__mt *mt, unsigned __int128 magnitude);

uint32_t tarn__mt_next(tarn__mt *mt);

/* getrandbits(bits), for at most 64 bits; 0 bits give 0 and draw nothing. */
uint64_t tarn__mt_bits(tarn__mt *mt, unsigned bits);

/* --- NumPy's: SeedSequence and PCG64 ----------------------------------------------- */

/* SeedSequence(entropy).generate_state(count, uint64), with entropy in 32-bit words,
 * least significant first, at least one. */
void tarn__seed_sequence(const uint32_t *entropy, size_t words, uint64_t *out,
                         size_t count);

typedef struct tarn__pcg64 {
    unsigned __int128 state, increment;
    uint32_t half; /* the upper half of the last output if only the lower was used */
    bool has_half;
} tarn__pcg64;

/* default_rng(seed). */
void tarn__pcg64_seed(tarn__pcg64 *rng, uint64_t seed);
uint64_t tarn__pcg64_next(tarn__pcg64 *rng);
uint32_t tarn__pcg64_next32(tarn__pcg64 *rng);

/* A number from 0 to last, drawn as integers() and choice() do. */
uint64_t tarn__pcg64_upto(tarn__pcg64 *rng, uint64_t last);

/* rng.choice(population, count, replace): writes count numbers below population to out.
 * TARN_ERR_USAGE where NumPy raises: more than population without replacement, or any
 * number of an empty population. */
TARN_CHECKED tarn_status tarn__pcg64_choice(tarn__pcg64 *rng, uint64_t population,
                                            uint64_t count, bool replace, uint64_t *out,
                                            tarn_error *err);

#endif
