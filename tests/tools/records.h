/* Records on standard input and output, for the tools that Python drives: numbers of 8
 * bytes, little-endian, and bytes after their length. */
#ifndef TARN_TESTS_RECORDS_H
#define TARN_TESTS_RECORDS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Exits the program at the end of the input. */
static inline void get(void *out, size_t len)
{
    if (len && fread(out, 1, len, stdin) != len) exit(3);
}

static inline uint64_t get_u64(void)
{
    uint64_t v;
    get(&v, sizeof v);
    return v;
}

static inline void put_u64(uint64_t v)
{
    fwrite(&v, sizeof v, 1, stdout);
}

static inline void put_bytes(const void *data, size_t len)
{
    put_u64(len);
    if (len) fwrite(data, 1, len, stdout);
}

#endif
