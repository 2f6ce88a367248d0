/* tarn simulate: what a training run would request of remote shards, how long that takes,
 * and what it costs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out.h"
#include "sources.h"

typedef struct simulation {
    cli_sources sources;
    cli_order_arrays arrays;
    tarn_order_options order;
    tarn_loader_options loader;
    tarn_simulation_options o;
    unsigned batch, ranks, nodes;
    double request_price, byte_price; /* of 1,000 requests, of 10^9 bytes */
    bool priced;
    tarn_loader **loaders;
    unsigned n_loaders;
    cli_json json;
} simulation;

/* --- Options ----------------------------------------------------------------------- */

static bool take_real(const cli_args *args, const char *name, double *out)
{
    const char *text = cli_value(args, name);
    char *end;
    if (!text) return true;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= 0 && *out < 1e15) return true;
    cli_usage(args->command, "--%s takes a positive number such as 0.4, not %s", name,
              text);
    return false;
}

static bool take_cache(const cli_args *args, tarn_simulation_options *o)
{
    const char *size = cli_value(args, "cache");
    o->cache = size && strcmp(size, "none") != 0;
    if (!o->cache || strcmp(size, "all") == 0) return true;
    if (!cli_size(args, "cache", &o->cache_limit)) return false;
    if (o->cache_limit) return true;
    cli_usage(args->command, "--cache takes a size such as 500G, all or none, not %s",
              size);
    return false;
}

static bool take_counts(const cli_args *args, simulation *s)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned epochs = 2, connections = 0;
    s->batch = 64;
    s->ranks = s->nodes = 1;
    s->loader.threads = cores > 0 ? (unsigned)cores : 1;
    if (!cli_number(args, "batch", &s->batch) || !cli_number(args, "epochs", &epochs) ||
        !cli_number(args, "ranks", &s->ranks) || !cli_number(args, "nodes", &s->nodes) ||
        !cli_number(args, "threads", &s->loader.threads) ||
        !cli_number(args, "prefetch", &s->loader.prefetch) ||
        !cli_number(args, "connections", &connections))
        return false;
    s->o.epochs = epochs;
    s->o.connections = connections;
    s->loader.batch = s->batch;
    if (epochs && s->batch && s->ranks && s->nodes &&
        s->ranks <= TARN_MAX_SIMULATED_LOADERS)
        return true;
    cli_usage(args->command,
              "--batch, --epochs, --ranks and --nodes must be at least 1, and --ranks at "
              "most %u",
              TARN_MAX_SIMULATED_LOADERS);
    return false;
}

static int take_options(const cli_args *args, simulation *s)
{
    uint64_t bandwidth = 0;
    double latency = 30;
    s->order = (tarn_order_options)TARN_ORDER_OPTIONS_INIT;
    s->loader = (tarn_loader_options)TARN_LOADER_OPTIONS_INIT;
    s->o = (tarn_simulation_options)TARN_SIMULATION_OPTIONS_INIT;
    s->order.kind = TARN_ORDER_SHUFFLE;
    s->priced = cli_has(args, "request-price") || cli_has(args, "gb-price");
    if (!take_counts(args, s) || !take_cache(args, &s->o) ||
        !cli_size(args, "bandwidth", &bandwidth) ||
        !take_real(args, "latency", &latency) ||
        !take_real(args, "request-price", &s->request_price) ||
        !take_real(args, "gb-price", &s->byte_price))
        return CLI_USAGE;
    s->o.latency = latency / 1000;
    s->o.bandwidth = (double)bandwidth;
    cli_remote_keep_nothing();
    int status = cli_sources_open(args, TARN_KEYS_BASE, &s->sources);
    if (status != CLI_OK) return status;
    return cli_order_options(args, &s->sources, &s->arrays, &s->order);
}

/* --- Loaders ----------------------------------------------------------------------- */

static tarn_status open_loader(simulation *s, unsigned rank, tarn_error *err)
{
    tarn_dataset *set;
    tarn_order_options o = s->order;
    o.rank = rank;
    o.world_size = (uint64_t)s->ranks * s->nodes;
    TARN_TRY(tarn_dataset_order(s->sources.parts[0].dataset, &o, &set, err));
    tarn_status status =
        tarn_loader_open(set, &s->loader, &s->loaders[s->n_loaders], err);
    tarn_dataset_close(set);
    if (status == TARN_OK) s->n_loaders++;
    return status;
}

