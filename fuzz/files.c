/* Files in memory for the fuzz targets: files in a folder made by mkdtemp, or created
 * with memfd_create, never reach the system. A system call costs more than most inputs.
 * Here every map ends where its file ends, so that the sanitizer detects reads past it.
 * Linked with --wrap (meson.build); calls for all other files are passed to the system.
 *
 * After each input, everything that was opened and mapped must be closed again. */
#include "common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The fuzzer should explore the library, not this file. */
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))),                   \
                             apply_to = function)

enum {
    MAX_NODES = 64,
    MAX_HANDLES = 256,
    MAX_MAPS = 256,
    MAX_NAME = 5000, /* longer than the system allows */
    PAGE = 4096,
    FIRST_FD = 1 << 20,
    KEPT = 1 << 20, /* a buffer up to this size is reused for the next file */
};

typedef struct node {
    char name[MAX_NAME]; /* "": no name */
    size_t name_len;
    bool is_folder;
    unsigned uses; /* open handles and maps */
    unsigned maps; /* maps of the buffer itself */
    uint64_t number;
    uint64_t changed;
    unsigned char *data; /* bytes from size on are poisoned */
    size_t size, capacity;
    const void *lock; /* the handle that holds it */
} node;

typedef struct handle {
    node *node;
    bool is_kept; /* owned by the target, kept from input to input */
    int flags;
    size_t at;
} handle;

typedef struct map {
    unsigned char *data;
    size_t size;
    node *node; /* NULL: a separate copy */
} map;

typedef struct listing {
    int fd;
    unsigned next;
    struct dirent entry;
} listing;

static node nodes[MAX_NODES];
static handle handles[MAX_HANDLES];
static map maps[MAX_MAPS];
static char root[MAX_NAME];
static uint64_t ticks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define LOCKED                                                                           \
    __attribute__((cleanup(unlock), unused)) const int locked = pthread_mutex_lock(&lock)

static void unlock(const int *locked)
{
    CHECK(*locked == 0);
    pthread_mutex_unlock(&lock);
}

/* Defines a wrapper for a system call, which is __real_NAME here. */
#define WRAPPED(type, name, ...)                                                         \
    type __real_##name(__VA_ARGS__);                                                     \
    type __wrap_##name(__VA_ARGS__);                                                     \
    type __wrap_##name(__VA_ARGS__)

static int fail(int why)
{
    errno = why;
    return -1;
}

/* --- Nodes ------------------------------------------------------------------------ */

static void set_size(node *n, size_t size)
{
    if (size > n->capacity) {
        CHECK(n->maps == 0); /* no write extends a mapped file */
        size_t capacity = (size > 2 * n->capacity ? size : 2 * n->capacity) + PAGE - 1;
        capacity -= capacity % PAGE;
        unsigned char *data = aligned_alloc(PAGE, capacity);
        CHECK(data);
        if (n->size) memcpy(data, n->data, n->size);
        if (n->data) ASAN_UNPOISON_MEMORY_REGION(n->data, n->capacity);
        free(n->data);
        n->data = data;
        n->capacity = capacity;
    }
    if (!n->data) return;
    ASAN_UNPOISON_MEMORY_REGION(n->data, n->capacity);
    if (size > n->size) memset(n->data + n->size, 0, size - n->size);
    ASAN_POISON_MEMORY_REGION(n->data + size, n->capacity - size);
    n->size = size;
    n->changed = ++ticks;
}

static void set_name(node *n, const char *name)
{
    n->name_len = strlen(name);
    memcpy(n->name, name, n->name_len + 1);
}

static node *new_node(const char *name, bool is_folder)
{
    CHECK(strlen(name) < MAX_NAME);
    for (node *n = nodes; n < nodes + MAX_NODES; n++) {
        if (n->name[0] || n->uses) continue;
        if (n->capacity > KEPT) {
            ASAN_UNPOISON_MEMORY_REGION(n->data, n->capacity);
            free(n->data);
            n->data = NULL;
            n->size = n->capacity = 0;
        }
        set_size(n, 0);
        set_name(n, name);
        n->is_folder = is_folder;
        n->number = ++ticks;
        n->lock = NULL;
        return n;
    }
    abort(); /* too many files */
}

