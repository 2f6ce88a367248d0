/* Random keys and draws, and the set-up of permutations. */
#include "dataset/order_random.h"

uint64_t tarn__order_key(const tarn_order_options *o, unsigned purpose)
{
    uint64_t key = tarn__subkey(UINT64_C(0x7461726e6f726472), o->seed);
    key = tarn__subkey(key, o->epoch);
    return tarn__subkey(key, (uint64_t)purpose * 2 + o->negative);
}

uint64_t tarn__draw_below(uint64_t key, uint64_t *i, uint64_t range)
{
    unsigned __int128 product;
    do
        product = (unsigned __int128)tarn__draw(key, (*i)++) * range;
    while ((uint64_t)product < -range % range);
    return (uint64_t)(product >> 64);
}

void tarn__domain_init(tarn__domain *d, uint64_t n)
{
    d->n = n;
    d->bits = n > 1 ? (64 - (unsigned)__builtin_clzll(n - 1)) / 2 : 0;
    d->a = ((n - 1) >> d->bits) + 1;
}

/* A Fisher-Yates shuffle of 0 to n - 1: all permutations are equally likely. */
static void make_table(uint16_t *table, uint64_t n, uint64_t key)
{
    uint64_t drawn = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t j = tarn__draw_below(key, &drawn, i + 1);
        if (j != i) table[i] = table[j];
        table[j] = (uint16_t)i;
    }
}

void tarn__network_init(tarn__network *net, const tarn__domain *d, uint64_t key)
{
    if (d->n <= TARN__TINY) {
        make_table(net->u.table, d->n, key);
        return;
    }
    net->rounds = d->n > TARN__SMALL ? TARN__ROUNDS : TARN__SMALL_ROUNDS;
    for (unsigned r = 0; r < net->rounds; r++)
        net->u.keys[r] = tarn__draw(key, r);
}

void tarn__shuffle_init(tarn__shuffle *s, uint64_t n, uint64_t key)
{
    tarn__domain_init(&s->domain, n);
    if (n <= TARN__SMALL)
        make_table(s->table, n, key);
    else
        tarn__network_init(&s->net, &s->domain, key);
}

void tarn__shuffle_map(const tarn__shuffle *s, uint64_t *at, size_t n)
{
    if (s->domain.n <= TARN__SMALL) {
        for (size_t i = 0; i < n; i++)
            at[i] = s->table[at[i]];
        return;
    }
    tarn__domain d = s->domain;
    tarn__network net = s->net;
    for (size_t i = 0; i < n; i++)
        at[i] = tarn__permute_rounds(&d, net.u.keys, TARN__ROUNDS, at[i]);
}
