/* tarn_commit: checks that the parts of a job are complete, publishes their folds, and
 * removes them. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/folds.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/url.h"
#include "itar/commit_job.h"
#include "itar/commit_parts.h"
#include "itar/folder.h"
#include "itar/index.h"

TARN__DEFINE_INIT(tarn_commit_options, TARN_COMMIT_OPTIONS_INIT)

static const char index_ending[] = ".taridx";

typedef struct committing {
    const tarn_commit_options *o;
    const char *folder, *fold;
    tarn__parts parts;
    tarn_commit_report report;
} committing;

static tarn_status fail_missing(const tarn__parts *p, tarn_error *err)
{
    enum { SHOWN = 10 };
    char numbers[SHOWN * 8] = "";
    uint32_t missing = p->count - p->present, shown = 0;
    for (uint32_t i = 0; i < p->count && shown < SHOWN; i++) {
        if (p->folders[i]) continue;
        size_t used = strlen(numbers);
        snprintf(numbers + used, sizeof numbers - used, "%s%" PRIu32, shown ? ", " : "",
                 i);
        shown++;
    }
    return tarn__fail_at(err, TARN_ERR_NOT_FOUND, p->root, TARN_NO_OFFSET,
                         "%" PRIu32 " of %" PRIu32 " tasks missing: %s%s; run %s first",
                         missing, p->count, numbers, missing > shown ? ", ..." : "",
                         missing == 1 ? "it" : "them");
}

/* --- classes.txt -------------------------------------------------------------------- */

static tarn_status same_text(const char *path, const tarn__contents *text,
                             tarn_error *err)
{
    tarn__contents other;
    TARN_TRY(tarn__contents_open(&other, path, err));
    bool same =
        other.size == text->size && memcmp(other.data, text->data, text->size) == 0;
    tarn__contents_close(&other);
    if (same) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, path, TARN_NO_OFFSET,
                         "the tasks found different classes, because the sources changed "
                         "between them; discard the parts and run all tasks again");
}

static tarn_status write_text(const char *path, const tarn__contents *text, bool no_sync,
                              tarn_error *err)
{
    tarn__publish p;
    TARN_TRY(tarn__publish_begin(&p, path, err));
    p.no_sync = no_sync;
    tarn_status status = tarn__publish_write(&p, text->data, text->size, err);
    if (status == TARN_OK) return tarn__publish_finish(&p, err);
    tarn__publish_abandon(&p);
    return status;
}

static tarn_status join_path(char **out, const char *folder, const char *name,
                             tarn_error *err)
{
    if (asprintf(out, "%s/%s", folder, name) >= 0) return TARN_OK;
    *out = NULL;
    return tarn__fail_memory(err);
}

static tarn_status same_texts(const tarn__parts *parts, const tarn__contents *text,
                              tarn_error *err)
{
    char *path;
    tarn_status status = TARN_OK;
    for (uint32_t i = 1; status == TARN_OK && i < parts->count; i++) {
        TARN_TRY(join_path(&path, parts->folders[i], "classes.txt", err));
        status = same_text(path, text, err);
        free(path);
    }
    return status;
}

/* Every task lists all sources, so all have the same names. */
tarn_status tarn__commit_classes(const tarn__parts *parts, tarn__put_classes *put,
                                 const void *context, tarn_error *err)
{
    char *path;
    tarn__contents text;
    TARN_TRY(join_path(&path, parts->folders[0], "classes.txt", err));
    bool found = access(path, F_OK) == 0;
    tarn_status status = found ? tarn__contents_open(&text, path, err) : TARN_OK;
    if (status == TARN_OK && found) {
        status = same_texts(parts, &text, err);
        if (status == TARN_OK) status = put(context, path, &text, err);
        tarn__contents_close(&text);
    }
    free(path);
    return status;
}

static tarn_status put_classes(const void *context, const char *from,
                               const tarn__contents *text, tarn_error *err)
{
    const committing *c = context;
    char *path;
    TARN_TRY(join_path(&path, c->folder, "classes.txt", err));
    tarn_status status = write_text(path, text, c->o->no_sync, err);
    free(path);
    return status;
}

/* --- Folds -------------------------------------------------------------------------- */

