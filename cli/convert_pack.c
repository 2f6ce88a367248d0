/* Converting between samples and packs. A fold becomes a pack with one record for each
 * member and the columns key and field, from which the same samples come back. Any other
 * pack becomes samples of its payload and a JSON object of its columns. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"

/* --- Samples into a pack ---------------------------------------------------------------
 */

typedef struct packer {
    tarn_iac_rows *rows;     /* first pass: the tables have to be known at the start */
    tarn_iac_writer *writer; /* second pass */
    uint64_t records;
} packer;

static tarn_status note_members(void *context, unsigned part, const char *key,
                                const tarn_field *fields, size_t count, tarn_error *err)
{
    packer *p = context;
    (void)part;
    for (size_t i = 0; i < count; i++) {
        const char *name = fields[i].name;
        TARN_TRY(tarn_iac_rows_text(p->rows, 0, key, strlen(key), err));
        TARN_TRY(tarn_iac_rows_text(p->rows, 1, name, strlen(name), err));
        p->records++;
    }
    return TARN_OK;
}

static tarn_status add_members(void *context, unsigned part, const char *key,
                               const tarn_field *fields, size_t count, tarn_error *err)
{
    packer *p = context;
    (void)part;
    (void)key;
    for (size_t i = 0; i < count; i++)
        TARN_TRY(tarn_iac_writer_add(p->writer, fields[i].data, fields[i].size, err));
    return TARN_OK;
}

static tarn_status make_tables(packer *p, tarn_fold *fold, const tarn_walk_options *o,
                               struct ArrowArrayStream *slides,
                               struct ArrowArrayStream *index, tarn_error *err)
{
    static const char *const slide_columns[] = {"u32:slide_idx", "text:slide_id",
                                                "text:patient_id"};
    static const char *const columns[] = {"text:key", "text:field"};
    tarn_iac_rows *none;
    TARN_TRY(tarn_iac_rows_new(slide_columns, 3, &none, err));
    TARN_TRY(tarn_iac_rows_finish(none, slides, err));
    TARN_TRY(tarn_iac_rows_new(columns, 2, &p->rows, err));
    tarn_status status = tarn_fold_walk(fold, o, note_members, p, err);
    if (status != TARN_OK) {
        tarn_iac_rows_free(p->rows);
        return status;
    }
    return tarn_iac_rows_finish(p->rows, index, err);
}

static tarn_status write_pack(packer *p, tarn_fold *fold, const char *to,
                              const tarn_walk_options *walk,
                              const tarn_iac_write_options *o, tarn_error *err)
{
    struct ArrowArrayStream slides = {0}, index = {0};
    tarn_walk_options first = *walk;
    first.progress = NULL;
    tarn_status status = make_tables(p, fold, &first, &slides, &index, err);
    if (status == TARN_OK)
        status = tarn_iac_writer_open(to, &slides, &index, o, &p->writer, err);
    if (slides.release) slides.release(&slides);
    if (index.release) index.release(&index);
    TARN_TRY(status);
    status = tarn_fold_walk(fold, walk, add_members, p, err);
    if (status == TARN_OK) return tarn_iac_writer_finish(p->writer, err);
    tarn_iac_writer_abandon(p->writer);
    return status;
}

int cli_convert_to_pack(const cli_args *args, const char *from, const char *to)
{
    tarn_error err;
    tarn_fold *fold;
    packer p = {0};
    cli_progress progress;
    tarn_walk_options walk = TARN_WALK_OPTIONS_INIT;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    int status = cli_iac_options(args, &o);
    if (status == CLI_OK && !cli_number(args, "threads", &walk.threads))
        status = CLI_USAGE;
    if (status == CLI_OK) status = cli_open(args, from, &fold);
    if (status != CLI_OK) return status;
    if (!o.header) o.header = "{\"payload_type\": \"tar member\"}";
    cli_progress_begin(&progress, "writing", !cli_has(args, "quiet"));
    progress.samples = true;
    walk.progress = cli_progress_step;
    walk.progress_context = &progress;
    status = cli_filter(args, fold);
    if (status == CLI_OK && write_pack(&p, fold, to, &walk, &o, &err) != TARN_OK)
        status = cli_fail(&err);
    cli_progress_end(&progress);
    if (status == CLI_OK && !cli_has(args, "quiet"))
        printf("%s -> %s\n", cli_count(p.records, "record"), to);
    tarn_fold_close(fold);
    return status;
}

