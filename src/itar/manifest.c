/* Fills a collection from manifests: rows of samples whose fields are values or paths of
 * files. */
#include "io/manifest.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "itar/collection.h"
#include "tar/rules.h"

typedef struct filling {
    tarn__collection *c;
    const tarn__manifest *m;
    const tarn__json *key; /* of the row */
    tarn__buf text;        /* a value as JSON, or a path */
} filling;

static tarn_status fail(tarn_error *err, const char *what)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "%s", what);
}

/* Fields that store the text itself. For all other fields a text can only be a path. */
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

static tarn_status add_value(filling *f, const tarn__cell *cell, const char *value,
                             size_t len, tarn_error *err)
{
    return tarn__collect_value(f->c, f->key->u.text, f->key->size, cell->name,
                               cell->name_len, value, len, err);
}

static tarn_status add_path(filling *f, const tarn__cell *cell, const char *path,
                            size_t len, tarn_error *err)
{
    TARN_TRY(tarn__manifest_path(f->m, path, len, &f->text, err));
    char *whole = f->text.data, *slash = strrchr(whole, '/');
    const char *folder = !slash ? "" : slash == whole ? "/" : whole;
    if (slash) *slash = '\0';
    return tarn__collect_file(f->c, f->key->u.text, f->key->size, cell->name,
                              cell->name_len, folder, slash ? slash + 1 : whole, NULL,
                              err);
}

/* "@PATH" is a file, "@@" a text that starts with "@". */
static tarn_status add_text(filling *f, const tarn__cell *cell, tarn_error *err)
{
    const char *text = cell->value->u.text;
    size_t len = cell->value->size;
    if (len > 1 && text[0] == '@' && text[1] == '@')
        return add_value(f, cell, text + 1, len - 1, err);
    if (len && text[0] == '@') return add_path(f, cell, text + 1, len - 1, err);
    if (holds_text(cell->name, cell->name_len)) return add_value(f, cell, text, len, err);
    return add_path(f, cell, text, len, err);
}

static tarn_status add_json(filling *f, const tarn__cell *cell, tarn_error *err)
{
    tarn__json_writer w;
    f->text.size = 0;
    tarn__json_begin(&w, &f->text);
    tarn__json_put_value(&w, cell->value, false);
    TARN_TRY(tarn__json_end(&w, err));
    return add_value(f, cell, f->text.data, f->text.size, err);
}

static tarn_status add_cell(filling *f, const tarn__cell *cell, tarn_error *err)
{
    if (memchr(cell->name, 0, cell->name_len))
        return fail(err, "the name of a field contains a NUL");
    if (cell->value == f->key || cell->value->kind == TARN__JSON_NULL) return TARN_OK;
    if (cell->value->kind == TARN__JSON_STRING) return add_text(f, cell, err);
    return add_json(f, cell, err);
}

static const tarn__cell *find_cell(const tarn__cell *cells, size_t count,
                                   const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (cells[i].name_len == strlen(name) &&
            memcmp(cells[i].name, name, cells[i].name_len) == 0)
            return &cells[i];
    return NULL;
}

/* Detects invalid keys here, where the line is known and before anything is written. */
static tarn_status check_key(const tarn__json *key, tarn_error *err)
{
    if (key->kind == TARN__JSON_NULL) return fail(err, "the key is empty");
    bool good = key->kind == TARN__JSON_STRING || key->kind == TARN__JSON_INTEGER;
    if (!good || !key->size || memchr(key->u.text, 0, key->size))
        return fail(err, "the key is neither text nor a whole number");
    if (tarn__check_key(TARN_RULES_STRICT, key->u.text, key->size, err) == TARN_OK)
        return TARN_OK;
    return TARN_ERR_FORMAT;
}

static void skip_row(const filling *f)
{
    tarn_error what;
    f->c->skipped++;
    if (!f->c->options.notice) return;
    tarn__error_set(&what, TARN_ERR_UNSUPPORTED, f->m->path, TARN_NO_OFFSET,
                    "line %llu: skipped: no field has a value",
                    (unsigned long long)f->m->line);
    f->c->options.notice(f->c->options.notice_context, &what);
}

static tarn_status take_row(void *context, const tarn__manifest *m,
                            const tarn__cell *cells, size_t count, tarn_error *err)
{
    filling *f = context;
    const tarn__cell *key = find_cell(cells, count, "key");
    if (!key) key = find_cell(cells, count, "__key__");
    f->m = m;
    if (!key) return fail(err, "no column named \"key\"");
    if (m->is_header) return TARN_OK;
    f->key = key->value;
    TARN_TRY(check_key(f->key, err));
    size_t before = f->c->n_entries;
    for (size_t i = 0; i < count; i++)
        TARN_TRY(add_cell(f, &cells[i], err));
    if (f->c->n_entries == before) skip_row(f);
    return TARN_OK;
}

tarn_status tarn__collection_add_manifest(tarn__collection *c, const char *path,
                                          tarn_error *err)
{
    tarn__manifest m;
    filling f = {.c = c};
    if (!tarn__is_manifest(path))
        return tarn__fail_at(
            err, TARN_ERR_USAGE, path, TARN_NO_OFFSET,
            "the name of a manifest must end in .csv, .tsv, .jsonl or .ndjson");
    TARN_TRY(tarn__manifest_open(&m, path, err));
    m.root = c->options.root;
    tarn__buf_init(&f.text, SIZE_MAX / 2);
    tarn_status status = tarn__manifest_each(&m, take_row, &f, err);
    tarn__buf_reset(&f.text);
    tarn__manifest_close(&m);
    return status;
}
