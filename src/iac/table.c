/* Tables: memory, lifetime, and export through the C stream interface. */
#include "iac/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nanoarrow/nanoarrow.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/sort.h"
#include "iac/ipc.h"
#include "io/file.h"
#include "io/guard.h"
#include "io/remote.h"

/* --- File ------------------------------------------------------------------------- */

tarn_status tarn__source_file_open(const char *path, bool no_map, tarn__cachedir *cache,
                                   tarn__source_file **out, tarn_error *err)
{
    tarn__file file;
    TARN_TRY(tarn__file_open_any(&file, path, cache, err));
    tarn__source_file *f = calloc(1, sizeof *f);
    if (!f) {
        tarn__file_close(&file);
        return tarn__fail_memory(err);
    }
    atomic_init(&f->refs, 1);
    f->file = file;
    f->fd = file.fd;
    f->path = file.path;
    f->size = file.size;
    if (!no_map && !file.remote && tarn__is_local(f->fd))
        f->map = tarn__map(f->fd, f->size);
    *out = f;
    return TARN_OK;
}

void tarn__source_file_unref(tarn__source_file *f)
{
    if (!f || atomic_fetch_sub(&f->refs, 1) != 1) return;
    tarn__unmap(f->map, f->size);
    tarn__file_close(&f->file);
    free(f);
}

/* lseek is the cheapest call that returns the length; nothing here depends on the file
 * position. */
static tarn_status check_length(const tarn__source_file *f, tarn_error *err)
{
    if (f->file.remote) return TARN_OK;
    off_t end = lseek(f->fd, 0, SEEK_END);
    if (end < 0) return tarn__fail_errno(err, f->path, errno, "cannot find its end");
    if (tarn__map_is_torn(f->map))
        return tarn__fail_at(err, TARN_ERR_STALE, f->path, TARN_NO_OFFSET,
                             "the file was truncated while it was in use");
    if ((uint64_t)end >= f->size) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, f->path, TARN_NO_OFFSET,
                         "the file has %llu bytes, but had %llu when it was opened",
                         (unsigned long long)end, (unsigned long long)f->size);
}

tarn_status tarn__source_file_settle(const tarn__source_file *f, tarn_error *err)
{
    return f->map ? check_length(f, err) : TARN_OK;
}

tarn_status tarn__source_file_check(const tarn__source_file *f, tarn_error *err)
{
    long long tick = tarn__coarse_time();
    atomic_llong *checked = (atomic_llong *)(uintptr_t)&f->checked;
    if (atomic_load_explicit(checked, memory_order_relaxed) == tick &&
        !tarn__map_is_torn(f->map))
        return TARN_OK;
    TARN_TRY(check_length(f, err));
    atomic_store_explicit(checked, tick, memory_order_relaxed);
    return TARN_OK;
}

tarn_status tarn__source_file_view(const tarn__source_file *f, uint64_t offset,
                                   uint64_t len, tarn_view *out, tarn_error *err)
{
    *out = (tarn_view)TARN_VIEW_INIT;
    if (!tarn__range_in(offset, len, f->size))
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, f->path, offset,
                             "expected %llu bytes here, but the file has %llu",
                             (unsigned long long)len, (unsigned long long)f->size);
    if (f->map) {
        TARN_TRY(tarn__source_file_check(f, err));
        *out = (tarn_view){f->map + offset, (size_t)len, NULL};
        return TARN_OK;
    }
    void *copy = malloc(len ? (size_t)len : 1);
    if (!copy) return tarn__fail_memory(err);
    tarn_status status = tarn__file_read(&f->file, copy, (size_t)len, offset, err);
    if (status == TARN_OK)
        *out = (tarn_view){copy, (size_t)len, copy};
    else
        free(copy);
    return status;
}

/* --- Lifetime --------------------------------------------------------------------- */

static void add_ref(tarn__table *t)
{
    atomic_fetch_add(&t->refs, 1);
}

void tarn__table_unref(tarn__table *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1) return;
    if (t->schema.release) t->schema.release(&t->schema);
    tarn__slab_free(&t->slab);
    free(t->batches);
    tarn_view_release(&t->bytes);
    tarn__source_file_unref(t->file);
    tarn__forklock_destroy(&t->lock);
    free(t);
}

static const _Alignas(64) unsigned char nothing[64];

