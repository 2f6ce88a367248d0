/* Each record is "LENGTH KEY=VALUE\n"; the decimal length includes itself. */
#include "tar/pax.h"

#include <string.h>

#include "base/error.h"

typedef struct record {
    const char *key, *value;
    size_t key_len, value_len;
} record;

/* The limits of the strictest tar program. */
enum { MAX_RECORD = 999999, MAX_DIGITS = 20 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool key_is(const record *r, const char *key)
{
    size_t len = strlen(key);
    return r->key_len == len && memcmp(r->key, key, len) == 0;
}

static bool key_starts(const record *r, const char *start)
{
    size_t len = strlen(start);
    return r->key_len >= len && memcmp(r->key, start, len) == 0;
}

/* Splits off the first record. */
static tarn_status next_record(const char *at, size_t left, record *out, size_t *out_len,
                               tarn_error *err)
{
    size_t length = 0, i = 0;
    while (i < left && is_digit(at[i]) && i < MAX_DIGITS && length <= MAX_RECORD)
        length = length * 10 + (size_t)(at[i++] - '0');
    if (i == 0 || i == left || at[i] != ' ')
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "malformed pax record: it does not begin with a length");
    if (length > MAX_RECORD)
        return tarn__fail(err, TARN_ERR_LIMIT, "a pax record has more than %d bytes",
                          MAX_RECORD);
    if (length > left || length < i + 4 || at[length - 1] != '\n')
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "malformed pax record: its length %zu is wrong", length);
    out->key = at + i + 1;
    size_t most = length - i - 2, key_len = 0;
    while (key_len < most && out->key[key_len] != '=' && out->key[key_len] != 0)
        key_len++;
    if (key_len == 0 || key_len == most || out->key[key_len] != '=')
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "malformed pax record: the key is missing or contains a NUL");
    if (out->key[0] == ' ' || out->key[0] == '\t')
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "malformed pax record: the key begins with a blank");
    out->key_len = key_len;
    const char *equals = out->key + key_len;
    out->value = equals + 1;
    out->value_len = (size_t)(at + length - 1 - out->value);
    *out_len = length;
    return TARN_OK;
}

static tarn_status take_size(const record *r, tarn__pax *out, tarn_error *err)
{
    uint64_t value = 0;
    bool good = r->value_len > 0 && r->value_len <= 19;
    for (size_t i = 0; good && i < r->value_len; i++) {
        good = is_digit(r->value[i]);
        value = value * 10 + (uint64_t)(r->value[i] - '0');
    }
    if (!good || value >= TARN_MAX_MEMBER_SIZE) {
        return tarn__fail(err, TARN_ERR_FORMAT, "the pax size is not a valid number: %s",
                          TARN__SHOW(r->value, r->value_len));
    }
    out->has_size = true;
    out->size = value;
    return TARN_OK;
}

/* Seconds with an optional fraction. */
static bool parse_time(const record *r, int64_t *out, uint32_t *out_ns)
{
    size_t i = 0, digits = 0;
    int64_t seconds = 0;
    uint32_t ns = 0, unit = 100000000;
    bool negative = r->value_len > 0 && r->value[0] == '-';
    for (i = negative; i < r->value_len && is_digit(r->value[i]) && digits < 18; i++) {
        seconds = seconds * 10 + (r->value[i] - '0');
        digits++;
    }
    if (digits == 0) return false;
    if (i < r->value_len && r->value[i] == '.')
        for (i++; i < r->value_len && is_digit(r->value[i]); i++) {
            ns += unit * (uint32_t)(r->value[i] - '0');
            unit /= 10;
        }
    *out = negative ? -seconds : seconds;
    *out_ns = negative ? 0 : ns;
    return i == r->value_len;
}

static tarn_status take_time(const record *r, tarn__pax *out, tarn_error *err)
{
    int64_t seconds;
    uint32_t ns;
    if (!parse_time(r, &seconds, &ns))
        return tarn__fail(err, TARN_ERR_FORMAT, "the pax %.*s is not a number",
                          (int)r->key_len, r->key);
    if (key_is(r, "mtime")) {
        out->has_mtime = true;
        out->mtime = seconds;
        out->mtime_ns = ns;
    }
    return TARN_OK;
}

static tarn_status check_owner(const record *r, tarn_error *err)
{
    bool good = r->value_len > 0;
    for (size_t i = 0; i < r->value_len; i++)
        good = good && is_digit(r->value[i]);
    if (good) return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT, "the pax %.*s is not a number",
                      (int)r->key_len, r->key);
}

static tarn_status take_path(const record *r, tarn__pax *out, tarn_error *err)
{
    if (r->value_len == 0)
        return tarn__fail(err, TARN_ERR_FORMAT, "the pax path is empty");
    if (memchr(r->value, 0, r->value_len))
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "the pax path contains a NUL: tar programs disagree about "
                          "this member's name");
    if (r->value_len > TARN_MAX_NAME)
        return tarn__fail(err, TARN_ERR_LIMIT, "a name has more than %u bytes",
                          TARN_MAX_NAME);
    out->path = r->value;
    out->path_len = r->value_len;
    return TARN_OK;
}

static tarn_status check_charset(const record *r, tarn_error *err)
{
    static const char utf8[] = "ISO-IR 10646 2000 UTF-8";
    if ((r->value_len == 6 && memcmp(r->value, "BINARY", 6) == 0) ||
        (r->value_len == sizeof utf8 - 1 && memcmp(r->value, utf8, sizeof utf8 - 1) == 0))
        return TARN_OK;
    return tarn__fail(err, TARN_ERR_UNSUPPORTED, "unknown pax hdrcharset");
}

static bool says_sparse(const record *r)
{
    return key_starts(r, "GNU.sparse.") || key_is(r, "SCHILY.realsize") ||
           key_is(r, "SUN.holesdata");
}

static tarn_status take_record(const record *r, tarn__pax *out, tarn_error *err)
{
    if (key_is(r, "mtime") || key_is(r, "atime") || key_is(r, "ctime"))
        return take_time(r, out, err);
    if (key_is(r, "path")) return take_path(r, out, err);
    if (key_is(r, "size")) return take_size(r, out, err);
    if (key_is(r, "uid") || key_is(r, "gid")) return check_owner(r, err);
    if (key_is(r, "hdrcharset")) return check_charset(r, err);
    if (!says_sparse(r)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                      "sparse members are not supported; create the archive "
                      "without --sparse");
}

tarn_status tarn__pax_parse(const char *records, size_t len, tarn__pax *out,
                            tarn_error *err)
{
    *out = (tarn__pax){0};
    size_t at = 0, step;
    while (at < len) {
        record r;
        TARN_TRY(next_record(records + at, len - at, &r, &step, err));
        at += step;
        TARN_TRY(take_record(&r, out, err));
    }
    return TARN_OK;
}
