/* Reads array files: views into maps, rows by position, rows as samples. parse.c reads
 * the header. Every access here checks the length of the file first. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/options.h"
#include "base/sort.h"
#include "gnz/reader.h"
#include "gnz/writer.h"
#include "io/file.h"
#include "io/guard.h"
#include "io/remote.h"

TARN__DEFINE_INIT(tarn_gnz_options, TARN_GNZ_OPTIONS_INIT)

/* --- Opening ----------------------------------------------------------------------- */

static bool may_map(const tarn_gnz *g, tarn_io io)
{
    return !g->file.remote &&
           (io == TARN_IO_MAP || (io == TARN_IO_AUTO && tarn__is_local(g->file.fd)));
}

/* The row count that most arrays have; of two equally common counts, the larger. */
static tarn_status find_samples(tarn_gnz *g, tarn_error *err)
{
    const tarn__gnz_header *h = &g->header;
    size_t count = 0;
    uint64_t *rows = malloc((h->count + 1) * sizeof *rows);
    if (!rows) return tarn__fail_memory(err);
    for (size_t i = 0; i < h->count; i++)
        if (h->entries[i].ndim) rows[count++] = h->entries[i].rows;
    qsort(rows, count, sizeof *rows, tarn__by_u64);
    for (size_t i = 0, begin = 0; i < count; i++) {
        if (rows[i] != rows[begin]) begin = i;
        if (i - begin + 1 < g->fields) continue;
        g->fields = i - begin + 1;
        g->samples = rows[i];
    }
    free(rows);
    return TARN_OK;
}

/* A header that cannot be parsed may be half overwritten by an update. */
static void hint_at_journal(const char *path, tarn_error *err)
{
    bool there;
    if (!err || tarn__gnz_journal_find(path, &there, NULL) != TARN_OK || !there) return;
    size_t used = strlen(err->message);
    snprintf(
        err->message + used, sizeof err->message - used,
        "; an update is running or was interrupted: verify with repair fixes the file");
}

tarn_status tarn_gnz_open(const char *path, const tarn_gnz_options *options,
                          tarn_gnz **out, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    TARN__OPTIONS(tarn_gnz_options, o, TARN_GNZ_OPTIONS_INIT, options, err);
    *out = NULL;
    return tarn__gnz_open(path, o.io, NULL, out, err);
}

tarn_status tarn__gnz_open(const char *path, tarn_io io, tarn__cachedir *cache,
                           tarn_gnz **out, tarn_error *err)
{
    tarn_gnz *g = calloc(1, sizeof *g);
    if (!g) return tarn__fail_memory(err);
    g->write_fd = -1;
    tarn__forklock_init(&g->lock, TARN__LOCK_INNER);
    tarn_status status = tarn__file_open_any(&g->file, path, cache, err);
    if (status == TARN_OK) status = tarn__gnz_load(&g->header, &g->file, err);
    if (status == TARN_OK) status = find_samples(g, err);
    if (status != TARN_OK) {
        if (!tarn__is_remote(path)) hint_at_journal(path, err);
        tarn_gnz_close(g);
        return status;
    }
    g->io = may_map(g, io) ? TARN_IO_MAP : TARN_IO_READ;
    if (g->io == TARN_IO_MAP) g->map = tarn__map(g->file.fd, g->file.size);
    *out = g;
    return TARN_OK;
}

void tarn_gnz_close(tarn_gnz *g)
{
    if (!g) return;
    tarn__unmap(g->map, g->file.size);
    tarn__unmap(g->write_map, g->file.size);
    if (g->write_fd >= 0) close(g->write_fd);
    tarn__gnz_header_reset(&g->header);
    tarn__file_close(&g->file);
    tarn__forklock_destroy(&g->lock);
    free(g);
}

/* --- Contents ---------------------------------------------------------------------- */

void tarn_gnz_info_get(const tarn_gnz *g, tarn_gnz_info *out, size_t size)
{
    if (!g) {
        TARN__FILL_ZERO(out, size);
        return;
    }
    const tarn__gnz_header *h = &g->header;
    tarn_gnz_info info = {.arrays = h->count,
                          .metadata = h->metadata.data,
                          .metadata_size = h->metadata.size,
                          .fields = g->fields,
                          .samples = g->samples,
                          .header_size = TARN__GNZ_PREFIX + h->length,
                          .header_space = h->space,
                          .file_size = g->file.size};
    TARN__FILL_OUT(out, size, info);
}

