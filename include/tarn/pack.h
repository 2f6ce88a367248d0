/* tarn/pack.h: packs files, folders, manifests and tar streams into shards, in one
 * call.
 *
 *     const char *sources[] = {"images", "labels"};
 *     const tarn_pack_split val = {"val", 0.1};
 *     tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
 *     tarn_pack_report report;
 *     tarn_status status;
 *     o.splits = &val;
 *     o.n_splits = 1;
 *     status = tarn_pack(sources, 2, "data/birds", &o, &report, sizeof report, &err);
 *     if (status != TARN_OK) ...
 *
 * A source is one of these:
 *
 * - a folder: all files in it and in its sub-folders, sorted by path. Links to files
 *   are followed, links to folders are not. Names that begin with a dot, files of
 *   desktop programs (Thumbs.db, desktop.ini), and files without a field in their name
 *   are skipped with a notice.
 * - a file. Its name up to the first dot is the key of its sample, the rest is its
 *   field: x.jpg and x.cls are two fields of sample x.
 * - a manifest: CSV or TSV with a header line, or JSON lines (.csv, .tsv, .jsonl,
 *   .ndjson). The column "key" contains the key of the sample, and every other column
 *   is a field. A value is written unchanged if the field contains text (txt, json,
 *   cls, ...) or if the value is not a string. Otherwise the value is the path of a
 *   file, relative to the folder of the manifest. "@PATH" is a file in any field, and
 *   "@@" begins a text that begins with "@". JSON values other than strings are
 *   written as JSON. An empty cell or null means that the sample does not have the
 *   field. A line without any field is skipped with a notice.
 * - a tar archive or stream, or a list of them (see tarn/source.h). One call cannot
 *   pack archives together with other sources.
 *
 * The target is a folder for folds ("DIR" or "DIR:FOLD"), a pattern for shards without
 * an index ("x_%06d.tar"), one archive ("x.tar", "x.tar.gz", "-", ...), or a record
 * pack ("x.iac"). A record pack is made from one folder, with a record for each file
 * and the columns path and size, or from one manifest, in which the column "file" is
 * the path of the file of each record. All other columns of the manifest become
 * columns of the record pack. From JSON lines their types are those of the values: text,
 * 64-bit integers, doubles (also for integers and other numbers mixed), booleans, and
 * lists of one of these. null is a missing value. Objects, and values of different types
 * in one column, are an error that names the line, unless types makes the column text.
 * All columns of CSV and TSV are text, unless types says otherwise.
 *
 * Calls share no state: several threads may pack into different folds at the same
 * time.
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

/* The kind of a target. */
typedef enum tarn_target {
    TARN_TARGET_FOLDER = 0,
    TARN_TARGET_SHARDS = 1,
    TARN_TARGET_ARCHIVE = 2,
    TARN_TARGET_RECORDS = 3
} tarn_target;

/* Returns the kind of a target, determined by its name. */
TARN_API tarn_target tarn_target_kind(const char *target);

/* A fold that receives a part of the samples. */
typedef struct tarn_pack_split {
    const char *fold;
    double fraction; /* of all samples */
} tarn_pack_split;

/* A progress callback. It is called after each sample, and while a stream is read, from
 * one thread at a time. done and total are in samples; total is 0 if it is unknown. In
 * the last call, before anything is published, total equals done. bytes is the size of
 * all fields so far. Return non-zero to stop: tarn_pack then fails with
 * TARN_ERR_CANCELLED. */
typedef int (*tarn_pack_progress)(void *context, uint64_t done, uint64_t total,
                                  uint64_t bytes);

/* Supplies samples from the caller's code: it calls tarn_pack_put and tarn_pack_adopt
 * with output, and returns their failures. */
typedef tarn_status (*tarn_pack_feed)(void *context, void *output, tarn_error *err);

/* Another name for a field: x.jpeg and x.png can both become the field "img". */
typedef struct tarn_pack_rename {
    const char *from; /* the field, or its last dotted part: left.jpg becomes left.img */
    const char *to;
} tarn_pack_rename;

/* The type of a column of a record pack: "text", "int", "float", "bool" or "timestamp".
 */
