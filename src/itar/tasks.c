/* Folders of parts: see tasks.h. Knows nothing about what is in a part. */
#include "itar/tasks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/commit.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include "io/object.h"
#include "io/publish.h"
#include "itar/commit.h"
#include "itar/store_tasks.h"

#define TASKS_ENDING ".tasks"
#define DONE_ENDING  ".tasks.done"

static tarn_status joined(char **out, const char *folder, const char *before,
                          const char *name, const char *after, tarn_error *err)
{
    if (asprintf(out, "%s/%s%s%s", folder, before, name, after) >= 0) return TARN_OK;
    *out = NULL;
    return tarn__fail_memory(err);
}

/* --- Names -------------------------------------------------------------------------- */

void tarn__part_name(char out[TARN__PART_NAME], uint32_t index, uint32_t count)
{
    snprintf(out, TARN__PART_NAME, "%05" PRIu32 "-of-%05" PRIu32, index, count);
}

/* Whether name is exactly what tarn__part_name makes of the two numbers. */
bool tarn__part_numbers(const char *name, uint32_t *out_index, uint32_t *out_count)
{
    char again[TARN__PART_NAME];
    char *end;
    if (name[0] < '0' || name[0] > '9' || strlen(name) != 14) return false;
    *out_index = (uint32_t)strtoul(name, &end, 10);
    *out_count = (uint32_t)strtoul(name + 9, NULL, 10);
    tarn__part_name(again, *out_index, *out_count);
    return strcmp(again, name) == 0 && (!*out_count || *out_index < *out_count);
}

void tarn__job_name(char out[TARN__JOB_NAME], const tarn__job_id *id)
{
    snprintf(out, TARN__JOB_NAME, "%016" PRIx64 "-%016" PRIx64 "-%c%015" PRIx64,
             id->options, id->sources, id->unit, id->count);
}

static bool read_hex(const char *text, size_t len, uint64_t *out)
{
    char digits[17] = "";
    memcpy(digits, text, len);
    *out = strtoull(digits, NULL, 16);
    return strspn(digits, "0123456789abcdef") == len;
}

bool tarn__job_parse(const char *name, tarn__job_id *out)
{
    if (strnlen(name, TARN__JOB_LEN) < TARN__JOB_LEN) return false;
    out->unit = name[34];
    return name[16] == '-' && name[33] == '-' && read_hex(name, 16, &out->options) &&
           read_hex(name + 17, 16, &out->sources) && read_hex(name + 35, 15, &out->count);
}

/* --- Failures ----------------------------------------------------------------------- */

enum { COUNT_TEXT = 48 };

/* "3 samples" */
static const char *count_text(char out[COUNT_TEXT], const tarn__job_id *id)
{
    const char *unit = id->unit == TARN__UNIT_ARCHIVE ? "archive"
                       : id->unit == TARN__UNIT_SHARD ? "shard"
                                                      : "sample";
    snprintf(out, COUNT_TEXT, "%" PRIu64 " %s%s", id->count, unit,
             id->count == 1 ? "" : "s");
    return out;
}

tarn_status tarn__job_compare(const char *root, const tarn__job_id *existing,
                              const tarn__job_id *job, tarn_error *err)
{
    char before[COUNT_TEXT], now[COUNT_TEXT];
    if (existing->options != job->options)
        return tarn__fail_at(err, TARN_ERR_EXISTS, root, TARN_NO_OFFSET,
                             "parts of another job, with other options: run all tasks "
                             "with the same command; or first commit these parts, or "
                             "remove them (tarn commit --discard)");
    if (existing->sources == job->sources && existing->count == job->count)
        return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_STALE, root, TARN_NO_OFFSET,
        "the sources are not those of the existing parts: %s then, %s now%s; run all "
        "tasks with the same sources, unchanged; if they had to change, remove the parts "
        "(tarn commit --discard) and run all tasks again",
        count_text(before, existing), count_text(now, job),
        existing->count == job->count ? ", but not the same ones" : "");
}

