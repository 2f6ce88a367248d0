/* Reading JSON: a single pass through a copy of the text, without recursion. Strings are
 * unescaped in place, which never makes them longer. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/sort.h"
#include "base/utf8.h"

#define FEW_KEYS 8u /* up to this many keys are compared pairwise */

typedef struct member {
    uint32_t key, value; /* positions in the list of values */
} member;

typedef struct reader {
    const tarn__json_options *options;
    tarn__json_doc *doc;
    tarn_error *err;
    size_t at, len;
    size_t capacity;
    uint32_t *open; /* positions of the open lists and objects, outermost first */
    size_t depth, open_capacity;
    member *members; /* of the object that is being closed */
    size_t members_capacity;
    /* Duplicate keys: the first with its last value, the others with 0. */
    member *settled;
    size_t settled_count, settled_capacity;
} reader;

#define fail(r, where, ...)                                                              \
    tarn__fail_at((r)->err, TARN_ERR_FORMAT, NULL, where, "JSON: " __VA_ARGS__)
#define over_limit(r, ...)                                                               \
    tarn__fail_at((r)->err, TARN_ERR_LIMIT, NULL, (r)->at, "JSON: " __VA_ARGS__)

static char peek(const reader *r)
{
    return r->doc->text[r->at]; /* the text ends with a NUL */
}

static tarn_status unexpected(reader *r, const char *wanted)
{
    if (r->at >= r->len)
        return fail(r, r->at, "expected %s, found the end of the text", wanted);
    size_t n = tarn__utf8_valid_length(r->doc->text + r->at, r->len - r->at);
    return fail(r, r->at, "expected %s, found '%s'", wanted,
                TARN__SHOW(r->doc->text + r->at, n ? n : 1));
}

static void skip_blanks(reader *r)
{
    char c;
    while ((c = peek(r)) == ' ' || c == '\n' || c == '\r' || c == '\t')
        r->at++;
}

/* --- Scalars -------------------------------------------------------------------- */

static tarn_status add_value(reader *r, tarn__json value)
{
    tarn__json_doc *doc = r->doc;
    if (doc->count >= r->options->max_values)
        return over_limit(r, "more than %u values (TARN_MAX_JSON_VALUES)",
                          r->options->max_values);
    TARN_TRY(
        tarn__grow(&doc->values, sizeof *doc->values, doc->count, &r->capacity, r->err));
    doc->values[doc->count++] = value;
    return TARN_OK;
}

static size_t count_digits(const char *p)
{
    size_t n = 0;
    while (p[n] >= '0' && p[n] <= '9')
        n++;
    return n;
}

static tarn_status read_number(reader *r)
{
    tarn__json value = {.kind = TARN__JSON_INTEGER, .u.text = r->doc->text + r->at};
    size_t began = r->at;
    if (peek(r) == '-') r->at++;
    size_t digits = count_digits(r->doc->text + r->at);
    if (digits == 0) return unexpected(r, "a digit");
    if (digits > 1 && peek(r) == '0') return fail(r, r->at, "a number has a leading 0");
    r->at += digits;
    if (peek(r) == '.') {
        value.kind = TARN__JSON_REAL;
        r->at++;
        digits = count_digits(r->doc->text + r->at);
        if (digits == 0) return unexpected(r, "a digit after the point");
        r->at += digits;
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        value.kind = TARN__JSON_REAL;
        r->at++;
        if (peek(r) == '+' || peek(r) == '-') r->at++;
        digits = count_digits(r->doc->text + r->at);
        if (digits == 0) return unexpected(r, "a digit in the exponent");
        r->at += digits;
    }
    value.size = (uint32_t)(r->at - began);
    return add_value(r, value);
}

/* Consumes the word if it is next. */
static bool take_word(reader *r, const char *word, tarn__json_kind kind,
                      tarn_status *status)
{
    size_t len = strlen(word);
    const char *text = r->doc->text + r->at;
    if (r->len - r->at < len || memcmp(text, word, len) != 0) return false;
    *status =
        add_value(r, (tarn__json){.kind = kind, .size = (uint32_t)len, .u.text = text});
    r->at += len;
    return true;
}

static tarn_status read_word(reader *r)
{
    tarn_status status;
    if (take_word(r, "null", TARN__JSON_NULL, &status) ||
        take_word(r, "true", TARN__JSON_TRUE, &status) ||
        take_word(r, "false", TARN__JSON_FALSE, &status) ||
        take_word(r, "NaN", TARN__JSON_REAL, &status) ||
        take_word(r, "Infinity", TARN__JSON_REAL, &status) ||
        take_word(r, "-Infinity", TARN__JSON_REAL, &status))
        return status;
    return peek(r) == '-' ? read_number(r) : unexpected(r, "a value");
}

