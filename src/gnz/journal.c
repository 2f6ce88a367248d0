/* The journal of an update: a file next to the array file that says how to recover from a
 * crash. While arrays are added, it says to which length the file must be truncated. From
 * before the header is overwritten until the new header is on the disk, it has the old
 * and the new header, because a crash may leave a mix of both. The old header also shows
 * whether the journal belongs to the file that has the name now.
 *
 * Format: GNZJ, CRC-32C of the rest, length of a header (64 bits), length to which the
 * file is truncated or 0 (64 bits), old header, new header. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/error.h"
#include "gnz/writer.h"
#include "io/file.h"
#include "io/publish.h"

enum { FRONT = 24 };

static char *beside(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t size = strlen(path) + sizeof "..journal";
    char *name = malloc(size);
    if (name) snprintf(name, size, "%.*s.%s.journal", (int)(base - path), path, base);
    return name;
}

/* Next to the file itself, so that it is found through every link to the file. */
static char *journal_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (!real && errno == ENOMEM) return NULL;
    char *name = beside(real ? real : path);
    free(real);
    return name;
}

/* A journal that cannot be checked for may exist. The exception is a name that is too
 * long for any file: the name of an array file may have the longest permitted length. */
static tarn_status look_for(const char *name, bool *out_there, tarn_error *err)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    *out_there = access(name, F_OK) == 0;
    if (*out_there || errno == ENOENT || errno == ENOTDIR || strlen(base) > NAME_MAX)
        return TARN_OK;
    return tarn__fail_errno(err, name, errno, "cannot check for a journal");
}

tarn_status tarn__gnz_journal_find(const char *path, bool *out_there, tarn_error *err)
{
    char *name = journal_path(path);
    *out_there = false;
    if (!name) return tarn__fail_memory(err);
    tarn_status status = look_for(name, out_there, err);
    free(name);
    return status;
}

bool tarn__gnz_journal_remove(const char *path)
{
    char *name = journal_path(path);
    bool gone = name && (unlink(name) == 0 || errno == ENOENT);
    free(name);
    return gone;
}

static uint32_t journal_sum(const unsigned char *front, const void *old_head,
                            const void *new_head, size_t len)
{
    uint32_t crc = tarn__crc32c(0, front + 8, FRONT - 8);
    crc = tarn__crc32c(crc, old_head, len);
    return tarn__crc32c(crc, new_head, len);
}

static tarn_status write_journal(const char *name, const char *old_head,
                                 const char *new_head, size_t len, uint64_t cut,
                                 tarn_error *err)
{
    tarn__publish p;
    unsigned char front[FRONT] = {'G', 'N', 'Z', 'J'};
    tarn__put64(front + 8, len);
    tarn__put64(front + 16, cut);
    tarn__put32(front + 4, journal_sum(front, old_head, new_head, len));
    TARN_TRY(tarn__publish_begin(&p, name, err));
    tarn_status status = tarn__publish_write(&p, front, sizeof front, err);
    if (status == TARN_OK) status = tarn__publish_write(&p, old_head, len, err);
    if (status == TARN_OK) status = tarn__publish_write(&p, new_head, len, err);
    if (status == TARN_OK) return tarn__publish_finish(&p, err);
    tarn__publish_abandon(&p);
    return status;
}

tarn_status tarn__gnz_journal_write(const char *path, const char *old_head,
                                    const char *new_head, size_t len, uint64_t cut,
                                    tarn_error *err)
{
    char *name = journal_path(path);
    if (!name) return tarn__fail_memory(err);
    tarn_status status = write_journal(name, old_head, new_head, len, cut, err);
    free(name);
    return status;
}

tarn_status tarn__gnz_put_head(const char *path, int fd, const char *head, size_t len,
                               tarn_error *err)
{
    TARN_TRY(tarn__write_at(fd, path, head, len, 0, err));
    if (fsync(fd) == 0) return TARN_OK;
    return tarn__fail_errno(err, path, errno, "cannot sync");
}

