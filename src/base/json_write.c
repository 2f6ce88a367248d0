/* Writing JSON, byte for byte as Python's json.dumps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/number.h"
#include "base/sort.h"
#include "base/utf8.h"

/* --- Bytes ---------------------------------------------------------------------- */

static void put_bytes(tarn__json_writer *w, const void *data, size_t len)
{
    if (w->status == TARN_OK) w->status = tarn__buf_add(w->out, data, len, &w->failure);
}

static void put_char(tarn__json_writer *w, char c)
{
    put_bytes(w, &c, 1);
}

static void fail(tarn__json_writer *w, tarn_status code, const char *message)
{
    if (w->status == TARN_OK) w->status = tarn__fail(&w->failure, code, "%s", message);
}

static void new_line(tarn__json_writer *w)
{
    if (w->indent < 0 || w->status != TARN_OK) return;
    size_t spaces = (size_t)w->indent * w->depth;
    put_char(w, '\n');
    if (w->status == TARN_OK) w->status = tarn__buf_reserve(w->out, spaces, &w->failure);
    if (w->status != TARN_OK) return;
    if (spaces) memset(w->out->data + w->out->size, ' ', spaces);
    w->out->size += spaces;
}

/* Writes the separator between the previous value or key and this one. */
static void separate(tarn__json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth && !w->first) put_bytes(w, ", ", w->indent < 0 ? 2 : 1);
    if (w->depth) new_line(w);
    w->first = false;
}

/* --- Text ----------------------------------------------------------------------- */

static void put_unit(tarn__json_writer *w, uint32_t unit)
{
    char text[8];
    snprintf(text, sizeof text, "\\u%04x", (unsigned)unit & 0xffffu);
    put_bytes(w, text, 6);
}

static void put_code(tarn__json_writer *w, uint32_t code)
{
    if (code >= 0x10000) {
        put_unit(w, 0xd800 + ((code - 0x10000) >> 10));
        code = 0xdc00 + ((code - 0x10000) & 0x3ff);
    }
    put_unit(w, code);
}

static void put_short_escape(tarn__json_writer *w, char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *known = c ? strchr(from, c) : NULL;
    if (!known) {
        put_unit(w, (unsigned char)c);
        return;
    }
    put_char(w, '\\');
    put_char(w, to[known - from]);
}

static bool is_surrogate(const unsigned char *s, size_t len)
{
    return len >= 3 && s[0] == 0xed && s[1] >= 0xa0 && s[1] <= 0xbf &&
           (s[2] & 0xc0) == 0x80;
}

/* Writes one character that must be escaped; returns its length in the text. */
static size_t put_escaped(tarn__json_writer *w, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        put_short_escape(w, text[0]);
        return 1;
    }
    size_t n = tarn__utf8_valid_length(text, len);
    if (n && !w->ascii) {
        put_bytes(w, text, n);
        return n;
    }
    if (n) {
        put_code(w, tarn__utf8_decode(text, &n));
        return n;
    }
    if (is_surrogate(s, len)) {
        put_unit(w, 0xd000u | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu));
        return 3;
    }
    fail(w, TARN_ERR_FORMAT, "JSON: cannot write text that is not UTF-8");
    return len;
}

/* The number of leading bytes that need no escaping. */
static size_t plain_length(const tarn__json_writer *w, const char *text, size_t len)
{
    size_t n = 0;
    while (n < len) {
        unsigned char c = (unsigned char)text[n];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\' || (c == 0x7f && w->ascii))
            break;
        n++;
    }
    return n;
}

static void put_quoted(tarn__json_writer *w, const char *text, size_t len)
{
    put_char(w, '"');
    while (len && w->status == TARN_OK) {
        size_t n = plain_length(w, text, len);
        if (n)
            put_bytes(w, text, n);
        else
            n = put_escaped(w, text, len);
        text += n;
        len -= n;
    }
    put_char(w, '"');
}

/* --- The calls ------------------------------------------------------------------ */

void tarn__json_begin(tarn__json_writer *w, tarn__buf *out)
{
    w->out = out;
    w->indent = TARN__JSON_ONE_LINE;
    w->ascii = true;
    w->depth = 0;
    w->first = true;
    w->after_key = false;
    w->status = TARN_OK;
}

tarn_status tarn__json_end(tarn__json_writer *w, tarn_error *err)
{
    if (w->depth || w->after_key)
        fail(w, TARN_ERR_USAGE, "JSON: a list or object is not closed");
    if (w->status != TARN_OK && err) *err = w->failure;
    return w->status;
}

void tarn__json_open(tarn__json_writer *w, char bracket)
{
    separate(w);
    put_char(w, bracket);
    w->depth++;
    w->first = true;
}

void tarn__json_close(tarn__json_writer *w, char bracket)
{
    bool empty = w->first;
    if (w->depth == 0 || w->after_key) {
        fail(w, TARN_ERR_USAGE, "JSON: closing a bracket that is not open");
        return;
    }
    w->depth--;
    if (!empty) new_line(w);
    put_char(w, bracket);
    w->first = false;
}

