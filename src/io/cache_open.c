/* Handles of objects in the cache, and the two files of each.
 *
 * Processes that open an object at the same time take turns with the SETUP lock of its
 * data file. The holder finds both files whole, or both empty (then it creates them),
 * or something is damaged: another program shortened a file, or a process was killed
 * while it created them. Damaged files are replaced by new ones, never repaired in place,
 * because other processes may have them open and trust blocks of them. The lock is held
 * for moments only, and the next process checks that the file still has its name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "io/cache_inside.h"

typedef enum found { WHOLE, EMPTY, DAMAGED } found;

static tarn_status fail(const tarn__cached *c, int e, const char *what, tarn_error *err)
{
    if (e == ELOOP)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, c->path, TARN_NO_OFFSET,
                             "is a symbolic link, which is not followed in a cache; "
                             "remove it");
    return tarn__fail_errno(err, c->path, e, "%s", what);
}

static void close_files(tarn__cached *c)
{
    if (c->fd >= 0) close(c->fd);
    if (c->map_fd >= 0) close(c->map_fd);
    c->fd = c->map_fd = -1;
}

static int open_one(const tarn__cached *c, const char *name)
{
    int flags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    return openat(c->set->fd, name, flags | (c->writable ? O_RDWR | O_CREAT : O_RDONLY),
                  0666);
}

/* Not during a fork: the child must close every descriptor that will have claims. */
static void open_map(tarn__cached *c)
{
    pthread_mutex_lock(&c->dir->lock.mutex);
    c->map_fd = open_one(c, c->names.map);
    pthread_mutex_unlock(&c->dir->lock.mutex);
}

/* What the head says and what the files are. */
static tarn_status judge(const tarn__cached *c, const tarn__cache_head *want, found *out,
                         uint32_t *out_whole, tarn_error *err)
{
    struct stat data, map;
    tarn__cache_head head;
    *out = DAMAGED;
    if (fstat(c->fd, &data) != 0 || fstat(c->map_fd, &map) != 0)
        return fail(c, errno, "cannot stat", err);
    if (!S_ISREG(data.st_mode) || !S_ISREG(map.st_mode))
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, c->path, TARN_NO_OFFSET,
                             "it or its map is not a regular file; remove it");
    if (data.st_size == 0 && map.st_size == 0) *out = EMPTY;
    if (*out == EMPTY) return TARN_OK;
    tarn_status status = tarn__cache_head_read(c->map_fd, c->map_path, &head, err);
    *out_whole = head.whole;
    if (status == TARN_ERR_FORMAT || status == TARN_ERR_LIMIT) return TARN_OK;
    if (status == TARN_OK && strcmp(head.key, want->key) == 0 &&
        head.size == want->size && (uint64_t)data.st_size == c->size &&
        (uint64_t)map.st_size == tarn__cache_map_size(c->size))
        *out = WHOLE;
    return status;
}

static tarn_status create(tarn__cached *c, const tarn__cache_head *head, tarn_error *err)
{
    if (ftruncate(c->map_fd, (off_t)tarn__cache_map_size(c->size)) != 0 ||
        ftruncate(c->fd, (off_t)c->size) != 0)
        return fail(c, errno, "cannot extend the file", err);
    TARN_TRY(tarn__cache_head_write(c->map_fd, c->map_path, head, err));
    pthread_mutex_lock(&c->dir->lock.mutex);
    tarn__cache_account(c->dir, (int64_t)tarn__cache_map_size(c->size));
    pthread_mutex_unlock(&c->dir->lock.mutex);
    return TARN_OK;
}

/* All blocks were there a minute ago, so they are on the disk by now, and a sync takes no
 * time. */
