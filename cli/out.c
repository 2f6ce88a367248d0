/* Putting samples where --output says. */
#include "out.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Whether a target is one archive, by its name. */
static bool is_archive(const char *target)
{
    static const char *const endings[] = {".tar",     ".tar.gz", ".tgz",     ".tar.bz2",
                                          ".tbz2",    ".tbz",    ".tar.xz",  ".txz",
                                          ".tar.zst", ".tzst",   ".tar.zstd"};
    if (strcmp(target, "-") == 0 || strncmp(target, "pipe:", 5) == 0) return true;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (cli_ends_with(target, endings[i])) return true;
    return false;
}

static bool has_number(const char *target)
{
    for (const char *at = strchr(target, '%'); at; at = strchr(at + 2, '%')) {
        if (at[1] != '%') return true;
        if (!at[2]) break;
    }
    return false;
}

bool cli_out_is_folder(const char *target)
{
    return !has_number(target) && !is_archive(target);
}

static bool sink_options(const cli_args *args, tarn_sink_options *o)
{
    unsigned level = 0;
    if (!cli_number(args, "level", &level)) return false;
    o->level = (int)level;
    o->overwrite = cli_has(args, "overwrite");
    o->no_sync = cli_has(args, "no-sync");
    o->allow_pipe = cli_has(args, "allow-pipe");
    return true;
}

char *cli_out_folder(const char *target)
{
    struct stat st;
    const char *colon = strrchr(target, ':');
    bool cut = colon && colon != target && !strchr(colon, '/') && stat(target, &st) != 0;
    char *folder = strndup(target, cut ? (size_t)(colon - target) : strlen(target));
    if (!folder) cli_no_memory();
    return folder;
}

/* "DIR:FOLD", unless that is the name of something. */
static int split_target(cli_out *out)
{
    if (strstr(out->target, "://"))
        return cli_usage(out->args->command,
                         "%s: there is no folder at a URL; shards are x_%%06d.tar, one "
                         "archive is x.tar",
                         out->target);
    char *folder = cli_out_folder(out->target);
    if (strcmp(folder, out->target) == 0) {
        free(folder);
        return CLI_OK;
    }
    if (out->n_parts > 1 || cli_has(out->args, "fold")) {
        free(folder);
        return cli_usage(out->args->command, "%s: the folds have names already",
                         out->target);
    }
    out->names[0] = out->target + strlen(folder) + 1;
    out->target = out->folder = folder;
    return CLI_OK;
}

static void forget(cli_out *out)
{
    if (out->target == out->folder) out->target = NULL;
    free(out->folder);
    out->folder = NULL;
}

static int open_folds(cli_out *out, tarn_error *err)
{
    const cli_args *args = out->args;
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    int split = split_target(out);
    if (split != CLI_OK) return split;
    if (out->digits) o.digits = out->digits;
    if (cli_has(args, "pax")) tar.names = TARN_NAMES_PAX;
    o.writer = &tar;
    o.no_sync = cli_has(args, "no-sync");
    o.append = cli_has(args, "append");
    o.resume = cli_has(args, "resume");
    o.overwrite = cli_has(args, "overwrite");
    if (!cli_number(args, "threads", &o.threads) ||
        !cli_size(args, "max-count", &o.max_count) ||
        !cli_size(args, "max-size", &o.max_size))
        return CLI_USAGE;
    if (o.append + o.resume + o.overwrite > 1)
        return cli_usage(args->command,
                         "--append, --resume and --overwrite exclude each other");
    if (cli_has(args, "level"))
        return cli_usage(args->command,
                         "the shards of a fold are not compressed; --level is for "
                         "x.tar.gz and the like");
    if (strstr(out->target, ".tar."))
        return cli_usage(args->command,
                         "%s: archives end in .tar, .tar.gz, .tar.bz2, .tar.xz or "
                         ".tar.zst",
                         out->target);
    out->folds = true;
    for (size_t i = 0; i < out->n_parts; i++)
        if (tarn_fold_writer_open(out->target, out->names[i], &o, &out->fold[i], err) !=
            TARN_OK) {
            int status = cli_fail(err);
            cli_out_stop(out);
            return status;
        }
    return CLI_OK;
}

