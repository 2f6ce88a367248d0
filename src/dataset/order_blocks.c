/* The order for cold disks and object stores. Blocks of consecutive samples are put in
 * random order. The samples of each window, which is a fixed number of successive blocks
 * in that order, are then permuted. A block is therefore needed in one window only. */
#include <stdlib.h>

#include "base/error.h"
#include "dataset/order.h"
#include "dataset/order_random.h"

/* Each slot of the random order holds one block. The last block of the samples may be
 * short; after its slot, all positions are lower by the number of samples it lacks. */
typedef struct blocks {
    tarn__shuffle full;     /* of the full blocks */
    uint64_t n_full, block; /* number of full blocks, samples in each */
    uint64_t tail;          /* samples in the short block; 0 if there is none */
    uint64_t tail_slot;
    uint64_t per_window; /* slots in a window */
    uint64_t count;      /* samples */
    uint64_t key;        /* for the windows */
    tarn__domain whole;  /* a window of full blocks */
} blocks;

/* The first position of a slot. */
static uint64_t slot_start(const blocks *b, uint64_t slot)
{
    uint64_t lacks = b->tail && slot > b->tail_slot ? b->block - b->tail : 0;
    return slot * b->block - lacks;
}

static uint64_t slot_at(const blocks *b, uint64_t position)
{
    uint64_t tail_start = b->tail_slot * b->block;
    if (!b->tail || position < tail_start) return position / b->block;
    if (position < tail_start + b->tail) return b->tail_slot;
    return (position - b->tail) / b->block + 1;
}

static uint64_t sample_at(const blocks *b, uint64_t position)
{
    uint64_t slot = slot_at(b, position), within = position - slot_start(b, slot);
    if (b->tail && slot == b->tail_slot) return b->n_full * b->block + within;
    if (b->tail && slot > b->tail_slot) slot--;
    return tarn__shuffle_at(&b->full, slot) * b->block + within;
}

static tarn_status make_blocks(const tarn_order_options *o, uint64_t count,
                               uint64_t total, void **out, tarn_error *err)
{
    (void)total;
    uint64_t drawn = 0;
    blocks *b = tarn__order_alloc(1, sizeof *b, err);
    if (!b) return TARN_ERR_MEMORY;
    b->count = count;
    b->block = o->block;
    b->n_full = count / o->block;
    b->tail = count % o->block;
    b->tail_slot = b->tail ? tarn__draw_below(tarn__order_key(o, TARN__KEY_BLOCK_TAIL),
                                              &drawn, b->n_full + 1)
                           : 0;
    uint64_t slots = b->n_full + (b->tail != 0);
    b->per_window = o->window < slots ? o->window : slots;
    b->key = tarn__order_key(o, TARN__KEY_WINDOW);
    if (b->n_full)
        tarn__shuffle_init(&b->full, b->n_full, tarn__order_key(o, TARN__KEY_BLOCKS));
    uint64_t whole = b->per_window * b->block;
    tarn__domain_init(&b->whole, whole < count ? whole : count);
    *out = b;
    return TARN_OK;
}

/* The window that contains positions from to to - 1. */
typedef struct window {
    uint64_t from, to;
    tarn__domain domain;
    tarn__network net;
} window;

static void find_window(const blocks *b, uint64_t position, window *w)
{
    uint64_t number = slot_at(b, position) / b->per_window;
    w->from = slot_start(b, number * b->per_window);
    uint64_t slots = b->n_full + (b->tail != 0), end = (number + 1) * b->per_window;
    w->to = end < slots ? slot_start(b, end) : b->count;
    w->domain = b->whole;
    if (w->to - w->from != b->whole.n) tarn__domain_init(&w->domain, w->to - w->from);
    tarn__network_init(&w->net, &w->domain, tarn__subkey(b->key, number));
}

static void map_blocks(const void *made, uint64_t *at, size_t n)
{
    const blocks *b = made;
    window w = {0};
    for (size_t i = 0; i < n; i++) {
        if (at[i] < w.from || at[i] >= w.to) find_window(b, at[i], &w);
        uint64_t within = tarn__permute(&w.domain, &w.net, at[i] - w.from);
        at[i] = sample_at(b, w.from + within);
    }
}

/* The position of a sample before its window is permuted. */
static uint64_t slot_position(const blocks *b, uint64_t sample)
{
    uint64_t number = sample / b->block, slot = b->tail_slot;
    if (number < b->n_full) {
        slot = tarn__shuffle_find(&b->full, number);
        if (b->tail && slot >= b->tail_slot) slot++;
    }
    return slot_start(b, slot) + sample % b->block;
}

static uint64_t find_blocks(const void *made, uint64_t total, uint64_t sample,
                            uint64_t from)
{
    (void)total;
    const blocks *b = made;
    uint64_t position = slot_position(b, sample);
    window w = {0};
    find_window(b, position, &w);
    position = w.from + tarn__unpermute(&w.domain, &w.net, position - w.from);
    return tarn__order_found(position, from);
}

static tarn_status measure_blocks(const tarn_order_options *o, uint64_t count,
                                  uint64_t *out_total, tarn_error *err)
{
    (void)count, (void)out_total;
    if (o->block < 1 || o->window < 1)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "block and window must be at least 1 (found %llu and %llu)",
                          (unsigned long long)o->block, (unsigned long long)o->window);
    return TARN_OK;
}

const tarn__order_kind tarn__order_blocks = {"blocks", measure_blocks, make_blocks,
                                             free,     map_blocks,     find_blocks};
