/* tarn bench: how fast this machine reads this data, and which stage is the
 * bottleneck. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* One way to read the data. */
typedef struct job {
    const char *name;
    const char *meaning;
    tarn_order_kind order;
    bool single; /* one sample after the other, without a loader */
    bool decode;
    bool resize;
} job;

static const job jobs[] = {
    {"sequential", "batches in stored order", TARN_ORDER_IDENTITY, false, false, false},
    {"random", "one sample at a time, shuffled", TARN_ORDER_SHUFFLE, true, false, false},
    {"batches", "batches, shuffled", TARN_ORDER_SHUFFLE, false, false, false},
    {"decode", "batches, shuffled and decoded", TARN_ORDER_SHUFFLE, false, true, false},
    {"resize", "the same, with images resized to one size", TARN_ORDER_SHUFFLE, false,
     true, true},
};
enum { N_JOBS = sizeof jobs / sizeof *jobs, MAX_COUNTS = 32 };

typedef struct bench {
    const char *path;
    cli_list fields;
    const char **names; /* fields, ends with NULL; NULL for all */
    bool own_names;     /* each must be freed */
    tarn_dataset *set;
    unsigned batch;
    double seconds;
    unsigned side;
    unsigned counts[MAX_COUNTS]; /* numbers of threads */
    size_t n_counts;
    bool cold;
    cli_json json;
} bench;

typedef struct result {
    double seconds;
    uint64_t samples, bytes, skipped;
    tarn_loader_stats stats;
    const char *slow;
} result;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- Opening ----------------------------------------------------------------------- */

static tarn_status open_set(bench *b, bool cold, tarn_error *err)
{
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.fields = b->names;
    o.scan = true;
    o.cold = cold;
    cli_remote_options(b->path, &o);
    TARN_TRY(tarn_dataset_open(b->path, &o, &b->set, err));
    cli_note_cache(b->set);
    return TARN_OK;
}

/* If samples have different fields, uses the most common set. */
static tarn_status choose_fields(bench *b, tarn_error *err)
{
    tarn_field_sets *sets;
    if (b->names) return TARN_OK;
    TARN_TRY(tarn_dataset_field_sets(b->set, &sets, err));
    if (sets->count > 1) {
        const tarn_field_set *most = sets->sets[0];
        b->names = calloc(most->n_fields + 1, sizeof *b->names);
        for (size_t i = 0; b->names && i < most->n_fields; i++)
            b->names[i] = strdup(most->fields[i]);
        b->own_names = true;
        tarn_dataset_close(b->set);
        b->set = NULL;
    }
    tarn_field_sets_free(sets);
    return b->set ? TARN_OK : open_set(b, false, err);
}

/* Drops the files from the page cache. Mapped pages stay cached, so the dataset is
 * reopened. */
