/* Changes an array file in place: appends arrays and rows first, and only then overwrites
 * the header. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "gnz/writer.h"
#include "io/file.h"

/* Only one writer may have the file open, and the file must still have its name. */
static tarn_status lock_file(tarn_gnz_writer *w, tarn_error *err)
{
    struct stat ours, named = {0};
    w->fd = open(w->path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (w->fd < 0)
        return tarn__fail_errno(err, w->path, errno, "cannot open for writing");
    if (fstat(w->fd, &ours) != 0)
        return tarn__fail_errno(err, w->path, errno, "cannot stat");
    if (!S_ISREG(ours.st_mode))
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, w->path, TARN_NO_OFFSET,
                             "not a regular file");
    if (flock(w->fd, LOCK_EX | LOCK_NB) != 0)
        return tarn__fail_errno(err, w->path, errno,
                                "cannot lock: another update is running");
    if (stat(w->path, &named) != 0 && errno != ENOENT)
        return tarn__fail_errno(err, w->path, errno, "cannot stat");
    if (named.st_ino != ours.st_ino || named.st_dev != ours.st_dev)
        return tarn__fail_at(
            err, TARN_ERR_STALE, w->path, TARN_NO_OFFSET,
            "the file was replaced while it was being opened; try again");
    return TARN_OK;
}

static tarn_status measure_file(tarn_gnz_writer *w, tarn_error *err)
{
    struct stat st;
    if (fstat(w->fd, &st) != 0)
        return tarn__fail_errno(err, w->path, errno, "cannot stat");
    w->old_size = (uint64_t)st.st_size;
    return TARN_OK;
}

static tarn_status take_old(tarn_gnz_writer *w, const tarn__gnz_header *h,
                            tarn_error *err)
{
    tarn__gnz_slot *slot;
    for (size_t i = 0; i < h->count; i++) {
        const tarn__gnz_entry *e = &h->entries[i];
        TARN_TRY(tarn__gnz_slot_add(w, e->name, e->name_size, e->dtype, e->ndim, e->shape,
                                    e->reserved, &slot, err));
        slot->old = true;
        slot->entry.offset = e->offset;
        slot->entry.fortran = e->fortran;
        slot->entry.has_checksum = e->has_checksum;
        slot->entry.checksum = e->checksum;
        slot->next = e->rows;
        slot->summed = tarn__gnz_bytes(e);
    }
    w->space = h->space;
    w->has_sum |= h->has_sum;
    w->metadata.size = 0;
    return tarn__buf_add(&w->metadata, h->metadata.data, h->metadata.size, err);
}

static tarn_status read_head(tarn_gnz_writer *w, size_t len, tarn_error *err)
{
    w->old_head.size = 0;
    TARN_TRY(tarn__buf_reserve(&w->old_head, len, err));
    w->old_head.size = len;
    return tarn__read_exact(w->fd, w->path, w->old_head.data, len, 0, err);
}

tarn_status tarn__gnz_open_old(tarn_gnz_writer *w, tarn_error *err)
{
    bool applied;
    tarn__gnz_header header;
    TARN_TRY(lock_file(w, err));
    TARN_TRY(tarn__gnz_journal_apply(w->path, w->fd, &applied, err));
    TARN_TRY(measure_file(w, err));
    tarn__file file = {.fd = w->fd, .path = w->path, .size = w->old_size};
    TARN_TRY(tarn__gnz_load(&header, &file, err));
    tarn_status status =
        header.extra ? tarn__fail_at(err, TARN_ERR_UNSUPPORTED, w->path, TARN__GNZ_PREFIX,
                                     "the header has keys that an update would lose; "
                                     "convert the file instead")
                     : take_old(w, &header, err);
    size_t head = TARN__GNZ_PREFIX + (size_t)header.length;
    tarn__gnz_header_reset(&header);
    TARN_TRY(status);
    return read_head(w, head, err);
}