static int open_shards(cli_out *out, tarn_error *err)
{
    tarn_shard_writer_options o = TARN_SHARD_WRITER_OPTIONS_INIT;
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    o.writer = &tar;
    tar.sink = &sink;
    if (!sink_options(out->args, &sink) ||
        !cli_size(out->args, "max-count", &o.max_count) ||
        !cli_size(out->args, "max-size", &o.max_size))
        return CLI_USAGE;
    return tarn_shard_writer_open(out->target, &o, &out->shards, err) == TARN_OK
               ? CLI_OK
               : cli_fail(err);
}

static int open_tar(cli_out *out, tarn_error *err)
{
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    o.sink = &sink;
    if (!sink_options(out->args, &sink)) return CLI_USAGE;
    return tarn_tar_writer_open(out->target, &o, &out->tar, err) == TARN_OK
               ? CLI_OK
               : cli_fail(err);
}

int cli_out_open(cli_out *out, const cli_args *args, const char *target,
                 const char *const *names, size_t count)
{
    tarn_error err;
    *out = (cli_out){.args = args,
                     .target = target,
                     .n_parts = count,
                     .began = now(),
                     .digits = out->digits};
    if (!target) return cli_usage(args->command, "--output is needed");
    /* As "$UNSET" in a script leaves it: not the folder one happens to be in. */
    if (!*target) return cli_usage(args->command, "the output is empty");
    for (size_t i = 0; i < count; i++)
        out->names[i] = names[i];
    if (cli_out_is_folder(target)) {
        int status = open_folds(out, &err);
        if (status != CLI_OK) forget(out);
        return status;
    }
    if (count > 1 || cli_has(args, "fold") || cli_has(args, "append") ||
        cli_has(args, "resume"))
        return cli_usage(args->command,
                         "folds, --append and --resume need a folder as --output");
    if (has_number(out->target)) return open_shards(out, &err);
    if (cli_has(args, "max-count") || cli_has(args, "max-size"))
        return cli_usage(args->command, "%s is one archive; x_%%06d.tar makes shards",
                         out->target);
    return open_tar(out, &err);
}

tarn_status cli_out_put(void *context, unsigned part, const char *key,
                        const tarn_field *fields, size_t count, tarn_error *err)
{
    cli_out *out = context;
    tarn_written *w = &out->written[0];
    if (out->folds) return tarn_fold_writer_add(out->fold[part], key, fields, count, err);
    if (out->shards) return tarn_shard_writer_add(out->shards, key, fields, count, err);
    uint64_t payload;
    TARN_TRY(tarn_tar_writer_add(out->tar, key, fields, count, &payload, err));
    w->samples++;
    w->members += count;
    w->payload += payload;
    return TARN_OK;
}

tarn_status cli_out_keep(void *context, const char *key, unsigned part, bool *out_keep,
                         tarn_error *err)
{
    cli_out *out = context;
    bool there = false;
    if (out->folds && cli_has(out->args, "resume"))
        TARN_TRY(tarn_fold_writer_has(out->fold[part], key, &there, err));
    *out_keep = !there;
    return TARN_OK;
}

static void show_amount(double amount, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    size_t i = 0;
    for (; amount >= 1000 && i < 4; i++)
        amount /= 1000;
    printf("%.*f %s%s", i ? 1 : 0, amount, prefixes[i], i ? unit : unit + (*unit == ' '));
}

