/* Open addressing; the position of a hash is derived from the hash itself. */
#include "base/hashes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void tarn__hashes_reset(tarn__hashes *set)
{
    free(set->slots);
    free(set->numbers);
    *set = (tarn__hashes){.max = set->max, .numbered = set->numbered};
}

void tarn__hashes_clear(tarn__hashes *set)
{
    if (set->count) memset(set->slots, 0, set->slot_count * sizeof *set->slots);
    set->count = 0;
}

static size_t find_slot(const tarn__hashes *set, uint64_t hash)
{
    size_t at = (size_t)hash & (set->slot_count - 1);
    while (set->slots[at] && set->slots[at] != hash)
        at = (at + 1) & (set->slot_count - 1);
    return at;
}

static tarn_status grow_table(tarn__hashes *set, tarn_error *err)
{
    tarn__hashes more = *set;
    more.slot_count = set->slot_count ? set->slot_count * 2 : 1024;
    more.slots = calloc(more.slot_count, sizeof *more.slots);
    more.numbers = set->numbered ? calloc(more.slot_count, sizeof *more.numbers) : NULL;
    if (!more.slots || (set->numbered && !more.numbers)) {
        tarn__hashes_reset(&more);
        return tarn__fail_memory(err);
    }
    for (size_t i = 0; i < set->slot_count; i++) {
        if (!set->slots[i]) continue;
        size_t at = find_slot(&more, set->slots[i]);
        more.slots[at] = set->slots[i];
        if (set->numbered) more.numbers[at] = set->numbers[i];
    }
    tarn__hashes_reset(set);
    *set = more;
    return TARN_OK;
}

tarn_status tarn__hashes_add(tarn__hashes *set, uint64_t hash, uint32_t *number,
                             bool *out_there, tarn_error *err)
{
    bool full = set->max && set->count >= set->max;
    if (hash == 0) hash = 1;
    if (set->count >= set->slot_count / 2 && !full) TARN_TRY(grow_table(set, err));
    size_t at = find_slot(set, hash);
    *out_there = set->slots[at] == hash;
    if (*out_there && set->numbered) *number = set->numbers[at];
    if (*out_there) return TARN_OK;
    if (full) return TARN_END;
    set->slots[at] = hash;
    if (set->numbered) set->numbers[at] = *number;
    set->count++;
    return TARN_OK;
}
