/* tarn index: writes <fold>.taridx and <fold>.tarsum for shards. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static void print_result(const char *fold, const char *path, const tarn_index *index,
                         size_t shards, const tarn_index_report *r)
{
    tarn_index_info i;
    tarn_index_info_get(index, &i, sizeof i);
    cli_print("%s: %s, %s, %s in %s -> %s\n", fold, cli_count(i.samples, "sample"),
              cli_count(i.rows, "member"), cli_count(i.fields, "field"),
              cli_count(shards, "shard"), path);
    if (!i.contiguous)
        cli_print("%s: the members of some samples are not consecutive\n", fold);
    if (r->directories || r->links || r->devices)
        cli_print("%s: skipped %s, %s, %s\n", fold, cli_count(r->directories, "folder"),
                  cli_count(r->links, "link"), cli_count(r->devices, "device"));
    if (r->unkeyed)
        cli_print("%s: skipped %s without key or field\n", fold,
                  cli_count(r->unkeyed, "member"));
    if (r->duplicates)
        cli_print("%s: %s with the key and field of another\n", fold,
                  cli_count(r->duplicates, "member"));
    if (r->damages)
        cli_print("%s: skipped damage in %s, %s\n", fold, cli_count(r->damages, "place"),
                  cli_count(r->lost_bytes, "byte"));
}

static void show_json(cli_json *j, const char *fold, const char *path,
                      const tarn_index *index, size_t shards, const tarn_index_report *r)
{
    tarn_index_info i;
    tarn_index_info_get(index, &i, sizeof i);
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "fold", fold);
    cli_json_text(j, "index", path);
    cli_json_number(j, "shards", shards);
    cli_json_number(j, "samples", i.samples);
    cli_json_number(j, "members", i.rows);
    cli_json_number(j, "fields", i.fields);
    cli_json_number(j, "collisions", i.collisions);
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

/* What the old index knew; its .tarsum may have outlived it. */
static bool old_index(const char *path, tarn_index_info *info)
{
    tarn_error err;
    tarn_status status = tarn_index_sums_info(path, info, sizeof *info, &err);
    if (status != TARN_OK && status != TARN_ERR_NO_FILE) cli_warn(NULL, &err);
    return status == TARN_OK;
}

/* A rebuilt index keeps the key rule of the old one, unless the options give another.
 * Checksums are not rebuilt, only mentioned: new checksums would accept every byte as it
 * is now. */
static void inherit_key_rule(const cli_args *args, const char *path,
                             tarn_index_options *o)
{
    tarn_index_info info;
    if (!old_index(path, &info)) return;
    if (!cli_has(args, "keys")) o->keys = info.keys;
    if (info.has_checksums && !o->sums)
        cli_note("tarn: warning: %s: the old index had member checksums, the new one has "
                 "none; use --sums to compute them\n",
                 path);
}

typedef struct built {
    const char *path; /* for the result */
    tarn_index *index;
    tarn_index_report report;
} built;

static tarn_status build_index(const tarn_listed_fold *fold, const tarn_index_options *o,
                               built *out, tarn_error *err)
{
    TARN_TRY(tarn_index_build(fold->shards, fold->n_shards, o, fold->index_path,
                              &out->index, &out->report, sizeof out->report, err));
    cli_progress_end(o->progress_context);
    return TARN_OK;
}

static void show_built(cli_json *json, const tarn_listed_fold *fold, const built *b)
{
    if (json->out)
        show_json(json, fold->name, b->path, b->index, fold->n_shards, &b->report);
    else
        print_result(fold->name, b->path, b->index, fold->n_shards, &b->report);
}

static tarn_status index_fold(const tarn_listed_fold *fold, const tarn_index_options *o,
                              cli_json *json, tarn_error *err)
{
    built b = {.path = fold->index_path};
    tarn_listed_fold part = *fold;
    uint64_t first, end;
    TARN_TRY(build_index(fold, o, &b, err));
    if (o->tasks) {
        cli_part_range(&(cli_part){o->task, o->tasks}, fold->n_shards, &first, &end);
        part.n_shards = (size_t)(end - first);
        b.path = "a part to commit";
    }
    show_built(json, &part, &b);
    tarn_index_free(b.index);
    return TARN_OK;
}

