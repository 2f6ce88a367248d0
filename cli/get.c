/* tarn get: writes the bytes of one sample. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int fail_write(const char *path)
{
    cli_note("tarn: %s: cannot write: %s\n", path, strerror(errno));
    return CLI_DATA;
}

/* The sample that the bytes come from. */
typedef struct origin {
    tarn_dataset *set;
    uint64_t sample;
} origin;

/* If the shard was truncated meanwhile, the rest of its last page was read as zeros. */
static int look_again(const origin *from)
{
    tarn_error err;
    if (!from || tarn_dataset_release(from->set, from->sample, NULL, 0, &err) == TARN_OK)
        return CLI_OK;
    return cli_fail(&err);
}

/* Uses a temporary name, because the bytes may come from the file that is replaced. */
static int replace_file(const char *path, const tarn_view *view, const origin *from)
{
    char *temporary;
    mode_t mask = umask(0);
    umask(mask);
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) cli_no_memory();
    int fd = mkstemp(temporary);
    FILE *out = fd >= 0 ? fdopen(fd, "wb") : NULL;
    bool good = out && fwrite(view->data, 1, view->size, out) == view->size;
    if (out && fchmod(fd, 0666 & ~mask) != 0) good = false;
    if (out && fclose(out) != 0) good = false;
    int status = good ? look_again(from) : fail_write(path);
    if (status == CLI_OK && rename(temporary, path) != 0) status = fail_write(path);
    if (status != CLI_OK && fd >= 0) unlink(temporary);
    free(temporary);
    return status;
}

static int write_out(const char *path, const tarn_view *view, const origin *from)
{
    struct stat st;
    bool to_stdout = !path || strcmp(path, "-") == 0;
    if (!to_stdout && (stat(path, &st) != 0 || S_ISREG(st.st_mode)))
        return replace_file(path, view, from);
    FILE *out = to_stdout ? stdout : fopen(path, "wb"); /* a device or a pipe */
    if (!out || fwrite(view->data, 1, view->size, out) != view->size ||
        (!to_stdout && fclose(out) != 0))
        return fail_write(to_stdout ? "standard output" : path);
    return look_again(from);
}

int cli_write_out(const char *path, const tarn_view *view)
{
    return write_out(path, view, NULL);
}

static int get_field(tarn_dataset *set, uint64_t sample, uint32_t field, const char *path)
{
    tarn_error err;
    tarn_view view;
    origin from = {set, sample};
    if (tarn_dataset_get(set, sample, field, &view, &err) != TARN_OK)
        return cli_fail(&err);
    int status = write_out(path, &view, &from);
    tarn_view_release(&view);
    return status;
}

