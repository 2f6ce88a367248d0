/* Locks, parts and the journal of a fold that is being written. */
#include "itar/commit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/publish.h"
#include "io/url.h"
#include "itar/folder.h"
#include "itar/index.h"
#include "itar/sums.h"

static const char part_ending[] = ".part";
#define LOCK_ENDING ".tarn-lock"

static char *joined(const char *folder, const char *before, const char *name,
                    const char *after)
{
    char *path;
    return asprintf(&path, "%s/%s%s%s", folder, before, name, after) < 0 ? NULL : path;
}

char *tarn__stage_path(const tarn__stage *s, const char *name)
{
    return joined(s->folder, "", name, "");
}

char *tarn__stage_part(const tarn__stage *s, const char *name)
{
    return joined(s->folder, ".", name, part_ending);
}

/* Does not follow symbolic links. */
static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool is_same_file(const char *left, const char *right)
{
    struct stat a, b;
    return lstat(left, &a) == 0 && lstat(right, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* --- The lock ---------------------------------------------------------------------- */

/* A new folder is durable once its parent is synced. */
static tarn_status make_one(const char *path, bool no_sync, tarn_error *err)
{
    if (mkdir(path, 0777) == 0) return no_sync ? TARN_OK : tarn__sync_folder(path, err);
    if (errno == EEXIST) return TARN_OK;
    return tarn__fail_errno(err, path, errno, "cannot make the folder");
}

tarn_status tarn__make_folder(const char *path, bool no_sync, tarn_error *err)
{
    char *copy = strdup(path);
    if (!copy) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    for (char *at = copy + 1; status == TARN_OK; at++) {
        char here = *at;
        if (here && here != '/') continue;
        *at = 0;
        status = make_one(copy, no_sync, err);
        *at = here;
        if (!here) break;
    }
    free(copy);
    return status;
}

/* A writer removes its lock file when it ends, so the locked file may be gone. */
static tarn_status take_lock(tarn__stage *s, tarn_error *err)
{
    for (;;) {
        s->lock = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (s->lock < 0)
            return tarn__fail_errno(err, s->lock_path, errno, "cannot create");
        if (flock(s->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(s->lock);
            s->lock = -1;
            return tarn__fail_at(err, TARN_ERR_EXISTS, s->folder, TARN_NO_OFFSET,
                                 "another writer is writing fold %s", s->fold);
        }
        if (!tarn__lost_name(s->lock, s->lock_path)) break;
        close(s->lock);
    }
    struct flock visible = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    (void)fcntl(s->lock, F_OFD_SETLK, &visible);
    return TARN_OK;
}

/* Readers must be able to test this lock without taking it: a writer that starts at the
 * same time would fail otherwise. */
bool tarn__stage_is_locked(const char *folder, const char *fold)
{
    struct flock held = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    char *path = joined(folder, ".", fold, LOCK_ENDING);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    bool locked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &held) == 0 && held.l_type != F_UNLCK;
    if (fd >= 0) close(fd);
    free(path);
    return locked;
}

static tarn_status take_names(tarn__stage *s, const char *folder, const char *fold,
                              tarn_error *err)
{
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    s->folder = len ? strndup(folder, len) : strdup(".");
    s->fold = strdup(fold);
    if (!s->folder || !s->fold) return tarn__fail_memory(err);
    s->index_path = joined(s->folder, "", fold, ".taridx");
    s->lock_path = joined(s->folder, ".", fold, LOCK_ENDING);
    s->journal_path = joined(s->folder, ".", fold, TARN__JOURNAL_ENDING);
    return s->index_path && s->lock_path && s->journal_path ? TARN_OK
                                                            : tarn__fail_memory(err);
}

/* Temporary names that only writers of this fold and of its index use. */
static bool is_ours(const void *context, const char *target, size_t len)
{
    const tarn__stage *s = context;
    size_t fold = strlen(s->fold), ending = sizeof part_ending - 1;
    bool hidden = target[0] == '.';
    target += hidden;
    len -= hidden;
    if (len <= fold || memcmp(target, s->fold, fold) != 0) return false;
    const char *rest = target + fold;
    size_t left = len - fold;
    if (!hidden)
        return left == 7 && (!memcmp(rest, ".taridx", 7) || !memcmp(rest, ".tarsum", 7));
    if (left == sizeof TARN__JOURNAL_ENDING - 1 &&
        memcmp(rest, TARN__JOURNAL_ENDING, left) == 0)
        return true;
    if (left <= ending || memcmp(rest + left - ending, part_ending, ending) != 0)
        return false;
    char *name = strndup(target, len - ending);
    bool ours = name && tarn__is_shard_of(s->fold, name);
    free(name);
    return ours;
}

tarn_status tarn__stage_open(tarn__stage *s, const char *folder, const char *fold,
                             bool no_sync, tarn_error *err)
{
    *s = (tarn__stage){.lock = -1, .no_sync = no_sync};
    tarn__names_init(&s->coming);
    tarn__names_init(&s->going);
    if (tarn__url_scheme(folder))
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, folder, TARN_NO_OFFSET,
                             "a fold can only be written to a local folder; on s3://, by "
                             "tasks (task 0 of 1, and then a commit)");
    tarn_status status = take_names(s, folder, fold, err);
    if (status == TARN_OK) status = tarn__make_folder(s->folder, no_sync, err);
    if (status == TARN_OK) status = take_lock(s, err);
    if (status == TARN_OK) tarn__sweep(s->folder, is_ours, s);
    if (status == TARN_OK) status = tarn__index_settle(s->index_path, err);
    if (status == TARN_OK)
        status = tarn__journal_load(s->journal_path, s->fold, s->index_path, &s->coming,
                                    &s->going, &s->journal, err);
    if (status != TARN_OK) tarn__stage_close(s);
    return status;
}

void tarn__stage_close(tarn__stage *s)
{
    if (s->lock >= 0) {
        unlink(s->lock_path);
        close(s->lock);
    }
    free(s->folder);
    free(s->fold);
    free(s->index_path);
    free(s->lock_path);
    free(s->journal_path);
    tarn__names_reset(&s->coming);
    tarn__names_reset(&s->going);
    *s = (tarn__stage){.lock = -1};
}

/* --- Parts ------------------------------------------------------------------------- */

/* The shard's name in ".name.part", if it belongs to this fold. */
static char *name_of_part(const tarn__stage *s, const char *entry)
{
    size_t len = strlen(entry), ending = sizeof part_ending - 1;
    if (entry[0] != '.' || len <= ending + 1 ||
        strcmp(entry + len - ending, part_ending) != 0)
        return NULL;
    char *name = strndup(entry + 1, len - ending - 1);
    if (name && tarn__is_shard_of(s->fold, name)) return name;
    free(name);
    return NULL;
}

typedef struct list {
    char **names;
    size_t count, capacity;
} list;

/* Takes ownership of name. */
static tarn_status add_name(list *l, char *name, tarn_error *err)
{
    tarn_status status =
        name ? tarn__grow(&l->names, sizeof *l->names, l->count, &l->capacity, err)
             : tarn__fail_memory(err);
    if (status == TARN_OK)
        l->names[l->count++] = name;
    else
        free(name);
    return status;
}

/* Names in the journal whose shard exists under neither name are ignored. */
static tarn_status add_announced(const tarn__stage *s, list *l, tarn_error *err)
{
    for (size_t i = 0; i < s->coming.count; i++) {
        const char *name = tarn__names_get(&s->coming, i).data;
        char *path = tarn__stage_path(s, name);
        if (!path) return tarn__fail_memory(err);
        bool named = exists(path);
        free(path);
        if (named) TARN_TRY(add_name(l, strdup(name), err));
    }
    return TARN_OK;
}

static tarn_status add_parts(const tarn__stage *s, list *l, tarn_error *err)
{
    DIR *dir = opendir(s->folder);
    if (!dir) return tarn__fail_errno(err, s->folder, errno, "cannot open the folder");
    tarn_status status = TARN_OK;
    struct dirent *entry;
    while (status == TARN_OK && (errno = 0, entry = readdir(dir))) {
        char *name = name_of_part(s, entry->d_name);
        if (name) status = add_name(l, name, err);
    }
    if (status == TARN_OK && errno)
        status = tarn__fail_errno(err, s->folder, errno, "cannot list the folder");
    closedir(dir);
    return status;
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

tarn_status tarn__stage_leftovers(const tarn__stage *s, tarn__names *out, tarn_error *err)
{
    list found = {0};
    uint32_t id;
    tarn_status status = add_announced(s, &found, err);
    if (status == TARN_OK) status = add_parts(s, &found, err);
    if (found.count) qsort(found.names, found.count, sizeof *found.names, compare_texts);
    for (size_t i = 0; status == TARN_OK && i < found.count; i++)
        status = tarn__names_add(out, found.names[i], strlen(found.names[i]), &id, err);
    for (size_t i = 0; i < found.count; i++)
        free(found.names[i]);
    free(found.names);
    return status;
}

tarn_status tarn__stage_find(const tarn__stage *s, const char *name, char **out,
                             tarn_error *err)
{
    struct stat st;
    *out = tarn__stage_part(s, name);
    if (*out && !exists(*out)) {
        free(*out);
        *out = tarn__stage_path(s, name);
    }
    if (!*out) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    if (lstat(*out, &st) != 0)
        status = tarn__fail_errno(err, *out, errno, "cannot stat");
    else if (!S_ISREG(st.st_mode))
        status = tarn__fail_at(err, TARN_ERR_UNSUPPORTED, *out, TARN_NO_OFFSET,
                               "not a file that a writer left; remove it");
    if (status != TARN_OK) free(*out);
    return status;
}

/* --- Removing ---------------------------------------------------------------------- */

static tarn_status remove_one(char *path, tarn_error *err)
{
    tarn_status status = TARN_OK;
    if (!path)
        status = tarn__fail_memory(err);
    else if (unlink(path) != 0 && errno != ENOENT)
        status = tarn__fail_errno(err, path, errno, "cannot remove");
    free(path);
    return status;
}

static bool is_in(const tarn__names *names, const char *name)
{
    return tarn__names_find(names, name, strlen(name)) != TARN__NAME_NONE;
}

tarn_status tarn__stage_done(tarn__stage *s, tarn_error *err)
{
    if (s->journal == TARN__JOURNAL_NONE) return TARN_OK;
    TARN_TRY(remove_one(strdup(s->journal_path), err));
    s->journal = TARN__JOURNAL_NONE;
    return TARN_OK;
}

/* Reports the first failure. */
static void try_remove(char *path, tarn_status *first, tarn_error *err)
{
    tarn_error why;
    tarn_status status = remove_one(path, &why);
    if (*first != TARN_OK || status == TARN_OK) return;
    *first = status;
    if (err) *err = why;
}

tarn_status tarn__stage_discard(tarn__stage *s, tarn_error *err)
{
    tarn__names left;
    tarn__names_init(&left);
    tarn_status status = tarn__stage_leftovers(s, &left, err);
    for (size_t i = 0; i < left.count; i++) {
        const char *name = tarn__names_get(&left, i).data;
        try_remove(tarn__stage_part(s, name), &status, err);
        if (is_in(&s->coming, name)) try_remove(tarn__stage_path(s, name), &status, err);
    }
    tarn__names_reset(&left);
    bool half_gone = s->journal == TARN__JOURNAL_LIVE;
    for (size_t i = 0; half_gone && i < s->going.count; i++)
        try_remove(tarn__stage_path(s, tarn__names_get(&s->going, i).data), &status, err);
    return status == TARN_OK ? tarn__stage_done(s, err) : status;
}

/* --- Publishing -------------------------------------------------------------------- */

/* Whether the shard with this name is already the new one, because an interrupted writer
 * got this far. */
static bool is_named(const tarn__stage *s, const char *name)
{
    char *part = tarn__stage_part(s, name), *path = tarn__stage_path(s, name);
    bool named = part && path && is_in(&s->coming, name) && exists(path) &&
                 (!exists(part) || is_same_file(part, path));
    free(part);
    free(path);
    return named;
}

/* The index is removed first, durably: from then on the journal decides. Until then the
 * old fold has its checksums. */
static tarn_status clear_replaced(const tarn__stage *s, tarn_error *err)
{
    TARN_TRY(remove_one(strdup(s->index_path), err));
    if (!s->no_sync) TARN_TRY(tarn__sync_folder(s->index_path, err));
    TARN_TRY(remove_one(tarn__sums_path(s->index_path), err));
    for (size_t i = 0; i < s->going.count; i++) {
        const char *name = tarn__names_get(&s->going, i).data;
        if (!is_named(s, name)) TARN_TRY(remove_one(tarn__stage_path(s, name), err));
    }
    return TARN_OK;
}

static tarn_status rename_part(const char *part, const char *path, tarn_error *err)
{
    if (tarn__rename_new(part, path) == 0) return TARN_OK;
    if (errno != EEXIST)
        return tarn__fail_errno(err, path, errno, "cannot rename %s", part);
    return tarn__fail_at(
        err, TARN_ERR_EXISTS, path, TARN_NO_OFFSET,
        "a file of this name appeared while the fold was written; remove it and resume");
}

static tarn_status name_one(const tarn__stage *s, const char *name, tarn_error *err)
{
    if (is_named(s, name)) return remove_one(tarn__stage_part(s, name), err);
    char *part = tarn__stage_part(s, name), *path = tarn__stage_path(s, name);
    tarn_status status =
        part && path ? rename_part(part, path, err) : tarn__fail_memory(err);
    free(part);
    free(path);
    return status;
}

tarn_status tarn__stage_name(tarn__stage *s, const char *const *names, size_t count,
                             bool replaces, tarn_error *err)
{
    tarn__journal journal = {replaces ? NULL : s->index_path, names, count, &s->going};
    TARN_TRY(tarn__journal_write(&journal, s->journal_path, s->no_sync, err));
    s->journal = TARN__JOURNAL_LIVE;
    if (replaces) TARN_TRY(clear_replaced(s, err));
    for (size_t i = 0; i < count; i++)
        TARN_TRY(name_one(s, names[i], err));
    return s->no_sync ? TARN_OK : tarn__sync_folder(s->index_path, err);
}
