/* Checked arithmetic on sizes from untrusted input. Each helper returns false, and does
 * not change the result, when the true result does not fit in 64 bits. */
#ifndef TARN_BASE_CHECKED_H
#define TARN_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* States facts that a static analyzer cannot see, such as that qsort loses no pointer. It
 * compiles to nothing. */
#ifdef __clang_analyzer__
#define TARN__KNOWN(cond) ((cond) ? (void)0 : __builtin_unreachable())
#else
#define TARN__KNOWN(cond) ((void)0)
#endif

static inline bool tarn__add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

static inline bool tarn__mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

/* Rounds up to a multiple of align, a power of two. */
static inline bool tarn__align_up(uint64_t a, uint64_t align, uint64_t *out)
{
    uint64_t raised;
    if (!tarn__add(a, align - 1, &raised)) return false;
    *out = raised & ~(align - 1);
    return true;
}

/* Whether [offset, offset + length) is inside [0, limit). */
static inline bool tarn__range_in(uint64_t offset, uint64_t length, uint64_t limit)
{
    return offset <= limit && length <= limit - offset;
}

#endif
