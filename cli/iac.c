/* The subcommands for record packs (.iac): a thin layer over tarn/iac.h. */
#include <ctype.h>
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
    cli_json_text(&j, "pack", path);
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
    printf("  %-9s %s, %s\n", what, cli_count(rows, "row"), cli_count(bytes, "byte"));
    tarn_iac_column c;
    for (size_t i = 0; get_column(pack, table, i, &c); i++) {
        char shown[256];
        printf("    %-24s ", tarn_printable(shown, sizeof shown, c.name, strlen(c.name)));
        put_text(c.type, strlen(c.type));
        putchar('\n');
    }
}

static void show_header(const tarn_iac_info *info)
{
    const char *at = info->header, *end = at + info->header_length;
    printf("  header\n");
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
    printf("%s: %s, %s of payloads in an IAC file of version %u\n",
           cli_base_name(args->words[0]), cli_count(info.records, "record"),
           cli_count(info.data_length, "byte"), info.version);
    char type[256], codec[256];
    tarn_printable(type, sizeof type, info.payload_type, strlen(info.payload_type));
    tarn_printable(codec, sizeof codec, info.codec, strlen(info.codec));
    printf("  payloads  %s, codec %s%s\n", type[0] ? type : "(no type)",
           codec[0] ? codec : "(not given)",
           info.has_checksums ? ", with checksums" : ", no checksums");
    if (!info.has_spans)
        printf("  records   %s each, located by number\n",
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
        printf("%llu", (unsigned long long)row);
        if (!l->names && located) printf("\t%llu", (unsigned long long)size);
        if (!l->names && !located) printf("\t-");
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
        if (!good) fprintf(stderr, "tarn: the index has no column %s\n", list.items[k]);
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

static tarn_status list_where(listing *l, const char *where, tarn_error *err)
{
    const char *equals = strchr(where, '=');
    char *column = strndup(where, (size_t)(equals - where));
    uint64_t row = 0, from = 0;
    tarn_status status;
    if (!column) cli_no_memory();
    while ((status = tarn_iac_find(l->pack, column, equals + 1, strlen(equals + 1), from,
                                   &row, err)) == TARN_OK) {
        status = list_row(l, row, err);
        if (status != TARN_OK || ferror(stdout)) break;
        from = row + 1;
    }
    free(column);
    return status == TARN_ERR_NO_SAMPLE && from ? TARN_OK : status;
}

int cli_iac_ls(const cli_args *args)
{
    static const char *const foreign[] = {"members", "null",  "samples", "fields", "keys",
                                          "lenient", "stats", "key",     NULL};
    tarn_error err;
    const char *where = cli_value(args, "where");
    int refused = cli_refuse(args, "the rows of a record pack", foreign);
    if (refused != CLI_OK) return refused;
    listing l = {.json = cli_has(args, "json"),
                 .names = cli_has(args, "names"),
                 .out.out = stdout};
    if (where && !strchr(where, '='))
        return cli_usage(args->command, "--where takes COLUMN=VALUE");
    if (tarn_iac_open(args->words[0], NULL, &l.pack, &err) != TARN_OK)
        return cli_fail(&err);
    int status = CLI_DATA;
    if (choose_columns(args, &l)) {
        status = CLI_OK;
        if ((where ? list_where(&l, where, &err) : list_all(&l, &err)) != TARN_OK) {
            fflush(stdout);
            status = cli_fail(&err);
        }
    }
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
        fprintf(stderr, "tarn: several records have %s; using the first, row %llu\n", key,
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
    static const char *const codecs[] = {"none", "raw", "brotli", "zstd", "gzip", ""};
    const char *codec = cli_value(args, "codec");
    unsigned level = 0;
    for (size_t i = 0; codec && !o->codec && i < sizeof codecs / sizeof *codecs; i++)
        if (strcmp(codecs[i], codec) == 0) o->codec = codecs[i];
    if (codec && !o->codec)
        return cli_usage(args->command,
                         "--codec must be none, brotli, zstd or gzip, not %s", codec);
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
        printf("%s -> %s\n", cli_count(records, "record"), path);
        return;
    }
    cli_json_open(&j, NULL, '[');
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "output", path);
    cli_json_number(&j, "records", records);
    cli_json_close(&j, '}');
    cli_json_close(&j, ']');
    cli_json_line(&j);
}

static int show_progress(void *progress, uint64_t done, uint64_t total, uint64_t bytes)
{
    (void)bytes;
    return cli_progress_step(progress, done, total);
}

int cli_iac_pack(const cli_args *args, const char *output)
{
    static const char *const foreign[] = {
        "max-count",      "max-size",  "resume",       "append",
        "fold",           "val",       "test",         "seed",
        "shuffle",        "keys",      "dry-run",      "lenient",
        "allow-pipe",     "as",        "add",          "threads",
        "metadata",       "checksums", "header-pages", "reserve",
        "class-from-dir", NULL};
    tarn_error err;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_pack_options p = TARN_PACK_OPTIONS_INIT;
    tarn_pack_report report;
    int status = cli_refuse(args, "IAC files", foreign);
    if (status == CLI_OK) status = cli_iac_options(args, &o);
    if (status != CLI_OK) return status;
    cli_progress progress;
    cli_progress_begin(&progress, "packing", !cli_has(args, "quiet"));
    progress.samples = true;
    p.records = &o;
    p.progress = show_progress;
    p.progress_context = &progress;
    tarn_status made = tarn_pack(args->words, (size_t)args->n_words, output, &p, &report,
                                 sizeof report, &err);
    cli_progress_end(&progress);
    if (made != TARN_OK) return cli_fail(&err);
    cli_iac_print_summary(args, report.folds[0].samples, output);
    return CLI_OK;
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
    if (!cli_has(args, "quiet")) printf("%s -> %s\n", from, to);
    return CLI_OK;
}
