/* Makes IAC files from the files of a folder, or of a manifest with columns for each
 * file. */
#include "pack/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/names.h"
#include "base/utf8.h"
#include "io/manifest.h"
#include "io/tree.h"

/* --- Common ----------------------------------------------------------------------- */

static tarn_status no_slides(struct ArrowArrayStream *out, tarn_error *err)
{
    static const char *const columns[] = {"u32:slide_idx", "text:slide_id",
                                          "text:patient_id"};
    tarn_iac_rows *rows;
    TARN_TRY(tarn_iac_rows_new(columns, 3, &rows, err));
    return tarn_iac_rows_finish(rows, out, err);
}

static tarn_status add_files(tarn_iac_writer *w, char *const *files, size_t count,
                             const tarn__records_watch *watch, tarn_error *err)
{
    uint64_t size, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        TARN_TRY(tarn_iac_writer_add_file(w, files[i], &size, err));
        bytes += size;
        if (watch && watch->step(watch->context, i + 1, count, bytes))
            return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    }
    return TARN_OK;
}

/* Writes the files in order, with an index that has a row for each. Frees rows. */
static tarn_status write_iac(const char *path, tarn_iac_rows *rows, char *const *files,
                             size_t count, const tarn_iac_write_options *options,
                             const tarn__records_watch *watch, tarn_error *err)
{
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_iac_writer *w;
    TARN_TRY(tarn_iac_rows_finish(rows, &index, err));
    tarn_status status = no_slides(&slides, err);
    if (status != TARN_OK) {
        index.release(&index);
        return status;
    }
    TARN_TRY(tarn_iac_writer_open(path, &slides, &index, options, &w, err));
    status = add_files(w, files, count, watch, err);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, err);
    tarn_iac_writer_abandon(w);
    return status;
}

typedef struct list {
    char **items;
    uint64_t *sizes;
    size_t count, capacity, sizes_capacity;
    size_t inner; /* for a folder: offset of the relative path in each item */
} list;

static void list_reset(list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i]);
    free(l->items);
    free(l->sizes);
}

static tarn_status list_add(list *l, const char *text, uint64_t size, tarn_error *err)
{
    TARN_TRY(tarn__grow(&l->items, sizeof *l->items, l->count, &l->capacity, err));
    TARN_TRY(tarn__grow(&l->sizes, sizeof *l->sizes, l->count, &l->sizes_capacity, err));
    char *copy = strdup(text);
    if (!copy) return tarn__fail_memory(err);
    l->sizes[l->count] = size;
    l->items[l->count++] = copy;
    return TARN_OK;
}

/* --- Folders ---------------------------------------------------------------------- */

