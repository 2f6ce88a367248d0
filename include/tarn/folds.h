/* tarn/folds.h: lists the folds of a folder without opening them.
 *
 * A folder contains folds. A fold is a set of tar shards and one index:
 *
 *     birds/train_0000.tar  birds/train_0001.tar  birds/train.taridx  birds/train.tarsum
 *
 * A sample consists of all members with the same key. The extensions of the members are
 * the names of its fields. Use tarn/dataset.h to read the samples of a fold.
 *
 * Any number of threads may call these functions at once.
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
    const char *index_path;    /* path of its index, even if that does not exist */
    const char *const *shards; /* paths, sorted by the text of their suffixes */
    size_t n_shards;
    size_t compressed; /* compressed archives, which have no random access */
} tarn_listed_fold;

/* A list of folds. It owns all strings. */
typedef struct tarn_folds {
    const tarn_listed_fold *const *folds; /* sorted by name */
    size_t count;
    size_t compressed; /* in the folder, including folds without plain shards */
} tarn_folds;

/* Lists the folds of a folder. path is "DIR", or "DIR:FOLD" for a single fold. The name
 * of a shard includes its fold: train_0007.tar, train-0007.tar and train.0007.tar are
 * shard 0007 of fold train (so is train-0007-of-0100.tar), 0007.tar is a shard of fold
 * data, and train.tar is all of fold train. TARN_ERR_NO_FILE if there is no such folder;
 * TARN_ERR_NO_FOLD if it has no such fold or no shards. *out is NULL after a failure.
 * Free it with tarn_folds_free.
 *
 * path may also be remote, with shards as URLs: a folder in an object store, which is
 * listed, or a list of .tar files, which is only expanded. */
TARN_API TARN_CHECKED tarn_status tarn_folds_list(const char *path, tarn_folds **out,
                                                  tarn_error *err);
TARN_API void tarn_folds_free(tarn_folds *folds);

/* --- Remote folds ------------------------------------------------------------------ */

typedef enum tarn_remote {
    TARN_REMOTE_NONE = 0, /* a local path, or the URL of something else */
    /* FOLDER, FOLDER:FOLD or FOLD.taridx, in an object store or on a web server */
    TARN_REMOTE_FOLD = 1,
    /* URLs of .tar files: a fold if they have an index; otherwise they can only be
     * streams */
    TARN_REMOTE_SHARDS = 2
} tarn_remote;

/* Returns what a path is, judging by its text. docs/guides/urls.md lists the forms. */
TARN_API tarn_remote tarn_remote_form(const char *path);

/* --- A fold that is open ----------------------------------------------------------- */

/* The result of tarn_dataset_fold (tarn/members.h). All pointers are borrowed until the
 * dataset, and every dataset made from it, is closed. */
typedef struct tarn_fold_info {
    const char *name;       /* for a single archive, its file name */
    const char *index_path; /* NULL if the shards were scanned */
    const tarn_index *index;
    const char *const *shards; /* paths */
    const uint64_t *sizes;     /* sizes of the shard files */
    uint32_t n_shards;
    const tarn_index_report *report; /* of the scan; NULL if there was none */
} tarn_fold_info;

#ifdef __cplusplus
}
#endif
#endif