typedef struct tarn_pack_type {
    const char *column, *type;
} tarn_pack_type;

/* What happens to fields that cannot be decoded (tarn/codec.h). Each is reported to
 * notice, with its path. */
typedef enum tarn_pack_check {
    TARN_CHECK_NONE = 0, /* nothing is decoded */
    TARN_CHECK_STOP = 1, /* all are read and checked first; a bad one fails the call */
    TARN_CHECK_SKIP = 2  /* its sample is left out */
} tarn_pack_check;

typedef struct tarn_pack_options {
    size_t size;      /* of this struct; set by the initialiser */
    const char *fold; /* NULL: FOLD of "DIR:FOLD", otherwise "train" */
    /* More folds, at most TARN_PACK_MAX_FOLDS in total. From files they get exactly their
     * fraction of the samples, from streams approximately. Which samples they get depends
     * only on seed and keys. */
    const tarn_pack_split *splits;
    size_t n_splits;
    uint64_t seed;
    /* Write the samples in an order that depends only on shuffle_seed and keys. Not for
     * streams, whose samples are not known in advance. */
    bool shuffle;
    uint64_t shuffle_seed;
    /* How the key of a file is made: from its base name up to the first dot, or from its
     * path relative to the given folder up to that dot, with "-" for each slash. */
    tarn_keys keys;
    /* Add a field "cls": the number of the sub-folder that contains the sample. The names
     * are in classes.txt in the target. Existing classes keep their numbers, and new ones
     * follow, sorted by name. Files that are in no such sub-folder are skipped with a
     * notice. */
    bool class_from_dir;
    /* After a failure, keep finished shards of a fold for a call with resume; implied by
     * resume. false: nothing is left. */
    bool keep_finished;
    /* Count and check only. The target may be NULL. sample, which may be NULL, is called
     * for each sample; fields that are files have their path. Not for streams. */
    bool dry_run;
    tarn_put sample;
    void *sample_context;
    unsigned threads; /* reader threads; 0: one per core */
    /* Append, resume, overwrite, sizes of shards, how members are written; NULL: the
     * defaults. Resume without append adds nothing to a fold that is complete:
     * TARN_ERR_EXISTS if a sample is not in it. For shards without an index and for a
     * single archive, only the options that they support are used. */
    const tarn_fold_writer_options *writer;
    /* How streams are read; NULL: the defaults, with the grouping that corresponds to
     * keys. */
    const tarn_samples_options *stream;
    /* How a record pack is written; NULL: the defaults, with overwrite and no_sync of
     * writer. */
    const tarn_iac_write_options *records;
    /* Streams: use the numbers of the samples as keys, and take only samples number first
     * to end - 1. */
    bool number;
    uint64_t first, end;
    /* Streams: only these keys. TARN_ERR_NOT_FOUND if one does not occur. */
    const char *const *samples;
    size_t n_samples;
    /* Used instead of sources. */
    tarn_pack_feed feed;
    void *feed_context;
    tarn_pack_progress progress;
    void *progress_context;
    tarn_notice notice; /* called for skipped files, lines and members */
    void *notice_context;
    /* Which files of folders are packed, and which of the files that are sources: those
     * that match a pattern of include, if there are any, and no pattern of exclude. "*",
     * "?" and "[abc]" are wildcards. A pattern without a slash is matched with the name
     * of the file and of each folder above it, up to the source. A pattern with a slash
     * is matched with the path below the source or with the first folders of that path;
     * in it, "*" does not match a slash. Files that are left out are not reported. */
    const char *const *include, *const *exclude;
    size_t n_include, n_exclude;
    /* New names of fields of files and manifests. The first that applies is used. */
    const tarn_pack_rename *renames;
    size_t n_renames;
    /* For class_from_dir: the number of the folder below the source that is the class,
     * from 1. 0: the first, but it is an error if all of these have names of folds such
     * as train and val. */
    unsigned class_level;
    tarn_pack_check check; /* not for streams and record packs */
    /* Types of columns of a record pack from a manifest. Text is then read as a number,
     * as true or false, or as a time such as 2024-05-31T12:00:00.5+02:00 (UTC if no zone
     * is given). A column of type text holds other values as JSON. */
    const tarn_pack_type *types;
    size_t n_types;
    /* The folder of relative paths in manifests; NULL: the folder of the manifest. */
    const char *manifest_root;
    /* Only part number task (from 0) of a job that is divided into tasks; 0: all of it.
     * The target is a folder, and nothing appears in it before tarn_commit (see
     * tarn/commit.h). Of files, the part is a range of the samples, in order; of streams,
     * a range of the archives; a feed passes the samples of its own part. append and
     * overwrite are given to tarn_commit instead. All tasks need the same sources and
     * options. TARN_ERR_STALE if files were added, removed or renamed, or archives or
     * manifests changed, since the existing parts were written. */
    uint32_t task, tasks;
    /* What distinguishes this job from others with the same sources and options; may be
     * NULL. Needed for a feed, whose samples are unknown. */
    const char *job;
    /* For a feed: a text that identifies the data that all tasks divide, such as a state
     * of the dataset, and the number of its samples. A task with others than the existing
     * parts is refused, as if sources had changed. */
    const char *feed_source;
    uint64_t feed_samples;
} tarn_pack_options;

