/* A table of key hashes. */
#include "pack/seen.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"

static size_t find(const tarn__seen *s, uint64_t hash)
{
    size_t at = hash & (s->n_slots - 1);
    while (s->hashes[at] && s->hashes[at] != hash)
        at = (at + 1) & (s->n_slots - 1);
    return at;
}

static tarn_status grow(tarn__seen *s, tarn_error *err)
{
    tarn__seen more = {.count = s->count, .n_slots = s->n_slots ? 2 * s->n_slots : 1024};
    more.hashes = calloc(more.n_slots, sizeof *more.hashes);
    more.origins = calloc(more.n_slots, sizeof *more.origins);
    if (!more.hashes || !more.origins) {
        tarn__seen_reset(&more);
        return tarn__fail_memory(err);
    }
    for (size_t i = 0; i < s->n_slots; i++) {
        if (!s->hashes[i]) continue;
        size_t at = find(&more, s->hashes[i]);
        more.hashes[at] = s->hashes[i];
        more.origins[at] = s->origins[i];
    }
    tarn__seen_reset(s);
    *s = more;
    return TARN_OK;
}

tarn_status tarn__seen_before(tarn__seen *s, const char *key, uint32_t origin,
                              bool *out_seen, uint32_t *out_origin, tarn_error *err)
{
    if (4 * (s->count + 1) > 3 * s->n_slots) TARN_TRY(grow(s, err));
    uint64_t hash = tarn__name_hash(key, strlen(key));
    size_t at = find(s, hash |= hash == 0);
    *out_seen = s->hashes[at] != 0;
    *out_origin = s->origins[at];
    if (*out_seen) return TARN_OK;
    s->hashes[at] = hash;
    s->origins[at] = origin;
    s->count++;
    return TARN_OK;
}

void tarn__seen_reset(tarn__seen *s)
{
    free(s->hashes);
    free(s->origins);
    *s = (tarn__seen){0};
}
