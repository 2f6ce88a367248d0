/* The parts of a job in an object store, for a commit: finds, fetches and removes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/source.h>

#include "base/error.h"
#include "base/text.h"
#include "io/publish.h"
#include "io/scratch.h"
#include "io/url.h"
#include "itar/store_tasks.h"

enum { BUFFER = 256 << 10, MARK_SIZE = 16, REMOVALS = 20 };

static const char tasks_ending[] = ".tasks/";

/* --- Finding ------------------------------------------------------------------------ */

static tarn_status note_job(tarn__store_parts *p, const char *job, const tarn__job_id *id,
                            tarn_error *err)
{
    char *url;
    if (asprintf(&url, "%s%.*s/", p->parts.root, TARN__JOB_LEN, job) < 0)
        return tarn__fail_memory(err);
    bool first = !p->parts.job, same = first || strcmp(p->parts.job, url) == 0;
    if (first) {
        p->parts.job = url;
        p->parts.id = *id;
        return TARN_OK;
    }
    if (!same) p->other = *id;
    p->several |= !same;
    free(url);
    return TARN_OK;
}

/* A mark; that of a task which is not complete only says how many there are. */
static tarn_status note_mark(tarn__store_parts *p, const char *name, uint64_t size,
                             tarn_error *err)
{
    tarn__parts *parts = &p->parts;
    uint32_t index, count;
    if (!tarn__part_numbers(name, &index, &count)) return TARN_OK;
    bool complete = size == MARK_SIZE;
    p->complete += complete;
    if (!p->several && parts->count && parts->named != count) {
        p->several = true;
        p->other = parts->id;
        p->other_count = count;
    }
    if (p->several || (!complete && !count)) return TARN_OK;
    parts->named = count;
    TARN_TRY(tarn__parts_extend(parts, count ? count : index + 1, err));
    if (!complete) return TARN_OK;
    parts->present++;
    parts->folders[index] = strdup("");
    return parts->folders[index] ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status note_object(tarn__store_parts *p, const tarn__listed *object,
                               tarn_error *err)
{
    tarn__job_id id;
    const char *name = object->url + strlen(p->parts.root);
    if (strcmp(name, TARN__STORE_DONE) == 0) p->done = true;
    if (!tarn__job_parse(name, &id)) return TARN_OK;
    TARN_TRY(note_job(p, name, &id, err));
    const char *rest = name + TARN__JOB_LEN;
    bool mark = *rest == '/' && !strchr(rest + 1, '/');
    return mark ? note_mark(p, rest + 1, object->size, err) : TARN_OK;
}

static tarn_status list(tarn__store_parts *p, tarn_error *err)
{
    TARN_TRY(tarn__listing_read(&p->all, p->parts.root, true, err));
    for (size_t i = 0; i < p->all.count; i++)
        TARN_TRY(note_object(p, &p->all.objects[i], err));
    return TARN_OK;
}

tarn_status tarn__store_parts_find(tarn__store_parts *p, const char *folder,
                                   const char *fold, tarn_error *err)
{
    *p = (tarn__store_parts){0};
    if (asprintf(&p->parts.root, "%s/.%s%s", folder, fold, tasks_ending) < 0) {
        p->parts.root = NULL;
        return tarn__fail_memory(err);
    }
    tarn_status status = list(p, err);
    if (status != TARN_OK) tarn__store_parts_reset(p);
    return status;
}

void tarn__store_parts_reset(tarn__store_parts *p)
{
    if (p->temporary) (void)!tarn__remove_tree(p->temporary, NULL);
    free(p->temporary);
    free(p->runs);
    tarn__listing_reset(&p->all);
    tarn__parts_reset(&p->parts);
    *p = (tarn__store_parts){0};
}

/* "train" of ".train.tasks/..." */
static tarn_status take_fold(const char *name, const char *folder, char **fold,
                             tarn_error *err)
{
    const char *end = strchr(name, '/');
    size_t ending = sizeof tasks_ending - 1;
    if (name[0] != '.' || !end || (size_t)(end + 1 - name) <= ending + 1 ||
        memcmp(end + 1 - ending, tasks_ending, ending) != 0)
        return TARN_OK;
    size_t len = (size_t)(end - name) - ending;
    if (*fold && strlen(*fold) == len && memcmp(*fold, name + 1, len) == 0)
        return TARN_OK;
    if (*fold)
        return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, folder, TARN_NO_OFFSET,
                             "parts of several folds; select one, for example with :%s",
                             *fold);
    *fold = strndup(name + 1, len);
    return *fold ? TARN_OK : tarn__fail_memory(err);
}

