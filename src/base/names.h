/* A table of distinct names, numbered from 0 in the order they were added.
 *
 * The hash is SipHash with a random key for each process, so nobody can prepare names
 * that collide. A name found by its hash is always compared in full. */
#ifndef TARN_BASE_NAMES_H
#define TARN_BASE_NAMES_H

#include "base/buf.h"

typedef struct tarn__name {
    const char *data; /* NUL-terminated */
    size_t size;
} tarn__name;

typedef struct tarn__names {
    struct tarn__names_entry *entries;
    uint32_t *slots; /* entry number + 1, 0 for an empty slot */
    size_t count, capacity;
    size_t slot_count;
} tarn__names;

#define TARN__NAME_NONE UINT32_MAX

void tarn__names_init(tarn__names *names);
void tarn__names_reset(tarn__names *names);

/* The number of a name, or TARN__NAME_NONE. */
uint32_t tarn__names_find(const tarn__names *names, const char *name, size_t len);

/* Adds a copy of the name unless the table has it; *out_id is its number in both
 * cases. */
TARN_CHECKED tarn_status tarn__names_add(tarn__names *names, const char *name, size_t len,
                                         uint32_t *out_id, tarn_error *err);

/* The hash that the table uses. It is constant only within one process. */
uint64_t tarn__name_hash(const char *name, size_t len);

tarn__name tarn__names_get(const tarn__names *names, size_t id);

/* Appends all names, separated by newlines. */
TARN_CHECKED tarn_status tarn__names_join(const tarn__names *names, tarn__buf *out,
                                          tarn_error *err);

/* The reverse: adds exactly count names from a text. *out_wrong is NULL, or says what is
 * wrong at offset *out_at. count decides, because zero names and one empty name are both
 * an empty text. */
TARN_CHECKED tarn_status tarn__names_split(tarn__names *names, const char *text,
                                           size_t size, size_t count,
                                           const char **out_wrong, size_t *out_at,
                                           tarn_error *err);

#endif
