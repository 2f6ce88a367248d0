/* The subcommands info, ls and get for array files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arrays.h"

bool cli_begins_with(const char *path, const char *magic, size_t len)
{
    char begin[8];
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    FILE *f = fopen(path, "rb");
    bool is = f && fread(begin, 1, len, f) == len && memcmp(begin, magic, len) == 0;
    if (f) fclose(f);
    return is;
}

bool cli_is_gnz(const char *path)
{
    return cli_kind_of(path) == CLI_GNZ || cli_begins_with(path, "GNZ1", 4);
}

/* Names are printed unchanged to a pipe or file; control characters are escaped on a
 * terminal. */
static void put_name(const char *name)
{
    char shown[1024];
    fputs(isatty(STDOUT_FILENO) ? tarn_printable(shown, sizeof shown, name, strlen(name))
                                : name,
          stdout);
}

/* "(3, 4)", as Python prints a shape. */
static const char *shape_text(const tarn_gnz_array *info)
{
    static char text[TARN_MAX_DIMS * 22 + 8];
    size_t n = (size_t)snprintf(text, sizeof text, "(");
    for (unsigned i = 0; i < info->ndim; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%llu", i ? ", " : "",
                              (unsigned long long)info->shape[i]);
    snprintf(text + n, sizeof text - n, info->ndim == 1 ? ",)" : ")");
    return text;
}

static void json_shape(cli_json *j, const tarn_gnz_array *info)
{
    cli_json_open(j, "shape", '[');
    for (unsigned i = 0; i < info->ndim; i++)
        cli_json_number(j, NULL, info->shape[i]);
    cli_json_close(j, ']');
}

static void json_array(cli_json *j, const tarn_gnz_array *info)
{
    char text[TARN_DTYPE_TEXT_MAX];
    cli_json_text(j, "name", info->name);
    cli_json_text(j, "dtype", tarn_dtype_text(info->dtype, text));
    json_shape(j, info);
    cli_json_text(j, "order", info->fortran ? "F" : "C");
    cli_json_number(j, "bytes", info->bytes);
    cli_json_number(j, "offset", info->offset);
    if (info->ndim) cli_json_number(j, "reserved", info->reserved);
    snprintf(text, sizeof text, "%08x", info->checksum);
    cli_json_text(j, "crc32c", info->has_checksum ? text : NULL);
}

/* --- info -------------------------------------------------------------------------- */

static void json_arrays(cli_json *j, tarn_gnz *gnz, size_t count)
{
    tarn_gnz_array array;
    cli_json_open(j, "fields", '[');
    for (size_t i = 0; i < count; i++)
        if (tarn_gnz_array_get(gnz, i, &array, sizeof array, NULL) == TARN_OK &&
            array.is_field)
            cli_json_text(j, NULL, array.name);
    cli_json_close(j, ']');
    cli_json_open(j, "arrays", '[');
    for (size_t i = 0; i < count; i++) {
        if (tarn_gnz_array_get(gnz, i, &array, sizeof array, NULL) != TARN_OK) continue;
        cli_json_open(j, NULL, '{');
        json_array(j, &array);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static int info_json(tarn_gnz *gnz, const char *path, const tarn_gnz_info *info,
                     uint64_t bytes, cli_json *j)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "file", cli_shown(path));
    cli_json_number(j, "size", info->file_size);
    cli_json_number(j, "header", info->header_size);
    cli_json_number(j, "header_space", info->header_space);
    cli_json_text(j, "metadata", info->metadata);
    cli_json_number(j, "bytes", bytes);
    cli_json_number(j, "samples", info->samples);
    json_arrays(j, gnz, info->arrays);
    int status = cli_show_sets(path, j);
    cli_json_close(j, '}');
    return status;
}

static void print_array(const tarn_gnz_array *array)
{
    char type[TARN_DTYPE_TEXT_MAX];
    cli_print("  %-6s %16llu %12llu  %-20s ", tarn_dtype_text(array->dtype, type),
              (unsigned long long)array->bytes, (unsigned long long)array->offset,
              shape_text(array));
    put_name(array->name);
    if (array->fortran) cli_print("  (Fortran order)");
    if (array->ndim && array->reserved > array->shape[0])
        cli_print("  (room for %llu rows)", (unsigned long long)array->reserved);
    putchar('\n');
}

