/* The parts that the tasks of a job write, before they are committed:
 *
 *   .train.tasks/                      all of a fold
 *     OPTIONS-SOURCES-COUNT/           the job: see tarn__job_id
 *       00003-of-00008/                a complete part: a folder with folds
 *                                      (00003-of-00000 if the number is not known yet)
 *        .00003-of-00008.tmp-CHANCE/   a part that is being written; its .lock is locked
 *   .train.tasks.done/                 the same after a commit, until it is removed
 *
 * A part gets its name by one rename, which fails if the part exists. So a part is
 * complete, and never changes. No reader looks into hidden folders. */
#ifndef TARN_ITAR_TASKS_H
#define TARN_ITAR_TASKS_H

#include <tarn/base.h>

/* What identifies a job. All tasks compute it, and its text is the name of the job. Parts
 * of different jobs are never mixed: so if the sources change between two tasks, the
 * second is refused, or, if both began at the same time, the commit. */
typedef struct tarn__job_id {
    uint64_t options; /* a hash of what determines the samples, besides the sources */
    uint64_t sources; /* a hash of the list of sources; 0 if there is none */
    uint64_t count;   /* of the entries of that list, for messages */
    char unit;        /* what they are: one of the following */
} tarn__job_id;

#define TARN__UNIT_NONE    'n'
#define TARN__UNIT_SAMPLE  's'
#define TARN__UNIT_ARCHIVE 'a'
#define TARN__UNIT_SHARD   't'

/* The name of a job, and the reverse; what follows the name is not read. */
enum { TARN__JOB_LEN = 50, TARN__JOB_NAME = TARN__JOB_LEN + 1 };
void tarn__job_name(char out[TARN__JOB_NAME], const tarn__job_id *id);
bool tarn__job_parse(const char *name, tarn__job_id *out);

/* Fails if this job is not that of the existing parts. root is for messages. */
TARN_CHECKED tarn_status tarn__job_compare(const char *root, const tarn__job_id *existing,
                                           const tarn__job_id *job, tarn_error *err);

typedef struct tarn__taskdir {
    char *folder; /* where its folds are written */
    char *final;  /* the name of the complete part */
    int lock;
    bool no_sync;
    /* In an object store (store_tasks.h), where folder is a local one for all but the
     * shards: */
    char *url;      /* of the objects of this run, without a slash at its end; or NULL */
    char *mark;     /* the URL of the object that says whether the part is complete */
    char etag[256]; /* of that object, when this run began */
} tarn__taskdir;

/* Starts the part of task number index. TARN_END if the part exists, under final.
 * TARN_ERR_EXISTS if there are parts of another job, TARN_ERR_STALE if their sources
 * were others, TARN_ERR_AMBIGUOUS if they are of another number of tasks. */
TARN_CHECKED tarn_status tarn__task_begin(tarn__taskdir *task, const char *folder,
                                          const char *fold, uint32_t index,
                                          uint32_t count, const tarn__job_id *job,
                                          bool no_sync, tarn_error *err);

/* The part is complete. Another run of the same task may have been faster. */
TARN_CHECKED tarn_status tarn__task_finish(tarn__taskdir *task, tarn_error *err);
/* Removes what was written, unless it was finished. Harmless for a zeroed task. */
void tarn__task_abandon(tarn__taskdir *task);

/* The parts of a job. */
typedef struct tarn__parts {
    char *root, *done; /* .train.tasks, .train.tasks.done */
    char *job;         /* the folder of the job; NULL if there are no parts */
    tarn__job_id id;   /* of the job */
    uint32_t named;    /* tasks, according to the names of the parts; 0: unknown */
    uint32_t count;    /* the same, or the highest number and one */
    char **folders;    /* of the parts, by number; NULL for those that are missing */
    size_t capacity;
    uint32_t present;
} tarn__parts;

/* Sets only root and done. */
TARN_CHECKED tarn_status tarn__parts_name(tarn__parts *parts, const char *folder,
                                          const char *fold, tarn_error *err);

/* Finds the parts of a fold. TARN_ERR_AMBIGUOUS if there are several jobs, TARN_ERR_STALE
 * if they differ only in their sources. */
TARN_CHECKED tarn_status tarn__parts_find(tarn__parts *parts, const char *folder,
                                          const char *fold, tarn_error *err);
void tarn__parts_reset(tarn__parts *parts);

/* Makes the number of tasks at least end; the parts of new ones are missing. */
TARN_CHECKED tarn_status tarn__parts_extend(tarn__parts *parts, uint32_t end,
                                            tarn_error *err);

/* The only fold in a folder that has parts; *out is NULL if there is none. */
TARN_CHECKED tarn_status tarn__parts_fold(const char *folder, char **out,
                                          tarn_error *err);

/* "00003-of-00008", and the reverse; false for any other text. */
enum { TARN__PART_NAME = 32 };
void tarn__part_name(char out[TARN__PART_NAME], uint32_t index, uint32_t count);
bool tarn__part_numbers(const char *name, uint32_t *out_index, uint32_t *out_count);

/* Failures that parts in folders and in stores share. root is for messages. A number of
 * tasks is 0 if it is not known. */
tarn_status tarn__fail_other_count(const char *root, uint32_t existing, uint32_t count,
                                   tarn_error *err);
tarn_status tarn__fail_counts(const char *root, uint32_t a, uint32_t b, tarn_error *err);
tarn_status tarn__fail_several_jobs(const char *root, const tarn__job_id *a,
                                    const tarn__job_id *b, tarn_error *err);
tarn_status tarn__fail_committed(const char *part, tarn_error *err);

/* The number of complete parts, of all jobs. */
TARN_CHECKED tarn_status tarn__parts_count(const tarn__parts *parts, uint32_t *out,
                                           tarn_error *err);

/* Removes a folder and everything in it, without following links. */
TARN_CHECKED tarn_status tarn__remove_tree(const char *path, tarn_error *err);

/* Removes all parts, and those of an earlier commit. From the start of the removal on,
 * nobody takes them for parts. */
TARN_CHECKED tarn_status tarn__parts_remove(tarn__parts *parts, bool no_sync,
                                            tarn_error *err);

#endif
