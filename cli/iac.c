/* The subcommands for record packs (.iac): a thin layer over tarn/iac.h. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

bool cli_is_pack(const char *path)
{
    static const char ending[] = ".iac";
    size_t len = strlen(path), n = sizeof ending - 1;
    struct stat st;
    if (len > n && strcmp(path + len - n, ending) == 0)
        return stat(path, &st) != 0 || S_ISREG(st.st_mode);
    return cli_begins_with(path, "IATROC", 7);
}

/* Text is printed unchanged to a pipe or file; control characters are escaped on a
 * terminal. */
static void put_text(const char *text, size_t len)
{
    char shown[4096];
    if (isatty(STDOUT_FILENO))
        fputs(tarn_printable(shown, sizeof shown, text, len), stdout);
    else
        fwrite(text, 1, len, stdout);
}

/* --- info -------------------------------------------------------------------------- */

static bool get_column(const tarn_iac *pack, tarn_iac_table table, size_t i,
                       tarn_iac_column *out)
{
    return tarn_iac_column_get(pack, table, i, out, sizeof *out, NULL) == TARN_OK;
}

static void columns_json(cli_json *j, const char *key, const tarn_iac *pack,
                         tarn_iac_table table)
{
    tarn_iac_column c;
    cli_json_open(j, key, '[');
    for (size_t i = 0; get_column(pack, table, i, &c); i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", c.name);
        cli_json_text(j, "type", c.type);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static int info_json(const char *path, const tarn_iac *pack, const tarn_iac_info *info)
{
    cli_json j = {.out = stdout};
    cli_json_open(&j, NULL, '[');
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "pack", cli_shown(path));
    cli_json_number(&j, "version", info->version);
    cli_json_number(&j, "records", info->records);
    cli_json_number(&j, "slides", info->slides);
    cli_json_number(&j, "bytes", info->data_length);
    cli_json_number(&j, "size", info->file_size);
    cli_json_text(&j, "payload_type", info->payload_type);
    cli_json_text(&j, "codec", info->codec);
    cli_json_bool(&j, "checksums", info->has_checksums);
    if (!info->has_spans) cli_json_number(&j, "record_bytes", info->record_bytes);
    columns_json(&j, "slide_columns", pack, TARN_IAC_SLIDES);
    columns_json(&j, "index_columns", pack, TARN_IAC_INDEX);
    cli_json_raw(&j, "header", info->header, info->header_length);
    int status = cli_show_sets(path, &j);
    cli_json_close(&j, '}');
    cli_json_close(&j, ']');
    cli_json_line(&j);
    return status;
}

static void show_columns(const char *what, const tarn_iac *pack, tarn_iac_table table,
                         uint64_t rows, uint64_t bytes)
{
    cli_print("  %-9s %s, %s\n", what, cli_count(rows, "row"), cli_count(bytes, "byte"));
    tarn_iac_column c;
    for (size_t i = 0; get_column(pack, table, i, &c); i++) {
        char shown[256];
        cli_print("    %-24s ",
                  tarn_printable(shown, sizeof shown, c.name, strlen(c.name)));
        put_text(c.type, strlen(c.type));
        putchar('\n');
    }
}

static void show_header(const tarn_iac_info *info)
{
    const char *at = info->header, *end = at + info->header_length;
    cli_print("  header\n");
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        fputs("    ", stdout);
        put_text(at, len);
        putchar('\n');
        at += len + 1;
    }
}

int cli_iac_info(const cli_args *args)
{
    tarn_error err;
    tarn_iac *pack;
    tarn_iac_info info;
    if (tarn_iac_open(args->words[0], NULL, &pack, &err) != TARN_OK)
        return cli_fail(&err);
    tarn_iac_info_get(pack, &info, sizeof info);
    if (cli_has(args, "json")) {
        int status = info_json(args->words[0], pack, &info);
        tarn_iac_close(pack);
        return status;
    }
    cli_print("%s: %s, %s of payloads in an IAC file of version %u\n",
              cli_base_name(args->words[0]), cli_count(info.records, "record"),
              cli_count(info.data_length, "byte"), info.version);
    char type[256], codec[256];
    tarn_printable(type, sizeof type, info.payload_type, strlen(info.payload_type));
    tarn_printable(codec, sizeof codec, info.codec, strlen(info.codec));
    cli_print("  payloads  %s, codec %s%s\n", type[0] ? type : "(no type)",
              codec[0] ? codec : "(not given)",
              info.has_checksums ? ", with checksums" : ", no checksums");
    if (!info.has_spans)
        cli_print("  records   %s each, located by number\n",
                  cli_count(info.record_bytes, "byte"));
    show_columns("slides", pack, TARN_IAC_SLIDES, info.slides, info.slide_table_length);
    show_columns("index", pack, TARN_IAC_INDEX, info.records, info.index_table_length);
    show_header(&info);
    tarn_iac_close(pack);
    return cli_show_sets(args->words[0], &(cli_json){0});
}

