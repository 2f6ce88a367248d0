/* The growable buffer and the growable array. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/error.h"

void tarn__buf_init(tarn__buf *buf, size_t max)
{
    *buf = (tarn__buf){.max = max};
}

void tarn__buf_reset(tarn__buf *buf)
{
    free(buf->data);
    *buf = (tarn__buf){.max = buf->max};
}

tarn_status tarn__buf_reserve(tarn__buf *buf, size_t extra, tarn_error *err)
{
    uint64_t need;
    if (!tarn__add(buf->size, extra, &need) || need > buf->max)
        return tarn__fail(err, TARN_ERR_LIMIT, "more than %zu bytes", buf->max);
    if (need <= buf->capacity) return TARN_OK;
    size_t capacity = buf->capacity ? buf->capacity : 64;
    while (capacity < need)
        capacity = capacity > buf->max / 2 ? buf->max : capacity * 2;
    char *data = realloc(buf->data, capacity);
    if (!data) return tarn__fail_memory(err);
    buf->data = data;
    buf->capacity = capacity;
    return TARN_OK;
}

tarn_status tarn__buf_add(tarn__buf *buf, const void *data, size_t len, tarn_error *err)
{
    TARN_TRY(tarn__buf_reserve(buf, len, err));
    if (len) memcpy(buf->data + buf->size, data, len);
    buf->size += len;
    return TARN_OK;
}

tarn_status tarn__buf_printf(tarn__buf *buf, tarn_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0) return tarn__fail_memory(err);
    TARN_TRY(tarn__buf_reserve(buf, (size_t)len + 1, err));
    va_start(args, format);
    vsnprintf(buf->data + buf->size, (size_t)len + 1, format, args);
    va_end(args);
    buf->size += (size_t)len;
    return TARN_OK;
}

tarn_status tarn__grow(void *items, size_t item_size, size_t count, size_t *capacity,
                       tarn_error *err)
{
    if (count < *capacity) return TARN_OK;
    void *old;
    memcpy(&old, items, sizeof old);
    size_t next = *capacity ? *capacity * 2 : 16;
    uint64_t bytes;
    if (!tarn__mul(next, item_size, &bytes)) return tarn__fail_memory(err);
    void *grown = realloc(old, bytes);
    if (!grown) return tarn__fail_memory(err);
    memcpy(items, &grown, sizeof grown);
    *capacity = next;
    return TARN_OK;
}

void *tarn__big_alloc(size_t size)
{
    const size_t huge = 2u << 20;
    if (size < huge) return malloc(size ? size : 1);
    if (size > SIZE_MAX - huge) return NULL;
    size = (size + huge - 1) & ~(huge - 1);
    void *data = aligned_alloc(huge, size);
    /* Only advice: small pages work too. */
    if (data) (void)madvise(data, size, MADV_HUGEPAGE);
    return data;
}
