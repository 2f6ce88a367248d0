/* Reads XML from front to back, without a tree. */
#include "base/xml.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/utf8.h"

typedef struct reader {
    const char *start, *at, *end;
    tarn__xml_visit *visit_end, *visit_begin;
    void *context;
    char path[TARN__XML_MAX_PATH];
    size_t names[TARN__XML_MAX_DEPTH]; /* where each name starts in path */
    size_t full_names[TARN__XML_MAX_DEPTH]
                     [2]; /* each name as written: start and length */
    unsigned depth;
    tarn__buf text; /* of the innermost element; only leaves have text that matters */
    bool had_root;
} reader;

#define FAIL(r, err, ...)                                                                \
    tarn__fail_at(err, TARN_ERR_FORMAT, NULL, (uint64_t)((r)->at - (r)->start),          \
                  __VA_ARGS__)

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool begins(const reader *r, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, with, n) == 0;
}

/* Moves to what follows the next mark. */
static tarn_status skip_past(reader *r, const char *mark, tarn_error *err)
{
    const char *found = memmem(r->at, (size_t)(r->end - r->at), mark, strlen(mark));
    if (!found) return FAIL(r, err, "%s is missing in the XML", mark);
    r->at = found + strlen(mark);
    return TARN_OK;
}

/* --- Text -------------------------------------------------------------------------- */

static tarn_status add_code_point(reader *r, unsigned long code, tarn_error *err)
{
    char out[4];
    bool allowed = code == '\t' || code == '\n' || code == '\r' ||
                   (code >= 0x20 && code < 0xd800) || (code >= 0xe000 && code < 0x110000);
    if (!allowed) return FAIL(r, err, "a character that XML does not allow");
    return tarn__buf_add(&r->text, out, tarn__utf8_encode((uint32_t)code, out), err);
}

static int digit_value(char c, int base)
{
    int value = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : 99;
    return value < base ? value : -1;
}

/* "&#10;" or "&#x0A;" */
static tarn_status take_number(reader *r, const char *end, tarn_error *err)
{
    int base = r->at[2] == 'x' ? 16 : 10;
    unsigned long code = 0;
    const char *at = r->at + (base == 16 ? 3 : 2);
    bool valid = at < end;
    for (; at < end && code < 0x110000; at++) {
        int value = digit_value(*at, base);
        valid = valid && value >= 0;
        code = code * (unsigned)base + (unsigned)(value >= 0 ? value : 0);
    }
    if (!valid || at < end) return FAIL(r, err, "an invalid number of a character");
    TARN_TRY(add_code_point(r, code, err));
    r->at = end + 1;
    return TARN_OK;
}

static tarn_status take_entity(reader *r, tarn_error *err)
{
    static const struct {
        const char *name;
        char value;
    } known[] = {
        {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''},
    };
    size_t left = (size_t)(r->end - r->at);
    const char *end = memchr(r->at, ';', left < 16 ? left : 16);
    if (end && end - r->at > 2 && r->at[1] == '#') return take_number(r, end, err);
    for (size_t i = 0; end && i < sizeof known / sizeof *known; i++)
        if (begins(r, known[i].name)) {
            r->at = end + 1;
            return tarn__buf_add(&r->text, &known[i].value, 1, err);
        }
    return FAIL(r, err, "an unknown entity");
}

static tarn_status take_text(reader *r, tarn_error *err)
{
    if (*r->at == '&') return take_entity(r, err);
    const char *from = r->at;
    while (r->at < r->end && *r->at != '<' && *r->at != '&') {
        if ((unsigned char)*r->at < 0x20 && !is_blank(*r->at))
            return FAIL(r, err, "a character that XML does not allow");
        if (r->depth == 0 && !is_blank(*r->at))
            return FAIL(r, err, "text outside of the XML element");
        r->at++;
    }
    return tarn__buf_add(&r->text, from, (size_t)(r->at - from), err);
}

static tarn_status take_raw(reader *r, tarn_error *err)
{
    if (r->depth == 0) return FAIL(r, err, "text outside of the XML element");
    r->at += strlen("<![CDATA[");
    const char *from = r->at;
    TARN_TRY(skip_past(r, "]]>", err));
    return tarn__buf_add(&r->text, from, (size_t)(r->at - from) - 3, err);
}

/* --- Elements ---------------------------------------------------------------------- */

static size_t name_length(const reader *r)
{
    size_t n = 0, left = (size_t)(r->end - r->at);
    while (n < left && !is_blank(r->at[n]) && !strchr("<>/=\"'&", r->at[n]) &&
           (unsigned char)r->at[n] > ' ')
        n++;
    return n;
}

