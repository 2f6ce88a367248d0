/* tarn/fold.h: samples by key and by position, out of tar shards and their index.
 *
 * A folder holds folds; a fold is a set of shards and one index:
 *
 *     birds/train_0000.tar  birds/train_0001.tar  birds/train.taridx  birds/train.tarsum
 *
 * A sample is all members with one key; its fields are named by their extensions.
 *
 *     tarn_fold *fold;
 *     tarn_sample sample;
 *     uint64_t row;
 *     tarn_view jpg;
 *     if (tarn_fold_open("birds:train", NULL, &fold, &err) != TARN_OK ||
 *         tarn_fold_find(fold, "kiwi_07", &sample, &err) != TARN_OK ||
 *         tarn_fold_pick(fold, &sample, "jpg", &row, &err) != TARN_OK ||
 *         tarn_fold_view(fold, row, &jpg, &err) != TARN_OK)
 *         return fail(&err);
 *
 * Before any byte of a member is given out, the tar header behind its row is compared
 * with the row: an index that is not of these shards gives an error, never other bytes.
 *
 * Any number of threads may read from one fold. Opening, closing and the two filters
 * (tarn_fold_require, tarn_fold_keep) need it for themselves.
 */
#ifndef TARN_FOLD_H
#define TARN_FOLD_H

#include <tarn/base.h>
#include <tarn/index.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- What is in a folder ----------------------------------------------------------- */

typedef struct tarn_folder tarn_folder;

/* Lists the folds of a folder: path is "DIR", or "DIR:FOLD" for one of them. A shard's
 * name says its fold: train_0007.tar, train-0007.tar and train.0007.tar are shard 0007 of
 * fold train (so is train-0007-of-0100.tar), 0007.tar is one of fold data, and train.tar
 * is all of fold train. Shards
 * are sorted by the text of their suffix. TARN_ERR_NO_FILE if there is no such folder,
 * TARN_ERR_NO_FOLD if it has no such fold or no shards. */
TARN_API TARN_CHECKED tarn_status tarn_folder_open(const char *path, tarn_folder **out,
                                                   tarn_error *err);
TARN_API void tarn_folder_close(tarn_folder *folder);

/* All strings are borrowed until the folder is closed. Numbers past the end give NULL. */
TARN_API size_t tarn_folder_count(const tarn_folder *folder);
/* Compressed archives that are passed over: they have no random access. All of them, and
 * those that would be shards of one fold. */
TARN_API size_t tarn_folder_compressed(const tarn_folder *folder);
TARN_API size_t tarn_folder_fold_compressed(const tarn_folder *folder, size_t fold);
TARN_API const char *tarn_folder_fold(const tarn_folder *folder, size_t fold);
TARN_API const char *tarn_folder_index_path(const tarn_folder *folder, size_t fold);
TARN_API size_t tarn_folder_shard_count(const tarn_folder *folder, size_t fold);
TARN_API const char *const *tarn_folder_shards(const tarn_folder *folder, size_t fold);

/* --- A fold ------------------------------------------------------------------------ */

typedef struct tarn_fold tarn_fold;

typedef struct tarn_fold_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_io io;
    bool check;   /* compare each payload with its checksum when it is read */
    bool scan;    /* without an index on disk, make one in memory */
    bool by_hash; /* samples that do not stand together in the order of their key hashes,
                     as the reference's enforce_contiguous has them, instead of first
                     appearance */
    const tarn_index_options *index; /* how to scan (NULL: the defaults); a single .tar
                                        is always scanned */

    /* The shards, in their order; ends with NULL. path is then the index of just these,
     * whatever names they have; without it, and with scan, they are scanned. */
    const char *const *shards;
} tarn_fold_options;

#define TARN_FOLD_OPTIONS_INIT                                                           \
    {                                                                                    \
        .size = sizeof(tarn_fold_options)                                                \
    }
TARN_API void tarn_fold_options_init(tarn_fold_options *options, size_t size);

typedef struct tarn_fold_info {
    uint64_t samples; /* after filters */
    uint64_t shards;
    /* What the scan met, if there was one; borrowed until the fold is closed. It is made
     * by the library only, and new members are added at its end. */
    const tarn_index_report *report;
} tarn_fold_info;

/* The rows of one sample, in file order. */
typedef struct tarn_sample {
    uint32_t count;
    uint32_t first;       /* private: use tarn_sample_row */
    const uint32_t *rows; /* private; borrowed until a filter is set */
} tarn_sample;

/* Opens "DIR:FOLD", "DIR" with one fold, "FILE.tar" or "FILE.taridx". options may be
 * NULL. TARN_ERR_AMBIGUOUS if the folder has several folds; TARN_ERR_STALE if the index
 * does not fit the shards, with what differs. */
TARN_API TARN_CHECKED tarn_status tarn_fold_open(const char *path,
                                                 const tarn_fold_options *options,
                                                 tarn_fold **out, tarn_error *err);
TARN_API void tarn_fold_close(tarn_fold *fold);

TARN_API TARN_CHECKED tarn_status tarn_fold_info_get(tarn_fold *fold, tarn_fold_info *out,
                                                     size_t size, tarn_error *err);

/* All borrowed until the fold is closed. The path of the index is NULL if the index was
 * made by scanning. */
