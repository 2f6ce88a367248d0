/* Nothing is deleted: data that is cut off a shard is kept next to it in SHARD.bad, and
 * checksums that show that a payload has changed are never replaced by matching ones. */
#include "itar/repair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "io/publish.h"
#include "tar/reader.h"

enum { RECORD = 10240 };

static void report_repair(const tarn__repair *r, const char *path, uint64_t offset,
                          const char *what)
{
    tarn_error done;
    ++*r->repairs;
    if (!r->options->repaired) return;
    tarn__error_set(&done, TARN_OK, path, offset, "%s", what);
    r->options->repaired(r->options->repaired_context, &done);
}

/* SHARD.bad, or SHARD.bad.2 and so on if that exists. */
static char *bad_path(const char *shard)
{
    size_t size = strlen(shard) + 32;
    char *path = malloc(size);
    if (!path) return NULL;
    snprintf(path, size, "%s.bad", shard);
    for (unsigned i = 2; access(path, F_OK) == 0; i++)
        snprintf(path, size, "%s.bad.%u", shard, i);
    return path;
}

/* Keeps the tail and reports its path. */
static tarn_status keep_tail(const tarn__repair *r, const tarn__file *file, uint64_t from,
                             tarn_error *err)
{
    tarn__publish p;
    if (from >= file->size) return TARN_OK;
    char *path = bad_path(file->path);
    if (!path) return tarn__fail_memory(err);
    tarn_status status = tarn__publish_begin(&p, path, err);
    if (status == TARN_OK) {
        status =
            tarn__publish_copy(&p, file->fd, file->path, from, file->size - from, err);
        if (status == TARN_OK) status = tarn__publish_finish(&p, err);
        tarn__publish_abandon(&p);
    }
    if (status == TARN_OK)
        report_repair(r, path, TARN_NO_OFFSET, "the torn tail was saved here");
    free(path);
    return status;
}

/* Zeros up to the next record, after at least two zero blocks. */
static tarn_status write_end(tarn__publish *p, tarn_error *err)
{
    static const char zeros[RECORD + 2 * TARN__BLOCK];
    uint64_t end = (p->written + TARN__BLOCK - 1) / TARN__BLOCK * TARN__BLOCK;
    end += 2 * TARN__BLOCK;
    end = (end + RECORD - 1) / RECORD * RECORD;
    while (p->written < end) {
        uint64_t left = end - p->written;
        size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
        TARN_TRY(tarn__publish_write(p, zeros, n, err));
    }
    return TARN_OK;
}

static tarn_status rewrite(const tarn__file *file, uint64_t keep, tarn_error *err)
{
    tarn__publish p;
    struct stat st;
    TARN_TRY(tarn__publish_begin(&p, file->path, err));
    /* The new shard has the permissions of the old one or, if that fails, those of a new
     * file. */
    if (fstat(file->fd, &st) != 0 || fchown(p.fd, st.st_uid, st.st_gid) != 0 ||
        fchmod(p.fd, st.st_mode & 0777) != 0)
        errno = 0;
    tarn_status status = tarn__publish_copy(&p, file->fd, file->path, 0, keep, err);
    if (status == TARN_OK) status = write_end(&p, err);
    if (status == TARN_OK) return tarn__publish_finish(&p, err);
    tarn__publish_abandon(&p);
    return status;
}

/* Whether the file is still the one that was checked. */
static tarn_status check_unchanged(const tarn__file *file, tarn_error *err)
{
    struct stat st;
    if (fstat(file->fd, &st) != 0)
        return tarn__fail_errno(err, file->path, errno, "cannot stat");
    if ((uint64_t)st.st_size == file->size &&
        (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == file->mtime_ns)
        return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, file->path, TARN_NO_OFFSET,
                         "another program is writing to it; it was not changed");
}

static tarn_status repair_file(const tarn__repair *r, const char *path, tarn_error *err)
{
    tarn__file file;
    uint64_t keep, cut;
    TARN_TRY(tarn__file_open(&file, path, err));
    tarn_status status = tarn__tar_find_tear(path, &keep, &cut, err);
    if (status == TARN_OK) status = check_unchanged(&file, err);
    /* A file that does not start with a member is not a torn archive. */
    if (status != TARN_OK || (keep == 0 && file.size > 0)) {
        tarn__file_close(&file);
        return status == TARN_END ? TARN_OK : status;
    }
    status = keep_tail(r, &file, cut, err);
    if (status == TARN_OK) status = rewrite(&file, keep, err);
    if (status == TARN_OK)
        report_repair(r, path, keep,
                      cut < file.size ? "cut off the torn tail"
                                      : "added the missing end of the archive");
    tarn__file_close(&file);
    return status;
}

static tarn_status rebuild_index(const tarn__repair *r, tarn_error *err)
{
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.keys = r->keys;
    o.sums = r->checksums;
    o.lenient = true;
    o.threads = r->options->threads;
    o.progress = r->options->progress;
    o.progress_context = r->options->progress_context;
    TARN_TRY(
        tarn_index_build(r->shards, r->n_shards, &o, r->index_path, NULL, NULL, 0, err));
    report_repair(
        r, r->index_path, TARN_NO_OFFSET,
        r->trusts_payloads
            ? "rebuilt; the old payload checksums were unusable, so the new ones were "
              "computed from the current payloads; compare the shards with a copy if "
              "they may have changed"
            : "rebuilt");
    return TARN_OK;
}

/* Repairs the file itself, not a link to it. */
static tarn_status repair_shard(const tarn__repair *r, const char *path, tarn_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode)) return repair_file(r, path, err);
    char *real = realpath(path, NULL);
    if (!real) return tarn__fail_errno(err, path, errno, "cannot resolve");
    tarn_status status = repair_file(r, real, err);
    free(real);
    return status;
}

tarn_status tarn__repair_fold(const tarn__repair *r, tarn_error *err)
{
    if (r->keep_index) return TARN_OK;
    for (size_t i = 0; i < r->n_shards; i++)
        TARN_TRY(repair_shard(r, r->shards[i], err));
    return r->index_path ? rebuild_index(r, err) : TARN_OK;
}