/* --- A pack into samples
 * ---------------------------------------------------------------- */

/* A text column as the rows of all batches. */
typedef struct texts {
    char **items;
    uint64_t count, capacity;
} texts;

static void free_texts(texts *t)
{
    for (uint64_t i = 0; i < t->count; i++)
        free(t->items[i]);
    free(t->items);
}

static void add_text(texts *t, const char *data, size_t len)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 1024;
        t->items = realloc(t->items, t->capacity * sizeof *t->items);
        if (!t->items) abort();
    }
    t->items[t->count] = strndup(data, len);
    if (!t->items[t->count++]) abort();
}

/* Rows of a column of type string ("u") or large string ("U") without nulls. */
static bool take_batch(const struct ArrowArray *batch, size_t column, bool large,
                       texts *out)
{
    const struct ArrowArray *a = batch->children[column];
    const char *data = a->buffers[2];
    if (a->null_count != 0) return false;
    for (int64_t i = a->offset + batch->offset;
         i < a->offset + batch->offset + batch->length; i++) {
        int64_t from = large ? ((const int64_t *)a->buffers[1])[i]
                             : ((const int32_t *)a->buffers[1])[i];
        int64_t to = large ? ((const int64_t *)a->buffers[1])[i + 1]
                           : ((const int32_t *)a->buffers[1])[i + 1];
        add_text(out, to > from ? data + from : "", (size_t)(to - from));
    }
    return true;
}

/* The texts of a column; false if it is not one of text. */
static bool take_column(tarn_iac *pack, const char *name, texts *out, tarn_error *err)
{
    struct ArrowArrayStream stream = {0};
    struct ArrowSchema schema = {0};
    struct ArrowArray batch = {0};
    bool good = tarn_iac_export(pack, TARN_IAC_INDEX, &stream, err) == TARN_OK &&
                stream.get_schema(&stream, &schema) == 0;
    int64_t column = 0;
    while (good && column < schema.n_children &&
           strcmp(schema.children[column]->name, name) != 0)
        column++;
    good = good && column < schema.n_children && !schema.children[column]->dictionary &&
           (strcmp(schema.children[column]->format, "u") == 0 ||
            strcmp(schema.children[column]->format, "U") == 0);
    bool large = good && schema.children[column]->format[0] == 'U';
    while (good && stream.get_next(&stream, &batch) == 0 && batch.release) {
        good = take_batch(&batch, (size_t)column, large, out);
        batch.release(&batch);
    }
    if (schema.release) schema.release(&schema);
    if (stream.release) stream.release(&stream);
    return good;
}

typedef struct unpacker {
    const cli_args *args;
    tarn_iac *pack;
    tarn_iac_info info;
    texts keys, fields;
    cli_out out;
} unpacker;

static bool has_column(tarn_iac *pack, const char *name)
{
    for (size_t i = 0; i < tarn_iac_columns(pack, TARN_IAC_INDEX); i++)
        if (strcmp(tarn_iac_column_name(pack, TARN_IAC_INDEX, i), name) == 0) return true;
    return false;
}

/* Rows that follow each other with one key are a sample. */
static tarn_status put_members(unpacker *u, tarn_error *err)
{
    for (uint64_t i = 0, n; i < u->keys.count; i += n) {
        const char *key = u->keys.items[i];
        for (n = 1; i + n < u->keys.count && strcmp(u->keys.items[i + n], key) == 0; n++)
            ;
        bool keep;
        TARN_TRY(cli_out_keep(&u->out, key, 0, &keep, err));
        if (!keep) continue;
        tarn_field *fields = calloc(n, sizeof *fields);
        tarn_view *views = calloc(n, sizeof *views);
        if (!fields || !views) abort();
        tarn_status status = TARN_OK;
        for (uint64_t k = 0; status == TARN_OK && k < n; k++) {
            status = tarn_iac_view_decoded(u->pack, i + k, &views[k], err);
            fields[k] =
                (tarn_field){u->fields.items[i + k], views[k].data, views[k].size, NULL};
        }
        if (status == TARN_OK)
            status = cli_out_put(&u->out, 0, key, fields, (size_t)n, err);
        for (uint64_t k = 0; k < n; k++)
            tarn_view_release(&views[k]);
        free(fields);
        free(views);
        TARN_TRY(status);
    }
    return TARN_OK;
}

