/* The base rule is the reference's: the name after the last slash, up to its first dot.
 * The path rule is WebDataset's: folders stay in the key, and what has no dot, or begins
 * with one, or is metadata (__name__) belongs to no sample. */
#include "itar/keys.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "base/utf8.h"

/* Replacing a malformed byte triples it; lower-casing grows by half at most. */
#define MAX_KEY (5u * TARN_MAX_NAME)

void tarn__splitter_init(tarn__splitter *s)
{
    tarn__buf_init(&s->stem, MAX_KEY);
    tarn__buf_init(&s->field, MAX_KEY);
}

void tarn__splitter_reset(tarn__splitter *s)
{
    tarn__buf_reset(&s->stem);
    tarn__buf_reset(&s->field);
}

uint64_t tarn__key_hash(const char *stem, size_t len)
{
    return XXH64(stem, len, 0);
}

/* What a part of a name contains. */
enum { HAS_CONTROL = 1, HAS_HIGH = 2, HAS_UPPER = 4 };

static unsigned contents(const char *text, size_t len)
{
    unsigned found = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        found |= (c < 0x20 || c == 0x7f ? HAS_CONTROL : 0u) |
                 (c >= 0x80 ? HAS_HIGH : 0u) | (c >= 'A' && c <= 'Z' ? HAS_UPPER : 0u);
    }
    return found;
}

static tarn_status clean(tarn__buf *out, const char **text, size_t *len, tarn_error *err)
{
    if (tarn__utf8_is_valid(*text, *len)) return TARN_OK;
    out->size = 0;
    TARN_TRY(tarn__utf8_clean(out, *text, *len, err));
    *text = out->data;
    *len = out->size;
    return TARN_OK;
}

static tarn_status lower(tarn__splitter *s, tarn__key *key, unsigned has, tarn_error *err)
{
    if (!(has & (HAS_HIGH | HAS_UPPER))) return TARN_OK;
    tarn__buf *out = &s->field;
    out->size = 0;
    /* Cleaned and lowered text one behind the other: the first is read while the second
     * is written, so room is made before either. */
    TARN_TRY(tarn__buf_reserve(out, MAX_KEY, err));
    TARN_TRY(tarn__utf8_clean(out, key->field, key->field_len, err));
    size_t cleaned = out->size;
    TARN_TRY(tarn__utf8_lower(out, out->data, cleaned, err));
    key->field = out->data + cleaned;
    key->field_len = out->size - cleaned;
    return TARN_OK;
}

static tarn_status refuse_control(const char *name, size_t len, const char *part,
                                  tarn_error *err)
{
    char shown[256];
    return tarn__fail(err, TARN_ERR_FORMAT,
                      "member %s: its %s has a control character, which an index cannot "
                      "hold",
                      tarn__printable(shown, sizeof shown, name, len), part);
}

/* __name__ or __name__/... at the top are WebDataset's own. */
static bool is_metadata(const char *name, size_t len)
{
    const char *slash = memchr(name, '/', len);
    size_t top = slash ? (size_t)(slash - name) : len;
    return top >= 4 && memcmp(name, "__", 2) == 0 && memcmp(name + top - 2, "__", 2) == 0;
}

tarn_status tarn__split(tarn__splitter *s, tarn_keys rule, const char *name, size_t len,
                        tarn__key *out, tarn_error *err)
{
    const char *slash = memrchr(name, '/', len);
    const char *base = slash ? slash + 1 : name;
    size_t base_len = len - (size_t)(base - name);
    const char *dot = memchr(base, '.', base_len);
    out->stem = base;
    out->stem_len = dot ? (size_t)(dot - base) : base_len;
    out->field = dot ? dot + 1 : base + base_len;
    out->field_len = dot ? base_len - out->stem_len - 1 : 0;
    if (rule == TARN_KEYS_PATH) {
        if (!dot || dot == base || is_metadata(name, len)) return TARN_END;
        out->stem = name;
        out->stem_len = (size_t)(dot - name);
    }
    unsigned in_stem = contents(out->stem, out->stem_len);
    unsigned in_field = contents(out->field, out->field_len);
    if (in_stem & HAS_CONTROL) return refuse_control(name, len, "key", err);
    if (in_field & HAS_CONTROL) return refuse_control(name, len, "field", err);
    if (in_stem & HAS_HIGH) TARN_TRY(clean(&s->stem, &out->stem, &out->stem_len, err));
    return lower(s, out, in_field, err);
}
