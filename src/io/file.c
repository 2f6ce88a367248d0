/* Opening, positional reads, maps, and file properties. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "io/guard.h"
#include "io/remote.h"
#include "io/url.h"

static tarn__file_id id_of(const struct stat *st)
{
    return (tarn__file_id){(uint64_t)st->st_size,
                           (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                           (uint64_t)st->st_dev, (uint64_t)st->st_ino};
}

tarn_status tarn__file_identify(const char *path, tarn__file_id *out, tarn_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    *out = id_of(&st);
    return TARN_OK;
}

tarn_status tarn__file_compare(int fd, const char *path, const tarn__file_id *id,
                               bool *out_same, tarn_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    tarn__file_id now = id_of(&st);
    bool moved = now.device != id->device || now.inode != id->inode;
    *out_same = now.size == id->size && now.mtime_ns == id->mtime_ns &&
                !(moved && tarn__is_local(fd));
    return TARN_OK;
}

tarn_status tarn__file_open(tarn__file *file, const char *path, tarn_error *err)
{
    struct stat st;
    *file = (tarn__file){.fd = -1};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return tarn__fail_errno(err, path, errno, "cannot open");
    if (fstat(fd, &st) != 0) {
        int e = errno;
        close(fd);
        return tarn__fail_errno(err, path, e, "cannot stat");
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET,
                             "not a regular file");
    }
    file->path = strdup(path);
    if (!file->path) {
        close(fd);
        return tarn__fail_memory(err);
    }
    file->fd = fd;
    file->size = (uint64_t)st.st_size;
    file->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return TARN_OK;
}

/* The URL up to its last part: files of one folder are one dataset in the cache. */
static tarn_status open_remote(const char *url, tarn__cachedir *cache, tarn__remote **out,
                               tarn_error *err)
{
    char *folder = tarn__url_shown(url);
    if (!folder) return tarn__fail_memory(err);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    tarn__fetch_limits limits = TARN__FETCH_LIMITS;
    tarn_status status = tarn__remote_open(url, cache, folder, NULL, &limits, out, err);
    free(folder);
    return status;
}

tarn_status tarn__file_open_any(tarn__file *file, const char *path, tarn__cachedir *cache,
                                tarn_error *err)
{
    tarn__object_id id;
    if (!tarn__is_remote(path)) return tarn__file_open(file, path, err);
    *file = (tarn__file){.fd = -1};
    TARN_TRY(open_remote(path, cache, &file->remote, err));
    file->path = strdup(tarn__remote_shown(file->remote));
    tarn_status status = file->path ? tarn__remote_identify(file->remote, &id, err)
                                    : tarn__fail_memory(err);
    if (status == TARN_OK && cache) status = tarn__remote_prepare(file->remote, err);
    if (status != TARN_OK) {
        tarn__file_close(file);
        return status;
    }
    file->size = id.size;
    if (tarn__remote_is_here(file->remote)) file->fd = tarn__remote_copy(file->remote);
    if (file->fd < 0) return TARN_OK;
    tarn__remote_close(file->remote);
    file->remote = NULL;
    return TARN_OK;
}

tarn_status tarn__file_read(const tarn__file *file, void *buf, size_t len,
                            uint64_t offset, tarn_error *err)
{
    if (!file->remote)
        return tarn__read_exact(file->fd, file->path, buf, len, offset, err);
    tarn__remote_piece piece = {file->remote, offset, len, buf, false};
    if (tarn__range_in(offset, len, file->size)) return tarn__remote_read(&piece, 1, err);
    return tarn__fail_at(
        err, TARN_ERR_TRUNCATED, file->path, offset,
        "the file ends here (found %llu of %zu bytes)",
        (unsigned long long)(offset < file->size ? file->size - offset : 0), len);
}

void tarn__file_close(tarn__file *file)
{
    tarn__remote_close(file->remote);
    if (file->fd >= 0) close(file->fd);
    free(file->path);
    *file = (tarn__file){.fd = -1};
}

tarn_status tarn__read_at(int fd, const char *path, void *buf, size_t len,
                          uint64_t offset, size_t *out_got, tarn_error *err)
{
    size_t got = 0;
    if (offset > INT64_MAX || len > INT64_MAX - offset)
        return tarn__fail_at(err, TARN_ERR_FORMAT, path, offset,
                             "the offset is larger than any file");
    while (got < len) {
        ssize_t n = pread(fd, (char *)buf + got, len - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            tarn_status status = tarn__fail_errno(err, path, errno, "cannot read");
            if (err) err->offset = offset + got;
            return status;
        }
        if (n == 0) break;
        got += (size_t)n;
    }
    *out_got = got;
    return TARN_OK;
}

