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

#include "base/crc.h"
#include "base/error.h"
#include "io/file.h"
#include "io/publish.h"
#include "itar/folder.h"
#include "itar/sums.h"
#include "itar/taridx.h"

static const char journal_begin[] = "tarn commit 1\n";
static const char part_ending[] = ".part";
#define NO_INDEX    "-"
#define JOURNAL_MAX (64u << 20)
enum { IDENTITY = 2 * TARIDX_HEADER_SIZE };

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

/* --- The lock ------------------------------------------------------------------------
 */

static tarn_status make_folder(const char *path, tarn_error *err)
{
    char *copy = strdup(path);
    if (!copy) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    for (char *at = copy + 1; status == TARN_OK; at++) {
        char here = *at;
        if (here && here != '/') continue;
        *at = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            status = tarn__fail_errno(err, copy, errno, "cannot make the folder");
        *at = here;
        if (!here) break;
    }
    free(copy);
    return status;
}

/* The lock file goes with its writer; who waited for it must see that it is a new one. */
static bool is_still_there(int fd, const char *path)
{
    struct stat mine, theirs;
    return fstat(fd, &mine) == 0 && stat(path, &theirs) == 0 &&
           mine.st_ino == theirs.st_ino && mine.st_dev == theirs.st_dev;
}

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
                                 "another writer is at work on fold %s", s->fold);
        }
        if (is_still_there(s->lock, s->lock_path)) return TARN_OK;
        close(s->lock);
    }
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
    s->lock_path = joined(s->folder, ".", fold, ".tarn-lock");
    s->journal_path = joined(s->folder, ".", fold, TARN__JOURNAL_ENDING);
    return s->index_path && s->lock_path && s->journal_path ? TARN_OK
                                                            : tarn__fail_memory(err);
}