static int info_text(tarn_gnz *gnz, const char *path, const tarn_gnz_info *info,
                     uint64_t bytes, size_t checksums)
{
    char metadata[512];
    tarn_gnz_array array;
    cli_print("%s: %s, %s of values in a file of %llu\n", cli_shown(path),
              cli_count(info->arrays, "array"), cli_count(bytes, "byte"),
              (unsigned long long)info->file_size);
    cli_print("  header    %s, with room for %llu\n",
              cli_count(info->header_size, "byte"),
              (unsigned long long)info->header_space);
    cli_print("  metadata  %s\n", tarn_printable(metadata, sizeof metadata,
                                                 info->metadata, info->metadata_size));
    cli_print("  checksums %s\n", checksums == 0              ? "none"
                                  : checksums == info->arrays ? "of all arrays"
                                                              : "of some arrays");
    if (info->fields)
        cli_print("  samples   %s in %s\n", cli_count(info->samples, "row"),
                  cli_count(info->fields, "field"));
    cli_print("  %-6s %16s %12s  %-20s %s\n", "type", "bytes", "offset", "shape", "name");
    for (size_t i = 0; i < info->arrays; i++)
        if (tarn_gnz_array_get(gnz, i, &array, sizeof array, NULL) == TARN_OK)
            print_array(&array);
    return cli_show_sets(path, &(cli_json){0});
}

int cli_gnz_info(const char *path, cli_json *json)
{
    tarn_error err;
    tarn_gnz *gnz;
    tarn_gnz_info info;
    tarn_gnz_array array;
    uint64_t bytes = 0;
    size_t checksums = 0;
    if (tarn_gnz_open(path, NULL, &gnz, &err) != TARN_OK) return cli_fail(&err);
    tarn_gnz_info_get(gnz, &info, sizeof info);
    for (size_t i = 0; i < info.arrays; i++) {
        if (tarn_gnz_array_get(gnz, i, &array, sizeof array, NULL) != TARN_OK) continue;
        bytes += array.bytes;
        checksums += array.has_checksum;
    }
    int status = json->out ? info_json(gnz, path, &info, bytes, json)
                           : info_text(gnz, path, &info, bytes, checksums);
    tarn_gnz_close(gnz);
    return status;
}

/* --- ls ---------------------------------------------------------------------------- */

/* One character per bin; its height is relative to the largest bin. */
static void put_histogram(const tarn_gnz_stats *s)
{
    static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    uint64_t most = 1;
    for (unsigned i = 0; i < TARN_GNZ_BINS; i++)
        if (s->bins[i] > most) most = s->bins[i];
    putchar('[');
    for (unsigned i = 0; i < TARN_GNZ_BINS; i++)
        fputs(bars[(unsigned)ceil((double)s->bins[i] * 8 / (double)most)], stdout);
    putchar(']');
}

static void put_stats(const tarn_gnz_stats *s)
{
    cli_print("\tmin %.9g\tmax %.9g\tmean %.9g", s->min, s->max, s->mean);
    if (s->nans) cli_print("\tnan %llu", (unsigned long long)s->nans);
    putchar('\t');
    put_histogram(s);
}

/* JSON has no NaN or infinity. */
static void json_real(cli_json *j, const char *key, double value)
{
    char text[64];
    if (!isfinite(value)) {
        cli_json_text(j, key, isnan(value) ? NULL : value > 0 ? "Infinity" : "-Infinity");
        return;
    }
    snprintf(text, sizeof text, "%.17g", value);
    cli_json_raw(j, key, text, strlen(text));
}