/* Loads the fields that were asked for, and not one that only the order needs. */
static tarn_status open_loaders(simulation *s, tarn_error *err)
{
    const cli_source *source = &s->sources.parts[0];
    tarn_load_field *fields = calloc(source->visible + 1, sizeof *fields);
    s->loaders = calloc(s->ranks, sizeof(tarn_loader *));
    if (!fields || !s->loaders) cli_no_memory();
    for (uint32_t i = 0; i < source->visible; i++)
        fields[i].field = tarn_dataset_field(source->dataset, i);
    s->loader.fields = fields;
    s->loader.n_fields = source->visible;
    tarn_status status = TARN_OK;
    for (unsigned rank = 0; rank < s->ranks && status == TARN_OK; rank++)
        status = open_loader(s, rank, err);
    free(fields);
    return status;
}

/* --- Printing ---------------------------------------------------------------------- */

static double cost_of(const simulation *s, const tarn_simulated_epoch *e)
{
    return (double)e->requests / 1e3 * s->request_price +
           (double)e->bytes / 1e9 * s->byte_price;
}

static double rate_of(const tarn_simulated_epoch *e)
{
    return e->seconds > 0 ? (double)e->samples / e->seconds : 0;
}

static void show_head(const simulation *s)
{
    const cli_source *source = &s->sources.parts[0];
    const char *kind = tarn_order_kind_name(s->order.kind);
    cli_print("%s: %s in %s, order %s, batches of %u", cli_shown(source->path),
              cli_count(source->info.samples, "sample"),
              cli_count(source->info.shards, "file"), kind, s->batch);
    if (s->ranks * s->nodes > 1)
        cli_print(", %s on the first of %s", cli_count(s->ranks, "rank"),
                  cli_count(s->nodes, "machine"));
    cli_print("\n");
    if (!s->o.cache)
        cli_print("no cache");
    else if (s->o.cache_limit)
        cli_print("a cache of %.1f MB", (double)s->o.cache_limit / 1e6);
    else
        cli_print("a cache without limit");
    cli_print(", %g ms per request", s->o.latency * 1e3);
    if (s->o.bandwidth > 0) cli_print(", %.0f MB/s", s->o.bandwidth / 1e6);
    cli_print("\n\n%5s %12s %12s %10s %10s %7s %10s", "epoch", "samples", "requests",
              "MB", "cached MB", "hits", "samples/s");
    if (s->priced) cli_print(" %10s", "cost");
    cli_print("\n");
}

static void show_epoch(const simulation *s, const tarn_simulated_epoch *e)
{
    cli_print("%5llu %12llu %12llu %10.1f %10.1f %6.1f%%", (unsigned long long)e->epoch,
              (unsigned long long)e->samples, (unsigned long long)e->requests,
              (double)e->bytes / 1e6, (double)e->cached / 1e6,
              e->wanted ? 100 * (double)e->cached / (double)e->wanted : 0);
    if (e->seconds > 0)
        cli_print(" %10.0f", rate_of(e));
    else
        cli_print(" %10s", "no limit");
    if (s->priced) cli_print(" %10.4f", cost_of(s, e));
    cli_print("\n");
}

static void json_real(cli_json *j, const char *key, double value)
{
    char text[64];
    int len = snprintf(text, sizeof text, "%.9g", value);
    cli_json_raw(j, key, text, (size_t)len);
}

static void json_epoch(simulation *s, const tarn_simulated_epoch *e)
{
    cli_json *j = &s->json;
    cli_json_open(j, NULL, '{');
    cli_json_number(j, "epoch", e->epoch);
    cli_json_number(j, "batches", e->batches);
    cli_json_number(j, "samples", e->samples);
    cli_json_number(j, "wanted", e->wanted);
    cli_json_number(j, "cached", e->cached);
    cli_json_number(j, "requests", e->requests);
    cli_json_number(j, "bytes", e->bytes);
    cli_json_number(j, "kept", e->kept);
    json_real(j, "seconds", e->seconds);
    json_real(j, "samples_per_second", rate_of(e));
    if (s->priced) json_real(j, "cost", cost_of(s, e));
    cli_json_close(j, '}');
}

/* --- All of it --------------------------------------------------------------------- */

static tarn_status simulate(simulation *s, tarn_error *err)
{
    tarn_simulation *sim;
    tarn_simulated_epoch e;
    tarn_status status;
    TARN_TRY(tarn_simulation_open(s->loaders, s->n_loaders, &s->o, &sim, err));
    while ((status = tarn_simulation_next(sim, &e, sizeof e, err)) == TARN_OK) {
        if (s->json.out)
            json_epoch(s, &e);
        else
            show_epoch(s, &e);
    }
    tarn_simulation_close(sim);
    return status == TARN_END ? TARN_OK : status;
}

