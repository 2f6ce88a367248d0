/* Publishes one fold of the parts of a job: what is the same in folders (commit_local.c)
 * and in object stores (commit_store.c). */
#ifndef TARN_ITAR_COMMIT_PARTS_H
#define TARN_ITAR_COMMIT_PARTS_H

#include <tarn/commit.h>
#include <tarn/folds.h>

#include "itar/index.h"
#include "itar/store_tasks.h"
#include "itar/tasks.h"

typedef struct tarn__texts {
    char **items; /* ends with NULL */
    size_t count, capacity;
} tarn__texts;

/* A part of the fold: its index, and the paths or URLs of its shards. */
typedef struct tarn__part_source {
    char *index_path;
    tarn__texts shards;
    tarn__stamp *stamps; /* of the shards, when they were indexed */
    uint32_t task;
} tarn__part_source;

typedef struct tarn__publishing tarn__publishing;

/* Finds a shard that the index of a task names: in its part or, if the index was made by
 * tarn index, in the folder. The caller frees *out. */
typedef tarn_status tarn__find_shard(const tarn__publishing *p, uint32_t task,
                                     const char *name, char **out, bool *out_in_part,
                                     tarn_error *err);

struct tarn__publishing {
    const tarn_commit_options *o;
    const tarn__parts *parts;
    const char *folder, *fold;
    const char *index_path; /* where the joined index is written */
    tarn__find_shard *find_shard;
    void *context;
    const tarn_listed_fold *old; /* the existing fold, with a local index; or NULL */
    tarn__part_source *sources;  /* that of old first, if it is extended */
    size_t n_sources, capacity;
    tarn__texts names;    /* of all shards */
    size_t n_base;        /* shards of the existing fold */
    bool in_place;        /* the parts are indexes of shards that are in the folder */
    tarn_index_info info; /* of the fold, once it is published */
    uint64_t shards;
};

/* Takes the parts that exist and have samples; their folders must be local. */
TARN_CHECKED tarn_status tarn__publishing_begin(tarn__publishing *p, tarn_error *err);
void tarn__publishing_reset(tarn__publishing *p);

/* Whether the last shards of the existing fold are those of the parts, because an earlier
 * commit was interrupted after it had published them. */
TARN_CHECKED tarn_status tarn__publishing_is_over(const tarn__publishing *p, bool *out,
                                                  tarn_error *err);

/* Whether the existing fold has the shards of these parts, wherever in the fold they are;
 * adds its samples to *samples. */
TARN_CHECKED tarn_status tarn__publishing_has(const tarn__publishing *p, bool *out,
                                              uint64_t *samples, tarn_error *err);

/* TARN_ERR_EXISTS if there is a fold, and the options do not say what becomes of it. */
TARN_CHECKED tarn_status tarn__publishing_check(const tarn__publishing *p,
                                                tarn_error *err);

/* The existing fold becomes the first source. */
TARN_CHECKED tarn_status tarn__publishing_extend(tarn__publishing *p, tarn_error *err);

/* Names the shards: consecutively, or, in place, as they are; old then has the shards
 * that are in the folder. */
TARN_CHECKED tarn_status tarn__publishing_name(tarn__publishing *p, tarn_error *err);

/* In place: fails if a shard is not as it was when its task indexed it. A time of 0 is
 * unknown. */
TARN_CHECKED tarn_status tarn__stamp_compare(const char *path, const tarn__stamp *indexed,
                                             uint64_t size, int64_t mtime_ns,
                                             tarn_error *err);

/* Writes the index of all shards. */
TARN_CHECKED tarn_status tarn__publishing_join(tarn__publishing *p, tarn__saving *out,
                                               tarn_error *err);

void tarn__publishing_report(const tarn__publishing *p, tarn_commit_report *report);

/* Adds what the fold is afterwards to the report. If the fold was published before, by a
 * commit that was interrupted later, nothing changes. */
TARN_CHECKED tarn_status tarn__parts_publish(const tarn__parts *parts, const char *folder,
                                             const char *fold,
                                             const tarn_commit_options *options,
                                             tarn_commit_report *report, tarn_error *err);

/* The same in a store, where the parts were fetched. */
TARN_CHECKED tarn_status tarn__store_publish(const tarn__store_parts *parts,
                                             const char *folder, const char *fold,
                                             const tarn_commit_options *options,
                                             tarn_commit_report *report, tarn_error *err);

/* Publishes nothing: tarn__publishing_has. */
TARN_CHECKED tarn_status tarn__parts_has(const tarn__parts *parts, const char *folder,
                                         const char *fold,
                                         const tarn_commit_options *options, bool *out,
                                         uint64_t *samples, tarn_error *err);
TARN_CHECKED tarn_status tarn__store_has(const tarn__store_parts *parts,
                                         const char *folder, const char *fold,
                                         const tarn_commit_options *options, bool *out,
                                         uint64_t *samples, tarn_error *err);

/* Removes what an interrupted tarn__store_publish has left outside of the parts. */
TARN_CHECKED tarn_status tarn__store_discard(const tarn__store_parts *parts,
                                             const char *folder, const char *fold,
                                             const tarn_commit_options *options,
                                             tarn_error *err);

/* Takes ownership of item, which is NULL if out of memory. */
TARN_CHECKED tarn_status tarn__texts_add(tarn__texts *texts, char *item, tarn_error *err);
void tarn__texts_reset(tarn__texts *texts);

#endif
