/* The options that say in which order samples come, and to which rank. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* What the kinds of order that go by samples need of a fold. */
typedef struct arrays {
    uint64_t *shards; /* samples in each */
    double *weights;
    int64_t *classes;
    uint64_t *lengths;
} arrays;

static void arrays_free(arrays *a)
{
    free(a->shards);
    free(a->weights);
    free(a->classes);
    free(a->lengths);
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return !errno && end != text && !*end && text[0] >= '0' && text[0] <= '9';
}

static bool take_number(const cli_args *args, const char *name, uint64_t *out)
{
    const char *value = cli_value(args, name);
    if (!value || parse_number(value, out)) return true;
    cli_usage(args->command, "--%s needs a number, not %s", name, value);
    return false;
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
    const char *value = cli_value(args, "rank"),
               *slash = value ? strchr(value, '/') : NULL;
    char rank[32];
    if (!value) return true;
    if (slash && (size_t)(slash - value) < sizeof rank) {
        memcpy(rank, value, (size_t)(slash - value));
        rank[slash - value] = '\0';
        if (parse_number(rank, &o->rank) && parse_number(slash + 1, &o->world) &&
            o->rank < o->world)
            return true;
    }
    cli_usage(args->command, "--rank needs RANK/WORLD, such as 0/4, not %s", value);
    return false;
}

static bool take_share(const cli_args *args, tarn_order_options *o)
{
    static const char *const names[] = {"uneven", "drop", "pad"};
    const char *value = cli_value(args, "share");
    if (!value) return true;
    for (int k = TARN_RANKS_UNEVEN; k <= TARN_RANKS_PAD; k++)
        if (strcmp(value, names[k]) == 0) {
            o->ranks = (tarn_ranks)k;
            return true;
        }
    cli_usage(args->command, "--share is uneven, drop or pad, not %s", value);
    return false;
}

static bool take_options(const cli_args *args, tarn_order_options *o)
{
    tarn_error err;
    const char *kind = cli_value(args, "order");
    if (kind && tarn_order_kind_find(kind, &o->kind, &err) != TARN_OK) {
        cli_usage(args->command, "%s", err.message);
        return false;
    }
    if (!kind && (cli_has(args, "seed") || cli_has(args, "epoch"))) {
        cli_usage(args->command, "--seed and --epoch need --order, such as shuffle");
        return false;
    }
    return take_seed(args, o) && take_number(args, "epoch", &o->epoch) &&
           take_rank(args, o) && take_share(args, o) &&
           take_number(args, "block", &o->block) &&
           take_number(args, "window", &o->window) &&
           take_number(args, "chunk", &o->chunk) && take_number(args, "mix", &o->mix) &&
           take_number(args, "rounds", &o->rounds);
}

/* --- What is known of the samples -------------------------------------------------- */

static tarn_status count_shards(tarn_fold *fold, const tarn_fold_info *info,
                                uint64_t *shards, uint64_t *out_used, tarn_error *err)
{
    tarn_sample sample;
    tarn_row row;
    *out_used = 0;
    for (uint64_t i = 0; i < info->samples; i++) {
        TARN_TRY(tarn_fold_sample(fold, i, &sample, err));
        TARN_TRY(tarn_index_row(tarn_fold_index(fold), tarn_sample_row(&sample, 0), &row,
                                err));
        shards[row.shard]++;
        if (row.shard >= *out_used) *out_used = row.shard + UINT64_C(1);
    }
    return TARN_OK;
}

/* The number that a field holds as text: an integer for a class. */
static tarn_status field_number(tarn_fold *fold, uint64_t row, int64_t *out_class,
                                double *out_weight, tarn_error *err)
{
    tarn_view view;
    char text[64], shown[128], *end;
    TARN_TRY(tarn_fold_view(fold, row, &view, err));
    size_t n = view.size < sizeof text - 1 ? view.size : sizeof text - 1;
    memcpy(text, view.data, n);
    text[n] = '\0';
    errno = 0;
    if (out_class)
        *out_class = strtoll(text, &end, 10);
    else
        *out_weight = strtod(text, &end);
    bool good = !errno && n == view.size && end > text;
    good = good && end + strspn(end, " \t\r\n") == text + n;
    tarn_view_release(&view);
    if (good) return TARN_OK;
    *err = (tarn_error){.code = TARN_ERR_FORMAT, .offset = TARN_NO_OFFSET};
    snprintf(err->message, sizeof err->message, "--by: not %s: %s",
             out_class ? "an integer" : "a number",
             tarn_printable(shown, sizeof shown, text, n));
    return TARN_ERR_FORMAT;
}

