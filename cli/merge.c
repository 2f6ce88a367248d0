/* tarn merge: combines several folds into one without rewriting their shards. */
#include <stdlib.h>
#include <string.h>

#include "target.h"

typedef struct merging {
    const cli_args *args;
    cli_fold *folds;
    int n_folds;
    cli_out out;
} merging;

/* Opens all sources first, so that nothing is written if one of them cannot be read. */
static int open_all(merging *m, uint64_t *out_shards)
{
    *out_shards = 0;
    for (int i = 0; i < m->args->n_words; i++) {
        if (tarn_remote_form(m->args->words[i]) != TARN_REMOTE_NONE)
            return cli_usage(m->args->command,
                             "%s: whole shards are linked or copied, which must be local "
                             "files; copy the samples with tarn convert",
                             m->args->words[i]);
        int status = cli_open(m->args, m->args->words[i], &m->folds[i]);
        if (status != CLI_OK) return status;
        m->n_folds = i + 1;
        *out_shards += m->folds[i].fold.n_shards;
    }
    return CLI_OK;
}

/* Shard numbers are sorted as text, so all have the same number of digits. */
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
        return cli_usage(m->args->command, "--output must be DIR or DIR:FOLD, not %s",
                         target);
    int status = open_all(m, &shards);
    if (status == CLI_OK) status = cli_out_init(&m->out, m->args, target);
    if (status != CLI_OK) return status;
    m->out.writer.digits = digits_for(shards);
    m->out.options.feed = adopt_all;
    m->out.options.feed_context = m;
    m->out.options.keep_finished = false; /* repeating the work is cheap */
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
    {"threads", 'j', "N", "number of threads that scan shards (default: all cores)"},
    {"json", 0, NULL, "print the summary as JSON"},
    {"quiet", 'q', NULL, "no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn merge monday:train tuesday:train -o week:train", "two folds into a third"},
    {"tarn merge wednesday:train -o week:train --append", "add another fold"},
    {"tarn merge --resume -o week:train", "publish what an interrupted run finished"},
    {NULL, NULL}};

const cli_command cli_merge = {
    .name = "merge",
    .words = "PATH...",
    .min_words = 0,
    .max_words = 1 << 20,
    .summary = "combine several folds into one",
    .text = "No payload is rewritten. Each shard gets a second name in the new fold (a "
            "hard link, or a copy with --copy or where links are not possible), in the "
            "given order, and one index of all shards is written. Checksums of the "
            "sources are kept; payloads are read only for a fold that has no "
            "checksums.\n\nTwo samples with the same key are an error that names both "
            "shards. The new fold appears when everything is complete. The sources are "
            "not changed; removing them afterwards turns the merge into a move. Linked "
            "shards share their content with the sources, so do not modify a shard in "
            "place; tarn never does.\n\nAfter an interruption, --resume continues and "
            "skips existing shards. Without a PATH, --resume publishes what an "
            "interrupted writer of any kind finished, and adds nothing.",
    .options = options,
    .examples = examples,
    .run = run,
};
