/* tarn/pack.h: files, folders, manifests and tar streams into shards, in one call.
 *
 *     const char *sources[] = {"images", "labels"};
 *     const tarn_pack_split val = {"val", 0.1};
 *     tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
 *     tarn_pack_report report;
 *     o.splits = &val;
 *     o.n_splits = 1;
 *     if (tarn_pack(sources, 2, "data/birds", &o, &report, sizeof report, &err) !=
 * TARN_OK) ...
 *
 * A source is one of these:
 *   - a folder: all files in it and in its sub-folders, sorted by path. Links to files
 *     are followed, links to folders are not. Names that begin with a dot, and files
 *     without a field in their name, are skipped with a notice.
 *   - a file. Its name up to the first dot is its sample's key, the rest is its field:
 *     x.jpg and x.cls are two fields of sample x.
 *   - a manifest: CSV or TSV with a header line, or JSON lines (.csv, .tsv, .jsonl,
 *     .ndjson). The column "key" names the sample, every other column is a field. A value
 *     is written as it is where the field holds text (txt, json, cls, ...) or the value
 *     is not a string; otherwise it is the path of a file, relative to the manifest's
 *     folder. "@PATH" is a file in any field, and "@@" a text that begins with "@". JSON
 *     values other than strings are written as JSON. An empty cell or null means that the
 *     sample does not have the field. A line without any field is skipped with a notice.
 *   - a tar archive or stream, or a list of them (see tarn/source.h). Archives and other
 *     sources cannot be packed by one call.
 *
 * The target is a folder for folds ("DIR" or "DIR:FOLD"), a pattern for shards without an
 * index ("x_%06d.tar"), one archive ("x.tar", "x.tar.gz", "-", ...), or a record pack
 * ("x.iac"). An .iac is made of one folder, a record for each file with the columns path
 * and size, or of one manifest, whose column "file" names the file of each record; all
 * other columns become columns of the pack.
 *
 * Calls share nothing: several threads may pack at the same time into different folds.
 */
#ifndef TARN_PACK_H
#define TARN_PACK_H

#include <tarn/base.h>
#include <tarn/iac.h>
#include <tarn/index.h>
#include <tarn/members.h>
#include <tarn/samples.h>
#include <tarn/write.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Options -------------------------------------------------------------------------
 */

#define TARN_PACK_MAX_FOLDS 8

/* What a target is, by its name. */
typedef enum tarn_target {
    TARN_TARGET_FOLDER = 0,
    TARN_TARGET_SHARDS = 1,
    TARN_TARGET_ARCHIVE = 2,
    TARN_TARGET_RECORDS = 3
} tarn_target;

TARN_API tarn_target tarn_target_kind(const char *target);

/* A fold that gets a part of the samples. */
typedef struct tarn_pack_split {
    const char *fold;
    double fraction; /* of all samples */
} tarn_pack_split;

/* Called after each sample, and while a stream is read, from one thread at a time. done
 * and total are samples; total is 0 if it is not known, and in the last call, before
 * anything is published, it is done. bytes are those of all fields so far. Return
 * non-zero to stop: tarn_pack then fails with TARN_ERR_CANCELLED. */
typedef int (*tarn_pack_progress)(void *context, uint64_t done, uint64_t total,
                                  uint64_t bytes);

/* Samples from the caller's code: it calls tarn_pack_put and tarn_pack_adopt with output
 * and passes their failures up. */
typedef tarn_status (*tarn_pack_feed)(void *context, void *output, tarn_error *err);