tarn_status tarn__commit_folds(const char *part, tarn__names *out, tarn_error *err)
{
    DIR *dir = opendir(part);
    if (!dir) return tarn__fail_errno(err, part, errno, "cannot open the folder");
    tarn_status status = TARN_OK;
    struct dirent *entry;
    while (status == TARN_OK && (errno = 0, entry = readdir(dir))) {
        size_t len = strlen(entry->d_name), ending = sizeof index_ending - 1;
        uint32_t id;
        if (entry->d_name[0] != '.' && len > ending &&
            tarn__ends_with(entry->d_name, index_ending))
            status = tarn__names_add(out, entry->d_name, len - ending, &id, err);
    }
    if (status == TARN_OK && errno)
        status = tarn__fail_errno(err, part, errno, "cannot list the folder");
    closedir(dir);
    if (status == TARN_OK && !out->count)
        status = tarn__fail_at(err, TARN_ERR_NO_FOLD, part, TARN_NO_OFFSET,
                               "the part contains no fold");
    return status;
}

/* With append and overwrite, the parts are new ones. */
bool tarn__commit_may_repeat(const tarn__parts *p, const tarn_commit_options *o)
{
    uint32_t all = o->tasks ? o->tasks : p->count;
    return !o->append && !o->overwrite && p->present && p->present < all;
}

/* A part may be in an older fold, of fewer samples. */
static tarn_status is_in_folds(const tarn__parts *p, const tarn__names *folds,
                               tarn__has_fold *has, const void *context, bool *out,
                               tarn_error *err)
{
    uint64_t samples = 0;
    *out = true;
    for (size_t i = 0; *out && i < folds->count; i++)
        TARN_TRY(has(context, tarn__names_get(folds, i).data, out, &samples, err));
    if (p->id.unit == TARN__UNIT_SAMPLE && samples < p->id.count) *out = false;
    return TARN_OK;
}

tarn_status tarn__commit_is_repeated(const tarn__parts *p, tarn__has_fold *has,
                                     const void *context, bool *out, tarn_error *err)
{
    tarn__names folds;
    uint32_t first = 0;
    while (!p->folders[first])
        first++;
    tarn__names_init(&folds);
    tarn_status status = tarn__commit_folds(p->folders[first], &folds, err);
    if (status == TARN_OK) status = is_in_folds(p, &folds, has, context, out, err);
    tarn__names_reset(&folds);
    return status;
}

static tarn_status has_fold(const void *context, const char *fold, bool *out,
                            uint64_t *samples, tarn_error *err)
{
    const committing *c = context;
    return tarn__parts_has(&c->parts, c->folder, fold, c->o, out, samples, err);
}

static tarn_status publish_folds(committing *c, tarn_error *err)
{
    tarn__names folds;
    tarn__names_init(&folds);
    tarn_status status = tarn__commit_folds(c->parts.folders[0], &folds, err);
    for (size_t i = 0; status == TARN_OK && i < folds.count; i++)
        status = tarn__parts_publish(
            &c->parts, c->folder, tarn__names_get(&folds, i).data, c->o, &c->report, err);
    tarn__names_reset(&folds);
    return status;
}

/* --- The call ----------------------------------------------------------------------- */

/* The fold is complete, or no task has run. */
static tarn_status report_fold(committing *c, tarn_error *err)
{
    char *path;
    tarn_folds *folds = NULL;
    if (asprintf(&path, "%s:%s", c->folder, c->fold) < 0) return tarn__fail_memory(err);
    tarn_status status = tarn_folds_list(path, &folds, NULL);
    free(path);
    if (status != TARN_OK)
        return tarn__fail_at(err, TARN_ERR_NOT_FOUND, c->folder, TARN_NO_OFFSET,
                             "no parts of fold %s: no task with this target has run",
                             c->fold);
    c->report.existed = true;
    c->report.folds = 1;
    c->report.shards = folds->folds[0]->n_shards;
    tarn_index_info info = {0};
    (void)!tarn_index_sums_info(folds->folds[0]->index_path, &info, sizeof info, NULL);
    c->report.samples = info.samples;
    c->report.members = info.rows;
    tarn_folds_free(folds);
    return TARN_OK;
}

static tarn_status report_existing(committing *c, tarn_error *err)
{
    if (c->parts.job || access(c->parts.root, F_OK) == 0)
        return tarn__fail_at(err, TARN_ERR_NOT_FOUND, c->parts.root, TARN_NO_OFFSET,
                             "no task is complete yet");
    return report_fold(c, err);
}