tarn_status tarn__stage_open(tarn__stage *s, const char *folder, const char *fold,
                             tarn_error *err)
{
    *s = (tarn__stage){.lock = -1};
    tarn__names_init(&s->coming);
    tarn__names_init(&s->going);
    tarn_status status = take_names(s, folder, fold, err);
    if (status == TARN_OK) status = make_folder(s->folder, err);
    if (status == TARN_OK) status = take_lock(s, err);
    if (status != TARN_OK) {
        tarn__stage_close(s);
        return status;
    }
    s->has_journal = access(s->journal_path, F_OK) == 0;
    if (s->has_journal)
        tarn__journal_load(s->journal_path, s->index_path, &s->coming, &s->going);
    return TARN_OK;
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

/* --- The journal ----------------------------------------------------------------------
 */

/* What tells one index from the next: its header, in hexadecimal digits. */
static void identify(const char *index_path, char out[IDENTITY + 1])
{
    unsigned char head[TARIDX_HEADER_SIZE];
    memcpy(out, NO_INDEX, sizeof NO_INDEX);
    int fd = open(index_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (read(fd, head, sizeof head) == (ssize_t)sizeof head)
        for (size_t i = 0; i < sizeof head; i++)
            snprintf(out + 2 * i, 3, "%02x", head[i]);
    close(fd);
}

static tarn_status add_line(tarn__buf *out, const char *mark, const char *name,
                            tarn_error *err)
{
    TARN_TRY(tarn__buf_add(out, mark, 1, err));
    TARN_TRY(tarn__buf_add(out, name, strlen(name), err));
    return tarn__buf_add(out, "\n", 1, err);
}

/* A fold that is replaced loses its index before anything else: from then on the journal
 * counts, and not before. */
static tarn_status compose_journal(const tarn__stage *s, const char *const *names,
                                   size_t count, tarn__buf *out, tarn_error *err)
{
    char identity[IDENTITY + 1] = NO_INDEX, end[24];
    if (!s->going.count) identify(s->index_path, identity);
    TARN_TRY(tarn__buf_add(out, journal_begin, sizeof journal_begin - 1, err));
    TARN_TRY(tarn__buf_add(out, identity, strlen(identity), err));
    TARN_TRY(tarn__buf_add(out, "\n", 1, err));
    for (size_t i = 0; i < count; i++)
        TARN_TRY(add_line(out, "+", names[i], err));
    for (size_t i = 0; i < s->going.count; i++)
        TARN_TRY(add_line(out, "-", tarn__names_get(&s->going, i).data, err));
    int len = snprintf(end, sizeof end, "%08x\n", tarn__crc32c(0, out->data, out->size));
    return tarn__buf_add(out, end, (size_t)len, err);
}

tarn_status tarn__stage_announce(tarn__stage *s, const char *const *names, size_t count,
                                 bool no_sync, tarn_error *err)
{
    tarn__publish p;
    tarn__buf text;
    tarn__buf_init(&text, JOURNAL_MAX);
    TARN_TRY(tarn__publish_begin(&p, s->journal_path, err));
    p.no_sync = no_sync;
    tarn_status status = compose_journal(s, names, count, &text, err);
    if (status == TARN_OK) status = tarn__publish_write(&p, text.data, text.size, err);
    if (status == TARN_OK)
        status = tarn__publish_finish(&p, err);
    else
        tarn__publish_abandon(&p);
    tarn__buf_reset(&text);
    s->has_journal = status == TARN_OK;
    return status;
}

/* The names in a journal whose text is whole and that speaks of this index. */
static void parse_journal(char *text, size_t size, const char *identity,
                          tarn__names *coming, tarn__names *going)
{
    const size_t begin = sizeof journal_begin - 1, end = 9;
    uint32_t id;
    if (size < begin + end || memcmp(text, journal_begin, begin) != 0) return;
    char crc[16];
    snprintf(crc, sizeof crc, "%08x\n", tarn__crc32c(0, text, size - end));
    if (memcmp(text + size - end, crc, end) != 0) return;
    text[size - end] = 0;
    char *rest = text + begin, *line = strsep(&rest, "\n");
    if (!line || strcmp(line, identity) != 0) return;
    while ((line = strsep(&rest, "\n"))) {
        if (*line != '+' && *line != '-') continue;
        tarn__names *out = *line == '+' ? coming : going;
        if (tarn__names_add(out, line + 1, strlen(line + 1), &id, NULL) != TARN_OK)
            return;
    }
}

void tarn__journal_load(const char *path, const char *index_path, tarn__names *coming,
                        tarn__names *going)
{
    struct stat st;
    char identity[IDENTITY + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= (off_t)JOURNAL_MAX) {
        size_t size = (size_t)st.st_size;
        char *text = malloc(size + 1);
        identify(index_path, identity);
        if (text && tarn__read_exact(fd, path, text, size, 0, NULL) == TARN_OK)
            parse_journal(text, size, identity, coming, going);
        free(text);
    }
    close(fd);
}

tarn_status tarn__stage_done(tarn__stage *s, tarn_error *err)
{
    if (!s->has_journal) return TARN_OK;
    if (unlink(s->journal_path) != 0 && errno != ENOENT)
        return tarn__fail_errno(err, s->journal_path, errno, "cannot remove");
    s->has_journal = false;
    return TARN_OK;
}

/* --- Parts ----------------------------------------------------------------------------
 */

/* The shard's name in ".name.part", if it is one of this fold. */
static char *name_of_part(const tarn__stage *s, const char *entry)
{
    size_t len = strlen(entry), ending = sizeof part_ending - 1;
    const char *fold, *suffix;
    size_t fold_len, suffix_len;
    if (entry[0] != '.' || len <= ending + 1 ||
        strcmp(entry + len - ending, part_ending) != 0)
        return NULL;
    char *name = strndup(entry + 1, len - ending - 1);
    if (name && tarn__shard_name(name, &fold, &fold_len, &suffix, &suffix_len) &&
        fold_len == strlen(s->fold) && memcmp(fold, s->fold, fold_len) == 0)
        return name;
    free(name);
    return NULL;
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static tarn_status add_sorted(char **found, size_t count, tarn__names *out,
                              tarn_error *err)
{
    tarn_status status = TARN_OK;
    uint32_t id;
    if (count) qsort(found, count, sizeof *found, compare_texts);
    for (size_t i = 0; status == TARN_OK && i < count; i++)
        status = tarn__names_add(out, found[i], strlen(found[i]), &id, err);
    return status;
}

/* Journal names whose shard has neither name were never there. */
static bool is_there(const tarn__stage *s, const char *name)
{
    char *path = tarn__stage_find(s, name);
    bool there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

tarn_status tarn__stage_leftovers(const tarn__stage *s, tarn__names *out, tarn_error *err)
{
    char **found = NULL;
    size_t count = 0, capacity = 0;
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < s->coming.count; i++) {
        const char *name = tarn__names_get(&s->coming, i).data;
        if (!is_there(s, name)) continue;
        status = tarn__grow(&found, sizeof *found, count, &capacity, err);
        if (status == TARN_OK && !(found[count++] = strdup(name)))
            status = tarn__fail_memory(err);
    }
    DIR *dir = opendir(s->folder);
    struct dirent *entry;
    while (status == TARN_OK && dir && (entry = readdir(dir))) {
        char *name = name_of_part(s, entry->d_name);
        if (!name) continue;
        status = tarn__grow(&found, sizeof *found, count, &capacity, err);
        if (status == TARN_OK)
            found[count++] = name;
        else
            free(name);
    }
    if (dir) closedir(dir);
    if (status == TARN_OK) status = add_sorted(found, count, out, err);
    for (size_t i = 0; i < count; i++)
        free(found[i]);
    free(found);
    return status;
}

char *tarn__stage_find(const tarn__stage *s, const char *name)
{
    char *part = tarn__stage_part(s, name);
    if (!part || access(part, F_OK) == 0) return part;
    free(part);
    return tarn__stage_path(s, name);
}

tarn_status tarn__stage_discard(tarn__stage *s, const char *const *names, size_t count,
                                tarn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        char *part = tarn__stage_part(s, names[i]);
        char *path = tarn__stage_path(s, names[i]);
        bool mine =
            tarn__names_find(&s->coming, names[i], strlen(names[i])) != TARN__NAME_NONE;
        if (part) unlink(part);
        if (path && mine) unlink(path);
        free(part);
        free(path);
    }
    return tarn__stage_done(s, err);
}

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

tarn_status tarn__stage_clear(const tarn__stage *s, tarn_error *err)
{
    if (!s->going.count) return TARN_OK;
    TARN_TRY(remove_one(tarn__sums_path(s->index_path), err));
    TARN_TRY(remove_one(strdup(s->index_path), err));
    for (size_t i = 0; i < s->going.count; i++)
        TARN_TRY(
            remove_one(tarn__stage_path(s, tarn__names_get(&s->going, i).data), err));
    return TARN_OK;
}

static tarn_status name_one(const tarn__stage *s, const char *name, tarn_error *err)
{
    char *part = tarn__stage_part(s, name), *path = tarn__stage_path(s, name);
    tarn_status status = TARN_OK;
    if (!part || !path)
        status = tarn__fail_memory(err);
    else if (rename(part, path) != 0 && (errno != ENOENT || access(path, F_OK) != 0))
        status = tarn__fail_errno(err, path, errno, "cannot rename %s", part);
    free(part);
    free(path);
    return status;
}

tarn_status tarn__stage_name(const tarn__stage *s, const char *const *names, size_t count,
                             bool no_sync, tarn_error *err)
{
    for (size_t i = 0; i < count; i++)
        TARN_TRY(name_one(s, names[i], err));
    return no_sync ? TARN_OK : tarn__sync_folder(s->index_path, err);
}
