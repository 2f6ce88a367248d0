/* The clock of the benchmark programs, in seconds. */
#ifndef TARN_BENCH_CLOCK_H
#define TARN_BENCH_CLOCK_H

#include <time.h>

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