static int run(const cli_args *args)
{
    tarn_error err;
    simulation s = {0};
    int code = take_options(args, &s);
    tarn_status status = TARN_OK;
    if (code == CLI_OK) status = open_loaders(&s, &err);
    if (code == CLI_OK && status == TARN_OK) {
        if (cli_has(args, "json")) {
            s.json.out = stdout;
            cli_json_open(&s.json, NULL, '[');
        } else {
            show_head(&s);
        }
        status = simulate(&s, &err);
    }
    if (code == CLI_OK && status == TARN_OK && s.json.out) {
        cli_json_close(&s.json, ']');
        cli_json_line(&s.json);
    }
    for (unsigned i = 0; i < s.n_loaders; i++)
        tarn_loader_close(s.loaders[i]);
    free(s.loaders);
    cli_order_arrays_free(&s.arrays);
    cli_sources_close(&s.sources);
    if (code != CLI_OK) return code;
    return status == TARN_OK ? cli_finish() : cli_fail(&err);
}

static const cli_option options[] = {
    {"batch", 'b', "N", "samples per batch of a rank (default 64)"},
    {"epochs", 'e', "N", "number of epochs (default 2)"},
    {"ranks", 0, "N", "ranks of one machine, which share the cache (default 1)"},
    {"nodes", 0, "N", "machines; the first one is simulated (default 1)"},
    {"cache", 0, "SIZE", "an empty cache of this size: 500G, all, none (default)"},
    CLI_FIELDS('f'),
    {"threads", 'j', "N", "threads of the loader (default: all cores)"},
    {"prefetch", 0, "N", "batches in preparation (default: as the loader chooses)"},
    {"", 0, NULL, "The network and the prices"},
    {"latency", 0, "MS", "milliseconds until a response begins (default 30)"},
    {"bandwidth", 0, "SIZE", "bytes per second, such as 1G (default: no limit)"},
    {"connections", 0, "N", "requests of a rank at once (default: as tarn chooses)"},
    {"request-price", 0, "PRICE", "price of 1,000 requests"},
    {"gb-price", 0, "PRICE", "price of 10^9 bytes"},
    {"", 0, NULL, "The order"},
    {"order", 0, "KIND", "shuffle (default), identity, blocks, lengths, weighted, ..."},
    {"seed", 0, "N", "seed of the order (default 0)"},
    {"epoch", 0, "N", "first epoch (default 0)"},
    {"uneven", 0, "HOW", "if the ranks do not divide the count: keep, drop or pad"},
    {"by", 0, "FIELD", "lengths: field to sort by size; balanced, weighted: a number"},
    {"block", 0, "N", "blocks: samples per block (default 1024)"},
    {"chunk", 0, "N", "lengths: samples per chunk (default 256)"},
    {"window", 0, "N", "blocks: number of blocks mixed together (default 16)"},
    {"rounds", 0, "N", "feistel, buckets: rounds of glzn's order (default 3)"},
    {"mix", 0, "N", "buckets: mix shards, with N buckets per shard"},
    {"", 0, NULL, "The dataset and the output"},
    {"index", 0, "FILE", "remote folds: a local .taridx instead of that of the shards"},
    {"key", 0, "COLUMN", "record packs and array files: column with the keys"},
    {"json", 0, NULL, "print the epochs as JSON"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn simulate s3://bucket/birds:train", "requests and bytes of two epochs"},
    {"tarn simulate -b 256 --ranks 8 --cache 500G --bandwidth 2G data/birds:train",
     "a local fold as if it were on a server, 8 ranks with one cache"},
    {"tarn simulate --order blocks --request-price 0.0004 s3://bucket/birds:train",
     "fewer requests, and what they cost"},
    {NULL, NULL}};

const cli_command cli_simulate = {
    .name = "simulate",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "count the requests of a training run before it runs",
    .text =
        "Prints for each epoch how many requests a loader would send for the samples of "
        "a remote dataset, how many bytes would arrive, how many bytes the cache would "
        "have, and how many samples per second the network allows. Only the index is "
        "read. A local dataset is treated as if it were on a server.\n\nThe order of "
        "samples is known in advance, so requests, bytes and hits are not estimated: "
        "they are planned by the code that a loader uses. Not counted are repeated "
        "requests, and the one or two that open the dataset. The time is a model in "
        "which nothing else limits the run, neither decoding nor training. Hits are the "
        "share of the samples' bytes that the cache has; MB is 10^6 bytes.",
    .options = options,
    .examples = examples,
    .run = run,
};
