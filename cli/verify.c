/* tarn verify: runs every check and reports all problems. */
#include <string.h>

#include "cli.h"

typedef struct watcher {
    cli_progress progress;
    cli_json json;
} watcher;

static void on_problem(void *context, const tarn_error *what)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    watcher *w = context;
    cli_progress_end(&w->progress);
    if (w->json.out)
        cli_json_problem(&w->json, what);
    else
        cli_print("%s\n", tarn_error_text(what, text, sizeof text));
}

static void on_repair(void *context, const tarn_error *what)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    watcher *w = context;
    const char *shown = tarn_error_text(what, text, sizeof text);
    if (w->json.out)
        cli_note("repaired: %s\n", shown);
    else
        cli_print("repaired: %s\n", shown);
}

static const char *verdict(const tarn_verify_report *r)
{
    return r->problems ? cli_count(r->problems, "problem") : "all good";
}

static void print_report(const tarn_verify_report *r, bool repair)
{
    printf("%s, %s in %s: %s", cli_count(r->samples, "sample"),
           cli_count(r->members, "member"), cli_count(r->shards, "shard"), verdict(r));
    if (repair && r->problems)
        printf(", %llu left after repair", (unsigned long long)r->remaining);
    if (r->indexed < r->folds)
        printf("; no index");
    else
        printf("; %s checked", cli_count(r->checksummed, "payload"));
    putchar('\n');
}

static void print_any(const tarn_verify_options *o, const tarn_verify_report *r)
{
    if (o->as == TARN_VERIFY_ARRAYS)
        printf("%s, %s: %s; %llu of them checked by checksum\n",
               cli_count(r->members, "array"), cli_count(r->bytes, "byte"), verdict(r),
               (unsigned long long)r->checksummed);
    else if (o->as == TARN_VERIFY_RECORDS)
        printf("%s: %s; %s checked\n", cli_count(r->samples, "record"), verdict(r),
               cli_count(r->checksummed, "payload"));
    else
        print_report(r, o->repair);
}

static void show_json(cli_json *j, tarn_verify_as as, const tarn_verify_report *r,
                      const tarn_error *failed)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    cli_json_close(j, ']');
    if (failed) cli_json_text(j, "error", tarn_error_text(failed, text, sizeof text));
    if (as == TARN_VERIFY_AUTO) {
        cli_json_number(j, "folds", r->folds);
        cli_json_number(j, "indexed", r->indexed);
        cli_json_number(j, "shards", r->shards);
        cli_json_number(j, "samples", r->samples);
        cli_json_number(j, "members", r->members);
    } else {
        cli_json_number(j, as == TARN_VERIFY_ARRAYS ? "arrays" : "records",
                        as == TARN_VERIFY_ARRAYS ? r->members : r->samples);
        cli_json_number(j, "bytes", r->bytes);
    }
    cli_json_number(j, "checksummed", r->checksummed);
    cli_json_number(j, "problem_count", r->problems);
    cli_json_number(j, "repairs", r->repairs);
    cli_json_number(j, "remaining", r->remaining);
}

static int check_options(const cli_args *args)
{
    static const char *const other[] = {"decode", NULL};
    const char *path = args->words[0];
    if (cli_has(args, "bad-keys") && !cli_has(args, "decode"))
        return cli_usage(args->command, "--bad-keys works only with --decode");
    if (cli_is_gnz(path))
        return cli_refuse(args, "an array file, which has no encoded fields", other);
    if (cli_is_stream(path))
        return cli_refuse(args, "a stream; give a folder, a .tar or an .iac", other);
    if (cli_is_lone_index(path))
        return cli_refuse(args, "an index without its shards", other);
    return CLI_OK;
}