/* An existing folder, or a name that ends with a slash. */
static bool is_folder(const char *path)
{
    struct stat st;
    size_t len = path ? strlen(path) : 0;
    if (len && path[len - 1] == '/') return true;
    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Writes one field, or all fields, into a folder under their own names. */
static int get_files(cli_fold *f, uint64_t sample, const char *field, const char *folder)
{
    tarn_error err;
    uint64_t files;
    int status = cli_slice(f, sample, sample + 1);
    if (status == CLI_OK && field) status = cli_fold_fields(f, &field, 1);
    if (status != CLI_OK) return status;
    return tarn_dataset_extract(f->set, folder, NULL, &files, &err) == TARN_OK
               ? CLI_OK
               : cli_fail(&err);
}

static void put_names(const cli_fold *f, const char *separator)
{
    for (size_t k = 0; k < f->count; k++)
        cli_note("%s%s", k ? separator : "",
                 tarn_dataset_field(f->set, f->members[k].field));
    fputc('\n', stderr);
}

static int several(const cli_fold *f, const char *key)
{
    cli_note("tarn: %s has %zu fields; name one, or give a folder with -o (FOLDER/ if it "
             "does not exist): ",
             key, f->count);
    put_names(f, " ");
    return CLI_USAGE;
}

static int lacks(const cli_fold *f, const char *key, const char *field)
{
    char shown[200];
    const char *path = f->fold.index_path ? f->fold.index_path : f->fold.shards[0];
    cli_note("tarn: %s: sample %s has no field %s%s", path,
             tarn_printable(shown, sizeof shown, key, strlen(key)), field,
             f->count ? "; it has " : "");
    put_names(f, ", ");
    return CLI_DATA;
}

/* "jpg;png": the dataset then has only this field, whose name *field becomes. */
static int choose_field(cli_fold *f, const char **field)
{
    tarn_error err;
    tarn_dataset *made;
    if (!*field || !strpbrk(*field, ";=")) return CLI_OK;
    if (tarn_dataset_with_fields(f->set, field, 1, &made, &err) != TARN_OK)
        return cli_fail(&err);
    tarn_dataset_close(f->set);
    f->set = made;
    *field = tarn_dataset_field(made, 0);
    return CLI_OK;
}

static int get(cli_fold *f, const char *key, const char *field, const char *output)
{
    tarn_error err;
    uint64_t sample;
    const char *asked = field;
    int status = choose_field(f, &field);
    if (status != CLI_OK) return status;
    if (tarn_dataset_find(f->set, &key, 1, &sample, NULL, &err) != TARN_OK ||
        cli_members_of(f, f->set, sample, &err) != TARN_OK)
        return cli_fail(&err);
    if (!field && f->count > 1 && !is_folder(output)) return several(f, key);
    size_t k = 0;
    while (field && k < f->count &&
           strcmp(tarn_dataset_field(f->set, f->members[k].field), field) != 0)
        k++;
    if (k == f->count) return lacks(f, key, asked);
    return is_folder(output) ? get_files(f, sample, asked, output)
                             : get_field(f->set, sample, f->members[k].field, output);
}

/* --- From a stream ----------------------------------------------------------------- */

static bool is_the_key(void *context, const char *key, size_t len)
{
    (void)len;
    return strcmp(context, key) == 0;
}

static int several_fields(const tarn_samples_item *item)
{
    cli_note("tarn: %s has %zu fields; name one, or give a folder with -o (FOLDER/ if it "
             "does not exist):",
             item->key, item->count);
    for (size_t i = 0; i < item->count; i++)
        cli_note(" %s", item->fields[i].name);
    fputc('\n', stderr);
    return CLI_USAGE;
}

static int put_item(const tarn_samples_item *item, const char *output)
{
    tarn_error err;
    uint64_t files = 0;
    if (is_folder(output))
        return tarn_samples_extract(item, output, false, &files, &err) == TARN_OK
                   ? CLI_OK
                   : cli_fail(&err);
    if (item->count > 1) return several_fields(item);
    tarn_view view = {item->fields[0].data, (size_t)item->fields[0].size, NULL};
    return cli_write_out(output, &view);
}

/* Finds the first sample with that key and field, and does not read any further. */
static int get_from_stream(const cli_args *args, const char *key, const char *field,
                           const char *output)
{
    tarn_error err;
    cli_stream s;
    tarn_samples_item item;
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    o.want = is_the_key;
    o.want_context = (void *)(uintptr_t)key;
    o.fields = &field;
    o.n_fields = field != NULL;
    int result = cli_stream_open(args, &o, &s);
    if (result != CLI_OK) return result;
    tarn_status status = tarn_samples_next(s.samples, &item, &err);
    result = cli_stream_end(&s, status, &err);
    if (status == TARN_OK) {
        result = put_item(&item, output);
    } else if (status == TARN_END) {
        cli_note("tarn: no sample with key %s%s%s in %s\n", key,
                 field ? " and field " : "", field ? field : "", s.url);
        result = CLI_DATA;
    }
    cli_stream_close(&s);
    return result;
}

static int run(const cli_args *args)
{
    cli_fold fold = {0};
    char *field = NULL;
    const char *output = cli_value(args, "output");
    static const char *const of_arrays[] = {"rows", "raw", NULL};
    static const char *const of_packs[] = {"decode", NULL};
    bool arrays = cli_is_gnz(args->words[0]), pack = cli_is_pack(args->words[0]);
    const char *kind = arrays ? "arrays" : pack ? "IAC files" : "samples";
    int status = arrays ? CLI_OK : cli_refuse(args, kind, of_arrays);
    if (status == CLI_OK && !pack) status = cli_refuse(args, kind, of_packs);
    if (status != CLI_OK) return status;
    if (arrays) return cli_gnz_get(args);
    if (pack) return cli_iac_get(args);
    if (args->n_words > 2 && !(field = strdup(args->words[2]))) cli_no_memory();
    if (field) cli_lower(field);
    if (cli_is_stream(args->words[0])) {
        status = get_from_stream(args, args->words[1], field, output);
    } else {
        status = cli_open(args, args->words[0], &fold);
        if (status == CLI_OK) status = get(&fold, args->words[1], field, output);
        cli_fold_close(&fold);
    }
    free(field);
    return status;
}

static const cli_option options[] = {
    {"output", 'o', "FILE", "write to FILE instead of standard output, or into a folder"},
    {"check", 0, NULL,
     "compare the bytes with the checksum in the .tarsum, .gnz or .iac"},
    {"rows", 0, "A:B", "arrays: only rows A to B - 1; either can be left out"},
    {"raw", 0, NULL, "arrays: write bare values, regardless of the output's name"},
    {"decode", 0, NULL, "record packs: decompress the payload"},
    CLI_KEYS,
    {"lenient", 0, NULL, "without an index: skip damaged parts"},
    CLI_ALLOW_PIPE,
    CLI_MAX_SAMPLE,
    CLI_REMOTE,
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn get data/birds:train kiwi_07 jpg > kiwi.jpg", "one field"},
    {"tarn get data/birds:train kiwi_07 -o here/", "all fields, as files in a folder"},
    {"tarn get 'https://host/train-{000..099}.tar' kiwi_07 jpg --index train.taridx > "
     "x.jpg",
     "from remote shards, with a local index"},
    {"tarn get x.gnz emb --rows :100 -o emb.npy", "rows of an array, for NumPy"},
    {"tarn get tiles.iac 17 > tile.jpg", "the payload of a record, by row number"},
    {"tarn get tiles.iac tile_id=t_0042 -o tile.jpg",
     "a record selected by a column value"},
    {NULL, NULL}};

const cli_command cli_get = {
    .name = "get",
    .words = "PATH KEY [FIELD]",
    .min_words = 2,
    .max_words = 3,
    .summary = "write the bytes of one field of a sample",
    .text = "With a .tarsum the key is found by binary search, so the time does not "
            "depend on the number of samples. The header in the shard is compared with "
            "the index before any byte is written.\n\nA stream (-, a URL without an "
            "index, a compressed archive) is read only up to the first sample with this "
            "key and "
            "field.\n\nFor a .gnz, KEY is the name of an array. It is written as .npy if "
            "the output's name ends in .npy, and as bare values in C order "
            "otherwise.\n\nFor an .iac, KEY is a row number, or COLUMN=VALUE.",
    .options = options,
    .examples = examples,
    .run = run,
};
