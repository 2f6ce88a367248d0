/* tarn pack: writes files, manifests and tar streams into shards with an index, with
 * tarn_pack. */
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "feed.h"

typedef struct packing {
    const cli_args *args;
    cli_out out;
    tarn_pack_split splits[2];
    tarn_samples_options stream;
    const char **include, **exclude;
    tarn_pack_rename *renames;
    cli_list *old_names; /* for each --rename */
    tarn_pack_type *types;
    cli_list type_names; /* of --types */
    cli_list fields;     /* of a dry run, in order of appearance */
    char keys[3][200];
    unsigned parts[3]; /* of the first samples */
    size_t n_keys;
} packing;

/* --- Options ----------------------------------------------------------------------- */

static int take_splits(packing *p)
{
    const char *const names[] = {"val", "test"};
    tarn_pack_options *o = &p->out.options;
    o->fold = cli_value(p->args, "fold");
    o->splits = p->splits;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tarn_pack_split *split = &p->splits[o->n_splits];
        if (!cli_fraction(p->args, names[i], &split->fraction)) return CLI_USAGE;
        if (!cli_has(p->args, names[i])) continue;
        split->fold = names[i];
        o->n_splits++;
    }
    return CLI_OK;
}

/* All values of an option that may be repeated, in a list that the caller frees. */
static const char **take_all(const cli_args *args, const char *name, size_t *out_count)
{
    const char **list = calloc((size_t)args->n_given + 1, sizeof *list);
    if (!list) cli_no_memory();
    *out_count = 0;
    while ((list[*out_count] = cli_value_at(args, name, *out_count)))
        ++*out_count;
    return list;
}

/* "jpg,jpeg,png=img" */
static bool take_rename(packing *p, const char *value, cli_list *old)
{
    tarn_pack_options *o = &p->out.options;
    const char *equals = strrchr(value, '=');
    char *names = equals ? strndup(value, (size_t)(equals - value)) : NULL;
    bool good = names && equals[1] && *names != '@' && cli_list_get(names, old);
    free(names);
    if (!good || !old->count) {
        cli_usage(p->args->command,
                  "--rename takes old names and a new one, such as jpg,jpeg,png=img, not "
                  "%s",
                  value);
        return false;
    }
    p->renames = realloc(p->renames, (o->n_renames + old->count) * sizeof *p->renames);
    if (!p->renames) cli_no_memory();
    for (size_t i = 0; i < old->count; i++) {
        cli_lower((char *)(uintptr_t)old->items[i]);
        p->renames[o->n_renames++] = (tarn_pack_rename){old->items[i], equals + 1};
    }
    o->renames = p->renames;
    return true;
}

/* "x=float,y=int" */
static bool take_types(packing *p)
{
    tarn_pack_options *o = &p->out.options;
    const char *value = cli_value(p->args, "types");
    if (!value) return true;
    if (!cli_list_get(value, &p->type_names)) return false;
    p->types = calloc(p->type_names.count + 1, sizeof *p->types);
    if (!p->types) cli_no_memory();
    for (size_t i = 0; i < p->type_names.count; i++) {
        char *item = (char *)(uintptr_t)p->type_names.items[i];
        char *equals = strrchr(item, '=');
        if (!equals || equals == item) {
            cli_usage(p->args->command,
                      "--types takes COLUMN=TYPE,..., such as dose=float, not %s", item);
            return false;
        }
        *equals = '\0';
        p->types[o->n_types++] = (tarn_pack_type){item, equals + 1};
    }
    o->types = p->types;
    return true;
}

/* Which files are packed, and under which names. */
static int take_choice(packing *p)
{
    tarn_pack_options *o = &p->out.options;
    const char *value, *check = cli_value(p->args, "check");
    o->include = p->include = take_all(p->args, "include", &o->n_include);
    o->exclude = p->exclude = take_all(p->args, "exclude", &o->n_exclude);
    p->old_names = calloc((size_t)p->args->n_given + 1, sizeof *p->old_names);
    if (!p->old_names) cli_no_memory();
    for (size_t i = 0; (value = cli_value_at(p->args, "rename", i)); i++)
        if (!take_rename(p, value, &p->old_names[i])) return CLI_USAGE;
    if (check && *check && strcmp(check, "skip") != 0)
        return cli_usage(p->args->command, "--check takes =skip or nothing, not =%s",
                         check);
    o->manifest_root = cli_value(p->args, "root");
    if (!take_types(p)) return CLI_USAGE;
    if (check) o->check = *check ? TARN_CHECK_SKIP : TARN_CHECK_STOP;
    if (!cli_number(p->args, "class-level", &o->class_level)) return CLI_USAGE;
    if (cli_has(p->args, "class-level") && !o->class_level)
        return cli_usage(p->args->command, "--class-level must be at least 1");
    return CLI_OK;
}

