/* Parses requests. fuzz/fuzz_browse.c includes this file. */
#include "query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Text ----------------------------------------------------------------------------
 */

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Decodes %XX and, in arguments, +. Returns the end of the output; NULL if malformed. */
static char *decode(const char *from, size_t len, bool is_arg, char *out)
{
    for (size_t i = 0; i < len; i++) {
        char c = from[i];
        if (c == '%') {
            int high = len - i < 3 ? -1 : hex(from[i + 1]);
            int low = high < 0 ? -1 : hex(from[i + 2]);
            if (low < 0) return NULL;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && is_arg) {
            c = ' ';
        }
        if ((unsigned char)c < 0x20 || c == 0x7f) return NULL;
        *out++ = c;
    }
    *out++ = '\0';
    return out;
}

/* Length of the well-formed UTF-8 sequence at s, 0 if there is none. */
static size_t sequence(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[0] > 0xf4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static bool is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t n; *s; s += n)
        if ((n = sequence(s)) == 0) return false;
    return true;
}

/* --- Requests ------------------------------------------------------------------------
 */

/* Adds NAME=VALUE. */
static char *add_arg(browse_query *q, const char *from, size_t len, char *out)
{
    const char *equals = memchr(from, '=', len);
    size_t name = equals ? (size_t)(equals - from) : len;
    if (q->n_args == BROWSE_MAX_ARGS) return NULL;
    browse_arg *arg = &q->args[q->n_args++];
    arg->name = out;
    if (!(out = decode(from, name, true, out)) || !is_utf8(arg->name)) return NULL;
    arg->value = out;
    if (equals)
        out = decode(equals + 1, len - name - 1, true, out);
    else
        *out++ = '\0';
    return out && is_utf8(arg->value) ? out : NULL;
}

static bool parse_args(browse_query *q, const char *from, char *out)
{
    while (*from) {
        size_t len = strcspn(from, "&");
        if (len && !(out = add_arg(q, from, len, out))) return false;
        from += len;
        if (*from) from++;
    }
    return true;
}

static bool parse(browse_query *q, const char *uri)
{
    size_t len = strcspn(uri, "?");
    char *out = q->text;
    if (uri[0] != '/') return false;
    size_t token = strcspn(uri + 1, "/?");
    q->token = out;
    if (!(out = decode(uri + 1, token, false, out))) return false;
    q->path = out;
    size_t start = 1 + token < len ? token + 2 : len;
    if (!(out = decode(uri + start, len - start, false, out))) return false;
    if (!is_utf8(q->token) || !is_utf8(q->path)) return false;
    return !uri[len] || parse_args(q, uri + len + 1, out);
}

bool browse_query_parse(const char *uri, browse_query *out)
{
    size_t len = strnlen(uri, BROWSE_MAX_URI + 1);
    *out = (browse_query){0};
    if (len > BROWSE_MAX_URI) return false;
    /* Each argument ends with two NULs at most, and the path with two. */
    out->text = malloc(len + 2 * BROWSE_MAX_ARGS + 4);
    if (!out->text) return false;
    if (parse(out, uri)) return true;
    browse_query_free(out);
    return false;
}

void browse_query_free(browse_query *q)
{
    free(q->text);
    *q = (browse_query){0};
}

const char *browse_query_at(const browse_query *q, const char *name, size_t n)
{
    for (size_t i = 0; i < q->n_args; i++)
        if (strcmp(q->args[i].name, name) == 0 && n-- == 0) return q->args[i].value;
    return NULL;
}

const char *browse_query_get(const browse_query *q, const char *name)
{
    return browse_query_at(q, name, 0);
}

