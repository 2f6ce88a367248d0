/* What our own orders draw from: a hash of (seed, epoch, purpose) as key, numbers drawn
 * by key and number, and permutations that are computed. docs/internals/order.md has the
 * reasons. All of it is part of what a seed means: a change here changes every order. */
#ifndef TARN_DATASET_ORDER_RANDOM_H
#define TARN_DATASET_ORDER_RANDOM_H

#include <tarn/order.h>

/* The purposes that keys are made for, so that none is used twice. */
enum {
    TARN__KEY_SHUFFLE = 1,
    TARN__KEY_BLOCKS,
    TARN__KEY_BLOCK_TAIL,
    TARN__KEY_WINDOW,
    TARN__KEY_WEIGHTED,
    TARN__KEY_ONCE,
    TARN__KEY_CLASSES,
    TARN__KEY_CLASS,
    TARN__KEY_LENGTHS,
    TARN__KEY_CHUNKS
};

static inline uint64_t tarn__mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t tarn__mul_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

uint64_t tarn__order_key(const tarn_order_options *o, unsigned purpose);

/* A key made of a key and a number. */
static inline uint64_t tarn__subkey(uint64_t key, uint64_t number)
{
    return tarn__mix(key ^ tarn__mix(number + UINT64_C(0x9e3779b97f4a7c15)));
}

/* The i-th 64 random bits of a key: SplitMix64, entered anywhere. */
static inline uint64_t tarn__draw(uint64_t key, uint64_t i)
{
    return tarn__mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* A number below range, exactly uniform; *i goes on by what was drawn. */
uint64_t tarn__draw_below(uint64_t key, uint64_t *i, uint64_t range);

/* --- The network: a permutation of 0 to n - 1 in no memory ------------------------- */

enum {
    TARN__ROUNDS = 8,        /* of a domain past SMALL */
    TARN__SMALL_ROUNDS = 12, /* of one up to it */
    TARN__SMALL = 4096,
    TARN__TINY = 64 /* rectangles up to here mix too slowly, and a table is as quick */
};

/* A position x is the pair (x >> bits, x mod 2^bits) of a rectangle with a rows that is
 * no larger than it must be. */
typedef struct tarn__domain {
    uint64_t n, a;
    unsigned bits;
} tarn__domain;

/* n is at least 1 and at most TARN_MAX_ORDER. */
void tarn__domain_init(tarn__domain *d, uint64_t n);

typedef struct tarn__network {
    union {
        uint64_t keys[TARN__SMALL_ROUNDS];
        uint16_t table[TARN__TINY]; /* of an n up to TINY */
    } u;
    unsigned rounds;
} tarn__network;

void tarn__network_init(tarn__network *net, const tarn__domain *d, uint64_t key);

/* The round function; the high bits are the good ones. */
static inline uint64_t tarn__round(uint64_t x, uint64_t key)
{
    uint64_t h = (x + key) * UINT64_C(0xff51afd7ed558ccd);
    return (h ^ (h >> 32)) * UINT64_C(0xc4ceb9fe1a85ec53);
}

/* rounds is a parameter of its own so that callers with a constant get it unrolled. n is
 * past TINY. */
static inline uint64_t tarn__permute_rounds(const tarn__domain *d, const uint64_t *keys,
                                            unsigned rounds, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << d->bits) - 1;
    do {
        uint64_t row = x >> d->bits, column = x & mask;
        for (unsigned r = 0; r < rounds; r += 2) {
            row += tarn__mul_high(tarn__round(column, keys[r]), d->a);
            /* No branch: the processor would guess every second one wrong. */
            row -= d->a & -(uint64_t)(row >= d->a);
            column ^= tarn__round(row, keys[r + 1]) >> (64 - d->bits);
        }
        x = row << d->bits | column;
    } while (__builtin_expect(x >= d->n, 0));
    return x;
}

static inline uint64_t tarn__permute(const tarn__domain *d, const tarn__network *net,
                                     uint64_t x)
{
    if (d->n <= TARN__TINY) return net->u.table[x];
    return tarn__permute_rounds(d, net->u.keys, net->rounds, x);
}

/* --- The shuffle: a true one up to SMALL, the network past it ---------------------- */

typedef struct tarn__shuffle {
    tarn__domain domain;
    tarn__network net;
    uint16_t table[TARN__SMALL]; /* of an n up to SMALL */
} tarn__shuffle;

void tarn__shuffle_init(tarn__shuffle *s, uint64_t n, uint64_t key);
void tarn__shuffle_map(const tarn__shuffle *s, uint64_t *at, size_t n);

static inline uint64_t tarn__shuffle_at(const tarn__shuffle *s, uint64_t x)
{
    if (s->domain.n <= TARN__SMALL) return s->table[x];
    return tarn__permute_rounds(&s->domain, s->net.u.keys, TARN__ROUNDS, x);
}

#endif
