/* tarn info: prints what a dataset contains. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

typedef struct tally {
    uint64_t count, bytes, min, max;
} tally;

typedef struct summary {
    tarn_index_info index;
    tally *fields;
    tally *shards;
    size_t n_shards;
    tally all;
} summary;

static void add(tally *t, uint64_t size)
{
    if (t->count == 0 || size < t->min) t->min = size;
    if (size > t->max) t->max = size;
    t->count++;
    t->bytes += size;
}

static tarn_status summarise(const tarn_index *index, size_t n_shards, summary *out,
                             tarn_error *err)
{
    tarn_row row;
    tarn_index_info_get(index, &out->index, sizeof out->index);
    out->n_shards = n_shards;
    out->fields = calloc(out->index.fields + 1u, sizeof *out->fields);
    out->shards = calloc(TARN_MAX_SHARDS, sizeof *out->shards);
    if (!out->fields || !out->shards) cli_no_memory();
    for (uint64_t i = 0; i < out->index.rows; i++) {
        TARN_TRY(tarn_index_row(index, i, &row, err));
        add(&out->fields[row.field], row.size);
        add(&out->shards[row.shard], row.size);
        add(&out->all, row.size);
        if (row.shard >= out->n_shards) out->n_shards = row.shard + 1u;
    }
    return TARN_OK;
}

static const char *shard_name(const cli_fold *f, uint32_t shard)
{
    return f && shard < f->fold.n_shards ? cli_base_name(f->fold.shards[shard]) : "?";
}

static uint64_t shard_size(const cli_fold *f, uint32_t shard)
{
    return f && shard < f->fold.n_shards ? f->fold.sizes[shard] : 0;
}

static void put_fields_head(void)
{
    cli_print("  %-20s %12s %16s %12s %12s %12s\n", "field", "members", "bytes",
              "smallest", "mean", "largest");
}

static void put_field(const char *name, const tally *t)
{
    cli_print("  %-20s %12llu %16llu %12llu %12llu %12llu\n", name[0] ? name : "(none)",
              (unsigned long long)t->count, (unsigned long long)t->bytes,
              (unsigned long long)t->min,
              (unsigned long long)(t->count ? t->bytes / t->count : 0),
              (unsigned long long)t->max);
}

static void put_field_json(cli_json *j, const char *name, const tally *t)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "name", name);
    cli_json_number(j, "count", t->count);
    cli_json_number(j, "bytes", t->bytes);
    cli_json_number(j, "min", t->min);
    cli_json_number(j, "max", t->max);
    cli_json_close(j, '}');
}

/* Maximum number of field sets that are listed. */
enum { MAX_SETS = 20 };

static void put_sets(const tarn_field_sets *sets)
{
    uint64_t rest = 0;
    cli_print("  %12s %12s  %s\n", "samples", "with twice", "have fields");
    for (size_t i = 0; i < sets->count; i++) {
        const tarn_field_set *s = sets->sets[i];
        if (i >= MAX_SETS) {
            rest += s->samples;
            continue;
        }
        cli_print("  %12llu %12llu  ", (unsigned long long)s->samples,
                  (unsigned long long)s->twice);
        for (size_t k = 0; k < s->n_fields; k++) {
            const char *name = s->fields[k];
            cli_print("%s%s", k ? ", " : "", name[0] ? name : "(none)");
        }
        putchar('\n');
    }
    if (rest)
        cli_print("  %12llu %12s  %s\n", (unsigned long long)rest, "",
                  cli_count(sets->count - MAX_SETS, "other set"));
}

