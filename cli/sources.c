/* Opens datasets for ls and convert. */
#include "sources.h"

#include <stdlib.h>
#include <string.h>

/* --- The fields -------------------------------------------------------------------- */

/* The requested fields, and the field that the order needs. */
typedef struct wanted {
    cli_list list;
    const char **names; /* ends with NULL; NULL: all fields */
    uint32_t visible;
    char *by;
} wanted;

static void wanted_free(wanted *w)
{
    cli_list_free(&w->list);
    free(w->names);
    free(w->by);
}

static int take_fields(const cli_args *args, bool lower, wanted *out)
{
    const char *fields = cli_value(args, "fields"), *by = cli_value(args, "by");
    bool listed = false;
    *out = (wanted){.by = by ? strdup(by) : NULL};
    if (!fields) return CLI_OK;
    if (!cli_list_get(fields, &out->list)) return CLI_DATA;
    out->names = calloc(out->list.count + 2, sizeof *out->names);
    if (!out->names || (by && !out->by)) cli_no_memory();
    if (lower && by) cli_lower(out->by);
    for (size_t i = 0; i < out->list.count; i++) {
        if (lower) cli_lower((char *)(uintptr_t)out->list.items[i]);
        out->names[i] = out->list.items[i];
        listed |= by && strcmp(out->names[i], out->by) == 0;
    }
    out->visible = (uint32_t)out->list.count;
    if (by && !listed) out->names[out->list.count] = out->by;
    return CLI_OK;
}

/* --- One source -------------------------------------------------------------------- */

static int open_one(const cli_args *args, const char *path, tarn_keys keys,
                    cli_source *out)
{
    wanted w;
    int status = take_fields(args, cli_is_fold_path(path), &w);
    out->path = path;
    if (status == CLI_OK)
        status = cli_dataset_open(args, path, keys, w.names, &out->dataset);
    if (status == CLI_OK) {
        tarn_dataset_info_get(out->dataset, &out->info, sizeof out->info);
        out->visible = w.names ? w.visible : out->info.fields;
    }
    wanted_free(&w);
    return status;
}

/* --- Requested keys ---------------------------------------------------------------- */

static tarn_status keep_found(cli_source *part, const cli_list *keys,
                              tarn_condition_kind kind, bool *anywhere, tarn_error *err)
{
    bool *found = calloc(keys->count + 1, sizeof *found);
    tarn_dataset *kept;
    tarn_condition c = TARN_CONDITION_INIT;
    if (!found) cli_no_memory();
    c.kind = kind;
    c.names = keys->items;
    c.n_names = keys->count;
    c.found = found;
    tarn_status status = tarn_dataset_filter(part->dataset, &c, &kept, err);
    for (size_t i = 0; i < keys->count; i++)
        anywhere[i] |= status == TARN_OK && found[i];
    free(found);
    if (status != TARN_OK) return status;
    tarn_dataset_close(part->dataset);
    part->dataset = kept;
    tarn_dataset_info_get(kept, &part->info, sizeof part->info);
    return TARN_OK;
}

static int tell_missing(const cli_list *keys, const bool *anywhere)
{
    enum { NAMED = 5 };
    char shown[200];
    size_t missing = 0;
    for (size_t i = 0; i < keys->count; i++)
        missing += !anywhere[i];
    if (!missing) return CLI_OK;
    cli_note("tarn: not found:");
    size_t printed = 0;
    for (size_t i = 0; i < keys->count && printed < NAMED; i++)
        if (!anywhere[i])
            cli_note("%s %s", printed++ ? "," : "",
                     tarn_printable(shown, sizeof shown, keys->items[i],
                                    strlen(keys->items[i])));
    cli_note("%s (%zu of %s)\n", missing > NAMED ? ", ..." : "", missing,
             cli_count(keys->count, "key"));
    return CLI_DATA;
}

static int keep_samples(cli_sources *s, const char *value, tarn_condition_kind kind)
{
    tarn_error err;
    cli_list keys;
    int status = CLI_DATA;
    if (cli_list_get(value, &keys)) {
        bool *anywhere = calloc(keys.count + 1, sizeof *anywhere);
        if (!anywhere) cli_no_memory();
        status = CLI_OK;
        for (size_t k = 0; k < s->n && status == CLI_OK; k++)
            if (keep_found(&s->parts[k], &keys, kind, anywhere, &err) != TARN_OK)
                status = cli_fail(&err);
        if (status == CLI_OK) status = tell_missing(&keys, anywhere);
        free(anywhere);
    }
    cli_list_free(&keys);
    return status;
}

/* --- All of them ------------------------------------------------------------------- */

static bool parse_weights(const cli_args *args, const cli_sources *s, double *out)
{
    cli_list list;
    char *end;
    const char *value = cli_value(args, "weights");
    bool good = cli_list_get(value, &list) && list.count == s->n;
    for (size_t i = 0; good && i < s->n; i++) {
        out[i] = strtod(list.items[i], &end);
        good = end > list.items[i] && !*end;
    }
    cli_list_free(&list);
    if (!good)
        cli_usage(args->command,
                  "--weights takes one number for each of %zu sources, as in 3,1, not %s",
                  s->n, value);
    return good;
}

