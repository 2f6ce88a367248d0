/* Keys that came by, where the target does not look itself. */
#include "seen.h"

#include <stdlib.h>

typedef struct cli_seen_slot {
    uint64_t hash; /* 0: free */
    uint64_t from;
} slot;

static slot *find(slot *slots, size_t n, uint64_t hash)
{
    size_t at = hash & (n - 1);
    while (slots[at].hash && slots[at].hash != hash)
        at = (at + 1) & (n - 1);
    return &slots[at];
}

static void grow(cli_seen *s)
{
    size_t n = s->n_slots ? 2 * s->n_slots : 1024;
    slot *slots = calloc(n, sizeof *slots);
    if (!slots) cli_no_memory();
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->slots[i].hash) *find(slots, n, s->slots[i].hash) = s->slots[i];
    free(s->slots);
    s->slots = slots;
    s->n_slots = n;
}

static uint64_t hash_of(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 0x100000001b3;
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
    return hash | (hash == 0);
}

bool cli_seen_before(cli_seen *s, const char *key, uint64_t from, uint64_t *out_from)
{
    uint64_t hash = hash_of(key);
    if (2 * (s->count + 1) > s->n_slots) grow(s);
    slot *at = find(s->slots, s->n_slots, hash);
    *out_from = at->from;
    if (at->hash) return true;
    *at = (slot){hash, from};
    s->count++;
    return false;
}

void cli_seen_free(cli_seen *s)
{
    free(s->slots);
    *s = (cli_seen){0};
}
