/* A hash table of keys that are stored elsewhere. */
#include "itar/keyset.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "base/sort.h"

#define TAG(hash) ((hash)&0xffffffff00000000u)

void tarn__keyset_reset(tarn__keyset *set)
{
    free(set->slots);
    free(set->first_run);
    *set = (tarn__keyset){0};
}

tarn_status tarn__keyset_next_scan(tarn__keyset *set, tarn_error *err)
{
    TARN_TRY(tarn__grow(&set->first_run, sizeof *set->first_run, set->n_scans,
                        &set->capacity, err));
    set->first_run[set->n_scans++] = set->count;
    return TARN_OK;
}

static tarn__name key_of(const tarn__keyset *set, const tarn__scan *scans,
                         uint32_t number)
{
    size_t scan = tarn__stretch_of(set->first_run, set->n_scans, number);
    return tarn__scan_key(&scans[scan], number - set->first_run[scan]);
}

static bool is_key(const tarn__keyset *set, const tarn__scan *scans, uint64_t slot,
                   const char *key, size_t len)
{
    tarn__name name = key_of(set, scans, (uint32_t)slot - 1);
    return name.size == len && memcmp(name.data, key, len) == 0;
}

uint64_t tarn__keyset_hash(const tarn__keyset *set, const char *key, size_t len)
{
    uint64_t hash = tarn__name_hash(key, len);
    if (set->slots) __builtin_prefetch(&set->slots[hash & (set->slot_count - 1)], 1);
    return hash;
}

/* The slot that has the key, or the empty one where it belongs. */
static size_t slot_of(const tarn__keyset *set, const uint64_t *slots, size_t slot_count,
                      const tarn__scan *scans, uint64_t hash, const char *key, size_t len)
{
    size_t mask = slot_count - 1, at = (size_t)hash & mask;
    while (slots[at] &&
           !(TAG(slots[at]) == TAG(hash) && is_key(set, scans, slots[at], key, len)))
        at = (at + 1) & mask;
    return at;
}

size_t tarn__keyset_find(const tarn__keyset *set, const tarn__scan *scans,
                         const char *key, size_t len, uint64_t hash)
{
    if (!set->slot_count) return SIZE_MAX;
    size_t at = slot_of(set, set->slots, set->slot_count, scans, hash, key, len);
    return set->slots[at] ? tarn__stretch_of(set->first_run, set->n_scans,
                                             (uint32_t)set->slots[at] - 1)
                          : SIZE_MAX;
}

bool tarn__keyset_has(const tarn__keyset *set, const tarn__scan *scans, const char *key,
                      size_t len, uint64_t hash)
{
    return tarn__keyset_find(set, scans, key, len, hash) != SIZE_MAX;
}

static void put_slot(uint64_t *slots, size_t slot_count, uint64_t hash, uint32_t number)
{
    size_t at = (size_t)hash & (slot_count - 1);
    while (slots[at])
        at = (at + 1) & (slot_count - 1);
    slots[at] = TAG(hash) | (number + 1);
}

static tarn_status check_count(const tarn__keyset *set, tarn_error *err)
{
    if (set->count < UINT32_MAX - 1) return TARN_OK;
    return tarn__fail(err, TARN_ERR_LIMIT, "more than %u samples", UINT32_MAX - 1);
}

/* At most half of the slots are in use. */
static tarn_status make_room(tarn__keyset *set, const tarn__scan *scans, tarn_error *err)
{
    TARN_TRY(check_count(set, err));
    if (set->count < set->slot_count / 2) return TARN_OK;
    size_t next = set->slot_count ? set->slot_count * 2 : 1024;
    uint64_t *slots = calloc(next, sizeof *slots);
    if (!slots) return tarn__fail_memory(err);
    for (uint32_t i = 0; i < set->count; i++) {
        tarn__name key = key_of(set, scans, i);
        uint64_t hash = tarn__name_hash(key.data, key.size);
        size_t at = slot_of(set, slots, next, scans, hash, key.data, key.size);
        if (!slots[at]) slots[at] = TAG(hash) | (i + 1);
    }
    free(set->slots);
    set->slots = slots;
    set->slot_count = next;
    return TARN_OK;
}

tarn_status tarn__keyset_add(tarn__keyset *set, const tarn__scan *scans, uint64_t hash,
                             tarn_error *err)
{
    TARN_TRY(make_room(set, scans, err));
    put_slot(set->slots, set->slot_count, hash, set->count++);
    return TARN_OK;
}

tarn_status tarn__keyset_pass(tarn__keyset *set, tarn_error *err)
{
    TARN_TRY(check_count(set, err));
    set->count++;
    return TARN_OK;
}