static void free_choice(packing *p)
{
    for (int i = 0; p->old_names && i <= p->args->n_given; i++)
        cli_list_free(&p->old_names[i]);
    free(p->old_names);
    cli_list_free(&p->type_names);
    free(p->types);
    free(p->renames);
    free(p->include);
    free(p->exclude);
}

/* Archives have one more key rule than files. */
static bool take_keys(packing *p)
{
    tarn_pack_options *o = &p->out.options;
    const char *value = cli_value(p->args, "keys");
    bool archives =
        cli_is_archive(p->args->words[0]) && !cli_is_folder(p->args->words[0]);
    bool folds = p->out.target && cli_out_is_folder(p->out.target);
    p->stream.grouping = folds ? TARN_GROUP_BASE : TARN_GROUP_PATH;
    o->stream = &p->stream;
    if (archives) return cli_stream_options(p->args, &p->stream);
    return !value || cli_keys(p->args, &o->keys);
}

static int take_options(packing *p)
{
    tarn_pack_options *o = &p->out.options;
    int status = cli_out_init(&p->out, p->args, p->out.target);
    if (status == CLI_OK) status = take_splits(p);
    if (status == CLI_OK) status = take_choice(p);
    if (status != CLI_OK) return status;
    o->shuffle = cli_has(p->args, "shuffle");
    o->class_from_dir =
        cli_has(p->args, "class-from-dir") || cli_has(p->args, "class-level");
    o->dry_run = cli_has(p->args, "dry-run");
    return cli_number64(p->args, "seed", &o->seed) &&
                   cli_number64(p->args, "shuffle", &o->shuffle_seed) && take_keys(p)
               ? CLI_OK
               : CLI_USAGE;
}

/* --- A dry run --------------------------------------------------------------------- */

static void note_field(packing *p, const char *name)
{
    for (size_t i = 0; i < p->fields.count; i++)
        if (strcmp(p->fields.items[i], name) == 0) return;
    const char **grown =
        realloc(p->fields.items, (p->fields.count + 1) * sizeof *p->fields.items);
    if (!grown) cli_no_memory();
    p->fields.items = grown;
    p->fields.items[p->fields.count++] = strdup(name);
}

static tarn_status note_sample(void *context, unsigned part, const char *key,
                               const tarn_field *fields, size_t count, tarn_error *err)
{
    packing *p = context;
    (void)err;
    for (size_t i = 0; i < count; i++)
        note_field(p, fields[i].name);
    if (p->n_keys == sizeof p->keys / sizeof p->keys[0]) return TARN_OK;
    p->parts[p->n_keys] = part;
    tarn_printable(p->keys[p->n_keys++], sizeof p->keys[0], key, strlen(key));
    return TARN_OK;
}

static void show_plan(const packing *p)
{
    const tarn_pack_report *r = &p->out.report;
    uint64_t samples = 0;
    char shown[200];
    for (size_t i = 0; i < r->n_folds; i++)
        samples += r->folds[i].samples;
    cli_print("%s from %s and %s; nothing written\n", cli_count(samples, "sample"),
              cli_count(r->files, "file"), cli_count(r->values, "value"));
    for (size_t i = 0; i < r->n_folds; i++)
        cli_print("  fold %s: %s\n", r->folds[i].fold,
                  cli_count(r->folds[i].samples, "sample"));
    cli_print("  fields:");
    for (size_t i = 0; i < p->fields.count; i++)
        cli_print("%s %s", i ? "," : "",
                  tarn_printable(shown, sizeof shown, p->fields.items[i],
                                 strlen(p->fields.items[i])));
    cli_print("\n");
    for (size_t i = 0; i < p->n_keys; i++)
        cli_print("  %s -> %s\n", p->keys[i], r->folds[p->parts[i]].fold);
    if (r->classes) cli_print("  classes: %u\n", r->classes);
    if (p->out.options.check)
        cli_print("  checked: %s cannot be decoded\n", cli_count(r->bad, "field"));
}

/* --- A record pack ----------------------------------------------------------------- */

static int show_progress(void *progress, uint64_t done, uint64_t total, uint64_t bytes)
{
    (void)bytes;
    return cli_progress_step(progress, done, total);
}

