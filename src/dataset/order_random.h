/* Random numbers for tarn's own orders: keys hashed from (seed, epoch, purpose), draws by
 * key and index, and permutations that are computed instead of stored. The reasons are in
 * docs/internals/order.md. Any change here changes the orders that existing seeds give.
 */
#ifndef TARN_DATASET_ORDER_RANDOM_H
#define TARN_DATASET_ORDER_RANDOM_H

#include <tarn/order.h>

/* The purposes of keys, so that no key is used twice. */
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

/* Derives a key from a key and a number. */
static inline uint64_t tarn__subkey(uint64_t key, uint64_t number)
{
    return tarn__mix(key ^ tarn__mix(number + UINT64_C(0x9e3779b97f4a7c15)));
}

/* The i-th 64 random bits of a key: SplitMix64 with random access. */
static inline uint64_t tarn__draw(uint64_t key, uint64_t i)
{
    return tarn__mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* A number below range, exactly uniform. Adds the number of draws to *i. */
uint64_t tarn__draw_below(uint64_t key, uint64_t *i, uint64_t range);

/* --- The network: a permutation of 0 to n - 1 without a table ---------------------- */

enum {
    TARN__ROUNDS = 8,        /* for more than SMALL positions */
    TARN__SMALL_ROUNDS = 12, /* for at most SMALL */
    TARN__SMALL = 4096,
    TARN__TINY = 64 /* up to here the network mixes badly, and a table is as fast */
};

/* A position x is the cell (x >> bits, x mod 2^bits) of the smallest rectangle with a
 * rows of 2^bits cells that has room for n. */
typedef struct tarn__domain {
    uint64_t n, a;
    unsigned bits;
} tarn__domain;

/* n is at least 1 and at most TARN_MAX_ORDER. */
void tarn__domain_init(tarn__domain *d, uint64_t n);

typedef struct tarn__network {
    union {
        uint64_t keys[TARN__SMALL_ROUNDS];
        uint16_t table[TARN__TINY]; /* for n up to TINY */
    } u;
    unsigned rounds;
} tarn__network;

void tarn__network_init(tarn__network *net, const tarn__domain *d, uint64_t key);

/* The round function. Only its high bits are well mixed. */
static inline uint64_t tarn__round(uint64_t x, uint64_t key)
{
    uint64_t h = (x + key) * UINT64_C(0xff51afd7ed558ccd);
    return (h ^ (h >> 32)) * UINT64_C(0xc4ceb9fe1a85ec53);
}

/* rounds is a parameter so that the loop is unrolled for callers with a constant. n is
 * above TINY. */
static inline uint64_t tarn__permute_rounds(const tarn__domain *d, const uint64_t *keys,
                                            unsigned rounds, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << d->bits) - 1;
    do {
        uint64_t row = x >> d->bits, column = x & mask;
        for (unsigned r = 0; r < rounds; r += 2) {
            row += tarn__mul_high(tarn__round(column, keys[r]), d->a);
            /* Without a branch, because half of them would be mispredicted. */
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

/* The inverse of tarn__permute_rounds. */
static inline uint64_t tarn__unpermute_rounds(const tarn__domain *d, const uint64_t *keys,
                                              unsigned rounds, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << d->bits) - 1;
    do {
        uint64_t row = x >> d->bits, column = x & mask;
        for (unsigned r = rounds; r > 0; r -= 2) {
            column ^= tarn__round(row, keys[r - 1]) >> (64 - d->bits);
            uint64_t added = tarn__mul_high(tarn__round(column, keys[r - 2]), d->a);
            row = row >= added ? row - added : row + d->a - added;
        }
        x = row << d->bits | column;
    } while (x >= d->n);
    return x;
}

/* The position in a table that has the value x, which is in it. */
static inline uint64_t tarn__table_find(const uint16_t *table, uint64_t x)
{
    uint64_t i = 0;
    while (table[i] != x)
        i++;
    return i;
}

static inline uint64_t tarn__unpermute(const tarn__domain *d, const tarn__network *net,
                                       uint64_t x)
{
    if (d->n <= TARN__TINY) return tarn__table_find(net->u.table, x);
    return tarn__unpermute_rounds(d, net->u.keys, net->rounds, x);
}

/* --- The shuffle: a table up to SMALL, above it the network ------------------------ */

typedef struct tarn__shuffle {
    tarn__domain domain;
    tarn__network net;
    uint16_t table[TARN__SMALL]; /* for n up to SMALL */
} tarn__shuffle;

void tarn__shuffle_init(tarn__shuffle *s, uint64_t n, uint64_t key);
void tarn__shuffle_map(const tarn__shuffle *s, uint64_t *at, size_t n);

static inline uint64_t tarn__shuffle_at(const tarn__shuffle *s, uint64_t x)
{
    if (s->domain.n <= TARN__SMALL) return s->table[x];
    return tarn__permute_rounds(&s->domain, s->net.u.keys, TARN__ROUNDS, x);
}

/* The position of x. */
static inline uint64_t tarn__shuffle_find(const tarn__shuffle *s, uint64_t x)
{
    if (s->domain.n <= TARN__SMALL) return tarn__table_find(s->table, x);
    return tarn__unpermute_rounds(&s->domain, s->net.u.keys, TARN__ROUNDS, x);
}

#endif
