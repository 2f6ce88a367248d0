/* tarn pack: files, manifests and tar streams into shards with an index. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arrays.h"
#include "feed.h"

typedef struct packing {
    const cli_args *args;
    const char *target;
    cli_out out;
    const char *names[CLI_MAX_PARTS];
    double fractions[CLI_MAX_PARTS]; /* of the parts behind the first */
    size_t n_parts;
    uint64_t seed, shuffle;
    unsigned threads;
    tarn_collection *collection;
    uint64_t told; /* notices so far */
} packing;

enum { MAX_TOLD = 5 };

static bool is_manifest(const char *path)
{
    return cli_ends_with(path, ".csv") || cli_ends_with(path, ".tsv") ||
           cli_ends_with(path, ".jsonl") || cli_ends_with(path, ".ndjson");
}

/* --- What was asked for ------------------------------------------------------------ */

static int take_parts(packing *p)
{
    static const char *const foreign[] = {
        "as",  "metadata", "checksums", "header-pages", "reserve",
        "add", "codec",    "version",   "header",       NULL};
    const char *const more[] = {"val", "test"};
    const char *fold = cli_value(p->args, "fold");
    /* As "$UNSET" in a script leaves it: not the folder one happens to be in. */
    if (p->target && !*p->target) return cli_usage(p->args->command, "--output is empty");
    int refused = cli_refuse(p->args, "samples", foreign);
    if (refused != CLI_OK) return refused;
    p->names[0] = fold ? fold : "train";
    p->n_parts = 1;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        double fraction = 0;
        if (!cli_fraction(p->args, more[i], &fraction)) return CLI_USAGE;
        if (!cli_has(p->args, more[i])) continue;
        if (strcmp(p->names[0], more[i]) == 0)
            return cli_usage(p->args->command, "--fold %s and --%s are the same fold",
                             p->names[0], more[i]);
        p->fractions[p->n_parts - 1] = fraction;
        p->names[p->n_parts++] = more[i];
    }
    if (p->n_parts > 2 && p->fractions[0] + p->fractions[1] > 1)
        return cli_usage(p->args->command, "--val and --test are more than all samples");
    if (!cli_seed(p->args, "seed", &p->seed) ||
        !cli_seed(p->args, "shuffle", &p->shuffle) ||
        !cli_number(p->args, "threads", &p->threads))
        return CLI_USAGE;
    return CLI_OK;
}

/* Files that are passed over: the first few by name, the rest by number. */
static void tell(void *context, const tarn_error *what)
{
    packing *p = context;
    if (p->told++ < MAX_TOLD) cli_warn(NULL, what);
}

/* --- Files and manifests ----------------------------------------------------------- */

static tarn_status add_word(packing *p, const char *word, tarn_error *err)
{
    if (cli_is_folder(word)) return tarn_collection_add_folder(p->collection, word, err);
    if (is_manifest(word)) return tarn_collection_add_manifest(p->collection, word, err);
    return tarn_collection_add_file(p->collection, word, err);
}

static tarn_status collect(packing *p, tarn_error *err)
{
    for (int i = 0; i < p->args->n_words; i++)
        TARN_TRY(add_word(p, p->args->words[i], err));
    TARN_TRY(tarn_collection_group(p->collection, err));
    TARN_TRY(
        tarn_collection_split(p->collection, p->fractions, p->n_parts - 1, p->seed, err));
    return cli_has(p->args, "shuffle")
               ? tarn_collection_shuffle(p->collection, p->shuffle, err)
               : TARN_OK;
}

static void count_parts(const packing *p, uint64_t counts[CLI_MAX_PARTS])
{
    unsigned part;
    memset(counts, 0, CLI_MAX_PARTS * sizeof *counts);
    for (uint64_t i = 0; tarn_collection_key(p->collection, i, &part); i++)
        counts[part]++;
}

