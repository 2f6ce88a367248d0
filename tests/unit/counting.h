/* The allocator, seen from a test: how often and how much memory was requested by the
 * library and the libraries it uses, how much is in use, and a chosen request that fails.
 * malloc and its relatives are defined in this program; under AddressSanitizer they wrap
 * the sanitizer's. ThreadSanitizer's cannot be replaced: there requests are only counted.
 * Include it in only one file of a test program. */
#ifndef TARN_TESTS_COUNTING_H
#define TARN_TESTS_COUNTING_H

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COUNTING_ASAN 1
#elif __has_feature(thread_sanitizer)
#define COUNTING_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define COUNTING_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define COUNTING_TSAN 1
#endif

typedef struct counted {
    size_t calls, bytes;
} counted;

static atomic_size_t counted_calls, counted_bytes;

/* Requests since the last call. */
__attribute__((unused)) static counted count_memory(void)
{
    counted out = {atomic_exchange(&counted_calls, 0),
                   atomic_exchange(&counted_bytes, 0)};
    return out;
}

#ifdef COUNTING_TSAN

int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
                                                                size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *p, size_t size)
{
    (void)p;
    atomic_fetch_add(&counted_calls, 1);
    atomic_fetch_add(&counted_bytes, size);
}

static void on_free(const volatile void *p)
{
    (void)p;
}

static void count_begin(void)
{
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

#else

#define CALLER __builtin_return_address(0)
#ifdef COUNTING_ASAN
#define BENEATH(name) __interceptor_##name
#else
#define BENEATH(name) __libc_##name
#endif

void *BENEATH(malloc)(size_t size);
void *BENEATH(calloc)(size_t count, size_t size);
void *BENEATH(realloc)(void *p, size_t size);
void *BENEATH(memalign)(size_t alignment, size_t size);
void BENEATH(free)(void *p);

static atomic_size_t held_bytes; /* in use by the whole program; not under a sanitizer */
static atomic_long fails_at; /* how many requests succeed before one fails; < 0: all */
static atomic_bool fails_on; /* and all after it */
static atomic_size_t failures;

/* The request after the next n fails, and with forever all after that. */
__attribute__((unused)) static void memory_fails_at(long n, bool forever)
{
    atomic_store(&failures, 0);
    atomic_store(&fails_on, forever);
    atomic_store(&fails_at, n + 1);
}

/* From now on requests succeed; returns how many failed. */
__attribute__((unused)) static size_t memory_is_back(void)
{
    atomic_store(&fails_at, 0);
    return atomic_exchange(&failures, 0);
}

#ifdef COUNTING_ASAN
static uintptr_t libc_from, libc_to;

static int find_libc(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (!strstr(info->dlpi_name, "/libc.so")) return 0;
    libc_from = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            libc_to = libc_from + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 1;
}

/* The sanitizer cannot start a thread when libc has no memory. */
static bool spared(const void *caller)
{
    return (uintptr_t)caller - libc_from < libc_to - libc_from;
}

static void count_begin(void)
{
    dl_iterate_phdr(find_libc, NULL);
}
#else
static bool spared(const void *caller)
{
    (void)caller;
    return false;
}

static void count_begin(void) {}
#endif

static bool refused(size_t size, const void *caller)
{
    atomic_fetch_add(&counted_calls, 1);
    atomic_fetch_add(&counted_bytes, size);
    long left = atomic_load(&fails_at);
    if (left == 0 || spared(caller)) return false;
    left = atomic_fetch_sub(&fails_at, 1);
    if (left > 1 || left == 0) return false;
    if (left < 1 && !atomic_load(&fails_on)) return false;
    /* After the failure the number must not return to 0. */
    if (left == 1) atomic_store(&fails_at, -1);
    atomic_fetch_add(&failures, 1);
    errno = ENOMEM;
    return true;
}

static void release(void *p)
{
#ifndef COUNTING_ASAN
    if (p) atomic_fetch_sub(&held_bytes, malloc_usable_size(p));
#else
    (void)p;
#endif
}

static void *held(void *p)
{
#ifndef COUNTING_ASAN
    if (p) atomic_fetch_add(&held_bytes, malloc_usable_size(p));
#endif
    return p;
}

void *malloc(size_t size)
{
    return refused(size, CALLER) ? NULL : held(BENEATH(malloc)(size));
}

void *calloc(size_t count, size_t size)
{
    return refused(count * size, CALLER) ? NULL : held(BENEATH(calloc)(count, size));
}

void *realloc(void *p, size_t size)
{
    if (refused(size, CALLER)) return NULL;
    release(p);
    return held(BENEATH(realloc)(p, size));
}

void *memalign(size_t alignment, size_t size)
{
    return refused(size, CALLER) ? NULL : held(BENEATH(memalign)(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *p = memalign(alignment, size);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}

#ifndef COUNTING_ASAN
void free(void *p)
{
    release(p);
    BENEATH(free)(p);
}
#else
/* The sanitizer's own would bypass malloc. */
char *strndup(const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    char *copy = malloc(len + 1);
    if (!copy) return NULL;
    memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

char *strdup(const char *text)
{
    return strndup(text, SIZE_MAX);
}
#endif

#endif
#endif
