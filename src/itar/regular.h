/* Regular rows: every sample has the same fields in the same order, one row after the
 * other, so that sample i is rows i * stride to (i + 1) * stride. */
#ifndef TARN_ITAR_REGULAR_H
#define TARN_ITAR_REGULAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarn_index;

enum { TARN__MAX_STRIDE = 64 };

/* What the rows of a sample must be, and which row comes next. */
typedef struct tarn__regular {
    uint16_t fields[TARN__MAX_STRIDE];
    uint64_t hash; /* of the row before */
    uint32_t crash;
    uint32_t stride, k;
} tarn__regular;

/* Begins at the very first row, whose bytes are needed; fields are the caller's. */
void tarn__regular_begin(tarn__regular *r, uint32_t stride, const unsigned char *first);

/* Whether the next count rows, which lie together, go on as they should. */
bool tarn__regular_next(tarn__regular *r, const unsigned char *rows, size_t count);

/* Whether rows number to number + count are regular by themselves and with the row before
 * them. rows is the first of all, and there are stride of them. */
bool tarn__regular_part(const unsigned char *rows, uint32_t stride, uint64_t number,
                        size_t count);

/* The rows of each sample if there is a stride they can have by their number; else 0. */
uint32_t tarn__regular_stride(uint64_t n_rows, uint64_t n_samples);

/* The stride of an index all of whose rows are in memory, or 0. */
uint32_t tarn__index_stride(const struct tarn_index *index);

#endif