/* --- Strings -------------------------------------------------------------------- */

static tarn_status read_hex(reader *r, uint32_t *out)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = peek(r);
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) return unexpected(r, "four hexadecimal digits after \\u");
        value = value << 4 | digit;
    }
    *out = value;
    return TARN_OK;
}

/* After \u: one code point, or a lone surrogate. */
static tarn_status read_unicode(reader *r, char **out)
{
    uint32_t code = 0, low = 0;
    const char *text = r->doc->text;
    TARN_TRY(read_hex(r, &code));
    if (code >= 0xd800 && code < 0xdc00 && text[r->at] == '\\' &&
        text[r->at + 1] == 'u') {
        size_t before = r->at;
        r->at += 2;
        TARN_TRY(read_hex(r, &low));
        if (low >= 0xdc00 && low < 0xe000)
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        else
            r->at = before;
    }
    *out += tarn__utf8_encode(code, *out);
    return TARN_OK;
}

static tarn_status read_escape(reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    r->at++;
    if (peek(r) == 'u') {
        r->at++;
        return read_unicode(r, out);
    }
    const char *known = peek(r) ? strchr(from, peek(r)) : NULL;
    if (!known) return unexpected(r, "one of \"\\/bfnrtu after a backslash");
    *(*out)++ = to[known - from];
    r->at++;
    return TARN_OK;
}

/* Reads from the opening quote up to and including the closing one. */
static tarn_status read_string(reader *r)
{
    char *text = r->doc->text, *begin = text + r->at + 1, *out = begin;
    size_t began = r->at++;
    for (;;) {
        unsigned char c = (unsigned char)text[r->at];
        if (c == '"') break;
        if (r->at >= r->len) return fail(r, began, "a string is not closed");
        if (c == '\\') {
            TARN_TRY(read_escape(r, &out));
            continue;
        }
        if (c < 0x20)
            return fail(r, r->at,
                        "control character 0x%02x in a string; it must be "
                        "escaped",
                        c);
        size_t n = c < 0x80 ? 1 : tarn__utf8_valid_length(text + r->at, r->len - r->at);
        if (n == 0) return fail(r, r->at, "byte 0x%02x is not UTF-8", c);
        memmove(out, text + r->at, n);
        out += n;
        r->at += n;
    }
    *out = '\0';
    r->at++;
    return add_value(r, (tarn__json){.kind = TARN__JSON_STRING,
                                     .size = (uint32_t)(out - begin),
                                     .u.text = begin});
}

/* --- Duplicate keys ------------------------------------------------------------- */

static int compare_text(const tarn__json *a, const tarn__json *b)
{
    return tarn__compare_bytes(a->u.text, a->size, b->u.text, b->size);
}

static int by_key(const void *pa, const void *pb, void *values)
{
    const member *a = pa, *b = pb;
    int order =
        compare_text((tarn__json *)values + a->key, (tarn__json *)values + b->key);
    return order ? order : (a->key > b->key) - (a->key < b->key);
}

static int by_place(const void *pa, const void *pb)
{
    const member *a = pa, *b = pb;
    return (a->key > b->key) - (a->key < b->key);
}

static tarn_status list_members(reader *r, const tarn__json *object)
{
    const tarn__json *values = r->doc->values, *key = object + 1;
    for (uint32_t i = 0; i < object->size; i++, key = tarn__json_next(key + 1)) {
        TARN_TRY(
            tarn__grow(&r->members, sizeof *r->members, i, &r->members_capacity, r->err));
        r->members[i].key = (uint32_t)(key - values);
        r->members[i].value = r->members[i].key + 1;
    }
    return TARN_OK;
}

static bool few_are_distinct(const reader *r, uint32_t count)
{
    const tarn__json *values = r->doc->values;
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (compare_text(values + r->members[i].key, values + r->members[j].key) == 0)
                return false;
    return true;
}

/* In each run of equal keys the first gets the value of the last, and the others get
 * none. Position 0 is the root, so it is never the value of a member. *out_twice is the
 * first key that repeats an earlier one, or 0. */
static tarn_status settle_equal(reader *r, uint32_t count, uint32_t *out_twice)
{
    const tarn__json *values = r->doc->values;
    member *m = r->members;
    for (uint32_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count; end++)
            if (compare_text(values + m[end].key, values + m[i].key)) break;
        if (end == i + 1) continue;
        if (!*out_twice || m[i + 1].key < *out_twice) *out_twice = m[i + 1].key;
        m[i].value = m[end - 1].value;
        for (uint32_t j = i; j < end; j++) {
            if (j > i) m[j].value = 0;
            TARN_TRY(tarn__grow(&r->settled, sizeof *r->settled, r->settled_count,
                                &r->settled_capacity, r->err));
            r->settled[r->settled_count++] = m[j];
        }
    }
    return TARN_OK;
}