/* The columns of a row as a JSON object, without those that say where the payload is. */
static tarn_status columns_of(unpacker *u, uint64_t row, char **out, size_t *out_size,
                              tarn_error *err)
{
    static const char *const places[] = {"offset", "length", "crc32"};
    FILE *text = open_memstream(out, out_size);
    cli_json j = {.out = text};
    tarn_status status = TARN_OK;
    if (!text) abort();
    cli_json_open(&j, NULL, '{');
    for (size_t i = 0; status == TARN_OK && i < tarn_iac_columns(u->pack, TARN_IAC_INDEX);
         i++) {
        const char *name = tarn_iac_column_name(u->pack, TARN_IAC_INDEX, i);
        bool place = false;
        tarn_view value;
        for (size_t k = 0; k < 3; k++)
            place |= u->info.has_spans && strcmp(name, places[k]) == 0;
        if (place) continue;
        status = tarn_iac_value(u->pack, TARN_IAC_INDEX, i, row, &value, err);
        if (status != TARN_OK) break;
        cli_json_raw(&j, name, (const char *)value.data, value.size);
        tarn_view_release(&value);
    }
    cli_json_close(&j, '}');
    fclose(text);
    return status;
}

static const char *payload_field(const char *codec)
{
    static const char *const images[][2] = {{"jpeg", "jpg"},
                                            {"jpg", "jpg"},
                                            {"png", "png"},
                                            {"jxl", "jxl"},
                                            {"webp", "webp"}};
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        if (strcasecmp(images[i][0], codec) == 0) return images[i][1];
    return "bin";
}

static tarn_status put_row(unpacker *u, uint64_t row, tarn_error *err)
{
    char number[32], *json = NULL;
    size_t json_size = 0;
    tarn_view payload = TARN_VIEW_INIT;
    bool keep;
    snprintf(number, sizeof number, "%09" PRIu64, row);
    const char *key = u->keys.count ? u->keys.items[row] : number;
    TARN_TRY(cli_out_keep(&u->out, key, 0, &keep, err));
    if (!keep) return TARN_OK;
    tarn_status status = tarn_iac_view_decoded(u->pack, row, &payload, err);
    if (status == TARN_OK) status = columns_of(u, row, &json, &json_size, err);
    tarn_field fields[] = {
        {payload_field(u->info.codec_name), payload.data, payload.size, NULL},
        {"json", json, json_size, NULL}};
    if (status == TARN_OK) status = cli_out_put(&u->out, 0, key, fields, 2, err);
    tarn_view_release(&payload);
    free(json);
    return status;
}

static tarn_status put_rows(unpacker *u, tarn_error *err)
{
    if (u->fields.count) return put_members(u, err);
    for (uint64_t row = 0; row < u->info.records; row++)
        TARN_TRY(put_row(u, row, err));
    return TARN_OK;
}

static int take_keys(unpacker *u)
{
    tarn_error err = {.code = TARN_OK};
    const char *column = cli_value(u->args, "key");
    bool members = !column && has_column(u->pack, "key") && has_column(u->pack, "field");
    if (members && take_column(u->pack, "key", &u->keys, &err) &&
        take_column(u->pack, "field", &u->fields, &err))
        return CLI_OK;
    if (!members && (!column || take_column(u->pack, column, &u->keys, &err)))
        return CLI_OK;
    if (err.code != TARN_OK) return cli_fail(&err);
    return cli_usage(u->args->command, "column %s is not there, or not one of text",
                     column ? column : "key or field");
}

int cli_convert_from_pack(const cli_args *args, const char *from, const char *to)
{
    static const char *const name = "train";
    tarn_error err;
    unpacker u = {.args = args};
    if (tarn_iac_open(from, NULL, &u.pack, &err) != TARN_OK) return cli_fail(&err);
    tarn_iac_info_get(u.pack, &u.info);
    int status = take_keys(&u);
    if (status == CLI_OK) status = cli_out_open(&u.out, args, to, &name, 1);
    if (status == CLI_OK) {
        if (put_rows(&u, &err) == TARN_OK) {
            status = cli_out_finish(&u.out);
        } else {
            status = cli_fail(&err);
            cli_out_stop(&u.out);
        }
    }
    free_texts(&u.keys);
    free_texts(&u.fields);
    tarn_iac_close(u.pack);
    return status;
}
