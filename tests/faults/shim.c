/* A system that fails on demand: preloaded (LD_PRELOAD) into a program, it intercepts
 * every libc call on files in one folder. It counts the calls, and at a chosen one
 * returns an error, transfers fewer bytes than requested, or kills the process. It can
 * also record every change of the disk for tests/faults/test_power.py.
 *
 *   FAULT_HOME    calls on paths in this folder count, all others pass
 *   FAULT_TRACE   a file that gets one line for each call: number, call, path
 *   FAULT_RECORD  a file that gets each change, with its bytes
 *   FAULT_CALL    only calls of this kind count for FAULT_AT; default: all
 *   FAULT_AT      the number of the call that fails, from 1; 0: none
 *   FAULT_HOW     "errno N", "short" (half of the bytes), "kill" (before the call),
 *                 "after" (killed right after it)
 *   FAULT_SHORT   every transfer moves at most this many bytes
 *
 * A second fsync of a descriptor whose first failed ends the process with status 97. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { FDS = 4096, SECOND_FSYNC = 97 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char home[PATH_MAX];
static size_t home_len;
static int trace = -1, record = -1;
static long count, matched, fault_at, short_most;
static char how[32], only[32];
static char *paths[FDS]; /* of descriptors in the folder */
static bool failed_sync[FDS];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) abort();
    return f;
}

/* The library's own files bypass the wrappers and use numbers far from the program's. */
static int open_own(const char *name)
{
    const char *path = getenv(name);
    if (!path || !*path) return -1;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                          O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, fd);
    return high;
}

static long number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("FAULT_HOME"), *way = getenv("FAULT_HOW");
    if (!folder) return;
    snprintf(home, sizeof home, "%s", folder);
    snprintf(how, sizeof how, "%s", way ? way : "");
    const char *call = getenv("FAULT_CALL");
    snprintf(only, sizeof only, "%s", call ? call : "");
    fault_at = number_of("FAULT_AT");
    short_most = number_of("FAULT_SHORT");
    trace = open_own("FAULT_TRACE");
    record = open_own("FAULT_RECORD");
    home_len = strlen(home);
}

static bool beneath(const char *path)
{
    return home_len && strncmp(path, home, home_len) == 0 &&
           (!path[home_len] || path[home_len] == '/');
}

/* The path of a call on (folder, name), in out; false if it is not in our folder. */
static bool place(int folder, const char *name, char *out)
{
    if (name[0] == '/') {
        snprintf(out, PATH_MAX, "%s", name);
    } else if (folder >= 0 && folder < FDS && paths[folder]) {
        snprintf(out, PATH_MAX, "%s/%s", paths[folder], name);
    } else {
        return false;
    }
    return beneath(out);
}

static bool place_fd(int fd, char *out)
{
    pthread_mutex_lock(&lock);
    bool ours = fd >= 0 && fd < FDS && paths[fd];
    if (ours) snprintf(out, PATH_MAX, "%s", paths[fd]);
    pthread_mutex_unlock(&lock);
    return ours;
}

static void put(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        ssize_t n = syscall(SYS_write, fd, at, len);
        if (n <= 0) abort();
        at += n;
        len -= (size_t)n;
    }
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

typedef struct turn {
    bool fail, half, after;
} turn;

/* Counts a call and decides what happens to it. With fail, errno is set. */
static turn take_turn(const char *call, const char *path)
{
    turn t = {0};
    char line[PATH_MAX + 64];
    pthread_mutex_lock(&lock);
    long number = ++count;
    bool meant = (!only[0] || !strcmp(only, call)) && ++matched == fault_at;
    if (trace >= 0) {
        int len = snprintf(line, sizeof line, "%ld %s %s\n", number, call, path);
        put(trace, line, (size_t)len);
    }
    pthread_mutex_unlock(&lock);
    if (!meant) return t;
    if (!strcmp(how, "kill")) die();
    t.after = !strcmp(how, "after");
    t.half = !strcmp(how, "short");
    if (!strncmp(how, "errno ", 6)) {
        t.fail = true;
        errno = atoi(how + 6);
    }
    return t;
}

