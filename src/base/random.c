/* The Mersenne Twister as CPython seeds and reads it, and PCG XSL RR 128/64 as in
 * NumPy. */
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* --- MT19937 ----------------------------------------------------------------------- */

enum { MT_SIZE = 624, MT_SHIFT = 397 };

static uint32_t scramble(const uint32_t *s, size_t i, uint32_t factor)
{
    return s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * factor);
}

/* After the last word, wraps around: the last word is copied to the first. */
static size_t mt_step(uint32_t *s, size_t i)
{
    if (i + 1 < MT_SIZE) return i + 1;
    s[0] = s[MT_SIZE - 1];
    return 1;
}

void tarn__mt_seed(tarn__mt *mt, const uint32_t *words, size_t count)
{
    uint32_t *s = mt->state;
    size_t i = 1, j = 0;
    s[0] = 19650218u;
    for (uint32_t k = 1; k < MT_SIZE; k++)
        s[k] = (s[k - 1] ^ (s[k - 1] >> 30)) * 1812433253u + k;
    for (size_t k = count > MT_SIZE ? count : MT_SIZE; k > 0; k--) {
        s[i] = scramble(s, i, 1664525u) + words[j] + (uint32_t)j;
        i = mt_step(s, i);
        j = j + 1 < count ? j + 1 : 0;
    }
    for (size_t k = MT_SIZE - 1; k > 0; k--) {
        s[i] = scramble(s, i, 1566083941u) - (uint32_t)i;
        i = mt_step(s, i);
    }
    s[0] = 0x80000000u;
    mt->next = MT_SIZE;
}

void tarn__mt_seed_int(tarn__mt *mt, unsigned __int128 magnitude)
{
    uint32_t words[4];
    size_t count = 0;
    do {
        words[count++] = (uint32_t)magnitude;
        magnitude >>= 32;
    } while (magnitude);
    tarn__mt_seed(mt, words, count);
}