/* "x/train.taridx" has the fold train, whose only shard is train.tar. */
static char *default_name(const char *path)
{
    static const char ending[] = ".taridx";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t len = strlen(name), n = sizeof ending - 1;
    char *text;
    if (len <= n || strcmp(name + len - n, ending) != 0) return NULL;
    if (asprintf(&text, "%.*s.tar", (int)(len - n), name) < 0) cli_no_memory();
    return text;
}

/* One archive that is read as a stream. */
static int index_stream(const cli_args *args, tarn_index_options *o, cli_json *json)
{
    tarn_error err;
    tarn_index *index;
    tarn_index_report report;
    const char *url = args->words[0], *path = cli_value(args, "output");
    if (!path)
        return cli_usage(args->command, "a stream needs -o FOLD.taridx for its index");
    char *own = default_name(path);
    if (!own)
        return cli_usage(args->command,
                         "%s is read as one archive, so the name of its index must end "
                         "in .taridx (found %s)%s",
                         url, path,
                         strstr(url, "://") ? "; a fold is named like FOLDER:FOLD or "
                                              "FOLDER/FOLD-{0000..0099}.tar"
                                            : "");
    const char *name = cli_has(args, "name") ? cli_value(args, "name") : own;
    o->streams = true;
    o->allow_pipe = cli_has(args, "allow-pipe");
    o->names = &name;
    tarn_status status =
        tarn_index_build(&url, 1, o, path, &index, &report, sizeof report, &err);
    o->names = NULL;
    cli_progress_end(o->progress_context);
    int result = status == TARN_OK ? CLI_OK : cli_fail(&err);
    if (status == TARN_OK) {
        if (json->out) {
            cli_json_open(json, NULL, '[');
            show_json(json, name, path, index, 1, &report);
            cli_json_close(json, ']');
            cli_json_line(json);
        } else {
            print_result(name, path, index, 1, &report);
        }
        tarn_index_free(index);
    }
    free(own);
    return result;
}

/* Leaving out the compressed shards would index a different fold. */
static bool is_compressed(const tarn_listed_fold *fold, tarn_error *err)
{
    size_t count = fold->compressed;
    if (!count) return false;
    *err = (tarn_error){.code = TARN_ERR_UNSUPPORTED, .offset = TARN_NO_OFFSET};
    snprintf(err->path, sizeof err->path, "%s", fold->index_path);
    snprintf(err->message, sizeof err->message,
             "no index written: %s of this fold %s no random access; decompress them, or "
             "write plain shards with tarn convert",
             cli_count(count, "compressed archive"), count == 1 ? "has" : "have");
    return true;
}

/* --- Remote folds ------------------------------------------------------------------ */

static bool is_url(const char *path)
{
    return strstr(path, "://") != NULL;
}

static char *join_path(const char *folder, const char *name, const char *ending)
{
    char *path;
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    if (asprintf(&path, "%.*s/%s%s", (int)len, folder, name, ending) < 0) cli_no_memory();
    return path;
}

/* "x.tarsum" for "x.taridx". */
static char *sums_of(const char *path)
{
    char *sums;
    int len = (int)(strlen(path) - strlen(".taridx"));
    if (asprintf(&sums, "%.*s.tarsum", len, path) < 0) cli_no_memory();
    return sums;
}

static tarn_status upload(const char *path, const char *url, bool overwrite,
                          tarn_error *err)
{
    enum { PIECE = 1 << 20 };
    tarn_source *from;
    tarn_sink *to;
    size_t got;
    tarn_source_options in = TARN_SOURCE_OPTIONS_INIT;
    tarn_sink_options out = TARN_SINK_OPTIONS_INIT;
    in.filter = TARN_FILTER_NONE;
    out.filter = TARN_FILTER_NONE;
    out.overwrite = overwrite;
    char *buffer = malloc(PIECE);
    if (!buffer) cli_no_memory();
    tarn_status status = tarn_source_open(path, &in, &from, err);
    if (status == TARN_OK) {
        status = tarn_sink_open(url, &out, &to, err);
        bool open = status == TARN_OK;
        do {
            if (status == TARN_OK)
                status = tarn_source_read(from, buffer, PIECE, &got, err);
            if (status == TARN_OK) status = tarn_sink_write(to, buffer, got, err);
        } while (status == TARN_OK && got == PIECE);
        if (status == TARN_OK)
            status = tarn_sink_finish(to, err);
        else if (open)
            tarn_sink_abandon(to);
        tarn_source_close(from);
    }
    free(buffer);
    return status;
}

