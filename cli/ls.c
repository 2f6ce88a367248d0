/* tarn ls: the samples, one by one. */
#include <string.h>
#include <unistd.h>

#include "cli.h"

typedef struct listing {
    tarn_fold *fold;
    const tarn_index *index;
    tarn_text key;
    cli_json json;
    bool names, null, members, terminal;
} listing;

/* A program gets the key as it is; a terminal gets nothing it would obey. */
static void put_key(const listing *l)
{
    char shown[1024];
    if (l->terminal && !l->null)
        fputs(tarn_printable(shown, sizeof shown, l->key.data, l->key.size), stdout);
    else
        fwrite(l->key.data, 1, l->key.size, stdout);
}

static void show_sample(listing *l, const tarn_sample *s, const tarn_row *rows)
{
    put_key(l);
    if (l->names || l->null) {
        putchar(l->null ? '\0' : '\n');
        return;
    }
    for (uint32_t k = 0; k < s->count; k++)
        printf("%c%s:%llu", k ? ' ' : '\t', tarn_index_field(l->index, rows[k].field),
               (unsigned long long)rows[k].size);
    putchar('\n');
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void show_members(listing *l, const tarn_sample *s, const tarn_row *rows)
{
    for (uint32_t k = 0; k < s->count; k++) {
        printf("%s\t%llu\t%llu\t",
               base_name(tarn_fold_shard_path(l->fold, rows[k].shard)),
               (unsigned long long)rows[k].offset, (unsigned long long)rows[k].size);
        put_key(l);
        printf("\t%s\n", tarn_index_field(l->index, rows[k].field));
    }
}

static void show_json(listing *l, const tarn_sample *s, const tarn_row *rows)
{
    cli_json_open(&l->json, NULL, '{');
    cli_json_text(&l->json, "key", l->key.data);
    cli_json_open(&l->json, "members", '[');
    for (uint32_t k = 0; k < s->count; k++) {
        cli_json_open(&l->json, NULL, '{');
        cli_json_text(&l->json, "field", tarn_index_field(l->index, rows[k].field));
        cli_json_number(&l->json, "size", rows[k].size);
        cli_json_text(&l->json, "shard",
                      base_name(tarn_fold_shard_path(l->fold, rows[k].shard)));
        cli_json_number(&l->json, "offset", rows[k].offset);
        cli_json_close(&l->json, '}');
    }
    cli_json_close(&l->json, ']');
    cli_json_close(&l->json, '}');
    cli_json_line(&l->json);
}

/* Long samples are shown in pieces of this many members. */
enum { PIECE = 256 };

static tarn_status list_sample(listing *l, const tarn_sample *whole, tarn_error *err)
{
    tarn_row rows[PIECE];
    tarn_sample s = *whole;
    s.count = 0;
    TARN_TRY(tarn_fold_names(l->fold, tarn_sample_row(whole, 0), &l->key, NULL, err));
    for (uint32_t from = 0; from < whole->count; from += s.count) {
        s.count = whole->count - from < PIECE ? whole->count - from : PIECE;
        for (uint32_t k = 0; k < s.count; k++)
            TARN_TRY(tarn_index_row(l->index, tarn_sample_row(whole, from + k), &rows[k],
                                    err));
        if (l->json.out)
            show_json(l, &s, rows);
        else if (l->members)
            show_members(l, &s, rows);
        else
            show_sample(l, &s, rows);
        if (l->names || l->null) break;
    }
    return TARN_OK;
}

static tarn_status list_all(listing *l, tarn_error *err)
{
    tarn_fold_info info;
    tarn_sample s;
    TARN_TRY(tarn_fold_info_get(l->fold, &info, err));
    for (uint64_t i = 0; i < info.samples; i++) {
        TARN_TRY(tarn_fold_sample(l->fold, i, &s, err));
        TARN_TRY(list_sample(l, &s, err));
        if (ferror(stdout)) break;
    }
    return TARN_OK;
}

/* Without the shards there are no names: the rows as they are. */
static int list_index(const char *path, bool json)
{
    tarn_error err;
    tarn_index *index;
    tarn_index_info info;
    tarn_row row;
    if (tarn_index_load(path, &index, &err) != TARN_OK) return cli_fail(&err);
    tarn_index_info_get(index, &info);
    for (uint64_t i = 0; i < info.rows; i++) {
        if (tarn_index_row(index, i, &row, &err) != TARN_OK) return cli_fail(&err);
        printf(json ? "{\"shard\": %u, \"offset\": %llu, \"size\": %llu, \"keyhash\": "
                      "\"%016llx\", \"crash\": %u, \"field_id\": %u}\n"
                    : "%u\t%llu\t%llu\t%016llx\t%u\t%u\n",
               row.shard, (unsigned long long)row.offset, (unsigned long long)row.size,
               (unsigned long long)row.keyhash, row.crash, row.field);
    }
    tarn_index_free(index);
    return CLI_OK;
}

static int run(const cli_args *args)
{
    tarn_error err;
    listing l = {.names = cli_has(args, "names"),
                 .null = cli_has(args, "null"),
                 .members = cli_has(args, "members"),
                 .terminal = isatty(STDOUT_FILENO)};
    if (cli_is_pack(args->words[0])) return cli_iac_ls(args);
    if (cli_has(args, "json")) l.json.out = stdout;
    if (cli_is_lone_index(args->words[0])) return list_index(args->words[0], l.json.out);
    int status = cli_open(args, args->words[0], &l.fold);
    if (status != CLI_OK) return status;
    l.index = tarn_fold_index(l.fold);
    status = cli_filter(args, l.fold);
    if (status == CLI_OK && list_all(&l, &err) != TARN_OK) {
        fflush(stdout);
        status = cli_fail(&err);
    }
    tarn_text_reset(&l.key);
    tarn_fold_close(l.fold);
    return status;
}

static const cli_option options[] = {
    {"members", 'l', NULL, "one line per member: shard, offset, size, key, field"},
    {"names", '1', NULL, "keys only, one on each line"},
    {"null", '0', NULL, "keys only, each ended by a NUL"},
    {"samples", 's', "LIST", "only these keys, in the fold's order: a,b or @FILE"},
    {"fields", 'f', "LIST", "only samples that have all of these, and only these"},
    {"keys", 0, "RULE", "base or path: how keys are made where there is no index"},
    {"lenient", 0, NULL, "where there is no index: pass over damage"},
    {"columns", 0, "LIST", "packs: only these columns: a,b"},
    {"where", 0, "COL=VALUE", "packs: only rows with this value"},
    {"json", 0, NULL, "one JSON object per sample and line"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn ls data/birds:train", "key, then each field with its size"},
    {"tarn ls -1 data/birds:train | shuf -n 100 > some.txt", "a hundred keys"},
    {"tarn ls -l --samples @some.txt data/birds:train", "where their members are"},
    {"tarn ls --where patient_id=p7 tiles.iac", "some rows of a pack, with all columns"},
    {NULL, NULL}};

const cli_command cli_ls = {
    .name = "ls",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "list samples and their fields",
    .text = "Samples come in the order of their first member. Keys are read from the "
            "shards, and each is compared with the index on the way.\n\n"
            "@FILE holds one key on each line, or each ended by a NUL; @- is standard "
            "input.\n\n"
            "Of a pack (.iac): row, payload size and the columns of the index.",
    .options = options,
    .examples = examples,
    .run = run,
};