static tarn_status entry_at(const tarn_gnz *g, size_t number, const tarn__gnz_entry **out,
                            tarn_error *err)
{
    if (number >= g->header.count)
        return tarn__fail_at(err, TARN_ERR_NO_FIELD, g->file.path, TARN_NO_OFFSET,
                             "no array number %zu; the file has %zu arrays", number,
                             g->header.count);
    *out = &g->header.entries[number];
    return TARN_OK;
}

tarn_status tarn_gnz_array_get(const tarn_gnz *g, size_t number, tarn_gnz_array *out,
                               size_t size, tarn_error *err)
{
    TARN__NEED(err, "gnz", g);
    TARN__NEED(err, "out", out);
    const tarn__gnz_entry *e;
    TARN_TRY(entry_at(g, number, &e, err));
    tarn_gnz_array info = {.name = e->name,
                           .dtype = e->dtype,
                           .ndim = e->ndim,
                           .shape = e->shape,
                           .offset = e->offset,
                           .bytes = tarn__gnz_bytes(e),
                           .reserved = e->reserved,
                           .fortran = e->fortran,
                           .is_field = e->ndim && e->rows == g->samples,
                           .has_checksum = e->has_checksum,
                           .checksum = e->checksum};
    TARN__FILL_OUT(out, size, info);
    return TARN_OK;
}

tarn_status tarn_gnz_find(const tarn_gnz *g, const char *name, size_t *out,
                          tarn_error *err)
{
    TARN__NEED(err, "gnz", g);
    TARN__NEED(err, "name", name);
    TARN__NEED(err, "out", out);
    uint32_t id = tarn__names_find(&g->header.names, name, strlen(name));
    if (id == TARN__NAME_NONE)
        return tarn__fail_at(err, TARN_ERR_NO_FIELD, g->file.path, TARN_NO_OFFSET,
                             "no array \"%s\"", TARN__SHOW(name, strlen(name)));
    *out = id;
    return TARN_OK;
}

/* --- Views ------------------------------------------------------------------------- */

/* Access to a mapped page past the end of the file raises SIGBUS. */
tarn_status tarn__gnz_check_length(const tarn_gnz *g, tarn_error *err)
{
    struct stat st;
    if (g->file.remote) return TARN_OK;
    if (fstat(g->file.fd, &st) != 0)
        return tarn__fail_errno(err, g->file.path, errno, "cannot stat");
    if (tarn__map_is_torn(g->map))
        return tarn__fail_at(err, TARN_ERR_STALE, g->file.path, TARN_NO_OFFSET,
                             "the file was truncated while it was in use");
    if ((uint64_t)st.st_size >= g->file.size) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_TRUNCATED, g->file.path, (uint64_t)st.st_size,
                         "the file was truncated while it was open (it had %llu bytes)",
                         (unsigned long long)g->file.size);
}

static tarn_status make_write_map(tarn_gnz *g, tarn_error *err)
{
    struct stat ours, theirs;
    if (g->io != TARN_IO_MAP)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, g->file.path, TARN_NO_OFFSET,
                             "writing in place needs a memory map, which the file system "
                             "or the options exclude");
    g->write_fd = open(g->file.path, O_RDWR | O_CLOEXEC);
    if (g->write_fd < 0)
        return tarn__fail_errno(err, g->file.path, errno, "cannot open for writing");
    if (fstat(g->write_fd, &theirs) != 0 || fstat(g->file.fd, &ours) != 0 ||
        theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino)
        return tarn__fail_at(err, TARN_ERR_STALE, g->file.path, TARN_NO_OFFSET,
                             "the file was replaced by another since it was opened");
    void *map = mmap(NULL, (size_t)g->file.size, PROT_READ | PROT_WRITE, MAP_SHARED,
                     g->write_fd, 0);
    if (map == MAP_FAILED)
        return tarn__fail_errno(err, g->file.path, errno, "cannot map for writing");
    g->write_map = map;
    return TARN_OK;
}

static tarn_status view_for_writing(tarn_gnz *g, const tarn__gnz_entry *e, void **out,
                                    tarn_error *err)
{
    tarn_status status = TARN_OK;
    pthread_mutex_lock(&g->lock.mutex);
    if (!g->write_map) status = make_write_map(g, err);
    if (status != TARN_OK && g->write_fd >= 0) {
        close(g->write_fd);
        g->write_fd = -1;
    }
    if (status == TARN_OK) *out = (char *)g->write_map + e->offset;
    pthread_mutex_unlock(&g->lock.mutex);
    return status;
}

