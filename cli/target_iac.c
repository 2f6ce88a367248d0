/* Samples as records of an IAC file. Each member becomes a record with the columns key
 * and field; with --payload, each sample becomes a record with its other fields as
 * columns. Records of an IAC file keep their columns when they are copied to another. */
#include <stdlib.h>
#include <string.h>

#include "target.h"

typedef struct column {
    char *name;
    char kind; /* t text, i int, r real */
} column;

typedef struct state {
    const cli_args *args;
    const char *path;
    const char *payload; /* NULL: a record for each member */
    tarn_iac_write_options options;
    char *header;
    cli_members members;
    tarn_bytes bytes;
    column *columns;
    bool keyed; /* the first column is the key, not a field of that name */
    size_t n;
    tarn_iac_rows *rows;
    tarn_iac_writer *writer;
    uint64_t records;
} state;

static void free_state(state *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->columns[i].name);
    free(s->columns);
    free(s->header);
    cli_members_free(&s->members);
    tarn_bytes_release(&s->bytes);
    tarn_iac_rows_free(s->rows);
    free(s);
}

static tarn_status add_text(state *s, size_t i, const char *text, size_t size,
                            tarn_error *err)
{
    tarn_iac_cell cell = {.kind = TARN_IAC_TEXT, .text = text, .size = size};
    return tarn_iac_rows_add(s->rows, i, &cell, err);
}

/* --- A record for each member ------------------------------------------------------ */

static tarn_status look_members(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    TARN_TRY(cli_members_make(&s->members, r, err));
    for (size_t i = 0; i < s->members.count; i++) {
        const char *name = s->members.fields[i].name;
        TARN_TRY(add_text(s, 0, r->key, strlen(r->key), err));
        TARN_TRY(add_text(s, 1, name, strlen(name), err));
    }
    s->records += s->members.count;
    return TARN_OK;
}

static tarn_status put_members(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    TARN_TRY(cli_members_make(&s->members, r, err));
    for (size_t i = 0; i < s->members.count; i++)
        TARN_TRY(tarn_iac_writer_add(s->writer, s->members.fields[i].data,
                                     s->members.fields[i].size, err));
    return TARN_OK;
}

/* --- A record for each sample ------------------------------------------------------ */

/* The kind of column that stores a value. */
static char kind_of(const cli_piece_value *v)
{
    if (v->kind != CLI_ARRAY) return 't';
    if (v->array.ndim > 0) return 0;
    return v->array.dtype.kind == 'f'           ? 'r'
           : strchr("iub", v->array.dtype.kind) ? 'i'
                                                : 0;
}

static tarn_status fail_piece(const cli_record *r, const char *name, const char *what,
                              tarn_error *err)
{
    char key[200];
    return cli_error(err, TARN_ERR_UNSUPPORTED, "sample %s: field %s %s",
                     tarn_printable(key, sizeof key, r->key, strlen(r->key)), name, what);
}

static void add_column(state *s, const char *name, char kind)
{
    s->columns = realloc(s->columns, (s->n + 1) * sizeof *s->columns);
    if (!s->columns || !(s->columns[s->n].name = strdup(name))) cli_no_memory();
    s->columns[s->n++].kind = kind;
}

static const cli_piece *find_piece(const cli_record *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->pieces[i].name, name) == 0) return &r->pieces[i];
    return NULL;
}

/* The first sample determines the columns. */
static tarn_status look_first(state *s, const cli_record *r, tarn_error *err)
{
    s->keyed = !find_piece(r, "key");
    if (s->keyed) add_column(s, "key", 't');
    for (size_t i = 0; i < r->count; i++) {
        cli_piece_value v;
        if (strcmp(r->pieces[i].name, s->payload) == 0) continue;
        TARN_TRY(cli_value_read(r, &r->pieces[i], &v, err));
        char kind = kind_of(&v);
        cli_value_free(&v);
        if (!kind)
            return fail_piece(r, r->pieces[i].name,
                              "is an array, which a column cannot store; make it the "
                              "--payload, or exclude it with --fields",
                              err);
        add_column(s, r->pieces[i].name, kind);
    }
    const char **names = calloc(s->n, sizeof *names);
    if (!names) cli_no_memory();
    for (size_t i = 0; i < s->n; i++) {
        char *name;
        const char kind = s->columns[i].kind;
        if (asprintf(&name, "%s:%s",
                     kind == 't'   ? "text"
                     : kind == 'i' ? "int"
                                   : "real",
                     s->columns[i].name) < 0)
            cli_no_memory();
        names[i] = name;
    }
    tarn_status status = tarn_iac_rows_new(names, s->n, &s->rows, err);
    for (size_t i = 0; i < s->n; i++)
        free((void *)(uintptr_t)names[i]);
    free(names);
    return status;
}