tarn_status tarn__array_empty(tarn__slab *slab, const struct ArrowSchema *schema,
                              struct ArrowArray *out, tarn_error *err)
{
    tarn__layout layout = {0};
    (void)tarn__layout_get(schema->format, &layout);
    size_t n = (size_t)schema->n_children;
    size_t buffers = (size_t)layout.buffers + (layout.shape == SHAPE_VIEW);
    *out = (struct ArrowArray){.n_buffers = (int64_t)buffers, .n_children = (int64_t)n};
    struct ArrowArray *children = tarn__slab_zeros(slab, (n + 2) * sizeof *children);
    out->children = tarn__slab_zeros(slab, (n + 1) * sizeof *out->children);
    out->buffers = tarn__slab_zeros(slab, (buffers + 1) * sizeof *out->buffers);
    out->private_data = tarn__slab_zeros(slab, (buffers + 1) * sizeof(uint64_t));
    if (!children || !out->children || !out->buffers || !out->private_data)
        return tarn__fail_memory(err);
    for (size_t i = layout.has_validity; i < buffers; i++)
        out->buffers[i] = nothing;
    for (size_t i = 0; i < n; i++) {
        out->children[i] = &children[i];
        TARN_TRY(tarn__array_empty(slab, schema->children[i], &children[i], err));
    }
    if (!schema->dictionary) return TARN_OK;
    out->dictionary = &children[n];
    return tarn__array_empty(slab, schema->dictionary, out->dictionary, err);
}

/* --- Rows and columns ------------------------------------------------------------- */

size_t tarn__table_batch(const tarn__table *t, uint64_t row, uint64_t *out_in_batch)
{
    size_t batch = tarn__stretch_of(t->starts, t->count, row);
    *out_in_batch = row - t->starts[batch];
    return batch;
}

int64_t tarn__table_column(const tarn__table *t, const char *name)
{
    int64_t found = -1;
    for (int64_t i = 0; i < t->schema.n_children; i++)
        if (strcmp(t->schema.children[i]->name, name) == 0) found = found == -1 ? i : -2;
    return found;
}

/* Copies a buffer from the map. */
static tarn_status own_buffer(tarn__table *t, struct ArrowArray *a, int64_t i,
                              tarn_error *err)
{
    const unsigned char *at = a->buffers[i], *begin = t->bytes.data;
    uint64_t size = tarn__buffer_sizes(a)[i];
    if (!size || !at || at < begin || at >= begin + t->bytes.size) return TARN_OK;
    void *copy = tarn__slab_take(&t->slab, (size_t)size);
    if (!copy) return tarn__fail_memory(err);
    memcpy(copy, at, (size_t)size);
    a->buffers[i] = copy;
    return TARN_OK;
}

/* Whether a buffer holds positions of other data. */
static bool steers(const tarn__layout *layout, bool has_dictionary, int64_t buffer)
{
    switch (layout->shape) {
    case SHAPE_VAR:
    case SHAPE_LIST:
        return buffer == 1;
    case SHAPE_LISTVIEW:
        return buffer == 1 || buffer == 2;
    case SHAPE_VIEW:
        return buffer < 2;
    case SHAPE_SPARSE:
    case SHAPE_DENSE:
        return true;
    default:
        return has_dictionary;
    }
}

static tarn_status own_array(tarn__table *t, const struct ArrowSchema *schema,
                             struct ArrowArray *a, tarn_error *err)
{
    tarn__layout layout = {0};
    (void)tarn__layout_get(schema->format, &layout);
    for (int64_t i = 0; i < a->n_buffers; i++)
        if (steers(&layout, schema->dictionary != NULL, i))
            TARN_TRY(own_buffer(t, a, i, err));
    if (layout.shape == SHAPE_RUNEND) TARN_TRY(own_buffer(t, a->children[0], 1, err));
    for (int64_t i = 0; i < a->n_children; i++)
        TARN_TRY(own_array(t, schema->children[i], a->children[i], err));
    if (!schema->dictionary) return TARN_OK;
    return own_array(t, schema->dictionary, a->dictionary, err);
}

/* Data in a map does not stay valid after a check, because the file can change. So
 * buffers that hold positions are copied before they are validated; values may change
 * later, but not their positions. */
static tarn_status own_steering(tarn__table *t, tarn_error *err)
{
    if (!t->file || !t->file->map) return TARN_OK;
    for (size_t i = 0; i < t->count; i++)
        for (int64_t k = 0; k < t->schema.n_children; k++)
            TARN_TRY(own_array(t, t->schema.children[k], t->batches[i].children[k], err));
    return TARN_OK;
}

static tarn_status validate_all(tarn__table *t, tarn_error *err)
{
    TARN_TRY(own_steering(t, err));
    for (size_t i = 0; i < t->count; i++)
        for (int64_t k = 0; k < t->schema.n_children; k++) {
            tarn_status status = tarn__array_validate(t->schema.children[k],
                                                      t->batches[i].children[k], err);
            if (status == TARN_OK) continue;
            if (t->file) tarn__error_place(err, t->file->path, t->file_offset);
            return status;
        }
    return TARN_OK;
}

