/* Samples as rows of arrays. A field that has the same shape in all samples becomes an
 * array. This takes two passes, because the width of text and the need for keys are known
 * only at the end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "target.h"

enum {
    BLOCK = 1 << 20,    /* bytes of an array that are written at once */
    MAX_WIDTH = 1 << 24 /* characters of a text */
};

typedef struct column {
    char *field;     /* of the samples */
    char *name;      /* of the array */
    bool text;       /* <U; width is in characters */
    bool look_once;  /* decoding is slow, and put detects differing shapes */
    tarn_array like; /* one row */
    uint64_t width;
    unsigned char *rows;
    size_t row_bytes, room, filled;
    uint64_t first; /* number of the first row in rows */
} column;

typedef struct state {
    const cli_args *args;
    const char *path;
    uint64_t count;
    column *columns;
    size_t n, sized; /* number of fields; with keys, sized is one more */
    char *first_key; /* key of sample 0, for messages */
    bool named;      /* keys are not just row numbers */
    const char *metadata;
    tarn_gnz_writer *writer;
    cli_progress progress;
} state;

static void free_state(state *s)
{
    for (size_t i = 0; i < s->sized; i++) {
        free(s->columns[i].field);
        free(s->columns[i].name);
        free(s->columns[i].rows);
    }
    free(s->columns);
    free(s->first_key);
    free(s);
}

/* --- Shapes of rows ---------------------------------------------------------------- */

static char *array_text(const column *c, const tarn_array *a, char *out, size_t size)
{
    char type[TARN_DTYPE_TEXT_MAX];
    size_t n =
        (size_t)snprintf(out, size, "%s of shape (", tarn_dtype_text(a->dtype, type));
    if (c && c->text) {
        snprintf(out, size, "text");
        return out;
    }
    for (unsigned i = 0; i < a->ndim && n < size; i++)
        n +=
            (size_t)snprintf(out + n, size - n, "%s%" PRIu64, i ? ", " : "", a->shape[i]);
    if (n < size) snprintf(out + n, size - n, a->ndim == 1 ? ",)" : ")");
    return out;
}

static tarn_status fail_unlike(const state *s, const column *c, const cli_record *r,
                               const cli_piece_value *v, tarn_error *err)
{
    char key[200], first[200], is[200], was[200];
    return cli_error(
        err, TARN_ERR_UNSUPPORTED,
        "sample %s: field %s is %s, but in sample %s it is %s; the rows of an array have "
        "one shape: exclude the field with --fields, or convert to a fold or a record "
        "pack",
        tarn_printable(key, sizeof key, r->key, strlen(r->key)), c->field,
        v->kind == CLI_TEXT ? "text" : array_text(NULL, &v->array, is, sizeof is),
        tarn_printable(first, sizeof first, s->first_key, strlen(s->first_key)),
        array_text(c, &c->like, was, sizeof was));
}