static void json_stats(cli_json *j, const tarn_gnz_stats *s)
{
    json_real(j, "min", s->min);
    json_real(j, "max", s->max);
    json_real(j, "mean", s->mean);
    cli_json_number(j, "nans", s->nans);
    cli_json_number(j, "infinities", s->infinities);
    json_real(j, "low", s->low);
    json_real(j, "high", s->high);
    cli_json_open(j, "histogram", '[');
    for (unsigned i = 0; i < TARN_GNZ_BINS; i++)
        cli_json_number(j, NULL, s->bins[i]);
    cli_json_close(j, ']');
}

static int list_array(const cli_args *args, tarn_gnz *gnz, size_t number)
{
    tarn_error err;
    tarn_gnz_array info;
    tarn_gnz_stats s;
    char type[TARN_DTYPE_TEXT_MAX];
    cli_json json = {.out = stdout};
    if (tarn_gnz_array_get(gnz, number, &info, sizeof info, &err) != TARN_OK)
        return cli_fail(&err);
    if (cli_has(args, "names") || cli_has(args, "null")) {
        cli_has(args, "null") ? (void)fputs(info.name, stdout) : put_name(info.name);
        putchar(cli_has(args, "null") ? '\0' : '\n');
        return CLI_OK;
    }
    bool has_stats = cli_has(args, "stats");
    if (has_stats) {
        tarn_status status = tarn_gnz_stats_get(gnz, number, &s, sizeof s, &err);
        if (status != TARN_OK && status != TARN_ERR_UNSUPPORTED) return cli_fail(&err);
        has_stats = status == TARN_OK;
    }
    if (cli_has(args, "json")) {
        cli_json_open(&json, NULL, '{');
        json_array(&json, &info);
        if (has_stats) json_stats(&json, &s);
        cli_json_close(&json, '}');
        cli_json_line(&json);
        return CLI_OK;
    }
    put_name(info.name);
    cli_print("\t%s\t%s\t%llu", tarn_dtype_text(info.dtype, type), shape_text(&info),
              (unsigned long long)info.bytes);
    if (has_stats) put_stats(&s);
    putchar('\n');
    return CLI_OK;
}

int cli_gnz_ls(const cli_args *args)
{
    tarn_error err;
    tarn_gnz *gnz;
    static const char rows[] = "its arrays are listed; --order identity lists its rows";
    static const cli_instead others[] = {
        {"members", rows},
        {"samples", rows},
        {"without", rows},
        {"fields", rows},
        {"key", rows},
        {"keys", "it is for folders of shards without an index"},
        {"lenient", "it is for folders of shards without an index"},
        {"columns", "it is for record packs (.iac)"},
        {"where", "it is for record packs (.iac)"},
        {NULL, NULL}};
    int refused = cli_refuse_for(args, "an array file", others);
    if (refused != CLI_OK) return refused;
    if (tarn_gnz_open(args->words[0], NULL, &gnz, &err) != TARN_OK) return cli_fail(&err);
    int status = CLI_OK;
    tarn_gnz_info info;
    tarn_gnz_info_get(gnz, &info, sizeof info);
    for (size_t i = 0; i < info.arrays && status == CLI_OK; i++) {
        status = list_array(args, gnz, i);
        if (ferror(stdout)) break;
    }
    fflush(stdout);
    tarn_gnz_close(gnz);
    return status;
}

/* --- get --------------------------------------------------------------------------- */

/* "A:B", ":B" or "A:": rows of an array of count rows. */
static bool parse_rows(const char *text, uint64_t count, uint64_t *first, uint64_t *end)
{
    char *rest;
    *first = 0;
    *end = count;
    if (text[0] == '-' || strchr(text, '-')) return false;
    if (text[0] != ':') {
        *first = strtoull(text, &rest, 10);
        if (rest == text) return false;
        text = rest;
    }
    if (*text++ != ':') return false;
    if (*text) {
        *end = strtoull(text, &rest, 10);
        if (rest == text || *rest) return false;
    }
    return *first <= *end && *end <= count;
}

