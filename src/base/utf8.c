/* Validation, replacement and lower-casing of UTF-8. */
#include "base/utf8.h"

#include <string.h>

typedef struct tarn__lower_run {
    uint32_t first, last;
    uint32_t stride;
    int32_t delta;
} tarn__lower_run;

typedef struct tarn__code_range {
    uint32_t first, last;
} tarn__code_range;

#include "base/unicode_tables.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define CAPITAL_I_DOT 0x130u
#define CAPITAL_SIGMA 0x3a3u
#define SMALL_SIGMA   0x3c3u
#define FINAL_SIGMA   0x3c2u

/* The number of bytes at s that belong together: the length of a well-formed sequence
 * (then *valid), or of the longest malformed part that becomes one U+FFFD. */
static size_t part_length(const char *text, size_t len, bool *valid)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char lead = s[0], low = 0x80, high = 0xbf;
    size_t need;
    *valid = false;
    if (lead < 0x80) {
        *valid = true;
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) return 1;
    need = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    size_t have = 1;
    while (have < need && have < len && s[have] >= low && s[have] <= high) {
        low = 0x80;
        high = 0xbf;
        have++;
    }
    *valid = have == need;
    return have;
}

size_t tarn__utf8_valid_length(const char *s, size_t len)
{
    bool valid;
    if (len == 0) return 0;
    size_t n = part_length(s, len, &valid);
    return valid ? n : 0;
}

bool tarn__utf8_is_valid(const char *s, size_t len)
{
    while (len) {
        size_t n = tarn__utf8_valid_length(s, len);
        if (n == 0) return false;
        s += n;
        len -= n;
    }
    return true;
}

tarn_status tarn__utf8_clean(tarn__buf *out, const char *s, size_t len, tarn_error *err)
{
    while (len) {
        bool valid;
        size_t n = part_length(s, len, &valid);
        TARN_TRY(tarn__buf_add(out, valid ? s : "\xef\xbf\xbd", valid ? n : 3, err));
        s += n;
        len -= n;
    }
    return TARN_OK;
}

uint32_t tarn__utf8_decode(const char *text, size_t *out_len)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return *out_len = 1, s[0];
    if (s[0] < 0xe0) return *out_len = 2, (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
    if (s[0] < 0xf0)
        return *out_len = 3, (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    *out_len = 4;
    return (s[0] & 0x07u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 |
           (s[3] & 0x3fu);
}

size_t tarn__utf8_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static uint32_t lower_code(uint32_t c)
{
    size_t low = 0, high = COUNT(lower_runs);
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c > lower_runs[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == COUNT(lower_runs) || c < lower_runs[low].first) return c;
    const tarn__lower_run *run = &lower_runs[low];
    if ((c - run->first) % run->stride) return c;
    return (uint32_t)((int64_t)c + run->delta);
}

static bool in_ranges(const tarn__code_range *ranges, size_t count, uint32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c > ranges[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && c >= ranges[low].first;
}

/* A sigma is final if, skipping case-ignorable characters, a cased letter comes before it
 * and none after it. */
static bool sigma_is_final(const char *s, size_t at, size_t len)
{
    size_t n, i = at;
    uint32_t c;
    bool cased_before = false;
    while (i > 0 && !cased_before) {
        do
            i--;
        while (((unsigned char)s[i] & 0xc0) == 0x80);
        c = tarn__utf8_decode(s + i, &n);
        if (in_ranges(case_ignorable, COUNT(case_ignorable), c)) continue;
        if (!in_ranges(cased, COUNT(cased), c)) return false;
        cased_before = true;
    }
    if (!cased_before) return false;
    for (i = at + 2; i < len; i += n) {
        c = tarn__utf8_decode(s + i, &n);
        if (in_ranges(case_ignorable, COUNT(case_ignorable), c)) continue;
        return !in_ranges(cased, COUNT(cased), c);
    }
    return true;
}

tarn_status tarn__utf8_lower(tarn__buf *out, const char *s, size_t len, tarn_error *err)
{
    size_t n;
    for (size_t i = 0; i < len; i += n) {
        char low[4];
        uint32_t c = tarn__utf8_decode(s + i, &n);
        if (c == CAPITAL_I_DOT) {
            TARN_TRY(tarn__buf_add(out, "i\xcc\x87", 3, err));
            continue;
        }
        if (c == CAPITAL_SIGMA)
            c = sigma_is_final(s, i, len) ? FINAL_SIGMA : SMALL_SIGMA;
        else
            c = lower_code(c);
        TARN_TRY(tarn__buf_add(out, low, tarn__utf8_encode(c, low), err));
    }
    return TARN_OK;
}
