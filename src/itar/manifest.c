/* Filling a collection from manifests: a table of samples whose fields are values or the
 * paths of files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "itar/collection.h"
#include "tar/rules.h"

typedef struct manifest {
    tarn_collection *c;
    const char *path;
    char *folder;   /* of the manifest: where paths begin */
    tarn__buf text; /* the cell or value at hand */
    uint64_t line;  /* at hand, counted from 1 */
} manifest;

static tarn_status fail(const manifest *m, tarn_error *err, const char *what)
{
    return tarn__fail_at(err, TARN_ERR_FORMAT, m->path, TARN_NO_OFFSET, "line %llu: %s",
                         (unsigned long long)m->line, what);
}

/* A failure below, told with the line it concerns. */
static tarn_status at_line(const manifest *m, tarn_status status, tarn_error *err)
{
    if (status != TARN_OK) tarn__error_line(err, status, m->path, m->line);
    return status;
}

/* Found here, a key that no output could take is told with its line, and before anything
 * is written. */
static tarn_status check_key(const manifest *m, const char *key, size_t len,
                             tarn_error *err)
{
    if (tarn__check_key(TARN_RULES_STRICT, key, len, err) == TARN_OK) return TARN_OK;
    return at_line(m, TARN_ERR_FORMAT, err);
}

/* A line of which no sample comes, because all of its fields are empty. */
static void pass_over(const manifest *m)
{
    tarn_error what;
    m->c->passed_over++;
    if (!m->c->options.notice) return;
    tarn__error_set(&what, TARN_ERR_UNSUPPORTED, m->path, TARN_NO_OFFSET,
                    "line %llu: passed over: no field has a value",
                    (unsigned long long)m->line);
    m->c->options.notice(m->c->options.notice_context, &what);
}

/* Fields whose bytes are the text itself. Of all others a text can only be the path. */
static bool holds_text(const char *field, size_t len)
{
    static const char *const names[] = {
        "txt", "text", "transcript", "caption", "html",  "htm", "json", "jsn",
        "cls", "cls2", "class",      "count",   "index", "inx", "id",   "csv",
        "tsv", "xml",  "yaml",       "yml",     "md",    "url", "label"};
    const char *dot = memrchr(field, '.', len);
    const char *last = dot ? dot + 1 : field;
    size_t last_len = len - (size_t)(last - field);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == last_len && strncasecmp(names[i], last, last_len) == 0)
            return true;
    return false;
}

static tarn_status add_path(manifest *m, const char *key, size_t key_len,
                            const char *field, size_t field_len, const char *path,
                            size_t path_len, tarn_error *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    tarn__buf folder;
    if (memchr(path, 0, path_len)) return fail(m, err, "a NUL in a path");
    if (!*name) return fail(m, err, "the path of a file is empty or ends with a slash");
    tarn__buf_init(&folder, SIZE_MAX / 2);
    tarn_status status = TARN_OK;
    if (path[0] != '/')
        status = tarn__buf_add(&folder, m->folder, strlen(m->folder), err);
    if (status == TARN_OK && path[0] != '/') status = tarn__buf_add(&folder, "/", 1, err);
    if (status == TARN_OK)
        status = tarn__buf_add(&folder, path, (size_t)(name - path), err);
    if (status == TARN_OK) status = tarn__buf_add(&folder, "", 1, err);
    if (status == TARN_OK)
        status = tarn__collect_file(m->c, key, key_len, field, field_len, folder.data,
                                    name, NULL, err);
    tarn__buf_reset(&folder);
    return at_line(m, status, err);
}

/* A text of a field: itself, or a path. */
static tarn_status add_text(manifest *m, const char *key, size_t key_len,
                            const char *field, size_t field_len, const char *text,
                            size_t len, tarn_error *err)
{
    bool is_path = len && text[0] == '@' && !(len > 1 && text[1] == '@');
    if (len > 1 && text[0] == '@' && text[1] == '@') {
        text++;
        len--;
    } else if (!is_path && !holds_text(field, field_len)) {
        return add_path(m, key, key_len, field, field_len, text, len, err);
    }
    if (is_path)
        return add_path(m, key, key_len, field, field_len, text + 1, len - 1, err);
    return at_line(
        m, tarn__collect_value(m->c, key, key_len, field, field_len, text, len, err),
        err);
}

/* Some programs begin a file with a byte order mark. */
static const char *behind_mark(const char *at, const char *end)
{
    return end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0 ? at + 3 : at;
}

/* --- CSV --------------------------------------------------------------------------- */

typedef struct table {
    const char *at, *end;
    char comma;
    tarn__names columns;
    size_t key;      /* its column */
    tarn__buf cells; /* of the line at hand, each ended by a NUL */
    size_t *starts;
    size_t n_cells, capacity;
} table;

