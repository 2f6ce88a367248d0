/* Writes array files: collects the arrays, lays them out, accepts regions and rows from
 * any thread, and publishes. The file gets its final name only when it is complete. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "base/utf8.h"
#include "gnz/writer.h"
#include "io/file.h"

TARN__DEFINE_INIT(tarn_gnz_writer_options, TARN_GNZ_WRITER_OPTIONS_INIT)

/* --- Arrays and metadata ----------------------------------------------------------- */

static tarn_status refuse_existing(const char *path, tarn_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_EXISTS, path, TARN_NO_OFFSET,
                         "the file exists; use overwrite to replace it");
}

static tarn_status new_writer(const char *path, const tarn_gnz_writer_options *o,
                              tarn_gnz_writer **out, tarn_error *err)
{
    tarn_gnz_writer *w = *out = calloc(1, sizeof *w);
    if (!w) return tarn__fail_memory(err);
    w->options = *o;
    w->updating = o->update;
    w->has_sum = o->checksums;
    w->fd = w->publish.fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    tarn__names_init(&w->names);
    tarn__buf_init(&w->metadata, TARN_MAX_GNZ_HEADER);
    tarn__buf_init(&w->old_head, (size_t)2 * TARN_MAX_GNZ_HEADER);
    if (!(w->path = strdup(path))) return tarn__fail_memory(err);
    TARN_TRY(tarn__buf_add(&w->metadata, "{}", 2, err));
    return o->update ? tarn__gnz_open_old(w, err) : TARN_OK;
}

tarn_status tarn_gnz_writer_open(const char *path, const tarn_gnz_writer_options *options,
                                 tarn_gnz_writer **out, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_gnz_writer_options, o, TARN_GNZ_WRITER_OPTIONS_INIT, options, err);
    *out = NULL;
    if (o.header_pages > TARN_MAX_GNZ_PAGES && !o.update)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "%u pages for the header; the limit is %u (TARN_MAX_GNZ_PAGES)",
                          o.header_pages, TARN_MAX_GNZ_PAGES);
    if (!o.overwrite && !o.update) TARN_TRY(refuse_existing(path, err));
    tarn_status status = new_writer(path, &o, out, err);
    if (status == TARN_OK) return TARN_OK;
    tarn_gnz_writer_abandon(*out);
    *out = NULL;
    return status;
}

const char *tarn__gnz_writer_place(const tarn_gnz_writer *w)
{
    return w->publish.temporary ? w->publish.temporary : w->path;
}

static tarn_status refuse_after_begin(const tarn_gnz_writer *w, tarn_error *err)
{
    if (!w->begun) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_USAGE, w->path, TARN_NO_OFFSET,
        "the file was begun: its arrays and metadata can no longer change");
}

tarn_status tarn_gnz_writer_metadata(tarn_gnz_writer *w, const char *json, size_t len,
                                     tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "json", json);
    tarn__buf text;
    TARN_TRY(refuse_after_begin(w, err));
    tarn__buf_init(&text, TARN_MAX_GNZ_HEADER);
    tarn_status status = tarn__gnz_metadata_take(json, len, &text, err);
    if (status != TARN_OK) {
        tarn__buf_reset(&text);
        return status;
    }
    tarn__buf_reset(&w->metadata);
    w->metadata = text;
    return TARN_OK;
}

static tarn_status take_name(tarn_gnz_writer *w, const char *name, size_t len,
                             tarn_error *err)
{
    uint32_t id;
    char shown[96];
    tarn_printable(shown, sizeof shown, name, len);
    if (!tarn__utf8_is_valid(name, len))
        return tarn__fail(err, TARN_ERR_USAGE, "array name \"%s\" is not UTF-8", shown);
    if (len > TARN_MAX_NAME)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "array name of %zu bytes; the limit is %u (TARN_MAX_NAME)", len,
                          TARN_MAX_NAME);
    TARN_TRY(tarn__names_add(&w->names, name, len, &id, err));
    if (id == w->count) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_EXISTS, w->path, TARN_NO_OFFSET,
                         "array \"%s\" already exists", shown);
}

