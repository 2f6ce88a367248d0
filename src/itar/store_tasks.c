/* One part of a job in an object store: see store_tasks.h. */
#include "itar/store_tasks.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/text.h"
#include "io/scratch.h"

int tarn__store_folder(const char *url)
{
    size_t len = strlen(url);
    while (len && url[len - 1] == '/')
        len--;
    return (int)len;
}

bool tarn__is_run_name(const char *name)
{
    return strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16;
}

/* --- The job ------------------------------------------------------------------------ */

/* The number of tasks in "-of-00008", which follows the name of a job. */
static bool read_count(const char *text, uint32_t *out)
{
    if (strncmp(text, "-of-", 4) != 0 || strlen(text) != 9) return false;
    *out = (uint32_t)strtoul(text + 4, NULL, 10);
    return strspn(text + 4, "0123456789") == 5;
}

/* Whether this is the object of a job, or another object beside the jobs. */
static tarn_status check_object(const char *url, const char *root, const char *wanted,
                                bool *out_found, tarn_error *err)
{
    tarn__job_id found, job;
    uint32_t existing, count;
    const char *name = tarn__base_name(url);
    if (strcmp(name, TARN__STORE_DONE) == 0)
        return tarn__fail_at(err, TARN_ERR_STALE, root, TARN_NO_OFFSET,
                             "a commit of these parts was interrupted; run it again");
    if (strcmp(name, wanted) == 0) {
        *out_found = true;
        return TARN_OK;
    }
    if (!tarn__job_parse(name, &found) || !read_count(name + TARN__JOB_LEN, &existing))
        return TARN_OK;
    bool known =
        tarn__job_parse(wanted, &job) && read_count(wanted + TARN__JOB_LEN, &count);
    if (!known) return tarn__fail(err, TARN_ERR_USAGE, "not a job: %s", wanted);
    TARN_TRY(tarn__job_compare(root, &found, &job, err));
    return tarn__fail_other_count(root, existing, count, err);
}

static tarn_status announce_job(const char *root, const char *job, tarn_error *err)
{
    tarn__listing found;
    char *url;
    bool exists = false;
    TARN_TRY(tarn__listing_read(&found, root, false, err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < found.count; i++)
        status = check_object(found.objects[i].url, root, job, &exists, err);
    tarn__listing_reset(&found);
    if (status != TARN_OK || exists) return status;
    if (asprintf(&url, "%s%s", root, job) < 0) return tarn__fail_memory(err);
    status = tarn__store_put(url, "", NULL, err);
    free(url);
    return status;
}

/* --- The mark ----------------------------------------------------------------------- */

static tarn_status fail_conditions(const char *mark, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, mark, TARN_NO_OFFSET,
                         "this store ignores conditional writes (If-None-Match and "
                         "If-Match), without which two runs of a task would mix; use "
                         "another store, or a folder");
}

/* A store that ignores conditions would overwrite what it must not, so it is asked to do
 * so with the mark that was just made. */
static tarn_status try_conditions(const char *mark, tarn_error *err)
{
    static const char *const unmet[] = {TARN__S3_ONLY_NEW, "If-Match: \"tarn\""};
    for (size_t i = 0; i < sizeof unmet / sizeof *unmet; i++) {
        tarn_status status = tarn__store_put(mark, "", unmet[i], err);
        if (status == TARN_OK) return fail_conditions(mark, err);
        if (status == TARN_ERR_NO_FILE) return tarn__fail_committed(mark, err);
        if (status != TARN_ERR_EXISTS) return status;
    }
    return TARN_OK;
}