tarn_status tarn__store_parts_fold(const char *folder, char **out, tarn_error *err)
{
    tarn__listing all;
    char *prefix;
    *out = NULL;
    if (asprintf(&prefix, "%s/.", folder) < 0) return tarn__fail_memory(err);
    tarn_status status = tarn__listing_read(&all, prefix, true, err);
    for (size_t i = 0; status == TARN_OK && i < all.count; i++)
        status = take_fold(all.objects[i].url + strlen(prefix) - 1, folder, out, err);
    tarn__listing_reset(&all);
    free(prefix);
    if (status == TARN_OK) return TARN_OK;
    free(*out);
    *out = NULL;
    return status;
}

/* --- The objects of a run ----------------------------------------------------------- */

/* The number of the first object whose URL is not before url. */
static size_t lower_bound(const tarn__listing *all, const char *url)
{
    size_t low = 0, high = all->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (strcmp(all->objects[mid].url, url) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static char *mark_url(const tarn__store_parts *p, uint32_t task)
{
    char name[TARN__PART_NAME], *url;
    tarn__part_name(name, task, p->parts.named);
    return asprintf(&url, "%s%s", p->parts.job, name) < 0 ? NULL : url;
}

static tarn_status find_run(tarn__store_parts *p, uint32_t task, const char *mark,
                            tarn_error *err)
{
    char *prefix;
    tarn__store_run *run = &p->runs[task];
    if (asprintf(&prefix, "%s.%s/", mark, run->name) < 0) return tarn__fail_memory(err);
    size_t len = strlen(prefix);
    run->first = lower_bound(&p->all, prefix);
    while (run->first + run->count < p->all.count &&
           strncmp(p->all.objects[run->first + run->count].url, prefix, len) == 0)
        run->count++;
    free(prefix);
    if (run->count) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, mark, TARN_NO_OFFSET,
                         "what this task has written is not there; discard the parts and "
                         "run the tasks again");
}

const tarn__listed *tarn__store_parts_object(const tarn__store_parts *p, uint32_t task,
                                             const char *name)
{
    const tarn__store_run *run = &p->runs[task];
    size_t folder = run->count
                        ? (size_t)(tarn__base_name(p->all.objects[run->first].url) -
                                   p->all.objects[run->first].url)
                        : 0;
    for (size_t low = run->first, high = run->first + run->count; low < high;) {
        size_t mid = (low + high) / 2;
        int order = strcmp(p->all.objects[mid].url + folder, name);
        if (order == 0) return &p->all.objects[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* --- Fetching ----------------------------------------------------------------------- */

static tarn_status copy_bytes(tarn_source *in, tarn__publish *out, tarn_error *err)
{
    size_t got = 1;
    tarn_status status = TARN_OK;
    char *buffer = malloc(BUFFER);
    if (!buffer) return tarn__fail_memory(err);
    while (status == TARN_OK && got) {
        status = tarn_source_read(in, buffer, BUFFER, &got, err);
        if (status == TARN_OK && got) status = tarn__publish_write(out, buffer, got, err);
    }
    free(buffer);
    return status;
}

static tarn_status fetch_file(const char *url, const char *folder, tarn_error *err)
{
    tarn_source_options o = TARN_SOURCE_OPTIONS_INIT;
    tarn_source *in;
    tarn__publish out;
    char *path;
    o.filter = TARN_FILTER_NONE;
    if (asprintf(&path, "%s/%s", folder, tarn__base_name(url)) < 0)
        return tarn__fail_memory(err);
    tarn_status status = tarn__publish_begin_swept(&out, path, err);
    free(path);
    TARN_TRY(status);
    out.no_sync = true;
    status = tarn_source_open(url, &o, &in, err);
    if (status == TARN_OK) {
        status = copy_bytes(in, &out, err);
        tarn_source_close(in);
    }
    if (status == TARN_OK) return tarn__publish_finish(&out, err);
    tarn__publish_abandon(&out);
    return status;
}

static tarn_status read_run(tarn__store_parts *p, uint32_t task, const char *mark,
                            tarn__store *store, tarn_error *err)
{
    char etag[256];
    tarn__buf text;
    TARN_TRY(tarn__store_get(store, mark, &text, etag, err));
    bool good = tarn__is_run_name(text.data);
    if (good) snprintf(p->runs[task].name, sizeof p->runs[task].name, "%s", text.data);
    tarn__buf_reset(&text);
    if (good) return find_run(p, task, mark, err);
    return tarn__fail_at(err, TARN_ERR_FORMAT, mark, TARN_NO_OFFSET,
                         "not the mark of a complete task; discard the parts and run the "
                         "tasks again");
}

static tarn_status fetch_files(tarn__store_parts *p, uint32_t task, tarn_error *err)
{
    const tarn__store_run *run = &p->runs[task];
    char *folder;
    if (asprintf(&folder, "%s/%05u", p->temporary, task) < 0)
        return tarn__fail_memory(err);
    free(p->parts.folders[task]);
    p->parts.folders[task] = folder;
    if (mkdir(folder, 0777) != 0)
        return tarn__fail_errno(err, folder, errno, "cannot make the folder");
    for (size_t i = run->first; i < run->first + run->count; i++) {
        const char *url = p->all.objects[i].url, *name = tarn__base_name(url);
        if (name[0] == '.' || tarn__ends_with(name, ".tar")) continue;
        TARN_TRY(fetch_file(url, folder, err));
    }
    return TARN_OK;
}

static tarn_status fetch_part(void *context, size_t number, tarn__store *store,
                              tarn_error *err)
{
    tarn__store_parts *p = context;
    uint32_t task = (uint32_t)number;
    if (!p->parts.folders[task]) return TARN_OK; /* it is missing */
    char *mark = mark_url(p, task);
    tarn_status status =
        mark ? read_run(p, task, mark, store, err) : tarn__fail_memory(err);
    if (status == TARN_OK) status = fetch_files(p, task, err);
    free(mark);
    return status;
}

tarn_status tarn__store_parts_fetch(tarn__store_parts *p, tarn_error *err)
{
    p->runs = calloc((size_t)p->parts.count + 1, sizeof *p->runs);
    if (!p->runs) return tarn__fail_memory(err);
    TARN_TRY(tarn__scratch_make("tarn-commit", &p->temporary, err));
    return tarn__store_each(p->parts.root, p->parts.count, fetch_part, p, err);
}

/* --- Removing ----------------------------------------------------------------------- */

typedef struct removal {
    const char *root;
    tarn__listing all;
    bool marks; /* only these */
} removal;

static bool is_mark(const char *name)
{
    tarn__job_id id;
    uint32_t index, count;
    return tarn__job_parse(name, &id) && name[TARN__JOB_LEN] == '/' &&
           tarn__part_numbers(name + TARN__JOB_LEN + 1, &index, &count);
}

static tarn_status remove_one(void *context, size_t number, tarn__store *store,
                              tarn_error *err)
{
    const removal *r = context;
    const char *url = r->all.objects[number].url, *name = url + strlen(r->root);
    if (strcmp(name, TARN__STORE_DONE) == 0 || (r->marks && !is_mark(name)))
        return TARN_OK;
    return tarn__store_delete(store, url, err);
}

/* Without its mark, no task can become a part any more, so what follows is all there
 * will be, but for objects of tasks that are still running, which remove them. */
static tarn_status remove_listed(removal *r, bool *out_more, tarn_error *err)
{
    TARN_TRY(tarn__listing_read(&r->all, r->root, true, err));
    *out_more = r->all.count > 1;
    r->marks = true;
    tarn_status status = tarn__store_each(r->root, r->all.count, remove_one, r, err);
    r->marks = false;
    if (status == TARN_OK)
        status = tarn__store_each(r->root, r->all.count, remove_one, r, err);
    tarn__listing_reset(&r->all);
    return status;
}

static tarn_status remove_all(const char *root, tarn__store *store, const char *done,
                              tarn_error *err)
{
    removal r = {.root = root};
    bool more = true;
    TARN_TRY(tarn__store_put(done, "", NULL, err));
    for (unsigned i = 0; more && i < REMOVALS; i++) {
        TARN_TRY(remove_listed(&r, &more, err));
        TARN_TRY(tarn__store_abort(store, root, NULL, NULL, err));
    }
    return tarn__store_delete(store, done, err);
}

tarn_status tarn__store_parts_remove(tarn__store_parts *p, tarn_error *err)
{
    tarn__store *store;
    char *done;
    if (!p->all.count) return TARN_OK;
    if (asprintf(&done, "%s" TARN__STORE_DONE, p->parts.root) < 0)
        return tarn__fail_memory(err);
    tarn_status status = tarn__store_open(p->parts.root, &store, err);
    if (status == TARN_OK) {
        status = remove_all(p->parts.root, store, done, err);
        tarn__store_close(store);
    }
    free(done);
    return status;
}