static int show_plan(const packing *p)
{
    tarn_collection_info info;
    uint64_t counts[CLI_MAX_PARTS];
    char shown[200];
    tarn_collection_info_get(p->collection, &info);
    count_parts(p, counts);
    printf("%s from %s and %s; nothing is written\n", cli_count(info.samples, "sample"),
           cli_count(info.files, "file"), cli_count(info.values, "value"));
    for (size_t i = 0; i < p->n_parts; i++)
        printf("  fold %s: %s\n", p->names[i], cli_count(counts[i], "sample"));
    printf("  fields:");
    for (uint32_t i = 0; i < info.fields; i++) {
        const char *name = tarn_collection_field(p->collection, i);
        printf("%s %s", i ? "," : "",
               tarn_printable(shown, sizeof shown, name, strlen(name)));
    }
    printf("\n");
    for (uint64_t i = 0; i < 3 && i < info.samples; i++) {
        unsigned part;
        const char *key = tarn_collection_key(p->collection, i, &part);
        printf("  %s -> %s\n", tarn_printable(shown, sizeof shown, key, strlen(key)),
               p->names[part]);
    }
    if (info.classes) printf("  classes: %u\n", info.classes);
    return CLI_OK;
}

static char *classes_path(const char *folder)
{
    size_t size = strlen(folder) + sizeof "/classes.txt";
    char *path = malloc(size);
    if (!path) cli_no_memory();
    snprintf(path, size, "%s/classes.txt", folder);
    return path;
}

/* A class has the number it has in the folds that are there. */
static int keep_classes(packing *p)
{
    tarn_error err;
    cli_list list;
    int status = CLI_OK;
    if (!p->target || !cli_has(p->args, "class-from-dir")) return CLI_OK;
    char *folder = cli_out_folder(p->target), *path = classes_path(folder), *from = NULL;
    if (access(path, F_OK) == 0 && asprintf(&from, "@%s", path) < 0) cli_no_memory();
    if (from && !cli_list_get(from, &list)) status = CLI_DATA;
    for (size_t i = 0; from && status == CLI_OK && i < list.count; i++)
        if (tarn_collection_add_class(p->collection, list.items[i], &err) != TARN_OK) {
            fprintf(stderr, "tarn: %s: %s\n", path, err.message);
            status = CLI_DATA;
        }
    if (from) cli_list_free(&list);
    free(from);
    free(path);
    free(folder);
    return status;
}

/* Class numbers mean something only with their names: one on each line. They come before
 * the shards, so that who resumes finds them. */
static tarn_status write_classes(const packing *p, tarn_error *err)
{
    tarn_collection_info info;
    tarn_collection_info_get(p->collection, &info);
    if (!info.classes || !p->out.folds) return TARN_OK;
    char *path = classes_path(p->out.target);
    tarn_sink_options o = TARN_SINK_OPTIONS_INIT;
    o.overwrite = true;
    tarn_sink *sink;
    tarn_status status = tarn_sink_open(path, &o, &sink, err);
    free(path);
    TARN_TRY(status);
    for (uint32_t i = 0; status == TARN_OK && i < info.classes; i++) {
        const char *name = tarn_collection_class(p->collection, i);
        status = tarn_sink_write(sink, name, strlen(name), err);
        if (status == TARN_OK) status = tarn_sink_write(sink, "\n", 1, err);
    }
    if (status == TARN_OK) return tarn_sink_finish(sink, err);
    tarn_sink_abandon(sink);
    return status;
}

static tarn_status walk(packing *p, tarn_error *err)
{
    cli_progress progress;
    tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
    o.threads = p->threads;
    cli_progress_begin(&progress, "packing", !cli_has(p->args, "quiet"));
    progress.samples = true;
    o.progress = cli_progress_step;
    o.progress_context = &progress;
    TARN_TRY(tarn_collection_filter(p->collection, cli_out_keep, &p->out, err));
    tarn_status status =
        tarn_collection_walk(p->collection, &o, cli_out_put, &p->out, err);
    cli_progress_end(&progress);
    return status;
}