static tarn_status quoted_cell(manifest *m, table *t, tarn_error *err)
{
    for (t->at++;; t->at++) {
        if (t->at == t->end) return fail(m, err, "a quoted cell does not end");
        if (*t->at == '"') {
            if (t->at + 1 == t->end || t->at[1] != '"') break;
            t->at++;
        }
        if (*t->at == '\n') m->line++;
        TARN_TRY(tarn__buf_add(&t->cells, t->at, 1, err));
    }
    t->at++;
    if (t->at < t->end && *t->at != t->comma && *t->at != '\n' && *t->at != '\r')
        return fail(m, err, "text behind the closing quote of a cell");
    return TARN_OK;
}

static tarn_status plain_cell(table *t, tarn_error *err)
{
    const char *from = t->at;
    while (t->at < t->end && *t->at != t->comma && *t->at != '\n')
        t->at++;
    size_t len = (size_t)(t->at - from);
    if (len && from[len - 1] == '\r' && (t->at == t->end || *t->at == '\n')) len--;
    return len ? tarn__buf_add(&t->cells, from, len, err) : TARN_OK;
}

/* The cells of the next line. An empty line has none. */
static tarn_status next_line(manifest *m, table *t, tarn_error *err)
{
    t->n_cells = t->cells.size = 0;
    while (t->at < t->end) {
        TARN_TRY(
            tarn__grow(&t->starts, sizeof *t->starts, t->n_cells, &t->capacity, err));
        t->starts[t->n_cells++] = t->cells.size;
        if (*t->at == '"')
            TARN_TRY(quoted_cell(m, t, err));
        else
            TARN_TRY(plain_cell(t, err));
        TARN_TRY(tarn__buf_add(&t->cells, "", 1, err));
        if (t->at < t->end && *t->at == '\r') t->at++;
        if (t->at == t->end) break;
        char ended = *t->at++;
        if (ended == '\n') break;
        /* A comma at the very end of the text opens one more, empty cell. */
        if (t->at == t->end) {
            TARN_TRY(
                tarn__grow(&t->starts, sizeof *t->starts, t->n_cells, &t->capacity, err));
            t->starts[t->n_cells++] = t->cells.size;
            TARN_TRY(tarn__buf_add(&t->cells, "", 1, err));
        }
    }
    if (t->n_cells == 1 && !t->cells.data[0]) t->n_cells = 0;
    return TARN_OK;
}

static bool is_key(const char *name)
{
    return strcmp(name, "key") == 0 || strcmp(name, "__key__") == 0;
}

static tarn_status take_columns(manifest *m, table *t, tarn_error *err)
{
    bool found = false;
    t->at = behind_mark(t->at, t->end);
    m->line = 1;
    TARN_TRY(next_line(m, t, err));
    for (size_t i = 0; i < t->n_cells; i++) {
        const char *name = t->cells.data + t->starts[i];
        uint32_t id;
        TARN_TRY(tarn__names_add(&t->columns, name, strlen(name), &id, err));
        if (id != i) return fail(m, err, "two columns have the same name");
        if (!*name) return fail(m, err, "a column has no name");
        if (is_key(name)) {
            t->key = i;
            found = true;
        }
    }
    return found ? TARN_OK : fail(m, err, "no column is called \"key\"");
}

static tarn_status take_row(manifest *m, table *t, tarn_error *err)
{
    if (t->n_cells != t->columns.count)
        return fail(m, err, "it has not as many cells as the first line has columns");
    const char *key = t->cells.data + t->starts[t->key];
    if (!*key) return fail(m, err, "the key is empty");
    TARN_TRY(check_key(m, key, strlen(key), err));
    size_t before = m->c->n_entries;
    for (size_t i = 0; i < t->n_cells; i++) {
        const char *cell = t->cells.data + t->starts[i];
        tarn__name column = tarn__names_get(&t->columns, i);
        if (i == t->key || !*cell) continue;
        TARN_TRY(add_text(m, key, strlen(key), column.data, column.size, cell,
                          strlen(cell), err));
    }
    if (m->c->n_entries == before) pass_over(m);
    return TARN_OK;
}

static tarn_status read_table(manifest *m, const tarn__contents *contents, char comma,
                              tarn_error *err)
{
    table t = {.at = (const char *)contents->data, .comma = comma};
    t.end = t.at + contents->size;
    const char *nul = contents->size ? memchr(t.at, 0, contents->size) : NULL;
    if (nul) {
        m->line = 1;
        for (const char *at = t.at; at < nul; at++)
            m->line += *at == '\n';
        return fail(m, err, "a NUL: this is no text");
    }
    tarn__names_init(&t.columns);
    tarn__buf_init(&t.cells, SIZE_MAX / 2);
    tarn_status status = take_columns(m, &t, err);
    while (status == TARN_OK && t.at < t.end) {
        m->line++;
        uint64_t began = m->line;
        status = next_line(m, &t, err);
        uint64_t ended = m->line;
        m->line = began;
        if (status == TARN_OK && t.n_cells) status = take_row(m, &t, err);
        m->line = ended;
    }
    tarn__names_reset(&t.columns);
    tarn__buf_reset(&t.cells);
    free(t.starts);
    return status;
}