static void make_durable(const tarn__cached *c)
{
    struct stat st;
    struct timespec now;
    enum { SETTLED = 60 };
    if (fstat(c->map_fd, &st) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return;
    if (st.st_mtim.tv_sec + SETTLED > now.tv_sec) return;
    if (fdatasync(c->fd) == 0)
        (void)!tarn__cache_set_whole(c->map_fd, c->map_path, TARN__CACHE_DURABLE, NULL);
}

static void take_whole(tarn__cached *c, uint32_t whole)
{
    struct stat st;
    if (fstat(c->map_fd, &st) == 0) {
        c->map_device = st.st_dev;
        c->map_inode = st.st_ino;
    }
    c->tag = tarn__cache_tag(c->dir->boot, c->fd);
    if (whole == c->tag && c->writable) make_durable(c);
    if (whole != c->tag && whole != TARN__CACHE_DURABLE) return;
    atomic_store_explicit(&c->complete, true, memory_order_release);
    close(c->map_fd);
    c->map_fd = -1;
}

/* With the SETUP lock. *out_again: the files were replaced or removed. */
static tarn_status set_up(tarn__cached *c, const tarn__cache_head *head, bool *out_again,
                          tarn_error *err)
{
    found what = DAMAGED;
    uint32_t whole = 0;
    *out_again = !tarn__cache_named(c->set->fd, c->names.data, c->fd);
    if (*out_again) return TARN_OK;
    open_map(c);
    if (c->map_fd < 0) return fail(c, errno, "cannot open its map", err);
    TARN_TRY(judge(c, head, &what, &whole, err));
    if (what == EMPTY) TARN_TRY(create(c, head, err));
    if (what == DAMAGED) {
        *out_again = true;
        if (unlinkat(c->set->fd, c->names.map, 0) != 0 ||
            unlinkat(c->set->fd, c->names.data, 0) != 0)
            return fail(c, errno, "cannot remove the damaged copy", err);
        return TARN_OK;
    }
    take_whole(c, whole);
    return TARN_OK;
}

static tarn_status open_writable(tarn__cached *c, const tarn__cache_head *head,
                                 bool *out_again, tarn_error *err)
{
    c->fd = open_one(c, c->names.data);
    if (c->fd < 0) return fail(c, errno, "cannot open", err);
    if (!tarn__cache_lock_soon(c->fd, F_RDLCK, TARN__LOCK_USE, 1) ||
        !tarn__cache_lock_soon(c->fd, F_WRLCK, TARN__LOCK_SETUP, 1))
        return fail(c, errno, "cannot lock", err);
    tarn_status status = set_up(c, head, out_again, err);
    if (c->fd >= 0) (void)tarn__cache_lock(c->fd, F_UNLCK, TARN__LOCK_SETUP, 1);
    return status;
}

/* Nobody creates or repairs anything here; what is not whole is not used. */
static void open_readable(tarn__cached *c, const tarn__cache_head *head)
{
    found what = EMPTY;
    uint32_t whole = 0;
    c->fd = open_one(c, c->names.data);
    c->map_fd = c->fd >= 0 ? open_one(c, c->names.map) : -1;
    if (c->map_fd >= 0 && judge(c, head, &what, &whole, NULL) == TARN_OK &&
        what == WHOLE) {
        (void)tarn__cache_lock(c->fd, F_RDLCK, TARN__LOCK_USE, 1);
        take_whole(c, whole);
        return;
    }
    close_files(c);
}

/* Not writable, full, removed in the meantime, or locked by a process that was stopped:
 * reading continues without storing this object. */
static bool can_pass(int e)
{
    return e == EACCES || e == EPERM || e == EROFS || e == ENOSPC || e == EDQUOT ||
           e == ENOENT || e == EAGAIN || e == EFBIG;
}

static tarn_status open_files(tarn__cached *c, const tarn__cache_head *head,
                              tarn_error *err)
{
    enum { TRIES = 64 };
    bool again = true;
    tarn_error why = {.offset = TARN_NO_OFFSET};
    if (c->set->fd < 0) return TARN_OK;
    c->writable = !c->dir->read_only && c->set->lock_fd >= 0;
    for (int i = 0; c->writable && again && i < TRIES; i++) {
        close_files(c);
        tarn_status status = open_writable(c, head, &again, &why);
        if (status == TARN_OK) continue;
        close_files(c);
        if (!can_pass(why.sys_errno)) {
            if (err) *err = why;
            return status;
        }
        c->writable = false;
    }
    if (again && c->writable)
        return tarn__fail_at(err, TARN_ERR_IO, c->path, TARN_NO_OFFSET,
                             "another program replaces this file again and again");
    if (!c->writable) open_readable(c, head);
    return TARN_OK;
}

/* --- Handles ----------------------------------------------------------------------- */

static tarn_status check_id(const char *shown, const tarn__object_id *id, tarn_error *err)
{
    const char *why = NULL;
    if (id->size == UINT64_MAX)
        why = "its size is unknown";
    else if (id->etag[0] != '"' && !id->modified[0])
        why = "the server sends neither a strong ETag nor a date of the last change, so "
              "a change of the object would not be noticed";
    if (why)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
                             "the object cannot be cached: %s", why);
    if (id->size > TARN__MAX_CACHED)
        return tarn__fail_at(err, TARN_ERR_LIMIT, shown, TARN_NO_OFFSET,
                             "the object cannot be cached: it has %llu bytes, and "
                             "TARN__MAX_CACHED is %llu",
                             (unsigned long long)id->size,
                             (unsigned long long)TARN__MAX_CACHED);
    return TARN_OK;
}