static int pack_records(const cli_args *args, const char *output)
{
    tarn_error err;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    packing p = {.args = args, .out.args = args, .out.options = TARN_PACK_OPTIONS_INIT};
    cli_progress progress;
    int status = cli_iac_options(args, &o);
    if (status == CLI_OK) status = take_choice(&p);
    cli_progress_begin(&progress, "packing", !cli_has(args, "quiet"));
    progress.samples = true;
    p.out.options.records = &o;
    p.out.options.progress = show_progress;
    p.out.options.progress_context = &progress;
    tarn_pack_report *report = &p.out.report;
    if (status == CLI_OK &&
        tarn_pack(args->words, (size_t)args->n_words, output, &p.out.options, report,
                  sizeof *report, &err) != TARN_OK)
        status = cli_out_fail(&p.out, &err);
    cli_progress_end(&progress);
    if (status == CLI_OK) cli_iac_print_summary(args, report->folds[0].samples, output);
    free_choice(&p);
    return status;
}

/* --- The command ------------------------------------------------------------------- */

int cli_pack_files(const cli_args *args, const char *target)
{
    packing p = {.args = args, .out.target = target, .stream = TARN_SAMPLES_OPTIONS_INIT};
    int status = take_options(&p);
    if (target) p.out.hint = cli_stream_hint(target);
    p.out.options.sample = note_sample;
    p.out.options.sample_context = &p;
    if (status == CLI_OK)
        status = cli_out_run(&p.out, args->words, (size_t)args->n_words);
    free_choice(&p);
    if (status == CLI_OK && p.out.options.dry_run) show_plan(&p);
    for (size_t i = 0; i < p.fields.count; i++)
        free((char *)(uintptr_t)p.fields.items[i]);
    free(p.fields.items);
    return status;
}

/* What each option applies to. */
#define OF_ROLLS   CLI_TO_FOLD | CLI_TO_SHARDS, "folders and numbered archives"
#define OF_SAMPLES CLI_TO_SAMPLES, "folders and archives"
#define OF_GNZ     CLI_TO_GNZ, ".gnz"
#define OF_IAC     CLI_TO_IAC, ".iac"
static const cli_applies of_targets[] = {
    {"max-count", OF_ROLLS},
    {"max-size", OF_ROLLS},
    {"resume", CLI_TO_FOLD, "folders"},
    {"task", CLI_TO_FOLD, "folders"},
    {"append", CLI_TO_FOLD | CLI_TO_GNZ, "folders and .gnz"},
    {"fold", CLI_TO_FOLD, "folders"},
    {"val", CLI_TO_FOLD, "folders"},
    {"test", CLI_TO_FOLD, "folders"},
    {"seed", CLI_TO_FOLD, "folders"},
    {"shuffle", OF_SAMPLES},
    {"class-from-dir", OF_SAMPLES},
    {"class-level", OF_SAMPLES},
    {"include", CLI_TO_SAMPLES | CLI_TO_IAC, "folders, archives and .iac"},
    {"exclude", CLI_TO_SAMPLES | CLI_TO_IAC, "folders, archives and .iac"},
    {"rename", OF_SAMPLES},
    {"root", CLI_TO_SAMPLES | CLI_TO_IAC, "folders, archives and .iac"},
    {"check", OF_SAMPLES},
    {"as-file", OF_SAMPLES},
    {"types", OF_IAC},
    {"keys", OF_SAMPLES},
    {"pax", OF_SAMPLES},
    {"threads", OF_SAMPLES},
    {"dry-run", OF_SAMPLES},
    {"lenient", OF_SAMPLES},
    {"allow-pipe", OF_SAMPLES},
    {"as", OF_GNZ},
    {"metadata", OF_GNZ},
    {"checksums", OF_GNZ},
    {"header-pages", OF_GNZ},
    {"reserve", OF_GNZ},
    {"add", OF_GNZ},
    {"codec", OF_IAC},
    {"level", CLI_TO_IAC | CLI_TO_SHARDS | CLI_TO_ARCHIVE,
     ".iac and compressed archives"},
    {"version", OF_IAC},
    {"header", OF_IAC},
    {"json", CLI_TO_SAMPLES | CLI_TO_IAC, "folders, archives and .iac"},
    {NULL, 0, NULL}};

