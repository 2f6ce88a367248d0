/* How often and how much memory was asked for, by the library and the libraries under it:
 * malloc and its relatives are this program's own. A sanitizer has them already, and
 * calls back. Include it in the one file of a test program. */
#ifndef TARN_TESTS_COUNTING_H
#define TARN_TESTS_COUNTING_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

typedef struct counted {
    size_t calls, bytes;
} counted;

static atomic_size_t counted_calls, counted_bytes;

static void count_one(size_t size)
{
    atomic_fetch_add(&counted_calls, 1);
    atomic_fetch_add(&counted_bytes, size);
}

/* What was asked for since the last call. */
static counted count_memory(void)
{
    counted out = {atomic_exchange(&counted_calls, 0),
                   atomic_exchange(&counted_bytes, 0)};
    return out;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTING_HOOKS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING_HOOKS 1
#endif

#ifdef COUNTING_HOOKS

int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
                                                                size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *p, size_t size)
{
    (void)p;
    count_one(size);
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

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    count_one(size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_one(count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    count_one(size);
    return __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count_one(size);
    return __libc_memalign(alignment, size);
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
    count_one(size);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    count_one(size);
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}

static void count_begin(void) {}

#endif
#endif
