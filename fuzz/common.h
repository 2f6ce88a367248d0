/* Shared by the fuzz targets and the replayer: the entry points, and the check that stops
 * the fuzzer when the library breaks a promise. */
#ifndef TARN_FUZZ_COMMON_H
#define TARN_FUZZ_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* Provided by the fuzzer; absent when a corpus is replayed. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

#define CHECK(cond)                                                                      \
    do {                                                                                 \
        if (!(cond)) {                                                                   \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond);           \
            __builtin_trap();                                                            \
        }                                                                                \
    } while (0)

/* A copy of exactly size bytes, so that the sanitizer detects reads past its end. */
static inline void *exact_copy(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    CHECK(copy);
    if (size) memcpy(copy, data, size);
    return copy;
}

/* Writes the correct checksum into a tar header, in the usual form. */
static inline void fix_tar_checksum(uint8_t *block)
{
    unsigned sum = 8 * ' ';
    char text[16];
    for (size_t i = 0; i < 512; i++)
        if (i < 148 || i >= 156) sum += block[i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(block + 148, text, 7);
    block[155] = ' ';
}

#endif