/* --- ls ---------------------------------------------------------------------------- */

typedef struct listing {
    tarn_iac *pack;
    size_t *columns;
    size_t count;
    bool json, names;
    cli_json out;
} listing;

/* The record's size; false if the index does not give locations. */
static bool size_of(const listing *l, uint64_t row, uint64_t *out)
{
    tarn_iac_span span;
    if (tarn_iac_locate(l->pack, row, &span, NULL) != TARN_OK) return false;
    *out = span.length;
    return true;
}

static tarn_status list_row(listing *l, uint64_t row, tarn_error *err)
{
    uint64_t size;
    bool located = size_of(l, row, &size);
    if (l->json) {
        cli_json_open(&l->out, NULL, '{');
        cli_json_number(&l->out, "row", row);
        if (located) cli_json_number(&l->out, "size", size);
        cli_json_open(&l->out, "columns", '{');
    } else {
        cli_print("%llu", (unsigned long long)row);
        if (!l->names && located) cli_print("\t%llu", (unsigned long long)size);
        if (!l->names && !located) cli_print("\t-");
    }
    for (size_t i = 0; i < l->count && !l->names; i++) {
        tarn_view value;
        tarn_iac_column c;
        if (!get_column(l->pack, TARN_IAC_INDEX, l->columns[i], &c)) continue;
        TARN_TRY(
            tarn_iac_value(l->pack, TARN_IAC_INDEX, l->columns[i], row, &value, err));
        if (l->json) {
            cli_json_raw(&l->out, c.name, (const char *)value.data, value.size);
        } else {
            putchar('\t');
            put_text(c.name, strlen(c.name));
            putchar('=');
            put_text((const char *)value.data, value.size);
        }
        tarn_view_release(&value);
    }
    if (l->json) {
        cli_json_close(&l->out, '}');
        cli_json_close(&l->out, '}');
        cli_json_line(&l->out);
    } else {
        putchar('\n');
    }
    return TARN_OK;
}

/* All columns except the ones that give locations, or the requested columns. */
static bool choose_columns(const cli_args *args, listing *l)
{
    const char *asked = cli_value(args, "columns");
    tarn_iac_info info;
    tarn_iac_column c;
    cli_list list = {0};
    tarn_iac_info_get(l->pack, &info, sizeof info);
    size_t all = info.columns[TARN_IAC_INDEX];
    if (asked && !cli_list_get(asked, &list)) return false;
    size_t room = all > list.count ? all : list.count;
    l->columns = calloc(room + 1, sizeof *l->columns);
    if (!l->columns) cli_no_memory();
    bool good = true;
    for (size_t k = 0; k < list.count && good; k++) {
        size_t i = 0;
        while (get_column(l->pack, TARN_IAC_INDEX, i, &c) &&
               strcmp(c.name, list.items[k]) != 0)
            i++;
        good = i < all;
        if (good) l->columns[l->count++] = i;
        if (!good) cli_note("tarn: the index has no column %s\n", list.items[k]);
    }
    for (size_t i = 0; !asked && get_column(l->pack, TARN_IAC_INDEX, i, &c); i++)
        if (strcmp(c.name, "offset") != 0 && strcmp(c.name, "length") != 0 &&
            strcmp(c.name, "crc32") != 0)
            l->columns[l->count++] = i;
    cli_list_free(&list);
    return good;
}

static tarn_status list_all(listing *l, tarn_error *err)
{
    tarn_iac_info info;
    tarn_iac_info_get(l->pack, &info, sizeof info);
    for (uint64_t row = 0; row < info.records && !ferror(stdout); row++)
        TARN_TRY(list_row(l, row, err));
    return TARN_OK;
}

/* --- ls --where -------------------------------------------------------------------- */

