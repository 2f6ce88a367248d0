/* Composes headers: ustar, with a pax header before it if a name or a number does not
 * fit. The bytes are those of Python's tarfile, which makes these choices: records in the
 * order path, uname, gname, uid, gid, size, mtime; "?" in the ustar fields for each
 * character that is not ASCII; 0 in the number fields; no use of the prefix field. */
#include "tar/compose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "tar/digest.h"

enum {
    NAME = 0,
    NAME_SIZE = 100,
    MODE = 100,
    UID = 108,
    GID = 116,
    SIZE = 124,
    MTIME = 136,
    CHECKSUM = 148,
    TYPE = 156,
    MAGIC = 257,
    UNAME = 265,
    GNAME = 297,
    OWNER_SIZE = 32,
    DIGITS = 11, /* of size and time */
};
#define OCTAL_MAX  ((UINT64_C(1) << 33) - 1) /* the maximum of DIGITS octal digits */
#define ID_MAX     ((1u << 21) - 1)
#define PAX_NAME   "././@PaxHeader"
#define PAX_MAX    (4 * TARN_MAX_NAME)
#define BINARY     "21 hdrcharset=BINARY\n"
#define BINARY_LEN (sizeof BINARY - 1)

static void put_octal(unsigned char *field, unsigned digits, uint64_t value)
{
    for (unsigned i = digits; i-- > 0; value >>= 3)
        field[i] = (unsigned char)('0' + (value & 7));
}

static uint32_t sum_of(const unsigned char *data, size_t len)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum += data[i];
    return sum;
}

/* The checksum field counts as blanks. */
static void put_checksum(unsigned char *block, uint32_t sum)
{
    put_octal(block + CHECKSUM, 6, sum);
    block[CHECKSUM + 6] = 0;
    block[CHECKSUM + 7] = ' ';
}

static bool is_ascii(const char *text, size_t len)
{
    uint64_t all = 0, eight;
    for (; len >= sizeof eight; text += sizeof eight, len -= sizeof eight) {
        memcpy(&eight, text, sizeof eight);
        all |= eight;
    }
    for (size_t i = 0; i < len; i++)
        all |= (unsigned char)text[i];
    return !(all & UINT64_C(0x8080808080808080));
}

/* Puts text in a fixed field, with one "?" for each character (or invalid byte) beyond
 * ASCII. */
static void put_ascii(unsigned char *field, size_t size, const char *text, size_t len)
{
    for (size_t at = 0, i = 0; i < len && at < size; at++) {
        size_t step = (unsigned char)text[i] < 0x80
                          ? 1
                          : tarn__utf8_valid_length(text + i, len - i);
        field[at] = step == 1 ? (unsigned char)text[i] : '?';
        i += step ? step : 1;
    }
}

/* "LEN key=value\n", where LEN includes itself. */
static tarn_status add_record(tarn__buf *out, const char *key, const char *value,
                              size_t value_len, tarn_error *err)
{
    size_t rest = strlen(key) + value_len + 3, total = rest, before = 0;
    char digits[24];
    while (total != before) {
        before = total;
        total = rest + (size_t)snprintf(digits, sizeof digits, "%zu", before);
    }
    TARN_TRY(tarn__buf_add(out, digits, strlen(digits), err));
    TARN_TRY(tarn__buf_add(out, " ", 1, err));
    TARN_TRY(tarn__buf_add(out, key, strlen(key), err));
    TARN_TRY(tarn__buf_add(out, "=", 1, err));
    TARN_TRY(tarn__buf_add(out, value, value_len, err));
    return tarn__buf_add(out, "\n", 1, err);
}

static tarn_status add_number(tarn__buf *out, const char *key, long long value,
                              tarn_error *err)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%lld", value);
    return add_record(out, key, text, (size_t)len, err);
}

/* --- Values common to all members -------------------------------------------------- */

static tarn_status take_owner(tarn__composer *c, size_t field, const char *key,
                              const char *name, tarn_error *err)
{
    size_t len = strlen(name);
    bool ascii = is_ascii(name, len);
    if (c->names == TARN_NAMES_PLAIN) {
        if (len > OWNER_SIZE)
            return tarn__fail(err, TARN_ERR_USAGE, "%s is longer than %d bytes", key,
                              OWNER_SIZE);
        memcpy(c->ready + field, name, len);
        return TARN_OK;
    }
    put_ascii(c->ready + field, OWNER_SIZE, name, len);
    if (ascii && len <= OWNER_SIZE) return TARN_OK;
    if (!ascii && !tarn__utf8_is_valid(name, len)) c->constant_binary = true;
    return add_record(&c->constant, key, name, len, err);
}