static void show(char *out, size_t size, const char *text)
{
    tarn_printable(out, size, text, strlen(text));
}

static char *join(const tarn__cached *c, const char *name)
{
    size_t size = strlen(c->dir->path) + strlen(c->set->id) + strlen(name) + 3;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s/%s", c->dir->path, c->set->id, name);
    return path;
}

static tarn_status fill_in(tarn__cached *c, const char *url, const char *shown,
                           const tarn__object_id *id, tarn_error *err)
{
    tarn__cache_head head = {.size = id->size};
    c->size = id->size;
    c->blocks = tarn__cache_blocks(id->size);
    TARN_TRY(tarn__cache_name(&c->names, url, id, err));
    memcpy(head.key, c->names.key, sizeof head.key);
    memcpy(head.data, c->names.data, sizeof head.data);
    show(head.url, sizeof head.url, shown);
    show(head.etag, sizeof head.etag, id->etag);
    show(head.modified, sizeof head.modified, id->modified);
    size_t words = (size_t)(c->blocks / TARN__CACHE_WORD + 1);
    c->path = join(c, c->names.data);
    c->map_path = join(c, c->names.map);
    c->there = calloc(words, sizeof *c->there);
    c->mine = calloc(words, sizeof *c->mine);
    if (!c->path || !c->map_path || !c->there || !c->mine) return tarn__fail_memory(err);
    return open_files(c, &head, err);
}

static void make_condition(tarn__cached *c)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->moved, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void link_object(tarn__cached *c)
{
    pthread_mutex_lock(&c->dir->lock.mutex);
    c->next = c->dir->objects;
    c->back = &c->dir->objects;
    if (c->next) c->next->back = &c->next;
    c->dir->objects = c;
    pthread_mutex_unlock(&c->dir->lock.mutex);
}

tarn_status tarn__cached_open(tarn__cachedir *dir, const char *dataset, const char *url,
                              const char *shown, const tarn__object_id *id,
                              tarn__cached **out, tarn_error *err)
{
    tarn__cacheset *set;
    *out = NULL;
    TARN_TRY(check_id(shown, id, err));
    TARN_TRY(tarn__cacheset_get(dir, dataset, &set, err));
    tarn__cached *c = calloc(1, sizeof *c);
    if (!c) return tarn__fail_memory(err);
    c->dir = dir;
    c->set = set;
    c->fd = c->map_fd = -1;
    make_condition(c);
    link_object(c);
    tarn_status status = fill_in(c, url, shown, id, err);
    if (c->blocks == 0) atomic_store(&c->complete, true);
    if (status == TARN_OK)
        *out = c;
    else
        tarn__cached_close(c);
    return status;
}

void tarn__cached_close(tarn__cached *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->dir->lock.mutex);
    *c->back = c->next;
    if (c->next) c->next->back = c->back;
    if (c->claimed) tarn__cache_settle(c->dir, c->claimed, false);
    pthread_mutex_unlock(&c->dir->lock.mutex);
    if (c->map_fd >= 0) close(c->map_fd);
    if (c->fd >= 0) close(c->fd);
    pthread_cond_destroy(&c->moved);
    free(c->path);
    free(c->map_path);
    free(c->there);
    free(c->mine);
    free(c);
}

/* The parent's threads that waited for the condition do not exist here. */
void tarn__cached_forget(tarn__cachedir *dir)
{
    for (tarn__cached *c = dir->objects; c; c = c->next) {
        if (c->map_fd >= 0) close(c->map_fd);
        c->map_fd = -1;
        if (c->claimed)
            memset(c->mine, 0, (c->blocks / TARN__CACHE_WORD + 1) * sizeof *c->mine);
        c->claimed = 0;
        make_condition(c);
    }
}

bool tarn__cached_map(tarn__cached *c)
{
    struct stat st;
    if (c->map_fd >= 0) return true;
    if (c->fd < 0) return false;
    int fd = openat(c->set->fd, c->names.map,
                    (c->writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return false;
    if (fstat(fd, &st) != 0 || st.st_dev != c->map_device || st.st_ino != c->map_inode) {
        close(fd);
        return false;
    }
    c->map_fd = fd;
    return true;
}
