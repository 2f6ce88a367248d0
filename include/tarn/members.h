/* tarn/members.h: samples as members of archives: where they are stored, all of them in
 * order for a callback, as files, and distributed among parts.
 *
 *     tarn_dataset_open("birds:train", NULL, &birds, &err);
 *     tarn_dataset_extract(birds, "files", NULL, &files, &err);
 *
 * All of this works for every kind of dataset, with its selection, its order and its
 * fields. Several threads may do it with one dataset at the same time.
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

/* What a dataset of a fold or of a tar archive reads from. TARN_ERR_USAGE for other
 * kinds. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_fold(const tarn_dataset *dataset,
                                                    tarn_fold_info *out, size_t size,
                                                    tarn_error *err);

/* --- Members of a sample ----------------------------------------------------------- */

#define TARN_NO_ROW UINT64_MAX

typedef struct tarn_stored {
    const char *path; /* of the file; borrowed until the dataset is closed */
    uint64_t offset;  /* in it, of a tar member that of its header; TARN_NO_OFFSET for
                         what is made on request */
    uint64_t bytes;   /* as stored */
    uint64_t row;     /* of a fold's index, otherwise TARN_NO_ROW */
    uint32_t field;   /* the number of its field */
    uint32_t shard;   /* the number of the file */
} tarn_stored;

/* Where the fields of a sample are stored, in the order of the file: all that the sample
 * has of the dataset's fields. A field that a sample of a fold has twice is there twice.
 * At most room of them are put into out; *out_count is how many there are. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_members(tarn_dataset *dataset,
                                                       uint64_t sample, tarn_stored *out,
                                                       size_t room, size_t *out_count,
                                                       tarn_error *err);

/* --- Samples for a callback -------------------------------------------------------- */

/* Takes a sample of a part; without parts, that is 0. Called from one thread at a time,
 * in order. All pointers are borrowed for the call. */
typedef tarn_status (*tarn_put)(void *context, unsigned part, const char *key,
                                const tarn_field *fields, size_t count, tarn_error *err);

typedef struct tarn_walk_options {
    size_t size;            /* of this struct; set by the initialiser */
    unsigned threads;       /* that read; 0: as many as there are cores */
    tarn_progress progress; /* done and total are samples */
    void *progress_context;
} tarn_walk_options;

#define TARN_WALK_OPTIONS_INIT                                                           \
    {                                                                                    \
        .size = sizeof(tarn_walk_options)                                                \
    }
TARN_API void tarn_walk_options_init(tarn_walk_options *options, size_t size);

/* Passes all samples of the dataset, in its order, to put, with part 0. Fields are those
 * that tarn_dataset_members lists, in that order; their bytes are what tarn_dataset_get
 * gives. They are read ahead by several threads, and point into mapped files, or into
 * copies of a few at a time where files cannot be mapped. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_walk(tarn_dataset *dataset,
                                                    const tarn_walk_options *options,
                                                    tarn_put put, void *context,
                                                    tarn_error *err);

/* --- Parts ------------------------------------------------------------------------- */

/* Gives each sample a part: part k + 1 gets fractions[k] of all, to the nearest number,
 * and part 0 the rest. Which samples depends on seed and keys alone: not on their order,
 * or the shards they are in. tarn/pack.h splits in the same way. out_parts has room for
 * all samples; count is at most 255. */
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

/* Writes every member of the dataset's samples, of the dataset's fields, under a folder
 * that is made if need be. Names are those in the archive; where there is none,
 * KEY.FIELD. One that would leave the folder is an error, symbolic links on the way are
 * never followed, and leading slashes are dropped. *out_files is how many were written,
 * also after an error. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_extract(
    tarn_dataset *dataset, const char *folder, const tarn_extract_options *options,
    uint64_t *out_files, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