static tarn_status list_file(void *context, const char *path, size_t inner,
                             tarn_error *err)
{
    struct stat st;
    list *files = context;
    files->inner = inner;
    if (stat(path, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot stat");
    return list_add(files, path, (uint64_t)st.st_size, err);
}

static tarn_status folder_rows(const list *files, tarn_iac_rows **out, tarn_error *err)
{
    static const char *const columns[] = {"text:path", "uint:size"};
    TARN_TRY(tarn_iac_rows_new(columns, 2, out, err));
    for (size_t i = 0; i < files->count; i++) {
        const char *name = files->items[i] + files->inner;
        tarn_iac_cell path = {TARN_IAC_TEXT, name, strlen(name), 0, 0},
                      size = {.kind = TARN_IAC_INTEGER,
                              .integer = (int64_t)files->sizes[i]};
        tarn_status status = tarn_iac_rows_add(*out, 0, &path, err);
        if (status == TARN_OK) status = tarn_iac_rows_add(*out, 1, &size, err);
        if (status == TARN_OK) continue;
        tarn_iac_rows_free(*out);
        return status;
    }
    return TARN_OK;
}

tarn_status tarn__records_from_folder(const char *path, const char *folder,
                                      const tarn_iac_write_options *options,
                                      const tarn__records_watch *watch,
                                      uint64_t *out_records, tarn_error *err)
{
    list files = {0};
    tarn_iac_rows *rows;
    tarn__tree tree = {.hidden = true, .file = list_file, .context = &files};
    tarn__tree_output(&tree, path);
    tarn_status status = tarn__tree_walk(&tree, folder, err);
    if (status == TARN_OK) status = folder_rows(&files, &rows, err);
    if (status == TARN_OK)
        status = write_iac(path, rows, files.items, files.count, options, watch, err);
    if (status == TARN_OK && out_records) *out_records = files.count;
    list_reset(&files);
    return status;
}

/* --- Manifests -------------------------------------------------------------------- */

enum { MAX_COLUMNS = 1024 };

typedef struct manifest {
    tarn__names columns;
    bool is_text[MAX_COLUMNS];
    list files;
    tarn__buf path;
    tarn_iac_rows *rows;
} manifest;

static bool is_file(const tarn__cell *cell)
{
    return cell->name_len == 4 && memcmp(cell->name, "file", 4) == 0;
}

static tarn_status add_path(manifest *m, const tarn__manifest *from,
                            const tarn__json *file, tarn_error *err)
{
    if (!file || file->kind != TARN__JSON_STRING)
        return tarn__fail(err, TARN_ERR_FORMAT, "the row has no \"file\"");
    TARN_TRY(tarn__manifest_path(from, file->u.text, file->size, &m->path, err));
    return list_add(&m->files, m->path.data, 0, err);
}

/* Adds a cell's column, and remembers whether all its values are integers. */
static tarn_status learn_column(manifest *m, const tarn__cell *cell, tarn_error *err)
{
    uint32_t id;
    int64_t number;
    if (memchr(cell->name, 0, cell->name_len) ||
        !tarn__utf8_is_valid(cell->name, cell->name_len))
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "a column's name is not valid UTF-8, or contains a NUL");
    TARN_TRY(tarn__names_add(&m->columns, cell->name, cell->name_len, &id, err));
    if (id >= MAX_COLUMNS)
        return tarn__fail(err, TARN_ERR_LIMIT, "too many columns (limit %d)",
                          MAX_COLUMNS);
    if (cell->value->kind != TARN__JSON_NULL && !tarn__json_int64(cell->value, &number))
        m->is_text[id] = true;
    return TARN_OK;
}

/* The first pass: reads the names and types of the columns. */
static tarn_status learn_row(void *context, const tarn__manifest *from,
                             const tarn__cell *cells, size_t count, tarn_error *err)
{
    manifest *m = context;
    const tarn__json *file = NULL;
    if (from->is_header) return TARN_OK;
    for (size_t i = 0; i < count; i++) {
        if (is_file(&cells[i]))
            file = cells[i].value;
        else
            TARN_TRY(learn_column(m, &cells[i], err));
    }
    return add_path(m, from, file, err);
}

/* Adds text unchanged and other values as JSON. */
static tarn_status add_value(tarn_iac_rows *rows, size_t column, const tarn__json *v,
                             bool is_text, tarn_error *err)
{
    tarn_iac_cell cell = {.kind = TARN_IAC_INTEGER};
    if (!v || v->kind == TARN__JSON_NULL)
        return tarn_iac_rows_add(rows, column, NULL, err);
    if (!is_text && tarn__json_int64(v, &cell.integer))
        return tarn_iac_rows_add(rows, column, &cell, err);
    if (v->kind == TARN__JSON_STRING) {
        cell = (tarn_iac_cell){TARN_IAC_TEXT, v->u.text, v->size, 0, 0};
        return tarn_iac_rows_add(rows, column, &cell, err);
    }
    tarn__buf text;
    tarn__json_writer w;
    tarn__buf_init(&text, SIZE_MAX / 2);
    tarn__json_begin(&w, &text);
    w.ascii = false;
    tarn__json_put_value(&w, v, false);
    tarn_status status = tarn__json_end(&w, err);
    cell = (tarn_iac_cell){TARN_IAC_TEXT, text.data, text.size, 0, 0};
    if (status == TARN_OK) status = tarn_iac_rows_add(rows, column, &cell, err);
    tarn__buf_reset(&text);
    return status;
}

static const tarn__json *find_value(const tarn__cell *cells, size_t count,
                                    tarn__name name)
{
    for (size_t i = 0; i < count; i++)
        if (cells[i].name_len == name.size &&
            memcmp(cells[i].name, name.data, name.size) == 0)
            return cells[i].value;
    return NULL;
}

/* The second pass: adds the values. */
static tarn_status add_row(void *context, const tarn__manifest *from,
                           const tarn__cell *cells, size_t count, tarn_error *err)
{
    manifest *m = context;
    for (size_t i = 0; !from->is_header && i < m->columns.count; i++) {
        const tarn__json *value =
            find_value(cells, count, tarn__names_get(&m->columns, i));
        TARN_TRY(add_value(m->rows, i, value, m->is_text[i], err));
    }
    return TARN_OK;
}

static tarn_status new_rows(const manifest *m, tarn_iac_rows **out, tarn_error *err)
{
    size_t n = m->columns.count;
    char **columns = calloc(n + 1, sizeof *columns);
    tarn_status status = columns ? TARN_OK : tarn__fail_memory(err);
    for (size_t i = 0; i < n && status == TARN_OK; i++) {
        tarn__name name = tarn__names_get(&m->columns, i);
        columns[i] = malloc(name.size + 6);
        if (!columns[i]) {
            status = tarn__fail_memory(err);
            break;
        }
        size_t word = m->is_text[i] ? 5 : 4;
        memcpy(columns[i], m->is_text[i] ? "text:" : "int:", word);
        memcpy(columns[i] + word, name.data, name.size + 1);
    }
    if (status == TARN_OK)
        status = tarn_iac_rows_new((const char *const *)columns, n, out, err);
    for (size_t i = 0; columns && i < n; i++)
        free(columns[i]);
    free(columns);
    return status;
}

static tarn_status pack_manifest(manifest *m, tarn__manifest *from, const char *path,
                                 const tarn_iac_write_options *options,
                                 const tarn__records_watch *watch, tarn_error *err)
{
    TARN_TRY(tarn__manifest_each(from, learn_row, m, err));
    if (m->columns.count == 0)
        return tarn__fail_at(err, TARN_ERR_FORMAT, from->path, TARN_NO_OFFSET,
                             "the manifest has no column besides \"file\"");
    TARN_TRY(new_rows(m, &m->rows, err));
    tarn_status status = tarn__manifest_each(from, add_row, m, err);
    if (status == TARN_OK)
        return write_iac(path, m->rows, m->files.items, m->files.count, options, watch,
                         err);
    tarn_iac_rows_free(m->rows);
    return status;
}

tarn_status tarn__records_from_manifest(const char *path, const char *manifest_path,
                                        const tarn_iac_write_options *options,
                                        const tarn__records_watch *watch,
                                        uint64_t *out_records, tarn_error *err)
{
    tarn__manifest from;
    manifest *m = calloc(1, sizeof *m);
    if (!m) return tarn__fail_memory(err);
    tarn__names_init(&m->columns);
    tarn__buf_init(&m->path, SIZE_MAX / 2);
    tarn_status status = tarn__manifest_open(&from, manifest_path, err);
    if (status == TARN_OK) {
        status = pack_manifest(m, &from, path, options, watch, err);
        tarn__manifest_close(&from);
    }
    if (status == TARN_OK && out_records) *out_records = m->files.count;
    tarn__names_reset(&m->columns);
    tarn__buf_reset(&m->path);
    list_reset(&m->files);
    free(m);
    return status;
}