/* Found out before the shards are read, which may take hours. */
static tarn_status check_free(const char *url, tarn_error *err)
{
    tarn_source *source;
    if (tarn_source_open(url, NULL, &source, NULL) != TARN_OK) return TARN_OK;
    tarn_source_close(source);
    *err = (tarn_error){.code = TARN_ERR_EXISTS, .offset = TARN_NO_OFFSET};
    snprintf(err->path, sizeof err->path, "%s", cli_shown(url));
    snprintf(err->message, sizeof err->message,
             "the index already exists; use --overwrite to replace it");
    return TARN_ERR_EXISTS;
}

/* Readers look for the index first, so its sums are there before it. */
static tarn_status upload_both(const char *path, const char *url, bool overwrite,
                               tarn_error *err)
{
    char *sums = sums_of(path), *sums_url = sums_of(url);
    /* Sums without an index are what an interrupted upload left. */
    tarn_status status = upload(sums, sums_url, true, err);
    if (status == TARN_OK) status = upload(path, url, overwrite, err);
    free(sums);
    free(sums_url);
    return status;
}

static tarn_status index_and_upload(const tarn_listed_fold *fold,
                                    const tarn_index_options *o, const char *url,
                                    bool overwrite, cli_json *json, tarn_error *err)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = join_path(tmp && tmp[0] ? tmp : "/tmp", "tarn-index-XXXXXX", "");
    tarn_status status = overwrite ? TARN_OK : check_free(url, err);
    if (status == TARN_OK && !mkdtemp(folder)) {
        *err = (tarn_error){.code = TARN_ERR_IO, .offset = TARN_NO_OFFSET};
        snprintf(err->path, sizeof err->path, "%s", folder);
        snprintf(err->message, sizeof err->message, "cannot create this folder: %s",
                 strerror(errno));
        status = TARN_ERR_IO;
    }
    if (status == TARN_OK) {
        tarn_listed_fold local = *fold;
        char *path = join_path(folder, "index", ".taridx"), *sums = sums_of(path);
        built b = {.path = cli_shown(url)};
        local.index_path = path;
        status = build_index(&local, o, &b, err);
        if (status == TARN_OK) status = upload_both(path, url, overwrite, err);
        if (status == TARN_OK) show_built(json, &local, &b);
        tarn_index_free(b.index);
        unlink(path);
        unlink(sums);
        rmdir(folder);
        free(path);
        free(sums);
    }
    free(folder);
    return status;
}

/* Where the index of a fold is written: a file, or one in a folder. */
static char *output_of(const char *output, const char *fold)
{
    if (!cli_ends_with(output, ".taridx")) return join_path(output, fold, ".taridx");
    char *path = strdup(output);
    if (!path) cli_no_memory();
    return path;
}

static tarn_status index_one(const cli_args *args, const tarn_listed_fold *fold,
                             const tarn_index_options *o, cli_json *json, tarn_error *err)
{
    tarn_index_options one = *o;
    const char *output = cli_value(args, "output");
    char *path = output_of(output, fold->name);
    tarn_status status;
    if (is_url(output) && o->tasks) {
        tarn_listed_fold part = *fold;
        part.index_path = path;
        status = index_fold(&part, &one, json, err);
    } else if (is_url(output)) {
        status =
            index_and_upload(fold, &one, path, cli_has(args, "overwrite"), json, err);
    } else {
        tarn_listed_fold local = *fold;
        local.index_path = path;
        if (!cli_ends_with(output, ".taridx")) mkdir(output, 0777);
        inherit_key_rule(args, path, &one);
        status = index_fold(&local, &one, json, err);
    }
    free(path);
    return status;
}

