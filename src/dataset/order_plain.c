/* The orders identity and shuffle, which need no array, and helpers for several kinds. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/error.h"
#include "dataset/order.h"
#include "dataset/order_random.h"

tarn_status tarn__order_need(const void *array, const char *name, uint64_t count,
                             tarn_error *err)
{
    if (array || count == 0) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "this order needs %s", name);
}

void *tarn__order_alloc(uint64_t count, size_t item, tarn_error *err)
{
    uint64_t size;
    void *memory = tarn__mul(count, item, &size) && size < PTRDIFF_MAX
                       ? tarn__big_alloc((size_t)size)
                       : NULL;
    if (!memory) (void)tarn__fail_memory(err);
    return memory;
}

tarn_status tarn__order_draws(const tarn_order_options *o, uint64_t count,
                              uint64_t *out_total, tarn_error *err)
{
    if (count == 0 && o->draws)
        return tarn__fail(err, TARN_ERR_USAGE, "cannot draw from 0 samples");
    if (o->draws) *out_total = o->draws;
    return TARN_OK;
}

void tarn__order_map_samples(const void *made, uint64_t *at, size_t n)
{
    const uint64_t *samples = made;
    for (size_t i = 0; i < n; i++)
        at[i] = samples[at[i]];
}

/* --- The kinds --------------------------------------------------------------------- */

static void map_identity(const void *made, uint64_t *at, size_t n)
{
    (void)made, (void)at, (void)n;
}

static uint64_t find_identity(const void *made, uint64_t total, uint64_t sample,
                              uint64_t from)
{
    (void)made, (void)total;
    return tarn__order_found(sample, from);
}

const tarn__order_kind tarn__order_identity = {"identity", NULL,         NULL,
                                               NULL,       map_identity, find_identity};

static tarn_status make_shuffle(const tarn_order_options *o, uint64_t count,
                                uint64_t total, void **out, tarn_error *err)
{
    (void)total;
    tarn__shuffle *s = tarn__order_alloc(1, sizeof *s, err);
    if (!s) return TARN_ERR_MEMORY;
    tarn__shuffle_init(s, count, tarn__order_key(o, TARN__KEY_SHUFFLE));
    *out = s;
    return TARN_OK;
}

static void map_shuffle(const void *made, uint64_t *at, size_t n)
{
    tarn__shuffle_map(made, at, n);
}

static uint64_t find_shuffle(const void *made, uint64_t total, uint64_t sample,
                             uint64_t from)
{
    (void)total;
    return tarn__order_found(tarn__shuffle_find(made, sample), from);
}

const tarn__order_kind tarn__order_shuffle = {"shuffle", NULL,        make_shuffle,
                                              free,      map_shuffle, find_shuffle};