/* --- JSON lines -------------------------------------------------------------------- */

static tarn_status value_text(manifest *m, const tarn__json *v, tarn_error *err)
{
    tarn__json_writer w;
    m->text.size = 0;
    tarn__json_begin(&w, &m->text);
    tarn__json_put_value(&w, v, false);
    return at_line(m, tarn__json_end(&w, err), err);
}

static tarn_status take_member(manifest *m, const tarn__json *key, const tarn__json *name,
                               const tarn__json *v, tarn_error *err)
{
    if (v->kind == TARN__JSON_NULL) return TARN_OK;
    if (v->kind == TARN__JSON_STRING)
        return add_text(m, key->u.text, key->size, name->u.text, name->size, v->u.text,
                        v->size, err);
    TARN_TRY(value_text(m, v, err));
    return at_line(m,
                   tarn__collect_value(m->c, key->u.text, key->size, name->u.text,
                                       name->size, m->text.data, m->text.size, err),
                   err);
}

static tarn_status take_object(manifest *m, const tarn__json *object, tarn_error *err)
{
    if (object->kind != TARN__JSON_OBJECT) return fail(m, err, "not a JSON object");
    const tarn__json *key = tarn__json_find(object, "key");
    if (!key) key = tarn__json_find(object, "__key__");
    if (!key) return fail(m, err, "no member is called \"key\"");
    bool good = key->kind == TARN__JSON_STRING || key->kind == TARN__JSON_INTEGER;
    if (!good || !key->size || memchr(key->u.text, 0, key->size))
        return fail(m, err, "the key is neither text nor a whole number");
    TARN_TRY(check_key(m, key->u.text, key->size, err));
    size_t before = m->c->n_entries;
    const tarn__json *name = object + 1;
    for (uint32_t i = 0; i < object->size; i++) {
        const tarn__json *v = name + 1;
        if (v != key) {
            if (memchr(name->u.text, 0, name->size))
                return fail(m, err, "a NUL in the name of a field");
            TARN_TRY(take_member(m, key, name, v, err));
        }
        name = tarn__json_next(v);
    }
    if (m->c->n_entries == before) pass_over(m);
    return TARN_OK;
}

static tarn_status take_line(manifest *m, const char *line, size_t len, tarn_error *err)
{
    static const tarn__json_options options = TARN__JSON_OPTIONS_INIT;
    tarn__json_doc doc;
    tarn_status status =
        at_line(m, tarn__json_parse(&doc, line, len, &options, err), err);
    if (status == TARN_OK) status = take_object(m, tarn__json_root(&doc), err);
    tarn__json_reset(&doc);
    return status;
}

static tarn_status read_lines(manifest *m, const tarn__contents *contents,
                              tarn_error *err)
{
    const char *at = (const char *)contents->data, *end = at + contents->size;
    at = behind_mark(at, end);
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        m->line++;
        while (len && (at[len - 1] == '\r' || at[len - 1] == ' '))
            len--;
        if (len) TARN_TRY(take_line(m, at, len, err));
        at = newline ? newline + 1 : end;
    }
    return TARN_OK;
}

/* --- Either ------------------------------------------------------------------------ */

static bool ends_with(const char *path, const char *ending)
{
    size_t len = strlen(path), n = strlen(ending);
    return len > n && strcasecmp(path + len - n, ending) == 0;
}

static tarn_status read_manifest(manifest *m, const tarn__contents *contents,
                                 tarn_error *err)
{
    if (ends_with(m->path, ".csv")) return read_table(m, contents, ',', err);
    if (ends_with(m->path, ".tsv")) return read_table(m, contents, '\t', err);
    if (ends_with(m->path, ".jsonl") || ends_with(m->path, ".ndjson"))
        return read_lines(m, contents, err);
    return tarn__fail_at(err, TARN_ERR_USAGE, m->path, TARN_NO_OFFSET,
                         "a manifest ends in .csv, .tsv, .jsonl or .ndjson");
}

tarn_status tarn_collection_add_manifest(tarn_collection *c, const char *path,
                                         tarn_error *err)
{
    tarn__contents contents;
    const char *slash = strrchr(path, '/');
    manifest m = {.c = c, .path = path};
    TARN_TRY(tarn__contents_open(&contents, path, err));
    m.folder = slash == path ? strdup("/")
               : slash       ? strndup(path, (size_t)(slash - path))
                             : strdup(".");
    tarn__buf_init(&m.text, SIZE_MAX / 2);
    tarn_status status =
        m.folder ? read_manifest(&m, &contents, err) : tarn__fail_memory(err);
    tarn__buf_reset(&m.text);
    free(m.folder);
    tarn__contents_close(&contents);
    return status;
}