static bool parse_number(const char **text, uint64_t most, uint64_t *out)
{
    const char *s = *text;
    uint64_t value = 0;
    if (*s < '0' || *s > '9') return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        unsigned digit = (unsigned)(*s - '0');
        if (value > (UINT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *text = s;
    *out = value;
    return value <= most;
}

bool browse_query_number(const browse_query *q, const char *name, uint64_t most,
                         uint64_t *out)
{
    const char *text = browse_query_get(q, name);
    uint64_t value;
    if (!text) return true;
    if (!parse_number(&text, most, &value) || *text) return false;
    *out = value;
    return true;
}

/* --- Filters -------------------------------------------------------------------------
 */

/* A decimal number and a colon. strtod alone accepts other forms, such as 0x1p3. */
static bool take_real(const char **text, double *out)
{
    char number[64];
    size_t len = strcspn(*text, ":");
    if ((*text)[len] != ':' || len == 0 || len >= sizeof number) return false;
    memcpy(number, *text, len);
    number[len] = '\0';
    if (strspn(number, "0123456789+-.eE") != len) return false;
    char *end;
    *out = strtod(number, &end);
    *text += len + 1;
    return !*end && isfinite(*out);
}

static bool set_text(char **out, const char *text, size_t len)
{
    *out = len ? strndup(text, len) : NULL;
    return *out != NULL;
}

static bool take_range(browse_filter *f, const char *text)
{
    if (!take_real(&text, &f->min) || !take_real(&text, &f->max)) return false;
    return set_text(&f->field, text, strlen(text));
}

/* N:FIELDVALUE. The field must not end within a character. */
static bool take_is(browse_filter *f, const char *text)
{
    uint64_t len;
    if (!parse_number(&text, BROWSE_MAX_URI, &len) || *text++ != ':') return false;
    if (len > strlen(text) || ((unsigned char)text[len] & 0xc0) == 0x80) return false;
    if (!set_text(&f->field, text, (size_t)len)) return false;
    f->value = strdup(text + len);
    return f->value != NULL;
}

bool browse_filter_parse(const char *text, browse_filter *out)
{
    static const struct {
        const char *start;
        browse_filter_kind kind;
    } kinds[] = {{"size:", BROWSE_SIZE},   {"num:", BROWSE_BETWEEN},
                 {"width:", BROWSE_WIDTH}, {"height:", BROWSE_HEIGHT},
                 {"has:", BROWSE_HAS},     {"lacks:", BROWSE_LACKS},
                 {"is:", BROWSE_IS},       {"problems", BROWSE_PROBLEMS}};
    bool good = false;
    *out = (browse_filter){0};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t len = strlen(kinds[k].start);
        if (strncmp(text, kinds[k].start, len) != 0) continue;
        out->kind = kinds[k].kind;
        if (out->kind <= BROWSE_HEIGHT)
            good = take_range(out, text + len);
        else if (out->kind == BROWSE_IS)
            good = take_is(out, text + len);
        else if (out->kind == BROWSE_PROBLEMS)
            good = !text[len];
        else
            good = set_text(&out->field, text + len, strlen(text + len));
    }
    if (!good) browse_filter_free(out);
    return good;
}

void browse_filter_free(browse_filter *f)
{
    free(f->field);
    free(f->value);
    *f = (browse_filter){0};
}

/* --- Ranges --------------------------------------------------------------------------
 */

int browse_range_parse(const char *text, uint64_t size, uint64_t *out_from,
                       uint64_t *out_count)
{
    static const char unit[] = "bytes=";
    uint64_t from, last = UINT64_MAX;
    if (strncmp(text, unit, sizeof unit - 1) != 0) return 0;
    text += sizeof unit - 1;
    if (*text == '-') {
        text++;
        if (!parse_number(&text, UINT64_MAX, &last) || *text) return 0;
        if (last == 0 || size == 0) return -1;
        *out_count = last < size ? last : size;
        *out_from = size - *out_count;
        return 1;
    }
    if (!parse_number(&text, UINT64_MAX, &from) || *text++ != '-') return 0;
    if (*text && !parse_number(&text, UINT64_MAX, &last)) return 0;
    if (*text || last < from) return 0;
    if (from >= size) return -1;
    if (last >= size) last = size - 1;
    *out_from = from;
    *out_count = last - from + 1;
    return 1;
}