tarn_status tarn__commit_check(tarn__parts *p, uint32_t wanted, tarn_error *err)
{
    if (!p->named && !wanted)
        return tarn__fail_at(err, TARN_ERR_USAGE, p->root, TARN_NO_OFFSET,
                             "the tasks did not know how many they are; give the number "
                             "to the commit");
    if (p->named && wanted && wanted != p->named)
        return tarn__fail_at(err, TARN_ERR_USAGE, p->root, TARN_NO_OFFSET,
                             "the parts are those of %" PRIu32 " tasks, not of %" PRIu32,
                             p->named, wanted);
    if (!p->named && p->count > wanted)
        return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, p->folders[p->count - 1],
                             TARN_NO_OFFSET,
                             "task %" PRIu32 " has written a part, but the commit was "
                             "given %" PRIu32 " task%s; give it the number of all tasks, "
                             "which is at least %" PRIu32,
                             p->count - 1, wanted, wanted == 1 ? "" : "s", p->count);
    if (p->present == (wanted ? wanted : p->count)) return TARN_OK;
    TARN_TRY(tarn__parts_extend(p, wanted ? wanted : p->count, err));
    return fail_missing(p, err);
}

static tarn_status commit_parts(committing *c, tarn_error *err)
{
    bool no_sync = c->o->no_sync;
    if (c->o->discard) {
        TARN_TRY(tarn__parts_count(&c->parts, &c->report.tasks, err));
        return tarn__parts_remove(&c->parts, no_sync, err);
    }
    if (!c->parts.count) {
        TARN_TRY(report_existing(c, err));
        return tarn__parts_remove(&c->parts, no_sync, err);
    }
    bool repeated = false;
    if (tarn__commit_may_repeat(&c->parts, c->o))
        TARN_TRY(tarn__commit_is_repeated(&c->parts, has_fold, c, &repeated, err));
    if (repeated) {
        TARN_TRY(tarn__parts_remove(&c->parts, no_sync, err));
        return report_fold(c, err);
    }
    TARN_TRY(tarn__commit_check(&c->parts, c->o->tasks, err));
    c->report.tasks = c->parts.count;
    TARN_TRY(tarn__commit_classes(&c->parts, put_classes, c, err));
    TARN_TRY(publish_folds(c, err));
    return tarn__parts_remove(&c->parts, no_sync, err);
}

static tarn_status commit_folder(committing *c, tarn_error *err)
{
    tarn_status status = tarn__parts_find(&c->parts, c->folder, c->fold, err);
    /* Parts of several jobs can only be removed. */
    if ((status == TARN_ERR_AMBIGUOUS || status == TARN_ERR_STALE) && c->o->discard)
        status = tarn__parts_name(&c->parts, c->folder, c->fold, err);
    if (status == TARN_OK) status = commit_parts(c, err);
    tarn__parts_reset(&c->parts);
    return status;
}

static tarn_status check_path(const char *path, const tarn_commit_options *o,
                              tarn_error *err)
{
    if (o->append && o->overwrite)
        return tarn__fail(err, TARN_ERR_USAGE, "append and overwrite exclude each other");
    if (!*path) return tarn__fail(err, TARN_ERR_USAGE, "the path is empty");
    return tarn__url_scheme(path) ? tarn__store_check(path, err) : TARN_OK;
}

static tarn_status commit_local(const char *path, committing *c, tarn_error *err)
{
    char *folder, *found = NULL;
    const char *only;
    TARN_TRY(tarn__path_split(path, &folder, &only, err));
    tarn_status status = only ? TARN_OK : tarn__parts_fold(folder, &found, err);
    c->folder = folder;
    c->fold = only ? only : found ? found : "train";
    if (status == TARN_OK) status = commit_folder(c, err);
    free(folder);
    free(found);
    return status;
}

tarn_status tarn_commit(const char *path, const tarn_commit_options *options,
                        tarn_commit_report *out, size_t size, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__OPTIONS(tarn_commit_options, o, TARN_COMMIT_OPTIONS_INIT, options, err);
    committing c = {.o = &o};
    TARN_TRY(check_path(path, &o, err));
    tarn_status status = tarn__url_scheme(path)
                             ? tarn__commit_in_store(path, &o, &c.report, err)
                             : commit_local(path, &c, err);
    TARN__FILL_OUT(out, size, c.report);
    return status;
}
