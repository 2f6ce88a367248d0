/* Orders computed from a number for each sample: its class, or its length. */
#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"
#include "dataset/order.h"
#include "dataset/order_random.h"

/* --- Classes ----------------------------------------------------------------------- */

typedef struct class_of {
    tarn__domain domain; /* of its samples */
    uint64_t first;      /* index in members */
} class_of;

typedef struct balanced {
    uint64_t *members; /* samples, sorted by class */
    class_of *classes;
    uint64_t n_classes, count;
    tarn__domain domain; /* of the classes */
    uint64_t key_round, key_class;
} balanced;

static void drop_balanced(void *made)
{
    balanced *b = made;
    free(b->members);
    free(b->classes);
    free(b);
}

static tarn_status list_classes(balanced *b, const tarn__numbered *sorted, uint64_t count,
                                tarn_error *err)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < count; i++)
        n += i == 0 || sorted[i].value != sorted[i - 1].value;
    b->n_classes = n;
    b->count = count;
    b->classes = tarn__order_alloc(n, sizeof *b->classes, err);
    if (b->classes) b->members = tarn__order_alloc(count, sizeof *b->members, err);
    if (!b->members) return TARN_ERR_MEMORY;
    n = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i == 0 || sorted[i].value != sorted[i - 1].value) b->classes[n++].first = i;
        b->members[i] = sorted[i].sample;
    }
    for (uint64_t c = 0; c < n; c++) {
        uint64_t end = c + 1 < n ? b->classes[c + 1].first : count;
        tarn__domain_init(&b->classes[c].domain, end - b->classes[c].first);
    }
    tarn__domain_init(&b->domain, n);
    return TARN_OK;
}

static tarn_status make_balanced(const tarn_order_options *o, uint64_t count,
                                 uint64_t total, void **out, tarn_error *err)
{
    (void)total;
    balanced *b = *out = calloc(1, sizeof *b);
    if (!b) return tarn__fail_memory(err);
    b->key_round = tarn__order_key(o, TARN__KEY_CLASSES);
    b->key_class = tarn__order_key(o, TARN__KEY_CLASS);
    tarn__numbered *sorted = tarn__order_alloc(count, 2 * sizeof *sorted, err);
    if (!sorted) return TARN_ERR_MEMORY;
    for (uint64_t i = 0; i < count; i++)
        sorted[i] = (tarn__numbered){(uint64_t)o->classes[i], i};
    tarn__numbered_sort(sorted, sorted + count, count);
    tarn_status status = list_classes(b, sorted, count, err);
    free(sorted);
    return status;
}

/* Each round has each class once, so the number of the round is also the number of
 * samples drawn from each class before it. */
static uint64_t balanced_at(const balanced *b, uint64_t round, uint64_t class)
{
    const class_of *c = &b->classes[class];
    tarn__network net;
    uint64_t pass = round / c->domain.n, within = round % c->domain.n;
    tarn__network_init(&net, &c->domain,
                       tarn__subkey(tarn__subkey(b->key_class, class), pass));
    return b->members[c->first + tarn__permute(&c->domain, &net, within)];
}

static void map_balanced(const void *made, uint64_t *at, size_t n)
{
    const balanced *b = made;
    tarn__network net = {0};
    uint64_t last = UINT64_MAX; /* the round of net */
    for (size_t i = 0; i < n; i++) {
        uint64_t round = at[i] / b->n_classes, slot = at[i] % b->n_classes;
        if (round != last)
            tarn__network_init(&net, &b->domain, tarn__subkey(b->key_round, round));
        last = round;
        at[i] = balanced_at(b, round, tarn__permute(&b->domain, &net, slot));
    }
}

/* The class of a sample, and its place among the samples of the class. */
static uint64_t class_of_sample(const balanced *b, uint64_t sample, uint64_t *out_member)
{
    uint64_t member = 0, class = 0;
    while (member < b->count && b->members[member] != sample)
        member++;
    while (class + 1 < b->n_classes && b->classes[class + 1].first <= member)
        class ++;
    *out_member = member - b->classes[class].first;
    return class;
}

