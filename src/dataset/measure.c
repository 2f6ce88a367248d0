/* One number for each sample, as orders ask for them: shards, sizes, classes. */
#include <stdlib.h>
#include <string.h>

#include <tarn/codec.h>

#include "base/error.h"
#include "dataset/dataset.h"

enum { AT_ONCE = 1024 };

tarn_status tarn_dataset_shard_counts(tarn_dataset *d, uint64_t *out, tarn_error *err)
{
    memset(out, 0, d->source->shards * sizeof *out);
    for (uint64_t i = 0; i < d->count; i++) {
        uint32_t shard;
        const char *path;
        TARN_TRY(d->source->kind->shard(d->source->state, tarn__dataset_at(d, i), &shard,
                                        &path, err));
        out[shard]++;
    }
    return TARN_OK;
}

tarn_status tarn_dataset_sizes(tarn_dataset *d, uint32_t field, uint64_t *out,
                               tarn_error *err)
{
    for (uint64_t i = 0; i < d->count; i++)
        TARN_TRY(tarn_dataset_size(d, i, field, &out[i], err));
    return TARN_OK;
}

static tarn_status parse_integer(tarn_dataset *d, uint64_t sample, uint32_t field,
                                 const unsigned char *data, size_t size, int64_t *out,
                                 tarn_error *err)
{
    tarn_value value;
    tarn_text key = {0};
    char shown[200];
    tarn_status status = tarn_codecs_decode(NULL, "cls", data, size, NULL, &value, NULL);
    bool good = status == TARN_OK && value.kind == TARN_VALUE_INTEGER;
    if (good) *out = value.integer;
    tarn_value_release(&value);
    if (good) return TARN_OK;
    if (tarn_dataset_key(d, sample, &key, NULL) == TARN_OK)
        tarn_printable(shown, sizeof shown, key.data, key.size);
    else
        tarn_printable(shown, sizeof shown, "?", 1);
    tarn_text_reset(&key);
    return tarn__fail_at(err, TARN_ERR_FORMAT, d->source->path, TARN_NO_OFFSET,
                         "field %s of sample %s is no integer in decimal digits",
                         d->names[field], shown);
}

/* Samples first to first + count - 1, which is at most AT_ONCE. */
static tarn_status read_integers(tarn_dataset *d, uint32_t field, uint64_t first,
                                 size_t count, tarn_dataset_batch *batch, int64_t *out,
                                 tarn_error *err)
{
    uint64_t samples[AT_ONCE];
    for (size_t i = 0; i < count; i++)
        samples[i] = first + i;
    TARN_TRY(tarn_dataset_read_batch(d, samples, count, &field, 1, batch, err));
    for (size_t i = 0; i < count; i++)
        TARN_TRY(parse_integer(d, first + i, field, batch->data + batch->offsets[i],
                               (size_t)(batch->offsets[i + 1] - batch->offsets[i]),
                               &out[i], err));
    return TARN_OK;
}

tarn_status tarn_dataset_integers(tarn_dataset *d, uint32_t field, int64_t *out,
                                  tarn_error *err)
{
    tarn_dataset_batch batch = TARN_DATASET_BATCH_INIT;
    tarn_status status = tarn__check_field(d, field, err);
    if (status == TARN_OK && d->source->kind->kind == TARN_DATASET_GNZ)
        status = tarn__fail_at(err, TARN_ERR_UNSUPPORTED, d->source->path, TARN_NO_OFFSET,
                               "arrays are not text; take them with tarn_gnz_get");
    for (uint64_t i = 0; status == TARN_OK && i < d->count; i += AT_ONCE) {
        size_t n = d->count - i < AT_ONCE ? (size_t)(d->count - i) : AT_ONCE;
        status = read_integers(d, field, i, n, &batch, out + i, err);
    }
    tarn_dataset_batch_reset(&batch);
    return status;
}
