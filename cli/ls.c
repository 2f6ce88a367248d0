/* tarn ls: lists the samples. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sources.h"

/* A member as it is printed. */
typedef struct shown {
    const char *field, *shard;
    uint64_t offset, size;
} shown;

typedef struct listing {
    cli_fold fold;
    shown *shown; /* the members of a sample; fold has the capacity */
    size_t room;
    tarn_text key;
    cli_json json;
    bool names, null, members, terminal;
} listing;

/* Keys are printed unchanged to a pipe or file; control characters are escaped on a
 * terminal. */
static void put_key(const listing *l)
{
    char text[1024];
    if (l->terminal && !l->null)
        fputs(tarn_printable(text, sizeof text, l->key.data, l->key.size), stdout);
    else
        fwrite(l->key.data, 1, l->key.size, stdout);
}

static void show_sample(listing *l, const shown *members, size_t count)
{
    put_key(l);
    if (l->names || l->null) {
        putchar(l->null ? '\0' : '\n');
        return;
    }
    for (size_t k = 0; k < count; k++)
        cli_print("%c%s:%llu", k ? ' ' : '\t', members[k].field,
                  (unsigned long long)members[k].size);
    putchar('\n');
}

static void show_members(listing *l, const shown *members, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        cli_print("%s\t", members[k].shard);
        if (members[k].offset == TARN_NO_OFFSET)
            cli_print("-\t");
        else
            cli_print("%llu\t", (unsigned long long)members[k].offset);
        cli_print("%llu\t", (unsigned long long)members[k].size);
        put_key(l);
        cli_print("\t%s\n", members[k].field);
    }
}

static void show_json(listing *l, const shown *members, size_t count)
{
    cli_json_open(&l->json, NULL, '{');
    cli_json_text(&l->json, "key", l->key.data);
    cli_json_open(&l->json, "members", '[');
    for (size_t k = 0; k < count; k++) {
        cli_json_open(&l->json, NULL, '{');
        cli_json_text(&l->json, "field", members[k].field);
        cli_json_number(&l->json, "size", members[k].size);
        cli_json_text(&l->json, "shard", members[k].shard);
        if (members[k].offset != TARN_NO_OFFSET)
            cli_json_number(&l->json, "offset", members[k].offset);
        cli_json_close(&l->json, '}');
    }
    cli_json_close(&l->json, ']');
    cli_json_close(&l->json, '}');
    cli_json_line(&l->json);
}

static void print_sample(listing *l, const shown *members, size_t count)
{
    if (l->json.out)
        show_json(l, members, count);
    else if (l->members)
        show_members(l, members, count);
    else
        show_sample(l, members, count);
}

enum { KEYS_AHEAD = 512 };

/* --- Of a dataset ------------------------------------------------------------------ */

/* Prints one sample of a dataset. Only its first fields are visible. */
static tarn_status list_sample(listing *l, tarn_dataset *set, uint32_t visible,
                               uint64_t number, tarn_error *err)
{
    size_t n = 0;
    TARN_TRY(tarn_dataset_key(set, number, &l->key, err));
    if ((l->names || l->null) && !l->json.out && !l->members) {
        print_sample(l, NULL, 0);
        return TARN_OK;
    }
    TARN_TRY(cli_members_of(&l->fold, set, number, err));
    if (l->room < l->fold.count) {
        l->room = l->fold.room;
        free(l->shown);
        if (!(l->shown = malloc(l->room * sizeof *l->shown))) cli_no_memory();
    }
    for (size_t k = 0; k < l->fold.count; k++) {
        const tarn_stored *m = &l->fold.members[k];
        if (m->field < visible)
            l->shown[n++] = (shown){tarn_dataset_field(set, m->field),
                                    cli_base_name(m->path), m->offset, m->bytes};
    }
    print_sample(l, l->shown, n);
    return TARN_OK;
}

/* Of remote shards, many keys at a time. */
static void fetch_keys(tarn_dataset *set, uint64_t from, uint64_t count)
{
    uint64_t numbers[KEYS_AHEAD];
    size_t n = count - from < KEYS_AHEAD ? (size_t)(count - from) : KEYS_AHEAD;
    tarn_dataset_info info;
    tarn_dataset_info_get(set, &info, sizeof info);
    for (size_t i = 0; i < n; i++)
        numbers[i] = from + i;
    if (info.remote) cli_remote_ahead(set, numbers, n, 0);
}

static void fetch_ordered_keys(const cli_sources *s, const uint64_t *order, uint64_t from,
                               uint64_t count)
{
    uint64_t numbers[KEYS_AHEAD];
    size_t n = 0;
    const cli_source *part = cli_sources_at(s, order[from], &numbers[0]);
    for (; n < KEYS_AHEAD && from + n < count; n++)
        if (cli_sources_at(s, order[from + n], &numbers[n]) != part) break;
    if (part->info.remote) cli_remote_ahead(part->dataset, numbers, n, 0);
}

