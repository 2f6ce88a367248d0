/* The folds of a folder, and the shards of each. */
#ifndef TARN_ITAR_FOLDER_H
#define TARN_ITAR_FOLDER_H

#include <tarn/folds.h>

/* Splits "DIR:FOLD". The caller frees *out_folder; *out_fold points into path, or is
 * NULL. A path that exists as written has no fold part. */
TARN_CHECKED tarn_status tarn__path_split(const char *path, char **out_folder,
                                          const char **out_fold, tarn_error *err);

/* "x:train" for "x/train.taridx". The caller frees *out. */
TARN_CHECKED tarn_status tarn__path_of_index(const char *path, char **out,
                                             tarn_error *err);
bool tarn__is_index_path(const char *path);

/* The fold and suffix in a shard's file name; false if it is not a shard name. Both point
 * into name or are constants. */
bool tarn__shard_name(const char *name, const char **fold, size_t *fold_len,
                      const char **suffix, size_t *suffix_len);

/* Whether a file name (without folder) is the name of a shard of the fold. */
bool tarn__is_shard_of(const char *fold, const char *name);

/* The parts of the name of a numbered shard: "train_", 4 and 7 of train_0007.tar. folder
 * is for messages. The caller frees *out_prefix. */
TARN_CHECKED tarn_status tarn__shard_number(const char *name, const char *folder,
                                            char **out_prefix, unsigned *out_digits,
                                            uint64_t *out_number, tarn_error *err);
/* The reverse. The caller frees *out. */
TARN_CHECKED tarn_status tarn__shard_compose(const char *prefix, unsigned digits,
                                             uint64_t number, const char *folder,
                                             char **out, tarn_error *err);

/* Like tarn_folds_list, for files whose names (without folder) are known: those of a
 * remote folder, whose paths are URLs. query is appended to each of them, or "". only is
 * the name of the only fold to list, or NULL. */
TARN_CHECKED tarn_status tarn__folds_of(const char *folder, const char *query,
                                        const char *only, const char *const *files,
                                        size_t count, tarn_folds **out, tarn_error *err);

#endif