tarn_status tarn__gnz_slot_add(tarn_gnz_writer *w, const char *name, size_t name_len,
                               tarn_dtype dtype, unsigned ndim, const uint64_t *shape,
                               uint64_t reserved, tarn__gnz_slot **out, tarn_error *err)
{
    tarn_array check;
    TARN_TRY(tarn_array_init(&check, NULL, dtype, ndim, shape, err));
    tarn__gnz_slot *slot = calloc(1, sizeof *slot);
    if (!slot) return tarn__fail_memory(err);
    tarn_status status =
        tarn__grow(&w->slots, sizeof(tarn__gnz_slot *), w->count, &w->capacity, err);
    tarn__gnz_entry *e = &slot->entry;
    if (ndim) memcpy(slot->shape, shape, ndim * sizeof *shape);
    e->dtype = dtype;
    e->ndim = ndim;
    e->shape = slot->shape;
    e->reserved = reserved;
    if (status == TARN_OK) status = tarn__gnz_entry_measure(e, err);
    if (status == TARN_OK) status = take_name(w, name, name_len, err);
    if (status != TARN_OK) {
        free(slot);
        return status;
    }
    tarn__name kept = tarn__names_get(&w->names, w->count);
    e->name = kept.data;
    e->name_size = kept.size;
    w->slots[w->count++] = slot;
    *out = slot;
    return TARN_OK;
}

tarn_status tarn_gnz_writer_add(tarn_gnz_writer *w, const char *name,
                                const tarn_array *values, const tarn_dtype *as,
                                tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "name", name);
    TARN__NEED(err, "values", values);
    tarn__cast cast;
    tarn__gnz_slot *slot;
    tarn_dtype dtype = as ? *as : values->dtype;
    TARN_TRY(refuse_after_begin(w, err));
    TARN_TRY(tarn__cast_init(&cast, values->dtype, dtype, err));
    TARN_TRY(tarn__gnz_slot_add(w, name, strlen(name), dtype, values->ndim, values->shape,
                                0, &slot, err));
    slot->complete = true;
    slot->values = *values;
    slot->cast = cast;
    slot->entry.has_checksum = w->options.checksums;
    return TARN_OK;
}

tarn_status tarn_gnz_writer_reserve(tarn_gnz_writer *w, const char *name,
                                    tarn_dtype dtype, unsigned ndim,
                                    const uint64_t *shape, uint64_t reserved,
                                    tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "name", name);
    TARN__NEED(err, "shape", shape || !ndim);
    tarn__gnz_slot *slot;
    TARN_TRY(refuse_after_begin(w, err));
    if (reserved && ndim == 0)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "an array without dimensions has no rows to reserve");
    TARN_TRY(tarn__gnz_slot_add(w, name, strlen(name), dtype, ndim, shape, reserved,
                                &slot, err));
    slot->entry.has_checksum = w->options.checksums;
    slot->next = slot->entry.reserved > slot->entry.rows ? slot->entry.rows : 0;
    return TARN_OK;
}

/* --- Layout and space -------------------------------------------------------------- */

tarn_status tarn__gnz_writer_plan(const tarn_gnz_writer *w, tarn__gnz_plan *out,
                                  tarn_error *err)
{
    tarn__gnz_entry **entries = malloc((w->count + 1) * sizeof *entries);
    if (!entries) return tarn__fail_memory(err);
    *out = (tarn__gnz_plan){.entries = entries,
                            .metadata = w->metadata.data,
                            .metadata_len = w->metadata.size,
                            .has_sum = w->has_sum};
    /* Complete arrays come first, whatever the order of the calls. */
    for (int complete = 1; complete >= 0; complete--)
        for (size_t i = 0; i < w->count; i++)
            if (w->slots[i]->complete == complete)
                entries[out->count++] = &w->slots[i]->entry;
    return TARN_OK;
}

tarn_status tarn__gnz_writer_head(const tarn_gnz_writer *w, tarn__buf *out,
                                  tarn_error *err)
{
    tarn__gnz_plan plan;
    TARN_TRY(tarn__gnz_writer_plan(w, &plan, err));
    tarn_status status = TARN_OK;
    if (plan.has_sum) status = tarn__gnz_header_sum(&plan, &plan.sum, err);
    if (status == TARN_OK) status = tarn__gnz_compose(&plan, false, out, err);
    free(plan.entries);
    return status;
}