static int run(const cli_args *args)
{
    tarn_error err;
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    tarn_verify_report report;
    watcher w = {.json.out = cli_has(args, "json") ? stdout : NULL};
    int usage = check_options(args);
    if (usage != CLI_OK) return usage;
    if (!cli_number(args, "threads", &o.threads)) return CLI_USAGE;
    if (cli_is_gnz(args->words[0]))
        o.as = TARN_VERIFY_ARRAYS;
    else if (cli_is_pack(args->words[0]))
        o.as = TARN_VERIFY_RECORDS;
    o.repair = cli_has(args, "repair");
    o.allow_pipe = cli_has(args, "allow-pipe");
    o.index_path = cli_value(args, "index");
    o.cache = cli_value(args, "cache");
    o.problem = on_problem;
    o.problem_context = &w;
    o.repaired = on_repair;
    o.repaired_context = &w;
    o.progress = cli_progress_step;
    o.progress_context = &w.progress;
    cli_progress_begin(&w.progress, "verifying", !cli_has(args, "quiet"));
    if (w.json.out) {
        cli_json_open(&w.json, NULL, '{');
        cli_json_open(&w.json, "problems", '[');
    }
    tarn_status status = tarn_verify(args->words[0], &o, &report, sizeof report, &err);
    cli_progress_end(&w.progress);
    if (w.json.out)
        show_json(&w.json, o.as, &report, status == TARN_OK ? NULL : &err);
    else if (status == TARN_OK)
        print_any(&o, &report);
    int decoded = CLI_OK;
    if (status == TARN_OK && cli_has(args, "decode"))
        decoded = cli_verify_decode(args, &w.json);
    if (w.json.out) cli_json_close(&w.json, '}');
    if (w.json.out) cli_json_line(&w.json);
    if (status != TARN_OK) return cli_fail(&err);
    return report.remaining ? CLI_DATA : decoded;
}

static const cli_option options[] = {
    {"repair", 0, NULL, "rebuild index and sums; move torn tails to SHARD.bad"},
    {"decode", 0, NULL, "also decode every field that has a codec"},
    {"bad-keys", 0, "FILE",
     "--decode: write the keys of samples that cannot be decoded, one per line"},
    {"threads", 'j', "N", "number of shards to check at once (default: all cores)"},
    CLI_ALLOW_PIPE,
    CLI_REMOTE_INDEX,
    {"cache", 0, "DIR",
     "remote folds: keep the index here, but not the shards, which are read from the "
     "server; --decode keeps what it reads (default: $TARN_CACHE)"},
    {"json", 0, NULL, "print the problems and the counts as JSON"},
    {"quiet", 'q', NULL, "no progress bar"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn verify data/birds", "all folds of a folder"},
    {"tarn verify --repair data/birds:train", "after a writer crashed"},
    {"tarn verify shard.tar", "one archive"},
    {"tarn verify s3://bucket/birds:train", "remote shards; each is read once"},
    {"tarn verify --decode --bad-keys bad.txt data/birds:train",
     "images and other fields that cannot be decoded"},
    {"tarn verify https://host/shard.tar.gz", "a stream: every header, and the end"},
    {"tarn verify x.gnz", "an array file: header, padding, checksums of the arrays"},
    {"tarn verify tiles.iac",
     "an IAC file: header, tables, locations and checksums of records"},
    {NULL, NULL}};

const cli_command cli_verify = {
    .name = "verify",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "check headers, index and checksums; repair",
    .text =
        "Scans every shard and compares it with the index and the .tarsum: headers, "
        "ends of archives, each row, shard sizes, and each payload that has a checksum "
        "(tarn index --sums). Every problem is listed with file, offset and reason. The "
        "exit status is 1 if there is a problem.\n\n--repair rebuilds an existing index "
        "and its sums, and gives a truncated shard a proper end: data that cannot be "
        "read is moved to SHARD.bad and never deleted. A fold that lacks a shard, or "
        "has payloads that fail their checksum, is not repaired, because a new index "
        "would hide the damage; tarn index accepts the data as it is. If the old "
        "checksums are damaged, new ones are computed from the current payloads, and "
        "the message says so. Members that collide cannot be repaired.\n\n--decode then "
        "decodes every field that has a codec (images, numbers, JSON, arrays) on all "
        "cores, and lists the samples with a field that cannot be decoded: file, "
        "offset, key, field and reason. --bad-keys writes their keys to a file, for "
        "tarn ls, extract or convert --without @FILE, or for filter(without=...) in "
        "Python.\n\nFor a .gnz, the header, the bytes between arrays and the checksums "
        "(tarn pack --checksums) are checked. --repair completes or undoes an "
        "interrupted update.",
    .options = options,
    .examples = examples,
    .run = run,
};
