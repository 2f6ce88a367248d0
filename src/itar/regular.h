/* Regular rows: every sample has the same fields in the same order, in consecutive rows,
 * so that sample i is rows i * stride to (i + 1) * stride. */
#ifndef TARN_ITAR_REGULAR_H
#define TARN_ITAR_REGULAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarn_index;

enum { TARN__MAX_STRIDE = 64 };

/* The expected rows of a sample, and the next row. */
typedef struct tarn__regular {
    uint16_t fields[TARN__MAX_STRIDE];
    uint64_t hash; /* of the row before */
    uint32_t collision;
    uint32_t stride, k;
} tarn__regular;

/* Starts at the very first row, whose bytes are needed. fields belongs to the caller. */
void tarn__regular_begin(tarn__regular *r, uint32_t stride, const unsigned char *first);

/* Whether the next count rows, which are contiguous, continue the pattern. */
bool tarn__regular_next(tarn__regular *r, const unsigned char *rows, size_t count);

/* Whether rows number to number + count are regular, on their own and together with the
 * previous row. rows points to the first stride rows of all. */
bool tarn__regular_part(const unsigned char *rows, uint32_t stride, uint64_t number,
                        size_t count);

/* The number of rows per sample if the counts allow a stride; else 0. */
uint32_t tarn__regular_stride(uint64_t n_rows, uint64_t n_samples);

/* The stride of an index whose rows are all in memory, or 0. */
uint32_t tarn__index_stride(const struct tarn_index *index);

#endif
