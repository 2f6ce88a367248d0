/* An allocator that fails for one module: preloaded (LD_PRELOAD) into an interpreter, it
 * makes a chosen request of the extension fail, and none of the interpreter's own.
 *
 *   nomem_module(NAME)       the module: a part of its path
 *   nomem_fail(N, FOREVER)   the request after the next N fails, or all from there on
 *   nomem_stop()             stops failing; returns how many requests failed
 *
 * Preloaded into a program, it makes the program's own requests fail: NOMEM_AT=N,
 * NOMEM_FOREVER=1. */
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static uintptr_t from, to;
static atomic_long left;
static atomic_bool armed, on;
static atomic_int failures;

static int look(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    if (!strstr(info->dlpi_name, name)) return 0;
    from = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            to = from + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 1;
}

int nomem_module(char *name)
{
    return dl_iterate_phdr(look, name);
}

void nomem_fail(long n, int forever)
{
    atomic_store(&failures, 0);
    atomic_store(&left, n);
    atomic_store(&on, forever);
    atomic_store(&armed, true);
}

int nomem_stop(void)
{
    atomic_store(&armed, false);
    return atomic_load(&failures);
}

/* The program itself is the first in the list and has no name there. */
static int look_at_program(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)unused;
    char none[] = "";
    return look(info, size, none);
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("NOMEM_AT");
    if (!at) return;
    dl_iterate_phdr(look_at_program, NULL);
    nomem_fail(atol(at), getenv("NOMEM_FOREVER") != NULL);
}

static bool refused(const void *caller)
{
    if (!atomic_load(&armed) || (uintptr_t)caller - from >= to - from) return false;
    long n = atomic_fetch_sub(&left, 1);
    if (n > 0 || (n < 0 && !atomic_load(&on))) return false;
    atomic_fetch_add(&failures, 1);
    errno = ENOMEM;
    return true;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size)
{
    return refused(CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return refused(CALLER) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    return refused(CALLER) ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return refused(CALLER) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (refused(CALLER)) return ENOMEM;
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}

char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = refused(CALLER) ? NULL : __libc_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}
