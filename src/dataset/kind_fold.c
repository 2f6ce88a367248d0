/* Folds and tars as a source: itar/fold_read.h does it all. */
#include <string.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/digest.h"
#include "itar/fold_read.h"

static void close_fold(void *fold)
{
    tarn_fold_close(fold);
}

static tarn_status describe(tarn__source *source, bool cold, tarn_error *err)
{
    tarn_fold *fold = source->state;
    const tarn_index *index = tarn_fold_index(fold);
    tarn_fold_info info;
    tarn_index_info index_info;
    TARN_TRY(tarn_fold_info_get(fold, &info, sizeof info, err));
    tarn_index_info_get(index, &index_info, sizeof index_info);
    tarn__fold_files(fold, cold, &source->files);
    source->samples = info.samples;
    source->shards = (uint32_t)info.shards;
    source->n_plain = index_info.fields;
    for (uint32_t i = 0; i < index_info.fields; i++) {
        uint32_t id;
        const char *name = tarn_index_field(index, i);
        TARN_TRY(tarn__names_add(&source->fields, name, strlen(name), &id, err));
        if (id != i)
            return tarn__fail_at(err, TARN_ERR_FORMAT, tarn_fold_index_path(fold),
                                 TARN_NO_OFFSET, "field %s is listed twice", name);
    }
    return TARN_OK;
}

tarn_status tarn__open_fold(tarn__source *source, const tarn_dataset_options *o,
                            tarn_error *err)
{
    tarn_fold_options fo = TARN_FOLD_OPTIONS_INIT;
    tarn_fold *fold;
    fo.io = o->io;
    fo.check = o->check;
    fo.scan = o->scan;
    fo.by_hash = o->by_hash;
    fo.index = o->index;
    fo.shards = o->shards;
    TARN_TRY(tarn_fold_open(source->path, &fo, &fold, err));
    source->state = fold;
    TARN_TRY(tarn__fold_set_lead(fold, o->fields, err));
    return describe(source, o->cold, err);
}

tarn_status tarn_dataset_of_fold(tarn_fold *fold, tarn_dataset **out, tarn_error *err)
{
    TARN__NEED(err, "fold", fold);
    TARN__NEED(err, "out", out);
    tarn__source *source;
    const char *path = tarn_fold_index_path(fold);
    TARN_TRY(tarn__fold_check_whole(fold, err));
    TARN_TRY(tarn__source_new(&tarn__kind_fold, path ? path : tarn_fold_name(fold),
                              &source, err));
    source->state = fold;
    source->borrowed = true;
    tarn_status status = describe(source, false, err);
    if (status == TARN_OK) status = tarn__dataset_new(source, NULL, false, out, err);
    if (status != TARN_OK) tarn__source_release(source);
    return status;
}

/* --- One sample -------------------------------------------------------------------- */

static tarn_status view_fold(void *fold, uint64_t sample, uint32_t field, tarn_view *out,
                             tarn_error *err)
{
    return tarn__fold_get(fold, sample, field, out, err);
}

static tarn_status whole_fold(void *fold, uint64_t sample, const uint32_t *ids,
                              const uint32_t *firsts, uint32_t count, tarn_view *out,
                              tarn_text *key, tarn_error *err)
{
    return tarn__fold_whole(fold, sample, ids, firsts, count, out, key, err);
}

static tarn_status settle_fold(void *fold, uint64_t sample, tarn_error *err)
{
    return tarn__fold_settle(fold, sample, err);
}

static tarn_status key_fold(void *fold, uint64_t sample, tarn_text *out, tarn_error *err)
{
    return tarn__fold_key(fold, sample, out, err);
}

static tarn_status find_fold(void *fold, const char *key, uint64_t from, uint64_t *out,
                             tarn_error *err)
{
    TARN_TRY(tarn__fold_find(fold, key, out, err));
    if (*out >= from) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NO_SAMPLE, "no other sample has this key");
}

static tarn_status key_of_name_fold(const void *fold, const char *name, tarn_text *out,
                                    tarn_error *err)
{
    return tarn__fold_key_of_name(fold, name, out, err);
}

/* --- Many -------------------------------------------------------------------------- */

static tarn_status locate_fold(void *fold, tarn__item *items, size_t count,
                               tarn_error *err)
{
    return tarn__fold_locate(fold, items, count, err);
}

static tarn_status copy_fold(void *fold, tarn__cold_way way, const tarn__item *items,
                             size_t count, const tarn__target *to, tarn_error *err)
{
    return tarn__fold_copy(fold, way, items, count, to, err);
}

static tarn_status keys_fold(void *fold, const uint64_t *samples, size_t count,
                             tarn__buf *out, uint64_t *offsets, size_t *out_done,
                             tarn_error *err)
{
    return tarn__fold_keys(fold, samples, count, out, offsets, out_done, err);
}

static void fill_numbers(const void *chain, uint64_t from, uint64_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = from + i;
    tarn__chain_map(chain, out, count);
}

static tarn__numbers chain_numbers(const tarn__chain *chain, uint64_t count)
{
    bool all = chain->n == 0 && chain->offset == 0;
    return (tarn__numbers){all ? NULL : fill_numbers, chain, count};
}

static tarn_status keep_fold(void *fold, tarn__need *need, const tarn__chain *chain,
                             uint64_t count, unsigned char *marks, uint64_t *out_kept,
                             tarn_error *err)
{
    tarn__numbers samples = chain_numbers(chain, count);
    return tarn__fold_keep_by_need(fold, need, &samples, marks, out_kept, err);
}

static tarn_status sets_fold(void *fold, const tarn__chain *chain, uint64_t count,
                             tarn__add_fields add, void *context, tarn_error *err)
{
    tarn__numbers samples = chain_numbers(chain, count);
    return tarn__fold_sets(fold, &samples, add, context, err);
}

/* --- What it is -------------------------------------------------------------------- */

static void add_to_hash(void *hash, const void *data, size_t size)
{
    XXH64_update(hash, data, size);
}

static tarn_status describe_fold(void *fold, tarn__buf *out, tarn_error *err)
{
    const tarn_index *index = tarn_fold_index(fold);
    const char *name;
    tarn_fold_info info;
    XXH64_state_t hash;
    TARN_TRY(tarn_fold_info_get(fold, &info, sizeof info, err));
    XXH64_reset(&hash, 0);
    for (uint32_t i = 0; (name = tarn_index_field(index, i)); i++) {
        tarn__digest_text(&hash, name, strlen(name));
    }
    tarn__fold_describe(fold, add_to_hash, &hash);
    return tarn__digest_end(&hash, "fold", info.samples, out, err);
}

const tarn__source_kind tarn__kind_fold = {
    .kind = TARN_DATASET_FOLD,
    .close = close_fold,
    .locate = locate_fold,
    .view = view_fold,
    .key = key_fold,
    .keys = keys_fold,
    .whole = whole_fold,
    .find = find_fold,
    .copy = copy_fold,
    .settle = settle_fold,
    .keep = keep_fold,
    .sets = sets_fold,
    .describe = describe_fold,
    .key_of_name = key_of_name_fold,
};