static tarn_status push(reader *r, const char *name, size_t len, tarn_error *err)
{
    const char *colon = memchr(name, ':', len);
    size_t skip = colon ? (size_t)(colon + 1 - name) : 0, used = strlen(r->path);
    if (skip == len) return FAIL(r, err, "an XML element without a name");
    if (r->depth == TARN__XML_MAX_DEPTH)
        return FAIL(r, err, "XML elements are nested more than %d deep",
                    TARN__XML_MAX_DEPTH);
    if (used + len - skip + 2 > sizeof r->path)
        return FAIL(r, err, "the names of XML elements are too long");
    r->names[r->depth] = used;
    r->full_names[r->depth][0] = (size_t)(name - r->start);
    r->full_names[r->depth][1] = len;
    if (r->depth++) r->path[used++] = '/';
    memcpy(r->path + used, name + skip, len - skip);
    r->path[used + len - skip] = '\0';
    r->text.size = 0;
    r->had_root = true;
    return r->visit_begin ? r->visit_begin(r->context, r->path, "", 0, err) : TARN_OK;
}

static tarn_status pop(reader *r, tarn_error *err)
{
    TARN_TRY(tarn__buf_reserve(&r->text, 1, err));
    r->text.data[r->text.size] = '\0';
    if (!tarn__utf8_is_valid(r->text.data, r->text.size) ||
        memchr(r->text.data, '\0', r->text.size))
        return FAIL(r, err, "text that is not UTF-8");
    TARN_TRY(r->visit_end(r->context, r->path, r->text.data, r->text.size, err));
    r->path[r->names[--r->depth]] = '\0';
    r->text.size = 0;
    return TARN_OK;
}

/* Skips NAME="VALUE" or NAME='VALUE'. */
static tarn_status skip_attribute(reader *r, tarn_error *err)
{
    size_t n = name_length(r);
    r->at += n;
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
    if (n == 0 || r->at == r->end || *r->at++ != '=')
        return FAIL(r, err, "an invalid XML attribute");
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
    if (r->at == r->end || (*r->at != '"' && *r->at != '\''))
        return FAIL(r, err, "an XML attribute without quotes");
    char quote[2] = {*r->at++, '\0'};
    return skip_past(r, quote, err);
}

static tarn_status open_element(reader *r, tarn_error *err)
{
    if (r->depth == 0 && r->had_root) return FAIL(r, err, "more than one XML element");
    r->at++;
    size_t len = name_length(r);
    if (len == 0) return FAIL(r, err, "an XML element without a name");
    TARN_TRY(push(r, r->at, len, err));
    r->at += len;
    for (;;) {
        bool blank = r->at < r->end && is_blank(*r->at);
        while (r->at < r->end && is_blank(*r->at))
            r->at++;
        if (begins(r, "/>")) {
            r->at += 2;
            return pop(r, err);
        }
        if (begins(r, ">")) {
            r->at++;
            return TARN_OK;
        }
        if (!blank) return FAIL(r, err, "an XML element that does not end");
        TARN_TRY(skip_attribute(r, err));
    }
}

static tarn_status close_element(reader *r, tarn_error *err)
{
    r->at += 2;
    size_t len = name_length(r);
    const size_t *name = r->depth ? r->full_names[r->depth - 1] : NULL;
    if (!name || name[1] != len || memcmp(r->start + name[0], r->at, len) != 0)
        return FAIL(r, err, "the end of an XML element that was not open");
    r->at += len;
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
    if (!begins(r, ">")) return FAIL(r, err, "an XML element that does not end");
    r->at++;
    return pop(r, err);
}

static tarn_status take_part(reader *r, tarn_error *err)
{
    if (*r->at != '<') return take_text(r, err);
    if (begins(r, "<!--")) return skip_past(r, "-->", err);
    if (begins(r, "<?")) return skip_past(r, "?>", err);
    if (begins(r, "<![CDATA[")) return take_raw(r, err);
    if (begins(r, "<!")) return FAIL(r, err, "a declaration, which is not supported");
    return begins(r, "</") ? close_element(r, err) : open_element(r, err);
}

static tarn_status read_all(reader *r, tarn_error *err)
{
    if (begins(r, "\xef\xbb\xbf")) r->at += 3;
    while (r->at < r->end)
        TARN_TRY(take_part(r, err));
    if (r->depth) return FAIL(r, err, "the XML ends inside of an element");
    return r->had_root ? TARN_OK : FAIL(r, err, "no XML element");
}

tarn_status tarn__xml_read(const char *text, size_t len, tarn__xml_visit *end,
                           tarn__xml_visit *begin, void *context, tarn_error *err)
{
    reader *r = calloc(1, sizeof *r);
    if (!r) return tarn__fail_memory(err);
    r->start = r->at = len ? text : "";
    r->end = r->start + len;
    r->visit_end = end;
    r->visit_begin = begin;
    r->context = context;
    tarn__buf_init(&r->text, len + 8);
    tarn_status status = read_all(r, err);
    if (r->text.data) explicit_bzero(r->text.data, r->text.size);
    tarn__buf_reset(&r->text);
    free(r);
    return status;
}