/* A private map of one array. */
static tarn_status view_copy(const tarn_gnz *g, const tarn__gnz_entry *e,
                             tarn_gnz_view *view, void **out, tarn_error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = e->offset & (page - 1);
    size_t size = (size_t)(before + tarn__gnz_bytes(e));
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, g->file.fd,
                     (off_t)(e->offset - before));
    if (map == MAP_FAILED)
        return tarn__fail_errno(err, g->file.path, errno, "cannot map");
    view->owned = map;
    view->owned_size = size;
    view->mapped = true;
    *out = (char *)map + before;
    return TARN_OK;
}

static tarn_status view_read(const tarn_gnz *g, const tarn__gnz_entry *e,
                             tarn_gnz_view *view, void **out, tarn_error *err)
{
    size_t size = (size_t)tarn__gnz_bytes(e);
    view->owned = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (!view->owned) return tarn__fail_memory(err);
    *out = view->owned;
    return tarn__file_read(&g->file, view->owned, size, e->offset, err);
}

static tarn_status view_of(tarn_gnz *g, const tarn__gnz_entry *e, tarn_gnz_mode mode,
                           tarn_gnz_view *view, void **out, tarn_error *err)
{
    TARN_TRY(tarn__gnz_check_length(g, err));
    if (mode == TARN_GNZ_WRITE) return view_for_writing(g, e, out, err);
    if (g->io != TARN_IO_MAP || (mode == TARN_GNZ_READ && !g->map))
        return view_read(g, e, view, out, err);
    if (mode == TARN_GNZ_COPY) return view_copy(g, e, view, out, err);
    *out = g->map + e->offset;
    return TARN_OK;
}

tarn_status tarn_gnz_get(tarn_gnz *g, size_t number, tarn_gnz_mode mode,
                         tarn_gnz_view *out, tarn_error *err)
{
    TARN__NEED(err, "gnz", g);
    TARN__NEED(err, "out", out);
    static char nothing[1]; /* the values of an empty array */
    const tarn__gnz_entry *e;
    void *data = nothing;
    *out = (tarn_gnz_view){0};
    TARN_TRY(entry_at(g, number, &e, err));
    if ((unsigned)mode > TARN_GNZ_COPY)
        return tarn__fail(err, TARN_ERR_USAGE, "%d is not a view mode", (int)mode);
    if (tarn__gnz_bytes(e)) {
        tarn_status status = view_of(g, e, mode, out, &data, err);
        if (status != TARN_OK) {
            tarn_gnz_view_release(out);
            return status;
        }
    }
    tarn__gnz_entry_array(e, data, &out->array);
    return TARN_OK;
}

void tarn_gnz_view_release(tarn_gnz_view *view)
{
    if (!view) return;
    if (view->mapped)
        munmap(view->owned, view->owned_size);
    else
        free(view->owned);
    *view = (tarn_gnz_view){0};
}

tarn_status tarn_gnz_flush(tarn_gnz *g, tarn_error *err)
{
    TARN__NEED(err, "gnz", g);
    pthread_mutex_lock(&g->lock.mutex);
    int fd = g->write_fd;
    pthread_mutex_unlock(&g->lock.mutex);
    if (fd < 0 || fsync(fd) == 0) return TARN_OK;
    return tarn__fail_errno(err, g->file.path, errno, "cannot sync");
}

/* --- Rows -------------------------------------------------------------------------- */

static tarn_status check_rows(const tarn_gnz *g, const tarn__gnz_entry *e, uint64_t first,
                              uint64_t rows, tarn_error *err)
{
    if (first <= e->rows && rows <= e->rows - first) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_NO_SAMPLE, g->file.path, TARN_NO_OFFSET,
                         "no rows %llu to %llu: array \"%s\" has %llu rows",
                         (unsigned long long)first, (unsigned long long)(first + rows),
                         TARN__SHOW(e->name, e->name_size), (unsigned long long)e->rows);
}

/* Reads rows of an array in Fortran order. The values at one position of all rows are
 * stored together, and there may be many positions, so larger pieces are read and
 * split. */
