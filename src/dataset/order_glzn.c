/* The samplers of glzn: a Feistel network over each bucket, with keys from Python's
 * generator. The orders are identical to glzn's, with all weaknesses, so that its runs
 * can be resumed. Options with which glzn hangs or repeats samples are an error here. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/random.h"
#include "dataset/order.h"

typedef struct bucket {
    uint64_t position; /* first position */
    uint64_t sample;   /* first sample */
    uint64_t size;
    uint64_t number; /* in the caller's list; its keys begin at keys[number * rounds] */
    unsigned half;
} bucket;

typedef struct buckets {
    bucket *list;
    uint32_t *keys;
    uint64_t n;
    unsigned rounds;
} buckets;

/* Half the number of bits of n - 1, rounded up. */
static unsigned half_bits(uint64_t n)
{
    unsigned bits = n > 1 ? 64 - (unsigned)__builtin_clzll(n - 1) : 0;
    return (bits + 1) / 2;
}

static uint64_t feistel(const uint32_t *keys, unsigned rounds, unsigned half, uint64_t n,
                        uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (unsigned r = 0; r < rounds; r++) {
            uint64_t mixed = right * UINT64_C(0x9e3779b97f4a7c15) + keys[r];
            uint64_t next = left ^ (mixed & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= n);
    return x;
}

/* The inverse of feistel. */
static uint64_t unfeistel(const uint32_t *keys, unsigned rounds, unsigned half,
                          uint64_t n, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (unsigned r = rounds; r > 0; r--) {
            uint64_t mixed = left * UINT64_C(0x9e3779b97f4a7c15) + keys[r - 1];
            uint64_t before = right ^ (mixed & mask);
            right = left;
            left = before;
        }
        x = left << half | right;
    } while (x >= n);
    return x;
}

/* |seed + epoch + more|, because Python's generator ignores the sign. */
static unsigned __int128 seed_of(const tarn_order_options *o, unsigned more)
{
    __int128 seed = o->negative ? -(__int128)o->seed : (__int128)o->seed;
    seed += (__int128)o->epoch + more;
    return (unsigned __int128)(seed < 0 ? -seed : seed);
}

/* --- The buckets ------------------------------------------------------------------- */

static void draw_keys(buckets *b, const tarn_order_options *o)
{
    tarn__mt mt;
    tarn__mt_seed_int(&mt, seed_of(o, 0));
    for (unsigned r = 0; r < b->rounds; r++)
        for (uint64_t j = 0; j < b->n; j++)
            b->keys[j * b->rounds + r] = (uint32_t)tarn__mt_bits(&mt, b->list[j].half);
}

/* Sorts whole buckets into the order of the outer sampler. */
static tarn_status order_outer(buckets *b, const tarn_order_options *o, tarn_error *err)
{
    uint32_t keys[TARN_MAX_ORDER_ROUNDS];
    unsigned half = half_bits(b->n);
    tarn__mt mt;
    bucket *list = tarn__order_alloc(b->n, sizeof *list, err);
    if (!list) return TARN_ERR_MEMORY;
    tarn__mt_seed_int(&mt, seed_of(o, 1));
    for (unsigned r = 0; r < b->rounds; r++)
        keys[r] = (uint32_t)tarn__mt_bits(&mt, half);
    uint64_t position = 0;
    for (uint64_t j = 0; j < b->n; j++) {
        list[j] = b->list[feistel(keys, b->rounds, half, b->n, j)];
        list[j].position = position;
        position += list[j].size;
    }
    free(b->list);
    b->list = list;
    return TARN_OK;
}

/* Python's round(total / parts): a division of doubles, rounded half to even. */
static uint64_t mixed_size(uint64_t total, uint64_t parts)
{
    double exact = (double)total / (double)parts;
    uint64_t size = (uint64_t)exact;
    double rest = exact - (double)size;
    if (rest > 0.5 || (rest == 0.5 && size % 2)) size++;
    return size ? size : 1;
}

typedef struct sizes {
    const uint64_t *given; /* NULL: all have one size, except the last */
    uint64_t n, size, count;
} sizes;

static sizes choose_sizes(const tarn_order_options *o, uint64_t count)
{
    if (o->kind == TARN_ORDER_FEISTEL) return (sizes){NULL, 1, count, count};
    if (!o->mix) return (sizes){o->buckets, o->n_buckets, 0, count};
    uint64_t parts;
    if (!tarn__mul(o->n_buckets, o->mix, &parts)) parts = UINT64_MAX;
    uint64_t size = mixed_size(count, parts);
    return (sizes){NULL, count / size + (count % size != 0), size, count};
}

static uint64_t size_at(const sizes *s, uint64_t j, uint64_t position)
{
    if (s->given) return s->given[j];
    return s->count - position < s->size ? s->count - position : s->size;
}

static void drop_buckets(void *made)
{
    buckets *b = made;
    free(b->list);
    free(b->keys);
    free(b);
}