tarn_status tarn__fail_several_jobs(const char *root, const tarn__job_id *a,
                                    const tarn__job_id *b, tarn_error *err)
{
    char one[COUNT_TEXT], other[COUNT_TEXT];
    bool turned = a->count > b->count;
    if (a->options != b->options)
        return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, root, TARN_NO_OFFSET,
                             "parts of several jobs, with different options; discard "
                             "them (tarn commit --discard) and run all tasks again with "
                             "the same command");
    return tarn__fail_at(err, TARN_ERR_STALE, root, TARN_NO_OFFSET,
                         "the sources changed between the tasks: %s for some of them, %s "
                         "for others%s; discard the parts (tarn commit --discard) and "
                         "run all tasks again with the same sources",
                         count_text(one, turned ? b : a),
                         count_text(other, turned ? a : b),
                         a->count == b->count ? ", but not the same ones" : "");
}

/* "4 tasks" */
static const char *tasks_text(char out[COUNT_TEXT], uint32_t count)
{
    snprintf(out, COUNT_TEXT, "%" PRIu32 " task%s", count, count == 1 ? "" : "s");
    if (!count) snprintf(out, COUNT_TEXT, "an unknown number of tasks");
    return out;
}

tarn_status tarn__fail_other_count(const char *root, uint32_t existing, uint32_t count,
                                   tarn_error *err)
{
    char before[COUNT_TEXT], now[COUNT_TEXT], as[COUNT_TEXT] = "with that number";
    if (existing) snprintf(as, sizeof as, "as I/%" PRIu32, existing);
    return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, root, TARN_NO_OFFSET,
                         "the existing parts are of %s, not of %s: run this task %s, or "
                         "remove the parts (tarn commit --discard) and run all tasks "
                         "again",
                         tasks_text(before, existing), tasks_text(now, count), as);
}

tarn_status tarn__fail_counts(const char *root, uint32_t a, uint32_t b, tarn_error *err)
{
    char one[COUNT_TEXT], other[COUNT_TEXT];
    return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, root, TARN_NO_OFFSET,
                         "some parts are of %s, others of %s; discard them (tarn commit "
                         "--discard) and run all tasks with one number",
                         tasks_text(one, a), tasks_text(other, b));
}

tarn_status tarn__fail_committed(const char *part, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_STALE, part, TARN_NO_OFFSET,
                         "the job was committed or discarded while this task ran");
}

/* --- Listing ------------------------------------------------------------------------ */