static tarn_status take_id(tarn__composer *c, size_t field, const char *key, uint32_t id,
                           tarn_error *err)
{
    put_octal(c->ready + field, 7, id > ID_MAX ? 0 : id);
    if (id <= ID_MAX) return TARN_OK;
    if (c->names == TARN_NAMES_PLAIN)
        return tarn__fail(err, TARN_ERR_USAGE, "%s %u does not fit in a plain header",
                          key, id);
    return add_number(&c->constant, key, id, err);
}

static tarn_status default_mtime(int64_t *out, tarn_error *err)
{
    const char *text = getenv("SOURCE_DATE_EPOCH");
    char *end;
    *out = 0;
    if (!text || !*text) return TARN_OK;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || text[0] < '0' || text[0] > '9' || value > OCTAL_MAX)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "SOURCE_DATE_EPOCH is not a time in seconds: %.40s", text);
    *out = (int64_t)value;
    return TARN_OK;
}

static bool fits_octal(int64_t value)
{
    return value >= 0 && (uint64_t)value <= OCTAL_MAX;
}

/* Whether a text is a number as Python writes it: digits, a point, an exponent. */
static bool is_decimal(const char *text)
{
    static const char allowed[] = "0123456789+-.e";
    size_t len = strlen(text);
    return len && len < 64 && strspn(text, allowed) == len && strpbrk(text, "0123456789");
}

static tarn_status take_mtime_text(tarn__composer *c, const char *text, tarn_error *err)
{
    if (!is_decimal(text))
        return tarn__fail(err, TARN_ERR_USAGE,
                          "mtime_text is not a decimal number: %.40s", text);
    if (c->names == TARN_NAMES_PLAIN)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the time %s does not fit in a plain header", text);
    return add_record(&c->constant, "mtime", text, strlen(text), err);
}

static tarn_status take_options(tarn__composer *c, const tarn_tar_writer_options *o,
                                tarn_error *err)
{
    int64_t mtime = o->mtime;
    if (mtime == TARN_MTIME_DEFAULT) TARN_TRY(default_mtime(&mtime, err));
    put_octal(c->ready + MODE, 7, o->mode & 07777u);
    put_octal(c->ready + MTIME, DIGITS, fits_octal(mtime) ? (uint64_t)mtime : 0);
    c->ready[TYPE] = '0';
    memcpy(c->ready + MAGIC,
           "ustar\0"
           "00",
           8);
    TARN_TRY(take_owner(c, UNAME, "uname", o->user ? o->user : "bigdata", err));
    TARN_TRY(take_owner(c, GNAME, "gname", o->group ? o->group : "bigdata", err));
    TARN_TRY(take_id(c, UID, "uid", o->uid, err));
    TARN_TRY(take_id(c, GID, "gid", o->gid, err));
    if (!fits_octal(mtime) && c->names == TARN_NAMES_PLAIN)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the time %lld does not fit in a plain header",
                          (long long)mtime);
    c->mtime_at = c->constant.size;
    if (o->mtime_text) return take_mtime_text(c, o->mtime_text, err);
    if (!fits_octal(mtime)) TARN_TRY(add_number(&c->constant, "mtime", mtime, err));
    return TARN_OK;
}

tarn_status tarn__composer_init(tarn__composer *c, const tarn_tar_writer_options *options,
                                tarn_error *err)
{
    *c = (tarn__composer){.names = options->names};
    tarn__buf_init(&c->constant, PAX_MAX);
    tarn__buf_init(&c->records, PAX_MAX);
    memset(c->ready + CHECKSUM, ' ', 8);
    tarn_status status = take_options(c, options, err);
    c->ready_sum = sum_of(c->ready, sizeof c->ready);
    if (status != TARN_OK) tarn__composer_reset(c);
    return status;
}

void tarn__composer_reset(tarn__composer *c)
{
    tarn__buf_reset(&c->constant);
    tarn__buf_reset(&c->records);
}

/* --- One member -------------------------------------------------------------------- */

static tarn_status check_plain(const char *name, size_t len, uint64_t size,
                               tarn_error *err)
{
    if (len > NAME_SIZE)
        return tarn__fail(
            err, TARN_ERR_LIMIT,
            "the name %s has %zu bytes; a plain tar header holds %d; use pax "
            "headers (tarn pack --pax) for longer names",
            TARN__SHOW(name, len), len, NAME_SIZE);
    if (size > OCTAL_MAX)
        return tarn__fail(
            err, TARN_ERR_LIMIT,
            "%s has %llu bytes; a plain tar header allows %llu; use pax headers "
            "(tarn pack --pax) for larger files",
            TARN__SHOW(name, len), (unsigned long long)size,
            (unsigned long long)OCTAL_MAX);
    return TARN_OK;
}

