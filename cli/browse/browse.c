/* tarn browse: opens the dataset, and serves a page about it or writes one to a file. */
#include <stdlib.h>
#include <string.h>

#include "browse.h"

/* --- The first view ------------------------------------------------------------------
 */

static void put_encoded(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s%s=", ftell(out) > 0 ? "&" : "", name);
    for (; *value; value++)
        if (strchr("-._~:", *value) || (*value >= '0' && *value <= '9') ||
            (*value >= 'A' && *value <= 'Z') || (*value >= 'a' && *value <= 'z'))
            fputc(*value, out);
        else
            fprintf(out, "%%%02X", (unsigned char)*value);
}

/* RANK/WORLD as two arguments, which are checked with the view. */
static void put_rank(FILE *out, const char *value)
{
    size_t len = strcspn(value, "/");
    char *rank = strndup(value, len);
    if (!rank) cli_no_memory();
    put_encoded(out, "rank", rank);
    put_encoded(out, "world", value[len] ? value + len + 1 : "");
    free(rank);
}

/* The options of the order as the arguments of a view, then --view. */
static char *view_of(const cli_args *args)
{
    static const char *const same[] = {"order", "seed",   "epoch",   "by",  "block",
                                       "batch", "uneven", "batches", "step"};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) cli_no_memory();
    if (!cli_has(args, "order") && (cli_has(args, "seed") || cli_has(args, "step")))
        put_encoded(out, "order", "shuffle");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (cli_has(args, same[i])) put_encoded(out, same[i], cli_value(args, same[i]));
    if (cli_has(args, "rank")) put_rank(out, cli_value(args, "rank"));
    const char *view = cli_value(args, "view");
    if (view && view[0] == '#') view++;
    if (view) fprintf(out, "%s%s", ftell(out) > 0 ? "&" : "", view);
    if (fclose(out) != 0 || !text) cli_no_memory();
    return text;
}

/* A view that does not exist is an error now and not on the page. */
static int check_view(browser *b, const char *view)
{
    char *uri = NULL;
    browse_query q;
    browse_view *opened;
    browse_answer a = {0};
    if (asprintf(&uri, "/x/?%s", view) < 0) cli_no_memory();
    bool good = browse_query_parse(uri, &q);
    free(uri);
    if (!good)
        return cli_usage(b->args->command, "--view is not the end of a page's address");
    good = browse_view_open(b, &q, &opened, &a);
    if (good)
        browse_view_close(b, opened);
    else
        cli_usage(b->args->command, "%s", a.why);
    free(a.body);
    browse_query_free(&q);
    return good ? CLI_OK : CLI_USAGE;
}

/* --- Opening -------------------------------------------------------------------------
 */

static int check_words(const cli_args *args)
{
    for (int i = 0; i < args->n_words; i++)
        if (cli_is_stream(args->words[i]))
            return cli_usage(args->command,
                             "%s is a stream, which cannot be read in any order; name a "
                             "fold, an .iac or a .gnz",
                             cli_shown(args->words[i]));
    if (args->n_words > 1 && !cli_has(args, "weights"))
        return cli_usage(args->command,
                         "%d datasets need --weights, with one number for each, as in "
                         "3,1",
                         args->n_words);
    return CLI_OK;
}

/* Replaces the dataset by the samples of --list, in that order. */
static int choose_listed(browser *b)
{
    const char *value = cli_value(b->args, "list");
    cli_list keys;
    tarn_error err;
    if (!value) return CLI_OK;
    if (!cli_list_get(value, &keys)) return CLI_DATA;
    uint64_t *samples = calloc(keys.count + 1, sizeof *samples);
    if (!samples) cli_no_memory();
    tarn_status status =
        tarn_dataset_find(b->all, keys.items, keys.count, samples, NULL, &err);
    if (status == TARN_OK)
        status = tarn_dataset_select(b->all, samples, keys.count, &b->listed, &err);
    free(samples);
    cli_list_free(&keys);
    if (status != TARN_OK) return cli_fail(&err);
    b->all = b->listed;
    return CLI_OK;
}

static bool has_checksums(const browser *b)
{
    tarn_fold_info fold;
    tarn_index_info index;
    if (b->sources.n != 1 || b->info.remote || cli_has(b->args, "weights")) return false;
    if (tarn_dataset_fold(b->all, &fold, sizeof fold, NULL) != TARN_OK) return false;
    tarn_index_info_get(fold.index, &index, sizeof index);
    return fold.index_path && index.has_sums && index.has_checksums;
}

static char *title_of(const cli_args *args)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) cli_no_memory();
    for (int i = 0; i < args->n_words; i++)
        fprintf(out, "%s%s", i ? " + " : "", cli_shown(args->words[i]));
    if (fclose(out) != 0 || !text) cli_no_memory();
    return text;
}

static int open_all(browser *b)
{
    int status = check_words(b->args);
    if (status == CLI_OK) status = cli_sources_open(b->args, TARN_KEYS_BASE, &b->sources);
    if (status != CLI_OK) return status;
    b->all =
        b->sources.mix.dataset ? b->sources.mix.dataset : b->sources.parts[0].dataset;
    status = choose_listed(b);
    tarn_dataset_info_get(b->all, &b->info, sizeof b->info);
    b->has_checksums = has_checksums(b);
    if (status == CLI_OK && cli_has(b->args, "problems"))
        status = browse_problems_read(cli_value(b->args, "problems"), &b->problems);
    return status;
}

