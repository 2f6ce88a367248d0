/* tarn merge: one fold out of several, without rewriting their shards. */
#include <stdlib.h>
#include <string.h>

#include "target.h"

typedef struct merging {
    const cli_args *args;
    cli_fold *folds;
    int n_folds;
    cli_out out;
} merging;

/* All are opened first: nothing is written if one of them cannot be read. */
static int open_all(merging *m, uint64_t *out_shards)
{
    *out_shards = 0;
    for (int i = 0; i < m->args->n_words; i++) {
        int status = cli_open(m->args, m->args->words[i], &m->folds[i]);
        if (status != CLI_OK) return status;
        m->n_folds = i + 1;
        *out_shards += m->folds[i].fold.n_shards;
    }
    return CLI_OK;
}

/* Shard numbers sort as text. */
static unsigned digits_for(uint64_t shards)
{
    unsigned digits = 4;
    for (uint64_t limit = 10000; shards > limit; limit *= 10)
        digits++;
    return digits;
}

static tarn_status adopt_all(void *context, void *output, tarn_error *err)
{
    merging *m = context;
    cli_progress progress;
    tarn_adopt how = cli_has(m->args, "copy") ? TARN_ADOPT_COPY : TARN_ADOPT_LINK;
    cli_progress_begin(&progress, "merging", false);
    for (int i = 0; i < m->n_folds; i++) {
        TARN_TRY(tarn_pack_adopt(output, 0, m->folds[i].set, NULL, 0, how, err));
        if (cli_progress_step(&progress, 0, 0))
            return cli_error(err, TARN_ERR_CANCELLED, "stopped");
    }
    return TARN_OK;
}

static int merge(merging *m)
{
    const char *target = cli_value(m->args, "output");
    uint64_t shards;
    if (!m->args->n_words && !cli_has(m->args, "resume"))
        return cli_usage(m->args->command, "PATH is missing");
    if (target && !cli_out_is_folder(target))
        return cli_usage(m->args->command, "--output is DIR or DIR:FOLD, not %s", target);
    int status = open_all(m, &shards);
    if (status == CLI_OK) status = cli_out_init(&m->out, m->args, target);
    if (status != CLI_OK) return status;
    m->out.writer.digits = digits_for(shards);
    m->out.options.feed = adopt_all;
    m->out.options.feed_context = m;
    m->out.options.keep_finished = false; /* doing it again costs little */
    return cli_out_run(&m->out, NULL, 0);
}

static int run(const cli_args *args)
{
    merging m = {.args = args};
    m.folds = calloc((size_t)args->n_words + 1, sizeof *m.folds);
    if (!m.folds) cli_no_memory();
    int status = merge(&m);
    for (int i = 0; i < args->n_words; i++)
        cli_fold_close(&m.folds[i]);
    free(m.folds);
    return status;
}

static const cli_option options[] = {
    {"output", 'o', "TARGET", "the new fold: DIR:FOLD, or DIR for DIR:train"},
    {"copy", 0, NULL, "copy the shards instead of linking them"},
    CLI_FOLD_OPTIONS,
    {"threads", 'j', "N", "that look through shards (default: all cores)"},
    {"json", 0, NULL, "print the summary as JSON"},
    {"quiet", 'q', NULL, "no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn merge monday:train tuesday:train -o week:train", "two folds into a third"},
    {"tarn merge wednesday:train -o week:train --append", "and one more into that"},
    {"tarn merge --resume -o week:train", "what an interrupted run finished, as it is"},
    {NULL, NULL}};

const cli_command cli_merge = {
    .name = "merge",
    .words = "PATH...",
    .min_words = 0,
    .max_words = 1 << 20,
    .summary = "make one fold out of several",
    .text =
        "No payload is written: each shard gets a second name in the new fold (a hard "
        "link; a copy where that cannot be, or with --copy), in the order given, and an "
        "index of all is made. Checksums of the sources come along; only of a fold "
        "without any are the payloads read.\n\n"
        "Two samples with one key are an error that names both shards. The new fold "
        "appears when all is complete, and the sources stay as they are: remove them "
        "afterwards, and the merge was a move. A file with two names has one content, so "
        "nobody should change a shard in place; tarn never does.\n\n"
        "After an interruption --resume goes on; shards that are there already are "
        "passed over. Without a PATH it publishes what an interrupted writer of any kind "
        "finished, and adds nothing.",
    .options = options,
    .examples = examples,
    .run = run,
};
