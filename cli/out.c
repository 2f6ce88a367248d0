/* Calls tarn_pack with the options from the command line. */
#include "out.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_NOTICES = 5 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool cli_out_is_folder(const char *target)
{
    tarn_target kind = tarn_target_kind(target);
    return kind == TARN_TARGET_FOLDER || kind == TARN_TARGET_RECORDS;
}

/* Names the first few skipped files and counts the rest. */
static void warn_skipped(void *context, const tarn_error *what)
{
    cli_out *out = context;
    tarn_error placed = *what;
    if (what->code == TARN_ERR_UNSUPPORTED && out->n_notices++ >= MAX_NOTICES) return;
    if (!placed.path[0] && out->where)
        snprintf(placed.path, sizeof placed.path, "%s", out->where);
    cli_warn(NULL, &placed);
}

static int show_progress(void *context, uint64_t done, uint64_t total, uint64_t bytes)
{
    cli_out *out = context;
    out->progress.samples = total != 0;
    return cli_progress_step(&out->progress, total ? done : bytes, total);
}

/* The options that determine what is written, for tasks to agree on. The sources are
 * compared by what they contain, and paths may be written in several ways. */
static char *job_of(const cli_args *args)
{
    static const char *const not_these[] = {"task",    "threads", "quiet", "json",
                                            "no-sync", "output",  "root",  "cache"};
    const cli_option *all = args->command->options;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) cli_no_memory();
    fprintf(out, "%s\n", args->command->name);
    for (int o = 0; all[o].name; o++) {
        bool counts = true;
        for (size_t k = 0; counts && k < sizeof not_these / sizeof *not_these; k++)
            counts = strcmp(all[o].name, not_these[k]) != 0;
        for (int i = 0; counts && i < args->n_given; i++) {
            const char *value = args->given[i].value;
            if (args->given[i].option == o)
                fprintf(out, "%s=%zu:%s\n", all[o].name, strlen(value), value);
        }
    }
    if (fclose(out) != 0) cli_no_memory();
    return text;
}

static bool take_task(cli_out *out)
{
    cli_part part;
    if (!cli_has(out->args, "task")) return true;
    if (!cli_task(out->args, &part)) return false;
    out->options.task = (uint32_t)part.number;
    out->options.tasks = (uint32_t)part.count;
    return true;
}

int cli_out_init(cli_out *out, const cli_args *args, const char *target)
{
    unsigned level = 0;
    *out = (cli_out){.args = args,
                     .target = target,
                     .options = TARN_PACK_OPTIONS_INIT,
                     .writer = TARN_FOLD_WRITER_OPTIONS_INIT,
                     .members = TARN_TAR_WRITER_OPTIONS_INIT,
                     .sink = TARN_SINK_OPTIONS_INIT};
    tarn_fold_writer_options *w = &out->writer;
    if (!cli_number(args, "level", &level) ||
        !cli_number(args, "threads", &out->options.threads) ||
        !cli_size(args, "max-count", &w->max_count) ||
        !cli_size(args, "max-size", &w->max_size) || !take_task(out))
        return CLI_USAGE;
    if (cli_has(args, "pax")) out->members.names = TARN_NAMES_PAX;
    w->append = cli_has(args, "append");
    w->resume = cli_has(args, "resume");
    w->overwrite = cli_has(args, "overwrite");
    w->no_sync = cli_has(args, "no-sync");
    w->writer = &out->members;
    out->members.sink = &out->sink;
    out->sink.level = (int)level;
    out->sink.allow_pipe = cli_has(args, "allow-pipe");
    out->options.writer = w;
    out->options.keep_finished = true;
    out->options.notice = warn_skipped;
    out->options.notice_context = out;
    return CLI_OK;
}

static void show_amount(double amount, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    size_t i = 0;
    for (; amount >= 1000 && i < 4; i++)
        amount /= 1000;
    cli_print("%.*f %s%s", i ? 1 : 0, amount, prefixes[i],
              i ? unit : unit + (*unit == ' '));
}

static const char *shown_target(const cli_out *out, const tarn_pack_report *r)
{
    char target[4096];
    snprintf(target, sizeof target, "%.*s", (int)r->folder_len, out->target);
    return cli_shown(target);
}

