/* Packs from files: a folder, or a manifest that says more about each file. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/json.h"
#include "base/names.h"
#include "base/utf8.h"
#include "io/file.h"

#include <tarn/iac.h>

/* --- Common ----------------------------------------------------------------------- */

static tarn_status no_slides(struct ArrowArrayStream *out, tarn_error *err)
{
    static const char *const columns[] = {"u32:slide_idx", "text:slide_id",
                                          "text:patient_id"};
    tarn_iac_rows *rows;
    TARN_TRY(tarn_iac_rows_new(columns, 3, &rows, err));
    return tarn_iac_rows_finish(rows, out, err);
}

static tarn_status add_file(tarn_iac_writer *w, const char *path, tarn_error *err)
{
    tarn__contents contents;
    TARN_TRY(tarn__contents_open(&contents, path, err));
    tarn_status status =
        tarn_iac_writer_add(w, contents.data, (size_t)contents.size, err);
    tarn__contents_close(&contents);
    return status;
}

/* Files in their order, next to a table with a row for each. Frees the table's builder.
 */
static tarn_status write_pack(const char *path, tarn_iac_rows *rows, char *const *files,
                              size_t count, const tarn_iac_write_options *options,
                              tarn_error *err)
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
    for (size_t i = 0; i < count && status == TARN_OK; i++)
        status = add_file(w, files[i], err);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, err);
    tarn_iac_writer_abandon(w);
    return status;
}

typedef struct list {
    char **items;
    uint64_t *sizes;
    size_t count, capacity, sizes_capacity;
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

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* A file, or a link to one. The pack itself, if it lies in the folder, is none. */
static bool is_payload(const FTSENT *entry, const struct stat *pack, struct stat *st)
{
    if (entry->fts_info == FTS_F)
        *st = *entry->fts_statp;
    else if (entry->fts_info != FTS_SL || stat(entry->fts_accpath, st) != 0)
        return false;
    return S_ISREG(st->st_mode) &&
           (!pack || st->st_dev != pack->st_dev || st->st_ino != pack->st_ino);
}

static tarn_status walk(FTS *tree, const struct stat *pack, list *out, tarn_error *err)
{
    FTSENT *entry;
    struct stat st;
    while ((errno = 0, entry = fts_read(tree))) {
        if (entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR ||
            entry->fts_info == FTS_NS)
            return tarn__fail_errno(err, entry->fts_path, entry->fts_errno,
                                    "cannot be read");
        if (is_payload(entry, pack, &st))
            TARN_TRY(list_add(out, entry->fts_path, (uint64_t)st.st_size, err));
    }
    if (errno) return tarn__fail_errno(err, NULL, errno, "cannot read the folder");
    return TARN_OK;
}

static tarn_status list_folder(const char *folder, const char *path, list *out,
                               tarn_error *err)
{
    struct stat pack;
    bool there = stat(path, &pack) == 0;
    char *roots[] = {strdup(folder), NULL};
    if (!roots[0]) return tarn__fail_memory(err);
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    tarn_status status = tree ? walk(tree, there ? &pack : NULL, out, err)
                              : tarn__fail_errno(err, folder, errno, "cannot open");
    if (tree) fts_close(tree);
    free(roots[0]);
    return status;
}

static tarn_status folder_rows(const list *files, size_t prefix, tarn_iac_rows **out,
                               tarn_error *err)
{
    static const char *const columns[] = {"text:path", "uint:size"};
    TARN_TRY(tarn_iac_rows_new(columns, 2, out, err));
    for (size_t i = 0; i < files->count; i++) {
        const char *name = files->items[i] + prefix;
        while (*name == '/')
            name++;
        tarn_status status = tarn_iac_rows_text(*out, 0, name, strlen(name), err);
        if (status == TARN_OK)
            status = tarn_iac_rows_number(*out, 1, (int64_t)files->sizes[i], err);
        if (status == TARN_OK) continue;
        tarn_iac_rows_free(*out);
        return status;
    }
    return TARN_OK;
}

tarn_status tarn_iac_pack_folder(const char *path, const char *folder,
                                 const tarn_iac_write_options *options,
                                 uint64_t *out_records, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "folder", folder);
    list files = {0};
    tarn_iac_rows *rows;
    tarn_status status = list_folder(folder, path, &files, err);
    if (status == TARN_OK) status = folder_rows(&files, strlen(folder), &rows, err);
    if (status == TARN_OK)
        status = write_pack(path, rows, files.items, files.count, options, err);
    if (status == TARN_OK && out_records) *out_records = files.count;
    list_reset(&files);
    return status;
}

/* --- Manifests -------------------------------------------------------------------- */

enum { MAX_COLUMNS = 1024, MAX_LINE = 16 << 20 };

typedef struct manifest {
    const char *path;
    tarn__contents contents;
    tarn__names columns;
    bool is_text[MAX_COLUMNS];
    list files;
    uint64_t line; /* at hand, counted from 1 */
} manifest;

typedef tarn_status (*on_line)(manifest *m, const tarn__json *object, void *context,
                               tarn_error *err);

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", line[i]) || !line[i]) return false;
    return true;
}