static tarn_status check_keys(reader *r, const tarn__json *object)
{
    uint32_t count = object->size, twice = 0;
    if (count < 2) return TARN_OK;
    TARN_TRY(list_members(r, object));
    if (count <= FEW_KEYS && few_are_distinct(r, count)) return TARN_OK;
    qsort_r(r->members, count, sizeof *r->members, by_key, r->doc->values);
    TARN_TRY(settle_equal(r, count, &twice));
    if (!twice || r->options->last_wins) return TARN_OK;
    const tarn__json *key = r->doc->values + twice;
    return fail(r, (uint64_t)(key->u.text - r->doc->text - 1),
                "duplicate key \"%s\" in one object", TARN__SHOW(key->u.text, key->size));
}

/* A list or object that is being copied: its next element, and the position of its
 * copy. */
typedef struct copied {
    const tarn__json *next;
    uint32_t left, kept, at;
    bool is_list;
} copied;

typedef struct copier {
    const reader *r;
    tarn__json *out;
    uint32_t count;
    copied *open;
    size_t depth;
} copier;

static void copy_value(copier *c, const tarn__json *v)
{
    if (v->kind >= TARN__JSON_LIST)
        c->open[c->depth++] = (copied){.next = v + 1,
                                       .left = v->size,
                                       .at = c->count,
                                       .is_list = v->kind == TARN__JSON_LIST};
    c->out[c->count++] = *v;
}

/* The final value of a key, or NULL if the key is dropped. */
static const tarn__json *value_of(const reader *r, const tarn__json *key)
{
    member wanted = {.key = (uint32_t)(key - r->doc->values)};
    const member *found =
        bsearch(&wanted, r->settled, r->settled_count, sizeof wanted, by_place);
    if (!found) return key + 1;
    return found->value ? r->doc->values + found->value : NULL;
}

static void copy_next(copier *c)
{
    copied *o = &c->open[c->depth - 1];
    const tarn__json *v = o->next;
    o->left--;
    o->next = tarn__json_next(o->is_list ? v : v + 1);
    if (!o->is_list) {
        const tarn__json *key = v;
        v = value_of(c->r, key);
        if (!v) return;
        c->out[c->count++] = *key;
    }
    o->kept++;
    copy_value(c, v);
}

/* Copies the tree once, without the dropped values. Dropping them object by object would
 * copy deeply nested values again and again. */
static tarn_status drop_losers(reader *r)
{
    copier c = {.r = r};
    tarn__json_doc *doc = r->doc;
    qsort(r->settled, r->settled_count, sizeof *r->settled, by_place);
    c.out = malloc(doc->count * sizeof *c.out);
    c.open = malloc(r->open_capacity * sizeof *c.open);
    if (!c.out || !c.open) {
        free(c.out);
        free(c.open);
        return tarn__fail_memory(r->err);
    }
    copy_value(&c, doc->values);
    while (c.depth) {
        copied *o = &c.open[c.depth - 1];
        if (o->left) {
            copy_next(&c);
            continue;
        }
        c.out[o->at].size = o->kept;
        c.out[o->at].u.span = c.count - o->at;
        c.depth--;
    }
    free(c.open);
    free(doc->values);
    doc->values = c.out;
    doc->count = c.count;
    return TARN_OK;
}

/* --- The whole text ------------------------------------------------------------- */

static tarn_status open_container(reader *r)
{
    bool is_list = peek(r) == '[';
    if (r->depth >= r->options->max_depth)
        return over_limit(r, "more than %u levels (TARN_MAX_JSON_DEPTH)",
                          r->options->max_depth);
    TARN_TRY(tarn__grow(&r->open, sizeof *r->open, r->depth, &r->open_capacity, r->err));
    r->open[r->depth++] = r->doc->count;
    r->at++;
    return add_value(r,
                     (tarn__json){.kind = is_list ? TARN__JSON_LIST : TARN__JSON_OBJECT});
}

static tarn_status close_container(reader *r)
{
    tarn__json *v = r->doc->values + r->open[--r->depth];
    r->at++;
    v->u.span = r->doc->count - (uint32_t)(v - r->doc->values);
    return v->kind == TARN__JSON_OBJECT ? check_keys(r, v) : TARN_OK;
}

static tarn_status read_key(reader *r)
{
    if (peek(r) != '"') return unexpected(r, "a key in quotes");
    TARN_TRY(read_string(r));
    skip_blanks(r);
    if (peek(r) != ':') return unexpected(r, "':' after a key");
    r->at++;
    skip_blanks(r);
    return TARN_OK;
}

