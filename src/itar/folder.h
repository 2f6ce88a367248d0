/* Which folds a folder has, and which shards each. */
#ifndef TARN_ITAR_FOLDER_H
#define TARN_ITAR_FOLDER_H

#include <tarn/folds.h>

/* Splits "DIR:FOLD". *out_folder is the caller's to free; *out_fold points into path, or
 * is NULL. A path that exists as it is has no fold part. */
TARN_CHECKED tarn_status tarn__path_split(const char *path, char **out_folder,
                                          const char **out_fold, tarn_error *err);

/* "x:train" for "x/train.taridx". *out is the caller's to free. */
TARN_CHECKED tarn_status tarn__path_of_index(const char *path, char **out,
                                             tarn_error *err);
bool tarn__is_index_path(const char *path);

/* The fold and suffix that a shard's file name says; false if it is no shard's name. Both
 * point into name or are constants. */
bool tarn__shard_name(const char *name, const char **fold, size_t *fold_len,
                      const char **suffix, size_t *suffix_len);

/* Whether a file name, without any folder, is that of a shard of the fold. */
bool tarn__is_shard_of(const char *fold, const char *name);

#endif
