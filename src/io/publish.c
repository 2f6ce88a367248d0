/* Atomic publication. */
#include "io/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"

/* Both threads of one process and processes on one folder need names of their own. */
static char *temporary_name(const char *path)
{
    static atomic_uint counter;
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    size_t size = strlen(path) + 48;
    char *name = malloc(size);
    if (!name) return NULL;
    snprintf(name, size, "%.*s.%s.tmp-%ld-%u", (int)folder, path, path + folder,
             (long)getpid(), atomic_fetch_add(&counter, 1));
    return name;
}

static tarn_status sync_folder(const char *path, tarn_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == path ? strdup("/")
                   : slash       ? strndup(path, (size_t)(slash - path))
                                 : strdup(".");
    if (!folder) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        status = tarn__fail_errno(err, folder, errno, "cannot open the folder");
    } else {
        /* Some file systems cannot sync a folder and say so with EINVAL. */
        if (fsync(fd) != 0 && errno != EINVAL)
            status = tarn__fail_errno(err, folder, errno, "cannot sync the folder");
        close(fd);
    }
    free(folder);
    return status;
}

tarn_status tarn__publish_begin(tarn__publish *p, const char *path, tarn_error *err)
{
    *p = (tarn__publish){.fd = -1};
    p->final = strdup(path);
    p->temporary = p->final ? temporary_name(path) : NULL;
    if (!p->temporary) {
        tarn__publish_abandon(p);
        return tarn__fail_memory(err);
    }
    p->fd = open(p->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (p->fd >= 0) return TARN_OK;
    tarn_status status = tarn__fail_errno(err, p->temporary, errno, "cannot create");
    free(p->temporary);
    p->temporary = NULL;
    tarn__publish_abandon(p);
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
    const char *at = data;
    while (len) {
        ssize_t n = pwrite(p->fd, at, len, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return tarn__fail_errno(err, p->temporary, errno, "cannot write");
        at += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return TARN_OK;
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
    /* Advice only: whatever goes wrong shows when the file is synced. */
    (void)sync_file_range(p->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static tarn_status sync_file(tarn__publish *p, tarn_error *err)
{
    int fd = p->fd;
    p->fd = -1;
    int failed = fsync(fd) != 0 ? errno : 0;
    if (close(fd) != 0 && !failed) failed = errno;
    if (!failed) return TARN_OK;
    tarn_status status = tarn__fail_errno(err, p->temporary, failed, "cannot sync");
    tarn__publish_abandon(p);
    return status;
}

tarn_status tarn__publish_finish(tarn__publish *p, tarn_error *err)
{
    TARN_TRY(sync_file(p, err));
    if (rename(p->temporary, p->final) != 0) {
        tarn_status status =
            tarn__fail_errno(err, p->final, errno, "cannot rename %s", p->temporary);
        tarn__publish_abandon(p);
        return status;
    }
    free(p->temporary);
    p->temporary = NULL;
    tarn_status status = sync_folder(p->final, err);
    tarn__publish_abandon(p);
    return status;
}

void tarn__publish_abandon(tarn__publish *p)
{
    if (p->fd >= 0) close(p->fd);
    if (p->temporary) unlink(p->temporary);
    free(p->temporary);
    free(p->final);
    *p = (tarn__publish){.fd = -1};
}

tarn_status tarn__unpublish(const char *path, tarn_error *err)
{
    if (unlink(path) == 0) return sync_folder(path, err);
    if (errno == ENOENT) return TARN_OK;
    return tarn__fail_errno(err, path, errno, "cannot remove");
}