static tarn_status fill_buckets(buckets *b, const tarn_order_options *o, uint64_t count,
                                tarn_error *err)
{
    sizes s = choose_sizes(o, count);
    uint64_t n_keys, position = 0;
    b->n = s.n;
    b->rounds = (unsigned)o->rounds;
    if (!tarn__mul(s.n, b->rounds, &n_keys)) return tarn__fail_memory(err);
    b->list = tarn__order_alloc(s.n, sizeof *b->list, err);
    if (b->list) b->keys = tarn__order_alloc(n_keys, sizeof *b->keys, err);
    if (!b->keys) return TARN_ERR_MEMORY;
    for (uint64_t j = 0; j < s.n; j++) {
        uint64_t size = size_at(&s, j, position);
        b->list[j] = (bucket){position, position, size, j, half_bits(size)};
        position += size;
    }
    draw_keys(b, o);
    if (o->kind == TARN_ORDER_BUCKETS && o->outer) return order_outer(b, o, err);
    return TARN_OK;
}

static tarn_status make_buckets(const tarn_order_options *o, uint64_t count,
                                uint64_t total, void **out, tarn_error *err)
{
    (void)total;
    buckets *b = *out = calloc(1, sizeof *b);
    return b ? fill_buckets(b, o, count, err) : tarn__fail_memory(err);
}

/* --- Positions --------------------------------------------------------------------- */

/* The last bucket that begins at or before a position. It is never an empty one, because
 * the next bucket begins at the same position. */
static const bucket *find_bucket(const buckets *b, uint64_t position)
{
    uint64_t low = 0, high = b->n;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (b->list[middle].position <= position)
            low = middle;
        else
            high = middle;
    }
    return &b->list[low];
}

static void map_buckets(const void *made, uint64_t *at, size_t n)
{
    const buckets *b = made;
    const bucket *in = b->list;
    for (size_t i = 0; i < n; i++) {
        if (at[i] < in->position || at[i] - in->position >= in->size)
            in = find_bucket(b, at[i]);
        at[i] = in->sample + feistel(b->keys + in->number * b->rounds, b->rounds,
                                     in->half, in->size, at[i] - in->position);
    }
}

/* Whole buckets may be in any order, so each is compared with the sample. */
static uint64_t find_buckets(const void *made, uint64_t total, uint64_t sample,
                             uint64_t from)
{
    (void)total;
    const buckets *b = made;
    const bucket *in = b->list;
    while (sample < in->sample || sample - in->sample >= in->size)
        in++;
    uint64_t within = unfeistel(b->keys + in->number * b->rounds, b->rounds, in->half,
                                in->size, sample - in->sample);
    return tarn__order_found(in->position + within, from);
}

/* --- Checks ------------------------------------------------------------------------ */

static tarn_status measure_feistel(const tarn_order_options *o, uint64_t count,
                                   uint64_t *out_total, tarn_error *err)
{
    (void)count, (void)out_total;
    if (o->rounds < 1 || o->rounds > TARN_MAX_ORDER_ROUNDS)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "rounds is %llu (expected 1 to %u; glzn's default is 3)",
                          (unsigned long long)o->rounds, TARN_MAX_ORDER_ROUNDS);
    return TARN_OK;
}

static tarn_status check_outer(const tarn_order_options *o, uint64_t count,
                               tarn_error *err)
{
    if (o->outer > TARN_OUTER_LISTED)
        return tarn__fail(err, TARN_ERR_USAGE, "unknown order of whole buckets: %llu",
                          (unsigned long long)o->outer);
    if (o->outer != TARN_OUTER_RANDOM_ACCESS) return TARN_OK;
    sizes s = choose_sizes(o, count);
    bool equal = s.given || count % s.size == 0;
    for (size_t j = 1; s.given && j < o->n_buckets; j++)
        equal = equal && o->buckets[j] == o->buckets[0];
    if (equal) return TARN_OK;
    return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                      "buckets of unequal size cannot be in random order, because glzn "
                      "then repeats and omits samples, or hangs; use TARN_OUTER_LISTED, "
                      "the order of glzn's whole permutation");
}

static tarn_status measure_buckets(const tarn_order_options *o, uint64_t count,
                                   uint64_t *out_total, tarn_error *err)
{
    uint64_t sum = 0;
    TARN_TRY(measure_feistel(o, count, out_total, err));
    TARN_TRY(tarn__order_need(o->buckets, "buckets", count, err));
    for (size_t j = 0; j < o->n_buckets; j++)
        if (!tarn__add(sum, o->buckets[j], &sum)) sum = UINT64_MAX;
    if (sum != count)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the buckets have %llu samples, expected %llu",
                          (unsigned long long)sum, (unsigned long long)count);
    return count ? check_outer(o, count, err) : TARN_OK;
}

const tarn__order_kind tarn__order_feistel = {
    "feistel", measure_feistel, make_buckets, drop_buckets, map_buckets, find_buckets};
const tarn__order_kind tarn__order_buckets = {
    "buckets", measure_buckets, make_buckets, drop_buckets, map_buckets, find_buckets};