/* "age>=80": the column, and the condition. False if it is neither. */
static bool parse_where(const char *text, char *column, tarn_condition *c,
                        const char **value)
{
    size_t len = strcspn(text, "=<>");
    const char *at = text + len;
    char *end;
    if (!len || !*at) return false;
    memcpy(column, text, len);
    column[len] = '\0';
    char order = *at++;
    bool equal = *at == '=';
    at += equal;
    c->name = column;
    *value = at;
    c->kind = order == '=' ? TARN_CONDITION_COLUMN : TARN_CONDITION_BETWEEN;
    if (order == '=') return true;
    double number = strtod(at, &end);
    if (end == at || *end || number != number) return false;
    if (order == '>') c->min = equal ? number : nextafter(number, INFINITY);
    if (order == '<') c->max = equal ? number : nextafter(number, -INFINITY);
    return true;
}

/* Applies one --where to a dataset, and replaces it. */
static int keep_where(const cli_args *args, const char *where, tarn_dataset **set)
{
    tarn_error err;
    tarn_dataset *kept;
    tarn_condition c = TARN_CONDITION_INIT;
    const char *value;
    char *column = malloc(strlen(where) + 1);
    if (!column) cli_no_memory();
    c.names = &value;
    c.n_names = 1;
    int status = CLI_OK;
    if (!parse_where(where, column, &c, &value))
        status = cli_usage(args->command,
                           "--where takes COLUMN=VALUE, or COLUMN and >, >=, < or <= and "
                           "a number, not %s",
                           where);
    else if (tarn_dataset_filter(*set, &c, &kept, &err) != TARN_OK)
        status = cli_fail(&err);
    free(column);
    if (status != CLI_OK) return status;
    tarn_dataset_close(*set);
    *set = kept;
    return CLI_OK;
}

static int list_where(const cli_args *args, listing *l)
{
    tarn_error err;
    tarn_dataset *set;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    const char *where;
    o.records = true;
    if (tarn_dataset_open(args->words[0], &o, &set, &err) != TARN_OK)
        return cli_fail(&err);
    int status = CLI_OK;
    for (size_t i = 0; status == CLI_OK && (where = cli_value_at(args, "where", i)); i++)
        status = keep_where(args, where, &set);
    uint64_t count = status == CLI_OK ? tarn_dataset_count(set) : 0;
    if (status == CLI_OK && count == 0) {
        cli_note("tarn: %s: no record meets --where\n", args->words[0]);
        status = CLI_DATA;
    }
    for (uint64_t i = 0; i < count && status == CLI_OK && !ferror(stdout); i++) {
        tarn_place place;
        if (tarn_dataset_locate(set, i, TARN_NO_FIELD, &place, sizeof place, &err) !=
                TARN_OK ||
            list_row(l, place.row, &err) != TARN_OK) {
            fflush(stdout);
            status = cli_fail(&err);
        }
    }
    tarn_dataset_close(set);
    return status;
}

static int list_rows(const cli_args *args, listing *l)
{
    tarn_error err;
    if (cli_has(args, "where")) return list_where(args, l);
    if (list_all(l, &err) == TARN_OK) return CLI_OK;
    fflush(stdout);
    return cli_fail(&err);
}

int cli_iac_ls(const cli_args *args)
{
    static const char shards[] = "it is for folders of shards without an index";
    static const char rows[] = "its rows are listed; choose some with --where";
    static const cli_instead foreign[] = {
        {"members", "its rows are listed; choose what is shown with --columns"},
        {"null", "its rows are listed, and have no keys"},
        {"samples", rows},
        {"without", rows},
        {"fields", "its columns are listed; choose some with --columns"},
        {"keys", shards},
        {"lenient", shards},
        {"stats", "it is for array files (.gnz); tarn info describes a record pack"},
        {"key", "it needs --order"},
        {NULL, NULL}};
    tarn_error err;
    int refused = cli_refuse_for(args, "a record pack", foreign);
    if (refused != CLI_OK) return refused;
    listing l = {.json = cli_has(args, "json"),
                 .names = cli_has(args, "names"),
                 .out.out = stdout};
    if (tarn_iac_open(args->words[0], NULL, &l.pack, &err) != TARN_OK)
        return cli_fail(&err);
    int status = choose_columns(args, &l) ? list_rows(args, &l) : CLI_DATA;
    free(l.columns);
    tarn_iac_close(l.pack);
    return status;
}

/* --- get --------------------------------------------------------------------------- */

static bool is_number(const char *text)
{
    if (!*text) return false;
    for (; *text; text++)
        if (!isdigit((unsigned char)*text)) return false;
    return true;
}