/* A sample is in one round of each pass through its class. */
static uint64_t find_balanced(const void *made, uint64_t total, uint64_t sample,
                              uint64_t from)
{
    const balanced *b = made;
    uint64_t member, class = class_of_sample(b, sample, &member);
    const class_of *c = &b->classes[class];
    for (uint64_t pass = from / b->n_classes / c->domain.n;; pass++) {
        tarn__network net;
        tarn__network_init(&net, &c->domain,
                           tarn__subkey(tarn__subkey(b->key_class, class), pass));
        uint64_t round = pass * c->domain.n + tarn__unpermute(&c->domain, &net, member);
        if (round > total / b->n_classes) return TARN__NO_POSITION;
        tarn__network_init(&net, &b->domain, tarn__subkey(b->key_round, round));
        uint64_t at = round * b->n_classes + tarn__unpermute(&b->domain, &net, class);
        if (at >= from) return at < total ? at : TARN__NO_POSITION;
    }
}

static tarn_status measure_balanced(const tarn_order_options *o, uint64_t count,
                                    uint64_t *out_total, tarn_error *err)
{
    TARN_TRY(tarn__order_need(o->classes, "classes", count, err));
    return tarn__order_draws(o, count, out_total, err);
}

const tarn__order_kind tarn__order_balanced = {"balanced",    measure_balanced,
                                               make_balanced, drop_balanced,
                                               map_balanced,  find_balanced};

/* --- Lengths ----------------------------------------------------------------------- */

/* Shuffles all samples and sorts each pool by length. */
static void sort_pools(const tarn_order_options *o, tarn__numbered *list,
                       tarn__numbered *spare, uint64_t count)
{
    tarn__shuffle shuffle;
    uint64_t pool;
    tarn__shuffle_init(&shuffle, count, tarn__order_key(o, TARN__KEY_LENGTHS));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t sample = tarn__shuffle_at(&shuffle, i);
        list[i] = (tarn__numbered){o->lengths[sample], sample};
    }
    if (!o->pool || !tarn__mul(o->pool, o->chunk, &pool) || pool > count) pool = count;
    for (uint64_t from = 0; from < count; from += pool)
        tarn__numbered_sort(list + from, spare,
                            count - from < pool ? count - from : pool);
}

/* Lists the sorted samples chunk by chunk, with the chunks in random order. An incomplete
 * chunk comes last, so that every other chunk begins at a multiple of the chunk size. */
static void list_chunks(const tarn_order_options *o, const tarn__numbered *list,
                        uint64_t count, uint64_t *samples)
{
    tarn__shuffle chunks;
    uint64_t full = count / o->chunk;
    if (full) tarn__shuffle_init(&chunks, full, tarn__order_key(o, TARN__KEY_CHUNKS));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t chunk = i / o->chunk;
        if (chunk < full) chunk = tarn__shuffle_at(&chunks, chunk);
        samples[i] = list[chunk * o->chunk + i % o->chunk].sample;
    }
}

static tarn_status make_lengths(const tarn_order_options *o, uint64_t count,
                                uint64_t total, void **out, tarn_error *err)
{
    (void)total;
    tarn__numbered *list = tarn__order_alloc(count, 2 * sizeof *list, err);
    uint64_t *samples = list ? tarn__order_alloc(count, sizeof *samples, err) : NULL;
    if (samples) {
        sort_pools(o, list, list + count, count);
        list_chunks(o, list, count, samples);
    }
    free(list);
    *out = samples;
    return samples ? TARN_OK : TARN_ERR_MEMORY;
}

static tarn_status measure_lengths(const tarn_order_options *o, uint64_t count,
                                   uint64_t *out_total, tarn_error *err)
{
    (void)out_total;
    TARN_TRY(tarn__order_need(o->lengths, "lengths", count, err));
    if (o->chunk < 1)
        return tarn__fail(err, TARN_ERR_USAGE, "chunk must be at least 1 (found 0)");
    return TARN_OK;
}

const tarn__order_kind tarn__order_lengths = {
    "lengths", measure_lengths, make_lengths, free, tarn__order_map_samples, NULL};