static int list_fold(const cli_args *args, listing *l)
{
    tarn_error err;
    tarn_status done = TARN_OK;
    int status = cli_open(args, args->words[0], &l->fold);
    if (status == CLI_OK) status = cli_filter(args, &l->fold);
    if (status != CLI_OK) return status;
    uint64_t count = tarn_dataset_count(l->fold.set);
    for (uint64_t i = 0; i < count && done == TARN_OK && !ferror(stdout); i++) {
        if (i % KEYS_AHEAD == 0) fetch_keys(l->fold.set, i, count);
        done = list_sample(l, l->fold.set, UINT32_MAX, i, &err);
    }
    if (done == TARN_OK) return CLI_OK;
    fflush(stdout);
    return cli_fail(&err);
}

static tarn_status list_ordered(listing *l, const cli_sources *s, const uint64_t *order,
                                uint64_t count, tarn_error *err)
{
    for (uint64_t i = 0; i < count && !ferror(stdout); i++) {
        uint64_t number;
        if (i % KEYS_AHEAD == 0) fetch_ordered_keys(s, order, i, count);
        const cli_source *part = cli_sources_at(s, order[i], &number);
        TARN_TRY(list_sample(l, part->dataset, part->visible, number, err));
    }
    return TARN_OK;
}

static int list_order(const cli_args *args, listing *l)
{
    static const char *const not_here[] = {"stats", "columns", "where", NULL};
    tarn_error err;
    cli_sources sources;
    uint64_t *order = NULL;
    cli_order_part all = {.to = UINT64_MAX, .part = {0, 1}};
    int status = cli_refuse(args, "an order", not_here);
    if (status == CLI_OK) status = cli_sources_open(args, TARN_KEYS_BASE, &sources);
    if (status != CLI_OK) return status;
    status = cli_order(args, &sources, &all, &order);
    if (status == CLI_OK && list_ordered(l, &sources, order, all.end, &err) != TARN_OK) {
        fflush(stdout);
        status = cli_fail(&err);
    }
    free(order);
    cli_sources_close(&sources);
    return status;
}

/* --- Of a stream ------------------------------------------------------------------- */

/* Long samples are printed in pieces of this many members. */
enum { PIECE = 256 };

static void list_item(listing *l, const tarn_samples_item *item)
{
    shown members[PIECE];
    size_t n;
    const char *shard = cli_base_name(cli_shown(item->url));
    l->key.data = (char *)(uintptr_t)item->key;
    l->key.size = item->key_len;
    for (size_t from = 0; from < item->count; from += n) {
        n = item->count - from < PIECE ? item->count - from : PIECE;
        for (size_t k = 0; k < n; k++) {
            const tarn_samples_field *f = &item->fields[from + k];
            members[k] = (shown){f->name, shard, f->offset, f->size};
        }
        print_sample(l, members, n);
        if (l->names || l->null) break;
    }
    l->key = (tarn_text){0};
}

static int list_stream(const cli_args *args, listing *l)
{
    tarn_error err;
    cli_stream s;
    tarn_samples_item item;
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    o.sizes_only = true;
    int result = cli_stream_open(args, &o, &s);
    if (result != CLI_OK) return result;
    tarn_status status;
    while ((status = tarn_samples_next(s.samples, &item, &err)) == TARN_OK) {
        list_item(l, &item);
        if (ferror(stdout)) break;
    }
    result = status == TARN_OK ? CLI_DATA : cli_stream_end(&s, status, &err);
    cli_stream_close(&s);
    return result;
}

/* Without the shards there are no names, so the rows are printed. */
static int list_index(const char *path, bool json)
{
    tarn_error err;
    tarn_index *index;
    tarn_index_info info;
    tarn_row row;
    if (tarn_index_load(path, &index, &err) != TARN_OK) return cli_fail(&err);
    tarn_index_info_get(index, &info, sizeof info);
    for (uint64_t i = 0; i < info.rows; i++) {
        if (tarn_index_row(index, i, &row, &err) != TARN_OK) return cli_fail(&err);
        cli_print(json ? "{\"shard\": %u, \"offset\": %llu, \"size\": %llu, \"keyhash\": "
                         "\"%016llx\", \"collision\": %u, \"field_id\": %u}\n"
                       : "%u\t%llu\t%llu\t%016llx\t%u\t%u\n",
                  row.shard, (unsigned long long)row.offset, (unsigned long long)row.size,
                  (unsigned long long)row.keyhash, row.collision, row.field);
    }
    tarn_index_free(index);
    return CLI_OK;
}

/* Options that would have no effect are an error. */
static const cli_instead of_files[] = {
    {"stats", "it is for array files (.gnz); tarn info counts samples and fields"},
    {"columns", "it is for record packs (.iac); use --fields"},
    {"where", "it is for record packs (.iac); choose samples with --samples or --fields"},
    {"key", "it is for .iac and .gnz with --order; samples have keys"},
    {NULL, NULL}};
