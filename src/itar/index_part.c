/* Indexes the shards of one task. The index is a part of a job (tasks.h); tarn_commit
 * joins all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/commit.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "itar/folder.h"
#include "itar/index.h"
#include "itar/remote_index.h"
#include "itar/tasks.h"
#include "tar/keys.h"

/* The struct of a caller may be older and shorter. */
bool tarn__index_tasks(const tarn_index_options *options)
{
    return options->size >= sizeof *options && (options->task || options->tasks);
}

/* All tasks index the same shards in the same way. Their sizes are compared by the
 * commit, with those that were indexed. */
static tarn_status job_of(const char *const *shards, size_t count,
                          const tarn_index_options *o, tarn__job_id *out, tarn_error *err)
{
    tarn__buf text;
    char options[64];
    tarn__buf_init(&text, SIZE_MAX / 2);
    snprintf(options, sizeof options, "index %d %d %d", (int)o->keys, o->sums,
             o->lenient);
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = tarn__buf_printf(&text, err, "%s\n", tarn__base_name(shards[i]));
    if (status == TARN_OK)
        *out = (tarn__job_id){.options = tarn__key_hash(options, strlen(options)),
                              .sources = tarn__key_hash(text.data, text.size),
                              .count = count,
                              .unit = TARN__UNIT_SHARD};
    tarn__buf_reset(&text);
    return status;
}

static tarn_status build(const tarn__taskdir *task, const char *const *shards,
                         size_t count, const tarn_index_options *options,
                         const char *name, tarn_index **out, tarn_index_report *report,
                         size_t size, tarn_error *err)
{
    tarn_index_options o = *options;
    char *path;
    size_t first = (size_t)((uint64_t)count * o.task / o.tasks);
    size_t end = (size_t)((uint64_t)count * ((uint64_t)o.task + 1) / o.tasks);
    if (asprintf(&path, "%s/%s", task->folder, name) < 0) return tarn__fail_memory(err);
    o.task = o.tasks = 0;
    tarn_status status =
        tarn_index_build(shards + first, end - first, &o, path, out, report, size, err);
    free(path);
    return status;
}

static tarn_status load_existing(const tarn__taskdir *task, const char *name,
                                 tarn_index **out, tarn_error *err)
{
    char *path;
    if (!out) return TARN_OK;
    if (asprintf(&path, "%s/%s", task->final, name) < 0) return tarn__fail_memory(err);
    tarn__index_copy copy = {0};
    tarn_status status = task->mark ? tarn__index_fetch(path, NULL, &copy, err)
                                    : tarn_index_load(path, &copy.index, err);
    free(path);
    *out = copy.index;
    copy.index = NULL;
    tarn__index_copy_reset(&copy);
    return status;
}

static tarn_status run(const char *const *shards, size_t count,
                       const tarn_index_options *o, const char *folder, const char *fold,
                       tarn_index **out, tarn_index_report *report, size_t size,
                       tarn_error *err)
{
    tarn__taskdir task;
    tarn__job_id job;
    char *name;
    TARN_TRY(job_of(shards, count, o, &job, err));
    if (asprintf(&name, "%s.taridx", fold) < 0) return tarn__fail_memory(err);
    tarn_status status =
        tarn__task_begin(&task, folder, fold, o->task, o->tasks, &job, false, err);
    if (status == TARN_OK)
        status = build(&task, shards, count, o, name, out, report, size, err);
    else if (status == TARN_END)
        status = load_existing(&task, name, out, err);
    if (status == TARN_OK && task.folder) status = tarn__task_finish(&task, err);
    tarn__task_abandon(&task);
    free(name);
    return status;
}

tarn_status tarn__index_part(const char *const *shards, size_t count,
                             const tarn_index_options *options, const char *path,
                             tarn_index **out, tarn_index_report *report, size_t size,
                             tarn_error *err)
{
    const char *name = tarn__base_name(path);
    size_t len = strlen(name), ending = sizeof ".taridx" - 1;
    if (options->task >= options->tasks || options->tasks > TARN_MAX_TASKS ||
        options->streams || !tarn__is_index_path(path))
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "task %u of %u: tasks are numbered from 0, there can be %u, and "
            "they index the plain shards of a fold",
            options->task, options->tasks, TARN_MAX_TASKS);
    char *folder = name == path ? strdup(".") : strndup(path, (size_t)(name - path - 1));
    char *fold = strndup(name, len - ending);
    tarn_status status =
        folder && fold ? run(shards, count, options, folder, fold, out, report, size, err)
                       : tarn__fail_memory(err);
    free(folder);
    free(fold);
    return status;
}