typedef struct tarn_pack_options {
    size_t size;      /* of this struct; set by the initialiser */
    const char *fold; /* NULL: FOLD of "DIR:FOLD", otherwise "train" */
    /* More folds, at most TARN_PACK_MAX_FOLDS in all. Of files they get exactly their
     * fraction of the samples, of streams approximately. Which samples, depends on seed
     * and keys alone. */
    const tarn_pack_split *splits;
    size_t n_splits;
    uint64_t seed;
    /* Write the samples in an order that depends on shuffle_seed and keys alone. Not for
     * streams, whose samples are not known in advance. */
    bool shuffle;
    uint64_t shuffle_seed;
    /* The key of a file: its base name up to the first dot, or the path from the folder
     * given up to there, with "-" for each slash. */
    tarn_keys keys;
    /* Add a field "cls": the number of the sub-folder that a sample is in. The names are
     * in classes.txt in the target; classes that it has already keep their numbers, and
     * new ones follow, sorted by name. */
    bool class_from_dir;
    /* After a failure, keep finished shards of a fold for a call with resume; implied by
     * resume. false: nothing is left. */
    bool keep_finished;
    /* Count and check only. The target may be NULL. sample, which may be NULL, is called
     * for each sample; fields that are files have their path. Not for streams. */
    bool dry_run;
    tarn_put sample;
    void *sample_context;
    unsigned threads; /* that read files; 0: as many as there are cores */
    /* Append, resume, overwrite, sizes of shards, how members are written; NULL: the
     * defaults. Of shards without an index and of one archive, the options that these
     * have too count. */
    const tarn_fold_writer_options *writer;
    /* How streams are read; NULL: the defaults, with the grouping that keys says. */
    const tarn_samples_options *stream;
    /* Of an .iac; NULL: the defaults, with overwrite and no_sync as writer says. */
    const tarn_iac_write_options *records;
    /* Of streams: make keys of the samples' numbers, and take only samples number first
     * to end - 1. */
    bool number;
    uint64_t first, end;
    /* Of streams: only these keys. TARN_ERR_NOT_FOUND if one does not come. */
    const char *const *samples;
    size_t n_samples;
    /* Instead of sources. */
    tarn_pack_feed feed;
    void *feed_context;
    tarn_pack_progress progress;
    void *progress_context;
    tarn_notice notice; /* what is skipped */
    void *notice_context;
} tarn_pack_options;

#define TARN_PACK_OPTIONS_INIT                                                           \
    {                                                                                    \
        .size = sizeof(tarn_pack_options), .end = UINT64_MAX                             \
    }

TARN_API void tarn_pack_options_init(tarn_pack_options *options, size_t size);

/* --- Packing -------------------------------------------------------------------------
 */

/* It keeps its members and size for as long as the soname stays. */
typedef struct tarn_pack_fold {
    const char *fold; /* borrowed from the arguments; NULL if the target is no folder */
    uint64_t samples, members;
    uint64_t payload; /* bytes of all fields */
    uint64_t bytes;   /* of all archives, before compression */
    uint64_t shards;
} tarn_pack_fold;

typedef struct tarn_pack_report {
    uint64_t files, values; /* that are fields */
    uint64_t skipped;       /* files, lines and members that are part of no sample */
    uint64_t kept;          /* after a failure: finished shards that resume continues */
    uint32_t fields;        /* different names */
    uint32_t classes;
    size_t folder_len; /* of the target, without ":FOLD" */
    size_t n_folds;
    /* What was written, or of a dry run what would be. Of an .iac, samples are records.
     * What append and resume found is not counted. */
    tarn_pack_fold folds[TARN_PACK_MAX_FOLDS];
} tarn_pack_report;

/* Packs the sources into the target. options and out may be NULL; out is filled after a
 * failure too, with what had been written by then. Nothing has its final name before all
 * of it is complete, except that shards without an index get theirs one by one.
 *
 * TARN_ERR_USAGE for options that exclude each other, TARN_ERR_NOT_FOUND if files hold no
 * sample, TARN_ERR_EXISTS if the target exists and the options do not say what becomes of
 * it, or if a key appears twice. */
TARN_API TARN_CHECKED tarn_status tarn_pack(const char *const *sources, size_t count,
                                            const char *target,
                                            const tarn_pack_options *options,
                                            tarn_pack_report *out, size_t size,
                                            tarn_error *err);

/* For a feed: writes a sample; a tarn_put. In folds, slashes of the key become "-".
 * Fields without a name and samples without a key are skipped with a notice, and with
 * resume samples that exist already. */
TARN_API TARN_CHECKED tarn_status tarn_pack_put(void *output, unsigned part,
                                                const char *key, const tarn_field *fields,
                                                size_t count, tarn_error *err);

/* For a feed into folds: takes whole shards; see tarn_fold_writer_adopt. */
TARN_API TARN_CHECKED tarn_status tarn_pack_adopt(void *output, unsigned part,
                                                  tarn_dataset *from,
                                                  const uint32_t *shards, size_t count,
                                                  tarn_adopt how, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
