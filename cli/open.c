/* Opening a fold the way most commands do. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* Says why the answer took a while: the library scans without a word. */
static void note_scan(const tarn_fold *fold, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) return;
    fprintf(stderr,
            "tarn: no index of fold %s: its shards were scanned (tarn index makes one)\n",
            tarn_fold_name(fold));
}

int cli_open(const cli_args *args, const char *path, tarn_fold **out)
{
    return cli_open_keys(args, path, TARN_KEYS_BASE, out);
}

int cli_open_keys(const cli_args *args, const char *path, tarn_keys keys, tarn_fold **out)
{
    tarn_error err;
    tarn_fold_options o = TARN_FOLD_OPTIONS_INIT;
    tarn_index_options index = TARN_INDEX_OPTIONS_INIT;
    cli_progress progress;
    o.scan = true;
    o.index = &index;
    o.check = cli_has(args, "check");
    index.lenient = cli_has(args, "lenient");
    index.notice = cli_warn;
    index.keys = keys;
    if (!cli_keys(args, &index.keys)) return CLI_USAGE;
    if (cli_is_gnz(path) || cli_is_pack(path))
        return cli_usage(args->command,
                         "%s holds no samples but %s; tarn get takes them "
                         "out one by one",
                         path, cli_is_gnz(path) ? "arrays" : "records");
    cli_progress_begin(&progress, "scanning", true);
    index.progress = cli_progress_step;
    index.progress_context = &progress;
    tarn_status status = tarn_fold_open(path, &o, out, &err);
    cli_progress_end(&progress);
    if (status != TARN_OK) return cli_fail(&err);
    if (!tarn_fold_index_path(*out)) note_scan(*out, path);
    return CLI_OK;
}

bool cli_is_lone_index(const char *path)
{
    static const char ending[] = ".taridx";
    size_t len = strlen(path), n = sizeof ending - 1;
    tarn_fold *fold;
    if (len <= n || strcmp(path + len - n, ending) != 0 || access(path, F_OK) != 0)
        return false;
    /* The index is there, so what was not found are its shards. */
    tarn_status status = tarn_fold_open(path, NULL, &fold, NULL);
    if (status == TARN_OK) tarn_fold_close(fold);
    return tarn_is_not_found(status);
}

static int keep_samples(tarn_fold *fold, const char *value)
{
    tarn_error err;
    cli_list list;
    int status = CLI_DATA;
    if (cli_list_get(value, &list)) {
        if (tarn_fold_keep(fold, list.items, list.count, NULL, &err) == TARN_OK)
            status = CLI_OK;
        else
            cli_fail(&err);
    }
    cli_list_free(&list);
    return status;
}

static int require_fields(tarn_fold *fold, const char *value)
{
    tarn_error err;
    cli_list list;
    int status = CLI_DATA;
    if (cli_list_get(value, &list)) {
        for (size_t i = 0; i < list.count; i++)
            cli_lower((char *)(uintptr_t)list.items[i]);
        if (tarn_fold_require(fold, list.items, list.count, &err) == TARN_OK)
            status = CLI_OK;
        else
            cli_fail(&err);
    }
    cli_list_free(&list);
    return status;
}

int cli_filter(const cli_args *args, tarn_fold *fold)
{
    const char *samples = cli_value(args, "samples"), *fields = cli_value(args, "fields");
    int status = samples ? keep_samples(fold, samples) : CLI_OK;
    if (status == CLI_OK && fields) status = require_fields(fold, fields);
    return status;
}