static bool is_alike(const column *c, const cli_piece_value *v)
{
    const tarn_array *a = &v->array, *b = &c->like;
    if (c->text) return v->kind == CLI_TEXT;
    if (v->kind != CLI_ARRAY || a->dtype.kind != b->dtype.kind ||
        a->dtype.size != b->dtype.size || a->dtype.order != b->dtype.order ||
        a->ndim != b->ndim)
        return false;
    for (unsigned i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

/* Counts the characters of a text. A trailing NUL would not be kept by an array. */
static tarn_status measure(const cli_record *r, const char *field, const char *text,
                           size_t size, uint64_t *out, tarn_error *err)
{
    char key[200];
    uint32_t code = 1;
    size_t n = 0;
    *out = 0;
    for (size_t at = 0; at < size; at += n, ++*out)
        if ((n = cli_utf8(text + at, size - at, &code)) == 0) break;
    if (code != 0 && (size == 0 || n)) return TARN_OK;
    return cli_error(err, TARN_ERR_UNSUPPORTED, "sample %s: %s %s",
                     tarn_printable(key, sizeof key, r->key, strlen(r->key)), field,
                     n ? "ends with a NUL, which an array of text cannot store"
                       : "is not UTF-8");
}

static tarn_status check_kind(const cli_record *r, const cli_piece *p,
                              const cli_piece_value *v, tarn_error *err)
{
    char key[200];
    if (v->kind == CLI_ARRAY || v->kind == CLI_TEXT) return TARN_OK;
    return cli_error(err, TARN_ERR_UNSUPPORTED,
                     "sample %s: field %s is %s, which cannot be stored in an array; "
                     "exclude the field with --fields",
                     tarn_printable(key, sizeof key, r->key, strlen(r->key)), p->name,
                     v->kind == CLI_NULL ? "null" : "a JSON object or list");
}

/* --- The first pass ---------------------------------------------------------------- */

/* "x.npy" becomes array x. Other names stay unchanged. */
static char *array_name(const cli_piece *p)
{
    size_t len = strlen(p->name);
    bool cut = p->form.form == TARN_FORM_NAMED && cli_ends_with(p->name, ".npy");
    char *name = strndup(p->name, cut ? len - 4 : len);
    if (!name) cli_no_memory();
    return name;
}

static tarn_status add_column(state *s, const cli_record *r, const cli_piece *p,
                              tarn_error *err)
{
    cli_piece_value v;
    column *c = &s->columns[s->n];
    TARN_TRY(cli_value_read(r, p, &v, err));
    tarn_status status = check_kind(r, p, &v, err);
    if (status == TARN_OK) {
        *c = (column){.field = strdup(p->name), .name = array_name(p)};
        if (!c->field) cli_no_memory();
        c->text = v.kind == CLI_TEXT;
        c->like = v.array;
        c->look_once = p->form.form != TARN_FORM_ARRAY && !c->text && v.array.ndim > 0 &&
                       !cli_field_is(p->form.codec, "npy");
        s->sized = ++s->n;
    }
    cli_value_free(&v);
    return status;
}

static tarn_status look_first(state *s, const cli_record *r, tarn_error *err)
{
    s->columns = calloc(r->count + 2, sizeof *s->columns);
    s->first_key = strdup(r->key);
    if (!s->columns || !s->first_key) cli_no_memory();
    for (size_t i = 0; i < r->count; i++)
        TARN_TRY(add_column(s, r, &r->pieces[i], err));
    column *keys = &s->columns[s->n];
    *keys = (column){.field = strdup("the key"), .name = strdup("_key"), .text = true};
    if (!keys->field || !keys->name) cli_no_memory();
    s->sized = s->n + 1;
    return TARN_OK;
}

/* The column of piece i, or NULL. Most samples have their fields in the same order. */
static column *find_column(const state *s, const cli_record *r, size_t i)
{
    for (size_t k = 0; k < s->n; k++) {
        column *c = &s->columns[(i + k) % s->n];
        if (strcmp(c->field, r->pieces[i].name) == 0) return c;
    }
    return NULL;
}

static tarn_status fail_alone(const cli_record *r, size_t i, tarn_error *err)
{
    char key[200];
    return cli_error(err, TARN_ERR_UNSUPPORTED,
                     "sample %s has a field %s that other samples do not have; select "
                     "common fields with --fields",
                     tarn_printable(key, sizeof key, r->key, strlen(r->key)),
                     r->pieces[i].name);
}

static tarn_status check_lacking(const state *s, const cli_record *r, tarn_error *err)
{
    char key[200];
    for (size_t k = 0; k < s->n; k++) {
        size_t i = 0;
        while (i < r->count && strcmp(r->pieces[i].name, s->columns[k].field) != 0)
            i++;
        if (i == r->count)
            return cli_error(err, TARN_ERR_UNSUPPORTED,
                             "sample %s does not have the field %s that other samples "
                             "have; select common fields with --fields",
                             tarn_printable(key, sizeof key, r->key, strlen(r->key)),
                             s->columns[k].field);
    }
    return TARN_OK;
}

static tarn_status look_piece(state *s, const cli_record *r, size_t i, tarn_error *err)
{
    cli_piece_value v;
    column *c = find_column(s, r, i);
    uint64_t width = 0;
    if (!c) return fail_alone(r, i, err);
    if (c->look_once) return TARN_OK;
    TARN_TRY(cli_value_read(r, &r->pieces[i], &v, err));
    tarn_status status = check_kind(r, &r->pieces[i], &v, err);
    if (status == TARN_OK && !is_alike(c, &v)) status = fail_unlike(s, c, r, &v, err);
    if (status == TARN_OK && c->text) {
        status = measure(r, c->field, v.text, v.size, &width, err);
        if (status == TARN_OK && width > c->width) c->width = width;
    }
    cli_value_free(&v);
    return status;
}

static tarn_status look_at_sample(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    char number[32];
    uint64_t width;
    if (r->number == 0) TARN_TRY(look_first(s, r, err));
    if (r->count < s->n) TARN_TRY(check_lacking(s, r, err));
    for (size_t i = 0; i < r->count; i++)
        TARN_TRY(look_piece(s, r, i, err));
    snprintf(number, sizeof number, "%09" PRIu64, r->number);
    s->named |= strcmp(r->key, number) != 0;
    TARN_TRY(measure(r, "the key", r->key, strlen(r->key), &width, err));
    if (width > s->columns[s->n].width) s->columns[s->n].width = width;
    return TARN_OK;
}

/* --- The file ---------------------------------------------------------------------- */

static tarn_status reserve(state *s, column *c, uint64_t rows, tarn_error *err)
{
    tarn_dtype as = c->like.dtype;
    uint64_t shape[TARN_MAX_DIMS];
    bool cast = false;
    if (c->text) {
        if (c->width > MAX_WIDTH)
            return cli_error(err, TARN_ERR_LIMIT,
                             "field %s: a text of %" PRIu64
                             " characters is too long for an array",
                             c->field, c->width);
        /* NumPy has no text of width 0 either. */
        uint32_t width = c->width ? (uint32_t)c->width : 1;
        c->like = (tarn_array){.dtype = {'<', 'U', 4 * width}};
        as = c->like.dtype;
    }
    if (c->like.ndim + 1 > TARN_MAX_DIMS)
        return cli_error(err, TARN_ERR_LIMIT,
                         "field %s has %u dimensions; an array cannot have one more",
                         c->field, c->like.ndim);
    if (!c->text && cli_arrays_type(s->args, c->name, &as, &cast) != CLI_OK)
        return cli_error(err, TARN_ERR_USAGE, "%s", "");
    shape[0] = s->count;
    memcpy(shape + 1, c->like.shape, c->like.ndim * sizeof *shape);
    c->row_bytes = (size_t)tarn_array_bytes(&c->like);
    c->room = c->row_bytes && c->row_bytes < BLOCK ? BLOCK / c->row_bytes : 1;
    if (c->room > s->count) c->room = (size_t)s->count;
    c->rows = malloc(c->room * c->row_bytes + 1);
    if (!c->rows) return cli_error(err, TARN_ERR_MEMORY, "out of memory");
    return tarn_gnz_writer_reserve(s->writer, c->name, as, c->like.ndim + 1, shape, rows,
                                   err);
}

static bool check_as(const state *s)
{
    const char **names = calloc(s->n + 1, sizeof *names);
    if (!names) cli_no_memory();
    for (size_t i = 0; i < s->n; i++)
        names[i] = s->columns[i].name;
    int status = cli_arrays_check_as(s->args, names, s->n);
    free(names);
    return status == CLI_OK;
}

static tarn_status begin(void *context, tarn_error *err)
{
    state *s = context;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    uint64_t rows = 0;
    if (!s->columns)
        return cli_error(err, TARN_ERR_USAGE,
                         "there are no samples, so the types of the arrays are unknown");
    if (!check_as(s)) return cli_error(err, TARN_ERR_USAGE, "%s", "");
    if (!s->named) s->sized = s->n; /* row numbers need not be stored */
    o.overwrite = cli_has(s->args, "overwrite");
    o.checksums = cli_has(s->args, "checksums");
    o.no_sync = cli_has(s->args, "no-sync");
    if (!cli_number(s->args, "header-pages", &o.header_pages) ||
        !cli_size(s->args, "reserve", &rows))
        return cli_error(err, TARN_ERR_USAGE, "%s", "");
    TARN_TRY(tarn_gnz_writer_open(s->path, &o, &s->writer, err));
    if (cli_arrays_metadata(s->args, s->metadata, s->writer) != CLI_OK)
        return cli_error(err, TARN_ERR_USAGE, "%s", "");
    for (size_t i = 0; i < s->sized; i++)
        TARN_TRY(reserve(s, &s->columns[i], rows > s->count ? rows : s->count, err));
    return tarn_gnz_writer_begin(s->writer, err);
}

static tarn_status write_rows(state *s, const column *c, void *data, uint64_t rows,
                              const tarn_array *row, tarn_error *err)
{
    uint64_t start[TARN_MAX_DIMS] = {c->first};
    tarn_array block = {.data = data, .dtype = c->like.dtype, .ndim = c->like.ndim + 1};
    int64_t stride = c->like.dtype.size;
    block.shape[0] = rows;
    for (unsigned i = c->like.ndim; i > 0; i--) {
        block.shape[i] = c->like.shape[i - 1];
        block.strides[i] = row ? row->strides[i - 1] : stride;
        stride *= (int64_t)block.shape[i];
    }
    block.strides[0] = (int64_t)c->row_bytes;
    return tarn_gnz_writer_fill(s->writer, c->name, start, &block, err);
}

static tarn_status flush(state *s, column *c, tarn_error *err)
{
    if (c->filled) TARN_TRY(write_rows(s, c, c->rows, c->filled, NULL, err));
    c->first += c->filled;
    c->filled = 0;
    return TARN_OK;
}

static void put_text(unsigned char *out, size_t room, const char *text, size_t size)
{
    uint32_t code = 0;
    memset(out, 0, room);
    for (size_t at = 0, n; at < size && room >= 4; at += n, out += 4, room -= 4) {
        n = cli_utf8(text + at, size - at, &code);
        for (int i = 0; i < 4; i++)
            out[i] = (unsigned char)(code >> (8 * i));
    }
}

static tarn_status put_value(state *s, column *c, const cli_piece_value *v,
                             tarn_error *err)
{
    unsigned char *to = c->rows + c->filled * c->row_bytes;
    if (c->text) {
        put_text(to, c->row_bytes, v->text, v->size);
    } else if (v->array.ndim && !tarn_array_is_packed(&v->array)) {
        TARN_TRY(flush(s, c, err));
        TARN_TRY(write_rows(s, c, v->array.data, 1, &v->array, err));
        c->first++;
        return TARN_OK;
    } else if (c->row_bytes) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): the key's is text. */
        memcpy(to, v->array.data, c->row_bytes);
    }
    return ++c->filled == c->room ? flush(s, c, err) : TARN_OK;
}