static void done(turn t)
{
    if (t.after) die();
}

/* How much of len is transferred. */
static size_t some(turn t, size_t len)
{
    if (t.half && len > 1) len /= 2;
    if (short_most && len > (size_t)short_most) len = (size_t)short_most;
    return len;
}

/* A change of the disk: its name, two paths, two numbers, bytes. */
static void note(const char *call, const char *path, const char *other, uint64_t a,
                 uint64_t b, const void *data, size_t len)
{
    char line[2 * PATH_MAX + 128];
    int saved = errno;
    if (record < 0) return;
    pthread_mutex_lock(&lock);
    int n =
        snprintf(line, sizeof line, "%s\t%s\t%s\t%llu\t%llu\t%zu\n", call, path,
                 other ? other : "", (unsigned long long)a, (unsigned long long)b, len);
    put(record, line, (size_t)n);
    put(record, data, len);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

static uint64_t inode(int fd)
{
    struct stat st;
    return REAL(fstat)(fd, &st) == 0 ? st.st_ino : 0;
}

/* A change of a file's bytes, with the file's modification time after it. */
static void note_file(const char *call, int fd, const char *path, uint64_t at,
                      const void *data, size_t len)
{
    char when[32] = "0";
    struct stat st;
    int saved = errno;
    if (record < 0) return;
    if (REAL(fstat)(fd, &st) == 0)
        snprintf(when, sizeof when, "%lld",
                 st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec);
    note(call, path, when, st.st_ino, at, data, len);
    errno = saved;
}

static void remember(int fd, const char *path)
{
    if (fd < 0 || fd >= FDS) return;
    pthread_mutex_lock(&lock);
    free(paths[fd]);
    paths[fd] = path ? strdup(path) : NULL;
    failed_sync[fd] = false;
    pthread_mutex_unlock(&lock);
}

static int open_at(int folder, const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    if (!place(folder, name, path)) {
        int fd = (int)syscall(SYS_openat, folder, name, flags, mode);
        if (fd >= 0) remember(fd, NULL);
        return fd;
    }
    turn t = take_turn(flags & O_CREAT ? "create" : "open", path);
    if (t.fail) return -1;
    bool was = syscall(SYS_faccessat, folder, name, F_OK) == 0;
    int fd = (int)syscall(SYS_openat, folder, name, flags, mode);
    if (fd >= 0) {
        remember(fd, path);
        if (!was) note("create", path, NULL, inode(fd), 0, NULL, 0);
        if (was && flags & O_TRUNC) note_file("truncate", fd, path, 0, NULL, 0);
    }
    done(t);
    return fd;
}

static mode_t mode_of(int flags, va_list more)
{
    return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(more, mode_t) : 0;
}

#define OPEN(name)                                                                       \
    int name(const char *path, int flags, ...)                                           \
    {                                                                                    \
        va_list more;                                                                    \
        va_start(more, flags);                                                           \
        mode_t mode = mode_of(flags, more);                                              \
        va_end(more);                                                                    \
        return open_at(AT_FDCWD, path, flags, mode);                                     \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                     \
    int name(int folder, const char *path, int flags, ...)                               \
    {                                                                                    \
        va_list more;                                                                    \
        va_start(more, flags);                                                           \
        mode_t mode = mode_of(flags, more);                                              \
        va_end(more);                                                                    \
        return open_at(folder, path, flags, mode);                                       \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd)
{
    char path[PATH_MAX];
    if (!place_fd(fd, path)) return (int)syscall(SYS_close, fd);
    turn t = take_turn("close", path);
    int e = errno;
    remember(fd, NULL);
    int status = (int)syscall(SYS_close, fd); /* closed even if it fails */
    done(t);
    if (!t.fail) return status;
    errno = e;
    return -1;
}

DIR *opendir(const char *name)
{
    char path[PATH_MAX];
    if (!place(AT_FDCWD, name, path)) return REAL(opendir)(name);
    turn t = take_turn("opendir", path);
    if (t.fail) return NULL;
    DIR *dir = REAL(opendir)(name);
    if (dir) remember(dirfd(dir), path);
    done(t);
    return dir;
}

int closedir(DIR *dir)
{
    remember(dirfd(dir), NULL);
    return REAL(closedir)(dir);
}

#define READDIR(name, type)                                                              \
    struct type *name(DIR *dir)                                                          \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place_fd(dirfd(dir), path)) return REAL(name)(dir);                         \
        turn t = take_turn("readdir", path);                                             \
        if (t.fail) return NULL;                                                         \
        struct type *entry = REAL(name)(dir);                                            \
        done(t);                                                                         \
        return entry;                                                                    \
    }
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)