static tarn_status read_field(tarn_fold *fold, const char *field, uint64_t count,
                              tarn_order_kind kind, arrays *a, tarn_error *err)
{
    tarn_sample sample;
    tarn_row row;
    uint64_t at;
    for (uint64_t i = 0; i < count; i++) {
        TARN_TRY(tarn_fold_sample(fold, i, &sample, err));
        TARN_TRY(tarn_fold_pick(fold, &sample, field, &at, err));
        if (kind == TARN_ORDER_LENGTHS) {
            TARN_TRY(tarn_index_row(tarn_fold_index(fold), at, &row, err));
            a->lengths[i] = row.size;
            continue;
        }
        TARN_TRY(field_number(fold, at,
                              kind == TARN_ORDER_BALANCED ? &a->classes[i] : NULL,
                              &a->weights[i], err));
    }
    return TARN_OK;
}

static tarn_status learn(tarn_fold *fold, const char *field, const tarn_fold_info *info,
                         tarn_order_options *o, arrays *a, tarn_error *err)
{
    if (o->kind == TARN_ORDER_BUCKETS) {
        uint64_t used;
        TARN_TRY(count_shards(fold, info, a->shards, &used, err));
        o->n_buckets = (size_t)used;
        o->buckets = a->shards;
    }
    if (o->kind >= TARN_ORDER_WEIGHTED) {
        TARN_TRY(read_field(fold, field, info->samples, o->kind, a, err));
        o->weights = a->weights;
        o->classes = a->classes;
        o->lengths = a->lengths;
    }
    return TARN_OK;
}

static bool arrays_alloc(arrays *a, const tarn_fold_info *info)
{
    a->shards = calloc(info->shards + 1, sizeof *a->shards);
    a->weights = calloc(info->samples + 1, sizeof *a->weights);
    a->classes = calloc(info->samples + 1, sizeof *a->classes);
    a->lengths = calloc(info->samples + 1, sizeof *a->lengths);
    return a->shards && a->weights && a->classes && a->lengths;
}

/* --- The order --------------------------------------------------------------------- */

static tarn_status list_order(tarn_fold *fold, const char *field, tarn_order_options *o,
                              uint64_t **out, uint64_t *out_count, tarn_error *err)
{
    arrays a = {0};
    tarn_fold_info info;
    tarn_order *order = NULL;
    TARN_TRY(tarn_fold_info_get(fold, &info, err));
    tarn_status status = TARN_ERR_MEMORY;
    *err = (tarn_error){.code = status, .offset = TARN_NO_OFFSET};
    snprintf(err->message, sizeof err->message, "out of memory");
    if (arrays_alloc(&a, &info)) status = learn(fold, field, &info, o, &a, err);
    if (status == TARN_OK) status = tarn_order_open(info.samples, o, &order, err);
    if (status == TARN_OK) {
        *out_count = tarn_order_length(order);
        *out = malloc((*out_count + 1) * sizeof **out);
        status =
            *out ? tarn_order_fill(order, 0, *out_count, *out, err) : TARN_ERR_MEMORY;
    }
    tarn_order_close(order);
    arrays_free(&a);
    return status;
}

bool cli_has_order(const cli_args *args)
{
    return cli_has(args, "order") || cli_has(args, "rank") || cli_has(args, "share") ||
           cli_has(args, "seed") || cli_has(args, "epoch");
}

int cli_order(const cli_args *args, tarn_fold *fold, uint64_t **out, uint64_t *out_count)
{
    tarn_error err;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    const char *field = cli_value(args, "by");
    if (!take_options(args, &o)) return CLI_USAGE;
    if (o.kind >= TARN_ORDER_WEIGHTED && !field)
        return cli_usage(args->command, "--order %s needs --by FIELD",
                         tarn_order_kind_name(o.kind));
    *out = NULL;
    if (list_order(fold, field, &o, out, out_count, &err) == TARN_OK) return CLI_OK;
    free(*out);
    *out = NULL;
    return cli_fail(&err);
}
