/* Remote folds: their options, and whether a URL is one. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char *cache_folder, *index_file;
/* The last URL that had to be opened to find out what it is. */
static const char *asked;
static tarn_dataset *opened; /* NULL: a stream, or taken */

void cli_remote_begin(const cli_args *args)
{
    cache_folder = cli_value(args, "cache");
    index_file = cli_value(args, "index");
}

void cli_remote_keep_nothing(void)
{
    cache_folder = NULL;
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
    bool several = strpbrk(url, "{*?[") || strstr(url, "::");
    if (several || tarn_folds_list(url, &folds, NULL) != TARN_OK) return false;
    const tarn_listed_fold *fold = folds->folds[0];
    const char *name = strrchr(fold->shards[0], '/') + 1;
    size_t len = strlen(fold->name);
    bool whole =
        strncmp(name, fold->name, len) == 0 && strncmp(name + len, ".tar", 4) == 0;
    bool part = folds->count == 1 && fold->n_shards == 1 && !whole;
    tarn_folds_free(folds);
    return part;
}

/* Whether the fold of these archives has more. */
static bool lacks_shards(const char *url, const tarn_dataset_options *o)
{
    tarn_folds *folds;
    tarn_dataset *set;
    tarn_fold_info info;
    bool more = false;
    if (tarn_folds_list(url, &folds, NULL) != TARN_OK) return false;
    const tarn_listed_fold *fold = folds->folds[0];
    if (tarn_dataset_open(fold->index_path, o, &set, NULL) == TARN_OK) {
        more = tarn_dataset_fold(set, &info, sizeof info, NULL) == TARN_OK &&
               info.n_shards > fold->n_shards;
        tarn_dataset_close(set);
    }
    tarn_folds_free(folds);
    return more;
}

/* An archive without an index is read as a stream. So are some archives of a fold. */
static bool has_index(const char *url)
{
    tarn_error err;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_dataset_close(opened);
    opened = NULL;
    if (is_part(url)) return false;
    cli_remote_options(url, &o);
    tarn_status status = tarn_dataset_open(url, &o, &opened, &err);
    if (status != TARN_OK) opened = NULL;
    if (status == TARN_OK || tarn_is_not_found(status)) return status == TARN_OK;
    if (status == TARN_ERR_STALE) return !lacks_shards(url, &o);
    cli_warn(NULL, &err);
    cli_note("tarn: the index of %s is not used; its archives are read as streams\n",
             url);
    return false;
}

/* Commands ask several times. */
bool cli_is_remote_fold(const char *path)
{
    static bool answer;
    tarn_remote form = tarn_remote_form(path);
    if (form != TARN_REMOTE_SHARDS) return form == TARN_REMOTE_FOLD;
    if (index_file) return true;
    if (asked && strcmp(asked, path) == 0) return answer;
    answer = has_index(path);
    asked = path;
    return answer;
}

void cli_remote_ahead(tarn_dataset *set, const uint64_t *samples, size_t count,
                      uint32_t fields)
{
    tarn_error ignored;
    uint32_t *list = malloc((fields + 1) * sizeof *list);
    if (!list) cli_no_memory();
    for (uint32_t i = 0; i < fields; i++)
        list[i] = i;
    tarn_status status =
        tarn_dataset_prefetch(set, samples, count, list, fields, &ignored);
    (void)status;
    free(list);
}

tarn_dataset *cli_remote_take(const char *path)
{
    tarn_dataset *set = asked && strcmp(asked, path) == 0 ? opened : NULL;
    if (set) opened = NULL;
    return set;
}

void cli_remote_end(void)
{
    tarn_dataset_close(opened);
    opened = NULL;
}