static void close_all(browser *b)
{
    browse_views_free(b);
    tarn_dataset_close(b->checked);
    tarn_dataset_close(b->listed);
    cli_sources_close(&b->sources);
    browse_problems_free(&b->problems);
}

static int show(browser *b, const char *view)
{
    unsigned port = 0;
    uint64_t count = 120;
    const char *output = cli_value(b->args, "output");
    bool notebook = cli_has(b->args, "notebook");
    if (!cli_number(b->args, "port", &port) || !cli_number64(b->args, "count", &count))
        return CLI_USAGE;
    if (port > 65535) return cli_usage(b->args->command, "--port is at most 65535");
    if (cli_has(b->args, "count") && !output)
        return cli_usage(b->args->command, "--count works only with -o");
    int status = check_view(b, view);
    if (status != CLI_OK) return status;
    if (output) return browse_sheet(b, view, output, count);
    if (notebook)
        b->frame = "http://localhost:* http://127.0.0.1:* https://localhost:* "
                   "https://127.0.0.1:* vscode-webview:";
    return browse_serve(b, view, port, !notebook && !cli_has(b->args, "no-open"),
                        notebook);
}

static int run(const cli_args *args)
{
    browser b = {.args = args};
    char *title = title_of(args), *view = view_of(args);
    b.title = title;
    pthread_mutex_init(&b.lock, NULL);
    pthread_mutex_init(&b.heavy, NULL);
    pthread_mutex_init(&b.counting, NULL);
    int status = open_all(&b);
    if (status == CLI_OK) status = show(&b, view);
    close_all(&b);
    pthread_mutex_destroy(&b.lock);
    pthread_mutex_destroy(&b.heavy);
    pthread_mutex_destroy(&b.counting);
    free(title);
    free(view);
    return status;
}

static const cli_option options[] = {
    {"no-open", 0, NULL, "print the address only; do not open a browser"},
    {"port", 0, "N", "listen on this port (default: any that is free)"},
    {"output", 'o', "FILE", "write one page without a server instead: a contact sheet"},
    {"count", 0, "N", "-o: number of samples (default 120)"},
    {"problems", 0, "FILE",
     "keys of samples with problems, one per line, with an optional tab and reason"},
    {"view", 0, "TEXT", "what to show first: the part after # of a page's address"},
    {"list", 0, "LIST", "only these keys, in this order: a,b or @FILE"},
    {"notebook", 0, NULL,
     "for the Python package: allow frames of notebooks on this machine, and end with "
     "standard input"},
    {"step", 0, "N", "show only the batch of this step of a run"},
    {"batch", 0, "N", "--step: samples in a batch of a rank (default 64)"},
    {"batches", 0, "HOW", "--step: equal, full or short; see tarn at"},
    {"order", 0, "KIND", "identity, shuffle, blocks, lengths, balanced, weighted, ..."},
    {"seed", 0, "N", "seed of the order (default 0)"},
    {"epoch", 0, "N", "epoch of the order (default 0)"},
    {"rank", 0, "R/W", "only the samples of rank R of W"},
    {"uneven", 0, "HOW", "if W does not divide the count: keep (default), drop or pad"},
    {"by", 0, "FIELD",
     "lengths: field to sort by size; balanced, weighted: numeric field"},
    {"block", 0, "N", "blocks: samples per block (default 1024)"},
    {"weights", 0, "LIST", "one number for each of several PATHs, which are mixed"},
    CLI_FIELDS('f'),
    {"samples", 0, "LIST", "only these keys: a,b or @FILE"},
    CLI_WITHOUT,
    {"key", 0, "NAME", ".iac, .gnz: column or array with the keys"},
    CLI_KEYS,
    {"lenient", 0, NULL, "without an index: skip damaged parts"},
    CLI_REMOTE,
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn browse data/birds:train", "look at a fold"},
    {"tarn browse data/birds:train --seed 7 --rank 3/8 --batch 64 --step 12400",
     "what rank 3 of 8 sees at a step"},
    {"tarn browse data/birds:train --problems bad.txt --view 'f=problems'",
     "the samples that tarn verify --decode --bad-keys bad.txt found"},
    {"tarn browse tiles.iac -o page.html", "a page to send to others"},
    {NULL, NULL}};

const cli_command cli_browse = {
    .name = "browse",
    .words = "PATH...",
    .min_words = 1,
    .max_words = 1024,
    .summary = "look at samples in a web browser",
    .text =
        "Serves a page about a dataset until Ctrl-C, and opens it in a browser. The page "
        "shows the samples in any order, searches keys, shows all fields of a sample, "
        "counts, filters, and exports a selection. The server listens on this machine "
        "only, and its address has a random token: nobody without the address can use "
        "it.\n\nThe order of the samples is that of the file unless --order, --seed or "
        "--step is given; all of it can be changed on the page. A view is in the address "
        "of the page after #, and --view shows the same again.\n\nWith -o, the first "
        "samples of the view are written to one HTML file, with small pictures and "
        "without scripts.",
    .options = options,
    .examples = examples,
    .run = run,
};