static tarn_status check_name(const tarn__composer *c, const char *name, size_t len,
                              uint64_t size, tarn_error *err)
{
    if (len == 0) return tarn__fail(err, TARN_ERR_USAGE, "a member has no name");
    if (len > TARN_MAX_NAME)
        return tarn__fail(err, TARN_ERR_LIMIT, "a name has %zu bytes (the limit is %u)",
                          len, TARN_MAX_NAME);
    if (size > TARN_MAX_MEMBER_SIZE)
        return tarn__fail(err, TARN_ERR_LIMIT, "a member is too large: %llu bytes",
                          (unsigned long long)size);
    return c->names == TARN_NAMES_PLAIN ? check_plain(name, len, size, err) : TARN_OK;
}

/* Collects the records that a member needs; nearly all need none. */
static tarn_status collect_records(tarn__composer *c, const char *name, size_t len,
                                   uint64_t size, tarn_error *err)
{
    bool ascii = c->name_is_ascii = is_ascii(name, len);
    c->records.size = 0;
    if (ascii && len <= NAME_SIZE && size <= OCTAL_MAX && !c->constant.size)
        return TARN_OK;
    if (c->names == TARN_NAMES_PLAIN) return TARN_OK;
    if (c->constant_binary || (!ascii && !tarn__utf8_is_valid(name, len)))
        TARN_TRY(tarn__buf_add(&c->records, BINARY, BINARY_LEN, err));
    if (!ascii || len > NAME_SIZE)
        TARN_TRY(add_record(&c->records, "path", name, len, err));
    size_t split = c->mtime_at, rest = c->constant.size - split;
    if (split) TARN_TRY(tarn__buf_add(&c->records, c->constant.data, split, err));
    if (size > OCTAL_MAX) TARN_TRY(add_number(&c->records, "size", (long long)size, err));
    return rest ? tarn__buf_add(&c->records, c->constant.data + split, rest, err)
                : TARN_OK;
}

tarn_status tarn__compose_size(tarn__composer *c, const char *name, size_t len,
                               uint64_t size, uint64_t *out, tarn_error *err)
{
    TARN_TRY(check_name(c, name, len, size, err));
    TARN_TRY(collect_records(c, name, len, size, err));
    *out = TARN__BLOCK;
    if (c->records.size)
        *out += TARN__BLOCK + c->records.size + tarn__block_padding(c->records.size);
    return TARN_OK;
}

/* A pax header: all its numbers are 0, and it has no owner. */
static tarn_status write_records(tarn__composer *c, tarn__out *out, tarn_error *err)
{
    const tarn__buf *r = &c->records;
    unsigned char block[TARN__BLOCK] = {0};
    memcpy(block + NAME, PAX_NAME, sizeof PAX_NAME - 1);
    put_octal(block + MODE, 7, 0);
    put_octal(block + UID, 7, 0);
    put_octal(block + GID, 7, 0);
    put_octal(block + SIZE, DIGITS, r->size);
    put_octal(block + MTIME, DIGITS, 0);
    memset(block + CHECKSUM, ' ', 8);
    block[TYPE] = 'x';
    memcpy(block + MAGIC, c->ready + MAGIC, 8);
    put_checksum(block, sum_of(block, sizeof block));
    c->digest = tarn__digest_mix(tarn__digest_header(c->digest, block),
                                 tarn__crc32c(0, r->data, r->size));
    TARN_TRY(tarn__out_write(out, block, sizeof block, err));
    TARN_TRY(tarn__out_write(out, r->data, r->size, err));
    return tarn__out_zeros(out, tarn__block_padding(r->size), err);
}

tarn_status tarn__compose(tarn__composer *c, const char *name, size_t len, uint64_t size,
                          tarn__out *out, uint64_t *out_offset, tarn_error *err)
{
    unsigned char *block;
    TARN_TRY(check_name(c, name, len, size, err));
    TARN_TRY(collect_records(c, name, len, size, err));
    if (c->records.size) TARN_TRY(write_records(c, out, err));
    TARN_TRY(tarn__out_room(out, TARN__BLOCK, &block, err));
    memcpy(block, c->ready, TARN__BLOCK);
    size_t shown = len < NAME_SIZE ? len : NAME_SIZE;
    if (c->names == TARN_NAMES_PLAIN || c->name_is_ascii)
        memcpy(block + NAME, name, shown);
    else
        put_ascii(block + NAME, NAME_SIZE, name, len);
    put_octal(block + SIZE, DIGITS, size > OCTAL_MAX ? 0 : size);
    put_checksum(block, c->ready_sum + sum_of(block + NAME, shown) +
                            sum_of(block + SIZE, DIGITS));
    c->digest = tarn__digest_header(c->digest, block);
    *out_offset = tarn__out_size(out);
    out->used += TARN__BLOCK;
    return TARN_OK;
}
