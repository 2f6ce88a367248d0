/* The parts of a job in an object store, where nothing can be renamed:
 *
 *   s3://b/birds/.train.tasks/                    all of a fold
 *     JOB-of-00008                                the job (tarn__job_id); an empty object
 *     JOB/
 *       00003-of-00008                            the mark of a task
 *       00003-of-00008.RUN/train_0000.tar         what a run of it wrote
 *     done                                        the fold is published, the rest is
 *                                                 being removed
 *
 * A mark is empty while its task runs. A run that has written everything replaces it by
 * the name of its RUN, on the condition that it did not change: so one run of several
 * becomes the part, and none after a commit, which removes the marks first. No run
 * touches objects of another one. */
#ifndef TARN_ITAR_STORE_TASKS_H
#define TARN_ITAR_STORE_TASKS_H

#include "io/store.h"
#include "itar/tasks.h"

#define TARN__STORE_DONE "done"

/* The name of a run: 16 hexadecimal digits. */
bool tarn__is_run_name(const char *name);

/* The length of the URL of a folder without slashes at its end. */
int tarn__store_folder(const char *url);

/* tarn__task_begin, where folder is a URL and count is 0 if it is unknown. */
TARN_CHECKED tarn_status tarn__store_task_begin(tarn__taskdir *task, const char *folder,
                                                const char *fold, uint32_t index,
                                                uint32_t count, const tarn__job_id *job,
                                                tarn_error *err);
/* tarn__task_finish: sends what is in the local folder. */
TARN_CHECKED tarn_status tarn__store_task_finish(tarn__taskdir *task, tarn_error *err);
/* Removes the objects of this run, as far as possible. */
void tarn__store_task_forget(tarn__taskdir *task);

/* The objects that one run has written, in the listing. */
typedef struct tarn__store_run {
    char name[17]; /* "" if it is not the part */
    size_t first, count;
} tarn__store_run;

/* The parts of a fold, for a commit. */
typedef struct tarn__store_parts {
    tarn__parts parts;     /* root (which ends with a slash) and job are URLs; folders are
                              local, and empty before they are fetched */
    tarn__listing all;     /* what is in root */
    tarn__store_run *runs; /* by task; once they are fetched */
    char *temporary;       /* the local folder of the folders; or NULL */
    uint32_t complete;     /* parts, of all jobs */
    bool done;             /* the fold is published, the parts are being removed */
    bool several;          /* there are parts of several jobs, also of: */
    tarn__job_id other;
    uint32_t other_count; /* if the jobs differ only in the number of tasks */
} tarn__store_parts;

/* Lists the parts of a fold. If they are those of several jobs, only several is set. */
TARN_CHECKED tarn_status tarn__store_parts_find(tarn__store_parts *p, const char *folder,
                                                const char *fold, tarn_error *err);
/* Also removes the local folders. */
void tarn__store_parts_reset(tarn__store_parts *p);

/* Fetches all objects of the parts but the shards. */
TARN_CHECKED tarn_status tarn__store_parts_fetch(tarn__store_parts *p, tarn_error *err);

/* The object of a run with this name; NULL if there is none. */
const tarn__listed *tarn__store_parts_object(const tarn__store_parts *p, uint32_t task,
                                             const char *name);

/* Removes everything in root, also uploads that are not complete, and finally the object
 * that says that this is being done. */
TARN_CHECKED tarn_status tarn__store_parts_remove(tarn__store_parts *p, tarn_error *err);

/* The only fold in a folder that has parts; *out is NULL if there is none. */
TARN_CHECKED tarn_status tarn__store_parts_fold(const char *folder, char **out,
                                                tarn_error *err);

#endif