static void put_sets_json(cli_json *j, const tarn_field_sets *sets)
{
    cli_json_open(j, "sets", '[');
    for (size_t i = 0; i < sets->count; i++) {
        const tarn_field_set *s = sets->sets[i];
        cli_json_open(j, NULL, '{');
        cli_json_number(j, "samples", s->samples);
        cli_json_number(j, "twice", s->twice);
        cli_json_open(j, "fields", '[');
        for (size_t k = 0; k < s->n_fields; k++)
            cli_json_text(j, NULL, s->fields[k]);
        cli_json_close(j, ']');
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/* How many samples have which fields. */
static int show_sets(tarn_dataset *dataset, cli_json *json)
{
    tarn_error err;
    tarn_field_sets *sets;
    tarn_status status = tarn_dataset_field_sets(dataset, &sets, &err);
    if (status == TARN_OK && json->out)
        put_sets_json(json, sets);
    else if (status == TARN_OK && sets->count)
        put_sets(sets);
    tarn_field_sets_free(sets);
    return status == TARN_OK ? CLI_OK : cli_fail(&err);
}

int cli_show_sets(const char *path, cli_json *json)
{
    tarn_error err;
    tarn_dataset *dataset;
    tarn_status status = tarn_dataset_open(path, NULL, &dataset, &err);
    if (status == TARN_ERR_NO_FIELD) return CLI_OK; /* arrays without rows */
    if (status != TARN_OK) return cli_fail(&err);
    int result = show_sets(dataset, json);
    tarn_dataset_close(dataset);
    return result;
}

static int show_json(cli_json *j, const char *name, const char *index_path,
                     const cli_fold *fold, const tarn_index *index, const summary *s)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "fold", name);
    cli_json_text(j, "index", index_path);
    cli_json_number(j, "samples", s->index.samples);
    cli_json_number(j, "members", s->index.rows);
    cli_json_number(j, "bytes", s->all.bytes);
    cli_json_bool(j, "contiguous", s->index.contiguous);
    cli_json_number(j, "collisions", s->index.collisions);
    cli_json_bool(j, "sums", s->index.has_sums && index_path);
    cli_json_bool(j, "checksums", s->index.has_checksums && index_path);
    cli_json_text(j, "keys",
                  !s->index.keys_known              ? NULL
                  : s->index.keys == TARN_KEYS_PATH ? "path"
                                                    : "base");
    cli_json_open(j, "fields", '[');
    for (uint32_t i = 0; i < s->index.fields; i++)
        put_field_json(j, tarn_index_field(index, i), &s->fields[i]);
    cli_json_close(j, ']');
    int status = fold ? show_sets(fold->set, j) : CLI_OK;
    cli_json_open(j, "shards", '[');
    for (uint32_t i = 0; i < s->n_shards; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", fold ? shard_name(fold, i) : NULL);
        cli_json_number(j, "members", s->shards[i].count);
        cli_json_number(j, "bytes", s->shards[i].bytes);
        if (fold) cli_json_number(j, "size", shard_size(fold, i));
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
    return status;
}

static void show_index(const char *index_path, const summary *s)
{
    if (!index_path) {
        cli_print("  index     none; scanned\n");
        return;
    }
    cli_print("  index     %s, %s\n", index_path,
              s->index.contiguous ? "samples contiguous" : "samples not contiguous");
    if (!s->index.has_sums)
        cli_print("  sums      none\n");
    else
        cli_print("  sums      shard stamps, key order%s; keys by %s\n",
                  s->index.has_checksums ? ", member checksums" : "",
                  s->index.keys == TARN_KEYS_PATH ? "path" : "base name");
}

static int print_fold(const char *name, const char *index_path, const cli_fold *fold,
                      const tarn_index *index, const summary *s)
{
    cli_print("%s: %s, %s, %s in %s\n", name, cli_count(s->index.samples, "sample"),
              cli_count(s->index.rows, "member"), cli_count(s->all.bytes, "byte"),
              cli_count(s->n_shards, "shard"));
    show_index(index_path, s);
    if (s->index.collisions)
        cli_print("  collisions %u keys whose hash is shared with another key\n",
                  s->index.collisions);
    put_fields_head();
    for (uint32_t i = 0; i < s->index.fields; i++)
        put_field(tarn_index_field(index, i), &s->fields[i]);
    int status = fold ? show_sets(fold->set, &(cli_json){0}) : CLI_OK;
    cli_print("  %-20s %12s %16s %12s\n", "shard", "members", "bytes", "file size");
    for (uint32_t i = 0; i < s->n_shards; i++)
        cli_print("  %-20s %12llu %16llu %12llu\n", shard_name(fold, i),
                  (unsigned long long)s->shards[i].count,
                  (unsigned long long)s->shards[i].bytes,
                  (unsigned long long)shard_size(fold, i));
    return status;
}

static int describe(const char *name, const char *index_path, const cli_fold *fold,
                    const tarn_index *index, cli_json *json)
{
    tarn_error err;
    summary s = {0};
    int status = CLI_OK;
    if (summarise(index, fold ? fold->fold.n_shards : 0, &s, &err) != TARN_OK)
        status = cli_fail(&err);
    else if (json->out)
        status = show_json(json, name, index_path, fold, index, &s);
    else
        status = print_fold(name, index_path, fold, index, &s);
    free(s.fields);
    free(s.shards);
    return status;
}

static int describe_fold(const cli_args *args, const char *path, cli_json *json)
{
    cli_fold f = {0};
    int status = cli_open(args, path, &f);
    if (status == CLI_OK)
        status = describe(f.fold.name, f.fold.index_path, &f, f.fold.index, json);
    cli_fold_close(&f);
    return status;
}

static int describe_folder(const cli_args *args, const tarn_folds *folds,
                           const char *path, cli_json *json)
{
    int result = CLI_OK;
    for (size_t i = 0; i < folds->count; i++) {
        char *one;
        if (asprintf(&one, "%s:%s", path, folds->folds[i]->name) < 0) cli_no_memory();
        int status = describe_fold(args, one, json);
        if (status != CLI_OK) result = status;
        free(one);
        if (status == CLI_USAGE) break;
    }
    return result;
}

/* Describes an index whose shards are missing. */
static int describe_taridx(const char *path, cli_json *json)
{
    tarn_error err;
    tarn_index *index;
    if (tarn_index_load(path, &index, &err) != TARN_OK) return cli_fail(&err);
    const char *slash = strrchr(path, '/');
    int status = describe(slash ? slash + 1 : path, path, NULL, index, json);
    tarn_index_free(index);
    return status;
}

/* --- A stream ---------------------------------------------------------------------- */

/* Fields counted by name; a stream with more has the rest in one line. */
enum { MAX_NAMED = 1000 };

typedef struct counted {
    char *names[MAX_NAMED + 1];
    tally fields[MAX_NAMED + 1];
    size_t count, guess; /* guess: the last field found, before the next */
    tally all;
} counted;

static tally *find_field(counted *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++) {
        size_t k = (c->guess + 1 + i) % c->count;
        if (strcmp(c->names[k], name) != 0) continue;
        c->guess = k;
        return &c->fields[k];
    }
    if (c->count > MAX_NAMED) return &c->fields[MAX_NAMED];
    const char *shown = c->count < MAX_NAMED ? name : "(others)";
    if (!(c->names[c->count] = strdup(shown))) cli_no_memory();
    return &c->fields[c->count++];
}

