/* Reads FlatBuffers: tables, vectors and strings inside one message. Every access is
 * bounds-checked here although ipc_check.c has checked the message before, because the
 * two checks share no code. A missing or out-of-bounds item is "no value" (at == 0), and
 * every function that is given no value returns no value or the default. */
#ifndef TARN_IAC_FLAT_H
#define TARN_IAC_FLAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/checked.h"

typedef struct flat {
    const unsigned char *data;
    uint32_t size;
    uint32_t at; /* offset of a table or of a vector's length; 0 for no value */
} flat;

static inline uint32_t flat_u32(flat f, uint32_t at)
{
    return tarn__range_in(at, 4, f.size) ? tarn__get32(f.data + at) : 0;
}

static inline flat flat_none(flat f)
{
    return (flat){f.data, f.size, 0};
}

/* The item that the offset at position at refers to. */
static inline flat flat_follow(flat f, uint32_t at)
{
    uint64_t to = (uint64_t)at + flat_u32(f, at);
    if (!at || !tarn__range_in(to, 4, f.size) || to == at) return flat_none(f);
    return (flat){f.data, f.size, (uint32_t)to};
}

static inline flat flat_root(const unsigned char *data, uint32_t size)
{
    flat f = {data, size, 0};
    uint32_t to = flat_u32(f, 0);
    if (!tarn__range_in(to, 4, size)) return f;
    f.at = to;
    return f;
}

/* The position of field n of a table, or 0. */
static inline uint32_t flat_slot(flat t, unsigned n, unsigned width)
{
    if (!t.at) return 0;
    int64_t vtable = (int64_t)t.at - (int32_t)flat_u32(t, t.at);
    if (vtable < 0 || !tarn__range_in((uint64_t)vtable, 4, t.size)) return 0;
    unsigned length = tarn__get16(t.data + vtable), slot = 4 + 2 * n;
    if (slot + 2 > length || !tarn__range_in((uint64_t)vtable, length, t.size)) return 0;
    unsigned offset = tarn__get16(t.data + vtable + slot);
    if (!offset || !tarn__range_in((uint64_t)t.at + offset, width, t.size)) return 0;
    return t.at + offset;
}

static inline int64_t flat_i64(flat t, unsigned n, int64_t otherwise)
{
    uint32_t at = flat_slot(t, n, 8);
    return at ? (int64_t)tarn__get64(t.data + at) : otherwise;
}

static inline int32_t flat_i32(flat t, unsigned n, int32_t otherwise)
{
    uint32_t at = flat_slot(t, n, 4);
    return at ? (int32_t)tarn__get32(t.data + at) : otherwise;
}

static inline int flat_i16(flat t, unsigned n, int otherwise)
{
    uint32_t at = flat_slot(t, n, 2);
    return at ? (int16_t)tarn__get16(t.data + at) : otherwise;
}

static inline int flat_u8(flat t, unsigned n, int otherwise)
{
    uint32_t at = flat_slot(t, n, 1);
    return at ? t.data[at] : otherwise;
}

/* A field that is a table, a vector or a string. */
static inline flat flat_child(flat t, unsigned n)
{
    return flat_follow(t, flat_slot(t, n, 4));
}

/* The number of elements of a vector with elements of width bytes; 0 if they do not
 * fit. */
static inline uint32_t flat_count(flat v, unsigned width)
{
    if (!v.at) return 0;
    uint32_t count = flat_u32(v, v.at);
    return tarn__range_in((uint64_t)v.at + 4, (uint64_t)count * width, v.size) ? count
                                                                               : 0;
}

static inline const unsigned char *flat_items(flat v)
{
    return v.data + v.at + 4;
}

static inline flat flat_item(flat v, uint32_t i)
{
    return flat_follow(v, v.at + 4 + 4 * i);
}

#endif
