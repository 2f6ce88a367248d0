/* Handles of a cache and of its objects, for the tests. */
#include "caching.h"

#include "io/file.h"

tarn_error err;

void object_bytes(unsigned char *out, uint64_t offset, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++) {
        uint64_t at = offset + i;
        out[i] = (unsigned char)(1 + (at * 7 + at / BLOCK * 13) % 255);
    }
}

tarn__cachedir *open_cache(const char *name, uint64_t max_bytes)
{
    tarn__cachedir *cache;
    tarn__cache_limits limits = {.max_bytes = max_bytes};
    OK(tarn__cachedir_open(in(name), &limits, &cache, &err));
    return cache;
}

tarn__cached *open_sized(tarn__cachedir *cache, const char *dataset, const char *url,
                         const char *etag, uint64_t size)
{
    tarn__cached *c;
    tarn__object_id id = {.size = size};
    snprintf(id.etag, sizeof id.etag, "\"%s\"", etag);
    OK(tarn__cached_open(cache, dataset, url, url, &id, &c, &err));
    return c;
}

tarn__cached *open_object(tarn__cachedir *cache, const char *url, const char *etag)
{
    return open_sized(cache, DATASET, url, etag, SIZE);
}

static uint64_t end_of(const tarn__cached *c, uint64_t block)
{
    return block * BLOCK < c->size ? block * BLOCK : c->size;
}

void claims(tarn__cached *c, uint64_t first, uint64_t count, tarn__cached_state state)
{
    tarn__cached_span spans[4];
    size_t n;
    uint64_t end;
    OK(tarn__cached_claim(c, first * BLOCK, end_of(c, first + count) - first * BLOCK,
                          spans, 4, &n, &end, &err));
    assert_int_equal(n, 1);
    assert_int_equal(spans[0].state, state);
    assert_int_equal(spans[0].first, first);
    assert_int_equal(spans[0].count, count);
    assert_int_equal(end, end_of(c, first + count));
}

tarn_status put(tarn__cached *c, uint64_t first, uint64_t count)
{
    unsigned char *bytes = malloc(count * BLOCK);
    assert_non_null(bytes);
    object_bytes(bytes, first * BLOCK, count * BLOCK);
    tarn_status status = tarn__cached_put(c, first, count, bytes, &err);
    free(bytes);
    return status;
}

void fill(tarn__cached *c)
{
    tarn__cached_span spans[8];
    size_t n;
    for (uint64_t at = 0, end; at < c->size; at = end) {
        OK(tarn__cached_claim(c, at, c->size - at, spans, 8, &n, &end, &err));
        assert_true(end > at);
        for (size_t i = 0; i < n; i++)
            if (spans[i].state == TARN__CACHED_CLAIMED)
                OK(put(c, spans[i].first, spans[i].count));
    }
}

uint64_t check_bytes(tarn__cached *c)
{
    unsigned char got[BLOCK], want[BLOCK];
    uint64_t there = 0;
    for (uint64_t b = 0; b < c->blocks; b++) {
        uint64_t len = end_of(c, b + 1) - b * BLOCK;
        if (!tarn__cached_has(c, b * BLOCK, len)) continue;
        there++;
        OK(tarn__read_exact(c->fd, c->path, got, len, b * BLOCK, &err));
        object_bytes(want, b * BLOCK, len);
        assert_memory_equal(got, want, len);
    }
    return there;
}
