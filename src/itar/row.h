/* One row of a .taridx: 32 bytes, little-endian, unaligned fields. */
#ifndef TARN_ITAR_ROW_H
#define TARN_ITAR_ROW_H

#include <tarn/index.h>

#include "base/bytes.h"

#define TARN__ROW_SIZE 32u

static inline void tarn__row_get(const unsigned char *p, tarn_row *out)
{
    out->shard = tarn__get16(p);
    out->offset = tarn__get64(p + 2);
    out->size = tarn__get64(p + 10);
    out->field = tarn__get16(p + 18);
    out->collision = tarn__get32(p + 20);
    out->keyhash = tarn__get64(p + 24);
}

static inline void tarn__row_put(unsigned char *p, const tarn_row *row)
{
    tarn__put16(p, row->shard);
    tarn__put64(p + 2, row->offset);
    tarn__put64(p + 10, row->size);
    tarn__put16(p + 18, row->field);
    tarn__put32(p + 20, row->collision);
    tarn__put64(p + 24, row->keyhash);
}

static inline uint16_t tarn__row_shard(const unsigned char *p)
{
    return tarn__get16(p);
}

static inline uint64_t tarn__row_size(const unsigned char *p)
{
    return tarn__get64(p + 10);
}

static inline uint16_t tarn__row_field(const unsigned char *p)
{
    return tarn__get16(p + 18);
}

static inline uint32_t tarn__row_collision(const unsigned char *p)
{
    return tarn__get32(p + 20);
}

static inline uint64_t tarn__row_hash(const unsigned char *p)
{
    return tarn__get64(p + 24);
}

/* Whether two rows belong to the same sample. */
static inline bool tarn__row_same_key(const unsigned char *a, const unsigned char *b)
{
    return tarn__row_hash(a) == tarn__row_hash(b) &&
           tarn__row_collision(a) == tarn__row_collision(b);
}

#endif