static tarn_status read_fortran(const tarn_gnz *g, const tarn__gnz_entry *e,
                                uint64_t first, uint64_t rows, char *buf, tarn_error *err)
{
    enum { PIECE = 1 << 20 };
    size_t item = e->dtype.size;
    uint64_t places = e->row_bytes / item, column = e->rows * item;
    uint64_t at_once = rows * item < PIECE ? rows : PIECE / item ? PIECE / item : 1;
    char *piece = malloc((size_t)at_once * item);
    if (!piece) return tarn__fail_memory(err);
    tarn_array whole;
    tarn_status status = TARN_OK;
    uint64_t index[TARN_MAX_DIMS] = {0};
    tarn__gnz_entry_array(e, NULL, &whole);
    for (uint64_t place = 0; place < places && status == TARN_OK; place++) {
        uint64_t source = 0; /* start of this position in columns, last index fastest */
        for (unsigned i = 1; i < e->ndim; i++)
            source += index[i] * (uint64_t)whole.strides[i] / column;
        for (uint64_t row = 0; row < rows && status == TARN_OK; row += at_once) {
            uint64_t n = rows - row < at_once ? rows - row : at_once;
            status =
                tarn__file_read(&g->file, piece, (size_t)(n * item),
                                e->offset + source * column + (first + row) * item, err);
            for (uint64_t k = 0; k < n && status == TARN_OK; k++)
                memcpy(buf + (row + k) * e->row_bytes + place * item, piece + k * item,
                       item);
        }
        for (unsigned i = e->ndim; i-- > 1 && ++index[i] == e->shape[i];)
            index[i] = 0;
    }
    free(piece);
    return status;
}

tarn_status tarn_gnz_read(tarn_gnz *g, size_t number, uint64_t first, uint64_t rows,
                          void *buf, size_t size, tarn_error *err)
{
    TARN__NEED(err, "gnz", g);
    TARN__NEED(err, "buf", buf || !size);
    const tarn__gnz_entry *e;
    TARN_TRY(entry_at(g, number, &e, err));
    TARN_TRY(check_rows(g, e, first, rows, err));
    uint64_t bytes = rows * e->row_bytes;
    if (bytes > size)
        return tarn__fail_at(err, TARN_ERR_LIMIT, g->file.path, TARN_NO_OFFSET,
                             "the rows need %llu bytes, but the buffer has %zu",
                             (unsigned long long)bytes, size);
    if (bytes == 0) return TARN_OK;
    tarn_status status = e->fortran && e->ndim > 1
                             ? read_fortran(g, e, first, rows, buf, err)
                             : tarn__file_read(&g->file, buf, (size_t)bytes,
                                               e->offset + first * e->row_bytes, err);
    return status == TARN_OK ? tarn__gnz_check_length(g, err) : status;
}

void tarn_gnz_advise(tarn_gnz *g, size_t number, uint64_t first, uint64_t rows,
                     tarn_gnz_advice advice)
{
    if (!g) return;
    static const struct {
        int map, file;
    } calls[] = {{MADV_NORMAL, POSIX_FADV_NORMAL},
                 {MADV_SEQUENTIAL, POSIX_FADV_SEQUENTIAL},
                 {MADV_RANDOM, POSIX_FADV_RANDOM},
                 {MADV_WILLNEED, POSIX_FADV_WILLNEED},
                 {MADV_DONTNEED, POSIX_FADV_DONTNEED}};
    const tarn__gnz_entry *e;
    if ((unsigned)advice >= sizeof calls / sizeof calls[0] ||
        entry_at(g, number, &e, NULL) != TARN_OK ||
        check_rows(g, e, first, rows, NULL) != TARN_OK)
        return;
    /* In Fortran order the values of a row are spread over the whole array. */
    uint64_t at = e->fortran ? e->offset : e->offset + first * e->row_bytes;
    uint64_t len = e->fortran ? tarn__gnz_bytes(e) : rows * e->row_bytes;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = at & (page - 1);
    if (len == 0) return;
    if (g->map)
        (void)madvise(g->map + at - before, (size_t)(len + before), calls[advice].map);
    if (!g->file.remote)
        (void)posix_fadvise(g->file.fd, (off_t)at, (off_t)len, calls[advice].file);
}

tarn_status tarn__gnz_view_row(tarn_gnz *g, size_t number, uint64_t row, tarn_view *out,
                               tarn_error *err)
{
    const tarn__gnz_entry *e;
    *out = (tarn_view)TARN_VIEW_INIT;
    TARN_TRY(entry_at(g, number, &e, err));
    TARN_TRY(check_rows(g, e, row, 1, err));
    if (g->map && (!e->fortran || e->ndim == 1)) {
        TARN_TRY(tarn__gnz_check_length(g, err));
        *out = (tarn_view){g->map + e->offset + row * e->row_bytes, (size_t)e->row_bytes,
                           NULL};
        return TARN_OK;
    }
    void *copy = malloc(e->row_bytes ? (size_t)e->row_bytes : 1);
    if (!copy) return tarn__fail_memory(err);
    tarn_status status =
        tarn_gnz_read(g, number, row, 1, copy, (size_t)e->row_bytes, err);
    if (status != TARN_OK) {
        free(copy);
        return status;
    }
    *out = (tarn_view){copy, (size_t)e->row_bytes, copy};
    return TARN_OK;
}
