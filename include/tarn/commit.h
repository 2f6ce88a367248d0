/* tarn/commit.h: publishes a fold that several processes or machines have written.
 *
 * A job is a call of tarn_pack that is divided into tasks. Each task makes the same call
 * with the same sources and options, and with its own number:
 *
 *     tarn_pack_options o = TARN_PACK_OPTIONS_INIT;
 *     o.task = 3;
 *     o.tasks = 8;
 *     status = tarn_pack(sources, count, "data/birds", &o, NULL, 0, &err);
 *
 * A task writes its part of the samples to a hidden folder, data/birds/.train.tasks,
 * where no reader looks. A part appears there complete or not at all, so a task that was
 * killed is simply run again. A task whose part exists does nothing, and two runs of one
 * task at the same time leave one part. When all tasks are done, one process calls
 *
 *     status = tarn_commit("data/birds", NULL, NULL, 0, &err);
 *
 * which checks that no part is missing and that no key is in two parts, and publishes the
 * fold: the shards of all parts in order, with consecutive numbers, and one index. Until
 * then readers see the folder as it was.
 *
 * The target may also be s3://bucket/birds: see docs/guides/billion.md.
 *
 * Calls share no state. */
#ifndef TARN_COMMIT_H
#define TARN_COMMIT_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_MAX_TASKS 99999u

/* A number of tasks that is not known before all have run. It is given to tarn_commit. */
#define TARN_TASKS_OPEN UINT32_MAX

typedef struct tarn_commit_options {
    size_t size;    /* of this struct; set by the initialiser */
    bool append;    /* add the shards to an existing fold */
    bool overwrite; /* replace an existing fold */
    bool discard;   /* remove all parts, and publish nothing */
    bool no_sync;   /* do not wait for the disk */
    unsigned threads;
    size_t memory;  /* bytes for sorting; 0: 64 MiB */
    uint32_t tasks; /* how many there must be; needed only after TARN_TASKS_OPEN */
} tarn_commit_options;

#define TARN_COMMIT_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_commit_options)                                              \
    }
TARN_API void tarn_commit_options_init(tarn_commit_options *options, size_t size);

typedef struct tarn_commit_report {
    uint32_t tasks, folds; /* tasks: whose parts were published, or discarded */
    uint64_t shards, samples, members; /* of the folds, as they are now */
    bool existed;                      /* there were no parts, and the fold is complete */
} tarn_commit_report;

/* Publishes the parts in a folder: "DIR" or "DIR:FOLD", where FOLD is that of the target
 * of the tasks; DIR may be s3://bucket/DIR, and no other URL. options and out may be
 * NULL. The parts are removed afterwards. If a call was interrupted, the next one
 * completes its work; after a commit it does nothing, and sets existed.
 *
 * TARN_ERR_NOT_FOUND, with their numbers, if tasks are missing, or if there are no parts.
 * TARN_ERR_EXISTS, with both shards, if a key occurs twice, and if the fold exists and
 * the options do not say how to handle that. TARN_ERR_AMBIGUOUS if there are parts of
 * several jobs. TARN_ERR_STALE if the sources changed between tasks, if a shard that
 * tasks have indexed was replaced, and if another writer changed a fold in a store during
 * the call. */
TARN_API TARN_CHECKED tarn_status tarn_commit(const char *path,
                                              const tarn_commit_options *options,
                                              tarn_commit_report *out, size_t size,
                                              tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