/* A number without dimensions, of any type that a column supports. */
static tarn_status number_of(const cli_record *r, const char *name, const tarn_array *a,
                             int64_t *integer, double *real, tarn_error *err)
{
    const unsigned char *p = a->data;
    uint64_t bits = 0;
    uint32_t size = a->dtype.size;
    for (uint32_t i = 0; i < size && size <= 8; i++)
        bits = bits << 8 | p[a->dtype.order == '>' ? i : size - 1 - i];
    if (a->dtype.kind == 'f') {
        float single;
        uint32_t half = (uint32_t)bits;
        memcpy(&single, &half, sizeof single);
        if (size == 8)
            memcpy(real, &bits, sizeof *real);
        else if (size == 4)
            *real = single;
        else
            return fail_piece(r, name, "is a float of neither 4 nor 8 bytes", err);
        return TARN_OK;
    }
    if (a->dtype.kind == 'u' && bits > INT64_MAX)
        return fail_piece(r, name, "is an integer of more than 63 bits", err);
    if (a->dtype.kind == 'i' && size && size < 8 && bits >> (8 * size - 1))
        bits |= UINT64_MAX << (8 * size);
    *integer = (int64_t)bits;
    return TARN_OK;
}

static tarn_status add_value(state *s, const cli_record *r, size_t i,
                             const cli_piece_value *v, tarn_error *err)
{
    const column *c = &s->columns[i];
    tarn_iac_cell cell = {.kind = c->kind == 'i' ? TARN_IAC_INTEGER : TARN_IAC_REAL};
    if (v->kind == CLI_NULL) return tarn_iac_rows_add(s->rows, i, NULL, err);
    if (kind_of(v) != c->kind)
        return fail_piece(r, c->name, "has a different type than in the first sample",
                          err);
    if (c->kind == 't') return add_text(s, i, v->text, v->size, err);
    TARN_TRY(number_of(r, c->name, &v->array, &cell.integer, &cell.real, err));
    return tarn_iac_rows_add(s->rows, i, &cell, err);
}

/* A field that has no column. */
static tarn_status fail_extra(const state *s, const cli_record *r, tarn_error *err)
{
    for (size_t i = 0; i < r->count; i++) {
        const char *name = r->pieces[i].name;
        size_t k = 0;
        while (k < s->n && strcmp(s->columns[k].name, name) != 0)
            k++;
        if (k == s->n && strcmp(name, s->payload) != 0)
            return fail_piece(r, name,
                              "is not in the first sample, which determines the columns; "
                              "select common fields with --fields",
                              err);
    }
    return fail_piece(r, s->payload, "appears twice", err);
}

static tarn_status look_sample(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    size_t taken = 1;
    if (!find_piece(r, s->payload))
        return fail_piece(r, s->payload,
                          "is the payload, but the sample does not have it", err);
    if (!s->rows) TARN_TRY(look_first(s, r, err));
    if (s->keyed) TARN_TRY(add_text(s, 0, r->key, strlen(r->key), err));
    for (size_t i = s->keyed; i < s->n; i++) {
        const cli_piece *p = find_piece(r, s->columns[i].name);
        cli_piece_value v = {.kind = CLI_NULL};
        if (p) TARN_TRY(cli_value_read(r, p, &v, err));
        tarn_status status = add_value(s, r, i, &v, err);
        if (p) cli_value_free(&v);
        TARN_TRY(status);
        taken += p != NULL;
    }
    if (taken < r->count) return fail_extra(s, r, err);
    s->records++;
    return TARN_OK;
}

static tarn_status put_sample(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    const cli_piece *p = find_piece(r, s->payload);
    if (!p || p->form.form != TARN_FORM_ARRAY)
        return tarn_iac_writer_add(s->writer, p ? p->data : NULL, p ? p->size : 0, err);
    TARN_TRY(cli_piece_npy(p, &s->bytes, err));
    return tarn_iac_writer_add(s->writer, s->bytes.data, s->bytes.size, err);
}

/* --- The file ---------------------------------------------------------------------- */

