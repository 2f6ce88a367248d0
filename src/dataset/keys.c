/* Keys of samples, and samples by their keys. */
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include "dataset/dataset.h"

tarn_status tarn_dataset_key(tarn_dataset *d, uint64_t sample, tarn_text *out,
                             tarn_error *err)
{
    TARN_TRY(tarn__check_sample(d, sample, err));
    return d->source->kind->key(d->source->state, tarn__dataset_at(d, sample), out, err);
}

static tarn_status keys_one_by_one(tarn_dataset *d, const uint64_t *numbers, size_t count,
                                   tarn__buf *out, uint64_t *offsets, size_t *out_done,
                                   tarn_error *err)
{
    tarn_text key = {0};
    tarn_status status = TARN_OK;
    for (*out_done = 0; *out_done < count; ++*out_done) {
        offsets[*out_done] = out->size;
        status = d->source->kind->key(d->source->state, numbers[*out_done], &key, err);
        if (status == TARN_OK) status = tarn__buf_add(out, key.data, key.size + 1, err);
        if (status != TARN_OK) break;
    }
    tarn_text_reset(&key);
    return status;
}

tarn_status tarn__dataset_keys(tarn_dataset *d, const uint64_t *samples, size_t count,
                               uint64_t *numbers, tarn__buf *out, uint64_t *offsets,
                               size_t *out_done, tarn_error *err)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = tarn__dataset_at(d, samples[i]);
    if (!d->source->kind->keys)
        return keys_one_by_one(d, numbers, count, out, offsets, out_done, err);
    return d->source->kind->keys(d->source->state, numbers, count, out, offsets, out_done,
                                 err);
}

/* The number in the dataset of a sample of its source. */
static bool find_picked(const tarn_dataset *d, uint64_t sample, uint64_t *out)
{
    uint64_t low = 0, high = d->count;
    *out = sample;
    if (!d->picked) return true;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (d->picked[mid] < sample)
            low = mid + 1;
        else
            high = mid;
    }
    *out = low;
    return low < d->count && d->picked[low] == sample;
}

tarn_status tarn__dataset_find_from(tarn_dataset *d, const char *key, uint64_t from,
                                    uint64_t *out, uint64_t *out_next, tarn_error *err)
{
    uint64_t sample = 0;
    TARN_TRY(d->source->kind->find(d->source->state, key, from, &sample, err));
    while (!find_picked(d, sample, out)) {
        char shown[200];
        if (d->source->kind->find(d->source->state, key, sample + 1, &sample, NULL) ==
            TARN_OK)
            continue;
        return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, d->source->path, TARN_NO_OFFSET,
                             "sample %s is in the file, but was not selected",
                             tarn_printable(shown, sizeof shown, key, strlen(key)));
    }
    *out_next = sample + 1;
    return TARN_OK;
}

tarn_status tarn_dataset_find(tarn_dataset *d, const char *key, uint64_t *out,
                              tarn_error *err)
{
    uint64_t next;
    return tarn__dataset_find_from(d, key, 0, out, &next, err);
}

tarn_status tarn_dataset_lookup(tarn_dataset *d, const char *const *keys, size_t count,
                                uint64_t *out, size_t *out_missing, tarn_error *err)
{
    size_t missing = 0;
    tarn_error why;
    for (size_t i = 0; i < count; i++) {
        tarn_status status = tarn_dataset_find(d, keys[i], &out[i], &why);
        if (status == TARN_OK) continue;
        if (status != TARN_ERR_NO_SAMPLE) {
            if (err) *err = why;
            return status;
        }
        out[i] = TARN_NO_SAMPLE;
        missing++;
    }
    if (out_missing) *out_missing = missing;
    return TARN_OK;
}

tarn_status tarn_dataset_key_of_name(const tarn_dataset *d, const char *name,
                                     tarn_text *out, tarn_error *err)
{
    if (d->source->kind->key_of_name)
        return d->source->kind->key_of_name(d->source->state, name, out, err);
    return tarn__text_set(out, name, strlen(name), err);
}