/* Where space cannot be reserved, at least checks the free space. */
static tarn_status take_space_by_length(const tarn_gnz_writer *w, uint64_t from,
                                        uint64_t size, tarn_error *err)
{
    struct statvfs fs;
    const char *place = tarn__gnz_writer_place(w);
    if (fstatvfs(w->fd, &fs) == 0 && fs.f_frsize && fs.f_blocks &&
        (size - from) / fs.f_frsize > fs.f_bavail)
        return tarn__fail_errno(err, place, ENOSPC, "cannot reserve %llu bytes",
                                (unsigned long long)(size - from));
    if (ftruncate(w->fd, (off_t)size) != 0)
        return tarn__fail_errno(err, place, errno, "cannot set the length to %llu",
                                (unsigned long long)size);
    return TARN_OK;
}

tarn_status tarn__gnz_take_space(const tarn_gnz_writer *w, uint64_t from, uint64_t size,
                                 tarn_error *err)
{
    int result = 0;
    if (size <= from) return TARN_OK;
    do {
        result = fallocate(w->fd, 0, (off_t)from, (off_t)(size - from));
    } while (result != 0 && errno == EINTR);
    if (result == 0) return TARN_OK;
    if (errno == EOPNOTSUPP || errno == ENOSYS)
        return take_space_by_length(w, from, size, err);
    return tarn__fail_errno(err, tarn__gnz_writer_place(w), errno,
                            "cannot reserve %llu bytes on the disk",
                            (unsigned long long)(size - from));
}

tarn_status tarn__gnz_step(tarn_gnz_writer *w, uint64_t bytes, tarn_error *err)
{
    w->done += bytes;
    if (!w->options.progress ||
        w->options.progress(w->options.progress_context, w->done, w->total) == 0)
        return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_CANCELLED, w->path, TARN_NO_OFFSET, "stopped");
}

static tarn_status write_complete(tarn_gnz_writer *w, tarn_error *err)
{
    w->done = w->total = 0;
    for (size_t i = 0; i < w->count; i++)
        if (w->slots[i]->complete) w->total += tarn__gnz_bytes(&w->slots[i]->entry);
    for (size_t i = 0; i < w->count; i++) {
        tarn__gnz_slot *slot = w->slots[i];
        if (!slot->complete) continue;
        TARN_TRY(tarn__gnz_write_values(w, &slot->values, &slot->cast, slot->entry.offset,
                                        &slot->entry.checksum, err));
        slot->summed = tarn__gnz_bytes(&slot->entry);
    }
    return TARN_OK;
}

static tarn_status begin_new(tarn_gnz_writer *w, tarn_error *err)
{
    tarn__gnz_plan plan;
    uint64_t size;
    TARN_TRY(tarn__gnz_writer_plan(w, &plan, err));
    tarn_status status = tarn__gnz_layout(&plan, w->options.header_pages, &size, err);
    free(plan.entries);
    TARN_TRY(status);
    TARN_TRY(tarn__publish_begin(&w->publish, w->path, err));
    w->fd = w->publish.fd;
    return tarn__gnz_take_space(w, 0, size, err);
}

tarn_status tarn_gnz_writer_begin(tarn_gnz_writer *w, tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN_TRY(refuse_after_begin(w, err));
    w->begun = true;
    tarn_status status = w->updating ? tarn__gnz_begin_update(w, err) : begin_new(w, err);
    if (status == TARN_OK) status = write_complete(w, err);
    if (status != TARN_OK) atomic_store(&w->failed, true);
    return status;
}

/* --- Values after begin ------------------------------------------------------------ */

