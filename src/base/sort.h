/* Comparisons for qsort and bsearch, and searches in sorted arrays. */
#ifndef TARN_BASE_SORT_H
#define TARN_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* For arrays of numbers. */
static inline int tarn__by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static inline int tarn__by_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The order of two texts by their bytes, which for UTF-8 is that of the code points. */
static inline int tarn__compare_bytes(const void *a, size_t a_len, const void *b,
                                      size_t b_len)
{
    size_t less = a_len < b_len ? a_len : b_len;
    int order = less ? memcmp(a, b, less) : 0;
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

/* The last of count ascending starts that is at most value; 0 if there is none. */
static inline size_t tarn__stretch_of(const uint64_t *starts, size_t count,
                                      uint64_t value)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (starts[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#endif
