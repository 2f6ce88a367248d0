/* tarn cache: what is in a cache of remote files; checks and clears it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "out.h"

/* One dataset, or one object of it. */
typedef struct row {
    char *name; /* dataset or URL */
    char *etag, *path;
    uint64_t objects, size, cached, on_disk, old;
    int64_t used;
    bool in_use;
} row;

typedef struct rows {
    row *items;
    size_t count, room;
} rows;

typedef struct listing {
    rows sets, objects; /* objects[i] belongs to the set that its size counts down */
} listing;

static char *copy(const char *text)
{
    char *out = strdup(text);
    if (!out) cli_no_memory();
    return out;
}

static row *add(rows *list)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->items = realloc(list->items, list->room * sizeof *list->items);
        if (!list->items) cli_no_memory();
    }
    row *out = &list->items[list->count++];
    *out = (row){0};
    return out;
}

static void free_rows(rows *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].name);
        free(list->items[i].etag);
        free(list->items[i].path);
    }
    free(list->items);
}

static void count(row *set, const tarn_cache_object *o)
{
    set->objects++;
    set->size += o->object_size;
    set->cached += o->cached;
    set->on_disk += o->on_disk;
    set->old += o->old_version;
    set->used = o->last_used;
    set->in_use |= o->in_use;
}

static tarn_status see(void *context, const tarn_cache_object *o, tarn_error *err)
{
    listing *l = context;
    row *set = l->sets.count ? &l->sets.items[l->sets.count - 1] : NULL;
    (void)err;
    if (!set || strcmp(set->name, o->dataset) != 0) {
        set = add(&l->sets);
        set->name = copy(o->dataset);
    }
    count(set, o);
    row *object = add(&l->objects);
    object->name = copy(o->url);
    object->etag = copy(o->etag[0] ? o->etag : o->modified);
    object->path = copy(o->path);
    count(object, o);
    return TARN_OK;
}

static const char *when(const row *set)
{
    static char text[64];
    struct tm parts;
    time_t at = (time_t)set->used;
    if (set->in_use) return "in use";
    if (!localtime_r(&at, &parts) ||
        !strftime(text, sizeof text, "last used %Y-%m-%d %H:%M", &parts))
        return "last use unknown";
    return text;
}

static void print_object(const row *o)
{
    cli_print("  %s: %llu of %llu bytes, version %s%s\n", o->name,
              (unsigned long long)o->cached, (unsigned long long)o->size, o->etag,
              o->old ? " (old)" : "");
}

static void print_list(const listing *l, bool objects)
{
    uint64_t at = 0, on_disk = 0;
    for (size_t i = 0; i < l->sets.count; i++) {
        const row *s = &l->sets.items[i];
        cli_print("%s: %s, %llu of %llu bytes, %s", s->name,
                  cli_count(s->objects, "object"), (unsigned long long)s->cached,
                  (unsigned long long)s->size, when(s));
        if (s->old) cli_print(", %s", cli_count(s->old, "old version"));
        cli_print("\n");
        for (uint64_t k = 0; k < s->objects; k++, at++)
            if (objects) print_object(&l->objects.items[at]);
        on_disk += s->on_disk;
    }
    cli_print("%s, %s, %s on disk\n", cli_count(l->sets.count, "dataset"),
              cli_count(l->objects.count, "object"), cli_count(on_disk, "byte"));
}

static void json_counts(cli_json *j, const row *r)
{
    cli_json_number(j, "size", r->size);
    cli_json_number(j, "cached", r->cached);
    cli_json_number(j, "on_disk", r->on_disk);
    cli_json_bool(j, "in_use", r->in_use);
}

static void json_object(cli_json *j, const row *o)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "url", o->name);
    cli_json_text(j, "version", o->etag);
    cli_json_text(j, "path", o->path);
    json_counts(j, o);
    cli_json_bool(j, "old", o->old != 0);
    cli_json_close(j, '}');
}

