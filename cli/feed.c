/* Passes the samples of a fold to tarn_pack, as views into its shards. */
#include "feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cli_is_archive(const char *path)
{
    return cli_is_stream(path) || cli_ends_with(path, ".tar");
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