/* Calls visit for each name in a folder; a folder that does not exist is empty. */
static tarn_status each_name(const char *folder,
                             tarn_status (*visit)(void *context, const char *name,
                                                  tarn_error *err),
                             void *context, tarn_error *err)
{
    DIR *dir = opendir(folder);
    if (!dir && errno == ENOENT) return TARN_OK;
    if (!dir) return tarn__fail_errno(err, folder, errno, "cannot open the folder");
    tarn_status status = TARN_OK;
    struct dirent *entry;
    while (status == TARN_OK && (errno = 0, entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = visit(context, entry->d_name, err);
    if (status == TARN_OK && errno)
        status = tarn__fail_errno(err, folder, errno, "cannot list the folder");
    closedir(dir);
    return status;
}

static tarn_status take_job(void *context, const char *name, tarn_error *err)
{
    tarn__parts *p = context;
    tarn__job_id id;
    if (strlen(name) != TARN__JOB_LEN || !tarn__job_parse(name, &id)) return TARN_OK;
    if (p->job) return tarn__fail_several_jobs(p->root, &p->id, &id, err);
    p->id = id;
    return joined(&p->job, p->root, "", name, "", err);
}

tarn_status tarn__parts_extend(tarn__parts *p, uint32_t end, tarn_error *err)
{
    while (p->capacity < end) {
        size_t before = p->capacity;
        TARN_TRY(tarn__grow(&p->folders, sizeof *p->folders, before, &p->capacity, err));
        memset(p->folders + before, 0, (p->capacity - before) * sizeof *p->folders);
    }
    if (p->count < end) p->count = end;
    return TARN_OK;
}

static tarn_status take_part(void *context, const char *name, tarn_error *err)
{
    tarn__parts *p = context;
    uint32_t index, count;
    if (!tarn__part_numbers(name, &index, &count)) return TARN_OK;
    if (p->present && p->named != count)
        return tarn__fail_counts(p->root, p->named, count, err);
    p->named = count;
    TARN_TRY(tarn__parts_extend(p, count ? count : index + 1, err));
    p->present++;
    return joined(&p->folders[index], p->job, "", name, "", err);
}

tarn_status tarn__parts_name(tarn__parts *p, const char *folder, const char *fold,
                             tarn_error *err)
{
    *p = (tarn__parts){0};
    tarn_status status = joined(&p->root, folder, ".", fold, TASKS_ENDING, err);
    if (status == TARN_OK) status = joined(&p->done, folder, ".", fold, DONE_ENDING, err);
    if (status != TARN_OK) tarn__parts_reset(p);
    return status;
}

static tarn_status find_parts(tarn__parts *p, const char *folder, const char *fold,
                              tarn_error *err)
{
    TARN_TRY(tarn__parts_name(p, folder, fold, err));
    TARN_TRY(each_name(p->root, take_job, p, err));
    return p->job ? each_name(p->job, take_part, p, err) : TARN_OK;
}

tarn_status tarn__parts_find(tarn__parts *p, const char *folder, const char *fold,
                             tarn_error *err)
{
    tarn_status status = find_parts(p, folder, fold, err);
    if (status != TARN_OK) tarn__parts_reset(p);
    return status;
}

void tarn__parts_reset(tarn__parts *p)
{
    for (uint32_t i = 0; p->folders && i < p->count; i++)
        free(p->folders[i]);
    free(p->folders);
    free(p->root);
    free(p->done);
    free(p->job);
    *p = (tarn__parts){0};
}

typedef struct search {
    const char *folder;
    char *fold;
} search;

static tarn_status take_fold(void *context, const char *name, tarn_error *err)
{
    search *s = context;
    bool done = tarn__ends_with(name, DONE_ENDING);
    size_t len = strlen(name), ending = (done ? sizeof DONE_ENDING : sizeof TASKS_ENDING);
    if (name[0] != '.' || len <= ending ||
        (!done && !tarn__ends_with(name, TASKS_ENDING)))
        return TARN_OK;
    len -= ending;
    if (s->fold && strlen(s->fold) == len && memcmp(s->fold, name + 1, len) == 0)
        return TARN_OK;
    if (s->fold)
        return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, s->folder, TARN_NO_OFFSET,
                             "parts of several folds; select one, for example with :%s",
                             s->fold);
    s->fold = strndup(name + 1, len);
    return s->fold ? TARN_OK : tarn__fail_memory(err);
}

tarn_status tarn__parts_fold(const char *folder, char **out, tarn_error *err)
{
    search s = {.folder = folder};
    tarn_status status = each_name(folder, take_fold, &s, err);
    if (status != TARN_OK) free(s.fold);
    *out = status == TARN_OK ? s.fold : NULL;
    return status;
}

typedef struct counting {
    const char *root;
    uint32_t parts;
} counting;

static tarn_status count_part(void *context, const char *name, tarn_error *err)
{
    uint32_t index, count;
    (void)err;
    ((counting *)context)->parts += tarn__part_numbers(name, &index, &count);
    return TARN_OK;
}

static tarn_status count_parts(void *context, const char *name, tarn_error *err)
{
    const counting *c = context;
    tarn__job_id id;
    char *job;
    if (strlen(name) != TARN__JOB_LEN || !tarn__job_parse(name, &id)) return TARN_OK;
    TARN_TRY(joined(&job, c->root, "", name, "", err));
    tarn_status status = each_name(job, count_part, context, err);
    free(job);
    return status;
}

tarn_status tarn__parts_count(const tarn__parts *p, uint32_t *out, tarn_error *err)
{
    counting c = {.root = p->root};
    tarn_status status = each_name(p->root, count_parts, &c, err);
    *out = c.parts;
    return status;
}

/* --- Removing ----------------------------------------------------------------------- */

static tarn_status remove_name(void *context, const char *name, tarn_error *err);

tarn_status tarn__remove_tree(const char *path, tarn_error *err)
{
    TARN_TRY(each_name(path, remove_name, (void *)(uintptr_t)path, err));
    if (rmdir(path) == 0 || errno == ENOENT) return TARN_OK;
    return tarn__fail_errno(err, path, errno, "cannot remove the folder");
}

static tarn_status remove_name(void *context, const char *name, tarn_error *err)
{
    const char *folder = context;
    struct stat st;
    char *path;
    TARN_TRY(joined(&path, folder, "", name, "", err));
    tarn_status status = TARN_OK;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        status = tarn__remove_tree(path, err);
    else if (unlink(path) != 0 && errno != ENOENT)
        status = tarn__fail_errno(err, path, errno, "cannot remove");
    free(path);
    return status;
}

tarn_status tarn__parts_remove(tarn__parts *p, bool no_sync, tarn_error *err)
{
    TARN_TRY(tarn__remove_tree(p->done, err));
    if (rename(p->root, p->done) != 0) {
        if (errno == ENOENT) return TARN_OK;
        return tarn__fail_errno(err, p->root, errno, "cannot rename");
    }
    if (!no_sync) TARN_TRY(tarn__sync_folder(p->root, err));
    return tarn__remove_tree(p->done, err);
}

/* --- One part ----------------------------------------------------------------------- */

/* Names in a folder that begin like the temporary folders of one task. */
typedef struct sweep {
    const char *folder, *begin;
} sweep;

/* The lock is a file, because the folder itself is locked while an index is published. */
static int open_lock(const char *folder, int flags)
{
    char *path;
    if (asprintf(&path, "%s/.lock", folder) < 0) return -1;
    int fd = open(path, O_RDWR | flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    int why = errno;
    free(path);
    errno = why;
    return fd;
}

/* A part that nobody has locked was left by a run that was killed. */
static tarn_status sweep_one(void *context, const char *name, tarn_error *err)
{
    const sweep *s = context;
    char *path;
    if (strncmp(name, s->begin, strlen(s->begin)) != 0) return TARN_OK;
    TARN_TRY(joined(&path, s->folder, "", name, "", err));
    int fd = open_lock(path, 0);
    /* What cannot be removed stays until the commit. */
    if (fd >= 0 ? flock(fd, LOCK_EX | LOCK_NB) == 0 : errno == ENOENT)
        (void)!tarn__remove_tree(path, NULL);
    if (fd >= 0) close(fd);
    free(path);
    return TARN_OK;
}

static tarn_status name_temporary(tarn__taskdir *t, const char *job, const char *name,
                                  tarn_error *err)
{
    unsigned chance[2];
    if (getrandom(chance, sizeof chance, 0) != sizeof chance)
        return tarn__fail_errno(err, job, errno, "no random numbers");
    if (asprintf(&t->folder, "%s/.%s.tmp-%08x%08x", job, name, chance[0], chance[1]) >= 0)
        return TARN_OK;
    t->folder = NULL;
    return tarn__fail_memory(err);
}

/* Until it is locked, another task may remove the new folder, or that of the job, and
 * then this makes another: TARN_END. Where files cannot be locked, none is removed. */
static tarn_status make_temporary(tarn__taskdir *t, const char *job, const char *name,
                                  tarn_error *err)
{
    TARN_TRY(name_temporary(t, job, name, err));
    if (mkdir(t->folder, 0777) != 0) {
        if (errno != ENOENT)
            return tarn__fail_errno(err, t->folder, errno, "cannot make the folder");
        free(t->folder);
        t->folder = NULL;
        return TARN_END;
    }
    t->lock = open_lock(t->folder, O_CREAT);
    if (t->lock < 0 && errno != ENOENT)
        return tarn__fail_errno(err, t->folder, errno, "cannot create a file");
    bool taken =
        t->lock >= 0 && flock(t->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat st;
    if (t->lock >= 0 && !taken && fstat(t->lock, &st) == 0 && st.st_nlink) return TARN_OK;
    if (t->lock >= 0) close(t->lock);
    t->lock = -1;
    free(t->folder);
    t->folder = NULL;
    return TARN_END;
}

/* A job without parts, whose tasks were all killed, is in the way of nobody. */
static bool is_dead(const tarn__parts *p)
{
    sweep s = {p->job, "."};
    if (p->present) return false;
    (void)!each_name(p->job, sweep_one, &s, NULL);
    return rmdir(p->job) == 0;
}

static tarn_status check_jobs(const tarn__parts *p, const tarn__job_id *job,
                              uint32_t count, tarn_error *err)
{
    tarn_error why;
    if (!p->job) return TARN_OK;
    tarn_status status = tarn__job_compare(p->root, &p->id, job, &why);
    if (status != TARN_OK && is_dead(p)) return TARN_OK;
    if (status != TARN_OK && err) *err = why;
    if (status != TARN_OK || !p->present || p->named == count) return status;
    return tarn__fail_other_count(p->root, p->named, count, err);
}

static tarn_status begin(tarn__taskdir *t, const tarn__parts *p, uint32_t index,
                         uint32_t count, const char *job, tarn_error *err)
{
    char name[TARN__PART_NAME], start[TARN__PART_NAME + 8];
    tarn__part_name(name, index, count);
    TARN_TRY(joined(&t->final, job, "", name, "", err));
    if (index < p->count && p->folders[index]) return TARN_END; /* final is its name */
    snprintf(start, sizeof start, ".%s.tmp-", name);
    sweep s = {job, start};
    tarn_status status;
    do {
        TARN_TRY(tarn__make_folder(job, t->no_sync, err));
        TARN_TRY(each_name(job, sweep_one, &s, err));
        status = make_temporary(t, job, name, err);
    } while (status == TARN_END);
    return status;
}

tarn_status tarn__task_begin(tarn__taskdir *t, const char *folder, const char *fold,
                             uint32_t index, uint32_t count, const tarn__job_id *job,
                             bool no_sync, tarn_error *err)
{
    tarn__parts parts;
    char name[TARN__JOB_NAME], *path;
    *t = (tarn__taskdir){.lock = -1, .no_sync = no_sync};
    if (count == TARN_TASKS_OPEN ? index >= TARN_MAX_TASKS
                                 : !count || count > TARN_MAX_TASKS || index >= count)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "task %" PRIu32 " of %" PRIu32
                          ": tasks are numbered from 0, and "
                          "there can be %u",
                          index, count, TARN_MAX_TASKS);
    if (count == TARN_TASKS_OPEN) count = 0;
    if (tarn__is_remote(folder))
        return tarn__store_task_begin(t, folder, fold, index, count, job, err);
    TARN_TRY(tarn__parts_find(&parts, folder, fold, err));
    tarn__job_name(name, job);
    tarn_status status = joined(&path, parts.root, "", name, "", err);
    if (status == TARN_OK) status = check_jobs(&parts, job, count, err);
    if (status == TARN_OK) status = begin(t, &parts, index, count, path, err);
    free(path);
    tarn__parts_reset(&parts);
    if (status != TARN_OK && status != TARN_END) tarn__task_abandon(t);
    return status;
}

/* A second run of a task finds the part of the first, which has the same samples. A
 * commit or discard in the meantime has taken the folder away. */
static tarn_status rename_part(const tarn__taskdir *t, bool *out_late, tarn_error *err)
{
    *out_late = false;
    if (rename(t->folder, t->final) == 0) return TARN_OK;
    *out_late = errno == EEXIST || errno == ENOTEMPTY;
    if (*out_late) return TARN_OK;
    if (errno == ENOENT) return tarn__fail_committed(t->final, err);
    return tarn__fail_errno(err, t->final, errno, "cannot rename %s", t->folder);
}

tarn_status tarn__task_finish(tarn__taskdir *t, tarn_error *err)
{
    bool late;
    if (t->url) return tarn__store_task_finish(t, err);
    TARN_TRY(rename_part(t, &late, err));
    tarn_status status = t->no_sync ? TARN_OK : tarn__sync_folder(t->final, err);
    if (!late) {
        free(t->folder);
        t->folder = NULL;
    }
    tarn__task_abandon(t);
    return status;
}

void tarn__task_abandon(tarn__taskdir *t)
{
    if (t->url) tarn__store_task_forget(t);
    if (t->folder) (void)!tarn__remove_tree(t->folder, NULL);
    if (t->final && t->lock >= 0) close(t->lock);
    free(t->folder);
    free(t->final);
    free(t->url);
    free(t->mark);
    *t = (tarn__taskdir){.lock = -1};
}
