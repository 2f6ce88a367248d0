/* tarn/members.h: samples as members of archives: lists where they are stored, passes all
 * of them to a callback, writes them as files, and divides them into parts.
 *
 *     tarn_dataset_open("birds:train", NULL, &birds, &err);
 *     tarn_dataset_extract(birds, "files", NULL, &files, &err);
 *
 * These functions work with every kind of dataset, including its selection, order and
 * fields. Several threads may use them with one dataset at the same time.
 */
#ifndef TARN_MEMBERS_H
#define TARN_MEMBERS_H

#include <tarn/base.h>
#include <tarn/dataset.h>
#include <tarn/folds.h>
#include <tarn/write.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- The fold of a dataset --------------------------------------------------------- */

/* Gets the fold or tar archive that a dataset reads from. TARN_ERR_USAGE for other kinds
 * of datasets. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_fold(const tarn_dataset *dataset,
                                                    tarn_fold_info *out, size_t size,
                                                    tarn_error *err);

/* --- Members of a sample ----------------------------------------------------------- */

#define TARN_NO_ROW UINT64_MAX

typedef struct tarn_stored {
    const char *path; /* of the file; borrowed until the dataset is closed */
    /* Offset in the file; for a tar member, of its header. TARN_NO_OFFSET for values that
     * are computed on request. */
    uint64_t offset;
    uint64_t bytes; /* stored size */
    uint64_t row;   /* in the index of a fold, otherwise TARN_NO_ROW */
    uint32_t field; /* number of its field */
    uint32_t shard; /* number of the file */
} tarn_stored;

/* Lists where the fields of a sample are stored, in the order of the file: all of the
 * dataset's fields that the sample has. A field that a sample of a fold has twice is
 * listed twice. At most room entries are written to out; *out_count is set to the total
 * number. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_members(tarn_dataset *dataset,
                                                       uint64_t sample, tarn_stored *out,
                                                       size_t room, size_t *out_count,
                                                       tarn_error *err);

/* --- Samples for a callback -------------------------------------------------------- */

/* Receives a sample of a part; without parts, part is 0. It is called from one thread at
 * a time, in order. All pointers are borrowed for the duration of the call. */
typedef tarn_status (*tarn_put)(void *context, unsigned part, const char *key,
                                const tarn_field *fields, size_t count, tarn_error *err);

typedef struct tarn_walk_options {
    size_t size;            /* of this struct; set by the initialiser */
    unsigned threads;       /* reader threads; 0: one per core */
    tarn_progress progress; /* done and total are in samples */
    void *progress_context;
} tarn_walk_options;

#define TARN_WALK_OPTIONS_INIT                                                           \
    {                                                                                    \
        .size = sizeof(tarn_walk_options)                                                \
    }
TARN_API void tarn_walk_options_init(tarn_walk_options *options, size_t size);

/* Passes all samples of the dataset to put, in its order, with part 0. The fields are
 * those that tarn_dataset_members lists, in that order. Their bytes are those that
 * tarn_dataset_get returns. Several threads read them ahead. The data points into mapped
 * files, or, for files that cannot be mapped, into copies of a few samples at a time. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_walk(tarn_dataset *dataset,
                                                    const tarn_walk_options *options,
                                                    tarn_put put, void *context,
                                                    tarn_error *err);

/* --- Parts ------------------------------------------------------------------------- */

/* Assigns each sample to a part: part k + 1 gets fractions[k] of all samples, rounded to
 * the nearest number, and part 0 gets the rest. The assignment depends only on seed and
 * keys, not on the order of the samples or on their shards. tarn/pack.h splits in the
 * same way. out_parts has room for all samples; count is at most 255. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_parts(tarn_dataset *dataset,
                                                     const double *fractions,
                                                     size_t count, uint64_t seed,
                                                     uint8_t *out_parts, tarn_error *err);

/* --- Files on disk ----------------------------------------------------------------- */

typedef struct tarn_extract_options {
    size_t size;    /* of this struct; set by the initialiser */
    bool overwrite; /* replace existing files */
    tarn_progress progress;
    void *progress_context;
} tarn_extract_options;

#define TARN_EXTRACT_OPTIONS_INIT                                                        \
    {                                                                                    \
        .size = sizeof(tarn_extract_options)                                             \
    }
TARN_API void tarn_extract_options_init(tarn_extract_options *options, size_t size);

/* Writes all members of the dataset's samples, limited to the dataset's fields, as files
 * into a folder, which is created if it does not exist. The names are those in the
 * archive, or KEY.FIELD if there are none. A name that would leave the folder is an
 * error, symbolic links in the path are never followed, and leading slashes are dropped.
 * *out_files is set to the number of files written, even after an error. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_extract(
    tarn_dataset *dataset, const char *folder, const tarn_extract_options *options,
    uint64_t *out_files, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
