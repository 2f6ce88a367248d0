/* Makes IAC files from the files of a folder, or of a manifest with columns for each
 * file. */
#include "pack/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "io/manifest.h"
#include "pack/columns.h"

/* --- Common ----------------------------------------------------------------------- */

static tarn_status no_slides(struct ArrowArrayStream *out, tarn_error *err)
{
    static const char *const columns[] = {"u32:slide_idx", "text:slide_id",
                                          "text:patient_id"};
    tarn_iac_rows *rows;
    TARN_TRY(tarn_iac_rows_new(columns, 3, &rows, err));
    return tarn_iac_rows_finish(rows, out, err);
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

/* The header says what the payloads are, so they are compared with it. */
static tarn_status check_image(const char *path, const char *codec, tarn_error *err)
{
    static const struct {
        const char *codec, *name, *magic;
        size_t size;
    } images[] = {{"png", "a PNG", "\x89PNG\r\n\x1a\n", 8},
                  {"jpeg", "a JPEG", "\xff\xd8\xff", 3},
                  {"jpegls", "a JPEG-LS image", "\xff\xd8\xff", 3}};
    unsigned char head[8];
    size_t got = 0;
    tarn__file file;
    TARN_TRY(tarn__file_open(&file, path, err));
    tarn_status status = tarn__read_at(file.fd, path, head, sizeof head, 0, &got, err);
    tarn__file_close(&file);
    TARN_TRY(status);
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        if (strcmp(images[i].codec, codec) == 0 &&
            (got < images[i].size || memcmp(head, images[i].magic, images[i].size) != 0))
            return tarn__fail_at(err, TARN_ERR_FORMAT, path, 0,
                                 "not %s, but the codec of the record pack is %s",
                                 images[i].name, codec);
    return TARN_OK;
}

static tarn_status add_files(tarn_iac_writer *w, const list *files,
                             const tarn__records_options *o, tarn_error *err)
{
    uint64_t size, bytes = 0;
    for (size_t i = 0; i < files->count; i++) {
        if (o->write && o->write->encoded && o->write->codec)
            TARN_TRY(check_image(files->items[i], o->write->codec, err));
        TARN_TRY(tarn_iac_writer_add_file(w, files->items[i], &size, err));
        bytes += size;
        if (o->step && o->step(o->context, i + 1, files->count, bytes))
            return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    }
    return TARN_OK;
}

/* Writes the files in order, with an index that has a row for each. Frees rows. */
static tarn_status write_iac(const char *path, tarn_iac_rows *rows, const list *files,
                             const tarn__records_options *o, tarn_error *err)
{
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_iac_writer *w;
    TARN_TRY(tarn_iac_rows_finish(rows, &index, err));
    tarn_status status = no_slides(&slides, err);
    if (status != TARN_OK) {
        index.release(&index);
        return status;
    }
    TARN_TRY(tarn_iac_writer_open(path, &slides, &index, o->write, &w, err));
    status = add_files(w, files, o, err);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, err);
    tarn_iac_writer_abandon(w);
    return status;
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
        tarn_iac_cell path = {.kind = TARN_IAC_TEXT, .text = name, .size = strlen(name)},
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
                                      const tarn__records_options *o,
                                      uint64_t *out_records, tarn_error *err)
{
    list files = {0};
    tarn_iac_rows *rows;
    tarn__tree tree = {
        .globs = o->globs, .hidden = true, .file = list_file, .context = &files};
    if (o->n_types)
        return tarn__fail(
            err, TARN_ERR_USAGE,
            "types need a manifest with columns as the source; %s is a folder", folder);
    tarn__tree_output(&tree, path);
    tarn_status status = tarn__tree_walk(&tree, folder, err);
    if (status == TARN_OK) status = folder_rows(&files, &rows, err);
    if (status == TARN_OK) status = write_iac(path, rows, &files, o, err);
    if (status == TARN_OK && out_records) *out_records = files.count;
    list_reset(&files);
    return status;
}

/* --- Manifests -------------------------------------------------------------------- */

typedef struct manifest {
    tarn__columns columns;
    list files;
    tarn__buf path;
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

/* The first pass: finds the names and types of the columns. */
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
            TARN_TRY(tarn__columns_learn(&m->columns, cells[i].name, cells[i].name_len,
                                         cells[i].value, from->line, err));
    }
    return add_path(m, from, file, err);
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
    tarn__columns *c = &m->columns;
    for (size_t i = 0; !from->is_header && i < c->names.count; i++)
        TARN_TRY(tarn__columns_add(
            c, i, find_value(cells, count, tarn__names_get(&c->names, i)), err));
    return TARN_OK;
}

static tarn_status pack_manifest(manifest *m, tarn__manifest *from, const char *path,
                                 const tarn__records_options *o, tarn_error *err)
{
    TARN_TRY(tarn__manifest_each(from, learn_row, m, err));
    if (m->columns.names.count == 0)
        return tarn__fail_at(err, TARN_ERR_FORMAT, from->path, TARN_NO_OFFSET,
                             "the manifest has no column besides \"file\"");
    TARN_TRY(tarn__columns_begin(&m->columns, err));
    TARN_TRY(tarn__manifest_each(from, add_row, m, err));
    tarn_iac_rows *rows = m->columns.rows;
    m->columns.rows = NULL;
    return write_iac(path, rows, &m->files, o, err);
}

tarn_status tarn__records_from_manifest(const char *path, const char *manifest_path,
                                        const tarn__records_options *o,
                                        uint64_t *out_records, tarn_error *err)
{
    tarn__manifest from;
    manifest *m = calloc(1, sizeof *m);
    if (!m) return tarn__fail_memory(err);
    tarn__buf_init(&m->path, SIZE_MAX / 2);
    tarn_status status = tarn__columns_init(&m->columns, o->types, o->n_types, err);
    if (status == TARN_OK) {
        status = tarn__manifest_open(&from, manifest_path, err);
        if (status == TARN_OK) {
            from.root = o->root;
            status = pack_manifest(m, &from, path, o, err);
            tarn__manifest_close(&from);
        }
    }
    if (status == TARN_OK && out_records) *out_records = m->files.count;
    tarn__columns_reset(&m->columns);
    tarn__buf_reset(&m->path);
    list_reset(&m->files);
    free(m);
    return status;
}
