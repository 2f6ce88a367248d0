/* The folders of versions, and the file id. */
#include "itar/remote_version.h"

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
#include "tar/keys.h"

enum { ID_MAX = 8 << 10, LEFT_OVER_SECONDS = 24 * 3600 };

const char *const tarn__version_names[TARN__VERSION_FILES] = {"index.taridx",
                                                              "index.tarsum"};
static const char id_title[] = "tarn index 1";

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

static bool is_version(const char *name)
{
    return strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16;
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
            (is_version(found->d_name) || is_left_over(path, found->d_name)))
            tarn__version_remove(path);
        free(path);
    }
    if (dir) closedir(dir);
}

tarn_status tarn__version_stage(const char *entry, char **out, bool *out_kept,
                                tarn_error *err)
{
    const char *tmp = getenv("TMPDIR");
    *out_kept = false;
    if (entry) {
        *out = tarn__version_file(entry, ".new-XXXXXX");
        if (!*out) return tarn__fail_memory(err);
        *out_kept = mkdtemp(*out) != NULL;
        if (*out_kept) return TARN_OK;
        free(*out);
    }
    *out = tarn__version_file(tmp && tmp[0] ? tmp : "/tmp", "tarn-index-XXXXXX");
    if (!*out) return tarn__fail_memory(err);
    if (mkdtemp(*out)) return TARN_OK;
    tarn_status status =
        tarn__fail_errno(err, *out, errno, "cannot create a folder for the index");
    free(*out);
    *out = NULL;
    return status;
}

/* --- The identity of a version ------------------------------------------------------ */

static tarn_status compose_id(const char *shown, const tarn__version *v, tarn__buf *out,
                              tarn_error *err)
{
    TARN_TRY(tarn__buf_printf(out, err, "%s\n%s\n", id_title, shown));
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        const tarn__object_id *id = &v->ids[i];
        if (v->has[i])
            TARN_TRY(tarn__buf_printf(out, err, "%llu\n%s\n%s\n",
                                      (unsigned long long)id->size, id->etag,
                                      id->modified));
        else
            TARN_TRY(tarn__buf_printf(out, err, "-\n\n\n"));
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

static bool parse_id(char *text, tarn__version *v)
{
    char *line;
    if (!take_line(&text, &line) || strcmp(line, id_title) != 0) return false;
    if (!take_line(&text, &line)) return false;
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        tarn__object_id *id = &v->ids[i];
        if (!take_line(&text, &line)) return false;
        v->has[i] = strcmp(line, "-") != 0;
        if (v->has[i] && !tarn__digits(line, strlen(line), UINT64_MAX, &id->size))
            return false;
        if (!take_text(&text, id->etag, sizeof id->etag) ||
            !take_text(&text, id->modified, sizeof id->modified))
            return false;
    }
    return v->has[TARN__VERSION_INDEX] && !*text;
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
        if (!is_version(found->d_name) ||
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
    if (!damaged && read_id(&there)) {
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
    char *folder = NULL;
    tarn__buf_init(&text, ID_MAX);
    bool good = can_ask_again(v) && compose_id("", v, &text, NULL) == TARN_OK &&
                write_id(shown, v, staging, NULL) == TARN_OK && sync_files(v, staging) &&
                asprintf(&folder, "%s/%016llx", entry,
                         (unsigned long long)tarn__key_hash(text.data, text.size)) >= 0;
    tarn__buf_reset(&text);
    if (!good) return NULL;
    if (rename(staging, folder) != 0 && !take_place(staging, folder, damaged)) {
        free(folder);
        return NULL;
    }
    remove_others(entry, folder);
    return folder;
}
