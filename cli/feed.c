/* Passes the samples of a fold to tarn_pack, as views into its shards. */
#include "feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arrays.h"

bool cli_is_archive(const char *path)
{
    return cli_is_stream(path) ||
           (cli_ends_with(path, ".tar") && !cli_is_remote_fold(path));
}

/* How a source is handled depends on its type, so a folder that cannot be accessed is an
 * error. ENAMETOOLONG: the word is a URL or a list of URLs. */
bool cli_is_folder(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0) return S_ISDIR(st.st_mode);
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
    cli_note("tarn: %s: cannot stat: %s\n", path, strerror(errno));
    exit(CLI_DATA);
}

const char *cli_stream_hint(const char *target)
{
    if (!cli_out_is_folder(target))
        return "tarn convert --number uses running numbers as keys";
    return "if the members of a sample are not consecutive, index the archive and use "
           "tarn convert, which groups them; if keys repeat in every archive, tarn "
           "convert --number uses running numbers as keys";
}

/* --- Targets and their options ----------------------------------------------------- */

unsigned cli_target_of(const cli_args *args, const char *to)
{
    static const unsigned of_arrays[] = {
        [CLI_GNZ] = CLI_TO_GNZ, [CLI_NPZ] = CLI_TO_NPZ, [CLI_NPY] = CLI_TO_NPY};
    cli_kind kind = cli_kind_of(to);
    if (kind != CLI_OTHER) return of_arrays[kind];
    if (cli_is_pack_name(to)) return CLI_TO_IAC;
    if (cli_has(args, "files")) return CLI_TO_FILES;
    tarn_target target = tarn_target_kind(to);
    return target == TARN_TARGET_FOLDER   ? CLI_TO_FOLD
           : target == TARN_TARGET_SHARDS ? CLI_TO_SHARDS
                                          : CLI_TO_ARCHIVE;
}

int cli_refuse_foreign(const cli_args *args, const cli_applies *table, const char *to)
{
    unsigned target = cli_target_of(args, to);
    for (; table->name; table++)
        if (cli_has(args, table->name) && !(table->targets & target))
            return cli_usage(args->command, "--%s applies to %s, not to the target %s%s",
                             table->name, table->those, to,
                             target == CLI_TO_FILES ? " with --files" : "");
    if (!cli_has(args, "level")) return CLI_OK;
    if (target == CLI_TO_IAC && !cli_has(args, "codec"))
        return cli_usage(args->command, "--level needs --codec");
    if (target != CLI_TO_IAC && (cli_ends_with(to, ".tar") || strcmp(to, "-") == 0))
        return cli_usage(args->command,
                         "--level applies to compressed archives such as x.tar.zst; %s "
                         "is not compressed",
                         to);
    return CLI_OK;
}

/* --- Samples ----------------------------------------------------------------------- */

typedef struct walking {
    tarn_dataset *set;
    tarn_walk_options options;
    const uint8_t *parts;
    uint64_t number;
    void *output;
} walking;

static tarn_status put_sample(void *context, unsigned part, const char *key,
                              const tarn_field *fields, size_t count, tarn_error *err)
{
    walking *w = context;
    if (w->parts) part = w->parts[w->number];
    w->number++;
    return tarn_pack_put(w->output, part, key, fields, count, err);
}

static tarn_status feed(void *context, void *output, tarn_error *err)
{
    walking *w = context;
    w->output = output;
    return tarn_dataset_walk(w->set, &w->options, put_sample, w, err);
}

int cli_feed(cli_out *out, tarn_dataset *set, const uint8_t *parts)
{
    walking w = {.set = set, .options = TARN_WALK_OPTIONS_INIT, .parts = parts};
    cli_progress_begin(&out->progress, "writing", !cli_has(out->args, "quiet"));
    out->progress.samples = true;
    w.options.threads = out->options.threads;
    w.options.progress = cli_progress_step;
    w.options.progress_context = &out->progress;
    out->options.feed = feed;
    out->options.feed_context = &w;
    out->where = out->args->words[0];
    return cli_out_run(out, NULL, 0);
}
