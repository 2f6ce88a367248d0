/* The base rule is that of glzn: the name after the last slash, up to its first dot. The
 * path rule is WebDataset's: folders are part of the key, and names without a dot, names
 * that begin with one, and metadata (__name__) do not belong to a sample. */
#include "tar/keys.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/utf8.h"

/* Replacing a malformed byte takes three bytes; lower-casing adds at most half of the
 * length, and both results are in one buffer. */
#define GROWTH  8u
#define MAX_KEY (GROWTH * TARN_MAX_NAME)

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
    TARN__KNOWN(stem);
    return XXH64(stem, len, 0);
}

/* Positions of special characters in a name: bit i is for byte i. */
typedef struct marks {
    uint64_t slash, dot, control, high, upper;
} marks;

enum { MARKED = 64 }; /* maximum length of a name with marks */

#if defined(__SSE2__)
/* Loads the last n bytes (1 to 16) of text, which has len bytes, into the low bytes, with
 * zeros above. Reads no byte outside text. */
static __m128i load_last(const char *text, size_t len, size_t n)
{
    const char *end = text + len;
    unsigned shift = (unsigned)(8 - (n & 7)) * 8;
    if (n == 16) return _mm_loadu_si128((const __m128i *)(const void *)(end - 16));
    if (n > 8)
        return _mm_set_epi64x((long long)(tarn__get64(end - 8) >> shift),
                              (long long)tarn__get64(end - n));
    if (n == 8) return _mm_cvtsi64_si128((long long)tarn__get64(end - 8));
    if (len >= 8) return _mm_cvtsi64_si128((long long)(tarn__get64(end - 8) >> shift));
    uint64_t bytes = 0;
    memcpy(&bytes, end - n, n);
    return _mm_cvtsi64_si128((long long)bytes);
}

static uint64_t mask_of(__m128i compared)
{
    return (uint64_t)(unsigned)_mm_movemask_epi8(compared);
}

static bool mark_name(const char *text, size_t len, marks *out)
{
    *out = (marks){0};
    if (len > MARKED) return false;
    for (size_t i = 0; i < len; i += 16) {
        size_t n = len - i < 16 ? len - i : 16;
        __m128i v = load_last(text, i + n, n);
        __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
        __m128i between =
            _mm_max_epu8(_mm_min_epu8(v, _mm_set1_epi8('Z')), _mm_set1_epi8('A'));
        __m128i del = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f));
        out->slash |= mask_of(_mm_cmpeq_epi8(v, _mm_set1_epi8('/'))) << i;
        out->dot |= mask_of(_mm_cmpeq_epi8(v, _mm_set1_epi8('.'))) << i;
        out->control |= mask_of(_mm_or_si128(low, del)) << i;
        out->high |= mask_of(v) << i;
        out->upper |= mask_of(_mm_cmpeq_epi8(between, v)) << i;
    }
    /* The zeros after a short name look like control characters. */
    if (len < MARKED) out->control &= (UINT64_C(1) << len) - 1;
    return true;
}
#else
static bool mark_name(const char *text, size_t len, marks *out)
{
    (void)text, (void)len, (void)out;
    return false;
}
#endif

/* What a part of a name contains. Tabs are allowed: some names contain them, and they do
 * no harm in an index. */
enum { HAS_CONTROL = 1, HAS_HIGH = 2, HAS_UPPER = 4 };

static unsigned contents_of(const char *text, size_t len)
{
    unsigned found = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool control = (c < 0x20 && c != '\t') || c == 0x7f;
        found |= (control ? HAS_CONTROL : 0u) | (c >= 0x80 ? HAS_HIGH : 0u) |
                 (c >= 'A' && c <= 'Z' ? HAS_UPPER : 0u);
    }
    return found;
}

static tarn_status clean_text(tarn__buf *out, const char **text, size_t *len,
                              tarn_error *err)
{
    if (tarn__utf8_is_valid(*text, *len)) return TARN_OK;
    out->size = 0;
    TARN_TRY(tarn__utf8_clean(out, *text, *len, err));
    *text = out->data;
    *len = out->size;
    return TARN_OK;
}

static tarn_status lower_field(tarn__splitter *s, tarn__key *key, unsigned has,
                               tarn_error *err)
{
    if (!(has & (HAS_HIGH | HAS_UPPER))) return TARN_OK;
    tarn__buf *out = &s->field;
    out->size = 0;
    /* The cleaned text and the lower-cased text are in the same buffer: the first is read
     * while the second is written, so space for both is reserved first. */
    TARN_TRY(tarn__buf_reserve(out, GROWTH * key->field_len, err));
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
    return tarn__fail(
        err, TARN_ERR_FORMAT,
        "member %s: its %s contains a control character, which an index cannot "
        "hold",
        TARN__SHOW(name, len), part);
}

/* __name__ or __name__/... at the top level is WebDataset's metadata. */
bool tarn__is_metadata(const char *name, size_t len)
{
    const char *slash = memchr(name, '/', len);
    size_t top = slash ? (size_t)(slash - name) : len;
    return top >= 4 && memcmp(name, "__", 2) == 0 && memcmp(name + top - 2, "__", 2) == 0;
}

/* Most names are short and plain, which the marks show; then only the slash and the dot
 * have to be found. */
static bool split_plain(tarn_keys rule, const char *name, size_t len, tarn__key *out)
{
    marks m;
    if (rule != TARN_KEYS_BASE || !len || !mark_name(name, len, &m)) return false;
    if (m.control || m.high || m.upper) return false;
    size_t base = m.slash ? 64 - (size_t)__builtin_clzll(m.slash) : 0;
    uint64_t dots = base < MARKED ? m.dot & ~UINT64_C(0) << base : 0;
    size_t dot = dots ? (size_t)__builtin_ctzll(dots) : len;
    out->stem = name + base;
    out->stem_len = dot - base;
    out->field = name + dot + (dots != 0);
    out->field_len = len - dot - (dots != 0);
    return true;
}

tarn_status tarn__split(tarn__splitter *s, tarn_keys rule, const char *name, size_t len,
                        tarn__key *out, tarn_error *err)
{
    if (split_plain(rule, name, len, out)) return TARN_OK;
    if (!len) name = ""; /* an empty name of a header has no valid pointer */
    const char *slash = memrchr(name, '/', len);
    const char *base = slash ? slash + 1 : name;
    size_t base_len = len - (size_t)(base - name);
    const char *dot = memchr(base, '.', base_len);
    out->stem = base;
    out->stem_len = dot ? (size_t)(dot - base) : base_len;
    out->field = dot ? dot + 1 : base + base_len;
    out->field_len = dot ? base_len - out->stem_len - 1 : 0;
    if (rule == TARN_KEYS_PATH) {
        if (!dot || dot == base || tarn__is_metadata(name, len)) return TARN_END;
        out->stem = name;
        out->stem_len = (size_t)(dot - name);
    }
    unsigned in_stem = contents_of(out->stem, out->stem_len);
    unsigned in_field = contents_of(out->field, out->field_len);
    if (in_stem & HAS_CONTROL) return refuse_control(name, len, "key", err);
    if (in_field & HAS_CONTROL) return refuse_control(name, len, "field", err);
    if (in_stem & HAS_HIGH)
        TARN_TRY(clean_text(&s->stem, &out->stem, &out->stem_len, err));
    return lower_field(s, out, in_field, err);
}
