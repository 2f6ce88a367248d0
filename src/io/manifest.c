/* Reads manifests line by line. */
#include "io/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

typedef struct reading {
    tarn__manifest *m;
    tarn__manifest_visit visit;
    void *context;
    const char *at, *end;
    tarn__cell *cells;
    size_t n_cells, capacity;
} reading;

static tarn_status add_cell(reading *r, const char *name, size_t len,
                            const tarn__json *value, tarn_error *err)
{
    TARN_TRY(tarn__grow(&r->cells, sizeof *r->cells, r->n_cells, &r->capacity, err));
    r->cells[r->n_cells++] = (tarn__cell){name, len, value};
    return TARN_OK;
}

static tarn_status visit_row(const reading *r, tarn_error *err)
{
    return r->visit(r->context, r->m, r->cells, r->n_cells, err);
}

static tarn_status fail(tarn_error *err, const char *what)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "%s", what);
}

/* --- CSV and TSV ------------------------------------------------------------------- */

typedef struct table {
    reading *r;
    char comma;
    tarn__names columns;
    tarn__buf text; /* of the cells in the line, each NUL-terminated */
    size_t *starts;
    tarn__json *values;
    size_t n, capacity;
} table;

static tarn_status quoted_cell(table *t, tarn_error *err)
{
    reading *r = t->r;
    for (r->at++;; r->at++) {
        if (r->at == r->end) return fail(err, "a quoted cell is not closed");
        if (*r->at == '"') {
            if (r->at + 1 == r->end || r->at[1] != '"') break;
            r->at++;
        }
        if (*r->at == '\n') r->m->line++;
        TARN_TRY(tarn__buf_add(&t->text, r->at, 1, err));
    }
    r->at++;
    if (r->at < r->end && *r->at != t->comma && *r->at != '\n' && *r->at != '\r')
        return fail(err, "text after the closing quote of a cell");
    return TARN_OK;
}

static tarn_status plain_cell(table *t, tarn_error *err)
{
    reading *r = t->r;
    const char *from = r->at;
    while (r->at < r->end && *r->at != t->comma && *r->at != '\n')
        r->at++;
    size_t len = (size_t)(r->at - from);
    if (len && from[len - 1] == '\r' && (r->at == r->end || *r->at == '\n')) len--;
    return len ? tarn__buf_add(&t->text, from, len, err) : TARN_OK;
}

static tarn_status one_cell(table *t, tarn_error *err)
{
    reading *r = t->r;
    TARN_TRY(tarn__grow(&t->starts, sizeof *t->starts, t->n, &t->capacity, err));
    t->starts[t->n++] = t->text.size;
    if (r->at < r->end && *r->at == '"')
        TARN_TRY(quoted_cell(t, err));
    else
        TARN_TRY(plain_cell(t, err));
    if (r->at < r->end && *r->at == '\r') r->at++;
    return tarn__buf_add(&t->text, "", 1, err);
}

/* Reads the cells of the next line. An empty line has none. */
static tarn_status next_line(table *t, tarn_error *err)
{
    reading *r = t->r;
    t->n = t->text.size = 0;
    bool more = r->at < r->end;
    while (more) {
        TARN_TRY(one_cell(t, err));
        /* A comma at the very end of the text starts one more, empty cell. */
        more = r->at < r->end && *r->at++ != '\n';
    }
    if (t->n == 1 && !t->text.data[0]) t->n = 0;
    return TARN_OK;
}

static tarn_status take_columns(table *t, tarn_error *err)
{
    TARN_TRY(next_line(t, err));
    for (size_t i = 0; i < t->n; i++) {
        const char *name = t->text.data + t->starts[i];
        uint32_t id;
        TARN_TRY(tarn__names_add(&t->columns, name, strlen(name), &id, err));
        if (id != i) return fail(err, "two columns have the same name");
        if (!*name) return fail(err, "a column has no name");
        TARN_TRY(add_cell(t->r, tarn__names_get(&t->columns, i).data, strlen(name), NULL,
                          err));
    }
    t->values = calloc(t->n + 1, sizeof *t->values);
    if (!t->values) return tarn__fail_memory(err);
    t->r->m->is_header = true;
    return visit_row(t->r, err);
}

static tarn_status take_row(table *t, tarn_error *err)
{
    if (t->n != t->columns.count)
        return fail(
            err,
            "the number of cells differs from the number of columns in the first line");
    t->r->m->is_header = false;
    for (size_t i = 0; i < t->n; i++) {
        const char *text = t->text.data + t->starts[i];
        size_t len = strlen(text);
        if (len > UINT32_MAX)
            return tarn__fail(err, TARN_ERR_LIMIT, "a cell of more than 4 GiB");
        t->values[i] = (tarn__json){
            *text ? TARN__JSON_STRING : TARN__JSON_NULL, (uint32_t)len, {text}};
        t->r->cells[i].value = &t->values[i];
    }
    return visit_row(t->r, err);
}

