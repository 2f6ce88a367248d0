/* Verification of remote folds: each shard is read once. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "itar/remote_fold.h"
#include "itar/verify.h"

static tarn_status verify_given(const tarn_verify_options *options,
                                tarn_verify_report *report, tarn_index *index,
                                const char *const *shards, size_t n_shards,
                                tarn_error *err)
{
    char *path = index ? strdup(index->path) : NULL;
    if (index && !path) {
        tarn_index_free(index);
        return tarn__fail_memory(err);
    }
    tarn_status status =
        tarn__verify_fold(options, report, path, index, shards, n_shards, err);
    free(path);
    return status;
}

/* A fold with an index of the caller, or whose shards only the index can name. */
static tarn_status verify_found(const char *url, const tarn_verify_options *options,
                                tarn_verify_report *report, tarn_error *err)
{
    tarn__remote_fold *f;
    tarn__remote_fold_options o = {options->index_path, options->cache};
    TARN_TRY(tarn__remote_fold_find(url, &o, &f, err));
    tarn_status status = verify_given(options, report, tarn__remote_fold_take(f),
                                      f->shards, f->n_shards, err);
    tarn__remote_fold_free(f);
    return status;
}

static tarn_status verify_listed(const tarn_listed_fold *one,
                                 const tarn_verify_options *options,
                                 tarn_verify_report *report, tarn_error *err)
{
    tarn__index_copy copy;
    tarn_error why;
    tarn_status status = tarn__index_fetch(one->index_path, options->cache, &copy, &why);
    if (status == TARN_ERR_NO_FILE) status = TARN_OK;
    if (status == TARN_OK) {
        /* One archive of several: the index has the others as well. */
        bool other = one->n_shards == 1 && copy.index && copy.index->sums &&
                     copy.index->sums->n_shards > 1;
        tarn_index *index = other ? NULL : copy.index;
        if (!other) copy.index = NULL;
        status = verify_given(options, report, index, one->shards, one->n_shards, &why);
    }
    tarn__index_copy_reset(&copy);
    return tarn__verify_pass(options, report, status, &why, err);
}

tarn_status tarn__verify_remote(const char *url, const tarn_verify_options *options,
                                tarn_verify_report *report, tarn_error *err)
{
    tarn_folds *found;
    tarn_error why;
    if (options->repair)
        return tarn__fail_at(err, TARN_ERR_USAGE, url, TARN_NO_OFFSET,
                             "a remote fold cannot be repaired; write a new index with "
                             "tarn index");
    tarn_status status =
        options->index_path ? TARN_ERR_UNSUPPORTED : tarn_folds_list(url, &found, &why);
    if (status == TARN_ERR_UNSUPPORTED) {
        status = verify_found(url, options, report, &why);
        if (!tarn_is_not_found(status))
            return tarn__verify_pass(options, report, status, &why, err);
    }
    if (status != TARN_OK && err) *err = why;
    TARN_TRY(status);
    for (size_t i = 0; status == TARN_OK && i < found->count; i++)
        status = verify_listed(found->folds[i], options, report, err);
    tarn_folds_free(found);
    return status;
}
