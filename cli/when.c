/* tarn when and tarn at: which batch has a sample, and which samples a batch has. */
#include <stdlib.h>

#include "sources.h"

/* --- The dataset ---------------------------------------------------------------------
 */

/* How samples that do not fill a batch of every rank are used. */
enum { EQUAL, FULL, SHORT };
static const char *const batch_kinds[] = {"equal", "full", "short"};

static bool take_batches(const cli_args *args, tarn_schedule_options *o)
{
    int how = cli_has(args, "rank") ? EQUAL : SHORT;
    if (!cli_has(args, "batch")) {
        cli_usage(args->command, "--batch is missing: the number of samples in a batch");
        return false;
    }
    if (!cli_number64(args, "batch", &o->batch) ||
        !cli_choice(args, "batches", batch_kinds, 3, &how))
        return false;
    o->equal_batches = how == EQUAL;
    o->drop_last = how == FULL;
    return true;
}

/* Opens the first words of args as one dataset. */
static int open_words(const cli_args *args, int words, cli_sources *out)
{
    cli_args paths = *args;
    paths.n_words = words;
    for (int i = 0; i < words; i++)
        if (cli_is_stream(args->words[i]))
            return cli_usage(args->command,
                             "%s is a stream, which has no orders; name a fold, an .iac "
                             "or a .gnz",
                             cli_shown(args->words[i]));
    if (words > 1 && !cli_has(args, "weights"))
        return cli_usage(args->command,
                         "%d datasets need --weights, with one number for each, as in "
                         "3,1",
                         words);
    return cli_sources_open(&paths, TARN_KEYS_BASE, out);
}

static int open_ordered(const cli_args *args, int words, cli_sources *sources,
                        tarn_dataset **out)
{
    int status = open_words(args, words, sources);
    *out = NULL;
    if (status == CLI_OK) status = cli_ordered(args, sources, out);
    return status;
}

/* --- tarn when -----------------------------------------------------------------------
 */

static void print_turn(const tarn_turn *t)
{
    printf("epoch %llu, step %llu, rank %llu, place %llu\n", (unsigned long long)t->epoch,
           (unsigned long long)t->step, (unsigned long long)t->rank,
           (unsigned long long)t->place);
}

static void json_turn(cli_json *j, const tarn_turn *t)
{
    cli_json_open(j, NULL, '{');
    cli_json_number(j, "epoch", t->epoch);
    cli_json_number(j, "step", t->step);
    cli_json_number(j, "rank", t->rank);
    cli_json_number(j, "place", t->place);
    cli_json_number(j, "position", t->position);
    cli_json_number(j, "sample", t->sample);
    cli_json_close(j, '}');
}

static int print_turns(const cli_args *args, const char *key, const tarn_turn *turns,
                       size_t count)
{
    if (cli_has(args, "json")) {
        cli_json j = {stdout, false};
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "key", key);
        cli_json_open(&j, "turns", '[');
        for (size_t i = 0; i < count; i++)
            json_turn(&j, &turns[i]);
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
        cli_json_line(&j);
        return CLI_OK;
    }
    for (size_t i = 0; i < count; i++)
        print_turn(&turns[i]);
    if (count == 0) cli_note("tarn: no batch of these epochs has sample %s\n", key);
    return CLI_OK;
}

static tarn_status find_turns(tarn_dataset *set, const char *key,
                              const tarn_schedule_options *o, tarn_turn **out,
                              size_t *out_count, tarn_error *err)
{
    enum { FEW = 64 };
    *out = malloc(FEW * sizeof **out);
    if (!*out) cli_no_memory();
    TARN_TRY(tarn_dataset_when(set, key, o, *out, FEW, out_count, err));
    if (*out_count <= FEW) return TARN_OK;
    free(*out);
    *out = malloc(*out_count * sizeof **out);
    if (!*out) cli_no_memory();
    return tarn_dataset_when(set, key, o, *out, *out_count, out_count, err);
}

static int run_when(const cli_args *args)
{
    tarn_error err;
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    cli_sources sources = {0};
    tarn_dataset *set = NULL;
    tarn_turn *turns = NULL;
    size_t count = 0;
    const char *key = args->words[args->n_words - 1];
    if (!take_batches(args, &o) || !cli_number64(args, "epochs", &o.epochs))
        return CLI_USAGE;
    int status = open_ordered(args, args->n_words - 1, &sources, &set);
    if (status == CLI_OK && find_turns(set, key, &o, &turns, &count, &err) != TARN_OK)
        status = cli_fail(&err);
    if (status == CLI_OK) status = print_turns(args, key, turns, count);
    free(turns);
    tarn_dataset_close(set);
    cli_sources_close(&sources);
    return status;
}

/* --- tarn at -------------------------------------------------------------------------
 */

static void json_batch(cli_json *j, const tarn_turn *t)
{
    cli_json_open(j, NULL, '{');
    cli_json_number(j, "epoch", t->epoch);
    cli_json_number(j, "step", t->step);
    cli_json_number(j, "rank", t->rank);
    cli_json_open(j, "keys", '[');
}