/* Fields are the names of all sources. --fields was applied to each source. */
static int mix(const cli_args *args, cli_sources *s)
{
    tarn_error err;
    tarn_mix_options o = TARN_MIX_OPTIONS_INIT;
    double *weights = calloc(s->n + 1, sizeof *weights);
    tarn_dataset **all = calloc(s->n + 1, sizeof *all);
    if (!weights || !all) cli_no_memory();
    int status = parse_weights(args, s, weights) ? CLI_OK : CLI_USAGE;
    for (size_t k = 0; k < s->n; k++)
        all[k] = s->parts[k].dataset;
    o.weights = weights;
    if (status == CLI_OK &&
        tarn_dataset_mix(all, s->n, &o, &s->mix.dataset, &err) != TARN_OK)
        status = cli_fail(&err);
    if (status == CLI_OK) {
        s->mix.path = args->words[0];
        tarn_dataset_info_get(s->mix.dataset, &s->mix.info, sizeof s->mix.info);
        s->mix.visible =
            cli_has(args, "fields") ? s->parts[0].visible : s->mix.info.fields;
        s->count = s->mix.info.samples;
    }
    free(weights);
    free(all);
    return status;
}

static bool all_folds(const cli_sources *s)
{
    for (size_t k = 0; k < s->n; k++)
        if (s->parts[k].info.kind != TARN_DATASET_FOLD) return false;
    return true;
}

int cli_sources_open(const cli_args *args, tarn_keys keys, cli_sources *out)
{
    const char *samples = cli_value(args, "samples");
    const char *without = cli_value(args, "without");
    int status = CLI_OK;
    *out = (cli_sources){.parts = calloc((size_t)args->n_words + 1, sizeof *out->parts)};
    if (!out->parts) cli_no_memory();
    for (int i = 0; i < args->n_words && status == CLI_OK; i++) {
        status = open_one(args, args->words[i], keys, &out->parts[i]);
        if (status == CLI_OK) out->n++;
    }
    if (status == CLI_OK && cli_has(args, "key") && all_folds(out))
        status = cli_usage(args->command,
                           "--key applies only to .iac and .gnz; a fold has keys");
    if (status == CLI_OK && samples)
        status = keep_samples(out, samples, TARN_CONDITION_KEYS);
    if (status == CLI_OK && without)
        status = keep_samples(out, without, TARN_CONDITION_WITHOUT);
    for (size_t k = 0; k < out->n; k++) {
        out->parts[k].first = out->count;
        out->count += out->parts[k].info.samples;
    }
    if (status == CLI_OK && cli_has(args, "weights")) status = mix(args, out);
    if (status != CLI_OK) cli_sources_close(out);
    return status;
}

void cli_sources_close(cli_sources *s)
{
    tarn_dataset_close(s->mix.dataset);
    for (size_t k = 0; k < s->n; k++)
        tarn_dataset_close(s->parts[k].dataset);
    free(s->parts);
    *s = (cli_sources){0};
}

const cli_source *cli_sources_at(const cli_sources *s, uint64_t i, uint64_t *out_number)
{
    size_t low = 0, high = s->n;
    *out_number = i;
    if (s->mix.dataset) return &s->mix;
    /* The last source that starts at or before i. This skips empty sources. */
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (s->parts[mid].first <= i)
            low = mid;
        else
            high = mid;
    }
    *out_number = i - s->parts[low].first;
    return &s->parts[low];
}

tarn_status cli_sources_key(const cli_sources *s, uint64_t i, tarn_text *out,
                            tarn_error *err)
{
    uint64_t number;
    char text[64];
    const cli_source *part = cli_sources_at(s, i, &number);
    tarn_place place;
    if (s->mix.dataset) {
        TARN_TRY(tarn_dataset_locate(s->mix.dataset, number, TARN_NO_FIELD, &place,
                                     sizeof place, err));
        part = &s->parts[place.source];
        number = place.sample;
    }
    TARN_TRY(tarn_dataset_key(part->dataset, number, out, err));
    if (!part->info.numbered) return TARN_OK;
    int len = s->n > 1
                  ? snprintf(text, sizeof text, "%zu-%09llu", (size_t)(part - s->parts),
                             strtoull(out->data, NULL, 10))
                  : snprintf(text, sizeof text, "%09llu", strtoull(out->data, NULL, 10));
    if ((size_t)len >= out->capacity) {
        char *grown = realloc(out->data, sizeof text);
        if (!grown) cli_no_memory();
        out->data = grown;
        out->capacity = sizeof text;
    }
    memcpy(out->data, text, (size_t)len + 1);
    out->size = (size_t)len;
    return TARN_OK;
}