TARN_API const char *tarn_fold_name(const tarn_fold *fold);
TARN_API const char *tarn_fold_index_path(const tarn_fold *fold);
TARN_API const tarn_index *tarn_fold_index(const tarn_fold *fold);

TARN_API const char *tarn_fold_shard_path(const tarn_fold *fold, uint32_t shard);
TARN_API uint64_t tarn_fold_shard_size(const tarn_fold *fold, uint32_t shard);

/* --- Samples ----------------------------------------------------------------------- */

/* Sample number 0 to samples - 1, in the order of first appearance. */
TARN_API TARN_CHECKED tarn_status tarn_fold_sample(tarn_fold *fold, uint64_t number,
                                                   tarn_sample *out, tarn_error *err);

/* The sample with a key, among all samples of the fold, filtered out or not. With a
 * .tarsum this bisects; without one the first call sorts the keys. */
TARN_API TARN_CHECKED tarn_status tarn_fold_find(tarn_fold *fold, const char *key,
                                                 tarn_sample *out, tarn_error *err);

/* Row number of the k-th member of a sample. */
TARN_API TARN_INLINE uint64_t tarn_sample_row(const tarn_sample *sample, uint32_t k);
#ifndef TARN_BINDINGS
TARN_INLINE uint64_t tarn_sample_row(const tarn_sample *sample, uint32_t k)
{
    return sample->rows ? sample->rows[k] : (uint64_t)sample->first + k;
}
#endif

/* The row of a sample's field. TARN_ERR_AMBIGUOUS if two members have that field. */
TARN_API TARN_CHECKED tarn_status tarn_fold_pick(tarn_fold *fold,
                                                 const tarn_sample *sample,
                                                 const char *field, uint64_t *out_row,
                                                 tarn_error *err);

/* The key of the sample a row belongs to, and the member's name in the archive, both read
 * from the shard. Either may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_fold_names(tarn_fold *fold, uint64_t row,
                                                  tarn_text *key, tarn_text *member,
                                                  tarn_error *err);

/* --- Bytes ------------------------------------------------------------------------- */

/* The payload of a row as a view, borrowed until it is released or the fold is closed. */
TARN_API TARN_CHECKED tarn_status tarn_fold_view(tarn_fold *fold, uint64_t row,
                                                 tarn_view *out, tarn_error *err);

/* The payload of a row in the caller's buffer. TARN_ERR_LIMIT if it does not fit;
 * *out_size is what it needs either way. */
TARN_API TARN_CHECKED tarn_status tarn_fold_read(tarn_fold *fold, uint64_t row, void *buf,
                                                 size_t size, uint64_t *out_size,
                                                 tarn_error *err);

/* --- Filters ----------------------------------------------------------------------- */

/* Keeps samples that have all of these fields, and of them only these fields. */
TARN_API TARN_CHECKED tarn_status tarn_fold_require(tarn_fold *fold,
                                                    const char *const *fields,
                                                    size_t count, tarn_error *err);

/* Keeps the samples with these keys, in the fold's order. A key that is not there is an
 * error if found is NULL; otherwise found[i] says whether keys[i] is. */
TARN_API TARN_CHECKED tarn_status tarn_fold_keep(tarn_fold *fold, const char *const *keys,
                                                 size_t count, bool *found,
                                                 tarn_error *err);

/* Keeps samples number from to to - 1 of those that are left, or fewer where they end. */
TARN_API TARN_CHECKED tarn_status tarn_fold_slice(tarn_fold *fold, uint64_t from,
                                                  uint64_t to, tarn_error *err);

/* --- Order and parts ------------------------------------------------------------------
 *
 * Chance is decided by seed and key alone: not by the other samples, their order, or the
 * shards they are in. tarn/pack.h decides the same way. */

/* Puts the samples that are left into an order of chance. */
TARN_API TARN_CHECKED tarn_status tarn_fold_shuffle(tarn_fold *fold, uint64_t seed,
                                                    tarn_error *err);

/* Gives each sample that is left a part: part k + 1 gets fractions[k] of all, to the
 * nearest number, and part 0 the rest. out_parts has room for all samples; count is at
 * most 255. */
TARN_API TARN_CHECKED tarn_status tarn_fold_split(tarn_fold *fold,
                                                  const double *fractions, size_t count,
                                                  uint64_t seed, uint8_t *out_parts,
                                                  tarn_error *err);

/* --- Files on disk ----------------------------------------------------------------- */

typedef struct tarn_extract_options {
    size_t size;    /* of this struct; set by the initialiser */
    bool overwrite; /* replace files that are there */
    tarn_progress progress;
    void *progress_context;
} tarn_extract_options;

#define TARN_EXTRACT_OPTIONS_INIT                                                        \
    {                                                                                    \
        .size = sizeof(tarn_extract_options)                                             \
    }
TARN_API void tarn_extract_options_init(tarn_extract_options *options, size_t size);

/* Writes every member of the fold's samples, after filters, under a folder that is made
 * if need be. Names are taken from the archive; one that would leave the folder is an
 * error, symbolic links on the way are never followed, and leading slashes are dropped.
 * *out_files is how many were written, also after an error. */
TARN_API TARN_CHECKED tarn_status tarn_fold_extract(tarn_fold *fold, const char *folder,
                                                    const tarn_extract_options *options,
                                                    uint64_t *out_files, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
