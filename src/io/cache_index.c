/* The folders of versions, and the file id. */
#include "io/cache_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/number.h"
#include "io/cache_inside.h"
#include "io/scratch.h"

enum { ID_MAX = 8 << 10, LEFT_OVER_SECONDS = 24 * 3600 };

const char *const tarn__version_names[TARN__VERSION_FILES] = {"index.taridx",
                                                              "index.tarsum"};
static const char id_title[] = "tarn index 2";

char *tarn__version_file(const char *folder, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* --- Folders ----------------------------------------------------------------------- */

void tarn__version_folders(const char *path)
{
    char *copy = strdup(path);
    if (!copy) return;
    for (char *at = copy + 1; *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        mkdir(copy, 0777);
        *at = '/';
    }
    mkdir(copy, 0777);
    free(copy);
}

void tarn__version_remove(const char *folder)
{
    static const char *const all[] = {"index.taridx", "index.tarsum", "id"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *path = tarn__version_file(folder, all[i]);
        if (path) unlink(path);
        free(path);
    }
    rmdir(folder);
}

static bool is_left_over(const char *path, const char *name)
{
    struct stat st;
    return strncmp(name, ".new-", 5) == 0 && stat(path, &st) == 0 &&
           time(NULL) - st.st_mtime > LEFT_OVER_SECONDS;
}

/* Removes all versions but one, and what killed processes left. Processes that use them
 * have mapped them. */
static void remove_others(const char *entry, const char *keep)
{
    DIR *dir = opendir(entry);
    struct dirent *found;
    while (dir && (found = readdir(dir))) {
        char *path = tarn__version_file(entry, found->d_name);
        if (path && strcmp(path, keep) != 0 &&
            (tarn__cache_is_dataset(found->d_name) || is_left_over(path, found->d_name)))
            tarn__version_remove(path);
        free(path);
    }
    if (dir) closedir(dir);
}

tarn_status tarn__version_stage(const char *entry, char **out, bool *out_kept,
                                tarn_error *err)
{
    *out_kept = false;
    if (entry) {
        *out = tarn__version_file(entry, ".new-XXXXXX");
        if (!*out) return tarn__fail_memory(err);
        *out_kept = mkdtemp(*out) != NULL;
        if (*out_kept) return TARN_OK;
        free(*out);
    }
    return tarn__scratch_make("tarn-index", out, err);
}

/* --- The identity of a version ------------------------------------------------------ */

static tarn_status compose_id(const char *shown, const tarn__version *v, tarn__buf *out,
                              tarn_error *err)
{
    TARN_TRY(tarn__buf_printf(out, err, "%s\n%s\n", id_title, shown));
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        const tarn__object_id *id = &v->ids[i];
        if (v->has[i])
            TARN_TRY(tarn__buf_printf(out, err, "%llu\n%u\n%s\n%s\n",
                                      (unsigned long long)id->size, v->crcs[i], id->etag,
                                      id->modified));
        else
            TARN_TRY(tarn__buf_printf(out, err, "-\n0\n\n\n"));
    }
    return TARN_OK;
}

/* Takes a line; false if there is no complete one. */
static bool take_line(char **at, char **out)
{
    char *end = strchr(*at, '\n');
    if (!end) return false;
    *end = '\0';
    *out = *at;
    *at = end + 1;
    return true;
}

static bool take_text(char **at, char *out, size_t size)
{
    char *line;
    if (!take_line(at, &line) || strlen(line) >= size) return false;
    strcpy(out, line);
    return true;
}

static bool take_number(char **at, uint64_t max, uint64_t *out)
{
    char *line;
    return take_line(at, &line) && tarn__digits(line, strlen(line), max, out);
}