void tarn__json_key(tarn__json_writer *w, const char *text, size_t len)
{
    separate(w);
    put_quoted(w, text, len);
    put_bytes(w, ": ", 2);
    w->after_key = true;
}

void tarn__json_key_text(tarn__json_writer *w, const char *text)
{
    tarn__json_key(w, text, strlen(text));
}

void tarn__json_put_raw(tarn__json_writer *w, const char *text, size_t len)
{
    separate(w);
    put_bytes(w, text, len);
}

void tarn__json_put_string(tarn__json_writer *w, const char *text, size_t len)
{
    separate(w);
    put_quoted(w, text, len);
}

void tarn__json_put_text(tarn__json_writer *w, const char *text)
{
    tarn__json_put_string(w, text, strlen(text));
}

void tarn__json_put_int(tarn__json_writer *w, int64_t value)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)value);
    tarn__json_put_raw(w, text, (size_t)n);
}

void tarn__json_put_uint(tarn__json_writer *w, uint64_t value)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    tarn__json_put_raw(w, text, (size_t)n);
}

void tarn__json_put_double(tarn__json_writer *w, double value)
{
    char text[TARN__DOUBLE_MAX];
    tarn__json_put_raw(w, text, tarn__double_text(value, text));
}

void tarn__json_put_bool(tarn__json_writer *w, bool value)
{
    tarn__json_put_raw(w, value ? "true" : "false", value ? 4 : 5);
}

void tarn__json_put_null(tarn__json_writer *w)
{
    tarn__json_put_raw(w, "null", 4);
}

/* --- Trees ---------------------------------------------------------------------- */

/* A list or object that is being written. */
typedef struct level {
    const tarn__json *next;  /* the next element or key, if not sorted */
    const tarn__json **keys; /* sorted keys, or NULL */
    uint32_t done, size;
    bool is_list;
} level;

static void put_scalar(tarn__json_writer *w, const tarn__json *v)
{
    double value;
    if (v->kind == TARN__JSON_STRING) {
        tarn__json_put_string(w, v->u.text, v->size);
    } else if (v->kind == TARN__JSON_REAL) {
        /* strtod reads the words NaN and Infinity too. */
        if (tarn__json_double(v, &value)) tarn__json_put_double(w, value);
    } else if (v->kind == TARN__JSON_INTEGER && v->size == 2 && v->u.text[0] == '-' &&
               v->u.text[1] == '0') {
        tarn__json_put_raw(w, "0", 1);
    } else {
        tarn__json_put_raw(w, v->u.text, v->size);
    }
}

static int by_text(const void *pa, const void *pb)
{
    const tarn__json *a = *(const tarn__json *const *)pa;
    const tarn__json *b = *(const tarn__json *const *)pb;
    return tarn__compare_bytes(a->u.text, a->size, b->u.text, b->size);
}

static const tarn__json **sorted_keys(tarn__json_writer *w, const tarn__json *object)
{
    const tarn__json **keys = malloc((object->size + (size_t)1) * sizeof *keys);
    if (!keys) {
        fail(w, TARN_ERR_MEMORY, "out of memory");
        return NULL;
    }
    const tarn__json *key = object + 1;
    for (uint32_t i = 0; i < object->size; i++, key = tarn__json_next(key + 1))
        keys[i] = key;
    qsort(keys, object->size, sizeof *keys, by_text);
    return keys;
}

static void open_level(tarn__json_writer *w, level *l, const tarn__json *v, bool sort)
{
    *l = (level){.next = v + 1, .size = v->size, .is_list = v->kind == TARN__JSON_LIST};
    tarn__json_open(w, l->is_list ? '[' : '{');
    if (sort && !l->is_list) l->keys = sorted_keys(w, v);
}

/* The next value of a level, after writing its key. */
static const tarn__json *next_in_level(tarn__json_writer *w, level *l)
{
    const tarn__json *v = l->keys ? l->keys[l->done] : l->next;
    l->done++;
    if (!l->is_list) {
        tarn__json_key(w, v->u.text, v->size);
        v++;
    }
    l->next = tarn__json_next(v);
    return v;
}

static void put_container(tarn__json_writer *w, const tarn__json *v, bool sort)
{
    level *levels = NULL;
    size_t depth = 0, capacity = 0;
    do {
        if (v->kind < TARN__JSON_LIST) {
            put_scalar(w, v);
        } else {
            if (w->status == TARN_OK)
                w->status =
                    tarn__grow(&levels, sizeof *levels, depth, &capacity, &w->failure);
            if (w->status != TARN_OK) break;
            open_level(w, &levels[depth++], v, sort);
        }
        while (depth && levels[depth - 1].done == levels[depth - 1].size) {
            tarn__json_close(w, levels[--depth].is_list ? ']' : '}');
            free(levels[depth].keys);
        }
        if (depth && w->status == TARN_OK) v = next_in_level(w, &levels[depth - 1]);
    } while (depth && w->status == TARN_OK);
    while (depth)
        free(levels[--depth].keys);
    free(levels);
}

void tarn__json_put_value(tarn__json_writer *w, const tarn__json *v, bool sort)
{
    if (v->kind < TARN__JSON_LIST)
        put_scalar(w, v);
    else
        put_container(w, v, sort);
}