#define TARN_PACK_OPTIONS_INIT                                                           \
    {                                                                                    \
        .size = sizeof(tarn_pack_options), .end = UINT64_MAX                             \
    }

TARN_API void tarn_pack_options_init(tarn_pack_options *options, size_t size);

/* --- Packing -------------------------------------------------------------------------
 */

/* The results for one fold. The struct keeps its members and its size as long as the
 * soname stays the same. */
typedef struct tarn_pack_fold {
    const char *fold; /* borrowed from the arguments; NULL if not a folder */
    uint64_t samples, members;
    uint64_t payload; /* bytes of all fields */
    uint64_t bytes;   /* bytes of all archives, before compression */
    uint64_t shards;
} tarn_pack_fold;

typedef struct tarn_pack_report {
    uint64_t files, values; /* that became fields */
    uint64_t skipped;       /* files, lines and members that belong to no sample */
    uint64_t kept;          /* after a failure: finished shards that can be resumed */
    uint32_t fields;        /* distinct names */
    uint32_t classes;
    size_t folder_len; /* length of the target without ":FOLD" */
    size_t n_folds;
    /* What was written or, in a dry run, what would be written. For a record pack,
     * samples are records. Samples that append and resume found are not counted. */
    tarn_pack_fold folds[TARN_PACK_MAX_FOLDS];
    uint64_t bad; /* fields that could not be decoded, with check */
    bool existed; /* the part of this task was complete before; nothing was written */
} tarn_pack_report;

/* Packs the sources into the target. options and out may be NULL. After a failure, too,
 * out is filled with what had been written. Nothing gets its final name before everything
 * is complete, except that shards without an index get their names one by one.
 *
 * TARN_ERR_USAGE if options exclude each other. TARN_ERR_NOT_FOUND if the files contain
 * no sample. TARN_ERR_EXISTS if the target exists and the options do not say how to
 * handle that, or if a key occurs twice. */
TARN_API TARN_CHECKED tarn_status tarn_pack(const char *const *sources, size_t count,
                                            const char *target,
                                            const tarn_pack_options *options,
                                            tarn_pack_report *out, size_t size,
                                            tarn_error *err);

/* For a feed: writes a sample. This function is a tarn_put. In folds, slashes in the key
 * become "-". Fields without a name and samples without a key are skipped with a notice.
 * With resume, existing samples are skipped, too. */
TARN_API TARN_CHECKED tarn_status tarn_pack_put(void *output, unsigned part,
                                                const char *key, const tarn_field *fields,
                                                size_t count, tarn_error *err);

/* For a feed into folds: adopts whole shards; see tarn_fold_writer_adopt. */
TARN_API TARN_CHECKED tarn_status tarn_pack_adopt(void *output, unsigned part,
                                                  tarn_dataset *from,
                                                  const uint32_t *shards, size_t count,
                                                  tarn_adopt how, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