/* Each line that is not blank. */
static tarn_status each_line(manifest *m, on_line visit, void *context, tarn_error *err)
{
    const char *at = (const char *)m->contents.data, *end = at + m->contents.size;
    tarn__json_options o = TARN__JSON_OPTIONS_INIT;
    o.max_bytes = MAX_LINE;
    for (m->line = 1; at < end; m->line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        tarn__json_doc doc = {0};
        tarn_status status = TARN_OK;
        if (!is_blank(at, len)) {
            status = tarn__json_parse(&doc, at, len, &o, err);
            if (status == TARN_OK && tarn__json_root(&doc)->kind != TARN__JSON_OBJECT)
                status = tarn__fail(err, TARN_ERR_FORMAT, "it is no JSON object");
            if (status == TARN_OK) status = visit(m, tarn__json_root(&doc), context, err);
        }
        tarn__json_reset(&doc);
        if (status != TARN_OK) {
            tarn__error_line(err, status, m->path, m->line);
            return status;
        }
        at += len + 1;
    }
    return TARN_OK;
}

static tarn_status add_path(manifest *m, const tarn__json *file, tarn_error *err)
{
    const char *slash = strrchr(m->path, '/');
    size_t folder = slash ? (size_t)(slash - m->path) + 1 : 0;
    if (!file || file->kind != TARN__JSON_STRING)
        return tarn__fail(err, TARN_ERR_FORMAT, "it has no \"file\"");
    if (memchr(file->u.text, 0, file->size))
        return tarn__fail(err, TARN_ERR_FORMAT, "a NUL in the path of its \"file\"");
    if (file->u.text[0] == '/') folder = 0;
    char *joined = malloc(folder + file->size + 1);
    if (!joined) return tarn__fail_memory(err);
    memcpy(joined, m->path, folder);
    memcpy(joined + folder, file->u.text, file->size + 1);
    tarn_status status = list_add(&m->files, joined, 0, err);
    free(joined);
    return status;
}

static bool is_column(const tarn__json *key)
{
    return !tarn__json_is(key, "file", 4);
}

/* First pass: which columns there are, and which are of integers throughout. */
static tarn_status learn(manifest *m, const tarn__json *object, void *context,
                         tarn_error *err)
{
    const tarn__json *key = object + 1;
    (void)context;
    TARN_TRY(add_path(m, tarn__json_find(object, "file"), err));
    for (uint32_t i = 0; i < object->size; i++, key = tarn__json_next(key + 1)) {
        uint32_t id;
        int64_t number;
        if (!is_column(key)) continue;
        if (strlen(key->u.text) != key->size ||
            !tarn__utf8_is_valid(key->u.text, key->size))
            return tarn__fail(err, TARN_ERR_FORMAT, "a column's name is not plain text");
        TARN_TRY(tarn__names_add(&m->columns, key->u.text, key->size, &id, err));
        if (id >= MAX_COLUMNS)
            return tarn__fail(err, TARN_ERR_LIMIT, "more than %d columns", MAX_COLUMNS);
        if (key[1].kind != TARN__JSON_NULL && !tarn__json_int64(key + 1, &number))
            m->is_text[id] = true;
    }
    return TARN_OK;
}

/* Text as it is, everything else as JSON. */
static tarn_status add_value(tarn_iac_rows *rows, size_t column, const tarn__json *v,
                             bool is_text, tarn_error *err)
{
    int64_t number;
    if (!v || v->kind == TARN__JSON_NULL) return tarn_iac_rows_null(rows, column, err);
    if (!is_text && tarn__json_int64(v, &number))
        return tarn_iac_rows_number(rows, column, number, err);
    if (v->kind == TARN__JSON_STRING)
        return tarn_iac_rows_text(rows, column, v->u.text, v->size, err);
    tarn__buf text;
    tarn__json_writer w;
    tarn__buf_init(&text, MAX_LINE);
    tarn__json_begin(&w, &text);
    w.ascii = false;
    tarn__json_put_value(&w, v, false);
    tarn_status status = tarn__json_end(&w, err);
    if (status == TARN_OK)
        status = tarn_iac_rows_text(rows, column, text.data, text.size, err);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status add_row(manifest *m, const tarn__json *object, void *context,
                           tarn_error *err)
{
    tarn_iac_rows *rows = context;
    for (size_t i = 0; i < m->columns.count; i++)
        TARN_TRY(add_value(rows, i,
                           tarn__json_find(object, tarn__names_get(&m->columns, i).data),
                           m->is_text[i], err));
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

static tarn_status pack_manifest(manifest *m, const char *path,
                                 const tarn_iac_write_options *options, tarn_error *err)
{
    tarn_iac_rows *rows;
    TARN_TRY(each_line(m, learn, NULL, err));
    if (m->columns.count == 0)
        return tarn__fail_at(err, TARN_ERR_FORMAT, m->path, TARN_NO_OFFSET,
                             "the manifest has no member besides \"file\" on any line");
    TARN_TRY(new_rows(m, &rows, err));
    tarn_status status = each_line(m, add_row, rows, err);
    if (status == TARN_OK)
        return write_pack(path, rows, m->files.items, m->files.count, options, err);
    tarn_iac_rows_free(rows);
    return status;
}

tarn_status tarn_iac_pack_manifest(const char *path, const char *manifest_path,
                                   const tarn_iac_write_options *options,
                                   uint64_t *out_records, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "manifest", manifest_path);
    manifest *m = calloc(1, sizeof *m);
    if (!m) return tarn__fail_memory(err);
    m->path = manifest_path;
    tarn__names_init(&m->columns);
    tarn_status status = tarn__contents_open(&m->contents, manifest_path, err);
    if (status == TARN_OK) {
        status = pack_manifest(m, path, options, err);
        tarn__contents_close(&m->contents);
    }
    if (status == TARN_OK && out_records) *out_records = m->files.count;
    tarn__names_reset(&m->columns);
    list_reset(&m->files);
    free(m);
    return status;
}
