/* tarn extract: writes members as files. */
#include <string.h>

#include "cli.h"

static void print_count(const cli_args *args, uint64_t files, const char *folder)
{
    cli_json j = {.out = stdout};
    /* For tarn convert, --quiet also suppresses the summary. */
    if (cli_has(args, "quiet") && args->command == &cli_convert) return;
    if (!cli_has(args, "json")) {
        cli_print("%s in %s\n", cli_count(files, "file"), folder);
        return;
    }
    cli_json_open(&j, NULL, '{');
    cli_json_number(&j, "files", files);
    cli_json_text(&j, "folder", folder);
    cli_json_close(&j, '}');
    cli_json_line(&j);
}

static int extract_streams(const cli_args *args, const char *folder)
{
    tarn_error err;
    cli_stream s;
    tarn_samples_item item;
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    uint64_t files = 0;
    int result = cli_stream_open_all(args, &o, &s);
    if (result != CLI_OK) return result;
    bool overwrite = cli_has(args, "overwrite");
    tarn_status status;
    while ((status = tarn_samples_next(s.samples, &item, &err)) == TARN_OK &&
           (status = tarn_samples_extract(&item, folder, overwrite, &files, &err)) ==
               TARN_OK)
        continue;
    result = cli_stream_end(&s, status, &err);
    print_count(args, files, folder);
    cli_stream_close(&s);
    return result;
}

int cli_extract_to(const cli_args *args, const char *folder)
{
    tarn_error err;
    cli_fold fold = {0};
    cli_progress progress;
    tarn_extract_options o = TARN_EXTRACT_OPTIONS_INIT;
    uint64_t files;
    if (strstr(folder, "://"))
        return cli_usage(args->command, "%s: files go into a local folder, not to a URL",
                         folder);
    if (args->n_words > 1 || cli_is_stream(args->words[0]))
        return extract_streams(args, folder);
    int status = cli_open(args, args->words[0], &fold);
    if (status == CLI_OK) status = cli_filter(args, &fold);
    if (status == CLI_OK) {
        cli_progress_begin(&progress, "extracting", !cli_has(args, "quiet"));
        o.overwrite = cli_has(args, "overwrite");
        o.progress = cli_progress_step;
        o.progress_context = &progress;
        tarn_status done = tarn_dataset_extract(fold.set, folder, &o, &files, &err);
        cli_progress_end(&progress);
        if (done != TARN_OK) status = cli_fail(&err);
        print_count(args, files, folder);
    }
    cli_fold_close(&fold);
    return status;
}

static int run(const cli_args *args)
{
    const char *folder = cli_value(args, "output");
    if (!folder) return cli_usage(args->command, "-o DIR is missing");
    return cli_extract_to(args, folder);
}

static const cli_option options[] = {
    {"output", 'o', "DIR", "target folder; created if it does not exist"},
    {"samples", 's', "LIST", "only these keys, in the fold's order: a,b or @FILE"},
    CLI_WITHOUT,
    CLI_FIELDS('f'),
    {"overwrite", 0, NULL, "replace existing files"},
    {"check", 0, NULL, "compare the bytes with the checksums in the .tarsum"},
    CLI_KEYS,
    {"lenient", 0, NULL, "without an index: skip damaged parts"},
    CLI_ALLOW_PIPE,
    CLI_MAX_SAMPLE,
    CLI_REMOTE,
    {"quiet", 'q', NULL, "no progress bar"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn extract data/birds:train -o birds", "all samples of a fold"},
    {"tarn extract data/birds:train -o some --samples kiwi_07,emu_01 --fields jpg",
     "two images"},
    {"curl -s https://host/x.tar.gz | tarn extract - -o here", "extract a stream"},
    {NULL, NULL}};

const cli_command cli_extract = {
    .name = "extract",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "write members as files",
    .text =
        "Writes regular files only, with the names they have in the archive and mode "
        "0644. Nothing is ever written outside the folder: a name that contains .. is an "
        "error, leading slashes are removed, and symbolic links are not followed. An "
        "existing file is an error unless --overwrite is given.\n\n@FILE contains one "
        "key per line, or keys terminated by NUL; @- is standard input.",
    .options = options,
    .examples = examples,
    .run = run,
};
