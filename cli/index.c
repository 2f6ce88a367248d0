/* tarn index: shards to <fold>.taridx and <fold>.tarsum. */
#include <string.h>

#include "cli.h"

static void show(const char *fold, const char *path, const tarn_index *index,
                 size_t shards, const tarn_index_report *r)
{
    tarn_index_info i;
    tarn_index_info_get(index, &i);
    printf("%s: %s, %s, %s in %s -> %s\n", fold, cli_count(i.samples, "sample"),
           cli_count(i.rows, "member"), cli_count(i.fields, "field"),
           cli_count(shards, "shard"), path);
    if (!i.contiguous)
        printf("%s: the members of some samples do not stand together\n", fold);
    if (r->directories || r->links || r->devices)
        printf("%s: passed over %s, %s, %s\n", fold, cli_count(r->directories, "folder"),
               cli_count(r->links, "link"), cli_count(r->devices, "device"));
    if (r->unkeyed)
        printf("%s: passed over %s without key or field\n", fold,
               cli_count(r->unkeyed, "member"));
    if (r->duplicates)
        printf("%s: %s with the key and field of another\n", fold,
               cli_count(r->duplicates, "member"));
    if (r->damages)
        printf("%s: passed over damage in %s, %s\n", fold, cli_count(r->damages, "place"),
               cli_count(r->lost_bytes, "byte"));
}

static void show_json(cli_json *j, const char *fold, const char *path,
                      const tarn_index *index, size_t shards, const tarn_index_report *r)
{
    tarn_index_info i;
    tarn_index_info_get(index, &i);
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "fold", fold);
    cli_json_text(j, "index", path);
    cli_json_number(j, "shards", shards);
    cli_json_number(j, "samples", i.samples);
    cli_json_number(j, "members", i.rows);
    cli_json_number(j, "fields", i.fields);
    cli_json_number(j, "crashes", i.crashes);
    cli_json_bool(j, "contiguous", i.contiguous);
    cli_json_bool(j, "checksums", i.has_checksums);
    cli_json_number(j, "directories", r->directories);
    cli_json_number(j, "links", r->links);
    cli_json_number(j, "devices", r->devices);
    cli_json_number(j, "unkeyed", r->unkeyed);
    cli_json_number(j, "duplicates", r->duplicates);
    cli_json_number(j, "damages", r->damages);
    cli_json_number(j, "lost_bytes", r->lost_bytes);
    cli_json_close(j, '}');
}

/* An index made anew has keys by the same rule, unless told otherwise. That it had
 * checksums is only said: to make them again is to accept every byte as it is now. */
static void inherit(const cli_args *args, const char *path, tarn_index_options *o)
{
    tarn_index *old;
    tarn_index_info info;
    if (tarn_index_load(path, &old, NULL) != TARN_OK) return;
    tarn_index_info_get(old, &info);
    tarn_index_free(old);
    if (info.keys_known && !cli_has(args, "keys")) o->keys = info.keys;
    if (info.has_checksums && !o->sums)
        fprintf(stderr,
                "tarn: warning: %s: it had member checksums, and will have none; "
                "--sums makes them\n",
                path);
}

static tarn_status index_fold(const tarn_folder *folder, size_t i,
                              const tarn_index_options *o, cli_json *json,
                              tarn_error *err)
{
    tarn_index *index;
    tarn_index_report report;
    const char *path = tarn_folder_index_path(folder, i);
    size_t shards = tarn_folder_shard_count(folder, i);
    TARN_TRY(tarn_index_create(tarn_folder_shards(folder, i), shards, o, path, &index,
                               &report, err));
    cli_progress_end(o->progress_context);
    if (json->out)
        show_json(json, tarn_folder_fold(folder, i), path, index, shards, &report);
    else
        show(tarn_folder_fold(folder, i), path, index, shards, &report);
    tarn_index_free(index);
    return TARN_OK;
}

static int run(const cli_args *args)
{
    tarn_error err;
    tarn_folder *folder;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    cli_progress progress;
    cli_json json = {.out = cli_has(args, "json") ? stdout : NULL};
    o.sums = cli_has(args, "sums");
    o.lenient = cli_has(args, "lenient");
    o.notice = cli_warn;
    if (!cli_keys(args, &o.keys) || !cli_number(args, "threads", &o.threads))
        return CLI_USAGE;
    if (tarn_folder_open(args->words[0], &folder, &err) != TARN_OK) return cli_fail(&err);
    int result = CLI_OK;
    if (tarn_folder_compressed(folder))
        fprintf(stderr, "tarn: warning: %s: %s passed over; decompress them first\n",
                args->words[0],
                cli_count(tarn_folder_compressed(folder), "compressed archive"));
    cli_progress_begin(&progress, "indexing", !cli_has(args, "quiet"));
    o.progress = cli_progress_step;
    o.progress_context = &progress;
    if (json.out) cli_json_open(&json, NULL, '[');
    for (size_t i = 0; i < tarn_folder_count(folder); i++) {
        tarn_index_options one = o;
        inherit(args, tarn_folder_index_path(folder, i), &one);
        tarn_status status = index_fold(folder, i, &one, &json, &err);
        cli_progress_end(&progress);
        if (status != TARN_OK) result = cli_fail(&err);
        if (status == TARN_ERR_CANCELLED) break;
    }
    if (json.out) {
        cli_json_close(&json, ']');
        cli_json_line(&json);
    }
    tarn_folder_close(folder);
    return result;
}

static const cli_option options[] = {
    {"sums", 0, NULL, "read every byte and keep a CRC-32C of each member"},
    {"keys", 0, "RULE",
     "base: a/b/x.jpg is sample x (default); path: a/b/x, as WebDataset"},
    {"lenient", 0, NULL, "pass over damage, with a warning, instead of failing"},
    {"threads", 'j', "N", "shards scanned at once (default: all cores)"},
    {"json", 0, NULL, "print the result as JSON"},
    {"quiet", 'q', NULL, "no progress bar"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn index data/birds", "index every fold of a folder"},
    {"tarn index --sums data/birds:train", "one fold, with checksums of all members"},
    {"tarn index --keys path laion", "keep folders in the keys, as WebDataset does"},
    {NULL, NULL}};

const cli_command cli_index = {
    .name = "index",
    .words = "DIR[:FOLD]",
    .min_words = 1,
    .max_words = 1,
    .summary = "make the index of a folder of shards",
    .text =
        "Scans the shards of each fold and writes <fold>.taridx, one row of 32 bytes per "
        "member, and <fold>.tarsum: shard sizes and times, rows in key order, and with "
        "--sums a checksum for each member. Both are written under a temporary name and "
        "appear whole.\n\n"
        "A shard's name says its fold: train_0007.tar, train-0007.tar and train.0007.tar "
        "are shard 0007 of fold train; 0007.tar is of fold data; train.tar is all of "
        "fold "
        "train.\n\n"
        "Directories, links and devices are passed over and counted. An archive that tar "
        "programs read differently is refused with the reason. Members that end up with "
        "the same key and field are told with both names; both stay in the index.",
    .options = options,
    .examples = examples,
    .run = run,
};