tarn_status tarn__read_exact(int fd, const char *path, void *buf, size_t len,
                             uint64_t offset, tarn_error *err)
{
    size_t got;
    TARN_TRY(tarn__read_at(fd, path, buf, len, offset, &got, err));
    if (got == len) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_TRUNCATED, path, offset,
                         "the file ends here (found %zu of %zu bytes)", got, len);
}

tarn_status tarn__write_at(int fd, const char *path, const void *data, size_t len,
                           uint64_t offset, tarn_error *err)
{
    const char *at = data;
    while (len) {
        ssize_t n = pwrite(fd, at, len, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            tarn_status status = tarn__fail_errno(err, path, errno, "cannot write");
            if (err) err->offset = offset;
            return status;
        }
        at += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return TARN_OK;
}

/* Small files are copied: a copy cannot change while it is checked and used. The start of
 * others is announced, because the system may read several MB at the first access to a
 * map before it returns. */
enum { COPIED = 256 << 10, START = 128 << 10 };

tarn_status tarn__contents_open(tarn__contents *c, const char *path, tarn_error *err)
{
    tarn__file file;
    *c = (tarn__contents){0};
    TARN_TRY(tarn__file_open(&file, path, err));
    tarn_status status = TARN_OK;
    c->size = file.size;
    void *map = NULL;
    if (file.size > COPIED && tarn__is_local(file.fd))
        map = tarn__map(file.fd, file.size);
    if (map) (void)posix_fadvise(file.fd, 0, START, POSIX_FADV_WILLNEED);
    c->mapped = map != NULL;
    c->data = map ? map : malloc(file.size ? (size_t)file.size : 1);
    if (!c->data)
        status = tarn__fail_memory(err);
    else if (!c->mapped)
        status = tarn__read_exact(file.fd, path, c->data, (size_t)file.size, 0, err);
    tarn__file_close(&file);
    if (status != TARN_OK) tarn__contents_close(c);
    return status;
}

void tarn__contents_close(tarn__contents *c)
{
    if (c->mapped)
        tarn__unmap(c->data, c->size);
    else
        free(c->data);
    *c = (tarn__contents){0};
}

bool tarn__is_local(int fd)
{
    static const unsigned long local[] = {
        0xef53,     /* ext2, ext3, ext4 */
        0x58465342, /* xfs */
        0x9123683e, /* btrfs */
        0x2fc12fc1, /* zfs */
        0xf2f52010, /* f2fs */
        0xca451a4e, /* bcachefs */
        0x01021994, /* tmpfs */
        0x858458f6, /* ramfs */
        0x794c7630, /* overlayfs */
        0x73717368, /* squashfs */
        0xe0f5e1e2, /* erofs */
        0x9660,     /* iso9660 */
        0x4d44,     /* fat */
        0x2011bab0, /* exfat */
        0x7366746e, /* ntfs3 */
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return false;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if (((unsigned long)fs.f_type & 0xffffffffu) == local[i]) return true;
    return false;
}

bool tarn__page_is_resident(const unsigned char *map, uint64_t offset)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char resident = 1;
    void *at = (void *)(((uintptr_t)map + offset) & ~(page - 1));
    return mincore(at, 1, &resident) != 0 || (resident & 1);
}

/* Uses mincore, because even a read with RWF_NOWAIT starts readahead, which would compete
 * with the direct reads that follow. The map is never accessed. */
bool tarn__is_cached(const tarn__file *file)
{
    enum { PROBES = 16 };
    unsigned cached = 0;
    unsigned char *map = tarn__map(file->fd, file->size);
    if (!map) return true;
    for (unsigned i = 0; i < PROBES; i++)
        cached += tarn__page_is_resident(map, file->size / PROBES * i);
    tarn__unmap(map, file->size);
    return cached >= PROBES / 2;
}

long long tarn__coarse_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

void *tarn__map(int fd, uint64_t size)
{
    if (size == 0 || size > SIZE_MAX / 2) return NULL;
    void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return NULL;
    tarn__guard_add(map, (size_t)size);
    return map;
}

void tarn__map_will_need(const void *data, uint64_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)data % page;
    (void)posix_madvise((void *)((uintptr_t)data - before), (size_t)(size + before),
                        POSIX_MADV_WILLNEED);
}

void tarn__unmap(void *map, uint64_t size)
{
    if (!map) return;
    tarn__guard_remove(map);
    munmap(map, (size_t)size);
}