static void show_json(const cli_out *out, const tarn_pack_report *r, double seconds)
{
    cli_json j = {.out = stdout};
    cli_json_open(&j, NULL, '[');
    for (size_t i = 0; i < r->n_folds; i++) {
        const tarn_pack_fold *w = &r->folds[i];
        cli_json_open(&j, NULL, '{');
        if (r->folds[i].fold) cli_json_text(&j, "fold", r->folds[i].fold);
        cli_json_text(&j, "output", shown_target(out, r));
        cli_json_number(&j, "samples", w->samples);
        cli_json_number(&j, "members", w->members);
        cli_json_number(&j, "payload", w->payload);
        cli_json_number(&j, "bytes", w->bytes);
        cli_json_number(&j, "shards", w->shards);
        cli_json_number(&j, "milliseconds", (uint64_t)(seconds * 1e3));
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_line(&j);
}

static void print_summary(const cli_out *out, const tarn_pack_report *r, double seconds)
{
    uint64_t samples = 0, payload = 0;
    if (strcmp(out->target, "-") == 0 || cli_has(out->args, "quiet")) return;
    if (cli_has(out->args, "json")) {
        show_json(out, r, seconds);
        return;
    }
    for (size_t i = 0; i < r->n_folds; i++) {
        const tarn_pack_fold *w = &r->folds[i];
        samples += w->samples;
        payload += w->payload;
        if (r->folds[i].fold) cli_print("%s: ", r->folds[i].fold);
        cli_print("%s, %s, %s in %s -> %s\n", cli_count(w->samples, "sample"),
                  cli_count(w->members, "member"), cli_count(w->payload, "byte"),
                  cli_count(w->shards, "shard"), shown_target(out, r));
    }
    if (seconds < 1e-6) seconds = 1e-6;
    cli_print("%.2f s: ", seconds);
    show_amount((double)samples / seconds, " samples/s");
    cli_print(", ");
    show_amount((double)payload / seconds, "B/s\n");
}

static void print_existed(const cli_out *out)
{
    if (!cli_has(out->args, "quiet") && !cli_has(out->args, "json"))
        cli_print("task %s was already complete\n", cli_value(out->args, "task"));
}

int cli_out_fail(const cli_out *out, const tarn_error *err)
{
    const tarn_pack_report *r = &out->report;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    uint64_t samples = 0;
    int status =
        err->code == TARN_ERR_USAGE
            ? cli_usage(out->args->command, "%s", tarn_error_text(err, text, sizeof text))
            : cli_fail(err);
    for (size_t i = 0; i < r->n_folds; i++)
        samples += r->folds[i].samples;
    if (err->code == TARN_ERR_EXISTS && samples && out->hint &&
        !cli_has(out->args, "append"))
        cli_note("tarn: %s\n", out->hint);
    if (r->bad && out->options.check == TARN_CHECK_STOP)
        cli_note("tarn: nothing was packed, because of %s; fix what is reported "
                 "above, or leave these samples out with --check=skip\n",
                 cli_count(r->bad, "bad field"));
    if (r->kept)
        cli_note(
            "tarn: kept %s; continue with --resume, or start over with --overwrite\n",
            cli_count(r->kept, "finished shard"));
    return status;
}

int cli_out_run(cli_out *out, const char *const *sources, size_t count)
{
    tarn_error err;
    tarn_pack_report *r = &out->report;
    double began = now();
    if (!out->target && !out->options.dry_run)
        return cli_usage(out->args->command, "--output is missing");
    if (!out->options.feed) { /* callers with a feed show their own progress */
        cli_progress_begin(&out->progress, "packing", !cli_has(out->args, "quiet"));
        out->options.progress = show_progress;
        out->options.progress_context = out;
    }
    char *job = out->options.tasks ? job_of(out->args) : NULL;
    out->options.job = job;
    tarn_status status =
        tarn_pack(sources, count, out->target, &out->options, r, sizeof *r, &err);
    out->options.job = NULL;
    free(job);
    cli_progress_end(&out->progress);
    if (out->n_notices > MAX_NOTICES)
        cli_note("tarn: warning: %llu files skipped\n", (unsigned long long)r->skipped);
    if (status != TARN_OK) return cli_out_fail(out, &err);
    if (r->bad)
        cli_note("tarn: warning: left out the samples with %s\n",
                 cli_count(r->bad, "bad field"));
    if (r->existed)
        print_existed(out);
    else if (!out->options.dry_run)
        print_summary(out, r, now() - began);
    return CLI_OK;
}
