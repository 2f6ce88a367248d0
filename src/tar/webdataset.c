/* The naming rule of WebDataset's reader, exactly. There it is a regular expression,
 *
 *     ^((?:.*\/|)[^.]+)[.]([^/]*)$
 *
 * and this file does the same without one, including its oddities: the key of d/.h.jpg is
 * "d/", and a newline in a folder's name changes what matches. */
#include <string.h>

#include "base/utf8.h"
#include "tar/keys.h"

static bool is_between_underscores(const char *name, size_t len)
{
    return len >= 2 && memcmp(name, "__", 2) == 0 && memcmp(name + len - 2, "__", 2) == 0;
}

/* That reader has two rules for metadata. They differ from the rule of an index for names
 * that are only underscores and for names that end with a newline. */
bool tarn__is_webdataset_metadata(const char *name, size_t len)
{
    if (tarn__is_metadata(name, len)) return true;
    if (memchr(name, '/', len)) return false;
    if (is_between_underscores(name, len)) return true;
    return len > 0 && name[len - 1] == '\n' && tarn__is_metadata(name, len - 1);
}

/* The last position that can follow the greedy ".*\/" and leaves something before the
 * dot: after a slash without a newline before it, or the very beginning. */
static size_t last_part(const char *name, size_t dot)
{
    const char *newline = memchr(name, '\n', dot);
    size_t limit = newline ? (size_t)(newline - name) : dot - 1;
    const char *slash = limit < dot ? memrchr(name, '/', limit) : NULL;
    return slash ? (size_t)(slash - name) + 1 : 0;
}

static bool is_plain(const char *text, size_t len)
{
    bool plain = true;
    for (size_t i = 0; i < len; i++)
        plain &= (unsigned char)text[i] < 0x80 && !(text[i] >= 'A' && text[i] <= 'Z');
    return plain;
}

/* Lower-cases the parts that are UTF-8 and leaves all other bytes unchanged. */
static tarn_status lower_utf8_parts(tarn__splitter *s, tarn__key *key, tarn_error *err)
{
    const char *text = key->field;
    size_t len = key->field_len, from = 0, at = 0;
    if (is_plain(text, len)) return TARN_OK;
    s->field.size = 0;
    /* The parts do not depend on each other: an invalid byte has no influence on the case
     * of a letter. */
    while (from < len) {
        size_t n = at < len ? tarn__utf8_valid_length(text + at, len - at) : 0;
        if (n) {
            at += n;
            continue;
        }
        TARN_TRY(tarn__utf8_lower(&s->field, text + from, at - from, err));
        if (at < len) TARN_TRY(tarn__buf_add(&s->field, text + at++, 1, err));
        from = at;
    }
    key->field = s->field.data ? s->field.data : text;
    key->field_len = s->field.size;
    return TARN_OK;
}

tarn_status tarn__split_webdataset(tarn__splitter *s, const char *name, size_t len,
                                   tarn__key *out, tarn_error *err)
{
    if (tarn__is_webdataset_metadata(name, len)) return TARN_END;
    const char *slash = memrchr(name, '/', len);
    const char *base = slash ? slash + 1 : name;
    const char *dot = memchr(base, '.', len - (size_t)(base - name));
    size_t stem = dot ? (size_t)(dot - name) : 0;
    if (stem == 0) return TARN_END;
    size_t part = last_part(name, stem);
    if (memchr(name + part, '.', stem - part)) return TARN_END;
    *out = (tarn__key){name, stem, dot + 1, len - stem - 1};
    return lower_utf8_parts(s, out, err);
}