static tarn_status evict(bench *b, bool cold, tarn_error *err)
{
    tarn_dataset_info info;
    tarn_dataset_info_get(b->set, &info, sizeof info);
    char **paths = calloc((size_t)info.shards + 1, sizeof *paths);
    size_t n = 0;
    const char *last = NULL;
    for (uint64_t i = 0; paths && i < info.samples; i++) {
        tarn_place place;
        if (tarn_dataset_locate(b->set, i, TARN_NO_FIELD, &place, sizeof place, NULL) !=
                TARN_OK ||
            place.path == last)
            continue;
        const char *path = last = place.path;
        bool known = false;
        for (size_t k = n; k-- > 0 && !known;)
            known = strcmp(paths[k], path) == 0;
        if (!known && n < info.shards) paths[n++] = strdup(path);
    }
    tarn_dataset_close(b->set);
    b->set = NULL;
    for (size_t i = 0; i < n; i++) {
        int fd = paths[i] ? open(paths[i], O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0) {
            (void)fdatasync(fd);
            (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            close(fd);
        }
        free(paths[i]);
    }
    free(paths);
    return open_set(b, cold, err);
}

static bool has_images(const tarn_dataset *set)
{
    static const char *const kinds[] = {"jpg", "jpeg", "png", "webp",
                                        "jxl", "ppm",  "img"};
    for (uint32_t i = 0; tarn_dataset_field(set, i); i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (cli_field_is(tarn_dataset_field(set, i), kinds[k])) return true;
    return false;
}

/* --- Measuring --------------------------------------------------------------------- */

/* The samples in the order of a job; the caller frees it. */
static tarn_status order_set(const bench *b, const job *j, tarn_dataset **out,
                             tarn_error *err)
{
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    o.kind = j->order;
    return tarn_dataset_order(b->set, &o, out, err);
}

static tarn_status run_single(const bench *b, const job *j, result *r, tarn_error *err)
{
    tarn_dataset *set;
    uint64_t count = tarn_dataset_count(b->set), sum = 0;
    uint32_t fields = 0;
    while (tarn_dataset_field(b->set, fields))
        fields++;
    TARN_TRY(order_set(b, j, &set, err));
    tarn_view *views = calloc(fields ? fields : 1, sizeof *views);
    tarn_status status = views ? TARN_OK : TARN_ERR_MEMORY;
    double start = now();
    for (uint64_t i = 0; status == TARN_OK && r->seconds < b->seconds; i++) {
        status = tarn_dataset_get_all(set, i % count, views, NULL, err);
        for (uint32_t f = 0; status == TARN_OK && f < fields; f++) {
            for (size_t k = 0; k < views[f].size; k += 64)
                sum += views[f].data[k];
            r->bytes += views[f].size;
        }
        if (status == TARN_OK)
            status = tarn_dataset_release(set, i % count, views, fields, err);
        r->samples++;
        if (i % 64 == 63 || b->cold) r->seconds = now() - start;
    }
    r->seconds = now() - start;
    /* Keeps the compiler from removing the reads. */
    if (sum == UINT64_MAX) r->samples++;
    r->slow = "read";
    free(views);
    tarn_dataset_close(set);
    return status;
}

static tarn_status open_loader(const bench *b, const job *j, unsigned threads,
                               tarn_loader **out, tarn_error *err)
{
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    uint32_t n = 0;
    while (tarn_dataset_field(b->set, n))
        n++;
    tarn_load_field *fields = calloc(n ? n : 1, sizeof *fields);
    if (!fields) return TARN_ERR_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        fields[i] = (tarn_load_field){tarn_dataset_field(b->set, i),
                                      j->decode ? TARN_LOAD_AUTO : TARN_LOAD_BYTES, NULL};
    steps.width = steps.height = b->side;
    o.batch = b->batch;
    o.threads = threads;
    o.on_error = TARN_ON_ERROR_SKIP;
    o.fields = fields;
    o.n_fields = n;
    if (j->resize) o.image = &steps;
    tarn_dataset *set = NULL;
    tarn_status status = order_set(b, j, &set, err);
    if (status == TARN_OK) status = tarn_loader_open(set, &o, out, err);
    tarn_dataset_close(set);
    free(fields);
    return status;
}

static tarn_status run_loader(const bench *b, const job *j, unsigned threads, result *r,
                              tarn_error *err)
{
    tarn_loader *l;
    tarn_status status;
    unsigned ends = 0;
    TARN_TRY(open_loader(b, j, threads, &l, err));
    double start = now();
    do {
        tarn_batch *batch;
        status = tarn_loader_next(l, TARN_NO_TIMEOUT, &batch, err);
        if (status == TARN_OK) tarn_batch_release(batch);
        if (status == TARN_END) ends++;
        r->seconds = now() - start;
        tarn_loader_stats_get(l, &r->stats, sizeof r->stats);
        if (status == TARN_END) status = TARN_OK;
        /* Nothing could be read, or the data is now warm. */
        if (ends && (r->stats.samples == 0 || b->cold)) break;
    } while (status == TARN_OK && r->seconds < b->seconds);
    r->samples = r->stats.samples;
    r->bytes = r->stats.bytes;
    r->skipped = r->stats.skipped;
    r->slow = r->stats.decode > r->stats.read ? "decode" : "read";
    tarn_loader_close(l);
    return status;
}

/* --- Showing ----------------------------------------------------------------------- */

static void show_head(const bench *b)
{
    tarn_dataset_info info;
    tarn_dataset_info_get(b->set, &info, sizeof info);
    cli_print("%s: %s in %s, batches of %u, fields", cli_shown(b->path),
              cli_count(info.samples, "sample"), cli_count(info.shards, "file"),
              b->batch);
    for (uint32_t i = 0; i < info.fields; i++) {
        char shown[200];
        const char *name = tarn_dataset_field(b->set, i);
        cli_print(" %s", tarn_printable(shown, sizeof shown, name, strlen(name)));
    }
    cli_print("\n\n%-10s %-5s %7s %12s %9s %6s %6s  %s\n", "", "", "threads", "samples/s",
              "MB/s", "read", "decode", "slow");
}

static double share(double part, double all)
{
    return all > 0 ? 100 * part / all : 0;
}

static void show_row(const job *j, const char *state, unsigned threads, const result *r)
{
    double busy = r->stats.read + r->stats.decode;
    cli_print("%-10s %-5s %7u %12.0f %9.0f ", j->name, state, threads,
              (double)r->samples / r->seconds, (double)r->bytes / r->seconds / 1e6);
    if (j->single)
        cli_print("%6s %6s  read", "", "");
    else
        cli_print("%5.0f%% %5.0f%%  %s", share(r->stats.read, busy),
                  share(r->stats.decode, busy), r->slow);
    if (r->skipped) cli_print("  (%s skipped)", cli_count(r->skipped, "bad sample"));
    putchar('\n');
    fflush(stdout);
}

static void show_json(bench *b, const job *j, const char *state, unsigned threads,
                      const result *r)
{
    cli_json *o = &b->json;
    char text[64];
    cli_json_open(o, NULL, '{');
    cli_json_text(o, "job", j->name);
    cli_json_text(o, "state", state);
    cli_json_number(o, "threads", threads);
    cli_json_number(o, "samples", r->samples);
    cli_json_number(o, "bytes", r->bytes);
    cli_json_number(o, "skipped", r->skipped);
    int len = snprintf(text, sizeof text, "%.6f", r->seconds);
    cli_json_raw(o, "seconds", text, (size_t)len);
    len = snprintf(text, sizeof text, "%.6f", r->stats.read);
    cli_json_raw(o, "read", text, (size_t)len);
    len = snprintf(text, sizeof text, "%.6f", r->stats.decode);
    cli_json_raw(o, "decode", text, (size_t)len);
    cli_json_text(o, "slow", r->slow);
    cli_json_close(o, '}');
}

/* --- All of it --------------------------------------------------------------------- */

static tarn_status run_one(bench *b, const job *j, bool cold, unsigned threads,
                           result *out, tarn_error *err)
{
    *out = (result){0};
    b->cold = cold;
    if (cold) TARN_TRY(evict(b, true, err));
    if (j->single) return run_single(b, j, out, err);
    return run_loader(b, j, threads, out, err);
}

static tarn_status run_state(bench *b, bool cold, result *best, tarn_error *err)
{
    const char *state = cold ? "cold" : "warm";
    for (size_t i = 0; i < N_JOBS; i++) {
        const job *j = &jobs[i];
        if (j->resize && !has_images(b->set)) continue;
        for (size_t k = 0; k < (j->single ? 1 : b->n_counts); k++) {
            result r;
            unsigned threads = j->single ? 1 : b->counts[k];
            /* An untimed run first, so that the data is warm. */
            double seconds = b->seconds;
            if (!cold) {
                b->seconds /= 4;
                TARN_TRY(run_one(b, j, cold, threads, &r, err));
                b->seconds = seconds;
            }
            TARN_TRY(run_one(b, j, cold, threads, &r, err));
            if (b->json.out)
                show_json(b, j, state, threads, &r);
            else
                show_row(j, state, threads, &r);
            if (!cold) *best = r;
        }
    }
    return TARN_OK;
}

static const char *advice(const bench *b, bool decode)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool more = cores > 0 && b->counts[b->n_counts - 1] < (unsigned long)cores;
    if (!decode) return "More threads help until memory or disk are saturated.";
    if (!has_images(b->set))
        return more ? "More threads help." : "As many threads as cores were busy.";
    return more ? "More threads help, or smaller images."
                : "As many threads as cores were busy; smaller images help.";
}

static void conclude(const bench *b, const result *r)
{
    double busy = r->stats.read + r->stats.decode;
    if (busy <= 0) return;
    bool decode = strcmp(r->slow, "decode") == 0;
    cli_print(
        "\nThe bottleneck is %s: %.0f %% of the threads' time in the last row. %s\n",
        decode ? "decoding" : "reading",
        share(decode ? r->stats.decode : r->stats.read, busy), advice(b, decode));
}

/* 1, 2, 4, ... and most itself. */
static void count_threads(bench *b, unsigned most)
{
    for (unsigned n = 1; n < most && b->n_counts < MAX_COUNTS - 1; n *= 2)
        b->counts[b->n_counts++] = n;
    b->counts[b->n_counts++] = most;
}

static int take_options(const cli_args *args, bench *b)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = cores > 0 ? (unsigned)cores : 1, seconds = 1;
    b->batch = 64;
    b->side = 224;
    if (!cli_number(args, "threads", &most) || !cli_number(args, "batch", &b->batch) ||
        !cli_number(args, "seconds", &seconds) || !cli_number(args, "side", &b->side))
        return CLI_USAGE;
    if (most == 0 || b->batch == 0 || seconds == 0 || b->side == 0)
        return cli_usage(args->command,
                         "--threads, --batch, --seconds and --side must be at least 1");
    b->seconds = seconds;
    count_threads(b, most);
    const char *fields = cli_value(args, "fields");
    if (!fields) return CLI_OK;
    if (!cli_list_get(fields, &b->fields)) return CLI_USAGE;
    b->names = calloc(b->fields.count + 1, sizeof *b->names);
    if (!b->names) return CLI_DATA;
    memcpy(b->names, b->fields.items, b->fields.count * sizeof *b->names);
    return CLI_OK;
}