static void show_json(const cli_out *out, double seconds)
{
    cli_json j = {.out = stdout};
    cli_json_open(&j, NULL, '[');
    for (size_t i = 0; i < out->n_parts; i++) {
        const tarn_written *w = &out->written[i];
        cli_json_open(&j, NULL, '{');
        if (out->folds) cli_json_text(&j, "fold", out->names[i]);
        cli_json_text(&j, "output", out->target);
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

static void show(const cli_out *out, double seconds)
{
    FILE *to = strcmp(out->target, "-") == 0 ? stderr : stdout;
    uint64_t samples = 0, payload = 0;
    if (to == stderr || cli_has(out->args, "quiet")) return;
    if (cli_has(out->args, "json")) {
        show_json(out, seconds);
        return;
    }
    for (size_t i = 0; i < out->n_parts; i++) {
        const tarn_written *w = &out->written[i];
        samples += w->samples;
        payload += w->payload;
        if (out->folds) printf("%s: ", out->names[i]);
        printf("%s, %s, %s in %s -> %s\n", cli_count(w->samples, "sample"),
               cli_count(w->members, "member"), cli_count(w->payload, "byte"),
               cli_count(w->shards, "shard"), out->target);
    }
    if (seconds < 1e-6) seconds = 1e-6;
    printf("%.2f s: ", seconds);
    show_amount((double)samples / seconds, " samples/s");
    printf(", ");
    show_amount((double)payload / seconds, "B/s\n");
}

static bool is_there(const cli_out *out, const char *fold)
{
    tarn_folder *folder;
    bool found = false;
    if (tarn_folder_open(out->target, &folder, NULL) != TARN_OK) return false;
    for (size_t i = 0; i < tarn_folder_count(folder); i++)
        found |= strcmp(tarn_folder_fold(folder, i), fold) == 0;
    tarn_folder_close(folder);
    return found;
}

/* A fold without samples is not published: the one it was to replace would stay, and pass
 * for the new one beside the others. */
static int check_replaced(const cli_out *out)
{
    tarn_written w;
    if (!out->folds || !cli_has(out->args, "overwrite")) return CLI_OK;
    for (size_t i = 0; i < out->n_parts; i++) {
        tarn_fold_writer_written(out->fold[i], &w, sizeof w);
        if (w.samples || !is_there(out, out->names[i])) continue;
        fprintf(stderr,
                "tarn: %s: there is no sample for fold %s, which would stay as it is; "
                "nothing was replaced: remove that fold, or choose other samples\n",
                out->target, out->names[i]);
        return CLI_DATA;
    }
    return CLI_OK;
}

int cli_out_finish(cli_out *out)
{
    tarn_error err;
    int result = check_replaced(out);
    if (result != CLI_OK) {
        cli_out_drop(out);
        return result;
    }
    for (size_t i = 0; out->folds && i < out->n_parts && result == CLI_OK; i++) {
        tarn_fold_writer *w = out->fold[i];
        out->fold[i] = NULL;
        if (tarn_fold_writer_finish(w, &out->written[i], sizeof out->written[i], &err) !=
            TARN_OK)
            result = cli_fail(&err);
    }
    if (result != CLI_OK) {
        /* The others would not fit what is there in the place of this one. */
        cli_out_stop(out);
        return result;
    }
    if (out->shards) {
        tarn_shard_writer *w = out->shards;
        out->shards = NULL;
        if (tarn_shard_writer_finish(w, &out->written[0], sizeof out->written[0], &err) !=
            TARN_OK)
            result = cli_fail(&err);
    }
    if (out->tar) {
        tarn_tar_writer *w = out->tar;
        out->tar = NULL;
        out->written[0].shards = 1;
        out->written[0].bytes = tarn_tar_writer_size(w);
        if (tarn_tar_writer_finish(w, &err) != TARN_OK) result = cli_fail(&err);
    }
    if (result == CLI_OK) show(out, now() - out->began);
    forget(out);
    return result;
}

void cli_out_stop(cli_out *out)
{
    uint64_t kept = 0, one;
    for (size_t i = 0; i < out->n_parts; i++) {
        if (!out->fold[i]) continue;
        tarn_fold_writer_suspend(out->fold[i], &one);
        out->fold[i] = NULL;
        kept += one;
    }
    if (kept)
        fprintf(stderr,
                "tarn: %s finished so far %s kept: go on with --resume, or begin again "
                "with --overwrite\n",
                cli_count(kept, "shard"), kept == 1 ? "is" : "are");
    if (out->shards) tarn_shard_writer_abandon(out->shards);
    if (out->tar) tarn_tar_writer_abandon(out->tar);
    out->shards = NULL;
    out->tar = NULL;
    forget(out);
}

void cli_out_drop(cli_out *out)
{
    for (size_t i = 0; !cli_has(out->args, "resume") && i < out->n_parts; i++) {
        tarn_fold_writer_abandon(out->fold[i]);
        out->fold[i] = NULL;
    }
    cli_out_stop(out);
}
