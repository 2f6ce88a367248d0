/* Fixed randomness and time: what the library draws from the system is the same in every
 * run of a fuzz target, so that runs with the same seed do the same. The layout of hash
 * tables, the names of temporary files and the time of the last length check must not
 * affect any result. */
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

ssize_t getrandom(void *buf, size_t size, unsigned flags)
{
    (void)flags;
    memset(buf, 0x5a, size);
    return (ssize_t)size;
}

/* It is part of temporary names. */
pid_t getpid(void)
{
    return 4242;
}

/* The coarse clock advances with every call; the fuzzer itself uses other clocks. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    static __thread long ticks;
    if (clock != CLOCK_MONOTONIC_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, out);
    *out = (struct timespec){.tv_sec = ++ticks};
    return 0;
}
