/* tarn split: divides a fold into several, by samples or by whole shards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "feed.h"

typedef struct splitting {
    const cli_args *args;
    cli_list list; /* holds the names */
    const char *names[CLI_MAX_PARTS];
    double fractions[CLI_MAX_PARTS]; /* of all parts except the first */
    tarn_pack_split splits[CLI_MAX_PARTS];
    size_t n_parts;
    uint64_t seed;
    cli_fold fold;
    uint64_t samples;
    cli_out out;
} splitting;

/* --- Options ----------------------------------------------------------------------- */

/* "NAME=FRACTION", or only a name, which gets the rest. */
static int take_part(const splitting *s, char *item, double *out_fraction, bool *out_rest)
{
    char *equals = strchr(item, '='), *end;
    *out_rest = !equals;
    *out_fraction = 0;
    if (!equals) return CLI_OK;
    *equals = '\0';
    *out_fraction = strtod(equals + 1, &end);
    if (end != equals + 1 && !*end && *out_fraction > 0 && *out_fraction <= 1)
        return CLI_OK;
    return cli_usage(s->args->command,
                     "--into takes NAME=FRACTION, as in val=0.1, not %s=%s", item,
                     equals + 1);
}

static int check_sum(const splitting *s, double sum, bool has_rest)
{
    if (has_rest ? sum < 1 + 1e-9 : fabs(sum - 1) < 1e-9) return CLI_OK;
    return cli_usage(
        s->args->command,
        "the fractions add up to %g, not 1; a name without a fraction gets the rest",
        sum);
}

/* The library expects the part that gets the rest to be the first. */
static int take_parts(splitting *s)
{
    const char *into = cli_value(s->args, "into");
    double fractions[CLI_MAX_PARTS], sum = 0;
    size_t rest = SIZE_MAX;
    if (!into) return cli_usage(s->args->command, "--into is missing");
    if (!cli_list_get(into, &s->list)) return CLI_DATA;
    if (s->list.count < 2 || s->list.count > CLI_MAX_PARTS)
        return cli_usage(s->args->command, "--into takes 2 to %d folds", CLI_MAX_PARTS);
    for (size_t i = 0; i < s->list.count; i++) {
        bool is_rest;
        int status =
            take_part(s, (char *)(uintptr_t)s->list.items[i], &fractions[i], &is_rest);
        if (status != CLI_OK) return status;
        if (is_rest && rest != SIZE_MAX)
            return cli_usage(s->args->command, "%s and %s cannot both get the rest",
                             s->list.items[rest], s->list.items[i]);
        if (is_rest) rest = i;
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->list.items[k], s->list.items[i]) == 0)
                return cli_usage(s->args->command, "--into has fold %s twice",
                                 s->list.items[i]);
        sum += fractions[i];
    }
    int status = check_sum(s, sum, rest != SIZE_MAX);
    if (status != CLI_OK) return status;
    if (rest == SIZE_MAX) rest = 0;
    s->names[s->n_parts++] = s->list.items[rest];
    for (size_t i = 0; i < s->list.count; i++) {
        if (i == rest) continue;
        s->fractions[s->n_parts - 1] = fractions[i];
        s->names[s->n_parts++] = s->list.items[i];
    }
    return cli_number64(s->args, "seed", &s->seed) ? CLI_OK : CLI_USAGE;
}

static int init_out(splitting *s)
{
    const char *target = cli_value(s->args, "output");
    if (target && !cli_out_is_folder(target))
        return cli_usage(s->args->command, "--output must be a folder, not %s", target);
    int status = cli_out_init(&s->out, s->args, target);
    for (size_t i = 1; i < s->n_parts; i++)
        s->splits[i - 1] = (tarn_pack_split){s->names[i], s->fractions[i - 1]};
    s->out.options.fold = s->names[0];
    s->out.options.splits = s->splits;
    s->out.options.n_splits = s->n_parts - 1;
    return status;
}

/* --- By samples -------------------------------------------------------------------- */