static int check_remote(const cli_args *args, const tarn_folds *folds)
{
    const char *output = cli_value(args, "output");
    if (folds->count > 1 && cli_ends_with(output, ".taridx"))
        return cli_usage(args->command,
                         "there are %zu folds: give a folder with -o, not the index of "
                         "one fold",
                         folds->count);
    if (cli_has(args, "name") && (folds->count > 1 || folds->folds[0]->n_shards > 1))
        return cli_usage(args->command, "--name applies to one archive");
    return CLI_OK;
}

/* Every byte of the shards is read, so checksums cost nothing. */
static int index_remote(const cli_args *args, tarn_index_options *o, cli_json *json)
{
    tarn_error err;
    tarn_folds *folds;
    const char *name = cli_value(args, "name");
    if (!cli_has(args, "output"))
        return cli_usage(args->command,
                         "the index of a remote fold needs -o: a folder, FOLD.taridx, or "
                         "a URL to upload it, such as the folder of the shards");
    if (tarn_folds_list(args->words[0], &folds, &err) != TARN_OK) return cli_fail(&err);
    int result = check_remote(args, folds);
    o->sums = true;
    if (name) o->names = &name;
    if (json->out) cli_json_open(json, NULL, '[');
    for (size_t i = 0; result != CLI_USAGE && i < folds->count; i++) {
        const tarn_listed_fold *fold = folds->folds[i];
        tarn_status status = is_compressed(fold, &err)
                                 ? TARN_ERR_UNSUPPORTED
                                 : index_one(args, fold, o, json, &err);
        cli_progress_end(o->progress_context);
        if (status != TARN_OK) result = cli_fail(&err);
        if (status == TARN_ERR_CANCELLED) break;
    }
    if (json->out) {
        cli_json_close(json, ']');
        cli_json_line(json);
    }
    tarn_folds_free(folds);
    return result;
}

static int run(const cli_args *args)
{
    tarn_error err;
    tarn_folds *folds;
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    cli_progress progress;
    cli_json json = {.out = cli_has(args, "json") ? stdout : NULL};
    o.sums = cli_has(args, "sums");
    o.lenient = cli_has(args, "lenient");
    o.notice = cli_warn;
    cli_part part;
    if (!cli_keys(args, &o.keys) || !cli_number(args, "threads", &o.threads) ||
        !cli_task(args, &part))
        return CLI_USAGE;
    if (cli_has(args, "task")) {
        o.task = (uint32_t)part.number;
        o.tasks = (uint32_t)part.count;
    }
    cli_progress_begin(&progress, "indexing", !cli_has(args, "quiet"));
    o.progress = cli_progress_step;
    o.progress_context = &progress;
    bool remote = tarn_remote_form(args->words[0]) != TARN_REMOTE_NONE;
    const char *output = cli_value(args, "output");
    if (o.tasks && (remote ? !output || !is_url(output) : output != NULL))
        return cli_usage(args->command,
                         "--task applies to the folds of a local folder, or to remote "
                         "shards with their folder as -o, where tarn commit finds the "
                         "parts");
    if (remote) return index_remote(args, &o, &json);
    if (cli_has(args, "overwrite"))
        return cli_usage(args->command, "--overwrite applies to an index that is "
                                        "uploaded; a local index is always replaced");
    if (tarn_tar_is_stream(args->words[0]) || cli_has(args, "output"))
        return index_stream(args, &o, &json);
    if (cli_has(args, "name"))
        return cli_usage(args->command,
                         "--name applies to one archive, with -o FOLD.taridx");
    if (tarn_folds_list(args->words[0], &folds, &err) != TARN_OK) return cli_fail(&err);
    int result = CLI_OK;
    size_t alone = folds->compressed;
    for (size_t i = 0; i < folds->count; i++)
        alone -= folds->folds[i]->compressed;
    if (alone)
        cli_note("tarn: warning: %s: skipped %s; decompress them first\n", args->words[0],
                 cli_count(alone, "compressed archive"));
    if (json.out) cli_json_open(&json, NULL, '[');
    for (size_t i = 0; i < folds->count; i++) {
        const tarn_listed_fold *fold = folds->folds[i];
        tarn_index_options one = o;
        if (is_compressed(fold, &err)) {
            result = cli_fail(&err);
            continue;
        }
        inherit_key_rule(args, fold->index_path, &one);
        tarn_status status = index_fold(fold, &one, &json, &err);
        cli_progress_end(&progress);
        if (status != TARN_OK) result = cli_fail(&err);
        if (status == TARN_ERR_CANCELLED) break;
    }
    if (json.out) {
        cli_json_close(&json, ']');
        cli_json_line(&json);
    }
    tarn_folds_free(folds);
    return result;
}