static tarn_status place_new(tarn_gnz_writer *w, uint64_t *out_size, tarn_error *err)
{
    uint64_t at, end = w->old_size;
    bool good = tarn__align_up(end, TARN_GNZ_PAGE, &at);
    for (size_t i = 0; i < w->count && good; i++) {
        tarn__gnz_entry *e = &w->slots[i]->entry;
        if (w->slots[i]->old) continue;
        e->offset = at;
        good = tarn__add(at, tarn__gnz_extent(e), &at) &&
               tarn__align_up(at, TARN_GNZ_PAGE, &at) && at <= INT64_MAX;
        end = at;
    }
    *out_size = end;
    if (good) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_LIMIT, w->path, TARN_NO_OFFSET,
                         "the arrays need more than 2^63 bytes");
}

tarn_status tarn__gnz_begin_update(tarn_gnz_writer *w, tarn_error *err)
{
    tarn__gnz_plan plan;
    tarn__buf head;
    uint64_t size = w->old_size;
    TARN_TRY(tarn__gnz_writer_plan(w, &plan, err));
    tarn__buf_init(&head, (size_t)2 * TARN_MAX_GNZ_HEADER);
    tarn_status status = place_new(w, &size, err);
    if (status == TARN_OK) status = tarn__gnz_compose(&plan, true, &head, err);
    if (status == TARN_OK && head.size > w->space)
        status = tarn__fail_at(err, TARN_ERR_LIMIT, w->path, TARN__GNZ_PREFIX,
                               "the new header needs %zu bytes, but there is space for "
                               "%llu; convert the file with more header pages",
                               head.size, (unsigned long long)w->space);
    tarn__buf_reset(&head);
    free(plan.entries);
    TARN_TRY(status);
    if (size == w->old_size) return TARN_OK;
    TARN_TRY(tarn__gnz_journal_write(w->path, w->old_head.data, w->old_head.data,
                                     w->old_head.size, w->old_size, err));
    return tarn__gnz_take_space(w, w->old_size, size, err);
}

/* Pads the old and the new header to one length, so that they can be compared byte by
 * byte. */
static tarn_status even_out(tarn_gnz_writer *w, tarn__buf *head, tarn_error *err)
{
    size_t len = head->size > w->old_head.size ? head->size : w->old_head.size;
    TARN_TRY(tarn__buf_reserve(head, len - head->size, err));
    memset(head->data + head->size, 0, len - head->size);
    head->size = len;
    return read_head(w, len, err);
}

static tarn_status replace_head(tarn_gnz_writer *w, const tarn__buf *head,
                                tarn_error *err)
{
    if (fsync(w->fd) != 0) return tarn__fail_errno(err, w->path, errno, "cannot sync");
    w->replacing = true;
    TARN_TRY(tarn__gnz_journal_write(w->path, w->old_head.data, head->data, head->size, 0,
                                     err));
    w->committed = true;
    TARN_TRY(tarn__gnz_put_head(w->path, w->fd, head->data, head->size, err));
    (void)tarn__gnz_journal_remove(w->path);
    return TARN_OK;
}

tarn_status tarn__gnz_finish_update(tarn_gnz_writer *w, tarn_error *err)
{
    tarn__buf head;
    tarn__buf_init(&head, (size_t)2 * TARN_MAX_GNZ_HEADER);
    tarn_status status = tarn__gnz_writer_head(w, &head, err);
    if (status == TARN_OK) status = even_out(w, &head, err);
    if (status == TARN_OK) status = replace_head(w, &head, err);
    tarn__buf_reset(&head);
    return status;
}

/* What cannot be undone here is undone or finished when the journal is applied. The
 * journal must not contain a new header whose arrays were truncated. */
static void take_back(tarn_gnz_writer *w)
{
    if (w->replacing && !tarn__gnz_journal_remove(w->path)) return;
    if (ftruncate(w->fd, (off_t)w->old_size) == 0)
        (void)tarn__gnz_journal_remove(w->path);
}

void tarn__gnz_abandon_update(tarn_gnz_writer *w)
{
    if (w->begun && !w->committed && w->fd >= 0) take_back(w);
    if (w->fd >= 0) close(w->fd);
}
