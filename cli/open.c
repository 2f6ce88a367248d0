/* Opens folds and other datasets for the commands. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* Explains the delay: the library scans silently. */
static void note_scan(const tarn_fold_info *fold, const char *path)
{
    struct stat st;
    if (fold->index_path || (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))) return;
    cli_note(
        "tarn: fold %s has no index; scanned its shards (run tarn index to create one)\n",
        fold->name);
}

static void note_opened(const tarn_dataset *set, const char *const *fields)
{
    tarn_dataset_info info;
    size_t count = 0;
    tarn_dataset_info_get(set, &info, sizeof info);
    while (fields[count])
        count++;
    cli_note_left_out(fields, count, info.left_out, info.in_file);
}

void cli_note_cache(const tarn_dataset *set)
{
    tarn_dataset_info info;
    tarn_dataset_info_get(set, &info, sizeof info);
    if (info.cache_problem) cli_note("tarn: warning: %s\n", info.cache_problem);
}

int cli_dataset_open(const cli_args *args, const char *path, tarn_keys keys,
                     const char *const *fields, tarn_dataset **out)
{
    tarn_error err;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_index_options index = TARN_INDEX_OPTIONS_INIT;
    cli_progress progress;
    o.scan = true;
    o.index = &index;
    o.fields = fields;
    o.check = cli_has(args, "check");
    if (!fields && !o.check && (*out = cli_remote_take(path))) {
        cli_note_cache(*out);
        return CLI_OK;
    }
    cli_remote_options(path, &o);
    index.lenient = cli_has(args, "lenient");
    index.notice = cli_warn;
    index.keys = keys;
    if (!cli_is_fold_path(path)) o.key_column = cli_value(args, "key");
    if (!cli_keys(args, &index.keys)) return CLI_USAGE;
    cli_progress_begin(&progress, "scanning", true);
    index.progress = cli_progress_step;
    index.progress_context = &progress;
    tarn_status status = tarn_dataset_open(path, &o, out, &err);
    cli_progress_end(&progress);
    if (status != TARN_OK) return cli_fail(&err);
    if (fields) note_opened(*out, fields);
    cli_note_cache(*out);
    return CLI_OK;
}

bool cli_is_fold_path(const char *path)
{
    return !cli_is_gnz(path) && !cli_is_pack(path);
}

int cli_open(const cli_args *args, const char *path, cli_fold *out)
{
    return cli_open_keys(args, path, TARN_KEYS_BASE, out);
}

int cli_open_keys(const cli_args *args, const char *path, tarn_keys keys, cli_fold *out)
{
    tarn_error err;
    if (!cli_is_fold_path(path))
        return cli_usage(args->command,
                         "%s contains %s, not samples; read them with tarn get", path,
                         cli_is_gnz(path) ? "arrays" : "records");
    int status = cli_dataset_open(args, path, keys, NULL, &out->set);
    if (status != CLI_OK) return status;
    if (tarn_dataset_fold(out->set, &out->fold, sizeof out->fold, &err) != TARN_OK)
        return cli_fail(&err);
    note_scan(&out->fold, path);
    return CLI_OK;
}

void cli_fold_close(cli_fold *fold)
{
    tarn_dataset_close(fold->set);
    free(fold->members);
    *fold = (cli_fold){0};
}

bool cli_is_lone_index(const char *path)
{
    static const char ending[] = ".taridx";
    size_t len = strlen(path), n = sizeof ending - 1;
    tarn_dataset *set;
    if (len <= n || strcmp(path + len - n, ending) != 0 || access(path, F_OK) != 0)
        return false;
    /* The index exists, so "not found" refers to its shards. */
    tarn_status status = tarn_dataset_open(path, NULL, &set, NULL);
    if (status == TARN_OK) tarn_dataset_close(set);
    return tarn_is_not_found(status);
}