static void show_stream(const char *name, const counted *c, const tarn_samples_report *r)
{
    cli_print("%s: %s, %s, %s in %s, read as a stream\n", cli_shown(name),
              cli_count(r->samples, "sample"), cli_count(r->members, "member"),
              cli_count(c->all.bytes, "byte"), cli_count(r->shards, "archive"));
    if (r->unkeyed || r->metadata || r->links)
        cli_print("  skipped %s of no sample, %s of metadata, %s\n",
                  cli_count(r->unkeyed, "member"), cli_count(r->metadata, "member"),
                  cli_count(r->links, "link"));
    if (r->scattered)
        cli_print("  %s with a key that was already used\n",
                  cli_count(r->scattered, "sample"));
    put_fields_head();
    for (size_t i = 0; i < c->count; i++)
        put_field(c->names[i], &c->fields[i]);
}

static void show_stream_json(cli_json *j, const char *name, const counted *c,
                             const tarn_samples_report *r)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "stream", cli_shown(name));
    cli_json_number(j, "archives", r->shards);
    cli_json_number(j, "samples", r->samples);
    cli_json_number(j, "members", r->members);
    cli_json_number(j, "bytes", c->all.bytes);
    cli_json_number(j, "scattered", r->scattered);
    cli_json_number(j, "unkeyed", r->unkeyed);
    cli_json_number(j, "metadata", r->metadata);
    cli_json_number(j, "links", r->links);
    cli_json_number(j, "duplicates", r->duplicates);
    cli_json_number(j, "damages", r->damages);
    cli_json_number(j, "lost_bytes", r->lost_bytes);
    cli_json_open(j, "fields", '[');
    for (size_t i = 0; i < c->count; i++)
        put_field_json(j, c->names[i], &c->fields[i]);
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