static int pack_files(packing *p)
{
    tarn_error err;
    tarn_collection_info info;
    tarn_collection_options o = TARN_COLLECTION_OPTIONS_INIT;
    o.class_from_dir = cli_has(p->args, "class-from-dir");
    o.notice = tell;
    o.notice_context = p;
    if (!cli_keys(p->args, &o.keys)) return CLI_USAGE;
    char *folder = p->target ? cli_out_folder(p->target) : NULL;
    o.output = folder;
    tarn_status made = tarn_collection_new(&o, &p->collection, &err);
    free(folder);
    if (made != TARN_OK) return cli_fail(&err);
    int kept = keep_classes(p);
    if (kept != CLI_OK) return kept;
    if (collect(p, &err) != TARN_OK) return cli_fail(&err);
    tarn_collection_info_get(p->collection, &info);
    if (p->told > MAX_TOLD)
        fprintf(stderr, "tarn: warning: %llu passed over in all\n",
                (unsigned long long)info.passed_over);
    if (!info.samples) {
        fprintf(stderr, "tarn: %s: no sample here\n", p->args->words[0]);
        return CLI_DATA;
    }
    if (cli_has(p->args, "dry-run")) return show_plan(p);
    int status = cli_out_open(&p->out, p->args, p->target, p->names, p->n_parts);
    if (status != CLI_OK) return status;
    if (write_classes(p, &err) != TARN_OK || walk(p, &err) != TARN_OK) {
        status = cli_fail(&err);
        /* All options are checked by now: a name that cannot be is in the data. */
        if (status == CLI_USAGE) status = CLI_DATA;
        cli_out_stop(&p->out);
        return status;
    }
    return cli_out_finish(&p->out);
}

/* --- Streams ----------------------------------------------------------------------- */

static int pack_streams(packing *p)
{
    cli_feed feed = {.args = p->args,
                     .out = &p->out,
                     .fractions = p->fractions,
                     .n_fractions = p->n_parts - 1,
                     .seed = p->seed,
                     .to = UINT64_MAX};
    if (cli_has(p->args, "class-from-dir") || cli_has(p->args, "shuffle") ||
        cli_has(p->args, "dry-run"))
        return cli_usage(p->args->command,
                         "--class-from-dir, --shuffle and --dry-run are for files, not "
                         "for tar streams");
    int status = cli_out_open(&p->out, p->args, p->target, p->names, p->n_parts);
    return status == CLI_OK ? cli_feed_streams(&feed) : status;
}

int cli_pack_files(const cli_args *args, const char *target)
{
    packing p = {.args = args, .target = target};
    int status = take_parts(&p);
    if (status == CLI_OK) status = pack_files(&p);
    tarn_collection_free(p.collection);
    return status;
}

static int run(const cli_args *args)
{
    packing p = {.args = args, .target = cli_value(args, "output")};
    if (p.target && cli_kind_of(p.target) == CLI_GNZ)
        return cli_arrays_pack(args, p.target);
    if (p.target && cli_is_pack_name(p.target)) return cli_iac_pack(args, p.target);
    int archives = 0, status = take_parts(&p);
    if (status != CLI_OK) return status;
    if (!p.target && !cli_has(args, "dry-run"))
        return cli_usage(args->command, "--output is needed");
    for (int i = 0; i < args->n_words; i++)
        archives += cli_is_archive(args->words[i]) && !cli_is_folder(args->words[i]);
    if (archives && archives < args->n_words)
        return cli_usage(args->command,
                         "tar archives and other files cannot be packed in one go");
    status = archives ? pack_streams(&p) : pack_files(&p);
    tarn_collection_free(p.collection);
    return status;
}