static tarn_status put_sample(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    for (size_t i = 0; i < r->count; i++) {
        cli_piece_value v;
        column *c = find_column(s, r, i);
        if (!c) return fail_alone(r, i, err);
        TARN_TRY(cli_value_read(r, &r->pieces[i], &v, err));
        tarn_status status = check_kind(r, &r->pieces[i], &v, err);
        if (status == TARN_OK && !is_alike(c, &v)) status = fail_unlike(s, c, r, &v, err);
        if (status == TARN_OK) status = put_value(s, c, &v, err);
        cli_value_free(&v);
        TARN_TRY(status);
    }
    if (!s->named) return TARN_OK;
    cli_piece_value key = {.kind = CLI_TEXT, .text = r->key, .size = strlen(r->key)};
    return put_value(s, &s->columns[s->n], &key, err);
}

static void stop(void *context)
{
    state *s = context;
    if (s->writer) tarn_gnz_writer_abandon(s->writer);
    if (s->columns) s->sized = s->n + 1;
    free_state(s);
}

static void print_summary(const state *s)
{
    cli_json j = {.out = stdout};
    if (!cli_has(s->args, "json")) {
        cli_print("%s in %s -> %s\n", cli_count(s->count, "row"),
                  cli_count(s->sized, "array"), cli_shown(s->path));
        return;
    }
    cli_json_open(&j, NULL, '[');
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "output", cli_shown(s->path));
    cli_json_number(&j, "samples", s->count);
    cli_json_number(&j, "arrays", s->sized);
    cli_json_close(&j, '}');
    cli_json_close(&j, ']');
    cli_json_line(&j);
}

static int end(void *context)
{
    state *s = context;
    tarn_error err;
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < s->sized && status == TARN_OK; i++)
        status = flush(s, &s->columns[i], &err);
    if (status == TARN_OK) {
        status = tarn_gnz_writer_finish(s->writer, &err);
        s->writer = NULL;
    }
    if (status == TARN_OK && !cli_has(s->args, "quiet")) print_summary(s);
    stop(s);
    return status == TARN_OK ? CLI_OK : cli_fail(&err);
}

int cli_target_gnz(const cli_args *args, const char *path, const char *metadata,
                   uint64_t count, cli_target *out)
{
    state *s = calloc(1, sizeof *s);
    if (!s) cli_no_memory();
    *s = (state){.args = args, .path = path, .count = count, .metadata = metadata};
    *out = (cli_target){s, look_at_sample, begin, put_sample, end, stop};
    return CLI_OK;
}