static int describe_stream(const cli_args *args, cli_json *json)
{
    tarn_error err;
    cli_stream s;
    tarn_samples_item item;
    tarn_samples_report report;
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    o.sizes_only = true;
    int result = cli_stream_open(args, &o, &s);
    if (result != CLI_OK) return result;
    counted *c = calloc(1, sizeof *c);
    if (!c) cli_no_memory();
    tarn_status status;
    while ((status = tarn_samples_next(s.samples, &item, &err)) == TARN_OK)
        for (size_t i = 0; i < item.count; i++) {
            add(find_field(c, item.fields[i].name), item.fields[i].size);
            add(&c->all, item.fields[i].size);
        }
    tarn_samples_report_get(s.samples, &report, sizeof report);
    result = cli_stream_end(&s, status, &err);
    if (result == CLI_OK && json->out)
        show_stream_json(json, args->words[0], c, &report);
    else if (result == CLI_OK)
        show_stream(args->words[0], c, &report);
    for (size_t i = 0; i < c->count; i++)
        free(c->names[i]);
    free(c);
    cli_stream_close(&s);
    return result;
}

/* A folder in a store may have several folds. */
static bool is_remote_folder(const char *path)
{
    return tarn_remote_form(path) == TARN_REMOTE_FOLD &&
           !cli_ends_with(path, ".taridx") && !cli_ends_with(path, ".tar") &&
           strchr(path, ':') == strrchr(path, ':');
}

static int run(const cli_args *args)
{
    const char *path = args->words[0];
    cli_json json = {.out = cli_has(args, "json") ? stdout : NULL};
    tarn_folds *folds;
    struct stat st;
    int status;
    if (cli_is_pack(path)) return cli_iac_info(args);
    if (json.out) cli_json_open(&json, NULL, '[');
    bool is_file = stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
    if (cli_is_gnz(path)) {
        status = cli_gnz_info(path, &json);
    } else if (cli_is_stream(path)) {
        status = describe_stream(args, &json);
    } else if (cli_is_lone_index(path)) {
        status = describe_taridx(path, &json);
    } else if (!is_file && (stat(path, &st) == 0 || is_remote_folder(path)) &&
               tarn_folds_list(path, &folds, NULL) == TARN_OK) {
        status = describe_folder(args, folds, path, &json);
        tarn_folds_free(folds);
    } else {
        status = describe_fold(args, path, &json);
    }
    if (json.out) {
        cli_json_close(&json, ']');
        cli_json_line(&json);
    }
    return status;
}

static const cli_option options[] = {
    CLI_KEYS,
    {"lenient", 0, NULL, "without an index: skip damaged parts"},
    CLI_ALLOW_PIPE,
    CLI_REMOTE,
    {"json", 0, NULL, "print an array of folds as JSON"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn info data/birds", "all folds: samples, sizes of each field, shards"},
    {"tarn info --json data/birds:train", "one fold, for a program to read"},
    {"tarn info s3://bucket/birds", "the folds of a folder in a bucket"},
    {"tarn info shard.tar", "scan one archive"},
    {"tarn info https://host/shard.tar.gz", "a stream, in constant memory"},
    {"tarn info x.gnz", "an array file"},
    {"tarn info tiles.iac", "an IAC file: header, tables with types, codec, sizes"},
    {NULL, NULL}};

const cli_command cli_info = {
    .name = "info",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "describe a folder, fold, archive, index, array file or record pack",
    .text =
        "Prints the number of samples and members, the number and sizes of the members "
        "of each field, how many samples have which fields, and the shards. With an "
        "index only the index is read; without one the shards are scanned.",
    .options = options,
    .examples = examples,
    .run = run,
};