static node *find(const char *name)
{
    size_t len = strlen(name);
    for (node *n = nodes; n < nodes + MAX_NODES; n++)
        if (n->name[0] && n->name_len == len && memcmp(n->name, name, len) == 0) return n;
    return NULL;
}

static handle *handle_of(int fd)
{
    if (fd < FIRST_FD || fd >= FIRST_FD + MAX_HANDLES) return NULL;
    return handles[fd - FIRST_FD].node ? &handles[fd - FIRST_FD] : NULL;
}

/* The node of "/proc/self/fd/NUMBER". */
static node *descriptor_node(const char *path)
{
    static const char prefix[] = "/proc/self/fd/";
    if (strncmp(path, prefix, sizeof prefix - 1) != 0) return NULL;
    handle *h = handle_of(atoi(path + sizeof prefix - 1));
    return h ? h->node : NULL;
}

/* Whether a path is in our folder; full is the name with the folder before it, without a
 * trailing slash. */
static bool is_ours(int folder, const char *path, char *full)
{
    handle *h = handle_of(folder);
    size_t len = strlen(root);
    if (descriptor_node(path)) {
        snprintf(full, MAX_NAME, "%s", path);
        return true;
    }
    if (h && path[0] != '/')
        CHECK(snprintf(full, MAX_NAME, "%s/%s", h->node->name, path) < MAX_NAME);
    else if (len && strncmp(path, root, len) == 0)
        CHECK(snprintf(full, MAX_NAME, "%s", path) < MAX_NAME);
    else
        return false;
    for (len = strlen(full); full[len - 1] == '/'; len--)
        full[len - 1] = '\0';
    return true;
}

static node *node_of(const char *full)
{
    node *n = descriptor_node(full);
    return n ? n : find(full);
}

/* --- Names ------------------------------------------------------------------------ */

char *mkdtemp(char *template)
{
    LOCKED;
    memset(template + strlen(template) - 6, 'a', 6);
    CHECK(!root[0] && strlen(template) < MAX_NAME);
    memcpy(root, template, strlen(template) + 1);
    new_node(root, true);
    return template;
}

static int new_handle(node *n, int flags)
{
    for (int i = 0; i < MAX_HANDLES; i++) {
        if (handles[i].node) continue;
        handles[i] = (handle){.node = n, .flags = flags};
        n->uses++;
        return FIRST_FD + i;
    }
    return fail(EMFILE);
}

int memfd_create(const char *name, unsigned flags)
{
    LOCKED;
    (void)name;
    (void)flags;
    int fd = new_handle(new_node("", false), O_RDWR);
    handle_of(fd)->is_kept = true;
    return fd;
}