static tarn_status begin(void *context, tarn_error *err)
{
    static const char *const slide_columns[] = {"u32:slide_idx", "text:slide_id",
                                                "text:patient_id"};
    static const char *const key_column[] = {"text:key"};
    state *s = context;
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_iac_rows *none;
    if (!s->rows) TARN_TRY(tarn_iac_rows_new(key_column, 1, &s->rows, err));
    TARN_TRY(tarn_iac_rows_new(slide_columns, 3, &none, err));
    tarn_status status = tarn_iac_rows_finish(none, &slides, err);
    if (status == TARN_OK) {
        status = tarn_iac_rows_finish(s->rows, &index, err);
        s->rows = NULL;
    }
    if (status == TARN_OK)
        status =
            tarn_iac_writer_open(s->path, &slides, &index, &s->options, &s->writer, err);
    if (slides.release) slides.release(&slides);
    if (index.release) index.release(&index);
    return status;
}

static int end(void *context)
{
    state *s = context;
    tarn_error err;
    tarn_status status = tarn_iac_writer_finish(s->writer, &err);
    if (status == TARN_OK) cli_iac_print_summary(s->args, s->records, s->path);
    free_state(s);
    return status == TARN_OK ? CLI_OK : cli_fail(&err);
}

static void stop(void *context)
{
    state *s = context;
    if (s->writer) tarn_iac_writer_abandon(s->writer);
    free_state(s);
}

/* The header describes the payloads. */
static void set_header(state *s)
{
    char *text = NULL;
    size_t size;
    if (s->options.header) return;
    FILE *out = open_memstream(&text, &size);
    cli_json j = {.out = out};
    if (!out) cli_no_memory();
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "payload_type", s->payload ? s->payload : "tar member");
    cli_json_close(&j, '}');
    if (fclose(out) != 0) cli_no_memory();
    s->options.header = s->header = text;
}

/* Samples that are records have one payload. */
static bool are_records(const cli_sources *sources)
{
    for (size_t k = 0; k < sources->n; k++) {
        tarn_field_form form;
        tarn_dataset *d = sources->parts[k].dataset;
        if (tarn_dataset_form(d, 0, 0, &form, sizeof form, NULL) != TARN_OK ||
            form.form != TARN_FORM_BYTES)
            return false;
    }
    return sources->n > 0;
}

int cli_target_iac(const cli_args *args, const char *path, const cli_sources *sources,
                   cli_target *out)
{
    static const char *const columns[] = {"text:key", "text:field"};
    tarn_error err;
    state *s = calloc(1, sizeof *s);
    if (!s) cli_no_memory();
    *s = (state){.args = args,
                 .path = path,
                 .payload = cli_value(args, "payload"),
                 .options = TARN_IAC_WRITE_OPTIONS_INIT};
    int status = cli_iac_options(args, &s->options);
    if (!s->payload && are_records(sources)) s->payload = "payload";
    if (status == CLI_OK && !s->payload &&
        tarn_iac_rows_new(columns, 2, &s->rows, &err) != TARN_OK)
        status = cli_fail(&err);
    set_header(s);
    *out = s->payload ? (cli_target){s, look_sample, begin, put_sample, end, stop}
                      : (cli_target){s, look_members, begin, put_members, end, stop};
    if (status != CLI_OK) free_state(s);
    return status;
}

bool cli_can_copy_records(const cli_args *args, const cli_sources *sources)
{
    return sources->n == 1 && !sources->mix.dataset && !cli_has(args, "fields") &&
           !cli_has(args, "payload") && !cli_has(args, "number") && are_records(sources);
}

int cli_copy_records(const cli_args *args, const cli_sources *sources,
                     const uint64_t *order, uint64_t count, const char *path)
{
    tarn_error err;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    int status = cli_iac_options(args, &o);
    if (status != CLI_OK) return status;
    o.encoded = !cli_has(args, "codec");
    uint64_t *rows = malloc((count + 1) * sizeof *rows);
    if (!rows) cli_no_memory();
    tarn_status done = TARN_OK;
    for (uint64_t i = 0; done == TARN_OK && i < count; i++) {
        tarn_place place;
        done = tarn_dataset_locate(sources->parts[0].dataset, order[i], TARN_NO_FIELD,
                                   &place, sizeof place, &err);
        rows[i] = place.row;
    }
    o.rows = rows;
    o.n_rows = (size_t)count;
    if (done != TARN_OK ||
        tarn_iac_rewrite(sources->parts[0].path, path, &o, &err) != TARN_OK)
        status = cli_fail(&err);
    if (status == CLI_OK) cli_iac_print_summary(args, count, path);
    free(rows);
    return status;
}
