/* The name table: open addressing over entries that own their names. */
#include "base/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/bytes.h"
#include "base/error.h"

typedef struct tarn__names_entry {
    uint64_t hash;
    char *name;
    size_t size;
} entry;

static uint64_t sip_key[2];
static pthread_once_t sip_key_once = PTHREAD_ONCE_INIT;

static void draw_sip_key(void)
{
    if (getrandom(sip_key, sizeof sip_key, GRND_NONBLOCK) == (ssize_t)sizeof sip_key)
        return;
    /* At early boot there may be no entropy yet: use the clock and an address. */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sip_key[0] = (uint64_t)now.tv_nsec * UINT64_C(0x9e3779b97f4a7c15);
    sip_key[1] = (uint64_t)(uintptr_t)&sip_key_once;
}

static inline uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3, the variant that hash tables use. */
static uint64_t sip_hash(const char *data, size_t len)
{
    uint64_t v[4] = {sip_key[0] ^ UINT64_C(0x736f6d6570736575),
                     sip_key[1] ^ UINT64_C(0x646f72616e646f6d),
                     sip_key[0] ^ UINT64_C(0x6c7967656e657261),
                     sip_key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)len << 56;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t m = tarn__get64(data + i);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    for (size_t j = 0; i + j < len; j++)
        last |= (uint64_t)(unsigned char)data[i + j] << (8 * j);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int r = 0; r < 3; r++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t tarn__name_hash(const char *name, size_t len)
{
    pthread_once(&sip_key_once, draw_sip_key);
    return sip_hash(name, len);
}

void tarn__names_init(tarn__names *names)
{
    pthread_once(&sip_key_once, draw_sip_key);
    *names = (tarn__names){0};
}

void tarn__names_reset(tarn__names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->entries[i].name);
    free(names->entries);
    free(names->slots);
    *names = (tarn__names){0};
}

/* The slot that holds the name, or the empty one where it would go. */
static size_t probe_slots(const tarn__names *names, uint64_t hash, const char *name,
                          size_t len)
{
    size_t mask = names->slot_count - 1;
    size_t at = (size_t)hash & mask;
    while (names->slots[at]) {
        const entry *e = &names->entries[names->slots[at] - 1];
        if (e->hash == hash && e->size == len && memcmp(e->name, name, len) == 0) break;
        at = (at + 1) & mask;
    }
    return at;
}

uint32_t tarn__names_find(const tarn__names *names, const char *name, size_t len)
{
    if (names->count == 0) return TARN__NAME_NONE;
    return names->slots[probe_slots(names, sip_hash(name, len), name, len)] - 1;
}

static tarn_status grow_slots(tarn__names *names, tarn_error *err)
{
    if (names->slot_count && names->count < names->slot_count / 2) return TARN_OK;
    size_t next = names->slot_count ? names->slot_count * 2 : 64;
    uint32_t *slots = calloc(next, sizeof *slots);
    if (!slots) return tarn__fail_memory(err);
    for (size_t i = 0; i < names->count; i++) {
        size_t at = (size_t)names->entries[i].hash & (next - 1);
        while (slots[at])
            at = (at + 1) & (next - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(names->slots);
    names->slots = slots;
    names->slot_count = next;
    return TARN_OK;
}

tarn_status tarn__names_add(tarn__names *names, const char *name, size_t len,
                            uint32_t *out_id, tarn_error *err)
{
    TARN_TRY(grow_slots(names, err));
    uint64_t hash = sip_hash(name, len);
    size_t at = probe_slots(names, hash, name, len);
    if (names->slots[at]) {
        *out_id = names->slots[at] - 1;
        return TARN_OK;
    }
    if (names->count >= UINT32_MAX - 1)
        return tarn__fail(err, TARN_ERR_LIMIT, "more than %u names", UINT32_MAX - 1);
    TARN_TRY(tarn__grow(&names->entries, sizeof *names->entries, names->count,
                        &names->capacity, err));
    char *copy = malloc(len + 1);
    if (!copy) return tarn__fail_memory(err);
    if (len) memcpy(copy, name, len);
    copy[len] = '\0';
    names->entries[names->count] = (entry){hash, copy, len};
    *out_id = (uint32_t)names->count++;
    names->slots[at] = *out_id + 1;
    return TARN_OK;
}

tarn__name tarn__names_get(const tarn__names *names, size_t id)
{
    return (tarn__name){names->entries[id].name, names->entries[id].size};
}

tarn_status tarn__names_join(const tarn__names *names, tarn__buf *out, tarn_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        if (i) TARN_TRY(tarn__buf_add(out, "\n", 1, err));
        TARN_TRY(tarn__buf_add(out, names->entries[i].name, names->entries[i].size, err));
    }
    return TARN_OK;
}

tarn_status tarn__names_split(tarn__names *names, const char *text, size_t size,
                              size_t count, const char **out_wrong, size_t *out_at,
                              tarn_error *err)
{
    size_t at = 0;
    bool more = count > 0;
    *out_wrong = NULL;
    for (size_t i = 0; i < count && !*out_wrong; i++) {
        const char *end = at < size ? memchr(text + at, '\n', size - at) : NULL;
        size_t len = end ? (size_t)(end - text) - at : size - at;
        uint32_t id;
        *out_at = at;
        if (!more) *out_wrong = "fewer names than were counted";
        TARN_TRY(tarn__names_add(names, text + at, len, &id, err));
        if (id != i && !*out_wrong) *out_wrong = "a name is listed twice";
        more = end != NULL;
        at += len + more;
    }
    if (*out_wrong || (at == size && !(count && more))) return TARN_OK;
    *out_at = at;
    *out_wrong = "more names than were counted";
    return TARN_OK;
}