static int run(const cli_args *args)
{
    tarn_error err;
    bench b = {.path = args->words[0]};
    result best = {0};
    int code = take_options(args, &b);
    if (code != CLI_OK) return code;
    tarn_status status = open_set(&b, false, &err);
    if (status == TARN_OK) status = choose_fields(&b, &err);
    if (status == TARN_OK && tarn_dataset_count(b.set) == 0) {
        cli_note("tarn bench: %s has no samples\n", b.path);
        tarn_dataset_close(b.set);
        return CLI_DATA;
    }
    if (status == TARN_OK && cli_has(args, "json")) {
        b.json.out = stdout;
        cli_json_open(&b.json, NULL, '[');
    } else if (status == TARN_OK) {
        show_head(&b);
    }
    if (status == TARN_OK) status = run_state(&b, false, &best, &err);
    if (status == TARN_OK && cli_has(args, "cold"))
        status = run_state(&b, true, &best, &err);
    if (status == TARN_OK && b.json.out) {
        cli_json_close(&b.json, ']');
        cli_json_line(&b.json);
    } else if (status == TARN_OK) {
        conclude(&b, &best);
    }
    tarn_dataset_close(b.set);
    cli_list_free(&b.fields);
    for (size_t i = 0; b.own_names && b.names && b.names[i]; i++)
        free((void *)(uintptr_t)b.names[i]);
    free(b.names);
    return status == TARN_OK ? cli_finish() : cli_fail(&err);
}