tarn_status cli_members_of(cli_fold *f, tarn_dataset *set, uint64_t sample,
                           tarn_error *err)
{
    for (;;) {
        TARN_TRY(tarn_dataset_members(set, sample, f->members, f->room, &f->count, err));
        if (f->count <= f->room) return TARN_OK;
        free(f->members);
        f->room = 2 * f->count;
        f->members = malloc(f->room * sizeof *f->members);
        if (!f->members) cli_no_memory();
    }
}

/* --- Filters ----------------------------------------------------------------------- */

/* Replaces the dataset of f by made, if status is TARN_OK. */
static int replace(cli_fold *f, tarn_status status, tarn_dataset *made,
                   const tarn_error *err)
{
    if (status != TARN_OK) return cli_fail(err);
    tarn_dataset_close(f->set);
    f->set = made;
    return CLI_OK;
}

static int keep_keys(cli_fold *f, const cli_list *keys, tarn_condition_kind kind)
{
    tarn_error err;
    tarn_dataset *kept = NULL;
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = kind;
    c.names = keys->items;
    c.n_names = keys->count;
    tarn_status status = tarn_dataset_filter(f->set, &c, &kept, &err);
    return replace(f, status, kept, &err);
}

static int keep_samples(cli_fold *f, const cli_list *keys)
{
    return keep_keys(f, keys, TARN_CONDITION_KEYS);
}

static int drop_samples(cli_fold *f, const cli_list *keys)
{
    return keep_keys(f, keys, TARN_CONDITION_WITHOUT);
}

void cli_note_left_out(const char *const *fields, size_t count, uint64_t left_out,
                       uint64_t samples)
{
    char shown[200];
    if (left_out == 0) return;
    cli_note("tarn: %llu of %s %s", (unsigned long long)left_out,
             cli_count(samples, "sample"),
             count == 1 ? "have no field" : "lack one of the fields");
    for (size_t i = 0; i < count; i++)
        cli_note("%s %s", i ? "," : "",
                 tarn_printable(shown, sizeof shown, fields[i], strlen(fields[i])));
    cli_note(" and are left out\n");
}

int cli_fold_fields(cli_fold *f, const char *const *fields, size_t count)
{
    tarn_error err;
    tarn_dataset *made = NULL;
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = TARN_CONDITION_HAVING;
    c.names = fields;
    c.n_names = count;
    uint64_t samples = tarn_dataset_count(f->set);
    tarn_status status = tarn_dataset_filter(f->set, &c, &made, &err);
    int kept = replace(f, status, made, &err);
    if (kept != CLI_OK) return kept;
    cli_note_left_out(fields, count, samples - tarn_dataset_count(f->set), samples);
    status = tarn_dataset_with_fields(f->set, fields, count, &made, &err);
    return replace(f, status, made, &err);
}

static int require_fields(cli_fold *f, const cli_list *fields)
{
    for (size_t i = 0; i < fields->count; i++)
        cli_lower((char *)(uintptr_t)fields->items[i]);
    return fields->count ? cli_fold_fields(f, fields->items, fields->count) : CLI_OK;
}

static int apply(cli_fold *f, const char *value,
                 int (*filter)(cli_fold *f, const cli_list *list))
{
    cli_list list;
    int status = CLI_DATA;
    if (!value) return CLI_OK;
    if (cli_list_get(value, &list)) status = filter(f, &list);
    cli_list_free(&list);
    return status;
}

int cli_filter(const cli_args *args, cli_fold *f)
{
    int status = apply(f, cli_value(args, "samples"), keep_samples);
    if (status == CLI_OK) status = apply(f, cli_value(args, "without"), drop_samples);
    return status == CLI_OK ? apply(f, cli_value(args, "fields"), require_fields)
                            : status;
}

int cli_slice(cli_fold *f, uint64_t from, uint64_t to)
{
    tarn_error err;
    tarn_dataset *made = NULL;
    uint64_t count = tarn_dataset_count(f->set);
    if (to > count) to = count;
    if (from > to) from = to;
    tarn_status status = tarn_dataset_slice(f->set, from, 1, to - from, &made, &err);
    return replace(f, status, made, &err);
}
