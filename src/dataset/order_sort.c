/* Sorts samples by a number in linear time: a radix sort, byte by byte from the lowest,
 * that skips bytes with the same value in all numbers. */
#include <string.h>

#include "dataset/order.h"

/* Moves list to out, sorted by one byte of the values. */
static void move_by_byte(const tarn__numbered *list, tarn__numbered *out, uint64_t n,
                         unsigned shift, const uint64_t *counts)
{
    uint64_t next[256], sum = 0;
    for (int k = 0; k < 256; k++) {
        next[k] = sum;
        sum += counts[k];
    }
    for (uint64_t i = 0; i < n; i++)
        out[next[list[i].value >> shift & 255]++] = list[i];
}

void tarn__numbered_sort(tarn__numbered *list, tarn__numbered *spare, uint64_t n)
{
    uint64_t counts[8][256] = {{0}};
    tarn__numbered *from = list, *to = spare, *held;
    for (uint64_t i = 0; i < n; i++)
        for (unsigned b = 0; b < 8; b++)
            counts[b][list[i].value >> 8 * b & 255]++;
    for (unsigned b = 0; b < 8; b++) {
        if (n == 0 || counts[b][list[0].value >> 8 * b & 255] == n) continue;
        move_by_byte(from, to, n, 8 * b, counts[b]);
        held = from;
        from = to;
        to = held;
    }
    if (from != list) memcpy(list, from, n * sizeof *list);
}
