/* Open addressing; the hash is its own place. */
#include "base/hashes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void tarn__hashes_init(tarn__hashes *set, size_t max)
{
    *set = (tarn__hashes){.max = max};
}

void tarn__hashes_reset(tarn__hashes *set)
{
    free(set->slots);
    *set = (tarn__hashes){.max = set->max};
}

void tarn__hashes_clear(tarn__hashes *set)
{
    if (set->count) memset(set->slots, 0, set->slot_count * sizeof *set->slots);
    set->count = 0;
}

static uint64_t *find(uint64_t *slots, size_t slot_count, uint64_t hash)
{
    size_t at = (size_t)hash & (slot_count - 1);
    while (slots[at] && slots[at] != hash)
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static tarn_status grow(tarn__hashes *set, tarn_error *err)
{
    size_t next = set->slot_count ? set->slot_count * 2 : 1024;
    uint64_t *slots = calloc(next, sizeof *slots);
    if (!slots) return tarn__fail_memory(err);
    for (size_t i = 0; i < set->slot_count; i++)
        if (set->slots[i]) *find(slots, next, set->slots[i]) = set->slots[i];
    free(set->slots);
    set->slots = slots;
    set->slot_count = next;
    return TARN_OK;
}

tarn_status tarn__hashes_add(tarn__hashes *set, uint64_t hash, bool *out_there,
                             tarn_error *err)
{
    if (hash == 0) hash = 1;
    if (set->count >= set->slot_count / 2 && set->count < set->max)
        TARN_TRY(grow(set, err));
    if (set->slot_count == 0) return TARN_END;
    uint64_t *slot = find(set->slots, set->slot_count, hash);
    *out_there = *slot == hash;
    if (*out_there) return TARN_OK;
    if (set->count >= set->max) return TARN_END;
    *slot = hash;
    set->count++;
    return TARN_OK;
}
