/* The options that choose the order of samples and the samples of a rank. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sources.h"

typedef cli_order_arrays arrays;

void cli_order_arrays_free(cli_order_arrays *a)
{
    free(a->shards);
    free(a->weights);
    free(a->classes);
    free(a->lengths);
    *a = (arrays){0};
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return !errno && end != text && !*end && text[0] >= '0' && text[0] <= '9';
}

bool cli_share(const cli_args *args, const char *name, const char *form,
               uint64_t *out_number, uint64_t *out_count)
{
    const char *value = cli_value(args, name), *slash = strchr(value, '/');
    char number[32];
    if (slash && (size_t)(slash - value) < sizeof number) {
        memcpy(number, value, (size_t)(slash - value));
        number[slash - value] = '\0';
        if (parse_number(number, out_number) && parse_number(slash + 1, out_count) &&
            *out_number < *out_count)
            return true;
    }
    cli_usage(args->command, "--%s needs %s, not %s", name, form, value);
    return false;
}

bool cli_task(const cli_args *args, cli_part *out)
{
    *out = (cli_part){0, 1};
    if (!cli_has(args, "task")) return true;
    if (!cli_share(args, "task", "I/N, such as 0/8 for the first of 8 tasks",
                   &out->number, &out->count))
        return false;
    if (out->count <= TARN_MAX_TASKS) return true;
    cli_usage(args->command, "--task: at most %u tasks", TARN_MAX_TASKS);
    return false;
}

void cli_part_range(const cli_part *part, uint64_t n, uint64_t *out_first,
                    uint64_t *out_end)
{
    uint64_t i = part->number, count = part->count;
    *out_first = n / count * i + n % count * i / count;
    *out_end = n / count * (i + 1) + n % count * (i + 1) / count;
}

static bool take_seed(const cli_args *args, tarn_order_options *o)
{
    const char *value = cli_value(args, "seed");
    o->negative = value && value[0] == '-';
    if (!value || parse_number(value + o->negative, &o->seed)) return true;
    cli_usage(args->command, "--seed needs a number, not %s", value);
    return false;
}

static bool take_rank(const cli_args *args, tarn_order_options *o)
{
    return !cli_has(args, "rank") ||
           cli_share(args, "rank", "RANK/WORLD, such as 0/4", &o->rank, &o->world_size);
}

static bool take_uneven(const cli_args *args, tarn_order_options *o)
{
    static const char *const names[] = {"keep", "drop", "pad"}; /* as in tarn_uneven */
    int uneven = (int)o->uneven;
    if (!cli_choice(args, "uneven", names, 3, &uneven)) return false;
    o->uneven = (tarn_uneven)uneven;
    return true;
}

static bool take_kind(const cli_args *args, tarn_order_options *o)
{
    const char *names[16];
    size_t n = 0;
    int kind = (int)o->kind;
    for (const char *name; n < 16 && (name = tarn_order_kind_name((tarn_order_kind)n));)
        names[n++] = name;
    if (!cli_choice(args, "order", names, n, &kind)) return false;
    o->kind = (tarn_order_kind)kind;
    return true;
}

/* Options that refine a kind of order. */
static const char *const of_kinds[] = {"seed",   "epoch",  "by",  "block", "chunk",
                                       "window", "rounds", "mix", NULL};

static bool take_options(const cli_args *args, tarn_order_options *o)
{
    bool kind = cli_has(args, "order") || o->kind != TARN_ORDER_IDENTITY;
    if (!take_kind(args, o)) return false;
    for (size_t i = 0; !kind && of_kinds[i]; i++)
        if (cli_has(args, of_kinds[i])) {
            cli_usage(args->command, "--%s needs --order, such as shuffle", of_kinds[i]);
            return false;
        }
    return take_seed(args, o) && cli_number64(args, "epoch", &o->epoch) &&
           take_rank(args, o) && take_uneven(args, o) &&
           cli_number64(args, "block", &o->block) &&
           cli_number64(args, "window", &o->window) &&
           cli_number64(args, "chunk", &o->chunk) && cli_number64(args, "mix", &o->mix) &&
           cli_number64(args, "rounds", &o->rounds);
}

/* --- Data about the samples -------------------------------------------------------- */

/* One count per shard, with the shards of all sources in order, up to the last shard that
 * has samples. */
static tarn_status count_shards(const cli_source *parts, size_t n, tarn_order_options *o,
                                arrays *a, tarn_error *err)
{
    size_t shards = 0;
    for (size_t k = 0; k < n; k++)
        shards += parts[k].info.shards;
    a->shards = calloc(shards + 1, sizeof *a->shards);
    if (!a->shards) cli_no_memory();
    shards = 0;
    for (size_t k = 0; k < n; k++) {
        TARN_TRY(tarn_dataset_shard_counts(parts[k].dataset, a->shards + shards, err));
        shards += parts[k].info.shards;
    }
    while (shards && a->shards[shards - 1] == 0)
        shards--;
    o->buckets = a->shards;
    o->n_buckets = shards;
    return TARN_OK;
}

static tarn_status measure(const cli_source *part, const char *by, tarn_order_kind kind,
                           arrays *a, tarn_error *err)
{
    uint32_t field;
    TARN_TRY(tarn_dataset_field_find(part->dataset, by, &field, err));
    if (kind == TARN_ORDER_LENGTHS)
        return tarn_dataset_numbers(part->dataset, field, TARN_NUMBERS_SIZE,
                                    a->lengths + part->first, err);
    if (kind == TARN_ORDER_BALANCED)
        return tarn_dataset_numbers(part->dataset, field, TARN_NUMBERS_INTEGER,
                                    a->classes + part->first, err);
    return tarn_dataset_numbers(part->dataset, field, TARN_NUMBERS_REAL,
                                a->weights + part->first, err);
}