static tarn_status read_rows(table *t, tarn_error *err)
{
    tarn__manifest *m = t->r->m;
    TARN_TRY(take_columns(t, err));
    while (t->r->at < t->r->end) {
        uint64_t began = ++m->line;
        TARN_TRY(next_line(t, err));
        uint64_t ended = m->line;
        m->line = began;
        if (t->n) TARN_TRY(take_row(t, err));
        m->line = ended;
    }
    return TARN_OK;
}

static tarn_status read_table(reading *r, char comma, tarn_error *err)
{
    table t = {.r = r, .comma = comma};
    r->m->line = 1;
    const char *nul = r->at < r->end ? memchr(r->at, 0, (size_t)(r->end - r->at)) : NULL;
    for (const char *at = r->at; nul && at < nul; at++)
        r->m->line += *at == '\n';
    if (nul) return fail(err, "a NUL byte: this is not a text file");
    tarn__names_init(&t.columns);
    tarn__buf_init(&t.text, SIZE_MAX / 2);
    tarn_status status = read_rows(&t, err);
    tarn__names_reset(&t.columns);
    tarn__buf_reset(&t.text);
    free(t.starts);
    free(t.values);
    return status;
}

/* --- JSON lines -------------------------------------------------------------------- */

static tarn_status take_object(reading *r, const tarn__json *object, tarn_error *err)
{
    if (object->kind != TARN__JSON_OBJECT) return fail(err, "not a JSON object");
    const tarn__json *name = object + 1;
    r->n_cells = 0;
    for (uint32_t i = 0; i < object->size; i++, name = tarn__json_next(name + 1))
        TARN_TRY(add_cell(r, name->u.text, name->size, name + 1, err));
    return visit_row(r, err);
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

static tarn_status read_lines(reading *r, tarn_error *err)
{
    static const tarn__json_options options = TARN__JSON_OPTIONS_INIT;
    r->m->line = 0;
    r->m->is_header = false;
    while (r->at < r->end) {
        const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at)),
                   *line = r->at;
        size_t len = (size_t)((newline ? newline : r->end) - line);
        tarn__json_doc doc;
        r->at = newline ? newline + 1 : r->end;
        r->m->line++;
        if (is_blank(line, len)) continue;
        tarn_status status = tarn__json_parse(&doc, line, len, &options, err);
        if (status == TARN_OK) status = take_object(r, tarn__json_root(&doc), err);
        tarn__json_reset(&doc);
        TARN_TRY(status);
    }
    return TARN_OK;
}

/* --- All formats ------------------------------------------------------------------- */

bool tarn__is_manifest(const char *path)
{
    return tarn__ends_with(path, ".csv") || tarn__ends_with(path, ".tsv") ||
           tarn__ends_with(path, ".jsonl") || tarn__ends_with(path, ".ndjson");
}

tarn_status tarn__manifest_open(tarn__manifest *m, const char *path, tarn_error *err)
{
    *m = (tarn__manifest){.path = path};
    return tarn__contents_open(&m->contents, path, err);
}

void tarn__manifest_close(tarn__manifest *m)
{
    tarn__contents_close(&m->contents);
}

tarn_status tarn__manifest_each(tarn__manifest *m, tarn__manifest_visit take,
                                void *context, tarn_error *err)
{
    reading r = {.m = m, .visit = take, .context = context};
    r.at = (const char *)m->contents.data;
    r.end = r.at + m->contents.size;
    /* Some programs write a byte order mark at the beginning of a file. */
    if (r.end - r.at >= 3 && memcmp(r.at, "\xef\xbb\xbf", 3) == 0) r.at += 3;
    bool is_csv = tarn__ends_with(m->path, ".csv"),
         is_tsv = tarn__ends_with(m->path, ".tsv");
    tarn_status status =
        is_csv || is_tsv ? read_table(&r, is_csv ? ',' : '\t', err) : read_lines(&r, err);
    free(r.cells);
    if (status != TARN_OK) tarn__error_line(err, status, m->path, m->line);
    return status;
}

tarn_status tarn__manifest_path(const tarn__manifest *m, const char *path, size_t len,
                                tarn__buf *out, tarn_error *err)
{
    const char *slash = strrchr(m->path, '/'), *root = m->root ? m->root : m->path;
    size_t folder = m->root ? strlen(m->root) : slash ? (size_t)(slash - m->path) + 1 : 0;
    bool relative = len && path[0] != '/' && folder;
    if (memchr(path, 0, len)) return fail(err, "a path contains a NUL");
    if (!len || path[len - 1] == '/')
        return fail(err, "a file path is empty or ends with a slash");
    out->size = 0;
    if (relative) TARN_TRY(tarn__buf_add(out, root, folder, err));
    if (relative && root[folder - 1] != '/') TARN_TRY(tarn__buf_add(out, "/", 1, err));
    TARN_TRY(tarn__buf_add(out, path, len, err));
    return tarn__buf_add(out, "", 1, err);
}