/* A published journal is complete. Any other file with its name is refused. */
static tarn_status check_journal(const tarn__contents *j, const char *name,
                                 size_t *out_len, tarn_error *err)
{
    const unsigned char *d = j->data;
    uint64_t len = j->size >= FRONT ? tarn__get64(d + 8) : 0;
    if (j->size < FRONT || memcmp(d, "GNZJ", 4) != 0 ||
        len > 2 * (uint64_t)TARN_MAX_GNZ_HEADER || j->size != FRONT + 2 * len ||
        tarn__get32(d + 4) !=
            journal_sum(d, d + FRONT, d + FRONT + (size_t)len, (size_t)len))
        return tarn__fail_at(
            err, TARN_ERR_FORMAT, name, TARN_NO_OFFSET,
            "not the journal of an update; check what the file is, then remove it");
    *out_len = (size_t)len;
    return TARN_OK;
}

/* Byte by byte, because not every disk writes sectors atomically. */
static bool is_mix(const unsigned char *now, const unsigned char *old_head,
                   const unsigned char *new_head, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (now[i] != old_head[i] && now[i] != new_head[i]) return false;
    return true;
}

static tarn_status check_new(const unsigned char *head, size_t len, int fd,
                             const char *path, tarn_error *err)
{
    struct stat st;
    tarn__gnz_header header;
    uint32_t json = len >= TARN__GNZ_PREFIX ? tarn__get32(head + 4) : 0;
    if (fstat(fd, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    if (len < TARN__GNZ_PREFIX || json > len - TARN__GNZ_PREFIX)
        return tarn__fail_at(err, TARN_ERR_FORMAT, path, 0,
                             "the header in the journal is longer than the journal");
    TARN_TRY(tarn__gnz_parse(&header, (const char *)head + TARN__GNZ_PREFIX, json,
                             (uint64_t)st.st_size, err));
    tarn__gnz_header_reset(&header);
    return TARN_OK;
}

static tarn_status apply(const tarn__contents *j, size_t len, const char *path,
                         const char *name, int fd, tarn_error *err)
{
    const unsigned char *old_head = j->data + FRONT, *new_head = old_head + len;
    unsigned char *now = malloc(len + 1);
    if (!now) return tarn__fail_memory(err);
    tarn_status status = tarn__read_exact(fd, path, now, len, 0, err);
    if (status == TARN_OK && !is_mix(now, old_head, new_head, len))
        status =
            tarn__fail_at(err, TARN_ERR_STALE, name, TARN_NO_OFFSET,
                          "the journal belongs to another file than %s; remove it", path);
    free(now);
    TARN_TRY(status);
    TARN_TRY(check_new(new_head, len, fd, path, err));
    uint64_t cut = tarn__get64(j->data + 16);
    if (cut && ftruncate(fd, (off_t)cut) != 0)
        return tarn__fail_errno(
            err, path, errno, "cannot truncate the file to its length before the update");
    return tarn__gnz_put_head(path, fd, (const char *)new_head, len, err);
}

tarn_status tarn__gnz_journal_apply(const char *path, int fd, bool *out_applied,
                                    tarn_error *err)
{
    tarn__contents j;
    size_t len;
    char *name = journal_path(path);
    *out_applied = false;
    if (!name) return tarn__fail_memory(err);
    bool there;
    tarn_status status = look_for(name, &there, err);
    if (there) {
        status = tarn__contents_open(&j, name, err);
        if (status == TARN_OK) {
            status = check_journal(&j, name, &len, err);
            if (status == TARN_OK) status = apply(&j, len, path, name, fd, err);
            tarn__contents_close(&j);
        }
        if (status == TARN_OK && unlink(name) != 0)
            status = tarn__fail_errno(err, name, errno, "cannot remove");
        *out_applied = status == TARN_OK;
    }
    free(name);
    return status;
}
