/* tarn get: one sample's bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int fail_write(const char *path)
{
    fprintf(stderr, "tarn: %s: cannot write: %s\n", path, strerror(errno));
    return CLI_DATA;
}

/* Under another name first: the bytes may come from the very file that is replaced. */
static int replace_file(const char *path, const tarn_view *view)
{
    char *temporary;
    mode_t mask = umask(0);
    umask(mask);
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) abort();
    int fd = mkstemp(temporary);
    FILE *out = fd >= 0 ? fdopen(fd, "wb") : NULL;
    bool good = out && fwrite(view->data, 1, view->size, out) == view->size;
    if (out && fchmod(fd, 0666 & ~mask) != 0) good = false;
    if (out && fclose(out) != 0) good = false;
    good = good && rename(temporary, path) == 0;
    int status = good ? CLI_OK : fail_write(path);
    if (!good && fd >= 0) unlink(temporary);
    free(temporary);
    return status;
}

int cli_write_out(const char *path, const tarn_view *view)
{
    struct stat st;
    bool to_stdout = !path || strcmp(path, "-") == 0;
    if (!to_stdout && (stat(path, &st) != 0 || S_ISREG(st.st_mode)))
        return replace_file(path, view);
    FILE *out = to_stdout ? stdout : fopen(path, "wb"); /* a device or a pipe */
    if (!out || fwrite(view->data, 1, view->size, out) != view->size ||
        (!to_stdout && fclose(out) != 0))
        return fail_write(to_stdout ? "standard output" : path);
    return CLI_OK;
}

static int get_field(tarn_fold *fold, uint64_t row, const char *path)
{
    tarn_error err;
    tarn_view view;
    if (tarn_fold_view(fold, row, &view, &err) != TARN_OK) return cli_fail(&err);
    int status = cli_write_out(path, &view);
    tarn_view_release(&view);
    return status;
}

/* A folder that is there, or a name that says it is to be one. */
static bool is_folder(const char *path)
{
    struct stat st;
    size_t len = path ? strlen(path) : 0;
    if (len && path[len - 1] == '/') return true;
    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* One field, or all, into a folder under their own names. */
static int get_files(tarn_fold *fold, const char *key, const char *field,
                     const char *folder)
{
    tarn_error err;
    uint64_t files;
    if (tarn_fold_keep(fold, &key, 1, NULL, &err) != TARN_OK ||
        (field && tarn_fold_require(fold, &field, 1, &err) != TARN_OK) ||
        tarn_fold_extract(fold, folder, NULL, &files, &err) != TARN_OK)
        return cli_fail(&err);
    return CLI_OK;
}

static int several(const tarn_fold *fold, const tarn_sample *s, const char *key)
{
    tarn_row row;
    fprintf(stderr, "tarn: %s has %u fields; name one, or give a folder with -o:", key,
            s->count);
    for (uint32_t k = 0; k < s->count; k++)
        if (tarn_index_row(tarn_fold_index(fold), tarn_sample_row(s, k), &row, NULL) ==
            TARN_OK)
            fprintf(stderr, " %s", tarn_index_field(tarn_fold_index(fold), row.field));
    fputc('\n', stderr);
    return CLI_USAGE;
}

static int get(tarn_fold *fold, const char *key, const char *field, const char *output)
{
    tarn_error err;
    tarn_sample s;
    uint64_t row;
    if (tarn_fold_find(fold, key, &s, &err) != TARN_OK) return cli_fail(&err);
    if (!field && s.count > 1 && !is_folder(output)) return several(fold, &s, key);
    row = tarn_sample_row(&s, 0);
    if (field && tarn_fold_pick(fold, &s, field, &row, &err) != TARN_OK)
        return cli_fail(&err);
    return is_folder(output) ? get_files(fold, key, field, output)
                             : get_field(fold, row, output);
}

static int run(const cli_args *args)
{
    tarn_fold *fold;
    char *field = NULL;
    if (cli_is_pack(args->words[0])) return cli_iac_get(args);
    int status = cli_open(args, args->words[0], &fold);
    if (status != CLI_OK) return status;
    if (args->n_words > 2 && !(field = strdup(args->words[2]))) abort();
    if (field) cli_lower(field);
    status = get(fold, args->words[1], field, cli_value(args, "output"));
    free(field);
    tarn_fold_close(fold);
    return status;
}

static const cli_option options[] = {
    {"output", 'o', "FILE", "write there instead of standard output, or into a folder"},
    {"check", 0, NULL, "compare the bytes with the checksum in the .tarsum or pack"},
    {"decode", 0, NULL, "packs: undo the codec of the payload"},
    {"keys", 0, "RULE", "base or path: how keys are made where there is no index"},
    {"lenient", 0, NULL, "where there is no index: pass over damage"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn get data/birds:train kiwi_07 jpg > kiwi.jpg", "one field"},
    {"tarn get data/birds:train kiwi_07 -o here/", "all fields, as files in a folder"},
    {"tarn get tiles.iac 17 > tile.jpg", "the payload of a pack's row"},
    {"tarn get tiles.iac tile_id=t_0042 -o tile.jpg", "found by the value of a column"},
    {NULL, NULL}};

const cli_command cli_get = {
    .name = "get",
    .words = "PATH KEY [FIELD]",
    .min_words = 2,
    .max_words = 3,
    .summary = "write the bytes of one sample's field",
    .text = "With a .tarsum the key is found by bisection, so this takes no longer than "
            "opening the files, however many samples there are. The header in the shard "
            "is compared with the index before any byte is written.\n\n"
            "In a pack (.iac) KEY is a row's number, or COLUMN=VALUE.",
    .options = options,
    .examples = examples,
    .run = run,
};
