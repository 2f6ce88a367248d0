/* What commits of a job in folders and in stores share. */
#ifndef TARN_ITAR_COMMIT_JOB_H
#define TARN_ITAR_COMMIT_JOB_H

#include <tarn/commit.h>

#include "base/names.h"
#include "io/file.h"
#include "itar/tasks.h"

/* Whether the parts are those of all tasks; wanted is the number that the caller gave. */
TARN_CHECKED tarn_status tarn__commit_check(tarn__parts *parts, uint32_t wanted,
                                            tarn_error *err);

/* The folds of a part, which are those of every part. */
TARN_CHECKED tarn_status tarn__commit_folds(const char *part, tarn__names *out,
                                            tarn_error *err);

/* Calls put with the classes.txt of the parts, if they have one. */
typedef tarn_status tarn__put_classes(const void *context, const char *path,
                                      const tarn__contents *text, tarn_error *err);
TARN_CHECKED tarn_status tarn__commit_classes(const tarn__parts *parts,
                                              tarn__put_classes *put, const void *context,
                                              tarn_error *err);

/* Whether tasks are missing, but the existing folds have the samples of the job: then
 * the parts are those of tasks that ran again after the commit. has compares the parts
 * with a fold: see tarn__parts_has. */
typedef tarn_status tarn__has_fold(const void *context, const char *fold, bool *out,
                                   uint64_t *samples, tarn_error *err);
bool tarn__commit_may_repeat(const tarn__parts *parts,
                             const tarn_commit_options *options);
TARN_CHECKED tarn_status tarn__commit_is_repeated(const tarn__parts *parts,
                                                  tarn__has_fold *has,
                                                  const void *context, bool *out,
                                                  tarn_error *err);

/* tarn_commit, where path is a URL. */
TARN_CHECKED tarn_status tarn__commit_in_store(const char *path,
                                               const tarn_commit_options *options,
                                               tarn_commit_report *report,
                                               tarn_error *err);

#endif