static int choose_rows(const cli_args *args, tarn_array *array)
{
    const char *rows = cli_value(args, "rows");
    uint64_t first, end;
    if (!rows) return CLI_OK;
    if (!array->ndim || !parse_rows(rows, array->shape[0], &first, &end))
        return cli_usage(
            args->command,
            "--rows takes A:B with A at most B; the array has %llu rows (found %s)",
            (unsigned long long)(array->ndim ? array->shape[0] : 0), rows);
    array->data = (char *)array->data + (int64_t)first * array->strides[0];
    array->shape[0] = end - first;
    return CLI_OK;
}

static int put_npy(const tarn_array *array, const char *output)
{
    tarn_error err;
    tarn_bytes out = TARN_BYTES_INIT;
    tarn_value value = {.kind = TARN_VALUE_ARRAY, .arrays = array, .count = 1};
    if (tarn_encode("npy", &value, NULL, &out, &err) != TARN_OK) return cli_fail(&err);
    int status = cli_write_out(output, &(tarn_view){out.data, out.size, NULL});
    tarn_bytes_release(&out);
    return status;
}

/* Bare values: written directly if they are contiguous, otherwise read row by row into a
 * buffer. */
static int put_raw(const cli_args *args, tarn_gnz *gnz, size_t number,
                   const tarn_array *array, const char *output)
{
    tarn_error err;
    uint64_t first = 0, end = array->ndim ? array->shape[0] : 1;
    size_t size = (size_t)tarn_array_bytes(array);
    if (tarn_array_is_packed(array))
        return cli_write_out(output, &(tarn_view){array->data, size, NULL});
    if (cli_value(args, "rows")) {
        tarn_gnz_array info;
        if (tarn_gnz_array_get(gnz, number, &info, sizeof info, &err) != TARN_OK)
            return cli_fail(&err);
        parse_rows(cli_value(args, "rows"), info.shape[0], &first, &end);
    }
    unsigned char *copy = malloc(size + 1);
    if (!copy) cli_no_memory();
    int status = CLI_OK;
    if (tarn_gnz_read(gnz, number, first, end - first, copy, size, &err) != TARN_OK)
        status = cli_fail(&err);
    else
        status = cli_write_out(output, &(tarn_view){copy, size, NULL});
    free(copy);
    return status;
}

static int get_array(const cli_args *args, tarn_gnz *gnz)
{
    tarn_error err;
    size_t number;
    tarn_gnz_view view;
    const char *output = cli_value(args, "output");
    if (tarn_gnz_find(gnz, args->words[1], &number, &err) != TARN_OK ||
        tarn_gnz_get(gnz, number, TARN_GNZ_READ, &view, &err) != TARN_OK)
        return cli_fail(&err);
    tarn_array array = view.array;
    int status = choose_rows(args, &array);
    if (status == CLI_OK) {
        bool npy = output && cli_kind_of(output) == CLI_NPY && !cli_has(args, "raw");
        status =
            npy ? put_npy(&array, output) : put_raw(args, gnz, number, &array, output);
    }
    tarn_gnz_view_release(&view);
    return status;
}

static int check_first(const char *path)
{
    tarn_error err;
    tarn_verify_report report;
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    o.as = TARN_VERIFY_ARRAYS;
    if (tarn_verify(path, &o, &report, sizeof report, &err) != TARN_OK)
        return cli_fail(&err);
    if (report.problems == 0 && report.checksummed == report.members) return CLI_OK;
    cli_note("tarn: %s: %s\n", path,
             report.problems ? "failed its check; run tarn verify for details"
                             : "some arrays have no checksum");
    return CLI_DATA;
}

int cli_gnz_get(const cli_args *args)
{
    tarn_error err;
    tarn_gnz *gnz;
    if (args->n_words > 2)
        return cli_usage(args->command,
                         "an array file contains arrays, which have no fields");
    if (cli_has(args, "check")) {
        int status = check_first(args->words[0]);
        if (status != CLI_OK) return status;
    }
    if (tarn_gnz_open(args->words[0], NULL, &gnz, &err) != TARN_OK) return cli_fail(&err);
    int status = get_array(args, gnz);
    tarn_gnz_close(gnz);
    return status;
}