static const cli_option options[] = {
    {"fields", 'f', "LIST", "read only these fields (default: all)"},
    {"batch", 'b', "N", "samples per batch (default 64)"},
    {"threads", 'j', "N", "test with 1, 2, 4, ... N threads (default: all cores)"},
    {"seconds", 's', "N", "seconds per row (default 1)"},
    {"side", 0, "N", "size to which images are resized, in pixels (default 224)"},
    {"cold", 0, NULL, "also measure with the files removed from the page cache"},
    CLI_REMOTE,
    {"json", 0, NULL, "print the rows as JSON"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn bench data/birds:train", "all cores, data in memory"},
    {"tarn bench --cold -j 4 data/birds:train", "also measure the disk"},
    {"tarn bench -f jpg,cls -b 256 data/birds:train",
     "the fields and batch size of a training run"},
    {NULL, NULL}};

const cli_command cli_bench = {
    .name = "bench",
    .words = "PATH",
    .min_words = 1,
    .max_words = 1,
    .summary = "measure read speed and find the slow stage",
    .text = "Reads the samples of a dataset (a fold, a tar, an array file or a record "
            "pack) as a training run would. Prints samples per second and megabytes of "
            "stored data per second for 1, 2, 4, ... threads:\n\nsequential: batches in "
            "stored order. random: one sample at a time, shuffled. batches: shuffled, "
            "not decoded. decode: shuffled and decoded. resize: also resizes images to "
            "one size.\n\nThe columns read and decode are shares of the time that the "
            "loader's threads worked; slow names the larger of the two. Warm rows are "
            "measured after an untimed warm-up of a quarter of the time. Before each "
            "cold row, the files are dropped from the page cache, which needs no special "
            "permissions. A cold row ends after the first epoch at the latest.",
    .options = options,
    .examples = examples,
    .run = run,
};
