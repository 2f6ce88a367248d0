/* Remote folds: their options, and whether a URL is one. */
#include <string.h>

#include "cli.h"

static const char *cache_folder, *index_file;

void cli_remote_begin(const cli_args *args)
{
    cache_folder = cli_value(args, "cache");
    index_file = cli_value(args, "index");
}

void cli_remote_options(const char *path, tarn_dataset_options *o)
{
    o->cache = cache_folder;
    if (tarn_remote_form(path) != TARN_REMOTE_NONE) o->index_path = index_file;
}

/* One archive of several: the index of its fold has more shards. */
static bool is_part(const char *url)
{
    tarn_folds *folds;
    if (tarn_folds_list(url, &folds, NULL) != TARN_OK) return false;
    const tarn_listed_fold *fold = folds->folds[0];
    const char *name = strrchr(fold->shards[0], '/') + 1;
    size_t len = strlen(fold->name);
    bool whole =
        strncmp(name, fold->name, len) == 0 && strncmp(name + len, ".tar", 4) == 0;
    bool part = folds->count == 1 && fold->n_shards == 1 && !whole;
    tarn_folds_free(folds);
    return part;
}

/* An archive without an index is read as a stream. */
static bool has_index(const char *url)
{
    tarn_dataset *set;
    if (is_part(url)) return false;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    cli_remote_options(url, &o);
    tarn_status status = tarn_dataset_open(url, &o, &set, NULL);
    if (status == TARN_OK) tarn_dataset_close(set);
    return status == TARN_OK;
}

/* The answer for the last URL is kept, because commands ask several times. */
bool cli_is_remote_fold(const char *path)
{
    static const char *last;
    static bool answer;
    tarn_remote form = tarn_remote_form(path);
    if (form != TARN_REMOTE_SHARDS) return form == TARN_REMOTE_FOLD;
    if (index_file) return true;
    if (last && strcmp(last, path) == 0) return answer;
    answer = has_index(path);
    last = path;
    return answer;
}
