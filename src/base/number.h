/* Conversion between doubles and text, independent of the locale. */
#ifndef TARN_BASE_NUMBER_H
#define TARN_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TARN__DOUBLE_MAX 32

/* The shortest text that reads back as value, written as Python's repr does (0.1, 1.0,
 * 1e-05, 1e+16), with NaN, Infinity and -Infinity as in Python's JSON. out has room for
 * TARN__DOUBLE_MAX bytes and gets a NUL. Returns the length. */
size_t tarn__double_text(double value, char *out);

/* The double nearest to the decimal number at text, which may have leading blanks; NaN
 * and Infinity are numbers too. Returns the first byte that cannot belong to the number,
 * or text if there is no number. */
const char *tarn__double_read(const char *text, double *out);

/* The same for text that is known to be a number. */
double tarn__double_parse(const char *text);

/* Reads a number of decimal digits, at least one and nothing else. False also if it is
 * more than most. */
bool tarn__digits(const char *text, size_t len, uint64_t most, uint64_t *out);

#endif
