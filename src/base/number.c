/* Shortest round-trip text of doubles. The digits come from the C library, which rounds
 * correctly at any length; this file decides how many are needed. */
#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIGITS 17 /* always enough for a double */
#define SURE_DIGITS                                                                      \
    15 /* a decimal with this many digits always survives the round                      \
          trip */

static locale_t plain;
static pthread_once_t plain_once = PTHREAD_ONCE_INIT;

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* strtod reads 0x10 as hexadecimal; in decimal it is a 0 followed by other text. */
static const char *hex_mark(const char *text)
{
    text += strspn(text, " \t\n\v\f\r");
    text += *text == '+' || *text == '-';
    return text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? text + 1 : NULL;
}

const char *tarn__double_read(const char *text, double *out)
{
    const char *mark = hex_mark(text);
    char *end;
    if (mark) {
        *out = mark - text > 1 && mark[-2] == '-' ? -0.0 : 0.0;
        return mark;
    }
    pthread_once(&plain_once, make_plain);
    *out = plain ? strtod_l(text, &end, plain) : strtod(text, &end);
    return end;
}

double tarn__double_parse(const char *text)
{
    double value;
    (void)tarn__double_read(text, &value);
    return value;
}

typedef struct decimal {
    char digits[MOST_DIGITS + 1]; /* without the point, which comes after the first */
    int count;
    int exponent;
} decimal;

static double decimal_value(const decimal *d)
{
    char text[TARN__DOUBLE_MAX];
    snprintf(text, sizeof text, "%se%d", d->digits, d->exponent - (d->count - 1));
    return tarn__double_parse(text);
}

/* Rounds value, positive and finite, to the given number of digits. The decimal point is
 * skipped, whatever the locale uses for it. */
static void round_to(double value, int digits, decimal *out)
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", digits - 1, value);
    const char *p = text;
    for (out->count = 0; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9' && out->count < MOST_DIGITS)
            out->digits[out->count++] = *p;
    out->digits[out->count] = '\0';
    out->exponent = *p ? atoi(p + 1) : 0;
}

/* Changes d to the next larger decimal of the same length. */
static void step_up(decimal *d)
{
    int i = d->count - 1;
    while (i >= 0 && d->digits[i] == '9')
        d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
        return;
    }
    d->digits[0] = '1';
    d->exponent++;
}

/* Above a power of two, doubles are twice as far apart as below it. So the nearest
 * decimal may belong to the neighbour below, while one above still reads back as the
 * value. */
static bool reads_back(double value, decimal *d)
{
    int exponent;
    if (decimal_value(d) == value) return true;
    if (frexp(value, &exponent) != 0.5) return false;
    step_up(d);
    return decimal_value(d) == value;
}

static void shortest(double value, decimal *d)
{
    /* Subnormal numbers have fewer guaranteed digits. */
    int digits = value < 2.2250738585072014e-308 ? 1 : SURE_DIGITS;
    for (; digits <= MOST_DIGITS; digits++) {
        round_to(value, digits, d);
        if (reads_back(value, d)) break;
    }
    while (d->count > 1 && d->digits[d->count - 1] == '0')
        d->digits[--d->count] = '\0';
}

static size_t put_chars(char *out, size_t at, const char *from, int count)
{
    memcpy(out + at, from, (size_t)count);
    return at + (size_t)count;
}

static size_t put_zeros(char *out, size_t at, int count)
{
    memset(out + at, '0', (size_t)count);
    return at + (size_t)count;
}

/* Digits with a point among, before or after them. */
static size_t put_plain(const decimal *d, char *out, size_t at)
{
    int before = d->exponent + 1;
    if (before <= 0) {
        at = put_chars(out, at, "0.", 2);
        at = put_zeros(out, at, -before);
        return put_chars(out, at, d->digits, d->count);
    }
    if (before >= d->count) {
        at = put_chars(out, at, d->digits, d->count);
        at = put_zeros(out, at, before - d->count);
        return put_chars(out, at, ".0", 2);
    }
    at = put_chars(out, at, d->digits, before);
    at = put_chars(out, at, ".", 1);
    return put_chars(out, at, d->digits + before, d->count - before);
}

static size_t put_scientific(const decimal *d, char *out, size_t at)
{
    at = put_chars(out, at, d->digits, 1);
    if (d->count > 1) {
        at = put_chars(out, at, ".", 1);
        at = put_chars(out, at, d->digits + 1, d->count - 1);
    }
    return at + (size_t)snprintf(out + at, TARN__DOUBLE_MAX - at, "e%c%02d",
                                 d->exponent < 0 ? '-' : '+', abs(d->exponent));
}

static size_t put_word(char *out, const char *word)
{
    memcpy(out, word, strlen(word) + 1);
    return strlen(word);
}

size_t tarn__double_text(double value, char *out)
{
    decimal d;
    size_t at = 0;
    if (isnan(value)) return put_word(out, "NaN");
    if (isinf(value)) return put_word(out, value < 0 ? "-Infinity" : "Infinity");
    if (signbit(value)) at = put_chars(out, 0, "-", 1);
    if (value == 0) return at + put_word(out + at, "0.0");
    shortest(fabs(value), &d);
    at = d.exponent < -4 || d.exponent >= 16 ? put_scientific(&d, out, at)
                                             : put_plain(&d, out, at);
    out[at] = '\0';
    return at;
}

bool tarn__digits(const char *text, size_t len, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)(unsigned char)text[i] - '0';
        if (digit > 9 || digit > most || value > (most - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *out = value;
    return len > 0;
}