/* Options that have no effect for these sources, or without another option. */
static int refuse_idle(const cli_args *args, const char *target)
{
    bool streams = false, pipe = target && strncmp(target, "pipe:", 5) == 0;
    for (int i = 0; i < args->n_words; i++)
        streams |= cli_is_archive(args->words[i]) && !cli_is_folder(args->words[i]);
    if (cli_has(args, "seed") && !cli_has(args, "val") && !cli_has(args, "test"))
        return cli_usage(
            args->command,
            "--seed applies only with --val or --test; --shuffle SEED has its own seed");
    if (streams && cli_has(args, "check"))
        return cli_usage(args->command,
                         "--check reads files; use tarn verify for archives");
    if (!streams && cli_has(args, "lenient"))
        return cli_usage(args->command, "--lenient applies to archives, not to files");
    if (!streams && !pipe && cli_has(args, "allow-pipe"))
        return cli_usage(args->command,
                         "--allow-pipe applies to pipe:COMMAND, not to files");
    return CLI_OK;
}

/* A table of samples would become one sample, which is hardly what was meant. */
static int refuse_tables(const cli_args *args)
{
    for (int i = 0; i < args->n_words && !cli_has(args, "as-file"); i++)
        if (cli_ends_with(args->words[i], ".parquet") && !cli_is_folder(args->words[i]))
            return cli_usage(
                args->command,
                "%s: a Parquet file is read as a manifest only in Python, by "
                "tarn.pack; --as-file packs it as one field of a sample",
                args->words[i]);
    return CLI_OK;
}

static int run(const cli_args *args)
{
    const char *target = cli_value(args, "output");
    int status = target ? cli_refuse_foreign(args, of_targets, target) : CLI_OK;
    if (status == CLI_OK) status = refuse_idle(args, target);
    if (status == CLI_OK) status = refuse_tables(args);
    if (status != CLI_OK) return status;
    if (target && cli_kind_of(target) == CLI_GNZ) return cli_arrays_pack(args, target);
    if (target && cli_is_pack_name(target)) return pack_records(args, target);
    return cli_pack_files(args, target);
}

static const cli_option options[] = {
    CLI_HEADING("Sources"),
    {"include", 0, "GLOB", "only files that match, such as '*.jpg'; may be repeated"},
    {"exclude", 0, "GLOB", "skip files that match; may be repeated"},
    {"rename", 0, "OLD,...=NEW", "other names for fields, as in jpg,jpeg,png=img"},
    {"check", 0, "[=skip]",
     "decode all fields first; if any are bad, pack nothing, or skip their samples"},
    {"keys", 0, "RULE",
     "base: a/b/x.jpg is sample x (default); path: a-b-x, folders joined by -"},
    {"class-from-dir", 0, NULL,
     "add field cls: the sub-folder's number in classes.txt (existing numbers stay)"},
    {"class-level", 0, "N",
     "the same, with the N-th folder below the source as the class"},
    {"root", 0, "DIR", "folder of relative paths in manifests (default: the manifest's)"},
    {"as-file", 0, NULL, "pack a .parquet file as one field of a sample"},
    {"lenient", 0, NULL, "tar streams: skip damaged parts"},
    CLI_ALLOW_PIPE,
    CLI_HEADING("Target"),
    CLI_OUT_OPTIONS,
    {"fold", 0, "NAME", "name of the fold to write (default train)"},
    {"val", 0, "FRACTION", "put this fraction of the samples into fold val"},
    {"test", 0, "FRACTION", "put this fraction of the samples into fold test"},
    {"seed", 0, "N", "seed for choosing the val and test samples (default 0)"},
    {"shuffle", 0, "SEED", "write the samples in random order, derived from SEED"},
    {"pax", 0, NULL,
     "allow names over 100 bytes and files over 8 GiB in shards; glzn cannot read these"},
    CLI_HEADING("Target .gnz"),
    {"as", 0, "LIST", "cast to a type (<f2), or NAME=TYPE,..."},
    {"metadata", 0, "JSON", "store a JSON object, or @FILE with one"},
    {"checksums", 0, NULL, "store a CRC-32C of each array for tarn verify"},
    {"header-pages", 0, "N", "reserve at least N pages for the header"},
    {"reserve", 0, "N", "reserve room for N rows in each array"},
    {"add", 0, NULL, "add arrays to an existing file"},
    CLI_HEADING("Target .iac, and compression"),
    {"types", 0, "LIST",
     ".iac: types of a manifest's columns: a=int,b=float, text, bool, timestamp"},
    CLI_IAC_OPTIONS,
    CLI_HEADING("Running"),
    CLI_TASK,
    {"threads", 'j', "N", "number of reader threads (default: all cores)"},
    {"dry-run", 'n', NULL, "show what would be written"},
    {"json", 0, NULL, "print the summary as JSON"},
    {"quiet", 'q', NULL, "no progress bar and no summary"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn pack pictures --class-from-dir -o data/birds",
     "pictures/kiwi/07.jpg etc., with the sub-folder as class"},
    {"tarn pack images labels -o data/birds --val 0.1 --test 0.1 --seed 7",
     "images/x.jpg and labels/x.txt form one sample; three folds"},
    {"tarn pack list.csv -o data/birds --max-size 500M",
     "a manifest: key,jpg,cls with a path and a value on each line"},
    {"tarn pack imagenet/train --class-from-dir --rename jpg,jpeg,png=img --check=skip "
     "-o data/in:train",
     "one field img for all images; samples with damaged images are left out"},
    {"tarn pack photos --include '*.jpg' --exclude 'drafts' -o data/photos",
     "only some files of a folder"},
    {"curl -s https://host/x.tar.zst | tarn pack - -o data/birds",
     "convert a tar stream into shards with an index"},
    {"tarn pack pictures -o 's3://bucket/birds_%06d.tar'",
     "write shards to an object store"},
    {"tarn pack a.npy b.npz -o x.gnz",
     "array a, and the arrays of b.npz under their names"},
    {"tarn pack part1.npz --append -o x.gnz", "append rows"},
    {"tarn pack tiles --codec zstd -o tiles.iac", "one record per file of a folder"},
    {"tarn pack slides.csv --types dose=float,taken=timestamp --codec png -o slides.iac",
     "a manifest: file,dose,taken; the header says that payloads are PNGs"},
    {NULL, NULL}};

