/* Text, numbers and JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/number.h"
#include "base/utf8.h"
#include "codec/codec.h"

/* No supported number is longer. */
#define LONGEST_NUMBER 64u

TARN__ENCODER(tarn__encode_text)
{
    /* The table writes text for every name, so this function is never called with
     * text. */
    return tarn__wrong_value(err, extension, "text", value);
}

TARN__DECODER(tarn__decode_text)
{
    if (!tarn__utf8_is_valid(data, size))
        return tarn__fail(err, TARN_ERR_FORMAT, "field .%s is not UTF-8", extension);
    *out = (tarn_value){.kind = TARN_VALUE_TEXT, .data = data, .size = size};
    return TARN_OK;
}

/* --- Numbers -------------------------------------------------------------------- */

/* As Python's str formats a float. */
static size_t real_text(double real, char *out)
{
    const char *word = isnan(real) ? "nan" : isinf(real) ? real < 0 ? "-inf" : "inf" : 0;
    if (!word) return tarn__double_text(real, out);
    memcpy(out, word, strlen(word) + 1);
    return strlen(word);
}

TARN__ENCODER(tarn__encode_number)
{
    char text[TARN__DOUBLE_MAX];
    size_t len;
    if (value->kind == TARN_VALUE_INTEGER)
        len = (size_t)snprintf(text, sizeof text, "%lld", (long long)value->integer);
    else if (value->kind == TARN_VALUE_REAL)
        len = real_text(value->real, text);
    else
        return tarn__wrong_value(err, extension, "a number", value);
    return tarn__bytes_add(out, text, len, err);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Digits as Python's int accepts them: single underscores between digits are allowed. */
static bool parse_integer(const char *text, size_t len, int64_t *out)
{
    size_t at = len && (text[0] == '-' || text[0] == '+');
    bool negative = at && text[0] == '-', after_digit = false;
    uint64_t value = 0, most = (uint64_t)INT64_MAX + negative;
    for (; at < len; at++) {
        uint64_t digit = (uint64_t)(text[at] - '0');
        if (text[at] == '_' && after_digit) {
            after_digit = false;
            continue;
        }
        if (text[at] < '0' || text[at] > '9' || value > (most - digit) / 10) return false;
        value = value * 10 + digit;
        after_digit = true;
    }
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return after_digit;
}

TARN__DECODER(tarn__decode_number)
{
    const char *text = data;
    char shown[LONGEST_NUMBER];
    int64_t integer;
    size_t len = size;
    while (len && is_blank(text[0]))
        text++, len--;
    while (len && is_blank(text[len - 1]))
        len--;
    if (!parse_integer(text, len, &integer))
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "field .%s: \"%s\" is not a 64-bit integer", extension,
                          tarn_printable(shown, sizeof shown, text, len));
    *out = (tarn_value){.kind = TARN_VALUE_INTEGER, .integer = integer};
    return TARN_OK;
}

/* --- JSON ----------------------------------------------------------------------- */

static void put_tree(tarn__json_writer *w, const tarn__json_doc *doc)
{
    tarn__json_put_value(w, tarn__json_root(doc), false);
}

TARN__ENCODER(tarn__encode_json)
{
    tarn__json_writer w;
    tarn__json_doc doc = {0};
    if (value->kind == TARN_VALUE_JSON)
        TARN_TRY(tarn__json_parse(&doc, value->data, value->size, NULL, err));
    else if (value->kind != TARN_VALUE_INTEGER && value->kind != TARN_VALUE_REAL)
        return tarn__wrong_value(err, extension, "JSON or a number", value);
    tarn__buf buf = tarn__bytes_lend(out);
    tarn__json_begin(&w, &buf);
    if (value->kind == TARN_VALUE_JSON)
        put_tree(&w, &doc);
    else if (value->kind == TARN_VALUE_INTEGER)
        tarn__json_put_int(&w, value->integer);
    else
        tarn__json_put_double(&w, value->real);
    tarn_status status = tarn__json_end(&w, err);
    tarn__bytes_take(out, &buf);
    tarn__json_reset(&doc);
    return status;
}

TARN__DECODER(tarn__decode_json)
{
    tarn__json_doc doc;
    tarn__json_options json = TARN__JSON_OPTIONS_INIT;
    if (options->max_size < json.max_bytes) json.max_bytes = options->max_size;
    json.last_wins = true;
    TARN_TRY(tarn__json_parse(&doc, data, size, &json, err));
    tarn__json_reset(&doc);
    *out = (tarn_value){.kind = TARN_VALUE_JSON, .data = data, .size = size};
    return TARN_OK;
}