static int open_ours(const char *full, int flags)
{
    node *n = node_of(full);
    if (flags & O_DIRECT) return fail(EINVAL);
    if (n && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return fail(EEXIST);
    if (!n && !(flags & O_CREAT)) return fail(ENOENT);
    if (n && n->is_folder && (flags & O_ACCMODE) != O_RDONLY) return fail(EISDIR);
    if (n && !n->is_folder && (flags & O_DIRECTORY)) return fail(ENOTDIR);
    if (!n) n = new_node(full, false);
    if (flags & O_TRUNC) set_size(n, 0);
    return new_handle(n, flags);
}

WRAPPED(int, open64, const char *path, int flags, ...)
{
    char full[MAX_NAME];
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    LOCKED;
    if (is_ours(-1, path, full)) return open_ours(full, flags);
    return __real_open64(path, flags, mode);
}

WRAPPED(int, openat64, int folder, const char *path, int flags, ...)
{
    char full[MAX_NAME];
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    LOCKED;
    if (is_ours(folder, path, full)) return open_ours(full, flags);
    return __real_openat64(folder, path, flags, mode);
}

WRAPPED(int, close, int fd)
{
    if (fd < FIRST_FD) return __real_close(fd);
    LOCKED;
    handle *h = handle_of(fd);
    CHECK(h); /* closed twice */
    if (h->node->lock == h) h->node->lock = NULL;
    h->node->uses--;
    h->node = NULL;
    return 0;
}

static int unlink_ours(const char *full)
{
    node *n = find(full);
    if (!n) return fail(ENOENT);
    n->name[0] = '\0';
    return 0;
}

WRAPPED(int, unlink, const char *path)
{
    char full[MAX_NAME];
    LOCKED;
    return is_ours(-1, path, full) ? unlink_ours(full) : __real_unlink(path);
}

WRAPPED(int, unlinkat, int folder, const char *path, int flags)
{
    char full[MAX_NAME];
    LOCKED;
    return is_ours(folder, path, full) ? unlink_ours(full)
                                       : __real_unlinkat(folder, path, flags);
}

WRAPPED(int, rmdir, const char *path)
{
    char full[MAX_NAME];
    LOCKED;
    return is_ours(-1, path, full) ? unlink_ours(full) : __real_rmdir(path);
}

WRAPPED(int, mkdir, const char *path, mode_t mode)
{
    char full[MAX_NAME];
    LOCKED;
    if (!is_ours(-1, path, full)) return __real_mkdir(path, mode);
    if (find(full)) return fail(EEXIST);
    new_node(full, true);
    return 0;
}

static int rename_ours(const char *from, const char *to, bool replace)
{
    node *n = find(from), *old = find(to);
    if (!n) return fail(ENOENT);
    if (old && !replace) return fail(EEXIST);
    if (old && old != n) old->name[0] = '\0';
    set_name(n, to);
    return 0;
}

WRAPPED(int, rename, const char *from, const char *to)
{
    char a[MAX_NAME], b[MAX_NAME];
    LOCKED;
    if (!is_ours(-1, from, a)) return __real_rename(from, to);
    return is_ours(-1, to, b) ? rename_ours(a, b, true) : fail(EXDEV);
}

WRAPPED(int, renameat2, int in, const char *from, int out, const char *to, unsigned flags)
{
    char a[MAX_NAME], b[MAX_NAME];
    LOCKED;
    if (!is_ours(in, from, a)) return __real_renameat2(in, from, out, to, flags);
    return is_ours(out, to, b) ? rename_ours(a, b, !flags) : fail(EXDEV);
}

WRAPPED(char *, realpath, const char *path, char *out)
{
    char full[MAX_NAME];
    LOCKED;
    if (!is_ours(-1, path, full)) return __real_realpath(path, out);
    CHECK(!out);
    if (node_of(full)) return strdup(full);
    errno = ENOENT;
    return NULL;
}

WRAPPED(int, access, const char *path, int mode)
{
    char full[MAX_NAME];
    LOCKED;
    if (!is_ours(-1, path, full)) return __real_access(path, mode);
    return node_of(full) ? 0 : fail(ENOENT);
}

/* --- File attributes ---------------------------------------------------------------- */

static int stat_node(const node *n, struct stat *out)
{
    if (!n) return fail(ENOENT);
    *out = (struct stat){
        .st_dev = 0xf1,
        .st_ino = n->number,
        .st_mode = n->is_folder ? S_IFDIR | 0700 : S_IFREG | 0600,
        .st_nlink = 1,
        .st_size = (off_t)n->size,
        .st_blksize = PAGE,
        .st_blocks = (blkcnt_t)((n->size + 511) / 512),
        .st_mtim = {.tv_sec = (time_t)n->changed},
        .st_ctim = {.tv_sec = (time_t)n->changed},
    };
    return 0;
}

WRAPPED(int, fstat64, int fd, struct stat *out)
{
    if (fd < FIRST_FD) return __real_fstat64(fd, out);
    LOCKED;
    handle *h = handle_of(fd);
    return h ? stat_node(h->node, out) : fail(EBADF);
}

WRAPPED(int, stat64, const char *path, struct stat *out)
{
    char full[MAX_NAME];
    LOCKED;
    return is_ours(-1, path, full) ? stat_node(node_of(full), out)
                                   : __real_stat64(path, out);
}

WRAPPED(int, lstat64, const char *path, struct stat *out)
{
    char full[MAX_NAME];
    LOCKED;
    return is_ours(-1, path, full) ? stat_node(node_of(full), out)
                                   : __real_lstat64(path, out);
}

WRAPPED(int, fstatat64, int folder, const char *path, struct stat *out, int flags)
{
    char full[MAX_NAME];
    LOCKED;
    return is_ours(folder, path, full) ? stat_node(node_of(full), out)
                                       : __real_fstatat64(folder, path, out, flags);
}

WRAPPED(int, fstatfs64, int fd, struct statfs *out)
{
    enum { TMPFS = 0x01021994 };
    if (fd < FIRST_FD) return __real_fstatfs64(fd, out);
    *out = (struct statfs){.f_type = TMPFS, .f_bsize = PAGE};
    return 0;
}

WRAPPED(int, fstatvfs64, int fd, struct statvfs *out)
{
    if (fd < FIRST_FD) return __real_fstatvfs64(fd, out);
    *out = (struct statvfs){
        .f_bsize = PAGE, .f_frsize = PAGE, .f_blocks = 1 << 20, .f_bavail = 1 << 20};
    return 0;
}

WRAPPED(int, flock, int fd, int operation)
{
    if (fd < FIRST_FD) return __real_flock(fd, operation);
    LOCKED;
    handle *h = handle_of(fd);
    CHECK(h);
    if (operation & LOCK_UN) {
        if (h->node->lock == h) h->node->lock = NULL;
        return 0;
    }
    if (h->node->lock && h->node->lock != h) {
        CHECK(operation & LOCK_NB); /* it would deadlock */
        return fail(EWOULDBLOCK);
    }
    if (operation & LOCK_EX) h->node->lock = h;
    return 0;
}

WRAPPED(int, fcntl64, int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    long argument = va_arg(args, long);
    va_end(args);
    if (fd < FIRST_FD) return __real_fcntl64(fd, command, argument);
    LOCKED;
    handle *h = handle_of(fd);
    CHECK(h && (command == F_GETFL || command == F_SETFL));
    if (command == F_SETFL) return argument & O_DIRECT ? fail(EINVAL) : 0;
    return h->flags;
}

/* --- Reading and writing ---------------------------------------------------------- */

static ssize_t read_node(node *n, void *out, size_t len, size_t at)
{
    if (n->is_folder) return fail(EISDIR);
    if (at >= n->size) return 0;
    if (len > n->size - at) len = n->size - at;
    memcpy(out, n->data + at, len);
    return (ssize_t)len;
}

static ssize_t write_node(node *n, const void *data, size_t len, size_t at)
{
    if (at + len > n->size) set_size(n, at + len);
    if (len) memcpy(n->data + at, data, len);
    n->changed = ++ticks;
    return (ssize_t)len;
}

WRAPPED(ssize_t, read, int fd, void *out, size_t len)
{
    if (fd < FIRST_FD) return __real_read(fd, out, len);
    LOCKED;
    handle *h = handle_of(fd);
    if (!h) return fail(EBADF);
    ssize_t n = read_node(h->node, out, len, h->at);
    if (n > 0) h->at += (size_t)n;
    return n;
}

WRAPPED(ssize_t, pread64, int fd, void *out, size_t len, off_t at)
{
    if (fd < FIRST_FD) return __real_pread64(fd, out, len, at);
    LOCKED;
    handle *h = handle_of(fd);
    if (!h) return fail(EBADF);
    return at < 0 ? fail(EINVAL) : read_node(h->node, out, len, (size_t)at);
}

WRAPPED(ssize_t, write, int fd, const void *data, size_t len)
{
    if (fd < FIRST_FD) return __real_write(fd, data, len);
    LOCKED;
    handle *h = handle_of(fd);
    if (!h || (h->flags & O_ACCMODE) == O_RDONLY) return fail(EBADF);
    if (h->flags & O_APPEND) h->at = h->node->size;
    h->at += len;
    return write_node(h->node, data, len, h->at - len);
}

WRAPPED(ssize_t, pwrite64, int fd, const void *data, size_t len, off_t at)
{
    if (fd < FIRST_FD) return __real_pwrite64(fd, data, len, at);
    LOCKED;
    handle *h = handle_of(fd);
    if (!h || (h->flags & O_ACCMODE) == O_RDONLY) return fail(EBADF);
    return at < 0 ? fail(EINVAL) : write_node(h->node, data, len, (size_t)at);
}

WRAPPED(ssize_t, copy_file_range, int in, off_t *in_at, int out, off_t *out_at,
        size_t len, unsigned flags)
{
    if (in < FIRST_FD && out < FIRST_FD)
        return __real_copy_file_range(in, in_at, out, out_at, len, flags);
    return fail(EXDEV);
}

WRAPPED(off_t, lseek64, int fd, off_t at, int whence)
{
    if (fd < FIRST_FD) return __real_lseek64(fd, at, whence);
    LOCKED;
    handle *h = handle_of(fd);
    if (!h) return fail(EBADF);
    switch (whence) {
    case SEEK_SET:
        break;
    case SEEK_CUR:
        at += (off_t)h->at;
        break;
    case SEEK_END:
        at += (off_t)h->node->size;
        break;
    case SEEK_DATA:
        return at < (off_t)h->node->size ? at : fail(ENXIO);
    case SEEK_HOLE:
        return at < (off_t)h->node->size ? (off_t)h->node->size : fail(ENXIO);
    default:
        return fail(EINVAL);
    }
    if (at < 0) return fail(EINVAL);
    h->at = (size_t)at;
    return at;
}

WRAPPED(int, ftruncate64, int fd, off_t size)
{
    if (fd < FIRST_FD) return __real_ftruncate64(fd, size);
    LOCKED;
    handle *h = handle_of(fd);
    if (!h || size < 0) return fail(EINVAL);
    set_size(h->node, (size_t)size);
    return 0;
}

WRAPPED(int, fallocate64, int fd, int mode, off_t at, off_t len)
{
    if (fd < FIRST_FD) return __real_fallocate64(fd, mode, at, len);
    LOCKED;
    handle *h = handle_of(fd);
    if (!h || at < 0 || len <= 0) return fail(EINVAL);
    if (mode & ~FALLOC_FL_KEEP_SIZE) return fail(EOPNOTSUPP);
    size_t end = (size_t)at + (size_t)len;
    if (!mode && end > h->node->size) set_size(h->node, end);
    return 0;
}

WRAPPED(int, fsync, int fd)
{
    return fd < FIRST_FD ? __real_fsync(fd) : 0;
}

WRAPPED(int, posix_fadvise64, int fd, off_t at, off_t len, int advice)
{
    return fd < FIRST_FD ? __real_posix_fadvise64(fd, at, len, advice) : 0;
}

WRAPPED(int, sync_file_range, int fd, off_t at, off_t len, unsigned flags)
{
    return fd < FIRST_FD ? __real_sync_file_range(fd, at, len, flags) : 0;
}

/* --- Maps ------------------------------------------------------------------------- */

static map *map_at(const void *at)
{
    for (map *m = maps; m < maps + MAX_MAPS; m++)
        if (m->data && (const unsigned char *)at >= m->data &&
            (const unsigned char *)at < m->data + m->size)
            return m;
    return NULL;
}

/* Read-only maps are copies: as usual, no two maps have the same address. */
static void *map_node(node *n, size_t size, bool is_shared, size_t at)
{
    map *m = maps;
    CHECK(at % PAGE == 0 && size && at < n->size && size <= n->size - at);
    while (m < maps + MAX_MAPS && m->data)
        m++;
    CHECK(m < maps + MAX_MAPS);
    if (is_shared) {
        *m = (map){.data = n->data + at, .size = size, .node = n};
        n->uses++;
        n->maps++;
    } else {
        void *copy = NULL;
        CHECK(posix_memalign(&copy, PAGE, size) == 0);
        memcpy(copy, n->data + at, size);
        *m = (map){.data = copy, .size = size};
    }
    return m->data;
}

WRAPPED(void *, mmap64, void *to, size_t size, int rights, int flags, int fd, off_t at)
{
    if (fd < FIRST_FD) return __real_mmap64(to, size, rights, flags, fd, at);
    LOCKED;
    handle *h = handle_of(fd);
    CHECK(h && !to);
    return map_node(h->node, size, flags & MAP_SHARED && rights & PROT_WRITE, (size_t)at);
}

WRAPPED(int, munmap, void *at, size_t size)
{
    LOCKED;
    map *m = map_at(at);
    if (!m) return __real_munmap(at, size);
    CHECK(m->data == at && m->size == size);
    if (m->node) {
        m->node->uses--;
        m->node->maps--;
    } else {
        free(m->data);
    }
    *m = (map){0};
    return 0;
}

WRAPPED(int, madvise, void *at, size_t size, int advice)
{
    LOCKED;
    return map_at(at) ? 0 : __real_madvise(at, size, advice);
}

WRAPPED(int, mincore, void *at, size_t size, unsigned char *out)
{
    LOCKED;
    if (!map_at(at)) return __real_mincore(at, size, out);
    memset(out, 1, (size + PAGE - 1) / PAGE);
    return 0;
}

/* --- Folders ---------------------------------------------------------------------- */

/* Distinguished from the system's by their addresses. */
static listing listings[8];

static listing *listing_of(DIR *dir)
{
    listing *l = (listing *)(void *)dir;
    return l >= listings && l < listings + 8 ? l : NULL;
}

WRAPPED(DIR *, opendir, const char *path)
{
    char full[MAX_NAME];
    LOCKED;
    if (!is_ours(-1, path, full)) return __real_opendir(path);
    int fd = open_ours(full, O_RDONLY | O_DIRECTORY);
    for (listing *l = listings; fd >= 0 && l < listings + 8; l++) {
        if (l->fd) continue;
        *l = (listing){.fd = fd};
        return (DIR *)(void *)l;
    }
    CHECK(fd < 0);
    return NULL;
}

WRAPPED(struct dirent *, readdir64, DIR *dir)
{
    listing *l = listing_of(dir);
    if (!l) return __real_readdir64(dir);
    LOCKED;
    const char *folder = handle_of(l->fd)->node->name;
    size_t len = strlen(folder);
    while (l->next < MAX_NODES) {
        const node *n = &nodes[l->next++];
        if (strncmp(n->name, folder, len) != 0 || n->name[len] != '/' ||
            strchr(n->name + len + 1, '/'))
            continue;
        snprintf(l->entry.d_name, sizeof l->entry.d_name, "%s", n->name + len + 1);
        l->entry.d_ino = n->number;
        l->entry.d_type = n->is_folder ? DT_DIR : DT_REG;
        return &l->entry;
    }
    return NULL;
}

WRAPPED(int, dirfd, DIR *dir)
{
    listing *l = listing_of(dir);
    return l ? l->fd : __real_dirfd(dir);
}

WRAPPED(int, closedir, DIR *dir)
{
    listing *l = listing_of(dir);
    if (!l) return __real_closedir(dir);
    int fd = l->fd;
    *l = (listing){0};
    return __wrap_close(fd);
}

/* --- After each input ------------------------------------------------------------- */

WRAPPED(int, LLVMFuzzerTestOneInput, const uint8_t *data, size_t size)
{
    int result = __real_LLVMFuzzerTestOneInput(data, size);
    for (size_t i = 0; i < MAX_HANDLES; i++)
        CHECK(!handles[i].node || handles[i].is_kept);
    for (size_t i = 0; i < MAX_MAPS; i++)
        CHECK(!maps[i].data);
    return result;
}

#pragma clang attribute pop
