/* Atomic publication. */
#include "io/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"

/* Processes in two containers may have the same process id, so the name has a random
 * part. */
static char *temporary_name(const char *path)
{
    static atomic_uint counter;
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    size_t size = strlen(path) + 64;
    unsigned chance = 0;
    char *name = malloc(size);
    if (!name) return NULL;
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) < 0) chance = 0;
    snprintf(name, size, "%.*s.%s.tmp-%ld-%u-%08x", (int)folder, path, path + folder,
             (long)getpid(), atomic_fetch_add(&counter, 1), chance);
    return name;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path ? strdup("/")
           : slash       ? strndup(path, (size_t)(slash - path))
                         : strdup(".");
}

/* Removes a temporary file that is not locked. */
static void sweep_one(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(folder, name, 0);
    close(fd);
}

/* The length of "TARGET" in ".TARGET.tmp-...", or 0 if the name is not a temporary
 * one. */
static size_t target_of(const char *name)
{
    size_t at = strlen(name);
    if (name[0] != '.') return 0;
    while (at > 1 && strncmp(name + at, ".tmp-", 5) != 0)
        at--;
    return at > 1 ? at - 1 : 0;
}

void tarn__sweep(const char *folder, tarn__is_target is_target, const void *context)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        size_t len = target_of(entry->d_name);
        if (len && is_target(context, entry->d_name + 1, len))
            sweep_one(dirfd(dir), entry->d_name);
    }
    if (dir) closedir(dir);
}

static bool is_base(const void *context, const char *target, size_t len)
{
    const char *base = context;
    return strlen(base) == len && memcmp(base, target, len) == 0;
}

/* Removes the files that killed writers of the same target have left. */
static void sweep_target(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = folder_of(path);
    if (folder) tarn__sweep(folder, is_base, slash ? slash + 1 : path);
    free(folder);
}

tarn_status tarn__sync_folder(const char *path, tarn_error *err)
{
    char *folder = folder_of(path);
    if (!folder) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        status = tarn__fail_errno(err, folder, errno, "cannot open the folder");
    } else {
        /* Some file systems cannot sync a folder and return EINVAL. */
        if (fsync(fd) != 0 && errno != EINVAL)
            status = tarn__fail_errno(err, folder, errno, "cannot sync the folder");
        close(fd);
    }
    free(folder);
    return status;
}

tarn_status tarn__publish_begin(tarn__publish *p, const char *path, tarn_error *err)
{
    sweep_target(path);
    return tarn__publish_begin_swept(p, path, err);
}

bool tarn__lost_name(int fd, const char *path)
{
    struct stat mine, theirs;
    if (fstat(fd, &mine) != 0) return false;
    if (stat(path, &theirs) != 0) return errno == ENOENT;
    return mine.st_ino != theirs.st_ino || mine.st_dev != theirs.st_dev;
}

static tarn_status create_temporary(tarn__publish *p, tarn_error *err)
{
    p->temporary = temporary_name(p->final);
    if (!p->temporary) return tarn__fail_memory(err);
    p->fd = open(p->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (p->fd >= 0) return TARN_OK;
    tarn_status status = tarn__fail_errno(err, p->temporary, errno, "cannot create");
    free(p->temporary);
    p->temporary = NULL;
    return status;
}

/* Until it is locked, a new file looks to other writers like one that a killed writer
 * left. */
static bool was_swept(const tarn__publish *p)
{
    if (flock(p->fd, LOCK_EX | LOCK_NB) != 0)
        /* If files cannot be locked, none is swept either. */
        return errno == EWOULDBLOCK;
    return tarn__lost_name(p->fd, p->temporary);
}

static void drop_file(tarn__publish *p)
{
    if (p->fd >= 0) close(p->fd);
    if (p->temporary) unlink(p->temporary);
    free(p->temporary);
    p->temporary = NULL;
    p->fd = -1;
}

/* A rename would replace a device or pipe, or a link to one, with a file. */
static tarn_status check_replaceable(const char *path, tarn_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return TARN_OK;
    const char *kind = S_ISDIR(st.st_mode)    ? "folder"
                       : S_ISFIFO(st.st_mode) ? "pipe"
                       : S_ISSOCK(st.st_mode) ? "socket"
                                              : "device";
    return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET,
                         "is a %s, and this output can only be written to a file; give "
                         "another name",
                         kind);
}