static tarn_status open_slot(tarn_gnz_writer *w, const char *name, tarn__gnz_slot **out,
                             tarn_error *err)
{
    char shown[96];
    uint32_t id = tarn__names_find(&w->names, name, strlen(name));
    tarn_printable(shown, sizeof shown, name, strlen(name));
    if (!w->begun)
        return tarn__fail_at(err, TARN_ERR_USAGE, w->path, TARN_NO_OFFSET,
                             "the file was not begun");
    if (id == TARN__NAME_NONE || id >= w->count)
        return tarn__fail_at(err, TARN_ERR_NO_FIELD, w->path, TARN_NO_OFFSET,
                             "no array \"%s\"", shown);
    *out = w->slots[id];
    if (!(*out)->complete) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_USAGE, w->path, TARN_NO_OFFSET,
                         "array \"%s\" was added with its values", shown);
}

static tarn_status refuse_shape(const tarn_gnz_writer *w, const tarn__gnz_entry *e,
                                tarn_error *err)
{
    return tarn__fail_at(
        err, TARN_ERR_USAGE, w->path, TARN_NO_OFFSET,
        "the shape of the values does not fit into array \"%s\" at the given start",
        TARN__SHOW(e->name, e->name_size));
}

static tarn_status write_part(tarn_gnz_writer *w, const tarn_array *values,
                              const tarn__cast *cast, uint64_t offset, tarn_error *err)
{
    tarn_status status = tarn__gnz_write_values(w, values, cast, offset, NULL, err);
    if (status != TARN_OK) atomic_store(&w->failed, true);
    return status;
}

/* The first axis from which on a region covers the whole array, so that the values inside
 * are contiguous in the file. */
static unsigned together(const tarn__gnz_entry *e, const tarn_array *values)
{
    unsigned axis = e->ndim ? e->ndim - 1 : 0;
    while (axis > 0 && values->shape[axis] == e->shape[axis])
        axis--;
    return axis;
}

/* Writes contiguous pieces; the indices before axis iterate. */
static tarn_status fill_region(tarn_gnz_writer *w, const tarn__gnz_entry *e,
                               const uint64_t *start, const tarn_array *values,
                               const tarn__cast *cast, tarn_error *err)
{
    unsigned axis = together(e, values);
    uint64_t index[TARN_MAX_DIMS] = {0};
    tarn_array whole, inner = *values;
    tarn__gnz_entry_array(e, NULL, &whole);
    inner.ndim = e->ndim - axis;
    for (unsigned i = 0; i < inner.ndim; i++) {
        inner.shape[i] = values->shape[axis + i];
        inner.strides[i] = values->strides[axis + i];
    }
    for (;;) {
        uint64_t at = e->offset;
        int64_t from = 0;
        for (unsigned i = 0; i < e->ndim; i++) {
            at += (start[i] + index[i]) * (uint64_t)whole.strides[i];
            from += (int64_t)index[i] * values->strides[i];
        }
        inner.data = (char *)values->data + from;
        TARN_TRY(write_part(w, &inner, cast, at, err));
        unsigned i = axis;
        while (i > 0 && ++index[i - 1] == values->shape[i - 1])
            index[--i] = 0;
        if (i == 0) return TARN_OK;
    }
}

