/* Opens the components of a name one by one with openat and O_NOFOLLOW. */
#include "io/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/publish.h"

enum { MAX_STEP = 255, PART_SIZE = 48, FILE_MODE = 0644, FOLDER_MODE = 0755 };

typedef struct target {
    int root;
    const char *root_path;
    const char *name;
    size_t len;
} target;

static tarn_status refuse_member(const target *t, tarn_status code, const char *what,
                                 tarn_error *err)
{
    char shown[300];
    return tarn__fail_at(err, code, t->root_path, TARN_NO_OFFSET,
                         "member %s is not extracted: %s",
                         tarn_printable(shown, sizeof shown, t->name, t->len), what);
}

static tarn_status fail_system(const target *t, int e, const char *what, tarn_error *err)
{
    char shown[300];
    return tarn__fail_errno(err, t->root_path, e, "cannot %s for member %s", what,
                            tarn_printable(shown, sizeof shown, t->name, t->len));
}

/* Copies the next component of a name to step; *out_last is set for the last one. */
static tarn_status next_step(const target *t, size_t *at, char step[MAX_STEP + 1],
                             bool *out_last, tarn_error *err)
{
    size_t len = 0, end;
    do {
        while (*at < t->len && t->name[*at] == '/')
            ++*at;
        end = *at;
        while (end < t->len && t->name[end] != '/')
            end++;
        len = end - *at;
        if (len == 1 && t->name[*at] == '.')
            *at = end;
        else
            break;
    } while (*at < t->len);
    if (len == 0 || *at == t->len)
        return refuse_member(t, TARN_ERR_UNSUPPORTED, "it has no file name", err);
    if (len > MAX_STEP)
        return refuse_member(t, TARN_ERR_LIMIT,
                             "a component of its name has more than 255 bytes", err);
    if (len == 2 && memcmp(t->name + *at, "..", 2) == 0)
        return refuse_member(t, TARN_ERR_UNSUPPORTED, "its name contains ..", err);
    for (size_t i = *at; i < end; i++)
        if ((unsigned char)t->name[i] < 0x20 || t->name[i] == 0x7f)
            return refuse_member(t, TARN_ERR_UNSUPPORTED,
                                 "its name contains a control character", err);
    memcpy(step, t->name + *at, len);
    step[len] = '\0';
    *out_last = end == t->len;
    *at = end;
    return TARN_OK;
}

/* Closes folder unless it is the root. */
static void leave_folder(const target *t, int folder)
{
    if (folder != t->root) close(folder);
}

static tarn_status enter_folder(const target *t, int *folder, const char *step,
                                tarn_error *err)
{
    if (mkdirat(*folder, step, FOLDER_MODE) != 0 && errno != EEXIST)
        return fail_system(t, errno, "create a folder", err);
    int next = openat(*folder, step, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && (errno == ELOOP || errno == ENOTDIR))
        return refuse_member(t, TARN_ERR_UNSUPPORTED,
                             "one of its folders is a symbolic link or a file", err);
    if (next < 0) return fail_system(t, errno, "open a folder", err);
    leave_folder(t, *folder);
    *folder = next;
    return TARN_OK;
}

static tarn_status write_all(const target *t, int fd, const char *data, size_t size,
                             tarn_error *err)
{
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_system(t, errno, "write", err);
        data += n;
        size -= (size_t)n;
    }
    return TARN_OK;
}

static tarn_status write_payload(const target *t, int fd, const tarn__payload *p,
                                 tarn_error *err)
{
    TARN_TRY(write_all(t, fd, p->data, p->size, err));
    return p->settle ? p->settle(p->context, err) : TARN_OK;
}

/* Creates a file under a name that no member is likely to have. It is not derived from
 * the member's name, which may be too long to be extended. */
static int create_part(int folder, char part[PART_SIZE])
{
    static atomic_uint counter;
    int fd;
    do {
        snprintf(part, PART_SIZE, ".tarn-%ld-%u.part", (long)getpid(),
                 atomic_fetch_add(&counter, 1));
        fd = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    FILE_MODE);
    } while (fd < 0 && errno == EEXIST);
    return fd;
}

/* Never replaces a folder, and replaces a file only with overwrite. */
static int take_name(int folder, const char *part, const char *step, bool overwrite)
{
    return overwrite ? renameat(folder, part, folder, step)
                     : tarn__rename_new_in(folder, part, step);
}

static bool can_be_created(int folder, const char *step, bool overwrite)
{
    struct stat st;
    if (fstatat(folder, step, &st, AT_SYMLINK_NOFOLLOW) != 0) return true;
    return overwrite && !S_ISDIR(st.st_mode);
}

/* The file gets its name when it is complete: neither a kill nor a full disk leaves a
 * partial file or removes the file that was to be replaced. */
static tarn_status create_file(const target *t, int folder, const char *step,
                               bool overwrite, const tarn__payload *payload,
                               tarn_error *err)
{
    static const char there[] = "a file with that name already exists";
    char part[PART_SIZE];
    if (!can_be_created(folder, step, overwrite))
        return refuse_member(t, TARN_ERR_EXISTS, there, err);
    int fd = create_part(folder, part);
    if (fd < 0) return fail_system(t, errno, "create a file", err);
    tarn_status status = write_payload(t, fd, payload, err);
    if (close(fd) != 0 && status == TARN_OK) status = fail_system(t, errno, "write", err);
    if (status == TARN_OK && take_name(folder, part, step, overwrite) != 0)
        status = errno == EEXIST || errno == EISDIR
                     ? refuse_member(t, TARN_ERR_EXISTS, there, err)
                     : fail_system(t, errno, "rename the file", err);
    if (status != TARN_OK) unlinkat(folder, part, 0);
    return status;
}

tarn_status tarn__write_beneath(int root, const char *root_path, const char *name,
                                size_t len, bool overwrite, const tarn__payload *payload,
                                tarn_error *err)
{
    target t = {root, root_path, name, len};
    char step[MAX_STEP + 1];
    int folder = root;
    size_t at = 0;
    bool last = false;
    tarn_status status = next_step(&t, &at, step, &last, err);
    while (status == TARN_OK && !last) {
        status = enter_folder(&t, &folder, step, err);
        if (status == TARN_OK) status = next_step(&t, &at, step, &last, err);
    }
    if (status == TARN_OK)
        status = create_file(&t, folder, step, overwrite, payload, err);
    leave_folder(&t, folder);
    return status;
}

tarn_status tarn__open_folder(const char *path, int *out_fd, tarn_error *err)
{
    if (mkdir(path, FOLDER_MODE) != 0 && errno != EEXIST)
        return tarn__fail_errno(err, path, errno, "cannot create the folder");
    *out_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*out_fd < 0) return tarn__fail_errno(err, path, errno, "cannot open the folder");
    return TARN_OK;
}
