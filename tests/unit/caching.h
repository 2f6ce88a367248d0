/* Shared by the tests of the cache: an object with known bytes, and handles of it. */
#ifndef TARN_TESTS_CACHING_H
#define TARN_TESTS_CACHING_H

#include "own_folder.h"

#include "io/cache_inside.h"

enum { BLOCK = TARN__CACHE_BLOCK, BLOCKS = 40, SIZE = BLOCKS * BLOCK - 1000 };

#define URL     "https://host/birds/train-0001.tar"
#define DATASET "https://host/birds"

extern tarn_error err;

/* The bytes of the object at an offset. */
void object_bytes(unsigned char *out, uint64_t offset, uint64_t size);

tarn__cachedir *open_cache(const char *name, uint64_t max_bytes);
/* A copy of an object of SIZE bytes. */
tarn__cached *open_object(tarn__cachedir *cache, const char *url, const char *etag);
tarn__cached *open_sized(tarn__cachedir *cache, const char *dataset, const char *url,
                         const char *etag, uint64_t size);

/* Claims blocks, and expects one span of this state. */
void claims(tarn__cached *c, uint64_t first, uint64_t count, tarn__cached_state state);
tarn_status put(tarn__cached *c, uint64_t first, uint64_t count);
/* Claims and puts what is missing, of the whole object. */
void fill(tarn__cached *c);
/* Checks the bytes of all blocks that the cache has; returns their number. */
uint64_t check_bytes(tarn__cached *c);

#endif