static const char *const of_names[] = {"names",   "null",   "samples",
                                       "without", "fields", NULL};

static int list(const cli_args *args, listing *l)
{
    const char *path = args->words[0];
    if (cli_has_order(args)) {
        if (cli_is_stream(path) || cli_is_lone_index(path))
            return cli_usage(
                args->command,
                "an order needs a fold, a .tar, a .gnz or an .iac; %s is none of these",
                path);
        return list_order(args, l);
    }
    if (cli_is_gnz(path)) return cli_gnz_ls(args);
    if (cli_is_pack(path)) return cli_iac_ls(args);
    int status = cli_refuse_for(args, "samples", of_files);
    if (status != CLI_OK) return status;
    if (cli_is_stream(path)) return list_stream(args, l);
    if (!cli_is_lone_index(path)) return list_fold(args, l);
    status = cli_refuse(args, "an index without its shards", of_names);
    return status == CLI_OK ? list_index(path, l->json.out) : status;
}

static int run(const cli_args *args)
{
    listing l = {.names = cli_has(args, "names"),
                 .null = cli_has(args, "null"),
                 .members = cli_has(args, "members"),
                 .terminal = isatty(STDOUT_FILENO)};
    if (cli_has(args, "json")) l.json.out = stdout;
    int status = list(args, &l);
    tarn_text_reset(&l.key);
    cli_fold_close(&l.fold);
    free(l.shown);
    return status;
}

static const cli_option options[] = {
    {"members", 'l', NULL, "one line per member: shard, offset, size, key, field"},
    {"names", '1', NULL, "keys only, one per line"},
    {"null", '0', NULL, "keys only, each terminated by NUL"},
    {"samples", 's', "LIST", "only these keys, in the fold's order: a,b or @FILE"},
    CLI_WITHOUT,
    CLI_FIELDS('f'),
    CLI_KEYS,
    {"lenient", 0, NULL, "without an index: skip damaged parts"},
    CLI_ALLOW_PIPE,
    {"stats", 0, NULL, "arrays: minimum, maximum, mean and a histogram"},
    {"key", 0, "COLUMN", "--order on .iac, .gnz: column or array that holds the keys"},
    {"columns", 0, "LIST", "record packs: only these columns: a,b"},
    {"where", 0, "COL=VALUE",
     "record packs: only rows with this value; also COL>N, >=, <, <=; repeat it for AND"},
    CLI_ORDER,
    CLI_REMOTE,
    {"json", 0, NULL, "print one JSON object per sample, one per line"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn ls data/birds:train", "key, then each field with its size"},
    {"tarn ls -1 data/birds:train | shuf -n 100 > some.txt", "a hundred keys"},
    {"tarn ls -l --samples @some.txt data/birds:train", "where their members are stored"},
    {"tarn ls -1 --order shuffle --seed 7 --epoch 1 --rank 0/4 data/birds:train",
     "the samples of the first of four ranks, in order"},
    {"tarn ls s3://bucket/birds:train", "a remote fold, by its index"},
    {"tarn ls https://host/x.tar.zst", "a stream, sample by sample"},
    {"tarn ls 'train-{000..031}.tar.gz'", "several archives, in order"},
    {"tarn ls --stats x.gnz",
     "arrays: name, type, shape, bytes, and statistics of the values"},
    {"tarn ls --where patient_id=p7 tiles.iac",
     "some rows of a record pack, with all columns"},
    {"tarn ls --where stain=HE --where 'age>=80' tiles.iac", "rows that meet both"},
    {NULL, NULL}};

const cli_command cli_ls = {
    .name = "ls",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "list samples and their fields",
    .text =
        "Samples are listed in the order of their first member. Keys are read from the "
        "shards, and each key is compared with the index.\n\n--order shows the samples "
        "of a training run in order, after all filters, for a fold, a tar, an array file "
        "(its rows) or a record pack (its records). The orders are: all in random order "
        "(shuffle), random but with nearby samples together (blocks), similar sizes "
        "together (lengths), each class equally often (balanced), by weight with or "
        "without replacement (weighted, weighted-once), and the orders of glzn (feistel, "
        "buckets). Rank R of W gets every W-th sample, starting with sample R.\n\nA "
        "stream (-, a URL, a compressed archive, or a list of archives) is listed as it "
        "is read, in constant memory. If members with the same key are not consecutive, "
        "they are listed as several samples, with a warning.\n\n@FILE contains one key "
        "per line, or keys terminated by NUL; @- is standard input.\n\nFor a .gnz, the "
        "arrays are listed: name, type, shape, bytes. For an .iac, the rows are listed: "
        "row number, payload size and the columns of the index.\n\n" CLI_FIELDS_TEXT,
    .options = options,
    .examples = examples,
    .run = run,
};