static const cli_option options[] = {
    {"sums", 0, NULL, "read every byte and store a CRC-32C of each member"},
    {"keys", 0, "RULE",
     "base: a/b/x.jpg is sample x (default); path: a/b/x, as in WebDataset"},
    {"lenient", 0, NULL, "skip damaged parts with a warning instead of failing"},
    {"threads", 'j', "N", "number of shards to scan at once (default: all cores)"},
    {"output", 'o', "FILE",
     "index of one archive or stream: FOLD.taridx; for a remote fold also a folder or a "
     "URL"},
    {"overwrite", 0, NULL, "replace an index that was uploaded before"},
    CLI_TASK,
    {"name", 0, "NAME",
     "the archive's name next to its index (default: FOLD.tar, or that in its URL)"},
    CLI_ALLOW_PIPE,
    {"json", 0, NULL, "print the result as JSON"},
    {"quiet", 'q', NULL, "no progress bar"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn index data/birds", "index every fold of a folder"},
    {"tarn index --sums data/birds:train", "one fold, with checksums of all members"},
    {"tarn index --keys path laion", "keep folders in the keys, as WebDataset does"},
    {"curl -s https://host/x.tar | tee x.tar | tarn index - -o x.taridx",
     "index an archive while it is downloaded"},
    {"tarn index s3://bucket/birds -o here/", "remote shards, read once and not stored"},
    {"tarn index 'https://host/birds/train-{000..099}.tar' -o here/",
     "the same for a web server"},
    {"tarn index s3://bucket/birds:train -o s3://bucket/birds",
     "upload the index to the shards"},
    {"tarn index s3://bucket/birds:train -o s3://bucket/birds --task 0/8",
     "index an eighth of them; tarn commit s3://bucket/birds joins all parts"},
    {NULL, NULL}};

const cli_command cli_index = {
    .name = "index",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "create the index of a folder of shards",
    .text =
        "Scans the shards of each fold and writes two files. <fold>.taridx has one "
        "row of 32 bytes per member. <fold>.tarsum has shard sizes and times, rows "
        "in key order and, with --sums, a checksum of each member. Both are written "
        "under a temporary name and renamed when complete.\n\nPATH is DIR, or "
        "DIR:FOLD for one of its folds. The fold is part of a shard's name: "
        "train_0007.tar, train-0007.tar and train.0007.tar are shard 0007 of fold "
        "train; 0007.tar belongs to fold data; train.tar is the only shard of fold "
        "train.\n\nDirectories, links and devices are skipped and counted. An "
        "archive that tar programs interpret differently is rejected with the "
        "reason. Members with the same key and field are reported with both names; "
        "both stay in the index.\n\nWith -o the index covers one archive, which may "
        "be a stream: -, a URL, or a compressed file. Its offsets refer to the "
        "uncompressed archive, which must be next to the index for reading. A fold "
        "with compressed shards is rejected because they have no random access.\n\nThe "
        "shards may be remote: s3://bucket/FOLDER, s3://bucket/FOLDER:FOLD, or URLs "
        "of .tar files with braces. They are read once, several at the same time (-j, "
        "default 16), and not stored. The index, always with checksums, is written to "
        "the folder or file given with -o, or uploaded if that is a URL. An uploaded "
        "index is only replaced with --overwrite.",
    .options = options,
    .examples = examples,
    .run = run,
};