/* Reads the name of the run that is the part, or "". */
static tarn_status read_mark(const char *mark, char run[17], char etag[256],
                             tarn_error *err)
{
    tarn__store *store;
    tarn__buf text;
    TARN_TRY(tarn__store_open(mark, &store, err));
    tarn_status status = tarn__store_get(store, mark, &text, etag, err);
    tarn__store_close(store);
    if (status == TARN_ERR_NO_FILE) return tarn__fail_committed(mark, err);
    TARN_TRY(status);
    if (text.data[0] && !tarn__is_run_name(text.data))
        status = tarn__fail_at(err, TARN_ERR_FORMAT, mark, TARN_NO_OFFSET,
                               "not the mark of a task; remove the parts (tarn commit "
                               "--discard)");
    snprintf(run, 17, "%s", text.data);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status make_mark(const char *mark, tarn_error *err)
{
    tarn_status status = tarn__store_put(mark, "", TARN__S3_ONLY_NEW, err);
    if (status == TARN_ERR_EXISTS) return TARN_OK;
    return status == TARN_OK ? try_conditions(mark, err) : status;
}

/* --- One run ------------------------------------------------------------------------ */

static tarn_status name_run(tarn__taskdir *t, tarn_error *err)
{
    unsigned chance[2];
    if (getrandom(chance, sizeof chance, 0) != sizeof chance)
        return tarn__fail_errno(err, t->mark, errno, "no random numbers");
    if (asprintf(&t->url, "%s.%08x%08x", t->mark, chance[0], chance[1]) >= 0)
        return TARN_OK;
    t->url = NULL;
    return tarn__fail_memory(err);
}

/* final is the URL of the complete part, if it exists. */
static tarn_status begin_run(tarn__taskdir *t, tarn_error *err)
{
    char run[17];
    TARN_TRY(make_mark(t->mark, err));
    TARN_TRY(read_mark(t->mark, run, t->etag, err));
    if (asprintf(&t->final, "%s%s%s", t->mark, run[0] ? "." : "", run) < 0) {
        t->final = NULL;
        return tarn__fail_memory(err);
    }
    if (run[0]) return TARN_END;
    TARN_TRY(tarn__scratch_make("tarn-task", &t->folder, err));
    return name_run(t, err);
}

tarn_status tarn__store_task_begin(tarn__taskdir *t, const char *folder, const char *fold,
                                   uint32_t index, uint32_t count,
                                   const tarn__job_id *job, tarn_error *err)
{
    char part[TARN__PART_NAME], name[TARN__JOB_NAME], named[TARN__JOB_NAME + 16];
    char *root = NULL;
    tarn__part_name(part, index, count);
    tarn__job_name(name, job);
    snprintf(named, sizeof named, "%s-of-%05" PRIu32, name, count);
    TARN_TRY(tarn__store_check(folder, err));
    if (asprintf(&root, "%.*s/.%s.tasks/", tarn__store_folder(folder), folder, fold) < 0)
        return tarn__fail_memory(err);
    tarn_status status = announce_job(root, named, err);
    if (status == TARN_OK && asprintf(&t->mark, "%s%s/%s", root, name, part) < 0) {
        t->mark = NULL;
        status = tarn__fail_memory(err);
    }
    if (status == TARN_OK) status = begin_run(t, err);
    free(root);
    if (status != TARN_OK && status != TARN_END) tarn__task_abandon(t);
    return status;
}

/* --- Its end ------------------------------------------------------------------------ */

static tarn_status send_one(const tarn__taskdir *t, const char *name, tarn_error *err)
{
    char *path, *url;
    if (asprintf(&path, "%s/%s", t->folder, name) < 0) return tarn__fail_memory(err);
    if (asprintf(&url, "%s/%s", t->url, name) < 0) {
        free(path);
        return tarn__fail_memory(err);
    }
    tarn_status status = tarn__store_send(path, url, NULL, err);
    free(path);
    free(url);
    return status;
}

/* Indexes, their sums, and classes.txt; the shards were sent as they were written. */
static tarn_status send_all(const tarn__taskdir *t, tarn_error *err)
{
    DIR *dir = opendir(t->folder);
    if (!dir) return tarn__fail_errno(err, t->folder, errno, "cannot open the folder");
    tarn_status status = TARN_OK;
    struct dirent *entry;
    while (status == TARN_OK && (errno = 0, entry = readdir(dir)))
        if (entry->d_name[0] != '.') status = send_one(t, entry->d_name, err);
    if (status == TARN_OK && errno)
        status = tarn__fail_errno(err, t->folder, errno, "cannot list the folder");
    closedir(dir);
    return status;
}

/* Another run of the task may have been faster; then its part has the same samples. */
static tarn_status set_mark(tarn__taskdir *t, bool *out_late, tarn_error *err)
{
    char condition[320], run[17], etag[256];
    const char *mine = strrchr(t->url, '.') + 1;
    snprintf(condition, sizeof condition, "If-Match: %s", t->etag);
    *out_late = false;
    tarn_status status = tarn__store_put(t->mark, mine, condition, err);
    if (status == TARN_ERR_NO_FILE) return tarn__fail_committed(t->mark, err);
    if (status != TARN_ERR_EXISTS) return status;
    TARN_TRY(read_mark(t->mark, run, etag, err));
    *out_late = run[0] && strcmp(run, mine) != 0;
    return run[0] ? TARN_OK : tarn__fail_committed(t->mark, err);
}

static tarn_status remove_one(void *context, size_t number, tarn__store *store,
                              tarn_error *err)
{
    const tarn__listing *all = context;
    return tarn__store_delete(store, all->objects[number].url, err);
}

void tarn__store_task_forget(tarn__taskdir *t)
{
    tarn__listing all;
    char *prefix;
    if (asprintf(&prefix, "%s/", t->url) < 0) return;
    if (tarn__listing_read(&all, prefix, true, NULL) == TARN_OK) {
        (void)!tarn__store_each(prefix, all.count, remove_one, &all, NULL);
        tarn__listing_reset(&all);
    }
    free(prefix);
}

tarn_status tarn__store_task_finish(tarn__taskdir *t, tarn_error *err)
{
    bool late;
    TARN_TRY(send_all(t, err));
    tarn_status status = set_mark(t, &late, err);
    /* After another failure the mark may be set, so the part must stay. */
    if (status == TARN_OK ? !late : status != TARN_ERR_STALE) {
        free(t->url);
        t->url = NULL;
    }
    tarn__task_abandon(t);
    return status;
}
