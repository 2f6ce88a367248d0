/* The folder of the cache, the folders of its datasets, and file locks.
 *
 * Locks of memory: the lock of a cachedir guards its members and those of its objects;
 * see shardcache.c. dirs_lock guards the list of all cachedirs, and is held during fork.
 * No lock is taken while dirs_lock is held, except by fork itself.
 *
 * After fork, a child has the parent's descriptors of maps and of the usage file, and
 * with them its locks: the claims of a killed parent would live as long as the child. So
 * the child closes them at once, also if it never uses tarn again, and opens its own when
 * it needs them. Locks that only say that a file is in use may be shared. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/beneath.h"
#include "io/cache_inside.h"
#include "io/file.h"

/* --- Locks of files --------------------------------------------------------------- */

static int lock_call(int fd, int command, struct flock *lock)
{
    int result;
    do
        result = fcntl(fd, command, lock);
    while (result != 0 && errno == EINTR);
    return result;
}

bool tarn__cache_lock(int fd, short type, uint64_t from, uint64_t count)
{
    struct flock lock = {.l_type = type,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)from,
                         .l_len = (off_t)count};
    return lock_call(fd, F_OFD_SETLK, &lock) == 0;
}

bool tarn__cache_locked(int fd, uint64_t *from, uint64_t *count)
{
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)*from,
                         .l_len = (off_t)*count};
    if (lock_call(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return false;
    *from = (uint64_t)lock.l_start;
    *count = lock.l_len ? (uint64_t)lock.l_len : UINT64_MAX - *from;
    return true;
}

enum { TRIES = 10000 }; /* with pauses of a millisecond */

static void pause_shortly(void)
{
    struct timespec pause = {0, 1000000};
    (void)nanosleep(&pause, NULL);
}

bool tarn__cache_lock_soon(int fd, short type, uint64_t from, uint64_t count)
{
    for (int i = 0; i < TRIES; i++) {
        if (tarn__cache_lock(fd, type, from, count)) return true;
        if (errno != EAGAIN && errno != EACCES) return false;
        pause_shortly();
    }
    errno = EAGAIN;
    return false;
}

bool tarn__cache_named(int folder, const char *name, int fd)
{
    struct stat mine, theirs;
    return fstat(fd, &mine) == 0 &&
           fstatat(folder, name, &theirs, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_ino == theirs.st_ino && mine.st_dev == theirs.st_dev;
}

/* --- Fork ------------------------------------------------------------------------- */

static pthread_mutex_t dirs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static tarn__cachedir *dirs;

static void before_fork(void)
{
    pthread_mutex_lock(&dirs_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&dirs_lock);
}

/* The child has one thread, and fork held the locks of all cachedirs: their members are
 * consistent. */
static void in_child(void)
{
    for (tarn__cachedir *dir = dirs; dir; dir = dir->next) {
        if (dir->usage_fd >= 0) close(dir->usage_fd);
        dir->usage_fd = dir->slot = -1;
        dir->written = dir->flight = 0;
        tarn__cached_forget(dir);
    }
    pthread_mutex_unlock(&dirs_lock);
}

static void register_once(void)
{
    (void)pthread_atfork(before_fork, after_fork, in_child);
}

void tarn__cachedir_link(tarn__cachedir *dir)
{
    pthread_once(&once, register_once);
    pthread_mutex_lock(&dirs_lock);
    dir->next = dirs;
    dir->back = &dirs;
    if (dirs) dirs->back = &dir->next;
    dirs = dir;
    pthread_mutex_unlock(&dirs_lock);
}

void tarn__cachedir_unlink(tarn__cachedir *dir)
{
    pthread_mutex_lock(&dirs_lock);
    *dir->back = dir->next;
    if (dir->next) dir->next->back = dir->back;
    pthread_mutex_unlock(&dirs_lock);
}

/* --- The folder ------------------------------------------------------------------- */

/* Between machines, neither locks nor what is in memory can be relied on: they would
 * fetch the same bytes, and compare each other's blocks with their checksums again and
 * again.
 */
static tarn_status refuse_network(int fd, const char *path, tarn_error *err)
{
    static const struct {
        unsigned long type;
        const char *name;
    } shared[] = {
        {0x6969, "NFS"},       {0xff534d42, "SMB"},    {0xfe534d42, "SMB"},
        {0x517b, "SMB"},       {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
        {0x00c36400, "Ceph"},  {0x01021997, "9P"},     {0x19830326, "BeeGFS"},
        {0x5346414f, "AFS"},   {0x73757245, "Coda"},   {0x01161970, "GFS2"},
        {0x7461636f, "OCFS2"}, {0xaad7aaea, "PanFS"},
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return tarn__fail_errno(err, path, errno, "cannot stat the file system");
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (((unsigned long)fs.f_type & 0xffffffffu) == shared[i].type)
            return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, TARN_NO_OFFSET,
                                 "a cache cannot be on a network file system (%s); use a "
                                 "folder on a disk of this machine",
                                 shared[i].name);
    return TARN_OK;
}

/* Not writable, or full: what is there may be read. */
static bool only_readable(int e)
{
    return e == EACCES || e == EPERM || e == EROFS || e == ENOSPC || e == EDQUOT;
}

static tarn_status open_inner(tarn__cachedir *dir, int folder, tarn_error *err)
{
    int e = 0;
    if (mkdirat(folder, TARN__CACHE_FOLDER, 0777) != 0 && errno != EEXIST) e = errno;
    dir->fd = openat(folder, TARN__CACHE_FOLDER,
                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir->fd >= 0) return TARN_OK;
    if (errno == ELOOP || errno == ENOTDIR)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, dir->path, TARN_NO_OFFSET,
                             "is not a folder, or is a symbolic link; remove it, or use "
                             "another cache folder");
    return tarn__fail_errno(err, dir->path, e ? e : errno,
                            e ? "cannot create the cache folder"
                              : "cannot open the cache folder");
}

static tarn_status check_locks(tarn__cachedir *dir, int fd, tarn_error *err)
{
    uint64_t at = TARN__CLAIMS, count = 1;
    int other = openat(dir->fd, TARN__CACHE_USAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool shared = tarn__cache_lock(fd, F_RDLCK, at, 1);
    bool works = other >= 0 && shared && tarn__cache_locked(other, &at, &count);
    (void)tarn__cache_lock(fd, F_UNLCK, TARN__CLAIMS, 1);
    if (other >= 0) close(other);
    if (works) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, dir->path, TARN_NO_OFFSET,
                         "file locks do not work on this file system, and a cache needs "
                         "them; use a folder on a disk of this machine");
}

static bool take_usage(tarn__cachedir *dir)
{
    pthread_mutex_lock(&dir->lock.mutex); /* not during a fork */
    bool done = tarn__cache_usage_open(dir);
    pthread_mutex_unlock(&dir->lock.mutex);
    return done;
}

static tarn_status open_usage(tarn__cachedir *dir, tarn_error *err)
{
    int fd = openat(dir->fd, TARN__CACHE_USAGE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                    0666);
    if (fd < 0 && only_readable(errno)) {
        dir->read_only = true;
        return TARN_OK;
    }
    if (fd < 0)
        return tarn__fail_errno(err, dir->path, errno, "cannot create a file in it");
    tarn_status status = check_locks(dir, fd, err);
    close(fd);
    for (int i = 0; status == TARN_OK && i < TRIES && !take_usage(dir); i++)
        pause_shortly();
    return status;
}

static tarn_status set_up(tarn__cachedir *dir, const char *folder, tarn_error *err)
{
    int fd = -1;
    size_t size = strlen(folder) + sizeof TARN__CACHE_FOLDER + 1;
    dir->path = malloc(size);
    if (!dir->path) return tarn__fail_memory(err);
    snprintf(dir->path, size, "%s/%s", folder, TARN__CACHE_FOLDER);
    TARN_TRY(tarn__open_folder(folder, &fd, err));
    tarn_status status = refuse_network(fd, folder, err);
    if (status == TARN_OK) status = open_inner(dir, fd, err);
    close(fd);
    return status == TARN_OK ? open_usage(dir, err) : status;
}

tarn_status tarn__cachedir_open(const char *folder, const tarn__cache_limits *limits,
                                tarn__cachedir **out, tarn_error *err)
{
    tarn__cachedir *dir = calloc(1, sizeof *dir);
    *out = NULL;
    if (!dir) return tarn__fail_memory(err);
    dir->fd = dir->usage_fd = dir->slot = -1;
    if (limits) dir->limits = *limits;
    dir->boot = tarn__cache_boot();
    tarn__forklock_init(&dir->lock, TARN__LOCK_INNERMOST);
    tarn__cachedir_link(dir);
    tarn_status status = set_up(dir, folder, err);
    if (status == TARN_OK)
        *out = dir;
    else
        tarn__cachedir_close(dir);
    return status;
}

static void close_set(tarn__cacheset *set)
{
    if (set->lock_fd >= 0) (void)futimens(set->lock_fd, NULL);
    if (set->lock_fd >= 0) close(set->lock_fd);
    if (set->fd >= 0) close(set->fd);
    free(set);
}

void tarn__cachedir_close(tarn__cachedir *dir)
{
    if (!dir) return;
    tarn__cachedir_unlink(dir);
    while (dir->sets) {
        tarn__cacheset *set = dir->sets;
        dir->sets = set->next;
        close_set(set);
    }
    if (dir->usage_fd >= 0) close(dir->usage_fd);
    if (dir->fd >= 0) close(dir->fd);
    tarn__forklock_destroy(&dir->lock);
    free(dir->path);
    free(dir);
}

/* --- Datasets --------------------------------------------------------------------- */

static tarn_status fail_set(const tarn__cachedir *dir, const char *what, tarn_error *err)
{
    if (errno == ELOOP || errno == ENOTDIR)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, dir->path, TARN_NO_OFFSET,
                             "%s in it: it is a symbolic link or the wrong kind of file; "
                             "remove it",
                             what);
    return tarn__fail_errno(err, dir->path, errno, "%s in it", what);
}

/* The file that says which dataset it is, and is locked while the dataset is in use. */
static int open_dataset_file(tarn__cacheset *set, const char *dataset)
{
    struct stat st;
    char hidden[2048], shown[1024];
    int fd = openat(set->fd, TARN__CACHE_DATASET,
                    O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    if (!tarn__cache_lock_soon(fd, F_RDLCK, TARN__LOCK_USE, 1) || fstat(fd, &st) != 0) {
        int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    if (st.st_size == 0) {
        tarn_hide_secrets(hidden, sizeof hidden, dataset, true);
        tarn_printable(shown, sizeof shown, hidden, strlen(hidden));
        (void)!tarn__write_at(fd, "", shown, strlen(shown), 0, NULL);
    }
    (void)futimens(fd, NULL);
    return fd;
}

/* One attempt: another process may remove the folder at the same time. False: again. */
static bool try_set(tarn__cachedir *dir, tarn__cacheset *set, const char *dataset,
                    tarn_status *status, tarn_error *err)
{
    *status = TARN_OK;
    if (!dir->read_only && mkdirat(dir->fd, set->id, 0777) != 0 && errno != EEXIST &&
        errno != ENOENT && !only_readable(errno)) {
        *status = fail_set(dir, "cannot create a folder", err);
        return true;
    }
    set->fd = openat(dir->fd, set->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (set->fd < 0 && errno == ENOENT) return dir->read_only;
    if (set->fd < 0) {
        *status = fail_set(dir, "cannot open a folder", err);
        return true;
    }
    set->lock_fd = open_dataset_file(set, dataset);
    if (set->lock_fd < 0 && (dir->read_only || only_readable(errno))) return true;
    if (set->lock_fd < 0 && errno != ENOENT) {
        *status = fail_set(dir, "cannot lock the file of a dataset", err);
        return true;
    }
    if (set->lock_fd >= 0 &&
        tarn__cache_named(set->fd, TARN__CACHE_DATASET, set->lock_fd))
        return true;
    if (set->lock_fd >= 0) close(set->lock_fd);
    close(set->fd);
    set->fd = set->lock_fd = -1;
    return false;
}

static tarn__cacheset *find_set(tarn__cachedir *dir, const char *id)
{
    for (tarn__cacheset *set = dir->sets; set; set = set->next)
        if (strcmp(set->id, id) == 0) return set;
    return NULL;
}

/* Adds it, unless another thread was faster. */
static tarn__cacheset *add_set(tarn__cachedir *dir, tarn__cacheset *set)
{
    pthread_mutex_lock(&dir->lock.mutex);
    tarn__cacheset *there = find_set(dir, set->id);
    if (!there) {
        set->next = dir->sets;
        dir->sets = set;
    }
    pthread_mutex_unlock(&dir->lock.mutex);
    if (there) close_set(set);
    return there ? there : set;
}

tarn_status tarn__cacheset_get(tarn__cachedir *dir, const char *dataset,
                               tarn__cacheset **out, tarn_error *err)
{
    enum { ATTEMPTS = 64 };
    char id[TARN__CACHE_ID];
    tarn__cache_dataset_name(id, dataset);
    pthread_mutex_lock(&dir->lock.mutex);
    *out = find_set(dir, id);
    pthread_mutex_unlock(&dir->lock.mutex);
    if (*out) return TARN_OK;
    tarn__cacheset *set = calloc(1, sizeof *set);
    if (!set) return tarn__fail_memory(err);
    memcpy(set->id, id, sizeof id);
    set->fd = set->lock_fd = -1;
    tarn_status status = TARN_OK;
    int tries = 0;
    while (!try_set(dir, set, dataset, &status, err) && ++tries < ATTEMPTS)
        ;
    if (status != TARN_OK) {
        close_set(set);
        return status;
    }
    *out = add_set(dir, set);
    return TARN_OK;
}
