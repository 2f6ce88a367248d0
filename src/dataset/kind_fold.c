/* Folds and tar archives as a source. A thin layer over itar/fold_read.h. */
#include <string.h>

#include <tarn/members.h>

#include "base/error.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "dataset/digest.h"
#include "itar/fold_read.h"
#include "itar/writer.h"

static void close_fold(void *fold)
{
    tarn__fold_close(fold);
}

tarn_status tarn__open_fold(tarn__storage *source, const tarn_dataset_options *o,
                            tarn_error *err)
{
    tarn__fold_options fo = {.io = o->io,
                             .check = o->check,
                             .scan = o->scan,
                             .by_hash = o->by_hash,
                             .index = o->index,
                             .shards = o->shards,
                             .index_path = o->index_path,
                             .cache = o->cache,
                             .cachedir = source->cache};
    tarn__fold *fold;
    tarn_fold_info info;
    const char *name;
    uint32_t id;
    TARN_TRY(tarn__fold_open(source->path, &fo, &fold, err));
    source->state = fold;
    TARN_TRY(tarn__fold_set_lead(fold, o->fields, err));
    TARN_TRY(tarn__fold_count(fold, &source->samples, err));
    tarn__fold_info(fold, &info);
    tarn__fold_files(fold, o->cold, &source->files);
    source->remote = tarn__files_are_away(&source->files);
    source->shards = info.n_shards;
    for (uint32_t i = 0; (name = tarn_index_field(info.index, i)); i++) {
        TARN_TRY(tarn__names_add(&source->fields, name, strlen(name), &id, err));
        if (id != i)
            return tarn__fail_at(err, TARN_ERR_FORMAT, info.index_path, TARN_NO_OFFSET,
                                 "field %s is listed twice", name);
    }
    source->n_plain = source->fields.count;
    return TARN_OK;
}

tarn__fold *tarn__storage_fold(const tarn__storage *source)
{
    return source->kind == &tarn__kind_fold ? source->state : NULL;
}

/* --- The fold itself --------------------------------------------------------------- */

static tarn_status need_fold(const tarn_dataset *d, tarn__fold **out, tarn_error *err)
{
    *out = tarn__storage_fold(d->source);
    if (*out) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_USAGE, d->source->path, TARN_NO_OFFSET,
                         "this dataset is not a fold or a tar archive");
}

tarn_status tarn_dataset_fold(const tarn_dataset *d, tarn_fold_info *out, size_t size,
                              tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "out", out);
    tarn__fold *fold;
    tarn_fold_info info;
    TARN_TRY(need_fold(d, &fold, err));
    tarn__fold_info(fold, &info);
    TARN__FILL_OUT(out, size, info);
    return TARN_OK;
}

tarn_status tarn_fold_writer_adopt(tarn_fold_writer *writer, tarn_dataset *from,
                                   const uint32_t *shards, size_t count, tarn_adopt how,
                                   tarn_error *err)
{
    TARN__NEED(err, "writer", writer);
    TARN__NEED(err, "from", from);
    tarn__fold *fold;
    TARN_TRY(need_fold(from, &fold, err));
    return tarn__writer_adopt(writer, fold, shards, count, how, err);
}

/* --- Samples ----------------------------------------------------------------------- */

static tarn_status find_fold(void *fold, const char *key, uint64_t from, uint64_t *out,
                             tarn_error *err)
{
    TARN_TRY(tarn__fold_find(fold, key, out, err));
    if (*out >= from) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NO_SAMPLE, "no other sample has this key");
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

/* --- Description ------------------------------------------------------------------- */

static void add_to_hash(void *hash, const void *data, size_t size)
{
    XXH64_update(hash, data, size);
}

static tarn_status describe_fold(void *fold, tarn__buf *out, tarn_error *err)
{
    const char *name;
    uint64_t samples;
    tarn_fold_info info;
    XXH64_state_t hash;
    TARN_TRY(tarn__fold_count(fold, &samples, err));
    tarn__fold_info(fold, &info);
    XXH64_reset(&hash, 0);
    for (uint32_t i = 0; (name = tarn_index_field(info.index, i)); i++) {
        tarn__digest_text(&hash, name, strlen(name));
    }
    tarn__fold_describe(fold, add_to_hash, &hash);
    return tarn__digest_end(&hash, "fold", samples, out, err);
}

const tarn__storage_kind tarn__kind_fold = {
    .kind = TARN_DATASET_FOLD,
    .locates_keys = true,
    .close = close_fold,
    .locate = tarn__fold_locate,
    .view = tarn__fold_get,
    .views = tarn__fold_views,
    .key = tarn__fold_key,
    .keys = tarn__fold_keys,
    .whole = tarn__fold_whole,
    .find = find_fold,
    .copy = tarn__fold_copy,
    .settle = tarn__fold_settle,
    .has = tarn__fold_has,
    .keep = keep_fold,
    .sets = sets_fold,
    .describe = describe_fold,
    .key_of_name = tarn__fold_key_of_name,
};
