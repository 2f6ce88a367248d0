/* Publishes one fold of the parts of a job. */
#ifndef TARN_ITAR_COMMIT_PARTS_H
#define TARN_ITAR_COMMIT_PARTS_H

#include <tarn/commit.h>

#include "itar/tasks.h"

/* Adds what the fold is afterwards to the report. If the fold was published before, by a
 * commit that was interrupted later, nothing changes. */
TARN_CHECKED tarn_status tarn__parts_publish(const tarn__parts *parts, const char *folder,
                                             const char *fold,
                                             const tarn_commit_options *options,
                                             tarn_commit_report *report, tarn_error *err);

#endif
