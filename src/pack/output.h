/* The target of tarn_pack: folds, shards that roll over, or one archive. Knows nothing
 * about the sources. Private to this folder. */
#ifndef TARN_PACK_OUTPUT_H
#define TARN_PACK_OUTPUT_H

#include <tarn/pack.h>

#include "base/buf.h"
#include "base/hashes.h"
#include "itar/collection.h"
#include "itar/tasks.h"

typedef struct tarn__pack_output {
    tarn_pack_options options;
    tarn_fold_writer_options writer; /* options.writer, or the defaults */
    tarn_tar_writer_options members; /* writer.writer, or the defaults */
    tarn_sink_options sink;          /* members.sink, or the defaults */
    const char *target;              /* the caller's */
    tarn_target kind;
    char *folder;                           /* target without ":FOLD" */
    tarn__taskdir task;                     /* with options.tasks */
    const char *place;                      /* where folds are written */
    const char *names[TARN_PACK_MAX_FOLDS]; /* of the folds */
    double fractions[TARN_PACK_MAX_FOLDS];  /* of the folds after the first */
    size_t count;                           /* number of folds, or 1 */
    tarn_fold_writer *folds[TARN_PACK_MAX_FOLDS];
    bool complete[TARN_PACK_MAX_FOLDS]; /* resume found nothing to continue */
    tarn_tar_writer *tar;
    tarn_written written[TARN_PACK_MAX_FOLDS];
    uint64_t samples; /* number written */
    uint64_t skipped, kept;
    tarn__hashes seen;  /* keys and their origins, unless folds check them */
    tarn_field *fields; /* of the current sample */
    size_t capacity;
    tarn__buf flat; /* the current key without slashes */
} tarn__pack_output;

/* Sets names and checks the options, without touching the target. target may be NULL in a
 * dry run. */
TARN_CHECKED tarn_status tarn__pack_output_init(tarn__pack_output *o, const char *target,
                                                const tarn_pack_options *options,
                                                tarn_error *err);
void tarn__pack_output_reset(tarn__pack_output *o);

/* Starts the task of the options. TARN_END if its part exists. */
TARN_CHECKED tarn_status tarn__pack_output_begin(tarn__pack_output *o,
                                                 const tarn__job_id *job,
                                                 tarn_error *err);

/* The first item of a task's part of n items, and the first after it. */
void tarn__pack_output_part(const tarn__pack_output *o, uint64_t n, uint64_t *out_first,
                            uint64_t *out_end);

TARN_CHECKED tarn_status tarn__pack_output_open(tarn__pack_output *o, tarn_error *err);

/* Writes a sample unchanged; a tarn_put. */
TARN_CHECKED tarn_status tarn__pack_output_write(void *output, unsigned part,
                                                 const char *key,
                                                 const tarn_field *fields, size_t count,
                                                 tarn_error *err);

/* Whether a sample must be written: with resume, only if it does not exist yet. A
 * tarn__keep. */
TARN_CHECKED tarn_status tarn__pack_output_keep(void *output, const char *key,
                                                unsigned part, bool *out_keep,
                                                tarn_error *err);

/* tarn_pack_put with two more arguments. where is the path in notices, or NULL. origin is
 * the number of the sample's source: a key may repeat within one origin. */
TARN_CHECKED tarn_status tarn__pack_output_put(tarn__pack_output *o, unsigned part,
                                               const char *key, const tarn_field *fields,
                                               size_t count, const char *where,
                                               uint32_t origin, tarn_error *err);

/* In folds, slashes become "-". Borrowed until the next call. */
TARN_CHECKED tarn_status tarn__pack_output_key(tarn__pack_output *o, const char *key,
                                               const char **out, tarn_error *err);

/* The number of bytes of all fields so far. */
uint64_t tarn__pack_output_bytes(const tarn__pack_output *o);

/* Publishes the target. After a failure, only tarn__pack_output_stop may be called. */
TARN_CHECKED tarn_status tarn__pack_output_finish(tarn__pack_output *o, tarn_error *err);
void tarn__pack_output_stop(tarn__pack_output *o);

#define TARN__ANY_ORIGIN UINT32_MAX       /* no key may repeat */
#define TARN__NO_ORIGIN  (UINT32_MAX - 1) /* keys are not checked */

/* job.c: start the task, if the options have one, with what identifies its job: the
 * options, and all of the sources, whatever the part of this task is. TARN_END if the
 * part exists. */
TARN_CHECKED tarn_status tarn__pack_begin_files(tarn__pack_output *o,
                                                const char *const *sources, size_t count,
                                                tarn__collection *c, tarn_error *err);
TARN_CHECKED tarn_status tarn__pack_begin_archives(tarn__pack_output *o,
                                                   const char *const *urls, size_t count,
                                                   tarn_error *err);
TARN_CHECKED tarn_status tarn__pack_begin_feed(tarn__pack_output *o, tarn_error *err);

/* streams.c: starts the task, opens the output and packs archives. */
TARN_CHECKED tarn_status tarn__pack_streams(tarn__pack_output *o,
                                            const char *const *sources, size_t count,
                                            tarn_error *err);
bool tarn__is_archive(const char *path);

#endif