/* --- Bytes ----------------------------------------------------------------------- */

ssize_t read(int fd, void *buf, size_t len)
{
    char path[PATH_MAX];
    if (!place_fd(fd, path)) return REAL(read)(fd, buf, len);
    turn t = take_turn("read", path);
    if (t.fail) return -1;
    ssize_t n = REAL(read)(fd, buf, some(t, len));
    done(t);
    return n;
}

#define PREAD(name)                                                                      \
    ssize_t name(int fd, void *buf, size_t len, off_t at)                                \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place_fd(fd, path)) return REAL(name)(fd, buf, len, at);                    \
        turn t = take_turn("pread", path);                                               \
        if (t.fail) return -1;                                                           \
        ssize_t n = REAL(name)(fd, buf, some(t, len), at);                               \
        done(t);                                                                         \
        return n;                                                                        \
    }
PREAD(pread)
PREAD(pread64)

ssize_t write(int fd, const void *data, size_t len)
{
    char path[PATH_MAX];
    if (!place_fd(fd, path)) return REAL(write)(fd, data, len);
    turn t = take_turn("write", path);
    if (t.fail) return -1;
    off_t at = lseek(fd, 0, SEEK_CUR);
    ssize_t n = REAL(write)(fd, data, some(t, len));
    if (n > 0) note_file("write", fd, path, (uint64_t)at, data, (size_t)n);
    done(t);
    return n;
}

/* Direct writes consist of whole blocks, also when they are short. */
static size_t some_at(int fd, turn t, size_t len)
{
    size_t n = some(t, len);
    if (n < len && fcntl(fd, F_GETFL) & O_DIRECT) {
        n = n / 4096 * 4096;
        if (!n) n = len < 4096 ? len : 4096;
    }
    return n;
}

#define PWRITE(name)                                                                     \
    ssize_t name(int fd, const void *data, size_t len, off_t at)                         \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place_fd(fd, path)) return REAL(name)(fd, data, len, at);                   \
        turn t = take_turn("pwrite", path);                                              \
        if (t.fail) return -1;                                                           \
        ssize_t n = REAL(name)(fd, data, some_at(fd, t, len), at);                       \
        if (n > 0) note_file("write", fd, path, (uint64_t)at, data, (size_t)n);          \
        done(t);                                                                         \
        return n;                                                                        \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

/* Recorded as the bytes it copied, which are read back. */
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t len,
                        unsigned flags)
{
    char path[PATH_MAX];
    if (!place_fd(out, path)) return REAL(copy_file_range)(in, from, out, to, len, flags);
    turn t = take_turn("copy_file_range", path);
    if (t.fail) return -1;
    off_t at = to ? *to : lseek(out, 0, SEEK_CUR);
    ssize_t n = REAL(copy_file_range)(in, from, out, to, some(t, len), flags);
    void *data = n > 0 && record >= 0 ? malloc((size_t)n) : NULL;
    if (data && syscall(SYS_pread64, out, data, (size_t)n, at) == n)
        note_file("write", out, path, (uint64_t)at, data, (size_t)n);
    free(data);
    done(t);
    return n;
}