static void print_json(const listing *l)
{
    cli_json j = {.out = stdout};
    uint64_t at = 0;
    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "datasets", '[');
    for (size_t i = 0; i < l->sets.count; i++) {
        const row *s = &l->sets.items[i];
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "dataset", s->name);
        json_counts(&j, s);
        cli_json_number(&j, "last_used", s->used > 0 ? (uint64_t)s->used : 0);
        cli_json_open(&j, "objects", '[');
        for (uint64_t k = 0; k < s->objects; k++, at++)
            json_object(&j, &l->objects.items[at]);
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
    cli_json_line(&j);
}

static int show(const cli_args *args, const char *folder)
{
    tarn_error err;
    listing l = {0};
    tarn_status status = tarn_cache_list(folder, see, &l, &err);
    if (status == TARN_OK && cli_has(args, "json"))
        print_json(&l);
    else if (status == TARN_OK)
        print_list(&l, cli_has(args, "objects"));
    free_rows(&l.sets);
    free_rows(&l.objects);
    return status == TARN_OK ? CLI_OK : cli_fail(&err);
}

/* --- Checking ----------------------------------------------------------------------- */

typedef struct watcher {
    cli_progress progress;
    cli_json json;
} watcher;

static void on_problem(void *context, const tarn_error *what)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    watcher *w = context;
    cli_progress_end(&w->progress);
    if (w->json.out)
        cli_json_problem(&w->json, what);
    else
        cli_print("%s\n", tarn_error_text(what, text, sizeof text));
}

static void print_report(watcher *w, const tarn_cache_verify_report *r, bool repair)
{
    if (w->json.out) {
        cli_json_close(&w->json, ']');
        cli_json_number(&w->json, "objects", r->objects);
        cli_json_number(&w->json, "bytes", r->bytes);
        cli_json_number(&w->json, "problem_count", r->problems);
        cli_json_number(&w->json, "remaining", r->remaining);
        cli_json_close(&w->json, '}');
        cli_json_line(&w->json);
        return;
    }
    cli_print("%s, %s checked: %s", cli_count(r->objects, "object"),
              cli_count(r->bytes, "byte"),
              r->problems ? cli_count(r->problems, "problem") : "all good");
    if (repair && r->problems)
        cli_print(", %llu left after repair", (unsigned long long)r->remaining);
    cli_print("\n");
}

static int verify(const cli_args *args, const char *folder)
{
    tarn_error err;
    tarn_cache_verify_options o = TARN_CACHE_VERIFY_OPTIONS_INIT;
    tarn_cache_verify_report report;
    watcher w = {.json.out = cli_has(args, "json") ? stdout : NULL};
    o.repair = cli_has(args, "repair");
    o.problem = on_problem;
    o.problem_context = &w;
    o.progress = cli_progress_step;
    o.progress_context = &w.progress;
    cli_progress_begin(&w.progress, "verifying", !cli_has(args, "quiet"));
    if (w.json.out) {
        cli_json_open(&w.json, NULL, '{');
        cli_json_open(&w.json, "problems", '[');
    }
    tarn_status status = tarn_cache_verify(folder, &o, &report, sizeof report, &err);
    cli_progress_end(&w.progress);
    if (status != TARN_OK && w.json.out) {
        cli_json_close(&w.json, ']');
        cli_json_close(&w.json, '}');
        cli_json_line(&w.json);
    }
    if (status != TARN_OK) return cli_fail(&err);
    print_report(&w, &report, o.repair);
    return report.remaining ? CLI_DATA : CLI_OK;
}

/* --- Clearing ----------------------------------------------------------------------- */

static void print_cleared(const cli_args *args, const tarn_cache_cleared *done)
{
    cli_json j = {.out = stdout};
    if (cli_has(args, "json")) {
        cli_json_open(&j, NULL, '{');
        cli_json_number(&j, "objects", done->objects);
        cli_json_number(&j, "bytes", done->bytes);
        cli_json_number(&j, "in_use", done->in_use);
        cli_json_number(&j, "left", done->left);
        cli_json_close(&j, '}');
        cli_json_line(&j);
    } else if (!cli_has(args, "quiet")) {
        cli_print("removed %s, %s; %s left\n", cli_count(done->objects, "object"),
                  cli_count(done->bytes, "byte"), cli_count(done->left, "byte"));
    }
    if (done->in_use)
        cli_note("tarn: %s not removed, because a process uses it\n",
                 cli_count(done->in_use, "object"));
}