static const cli_option options[] = {
    CLI_OUT_OPTIONS,
    {"fold", 0, "NAME", "the fold to write (default train)"},
    {"val", 0, "FRACTION", "put this part of the samples into fold val"},
    {"test", 0, "FRACTION", "and this part into fold test"},
    {"seed", 0, "N", "which samples those are (default 0)"},
    {"shuffle", 0, "SEED", "write the samples in an order made from SEED"},
    {"class-from-dir", 0, NULL,
     "field cls: the number of the sub-folder in classes.txt, which keeps those it has"},
    {"keys", 0, "RULE",
     "base: a/b/x.jpg is sample x (default); path: a-b-x, folders joined by -"},
    {"pax", 0, NULL,
     "into a folder: names over 100 bytes and files over 8 GiB too; not for glzn"},
    {"threads", 'j', "N", "that read files (default: all cores)"},
    {"dry-run", 'n', NULL, "say what would be written"},
    {"lenient", 0, NULL, "of tar streams: pass over damage"},
    CLI_ALLOW_PIPE,
    {"as", 0, "LIST", "into .gnz: cast to a type (<f2), or NAME=TYPE,..."},
    {"metadata", 0, "JSON", "into .gnz: one JSON object, or @FILE with one"},
    {"checksums", 0, NULL, "into .gnz: keep a CRC-32C of each array for tarn verify"},
    {"header-pages", 0, "N", "into .gnz: reserve at least N pages for the header"},
    {"reserve", 0, "N", "into .gnz: reserve room for N rows in each array"},
    {"add", 0, NULL, "into .gnz: add the arrays to the file that is there"},
    CLI_IAC_OPTIONS,
    {"json", 0, NULL, "print the summary as JSON"},
    {"quiet", 'q', NULL, "no progress bar and no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn pack pictures --class-from-dir -o data/birds",
     "pictures/kiwi/07.jpg and so on, with the sub-folder as class"},
    {"tarn pack images labels -o data/birds --val 0.1 --test 0.1 --seed 7",
     "images/x.jpg and labels/x.txt are one sample; three folds"},
    {"tarn pack list.csv -o data/birds --max-size 500M",
     "a manifest: key,jpg,cls with a path and a value on each line"},
    {"curl -s https://host/x.tar.zst | tarn pack - -o data/birds",
     "a tar stream, made into shards with an index"},
    {"tarn pack pictures -o 's3://bucket/birds_%06d.tar'", "shards in an object store"},
    {"tarn pack a.npy b.npz -o x.gnz", "array a, and the arrays of b.npz by their names"},
    {"tarn pack part1.npz --append -o x.gnz", "rows behind those that are there"},
    {"tarn pack tiles --codec zstd -o tiles.iac", "one record for each file of a folder"},
    {NULL, NULL}};

const cli_command cli_pack = {
    .name = "pack",
    .words = "SOURCE...",
    .min_words = 1,
    .max_words = 1 << 20,
    .summary = "make shards and their index, a .gnz or an .iac, out of files",
    .text =
        "A SOURCE is a folder, a file, a manifest (.csv, .tsv, .jsonl), or a tar archive "
        "or stream. A file's name up to its first dot is its sample's key, the rest its "
        "field: x.jpg and x.cls are two fields of sample x.\n\n"
        "In a manifest the column \"key\" names the sample and every other column a "
        "field. "
        "Where a field holds text (txt, json, cls, ...), its value is written as it is; "
        "elsewhere it is the path of a file, from the manifest's folder. \"@PATH\" is a "
        "file in any field. In JSON lines, values that are no strings are written as "
        "JSON.\n\n"
        "Into a folder, shards get their names and their index only when all is "
        "complete: "
        "killed at any moment, a run leaves the folder as it was for readers, and "
        "--resume goes on behind the shards that were finished. Only while --overwrite "
        "changes names, at its very end, there is no fold: readers are told to have it "
        "resumed. --val and --test take "
        "exactly their part of files, chosen by key and seed alone; of a tar stream, "
        "whose length nobody knows, about that part.\n\n"
        "With a .gnz as output the sources are .npy, .npz and .gnz files. A .npy is "
        "named "
        "after its file, or with NAME=FILE. --add and --append change a .gnz in place: "
        "--add as far as the space for the header goes (--header-pages when it was "
        "made), "
        "--append as far as rows were reserved (--reserve).\n\n"
        "With an .iac as output the source is one folder, each file a record, or one "
        "manifest: JSON lines, where \"file\" is the file of a record and every other "
        "member a column.",
    .options = options,
    .examples = examples,
    .run = run,
};