#define FTRUNCATE(name)                                                                  \
    int name(int fd, off_t size)                                                         \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place_fd(fd, path)) return REAL(name)(fd, size);                            \
        turn t = take_turn("ftruncate", path);                                           \
        if (t.fail) return -1;                                                           \
        int status = REAL(name)(fd, size);                                               \
        if (!status) note_file("truncate", fd, path, (uint64_t)size, NULL, 0);           \
        done(t);                                                                         \
        return status;                                                                   \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

#define FALLOCATE(name)                                                                  \
    int name(int fd, int mode, off_t at, off_t len)                                      \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place_fd(fd, path)) return REAL(name)(fd, mode, at, len);                   \
        turn t = take_turn("fallocate", path);                                           \
        if (t.fail) return -1;                                                           \
        int status = REAL(name)(fd, mode, at, len);                                      \
        if (!status && !(mode & FALLOC_FL_KEEP_SIZE))                                    \
            note_file("extend", fd, path, (uint64_t)(at + len), NULL, 0);                \
        done(t);                                                                         \
        return status;                                                                   \
    }
FALLOCATE(fallocate)
FALLOCATE(fallocate64)

#define POSIX_FALLOCATE(name)                                                            \
    int name(int fd, off_t at, off_t len)                                                \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place_fd(fd, path)) return REAL(name)(fd, at, len);                         \
        turn t = take_turn("fallocate", path);                                           \
        if (t.fail) return errno;                                                        \
        int status = REAL(name)(fd, at, len);                                            \
        if (!status) note_file("extend", fd, path, (uint64_t)(at + len), NULL, 0);       \
        done(t);                                                                         \
        return status;                                                                   \
    }
POSIX_FALLOCATE(posix_fallocate)
POSIX_FALLOCATE(posix_fallocate64)

#define FSYNC(name)                                                                      \
    int name(int fd)                                                                     \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place_fd(fd, path)) return REAL(name)(fd);                                  \
        if (failed_sync[fd]) {                                                           \
            static const char told[] = "synced again after a failed sync\n";             \
            put(2, told, sizeof told - 1);                                               \
            syscall(SYS_exit_group, SECOND_FSYNC);                                       \
        }                                                                                \
        turn t = take_turn("fsync", path);                                               \
        if (t.fail) failed_sync[fd] = true;                                              \
        if (t.fail) return -1;                                                           \
        int status = record >= 0 ? 0 : REAL(name)(fd);                                   \
        if (!status) note("fsync", path, NULL, inode(fd), 0, NULL, 0);                   \
        done(t);                                                                         \
        return status;                                                                   \
    }
FSYNC(fsync)
FSYNC(fdatasync)

#define MMAP(name)                                                                       \
    void *name(void *at, size_t len, int protection, int flags, int fd, off_t offset)    \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (fd < 0 || !place_fd(fd, path))                                               \
            return (void *)syscall(SYS_mmap, at, len, protection, flags, fd, offset);    \
        turn t = take_turn("mmap", path);                                                \
        if (t.fail) return MAP_FAILED;                                                   \
        void *map = (void *)syscall(SYS_mmap, at, len, protection, flags, fd, offset);   \
        done(t);                                                                         \
        return map;                                                                      \
    }
MMAP(mmap)
MMAP(mmap64)

/* --- File attributes ---------------------------------------------------------------- */

#define ON_PATH(name, label, parameters, folder, path_of, arguments)                     \
    int name parameters                                                                  \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place(folder, path_of, path)) return REAL(name) arguments;                  \
        turn t = take_turn(label, path);                                                 \
        if (t.fail) return -1;                                                           \
        int status = REAL(name) arguments;                                               \
        done(t);                                                                         \
        return status;                                                                   \
    }
ON_PATH(stat, "stat", (const char *name, struct stat *st), AT_FDCWD, name, (name, st))
ON_PATH(stat64, "stat", (const char *name, struct stat64 *st), AT_FDCWD, name, (name, st))
ON_PATH(lstat, "stat", (const char *name, struct stat *st), AT_FDCWD, name, (name, st))
ON_PATH(lstat64, "stat", (const char *name, struct stat64 *st), AT_FDCWD, name,
        (name, st))