tarn_status tarn__table_validate(tarn__table *t, tarn_error *err)
{
    if (atomic_load_explicit(&t->validated, memory_order_acquire)) return TARN_OK;
    pthread_mutex_lock(&t->lock.mutex);
    tarn_status status = TARN_OK;
    if (!atomic_load_explicit(&t->validated, memory_order_relaxed)) {
        status = validate_all(t, err);
        if (status == TARN_OK)
            atomic_store_explicit(&t->validated, true, memory_order_release);
    }
    pthread_mutex_unlock(&t->lock.mutex);
    return status;
}

tarn_status tarn__table_check_values(const tarn__table *t, tarn_error *err)
{
    uint64_t left = (UINT64_C(32) << 20) + 32 * (uint64_t)t->bytes.size;
    for (size_t i = 0; i < t->count; i++)
        for (int64_t k = 0; k < t->schema.n_children; k++) {
            tarn_status status = tarn__array_check_values(
                t->schema.children[k], t->batches[i].children[k], &left, err);
            if (status == TARN_OK) continue;
            if (t->file) tarn__error_place(err, t->file->path, t->file_offset);
            return status;
        }
    return TARN_OK;
}

/* --- Export ----------------------------------------------------------------------- */

/* Every exported array, including children and dictionaries, can be moved and released
 * separately, so each holds its own reference. */
typedef struct shell {
    tarn__table *table;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
} shell;

static void release_array(struct ArrowArray *array)
{
    shell *s = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (s->children[i]->release) s->children[i]->release(s->children[i]);
        free(s->children[i]);
    }
    if (s->dictionary && s->dictionary->release) s->dictionary->release(s->dictionary);
    free(s->dictionary);
    free(s->children);
    free(array->buffers);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): each shell holds a reference. */
    tarn__table_unref(s->table);
    free(s);
    array->release = NULL;
}

static bool share(tarn__table *table, const struct ArrowArray *from,
                  struct ArrowArray *out);

static bool share_parts(tarn__table *table, const struct ArrowArray *from, shell *s,
                        struct ArrowArray *out)
{
    for (int64_t i = 0; i < from->n_children; i++) {
        s->children[i] = calloc(1, sizeof *s->children[i]);
        if (!s->children[i]) return false;
        out->n_children = i + 1;
        if (!share(table, from->children[i], s->children[i])) return false;
    }
    if (!from->dictionary) return true;
    s->dictionary = out->dictionary = calloc(1, sizeof *s->dictionary);
    return s->dictionary && share(table, from->dictionary, s->dictionary);
}

static bool share(tarn__table *table, const struct ArrowArray *from,
                  struct ArrowArray *out)
{
    size_t n = (size_t)from->n_children, buffers = (size_t)from->n_buffers;
    shell *s = calloc(1, sizeof *s);
    *out = *from;
    out->release = NULL;
    out->n_children = 0;
    if (!s) return false;
    s->children = calloc(n + 1, sizeof *s->children);
    out->buffers = malloc((buffers + 1) * sizeof *out->buffers);
    if (!s->children || !out->buffers) {
        free(s->children);
        free(out->buffers);
        free(s);
        return false;
    }
    if (buffers) memcpy(out->buffers, from->buffers, buffers * sizeof *out->buffers);
    out->children = s->children;
    out->dictionary = NULL;
    s->table = table;
    add_ref(table);
    out->private_data = s;
    out->release = release_array;
    if (share_parts(table, from, s, out)) return true;
    out->release(out);
    return false;
}

typedef struct stream {
    tarn__table *table;
    size_t next;
} stream;

static int stream_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    stream *s = self->private_data;
    return ArrowSchemaDeepCopy(&s->table->schema, out);
}

static int stream_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    stream *s = self->private_data;
    if (s->next == s->table->count) {
        out->release = NULL;
        return 0;
    }
    return share(s->table, &s->table->batches[s->next++], out) ? 0 : ENOMEM;
}

static const char *stream_error(struct ArrowArrayStream *self)
{
    (void)self;
    return "out of memory";
}

static void stream_release(struct ArrowArrayStream *self)
{
    stream *s = self->private_data;
    tarn__table_unref(s->table);
    free(s);
    self->release = NULL;
}

tarn_status tarn__table_export(tarn__table *t, struct ArrowArrayStream *out,
                               tarn_error *err)
{
    TARN_TRY(tarn__table_validate(t, err));
    stream *s = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->table = t;
    add_ref(t);
    *out = (struct ArrowArrayStream){stream_schema, stream_next, stream_error,
                                     stream_release, s};
    return TARN_OK;
}