tarn_status tarn__publish_begin_swept(tarn__publish *p, const char *path, tarn_error *err)
{
    *p = (tarn__publish){.fd = -1};
    TARN_TRY(check_replaceable(path, err));
    p->final = strdup(path);
    tarn_status status = p->final ? create_temporary(p, err) : tarn__fail_memory(err);
    while (status == TARN_OK && was_swept(p)) {
        drop_file(p);
        status = create_temporary(p, err);
    }
    if (status != TARN_OK) tarn__publish_abandon(p);
    return status;
}

tarn_status tarn__publish_write(tarn__publish *p, const void *data, size_t len,
                                tarn_error *err)
{
    const char *at = data;
    while (len) {
        ssize_t n = write(p->fd, at, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            tarn_status status =
                tarn__fail_errno(err, p->temporary, errno, "cannot write");
            if (err) err->offset = p->written;
            return status;
        }
        at += n;
        len -= (size_t)n;
        p->written += (uint64_t)n;
    }
    return TARN_OK;
}

tarn_status tarn__publish_write_at(tarn__publish *p, const void *data, size_t len,
                                   uint64_t offset, tarn_error *err)
{
    return tarn__write_at(p->fd, p->temporary, data, len, offset, err);
}

static tarn_status copy_by_buffer(tarn__publish *p, int fd, const char *path,
                                  uint64_t offset, uint64_t len, tarn_error *err)
{
    enum { CHUNK = 1 << 20 };
    char *chunk = malloc(CHUNK);
    if (!chunk) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    while (len && status == TARN_OK) {
        size_t n = len < CHUNK ? (size_t)len : CHUNK;
        status = tarn__read_exact(fd, path, chunk, n, offset, err);
        if (status == TARN_OK) status = tarn__publish_write(p, chunk, n, err);
        offset += n;
        len -= n;
    }
    free(chunk);
    return status;
}