static tarn_status read_scalar(reader *r)
{
    char c = peek(r);
    if (c == '"') return read_string(r);
    return c >= '0' && c <= '9' ? read_number(r) : read_word(r);
}

static tarn__json *innermost(reader *r)
{
    return r->doc->values + r->open[r->depth - 1];
}

/* After a value: closes what ends here, until another value follows or the text is
 * done. */
static tarn_status read_after_value(reader *r)
{
    while (r->depth) {
        bool is_list = innermost(r)->kind == TARN__JSON_LIST;
        char closing = is_list ? ']' : '}';
        skip_blanks(r);
        if (peek(r) == ',') {
            r->at++;
            skip_blanks(r);
            innermost(r)->size++;
            return is_list ? TARN_OK : read_key(r);
        }
        if (peek(r) != closing)
            return unexpected(r, is_list ? "',' or ']'" : "',' or '}'");
        TARN_TRY(close_container(r));
    }
    return TARN_END;
}

/* After an opening bracket: TARN_END if it is closed at once. */
static tarn_status read_first(reader *r)
{
    bool is_list = innermost(r)->kind == TARN__JSON_LIST;
    skip_blanks(r);
    if (peek(r) == (is_list ? ']' : '}')) {
        TARN_TRY(close_container(r));
        return TARN_END;
    }
    innermost(r)->size++;
    return is_list ? TARN_OK : read_key(r);
}

static tarn_status read_values(reader *r)
{
    tarn_status status;
    skip_blanks(r);
    for (;;) {
        if (peek(r) == '[' || peek(r) == '{') {
            TARN_TRY(open_container(r));
            status = read_first(r);
            if (status == TARN_OK) continue;
            if (status != TARN_END) return status;
        } else {
            TARN_TRY(read_scalar(r));
        }
        status = read_after_value(r);
        if (status == TARN_END) break;
        TARN_TRY(status);
    }
    skip_blanks(r);
    if (r->at != r->len) return unexpected(r, "nothing after the value");
    return r->settled_count ? drop_losers(r) : TARN_OK;
}

static tarn_status read_text(reader *r, const char *text)
{
    if (r->len > r->options->max_bytes || r->len >= UINT32_MAX)
        return tarn__fail(
            r->err, TARN_ERR_LIMIT,
            "JSON text of %zu bytes (the limit is %zu, TARN_MAX_JSON_BYTES)", r->len,
            r->options->max_bytes);
    r->doc->text = malloc(r->len + 1);
    if (!r->doc->text) return tarn__fail_memory(r->err);
    if (r->len) memcpy(r->doc->text, text, r->len);
    r->doc->text[r->len] = '\0';
    return read_values(r);
}

tarn_status tarn__json_parse(tarn__json_doc *doc, const char *text, size_t len,
                             const tarn__json_options *options, tarn_error *err)
{
    static const tarn__json_options defaults = TARN__JSON_OPTIONS_INIT;
    reader r = {
        .options = options ? options : &defaults, .doc = doc, .err = err, .len = len};
    *doc = (tarn__json_doc){0};
    tarn_status status = read_text(&r, text);
    free(r.open);
    free(r.members);
    free(r.settled);
    if (status != TARN_OK) tarn__json_reset(doc);
    return status;
}

void tarn__json_reset(tarn__json_doc *doc)
{
    free(doc->values);
    free(doc->text);
    *doc = (tarn__json_doc){0};
}

/* --- Accessing values ----------------------------------------------------------- */

const tarn__json *tarn__json_find(const tarn__json *object, const char *key)
{
    size_t len = strlen(key);
    if (object->kind != TARN__JSON_OBJECT) return NULL;
    const tarn__json *k = object + 1;
    for (uint32_t i = 0; i < object->size; i++, k = tarn__json_next(k + 1))
        if (tarn__json_is(k, key, len)) return k + 1;
    return NULL;
}

bool tarn__json_int64(const tarn__json *v, int64_t *out)
{
    uint64_t value;
    if (v->kind != TARN__JSON_INTEGER) return false;
    bool negative = v->u.text[0] == '-';
    uint64_t most = (uint64_t)INT64_MAX + negative;
    if (!tarn__digits(v->u.text + negative, v->size - negative, most, &value))
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool tarn__json_uint64(const tarn__json *v, uint64_t *out)
{
    if (v->kind != TARN__JSON_INTEGER || v->u.text[0] == '-') return false;
    return tarn__digits(v->u.text, v->size, UINT64_MAX, out);
}

bool tarn__json_double(const tarn__json *v, double *out)
{
    if (v->kind != TARN__JSON_INTEGER && v->kind != TARN__JSON_REAL) return false;
    *out = tarn__double_parse(v->u.text);
    return true;
}