static bool parse_id(char *text, tarn__version *v)
{
    char *line, *url;
    uint64_t crc;
    if (!take_line(&text, &line) || strcmp(line, id_title) != 0) return false;
    if (!take_line(&text, &url)) return false;
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        tarn__object_id *id = &v->ids[i];
        if (!take_line(&text, &line)) return false;
        v->has[i] = strcmp(line, "-") != 0;
        if (v->has[i] && !tarn__digits(line, strlen(line), UINT64_MAX, &id->size))
            return false;
        if (!take_number(&text, UINT32_MAX, &crc)) return false;
        v->crcs[i] = (uint32_t)crc;
        if (!take_text(&text, id->etag, sizeof id->etag) ||
            !take_text(&text, id->modified, sizeof id->modified))
            return false;
    }
    if (!v->has[TARN__VERSION_INDEX] || *text) return false;
    v->url = strdup(url);
    return v->url != NULL;
}

/* Whether the files of a version exist and have their sizes. */
static bool has_files(const tarn__version *v)
{
    struct stat st;
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        char *path = tarn__version_file(v->folder, tarn__version_names[i]);
        bool there = path && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
                     (uint64_t)st.st_size == v->ids[i].size;
        free(path);
        if (v->has[i] && !there) return false;
    }
    return true;
}

static bool read_id(tarn__version *v)
{
    char text[ID_MAX + 1], *path = tarn__version_file(v->folder, "id");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, text, ID_MAX) : -1;
    if (fd >= 0) close(fd);
    free(path);
    if (n <= 0 || n == ID_MAX || memchr(text, '\0', (size_t)n)) return false;
    text[n] = '\0';
    return parse_id(text, v) && has_files(v);
}

void tarn__version_reset(tarn__version *v)
{
    free(v->folder);
    free(v->url);
    *v = (tarn__version){0};
}

bool tarn__version_find(const char *entry, tarn__version *out)
{
    DIR *dir = entry ? opendir(entry) : NULL;
    struct dirent *found;
    struct stat st;
    time_t newest = 0;
    *out = (tarn__version){0};
    while (dir && (found = readdir(dir))) {
        tarn__version v = {0};
        if (!tarn__cache_is_dataset(found->d_name) ||
            !(v.folder = tarn__version_file(entry, found->d_name)))
            continue;
        if (stat(v.folder, &st) != 0 || (out->folder && st.st_mtime < newest) ||
            !read_id(&v)) {
            tarn__version_reset(&v);
            continue;
        }
        newest = st.st_mtime;
        tarn__version_reset(out);
        *out = v;
    }
    if (dir) closedir(dir);
    return out->folder != NULL;
}

/* --- All versions ------------------------------------------------------------------ */

typedef struct each {
    tarn_status (*see)(void *context, const tarn__version *version, tarn_error *err);
    void *context;
} each;

static tarn_status each_version(const each *e, const char *path, tarn_error *err)
{
    tarn__version v = {.folder = strdup(path)};
    if (!v.folder) return tarn__fail_memory(err);
    if (!read_id(&v)) {
        free(v.url);
        v.url = NULL;
    }
    tarn_status status = e->see(e->context, &v, err);
    tarn__version_reset(&v);
    return status;
}

/* Calls one for each folder with a name of the cache. Links are not followed. */
static tarn_status each_folder(const each *e, const char *path,
                               tarn_status (*one)(const each *e, const char *path,
                                                  tarn_error *err),
                               tarn_error *err)
{
    struct dirent *found;
    struct stat st;
    tarn_status status = TARN_OK;
    DIR *dir = lstat(path, &st) == 0 && S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    while (dir && status == TARN_OK && (found = readdir(dir))) {
        if (!tarn__cache_is_dataset(found->d_name)) continue;
        char *inner = tarn__version_file(path, found->d_name);
        if (!inner)
            status = tarn__fail_memory(err);
        else if (lstat(inner, &st) == 0 && S_ISDIR(st.st_mode))
            status = one(e, inner, err);
        free(inner);
    }
    if (dir) closedir(dir);
    return status;
}

static tarn_status each_index(const each *e, const char *path, tarn_error *err)
{
    return each_folder(e, path, each_version, err);
}

tarn_status tarn__version_each(const char *cache,
                               tarn_status (*see)(void *context,
                                                  const tarn__version *version,
                                                  tarn_error *err),
                               void *context, tarn_error *err)
{
    each e = {see, context};
    char *path = tarn__version_file(cache, "index");
    if (!path) return tarn__fail_memory(err);
    tarn_status status = each_folder(&e, path, each_index, err);
    free(path);
    return status;
}