tarn_status tarn__publish_copy(tarn__publish *p, int fd, const char *path,
                               uint64_t offset, uint64_t len, tarn_error *err)
{
    while (len) {
        off_t from = (off_t)offset;
        ssize_t n = copy_file_range(fd, &from, p->fd, NULL, (size_t)len, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        offset += (uint64_t)n;
        len -= (uint64_t)n;
        p->written += (uint64_t)n;
    }
    return len ? copy_by_buffer(p, fd, path, offset, len, err) : TARN_OK;
}

void tarn__publish_hurry(const tarn__publish *p)
{
    /* Only advice: an error will show when the file is synced. */
    (void)sync_file_range(p->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* The descriptor, and with it the lock, stays open until the file has its name. */
tarn_status tarn__publish_sync(tarn__publish *p, tarn_error *err)
{
    if (p->no_sync || p->synced) return TARN_OK;
    p->synced = true;
    if (fsync(p->fd) == 0) return TARN_OK;
    tarn_status status = tarn__fail_errno(err, p->temporary, errno, "cannot sync");
    tarn__publish_abandon(p);
    return status;
}

/* File systems without RENAME_NOREPLACE have hard links, which do not replace files
 * either. */
int tarn__rename_new_in(int folder, const char *from, const char *to)
{
    if (renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    if (linkat(folder, from, folder, to, 0) != 0) return -1;
    (void)unlinkat(folder, from, 0);
    return 0;
}

int tarn__rename_new(const char *from, const char *to)
{
    return tarn__rename_new_in(AT_FDCWD, from, to);
}

static tarn_status take_name(tarn__publish *p, tarn_error *err)
{
    if ((p->keep_existing ? tarn__rename_new : rename)(p->temporary, p->final) != 0) {
        tarn_status status =
            tarn__fail_errno(err, p->final, errno, "cannot rename %s", p->temporary);
        tarn__publish_abandon(p);
        return status;
    }
    free(p->temporary);
    p->temporary = NULL;
    return TARN_OK;
}

tarn_status tarn__publish_finish(tarn__publish *p, tarn_error *err)
{
    TARN_TRY(tarn__publish_sync(p, err));
    TARN_TRY(take_name(p, err));
    tarn_status status = p->no_sync ? TARN_OK : tarn__sync_folder(p->final, err);
    tarn__publish_abandon(p);
    return status;
}

/* Only a sync keeps renames in order in a power failure. */
static tarn_status sync_names(const tarn__publish *p, tarn_error *err)
{
    return p->no_sync ? TARN_OK : tarn__sync_folder(p->final, err);
}

/* Gives the second file the name under which it waits. It is its temporary name from now
 * on, so that abandon removes it. */
static tarn_status wait_beside(tarn__publish *p, const char *waiting, tarn_error *err)
{
    char *name = strdup(waiting);
    if (!name) return tarn__fail_memory(err);
    if (rename(p->temporary, name) != 0) {
        tarn_status status =
            tarn__fail_errno(err, name, errno, "cannot rename %s", p->temporary);
        free(name);
        return status;
    }
    free(p->temporary);
    p->temporary = name;
    return sync_names(p, err);
}

/* The first file has its name: from here on the second is never removed. */
static tarn_status end_waiting(tarn__publish *p, tarn_error *err)
{
    tarn_status status = sync_names(p, err);
    if (status == TARN_OK && rename(p->temporary, p->final) != 0)
        status = tarn__fail_errno(err, p->final, errno, "cannot rename %s", p->temporary);
    free(p->temporary);
    p->temporary = NULL;
    return status == TARN_OK ? sync_names(p, err) : status;
}

tarn_status tarn__publish_pair(tarn__publish *first, tarn__publish *second,
                               const char *waiting, tarn_error *err)
{
    TARN_TRY(tarn__publish_sync(first, err));
    TARN_TRY(tarn__publish_sync(second, err));
    TARN_TRY(wait_beside(second, waiting, err));
    TARN_TRY(take_name(first, err));
    return end_waiting(second, err);
}

int tarn__lock_folder(const char *path)
{
    char *folder = folder_of(path);
    int lock = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    if (lock >= 0) (void)flock(lock, LOCK_EX);
    return lock;
}

void tarn__publish_abandon(tarn__publish *p)
{
    drop_file(p);
    free(p->final);
    *p = (tarn__publish){.fd = -1};
}

/* --- Second names of files --------------------------------------------------------- */

static tarn_status copy_file(const char *from, const char *to, bool no_sync,
                             tarn_error *err)
{
    tarn__file file;
    tarn__publish p;
    TARN_TRY(tarn__file_open(&file, from, err));
    tarn_status status = tarn__publish_begin(&p, to, err);
    if (status == TARN_OK) {
        p.no_sync = no_sync;
        p.keep_existing = true;
        status = tarn__publish_copy(&p, file.fd, from, 0, file.size, err);
        if (status == TARN_OK)
            status = tarn__publish_finish(&p, err);
        else
            tarn__publish_abandon(&p);
    }
    tarn__file_close(&file);
    return status;
}

/* A linked shard must be on the disk before an index refers to it. */
static tarn_status sync_linked(const char *path, tarn_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tarn__fail_errno(err, path, errno, "cannot open");
    tarn_status status =
        fsync(fd) == 0 ? TARN_OK : tarn__fail_errno(err, path, errno, "cannot sync");
    close(fd);
    return status;
}

/* Hard links fail across file systems, on some file systems, and for other users' files.
 * On any failure the file is copied; if the copy fails too, its error is reported. */
tarn_status tarn__publish_link(const char *from, const char *to, bool copy, bool no_sync,
                               tarn_error *err)
{
    if (copy || linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) != 0)
        return copy_file(from, to, no_sync, err);
    tarn_status status = no_sync ? TARN_OK : sync_linked(to, err);
    if (status != TARN_OK) unlink(to);
    return status;
}
