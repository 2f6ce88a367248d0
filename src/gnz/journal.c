/* The journal of an update: a file beside the array file that tells what to do after a
 * crash. While arrays are added it says to which length the file is to be cut back; from
 * before the header is overwritten until that is on the disk it has the old header and
 * the new one, of which a crash may leave a mix. The old header also tells whether the
 * journal is about the file that has the name now.
 *
 * GNZJ, CRC-32C of the rest, length of a header (64 bits), length of the file to be cut
 * to or 0 (64 bits), old header, new header. */
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

/* Beside the file itself: who comes through another link, or none, is to find it too. */
static char *journal_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (!real && errno == ENOMEM) return NULL;
    char *name = beside(real ? real : path);
    free(real);
    return name;
}

/* What cannot be looked for may well be there, unless nothing can have such a name: that
 * of an array file may be as long as a name can be. */
static tarn_status look_for(const char *name, bool *out_there, tarn_error *err)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    *out_there = access(name, F_OK) == 0;
    if (*out_there || errno == ENOENT || errno == ENOTDIR || strlen(base) > NAME_MAX)
        return TARN_OK;
    return tarn__fail_errno(err, name, errno, "cannot tell whether there is a journal");
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

/* A journal is whole, because it was published; a file that is none is refused. */
static tarn_status check_journal(const tarn__contents *j, const char *name,
                                 size_t *out_len, tarn_error *err)
{
    const unsigned char *d = j->data;
    uint64_t len = j->size >= FRONT ? tarn__get64(d + 8) : 0;
    if (j->size < FRONT || memcmp(d, "GNZJ", 4) != 0 ||
        len > 2 * (uint64_t)TARN_MAX_GNZ_HEADER || j->size != FRONT + 2 * len ||
        tarn__get32(d + 4) !=
            journal_sum(d, d + FRONT, d + FRONT + (size_t)len, (size_t)len))
        return tarn__fail_at(err, TARN_ERR_FORMAT, name, TARN_NO_OFFSET,
                             "not the journal of an update; look what it is, and remove "
                             "it");
    *out_len = (size_t)len;
    return TARN_OK;
}

/* Byte by byte: not every disk writes a sector whole or not at all. */
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
                             "the journal's header is longer than the journal");
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
                          "this journal is of another file than %s; remove it", path);
    free(now);
    TARN_TRY(status);
    TARN_TRY(check_new(new_head, len, fd, path, err));
    uint64_t cut = tarn__get64(j->data + 16);
    if (cut && ftruncate(fd, (off_t)cut) != 0)
        return tarn__fail_errno(err, path, errno, "cannot cut off what was being added");
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
