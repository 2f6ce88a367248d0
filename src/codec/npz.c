/* NumPy's .npz format: a zip of .npy members, written byte for byte as by np.savez
 * (deflated members as far as this zlib and Python's produce the same bytes), and read
 * through the central directory. */
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "base/utf8.h"
#include "codec/codec.h"

#define LOCAL_MAGIC   0x04034b50u
#define CENTRAL_MAGIC 0x02014b50u
#define END_MAGIC     0x06054b50u
#define LOCAL_SIZE    30u
#define CENTRAL_SIZE  46u
#define END_SIZE      22u
#define VERSION       45u /* required by the 64-bit sizes that NumPy writes */
#define UNIX          3u
#define DATE_1980     33u /* 1 January 1980; the time is 0 */
#define MODE          (0600u << 16)
#define FLAG_UTF8     0x800u
#define FLAG_LOCKED   0x1u
#define STORED        0u
#define DEFLATED      8u
#define ZIP64_EXTRA   20u
#define SUFFIX        ".npy"
#define SUFFIX_SIZE   4u
#define NAME_MAX_SIZE 65535u

/* --- Writing -------------------------------------------------------------------- */

typedef struct packed_member {
    uint32_t crc, packed, plain, offset;
    uint16_t flags, name_size;
} packed_member;

static uint32_t crc_of(const void *data, size_t size)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, size);
}

static tarn_status too_large(tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_LIMIT, "cannot write an npz of 4 GiB or more");
}

static void put_local(unsigned char *p, const packed_member *m, uint16_t method)
{
    memset(p, 0, LOCAL_SIZE);
    tarn__put32(p, LOCAL_MAGIC);
    tarn__put16(p + 4, VERSION);
    tarn__put16(p + 6, m->flags);
    tarn__put16(p + 8, method);
    tarn__put16(p + 12, DATE_1980);
    tarn__put32(p + 14, m->crc);
    tarn__put32(p + 18, UINT32_MAX);
    tarn__put32(p + 22, UINT32_MAX);
    tarn__put16(p + 26, m->name_size);
    tarn__put16(p + 28, ZIP64_EXTRA);
}

static void put_zip64(unsigned char *p, const packed_member *m)
{
    tarn__put16(p, 1);
    tarn__put16(p + 2, ZIP64_EXTRA - 4);
    tarn__put64(p + 4, m->plain);
    tarn__put64(p + 12, m->packed);
}

