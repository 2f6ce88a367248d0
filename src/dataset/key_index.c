/* Finds samples by key: a sorted table of hashes, then a comparison of the keys. The lock
 * guards the making of the table, which does not change afterwards. */
#include "dataset/key_index.h"

#include <stdlib.h>
#include <string.h>

#include <tarn/dataset.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/names.h"
#include "base/pool.h"

void tarn__key_index_init(tarn__key_index *x, uint64_t count, tarn__key_call key,
                          void *state)
{
    *x = (tarn__key_index){.count = count, .key = key, .state = state};
    tarn__forklock_init(&x->lock, TARN__LOCK_OUTERMOST);
}

void tarn__key_index_reset(tarn__key_index *x)
{
    if (x->key) tarn__forklock_destroy(&x->lock);
    free(x->runs);
    x->runs = NULL;
}

static tarn_status make_runs(tarn__key_index *x, tarn_error *err)
{
    tarn_text key = {0};
    if (x->count > TARN_MAX_KEYED)
        return tarn__fail(
            err, TARN_ERR_LIMIT, "cannot look up keys in %llu samples (limit %llu)",
            (unsigned long long)x->count, (unsigned long long)TARN_MAX_KEYED);
    tarn__run *runs = tarn__big_alloc((size_t)(x->count + 1) * sizeof *runs);
    tarn_status status = runs ? TARN_OK : tarn__fail_memory(err);
    for (uint64_t i = 0; status == TARN_OK && i < x->count; i++) {
        status = x->key(x->state, i, &key, err);
        if (status == TARN_OK)
            runs[i] = (tarn__run){tarn__name_hash(key.data, key.size), (uint32_t)i, 0};
    }
    tarn_text_reset(&key);
    if (status != TARN_OK) {
        free(runs);
        return status;
    }
    tarn__runs_sort(runs, (size_t)x->count, tarn__thread_count(0));
    x->runs = runs;
    return TARN_OK;
}

uint64_t tarn__runs_find(const tarn__run *runs, uint64_t count, uint64_t hash,
                         uint64_t row)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (runs[mid].hash < hash || (runs[mid].hash == hash && runs[mid].row < row))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

tarn_status tarn__key_index_find(tarn__key_index *x, const char *path, const char *key,
                                 uint64_t from, uint64_t *out, tarn_error *err)
{
    size_t len = strlen(key);
    tarn_text found = {0};
    bool same = false;
    pthread_mutex_lock(&x->lock.mutex);
    tarn_status status = x->runs ? TARN_OK : make_runs(x, err);
    pthread_mutex_unlock(&x->lock.mutex);
    if (status != TARN_OK) return status;
    uint64_t hash = tarn__name_hash(key, len);
    uint64_t at = tarn__runs_find(x->runs, x->count, hash, from);
    for (; status == TARN_OK && !same && at < x->count && x->runs[at].hash == hash;
         at++) {
        *out = x->runs[at].row;
        status = x->key(x->state, *out, &found, err);
        same = status == TARN_OK && found.size == len && !memcmp(found.data, key, len);
    }
    tarn_text_reset(&found);
    if (status != TARN_OK || same) return status;
    return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, path, TARN_NO_OFFSET,
                         "no sample has the key %s", TARN__SHOW(key, len));
}