static int clear(const cli_args *args, const char *folder)
{
    tarn_error err;
    tarn_cache_clear_options o = TARN_CACHE_CLEAR_OPTIONS_INIT;
    tarn_cache_cleared done;
    const char *match = cli_value(args, "clear");
    if (match && match[0]) o.match = match;
    o.old_versions = cli_has(args, "clear-old");
    if (!cli_size(args, "limit", &o.down_to)) return CLI_USAGE;
    tarn_status status = tarn_cache_clear(folder, &o, &done, sizeof done, &err);
    if (status != TARN_OK) return cli_fail(&err);
    print_cleared(args, &done);
    return CLI_OK;
}

static int run(const cli_args *args)
{
    const char *folder = args->n_words ? args->words[0] : getenv("TARN_CACHE");
    bool removes =
        cli_has(args, "clear") || cli_has(args, "clear-old") || cli_has(args, "limit");
    if (!folder || !folder[0])
        return cli_usage(args->command,
                         "FOLDER is missing, and TARN_CACHE is not set in the "
                         "environment");
    if (removes && cli_has(args, "verify"))
        return cli_usage(args->command, "--verify does not go with --clear, --clear-old "
                                        "and --limit");
    if (cli_has(args, "repair") && !cli_has(args, "verify"))
        return cli_usage(args->command, "--repair works only with --verify");
    if (cli_has(args, "objects") && (removes || cli_has(args, "verify")))
        return cli_usage(args->command, "--objects works only for the list");
    if (removes) return clear(args, folder);
    return cli_has(args, "verify") ? verify(args, folder) : show(args, folder);
}

static const cli_option options[] = {
    {"objects", 'l', NULL, "also list the objects of each dataset"},
    {"verify", 0, NULL, "compare all bytes with their checksums"},
    {"repair", 0, NULL, "--verify: drop damaged bytes, so that they are fetched again"},
    {"clear", 0, "[=GLOB]", "remove all objects, or those whose URL or dataset matches"},
    {"clear-old", 0, NULL, "remove versions of objects that have a newer one"},
    {"limit", 0, "SIZE",
     "remove datasets, the longest unused first, until at most SIZE is left (20G)"},
    {"json", 0, NULL, "print the result as JSON"},
    {"quiet", 'q', NULL, "no progress bar, no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn cache /scratch/cache", "the datasets in a cache"},
    {"tarn cache /scratch/cache --objects", "and their objects, with versions"},
    {"tarn cache /scratch/cache --verify --repair", "check all bytes"},
    {"tarn cache /scratch/cache --clear='s3://bucket/birds*'", "remove one dataset"},
    {"tarn cache /scratch/cache --limit 200G", "remove what was not used for long"},
    {NULL, NULL}};

const cli_command cli_cache = {
    .name = "cache",
    .words = "[FOLDER]",
    .min_words = 0,
    .max_words = 1,
    .summary = "list, check and clear a cache of remote files",
    .text =
        "Datasets at URLs keep what they fetch in a cache folder, if you give one. For "
        "each version of an object there is a file with the same offsets. This command "
        "lists datasets, the longest unused first, with the number of bytes that are "
        "cached. Without FOLDER, the folder in the environment variable TARN_CACHE is "
        "used.\n\nThe files are in FOLDER/tarn-cache-1, those of indexes in "
        "FOLDER/index. "
        "--objects --json prints their paths; a file with all bytes is the object, and "
        "any program can read it.\n\n"
        "--verify compares all bytes with the checksums that were stored when they "
        "arrived. The exit status is 1 if there is a problem. --repair drops the damaged "
        "bytes, and removes damaged indexes.\n\n--clear, --clear-old and --limit remove "
        "objects. Together, an object "
        "is removed only if all of them agree. What a process has open is not removed, "
        "except indexes, whose copy in memory the process keeps. --limit removes indexes "
        "last. "
        "All of this may be done while the cache is in use. Other files in FOLDER are "
        "never touched.",
    .options = options,
    .examples = examples,
    .run = run,
};