static tarn_status find_row(tarn_iac *pack, const char *key, uint64_t *out,
                            tarn_error *err)
{
    const char *equals = strchr(key, '=');
    uint64_t other;
    char *column = strndup(key, (size_t)(equals - key));
    if (!column) cli_no_memory();
    size_t len = strlen(equals + 1);
    tarn_status status = tarn_iac_find(pack, column, equals + 1, len, 0, out, err);
    if (status == TARN_OK &&
        tarn_iac_find(pack, column, equals + 1, len, *out + 1, &other, NULL) == TARN_OK)
        cli_note("tarn: several records have %s; using the first, row %llu\n", key,
                 (unsigned long long)*out);
    free(column);
    return status;
}

int cli_iac_get(const cli_args *args)
{
    tarn_error err;
    tarn_iac *pack;
    tarn_view view;
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    const char *key = args->words[1];
    uint64_t row;
    if (args->n_words > 2)
        return cli_usage(args->command, "a record has one payload and no fields");
    if (!is_number(key) && !strchr(key, '='))
        return cli_usage(args->command, "%s is neither a row number nor COLUMN=VALUE",
                         key);
    o.check = cli_has(args, "check");
    if (tarn_iac_open(args->words[0], &o, &pack, &err) != TARN_OK) return cli_fail(&err);
    tarn_status status = TARN_OK;
    if (is_number(key))
        row = strtoull(key, NULL, 10);
    else
        status = find_row(pack, key, &row, &err);
    if (status == TARN_OK)
        status = tarn_iac_view(pack, row, cli_has(args, "decode"), &view, &err);
    int result = CLI_DATA;
    if (status == TARN_OK) {
        result = cli_write_out(cli_value(args, "output"), &view);
        tarn_view_release(&view);
    } else {
        cli_fail(&err);
    }
    tarn_iac_close(pack);
    return result;
}

/* --- pack and convert -------------------------------------------------------------- */

bool cli_is_pack_name(const char *path)
{
    size_t len = strlen(path);
    return len > 4 && strcasecmp(path + len - 4, ".iac") == 0;
}

int cli_iac_options(const cli_args *args, tarn_iac_write_options *o)
{
    static const char *const words[] = {"none",   "brotli", "zstd", "gzip",
                                        "jpeg",   "png",    "jxl",  "jpeg2000",
                                        "jpegls", "jpg",    "raw"};
    enum { IMAGES = 4, JPG = 9, RAW = 10 };
    unsigned level = 0;
    int codec = -1;
    if (!cli_choice(args, "codec", words, sizeof words / sizeof *words, &codec))
        return CLI_USAGE;
    if (codec >= 0) o->codec = words[codec == JPG ? IMAGES : codec == RAW ? 0 : codec];
    o->encoded = codec >= IMAGES && codec < RAW;
    if (o->encoded && cli_has(args, "level"))
        return cli_usage(args->command,
                         "--level does not apply to --codec %s: the payloads "
                         "are stored unchanged",
                         o->codec);
    if (!cli_number(args, "level", &level) || !cli_number(args, "version", &o->version))
        return CLI_USAGE;
    o->level = (int)level;
    o->header = cli_value(args, "header");
    o->overwrite = cli_has(args, "overwrite");
    o->no_sync = cli_has(args, "no-sync");
    return CLI_OK;
}

void cli_iac_print_summary(const cli_args *args, uint64_t records, const char *path)
{
    cli_json j = {.out = stdout};
    if (cli_has(args, "quiet")) return;
    if (!cli_has(args, "json")) {
        cli_print("%s -> %s\n", cli_count(records, "record"), cli_shown(path));
        return;
    }
    cli_json_open(&j, NULL, '[');
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "output", cli_shown(path));
    cli_json_number(&j, "records", records);
    cli_json_close(&j, '}');
    cli_json_close(&j, ']');
    cli_json_line(&j);
}

int cli_iac_convert(const cli_args *args, const char *from, const char *to)
{
    tarn_error err;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    int usage = cli_iac_options(args, &o);
    if (usage != CLI_OK) return usage;
    o.encoded = !cli_has(args, "codec");
    o.upgrade = cli_has(args, "upgrade");
    if (tarn_iac_rewrite(from, to, &o, &err) != TARN_OK) return cli_fail(&err);
    if (!cli_has(args, "quiet")) cli_print("%s -> %s\n", cli_shown(from), cli_shown(to));
    return CLI_OK;
}