const cli_command cli_pack = {
    .name = "pack",
    .words = "SOURCE...",
    .min_words = 1,
    .max_words = 1 << 20,
    .summary = "pack files into shards with an index, a .gnz or an .iac",
    .text =
        "A SOURCE is a folder, a file, a manifest (.csv, .tsv, .jsonl), or a tar "
        "archive or stream. A file's name up to the first dot is the key of its sample, "
        "and the rest is the field: x.jpg and x.cls are two fields of sample x.\n\nIn a "
        "manifest, the column \"key\" holds the sample's key, and each other column is "
        "a field. For fields that hold text (txt, json, cls, ...), the value itself is "
        "stored. For all other fields, the value is the path of a file, relative to the "
        "manifest's folder. \"@PATH\" refers to a file in any field. In JSON lines, "
        "values other than strings are stored as JSON.\n\n--include and --exclude "
        "choose files in folders, with the wildcards *, ? and [abc]. A pattern without "
        "a slash is matched with the name of the file and of each folder above it, up "
        "to the source: --exclude thumbs leaves out all folders of this name. A pattern "
        "with a slash is matched with the path below the source, and * does not match a "
        "slash: --include 'train/*' takes all files below train. Names that begin with "
        "a dot are never packed into shards.\n\nWith --class-from-dir, files directly "
        "in the source have no class and are skipped with a warning. If all sub-folders "
        "have usual names of folds, such as train and val, this is an error: pack each "
        "of them into its own fold (tarn pack pictures/train --class-from-dir -o "
        "data/birds:train), or use --class-level 2 for the folders below "
        "them.\n\n--check decodes every image and every other field that has a codec, "
        "on all cores, and reports each field that cannot be decoded, with its path. If "
        "there are any, nothing is packed and the exit status is 1. With --check=skip, "
        "their samples are left out. Both can be combined with --dry-run.\n\nIn a "
        "folder, shards and index get their final names only after everything is "
        "complete. If a run is killed, readers see the folder unchanged, and --resume "
        "continues after the finished shards. During the final renames of --overwrite "
        "the fold is briefly absent: readers get an error that says to try again or, if "
        "the writer was killed just then, to resume it. --val and --test select their "
        "exact fraction of the files, by key and seed only; for tar streams, whose "
        "length is unknown, approximately.\n\nIf the output is a .gnz, the sources are "
        ".npy, .npz and .gnz files. The array of a .npy is named after its file, or "
        "with NAME=FILE. --add and --append change a .gnz in place: --add can use the "
        "header space that was reserved with --header-pages, --append the rows that "
        "were reserved with --reserve.\n\nIf the output is an .iac, the source is one "
        "folder, with a record per file, or one manifest, in which the column \"file\" "
        "holds the path of the record's file and all other columns become columns of "
        "the record pack. In JSON lines, their types are those of the values: integers, "
        "floats (also mixed with integers), booleans, text, and lists of one of these. "
        "Objects, and values of several types, are an error that names the line, unless "
        "--types makes the column text. In CSV and TSV all columns are text, unless "
        "--types says otherwise. A codec such as png or jpeg only records what the "
        "files are; they are stored unchanged.",
    .options = options,
    .examples = examples,
    .run = run,
};
