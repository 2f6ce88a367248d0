/* tarn commit: publishes what the tasks of a job have written. */
#include "cli.h"

static void show_json(const tarn_commit_report *r)
{
    cli_json j = {.out = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_number(&j, "tasks", r->tasks);
    cli_json_number(&j, "folds", r->folds);
    cli_json_number(&j, "shards", r->shards);
    cli_json_number(&j, "samples", r->samples);
    cli_json_number(&j, "members", r->members);
    cli_json_bool(&j, "existed", r->existed);
    cli_json_close(&j, '}');
    cli_json_line(&j);
}

static void print_report(const cli_args *args, const tarn_commit_report *r)
{
    if (cli_has(args, "quiet")) return;
    if (cli_has(args, "json")) {
        show_json(r);
        return;
    }
    if (cli_has(args, "discard")) {
        cli_print("%s discarded\n", cli_count(r->tasks, "part"));
        return;
    }
    if (r->existed)
        cli_print("nothing to commit: ");
    else
        cli_print("%s committed: ", cli_count(r->tasks, "task"));
    cli_print("%s, %s in %s\n", cli_count(r->samples, "sample"),
              cli_count(r->members, "member"), cli_count(r->shards, "shard"));
}

static int run(const cli_args *args)
{
    tarn_error err;
    tarn_commit_report report;
    tarn_commit_options o = TARN_COMMIT_OPTIONS_INIT;
    o.append = cli_has(args, "append");
    o.overwrite = cli_has(args, "overwrite");
    o.discard = cli_has(args, "discard");
    o.no_sync = cli_has(args, "no-sync");
    if (o.append + o.overwrite + o.discard > 1)
        return cli_usage(args->command,
                         "--append, --overwrite and --discard exclude each other");
    if (!cli_number(args, "threads", &o.threads) || !cli_number(args, "tasks", &o.tasks))
        return CLI_USAGE;
    if (tarn_commit(args->words[0], &o, &report, sizeof report, &err) != TARN_OK)
        return cli_fail(&err);
    print_report(args, &report);
    return CLI_OK;
}

static const cli_option options[] = {
    {"append", 0, NULL, "add the shards to an existing fold"},
    {"overwrite", 'f', NULL, "replace an existing fold"},
    {"discard", 0, NULL, "remove all parts, and publish nothing"},
    {"no-sync", 0, NULL, "do not wait for the disk: faster, but not crash-safe"},
    {"tasks", 0, "N", "the number of tasks; needed only if they did not know it"},
    {"threads", 'j', "N", "number of threads that sort (default: all cores)"},
    {"json", 0, NULL, "print the result as JSON"},
    {"quiet", 'q', NULL, "no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"for i in $(seq 0 7); do tarn pack pictures -o data/birds --task $i/8; done",
     "the tasks, which can run at the same time and on several machines"},
    {"tarn commit data/birds", "then, once: publish the fold"},
    {"tarn commit data/birds:train --append", "add the shards to a fold that exists"},
    {"tarn commit data/birds --discard", "give up: remove what the tasks wrote"},
    {"tarn commit s3://bucket/birds", "the same in an object store"},
    {NULL, NULL}};

const cli_command cli_commit = {
    .name = "commit",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "publish what the tasks of a job have written",
    .text =
        "With --task I/N, tarn pack, tarn convert and tarn index do part I of a job and "
        "store it in the hidden folder DIR/.FOLD.tasks of their target. A part appears "
        "there complete or not at all: run a task that was killed again. A task whose "
        "part "
        "exists does nothing. All tasks need the same options and the same sources, "
        "unchanged: a task with others is refused.\n\nPATH is the target of the tasks, "
        "DIR or DIR:FOLD. "
        "commit checks that all N parts exist and that no key is in two of them, gives "
        "their shards consecutive numbers, writes one index, and publishes the fold in "
        "one "
        "step. Until then readers see the folder as it was. The parts are removed "
        "afterwards. If a commit is interrupted, run it again; after a complete commit "
        "it "
        "changes nothing.\n\nShards get their names as hard links, or as copies where "
        "links are not possible. The index is sorted on the disk, so the memory needed "
        "hardly grows with the number of samples.\n\nThe target may also be "
        "s3://bucket/DIR. Tasks then send their shards while they write them, and the "
        "commit has the store copy them to their names. The index is replaced last, on "
        "the condition that nobody else has changed it.",
    .options = options,
    .examples = examples,
    .run = run,
};