static void twist(uint32_t *s)
{
    for (size_t i = 0; i < MT_SIZE; i++) {
        size_t one = i + 1 < MT_SIZE ? i + 1 : 0;
        size_t far = i + MT_SHIFT < MT_SIZE ? i + MT_SHIFT : i + MT_SHIFT - MT_SIZE;
        uint32_t y = (s[i] & 0x80000000u) | (s[one] & 0x7fffffffu);
        s[i] = s[far] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
}

uint32_t tarn__mt_next(tarn__mt *mt)
{
    if (mt->next == MT_SIZE) {
        twist(mt->state);
        mt->next = 0;
    }
    uint32_t y = mt->state[mt->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t tarn__mt_bits(tarn__mt *mt, unsigned bits)
{
    if (bits == 0) return 0;
    if (bits <= 32) return tarn__mt_next(mt) >> (32 - bits);
    uint64_t low = tarn__mt_next(mt);
    return low | (uint64_t)(tarn__mt_next(mt) >> (64 - bits)) << 32;
}

/* --- SeedSequence ------------------------------------------------------------------ */

enum { POOL = 4 };

#define INIT_A 0x43b0d7e5u
#define MULT_A 0x931e8875u
#define INIT_B 0x8b51f9ddu
#define MULT_B 0x58f38dedu
#define MIX_L  0xca01f9ddu
#define MIX_R  0x4973f715u

/* Hashes one word; each call advances the constant. */
static uint32_t hash_word(uint32_t value, uint32_t *constant, uint32_t factor)
{
    value ^= *constant;
    *constant *= factor;
    value *= *constant;
    return value ^ (value >> 16);
}

static uint32_t mix_words(uint32_t x, uint32_t y)
{
    uint32_t mixed = MIX_L * x - MIX_R * y;
    return mixed ^ (mixed >> 16);
}

void tarn__seed_sequence(const uint32_t *entropy, size_t words, uint64_t *out,
                         size_t count)
{
    uint32_t pool[POOL], a = INIT_A, b = INIT_B;
    for (size_t i = 0; i < POOL; i++)
        pool[i] = hash_word(i < words ? entropy[i] : 0, &a, MULT_A);
    for (size_t from = 0; from < POOL; from++)
        for (size_t to = 0; to < POOL; to++)
            if (from != to)
                pool[to] = mix_words(pool[to], hash_word(pool[from], &a, MULT_A));
    for (size_t from = POOL; from < words; from++)
        for (size_t to = 0; to < POOL; to++)
            pool[to] = mix_words(pool[to], hash_word(entropy[from], &a, MULT_A));
    for (size_t i = 0; i < count; i++) {
        uint32_t low = hash_word(pool[2 * i % POOL], &b, MULT_B);
        out[i] = low | (uint64_t)hash_word(pool[(2 * i + 1) % POOL], &b, MULT_B) << 32;
    }
}

/* --- PCG64 ------------------------------------------------------------------------- */

#define WIDE(high, low) ((unsigned __int128)(high) << 64 | (low))

static const unsigned __int128 pcg_factor =
    WIDE(UINT64_C(2549297995355413924), UINT64_C(4865540595714422341));

static void pcg_step(tarn__pcg64 *rng)
{
    rng->state = rng->state * pcg_factor + rng->increment;
}

void tarn__pcg64_seed(tarn__pcg64 *rng, uint64_t seed)
{
    uint32_t entropy[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint64_t w[4];
    tarn__seed_sequence(entropy, entropy[1] ? 2 : 1, w, 4);
    rng->increment = WIDE(w[2], w[3]) << 1 | 1;
    rng->state = 0;
    pcg_step(rng);
    rng->state += WIDE(w[0], w[1]);
    pcg_step(rng);
    rng->has_half = false;
    rng->half = 0;
}

uint64_t tarn__pcg64_next(tarn__pcg64 *rng)
{
    pcg_step(rng);
    uint64_t folded = (uint64_t)(rng->state >> 64) ^ (uint64_t)rng->state;
    unsigned turn = (unsigned)(rng->state >> 122);
    return folded >> turn | folded << (-turn & 63);
}

uint32_t tarn__pcg64_next32(tarn__pcg64 *rng)
{
    if (rng->has_half) {
        rng->has_half = false;
        return rng->half;
    }
    uint64_t value = tarn__pcg64_next(rng);
    rng->half = (uint32_t)(value >> 32);
    rng->has_half = true;
    return (uint32_t)value;
}

static uint32_t upto32(tarn__pcg64 *rng, uint32_t last)
{
    uint32_t range = last + 1;
    if (range == 0) return tarn__pcg64_next32(rng);
    uint32_t threshold = (UINT32_MAX - last) % range;
    uint64_t product;
    do
        product = (uint64_t)tarn__pcg64_next32(rng) * range;
    while ((uint32_t)product < threshold);
    return (uint32_t)(product >> 32);
}

uint64_t tarn__pcg64_upto(tarn__pcg64 *rng, uint64_t last)
{
    if (last == 0) return 0;
    if (last <= UINT32_MAX) return upto32(rng, (uint32_t)last);
    uint64_t range = last + 1;
    if (range == 0) return tarn__pcg64_next(rng);
    uint64_t threshold = (UINT64_MAX - last) % range;
    unsigned __int128 product;
    do
        product = (unsigned __int128)tarn__pcg64_next(rng) * range;
    while ((uint64_t)product < threshold);
    return (uint64_t)(product >> 64);
}

/* --- choice ------------------------------------------------------------------------ */

/* Fisher-Yates from the end down to first, which stays in place. */
static void shuffle_down(tarn__pcg64 *rng, uint64_t *items, uint64_t count,
                         uint64_t first)
{
    for (uint64_t i = count; i-- > first;) {
        uint64_t j = tarn__pcg64_upto(rng, i), item = items[j];
        items[j] = items[i];
        items[i] = item;
    }
}

/* The set of numbers that Floyd's method has chosen; numbers are stored plus 1. */
typedef struct chosen {
    uint64_t *slots;
    uint64_t mask;
} chosen;

static bool chosen_add(chosen *set, uint64_t value)
{
    uint64_t at = value & set->mask;
    while (set->slots[at] && set->slots[at] != value + 1)
        at = (at + 1) & set->mask;
    if (set->slots[at]) return false;
    set->slots[at] = value + 1;
    return true;
}

enum { FEW = 64 }; /* a set this small needs no allocation */

static tarn_status choose_floyd(tarn__pcg64 *rng, uint64_t population, uint64_t count,
                                uint64_t *out, tarn_error *err)
{
    uint64_t few[2 * FEW] = {0};
    chosen set = {few, 2 * FEW - 1};
    if (count > FEW) {
        while (set.mask / 2 < count)
            set.mask = set.mask * 2 + 1;
        set.slots = calloc(set.mask + 1, sizeof *set.slots);
        if (!set.slots) return tarn__fail_memory(err);
    }
    for (uint64_t j = population - count; j < population; j++) {
        uint64_t value = tarn__pcg64_upto(rng, j);
        if (!chosen_add(&set, value)) chosen_add(&set, value = j);
        *out++ = value;
    }
    if (set.slots != few) free(set.slots);
    shuffle_down(rng, out - count, count, 1);
    return TARN_OK;
}

static tarn_status choose_tail(tarn__pcg64 *rng, uint64_t population, uint64_t count,
                               uint64_t *out, tarn_error *err)
{
    uint64_t *all = calloc(population, sizeof *all);
    if (!all) return tarn__fail_memory(err);
    for (uint64_t i = 0; i < population; i++)
        all[i] = i;
    uint64_t first = population - count;
    shuffle_down(rng, all, population, first ? first : 1);
    memcpy(out, all + first, count * sizeof *out);
    free(all);
    return TARN_OK;
}

tarn_status tarn__pcg64_choice(tarn__pcg64 *rng, uint64_t population, uint64_t count,
                               bool replace, uint64_t *out, tarn_error *err)
{
    if (count == 0) return TARN_OK;
    if (population == 0 || (!replace && count > population))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "cannot choose %llu of %llu without replacement",
                          (unsigned long long)count, (unsigned long long)population);
    if (!replace && population > 10000 && count > population / 50)
        return choose_tail(rng, population, count, out, err);
    if (!replace) return choose_floyd(rng, population, count, out, err);
    for (uint64_t i = 0; i < count; i++)
        out[i] = tarn__pcg64_upto(rng, population - 1);
    return TARN_OK;
}