ON_PATH(fstatat, "stat", (int folder, const char *name, struct stat *st, int flags),
        folder, name, (folder, name, st, flags))
ON_PATH(fstatat64, "stat", (int folder, const char *name, struct stat64 *st, int flags),
        folder, name, (folder, name, st, flags))
ON_PATH(access, "access", (const char *name, int mode), AT_FDCWD, name, (name, mode))

#define ON_FD(name, label, parameters, arguments)                                        \
    int name parameters                                                                  \
    {                                                                                    \
        char path[PATH_MAX];                                                             \
        if (!place_fd(fd, path)) return REAL(name) arguments;                            \
        turn t = take_turn(label, path);                                                 \
        if (t.fail) return -1;                                                           \
        int status = REAL(name) arguments;                                               \
        done(t);                                                                         \
        return status;                                                                   \
    }
ON_FD(fstat, "fstat", (int fd, struct stat *st), (fd, st))
ON_FD(fstat64, "fstat", (int fd, struct stat64 *st), (fd, st))
ON_FD(fstatfs, "fstatfs", (int fd, struct statfs *st), (fd, st))
ON_FD(fstatfs64, "fstatfs", (int fd, struct statfs64 *st), (fd, st))
ON_FD(flock, "flock", (int fd, int operation), (fd, operation))
ON_FD(futimens, "utimens", (int fd, const struct timespec times[2]), (fd, times))

char *realpath(const char *name, char *out)
{
    char path[PATH_MAX];
    if (!place(AT_FDCWD, name, path)) return REAL(realpath)(name, out);
    turn t = take_turn("realpath", path);
    if (t.fail) return NULL;
    char *found = REAL(realpath)(name, out);
    done(t);
    return found;
}

/* --- Names ------------------------------------------------------------------------- */

static int change_name(const char *label, int f1, const char *n1, int f2, const char *n2,
                       long call, int flags)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (!place(f1, n1, from) || !place(f2, n2, to))
        return (int)syscall(call, f1, n1, f2, n2, flags);
    turn t = take_turn(label, to);
    if (t.fail) return -1;
    int status = (int)syscall(call, f1, n1, f2, n2, flags);
    if (!status) note(label, from, to, 0, 0, NULL, 0);
    done(t);
    return status;
}

int rename(const char *from, const char *to)
{
    return change_name("rename", AT_FDCWD, from, AT_FDCWD, to, SYS_renameat2, 0);
}

int renameat(int f1, const char *from, int f2, const char *to)
{
    return change_name("rename", f1, from, f2, to, SYS_renameat2, 0);
}

int renameat2(int f1, const char *from, int f2, const char *to, unsigned flags)
{
    return change_name("rename", f1, from, f2, to, SYS_renameat2, (int)flags);
}

int link(const char *from, const char *to)
{
    return change_name("link", AT_FDCWD, from, AT_FDCWD, to, SYS_linkat, 0);
}

int linkat(int f1, const char *from, int f2, const char *to, int flags)
{
    return change_name("link", f1, from, f2, to, SYS_linkat, flags);
}

int unlinkat(int folder, const char *name, int flags)
{
    char path[PATH_MAX];
    if (!place(folder, name, path))
        return (int)syscall(SYS_unlinkat, folder, name, flags);
    turn t = take_turn(flags & AT_REMOVEDIR ? "rmdir" : "unlink", path);
    if (t.fail) return -1;
    int status = (int)syscall(SYS_unlinkat, folder, name, flags);
    if (!status) note("unlink", path, NULL, 0, 0, NULL, 0);
    done(t);
    return status;
}

int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

int mkdirat(int folder, const char *name, mode_t mode)
{
    char path[PATH_MAX];
    if (!place(folder, name, path)) return (int)syscall(SYS_mkdirat, folder, name, mode);
    turn t = take_turn("mkdir", path);
    if (t.fail) return -1;
    int status = (int)syscall(SYS_mkdirat, folder, name, mode);
    if (!status) note("mkdir", path, NULL, 0, 0, NULL, 0);
    done(t);
    return status;
}

int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}
