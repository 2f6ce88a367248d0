/* The value of a sample's field: an array (numbers included) or a text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

size_t cli_utf8(const char *text, size_t len, uint32_t *out)
{
    const unsigned char *s = (const unsigned char *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (len == 0) return 0;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (n == 0 || n > len || s[0] > 0xf4) return 0;
    uint32_t code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
    *out = code;
    return n;
}

static tarn_status fail(const cli_record *r, const cli_piece *p, const char *what,
                        tarn_error *err)
{
    char key[200], name[200];
    return cli_error(err, TARN_ERR_UNSUPPORTED, "sample %s: field %s %s",
                     tarn_printable(key, sizeof key, r->key, strlen(r->key)),
                     tarn_printable(name, sizeof name, p->name, strlen(p->name)), what);
}

static void set_number(cli_piece_value *v, char kind, uint32_t size, void *data)
{
    tarn_dtype dtype = {size == 1 ? '|' : '<', kind, size};
    v->kind = CLI_ARRAY;
    v->array = (tarn_array){.data = data, .dtype = dtype};
}

/* --- JSON -------------------------------------------------------------------------- */

static unsigned hex4(const char *s)
{
    char digits[5] = {s[0], s[1], s[2], s[3], 0};
    return (unsigned)strtoul(digits, NULL, 16);
}

static size_t put_utf8(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00u >> n & 0xff) | code);
    return n;
}

/* Decodes the escape at s, which starts after the backslash: its bytes, and the number of
 * bytes read. The text is valid JSON. */
static size_t unescape(const char *s, size_t left, char *out, size_t *out_len)
{
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    const char *at = strchr(letters, s[0]);
    uint32_t code;
    if (s[0] != 'u' || left < 5) {
        out[0] = at && *at ? meanings[at - letters] : s[0];
        *out_len = 1;
        return 1;
    }
    code = hex4(s + 1);
    size_t took = 5;
    if (code >= 0xd800 && code < 0xdc00 && left >= 11 && s[5] == '\\' && s[6] == 'u') {
        /* A lone surrogate is kept, and later reported as invalid UTF-8. */
        uint32_t low = hex4(s + 7);
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            took = 11;
        }
    }
    *out_len = put_utf8(code, out);
    return took;
}

static void take_string(cli_piece_value *v, const char *s, size_t len)
{
    char *out = v->owned = malloc(len + 4);
    if (!out) cli_no_memory();
    for (size_t i = 1; i + 1 < len;) {
        size_t n;
        if (s[i] != '\\') {
            *out++ = s[i++];
            continue;
        }
        i += 1 + unescape(s + i + 1, len - i - 2, out, &n);
        out += n;
    }
    v->kind = CLI_TEXT;
    v->text = v->owned;
    v->size = (size_t)(out - v->owned);
}

static tarn_status take_json(const cli_record *r, const cli_piece *p, const char *s,
                             size_t len, cli_piece_value *v, tarn_error *err)
{
    char text[400];
    while (len && strchr(" \t\r\n", s[0]))
        s++, len--;
    while (len && strchr(" \t\r\n", s[len - 1]))
        len--;
    v->kind = CLI_JSON;
    v->text = s;
    v->size = len;
    if (len == 0 || s[0] == '{' || s[0] == '[') return TARN_OK;
    if (s[0] == '"') {
        take_string(v, s, len);
        return TARN_OK;
    }
    if (len >= sizeof text) return fail(r, p, "is a number with too many digits", err);
    memcpy(text, s, len);
    text[len] = '\0';
    v->flag = text[0] == 't';
    if (strcmp(text, "null") == 0) v->kind = CLI_NULL;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        set_number(v, 'b', 1, &v->flag);
    if (v->kind != CLI_JSON) return TARN_OK;
    errno = 0;
    v->integer = strtoll(text, NULL, 10);
    if (!strpbrk(text, ".eEnNI")) {
        if (errno) return fail(r, p, "is an integer of more than 64 bits", err);
        set_number(v, 'i', 8, &v->integer);
        return TARN_OK;
    }
    v->real = strtod(text, NULL);
    set_number(v, 'f', 8, &v->real);
    return TARN_OK;
}

/* --- Any value --------------------------------------------------------------------- */

static tarn_status take_value(const cli_record *r, const cli_piece *p, cli_piece_value *v,
                              tarn_error *err)
{
    uint64_t shape = p->size;
    tarn_dtype bytes = {'|', 'u', 1};
    switch (v->held.kind) {
    case TARN_VALUE_ARRAY:
        v->kind = CLI_ARRAY;
        v->array = v->held.arrays[0];
        return TARN_OK;
    case TARN_VALUE_INTEGER:
        v->integer = v->held.integer;
        set_number(v, 'i', 8, &v->integer);
        return TARN_OK;
    case TARN_VALUE_REAL:
        v->real = v->held.real;
        set_number(v, 'f', 8, &v->real);
        return TARN_OK;
    case TARN_VALUE_TEXT:
        v->kind = CLI_TEXT;
        v->text = v->held.data;
        v->size = v->held.size;
        return TARN_OK;
    case TARN_VALUE_JSON:
        return take_json(r, p, v->held.data, v->held.size, v, err);
    case TARN_VALUE_BYTES:
        v->kind = CLI_ARRAY;
        return tarn_array_init(&v->array, (void *)(uintptr_t)p->data, bytes, 1, &shape,
                               err);
    default:
        return fail(r, p, "holds several arrays", err);
    }
}

tarn_status cli_value_read(const cli_record *r, const cli_piece *p, cli_piece_value *out,
                           tarn_error *err)
{
    *out = (cli_piece_value){.held = TARN_VALUE_INIT};
    if (p->form.form == TARN_FORM_ARRAY) {
        out->kind = CLI_ARRAY;
        return tarn_array_init(&out->array, (void *)(uintptr_t)p->data, p->form.dtype,
                               p->form.ndim, p->form.shape, err);
    }
    if (tarn_decode(p->form.codec, p->data, p->size, NULL, &out->held, err) != TARN_OK) {
        char why[400];
        snprintf(why, sizeof why, "cannot be decoded: %.350s", err->message);
        return fail(r, p, why, err);
    }
    tarn_status status = take_value(r, p, out, err);
    if (status != TARN_OK) cli_value_free(out);
    return status;
}

void cli_value_free(cli_piece_value *v)
{
    tarn_value_release(&v->held);
    free(v->owned);
    v->owned = NULL;
}