static int print_keys(const cli_args *args, tarn_dataset *batch, const tarn_turn *turn)
{
    tarn_error err;
    tarn_text key = {0};
    cli_json j = {stdout, false};
    bool json = cli_has(args, "json");
    tarn_status status = TARN_OK;
    if (json) json_batch(&j, turn);
    for (uint64_t i = 0; i < tarn_dataset_count(batch) && status == TARN_OK; i++) {
        status = tarn_dataset_key(batch, i, &key, &err);
        if (status != TARN_OK) break;
        if (json)
            cli_json_text(&j, NULL, key.data);
        else
            cli_print("%s\n", key.data);
    }
    tarn_text_reset(&key);
    if (status != TARN_OK) return cli_fail(&err);
    if (!json) return CLI_OK;
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
    cli_json_line(&j);
    return CLI_OK;
}

static int run_at(const cli_args *args)
{
    tarn_error err;
    tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
    cli_sources sources = {0};
    tarn_dataset *set = NULL, *batch = NULL;
    tarn_turn turn;
    uint64_t step, first = 0;
    if (!cli_has(args, "step"))
        return cli_usage(args->command, "--step is missing: the number of a batch");
    if (!take_batches(args, &o) || !cli_number64(args, "step", &step) ||
        !cli_number64(args, "epoch", &first))
        return CLI_USAGE;
    int status = open_ordered(args, args->n_words, &sources, &set);
    if (status == CLI_OK &&
        tarn_dataset_step(set, step, &o, &batch, &turn, sizeof turn, &err) != TARN_OK)
        status = cli_fail(&err);
    if (status == CLI_OK && turn.epoch != first && !cli_has(args, "json"))
        cli_note("tarn: this is step %llu of epoch %llu\n", (unsigned long long)turn.step,
                 (unsigned long long)turn.epoch);
    if (status == CLI_OK) status = print_keys(args, batch, &turn);
    tarn_dataset_close(batch);
    tarn_dataset_close(set);
    cli_sources_close(&sources);
    return status;
}

/* --- Descriptions --------------------------------------------------------------------
 */

#define SCHEDULE_OPTIONS                                                                 \
    {"batch", 0, "N", "samples in a batch of a rank"},                                   \
        {"batches", 0, "HOW",                                                            \
         "equal: the same number on each rank (default with --rank); full: only full "   \
         "ones; short: the last may be smaller (default without --rank)"},               \
        CLI_ORDER,                                                                       \
        {"weights", 0, "LIST", "one number for each of several PATHs, which are mixed"}, \
        CLI_FIELDS('f'), {"samples", 0, "LIST", "only these keys: a,b or @FILE"},        \
        CLI_WITHOUT, {"key", 0, "NAME", ".iac, .gnz: column or array with the keys"},    \
        CLI_KEYS, {"lenient", 0, NULL, "without an index: skip damaged parts"},          \
        CLI_REMOTE, {"json", 0, NULL, "print JSON"},                                     \
    {                                                                                    \
        NULL, 0, NULL, NULL                                                              \
    }

static const cli_option when_options[] = {
    {"epochs", 0, "N", "search N epochs, starting with --epoch (default 1)"},
    SCHEDULE_OPTIONS};

static const cli_option at_options[] = {
    {"step", 0, "N", "number of the batch, counted from the beginning of --epoch"},
    SCHEDULE_OPTIONS};

#define SCHEDULE_TEXT                                                                    \
    "Epochs, steps, ranks and places are counted from 0. The order is shuffle unless "   \
    "--order is given. The options have the same meaning as in a loader: --rank R/W "    \
    "is loader(rank=R, world_size=W) in Python, and the answer is the one that this "    \
    "loader gives.\n\n"

static const cli_example when_examples[] = {
    {"tarn when data/birds:train kiwi_07 --seed 7 --rank 0/8 --batch 64",
     "the step and the rank that had a sample"},
    {"tarn when data/birds:train kiwi_07 --seed 7 --batch 64 --epochs 3 --json",
     "in three epochs, for programs"},
    {"tarn when a:train b:train kiwi_07 --weights 3,1 --batch 64", "in a mix"},
    {NULL, NULL}};

static const cli_example at_examples[] = {
    {"tarn at data/birds:train --step 12400 --seed 7 --rank 3/8 --batch 64",
     "the keys of a batch"},
    {NULL, NULL}};

const cli_command cli_when = {
    .name = "when",
    .words = "PATH... KEY",
    .min_words = 2,
    .max_words = 1024,
    .summary = "find the epoch, step and rank at which a run sees a sample",
    .text = SCHEDULE_TEXT
    "All ranks of --rank R/W are searched, and the answer says which one gets the "
    "sample; R does not matter. Orders that repeat samples have several answers.\n\n"
    "The position of a sample is computed, so the time does not depend on the number of "
    "samples. The orders weighted, weighted-once and lengths search their tables.",
    .options = when_options,
    .examples = when_examples,
    .run = run_when,
};

const cli_command cli_at = {
    .name = "at",
    .words = "PATH...",
    .min_words = 1,
    .max_words = 1024,
    .summary = "list the keys of a batch of a run, by its step",
    .text = SCHEDULE_TEXT
    "Steps continue from epoch to epoch: after the last step of --epoch comes the first "
    "one of the next epoch.",
    .options = at_options,
    .examples = at_examples,
    .run = run_at,
};
