/* tarn/folds.h: the folds of a folder, without opening them.
 *
 * A folder holds folds; a fold is a set of tar shards and one index:
 *
 *     birds/train_0000.tar  birds/train_0001.tar  birds/train.taridx  birds/train.tarsum
 *
 * A sample is all members with one key; its fields are named by their extensions. The
 * samples of a fold are read with tarn/dataset.h.
 */
#ifndef TARN_FOLDS_H
#define TARN_FOLDS_H

#include <tarn/base.h>
#include <tarn/index.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- The folds of a folder --------------------------------------------------------- */

typedef struct tarn_listed_fold {
    const char *name;
    const char *index_path;    /* of its index, whether or not that exists */
    const char *const *shards; /* paths, sorted by the text of their suffix */
    size_t n_shards;
    size_t compressed; /* archives that would be shards if they had random access */
} tarn_listed_fold;

/* All strings belong to the list. */
typedef struct tarn_folds {
    const tarn_listed_fold *folds; /* sorted by name */
    size_t count;
    size_t compressed; /* in the folder, of folds with or without plain shards */
    void *owned;       /* private */
} tarn_folds;

/* Lists the folds of a folder: path is "DIR", or "DIR:FOLD" for one of them. The fold of
 * a shard is in its name: train_0007.tar, train-0007.tar and train.0007.tar are shard
 * 0007 of fold train (so is train-0007-of-0100.tar), 0007.tar is one of fold data, and
 * train.tar is all of fold train. TARN_ERR_NO_FILE if there is no such folder,
 * TARN_ERR_NO_FOLD if it has no such fold or no shards; then the list is empty. */
TARN_API TARN_CHECKED tarn_status tarn_folds_list(const char *path, tarn_folds *out,
                                                  tarn_error *err);
TARN_API void tarn_folds_reset(tarn_folds *folds);

/* --- A fold that is open ----------------------------------------------------------- */

/* What tarn_dataset_fold (tarn/members.h) gives. All pointers are borrowed until the
 * dataset, and every dataset made from it, is closed. */
typedef struct tarn_fold_info {
    const char *name;       /* of a single archive its file name */
    const char *index_path; /* NULL if the shards were scanned */
    const tarn_index *index;
    const char *const *shards; /* paths */
    const uint64_t *sizes;     /* of the shards' files */
    uint32_t n_shards;
    const tarn_index_report *report; /* of the scan, if there was one */
} tarn_fold_info;

#ifdef __cplusplus
}
#endif
#endif