static tarn_status learn(const cli_sources *s, const char *by, tarn_order_options *o,
                         arrays *a, tarn_error *err)
{
    const cli_source *parts = s->mix.dataset ? &s->mix : s->parts;
    size_t n = s->mix.dataset ? 1 : s->n;
    if (o->kind == TARN_ORDER_BUCKETS) return count_shards(parts, n, o, a, err);
    if (o->kind < TARN_ORDER_WEIGHTED) return TARN_OK;
    void *numbers = calloc(s->count + 1, sizeof(uint64_t));
    if (!numbers) cli_no_memory();
    if (o->kind == TARN_ORDER_LENGTHS)
        o->lengths = a->lengths = numbers;
    else if (o->kind == TARN_ORDER_BALANCED)
        o->classes = a->classes = numbers;
    else
        o->weights = a->weights = numbers;
    for (size_t k = 0; k < n; k++)
        TARN_TRY(measure(&parts[k], by, o->kind, a, err));
    return TARN_OK;
}

/* --- The order --------------------------------------------------------------------- */

/* Takes the samples of a part of a range. */
static void cut(cli_order_part *part, uint64_t length)
{
    uint64_t to = part->to < length ? part->to : length;
    uint64_t from = part->from < to ? part->from : to;
    cli_part_range(&part->part, to - from, &part->first, &part->end);
    part->from = from;
}

static tarn_status list_order(const cli_sources *s, const tarn_order_options *o,
                              cli_order_part *part, uint64_t **out, tarn_error *err)
{
    tarn_order *order = NULL;
    tarn_status status = tarn_order_open(s->count, o, &order, err);
    if (status == TARN_OK) {
        tarn_order_info info;
        tarn_order_info_get(order, &info, sizeof info);
        cut(part, info.length);
        uint64_t count = part->end - part->first;
        *out = malloc((count + 1) * sizeof **out);
        if (!*out) cli_no_memory();
        status = tarn_order_fill(order, part->from + part->first, count, *out, err);
    }
    tarn_order_close(order);
    return status;
}

static void list_all(const cli_sources *s, cli_order_part *part, uint64_t **out)
{
    cut(part, s->count);
    *out = malloc((part->end - part->first + 1) * sizeof **out);
    if (!*out) cli_no_memory();
    for (uint64_t i = part->first; i < part->end; i++)
        (*out)[i - part->first] = part->from + i;
}

bool cli_has_order(const cli_args *args)
{
    bool asked =
        cli_has(args, "order") || cli_has(args, "rank") || cli_has(args, "uneven");
    for (size_t i = 0; !asked && of_kinds[i]; i++)
        asked = cli_has(args, of_kinds[i]);
    return asked;
}

/* The sources of a mix continue from epoch to epoch. */
static tarn_status move_mix(cli_sources *s, uint64_t epoch, tarn_error *err)
{
    tarn_dataset *moved;
    if (!s->mix.dataset) return TARN_OK;
    TARN_TRY(tarn_dataset_at_epoch(s->mix.dataset, epoch, &moved, err));
    tarn_dataset_close(s->mix.dataset);
    s->mix.dataset = moved;
    return TARN_OK;
}

int cli_order_options(const cli_args *args, cli_sources *sources, cli_order_arrays *data,
                      tarn_order_options *out)
{
    tarn_error err;
    const char *by = cli_value(args, "by");
    if (!take_options(args, out)) return CLI_USAGE;
    if (out->kind >= TARN_ORDER_WEIGHTED && !by)
        return cli_usage(args->command, "--order %s needs --by FIELD",
                         cli_value(args, "order"));
    if (move_mix(sources, out->epoch, &err) == TARN_OK &&
        learn(sources, by, out, data, &err) == TARN_OK)
        return CLI_OK;
    return cli_fail(&err);
}

int cli_order(const cli_args *args, cli_sources *sources, cli_order_part *part,
              uint64_t **out)
{
    tarn_error err;
    arrays a = {0};
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    *out = NULL;
    if (!cli_has_order(args)) {
        list_all(sources, part, out);
        return CLI_OK;
    }
    int status = cli_order_options(args, sources, &a, &o);
    if (status == CLI_OK && list_order(sources, &o, part, out, &err) != TARN_OK)
        status = cli_fail(&err);
    cli_order_arrays_free(&a);
    if (status == CLI_OK) return CLI_OK;
    free(*out);
    *out = NULL;
    return status;
}

tarn_status cli_order_dataset(tarn_dataset *set, const char *by, tarn_order_options *o,
                              tarn_dataset **out, tarn_error *err)
{
    arrays a = {0};
    cli_sources s = {.mix = {.dataset = set}, .count = tarn_dataset_count(set)};
    tarn_dataset_info_get(set, &s.mix.info, sizeof s.mix.info);
    tarn_status status = learn(&s, by, o, &a, err);
    if (status == TARN_OK) status = tarn_dataset_order(set, o, out, err);
    cli_order_arrays_free(&a);
    return status;
}

int cli_ordered(const cli_args *args, cli_sources *s, tarn_dataset **out)
{
    tarn_error err;
    arrays a = {0};
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    o.kind = TARN_ORDER_SHUFFLE;
    int status = cli_order_options(args, s, &a, &o);
    if (status == CLI_OK &&
        tarn_dataset_order(s->mix.dataset ? s->mix.dataset : s->parts[0].dataset, &o, out,
                           &err) != TARN_OK)
        status = cli_fail(&err);
    cli_order_arrays_free(&a);
    return status;
}