static tarn_status remove_folder(const each *e, const char *path, tarn_error *err)
{
    (void)e;
    (void)err;
    (void)rmdir(path);
    return TARN_OK;
}

void tarn__version_tidy(const char *cache)
{
    each e = {0};
    char *path = tarn__version_file(cache, "index");
    if (!path) return;
    (void)!each_folder(&e, path, remove_folder, NULL);
    (void)rmdir(path);
    free(path);
}

char *tarn__version_dataset(const char *url)
{
    const char ending[] = ".taridx";
    char *text = strdup(url);
    if (!text) return NULL;
    size_t len = strcspn(text, "?");
    text[len] = '\0';
    char *slash = strrchr(text, '/');
    if (len < sizeof ending || strcmp(text + len - (sizeof ending - 1), ending) != 0 ||
        !slash)
        return text;
    text[len - (sizeof ending - 1)] = '\0';
    *slash = ':';
    return text;
}

/* --- Publishing ----------------------------------------------------------------------
 */

tarn_status tarn__version_write(int fd, const char *path, const char *data, size_t len,
                                tarn_error *err)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return tarn__fail_errno(err, path, errno, "cannot write");
        data += n;
        len -= (size_t)n;
    }
    return TARN_OK;
}

static tarn_status write_id(const char *shown, const tarn__version *v, const char *folder,
                            tarn_error *err)
{
    tarn__buf text;
    char *path = tarn__version_file(folder, "id");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    tarn__buf_init(&text, ID_MAX - 1);
    tarn_status status = fd >= 0 ? TARN_OK : tarn__fail_errno(err, path, errno, "create");
    if (status == TARN_OK) status = compose_id(shown, v, &text, err);
    if (status == TARN_OK)
        status = tarn__version_write(fd, path, text.data, text.size, err);
    if (fd >= 0) close(fd);
    tarn__buf_reset(&text);
    free(path);
    return status;
}

/* Files must be on the disk before the name of their folder is. */
static bool sync_files(const tarn__version *v, const char *folder)
{
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        char *path =
            v->has[i] ? tarn__version_file(folder, tarn__version_names[i]) : NULL;
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        bool good = !v->has[i] || (fd >= 0 && fsync(fd) == 0);
        if (fd >= 0) close(fd);
        free(path);
        if (!good) return false;
    }
    return true;
}

/* Without an ETag or a date nobody could ask later whether the copy is still right. */
static bool can_ask_again(const tarn__version *v)
{
    for (int i = 0; i < TARN__VERSION_FILES; i++)
        if (v->has[i] && v->ids[i].etag[0] != '"' && !v->ids[i].modified[0]) return false;
    return true;
}

/* Replaces a version that cannot be used; removes staging if the version is good, because
 * another process has published it. */
static bool take_place(const char *staging, const char *folder, bool damaged)
{
    tarn__version there = {.folder = (char *)(uintptr_t)folder};
    if (errno != EEXIST && errno != ENOTEMPTY) return false;
    bool good = !damaged && read_id(&there);
    free(there.url);
    if (good) {
        tarn__version_remove(staging);
        return true;
    }
    tarn__version_remove(folder);
    return rename(staging, folder) == 0;
}

char *tarn__version_publish(const char *entry, const char *shown, const tarn__version *v,
                            const char *staging, bool damaged)
{
    tarn__buf text;
    char *folder = NULL, name[TARN__CACHE_ID];
    tarn__buf_init(&text, ID_MAX);
    bool good = can_ask_again(v) && compose_id("", v, &text, NULL) == TARN_OK &&
                write_id(shown, v, staging, NULL) == TARN_OK && sync_files(v, staging);
    if (good) {
        tarn__cache_dataset_name(name, text.data);
        folder = tarn__version_file(entry, name);
    }
    tarn__buf_reset(&text);
    if (!folder) return NULL;
    if (rename(staging, folder) != 0 && !take_place(staging, folder, damaged)) {
        free(folder);
        return NULL;
    }
    remove_others(entry, folder);
    return folder;
}