static int split_samples(splitting *s)
{
    tarn_error err;
    uint8_t *parts = malloc(s->samples + 1);
    if (!parts) cli_no_memory();
    int status = CLI_OK;
    if (tarn_dataset_parts(s->fold.set, s->fractions, s->n_parts - 1, s->seed, parts,
                           &err) != TARN_OK)
        status = cli_fail(&err);
    if (status == CLI_OK) status = init_out(s);
    if (status == CLI_OK) status = cli_feed(&s->out, s->fold.set, parts);
    free(parts);
    return status;
}

/* --- By shards --------------------------------------------------------------------- */

typedef struct shard {
    uint64_t chance, samples;
    uint32_t number;
    uint8_t part;
} shard;

/* A finalizer that mixes all bits (splitmix64). */
static uint64_t scatter(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int compare_chances(const void *left, const void *right)
{
    const shard *a = left, *b = right;
    if (a->chance != b->chance) return a->chance < b->chance ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_numbers(const void *left, const void *right)
{
    const shard *a = left, *b = right;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* A sample that is stored in two shards cannot be split by shards. */
static int fail_torn(const splitting *s, uint64_t sample, const tarn_stored *a,
                     const tarn_stored *b)
{
    tarn_text key = {0};
    tarn_error err;
    char shown[200] = "?";
    if (tarn_dataset_key(s->fold.set, sample, &key, &err) == TARN_OK)
        tarn_printable(shown, sizeof shown, key.data, key.size);
    cli_note("tarn: sample %s is stored in both %s and %s; split with --by samples\n",
             shown, a->path, b->path);
    tarn_text_reset(&key);
    return CLI_DATA;
}

static int count_samples(splitting *s, shard *shards)
{
    tarn_error err;
    cli_fold *f = &s->fold;
    for (uint64_t i = 0; i < s->samples; i++) {
        if (cli_members_of(f, f->set, i, &err) != TARN_OK) return cli_fail(&err);
        for (size_t k = 1; k < f->count; k++)
            if (f->members[k].shard != f->members[0].shard)
                return fail_torn(s, i, &f->members[0], &f->members[k]);
        shards[f->members[0].shard].samples++;
    }
    return CLI_OK;
}

/* Goes through the shards in random order. Each part takes shards as long as that brings
 * it closer to its fraction. */
static int deal_shards(const splitting *s, shard *shards, size_t count)
{
    size_t at = 0;
    qsort(shards, count, sizeof *shards, compare_chances);
    for (size_t k = 1; k <= s->n_parts; k++) {
        bool rest = k == s->n_parts;
        size_t part = rest ? 0 : k, first = at;
        double want = rest ? 0 : s->fractions[k - 1] * (double)s->samples;
        for (double have = 0; at < count; at++) {
            double more = (double)shards[at].samples;
            if (!rest && have + more - want > want - have) break;
            have += more;
            shards[at].part = (uint8_t)part;
        }
        if (at > first) continue;
        cli_note("tarn: fold %s would get no shard (the source has %s); split with --by "
                 "samples\n",
                 s->names[part], cli_count(count, "shard"));
        return CLI_DATA;
    }
    qsort(shards, count, sizeof *shards, compare_numbers);
    return CLI_OK;
}

typedef struct adoption {
    const splitting *s;
    const shard *shards;
    size_t count;
} adoption;

static tarn_status adopt(void *context, void *output, tarn_error *err)
{
    const adoption *a = context;
    tarn_adopt how = cli_has(a->s->args, "copy") ? TARN_ADOPT_COPY : TARN_ADOPT_LINK;
    uint32_t *numbers = malloc((a->count + 1) * sizeof *numbers);
    if (!numbers) cli_no_memory();
    tarn_status status = TARN_OK;
    for (unsigned part = 0; status == TARN_OK && part < a->s->n_parts; part++) {
        size_t n = 0;
        for (size_t i = 0; i < a->count; i++)
            if (a->shards[i].part == part) numbers[n++] = a->shards[i].number;
        status = tarn_pack_adopt(output, part, a->s->fold.set, numbers, n, how, err);
    }
    free(numbers);
    return status;
}

static int split_shards(splitting *s)
{
    size_t count = s->fold.fold.n_shards;
    shard *shards = calloc(count + 1, sizeof *shards);
    if (!shards) cli_no_memory();
    for (size_t i = 0; i < count; i++) {
        shards[i].number = (uint32_t)i;
        shards[i].chance = scatter(scatter(s->seed) ^ i);
    }
    int status = count_samples(s, shards);
    if (status == CLI_OK) status = deal_shards(s, shards, count);
    if (status == CLI_OK) status = init_out(s);
    if (status == CLI_OK) {
        adoption a = {s, shards, count};
        s->out.options.feed = adopt;
        s->out.options.feed_context = &a;
        s->out.options.keep_finished = false; /* repeating the work is cheap */
        status = cli_out_run(&s->out, NULL, 0);
    }
    free(shards);
    return status;
}

static int run_split(splitting *s)
{
    static const char *const words[] = {"samples", "shards"};
    int by = 0;
    if (!cli_choice(s->args, "by", words, 2, &by)) return CLI_USAGE;
    bool shards = by == 1;
    if (!shards && cli_has(s->args, "copy"))
        return cli_usage(s->args->command, "--copy needs --by shards");
    if (shards && (cli_has(s->args, "max-count") || cli_has(s->args, "max-size")))
        return cli_usage(s->args->command, "--max-count and --max-size do not apply to "
                                           "--by shards, which keeps shards unchanged");
    int status = take_parts(s);
    if (status == CLI_OK) status = cli_open(s->args, s->args->words[0], &s->fold);
    if (status != CLI_OK) return status;
    s->samples = tarn_dataset_count(s->fold.set);
    return shards ? split_shards(s) : split_samples(s);
}

static int run(const cli_args *args)
{
    splitting s = {.args = args};
    int status = run_split(&s);
    cli_fold_close(&s.fold);
    cli_list_free(&s.list);
    return status;
}

static const cli_option options[] = {
    {"into", 0, "LIST", "names and fractions: train=0.9,val=0.1, or train,val=0.1"},
    {"output", 'o', "DIR", "folder for the new folds"},
    {"seed", 0, "N", "seed for assigning samples or shards to folds (default 0)"},
    {"by", 0, "WHAT",
     "samples (default): exact, rewrites them; shards: links whole shards"},
    {"copy", 0, NULL, "by shards: copy them instead of linking"},
    CLI_ROLL_OPTIONS,
    CLI_FOLD_OPTIONS,
    {"check", 0, NULL, "by samples: compare the bytes with their checksums"},
    CLI_KEYS,
    {"threads", 'j', "N", "number of reader threads (default: all cores)"},
    CLI_REMOTE,
    {"json", 0, NULL, "print the summary as JSON"},
    {"quiet", 'q', NULL, "no progress bar and no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn split data/birds:all --into train,val=0.1,test=0.1 --seed 7 -o data/birds",
     "three folds next to the old one, with the samples that tarn pack would select"},
    {"tarn split data/birds:all --into train=0.9,val=0.1 --by shards -o parts",
     "whole shards, without copying them"},
    {NULL, NULL}};

const cli_command cli_split = {
    .name = "split",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "divide a fold into several",
    .text = "By samples, each fold gets its fraction to the nearest sample, selected by "
            "seed and key only: samples that are added later do not change the "
            "probabilities of the others. The samples are rewritten in their old "
            "order.\n\nBy shards, only indexes are written. Whole shards, selected by "
            "the seed, get a second name in the new folder (a hard link, or a copy with "
            "--copy or where links are not possible), and their checksums are kept. The "
            "fractions are met as closely as the shards allow. Most writers store "
            "samples in the order they arrive. If the samples were not shuffled before, "
            "a fold of whole shards is not a random selection of them.\n\nA name without "
            "a fraction gets the rest. The source is not changed.",
    .options = options,
    .examples = examples,
    .run = run,
};