static tarn_status take_rows(tarn_gnz_writer *w, tarn__gnz_slot *slot, uint64_t rows,
                             uint64_t *out_first, tarn_error *err)
{
    tarn__gnz_entry *e = &slot->entry;
    tarn_status status = TARN_OK;
    pthread_mutex_lock(&w->lock);
    if (rows > e->reserved - slot->next)
        status = tarn__fail_at(
            err, TARN_ERR_LIMIT, w->path, TARN_NO_OFFSET,
            "array \"%s\" has space for %llu rows and holds %llu; %llu more do not fit",
            TARN__SHOW(e->name, e->name_size), (unsigned long long)e->reserved,
            (unsigned long long)slot->next, (unsigned long long)rows);
    *out_first = slot->next;
    if (status == TARN_OK) {
        slot->next += rows;
        if (slot->next > e->rows) e->rows = slot->next;
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

static tarn_status append_rows(tarn_gnz_writer *w, tarn__gnz_slot *slot,
                               const tarn_array *rows, const tarn__cast *cast,
                               tarn_error *err)
{
    const tarn__gnz_entry *e = &slot->entry;
    uint64_t first;
    if (e->ndim == 0) return refuse_shape(w, e, err);
    for (unsigned i = 1; i < e->ndim; i++)
        if (rows->shape[i] != e->shape[i]) return refuse_shape(w, e, err);
    TARN_TRY(take_rows(w, slot, rows->shape[0], &first, err));
    return write_part(w, rows, cast, e->offset + first * e->row_bytes, err);
}

tarn_status tarn_gnz_writer_fill(tarn_gnz_writer *w, const char *name,
                                 const uint64_t *start, const tarn_array *values,
                                 tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    TARN__NEED(err, "name", name);
    TARN__NEED(err, "values", values);
    tarn__gnz_slot *slot;
    tarn__cast cast;
    TARN_TRY(open_slot(w, name, &slot, err));
    const tarn__gnz_entry *e = &slot->entry;
    if (start && slot->old)
        return tarn__fail_at(
            err, TARN_ERR_USAGE, w->path, TARN_NO_OFFSET,
            "an update can only append rows; to change values use a view for writing");
    TARN_TRY(tarn__cast_init(&cast, values->dtype, e->dtype, err));
    if (values->ndim != e->ndim) return refuse_shape(w, e, err);
    if (!start) return append_rows(w, slot, values, &cast, err);
    for (unsigned i = 0; i < e->ndim; i++)
        if (!tarn__range_in(start[i], values->shape[i], e->shape[i]))
            return refuse_shape(w, e, err);
    if (tarn_array_bytes(values) == 0) return TARN_OK;
    return fill_region(w, e, start, values, &cast, err);
}

/* --- Closing ----------------------------------------------------------------------- */

static tarn_status finish_new(tarn_gnz_writer *w, tarn_error *err)
{
    tarn__buf head;
    tarn__buf_init(&head, (size_t)2 * TARN_MAX_GNZ_HEADER);
    tarn_status status = tarn__gnz_writer_head(w, &head, err);
    if (status == TARN_OK)
        status = tarn__publish_write_at(&w->publish, head.data, head.size, 0, err);
    tarn__buf_reset(&head);
    TARN_TRY(status);
    w->publish.no_sync = w->options.no_sync;
    w->publish.keep_existing = !w->options.overwrite;
    w->fd = -1; /* publishing closes it */
    TARN_TRY(tarn__publish_finish(&w->publish, err));
    tarn__gnz_journal_remove(w->path);
    return TARN_OK;
}

static tarn_status finish(tarn_gnz_writer *w, tarn_error *err)
{
    if (!w->begun) TARN_TRY(tarn_gnz_writer_begin(w, err));
    if (atomic_load(&w->failed))
        return tarn__fail_at(err, TARN_ERR_USAGE, w->path, TARN_NO_OFFSET,
                             "not published: an earlier write failed");
    w->done = w->total = 0;
    for (size_t i = 0; i < w->count; i++) {
        tarn__gnz_slot *slot = w->slots[i];
        if (slot->entry.has_checksum)
            w->total += tarn__gnz_bytes(&slot->entry) - slot->summed;
    }
    TARN_TRY(tarn__gnz_sum_slots(w, err));
    return w->updating ? tarn__gnz_finish_update(w, err) : finish_new(w, err);
}

static void free_writer(tarn_gnz_writer *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->slots[i]);
    free(w->slots);
    tarn__names_reset(&w->names);
    tarn__buf_reset(&w->metadata);
    tarn__buf_reset(&w->old_head);
    pthread_mutex_destroy(&w->lock);
    free(w->path);
    free(w);
}

tarn_status tarn_gnz_writer_finish(tarn_gnz_writer *w, tarn_error *err)
{
    TARN__NEED(err, "writer", w);
    tarn_status status = finish(w, err);
    if (status != TARN_OK) {
        tarn_gnz_writer_abandon(w);
        return status;
    }
    if (w->updating) close(w->fd);
    free_writer(w);
    return TARN_OK;
}

void tarn_gnz_writer_abandon(tarn_gnz_writer *w)
{
    if (!w) return;
    if (w->updating) {
        tarn__gnz_abandon_update(w);
    } else {
        tarn__publish_abandon(&w->publish);
    }
    free_writer(w);
}