static bool is_ascii(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

static tarn_status add_name(tarn_bytes *out, const char *name, tarn_error *err)
{
    TARN_TRY(tarn__bytes_add(out, name, strlen(name), err));
    return tarn__bytes_add(out, SUFFIX, SUFFIX_SIZE, err);
}

/* Writes the header, with space for the sizes, the name and the data. */
static tarn_status add_member(const tarn_bytes *npy, const char *name, bool stored,
                              size_t begin, packed_member *m, tarn_bytes *out,
                              tarn_error *err)
{
    unsigned char fixed[LOCAL_SIZE] = {0}, extra[ZIP64_EXTRA] = {0};
    size_t at = out->size;
    TARN_TRY(tarn__bytes_add(out, fixed, sizeof fixed, err));
    TARN_TRY(add_name(out, name, err));
    TARN_TRY(tarn__bytes_add(out, extra, sizeof extra, err));
    size_t data_at = out->size;
    TARN_TRY(stored ? tarn__bytes_add(out, npy->data, npy->size, err)
                    : tarn__deflate_add(npy->data, npy->size, out, err));
    if (npy->size >= UINT32_MAX || out->size - begin >= UINT32_MAX) return too_large(err);
    m->crc = crc_of(npy->data, npy->size);
    m->plain = (uint32_t)npy->size;
    m->packed = (uint32_t)(out->size - data_at);
    m->offset = (uint32_t)(at - begin);
    put_local(out->data + at, m, stored ? STORED : DEFLATED);
    put_zip64(out->data + data_at - ZIP64_EXTRA, m);
    return TARN_OK;
}

static tarn_status check_name(packed_member *m, const char *name, tarn_error *err)
{
    size_t len = strlen(name);
    if (len > NAME_MAX_SIZE - SUFFIX_SIZE || !tarn__utf8_is_valid(name, len))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the name of an npz member is not UTF-8, or too long");
    m->name_size = (uint16_t)(len + SUFFIX_SIZE);
    m->flags = is_ascii(name, len) ? 0 : FLAG_UTF8;
    return TARN_OK;
}

static tarn_status add_central(const packed_member *m, const char *name, bool stored,
                               tarn_bytes *out, tarn_error *err)
{
    unsigned char p[CENTRAL_SIZE] = {0};
    tarn__put32(p, CENTRAL_MAGIC);
    p[4] = VERSION;
    p[5] = UNIX;
    tarn__put16(p + 6, VERSION);
    tarn__put16(p + 8, m->flags);
    tarn__put16(p + 10, stored ? STORED : DEFLATED);
    tarn__put16(p + 14, DATE_1980);
    tarn__put32(p + 16, m->crc);
    tarn__put32(p + 20, m->packed);
    tarn__put32(p + 24, m->plain);
    tarn__put16(p + 28, m->name_size);
    tarn__put32(p + 38, MODE);
    tarn__put32(p + 42, m->offset);
    TARN_TRY(tarn__bytes_add(out, p, sizeof p, err));
    return add_name(out, name, err);
}

static tarn_status add_end(size_t count, size_t begin, size_t central, tarn_bytes *out,
                           tarn_error *err)
{
    unsigned char p[END_SIZE] = {0};
    if (out->size - begin >= UINT32_MAX) return too_large(err);
    tarn__put32(p, END_MAGIC);
    tarn__put16(p + 8, (uint16_t)count);
    tarn__put16(p + 10, (uint16_t)count);
    tarn__put32(p + 12, (uint32_t)(out->size - central));
    tarn__put32(p + 16, (uint32_t)(central - begin));
    return tarn__bytes_add(out, p, sizeof p, err);
}

static tarn_status add_members(const tarn_value *value, bool stored,
                               packed_member *members, tarn_bytes *npy, tarn_bytes *out,
                               tarn_error *err)
{
    static const char *const unnamed[] = {"arr_0"};
    const char *const *names = value->names ? value->names : unnamed;
    size_t begin = out->size;
    for (size_t i = 0; i < value->count; i++) {
        TARN__KNOWN(value->names || i == 0);
        npy->size = 0;
        TARN_TRY(check_name(&members[i], names[i], err));
        TARN_TRY(tarn__npy_add(&value->arrays[i], npy, err));
        TARN_TRY(add_member(npy, names[i], stored, begin, &members[i], out, err));
    }
    size_t central = out->size;
    for (size_t i = 0; i < value->count; i++)
        TARN_TRY(add_central(&members[i], names[i], stored, out, err));
    return add_end(value->count, begin, central, out, err);
}

static tarn_status names_are_distinct(const tarn_value *value, tarn_error *err)
{
    tarn__names seen;
    tarn_status status = TARN_OK;
    tarn__names_init(&seen);
    for (size_t i = 0; status == TARN_OK && value->names && i < value->count; i++) {
        uint32_t id;
        status =
            tarn__names_add(&seen, value->names[i], strlen(value->names[i]), &id, err);
        if (status == TARN_OK && id != i)
            status = tarn__fail(err, TARN_ERR_USAGE,
                                "two arrays of an npz have the same name");
    }
    tarn__names_reset(&seen);
    return status;
}

TARN__ENCODER(tarn__encode_npz)
{
    packed_member *members;
    tarn_bytes npy = TARN_BYTES_INIT;
    bool named = value->kind == TARN_VALUE_ARRAYS && (value->names || !value->count);
    if (!named && !tarn__one_array(value))
        return tarn__wrong_value(err, extension, "named arrays, or one array", value);
    if (value->count >= TARN_MAX_FIELD_ARRAYS - 1)
        return tarn__fail(err, TARN_ERR_LIMIT, "%zu arrays in an npz; the limit is %u",
                          value->count, TARN_MAX_FIELD_ARRAYS - 2);
    TARN_TRY(names_are_distinct(value, err));
    TARN_TRY(tarn__alloc_items(value->count, sizeof *members, &members, err));
    tarn_status status = add_members(value, options->npz_stored, members, &npy, out, err);
    tarn_bytes_release(&npy);
    free(members);
    return status;
}

/* --- Reading -------------------------------------------------------------------- */

typedef struct zip {
    const unsigned char *data;
    size_t size;
    size_t at;      /* offset of the next entry of the central directory */
    size_t central; /* offset of the directory */
    unsigned count;
    uint64_t left; /* bytes that may still be allocated */
    tarn__names names;
    tarn_error *err;
} zip;

typedef struct entry {
    const char *name;
    size_t name_size, data_at, packed, plain;
    uint32_t crc;
    unsigned method;
} entry;

static tarn_status damaged(zip *z, size_t at, const char *what)
{
    return tarn__fail(z->err, TARN_ERR_FORMAT, "npz, byte %zu: %s", at, what);
}

/* Finds the last end record whose comment reaches exactly to the end. */
static tarn_status find_end(zip *z)
{
    if (z->size < END_SIZE)
        return tarn__fail(z->err, TARN_ERR_TRUNCATED,
                          "%zu bytes are too short for an npz", z->size);
    size_t lowest = z->size > END_SIZE + UINT16_MAX ? z->size - END_SIZE - UINT16_MAX : 0;
    for (size_t at = z->size - END_SIZE + 1; at-- > lowest;) {
        const unsigned char *p = z->data + at;
        if (tarn__get32(p) != END_MAGIC || tarn__get16(p + 20) != z->size - at - END_SIZE)
            continue;
        uint64_t length = tarn__get32(p + 12);
        z->central = tarn__get32(p + 16);
        z->count = tarn__get16(p + 10);
        if (tarn__get32(p + 4) || tarn__get16(p + 8) != z->count ||
            z->central + length != at)
            return damaged(z, at, "the end record does not fit into the file");
        z->at = z->central;
        return TARN_OK;
    }
    return tarn__fail(z->err, TARN_ERR_FORMAT,
                      "not an npz: it has no end record of a zip file");
}

static tarn_status read_local(zip *z, size_t at, entry *e)
{
    if (!tarn__range_in(at, LOCAL_SIZE, z->central) ||
        tarn__get32(z->data + at) != LOCAL_MAGIC)
        return damaged(z, at, "expected a member header here");
    const unsigned char *p = z->data + at;
    uint64_t data_at =
        (uint64_t)at + LOCAL_SIZE + tarn__get16(p + 26) + tarn__get16(p + 28);
    if (tarn__get16(p + 26) != e->name_size ||
        !tarn__range_in(data_at, e->packed, z->central) ||
        memcmp(p + LOCAL_SIZE, e->name, e->name_size) != 0)
        return damaged(z, at, "the header of a member does not match the directory");
    e->data_at = (size_t)data_at;
    return TARN_OK;
}

static tarn_status read_entry(zip *z, entry *e)
{
    size_t end = z->size - END_SIZE;
    if (!tarn__range_in(z->at, CENTRAL_SIZE, end) ||
        tarn__get32(z->data + z->at) != CENTRAL_MAGIC)
        return damaged(z, z->at, "expected a directory entry here");
    const unsigned char *p = z->data + z->at;
    size_t tail = (size_t)tarn__get16(p + 30) + tarn__get16(p + 32);
    *e = (entry){.name = (const char *)p + CENTRAL_SIZE,
                 .name_size = tarn__get16(p + 28),
                 .packed = tarn__get32(p + 20),
                 .plain = tarn__get32(p + 24),
                 .crc = tarn__get32(p + 16),
                 .method = tarn__get16(p + 10)};
    if (!tarn__range_in(z->at + CENTRAL_SIZE, e->name_size + tail, end))
        return damaged(z, z->at, "a directory entry ends after the directory");
    if (e->packed == UINT32_MAX || e->plain == UINT32_MAX ||
        (tarn__get16(p + 8) & FLAG_LOCKED) ||
        (e->method != STORED && e->method != DEFLATED))
        return tarn__fail(z->err, TARN_ERR_UNSUPPORTED,
                          "npz, byte %zu: the member is encrypted, has 4 GiB or more, or "
                          "is neither stored nor deflated",
                          z->at);
    if (e->method == STORED && e->packed != e->plain)
        return damaged(z, z->at, "a stored member has two different sizes");
    z->at += CENTRAL_SIZE + e->name_size + tail;
    return read_local(z, tarn__get32(p + 42), e);
}

static tarn_status take_name(zip *z, const entry *e, char **out)
{
    uint32_t id;
    size_t known = z->names.count;
    bool is_npy = e->name_size >= SUFFIX_SIZE &&
                  !memcmp(e->name + e->name_size - SUFFIX_SIZE, SUFFIX, SUFFIX_SIZE);
    if (!is_npy || memchr(e->name, 0, e->name_size) ||
        !tarn__utf8_is_valid(e->name, e->name_size))
        return tarn__fail(
            z->err, TARN_ERR_UNSUPPORTED,
            "the npz has a member that is not an .npy, or whose name is not UTF-8");
    size_t len = e->name_size - SUFFIX_SIZE;
    TARN_TRY(tarn__names_add(&z->names, e->name, len, &id, z->err));
    if (z->names.count == known)
        return damaged(z, z->at, "two members have the same name");
    *out = malloc(len + 1);
    if (!*out) return tarn__fail_memory(z->err);
    memcpy(*out, e->name, len);
    (*out)[len] = '\0';
    return TARN_OK;
}

static tarn_status expand_member(zip *z, const entry *e, tarn_value *out)
{
    unsigned char *data = malloc(e->plain ? e->plain : 1);
    if (!data) return tarn__fail_memory(z->err);
    tarn_status status =
        tarn__inflate_into(z->data + e->data_at, e->packed, data, e->plain, z->err);
    if (status == TARN_OK && crc_of(data, e->plain) != e->crc)
        status = tarn__fail(z->err, TARN_ERR_CHECKSUM, "a member of the npz is damaged");
    if (status == TARN_OK)
        status = tarn__npy_decode(data, e->plain, z->left, out, z->err);
    if (status == TARN_OK) return tarn__value_own(out, data, z->err);
    free(data);
    return status;
}

static tarn_status read_member(zip *z, tarn_value *out, char **out_name)
{
    entry e;
    TARN_TRY(read_entry(z, &e));
    TARN_TRY(take_name(z, &e, out_name));
    if (e.plain > z->left)
        return tarn__fail(
            z->err, TARN_ERR_LIMIT,
            "the arrays of the npz need more bytes than the limit (max_size)");
    z->left -= e.plain;
    if (e.method == DEFLATED) return expand_member(z, &e, out);
    if (crc_of(z->data + e.data_at, e.plain) != e.crc)
        return tarn__fail(z->err, TARN_ERR_CHECKSUM, "a member of the npz is damaged");
    return tarn__npy_decode(z->data + e.data_at, e.plain, e.plain, out, z->err);
}

static tarn_status read_members(zip *z, tarn_value *out)
{
    tarn_value *items = NULL;
    char **names = NULL;
    TARN_TRY(find_end(z));
    tarn_status status = tarn__alloc_items(z->count, sizeof *items, &items, z->err);
    if (status == TARN_OK)
        status = tarn__alloc_items(z->count, sizeof *names, &names, z->err);
    for (unsigned i = 0; status == TARN_OK && i < z->count; i++)
        status = read_member(z, &items[i], &names[i]);
    if (status == TARN_OK) return tarn__value_gather(out, items, names, z->count, z->err);
    if (names)
        tarn__values_free(items, names, z->count);
    else
        free(items);
    return status;
}

TARN__DECODER(tarn__decode_npz)
{
    zip z = {.data = data, .size = size, .left = options->max_size, .err = err};
    tarn__names_init(&z.names);
    tarn_status status = read_members(&z, out);
    tarn__names_reset(&z.names);
    return status;
}
